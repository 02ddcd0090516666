//! Unpacks archives of traces (zip, tar, compressed tar) into a folder of their own, which is removed when the trace has been
//! read.
//!
//! Archives come from unknown sources: the number of members, their names, and their sizes together are limited, and sizes are
//! checked before anything is written. Members are written piece by piece, so memory does not depend on their sizes. A member
//! must be a regular file with a name that stays in the archive.

use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::CrcWriter;
use flate2::bufread::DeflateDecoder;

use super::source;
use crate::error::{TraceError, clip};

/// A kind of archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With deflated or stored members, also in the format zip64.
    Zip,
    /// In the format of POSIX or GNU, which may be compressed with gzip.
    Tar,
}

/// Limits of an archive.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of members.
    pub members: u64,
    /// Maximum size of all members together in bytes.
    pub bytes: u64,
}

/// The usual limits: a member per rank, and 16 GiB.
pub const LIMITS: Limits = Limits { members: 1 << 16, bytes: 16 << 30 };
/// Maximum length of a name in bytes.
const MAX_NAME: u64 = 4096;
/// Maximum size of the attributes of a member of a tar archive.
const MAX_ATTRIBUTES: u64 = 1 << 20;

impl Kind {
    /// The kind of an archive with these first bytes, after decompression of gzip.
    #[must_use]
    pub fn of(start: &[u8]) -> Option<Self> {
        // In the formats of POSIX and GNU, the mark of a tar archive follows the name and the attributes of the first member.
        const TAR_MARK: std::ops::Range<usize> = 257..262;
        match start.get(TAR_MARK) {
            Some(b"ustar") => Some(Self::Tar),
            // An empty archive begins with its end.
            _ if [b"PK\x03\x04", END, LONG_END].iter().any(|mark| start.starts_with(*mark)) => {
                Some(Self::Zip)
            }
            _ => None,
        }
    }

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Tar => "tar",
        }
    }
}

/// The files of an archive, in a folder that is removed with this value.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub folder: PathBuf,
}

impl Unpacked {
    /// Unpacks an archive.
    ///
    /// # Errors
    /// If the archive is damaged, contains something else than files and folders, exceeds [`LIMITS`], or cannot be unpacked.
    pub fn new(path: &Path, kind: Kind) -> Result<Self, TraceError> {
        let wrong = |what: String| TraceError::new(&path.display().to_string(), what);
        let unpacked = Self { folder: own_folder().map_err(|error| wrong(unwritable(&error)))? };
        let members = members(source::open(path)?, kind, LIMITS, &mut |name, content| {
            let file = unpacked.folder.join(name);
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder).map_err(|error| unwritable(&error))?;
            }
            let made = File::create_new(&file).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => "is in the archive twice".to_owned(),
                _ => unwritable(&error),
            })?;
            content(&mut io::BufWriter::new(made))
        });
        match members.map_err(wrong)? {
            0 => Err(wrong(format!("is a {} archive without files; a trace is expected", kind.name()))),
            _ => Ok(unpacked),
        }
    }

    /// Replaces the name of the folder by that of the archive.
    pub fn named(&self, text: &str, archive: &Path) -> String {
        text.replace(&self.folder.display().to_string(), &archive.display().to_string())
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // Nothing depends on it, and the system removes files for temporary use.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn unwritable(error: &io::Error) -> String {
    format!("cannot be unpacked into the folder for temporary files: {error}")
}

/// Creates a folder that only this user can read.
fn own_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("silvan-trace-{}-{number}", std::process::id()));
        match builder.create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
}

/// Writes the content of a member.
pub type Content<'c> = &'c mut dyn FnMut(&mut dyn Write) -> Result<(), String>;

/// Passes the name and the content of each file of an archive to `take`. Returns the number of files.
///
/// # Errors
/// If the archive is damaged, contains something else than files and folders, or exceeds the limits; and the errors of `take`.
pub fn members(
    from: impl Read + Seek,
    kind: Kind,
    limits: Limits,
    take: &mut dyn FnMut(&Path, Content<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let mut files = 0;
    let mut counted = |name: &str, content: Content<'_>| {
        let path = inside(name)?;
        // Files that macOS adds.
        if path.starts_with("__MACOSX") {
            return content(&mut io::sink());
        }
        files += 1;
        take(&path, content).map_err(|what| format!("member {}: {what}", clip(name)))
    };
    match kind {
        Kind::Zip => zip(from, limits, &mut counted)?,
        Kind::Tar => {
            let from = source::unpacked(from).map_err(|error| damaged(&error))?;
            tar(from, limits, &mut counted)?;
        }
    }
    Ok(files)
}

