//! Reads algorithms of collective operations in the XML of MSCCL.
//!
//! ```xml
//! <algo name="exchange" ngpus="2" nchannels="1" nchunksperloop="2" proto="Simple" coll="allgather">
//!   <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
//!     <tb id="0" send="1" recv="1" chan="0">
//!       <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
//!       <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
//!     </tb>
//!   </gpu>
//!   ...
//! </algo>
//! ```
//!
//! A GPU is a rank, which executes the operation once. A thread block is a CPU of the rank. It executes its steps one after
//! another, and a step also waits for step `deps` of thread block `depid`. Messages of a channel between two GPUs arrive in
//! order; the channel is their tag. The total size is divided into `nchunksperloop` chunks, of which a step handles `cnt`.
//! It is the size of the vector of an all-reduce, of the result of an all-gather, of the input of a reduce-scatter, and of
//! all bytes that a rank sends in an all-to-all. Copies and reductions within a GPU take no time.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::fields::{Handling, Ignored, MSCCL};
use super::source::unpacked;
use crate::error::{TraceError, clip};
use crate::read::{Fault, Options, at_line};
use crate::trace::{Operation, Trace, TraceBuilder, When};

/// Maximum size of a file after decompression.
const MAX_BYTES: u64 = 256 << 20;

/// Elements, each inside of the one before it.
const ELEMENTS: [&str; 4] = ["algo", "gpu", "tb", "step"];

/// Whether a file with this start is an algorithm.
#[must_use]
pub fn looks_like(start: &str) -> bool {
    let start = start.trim_start_matches('\u{feff}').trim_start();
    start.starts_with('<')
        && start.split("<algo").nth(1).is_some_and(|rest| rest.starts_with([' ', '\n', '\r', '\t']))
}

/// The attributes of an element that are used.
struct Tag(BTreeMap<&'static str, String>, &'static str);

impl Tag {
    fn text(&self, key: &str) -> Result<&str, String> {
        let found = self.0.get(format!("{}.{key}", self.1).as_str());
        found.map(String::as_str).ok_or_else(|| format!("<{}> has no {key}", self.1))
    }

    /// A number of at least `least`, which is -1 or more.
    fn number(&self, key: &str, least: i64) -> Result<i64, String> {
        let text = self.text(key)?;
        let number = text.trim().parse().ok().filter(|number| (least..=i64::from(u32::MAX)).contains(number));
        number.ok_or_else(|| {
            format!(
                "{key} of <{}> is {}; must be a whole number from {least} to {}",
                self.1,
                clip(text),
                u32::MAX
            )
        })
    }

    /// A number that may be -1, which means none.
    fn optional(&self, key: &str) -> Result<Option<u32>, String> {
        Ok(u32::try_from(self.number(key, -1)?).ok())
    }

    fn count(&self, key: &str, least: i64) -> Result<u32, String> {
        Ok(self.number(key, least)? as u32)
    }
}

/// The current GPU.
#[derive(Default)]
struct Gpu {
    id: u32,
    /// Chunks of the input, the output, and the scratch memory.
    chunks: [u32; 3],
    /// The last operation of each step of each thread block.
    ends: HashMap<(u32, u32), u32>,
    blocks: u32,
    /// Operations that wait for a step of another thread block, and the line.
    waiting: Vec<(u32, (u32, u32), u64)>,
}

/// The current thread block.
#[derive(Default)]
struct Block {
    id: u32,
    cpu: u8,
    send: Option<u32>,
    recv: Option<u32>,
    channel: u32,
    /// Number of the last step, and its last operation.
    last: Option<(u32, u32)>,
}

/// Messages in one direction of a channel: the line of its thread block, and the chunks of each message with the line.
#[derive(Default)]
struct Side {
    line: u64,
    messages: Vec<(u32, u64)>,
}

struct Reader<'o> {
    name: &'o str,
    options: &'o Options,
    build: Option<TraceBuilder>,
    ranks: u32,
    channels: u32,
    chunk_bytes: u64,
    seen: Vec<bool>,
    gpu: Gpu,
    block: Block,
    /// Senders and receivers by source, destination and channel.
    sides: BTreeMap<(u32, u32, u32), [Option<Side>; 2]>,
    ignored: Ignored,
}

