//! Runs of scenarios to their end.

use std::path::Path;

use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::Outcome;
use silvan_scenario::Scenario;

/// Runs a scenario to its end. The outcome excludes what depends on the scheduler.
pub fn finish(text: &str, scheduler: Scheduler) -> Outcome {
    let mut scenario = Scenario::from_toml(text, "a.toml", Path::new("."), &[]).unwrap();
    scenario.spec.scheduler = scheduler;
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(1_000_000).unwrap().done {}
    simulation.finish().unwrap().regardless_of_scheduler()
}

/// The outcome, which must be the same with both schedulers.
pub fn outcome(text: &str) -> Outcome {
    let binned = finish(text, Scheduler::BinnedIfPossible);
    let ordered = finish(text, Scheduler::EventOrdered);
    assert_eq!(binned, ordered, "the schedulers give different results");
    binned
}