fn damaged(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the archive is incomplete; create it again".to_owned(),
        _ => format!("the archive cannot be read: {error}"),
    }
}

/// The path of a member. It must not lead out of the archive.
fn inside(name: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    let wrong = |what: &str| format!("member {} {what}", clip(name));
    if name.starts_with('/') {
        return Err(wrong("has an absolute path; names in an archive are relative"));
    }
    for part in name.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            return Err(wrong("would leave the archive; names in an archive have no `..`"));
        }
        if part.contains(['\\', ':']) || part.contains(char::is_control) {
            return Err(wrong("has a backslash, a colon or a control character in its name; rename it"));
        }
        path.push(part);
    }
    match path.as_os_str().is_empty() {
        true => Err(wrong("has no name")),
        false => Ok(path),
    }
}

/// Counts members and bytes.
struct Counted {
    limits: Limits,
    members: u64,
    bytes: u64,
}

impl Counted {
    const fn new(limits: Limits) -> Self {
        Self { limits, members: 0, bytes: 0 }
    }

    /// Adds a member before it is unpacked.
    fn add(&mut self, bytes: u64) -> Result<(), String> {
        self.members += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let Limits { members, bytes } = self.limits;
        if self.members > members {
            return Err(format!("the archive has more than {members} members, the maximum"));
        }
        if self.bytes > bytes {
            return Err(format!(
                "the members of the archive have more than {bytes} bytes together, the maximum"
            ));
        }
        Ok(())
    }
}

