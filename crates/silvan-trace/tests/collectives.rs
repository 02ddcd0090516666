//! Tests that every algorithm delivers all data to its destinations, for each number of ranks up to 20 that it supports.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use silvan_trace::collective::{Algorithm, COLLECTIVES, Call, Collective, Round, Sizes, Variant};
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::sequence::Sequence;
use silvan_trace::trace::Trace;
use silvan_trace::{Operation, TraceBuilder};

/// Hosts of several ranks, and chunks of 20 bytes.
fn variant(algorithm: Algorithm, ranks: u32) -> Variant {
    let ranks_per_host = (2..=ranks).find(|each| ranks.is_multiple_of(*each)).unwrap_or(2);
    Variant { ranks_per_host, chunk: 20, channels: 3, ..algorithm.into() }
}

fn rounds(call: &Call<'_>, me: u32) -> Vec<Round> {
    let mut all = Vec::new();
    call.rounds::<()>(me, &mut |round| {
        all.push(round.clone());
        Ok(())
    })
    .unwrap();
    all
}

/// Returns two lists: for each rank, the set of ranks (as bits) whose data it finally has, if every
/// message carries all data of its sender; and the number of bytes that each rank received.
fn known(call: &Call<'_>) -> (Vec<u64>, Vec<u64>) {
    known_after(call, (0..call.ranks).map(|me| rounds(call, me)).collect())
}

/// The same for given rounds of each rank.
fn known_after(call: &Call<'_>, mut all: Vec<Vec<Round>>) -> (Vec<u64>, Vec<u64>) {
    let mut known: Vec<u64> = (0..call.ranks).map(|rank| 1 << rank).collect();
    let to_reducer = |round: &Round| round.sends.iter().find(|(to, _)| *to == call.reducer()).copied();
    if let Some((_, bytes)) = all[0].iter().find_map(to_reducer) {
        // The reducer has no data of its own. It sends the result when it has the data of all ranks.
        let each: Vec<(u32, u64)> = (0..call.ranks).map(|rank| (rank, bytes)).collect();
        let (recvs, sends) = (each.clone(), each);
        all.push(vec![Round { recvs, ..Round::default() }, Round { sends, ..Round::default() }]);
        known.push(0);
    }
    let ranks = all.len();
    let mut received = vec![0; ranks];
    let mut at = vec![(0usize, false); ranks];
    let mut under_way: BTreeMap<(u32, u32), VecDeque<(u64, u64)>> = BTreeMap::new();
    loop {
        let mut moved = false;
        for me in 0..ranks {
            let Some(round) = all[me].get(at[me].0) else { continue };
            if !at[me].1 {
                for &(to, bytes) in &round.sends {
                    under_way.entry((me as u32, to)).or_default().push_back((known[me], bytes));
                }
                (at[me].1, moved) = (true, true);
            }
            let ready =
                |&(from, _): &(u32, u64)| under_way.get(&(from, me as u32)).is_some_and(|q| !q.is_empty());
            if round.recvs.iter().all(ready) {
                for &(from, bytes) in &round.recvs {
                    let (sets, sent) = under_way.get_mut(&(from, me as u32)).unwrap().pop_front().unwrap();
                    assert_eq!(sent, bytes, "{from} to {me} of {call:?}");
                    known[me] |= sets;
                    received[me] += bytes;
                }
                (at[me], moved) = ((at[me].0 + 1, false), true);
            }
        }
        if !moved {
            break;
        }
    }
    assert!((0..ranks).all(|me| at[me].0 == all[me].len()), "all ranks finish: {call:?}");
    assert!(under_way.values().all(VecDeque::is_empty), "all messages are received: {call:?}");
    known.truncate(call.ranks as usize);
    received.truncate(call.ranks as usize);
    (known, received)
}

