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

/// A text of `BASE`, what replaces it, and the message that results or "fine"; see `assert_message`.
pub type Case<'t> = (&'t str, &'t str, &'t str);

/// Checks the messages that result if one piece of the base text is replaced.
pub fn check(cases: &[Case]) {
    check_in(BASE, cases);
}

/// Checks the messages that result if one piece of a valid scenario is replaced.
pub fn check_in(base: &str, cases: &[Case]) {
    assert_eq!(message(base, &[]), "fine");
    for (old, new, expected) in cases {
        assert!(base.contains(old), "{old}");
        assert_message(&message(&base.replacen(old, new, 1), &[]), expected, new);
    }
}

/// Returns the case in which other lines, from line 5 on, replace the mechanism of `BASE`.
pub fn case<'t>(given: &'t str, expected: &'t str) -> Case<'t> {
    (r#"mechanism = "ib-cc""#, given, expected)
}

/// Checks a message: place, key, value, and a phrase. In the expected text, ` ...` stands for any text.
#[track_caller]
pub fn assert_message(found: &str, expected: &str, with: &str) {
    let mut parts = expected.split(" ...");
    let mut left = found.strip_prefix(parts.next().unwrap_or_default());
    for part in parts {
        left = left.and_then(|text| text.find(part).map(|at| &text[at + part.len()..]));
    }
    let is_open = expected.ends_with(" ...");
    assert!(
        left.is_some_and(|text| is_open || text.is_empty()),
        "found    {found}\nexpected {expected}\nwith     {with}"
    );
}
