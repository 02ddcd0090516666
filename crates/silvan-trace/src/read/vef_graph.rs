//! Converts the records of a VEF trace to graphs of operations.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::vef::{After, Header, Record};
use crate::collective::{Call, Choice, Collective, Sizes};
use crate::error::TraceError;
use crate::read::{Options, at_line};
use crate::sequence::Sequence;
use crate::trace::{COLLECTIVE_TAGS, Operation, Trace, TraceBuilder, When, scaled};

/// The part of one task in a collective operation. It is kept until all parts are known.
struct Part {
    line: u64,
    task: u32,
    sent: u64,
    received: u64,
    after: (After, u64),
}

struct Group {
    communicator: u64,
    operation: Collective,
    line: u64,
    parts: Vec<Part>,
}

/// An operation whose dependency may appear later in the file.
struct Waiting {
    line: u64,
    task: u32,
    operation: u32,
    after: After,
}

/// The records that have been read so far.
pub(super) struct Graph<'o> {
    name: String,
    build: TraceBuilder,
    algorithms: &'o Choice,
    time_scale: f64,
    collectives: u64,
    communicators: HashMap<u64, Vec<u32>>,
    /// The send and receive operations of each message, with their ranks.
    messages: HashMap<u64, [(u32, u32); 2]>,
    groups: BTreeMap<u64, Group>,
    /// Number of members of communicators and of tasks in collective operations, all of which are
    /// kept until the end.
    kept: u64,
    /// The operation that follows a task's part of a collective operation.
    ends: HashMap<(u64, u32), u32>,
    waiting: Vec<Waiting>,
    /// Number of records of collective operations with bytes that are not used, and the line of the first one.
    unused: (u64, u64),
}

impl<'o> Graph<'o> {
    pub(super) fn new(name: &str, header: &Header, options: &'o Options) -> Result<Self, TraceError> {
        let mut build =
            TraceBuilder::new(u64::from(header.tasks), options.limit()).map_err(at_line(name, 1))?;
        if header.only_send {
            build.notes.push("not used: onlySend, which is TRUE".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            build,
            algorithms: &options.algorithms,
            time_scale: options.time_scale,
            collectives: header.collectives,
            communicators: HashMap::new(),
            messages: HashMap::new(),
            groups: BTreeMap::new(),
            kept: 0,
            ends: HashMap::new(),
            waiting: Vec::new(),
            unused: (0, 0),
        })
    }

    fn error(&self, line: u64, message: impl Into<String>) -> TraceError {
        TraceError::line(&self.name, line, message)
    }

