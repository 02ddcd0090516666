//! Congestion management: none, a mechanism, a mechanism with adjusted components, or components alone.

use silvan_engine::Rate;
use toml::{Table, Value};

use super::{Draw, Frame, bytes, int, kind, put};

/// Requirements of the components on switches and hosts.
#[derive(Default)]
pub(super) struct Needs {
    /// Number of packets that a lane's share of an input buffer must hold for thresholds to be meaningful.
    pub packets: u64,
    pub special: bool,
    pub at_root: bool,
    /// The default architecture of the mechanism.
    pub usual: &'static str,
    /// The marking rule needs output buffers.
    pub output_marks: bool,
    /// Marking uses the sum of the queues, or there is no marking.
    pub sum_marks: bool,
}

const MECHANISMS: [&str; 11] =
    ["none", "ib-cc", "fbicm", "ccfit", "hfdi", "ecocc", "renato", "pfister", "mvcm", "saa", "qcn"];

/// Adds the marking rule, the notification and the reaction that the table lacks, because components of
/// another link layer need all of them.
fn name_parts(congestion: &mut Table, [marking, notification, reaction]: [&str; 3]) {
    congestion.entry("marking").or_insert_with(|| Value::Table(kind(marking)));
    congestion.entry("notification").or_insert_with(|| Value::String(notification.to_owned()));
    congestion.entry("reaction").or_insert_with(|| Value::Table(kind(reaction)));
}

impl Draw {
    pub(super) fn congestion(&mut self, scenario: &mut Table, frame: &Frame) -> Needs {
        let mut congestion = Table::new();
        let mut needs = Needs { usual: "voq", sum_marks: true, ..Needs::default() };
        let way = self.below(10);
        match way.max(2 * u64::from(self.is_crowd)) {
            0..=1 => {
                if self.chance(30) {
                    put(&mut congestion, "mechanism", "none");
                }
            }
            2..=6 => {
                let mechanism = self.pick(&MECHANISMS);
                put(&mut congestion, "mechanism", mechanism);
                self.preset_needs(mechanism, &mut needs);
                if mechanism != "none" && self.chance(40) {
                    self.adjust(mechanism, &mut congestion, frame, &mut needs);
                }
            }
            _ => self.components(&mut congestion, frame, &mut needs),
        }
        if needs.special && frame.has_one_way {
            congestion = Table::new();
            needs = Needs { usual: "voq", sum_marks: true, ..Needs::default() };
        }
        if !congestion.is_empty() {
            put(scenario, "congestion", congestion);
        }
        needs
    }

    fn preset_needs(&self, mechanism: &str, needs: &mut Needs) {
        needs.special = ["fbicm", "ccfit", "hfdi", "ecocc"].contains(&mechanism);
        needs.at_root = ["fbicm", "ccfit"].contains(&mechanism);
        needs.output_marks = ["renato", "pfister", "mvcm"].contains(&mechanism);
        needs.sum_marks = !["ccfit", "ecocc"].contains(&mechanism);
        needs.usual = match mechanism {
            "fbicm" | "ccfit" => "iq",
            "renato" | "pfister" | "mvcm" => "cioq",
            _ => "voq",
        };
        needs.packets = if needs.at_root { 12 } else { 7 * u64::from(needs.special) };
    }

    /// Adjusts components without a `kind`, and the notification.
    fn adjust(&mut self, mechanism: &str, congestion: &mut Table, frame: &Frame, needs: &mut Needs) {
        if ["ib-cc", "ccfit", "ecocc"].contains(&mechanism) && self.chance(60) {
            let mut marking = self.fecn(frame, needs);
            marking.remove("fill");
            put(congestion, "marking", marking);
        } else if ["fbicm", "hfdi"].contains(&mechanism) && self.chance(30) {
            let kind = self.word(&["none", "fecn"]);
            needs.sum_marks = true;
            put(congestion, "marking", Table::from_iter([("kind".to_owned(), kind)]));
        }
        if needs.special && self.chance(60) {
            let mut special = self.special(frame, needs);
            special.remove("at_root");
            put(congestion, "isolation", special);
        }
        if ["ib-cc", "ccfit", "ecocc"].contains(&mechanism) && self.chance(60) {
            let cct = self.cct();
            put(congestion, "reaction", cct);
        } else if mechanism == "saa" && self.chance(60) {
            let mut rates = Table::new();
            let injection = self.word(&["periodic-selection", "shaped-virtual-clock"]);
            put(&mut rates, "injection", injection);
            put(congestion, "reaction", rates);
        }
        if mechanism == "qcn" {
            if self.chance(60) {
                let sampled = self.sampled(frame);
                put(congestion, "marking", sampled);
            }
            if self.chance(60) {
                let qcn = self.qcn(frame);
                put(congestion, "reaction", qcn);
            }
        }
        if !needs.output_marks {
            self.notification(congestion, frame, 30);
        }
    }

