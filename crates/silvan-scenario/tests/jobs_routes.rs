//! Messages of jobs with adaptive routes: their time without contention is that of the best permitted route.

use std::path::Path;

use silvan_fabric::outcome::{Outcome, Values};
use silvan_scenario::Scenario;

const PLAIN: &str = "duration = \"1 s\"\nswitch = { latency = \"100 ns\" }\n\
    measure = { interval = \"10 ms\", links = false, hosts = false, forest = false }\n";
/// Size of a data packet on the wire in bytes.
const PACKET: f64 = 2048.0;
/// Time per byte at 16 Gbit/s.
const NS_PER_BYTE: f64 = 0.5;

fn outcome(text: &str) -> Outcome {
    let scenario = Scenario::from_toml(text, "jobs.toml", Path::new("."), &[]).unwrap();
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(1_000_000).unwrap().done {}
    simulation.finish().unwrap()
}

fn times(outcome: &Outcome, column: &str) -> Vec<f64> {
    let table = outcome.tables.iter().find(|table| table.name == "messages").unwrap();
    match &table.columns.iter().find(|known| known.name == column).unwrap().values {
        Values::F64(values) => values.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

/// The time without contention of each message, which must not exceed its actual time.
fn alone(outcome: &Outcome) -> Vec<f64> {
    let (handed, there) = (times(outcome, "handed_ns"), times(outcome, "delivered_ns"));
    let alone = times(outcome, "alone_ns");
    assert!(!alone.is_empty());
    for ((handed, there), alone) in handed.iter().zip(&there).zip(&alone) {
        assert!(there - handed >= alone - 0.01, "sent {handed}, received {there}, uncontended {alone} ns");
    }
    alone
}

/// Two ranks that exchange messages over two links between two switches.
fn two_links(first: &str, second: &str, bytes: &str, routing: &str) -> Vec<f64> {
    let outcome = outcome(&format!(
        "{PLAIN}{routing}
[topology]
kind = \"custom\"
link_rate = \"16 Gbit/s\"
hosts = [\"H1\", \"H2\"]
switches = [{{ name = \"S1\" }}, {{ name = \"S2\" }}]
links = [
  {{ from = \"H1\", to = \"S1\", delay = \"20 ns\" }},
  {{ from = \"H2\", to = \"S2\", delay = \"20 ns\" }},
  {{ from = \"S1\", to = \"S2\", {first} }},
  {{ from = \"S1\", to = \"S2\", {second} }},
]
[[job]]
program = {{ kind = \"collective\", operation = \"all-to-all\", ranks = 2, bytes = \"{bytes}\", iterations = 3 }}
"
    ));
    alone(&outcome)
}

const PER_PACKET: &str = "adaptive_routing = { per = \"packet\" }";

#[test]
fn adaptive_packets_may_take_the_faster_of_two_links() {
    let (near, far) = ("delay = \"20 ns\"", "delay = \"2 us\"");
    let least = 2.0 * 100.0 + 3.0 * 20.0 + PACKET * NS_PER_BYTE;
    // The result does not depend on the link that the tables use.
    for links in [(near, far), (far, near)] {
        for found in two_links(links.0, links.1, "2 KiB", PER_PACKET) {
            assert!((found - least).abs() < 1.0, "{found} ns; {least} are right");
        }
    }
    let by_tables = [(near, far), (far, near)].map(|links| two_links(links.0, links.1, "2 KiB", "")[0]);
    assert!((by_tables[0] - by_tables[1]).abs() > 1_900.0, "{by_tables:?}: the tables name one link");
}

#[test]
fn packets_of_a_message_may_take_slower_links_all_at_once() {
    let slow = "delay = \"20 ns\", rate = \"8 Gbit/s\"";
    let one = two_links(slow, slow, "2 KiB", PER_PACKET)[0];
    let right = 2.0 * 100.0 + 3.0 * 20.0 + PACKET * 2.0 * NS_PER_BYTE;
    assert!((one - right).abs() < 1.0, "a packet uses one link: {one} ns instead of {right}");
    let many = two_links(slow, slow, "200 KiB", PER_PACKET)[0];
    let right = one + 99.0 * PACKET * NS_PER_BYTE;
    assert!((many - right).abs() < 1.0, "{many} ns; {right} are right");
    let by_tables = two_links(slow, slow, "200 KiB", "")[0];
    let right = one + 99.0 * PACKET * 2.0 * NS_PER_BYTE;
    assert!((by_tables - right).abs() < 1.0, "over one link: {by_tables} ns instead of {right}");
}

/// An all-to-all exchange of all hosts of a network.
fn exchange(network: &str, ranks: u32) -> Vec<f64> {
    alone(&outcome(&format!(
        "{PLAIN}{network}
[[job]]
program = {{ kind = \"collective\", operation = \"all-to-all\", ranks = {ranks}, bytes = \"6 KiB\" }}
algorithms = {{ all_to_all = \"linear\" }}
"
    )))
}

#[test]
fn a_detour_may_have_fewer_links_than_the_minimal_route() {
    let network = |routing: &str| {
        format!(
            "topology = {{ kind = \"dragonfly\", p = 1, a = 4, h = 2 }}\nrouting = {{ kind = \"{routing}\" }}\n\
             lanes = {{ count = 3, assignment = \"routing\" }}\n"
        )
    };
    let (minimal, chosen) = (exchange(&network("minimal"), 16), exchange(&network("ugal"), 16));
    // A route with two global links can be faster than the minimal route (local, global, local).
    assert!(chosen.iter().zip(&minimal).all(|(chosen, minimal)| chosen <= minimal));
    let sooner = chosen.iter().zip(&minimal).filter(|(chosen, minimal)| *chosen + 1.0 < **minimal);
    assert!(sooner.count() > 0);
}

#[test]
fn adaptive_flows_have_no_faster_route_up_a_tree() {
    let network =
        |more: &str| format!("topology = {{ kind = \"modified-k-ary-n-tree\", k = 2, n = 3 }}\n{more}\n");
    let by_tables = exchange(&network("routing = { kind = \"d-mod-k\" }"), 8);
    assert_eq!(exchange(&network("adaptive_routing = { heuristic = \"flow-count\" }"), 8), by_tables);
}
