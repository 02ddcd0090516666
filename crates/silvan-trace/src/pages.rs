//! The operations of a large trace in a temporary file, of which a part is in memory.
//!
//! The file consists of pages, each with consecutive operations of one rank. The pages of a rank that were used last are kept in
//! memory. A rank executes its operations roughly in their order, so it needs a page again only if an operation waits for one far
//! before it, or if a message is matched late; the page is then read again. So the results do not depend on what is in memory.
//!
//! An operation takes 5 to 10 bytes: a byte states its kind, the numbers of its dependencies if they are small, and whether it
//! uses another CPU or interface than the first. Numbers of variable length (7 bits per byte, LEB128) follow.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::operation::{Kind, Operation, When};

/// The memory for pages in bytes. With many ranks, it may be exceeded, because a rank keeps at least [`FEWEST`] pages.
const MEMORY: usize = 256 << 20;
/// Number of pages that a rank keeps.
const FEWEST: usize = 2;
const MOST: usize = 8;
/// Bytes of an operation in memory, with a dependency.
const BYTES: usize = 40;
/// Number of operations of a page. It is a power of two, and smaller if there are many ranks.
const SMALLEST: usize = 16;
const LARGEST: usize = 4096;

/// The sizes of pages for a number of ranks: operations of a page, and pages of a rank in memory.
fn sizes(ranks: u32) -> (u32, usize) {
    let each = MEMORY / BYTES / ranks.max(1) as usize;
    let size = 1u32 << (each / 4).clamp(SMALLEST, LARGEST).ilog2();
    (size, (each / size as usize).clamp(FEWEST, MOST))
}

/// An operation with its dependencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'s> {
    pub operation: Operation,
    /// Number of dependencies.
    pub waits: u32,
    /// The operations that wait for its end.
    pub finish: &'s [u32],
    /// The operations that wait for its start.
    pub start: &'s [u32],
}

/// Consecutive operations of a rank in memory.
#[derive(Debug, Default)]
pub struct Page {
    operations: Vec<Operation>,
    waits: Vec<u32>,
    /// For each operation, the ends of its lists in `numbers`: operations that wait for its end, then those that wait for its
    /// start.
    ends: Vec<[u32; 2]>,
    numbers: Vec<u32>,
}

impl Page {
    pub(crate) fn operation(&self, place: usize) -> Operation {
        self.operations[place]
    }

    pub(crate) fn waits(&self, place: usize) -> u32 {
        self.waits[place]
    }

    /// The place of the operations that wait for another one, among the [`numbers`](Self::numbers).
    pub(crate) fn successors(&self, place: usize, when: When) -> Range<usize> {
        let [finish, start] = self.ends[place].map(|end| end as usize);
        match when {
            When::Start => finish..start,
            When::Finish => place.checked_sub(1).map_or(0, |before| self.ends[before][1] as usize)..finish,
        }
    }

    pub(crate) fn numbers(&self, range: Range<usize>) -> &[u32] {
        &self.numbers[range]
    }

    fn stored(&self, place: usize) -> Stored<'_> {
        Stored {
            operation: self.operations[place],
            waits: self.waits[place],
            finish: self.numbers(self.successors(place, When::Finish)),
            start: self.numbers(self.successors(place, When::Start)),
        }
    }
}

/// The place of a rank in the file.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Index of the offset of its first page.
    page: usize,
    operations: u32,
}

/// Pages of a rank in memory, with their numbers. The last one was used last.
type Kept = Vec<(u32, Arc<Page>)>;

/// The pages of a trace.
#[derive(Debug)]
pub(crate) struct Pages {
    file: Mutex<Temporary>,
    /// Offsets of the pages in the file, followed by its size.
    offsets: Vec<u64>,
    places: Vec<Place>,
    /// Number of operations of a page.
    size: u32,
    /// Number of pages that a rank keeps.
    most: usize,
    /// The pages of each rank in memory.
    kept: Vec<Mutex<Kept>>,
}

impl Pages {
    /// Number of operations of a rank.
    pub fn operations(&self, rank: u32) -> u32 {
        self.places[rank as usize].operations
    }

