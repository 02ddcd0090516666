//! Jobs whose traces are in a temporary file give the same results as those in memory, also with threads and after the state
//! was saved and restored.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use crate::jobs::job;
use silvan_engine::Bytes;
use silvan_engine::random::Stream;
use silvan_engine::saved::{Reader, Saved, Writer};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::Simulation;
use silvan_network::topology::Topology;
use silvan_trace::trace::{ANY, When};
use silvan_trace::{Operation, Trace, TraceBuilder};

const RANKS: u32 = 12;

/// Ranks that compute and exchange messages with both neighbors and with others. Some receives accept any source, and some
/// operations wait for one far before them.
fn trace(kept: u64) -> Arc<Trace> {
    let mut build = TraceBuilder::keep(RANKS.into(), 1 << 20, kept).unwrap();
    let mut random = Stream::new(7, "shifts", 0);
    let shifts: Vec<u32> = (0..60).map(|_| 1 + random.below(RANKS - 1)).collect();
    for rank in 0..RANKS {
        let mut random = Stream::new(9, "rank", rank.into());
        for (round, &shift) in (0..).zip(&shifts) {
            let (to, from) = ((rank + shift) % RANKS, (rank + RANKS - shift) % RANKS);
            let bytes = if round % 4 == 0 { 40_000 } else { 1_500 };
            let from = if round % 5 == 0 { ANY } else { from };
            let calc = build.push(rank, Operation::calc(u64::from(random.below(3_000)))).unwrap();
            let send = build.push(rank, Operation::send(to, bytes, round)).unwrap();
            let recv = build.push(rank, Operation::recv(from, bytes, round)).unwrap();
            build.wait(rank, send, calc, When::Finish).unwrap();
            build.wait(rank, recv, calc, When::Start).unwrap();
            for back in [3, 120].into_iter().filter(|&back| back <= calc) {
                build.wait(rank, calc, send - back, When::Finish).unwrap();
                build.wait(rank, calc, recv - back, When::Finish).unwrap();
            }
        }
        build.close(rank).unwrap();
    }
    let trace = build.finish().unwrap();
    assert_eq!(trace.is_stored(), kept == 0);
    Arc::new(trace)
}

fn network() -> Topology {
    topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2}"#)
}

fn config_of(trace: Arc<Trace>, threads: u16) -> Config {
    let mut config = config(us(3_000));
    config.congestion = ib_cc();
    config.threads = threads;
    let mut job = job(trace, &Vec::from_iter(0..RANKS));
    job.parameters.rendezvous_above = 8_192;
    job.parameters.overhead = silvan_engine::Time::from_ns(100);
    config.jobs = vec![job];
    config.switch.buffer = Bytes(32_768);
    config
}

fn outcome(config: &Config) -> Outcome {
    let network = network();
    let mut simulation = Simulation::new(&network, &tables(&network), config).unwrap();
    while !simulation.advance(5_000).unwrap().done {}
    simulation.finish().unwrap()
}

/// Runs one simulation for some time, and continues its state with another one.
fn continued(first: &Config, second: &Config) -> Outcome {
    let network = network();
    let tables = tables(&network);
    let mut simulation = Simulation::new(&network, &tables, first).unwrap();
    assert!(!simulation.advance(5_000).unwrap().done);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    simulation.save(&mut writer);
    writer.finish().unwrap();
    let mut other = Simulation::new(&network, &tables, second).unwrap();
    other.restore(&mut Reader::new(&bytes[..])).unwrap();
    other.check_restored().unwrap();
    while !other.advance(5_000).unwrap().done {}
    other.finish().unwrap()
}

#[test]
fn jobs_do_not_depend_on_where_their_traces_are() {
    let [memory, stored] = [u64::MAX, 0].map(trace);
    let expected = outcome(&config_of(Arc::clone(&memory), 1));
    let job = &expected.summary.jobs[0];
    assert!(job.finished_ns.is_some() && job.messages == 720, "{job:?}");
    for threads in [1, 2, 3] {
        let [memory, stored] = [&memory, &stored].map(|trace| config_of(Arc::clone(trace), threads));
        assert_eq!(outcome(&memory), outcome(&stored), "{threads} threads");
        assert_eq!(continued(&memory, &stored), outcome(&memory), "{threads} threads");
        assert_eq!(continued(&stored, &memory), outcome(&memory), "{threads} threads");
    }
    assert_eq!(outcome(&config_of(stored, 1)), expected);
}
