//! A run that the caller controls: it sends messages, and receives calls.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use silvan_engine::Time;
use silvan_library::matching::MatchKey;
use silvan_library::{ControlledRun, Delivery, Problem};

use crate::convert::{ModelError, ScenarioError};
use crate::run::Run;
use crate::scenario::Scenario;

/// A function of the caller.
type Callback = Py<PyAny>;

/// A run that the caller controls; `silvan.ControlledRun` documents its methods.
#[pyclass(module = "silvan._core", frozen)]
pub struct Controlled {
    /// `None` after the end of the run.
    run: Mutex<Option<ControlledRun<Callback>>>,
    started: Instant,
}

fn raise(problem: Problem) -> PyErr {
    match problem {
        Problem::Argument(what) => PyValueError::new_err(what),
        Problem::Scenario(what) => ScenarioError::new_err(what),
        Problem::Deadlock(what) | Problem::Limit(what) | Problem::Internal(what) => ModelError::new_err(what),
    }
}

impl Controlled {
    fn lock(&self) -> MutexGuard<'_, Option<ControlledRun<Callback>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        action: impl FnOnce(&mut ControlledRun<Callback>) -> Result<T, Problem>,
    ) -> PyResult<T> {
        let mut run = self.lock();
        let run = run.as_mut().ok_or_else(|| PyValueError::new_err("the run has been finished"))?;
        action(run).map_err(raise)
    }
}

#[pymethods]
impl Controlled {
    #[new]
    fn new(py: Python<'_>, scenario: &Bound<'_, Scenario>) -> PyResult<Self> {
        let started = Instant::now();
        let inner = scenario.get().inner().clone();
        let run = py.detach(|| ControlledRun::new(inner)).map_err(raise)?;
        Ok(Self { run: Mutex::new(Some(run)), started })
    }

    #[getter]
    fn hosts(&self) -> PyResult<u32> {
        self.with(|run| Ok(run.hosts()))
    }

    #[getter]
    fn may_send(&self) -> PyResult<bool> {
        self.with(|run| Ok(run.may_send()))
    }

    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        self.with(|run| Ok(run.now().0))
    }

    #[getter]
    fn next_ps(&self) -> PyResult<Option<u64>> {
        self.with(|run| Ok(run.next_time().map(|time| time.0)))
    }

    fn bandwidth_gbit_s(&self, host: u32) -> PyResult<f64> {
        self.with(|run| run.bandwidth_gbit_s(host))
    }

    fn quantity(&self, name: &str, host: u32) -> PyResult<f64> {
        self.with(|run| run.quantity(name, host))
    }

    /// Returns whether the message was sent: not if `room` is given and the host has no room for it.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn send(
        &self,
        src: u32,
        dst: u32,
        bytes: u64,
        tag: u64,
        sl: u8,
        room: Option<u64>,
        sent: Option<Callback>,
        delivered: Option<Callback>,
    ) -> PyResult<bool> {
        let delivery = Delivery { from: src, to: dst, bytes, tag, sl };
        self.with(|run| match room {
            Some(room) => run.try_send(delivery, room, sent, delivered),
            None => run.send(delivery, sent, delivered).map(|()| true),
        })
    }

    fn recv(&self, dst: u32, src: u32, bytes: u64, tag: u64, arrived: Callback) -> PyResult<()> {
        self.with(|run| run.receive(MatchKey { from: src, to: dst, tag }, bytes, arrived))
    }

    fn at(&self, time_ps: u64, function: Callback) -> PyResult<()> {
        self.with(|run| run.at(Time(time_ps), function))
    }

    fn stop(&self) -> PyResult<()> {
        self.with(|run| {
            run.stop();
            Ok(())
        })
    }

    /// Returns the next function to call; `None` if the run has reached `until_ps`, or if nothing is left to do.
    fn next_call(&self, py: Python<'_>, until_ps: Option<u64>) -> PyResult<Option<Callback>> {
        let until = until_ps.map_or(Time::NEVER, Time);
        py.check_signals()?;
        py.detach(|| self.with(|run| run.next_call(until)))
    }

    /// Ends the run, and returns its results.
    fn finish(&self, py: Python<'_>) -> PyResult<Run> {
        let run = self.lock().take().ok_or_else(|| PyValueError::new_err("the run has been finished"))?;
        let (outcome, _) = py.detach(|| run.finish()).map_err(raise)?;
        Run::of(py, outcome, vec![(0, String::new(), self.started.elapsed().as_secs_f64())])
    }
}
