//! Checkpoints: files with the state of a run, from which it can be continued.
//!
//! A checkpoint contains the scenario, so that the run can be built again, and then the state
//! ([`silvan_engine::saved`]). It is accepted only by the version of Silvan that wrote it, with the same
//! layout of the state, and only for the same scenario with the same content of the files that the scenario
//! names. It also names the builds that have simulated the run so far ([`Part`]); the caller decides whether
//! another build may continue. The state depends on the number of partitions, so a resumed run uses the same
//! number of threads.
//!
//! After [`MAGIC`], a file is a gzip stream with a checksum, and nothing follows the stream. Reading executes no
//! code from the file. Its texts are at most as long as those of a scenario file, and the memory of the state
//! is limited by the size of the file ([`most_memory`]), so a small file cannot take all memory.

use std::fs::OpenOptions;
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use rustc_hash::FxHasher;
use silvan_engine::Time;
use silvan_engine::saved::{Damaged, Reader, Saved, Writer};
use silvan_fabric::config::{Config, Scheduler};
use silvan_fabric::simulation::Simulation;
use silvan_network::routing::Tables;
use silvan_network::topology::Topology;

use crate::import::plain;
use crate::source::MAX_TEXT_BYTES;
use crate::{Scenario, ScenarioError, Threads};

/// The first bytes of each checkpoint.
const MAGIC: &[u8] = b"Silvan checkpoint\n";

/// The version of Silvan.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum size of the version and of the name of a build in bytes.
const MAX_NAME: u64 = 64;

/// Maximum size of a file name in bytes.
const MAX_PATH: u64 = 1 << 16;

/// Maximum size of a scenario in bytes.
const MAX_TEXT: u64 = MAX_TEXT_BYTES as u64;

/// Maximum size of a resolved scenario in bytes. All defaults are written out in it.
const MAX_RESOLVED: u64 = 4 * MAX_TEXT;

/// The memory in bytes that the lists of a state may take in a checkpoint of any size, and in addition for each
/// byte of the file. [`Saver::write`] lengthens the files of larger states.
const ANY_MEMORY: u64 = 64 << 20;
const MEMORY_PER_BYTE: u64 = 64;

/// The memory in bytes that the lists of a state may take if the checkpoint has `length` bytes.
fn most_memory(length: u64) -> u64 {
    length.saturating_mul(MEMORY_PER_BYTE).saturating_add(ANY_MEMORY)
}

/// The text, name and overrides from which a scenario was read; see [`Scenario::from_toml`].
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct Written {
    /// The text.
    pub text: String,
    /// The name of the text in error messages.
    pub origin: String,
    /// The folder from which relative file names start, as an absolute path.
    pub base_dir: String,
    /// Dotted keys with the values that replace those of the text.
    pub overrides: Vec<(String, String)>,
}

impl Written {
    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (text, origin, base_dir) = (from.text(MAX_TEXT)?, from.text(MAX_PATH)?, from.text(MAX_PATH)?);
        Ok(Self { text, origin, base_dir, overrides: Vec::load(from)? })
    }
}

/// A part of a run that one process simulated without interruption.
#[derive(Debug, Clone, PartialEq, Default, Saved)]
pub struct Part {
    /// The simulated time at which the part begins.
    pub at: Time,
    /// The build that simulated the part, as the caller names it.
    pub build: String,
    /// Wall-clock time in seconds up to the checkpoint with which the part ends.
    pub wall_s: f64,
}

/// The header of a checkpoint, which describes its run.
#[derive(Debug, Clone, Saved)]
struct Header {
    written: Written,
    /// The resolved scenario.
    resolved: String,
    inputs: u64,
    now: Time,
    /// The number of threads that the scenario permits. It determines the number of partitions.
    threads: u16,
    partitions: usize,
    /// In order; at least one.
    parts: Vec<Part>,
}

