//! The longest round trip between the hosts of a network that communicate.

use silvan_congestion::round_trip::RoundTrip;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::routing::{Analysis, Tables, analyze_lanes_among};
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::{Pattern, Traffic};

use super::HostNames;
use crate::config::{Config, ForwardingMode};

/// Computes an upper bound of the round trips between hosts that send or receive. The bound assumes a route
/// with the most hops of any route between two of these hosts, on which all links have the largest delay of a
/// link on these routes. Hosts without traffic have no effect, unless fewer than two hosts have traffic.
#[must_use]
pub fn round_trip(topology: &Topology, tables: &Tables, config: &Config) -> RoundTrip {
    let hosts = communicating(topology, config);
    let analysis = analyze_lanes_among(topology, tables, config.path_lanes.as_deref(), &hosts);
    among(topology, &hosts, &analysis, config)
}

/// Same as [`round_trip`], if the routes between all hosts have already been analyzed.
#[must_use]
pub fn analyzed_round_trip(
    topology: &Topology,
    tables: &Tables,
    analysis: &Analysis,
    config: &Config,
) -> RoundTrip {
    let hosts = communicating(topology, config);
    if hosts.iter().all(|&communicates| communicates) {
        return among(topology, &hosts, analysis, config);
    }
    round_trip(topology, tables, config)
}

/// The round trip of some hosts, for the analysis of the routes between them.
fn among(topology: &Topology, among: &[bool], analysis: &Analysis, config: &Config) -> RoundTrip {
    let hops = analysis.hops.iter().rposition(|&pairs| pairs > 0).unwrap_or(0) as u32;
    let is_used = |loads: &[u64; 2]| loads.iter().any(|&flows| flows > 0);
    let links = topology.links.iter().zip(&analysis.loads);
    let delay = links.filter(|(_, loads)| is_used(loads)).map(|(link, _)| link.delay.0).max().unwrap_or(0);
    let (mut hosts, mut rate) = (vec![0u32; topology.switches.len()], None);
    let mut is_used = vec![false; topology.switches.len()];
    for link in &topology.links {
        for (from, to) in link.channels() {
            let (NodeRef::Host(host), NodeRef::Switch(switch)) = (from.node, to.node) else { continue };
            hosts[switch as usize] += 1;
            if among[host as usize] {
                is_used[switch as usize] = true;
                rate = Some(rate.map_or(link.rate, |rate: Rate| rate.min(link.rate)));
            }
        }
    }
    let radix = hosts.iter().zip(&is_used).filter(|(_, is_used)| **is_used).map(|(&hosts, _)| hosts).max();
    let one_way = u64::from(hops + 1) * delay + u64::from(hops) * config.switch.latency.0;
    RoundTrip {
        hops,
        stages: if topology.has_one_way_links() { hops } else { hops.div_ceil(2) },
        radix: radix.unwrap_or(1),
        flight: Time(2 * one_way),
        data: Bytes(config.packet.mtu.0 + config.packet.header.0),
        ack: config.packet.control,
        rate: rate.unwrap_or(Rate::from_gbit(1)),
        transmissions: if config.switch.forwarding == ForwardingMode::StoreAndForward { hops + 1 } else { 1 },
    }
}

/// For each host, whether it may send or receive. If fewer than two hosts do, all of them count.
fn communicating(topology: &Topology, config: &Config) -> Vec<bool> {
    let names = HostNames::new(topology);
    let mut found = vec![false; topology.hosts.len()];
    // Names that do not exist are rejected elsewhere.
    let mut add = |name: &String| {
        if let Ok(host) = names.find(name, "") {
            found[host as usize] = true;
        }
    };
    config.flows.iter().for_each(|flow| [&flow.from, &flow.to].into_iter().for_each(&mut add));
    for traffic in &config.traffic {
        traffic.hosts.iter().flatten().for_each(&mut add);
        if let Pattern::Hotspots { to } = &traffic.pattern {
            to.iter().for_each(&mut add);
        }
    }
    for &host in config.jobs.iter().flat_map(|job| &job.hosts) {
        found[host as usize] = true;
    }
    let end_hosts = topology.end_hosts() as usize;
    for traffic in &config.traffic {
        add_destinations(traffic, end_hosts, &names, &mut found);
    }
    if found.iter().filter(|&&communicates| communicates).count() < 2 {
        found.fill(true);
    }
    found
}

/// Adds the hosts that a pattern uses without naming them: its senders if it names none, and its
/// destinations.
fn add_destinations(traffic: &Traffic, hosts: usize, names: &HostNames<'_>, found: &mut [bool]) {
    match (&traffic.pattern, &traffic.hosts) {
        (Pattern::Hotspots { .. }, Some(_)) => {}
        (Pattern::Shift { by }, Some(senders)) => {
            for sender in senders.iter().filter_map(|name| names.find(name, "").ok()) {
                found[(sender as usize + *by as usize % hosts) % hosts] = true;
            }
        }
        // Destinations of the other patterns may be any hosts.
        _ => found[..hosts].fill(true),
    }
}
