//! Reads Chakra execution traces: one file per rank, with length-prefixed protobuf messages or in JSON.
//!
//! Nodes wait for their data dependencies, as in Chakra's own feeder. Control dependencies are ignored,
//! because they describe the call hierarchy. Cpu 0 executes computations of the host processor, cpu 1
//! executes those of the accelerator, cpu 2 handles communication, and cpu 3 handles memory and storage. A
//! node of the host processor without `comm_type` (collective operation) or `comm_size` (message) is only a
//! call, which takes its duration on cpu 0. The duration of a node that states only its work (`num_ops`,
//! `tensor_size`) follows from the speed of a host, as [`work`](super::work) describes.
//!
//! The members of a process group are the ranks whose files contain its name. A collective operation
//! without `pg_name` includes all ranks. Sizes are as in ASTRA-sim: for an all-gather, the contribution of
//! a rank; for an all-reduce and a reduce-scatter, the whole vector; for an all-to-all, all bytes that a
//! rank sends.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, Read};
use std::path::PathBuf;

use super::fields::{CHAKRA, Handling, Ignored};
use super::protobuf::{Fields, Messages, Value, numbers, varint};
use super::work::Work;
use super::{chakra_json, shares, source};
use crate::collective::{Call, Collective, Sizes};
use crate::error::{Place, TraceError, clip};
use crate::read::Options;
use crate::sequence::Sequence;
use crate::trace::{BuildError, COLLECTIVE_TAGS, Operation, Trace, TraceBuilder, When, scaled};

/// The fields of a node that the reader uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChakraNode {
    pub(super) id: u64,
    pub(super) kind: u64,
    pub(super) waits_for: Vec<u64>,
    pub(super) micros: u64,
    /// Number of operations (`num_ops`) and bytes (`tensor_size`) of a computation or memory access.
    pub(super) operations: u64,
    pub(super) tensor_bytes: u64,
    pub(super) on_host: Option<bool>,
    pub(super) bytes: Option<u64>,
    pub(super) operation: Option<u64>,
    pub(super) source: Option<u64>,
    pub(super) destination: Option<u64>,
    pub(super) tag: Option<u64>,
    pub(super) root: Option<u64>,
    pub(super) group: Option<String>,
    /// Whether the operation includes only some dimensions of the network, which is not supported.
    pub(super) partly: bool,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attribute<'t> {
    Number(u64),
    Real(f64),
    Text(Cow<'t, str>),
    /// A list of the dimensions of a network: whether all of them are included.
    Involved {
        all: bool,
    },
    Other,
}

impl ChakraNode {
    /// Sets an attribute.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Attribute<'_>,
        ignored: &mut Ignored,
    ) -> Result<(), String> {
        let number = match value {
            Attribute::Number(number) => Some(number),
            Attribute::Real(real) => {
                if matches!(CHAKRA.handling(name), None | Some(Handling::Noted | Handling::Text)) {
                    ignored.add(&CHAKRA, name);
                    return Ok(());
                }
                // Larger numbers are not exact.
                if real.fract() != 0.0 || !(0.0..9e15).contains(&real) {
                    return Err(format!("{name} is {real}; must be a whole number of at least 0"));
                }
                Some(real as u64)
            }
            _ => None,
        };
        match name {
            "is_cpu_op" => self.on_host = number.map(|number| number != 0),
            "num_ops" => self.operations = number.unwrap_or(0),
            "tensor_size" => self.tensor_bytes = number.unwrap_or(0),
            "comm_size" => self.bytes = number,
            "comm_type" => self.operation = number,
            "comm_src" => self.source = number,
            "comm_dst" => self.destination = number,
            "comm_tag" => self.tag = number,
            "comm_root" | "root" => self.root = number,
            "pg_name" => match value {
                Attribute::Text(name) => self.set_group(Some(name.into_owned()))?,
                _ => self.set_group(number.map(|number| number.to_string()))?,
            },
            "involved_dim" => self.partly |= value == Attribute::Involved { all: false },
            _ => ignored.add(&CHAKRA, name),
        }
        Ok(())
    }

    /// Sets the name of the process group; an empty name means all ranks.
    fn set_group(&mut self, name: Option<String>) -> Result<(), String> {
        if name.as_ref().is_some_and(|name| name.len() > MAX_GROUP_NAME) {
            return Err(format!("pg_name has more than {MAX_GROUP_NAME} bytes"));
        }
        self.group = name.filter(|name| !name.is_empty());
        Ok(())
    }
}

