//! Reads the output of `iblinkinfo`, with one line per port (`-l`) or with headings.
//!
//! ```text
//! 0x0002c90300000031 "  node-3"  8  1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  0x0002c90200000030  7  1[  ] "sw-3" ( )
//!
//! CA: node-3:
//!       0x0002c90300000031  8  1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  7  1[  ] "sw-3" ( )
//! Switch: 0x0002c90200000030 sw-3:
//!        7  1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  8  1[  ] "node-3" ( )
//! ```
//!
//! Ports are identified by LID and number. In the format without headings, lines do not state the type of a node. A
//! node with several ports under one LID is a switch, because adapters have one LID per port.
//!
//! With `--switches-only`, no line describes the adapters, so they are derived from the other ends of links.
//! A note counts them. Such a node is an adapter only if it has one link, because the output of one switch
//! (`-S`) also has other switches at these ends.

use std::collections::HashMap;

use silvan_engine::Rate;

use super::ibnetdiscover::Options;
use super::lids::Lids;
use super::notes::{Notes, What};
use super::records::{self, Facts, Place, Records};
use super::scan::{self, Cursor, Lines};
use super::{ImportError, Wiring, clip, speed};

const FORM: &str = "the form is `[GUID \"name\"] LID PORT[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> [GUID] LID PORT[ ] \
                    \"name\" ( )`";

struct Row<'a> {
    line: Cursor<'a>,
    lid: u16,
    port: u16,
    guid: Option<u64>,
    name: &'a str,
    /// The other end of the link.
    far: Option<Far<'a>>,
}

struct Far<'a> {
    lid: u16,
    port: u16,
    rate: Rate,
    guid: Option<u64>,
    name: &'a str,
}

/// The largest port number of an adapter. A larger one belongs to a switch.
const ADAPTER_PORTS: u16 = 4;

#[derive(Default)]
struct Known {
    rows: u32,
    ports: u16,
    /// Number of the first row that describes the port.
    first: usize,
    headed: Option<bool>,
}

/// Reads the links; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a number is out of range, a link leads to a port that no line describes, the two
/// ends of a link disagree, or a name or GUID belongs to two nodes.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let notes = Notes::default();
    let mut rows: Vec<Row> = Vec::new();
    let mut nodes: HashMap<u16, Known> = HashMap::new();
    let mut heading: Option<(bool, Option<u64>, &str)> = None;
    for line in Lines::of_output(text, origin, &notes) {
        let line = line?;
        let rest = line.rest.trim();
        if rest.is_empty() || rest.starts_with('#') {
            continue;
        }
        if let Some(name) = rest.strip_prefix("CA: ") {
            heading = Some((false, None, name.trim_end_matches(':')));
        } else if let Some(name) = rest.strip_prefix("Switch: ") {
            let (guid, name) = name.split_once(' ').unwrap_or((name, ""));
            heading = Some((true, scan::guid(guid), name.trim_end_matches(':')));
        } else {
            let row = row(line, heading, &notes)?;
            let known =
                nodes.entry(row.lid).or_insert_with(|| Known { first: rows.len(), ..Known::default() });
            known.rows += 1;
            known.ports = known.ports.max(row.port);
            known.headed = known.headed.or(heading.map(|(is_switch, ..)| is_switch));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err(ImportError::new(origin, format!("no line describes a port; {FORM}")));
    }
    describe_adapters(&mut rows, &mut nodes, &notes);
    let topology = assemble(&rows, &nodes, origin, options, &notes)?;
    Ok(Wiring::new(topology, notes.texts()))
}

/// Adds rows for adapters that only the lines of switches mention: nodes with one link.
fn describe_adapters<'a>(rows: &mut Vec<Row<'a>>, nodes: &mut HashMap<u16, Known>, notes: &Notes) {
    let mut mentioned: HashMap<u16, Vec<usize>> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(far) = row.far.as_ref().filter(|far| !nodes.contains_key(&far.lid)) {
            mentioned.entry(far.lid).or_default().push(at);
        }
    }
    let mut mentioned: Vec<(u16, Vec<usize>)> = mentioned.into_iter().collect();
    mentioned.sort_unstable();
    for (lid, from) in mentioned {
        let [at] = from[..] else { continue };
        let row = &rows[at];
        let Some(far) = row.far.as_ref().filter(|far| far.port <= ADAPTER_PORTS && !far.name.is_empty())
        else {
            continue;
        };
        notes.add(What::Undescribed, row.line.line);
        let back = Far { lid: row.lid, port: row.port, rate: far.rate, guid: row.guid, name: row.name };
        let own =
            Row { line: row.line, lid, port: far.port, guid: far.guid, name: far.name, far: Some(back) };
        nodes.insert(lid, Known { rows: 1, ports: far.port, first: rows.len(), headed: Some(false) });
        rows.push(own);
    }
}

