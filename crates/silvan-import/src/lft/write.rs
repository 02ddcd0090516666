//! Writes tables as a dump that OpenSM loads.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;

use silvan_network::routing::Tables;
use silvan_network::topology::{NodeRef, Topology, TopologyError, Wiring};

use super::SwitchRoutes;
use crate::identity::Identities;
use crate::lids::Lids;

/// Hop count that OpenSM writes if there is no path.
const NO_HOPS: usize = 255;

/// Writes tables in the format of `opensm-lfts.dump`, for `opensm -R file -U FILE` and [`super::parse`]. If
/// the tables, the routes to switches and the LIDs were read from such a dump, the result is the same dump.
///
/// A dump contains routes to hosts and to switches, but tables contain only routes to hosts. Routes to
/// switches are taken from `switch_routes` if given. Otherwise, a switch is reached on the route to its
/// first host, which adds no dependency between links; a switch without hosts is reached on a shortest
/// path. Missing LIDs and GUIDs are assigned as in [`Identities::of`].
///
/// # Errors
/// If a link is unidirectional, a switch has more ports than InfiniBand permits, or the fabric needs more LIDs than there are.
pub fn write(
    topology: &Topology,
    tables: &Tables,
    switch_routes: Option<&SwitchRoutes>,
) -> Result<String, TopologyError> {
    let all = Entries::of(topology, tables, switch_routes)?;
    let top = all.destinations.last().map_or(0, |d| d.lid);
    let mut out = String::new();
    for switch in all.order() {
        let (lid, guid, name) =
            (all.ids.switch_lids[switch], all.ids.switch_guids[switch], &topology.switches[switch].name);
        let _ = writeln!(out, "Unicast lids [0-{top}] of switch Lid {lid} guid 0x{guid:016x} ('{name}'):");
        for to in &all.destinations {
            if let Some(port) = all.port(switch, to) {
                let _ = writeln!(out, "0x{:04x} {port:03} # {}", to.lid, to.comment);
            }
        }
        let _ = writeln!(out, "{top} lids dumped");
    }
    Ok(out)
}

/// Writes tables in the format of `opensm.fdbs`, which `ibdmchk -f` reads together with the list of links
/// of [`crate::lst::write`]. The routes to switches are those of [`write`].
///
/// # Errors
/// Same as [`write`].
pub fn write_fdbs(
    topology: &Topology,
    tables: &Tables,
    switch_routes: Option<&SwitchRoutes>,
) -> Result<String, TopologyError> {
    let all = Entries::of(topology, tables, switch_routes)?;
    let wiring = topology.wiring();
    let mut out = String::new();
    for switch in all.order() {
        let guid = all.ids.switch_guids[switch];
        let _ = writeln!(out, "dump_ucast_routes: Switch 0x{guid:016x}\nLID    : Port : Hops : Optimal");
        for to in &all.destinations {
            // Also write entries along which packets do not arrive, so that `ibdmchk` finds these errors.
            let hops = || all.hops(&wiring, switch, to).unwrap_or(NO_HOPS);
            let _ = match all.port(switch, to).map(|port| (port, hops())) {
                Some((port, hops)) => writeln!(out, "0x{:04x} : {port:03}  : {hops:02}   : yes", to.lid),
                None => writeln!(out, "0x{:04x} : UNREACHABLE", to.lid),
            };
        }
        out.push('\n');
    }
    Ok(out)
}

/// The entries of all tables, both to hosts and to switches.
struct Entries<'a> {
    tables: &'a Tables,
    switch_routes: Cow<'a, SwitchRoutes>,
    ids: Identities,
    destinations: Vec<Destination>,
}

impl<'a> Entries<'a> {
    fn of(
        topology: &Topology,
        tables: &'a Tables,
        switch_routes: Option<&'a SwitchRoutes>,
    ) -> Result<Self, TopologyError> {
        let ids = Identities::of(topology)?;
        let switch_routes = match switch_routes {
            Some(routes) => Cow::Borrowed(routes),
            None => Cow::Owned(routes_to_switches(topology, tables)),
        };
        let destinations = destinations(topology, &ids);
        Ok(Self { tables, switch_routes, ids, destinations })
    }

