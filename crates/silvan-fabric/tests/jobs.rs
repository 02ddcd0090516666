//! The times at which ranks act, and how their hosts use the time, compared with small cases computed by
//! hand.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s) with a delay of 10 ns, and the switch has a latency of 100
//! ns. The first byte of a message therefore arrives after 120 ns, and a packet of 2048 bytes takes 1024 ns.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::{JobSummary, Outcome, Values};
use silvan_network::traffic::{Job, QueuePairs, Sends};
use silvan_trace::execute::Parameters;
use silvan_trace::sequence::Sequence;
use silvan_trace::{Operation, Trace, TraceBuilder};

/// The blocking operations of each rank, one after the other.
pub fn trace(ranks: &[&[Operation]]) -> Arc<Trace> {
    let mut build = TraceBuilder::new(ranks.len() as u64, 1 << 12).unwrap();
    for (rank, operations) in (0..).zip(ranks) {
        let mut sequence = Sequence::new(rank);
        operations.iter().for_each(|&operation| {
            sequence.blocking(&mut build, operation).unwrap();
        });
    }
    Arc::new(build.finish().unwrap())
}

pub fn job(trace: Arc<Trace>, hosts: &[u32]) -> Job {
    let (hosts, parameters) = (hosts.to_vec(), Parameters::default());
    let (sends, memory_rate) = (Sends::default(), None);
    Job {
        name: "job".into(),
        trace,
        hosts,
        ports: None,
        units: 0,
        parameters,
        start: Time::ZERO,
        sends,
        queue_pairs: QueuePairs::default(),
        memory_rate,
        sl: 0,
    }
}

/// A job on a star with three hosts.
fn setting(job: Job) -> Config {
    let mut config = config(us(100));
    config.measure.interval = us(10);
    config.jobs = vec![job];
    config
}

fn star_outcome(config: &Config) -> Outcome {
    let star = r#"{"kind": "star", "hosts": 3, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}"#;
    run(&topology(star), config)
}

fn summary(config: &Config) -> JobSummary {
    star_outcome(config).summary.jobs.remove(0)
}

fn numbers(outcome: &Outcome, table: &str, column: &str) -> Vec<f64> {
    let table = outcome.tables.iter().find(|known| known.name == table).unwrap();
    match &table.columns.iter().find(|known| known.name == column).unwrap().values {
        Values::F64(values) => values.clone(),
        Values::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Values::Name { codes, .. } => codes.iter().map(|&code| f64::from(code)).collect(),
    }
}

/// Rank 0 computes for 1000 ns and sends 4096 bytes, which rank 1 answers after 500 ns with 512 bytes.
fn exchange() -> Arc<Trace> {
    trace(&[
        &[Operation::calc(1_000), Operation::send(1, 4_096, 0), Operation::recv(1, 512, 0)],
        &[Operation::recv(0, 4_096, 0), Operation::calc(500), Operation::send(0, 512, 0)],
    ])
}

#[test]
fn an_exchange_without_other_traffic_takes_what_an_ideal_crossbar_takes() {
    let mut exchange = job(exchange(), &[0, 1]);
    exchange.start = Time::from_ns(300);
    let outcome = star_outcome(&setting(exchange));
    let job = &outcome.summary.jobs[0];
    // The message is sent from 1300 ns and arrives at 1300 + 120 + 2048 = 3468 ns. The answer is sent at 3968
    // ns and arrives at 3968 + 120 + 256 = 4344 ns.
    assert_eq!((job.ranks, job.hosts, job.started_ns), (2, 2, 300.0));
    assert_eq!((job.finished_ns, job.span_ns, job.crossbar_ns), (Some(4_344.0), 4_044.0, 4_044.0));
    assert_eq!((job.slowdown, job.unfinished_operations), (Some(1.0), 0));
    assert_eq!((job.messages, job.bytes), (2, 4_608));
    assert_eq!(job.message_slowdown_mean, Some(1.0));
    // Rank 0 computed for 1000 ns and rank 1 for 500 ns. Their hosts sent for 2048 and 256 ns.
    assert_near(job.computing_share, 750.0 / 4_044.0, 1e-9, "computing");
    assert_near(job.busy_share, 750.0 / 4_044.0, 1e-9, "busy");
    assert_near(job.sending_share, 1_152.0 / 4_044.0, 1e-9, "sending");
    assert_eq!((job.blocked_share, job.throttled_share), (0.0, 0.0));
    assert_eq!(numbers(&outcome, "messages", "from_rank"), [0.0, 1.0]);
    assert_eq!(numbers(&outcome, "messages", "to_rank"), [1.0, 0.0]);
    assert_eq!(numbers(&outcome, "messages", "bytes"), [4_096.0, 512.0]);
    assert_eq!(numbers(&outcome, "messages", "handed_ns"), [1_300.0, 3_968.0]);
    assert_eq!(numbers(&outcome, "messages", "left_ns"), [3_348.0, 4_224.0]);
    assert_eq!(numbers(&outcome, "messages", "delivered_ns"), [3_468.0, 4_344.0]);
    assert_eq!(numbers(&outcome, "messages", "alone_ns"), [2_168.0, 376.0]);
    assert_eq!(numbers(&outcome, "ranks", "host"), [0.0, 1.0]);
    // A small message is sent eagerly, so rank 1 has finished before its answer has left.
    assert_eq!(numbers(&outcome, "ranks", "last_finished_ns"), [4_344.0, 3_968.0]);
    assert_eq!(numbers(&outcome, "ranks", "computing_ns"), [1_000.0, 500.0]);
    assert_eq!(numbers(&outcome, "ranks", "waiting_ns"), [3_044.0, 3_168.0]);
    assert_eq!(numbers(&outcome, "ranks", "host_sending_ns"), [2_048.0, 256.0]);
    assert_eq!(numbers(&outcome, "ranks", "sent_bytes"), [4_096.0, 512.0]);
    assert_eq!(numbers(&outcome, "ranks", "received_bytes"), [512.0, 4_096.0]);
    let account = outcome.account.join("\n");
    for part in [
        "Job `job` (2 ranks on 2 hosts) finished after 4.044 us, 1.00 times its duration on an ideal crossbar",
        "its ranks were busy for 19 % of that time and computed for 19 %; their hosts sent for 28 %, lacked credit for \
         0 %",
        "A message took 1.00 times as long as on an empty network, one in a hundred 1.00 times or more.",
    ] {
        assert!(account.contains(part), "{account}\nlacks: {part}");
    }
}

