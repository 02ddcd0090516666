//! Checkpoints: a damaged checkpoint is rejected or restored with other values. Reading it neither panics nor
//! takes much memory. The restored run continues to its next sample. Its values are arbitrary, so it may end with an
//! error or a panic, which callers report, but it must end, with bounded memory.
//!
//! The input is a list of changes of a valid checkpoint: a position (4 bytes) and the new value there (1
//! byte). A position beyond the end cuts the content off at the position modulo its length.
#![no_main]

use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use silvan_scenario::Scenario;
use silvan_scenario::checkpoint::{Checkpoint, Saver, Written};

const MAGIC: &[u8] = b"Silvan checkpoint\n";

const TEXT: &str = r#"duration = "60 us"
topology = { kind = "k-ary-n-tree", k = 2, n = 2 }
congestion = { mechanism = "dcqcn" }
[[traffic]]
pattern = { kind = "uniform" }
load_percent = 60
[[traffic]]
name = "hot"
pattern = { kind = "hotspots", to = ["H4"] }
hosts = ["H1", "H2"]
"#;

/// Maximum number of events until the next sample.
const EVENTS: u64 = 100_000;

/// Whether a restored run continues. The usual hook ends the process at a panic.
static CONTINUES: AtomicBool = AtomicBool::new(false);

/// A scenario, and the unpacked content of a checkpoint of its run.
fn valid() -> &'static (Scenario, Vec<u8>) {
    static VALID: OnceLock<(Scenario, Vec<u8>)> = OnceLock::new();
    VALID.get_or_init(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !CONTINUES.load(Ordering::Relaxed) {
                usual(panic);
            }
        }));
        let scenario = Scenario::from_toml(TEXT, "fuzz.toml", Path::new("."), &[]).expect("the scenario is valid");
        let (origin, base_dir) = ("fuzz.toml".to_owned(), ".".to_owned());
        let written = Written { text: TEXT.to_owned(), origin, base_dir, overrides: Vec::new() };
        let (mut simulation, saver) = Saver::of(&scenario, written).expect("the scenario can be set up");
        simulation.advance(2_000).expect("the run has no error");
        let mut packed = Vec::new();
        saver.write(&simulation, &mut packed).expect("memory can be written");
        let mut content = Vec::new();
        GzDecoder::new(&packed[MAGIC.len()..]).read_to_end(&mut content).expect("the stream is complete");
        (scenario, content)
    })
}

fuzz_target!(|changes: &[u8]| {
    let (scenario, content) = valid();
    let mut content = content.clone();
    for change in changes.chunks_exact(5) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize;
        match content.get_mut(at) {
            Some(byte) => *byte = change[4],
            None => content.truncate(at % content.len().max(1)),
        }
    }
    let mut packed = GzEncoder::new(MAGIC.to_vec(), Compression::fast());
    packed.write_all(&content).expect("memory can be written");
    let bytes = packed.finish().expect("memory can be written");
    let Ok(read) = Checkpoint::read(Box::new(Cursor::new(bytes)), Path::new("fuzz.checkpoint")) else { return };
    let Ok((mut simulation, _)) = read.resume(scenario) else { return };
    CONTINUES.store(true, Ordering::Relaxed);
    let _ = catch_unwind(AssertUnwindSafe(|| simulation.advance_to_sample(EVENTS)));
    CONTINUES.store(false, Ordering::Relaxed);
});
