//! Time, events, the event queue and random streams.
//!
//! This crate is independent of networks. It provides the three things that make a run repeatable: integer
//! picoseconds ([`Time`]), a total order of events that depends only on the events ([`Event`]), and one
//! random stream per owner and purpose ([`random::Stream`]).

// The derive macro refers to this crate by name.
extern crate self as silvan_engine;

pub mod bins;
pub mod cache;
pub mod lockstep;
pub mod memory;
mod notes;
pub mod queue;
pub mod random;
pub mod repeats;
pub mod saved;
pub mod units;

pub use bins::Bins;
pub use queue::{Event, EventQueue};
pub use units::{Bytes, Rate, Time, UnitError};
