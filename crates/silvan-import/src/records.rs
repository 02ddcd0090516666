//! Collects nodes and links for the readers of link lists, as records from which [`super::ibnetdiscover`]
//! builds a topology.

use std::collections::HashMap;

use silvan_engine::Rate;

use super::ibnetdiscover::{Options, build, read};
use super::lids::{self, Lids};
use super::notes::{Notes, What};
use super::scan::Cursor;
use super::{ImportError, MAX_NODES, MAX_PORTS, clip};

/// One end of a link.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Number of the node, from [`Records::node`].
    pub(super) node: usize,
    pub(super) port: u16,
    pub(super) guid: Option<u64>,
    pub(super) lids: Option<Lids>,
}

/// The known attributes of a node.
pub(super) struct Facts<'a> {
    /// The identifier of the node in the file: a GUID, or a LID if there is none.
    pub(super) key: u64,
    pub(super) guid: Option<u64>,
    pub(super) is_switch: bool,
    pub(super) ports: u16,
    pub(super) description: &'a str,
    pub(super) lids: Option<Lids>,
}

/// Nodes and links read so far.
#[derive(Default)]
pub(super) struct Records<'a> {
    nodes: Vec<read::Node<'a>>,
    by_key: HashMap<u64, usize>,
    /// Maps a node and a port number to the index of the port's record.
    ports: HashMap<(usize, u16), usize>,
}

impl<'a> Records<'a> {
    /// Returns the node with a key. A new key creates a node; a known node must have the same type and
    /// description.
    pub(super) fn node(&mut self, line: &Cursor, facts: Facts<'a>) -> Result<usize, ImportError> {
        if let Some(&known) = self.by_key.get(&facts.key) {
            let node = &mut self.nodes[known];
            if node.is_switch != facts.is_switch || node.description != facts.description.trim() {
                return Err(line.error(format!(
                    "the node is {} here, but {} in line {}; a GUID belongs to one node",
                    clip(facts.description.trim()),
                    clip(node.description),
                    node.line
                )));
            }
            node.ports = node.ports.max(facts.ports);
            node.lids = node.lids.or(facts.lids.filter(|_| facts.is_switch));
            return Ok(known);
        }
        if self.nodes.len() == MAX_NODES {
            return Err(line.error(format!("there are more than {MAX_NODES} nodes, which is the maximum")));
        }
        let description = facts.description.trim();
        self.nodes.push(read::Node {
            line: line.line,
            is_switch: facts.is_switch,
            ports: facts.ports,
            id: read::Id::Guid('#', facts.key),
            id_text: description,
            description,
            guid: facts.guid,
            lids: facts.lids.filter(|_| facts.is_switch),
            links: Vec::new(),
        });
        self.by_key.insert(facts.key, self.nodes.len() - 1);
        Ok(self.nodes.len() - 1)
    }

    /// Adds a link once, even if it is listed several times. If it is listed with different rates, it has the
    /// smallest rate, and a note counts it.
    pub(super) fn link(
        &mut self,
        line: &Cursor,
        ends: [Place; 2],
        rate: Option<Rate>,
        notes: &Notes,
    ) -> Result<(), ImportError> {
        let differs = self.end(line, ends[0], ends[1], rate)?;
        self.end(line, ends[1], ends[0], rate)?;
        if differs {
            notes.add(What::Rates, line.line);
        }
        Ok(())
    }

    /// Adds one end of a link; returns whether it is known with another rate.
    fn end(
        &mut self,
        line: &Cursor,
        here: Place,
        there: Place,
        rate: Option<Rate>,
    ) -> Result<bool, ImportError> {
        let (peer, peer_text) = (self.nodes[there.node].id, self.nodes[there.node].description);
        let node = &mut self.nodes[here.node];
        if here.port > node.ports {
            return Err(line.error(format!(
                "port {} of {} does not exist; it has ports 1 to {} (line {})",
                here.port,
                clip(node.description),
                node.ports,
                node.line
            )));
        }
        if let Some(&known) = self.ports.get(&(here.node, here.port)) {
            let known = &mut node.links[known];
            if known.peer == peer && known.peer_port == there.port {
                let differs = known.rate != rate;
                known.rate = known.rate.into_iter().chain(rate).min();
                return Ok(differs);
            }
            return Err(line.error(format!(
                "port {} of {} leads to port {} of {} here, but to another port in line {}; both must agree",
                here.port,
                clip(node.description),
                there.port,
                clip(peer_text),
                known.line
            )));
        }
        self.ports.insert((here.node, here.port), node.links.len());
        node.links.push(read::Port {
            line: line.line,
            number: here.port,
            guid: here.guid.filter(|_| !node.is_switch),
            peer,
            peer_text,
            peer_port: there.port,
            peer_guid: None,
            lids: here.lids.filter(|_| !node.is_switch),
            rate,
        });
        Ok(false)
    }

    /// Builds the topology from all records.
    pub(super) fn topology(
        self,
        origin: &str,
        options: Options,
        notes: &Notes,
    ) -> Result<build::Built, ImportError> {
        build::topology(&self.nodes, origin, options, notes)
    }
}

/// Parses a port number.
pub(super) fn port(line: &Cursor, text: &str, radix: u32) -> Result<u16, ImportError> {
    u16::from_str_radix(text, radix)
        .ok()
        .filter(|port| (1..=MAX_PORTS).contains(port))
        .ok_or_else(|| line.error(format!("the port is {}; it must be from 1 to {MAX_PORTS}", clip(text))))
}

/// Parses a LID in base 10 or 16; 0 and 65535 mean none.
pub(super) fn lid(line: &Cursor, text: &str, radix: u32, notes: &Notes) -> Result<Option<u16>, ImportError> {
    let digits = if radix == 16 { text.strip_prefix("0x").unwrap_or(text) } else { text };
    lids::known(line, u16::from_str_radix(digits, radix).ok(), text, notes)
}