    /// How marks return, and what they contain.
    fn notification(&mut self, congestion: &mut Table, frame: &Frame, percent: u32) {
        if self.chance(percent) {
            let ways = ["cnp", "ack", "ack-message", "ack-each", "backward", "backward"];
            let notification = self.word(if frame.has_one_way { &ways[..4] } else { &ways });
            put(congestion, "notification", notification);
        }
        if self.chance(percent) {
            let feedback = self.word(&["binary", "quantized"]);
            put(congestion, "feedback", feedback);
        }
    }

    fn sampled(&mut self, frame: &Frame) -> Table {
        let mut sampled = Table::new();
        if self.chance(70) {
            let set_point = self.range(1, 5 * frame.full());
            put(&mut sampled, "set_point", bytes(set_point));
        }
        if self.chance(80) {
            let sample = self.range(1, 8) * frame.full();
            put(&mut sampled, "sample", bytes(sample));
        }
        if self.chance(40) {
            let weight = self.range(0, 4);
            put(&mut sampled, "weight", int(weight));
        }
        if self.chance(40) {
            let jitter = self.pick(&[0, 15, 50]);
            put(&mut sampled, "jitter_percent", int(jitter));
        }
        sampled
    }

    fn qcn(&mut self, frame: &Frame) -> Table {
        let mut qcn = Table::new();
        for key in ["min_rate", "active_increase", "hyper_increase"] {
            if self.chance(50) {
                let rate = self.word(&["1 Mbit/s", "100 Mbit/s", "2 Gbit/s"]);
                put(&mut qcn, key, rate);
            }
        }
        if self.chance(60) {
            let cycle = self.range(1, 10) * frame.full();
            put(&mut qcn, "cycle_bytes", bytes(cycle));
        }
        self.span(&mut qcn, "cycle_time");
        if self.chance(40) {
            let cycles = self.pick(&[1, 2, 5, 100]);
            put(&mut qcn, "cycles", int(cycles));
        }
        if self.chance(40) {
            let severity = self.pick(&[1, 32, 63]);
            put(&mut qcn, "binary_severity", int(severity));
        }
        qcn
    }

    /// Components, each with its `kind`; half of the time together with a mechanism.
    fn components(&mut self, congestion: &mut Table, frame: &Frame, needs: &mut Needs) {
        let name = self.pick(&["none", "fecn", "fecn", "fecn", "ipm", "opm", "mvpm", "sampled"]);
        let mut marking = kind(name);
        needs.output_marks = ["ipm", "opm", "mvpm"].contains(&name);
        match name {
            "fecn" => marking.extend(self.fecn(frame, needs)),
            "sampled" => marking.extend(self.sampled(frame)),
            "opm" | "mvpm" => {
                for key in ["input_percent", "output_percent"] {
                    if self.chance(60) && !(name == "opm" && key == "input_percent") {
                        let percent = self.range(1, 99);
                        put(&mut marking, key, int(percent));
                    }
                }
            }
            _ => {}
        }
        put(congestion, "marking", marking);
        if !needs.output_marks && self.chance(25) {
            let mut isolation = kind("special-queues");
            needs.special = true;
            isolation.extend(self.special(frame, needs));
            needs.at_root = isolation.get("at_root").and_then(Value::as_bool) == Some(true);
            put(congestion, "isolation", isolation);
        } else if self.chance(10) {
            put(congestion, "isolation", kind("none"));
        }
        let acknowledged = self.reaction(congestion, frame);
        if acknowledged {
            put(congestion, "notification", "ack-each");
        } else if !needs.output_marks {
            self.notification(congestion, frame, 60);
        }
        if self.chance(20) {
            // Everything is replaced except the mechanism's defaults for switches.
            put(congestion, "mechanism", "ib-cc");
            name_parts(congestion, ["fecn", "cnp", "cct"]);
        }
    }

