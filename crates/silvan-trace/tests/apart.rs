//! Ranks that are executed in several parts give the same results as ranks that are executed together.

use silvan_engine::Time;
use silvan_trace::collective::{Algorithm, Call, Collective, Sizes};
use silvan_trace::execute::{Agenda, Carrier, Execution, Parameters, Parcel, Ranks};
use silvan_trace::read::{Options, goal, source::Source};
use silvan_trace::sequence::Sequence;
use silvan_trace::{Trace, TraceBuilder};

const LATENCY: u64 = 700_000;

/// Collects the parcels that ranks post, with the times (ps). Each parcel leaves immediately.
#[derive(Default)]
struct Outbox(Vec<(u64, Parcel)>);

impl Carrier for Outbox {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        agenda.left(now, parcel);
        self.0.push((now, *parcel));
    }
}

/// Executes a trace in a number of parts: rank r belongs to part r modulo `places`. Each parcel arrives after
/// a fixed time.
fn executed(trace: &Trace, places: u32) -> Execution {
    let parameters = Parameters { overhead: Time(300_000), rendezvous_above: 4_000, ..Parameters::default() };
    let ranks = |place: u32| Ranks::some(trace, &parameters, Time(5), move |rank| rank % places == place);
    let mut parts: Vec<_> = (0..places).map(ranks).collect();
    let mut step = 0;
    while parts.iter().any(|part| part.next().is_some()) {
        step += LATENCY;
        let mut outbox = Outbox::default();
        for part in &mut parts {
            part.advance(Time(step - 1), &mut outbox).unwrap();
        }
        for (time, parcel) in outbox.0 {
            parts[(parcel.to % places) as usize].agenda().arrives(time + LATENCY, &parcel);
        }
    }
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap();
    for (place, part) in (1..).zip(parts) {
        all.join(part, |rank| rank % places == place);
    }
    all.close()
}

fn exchange(bytes: u64) -> Trace {
    let ranks = 6;
    let calls = [
        Call::new(Collective::AllToAll, Algorithm::Linear, ranks, 0, Sizes::Uniform(bytes)).unwrap(),
        Call::new(Collective::AllReduce, Algorithm::Ring, ranks, 0, Sizes::Uniform(9 * bytes)).unwrap(),
    ];
    let mut build = TraceBuilder::new(u64::from(ranks), 1 << 20).unwrap();
    for me in 0..ranks {
        let mut sequence = Sequence::new(me);
        for call in &calls {
            sequence.collective(&mut build, call, &|rank| rank, me, 0).unwrap();
        }
    }
    build.finish().unwrap()
}

fn goal_of(text: &str) -> Trace {
    goal::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default()).unwrap()
}

#[test]
fn ranks_in_several_places_give_the_same_results_as_in_one() {
    for bytes in [64, 5_000] {
        let trace = exchange(bytes);
        let whole = executed(&trace, 1);
        assert!(whole.complete() && whole.messages > 60 && whole.calls.iter().all(|call| call.end.is_some()));
        for places in [2, 3, 6] {
            assert_eq!(executed(&trace, places), whole, "{places} places, {bytes} bytes");
        }
    }
}

#[test]
fn unfinished_operations_are_reported_from_every_place() {
    let trace = goal_of(
        "num_ranks 3\nrank 0 {\na: recv 8b from 1 tag 1\nb: calc 5\nb requires a\n}\n\
         rank 1 {\na: recv 8b from 0 tag 2\nb: send 8b to 2 tag 3\n}\nrank 2 {\na: calc 7\n}\n",
    );
    let whole = executed(&trace, 1);
    assert_eq!((whole.unfinished, whole.stuck.len(), whole.unreceived.0), (3, 2, 1));
    assert_eq!(executed(&trace, 2), whole);
    assert_eq!(executed(&trace, 3), whole);
}

#[test]
fn an_operation_beyond_the_range_of_time_blocks_only_its_own_rank() {
    let days = 24 * 3_600 * 1_000_000_000_u64;
    let text = format!("num_ranks 2\nrank 0 {{\ncalc {}\n}}\nrank 1 {{\ncalc 5\n}}\n", 107 * days);
    let trace = goal_of(&text);
    let mut ranks = Ranks::new(&trace, &Parameters::default(), Time::ZERO);
    let mut outbox = Outbox::default();
    let error = ranks.advance(Time::NEVER, &mut outbox).unwrap_err();
    assert_eq!(error.rank, 0);
    ranks.advance(Time::NEVER, &mut outbox).unwrap();
    let execution = ranks.close();
    assert_eq!((execution.unfinished, execution.finished[1]), (1, Time::from_ns(5)));
}

#[test]
fn computations_count_until_the_end_of_a_run() {
    // Two computations of rank 0 wait for its CPU, and rank 1 has two CPUs.
    let trace = goal_of(
        "num_ranks 2\nrank 0 {\ncalc 10\ncalc 10\n}\nrank 1 {\ncalc 10 cpu 0\ncalc 2 cpu 1\nl: calc 30 cpu 1\n}\n",
    );
    for (end, expected) in [(5, [(5, 5), (10, 5)]), (15, [(15, 15), (25, 15)]), (99, [(20, 20), (42, 32)])] {
        let mut ranks = Ranks::new(&trace, &Parameters::default(), Time::ZERO);
        ranks.advance(Time::from_ns(end), &mut Outbox::default()).unwrap();
        ranks.cut(Time::from_ns(end));
        let execution = ranks.close();
        let found = [0, 1].map(|rank| (execution.computing[rank].0 / 1_000, execution.busy[rank].0 / 1_000));
        assert_eq!(found, expected, "after {end} ns");
    }
}
