//! Writes a topology as a netlist.

use std::fmt::Write;

use silvan_network::topology::{End, NodeRef, Topology, TopologyError};

use crate::MAX_PORTS;
use crate::identity::Identities;
use crate::speed;

/// Writes a topology in the format of `ibnetdiscover`, which `ibsim` reads as a netlist and
/// [`super::parse`] reads back.
///
/// Missing LIDs and GUIDs are assigned as in [`Identities::of`] and [`Identities::adapters`]. Each host becomes
/// an adapter with one port, unless several hosts are ports of an adapter that was read; [`write_with`] writes known
/// node GUIDs. A rate that no InfiniBand link has is omitted, so reading the file back requires a default rate.
///
/// # Errors
/// If a switch has more ports, or the fabric needs more LIDs, than InfiniBand has, or if a link is
/// unidirectional.
pub fn write(topology: &Topology) -> Result<String, TopologyError> {
    write_with(topology, &[])
}

/// Same as [`write`], with known node GUIDs of the adapters, by host. If several hosts are ports of one
/// adapter, the first one has its GUID.
///
/// # Errors
/// Same as [`write`].
pub fn write_with(topology: &Topology, node_guids: &[Option<u64>]) -> Result<String, TopologyError> {
    let ids = Identities::of(topology)?;
    let adapters = adapters(topology);
    let mut port_of = vec![(0, 1); topology.hosts.len()];
    for adapter in &adapters {
        for &(host, number) in &adapter.ports {
            port_of[host as usize] = (adapter.ports[0].0, number);
        }
    }
    let writer = Writer { topology, host_nodes: ids.adapters(node_guids), ids, adapters, port_of };
    let wiring = topology.wiring();
    let mut out = format!("# {} hosts, {} switches\n", topology.hosts.len(), topology.switches.len());
    for (index, (switch, ports)) in (0u32..).zip(topology.switches.iter().zip(&wiring.switches)) {
        let (guid, lid) = (writer.ids.switch_guids[index as usize], writer.ids.switch_lids[index as usize]);
        let lmc = switch.lmc;
        line(&mut out, format_args!(""));
        line(&mut out, format_args!("switchguid=0x{guid:x}({guid:x})"));
        let node = writer.node(NodeRef::Switch(index));
        line(
            &mut out,
            format_args!(
                "Switch\t{} {node}\t\t# \"{}\" base port 0 lid {lid} lmc {lmc}",
                switch.ports, switch.name
            ),
        );
        for (number, port) in (1..).zip(ports) {
            let Some((far, link)) = port else { continue };
            let rate = writer.rate(*link);
            let (end, name) = (writer.end(*far), topology.name_of(far.node));
            line(
                &mut out,
                format_args!("[{number}]\t{end}\t\t# \"{name}\" lid {}{rate}", writer.lid(far.node)),
            );
        }
    }
    for adapter in &writer.adapters {
        let guid = writer.host_nodes[adapter.ports[0].0 as usize];
        line(&mut out, format_args!(""));
        line(&mut out, format_args!("caguid=0x{guid:x}"));
        let node = writer.node(NodeRef::Host(adapter.ports[0].0));
        let count = adapter.ports.iter().map(|&(_, number)| number).max().unwrap_or(1);
        line(&mut out, format_args!("Ca\t{count} {node}\t\t# \"{}\"", adapter.name));
        for &(host, number) in &adapter.ports {
            let index = host as usize;
            let Some((far, link)) = wiring.hosts[index] else { continue };
            let (port_guid, lid) = (writer.ids.host_guids[index], writer.ids.host_lids[index]);
            let (end, name, rate) = (writer.end(far), topology.name_of(far.node), writer.rate(link));
            let (lmc, far_lid) = (topology.hosts[index].lmc, writer.lid(far.node));
            line(
                &mut out,
                format_args!(
                    "[{number}]({port_guid:x}) \t{end}\t\t# lid {lid} lmc {lmc} \"{name}\" lid {far_lid}{rate}"
                ),
            );
        }
    }
    Ok(out)
}

/// Appends a line; writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments) {
    let _ = writeln!(out, "{text}");
}

/// An adapter, and its ports: hosts with the numbers of the ports.
struct Adapter<'a> {
    name: &'a str,
    ports: Vec<(u32, u16)>,
}

/// The adapters of a topology. Machines whose ports are named `name/1`, `name/2` and so on are adapters of several ports; other
/// hosts have an adapter each.
fn adapters(topology: &Topology) -> Vec<Adapter<'_>> {
    let mut adapters = Vec::with_capacity(topology.hosts.len());
    let mut is_listed = vec![false; topology.hosts.len()];
    for machine in &topology.machines {
        let number = |&port: &u32| -> Option<(u32, u16)> {
            let name = topology.hosts.get(port as usize)?.name.strip_prefix(&machine.name)?;
            let number = name.strip_prefix('/')?.parse().ok()?;
            (1..=MAX_PORTS).contains(&number).then_some((port, number))
        };
        let Some(ports) = machine.ports.iter().map(number).collect::<Option<Vec<_>>>() else { continue };
        ports.iter().for_each(|&(port, _)| is_listed[port as usize] = true);
        if !ports.is_empty() {
            adapters.push(Adapter { name: &machine.name, ports });
        }
    }
    for (host, node) in (0..).zip(&topology.hosts).filter(|(host, _)| !is_listed[*host as usize]) {
        adapters.push(Adapter { name: &node.name, ports: vec![(host, 1)] });
    }
    adapters.sort_by_key(|adapter| adapter.ports[0].0);
    adapters
}

struct Writer<'a> {
    topology: &'a Topology,
    ids: Identities,
    host_nodes: Vec<u64>,
    adapters: Vec<Adapter<'a>>,
    /// For each host, the first host of its adapter, and the number of its port.
    port_of: Vec<(u32, u16)>,
}

impl Writer<'_> {
    fn node(&self, node: NodeRef) -> String {
        match node {
            NodeRef::Host(i) => {
                format!("\"H-{:016x}\"", self.host_nodes[self.port_of[i as usize].0 as usize])
            }
            NodeRef::Switch(i) => format!("\"S-{:016x}\"", self.ids.switch_guids[i as usize]),
        }
    }

    fn end(&self, end: End) -> String {
        let node = self.node(end.node);
        match end.node {
            NodeRef::Host(i) => {
                format!("{node}[{}]({:x}) ", self.port_of[i as usize].1, self.ids.host_guids[i as usize])
            }
            NodeRef::Switch(_) => format!("{node}[{}]", end.port),
        }
    }

    fn lid(&self, node: NodeRef) -> u16 {
        match node {
            NodeRef::Host(i) => self.ids.host_lids[i as usize],
            NodeRef::Switch(i) => self.ids.switch_lids[i as usize],
        }
    }

    fn rate(&self, link: usize) -> String {
        self.topology
            .links
            .get(link)
            .and_then(|l| speed::name(l.rate))
            .map_or(String::new(), |name| format!(" {name}"))
    }
}
