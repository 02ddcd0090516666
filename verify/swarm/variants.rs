//! A scenario changed in a way that must not matter, or so that it must come to its end.

use silvan_fabric::config::Assignment;
use silvan_fabric::traffic::Pattern;
use silvan_scenario::Scenario;
use toml::{Table, Value};

use crate::draw::jobs::{Around, jobs};

/// Longer than anything drawn can take, and cheap: nothing happens in an idle network.
pub const LONG_S: u64 = 3_000;

fn entry<'t>(table: &'t mut Table, key: &str) -> Option<&'t mut Table> {
    table.entry(key).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

fn time(ps: u64) -> Value {
    Value::from(format!("{ps} ps"))
}

/// The same with another interval and other tables.
pub fn measured(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    let spec = &scenario.spec;
    if let Some(measure) = entry(&mut other, "measure") {
        let fewer = spec.measure.interval.0 > spec.duration.0 / 5;
        let interval = if fewer { spec.duration.0 / 13 } else { spec.duration.0 / 2 + 1 };
        measure.insert("interval".to_owned(), time(interval.max(1)));
        let recorded = &spec.measure;
        for (key, on) in [
            ("links", recorded.links),
            ("hosts", recorded.hosts),
            ("classes", recorded.classes),
            ("forest", recorded.forest),
        ] {
            measure.insert(key.to_owned(), Value::from(!on));
        }
    }
    other
}

/// The same, ended earlier: after whole intervals where there are several.
pub fn shortened(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let intervals = spec.duration.0 / spec.measure.interval.0;
    if intervals < 2 {
        return None;
    }
    let end = (intervals * 3 / 5).max(1) * spec.measure.interval.0;
    let mut other = table.clone();
    other.insert("duration".to_owned(), time(end));
    if spec.warmup.0 >= end {
        return None;
    }
    Some(other)
}

/// The same with flows, and patterns where that is promised, in another order.
///
/// Flows go by their names. A host serves its patterns in the order of the file, and their random streams
/// are by number: so patterns of one sender keep their order. Permutations are drawn by the number of the
/// pattern, forests too; patterns without a list of hosts have all.
pub fn reordered(table: &Table, scenario: &Scenario) -> Option<Table> {
    let mut other = table.clone();
    let mut changed = false;
    if let Some(Value::Array(flows)) = other.get_mut("flow") {
        changed |= flows.len() > 1;
        flows.reverse();
    }
    let patterns = &scenario.spec.traffic;
    let mut seen = std::collections::BTreeSet::new();
    let free = patterns.iter().all(|traffic| {
        let plain = !matches!(traffic.pattern, Pattern::Permutation | Pattern::Forest(_));
        let named = traffic.name.is_some();
        let own = traffic.hosts.as_ref().is_some_and(|hosts| hosts.iter().all(|host| seen.insert(host)));
        plain && named && own
    });
    if free
        && patterns.len() > 1
        && let Some(Value::Array(patterns)) = other.get_mut("traffic")
    {
        patterns.reverse();
        changed = true;
    }
    changed.then_some(other)
}

/// One whose outputs can be run apart, unless its links differ in rate: VOQ switches, credits, one or two
/// virtual lanes, nothing that waits for deliveries, and one of the usual ways to manage congestion.
pub fn plain(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    for key in ["flow_control", "adaptive_routing", "lanes", "congestion"] {
        other.remove(key);
    }
    // Without lanes of its own the routing could deadlock, or is refused.
    if scenario.spec.lanes.assignment == Assignment::Routing {
        let up_down = Table::from_iter([("kind".to_owned(), Value::from("up-down"))]);
        other.insert("routing".to_owned(), Value::Table(up_down));
    }
    let seed = scenario.spec.seed;
    if seed.is_multiple_of(2)
        && let Some(lanes) = entry(&mut other, "lanes")
    {
        lanes.insert("count".to_owned(), Value::from(2));
        if seed.is_multiple_of(4) {
            lanes.insert("control".to_owned(), Value::from(1));
        }
    }
    if let Some(switch) = entry(&mut other, "switch") {
        switch.retain(|key, _| matches!(key, "buffer" | "latency"));
    }
    for key in ["flow", "traffic"] {
        let entries = other.get_mut(key).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_table_mut) {
            entry.remove("start_after_packets");
        }
    }
    // Fills that a few packets reach, so that much is marked.
    let fills = ["sum", "sum-per-input"];
    if !seed.is_multiple_of(3)
        && let Some(congestion) = entry(&mut other, "congestion")
        && let Some(marking) = entry(congestion, "marking")
    {
        marking.insert("kind".to_owned(), Value::from("fecn"));
        marking.insert("threshold".to_owned(), Value::from(15));
        marking.insert("fill".to_owned(), Value::from(fills[(seed / 3 % 2) as usize]));
        if seed.is_multiple_of(5)
            && let Some(coalescing) = entry(congestion, "coalescing")
        {
            coalescing.insert("interval".to_owned(), time(1 + seed % 7 * 400_000));
            coalescing.insert("per".to_owned(), Value::from(["flow", "port"][(seed / 5 % 2) as usize]));
        }
        if let Some(reaction) = entry(congestion, "reaction") {
            reaction.insert("kind".to_owned(), Value::from("cct"));
            if seed.is_multiple_of(4) {
                reaction.insert("timer".to_owned(), Value::from("notification"));
            }
        }
    }
    other
}

/// The same with jobs, that end before it or not.
pub fn with_jobs(table: &Table, scenario: &Scenario) -> Option<Table> {
    let (topology, _, _) = scenario.build().ok()?;
    let spec = &scenario.spec;
    let around = Around {
        hosts: topology.hosts.into_iter().map(|host| host.name).collect(),
        duration: spec.duration.0,
        mtu: spec.packet.mtu.0,
        levels: spec.lanes.sl_to_vl.as_ref().map_or(16, Vec::len) as u64,
    };
    let mut other = table.clone();
    other.insert("job".to_owned(), Value::Array(jobs(spec.seed, &around)));
    if spec.seed.is_multiple_of(3) {
        other.insert("end_with_jobs".to_owned(), Value::from(spec.seed.is_multiple_of(2)));
    }
    Some(other)
}

/// The same with an end to all traffic, and the time to come to it.
pub fn drained(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    let spec = &scenario.spec;
    for (key, bound) in [("flow", "total"), ("traffic", "packets_per_host")] {
        let entries = other.get_mut(key).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_table_mut) {
            if !entry.contains_key("stop") && !entry.contains_key(bound) {
                entry.insert("stop".to_owned(), time(spec.duration.0));
            }
        }
    }
    // Hotspots that move do so a bounded number of times in a run.
    let lives = spec.traffic.iter().filter_map(|traffic| match &traffic.pattern {
        Pattern::Forest(forest) => forest.lifetime.map(|time| time.0 / u64::from(forest.hotspots.max(1))),
        _ => None,
    });
    let long = lives.map(|life| life * 3_000_000).min().unwrap_or(u64::MAX).min(LONG_S * 1_000_000_000_000);
    other.insert("duration".to_owned(), time(long.max(spec.duration.0)));
    if let Some(measure) = entry(&mut other, "measure") {
        measure.insert("interval".to_owned(), time(long.max(spec.duration.0)));
    }
    other
}
