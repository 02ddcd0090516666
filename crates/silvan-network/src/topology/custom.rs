//! Any network, as lists of hosts, switches and links.
//!
//! ```text
//!   hosts = ["A", "B", "C"]
//!   switches = [{ name = "S1", ports = 4 }, { name = "S2" }]
//!   links = [
//!     { from = "A", to = "S1:4" },                 A --4 S1 1====1 S2 3-- C
//!     { from = "S1", to = "S2" },                        2====2
//!     { from = "S1", to = "S2" },                        3
//!     { from = "B", to = "S1", delay = "40 ns" },        |
//!     { from = "C", to = "S2", rate = "8 Gbit/s" },      B
//!   ]
//! ```
//!
//! An end contains a port ("S1:4") or only the node ("S1"). Without a port, the end uses the node's lowest port that
//! no link names and no earlier link uses. Two switches may be connected by several links.
//!
//! A link with `one_way = true` leads only from its first end to its second end. It uses the sending side of
//! one port and the receiving side of the other. If one side of a port is used, the other side must be used
//! too, possibly by a link to a different node.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, default_link_delay, default_link_rate, host, host_end, switch, switch_end,
};
use super::{
    End, HOST_PORTS, Link, MAX_FCFS_PORTS, MAX_HOSTS, MAX_LINKS, MAX_SWITCHES, NodeRef, Shape, Topology,
    TopologyError, is_visible,
};

const KIND: &str = "custom";

/// Lists of hosts, switches and links; see the [module](self) for an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Names of the hosts, in the order of their numbers.
    pub hosts: Vec<String>,
    /// The switches.
    pub switches: Vec<CustomSwitch>,
    /// The links.
    pub links: Vec<CustomLink>,
    /// Data rate of every link without its own rate. Default: 16 Gbit/s.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link without its own delay. Default: 20 ns.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
}

/// A switch of a [`Custom`] topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomSwitch {
    /// Its name: unique among all nodes, not empty, and without colons or invisible characters.
    pub name: String,
    /// Number of ports, 1 to 1024. Default: the number of the highest port that a link uses.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 1, max = 1024))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
}

/// A link of a [`Custom`] topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomLink {
    /// One end: a node ("S1"), or one of its ports ("S1:4").
    pub from: String,
    /// The other end: a node, or one of its ports.
    pub to: String,
    /// Data rate. Default: the topology's `link_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay. Default: the topology's `link_delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// Whether the link leads only from `from` to `to`. A port that receives by a unidirectional link must
    /// also send by one, and vice versa.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_way: bool,
}

fn wrong<T>(text: &str) -> Result<T, TopologyError> {
    Err(TopologyError(format!("{KIND}: {text}")))
}

/// The sides of a port that a link uses at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortSides {
    Sends,
    Receives,
    Both,
}

impl PortSides {
    /// The sides that a link uses at one of its ends.
    fn of(link: &CustomLink, is_first: bool) -> Self {
        match (link.one_way, is_first) {
            (false, _) => Self::Both,
            (true, true) => Self::Sends,
            (true, false) => Self::Receives,
        }
    }

    /// Indices into [`UsedPorts::taken`].
    fn sides(self) -> std::ops::Range<usize> {
        match self {
            Self::Sends => 0..1,
            Self::Receives => 1..2,
            Self::Both => 0..2,
        }
    }
}

/// The used ports of a switch, and the links that use them.
struct UsedPorts {
    limit: u16,
    /// The link at each used port, for sending and for receiving.
    taken: [BTreeMap<u16, usize>; 2],
    /// For each [`PortSides`], a port below which no port is free.
    next: [u16; 3],
}

impl UsedPorts {
    /// Uses a port. Returns the link that already used it, if any.
    fn take(&mut self, port: u16, side: PortSides, link: usize) -> Option<usize> {
        side.sides().filter_map(|at| self.taken[at].insert(port, link)).next()
    }

    fn take_free(&mut self, side: PortSides, link: usize) -> Option<u16> {
        let next = &mut self.next[side as usize];
        while side.sides().any(|at| self.taken[at].contains_key(next)) {
            *next += 1;
        }
        let port = *next;
        if port > self.limit {
            return None;
        }
        self.take(port, side, link);
        Some(port)
    }

    /// The highest used port.
    fn used(&self) -> Option<u16> {
        self.taken.iter().filter_map(|taken| taken.keys().next_back().copied()).max()
    }
}

impl Custom {
    /// Builds the network.
    ///
    /// # Errors
    /// If there are too many nodes or links, if a name, port, rate or delay is invalid, or if a switch has
    /// too few ports.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.check_size()?;
        check_rate(KIND, "link_rate", self.link_rate)?;
        check_delay(KIND, "link_delay", self.link_delay)?;
        let nodes = self.nodes()?;
        let mut ports = self.ports()?;

