//! Reads binary GOAL, as written by LogGOPSim's `txt2bin`, either completely or operation by operation.
//!
//! All numbers are little-endian without padding; offsets are relative to byte 8.
//!
//! | position | contents |
//! | --- | --- |
//! | 0 | u64 4223 |
//! | 8 | u32 number of ranks, u8 highest cpu, u8 highest nic |
//! | 14 | per rank: u64 start, u64 end |
//! | start | u32 number of operations, u32 number of roots, then the roots: u32 each |
//! | then | 39 bytes per operation |
//! | then | the appendix: u32 operation numbers, to which the operations refer |
//!
//! The layout of an operation is: u32 number of dependencies; u8 kind (1 send, 2 receive, 3 calc); u32
//! peer; u64 size or time; u32 tag; u8 cpu; u8 nic; u32 number and u32 position in the appendix of the
//! operations that wait for its end; the same for the operations that wait for its start. A peer or tag
//! of 2^32 - 1 means any.

use std::io::{BufRead, Seek, SeekFrom};

use super::goal::HIGH_TAGS;
use crate::error::TraceError;
use crate::read::Options;
use crate::trace::{ANY, COLLECTIVE_TAGS, Kind, MAX_RANKS, Operation, Trace, TraceBuilder, When, scaled};

/// The first eight bytes of a file, as a number.
pub const COOKIE: u64 = 4223;
/// The first eight bytes of a file that LogGOPSim has modified.
pub const SPOILT: u64 = 2342;
/// Origin of the offsets.
const BASE: u64 = 8;
/// Size of an operation in bytes.
pub(crate) const RECORD: u64 = 39;

/// An operation as stored in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The operation, with unscaled times.
    pub operation: Operation,
    /// Number of dependencies.
    pub waits: u32,
    /// Operations that wait for its end: their number, and their position in the appendix.
    pub finish: (u32, u32),
    /// Operations that wait for its start: their number, and their position in the appendix.
    pub start: (u32, u32),
}

/// The numbers and positions of the dependencies of an operation, see [`Record`].
#[derive(Debug, Clone, Copy)]
struct Links {
    waits: u32,
    finish: (u32, u32),
    start: (u32, u32),
}

/// Positions of the sections of a rank's schedule, in bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Number of operations.
    pub operations: u32,
    /// Number of operations without dependencies.
    pub roots: u32,
    /// Position of the roots.
    pub roots_at: u64,
    /// Position of the operations.
    pub operations_at: u64,
    /// Position of the appendix.
    pub appendix_at: u64,
    /// Number of entries of the appendix.
    pub appendix: u64,
}

/// An open file with random access.
#[derive(Debug)]
pub struct File<R> {
    from: R,
    name: String,
    sections: Vec<(u64, u64)>,
    /// The highest numbers of a CPU and of a network interface, according to the header.
    highest: [u8; 2],
}

impl<R: BufRead + Seek> File<R> {
    /// Opens a file and reads the table of ranks, which has 16 bytes per rank.
    ///
    /// # Errors
    /// If the file cannot be read or has another format, or if its table of ranks is invalid.
    pub fn open(mut from: R, name: &str) -> Result<Self, TraceError> {
        let size = from.seek(SeekFrom::End(0)).and_then(|size| from.rewind().map(|()| size));
        let size = size.map_err(|error| TraceError::new(name, format!("cannot be read: {error}")))?;
        let mut file = Self { from, name: name.to_owned(), sections: Vec::new(), highest: [0; 2] };
        if size < BASE + 6 {
            return Err(file.error(0, format!("{size} bytes are too few for a header of 14")));
        }
        match u64::from_le_bytes(file.bytes()?) {
            COOKIE => {}
            SPOILT => {
                let why = "the file starts with 2342: LogGOPSim has modified and invalidated it; convert it again from its text";
                return Err(file.error(0, why));
            }
            other => return Err(file.error(0, format!("the file starts with {other}, not with {COOKIE}"))),
        }
        let ranks = u32::from_le_bytes(file.bytes()?);
        file.highest = file.bytes()?;
        if !(1..=MAX_RANKS).contains(&ranks) {
            return Err(file.error(BASE, format!("{ranks} ranks; a trace has 1 to {MAX_RANKS}")));
        }
        let table = BASE + 6 + 16 * u64::from(ranks);
        if table > size {
            let message =
                format!("the table of {ranks} ranks ends at byte {table}, but the file ends at {size}");
            return Err(file.error(BASE, message));
        }
        let mut next = table - BASE;
        for rank in 0..ranks {
            let (start, end) = (u64::from_le_bytes(file.bytes()?), u64::from_le_bytes(file.bytes()?));
            if start != next || end < start || end > size - BASE {
                let at = BASE + 6 + 16 * u64::from(rank);
                let message = format!(
                    "rank {rank} is from {start} to {end}; it must start where the previous one ends, at {next}, and \
                     end by {}",
                    size - BASE
                );
                return Err(file.error(at, message));
            }
            file.sections.push((start, end));
            next = end;
        }
        if next != size - BASE {
            return Err(
                file.error(BASE + next, format!("{} bytes follow after the last rank", size - BASE - next))
            );
        }
        Ok(file)
    }

