//! Tests of operations by switches within hosts: all results contain the data of all ranks, and the numbers of bytes.

use std::collections::{BTreeMap, VecDeque};

use silvan_trace::collective::{Algorithm, Call, Collective, LatencySet, Protocol, Sizes, Variant};
use silvan_trace::execute::{
    Carrier, Execution, InnerLink, Inside, Interfaces, Machines, Parameters, Ranks, execute,
};
use silvan_trace::sequence::Sequence;
use silvan_trace::trace::{ANY_SIZE, SWITCH_NIC, Trace, When};
use silvan_trace::{Kind, Operation, TraceBuilder};

/// Each of `hosts` hosts has `each` ranks. All ranks execute `calls` all-reduces of a vector, in chunks of 20 bytes.
fn trace(hosts: u32, each: u32, bytes: u64, calls: u32) -> Trace {
    built(hosts, each, calls, Sizes::Uniform(bytes), Variant { chunk: 20, ..by(each) }).unwrap()
}

fn by(each: u32) -> Variant {
    Variant { ranks_per_host: each, ..Algorithm::Nvls.into() }
}

fn built(hosts: u32, each: u32, calls: u32, sizes: Sizes<'_>, by: Variant) -> Result<Trace, String> {
    built_of(Collective::AllReduce, hosts * each, calls, sizes, by)
}

fn built_of(
    operation: Collective,
    ranks: u32,
    calls: u32,
    sizes: Sizes<'_>,
    by: Variant,
) -> Result<Trace, String> {
    let mut build = TraceBuilder::new(u64::from(ranks), 1 << 22).unwrap();
    let call = Call::new(operation, by, ranks, 0, sizes)?;
    for rank in 0..ranks {
        let mut sequence = Sequence::new(rank);
        for _ in 0..calls {
            let done = sequence.collective(&mut build, &call, &|rank| rank, rank, 3);
            done.map_err(|error| error.to_string())?;
        }
        sequence.blocking(&mut build, Operation::delay(0)).unwrap();
    }
    build.finish().map_err(|error| error.to_string())
}

/// For each operation, the ranks (as bits) whose data it can depend on, if messages arrive at once.
fn known(trace: &Trace) -> Vec<u64> {
    let mut known: Vec<u64> = (0..trace.operations())
        .map(|at| trace.rank_of(at))
        .map(|rank| if rank < trace.members() { 1 << rank } else { 0 })
        .collect();
    let mut waits: Vec<u32> = (0..trace.operations()).map(|at| trace.waits(at)).collect();
    let mut ready: VecDeque<usize> = (0..trace.operations()).filter(|&at| waits[at] == 0).collect();
    let mut arrived: BTreeMap<(u32, u32, u32), VecDeque<(u64, u64)>> = BTreeMap::new();
    let mut posted: BTreeMap<(u32, u32, u32), VecDeque<usize>> = BTreeMap::new();
    let mut done = 0;
    while let Some(at) = ready.pop_front() {
        let (rank, Operation { kind, peer, size, tag, .. }) = (trace.rank_of(at), trace.operation(at));
        let mut finished = vec![at];
        let key = match kind {
            Kind::Send => {
                arrived.entry((peer, rank, tag)).or_default().push_back((known[at], size));
                Some((peer, rank, tag))
            }
            Kind::Recv => {
                posted.entry((rank, peer, tag)).or_default().push_back(at);
                finished.clear();
                Some((rank, peer, tag))
            }
            _ => None,
        };
        if let Some(key) = key
            && let (Some(messages), Some(receives)) = (arrived.get_mut(&key), posted.get_mut(&key))
        {
            while let (Some(&(set, size)), Some(&receive)) = (messages.front(), receives.front()) {
                let room = trace.operation(receive).size;
                assert!(room == size || room == ANY_SIZE, "{size} bytes for {room}");
                known[receive] |= set;
                finished.push(receive);
                messages.pop_front();
                receives.pop_front();
            }
        }
        for at in finished {
            done += 1;
            let first = trace.first(trace.rank_of(at));
            for when in [When::Finish, When::Start] {
                for &later in trace.successors(at, when).iter() {
                    let later = first + later as usize;
                    known[later] |= known[at];
                    waits[later] -= 1;
                    if waits[later] == 0 {
                        ready.push_back(later);
                    }
                }
            }
        }
    }
    assert_eq!(done, trace.operations(), "all operations finish");
    known
}

