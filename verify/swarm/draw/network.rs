//! Networks: every kind of topology, and routings that may suit them.

use std::collections::BTreeSet;
use std::path::Path;

use silvan_engine::Bytes;
use silvan_network::topology::{Topology, TopologySpec};
use silvan_scenario::FAT_TREES;
use silvan_scenario::import::{ibnetdiscover, read_text};
use toml::{Table, Value};

use super::{Draw, FABRICS, Frame, int, kind, put};

/// Kinds with their weights. Large networks are slow and therefore rare.
const KINDS: [(&str, u64); 16] = [
    ("star", 170),
    ("custom", 150),
    ("dumbbell", 80),
    ("k-ary-n-tree", 45),
    ("k-ary-n-fly", 45),
    ("modified-k-ary-n-tree", 35),
    ("two-level-fat-tree", 25),
    ("pgft", 30),
    ("three-level-fat-tree", 8),
    ("torus", 20),
    ("mesh", 12),
    ("hyperx", 12),
    ("dragonfly", 20),
    ("dragonfly-plus", 16),
    ("file", 11),
    ("fat-tree-648", 1),
];
const RATES: [u64; 8] = [16, 16, 8, 7, 20, 32, 2, 100];

impl Draw {
    /// Adds a topology and its routing to the scenario.
    pub(super) fn network(&mut self, scenario: &mut Table) -> Frame {
        let mut at = self.below(KINDS.iter().map(|kind| kind.1).sum());
        let mut name = "star";
        for (kind, weight) in KINDS {
            name = kind;
            if at < weight {
                break;
            }
            at -= weight;
        }
        if self.is_crowd {
            name = "star";
        }
        let mut topology = kind(name);
        match name {
            "star" => self.star(&mut topology),
            "dumbbell" => {
                for key in ["left", "right"] {
                    if self.chance(70) {
                        let hosts = self.pick(&[1, 2, 3, 4, 7, 12]);
                        put(&mut topology, key, int(hosts));
                    }
                }
                if self.chance(50) {
                    let rate = self.gbit();
                    put(&mut topology, "trunk_rate", rate);
                }
            }
            "custom" => self.custom(&mut topology),
            "file" => put(&mut topology, "file", "sw2-h7/minhop/ibnetdiscover.topo"),
            _ => self.regular(name, &mut topology),
        }
        self.links(&mut topology, name == "file");
        let built = built(&topology);
        let routing = self.routing(name, &topology, &built);
        put(scenario, "topology", topology);
        if !routing.is_empty() {
            put(scenario, "routing", routing);
        }
        let mut frame = frame(name, &built);
        frame.own_lanes = own_lanes(name, scenario);
        frame
    }

    fn gbit(&mut self) -> Value {
        let odd = if self.chance(20) { self.below(1000) * 1_000_000 } else { 0 };
        let gbit = self.pick(&RATES);
        self.rate(gbit * 1_000_000_000 + odd)
    }

    fn delay(&mut self) -> Value {
        let ps = self.pick(&[1, 333, 1_000, 20_000, 20_000, 50_000, 400_000, 2_000_000]);
        self.time(ps)
    }

    fn links(&mut self, topology: &mut Table, is_file: bool) {
        if self.chance(50) {
            let delay = self.delay();
            put(topology, "link_delay", delay);
        }
        if self.chance(50) {
            let rate = self.gbit();
            put(topology, if is_file { "default_rate" } else { "link_rate" }, rate);
        }
    }

    fn star(&mut self, topology: &mut Table) {
        let hosts = match self.below(20) {
            _ if self.is_crowd => self.range(20, 72),
            0..=13 => self.range(2, 9),
            14..=16 => self.range(10, 33),
            17..=18 => self.range(34, 72),
            _ => self.pick(&[64, 100, 128, 256]),
        };
        put(topology, "hosts", int(hosts));
    }

