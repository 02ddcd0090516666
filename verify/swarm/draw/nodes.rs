//! Switches and hosts, with buffers of one packet or more.

use toml::Table;

use super::congestion::Needs;
use super::{Draw, Frame, bytes, int, put};

impl Draw {
    /// A buffer of several packets for each lane.
    fn buffer(&mut self, frame: &Frame, least: u64) -> u64 {
        let most = if self.is_crowd { 4 } else { 60 };
        let packets = self.pick(&[1, 1, 2, 2, 3, 4, 6, 10, 20, 60]).min(most).max(least);
        let odd = if self.chance(30) { self.below(100) } else { 0 };
        frame.lanes * frame.space * packets + odd
    }

    /// Sometimes on/off flow control, which needs buffer space for packets in flight.
    pub(super) fn flow_control(&mut self, scenario: &mut Table, frame: &Frame) {
        if !self.chance(9) {
            return;
        }
        let mut table = Table::new();
        if self.chance(15) {
            put(&mut table, "kind", "credits");
            put(scenario, "flow_control", table);
            return;
        }
        put(&mut table, "kind", "on-off");
        let packets = self.pick(&[1, 2, 3, 10]);
        if self.chance(50) {
            put(&mut table, "xoff", bytes(frame.space * packets));
        }
        if self.chance(50) {
            put(&mut table, "xon", bytes(frame.space * self.range(0, packets)));
        }
        put(scenario, "flow_control", table);
        let room = frame.lanes * (60_000 + 12 * frame.space);
        for node in ["switch", "host"] {
            if let Some(node) = scenario.get_mut(node).and_then(toml::Value::as_table_mut) {
                put(node, "buffer", bytes(room));
                node.remove("memory");
                node.remove("queue_buffer");
            }
        }
    }

    /// Pause frames, with buffers that are large enough for the packets in flight. A given headroom is at
    /// least the derived one.
    pub(super) fn pause_frames(&mut self, scenario: &mut Table, frame: &Frame) {
        let mut table = Table::new();
        put(&mut table, "kind", "pfc");
        if self.chance(40) {
            let size = self.pick(&[64, 72, 84, 1_024]);
            put(&mut table, "frame", bytes(size));
        }
        if self.chance(40) {
            let ps = self.pick(&[0, 333, 100_000, 1_234_567]);
            let response = self.time(ps);
            put(&mut table, "response_time", response);
        }
        // Buffer space for the data in flight.
        let mut room = 80_000 + 16 * frame.space;
        if self.chance(20) {
            room = 16 << 20;
            put(&mut table, "headroom", bytes(room));
        }
        if self.chance(30) {
            let ps = self.pick(&[1_000, 20_000_000, 1_000_000_000]);
            let watchdog = self.time(ps);
            put(&mut table, "watchdog", watchdog);
            let action = self.pick(&["warn", "warn", "stop"]);
            put(&mut table, "watchdog_action", action);
        }
        let is_shared = self.chance(40);
        let packets = self.pick(&[1, 2, 3, 10]);
        if is_shared {
            let shared = self.shared_memory(frame, packets);
            put(&mut table, "shared", shared);
        } else {
            if self.chance(50) {
                put(&mut table, "xoff", bytes(frame.space * packets));
            }
            if self.chance(30) {
                let xon = frame.space * self.range(0, packets);
                put(&mut table, "xon", bytes(xon));
            }
        }
        put(scenario, "flow_control", table);
        for node in ["switch", "host"] {
            let entry = scenario.entry(node).or_insert_with(|| Table::new().into());
            if let Some(node) = entry.as_table_mut() {
                put(node, "buffer", bytes(frame.lanes * (2 * room + frame.space * packets)));
                node.remove("memory");
                node.remove("queue_buffer");
            }
        }
    }

