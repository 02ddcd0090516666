//! Traces in archives and folders: they are those of the unpacked files, and damaged or hostile archives are refused.

use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use proptest::prelude::*;
use silvan_trace::read::archive::{Kind, LIMITS, Limits, members};
use silvan_trace::read::{Options, read};

const GOAL: &str = "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n";

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("silvan-archives-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A header of a tar archive, and the content.
fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[156] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    sum(&mut header);
    header.extend(content);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

fn tar(files: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut archive: Vec<u8> =
        files.iter().flat_map(|&(name, kind, content)| member(name, kind, content)).collect();
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A zip archive. Files are stored (method 0) or deflated (8).
fn zip(files: &[(&str, u16, &[u8])]) -> Vec<u8> {
    zip_at(files, 0, false)
}

/// The same behind other bytes. The format zip64 states sizes, places and the number of members with 64 bits.
fn zip_at(files: &[(&str, u16, &[u8])], before: u64, is_long: bool) -> Vec<u8> {
    let (mut archive, mut list) = (Vec::new(), Vec::new());
    let cut = |number: u64| if is_long { u32::MAX } else { u32::try_from(number).unwrap() };
    for &(name, method, content) in files {
        let mut packed = content.to_vec();
        if method == 8 {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).unwrap();
            packed = encoder.finish().unwrap();
        }
        let numbers = [content.len() as u64, packed.len() as u64, before + archive.len() as u64];
        let mut extra = Vec::new();
        if is_long {
            // A field of another kind precedes that of zip64.
            extra.extend(b"UT\x01\0\x07\x01\0\x18\0");
            extra.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        let mut common = vec![20, 0, 0, 0];
        common.extend(method.to_le_bytes());
        common.extend([0; 4]);
        for number in [crc(content), cut(numbers[1]), cut(numbers[0])] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend([0; 2]);
        archive.extend(name.as_bytes());
        archive.extend(&packed);
        list.extend(b"PK\x01\x02\x14\0");
        list.extend(&common);
        list.extend((extra.len() as u16).to_le_bytes());
        list.extend([0; 10]);
        list.extend(cut(numbers[2]).to_le_bytes());
        list.extend(name.as_bytes());
        list.extend(extra);
    }
    let (at, bytes, count) = (before + archive.len() as u64, list.len() as u64, files.len() as u64);
    archive.extend(&list);
    if is_long {
        let end = before + archive.len() as u64;
        archive.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0");
        archive.extend([0; 8]);
        archive.extend([count, count, bytes, at].iter().flat_map(|number| number.to_le_bytes()));
        archive.extend(b"PK\x06\x07\0\0\0\0");
        archive.extend(end.to_le_bytes());
        archive.extend(b"\x01\0\0\0");
    }
    archive.extend(b"PK\x05\x06\0\0\0\0");
    let count = if is_long { u16::MAX } else { count as u16 };
    archive.extend([count, count].iter().flat_map(|number| number.to_le_bytes()));
    archive.extend([cut(bytes), cut(at)].iter().flat_map(|number| number.to_le_bytes()));
    archive.extend([0; 2]);
    archive
}

/// A file with empty bytes before its content.
struct Behind<'c> {
    empty: u64,
    content: &'c [u8],
    at: u64,
}

impl Read for Behind<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let found = match self.at.checked_sub(self.empty) {
            None => {
                let length = (to.len() as u64).min(self.empty - self.at) as usize;
                to[..length].fill(0);
                length
            }
            Some(at) => (&self.content[self.content.len().min(at as usize)..]).read(to)?,
        };
        self.at += found as u64;
        Ok(found)
    }
}

impl Seek for Behind<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let end = self.empty + self.content.len() as u64;
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => end.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?,
            SeekFrom::Current(by) => self.at.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?,
        };
        Ok(self.at)
    }
}

