//! Loads a fabric from any set of files. The format of each file is detected from its content, and the best file of
//! each type is used. For every other file, a note states why it is not used.

use std::fmt;
use std::path::{Path, PathBuf};

use silvan_network::routing::Tables;
use silvan_network::routing::lanes::{IDENTITY, LaneMaps, Lanes, PathLevels};
use silvan_network::topology::Topology;

use super::ibnetdiscover::Options;
use super::lft::SwitchRoutes;
use super::{
    ImportError, Wiring, far, iblinkinfo, ibnetdiscover, lanes, lft, lst, net_dump, ports, read_text,
    sections,
};

/// Maximum number of files in a folder.
pub const MAX_FILES: usize = 1000;
/// Number of lines at the start of a file from which its format is detected.
const LINES_LOOKED_AT: usize = 200;

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
            Self::Dump => "forwarding tables (dump)",
            Self::Fdbs => "forwarding tables (fdbs)",
            Self::Far => "forwarding tables (adaptive, static ports)",
            Self::LaneMaps => "SL-to-VL tables",
            Self::PathLevels => "service levels of paths",
            Self::Options => "options of OpenSM",
            Self::Multicast => "multicast tables",
        })
    }
}

impl Kind {
    fn is_wiring(self) -> bool {
        self <= Self::NetDump
    }

    fn is_tables(self) -> bool {
        (Self::Dump..=Self::Far).contains(&self)
    }
}

/// A file that the import examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub file: PathBuf,
    /// Format of the file; `None` if unknown.
    pub kind: Option<Kind>,
    /// A summary of the content of the file, or the reason why it was not used.
    pub text: String,
}

/// A fabric, as described by its files.
#[derive(Debug, Clone)]
pub struct Site {
    /// The wiring.
    pub topology: Topology,
    /// Forwarding tables.
    pub tables: Tables,
    /// Routes to the switches themselves.
    pub switch_routes: SwitchRoutes,
    /// Service levels and SL-to-VL tables; `None` if no file contains them.
    pub lanes: Option<Lanes>,
    /// Groups of ports for adaptive routing.
    pub groups: Vec<far::Group>,
    /// Files that were used, with a summary of their content.
    pub used: Vec<Note>,
    /// Files that were not used, with the reasons.
    pub ignored: Vec<Note>,
}

/// Detects the format of a text from its first lines. `None` if it is unknown.
#[must_use]
pub fn kind_of(text: &str) -> Option<Kind> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LINES_LOOKED_AT).find_map(kind_of_line)
}

fn kind_of_line(line: &str) -> Option<Kind> {
    let starts = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
    if line.starts_with('#') {
        return None;
    }
    if line.starts_with("START_") {
        return Some(Kind::Sections);
    }
    if line.starts_with("Unicast lids") {
        return Some(Kind::Dump);
    }
    if line.contains("dump_ucast_routes: Switch ") {
        return Some(Kind::Fdbs);
    }
    if line.contains("mcast_routes") || line.starts_with("Multicast mlids") || line.contains("MLID") {
        return Some(Kind::Multicast);
    }
    if line.starts_with('{') && line.contains(" NodeGUID:") {
        return Some(Kind::LinkList);
    }
    if line.contains("==(") && line.contains(")==>") {
        return Some(Kind::LinkInfo);
    }
    if ports::is_line(line) {
        return Some(Kind::Ports);
    }
    if net_dump::is_head(line) {
        return Some(Kind::NetDump);
    }
    if starts(&["Switch ", "Channel Adapter ", "Router "]) && line.contains(", base LID ") {
        return Some(Kind::LaneMaps);
    }
    let node = starts(&["Switch", "Ca", "Hca", "Rt"]) && line.contains('"');
    if node || starts(&["vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=", "hcaguid="])
    {
        return Some(Kind::Discovered);
    }
    if starts(&["Groups Definition", "LFT Definition"]) {
        return Some(Kind::Far);
    }
    let words: Vec<&str> = line.split_whitespace().take(12).collect();
    let numbers = words.iter().all(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())
    });
    match words.as_slice() {
        [_, _, _] if numbers => Some(Kind::PathLevels),
        [guid, _, _, ..] if words.len() == 11 && numbers && guid.starts_with("0x") => Some(Kind::LaneMaps),
        [key, _, ..]
            if key.starts_with("cc_") || *key == "congestion_control" || *key == "routing_engine" =>
        {
            Some(Kind::Options)
        }
        _ => None,
    }
}

