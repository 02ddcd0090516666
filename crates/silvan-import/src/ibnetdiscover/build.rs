//! Builds a topology from records: matches link ends, makes names unique, numbers the nodes.

use std::collections::{HashMap, HashSet};

use silvan_engine::Rate;
use silvan_network::topology::{End, Host, Link, Machine, NodeRef, Shape, Switch, Topology};

use super::Options;
use super::read::{Id, Node, Port};
use crate::lids::Lids;
use crate::notes::{Notes, What};
use crate::{ImportError, natural};

/// A port: index of the node in the file, and port number.
type Place = (usize, u16);

/// A node that becomes a host or a switch.
struct Named<'a> {
    name: String,
    /// The name of the node, which several hosts share if they are ports of one adapter.
    of: String,
    node: &'a Node<'a>,
    /// The port that becomes the host; `None` for a switch.
    port: Option<&'a Port<'a>>,
    guid: Option<u64>,
    place: Place,
}

/// A topology, and facts about its nodes that it does not contain.
pub(crate) struct Built {
    pub(crate) topology: Topology,
    /// GUID of the adapter of each host.
    pub(crate) node_guids: Vec<Option<u64>>,
}

/// Builds the topology; see the documentation of the parent module.
pub(crate) fn topology(
    nodes: &[Node],
    origin: &str,
    options: Options,
    notes: &Notes,
) -> Result<Built, ImportError> {
    if nodes.is_empty() {
        return Err(ImportError::new(
            origin,
            "there is no node; expected the output of `ibnetdiscover` or an ibsim netlist",
        ));
    }
    let by_id = index_nodes(nodes, origin)?;
    let ports = index_ports(nodes, origin)?;
    let (links, loops) = links(nodes, &by_id, &ports, origin, options, notes)?;
    let (hosts, switches) = named(nodes, &by_id, &ports, &loops, origin)?;
    if hosts.is_empty() && switches.is_empty() {
        let message = "no adapter has a link, and there is no switch; the file must describe a network";
        return Err(ImportError::new(origin, message));
    }
    check_addresses(&hosts, &switches, origin)?;
    let node_guids = hosts.iter().map(|host| host.node.guid).collect();
    Ok(Built { topology: assemble(&hosts, &switches, &links, origin, options), node_guids })
}

fn index_nodes<'a>(nodes: &'a [Node<'a>], origin: &str) -> Result<HashMap<Id<'a>, usize>, ImportError> {
    let mut by_id = HashMap::with_capacity(nodes.len());
    let mut by_guid = HashMap::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let twice = by_id.insert(node.id, index).or_else(|| by_guid.insert(node.guid?, index));
        if let Some(first) = twice {
            let message = format!(
                "node \"{}\" ({}) is already described in line {}; each node and GUID must appear once",
                node.id_text, node.description, nodes[first].line
            );
            return Err(ImportError::at(origin, node.line, message));
        }
    }
    Ok(by_id)
}

fn index_ports<'a>(nodes: &'a [Node<'a>], origin: &str) -> Result<HashMap<Place, &'a Port<'a>>, ImportError> {
    let mut ports = HashMap::with_capacity(nodes.iter().map(|n| n.links.len()).sum());
    for (index, node) in nodes.iter().enumerate() {
        for port in &node.links {
            if let Some(first) = ports.insert((index, port.number), port) {
                let message = format!(
                    "port {} of \"{}\" is already used in line {}; a port has one link",
                    port.number, node.description, first.line
                );
                return Err(ImportError::at(origin, port.line, message));
            }
        }
    }
    Ok(ports)
}

/// Links with their rates, and the ports of cables from a node to itself.
type Links = (Vec<(Place, Place, Rate)>, HashSet<Place>);

/// Matches the two descriptions of every link. Cables from a node to itself are omitted.
fn links(
    nodes: &[Node],
    by_id: &HashMap<Id, usize>,
    ports: &HashMap<Place, &Port>,
    origin: &str,
    options: Options,
    notes: &Notes,
) -> Result<Links, ImportError> {
    let mut loops = HashSet::new();
    let mut links = Vec::with_capacity(ports.len() / 2);
    for (index, node) in nodes.iter().enumerate() {
        for port in &node.links {
            let (far, back) = far_end(nodes, by_id, ports, origin, index, port)?;
            if far < (index, port.number) {
                continue;
            }
            if far.0 == index {
                notes.add(What::Loopback, port.line);
                loops.extend([far, (index, port.number)]);
                continue;
            }
            let here = format!("the link from \"{}\" port {}", node.description, port.number);
            let rate = match (port.rate, back.rate) {
                (Some(a), Some(b)) if a != b => {
                    notes.add(What::Rates, port.line);
                    Some(a.min(b))
                }
                (stated, back_stated) => stated.or(back_stated).or(options.default_rate),
            };
            let rate = rate.ok_or_else(|| {
                let message =
                    format!("{here} states no width and speed such as 4xQDR; add it, or set a default rate");
                ImportError::at(origin, port.line, message)
            })?;
            links.push(((index, port.number), far, rate));
        }
    }
    Ok((links, loops))
}

