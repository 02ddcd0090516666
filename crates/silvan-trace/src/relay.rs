//! Messages that another rank of the sender's host passes on. NCCL calls this PXN: a GPU copies data for a GPU on another rail
//! over the inner links to the GPU of its own host on that rail, which sends it, so that it does not cross rails in the network.
//!
//! ```text
//!  rank 0 --inner link--> rank 1        a part of a message that has arrived is passed on
//!                           |           while the next one is under way
//!                        rail 1
//!                           |
//!            rank 4       rank 5
//! ```
//!
//! The relay needs no time of its CPUs, and has posted its receives at the start.

use std::collections::{HashMap, HashSet};

use crate::collective::part;
use crate::rewrite::{Rewritten, Substitutes, in_order};
use crate::trace::{ANY, ANY_SIZE, BuildError, COLLECTIVE_TAGS, Kind, Operation, Trace, TraceBuilder, When};

/// The CPU of a rank on which it passes messages on, which other operations do not use.
const RELAY_CPU: u8 = u8::MAX;

/// The reason why messages cannot be passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// The new trace cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A receive could match a message from its sender or from a relay.
    #[error(
        "rank {rank}: {operation}: other ranks pass messages for it on, so its source and its tag must be stated"
    )]
    Wildcard {
        /// Rank of the receive.
        rank: u32,
        /// The receive.
        operation: Operation,
    },
}

/// The messages with one tag from one rank to another that a relay passes on.
#[derive(Debug, Clone, Copy)]
struct Relayed {
    relay: u32,
    /// Their tag in the new trace.
    tag: u32,
    /// The number of parts of each of them. It must be the same for all, because only their order distinguishes them.
    parts: u64,
}

/// The messages that are passed on, by sender, receiver and tag.
type AllRelayed = HashMap<(u32, u32, u32), Relayed>;

/// Lets ranks pass messages on. `relay_of` returns the rank through which messages from one rank to another go, which must be
/// neither of them; `None` if they are sent directly. `part` is the most bytes that are passed on at once, more than 0. Messages
/// with one tag between two ranks are divided into equally many parts.
///
/// # Errors
/// [`RelayError`], for example if a receive of a message that is passed on does not state its source and tag.
pub fn pass_on(
    trace: &Trace,
    relay_of: impl Fn(u32, u32) -> Option<u32>,
    part: u64,
    limit: u64,
) -> Result<Trace, RelayError> {
    let relayed = relayed(trace, relay_of, part);
    let senders: HashSet<(u32, u32)> = relayed.keys().map(|&(from, to, _)| (from, to)).collect();
    let receivers: HashSet<u32> = senders.iter().map(|&(_, to)| to).collect();
    let mut build = TraceBuilder::like(trace, trace.ranks().into(), limit)?;
    for rank in 0..trace.ranks() {
        let mut copied = Rewritten::of(trace, rank);
        for at in trace.of_rank(rank) {
            let operation = trace.operation(at);
            let found = match operation.kind {
                Kind::Send => relayed.get(&(rank, operation.peer, operation.tag)),
                Kind::Recv => {
                    let is_open = operation.peer == ANY && receivers.contains(&rank)
                        || operation.tag == ANY && senders.contains(&(operation.peer, rank));
                    if is_open {
                        return Err(RelayError::Wildcard { rank, operation });
                    }
                    relayed.get(&(operation.peer, rank, operation.tag))
                }
                Kind::Calc | Kind::Delay => None,
            };
            match found {
                Some(found) => copied.replace(divide(&mut build, (rank, operation), *found)?),
                None => copied.keep(&mut build, operation)?,
            }
        }
        copied.finish(&mut build)?;
    }
    for rank in 0..trace.ranks() {
        for at in trace.of_rank(rank) {
            let Operation { kind, peer, size, tag, .. } = trace.operation(at);
            if let (Kind::Send, Some(&found)) = (kind, relayed.get(&(rank, peer, tag))) {
                add_relay(&mut build, (rank, peer), found, size)?;
            }
        }
    }
    Ok(build.finish()?)
}

/// Finds the messages that are passed on.
fn relayed(trace: &Trace, relay_of: impl Fn(u32, u32) -> Option<u32>, part: u64) -> AllRelayed {
    let tags = (0..trace.operations()).map(|at| trace.operation(at).tag).filter(|&tag| tag != ANY);
    let mut next = tags.max().unwrap_or(0).max(COLLECTIVE_TAGS);
    let mut found = AllRelayed::new();
    for rank in 0..trace.ranks() {
        for at in trace.of_rank(rank) {
            let Operation { kind, peer, size, tag, .. } = trace.operation(at);
            if kind != Kind::Send {
                continue;
            }
            let Some(relay) = relay_of(rank, peer) else { continue };
            let of_tag = found.entry((rank, peer, tag)).or_insert_with(|| {
                next += 1;
                Relayed { relay, tag: next, parts: 1 }
            });
            of_tag.parts = of_tag.parts.max(size.div_ceil(part));
        }
    }
    found
}

