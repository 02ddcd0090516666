//! Runs on tori, meshes, HyperX, dragonflies and dragonfly+. Latencies are compared with closed forms, and
//! deadlock occurs only if lanes are missing.

use std::path::Path;

use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::ModelError;
use silvan_scenario::{Scenario, ScenarioError};

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml(text, "direct.toml", Path::new(""), &[])
}

fn run(text: &str) -> Result<Outcome, ModelError> {
    let scenario = read(text).unwrap_or_else(|error| panic!("{error}"));
    let mut simulation = scenario.simulation().unwrap_or_else(|error| panic!("{error}"));
    while !simulation.advance(1_000_000)?.done {}
    simulation.finish()
}

const TORUS: &str = "topology = { kind = \"torus\", sizes = [4, 5] }\n";
const MESH: &str = "topology = { kind = \"mesh\", sizes = [3, 4], hosts_per_switch = 2 }\n";
const HYPERX: &str = "topology = { kind = \"hyperx\", sizes = [4, 3], hosts_per_switch = 2 }\n";
const DRAGONFLY: &str = "topology = { kind = \"dragonfly\", p = 2, a = 4, h = 2 }\n";
const PLUS: &str = "topology = { kind = \"dragonfly-plus\", p = 2, leaves = 2, spines = 2, h = 2 }\n";

fn lanes(count: u8) -> String {
    format!("lanes = {{ count = {count}, assignment = \"routing\" }}\n")
}

/// Each case has a host to which H1 sends a message, and the number of switches on the route.
#[test]
fn latency_in_an_empty_network_follows_the_number_of_switches() {
    let valiant = "routing = { kind = \"valiant\" }\n";
    for (network, lanes, to, switches) in [
        // The first route needs one hop backwards in a ring of four and in a ring of five, the second one two
        // hops in each ring.
        (TORUS, lanes(2), "H20", 1 + 1 + 1),
        (TORUS, lanes(2), "H11", 1 + 2 + 2),
        (MESH, String::new(), "H24", 1 + 2 + 3),
        (HYPERX, String::new(), "H24", 1 + 1 + 1),
        (HYPERX, String::new(), "H2", 1),
        // The link to group 1 starts at the first switch, and the link to group 8 at the last one. Both
        // end at the first switch of their group.
        (DRAGONFLY, lanes(2), "H9", 2),
        (DRAGONFLY, lanes(2), "H65", 3),
        (DRAGONFLY, lanes(2), "H72", 4),
        (PLUS, lanes(1), "H3", 3),
        (PLUS, lanes(1), "H20", 4),
    ] {
        let text = format!(
            "duration = \"20 us\"\n{network}{lanes}measure = {{ interval = \"20 us\" }}\n\
             [[flow]]\nname = \"F\"\nfrom = \"H1\"\nto = \"{to}\"\ntotal = \"2 KiB\"\n"
        );
        let outcome = run(&text).unwrap();
        // The sum of 2 KiB at 16 Gbit/s, 20 ns for each link, and 100 ns for each switch.
        let expected = 1024.0 + 20.0 * f64::from(switches + 1) + 100.0 * f64::from(switches);
        let found = outcome.summary.flows[0].completed_ns.unwrap();
        assert!((found as f64 - expected).abs() < 1.0, "{network}{to}: {found} ns, not {expected}");
    }
    // A route through a third group has two global links, with local links before, between and after
    // them.
    let text = format!(
        "duration = \"20 us\"\n{DRAGONFLY}{}{valiant}measure = {{ interval = \"20 us\" }}\n\
         [[flow]]\nname = \"F\"\nfrom = \"H1\"\nto = \"H72\"\ntotal = \"2 KiB\"\n",
        lanes(3)
    );
    let found = run(&text).unwrap().summary.flows[0].completed_ns.unwrap() as f64;
    let switches = (found - 1024.0 - 20.0) / 120.0;
    assert!((4.0..=6.0).contains(&switches) && switches.fract() == 0.0, "{found} ns: {switches} switches");
}

