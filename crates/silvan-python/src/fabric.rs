//! Topologies and forwarding tables of real fabrics.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use serde::Serialize;
use silvan_engine::Rate;
use silvan_network::routing::lanes::Map;
use silvan_network::routing::up_down::{Roots, UpDown};
use silvan_network::routing::{self, LaneAnalysis, RoutingSpec, Shares, Spread, Tables};
use silvan_network::topology::{End, NodeRef, TopologyError};
use silvan_scenario::import::site::{self, Note, Site};
use silvan_scenario::import::{FilePorts, Wiring, ibnetdiscover, lanes, lft, lst};
use silvan_scenario::ports::PortsOfJobs;

use crate::convert::{self, FabricError};

/// Summary of a fabric and its tables, which is serialized to JSON.
#[derive(Serialize)]
struct Report {
    topology: String,
    hosts: usize,
    /// Names of the hosts that are aggregation nodes: units inside switches that reduce values (SHARP).
    aggregation_nodes: Vec<String>,
    switches: usize,
    links: usize,
    /// The largest number of LIDs of a host. Each pair has a route to each LID of its destination.
    lids_per_host: usize,
    pairs_routed: u64,
    pairs_unroutable: u64,
    /// Reasons why pairs are not routed, for the first few pairs.
    problems: Vec<String>,
    /// Maps the number of switches on a route to the number of routes.
    hops: BTreeMap<usize, u64>,
    all_to_all: Load,
    /// Directed links between switches that carry no flow, although a shortest path could use them without
    /// closing a cycle.
    unused_links: u64,
    /// Flows on the most loaded link if flows were divided evenly over all shortest paths.
    even_flows: f64,
    /// Faults of the routes: unused links, unbalanced loads.
    findings: Vec<String>,
    /// A cycle of channels in which packets can wait for each other. If `lanes` is known, the cycle consists
    /// of lanes of channels.
    deadlock: Option<String>,
    /// Analysis of the lanes, if service levels or SL-to-VL tables are known.
    lanes: Option<LaneAnalysis>,
    /// The SL-to-VL table, if all links have the same one. It is a valid value of `lanes.sl_to_vl` in a
    /// scenario.
    sl_to_vl: Option<Map>,
    /// Number of port groups for adaptive routing. The groups are stored, but not simulated.
    adaptive_groups: usize,
    /// Files that were used, with a summary of their content.
    used: Vec<File>,
    /// Files that were not used, with the reason.
    ignored: Vec<File>,
}

/// A file that the user named, or that a named folder contains.
#[derive(Serialize)]
struct File {
    file: String,
    /// Format of the file; `None` if unknown.
    kind: Option<String>,
    /// A summary of the content of the file, or the reason why it was not used.
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

/// Whether a host is a unit inside a switch. The tools list such a unit as an adapter with this description.
fn is_aggregation_node(name: &str) -> bool {
    name.to_ascii_lowercase().contains("aggregation node")
}

fn report(site: Site) -> Report {
    let Site { topology, tables, .. } = &site;
    let analysis = routing::analyze(topology, tables);
    let spread = Spread::of(topology, tables, &analysis);
    let between = analysis.between_switches;
    let lanes = site.lanes.as_ref().map(|lanes| routing::check_lanes(topology, tables, lanes));
    let deadlock = match &lanes {
        Some(lanes) => lanes.cycle.clone(),
        None => routing::deadlock_cycle(topology, tables).as_deref().map(routing::cycle_text),
    };
    Report {
        topology: topology.name.clone(),
        hosts: topology.hosts.len(),
        aggregation_nodes: (topology.hosts.iter().map(|host| host.name.clone()))
            .filter(|name| is_aggregation_node(name))
            .collect(),
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
        unused_links: spread.idle,
        even_flows: spread.even,
        findings: spread.findings(),
        deadlock,
        lanes,
        sl_to_vl: site.lanes.as_ref().and_then(|lanes| lanes.maps.common(topology)),
        adaptive_groups: site.groups.len(),
        used: File::list(site.used),
        ignored: File::list(site.ignored),
    }
}

/// The files that `ibdmchk` reads, by name: links, tables and, if lanes are known, SL-to-VL tables and
/// service levels of paths.
fn for_ibdmchk(site: &Site) -> Result<BTreeMap<&'static str, String>, TopologyError> {
    let mut files = BTreeMap::from([
        ("opensm-subnet.lst", lst::write_with(&site.topology, &site.node_guids)?),
        ("opensm.fdbs", lft::write_fdbs(&site.topology, &site.tables, Some(&site.switch_routes))?),
        ("opensm.mcfdbs", String::new()),
    ]);
    if let Some(known) = &site.lanes {
        files.insert("path-sl.txt", lanes::write_paths(&site.topology, &known.levels)?);
        files.insert("sl2vl.txt", lanes::write_maps(&site.topology, &known.maps)?);
    }
    Ok(files)
}

