//! Results are equal for any number of threads, for every switch architecture and everything that crosses
//! links: packets, credits, notifications of special queues, reports to sources, announcements of flows,
//! packet numbers and detours.

use std::path::Path;

use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::{JobSummary, Outcome};
use silvan_scenario::{Scenario, Threads};

const NETWORK: &str = r#"
duration = "60 us"
warmup = "10 us"
topology = { kind = "k-ary-n-tree", k = 4, n = 2, link_rate = "40 Gbit/s", link_delay = "6 ns" }
measure = { interval = "9 us" }
[[traffic]]
name = "forest"
pattern = { kind = "forest", hotspots = 2, contributors = 40, victims = 60 }
"#;

const ANNOUNCED: &str = r#"
    seed = 400068
    duration = "50 us"
    topology = { kind = "k-ary-n-tree", k = 3, n = 2 }
    switch = { memory = "divided", queue_buffer = "2.1 KB" }
    adaptive_routing = {}
    traffic = [{ pattern = { kind = "uniform" } }]
"#;

const SLOW: &str = r#"
    duration = "100 us"
    topology = { kind = "star" }
    host = { drain_rate = "1 Gbit/s" }
    congestion = { marking = { kind = "fecn", threshold = 15, fill = "sum" }, reaction = { kind = "cct" } }
    measure = { interval = "1 us" }
    flow = [{ from = "H1", to = "H2" }, { from = "H2", to = "H3" }]
"#;

const TORUS: &str = r#"
duration = "40 us"
topology = { kind = "torus", sizes = [3, 4] }
routing = { kind = "dimension-order" }
lanes = { count = 2, assignment = "routing" }
measure = { interval = "9 us" }
[[traffic]]
name = "all"
pattern = { kind = "uniform" }
"#;

const DRAGONFLY: &str = r#"
duration = "40 us"
topology = { kind = "dragonfly", a = 3, p = 2, h = 1 }
routing = { kind = "ugal" }
lanes = { count = 4, assignment = "routing" }
measure = { interval = "9 us" }
[[traffic]]
name = "all"
pattern = { kind = "uniform" }
"#;

/// Two jobs that share hosts with each other and with other traffic. One of them ends before the run does.
const JOBS: &str = r#"
duration = "120 us"
end_with_jobs = false
topology = { kind = "k-ary-n-tree", k = 4, n = 2, link_rate = "40 Gbit/s", link_delay = "6 ns" }
measure = { interval = "9 us" }
[[traffic]]
name = "all"
rate = "6 Gbit/s"
pattern = { kind = "uniform" }
[[job]]
name = "short"
placement = "round-robin"
program = { kind = "collective", operation = "all-to-all", ranks = 6, bytes = "1 KiB" }
overhead = "300 ns"
rendezvous_above = "600 B"
[[job]]
name = "long"
hosts = ["H3", "H9", "H14", "H6", "H16"]
ranks_per_host = 3
sharing = "cyclic"
start = "1500 ns"
program = { kind = "collective", operation = "all-reduce", ranks = 15, bytes = "6 KiB", iterations = 12 }
"#;

/// Traffic that starts while other packets are in flight. The last traffic starts one delivered packet after
/// the previous traffic.
const PHASES: &str = r#"
duration = "60 us"
warmup = "10 us"
topology = { kind = "k-ary-n-tree", k = 4, n = 2, link_rate = "40 Gbit/s", link_delay = "6 ns" }
measure = { interval = "9 us" }
[[flow]]
from = "H2"
to = "H15"
start_after_packets = 500
total = "40 KiB"
[[traffic]]
name = "all"
message = "64 B"
message_max = "3 KiB"
rate = "30 Gbit/s"
pattern = { kind = "uniform" }
[[traffic]]
name = "burst"
start_after_packets = 300
packets_per_host = 20
hosts = ["H1", "H4", "H6", "H11", "H12", "H16"]
pattern = { kind = "hotspots", to = ["H8"] }
[[traffic]]
name = "more"
start_after_packets = 301
rate = "10 Gbit/s"
pattern = { kind = "hotspots", to = ["H5"] }
"#;

/// A key and its value.
type Setting = (&'static str, &'static str);

