//! Splits a file into lines and tokens, and keeps positions for error messages.

use super::notes::{Notes, What};
use super::{ImportError, clip, noise};

/// The lines of a file, numbered from 1, without line ends ("\n" or "\r\n") and without the lines of a
/// terminal or of an error stream.
pub(super) struct Lines<'a> {
    origin: &'a str,
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    notes: Option<&'a Notes>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str, origin: &'a str) -> Self {
        Self { origin, rest: text.lines().enumerate(), notes: None }
    }

    /// The same lines. The omitted lines of a terminal or an error stream are noted.
    pub(super) fn of_output(text: &'a str, origin: &'a str, notes: &'a Notes) -> Self {
        Self { notes: Some(notes), ..Self::new(text, origin) }
    }

    /// The lines that have content. Leading blanks, empty lines and comments (`#`) are removed.
    pub(super) fn rows(
        text: &'a str,
        origin: &'a str,
    ) -> impl Iterator<Item = Result<Cursor<'a>, ImportError>> {
        let trimmed = Self::new(text, origin).map(|line| {
            let mut line = line?;
            line.skip_blanks();
            Ok(line)
        });
        let says = |line: &Cursor| !line.rest.is_empty() && !line.rest.starts_with('#');
        trimmed.filter(move |line: &Result<Cursor, ImportError>| line.as_ref().map_or(true, says))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Cursor<'a>, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut index, mut line) = self.rest.next()?;
        while noise::is_noise(line) {
            if let Some(notes) = self.notes {
                notes.add(What::Around, index + 1);
            }
            (index, line) = self.rest.next()?;
        }
        // A terminal may have written carriage returns at the ends of a line.
        let line = line.trim_start_matches('\r').trim_end();
        let cursor = Cursor { origin: self.origin, line: index + 1, rest: line };
        if let Some(c) = cursor.rest.chars().find(|c| c.is_control() && *c != '\t') {
            let message = format!(
                "the line contains the control character U+{:04X}; this must be plain text",
                u32::from(c)
            );
            return Some(Err(cursor.error(message)));
        }
        Some(Ok(cursor))
    }
}

/// The unread rest of a line.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) origin: &'a str,
    pub(super) line: usize,
    pub(super) rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        ImportError::at(self.origin, self.line, message)
    }

    /// Parses `text`, a part of this line, as a GUID.
    pub(super) fn guid(&self, text: &str) -> Result<u64, ImportError> {
        let wrong = || format!("the GUID is {}; a valid one is 0x0002c90200000000", clip(text));
        guid(text).ok_or_else(|| self.error(wrong()))
    }

    pub(super) fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes everything up to and including `end`; returns the text before it. `None` if `end` does not
    /// occur.
    pub(super) fn until(&mut self, end: &str) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes the next run of non-blank characters.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_blanks();
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Takes `[number]`, a port number from 1 to `most`. Error messages call it `what`.
    pub(super) fn port(&mut self, most: u16, what: &str) -> Result<u16, ImportError> {
        let Some(inside) = self.take("[").then(|| self.until("]")).flatten() else {
            return Err(self.error(format!("{what} is not complete: {}; write `[NUMBER]`", clip(self.rest))));
        };
        match inside.parse() {
            Ok(port) if (1..=most).contains(&port) => Ok(port),
            _ => Err(self.error(format!("{what} is {}; it must be a number from 1 to {most}", clip(inside)))),
        }
    }
}

/// Parses a GUID in hexadecimal, with or without `0x` and leading zeros.
pub(super) fn guid(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Parses a LID, either decimal or hexadecimal with `0x`. 0 means that the port has no LID.
pub(super) fn lid(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten(),
    }
}
