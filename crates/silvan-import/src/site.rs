//! Loads a fabric from any set of files. The format of each file is detected from its content, and the best file of
//! each type is used. For every other file, a note states why it is not used.

use std::path::{Path, PathBuf};

use silvan_network::routing::Tables;
use silvan_network::routing::lanes::{IDENTITY, LaneMaps, Lanes, PathLevels};
use silvan_network::topology::Topology;

use super::detect::{Detected, detect, resembles};
pub use super::detect::{Kind, kind_of};
use super::ibnetdiscover::Options;
use super::lft::SwitchRoutes;
use super::{
    ImportError, Wiring, clip, far, hpcc, htsim, iblinkinfo, ibnetdiscover, infragraph, lanes, lft, lst,
    net_dump, ports, read_text, sections, simai,
};

/// Maximum number of files in a folder.
pub const MAX_FILES: usize = 1000;

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
    /// GUID of the adapter of each host, if the file of the wiring states it; empty if it states none.
    pub node_guids: Vec<Option<u64>>,
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

/// The reason why a file of unknown format is not used.
fn unknown(file: &Path, text: &str) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
    match name.trim_end_matches(".gz").rsplit('.').next() {
        Some("plft") => {
            "forwarding tables by private LFT are not read; those of the LFT in use are in .fdbs".to_owned()
        }
        Some("vl2vl") => "VL-to-VL tables are not read, so lanes that depend on them may be wrong".to_owned(),
        _ => format!("not in a known format of fabric files{}", resembles(file, text)),
    }
}

/// A file of known format, with its text.
type Candidate = (PathBuf, Kind, String);