    fn fecn(&mut self, frame: &Frame, needs: &mut Needs) -> Table {
        let mut marking = Table::new();
        if self.chance(40) {
            let threshold = self.range(0, 15);
            put(&mut marking, "threshold", int(threshold));
        } else if self.chance(60) {
            let upper = self.range(1, 6) * frame.full();
            put(&mut marking, "upper", bytes(upper));
            needs.packets = needs.packets.max(upper / frame.full() + 1);
            if self.chance(50) {
                let lower = self.range(0, upper);
                put(&mut marking, "lower", bytes(lower));
            }
        }
        if !marking.contains_key("lower") && self.chance(30) {
            let hysteresis = self.pick(&[0, 64, 4224]);
            put(&mut marking, "hysteresis", bytes(hysteresis));
        }
        let fill = self.pick(&["each", "sum", "sum", "sum-per-input"]);
        put(&mut marking, "fill", fill);
        needs.sum_marks = fill == "sum";
        if self.chance(40) {
            let rate = self.pick(&[0, 1, 2, 7, 100]);
            put(&mut marking, "marking_rate", int(rate));
        } else if self.chance(40) {
            let percent = self.pick(&[1, 50, 85, 100]);
            put(&mut marking, "percent", int(percent));
        }
        if self.chance(30) {
            let pattern = self.word(&["random", "regular"]);
            put(&mut marking, "pattern", pattern);
        }
        if self.chance(40) {
            let size = self.pick(&[0, 1, 2, 8, 40]);
            put(&mut marking, "packet_size", int(size));
        }
        if self.chance(40) {
            let mask = self.word(&["hosts", "none", "all"]);
            put(&mut marking, "victim_mask", mask);
        }
        marking
    }

    /// Gives some switches of a described network their own settings for FECN.
    pub fn port_settings(&mut self, scenario: &mut Table, frame: &Frame) {
        let topology = scenario.get("topology").and_then(Value::as_table);
        let switches: Vec<String> = topology
            .and_then(|topology| topology.get("switches")?.as_array())
            .into_iter()
            .flatten()
            .filter_map(|switch| Some(switch.get("name")?.as_str()?.to_owned()))
            .collect();
        let marking = scenario
            .get_mut("congestion")
            .and_then(|congestion| congestion.get_mut("marking")?.as_table_mut())
            .filter(|marking| marking.get("kind").is_none_or(|kind| kind.as_str() == Some("fecn")));
        let Some(marking) = marking else { return };
        let mut settings = Vec::new();
        for name in switches {
            if self.chance(50) {
                continue;
            }
            let mut setting = Table::new();
            put(&mut setting, "at", vec![Value::from(name)]);
            if self.chance(50) {
                put(&mut setting, "threshold", int(self.range(0, 15)));
            } else if self.chance(70) {
                put(&mut setting, "upper", bytes(frame.full()));
                if self.chance(50) {
                    put(&mut setting, "lower", bytes(self.range(0, frame.full())));
                }
            }
            if setting.len() == 1 || self.chance(50) {
                put(&mut setting, "victim_mask", self.chance(50));
            }
            settings.push(Value::Table(setting));
        }
        if !settings.is_empty() {
            put(marking, "ports", settings);
        }
    }

    /// Thresholds of the outputs of each rate.
    pub fn thresholds(&mut self, rates: &[u64], mut with: impl FnMut(&mut Self, &mut Table)) -> Vec<Value> {
        let mut of = |&rate: &u64| {
            let mut own = Table::new();
            put(&mut own, "rate", Rate(rate).to_string());
            with(self, &mut own);
            Value::Table(own)
        };
        rates.iter().map(&mut of).collect()
    }

    /// Gives the outputs of each rate their own thresholds.
    pub fn rate_settings(&mut self, scenario: &mut Table, frame: &Frame) {
        let marking = scenario
            .get_mut("congestion")
            .and_then(|congestion| congestion.get_mut("marking")?.as_table_mut())
            .filter(|marking| marking.get("kind").is_none_or(|kind| kind.as_str() == Some("fecn")));
        let Some(marking) = marking else { return };
        marking.retain(|key, _| !matches!(key, "threshold" | "upper" | "lower"));
        let thresholds = self.thresholds(&frame.rates, |draw, own| {
            if draw.chance(50) {
                put(own, "threshold", int(draw.range(0, 15)));
                return;
            }
            put(own, "upper", bytes(frame.full()));
            if draw.chance(50) {
                put(own, "lower", bytes(draw.range(0, frame.full())));
            }
        });
        put(marking, "thresholds", thresholds);
    }

