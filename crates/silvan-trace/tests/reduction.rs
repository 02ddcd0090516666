//! In-network reduction: random trees of units complete any sequence of collective operations, and carry each chunk once
//! over each edge and direction.

use proptest::prelude::*;
use silvan_engine::Time;
use silvan_trace::collective::{Algorithm, Call, Choice, Collective, Sizes};
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::generate::Repeated;
use silvan_trace::reduction::{Chunks, Tree, spread};
use silvan_trace::sequence::Sequence;
use silvan_trace::trace::{BuildError, MAX_ITEMS};
use silvan_trace::{Kind, Operation, Trace, TraceBuilder};

fn reduced(ranks: u32, groups: u32, bytes: u64, iterations: u32) -> Trace {
    let mut algorithms = Choice::default();
    algorithms.set("all-reduce", "in-network").unwrap();
    let repeated = Repeated { ranks, groups, bytes, iterations, compute_ns: 50, ..Repeated::default() };
    repeated.trace(&algorithms, MAX_ITEMS).unwrap()
}

/// L = 100 ns, G = 1 ns per byte, no gap and no overhead.
fn parameters() -> Parameters {
    Parameters { latency: Time::from_ns(100), gap_per_byte_fs: 1_000_000, ..Parameters::default() }
}

fn sends(trace: &Trace) -> u64 {
    (0..trace.operations()).filter(|&at| trace.operation(at).kind == Kind::Send).count() as u64
}

#[test]
fn a_reducer_is_a_rank_after_all_others() {
    let trace = reduced(6, 2, 1_000, 3);
    assert_eq!((trace.members(), trace.ranks()), (6, 8));
    let members: Vec<&[u32]> = trace.reducers.iter().map(|reducer| reducer.members.as_slice()).collect();
    assert_eq!(members, [[0, 1, 2], [3, 4, 5]]);
    assert!(trace.reducers.iter().all(|reducer| reducer.calls == [1_000; 3]));
    let run = execute(&trace, &parameters()).unwrap();
    assert!(run.complete());
    assert_eq!((run.messages, run.unreceived.0, run.truncated.0), (2 * 6 * 3, 0, 0));
    assert_eq!(trace.collectives[0].calls, 18, "each call counts once for each rank, not for reducers");
    assert!(reduced(4, 4, 1_000, 3).reducers.is_empty(), "a group of one rank needs no reducer");
}

#[test]
fn chunks_follow_each_other_without_a_pause_or_wait_for_results() {
    let trace = reduced(1 + 1, 1, 1_000, 1);
    let tree = Tree { parents: vec![None], unit_of: vec![0, 0] };
    let span = |bytes: u64, outstanding: u32, combining_ns: u64| {
        let chunks = Chunks { bytes, outstanding, combining_ns };
        execute(&spread(&trace, std::slice::from_ref(&tree), &chunks, MAX_ITEMS).unwrap(), &parameters())
            .unwrap()
            .span
    };
    // The two copies of a chunk arrive at the unit one after the other, because its link is no faster. They
    // also leave one after the other.
    let chunked = |count: u64, last: u64, combining: u64| {
        // The first copy arrives after L + n G; the rest of the vectors follow without a pause.
        Time::from_ns(50 + 100 + 2_000 + combining + 100 + count * last)
    };
    assert_eq!(span(1_000, 1, 0), chunked(2, 1_000, 0));
    assert_eq!(span(500, 2, 7), chunked(2, 500, 7));
    // The copies of the third chunk are sent while those of the last one, of 100 bytes, arrive and then wait.
    assert_eq!(span(300, 9, 7), Time::from_ns(50 + 100 + 1_800 + 7 + 600 + 200 + 100));
    assert!(span(100, 1, 7) > span(100, 10, 7), "with one outstanding chunk, the links are idle at times");
}

#[test]
fn only_collective_operations_reach_a_reducer() {
    let mut build = TraceBuilder::new(2, 100).unwrap();
    let call = Call::new(Collective::Barrier, Algorithm::InNetwork, 2, 0, Sizes::Uniform(0)).unwrap();
    for rank in 0..2 {
        Sequence::new(rank).collective(&mut build, &call, &|rank| rank, rank, 0).unwrap();
    }
    let error = build.push(0, Operation::send(2, 8, 5)).unwrap_err();
    assert_eq!(error.to_string(), "rank 0: send 8 bytes to rank 2, tag 5: there is no rank 2; there are 2");
    let trace = build.finish().unwrap();
    assert_eq!(trace.reducers[0].calls, [0], "a barrier has no bytes");
}

#[test]
fn limits_hold_for_the_divided_trace() {
    let trace = reduced(8, 1, 1 << 20, 1);
    let tree = [Tree { parents: vec![None], unit_of: vec![0; 8] }];
    let chunks = Chunks { bytes: 1, outstanding: 1, combining_ns: 0 };
    assert_eq!(spread(&trace, &tree, &chunks, 10_000), Err(BuildError::TooLarge(10_000)));
}

proptest! {
    /// Units form a random tree, in which each unit has members or children.
    #[test]
    fn any_tree_completes(
        parents in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        homes in prop::collection::vec(any::<prop::sample::Index>(), 2..9),
        (bytes, iterations) in (0u64..5_000, 1u32..4),
        (chunk, outstanding) in (1u64..3_000, 1u32..5),
    ) {
        let units = parents.len() + 1;
        let parents: Vec<Option<u32>> = std::iter::once(None)
            .chain(parents.iter().enumerate().map(|(before, at)| Some(at.index(before + 1) as u32)))
            .collect();
        let mut unit_of: Vec<u32> = homes.iter().map(|home| home.index(units) as u32).collect();
        // Units without children get a member.
        for unit in 0..units as u32 {
            if !parents.contains(&Some(unit)) && !unit_of.contains(&unit) {
                unit_of.push(unit);
            }
        }
        let ranks = unit_of.len() as u32;
        let trace = reduced(ranks, 1, bytes, iterations);
        if ranks > 1 {
            let chunks = Chunks { bytes: chunk, outstanding, combining_ns: 30 };
            let divided = spread(&trace, &[Tree { parents, unit_of }], &chunks, MAX_ITEMS).unwrap();
            prop_assert_eq!((divided.members(), divided.ranks()), (ranks + units as u32, ranks + units as u32));
            let of_call = bytes.div_ceil(chunk).max(1);
            let edges = u64::from(ranks) + units as u64 - 1;
            prop_assert_eq!(sends(&divided), 2 * edges * of_call * u64::from(iterations));
            let run = execute(&divided, &parameters()).unwrap();
            prop_assert!(run.complete());
            prop_assert_eq!((run.unreceived.0, run.truncated.0), (0, 0));
            // The marked calls are those of the original trace, and take at least the way to the root and back.
            prop_assert_eq!(run.calls.len(), iterations as usize);
            prop_assert_eq!(&divided.collectives, &trace.collectives);
            prop_assert!(run.calls.iter().all(|call| call.end.unwrap() - call.start.unwrap() >= Time::from_ns(230)));
        }
    }
}
