//! A run with stored results, which both debug and release builds must give. The Python tests compare the
//! release build with the same file.

use std::path::{Path, PathBuf};

use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::Outcome;
use silvan_scenario::{Scenario, Threads};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden")
}

fn busy(threads: u16, scheduler: Scheduler, slice: u64) -> Outcome {
    let mut scenario = Scenario::load(folder().join("busy.toml"), &[]).unwrap();
    scenario.spec.threads = Threads::Count(threads);
    scenario.spec.scheduler = scheduler;
    let mut simulation = scenario.simulation().unwrap();
    assert!(simulation.partitions().unwrap() > usize::from(threads > 1), "the test needs several partitions");
    while !simulation.advance(slice).unwrap().done {}
    simulation.finish().unwrap()
}

/// The results are the same with any number of threads, time slices of any length, and both schedulers.
#[test]
fn the_busy_run_is_the_same_on_any_number_of_threads() {
    let one = busy(1, Scheduler::Binned, 1 << 16);
    let text = |outcome: &Outcome| serde_json::to_string_pretty(&outcome.summary).unwrap();
    for (threads, slice) in [(2, 1_000), (3, 77_777), (7, u64::MAX)] {
        let other = busy(threads, Scheduler::Binned, slice);
        assert_eq!(text(&other), text(&one), "{threads} threads");
        assert_eq!((&other.tables, &other.account), (&one.tables, &one.account), "{threads} threads");
    }
    let events = busy(1, Scheduler::EventOrdered, 1 << 16).summary.events;
    let one = one.regardless_of_scheduler();
    for (threads, slice) in [(1, 1 << 16), (7, 1_000)] {
        let general = busy(threads, Scheduler::EventOrdered, slice);
        assert_eq!(general.summary.events, events, "{threads} threads");
        let general = general.regardless_of_scheduler();
        assert_eq!(text(&general), text(&one), "{threads} threads");
        assert_eq!((&general.tables, &general.account), (&one.tables, &one.account), "{threads} threads");
    }
}

#[test]
fn the_busy_run_gives_the_pinned_summary() {
    let summary = serde_json::to_string_pretty(&busy(1, Scheduler::Binned, 1 << 16).summary).unwrap() + "\n";
    let file = folder().join("busy.json");
    if std::env::var_os("SILVAN_UPDATE").is_some() {
        std::fs::write(&file, &summary).unwrap();
    }
    let pinned = std::fs::read_to_string(&file).unwrap();
    for (number, (pinned, now)) in pinned.lines().zip(summary.lines()).enumerate() {
        assert_eq!(
            pinned,
            now,
            "busy.json:{}: the run changed. If it should have, SILVAN_UPDATE=1 cargo test -p \
             silvan-scenario golden updates it; state the reason in the commit",
            number + 1
        );
    }
    assert_eq!(pinned.lines().count(), summary.lines().count());
}
