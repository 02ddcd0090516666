//! Traffic with a separate flow per message, for a scenario that was drawn without it. The choices use a
//! separate random stream, so that the scenario of a seed does not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::{Draw, bytes, int, kind, put};

/// Folder of the files that the traffic uses.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/transfers");

/// What the traffic depends on.
pub struct Around {
    pub hosts: Vec<String>,
    pub duration: u64,
    pub mtu: u64,
    /// Whether receivers acknowledge all data.
    pub has_acks: bool,
    pub levels: u64,
}

/// One or two patterns of a seed.
pub fn sources(seed: u64, around: &Around) -> Vec<Value> {
    let mut draw = Draw { random: Stream::new(seed, "swarm sources", 0), cycle: None, is_crowd: false };
    (0..draw.range(1, 2)).map(|number| Value::Table(draw.source(around, number))).collect()
}

/// Rates and delays of the levels of a tree, by its kind. Other networks have none.
pub fn levels(seed: u64, topology: &Table) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm levels", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    let keys: &[&str] = match topology.get("kind").and_then(Value::as_str) {
        Some("two-level-fat-tree") => &["uplink"],
        Some("three-level-fat-tree") => &["uplink", "core"],
        Some("pgft") => {
            let count = topology.get("m").and_then(Value::as_array).map_or(0, Vec::len);
            let rates: Vec<Value> = (0..count).map(|_| draw.word(&RATES)).collect();
            let delays: Vec<Value> = (0..count).map(|_| draw.word(&DELAYS)).collect();
            put(&mut found, "level_rates", rates);
            put(&mut found, "level_delays", delays);
            return found;
        }
        _ => &[],
    };
    for key in keys {
        if draw.chance(70) {
            put(&mut found, &format!("{key}_rate"), draw.word(&RATES));
        }
        if draw.chance(50) {
            put(&mut found, &format!("{key}_delay"), draw.word(&DELAYS));
        }
    }
    found
}

/// What is recorded in scenarios of a seed.
pub fn measure(seed: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm transfers", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    if draw.chance(40) {
        put(&mut found, "transfers", draw.chance(60));
    }
    found
}

const RATES: [&str; 4] = ["16 Gbit/s", "40 Gbit/s", "7 Gbit/s", "100 Gbit/s"];
const DELAYS: [&str; 3] = ["5 ns", "77 ns", "1 us"];

impl Draw {
    fn source(&mut self, around: &Around, number: u64) -> Table {
        let kinds: &[&str] = if around.has_acks {
            &["load", "closed", "incast", "listed"]
        } else {
            &["load", "incast", "listed"]
        };
        let which = self.pick(kinds);
        let mut found = Table::new();
        put(&mut found, "name", format!("S{number}"));
        if which == "listed" {
            let mut pattern = kind("listed");
            if self.chance(50) {
                put(&mut pattern, "file", format!("{FILES}/flows.txt"));
                put(&mut pattern, "starts_at", "2 s");
            } else {
                put(&mut pattern, "file", format!("{FILES}/transfers.csv"));
            }
            put(&mut found, "pattern", pattern);
            return found;
        }
        let count = around.hosts.len() as u64;
        let ps = |ps: u64| format!("{ps} ps");
        match which {
            "incast" => {
                let mut pattern = kind("incast");
                let senders = self.range(1, count - 1);
                put(&mut pattern, "senders", int(senders));
                if self.chance(60) {
                    let every = self.range(around.duration / 6 + 1_000, around.duration + 1_000);
                    put(&mut pattern, "every", ps(every));
                } else {
                    let load = self.pick(&[1, 5, 30]);
                    put(&mut found, "load_percent", int(load));
                }
                if self.chance(60) {
                    let jitter = self.range(0, around.duration / 10);
                    put(&mut pattern, "jitter", ps(jitter));
                }
                put(&mut found, "pattern", pattern);
            }
            "closed" => {
                put(&mut found, "pattern", kind("uniform"));
                let outstanding = self.range(1, 4);
                put(&mut found, "outstanding", int(outstanding));
                if self.chance(70) {
                    let think = self.range(0, around.duration / 10);
                    put(&mut found, "think", ps(think));
                }
            }
            _ => {
                let to = self.pick(&["uniform", "uniform", "all-to-all", "permutation"]);
                put(&mut found, "pattern", kind(to));
                let load = self.pick(&[1, 10, 40, 100]);
                put(&mut found, "load_percent", int(load));
                if self.chance(40) {
                    let mut bursts = Table::new();
                    for key in ["on", "off"] {
                        let mean = self.range(around.duration / 40 + 1_000, around.duration / 3 + 2_000);
                        put(&mut bursts, key, ps(mean));
                    }
                    put(&mut found, "bursts", bursts);
                }
            }
        }
        if which == "load" || self.chance(60) {
            let published = self.pick(&["rpc", "rpc", "hadoop", "storage", "web-search", "data-mining"]);
            let mut sizes = kind(published);
            if self.chance(80) {
                sizes = kind("file");
                put(&mut sizes, "file", format!("{FILES}/sizes.txt"));
            }
            put(&mut found, "sizes", sizes);
        } else if self.chance(70) {
            let size = self.range(1, 4 * around.mtu);
            put(&mut found, "message", bytes(size));
        }
        if which != "closed" && self.chance(60) {
            put(&mut found, "arrivals", "poisson");
        }
        if self.chance(25) {
            let level = self.below(around.levels);
            put(&mut found, "sl", int(level));
        }
        found
    }
}
