//! Reads and writes the list of links that OpenSM (`opensm-subnet.lst`) and ibdiagnet (`ibdiagnet2.lst`) write
//! and `ibdmchk` reads. Each line contains a link, with ports and LIDs in hexadecimal.
//!
//! ```text
//! { SW Ports:24 SystemGUID:0200000200000000 NodeGUID:0200000200000000 PortGUID:0200000200000000
//!   VenID:000000 DevID:0000 Rev:000000A1 {sw-0} LID:0002 PN:01 } { CA Ports:01 ... } PHY=4x LOG=ACT SPD=10
//! ```

use std::fmt::Write as _;

use silvan_network::topology::{End, NodeRef, Topology, TopologyError};

use super::ibnetdiscover::Options;
use super::identity::Identities;
use super::lids::Lids;
use super::notes::{Notes, What};
use super::records::{self, Facts, Place, Records};
use super::scan::{self, Cursor, Lines};
use super::{ImportError, Wiring, clip, speed};

const FORM: &str = "the form is `{ SW Ports:24 SystemGUID:.. NodeGUID:.. PortGUID:.. VenID:.. DevID:.. Rev:.. \
                    {name} LID:0002 PN:01 } { CA ... } PHY=4x LOG=ACT SPD=10`";

/// Reads a list of links; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a number is out of range, a port has two links, a name, LID or port GUID belongs
/// to two nodes, or a link of unknown speed has no default rate.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let notes = Notes::default();
    let mut records = Records::default();
    for line in Lines::rows(text, origin) {
        let mut line = line?;
        let whole = line;
        let ends = [end(&mut line, &mut records, &notes)?, end(&mut line, &mut records, &notes)?];
        let value = |name: &str| line.rest.split_whitespace().find_map(|word| word.strip_prefix(name));
        let (Some(width), Some(state), Some(lane)) = (value("PHY="), value("LOG="), value("SPD=")) else {
            return Err(whole.error(format!("the link's PHY, LOG or SPD is missing; {FORM}")));
        };
        if state == "DWN" || state == "DOWN" {
            notes.add(What::Down, whole.line);
            continue;
        }
        let rate = speed::of_lane(width, lane).ok_or_else(|| {
            whole.error(format!(
                "PHY={} and SPD={} are not a valid width and lane speed; examples are 4x and 2.5, 5, 10, FDR10, 14, 25, \
                 50, 100, 200",
                clip(width),
                clip(lane)
            ))
        })?;
        records.link(&whole, ends, Some(rate), &notes)?;
    }
    let built = records.topology(origin, options, &notes)?;
    Ok(Wiring { node_guids: built.node_guids, ..Wiring::new(built.topology, notes.texts()) })
}

/// Reads `{ ... }`, one end of a link.
fn end<'a>(line: &mut Cursor<'a>, records: &mut Records<'a>, notes: &Notes) -> Result<Place, ImportError> {
    let whole = *line;
    let bad = |what: &str| whole.error(format!("{what} {}; {FORM}", clip(whole.rest)));
    line.skip_blanks();
    if !line.take("{") {
        return Err(bad("an end of a link must come next instead of"));
    }
    // A description may contain braces, but the fields after it do not.
    let (Some(head), Some(description)) = (line.until("{"), line.until("} LID:")) else {
        return Err(bad("the description is missing in"));
    };
    let Some(tail) = line.until("}") else { return Err(bad("the closing brace is missing in")) };
    let mut words = head.split_whitespace();
    let is_switch = match words.next().unwrap_or("").split('-').next() {
        Some("SW") => true,
        Some("CA" | "RT" | "RTR" | "Rtr") => false,
        _ => return Err(bad("the type of node is not SW, CA or RT in")),
    };
    let value = |name: &str| words.clone().find_map(|word| word.strip_prefix(name));
    let (Some(ports), Some(node_guid)) = (value("Ports:"), value("NodeGUID:").and_then(scan::guid)) else {
        return Err(bad("Ports or NodeGUID is missing in"));
    };
    let port_guid = value("PortGUID:").and_then(scan::guid).ok_or_else(|| bad("PortGUID is missing in"))?;
    let ports = records::port(&whole, ports, 16)?;
    let mut tail_words = tail.split_whitespace();
    let lid = records::lid(&whole, tail_words.next().unwrap_or(""), 16, notes)?;
    let lids = lid.map(|base| Lids { base, lmc: 0 });
    let number = tail_words.next().and_then(|word| word.strip_prefix("PN:"));
    let number = records::port(&whole, number.ok_or_else(|| bad("PN is missing in"))?, 16)?;
    let description = if description.trim().is_empty() { node_guid_text(head) } else { description };
    let facts = Facts { key: node_guid, guid: Some(node_guid), is_switch, ports, description, lids };
    let node = records.node(&whole, facts)?;
    Ok(Place { node, port: number, guid: Some(port_guid), lids })
}

/// The GUID as written, which names nodes without a description.
fn node_guid_text(head: &str) -> &str {
    head.split_whitespace().find_map(|word| word.strip_prefix("NodeGUID:")).unwrap_or("")
}

/// Same as [`write_with`], without known node GUIDs.
///
/// # Errors
/// Same as [`write_with`].
pub fn write(topology: &Topology) -> Result<String, TopologyError> {
    write_with(topology, &[])
}

/// Writes a network in the format of `ibdmchk -s`, with a line for each end of a link, and known node GUIDs of
/// the adapters, by host. Missing GUIDs and LIDs are assigned as in [`Identities::of`] and
/// [`Identities::adapters`].
///
/// # Errors
/// Same as [`Identities::of`], and if a link has a rate that no InfiniBand link has, or a node's name contains a
/// brace, which the format cannot represent.
pub fn write_with(topology: &Topology, node_guids: &[Option<u64>]) -> Result<String, TopologyError> {
    let ids = Identities::of(topology)?;
    let adapters = ids.adapters(node_guids);
    let mut out = String::new();
    let side = |end: End| -> Result<String, TopologyError> {
        let (kind, ports, node, port, name, lid) = match end.node {
            NodeRef::Host(h) => {
                let h = h as usize;
                ("CA", 1, adapters[h], ids.host_guids[h], &topology.hosts[h].name, ids.host_lids[h])
            }
            NodeRef::Switch(s) => {
                let (s, guid) = (s as usize, ids.switch_guids[s as usize]);
                let switch = &topology.switches[s];
                ("SW", switch.ports, guid, guid, &switch.name, ids.switch_lids[s])
            }
        };
        if name.contains(['{', '}']) {
            return Err(TopologyError(format!(
                "the name {name} has a brace, which the list of links uses as a delimiter; rename it"
            )));
        }
        Ok(format!(
            "{{ {kind} Ports:{ports:02x} SystemGUID:{node:016x} NodeGUID:{node:016x} PortGUID:{port:016x} \
             VenID:000000 DevID:0000 Rev:00000000 {{{name}}} LID:{lid:04X} PN:{pn:02X} }}",
            pn = end.port
        ))
    };
    for link in &topology.links {
        let (a, b) = (side(link.a)?, side(link.b)?);
        let Some((width, lane)) = speed::lane(link.rate) else {
            let name = topology.port_name(link.a);
            return Err(TopologyError(format!(
                "the link at {name} has {}, which no InfiniBand link has; the list of links needs a width and speed",
                link.rate
            )));
        };
        for (from, to) in [(&a, &b), (&b, &a)] {
            let _ = writeln!(out, "{from} {to} PHY={width}x LOG=ACT SPD={lane}");
        }
    }
    Ok(out)
}
