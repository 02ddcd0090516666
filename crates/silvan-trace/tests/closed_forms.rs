//! Compares the times of known patterns with their formulas.

use silvan_engine::{Rate, Time};
use silvan_trace::collective::{Algorithm, Call, Collective, Sizes};
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::sequence::Sequence;
use silvan_trace::{Operation, Trace, TraceBuilder};

const LATENCY: f64 = 1000.0;
const OVERHEAD: f64 = 500.0;
const GAP: f64 = 100.0;
/// Nanoseconds per byte on a link of 100 Gbit/s.
const PER_BYTE: f64 = 0.08;
/// Nanoseconds per byte on a CPU.
const COPY: f64 = 0.02;
const RENDEZVOUS_ABOVE: u64 = 65_536;

fn parameters() -> Parameters {
    Parameters {
        latency: Time::from_ns(LATENCY as u64),
        overhead: Time::from_ns(OVERHEAD as u64),
        gap: Time::from_ns(GAP as u64),
        gap_per_byte_fs: Parameters::gap_of(Rate::from_gbit(100)),
        overhead_per_byte_fs: 20_000,
        rendezvous_above: RENDEZVOUS_ABOVE,
    }
}

fn span_ns(trace: &Trace) -> f64 {
    let done = execute(trace, &parameters()).unwrap();
    assert!(done.complete(), "{:?}", done.stuck);
    assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
    done.span.0 as f64 / 1000.0
}

fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 1e-3, "{found} ns instead of {wanted} ns");
}

/// Time in ns from the start of a send to the end of its receive, which was posted before the send started.
fn one_way(bytes: u64) -> f64 {
    let n = bytes as f64;
    let message = LATENCY + PER_BYTE * n + 2.0 * (OVERHEAD + COPY * n);
    if bytes > RENDEZVOUS_ABOVE { message + 2.0 * LATENCY } else { message }
}

fn collective(operation: Collective, algorithm: Algorithm, ranks: u32, bytes: u64) -> Trace {
    let call = Call::new(operation, algorithm, ranks, 0, Sizes::Uniform(bytes)).unwrap();
    let mut build = TraceBuilder::new(u64::from(ranks), 1 << 20).unwrap();
    for me in 0..ranks {
        Sequence::new(me).collective(&mut build, &call, &|rank| rank, me, 0).unwrap();
    }
    build.finish().unwrap()
}

#[test]
fn ping_pong_eager_and_with_rendezvous() {
    for bytes in [0, 1, 8, 4096, RENDEZVOUS_ABOVE, RENDEZVOUS_ABOVE + 1, 2_000_000] {
        let mut build = TraceBuilder::new(2, 1000).unwrap();
        let mut ranks = [Sequence::new(0), Sequence::new(1)];
        for _ in 0..10 {
            for (from, to) in [(0, 1), (1, 0)] {
                ranks[from].blocking(&mut build, Operation::send(to as u32, bytes, 7)).unwrap();
                ranks[to].blocking(&mut build, Operation::recv(from as u32, bytes, 7)).unwrap();
            }
        }
        near(span_ns(&build.finish().unwrap()), 20.0 * one_way(bytes));
    }
}

#[test]
fn ring_all_reduce_moves_twice_the_bytes_less_one_chunk() {
    for (ranks, bytes) in [(2, 1 << 20), (8, 1 << 20), (16, 1 << 14), (16, 1 << 24), (5, 5 << 16)] {
        let trace = collective(Collective::AllReduce, Algorithm::Ring, ranks, bytes);
        let sent: u64 = trace.of_rank(0).map(|at| trace.operation(at)).map(sent).sum();
        assert_eq!(sent, 2 * u64::from(ranks - 1) * bytes / u64::from(ranks), "2 (n - 1) / n of the bytes");
        near(span_ns(&trace), 2.0 * f64::from(ranks - 1) * one_way(bytes / u64::from(ranks)));
    }
}

fn sent(operation: Operation) -> u64 {
    if operation.kind == silvan_trace::Kind::Send { operation.size } else { 0 }
}

#[test]
fn recursive_doubling_takes_the_logarithm_of_rounds() {
    for (ranks, bytes) in [(2, 1000), (8, 1000), (64, 65_536), (64, 1 << 20)] {
        let trace = collective(Collective::AllReduce, Algorithm::RecursiveDoubling, ranks, bytes);
        near(span_ns(&trace), f64::from(ranks.ilog2()) * one_way(bytes));
    }
    // Three ranks exceed the power of two. Their data goes to partners first, and the results return
    // afterwards. These messages partly overlap with others.
    let found = span_ns(&collective(Collective::AllReduce, Algorithm::RecursiveDoubling, 11, 4096));
    assert!(found > 4.0 * one_way(4096) && found <= 5.0 * one_way(4096), "{found}");
}

#[test]
fn recursive_halving_halves_the_bytes() {
    for (ranks, bytes) in [(8, 8 << 20), (32, 1 << 16)] {
        let trace = collective(Collective::AllReduce, Algorithm::RecursiveHalving, ranks, bytes);
        let rounds = (1..=ranks.ilog2()).map(|step| one_way(bytes >> step)).sum::<f64>();
        near(span_ns(&trace), 2.0 * rounds);
    }
}

