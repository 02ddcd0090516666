//! Checks every topology, generated or imported, before it is routed or simulated.

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_engine::Time;

use super::{
    End, HOST_PORTS, Link, MAX_FCFS_PORTS, MAX_HOSTS, MAX_LINK_DELAY, MAX_LINKS, MAX_PORTS, MAX_SWITCHES,
    NodeRef, Topology, TopologyError, Wiring,
};

fn wrong(text: String) -> Result<(), TopologyError> {
    Err(TopologyError(text))
}

impl Topology {
    /// Checks that names are unique, sizes are within the limits, ports are in range and used once per
    /// direction, every host sends and receives over exactly one link to and from a switch, links have a
    /// rate and a delay, and every node can reach every other node.
    ///
    /// With unidirectional links, every host must reach the first host and be reachable from it, every
    /// switch must be reachable from some host, and a switch port that receives must also send. Routing
    /// checks whether each pair of hosts is connected.
    ///
    /// # Errors
    /// The first violated condition, with the names of the nodes.
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
            if switch.ports == 0 || switch.ports > MAX_FCFS_PORTS {
                return wrong(format!(
                    "switch {} has {} ports; it must have 1 to {MAX_FCFS_PORTS}",
                    switch.name, switch.ports
                ));
            }
        }
        let ports: u64 = self.switches.iter().map(|s| u64::from(s.ports)).sum();
        if ports > MAX_PORTS {
            return wrong(format!(
                "the switches have {ports} ports in total; at most {MAX_PORTS} are possible"
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
                    "a {other} and a {kind} are both named {name}; every node needs a unique name"
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
                let valid = match end.node {
                    NodeRef::Host(_) => HOST_PORTS.to_owned(),
                    NodeRef::Switch(_) => format!("its ports are 1 to {ports}"),
                };
                let (number, name) = (index + 1, self.name_of(end.node));
                return wrong(format!("link {number}: {name} has no port {}; {valid}", end.port));
            }
        }
        if link.a.node == link.b.node {
            return wrong(format!("{} leads back to its own node; remove it", self.link_name(index)));
        }
        if let (NodeRef::Host(_), NodeRef::Host(_)) = (link.a.node, link.b.node) {
            return wrong(format!("{} connects two hosts; put a switch between them", self.link_name(index)));
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

    /// The name of a link in messages.
    fn link_name(&self, index: usize) -> String {
        let link = &self.links[index];
        let arrow = if link.one_way { "->" } else { "-" };
        format!("link {} ({} {arrow} {})", index + 1, self.port_name(link.a), self.port_name(link.b))
    }

    fn check_ports(&self) -> Result<(), TopologyError> {
        // For each port, the link by which it sends and the link by which it receives.
        type Sides = [Option<usize>; 2];
        let mut hosts: Vec<Sides> = vec![[None; 2]; self.hosts.len()];
        let mut switches: Vec<Vec<Sides>> =
            self.switches.iter().map(|s| vec![[None; 2]; usize::from(s.ports)]).collect();
        for (index, link) in self.links.iter().enumerate() {
            for (from, to) in link.channels() {
                for (end, side) in [(from, 0), (to, 1)] {
                    let sides = match end.node {
                        NodeRef::Host(i) => &mut hosts[i as usize],
                        NodeRef::Switch(i) => &mut switches[i as usize][usize::from(end.port) - 1],
                    };
                    if let Some(first) = sides[side].replace(index) {
                        return wrong(self.used_twice(end, first, index));
                    }
                }
            }
        }
        for (host, sides) in self.hosts.iter().zip(&hosts) {
            let what = match sides {
                [Some(_), Some(_)] => continue,
                [None, None] => "has no link; every host needs one",
                [None, Some(_)] => "only receives; it needs a link to send by as well",
                [Some(_), None] => "only sends; it needs a link to receive by as well",
            };
            return wrong(format!("host {} {what}", host.name));
        }
        for (switch, ports) in self.switches.iter().zip(&switches) {
            if let Some(at) = ports.iter().position(|sides| sides[0].is_some() != sides[1].is_some()) {
                let (does, lacks) =
                    if ports[at][0].is_some() { ("sends", "receive") } else { ("receives", "send") };
                return wrong(format!(
                    "port {}:{} only {does}; it needs a link to {lacks} by as well",
                    switch.name,
                    at + 1
                ));
            }
        }
        Ok(())
    }

    fn used_twice(&self, end: End, first: usize, second: usize) -> String {
        let both_ways = [first, second].iter().all(|&link| !self.links[link].one_way);
        let possible = match end.node {
            NodeRef::Host(_) if both_ways => HOST_PORTS,
            _ if both_ways => "one link per port is possible",
            _ => "one link per port and direction is possible",
        };
        let (port, first, second) = (self.port_name(end), self.link_name(first), self.link_name(second));
        format!("port {port} is used by {first} and by {second}; {possible}")
    }

    fn check_connected(&self) -> Result<(), TopologyError> {
        if !self.machines.is_empty() {
            return self.check_parts();
        }
        let wiring = self.wiring();
        let first = &self.hosts[0].name;
        let (hosts, mut switches) = reached(&wiring, [0]);
        if let Some(i) = hosts.iter().position(|&seen| !seen) {
            return wrong(format!("no path leads from host {first} to host {}", self.hosts[i].name));
        }
        let mut from = format!("host {first}");
        if self.has_one_way_links() {
            let (hosts, _) = reached(&self.backwards(), [0]);
            if let Some(i) = hosts.iter().position(|&seen| !seen) {
                return wrong(format!("no path leads from host {} to host {first}", self.hosts[i].name));
            }
            switches = reached(&wiring, 0..self.hosts.len()).1;
            "any host".clone_into(&mut from);
        }
        if let Some(i) = switches.iter().position(|&seen| !seen) {
            return wrong(format!(
                "no path leads from {from} to switch {}; link it or remove it",
                self.switches[i].name
            ));
        }
        Ok(())
    }

    /// Checks a network whose hosts have several ports, which may consist of several parts.
    fn check_parts(&self) -> Result<(), TopologyError> {
        if let Some(index) = self.links.iter().position(|link| link.one_way) {
            let link = self.link_name(index);
            return wrong(format!(
                "{link} leads in one direction; hosts with several ports need links in both"
            ));
        }
        let mut is_port = vec![false; self.hosts.len()];
        let names: FxHashSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        for machine in &self.machines {
            if machine.ports.len() > 1 && names.contains(machine.name.as_str()) {
                return wrong(format!(
                    "{} is a host and a port of another host; rename one of them",
                    machine.name
                ));
            }
            for &port in &machine.ports {
                match is_port.get_mut(port as usize) {
                    Some(is_port) if !*is_port => *is_port = true,
                    _ => return wrong(format!("port {} of host {} does not exist", port + 1, machine.name)),
                }
            }
        }
        let mut is_connected = vec![false; self.switches.len()];
        for part in self.parts() {
            part.switches.iter().for_each(|&switch| is_connected[switch as usize] = true);
        }
        match is_connected.iter().position(|&is_connected| !is_connected) {
            Some(at) => wrong(format!(
                "no path leads from any host to switch {}; link it or remove it",
                self.switches[at].name
            )),
            None => Ok(()),
        }
    }

    /// The wiring with all links reversed.
    fn backwards(&self) -> Wiring {
        let turned = |link: &Link| Link { a: link.b, b: link.a, ..*link };
        Self { links: self.links.iter().map(turned).collect(), ..self.clone() }.wiring()
    }
}

/// The hosts and switches that packets from some hosts can reach. Packets do not pass through hosts.
fn reached(wiring: &Wiring, from: impl IntoIterator<Item = usize>) -> (Vec<bool>, Vec<bool>) {
    let mut hosts = vec![false; wiring.hosts.len()];
    let mut switches = vec![false; wiring.switches.len()];
    let mut open = Vec::new();
    for host in from {
        hosts[host] = true;
        open.extend(wiring.hosts[host]);
    }
    while let Some((End { node, .. }, _)) = open.pop() {
        match node {
            NodeRef::Host(i) => hosts[i as usize] = true,
            NodeRef::Switch(i) => {
                if !std::mem::replace(&mut switches[i as usize], true) {
                    open.extend(wiring.switches[i as usize].iter().flatten());
                }
            }
        }
    }
    (hosts, switches)
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::super::Shape;
    use super::super::dumbbell::Dumbbell;
    use super::super::parameters::{host, host_end, switch, switch_end};
    use super::*;

    fn message(change: impl FnOnce(&mut Topology)) -> String {
        let mut topology = Dumbbell::default().build().unwrap();
        change(&mut topology);
        topology.validate().map_err(|e| e.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn valid_topologies_pass() {
        assert_eq!(message(|_| ()), "");
    }

    #[test]
    fn invalid_nodes_are_reported() {
        assert_eq!(message(|t| t.hosts.clear()), "the network has no hosts; it needs at least one");
        assert_eq!(
            message(|t| t.switches[1].name = "H3".to_owned()),
            "a host and a switch are both named H3; every node needs a unique name"
        );
        assert_eq!(message(|t| t.hosts[1].name.clear()), "a host has an empty name; every node needs a name");
        assert_eq!(message(|t| t.switches[0].ports = 0), "switch S1 has 0 ports; it must have 1 to 1024");
        assert_eq!(
            message(|t| t.switches.extend((0..16_000).map(|i| switch(format!("X{i}"), 256)))),
            "the switches have 4096009 ports in total; at most 4000000 are possible"
        );
        assert_eq!(
            message(|t| t.hosts.extend((0..200_000).map(|i| host(format!("X{i}"))))),
            "the network has 200007 hosts; at most 200000 are possible"
        );
    }

    #[test]
    fn invalid_links_are_reported() {
        assert_eq!(message(|t| t.links[2].a = host_end(9)), "link 3: host 9 does not exist");
        assert_eq!(message(|t| t.links[2].b.port = 5), "link 3: S1 has no port 5; its ports are 1 to 4");
        assert_eq!(message(|t| t.links[2].a.port = 2), format!("link 3: H3 has no port 2; {HOST_PORTS}"));
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
            "link 1 (H1:1 - H2:1) connects two hosts; put a switch between them"
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
    fn unreachable_nodes_are_reported() {
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
            units: 0,
            machines: Vec::new(),
            shape: Shape::Arbitrary,
        };
        assert!(lone.validate().is_err());
    }
}
