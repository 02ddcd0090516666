//! Traces in which several operations take the place of one.

use crate::trace::{BuildError, Operation, Trace, TraceBuilder, When};

/// The numbers of the operations that take the place of one: the first and the last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Substitutes {
    pub first: u32,
    pub last: u32,
}

/// The sizes of the parts of a message: full ones, then the rest. An empty message has one empty part.
pub(crate) fn parts(bytes: u64, full: u64) -> impl Iterator<Item = u64> + Clone + use<> {
    let (whole, rest) = (bytes / full, bytes % full);
    let last = (rest > 0 || bytes == 0).then_some(rest);
    (0..whole).map(move |_| full).chain(last)
}

/// Adds messages that a rank sends or receives one after the other. There must be at least one.
pub(crate) fn in_order(
    build: &mut TraceBuilder,
    rank: u32,
    messages: impl Iterator<Item = Operation>,
) -> Result<Substitutes, BuildError> {
    let mut place: Option<Substitutes> = None;
    for message in messages {
        let made = build.push(rank, message)?;
        if let Some(Substitutes { last, .. }) = place {
            build.wait(rank, made, last, When::Start)?;
        }
        place = Some(Substitutes { first: place.map_or(made, |place| place.first), last: made });
    }
    Ok(place.unwrap_or_default())
}

/// A rank of a trace in a new one, which gets its operations in their order.
#[derive(Debug)]
pub(crate) struct Rewritten<'t> {
    trace: &'t Trace,
    rank: u32,
    /// For each operation so far, those in the new trace.
    places: Vec<Substitutes>,
}

impl<'t> Rewritten<'t> {
    pub fn of(trace: &'t Trace, rank: u32) -> Self {
        Self { trace, rank, places: Vec::with_capacity(trace.of_rank(rank).len()) }
    }

    /// Adds the next operation as it is.
    pub fn keep(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<(), BuildError> {
        let made = build.push(self.rank, operation)?;
        self.replace(Substitutes { first: made, last: made });
        Ok(())
    }

    /// States the operations that have been added for the next operation.
    pub fn replace(&mut self, place: Substitutes) {
        self.places.push(place);
    }

    /// Adds the dependencies and marks of all operations.
    pub fn finish(self, build: &mut TraceBuilder) -> Result<(), BuildError> {
        let Self { trace, rank, places } = self;
        let first = trace.first(rank);
        for (index, place) in places.iter().enumerate() {
            for (when, from) in [(When::Finish, place.last), (When::Start, place.first)] {
                for &later in trace.successors(first + index, when).iter() {
                    build.wait(rank, places[later as usize].first, from, when)?;
                }
            }
        }
        let marks = trace.marks();
        let own = marks.partition_point(|mark| mark.first < first);
        let end = first + places.len();
        for mark in marks[own..].iter().take_while(|mark| mark.first < end) {
            let range = (places[mark.first - first].first, places[mark.end - 1 - first].last + 1);
            build.mark_again(rank, range, mark);
        }
        Ok(())
    }
}
