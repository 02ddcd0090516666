//! Checks the messages about invalid scenarios. `messages.txt` lists the scenarios and the messages.

use std::path::Path;

use silvan_scenario::Scenario;

use crate::common::BASE;

/// The error message of a scenario, or "fine". Some errors are found only when the network is set up. A check and a run find
/// the same errors, except that a check reports routes that can deadlock.
pub fn message(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let scenario = match Scenario::from_toml(text, "a.toml", Path::new(""), &overrides) {
        Ok(scenario) => scenario,
        Err(error) => return error.to_string(),
    };
    let said = |error: Option<String>| error.unwrap_or_else(|| "fine".to_owned());
    let of_run = said(scenario.simulation().err().map(|error| error.to_string()));
    if !of_run.contains("can deadlock") {
        assert_eq!(said(scenario.check().err().map(|error| error.to_string())), of_run);
    }
    of_run
}

/// A row of the table: its line, a scenario, and the beginning of the message about it.
struct Row {
    line: usize,
    text: String,
    overrides: Vec<(String, String)>,
    expected: String,
}

/// Applies a change to a scenario: inserts text after or before a piece of it, or replaces the piece.
fn changed(base: &str, (kind, old): (&str, &str), new: &str) -> String {
    assert!(base.contains(old), "no {old:?} in the scenario");
    let new = if new == "nothing" { String::new() } else { new.replace("\\n", "\n") };
    let text = match kind {
        "after" => format!("{old}\n{new}"),
        "before" => format!("{new}\n{old}"),
        "replace" => new,
        _ => panic!("`{kind}` is none of `after`, `before` and `replace`"),
    };
    base.replacen(old, &text, 1)
}

/// The rows of the table. The first lines of the file describe its format.
fn rows() -> Vec<Row> {
    let mut found = Vec::new();
    let (mut base, mut change, mut started) = (String::new(), (String::new(), String::new()), String::new());
    for (index, line) in include_str!("messages.txt").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(text) = line.strip_prefix("| ") {
            base.push_str(text);
            base.push('\n');
        } else if line.starts_with("% scenario ") {
            base.clear();
        } else if let Some((kind, old)) = line.strip_prefix("% ").and_then(|rest| rest.split_once(' ')) {
            change = (kind.to_owned(), old.replace("\\n", "\n"));
        } else if line.contains("=> ") {
            let whole = format!("{started}{}", line.trim_start());
            started.clear();
            let (new, expected) = whole.split_once(" => ").unwrap();
            let overrides = new.split("--set ").skip(1).map(|one| one.trim().split_once('=').unwrap());
            let overrides: Vec<(String, String)> =
                overrides.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let text = if overrides.is_empty() {
                changed(&base, (change.0.as_str(), change.1.as_str()), new)
            } else {
                base.clone()
            };
            let expected = match expected.chars().next() {
                Some('0'..='9') => format!("a.toml:{expected}"),
                Some(':') => format!("a.toml{expected}"),
                _ => expected.to_owned(),
            };
            found.push(Row { line: index + 1, text, overrides, expected });
        } else {
            started = format!("{line} ");
        }
    }
    found
}

/// Whether a message begins with the expected text, in which ` ...` stands for any text.
fn begins_with(message: &str, expected: &str) -> bool {
    let mut parts = expected.split(" ...");
    let start = parts.next().and_then(|part| message.strip_prefix(part));
    let after = |text: &str, part: &str| text.find(part).map(|at| at + part.len());
    parts.fold(start, |left, part| left.and_then(|text| Some(&text[after(text, part)?..]))).is_some()
}

