//! Reads and writes service levels of paths and SL-to-VL tables, in the formats of the subnet manager's
//! tools.
//!
//! ```text
//! # slid dlid sl
//! 1 4 0
//! 0x0002c90300000001 0x0004 7
//!
//! Switch 0x0002c90200000000, base LID 2, "swA"
//! #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
//! 1   2   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7
//!
//! 0x0002c90200000000 1 2 0x01 0x23 0x45 0x67 0x01 0x23 0x45 0x67
//! ```
//!
//! The first format is a table of path records with one pair per line. The source is given by LID or, as
//! in `ibdmchk -c`, by GUID. The second format is `opensm-sl2vl.dump`. Its tables of adapters are skipped,
//! because they cannot cause packets to wait for each other. The third format is the input of `ibdmchk
//! -d`.

use std::collections::HashMap;
use std::fmt::Write as _;

use silvan_network::routing::lanes::{IDENTITY, LEVELS, LaneMaps, Map, PathLevels};
use silvan_network::topology::{Host, Topology, TopologyError};

use super::identity::Identities;
use super::lids::Lids;
use super::scan::{self, Cursor, Lines};
use super::{ImportError, MAX_UNICAST_LID, clip};

/// The service levels in a file, and the number of lines that were used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Service level of each pair of hosts; 0 for pairs that the file does not list.
    pub levels: PathLevels,
    /// Number of pairs of hosts in the file.
    pub pairs: u64,
    /// Number of lines about other pairs: with switches, with unknown LIDs or GUIDs, or from a host to
    /// itself.
    pub others: u64,
}

/// The SL-to-VL tables in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maps {
    /// Tables by switch and pair of ports; the identity for pairs that the file does not list.
    pub maps: LaneMaps,
    /// Number of tables that belong to switches of the topology.
    pub tables: u64,
    /// Number of other tables: of nodes that are not switches of the topology, and of outputs that lead to
    /// the switch itself.
    pub others: u64,
}

/// Reads a table of path records; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a number is out of range, a pair has two levels, a host has no LID, no pair
/// consists of hosts of the topology, or there are too many pairs of hosts.
pub fn paths(text: &str, origin: &str, topology: &Topology) -> Result<Paths, ImportError> {
    let hosts = topology.hosts.len();
    let levels = PathLevels::new(topology, 0).ok_or_else(|| {
        ImportError::new(origin, format!("{hosts} hosts have too many pairs for a table of service levels"))
    })?;
    let lids = |host: &Host| host.lid.map(|base| Lids { base, lmc: host.lmc });
    let of_host = |(i, host)| lids(host).into_iter().flat_map(Lids::all).map(move |lid| (lid, i));
    let by_lid: HashMap<u16, usize> = (0..).zip(&topology.hosts).flat_map(of_host).collect();
    if topology.hosts.iter().any(|host| host.lid.is_none()) {
        let message =
            "the topology has hosts without a LID; take it from the running fabric, not from a netlist";
        return Err(ImportError::new(origin, message));
    }
    let mut by_guid: HashMap<u64, usize> = HashMap::new();
    for (i, host) in topology.hosts.iter().enumerate() {
        // `ibdmchk` uses the GUID of the adapter, which is one less than the GUID of its first port.
        for guid in host.guid.into_iter().flat_map(|guid| [guid.saturating_sub(1), guid]) {
            by_guid.insert(guid, i);
        }
    }
    for (i, host) in topology.hosts.iter().enumerate() {
        by_guid.extend(host.guid.map(|guid| (guid, i)));
    }
    let mut paths = Paths { levels, pairs: 0, others: 0 };
    let mut seen = vec![0u64; (hosts * hosts).div_ceil(64)];
    for line in Lines::rows(text, origin) {
        let mut line = line?;
        let whole = line;
        let (source, destination, level) = (line.word(), line.word(), line.word());
        line.skip_blanks();
        let level = number(level).filter(|&level| level < LEVELS as u64 && line.rest.is_empty());
        let level = level.ok_or_else(|| {
            whole.error(format!(
                "{} is not a path; the form is `SOURCE DESTINATION SL`: a LID or GUID, a LID, and 0 to 15",
                clip(whole.rest)
            ))
        })?;
        let from = if is_guid(source) {
            scan::guid(source).map(|guid| by_guid.get(&guid).copied())
        } else {
            unicast(source).map(|lid| by_lid.get(&lid).copied())
        };
        let to = unicast(destination).map(|lid| by_lid.get(&lid).copied());
        let (Some(from), Some(to)) = (from, to) else {
            let wrong = if from.is_none() { source } else { destination };
            return Err(whole.error(format!(
                "{} is neither a LID from 1 to {MAX_UNICAST_LID} nor a GUID such as 0x0002c90300000001",
                clip(wrong)
            )));
        };
        let (Some(from), Some(to)) = (from, to) else {
            paths.others += 1;
            continue;
        };
        if from == to {
            paths.others += 1;
            continue;
        }
        let place = from * hosts + to;
        let is_known = seen[place / 64] >> (place % 64) & 1 == 1;
        let had = paths.levels.get(from, to);
        if is_known && u64::from(had) != level {
            return Err(whole.error(format!(
                "the path from \"{}\" to \"{}\" has SL {level} here, but {had} before; only one SL is allowed",
                topology.hosts[from].name, topology.hosts[to].name
            )));
        }
        paths.pairs += u64::from(!is_known);
        seen[place / 64] |= 1 << (place % 64);
        paths.levels.set(from, to, level as u8);
    }
    if paths.pairs == 0 && hosts > 1 {
        let message =
            "no path is between hosts of the topology; take both from the same fabric at the same time";
        return Err(ImportError::new(origin, message));
    }
    Ok(paths)
}