/// The bytes of the messages of a rank to ranks and, as a second number, to its switch.
fn sent(trace: &Trace, rank: u32) -> (u64, u64) {
    let sends = trace.of_rank(rank).map(|at| trace.operation(at)).filter(|one| one.kind == Kind::Send);
    let (switch, others): (Vec<_>, Vec<_>) = sends.partition(|send| send.nic == SWITCH_NIC);
    let sum = |list: Vec<Operation>| list.iter().map(|send| send.size).sum();
    (sum(others), sum(switch))
}

#[test]
fn every_result_contains_the_data_of_all_ranks() {
    for (hosts, each) in [(1, 2), (1, 3), (1, 8), (2, 4), (3, 2), (5, 3), (8, 2)] {
        for bytes in [0, 1, 7, 100, 1_000] {
            let trace = trace(hosts, each, bytes, 2);
            let (members, all) = (trace.members(), u64::MAX >> (64 - hosts * each));
            assert_eq!((members, trace.ranks()), (hosts * each, hosts * (each + 2)));
            let known = known(&trace);
            for rank in 0..members {
                assert_eq!(known[trace.of_rank(rank).last().unwrap()], all);
            }
            for copier in (members + 1..trace.ranks()).step_by(2) {
                for at in trace.of_rank(copier) {
                    assert!(trace.operation(at).kind != Kind::Send || known[at] == all, "{hosts} {each}");
                }
                assert_eq!(sent(&trace, copier).1, 2 * bytes * u64::from(each));
            }
            let done = execute(&trace, &Parameters::default()).unwrap();
            assert!(done.complete() && done.truncated.0 == 0 && done.unreceived.0 == 0);
        }
    }
}

#[test]
fn links_carry_the_vector_and_a_share_and_trees_carry_shares() {
    for (hosts, each, bytes) in [(1, 8, 8_000), (2, 4, 8_000), (6, 4, 4_001), (9, 2, 1_001)] {
        let trace = trace(hosts, each, bytes, 1);
        let mut between = 0;
        for rank in 0..trace.members() {
            let (others, switch) = sent(&trace, rank);
            let share = bytes / u64::from(each) + u64::from(u64::from(rank % each) < bytes % u64::from(each));
            assert_eq!(switch, bytes + share);
            // Halves of pieces differ by at most a byte.
            assert!(others <= 2 * share + 8);
            between += others;
        }
        // As in a ring of the hosts, for each share.
        assert_eq!(between, 2 * u64::from(hosts - 1) * bytes);
        let adders: u64 =
            (trace.members()..trace.ranks()).step_by(2).map(|adder| sent(&trace, adder).1).sum();
        assert_eq!(adders, u64::from(hosts) * bytes);
    }
}

/// Messages between hosts are not expected.
struct Nowhere;

impl Carrier for Nowhere {
    fn carry(
        &mut self,
        _: u64,
        parcel: &silvan_trace::execute::Parcel,
        _: &mut silvan_trace::execute::Agenda,
    ) {
        panic!("{parcel:?} leaves its host");
    }
}

/// Executes a trace on one host whose links take 1 ns per byte.
fn on_host(trace: &Trace, latency: u64) -> Execution {
    let machines = vec![0; trace.ranks() as usize];
    let link = InnerLink { gap_per_byte_fs: 1_000_000, latency };
    let mut links = Interfaces::default();
    let mut carrier =
        Machines { machine_of: &machines, inside: Inside::Links(link), links: &mut links, outside: Nowhere };
    let parameters = Parameters::default();
    let mut ranks = Ranks::new(trace, &parameters, silvan_engine::Time::ZERO);
    ranks.advance(silvan_engine::Time::NEVER, &mut carrier).unwrap();
    ranks.close()
}