/// Checks a real fabric: whether the tables route all pairs, how evenly the load is distributed, and whether
/// deadlock is possible. Raises `FabricError` if a file is invalid or missing.
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

/// Returns the text of the files that `ibdmchk` reads, by file name. Raises `FabricError`.
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

/// Returns the network of a fabric without the given hosts, in the format of `ibnetdiscover`, and the entries
/// of its tables for the other hosts, in the format of OpenSM's dump. Raises `FabricError`.
#[pyfunction]
pub fn fabric_without(
    py: Python<'_>,
    paths: Paths,
    tables: Option<PathBuf>,
    default_rate: Option<&str>,
    hosts: HashSet<String>,
) -> PyResult<(String, String)> {
    py.detach(|| {
        let site = load(paths, tables, default_rate)?;
        let (topology, kept) = site.topology.without_hosts(|host| hosts.contains(&host.name));
        let dump = lft::write(&topology, &site.tables.of_hosts(&kept), Some(&site.switch_routes));
        let guids: Vec<Option<u64>> =
            kept.iter().map(|&host| site.node_guids.get(host).copied().flatten()).collect();
        Ok((ibnetdiscover::write_with(&topology, &guids).map_err(failed)?, dump.map_err(failed)?))
    })
}

fn load(paths: Paths, tables: Option<PathBuf>, default_rate: Option<&str>) -> PyResult<Site> {
    let paths = match paths {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    };
    site::load(&paths, tables.as_deref(), options(default_rate)?).map_err(failed)
}

/// Returns forwarding tables in the format of OpenSM's dump, the network in the format of `ibnetdiscover`
/// with the same LIDs and GUIDs, what is wrong with the routes, and notes about the file. `topology` is a
/// real fabric (`ibnetdiscover` output, ibsim netlist), a topology of a simulator, or a scenario file
/// (`.toml`). By default, `routing` is the routing of the scenario, or one that suits the fabric. `roots` are
/// the switches at the top of up*/down* routing. Raises `FabricError`, or `ScenarioError` for a scenario.
#[pyfunction]
#[pyo3(signature = (topology, routing=None, default_rate=None, roots=None))]
pub fn fabric_route(
    py: Python<'_>,
    topology: PathBuf,
    routing: Option<&str>,
    default_rate: Option<&str>,
    roots: Option<Vec<String>>,
) -> PyResult<(String, String, Vec<String>, Vec<String>)> {
    py.detach(|| {
        let (Wiring { topology: network, notes, node_guids, .. }, in_use) = network(&topology, default_rate)?;
        let unfit = |error: &dyn Display| failed(format!("{}: {error}", topology.display()));
        let compute = |algorithm: RoutingSpec| algorithm.compute(&network).map_err(|error| unfit(&error));
        let tables = match (algorithm(routing, roots)?, in_use) {
            (Some(algorithm), _) => compute(algorithm)?,
            (None, Some(tables)) => tables,
            (None, None) => compute(RoutingSpec::suitable(&network))?,
        };
        let findings = Spread::of(&network, &tables, &routing::analyze(&network, &tables)).findings();
        let dump = lft::write(&network, &tables, None).map_err(|error| unfit(&error))?;
        let written = ibnetdiscover::write_with(&network, &node_guids).map_err(|error| unfit(&error))?;
        Ok((dump, written, findings, notes))
    })
}