/// Reads an algorithm, plain or gzip.
///
/// # Errors
/// If the file cannot be read or is invalid, [`Options::bytes`] is missing or no multiple of the number of chunks, or the
/// trace exceeds `options.limit()`. Errors contain the line.
pub fn read(from: impl Read, name: &str, options: &Options) -> Result<Trace, TraceError> {
    let unreadable = |error: std::io::Error| TraceError::new(name, format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    unpacked(from).map_err(unreadable)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TraceError::new(name, format!("the file has more than {MAX_BYTES} bytes")));
    }
    let line_at =
        |end: usize| 1 + bytes[..end.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count() as u64;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        TraceError::line(name, line_at(error.valid_up_to()), "is not UTF-8 text; check the format")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader {
        name,
        options,
        build: None,
        ranks: 0,
        channels: 0,
        chunk_bytes: 0,
        seen: Vec::new(),
        gpu: Gpu::default(),
        block: Block::default(),
        sides: BTreeMap::new(),
        ignored: Ignored::default(),
    };
    let mut xml = quick_xml::Reader::from_str(text);
    xml.config_mut().expand_empty_elements = true;
    let (mut depth, mut line, mut counted) = (0, 1, 0);
    loop {
        // An element starts at the first character that is not blank.
        let start = xml.buffer_position() as usize;
        let rest = text.get(start..).unwrap_or_default();
        let start = (text.len() - rest.trim_start().len()).max(counted);
        line += text.as_bytes()[counted..start].iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = start;
        let event = xml.read_event().map_err(|error| {
            let message = format!("is not valid XML: {error}");
            TraceError::line(name, line_at(xml.error_position() as usize), message)
        })?;
        let done = match event {
            Event::Start(tag) => reader.start(depth, &tag, line).map(|()| depth += 1),
            Event::End(_) => {
                depth -= 1;
                if depth == 1 {
                    reader.end_of_gpu()?;
                }
                Ok(())
            }
            Event::Text(text) if text.trim().is_empty() => Ok(()),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => Ok(()),
            Event::Eof if depth > 0 => {
                Err(Fault::Text(format!("the file ends inside <{}>", ELEMENTS[depth - 1])))
            }
            Event::Eof => break,
            _ => Err(Fault::Text(
                "there is text between the elements; a file consists of <algo>, <gpu>, <tb> and <step>"
                    .to_owned(),
            )),
        };
        done.map_err(|fault| fault.at(name, line))?;
    }
    reader.finish()
}

