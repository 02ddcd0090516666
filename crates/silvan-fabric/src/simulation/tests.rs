//! Tests that a run detects internal errors. No known input causes them, so the tests corrupt the state.

use silvan_engine::{Bytes, Time};
use silvan_network::port::Vl;
use silvan_network::traffic::Flow;

use super::*;
use crate::config::{Measure, Scheduler};
use crate::link::CreditWay;
use crate::message::CreditReturn;
use crate::packet::FlowAddress;
use crate::packet::NO_LEDGER;
use crate::tests::{config, flow, simulation, topology};

/// A network of two hosts, one of which sends 100 kB to the other.
fn run() -> Simulation {
    run_with(Scheduler::EventOrdered)
}

fn run_with(scheduler: Scheduler) -> Simulation {
    let flow = Flow { name: Some("f".into()), total: Some(Bytes(100_000)), ..flow("H1", "H2") };
    let config = Config {
        flows: vec![flow],
        measure: Measure { interval: Time::from_us(10), ..Measure::default() },
        scheduler,
        ..config(Time::from_us(300))
    };
    simulation(&topology(r#"{"kind": "star", "hosts": 2}"#), &config)
}

fn to_the_end(mut simulation: Simulation) -> Result<Outcome, ModelError> {
    while !simulation.advance(1_000)?.done {}
    simulation.finish()
}

#[test]
fn a_sound_run_ends() {
    assert_eq!(to_the_end(run()).unwrap().summary.packets_delivered, 49);
}

#[test]
fn a_run_can_stop_at_each_sample_or_after_a_number_of_events() {
    let mut simulation = run();
    let (progress, is_sample) = simulation.advance_to_sample(u64::MAX).unwrap();
    assert_eq!((progress.now, is_sample), (Time::from_us(10), true));
    let before = progress.events;
    let (progress, is_sample) = simulation.advance_to_sample(1).unwrap();
    assert!(progress.events > before && progress.now < Time::from_us(20) && !is_sample);
    let (progress, is_sample) = simulation.advance_to_sample(u64::MAX).unwrap();
    assert_eq!((progress.now, is_sample, progress.done), (Time::from_us(20), true, false));
}

#[test]
fn a_lost_wake_up_ends_a_run_with_an_explanation() {
    let mut simulation = run();
    simulation.advance(10).unwrap();
    // Remove the events, as if no node had requested a wake-up. Only the end of the interval remains.
    let queue = &mut simulation.network.partitions[0].ctx.queue;
    while let Some(time) = queue.next_time() {
        queue.pop_at(time);
    }
    let next = Time::from_us(10);
    let error = to_the_end(simulation).unwrap_err();
    let ModelError::Stalled { now, waiting } = &error else { panic!("{error}") };
    assert_eq!(*now, next);
    assert!(waiting.contains("packets inside the network"), "{waiting}");
    assert!(error.to_string().starts_with("network stalled at 10 us; blocked: "), "{error}");
}

#[test]
fn lost_traffic_ends_a_run_in_every_build() {
    let mut simulation = run();
    simulation.advance(20).unwrap();
    simulation.network.partitions[0].ctx.meters.generated(
        0,
        FlowAddress { host: 0, source: 0, destination: 1 },
        7,
        Time::ZERO,
    );
    let error = to_the_end(simulation).unwrap_err().to_string();
    assert!(error.contains("bytes of `f` were generated and 0 are sent again, but"), "{error}");
}

#[test]
fn an_impossible_state_ends_a_run_with_the_time_of_its_event() {
    let broken = || {
        let mut simulation = run();
        simulation.advance(20).unwrap();
        let ctx = &mut simulation.network.partitions[0].ctx;
        ctx.report_broken("the sky is green".into());
        let at = ctx.now;
        (simulation, at)
    };
    let check = |error, at| {
        let ModelError::Broken { now, what } = error else { panic!("{error}") };
        assert_eq!((now, what), (at, "the sky is green".to_owned()));
    };
    let (simulation, at) = broken();
    assert!(at < simulation.next_sample.unwrap());
    check(to_the_end(simulation).unwrap_err(), at);
    let (simulation, at) = broken();
    check(simulation.finish().err().unwrap(), at);
}

#[test]
fn lost_packets_end_a_run_in_every_build() {
    let mut simulation = run();
    simulation.advance(20).unwrap();
    simulation.network.partitions[0].ctx.meters.packets_injected += 1;
    let error = to_the_end(simulation).unwrap_err();
    // Detected at the next sample.
    let ModelError::Broken { now, what } = &error else { panic!("{error}") };
    assert_eq!(*now, Time::from_us(20));
    assert!(what.contains("packets are inside, but"), "{what}");
}

#[test]
fn each_mark_is_that_of_a_packet_that_was_delivered_or_is_gone() {
    for at in 0..3 {
        for extra in [0, 1] {
            let mut simulation = run();
            simulation.advance(20).unwrap();
            let meters = &mut simulation.network.partitions[0].ctx.meters;
            let gone = [&mut meters.trimmed_marked, &mut meters.lost_marked, &mut meters.discarded_marked];
            *gone[at] += 1;
            meters.fecn_marks += 1 + extra;
            let ends = to_the_end(simulation);
            assert_eq!(ends.is_ok(), extra == 0, "{:?}", ends.err());
        }
    }
}

#[test]
fn credit_from_nowhere_ends_a_run_in_every_build() {
    let mut simulation = run();
    simulation.advance(20).unwrap();
    let ctx = &mut simulation.network.partitions[0].ctx;
    ctx.release(CreditReturn {
        way: CreditWay { channel: 0, vl: Vl::FIRST, dst: 1 },
        space: 1 << 20,
        leaves_at: ctx.now,
        ledger: NO_LEDGER,
    });
    let error = to_the_end(simulation).unwrap_err();
    // Detected at the next sample.
    let ModelError::Broken { now, what } = &error else { panic!("{error}") };
    assert_eq!(*now, Time::from_us(20));
    assert!(what.contains("returning"), "{what}");
}

/// Changes the credit of the sender of one channel, for each channel and with each scheduler. Credit is lost
/// or gained.
fn with_changed_credit(check: impl Fn(Simulation, &dyn Fn(&mut Simulation))) {
    for scheduler in [Scheduler::EventOrdered, Scheduler::Binned] {
        let channels = run_with(scheduler).network.receiver.len();
        for (channel, by) in (0..channels as u32).flat_map(|channel| [(channel, -64), (channel, 64)]) {
            let simulation = run_with(scheduler);
            assert_eq!(simulation.is_binned(), scheduler == Scheduler::Binned);
            check(simulation, &|simulation| simulation.network.partitions[0].change_credit(channel, by));
        }
    }
}

#[test]
fn lost_or_gained_credit_is_detected_at_the_next_sample() {
    with_changed_credit(|mut simulation, change| {
        simulation.advance(20).unwrap();
        let next = simulation.next_sample.unwrap();
        change(&mut simulation);
        let error = to_the_end(simulation).unwrap_err();
        let ModelError::Broken { now, what } = &error else { panic!("{error}") };
        assert_eq!(*now, next);
        assert!(what.contains("VL 0: credit ") && what.contains(" is not the buffer's "), "{what}");
    });
}

#[test]
fn lost_or_gained_credit_is_detected_at_the_end() {
    with_changed_credit(|mut simulation, change| {
        while !simulation.advance(1_000).unwrap().done {}
        change(&mut simulation);
        let error = simulation.finish().unwrap_err().to_string();
        assert!(error.contains(" is not the buffer's "), "{error}");
    });
}