impl Header {
    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (written, resolved) = (Written::load(from)?, from.text(MAX_RESOLVED)?);
        let (inputs, now, threads) = (u64::load(from)?, Time::load(from)?, u16::load(from)?);
        let (partitions, parts) = (usize::load(from)?, Vec::load(from)?);
        Ok(Self { written, resolved, inputs, now, threads, partitions, parts })
    }

    /// Checks that the texts are not longer than those that [`Self::load`] accepts.
    fn check(&self) -> io::Result<()> {
        let Written { text, origin, base_dir, .. } = &self.written;
        let texts =
            [(text, MAX_TEXT), (origin, MAX_PATH), (base_dir, MAX_PATH), (&self.resolved, MAX_RESOLVED)];
        match texts.into_iter().find(|(text, most)| text.len() as u64 > *most) {
            None => Ok(()),
            Some((text, most)) => {
                let what = format!(
                    "a checkpoint cannot contain a scenario with {} bytes of text; {most} is the maximum",
                    text.len()
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, what))
            }
        }
    }
}

/// Writes checkpoints of a run.
pub struct Saver {
    header: Header,
}

/// A checkpoint that is being read.
pub struct Checkpoint {
    path: PathBuf,
    header: Header,
    reader: Reader<'static>,
}

/// A stream whose length is known.
pub trait Source: BufRead + Seek {}
impl<T: BufRead + Seek> Source for T {}

/// Decompresses a stream, which must end where the compressed data end.
struct Unpacked(GzDecoder<Box<dyn Source>>);

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(into)?;
        if count == 0 && !into.is_empty() && !self.0.get_mut().fill_buf()?.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes follow the end of the state"));
        }
        Ok(count)
    }
}

/// Counts the bytes that are written.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A hash of the topology, the tables before and after faults, the lanes, the traffic files and the traces of a
/// run.
fn inputs(topology: &Topology, tables: &Tables, config: &Config) -> u64 {
    let mut hash = FxHasher::default();
    (&topology.hosts, &topology.switches, &topology.links).hash(&mut hash);
    (&tables.out, &tables.further).hash(&mut hash);
    if let Some(lanes) = &config.path_lanes {
        (&lanes.levels, &lanes.maps).hash(&mut hash);
    }
    if let Some(tables) = &config.tables_after_faults {
        (&tables.out, &tables.further).hash(&mut hash);
    }
    config.traffic.iter().for_each(|traffic| traffic.loaded.hash(&mut hash));
    config.jobs.iter().for_each(|job| job.trace.hash(&mut hash));
    hash.finish()
}

/// The resolved scenario as TOML, with a given number of threads.
fn resolved(scenario: &Scenario, threads: u16) -> Result<String, ScenarioError> {
    let mut scenario = scenario.clone();
    let spec = &mut scenario.spec;
    spec.threads = Threads::Count(threads);
    // Only tests choose this scheduler. It has no name in files.
    if spec.scheduler == Scheduler::BinnedIfPossible {
        spec.scheduler = Scheduler::default();
    }
    scenario.to_toml()
}

/// The number of the first line in which two texts differ, and the line in each text.
fn first_difference(one: &str, other: &str) -> Option<(usize, String, String)> {
    let (mut one, mut other) = (one.lines(), other.lines());
    (1..)
        .map_while(|number| match (one.next(), other.next()) {
            (None, None) => None,
            (one, other) => Some((number, one, other)),
        })
        .find(|(_, one, other)| one != other)
        .map(|(number, one, other)| {
            let quoted = |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
            (number, quoted(one), quoted(other))
        })
}

impl Saver {
    /// Creates the run of a scenario that was read from `written`, and the writer of its checkpoints.
    ///
    /// # Errors
    /// Same as [`Scenario::simulation`].
    pub fn of(scenario: &Scenario, written: Written) -> Result<(Simulation, Self), ScenarioError> {
        let (simulation, inputs) = scenario.simulation_with(inputs)?;
        let threads = scenario.spec.threads.count();
        let partitions = simulation.partitions().unwrap_or(1);
        let resolved = resolved(scenario, threads)?;
        let parts = vec![Part::default()];
        let header = Header { written, resolved, inputs, now: Time::ZERO, threads, partitions, parts };
        Ok((simulation, Self { header }))
    }

