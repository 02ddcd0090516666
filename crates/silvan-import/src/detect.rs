//! Detects the format of a file from all of its lines, without those of a terminal or an error stream.
//!
//! Some lines occur in only one format, such as `START_NODES`. The format with the most lines of this kind is
//! used. The rows of other formats, such as three numbers, could belong to several formats. They determine
//! the format only if at least half of the lines have the same form.

use std::fmt;
use std::path::Path;

use silvan_trace::read::relatives;

use super::notes::{Notes, What};
use super::scan::guid;
use super::{MAX_UNICAST_LID, hpcc, htsim, infragraph, net_dump, noise, ports, simai};

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Output of `ibnetdiscover`, or a netlist.
    Discovered,
    /// `ibdiagnet2.db_csv`, `opensm-smdb.dump`.
    Sections,
    /// `opensm-subnet.lst`, `ibdiagnet2.lst`.
    LinkList,
    /// Output of `iblinkinfo`.
    LinkInfo,
    /// Output of `ibnetdiscover -p`.
    Ports,
    /// `ibdiagnet2.net_dump`.
    NetDump,
    /// A topology of HPCC's simulator.
    Hpcc,
    /// A topology of SimAI.
    SimAi,
    /// An infrastructure of InfraGraph.
    InfraGraph,
    /// A topology of htsim.
    Htsim,
    /// `opensm-lfts.dump`, output of `dump_fts`.
    Dump,
    /// `opensm.fdbs`, `ibdiagnet2.fdbs`.
    Fdbs,
    /// `ibdiagnet2.far`.
    Far,
    /// `opensm-sl2vl.dump`, or the tables that `ibdmchk -d` reads.
    LaneMaps,
    /// Service levels of paths.
    PathLevels,
    /// Options of OpenSM.
    Options,
    /// Multicast tables.
    Multicast,
    /// `guid2lid` of OpenSM.
    LidCache,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovered => "wiring (ibnetdiscover)",
            Self::Sections => "wiring (sections of db_csv or smdb)",
            Self::LinkList => "wiring (list of links)",
            Self::LinkInfo => "wiring (iblinkinfo)",
            Self::Ports => "wiring (ibnetdiscover -p)",
            Self::NetDump => "wiring (net_dump)",
            Self::Hpcc => "wiring (topology of HPCC's simulator)",
            Self::SimAi => "wiring (topology of SimAI)",
            Self::InfraGraph => "wiring (InfraGraph)",
            Self::Htsim => "wiring (topology of htsim)",
            Self::Dump => "forwarding tables (dump)",
            Self::Fdbs => "forwarding tables (fdbs)",
            Self::Far => "forwarding tables (adaptive, static ports)",
            Self::LaneMaps => "SL-to-VL tables",
            Self::PathLevels => "service levels of paths",
            Self::Options => "options of OpenSM",
            Self::Multicast => "multicast tables",
            Self::LidCache => "LIDs by GUID (guid2lid)",
        })
    }
}

impl Kind {
    pub(super) fn is_wiring(self) -> bool {
        self <= Self::Htsim
    }

    pub(super) fn is_tables(self) -> bool {
        (Self::Dump..=Self::Far).contains(&self)
    }
}

/// What is known about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Detected {
    /// The format; `None` if it is unknown.
    pub kind: Option<Kind>,
    /// A note about the lines of a terminal or an error stream, if there are any.
    pub noise: Option<String>,
}

/// Numbers of signs of formats.
type Counts = Vec<(Kind, usize)>;

/// What a line says about the format.
enum Sign {
    /// The line occurs only in this format.
    Sure(Kind),
    /// The line could be a row of this format.
    Row(Kind),
}

/// Detects the format of a text. `None` if it is unknown.
#[must_use]
pub fn kind_of(text: &str) -> Option<Kind> {
    detect(text).kind
}

