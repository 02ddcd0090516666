//! Reads traces. The format is detected from the content.
//!
//! | format | how it is detected |
//! | --- | --- |
//! | GOAL, text | the first word is `num_ranks`, or the first line starts with a comment |
//! | GOAL, binary | the first eight bytes are 4223 |
//! | SimGrid's time-independent traces | lines of a rank and an action, or names of files with such lines |
//! | VEF | the first word is `VEF` |
//! | Chakra execution traces | length-prefixed messages, the first with a version or attributes; or `workload_graph` |
//! | | or these messages in JSON |
//! | HPCC recordings | the first line is a comment that starts with `HPCC` |
//! | text workloads of SimAI and ASTRA-sim | the first word is a policy, such as `HYBRID_TRANSFORMER` |
//! | algorithms of MSCCL | XML with an element `algo` |
//!
//! Text and Chakra files may be compressed with gzip. A folder or an archive (zip, tar, compressed tar) stands for the trace in
//! it. If a Chakra or SimGrid file contains one of several
//! ranks and the rank number is in its name (`job.3.et`, `actions3.txt`), the files of the other ranks are
//! also read, and a gap in the numbers is an error.

pub mod archive;
pub mod chakra;
mod chakra_json;
mod chakra_values;
mod family;
pub mod fields;
pub mod goal;
pub mod goal_binary;
pub mod hpcc;
mod labels;
pub mod msccl;
mod protobuf;
pub mod relatives;
pub mod source;
pub mod ti;
mod ti_actions;
pub mod vef;
mod vef_graph;
mod work;
pub mod workload;

use std::path::{Path, PathBuf};

use silvan_engine::Rate;

use crate::collective::{Choice, part};
use crate::error::TraceError;
use crate::trace::{BuildError, MAX_ITEMS, MAX_KEPT, MAX_STORED, Trace, TraceBuilder};
use archive::Unpacked;
use source::Source;

/// A format of traces.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// GOAL, text.
    Goal,
    /// GOAL, binary.
    GoalBinary,
    /// SimGrid's time-independent traces.
    Ti,
    /// VEF.
    Vef,
    /// Chakra execution traces.
    Chakra,
    /// Recordings of the MPI calls of HPCC.
    Hpcc,
    /// Text workloads of SimAI (AICB) and ASTRA-sim 1.
    Workload,
    /// Algorithms of collective operations of MSCCL.
    Msccl,
}

/// All supported formats.
pub const FORMATS: [Format; 8] = [
    Format::Goal,
    Format::GoalBinary,
    Format::Ti,
    Format::Vef,
    Format::Chakra,
    Format::Hpcc,
    Format::Workload,
    Format::Msccl,
];

impl Format {
    /// The format's name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::GoalBinary => "goal-binary",
            Self::Ti => "ti",
            Self::Vef => "vef",
            Self::Chakra => "chakra",
            Self::Hpcc => "hpcc",
            Self::Workload => "workload",
            Self::Msccl => "msccl",
        }
    }

    /// The format with a given name.
    ///
    /// # Errors
    /// If there is no such format. The message lists all formats.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let found = FORMATS.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("format `{name}` is not one of {}", FORMATS.map(Self::name).join(", ")))
    }
}

/// Speed of a host in flop/s for SimGrid's traces, if it is not given.
pub const USUAL_FLOPS: f64 = 1e9;

/// Options of the readers.
#[derive(Debug, Clone)]
pub struct Options {
    /// The format. If it is omitted, the content determines the format.
    pub format: Option<Format>,
    /// Nanoseconds per time unit of the file, 1 by default.
    pub time_scale: f64,
    /// Factor by which computation times and delays are multiplied.
    pub compute_scale: f64,
    /// Speed of a host in flop/s, for traces that count operations (SimGrid, Chakra). SimGrid's traces use
    /// [`USUAL_FLOPS`] if it is omitted. Chakra's traces need it if nodes state operations, but no duration.
    pub host_flops: Option<f64>,
    /// Memory bandwidth of a host, for Chakra's nodes that state bytes of memory, but no duration.
    pub host_bandwidth: Option<Rate>,
    /// Number of ranks, for text workloads that do not state it (`all_gpus`).
    pub ranks: Option<u32>,
    /// Total size of the operation in bytes, for algorithms of MSCCL.
    pub bytes: Option<u64>,
    /// Algorithms of collective operations.
    pub algorithms: Choice,
    /// Maximum number of operations and dependencies together. By default, it is [`MAX_ITEMS`], and [`MAX_STORED`] for GOAL and
    /// Chakra.
    pub limit: Option<u64>,
    /// Number of operations and dependencies above which a GOAL or Chakra trace is in a temporary file.
    pub in_memory: u64,
}

