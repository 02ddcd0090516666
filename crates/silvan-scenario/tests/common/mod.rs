//! A scenario that is fine, and what is said of it when a piece of it is replaced.
#![allow(dead_code)]

pub mod draw;

use std::path::Path;

use silvan_scenario::Scenario;

/// Eight lines that are fine.
pub const BASE: &str = r#"duration = "1 ms"
[topology]
kind = "dumbbell"
[congestion]
mechanism = "ib-cc"
[[flow]]
from = "H1"
to = "H4"
"#;

/// What building a scenario says, or "fine".
pub fn message(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    match Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).and_then(|s| s.build()) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Checks that replacing one piece of the base gives the message.
pub fn check(cases: &[(&str, &str, &str)]) {
    assert_eq!(message(BASE, &[]), "fine");
    for (old, new, expected) in cases {
        assert!(BASE.contains(old), "{old}");
        assert_eq!(message(&BASE.replacen(old, new, 1), &[]), *expected, "with {new}");
    }
}
