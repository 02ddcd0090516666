//! Messages of a program outside the model: their times, and that stops of the run do not affect its results.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s) with a delay of 10 ns, and the switch has a latency of 100 ns, as in
//! `jobs.rs`.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use crate::faults::down;
use crate::jobs::{job, trace};
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Config, ExternalTraffic, Measure, Scheduler};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::simulation::{ExternalMessage, Fate, Heard, ModelError, Refused, Simulation, Stop};
use silvan_network::topology::Topology;
use silvan_network::traffic::Pattern;
use silvan_trace::Operation;

fn star() -> Topology {
    topology(r#"{"kind": "star", "hosts": 3, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}"#)
}

/// A network in which a program sends. The run has no duration.
fn open_ended() -> Config {
    let mut config = config(Time::NEVER);
    config.measure.interval = us(10);
    config.external = Some(ExternalTraffic::default());
    config
}

fn start(topology: &Topology, config: &Config) -> Simulation {
    Simulation::new(topology, &tables(topology), config).unwrap()
}

fn message(from: u32, to: u32, bytes: u64) -> ExternalMessage {
    ExternalMessage { from, to, bytes, sl: 0, awaits_departure: true }
}

/// Runs until the program learns something, and returns it.
fn next_heard(run: &mut Simulation) -> Vec<Heard> {
    assert_eq!(run.run_until(Time::NEVER).unwrap(), Stop::Heard);
    let heard = run.take_heard();
    assert!(heard.iter().all(|one| one.time == run.now()), "told at its time: {heard:?}");
    heard
}

fn heard(message: u64, bytes: u64, ns: u64, fate: Fate) -> Heard {
    Heard { message, bytes, time: Time::from_ns(ns), fate }
}

#[test]
fn messages_of_a_program_take_as_long_as_those_of_ranks() {
    // The case of `an_exchange_without_other_traffic_takes_what_an_ideal_crossbar_takes` in `jobs.rs`.
    let mut run = start(&star(), &open_ended());
    assert_eq!(run.run_until(Time::from_ns(1_300)).unwrap(), Stop::Reached);
    assert_eq!(run.now(), Time::from_ns(1_300));
    assert_eq!(run.send(message(0, 1, 4_096)), Ok(0));
    assert_eq!((run.pending_messages(), run.unsent_bytes(0)), (1, Ok(4_096)));
    assert_eq!(next_heard(&mut run), [heard(0, 4_096, 3_348, Fate::Left)]);
    assert_eq!((run.pending_messages(), run.unsent_bytes(0)), (1, Ok(0)));
    assert_eq!(next_heard(&mut run), [heard(0, 4_096, 3_468, Fate::Delivered)]);
    assert_eq!(run.pending_messages(), 0);
    assert_eq!(run.run_until(Time::from_ns(3_968)).unwrap(), Stop::Reached);
    assert_eq!(run.send(message(1, 0, 512)), Ok(1));
    assert_eq!(next_heard(&mut run), [heard(1, 512, 4_224, Fate::Left)]);
    assert_eq!(next_heard(&mut run), [heard(1, 512, 4_344, Fate::Delivered)]);
    let outcome = run.finish().unwrap();
    let class = outcome.summary.classes.iter().find(|class| class.class == "external").unwrap();
    assert_eq!(class.delivered_packets, 3);
}

#[test]
fn a_run_without_end_stops_when_nothing_more_happens() {
    let mut run = start(&star(), &open_ended());
    assert_eq!(run.run_until(Time::NEVER).unwrap(), Stop::Idle);
    run.send(ExternalMessage { awaits_departure: false, ..message(2, 0, 1) }).unwrap();
    // The message is as large as a control packet, and the program did not ask when it leaves.
    let heard = next_heard(&mut run);
    assert_eq!((heard.len(), heard[0].fate, heard[0].bytes), (1, Fate::Delivered, 1));
    assert_eq!(run.run_until(Time::NEVER).unwrap(), Stop::Idle);
    assert_eq!(run.next_event(), None);
    let (before, later) = (run.now(), run.now() + us(1_000));
    assert_eq!(run.run_until(later).unwrap(), Stop::Reached);
    assert_eq!(run.now(), later);
    assert_eq!(run.run_until(before).unwrap(), Stop::Reached, "time does not go back");
    assert_eq!(run.now(), later);
}

#[test]
fn a_run_ends_at_its_duration() {
    let mut run = start(&star(), &Config { duration: us(3), ..open_ended() });
    run.send(message(0, 1, 1 << 20)).unwrap();
    assert_eq!(run.run_until(Time::NEVER).unwrap(), Stop::Ended);
    assert_eq!((run.now(), run.pending_messages(), run.next_event()), (us(3), 1, None));
    assert_eq!(run.send(message(0, 1, 1)), Err(Refused::Ended(us(3))));
    run.finish().unwrap();
}

#[test]
fn messages_that_no_host_can_send_are_refused() {
    let mut config = open_ended();
    config.lanes.count = 2;
    let mut run = start(&star(), &config);
    assert_eq!(run.send(message(3, 1, 8)), Err(Refused::NoHost(3, 2)));
    assert_eq!(run.send(message(1, 7, 8)), Err(Refused::NoHost(7, 2)));
    assert_eq!(run.send(message(1, 1, 8)), Err(Refused::SameHost(1)));
    assert_eq!(run.send(ExternalMessage { sl: 2, ..message(0, 1, 8) }), Err(Refused::NoLevel(2, 1)));
    assert_eq!(run.unsent_bytes(3), Err(Refused::NoHost(3, 2)));
    let mut closed = config;
    (closed.external, closed.duration) = (None, us(10));
    closed.flows = vec![flow("H1", "H2")];
    let mut run = start(&star(), &closed);
    assert_eq!(run.send(message(0, 1, 8)), Err(Refused::NotExternal));
}

#[test]
fn messages_on_other_lanes_are_other_flows() {
    let mut config = open_ended();
    config.lanes.count = 2;
    let mut run = start(&star(), &config);
    run.send(message(0, 1, 40_960)).unwrap();
    run.send(ExternalMessage { sl: 1, ..message(0, 1, 2_048) }).unwrap();
    let order: Vec<(u64, Fate)> =
        (0..4).flat_map(|_| next_heard(&mut run)).map(|heard| (heard.message, heard.fate)).collect();
    assert_eq!(order, [(1, Fate::Left), (1, Fate::Delivered), (0, Fate::Left), (0, Fate::Delivered)]);
}

#[test]
fn a_lost_message_does_not_stop_the_program_forever() {
    let mut config = open_ended();
    config.events = vec![down("S1:2", us(1), us(1_000))];
    let mut run = start(&star(), &config);
    run.send(ExternalMessage { awaits_departure: false, ..message(0, 1, 1 << 20) }).unwrap();
    let stopped = run.run_until(Time::NEVER);
    assert!(matches!(stopped, Ok(Stop::Idle) | Err(ModelError::Stalled { .. })), "{stopped:?}");
    assert_eq!(run.pending_messages(), 1);
}

/// The columns of a table, as text.
fn printed(outcome: &Outcome) -> String {
    let mut text = format!("{:?}", outcome.summary);
    for table in &outcome.tables {
        for column in &table.columns {
            text += match &column.values {
                Values::F64(values) => format!("{} {} {values:?}\n", table.name, column.name),
                Values::U64(values) => format!("{} {} {values:?}\n", table.name, column.name),
                Values::U32(values) => format!("{} {} {values:?}\n", table.name, column.name),
                Values::Name { codes, .. } => format!("{} {} {codes:?}\n", table.name, column.name),
            }
            .as_str();
        }
    }
    text
}

/// Times at irregular distances of up to a microsecond.
fn irregular_times(until: Time) -> impl Iterator<Item = Time> {
    let mut state = 12_345_u64;
    let mut time = 0;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        time += state >> 44;
        (time < until.0).then_some(Time(time))
    })
}

