//! Reads files that consist of sections with comma-separated rows: `ibdiagnet2.db_csv` and
//! `opensm-smdb.dump`.
//!
//! ```text
//! START_NODES
//! NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,...
//! "node-0",1,1,1,1,0x0002c90300000000,0x0002c90300000000,0x0002c90300000001,...
//! END_NODES
//! ```
//!
//! The topology is built from the sections NODES, PORTS and LINKS. Columns are found by title, because
//! their order differs between versions of the tools. Values may be padded with blanks.

use std::collections::HashMap;

use silvan_engine::Rate;
use silvan_network::topology::Topology;

use super::ibnetdiscover::Options;
use super::lids::{self, Lids};
use super::notes::{Notes, What};
use super::records::{self, Facts, Place, Records};
use super::scan::{self, Cursor, Lines};
use super::{ImportError, MAX_PORTS, clip, speed};

/// Maximum number of columns of a section.
const MAX_COLUMNS: usize = 1024;
/// Columns of PORTS that have no effect, because the scenario sets the size of packets, the virtual lanes and their
/// arbitration, and switches do not discard packets that wait too long. A value of 0 states nothing.
const UNUSED: [&str; 5] = ["NMTU", "OpVLs", "HoQLife", "VLStallCnt", "VLHighLimit"];
/// Node type of a switch in NodeInfo.
const SWITCH: u64 = 2;

/// A topology, and information about the other contents of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Sections {
    /// The nodes and links.
    pub topology: Topology,
    /// GUID of the adapter of each host.
    pub node_guids: Vec<Option<u64>>,
    /// Sections that were used.
    pub used: Vec<String>,
    /// Sections that were skipped.
    pub passed_over: Vec<String>,
    /// Number of switches with adaptive routing enabled according to AR_INFO; `None` without that section.
    pub adaptive: Option<u64>,
    /// Omitted parts, and decisions of the reader.
    pub notes: Vec<String>,
}

/// A row of the section PORTS.
struct PortLine {
    lids: Option<Lids>,
    guid: Option<u64>,
    /// Data rate; `None` if the row has no valid width and speed.
    rate: Option<Rate>,
}

/// The column titles of an open section.
struct Titles<'a> {
    section: &'a str,
    columns: Vec<&'a str>,
}

impl<'a> Titles<'a> {
    /// The value in a row of the first column that has one of these titles; `None` if there is no such column or the row ends
    /// before it.
    fn get<'r>(&self, row: &[&'r str], titles: &[&str]) -> Option<&'r str> {
        let at = self.columns.iter().position(|c| titles.iter().any(|t| c.eq_ignore_ascii_case(t)))?;
        row.get(at).copied()
    }

    fn need<'r>(&self, line: &Cursor, row: &[&'r str], titles: &[&str]) -> Result<&'r str, ImportError> {
        self.get(row, titles).ok_or_else(|| {
            line.error(format!(
                "section {} has no column {} or this row ends before it",
                self.section,
                titles.first().unwrap_or(&"")
            ))
        })
    }

    fn guid(&self, line: &Cursor, row: &[&str], titles: &[&str]) -> Result<u64, ImportError> {
        line.guid(self.need(line, row, titles)?)
    }

    fn number(&self, line: &Cursor, row: &[&str], titles: &[&str]) -> Result<u64, ImportError> {
        let text = self.need(line, row, titles)?;
        number(text).ok_or_else(|| {
            let title = titles.first().unwrap_or(&"");
            line.error(format!("{title} is {}; it must be a number", clip(text)))
        })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(_) => scan::guid(text),
        None => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten(),
    }
}

/// Reads a whole file; `origin` is its name in error messages.
///
/// # Errors
/// If a section has no end, a row or value is invalid, NODES or LINKS is missing, a link connects nodes that
/// are not described or has no rate and there is no default rate, or a name, LID or port GUID belongs to two
/// nodes.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Sections, ImportError> {
    let mut reader = Reader::default();
    let mut open: Option<(usize, Titles)> = None;
    for line in Lines::new(text, origin) {
        let line = line?;
        let rest = line.rest.trim();
        if let Some(name) = rest.strip_prefix("START_") {
            if let Some((start, titles)) = &open {
                let message = format!("section {} of line {start} has no END_{0}", titles.section);
                return Err(line.error(message));
            }
            open = Some((line.line, Titles { section: name, columns: Vec::new() }));
        } else if let Some(name) = rest.strip_prefix("END_") {
            let Some((_, titles)) = open.take().filter(|(_, titles)| titles.section == name) else {
                return Err(line.error(format!("{} ends a section that was not started", clip(rest))));
            };
            reader.close(titles.section);
        } else if let Some((_, titles)) = &mut open {
            let row = row(&line)?;
            if titles.columns.is_empty() {
                titles.columns = row;
            } else if !rest.is_empty() {
                reader.row(&line, titles, &row)?;
            }
        }
        // Lines between sections are headers, or an index of the sections.
    }
    if let Some((start, titles)) = open {
        let message = format!("section {} has no END_{0}; the file is truncated", titles.section);
        return Err(ImportError::at(origin, start, message));
    }
    reader.finish(origin, options)
}

