//! Congestion trees of Paper IV on a small fat tree.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::Outcome;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Forest, Pattern, Traffic};

const BASE: Forest = Forest { hotspots: 2, contributors: 75, victims: 25, mixed: 0, p: 0, lifetime: None };

fn network(forest: Forest) -> (Topology, Config) {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2}"#);
    let mut config = config(us(4_000));
    config.host.injection_rate = Some(Rate(13_500_000_000));
    config.host.drain_rate = Some(Rate(13_600_000_000));
    let traffic = pattern(Pattern::Forest(forest));
    config.traffic = vec![Traffic { message: Some(Bytes(4096)), name: Some("forest".into()), ..traffic }];
    (topology, config)
}

fn received(outcome: &Outcome, group: &str) -> f64 {
    let group = outcome.summary.groups.iter().find(|found| found.group == group);
    group.unwrap_or_else(|| panic!("{:?}", outcome.summary.groups)).received_gbit_s
}

#[test]
fn static_trees_saturate_the_hotspots_and_starve_the_others() {
    let (topology, config) = network(BASE);
    let outcome = run(&topology, &config);
    let sizes: Vec<(&str, usize)> = outcome.summary.groups.iter().map(|g| (g.group, g.hosts)).collect();
    assert_eq!(sizes, [("hotspots", 2), ("other hosts", 14), ("contributors", 12), ("victims", 4)]);
    let hotspots = received(&outcome, "hotspots");
    assert!((13.4..13.8).contains(&hotspots), "the drain rate and the filled buffers: {hotspots}");
    let alone = run(&topology, &network(Forest { contributors: 0, ..BASE }).1);
    assert!(received(&outcome, "other hosts") < 0.7 * received(&alone, "other hosts"));
    let classes: Vec<&str> = outcome.summary.latency.iter().map(|l| l.class.as_str()).collect();
    assert!(classes.contains(&"forest: victims"), "{classes:?}");
    assert_eq!(outcome, run(&topology, &config), "the same seed gives the same");
}

#[test]
fn mixed_hosts_send_each_share_while_the_other_is_free() {
    // Each of four mixed hosts sends 30 % of 13.5 Gbit/s to one of two hotspots, so neither is overloaded.
    let forest = Forest { contributors: 0, victims: 0, mixed: 25, p: 30, ..BASE };
    let outcome = run(&network(forest.clone()).0, &network(forest).1);
    let group = &outcome.summary.groups[2];
    assert_eq!((group.group, group.hosts), ("mixed hosts", 4));
    assert_near(group.sent_gbit_s, 13.5, 0.01, "the rate of a host");
}

#[test]
fn moving_hotspots_have_no_permanent_hotspot() {
    let (topology, config) = network(Forest { lifetime: Some(us(250)), ..BASE });
    let outcome = run(&topology, &config);
    assert!(outcome.summary.groups.iter().all(|group| group.group != "hotspots"));
    let hot = outcome.summary.hosts.iter().filter(|host| host.received_gbit_s > 13.0).count();
    assert_eq!(hot, 0, "no host is always a hotspot");
    let standing = run(&topology, &network(BASE).1);
    assert!(outcome.summary.throughput_gbit_s > standing.summary.throughput_gbit_s);
}

#[test]
fn an_offered_rate_is_kept() {
    let (topology, mut config) =
        network(Forest { hotspots: 4, contributors: 0, victims: 50, mixed: 50, p: 20, ..BASE });
    config.traffic[0].rate = Some(Rate::from_gbit(2));
    config.traffic[0].start = Time(1_000_000_000);
    config.warmup = us(1_000);
    let outcome = run(&topology, &config);
    assert_near(outcome.summary.throughput_gbit_s, 32.0, 0.01, "16 hosts at 2 Gbit/s");
}

#[test]
fn notifications_can_have_a_separate_lane() {
    let (topology, mut config) = network(Forest { contributors: 0, victims: 0, mixed: 100, p: 90, ..BASE });
    config.congestion = ib_cc();
    config.lanes.count = 2;
    let shared = run(&topology, &config);
    config.lanes.control = Some(1);
    let own = run(&topology, &config);
    assert!(own.summary.becn_received > 0);
    assert_ne!(own.summary.becn_received, shared.summary.becn_received);
    config.lanes.control = Some(0);
    assert_eq!(run(&topology, &config), shared, "all data uses the first lane");
}
