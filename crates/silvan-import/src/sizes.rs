//! Distributions of message sizes: a size and a share per line, separated by blanks or commas, or the form of
//! ns-2 with a number between them.

use std::path::Path;

use silvan_network::traffic::{Cdf, LARGEST_MESSAGE};

use crate::ImportError;
use crate::text::{lines, read_text, without_exponent};

/// Reads a distribution of sizes. Also returns a note if the unit of its sizes is uncertain.
///
/// # Errors
/// If the file cannot be read, or is not a distribution.
pub fn read(path: &Path) -> Result<(Cdf, Option<String>), ImportError> {
    let (text, origin) = (read_text(path)?, path.display().to_string());
    let mut points = Vec::new();
    let mut numbers = Vec::new();
    let mut has_middle = false;
    for (number, line) in lines(&text) {
        let wrong = || {
            let what = format!(
                "`{line}` is no point of a distribution; a line has a size (0 to {} bytes) and a share, such as `10000 0.15`",
                LARGEST_MESSAGE.0
            );
            ImportError::at(&origin, number, what)
        };
        let fields: Vec<&str> = line.split([' ', '\t', ',']).filter(|field| !field.is_empty()).collect();
        if points.is_empty() && numbers.is_empty() && is_title(&fields) {
            continue;
        }
        let (size, share) = match fields[..] {
            [size, share] => (size, share),
            // In ns-2's form, the second number has no effect on the distribution.
            [size, middle, share] if middle.parse::<f64>().is_ok() => {
                has_middle = true;
                (size, share)
            }
            _ => return Err(wrong()),
        };
        let size = whole(size).filter(|&size| u64::from(size) <= LARGEST_MESSAGE.0);
        let share = share.parse::<f64>().ok().filter(|share| share.is_finite());
        let (Some(size), Some(share)) = (size, share) else { return Err(wrong()) };
        points.push((size, share));
        numbers.push(number);
    }
    // Shares are fractions or percentages; the last one, 1 or 100, shows which.
    if points.last().is_some_and(|&(_, share)| share <= 1.0) {
        points.iter_mut().for_each(|(_, share)| *share *= 100.0);
    }
    let cdf = Cdf::new(&points).map_err(|(at, what)| match numbers.get(at) {
        Some(&number) => ImportError::at(&origin, number, what),
        None => ImportError::new(&origin, what),
    })?;
    let note = "the file has the three columns of ns-2, where sizes are often numbers of packets; they are read as bytes, and the \
                second column is not used";
    Ok((cdf, has_middle.then(|| note.to_owned())))
}

/// Whether a line consists of the titles of columns: words that start with letters.
fn is_title(fields: &[&str]) -> bool {
    matches!(fields.len(), 2 | 3)
        && fields.iter().all(|field| {
            field.starts_with(|c: char| c.is_ascii_alphabetic()) && field.parse::<f64>().is_err()
        })
}

/// A whole number, also as `1000.0` or `1e3`.
fn whole(text: &str) -> Option<u32> {
    let text = without_exponent(text)?;
    let whole = match text.split_once('.') {
        Some((whole, part)) if part.bytes().all(|b| b == b'0') => whole,
        _ => &text,
    };
    whole.parse().ok()
}
