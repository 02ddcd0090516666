//! Reads infrastructures in the format of InfraGraph, as YAML or JSON: devices with components, instances of these devices, and
//! edges between their components.
//!
//! ```text
//! devices:
//! - name: server
//!   components: [{name: gpu, count: 2, choice: xpu}, {name: nic, count: 2, choice: nic}]
//!   links: [{name: bus, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 32}}}]
//!   edges: [{ep1: {component: gpu}, ep2: {component: nic}, scheme: one2one, link: bus}]
//! ...
//! instances: [{name: host, device: server, count: 8}, ...]
//! links: [{name: cable, ...}]
//! edges: [{ep1: {instance: "host[0:4]", component: "nic[0]"}, ep2: {instance: leaf, component: port}, ...}, ...]
//! ```
//!
//! The conversion to a topology:
//! - An instance of a device with a `nic` or `xpu` (`npu`) component is a host, an instance of another device with a `port` or
//!   `switch` component is a switch, and any other instance is a host. The third instance of `host` is `host.2`.
//! - Each component of a host with an edge to a switch is a port: `host.2.nic.0`. It has one edge.
//! - The `port` components of a switch are its ports, in the order of the device. Edges of other components use further ports.
//! - The links of xpu components within a host become links between ranks: of the links with a bandwidth, those with the
//!   largest sum per xpu. A message crosses two of them, or one if they connect xpu components directly. Other edges within
//!   devices have no effect.
//! - Endpoints have slices as in Python: `nic[1]`, `nic[0:2]`, `nic[2:]`; without brackets all. Edges of the scheme `one2one`
//!   connect the endpoints of both lists in order, and a note states how many of the longer list remain. Those of the scheme
//!   `ring` connect each endpoint of both lists with the next one, and the last one with the first.
//! - A component with the choice `device` consists of the components of the device with its name, such as `card.0.port.1` of a
//!   host. Endpoints name the devices around a component (`card[0:2].port`, or the key `device`). A switch with devices within
//!   has a port for each of its edges.
//!
//! Older files have `connections` instead of edges (see [`older`]).
//!
//! If there are at least as many xpu components as ports in a host, each rank uses one port, otherwise messages are divided
//! among all ports.

mod edges;
mod inner;
mod older;
mod read;
#[cfg(test)]
mod tests;
mod units;

use std::collections::HashSet;

use silvan_engine::Rate;
use silvan_network::topology::{End, MAX_FCFS_PORTS, MAX_HOSTS, MAX_SWITCHES, NodeRef, Switch, Topology};
use silvan_network::traffic::PortUse;

use super::ibnetdiscover::Options;
use super::machines::{Cluster, ClusterLink, Side};
use super::{FilePorts, ImportError, Wiring, clip};
use crate::yaml;
use edges::{Ends, Pairs};
use read::{Device, Edge, Infrastructure, Kind, LinkKind, Place};

/// Whether a text has the keys of an infrastructure, in this or an older dialect.
#[must_use]
pub fn is_infragraph(text: &str) -> bool {
    let has = |key: &str| {
        text.match_indices(key).any(|(at, _)| {
            let is_start = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            is_start && text[at + key.len()..].trim_start_matches(['"', '\'']).starts_with(':')
        })
    };
    has("devices") && has("components") && (has("instances") || has("connections"))
}

