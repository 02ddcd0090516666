//! Counts the omissions and decisions of a reader, to print one note for each kind.

use std::cell::RefCell;

/// A kind of omission or decision about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A line of a terminal or of an error stream, which is not part of the file.
    Around,
    /// A cable between two ports of a node, or a plug that connects a port with itself.
    Loopback,
    /// A port whose LID has not been configured.
    NoLid,
    /// A link whose ends state different rates.
    Rates,
    /// The end of a link that no line describes.
    Undescribed,
    /// A link that is down.
    Down,
    /// A link that states another name or GUID of its far end than the lines of that end.
    FarEnd,
    /// A value of a port in the named field, which has no effect.
    Unused(&'static str),
}

impl What {
    fn text(self, count: usize, line: usize) -> String {
        let s = |one: &'static str, more: &'static str| if count == 1 { one } else { more };
        match self {
            Self::Around => format!(
                "{count} {} of a terminal or an error stream skipped (first: line {line})",
                s("line", "lines")
            ),
            Self::Loopback => format!(
                "{count} {} from a node to itself left out (first: line {line})",
                s("cable", "cables")
            ),
            Self::NoLid => format!(
                "{count} {} 65535, so not configured yet, and read as none (first: line {line})",
                s("LID is", "LIDs are")
            ),
            Self::Rates => format!(
                "{count} {} different widths or speeds at the two ends; the smaller rate is used (first: line {line})",
                s("link has", "links have")
            ),
            Self::Undescribed => format!(
                "{count} {} not described in the file, and taken as {} (first: line {line})",
                s("node is", "nodes are"),
                s("an adapter", "adapters")
            ),
            Self::Down => {
                format!("{count} {} down and left out (first: line {line})", s("link is", "links are"))
            }
            Self::FarEnd => format!(
                "{count} {} another name or GUID of the far end than the lines of that end, which are used (first: line {line})",
                s("link states", "links state")
            ),
            Self::Unused(field) => {
                format!("not used: {field} of {count} {} (first: line {line})", s("port", "ports"))
            }
        }
    }
}

/// Counts of notes of each kind, with the first line.
#[derive(Debug, Default)]
pub(super) struct Notes(RefCell<Vec<(What, usize, usize)>>);

impl Notes {
    /// Counts an omission or decision about a line.
    pub(super) fn add(&self, what: What, line: usize) {
        let mut all = self.0.borrow_mut();
        match all.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, count, first)) => {
                *count += 1;
                *first = line.min(*first);
            }
            None => all.push((what, 1, line)),
        }
    }

    /// Counts a value in a field that has no effect, unless it is one of the values that mean none.
    pub(super) fn unused(&self, field: &'static str, value: &str, none: &[&str], line: usize) {
        let value = value.trim();
        if !value.is_empty() && value != "N/A" && !none.contains(&value) {
            self.add(What::Unused(field), line);
        }
    }

    /// Takes the notes: one text for each kind.
    pub(super) fn texts(&self) -> Vec<String> {
        self.0.take().into_iter().map(|(what, count, line)| what.text(count, line)).collect()
    }
}
