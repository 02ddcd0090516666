//! Congestion management of RDMA over Ethernet, for a scenario that was drawn without it. The choices use a
//! separate random stream, so that the scenario of a seed does not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::{Draw, bytes, int, kind, put};

/// What the components depend on.
pub struct Around {
    /// Bytes of a full packet.
    pub full: u64,
    /// Whether links may be one-way, which notifications of switches do not support.
    pub has_one_way: bool,
    /// The different rates of links, in bit/s.
    pub rates: Vec<u64>,
}

/// Congestion management of a seed.
pub fn congestion(seed: u64, around: &Around) -> Table {
    let random = Stream::new(seed, "swarm rdma", 0);
    let mut draw = Draw { random, cycle: None, is_crowd: false };
    let mut congestion = Table::new();
    let full = around.full;
    let name = draw.pick(&["dcqcn", "dcqcn", "dctcp", "timely", "swift", "hpcc", "nscc"]);
    let mut reaction = kind(name);
    match name {
        "dctcp" => draw.dctcp(&mut reaction),
        "timely" => draw.timely(&mut reaction),
        "swift" => draw.swift(&mut reaction),
        "hpcc" => draw.hpcc(&mut reaction),
        "nscc" => draw.nscc(&mut reaction),
        _ => draw.dcqcn(&mut reaction, full),
    }
    let has_telemetry = name == "hpcc" || (name == "swift" && draw.chance(50));
    let marking = if has_telemetry { kind("telemetry") } else { draw.red(full) };
    put(&mut congestion, "marking", marking);
    put(&mut congestion, "reaction", reaction);
    if name == "dcqcn" {
        draw.way_back(&mut congestion, around);
    } else {
        put(&mut congestion, "notification", "ack-each");
    }
    if seed.is_multiple_of(7) {
        // From a separate stream, so that the components of other seeds do not change.
        let random = Stream::new(seed, "swarm rccc", 0);
        let mut draw = Draw { random, cycle: None, is_crowd: false };
        if has_telemetry {
            put(&mut congestion, "marking", kind("none"));
        }
        for key in ["coalescing", "notification_delay"] {
            congestion.remove(key);
        }
        put(&mut congestion, "notification", "ack-grant");
        put(&mut congestion, "reaction", draw.rccc(full));
    } else if seed % 11 == 5 {
        let random = Stream::new(seed, "swarm pcc", 0);
        let mut draw = Draw { random, cycle: None, is_crowd: false };
        for key in ["coalescing", "notification_delay"] {
            congestion.remove(key);
        }
        let reads_telemetry = draw.chance(50);
        let marking = if reads_telemetry { kind("telemetry") } else { draw.red(full) };
        put(&mut congestion, "marking", marking);
        put(&mut congestion, "notification", "ack-each");
        let reaction = if reads_telemetry { draw.pcc_telemetry(full) } else { draw.pcc_rtt() };
        put(&mut congestion, "reaction", reaction);
    } else if seed % 13 == 4 {
        let random = Stream::new(seed, "swarm rdma presets", 0);
        let mut draw = Draw { random, cycle: None, is_crowd: false };
        congestion = Table::new();
        let preset = draw.word(&PRESETS);
        put(&mut congestion, "mechanism", preset);
    } else if seed % 13 == 5
        && let Some(red) = congestion.get_mut("marking").and_then(Value::as_table_mut)
        && red.get("kind").and_then(Value::as_str) == Some("red")
    {
        let random = Stream::new(seed, "swarm scaled red", 0);
        let mut draw = Draw { random, cycle: None, is_crowd: false };
        if draw.chance(70) {
            let rate = draw.word(&["8 Gbit/s", "25 Gbit/s", "100 Gbit/s"]);
            put(red, "per_rate", rate);
        }
        if draw.chance(70) {
            let round_trip = draw.word(&["500 ns", "2 us", "13 us"]);
            put(red, "per_round_trip", round_trip);
        }
    } else if seed % 13 == 6
        && let Some(red) = congestion.get_mut("marking").and_then(Value::as_table_mut)
        && red.get("kind").and_then(Value::as_str) == Some("red")
    {
        let random = Stream::new(seed, "swarm red by rate", 0);
        let mut draw = Draw { random, cycle: None, is_crowd: false };
        red.retain(|key, _| !matches!(key, "min" | "max"));
        put(red, "thresholds", draw.thresholds(&around.rates, |draw, own| draw.red_by_rate(own, full)));
    }
    acknowledge(seed, full, &mut congestion);
    marks_at_hosts(seed, &mut congestion);
    first_window(seed, full, &mut congestion);
    congestion
}