/// Detects the format of a text, and counts the lines that do not belong to it.
pub(super) fn detect(text: &str) -> Detected {
    let notes = Notes::default();
    // The number of signs of each format, in the order in which they first occur.
    let (mut sure, mut rows) = (Counts::new(), Counts::new());
    let mut lines = 0usize;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if noise::is_noise(line) {
            notes.add(What::Around, number);
            continue;
        }
        lines += 1;
        let (counts, kind) = match sign(line) {
            Some(Sign::Sure(kind)) => (&mut sure, kind),
            Some(Sign::Row(kind)) => (&mut rows, kind),
            None => continue,
        };
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    let kind = match () {
        () if htsim::is_htsim(text) => Some(Kind::Htsim),
        () if infragraph::is_infragraph(text) => Some(Kind::InfraGraph),
        () if simai::is_simai(text) => Some(Kind::SimAi),
        () if hpcc::is_hpcc(text) => Some(Kind::Hpcc),
        () => best(&sure).or_else(|| best(&rows).filter(|kind| is_quorum(&rows, *kind, lines))),
    };
    Detected { kind, noise: notes.texts().pop() }
}

/// The format with the most signs; among equal ones, the first. Multicast tables and options accompany other
/// contents, so they count only if there is nothing else.
fn best(counts: &[(Kind, usize)]) -> Option<Kind> {
    let is_minor = |kind: Kind| matches!(kind, Kind::Multicast | Kind::Options);
    let major = counts.iter().rev().filter(|(kind, _)| !is_minor(*kind)).max_by_key(|(_, count)| *count);
    major.or_else(|| counts.iter().rev().max_by_key(|(_, count)| *count)).map(|(kind, _)| *kind)
}

/// Whether at least half of the lines are rows of a format.
fn is_quorum(rows: &[(Kind, usize)], kind: Kind, lines: usize) -> bool {
    rows.iter().any(|(of, count)| *of == kind && count * 2 >= lines)
}

fn sign(line: &str) -> Option<Sign> {
    let starts = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
    let node = starts(&["Switch", "Ca", "Hca", "Rt"]) && line.contains('"');
    let keys = ["vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=", "hcaguid="];
    let sure = match () {
        () if line.starts_with("START_") => Kind::Sections,
        () if line.starts_with("Unicast lids") => Kind::Dump,
        () if line.contains("dump_ucast_routes: Switch ") => Kind::Fdbs,
        () if line.contains("mcast_routes")
            || line.starts_with("Multicast mlids")
            || line.contains("MLID") =>
        {
            Kind::Multicast
        }
        () if line.starts_with('{') && line.contains(" NodeGUID:") => Kind::LinkList,
        () if line.contains("==(") && line.contains(")==>") => Kind::LinkInfo,
        () if ports::is_line(line) => Kind::Ports,
        () if net_dump::is_head(line) => Kind::NetDump,
        () if starts(&["Switch ", "Channel Adapter ", "Router "]) && line.contains(", base LID ") => {
            Kind::LaneMaps
        }
        () if node || starts(&keys) => Kind::Discovered,
        () if starts(&["Groups Definition", "LFT Definition"]) => Kind::Far,
        () => return row(line),
    };
    Some(Sign::Sure(sure))
}

fn row(line: &str) -> Option<Sign> {
    let words: Vec<&str> = line.split_whitespace().take(12).collect();
    let numbers = words.iter().all(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())
    });
    match words.as_slice() {
        [guid, low, high] if numbers && is_cached(guid, low, high) => Some(Sign::Row(Kind::LidCache)),
        [_, _, _] if numbers => Some(Sign::Row(Kind::PathLevels)),
        [guid, _, _, ..] if words.len() == 11 && numbers && guid.starts_with("0x") => {
            Some(Sign::Row(Kind::LaneMaps))
        }
        [key, _, ..]
            if key.starts_with("cc_") || *key == "congestion_control" || *key == "routing_engine" =>
        {
            Some(Sign::Sure(Kind::Options))
        }
        _ => None,
    }
}

/// Whether three numbers are a GUID with its smallest and largest LID, as OpenSM stores them: all
/// hexadecimal. A service level is a decimal number.
fn is_cached(port: &str, low: &str, high: &str) -> bool {
    let lid = |text: &str| text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let is_guid = port.strip_prefix("0x").is_some_and(|digits| digits.len() > 4 && guid(digits).is_some());
    let lids = lid(low).zip(lid(high));
    is_guid && lids.is_some_and(|(low, high)| low <= high && high <= MAX_UNICAST_LID)
}

/// The format that a text of unknown format resembles, as the end of a sentence; empty if there is none.
pub(super) fn resembles(file: &Path, text: &str) -> String {
    relatives::named(file, text).map_or(String::new(), |what| format!("; it looks like {what}"))
}