    /// Passes on the page of an operation of a rank, and the place of the operation there.
    ///
    /// # Panics
    /// If the file cannot be read. Only this process writes it.
    pub fn with<R>(&self, rank: u32, index: u32, each: impl FnOnce(&Arc<Page>, usize) -> R) -> R {
        let (number, place) = (index / self.size, (index % self.size) as usize);
        let mut kept = self.kept[rank as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, page)) = kept.last()
            && *last == number
        {
            return each(page, place);
        }
        let known = kept.iter().position(|(known, _)| *known == number);
        let page = match known {
            Some(at) => kept.remove(at).1,
            None => {
                if kept.len() >= self.most {
                    kept.remove(0);
                }
                Arc::new(self.read(rank, number).unwrap_or_else(|error| lost(&error)))
            }
        };
        let result = each(&page, place);
        kept.push((number, page));
        result
    }

    /// Reads a page of a rank.
    fn read(&self, rank: u32, number: u32) -> io::Result<Page> {
        let Place { page, operations } = self.places[rank as usize];
        let first = number * self.size;
        let end = first.saturating_add(self.size).min(operations);
        let start = self.offsets[page + number as usize];
        let size = self.offsets[page + number as usize + 1] - start;
        let mut bytes = vec![0; size as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.file.seek(SeekFrom::Start(start))?;
        file.file.read_exact(&mut bytes)?;
        drop(file);
        decoded(&bytes, first, end).ok_or_else(|| io::Error::other("it is damaged"))
    }

    /// The same pages with other sizes of operations. `None` if no size changes.
    pub fn resized(&self, size_of: impl Fn(Kind, u64) -> u64) -> io::Result<Option<Self>> {
        let all = |rank: u32| {
            let pages = (0..self.operations(rank)).step_by(self.size as usize);
            pages.map(move |first| self.read(rank, first / self.size))
        };
        let changes = |page: &Page| page.operations.iter().any(|one| size_of(one.kind, one.size) != one.size);
        let ranks = 0..self.places.len() as u32;
        let mut changed = false;
        for page in ranks.clone().flat_map(all) {
            changed |= changes(&page?);
            if changed {
                break;
            }
        }
        if !changed {
            return Ok(None);
        }
        let mut writer = PageWriter::new(self.places.len() as u32)?;
        for rank in ranks {
            writer.begin(rank);
            for page in all(rank) {
                let page = page?;
                for place in 0..page.operations.len() {
                    let mut stored = page.stored(place);
                    stored.operation.size = size_of(stored.operation.kind, stored.operation.size);
                    writer.push(&stored)?;
                }
            }
            writer.end()?;
        }
        writer.finish(self.places.len()).map(Some)
    }
}

#[expect(clippy::panic, reason = "an error would have to be passed on by each access to an operation")]
fn lost(error: &io::Error) -> ! {
    panic!("the temporary file of a large trace cannot be read: {error}")
}

/// A file that is removed with this value, and, where the system allows it, also if the process is killed.
#[derive(Debug)]
struct Temporary {
    file: File,
    /// Its path, if it still has one.
    path: Option<PathBuf>,
}

