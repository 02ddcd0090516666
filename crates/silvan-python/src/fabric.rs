//! Topologies and forwarding tables of real fabrics.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use serde::Serialize;
use silvan_engine::Rate;
use silvan_fabric::routing::lanes::Map;
use silvan_fabric::routing::{self, LaneAnalysis, RoutingSpec, Tables};
use silvan_fabric::topology::{Topology, TopologyError};
use silvan_scenario::import::site::{self, Note, Site};
use silvan_scenario::import::{ibnetdiscover, lanes, lft, lst};

use crate::convert::{self, FabricError};

/// Summary of a fabric and its tables. Serialized to JSON.
#[derive(Serialize)]
struct Report {
    topology: String,
    hosts: usize,
    switches: usize,
    links: usize,
    /// The largest number of LIDs of a host. Each pair has a route to each of them.
    lids_per_host: usize,
    pairs_routed: u64,
    pairs_unroutable: u64,
    /// Reasons why pairs are not routed, for the first few of them.
    problems: Vec<String>,
    /// Maps the number of switches on a route to the number of routes.
    hops: BTreeMap<usize, u64>,
    all_to_all: Load,
    /// A dependency cycle of channels in which packets can wait for each other. If `lanes` is given, the
    /// cycle consists of lanes of channels.
    deadlock: Option<String>,
    /// Analysis per lane, if service levels or SL-to-VL tables are known.
    lanes: Option<LaneAnalysis>,
    /// The SL-to-VL table of all links if it is the same everywhere; a valid value of `lanes.sl_to_vl` in a
    /// scenario.
    sl_to_vl: Option<Map>,
    /// Number of port groups for adaptive routing. They are stored but not simulated.
    adaptive_groups: usize,
    /// Files that were used, with what was read from them.
    used: Vec<File>,
    /// Files that were not used, with the reason.
    ignored: Vec<File>,
}

/// A file that the user named, or that was found in a folder.
#[derive(Serialize)]
struct File {
    file: String,
    /// Format of the file; `None` if unknown.
    kind: Option<String>,
    /// A summary of what was read from the file, or the reason it was not used.
    note: String,
}

impl File {
    fn list(notes: Vec<Note>) -> Vec<Self> {
        let of = |note: Note| Self {
            file: note.file.display().to_string(),
            kind: note.kind.map(|kind| kind.to_string()),
            note: note.text,
        };
        notes.into_iter().map(of).collect()
    }
}

/// One path or several paths.
#[derive(FromPyObject)]
pub enum Paths {
    /// A file or folder.
    One(PathBuf),
    /// Files and folders.
    Many(Vec<PathBuf>),
}

/// Flows per directed link between switches if every host sent to every other host.
#[derive(Serialize)]
struct Load {
    links: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Maps the number of flows to the number of links.
    histogram: BTreeMap<u64, u64>,
}

fn failed(error: impl Display) -> PyErr {
    FabricError::new_err(error.to_string())
}

fn options(default_rate: Option<&str>) -> PyResult<ibnetdiscover::Options> {
    let default_rate = default_rate.map(str::parse::<Rate>).transpose().map_err(failed)?;
    Ok(ibnetdiscover::Options { default_rate, ..Default::default() })
}

fn report(site: Site) -> Report {
    let Site { topology, tables, .. } = &site;
    let analysis = routing::analyze(topology, tables);
    let between = analysis.between_switches;
    let lanes = site.lanes.as_ref().map(|lanes| routing::check_lanes(topology, tables, lanes));
    let deadlock = match &lanes {
        Some(lanes) => lanes.cycle.clone(),
        None => routing::deadlock_cycle(topology, tables).as_deref().map(routing::cycle_text),
    };
    Report {
        topology: topology.name.clone(),
        hosts: topology.hosts.len(),
        switches: topology.switches.len(),
        links: topology.links.len(),
        lids_per_host: tables.lids(),
        pairs_routed: analysis.pairs,
        pairs_unroutable: analysis.unroutable,
        problems: analysis.problems,
        hops: analysis.hops.into_iter().enumerate().filter(|(_, pairs)| *pairs > 0).collect(),
        all_to_all: Load {
            links: between.channels,
            min: between.min,
            max: between.max,
            mean: between.mean,
            histogram: between.histogram,
        },
        deadlock,
        lanes,
        sl_to_vl: site.lanes.as_ref().and_then(|lanes| lanes.maps.common(topology)),
        adaptive_groups: site.groups.len(),
        used: File::list(site.used),
        ignored: File::list(site.ignored),
    }
}

