//! The formats of lists of transfers: flow files of HPCC's simulator, connection matrices of htsim, and CSV.

use std::collections::BTreeMap;
use std::path::Path;

use silvan_network::traffic::MOST_LISTED;
use silvan_trace::read::{fields::Handling, relatives};

use crate::ImportError;
use crate::fields::CONNECTION_MATRIX;
use crate::text::{lines, without_exponent};

/// Largest number of a port of TCP or UDP.
const LAST_PORT: u64 = 65_535;
/// The columns of flow files, for messages.
const COLUMNS: &str = "source, destination, priority, port, bytes and start in seconds";
const OLD_COLUMNS: &str = "source, destination, priority, packets, start and stop";

/// A row of a list.
#[derive(Debug)]
pub struct Row<'t> {
    /// Number of the line.
    pub number: usize,
    /// The sender, a name or a number.
    pub from: &'t str,
    /// The receiver, a name or a number.
    pub to: &'t str,
    /// Payload bytes.
    pub bytes: &'t str,
    /// The service level.
    pub level: &'t str,
    /// When the transfer starts.
    pub start: &'t str,
    /// The unit of `start`.
    pub unit: &'static str,
    /// Number of decimal digits from this unit to picoseconds.
    pub digits: usize,
}

/// Reads the rows of a list for a network with a number of hosts. Also returns notes about parts that are not
/// used.
///
/// # Errors
/// If the text has none of the formats, no transfers or too many, or a line has a wrong number of fields.
pub fn read<'t>(
    text: &'t str,
    path: &Path,
    origin: &str,
    hosts: u32,
) -> Result<(Vec<Row<'t>>, Vec<String>), ImportError> {
    let mut heads = lines(text).map(|(_, line)| line);
    let Some(first) = heads.next() else { return Err(ImportError::new(origin, "has no transfers")) };
    if first.contains(',') {
        return Ok((csv(text, origin)?, Vec::new()));
    }
    let is_matrix = std::iter::once(first).chain(heads).take(4).any(|line| line.starts_with("Connections "));
    if is_matrix {
        return matrix(text, origin, hosts);
    }
    flows(text, path, origin)
}

/// The flow files of HPCC, and of simulators that omit the port. Lines after the announced number of flows
/// are ignored, as in these simulators.
fn flows<'t>(text: &'t str, path: &Path, origin: &str) -> Result<(Vec<Row<'t>>, Vec<String>), ImportError> {
    let mut rows = lines(text);
    let (number, first) = rows.next().unwrap_or((1, ""));
    let count = first.parse::<usize>().ok().filter(|&count| count <= MOST_LISTED).ok_or_else(|| {
        let like = relatives::named(path, text).map_or(String::new(), |what| format!("; it looks like {what}"));
        let what = format!(
            "`{first}` is no number of flows; a flow file begins with their number (at most {MOST_LISTED}), a connection \
             matrix with `Nodes` and `Connections`, and CSV with `from,to,bytes,start_ns`{like}"
        );
        ImportError::at(origin, number, what)
    })?;
    let mut found = Vec::with_capacity(count);
    let mut is_old = count > 0;
    for (number, line) in rows.by_ref().take(count) {
        let wrong = |what: String| Err(ImportError::at(origin, number, what));
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (from, to, level, bytes, start) = match fields[..] {
            [from, to, level, port, bytes, start] => {
                let is_fraction = without_exponent(bytes).is_some_and(|bytes| bytes.contains('.'));
                if port.parse::<u64>().map_or(true, |port| port > LAST_PORT) || is_fraction {
                    return wrong(other_columns(line));
                }
                is_old &= is_old_row(bytes, start);
                (from, to, level, bytes, start)
            }
            [from, to, level, bytes, start] => {
                is_old = false;
                (from, to, level, bytes, start)
            }
            _ => return wrong(format!("`{line}` is no flow; a line has {COLUMNS}")),
        };
        found.push(Row { number, from, to, bytes, level, start, unit: "seconds", digits: 12 });
    }
    if found.len() < count {
        let what = format!("the first line announces {count} flows, but {} follow", found.len());
        return Err(ImportError::at(origin, number, what));
    }
    if is_old && let Some(row) = found.first() {
        let line = text.lines().nth(row.number - 1).unwrap_or_default().trim();
        return Err(ImportError::at(origin, row.number, other_columns(line)));
    }
    let notes = match rows.count() {
        0 => Vec::new(),
        more => vec![format!("{more} lines after the announced {count} flows are not used")],
    };
    Ok((found, notes))
}

/// Whether the last two columns can be a start and a stop: the former is smaller, and no more bytes than
/// seconds are unlikely.
fn is_old_row(bytes: &str, start: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    number(bytes) > 0.0 && number(bytes) <= number(start)
}