/// Lets acknowledgements cover several packets, in some of the scenarios with a reaction that counts bytes.
/// The choices use a separate random stream, so that the other parts of a seed do not change.
pub(super) fn acknowledge(seed: u64, full: u64, congestion: &mut Table) {
    let mut draw = Draw { random: Stream::new(seed, "swarm acknowledge", 0), cycle: None, is_crowd: false };
    let reaction =
        congestion.get("reaction").and_then(|reaction| reaction.get("kind")).and_then(Value::as_str);
    if !matches!(reaction, Some("nscc" | "rccc")) || draw.chance(50) {
        return;
    }
    let mut unit = Table::new();
    if draw.chance(80) {
        let packets = draw.pick(&[1, 2, 4, 16]);
        put(&mut unit, "bytes", bytes(full * packets + draw.below(2)));
    }
    draw.span(&mut unit, "within");
    put(congestion, "acknowledge", unit);
}

/// Sets whether outputs to hosts mark packets, in some of the scenarios with the marking rule `red`. The
/// random stream is separate.
pub(super) fn marks_at_hosts(seed: u64, congestion: &mut Table) {
    let mut draw =
        Draw { random: Stream::new(seed, "swarm marks at hosts", 0), cycle: None, is_crowd: false };
    if let Some(marking) = congestion.get_mut("marking").and_then(Value::as_table_mut)
        && marking.get("kind").and_then(Value::as_str) == Some("red")
        && draw.chance(30)
    {
        put(marking, "hosts", draw.chance(10));
    }
}

/// Sets the first window, the rules and the level of NSCC in some of the scenarios. The random streams are separate.
pub(super) fn first_window(seed: u64, full: u64, congestion: &mut Table) {
    let mut draw = Draw { random: Stream::new(seed, "swarm first window", 0), cycle: None, is_crowd: false };
    let Some(reaction) = congestion.get_mut("reaction").and_then(Value::as_table_mut) else { return };
    let is_nscc = reaction.get("kind").and_then(Value::as_str) == Some("nscc");
    let own = if is_nscc { Some(reaction) } else { reaction.get_mut("nscc").and_then(Value::as_table_mut) };
    let Some(nscc) = own else { return };
    if draw.chance(30) {
        let packets = draw.pick(&[1, 2, 5, 50]);
        put(nscc, "first_window", bytes(full * packets + draw.below(full)));
    }
    if draw.chance(30) {
        let rule = draw.word(&["spec", "spec", "spec", "htsim"]);
        put(nscc, "rule", rule);
    }
    let mut draw = Draw { random: Stream::new(seed, "swarm window level", 0), cycle: None, is_crowd: false };
    if draw.chance(50) {
        // Credit belongs to queue pairs.
        let levels: &[_] =
            if is_nscc { &["destination", "destination", "destination", "qp"] } else { &["qp"] };
        put(nscc, "level", draw.word(levels));
    }
}

/// The mechanisms of Ethernet.
const PRESETS: [&str; 10] =
    ["dcqcn", "dctcp", "timely", "swift", "hpcc", "pcc-rtt", "pcc-telemetry", "nscc", "rccc", "uec"];

impl Draw {
    fn red_by_rate(&mut self, own: &mut Table, full: u64) {
        let (min, more) = (self.range(0, 4 * full), self.pick(&[0, full, 8 * full]));
        put(own, "min", bytes(min));
        put(own, "max", bytes(min + more));
        if self.chance(50) {
            put(own, "percent", int(self.range(1, 100)));
        }
    }