    pub(super) fn add(&mut self, line: u64, record: Record) -> Result<(), TraceError> {
        self.kept += match &record {
            Record::Communicator(_, members) => members.len() as u64,
            Record::Part { .. } => 1,
            Record::Message { .. } => 0,
        };
        self.build.allow(self.kept).map_err(at_line(&self.name, line))?;
        match record {
            Record::Communicator(id, members) => {
                let mut sorted = members.clone();
                sorted.sort_unstable();
                if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(self.error(line, format!("task {} appears twice in C{id}", twice[0])));
                }
                if self.communicators.insert(id, members).is_some() {
                    return Err(self.error(line, format!("C{id} is defined twice")));
                }
                Ok(())
            }
            Record::Message { id, source, destination, bytes, after } => {
                // The tag follows from the number of the message, so that only its own receive matches.
                let tag = (id % u64::from(COLLECTIVE_TAGS)) as u32;
                let send = self.push(line, source, Operation::send(destination, bytes, tag))?;
                self.start(line, source, send, after)?;
                let recv = self.push(line, destination, Operation::recv(source, bytes, tag))?;
                if self.messages.insert(id, [(source, send), (destination, recv)]).is_some() {
                    return Err(self.error(line, format!("message {id} is defined twice")));
                }
                Ok(())
            }
            Record::Part { id, communicator, operation, task, sent, received, after } => {
                let part = Part { line, task, sent, received, after };
                let known =
                    self.groups.get(&id).map(|group| (group.communicator, group.operation, group.line));
                if let Some((other, as_known, first)) = known
                    && (other, as_known) != (communicator, operation)
                {
                    let message = format!("G{id} is {} on C{other} in line {first}", as_known.name());
                    return Err(self.error(line, message));
                }
                let new = || Group { communicator, operation, line, parts: Vec::new() };
                self.groups.entry(id).or_insert_with(new).parts.push(part);
                Ok(())
            }
        }
    }

    fn push(&mut self, line: u64, task: u32, operation: Operation) -> Result<u32, TraceError> {
        self.build.push(task, operation).map_err(at_line(&self.name, line))
    }

    fn wait(&mut self, line: u64, task: u32, later: u32, earlier: u32) -> Result<(), TraceError> {
        self.build.wait(task, later, earlier, When::Finish).map_err(at_line(&self.name, line))
    }

    /// Adds the dependency of an operation, and the delay after it.
    fn start(&mut self, line: u64, task: u32, operation: u32, after: (After, u64)) -> Result<(), TraceError> {
        let (after, time) = after;
        let mut first = operation;
        if time > 0 {
            first = self.push(line, task, Operation::delay(scaled(time, self.time_scale)))?;
            self.wait(line, task, operation, first)?;
        }
        if after != After::Time {
            self.waiting.push(Waiting { line, task, operation: first, after });
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Trace, TraceError> {
        let groups = std::mem::take(&mut self.groups);
        if groups.len() as u64 != self.collectives {
            let found = groups.len();
            let message =
                format!("the first line declares {} collectives, but there are {found}", self.collectives);
            return Err(TraceError::new(&self.name, message));
        }
        for (id, group) in groups {
            self.expand(id, &group)?;
        }
        if let (count @ 1.., first) = self.unused {
            self.build.notes.push(format!(
                "not used: bytes in {count} records of collective operations that contradict the records from which the \
                 sizes are known (first: line {first})"
            ));
        }
        for Waiting { line, task, operation, after } in std::mem::take(&mut self.waiting) {
            let (what, found) = match after {
                After::Sent(id) => {
                    (format!("message {id} sent by"), self.messages.get(&id).map(|ends| ends[0]))
                }
                After::Received(id) => {
                    (format!("message {id} received by"), self.messages.get(&id).map(|ends| ends[1]))
                }
                After::Collective(id) => {
                    (format!("part in G{id} of"), self.ends.get(&(id, task)).map(|&end| (task, end)))
                }
                After::Time => continue,
            };
            let earlier = found.filter(|&(who, _)| who == task).map(|(_, earlier)| earlier);
            let earlier =
                earlier.ok_or_else(|| self.error(line, format!("there is no {what} task {task}")))?;
            self.wait(line, task, operation, earlier)?;
        }
        let name = self.name;
        self.build.finish().map_err(|error| TraceError::new(&name, error.to_string()))
    }

    /// Replaces a collective operation by its messages.
    fn expand(&mut self, id: u64, group: &Group) -> Result<(), TraceError> {
        let Some(members) = self.communicators.get(&group.communicator).cloned() else {
            return Err(
                self.error(group.line, format!("communicator C{} does not exist", group.communicator))
            );
        };
        let place: HashMap<u32, usize> =
            members.iter().enumerate().map(|(place, &task)| (task, place)).collect();
        let mut parts: Vec<Option<&Part>> = vec![None; members.len()];
        for part in &group.parts {
            let Some(&at) = place.get(&part.task) else {
                let message = format!("task {} is not in C{}", part.task, group.communicator);
                return Err(self.error(part.line, message));
            };
            if parts[at].replace(part).is_some() {
                return Err(self.error(part.line, format!("G{id} has two records of task {}", part.task)));
            }
        }
        if let Some(missing) = parts.iter().position(Option::is_none) {
            let message = format!("G{id} has no record of task {}", members[missing]);
            return Err(self.error(group.line, message));
        }
        let parts: Vec<&Part> = parts.into_iter().flatten().collect();
        let of_line = |message: String| TraceError::line(&self.name, group.line, format!("G{id}: {message}"));
        let (root, blocks) = sizes(group.operation, &parts).map_err(of_line)?;
        for part in contradictions(group.operation, root, &parts) {
            let first = if self.unused.0 == 0 { part.line } else { self.unused.1.min(part.line) };
            self.unused = (self.unused.0 + 1, first);
        }
        let algorithm = self.algorithms.of(group.operation);
        let own = |place: u32| members[place as usize];
        for (me, part) in parts.iter().enumerate() {
            let row;
            let sizes = match &blocks {
                Blocks::One(bytes) => Sizes::Uniform(*bytes),
                Blocks::Each(list) => Sizes::PerRank(list),
                Blocks::Rows(rows) => {
                    row = vec![rows[me]; rows.len()];
                    Sizes::Matrix { sends: &row, recvs: rows }
                }
            };
            let call = Call::new(group.operation, algorithm, members.len() as u32, root, sizes);
            let call = call.map_err(|message| self.error(group.line, format!("G{id}: {message}")))?;
            let mut sequence = Sequence::new(part.task);
            let fault = at_line(&self.name, part.line);
            let begin = sequence.blocking(&mut self.build, Operation::delay(0)).map_err(&fault)?;
            let comm = (id % u64::from(COLLECTIVE_TAGS - 1)) as u32;
            sequence.collective(&mut self.build, &call, &own, me as u32, comm).map_err(&fault)?;
            let end = sequence.blocking(&mut self.build, Operation::delay(0)).map_err(&fault)?;
            self.start(part.line, part.task, begin, part.after)?;
            self.ends.insert((id, part.task), end);
        }
        Ok(())
    }
}

enum Blocks {
    One(u64),
    Each(Vec<u64>),
    /// For an all-to-all: the bytes that each task sends to every task.
    Rows(Vec<u64>),
}

/// Derives the root and the sizes of an operation from the bytes of its records.
fn sizes(operation: Collective, parts: &[&Part]) -> Result<(u32, Blocks), String> {
    let sent: Vec<u64> = parts.iter().map(|part| part.sent).collect();
    let received: Vec<u64> = parts.iter().map(|part| part.received).collect();
    // The root is the task that has bytes if the others have none.
    let root = |list: &[u64]| list.iter().position(|&bytes| bytes > 0).unwrap_or(0) as u32;
    Ok(match operation {
        Collective::Broadcast => (root(&sent), Blocks::One(sent[root(&sent) as usize])),
        Collective::Reduce => (root(&received), Blocks::One(received[root(&received) as usize])),
        Collective::Gather => (root(&received), Blocks::Each(sent)),
        Collective::Scatter => (root(&sent), Blocks::Each(received)),
        Collective::AllGather => (0, Blocks::Each(sent)),
        Collective::AllToAll => {
            // A received size of 1 byte is a code: the sent bytes are then the total for all tasks.
            let share = |(&sent, &received): (&u64, &u64)| match received {
                1 => sent.div_ceil(parts.len() as u64),
                _ => sent,
            };
            let rows: Vec<u64> = sent.iter().zip(&received).map(share).collect();
            let same = rows.iter().all(|&row| row == rows[0]);
            (0, if same { Blocks::One(rows[0]) } else { Blocks::Rows(rows) })
        }
        _ => {
            if let Some(other) = sent.iter().find(|&&bytes| bytes != sent[0]) {
                return Err(format!(
                    "tasks send {} and {other} bytes; all must send the same number",
                    sent[0]
                ));
            }
            (0, Blocks::One(sent[0]))
        }
    })
}

/// The records whose bytes [`sizes`] does not use, and that contradict those that it uses. A number of 0 states
/// nothing. A task may count its own block or those of all tasks.
fn contradictions<'p>(operation: Collective, root: u32, parts: &[&'p Part]) -> Vec<&'p Part> {
    let known = parts[root as usize];
    let total =
        |bytes: fn(&Part) -> u64| parts.iter().fold(0, |sum: u64, part| sum.saturating_add(bytes(part)));
    let (sent, received) = (total(|part| part.sent), total(|part| part.received));
    let rows: HashSet<u64> = parts.iter().map(|part| part.sent).collect();
    let fits = |bytes: u64, expected: &[u64]| bytes == 0 || expected.contains(&bytes);
    let is_fitting = |at: usize, part: &Part| {
        let is_root = at == root as usize;
        match operation {
            Collective::Broadcast => fits(part.received, &[known.sent]) && (is_root || part.sent == 0),
            Collective::Reduce => fits(part.sent, &[known.received]) && (is_root || part.received == 0),
            Collective::Gather => is_root || part.received == 0,
            Collective::Scatter => fits(part.sent, &[part.received, received]) && (is_root || part.sent == 0),
            Collective::AllGather => fits(part.received, &[part.sent, sent]),
            Collective::AllToAll => rows.contains(&part.received) || fits(part.received, &[1, sent]),
            Collective::Barrier => part.sent == 0 && part.received == 0,
            _ => fits(part.received, &[part.sent]),
        }
    };
    let all = parts.iter().enumerate();
    all.filter(|&(at, part)| !is_fitting(at, part)).map(|(_, part)| *part).collect()
}
