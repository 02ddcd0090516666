//! The same scenario and seed give the same outcome in every run, in debug and release builds.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_fabric::config::Config;
use silvan_fabric::outcome::Outcome;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Arrivals, Pattern};

fn busy() -> (Topology, Config) {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 3, "n": 2}"#);
    let mut config = config(us(3_000));
    config.congestion = ib_cc();
    config.switch.buffer = silvan_engine::Bytes(16_384);
    config.warmup = us(500);
    let mut uniform = pattern(Pattern::Uniform { include_self: false });
    uniform.rate = Some(silvan_engine::Rate::from_gbit(6));
    uniform.arrivals = Arrivals::Poisson;
    let mut hot = pattern(Pattern::Hotspots { to: vec!["H5".into()] });
    hot.hosts = Some(vec!["H1".into(), "H2".into(), "H7".into()]);
    config.traffic = vec![uniform, hot];
    config.flows = vec![flow("H3", "H8")];
    (topology, config)
}

#[test]
fn two_runs_agree_exactly_and_another_seed_does_not() {
    let (topology, mut config) = busy();
    let first = run(&topology, &config);
    assert_eq!(first, run(&topology, &config));
    config.seed = 2;
    assert_ne!(first, run(&topology, &config));
}

#[test]
fn slices_of_any_size_give_the_same_outcome() {
    let (topology, config) = busy();
    let sliced = |events| -> Outcome {
        let tables = tables(&topology);
        let mut simulation = silvan_fabric::simulation::Simulation::new(&topology, &tables, &config).unwrap();
        while !simulation.advance(events).unwrap().done {}
        simulation.finish().unwrap()
    };
    assert_eq!(sliced(1), sliced(1_000_000));
}
