//! Reads topologies in the format of HPCC's simulator, which many simulators of RDMA over Ethernet share:
//!
//! ```text
//! nodes switches links
//! number of each switch
//! node node rate delay error-rate                  (for each link)
//! ```
//!
//! Nodes are named by their numbers. Ports are numbered in the order of the links. The numbers of switches
//! may be on several lines, because these simulators read words.
//!
//! | dialect | difference |
//! | --- | --- |
//! | PowerTCP | the first line has the number of leaf switches before that of links; rates are in bit/s |
//! | Reverie | the same, and two capacities after the number of links |
//!
//! A host with several links has the ports `7.1`, `7.2` and so on, in the order of the links. Topologies of SimAI have another
//! first line; see [`simai`](super::simai).

use std::collections::HashMap;

use silvan_engine::{Rate, Time};
use silvan_network::topology::{MAX_HOSTS, MAX_LINKS, MAX_SWITCHES, NodeRef};

use super::machines::{Cluster, ClusterLink, Side};
use super::text::without_exponent;
use super::{ImportError, Wiring, clip, noise};

/// Whether a text begins with a line of numbers, and most other lines are links, as in topology files of
/// HPCC's simulator.
#[must_use]
pub fn is_hpcc(text: &str) -> bool {
    let mut lines = rows(text).map(|(_, line)| line);
    let fields: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let numbers = fields.iter().filter(|field| field.parse::<u32>().is_ok()).count();
    if !(3..=6).contains(&fields.len()) || numbers < fields.len().min(5) {
        return false;
    }
    let (mut links, mut others) = (0usize, 0usize);
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().take(6).collect();
        match words[..] {
            [a, b, rate, delay, _] if [a, b].iter().all(|node| node.parse::<u32>().is_ok()) => {
                let has_unit =
                    [rate, delay].iter().any(|word| word.ends_with(|c: char| c.is_ascii_alphabetic()));
                if has_unit { links += 1 } else { others += 1 }
            }
            // Numbers of switches.
            _ if words.iter().all(|word| word.parse::<u32>().is_ok()) && links == 0 => {}
            _ => others += 1,
        }
    }
    links > 0 && links >= others
}

/// Whether a line lists numbers of nodes. A line with other words describes a link.
pub(super) fn is_list(line: &str) -> bool {
    line.split_whitespace().all(|word| word.parse::<u64>().is_ok())
}

/// The lines that have content, with their numbers.
pub(super) fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_row = |line: &str| !line.is_empty() && !line.starts_with('#') && !noise::is_noise(line);
    (1..).zip(text.lines().map(str::trim)).filter(move |(_, line)| is_row(line))
}

/// The numbers in the first line of a file.
struct Sizes {
    nodes: u64,
    switches: u64,
    links: u64,
    notes: Vec<String>,
}

/// Parses the first line.
fn sizes(first: &str) -> Result<Sizes, String> {
    let fields: Vec<&str> = first.split_whitespace().collect();
    let numbers: Option<Vec<u64>> = fields.iter().map(|field| field.parse().ok()).collect();
    let of = |nodes, switches, links, unused: &str| Sizes {
        nodes,
        switches,
        links,
        notes: if unused.is_empty() { Vec::new() } else { vec![format!("not used: {unused}")] },
    };
    Ok(match numbers.as_deref() {
        Some(&[nodes, switches, links]) => of(nodes, switches, links, ""),
        Some(&[nodes, switches, _, links]) => of(nodes, switches, links, "the number of leaf switches"),
        Some(&[nodes, switches, _, links, _, _]) => {
            of(nodes, switches, links, "the number of leaf switches and the capacities in the first line")
        }
        _ => return Err(format!("{} must be the numbers of nodes, switches and links", clip(first))),
    })
}

