//! A viewer of a run: a Python object that receives the network and samples during the run.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use silvan_fabric::simulation::{Progress, Simulation};
use silvan_scenario::{Scenario, describe};

use crate::convert::{ModelError, SilvanError, model_error};

/// A viewer, and which samples it receives.
pub struct Viewer<'py> {
    object: Bound<'py, PyAny>,
    /// The viewer receives the samples whose number is a multiple of this.
    every: u64,
    samples: u64,
}

impl<'py> Viewer<'py> {
    /// Calls `object.network(json)`, which returns `n` to receive every `n`-th sample.
    pub fn open(object: Bound<'py, PyAny>, scenario: &Scenario, simulation: &Simulation) -> PyResult<Self> {
        let network = object.py().detach(|| {
            let (topology, ..) = scenario.build().map_err(|error| error.to_string())?;
            describe::network(scenario, &topology, simulation)
        });
        let every: u64 =
            object.call_method1("network", (network.map_err(SilvanError::new_err)?,))?.extract()?;
        Ok(Self { object, every: every.max(1), samples: 0 })
    }

    /// Advances by about `events` events, or for about `time` if this is shorter, and calls
    /// `object.sample(json)` at samples.
    pub fn advance(
        &mut self,
        simulation: &mut Simulation,
        events: u64,
        time: Duration,
    ) -> PyResult<Progress> {
        let py = self.object.py();
        let began = Instant::now();
        let mut first = None;
        loop {
            let (state, is_sample) =
                py.detach(|| simulation.advance_to_sample(events)).map_err(model_error)?;
            let first = *first.get_or_insert(state.events);
            if is_sample {
                self.samples += 1;
                if self.samples.is_multiple_of(self.every) {
                    let text = py.detach(|| describe::sample(&simulation.latest(), simulation.packet_hops()));
                    self.object.call_method1("sample", (text.map_err(ModelError::new_err)?,))?;
                }
            }
            if state.done || !is_sample || state.events - first >= events || began.elapsed() >= time {
                return Ok(state);
            }
        }
    }
}
