//! Recordings and checks of a network at samples. Observers read the partitions through a
//! [`View`](crate::partition::View) and do not change them.

mod books;
mod classes;
mod congestion_log;
mod faults;
mod forest;
mod ideal;
mod invariants;
mod isolation;
mod latest;
mod pauses;
mod retries;
mod series;
mod transfers;
mod trimming;
mod watchdog;

pub(crate) use books::{check_traffic, left_waiting};
pub(crate) use congestion_log::Logs;
pub(crate) use faults::{
    ChangeLog, Recovered, recoveries, recovery_sentences, recovery_table, summary as loss_summary, table as loss_table,
};
pub use faults::{Expected, Spared};
pub use forest::MOST_TREE_ROWS;
pub(crate) use forest::{ForestObserver, Judged, TreeKind, TreeNames};
pub(crate) use invariants::{Invariants, Violation, check_all_credits};
pub(crate) use isolation::summary as isolation_summary;
pub use latest::{Latest, LatestTree, TreeLink};
pub(crate) use pauses::{long_pauses, overflow_in_words, summary as pause_summary, table as pause_table};
pub(crate) use retries::{summary as retry_summary, table as retry_table};
pub(crate) use series::{FlowName, LinkName, Series};
pub(crate) use transfers::{Closing, Completions, TransferPlan};
pub(crate) use trimming::table as trimming_table;
pub(crate) use watchdog::find_deadlock;