    pub(super) fn red(&mut self, full: u64) -> Table {
        let mut red = kind("red");
        if self.chance(90) {
            let (min, more) = (self.range(0, 4 * full), self.pick(&[0, full, 8 * full]));
            put(&mut red, "min", bytes(min));
            put(&mut red, "max", bytes(min + more));
        }
        if self.chance(80) {
            let percent = self.pick(&[1, 20, 50, 100]);
            put(&mut red, "percent", int(percent));
        }
        if self.chance(70) {
            let pattern = self.word(&["random", "regular"]);
            put(&mut red, "pattern", pattern);
        }
        red
    }

    fn dcqcn(&mut self, dcqcn: &mut Table, full: u64) {
        if self.chance(40) {
            let set = self.word(&["tuned", "paper"]);
            put(dcqcn, "set", set);
        }
        for key in ["alpha_interval", "decrease_interval", "increase_interval"] {
            self.span(dcqcn, key);
        }
        if self.chance(40) {
            let cycle = self.range(1, 10) * full;
            put(dcqcn, "increase_bytes", bytes(cycle));
        }
        if self.chance(40) {
            let divisor = self.pick(&[1, 2, 16, 256]);
            put(dcqcn, "gain_divisor", int(divisor));
        }
        if self.chance(40) {
            let fast = self.pick(&[1, 2, 5]);
            put(dcqcn, "fast_recovery", int(fast));
        }
        self.rates(dcqcn, &["additive_increase", "hyper_increase", "min_rate"]);
        if self.chance(30) {
            put(dcqcn, "clamp_target", self.chance(50));
            put(dcqcn, "after_losses", self.chance(50));
        }
        if self.chance(30) {
            let percent = self.pick(&[20, 50, 100]);
            put(dcqcn, "first_rate_percent", int(percent));
        }
        if self.chance(50) {
            let order = self.word(&["alpha-first", "decrease-first"]);
            put(dcqcn, "order", order);
        }
    }

    fn rates(&mut self, reaction: &mut Table, keys: &[&str]) {
        for key in keys {
            if self.chance(40) {
                let rate = self.word(&["5 Mbit/s", "100 Mbit/s", "2 Gbit/s"]);
                put(reaction, key, rate);
            }
        }
    }

    fn numbers(&mut self, reaction: &mut Table, choices: &[(&str, &[u64])]) {
        for (key, values) in choices {
            if self.chance(40) {
                let value = self.pick(values);
                put(reaction, key, int(value));
            }
        }
    }

    fn dctcp(&mut self, reaction: &mut Table) {
        self.numbers(
            reaction,
            &[("gain_divisor", &[1, 4, 16]), ("initial_packets", &[1, 2, 40]), ("min_packets", &[1, 3])],
        );
        if self.chance(40) {
            put(reaction, "slow_start", self.chance(50));
        }
    }

    fn timely(&mut self, reaction: &mut Table) {
        if self.chance(50) {
            let low = self.range(1, 10_000_000);
            let (low, high) = (self.time(low), self.time(low + 5_000_000));
            put(reaction, "low", low);
            put(reaction, "high", high);
        }
        self.span(reaction, "min_delay");
        self.numbers(
            reaction,
            &[("weight_permille", &[1, 500, 1_000]), ("beta_permille", &[100, 1_000]), ("stages", &[1, 5])],
        );
        self.rates(reaction, &["additive_increase", "hyper_increase", "min_rate"]);
    }

    fn swift(&mut self, reaction: &mut Table) {
        for key in ["base_target", "per_hop", "flow_scaling"] {
            self.span(reaction, key);
        }
        self.numbers(
            reaction,
            &[
                ("scaling_from_percent", &[1, 10, 99]),
                ("scaling_to_packets", &[1, 100]),
                ("increase_packets", &[1, 4]),
                ("beta_percent", &[20, 100]),
                ("max_decrease_percent", &[10, 99]),
                ("initial_packets", &[1, 40]),
            ],
        );
    }

    fn hpcc(&mut self, reaction: &mut Table) {
        self.span(reaction, "round_trip");
        self.numbers(reaction, &[("utilization_percent", &[50, 90, 100]), ("max_stage", &[0, 1, 10])]);
        self.rates(reaction, &["additive_increase", "min_rate"]);
    }