    /// Other rules of credits, and errors of links with a retry, for networks with credits.
    pub(super) fn credits_and_retry(&mut self, scenario: &mut Table, frame: &Frame) {
        let kind = |table: &toml::Value| table.get("kind").and_then(toml::Value::as_str) != Some("credits");
        if scenario.get("flow_control").is_some_and(kind) {
            return;
        }
        let mut credits = Table::new();
        put(&mut credits, "kind", "credits");
        if self.chance(50) {
            let ps = self.pick(&[0, 1, 333, 100_000, 777_777, 5_000_000]);
            let spacing = self.time(ps);
            put(&mut credits, "return_spacing", spacing);
        }
        let is_shared = |table: &toml::Value| {
            let text = |key| table.get(key).and_then(toml::Value::as_str);
            text("memory") == Some("shared") || matches!(text("queues"), None | Some("single" | "per-output"))
        };
        let memory =
            scenario.get("switch").and_then(|switch| switch.get("memory")).and_then(toml::Value::as_str);
        let fits = scenario.get("switch").is_none_or(is_shared) && memory != Some("divided");
        if frame.lanes > 1 && fits && self.chance(50) {
            let mut shared = Table::new();
            match self.below(3) {
                0 => {}
                1 => {
                    let limit = frame.space * self.range(0, 8);
                    put(&mut shared, "limit", bytes(limit));
                }
                _ => {
                    let shift = i64::try_from(self.range(0, 17)).unwrap_or(0) - 7;
                    put(&mut shared, "alpha_shift", shift);
                }
            }
            if self.chance(30) {
                put(&mut shared, "reserve", bytes(frame.space));
            }
            put(&mut credits, "shared", shared);
        }
        put(scenario, "flow_control", credits);
        if self.chance(60) {
            self.retry(scenario, frame);
        }
    }

    fn retry(&mut self, scenario: &mut Table, frame: &Frame) {
        let mut retry = Table::new();
        if self.chance(50) {
            let frames = self.pick(&[1, 2, 5, 20, 1_000]);
            put(&mut retry, "frames", int(frames));
        }
        let packets = self.pick(&[1, 3, 10, 100]);
        put(&mut retry, "bytes", bytes(packets * frame.space));
        // Slow links need tens of microseconds for a packet.
        let timer = self.pick(&[200_000_000, 1_000_000_000, 20_000_000_000]);
        let timer = self.time(timer);
        put(&mut retry, "timer", timer);
        put(&mut retry, "count", int(100_000));
        let spacing = frame.space * self.range(0, 3);
        put(&mut retry, "ack_spacing", bytes(spacing));
        let mut link = Table::new();
        let errors = self.pick(&[0, 100_000, 5_000_000, 100_000_000]);
        put(&mut link, "error_rate_ppb", int(errors));
        put(&mut link, "retry", retry);
        put(scenario, "link", link);
    }

    fn shared_memory(&mut self, frame: &Frame, packets: u64) -> Table {
        let mut table = Table::new();
        if self.chance(70) {
            let shift = i64::try_from(self.range(0, 17)).unwrap_or(0) - 7;
            put(&mut table, "alpha_shift", shift);
        }
        if self.chance(30) {
            let by_rate = self.chance(60);
            put(&mut table, "alpha_by_rate", by_rate);
        }
        if self.chance(40) {
            let reserve = self.pick(&[0, 64, frame.space, 4_000]);
            put(&mut table, "reserve", bytes(reserve));
        }
        if self.chance(40) {
            let offset = self.pick(&[0, 1, frame.space, 100_000]);
            put(&mut table, "resume_offset", bytes(offset));
        }
        if self.chance(30) {
            put(&mut table, "memory", bytes((768 << 20) + frame.space * packets));
            if self.chance(30) {
                put(&mut table, "headroom_pool", bytes(512 << 20));
            }
        }
        table
    }

    pub(super) fn switch(&mut self, scenario: &mut Table, frame: &Frame, needs: &Needs) {
        let mut switch = Table::new();
        let architecture = self.architecture(&mut switch, needs);
        let queues = self.queues(&mut switch, frame, needs, architecture);
        // The memory of an input is divided equally among its queues.
        let parts = match (switch.contains_key("queue_buffer"), queues) {
            (false, "destination-modulo" | "output-modulo") => 8,
            _ => 1,
        };
        let buffer = self.buffer(frame, needs.packets.max(parts));
        if buffer != 131_072 {
            put(&mut switch, "buffer", bytes(buffer));
        }
        if self.chance(50) {
            let ps = self.pick(&[0, 333, 6_000, 100_000, 100_000, 1_000_000]);
            let latency = self.time(ps);
            put(&mut switch, "latency", latency);
        }
        if architecture == "cioq" && self.chance(50) {
            let buffer = self.buffer(frame, 1);
            put(&mut switch, "output_buffer", bytes(buffer));
        }
        if architecture != "voq" && self.chance(30) {
            let percent = self.pick(&[100, 100, 130, 200, 300]);
            let rate = self.rate(frame.fastest.div_ceil(100) * percent);
            put(&mut switch, "crossbar", rate);
        }
        if architecture == "iq" && self.chance(30) {
            let iterations = self.range(1, 4);
            put(&mut switch, "islip_iterations", int(iterations));
        }
        if architecture == "iq" && self.chance(30) {
            let cell = self.pick(&[0, 1, 64, 500]);
            put(&mut switch, "islip_cell", bytes(cell));
        }
        // The default depends on the other components, so the order is always given.
        let is_plain = architecture == "voq" && queues == "per-output" && !switch.contains_key("memory");
        let fcfs = is_plain && self.chance(30) && needs.sum_marks && !needs.special && self.chance(70);
        put(&mut switch, "arbitration", if fcfs { "fcfs" } else { "round-robin" });
        if self.chance(15) {
            put(&mut switch, "control_first", self.chance(70));
        }
        put(scenario, "switch", switch);
    }

