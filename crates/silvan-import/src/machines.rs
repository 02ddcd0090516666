//! Builds a topology whose hosts have any number of ports.

use std::collections::HashMap;

use silvan_engine::{Rate, Time};
use silvan_network::topology::{
    End, Host, Link, MAX_FCFS_PORTS, MAX_HOST_PORTS, MAX_SWITCH_PORTS, Machine, NodeRef, Shape, Switch,
    Topology,
};

use super::{ImportError, clip};

/// One end of a link.
pub(super) enum Side {
    /// A port of a host.
    Port {
        /// The host.
        host: u32,
        /// Orders the ports of a host; ports with equal values are in the order of their links.
        place: u32,
        /// The name of the port. By default, ports are numbered.
        name: Option<String>,
    },
    /// A port of a switch.
    Switch(End),
}

/// A link of hosts and switches.
pub(super) struct ClusterLink {
    pub sides: [Side; 2],
    pub rate: Rate,
    pub delay: Time,
}

/// Hosts with their ports, switches, and links between them.
#[derive(Default)]
pub(super) struct Cluster {
    /// The names of the hosts.
    pub hosts: Vec<String>,
    pub switches: Vec<Switch>,
    pub links: Vec<ClusterLink>,
    /// Whether hosts have links within, so that hosts of one port are machines, too.
    pub has_inner: bool,
}

impl Cluster {
    /// Adds a switch without ports.
    pub fn add_switch(&mut self, name: String) {
        self.switches.push(Switch { name, ports: 0, lid: None, lmc: 0, guid: None });
    }

    /// The next free port of a switch.
    pub fn next_port(&mut self, switch: u32) -> Result<Side, String> {
        let own = &mut self.switches[switch as usize];
        own.ports += 1;
        match own.ports > MAX_FCFS_PORTS {
            true => Err(format!(
                "switch {} has more than {MAX_FCFS_PORTS} links; a switch may have up to {MAX_SWITCH_PORTS}, or up to \
                 {MAX_FCFS_PORTS} with switch.arbitration = \"fcfs\"",
                own.name
            )),
            false => Ok(Side::Switch(End { node: NodeRef::Switch(switch), port: own.ports })),
        }
    }

    /// The ports of each host, as places in the list of all ports, and those ports: index of the link, and which end.
    fn ports(&self) -> (Vec<Vec<u32>>, Vec<(usize, usize)>) {
        let mut all: Vec<(u32, u32, usize, usize)> = Vec::new();
        for (link, ClusterLink { sides, .. }) in self.links.iter().enumerate() {
            for (end, side) in sides.iter().enumerate() {
                if let Side::Port { host, place, .. } = *side {
                    all.push((host, place, link, end));
                }
            }
        }
        all.sort_unstable();
        let mut of_host = vec![Vec::new(); self.hosts.len()];
        for (at, (host, ..)) in (0..).zip(&all) {
            of_host[*host as usize].push(at);
        }
        (of_host, all.into_iter().map(|(_, _, link, end)| (link, end)).collect())
    }

    /// The topology. Each host needs a link.
    pub fn topology(self, name: &str, origin: &str) -> Result<Topology, ImportError> {
        let wrong = |what: String| Err(ImportError::new(origin, what));
        let (of_host, ports) = self.ports();
        if let Some(host) = of_host.iter().position(Vec::is_empty) {
            return wrong(format!("host {} has no link", self.hosts[host]));
        }
        let most = usize::from(MAX_HOST_PORTS);
        if let Some(host) = of_host.iter().position(|ports| ports.len() > most) {
            let (name, ports) = (&self.hosts[host], of_host[host].len());
            return wrong(format!("host {name} has {ports} ports; it may have up to {most}"));
        }
        let mut hosts = Vec::with_capacity(ports.len());
        for (host, own) in self.hosts.iter().zip(&of_host) {
            for (number, &port) in (1..).zip(own) {
                let (link, end) = ports[port as usize];
                let named = match &self.links[link].sides[end] {
                    _ if own.len() == 1 => Some(host),
                    Side::Port { name, .. } => name.as_ref(),
                    Side::Switch(_) => None,
                };
                let name = named.cloned().unwrap_or_else(|| format!("{host}.{number}"));
                hosts.push(Host { name, lid: None, lmc: 0, guid: None });
            }
        }
        let names =
            hosts.iter().map(|host| &host.name).chain(self.switches.iter().map(|switch| &switch.name));
        if let Some(name) = names.into_iter().find(|name| name.contains(char::is_control)) {
            return wrong(format!("the name {} contains a control character; write plain text", clip(name)));
        }
        let number: HashMap<(usize, usize), u32> = ports.iter().copied().zip(0..).collect();
        let end = |link: usize, side: usize, of: &Side| match of {
            Side::Switch(end) => *end,
            Side::Port { .. } => End { node: NodeRef::Host(number[&(link, side)]), port: 1 },
        };
        let links = self.links.iter().enumerate().map(|(at, link)| Link {
            a: end(at, 0, &link.sides[0]),
            b: end(at, 1, &link.sides[1]),
            rate: link.rate,
            delay: link.delay,
            one_way: false,
        });
        let links = links.collect();
        let is_plain = !self.has_inner && hosts.len() == self.hosts.len();
        let machines = self.hosts.into_iter().zip(of_host).map(|(name, ports)| Machine { name, ports });
        let topology = Topology {
            name: name.to_owned(),
            hosts,
            switches: self.switches,
            links,
            units: 0,
            machines: if is_plain { Vec::new() } else { machines.collect() },
            shape: Shape::Arbitrary,
        };
        topology.validate().map_err(|error| ImportError::new(origin, error.to_string()))?;
        Ok(topology)
    }
}