/// The error for a line in the order of the older simulator.
fn other_columns(line: &str) -> String {
    format!(
        "`{line}` has the columns of the older ns3-rdma ({OLD_COLUMNS}), which do not contain the number of bytes; the \
         columns must be {COLUMNS}, where a port is at most {LAST_PORT}"
    )
}

/// The connection matrices of htsim (`.cm`): `Nodes N`, `Connections N`, and a line `0->3 id 1 start 0 size
/// 2000` per connection, with the start in picoseconds.
fn matrix<'t>(text: &'t str, origin: &str, hosts: u32) -> Result<(Vec<Row<'t>>, Vec<String>), ImportError> {
    let mut notes = Vec::new();
    let (mut found, mut announced, mut ignored) = (Vec::new(), None, BTreeMap::new());
    for (number, line) in lines(text) {
        let wrong = |what: String| ImportError::at(origin, number, what);
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let Some((from, to)) = first.split_once("->") else {
            let value = words.next().unwrap_or_default();
            let count = value.parse::<usize>().map_err(|_| wrong(format!("`{line}` has no number")));
            match (first, CONNECTION_MATRIX.handling(first)) {
                ("Connections", _) => announced = Some(count?),
                ("Nodes", _) => match count? {
                    nodes if nodes == hosts as usize => {}
                    nodes => notes.push(format!("Nodes is {nodes}, but the network has {hosts} hosts")),
                },
                ("Triggers" | "Failures", _) if count.as_ref().is_ok_and(|&count| count == 0) => {}
                (_, None) => return Err(wrong(format!("`{first}` is no key of a connection matrix"))),
                (_, Some(Handling::Refused)) => {
                    return Err(wrong(format!(
                        "`{first}` is not supported: transfers start at given times, and events of a scenario are [[event]]"
                    )));
                }
                _ => drop(count?),
            }
            continue;
        };
        let mut row =
            Row { number, from, to, bytes: "", level: "0", start: "", unit: "picoseconds", digits: 0 };
        while let Some(key) = words.next() {
            let mut value = || words.next().ok_or_else(|| wrong(format!("`{key}` has no value")));
            match (key, CONNECTION_MATRIX.handling(key)) {
                ("start", _) => row.start = value()?,
                ("size", _) => row.bytes = value()?,
                (_, None) => return Err(wrong(format!("`{key}` is no key of a connection"))),
                (_, Some(Handling::Refused)) => {
                    let what =
                        format!("`{key}` is not supported: a transfer of a list starts at a given time");
                    return Err(wrong(what));
                }
                (_, Some(handling)) => {
                    value()?;
                    if handling == Handling::Noted {
                        *ignored.entry(key).or_insert(0) += 1;
                    }
                }
            }
        }
        if row.start.is_empty() || row.bytes.is_empty() {
            return Err(wrong(format!(
                "`{line}` must have a start and a size, such as `0->3 id 1 start 0 size 2000`"
            )));
        }
        if found.len() == MOST_LISTED {
            return Err(wrong(format!("more than {MOST_LISTED} connections")));
        }
        found.push(row);
    }
    if announced != Some(found.len()) {
        let what = format!("announces {} connections, but has {}", announced.unwrap_or(0), found.len());
        return Err(ImportError::new(origin, what));
    }
    notes.extend(ignored.into_iter().map(|(key, count)| format!("{key} of {count} connections is not used")));
    Ok((found, notes))
}

/// Reads CSV with a line of column names.
fn csv<'t>(text: &'t str, origin: &str) -> Result<Vec<Row<'t>>, ImportError> {
    const KNOWN: [&str; 5] = ["from", "to", "bytes", "start_ns", "sl"];
    let mut rows = lines(text);
    let (number, header) = rows.next().unwrap_or((1, ""));
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let column = |name: &str| names.iter().position(|&other| other == name);
    let is_known = names.iter().all(|name| KNOWN.contains(name));
    let needed = [column("from"), column("to"), column("bytes"), column("start_ns")];
    let [Some(from), Some(to), Some(bytes), Some(start)] = needed else {
        let what = format!("the columns are `{header}`; must be from, to, bytes, start_ns and optionally sl");
        return Err(ImportError::at(origin, number, what));
    };
    if !is_known {
        let what = format!("the columns are `{header}`; must be from, to, bytes, start_ns and optionally sl");
        return Err(ImportError::at(origin, number, what));
    }
    let level = column("sl");
    let mut found = Vec::new();
    for (number, line) in rows {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != names.len() {
            let what =
                format!("the line has {} columns, but the first one has {}", fields.len(), names.len());
            return Err(ImportError::at(origin, number, what));
        }
        if found.len() == MOST_LISTED {
            return Err(ImportError::at(origin, number, format!("more than {MOST_LISTED} transfers")));
        }
        found.push(Row {
            number,
            from: fields[from],
            to: fields[to],
            bytes: fields[bytes],
            level: level.map_or("0", |level| fields[level]),
            start: fields[start],
            unit: "nanoseconds",
            digits: 3,
        });
    }
    Ok(found)
}
