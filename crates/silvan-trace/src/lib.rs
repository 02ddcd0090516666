//! Traces of parallel applications, which list what each rank sends, receives and computes, and the
//! dependencies between these operations.
//!
//! | module | contents |
//! | --- | --- |
//! | [`trace`] | the internal representation: a graph of operations per rank, as a structure of arrays |
//! | `operation` | one operation |
//! | `pages` | the operations of a large trace in a temporary file |
//! | [`sequence`] | converts the consecutive calls of an MPI rank to such a graph |
//! | [`collective`] | expands collective operations to rounds of messages, by named algorithm |
//! | [`read`] | GOAL (text and binary), SimGrid's time-independent traces, VEF, Chakra, HPCC, SimAI's workloads |
//! | [`write`] | GOAL, text and binary |
//! | [`execute`] | runs a trace without a network: MPI matching, LogGP costs, detection of deadlock |
//! | [`check`] | the contents of a trace, and whether it runs to completion |
//! | [`reduction`] | replaces reducers by trees of reduction units in switches |
//! | [`relay`] | lets ranks pass on messages of other ranks of their host |
//! | [`generate`] | kernels of HPC Challenge, collective operations, training steps of transformers |
//!
//! Files come from unknown sources, so a reader checks a number before it allocates memory for it. Errors
//! state the file and, if known, the line or offset.

pub mod check;
pub mod collective;
pub mod error;
pub mod execute;
pub mod generate;
mod operation;
mod pages;
pub mod read;
pub mod reduction;
pub mod relay;
mod rewrite;
pub mod sequence;
pub mod trace;
pub mod write;

pub use error::{Place, TraceError};
pub use trace::{Kind, Operation, Trace, TraceBuilder};