/// The files that `ibdmchk` reads, by name: links, tables and, if lanes are known, SL-to-VL tables and the
/// service levels of paths.
fn for_ibdmchk(site: &Site) -> Result<BTreeMap<&'static str, String>, TopologyError> {
    let mut files = BTreeMap::from([
        ("opensm-subnet.lst", lst::write(&site.topology)?),
        ("opensm.fdbs", lft::write_fdbs(&site.topology, &site.tables, Some(&site.switch_routes))?),
        ("opensm.mcfdbs", String::new()),
    ]);
    if let Some(known) = &site.lanes {
        files.insert("path-sl.txt", lanes::write_paths(&site.topology, &known.levels)?);
        files.insert("sl2vl.txt", lanes::write_maps(&site.topology, &known.maps)?);
    }
    Ok(files)
}

/// Checks a real fabric: whether the tables route all pairs, how evenly the load is distributed, and
/// whether deadlock is possible.
#[pyfunction]
#[pyo3(signature = (paths, tables=None, default_rate=None))]
pub fn fabric_check<'py>(
    py: Python<'py>,
    paths: Paths,
    tables: Option<PathBuf>,
    default_rate: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = py.detach(|| load(paths, tables, default_rate).map(report))?;
    convert::to_python(py, &report)
}

/// Returns the fabric as files that `ibdmchk` reads: text by file name.
#[pyfunction]
#[pyo3(signature = (paths, tables=None, default_rate=None))]
pub fn fabric_ibdmchk<'py>(
    py: Python<'py>,
    paths: Paths,
    tables: Option<PathBuf>,
    default_rate: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let files =
        py.detach(|| load(paths, tables, default_rate).and_then(|site| for_ibdmchk(&site).map_err(failed)))?;
    convert::to_python(py, &files)
}

fn load(paths: Paths, tables: Option<PathBuf>, default_rate: Option<&str>) -> PyResult<Site> {
    let paths = match paths {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    };
    site::load(&paths, tables.as_deref(), options(default_rate)?).map_err(failed)
}

/// Returns forwarding tables in the format of OpenSM's dump, and the network in the format of
/// `ibnetdiscover`, with the same LIDs and GUIDs. `topology` is a real fabric (`ibnetdiscover` output,
/// ibsim netlist) or a scenario file (`.toml`). The default for `routing` is the routing of the scenario,
/// or one that suits the fabric.
#[pyfunction]
#[pyo3(signature = (topology, routing=None, default_rate=None))]
pub fn fabric_route(
    py: Python<'_>,
    topology: PathBuf,
    routing: Option<&str>,
    default_rate: Option<&str>,
) -> PyResult<(String, String)> {
    py.detach(|| {
        let (network, in_use) = network(&topology, default_rate)?;
        let tables = match (routing, in_use) {
            (Some(kind), _) => algorithm(kind)?.compute(&network).map_err(failed)?,
            (None, Some(tables)) => tables,
            (None, None) => RoutingSpec::suitable(&network).compute(&network).map_err(failed)?,
        };
        let dump = lft::write(&network, &tables, None).map_err(failed)?;
        Ok((dump, ibnetdiscover::write(&network).map_err(failed)?))
    })
}

/// The network in a file. If the file is a scenario, also the tables.
fn network(path: &Path, default_rate: Option<&str>) -> PyResult<(Topology, Option<Tables>)> {
    if path.extension().is_none_or(|ending| ending != "toml") {
        return Ok((site::topology(path, options(default_rate)?).map_err(failed)?.topology, None));
    }
    let scenario = silvan_scenario::Scenario::load(path, &[])
        .map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    let (topology, tables, _) =
        scenario.build_plain().map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    Ok((topology, Some(tables)))
}

fn algorithm(kind: &str) -> PyResult<RoutingSpec> {
    serde_json::from_value(serde_json::json!({ "kind": kind })).map_err(|_| {
        FabricError::new_err(format!("routing `{kind}` is not one of d-mod-k, up-down, shortest-path"))
    })
}