#[test]
fn aggregated_trees_take_the_logarithm_of_rounds() {
    for operation in [Collective::AllGather, Collective::ReduceScatter] {
        let rounds: f64 = [1, 2, 4, 8].map(|blocks| one_way(blocks * 4096)).iter().sum();
        near(span_ns(&collective(operation, Algorithm::Pat, 16, 4096)), rounds);
    }
}

#[test]
fn two_trees_use_all_links_in_both_directions() {
    // Each rank sends and receives twice the vector, except the roots. Each of four streams passes through the trees and back.
    let free =
        Parameters { gap_per_byte_fs: Parameters::gap_of(Rate::from_gbit(100)), ..Parameters::default() };
    for (ranks, levels) in [(8, 3.0), (13, 4.0), (64, 6.0)] {
        let (chunks, bytes) = (512.0, 1u64 << 27);
        let trace = collective(Collective::AllReduce, Algorithm::DoubleTree, ranks, bytes);
        let done = execute(&trace, &free).unwrap();
        assert!(done.complete());
        let (found, moved) = (done.span.0 as f64 / 1000.0, 2.0 * PER_BYTE * bytes as f64);
        let most = moved * (1.0 + 4.0 * 2.0 * levels / chunks);
        let least = moved * f64::from(ranks - 2) / f64::from(ranks);
        assert!((least..=most).contains(&found), "{found} of {moved}");
    }
}

#[test]
fn all_to_all_by_pairs_by_bruck_and_at_once() {
    for (ranks, bytes) in [(4, 512), (16, 4096), (16, 1 << 20)] {
        let pairwise = collective(Collective::AllToAll, Algorithm::Pairwise, ranks, bytes);
        near(span_ns(&pairwise), f64::from(ranks - 1) * one_way(bytes));
        let bruck = collective(Collective::AllToAll, Algorithm::Bruck, ranks, bytes);
        near(span_ns(&bruck), f64::from(ranks.ilog2()) * one_way(u64::from(ranks / 2) * bytes));
    }
    // If all messages are sent at the same time and their bytes take longer than the CPU, the interface is
    // the bottleneck. It transfers seven messages of 8 MiB in each direction. The upper limit adds the time
    // before the first byte and after the last byte.
    let (ranks, bytes) = (8u32, 8u64 << 20);
    let linear = span_ns(&collective(Collective::AllToAll, Algorithm::Linear, ranks, bytes));
    let moved = f64::from(ranks - 1) * PER_BYTE * bytes as f64;
    let ends = OVERHEAD + 3.0 * LATENCY + COPY * bytes as f64 * 2.0 + OVERHEAD;
    assert!(linear >= moved && linear <= (moved + ends) * 1.001, "{linear} for {moved}");
}

#[test]
fn trees_and_barriers_take_the_logarithm_of_rounds() {
    // The root sends to ranks 4, 2 and 1. Rank 7 finishes last, because its data passes through ranks 4
    // and 6.
    let trace = collective(Collective::Broadcast, Algorithm::Binomial, 8, 1 << 20);
    near(span_ns(&trace), 3.0 * one_way(1 << 20));
    for (ranks, rounds) in [(8, 3.0), (9, 4.0)] {
        let trace = collective(Collective::Barrier, Algorithm::Dissemination, ranks, 0);
        near(span_ns(&trace), rounds * one_way(0));
    }
}

#[test]
fn an_interface_sends_one_message_at_a_time() {
    let mut build = TraceBuilder::new(2, 1000).unwrap();
    for _ in 0..100 {
        build.push(0, Operation::send(1, 10_000, 0)).unwrap();
        build.push(1, Operation::recv(0, 10_000, 0)).unwrap();
    }
    let n = 10_000.0;
    let first = OVERHEAD + COPY * n + LATENCY;
    near(span_ns(&build.finish().unwrap()), first + 100.0 * PER_BYTE * n + OVERHEAD + COPY * n);
}

#[test]
fn a_late_receive_delays_a_rendezvous_but_not_an_eager_send() {
    for (bytes, send_ends) in [(1000, OVERHEAD + COPY * 1000.0), (1 << 20, 0.0)] {
        let mut build = TraceBuilder::new(2, 1000).unwrap();
        build.push(0, Operation::send(1, bytes, 0)).unwrap();
        let mut other = Sequence::new(1);
        other.compute(&mut build, 1_000_000).unwrap();
        other.blocking(&mut build, Operation::recv(0, bytes, 0)).unwrap();
        let done = execute(&build.finish().unwrap(), &parameters()).unwrap();
        let n = bytes as f64;
        let late = 1e6 + LATENCY + COPY * n + PER_BYTE * n;
        near(done.finished[0].0 as f64 / 1000.0, if send_ends > 0.0 { send_ends } else { late });
        let received = if send_ends > 0.0 { 1e6 } else { late + LATENCY };
        near(done.span.0 as f64 / 1000.0, received + OVERHEAD + COPY * n);
    }
}
