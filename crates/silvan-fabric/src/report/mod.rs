//! The reports at the end of a run: the summary, and the account in sentences.

mod account;
mod summary;

pub(crate) use account::{Story, tell};
pub(crate) use summary::{Findings, Group};
