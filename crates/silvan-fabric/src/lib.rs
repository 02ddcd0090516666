//! The model of a lossless interconnection network.
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`topology`] | how hosts and switches are wired, one file per family |
//! | [`routing`] | forwarding tables, one file per algorithm, and the deadlock check |
//! | [`config`] | everything a run needs to know besides topology and tables |
//! | [`congestion`] | marking at switches and reaction at hosts, one file per part |
//! | [`traffic`] | who sends what to whom, when |
//! | `link`, `packet` | what crosses between nodes: packets one way, credits the other |
//! | `jobs` | parallel applications: ranks that hand messages to hosts and wait for them |
//! | `host` | adapters: queues per flow, injection, the sink |
//! | `switch`, `port`, `port_set` | one file per architecture; ports, virtual lanes, sets of ports |
//! | `outputs` | VOQ switches run output by output, in bins of time |
//! | [`queueing`] | how buffers are divided into queues, and the isolation of congested flows |
//! | `measure` | meters, time series, trees, the watchdog, invariants |
//! | `setup` | from configuration, topology and tables to a network that can run |
//! | [`simulation`] | the run |
//! | [`outcome`] | what it leaves behind |
//! | [`fluid`] | rates of flows as fluids: optima, and where back pressure settles |

pub mod config;
pub mod congestion;
mod context;
pub mod fluid;
mod host;
mod jobs;
mod link;
mod measure;
pub mod outcome;
mod outputs;
mod packet;
mod port;
mod port_set;
pub mod queueing;
pub mod routing;
mod setup;
pub mod simulation;
mod switch;
pub mod topology;
pub mod traffic;

pub use measure::MOST_TREE_ROWS;
pub use setup::{HostNames, Reason, SetupError, check, check_links, check_routes, permutation};