/// Reads a topology; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is not in this format, a host has no link, a link has errors, or the network exceeds the limits.
pub fn parse(text: &str, origin: &str) -> Result<Wiring, ImportError> {
    let mut lines = rows(text).peekable();
    let first = lines.next();
    let missing = |what: &str| ImportError::new(origin, format!("ends before {what}"));
    let (number, first) = first.ok_or_else(|| missing("the numbers of nodes, switches and links"))?;
    let sizes = sizes(first).map_err(|what| ImportError::at(origin, number, what))?;
    let (nodes, switch_count, link_count) = (sizes.nodes, sizes.switches, sizes.links);
    let host_count = nodes.checked_sub(switch_count).unwrap_or(u64::MAX);
    if host_count > MAX_HOSTS || switch_count > MAX_SWITCHES || link_count > MAX_LINKS {
        let what = format!(
            "{nodes} nodes, {switch_count} of them switches, and {link_count} links; at most {MAX_HOSTS} hosts, \
             {MAX_SWITCHES} switches and {MAX_LINKS} links are possible"
        );
        return Err(ImportError::at(origin, number, what));
    }
    let mut builder = Builder::new(nodes);
    let mut last = number;
    while (builder.cluster.switches.len() as u64) < switch_count
        && let Some((number, line)) = lines.next_if(|(_, line)| is_list(line))
    {
        last = number;
        let add = |field: &str| builder.switch(field).map_err(|what| ImportError::at(origin, number, what));
        line.split_whitespace().try_for_each(add)?;
    }
    if builder.cluster.switches.len() as u64 != switch_count {
        if lines.peek().is_none() {
            return Err(missing("the numbers of the switches"));
        }
        let what =
            format!("{} switches; the first line announces {switch_count}", builder.cluster.switches.len());
        return Err(ImportError::at(origin, last, what));
    }
    builder.hosts();
    for count in 0..link_count {
        let next = lines.next();
        let (number, line) = next.ok_or_else(|| missing(&format!("link {} of {link_count}", count + 1)))?;
        builder.link(line).map_err(|what| ImportError::at(origin, number, what))?;
    }
    let mut notes = sizes.notes;
    match lines.count() {
        0 => {}
        more => notes.push(format!("{more} lines after the announced {link_count} links are not used")),
    }
    builder.wiring(origin, notes)
}

/// A topology in the course of reading.
struct Builder {
    nodes: u64,
    at: HashMap<u32, NodeRef>,
    cluster: Cluster,
}

impl Builder {
    fn new(nodes: u64) -> Self {
        Self { nodes, at: HashMap::new(), cluster: Cluster::default() }
    }

    /// Adds a switch with a number.
    fn switch(&mut self, field: &str) -> Result<(), String> {
        let node = node_number(field, self.nodes)?;
        if self.at.insert(node, NodeRef::Switch(self.cluster.switches.len() as u32)).is_some() {
            return Err(format!("switch {node} is in the list twice"));
        }
        self.cluster.add_switch(node.to_string());
        Ok(())
    }

    /// Adds all nodes that are not switches.
    fn hosts(&mut self) {
        for node in 0..self.nodes as u32 {
            self.at.entry(node).or_insert_with(|| {
                self.cluster.hosts.push(node.to_string());
                NodeRef::Host(self.cluster.hosts.len() as u32 - 1)
            });
        }
    }

    /// Adds the link of a line.
    fn link(&mut self, line: &str) -> Result<(), String> {
        let [a, b, rate, delay] = link_fields(line)?;
        let (rate, delay) = (self::rate(rate)?, self::delay(delay)?);
        let (from, to) = (self.side(a)?, self.side(b)?);
        if matches!((&from, &to), (Side::Port { .. }, Side::Port { .. })) {
            return Err(format!("{} and {} are hosts; a link has a switch at one end", clip(a), clip(b)));
        }
        self.cluster.links.push(ClusterLink { sides: [from, to], rate, delay });
        Ok(())
    }

    /// The next port of a node.
    fn side(&mut self, field: &str) -> Result<Side, String> {
        let node = node_number(field, self.nodes)?;
        match self.at.get(&node).copied().unwrap_or(NodeRef::Host(0)) {
            NodeRef::Host(host) => Ok(Side::Port { host, place: 0, name: None }),
            NodeRef::Switch(switch) => self.cluster.next_port(switch),
        }
    }

    fn wiring(self, origin: &str, mut notes: Vec<String>) -> Result<Wiring, ImportError> {
        let (hosts, switches) = (self.cluster.hosts.len(), self.cluster.switches.len());
        let name = format!("{hosts} hosts, {switches} switches, from {origin}");
        let topology = self.cluster.topology(&name, origin)?;
        let mut several = topology.machines.iter().filter(|machine| machine.ports.len() > 1);
        if let Some(first) = several.next() {
            let (count, name) = (1 + several.count(), &first.name);
            notes.push(format!(
                "{count} hosts have several links, each of which is a port: those of host {name} are {name}.1 to {name}.{}",
                first.ports.len()
            ));
        }
        Ok(Wiring::new(topology, notes))
    }
}