type Take<'t> = &'t mut dyn FnMut(&str, Content<'_>) -> Result<(), String>;

/// Copies exactly a number of bytes.
fn copy(from: &mut dyn Read, bytes: u64, to: &mut dyn Write) -> Result<(), String> {
    let copied = io::copy(&mut from.take(bytes), to).map_err(|error| damaged(&error))?;
    to.flush().map_err(|error| unwritable(&error))?;
    if copied < bytes { Err(damaged(&io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// Size of a block of a tar archive.
const BLOCK: u64 = 512;

/// What the headers before that of a member state about it.
#[derive(Default)]
struct Attributes {
    name: Option<String>,
    bytes: Option<u64>,
}

fn tar(mut from: impl Read, limits: Limits, take: Take<'_>) -> Result<(), String> {
    let mut counted = Counted::new(limits);
    let mut attributes = Attributes::default();
    let mut header = [0; BLOCK as usize];
    loop {
        from.read_exact(&mut header).map_err(|error| damaged(&error))?;
        // An archive ends with empty blocks.
        if header.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        check_sum(&header)?;
        let stated = number(&header[124..136])?;
        let kind = header[156];
        let own = attributes_of(&header)?;
        match kind {
            b'L' | b'x' => {
                let most = if kind == b'L' { MAX_NAME } else { MAX_ATTRIBUTES };
                let mut text = Vec::new();
                if stated > most {
                    return Err(format!(
                        "the attributes of a member have {stated} bytes; at most {most} are possible"
                    ));
                }
                copy(&mut from, stated, &mut text)?;
                skip(&mut from, stated.next_multiple_of(BLOCK) - stated)?;
                if kind == b'L' {
                    text.retain(|&byte| byte != 0);
                    attributes.name = Some(utf8(&text)?);
                } else {
                    extended(&text, &mut attributes)?;
                }
                continue;
            }
            // Attributes of all members, and long targets of links, which are refused.
            b'g' | b'K' => {
                skip(&mut from, padded(stated)?)?;
                continue;
            }
            _ => {}
        }
        let name = attributes.name.take().unwrap_or(own);
        let bytes = attributes.bytes.take().unwrap_or(stated);
        counted.add(bytes)?;
        match kind {
            b'0' | 0 if !name.ends_with('/') => {
                take(&name, &mut |to| copy(&mut from, bytes, to))?;
                skip(&mut from, padded(bytes)? - bytes)?;
            }
            b'0' | 0 | b'5' => {
                skip(&mut from, padded(bytes)?)?;
            }
            b'1' | b'2' => {
                return Err(format!(
                    "member {} is a link; an archive of a trace has files only",
                    clip(&name)
                ));
            }
            _ => {
                return Err(format!(
                    "member {} is neither a file nor a folder; an archive of a trace has files only",
                    clip(&name)
                ));
            }
        }
    }
}

fn padded(bytes: u64) -> Result<u64, String> {
    bytes.checked_next_multiple_of(BLOCK).ok_or_else(|| "the size of a member is too large".to_owned())
}

fn skip(from: &mut dyn Read, bytes: u64) -> Result<(), String> {
    copy(from, bytes, &mut io::sink())
}

/// The name in a header: a prefix, which only the format of POSIX has, and the rest.
fn attributes_of(header: &[u8; BLOCK as usize]) -> Result<String, String> {
    let text = |field: &[u8]| utf8(field.split(|&byte| byte == 0).next().unwrap_or_default());
    let name = text(&header[..100])?;
    let prefix = if &header[257..263] == b"ustar\0" { text(&header[345..500])? } else { String::new() };
    Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

fn check_sum(header: &[u8; BLOCK as usize]) -> Result<(), String> {
    const SUM: std::ops::Range<usize> = 148..156;
    let counted = header.iter().enumerate().map(|(at, &byte)| if SUM.contains(&at) { b' ' } else { byte });
    let sum: u64 = counted.map(u64::from).sum();
    match number(&header[SUM]) {
        Ok(stated) if stated == sum => Ok(()),
        _ => Err("the header of a member has a wrong check sum; create the archive again".to_owned()),
    }
}

/// A number in a header: octal digits, or binary after a byte with the highest bit.
fn number(field: &[u8]) -> Result<u64, String> {
    let wrong = || "a number in the header of a member is damaged; create the archive again".to_owned();
    if field[0] & 0x80 != 0 {
        let first = u64::from(field[0] & 0x7f);
        return field[1..]
            .iter()
            .try_fold(first, |value, &byte| Ok(value.checked_mul(256).ok_or_else(wrong)? | u64::from(byte)));
    }
    let text = std::str::from_utf8(field).map_err(|_| wrong())?.trim_matches([' ', '\0']);
    if text.is_empty() { Ok(0) } else { u64::from_str_radix(text, 8).map_err(|_| wrong()) }
}

/// Reads attributes such as "30 path=a/b\\n", whose lengths count themselves.
fn extended(mut text: &[u8], attributes: &mut Attributes) -> Result<(), String> {
    let wrong = || "the attributes of a member are damaged; create the archive again".to_owned();
    while !text.is_empty() {
        let digits = text.iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
        let length = utf8(&text[..digits])?.parse::<usize>().map_err(|_| wrong())?;
        let line =
            text.get(digits + 1..length).and_then(|line| line.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let at = line.iter().position(|&byte| byte == b'=').ok_or_else(wrong)?;
        let value = &line[at + 1..];
        match &line[..at] {
            b"path" => attributes.name = Some(utf8(value)?),
            b"size" => attributes.bytes = Some(utf8(value)?.parse().map_err(|_| wrong())?),
            key if key.starts_with(b"GNU.sparse") => {
                return Err(
                    "a member has holes (sparse files); create the archive without --sparse".to_owned()
                );
            }
            _ => {}
        }
        text = &text[length..];
    }
    Ok(())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() as u64 > MAX_NAME {
        return Err(format!("a member has a name of {} bytes; at most {MAX_NAME} are possible", bytes.len()));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| "the name of a member is not UTF-8; rename it".to_owned())
}

/// Where the list of the members of a zip archive is.
struct Directory {
    members: u64,
    start: u64,
    end: u64,
}

/// A member of a zip archive.
struct Entry {
    name: String,
    method: u16,
    crc: u32,
    packed: u64,
    bytes: u64,
    /// Position of its own header.
    at: u64,
}

fn zip(mut from: impl Read + Seek, limits: Limits, take: Take<'_>) -> Result<(), String> {
    let directory = directory(&mut from)?;
    let mut counted = Counted::new(limits);
    let mut entries = Vec::new();
    from.seek(SeekFrom::Start(directory.start)).map_err(|error| damaged(&error))?;
    {
        let mut list = BufReader::new((&mut from).take(directory.end - directory.start));
        for _ in 0..directory.members {
            if let Some(entry) = entry(&mut list)? {
                counted.add(entry.bytes)?;
                entries.push(entry);
            }
        }
    }
    // Stated sizes are known before the first member is unpacked.
    for entry in entries {
        let start = data(&mut from, &entry)?;
        if start.saturating_add(entry.packed) > directory.start {
            return Err(format!("member {} exceeds the archive; create it again", clip(&entry.name)));
        }
        take(&entry.name, &mut |to| unpack(&mut from, &entry, to))?;
    }
    Ok(())
}

fn short<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(short(bytes, at))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(short(bytes, at)))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(short(bytes, at))
}

/// Marks of the end of an archive, the same of zip64, and the place of the latter.
const END: &[u8; 4] = b"PK\x05\x06";
const LONG_END: &[u8; 4] = b"PK\x06\x06";
const LONG_END_AT: &[u8; 4] = b"PK\x06\x07";
/// Instead of a number of 32 bits that is stated with 64 bits elsewhere (zip64).
const IS_LONG: u64 = u32::MAX as u64;

/// Finds the list at the end of the archive, before a comment of up to 64 KiB. In the format zip64, its place is in another
/// record, whose place is stated before the end.
fn directory(from: &mut (impl Read + Seek)) -> Result<Directory, String> {
    const LENGTH: usize = 22;
    let broken = || "the archive has no valid list of its members at its end; create it again".to_owned();
    let length = from.seek(SeekFrom::End(0)).map_err(|error| damaged(&error))?;
    let start = length.saturating_sub((LENGTH + usize::from(u16::MAX)) as u64);
    from.seek(SeekFrom::Start(start)).map_err(|error| damaged(&error))?;
    let mut tail = Vec::new();
    from.take(length - start).read_to_end(&mut tail).map_err(|error| damaged(&error))?;
    let is_end = |&at: &usize| {
        let end = &tail[at..];
        end.starts_with(END) && end.len() == LENGTH + usize::from(half(end, 20))
    };
    let last = tail.len().checked_sub(LENGTH).ok_or_else(broken)?;
    let at = (0..=last).rev().find(is_end).ok_or_else(broken)?;
    let end = &tail[at..];
    let several = || Err("the archive has several parts; create it as one file".to_owned());
    let (members, bytes, first) = (u64::from(half(end, 10)), word(end, 12), word(end, 16));
    let mut found = Directory { members, start: first, end: first + bytes };
    let mut most = start + at as u64;
    let is_long = members == u64::from(u16::MAX) || bytes == IS_LONG || first == IS_LONG;
    const PLACE: usize = 20;
    let place = at.checked_sub(PLACE).map(|from| &tail[from..at]);
    match place.filter(|place| is_long && place.starts_with(LONG_END_AT)) {
        Some(place) => {
            let (part, parts) = (word(place, 4), word(place, 16));
            most = long(place, 8);
            let mut fixed = [0; 56];
            from.seek(SeekFrom::Start(most)).map_err(|error| damaged(&error))?;
            from.read_exact(&mut fixed).map_err(|_| broken())?;
            if !fixed.starts_with(LONG_END) {
                return Err(broken());
            }
            if part != 0 || parts > 1 || word(&fixed, 16) != 0 || word(&fixed, 20) != 0 {
                return several();
            }
            let (members, bytes, first) = (long(&fixed, 32), long(&fixed, 40), long(&fixed, 48));
            found = Directory { members, start: first, end: first.checked_add(bytes).ok_or_else(broken)? };
        }
        // Exactly 65,535 members need no other record.
        None if bytes == IS_LONG || first == IS_LONG => return Err(broken()),
        None if half(end, 4) != 0 || half(end, 6) != 0 => return several(),
        None => {}
    }
    if found.end > most { Err(broken()) } else { Ok(found) }
}

/// Reads the next member of the list; `None` for a folder.
fn entry(list: &mut impl Read) -> Result<Option<Entry>, String> {
    let mut fixed = [0; 46];
    list.read_exact(&mut fixed).map_err(|error| damaged(&error))?;
    if !fixed.starts_with(b"PK\x01\x02") {
        return Err("the list of members is damaged; create the archive again".to_owned());
    }
    let mut name = vec![0; usize::from(half(&fixed, 28))];
    list.read_exact(&mut name).map_err(|error| damaged(&error))?;
    let name = utf8(&name)?;
    let mut extra = vec![0; usize::from(half(&fixed, 30))];
    list.read_exact(&mut extra).map_err(|error| damaged(&error))?;
    skip(list, u64::from(half(&fixed, 32)))?;
    let wrong = |what: &str| format!("member {} {what}", clip(&name));
    if half(&fixed, 8) & 1 != 0 {
        return Err(wrong("is encrypted; create the archive without a password"));
    }
    // The upper half are attributes of Unix.
    const LINK: u64 = 0o12;
    if word(&fixed, 38) >> 28 == LINK {
        return Err(wrong("is a link; an archive of a trace has files only"));
    }
    let method = half(&fixed, 10);
    if method != 0 && method != 8 {
        return Err(wrong(&format!(
            "is compressed by method {method}; use deflate (method 8), the usual one"
        )));
    }
    // Those of zip64 that replace numbers of 32 bits are in this order.
    let mut numbers = [24, 20, 42].map(|at| word(&fixed, at));
    let mut longer = long_numbers(&extra).chunks_exact(8);
    for number in numbers.iter_mut().filter(|number| **number == IS_LONG) {
        let found = longer.next().map(|bytes| long(bytes, 0));
        *number = found.ok_or_else(|| wrong("lacks a size or place of zip64; create the archive again"))?;
    }
    let [bytes, packed, at] = numbers;
    if method == 0 && packed != bytes {
        return Err(wrong("is not compressed, but has two different sizes; create the archive again"));
    }
    let is_file = !name.ends_with('/');
    Ok(is_file.then_some(Entry { name, method, crc: word(&fixed, 16) as u32, packed, bytes, at }))
}

/// The numbers of 64 bits in the further fields of a member.
fn long_numbers(mut extra: &[u8]) -> &[u8] {
    const ZIP64: u16 = 1;
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let (field, length) = (half(head, 0), usize::from(half(head, 2)));
        let Some((content, next)) = rest.split_at_checked(length) else { break };
        if field == ZIP64 {
            return content;
        }
        extra = next;
    }
    &[]
}

/// Moves to the content of a member, behind its own header. Returns its position.
fn data(from: &mut (impl Read + Seek), entry: &Entry) -> Result<u64, String> {
    let mut fixed = [0; 30];
    from.seek(SeekFrom::Start(entry.at)).map_err(|error| damaged(&error))?;
    from.read_exact(&mut fixed).map_err(|error| damaged(&error))?;
    if !fixed.starts_with(b"PK\x03\x04") {
        return Err(format!(
            "member {} is not where the list states it; create the archive again",
            clip(&entry.name)
        ));
    }
    let more = u64::from(half(&fixed, 26)) + u64::from(half(&fixed, 28));
    // The header was read at this place, so the sum does not overflow.
    let start = entry.at + 30 + more;
    from.seek(SeekFrom::Start(start)).map_err(|error| damaged(&error))?;
    Ok(start)
}

fn unpack(from: &mut impl Read, entry: &Entry, to: &mut dyn Write) -> Result<(), String> {
    let content = BufReader::new(from.take(entry.packed));
    let mut content: Box<dyn Read + '_> = match entry.method {
        0 => Box::new(content),
        _ => Box::new(DeflateDecoder::new(content)),
    };
    let mut checked = CrcWriter::new(to);
    copy(&mut content, entry.bytes, &mut checked)?;
    let has_more = content.read(&mut [0]).map_err(|error| damaged(&error))? > 0;
    if has_more || checked.crc().sum() != entry.crc {
        return Err(
            "its content differs from its size or check sum in the list; create the archive again".to_owned()
        );
    }
    Ok(())
}
