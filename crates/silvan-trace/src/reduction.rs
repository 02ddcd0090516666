//! In-network reduction: replaces the reducers of a trace by trees of reduction units in switches.
//!
//! ```text
//!            unit            a unit combines a chunk of the vector when it has arrived from all children,
//!           /    \           and sends one chunk to its parent; the root sends the result to its children,
//!        unit    unit        and every unit passes it on to its own
//!        /  \    /  \
//!     rank rank rank rank
//! ```
//!
//! A vector is divided into chunks. Each rank has a limited number of chunks for which it waits for the result.
//! This number limits the memory of a unit, and it determines how a delay of one rank affects all others.
//!
//! The model is that of SHARP (Graham et al., "Scalable Hierarchical Aggregation Protocol", COMHPC 2016): switches
//! contain aggregation nodes, which exchange messages over the links of the network.

use std::collections::HashMap;

use crate::trace::{BuildError, Kind, Operation, Reducer, Trace, TraceBuilder, When};

/// The units that replace one reducer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The parent of each unit, as an index into this list. Exactly one unit, the root, has none.
    pub parents: Vec<Option<u32>>,
    /// The unit of each member of the reducer, as an index into `parents`.
    pub unit_of: Vec<u32>,
}

/// How vectors are divided, and the time that a unit takes to combine a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of a chunk, more than 0.
    pub bytes: u64,
    /// Number of chunks for which a rank waits at the same time, more than 0.
    pub outstanding: u32,
    /// Time from the arrival of a chunk from the last child until the unit sends the combined chunk, in ns.
    pub combining_ns: u64,
}

impl Chunks {
    /// The sizes of the chunks of a vector. An empty vector has one empty chunk.
    fn of(&self, bytes: u64) -> impl Iterator<Item = u64> + Clone + use<> {
        let (whole, rest) = (bytes / self.bytes, bytes % self.bytes);
        let last = (rest > 0 || bytes == 0).then_some(rest);
        (0..whole)
            .map({
                let size = self.bytes;
                move |_| size
            })
            .chain(last)
    }
}

/// Replaces each reducer of a trace by the units of a tree, in the same order. The units are the last ranks of the new
/// trace: those of the first tree come first. The new trace has no reducers.
///
/// # Errors
/// [`BuildError::Ranks`] and [`BuildError::TooLarge`] if the new trace would have more ranks, or more operations and
/// dependencies, than allowed.
///
/// # Panics
/// If the number of trees differs from that of the reducers, or a tree does not have a unit for each member.
pub fn spread(trace: &Trace, trees: &[Tree], chunks: &Chunks, limit: u64) -> Result<Trace, BuildError> {
    assert_eq!(trees.len(), trace.reducers.len(), "one tree for each reducer");
    let members = trace.members();
    let units: u64 = trees.iter().map(|tree| tree.parents.len() as u64).sum();
    let mut build = TraceBuilder::like(trace, u64::from(members) + units, limit)?;
    let mut first = members;
    let mut firsts = Vec::with_capacity(trees.len());
    let mut unit_of: HashMap<(u32, u32), u32> = HashMap::new();
    for (tree, reducer) in trees.iter().zip(&trace.reducers) {
        assert_eq!(tree.unit_of.len(), reducer.members.len(), "a unit for each member");
        let rank = members + firsts.len() as u32;
        let of_member = reducer.members.iter().zip(&tree.unit_of);
        unit_of.extend(of_member.map(|(&member, &unit)| ((rank, member), first + unit)));
        firsts.push(first);
        first += tree.parents.len() as u32;
    }
    for rank in 0..members {
        Copied::of(trace, rank, chunks).into(&mut build, &unit_of)?;
    }
    for ((tree, reducer), &first) in trees.iter().zip(&trace.reducers).zip(&firsts) {
        add_units(&mut build, (tree, reducer), first, chunks)?;
    }
    build.finish()
}

/// The operations of a rank, whose messages to and from reducers are to be divided.
struct Copied<'t> {
    trace: &'t Trace,
    rank: u32,
    chunks: &'t Chunks,
    /// For each operation, the numbers of the operations that take its place: the first and the last.
    places: Vec<(u32, u32)>,
}

impl<'t> Copied<'t> {
    fn of(trace: &'t Trace, rank: u32, chunks: &'t Chunks) -> Self {
        Self { trace, rank, chunks, places: Vec::with_capacity(trace.of_rank(rank).len()) }
    }

    /// Whether a message is exchanged with a reducer.
    fn is_reduced(&self, operation: &Operation) -> bool {
        matches!(operation.kind, Kind::Send | Kind::Recv)
            && (self.trace.members()..self.trace.ranks()).contains(&operation.peer)
    }

