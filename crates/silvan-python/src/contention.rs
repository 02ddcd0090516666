//! Contention of random permutations under adaptive routing per flow.

use std::time::Instant;

use pyo3::prelude::*;
use serde::Serialize;
use silvan_network::routing::adaptive::{FlowLevel, Heuristic, Permutations};
use silvan_network::topology::TopologySpec;

use crate::convert::{self, SilvanError};
use crate::run::PROGRESS_EVERY;

/// Columns with one value per permutation. Serialized to JSON.
#[derive(Default, Serialize)]
struct Columns {
    flows: Vec<u32>,
    maximum: Vec<u32>,
    mean: Vec<f64>,
    mean_switches: Vec<f64>,
}

/// Routes random permutations on a tree, flow by flow, and counts for each flow the flows on its most loaded
/// link. `topology` is the table `[topology]` of a scenario, as JSON. `routing` is a heuristic, or `default`
/// for the default ports only. `cache_entries` limits each route cache. `seed` and the numbers `first`,
/// `first + 1`, ... determine the permutations.
///
/// `progress(done)` is called at most five times a second. Raises `SilvanError` if an argument is invalid.
#[pyfunction]
#[pyo3(signature = (topology, routing, permutations, seed, first=0, cache_entries=None, progress=None))]
#[allow(clippy::too_many_arguments)] // The arguments are Python's keyword arguments.
pub fn contention<'py>(
    py: Python<'py>,
    topology: &str,
    routing: &str,
    permutations: u64,
    seed: u64,
    first: u64,
    cache_entries: Option<u32>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (heuristic, cache_entries) = match routing {
        "default" => (Heuristic::default(), Some(0)),
        other => (heuristic(other)?, cache_entries),
    };
    let mut network = py.detach(|| network(topology, heuristic, cache_entries))?;
    let mut columns = Columns::default();
    let mut last_call = Instant::now();
    for done in 0..permutations {
        let number = first.wrapping_add(done);
        let found = py
            .detach(|| Permutations { seed }.contention(&mut network, number))
            .map_err(|e| SilvanError::new_err(e.to_string()))?;
        columns.flows.push(found.flows);
        columns.maximum.push(found.maximum);
        columns.mean.push(found.mean());
        columns.mean_switches.push(found.mean_switches());
        py.check_signals()?;
        if let (true, Some(progress)) = (last_call.elapsed() >= PROGRESS_EVERY, &progress) {
            progress.call1((done + 1,))?;
            last_call = Instant::now();
        }
    }
    convert::to_python(py, &columns)
}

fn heuristic(name: &str) -> PyResult<Heuristic> {
    Heuristic::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
        let known = Heuristic::ALL.map(Heuristic::name).join(", ");
        SilvanError::new_err(format!("routing = `{name}`: must be default or a heuristic: {known}"))
    })
}

fn network(topology: &str, heuristic: Heuristic, cache_entries: Option<u32>) -> PyResult<FlowLevel> {
    let spec: TopologySpec = serde_json::from_str(topology)
        .map_err(|e| SilvanError::new_err(format!("topology = {topology}: {e}")))?;
    let built = spec.build().map_err(|e| SilvanError::new_err(e.to_string()))?;
    FlowLevel::new(&built, heuristic, cache_entries).map_err(|e| SilvanError::new_err(e.to_string()))
}