/// Reads an infrastructure; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is neither YAML nor JSON, mixes dialects, has an unknown key or value, names a device, component, instance
/// or link that does not exist, has an index out of range, connects two hosts, uses a port twice, has a link without bandwidth
/// and there is no default rate, or exceeds the limits.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let root = yaml::parse(text, origin)?;
    let (found, mut notes) = match older::is_older(&root) {
        true => older::infrastructure(&root, origin)?,
        false => read::infrastructure(&root, origin)?,
    };
    drop(root);
    let mut builder = Builder::new(&found, origin)?;
    for edge in &found.edges {
        builder.edge(edge, options)?;
    }
    for connection in &found.connections {
        let link = &found.links[connection.link as usize];
        builder.add(connection.line, link, [connection.ends.into()].into_iter(), options)?;
    }
    if let (count, Some(first)) = &builder.uneven {
        notes.push(match count - 1 {
            0 => first.clone(),
            others => format!("{first}; {others} more edges leave endpoints without a link"),
        });
    }
    let inner = inner::links(&found.devices, &builder.hosts().collect::<Vec<_>>(), origin, &mut notes)?;
    let mut cluster = builder.cluster;
    cluster.has_inner = inner.is_some();
    let (hosts, switches) = (cluster.hosts.len(), cluster.switches.len());
    let own = if found.name.is_empty() { "infrastructure" } else { &found.name };
    let name = format!("{own}, {hosts} hosts, {switches} switches, from {origin}");
    let topology = cluster.topology(&name, origin)?;
    let used = port_use(&found, &topology, &mut notes);
    Ok(Wiring { ports: FilePorts { used, inner }, ..Wiring::new(topology, notes) })
}

/// How ranks on the xpu components of hosts use the ports; `None` for the default.
fn port_use(found: &Infrastructure, topology: &Topology, notes: &mut Vec<String>) -> Option<PortUse> {
    let mut machines = topology.machines.iter();
    let mut used = None;
    for instance in &found.instances {
        let device = &found.devices[instance.device];
        if device.is_switch() {
            continue;
        }
        let ranks = device.count(Kind::Xpu) as usize;
        for machine in machines.by_ref().take(instance.count as usize).filter(|_| ranks > 0) {
            if ranks < machine.ports.len() {
                notes.push(format!(
                    "{} has {ranks} xpu components and {} ports, so the messages of jobs are divided among all ports of a host \
                     (ports.use = \"stripe\")",
                    machine.name,
                    machine.ports.len()
                ));
                return Some(PortUse::Stripe);
            }
            used = Some(PortUse::Rank);
        }
    }
    used
}

/// A topology in the course of building.
struct Builder<'f> {
    found: &'f Infrastructure,
    origin: &'f str,
    /// The number of the first host or switch of each instance.
    first: Vec<u32>,
    cluster: Cluster,
    /// Ports that have an edge: node, component and index.
    taken: HashSet<(NodeRef, u32, u32)>,
    /// Number of edges that leave endpoints without a link, and a note about the first one.
    uneven: (usize, Option<String>),
}

impl<'f> Builder<'f> {
    fn new(found: &'f Infrastructure, origin: &'f str) -> Result<Self, ImportError> {
        let (mut hosts, mut switches) = (0u64, 0u64);
        for instance in &found.instances {
            let count = match found.devices[instance.device].is_switch() {
                true => &mut switches,
                false => &mut hosts,
            };
            *count += u64::from(instance.count);
            if hosts > MAX_HOSTS || switches > MAX_SWITCHES {
                let what = format!(
                    "{hosts} hosts and {switches} switches; at most {MAX_HOSTS} and {MAX_SWITCHES} are possible"
                );
                return Err(ImportError::at(origin, instance.line, what));
            }
        }
        let (mut cluster, mut first) = (Cluster::default(), Vec::new());
        for instance in &found.instances {
            let device = &found.devices[instance.device];
            let names = (0..instance.count).map(|index| format!("{}.{index}", instance.name));
            if device.is_switch() {
                let ports = if device.is_nested { 0 } else { device.count(Kind::Port) };
                if ports > u64::from(MAX_FCFS_PORTS) {
                    let what = format!(
                        "device {} has {ports} ports; a switch may have up to {MAX_FCFS_PORTS}",
                        clip(&device.name)
                    );
                    return Err(ImportError::at(origin, device.line, what));
                }
                first.push(cluster.switches.len() as u32);
                let switch = |name| Switch { name, ports: ports as u16, lid: None, lmc: 0, guid: None };
                cluster.switches.extend(names.map(switch));
            } else {
                first.push(cluster.hosts.len() as u32);
                cluster.hosts.extend(names);
            }
        }
        Ok(Self { found, origin, first, cluster, taken: HashSet::new(), uneven: (0, None) })
    }

