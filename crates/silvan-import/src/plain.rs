//! Opens regular files only.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a regular file for reading.
///
/// Opening a FIFO blocks until another process writes to it, and a device such as `/dev/zero` never ends,
/// so the file type is checked before the file is opened.
///
/// # Errors
/// If the file does not exist, cannot be read, or is not a regular file.
pub fn open(path: &Path) -> Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "is a folder; a file is needed here"));
    }
    if !kind.is_file() {
        let what = "not a regular file but a FIFO, a device or a socket; write its content to a file first";
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
        assert_eq!(folder.to_string(), "is a folder; a file is needed here");
        assert_eq!(open(Path::new("no/such/file")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_refused_before_they_are_opened() {
        let error = open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("not a regular file but a FIFO, a device or a socket"), "{error}");
    }
}