/// A description of each case, its network, and the changed settings.
const CASES: [(&str, &str, &[Setting]); 34] = [
    ("binned scheduler", NETWORK, &[("congestion.mechanism", "ib-cc")]),
    ("special queues, round robin", NETWORK, &[("congestion.mechanism", "ecocc")]),
    (
        "special queues, rates of roots",
        NETWORK,
        &[
            ("congestion.mechanism", "hfdi"),
            ("congestion.isolation", r#"{ kind = "special-queues", arbitration = "weighted" }"#),
        ],
    ),
    ("special queues, iSLIP", NETWORK, &[("congestion.mechanism", "fbicm")]),
    ("special queues and throttling, iSLIP", NETWORK, &[("congestion.mechanism", "ccfit")]),
    (
        "credits of destinations",
        NETWORK,
        &[("switch.queues", "per-destination"), ("switch.queue_buffer", "8 KiB")],
    ),
    ("on/off flow control", NETWORK, &[("flow_control.kind", "on-off")]),
    ("pause frames", NETWORK, &[("flow_control.kind", "pfc")]),
    (
        "pause frames, shared memory",
        NETWORK,
        &[("flow_control", r#"{ kind = "pfc", shared = { alpha_shift = 5 } }"#)],
    ),
    ("credits at times", NETWORK, &[("flow_control", r#"{ kind = "credits", return_spacing = "700 ns" }"#)]),
    (
        "credits at times and special queues",
        NETWORK,
        &[
            ("flow_control", r#"{ kind = "credits", return_spacing = "700 ns" }"#),
            ("congestion.mechanism", "ecocc"),
        ],
    ),
    (
        "shared credits",
        NETWORK,
        &[
            ("flow_control", r#"{ kind = "credits", shared = { alpha_shift = 0 } }"#),
            ("lanes", "{ count = 2, control = 1 }"),
            ("congestion.mechanism", "ib-cc"),
        ],
    ),
    (
        "errors of links",
        NETWORK,
        &[
            ("link", "{ error_rate_ppb = 20_000_000, retry = { frames = 8 } }"),
            ("congestion.mechanism", "ib-cc"),
        ],
    ),
    ("CIOQ and two marking bits", NETWORK, &[("congestion.mechanism", "mvcm")]),
    ("reports to sources", NETWORK, &[("congestion.mechanism", "qcn")]),
    (
        "announced flows, first come, first served",
        NETWORK,
        &[("adaptive_routing.heuristic", "flow-count"), ("switch.arbitration", "fcfs")],
    ),
    (
        "explicit rates",
        NETWORK,
        &[
            ("congestion.reaction", r#"{ kind = "explicit-rate" }"#),
            ("adaptive_routing.heuristic", "flow-count"),
        ],
    ),
    // Without marking, there are no notifications, so announcements are the smallest packets.
    ("adaptive flows, divided memory", ANNOUNCED, &[]),
    ("adaptive packets", NETWORK, &[("adaptive_routing.per", "packet")]),
    ("lanes of the routing", TORUS, &[]),
    ("detours", DRAGONFLY, &[]),
    ("jobs, binned scheduler", JOBS, &[("congestion.mechanism", "ib-cc")]),
    ("jobs that end the run", JOBS, &[("end_with_jobs", "true"), ("duration", "2 ms")]),
    ("jobs and special queues", JOBS, &[("congestion.mechanism", "ecocc")]),
    ("jobs, host buffers and two marking bits", JOBS, &[("congestion.mechanism", "mvcm")]),
    ("jobs and adaptive packets", JOBS, &[("adaptive_routing.per", "packet")]),
    ("jobs and hosts that drain slowly", JOBS, &[("host.drain_rate", "30 Gbit/s")]),
    ("traffic that waits for deliveries", PHASES, &[]),
    ("the same and hosts that drain slowly", PHASES, &[("host.drain_rate", "20 Gbit/s")]),
    ("the same and CIOQ with two marking bits", PHASES, &[("congestion.mechanism", "mvcm")]),
    ("the same and special queues", PHASES, &[("congestion.mechanism", "ecocc")]),
    ("the same and errors of links", PHASES, &[("link", "{ error_rate_ppb = 50_000_000, retry = {} }")]),
    ("the same and adaptive packets", PHASES, &[("adaptive_routing.per", "packet")]),
    ("the same and many samples", PHASES, &[("measure.interval", "13 ns"), ("duration", "20 us")]),
];

fn run(scenario: &Scenario, threads: u16, scheduler: Scheduler) -> Outcome {
    let mut scenario = scenario.clone();
    scenario.spec.scheduler = scheduler;
    scenario.spec.threads = Threads::Count(threads);
    let mut simulation = scenario.simulation().unwrap();
    let parts = simulation.partitions().unwrap();
    assert_eq!(parts > 1, threads > 1, "{threads} threads, {parts} partitions");
    while !simulation.advance(9_999).unwrap().done {}
    simulation.finish().unwrap()
}

/// Runs a given number of partitions one after another on this thread, and records their work.
fn run_in_turn(scenario: &Scenario, partitions: u16) -> Outcome {
    let mut scenario = scenario.clone();
    scenario.spec.threads = Threads::Count(partitions);
    scenario.spec.scheduler = Scheduler::BinnedIfPossible;
    let mut simulation = scenario.simulation().unwrap();
    simulation.record_steps();
    while !simulation.advance(9_999).unwrap().done {}
    let steps = simulation.steps().unwrap();
    assert!(steps.work_ns().flatten().any(|&time| time > 0), "times are recorded");
    assert!(steps.events().flatten().any(|&events| events > 0), "events are recorded");
    assert_eq!(steps.neighbors().len(), usize::from(partitions));
    for (me, near) in steps.neighbors().iter().enumerate() {
        assert!(!near.is_empty() && near.iter().all(|&other| usize::from(other) != me), "{me}: {near:?}");
    }
    let count: u32 = steps.rounds().iter().sum();
    assert_eq!(count as usize, steps.events().count(), "each step belongs to a round");
    simulation.finish().unwrap()
}

#[test]
fn every_network_gives_the_same_results_on_any_number_of_threads() {
    for (what, network, keys) in CASES {
        let keys: Vec<(String, String)> =
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let scenario = Scenario::from_toml(network, "threads.toml", Path::new("."), &keys)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let one = run(&scenario, 1, Scheduler::BinnedIfPossible);
        assert!(one.summary.packets_delivered > 100, "{what}: something happens");
        let ends = keys.iter().any(|(key, _)| key == "end_with_jobs");
        let is_told = |job: &JobSummary| (ends || job.job == "short") == job.finished_ns.is_some();
        assert!(one.summary.jobs.iter().all(is_told), "{what}: {:?}", one.summary.jobs);
        assert!(one.summary.triggers.iter().all(|trigger| trigger.started_ns.is_some()), "{what}");
        for threads in [2, 3, 5, 7] {
            assert!(run(&scenario, threads, Scheduler::BinnedIfPossible) == one, "{what}: {threads} threads");
        }
        assert!(run_in_turn(&scenario, 3) == one, "{what}: partitions in turn");
    }
}

/// Settings for which all times are whole nanoseconds.
const EXACT: &str = r#"
duration = "40 us"
topology = { kind = "k-ary-n-tree", k = 4, n = 2, link_rate = "8 Gbit/s", link_delay = "5 ns" }
switch = { latency = "100 ns" }
[[flow]]
from = "H1"
to = "H16"
[[flow]]
from = "H5"
to = "H2"
[[flow]]
from = "H14"
to = "H3"
start_after_packets = 9
"#;

#[test]
fn traffic_starts_at_the_instant_of_a_sample() {
    let scenario = |interval: &str| {
        let keys = [("measure.interval".to_owned(), interval.to_owned())];
        Scenario::from_toml(EXACT, "threads.toml", Path::new("."), &keys).unwrap()
    };
    let begins = |outcome: &Outcome| outcome.summary.triggers[0].started_ns.unwrap();
    let instant = begins(&run(&scenario("40 us"), 1, Scheduler::BinnedIfPossible));
    let looked_at = scenario(&format!("{instant} ns"));
    let one = run(&looked_at, 1, Scheduler::BinnedIfPossible);
    assert_eq!(begins(&one), instant);
    for threads in [2, 3] {
        assert!(run(&looked_at, threads, Scheduler::BinnedIfPossible) == one, "{threads} threads");
    }
}

/// Packets are marked early, so that control packets and data share full buffers.
#[test]
fn the_binned_scheduler_knows_the_return_of_credits_from_slow_hosts() {
    let scenario = Scenario::from_toml(SLOW, "slow.toml", Path::new("."), &[]).unwrap();
    let [binned, ordered] = [Scheduler::Binned, Scheduler::EventOrdered].map(|one| run(&scenario, 1, one));
    assert!(binned.summary.becn_received > 0);
    assert!(binned.regardless_of_scheduler() == ordered.regardless_of_scheduler());
}