impl Options {
    /// Maximum number of operations and dependencies of a trace in memory.
    fn limit(&self) -> u64 {
        self.limit.unwrap_or(MAX_ITEMS)
    }

    /// Starts a trace that may be larger than memory.
    fn large(&self, ranks: u64) -> Result<TraceBuilder, BuildError> {
        TraceBuilder::keep(ranks, self.limit.unwrap_or(MAX_STORED), self.in_memory)
    }

    /// Speed of a host for SimGrid's traces, in flop/s.
    fn flops(&self) -> f64 {
        self.host_flops.unwrap_or(USUAL_FLOPS)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            time_scale: 1.0,
            compute_scale: 1.0,
            host_flops: None,
            host_bandwidth: None,
            ranks: None,
            bytes: None,
            algorithms: Choice::default(),
            limit: None,
            in_memory: MAX_KEPT,
        }
    }
}

/// A trace read from files.
#[derive(Debug, Clone)]
pub struct Read {
    /// The trace.
    pub trace: Trace,
    /// Format of the trace.
    pub format: Format,
    /// The files of the trace.
    pub files: Vec<PathBuf>,
}

/// Reads a trace. A folder or an archive stands for the only trace in it.
///
/// # Errors
/// If the file cannot be read, its format is unknown, or its content is invalid or exceeds `options.limit`.
pub fn read(path: &Path, options: &Options) -> Result<Read, TraceError> {
    if path.is_dir() {
        return read(&family::in_folder(path)?, options);
    }
    let Some(kind) = archive_at(path)? else { return read_file(path, options) };
    let unpacked = Unpacked::new(path, kind)?;
    let named = |text: &str| unpacked.named(text, path);
    let inside = family::in_folder(&unpacked.folder).and_then(|file| read_file(&file, options));
    let mut found = inside.map_err(|error| TraceError {
        file: named(&error.file),
        message: named(&error.message),
        ..error
    })?;
    found.trace.notes.iter_mut().for_each(|note| *note = named(note));
    Ok(Read { files: vec![path.to_owned()], ..found })
}

/// The kind of archive that a file is; `None` if it is none.
fn archive_at(path: &Path) -> Result<Option<archive::Kind>, TraceError> {
    let mut start = Vec::new();
    source::head(path, &mut start)?;
    Ok(archive::Kind::of(&start).filter(|_| !chakra::detect(&start)))
}

fn read_file(path: &Path, options: &Options) -> Result<Read, TraceError> {
    let format = match options.format {
        Some(format) => format,
        None => detect(path)?,
    };
    let name = path.display().to_string();
    if options.ranks.is_some() && format != Format::Workload {
        let message = format!(
            "`ranks` has no effect: files of the format {} state their ranks; leave it out",
            format.name()
        );
        return Err(TraceError::new(&name, message));
    }
    if options.bytes.is_some() && format != Format::Msccl {
        let message = format!(
            "`bytes` has no effect: files of the format {} state the sizes of their messages; leave it out",
            format.name()
        );
        return Err(TraceError::new(&name, message));
    }
    let scaled = |mut trace: Trace, files: Vec<PathBuf>| {
        let scaled = trace.scale_time(options.compute_scale);
        scaled.map_err(|error| TraceError::new(&name, error.to_string()))?;
        Ok(Read { trace, format, files })
    };
    let one = || vec![path.to_owned()];
    match format {
        Format::Goal => scaled(goal::read(Source::open(path)?, options)?, one()),
        Format::GoalBinary => {
            let file = source::open(path)?;
            scaled(goal_binary::read(std::io::BufReader::new(file), &name, options)?, one())
        }
        Format::Vef => scaled(vef::read(Source::open(path)?, options)?, one()),
        Format::Hpcc => scaled(hpcc::read(Source::open(path)?, options)?, one()),
        Format::Workload => scaled(workload::read(Source::open(path)?, options)?, one()),
        Format::Msccl => scaled(msccl::read(source::open(path)?, &name, options)?, one()),
        Format::Ti => {
            let files = family::of_ti(path)?;
            scaled(ti::read_files(&files, options)?, files)
        }
        Format::Chakra => {
            let files = family::of_numbered(path)?;
            scaled(chakra::read_files(&files, options)?, files)
        }
    }
}

