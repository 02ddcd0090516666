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

use crate::rewrite::{Rewritten, Substitutes, in_order, parts};
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
        copy(&mut build, (trace, rank), chunks, &unit_of)?;
    }
    for ((tree, reducer), &first) in trees.iter().zip(&trace.reducers).zip(&firsts) {
        add_units(&mut build, (tree, reducer), first, chunks)?;
    }
    build.finish()
}

/// Adds a rank to the new trace, and divides its messages to and from reducers. `unit_of` gives the unit for each reducer and
/// member.
fn copy(
    build: &mut TraceBuilder,
    (trace, rank): (&Trace, u32),
    chunks: &Chunks,
    unit_of: &HashMap<(u32, u32), u32>,
) -> Result<(), BuildError> {
    let mut copied = Rewritten::of(trace, rank);
    let reducers = trace.members()..trace.ranks();
    // A call consists of the receive of the result, followed by the send of the vector.
    let mut results: Option<Substitutes> = None;
    for at in trace.of_rank(rank) {
        let operation = trace.operation(at);
        let is_message = matches!(operation.kind, Kind::Send | Kind::Recv);
        if !is_message || !reducers.contains(&operation.peer) {
            copied.keep(build, operation)?;
            continue;
        }
        let operation = Operation { peer: unit_of[&(operation.peer, rank)], ..operation };
        let messages = parts(operation.size, chunks.bytes).map(|size| Operation { size, ..operation });
        let place = match (operation.kind, results.take()) {
            (Kind::Send, Some(results)) => send(build, rank, messages, (results.first, chunks.outstanding))?,
            _ => *results.insert(in_order(build, rank, messages)?),
        };
        copied.replace(place);
    }
    copied.finish(build)
}

/// Sends the chunks of a vector one after the other. A chunk waits for the result of the chunk that precedes it by
/// the number of outstanding chunks. `result` is the receive of the first result.
fn send(
    build: &mut TraceBuilder,
    rank: u32,
    messages: impl Iterator<Item = Operation>,
    (result, outstanding): (u32, u32),
) -> Result<Substitutes, BuildError> {
    let mut place: Option<Substitutes> = None;
    for (number, message) in (0u32..).zip(messages) {
        let made = build.push(rank, message)?;
        match (number.checked_sub(outstanding), place) {
            (Some(earlier), _) => build.wait(rank, made, result + earlier, When::Finish)?,
            (None, Some(Substitutes { last, .. })) => build.wait(rank, made, last, When::Start)?,
            (None, None) => {}
        }
        place = Some(Substitutes { first: place.map_or(made, |place| place.first), last: made });
    }
    Ok(place.unwrap_or_default())
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
        for bytes in reducer.calls.iter().flat_map(|&bytes| parts(bytes, chunks.bytes)) {
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