#[test]
fn stops_do_not_affect_results() {
    let tree = topology(
        r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}"#,
    );
    let mut config = config(us(120));
    config.measure = Measure { interval: us(7), forest: true, ..Measure::default() };
    config.warmup = us(20);
    config.congestion = ib_cc();
    config.traffic = vec![
        pattern(Pattern::Uniform { include_self: false }),
        pattern(Pattern::Hotspots { to: vec!["H3".into()] }),
    ];
    let compute = trace(&[
        &[Operation::calc(1_000), Operation::send(1, 40_960, 0), Operation::recv(1, 512, 0)],
        &[Operation::recv(0, 40_960, 0), Operation::calc(500), Operation::send(0, 512, 0)],
    ]);
    config.jobs = vec![job(compute, &[0, 9])];
    config.ends_with_jobs = false;
    for (scheduler, threads) in [
        (Scheduler::EventOrdered, 1),
        (Scheduler::EventOrdered, 3),
        (Scheduler::Binned, 1),
        (Scheduler::Binned, 3),
    ] {
        (config.scheduler, config.threads) = (scheduler, threads);
        let whole = printed(&run(&tree, &config));
        let mut simulation = start(&tree, &config);
        assert_eq!(simulation.is_binned(), scheduler == Scheduler::Binned);
        let mut stops = 0;
        // Samples are also among the times.
        let samples = (1..17).map(|number| us(7 * number));
        let mut times: Vec<Time> = irregular_times(us(120)).chain(samples).collect();
        times.sort_unstable();
        for time in times {
            assert_eq!(simulation.run_until(time).unwrap(), Stop::Reached);
            assert_eq!(simulation.now(), time);
            stops += 1;
        }
        assert!(stops > 100);
        assert_eq!(simulation.run_until(Time::NEVER).unwrap(), Stop::Ended);
        let stopped = printed(&simulation.finish().unwrap());
        assert_eq!(stopped, whole, "{scheduler:?}, {threads} threads");
    }
}

/// A program in which each of three hosts answers each message with one of half its size, among other traffic.
fn exchange(config: &Config, stops: impl Iterator<Item = Time>) -> (Vec<Heard>, String) {
    let mut run = start(&star(), config);
    let (mut all, mut ends) = (Vec::new(), vec![(0, 1), (1, 2)]);
    for (number, &(from, to)) in (0..).zip(&ends) {
        assert_eq!(run.send(message(from, to, 100_000)), Ok(number));
    }
    for until in stops.chain([us(300)]) {
        loop {
            match run.run_until(until).unwrap() {
                Stop::Heard => {
                    for heard in run.take_heard() {
                        all.push(heard);
                        let (from, to) = ends[heard.message as usize];
                        if heard.fate == Fate::Delivered && heard.bytes > 1 {
                            run.send(message(to, from, heard.bytes / 2)).unwrap();
                            ends.push((to, from));
                        }
                    }
                }
                stop => break assert_eq!(stop, Stop::Reached),
            }
        }
    }
    (all, printed(&run.finish().unwrap()))
}

#[test]
fn stops_do_not_affect_what_a_program_learns() {
    let mut config = open_ended();
    config.congestion = ib_cc();
    config.flows = vec![flow("H3", "H2")];
    config.switch.buffer = Bytes(8_192);
    let (heard, results) = exchange(&config, std::iter::empty());
    assert!(heard.len() > 60, "{}", heard.len());
    let (same, same_results) = exchange(&config, irregular_times(us(300)));
    assert_eq!((heard, results), (same, same_results));
}
