//! Properties of many scenarios: a resolved scenario reads back equal, and no text causes a panic.

use std::path::Path;

use proptest::prelude::*;
use silvan_scenario::Scenario;

const STAR: &str = r#"
seed = 3
duration = "100 us"
[topology]
kind = "star"
hosts = 5
[lanes]
count = 2
sl_to_vl = [0, 1]
[switch]
architecture = "iq"
queues = "single"
[congestion]
mechanism = "ib-cc"
marking = { threshold = 9, fill = "each" }
reaction = { ccti_timer = 7, per_sl = [{ sl = 1, ccti_min = 2 }] }
[measure]
interval = "10 us"
[[flow]]
from = "H1"
to = "H2"
rate = "2 Gbit/s"
[[traffic]]
hosts = ["H3", "H4"]
pattern = { kind = "hotspots", to = ["H5"] }
"#;

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_toml(text, "p.toml", Path::new(""), &[]).map_err(|e| e.to_string())
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "seed",
        "duration",
        "topology.hosts",
        "topology.kind",
        "lanes.count",
        "switch.buffer",
        "congestion.marking",
        "congestion.reaction.table",
        "flow.0.to",
        "traffic.0.pattern.kind",
        "measure.interval",
    ])
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (any::<u64>(), prop::sample::select(vec!["ps", "B", "bit/s", "s"]))
            .prop_map(|(n, unit)| format!("{n} {unit}")),
        Just("{}".to_owned()),
        Just("[]".to_owned()),
        Just("nan".to_owned()),
        "[a-zA-Z0-9 ={}\\[\\]\"-]{0,20}",
    ]
}

proptest! {
    #[test]
    fn a_resolved_scenario_reads_back_equal(
        seed in 0u64..i64::MAX as u64,
        duration in 1u64..1_000_000_000,
        hosts in 2u32..40,
        threshold in 0u8..16,
        rate in 1_000u64..u64::MAX,
        start in 0u64..1_000_000,
        name in "[ -~]{0,20}",
    ) {
        let text = format!(
            "name = {}\nseed = {seed}\nduration = \"{duration} ps\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n\
             [congestion]\nmechanism = \"ib-cc\"\nmarking = {{ threshold = {threshold} }}\n\
             [[flow]]\nfrom = \"H1\"\nto = \"H{hosts}\"\nrate = \"{rate} bit/s\"\nstart = \"{start} ps\"\n",
            toml::Value::String(name)
        );
        let scenario = read(&text).unwrap();
        let again = read(&scenario.to_toml().unwrap()).unwrap();
        prop_assert_eq!(&again, &scenario);
        prop_assert_eq!(again.spec.flow[0].rate.map(|r| r.0), Some(rate));
    }

    #[test]
    fn damaged_texts_never_panic(at in 0..STAR.len(), length in 0usize..12, insert in "[ -~\\n]{0,6}") {
        let end = (at + length).min(STAR.len());
        let text = format!("{}{insert}{}", &STAR[..at], &STAR[end..]);
        if let Ok(scenario) = read(&text) {
            // Inserted digits can create a large network, so only reading is tested if the number of hosts
            // changed.
            if !text.contains("hosts = 5\n") {
                return Ok(());
            }
            let _ = scenario.check();
            prop_assert_eq!(read(&scenario.to_toml().unwrap()), Ok(scenario));
        }
    }

    #[test]
    fn arbitrary_overrides_never_panic(key in key(), value in value()) {
        let overrides = [(key.to_owned(), value)];
        if let Ok(scenario) = Scenario::from_toml(STAR, "p.toml", Path::new(""), &overrides)
            && key != "topology.hosts"
        {
            let _ = scenario.check();
        }
    }
}

#[test]
fn the_undamaged_text_is_valid() {
    assert!(read(STAR).and_then(|s| s.check().map_err(|e| e.to_string())).is_ok());
}