/// Splits a row at its commas outside of quotes.
fn row<'a>(line: &Cursor<'a>) -> Result<Vec<&'a str>, ImportError> {
    let mut columns = Vec::new();
    let (mut quoted, mut start) = (false, 0);
    let text = line.rest;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                columns.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if columns.len() == MAX_COLUMNS {
            return Err(line.error(format!("the row has more than {MAX_COLUMNS} columns")));
        }
    }
    if quoted {
        return Err(line.error(format!("a double quote is not closed in {}", clip(text))));
    }
    columns.push(&text[start..]);
    let bare = |column: &'a str| {
        let column = column.trim();
        column.strip_prefix('"').and_then(|c| c.strip_suffix('"')).unwrap_or(column).trim()
    };
    Ok(columns.into_iter().map(bare).collect())
}

struct NodeRow<'a> {
    guid: u64,
    is_switch: bool,
    ports: Option<u16>,
    description: &'a str,
}

struct LinkRow<'a> {
    line: Cursor<'a>,
    ends: [(u64, u16); 2],
}

#[derive(Default)]
struct Reader<'a> {
    nodes: HashMap<u64, (Cursor<'a>, NodeRow<'a>)>,
    ports: HashMap<(u64, u16), PortLine>,
    links: Vec<LinkRow<'a>>,
    used: Vec<String>,
    passed_over: Vec<String>,
    adaptive: Option<u64>,
    notes: Notes,
}

const NODE_GUID: [&str; 2] = ["NodeGUID", "NodeGuid"];

impl<'a> Reader<'a> {
    fn close(&mut self, section: &str) {
        let is_used = ["NODES", "PORTS", "LINKS", "AR_INFO"].contains(&section);
        if section == "AR_INFO" {
            self.adaptive.get_or_insert(0);
        }
        let list = if is_used { &mut self.used } else { &mut self.passed_over };
        if !list.iter().any(|s| s == section) {
            list.push(section.to_owned());
        }
    }