    fn architecture(&mut self, switch: &mut Table, needs: &Needs) -> &'static str {
        if needs.output_marks {
            if needs.usual != "cioq" || self.chance(20) {
                put(switch, "architecture", "cioq");
            }
            return "cioq";
        }
        if !self.chance(60) {
            return needs.usual;
        }
        let known: &[&'static str] = if needs.special { &["voq", "iq"] } else { &["voq", "iq", "cioq"] };
        let architecture = self.pick(known);
        put(switch, "architecture", architecture);
        architecture
    }

    fn queues(
        &mut self,
        switch: &mut Table,
        frame: &Frame,
        needs: &Needs,
        architecture: &str,
    ) -> &'static str {
        let usual = if needs.usual == "iq" || architecture == "cioq" { "single" } else { "per-output" };
        if needs.special {
            if !needs.at_root && usual == "single" {
                put(switch, "queues", "per-output");
                return "per-output";
            }
            if self.chance(40) {
                let queues = if needs.at_root { self.pick(&["single", "per-output"]) } else { "per-output" };
                put(switch, "queues", queues);
                return queues;
            }
            return usual;
        }
        let mut queues = usual;
        if self.chance(60) {
            queues = self.pick(&[
                "per-output",
                "single",
                "per-destination",
                "destination-modulo",
                "output-modulo",
            ]);
            put(switch, "queues", queues);
        }
        let modulo = queues.ends_with("modulo");
        if modulo && self.chance(60) {
            let count = self.pick(&[1, 2, 3, 4, 8]);
            put(switch, "queue_count", int(count));
        }
        let mut divided = modulo || queues == "per-destination";
        if queues != "single" && self.chance(30) {
            divided = self.chance(60);
            put(switch, "memory", if divided { "divided" } else { "shared" });
        }
        if divided && (self.chance(60) || queues == "per-destination") {
            let packets = self.pick(&[1, 1, 2, 3, 8]);
            let odd = if self.chance(30) { self.below(64) } else { 0 };
            put(switch, "queue_buffer", bytes(frame.space * packets + odd));
        }
        queues
    }

    pub(super) fn host(&mut self, scenario: &mut Table, frame: &mut Frame, needs: &Needs) {
        let mut host = Table::new();
        for key in ["injection_rate", "drain_rate"] {
            if self.chance(25) {
                let bits = self.share_of(frame.slowest, &[20, 50, 80, 81, 99, 100, 130]);
                if key == "injection_rate" {
                    frame.injection = bits;
                }
                let rate = self.rate(bits);
                put(&mut host, key, rate);
            }
        }
        if host.contains_key("injection_rate") {
            let includes = self.chance(50);
            put(&mut host, "injection_includes_control", includes);
        }
        if frame.lanes * frame.space > 65_536 || self.chance(60) {
            let buffer = self.buffer(frame, 1);
            put(&mut host, "buffer", bytes(buffer));
        }
        if self.chance(15) {
            let ps = self.pick(&[100_000, 333, 1_234_567]);
            let overhead = self.time(ps);
            put(&mut host, "message_overhead", overhead);
        }
        let mut buffered = needs.special;
        let mut parts = 1;
        if self.chance(25) {
            let queues = self.pick(&["none", "single", "per-destination", "destination-modulo"]);
            buffered = queues != "none";
            parts = if queues == "destination-modulo" { 8 } else { 1 };
            put(&mut host, "queues", queues);
        }
        if buffered && (frame.lanes * frame.space * parts > 65_536 || self.chance(60)) {
            let buffer = self.buffer(frame, parts);
            put(&mut host, "output_buffer", bytes(buffer));
        }
        if !host.is_empty() {
            put(scenario, "host", host);
        }
    }
}
