//! Reads plain or gzip files as text, with size limits.

use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::ImportError;
use crate::plain;

/// Maximum size of a file after decompression: 256 MiB.
pub const MAX_TEXT_BYTES: usize = 256 << 20;
/// Maximum length of a line: 64 KiB.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Reads a text file, plain or gzip (detected from the first bytes, not from the name).
///
/// # Errors
/// If the file cannot be read, is larger than [`MAX_TEXT_BYTES`] after decompression, is an incomplete gzip
/// stream, has a line longer than [`MAX_LINE_BYTES`], or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ImportError> {
    let origin = path.display().to_string();
    let file = plain::open(path).map_err(|e| ImportError::new(&origin, format!("cannot be opened: {e}")))?;
    decode(file, &origin)
}

/// Same as [`read_text`], from any source of bytes; `origin` is the name in error messages.
///
/// # Errors
/// Same as [`read_text`].
pub fn decode(source: impl Read, origin: &str) -> Result<String, ImportError> {
    decode_within(source, origin, MAX_TEXT_BYTES)
}

fn decode_within(source: impl Read, origin: &str, limit: usize) -> Result<String, ImportError> {
    let mut source = BufReader::new(source);
    let mut start = Vec::with_capacity(2);
    let unreadable = |e: std::io::Error| ImportError::new(origin, format!("cannot be read: {e}"));
    source.by_ref().take(2).read_to_end(&mut start).map_err(unreadable)?;
    let gzip = start == [0x1f, 0x8b];
    let whole = BufReader::new(std::io::Cursor::new(start).chain(source));
    let bytes = if gzip {
        bounded(MultiGzDecoder::new(whole), origin, limit, |e| {
            ImportError::new(
                origin,
                format!("the gzip stream is damaged or truncated ({e}); create the file again"),
            )
        })?
    } else {
        bounded(whole, origin, limit, unreadable)?
    };
    check_lines(&bytes, origin)?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count();
        ImportError::at(
            origin,
            line,
            "is not UTF-8 text; convert it, for example with `iconv -f latin1 -t utf-8`",
        )
    })
}

/// Reads to the end, but never keeps much more than `limit` bytes in memory.
fn bounded(
    source: impl Read,
    origin: &str,
    limit: usize,
    broken: impl Fn(std::io::Error) -> ImportError,
) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source.take(most).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() > limit {
        let line = 1 + bytes.iter().filter(|&&b| b == b'\n').count();
        let message = format!("the text is longer than {limit} bytes (decompressed), the maximum for a file");
        return Err(ImportError::at(origin, line, message));
    }
    Ok(bytes)
}

fn check_lines(bytes: &[u8], origin: &str) -> Result<(), ImportError> {
    for (index, line) in bytes.split(|&b| b == b'\n').enumerate() {
        if line.len() > MAX_LINE_BYTES {
            let message = format!("the line has {} bytes; a line has at most {MAX_LINE_BYTES}", line.len());
            return Err(ImportError::at(origin, index + 1, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn message(bytes: &[u8]) -> String {
        decode(bytes, "f").unwrap_err().to_string()
    }

    #[test]
    fn plain_and_gzip_give_the_same_text() {
        let text = "one\ntwo\n";
        assert_eq!(decode(text.as_bytes(), "f").unwrap(), text);
        assert_eq!(decode(&gzip(text.as_bytes())[..], "f").unwrap(), text);
        let two = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(decode(&two[..], "f").unwrap(), text, "concatenated members, as `cat a.gz b.gz` makes");
        assert_eq!(decode(&b""[..], "f").unwrap(), "");
        assert_eq!(decode(&b"\x1f"[..], "f").unwrap(), "\x1f", "one byte is not a gzip header");
    }

    #[test]
    fn a_gzip_bomb_is_stopped_at_the_limit() {
        let bomb = gzip(&b"0123456789abcde\n".repeat(1 << 16));
        assert!(bomb.len() < 1 << 13, "the compressed file is small: {}", bomb.len());
        let error = decode_within(&bomb[..], "bomb.gz", 4096).unwrap_err().to_string();
        assert_eq!(
            error,
            "bomb.gz:257: the text is longer than 4096 bytes (decompressed), the maximum for a file"
        );
        assert!(decode_within(&[b'a'; 4096][..], "f", 4096).is_ok(), "the limit itself is allowed");
    }

    #[test]
    fn damaged_bytes_are_reported() {
        let whole = gzip(b"some text that is long enough\n");
        let cut = message(&whole[..whole.len() - 9]);
        assert!(cut.starts_with("f: the gzip stream is damaged or truncated ("), "{cut}");
        assert_eq!(
            message(b"ok\nok\nM\xfcnchen\n"),
            "f:3: is not UTF-8 text; convert it, for example with `iconv -f latin1 -t utf-8`"
        );
        let long = [b"ok\n".to_vec(), vec![b'x'; MAX_LINE_BYTES + 1]].concat();
        assert_eq!(message(&long), "f:2: the line has 65537 bytes; a line has at most 65536");
    }

    #[test]
    fn a_missing_file_is_reported() {
        let error = read_text(Path::new("no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/file: cannot be opened: "), "{error}");
    }
}