/// The routes of the flows of a scenario.
#[pyclass(module = "silvan._core", frozen)]
pub struct FlowRoutes {
    shares: Shares,
    hosts: Vec<String>,
    links: Vec<String>,
    rates_gbit_s: Vec<f64>,
    are_between_switches: Vec<bool>,
    division: Option<String>,
    ports: Option<PortsOfJobs>,
}

impl FlowRoutes {
    /// The routes of a scenario. It is an error if they depend on the load, on random numbers or on LIDs.
    pub fn of(scenario: &silvan_scenario::Scenario) -> PyResult<Self> {
        let (topology, tables, config) =
            scenario.build_plain().map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
        let how = silvan_scenario::report::choice(&config);
        let Some(division) = silvan_scenario::report::division(&config) else {
            let how = how.unwrap_or_else(|| format!("routing.kind = \"{}\"", scenario.routing_kind()));
            return Err(failed(format!(
                "{how}: the routes depend on the load, on random numbers or on LIDs; run the scenario, or leave this out"
            )));
        };
        let (mut links, mut rates_gbit_s, mut are_between_switches) = (Vec::new(), Vec::new(), Vec::new());
        let name = |end: End| match end.node {
            NodeRef::Host(_) => topology.name_of(end.node).to_owned(),
            NodeRef::Switch(_) => topology.port_name(end),
        };
        for link in &topology.links {
            let is_inner = [link.a, link.b].iter().all(|end| matches!(end.node, NodeRef::Switch(_)));
            for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                links.push(format!("{}->{}", name(from), name(to)));
                rates_gbit_s.push(link.rate.as_gbit_f64());
                are_between_switches.push(is_inner);
            }
        }
        let ports = if topology.machines.is_empty() { None } else { ports_of_jobs(scenario)? };
        Ok(Self {
            ports,
            shares: Shares::new(&topology, &tables, division),
            hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
            links,
            rates_gbit_s,
            are_between_switches,
            division: how,
        })
    }
}

fn ports_of_jobs(scenario: &silvan_scenario::Scenario) -> PyResult<Option<PortsOfJobs>> {
    scenario.ports_of_jobs().map_err(|e| convert::ScenarioError::new_err(e.to_string()))
}

#[pymethods]
impl FlowRoutes {
    /// The names of the hosts, in the order of their numbers.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// The names of the directed links, in the order of their numbers.
    #[getter]
    fn links(&self) -> Vec<String> {
        self.links.clone()
    }

    /// The rates of the directed links in Gbit/s.
    #[getter]
    fn rates_gbit_s(&self) -> Vec<f64> {
        self.rates_gbit_s.clone()
    }

    /// Whether each directed link connects two switches.
    #[getter]
    fn are_between_switches(&self) -> Vec<bool> {
        self.are_between_switches.clone()
    }

    /// How packets deviate from the tables, in words; None if the tables alone determine the routes.
    #[getter]
    fn division(&self) -> Option<String> {
        self.division.clone()
    }

    /// The names of the hosts with several ports, and the numbers of their ports in `hosts`; None if each host has one port.
    #[getter]
    fn machines(&self) -> Option<Vec<(String, Vec<u32>)>> {
        let machines = self.ports.as_ref()?.machines().iter();
        Some(machines.map(|machine| (machine.name.clone(), machine.ports.clone())).collect())
    }

