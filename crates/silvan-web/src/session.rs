//! A run that advances from sample to sample.

use std::path::Path;

use silvan_fabric::simulation::Simulation;
use silvan_scenario::{Scenario, Threads, describe};

/// The status of a call: a combination of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// No bit: the run reached neither a sample nor its end.
    pub const NOTHING: Self = Self(0);
    /// The run reached a sample.
    pub const SAMPLE: Self = Self(1);
    /// The run reached its end.
    pub const DONE: Self = Self(2);
    /// The call failed.
    pub const FAILED: Self = Self(4);

    /// Whether this status contains all bits of another status.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The name of the scenario in error messages.
const ORIGIN: &str = "scenario";

/// A run.
pub struct Session {
    simulation: Simulation,
}

impl Session {
    /// Creates the run of a scenario. Returns the run and a JSON description of its network.
    ///
    /// # Errors
    /// If the scenario is invalid, or names a file, because a browser has no files.
    pub fn open(text: &str) -> Result<(Self, String), String> {
        let mut scenario =
            Scenario::from_toml(text, ORIGIN, Path::new(""), &[]).map_err(|error| error.to_string())?;
        // A WebAssembly module has one thread. The results do not depend on the number of threads.
        scenario.spec.threads = Threads::Count(1);
        let (topology, ..) = scenario.build().map_err(|error| error.to_string())?;
        let simulation = scenario.simulation().map_err(|error| error.to_string())?;
        let network = describe::network(&scenario, &topology, &simulation)?;
        Ok((Self { simulation }, network))
    }

    /// Advances by about `events` events, or to the next sample if that comes first. Returns the sample as
    /// JSON if the run reached one, otherwise an empty string.
    ///
    /// # Errors
    /// If the model reports an error, such as a deadlock.
    pub fn advance(&mut self, events: u64) -> Result<(Status, String), String> {
        let (progress, is_sample) =
            self.simulation.advance_to_sample(events).map_err(|error| error.to_string())?;
        let mut status = if progress.done { Status::DONE } else { Status::NOTHING };
        if !is_sample {
            return Ok((status, String::new()));
        }
        status.0 |= Status::SAMPLE.0;
        Ok((status, describe::sample(&self.simulation.latest(), self.simulation.packet_hops())?))
    }

    /// Ends the run, and returns its results as JSON: the summary, the columns of the tables by name, the account and
    /// the warnings.
    ///
    /// # Errors
    /// If the final check of packets and credits fails.
    pub fn finish(self) -> Result<String, String> {
        describe::results(&self.simulation.finish().map_err(|error| error.to_string())?)
    }
}
