//! Converts the actions of a rank in a time-independent trace.

use crate::collective::{Call, Collective, Sizes};
use crate::error::clip;
use crate::read::{Fault, Options, seconds};
use crate::sequence::Sequence;
use crate::trace::{ANY, ANY_SIZE, COLLECTIVE_TAGS, Operation, TraceBuilder};

/// Actions in lower case, in the order in which SimGrid documents them.
const ACTIONS: [&str; 32] = [
    "init",
    "finalize",
    "compute",
    "sleep",
    "location",
    "comm_size",
    "comm_split",
    "comm_dup",
    "send",
    "isend",
    "recv",
    "irecv",
    "wait",
    "waitall",
    "waitany",
    "test",
    "sendrecv",
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "alltoall",
    "alltoallv",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "reducescatter",
    "scan",
    "exscan",
];

/// The values of `MPI_ANY_SOURCE` and `MPI_ANY_TAG` in SMPI, which recorded traces contain.
const ANY_SOURCE: &str = "-555";
const ANY_TAG: &str = "-444";

/// Whether a word is the name of an action.
#[must_use]
pub fn is_action(word: &str) -> bool {
    ACTIONS.contains(&word.to_ascii_lowercase().as_str())
}

/// The size of a data type in bytes; `None` if the number is unknown. The numbers of the types are those in
/// SimGrid's `smpi_datatype.cpp`.
const fn type_size(number: u64) -> Option<u64> {
    Some(match number {
        0 | 4 | 7 | 12 | 13 | 20 | 24 => 8,
        1 | 5 | 11 | 15 | 19 | 23 => 4,
        2 | 6 | 8 | 9 | 16 | 17 | 21 | 57 => 1,
        3 | 10 | 18 | 22 => 2,
        14 => 16,
        _ => return None,
    })
}

/// State of a rank.
pub(super) struct Process {
    sequence: Sequence,
    /// Open requests, oldest first: source, destination and tag, and the operation of the request.
    open: Vec<((u32, u32, u32), u32)>,
    default_size: u64,
    /// Whether the last action was a wait for a request that is not open.
    pub(super) caught: bool,
}

/// The words of an action, with its name for messages.
struct Words<'w> {
    action: &'w str,
    words: &'w [&'w str],
    default_size: u64,
}

impl Words<'_> {
    fn word(&self, at: usize, what: &str) -> Result<&str, String> {
        let found = self.words.get(at).copied();
        found.ok_or_else(|| format!("`{}` lacks {what}", self.action))
    }

    /// Parses a non-negative number. Notations such as 5e8 are allowed.
    fn number(&self, at: usize, what: &str) -> Result<f64, String> {
        let word = self.word(at, what)?;
        let number = word.parse::<f64>().ok().filter(|number| (0.0..=1e18).contains(number));
        number
            .ok_or_else(|| format!("`{}`: {what} {} is not a number from 0 to 1e18", self.action, clip(word)))
    }

    fn rank(&self, at: usize, what: &str) -> Result<u32, String> {
        let word = self.word(at, what)?;
        if ["-1", ANY_SOURCE].contains(&word) {
            return Ok(ANY);
        }
        let rank = word.parse::<u32>().ok().filter(|&rank| rank != ANY);
        rank.ok_or_else(|| format!("`{}`: {what} {} is not a rank", self.action, clip(word)))
    }

    fn tag(&self, at: usize) -> Result<u32, String> {
        let word = self.word(at, "a tag")?;
        if ["-1", ANY_TAG].contains(&word) {
            return Ok(ANY);
        }
        let tag = word.parse::<u32>().ok().filter(|&tag| tag < COLLECTIVE_TAGS);
        tag.ok_or_else(|| {
            format!("`{}`: tag {} is not a number from 0 to 2147483647", self.action, clip(word))
        })
    }

    /// Size of an element in bytes: that of the data type at position `at`, or the default.
    fn element(&self, at: usize) -> Result<u64, String> {
        let Some(word) = self.words.get(at) else { return Ok(self.default_size) };
        let size = word.parse().ok().and_then(type_size);
        size.ok_or_else(|| format!("`{}`: {} is not a known data type", self.action, clip(word)))
    }

    /// Total bytes for a count and a data type.
    fn bytes(&self, count: usize, kind: usize) -> Result<u64, String> {
        let bytes = self.number(count, "a count")? * self.element(kind)? as f64;
        Ok(bytes.round() as u64)
    }

    fn list(&self, from: usize, ranks: u32, kind: usize) -> Result<Vec<u64>, String> {
        let needed = from + ranks as usize;
        if self.words.len() < needed {
            let found = self.words.len().saturating_sub(from);
            return Err(format!("`{}` has {found} counts for {ranks} ranks", self.action));
        }
        (from..needed).map(|at| self.bytes(at, kind)).collect()
    }

    fn root(&self, at: usize) -> Result<u32, String> {
        if self.words.len() > at { self.rank(at, "a root") } else { Ok(0) }
    }
}