/// The names and contents of the files of an archive, or the error.
fn listed(archive: &[u8], limits: Limits) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let kind = Kind::of(archive).unwrap_or(Kind::Tar);
    let mut found = Vec::new();
    members(Cursor::new(archive), kind, limits, &mut |name, content| {
        let mut bytes = Vec::new();
        content(&mut bytes)?;
        found.push((name.to_owned(), bytes));
        Ok(())
    })?;
    Ok(found)
}

fn refused(archive: &[u8]) -> String {
    listed(archive, LIMITS).unwrap_err()
}

#[test]
fn archives_and_folders_are_the_traces_in_them() {
    let folder = Folder::new("same");
    let options = Options::default();
    let plain = read(&folder.file("plain.goal", GOAL.as_bytes()), &options).unwrap();
    let goal = GOAL.as_bytes();
    let packed = gzip(goal);
    let long = format!("{}/trace.goal", "folder".repeat(30));
    let path = format!("{} path={long}\n", long.len() + 10);
    for (name, archive) in [
        ("a.zip", zip(&[("trace.goal", 8, goal)])),
        ("b.zip", zip(&[("set/", 0, b""), ("set/trace.goal", 0, goal), ("__MACOSX/._x", 0, b"1")])),
        ("z.zip", zip_at(&[("trace.goal", 8, goal)], 0, true)),
        ("c.tar", tar(&[("./set/", b'5', b""), ("./set/trace.goal", b'0', goal), (".hidden", b'0', b"")])),
        ("d.tar.gz", gzip(&tar(&[("trace.goal", b'0', &packed)]))),
        ("e.tar", tar(&[("././@LongLink", b'L', long.as_bytes()), ("cut", b'0', goal)])),
        ("f.tar", tar(&[("pax", b'x', path.as_bytes()), ("cut", 0, goal)])),
    ] {
        let file = folder.file(name, &archive);
        let found = read(&file, &options).unwrap();
        assert_eq!((&found.trace, found.format), (&plain.trace, plain.format), "{name}");
        assert_eq!(found.files, [file]);
    }
    folder.file("in/deep/trace.goal", goal);
    assert_eq!(read(&folder.0.join("in"), &options).unwrap().trace, plain.trace);
    let left = fs::read_dir(std::env::temp_dir())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let own = format!("silvan-trace-{}-", std::process::id());
    assert!(!left.into_iter().any(|name| name.starts_with(&own)), "unpacked files are removed");
}

#[test]
fn sets_of_a_file_per_rank_are_read_from_archives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces");
    let folder = Folder::new("set");
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for rank in 0..3 {
        let actions = format!("{rank} init\n{rank} barrier\n{rank} finalize\n");
        files.push((format!("set/actions{rank}.txt"), actions.into_bytes()));
    }
    let named: Vec<(&str, u16, &[u8])> =
        files.iter().map(|(name, content)| (name.as_str(), 8, content.as_slice())).collect();
    let found = read(&folder.file("set.zip", &zip(&named)), &Options::default()).unwrap();
    assert_eq!(found.trace.ranks(), 3);
    // A gap is named with the archive.
    let gap = folder.file("gap.zip", &zip(&named[1..]));
    let error = read(&gap, &Options::default()).unwrap_err().to_string();
    let shown = gap.display();
    assert!(
        error.starts_with(&format!("{shown}/set/actions1.txt: {shown}/set/actions0.txt is missing")),
        "{error}"
    );
    assert!(root.is_dir());
}