    /// Gives some hosts their own reaction.
    pub fn host_settings(&mut self, scenario: &mut Table, frame: &Frame) {
        let Some(congestion) = scenario.get_mut("congestion").and_then(Value::as_table_mut) else { return };
        let mechanism = congestion.get("mechanism").and_then(Value::as_str);
        let word = |key: &str| congestion.get("reaction")?.get(key)?.as_str().map(str::to_owned);
        let is_table = match word("kind") {
            Some(kind) => kind == "cct",
            None => matches!(mechanism, Some("ib-cc" | "ccfit" | "ecocc" | "pfister")),
        };
        let hosts = self.shuffled(&frame.hosts);
        let count = self.range(1, 1 + hosts.len() as u64 / 2) as usize;
        let mut settings = Vec::new();
        for at in hosts[..count].chunks(2) {
            let mut setting = Table::new();
            put(&mut setting, "at", at.iter().cloned().map(Value::from).collect::<Vec<_>>());
            let reaction = match self.below(3) {
                0 => kind("none"),
                1 if is_table => Table::from_iter([("ccti_timer".to_owned(), int(self.pick(&[1, 3, 150])))]),
                _ => {
                    let mut own = kind("cct");
                    own.extend(self.cct());
                    own
                }
            };
            put(&mut setting, "reaction", reaction);
            settings.push(Value::Table(setting));
        }
        put(congestion, "hosts", settings);
        if congestion.get("mechanism").and_then(Value::as_str) == Some("qcn") {
            name_parts(congestion, ["sampled", "backward", "qcn"]);
        }
    }

    fn special(&mut self, frame: &Frame, needs: &mut Needs) -> Table {
        let mut special = Table::new();
        if self.chance(50) {
            let queues = self.pick(&[0, 1, 1, 2, 4, 8]);
            put(&mut special, "queues", int(queues));
        }
        if self.chance(40) {
            let destinations = self.pick(&[1, 2, 8, 100]);
            put(&mut special, "destinations", int(destinations));
        }
        let stop = self.range(1, 6);
        needs.packets = needs.packets.max(7);
        if self.chance(50) {
            let detection = self.range(1, 6) * frame.full();
            put(&mut special, "detection", bytes(detection));
        }
        if self.chance(50) {
            put(&mut special, "stop", bytes(stop * frame.full()));
            let go = self.below(stop) * frame.full();
            put(&mut special, "go", bytes(go));
        }
        if self.chance(60) {
            put(&mut special, "at_root", self.chance(70));
        }
        if self.chance(20) {
            let message = self.pick(&[1, 16, 64, 500]);
            put(&mut special, "message", bytes(message));
        }
        if self.chance(50) {
            let arbitration = self.pick(&["round-robin", "strict", "weighted"]);
            put(&mut special, "arbitration", arbitration);
            if arbitration == "strict" && self.chance(70) {
                let ns = self.pick(&[1, 500, 5_000, 50_000]);
                let wait = self.time(ns * 1_000);
                put(&mut special, "longest_wait", wait);
            }
        }
        special
    }