/// Codes of the kinds of nodes.
pub(super) mod kind {
    pub(super) const METADATA: u64 = 1;
    pub(in crate::read) const MEMORY_LOAD: u64 = 2;
    pub(in crate::read) const MEMORY_STORE: u64 = 3;
    pub(in crate::read) const COMPUTE: u64 = 4;
    pub(super) const SEND: u64 = 5;
    pub(super) const RECV: u64 = 6;
    pub(super) const COLLECTIVE: u64 = 7;
    pub(super) const LAST: u64 = 10;
}

/// Limits on the number of process groups and on the length of their names, because all names are kept in
/// memory.
const MAX_GROUPS: usize = 1 << 16;
const MAX_GROUP_NAME: usize = 255;

/// Operations in the order of their codes. A reduce-scatter of blocks is treated as a reduce-scatter.
const OPERATIONS: [Collective; 10] = [
    Collective::AllReduce,
    Collective::Reduce,
    Collective::AllGather,
    Collective::Gather,
    Collective::Scatter,
    Collective::Broadcast,
    Collective::AllToAll,
    Collective::ReduceScatter,
    Collective::ReduceScatter,
    Collective::Barrier,
];

/// Whether a Chakra trace, in binary form or in JSON, starts with these bytes.
#[must_use]
pub fn detect(start: &[u8]) -> bool {
    chakra_json::is_certain(&String::from_utf8_lossy(start)) || looks_like(start)
}

/// Whether a Chakra trace in binary form may start with these bytes.
#[must_use]
pub fn looks_like(start: &[u8]) -> bool {
    let mut rest = start;
    let Ok(length) = varint(&mut rest) else { return false };
    if length == 0 {
        // After empty metadata, the length of the first node follows, whose first field is its number, its name or
        // its type, because a number 0 and an empty name are left out.
        return varint(&mut rest).is_ok_and(|node| node >= 2) && matches!(rest.first(), Some(8 | 18 | 24));
    }
    let whole = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    let of_metadata =
        |field: &Result<(u64, Value<'_>), String>| matches!(field, Ok((1 | 2, Value::Bytes(_))));
    match whole {
        Some(message) => Fields(message).all(|field| of_metadata(&field)),
        // The message is longer than the known bytes, so check only its first field.
        None => start.len() > 1000 && Fields(rest).next().is_some_and(|field| of_metadata(&field)),
    }
}

fn attribute(bytes: &[u8], node: &mut ChakraNode, ignored: &mut Ignored) -> Result<(), String> {
    let (mut name, mut set) = ("", Attribute::Other);
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(bytes)) => name = std::str::from_utf8(bytes).unwrap_or_default(),
            // Signed numbers have zigzag encoding.
            (15 | 17, Value::Varint(value)) => {
                set = Attribute::Number((value >> 1) ^ (value & 1).wrapping_neg());
            }
            (3, Value::Fixed64(bits)) => set = Attribute::Real(f64::from_bits(bits)),
            (5, Value::Fixed32(bits)) => set = Attribute::Real(f64::from(f32::from_bits(bits))),
            (29, Value::Bytes(bytes)) => set = Attribute::Text(String::from_utf8_lossy(bytes)),
            (28, Value::Bytes(bytes)) => {
                let mut all = true;
                for field in Fields(bytes) {
                    numbers(field?.1, |involved| all &= involved != 0)?;
                }
                set = Attribute::Involved { all };
            }
            (7.., value) => set = value.number().map_or(Attribute::Other, Attribute::Number),
            _ => {}
        }
    }
    node.set(name, set, ignored)
}

