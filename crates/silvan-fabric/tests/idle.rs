//! Hosts without traffic have no effect, wherever they are in the network.

#![allow(clippy::unwrap_used, clippy::panic)]

use silvan_congestion::marking::{InBandTelemetry, Marking, MarkingPattern, Red};
use silvan_congestion::reaction::{
    Dcqcn, Dctcp, Hpcc, Lipd, Nscc, PccRtt, RateControl, Rccc, Reaction, StaticWindow, Swift, Timely,
};
use silvan_congestion::{Congestion, Mechanism, Notification};
use silvan_engine::{Bytes, Time};
use silvan_fabric::RoundTrips;
use silvan_fabric::config::Config;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Pattern, Traffic};

use crate::common::{config, flow, pattern, run, tables, topology, us};

/// Two switches with three hosts each; with `idle`, also a host behind three more switches, over slow and
/// long links.
fn network(idle: bool) -> Topology {
    let (mut hosts, mut switches, mut links) = (vec![], vec![("S", 5), ("T", 5)], vec![]);
    for number in 1..=3 {
        hosts.extend([format!("A{number}"), format!("B{number}")]);
        links.push(format!(r#"{{"from": "A{number}", "to": "S:{number}"}}"#));
        links.push(format!(r#"{{"from": "B{number}", "to": "T:{number}"}}"#));
    }
    links.push(r#"{"from": "S:4", "to": "T:4"}"#.to_owned());
    if idle {
        hosts.push("Z".to_owned());
        switches.extend([("U", 2), ("V", 2), ("W", 2)]);
        for ends in [["T:5", "U:1"], ["U:2", "V:1"], ["V:2", "W:1"], ["W:2", "Z"]] {
            links.push(format!(
                r#"{{"from": "{}", "to": "{}", "delay": "9 us", "rate": "1 Gbit/s"}}"#,
                ends[0], ends[1]
            ));
        }
    }
    let switches: Vec<String> =
        switches.iter().map(|(name, ports)| format!(r#"{{"name": "{name}", "ports": {ports}}}"#)).collect();
    topology(&format!(
        r#"{{"kind": "custom", "hosts": {hosts:?}, "switches": [{}], "link_rate": "25 Gbit/s", "link_delay": "300 ns",
            "links": [{}]}}"#,
        switches.join(", "),
        links.join(", ")
    ))
}

/// Two flows to one host, and a pattern to two others.
fn loaded(congestion: Congestion) -> Config {
    let mut config = config(us(300));
    config.packet.mtu = Bytes(1_000);
    config.switch.buffer = Bytes(1 << 20);
    config.measure.interval = us(50);
    config.flows = vec![flow("A1", "B1"), flow("A2", "B1")];
    config.traffic = vec![Traffic {
        hosts: Some(vec!["A3".to_owned(), "B2".to_owned()]),
        ..pattern(Pattern::Hotspots { to: vec!["A2".to_owned(), "B3".to_owned()] })
    }];
    config.congestion = congestion;
    config
}

fn parts(marking: Marking, notification: Notification, reaction: Reaction) -> Congestion {
    let (marking, reaction) = (Some(marking), Some(reaction));
    Congestion { marking, notification: Some(notification), reaction, ..Congestion::default() }
}

#[test]
fn an_idle_host_behind_unused_switches_changes_nothing() {
    let red = || {
        Marking::Red(Red {
            min: Bytes(10_000),
            max: Bytes(40_000),
            percent: 50,
            pattern: MarkingPattern::Regular,
            ..Red::default()
        })
    };
    let each = |reaction| parts(red(), Notification::AckEach, reaction);
    let credits = |rccc| parts(red(), Notification::AckGrant, Reaction::Rccc(rccc));
    let both =
        Rccc { nscc: Some(Nscc::default()), oversubscribed: Some(Default::default()), ..Rccc::default() };
    let mechanism = |mechanism| Congestion { mechanism, ..Congestion::default() };
    let telemetry = Marking::Telemetry(InBandTelemetry {});
    for congestion in [
        each(Reaction::Swift(Swift::default())),
        each(Reaction::Timely(Timely::default())),
        each(Reaction::Dctcp(Dctcp::default())),
        each(Reaction::Nscc(Nscc::default())),
        each(Reaction::PccRtt(PccRtt::default())),
        each(Reaction::Lipd(Lipd::default())),
        each(Reaction::Aimd(RateControl::default())),
        each(Reaction::StaticWindow(StaticWindow::default())),
        parts(telemetry, Notification::AckEach, Reaction::Hpcc(Hpcc::default())),
        parts(red(), Notification::Cnp, Reaction::Dcqcn(Dcqcn::default())),
        credits(Rccc::default()),
        credits(both),
        mechanism(Mechanism::Mvcm),
        mechanism(Mechanism::Renato),
        mechanism(Mechanism::None),
    ] {
        let of = |idle| {
            let summary = run(&network(idle), &loaded(congestion.clone())).summary;
            let (flows, latency) = (&summary.flows, &summary.latency);
            format!("{} packets, {flows:?}, {latency:?}", summary.packets_delivered)
        };
        assert_eq!(of(true), of(false), "{congestion:?}");
    }
}

#[test]
fn the_round_trip_is_that_of_hosts_that_communicate() {
    let topology = network(true);
    let trip = |config: &Config| *RoundTrips::new(&topology, &tables(&topology), config).longest();
    // A byte takes 320 ps at 25 Gbit/s.
    let mut used = loaded(Congestion::default());
    let found = trip(&used);
    assert_eq!((found.hops, found.stages, found.radix), (2, 1, 3));
    let packet = &used.packet;
    let spans = [packet.mtu.0 + packet.header.0, packet.control.0].map(|bytes| bytes * 320);
    assert_eq!(found.shortest, Time(2 * (3 * 300_000 + 2 * used.switch.latency.0) + spans[0] + spans[1]));
    used.traffic.clear();
    used.flows = vec![flow("A1", "A2")];
    let found = trip(&used);
    assert_eq!((found.hops, found.stages, found.radix), (1, 1, 3), "one switch");
    used.flows = vec![flow("A1", "Z")];
    let found = trip(&used);
    assert_eq!((found.hops, found.rate.0), (5, 1_000_000_000));
    // The links of A1 and from S to T are short. The packet occupies the first link of 1 Gbit/s 25 times as long as a
    // fast one, and the acknowledgement waits at the first fast link until its tail can follow.
    let flight = 2 * (2 * 300_000 + 4 * 9_000_000 + 5 * used.switch.latency.0);
    assert_eq!(found.shortest, Time(flight + 25 * (spans[0] + spans[1])));
    assert_eq!([found.pair.0, found.pair.1].map(|host| &topology.hosts[host as usize].name), ["A1", "Z"]);
    used.flows.clear();
    used.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
    assert_eq!(trip(&used).hops, 5, "any host may be a destination");
    used.traffic = vec![Traffic { hosts: Some(vec!["A1".to_owned()]), ..pattern(Pattern::Shift { by: 2 }) }];
    assert_eq!(trip(&used).hops, 1, "A1 sends to A2");
    used.traffic.clear();
    assert_eq!(trip(&used).hops, 5, "without traffic, all hosts count");
}

/// Two stars that a link joins, the second one with long and slow links.
fn pods() -> Topology {
    let (mut hosts, mut links) =
        (vec![], vec![r#"{"from": "S:5", "to": "T:5", "delay": "20 us"}"#.to_owned()]);
    for number in 1..=4 {
        hosts.extend([format!("A{number}"), format!("B{number}")]);
        links.push(format!(r#"{{"from": "A{number}", "to": "S:{number}"}}"#));
        links.push(format!(
            r#"{{"from": "B{number}", "to": "T:{number}", "delay": "7 us", "rate": "10 Gbit/s"}}"#
        ));
    }
    topology(&format!(
        r#"{{"kind": "custom", "hosts": {hosts:?}, "link_rate": "25 Gbit/s", "link_delay": "300 ns", "links": [{}],
            "switches": [{{"name": "S", "ports": 5}}, {{"name": "T", "ports": 5}}]}}"#,
        links.join(", ")
    ))
}

#[test]
fn traffic_that_shares_no_link_changes_nothing() {
    let topology = pods();
    for mechanism in Mechanism::ALL {
        let of = |others: bool| {
            let mut config = loaded(Congestion { mechanism, ..Congestion::default() });
            config.traffic.clear();
            let to_first =
                |pod: &str| [2, 3, 4].map(|from| flow(&format!("{pod}{from}"), &format!("{pod}1")));
            config.flows = to_first("A").to_vec();
            config.flows.extend(to_first("B").into_iter().filter(|_| others));
            let summary = run(&topology, &config).summary;
            format!("{:?}", summary.flows.iter().take(3).collect::<Vec<_>>())
        };
        assert_eq!(of(true), of(false), "{mechanism:?}");
    }
}
