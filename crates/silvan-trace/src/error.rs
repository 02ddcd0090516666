//! Errors in traces, and their positions.

use std::fmt;

/// Position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole file.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0.
    Offset(u64),
}

/// An error in a trace. It is displayed as ``job.goal:12: label `l3` is not defined before this line``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Name of the file.
    pub file: String,
    /// Position in the file.
    pub place: Place,
    /// A statement of the error, and what would be valid.
    pub message: String,
}

impl TraceError {
    /// An error that concerns the whole file.
    #[must_use]
    pub fn new(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::File, message: message.into() }
    }

    /// An error in a line, counted from 1.
    #[must_use]
    pub fn line(file: &str, line: u64, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::Line(line), message: message.into() }
    }

    /// An error at a byte, counted from 0.
    #[must_use]
    pub fn offset(file: &str, offset: u64, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::Offset(offset), message: message.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::File => write!(f, "{}: {}", self.file, self.message),
            Place::Line(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            Place::Offset(offset) => write!(f, "{}: offset {offset}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for TraceError {}

/// Quotes text from a file in a message: at most 60 characters, with control characters as escapes.
pub(crate) fn clip(text: &str) -> String {
    const MOST: usize = 60;
    let mut short = String::new();
    for c in text.chars().take(MOST) {
        if c.is_control() { short.extend(c.escape_debug()) } else { short.push(c) }
    }
    if text.chars().nth(MOST).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
}
