//! Runs that record departures: the results do not change, and the record is complete.

use silvan_engine::Time;
use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::{NOT_RECORDED, RecordPlan, RunRecord};
use silvan_scenario::Scenario;

const ALL: RecordPlan = RecordPlan { from: Time::ZERO, until: Time::NEVER, most: usize::MAX };

/// An incast behind which another flow waits, on two switches.
const INCAST: &str = r#"
duration = "100 us"
topology = { kind = "two-level-fat-tree", leaves = 2, spines = 1, hosts_per_leaf = 4 }
measure = { interval = "10 us" }
flow = [
    { name = "a", from = "H1", to = "H5" },
    { name = "b", from = "H2", to = "H5" },
    { name = "c", from = "H6", to = "H5" },
    { name = "victim", from = "H3", to = "H7" },
]
"#;

fn scenario(more: &str) -> Scenario {
    Scenario::from_toml(&format!("{INCAST}{more}"), "test", std::path::Path::new("."), &[]).unwrap()
}

fn recorded(scenario: &Scenario, plan: RecordPlan) -> (Outcome, RunRecord) {
    let mut simulation = scenario.recorded(plan).unwrap();
    while !simulation.advance(10_000).unwrap().done {}
    let recording = simulation.take_recording();
    (simulation.finish().unwrap(), recording)
}

fn plain(scenario: &Scenario) -> Outcome {
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(10_000).unwrap().done {}
    simulation.finish().unwrap()
}

const MODELS: [&str; 7] = [
    "",
    "flow_control = { kind = \"pfc\" }",
    "congestion = { mechanism = \"dcqcn\" }",
    "congestion = { mechanism = \"ccfit\" }",
    "switch = { architecture = \"cioq\" }",
    "link = { error_rate_ppb = 20000, retry = {} }",
    "event = [{ kind = \"down\", links = [\"H7\"], start = \"20 us\", lasts = \"10 us\" }]\n\
     recovery = { kind = \"selective-repeat\", timeout = \"20 us\" }",
];

#[test]
fn a_record_changes_no_result_and_has_every_hop() {
    for model in MODELS {
        let scenario = scenario(model);
        let (outcome, recording) = recorded(&scenario, ALL);
        let base = plain(&scenario).regardless_of_scheduler();
        assert_eq!(base, outcome.clone().regardless_of_scheduler(), "{model}");
        let hops = recording.hops.iter().filter(|hop| hop.packet != NOT_RECORDED).count() as u64;
        let repeated = if model.contains("retry") { hops - outcome.summary.packet_hops } else { 0 };
        assert_eq!(hops, outcome.summary.packet_hops + repeated, "{model}");
    }
}

fn assert_same<T: std::fmt::Debug + PartialEq>(model: &str, one: &[T], other: &[T]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other, "{model}");
    }
    assert_eq!(one.len(), other.len(), "{model}: {:?}", one.iter().chain(other).last());
}

#[test]
fn both_schedulers_record_the_same() {
    let more = [
        "congestion = { mechanism = \"qcn\" }",
        "lanes = { count = 2, control = 1, control_priority = true }\n\
         switch = { arbitration = \"fcfs\", trimming = { queue = \"8 kB\" } }\n\
         congestion = { reaction = { kind = \"nscc\" }, notification = \"ack-each\" }",
        "congestion = { mechanism = \"ib-cc\" }",
    ];
    let mut binned = 0;
    for model in MODELS.iter().chain(&more) {
        let record = |scheduler| {
            let mut scenario = scenario(model);
            scenario.spec.scheduler = scheduler;
            recorded(&scenario, ALL)
        };
        let (one, other) = (record(Scheduler::BinnedIfPossible), record(Scheduler::EventOrdered));
        binned += usize::from(one.0.summary.scheduler.kind != other.0.summary.scheduler.kind);
        assert_eq!(one.0.regardless_of_scheduler(), other.0.regardless_of_scheduler(), "{model}");
        let (one, other) = (one.1, other.1);
        assert_same(model, &one.hops, &other.hops);
        assert_same(model, &one.packets, &other.packets);
        assert_same(model, &one.drained, &other.drained);
        assert_same(model, &one.losses, &other.losses);
        assert_same(model, &one.reports, &other.reports);
        assert_same(model, &one.waits, &other.waits);
        assert_same(model, &one.channels, &other.channels);
    }
    assert!(binned >= 6, "{binned} models run in bins");
}

#[test]
fn departures_on_a_channel_do_not_overlap_and_follow_arrivals() {
    for model in MODELS {
        let (_, recording) = recorded(&scenario(model), ALL);
        let mut free = vec![Time::ZERO; recording.channels.len()];
        for hop in &recording.hops {
            let free = &mut free[hop.channel as usize];
            assert!(*free <= hop.start && hop.start < hop.end, "{model}: {hop:?}");
            *free = hop.end;
        }
        assert!(recording.drained.iter().all(|drain| drain.arrival <= drain.done), "{model}");
    }
}

#[test]
fn a_record_covers_only_its_time_and_has_a_limit() {
    let scenario = scenario("");
    let plan = RecordPlan { from: Time(20_000_000), until: Time(40_000_000), most: usize::MAX };
    let (_, recording) = recorded(&scenario, plan);
    assert!(recording.hops.iter().all(|hop| hop.end >= plan.from));
    let mut simulation = scenario.recorded(plan).unwrap();
    while !simulation.advance_recording(50, plan.until).unwrap().done {}
    assert!(!simulation.is_record_full());
    assert!(simulation.now() < Time(60_000_000), "the run ends soon after the record");
    let mut simulation = scenario.recorded(RecordPlan { most: 100, ..plan }).unwrap();
    while !simulation.advance_recording(50, plan.until).unwrap().done {}
    assert!(simulation.is_record_full());
    let (full, most) = (simulation.take_recording(), recording.hops.len());
    assert!((50..=100).contains(&full.hops.len()) && full.hops.len() < most, "{}", full.hops.len());
    let end = full.hops.iter().map(|hop| hop.start).max().unwrap();
    let expected: Vec<_> = recording.hops.iter().filter(|hop| hop.start <= end).copied().collect();
    assert_eq!(full.hops, expected, "the record is complete up to its end");
}
