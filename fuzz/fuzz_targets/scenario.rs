//! Scenario files with overrides: a parsed scenario must be equal after writing and parsing it again.
//!
//! A comment `# --set KEY=VALUE` is an override, so that an input is one file.
#![no_main]

mod mutate;
/// Generates scenarios that cover the whole schema.
#[path = "../../verify/swarm"]
mod swarm {
    #![allow(dead_code)]
    pub mod draw;
}

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value as Json;
use silvan_engine::random::Stream;
use silvan_scenario::{Scenario, schema};

static FORMAT: LazyLock<mutate::Format> = LazyLock::new(|| mutate::Format { draw, words: words() });

/// Every key and every choice of the schema, and values of each type.
fn words() -> &'static [&'static str] {
    let mut found = BTreeSet::new();
    collect(&schema(), &mut found);
    let values = [
        "\"1 ns\"",
        "\"0 us\"",
        "\"1.5 cycles\"",
        "\"3600 s\"",
        "\"213 ms\"",
        "\"64 KiB\"",
        "\"0 B\"",
        "\"16 Gbit/s\"",
        "\"0.25 bytes/cycle\"",
        "\"1 bit/s\"",
        "true",
        "false",
        "[]",
        "{}",
        "1.5",
        "nan",
        "-1",
        "\"H1\"",
        "\"all\"",
    ];
    let known = found.into_iter().map(|word| &*word.leak());
    known.chain(values).collect::<Vec<_>>().leak()
}

fn collect(schema: &Json, into: &mut BTreeSet<String>) {
    match schema {
        Json::Object(object) => {
            if let Some(Json::Object(properties)) = object.get("properties") {
                into.extend(properties.keys().cloned());
            }
            let choices = object.get("enum").and_then(Json::as_array).into_iter().flatten();
            into.extend(choices.chain(object.get("const")).filter_map(Json::as_str).map(str::to_owned));
            object.values().for_each(|value| collect(value, into));
        }
        Json::Array(list) => list.iter().for_each(|value| collect(value, into)),
        _ => {}
    }
}

fn draw(random: &mut Stream) -> String {
    let table = swarm::draw::draw(u64::from(random.next_u32()), 0);
    let mut text = toml::to_string(&table).unwrap_or_default();
    for _ in 0..random.below(3) {
        let key = OVERRIDDEN[random.below(OVERRIDDEN.len() as u32) as usize];
        let words = FORMAT.words;
        text += &format!("# --set {key}={}\n", words[random.below(words.len() as u32) as usize]);
    }
    text
}

const OVERRIDDEN: [&str; 10] = [
    "seed",
    "duration",
    "congestion.mechanism",
    "congestion.marking.kind",
    "congestion.reaction.kind",
    "flow.0.rate",
    "traffic.0.pattern.kind",
    "switch.buffer",
    "topology.kind",
    "routing.allow_deadlock",
];

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    let overrides: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# --set ")?.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let Ok(scenario) = Scenario::from_toml(text, "fuzz.toml", Path::new("."), &overrides) else { return };
    let written = scenario.to_toml().expect("a parsed scenario can be written");
    let back = Scenario::from_toml(&written, "fuzz.toml", Path::new("."), &[])
        .unwrap_or_else(|error| panic!("a written scenario can be parsed: {error}\n{written}"));
    assert!(back == scenario, "{written}");
    assert_eq!(back.to_toml().ok().as_ref(), Some(&written));
});
