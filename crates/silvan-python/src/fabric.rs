//! Topologies and forwarding tables of real fabrics.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use serde::Serialize;
use silvan_engine::Rate;
use silvan_fabric::routing::{self, RoutingSpec, Tables};
use silvan_fabric::topology::Topology;
use silvan_scenario::import::{ibnetdiscover, lft, read_text};

use crate::convert::{self, FabricError};

/// What can be said of a fabric with its tables. Written for JSON.
#[derive(Serialize)]
struct Report {
    topology: String,
    hosts: usize,
    switches: usize,
    links: usize,
    pairs_routed: u64,
    pairs_unroutable: u64,
    /// Why the first of them are not routed.
    problems: Vec<String>,
    /// Number of pairs by number of switches crossed.
    hops: BTreeMap<usize, u64>,
    all_to_all: Load,
    /// A circle of channels in which packets can wait for each other.
    deadlock: Option<String>,
}

/// Flows per directed link between switches, if every host sent to every other.
#[derive(Serialize)]
struct Load {
    links: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Number of links by number of flows.
    histogram: BTreeMap<u64, u64>,
}

fn failed(error: impl Display) -> PyErr {
    FabricError::new_err(error.to_string())
}

fn read_topology(path: &Path, default_rate: Option<&str>) -> PyResult<Topology> {
    let default_rate = default_rate.map(str::parse::<Rate>).transpose().map_err(failed)?;
    let text = read_text(path).map_err(failed)?;
    let options = ibnetdiscover::Options { default_rate, ..Default::default() };
    ibnetdiscover::parse(&text, &path.display().to_string(), options).map_err(failed)
}

fn report(topology: &Topology, tables: &Tables) -> Report {
    let analysis = routing::analyse(topology, tables);
    let between = analysis.between_switches;
    let cycle = routing::deadlock_cycle(topology, tables);
    Report {
        topology: topology.name.clone(),
        hosts: topology.hosts.len(),
        switches: topology.switches.len(),
        links: topology.links.len(),
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
        deadlock: cycle.as_deref().map(routing::cycle_text),
    }
}

/// Checks a real fabric: do the tables route all pairs, how even is the load, can it deadlock.
#[pyfunction]
#[pyo3(signature = (topology, tables, default_rate=None))]
pub fn fabric_check<'py>(
    py: Python<'py>,
    topology: PathBuf,
    tables: PathBuf,
    default_rate: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = py.detach(|| -> PyResult<Report> {
        let topology = read_topology(&topology, default_rate)?;
        let text = read_text(&tables).map_err(failed)?;
        let tables = lft::parse(&text, &tables.display().to_string(), &topology).map_err(failed)?;
        Ok(report(&topology, &tables))
    })?;
    convert::to_python(py, &report)
}

/// Forwarding tables in the format of OpenSM's dump, and the network as `ibnetdiscover` would
/// write it, with the same LIDs and GUIDs: of a real fabric (`ibnetdiscover` output,
/// ibsim netlist), or of the network of a scenario file (`.toml`). Without `routing`, those of
/// the scenario, or what suits the fabric.
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

/// The network of a file, with its tables where the file is a scenario.
fn network(path: &Path, default_rate: Option<&str>) -> PyResult<(Topology, Option<Tables>)> {
    if path.extension().is_none_or(|ending| ending != "toml") {
        return Ok((read_topology(path, default_rate)?, None));
    }
    let scenario = silvan_scenario::Scenario::load(path, &[])
        .map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    let (topology, tables, _) =
        scenario.build().map_err(|e| convert::ScenarioError::new_err(e.to_string()))?;
    Ok((topology, Some(tables)))
}

fn algorithm(kind: &str) -> PyResult<RoutingSpec> {
    serde_json::from_value(serde_json::json!({ "kind": kind })).map_err(|_| {
        FabricError::new_err(format!("routing `{kind}` is not one of d-mod-k, up-down, shortest-path"))
    })
}