impl Reader<'_> {
    /// Reads the attributes of an element. Those that are not used are noted.
    fn tag(&mut self, element: &'static str, tag: &BytesStart<'_>) -> Result<Tag, String> {
        let mut values = BTreeMap::new();
        // Repeated attributes are found below, in less time.
        for attribute in tag.attributes().with_checks(false) {
            let attribute =
                attribute.map_err(|error| format!("an attribute of <{element}> is not valid: {error}"))?;
            let key = attribute.key.as_ref().to_owned();
            let path = format!("{element}.{key}");
            let value = attribute.value.into_owned();
            let field = MSCCL.fields.iter().find(|field| field.name == path);
            match field.map(|field| field.handling) {
                Some(Handling::Used) => {
                    let name = field.map_or("", |field| field.name);
                    if values.insert(name, value).is_some() {
                        return Err(format!("<{element}> has {} twice", clip(&key)));
                    }
                }
                Some(Handling::Text) => {}
                _ if self.has_no_effect(&path, &value) => {}
                _ => self.ignored.add(&MSCCL, &path),
            }
        }
        Ok(Tag(values, element))
    }

    /// Whether an attribute that is not used has a value that another program would not use, either.
    fn has_no_effect(&self, path: &str, value: &str) -> bool {
        let bytes = self.options.bytes.unwrap_or(0);
        let limit = value.trim().parse::<u64>().ok();
        match path {
            "algo.proto" => value == "Simple",
            "algo.minBytes" => limit.is_some_and(|limit| limit <= bytes),
            "algo.maxBytes" => limit.is_some_and(|limit| limit == 0 || limit >= bytes),
            _ => false,
        }
    }

    fn start(&mut self, depth: usize, tag: &BytesStart<'_>, line: u64) -> Result<(), Fault> {
        let name = tag.name().as_ref().to_owned();
        let Some(&element) = ELEMENTS.get(depth).filter(|element| **element == name) else {
            let place = if depth == 0 { "the file".to_owned() } else { format!("<{}>", ELEMENTS[depth - 1]) };
            let valid = ELEMENTS.get(depth).map_or("nothing".to_owned(), |element| format!("<{element}>"));
            return Err(format!(
                "{place} contains <{}>; must contain {valid}",
                clip(&name).trim_matches('`')
            )
            .into());
        };
        let tag = self.tag(element, tag)?;
        match depth {
            0 => self.algo(&tag),
            1 => Ok(self.gpu(&tag)?),
            2 => Ok(self.block(&tag, line)?),
            _ => self.step(&tag, line),
        }
    }

    fn algo(&mut self, tag: &Tag) -> Result<(), Fault> {
        if self.build.is_some() {
            return Err("there is a second <algo>; a file has one".to_owned().into());
        }
        let chunks = u64::from(tag.count("nchunksperloop", 1)?);
        self.ranks = tag.count("ngpus", 1)?;
        self.channels = tag.count("nchannels", 1)?;
        let bytes = self.options.bytes.ok_or_else(|| {
            format!(
                "the total size of the operation is missing, which is divided into {chunks} chunks: give \
                 `--bytes \"16 MiB\"`, or `bytes` in a scenario"
            )
        })?;
        if bytes == 0 || !bytes.is_multiple_of(chunks) {
            let next = bytes.max(1).div_ceil(chunks).saturating_mul(chunks);
            let message = format!(
                "{bytes} bytes (`bytes`) cannot be divided into {chunks} chunks (nchunksperloop); {next} can"
            );
            return Err(message.into());
        }
        self.chunk_bytes = bytes / chunks;
        self.build = Some(TraceBuilder::new(u64::from(self.ranks), self.options.limit())?);
        self.seen = vec![false; self.ranks as usize];
        Ok(())
    }

    /// A GPU that exists.
    fn peer(&self, gpu: u32) -> Result<u32, String> {
        let exists = gpu < self.ranks;
        exists.then_some(gpu).ok_or_else(|| format!("there is no GPU {gpu}; ngpus is {}", self.ranks))
    }

    fn gpu(&mut self, tag: &Tag) -> Result<(), String> {
        let id = self.peer(tag.count("id", 0)?)?;
        if std::mem::replace(&mut self.seen[id as usize], true) {
            return Err(format!("there is a second GPU {id}"));
        }
        let chunks = [tag.count("i_chunks", 0)?, tag.count("o_chunks", 0)?, tag.count("s_chunks", 0)?];
        self.gpu = Gpu { id, chunks, ..Gpu::default() };
        Ok(())
    }

    fn block(&mut self, tag: &Tag, line: u64) -> Result<(), String> {
        let gpu = self.gpu.id;
        let (id, channel) = (tag.count("id", 0)?, tag.count("chan", 0)?);
        if id != self.gpu.blocks {
            return Err(format!(
                "thread block {id} follows {} thread blocks; they are numbered from 0",
                self.gpu.blocks
            ));
        }
        if channel >= self.channels {
            return Err(format!("there is no channel {channel}; nchannels is {}", self.channels));
        }
        let (send, recv) = (tag.optional("send")?, tag.optional("recv")?);
        for (peer, side) in [(send, 0), (recv, 1)] {
            let Some(peer) = peer.map(|peer| self.peer(peer)).transpose()? else { continue };
            if peer == gpu {
                return Err(format!("a thread block of GPU {gpu} exchanges messages with its own GPU"));
            }
            let key = if side == 0 { (gpu, peer, channel) } else { (peer, gpu, channel) };
            let sides = self.sides.entry(key).or_default();
            if sides[side].replace(Side { line, ..Side::default() }).is_some() {
                let what = if side == 0 { "sends to" } else { "receives from" };
                return Err(format!(
                    "a second thread block of GPU {gpu} {what} GPU {peer} on channel {channel}"
                ));
            }
        }
        let cpu = (id % 256) as u8;
        self.gpu.blocks += 1;
        self.block = Block { id, cpu, send, recv, channel, last: None };
        Ok(())
    }

    /// Tests whether the chunks of a step are in a buffer of its GPU.
    fn within(&self, tag: &Tag, side: &str, count: u32) -> Result<(), String> {
        let (buffer, offset) = (tag.text(&format!("{side}buf"))?, tag.optional(&format!("{side}off"))?);
        let place = ["i", "o", "s"].iter().position(|known| *known == buffer);
        let place = place.ok_or_else(|| {
            format!("{side}buf is {}; must be i (input), o (output) or s (scratch)", clip(buffer))
        })?;
        let most = self.gpu.chunks[place];
        match offset {
            Some(offset) if u64::from(offset) + u64::from(count) > u64::from(most) => Err(format!(
                "{count} chunks from {offset} on exceed buffer {buffer}, which has {most} ({buffer}_chunks)"
            )),
            _ => Ok(()),
        }
    }

    fn step(&mut self, tag: &Tag, line: u64) -> Result<(), Fault> {
        let (number, count) = (tag.count("s", 0)?, tag.count("cnt", 0)?);
        if let Some((last, _)) = self.block.last.filter(|(last, _)| *last >= number) {
            return Err(format!("step {number} follows step {last}; steps are numbered upward").into());
        }
        // Whether the step receives and sends, and whether it reads its source and writes its destination here.
        let (receives, sends, reads, writes) = match tag.text("type")? {
            "s" => (false, true, true, false),
            "r" => (true, false, false, true),
            "rcs" => (true, true, false, true),
            "rrs" => (true, true, true, false),
            "rrc" => (true, false, false, true),
            "rrcs" => (true, true, true, true),
            "cpy" | "re" => (false, false, true, true),
            "nop" => (false, false, false, false),
            other => {
                let message =
                    format!("type {} is not one of s, r, rcs, rrs, rrc, rrcs, cpy, re and nop", clip(other));
                return Err(message.into());
            }
        };
        for (side, used) in [("src", reads), ("dst", writes)] {
            if used {
                self.within(tag, side, count)?;
            }
        }
        let bytes = u64::from(count).saturating_mul(self.chunk_bytes);
        let Block { id, cpu, send, recv, channel, .. } = self.block;
        let gpu = self.gpu.id;
        let mut operations = Vec::new();
        for (active, peer, side, key) in [(receives, recv, 1, "recv"), (sends, send, 0, "send")] {
            if !active {
                continue;
            }
            let peer =
                peer.ok_or_else(|| format!("{key} of thread block {id} is -1, but step {number} needs it"))?;
            let (route, operation) = if side == 0 {
                ((gpu, peer, channel), Operation::send(peer, bytes, channel))
            } else {
                ((peer, gpu, channel), Operation::recv(peer, bytes, channel))
            };
            if let Some(Some(side)) = self.sides.get_mut(&route).map(|sides| sides[side].as_mut()) {
                side.messages.push((count, line));
            }
            operations.push(operation.on(cpu));
        }
        if operations.is_empty() {
            operations.push(Operation::delay(0));
        }
        let waits_for = tag
            .optional("depid")?
            .map(|block| Ok::<_, String>((block, tag.count("deps", 0)?)))
            .transpose()?;
        let Some(build) = &mut self.build else { return Ok(()) };
        let mut last = self.block.last.map(|(_, operation)| operation);
        for (place, operation) in operations.into_iter().enumerate() {
            let made = build.push(gpu, operation)?;
            if let Some(last) = last {
                build.wait(gpu, made, last, When::Finish)?;
            }
            if let Some(step) = waits_for.filter(|_| place == 0) {
                build.allow(1 + self.gpu.waiting.len() as u64)?;
                self.gpu.waiting.push((made, step, line));
            }
            last = Some(made);
        }
        if let Some(last) = last {
            self.block.last = Some((number, last));
            self.gpu.ends.insert((id, number), last);
        }
        Ok(())
    }

    /// Resolves the dependencies between thread blocks, because steps may wait for later thread blocks.
    fn end_of_gpu(&mut self) -> Result<(), TraceError> {
        let Some(build) = &mut self.build else { return Ok(()) };
        let gpu = self.gpu.id;
        for (later, (block, step), line) in std::mem::take(&mut self.gpu.waiting) {
            let earlier = self.gpu.ends.get(&(block, step)).ok_or_else(|| {
                let what = format!("waits for step {step} (deps) of thread block {block} (depid)");
                TraceError::line(self.name, line, format!("{what}, which GPU {gpu} does not have"))
            })?;
            build.wait(gpu, later, *earlier, When::Finish).map_err(at_line(self.name, line))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Trace, TraceError> {
        let Some(mut build) = self.build else {
            return Err(TraceError::new(self.name, "there is no <algo>"));
        };
        if let Some(gpu) = self.seen.iter().position(|seen| !seen) {
            return Err(TraceError::new(self.name, format!("GPU {gpu} is missing; ngpus is {}", self.ranks)));
        }
        for ((from, to, channel), [sent, received]) in self.sides {
            let (sent, received) = (sent.unwrap_or_default(), received.unwrap_or_default());
            let route = format!("from GPU {from} to GPU {to} on channel {channel}");
            for (&(one, line), &(other, at)) in sent.messages.iter().zip(&received.messages) {
                if one != other {
                    let message = format!("{one} chunks are sent {route}, but line {at} receives {other}");
                    return Err(TraceError::line(self.name, line, message));
                }
            }
            let (sends, receives) = (sent.messages.len(), received.messages.len());
            if sends != receives {
                let line = sent.line.max(received.line);
                let message = format!("{sends} messages are sent {route}, but {receives} are received");
                return Err(TraceError::line(self.name, line, message));
            }
        }
        build.notes.extend(self.ignored.note());
        build.finish().map_err(|error| TraceError::new(self.name, error.to_string()))
    }
}