    /// Returns the pairs of ports over which messages of jobs go, as two columns of numbers in `hosts`. `machines` contains the
    /// number of the machine of each rank; `sources` and `destinations` are ranks. Messages between ranks of a machine have none.
    /// Raises `FabricError` if a number is out of range.
    fn port_pairs(
        &self,
        py: Python<'_>,
        machines: Vec<u32>,
        sources: Vec<u32>,
        destinations: Vec<u32>,
    ) -> PyResult<(Vec<u32>, Vec<u32>)> {
        let Some(ports) = &self.ports else { return Err(failed("each host has one port")) };
        let (ranks, known) = (machines.len(), ports.machines().len());
        let is_known = machines.iter().all(|&machine| (machine as usize) < known);
        let are_ranks = sources.iter().chain(&destinations).all(|&rank| (rank as usize) < ranks);
        if !is_known || !are_ranks || sources.len() != destinations.len() {
            return Err(failed(format!(
                "ranks of {ranks} on {known} hosts are expected, as many sources as destinations"
            )));
        }
        let messages: Vec<(u32, u32)> = sources.into_iter().zip(destinations).collect();
        let found = py.detach(|| ports.pairs(&machines, &messages));
        Ok(found.into_iter().unzip())
    }

    /// Returns three columns with a row per link on the routes of each flow: the number of the flow, the
    /// number of the directed link, and the share of the flow's packets. `connections` contains the number of
    /// each flow's traffic source in its host; default: 0. Raises `FabricError` if a flow has no route.
    #[pyo3(signature = (sources, destinations, connections=None))]
    #[allow(clippy::type_complexity)]
    fn ways(
        &self,
        py: Python<'_>,
        sources: Vec<u32>,
        destinations: Vec<u32>,
        connections: Option<Vec<u16>>,
    ) -> PyResult<(Vec<u64>, Vec<u64>, Vec<f64>)> {
        py.detach(|| {
            let mut columns = (Vec::new(), Vec::new(), Vec::new());
            for (flow, (&from, &to)) in sources.iter().zip(&destinations).enumerate() {
                let connection = connections.as_ref().and_then(|all| all.get(flow)).copied().unwrap_or(0);
                let is_known = [from, to].iter().all(|&host| (host as usize) < self.hosts.len());
                let found = if is_known { self.shares.links(from, to, connection) } else { None };
                let links = found.ok_or_else(|| {
                    let name = |host: u32| self.hosts.get(host as usize).map_or("?", String::as_str);
                    failed(format!("no route from {} to {}", name(from), name(to)))
                })?;
                for (link, share) in links {
                    columns.0.push(flow as u64);
                    columns.1.push(link as u64);
                    columns.2.push(share);
                }
            }
            Ok(columns)
        })
    }
}

/// The network in a file, and the tables if the file is a scenario.
fn network(path: &Path, default_rate: Option<&str>) -> PyResult<(Wiring, Option<Tables>)> {
    if path.extension().is_none_or(|ending| ending != "toml") {
        return Ok((site::topology(path, options(default_rate)?).map_err(failed)?, None));
    }
    let scenario = silvan_scenario::Scenario::load(path, &[])
        .map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    let (topology, tables, _) =
        scenario.build_plain().map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    let (notes, node_guids) = (scenario.file_notes().to_vec(), scenario.node_guids().to_vec());
    let (latencies, ports) = (Vec::new(), FilePorts::default());
    Ok((Wiring { topology, notes, latencies, node_guids, ports }, Some(tables)))
}

/// The routing algorithm that the user selected, if any.
fn algorithm(kind: Option<&str>, roots: Option<Vec<String>>) -> PyResult<Option<RoutingSpec>> {
    match (kind, roots) {
        (None | Some("up-down"), Some(roots)) => {
            Ok(Some(RoutingSpec::UpDown(UpDown { root: Some(Roots::Several(roots)) })))
        }
        (Some(kind), Some(_)) => Err(FabricError::new_err(format!(
            "routing `{kind}` has no roots; leave out the roots, or choose up-down"
        ))),
        (None, None) => Ok(None),
        (Some(kind), None) => {
            serde_json::from_value(serde_json::json!({ "kind": kind })).map(Some).map_err(|_| {
                FabricError::new_err(format!(
                    "routing `{kind}` is not one of d-mod-k, up-down, shortest-path"
                ))
            })
        }
    }
}