/// The far end of a port line, and the attributes of the link according to that end.
fn far_end<'a>(
    nodes: &[Node],
    by_id: &HashMap<Id, usize>,
    ports: &HashMap<Place, &'a Port<'a>>,
    origin: &str,
    index: usize,
    port: &Port,
) -> Result<(Place, &'a Port<'a>), ImportError> {
    let node = &nodes[index];
    let fail = |message: String| Err(ImportError::at(origin, port.line, message));
    let Some(&peer) = by_id.get(&port.peer) else {
        return fail(format!(
            "port {} of \"{}\" leads to \"{}\", which is not described; the file must describe both ends of a link",
            port.number, node.description, port.peer_text
        ));
    };
    let far = &nodes[peer];
    let link = format!(
        "port {} of \"{}\" leads to port {} of \"{}\"",
        port.number, node.description, port.peer_port, far.description
    );
    if port.peer_port > far.ports {
        return fail(format!("{link}, which has ports 1 to {} (line {})", far.ports, far.line));
    }
    let Some(&back) = ports.get(&(peer, port.peer_port)) else {
        return fail(format!(
            "{link}, which has no link in the file; each link must be described from both ends"
        ));
    };
    if back.peer_port != port.number || by_id.get(&back.peer) != Some(&index) {
        return fail(format!(
            "{link}, but according to line {} that port leads to port {} of \"{}\"; both ends must agree",
            back.line, back.peer_port, back.peer_text
        ));
    }
    if let (Some(seen), Some(own)) = (port.peer_guid, back.guid)
        && seen != own
    {
        return fail(format!(
            "{link} with GUID 0x{seen:016x}, but line {} says 0x{own:016x}; both must agree",
            back.line
        ));
    }
    Ok(((peer, port.peer_port), back))
}

/// Hosts and switches with unique names, each list in natural order of the names.
fn named<'a>(
    nodes: &'a [Node<'a>],
    by_id: &HashMap<Id, usize>,
    ports: &HashMap<Place, &'a Port<'a>>,
    loops: &HashSet<Place>,
    origin: &str,
) -> Result<(Vec<Named<'a>>, Vec<Named<'a>>), ImportError> {
    let mut uses: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    for node in nodes {
        *uses.entry(node.description).or_default() += 1;
    }
    let (mut hosts, mut switches) = (Vec::new(), Vec::new());
    for (index, node) in nodes.iter().enumerate() {
        let name = match node.guid {
            _ if uses.get(node.description) == Some(&1) => node.description.to_owned(),
            Some(guid) => format!("{} 0x{guid:016x}", node.description),
            None => format!("{} {}", node.description, node.id_text),
        };
        if node.is_switch {
            let (of, guid) = (name.clone(), node.guid);
            switches.push(Named { name, of, node, port: None, guid, place: (index, 0) });
            continue;
        }
        let used = || node.links.iter().filter(|port| !loops.contains(&(index, port.number)));
        let count = used().count();
        for port in used() {
            let of = name.clone();
            let name = if count > 1 { format!("{name}/{}", port.number) } else { name.clone() };
            let seen = by_id.get(&port.peer).and_then(|&peer| ports.get(&(peer, port.peer_port))?.peer_guid);
            // The GUID of an adapter's port is derived from the adapter's GUID. ibsim relies on this.
            let guessed = node.guid.and_then(|guid| guid.checked_add(u64::from(port.number)));
            let guid = port.guid.or(seen).or(guessed);
            hosts.push(Named { name, of, node, port: Some(port), guid, place: (index, port.number) });
        }
    }
    for list in [&mut hosts, &mut switches] {
        list.sort_by(|a, b| natural::compare(&a.name, &b.name).then(a.guid.cmp(&b.guid)));
    }
    let mut names = HashMap::with_capacity(hosts.len() + switches.len());
    for item in hosts.iter().chain(&switches) {
        if let Some(first) = names.insert(item.name.as_str(), item.node.line) {
            let message =
                format!("the name \"{}\" is also used in line {first}; rename one of the nodes", item.name);
            return Err(ImportError::at(origin, item.node.line, message));
        }
    }
    Ok((hosts, switches))
}