/// The nodes, rate and delay of a link without errors.
pub(super) fn link_fields(line: &str) -> Result<[&str; 4], String> {
    let mut fields = line.split_whitespace();
    let five: [Option<&str>; 5] = std::array::from_fn(|_| fields.next());
    let ([Some(a), Some(b), Some(rate), Some(delay), Some(errors)], None) = (five, fields.next()) else {
        return Err(format!("{} is no link; a line has two nodes, rate, delay and error rate", clip(line)));
    };
    if !errors.parse::<f64>().is_ok_and(|errors| errors == 0.0) {
        return Err(format!(
            "the error rate is {}; must be 0: errors of links are set with link.error_rate_ppb",
            clip(errors)
        ));
    }
    Ok([a, b, rate, delay])
}

/// Units of rates in these simulators, and here. Units that end in others come first.
const RATES: [(&str, &str); 16] = [
    ("Gbps", "Gbit/s"),
    ("Mbps", "Mbit/s"),
    ("Kbps", "kbit/s"),
    ("kbps", "kbit/s"),
    ("GBps", "GB/s"),
    ("MBps", "MB/s"),
    ("KBps", "kB/s"),
    ("bps", "bit/s"),
    ("Gb/s", "Gbit/s"),
    ("Mb/s", "Mbit/s"),
    ("Kb/s", "kbit/s"),
    ("kb/s", "kbit/s"),
    ("GB/s", "GB/s"),
    ("MB/s", "MB/s"),
    ("KB/s", "kB/s"),
    ("b/s", "bit/s"),
];
const DELAYS: [(&str, &str); 5] = [("ns", "ns"), ("us", "us"), ("ms", "ms"), ("ps", "ps"), ("s", "s")];

/// Parses a rate. A rate without a unit is in bit/s.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let plain = || {
        let number =
            text.parse::<f64>().ok().filter(|rate| rate.fract() == 0.0 && (1.0..1e18).contains(rate));
        number.map(|rate| Rate(rate as u64)).filter(|rate| rate.0 >= LEAST_PLAIN_RATE)
    };
    let found = spaced(text, &RATES).and_then(|text| text.parse::<Rate>().ok()).or_else(plain);
    found.filter(|rate| rate.0 > 0).ok_or_else(|| {
        format!(
            "{} is no rate, such as `100Gbps`, or a number of at least {LEAST_PLAIN_RATE} in bit/s",
            clip(text)
        )
    })
}

/// The smallest rate without a unit. A smaller number lacks its unit.
const LEAST_PLAIN_RATE: u64 = 1_000_000;

pub(super) fn delay(text: &str) -> Result<Time, String> {
    let found = spaced(text, &DELAYS).and_then(|text| text.parse::<Time>().ok());
    let found = found.filter(|&delay| delay > Time::ZERO);
    found.ok_or_else(|| format!("{} is no delay, such as `1000ns`", clip(text)))
}

/// Parses the number of a node, which must be less than `nodes`.
pub(super) fn node_number(field: &str, nodes: u64) -> Result<u32, String> {
    let number = field.parse::<u32>().ok().filter(|&number| u64::from(number) < nodes);
    number.ok_or_else(|| format!("{} is no node; must be 0 to {}", clip(field), nodes.saturating_sub(1)))
}

