//! A run that a program controls, which the C library (`silvan-capi`) and the Python package offer.
//!
//! The program sends messages, posts receives and sets alarms. Each has a callback of any type `C`. The run stops when a
//! callback is due, and returns it ([`ControlledRun::next_call`]); the caller calls it and continues. A callback can therefore
//! use the run.
//!
//! | file | content |
//! | --- | --- |
//! | [`matching`] | which messages complete which receives |
//! | [`run`] | the run, and the order of calls |
//! | [`results`] | the files of results |

pub mod matching;
pub mod results;
pub mod run;

pub use run::{ControlledRun, Delivery, Problem};