#[test]
fn a_host_needs_the_time_of_the_vector_and_a_share() {
    for (each, bytes) in [(4, 4 << 20), (8, 16 << 20), (3, 6 << 20)] {
        let variant = Variant { chunk: 1 << 14, ..by(each) };
        let trace = built(1, each, 1, Sizes::Uniform(bytes), variant).unwrap();
        let done = on_host(&trace, 600_000);
        assert!(done.complete());
        let wanted = bytes as f64 * (1.0 + 1.0 / f64::from(each));
        let found = done.span.as_ns_f64();
        assert!((wanted..wanted * 1.02).contains(&found), "{each} ranks: {found} instead of {wanted}");
    }
    // One byte per head crosses the switch twice, each time after half of the latency on each side.
    let span = on_host(&trace(1, 2, 2, 1), 600_000).span.0;
    assert!((1_200_000..1_210_000).contains(&span), "{span}");
}

#[test]
fn blocks_cross_the_switch_once() {
    for (each, blocks) in [(2, vec![40, 7]), (3, vec![0, 100, 1]), (8, vec![1_000; 8])] {
        for operation in [Collective::AllGather, Collective::ReduceScatter] {
            let by = Variant { chunk: 20, ..by(each) };
            let trace = built_of(operation, each, 2, Sizes::PerRank(&blocks), by).unwrap();
            let (known, all) = (known(&trace), u64::MAX >> (64 - each));
            let (adder, copier) = (each, each + 1);
            let sum: u64 = blocks.iter().sum();
            for (rank, own) in (0..each).zip(&blocks) {
                assert_eq!(known[trace.of_rank(rank).last().unwrap()], all, "{operation:?} of {each}");
                let sends = if operation == Collective::AllGather { *own } else { sum };
                assert_eq!(sent(&trace, rank), (0, 2 * sends));
            }
            let (sums, copies) = match operation {
                Collective::AllGather => (0, u64::from(each) * sum),
                _ => (sum, 0),
            };
            assert_eq!((sent(&trace, adder).1, sent(&trace, copier).1), (2 * sums, 2 * copies));
            let done = execute(&trace, &Parameters::default()).unwrap();
            assert!(done.complete() && done.truncated.0 == 0 && done.unreceived.0 == 0);
        }
    }
}

#[test]
fn a_host_needs_the_time_of_all_blocks() {
    for operation in [Collective::AllGather, Collective::ReduceScatter] {
        for (each, block) in [(4, 1 << 20), (8, 2 << 20), (3, 2 << 20)] {
            let variant = Variant { chunk: 1 << 14, ..by(each) };
            let trace = built_of(operation, each, 1, Sizes::Uniform(block), variant).unwrap();
            let done = on_host(&trace, 600_000);
            assert!(done.complete());
            let wanted = (block * u64::from(each)) as f64;
            let found = done.span.as_ns_f64();
            assert!(
                (wanted..wanted * 1.02).contains(&found),
                "{operation:?} of {each}: {found} for {wanted}"
            );
        }
        // A byte crosses the switch once.
        let trace = built_of(operation, 2, 1, Sizes::Uniform(1), by(2)).unwrap();
        let span = on_host(&trace, 600_000).span.0;
        assert!((600_000..610_000).contains(&span), "{span}");
    }
}

