//! Flows and patterns, limited and unlimited, with different start times and phases.

use toml::{Table, Value};

use super::{Draw, Frame, bytes, int, kind, put};

const SHARES: [u64; 9] = [2, 10, 30, 50, 80, 95, 99, 100, 150];

/// Load of an entry, from which the duration of the run is derived.
struct Load {
    /// Packets per second.
    packets: f64,
    /// Total number of packets, if limited.
    most: f64,
}

impl Draw {
    /// Adds flows and patterns to the scenario; returns a duration that is long enough for them.
    pub(super) fn all_traffic(&mut self, scenario: &mut Table, frame: &Frame) -> u64 {
        let many = self.is_crowd || self.chance(3);
        let mut flows = match self.below(10) {
            0..=1 => 0,
            2..=7 => self.range(1, 6),
            _ => self.range(7, 16),
        };
        let mut patterns = match self.below(10) {
            0..=3 => 0,
            4..=7 => 1,
            _ => self.range(2, 3),
        };
        if many {
            (flows, patterns) = (0, self.range(2, 5));
        }
        if flows + patterns == 0 {
            flows = 2;
        }
        let mut entries = Vec::new();
        for number in 0..flows {
            entries.push(self.flow(frame, number));
        }
        let disjoint = patterns > 1 && self.chance(40);
        let mut left = self.shuffled(&frame.hosts);
        for number in 0..patterns {
            let own = if disjoint { left.split_off(left.len() - left.len() / 2) } else { Vec::new() };
            entries.push(self.pattern(frame, number, &own, many));
        }
        let duration = self.duration(frame, &entries);
        let mut tables: Vec<Table> = entries.into_iter().map(|(table, _)| table).collect();
        for table in &mut tables {
            self.phase(table, duration);
        }
        let patterns = tables.split_off(flows as usize);
        for (key, list) in [("flow", tables), ("traffic", patterns)] {
            if !list.is_empty() {
                put(scenario, key, list.into_iter().map(Value::Table).collect::<Vec<_>>());
            }
        }
        duration
    }

    /// Duration after which a run has some thousand packet hops.
    fn duration(&mut self, frame: &Frame, entries: &[(Table, Load)]) -> u64 {
        let mut wanted = match self.below(20) {
            0 => 200,
            1..=16 => self.range(1_000, 6_000),
            17..=18 => self.range(6_000, 20_000),
            _ => 40_000,
        } as f64;
        if self.is_crowd {
            wanted *= 8.0;
        }
        // A packet that crosses several links has several hops.
        wanted /= frame.hops as f64;
        let endless: f64 =
            entries.iter().filter(|(_, load)| load.most.is_infinite()).map(|(_, load)| load.packets).sum();
        let total: f64 = entries.iter().map(|(_, load)| load.packets).sum();
        let bound: f64 = entries.iter().map(|(_, load)| load.most).filter(|most| most.is_finite()).sum();
        // Together, hosts send at most their total rate.
        let most = frame.hosts.len() as f64 * frame.fastest.min(frame.injection) as f64 / 8.0;
        let smallest = (total / entries.len() as f64).max(1.0);
        let seconds = if endless == 0.0 {
            wanted.min(bound) / total.min(smallest.max(most)) * 1.5
        } else {
            wanted / total
        };
        let ps = (seconds * 1e12) as u64;
        let packet = frame.full() * 8 * 1_000_000 / (frame.slowest / 1_000_000).max(1);
        let whole = if self.chance(50) { 1_000_000 } else { 1_000 };
        (ps.max(5 * packet).clamp(2_000_000, 3_000_000_000) / whole).max(1) * whole
    }

    fn message(&mut self, table: &mut Table, frame: &Frame) -> u64 {
        let mtu = frame.mtu;
        let size = match self.below(20) {
            0..=9 => return mtu,
            10..=12 => mtu * self.range(2, 6),
            13..=14 => self.range(1, mtu),
            15..=18 => self.range(1, 5 * mtu),
            _ => 20 * mtu,
        };
        put(table, "message", bytes(size));
        size
    }

    /// Chooses rate and spacing; returns the load of one sender.
    fn offer(&mut self, table: &mut Table, frame: &Frame, message: u64, is_forest: bool) -> f64 {
        let size = message.min(frame.mtu) as f64;
        // Full packets of a message, and a rest.
        let packets = message.div_ceil(frame.mtu) as f64;
        let mean = (message as f64 / packets).min(size);
        let link = frame.fastest.min(frame.injection) as f64 / 8.0 / (mean + frame.header as f64);
        if !self.chance(45) {
            return link;
        }
        let bits = self.share_of(frame.slowest, &SHARES);
        let rate = self.rate(bits);
        put(table, "rate", rate);
        if !is_forest && self.chance(40) {
            let arrivals = self.word(&["periodic", "poisson"]);
            put(table, "arrivals", arrivals);
        }
        (bits as f64 / 8.0 / mean).min(link * 4.0)
    }

