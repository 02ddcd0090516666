//! Reads SimGrid's time-independent traces: `RANK ACTION ARGUMENT...`, one action per line.
//!
//! Either one file contains all ranks, or each rank has a file: an index lists the files, or their names
//! contain the numbers of the ranks. Collective operations include all ranks and are expanded by the
//! selected algorithms. The duration of a computation is its number of operations divided by
//! [`Options::host_flops`].

use std::collections::HashSet;
use std::path::PathBuf;

use crate::error::{TraceError, clip};
use crate::read::source::Source;
use crate::read::ti_actions::Process;
pub use crate::read::ti_actions::is_action;
use crate::read::{Fault, Options};
use crate::trace::{BuildError, MAX_RANKS, Trace, TraceBuilder};

/// Reads the files of a trace.
///
/// # Errors
/// If a file cannot be read or is invalid, or the trace exceeds `options.limit()`. Errors of a line contain its
/// number.
pub fn read_files(files: &[PathBuf], options: &Options) -> Result<Trace, TraceError> {
    read(files.len(), &|file| Source::open(&files[file]), options)
}

/// Reads a trace from `count` sources. Each is opened twice: first to count the ranks, then to read the
/// actions.
///
/// # Errors
/// If a source cannot be read or is invalid, or the trace exceeds `options.limit()`. Errors of a line contain
/// its number.
pub fn read<'r>(
    count: usize,
    open: &dyn Fn(usize) -> Result<Source<'r>, TraceError>,
    options: &Options,
) -> Result<Trace, TraceError> {
    let mut seen = HashSet::new();
    let mut name = String::new();
    for file in 0..count {
        let mut source = open(file)?;
        if file == 0 {
            name.clone_from(&source.name);
        }
        let here = source.name.clone();
        let mut number = 0;
        while let Some(line) = source.next_line()? {
            number += 1;
            if let Some((rank, _)) =
                split(line).map_err(|message| TraceError::line(&here, number, message))?
            {
                seen.insert(rank);
            }
        }
    }
    let ranks = seen.iter().max().map_or(0, |&last| last + 1);
    if ranks == 0 {
        return Err(TraceError::new(&name, "there are no actions"));
    }
    if let Some(missing) = (0..ranks).find(|rank| !seen.contains(rank)) {
        let message = format!("rank {missing} has no actions, although there are ranks up to {}", ranks - 1);
        return Err(TraceError::new(&name, message));
    }
    let mut build = TraceBuilder::new(u64::from(ranks), options.limit())
        .map_err(|error| TraceError::new(&name, error.to_string()))?;
    let mut processes: Vec<Process> = (0..ranks).map(Process::new).collect();
    let mut caught = 0;
    for file in 0..count {
        let mut source = open(file)?;
        let here = source.name.clone();
        let mut number = 0;
        while let Some(line) = source.next_line()? {
            number += 1;
            let at = |message: String| TraceError::line(&here, number, message);
            let Some((rank, words)) = split(line).map_err(at)? else { continue };
            let Some(process) = processes.get_mut(rank as usize) else { continue };
            match process.act(&mut build, ranks, &words, options) {
                Ok(()) => {}
                Err(Fault::Build(BuildError::Peer { operation, ranks, .. })) => {
                    let peer = operation.peer;
                    return Err(at(format!(
                        "rank {peer} does not exist: the file has ranks 0 to {}",
                        ranks - 1
                    )));
                }
                Err(fault) => return Err(fault.at(&here, number)),
            }
            caught += u64::from(std::mem::take(&mut process.caught));
        }
    }
    if caught > 0 {
        build
            .notes
            .push(format!("{caught} waits have no open request: a `test` is assumed to have completed it"));
    }
    build.finish().map_err(|error| TraceError::new(&name, error.to_string()))
}

/// Whether a word is the name of a process in the older form, such as `p0`.
pub(super) fn is_process(word: &str) -> bool {
    let number = word.strip_prefix('p').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a line into the rank and the other words; `None` for an empty line.
fn split(line: &str) -> Result<Option<(u32, Vec<&str>)>, String> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    if is_process(first) {
        return Err(format!(
            "{} names a process: this is the older form of SimGrid's traces; write the number of the rank, {}, and a tag (0) \
             after the peer of each message",
            clip(first),
            &first[1..]
        ));
    }
    let rank = first.parse::<u32>().ok().filter(|&rank| rank < MAX_RANKS);
    let rank = rank.ok_or_else(|| format!("{} is not a rank from 0 to {}", clip(first), MAX_RANKS - 1))?;
    Ok(Some((rank, words.collect())))
}
