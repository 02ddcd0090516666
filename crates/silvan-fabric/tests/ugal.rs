//! UGAL-L selects minimal routes without congestion, and routes through other groups if all hosts of a
//! group send to the same group.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::{self, *};
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::{Assignment, Config};
use silvan_fabric::outcome::Summary;
use silvan_fabric::simulation::Simulation;
use silvan_network::routing::RoutingSpec;
use silvan_network::topology::Topology;
use silvan_network::traffic::Pattern;

fn run_by(topology: &Topology, routing: &str, mut config: Config) -> Summary {
    let routing: RoutingSpec = serde_json::from_str(routing).unwrap();
    let lanes = routing.lanes(topology).unwrap().unwrap();
    config.lanes.assignment = Assignment::Routing;
    config.lanes.count = 3;
    config.switch.buffer = Bytes(3 * 65_536);
    config.path_lanes = Some(Arc::new(lanes));
    let tables = routing.compute(topology).unwrap();
    let mut simulation = Simulation::new(topology, &tables, &config).unwrap();
    while !simulation.advance(100_000).unwrap().done {}
    simulation.finish().unwrap().summary
}

fn dragonfly() -> Topology {
    topology(r#"{"kind": "dragonfly", "p": 2, "a": 4, "h": 2, "link_rate": "16 Gbit/s"}"#)
}

fn traffic(pattern: Pattern, rate: u64) -> Config {
    let mut config = config(us(600));
    config.warmup = us(300);
    config.host.injection_rate = Some(Rate(rate));
    config.traffic = vec![common::pattern(pattern)];
    config
}

const MINIMAL: &str = r#"{"kind": "minimal"}"#;
const VALIANT: &str = r#"{"kind": "valiant"}"#;
const UGAL: &str = r#"{"kind": "ugal"}"#;

/// Eight hosts of a group send to the next group over a single link. With minimal routes, they share 16
/// Gbit/s.
#[test]
fn it_avoids_a_congested_global_link() {
    let topology = dragonfly();
    let each = |routing| {
        run_by(&topology, routing, traffic(Pattern::Shift { by: 8 }, 8_000_000_000)).throughput_gbit_s / 72.0
    };
    let (minimal, valiant, ugal) = (each(MINIMAL), each(VALIANT), each(UGAL));
    assert_near(minimal, 2.0, 0.01, "an eighth of a link");
    assert!(ugal > 0.95 * valiant && ugal > 2.0 * minimal, "{minimal} {valiant} {ugal}");
}

/// Sparse uniform traffic uses minimal routes, so it is nearly as fast as with minimal routing; Valiant's
/// routes have one more global link.
#[test]
fn it_uses_minimal_routes_at_low_load() {
    let topology = dragonfly();
    let latency = |routing| {
        let summary =
            run_by(&topology, routing, traffic(Pattern::Uniform { include_self: false }, 1_000_000_000));
        summary.latency.iter().find(|row| row.since == "injection").unwrap().mean_ns
    };
    let (minimal, valiant, ugal) = (latency(MINIMAL), latency(VALIANT), latency(UGAL));
    assert!(ugal < 1.1 * minimal && valiant > 1.2 * minimal, "{minimal} {valiant} {ugal}");
}

/// With a bias that no queue reaches, all packets use minimal routes: the throughput is that of minimal
/// routing, although packets use another lane in the last group.
#[test]
fn a_large_bias_forces_minimal_routes() {
    let topology = dragonfly();
    let rate = |routing: &str| {
        run_by(&topology, routing, traffic(Pattern::Uniform { include_self: false }, 4_000_000_000))
            .throughput_gbit_s
    };
    assert_near(rate(r#"{"kind": "ugal", "bias": "1 GiB"}"#), rate(MINIMAL), 1e-9, "throughput");
    let summary = run_by(
        &topology,
        r#"{"kind": "ugal", "bias": "1 GiB"}"#,
        traffic(Pattern::Shift { by: 8 }, 8_000_000_000),
    );
    assert_eq!(summary.reordering.unwrap().late_packets, 0);
}