#[test]
fn errors_name_the_archive_and_the_file_in_it() {
    let folder = Folder::new("errors");
    let said = |name: &str, archive: &[u8]| {
        let file = folder.file(name, archive);
        let error = read(&file, &Options::default()).unwrap_err().to_string();
        error.replace(&folder.0.display().to_string(), "F")
    };
    let wrong = GOAL.replace("to 1", "to 7");
    assert_eq!(
        said("a.zip", &zip(&[("t.goal", 8, wrong.as_bytes())])),
        "F/a.zip/t.goal:3: rank 0: send 8 bytes to rank 7, tag 0: there is no rank 7; there are 2"
    );
    assert_eq!(said("b.zip", &zip(&[])), "F/b.zip: is a zip archive without files; a trace is expected");
    let inner = zip(&[("t.goal", 0, GOAL.as_bytes())]);
    assert_eq!(
        said("c.tar", &tar(&[("in.zip", b'0', &inner)])),
        "F/c.tar/in.zip: this is a zip archive, not a trace: unpack it"
    );
    assert_eq!(
        said("d.tar", &tar(&[("a", b'0', b"x"), ("b", b'0', b"y")])),
        "F/d.tar: is a folder without files that are numbered by rank, such as job.0.et; name the file of the trace"
    );
    assert_eq!(
        said("e.tar", &tar(&[("a", b'0', b"x"), ("a", b'0', b"y")])),
        "F/e.tar: member `a`: is in the archive twice"
    );
}

#[test]
fn members_that_leave_the_archive_are_refused() {
    for (name, said) in [
        ("../x", "would leave the archive; names in an archive have no `..`"),
        ("a/../../x", "would leave the archive; names in an archive have no `..`"),
        ("/etc/x", "has an absolute path; names in an archive are relative"),
        ("a\\x", "has a backslash, a colon or a control character in its name; rename it"),
        ("C:x", "has a backslash, a colon or a control character in its name; rename it"),
        ("a\nx", "has a backslash, a colon or a control character in its name; rename it"),
        ("././.", "has no name"),
    ] {
        let shown = name.replace('\n', "\\n");
        let expected = format!("member `{shown}` {said}");
        assert_eq!(refused(&tar(&[(name, b'0', b"1")])), expected);
        assert_eq!(refused(&zip(&[(name, 0, b"1")])), expected);
    }
    for (kind, what) in [
        (b'1', "a link"),
        (b'2', "a link"),
        (b'3', "neither a file nor a folder"),
        (b'6', "neither a file nor a folder"),
    ] {
        assert_eq!(
            refused(&tar(&[("x", kind, b"")])),
            format!("member `x` is {what}; an archive of a trace has files only")
        );
    }
}

