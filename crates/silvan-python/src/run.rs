//! A run. It advances in slices without holding the GIL, so Python can interrupt it and observe its progress.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use silvan_engine::Time;
use silvan_fabric::RecordPlan;
use silvan_fabric::outcome::{self, Outcome};
use silvan_fabric::simulation::{Progress, Simulation};

use crate::checkpoint::{self, Checkpoints, Resumed};
use crate::convert::{self, ScenarioError, model_error};
use crate::delays::Recording;
use crate::scenario::Scenario;
use crate::tables;
use crate::viewer::Viewer;

/// Approximate wall-clock time of a slice, and thus the longest delay of Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);
/// Minimum wall-clock time between two calls of the progress function.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The results of a finished run.
#[pyclass(module = "silvan._core", frozen)]
pub struct Run {
    outcome: Outcome,
    tables: Vec<(String, Py<PyDict>)>,
    parts: Vec<(u64, String, f64)>,
}

impl Run {
    /// Converts the results of a run, with its parts.
    pub fn of(py: Python<'_>, mut outcome: Outcome, parts: Vec<(u64, String, f64)>) -> PyResult<Self> {
        let tables = std::mem::take(&mut outcome.tables)
            .into_iter()
            .map(|table| Ok((table.name.to_owned(), tables::columns(py, table)?)))
            .collect::<PyResult<_>>()?;
        Ok(Self { outcome, tables, parts })
    }
}

#[pymethods]
impl Run {
    /// Totals and averages of the run.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.outcome.summary)
    }

    /// Names of the tables.
    #[getter]
    fn table_names(&self) -> Vec<String> {
        self.tables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The columns of a table by name. Numeric columns share the memory of the simulator.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyDict>> {
        match self.tables.iter().find(|(known, _)| known == name) {
            Some((_, table)) => Ok(table.clone_ref(py)),
            None => Err(PyKeyError::new_err(format!(
                "no table `{name}`; there are {}",
                self.table_names().join(", ")
            ))),
        }
    }

    /// The account of the run: its main results, as sentences.
    #[getter]
    fn account(&self) -> Vec<String> {
        self.outcome.account.clone()
    }

    /// Settings that had no effect, and limits that the run reached.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.outcome.warnings.clone()
    }

    /// The parts of the run that were simulated without interruption: the simulated time at which each begins in ns, its
    /// build, and its wall-clock time in seconds, including the construction of the network.
    #[getter]
    fn parts(&self) -> Vec<(u64, String, f64)> {
        self.parts.clone()
    }
}

/// The tables of results, in groups of which a run has either all or none.
#[pyfunction]
pub fn tables_of_results(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    convert::to_python(py, &outcome::tables())
}

/// The JSON Schema of the summary of a run.
#[pyfunction]
pub fn schema_of_summary(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    convert::to_python(py, &outcome::summary_schema())
}

/// Runs a scenario to its end. Raises `ScenarioError` or `ModelError`.
///
/// `build` names this build in checkpoints and in [`Run::parts`].
///
/// `progress(simulated_ns, end_ns, events)` is called at most five times a second, and once more when the run
/// is interrupted. `viewer.network(json)` is called at the start and returns a number `n`;
/// `viewer.sample(json)` is called at every `n`-th sample. With `checkpoints`, the run is saved each time that
/// the simulated time `checkpoints.every` or the wall-clock time `checkpoints.every_s` has passed, and also when
/// the run is interrupted, if `checkpoints.interrupted()` is true. The context manager
/// `checkpoints.replacing()` provides the file. After each checkpoint, `checkpoints.saved(simulated_ns)` is
/// called, or `checkpoints.failed(error, simulated_ns)` if the file cannot be written. `resume` is a checkpoint
/// of the scenario, which another build may have written if `other_build` is set. The results do not depend on
/// any of these arguments, except that another build may give other results.
#[pyfunction]
#[pyo3(signature = (scenario, build, progress=None, viewer=None, checkpoints=None, resume=None, other_build=false))]
#[expect(clippy::too_many_arguments, reason = "the arguments of a Python function")]
pub fn run(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    build: String,
    progress: Option<Bound<'_, PyAny>>,
    viewer: Option<Bound<'_, PyAny>>,
    checkpoints: Option<Bound<'_, PyAny>>,
    resume: Option<PathBuf>,
    other_build: bool,
) -> PyResult<Run> {
    let started = Instant::now();
    let inner = scenario.get().inner();
    let resume = resume.map(|path| Resumed { path, other_build });
    checkpoint::guarded(resume.as_ref(), || {
        let (mut simulation, saver) = checkpoint::run(py, scenario.get(), &build, resume.as_ref())?;
        let earlier = saver.parts().to_vec();
        let now = simulation.now();
        let checkpoints =
            checkpoints.map(|one| Checkpoints::new(one, (saver, build.clone()), now, started)).transpose()?;
        let viewer = viewer.map(|one| Viewer::open(one, inner, &simulation)).transpose()?;
        advance(py, &mut simulation, progress.as_ref(), (viewer, checkpoints))?;
        let mut outcome = py.detach(|| simulation.finish()).map_err(model_error)?;
        outcome.warnings.extend_from_slice(inner.file_notes());
        let mut parts: Vec<_> =
            earlier.into_iter().map(|part| (part.at.0 / 1_000, part.build, part.wall_s)).collect();
        if let Some((_, by, wall_s)) = parts.last_mut() {
            (*by, *wall_s) = (build, started.elapsed().as_secs_f64());
        }
        Run::of(py, outcome, parts)
    })
}