/// Files of one call to [`load`], in the order in which they are considered.
struct Candidates {
    files: Vec<Candidate>,
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
                            net_dump, topologies of HPCC's simulator, SimAI and htsim, InfraGraph), forwarding tables (opensm-lfts.dump, \
                            dump_fts, fdbs, far), SL-to-VL tables or service levels of paths";
                ImportError::new(&path.display().to_string(), format!("{what}{}", resembles(path, &text)))
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
                    let why = unknown(&file, &read?);
                    self.ignore(file, None, &why);
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
    fn take(&mut self, of: impl Fn(Kind) -> bool) -> Vec<Candidate> {
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
    let (topology, node_guids) = wiring(&mut all, &mut used, options, paths)?;
    let (tables, switch_routes, groups) = forwarding(&mut all, &mut used, tables, &topology, paths)?;
    let lanes = lane_files(&mut all, &mut used, &topology)?;
    for (file, kind, _) in std::mem::take(&mut all.files) {
        let why = match kind {
            Kind::Options => "contains options, not the fabric; `silvan run --opensm-conf` reads it",
            Kind::LidCache => "OpenSM's cache of LIDs, which has no links and no routes",
            _ => "only unicast is simulated",
        };
        all.ignore(file, Some(kind), why);
    }
    Ok(Site { topology, node_guids, tables, switch_routes, lanes, groups, used, ignored: all.ignored })
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
) -> Result<(Topology, Vec<Option<u64>>), ImportError> {
    let mut best: Option<(PathBuf, Kind, Wiring, String)> = None;
    for (file, kind, text) in all.take(Kind::is_wiring) {
        if let Some((from, ..)) = best.as_ref().filter(|(.., wiring, _)| has_lids(&wiring.topology)) {
            let why = format!("the wiring was read from {}", from.display());
            all.ignore(file, Some(kind), &why);
            continue;
        }
        let (mut wiring, mut more) = read_wiring(&file, kind, &text, options)?;
        for note in std::mem::take(&mut wiring.notes) {
            more.push_str("; ");
            more.push_str(&note);
        }
        let is_better = best.is_none() || has_lids(&wiring.topology);
        let worse = if is_better {
            best.replace((file, kind, wiring, more))
        } else {
            Some((file, kind, wiring, more))
        };
        if let Some((file, kind, ..)) = worse {
            all.ignore(file, Some(kind), "it has no LIDs, and another file has the wiring");
        }
    }
    let Some((file, kind, Wiring { topology, node_guids, .. }, more)) = best else {
        let message = "there is no wiring: pass the output of `ibnetdiscover`, or ibdiagnet2.db_csv, \
                       opensm-subnet.lst, opensm-smdb.dump, or the output of `iblinkinfo`";
        return Err(ImportError::new(&whole(paths), message));
    };
    let (hosts, switches, links) = (topology.hosts.len(), topology.switches.len(), topology.links.len());
    used.push(note(&file, kind, format!("{hosts} hosts, {switches} switches, {links} links{more}")));
    Ok((topology, node_guids))
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
    let mut wiring = match kind {
        Kind::Sections => {
            let found = sections::parse(text, &origin, options)?;
            let more = format!("; sections {}", found.used.join(", "));
            let node_guids = found.node_guids;
            let mut notes = Vec::new();
            if !found.passed_over.is_empty() {
                notes.push(format!("skipped {}", found.passed_over.join(", ")));
            }
            notes.extend(
                found.adaptive.map(|switches| format!("adaptive routing enabled on {switches} switches")),
            );
            notes.extend(found.notes);
            notes.extend(detect(text).noise);
            return Ok((Wiring { node_guids, ..Wiring::new(found.topology, notes) }, more));
        }
        Kind::LinkList => lst::parse(text, &origin, options)?,
        Kind::LinkInfo => iblinkinfo::parse(text, &origin, options)?,
        Kind::Ports => ports::parse(text, &origin, options)?,
        Kind::NetDump => net_dump::parse(text, &origin, options)?,
        Kind::Hpcc => hpcc::parse(text, &origin)?,
        Kind::InfraGraph => infragraph::parse(text, &origin, options)?,
        Kind::SimAi => simai::parse(text, &origin)?,
        Kind::Htsim => htsim::parse(text, &origin)?,
        _ => ibnetdiscover::parse(text, &origin, options)?,
    };
    if matches!(kind, Kind::LinkList | Kind::Hpcc | Kind::SimAi) {
        wiring.notes.extend(detect(text).noise);
    }
    Ok((wiring, String::new()))
}

/// Reads wiring in any known format.
///
/// # Errors
/// Same as the errors of the reader, and if the file contains something else or has an unknown format.
pub fn topology(file: &Path, options: Options) -> Result<Wiring, ImportError> {
    let text = read_text(file)?;
    let wrong = |what: String| Err(ImportError::new(&file.display().to_string(), what));
    let kind = match kind_of(&text) {
        Some(kind) if kind.is_wiring() => kind,
        Some(kind) => return wrong(format!("contains {kind}, not the wiring of a fabric")),
        None => {
            let known = "ibnetdiscover, db_csv, lst, iblinkinfo, net_dump, topologies of HPCC's simulator, SimAI and htsim, InfraGraph";
            let mut like = resembles(file, &text);
            let first = text.lines().map(str::trim).find(|line| !line.is_empty());
            if let Some(first) = first.filter(|_| like.is_empty()) {
                like = format!("; it starts with {}", clip(first));
            }
            return wrong(format!("is not in a known format of wiring ({known}){like}"));
        }
    };
    read_wiring(file, kind, &text, options).map(|(wiring, _)| wiring)
}

/// A note about the lines of a terminal or an error stream in a file; empty if there are none. Only readers
/// of wiring note them themselves.
fn noise(text: &str) -> String {
    let Detected { noise, .. } = detect(text);
    noise.map_or(String::new(), |note| format!("; {note}"))
}

/// Reads forwarding tables in any known format, and notes about the file. Of adaptive tables, only the static
/// ports are used.
///
/// # Errors
/// Same as the errors of the reader. A file of unknown format is read as a dump.
pub fn tables(file: &Path, topology: &Topology) -> Result<(Tables, Vec<String>), ImportError> {
    let text = read_text(file)?;
    let origin = file.display().to_string();
    let Detected { kind, noise } = detect(&text);
    let tables = match kind {
        Some(Kind::Far) => far::parse(&text, &origin, topology)?.forwarding.tables,
        _ => lft::parse(&text, &origin, topology)?,
    };
    Ok((tables, noise.into_iter().collect()))
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
            "static ports; {} groups of ports are stored, used by {} entries{}",
            found.groups.len(),
            found.adaptive,
            noise(&text)
        );
        used.push(note(&file, kind, more));
        return Ok((found.forwarding.tables, found.forwarding.switch_routes, found.groups));
    }
    let found = lft::parse_all(&text, &origin, topology)?;
    used.push(note(&file, kind, format!("of {} switches{}", found.tables.out.len(), noise(&text))));
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
        Some((file, kind, content)) => {
            let found = lanes::paths(&content, &file.display().to_string(), topology)?;
            let hosts = topology.hosts.len() as u64;
            let mut text = format!("{} of {} pairs of hosts", found.pairs, hosts * hosts.saturating_sub(1));
            if found.others > 0 {
                text.push_str(&format!("; {} lines about other nodes skipped", found.others));
            }
            text.push_str(&noise(&content));
            used.push(note(&file, kind, text));
            found.levels
        }
        None => PathLevels::new(topology, 0).ok_or_else(too_many)?,
    };
    let maps = match maps {
        Some((file, kind, text)) => {
            let found = lanes::maps(&text, &file.display().to_string(), topology)?;
            used.push(note(&file, kind, format!("{} pairs of ports{}", found.tables, noise(&text))));
            found.maps
        }
        None => LaneMaps::new(topology, IDENTITY).ok_or_else(too_many)?,
    };
    Ok(Some(Lanes { levels, maps, detours: None }))
}
