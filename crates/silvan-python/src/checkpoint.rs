//! Checkpoints: saving a run, and reading the scenario of a checkpoint.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use silvan_engine::Time;
use silvan_fabric::simulation::{Progress, Simulation};
use silvan_scenario::checkpoint::{self, Checkpoint, Saver};

use crate::convert::{ScenarioError, model_error};
use crate::scenario::Scenario;

/// What to do about a checkpoint of another build, as the command and Python write it.
const ADVICE: &str = "accept that with --resume-other-build (resume_other_build=True)";

/// A checkpoint from which a run continues.
#[derive(Clone)]
pub struct Resumed {
    pub path: PathBuf,
    /// Whether another build may have written it.
    pub other_build: bool,
}

impl Resumed {
    fn open(&self, build: &str) -> Result<Checkpoint, silvan_scenario::ScenarioError> {
        let checkpoint = Checkpoint::open(&self.path)?;
        if !self.other_build {
            checkpoint.refuse_other_builds(build, ADVICE)?;
        }
        Ok(checkpoint)
    }
}

/// A Python object that determines when and where a run is saved, and the time of the run so far.
pub struct Checkpoints<'py> {
    object: Bound<'py, PyAny>,
    saver: Saver,
    build: String,
    /// The start of this part of the run.
    started: Instant,
    /// Simulated time between checkpoints. `None` if it does not determine them.
    every: Option<Time>,
    next: Time,
    /// Wall-clock time between checkpoints. `None` if it does not determine them.
    every_wall: Option<Duration>,
    last: Instant,
}

fn scenario_error(error: silvan_scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// An `OSError` with the number and the text of the system's error.
fn os_error(py: Python<'_>, error: io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else { return PyOSError::new_err(error.to_string()) };
    let text = py.import("os").and_then(|os| os.call_method1("strerror", (number,))?.extract::<String>());
    PyOSError::new_err((number, text.unwrap_or_else(|_| error.to_string())))
}

/// Creates a run, or continues the run of a checkpoint. Also returns the saver of its checkpoints.
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    build: &str,
    from: Option<&Resumed>,
) -> PyResult<(Simulation, Saver)> {
    let written = scenario.written()?;
    let run = py.detach(|| match from {
        Some(from) => from.open(build)?.resume(scenario.inner()),
        None => Saver::of(scenario.inner(), written),
    });
    run.map_err(scenario_error)
}

/// Number of resumed runs in progress.
static RESUMED: AtomicUsize = AtomicUsize::new(0);

/// While it exists, panics print no message, because they become exceptions.
struct Silence;

impl Silence {
    fn new() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if RESUMED.load(Ordering::Relaxed) == 0 {
                    usual(panic);
                }
            }));
        });
        RESUMED.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        RESUMED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the run panicked")
}

/// Executes a run. If it continues a checkpoint, a panic is an error about the checkpoint: its values passed the checks of the
/// reader, but do not fit together.
pub fn guarded<T>(from: Option<&Resumed>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let Some(from) = from else { return run() };
    let _silence = Silence::new();
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(scenario_error(checkpoint::unusable(&from.path, words(&*panic)))))
}

impl<'py> Checkpoints<'py> {
    /// Reads `object.every`, a time with its unit or `None`, and `object.every_s`, a number of seconds or `None`. The part
    /// of the run in progress has begun at `started`.
    pub fn new(
        object: Bound<'py, PyAny>,
        (saver, build): (Saver, String),
        now: Time,
        started: Instant,
    ) -> PyResult<Self> {
        let every: Option<String> = object.getattr("every")?.extract()?;
        let every = every.map(|text| text.parse()).transpose();
        let every: Option<Time> =
            every.map_err(|error| ScenarioError::new_err(format!("checkpoint: {error}")))?;
        if every == Some(Time::ZERO) {
            let what = "checkpoint: the time between checkpoints must be more than zero, such as \"10 ms\"";
            return Err(ScenarioError::new_err(what));
        }
        let every_s: Option<f64> = object.getattr("every_s")?.extract()?;
        let every_wall = every_s.map(Duration::try_from_secs_f64).transpose();
        let every_wall =
            every_wall.map_err(|error| ScenarioError::new_err(format!("checkpoint: {error}")))?;
        let next = every.map_or(Time::NEVER, |every| now + every);
        Ok(Self { object, saver, build, started, every, next, every_wall, last: started })
    }

    /// Whether simulated time determines the checkpoints.
    pub fn are_regular(&self) -> bool {
        self.every.is_some()
    }

    /// Saves the run if a checkpoint is due.
    pub fn advanced(&mut self, simulation: &Simulation, state: Progress) -> PyResult<()> {
        let is_due = self.every.is_some() && state.now >= self.next
            || self.every_wall.is_some_and(|every| self.last.elapsed() >= every);
        if state.done || !is_due {
            return Ok(());
        }
        // The times of further checkpoints may have passed; these checkpoints are omitted.
        self.next = self.every.map_or(Time::NEVER, |every| state.now + every);
        self.save(simulation)?;
        self.last = Instant::now();
        Ok(())
    }

    /// Saves the run if it has not ended and `object.interrupted()` is true.
    pub fn interrupted(&mut self, simulation: &mut Simulation) -> PyResult<()> {
        // With 0 events, this only returns the state.
        let state = simulation.advance(0).map_err(model_error)?;
        if !state.done && self.object.call_method0("interrupted")?.is_truthy()? {
            self.save(simulation)
        } else {
            Ok(())
        }
    }

    /// Saves the run and calls `object.saved`, or `object.failed` if the file cannot be written: a run is worth more than its
    /// checkpoint.
    fn save(&mut self, simulation: &Simulation) -> PyResult<()> {
        self.saver.describe_part(&self.build, self.started.elapsed().as_secs_f64());
        let (object, now_ns) = (&self.object, simulation.now().0 / 1_000);
        match self.write(simulation) {
            Ok(()) => object.call_method1("saved", (now_ns,)).map(drop),
            Err(error) if error.is_instance_of::<PyOSError>(object.py()) => {
                object.call_method1("failed", (error.value(object.py()), now_ns)).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the run to the file that the context manager `object.replacing()` provides.
    fn write(&self, simulation: &Simulation) -> PyResult<()> {
        let py = self.object.py();
        let replacing = self.object.call_method0("replacing")?;
        let partial: PathBuf = replacing.call_method0("__enter__")?.extract()?;
        let saver = &self.saver;
        match py.detach(|| saver.save(simulation, &partial)) {
            Ok(()) => replacing.call_method1("__exit__", (py.None(), py.None(), py.None())).map(drop),
            Err(error) => {
                let error = os_error(py, error);
                let (kind, value, trace) = (error.get_type(py), error.value(py), error.traceback(py));
                replacing.call_method1("__exit__", (kind, value, trace))?;
                Err(error)
            }
        }
    }
}

/// Returns the scenario of a checkpoint, as it was read for the run. `build` names this build. Raises `ScenarioError` if the
/// file is not a valid checkpoint of this version of Silvan, or if another build wrote it and `other_build` is false.
#[pyfunction]
#[pyo3(signature = (path, build, other_build=false))]
pub fn checkpoint_scenario(
    py: Python<'_>,
    path: PathBuf,
    build: &str,
    other_build: bool,
) -> PyResult<Scenario> {
    let from = Resumed { path, other_build };
    let written = py.detach(|| from.open(build).map(|checkpoint| checkpoint.written().clone()));
    Scenario::of_checkpoint(py, &written.map_err(scenario_error)?)
}
