//! The check that every topology passes before it is routed or run, generated or imported.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::{
    End, MAX_HOSTS, MAX_LINK_DELAY, MAX_LINKS, MAX_PORTS, MAX_SWITCH_PORTS, MAX_SWITCHES, NodeRef, Topology,
    TopologyError,
};

fn wrong(text: String) -> Result<(), TopologyError> {
    Err(TopologyError(text))
}

impl Topology {
    /// Checks that names are unique, sizes within the limits, ports in range and used once, every
    /// host has exactly one link, to a switch, links carry something and take time, and that
    /// every node reaches every other.
    ///
    /// # Errors
    /// The first thing that does not hold, with the nodes' names.
    pub fn validate(&self) -> Result<(), TopologyError> {
        self.check_sizes()?;
        self.check_names()?;
        for index in 0..self.links.len() {
            self.check_link(index)?;
        }
        self.check_ports()?;
        self.check_connected()
    }

    fn check_sizes(&self) -> Result<(), TopologyError> {
        if self.hosts.is_empty() {
            return wrong("the network has no hosts; it needs at least one".to_owned());
        }
        for (count, what, limit) in [
            (self.hosts.len(), "hosts", MAX_HOSTS),
            (self.switches.len(), "switches", MAX_SWITCHES),
            (self.links.len(), "links", MAX_LINKS),
        ] {
            if count as u64 > limit {
                return wrong(format!("the network has {count} {what}; at most {limit} are possible"));
            }
        }
        for switch in &self.switches {
            if switch.ports == 0 || switch.ports > MAX_SWITCH_PORTS {
                return wrong(format!(
                    "switch {} has {} ports; it must have 1 to {MAX_SWITCH_PORTS}",
                    switch.name, switch.ports
                ));
            }
        }
        let ports: u64 = self.switches.iter().map(|s| u64::from(s.ports)).sum();
        if ports > MAX_PORTS {
            return wrong(format!(
                "the switches have {ports} ports in all; at most {MAX_PORTS} are possible"
            ));
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), TopologyError> {
        let mut seen = FxHashMap::default();
        let hosts = self.hosts.iter().map(|h| ("host", h.name.as_str()));
        let switches = self.switches.iter().map(|s| ("switch", s.name.as_str()));
        for (kind, name) in hosts.chain(switches) {
            if name.is_empty() {
                return wrong(format!("a {kind} has an empty name; every node needs a name"));
            }
            if let Some(other) = seen.insert(name, kind) {
                return wrong(format!(
                    "a {other} and a {kind} are both named {name}; every node needs a name of its own"
                ));
            }
        }
        Ok(())
    }

    fn check_link(&self, index: usize) -> Result<(), TopologyError> {
        let link = &self.links[index];
        for end in [link.a, link.b] {
            let (known, ports) = match end.node {
                NodeRef::Host(i) => (self.hosts.get(i as usize).is_some(), 1),
                NodeRef::Switch(i) => {
                    let switch = self.switches.get(i as usize);
                    (switch.is_some(), switch.map_or(0, |s| s.ports))
                }
            };
            if !known {
                return wrong(format!("link {}: {} does not exist", index + 1, end.node));
            }
            if end.port == 0 || end.port > ports {
                return wrong(format!(
                    "link {}: {} has no port {}; its ports are 1 to {ports}",
                    index + 1,
                    self.name_of(end.node),
                    end.port
                ));
            }
        }
        if link.a.node == link.b.node {
            return wrong(format!("{} leads back to its own node; remove it", self.link_name(index)));
        }
        if let (NodeRef::Host(_), NodeRef::Host(_)) = (link.a.node, link.b.node) {
            return wrong(format!("{} joins two hosts; put a switch between them", self.link_name(index)));
        }
        if link.rate.0 == 0 {
            return wrong(format!("{} has a rate of 0; it must be more", self.link_name(index)));
        }
        if link.delay == Time::ZERO || link.delay > MAX_LINK_DELAY {
            return wrong(format!(
                "{} has a delay of {}; it must be more than 0 and at most {MAX_LINK_DELAY}",
                self.link_name(index),
                link.delay
            ));
        }
        Ok(())
    }

    /// How messages call a link.
    fn link_name(&self, index: usize) -> String {
        let link = &self.links[index];
        format!("link {} ({} - {})", index + 1, self.port_name(link.a), self.port_name(link.b))
    }

    fn check_ports(&self) -> Result<(), TopologyError> {
        let mut hosts: Vec<Option<usize>> = vec![None; self.hosts.len()];
        let mut switches: Vec<Vec<Option<usize>>> =
            self.switches.iter().map(|s| vec![None; usize::from(s.ports)]).collect();
        for (index, link) in self.links.iter().enumerate() {
            for end in [link.a, link.b] {
                let slot = match end.node {
                    NodeRef::Host(i) => &mut hosts[i as usize],
                    NodeRef::Switch(i) => &mut switches[i as usize][usize::from(end.port) - 1],
                };
                if let Some(first) = slot.replace(index) {
                    return wrong(format!(
                        "port {} is used by {} and by {}; one link per port is possible",
                        self.port_name(end),
                        self.link_name(first),
                        self.link_name(index)
                    ));
                }
            }
        }
        if let Some(i) = hosts.iter().position(Option::is_none) {
            return wrong(format!("host {} has no link; every host needs one", self.hosts[i].name));
        }
        Ok(())
    }

    fn check_connected(&self) -> Result<(), TopologyError> {
        let wiring = self.wiring();
        let mut hosts = vec![false; self.hosts.len()];
        let mut switches = vec![false; self.switches.len()];
        let mut open = vec![NodeRef::Host(0)];
        while let Some(node) = open.pop() {
            let (seen, peers) = match node {
                NodeRef::Host(i) => (&mut hosts[i as usize], std::slice::from_ref(&wiring.hosts[i as usize])),
                NodeRef::Switch(i) => (&mut switches[i as usize], wiring.switches[i as usize].as_slice()),
            };
            if !std::mem::replace(seen, true) {
                open.extend(peers.iter().flatten().map(|&(End { node, .. }, _)| node));
            }
        }
        let first = &self.hosts[0].name;
        if let Some(i) = hosts.iter().position(|&seen| !seen) {
            return wrong(format!("no path leads from host {first} to host {}", self.hosts[i].name));
        }
        if let Some(i) = switches.iter().position(|&seen| !seen) {
            return wrong(format!(
                "no path leads from host {first} to switch {}; link it or remove it",
                self.switches[i].name
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::super::dumbbell::Dumbbell;
    use super::super::parameters::{host, host_end, switch, switch_end};
    use super::super::{Link, Shape};
    use super::*;

    fn message(change: impl FnOnce(&mut Topology)) -> String {
        let mut topology = Dumbbell::default().build().unwrap();
        change(&mut topology);
        topology.validate().map_err(|e| e.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn sound_topologies_pass() {
        assert_eq!(message(|_| ()), "");
    }

    #[test]
    fn wrong_nodes_are_named() {
        assert_eq!(message(|t| t.hosts.clear()), "the network has no hosts; it needs at least one");
        assert_eq!(
            message(|t| t.switches[1].name = "H3".to_owned()),
            "a host and a switch are both named H3; every node needs a name of its own"
        );
        assert_eq!(message(|t| t.hosts[1].name.clear()), "a host has an empty name; every node needs a name");
        assert_eq!(message(|t| t.switches[0].ports = 0), "switch S1 has 0 ports; it must have 1 to 1024");
        assert_eq!(
            message(|t| t.switches.extend((0..4000).map(|i| switch(format!("X{i}"), 1024)))),
            "the switches have 4096009 ports in all; at most 4000000 are possible"
        );
        assert_eq!(
            message(|t| t.hosts.extend((0..200_000).map(|i| host(format!("X{i}"))))),
            "the network has 200007 hosts; at most 200000 are possible"
        );
    }

    #[test]
    fn wrong_links_are_named() {
        assert_eq!(message(|t| t.links[2].a = host_end(9)), "link 3: host 9 does not exist");
        assert_eq!(message(|t| t.links[2].b.port = 5), "link 3: S1 has no port 5; its ports are 1 to 4");
        assert_eq!(message(|t| t.links[2].a.port = 2), "link 3: H3 has no port 2; its ports are 1 to 1");
        assert_eq!(
            message(|t| t.links[2].b.port = 1),
            "port S1:1 is used by link 1 (H1:1 - S1:1) and by link 3 (H3:1 - S1:1); one link per port is possible"
        );
        assert_eq!(
            message(|t| t.links[7].b = switch_end(0, 3)),
            "link 8 (S1:4 - S1:3) leads back to its own node; remove it"
        );
        assert_eq!(
            message(|t| t.links[0].b = host_end(1)),
            "link 1 (H1:1 - H2:1) joins two hosts; put a switch between them"
        );
        assert_eq!(
            message(|t| t.links[7].rate = Rate(0)),
            "link 8 (S1:4 - S2:5) has a rate of 0; it must be more"
        );
        assert_eq!(
            message(|t| t.links[7].delay = Time::ZERO),
            "link 8 (S1:4 - S2:5) has a delay of 0 ps; it must be more than 0 and at most 1 s"
        );
    }

    #[test]
    fn what_is_not_reached_is_named() {
        assert_eq!(
            message(|t| {
                t.links.remove(3);
            }),
            "host H4 has no link; every host needs one"
        );
        assert_eq!(
            message(|t| {
                t.links.pop();
            }),
            "no path leads from host H1 to host H4"
        );
        assert_eq!(
            message(|t| t.switches.push(switch("S3".to_owned(), 8))),
            "no path leads from host H1 to switch S3; link it or remove it"
        );
    }

    #[test]
    fn a_lone_host_needs_a_switch() {
        let lone = Topology {
            name: String::new(),
            hosts: vec![host("A".to_owned())],
            switches: Vec::new(),
            links: Vec::<Link>::new(),
            shape: Shape::Arbitrary,
        };
        assert!(lone.validate().is_err());
    }
}