    /// A reaction with its `kind`; returns whether it counts acknowledgements.
    fn reaction(&mut self, congestion: &mut Table, frame: &Frame) -> bool {
        let name = self.pick(&[
            "none",
            "cct",
            "cct",
            "cct",
            "static-window",
            "aimd",
            "fimd",
            "lipd",
            "mvcm",
            "explicit-rate",
            "qcn",
        ]);
        let mut reaction = kind(name);
        match name {
            "cct" => reaction.extend(self.cct()),
            "static-window" if self.chance(70) => {
                let packets = self.range(1, 5);
                put(&mut reaction, "packets", int(packets));
            }
            "aimd" | "fimd" => {
                self.window(&mut reaction);
                let (m, slowest) = (self.range(2, 5), self.pick(&[2, 16, 256, 1000]));
                put(&mut reaction, "m", int(m));
                put(&mut reaction, "slowest", int(slowest));
            }
            "lipd" => {
                self.window(&mut reaction);
                self.span(&mut reaction, "delay");
                if self.chance(40) {
                    let limit = self.pick(&[1, 3, 255]);
                    put(&mut reaction, "limit", int(limit));
                }
            }
            "mvcm" => self.mvcm(&mut reaction),
            "qcn" => reaction.extend(self.qcn(frame)),
            "explicit-rate" => {
                if self.chance(60) {
                    let injection = self.word(&["periodic-selection", "shaped-virtual-clock"]);
                    put(&mut reaction, "injection", injection);
                }
                self.span(&mut reaction, "probe");
            }
            _ => {}
        }
        let windows = ["static-window", "aimd", "fimd", "lipd", "mvcm"].contains(&name);
        if windows && self.chance(30) {
            put(&mut reaction, "level", "sl");
        }
        put(congestion, "reaction", reaction);
        windows
    }

    /// How explicit rates of a scenario are probed, and whether links retain the weights of flows.
    pub(super) fn weights(&mut self, scenario: &mut Table) {
        let host = scenario.get("host").and_then(Value::as_table);
        let queues = host.and_then(|host| host.get("queues")).and_then(Value::as_str).unwrap_or("none");
        let is_buffered = queues != "none";
        let Some(congestion) = scenario.get_mut("congestion").and_then(Value::as_table_mut) else { return };
        let is_saa = congestion.get("mechanism").and_then(Value::as_str) == Some("saa");
        let special = congestion.get("isolation").is_some();
        let given = congestion.get("reaction").and_then(Value::as_table).cloned();
        let kind = given.as_ref().and_then(|given| given.get("kind")).and_then(Value::as_str);
        if !kind.map_or(is_saa, |kind| kind == "explicit-rate") {
            return;
        }
        let mut reaction = given.unwrap_or_default();
        if self.chance(50) {
            let probing = self.word(&["packets", "piggyback"]);
            put(&mut reaction, "probing", probing);
        }
        if !is_buffered && !special && self.chance(50) {
            put(&mut reaction, "retain", self.chance(80));
        }
        put(congestion, "reaction", reaction);
    }

    /// Records the congestion logs of some networks whose switches mark packets, often with trigger
    /// thresholds.
    pub(super) fn congestion_log(&mut self, scenario: &mut Table) {
        let Some(congestion) = scenario.get_mut("congestion").and_then(Value::as_table_mut) else { return };
        let mechanism = congestion.get("mechanism").and_then(Value::as_str).map(str::to_owned);
        let marking =
            congestion.get("marking").and_then(|marking| marking.get("kind")).and_then(Value::as_str);
        let marks = match (mechanism.as_deref(), marking) {
            (Some("none"), _) | (_, Some("none" | "telemetry")) => false,
            (None | Some("fbicm" | "hfdi" | "saa"), marking) => marking.is_some(),
            (Some(_), _) => true,
        };
        if !marks || !self.chance(40) {
            return;
        }
        let has_table = matches!(mechanism.as_deref(), Some("ib-cc" | "ccfit" | "ecocc" | "pfister"));
        if let Some(reaction) = congestion.get_mut("reaction").and_then(Value::as_table_mut)
            && reaction.get("kind").map_or(has_table, |kind| kind.as_str() == Some("cct"))
        {
            self.triggers(reaction);
        }
        if let Some(measure) = scenario.get_mut("measure").and_then(Value::as_table_mut) {
            put(measure, "congestion_log", self.chance(95));
        }
    }