    fn regular(&mut self, name: &str, topology: &mut Table) {
        let mut set = |key: &str, value: u64| put(topology, key, int(value));
        match name {
            "k-ary-n-tree" => {
                let (k, n) = self.pick(&[(2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (4, 2), (4, 3), (8, 2)]);
                set("k", k);
                set("n", n);
            }
            "modified-k-ary-n-tree" => {
                let (k, n) = self.pick(&[(2, 2), (2, 3), (3, 2), (4, 2), (2, 4)]);
                set("k", k);
                set("n", n);
                if self.chance(70) {
                    set("horizontal_width", self.below(4));
                }
            }
            "k-ary-n-fly" => self.fly(topology),
            "two-level-fat-tree" => {
                set("leaves", self.range(1, 6));
                set("spines", self.range(1, 4));
                set("hosts_per_leaf", self.range(1, 6));
                if self.chance(30) {
                    set("parallel", self.range(1, 3));
                }
            }
            "pgft" => {
                let (m, w, p) = self.pick(&[
                    ("4", "1", "1"),
                    ("3 4", "1 2", "1 1"),
                    ("4 3", "1 3", "1 2"),
                    ("2 2 3", "1 2 2", "1 1 1"),
                    ("4 4 2", "1 2 2", "1 2 1"),
                    ("5 2", "1 1", "1 3"),
                ]);
                let list = |text: &str| -> Vec<Value> {
                    text.split(' ').filter_map(|number| number.parse::<i64>().ok()).map(Value::from).collect()
                };
                put(topology, "m", list(m));
                put(topology, "w", list(w));
                if p.contains(['2', '3']) || self.chance(30) {
                    put(topology, "p", list(p));
                }
            }
            "three-level-fat-tree" => set("radix", self.pick(&[4, 4, 6])),
            "torus" | "mesh" | "hyperx" => self.grid(topology),
            "dragonfly" | "dragonfly-plus" => self.groups(name, topology),
            _ => {}
        }
    }

    fn grid(&mut self, topology: &mut Table) {
        let sizes: &[u64] =
            self.pick(&[&[3], &[4], &[6], &[4, 4], &[2, 3], &[5, 2], &[3, 3], &[4, 2, 3], &[2, 2, 2]]);
        put(topology, "sizes", sizes.iter().map(|&size| int(size)).collect::<Vec<_>>());
        if self.chance(40) {
            let hosts = self.range(1, 3);
            put(topology, "hosts_per_switch", int(hosts));
        }
    }

    fn groups(&mut self, name: &str, topology: &mut Table) {
        let (p, h) = (self.range(1, 2), self.range(1, 2));
        put(topology, "p", int(p));
        put(topology, "h", int(h));
        let with_global = self.range(1, 3);
        if name == "dragonfly" {
            put(topology, "a", int(with_global));
        } else {
            let leaves = self.range(1, 3);
            put(topology, "leaves", int(leaves));
            put(topology, "spines", int(with_global));
        }
        if self.chance(30) && h * with_global > 1 {
            let groups = self.range(2, h * with_global);
            put(topology, "g", int(groups));
        }
        if self.chance(40) {
            let arrangement = self.word(&["absolute", "relative"]);
            put(topology, "arrangement", arrangement);
        }
        if self.chance(30) {
            let delay = self.delay();
            put(topology, "global_delay", delay);
        }
    }

    fn fly(&mut self, topology: &mut Table) {
        let (k, n) = self.pick(&[(2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (4, 2), (4, 3)]);
        put(topology, "k", int(k));
        put(topology, "n", int(n));
        let two_ways = self.chance(50);
        if two_ways || self.chance(30) {
            put(topology, "links", if two_ways { "bidirectional" } else { "unidirectional" });
        }
        if self.chance(50) {
            let wiring = self.word(&["butterfly", "perfect-shuffle"]);
            put(topology, "wiring", wiring);
        }
        if two_ways && k == 4 && self.chance(50) {
            put(topology, "hosts", int(2 * k.pow(n as u32 - 1)));
        } else if self.chance(20) {
            put(topology, "hosts", int(k.pow(n as u32)));
        }
    }

    /// A tree of switches with different link rates, with a few additional links that close rings, or a
    /// unidirectional ring.
    fn custom(&mut self, topology: &mut Table) {
        let one_way = self.chance(8);
        let switches = if one_way { self.range(2, 4) } else { self.range(1, 5) } as usize;
        let hosts = self.range(2, 9) as usize;
        let mut links: Vec<(String, String, bool)> = Vec::new();
        for switch in 1..=switches {
            if one_way {
                links.push((format!("S{switch}:1"), format!("S{}:1", switch % switches + 1), true));
            } else if switch > 1 {
                links.push((format!("S{switch}"), format!("S{}", self.range(1, switch as u64 - 1)), false));
            }
        }
        if !one_way && switches > 2 && self.chance(30) {
            links.push((format!("S{switches}"), "S1".to_owned(), false));
        }
        for host in 1..=hosts {
            // Every switch has a host, so that no switch is unused.
            let at = if host <= switches { host } else { self.range(1, switches as u64) as usize };
            links.push((format!("H{host}"), format!("S{at}"), false));
        }
        let alike = self.chance(40);
        let links: Vec<Value> = links.into_iter().map(|link| self.link(link, alike)).collect();
        let spare_ports = self.chance(20);
        let switch = |number: usize| {
            let mut switch = Table::new();
            put(&mut switch, "name", format!("S{number}"));
            if spare_ports {
                put(&mut switch, "ports", int(16));
            }
            Value::Table(switch)
        };
        let names: Vec<Value> = (1..=hosts).map(|host| Value::from(format!("H{host}"))).collect();
        put(topology, "hosts", names);
        put(topology, "switches", (1..=switches).map(switch).collect::<Vec<_>>());
        put(topology, "links", links);
    }

    fn link(&mut self, (from, to, one_way): (String, String, bool), alike: bool) -> Value {
        let mut link = Table::new();
        put(&mut link, "from", from);
        put(&mut link, "to", to);
        if !alike && self.chance(70) {
            let rate = self.gbit();
            put(&mut link, "rate", rate);
        }
        if !alike && self.chance(40) {
            let delay = self.delay();
            put(&mut link, "delay", delay);
        }
        if one_way || self.chance(3) {
            put(&mut link, "one_way", one_way);
        }
        Value::Table(link)
    }

    fn routing(&mut self, name: &str, topology: &Table, built: &Topology) -> Table {
        let mut routing = Table::new();
        let one_way = built.has_one_way_links();
        if name == "file" && self.chance(60) {
            routing = kind("table");
            put(&mut routing, "file", "sw2-h7/minhop/opensm-lfts.dump");
        } else if self.chance(40) {
            let known: &[&str] = match name {
                "k-ary-n-fly" if one_way => &["destination-tag"],
                "k-ary-n-fly" => &["d-mod-k", "up-down"],
                "custom" if one_way => &["shortest-path"],
                "torus" | "mesh" | "hyperx" => {
                    &["dimension-order", "dimension-order", "up-down", "shortest-path"]
                }
                "dragonfly" | "dragonfly-plus" => &["minimal", "valiant", "ugal", "up-down"],
                name if FAT_TREES.contains(&name) => &["d-mod-k", "up-down", "shortest-path"],
                _ => &["up-down", "shortest-path"],
            };
            routing = kind(self.pick(known));
            if routing["kind"].as_str() == Some("valiant") && self.chance(60) {
                let draw = self.below(5);
                put(&mut routing, "draw", int(draw));
            }
            if routing["kind"].as_str() == Some("ugal") && self.chance(60) {
                let bias = self.pick(&[0, 1, 4_096, 65_536, 1 << 30]);
                put(&mut routing, "bias", Bytes(bias).to_string());
            }
            if routing["kind"].as_str() == Some("up-down") && self.chance(40) {
                let root = &built.switches[self.below(built.switches.len() as u64) as usize].name;
                let both = vec![Value::from(root.as_str())];
                let root = if self.chance(50) { Value::from(both) } else { Value::from(root.as_str()) };
                put(&mut routing, "root", root);
            }
        }
        // Rings of unidirectional links always have dependency cycles; in other networks the loader detects
        // them.
        let may_circle = name == "custom" && (one_way || topology.contains_key("links"));
        if (one_way && name == "custom") || (may_circle && self.chance(30)) || self.chance(3) {
            put(&mut routing, "allow_deadlock", one_way || self.chance(80));
        }
        routing
    }
}

/// Builds the network, for the names of its hosts. If it is invalid, the loader will reject it too.
fn built(topology: &Table) -> Topology {
    if topology.contains_key("file") {
        let name = "sw2-h7/minhop/ibnetdiscover.topo";
        let text = read_text(&Path::new(FABRICS).join(name)).unwrap_or_default();
        return ibnetdiscover::parse(&text, name, ibnetdiscover::Options::default())
            .map_or_else(|_| empty(), |wiring| wiring.topology);
    }
    // The loader converts quantities in cycles; names do not depend on them.
    let mut plain = topology.clone();
    strip_quantities(&mut plain);
    let spec = Value::Table(plain).try_into::<TopologySpec>();
    let mut network = spec.ok().and_then(|spec| spec.build().ok()).unwrap_or_else(empty);
    if let Ok(spec) = Value::Table(topology.clone()).try_into::<TopologySpec>()
        && let Ok(with_rates) = spec.build()
    {
        network = with_rates;
    }
    network
}

/// The number of lanes that the routing requires, if any.
fn own_lanes(name: &str, scenario: &Table) -> Option<u64> {
    let kind = scenario.get("routing").and_then(|routing| routing.get("kind")).and_then(Value::as_str);
    match (name, kind) {
        ("torus", None | Some("dimension-order")) => Some(2),
        ("mesh" | "hyperx", None | Some("dimension-order")) => Some(1),
        ("dragonfly", Some("valiant" | "ugal")) => Some(3),
        ("dragonfly", None | Some("minimal")) | ("dragonfly-plus", Some("valiant" | "ugal")) => Some(2),
        ("dragonfly-plus", None | Some("minimal")) => Some(1),
        _ => None,
    }
}

fn strip_quantities(table: &mut Table) {
    for key in ["link_rate", "link_delay", "trunk_rate", "rate", "delay"] {
        table.remove(key);
    }
    let links = table.get_mut("links").and_then(Value::as_array_mut);
    links.into_iter().flatten().filter_map(Value::as_table_mut).for_each(strip_quantities);
}

/// A substitute for a network that cannot be built.
fn empty() -> Topology {
    let mut star = kind("star");
    put(&mut star, "hosts", int(2));
    let spec = Value::Table(star).try_into::<TopologySpec>();
    #[expect(clippy::expect_used, reason = "a star of two hosts can be built")]
    spec.ok().and_then(|spec| spec.build().ok()).expect("two hosts")
}

fn frame(name: &str, network: &Topology) -> Frame {
    let rates = || network.links.iter().map(|link| link.rate.0);
    let levels = match name {
        "star" => 2,
        "dumbbell" | "custom" | "file" => 3,
        _ => 5,
    };
    Frame {
        hosts: network.hosts.iter().map(|host| host.name.clone()).collect(),
        fastest: rates().max().unwrap_or(1),
        slowest: rates().min().unwrap_or(1),
        rates: rates().collect::<BTreeSet<u64>>().into_iter().collect(),
        hops: levels,
        is_fat_tree: FAT_TREES.contains(&name),
        has_one_way: network.has_one_way_links(),
        mtu: 0,
        header: 0,
        space: 0,
        lanes: 1,
        own_lanes: None,
        injection: u64::MAX,
    }
}