        // Assign named ports first, so that links without port numbers do not use them.
        let mut ends = Vec::with_capacity(self.links.len());
        for index in 0..self.links.len() {
            let mut claim = |key, is_first| self.claim(&nodes, &mut ports, index, (key, is_first));
            ends.push([claim("from", true)?, claim("to", false)?]);
        }
        let mut links = Vec::with_capacity(self.links.len());
        for (index, (link, [from, to])) in self.links.iter().zip(ends).enumerate() {
            let (rate, delay) = (link.rate.unwrap_or(self.link_rate), link.delay.unwrap_or(self.link_delay));
            check_rate(KIND, &format!("links, entry {}, rate", index + 1), rate)?;
            check_delay(KIND, &format!("links, entry {}, delay", index + 1), delay)?;
            let a = self.settle(&mut ports, index, ("from", true), from)?;
            let b = self.settle(&mut ports, index, ("to", false), to)?;
            links.push(Link { a, b, rate, delay, one_way: link.one_way });
        }
        let switches = self.switches.iter().zip(&ports).map(|(spec, ports)| {
            let used = ports.used().unwrap_or(1);
            switch(spec.name.clone(), if spec.ports.is_some() { ports.limit } else { used })
        });
        Ok(Topology {
            name: format!("custom network of {} hosts, {} switches", self.hosts.len(), self.switches.len()),
            hosts: self.hosts.iter().cloned().map(host).collect(),
            switches: switches.collect(),
            links,
            units: 0,
            machines: Vec::new(),
            shape: Shape::Arbitrary,
        })
    }

    fn check_size(&self) -> Result<(), TopologyError> {
        for (count, what, limit) in [
            (self.hosts.len(), "hosts", MAX_HOSTS),
            (self.switches.len(), "switches", MAX_SWITCHES),
            (self.links.len(), "links", MAX_LINKS),
        ] {
            if count as u64 > limit {
                return wrong(&format!("`{what}` has {count} entries; at most {limit} are possible"));
            }
        }
        Ok(())
    }

    /// Returns all nodes by name.
    fn nodes(&self) -> Result<FxHashMap<&str, NodeRef>, TopologyError> {
        let hosts = (0..).zip(&self.hosts).map(|(i, name)| ("hosts", i, name, NodeRef::Host(i)));
        let switches = (0..).zip(&self.switches).map(|(i, s)| ("switches", i, &s.name, NodeRef::Switch(i)));
        let mut nodes = FxHashMap::default();
        for (list, index, name, node) in hosts.chain(switches) {
            if name.is_empty() || name.contains(':') || !is_visible(name) {
                return wrong(&format!(
                    "`{list}`, entry {}: {name:?} is not a valid name; it must not be empty or contain `:` or invisible \
                     characters",
                    index + 1
                ));
            }
            if nodes.insert(name.as_str(), node).is_some() {
                return wrong(&format!(
                    "`{list}`, entry {}: another node is already named {name}; every node needs a unique name",
                    index + 1
                ));
            }
        }
        Ok(nodes)
    }

    fn ports(&self) -> Result<Vec<UsedPorts>, TopologyError> {
        let of_switch = |spec: &CustomSwitch| {
            let ports = spec.ports.unwrap_or(u32::from(MAX_FCFS_PORTS));
            match u16::try_from(ports) {
                Ok(limit) if (1..=MAX_FCFS_PORTS).contains(&limit) => {
                    Ok(UsedPorts { limit, taken: Default::default(), next: [1; 3] })
                }
                _ => wrong(&format!(
                    "switch {}: `ports` = {ports} is out of range; it must be 1 to {MAX_FCFS_PORTS}",
                    spec.name
                )),
            }
        };
        self.switches.iter().map(of_switch).collect()
    }

    /// Parses one end of a link, and reserves its port if the end names one.
    fn claim(
        &self,
        nodes: &FxHashMap<&str, NodeRef>,
        ports: &mut [UsedPorts],
        index: usize,
        (key, is_first): (&str, bool),
    ) -> Result<(NodeRef, Option<u16>), TopologyError> {
        let link = &self.links[index];
        let text = if is_first { &link.from } else { &link.to };
        let place = || format!("`links`, entry {}, `{key}` = {text:?}", index + 1);
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text.as_str(), None),
        };
        let Some(&node) = nodes.get(name) else {
            return wrong(&format!("{}: no host or switch is named {name:?}", place()));
        };
        let limit = match node {
            NodeRef::Host(_) => 1,
            NodeRef::Switch(i) => ports[i as usize].limit,
        };
        let Some(port) = port else { return Ok((node, None)) };
        let Some(port) = port.parse::<u16>().ok().filter(|p| (1..=limit).contains(p)) else {
            let valid = match node {
                NodeRef::Host(_) => HOST_PORTS.to_owned(),
                NodeRef::Switch(_) => format!("its ports are 1 to {limit}"),
            };
            return wrong(&format!("{}: {name} has no port {port:?}; {valid}", place()));
        };
        if let NodeRef::Switch(i) = node
            && let Some(other) = ports[i as usize].take(port, PortSides::of(link, is_first), index)
        {
            return wrong(&format!(
                "{}: port {port} is already used by `links`, entry {}",
                place(),
                other + 1
            ));
        }
        Ok((node, Some(port)))
    }

    /// Assigns a port to an end for which none is given.
    fn settle(
        &self,
        ports: &mut [UsedPorts],
        index: usize,
        (key, is_first): (&str, bool),
        (node, port): (NodeRef, Option<u16>),
    ) -> Result<End, TopologyError> {
        let side = PortSides::of(&self.links[index], is_first);
        match (node, port) {
            (NodeRef::Host(i), _) => Ok(host_end(i)),
            (NodeRef::Switch(i), Some(port)) => Ok(switch_end(i, port)),
            (NodeRef::Switch(i), None) => match ports[i as usize].take_free(side, index) {
                Some(port) => Ok(switch_end(i, port)),
                None => wrong(&format!(
                    "`links`, entry {}, `{key}`: all {} ports of switch {} are in use",
                    index + 1,
                    ports[i as usize].limit,
                    self.switches[i as usize].name
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TopologySpec;
    use super::*;

    fn link(from: &str, to: &str) -> CustomLink {
        CustomLink { from: from.to_owned(), to: to.to_owned(), rate: None, delay: None, one_way: false }
    }

    /// The network in the drawing of the module documentation.
    fn example() -> Custom {
        Custom {
            hosts: ["A", "B", "C"].map(str::to_owned).to_vec(),
            switches: vec![
                CustomSwitch { name: "S1".to_owned(), ports: Some(4) },
                CustomSwitch { name: "S2".to_owned(), ports: None },
            ],
            links: vec![
                link("A", "S1:4"),
                link("S1", "S2"),
                link("S1", "S2"),
                CustomLink { delay: Some(Time::from_ns(40)), ..link("B", "S1") },
                CustomLink { rate: Some(Rate::from_gbit(8)), ..link("C", "S2") },
            ],
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        }
    }

    #[test]
    fn the_example_is_connected_as_drawn() {
        let built = TopologySpec::Custom(example()).build().unwrap();
        let wired: Vec<String> = built
            .links
            .iter()
            .map(|l| {
                format!(
                    "{} {} {} {}",
                    built.port_name(l.a),
                    built.port_name(l.b),
                    l.rate.as_gbit_f64(),
                    l.delay
                )
            })
            .collect();
        assert_eq!(
            wired,
            [
                "A:1 S1:4 16 20 ns",
                "S1:1 S2:1 16 20 ns",
                "S1:2 S2:2 16 20 ns",
                "B:1 S1:3 16 40 ns",
                "C:1 S2:3 8 20 ns",
            ]
        );
        assert_eq!(built.switches[1].ports, 3, "as many as the links need");
    }

    #[test]
    fn named_ports_are_reserved_for_their_links() {
        let mut spec = example();
        spec.links.reverse();
        spec.links[4].to = "S1:1".to_owned();
        let built = TopologySpec::Custom(spec).build().unwrap();
        assert_eq!(built.port_name(built.links[4].b), "S1:1");
        assert_eq!(built.port_name(built.links[1].b), "S1:2");
    }

    /// A ring in which A sends to B through two switches, and B to A only through the first of them.
    fn ring() -> Custom {
        let one_way = |from, to| CustomLink { one_way: true, ..link(from, to) };
        Custom {
            hosts: ["A", "B"].map(str::to_owned).to_vec(),
            switches: ["S1", "S2"].map(|name| CustomSwitch { name: name.to_owned(), ports: None }).to_vec(),
            links: vec![
                one_way("A", "S1"),
                one_way("S1", "S2:1"),
                one_way("S2", "B"),
                one_way("B", "S1"),
                one_way("S1", "A"),
            ],
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        }
    }

    #[test]
    fn unidirectional_links_use_one_side_of_a_port() {
        let built = TopologySpec::Custom(ring()).build().unwrap();
        let wired: Vec<String> = built
            .links
            .iter()
            .map(|l| format!("{} -> {}", built.port_name(l.a), built.port_name(l.b)))
            .collect();
        assert_eq!(
            wired,
            ["A:1 -> S1:1", "S1:1 -> S2:1", "S2:1 -> B:1", "B:1 -> S1:2", "S1:2 -> A:1"],
            "a port's sides lead to different nodes"
        );
        assert_eq!((built.switches[0].ports, built.switches[1].ports), (2, 1));
        assert_eq!((built.channel_count(), built.has_one_way_links()), (5, true));
        let wiring = built.wiring();
        assert_eq!(wiring.hosts[1].map(|(end, _)| end), Some(switch_end(0, 2)), "where B sends to");
        assert_eq!(wiring.switches[1][0].map(|(end, _)| end), Some(host_end(1)));
    }

    #[test]
    fn networks_of_unidirectional_links_must_be_connected() {
        let message = |change: fn(&mut Custom)| {
            let mut spec = ring();
            change(&mut spec);
            TopologySpec::Custom(spec).build().map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(
            message(|s| drop(s.links.remove(3))),
            "host B only receives; it needs a link to send by as well"
        );
        assert_eq!(
            message(|s| drop(s.links.pop())),
            "host A only sends; it needs a link to receive by as well"
        );
        assert_eq!(
            message(|s| s.links.push(CustomLink { one_way: true, ..link("S2", "S1") })),
            "port S1:3 only receives; it needs a link to send by as well"
        );
        assert_eq!(
            message(|s| s.links[2].one_way = false),
            "port B:1 is used by link 3 (S2:2 - B:1) and by link 4 (B:1 -> S1:2); one link per port and direction \
             is possible"
        );
        assert_eq!(
            message(|s| s.links[3].to = "S2:1".to_owned()),
            "custom: `links`, entry 4, `to` = \"S2:1\": port 1 is already used by `links`, entry 2"
        );
        assert_eq!(
            message(|s| {
                s.links[3].to = "S2".to_owned();
                s.links[4].from = "S2".to_owned();
            }),
            "",
            "a unidirectional trunk is valid if every node can be reached"
        );
        assert_eq!(
            message(|s| {
                s.links[1] = CustomLink { one_way: true, ..link("S1", "B") };
                s.links[2] = CustomLink { one_way: true, ..link("S2", "S2") };
            }),
            "link 3 (S2:1 -> S2:1) leads back to its own node; remove it"
        );
    }

    #[test]
    fn invalid_entries_are_reported() {
        let message = |change: fn(&mut Custom)| {
            let mut spec = example();
            change(&mut spec);
            TopologySpec::Custom(spec).build().map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(
            message(|s| s.links[1].to = "S9:1".to_owned()),
            "custom: `links`, entry 2, `to` = \"S9:1\": no host or switch is named \"S9\""
        );
        assert_eq!(
            message(|s| s.links[0].to = "S1:5".to_owned()),
            "custom: `links`, entry 1, `to` = \"S1:5\": S1 has no port \"5\"; its ports are 1 to 4"
        );
        assert_eq!(
            message(|s| s.links[0].from = "A:2".to_owned()),
            format!("custom: `links`, entry 1, `from` = \"A:2\": A has no port \"2\"; {HOST_PORTS}")
        );
        assert_eq!(
            message(|s| s.links[1].from = "S1:4".to_owned()),
            "custom: `links`, entry 2, `from` = \"S1:4\": port 4 is already used by `links`, entry 1"
        );
        assert_eq!(
            message(|s| s.switches[0].ports = Some(5000)),
            "custom: switch S1: `ports` = 5000 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(|s| s.links.insert(1, link("S1", "S2"))),
            "custom: `links`, entry 5, `to`: all 4 ports of switch S1 are in use"
        );
        assert_eq!(
            message(|s| s.switches[1].name = "A".to_owned()),
            "custom: `switches`, entry 2: another node is already named A; every node needs a unique name"
        );
        assert_eq!(
            message(|s| s.hosts[0] = "A:1".to_owned()),
            "custom: `hosts`, entry 1: \"A:1\" is not a valid name; it must not be empty or contain `:` or invisible \
             characters"
        );
        assert_eq!(
            message(|s| s.links[4].rate = Some(Rate(0))),
            "custom: `links, entry 5, rate` = 0 bit/s carries no data; it must be more than 0, for example \
             \"16 Gbit/s\""
        );
        assert_eq!(
            message(|s| s.links.push(link("A", "S2"))),
            format!("port A:1 is used by link 1 (A:1 - S1:4) and by link 6 (A:1 - S2:4); {HOST_PORTS}")
        );
    }
}
