//! Scenario files: what is read must be written and read again as the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use silvan_scenario::Scenario;

fuzz_target!(|text: &str| {
    let Ok(scenario) = Scenario::from_toml(text, "fuzz.toml", Path::new("."), &[]) else { return };
    let written = scenario.to_toml().expect("what was read can be written");
    let back = Scenario::from_toml(&written, "fuzz.toml", Path::new("."), &[]).expect("what was written can be read");
    assert_eq!(back.to_toml().ok().as_ref(), Some(&written));
});