/// Files that Silvan recognizes but does not read: the start of one of their first lines, and a description.
const RELATIVES: [(&str, &str); 11] = [
    ("SwitchName=", "topology.conf of Slurm, which has no ports"),
    ("StartDevice", "a list of cables of UFM (NDT)"),
    ("Port=1 Lid=", "counters of ports (ibdiagnet2.pm)"),
    ("CA '", "output of ibstat, which describes one host"),
    ("hca_id:", "output of ibv_devinfo, which describes one host"),
    ("digraph ", "a graph of Graphviz"),
    ("graph ", "a graph of Graphviz"),
    ("<!DOCTYPE", "an HTML page"),
    ("<?xml", "an XML file"),
    ("num_ranks", "a trace of an application (GOAL)"),
    ("[topology]", "a scenario, whose network `silvan fabric route` writes as a fabric"),
];

/// The format that a text of unknown format resembles, as the end of a sentence; empty if there is none.
fn resembles(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_LOOKED_AT);
    let json = text.trim_start().starts_with(['{', '[']) && text.trim_end().ends_with(['}', ']']);
    let found = lines.find_map(|line| RELATIVES.iter().find(|(start, _)| line.starts_with(start)));
    match found {
        Some((_, what)) => format!("; it looks like {what}"),
        None if json => "; it looks like JSON".to_owned(),
        None => String::new(),
    }
}

/// The reason why a file of unknown format is not used.
fn unknown(file: &Path) -> &'static str {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
    match name.trim_end_matches(".gz").rsplit('.').next() {
        Some("plft") => "forwarding tables by private LFT are not read; those of the LFT in use are in .fdbs",
        Some("vl2vl") => "VL-to-VL tables are not read, so lanes that depend on them may be wrong",
        _ => "not in a known format of fabric files",
    }
}

/// Files of one call to [`load`], in the order in which they are considered.
struct Candidates {
    files: Vec<(PathBuf, Kind, String)>,
    ignored: Vec<Note>,
}

impl Candidates {
    fn gather(paths: &[PathBuf]) -> Result<Self, ImportError> {
        let mut found = Self { files: Vec::new(), ignored: Vec::new() };
        for path in paths {
            if path.is_dir() {
                found.folder(path)?;
                continue;
            }
            let text = read_text(path)?;
            let kind = kind_of(&text).ok_or_else(|| {
                let what = "is not in a known format of fabric files: wiring (ibnetdiscover, db_csv, lst, iblinkinfo, \
                            net_dump), forwarding tables (opensm-lfts.dump, dump_fts, fdbs, far), SL-to-VL tables or \
                            service levels of paths";
                ImportError::new(&path.display().to_string(), format!("{what}{}", resembles(&text)))
            })?;
            found.files.push((path.clone(), kind, text));
        }
        // The sort is stable, so among files of one type, the one that the user named first comes first.
        found.files.sort_by_key(|(_, kind, _)| *kind);
        Ok(found)
    }

    fn folder(&mut self, folder: &Path) -> Result<(), ImportError> {
        let origin = folder.display().to_string();
        let unreadable = |e: std::io::Error| ImportError::new(&origin, format!("cannot be read: {e}"));
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_file() {
                files.push(path);
            }
            if files.len() > MAX_FILES {
                let message = format!("the folder has more than {MAX_FILES} files; name those of the fabric");
                return Err(ImportError::new(&origin, message));
            }
        }
        files.sort();
        for file in files {
            let read = read_text(&file);
            match read.as_deref().map(kind_of) {
                Ok(Some(kind)) => {
                    let text = read?;
                    self.files.push((file, kind, text));
                }
                Ok(None) => {
                    let why = unknown(&file);
                    self.ignore(file, None, why);
                }
                Err(error) => {
                    let message = error.message.clone();
                    self.ignore(file, None, &message);
                }
            }
        }
        Ok(())
    }

    fn ignore(&mut self, file: PathBuf, kind: Option<Kind>, text: &str) {
        self.ignored.push(Note { file, kind, text: text.to_owned() });
    }

    /// Removes and returns the files of some types.
    fn take(&mut self, of: impl Fn(Kind) -> bool) -> Vec<(PathBuf, Kind, String)> {
        let (taken, rest) = std::mem::take(&mut self.files).into_iter().partition(|(_, kind, _)| of(*kind));
        self.files = rest;
        taken
    }
}

