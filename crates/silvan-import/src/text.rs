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
    let bytes = unicode(bytes).map_err(|what| ImportError::new(origin, what))?;
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

/// Converts text to UTF-8 without a byte-order mark. Text with a mark of UTF-16, which PowerShell writes, is
/// decoded as UTF-16. Other text is returned unchanged.
///
/// # Errors
/// If UTF-16 text is damaged.
pub fn unicode(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    const UTF_8: [u8; 3] = [0xef, 0xbb, 0xbf];
    if bytes.starts_with(&UTF_8) {
        bytes.drain(..UTF_8.len());
        return Ok(bytes);
    }
    let unit: fn([u8; 2]) -> u16 = match bytes.first_chunk() {
        Some([0xff, 0xfe]) => u16::from_le_bytes,
        Some([0xfe, 0xff]) => u16::from_be_bytes,
        _ => return Ok(bytes),
    };
    let pairs = bytes[2..].chunks(2);
    let units = pairs.map(|pair| unit([pair[0], *pair.get(1).unwrap_or(&0)]));
    // At most three bytes for each pair of bytes.
    let text: Result<String, _> = char::decode_utf16(units).collect();
    match text {
        Ok(text) if bytes.len().is_multiple_of(2) => Ok(text.into_bytes()),
        _ => Err("is damaged UTF-16 text; create the file again".to_owned()),
    }
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

/// The lines of a text with their numbers, without comments and empty lines.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    let bare = numbered.map(|(number, line)| (number, line.split('#').next().unwrap_or("").trim()));
    bare.filter(|(_, line)| !line.is_empty())
}

/// Largest exponent of a number, which limits the length of the number without exponent.
const MOST_EXPONENT: i32 = 30;

/// A decimal number without its exponent, such as 0.00001 for 1e-5, so that it can be parsed without rounding.
/// `None` if it has an exponent that is no number from -30 to 30, or another part is not a decimal number.
pub fn without_exponent(number: &str) -> Option<String> {
    let Some((digits, exponent)) = number.split_once(['e', 'E']) else { return Some(number.to_owned()) };
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| exponent.abs() <= MOST_EXPONENT)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let all = format!("{}{all}{}", zeros(1 - point), zeros(point - all.len() as i32));
    let (whole, part) = all.split_at(usize::try_from(point.max(1)).ok()?);
    let part = part.trim_end_matches('0');
    Some(if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") })
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
    fn utf_16_and_byte_order_marks_are_read() {
        let text = "Switch 8 \"S-1\" # \"M\u{fc}nchen \u{1f600}\"\r\n";
        let little: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
        for bytes in [&little, &big, &marked, &gzip(&little)] {
            assert_eq!(decode(&bytes[..], "f").unwrap(), text);
        }
        let odd = message(&little[..little.len() - 1]);
        assert_eq!(odd, "f: is damaged UTF-16 text; create the file again");
        assert_eq!(message(b"\xff\xfe\x00\xd8a\0"), "f: is damaged UTF-16 text; create the file again");
        assert_eq!(decode(&b"\xff\xfe"[..], "f").unwrap(), "");
    }

    #[test]
    fn a_missing_file_is_reported() {
        let error = read_text(Path::new("no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/file: cannot be opened: "), "{error}");
    }

    #[test]
    fn exponents_are_written_out() {
        let cases = [
            ("1e-5", Some("0.00001")),
            ("1.25E+1", Some("12.5")),
            ("2.5e3", Some("2500")),
            ("1e12", Some("1000000000000")),
            ("12.5e-1", Some("1.25")),
            ("0e0", Some("0")),
            ("7", Some("7")),
            ("e5", None),
            ("1e", None),
            ("1e99", None),
            ("-1e3", None),
            ("1.2.3e1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(without_exponent(text).as_deref(), expected, "{text}");
        }
    }
}