#[test]
fn invalid_scenarios_are_explained() {
    let rows = rows();
    assert!(rows.len() >= 420, "only {} rows of the table were read", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let overrides: Vec<(&str, &str)> =
            row.overrides.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let found = message(&row.text, &overrides);
        if !begins_with(&found, &row.expected) {
            wrong.push(format!("messages.txt:{}: {}\n  found {found}", row.line, row.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn messages_are_compared_with_the_table() {
    assert!(begins_with(
        "a.toml:1: x = 5: must be 1 to 4; did you mean 4?",
        "a.toml:1: x = 5: must be ... did you mean"
    ));
    for expected in ["a.toml:2: x = 5", "a.toml:1: x = 5: must be ... or 6", "fine"] {
        assert!(!begins_with("a.toml:1: x = 5: must be 1 to 4", expected), "{expected}");
    }
}

#[test]
fn hints_appear_only_where_they_apply() {
    assert!(!message(BASE, &[("congestion.mechanism", "ecmp")]).contains("hashing"));
    for (key, value) in
        [("topology.link_rate", "16 furlongs"), ("topology.link_rate", "Gb/s"), ("duration", "16 Gb/s")]
    {
        assert!(!message(BASE, &[(key, value)]).contains("did you mean"), "{value}");
    }
    let mixed = [("congestion.mechanism", "dcqcn"), ("congestion.notification", "ack-message")];
    assert!(!message(BASE, &mixed).contains("needs other marks"));
}

#[test]
fn components_beside_none_are_valid_if_an_override_selects_the_mechanism() {
    let given = BASE.replacen("\"ib-cc\"", "\"none\"\nreaction = { ccti_timer = 9 }", 1);
    assert!(message(&given, &[]).starts_with("a.toml:6: congestion.reaction: has no effect together with"));
    for mechanism in ["ib-cc", "none"] {
        assert_eq!(message(&given, &[("congestion.mechanism", mechanism)]), "fine");
    }
}

#[test]
fn another_mechanism_replaces_the_components_of_the_file() {
    let dcqcn = BASE.replacen(
        "mechanism = \"ib-cc\"",
        "marking = { kind = \"red\", min = \"5 kB\", max = \"20 kB\", percent = 20 }\nnotification = \"cnp\"\n\
         coalescing = { interval = \"4 us\" }\nreaction = { kind = \"dcqcn\" }",
        1,
    );
    let with = |settings: &[(&str, &str)]| {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let scenario = Scenario::from_toml(&dcqcn, "a.toml", Path::new(""), &settings).expect("valid");
        let congestion =
            scenario.to_toml().expect("valid").parse::<toml::Table>().expect("valid")["congestion"].clone();
        let kind = |part: &str| congestion[part]["kind"].as_str().unwrap_or_default().to_owned();
        (kind("marking"), kind("reaction"), scenario.notes.len())
    };
    let (telemetry, hpcc) = ("telemetry".to_owned(), "hpcc".to_owned());
    assert_eq!(with(&[]), ("red".to_owned(), "dcqcn".to_owned(), 0));
    // Notes about marking, reaction, notification and coalescing.
    assert_eq!(with(&[("congestion.mechanism", "hpcc")]), (telemetry, hpcc, 4));
    // The scenario file sets all components of DCQCN.
    assert_eq!(with(&[("congestion.mechanism", "dcqcn")]), ("red".to_owned(), "dcqcn".to_owned(), 0));
    let hybrid = [("congestion.mechanism", "swift"), ("congestion.reaction.kind", "timely")];
    assert_eq!(with(&hybrid).1, "timely");
}

const TORUS: &str = r#"duration = "1 ms"
[topology]
kind = "torus"
sizes = [2, 2]
[[flow]]
from = "H1"
to = "H4"
[ecmp]
"#;

#[test]
fn networks_that_cannot_be_hashed_are_explained() {
    let by_routing = TORUS.replacen("[[flow]]", "[lanes]\nassignment = \"routing\"\n[[flow]]", 1);
    let said = message(&by_routing, &[]);
    assert!(said.starts_with("a.toml:10: ecmp: cannot be combined with lanes by paths or routing"), "{said}");
    let scenario = Scenario::from_toml(TORUS, "a.toml", Path::new(""), &[]).unwrap();
    let error = scenario.simulation().err().unwrap().to_string();
    assert!(error.contains("can deadlock: packets may wait for each other along"), "{error}");
    assert!(
        error.contains("[ecmp] uses every shortest route, which is safe only on trees; leave it out"),
        "{error}"
    );
}

#[test]
fn hashed_packets_have_no_fluid_rates() {
    let tree = TORUS.replacen("kind = \"torus\"\nsizes = [2, 2]", "kind = \"k-ary-n-tree\"\nk = 2\nn = 2", 1);
    let fluid = |text: &str| Scenario::from_toml(text, "a.toml", Path::new(""), &[]).unwrap().fluid();
    let said = fluid(&tree).unwrap_err().to_string();
    assert!(
        said.starts_with("a.toml:9: ecmp: has no rates to compute: fluid rates need forwarding tables"),
        "{said}"
    );
    assert!(fluid(&tree.replace("[ecmp]", "[ecmp]\nenabled = false")).is_ok());
}

#[test]
fn the_default_routing_suits_a_multistage_network() {
    let kind = |topology: &str| {
        let text = format!(
            "duration = \"1 ms\"\ntopology = {{ {topology} }}\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n"
        );
        let scenario = Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap();
        let report = scenario.check().unwrap();
        assert_eq!((report.pairs_unroutable, report.deadlock), (0, None), "{topology}");
        report.routing
    };
    assert_eq!(kind(r#"kind = "k-ary-n-fly", k = 2, n = 3"#), "destination-tag");
    assert_eq!(kind(r#"kind = "k-ary-n-fly", k = 2, n = 3, links = "bidirectional""#), "d-mod-k");
    let one_way = r#"kind = "custom", hosts = ["H1", "H2"], switches = [{ name = "S1" }, { name = "S2" }], links = [
        { from = "H1", to = "S1", one_way = true }, { from = "S1", to = "H1", one_way = true },
        { from = "H2", to = "S2" }, { from = "S1", to = "S2", one_way = true },
        { from = "S2", to = "S1", one_way = true }]"#;
    assert_eq!(kind(&one_way.replace('\n', " ")), "shortest-path");
}

#[test]
fn the_size_of_a_scenario_is_limited() {
    let text = " ".repeat((16 << 20) + 1);
    assert_eq!(message(&text, &[]), "a.toml: 16777217 bytes long; a scenario has at most 16777216");
}
