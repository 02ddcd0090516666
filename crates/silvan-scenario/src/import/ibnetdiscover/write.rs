//! Writes a topology as a netlist.

use std::fmt::Write;

use silvan_network::topology::{End, NodeRef, Topology, TopologyError};

use crate::import::identity::Identities;
use crate::import::speed;

/// Writes a topology in the format of `ibnetdiscover`, which `ibsim` reads as a netlist and
/// [`super::parse`] reads back.
///
/// Missing LIDs and GUIDs are assigned as in [`Identities::of`] and [`Identities::adapters`]. Each host becomes
/// an adapter with one port; [`write_with`] writes known node GUIDs. A rate that no InfiniBand link has is
/// omitted, so reading the file back requires a default rate.
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
    let writer = Writer { topology, host_nodes: ids.adapters(node_guids), ids };
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
    for (index, (host, port)) in (0u32..).zip(topology.hosts.iter().zip(&wiring.hosts)) {
        let guid = writer.host_nodes[index as usize];
        line(&mut out, format_args!(""));
        line(&mut out, format_args!("caguid=0x{guid:x}"));
        let node = writer.node(NodeRef::Host(index));
        line(&mut out, format_args!("Ca\t1 {node}\t\t# \"{}\"", host.name));
        let Some((far, link)) = port else { continue };
        let (port_guid, lid) = (writer.ids.host_guids[index as usize], writer.ids.host_lids[index as usize]);
        let (end, name, rate) = (writer.end(*far), topology.name_of(far.node), writer.rate(*link));
        line(
            &mut out,
            format_args!(
                "[1]({port_guid:x}) \t{end}\t\t# lid {lid} lmc {} \"{name}\" lid {}{rate}",
                host.lmc,
                writer.lid(far.node)
            ),
        );
    }
    Ok(out)
}

/// Appends a line; writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments) {
    let _ = writeln!(out, "{text}");
}

struct Writer<'a> {
    topology: &'a Topology,
    ids: Identities,
    host_nodes: Vec<u64>,
}

impl Writer<'_> {
    fn node(&self, node: NodeRef) -> String {
        match node {
            NodeRef::Host(i) => format!("\"H-{:016x}\"", self.host_nodes[i as usize]),
            NodeRef::Switch(i) => format!("\"S-{:016x}\"", self.ids.switch_guids[i as usize]),
        }
    }

    fn end(&self, end: End) -> String {
        let node = self.node(end.node);
        match end.node {
            NodeRef::Host(i) => format!("{node}[1]({:x}) ", self.ids.host_guids[i as usize]),
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
