//! Finds files that belong together: one per rank, or listed in an index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::Source;
use crate::error::{TraceError, clip};
use crate::trace::MAX_RANKS;

/// The rank number in a file name, and the parts of the name before and after it.
#[derive(Debug, PartialEq, Eq)]
struct Numbered<'n> {
    before: &'n str,
    number: u64,
    digits: usize,
    /// The extension, without `.gz`.
    behind: &'n str,
    gzip: bool,
}

/// Splits a file name such as `job.3.et` or `actions3.txt.gz` at the number directly before the extension.
/// `None` without such a number.
fn numbered(name: &str) -> Option<Numbered<'_>> {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let stem = plain.rfind('.').map_or(plain, |dot| &plain[..dot]);
    let start = stem.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |last| last + 1);
    let digits = stem.get(start..).filter(|digits| !digits.is_empty())?;
    Some(Numbered {
        before: &name[..start],
        number: digits.parse().ok()?,
        digits: digits.len(),
        behind: &plain[stem.len()..],
        gzip: plain.len() < name.len(),
    })
}

/// A file of a rank.
struct Member {
    path: PathBuf,
    digits: usize,
    gzip: bool,
}

/// The files in the folder of `path` that differ from it only in the rank number or `.gz`, by rank. If a
/// rank has a plain and a compressed file, the one of the same kind as `path` is used.
fn members(path: &Path, own: &Numbered<'_>) -> Result<BTreeMap<u64, Member>, TraceError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unreadable = |error: std::io::Error| {
        TraceError::new(&folder.display().to_string(), format!("cannot be read: {error}"))
    };
    let mut found: BTreeMap<u64, Member> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(other) = name.to_str().and_then(numbered) else { continue };
        if (other.before, other.behind) != (own.before, own.behind) {
            continue;
        }
        let member = Member { path: path.with_file_name(&name), digits: other.digits, gzip: other.gzip };
        if !member.path.is_file() {
            continue;
        }
        let Some(known) = found.get(&other.number) else {
            found.insert(other.number, member);
            if found.len() > MAX_RANKS as usize {
                let message = format!("its folder has files of more than {MAX_RANKS} ranks, the maximum");
                return Err(TraceError::new(&path.display().to_string(), message));
            }
            continue;
        };
        if known.digits != member.digits {
            let (one, two) = (known.path.display().to_string(), member.path.display());
            let message =
                format!("this file and {two} are both of rank {}; remove one of them", other.number);
            return Err(TraceError::new(&one, message));
        }
        if member.gzip == own.gzip {
            found.insert(other.number, member);
        }
    }
    Ok(found)
}

/// The file and those in its folder that differ only in the rank number, in the order of ranks. If the name
/// contains no number, only the file itself.
///
/// # Errors
/// If the file of a rank is missing or a rank has two file numbers, such as 3 and 03, if there are too many
/// ranks, or if the folder cannot be read.
pub(super) fn of_numbered(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(own) = name.and_then(numbered) else { return Ok(vec![path.to_owned()]) };
    let found = members(path, &own)?;
    // A file that does not exist is reported when it is opened.
    let Some((&last, _)) = found.last_key_value().filter(|_| found.contains_key(&own.number)) else {
        return Ok(vec![path.to_owned()]);
    };
    let padded = found
        .values()
        .find(|file| file.path.file_name().is_some_and(|name| is_padded(&name.to_string_lossy())));
    let width = padded.map_or(1, |file| file.digits);
    if let Some(rank) = (0..last).find(|rank| !found.contains_key(rank)) {
        let ending = if own.gzip { ".gz" } else { "" };
        let missing = path.with_file_name(format!("{}{rank:0width$}{}{ending}", own.before, own.behind));
        let message = if found.len() == 1 {
            format!(
                "{} is missing: the number in the name is taken as the rank, and ranks start from 0; add the files \
                 of the other ranks, or rename the file if it is the whole trace",
                missing.display()
            )
        } else {
            format!(
                "{} is missing: the trace has a file for each rank, and its last rank is {last}; add the file, or \
                 remove those of later ranks",
                missing.display()
            )
        };
        return Err(TraceError::new(&path.display().to_string(), message));
    }
    Ok(found.into_values().map(|file| file.path).collect())
}

