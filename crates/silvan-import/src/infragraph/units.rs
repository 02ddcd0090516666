//! Dialects, and the units of bandwidths in them.

use std::borrow::Cow;

use crate::yaml::{Content, Value};

/// Files up to September 2025 have `connections`, later ones `edges`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Current,
    Older,
}

/// The unit of a bandwidth that states no number of lanes.
pub(super) const TRANSFERS: &str = "gigatransfers_per_second";

/// A quantity with the units of the current dialect. Older ones divide their names (`giga_bytes_per_second`) or abbreviate them
/// (`g_bytes_per_second`), and can lack the choice.
pub(super) fn current_units<'v, 't>(value: &'v Value<'t>, dialect: Dialect) -> Cow<'v, Value<'t>> {
    let Content::Table(entries) = &value.content else { return Cow::Borrowed(value) };
    if dialect == Dialect::Current {
        return Cow::Borrowed(value);
    }
    let unit = |text: &str| {
        let rest = text.strip_prefix("giga_").or_else(|| text.strip_prefix("g_"));
        let known = ["gigabits_per_second", "gigabytes_per_second", TRANSFERS];
        known.into_iter().find(|unit| rest.is_some_and(|rest| unit.strip_prefix("giga") == Some(rest)))
    };
    let renamed = |text: &Cow<'t, str>| unit(text).map_or_else(|| text.clone(), Cow::Borrowed);
    let mut entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| match (&value.content, key.as_ref()) {
            (Content::Text(text), "choice") => {
                let content = Content::Text(renamed(text));
                (key.clone(), Value { line: value.line, content })
            }
            _ => (renamed(key), value.clone()),
        })
        .collect();
    if let [(key, only)] = &entries[..]
        && key != "choice"
    {
        let choice = Value { line: only.line, content: Content::Text(key.clone()) };
        entries.push((Cow::Borrowed("choice"), choice));
    }
    Cow::Owned(Value { line: value.line, content: Content::Table(entries) })
}
