//! The model of a lossless interconnection network.
//!
//! | module | content |
//! | --- | --- |
//! | [`config`] | the configuration of a run, in addition to topology and tables |
//! | `switch_marking`, `congestion_log` | marking rules applied at switches; the latest marks and triggers |
//! | `link`, `packet`, `message` | the exchange between nodes: packets and notifications in one direction, credits in the other |
//! | `free_slots` | the free slots of tables whose slots are reused |
//! | `meters` | counters that nodes write |
//! | `context` | the state that a node uses while it handles an event |
//! | [`faults`] | links and hosts that change during a run, rerouting, loss recovery: settings and times |
//! | [`lane_tables`] | arbitration of virtual lanes by tables with weights |
//! | `host`, `order`, `limiter`, `shared_injection`, `sink` | adapters: queues per flow, injection, input buffers |
//! | `routes` | the forwarding tables of all switches, and hashing |
//! | `lookahead` | how soon nodes affect each other: the width of bins, the nodes of each thread |
//! | `switch` | one file per architecture |
//! | `outputs` | the binned scheduler of VOQ and FIFO switches |
//! | `not_binned` | the reasons for which the event-ordered scheduler runs a network |
//! | [`queueing`] | the division of buffers into queues, and the isolation of congested flows |
//! | `trigger` | traffic that starts after a number of delivered packets |
//! | `jobs` | parallel applications: ranks that post messages to hosts and wait for messages |
//! | `partition` | some hosts and switches, and the processing of their events |
//! | `observe` | time series, congestion trees, the watchdog, invariants: all read-only |
//! | `setup` | builds a runnable network from configuration, topology and tables |
//! | `recorder` | departures of packets, for the explanation of delays |
//! | [`simulation`] | the run: partitions, threads, samples |
//! | `table`, [`outcome`] | the results of a run: tables; one file per subject |

pub mod config;
mod congestion_log;
mod context;
mod error;
pub mod faults;
mod free_slots;
mod host;
mod jobs;
pub mod lane_tables;
mod limiter;
mod link;
mod lookahead;
mod message;
mod meters;
mod not_binned;
mod observe;
mod order;
pub mod outcome;
mod outputs;
mod packet;
mod partition;
pub mod queueing;
mod recorder;
mod routes;
mod schedule;
mod setup;
mod shared_injection;
pub mod simulation;
mod sink;
mod switch;
mod switch_marking;
mod table;
#[cfg(test)]
mod tests;
mod trigger;
mod trimming;
mod voq;

pub use error::{Reason, SetupError};
pub use faults::completed as completed_tables;
pub use not_binned::NotBinned;
pub use observe::MOST_TREE_ROWS;
pub use outcome::{Expected, Spared};
pub use packet::FlowAddress;
pub use recorder::{
    NOT_RECORDED, RecordPlan, RecordedChannel, RecordedDrain, RecordedHop, RecordedLoss, RecordedLossKind,
    RecordedPacket, RecordedParcel, RecordedReport, RecordedRole, RecordedWait, RecordedWaitKind, RunRecord,
};
pub use setup::{
    FaultPlan, HostNames, PauseMemory, RemainingNetwork, RoundTrips, SharedPauseMemory, ShortCredit, check,
    check_links, check_routes, pause_memory, permutation, short_credit,
};
