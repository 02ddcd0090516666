//! A run that advances in slices and is read at every sample gives the same results as an uninterrupted run.
//! The samples agree with the tables of the results.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

use serde_json::{Value, json};
use silvan_scenario::Scenario;
use silvan_scenario::describe;
use silvan_web::session::{Session, Status};

/// A fat tree with background traffic, a hotspot that moves, and a victim.
const SCENARIO: &str = r#"
duration = "305 us"

[topology]
kind = "two-level-fat-tree"
leaves = 4
spines = 2
hosts_per_leaf = 4

[host]
drain_rate = "8 Gbit/s"

[switch]
buffer = "16 KiB"

[congestion]
mechanism = "ib-cc"

[measure]
interval = "10 us"

[[traffic]]
name = "background"
pattern = { kind = "uniform" }
rate = "4 Gbit/s"

[[traffic]]
name = "first"
hosts = ["H1", "H2", "H5", "H6", "H13"]
pattern = { kind = "hotspots", to = ["H9"] }
stop = "150 us"

[[flow]]
name = "second"
from = "H3"
to = "H16"
start = "100 us"

[[flow]]
name = "third"
from = "H8"
to = "H16"
start = "100 us"
"#;

/// Runs a scenario in slices of the given number of events. Returns the samples and the results as text.
fn stepped(scenario: &str, events: u64) -> (Vec<Value>, String) {
    let (mut session, network) = Session::open(scenario).unwrap();
    let network: Value = serde_json::from_str(&network).unwrap();
    assert_eq!(network["hosts"], 16);
    assert_eq!(network["flows"], 2);
    assert_eq!(network["classes"], json!(["second", "third", "background", "first"]));
    let mut samples = Vec::new();
    loop {
        let (status, text) = session.advance(events).unwrap();
        assert_eq!(status.has(Status::SAMPLE), !text.is_empty());
        if status.has(Status::SAMPLE) {
            samples.push(serde_json::from_str(&text).unwrap());
        }
        if status.has(Status::DONE) {
            return (samples, session.finish().unwrap());
        }
    }
}

#[test]
fn slices_and_samples_change_no_result() {
    let scenario = Scenario::from_toml(SCENARIO, "text", Path::new(""), &[]).unwrap();
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(u64::MAX).unwrap().done {}
    let outcome = simulation.finish().unwrap();
    let (samples, results) = stepped(SCENARIO, 7);
    assert_eq!(results, describe::results(&outcome).unwrap());
    assert_eq!((samples, results), stepped(SCENARIO, 1_000_000));
}

/// The values of one column of a table in the rows of one time.
fn at(results: &Value, table: &str, column: &str, time: &Value) -> Vec<Value> {
    let table = &results["tables"][table];
    let times = table["time_ns"].as_array().unwrap();
    let values = table[column].as_array().unwrap();
    times.iter().zip(values).filter(|one| one.0 == time).map(|one| one.1.clone()).collect()
}

#[test]
fn samples_agree_with_the_tables() {
    let (samples, results) = stepped(SCENARIO, 500);
    let results: Value = serde_json::from_str(&results).unwrap();
    assert_eq!(samples.len(), 30);
    let mut most = 0;
    for sample in &samples {
        let time = &sample["time_ns"];
        for (table, column, key) in [
            ("hosts", "received_bytes", "host_received_bytes"),
            ("flows", "received_bytes", "flow_received_bytes"),
            ("flows", "ccti", "flow_ccti"),
            ("classes", "throughput_gbit_s", "class_throughput_gbit_s"),
            ("classes", "mean_since_injection_ns", "class_latency_ns"),
        ] {
            assert_eq!(Value::Array(at(&results, table, column, time)), sample[key], "{key} at {time}");
        }
        for key in ["received_bytes", "fecn_marks", "packets_inside", "throttled_flows", "congested_outputs"]
        {
            assert_eq!(at(&results, "network", key, time), [sample[key].clone()], "{key} at {time}");
        }
        let links = sample["tree_links"].as_array().unwrap();
        most = most.max(links.len());
        for (place, column) in [(1, "tree"), (3, "depth"), (4, "trees"), (5, "queued_bytes"), (7, "isolated")]
        {
            let of_sample: Vec<Value> = links.iter().map(|link| link[place].clone()).collect();
            assert_eq!(at(&results, "tree_links", column, time), of_sample, "{column} at {time}");
        }
        let held: Vec<Value> = links.iter().map(|link| link[6].clone()).collect();
        assert_eq!(at(&results, "tree_links", "downstream_bytes", time), held, "at {time}");
    }
    assert!(most > 5, "there are trees: {most}");
}

/// The hosts in one of the lists of a tree.
fn hosts(tree: &Value, key: &str) -> Vec<String> {
    tree[key].as_array().unwrap().iter().map(|host| format!("H{}", host.as_u64().unwrap() + 1)).collect()
}

#[test]
fn live_trees_have_their_contributors_and_victims() {
    let uncontrolled = SCENARIO.replace("ib-cc", "none");
    let (samples, _) = stepped(&uncontrolled, 500);
    let network: Value = serde_json::from_str(&Session::open(&uncontrolled).unwrap().1).unwrap();
    // This sample is before the end of the first hotspot.
    let trees = samples[13]["trees"].as_array().unwrap();
    let name = |tree: &Value| network["links"][tree["root"].as_u64().unwrap() as usize].clone();
    let tree = trees.iter().find(|tree| name(tree).as_str().unwrap().ends_with("->H9")).unwrap();
    // The contributors also send to other hosts, so the tree is windy.
    assert_eq!(tree["kind"], "windy");
    assert_eq!(hosts(tree, "contributors"), ["H1", "H2", "H5", "H6", "H13"]);
    assert!(hosts(tree, "victims").contains(&"H14".to_owned()), "{tree}");
}

#[test]
fn errors_are_messages() {
    let wrong = |text: &str| Session::open(text).map(drop).unwrap_err();
    let error = wrong(&SCENARIO.replace("ib-cc", "ib-c"));
    assert!(error.starts_with("scenario:17: congestion.mechanism"), "{error}");
    let error = wrong(&SCENARIO.replace(
        "kind = \"two-level-fat-tree\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 4",
        "kind = \"file\"\nfile = \"net.topo\"",
    ));
    assert!(error.contains("topology.file") && error.contains("net.topo"), "{error}");
}