impl Temporary {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("silvan-pages-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match File::options().read(true).write(true).create_new(true).open(&path) {
                // The file remains until it is closed.
                Ok(file) if cfg!(unix) && std::fs::remove_file(&path).is_ok() => {
                    return Ok(Self { file, path: None });
                }
                Ok(file) => return Ok(Self { file, path: Some(path) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let text = format!("{}: {error}", path.display());
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nothing depends on it, and the system removes files for temporary use.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes the file, rank by rank in any order.
#[derive(Debug)]
pub(crate) struct PageWriter {
    out: BufWriter<Temporary>,
    /// Size of the file so far.
    written: u64,
    offsets: Vec<u64>,
    places: Vec<Place>,
    /// Number of operations of a page, and number of pages of a rank in memory.
    sizes: (u32, usize),
    rank: u32,
    /// The operations of the next page.
    page: Vec<u8>,
    of_page: u32,
}

impl PageWriter {
    /// Starts a file for about this number of ranks.
    pub fn new(ranks: u32) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(1 << 20, Temporary::new()?),
            written: 0,
            offsets: Vec::new(),
            places: Vec::new(),
            sizes: sizes(ranks),
            rank: 0,
            page: Vec::new(),
            of_page: 0,
        })
    }

    /// Starts a rank.
    pub fn begin(&mut self, rank: u32) {
        self.rank = rank;
        if self.places.len() <= rank as usize {
            self.places.resize(rank as usize + 1, Place::default());
        }
        self.places[rank as usize] = Place { page: self.offsets.len(), operations: 0 };
    }

    /// Adds the next operation of the rank.
    pub fn push(&mut self, stored: &Stored<'_>) -> io::Result<()> {
        let place = &mut self.places[self.rank as usize];
        encode(stored, place.operations, &mut self.page);
        place.operations += 1;
        self.of_page += 1;
        if self.of_page == self.sizes.0 { self.end_page() } else { Ok(()) }
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.offsets.push(self.written);
        self.out.write_all(&self.page)?;
        self.written += self.page.len() as u64;
        self.page.clear();
        self.of_page = 0;
        Ok(())
    }

    /// Ends a rank.
    pub fn end(&mut self) -> io::Result<()> {
        if self.of_page > 0 { self.end_page() } else { Ok(()) }
    }

    /// Ends the file.
    pub fn finish(mut self, ranks: usize) -> io::Result<Pages> {
        self.offsets.push(self.written);
        self.places.resize(ranks, Place::default());
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let kept = std::iter::repeat_with(|| Mutex::new(Vec::new())).take(ranks).collect();
        let (size, most) = self.sizes;
        Ok(Pages { file: Mutex::new(file), offsets: self.offsets, places: self.places, size, most, kept })
    }
}

/// A number that is stored after the first byte, because it does not fit there.
const LARGE: u32 = 3;

fn encode(stored: &Stored<'_>, index: u32, to: &mut Vec<u8>) {
    let Stored { operation: Operation { kind, peer, size, tag, cpu, nic }, waits, finish, start } = *stored;
    let counts = [waits, finish.len() as u32];
    let is_placed = cpu != 0 || nic != 0;
    let code = match kind {
        Kind::Send => 0,
        Kind::Recv => 1,
        Kind::Calc => 2,
        Kind::Delay => 3,
    };
    let small = counts.map(|count| count.min(LARGE) as u8);
    to.push(
        code | small[0] << 2 | small[1] << 4 | u8::from(is_placed) << 6 | u8::from(!start.is_empty()) << 7,
    );
    counts.into_iter().filter(|&count| count >= LARGE).for_each(|count| put(count.into(), to));
    if !start.is_empty() {
        put(start.len() as u64, to);
    }
    if is_placed {
        to.extend([cpu, nic]);
    }
    put(size, to);
    if matches!(kind, Kind::Send | Kind::Recv) {
        // Wildcards are the largest numbers.
        put(peer.wrapping_add(1).into(), to);
        put(tag.wrapping_add(1).into(), to);
    }
    for &later in finish.iter().chain(start) {
        // Most operations wait for one shortly before them.
        let distance = i64::from(later) - i64::from(index);
        put(((distance << 1) ^ (distance >> 63)) as u64, to);
    }
}

fn put(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(from)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The operations from `first` up to `end` of a rank. `None` if the bytes are damaged.
fn decoded(mut from: &[u8], first: u32, end: u32) -> Option<Page> {
    let count = (end - first) as usize;
    let mut page = Page {
        operations: Vec::with_capacity(count),
        waits: Vec::with_capacity(count),
        ends: Vec::with_capacity(count),
        numbers: Vec::with_capacity(count),
    };
    for index in first..end {
        let head = byte(&mut from)?;
        let kind = [Kind::Send, Kind::Recv, Kind::Calc, Kind::Delay][usize::from(head & 3)];
        let mut count = |shift: u8| match u32::from(head >> shift & 3) {
            LARGE => number(&mut from)?.try_into().ok(),
            small => Some(small),
        };
        let (waits, finish) = (count(2)?, count(4)?);
        let start = if head & 0x80 == 0 { 0 } else { number(&mut from)?.try_into().ok()? };
        let (cpu, nic) = if head & 0x40 == 0 { (0, 0) } else { (byte(&mut from)?, byte(&mut from)?) };
        let size = number(&mut from)?;
        let (mut peer, mut tag) = (0, 0);
        if matches!(kind, Kind::Send | Kind::Recv) {
            peer = u32::try_from(number(&mut from)?).ok()?.wrapping_sub(1);
            tag = u32::try_from(number(&mut from)?).ok()?.wrapping_sub(1);
        }
        page.operations.push(Operation { kind, peer, size, tag, cpu, nic });
        page.waits.push(waits);
        let ends = [finish, start].map(|count: u32| {
            for _ in 0..count {
                let coded = number(&mut from)?;
                let distance = (coded >> 1) as i64 ^ -((coded & 1) as i64);
                page.numbers.push(u32::try_from(i64::from(index) + distance).ok()?);
            }
            Some(page.numbers.len() as u32)
        });
        page.ends.push([ends[0]?, ends[1]?]);
    }
    from.is_empty().then_some(page)
}
