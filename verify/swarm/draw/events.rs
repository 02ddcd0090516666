//! Links and hosts that change during a run, for a scenario that was drawn without changes. The choices use a
//! separate random stream, so that the scenario of a seed does not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::{Draw, int, put};

/// What the changes depend on.
pub struct Around {
    /// Names of switches, of hosts, and of ports with a link at one end.
    pub switches: Vec<String>,
    pub hosts: Vec<String>,
    pub ports: Vec<String>,
    pub duration: u64,
    /// The rate of the slowest link.
    pub slowest: u64,
    /// Whether the scenario sets the injection rate or the drain rate of hosts.
    pub is_limited: bool,
}

/// Some changes of a seed.
pub fn events(seed: u64, around: &Around) -> Vec<Value> {
    let mut draw = Draw { random: Stream::new(seed, "swarm events", 0), cycle: None, is_crowd: false };
    (0..draw.range(1, 3)).map(|number| Value::Table(draw.event(around, number))).collect()
}

/// How hosts of a seed send lost packets again.
pub fn recovery(seed: u64, duration: u64, may_overtake: bool) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm recovery", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    let kind = if may_overtake { "selective-repeat" } else { draw.pick(&["selective-repeat", "go-back-n"]) };
    put(&mut found, "kind", kind);
    let timeout = draw.pick(&[duration / 300, duration / 30, duration / 3]).max(1);
    let value = draw.time(timeout);
    put(&mut found, "timeout", value);
    if kind == "selective-repeat" && draw.chance(60) {
        put(&mut found, "reordering", int(draw.pick(&[1, 3, 16, 200])));
    }
    found
}

/// The virtual lanes of a seed that drop what does not fit into a buffer; none in two of three seeds.
pub fn lossy_lanes(seed: u64, lanes: u8) -> Vec<Value> {
    let mut draw = Draw { random: Stream::new(seed, "swarm lossy lanes", 0), cycle: None, is_crowd: false };
    let is_lossy = draw.chance(33);
    (0..lanes).filter(|_| is_lossy && draw.chance(60)).map(|lane| int(lane.into())).collect()
}

/// How routes of a seed change. The file is for the fabric of [`super::ecmp::lids`].
pub fn rerouting(seed: u64, duration: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm rerouting", 0), cycle: None, is_crowd: false };
    let mut found = Table::new();
    for (key, percent) in [("delay", 60), ("port_delay", 40)] {
        if draw.chance(percent) {
            let delay = draw.pick(&[0, 1, duration / 200, duration / 20]);
            let value = draw.time(delay);
            put(&mut found, key, value);
        }
    }
    if found.contains_key("delay") && draw.chance(50) {
        put(&mut found, "tables", "../lmc-after/fabric.lft");
    }
    found
}

impl Draw {
    fn event(&mut self, around: &Around, number: u64) -> Table {
        let mut event = Table::new();
        if self.chance(20) {
            put(&mut event, "name", format!("event {number}"));
        }
        let kind = self.pick(&["down", "down", "down", "rate", "rate", "errors", "stall", "drain", "stop"]);
        put(&mut event, "kind", kind);
        if kind == "rate" && self.chance(25) {
            let width = self.pick(&["1x", "2x", "2x of 8x"]);
            put(&mut event, "width", width);
        } else if matches!(kind, "rate" | "drain") {
            let share = self.share_of(around.slowest, &[1, 10, 25, 50, 100]).min(around.slowest);
            let rate = self.rate(share);
            put(&mut event, "rate", rate);
        }
        if kind == "drain" && !around.is_limited {
            let is_shared = self.chance(50);
            put(&mut event, "shared", is_shared);
        }
        if kind == "errors" {
            let loss = self.pick(&[1_000, 1_000_000, 30_000_000, 500_000_000]);
            put(&mut event, "loss_ppb", int(loss));
        }
        let mut some = |names: &[String]| -> Vec<Value> {
            let count = self.range(1, 2) as usize;
            self.shuffled(names).into_iter().take(count).map(Value::from).collect()
        };
        let (ports, switches, hosts) = (some(&around.ports), some(&around.switches), some(&around.hosts));
        if matches!(kind, "stall" | "drain" | "stop") {
            put(&mut event, "hosts", hosts);
        } else if switches.is_empty() || self.chance(80) {
            put(&mut event, "links", ports);
        } else {
            put(&mut event, "switches", switches);
        }
        let least = (around.duration / 100).max(1);
        if self.chance(80) {
            let start = self.below(90) * (around.duration / 100) + self.below(least);
            let value = self.time(start);
            put(&mut event, "start", value);
        }
        if kind == "stop" {
            return event;
        }
        let lasts = self.pick(&[1, least, least * 3, least * 20]);
        let choice = self.below(10);
        if choice < 8 || kind == "stall" {
            let value = self.time(lasts);
            put(&mut event, "lasts", value);
        }
        if choice < 2 {
            let jitter = self.below(least);
            let every = lasts + jitter + 1 + self.below(least * 30);
            if jitter > 0 && self.chance(70) {
                put(&mut event, "jitter", Value::from(format!("{jitter} ps")));
            }
            put(&mut event, "every", Value::from(format!("{every} ps")));
        } else if choice < 4 {
            let mean = self.pick(&[least * 2, least * 10, least * 60]);
            let value = self.time(mean);
            put(&mut event, "mean_time_between", value);
        }
        event
    }
}
