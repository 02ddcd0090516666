//! Reads the tables of ports that ibdiagnet writes (`ibdiagnet2.net_dump`), with one table per switch.
//!
//! ```text
//! "sw-0", Mellanox, 0x0002c90200000000, LID 2
//! #   : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid      : N# : NLID : Neighbor Description
//! 1/1 : 1   : ACT : LINK UP : 5   : 4x  : 25  : NO FEC   : NO-RTR : 0x0002c90300000000 : 1  : 1    : "node-0"
//! 1/2 : 2   : DOWN : POLLING : N/A : N/A : N/A : N/A     : N/A    :                    :    :      :
//! ```
//!
//! Columns are found by title. The neighbor of a port is a switch if it has a table, and an adapter
//! otherwise. The column N# contains the label of the port (the first column) of a neighboring switch, or the
//! port number of an adapter.

use std::collections::HashMap;

use silvan_engine::Rate;

use super::ibnetdiscover::Options;
use super::lids::Lids;
use super::notes::{Notes, What};
use super::records::{self, Facts, Place, Records};
use super::scan::{self, Cursor, Lines};
use super::{ImportError, Wiring, clip, speed};

const HEAD: &str = "\"NAME\", VENDOR, 0xGUID, LID 1";

/// The columns that are used, by title.
const TITLES: [&str; 9] =
    ["#", "IB#", "Sta", "LWA", "LSA", "Neighbor Guid", "N#", "NLID", "Neighbor Description"];

struct Switch<'a> {
    line: Cursor<'a>,
    name: &'a str,
    guid: u64,
    lid: Option<u16>,
    ports: u16,
    labels: HashMap<&'a str, u16>,
}

struct PortLine<'a> {
    line: Cursor<'a>,
    switch: usize,
    number: u16,
    rate: Rate,
    guid: u64,
    label: &'a str,
    lid: Option<u16>,
    name: &'a str,
}

/// Whether a line starts the table of a switch.
pub(super) fn is_head(line: &str) -> bool {
    head(line).is_some()
}

/// Splits a line such as `"NAME", VENDOR, 0xGUID, LID 1` into name, GUID and LID. A name may contain quotes
/// and commas. `None` if the line has another form.
fn head(line: &str) -> Option<(&str, u64, &str)> {
    let (name, rest) = line.trim().strip_prefix('"')?.rsplit_once("\",")?;
    let mut parts = rest.rsplitn(3, ',').map(str::trim);
    let lid = parts.next()?.strip_prefix("LID ")?;
    let guid = scan::guid(parts.next()?.strip_prefix("0x")?)?;
    Some((name.trim(), guid, lid.split(' ').next().unwrap_or("")))
}

/// Reads the links; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a row belongs to no table, a port appears twice, a column is missing, a number is
/// out of range, the two ends of a link disagree, or a name or LID belongs to two nodes.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let notes = Notes::default();
    let mut switches: Vec<Switch> = Vec::new();
    let mut ports: Vec<PortLine> = Vec::new();
    let mut titles: Vec<&str> = Vec::new();
    for line in Lines::of_output(text, origin, &notes) {
        let line = line?;
        let rest = line.rest.trim();
        if let Some((name, guid, lid)) = head(rest) {
            let lid = records::lid(&line, lid, 10, &notes)?;
            switches.push(Switch { line, name, guid, lid, ports: 1, labels: HashMap::new() });
            titles.clear();
        } else if rest.starts_with('#') && rest.contains("IB#") {
            titles = rest.split(':').map(str::trim).collect();
        } else if !rest.is_empty() && !rest.starts_with('#') && rest.contains(" : ") {
            let Some(switch) = switches.last_mut().filter(|_| !titles.is_empty()) else {
                return Err(line.error(format!("the row belongs to no table; a table starts with `{HEAD}`")));
            };
            let row = row(&line, rest, &titles)?;
            let number = records::port(&line, row[1], 10)?;
            switch.ports = switch.ports.max(number);
            if switch.labels.insert(row[0], number).is_some() {
                return Err(line.error(format!("port {} appears twice in its table", clip(row[0]))));
            }
            let at = switches.len() - 1;
            let found = port(line, at, number, &row, &notes)?;
            if found.is_some() {
                unused(&line, rest, &titles, &notes);
            }
            ports.extend(found);
        } else if !rest.is_empty() && !rest.starts_with(['#', '-']) {
            return Err(line.error(format!("{} is neither a row nor `{HEAD}`", clip(rest))));
        }
    }
    if switches.is_empty() {
        return Err(ImportError::new(origin, format!("there is no table; a table starts with `{HEAD}`")));
    }
    assemble(&switches, &ports, origin, options, &notes)
}