/// Whether a source is a GUID rather than a LID.
fn is_guid(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| digits.len() > 4)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(_) => scan::guid(text),
        None => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten(),
    }
}

fn unicast(text: &str) -> Option<u16> {
    scan::lid(text).filter(|lid| (1..=MAX_UNICAST_LID).contains(lid))
}

/// Reads SL-to-VL tables in either format; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a port or lane does not exist, a pair of ports has two tables, a switch of the
/// topology has no GUID, no table belongs to a switch of the topology, or there are too many pairs of ports.
pub fn maps(text: &str, origin: &str, topology: &Topology) -> Result<Maps, ImportError> {
    let maps = LaneMaps::new(topology, IDENTITY).ok_or_else(|| {
        ImportError::new(origin, "the switches have too many pairs of ports for SL-to-VL tables")
    })?;
    let by_guid: HashMap<u64, usize> =
        (0..).zip(&topology.switches).filter_map(|(i, switch)| Some((switch.guid?, i))).collect();
    if by_guid.len() < topology.switches.len() {
        let message = "the topology has switches without a GUID, but the tables name switches by GUID; take it from the running fabric";
        return Err(ImportError::new(origin, message));
    }
    let mut reader = Reader {
        topology,
        by_guid,
        found: Maps { maps, tables: 0, others: 0 },
        seen: topology.switches.iter().map(|_| Vec::new()).collect(),
    };
    // The switch to which the following tables belong; `Some(None)` for a node that is not a switch of the
    // topology.
    let mut open: Option<Option<usize>> = None;
    for line in Lines::rows(text, origin) {
        let mut line = line?;
        let whole = line;
        if ["Switch ", "Channel Adapter ", "Router "].iter().any(|kind| line.take(kind)) {
            let guid = whole.guid(line.word().trim_end_matches(','))?;
            open = Some(reader.by_guid.get(&guid).copied().filter(|_| whole.rest.starts_with("Switch")));
        } else if whole.rest.starts_with("0x") {
            let guid = whole.guid(line.word())?;
            let switch = reader.by_guid.get(&guid).copied();
            reader.table(whole, line, switch, pairs)?;
        } else {
            let switch = open.ok_or_else(|| {
                whole.error("this table belongs to no switch; it must follow the `Switch` line of its switch")
            })?;
            reader.table(whole, line, switch, singles)?;
        }
    }
    if reader.found.tables == 0 && !topology.switches.is_empty() {
        let message =
            "no table belongs to a switch of the topology; take both from the same fabric at the same time";
        return Err(ImportError::new(origin, message));
    }
    Ok(reader.found)
}

struct Reader<'a> {
    topology: &'a Topology,
    by_guid: HashMap<u64, usize>,
    found: Maps,
    /// For each switch with tables, which pairs of ports have one.
    seen: Vec<Vec<bool>>,
}

