//! Reads topologies in the format of HPCC's simulator, which many simulators of RDMA over Ethernet share:
//!
//! ```text
//! nodes switches links
//! number of each switch
//! node node rate delay error-rate                  (for each link)
//! ```
//!
//! Nodes are named by their numbers. Ports are numbered in the order of the links.

use std::collections::HashMap;

use silvan_engine::{Rate, Time};
use silvan_network::topology::{
    End, HOST_PORTS, Host, Link, MAX_HOSTS, MAX_LINKS, MAX_SWITCH_PORTS, MAX_SWITCHES, NodeRef, Shape,
    Switch, Topology,
};

use super::{ImportError, clip};

/// Whether a text begins with a line of three numbers, as topology files of HPCC's simulator do.
#[must_use]
pub fn is_hpcc(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let fields: Vec<&str> = first.split_whitespace().collect();
    fields.len() == 3 && fields.iter().all(|field| field.parse::<u32>().is_ok())
}

/// Reads a topology; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is not in this format, a host does not have exactly one link, a link has errors, or the network exceeds
/// the limits.
pub fn parse(text: &str, origin: &str) -> Result<Topology, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let mut next =
        |what: &str| lines.next().ok_or_else(|| ImportError::new(origin, format!("ends before {what}")));
    let (number, first) = next("the numbers of nodes, switches and links")?;
    let sizes: Vec<u64> = first.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [nodes, switch_count, link_count] = sizes[..] else {
        let what = format!("{} must be the numbers of nodes, switches and links", clip(first));
        return Err(ImportError::at(origin, number, what));
    };
    let host_count = nodes.checked_sub(switch_count).unwrap_or(u64::MAX);
    if host_count > MAX_HOSTS || switch_count > MAX_SWITCHES || link_count > MAX_LINKS {
        let what = format!(
            "{nodes} nodes, {switch_count} of them switches, and {link_count} links; at most {MAX_HOSTS} hosts, \
             {MAX_SWITCHES} switches and {MAX_LINKS} links are possible"
        );
        return Err(ImportError::at(origin, number, what));
    }
    let mut at = HashMap::new();
    let mut switches: Vec<Switch> = Vec::new();
    if switch_count > 0 {
        let (number, second) = next("the numbers of the switches")?;
        for field in second.split_whitespace() {
            let node = node_number(field, nodes).map_err(|what| ImportError::at(origin, number, what))?;
            if at.insert(node, NodeRef::Switch(switches.len() as u32)).is_some() {
                return Err(ImportError::at(origin, number, format!("switch {node} is in the list twice")));
            }
            switches.push(Switch { name: node.to_string(), ports: 0, lid: None, lmc: 0, guid: None });
        }
        if switches.len() as u64 != switch_count {
            let what = format!("{} switches; the first line announces {switch_count}", switches.len());
            return Err(ImportError::at(origin, number, what));
        }
    }
    let mut hosts: Vec<Host> = Vec::new();
    for node in 0..nodes as u32 {
        at.entry(node).or_insert_with(|| {
            hosts.push(Host { name: node.to_string(), lid: None, lmc: 0, guid: None });
            NodeRef::Host(hosts.len() as u32 - 1)
        });
    }
    let mut wired = vec![false; hosts.len()];
    let mut links = Vec::new();
    for count in 0..link_count {
        let (number, line) = next(&format!("link {} of {link_count}", count + 1))?;
        let wrong = |what: String| ImportError::at(origin, number, what);
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [a, b, rate, delay, errors] = fields[..] else {
            return Err(wrong(format!(
                "{} is no link; a line has two nodes, rate, delay and error rate",
                clip(line)
            )));
        };
        let rate =
            spaced(rate, &[("Gbps", "Gbit/s"), ("Mbps", "Mbit/s"), ("Kbps", "kbit/s"), ("bps", "bit/s")])
                .and_then(|text| text.parse::<Rate>().ok())
                .filter(|rate| rate.0 > 0)
                .ok_or_else(|| wrong(format!("{} is no rate, such as `100Gbps`", clip(rate))))?;
        let delay = spaced(delay, &[("ns", "ns"), ("us", "us"), ("ms", "ms"), ("ps", "ps")])
            .and_then(|text| text.parse::<Time>().ok())
            .filter(|&delay| delay > Time::ZERO)
            .ok_or_else(|| wrong(format!("{} is no delay, such as `1000ns`", clip(delay))))?;
        if !errors.parse::<f64>().is_ok_and(|errors| errors == 0.0) {
            return Err(wrong(format!(
                "the error rate is {}; must be 0: errors of links are set with link.error_rate_ppb",
                clip(errors)
            )));
        }
        let mut end = |field: &str| {
            let node = node_number(field, nodes)?;
            match at.get(&node).copied().unwrap_or(NodeRef::Host(0)) {
                NodeRef::Host(host) => match std::mem::replace(&mut wired[host as usize], true) {
                    true => Err(format!("host {node} has a second link; {HOST_PORTS}")),
                    false => Ok(End { node: NodeRef::Host(host), port: 1 }),
                },
                NodeRef::Switch(switch) => {
                    let own = &mut switches[switch as usize];
                    own.ports += 1;
                    match own.ports > MAX_SWITCH_PORTS {
                        true => Err(format!("switch {node} has more than {MAX_SWITCH_PORTS} links")),
                        false => Ok(End { node: NodeRef::Switch(switch), port: own.ports }),
                    }
                }
            }
        };
        let (a, b) = (end(a).map_err(wrong)?, end(b).map_err(wrong)?);
        links.push(Link { a, b, rate, delay, one_way: false });
    }
    if let Some(host) = wired.iter().position(|&is_wired| !is_wired) {
        return Err(ImportError::new(origin, format!("host {} has no link", hosts[host].name)));
    }
    let name = format!("{} hosts, {} switches, from {origin}", hosts.len(), switches.len());
    let topology = Topology { name, hosts, switches, links, units: 0, shape: Shape::Arbitrary };
    topology.validate().map_err(|error| ImportError::new(origin, error.to_string()))?;
    Ok(topology)
}