    fn flow(&mut self, frame: &Frame, number: u64) -> (Table, Load) {
        let mut flow = Table::new();
        if self.chance(90) {
            put(&mut flow, "name", format!("F{number}"));
        }
        let hosts = frame.hosts.len() as u64;
        let from = self.below(hosts);
        // Half of the flows go to few destinations, to cause congestion.
        let to = if self.chance(50) { self.below(2.min(hosts)) } else { self.below(hosts) };
        let to = if to == from { (to + 1) % hosts } else { to };
        put(&mut flow, "from", frame.hosts[from as usize].as_str());
        put(&mut flow, "to", frame.hosts[to as usize].as_str());
        let message = self.message(&mut flow, frame);
        let packets = self.offer(&mut flow, frame, message, false);
        let mut most = f64::INFINITY;
        if self.chance(55) {
            let total = match self.below(4) {
                0 => self.range(1, frame.mtu),
                1 => frame.mtu * self.range(1, 60),
                _ => self.range(1, 60 * message.min(4 * frame.mtu)),
            };
            most = total as f64 / message.min(frame.mtu) as f64;
            put(&mut flow, "total", bytes(total));
        }
        if self.chance(25) {
            let sl = self.pick(&[1, 2, 3, 15]);
            put(&mut flow, "sl", int(sl));
        }
        (flow, Load { packets, most })
    }

    fn pattern(&mut self, frame: &Frame, number: u64, own: &[String], many: bool) -> (Table, Load) {
        let mut traffic = Table::new();
        if self.chance(70) || !own.is_empty() {
            put(&mut traffic, "name", format!("T{number}"));
        }
        let mut senders = frame.hosts.len() as u64;
        let mut names = own.to_vec();
        if own.is_empty() && self.chance(25) {
            let count = self.range(1, senders) as usize;
            names = self.shuffled(&frame.hosts);
            names.truncate(count);
        }
        if !names.is_empty() {
            senders = names.len() as u64;
            put(&mut traffic, "hosts", names.into_iter().map(Value::from).collect::<Vec<_>>());
        }
        let kinds = ["uniform", "uniform", "hotspots", "shift", "permutation", "all-to-all", "forest"];
        let name = if many { "uniform" } else { self.pick(&kinds) };
        let pattern = self.destinations(name, frame);
        put(&mut traffic, "pattern", pattern);
        let is_forest = name == "forest";
        let mut message = self.message(&mut traffic, frame);
        if !is_forest && self.chance(20) {
            let spread = self.below(3 * frame.mtu);
            put(&mut traffic, "message_max", bytes(message + spread));
            message += spread / 2;
        }
        let packets = self.offer(&mut traffic, frame, message, is_forest) * senders as f64;
        let mut most = f64::INFINITY;
        // Losses can be detected if the number of packets is limited, but not if it is unlimited.
        if !is_forest && self.chance(if self.is_crowd { 85 } else { 45 }) {
            let some = self.pick(&[1, 2, 5, 20, 60, 150]);
            let each = if self.is_crowd { self.range(60, 250) } else { some };
            most = (each * senders) as f64;
            put(&mut traffic, "packets_per_host", int(each));
        }
        if self.chance(if many { 90 } else { 25 }) {
            let sl = if many { number } else { self.pick(&[1, 2, 3, 15]) };
            put(&mut traffic, "sl", int(sl));
        }
        (traffic, Load { packets, most })
    }

    fn destinations(&mut self, name: &str, frame: &Frame) -> Table {
        let mut pattern = kind(name);
        let hosts = frame.hosts.len() as u64;
        match name {
            "uniform" if self.chance(15) => put(&mut pattern, "include_self", self.chance(60)),
            "hotspots" => {
                let count = self.range(1, 3.min(hosts)) as usize;
                let mut names = self.shuffled(&frame.hosts);
                names.truncate(count);
                put(&mut pattern, "to", names.into_iter().map(Value::from).collect::<Vec<_>>());
            }
            "shift" => {
                let by = self.range(1, hosts - 1);
                put(&mut pattern, "by", int(by));
            }
            "forest" => self.forest(&mut pattern, hosts),
            _ => {}
        }
        pattern
    }

    fn forest(&mut self, pattern: &mut Table, hosts: u64) {
        let hotspots = self.range(1, 3.min(hosts));
        put(pattern, "hotspots", int(hotspots));
        let (contributors, victims, mixed) =
            self.pick(&[(60, 15, 25), (100, 0, 0), (0, 0, 100), (0, 100, 0), (50, 50, 0)]);
        for (key, percent) in [("contributors", contributors), ("victims", victims), ("mixed", mixed)] {
            if percent > 0 {
                put(pattern, key, int(percent));
            }
        }
        if mixed > 0 {
            let p = self.pick(&[0, 30, 60, 100]);
            put(pattern, "p", int(p));
        }
        if self.chance(40) {
            let ps = self.pick(&[1_000_000, 3_000_000, 7_654_321]);
            let lifetime = self.time(ps);
            put(pattern, "lifetime", lifetime);
        }
    }

    /// When an entry starts and stops.
    fn phase(&mut self, table: &mut Table, duration: u64) {
        let is_forest = table.get("pattern").and_then(|pattern| pattern.get("hotspots")).is_some();
        let mut start = 0;
        match self.below(10) {
            0..=2 => {
                start = self.range(1, duration / 2);
                let value = self.time(start);
                put(table, "start", value);
            }
            3 if !is_forest => {
                let after = self.pick(&[1, 5, 30, 200]);
                put(table, "start_after_packets", int(after));
            }
            _ => {}
        }
        if self.chance(20) {
            let stop = start + self.range(1, duration);
            let value = self.time(stop);
            put(table, "stop", value);
        }
    }
}