/// Adds the parts of a message that is passed on to its sender or its receiver.
fn divide(
    build: &mut TraceBuilder,
    (rank, operation): (u32, Operation),
    Relayed { relay, tag, parts }: Relayed,
) -> Result<Substitutes, BuildError> {
    let message = Operation { peer: relay, tag, ..operation };
    if operation.size == ANY_SIZE {
        return in_order(build, rank, (0..parts).map(|_| message));
    }
    let sizes = (0..parts).map(|number| part(operation.size, parts, number));
    in_order(build, rank, sizes.map(|size| Operation { size, ..message }))
}

/// Lets a relay receive the parts of a message and pass them on.
fn add_relay(
    build: &mut TraceBuilder,
    (from, to): (u32, u32),
    Relayed { relay, tag, parts }: Relayed,
    bytes: u64,
) -> Result<(), BuildError> {
    for size in (0..parts).map(|number| part(bytes, parts, number)) {
        let received = build.push(relay, Operation::recv(from, size, tag).on(RELAY_CPU))?;
        let sent = build.push(relay, Operation::send(to, size, tag).on(RELAY_CPU))?;
        build.wait(relay, sent, received, When::Finish)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks 0 and 1 on one host and 2 and 3 on another one: rank 0 sends to ranks 2 and 3.
    fn crossing(tag: u32, receive: Operation) -> Trace {
        let mut build = TraceBuilder::new(4, 100).unwrap();
        let first = build.push(0, Operation::send(3, 10, tag)).unwrap();
        let second = build.push(0, Operation::send(2, 4, tag)).unwrap();
        build.wait(0, second, first, When::Finish).unwrap();
        build.push(3, receive).unwrap();
        build.push(2, Operation::recv(0, 4, tag)).unwrap();
        build.finish().unwrap()
    }

    fn relay_of(from: u32, to: u32) -> Option<u32> {
        ((from, to) == (0, 3)).then_some(1)
    }

    fn of_rank(trace: &Trace, rank: u32) -> Vec<String> {
        trace.of_rank(rank).map(|at| trace.operation(at).to_string()).collect()
    }

    #[test]
    fn parts_go_through_the_relay_and_others_directly() {
        let trace = pass_on(&crossing(7, Operation::recv(0, 10, 7)), relay_of, 4, 1_000).unwrap();
        let tag = COLLECTIVE_TAGS + 1;
        let sends = [4, 3, 3].map(|size| format!("send {size} bytes to rank 1, tag {tag}"));
        let direct = ["send 4 bytes to rank 2, tag 7".to_owned()];
        assert_eq!(of_rank(&trace, 0), [&sends[..], &direct].concat());
        let passed = [4, 3, 3].map(|size| {
            let received = format!("receive {size} bytes from rank 0, tag {tag}");
            [received, format!("send {size} bytes to rank 3, tag {tag}")]
        });
        assert_eq!(of_rank(&trace, 1), passed.concat());
        let received = [4, 3, 3].map(|size| format!("receive {size} bytes from rank 1, tag {tag}"));
        assert_eq!(of_rank(&trace, 3), received);
        // The second message waits for the last part of the first one.
        assert_eq!(*trace.successors(2, When::Finish), [3]);
        assert_eq!([0, 1, 2, 3].map(|at| trace.waits(at)), [0, 1, 1, 1]);
        assert!(trace.of_rank(1).all(|at| trace.operation(at).cpu == RELAY_CPU));
    }

    #[test]
    fn receives_of_any_size_have_as_many_parts() {
        let trace = pass_on(&crossing(7, Operation::recv(0, ANY_SIZE, 7)), relay_of, 4, 1_000).unwrap();
        assert_eq!(trace.of_rank(3).len(), 3);
        let whole = pass_on(&crossing(7, Operation::recv(0, 10, 7)), |_, _| None, 4, 1_000).unwrap();
        assert_eq!(whole, crossing(7, Operation::recv(0, 10, 7)));
    }

    #[test]
    fn messages_with_one_tag_have_equally_many_parts() {
        let mut build = TraceBuilder::new(4, 100).unwrap();
        for size in [9, 2, 0] {
            build.push(0, Operation::send(3, size, 7)).unwrap();
            build.push(3, Operation::recv(0, size, 7)).unwrap();
        }
        let trace = pass_on(&build.finish().unwrap(), relay_of, 4, 1_000).unwrap();
        let sizes: Vec<u64> = trace.of_rank(3).map(|at| trace.operation(at).size).collect();
        assert_eq!(sizes, [3, 3, 3, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn receives_must_state_what_they_receive() {
        let made = |receive| pass_on(&crossing(7, receive), relay_of, 4, 1_000).unwrap_err().to_string();
        let end = "other ranks pass messages for it on, so its source and its tag must be stated";
        assert_eq!(
            made(Operation::recv(ANY, 10, 7)),
            format!("rank 3: receive 10 bytes from any rank, tag 7: {end}")
        );
        assert_eq!(
            made(Operation::recv(0, 10, ANY)),
            format!("rank 3: receive 10 bytes from rank 0, any tag: {end}")
        );
    }

    #[test]
    fn new_tags_differ_from_all_others() {
        let tag = COLLECTIVE_TAGS + 9;
        let trace = pass_on(&crossing(tag, Operation::recv(0, 10, tag)), relay_of, 100, 1_000).unwrap();
        assert_eq!(of_rank(&trace, 0)[0], format!("send 10 bytes to rank 1, tag {}", tag + 1));
    }
}
