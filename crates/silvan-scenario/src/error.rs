//! What is wrong with a scenario: where, which key, its value, and what would be right.

use std::fmt;

use silvan_fabric::SetupError;

/// A scenario that cannot be used. Reads like
/// `testbed.toml:12: congestion.marking.threshold = 99: must be 0 to 15`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// File and line, or the override (`--set seed`) that brought the value in.
    pub place: String,
    /// Dotted path of the key, where there is one.
    pub key: Option<String>,
    /// The value as written, shortened, where there is one.
    pub value: Option<String>,
    /// What is wrong and what would be right.
    pub what: String,
}

impl ScenarioError {
    /// An error that belongs to no key: of the whole file, or of the model built from it.
    pub(crate) fn of_file(origin: &str, what: impl Into<String>) -> Self {
        Self { place: origin.to_owned(), key: None, value: None, what: what.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(key) = &self.key {
            // An override names its key already; say it once.
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

/// A fault at a key, before it is known where that key was written and with which value.
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

/// The key is the same; its value is shown as it was written.
impl From<SetupError> for Fault {
    fn from(error: SetupError) -> Self {
        Self::new(error.key, error.reason.to_string())
    }
}

/// The known name most like a wrong one, if any is like it at all.
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

/// "; did you mean `x`?" or nothing.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Names as a list for a message: "`a`, `b`, `c`", cut short where there are very many.
pub(crate) fn name_list(names: &[&str]) -> String {
    const SHOWN: usize = 24;
    let mut list: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        list.push(format!("... ({} in all)", names.len()));
    }
    list.join(", ")
}

/// A text cut to what a message can bear.
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
    fn a_likeness_is_needed_for_a_suggestion() {
        assert_eq!(nearest("treshold", ["threshold", "upper"]), Some("threshold"));
        assert_eq!(nearest("IB-CC", ["none", "ib-cc"]), Some("ib-cc"));
        assert_eq!(nearest("H9", ["H1", "H2"]), None, "any host would be as near as any other");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shorten(&"x".repeat(100)).len(), 63);
        assert_eq!(shorten("short"), "short");
    }
}