impl Reader<'_> {
    /// Parses the ports "1 2", and the lanes that follow them.
    fn table(
        &mut self,
        whole: Cursor,
        mut line: Cursor,
        switch: Option<usize>,
        read: fn(&str) -> Option<Map>,
    ) -> Result<(), ImportError> {
        let (input, output) = (line.word(), line.word());
        let map = read(line.rest).ok_or_else(|| {
            whole.error(format!(
                "{} does not contain the lanes of 16 service levels, each 0 to 15; the forms are `1 2 : 0 1 2 3 ...` \
                 after a `Switch` line and `0x0002c90200000000 1 2 0x01 0x23 ...`",
                clip(line.rest.trim())
            ))
        })?;
        let Some(switch) = switch else {
            self.found.others += 1;
            return Ok(());
        };
        let name = &self.topology.switches[switch].name;
        let ports = self.topology.switches[switch].ports;
        let port =
            |text: &str| number(text).and_then(|port| u16::try_from(port).ok()).filter(|&p| p <= ports);
        let (Some(input), Some(output)) = (port(input), port(output)) else {
            return Err(whole.error(format!(
                "the ports are {} and {}; switch \"{name}\" has ports 0 to {ports}",
                clip(input),
                clip(output)
            )));
        };
        if output == 0 {
            // No packet waits at a port that leads to the switch itself, so ignore its table.
            self.found.others += 1;
            return Ok(());
        }
        let seen = &mut self.seen[switch];
        if seen.is_empty() {
            seen.resize((usize::from(ports) + 1) * usize::from(ports), false);
        }
        let place = usize::from(input) * usize::from(ports) + usize::from(output) - 1;
        if std::mem::replace(&mut seen[place], true) && *self.found.maps.get(switch, input, output) != map {
            return Err(whole.error(format!(
                "ports {input} and {output} of switch \"{name}\" already have another table; only one table is allowed"
            )));
        }
        self.found.maps.set(switch, input, output, map);
        self.found.tables += 1;
        Ok(())
    }
}

/// Parses sixteen numbers after a colon.
fn singles(text: &str) -> Option<Map> {
    let mut words = text.trim_start().strip_prefix(':')?.split_whitespace();
    let mut map = IDENTITY;
    for lane in &mut map {
        *lane = number(words.next()?).filter(|&lane| lane < LEVELS as u64)? as u8;
    }
    words.next().is_none().then_some(map)
}

/// Parses eight pairs of hexadecimal digits, such as "0x01 0x23".
fn pairs(text: &str) -> Option<Map> {
    let mut words = text.split_whitespace();
    let mut map = IDENTITY;
    for two in map.chunks_mut(2) {
        let digits = words.next()?.strip_prefix("0x").filter(|digits| digits.len() == 2)?;
        let value = u8::from_str_radix(digits, 16).ok()?;
        two.copy_from_slice(&[value >> 4, value & 15]);
    }
    words.next().is_none().then_some(map)
}

/// Writes the service levels of all pairs of different hosts in the format of `ibdmchk -c`, with the base LID
/// of each destination.
///
/// # Errors
/// Same as [`Identities::of`].
pub fn write_paths(topology: &Topology, levels: &PathLevels) -> Result<String, TopologyError> {
    let ids = Identities::of(topology)?;
    let mut out = String::new();
    for (from, guid) in ids.host_guids.iter().enumerate() {
        for (to, lid) in ids.host_lids.iter().enumerate().filter(|&(to, _)| to != from) {
            let _ = writeln!(out, "0x{:016x} {lid} {}", guid.saturating_sub(1), levels.get(from, to));
        }
    }
    Ok(out)
}

/// Writes the tables between all connected ports in the format of `ibdmchk -d`.
///
/// # Errors
/// Same as [`Identities::of`].
pub fn write_maps(topology: &Topology, maps: &LaneMaps) -> Result<String, TopologyError> {
    let ids = Identities::of(topology)?;
    let wiring = topology.wiring();
    let mut out = String::new();
    for (switch, peers) in wiring.switches.iter().enumerate() {
        let linked: Vec<u16> =
            (1u16..).zip(peers).filter(|(_, peer)| peer.is_some()).map(|(port, _)| port).collect();
        for &input in &linked {
            for &output in &linked {
                let _ = write!(out, "0x{:016x} {input} {output}", ids.switch_guids[switch]);
                for two in maps.get(switch, input, output).chunks(2) {
                    let _ = write!(out, " 0x{:x}{:x}", two[0], two[1]);
                }
                out.push('\n');
            }
        }
    }
    Ok(out)
}