    /// Adds the rank to the new trace. `unit_of` gives the unit for each reducer and member.
    fn into(
        mut self,
        build: &mut TraceBuilder,
        unit_of: &HashMap<(u32, u32), u32>,
    ) -> Result<(), BuildError> {
        let (trace, rank) = (self.trace, self.rank);
        // A call consists of the receive of the result, followed by the send of the vector.
        let mut results: Option<(u32, u32)> = None;
        for at in trace.of_rank(rank) {
            let operation = trace.operation(at);
            let place = if !self.is_reduced(&operation) {
                let made = build.push(rank, operation)?;
                (made, made)
            } else {
                let operation = Operation { peer: unit_of[&(operation.peer, rank)], ..operation };
                let sizes = self.chunks.of(operation.size);
                let messages = sizes.map(|size| Operation { size, ..operation });
                match (operation.kind, results.take()) {
                    (Kind::Send, Some(results)) => self.send(build, messages, results)?,
                    _ => {
                        let made = self.receive(build, messages)?;
                        results = Some(made);
                        made
                    }
                }
            };
            self.places.push(place);
        }
        self.copy_edges(build)
    }

    /// Receives the chunks of a result one after the other.
    fn receive(
        &self,
        build: &mut TraceBuilder,
        messages: impl Iterator<Item = Operation>,
    ) -> Result<(u32, u32), BuildError> {
        let mut place: Option<(u32, u32)> = None;
        for message in messages {
            let made = build.push(self.rank, message)?;
            if let Some((_, last)) = place {
                build.wait(self.rank, made, last, When::Start)?;
            }
            place = Some((place.map_or(made, |(first, _)| first), made));
        }
        // There is at least one chunk.
        Ok(place.unwrap_or_default())
    }

    /// Sends the chunks of a vector one after the other. A chunk waits for the result of the chunk that precedes it by
    /// the number of outstanding chunks. `results` are the first and the last receive of the results.
    fn send(
        &self,
        build: &mut TraceBuilder,
        messages: impl Iterator<Item = Operation>,
        results: (u32, u32),
    ) -> Result<(u32, u32), BuildError> {
        let mut place: Option<(u32, u32)> = None;
        for (number, message) in (0u32..).zip(messages) {
            let made = build.push(self.rank, message)?;
            match (number.checked_sub(self.chunks.outstanding), place) {
                (Some(earlier), _) => build.wait(self.rank, made, results.0 + earlier, When::Finish)?,
                (None, Some((_, last))) => build.wait(self.rank, made, last, When::Start)?,
                (None, None) => {}
            }
            place = Some((place.map_or(made, |(first, _)| first), made));
        }
        Ok(place.unwrap_or_default())
    }

    /// Adds the dependencies and marks of the original operations.
    fn copy_edges(&self, build: &mut TraceBuilder) -> Result<(), BuildError> {
        let (trace, rank) = (self.trace, self.rank);
        let first = trace.first(rank);
        for (index, &(start, end)) in self.places.iter().enumerate() {
            for (when, from) in [(When::Finish, end), (When::Start, start)] {
                for &later in trace.successors(first + index, when) {
                    build.wait(rank, self.places[later as usize].0, from, when)?;
                }
            }
        }
        let marks = trace.marks();
        let own = marks.partition_point(|mark| mark.first < first);
        let end = first + self.places.len();
        for mark in marks[own..].iter().take_while(|mark| mark.first < end) {
            let range = (self.places[mark.first - first].0, self.places[mark.end - 1 - first].1 + 1);
            build.mark_again(rank, range, mark);
        }
        Ok(())
    }
}

/// Adds the operations of the units of a tree, whose first unit is the rank `first`.
fn add_units(
    build: &mut TraceBuilder,
    (tree, reducer): (&Tree, &Reducer),
    first: u32,
    chunks: &Chunks,
) -> Result<(), BuildError> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); tree.parents.len()];
    for (&member, &unit) in reducer.members.iter().zip(&tree.unit_of) {
        children[unit as usize].push(member);
    }
    for (unit, parent) in (0u32..).zip(&tree.parents) {
        if let Some(parent) = parent {
            children[*parent as usize].push(first + unit);
        }
    }
    for ((unit, parent), children) in (first..).zip(&tree.parents).zip(&children) {
        let parent = parent.map(|parent| first + parent);
        for bytes in reducer.calls.iter().flat_map(|&bytes| chunks.of(bytes)) {
            add_chunk(build, (unit, parent, children), (bytes, reducer.tag), chunks.combining_ns)?;
        }
    }
    Ok(())
}

/// Adds the operations of a unit for one chunk. Chunks are independent of each other: messages between two ranks arrive
/// in order, and all ranks send the chunks in the same order.
fn add_chunk(
    build: &mut TraceBuilder,
    (unit, parent, children): (u32, Option<u32>, &[u32]),
    (bytes, tag): (u64, u32),
    combining_ns: u64,
) -> Result<(), BuildError> {
    let combined = build.push(unit, Operation::delay(combining_ns))?;
    for &child in children {
        let arrived = build.push(unit, Operation::recv(child, bytes, tag))?;
        build.wait(unit, combined, arrived, When::Finish)?;
    }
    let result = match parent {
        None => combined,
        Some(parent) => {
            let sent = build.push(unit, Operation::send(parent, bytes, tag))?;
            build.wait(unit, sent, combined, When::Finish)?;
            build.push(unit, Operation::recv(parent, bytes, tag))?
        }
    };
    for &child in children {
        let sent = build.push(unit, Operation::send(child, bytes, tag))?;
        build.wait(unit, sent, result, When::Finish)?;
    }
    Ok(())
}