fn assemble(
    rows: &[Row],
    nodes: &HashMap<u16, Known>,
    origin: &str,
    options: Options,
    notes: &Notes,
) -> Result<silvan_network::topology::Topology, ImportError> {
    let mut records = Records::default();
    let by_place: HashMap<(u16, u16), &Row> = rows.iter().map(|row| ((row.lid, row.port), row)).collect();
    for row in rows {
        let Some(&Far { lid: far_lid, port: far_port, rate, guid: far_guid, name: far_name }) =
            row.far.as_ref()
        else {
            continue;
        };
        let Some(&back) = by_place.get(&(far_lid, far_port)) else {
            return Err(row.line.error(format!(
                "the link leads to port {far_port} of LID {far_lid}, which no line describes; use the \
                 complete output, or that of --switches-only"
            )));
        };
        let mut place = |row: &Row| -> Result<Place, ImportError> {
            let known = &nodes[&row.lid];
            let is_switch = known.headed.unwrap_or(known.rows > 1);
            let first = &rows[known.first];
            let guid = if is_switch { first.guid } else { row.guid };
            let facts = Facts {
                key: u64::from(row.lid),
                guid: guid.filter(|_| is_switch),
                is_switch,
                ports: known.ports,
                description: first.name,
                lids: Some(Lids { base: row.lid, lmc: 0 }),
            };
            let node = records.node(&first.line, facts)?;
            Ok(Place { node, port: row.port, guid, lids: Some(Lids { base: row.lid, lmc: 0 }) })
        };
        let is_other_guid = far_guid.zip(back.guid).is_some_and(|(stated, own)| stated != own);
        if is_other_guid || !far_name.is_empty() && !back.name.is_empty() && far_name != back.name {
            notes.add(What::FarEnd, row.line.line);
        }
        let ends = [place(row)?, place(back)?];
        records.link(&row.line, ends, Some(rate), notes)?;
    }
    records.topology(origin, options, notes).map(|built| built.topology)
}

/// Reads a line that describes a port.
fn row<'a>(
    line: Cursor<'a>,
    heading: Option<(bool, Option<u64>, &'a str)>,
    notes: &Notes,
) -> Result<Row<'a>, ImportError> {
    let bad = || line.error(format!("{} is not a line of iblinkinfo; {FORM}", clip(line.rest.trim())));
    let (left, rest) = line.rest.split_once("==(").ok_or_else(bad)?;
    let (state, right) = rest.split_once(")==>").ok_or_else(bad)?;
    let (mut guid, mut name, place) = match (left.find('"'), left.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            (scan::guid(left[..first].trim()), left[first + 1..last].trim(), &left[last + 1..])
        }
        _ => {
            let trimmed = left.trim_start();
            let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
            if word.starts_with("0x") { (scan::guid(word), "", rest) } else { (None, "", trimmed) }
        }
    };
    if name.is_empty() {
        let (_, of_switch, heading) = heading.ok_or_else(bad)?;
        (guid, name) = (guid.or(of_switch), heading);
    }
    let (lid, port) = lid_and_port(&line, place, notes)?.ok_or_else(bad)?;
    let mut far = None;
    if state.contains("LinkUp") {
        let mut words = state.split_whitespace();
        let (width, lane) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let rate = speed::of_lane(width, lane).ok_or_else(|| {
            line.error(format!(
                "the width and speed are {}; valid examples are `4X 10.0 Gbps` and `4X 25.78125 Gbps`",
                clip(state.trim())
            ))
        })?;
        let far_name = match (right.find('"'), right.rfind('"')) {
            (Some(first), Some(last)) if first < last => right[first + 1..last].trim(),
            _ => "",
        };
        let right = right.split('"').next().unwrap_or("").trim();
        let (far_guid, right) = match right.split_once(char::is_whitespace) {
            Some((word, rest)) if word.starts_with("0x") => (scan::guid(word), rest),
            _ => (None, right),
        };
        let (far_lid, far_port) = lid_and_port(&line, right, notes)?.ok_or_else(bad)?;
        far = Some(Far { lid: far_lid, port: far_port, rate, guid: far_guid, name: far_name });
    }
    Ok(Row { line, lid, port, guid, name, far })
}

/// Parses the LID and the port in a text such as "8  1[  ]". `None` if the text has another form.
fn lid_and_port(line: &Cursor, text: &str, notes: &Notes) -> Result<Option<(u16, u16)>, ImportError> {
    let Some((numbers, _)) = text.split_once('[') else { return Ok(None) };
    let mut words = numbers.split_whitespace();
    let (Some(lid), Some(port), None) = (words.next(), words.next(), words.next()) else { return Ok(None) };
    let port = records::port(line, port, 10)?;
    Ok(records::lid(line, lid, 10, notes)?.map(|lid| (lid, port)))
}