/// The file of the first rank in a folder that contains the files of one trace, one per rank, or its only file. Files without a
/// number in their names, and hidden files, are left aside. A folder that contains one folder only stands for this one.
///
/// # Errors
/// If the folder cannot be read, has several files of which none is numbered, or has those of several traces.
pub(super) fn in_folder(folder: &Path) -> Result<PathBuf, TraceError> {
    let wrong = |what: String| TraceError::new(&folder.display().to_string(), what);
    let unreadable = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    // The first file of each set, by the parts of the names around the number.
    let mut firsts: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    let (mut only, mut visible) = (None, 0u64);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        visible += 1;
        only = Some(folder.join(name));
        let Some(found) = numbered(name).filter(|_| folder.join(name).is_file()) else { continue };
        let set = (found.before.to_owned(), found.behind.to_owned());
        if firsts.len() == MOST_SETS && !firsts.contains_key(&set) {
            let what = format!(
                "is a folder with the files of more than {MOST_SETS} traces; name a file of one of them"
            );
            return Err(wrong(what));
        }
        let own = (found.number, name.to_owned());
        firsts.entry(set).and_modify(|first| *first = own.clone().min(first.clone())).or_insert(own);
    }
    if let Some(only) = only.filter(|_| visible == 1) {
        let depth = folder.components().count();
        return match only.is_dir() {
            true if depth < MOST_FOLDERS => in_folder(&only),
            true => Err(wrong(format!("has more than {MOST_FOLDERS} folders above it"))),
            false => Ok(only),
        };
    }
    let names: Vec<&str> = firsts.values().map(|(_, name)| name.as_str()).collect();
    match names[..] {
        [] => Err(wrong(
            "is a folder without files that are numbered by rank, such as job.0.et; name the file of the trace".to_owned(),
        )),
        [name] => Ok(folder.join(name)),
        [one, two, ..] => Err(wrong(format!(
            "is a folder with the files of several traces, such as {one} and {two}; name a file of one of them"
        ))),
    }
}

/// Maximum number of sets of numbered files in a folder, which limits the memory for their names.
const MOST_SETS: usize = 1_000;

/// Maximum number of folders in the path of a trace.
const MOST_FOLDERS: usize = 256;

