//! Finds files that belong together: one per rank, or listed in an index.

use std::path::{Path, PathBuf};

use super::source::Source;
use crate::error::{TraceError, clip};
use crate::trace::MAX_RANKS;

/// The rank number in a file name, and the parts of the name before and after it.
struct Numbered {
    before: String,
    number: u64,
    width: usize,
    behind: String,
}

/// Splits `job.3.et` or `actions3.txt` at the last number before the extension.
fn numbered(path: &Path) -> Option<Numbered> {
    let name = path.file_name()?.to_str()?;
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let stem = plain.rfind('.').map_or(plain, |dot| &plain[..dot]);
    let start = stem.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |last| last + 1);
    let digits = stem.get(start..).filter(|digits| !digits.is_empty())?;
    Some(Numbered {
        before: name[..start].to_owned(),
        number: digits.parse().ok()?,
        width: if digits.starts_with('0') { digits.len() } else { 1 },
        behind: name[stem.len()..].to_owned(),
    })
}

/// The file and those in its folder that differ only in the rank number, starting with rank 0. If there
/// are none, only the file itself.
pub(super) fn of_numbered(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_owned()];
    let Some(Numbered { before, number, width, behind }) = numbered(path) else { return alone() };
    let of = |rank: u64| path.with_file_name(format!("{before}{rank:0width$}{behind}"));
    let files: Vec<PathBuf> = (0..u64::from(MAX_RANKS)).map(of).take_while(|file| file.is_file()).collect();
    if number < files.len() as u64 { files } else { alone() }
}

/// The path of a file that an index names: in the folder of the index, or else as given.
fn sibling(index: &Path, name: &str) -> PathBuf {
    let here = index.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    if here.is_file() { here } else { PathBuf::from(name) }
}

/// Whether a line of an index names a file.
pub(super) fn names_files(line: &str, path: &Path) -> bool {
    let name = line.split_whitespace().next().unwrap_or_default();
    !name.is_empty() && sibling(path, name).is_file()
}

/// The files of a time-independent trace: those in the index, those of the other ranks, or only the file
/// itself.
pub(super) fn of_ti(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let mut source = Source::open(path)?;
    let mut files = Vec::new();
    let mut is_index = false;
    let mut only = None;
    let mut several = false;
    let name = path.display().to_string();
    let mut number = 0;
    while let Some(line) = source.next_line()? {
        number += 1;
        let Some(word) = line.split_whitespace().next() else { continue };
        let rank = word.parse::<u64>().ok();
        if rank.is_none() || is_index {
            let file = sibling(path, word);
            if !file.is_file() {
                let message = format!("{} is neither a rank nor a file", clip(word));
                return Err(TraceError::line(&name, number, message));
            }
            if only.is_some() {
                return Err(TraceError::line(&name, number, "an index of files has no lines of ranks"));
            }
            is_index = true;
            files.push(file);
            if files.len() > MAX_RANKS as usize {
                return Err(TraceError::line(&name, number, format!("more than {MAX_RANKS} files")));
            }
            continue;
        }
        several |= only.is_some_and(|only| Some(only) != rank);
        only = rank;
        if several {
            break;
        }
    }
    if is_index {
        return Ok(files);
    }
    let own = numbered(path).map(|numbered| numbered.number);
    Ok(if !several && own.is_some() && own == only { of_numbered(path) } else { vec![path.to_owned()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_rank_is_found_in_a_name() {
        let parts = |name: &str| {
            numbered(Path::new(name)).map(|found| (found.before, found.number, found.width, found.behind))
        };
        let of = |before: &str, number, width, behind: &str| {
            Some((before.to_owned(), number, width, behind.to_owned()))
        };
        assert_eq!(parts("job.3.et"), of("job.", 3, 1, ".et"));
        assert_eq!(parts("job.0012.et.gz"), of("job.", 12, 4, ".et.gz"));
        assert_eq!(parts("actions10.txt"), of("actions", 10, 1, ".txt"));
        assert_eq!(parts("trace.txt"), None);
        assert_eq!(parts("7"), of("", 7, 1, ""));
    }
}