/// All hosts send continuously with buffers of one packet per lane, so that possible deadlocks occur.
fn loaded(network: &str, rest: &str) -> String {
    format!(
        "duration = \"400 us\"\n{network}{rest}switch = {{ buffer = \"6 KiB\" }}\nmeasure = {{ interval = \"50 us\" }}\n\
         host = {{ buffer = \"64 KiB\" }}\n[[traffic]]\npattern = {{ kind = \"uniform\" }}\nmessage = \"64 KiB\"\n"
    )
}

#[test]
fn a_torus_deadlocks_without_datelines_and_never_with_them() {
    for sizes in ["[6]", "[5, 5]", "[8, 4]"] {
        let network = format!("topology = {{ kind = \"torus\", sizes = {sizes} }}\n");
        let network = network.as_str();
        let bare = "routing = { kind = \"dimension-order\", allow_deadlock = true }\n";
        let shift = loaded(network, bare).replace("kind = \"uniform\"", "kind = \"shift\", by = 2");
        let shift = shift.replace("6 KiB", "2 KiB");
        let named = read(&shift).unwrap().check().unwrap().deadlock.unwrap();
        assert!(named.contains(" -> "), "{named}");
        let error = run(&shift).expect_err(network);
        assert!(matches!(error, ModelError::Deadlock { .. }), "{network}: {error}");
        let lanes = lanes(2);
        let outcome = run(&loaded(network, &lanes)).unwrap_or_else(|error| panic!("{network}: {error}"));
        assert!(outcome.summary.packets_delivered > 200, "{}", outcome.summary.packets_delivered);
        let with = shift.replace(bare, &lanes).replace("2 KiB", "4 KiB");
        run(&with).unwrap_or_else(|error| panic!("{network}: {error}"));
    }
}

