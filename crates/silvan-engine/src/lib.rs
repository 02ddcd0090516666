//! Time, events, the event queue and random streams.
//!
//! This crate knows nothing of networks. It fixes what makes a run repeatable: integer
//! picoseconds ([`Time`]), one total order of events that is intrinsic to the events
//! ([`Event`]), and one random stream per owner and purpose ([`random::Stream`]).

pub mod barrier;
pub mod bins;
pub mod cache;
pub mod queue;
pub mod random;
pub mod units;

pub use bins::Bins;
pub use queue::{Event, EventQueue};
pub use units::{Bytes, Rate, Time, UnitError};