#[test]
fn all_data_reaches_its_destinations() {
    for ranks in 1..=20u32 {
        let all_ranks = (1u64 << ranks) - 1;
        for operation in COLLECTIVES {
            // The switches of `nvls` are not among the ranks; its tests are in `nvls`.
            for &algorithm in operation.algorithms().iter().filter(|&&one| one != Algorithm::Nvls) {
                for root in [0, ranks / 2, ranks - 1] {
                    let by = variant(algorithm, ranks);
                    let Ok(call) = Call::new(operation, by, ranks, root, Sizes::Uniform(64)) else {
                        assert!(!ranks.is_power_of_two(), "{operation:?} by {algorithm:?} with {ranks}");
                        continue;
                    };
                    let (known, _) = known(&call);
                    for (rank, &set) in known.iter().enumerate() {
                        let wanted = match operation {
                            Collective::Broadcast | Collective::Scatter => 1u64 << root,
                            Collective::Reduce | Collective::Gather if rank as u32 != root => 0,
                            Collective::Scan => (1u64 << (rank + 1)) - 1,
                            _ => all_ranks,
                        };
                        assert_eq!(set & wanted, wanted, "rank {rank} of {call:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_ring_delivers_its_part_and_leaves_hosts_by_other_ranks() {
    for (ranks, ranks_per_host, channels, rings) in [(12, 4, 4, 4), (12, 4, 2, 2), (6, 3, 9, 3), (5, 2, 4, 1)]
    {
        for operation in [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter] {
            let call = |channels| {
                let by = Variant { ranks_per_host, channels, ..Algorithm::Ring.into() };
                Call::new(operation, by, ranks, 0, Sizes::Uniform(1001)).unwrap()
            };
            let call_of_one = call(1);
            let call = call(channels);
            let mut leaving = Vec::new();
            for channel in 0..rings {
                let of_ring = |me| rounds(&call, me).into_iter().filter(|round| round.stream == channel);
                let all: Vec<Vec<Round>> = (0..ranks).map(|me| of_ring(me).collect()).collect();
                for (me, rounds) in all.iter().enumerate() {
                    let (me, host) = (me as u32, |rank: u32| rank / ranks_per_host);
                    if rounds.iter().flat_map(|round| &round.sends).any(|&(to, _)| host(to) != host(me)) {
                        leaving.push(me);
                    }
                }
                let (known, _) = known_after(&call, all);
                assert_eq!(known, vec![(1 << ranks) - 1; ranks as usize], "{call:?}");
            }
            assert!((0..ranks).all(|me| rounds(&call, me).iter().all(|round| round.stream < rings)));
            let places = leaving.len();
            leaving.sort_unstable();
            leaving.dedup();
            assert_eq!(
                (leaving.len(), places),
                (places, places),
                "a rank leaves its host in one ring: {call:?}"
            );
            let sums = [&call, &call_of_one].map(|call| known(call).1.iter().sum::<u64>());
            assert_eq!(sums[0], sums[1], "{call:?}");
        }
    }
}

#[test]
fn the_number_of_bytes_follows_from_the_algorithm() {
    let received = |operation: Collective, algorithm: &str, sizes: Sizes<'_>, ranks: u32| {
        let by = operation.algorithms().iter().find(|one| one.name() == algorithm).unwrap();
        known(&Call::new(operation, variant(*by, ranks), ranks, 0, sizes).unwrap()).1
    };
    let blocks = [10u64, 0, 7, 300, 5];
    let total: u64 = blocks.iter().sum();
    let others: Vec<u64> = blocks.iter().map(|own| total - own).collect();
    for by in ["ring", "bruck", "pat"] {
        assert_eq!(received(Collective::AllGather, by, Sizes::PerRank(&blocks), 5), others);
    }
    let own: Vec<u64> = blocks.iter().map(|own| 4 * own).collect();
    assert_eq!(received(Collective::ReduceScatter, "pairwise", Sizes::PerRank(&blocks), 5), own);
    assert_eq!(received(Collective::Gather, "linear", Sizes::PerRank(&blocks), 5), [total - 10, 0, 0, 0, 0]);
    // In a tree, blocks pass through other ranks.
    assert_eq!(received(Collective::Gather, "binomial", Sizes::PerRank(&blocks), 5)[0], total - 10);
    assert_eq!(received(Collective::Scatter, "binomial", Sizes::PerRank(&blocks), 5), [0, 0, 307, 300, 5]);
    for by in ["recursive-doubling", "ring", "bruck", "pat"] {
        assert_eq!(received(Collective::AllGather, by, Sizes::Uniform(8), 8), [56; 8]);
    }
    for by in ["recursive-halving", "pat"] {
        assert_eq!(received(Collective::ReduceScatter, by, Sizes::Uniform(8), 8), [56; 8]);
    }
    // In a reduce-scatter, each rank receives its block once per round in which it is not the last of a tree.
    let all = received(Collective::ReduceScatter, "pat", Sizes::PerRank(&blocks), 5);
    assert_eq!(all.iter().sum::<u64>(), 4 * total);
    assert_eq!(received(Collective::AllToAll, "bruck", Sizes::Uniform(8), 8), [96; 8]);
    assert_eq!(received(Collective::AllReduce, "in-network", Sizes::Uniform(8), 5), [8; 5]);
    assert_eq!(received(Collective::Barrier, "in-network", Sizes::Uniform(8), 5), [0; 5]);
}

#[test]
fn two_trees_carry_as_many_bytes_as_a_ring() {
    for ranks in 2..=64u32 {
        for bytes in [0, 1, 39, 40, 41, 1001] {
            let by = variant(Algorithm::DoubleTree, ranks);
            let call = Call::new(Collective::AllReduce, by, ranks, 0, Sizes::Uniform(bytes)).unwrap();
            let (known, received) = known(&call);
            assert!(known.iter().all(|&set| set == u64::MAX >> (64 - ranks)), "{ranks} ranks, {bytes} bytes");
            assert_eq!(received.iter().sum::<u64>(), 2 * u64::from(ranks - 1) * bytes);
            // A rank receives its half once per child on the way up and once on the way down, in both trees.
            assert!(
                received.iter().all(|&received| received <= 2 * bytes + 1),
                "{ranks} ranks, {bytes} bytes"
            );
        }
    }
}

#[test]
fn long_distances_of_aggregated_trees_carry_the_least() {
    let sent = |operation, distance: u32| -> u64 {
        let call = Call::new(operation, Algorithm::Pat, 16, 0, Sizes::Uniform(1)).unwrap();
        let rounds = rounds(&call, 3);
        let apart = |to: u32| [(to + 16 - 3) % 16, (3 + 16 - to) % 16].contains(&distance);
        rounds
            .iter()
            .flat_map(|round| &round.sends)
            .filter(|(to, _)| apart(*to))
            .map(|(_, bytes)| bytes)
            .sum()
    };
    for operation in [Collective::AllGather, Collective::ReduceScatter] {
        assert_eq!([8, 4, 2, 1].map(|distance| sent(operation, distance)), [1, 2, 4, 8]);
    }
}

#[test]
fn unsupported_uses_of_algorithms_are_explained() {
    let message = |operation, by, ranks, sizes: Sizes<'_>| {
        let algorithm = COLLECTIVES
            .iter()
            .flat_map(|one| one.algorithms())
            .find(|one| one.name() == by)
            .copied()
            .unwrap();
        Call::new(operation, algorithm, ranks, 0, sizes).unwrap_err()
    };
    assert_eq!(
        message(Collective::AllGather, "recursive-doubling", 6, Sizes::Uniform(1)),
        "all-gather by recursive-doubling needs a power of two of ranks, not 6; use ring, bruck or pat"
    );
    assert_eq!(
        message(Collective::AllToAll, "bruck", 2, Sizes::Matrix { sends: &[1, 2], recvs: &[1, 2] }),
        "all-to-all by bruck needs blocks of equal size; use pairwise or linear"
    );
    assert_eq!(
        message(Collective::Barrier, "ring", 2, Sizes::Uniform(1)),
        "algorithm `ring` of barrier is not one of dissemination, recursive-doubling, binomial, in-network"
    );
    assert_eq!(
        message(Collective::AllReduce, "hierarchical", 4, Sizes::Uniform(1)),
        "all-reduce by hierarchical needs several ranks per host (job.ranks_per_host); use ring"
    );
    assert_eq!(
        message(Collective::AllGather, "ring", 3, Sizes::PerRank(&[1])),
        "all-gather: 1 sizes for 3 ranks"
    );
}

/// Sequences of operations without those by one algorithm, because a program has reducers or switches within hosts.
fn random_trace(without: &'static [Algorithm]) -> impl Strategy<Value = Trace> {
    let calls = prop::collection::vec((0..COLLECTIVES.len(), 0usize..8, 0u32..9, 0u64..100_000), 1..5);
    (2u32..9, calls).prop_map(|(ranks, calls)| {
        let mut build = TraceBuilder::new(u64::from(ranks), 1 << 16).unwrap();
        for rank in 0..ranks {
            let mut sequence = Sequence::new(rank);
            for &(operation, algorithm, root, bytes) in &calls {
                let operation = COLLECTIVES[operation];
                let known = operation.algorithms();
                let algorithm = known[algorithm % known.len()];
                let by = Variant { chunk: 1 << 14, ..variant(algorithm, ranks) };
                let call = Call::new(operation, by, ranks, root % ranks, Sizes::Uniform(bytes));
                let needs_host = algorithm == Algorithm::Nvls && operation != Collective::AllReduce;
                if let Ok(call) = call
                    && !without.contains(&algorithm)
                    && (!needs_host || by.ranks_per_host == ranks)
                {
                    sequence.collective(&mut build, &call, &|rank| rank, rank, 0).unwrap();
                }
                sequence.compute(&mut build, bytes % 1000 * u64::from(rank)).unwrap();
                sequence.blocking(&mut build, Operation::delay(bytes % 77)).unwrap();
            }
        }
        build.finish().unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random sequences of operations with random thresholds complete, and all messages match.
    #[test]
    fn collectives_follow_each_other(
        trace in random_trace(&[Algorithm::Nvls]).boxed().prop_union(random_trace(&[Algorithm::InNetwork]).boxed()),
        rendezvous_above in 0u64..200_000,
    ) {
        let parameters = Parameters {
            latency: silvan_engine::Time::from_ns(300),
            overhead: silvan_engine::Time::from_ns(70),
            gap_per_byte_fs: 80_000,
            rendezvous_above,
            ..Parameters::default()
        };
        let done = execute(&trace, &parameters).unwrap();
        prop_assert!(done.complete(), "{:?}", done.stuck);
        prop_assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
        // No rank finishes before it has spent its computation time.
        for rank in 0..trace.ranks() as usize {
            prop_assert!(done.finished[rank] >= done.computing[rank]);
        }
        // A network without costs is never slower.
        let free = execute(&trace, &Parameters { rendezvous_above, ..Parameters::default() }).unwrap();
        prop_assert!(free.span <= done.span);
    }

    /// Text and binary contain the same trace, which takes the same time to the picosecond.
    #[test]
    fn a_written_trace_reads_back_equal(trace in random_trace(&[Algorithm::Nvls])) {
        let mut written = Vec::new();
        silvan_trace::write::text(&trace, &mut written).unwrap();
        let options = silvan_trace::read::Options::default();
        let source = silvan_trace::read::source::Source::new(&written[..], "t.goal").unwrap();
        let text = silvan_trace::read::goal::read(source, &options).unwrap();
        let mut written = Vec::new();
        silvan_trace::write::binary(&text, &mut written).unwrap();
        let binary =
            silvan_trace::read::goal_binary::read(std::io::Cursor::new(&written), "t.bin", &options).unwrap();
        prop_assert_eq!(&text, &binary);
        let parameters =
            Parameters { latency: silvan_engine::Time::from_ns(300), ..Parameters::default() };
        let spans = [&trace, &text, &binary].map(|one| execute(one, &parameters).unwrap().finished);
        prop_assert!(spans.iter().all(|span| *span == spans[0]));
    }
}
