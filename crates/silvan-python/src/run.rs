//! A run: advanced in slices without the GIL, so that Python may interrupt it and be told how far it is.

use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::{Progress, Simulation};

use crate::convert::{self, ModelError, ScenarioError};
use crate::scenario::Scenario;
use crate::tables;

/// Wall time of a slice: how long Ctrl-C waits at most.
const SLICE: Duration = Duration::from_millis(50);
/// Wall time between two calls of the progress function.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(200);

/// What a finished run gives.
#[pyclass(module = "silvan._core", frozen)]
pub struct Run {
    outcome: Outcome,
    tables: Vec<(String, Py<PyDict>)>,
    wall_s: f64,
}

#[pymethods]
impl Run {
    /// Totals and averages.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.outcome.summary)
    }

    /// Names of the tables.
    #[getter]
    fn table_names(&self) -> Vec<String> {
        self.tables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The columns of a table by name; numbers are the simulator's own memory.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyDict>> {
        match self.tables.iter().find(|(known, _)| known == name) {
            Some((_, table)) => Ok(table.clone_ref(py)),
            None => Err(PyKeyError::new_err(format!(
                "no table `{name}`; there are {}",
                self.table_names().join(", ")
            ))),
        }
    }

    /// What happened, in sentences.
    #[getter]
    fn account(&self) -> Vec<String> {
        self.outcome.account.clone()
    }

    /// Whatever was asked for and had no effect.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.outcome.warnings.clone()
    }

    /// Wall time of the run in seconds, building the network included.
    #[getter]
    const fn wall_s(&self) -> f64 {
        self.wall_s
    }
}

/// Runs a scenario to its end.
///
/// `progress(simulated_ns, end_ns, events)` is called at most five times a second, and once
/// more when the run is interrupted.
#[pyfunction]
#[pyo3(signature = (scenario, progress=None))]
pub fn run(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let started = Instant::now();
    let inner = scenario.get().inner();
    let mut simulation =
        py.detach(|| inner.simulation()).map_err(|e| ScenarioError::new_err(e.to_string()))?;
    advance(py, &mut simulation, progress.as_ref())?;
    let mut outcome = py.detach(|| simulation.finish()).map_err(|e| ModelError::new_err(e.to_string()))?;
    let wall_s = started.elapsed().as_secs_f64();
    let tables = std::mem::take(&mut outcome.tables)
        .into_iter()
        .map(|table| Ok((table.name.to_owned(), tables::columns(py, table)?)))
        .collect::<PyResult<_>>()?;
    Ok(Run { outcome, tables, wall_s })
}

/// Advances to the end, with a look at signals after every slice.
fn advance(py: Python<'_>, simulation: &mut Simulation, tell: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let mut slice: u64 = 10_000;
    let mut told = Instant::now();
    loop {
        let began = Instant::now();
        let state =
            py.detach(|| simulation.advance(slice)).map_err(|e| ModelError::new_err(e.to_string()))?;
        if let Err(error) = py.check_signals() {
            if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                call(tell, state)?;
            }
            return Err(error);
        }
        if state.done {
            return Ok(());
        }
        if told.elapsed() >= TELL_EVERY {
            call(tell, state)?;
            told = Instant::now();
        }
        slice = next_slice(slice, began.elapsed());
    }
}

/// A slice of about [`SLICE`], judged by the last one; never more than doubled at once, since
/// the pace of a run changes as congestion sets in.
fn next_slice(events: u64, took: Duration) -> u64 {
    let factor = SLICE.as_secs_f64() / took.as_secs_f64().max(1e-6);
    ((events as f64 * factor.clamp(0.25, 2.0)) as u64).clamp(1_000, 50_000_000)
}

fn call(tell: Option<&Bound<'_, PyAny>>, state: Progress) -> PyResult<()> {
    if let Some(tell) = tell {
        tell.call1((state.now.0 / 1_000, state.end.0 / 1_000, state.events))?;
    }
    Ok(())
}
