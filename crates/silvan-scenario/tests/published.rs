//! Checks that published files match the code: the schema, the shipped scenarios, and a table of docs/internals.md.
//! `SILVAN_UPDATE=1 cargo test -p silvan-scenario published` updates the schema and the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use silvan_fabric::NotBinned;
use silvan_scenario::{Scenario, schema};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file with its expected content, or writes it if `SILVAN_UPDATE` is set.
fn assert_current(path: &Path, current: &str) {
    if std::env::var_os("SILVAN_UPDATE").is_some() {
        std::fs::write(path, current).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == current, "{} is out of date; run this test with SILVAN_UPDATE=1", path.display());
}

#[test]
fn the_schema_is_current() {
    assert_eq!(
        schema()["required"],
        serde_json::json!(["duration", "topology"]),
        "the other keys have defaults"
    );
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert_current(&root().join("docs/scenario.schema.json"), &text);
}

#[test]
fn the_page_about_the_schedulers_lists_all_reasons_against_bins() {
    let path = root().join("docs/internals.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let head = "| because ... | explanation |\n| --- | --- |\n";
    let (before, rest) = page.split_once(head).unwrap();
    let (_, after) = rest.split_once("\n## ").unwrap();
    let row = |why: &NotBinned| format!("| {why} | {} |\n", why.explanation());
    let rows: String = NotBinned::ALL.iter().map(row).collect();
    assert_current(&path, &format!("{before}{head}{rows}\n## {after}"));
    let clauses: BTreeSet<&str> = NotBinned::ALL.iter().map(|why| why.clause()).collect();
    assert_eq!(clauses.len(), NotBinned::ALL.len(), "each reason has a clause of its own");
}

#[test]
fn every_scenario_is_valid_and_reads_back_as_resolved() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let scenario = Scenario::load(&path, &[]).unwrap();
        let report = scenario.check().unwrap();
        let name = report.name.unwrap();
        assert_eq!(name, path.file_stem().unwrap().to_string_lossy(), "a scenario has the name of its file");
        assert_eq!(report.pairs_unroutable, 0, "{name}");
        assert_eq!(report.deadlock.is_some(), name == "ring-deadlock", "{name}");
        assert!(report.estimate.packet_hops > 1e4, "{name}: {:?}", report.estimate);

        let text = scenario.to_toml().unwrap();
        let again = Scenario::from_toml(&text, "again", &scenario.base_dir, &[]).unwrap();
        assert_eq!(again, scenario, "{name}");
        assert_eq!(
            again.notes,
            Vec::<String>::new(),
            "a resolved scenario has no keys without effect: {name}"
        );
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "dragonfly-72",
            "dragonfly-plus-80",
            "ecocc-trees",
            "eight-planes",
            "fabric-648",
            "gpt-13b",
            "gpu-rails",
            "hot-phase",
            "hotspot-648",
            "hyperx-64",
            "job-collective",
            "job-in-network",
            "job-kernel",
            "job-trace",
            "mesh-64",
            "moe",
            "moving-forest",
            "mrc",
            "multistage",
            "mvcm-hot-phase",
            "ndr-rtt",
            "packets-64",
            "pfc-victim",
            "ring-deadlock",
            "roce-all-to-all-64",
            "roce-dcqcn",
            "roce-hpcc",
            "roce-incast-16",
            "roce-telemetry",
            "routes-512",
            "silent-forest",
            "small-forest",
            "star",
            "step-and-trees",
            "testbed",
            "then-and-now-64",
            "torus-64",
            "torus-8x8",
            "trees-1024",
            "two-jobs",
            "two-rails",
            "uec-both",
            "uec-incast-128",
            "uec-nscc",
            "uec-permutation-1024",
            "uec-rccc",
            "uec-trimming",
            "uniform-648",
            "web-search-128",
            "web-search-320"
        ]
    );
}

fn load(name: &str, key: &str, value: &str) -> Scenario {
    let overrides = [(key.to_owned(), value.to_owned())];
    Scenario::load(root().join("scenarios").join(name), &overrides).unwrap()
}

#[test]
fn a_ring_that_can_deadlock_is_rejected_unless_allowed() {
    let refused = load("ring-deadlock.toml", "seed", "2").simulation().err().unwrap().to_string();
    assert!(refused.contains("routing.kind = \"shortest-path\": can deadlock"), "{refused}");
    assert!(refused.contains("S1:1 -> S2:2"), "{refused}");
    assert!(load("ring-deadlock.toml", "routing.allow_deadlock", "true").simulation().is_ok());
    assert!(load("ring-deadlock.toml", "routing.kind", "up-down").simulation().is_ok());
}

#[test]
fn a_component_without_kind_adjusts_the_preset() {
    let on = load("hotspot-648.toml", "seed", "2").to_toml().unwrap();
    assert!(
        on.contains("kind = \"fecn\"") && on.contains("marking_rate = 0") && on.contains("scale = 32"),
        "{on}"
    );
    let off = load("hotspot-648.toml", "congestion.mechanism", "none");
    assert_eq!(off.notes.len(), 2);
    assert!(!off.to_toml().unwrap().contains("marking_rate"));
    let overrides = [("congestion.mechanism", "none"), ("congestion.marking.kind", "fecn")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let whole = Scenario::load(root().join("scenarios/hotspot-648.toml"), &overrides).unwrap();
    let whole = whole.to_toml().unwrap();
    assert!(
        !whole.contains("marking_rate"),
        "a component that is off has no parameters, even if given completely: {whole}"
    );
}

#[test]
fn the_default_routing_suits_the_topology() {
    assert_eq!(load("testbed.toml", "seed", "2").routing_kind(), "up-down");
    assert_eq!(load("uniform-648.toml", "seed", "2").routing_kind(), "d-mod-k");
}
