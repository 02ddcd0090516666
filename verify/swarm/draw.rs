//! Generates a random scenario from a seed: any network, switches, hosts, congestion management and traffic
//! that the schema allows, small enough to be run many times.
//!
//! Where the rules between values are complex, values are chosen freely, and a scenario that the loader
//! rejects is generated again (see `case`). Sizes are scaled: the traffic determines the number of packets
//! per time, and the duration follows from the intended number of packets.

use silvan_engine::random::Stream;
use silvan_engine::{Bytes, Rate, Time};
use toml::{Table, Value};

mod congestion;
pub mod ecmp;
pub mod events;
pub mod jobs;
mod network;
mod nodes;
pub mod rdma;
pub mod sources;
mod traffic;
pub mod trimming;

/// Folder of the real fabrics that scenarios may use.
pub const FABRICS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/fabrics");

/// A source of random choices, and the notation of quantities.
pub struct Draw {
    random: Stream,
    /// Length of a cycle in picoseconds, if the scenario defines one.
    cycle: Option<u64>,
    /// Whether many hosts send to all others on several lanes. This tests the state per flow with hundreds of
    /// flows.
    is_crowd: bool,
}

/// Properties of a scenario that several of its components need.
pub struct Frame {
    hosts: Vec<String>,
    /// Rate of the fastest link, and of the slowest host link.
    fastest: u64,
    slowest: u64,
    /// The different rates of links.
    rates: Vec<u64>,
    /// Approximate number of links that a packet crosses.
    hops: u64,
    is_fat_tree: bool,
    has_one_way: bool,
    mtu: u64,
    header: u64,
    /// Buffer space of a full packet.
    space: u64,
    lanes: u64,
    /// The number of lanes that the routing requires, if any.
    own_lanes: Option<u64>,
    /// Maximum injection rate of a host.
    injection: u64,
}

impl Frame {
    fn full(&self) -> u64 {
        self.mtu + self.header
    }
}

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        u64::from(self.random.below(u32::try_from(bound).unwrap_or(u32::MAX)))
    }

    /// A number from `low` to `high`, both included.
    fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.chance(percent, 100)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn word(&mut self, from: &[&'static str]) -> Value {
        Value::from(self.pick(from))
    }

    fn time(&mut self, ps: u64) -> Value {
        let cycle = self.cycle.unwrap_or(0);
        if cycle == 0 || !ps.is_multiple_of(cycle) || ps == 0 || !self.chance(60) {
            return Value::from(Time(ps).to_string());
        }
        let count = ps / cycle;
        Value::from(if count == 1 { "1 cycle".to_owned() } else { format!("{count} cycles") })
    }

    fn rate(&mut self, bits: u64) -> Value {
        // A byte per cycle of 1 ns is 8 Gbit/s, so nine digits are exact.
        if self.cycle != Some(1_000) || !bits.is_multiple_of(1_000_000) || !self.chance(60) {
            return Value::from(Rate(bits).to_string());
        }
        let billionths = bits / 8;
        let unit = self.pick(&["bytes/cycle", "B/cycle"]);
        let (whole, rest) = (billionths / 1_000_000_000, billionths % 1_000_000_000);
        Value::from(format!("{whole}.{rest:09} {unit}"))
    }

    /// A share of a rate, occasionally an odd number.
    fn share_of(&mut self, rate: u64, percents: &[u64]) -> u64 {
        let share = rate / 100 * self.pick(percents);
        let odd = if self.chance(30) { self.range(1, 999_999) } else { 0 };
        (share / 1_000_000 * 1_000_000 + odd).max(1_000_000)
    }

    fn shuffled(&mut self, names: &[String]) -> Vec<String> {
        let mut names = names.to_vec();
        self.random.shuffle(&mut names);
        names
    }
}

fn bytes(bytes: u64) -> Value {
    Value::from(Bytes(bytes).to_string())
}

