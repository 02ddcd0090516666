//! Traces in a temporary file give the same results as those in memory.

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use silvan_engine::Time;
use silvan_engine::saved::{Reader, Saved, Writer};
use silvan_trace::collective::Choice;
use silvan_trace::execute::{
    Copies, Crossbar, Execution, Inside, Interfaces, Machines, Parameters, Ranks, execute,
};
use silvan_trace::read::{Options, goal_binary, read};
use silvan_trace::trace::{ANY, BuildError, When};
use silvan_trace::{Operation, Trace, TraceBuilder, write};

/// Ranks of a random trace.
const RANKS: u32 = 3;

/// An operation with its rank, and dependencies on other operations of the rank, as numbers from which those are derived.
#[derive(Debug, Clone)]
struct Step {
    rank: u32,
    operation: Operation,
    waits: Vec<(u32, When)>,
}

fn operation() -> impl Strategy<Value = Operation> {
    let peer = 0..RANKS;
    let tag = 0..3u32;
    let size = prop_oneof![0..100u64, 1_000..100_000u64, Just(u64::MAX / 2)];
    prop_oneof![
        4 => (peer.clone(), 0..20_000u64, tag.clone()).prop_map(|(to, bytes, tag)| Operation::send(to, bytes, tag)),
        4 => (prop_oneof![5 => peer, 1 => Just(ANY)], 0..20_000u64, prop_oneof![5 => tag, 1 => Just(ANY)])
            .prop_map(|(from, bytes, tag)| Operation::recv(from, bytes, tag)),
        2 => (0..5_000u64).prop_map(Operation::calc),
        1 => size.prop_map(|ns| Operation::delay(ns % 1_000_000)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let when = prop_oneof![4 => Just(When::Finish), 1 => Just(When::Start)];
    let waits = prop::collection::vec((prop_oneof![4 => 1..4u32, 1 => 1..500u32], when), 0..5);
    let made = (0..RANKS, operation(), waits, prop_oneof![6 => Just(0u8), 1 => 1..4u8], 0..2u8);
    made.prop_map(|(rank, operation, waits, cpu, nic)| {
        let mut operation = operation.on(cpu);
        operation.nic = if cpu == 0 { 0 } else { nic };
        Step { rank, operation, waits }
    })
}

/// Builds the same trace in memory, and in a temporary file if it has more than `kept` operations and dependencies.
fn built(steps: &[Step], order: [u32; RANKS as usize], kept: u64) -> Result<[Trace; 2], BuildError> {
    let make = |kept: Option<u64>| {
        let ranks = u64::from(RANKS);
        let mut build = match kept {
            Some(kept) => TraceBuilder::keep(ranks, u64::MAX, kept)?,
            None => TraceBuilder::new(ranks, u64::MAX)?,
        };
        for rank in order {
            for (count, step) in (0..).zip(steps.iter().filter(|step| step.rank == rank)) {
                let made = build.push(rank, step.operation)?;
                for &(distance, when) in &step.waits {
                    if distance <= count {
                        build.wait(rank, made, made - distance, when)?;
                    }
                }
            }
            build.close(rank)?;
        }
        build.finish()
    };
    Ok([make(None)?, make(Some(kept))?])
}

fn parameters() -> Parameters {
    Parameters {
        latency: Time::from_ns(700),
        overhead: Time::from_ns(120),
        gap_per_byte_fs: 80_000,
        rendezvous_above: 10_000,
        ..Parameters::default()
    }
}

/// Runs a trace; at each of some times, the state is saved, and restored into new ranks.
fn resumed(trace: &Arc<Trace>, times: &[u64]) -> (Execution, Vec<Vec<u8>>) {
    let (parameters, hosts) = (parameters(), (0..trace.ranks()).collect::<Vec<u32>>());
    let mut links = Interfaces::default();
    let mut crossbar = Machines {
        machine_of: &hosts,
        inside: Inside::Copies(Copies::default()),
        links: &mut links,
        outside: Crossbar::new(hosts.clone(), |parcel| parameters.cost(parcel)),
    };
    let mut ranks = Ranks::new(Arc::clone(trace), &parameters, Time::ZERO);
    let mut states = Vec::new();
    for &time in times {
        ranks.advance(Time::from_ns(time), &mut crossbar).unwrap();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        ranks.save(&mut writer);
        writer.finish().unwrap();
        ranks = Ranks::new(Arc::clone(trace), &parameters, Time::ZERO);
        ranks.restore(&mut Reader::new(&bytes[..])).unwrap();
        states.push(bytes);
    }
    ranks.advance(Time::NEVER, &mut crossbar).unwrap();
    (ranks.close(), states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn traces_in_a_file_equal_those_in_memory(
        steps in prop::collection::vec(step(), 0..600),
        kept in prop_oneof![Just(0u64), 0..400u64],
        order in Just([0, 1, 2]).prop_shuffle(),
    ) {
        let [memory, stored] = built(&steps, order, kept).unwrap().map(Arc::new);
        let items = memory.operations() as u64 + memory.dependencies();
        prop_assert!(!memory.is_stored());
        prop_assert_eq!(stored.is_stored(), items > kept);
        prop_assert_eq!(&memory, &stored);
        let mut texts = [Vec::new(), Vec::new()];
        write::binary(&memory, &mut texts[0]).unwrap();
        write::binary(&stored, &mut texts[1]).unwrap();
        prop_assert_eq!(&texts[0], &texts[1]);
        let whole = execute(&memory, &parameters()).unwrap();
        prop_assert_eq!(&whole, &execute(&stored, &parameters()).unwrap());
        let times = [1_000, 20_000, 300_000];
        let (execution, states) = resumed(&memory, &times);
        prop_assert_eq!(&execution, &whole);
        prop_assert_eq!((execution, states), resumed(&stored, &times));
    }

    #[test]
    fn sizes_can_be_changed_in_a_file(steps in prop::collection::vec(step(), 1..200)) {
        let [mut memory, mut stored] = built(&steps, [0, 1, 2], 0).unwrap();
        for trace in [&mut memory, &mut stored] {
            trace.resize_messages(|bytes| bytes).unwrap();
            trace.resize_messages(|bytes| 3 * bytes / 2).unwrap();
            trace.scale_time(2.5).unwrap();
        }
        prop_assert!(stored.is_stored());
        prop_assert_eq!(memory, stored);
    }
}

/// A trace of two ranks with many operations, which are in different pages than those for which they wait.
fn distant(kept: Option<u64>, last: bool) -> Trace {
    let mut build = match kept {
        Some(kept) => TraceBuilder::keep(2, u64::MAX, kept).unwrap(),
        None => TraceBuilder::new(2, u64::MAX).unwrap(),
    };
    const COUNT: u32 = 50_000;
    for (rank, message) in [(0, Operation::send(1, 100, 5)), (1, Operation::recv(0, 100, 5))] {
        for index in 0..COUNT {
            let operation = if index % 3 == 0 { message } else { Operation::calc(10 + u64::from(index % 7)) };
            let made = build.push(rank, operation).unwrap();
            let far = index.checked_sub(if rank == 0 { 1 } else { 20_000 });
            let near = if last { index.checked_sub(1) } else { far };
            for earlier in [far, near].into_iter().flatten() {
                build.wait(rank, made, earlier, When::Finish).unwrap();
            }
        }
        build.close(rank).unwrap();
    }
    build.finish().unwrap()
}

#[test]
fn dependencies_may_be_far_apart() {
    for last in [false, true] {
        let (memory, stored) = (distant(None, last), distant(Some(1000), last));
        assert!(stored.is_stored() && memory == stored);
        let execution = execute(&memory, &parameters()).unwrap();
        assert!(execution.complete());
        assert_eq!(execution, execute(&stored, &parameters()).unwrap());
    }
}

#[test]
fn cycles_in_a_file_are_found() {
    let mut build = TraceBuilder::keep(1, u64::MAX, 0).unwrap();
    for index in 0..100 {
        build.push(0, Operation::calc(index)).unwrap();
    }
    build.wait(0, 7, 90, When::Finish).unwrap();
    build.wait(0, 90, 7, When::Start).unwrap();
    assert!(
        matches!(build.close(0), Err(BuildError::Cycle { rank: 0, operations }) if operations.len() == 2)
    );
}

#[test]
fn operations_may_wait_for_later_ones_in_a_file() {
    let mut traces = [None, Some(0)].map(|kept| {
        let mut build = match kept {
            Some(kept) => TraceBuilder::keep(1, u64::MAX, kept).unwrap(),
            None => TraceBuilder::new(1, u64::MAX).unwrap(),
        };
        for index in 0..30_000 {
            build.push(0, Operation::calc(index)).unwrap();
        }
        (1..30_000).for_each(|later| build.wait(0, later - 1, later, When::Finish).unwrap());
        build.close(0).unwrap();
        build.finish().unwrap()
    });
    assert!(traces[1].is_stored());
    let executions = traces.each_mut().map(|trace| execute(trace, &parameters()).unwrap());
    assert!(executions[0].complete());
    assert_eq!(executions[0].span, Time::from_ns(30_000 * 29_999 / 2));
    assert_eq!(executions[0], executions[1]);
}

#[test]
fn files_are_the_same_in_memory_and_in_a_file() {
    let data = std::path::Path::new("../../tests/data/traces");
    let mut algorithms = Choice::default();
    algorithms.set("all-reduce", "in-network").unwrap();
    let in_network = Options { algorithms, ..Options::default() };
    for name in ["exchange.goal", "chakra/graph.0.json", "chakra/messages.0.json"] {
        for options in [
            Options::default(),
            Options { time_scale: 2.5, compute_scale: 3.0, ..Options::default() },
            in_network.clone(),
        ] {
            let memory = read(&data.join(name), &options).unwrap().trace;
            let stored = read(&data.join(name), &Options { in_memory: 0, ..options }).unwrap().trace;
            assert!(stored.is_stored() && !memory.is_stored(), "{name}");
            assert_eq!(memory, stored, "{name}");
            assert_eq!(execute(&memory, &parameters()), execute(&stored, &parameters()), "{name}");
            let mut bytes = Vec::new();
            write::binary(&memory, &mut bytes).unwrap();
            let options = Options { in_memory: 0, ..Options::default() };
            let again = goal_binary::read(Cursor::new(&bytes), "t", &options).unwrap();
            assert!(again.is_stored());
            let mut same = Vec::new();
            write::binary(&again, &mut same).unwrap();
            assert!(bytes == same, "{name}");
        }
    }
}
