//! A resolved scenario is equivalent to the original: reading it gives an equal scenario with the
//! same text, and the runs have identical results. The test uses random scenarios with any
//! combination of keys.

use std::path::{Path, PathBuf};

use crate::common::draw::drawn;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use silvan_fabric::outcome::Outcome;
use silvan_scenario::{Scenario, ScenarioError};

fn base() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics/sw2-h7")
}

fn read(text: &str, overrides: &[(String, String)]) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml(text, "drawn.toml", &base(), overrides)
}

/// Removes rejected lines one by one until the scenario is valid or a required line is invalid.
fn repaired(mut text: String, mut overrides: Vec<(String, String)>) -> (String, Vec<(String, String)>) {
    const NEEDED: [&str; 5] = ["duration", "topology", "pattern", "from", "["];
    while let Err(error) = read(&text, &overrides).and_then(|scenario| scenario.build()) {
        if let Some(key) = error.place.strip_prefix("--set ") {
            overrides.retain(|(own, _)| own != key);
            continue;
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let line = error.place.strip_prefix("drawn.toml:").and_then(|line| line.parse::<usize>().ok());
        let Some(at) = line.map(|line| line - 1) else { break };
        if NEEDED.iter().any(|needed| lines[at].starts_with(needed)) {
            break;
        }
        lines.remove(at);
        text = lines.join("\n") + "\n";
    }
    (text, overrides)
}

/// The outcome of a run, or the error.
fn run(scenario: &Scenario) -> Result<Outcome, String> {
    let mut simulation = scenario.simulation().map_err(|error| error.what)?;
    while !simulation.advance(1 << 16).map_err(|error| error.to_string())?.done {}
    simulation.finish().map_err(|error| error.to_string())
}

/// Checks the properties that the module documentation states; returns whether the scenario could run.
fn repeats(text: &str, overrides: &[(String, String)]) -> Result<bool, TestCaseError> {
    let Ok(first) = read(text, overrides) else { return Ok(false) };
    let written = first.to_toml().unwrap();
    let about = || format!("{text}\n{overrides:?}\n--- resolved:\n{written}");
    let again = match read(&written, &[]) {
        Ok(again) => again,
        Err(error) => return Err(TestCaseError::fail(format!("{error}\n{}", about()))),
    };
    prop_assert_eq!(&again, &first, "reads back differently: {}", about());
    prop_assert_eq!(again.to_toml().unwrap(), written.clone(), "is written differently: {}", about());
    prop_assert!(again.notes.is_empty(), "has keys without effect: {:?} {}", again.notes, about());
    let (own, other) = (run(&first), run(&again));
    prop_assert!(own == other, "runs otherwise: {}", about());
    Ok(own.is_ok())
}

#[test]
fn a_resolved_scenario_repeats_its_run() {
    // Four times PROPTEST_CASES (256). Each shrinking step needs two runs, so their number is limited.
    let cases = 4 * Config::default().cases;
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let ran = std::cell::Cell::new(0);
    let tape = vec(any::<u16>(), 160);
    let result = runner.run(&tape, |tape| {
        let (text, overrides) = drawn(&tape);
        let (text, overrides) = repaired(text, overrides);
        ran.set(ran.get() + u32::from(repeats(&text, &overrides)?));
        Ok(())
    });
    if let Err(TestError::Fail(why, _) | TestError::Abort(why)) = result {
        panic!("{why}");
    }
    assert!(ran.get() > cases / 2, "only {} of {cases} random scenarios could run", ran.get());
}

const HOT: &str = r#"
duration = "200 us"
[topology]
kind = "star"
hosts = 5
[congestion]
notification = "ack"
marking = { kind = "fecn", upper = "8 KiB", lower = "4 KiB" }
reaction = { kind = "cct" }
[[traffic]]
pattern = { kind = "hotspots", to = ["H1"] }
"#;

#[test]
fn components_without_a_mechanism_stay_active() {
    let first = read(HOT, &[]).unwrap();
    let own = run(&first).unwrap();
    assert!(own.summary.fecn_marks > 50, "{}", own.summary.fecn_marks);
    let again = read(&first.to_toml().unwrap(), &[]).unwrap();
    assert_eq!(run(&again).unwrap().summary.fecn_marks, own.summary.fecn_marks);
    assert!(own == run(&again).unwrap());
}

#[test]
fn components_switched_off_by_an_override_stay_off() {
    let off = [("congestion.mechanism".to_owned(), "none".to_owned())];
    let first = read(HOT, &off).unwrap();
    assert_eq!(first.notes.len(), 3, "{:?}", first.notes);
    let own = run(&first).unwrap();
    assert_eq!(own.summary.fecn_marks, 0);
    assert!(repeats(HOT, &off).unwrap());
}

#[test]
fn standalone_scenarios_use_absolute_paths() {
    let text = "duration = \"20 us\"\ntopology = { kind = \"file\", file = \"minhop/ibnetdiscover.topo\" }\n\
                routing = { kind = \"table\", file = \"minhop/opensm-lfts.dump\" }\n\
                traffic = [{ pattern = { kind = \"uniform\" } }]\n";
    let first = read(text, &[]).unwrap();
    let alone = first.standalone().unwrap().to_toml().unwrap();
    let elsewhere = Scenario::from_toml(&alone, "elsewhere.toml", Path::new("/"), &[]).unwrap();
    assert!(run(&first).is_ok());
    assert!(run(&first) == run(&elsewhere), "{alone}");
    assert!(repeats(text, &[]).unwrap());
}

#[cfg(unix)]
#[test]
fn a_folder_name_that_is_not_utf_8_is_rejected() {
    use std::os::unix::ffi::OsStrExt;
    let text = "duration = \"20 us\"\ntopology = { kind = \"file\", file = \"a.topo\" }\n\
                traffic = [{ pattern = { kind = \"uniform\" } }]\n";
    let folder = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff"));
    let scenario = Scenario::from_toml(text, "a.toml", folder, &[]).unwrap();
    let error = scenario.standalone().err().unwrap().to_string();
    assert!(
        error.ends_with("the folder name is not UTF-8 text, so the scenario cannot name files in it"),
        "{error}"
    );
}