fn int(number: u64) -> Value {
    Value::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn kind(name: &str) -> Table {
    let mut table = Table::new();
    put(&mut table, "kind", name);
    table
}

/// The scenario of a seed and an attempt.
pub fn draw(seed: u64, attempt: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm", attempt), cycle: None, is_crowd: false };
    draw.is_crowd = draw.chance(2);
    let mut scenario = Table::new();
    if draw.chance(10) {
        put(&mut scenario, "name", format!("case {seed}"));
    }
    if draw.chance(3) {
        put(&mut scenario, "description", "Drawn.");
    }
    let own_seed = draw.range(1, 1 << 31);
    put(&mut scenario, "seed", int(own_seed));
    if draw.chance(8) {
        draw.cycle = Some(draw.pick(&[1_000, 1_000, 2_500]));
        put(&mut scenario, "cycle", Time(draw.cycle.unwrap_or(1_000)).to_string());
    }
    let mut frame = draw.network(&mut scenario);
    draw.packet(&mut scenario, &mut frame);
    draw.lanes(&mut scenario, &mut frame);
    let needs = draw.congestion(&mut scenario, &frame);
    draw.switch(&mut scenario, &frame, &needs);
    draw.host(&mut scenario, &mut frame, &needs);
    draw.flow_control(&mut scenario, &frame);
    if draw.chance(if frame.is_fat_tree { 25 } else { 1 }) {
        draw.flow_routes(&mut scenario);
    } else if draw.chance(15) {
        draw.packet_routes(&mut scenario, &frame);
    }
    let by_routing = |lanes: &Value| lanes.get("assignment").and_then(Value::as_str) == Some("routing");
    if scenario.get("lanes").is_some_and(by_routing) && draw.chance(85) {
        with_plain_switches(&mut scenario);
    }
    let duration = draw.all_traffic(&mut scenario, &frame);
    draw.times(&mut scenario, duration);
    // From a separate stream, so that the other scenarios do not change.
    let mut draw = Draw { random: Stream::new(seed, "swarm ports", attempt), cycle: None, is_crowd: false };
    if draw.chance(40) {
        draw.port_settings(&mut scenario, &frame);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm rates", attempt), cycle: None, is_crowd: false };
    if draw.chance(15) {
        draw.rate_settings(&mut scenario, &frame);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm pauses", attempt), cycle: None, is_crowd: false };
    if draw.chance(10) {
        draw.pause_frames(&mut scenario, &frame);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm links", attempt), cycle: None, is_crowd: false };
    if draw.chance(12) {
        draw.credits_and_retry(&mut scenario, &frame);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm hosts", attempt), cycle: None, is_crowd: false };
    if draw.chance(25) {
        draw.host_settings(&mut scenario, &frame);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm tables", attempt), cycle: None, is_crowd: false };
    // A variant of the scenario may get a lane that precedes all others, which excludes tables.
    let has_first = ecmp::priority(own_seed, frame.lanes as u8).get("control_priority") == Some(&true.into());
    if frame.lanes > 1
        && draw.chance(35)
        && !has_first
        && let Some(lanes) = scenario.get_mut("lanes").and_then(Value::as_table_mut)
    {
        put(lanes, "arbitration", ecmp::lane_tables(seed, frame.lanes));
    }
    let mut draw =
        Draw { random: Stream::new(seed, "swarm forwarding", attempt), cycle: None, is_crowd: false };
    if draw.chance(15)
        && let Some(switch) = scenario.get_mut("switch").and_then(Value::as_table_mut)
    {
        put(switch, "forwarding", draw.word(&["store-and-forward", "store-and-forward", "cut-through"]));
    }
    Draw { random: Stream::new(seed, "swarm weights", attempt), cycle: None, is_crowd: false }
        .weights(&mut scenario);
    Draw { random: Stream::new(seed, "swarm logs", attempt), cycle: None, is_crowd: false }
        .congestion_log(&mut scenario);
    scenario
}

/// Removes the options that lanes of the routing do not permit.
fn with_plain_switches(scenario: &mut Table) {
    for key in ["flow_control", "link", "adaptive_routing"] {
        scenario.remove(key);
    }
    if let Some(switch) = scenario.get_mut("switch").and_then(Value::as_table_mut) {
        switch.retain(|key, _| matches!(key, "buffer" | "latency" | "control_first"));
    }
    if let Some(host) = scenario.get_mut("host").and_then(Value::as_table_mut) {
        host.retain(|key, _| !matches!(key, "queues" | "output_buffer"));
    }
    let congestion = scenario.get("congestion");
    let mechanism = congestion.and_then(|congestion| congestion.get("mechanism")).and_then(Value::as_str);
    if mechanism != Some("ib-cc") {
        scenario.remove("congestion");
    }
}

impl Draw {
    fn flow_routes(&mut self, scenario: &mut Table) {
        let mut adaptive = Table::new();
        if self.chance(20) {
            put(&mut adaptive, "enabled", self.chance(60));
        }
        if self.chance(20) {
            put(&mut adaptive, "per", "flow");
        }
        if self.chance(80) {
            let heuristic = self.word(&["flow-count", "bytes", "random"]);
            put(&mut adaptive, "heuristic", heuristic);
        }
        if self.chance(40) {
            let cache = self.pick(&[0, 1, 2, 5, 100]);
            put(&mut adaptive, "cache", int(cache));
        }
        put(scenario, "adaptive_routing", adaptive);
    }

    /// Adaptive routing per packet, often with pinned packets if the mechanism has states that pin them.
    fn packet_routes(&mut self, scenario: &mut Table, frame: &Frame) {
        let mut adaptive = Table::from_iter([("per".to_owned(), Value::from("packet"))]);
        if self.chance(50) {
            let grade = self.pick(&[1, 64, frame.full(), 2 * frame.full(), 16_384]);
            put(&mut adaptive, "grade", Bytes(grade).to_string());
        }
        if self.chance(20) {
            let levels = (0..self.range(1, 4)).map(|_| int(self.below(16))).collect::<Vec<Value>>();
            put(&mut adaptive, "levels", levels);
        }
        let mechanism = scenario.get("congestion").and_then(|congestion| congestion.get("mechanism"));
        let fitting: &[&str] = match mechanism.and_then(Value::as_str) {
            None | Some("none") => &[],
            Some("fbicm" | "hfdi") => &["isolated"],
            Some("ccfit" | "ecocc") => &["isolated", "throttled"],
            Some(_) => &["throttled"],
        };
        let pinned: Vec<Value> =
            fitting.iter().filter(|_| self.chance(40)).map(|&pinned| Value::from(pinned)).collect();
        if !pinned.is_empty() || self.chance(5) {
            put(&mut adaptive, "pinned", pinned);
        }
        put(scenario, "adaptive_routing", adaptive);
    }

    fn packet(&mut self, scenario: &mut Table, frame: &mut Frame) {
        let mut packet = Table::new();
        frame.mtu = match self.below(10) {
            0..=3 => 2048,
            4..=7 => self.pick(&[64, 256, 512, 1000, 1024, 4096]),
            8 => self.range(1, 5000),
            _ => 2048,
        };
        if frame.mtu != 2048 || self.chance(30) {
            put(&mut packet, "mtu", bytes(frame.mtu));
        }
        frame.header = if self.chance(30) { self.pick(&[8, 20, 26, 30, 52, 100]) } else { 0 };
        if frame.header > 0 {
            put(&mut packet, "header", bytes(frame.header));
        }
        let mut control = 64;
        if self.chance(20) || frame.full() < 64 {
            control = self.pick(&[1, 8, 16, 30, 64, 100]).min(frame.full());
            put(&mut packet, "control", bytes(control));
        }
        let mut block = 64;
        if self.chance(30) {
            block = self.pick(&[1, 1, 16, 100, 256, 3000]);
            put(&mut packet, "credit_block", bytes(block));
        }
        frame.space = frame.full().max(control).div_ceil(block) * block;
        if !packet.is_empty() {
            put(scenario, "packet", packet);
        }
    }

    fn lanes(&mut self, scenario: &mut Table, frame: &mut Frame) {
        let mut lanes = Table::new();
        frame.lanes = self.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 4, 8, 15]);
        if self.is_crowd {
            frame.lanes = self.pick(&[1, 2, 2, 3, 4]);
        }
        if let Some(needed) = frame.own_lanes.filter(|&needed| needed > 1 || self.chance(20)) {
            frame.lanes = needed + self.below(2);
            put(&mut lanes, "count", int(frame.lanes));
            put(&mut lanes, "assignment", "routing");
            put(scenario, "lanes", lanes);
            return;
        }
        let count = frame.lanes;
        if count > 1 || self.chance(5) {
            put(&mut lanes, "count", int(count));
            if self.chance(25) {
                let map: Vec<Value> = (0..16).map(|_| int(self.below(count))).collect();
                put(&mut lanes, "sl_to_vl", map);
            }
            if self.chance(30) {
                let control = self.below(count);
                put(&mut lanes, "control", int(control));
            }
            if self.chance(35) {
                let assignment = self.word(&["service-level", "destination", "vftree"]);
                put(&mut lanes, "assignment", assignment);
            }
        }
        if !lanes.is_empty() {
            put(scenario, "lanes", lanes);
        }
    }

    /// Duration, warm-up and recorded tables.
    fn times(&mut self, scenario: &mut Table, duration: u64) {
        let value = self.time(duration);
        put(scenario, "duration", value);
        if self.chance(40) {
            let warmup = self.below(900) * (duration / 1000);
            let value = self.time(warmup);
            put(scenario, "warmup", value);
        }
        let mut measure = Table::new();
        let parts = self.pick(&[1, 3, 7, 10, 20, 20, 33]);
        let odd = if self.chance(40) { self.below(duration / 100 + 1) } else { 0 };
        let interval = self.time((duration / parts + odd).max(1));
        put(&mut measure, "interval", interval);
        for key in ["links", "hosts", "classes"] {
            if self.chance(15) {
                put(&mut measure, key, self.chance(30));
            }
        }
        put(scenario, "measure", measure);
    }
}