    /// Gives a reaction and its service levels thresholds that their indexes can reach.
    fn triggers(&mut self, reaction: &mut Table) {
        let bound = |table: &Table, key: &str| table.get(key).and_then(Value::as_integer);
        let of_all = (bound(reaction, "ccti_min").unwrap_or(0), bound(reaction, "ccti_limit").unwrap_or(127));
        let mut pick = |table: &mut Table, (min, limit): (i64, i64)| {
            if limit > min && self.chance(80) {
                let trigger = min + 1 + self.below((limit - min).min(6) as u64) as i64;
                put(table, "trigger_threshold", trigger);
            }
        };
        pick(reaction, of_all);
        for own in reaction.get_mut("per_sl").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(own) = own.as_table_mut() {
                let min = bound(own, "ccti_min").unwrap_or(of_all.0);
                let limit = bound(own, "ccti_limit").unwrap_or(of_all.1);
                pick(own, (min, limit));
            }
        }
    }

    fn mvcm(&mut self, reaction: &mut Table) {
        self.window(reaction);
        self.span(reaction, "slot");
        if self.chance(40) {
            let factor = self.range(1, 4);
            put(reaction, "factor", int(factor));
        }
        if self.chance(30) {
            put(reaction, "warm", self.chance(50));
        }
        // Without a limit, slots grow up to a second, so they must be short.
        if self.chance(20) {
            put(reaction, "limited", false);
        } else if self.chance(50) {
            put(reaction, "limited", true);
            let limit = self.range(1, 4);
            put(reaction, "limit", int(limit));
        }
    }

    fn window(&mut self, reaction: &mut Table) {
        if self.chance(50) {
            let window = self.range(1, 6);
            put(reaction, "window", int(window));
        }
    }

    pub(super) fn span(&mut self, reaction: &mut Table, key: &str) {
        if self.chance(50) {
            let ps = self.pick(&[100_000, 500_000, 1_234_567, 3_000_000]);
            let value = self.time(ps);
            put(reaction, key, value);
        }
    }

    fn cct(&mut self) -> Table {
        let mut cct = Table::new();
        let mut entries = 128;
        if self.chance(40) {
            let (table, count) = self.cct_table();
            entries = count;
            put(&mut cct, "table", table);
        }
        if self.chance(50) {
            let increase = self.pick(&[0, 1, 1, 2, 10, 50]);
            put(&mut cct, "ccti_increase", int(increase));
        }
        if self.chance(20) {
            let increase = self.pick(&[0, 5, 63]);
            put(&mut cct, "quantized_increase", int(increase));
        }
        let mut limit = 127;
        if self.chance(30) {
            limit = self.below(entries);
            put(&mut cct, "ccti_limit", int(limit));
        }
        if self.chance(20) {
            let min = self.below(limit.min(20) + 1);
            put(&mut cct, "ccti_min", int(min));
        }
        if self.chance(80) {
            let timer = self.pick(&[1, 1, 2, 5, 10, 150]);
            put(&mut cct, "ccti_timer", int(timer));
        }
        if self.chance(30) {
            let level = self.word(&["qp", "sl"]);
            put(&mut cct, "level", level);
        }
        if self.chance(15) {
            put(&mut cct, "per_sl", vec![Value::Table(self.one_level(limit))]);
        }
        cct
    }

    fn one_level(&mut self, limit: u64) -> Table {
        let mut own = Table::new();
        let sl = self.below(3);
        put(&mut own, "sl", int(sl));
        if self.chance(50) {
            put(&mut own, "ccti_increase", int(3));
        }
        if self.chance(50) {
            put(&mut own, "ccti_timer", int(3));
        }
        if self.chance(50) {
            put(&mut own, "ccti_limit", int(limit));
            let min = self.below(limit.min(20) + 1);
            put(&mut own, "ccti_min", int(min));
        }
        own
    }

    fn cct_table(&mut self) -> (Table, u64) {
        let name = self.pick(&["quadratic", "quadratic", "linear", "linear", "list", "iba"]);
        let mut table = kind(name);
        let entries = self.pick(&[128, 128, 130, 200]);
        match name {
            "quadratic" => {
                let (divisor, scale) = (self.pick(&[95, 106]), self.pick(&[1, 1, 2, 16]));
                put(&mut table, "divisor", int(divisor));
                put(&mut table, "scale", int(scale));
                put(&mut table, "entries", int(entries));
            }
            "linear" => {
                let packets = self.range(1, 3);
                put(&mut table, "packets", int(packets));
                put(&mut table, "entries", int(entries));
            }
            "list" => {
                let step = self.pick(&[0, 13, 100, 400]);
                let delays: Vec<Value> = (0..128).map(|at| int(at * step)).collect();
                put(&mut table, "delays_ns", delays);
            }
            _ => {
                let shift = self.below(4);
                let delays: Vec<Value> = (0..128).map(|at| int(shift << 14 | at)).collect();
                put(&mut table, "entries", delays);
            }
        }
        (table, if ["list", "iba"].contains(&name) { 128 } else { entries })
    }
}
