//! Checkpoints: files with the state of a run, from which it can be continued.
//!
//! A checkpoint contains the scenario, so that the run can be built again, and then the state
//! ([`silvan_engine::saved`]). It is accepted only by the version of Silvan that wrote it, with the same
//! layout of the state, and only for the same scenario with the same content of the files that the scenario
//! names. The state depends on the number of partitions, so a resumed run uses the same number of threads.
//!
//! After [`MAGIC`], a file is a gzip stream with a checksum. Reading takes memory in proportion to the
//! uncompressed size, and executes no code from the file.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Write};
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

use crate::{Scenario, ScenarioError, Threads, plain};

/// The first bytes of each checkpoint.
const MAGIC: &[u8] = b"Silvan checkpoint\n";

/// The version of Silvan.
const VERSION: &str = env!("CARGO_PKG_VERSION");

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
        let header = Header { written, resolved, inputs, now: Time::ZERO, threads, partitions };
        Ok((simulation, Self { header }))
    }

    /// Writes the state of the run to a stream.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, simulation: &Simulation, mut out: impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let mut packed = GzEncoder::new(out, Compression::fast());
        let mut writer = Writer::new(&mut packed);
        VERSION.to_owned().save(&mut writer);
        Simulation::LAYOUT.save(&mut writer);
        Header { now: simulation.now(), ..self.header.clone() }.save(&mut writer);
        simulation.save(&mut writer);
        writer.finish()?;
        packed.finish()?.flush()
    }

    /// Writes a checkpoint. A file of this name is replaced only when the new one is complete.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, simulation: &Simulation, path: &Path) -> Result<(), ScenarioError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = File::create(&temporary).and_then(|file| {
            self.write(simulation, BufWriter::new(&file))?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)
        });
        written.map_err(|error| {
            // Errors of the removal are ignored, because the first error is reported.
            let _ = std::fs::remove_file(&temporary);
            ScenarioError::of_file(
                &path.display().to_string(),
                format!("the checkpoint cannot be written: {error}"),
            )
        })
    }
}

impl Checkpoint {
    /// Opens a checkpoint.
    ///
    /// # Errors
    /// If the file cannot be read, is not a checkpoint, is damaged, or comes from another version or build.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        let file = plain::open(path).map_err(|error| {
            ScenarioError::of_file(&path.display().to_string(), format!("cannot be read: {error}"))
        })?;
        Self::read(Box::new(BufReader::new(file)), path)
    }

    /// Same as [`Self::open`], for a stream. Error messages contain `path`.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub fn read(mut from: Box<dyn io::BufRead>, path: &Path) -> Result<Self, ScenarioError> {
        let wrong = |what: String| ScenarioError::of_file(&path.display().to_string(), what);
        let mut magic = [0; MAGIC.len()];
        let is_known = from.read_exact(&mut magic).is_ok() && magic == MAGIC;
        if !is_known {
            return Err(wrong("is not a checkpoint; `silvan run --checkpoint` writes them".to_owned()));
        }
        let mut reader = Reader::new(GzDecoder::new(from));
        let version = String::load(&mut reader).map_err(|error| damaged(path, &error))?;
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
        let (mut simulation, saver) = Saver::of(&scenario, header.written)?;
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
        simulation.restore(&mut reader).map_err(|error| damaged(&path, &error))?;
        reader.finish().map_err(|error| damaged(&path, &error))?;
        Ok((simulation, saver))
    }
}

fn damaged(path: &Path, error: &Damaged) -> ScenarioError {
    let what = format!(
        "is incomplete or damaged ({error}); use another checkpoint, or run the scenario from the start"
    );
    ScenarioError::of_file(&path.display().to_string(), what)
}
