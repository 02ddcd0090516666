//! Recordings and checks of a network at samples. Observers read the partitions through a
//! [`View`](crate::partition::View) and do not change them.

mod books;
mod classes;
mod forest;
mod invariants;
mod latency;
mod latest;
mod series;
mod watchdog;

pub(crate) use books::{check_traffic, left_waiting};
pub use forest::MOST_TREE_ROWS;
pub(crate) use forest::{ForestObserver, Judged, TABLES as TREES, TreeKind};
pub(crate) use invariants::{Invariants, Violation, check_all_credits};
pub use latency::LatencySummary;
pub(crate) use latency::{LATENCY, summaries as latency_summaries, table as latency_table};
pub use latest::{Latest, LatestTree, TreeLink};
pub(crate) use series::{FlowName, LinkName, Series, TABLES as SERIES};
pub(crate) use watchdog::{SwitchLane, find_deadlock};