/// Runs a scenario from its start, and records the departures of packets from `from_ps` to `until_ps`, at most `most`.
/// Raises `ScenarioError` or `ModelError`. `progress` is called as by [`run`].
#[pyfunction]
#[pyo3(signature = (scenario, from_ps, until_ps, most, progress=None))]
pub fn record(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    from_ps: u64,
    until_ps: u64,
    most: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Recording> {
    let plan = RecordPlan { from: Time(from_ps), until: Time(until_ps), most };
    let inner = scenario.get().inner();
    let recorded = py.detach(|| inner.recorded(plan));
    let mut simulation = recorded.map_err(|error| ScenarioError::new_err(error.to_string()))?;
    advance_in_slices(py, progress.as_ref(), |slice| {
        let state = py.detach(|| simulation.advance_recording(slice, plan.until)).map_err(model_error)?;
        Ok(Progress { end: plan.until.min(state.end), ..state })
    })?;
    Ok(Recording::new(py.detach(|| simulation.take_recording())))
}

/// Advances to the end. If Ctrl-C stops the run, `checkpoints` determines whether it is saved.
fn advance(
    py: Python<'_>,
    simulation: &mut Simulation,
    progress: Option<&Bound<'_, PyAny>>,
    (mut viewer, mut checkpoints): (Option<Viewer<'_>>, Option<Checkpoints<'_>>),
) -> PyResult<()> {
    let result = advance_in_slices(py, progress, |slice| {
        let state = match &mut viewer {
            Some(viewer) => viewer.advance(simulation, slice, SLICE)?,
            // Stop at samples, so that short runs also have checkpoints.
            None if checkpoints.as_ref().is_some_and(Checkpoints::are_regular) => {
                py.detach(|| simulation.advance_to_sample(slice)).map_err(model_error)?.0
            }
            None => py.detach(|| simulation.advance(slice)).map_err(model_error)?,
        };
        if let Some(checkpoints) = checkpoints.as_mut().filter(|_| !state.done) {
            checkpoints.advanced(simulation, state)?;
        }
        Ok(state)
    });
    if let (Err(error), Some(checkpoints)) = (&result, &mut checkpoints)
        && error.is_instance_of::<PyKeyboardInterrupt>(py)
    {
        checkpoints.interrupted(simulation)?;
    }
    result
}

/// Advances to the end by slices of about [`SLICE`]. `step` handles at most a number of events.
fn advance_in_slices(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    mut step: impl FnMut(u64) -> PyResult<Progress>,
) -> PyResult<()> {
    let (mut slice, mut done): (u64, u64) = (10_000, 0);
    let mut last_call = Instant::now();
    loop {
        let (began, before) = (Instant::now(), done);
        let state = step(slice)?;
        if let Err(error) = py.check_signals() {
            if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                call(progress, state)?;
            }
            return Err(error);
        }
        if state.done {
            return Ok(());
        }
        if last_call.elapsed() >= PROGRESS_EVERY {
            call(progress, state)?;
            last_call = Instant::now();
        }
        done = state.events;
        // The run may have stopped early, at a sample.
        slice = next_slice(slice.min(done - before), began.elapsed());
    }
}

/// Number of events for a slice of about [`SLICE`], estimated from the last slice. The number at most
/// doubles, because a run may become slower when congestion begins.
fn next_slice(events: u64, took: Duration) -> u64 {
    let factor = SLICE.as_secs_f64() / took.as_secs_f64().max(1e-6);
    ((events as f64 * factor.clamp(0.25, 2.0)) as u64).clamp(1_000, 50_000_000)
}

fn call(progress: Option<&Bound<'_, PyAny>>, state: Progress) -> PyResult<()> {
    if let Some(progress) = progress {
        progress.call1((state.now.0 / 1_000, state.end.0 / 1_000, state.events))?;
    }
    Ok(())
}
