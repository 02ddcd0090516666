//! The messages of a job in the order of posting.

use std::ops::{Deref, DerefMut};

use silvan_engine::Time;
use silvan_engine::saved::{Damaged, Reader, Saved, Writer};

use super::Logged;

/// The log of the messages that a partition of a job posted.
///
/// A relative state contains only the rows of messages that are under way. All rows from the first such message on are
/// *pending*.
#[derive(Debug, Default, Saved)]
#[saved(relative(Self::save_pending, Self::pass_pending))]
pub(crate) struct Log(Vec<Logged>);

/// The number of rows of a log, and the number of the first pending row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogAt {
    rows: usize,
    pending: usize,
}

impl Deref for Log {
    type Target = Vec<Logged>;

    fn deref(&self) -> &Vec<Logged> {
        &self.0
    }
}

impl DerefMut for Log {
    fn deref_mut(&mut self) -> &mut Vec<Logged> {
        &mut self.0
    }
}

impl Log {
    pub fn into_rows(self) -> Vec<Logged> {
        self.0
    }

    pub(super) fn at(&self) -> LogAt {
        let is_pending = |row: &Logged| row.left.is_none() || row.there.is_none();
        let pending = self.0.iter().position(is_pending).unwrap_or(self.0.len());
        LogAt { rows: self.0.len(), pending }
    }

    fn save_pending(&self, to: &mut Writer<'_>) {
        let (LogAt { rows, pending }, series) = (self.at(), to.series(1));
        to.number_rows(series);
        to.label("Running.log");
        to.put_row(rows as u32);
        to.put_row(pending as u32);
        self.0[pending..].iter().for_each(|row| row.save(to));
    }

    /// Passes over what [`Self::save_pending`] saved. [`Self::repeat`] adds the rows.
    fn pass_pending(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let (rows, pending) = (u32::load(from)?, u32::load(from)?);
        (pending..rows).try_for_each(|_| Logged::load(from).map(|_| ()))
    }

    /// Whether rows can be repeated that were added since `earlier`.
    pub(super) fn can_repeat(&self, earlier: LogAt) -> bool {
        let LogAt { rows, pending } = self.at();
        rows - earlier.rows == pending - earlier.pending
    }

    /// Adds the rows of a number of periods. The state equals that at `earlier`, one period before.
    pub(super) fn repeat(&mut self, earlier: LogAt, period: Time, periods: u64) {
        let LogAt { pending, .. } = self.at();
        let later = |row: &Logged, times: u64| {
            let by = Time(period.0 * times);
            let later = |time: Time| time + by;
            Logged {
                handed: later(row.handed),
                left: row.left.map(later),
                there: row.there.map(later),
                ..*row
            }
        };
        let repeated = self.0[earlier.pending..pending].to_vec();
        let rest: Vec<Logged> = self.0.drain(pending..).collect();
        for times in 1..=periods {
            self.0.extend(repeated.iter().map(|row| later(row, times)));
        }
        self.0.extend(rest.iter().map(|row| later(row, periods)));
    }
}