/// Whether the number in a name has leading zeros.
fn is_padded(name: &str) -> bool {
    numbered(name).is_some_and(|found| found.digits > 1 && name[found.before.len()..].starts_with('0'))
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
    let own = path.file_name().and_then(|name| name.to_str()).and_then(numbered);
    let (Some(own), Some(only), false) = (own, only, several) else { return Ok(vec![path.to_owned()]) };
    if own.number == only {
        return of_numbered(path);
    }
    // The numbers of the files are not those of their ranks, as in `actions1.txt` for rank 0.
    if let Some(other) = members(path, &own)?.into_values().find(|file| file.path != path) {
        let message = format!(
            "has only actions of rank {only}, and its folder has similar files, such as {}; give an index, which lists \
             the files of all ranks, one per line",
            other.path.display()
        );
        return Err(TraceError::new(&name, message));
    }
    Ok(vec![path.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_rank_is_found_in_a_name() {
        let parts = |name: &'static str| {
            numbered(name).map(|found| (found.before, found.number, found.digits, found.behind, found.gzip))
        };
        assert_eq!(parts("job.3.et"), Some(("job.", 3, 1, ".et", false)));
        assert_eq!(parts("job.0012.et.gz"), Some(("job.", 12, 4, ".et", true)));
        assert_eq!(parts("actions10.txt"), Some(("actions", 10, 2, ".txt", false)));
        assert_eq!(parts("trace.txt"), None);
        assert_eq!(parts("7"), Some(("", 7, 1, "", false)));
        assert_eq!(parts("job.99999999999999999999.et"), None);
    }

    /// A folder with empty files, which is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn with(test: &str, files: &[&str]) -> Self {
            let folder = std::env::temp_dir().join(format!("silvan-family-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            for file in files {
                std::fs::write(folder.join(file), "").unwrap();
            }
            Self(folder)
        }

        /// The names of the files that belong to a file, or the error without the folder.
        fn family(&self, of: &str) -> Result<Vec<String>, String> {
            let name = |file: PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
            let found = of_numbered(&self.0.join(of));
            let found = found.map(|files| files.into_iter().map(name).collect());
            found.map_err(|error| error.to_string().replace(&format!("{}/", self.0.display()), ""))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_stands_for_the_only_trace_in_it() {
        let first = |test: &str, files: &[&str]| {
            let folder = Folder::with(test, files);
            let found = in_folder(&folder.0).map(|path| path.strip_prefix(&folder.0).unwrap().to_owned());
            let shown = folder.0.display().to_string();
            found.map_err(|error| error.to_string().replace(&shown, "FOLDER"))
        };
        assert_eq!(
            first("only", &["w.2.et", "w.0.et", "w.1.et", "comm_group.json", ".w.9.et"]),
            Ok("w.0.et".into())
        );
        assert_eq!(first("packed", &["w.1.et.gz", "w.0.et.gz"]), Ok("w.0.et.gz".into()));
        assert_eq!(
            first("several", &["a.0.et", "a.1.et", "b.0.et"]).unwrap_err(),
            "FOLDER: is a folder with the files of several traces, such as a.0.et and b.0.et; name a file of one of them"
        );
        assert_eq!(first("single", &["trace.et"]), Ok("trace.et".into()));
        assert_eq!(
            first("none", &["trace.et", "other.et"]).unwrap_err(),
            "FOLDER: is a folder without files that are numbered by rank, such as job.0.et; name the file of the trace"
        );
    }

    #[test]
    fn all_files_of_a_set_are_found_in_the_order_of_ranks() {
        let names: Vec<String> = (0..12).map(|rank| format!("job.{rank}.et")).collect();
        let files: Vec<&str> = names.iter().map(String::as_str).collect();
        let folder = Folder::with("all", &files);
        for of in ["job.0.et", "job.3.et", "job.11.et"] {
            assert_eq!(folder.family(of).unwrap(), names);
        }
        // The number of the last rank has no leading zeros.
        let padded: Vec<String> = (0..12).map(|rank| format!("p{rank:02}")).collect();
        let files: Vec<&str> = padded.iter().map(String::as_str).collect();
        assert_eq!(Folder::with("padded", &files).family("p11").unwrap(), padded);
        let folder = Folder::with("gzip", &["a0.et", "a1.et.gz", "a1.et", "a2.et.gz"]);
        assert_eq!(folder.family("a0.et").unwrap(), ["a0.et", "a1.et", "a2.et.gz"]);
        assert_eq!(folder.family("a2.et.gz").unwrap(), ["a0.et", "a1.et.gz", "a2.et.gz"]);
        let folder = Folder::with("one", &["trace.et", "other.0.et"]);
        assert_eq!(folder.family("trace.et").unwrap(), ["trace.et"]);
        assert_eq!(folder.family("other.0.et").unwrap(), ["other.0.et"]);
    }

    #[test]
    fn every_gap_in_a_set_is_an_error_that_names_the_missing_file() {
        let all: Vec<String> = (0..12).map(|rank| format!("job.{rank}.et")).collect();
        for gap in 0..11 {
            let files: Vec<&str> = all.iter().map(String::as_str).filter(|name| *name != all[gap]).collect();
            let folder = Folder::with("gap", &files);
            for of in &files {
                let error = folder.family(of).unwrap_err();
                assert!(error.starts_with(&format!("{of}: job.{gap}.et is missing: ")), "{error}");
            }
        }
        let folder = Folder::with("alone", &["job.3.et"]);
        assert!(
            folder.family("job.3.et").unwrap_err().contains("job.0.et is missing: the number in the name")
        );
        let folder = Folder::with("zeros", &["job.00.et", "job.02.et", "job.10.et"]);
        assert!(folder.family("job.10.et").unwrap_err().contains("job.01.et is missing"));
        let folder = Folder::with("twice", &["job.0.et", "job.1.et", "job.01.et"]);
        assert!(folder.family("job.0.et").unwrap_err().contains("are both of rank 1; remove one of them"));
    }
}
