//! Reads VEF traces, which consist of messages with dependencies, either record by record or completely.
//!
//! ```text
//! VEF tasks messages communicators global_collectives local_collectives onlySend(TRUE|FALSE)
//! C0 0 1 2                                         a communicator and its tasks
//! 0 0 1 4096 0 100 -1                              id source destination bytes dependency time of
//! G0 0 2 0 8 8 1 50 0                              id comm operation task sent received dependency time of
//! ```
//!
//! The kinds of dependencies are: 0, at `time`; 1, `time` after message `of` was sent; 2, `time` after it
//! was received; 3, `time` after the task completed its part of the collective operation `of`. The grammar
//! is that of VEF-TraceLIB.

use super::vef_graph::Graph;
use crate::collective::Collective;
use crate::error::{TraceError, clip};
use crate::read::Options;
use crate::read::source::Source;
use crate::trace::{MAX_RANKS, Trace};

/// The first line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of tasks.
    pub tasks: u32,
    /// Number of messages.
    pub messages: u64,
    /// Number of communicators.
    pub communicators: u64,
    /// Number of collective operations.
    pub collectives: u64,
    /// Total number of records of tasks in collective operations.
    pub parts: u64,
    /// The last word, `onlySend`, which has no effect.
    pub only_send: bool,
}

/// The dependency of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// No dependency: the record starts at a given time.
    Time,
    /// A message was sent.
    Sent(u64),
    /// A message was received.
    Received(u64),
    /// The task has completed its part of a collective operation.
    Collective(u64),
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A communicator: its number and its tasks.
    Communicator(u64, Vec<u32>),
    /// A message.
    Message {
        /// Number of the message.
        id: u64,
        /// Task that sends the message.
        source: u32,
        /// Task that receives the message.
        destination: u32,
        /// Size of the message in bytes.
        bytes: u64,
        /// The dependency, and the number of time units to wait after it.
        after: (After, u64),
    },
    /// The part of one task in a collective operation.
    Part {
        /// Number of the operation.
        id: u64,
        /// The communicator.
        communicator: u64,
        /// The operation.
        operation: Collective,
        /// The task.
        task: u32,
        /// Bytes sent.
        sent: u64,
        /// Bytes received, or a code that defines the meaning of `sent` in an all-to-all.
        received: u64,
        /// The dependency, and the number of time units to wait after it.
        after: (After, u64),
    },
}

/// Collective operations in the order of their codes.
const OPERATIONS: [Collective; 8] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllReduce,
    Collective::Gather,
    Collective::Scatter,
    Collective::AllGather,
    Collective::Barrier,
    Collective::AllToAll,
];

/// Reads the records of a file one by one, because the file may be larger than memory.
pub struct Records<'r> {
    source: Source<'r>,
    /// The first line of the trace.
    pub header: Header,
    messages: u64,
    communicators: u64,
    parts: u64,
}

impl<'r> Records<'r> {
    /// Reads the first line.
    ///
    /// # Errors
    /// If the line cannot be read, or is not the first line of a VEF trace.
    pub fn new(mut source: Source<'r>) -> Result<Self, TraceError> {
        let line = source.next_line()?.unwrap_or_default().to_owned();
        let header = header(&line).map_err(|message| source.error(message))?;
        Ok(Self { source, header, messages: 0, communicators: 0, parts: 0 })
    }

    /// The next record with its line number. `None` at the end, if the number of records matches the first
    /// line.
    ///
    /// # Errors
    /// If the line cannot be read or is invalid, or the number of records differs from the first line.
    pub fn next_record(&mut self) -> Result<Option<(u64, Record)>, TraceError> {
        let tasks = self.header.tasks;
        let name = self.source.name.clone();
        let mut number = self.source.line;
        while let Some(line) = self.source.next_line()? {
            number += 1;
            if line.trim().is_empty() {
                continue;
            }
            let record = record(line, tasks).map_err(|message| TraceError::line(&name, number, message))?;
            let (count, most) = match record {
                Record::Communicator(..) => (&mut self.communicators, self.header.communicators),
                Record::Message { .. } => (&mut self.messages, self.header.messages),
                Record::Part { .. } => (&mut self.parts, self.header.parts),
            };
            *count += 1;
            if *count > most {
                let message = format!("more records of this kind than the {most} declared in the first line");
                return Err(TraceError::line(&name, number, message));
            }
            return Ok(Some((number, record)));
        }
        let Header { messages, communicators, parts, .. } = self.header;
        let counts = [
            ("messages", self.messages, messages),
            ("communicators", self.communicators, communicators),
            ("local collectives", self.parts, parts),
        ];
        match counts.into_iter().find(|(_, found, said)| found != said) {
            Some((what, found, said)) => Err(TraceError::new(
                &name,
                format!("the first line declares {said} {what}, but there are {found}"),
            )),
            None => Ok(None),
        }
    }
}

