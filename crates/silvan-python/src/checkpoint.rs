//! Checkpoints: saving a run, and reading the scenario of a checkpoint.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use silvan_engine::Time;
use silvan_fabric::simulation::{Progress, Simulation};
use silvan_scenario::checkpoint::{Checkpoint, Saver};

use crate::convert::{ScenarioError, model_error};
use crate::scenario::Scenario;

/// A Python object that determines when and where a run is saved.
pub struct Checkpoints<'py> {
    object: Bound<'py, PyAny>,
    path: PathBuf,
    saver: Saver,
    /// Simulated time between checkpoints. `None` if the run is saved only when it is interrupted.
    every: Option<Time>,
    next: Time,
}

fn scenario_error(error: silvan_scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Creates a run, or continues the run of the checkpoint `from`. Also returns the saver of its checkpoints.
pub fn run(py: Python<'_>, scenario: &Scenario, from: Option<&Path>) -> PyResult<(Simulation, Saver)> {
    let written = scenario.written()?;
    let run = py.detach(|| match from {
        Some(path) => Checkpoint::open(path)?.resume(scenario.inner()),
        None => Saver::of(scenario.inner(), written),
    });
    run.map_err(scenario_error)
}

impl<'py> Checkpoints<'py> {
    /// Reads `object.path`, and `object.every`: a time with its unit, or `None`.
    pub fn new(object: Bound<'py, PyAny>, saver: Saver, now: Time) -> PyResult<Self> {
        let path = object.getattr("path")?.extract()?;
        let every: Option<String> = object.getattr("every")?.extract()?;
        let every = every.map(|text| text.parse()).transpose();
        let every: Option<Time> =
            every.map_err(|error| ScenarioError::new_err(format!("checkpoint: {error}")))?;
        if every == Some(Time::ZERO) {
            let what = "checkpoint: the time between checkpoints must be more than zero, such as \"10 ms\"";
            return Err(ScenarioError::new_err(what));
        }
        let next = every.map_or(Time::NEVER, |every| now + every);
        Ok(Self { object, path, saver, every, next })
    }

    /// Whether the run is saved regularly.
    pub fn are_regular(&self) -> bool {
        self.every.is_some()
    }

    /// Saves the run if a checkpoint is due.
    pub fn advanced(&mut self, simulation: &Simulation, state: Progress) -> PyResult<()> {
        match self.every {
            Some(every) if state.now >= self.next && !state.done => {
                // The times of further checkpoints may have passed; these checkpoints are omitted.
                self.next = state.now + every;
                self.save(simulation)
            }
            _ => Ok(()),
        }
    }

    /// Saves the run if it has not ended and `object.interrupted()` is true.
    pub fn interrupted(&self, simulation: &mut Simulation) -> PyResult<()> {
        // With 0 events, this only returns the state.
        let state = simulation.advance(0).map_err(model_error)?;
        if !state.done && self.object.call_method0("interrupted")?.is_truthy()? {
            self.save(simulation)
        } else {
            Ok(())
        }
    }

    fn save(&self, simulation: &Simulation) -> PyResult<()> {
        let Self { object, path, saver, .. } = self;
        object.py().detach(|| saver.save(simulation, path)).map_err(scenario_error)?;
        object.call_method1("saved", (simulation.now().0 / 1_000,))?;
        Ok(())
    }
}

/// Returns the scenario of a checkpoint, as it was read for the run. Raises `ScenarioError` if the file is
/// not a valid checkpoint of this version of Silvan.
#[pyfunction]
pub fn checkpoint_scenario(py: Python<'_>, path: PathBuf) -> PyResult<Scenario> {
    let written = py.detach(|| Checkpoint::open(&path).map(|checkpoint| checkpoint.written().clone()));
    Scenario::of_checkpoint(py, &written.map_err(scenario_error)?)
}