fn node(bytes: &[u8], ignored: &mut Ignored) -> Result<ChakraNode, String> {
    let mut node = ChakraNode::default();
    for field in Fields(bytes) {
        let (number, value) = field?;
        match (number, value) {
            (1, Value::Varint(id)) => node.id = id,
            (3, Value::Varint(kind)) => node.kind = kind,
            (5, value) => numbers(value, |id| node.waits_for.push(id))?,
            (7, Value::Varint(micros)) => node.micros = micros,
            (10, Value::Bytes(bytes)) => attribute(bytes, &mut node, ignored)?,
            (_, Value::Varint(0) | Value::Bytes([])) => {}
            (4, _) => ignored.add(&CHAKRA, "ctrl_deps"),
            (6, _) => ignored.add(&CHAKRA, "start_time_micros"),
            (8, _) => ignored.add(&CHAKRA, "inputs"),
            (9, _) => ignored.add(&CHAKRA, "outputs"),
            (11, _) => ignored.add(&CHAKRA, "storage"),
            _ => {}
        }
    }
    Ok(node)
}

/// Reads the files of a trace, one per rank.
///
/// # Errors
/// If a file cannot be read or is invalid, or the trace exceeds `options.limit`. In the binary form, the
/// position in an error is the byte (after decompression) at which the message starts.
pub fn read_files(files: &[PathBuf], options: &Options) -> Result<Trace, TraceError> {
    let open = |rank: usize| -> Result<(Box<dyn BufRead>, String), TraceError> {
        let name = files[rank].display().to_string();
        let from = source::unpacked(source::open(&files[rank])?);
        Ok((from.map_err(|error| TraceError::new(&name, format!("cannot be read: {error}")))?, name))
    };
    read(files.len(), &open, options)
}

/// Opens the file of a rank; returns its content and its name. Called twice for each rank.
pub type Open<'o, 'r> = &'o dyn Fn(usize) -> Result<(Box<dyn BufRead + 'r>, String), TraceError>;

/// Reads a trace from `ranks` sources. Each source is opened twice: first to find the groups, then to read
/// the nodes.
///
/// # Errors
/// Same as [`read_files`].
pub fn read(ranks: usize, open: Open<'_, '_>, options: &Options) -> Result<Trace, TraceError> {
    let mut groups: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut work = Work::new(options);
    let mut ignored = Ignored::default();
    each_node(ranks, open, &mut ignored, &mut |rank, node, at| {
        work.count(rank, &node, at);
        if let Some(group) = node.group {
            groups.entry(group).or_default().insert(rank);
        }
        if groups.len() > MAX_GROUPS {
            Err(at(format!("more than {MAX_GROUPS} process groups")))
        } else {
            Ok(())
        }
    })?;
    work.check()?;
    let whole = |error: BuildError| TraceError::new("the trace", error.to_string());
    let mut ranks_of: Vec<(String, Vec<u32>)> =
        groups.into_iter().map(|(name, members)| (name, members.into_iter().collect())).collect();
    ranks_of.insert(0, (String::new(), (0..ranks as u32).collect()));
    let build = options.large(ranks as u64).map_err(whole)?;
    let mut reader = Reader {
        build,
        options,
        work,
        groups: ranks_of,
        calls: HashMap::new(),
        ends: HashMap::new(),
        alone: 0,
        waiting: Vec::new(),
        rank: 0,
        file: String::new(),
    };
    each_node(ranks, open, &mut ignored, &mut |rank, node, fault| {
        while rank != reader.rank {
            reader.close()?;
            reader.rank += 1;
        }
        reader.add(node, fault)
    })?;
    reader.close()?;
    if reader.alone > 0 {
        let note = format!("{} collective operations have only one rank, and take no time", reader.alone);
        reader.build.notes.push(note);
    }
    reader.build.notes.extend(reader.work.notes());
    reader.build.notes.extend(ignored.note());
    reader.build.finish().map_err(whole)
}

/// Creates an error; in the binary form, at the start of the last message.
pub(super) type At<'a> = &'a dyn Fn(String) -> TraceError;