/// Checks that LIDs and port GUIDs are unique.
fn check_addresses(hosts: &[Named], switches: &[Named], origin: &str) -> Result<(), ImportError> {
    let mut owners: HashMap<u16, (&str, usize)> = HashMap::new();
    let mut guids: HashMap<u64, (&str, usize)> = HashMap::new();
    for item in hosts.iter().chain(switches) {
        let (line, lids) = item.port.map_or((item.node.line, item.node.lids), |port| (port.line, port.lids));
        let clash = |what: String, (name, first): (&str, usize)| {
            let message = format!(
                "{what} of \"{}\" is also that of \"{name}\" (line {first}); it must be unique",
                item.name
            );
            Err(ImportError::at(origin, line, message))
        };
        for lid in lids.into_iter().flat_map(Lids::all) {
            if let Some(first) = owners.insert(lid, (&item.name, line)) {
                return clash(format!("LID {lid}"), first);
            }
        }
        // The node GUID of a switch may equal the GUID of its port, but GUIDs of ports are unique.
        let port_guid = item.guid.filter(|_| item.port.is_some());
        if let Some((guid, first)) = port_guid.and_then(|g| Some((g, guids.insert(g, (&item.name, line))?))) {
            return clash(format!("port GUID 0x{guid:016x}"), first);
        }
    }
    Ok(())
}

fn assemble(
    hosts: &[Named],
    switches: &[Named],
    links: &[(Place, Place, Rate)],
    origin: &str,
    options: Options,
) -> Topology {
    let mut ends: HashMap<Place, End> = HashMap::with_capacity(links.len() * 2);
    let mut switch_numbers: HashMap<usize, u32> = HashMap::with_capacity(switches.len());
    for (number, host) in (0..).zip(hosts) {
        ends.insert(host.place, End { node: NodeRef::Host(number), port: 1 });
    }
    for (number, switch) in (0..).zip(switches) {
        switch_numbers.insert(switch.place.0, number);
    }
    let end = |place: &Place| {
        let switch = |n: &u32| End { node: NodeRef::Switch(*n), port: place.1 };
        switch_numbers.get(&place.0).map(switch).or_else(|| ends.get(place).copied())
    };
    let mut links: Vec<Link> = links
        .iter()
        .filter_map(|(a, b, rate)| {
            let (a, b) = (end(a)?, end(b)?);
            Some(Link { a: a.min(b), b: a.max(b), rate: *rate, delay: options.link_delay, one_way: false })
        })
        .collect();
    links.sort_by_key(|link| (link.a, link.b));
    let file = origin.rsplit(['/', '\\']).next().unwrap_or(origin);
    Topology {
        name: file.to_owned(),
        hosts: hosts
            .iter()
            .map(|h| {
                let lids = h.port.and_then(|p| p.lids);
                let (lid, lmc) = (lids.map(|lids| lids.base), lids.map_or(0, |lids| lids.lmc));
                Host { name: h.name.clone(), lid, lmc, guid: h.guid }
            })
            .collect(),
        switches: switches
            .iter()
            .map(|s| {
                let lids = s.node.lids;
                let (lid, lmc) = (lids.map(|lids| lids.base), lids.map_or(0, |lids| lids.lmc));
                Switch { name: s.name.clone(), ports: s.node.ports, lid, lmc, guid: s.guid }
            })
            .collect(),
        links,
        units: 0,
        machines: machines(hosts),
        shape: Shape::Arbitrary,
    }
}

/// The adapters with their ports, in the order of their first ports; none if each adapter has one port.
fn machines(hosts: &[Named]) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    let mut known: HashMap<usize, usize> = HashMap::with_capacity(hosts.len());
    for (number, host) in (0..).zip(hosts) {
        let at = *known.entry(host.place.0).or_insert(machines.len());
        match machines.get_mut(at) {
            Some(machine) => machine.ports.push(number),
            None => machines.push(Machine { name: host.of.clone(), ports: vec![number] }),
        }
    }
    if machines.len() == hosts.len() { Vec::new() } else { machines }
}