    /// OpenSM sorts its switches by GUID in network byte order, so on little-endian machines the last byte
    /// is the most significant one. Using the same order makes dumps comparable line by line.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.ids.switch_guids.len()).collect();
        order.sort_by_key(|&switch| self.ids.switch_guids[switch].swap_bytes());
        order
    }

    /// The port of a switch towards a destination; 0 if the switch is the destination.
    fn port(&self, switch: usize, to: &Destination) -> Option<u16> {
        let port = match to.node {
            NodeRef::Host(host) => {
                self.tables.port_by(to.path_bits % self.tables.lids(), switch, host as usize)
            }
            NodeRef::Switch(target) if target as usize == switch => return Some(0),
            NodeRef::Switch(target) => {
                let row = self.switch_routes.out.get(switch);
                row.and_then(|row| row.get(target as usize)).copied().unwrap_or(Tables::NO_ROUTE)
            }
        };
        (port != Tables::NO_ROUTE).then_some(port)
    }

    /// Number of links from a switch to a destination; `None` if packets do not arrive.
    fn hops(&self, wiring: &Wiring, switch: usize, to: &Destination) -> Option<usize> {
        let mut at = NodeRef::Switch(switch as u32);
        for hops in 0..=wiring.switches.len() {
            let here = match at {
                _ if at == to.node => return Some(hops),
                NodeRef::Host(_) => return None,
                NodeRef::Switch(here) => here as usize,
            };
            let port = self.port(here, to)?;
            at = wiring.switches[here].get(usize::from(port) - 1).copied().flatten()?.0.node;
        }
        None
    }
}

struct Destination {
    lid: u16,
    path_bits: usize,
    node: NodeRef,
    comment: String,
}

/// All LIDs of all nodes, in order. The routes to all LIDs of a switch are the same.
fn destinations(topology: &Topology, ids: &Identities) -> Vec<Destination> {
    let hosts = (0u32..).zip(&topology.hosts).map(|(i, host)| {
        let guid = ids.host_guids[i as usize];
        let comment = format!("Channel Adapter portguid 0x{guid:016x}: '{}'", host.name);
        (NodeRef::Host(i), Lids { base: ids.host_lids[i as usize], lmc: host.lmc }, comment)
    });
    let switches = (0u32..).zip(&topology.switches).map(|(i, switch)| {
        let guid = ids.switch_guids[i as usize];
        let comment = format!("Switch portguid 0x{guid:016x}: '{}'", switch.name);
        (NodeRef::Switch(i), Lids { base: ids.switch_lids[i as usize], lmc: switch.lmc }, comment)
    });
    let each = |(node, lids, comment): (NodeRef, Lids, String)| {
        let destination =
            move |(path_bits, lid)| Destination { lid, path_bits, node, comment: comment.clone() };
        (0..).zip(lids.all()).map(destination)
    };
    let mut all: Vec<Destination> = hosts.chain(switches).flat_map(each).collect();
    all.sort_by_key(|d| d.lid);
    all
}

fn routes_to_switches(topology: &Topology, tables: &Tables) -> SwitchRoutes {
    let wiring = topology.wiring();
    let mut out = vec![vec![Tables::NO_ROUTE; topology.switches.len()]; topology.switches.len()];
    for target in 0..topology.switches.len() {
        let host = wiring.switches[target].iter().flatten().find_map(|(far, _)| match far.node {
            NodeRef::Host(host) => Some(host as usize),
            NodeRef::Switch(_) => None,
        });
        let shortest = if host.is_none() { ports_towards(&wiring, target) } else { Vec::new() };
        for (switch, row) in out.iter_mut().enumerate() {
            if switch != target {
                row[target] = match host {
                    Some(host) => {
                        tables.out.get(switch).and_then(|r| r.get(host)).copied().unwrap_or(Tables::NO_ROUTE)
                    }
                    None => shortest[switch],
                };
            }
        }
    }
    SwitchRoutes { out }
}

/// For each switch, the lowest port that starts a shortest path to `target`.
fn ports_towards(wiring: &Wiring, target: usize) -> Vec<u16> {
    let mut hops = vec![usize::MAX; wiring.switches.len()];
    let neighbors = |switch: usize| {
        (1u16..).zip(&wiring.switches[switch]).filter_map(|(port, far)| match far {
            Some((end, _)) => match end.node {
                NodeRef::Switch(next) => Some((port, next as usize)),
                NodeRef::Host(_) => None,
            },
            None => None,
        })
    };
    hops[target] = 0;
    let mut queue = VecDeque::from([target]);
    while let Some(switch) = queue.pop_front() {
        for (_, next) in neighbors(switch) {
            if hops[next] == usize::MAX {
                hops[next] = hops[switch] + 1;
                queue.push_back(next);
            }
        }
    }
    let port_of = |switch: usize| {
        let closer =
            neighbors(switch).find(|&(_, next)| hops[next] != usize::MAX && hops[next] + 1 == hops[switch]);
        closer.map_or(Tables::NO_ROUTE, |(port, _)| port)
    };
    (0..wiring.switches.len()).map(port_of).collect()
}