/// Parameters of a collective operation: root, sizes, and the number of floating-point operations that a rank
/// computes at its end.
struct Parts {
    operation: Collective,
    root: u32,
    sizes: Owned,
    flops: f64,
}

enum Owned {
    One(u64),
    Each(Vec<u64>),
    Matrix(Vec<u64>, Vec<u64>),
}

impl Process {
    pub(super) fn new(rank: u32) -> Self {
        Self { sequence: Sequence::new(rank), open: Vec::new(), default_size: 1, caught: false }
    }

    /// Adds the operations for the action on a line.
    pub(super) fn act(
        &mut self,
        build: &mut TraceBuilder,
        ranks: u32,
        words: &[&str],
        options: &Options,
    ) -> Result<(), Fault> {
        let Some((&action, words)) = words.split_first() else {
            return Err("the line has a rank but no action".to_owned().into());
        };
        let lower = action.to_ascii_lowercase();
        let words = Words { action, words, default_size: self.default_size };
        match lower.as_str() {
            "init" => self.default_size = if words.words.is_empty() { 1 } else { 8 },
            "finalize" | "location" | "comm_size" | "comm_split" | "comm_dup" | "test" => {}
            "compute" => {
                let flops = words.number(0, "a number of operations")?;
                self.sequence.compute(build, seconds(flops / options.flops()))?;
            }
            "sleep" => {
                let time = seconds(words.number(0, "a time in seconds")? * options.time_scale);
                self.sequence.blocking(build, Operation::delay(time))?;
            }
            "send" | "isend" | "recv" | "irecv" => self.message(build, &lower, &words)?,
            "sendrecv" => self.send_and_receive(build, &words)?,
            "wait" => self.wait(&words)?,
            "waitall" => {
                for (_, operation) in std::mem::take(&mut self.open) {
                    self.sequence.wait(operation);
                }
            }
            "waitany" => {
                return Err("`waitany` is not supported: the trace does not say which request completed"
                    .to_owned()
                    .into());
            }
            _ => {
                let parts = collective(&lower, &words, ranks)?;
                self.collective(build, ranks, &parts, options)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, build: &mut TraceBuilder, action: &str, words: &Words<'_>) -> Result<(), Fault> {
        let sends = action.ends_with("send");
        let peer = words.rank(0, if sends { "a destination" } else { "a source" })?;
        if words.words.len() == 2 {
            let what = format!(
                "`{action}` has a peer and a size, but no tag: this is the older form of SimGrid's traces; write a tag (0) after \
                 the peer"
            );
            return Err(what.into());
        }
        let tag = words.tag(1)?;
        let any_size = !sends && words.words.get(2) == Some(&"-1");
        let bytes = if any_size { ANY_SIZE } else { words.bytes(2, 3)? };
        let operation = if sends {
            if peer == ANY || tag == ANY {
                return Err(format!("`{action}`: a message goes to one rank, with one tag").into());
            }
            Operation::send(peer, bytes, tag)
        } else {
            Operation::recv(peer, bytes, tag)
        };
        if !action.starts_with('i') {
            self.sequence.blocking(build, operation)?;
            return Ok(());
        }
        let made = self.sequence.start(build, operation)?;
        let me = self.sequence.rank();
        self.open.push((if sends { (me, peer, tag) } else { (peer, me, tag) }, made));
        Ok(())
    }

    fn send_and_receive(&mut self, build: &mut TraceBuilder, words: &Words<'_>) -> Result<(), Fault> {
        let (sent, to) = (words.bytes(0, 4)?, words.rank(1, "a destination")?);
        let (received, from) = (words.bytes(2, 5)?, words.rank(3, "a source")?);
        let made = [Operation::recv(from, received, 0), Operation::send(to, sent, 0)]
            .map(|operation| self.sequence.start(build, operation));
        for operation in made {
            self.sequence.wait(operation?);
        }
        Ok(())
    }

    fn wait(&mut self, words: &Words<'_>) -> Result<(), Fault> {
        let wanted = (words.rank(0, "a source")?, words.rank(1, "a destination")?, words.tag(2)?);
        match self.open.iter().position(|(of, _)| *of == wanted) {
            Some(place) => self.sequence.wait(self.open.remove(place).1),
            None => self.caught = true,
        }
        Ok(())
    }

    fn collective(
        &mut self,
        build: &mut TraceBuilder,
        ranks: u32,
        parts: &Parts,
        options: &Options,
    ) -> Result<(), Fault> {
        let sizes = match &parts.sizes {
            Owned::One(bytes) => Sizes::Uniform(*bytes),
            Owned::Each(list) => Sizes::PerRank(list),
            Owned::Matrix(sends, recvs) => Sizes::Matrix { sends, recvs },
        };
        let algorithm = options.algorithms.of(parts.operation);
        let call = Call::new(parts.operation, algorithm, ranks, parts.root, sizes)?;
        self.sequence.collective(build, &call, &|rank| rank, self.sequence.rank(), 0)?;
        Ok(self.sequence.compute(build, seconds(parts.flops / options.flops()))?)
    }
}

/// Parses a collective operation.
fn collective(action: &str, words: &Words<'_>, ranks: u32) -> Result<Parts, String> {
    let n = ranks as usize;
    let rest = |from: usize| words.words.len().saturating_sub(from);
    let parts = |operation, root, sizes| Ok(Parts { operation, root, sizes, flops: 0.0 });
    let with_flops = |operation, root, sizes, at| {
        Ok(Parts { operation, root, sizes, flops: words.number(at, "a number of operations")? })
    };
    match action {
        "barrier" => parts(Collective::Barrier, 0, Owned::One(0)),
        "bcast" => parts(Collective::Broadcast, words.root(1)?, Owned::One(words.bytes(0, 2)?)),
        "reduce" => with_flops(Collective::Reduce, words.root(2)?, Owned::One(words.bytes(0, 3)?), 1),
        "allreduce" => with_flops(Collective::AllReduce, 0, Owned::One(words.bytes(0, 2)?), 1),
        "scan" | "exscan" => with_flops(Collective::Scan, 0, Owned::One(words.bytes(0, 2)?), 1),
        "alltoall" => parts(Collective::AllToAll, 0, Owned::One(words.bytes(0, 2)?)),
        "allgather" => parts(Collective::AllGather, 0, Owned::One(words.bytes(0, 2)?)),
        "gather" => parts(Collective::Gather, words.root(2)?, Owned::One(words.bytes(0, 3)?)),
        "scatter" => parts(Collective::Scatter, words.root(2)?, Owned::One(words.bytes(0, 3)?)),
        "gatherv" => {
            let blocks = words.list(1, ranks, 3 + n)?;
            parts(Collective::Gather, words.root(1 + n)?, Owned::Each(blocks))
        }
        "scatterv" => {
            let blocks = words.list(0, ranks, 2 + n)?;
            parts(Collective::Scatter, words.root(1 + n)?, Owned::Each(blocks))
        }
        "allgatherv" => {
            // Displacements may precede the types. With two ranks, two words are types and not
            // displacements.
            let displaced = rest(1 + n) >= n && rest(1 + n) != 2;
            let kind = 1 + n + if displaced { n } else { 0 };
            parts(Collective::AllGather, 0, Owned::Each(words.list(1, ranks, kind + 1)?))
        }
        "reducescatter" => {
            let blocks = Owned::Each(words.list(0, ranks, 1 + n)?);
            with_flops(Collective::ReduceScatter, 0, blocks, n)
        }
        "alltoallv" => {
            let sends = words.list(1, ranks, 2 + 2 * n)?;
            let recvs = words.list(2 + n, ranks, 3 + 2 * n)?;
            parts(Collective::AllToAll, 0, Owned::Matrix(sends, recvs))
        }
        _ => Err(format!("{} is not a supported action: see smpi_replay of SimGrid", clip(words.action))),
    }
}
