//! Skipping of repeated work gives the results of the whole run.

use std::path::Path;

use silvan_fabric::outcome::{Outcome, SkippingSummary};
use silvan_fabric::simulation::Simulation;
use silvan_scenario::Scenario;

/// All-reduces by ring of 16 hosts.
const RING: &str = r#"
name = "ring"
duration = "1 s"
scheduler = "event-ordered"

[topology]
kind = "two-level-fat-tree"
leaves = 4
spines = 4
hosts_per_leaf = 4

[measure]
interval = "1 s"

[[job]]
name = "all-reduce"
algorithms = { all_reduce = "ring" }

[job.program]
kind = "collective"
operation = "all-reduce"
ranks = 16
bytes = "256 KiB"
iterations = 100
"#;

fn simulation(settings: &[(&str, &str)]) -> Simulation {
    let settings: Vec<(String, String)> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Scenario::from_toml(RING, "ring.toml", Path::new("."), &settings).unwrap().simulation().unwrap()
}

fn outcome(mut simulation: Simulation) -> Outcome {
    while !simulation.advance(100_000).unwrap().done {}
    simulation.finish().unwrap()
}

/// Runs a scenario with skipping and without. The results are equal apart from what was skipped, which is returned.
fn compared(settings: &[(&str, &str)]) -> SkippingSummary {
    let whole = outcome(simulation(settings));
    let skips = [settings, &[("engine.skip", "true")]].concat();
    let skipped = outcome(simulation(&skips));
    let summary = skipped.summary.skipping.clone().unwrap();
    assert_eq!(
        skipped.summary.skipping.as_ref().map(|all| all.intervals.len()),
        Some(summary.intervals.len())
    );
    let skipped = skipped.regardless_of_skipping();
    assert_eq!(whole.summary, skipped.summary, "{settings:?}");
    assert_eq!(format!("{:?}", whole.tables), format!("{:?}", skipped.tables), "{settings:?}");
    assert_eq!((whole.account, whole.warnings), (skipped.account, skipped.warnings), "{settings:?}");
    summary
}

#[test]
fn a_hundred_operations_take_the_time_of_two() {
    let skipped = compared(&[]);
    // Rounds repeat within an operation, and operations repeat.
    assert!(skipped.intervals.len() > 1 && skipped.boundaries < 50, "{skipped:?}");
    for interval in &skipped.intervals {
        // A period may contain several rounds or operations, because arbiters take turns.
        let whole = interval.to_ns - interval.from_ns;
        let period = interval.from_ns - interval.repeats_from_ns;
        assert!((whole - period * interval.periods as f64).abs() < 1e-3, "{skipped:?}");
    }
    let last = &skipped.intervals[skipped.intervals.len() - 1];
    assert!(skipped.skipped_ns > 0.985 * last.to_ns, "{skipped:?}");
}

/// In one operation, only rounds repeat, with the same collective operation before and after.
#[test]
fn rounds_of_one_operation_are_skipped() {
    let settings: [&[(&str, &str)]; 3] = [
        &[],
        &[("job.0.program.operation", "all-gather")],
        // Groups of 8 ranks on the same links have no rounds without others.
        &[("job.0.program.groups", "2"), ("job.0.program.bytes", "4 MiB")],
    ];
    for settings in settings {
        let all = [settings, &[("job.0.program.iterations", "1")]].concat();
        let skipped = compared(&all);
        assert!(skipped.skipped_ns > 0.0, "{settings:?}: {skipped:?}");
    }
}

#[test]
fn samples_and_congestion_control_do_not_change() {
    assert!(compared(&[("measure.interval", "5 ms")]).intervals.len() > 1, "once per interval");
    let settings: [&[(&str, &str)]; 6] = [
        &[("job.0.program.compute", "20 us"), ("job.0.overhead", "500 ns")],
        &[("job.0.rendezvous_above", "4 KiB")],
        &[("congestion.mechanism", "dcqcn"), ("measure.interval", "10 ms")],
        &[("congestion.mechanism", "ib-cc")],
        &[("job.0.program.operation", "all-gather"), ("job.0.program.groups", "2")],
        &[("job.0.placement", "round-robin"), ("topology.link_rate", "100 Gbit/s")],
    ];
    for settings in settings {
        let skipped = compared(settings);
        assert!(skipped.skipped_periods > 0, "{settings:?}: {skipped:?}");
    }
}

#[test]
fn equal_hashes_of_different_states_skip_nothing_wrong() {
    let whole = outcome(simulation(&[]));
    let mut colliding = simulation(&[("engine.skip", "true")]);
    colliding.collide_hashes();
    let skipped = outcome(colliding);
    assert!(skipped.summary.skipping.as_ref().is_some_and(|skipping| skipping.skipped_periods > 0));
    assert_eq!(whole.summary, skipped.regardless_of_skipping().summary);
}

/// All-to-all operations in which flows meet, so that switches mark packets at random.
#[test]
fn random_marks_end_skipping() {
    let meeting = [
        ("topology.spines", "1"),
        ("congestion.mechanism", "dcqcn"),
        ("congestion.marking", "{ kind = \"red\", min = \"2 KiB\", max = \"40 KiB\", percent = 20 }"),
        ("job.0.program.operation", "all-to-all"),
        ("job.0.program.iterations", "10"),
    ];
    assert!(outcome(simulation(&meeting)).summary.fecn_marks > 0);
    let skipped = compared(&meeting);
    assert_eq!((skipped.equal, skipped.skipped_periods, skipped.obstacle), (0, 0, None));
}

#[test]
fn what_acts_from_outside_prevents_skipping() {
    let obstacle = |settings: &[(&str, &str)]| {
        let skipped = compared(settings);
        assert_eq!(skipped.skipped_periods, 0);
        skipped.obstacle.unwrap()
    };
    let event = (
        "event",
        "[{ kind = \"rate\", links = [\"L1.1:5\"], rate = \"8 Gbit/s\", start = \"3 ms\", lasts = \"1 ms\" }]",
    );
    assert!(obstacle(&[event]).contains("change during the run"));
    let flow = ("flow", "[{ from = \"H1\", to = \"H9\", rate = \"1 Gbit/s\" }]");
    assert!(obstacle(&[flow, ("duration", "10 ms")]).contains("traffic other than jobs"));
    let once = [("job.0.program.iterations", "1"), ("job.0.program.operation", "broadcast")];
    assert!(obstacle(&once).contains("no rank"));
}
