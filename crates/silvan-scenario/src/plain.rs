//! Opening what is to be read: plain files only.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a plain file for reading.
///
/// Opening a FIFO waits for whoever writes to it, and a device such as `/dev/zero` has no end, so
/// what `path` leads to is asked before it is opened.
///
/// # Errors
/// Where there is nothing of that name, it may not be read, or is anything but a plain file.
pub fn open(path: &Path) -> Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "is a folder; a file is wanted here"));
    }
    if !kind.is_file() {
        let what = "not a plain file but a FIFO, a device or a socket; write what it gives to a file first";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    File::open(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_missing_files_are_refused() {
        let folder = open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert_eq!(folder.to_string(), "is a folder; a file is wanted here");
        assert_eq!(open(Path::new("no/such/file")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_refused_before_they_are_opened() {
        let error = open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("not a plain file but a FIFO, a device or a socket"), "{error}");
    }
}