    /// The devices that are hosts.
    fn hosts(&self) -> impl Iterator<Item = &'f Device> + use<'f> {
        let (instances, devices) = (&self.found.instances, &self.found.devices);
        instances.iter().map(move |instance| &devices[instance.device]).filter(|device| !device.is_switch())
    }

    /// Adds the links of an edge.
    fn edge(&mut self, edge: &Edge, options: Options) -> Result<(), ImportError> {
        let found = self.found;
        let wrong = |what: String| ImportError::at(self.origin, edge.line, what);
        let link = found.links.iter().find(|link| link.name == edge.link);
        let link = link.ok_or_else(|| wrong(format!("there is no link {}", clip(&edge.link))))?;
        let ends = |side: usize| Ends::of_network(found, &edge.ends[side]).map_err(wrong);
        let (from, to) = (ends(0)?, ends(1)?);
        let pairs = Pairs::new(&from, &to, edge.scheme, self.cluster.links.len() as u64).map_err(wrong)?;
        if let Some(note) = pairs.unused(&edge.ends) {
            self.uneven.0 += 1;
            self.uneven.1.get_or_insert_with(|| format!("line {}: {note}", edge.line));
        }
        self.add(edge.line, link, pairs, options)
    }

    /// Adds the links between pairs of endpoints.
    fn add(
        &mut self,
        line: usize,
        link: &LinkKind,
        pairs: impl Iterator<Item = (Place, Place)>,
        options: Options,
    ) -> Result<(), ImportError> {
        let wrong = |what: String| ImportError::at(self.origin, line, what);
        let rate: Option<Rate> = link.rate.or(options.default_rate);
        let rate = rate.ok_or_else(|| {
            let key = match self.found.connections.is_empty() {
                true => "physical.bandwidth",
                false => "bandwidth",
            };
            wrong(format!(
                "link {} has no bandwidth; add {key} to it, or set a default rate",
                clip(&link.name)
            ))
        })?;
        let delay = link.latency.unwrap_or(options.link_delay);
        for (one, other) in pairs {
            let one = self.side(one).map_err(|what| ImportError::at(self.origin, line, what))?;
            let other = self.side(other).map_err(|what| ImportError::at(self.origin, line, what))?;
            if matches!((&one, &other), (Side::Port { .. }, Side::Port { .. })) {
                let what = "connects two hosts; a link has a switch at one end".to_owned();
                return Err(ImportError::at(self.origin, line, what));
            }
            self.cluster.links.push(ClusterLink { sides: [one, other], rate, delay });
        }
        Ok(())
    }

    /// The port at a component of an instance.
    fn side(&mut self, (instance, number, component, index): Place) -> Result<Side, String> {
        let of = &self.found.instances[instance as usize];
        let device = &self.found.devices[of.device];
        let node = self.first[instance as usize] + number;
        let own = &device.components[component as usize];
        let is_switch = device.is_switch();
        if is_switch && own.kind != Kind::Port {
            return self.cluster.next_port(node);
        }
        let node_ref = if is_switch { NodeRef::Switch(node) } else { NodeRef::Host(node) };
        let name = format!("{}.{number}.{}", of.name, own.label(index));
        if !self.taken.insert((node_ref, component, index)) {
            return Err(format!("{} has a second edge; a port has one link", clip(&name)));
        }
        if is_switch && device.is_nested {
            return self.cluster.next_port(node);
        }
        let before = &device.components[..component as usize];
        if is_switch {
            let ports = before.iter().filter(|component| component.kind == Kind::Port);
            let port = ports.map(|component| component.count).sum::<u32>() + index + 1;
            return Ok(Side::Switch(End { node: node_ref, port: port as u16 }));
        }
        let place = before.iter().map(|component| component.count).sum::<u32>() + index;
        Ok(Side::Port { host: node, place, name: Some(name) })
    }
}
