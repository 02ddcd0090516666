//! Adaptive routing tables of ibdiagnet (`ibdiagnet2.far`): groups of ports, and tables with a static port
//! and a group for each LID.
//!
//! ```text
//! Switch 0x0002c90200000000 ...
//! Groups Definition:
//! Group  SubGroup  WHBF  Ports
//! ----------------------------
//! 1      0         0     3,4,5
//! LFT Definition:
//! LID     StaticPort  State   Group
//! ---------------------------------
//! 7       3           Free    1
//! 8       1           Static
//! ```
//!
//! Only the static ports affect a run: they are the forwarding tables. The groups are stored but not used.
//! Lines outside of these tables are skipped.

use std::fmt::Write as _;

use silvan_network::topology::Topology;

use super::lft::{self, Forwarding};
use super::scan::{self, Cursor, Lines};
use super::{ImportError, MAX_PORTS, MAX_UNICAST_LID, clip};

/// Maximum number of groups.
const MAX_GROUPS: usize = 4 << 20;

/// A group of ports among which a switch can select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// GUID of the switch.
    pub switch: u64,
    /// Number of the group.
    pub group: u32,
    /// Number of the subgroup.
    pub subgroup: u32,
    /// The ports of the group.
    pub ports: Vec<u16>,
}

/// Contents of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adaptive {
    /// Static ports, as forwarding tables.
    pub forwarding: Forwarding,
    /// All groups, by switch in the order of the file.
    pub groups: Vec<Group>,
    /// Number of entries that are not static and select among the ports of a group.
    pub adaptive: u64,
    /// Number of entries that use only the static port.
    pub fixed: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Table {
    None,
    Groups,
    Routes,
}

/// Parses a file; error messages call it `origin`.
///
/// # Errors
/// If a row is malformed, a number is out of range, there are too many groups, or the static ports are not
/// valid forwarding tables of the topology (see [`lft::parse_all`]).
pub fn parse(text: &str, origin: &str, topology: &Topology) -> Result<Adaptive, ImportError> {
    let (mut groups, mut adaptive, mut fixed) = (Vec::new(), 0, 0);
    let (mut switch, mut table) = (None, Table::None);
    // Convert the static ports to OpenSM's format, so that one reader checks both formats. Each line keeps
    // its line number for error messages.
    let mut tables = String::with_capacity(text.len());
    for line in Lines::new(text, origin) {
        let mut line = line?;
        line.skip_blanks();
        let starts_with_digit = line.rest.starts_with(|c: char| c.is_ascii_digit());
        if line.rest.starts_with("Switch ") {
            let guid = line.rest.split_whitespace().nth(1).map(|word| word.trim_end_matches([',', ':']));
            let guid = guid.and_then(scan::guid).ok_or_else(|| {
                line.error(format!(
                    "{} names no switch; the form is `Switch 0x0002c90200000000`",
                    clip(line.rest)
                ))
            })?;
            (switch, table) = (Some(guid), Table::None);
            let _ = write!(tables, "dump_ucast_routes: Switch 0x{guid:016x}");
        } else if line.rest.starts_with("Groups Definition") {
            table = Table::Groups;
        } else if line.rest.starts_with("LFT Definition") {
            table = Table::Routes;
        } else if starts_with_digit && table != Table::None {
            let guid = switch.ok_or_else(|| {
                line.error(
                    "this row belongs to no switch; it must follow the `Switch 0x...` line of its switch",
                )
            })?;
            if table == Table::Groups {
                if groups.len() == MAX_GROUPS {
                    return Err(line.error(format!("there are more than {MAX_GROUPS} groups")));
                }
                groups.push(group(&line, guid)?);
            } else {
                let (lid, port, is_fixed) = route(&line)?;
                *(if is_fixed { &mut fixed } else { &mut adaptive }) += 1;
                let _ = write!(tables, "0x{lid:04x} : {port:03} : 00 : yes");
            }
        }
        tables.push('\n');
    }
    let forwarding = lft::parse_all(&tables, origin, topology)?;
    Ok(Adaptive { forwarding, groups, adaptive, fixed })
}

fn group(line: &Cursor, switch: u64) -> Result<Group, ImportError> {
    let mut words = line.rest.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
    let (Some(group), Some(subgroup), Some(_)) = (number(), number(), number()) else {
        return Err(line.error(format!(
            "{} is not a group; the form is `GROUP SUBGROUP WHBF PORT,PORT,...`",
            clip(line.rest)
        )));
    };
    let mut ports = Vec::new();
    for word in words.next().unwrap_or("").split(',').filter(|word| !word.is_empty()) {
        let port = word.parse().ok().filter(|port| (1..=MAX_PORTS).contains(port));
        let port = port.ok_or_else(|| {
            line.error(format!("the port is {}; it must be from 1 to {MAX_PORTS}", clip(word)))
        })?;
        if ports.len() == usize::from(MAX_PORTS) {
            return Err(line.error(format!("the group has more than {MAX_PORTS} ports")));
        }
        ports.push(port);
    }
    Ok(Group { switch, group, subgroup, ports })
}

/// The LID, the static port, and whether only the static port may be used.
fn route(line: &Cursor) -> Result<(u16, u16, bool), ImportError> {
    let mut words = line.rest.split_whitespace();
    let lid = words.next().and_then(scan::lid).filter(|lid| (1..=MAX_UNICAST_LID).contains(lid));
    let port = words.next().and_then(|word| word.parse::<u16>().ok()).filter(|&port| port <= 255);
    let state = words.next().unwrap_or("");
    let is_fixed = state.eq_ignore_ascii_case("static");
    let is_known = is_fixed || ["free", "hbf", "bounded"].iter().any(|s| state.eq_ignore_ascii_case(s));
    match (lid, port) {
        (Some(lid), Some(port)) if is_known => Ok((lid, port, is_fixed)),
        _ => Err(line.error(format!(
            "{} is not a route; the form is `LID PORT STATE GROUP`, STATE being Static, Free or HBF",
            clip(line.rest)
        ))),
    }
}
