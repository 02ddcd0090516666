//! Reads plain or gzip files of any size line by line, with limits.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::TraceError;

/// Maximum length of a line: 1 MiB, which is enough for a vector collective of 100,000 ranks.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Number of bytes from which the format is detected.
pub(super) const HEAD: u64 = 4096;

/// Opens a regular file.
///
/// # Errors
/// If the file does not exist, cannot be read, or is a folder, FIFO or device. Opening a FIFO would
/// block until another process writes to it, and a device may never end.
pub fn open(path: &Path) -> Result<File, TraceError> {
    let failed = |error: std::io::Error| {
        TraceError::new(&path.display().to_string(), format!("cannot be read: {error}"))
    };
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "is a folder" } else { "is a FIFO, a device or a socket" };
        return Err(TraceError::new(
            &path.display().to_string(),
            format!("{what}; a regular file is needed"),
        ));
    }
    File::open(path).map_err(failed)
}

/// Decompresses gzip data and passes other data through.
///
/// # Errors
/// If the first two bytes cannot be read.
pub fn unpacked<'r>(mut from: impl Read + 'r) -> std::io::Result<Box<dyn BufRead + 'r>> {
    let mut start = Vec::with_capacity(2);
    from.by_ref().take(2).read_to_end(&mut start)?;
    let gzip = start == [0x1f, 0x8b];
    let whole = BufReader::new(Cursor::new(start).chain(from));
    Ok(if gzip { Box::new(BufReader::new(MultiGzDecoder::new(whole))) } else { Box::new(whole) })
}

/// Reads the first bytes of a file after decompression.
///
/// # Errors
/// Same as [`open`], and if the gzip stream is damaged.
pub fn head(path: &Path, into: &mut Vec<u8>) -> Result<(), TraceError> {
    let name = path.display().to_string();
    let file = open(path)?;
    let read = unpacked(file).and_then(|mut from| from.by_ref().take(HEAD).read_to_end(into));
    read.map(|_| ()).map_err(|error| TraceError::new(&name, format!("cannot be read: {error}")))
}

/// A text that is read line by line.
pub struct Source<'r> {
    /// The name of the file for error messages.
    pub name: String,
    /// Number of the line that was requested last, counted from 1; 0 before the first request.
    pub line: u64,
    from: Box<dyn BufRead + 'r>,
    bytes: Vec<u8>,
}

impl<'r> Source<'r> {
    /// Opens a file.
    ///
    /// # Errors
    /// Same as [`open`].
    pub fn open(path: &Path) -> Result<Source<'static>, TraceError> {
        Source::new(open(path)?, &path.display().to_string())
    }

    /// Reads bytes from any source, plain or gzip.
    ///
    /// # Errors
    /// If the first two bytes cannot be read.
    pub fn new(from: impl Read + 'r, name: &str) -> Result<Self, TraceError> {
        let from =
            unpacked(from).map_err(|error| TraceError::new(name, format!("cannot be read: {error}")))?;
        Ok(Self { name: name.to_owned(), line: 0, from, bytes: Vec::new() })
    }

    /// The next line, without its line break; `None` at the end.
    ///
    /// # Errors
    /// If the line cannot be read, is longer than [`MAX_LINE_BYTES`], or is not UTF-8.
    pub fn next_line(&mut self) -> Result<Option<&str>, TraceError> {
        self.bytes.clear();
        self.line += 1;
        let most = MAX_LINE_BYTES as u64 + 2;
        let read = self.from.by_ref().take(most).read_until(b'\n', &mut self.bytes);
        if let Err(error) = read {
            return Err(self.error(format!("cannot be read: {error}")));
        }
        if self.bytes.is_empty() {
            return Ok(None);
        }
        while matches!(self.bytes.last(), Some(b'\n' | b'\r')) {
            self.bytes.pop();
        }
        if self.bytes.len() > MAX_LINE_BYTES {
            return Err(self.error(format!("the line is longer than {MAX_LINE_BYTES} bytes")));
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(TraceError::line(&self.name, self.line, "is not UTF-8 text; check the format")),
        }
    }

    /// Creates an error that names the file and the line that was read last.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> TraceError {
        TraceError::line(&self.name, self.line, message)
    }
}