    /// The parts of the run. The last one is in progress.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.header.parts
    }

    /// Sets the build and the wall-clock time in seconds of the part in progress.
    pub fn describe_part(&mut self, build: &str, wall_s: f64) {
        if let Some(part) = self.header.parts.last_mut() {
            build.clone_into(&mut part.build);
            part.wall_s = wall_s;
        }
    }

    /// Writes the state of the run to a stream.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, simulation: &Simulation, mut out: impl Write) -> io::Result<()> {
        let header = Header { now: simulation.now(), ..self.header.clone() };
        header.check()?;
        out.write_all(MAGIC)?;
        let mut packed = GzEncoder::new(Counted { out, bytes: 0 }, Compression::fast());
        let mut writer = Writer::new(&mut packed);
        VERSION.to_owned().save(&mut writer);
        Simulation::LAYOUT.save(&mut writer);
        header.save(&mut writer);
        simulation.save(&mut writer);
        let memory = writer.memory();
        writer.finish()?;
        let filling = filling(memory, packed.get_ref().bytes);
        let mut writer = Writer::new(&mut packed);
        filling.save(&mut writer);
        writer.finish()?;
        packed.finish()?.flush()
    }

    /// Writes a checkpoint to an existing file, which is emptied first, and waits until it is on the disk.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, simulation: &Simulation, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).truncate(true).open(path)?;
        self.write(simulation, BufWriter::new(&file))?;
        file.sync_all()
    }
}

/// The data that lengthen a file of at least `length` bytes so that a state whose lists take `memory` bytes may be read from
/// it. A state of many equal values may be compressed so well that its memory exceeds that of other files of its size. The
/// data cannot be compressed.
fn filling(memory: u64, length: u64) -> Vec<u64> {
    let missing = memory.saturating_sub(most_memory(length)).div_ceil(MEMORY_PER_BYTE);
    (0..missing.div_ceil(4)).map(scattered).collect()
}

/// A number that does not resemble those of neighboring arguments (the finalizer of splitmix64).
fn scattered(at: u64) -> u64 {
    let mut hash = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl Checkpoint {
    /// Opens a checkpoint.
    ///
    /// # Errors
    /// If the file cannot be read, is not a checkpoint, is damaged, or comes from another version or build.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        let file = plain::open(path).map_err(|error| {
            let what = match error.kind() {
                std::io::ErrorKind::NotFound => "no such file".to_owned(),
                _ => format!("cannot be read: {error}"),
            };
            ScenarioError::of_file(&path.display().to_string(), what)
        })?;
        Self::read(Box::new(BufReader::new(file)), path)
    }

    /// Same as [`Self::open`], for a stream. Error messages contain `path`.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub fn read(mut from: Box<dyn Source>, path: &Path) -> Result<Self, ScenarioError> {
        let wrong = |what: String| ScenarioError::of_file(&path.display().to_string(), what);
        let length = from.seek(SeekFrom::End(0)).and_then(|length| from.rewind().map(|()| length));
        let length = length.map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let mut magic = [0; MAGIC.len()];
        let is_known = from.read_exact(&mut magic).is_ok() && magic == MAGIC;
        if !is_known {
            return Err(wrong("is not a checkpoint; `silvan run --checkpoint` writes them".to_owned()));
        }
        let mut reader = Reader::new(Unpacked(GzDecoder::new(from)));
        reader.limit(most_memory(length));
        let version = reader.text(MAX_NAME).map_err(|error| damaged(path, &error))?;
        if version != VERSION {
            return Err(wrong(format!(
                "was written by Silvan {version}, but this is Silvan {VERSION}; resume it with that version, or run the \
                 scenario from the start"
            )));
        }
        let layout = u64::load(&mut reader).map_err(|error| damaged(path, &error))?;
        if layout != Simulation::LAYOUT {
            return Err(wrong(format!(
                "was written by another build of Silvan {VERSION}, in which the state of a run differs; resume it with that \
                 build, or run the scenario from the start"
            )));
        }
        let header = Header::load(&mut reader).map_err(|error| damaged(path, &error))?;
        Ok(Self { path: path.to_owned(), header, reader })
    }

    /// The origin of the scenario of the run.
    #[must_use]
    pub fn written(&self) -> &Written {
        &self.header.written
    }

    /// The simulated time of the state.
    #[must_use]
    pub fn now(&self) -> Time {
        self.header.now
    }

    /// The number of threads of the run. The state depends on it.
    #[must_use]
    pub fn threads(&self) -> u16 {
        self.header.threads
    }

    /// Checks that the build that continues the run has simulated all of it so far.
    ///
    /// # Errors
    /// If another build has simulated a part of the run. `advice` says what to do then.
    pub fn refuse_other_builds(&self, build: &str, advice: &str) -> Result<(), ScenarioError> {
        let Some(other) = self.header.parts.iter().find(|part| part.build != build) else { return Ok(()) };
        let what = format!(
            "was written by another build of Silvan {VERSION} ({}; this is {build}), whose results may differ; resume it with \
             that build, or run the scenario from the start, or {advice}",
            other.build.escape_debug()
        );
        Err(ScenarioError::of_file(&self.path.display().to_string(), what))
    }

    /// Reads the scenario of the run.
    ///
    /// # Errors
    /// Same as [`Scenario::from_toml`].
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let Written { text, origin, base_dir, overrides } = &self.header.written;
        Scenario::from_toml(text, origin, Path::new(base_dir), overrides)
    }

    /// Continues the run of a scenario, which must be that of the checkpoint.
    ///
    /// # Errors
    /// If the scenario, the content of its files or the number of partitions differs, if the file is damaged,
    /// or any error of [`Scenario::simulation`].
    pub fn resume(self, scenario: &Scenario) -> Result<(Simulation, Saver), ScenarioError> {
        let Self { path, header, mut reader } = self;
        let wrong = |what: String| ScenarioError::of_file(&path.display().to_string(), what);
        let mut scenario = scenario.clone();
        scenario.spec.threads = Threads::Count(header.threads);
        let own = resolved(&scenario, header.threads)?;
        if let Some((line, theirs, ours)) = first_difference(&header.resolved, &own) {
            return Err(wrong(format!(
                "belongs to another scenario than {}: line {line} of the resolved scenario is {theirs} in the checkpoint, but \
                 {ours} here; resume it with its own scenario",
                scenario.origin()
            )));
        }
        let (mut simulation, mut saver) = Saver::of(&scenario, header.written)?;
        if saver.header.inputs != header.inputs {
            return Err(wrong(
                "belongs to other files than the scenario names now: a topology, table or trace has changed; restore it, or \
                 run the scenario from the start"
                    .to_owned(),
            ));
        }
        if saver.header.partitions != header.partitions {
            return Err(wrong(format!(
                "has {} parts of the network, but there are {} here; resume it with the build that has written it",
                header.partitions, saver.header.partitions
            )));
        }
        let restored = simulation.restore(&mut reader).and_then(|()| {
            Vec::<u64>::load(&mut reader)?;
            reader.finish()?;
            simulation.check_restored()
        });
        restored.map_err(|error| damaged(&path, &error))?;
        saver.header.parts =
            [&header.parts[..], &[Part { at: simulation.now(), ..Part::default() }]].concat();
        Ok((simulation, saver))
    }
}