    /// Number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.sections.len() as u32
    }

    fn error(&self, offset: u64, message: impl Into<String>) -> TraceError {
        TraceError::offset(&self.name, offset, message)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        match self.from.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(TraceError::new(&self.name, format!("cannot be read: {error}"))),
        }
    }

    fn go_to(&mut self, offset: u64) -> Result<(), TraceError> {
        let gone = self.from.seek(SeekFrom::Start(offset));
        gone.map(|_| ()).map_err(|error| TraceError::new(&self.name, format!("cannot be read: {error}")))
    }

    /// The positions of a rank's sections, checked against the size of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or the sections exceed the rank's part of the file.
    ///
    /// # Panics
    /// If the rank does not exist.
    pub fn section(&mut self, rank: u32) -> Result<Section, TraceError> {
        let (start, end) = self.sections[rank as usize];
        let start = BASE + start;
        let length = BASE + end - start;
        if length < 8 {
            return Err(self.error(start, format!("rank {rank} has {length} bytes, but its header needs 8")));
        }
        self.go_to(start)?;
        let (operations, roots) = (u32::from_le_bytes(self.bytes()?), u32::from_le_bytes(self.bytes()?));
        let used = 8 + 4 * u64::from(roots) + RECORD * u64::from(operations);
        if used > length || !(length - used).is_multiple_of(4) {
            // Numbers of operations and roots that could fit are a hint at operations of another size.
            let other_size = u64::from(operations) * 16 < length && roots <= operations;
            let hint = if other_size {
                "; in the Portals dialect of LogGOPSim 2, which is not supported, operations have another size"
            } else {
                ""
            };
            let message = format!(
                "rank {rank}: {operations} operations and {roots} roots take {used} of {length} bytes; the rest must \
                 consist of entries of 4{hint}"
            );
            return Err(self.error(start, message));
        }
        let operations_at = start + 8 + 4 * u64::from(roots);
        Ok(Section {
            operations,
            roots,
            roots_at: start + 8,
            operations_at,
            appendix_at: operations_at + RECORD * u64::from(operations),
            appendix: (length - used) / 4,
        })
    }

    /// Moves to the operations of a rank, so that [`record`](Self::record) can read them one by one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn begin(&mut self, section: &Section) -> Result<(), TraceError> {
        self.go_to(section.operations_at)
    }

    /// Reads the next operation of a rank, which has the number `index`.
    ///
    /// # Errors
    /// If the file cannot be read, or the kind, the peer, the tag or a position in the appendix is invalid.
    pub fn record(&mut self, section: &Section, index: u32) -> Result<Record, TraceError> {
        let at = section.operations_at + RECORD * u64::from(index);
        let waits = u32::from_le_bytes(self.bytes()?);
        let [kind] = self.bytes()?;
        let peer = u32::from_le_bytes(self.bytes()?);
        let size = u64::from_le_bytes(self.bytes()?);
        let tag = u32::from_le_bytes(self.bytes()?);
        let [cpu, nic] = self.bytes()?;
        let mut place = || Ok((u32::from_le_bytes(self.bytes()?), u32::from_le_bytes(self.bytes()?)));
        let (finish, start) = (place()?, place()?);
        let mut operation = match kind {
            1 => Operation::send(peer, size, tag),
            2 => Operation::recv(peer, size, tag),
            3 => Operation::calc(size),
            _ => {
                return Err(
                    self.error(at + 4, format!("kind {kind} is not 1 (send), 2 (receive) or 3 (calc)"))
                );
            }
        };
        (operation.cpu, operation.nic) = (cpu, nic);
        let any = operation.kind == Kind::Recv && peer == ANY;
        if operation.kind != Kind::Calc && !any && peer >= self.ranks() {
            let message = format!("{operation}: there is no rank {peer}; there are {}", self.ranks());
            return Err(self.error(at + 5, message));
        }
        if operation.kind == Kind::Send && tag == ANY {
            return Err(self.error(
                at + 17,
                "a message must have a specific tag: 4294967295 (any) is for receives only",
            ));
        }
        for (number, (count, first)) in [(0, finish), (1, start)] {
            if count > 0 && u64::from(first) + u64::from(count) > section.appendix {
                let message =
                    format!("{count} entries from {first} on exceed the appendix of {}", section.appendix);
                return Err(self.error(at + 23 + 8 * number, message));
            }
        }
        Ok(Record { operation, waits, finish, start })
    }

    /// Reads `count` numbers that start at a byte position. The caller has checked `count`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn numbers(&mut self, offset: u64, count: u64) -> Result<Vec<u32>, TraceError> {
        self.go_to(offset)?;
        (0..count).map(|_| self.bytes().map(u32::from_le_bytes)).collect()
    }
}