/// Parses the number of a node, which must be less than `nodes`.
fn node_number(field: &str, nodes: u64) -> Result<u32, String> {
    let number = field.parse::<u32>().ok().filter(|&number| u64::from(number) < nodes);
    number.ok_or_else(|| format!("{} is no node; must be 0 to {}", clip(field), nodes.saturating_sub(1)))
}

/// A quantity of a topology file in the notation of scenarios; `None` if the unit is unknown.
fn spaced(text: &str, units: &[(&str, &str)]) -> Option<String> {
    units.iter().find_map(|(theirs, ours)| Some(format!("{} {ours}", text.strip_suffix(theirs)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_RATES: &str = "5 2 4\n3 4\n0 3 100Gbps 1000ns 0.000000\n1 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n\
                             3 4 400Gbps 500ns 0\n";

    #[test]
    fn nodes_are_named_by_their_numbers() {
        assert!(is_hpcc(TWO_RATES));
        let topology = parse(TWO_RATES, "fat.txt").unwrap();
        assert_eq!(topology.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
        assert_eq!(topology.switches.iter().map(|one| one.ports).collect::<Vec<_>>(), [3, 2]);
        let last = topology.links.last().unwrap();
        assert_eq!((last.rate, last.delay), (Rate::from_gbit(400), Time::from_ns(500)));
        assert_eq!((topology.port_name(last.a), topology.port_name(last.b)), ("3:3".into(), "4:2".into()));
    }

    #[test]
    fn errors_state_the_line() {
        let message = |old: &str, new: &str| {
            assert!(TWO_RATES.contains(old));
            parse(&TWO_RATES.replacen(old, new, 1), "t").map_err(|error| error.to_string()).err()
        };
        for (old, new, expected) in [
            ("5 2 4", "5 2", "t:1: `5 2` must be the numbers of nodes, switches and links"),
            ("5 2 4", "5 3 4", "t:2: 2 switches; the first line announces 3"),
            ("3 4\n", "3 3\n", "t:2: switch 3 is in the list twice"),
            ("3 4\n", "3 9\n", "t:2: `9` is no node; must be 0 to 4"),
            (
                "1 3 100Gbps",
                "0 3 100Gbps",
                "t:4: host 0 has a second link; a host has one port: write a host with several ports as one host per rail, such as A-rail1 and A-rail2, and give a job both, as the scenario two-rails does",
            ),
            ("100Gbps", "100", "t:3: `100` is no rate, such as `100Gbps`"),
            ("1000ns", "1000", "t:3: `1000` is no delay, such as `1000ns`"),
            (
                "0.000000",
                "0.001",
                "t:3: the error rate is `0.001`; must be 0: errors of links are set with link.error_rate_ppb",
            ),
            ("5 2 4", "5 2 5", "t: ends before link 5 of 5"),
            ("5 2 4", "5 2 2", "t: host 2 has no link"),
            (
                "0 3 100Gbps 1000ns 0.000000",
                "0 3",
                "t:3: `0 3` is no link; a line has two nodes, rate, delay and error rate",
            ),
        ] {
            assert_eq!(message(old, new).as_deref(), Some(expected), "{new}");
        }
        assert!(!is_hpcc("vendid=0x2c9\n") && !is_hpcc(""));
    }
}