    fn row(&mut self, line: &Cursor<'a>, titles: &Titles, row: &[&'a str]) -> Result<(), ImportError> {
        match titles.section {
            "NODES" => self.node(line, titles, row),
            "PORTS" => self.port(line, titles, row),
            "LINKS" => self.link(line, titles, row),
            "AR_INFO" => {
                let enabled = titles.get(row, &["e", "enable", "ar_enable"]);
                *self.adaptive.get_or_insert(0) += u64::from(enabled.is_some_and(|e| number(e) == Some(1)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn node(&mut self, line: &Cursor<'a>, titles: &Titles, row: &[&'a str]) -> Result<(), ImportError> {
        let guid = titles.guid(line, row, &NODE_GUID)?;
        // The database dump of OpenSM does not contain the number of ports.
        let ports = titles.get(row, &["NumPorts"]).map(|text| records::port(line, text, 10)).transpose()?;
        let kind = titles.need(line, row, &["NodeType"])?;
        let node = NodeRow {
            guid,
            is_switch: number(kind) == Some(SWITCH) || kind.to_ascii_uppercase().starts_with("SW"),
            ports,
            description: titles.need(line, row, &["NodeDesc"])?,
        };
        // Some tools write one row per port instead of one per node.
        if let Some((first, known)) = self.nodes.get(&guid) {
            if known.is_switch != node.is_switch || known.description != node.description {
                return Err(line.error(format!(
                    "node 0x{guid:016x} is described differently in line {}; each GUID must belong to one node",
                    first.line
                )));
            }
            return Ok(());
        }
        self.nodes.insert(guid, (*line, node));
        Ok(())
    }

    fn port(&mut self, line: &Cursor<'a>, titles: &Titles, row: &[&'a str]) -> Result<(), ImportError> {
        let guid = titles.guid(line, row, &NODE_GUID)?;
        let number_of = titles.number(line, row, &["PortNum"])?;
        let Some(port) = u16::try_from(number_of).ok().filter(|&port| port <= MAX_PORTS) else {
            let message = format!("PortNum is {number_of}; it must be from 0 to {MAX_PORTS}");
            return Err(line.error(message));
        };
        // Ports without a LID have 0 or "N/A".
        let text = titles.get(row, &["LID"]).unwrap_or("");
        let lid = match scan::lid(text) {
            Some(lid) => lids::known(line, Some(lid), text, &self.notes)?,
            None => None,
        };
        let lmc = titles.get(row, &["LMC"]).filter(|text| number(text).is_some());
        let lmc = lmc.map_or(Ok(0), |text| lids::lmc(line, text))?;
        let lids = lid.map(|lid| Lids::new(line, lid, lmc)).transpose()?;
        let code = |title: &str| titles.get(row, &[title]).and_then(number).unwrap_or(0);
        let rate = speed::of_codes(code("LinkWidthActv"), code("LinkSpeedActv"), code("LinkSpeedExtActv"));
        if rate.is_some() {
            for title in UNUSED {
                self.notes.unused(title, titles.get(row, &[title]).unwrap_or(""), &["0"], line.line);
            }
        }
        let port_guid = titles.get(row, &["PortGUID", "PortGuid"]).and_then(scan::guid);
        let known = PortLine { lids, guid: port_guid.filter(|&guid| guid != 0), rate };
        if self.ports.insert((guid, port), known).is_some() {
            return Err(
                line.error(format!("port {port} of node 0x{guid:016x} appears twice; it must appear once"))
            );
        }
        Ok(())
    }

    fn link(&mut self, line: &Cursor<'a>, titles: &Titles, row: &[&'a str]) -> Result<(), ImportError> {
        let end = |guid: &str, port: &str| -> Result<(u64, u16), ImportError> {
            let port = titles.need(line, row, &[port])?;
            Ok((titles.guid(line, row, &[guid])?, records::port(line, port, 10)?))
        };
        let ends = [end("NodeGuid1", "PortNum1")?, end("NodeGuid2", "PortNum2")?];
        self.links.push(LinkRow { line: *line, ends });
        Ok(())
    }

    fn finish(self, origin: &str, options: Options) -> Result<Sections, ImportError> {
        for section in ["NODES", "LINKS"] {
            if !self.used.iter().any(|s| s == section) {
                let message = format!(
                    "there is no section {section} (START_{section} ... END_{section}); the wiring needs it"
                );
                return Err(ImportError::new(origin, message));
            }
        }
        let mut records = Records::default();
        for link in &self.links {
            let mut places = Vec::with_capacity(2);
            for (guid, port) in link.ends {
                let Some((line, node)) = self.nodes.get(&guid) else {
                    return Err(link.line.error(format!(
                        "the link leads to node 0x{guid:016x}, which is not in section NODES"
                    )));
                };
                let own = self.ports.get(&(guid, port));
                // The LIDs of a switch belong to its port 0. If port 0 is not listed, the linked port has them.
                let lids = if node.is_switch { self.ports.get(&(guid, 0)).or(own) } else { own };
                let lids = lids.and_then(|port| port.lids);
                let facts = Facts {
                    key: guid,
                    guid: Some(node.guid),
                    is_switch: node.is_switch,
                    ports: node.ports.unwrap_or(port),
                    description: node.description,
                    lids,
                };
                let node = records.node(line, facts)?;
                places.push(Place { node, port, guid: own.and_then(|port| port.guid), lids });
            }
            let rates: Vec<Rate> = link.ends.iter().filter_map(|end| self.ports.get(end)?.rate).collect();
            if rates.iter().any(|&rate| rate != rates[0]) {
                self.notes.add(What::Rates, link.line.line);
            }
            let rate = rates.into_iter().min();
            records.link(&link.line, [places[0], places[1]], rate, &self.notes)?;
        }
        let built = records.topology(origin, options, &self.notes)?;
        Ok(Sections {
            topology: built.topology,
            node_guids: built.node_guids,
            used: self.used,
            passed_over: self.passed_over,
            adaptive: self.adaptive,
            notes: self.notes.texts(),
        })
    }
}
