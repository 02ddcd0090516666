//! The text of a scenario with its overrides, and the positions of its keys.

use std::path::Path;

use silvan_trace::read::relatives;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::error::{Fault, ScenarioError, shorten};
use crate::ranges::Expanded;

/// Maximum size of a scenario text, which is enough for the host and link lists of a large fabric.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// The source of a scenario's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Name of the file, for messages.
    pub origin: String,
    /// The text of the file.
    pub text: String,
    /// Keys set by overrides, in order.
    pub overridden: Vec<String>,
    /// Lists of hosts that were written with ranges.
    pub expanded: Vec<Expanded>,
}

impl Source {
    /// Reads the text and applies the overrides. Fails if the text is too long or not valid TOML, or if an
    /// override names no valid place.
    pub fn read(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
    ) -> Result<(Self, Table), ScenarioError> {
        if text.len() > MAX_TEXT_BYTES {
            let what = format!("{} bytes long; a scenario has at most {MAX_TEXT_BYTES}", text.len());
            return Err(ScenarioError::of_file(origin, what));
        }
        let mut source = Self {
            origin: origin.to_owned(),
            text: text.to_owned(),
            overridden: Vec::new(),
            expanded: Vec::new(),
        };
        let mut table: Table = text.parse().map_err(|e| source.syntax_error(&e))?;
        for (key, value) in overrides {
            source.set(&mut table, key, value)?;
        }
        Ok((source, table))
    }

