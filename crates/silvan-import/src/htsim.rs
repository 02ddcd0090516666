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
//! `Switch_Latency_ns` is the latency of the switches of a tier. `Podsize` and `Oversubscribed` must agree
//! with the radices. Queues are ignored with a note, because `[switch]` of a scenario configures buffers.

use std::collections::{BTreeSet, HashMap};

use silvan_engine::{Rate, Time};
use silvan_network::topology::pgft::PgftSpec;
use silvan_network::topology::{Shape, Topology};
use silvan_trace::read::fields::Handling;

use super::fields::HTSIM;
use super::{ImportError, Wiring, clip};

/// Keys of the whole network, which precede the first tier.
const OF_NETWORK: [&str; 3] = ["nodes", "tiers", "podsize"];

/// Number of lines with content at the start of a file that contain the number of tiers.
const HEAD: usize = 10;

/// Whether a text begins with the number of nodes and states the number of tiers, as topology files of htsim
/// do.
#[must_use]
pub fn is_htsim(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let states = |line: &str, of: &str| {
        let mut words = line.split_whitespace();
        let key = words.next().unwrap_or_default();
        key.eq_ignore_ascii_case(of) && words.next().is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let mut head = lines.take(HEAD);
    head.next().is_some_and(|line| states(line, "nodes")) && head.any(|line| states(line, "tiers"))
}

/// The line at which a tier starts, and its values by key.
type Tier = (usize, HashMap<String, u64>);

/// Reads a topology; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is not in this format, tiers do not fit together, `Podsize` or `Oversubscribed` contradict
/// them, or the network exceeds the limits.
pub fn parse(text: &str, origin: &str) -> Result<Wiring, ImportError> {
    let (whole, tiers, notes) = read(text, origin)?;
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
    agree(&whole, &tiers, &m).map_err(|(line, what)| wrong(line, what))?;
    let (link_rate, link_delay) = (rates[0], delays[0]);
    let (level_rates, level_delays) = (Some(rates), Some(delays));
    let spec = PgftSpec { m, w, p: Some(p), link_rate, link_delay, level_rates, level_delays };
    let topology = spec.build().map_err(|error| ImportError::new(origin, error.to_string()))?;
    let latencies = latencies(&topology, &tiers);
    Ok(Wiring { latencies, ..Wiring::new(topology, notes) })
}

/// Checks that the numbers of hosts and the oversubscription are those of the tiers. `m` contains the number
/// of nodes below each switch of a tier. An error has the line.
fn agree(whole: &Tier, tiers: &[Tier], m: &[u32]) -> Result<(), (usize, String)> {
    let below = |count: usize| m.iter().take(count).map(|&count| u64::from(count)).product::<u64>();
    let (hosts, nodes) = (below(m.len()), whole.1.get("nodes").copied().unwrap_or_default());
    if hosts != nodes {
        return Err((whole.0, format!("Nodes is {nodes}, but the tiers have {hosts} hosts")));
    }
    // A pod of a tree of three tiers is a part that only the top tier connects with others.
    let of_pod = below(m.len().min(2));
    if let Some(&pod) = whole.1.get("podsize").filter(|&&pod| pod != of_pod) {
        return Err((whole.0, format!("Podsize is {pod}, but the tiers have {of_pod} hosts in a pod")));
    }
    for (number, (line, tier)) in tiers.iter().enumerate() {
        let Some(&ratio) = tier.get("oversubscribed") else { continue };
        let value = |tier: &Tier, key: &str| u128::from(tier.1.get(key).copied().unwrap_or_default());
        let own = &tiers[number];
        let down = value(own, "radix_down") * value(own, "downlink_speed_gbps");
        // The rate of the links to the tier above is a property of that tier.
        let up =
            tiers.get(number + 1).map(|above| value(own, "radix_up") * value(above, "downlink_speed_gbps"));
        match up {
            Some(up) if down != u128::from(ratio) * up => {
                return Err((
                    *line,
                    format!(
                        "tier {number}: Oversubscribed is {ratio}, but a switch has {down} Gbit/s down and {up} Gbit/s up"
                    ),
                ));
            }
            None if ratio != 1 => {
                let what = format!(
                    "tier {number}: Oversubscribed is {ratio}, but the top tier has no links up; must be 1"
                );
                return Err((*line, what));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The latency of each switch; empty if no tier states one. A tier without a latency has 0, as in htsim.
fn latencies(topology: &Topology, tiers: &[Tier]) -> Vec<Time> {
    let of_tier = |(_, tier): &Tier| tier.get("switch_latency_ns").copied();
    if tiers.iter().all(|tier| of_tier(tier).is_none()) {
        return Vec::new();
    }
    // Switches are numbered from the bottom up, so those of a tier are the upper ends of its links.
    let Shape::FatTree(tree) = &topology.shape else { return Vec::new() };
    let latency = |tier: &Tier| Time::from_ns(of_tier(tier).unwrap_or(0).min(u64::from(u32::MAX)));
    let of_level = |(level, tier): (usize, &Tier)| vec![latency(tier); tree.nodes_at(level) as usize];
    (1..).zip(tiers).flat_map(of_level).collect()
}

/// The values of the whole network and of each tier, and notes about keys that are ignored.
fn read(text: &str, origin: &str) -> Result<(Tier, Vec<Tier>, Vec<String>), ImportError> {
    let mut whole: Tier = (1, HashMap::new());
    let mut tiers: Vec<Tier> = Vec::new();
    let mut ignored = BTreeSet::new();
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
        match HTSIM.handling(&key) {
            None => return Err(wrong(format!("{} is no key of such a file", clip(&key)))),
            Some(Handling::Noted) => drop(ignored.insert(key.clone())),
            Some(_) => {}
        }
        let value = value.parse::<u64>().map_err(|_| wrong(format!("{} is no number", clip(value))))?;
        if key == "tier" {
            if value != tiers.len() as u64 {
                return Err(wrong(format!("tier {value} follows {} tiers; tiers count from 0", tiers.len())));
            }
            tiers.push((number, HashMap::new()));
            continue;
        }
        let is_of_network = OF_NETWORK.contains(&key.as_str());
        if is_of_network != tiers.is_empty() {
            let place = if is_of_network { "precede the first tier" } else { "follow the line of a tier" };
            return Err(wrong(format!("{key} must {place}")));
        }
        let (_, values) = tiers.last_mut().unwrap_or(&mut whole);
        if values.insert(key.clone(), value).is_some() {
            return Err(wrong(format!("{key} is given twice")));
        }
    }
    let names: Vec<String> = ignored.into_iter().collect();
    let mut notes = match names.is_empty() {
        true => Vec::new(),
        false => vec![format!("not used: {}; [switch] of a scenario configures buffers", names.join(", "))],
    };
    if let Some(up) = tiers.last().and_then(|(_, top)| top.get("radix_up")).filter(|&&up| up > 0) {
        notes.push(format!("not used: radix_up = {up} of the top tier, above which there are no switches"));
    }
    Ok((whole, tiers, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "# Own sample\nNodes 24\nTiers 3\nPodsize 6\n\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 3\n\
                        Radix_Up 4\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 0\n\nTier 1\nDownlink_speed_Gbps 400\nRadix_Down 4\n\
                        Radix_Up 2\nDownlink_Latency_ns 500\nBundle 2\n\nTier 2\nDownlink_speed_Gbps 800\nRadix_Down 4\n\
                        Downlink_Latency_ns 700\n";

    #[test]
    fn tiers_are_levels_of_a_tree() {
        assert!(is_htsim(TREE) && !is_htsim("Nodes\n") && !is_htsim("376 56 480\n"));
        let Wiring { topology, notes, latencies, .. } = parse(TREE, "t.topo").unwrap();
        assert!(notes.is_empty() && latencies.iter().all(|&latency| latency == Time::ZERO));
        assert_eq!(topology.name, "PGFT(3; 3,2,4; 1,2,2; 1,2,1)");
        let mut links: Vec<_> = topology.links.iter().map(|link| (link.rate, link.delay)).collect();
        links.dedup();
        let of = |rate, delay| (Rate::from_gbit(rate), Time::from_ns(delay));
        assert_eq!(links, [of(100, 1000), of(400, 500), of(800, 700)]);
        assert_eq!((topology.hosts.len(), topology.switches.len()), (24, 8 + 8 + 4));
    }

    #[test]
    fn switches_have_the_latency_of_their_tier() {
        let text = TREE
            .replace("Switch_Latency_ns 0", "Switch_Latency_ns 500\nQueue_Up 9\nqueue_down 7")
            .replace("Bundle 2", "Bundle 2\nSwitch_Latency_ns 300");
        let mut wiring = parse(&text, "t.topo").unwrap();
        assert_eq!(
            wiring.notes,
            ["not used: queue_down, queue_up; [switch] of a scenario configures buffers"]
        );
        let mut latencies = wiring.latencies.clone();
        latencies.dedup();
        assert_eq!(latencies, [500, 300, 0].map(Time::from_ns));
        assert_eq!(wiring.settle_latencies(), Some(Time::ZERO));
        let mut delays: Vec<_> = wiring.topology.links.iter().map(|link| link.delay).collect();
        delays.dedup();
        // Half of the latencies of both ends is added to 1,000, 500 and 700 ns.
        assert_eq!(delays, [1_250, 500 + 250 + 150, 700 + 150].map(Time::from_ns));
    }

    #[test]
    fn links_above_the_top_tier_are_noted() {
        let text = TREE.replace("Downlink_Latency_ns 700", "Downlink_Latency_ns 700\nRadix_Up 5");
        let notes = parse(&text, "t.topo").unwrap().notes;
        assert_eq!(notes, ["not used: radix_up = 5 of the top tier, above which there are no switches"]);
    }

    #[test]
    fn the_oversubscription_may_be_stated() {
        let text = "Nodes 32\nTiers 2\nPodsize 32\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 2\n\
                    Downlink_Latency_ns 1000\nOversubscribed 4\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\n\
                    Downlink_Latency_ns 1000\nOversubscribed 1\n";
        let wiring = parse(text, "t.topo").unwrap();
        assert_eq!((wiring.topology.hosts.len(), wiring.latencies.len()), (32, 0));
    }

    #[test]
    fn errors_state_the_line() {
        for (old, new, expected) in [
            ("Nodes 24", "Nodes 25", "t:1: Nodes is 25, but the tiers have 24 hosts"),
            ("Tiers 3", "Tiers 2", "t:1: Tiers is 2, and 3 are described; must be 1 to 3"),
            ("Podsize 6", "Podsize 12", "t:1: Podsize is 12, but the tiers have 6 hosts in a pod"),
            (
                "Radix_Down 3",
                "Oversubscribed 2\nRadix_Down 3",
                "t:6: tier 0: Oversubscribed is 2, but a switch has 300 Gbit/s down and 1600 Gbit/s up",
            ),
            (
                "Downlink_Latency_ns 700",
                "Downlink_Latency_ns 700\nOversubscribed 2",
                "t:20: tier 2: Oversubscribed is 2, but the top tier has no links up; must be 1",
            ),
            ("Tier 1", "Tier 2", "t:13: tier 2 follows 1 tiers; tiers count from 0"),
            ("Radix_Down 3\n", "", "t:6: tier 0 needs radix_down, a number of at least 1"),
            (
                "Bundle 2",
                "Bundle 3",
                "t:13: tier 1: bundle = 3 must divide radix_down and radix_up of the tier below",
            ),
            ("Podsize 6", "Podsize", "t:4: `Podsize` must be a key and a number"),
            ("Podsize 6", "Hosts 6", "t:4: `hosts` is no key of such a file"),
            ("Podsize 6", "Radix_Up 6", "t:4: radix_up must follow the line of a tier"),
            ("Podsize 6", "Queue_Up 6", "t:4: queue_up must follow the line of a tier"),
            ("Bundle 2", "Podsize 6", "t:18: podsize must precede the first tier"),
            ("Radix_Up 4", "Radix_Up x", "t:9: `x` is no number"),
            ("Radix_Up 4", "Radix_Down 4", "t:9: radix_down is given twice"),
        ] {
            assert!(TREE.contains(old), "{old}");
            let message = parse(&TREE.replacen(old, new, 1), "t").map_err(|error| error.to_string()).err();
            assert_eq!(message.as_deref(), Some(expected), "{new}");
        }
    }
}