#[test]
fn unsupported_uses_are_explained() {
    let sizes = Sizes::Uniform(8);
    for (operation, name) in
        [(Collective::AllGather, "all-gather"), (Collective::ReduceScatter, "reduce-scatter")]
    {
        assert_eq!(
            built_of(operation, 8, 1, sizes, by(4)).unwrap_err(),
            format!(
                "{name} by `nvls` needs all participants on one host; use `ring`, or change ranks_per_host"
            )
        );
    }
    assert_eq!(
        built(4, 1, 1, sizes, by(1)).unwrap_err(),
        "all-reduce by nvls needs several ranks per host (job.ranks_per_host); use ring"
    );
    assert_eq!(
        built(3, 2, 1, sizes, by(4)).unwrap_err(),
        "`nvls` needs the same number of consecutive participants on each host; the first host has 4; use `ring`, or change \
         ranks_per_host"
    );
    for order in [[Algorithm::Nvls, Algorithm::InNetwork], [Algorithm::InNetwork, Algorithm::Nvls]] {
        let mut build = TraceBuilder::new(2, 100).unwrap();
        let mut sequence = Sequence::new(0);
        let mut run = |algorithm: Algorithm| {
            let by = Variant { ranks_per_host: 2, ..algorithm.into() };
            let call = Call::new(Collective::AllReduce, by, 2, 0, sizes).unwrap();
            sequence.collective(&mut build, &call, &|rank| rank, 0, 3)
        };
        run(order[0]).unwrap();
        let error = run(order[1]).unwrap_err().to_string();
        assert_eq!(error, "`in-network` and `nvls` cannot be combined in a program; choose one of them");
    }
    let mut build = TraceBuilder::new(2, 100).unwrap();
    let error = build.push(0, Operation { nic: SWITCH_NIC, ..Operation::send(1, 8, 5) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rank 0: send 8 bytes to rank 1, tag 5: network interface 255 is reserved; use a smaller number"
    );
}

#[test]
fn latencies_of_messages_add_up_on_the_longest_path() {
    let span = |algorithm: Algorithm, (ranks, each): (u32, u32), latencies, protocol| {
        let by = Variant { ranks_per_host: each, latencies, protocol, ..algorithm.into() };
        let trace = built(ranks / each, each, 1, Sizes::Uniform(1 << 10), by).unwrap();
        let done = execute(&trace, &Parameters::default()).unwrap();
        assert!(done.complete());
        done.span.0 / 1_000
    };
    use Algorithm::{DoubleTree, Nvls, Ring};
    let (nccl, simai) = (Some(LatencySet::Nccl), Some(LatencySet::SimAi));
    let gathers = Variant { ranks_per_host: 8, latencies: Some(LatencySet::Nccl), ..Algorithm::Nvls.into() };
    let trace = built_of(Collective::AllGather, 8, 1, Sizes::Uniform(8), gathers).unwrap();
    assert_eq!(execute(&trace, &Parameters::default()).unwrap().span.0, 25_000_000);
    for (algorithm, ranks, latencies, protocol, wanted) in [
        (Ring, (8, 8), None, Protocol::Simple, 0),
        // The estimates of NCCL: 14 steps within a host; 2 between hosts and 12 within them; two levels of trees.
        (Ring, (8, 8), nccl, Protocol::Ll, 6_600 + 14 * 600),
        (Ring, (8, 1), nccl, Protocol::Simple, 8_400 + 14 * 14_000),
        (DoubleTree, (4, 1), nccl, Protocol::Ll128, 14_000 + 4 * 8_500),
        (Nvls, (8, 8), nccl, Protocol::Simple, 25_000),
        (Nvls, (8, 2), nccl, Protocol::Simple, 25_000 + 4 * 20_900),
        (Ring, (8, 1), simai, Protocol::Ll, 14 * 9_300),
        (Ring, (8, 8), simai, Protocol::Ll128, 14 * 15_900),
    ] {
        assert_eq!(span(algorithm, ranks, latencies, protocol), wanted, "{algorithm:?} {ranks:?}");
    }
}

#[test]
fn latencies_do_not_add_up_over_chunks() {
    // 64 chunks in four streams: the tree takes 8 us once, not for each chunk.
    let by = Variant { chunk: 1 << 10, latencies: Some(LatencySet::Nccl), ..Algorithm::DoubleTree.into() };
    let trace = built(4, 1, 1, Sizes::Uniform(1 << 17), by).unwrap();
    let parameters = Parameters { gap_per_byte_fs: 10_000, ..Parameters::default() };
    let span = execute(&trace, &parameters).unwrap().span.as_ns_f64();
    let base = 8_400.0 + 4.0 * 14_000.0;
    assert!((base..base + 3_000.0).contains(&span), "{span}");
}
