//! Traces of parallel applications: what each rank sends, receives and computes, and what waits for what.
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`trace`] | the inner form: a graph of operations per rank, as a structure of arrays |
//! | [`sequence`] | the calls of an MPI rank, one after the other, as such a graph |
//! | [`collective`] | collective operations by named algorithm, as rounds of messages |
//! | [`read`] | GOAL (text and binary), SimGrid's time-independent traces, VEF, Chakra, HPCC recordings |
//! | [`write`] | GOAL, text and binary |
//! | [`execute`] | a trace run without a network: MPI matching, LogGP costs, what waits for ever |
//! | [`check`] | what is in a trace, and whether it runs to its end |
//! | [`generate`] | kernels of HPC Challenge, training steps of transformers |
//!
//! Files come from anywhere: a reader checks a number before it allocates by it, and says file, line or
//! offset, what is there and what would be right.

pub mod check;
pub mod collective;
pub mod error;
pub mod execute;
pub mod generate;
pub mod read;
pub mod sequence;
pub mod trace;
pub mod write;

pub use error::{Place, TraceError};
pub use trace::{Kind, Operation, Trace, TraceBuilder};