    fn pcc_rtt(&mut self) -> Table {
        let mut reaction = kind("pcc-rtt");
        if self.chance(70) {
            let allowed = self.range(1, 10_000_000);
            let (allowed, longest) = (self.time(allowed), self.time(allowed + 20_000_000));
            put(&mut reaction, "allowed_delay", allowed);
            put(&mut reaction, "max_delay", longest);
        }
        let choices: [(&str, &[u64]); 2] =
            [("decrease_permille", &[1, 100, 499]), ("forget_samples", &[0, 1, 10])];
        self.numbers(&mut reaction, &choices);
        self.rates(&mut reaction, &["additive_increase", "min_rate"]);
        reaction
    }

    fn pcc_telemetry(&mut self, full: u64) -> Table {
        let mut reaction = kind("pcc-telemetry");
        if self.chance(70) {
            let queue = self.pick(&[0, full, 8 * full]);
            put(&mut reaction, "queue", bytes(queue));
        }
        let choices: [(&str, &[u64]); 2] =
            [("decrease_permille", &[1, 100, 999]), ("busy_permille", &[0, 500, 1_000])];
        self.numbers(&mut reaction, &choices);
        self.rates(&mut reaction, &["additive_increase", "hyper_increase", "min_rate"]);
        if self.chance(50) {
            let hop = self.word(&["last", "longest-queue"]);
            put(&mut reaction, "hop", hop);
        }
        reaction
    }

    pub(super) fn nscc(&mut self, reaction: &mut Table) {
        for key in ["round_trip", "target"] {
            self.span(reaction, key);
        }
        if self.chance(40) {
            put(reaction, "quick_adapt", self.chance(50));
        }
        self.numbers(reaction, &[("quick_adapt_gate", &[0, 3, 10])]);
    }

    pub(super) fn rccc(&mut self, full: u64) -> Table {
        let mut rccc = kind("rccc");
        self.span(&mut rccc, "round_trip");
        let mut most = 1 << 20;
        if self.chance(50) {
            most = self.pick(&[full, full + 77, 5 * full, 20 * full]);
            put(&mut rccc, "limit", bytes(most));
        }
        if self.chance(50) {
            let credit = self.pick(&[0, 1, full, 3 * full]).min(most);
            put(&mut rccc, "speculative", bytes(credit));
        }
        self.numbers(&mut rccc, &[("grant_percent", &[5, 50, 99, 100]), ("grant_packets", &[1, 4, 64])]);
        if self.chance(40) {
            put(&mut rccc, "idle_credit", self.chance(50));
        }
        if self.chance(40) {
            let mut nscc = Table::new();
            self.nscc(&mut nscc);
            put(&mut rccc, "nscc", nscc);
        }
        if self.chance(40) {
            let divides = self.chance(70);
            put(&mut rccc, "divide_requests", divides);
            if divides {
                rccc.remove("idle_credit");
            }
        }
        if self.chance(40) {
            let mut rule = Table::new();
            if self.chance(60) {
                let interval = self.range(100_000, 20_000_000);
                let interval = self.time(interval);
                put(&mut rule, "interval", interval);
            }
            self.numbers(
                &mut rule,
                &[
                    ("target_percent", &[0, 10, 30]),
                    ("decrease_percent", &[1, 50, 100]),
                    ("increase_permille", &[1, 10, 1_000]),
                    ("min_rate_permille", &[1, 225, 1_000]),
                ],
            );
            put(&mut rccc, "oversubscribed", rule);
        }
        rccc
    }

    fn way_back(&mut self, congestion: &mut Table, around: &Around) {
        let ways = ["cnp", "cnp", "cnp", "ack", "ack-each", "backward"];
        let way = self.pick(if around.has_one_way { &ways[..5] } else { &ways });
        put(congestion, "notification", way);
        if way == "cnp" && self.chance(40) {
            let mut coalescing = Table::new();
            self.span(&mut coalescing, "interval");
            if !coalescing.is_empty() {
                let per = self.word(&["flow", "port"]);
                put(&mut coalescing, "per", per);
                put(congestion, "coalescing", coalescing);
            }
        }
        if way == "cnp" && self.chance(40) {
            let delay = self.pick(&[1, 100_000, 1_234_567, 5_000_000]);
            let value = self.time(delay);
            put(congestion, "notification_delay", value);
        }
    }
}