/// Reads a whole file.
///
/// # Errors
/// If the file cannot be read, is invalid, or contains more operations and dependencies than allowed. Errors
/// of an invalid part contain its byte position.
pub fn read<R: BufRead + Seek>(from: R, name: &str, options: &Options) -> Result<Trace, TraceError> {
    let mut file = File::open(from, name)?;
    let whole = |error: crate::trace::BuildError| TraceError::new(name, error.to_string());
    let mut build = options.large(u64::from(file.ranks())).map_err(whole)?;
    let (mut any_tag, mut high_tag, mut highest) = (false, false, [0; 2]);
    for rank in 0..file.ranks() {
        let section = file.section(rank)?;
        build.allow(u64::from(section.operations) + section.appendix).map_err(whole)?;
        file.begin(&section)?;
        let mut records = Vec::with_capacity(section.operations as usize);
        for index in 0..section.operations {
            let record = file.record(&section, index)?;
            let mut operation = record.operation;
            if operation.kind == Kind::Calc {
                operation.size = scaled(operation.size, options.time_scale);
            }
            let tag = operation.tag;
            highest = [highest[0].max(operation.cpu), highest[1].max(operation.nic)];
            any_tag |= operation.kind == Kind::Recv && tag == ANY;
            high_tag |= operation.kind != Kind::Calc && tag >= COLLECTIVE_TAGS && tag != ANY;
            build.push(rank, operation).map_err(whole)?;
            records.push(Links { waits: record.waits, finish: record.finish, start: record.start });
        }
        let counted = edges(&mut file, &section, &records, rank, &mut build)?;
        check_counts(&mut file, &section, &records, &counted)?;
        build.close(rank).map_err(whole)?;
    }
    for (what, used, stated) in [("cpu", highest[0], file.highest[0]), ("nic", highest[1], file.highest[1])] {
        if used > stated {
            build.notes.push(format!(
                "not used: {stated} as the highest {what} in the header; operations have {what} {used}"
            ));
        }
    }
    if any_tag && high_tag {
        build.notes.push(HIGH_TAGS.to_owned());
    }
    build.finish().map_err(whole)
}

/// Adds the dependencies. Returns the number of dependencies of each operation.
fn edges<R: BufRead + Seek>(
    file: &mut File<R>,
    section: &Section,
    records: &[Links],
    rank: u32,
    build: &mut TraceBuilder,
) -> Result<Vec<u32>, TraceError> {
    let used: u64 = records.iter().map(|record| u64::from(record.finish.0) + u64::from(record.start.0)).sum();
    if used != section.appendix {
        let message = format!(
            "rank {rank}: operations have {used} dependencies, but the appendix has {}",
            section.appendix
        );
        return Err(file.error(section.appendix_at, message));
    }
    let appendix = file.numbers(section.appendix_at, section.appendix)?;
    let mut counted = vec![0u32; records.len()];
    for (index, record) in records.iter().enumerate() {
        for (when, (count, first)) in [(When::Finish, record.finish), (When::Start, record.start)] {
            // If the number is 0, the position has no meaning.
            let range = if count == 0 { 0..0 } else { first as usize..first as usize + count as usize };
            for place in range {
                let later = appendix[place];
                let Some(number) = counted.get_mut(later as usize) else {
                    let at = section.appendix_at + 4 * place as u64;
                    let message = format!("there is no operation {later}; rank {rank} has {}", records.len());
                    return Err(file.error(at, message));
                };
                *number += 1;
                let built = build.wait(rank, later, index as u32, when);
                built.map_err(|error| TraceError::new(&file.name, error.to_string()))?;
            }
        }
    }
    Ok(counted)
}

/// Compares the stored numbers of dependencies and roots with those that result from the appendix.
fn check_counts<R: BufRead + Seek>(
    file: &mut File<R>,
    section: &Section,
    records: &[Links],
    counted: &[u32],
) -> Result<(), TraceError> {
    for (index, (record, &count)) in records.iter().zip(counted).enumerate() {
        if record.waits != count {
            let at = section.operations_at + RECORD * index as u64;
            let message =
                format!("the operation has {} dependencies, but {count} operations list it", record.waits);
            return Err(file.error(at, message));
        }
    }
    let mut roots = file.numbers(section.roots_at, u64::from(section.roots))?;
    roots.sort_unstable();
    let free = (0u32..).zip(counted).filter(|&(_, &count)| count == 0).map(|(index, _)| index);
    if !free.eq(roots.iter().copied()) {
        return Err(file.error(section.roots_at, "the roots are not the operations without dependencies"));
    }
    Ok(())
}
