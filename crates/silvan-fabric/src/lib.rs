//! The model of a lossless interconnection network.
//!
//! | module | what it contains |
//! | --- | --- |
//! | [`topology`] | how hosts and switches are wired, one file per family |
//! | [`routing`] | forwarding tables, one file per algorithm, and the deadlock check |
//! | [`config`] | everything a run needs to know besides topology and tables |
//! | [`congestion`] | marking at switches and reaction at hosts, one file per component |
//! | [`traffic`] | who sends what to whom, when |
//! | `link`, `packet`, `message` | what crosses between nodes: packets and notifications one way, credits the other |
//! | `meters` | counters that nodes write |
//! | `context` | what a node works with while it handles an event |
//! | `host`, `order`, `limiter` | adapters: queues per flow, injection, the sink |
//! | `switch`, `port`, `port_set` | one file per architecture; ports, virtual lanes, sets of ports |
//! | `outputs` | the binned scheduler of VOQ switches |
//! | [`queueing`] | how buffers are divided into queues, and the isolation of congested flows |
//! | `jobs` | parallel applications: ranks that hand messages to hosts and wait for them |
//! | `partition` | hosts and switches with all that happens there |
//! | `observe` | time series, congestion trees, the watchdog, invariants: all read-only |
//! | `setup` | from configuration, topology and tables to a network that can run |
//! | [`simulation`] | the run: partitions, threads, samples |
//! | `report`, [`outcome`] | what a run leaves behind |
//! | [`fluid`] | rates of flows as fluids: optima, and where back pressure settles |

pub mod config;
pub mod congestion;
mod context;
mod error;
mod facts;
pub mod fluid;
mod host;
mod jobs;
mod limiter;
mod link;
mod message;
mod meters;
mod observe;
mod order;
pub mod outcome;
mod outputs;
mod packet;
mod packet_format;
mod partition;
mod port;
mod port_set;
pub mod queueing;
mod report;
pub mod routing;
mod setup;
pub mod simulation;
mod switch;
pub mod topology;
pub mod traffic;
mod voq;

pub use congestion::round_trip::RoundTrip;
pub use error::{Reason, SetupError};
pub use observe::MOST_TREE_ROWS;
pub use setup::{HostNames, check, check_links, check_routes, permutation};
