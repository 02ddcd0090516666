//! Runs of scenarios to their end.

use std::path::Path;

use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::Engine;
use silvan_scenario::Scenario;

/// The outcome of a scenario.
pub fn finish(text: &str, engine: Engine) -> Outcome {
    let scenario = Scenario::from_toml(text, "a.toml", Path::new("."), &[]).unwrap();
    let mut simulation = scenario.simulation_with(engine).unwrap();
    while !simulation.advance(1_000_000).unwrap().done {}
    simulation.finish().unwrap()
}

/// The outcome, which must be the same with both schedulers.
pub fn outcome(text: &str) -> Outcome {
    let fastest = finish(text, Engine::Fastest);
    let mut general = finish(text, Engine::General);
    general.summary.events = fastest.summary.events;
    assert_eq!(fastest, general, "the schedulers give different results");
    fastest
}