fn damaged(path: &Path, error: &Damaged) -> ScenarioError {
    unusable(path, &error.to_string())
}

/// The error for a checkpoint from which no run can continue, with the reason.
#[must_use]
pub fn unusable(path: &Path, why: &str) -> ScenarioError {
    let what = format!(
        "is incomplete or damaged ({why}); use another checkpoint, or run the scenario from the start"
    );
    ScenarioError::of_file(&path.display().to_string(), what)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A state that is compressed to almost nothing can be read, because its file is long enough.
    #[test]
    fn a_state_of_equal_values_makes_a_file_of_sufficient_length() {
        assert!(filling(ANY_MEMORY, 0).is_empty());
        for (memory, length) in [(ANY_MEMORY + 1, 0), (ANY_MEMORY + (1 << 30), 1 << 20)] {
            let filling = filling(memory, length);
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            let mut writer = Writer::new(&mut packed);
            filling.save(&mut writer);
            writer.finish().unwrap();
            let longer = length + packed.finish().unwrap().len() as u64;
            assert!(most_memory(longer) >= memory + 8 * filling.len() as u64, "{memory}");
            assert!(longer < length + (1 << 26));
        }
    }

    #[test]
    fn texts_that_no_checkpoint_can_contain_are_not_written() {
        let written = |origin: String| Written {
            text: String::new(),
            origin,
            base_dir: String::new(),
            overrides: Vec::new(),
        };
        let header = |origin| Header {
            written: written(origin),
            resolved: String::new(),
            inputs: 0,
            now: Time::ZERO,
            threads: 1,
            partitions: 1,
            parts: Vec::new(),
        };
        header("a".into()).check().unwrap();
        let error = header("a".repeat(MAX_PATH as usize + 1)).check().unwrap_err().to_string();
        assert!(error.ends_with("65537 bytes of text; 65536 is the maximum"), "{error}");
    }
}
