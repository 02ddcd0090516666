//! Reads topologies in the format of htsim (`.topo`), which simulators of Ultra Ethernet use: fat trees of
//! one to three tiers.
//!
//! ```text
//! Nodes 32
//! Tiers 2
//! Podsize 32
//! Tier 0
//! Downlink_speed_Gbps 100
//! Radix_Down 8                  hosts of a leaf switch
//! Radix_Up 2
//! Downlink_Latency_ns 1000
//! Tier 1
//! ...
//! Bundle 1                      parallel links to each switch below
//! ```
//!
//! Latencies and queues of switches are ignored, because `[switch]` of a scenario configures them.

use std::collections::HashMap;

use silvan_engine::{Rate, Time};
use silvan_network::topology::Topology;
use silvan_network::topology::pgft::PgftSpec;

use super::{ImportError, clip};

/// The keys that determine the network.
const USED: [&str; 8] = [
    "nodes",
    "tiers",
    "tier",
    "downlink_speed_gbps",
    "radix_down",
    "radix_up",
    "downlink_latency_ns",
    "bundle",
];
/// The keys that are ignored.
const UNUSED: [&str; 5] = ["podsize", "oversubscribed", "switch_latency_ns", "queue_up", "queue_down"];

/// Whether a text begins with the number of nodes, as topology files of htsim do.
#[must_use]
pub fn is_htsim(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let fields: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    matches!(fields[..], [key, number] if key.eq_ignore_ascii_case("nodes") && number.parse::<u64>().is_ok())
}

/// The line at which a tier starts, and its values by key.
type Tier = (usize, HashMap<String, u64>);

/// Reads a topology; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is not in this format, tiers do not fit together, or the network exceeds the limits.
pub fn parse(text: &str, origin: &str) -> Result<Topology, ImportError> {
    let (whole, tiers) = read(text, origin)?;
    let wrong = |line: usize, what: String| ImportError::at(origin, line, what);
    let announced = whole.1.get("tiers").copied().unwrap_or_default();
    if announced != tiers.len() as u64 || !(1..=3).contains(&tiers.len()) {
        let what = format!("Tiers is {announced}, and {} are described; must be 1 to 3", tiers.len());
        return Err(wrong(whole.0, what));
    }
    let (mut m, mut w, mut p) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rates, mut delays) = (Vec::new(), Vec::new());
    let mut ups = 1u64;
    for (number, (line, tier)) in tiers.iter().enumerate() {
        let get = |key: &str| {
            let value = tier.get(key).copied().filter(|&value| value > 0);
            value.ok_or_else(|| wrong(*line, format!("tier {number} needs {key}, a number of at least 1")))
        };
        let bundle = tier.get("bundle").copied().unwrap_or(1).max(1);
        let down = get("radix_down")?;
        if !down.is_multiple_of(bundle) || !ups.is_multiple_of(bundle) {
            let what = format!(
                "tier {number}: bundle = {bundle} must divide radix_down and radix_up of the tier below"
            );
            return Err(wrong(*line, what));
        }
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        m.push(small(down / bundle));
        w.push(small(ups / bundle));
        p.push(small(bundle));
        rates.push(Rate::from_gbit(get("downlink_speed_gbps")?.min(1_000_000)));
        delays.push(Time::from_ns(get("downlink_latency_ns")?.min(u64::from(u32::MAX))));
        ups = if number + 1 < tiers.len() { get("radix_up")? } else { 1 };
    }
    if p[0] != 1 {
        return Err(wrong(tiers[0].0, "tier 0: bundle must be 1: a host has one link".to_owned()));
    }
    let hosts: u64 = m.iter().map(|&count| u64::from(count)).product();
    let nodes = whole.1.get("nodes").copied().unwrap_or_default();
    if hosts != nodes {
        return Err(wrong(whole.0, format!("Nodes is {nodes}, but the tiers have {hosts} hosts")));
    }
    let (link_rate, link_delay) = (rates[0], delays[0]);
    let (level_rates, level_delays) = (Some(rates), Some(delays));
    let spec = PgftSpec { m, w, p: Some(p), link_rate, link_delay, level_rates, level_delays };
    spec.build().map_err(|error| ImportError::new(origin, error.to_string()))
}

