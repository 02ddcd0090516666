//! Equal-cost multipath, tables of lanes, and several LIDs per host, for a scenario that was drawn without these. The choices
//! use a separate random stream, so that the scenario of a seed does not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::{Draw, int, put};

/// How the switches of a seed hash packets, and how hosts spray and deliver them: the tables `ecmp` and
/// `host`.
pub fn hashing(seed: u64) -> (Table, Table) {
    let mut draw = Draw { random: Stream::new(seed, "swarm ecmp", 0), cycle: None, is_crowd: false };
    let (mut ecmp, mut host) = (Table::new(), Table::new());
    if draw.chance(10) {
        put(&mut ecmp, "enabled", draw.chance(70));
    }
    let spraying = draw.pick(&["none", "oblivious", "random", "bitmap", "reps", "mixed", "path-states"]);
    if spraying != "none" || draw.chance(30) {
        put(&mut ecmp, "spraying", spraying);
    }
    if spraying != "none" {
        if draw.chance(70) {
            let values = draw.pick(&[1, 2, 4, 16, 128, 1_024]);
            put(&mut ecmp, "values", int(values));
        }
        if draw.chance(60) && ecmp.get("enabled").and_then(Value::as_bool) != Some(false) {
            let delivery = draw.word(&["in-order", "out-of-order"]);
            put(&mut host, "delivery", delivery);
        }
        match draw.below(5) {
            0 => put(&mut ecmp, "selection", "hash"),
            1 => {
                // Each route needs a value.
                put(&mut ecmp, "selection", "source-route");
                put(&mut ecmp, "values", int(1_024));
            }
            _ => {}
        }
    }
    (ecmp, host)
}

/// How entropy values of a seed are retired, with as many of them.
pub fn retirement(seed: u64, duration: u64, values: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm retirement", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    if draw.chance(70) {
        put(&mut found, "spares", int(draw.pick(&[0, 1, 8, 100])));
    }
    if draw.chance(50) {
        put(&mut found, "least_active", int(1 + draw.below(values)));
    }
    let interval = draw.pick(&[duration / 300, duration / 20]).max(1);
    let value = draw.time(interval);
    put(&mut found, "probe_interval", value);
    found
}

/// The lane of control packets of a seed, and whether switches serve it before all others.
pub fn priority(seed: u64, lanes: u8) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm priority", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    if draw.chance(60) {
        let control = draw.below(lanes.into());
        put(&mut found, "control", int(control));
        put(&mut found, "control_priority", draw.chance(80));
    }
    found
}

/// The tables by which the outputs of a seed select lanes.
pub fn lane_tables(seed: u64, lanes: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm lane tables", 0), cycle: None, is_crowd: false };
    let entry = |vl: u64, weight: u64| Value::Array(vec![int(vl), int(weight)]);
    let mut tables = [Vec::new(), Vec::new()];
    for vl in 0..lanes {
        // Each lane has a weight in at least one table.
        let first = draw.below(2) as usize;
        tables[first].push(entry(vl, draw.pick(&[1, 2, 16, 40, 255])));
        if draw.chance(30) {
            let at = draw.below(2) as usize;
            tables[at].insert(0, entry(vl, draw.pick(&[0, 0, 1, 33])));
        }
    }
    let limit = draw.pick(&["0 B", "0 B", "4 KiB", "8 KiB", "1016 KiB", "unlimited"]);
    let [high, low] = tables.map(Value::Array);
    let all = [("high", high), ("low", low), ("limit", Value::from(limit))];
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How the hosts of a seed use their LIDs, and deliver packets: the tables `topology`, `routing` and `host`.
pub fn lids(seed: u64) -> [(&'static str, Table); 3] {
    let mut draw = Draw { random: Stream::new(seed, "swarm lids", 0), cycle: None, is_crowd: false };
    let [mut topology, mut routing, mut host] = [Table::new(), Table::new(), Table::new()];
    put(&mut topology, "file", "../lmc/fabric.topo");
    put(&mut routing, "kind", "table");
    put(&mut routing, "file", "../lmc/fabric.lft");
    let path_bits = draw.pick(&["zero", "per-flow", "per-flow", "per-packet", "per-packet", "per-packet"]);
    put(&mut routing, "path_bits", path_bits);
    if path_bits == "per-packet" && draw.chance(60) {
        let delivery = draw.word(&["in-order", "out-of-order"]);
        put(&mut host, "delivery", delivery);
    }
    [("topology", topology), ("routing", routing), ("host", host)]
}