#[test]
fn a_deadlock_in_a_ring_is_reported_port_by_port() {
    let text = loaded("topology = { kind = \"torus\", sizes = [6] }\n", "");
    let error = read(&text).unwrap().simulation().map(|_| ()).unwrap_err().to_string();
    let wanted = "can deadlock: packets may wait for each other along S0:2 -> S1:3, S1:2 -> S2:3, S2:2 -> S3:3, \
                  S3:2 -> S4:3, S4:2 -> S5:3, S5:2 -> S0:3; use 2 lanes with lanes.assignment = \"routing\", choose";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn the_other_networks_run_under_load() {
    for (network, rest) in [
        (MESH, String::new()),
        (HYPERX, String::new()),
        (DRAGONFLY, lanes(2)),
        (DRAGONFLY, lanes(3) + "routing = { kind = \"valiant\", draw = 2 }\n"),
        (DRAGONFLY, "routing = { kind = \"up-down\" }\n".to_owned()),
        (PLUS, String::new()),
        (PLUS, lanes(2) + "routing = { kind = \"valiant\" }\n"),
        (DRAGONFLY, lanes(3) + "routing = { kind = \"ugal\", bias = \"4 KiB\" }\n"),
        (PLUS, lanes(2) + "routing = { kind = \"ugal\" }\n"),
        (TORUS, "routing = { kind = \"up-down\" }\n".to_owned()),
    ] {
        let text = loaded(network, &rest);
        let report = read(&text).unwrap().check().unwrap();
        assert_eq!((report.deadlock, report.pairs_unroutable), (None, 0), "{network}{rest}");
        let outcome = run(&text).unwrap_or_else(|error| panic!("{network}{rest}: {error}"));
        assert!(outcome.summary.packets_delivered > 500, "{network}: {}", outcome.summary.packets_delivered);
    }
}

#[test]
fn valiant_spreads_traffic_that_minimal_routes_send_over_one_link() {
    // Every host of a group sends to the next group: minimal routes use one link for eight hosts.
    let text = |rest: &str| {
        loaded(DRAGONFLY, rest)
            .replace("kind = \"uniform\"", "kind = \"shift\", by = 8")
            .replace("6 KiB", "64 KiB")
    };
    let throughput = |rest: &str| run(&text(rest)).unwrap().summary.throughput_gbit_s / 72.0;
    let minimal = throughput(&lanes(2));
    assert!((1.9..=2.1).contains(&minimal), "an eighth of 16 Gbit/s: {minimal}");
    let valiant = throughput(&(lanes(3) + "routing = { kind = \"valiant\" }\n"));
    assert!(valiant > 1.5 * minimal, "{valiant} against {minimal}");
}

#[test]
fn congestion_control_works_on_lanes_of_the_routing() {
    for (network, rest) in [(TORUS, lanes(2)), (DRAGONFLY, lanes(3) + "routing = { kind = \"valiant\" }\n")] {
        let text = loaded(network, &rest).replace("kind = \"uniform\"", "kind = \"hotspots\", to = [\"H1\"]");
        let text = text.replace("6 KiB", "64 KiB") + "[congestion]\nmechanism = \"ib-cc\"\n";
        let summary = run(&text).unwrap().summary;
        assert!(summary.fecn_marks > 0 && summary.becn_received > 0, "{network}: {}", summary.fecn_marks);
    }
}

#[test]
fn fluid_rates_need_forwarding_tables() {
    let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H72\"\n";
    let fluid = |rest: &str| {
        let text =
            format!("duration = \"1 us\"\n{DRAGONFLY}{rest}measure = {{ interval = \"1 us\" }}\n{flow}");
        read(&text).unwrap().fluid().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(fluid(&lanes(2)), Ok(()));
    let refused = fluid(&(lanes(3) + "routing = { kind = \"valiant\" }\n")).unwrap_err();
    assert!(refused.contains("routing.kind = \"valiant\": has no rates to compute"), "{refused}");
}

#[test]
fn errors_of_lanes_of_the_routing_are_explained() {
    let star = "topology = { kind = \"star\" }\n";
    let valiant = "routing = { kind = \"valiant\" }\n";
    let mut failures = Vec::new();
    for (network, rest, expected) in [
        (TORUS, lanes(1), "lanes.count = 1: must be at least 2"),
        (DRAGONFLY, lanes(2) + valiant, "lanes.count = 2: must be at least 3"),
        (DRAGONFLY, valiant.to_owned(), "lanes.assignment: must be \"routing\""),
        (DRAGONFLY, "routing = { kind = \"ugal\" }\n".to_owned(), "for routing.kind = \"ugal\""),
        (star, lanes(2), "needs routing.kind \"dimension-order\", \"minimal\", \"valiant\" or \"ugal\""),
        (TORUS, lanes(2).replace(" }", ", control = 1 }"), "lanes.control"),
        (
            TORUS,
            lanes(2).replace(" }", ", tables = \"x\" }"),
            "has no effect; set lanes.assignment = \"paths\"",
        ),
        (TORUS, lanes(2) + "congestion = { mechanism = \"fbicm\" }\n", "needs switches of architecture"),
        (TORUS, "routing = { kind = \"minimal\" }\n".to_owned(), "is not a generated dragonfly"),
        (
            PLUS,
            "routing = { kind = \"dimension-order\" }\n".to_owned(),
            "is not a generated torus, mesh or HyperX",
        ),
        (
            "topology = { kind = \"torus\", sizes = [4, 1] }\n",
            lanes(2),
            "topology.sizes.1 = 1: must be 2 to 1024",
        ),
    ] {
        let text = loaded(network, &rest);
        match read(&text).and_then(|scenario| scenario.simulation().map(|_| ())) {
            Err(error) if error.to_string().contains(expected) => {}
            Err(error) => failures.push(format!("{network}{rest}  says: {error}\n  wanted: {expected}")),
            Ok(()) => failures.push(format!("{network}{rest}: accepted")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