#[test]
fn other_traffic_at_the_destination_slows_messages_down() {
    let send =
        trace(&[&[Operation::calc(1_000), Operation::send(1, 4_096, 0)], &[Operation::recv(0, 4_096, 0)]]);
    let mut config = setting(job(send, &[0, 1]));
    config.flows = vec![flow("H3", "H2")];
    // H3's packets begin at the output at 110, 1134, ... ns. The heads of the job's packets are ready at 1110
    // and 2134 ns. The packets begin at 1134 and at 3182 ns, with one of H3's between them, and the last byte
    // arrives at 3182 + 1024 + 10 ns.
    let job = summary(&config);
    assert_eq!((job.finished_ns, job.crossbar_ns), (Some(4_216.0), 3_168.0));
    assert_near(job.slowdown.unwrap(), 4_216.0 / 3_168.0, 1e-9, "slowdown of the job");
    // The message is posted at 1000 ns and takes 2168 ns on an empty network. Slowdowns are counted in
    // thousandths.
    assert_eq!(job.message_slowdown_mean, Some(1.483));
}

#[test]
fn a_host_without_credit_is_blocked() {
    let send =
        trace(&[&[Operation::calc(1_000), Operation::send(1, 4_096, 0)], &[Operation::recv(0, 4_096, 0)]]);
    let mut config = setting(job(send, &[0, 1]));
    // The buffer holds one packet, which leaves it from 1110 to 2134 ns. The credit returns at 2144 ns, so
    // the second packet leaves from 2144 to 3168 ns and arrives 120 ns after its end.
    config.switch.buffer = Bytes(2_048);
    let outcome = star_outcome(&config);
    let job = &outcome.summary.jobs[0];
    assert_eq!(job.finished_ns, Some(3_288.0));
    assert_eq!(numbers(&outcome, "ranks", "host_blocked_ns"), [120.0, 0.0]);
    assert_eq!(numbers(&outcome, "ranks", "host_sending_ns"), [2_048.0, 0.0]);
    assert_near(job.blocked_share, 60.0 / 3_288.0, 1e-9, "blocked");
}

#[test]
fn a_large_message_waits_for_its_receive() {
    let send =
        trace(&[&[Operation::send(1, 4_096, 0)], &[Operation::calc(5_000), Operation::recv(0, 4_096, 0)]]);
    let mut eager = job(send, &[0, 1]);
    // The message arrives at 120 + 2048 ns, and the rank receives it at 5000 ns.
    assert_eq!(summary(&setting(eager.clone())).finished_ns, Some(5_000.0));
    eager.parameters.rendezvous_above = 4_095;
    let job = summary(&setting(eager.clone()));
    // The request has arrived before. The permission of 64 bytes takes 120 + 32 ns, and the data then take
    // 120 + 2048 ns.
    assert_eq!(job.finished_ns, Some(7_320.0));
    assert_eq!((job.messages, job.bytes), (1, 4_096), "requests and permissions do not count");
    eager.parameters.rendezvous_above = 4_096;
    assert_eq!(summary(&setting(eager)).finished_ns, Some(5_000.0));
}

#[test]
fn messages_on_one_host_take_no_time_and_overheads_occupy_ranks() {
    let mut near = job(exchange(), &[2, 2]);
    let job = summary(&setting(near.clone()));
    assert_eq!((job.hosts, job.messages, job.finished_ns), (1, 0, Some(1_500.0)));
    assert_eq!((job.message_slowdown_mean, job.message_slowdown_p99), (None, None));
    // Each rank handles two messages, for 100 ns each. The phases of the job take 1000 + 100, 100 + 500 +
    // 100, and 100 ns.
    near.parameters.overhead = Time::from_ns(100);
    let job = summary(&setting(near));
    assert_eq!(job.finished_ns, Some(1_900.0));
    assert_near(job.busy_share, (1_200.0 + 700.0) / 2.0 / 1_900.0, 1e-9, "busy");
    assert_near(job.computing_share, 750.0 / 1_900.0, 1e-9, "computing");
}

#[test]
fn a_job_that_does_not_finish_says_what_is_left() {
    let mut config = setting(job(exchange(), &[0, 1]));
    // The run ends before the answer has been sent.
    config.duration = us(3);
    let outcome = star_outcome(&config);
    let job = &outcome.summary.jobs[0];
    assert_eq!((job.finished_ns, job.slowdown, job.span_ns), (None, None, 3_000.0));
    // Rank 0 waits for the answer, and rank 1 has not finished any operation.
    assert_eq!(job.unfinished_operations, 4);
    assert_eq!(numbers(&outcome, "ranks", "host_sending_ns"), [2_000.0, 0.0]);
    let warnings = outcome.warnings.join("\n");
    assert!(warnings.contains("job `job` did not finish: 4 operations were left"), "{warnings}");
}
