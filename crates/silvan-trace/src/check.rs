//! Checks a trace: counts its contents, and finds out whether it runs to completion.

use std::path::Path;

use serde::Serialize;

use crate::error::TraceError;
use crate::execute::{Execution, Parameters, execute};
use crate::read::source::{self, Source};
use crate::read::{Format, Options, detect, goal_binary, read, vef};
use crate::trace::{CollectiveUse, Kind, Operation, Trace};

/// The contents of a trace. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of messages sent.
    pub sends: u64,
    /// Number of receives.
    pub receives: u64,
    /// Number of computations.
    pub computations: u64,
    /// Number of delays.
    pub delays: u64,
    /// Number of dependencies between operations.
    pub dependencies: u64,
    /// Total bytes of all messages.
    pub bytes: u64,
    /// Bytes of the largest message.
    pub largest: u64,
    /// Total computation time of all ranks, in ns.
    pub computing_ns: u64,
}

impl Contents {
    const fn new(ranks: u32) -> Self {
        Self {
            ranks,
            sends: 0,
            receives: 0,
            computations: 0,
            delays: 0,
            dependencies: 0,
            bytes: 0,
            largest: 0,
            computing_ns: 0,
        }
    }

    fn add(&mut self, operation: &Operation) {
        match operation.kind {
            Kind::Send => {
                self.sends += 1;
                self.bytes = self.bytes.saturating_add(operation.size);
                self.largest = self.largest.max(operation.size);
            }
            Kind::Recv => self.receives += 1,
            Kind::Calc => {
                self.computations += 1;
                self.computing_ns = self.computing_ns.saturating_add(operation.size);
            }
            Kind::Delay => self.delays += 1,
        }
    }

    /// Counts the contents of a trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut contents = Self::new(trace.ranks());
        (0..trace.operations()).for_each(|at| contents.add(&trace.operation(at)));
        contents.dependencies = trace.dependencies();
        contents
    }
}

/// The result of running a trace without a network. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Whether all operations finished.
    pub complete: bool,
    /// Time at which the last rank finished, in ps.
    pub span_ps: u64,
    /// Time at which each rank finished, in ps.
    pub finished_ps: Vec<u64>,
    /// Number of messages received.
    pub messages: u64,
    /// Number of operations that never finished.
    pub unfinished: u64,
    /// The first operations that wait for another rank, with the reasons.
    pub stuck: Vec<String>,
    /// Ranks that wait for each other in a cycle; empty if there is no cycle.
    pub circle: Vec<u32>,
    /// Problems that do not prevent the run.
    pub warnings: Vec<String>,
}

impl Run {
    fn new(trace: &Trace, execution: &Execution) -> Self {
        let mut warnings = Vec::new();
        let name = |at: usize| {
            let rank = trace.rank_of(at);
            format!("rank {rank}, operation {}: {}", at - trace.first(rank), trace.operation(at))
        };
        if let (count, Some(&first)) = (execution.unreceived.0, execution.unreceived.1.first()) {
            warnings.push(format!("{count} messages are never received; the first: {}", name(first)));
        }
        if let (count, Some(&(send, recv))) = (execution.truncated.0, execution.truncated.1.first()) {
            let first = format!("{}, into {}", name(send), name(recv));
            warnings.push(format!("{count} messages are longer than their receive; the first: {first}"));
        }
        Self {
            complete: execution.complete(),
            span_ps: execution.span.0,
            finished_ps: execution.finished.iter().map(|time| time.0).collect(),
            messages: execution.messages,
            unfinished: execution.unfinished,
            stuck: execution.stuck.iter().map(ToString::to_string).collect(),
            circle: execution.circle.clone(),
            warnings,
        }
    }
}

/// A trace with the results of its check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Format of the trace.
    pub format: Format,
    /// The files of the trace.
    pub files: Vec<String>,
    /// The contents of the trace.
    pub contents: Contents,
    /// Collective operations, with their algorithms.
    pub collectives: Vec<CollectiveUse>,
    /// Notes of the reader.
    pub notes: Vec<String>,
    /// Result of the run; `None` if the file was only read.
    pub run: Option<Run>,
}

/// Reads and runs a trace.
///
/// # Errors
/// If the trace cannot be read, or its times are out of range.
pub fn check(path: &Path, options: &Options, parameters: &Parameters) -> Result<Check, TraceError> {
    let made = read(path, options)?;
    let execution = execute(&made.trace, parameters)
        .map_err(|error| TraceError::new(&path.display().to_string(), error.to_string()))?;
    Ok(Check {
        format: made.format,
        files: made.files.iter().map(|file| file.display().to_string()).collect(),
        contents: Contents::of(&made.trace),
        run: Some(Run::new(&made.trace, &execution)),
        collectives: made.trace.collectives,
        notes: made.trace.notes,
    })
}

/// Reads a trace record by record without keeping it in memory: binary GOAL and VEF files of any size.
/// The contents of a VEF file exclude the messages of collective operations.
///
/// # Errors
/// If the file cannot be read, has another format, or contains an invalid record. Conditions that
/// involve several records are not checked: cycles of dependencies, and messages that are never
/// received.
pub fn read_through(path: &Path, options: &Options) -> Result<Check, TraceError> {
    let name = path.display().to_string();
    let format = match options.format {
        Some(format) => format,
        None => detect(path)?,
    };
    let contents = match format {
        Format::GoalBinary => {
            let mut file = goal_binary::File::open(std::io::BufReader::new(source::open(path)?), &name)?;
            let mut contents = Contents::new(file.ranks());
            for rank in 0..file.ranks() {
                let section = file.section(rank)?;
                file.begin(&section)?;
                for index in 0..section.operations {
                    contents.add(&file.record(&section, index)?.operation);
                }
                contents.dependencies += section.appendix;
            }
            contents
        }
        Format::Vef => vef_through(vef::Records::new(Source::open(path)?)?)?,
        other => {
            let message =
                format!("{} cannot be read record by record; goal-binary and vef can", other.name());
            return Err(TraceError::new(&name, message));
        }
    };
    let note = "read but not run: it is unknown whether the trace completes".to_owned();
    Ok(Check { format, files: vec![name], contents, collectives: Vec::new(), notes: vec![note], run: None })
}

fn vef_through(mut records: vef::Records<'_>) -> Result<Contents, TraceError> {
    let mut contents = Contents::new(records.header.tasks);
    while let Some((_, record)) = records.next_record()? {
        let after = match record {
            vef::Record::Communicator(..) => continue,
            vef::Record::Message { source, destination, bytes, after, .. } => {
                contents.add(&Operation::send(destination, bytes, 0));
                contents.add(&Operation::recv(source, bytes, 0));
                after
            }
            // The number of messages is unknown: it depends on the algorithm, and the members are in
            // other records.
            vef::Record::Part { after, .. } => after,
        };
        contents.delays += u64::from(after.1 > 0);
        contents.dependencies += u64::from(after.0 != vef::After::Time);
    }
    Ok(contents)
}
