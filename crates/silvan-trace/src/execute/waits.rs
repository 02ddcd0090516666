//! The numbers of unfinished dependencies of the operations that are in progress.
//!
//! A rank executes its operations roughly in their order, so only a window of them is kept: from the first operation that has not
//! finished to the last one for which another one has started or finished. The memory depends on what is in progress, and not on
//! the size of the trace.

use std::collections::VecDeque;

use silvan_engine::saved::Saved;

use crate::trace::Trace;

/// Marks a finished operation.
pub(super) const DONE: u32 = u32::MAX;

/// The window of a rank. Operations before it have finished, and those after it have all dependencies that they have in the
/// trace.
#[derive(Debug, Clone, Default, Saved)]
pub(super) struct Window {
    origin: u32,
    /// Number of unfinished dependencies of each operation, or [`DONE`]. The first one is not [`DONE`].
    values: VecDeque<u32>,
}

impl Window {
    /// The first operation that has not finished.
    pub fn origin(&self) -> u32 {
        self.origin
    }

    /// The end of the window.
    pub fn end(&self) -> u32 {
        self.origin + self.values.len() as u32
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &u32> {
        self.values.iter()
    }

    /// The number of unfinished dependencies of an operation that has not finished.
    fn value(&mut self, trace: &Trace, rank: u32, index: u32) -> &mut u32 {
        let (first, place) = (trace.first(rank), (index - self.origin) as usize);
        while self.values.len() <= place {
            self.values.push_back(trace.waits(first + self.end() as usize));
        }
        &mut self.values[place]
    }

    fn skip_finished(&mut self) {
        while self.values.front() == Some(&DONE) {
            self.values.pop_front();
            self.origin += 1;
        }
    }
}

/// The windows of all ranks.
#[derive(Debug, Saved)]
pub(super) struct Waits(pub(super) Vec<Window>);

impl Waits {
    pub fn new(ranks: usize) -> Self {
        Self(vec![Window::default(); ranks])
    }

    pub fn window(&self, rank: u32) -> &Window {
        &self.0[rank as usize]
    }

    /// The number of unfinished dependencies of the operation `at` of a rank, or [`DONE`].
    pub fn of(&self, trace: &Trace, rank: u32, at: usize) -> u32 {
        let window = self.window(rank);
        match ((at - trace.first(rank)) as u32).checked_sub(window.origin) {
            None => DONE,
            Some(place) => window.values.get(place as usize).copied().unwrap_or_else(|| trace.waits(at)),
        }
    }

    /// Removes a dependency of an operation; returns the number of those left.
    pub fn release(&mut self, trace: &Trace, rank: u32, index: u32) -> u32 {
        let value = self.0[rank as usize].value(trace, rank, index);
        *value -= 1;
        *value
    }

    /// States that the operation `at` of a rank has finished.
    pub fn finish(&mut self, trace: &Trace, rank: u32, at: usize) {
        let window = &mut self.0[rank as usize];
        *window.value(trace, rank, (at - trace.first(rank)) as u32) = DONE;
        window.skip_finished();
    }

    /// Restores the window of a rank.
    pub fn restore(&mut self, rank: u32, origin: u32, values: Vec<u32>) {
        let window = &mut self.0[rank as usize];
        *window = Window { origin, values: values.into() };
        window.skip_finished();
    }
}