pub(super) type Each<'e> = &'e mut dyn FnMut(u32, ChakraNode, At<'_>) -> Result<(), TraceError>;

fn each_node(
    ranks: usize,
    open: Open<'_, '_>,
    ignored: &mut Ignored,
    each: Each<'_>,
) -> Result<(), TraceError> {
    for rank in 0..ranks {
        let (mut from, name) = open(rank)?;
        let mut start = Vec::new();
        let read = from.by_ref().take(source::HEAD).read_to_end(&mut start);
        read.map_err(|error| TraceError::new(&name, format!("cannot be read: {error}")))?;
        let text = String::from_utf8_lossy(&start);
        let mut whole = (&start[..]).chain(from);
        // A binary form may start with the character of an object: the length of its metadata.
        if chakra_json::is_certain(&text) || !looks_like(&start) && chakra_json::looks_like(&start) {
            chakra_json::each_node(&mut whole, &text, &name, rank as u32, ignored, each)?;
            continue;
        }
        let mut messages = Messages::new(whole);
        let mut first = true;
        loop {
            let read = messages.next().map(|message| {
                message.map(|bytes| if first { Ok(None) } else { node(bytes, ignored).map(Some) })
            });
            let offset = messages.offset;
            let at = |message: String| TraceError::offset(&name, offset, message);
            let Some(read) = read.map_err(&at)? else { break };
            match read.map_err(&at)? {
                // The first message contains the version and other metadata, and no node.
                None => first = false,
                Some(node) => each(rank as u32, node, &at)?,
            }
        }
        if first {
            return Err(TraceError::new(&name, "the file is empty; a Chakra trace starts with its metadata"));
        }
    }
    Ok(())
}

struct Reader<'o> {
    build: TraceBuilder,
    options: &'o Options,
    work: Work,
    /// Process groups with their names and members. The first group contains all ranks.
    groups: Vec<(String, Vec<u32>)>,
    /// Number of earlier collective operations of a rank in each group.
    calls: HashMap<(u32, usize), u32>,
    /// For the current rank, the last operation of each node.
    ends: HashMap<u64, u32>,
    alone: u64,
    /// For the current rank, operations with the nodes for which they wait.
    waiting: Vec<Waiting>,
    rank: u32,
    /// The file of the current rank.
    file: String,
}

/// An operation that waits for a node.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    later: u32,
    /// The node of the operation.
    node: u64,
    earlier: u64,
    /// The position of the node in the file.
    place: Place,
}

