//! Real fabrics: what the InfiniBand tools print, read and written.
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`read_text`] | plain or gzip files, with bounds on memory |
//! | [`ibnetdiscover`] | the wiring, as `ibnetdiscover` prints it and `ibsim` reads it |
//! | [`lst`] | the wiring as a list of links (`opensm-subnet.lst`) |
//! | [`sections`] | the wiring in sections (`ibdiagnet2.db_csv`, `opensm-smdb.dump`) |
//! | [`iblinkinfo`] | the wiring as `iblinkinfo` prints it |
//! | [`lft`] | forwarding tables, as OpenSM (`opensm-lfts.dump`, `opensm.fdbs`) or `dump_fts` writes them |
//! | [`far`] | forwarding tables with groups for adaptive routing (`ibdiagnet2.far`) |
//! | [`lanes`] | service levels of paths, SL-to-VL tables |
//! | [`site`] | all of these, told apart by what stands in them |
//! | [`identity`] | LIDs and GUIDs for topologies that have none |
//!
//! These files come from anywhere, so every reader checks before it allocates, and says file,
//! line, what is there and what would be right.

pub mod far;
pub mod iblinkinfo;
pub mod ibnetdiscover;
pub mod identity;
pub mod lanes;
pub mod lft;
pub mod lst;
mod natural;
mod records;
mod scan;
pub mod sections;
pub mod site;
mod speed;
pub(crate) mod text;

use std::fmt;

pub use text::{MAX_LINE_BYTES, MAX_TEXT_BYTES, decode, read_text};

/// The most nodes a fabric may have; InfiniBand itself stops at 49,151 LIDs.
pub const MAX_NODES: usize = 200_000;
/// The most ports a node may have: port numbers are one byte, and 255 means "no route".
pub const MAX_PORTS: u16 = 254;
/// The largest LID that can name one port; those above are multicast groups.
pub const MAX_UNICAST_LID: u16 = 0xbfff;

/// What is wrong with an imported file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The file, as its reader was told.
    pub file: String,
    /// The line, from 1; `None` where no single line is at fault.
    pub line: Option<usize>,
    /// What is wrong; what would be right.
    pub message: String,
}

impl ImportError {
    /// An error of a whole file.
    #[must_use]
    pub fn new(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, message: message.into() }
    }

    /// An error in one line, counted from 1.
    #[must_use]
    pub fn at(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ImportError {}

/// Quotes foreign text in a message: short, and without control characters.
fn clip(text: &str) -> String {
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
