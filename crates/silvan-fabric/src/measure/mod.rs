//! What is counted while a run goes on, and what is made of it at the end.

mod account;
mod ahead;
mod books;
mod classes;
mod deliveries;
mod forest;
#[cfg(debug_assertions)]
mod invariants;
mod isolation;
mod latency;
mod meters;
mod series;
mod watchdog;

pub(crate) use account::{Story, tell};
pub(crate) use ahead::Ahead;
pub(crate) use books::{check_traffic, left_waiting};
pub(crate) use deliveries::Watch;
pub use forest::MOST_TREE_ROWS;
pub(crate) use forest::{Forest, Judged, Nodes, Verdict};
#[cfg(debug_assertions)]
pub(crate) use invariants::{check_all, check_channel};
pub(crate) use isolation::summary as isolation_summary;
pub(crate) use latency::Bin;
pub(crate) use meters::{ClassMeter, Meters};
pub(crate) use series::{FlowName, LinkName, Series};
pub(crate) use watchdog::find_deadlock;
