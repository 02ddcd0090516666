//! The run itself: built from topology, tables and configuration, advanced in slices.

use silvan_engine::Time;

use crate::config::Config;
use crate::outcome::Outcome;
use crate::routing::Tables;
use crate::topology::Topology;

/// Why a run could not be built or go on, with its context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The configuration cannot be run as it stands.
    #[error("{0}")]
    Configuration(String),
    /// Packets wait for each other in a circle.
    #[error("deadlock at {now}: {cycle}")]
    Deadlock {
        /// Simulated time of the discovery.
        now: Time,
        /// The circle, port by port.
        cycle: String,
    },
    /// An invariant of the model is broken: a defect of the simulator.
    #[error("model error at {now}: {what}")]
    Broken {
        /// Simulated time.
        now: Time,
        /// What does not hold.
        what: String,
    },
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time reached.
    pub now: Time,
    /// Simulated time of the end.
    pub end: Time,
    /// Events processed so far.
    pub events: u64,
    /// Whether the end is reached.
    pub done: bool,
}

/// A run.
pub struct Simulation {
    config: Config,
}

impl Simulation {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] where topology, tables and configuration do not fit.
    pub fn new(_topology: &Topology, _tables: &Tables, config: &Config) -> Result<Self, ModelError> {
        Ok(Self { config: config.clone() })
    }

    /// Processes about `events` events, or fewer if the end comes first.
    ///
    /// # Errors
    /// [`ModelError::Deadlock`] and [`ModelError::Broken`].
    pub fn advance(&mut self, _events: u64) -> Result<Progress, ModelError> {
        Ok(Progress { now: self.config.duration, end: self.config.duration, events: 0, done: true })
    }

    /// Closes the books, also of a run that was stopped early.
    #[must_use]
    pub fn finish(self) -> Outcome {
        todo!()
    }
}