/// Detects the format of a file from its content.
///
/// # Errors
/// If the file cannot be read, or its format is unknown or not supported.
pub fn detect(path: &Path) -> Result<Format, TraceError> {
    let name = path.display().to_string();
    let mut start = Vec::new();
    source::head(path, &mut start)?;
    if start.is_empty() {
        return Err(TraceError::new(&name, "the file is empty; a trace is expected"));
    }
    if let Some(cookie) = start.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
        && matches!(cookie, goal_binary::COOKIE | goal_binary::SPOILT)
    {
        return Ok(Format::GoalBinary);
    }
    if chakra::detect(&start) {
        return Ok(Format::Chakra);
    }
    if let Some(kind) = archive::Kind::of(&start) {
        let what = format!("this is a {} archive, not a trace: unpack it", kind.name());
        return Err(TraceError::new(&name, what));
    }
    detect_text(&String::from_utf8_lossy(&start), path).map_err(|message| TraceError::new(&name, message))
}

fn detect_text(start: &str, path: &Path) -> Result<Format, String> {
    let mut lines = start.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    if first.starts_with('#') && first.trim_start_matches(['#', ' ']).starts_with("HPCC") {
        return Ok(Format::Hpcc);
    }
    let word = first.split_whitespace().next().unwrap_or_default();
    if word == "VEF" {
        return Ok(Format::Vef);
    }
    if msccl::looks_like(start) {
        return Ok(Format::Msccl);
    }
    if workload::looks_like(first) {
        return Ok(Format::Workload);
    }
    if word == "num_ranks" || first.starts_with("//") || first.starts_with("/*") {
        return Ok(Format::Goal);
    }
    if first.starts_with(['{', '[']) {
        return Err(json_in_words(start).to_owned());
    }
    if first.starts_with("OTF2") || path.extension().is_some_and(|ending| ending == "otf2") {
        return Err(
            "this is OTF2: read from Python, as NAME.otf2, with `pip install silvan[otf2]`".to_owned()
        );
    }
    let second = first.split_whitespace().nth(1).unwrap_or_default();
    let is_rank = word.bytes().all(|c| c.is_ascii_digit()) || ti::is_process(word);
    if is_rank && ti::is_action(second) {
        return Ok(Format::Ti);
    }
    if family::names_files(first, path) {
        return Ok(Format::Ti);
    }
    let known = FORMATS.map(Format::name).join(", ");
    if let Some(what) = relatives::named(path, start) {
        return Err(format!("the format is not one of {known}; it looks like {what}"));
    }
    Err(format!("the format is not one of {known}: the file starts with {}", crate::error::clip(first)))
}

/// Describes a JSON file that is no trace.
fn json_in_words(start: &str) -> &'static str {
    let has = |key: &str| start.contains(&format!("\"{key}\""));
    if has("traceEvents") {
        "this is a trace of PyTorch's profiler (Kineto): link it with the execution trace (`chakra_trace_link`), and \
         convert both (`chakra_converter PyTorch`)"
    } else if has("schema") {
        "this is an execution trace of PyTorch: convert it to a Chakra trace (`chakra_converter PyTorch`)"
    } else {
        "this is JSON without the `workload_graph` of a Chakra trace, or its metadata and nodes (`version`, `attr`)"
    }
}

/// An error in a line.
enum Fault {
    Text(String),
    Build(BuildError),
}

impl Fault {
    fn at(self, file: &str, line: u64) -> TraceError {
        match self {
            Self::Text(message) => TraceError::line(file, line, message),
            Self::Build(error) => at_line(file, line)(error),
        }
    }
}

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Text(message)
    }
}

/// Converts an error of the builder to an error in a line.
fn at_line(file: &str, line: u64) -> impl Fn(BuildError) -> TraceError + use<> {
    let file = file.to_owned();
    move |error| TraceError::line(&file, line, error.to_string())
}

/// Divides bytes among ranks; the first ones get the remainder.
fn shares(bytes: u64, ranks: u64) -> Vec<u64> {
    (0..ranks).map(|rank| part(bytes, ranks, rank)).collect()
}

/// Converts a duration in seconds to whole nanoseconds.
fn seconds(value: f64) -> u64 {
    (value * 1e9).round() as u64
}
