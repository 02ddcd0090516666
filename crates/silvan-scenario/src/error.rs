//! Errors in a scenario: position, key, value, description, and what would be valid.

use std::fmt;

use silvan_fabric::SetupError;

/// An error in a scenario. It is displayed as `testbed.toml:12: congestion.marking.threshold = 99: must be
/// 0 to 15`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// File and line, or the override (`--set seed`) that set the value.
    pub place: String,
    /// Dotted path of the key, if the error belongs to one.
    pub key: Option<String>,
    /// The value as written, shortened, if the error belongs to one.
    pub value: Option<String>,
    /// A statement of the error, and the valid values.
    pub what: String,
}

impl ScenarioError {
    /// An error without a key, which concerns the whole file or the model built from it.
    pub(crate) fn of_file(origin: &str, what: impl Into<String>) -> Self {
        Self { place: origin.to_owned(), key: None, value: None, what: what.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(key) = &self.key {
            // The place of an override already contains the key, so do not repeat the key.
            if self.place.strip_prefix("--set ") != Some(key) {
                write!(f, ": {key}")?;
            }
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ScenarioError {}

/// An error about a key, before the key's position and value are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub path: String,
    pub what: String,
}

impl Fault {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

/// Keeps the key. The value is added later, as it was written.
impl From<SetupError> for Fault {
    fn from(error: SetupError) -> Self {
        Self::new(error.key, error.reason.to_string())
    }
}

/// The known name that is most similar to an unknown one, if any is similar enough.
pub(crate) fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let mut best = None;
    let mut best_score = 0.82;
    for name in known {
        let lower = name.to_lowercase();
        let score = if lower == wrong { 2.0 } else { strsim::jaro_winkler(&wrong, &lower) };
        if score > best_score {
            (best, best_score) = (Some(name), score);
        }
    }
    best
}

/// Returns "; did you mean `x`?", or an empty string.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Describes a name that is not one of `known`: similar names, and the range of valid ones. `nouns` are the singular and
/// the plural of the expected kind. `other` is the actual kind, if the name is known.
pub(crate) fn no_such(nouns: (&str, &str), name: &str, other: Option<&str>, known: &[&str]) -> String {
    let (noun, plural) = nouns;
    let kind = other.map_or_else(|| format!("no such {noun}"), |other| format!("is a {other}"));
    let hint = did_you_mean(name, known.iter().copied());
    let joint = if hint.is_empty() { "; " } else { " " };
    let valid = match known {
        [first, .., last] => format!("the {} {plural} are {first} to {last}", known.len()),
        [only] => format!("the only {noun} is {only}"),
        [] => format!("there are no {plural}"),
    };
    format!("{kind}{hint}{joint}{valid}")
}

/// Formats names as a list for a message: "`a`, `b`, `c`", shortened if there are many.
pub(crate) fn name_list(names: &[&str]) -> String {
    const SHOWN: usize = 24;
    let mut list: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        list.push(format!("... ({} in all)", names.len()));
    }
    list.join(", ")
}

/// Shortens a text to 60 characters and "..." for a message.
pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 60;
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    text.chars().take(LIMIT).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(nearest("treshold", ["threshold", "upper"]), Some("threshold"));
        assert_eq!(nearest("IB-CC", ["none", "ib-cc"]), Some("ib-cc"));
        assert_eq!(nearest("H9", ["H1", "H2"]), None, "both hosts are equally similar");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shorten(&"x".repeat(100)).len(), 63);
        assert_eq!(shorten("short"), "short");
    }
}