/// The columns of a row in the order of [`TITLES`]; a description may contain colons, and is the last column.
fn row<'a>(line: &Cursor, text: &'a str, titles: &[&str]) -> Result<[&'a str; TITLES.len()], ImportError> {
    let columns: Vec<&str> = text.splitn(titles.len(), ':').map(str::trim).collect();
    let mut row = [""; TITLES.len()];
    for (value, title) in row.iter_mut().zip(TITLES) {
        let at = titles.iter().position(|known| *known == title);
        let at = at.ok_or_else(|| line.error(format!("the table has no column `{title}`")))?;
        *value = columns.get(at).copied().unwrap_or("");
    }
    Ok(row)
}

/// Counts the values of columns that have no effect, because the scenario sets the size of packets, and links have
/// no errors and no latency of their correction.
fn unused(line: &Cursor, text: &str, titles: &[&str], notes: &Notes) {
    for (title, none) in [("MTU", &[][..]), ("FEC mode", &["NO FEC", "NO-FEC"]), ("Retran", &["NO-RTR"])] {
        let at = titles.iter().position(|known| *known == title);
        if let Some(value) = at.and_then(|at| text.splitn(titles.len(), ':').nth(at)) {
            notes.unused(title, value, none, line.line);
        }
    }
}

/// The link of a port; `None` if the port is not connected or down. A note counts links that are down.
fn port<'a>(
    line: Cursor<'a>,
    switch: usize,
    number: u16,
    row: &[&'a str; TITLES.len()],
    notes: &Notes,
) -> Result<Option<PortLine<'a>>, ImportError> {
    let [_, _, state, width, lane, guid, label, lid, name] = *row;
    if guid.is_empty() || guid == "N/A" {
        return Ok(None);
    }
    if state == "DOWN" || state == "DWN" {
        notes.add(What::Down, line.line);
        return Ok(None);
    }
    let rate = speed::of_lane(width, lane).ok_or_else(|| {
        let what = format!("LWA {} and LSA {}", clip(width), clip(lane));
        line.error(format!("{what} are not a width and a lane speed, such as 4x and 25"))
    })?;
    let guid = line.guid(guid)?;
    let lid = if lid.is_empty() || lid == "N/A" { None } else { records::lid(&line, lid, 10, notes)? };
    let name = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(name).trim();
    Ok(Some(PortLine { line, switch, number, rate, guid, label, lid, name }))
}

fn assemble(
    switches: &[Switch],
    ports: &[PortLine],
    origin: &str,
    options: Options,
    notes: &Notes,
) -> Result<Wiring, ImportError> {
    let mut records = Records::default();
    let by_guid: HashMap<u64, &Switch> = switches.iter().map(|switch| (switch.guid, switch)).collect();
    if by_guid.len() < switches.len() {
        let mut seen = std::collections::HashSet::new();
        let twice = switches.iter().find(|switch| !seen.insert(switch.guid));
        let line = twice.map_or(0, |switch| switch.line.line);
        return Err(ImportError::at(origin, line, "a switch with the same GUID has another table above"));
    }
    let lids = |lid: Option<u16>| lid.map(|base| Lids { base, lmc: 0 });
    for port in ports {
        let own = &switches[port.switch];
        let far = by_guid.get(&port.guid).copied();
        let number = match far.and_then(|far| far.labels.get(port.label).copied()) {
            Some(number) => number,
            None => records::port(&port.line, port.label, 10)?,
        };
        let here = records.node(
            &own.line,
            Facts {
                key: own.guid,
                guid: Some(own.guid),
                is_switch: true,
                ports: own.ports,
                description: own.name,
                lids: lids(own.lid),
            },
        )?;
        let (is_switch, key_ports, name, far_lids) = match far {
            Some(far) => (true, far.ports, far.name, lids(far.lid)),
            None => (false, number, port.name, lids(port.lid)),
        };
        let there = records.node(
            &port.line,
            Facts {
                key: port.guid,
                guid: Some(port.guid),
                is_switch,
                ports: key_ports,
                description: name,
                lids: far_lids,
            },
        )?;
        let ends = [
            Place { node: here, port: port.number, guid: None, lids: lids(own.lid) },
            Place { node: there, port: number, guid: Some(port.guid), lids: far_lids },
        ];
        records.link(&port.line, ends, Some(port.rate), notes)?;
    }
    // The file states one GUID per adapter, which is the GUID of its port, too.
    let built = records.topology(origin, options, notes)?;
    Ok(Wiring { node_guids: built.node_guids, ..Wiring::new(built.topology, notes.texts()) })
}