/// A quantity of a topology file in the notation of scenarios; `None` if the unit is unknown.
fn spaced(text: &str, units: &[(&str, &str)]) -> Option<String> {
    units
        .iter()
        .find_map(|(theirs, ours)| Some(format!("{} {ours}", without_exponent(text.strip_suffix(theirs)?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_RATES: &str = "5 2 4\n3 4\n0 3 100Gbps 1000ns 0.000000\n1 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n\
                             3 4 400Gbps 500ns 0\n";

    #[test]
    fn numbers_may_have_exponents() {
        let plain = parse(TWO_RATES, "t").unwrap().topology;
        let text = TWO_RATES.replacen("100Gbps 1000ns", "1e2Gbps 1e-6s", 1).replacen(" 1us", " 1.0E-3ms", 1);
        assert_eq!(parse(&text, "t").unwrap().topology, plain);
    }

    #[test]
    fn nodes_are_named_by_their_numbers() {
        assert!(is_hpcc(TWO_RATES));
        let Wiring { topology, notes, .. } = parse(TWO_RATES, "fat.txt").unwrap();
        assert!(notes.is_empty());
        assert_eq!(topology.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
        assert_eq!(topology.switches.iter().map(|one| one.ports).collect::<Vec<_>>(), [3, 2]);
        let last = topology.links.last().unwrap();
        assert_eq!((last.rate, last.delay), (Rate::from_gbit(400), Time::from_ns(500)));
        assert_eq!((topology.port_name(last.a), topology.port_name(last.b)), ("3:3".into(), "4:2".into()));
    }

    #[test]
    fn dialects_describe_the_same_network() {
        let whole = parse(TWO_RATES, "t").unwrap().topology;
        for (old, new, note) in [
            ("5 2 4", "5 2 1 4", "not used: the number of leaf switches"),
            (
                "5 2 4",
                "5 2 1 4 10 40",
                "not used: the number of leaf switches and the capacities in the first line",
            ),
            ("3 4\n0", "3\n4\n0", ""),
            ("100Gbps", "100000000000.0", ""),
            ("100Gbps", "100Gb/s", ""),
            ("1000ns", "0.000001s", ""),
            ("1000ns", "0.001ms", ""),
            ("500ns 0\n", "500ns 0\n0 1 1Gbps 1us 0\n", "1 lines after the announced 4 links are not used"),
        ] {
            assert!(TWO_RATES.contains(old), "{old}");
            let text = TWO_RATES.replacen(old, new, 1);
            assert!(is_hpcc(&text), "{text}");
            let read = parse(&text, "t").unwrap();
            assert_eq!((&read.topology, read.notes.join("")), (&whole, note.to_owned()), "{new}");
        }
    }

    #[test]
    fn each_link_of_a_host_is_a_port() {
        let text = TWO_RATES.replace("5 2 4", "5 2 5").replace("1 3 100", "0 4 200Gbps 1us 0\n1 3 100");
        let Wiring { topology, notes, .. } = parse(&text, "t").unwrap();
        let names: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["0.1", "0.2", "1", "2"]);
        let ports: Vec<&[u32]> = topology.machines.iter().map(|machine| machine.ports.as_slice()).collect();
        assert_eq!(ports, [&[0, 1][..], &[2], &[3]]);
        let far = topology.wiring().hosts[1].unwrap();
        assert_eq!(
            (topology.port_name(far.0), topology.links[far.1].rate),
            ("4:1".into(), Rate::from_gbit(200))
        );
        assert_eq!(
            notes,
            ["1 hosts have several links, each of which is a port: those of host 0 are 0.1 to 0.2"]
        );
    }

    #[test]
    fn a_switch_has_up_to_1024_ports() {
        let star = |hosts: u32| {
            let links = (1..=hosts).map(|host| format!("0 {host} 100Gbps 1us 0\n"));
            format!("{} 1 {hosts}\n0\n{}", hosts + 1, links.collect::<String>())
        };
        assert_eq!(parse(&star(1024), "t").unwrap().topology.switches[0].ports, 1024);
        let error = parse(&star(1025), "t").unwrap_err().to_string();
        assert_eq!(
            error,
            "t:1027: switch 0 has more than 1024 links; a switch may have up to 256, or up to 1024 with switch.arbitration = \
             \"fcfs\""
        );
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
            ("1 3 100Gbps", "0 3 100Gbps", "t: host 1 has no link"),
            ("1 3 100Gbps", "0 1 100Gbps", "t:4: `0` and `1` are hosts; a link has a switch at one end"),
            (
                "100Gbps",
                "100",
                "t:3: `100` is no rate, such as `100Gbps`, or a number of at least 1000000 in bit/s",
            ),
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
        assert!(!is_hpcc("vendid=0x2c9\n") && !is_hpcc("") && !is_hpcc("1 4 0\n1 5 0\n4 1 0\n"));
    }
}