    /// Applies an override to the table.
    pub fn set(&mut self, table: &mut Table, key: &str, value: &str) -> Result<(), ScenarioError> {
        set(table, key, parse_value(value)).map_err(|what| ScenarioError {
            place: format!("--set {key}"),
            key: None,
            value: None,
            what,
        })?;
        self.overridden.push(key.to_owned());
        Ok(())
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ScenarioError {
        let line = error.span().map_or(1, |span| line_at(&self.text, span.start));
        let what = error.message().trim().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let like = relatives::named(Path::new(&self.origin), &self.text);
        let like = like.filter(|like| !like.starts_with("a scenario"));
        let like = like.map_or(String::new(), |like| format!("; the file looks like {like}"));
        ScenarioError::of_file(&format!("{}:{line}", self.origin), format!("not valid TOML: {what}{like}"))
    }

    /// Converts a fault to an error: adds the position of its key, and its value in `table`.
    pub fn locate(&self, fault: Fault, table: &Table) -> ScenarioError {
        let fault = self.as_written(fault);
        let key = (!fault.path.is_empty()).then_some(fault.path);
        let place = key.as_deref().and_then(|path| self.place(path)).unwrap_or_else(|| self.origin.clone());
        let value = key.as_deref().and_then(|path| lookup(table, path)).and_then(show);
        ScenarioError { place, key, value: value.map(|v| shorten(&v)), what: fault.what }
    }

    /// Moves a fault in an expanded list of hosts to the range in the original text.
    fn as_written(&self, fault: Fault) -> Fault {
        match self.expanded.iter().find_map(|list| list.written(&fault.path)) {
            Some((path, host)) => Fault::new(path, format!("{host}: {}", fault.what)),
            None => fault,
        }
    }

    /// The override that set the key or a table that contains it. If there is none, the line of the key, or
    /// else the line of the innermost table that contains the key.
    fn place(&self, path: &str) -> Option<String> {
        let covers = |key: &&String| {
            path == *key || path.strip_prefix(key.as_str()).is_some_and(|r| r.starts_with('.'))
        };
        if let Some(key) = self.overridden.iter().rev().find(covers) {
            return Some(format!("--set {key}"));
        }
        Some(format!("{}:{}", self.origin, line_at(&self.text, self.offset_of(path)?)))
    }

    fn offset_of(&self, path: &str) -> Option<usize> {
        let document = DeTable::parse(&self.text).ok()?;
        let mut offset = None;
        let mut value: Option<&DeValue<'_>> = None;
        for segment in path.split('.') {
            let table = match value {
                None => Some(document.get_ref()),
                Some(DeValue::Table(table)) => Some(table),
                Some(_) => None,
            };
            let next = if let Some(table) = table {
                let Some((key, next)) = table.iter().find(|(key, _)| key.get_ref() == segment) else { break };
                offset = Some(key.span().start);
                next
            } else {
                let index: Option<usize> = segment.parse().ok();
                let Some(next) = index.and_then(|i| value.and_then(|v| v.get(i))) else { break };
                offset = Some(next.span().start);
                next
            };
            value = Some(next.get_ref());
        }
        offset
    }

    /// Whether an override set this key or one below it.
    pub fn is_overridden_within(&self, path: &str) -> bool {
        let is_within = |key: &String| {
            key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.overridden.iter().any(is_within)
    }

    /// Whether an override set exactly this key.
    pub fn is_overridden(&self, path: &str) -> bool {
        self.overridden.iter().any(|key| key == path)
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}

/// Parses the value of an override: a TOML value, or else a string without quotes.
fn parse_value(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok().filter(|table| table.len() == 1);
    parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Sets the value of a dotted key. Missing tables on the path are created, but list elements must
/// exist.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    const DEEPEST: usize = 16;
    let segments: Vec<&str> = key.split('.').collect();
    if segments.iter().any(|s| s.is_empty()) || segments.len() > DEEPEST {
        return Err("not a dotted key such as `congestion.marking.threshold` or `flow.0.rate`".to_owned());
    }
    let (last, way) = segments.split_last().ok_or("empty key")?;
    let Some((first, rest)) = way.split_first() else {
        table.insert((*last).to_owned(), value);
        return Ok(());
    };
    let mut here = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
    let mut walked = (*first).to_owned();
    for segment in rest {
        here = step(here, segment, &walked)?;
        walked = format!("{walked}.{segment}");
    }
    *step(here, last, &walked)? = value;
    Ok(())
}

/// The member `segment` of `here`; `walked` is the path to `here`.
fn step<'v>(here: &'v mut Value, segment: &str, walked: &str) -> Result<&'v mut Value, String> {
    match here {
        Value::Table(table) => Ok(table.entry(segment).or_insert_with(|| Value::Table(Table::new()))),
        Value::Array(list) => {
            let length = list.len();
            let found = segment.parse::<usize>().ok().and_then(|index| list.get_mut(index));
            found.ok_or_else(|| match length {
                0 => format!("`{walked}` is an empty list"),
                _ => format!("`{walked}` is a list; its elements are {walked}.0 to {walked}.{}", length - 1),
            })
        }
        _ => Err(format!("`{walked}` is a single value and has no key `{segment}`")),
    }
}

/// The value at a dotted path.
pub(crate) fn lookup<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut value = table.get(first)?;
    for segment in rest.split('.').filter(|s| !s.is_empty()) {
        value = match value {
            Value::Array(list) => list.get(segment.parse::<usize>().ok()?)?,
            Value::Table(table) => table.get(segment)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Formats a value for messages: a list by its length, and another value as TOML. `None` for a table.
fn show(value: &Value) -> Option<String> {
    match value {
        Value::Table(_) => None,
        Value::Array(list) => Some(format!("a list of {}", list.len())),
        other => Some(other.to_string().replace('\n', " ")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 1\n\n[congestion]\nmechanism = \"ib-cc\"\n[congestion.marking]\nthreshold = 3\n\
                        [[flow]]\nfrom = \"H1\"\n[[flow]]\nfrom = \"H2\"\nx = [\n 1,\n 2]\n";

    fn place(path: &str) -> Option<String> {
        let (source, _) = Source::read(TEXT, "a.toml", &[]).unwrap();
        source.place(path)
    }

    #[test]
    fn every_key_has_its_line() {
        assert_eq!(place("seed").as_deref(), Some("a.toml:1"));
        assert_eq!(place("congestion.marking.threshold").as_deref(), Some("a.toml:6"));
        assert_eq!(place("flow.1.from").as_deref(), Some("a.toml:10"));
        assert_eq!(place("flow.1.x.1").as_deref(), Some("a.toml:13"));
        assert_eq!(place("flow.1.to").as_deref(), Some("a.toml:9"), "a missing key is reported at its table");
        assert_eq!(place("nowhere"), None);
    }

    #[test]
    fn overrides_are_values_or_plain_text() {
        let set = |key: &str, value: &str| {
            let overrides = [(key.to_owned(), value.to_owned())];
            Source::read(TEXT, "a.toml", &overrides).map(|(_, table)| table).map_err(|e| e.to_string())
        };
        assert_eq!(set("seed", "7").unwrap()["seed"], Value::Integer(7));
        assert_eq!(set("duration", "1 ms").unwrap()["duration"], Value::String("1 ms".into()));
        assert_eq!(set("name", "\"5\"").unwrap()["name"], Value::String("5".into()));
        assert_eq!(set("name", "1\nseed = 9").unwrap()["seed"], Value::Integer(1), "one key sets one key");
        assert_eq!(set("flow.1.rate", "3 B/s").unwrap()["flow"][1]["rate"], Value::String("3 B/s".into()));
        assert_eq!(set("a.b.c", "[1, 2]").unwrap()["a"]["b"]["c"][1], Value::Integer(2));
        assert_eq!(
            set("flow.2.rate", "1"),
            Err("--set flow.2.rate: `flow` is a list; its elements are flow.0 to flow.1".into())
        );
        assert_eq!(
            set("seed.x", "1"),
            Err("--set seed.x: `seed` is a single value and has no key `x`".into())
        );
        assert!(set("a..b", "1").is_err());
    }
}