impl Reader<'_> {
    /// Finishes a rank. Dependencies are resolved here, because nodes may wait for later nodes.
    fn close(&mut self) -> Result<(), TraceError> {
        for Waiting { later, node, earlier, place } in std::mem::take(&mut self.waiting) {
            let fault = |message: String| TraceError { file: self.file.clone(), place, message };
            let found = self.ends.get(&earlier).copied();
            let found = found.ok_or_else(|| {
                fault(format!("node {node} waits for node {earlier}, which does not exist"))
            })?;
            let built = self.build.wait(self.rank, later, found, When::Finish);
            built.map_err(|too_large| fault(too_large.to_string()))?;
        }
        self.ends = HashMap::new();
        let closed = self.build.close(self.rank);
        closed.map_err(|error| TraceError::new("the trace", error.to_string()))
    }

    fn add(&mut self, node: ChakraNode, at: At<'_>) -> Result<(), TraceError> {
        let (first, last) =
            self.operations(&node).map_err(|message| at(format!("node {}: {message}", node.id)))?;
        if self.ends.insert(node.id, last).is_some() {
            return Err(at(format!("node {} is defined twice", node.id)));
        }
        if node.waits_for.is_empty() {
            return Ok(());
        }
        let TraceError { file, place, .. } = at(String::new());
        self.file = file;
        for earlier in node.waits_for {
            self.build.allow(1 + self.waiting.len() as u64).map_err(|error| at(error.to_string()))?;
            self.waiting.push(Waiting { later: first, node: node.id, earlier, place });
        }
        Ok(())
    }

    /// Creates the operations of a node; returns the first and the last of them.
    fn operations(&mut self, node: &ChakraNode) -> Result<(u32, u32), String> {
        let on_host = node.on_host == Some(true);
        let communicates = match node.kind {
            kind::SEND | kind::RECV => node.bytes.is_some(),
            kind::COLLECTIVE => node.operation.is_some(),
            _ => false,
        };
        let stated = scaled(node.micros.saturating_mul(1000), self.options.time_scale);
        let ns = self.work.duration_ns(node).unwrap_or(stated);
        let operation = match node.kind {
            kind::METADATA => Operation::delay(0),
            kind::SEND | kind::RECV | kind::COLLECTIVE if !communicates && !on_host => {
                return Err("it communicates, but has no comm_size or comm_type".to_owned());
            }
            kind::COLLECTIVE if communicates => return self.collective(node),
            kind::SEND | kind::RECV if communicates => message(node)?.on(2),
            0 => return Err("its type is missing".to_owned()),
            kind if kind > kind::LAST => {
                return Err(format!("type {kind} is not one of 1 to {}", kind::LAST));
            }
            _ if on_host => Operation::calc(ns),
            kind::COMPUTE => Operation::calc(ns).on(1),
            _ => Operation::calc(ns).on(3),
        };
        let made = self.build.push(self.rank, operation).map_err(|error| error.to_string())?;
        Ok((made, made))
    }

    fn collective(&mut self, node: &ChakraNode) -> Result<(u32, u32), String> {
        let place = node.operation.and_then(|number| usize::try_from(number).ok());
        let operation = place.and_then(|place| OPERATIONS.get(place)).copied();
        let operation = operation
            .ok_or_else(|| format!("comm_type {:?} is not one of 0 to 9", node.operation.unwrap_or(0)))?;
        if node.partly && node.group.is_none() {
            let why = "involved_dim excludes dimensions of a network; name the ranks by pg_name";
            return Err(why.to_owned());
        }
        let name = node.group.as_deref().unwrap_or_default();
        let found = self.groups.iter().position(|(group, _)| group == name);
        let group = found.ok_or_else(|| format!("group {} does not exist", clip(name)))?;
        let members = self.groups[group].1.clone();
        let me = members
            .binary_search(&self.rank)
            .map_err(|_| "the rank is not a member of its group".to_owned())?;
        let ranks = members.len() as u64;
        let bytes = node.bytes.unwrap_or(0);
        let blocks: Vec<u64>;
        let sizes = match operation {
            Collective::ReduceScatter => {
                blocks = shares(bytes, ranks);
                Sizes::PerRank(&blocks)
            }
            Collective::AllToAll => Sizes::Uniform(bytes.div_ceil(ranks)),
            _ => Sizes::Uniform(bytes),
        };
        let root = u32::try_from(node.root.unwrap_or(0)).unwrap_or(u32::MAX);
        let call = Call::new(operation, self.options.algorithms.of(operation), ranks as u32, root, sizes)?;
        // A collective call has the same number in all ranks of its group.
        let count = self.calls.entry((self.rank, group)).or_default();
        let comm = (group as u64 * (1 << 20) + u64::from(*count)) % u64::from(COLLECTIVE_TAGS - 1);
        *count += 1;
        self.alone += u64::from(ranks == 1);
        let mut sequence = Sequence::on_cpu(self.rank, 2);
        let text = |error: BuildError| error.to_string();
        let first = sequence.blocking(&mut self.build, Operation::delay(0)).map_err(text)?;
        let own = |place: u32| members[place as usize];
        sequence.collective(&mut self.build, &call, &own, me as u32, comm as u32).map_err(text)?;
        let last = sequence.blocking(&mut self.build, Operation::delay(0)).map_err(text)?;
        Ok((first, last))
    }
}

fn message(node: &ChakraNode) -> Result<Operation, String> {
    let bytes = node.bytes.unwrap_or(0);
    let tag = node.tag.unwrap_or(0);
    let tag = u32::try_from(tag).ok().filter(|&tag| tag < COLLECTIVE_TAGS);
    let tag = tag.ok_or("comm_tag is larger than 2^31 - 1")?;
    let (name, peer) = match node.kind {
        kind::SEND => ("comm_dst", node.destination),
        _ => ("comm_src", node.source),
    };
    let peer = peer.ok_or_else(|| format!("{name} is missing"))?;
    let peer = u32::try_from(peer).map_err(|_| format!("{name} {peer} is not a rank"))?;
    Ok(if node.kind == kind::SEND {
        Operation::send(peer, bytes, tag)
    } else {
        Operation::recv(peer, bytes, tag)
    })
}
