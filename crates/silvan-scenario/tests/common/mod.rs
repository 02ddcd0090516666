//! A valid scenario, and the message that results if a part of its text is replaced.
#![allow(dead_code, clippy::unwrap_used)]

pub mod draw;
pub mod runs;

use std::path::Path;

use silvan_scenario::Scenario;

/// A valid scenario of eight lines.
pub const BASE: &str = r#"duration = "1 ms"
[topology]
kind = "dumbbell"
[congestion]
mechanism = "ib-cc"
[[flow]]
from = "H1"
to = "H4"
"#;

/// Returns the error message of building a scenario, or "fine".
pub fn message(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    match Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).and_then(|s| s.build()) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Checks the messages that result if the first text of a case, a piece of `BASE`, is replaced by the second.
pub fn check(cases: &[(&str, &str, &str)]) {
    for (old, new, expected) in cases {
        assert!(BASE.contains(old), "{old}");
        assert_eq!(message(&BASE.replacen(old, new, 1), &[]), *expected, "{new}");
    }
}
