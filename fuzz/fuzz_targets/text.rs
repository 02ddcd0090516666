//! Decodes bytes as text: plain, gzip, or an error.
#![no_main]

use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use silvan_engine::random::Stream;
use silvan_scenario::import::decode;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

// A changed byte in a gzip stream would break its checksum and prevent further reading. Therefore the
// content of the stream is changed and compressed again.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let random = &mut Stream::new(u64::from(seed), "mutate", 0);
    let unpacked = unpack(&data[..size]);
    let packed = match (unpacked, random.below(8)) {
        (None, 0) => pack(&data[..size], random),
        (Some(inside), 1..6) => {
            let length = inside.len();
            let mut inside = inside;
            inside.resize(max_size.max(length), 0);
            let length = fuzzer_mutate(&mut inside, length, max_size.max(length));
            pack(&inside[..length], random)
        }
        (Some(inside), 6) => {
            let (one, other) = inside.split_at(random.below(inside.len() as u32 + 1) as usize);
            [pack(&one.repeat(1 + random.below(20) as usize), random), pack(other, random)].concat()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    let size = packed.len().min(max_size);
    data[..size].copy_from_slice(&packed[..size]);
    size
});

fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut inside = Vec::new();
    let whole =
        bytes.starts_with(&MAGIC).then(|| MultiGzDecoder::new(bytes).take(1 << 16).read_to_end(&mut inside));
    whole?.is_ok().then_some(inside)
}

/// Packs bytes as gzip, usually without compression, because compression would take most of the time.
fn pack(bytes: &[u8], random: &mut Stream) -> Vec<u8> {
    if random.chance(1, 512) || bytes.len() > usize::from(u16::MAX) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        return encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory succeeds");
    }
    let mut crc = Crc::new();
    crc.update(bytes);
    // A single stored block: its length, and the inverted length.
    let length = bytes.len() as u16;
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let lengths = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
    let footer = [crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat();
    [&header[..], &lengths, bytes, &footer].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = decode(bytes, "fuzz") else { return };
    assert!(bytes.starts_with(&MAGIC) || text.as_bytes() == bytes);
    assert!(text.lines().all(|line| line.len() <= silvan_scenario::import::MAX_LINE_BYTES));
});
