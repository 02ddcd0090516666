//! The reports at the end of a run: the summary, and the account in words.

mod account;
mod summary;

pub(crate) use account::{Story, tell};
pub(crate) use summary::{Findings, Group};