/// The values of the whole network and of each tier.
fn read(text: &str, origin: &str) -> Result<(Tier, Vec<Tier>), ImportError> {
    let mut whole: Tier = (1, HashMap::new());
    let mut tiers: Vec<Tier> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |what: String| ImportError::at(origin, number, what);
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [key, value] = fields[..] else {
            return Err(wrong(format!("{} must be a key and a number", clip(line))));
        };
        let key = key.to_ascii_lowercase();
        if !USED.contains(&key.as_str()) && !UNUSED.contains(&key.as_str()) {
            return Err(wrong(format!("{} is no key of such a file", clip(&key))));
        }
        let value = value.parse::<u64>().map_err(|_| wrong(format!("{} is no number", clip(value))))?;
        if key == "tier" {
            if value != tiers.len() as u64 {
                return Err(wrong(format!("tier {value} follows {} tiers; tiers count from 0", tiers.len())));
            }
            tiers.push((number, HashMap::new()));
            continue;
        }
        let (_, values) = tiers.last_mut().unwrap_or(&mut whole);
        if values.insert(key.clone(), value).is_some() {
            return Err(wrong(format!("{key} is given twice")));
        }
    }
    Ok((whole, tiers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "# Own sample\nNodes 24\nTiers 3\nPodsize 6\n\nTier 0\nOversubscribed 1\nDownlink_speed_Gbps 100\nRadix_Down 3\n\
                        Radix_Up 4\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 0\n\nTier 1\nDownlink_speed_Gbps 400\nRadix_Down 4\n\
                        Radix_Up 2\nDownlink_Latency_ns 500\nBundle 2\n\nTier 2\nDownlink_speed_Gbps 800\nRadix_Down 4\n\
                        Downlink_Latency_ns 700\n";

    #[test]
    fn tiers_are_levels_of_a_tree() {
        assert!(is_htsim(TREE) && !is_htsim("Nodes\n") && !is_htsim("376 56 480\n"));
        let topology = parse(TREE, "t.topo").unwrap();
        assert_eq!(topology.name, "PGFT(3; 3,2,4; 1,2,2; 1,2,1)");
        let mut links: Vec<_> = topology.links.iter().map(|link| (link.rate, link.delay)).collect();
        links.dedup();
        let of = |rate, delay| (Rate::from_gbit(rate), Time::from_ns(delay));
        assert_eq!(links, [of(100, 1000), of(400, 500), of(800, 700)]);
        assert_eq!((topology.hosts.len(), topology.switches.len()), (24, 8 + 8 + 4));
    }

    #[test]
    fn errors_state_the_line() {
        for (old, new, expected) in [
            ("Nodes 24", "Nodes 25", "t:1: Nodes is 25, but the tiers have 24 hosts"),
            ("Tiers 3", "Tiers 2", "t:1: Tiers is 2, and 3 are described; must be 1 to 3"),
            ("Tier 1", "Tier 2", "t:14: tier 2 follows 1 tiers; tiers count from 0"),
            ("Radix_Down 3\n", "", "t:6: tier 0 needs radix_down, a number of at least 1"),
            (
                "Bundle 2",
                "Bundle 3",
                "t:14: tier 1: bundle = 3 must divide radix_down and radix_up of the tier below",
            ),
            ("Podsize 6", "Podsize", "t:4: `Podsize` must be a key and a number"),
            ("Podsize 6", "Hosts 6", "t:4: `hosts` is no key of such a file"),
            ("Radix_Up 4", "Radix_Up x", "t:10: `x` is no number"),
            ("Radix_Up 4", "Radix_Down 4", "t:10: radix_down is given twice"),
        ] {
            assert!(TREE.contains(old), "{old}");
            let message = parse(&TREE.replacen(old, new, 1), "t").map_err(|error| error.to_string()).err();
            assert_eq!(message.as_deref(), Some(expected), "{new}");
        }
    }
}
