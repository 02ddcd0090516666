//! Archives of traces: members have safe names, and neither they nor their sizes exceed the limits.
#![no_main]

use std::io::Cursor;
use std::path::Component;

use libfuzzer_sys::fuzz_target;
use silvan_trace::read::archive::{Kind, Limits, members};

const LIMITS: Limits = Limits { members: 64, bytes: 1 << 20 };
/// Size of a block of a tar archive, and the place of the check sum in a header.
const BLOCK: usize = 512;
const SUM: std::ops::Range<usize> = 148..156;

/// Corrects the check sums of the headers of a tar archive, which changes would invalidate.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(BLOCK).filter(|block| &block[257..262] == b"ustar") {
        block[SUM].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    archive
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Kind::of(bytes);
    let archives = [(Kind::Zip, bytes.to_vec()), (Kind::Tar, bytes.to_vec()), (Kind::Tar, repaired(bytes))];
    for (kind, archive) in archives {
        let (mut files, mut total) = (0, 0);
        let found = members(Cursor::new(archive), kind, LIMITS, &mut |name, content| {
            assert!(name.components().all(|part| matches!(part, Component::Normal(_))), "{name:?}");
            let mut bytes = Vec::new();
            content(&mut bytes)?;
            files += 1;
            total += bytes.len() as u64;
            Ok(())
        });
        assert!(files <= LIMITS.members && total <= LIMITS.bytes);
        assert!(found.is_err() || found == Ok(files));
    }
});