/// Loads a fabric from files and folders; `tables` names the file with the forwarding tables, if given.
///
/// # Errors
/// Same as the errors of the readers. It is also an error if a named file has an unknown format, or if the wiring or
/// the forwarding tables are missing.
pub fn load(paths: &[PathBuf], tables: Option<&Path>, options: Options) -> Result<Site, ImportError> {
    let mut all = Candidates::gather(paths)?;
    let mut used = Vec::new();
    let topology = wiring(&mut all, &mut used, options, paths)?;
    let (tables, switch_routes, groups) = forwarding(&mut all, &mut used, tables, &topology, paths)?;
    let lanes = lane_files(&mut all, &mut used, &topology)?;
    for (file, kind, _) in std::mem::take(&mut all.files) {
        let why = match kind {
            Kind::Options => "contains options, not the fabric; `silvan run --opensm-conf` reads it",
            _ => "only unicast is simulated",
        };
        all.ignore(file, Some(kind), why);
    }
    Ok(Site { topology, tables, switch_routes, lanes, groups, used, ignored: all.ignored })
}

fn note(file: &Path, kind: Kind, text: String) -> Note {
    Note { file: file.to_owned(), kind: Some(kind), text }
}

fn whole(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn wiring(
    all: &mut Candidates,
    used: &mut Vec<Note>,
    options: Options,
    paths: &[PathBuf],
) -> Result<Topology, ImportError> {
    let mut best: Option<(PathBuf, Kind, Topology, String)> = None;
    for (file, kind, text) in all.take(Kind::is_wiring) {
        if let Some((from, ..)) = best.as_ref().filter(|(.., topology, _)| has_lids(topology)) {
            let why = format!("the wiring was read from {}", from.display());
            all.ignore(file, Some(kind), &why);
            continue;
        }
        let (Wiring { topology, notes }, mut more) = read_wiring(&file, kind, &text, options)?;
        for note in notes {
            more.push_str("; ");
            more.push_str(&note);
        }
        let is_better = best.is_none() || has_lids(&topology);
        let worse = if is_better {
            best.replace((file, kind, topology, more))
        } else {
            Some((file, kind, topology, more))
        };
        if let Some((file, kind, ..)) = worse {
            all.ignore(file, Some(kind), "it has no LIDs, and another file has the wiring");
        }
    }
    let Some((file, kind, topology, more)) = best else {
        let message = "there is no wiring: pass the output of `ibnetdiscover`, or ibdiagnet2.db_csv, \
                       opensm-subnet.lst, opensm-smdb.dump, or the output of `iblinkinfo`";
        return Err(ImportError::new(&whole(paths), message));
    };
    let (hosts, switches, links) = (topology.hosts.len(), topology.switches.len(), topology.links.len());
    used.push(note(&file, kind, format!("{hosts} hosts, {switches} switches, {links} links{more}")));
    Ok(topology)
}

fn has_lids(topology: &Topology) -> bool {
    topology.hosts.iter().all(|host| host.lid.is_some())
}

/// Reads the wiring from a file of known format. Also returns a text about other contents of the file.
fn read_wiring(
    file: &Path,
    kind: Kind,
    text: &str,
    options: Options,
) -> Result<(Wiring, String), ImportError> {
    let origin = file.display().to_string();
    let wiring = match kind {
        Kind::Sections => {
            let found = sections::parse(text, &origin, options)?;
            let mut more = format!("; sections {}", found.used.join(", "));
            if !found.passed_over.is_empty() {
                more.push_str(&format!("; skipped {}", found.passed_over.join(", ")));
            }
            if let Some(switches) = found.adaptive {
                more.push_str(&format!("; adaptive routing enabled on {switches} switches"));
            }
            return Ok((Wiring { topology: found.topology, notes: found.notes }, more));
        }
        Kind::LinkList => lst::parse(text, &origin, options)?,
        Kind::LinkInfo => iblinkinfo::parse(text, &origin, options)?,
        Kind::Ports => ports::parse(text, &origin, options)?,
        Kind::NetDump => net_dump::parse(text, &origin, options)?,
        _ => ibnetdiscover::parse(text, &origin, options)?,
    };
    Ok((wiring, String::new()))
}

/// Reads wiring in any known format.
///
/// # Errors
/// Same as the errors of the reader, and if the file contains something else. A file of unknown format is read as output
/// of `ibnetdiscover`.
pub fn topology(file: &Path, options: Options) -> Result<Wiring, ImportError> {
    let text = read_text(file)?;
    let wrong = |what: String| Err(ImportError::new(&file.display().to_string(), what));
    let kind = match kind_of(&text) {
        Some(kind) if kind.is_wiring() => kind,
        Some(kind) => return wrong(format!("contains {kind}, not the wiring of a fabric")),
        None if !resembles(&text).is_empty() => {
            let known = "ibnetdiscover, db_csv, lst, iblinkinfo, net_dump";
            return wrong(format!("is not in a known format of wiring ({known}){}", resembles(&text)));
        }
        None => Kind::Discovered,
    };
    read_wiring(file, kind, &text, options).map(|(wiring, _)| wiring)
}

/// Reads forwarding tables in any known format. Of adaptive tables, only the static ports are used.
///
/// # Errors
/// Same as the errors of the reader. A file of unknown format is read as a dump.
pub fn tables(file: &Path, topology: &Topology) -> Result<Tables, ImportError> {
    let text = read_text(file)?;
    let origin = file.display().to_string();
    if kind_of(&text) == Some(Kind::Far) {
        return far::parse(&text, &origin, topology).map(|found| found.forwarding.tables);
    }
    lft::parse(&text, &origin, topology)
}

type Routes = (Tables, SwitchRoutes, Vec<far::Group>);

fn forwarding(
    all: &mut Candidates,
    used: &mut Vec<Note>,
    named: Option<&Path>,
    topology: &Topology,
    paths: &[PathBuf],
) -> Result<Routes, ImportError> {
    let mut files = all.take(Kind::is_tables);
    if let Some(named) = named {
        let text = read_text(named)?;
        let kind = kind_of(&text).filter(|kind| kind.is_tables()).unwrap_or(Kind::Dump);
        files.insert(0, (named.to_owned(), kind, text));
    }
    // Dumps with names are preferred, because they are complete.
    files
        .sort_by_key(|(file, kind, text)| (Some(file.as_path()) != named, *kind, !text.contains("portguid")));
    let mut files = files.into_iter();
    let Some((file, kind, text)) = files.next() else {
        let message = "there are no forwarding tables: pass opensm-lfts.dump, the output of `dump_fts`, opensm.fdbs or \
                       ibdiagnet2.far; or compute routes with `silvan fabric route WIRING --out opensm-lfts.dump`";
        return Err(ImportError::new(&whole(paths), message));
    };
    for (other, kind, _) in files {
        let why = format!("the tables were read from {}", file.display());
        all.ignore(other, Some(kind), &why);
    }
    let origin = file.display().to_string();
    if kind == Kind::Far {
        let found = far::parse(&text, &origin, topology)?;
        let more = format!(
            "static ports; {} groups of ports are stored, used by {} entries",
            found.groups.len(),
            found.adaptive
        );
        used.push(note(&file, kind, more));
        return Ok((found.forwarding.tables, found.forwarding.switch_routes, found.groups));
    }
    let found = lft::parse_all(&text, &origin, topology)?;
    used.push(note(&file, kind, format!("of {} switches", found.tables.out.len())));
    Ok((found.tables, found.switch_routes, Vec::new()))
}

fn lane_files(
    all: &mut Candidates,
    used: &mut Vec<Note>,
    topology: &Topology,
) -> Result<Option<Lanes>, ImportError> {
    let mut first = |kind: Kind| {
        let mut files = all.take(|k| k == kind).into_iter();
        let first = files.next();
        for (file, kind, _) in files {
            let why =
                first.as_ref().map_or(String::new(), |(from, ..)| format!("{} is used", from.display()));
            all.ignore(file, Some(kind), &why);
        }
        first
    };
    let (levels, maps) = (first(Kind::PathLevels), first(Kind::LaneMaps));
    if levels.is_none() && maps.is_none() {
        return Ok(None);
    }
    let too_many = || ImportError::new("the fabric", "has too many hosts or ports for service levels");
    let levels = match levels {
        Some((file, kind, text)) => {
            let found = lanes::paths(&text, &file.display().to_string(), topology)?;
            let hosts = topology.hosts.len() as u64;
            let mut text = format!("{} of {} pairs of hosts", found.pairs, hosts * hosts.saturating_sub(1));
            if found.others > 0 {
                text.push_str(&format!("; {} lines about other nodes skipped", found.others));
            }
            used.push(note(&file, kind, text));
            found.levels
        }
        None => PathLevels::new(topology, 0).ok_or_else(too_many)?,
    };
    let maps = match maps {
        Some((file, kind, text)) => {
            let found = lanes::maps(&text, &file.display().to_string(), topology)?;
            used.push(note(&file, kind, format!("{} pairs of ports", found.tables)));
            found.maps
        }
        None => LaneMaps::new(topology, IDENTITY).ok_or_else(too_many)?,
    };
    Ok(Some(Lanes { levels, maps, detours: None }))
}