#[test]
fn sizes_are_checked_before_anything_is_unpacked() {
    let limits = Limits { members: 2, bytes: 10 };
    for archive in [
        tar(&[("a", b'0', b"12345"), ("b", b'0', b"123456")]),
        zip(&[("a", 0, b"12345"), ("b", 8, b"123456")]),
    ] {
        assert_eq!(
            listed(&archive, limits).unwrap_err(),
            "the members of the archive have more than 10 bytes together, the maximum"
        );
    }
    for archive in [
        tar(&[("a", b'0', b""), ("b", b'5', b""), ("c", b'0', b"")]),
        zip(&[("a", 0, b""), ("b", 0, b""), ("c", 0, b"")]),
    ] {
        assert_eq!(listed(&archive, limits).unwrap_err(), "the archive has more than 2 members, the maximum");
    }
    // A header that states 8 EiB.
    let mut huge = tar(&[("a", b'0', b"")]);
    huge[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    sum(&mut huge[..512]);
    assert!(refused(&huge).starts_with("the members of the archive have more than 17179869184 bytes"));
    let names = tar(&[("x", b'L', &[b'a'; 5_000])]);
    assert_eq!(refused(&names), "the attributes of a member have 5000 bytes; at most 4096 are possible");
}

#[test]
fn damaged_archives_are_refused() {
    let whole = tar(&[("a", b'0', &[7; 600])]);
    assert_eq!(refused(&whole[..900]), "member `a`: the archive is incomplete; create it again");
    assert_eq!(refused(&whole[..1536]), "the archive is incomplete; create it again", "no end");
    let mut changed = whole.clone();
    changed[0] = b'b';
    assert_eq!(refused(&changed), "the header of a member has a wrong check sum; create the archive again");
    changed = whole.clone();
    changed[148] = 0x80;
    assert_eq!(refused(&changed), "the header of a member has a wrong check sum; create the archive again");
    changed = whole.clone();
    changed[124] = b'9';
    sum(&mut changed[..512]);
    assert_eq!(refused(&changed), "a number in the header of a member is damaged; create the archive again");
    for (text, said) in [
        ("9 path=a", "the attributes of a member are damaged; create the archive again"),
        ("x path=a\n", "the attributes of a member are damaged; create the archive again"),
        ("99 path=a\n", "the attributes of a member are damaged; create the archive again"),
        ("22 GNU.sparse.major=1\n", "a member has holes (sparse files); create the archive without --sparse"),
    ] {
        assert_eq!(refused(&tar(&[("p", b'x', text.as_bytes()), ("a", b'0', b"")])), said);
    }
    let good = zip(&[("abc", 8, b"hello hello hello")]);
    let change = |from: &[u8], at: usize, to: &[u8]| {
        let mut archive = good.clone();
        let start = archive.windows(from.len()).position(|window| window == from).unwrap() + at;
        archive[start..start + to.len()].copy_from_slice(to);
        refused(&archive)
    };
    let list: &[u8] = b"PK\x01\x02";
    let end: &[u8] = b"PK\x05\x06";
    for (from, at, to, said) in [
        (list, 0, &b"PX"[..], "the list of members is damaged; create the archive again"),
        (list, 8, &[1], "member `abc` is encrypted; create the archive without a password"),
        (list, 10, &[9], "member `abc` is compressed by method 9; use deflate (method 8), the usual one"),
        (
            list,
            10,
            &[0],
            "member `abc` is not compressed, but has two different sizes; create the archive again",
        ),
        (
            list,
            16,
            &[0; 4],
            "member `abc`: its content differs from its size or check sum in the list; create the archive again",
        ),
        (
            list,
            24,
            &[16],
            "member `abc`: its content differs from its size or check sum in the list; create the archive again",
        ),
        (list, 24, &[200], "member `abc`: the archive is incomplete; create it again"),
        (list, 20, &[0xff; 4], "member `abc` lacks a size or place of zip64; create the archive again"),
        (list, 20, &[0xff, 0xff], "member `abc` exceeds the archive; create it again"),
        (list, 38, &[0, 0, 0, 0xa1], "member `abc` is a link; an archive of a trace has files only"),
        (list, 42, &[3], "member `abc` is not where the list states it; create the archive again"),
        (end, 4, &[1], "the archive has several parts; create it as one file"),
        (end, 10, &[2], "the archive is incomplete; create it again"),
        (end, 10, &[0xff; 2], "the archive is incomplete; create it again"),
        (end, 12, &[0xff; 4], "the archive has no valid list of its members at its end; create it again"),
        (end, 16, &[0xfe, 0xff], "the archive has no valid list of its members at its end; create it again"),
        (end, 20, &[5], "the archive has no valid list of its members at its end; create it again"),
    ] {
        assert_eq!(change(from, at, to), said, "{at} {to:?}");
    }
    assert_eq!(listed(&good, LIMITS).unwrap()[0].1, b"hello hello hello");
}

#[test]
fn zip64_states_numbers_with_64_bits() {
    let files: [(&str, u16, &[u8]); 3] = [("a", 0, b"12345"), ("set/", 0, b""), ("set/b", 8, &[7; 5000])];
    let expected = listed(&zip(&files), LIMITS).unwrap();
    let long = zip_at(&files, 0, true);
    assert_eq!(listed(&long, LIMITS).unwrap(), expected);
    assert_eq!(Kind::of(&zip_at(&[], 0, true)), Some(Kind::Zip));
    assert_eq!(listed(&zip_at(&[], 0, true), LIMITS).unwrap(), []);
    // The archive is behind 5 GiB of other members.
    let before = 5 << 30;
    let content = zip_at(&files, before, true);
    let mut found = Vec::new();
    members(Behind { empty: before, content: &content, at: 0 }, Kind::Zip, LIMITS, &mut |name, content| {
        let mut bytes = Vec::new();
        content(&mut bytes)?;
        found.push((name.to_owned(), bytes));
        Ok(())
    })
    .unwrap();
    assert_eq!(found, expected);
    // 65,536 members are more than 16 bits can state.
    let names: Vec<String> = (0..1 << 16).map(|at| format!("{at}")).collect();
    let many: Vec<(&str, u16, &[u8])> = names.iter().map(|name| (name.as_str(), 0, &b""[..])).collect();
    assert_eq!(listed(&zip_at(&many, 0, true), LIMITS).unwrap().len(), 1 << 16);
    assert_eq!(listed(&zip(&many[1..]), LIMITS).unwrap().len(), (1 << 16) - 1, "without zip64");
}

#[test]
fn damaged_zip64_archives_are_refused() {
    let good = zip_at(&[("abc", 8, b"hello hello hello")], 0, true);
    let change = |from: &[u8], at: usize, to: &[u8]| {
        let mut archive = good.clone();
        let start = archive.windows(from.len()).position(|window| window == from).unwrap() + at;
        archive[start..start + to.len()].copy_from_slice(to);
        refused(&archive)
    };
    let list = "the archive has no valid list of its members at its end; create it again";
    let parts = "the archive has several parts; create it as one file";
    let (extra, end, place): (&[u8], &[u8], &[u8]) = (b"UT\x01\0", b"PK\x06\x06", b"PK\x06\x07");
    for (from, at, to, said) in [
        (extra, 5, &[2][..], "member `abc` lacks a size or place of zip64; create the archive again"),
        (extra, 7, &[16], "member `abc` lacks a size or place of zip64; create the archive again"),
        (
            extra,
            9,
            &[0, 0, 0, 0, 9],
            "the members of the archive have more than 17179869184 bytes together, the maximum",
        ),
        (extra, 17, &[0xff; 8], "member `abc` exceeds the archive; create it again"),
        (extra, 25, &[0xff; 8], "the archive is incomplete; create it again"),
        (end, 0, b"PX", list),
        (end, 16, &[1], parts),
        (end, 32, &[2], "the archive is incomplete; create it again"),
        (end, 40, &[0xff; 8], list),
        (end, 48, &[0xff; 8], list),
        (place, 0, b"PX", list),
        (place, 4, &[1], parts),
        (place, 8, &[0xff; 8], list),
        (place, 16, &[2], parts),
    ] {
        assert_eq!(change(from, at, to), said, "{at} {to:?}");
    }
}

proptest! {
    /// Damaged archives give errors or files with safe names, but never a panic.
    #[test]
    fn damage_never_causes_a_panic(changes in prop::collection::vec((0..2_000usize, any::<u8>()), 0..6), cut in 0..3_000usize) {
        let files: [&[u8]; 2] = [GOAL.as_bytes(), b"0123456789"];
        for mut archive in [
            tar(&[("set/a", b'0', files[0]), ("p", b'x', b"10 path=b\n"), ("b", b'0', files[1])]),
            zip(&[("set/a", 8, files[0]), ("b", 0, files[1])]),
            zip_at(&[("set/a", 8, files[0]), ("b", 0, files[1])], 0, true),
        ] {
            for &(at, byte) in &changes {
                let at = at % archive.len();
                archive[at] = byte;
            }
            archive.truncate(cut.max(64));
            if let Ok(found) = listed(&archive, LIMITS) {
                for (name, content) in found {
                    prop_assert!(name.is_relative() && !name.components().any(|part| part.as_os_str() == ".."));
                    prop_assert!(content.len() as u64 <= LIMITS.bytes);
                }
            }
        }
    }
}