fn header(line: &str) -> Result<Header, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["VEF", tasks, messages, communicators, collectives, parts, only_send] = words[..] else {
        return Err(
            "a VEF trace starts with `VEF tasks messages communicators collectives local_collectives TRUE|FALSE`"
                .to_owned(),
        );
    };
    if !matches!(only_send, "TRUE" | "FALSE") {
        return Err(format!("the last word must be TRUE or FALSE, not {}", clip(only_send)));
    }
    let tasks = number(tasks, "number of tasks")?;
    let known = u32::try_from(tasks).ok().filter(|tasks| (1..=MAX_RANKS).contains(tasks));
    Ok(Header {
        tasks: known.ok_or_else(|| format!("{tasks} tasks; a trace has 1 to {MAX_RANKS}"))?,
        messages: number(messages, "number of messages")?,
        communicators: number(communicators, "number of communicators")?,
        collectives: number(collectives, "number of collectives")?,
        parts: number(parts, "number of local collectives")?,
        only_send: only_send == "TRUE",
    })
}

fn number(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{what} {} is not a whole number below 2^64", clip(word)))
}

fn task(word: &str, tasks: u32) -> Result<u32, String> {
    let task = number(word, "task")?;
    let known = u32::try_from(task).ok().filter(|&task| task < tasks);
    known.ok_or_else(|| format!("task {task} does not exist; there are {tasks} tasks"))
}

fn after(kind: &str, time: &str, of: &str) -> Result<(After, u64), String> {
    let named = || number(of, "dependency on");
    let after = match kind {
        "0" if of == "-1" => After::Time,
        "0" => return Err(format!("a record without dependency must name -1, not {}", clip(of))),
        "1" => After::Sent(named()?),
        "2" => After::Received(named()?),
        "3" => After::Collective(named()?),
        _ => return Err(format!("a dependency must be 0, 1, 2 or 3, not {}", clip(kind))),
    };
    Ok((after, number(time, "time")?))
}

fn record(line: &str, tasks: u32) -> Result<Record, String> {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if let Some(communicator) = first.strip_prefix('C') {
        let members: Vec<u32> = words.map(|word| task(word, tasks)).collect::<Result<_, _>>()?;
        if members.is_empty() {
            return Err("the communicator has no tasks".to_owned());
        }
        return Ok(Record::Communicator(number(communicator, "communicator")?, members));
    }
    let words: Vec<&str> = words.collect();
    if let Some(id) = first.strip_prefix('G') {
        let [communicator, operation, who, sent, received, kind, time, of] = words[..] else {
            return Err(format!(
                "a part of a collective has 9 words, `Gid comm op task sent received dep time of`; found {}",
                words.len() + 1
            ));
        };
        let place = number(operation, "operation")?;
        let operation = usize::try_from(place).ok().and_then(|place| OPERATIONS.get(place));
        return Ok(Record::Part {
            id: number(id, "collective")?,
            communicator: number(communicator, "communicator")?,
            operation: *operation.ok_or_else(|| format!("operation {place} is not one of 0 to 7"))?,
            task: task(who, tasks)?,
            sent: number(sent, "size")?,
            received: number(received, "size")?,
            after: after(kind, time, of)?,
        });
    }
    let [source, destination, bytes, kind, time, of] = words[..] else {
        return Err(format!(
            "a message has 7 words, `id source destination bytes dep time of`; found {}",
            words.len() + 1
        ));
    };
    Ok(Record::Message {
        id: number(first, "message")?,
        source: task(source, tasks)?,
        destination: task(destination, tasks)?,
        bytes: number(bytes, "size")?,
        after: after(kind, time, of)?,
    })
}

/// Reads a whole trace.
///
/// # Errors
/// If the trace cannot be read, is invalid, or exceeds `options.limit`. Errors of a line contain its number.
pub fn read(source: Source<'_>, options: &Options) -> Result<Trace, TraceError> {
    let name = source.name.clone();
    let mut records = Records::new(source)?;
    let mut graph = Graph::new(&name, &records.header, options)?;
    while let Some((line, record)) = records.next_record()? {
        graph.add(line, record)?;
    }
    graph.finish()
}
