//! Reads recordings of MPI calls: `RANK BEGIN END CALL ARGUMENT...`, with times in ns. Recordings of HPC
//! Challenge have this format, and OTF2 traces are converted to it.
//!
//! The time of a rank between two calls is computation. Ranks in messages are ranks of `MPI_COMM_WORLD`; a
//! root is a rank of its communicator. A recording is a section of a longer run. Calls at its start and end
//! whose other side was not recorded are omitted, and a note states their number.

use std::collections::{BTreeMap, HashMap};

use crate::collective::{Call, Collective, Sizes};
use crate::error::{TraceError, clip};
use crate::read::source::Source;
use crate::read::{Options, at_line};
use crate::sequence::Sequence;
use crate::trace::{COLLECTIVE_TAGS, MAX_RANKS, Operation, Trace, TraceBuilder, scaled};

/// A communicator: its number and its members in order.
type Communicator = (u64, Vec<u32>);

/// Source, destination, communicator (by index) and tag of messages.
type Channel = (u32, u32, usize, u32);

/// The kind of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Send { channel: Channel, bytes: u64, request: Option<String> },
    Recv { channel: Channel, bytes: u64, request: Option<String> },
    Both { send: (Channel, u64), recv: (Channel, u64) },
    Wait(Vec<String>),
    Collective { operation: Collective, communicator: usize, root: u32, bytes: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    line: u64,
    begin: i64,
    end: i64,
    what: What,
    /// Whether the send of the call is used.
    sends: bool,
    /// Whether the receive of the call is used.
    receives: bool,
}

/// Reads a recording.
///
/// # Errors
/// If the recording cannot be read, is invalid, or exceeds `options.limit()`. Errors of a line contain its
/// number.
pub fn read(mut source: Source<'_>, options: &Options) -> Result<Trace, TraceError> {
    let name = source.name.clone();
    let mut recording = Recording::default();
    let mut number = 0;
    while let Some(line) = source.next_line()? {
        number += 1;
        let at = |message: String| TraceError::line(&name, number, message);
        if number == 1 {
            recording.begin(line).map_err(at)?;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            recording.add(number, line).map_err(at)?;
            if recording.count > options.limit() {
                return Err(at(format!("more than {} calls and members of communicators", options.limit())));
            }
        }
    }
    let doubts = [recording.align_collectives(), recording.match_messages()];
    recording.build(&name, options, doubts)
}

#[derive(Default)]
struct Recording {
    ranks: Vec<Vec<Event>>,
    communicators: Vec<Communicator>,
    known: HashMap<Communicator, usize>,
    /// The communicator to which a number currently refers, for each rank.
    named: HashMap<(u32, u64), usize>,
    /// Total number of calls and of members of communicators.
    count: u64,
}

/// The words of a call, which form pairs of name and value.
struct Words<'w>(Vec<&'w str>);

impl Words<'_> {
    fn place(&self, name: &str) -> Result<usize, String> {
        let found = self.0.iter().position(|word| *word == name);
        found.ok_or_else(|| format!("{} lacks `{name}`", self.0[0]))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        let place = self.place(name)?;
        self.0.get(place + 1).copied().ok_or_else(|| format!("{}: `{name}` has no value", self.0[0]))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("{}: {name} {} is not a valid number", self.0[0], clip(text)))
    }
}

impl Recording {
    fn begin(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ranks = words.windows(2).find(|pair| pair[1].trim_end_matches(',') == "ranks");
        let ranks = ranks.and_then(|pair| pair[0].parse::<u32>().ok());
        let ranks = ranks.filter(|ranks| (1..=MAX_RANKS).contains(ranks));
        let ranks = ranks.ok_or("a recording starts with a comment that contains `N ranks`")?;
        self.ranks = vec![Vec::new(); ranks as usize];
        self.communicator((0, (0..ranks).collect()));
        Ok(())
    }

    fn communicator(&mut self, communicator: Communicator) -> usize {
        let next = self.communicators.len();
        let place = *self.known.entry(communicator.clone()).or_insert(next);
        if place == next {
            // Count the members too, because they are stored in memory.
            self.count += communicator.1.len() as u64;
            self.communicators.push(communicator);
        }
        place
    }

    fn rank(&self, rank: u32) -> Result<u32, String> {
        let ranks = self.ranks.len();
        if (rank as usize) < ranks {
            Ok(rank)
        } else {
            Err(format!("rank {rank} does not exist; there are {ranks} ranks"))
        }
    }

    fn add(&mut self, line: u64, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words[0] == "COMM" {
            return self.made_before(&Words(words));
        }
        let [rank, begin, end, ref call @ ..] = words[..] else {
            return Err("a call is `RANK BEGIN END CALL ...`".to_owned());
        };
        let time =
            |word: &str| word.parse::<i64>().map_err(|_| format!("{} is not a time in ns", clip(word)));
        let (begin, end) = (time(begin)?, time(end)?);
        let rank = self.rank(rank.parse().map_err(|_| format!("{} is not a rank", clip(rank)))?)?;
        if call.is_empty() {
            return Err("the call is missing".to_owned());
        }
        if end < begin {
            return Err(format!("the call ends at {end}, before its start at {begin}"));
        }
        let what = self.call(rank, &Words(call.to_vec()))?;
        self.count += 1;
        self.ranks[rank as usize].push(Event { line, begin, end, what, sends: true, receives: true });
        Ok(())
    }

    /// The communicator that a call names.
    fn of(&self, rank: u32, words: &Words<'_>, name: &str) -> Result<usize, String> {
        let number: u64 = words.number(name)?;
        if number == 0 {
            return Ok(0);
        }
        let known = self.named.get(&(rank, number)).copied();
        known.ok_or_else(|| format!("rank {rank} has not created communicator {number} before this line"))
    }

    fn call(&mut self, rank: u32, words: &Words<'_>) -> Result<What, String> {
        let channel = |peer: &str, tag: &str, sends: bool| {
            let other = self.rank(words.number(peer)?)?;
            let tag = words.number::<u32>(tag)?;
            let (from, to) = if sends { (rank, other) } else { (other, rank) };
            Ok::<Channel, String>((from, to, self.of(rank, words, "comm")?, tag))
        };
        let request = || words.text("req").map(str::to_owned).ok();
        let collective = |operation, bytes: &str| {
            let communicator = self.of(rank, words, "comm")?;
            let root = if words.place("root").is_ok() { words.number("root")? } else { 0 };
            let bytes = if bytes.is_empty() { 0 } else { words.number(bytes)? };
            Ok(What::Collective { operation, communicator, root, bytes })
        };
        match words.0[0] {
            "Send" | "Isend" => Ok(What::Send {
                channel: channel("dst", "tag", true)?,
                bytes: words.number("bytes")?,
                request: request(),
            }),
            "Recv" => Ok(What::Recv {
                channel: channel("src", "tag", false)?,
                bytes: words.number("bytes")?,
                request: None,
            }),
            "Irecv" => Ok(What::Recv {
                channel: channel("src", "tag", false)?,
                bytes: words.number("maxbytes")?,
                request: request(),
            }),
            "Sendrecv" => Ok(What::Both {
                send: (channel("dst", "tag", true)?, words.number("bytes")?),
                recv: (channel("src", "rtag", false)?, words.number("rbytes")?),
            }),
            "Wait" => Ok(What::Wait(vec![words.text("req")?.to_owned()])),
            "Waitall" => {
                let count: usize = words.number("n")?;
                let requests: Vec<String> = words.0.iter().skip(3).map(|word| (*word).to_owned()).collect();
                if requests.len() != count {
                    return Err(format!("Waitall: {} requests are named, not {count}", requests.len()));
                }
                Ok(What::Wait(requests))
            }
            "Barrier" => collective(Collective::Barrier, ""),
            "Allreduce" => collective(Collective::AllReduce, "bytes"),
            "Bcast" => collective(Collective::Broadcast, "bytes"),
            "Reduce" => collective(Collective::Reduce, "bytes"),
            "Alltoall" => collective(Collective::AllToAll, "bytes_per_peer"),
            "Allgather" => collective(Collective::AllGather, "bytes"),
            "Gather" => collective(Collective::Gather, "bytes"),
            "Scatter" => collective(Collective::Scatter, "bytes"),
            "Scan" => collective(Collective::Scan, "bytes"),
            "Reduce_scatter_block" => collective(Collective::ReduceScatter, "bytes"),
            "Comm_split" => self.split(rank, words),
            other => Err(format!("{} is not a supported call", clip(other))),
        }
    }

    /// Adds a communicator that was created before the recording: `COMM NUMBER members RANK...`.
    fn made_before(&mut self, words: &Words<'_>) -> Result<(), String> {
        let number: u64 = words.number("COMM")?;
        let members = self.members(words)?;
        let place = self.communicator((number, members));
        for rank in &self.communicators[place].1 {
            self.named.insert((*rank, number), place);
        }
        Ok(())
    }

    fn members(&self, words: &Words<'_>) -> Result<Vec<u32>, String> {
        let first = words.place("members")? + 1;
        let member =
            |word: &&str| self.rank(word.parse().map_err(|_| format!("{} is not a rank", clip(word)))?);
        words.0.iter().skip(first).map(member).collect()
    }

    /// Adds a communicator that is split from another. The call is an all-gather, in which all ranks of the
    /// parent exchange color and key.
    fn split(&mut self, rank: u32, words: &Words<'_>) -> Result<What, String> {
        let parent = self.of(rank, words, "parent")?;
        let number: u64 = words.number("new")?;
        let members = self.members(words)?;
        if !members.contains(&rank) {
            return Err(format!("rank {rank} is not among the members"));
        }
        let place = self.communicator((number, members));
        self.named.insert((rank, number), place);
        Ok(What::Collective { operation: Collective::AllGather, communicator: parent, root: 0, bytes: 8 })
    }
}

impl Recording {
    /// Removes collective calls at the start and the end that some members lack.
    fn align_collectives(&mut self) -> Doubts {
        // The indices of the calls, by communicator and rank.
        let mut calls: BTreeMap<usize, BTreeMap<u32, Vec<usize>>> = BTreeMap::new();
        for (rank, events) in self.ranks.iter().enumerate() {
            for (place, event) in events.iter().enumerate() {
                if let What::Collective { communicator, .. } = event.what {
                    calls.entry(communicator).or_default().entry(rank as u32).or_default().push(place);
                }
            }
        }
        let mut doubts = Doubts::default();
        for (communicator, of_rank) in calls {
            let members = &self.communicators[communicator].1;
            let lists: Vec<&[usize]> =
                members.iter().map(|rank| of_rank.get(rank).map_or(&[][..], Vec::as_slice)).collect();
            let (kept, fits) = aligned(&lists, &|member, place| &self.ranks[members[member] as usize][place]);
            doubts.unfit += u64::from(!fits);
            let dropped: Vec<(u32, usize)> = lists
                .iter()
                .zip(members)
                .zip(&kept)
                .flat_map(|((list, &rank), range)| {
                    let outside = list.iter().enumerate().filter(|(at, _)| !range.contains(at));
                    outside.map(move |(_, &place)| (rank, place))
                })
                .collect();
            doubts.left_out += dropped.len() as u64;
            for (rank, place) in dropped {
                let event = &mut self.ranks[rank as usize][place];
                (event.sends, event.receives) = (false, false);
            }
        }
        doubts
    }

    /// Removes messages for which only one side was recorded.
    fn match_messages(&mut self) -> Doubts {
        let mut channels: BTreeMap<Channel, [Vec<End>; 2]> = BTreeMap::new();
        for (rank, events) in self.ranks.iter().enumerate() {
            for (place, event) in events.iter().enumerate() {
                for (side, end) in ends(&event.what).into_iter().enumerate() {
                    if let Some((channel, bytes)) = end {
                        channels.entry(channel).or_default()[side].push(End { rank, place, bytes });
                    }
                }
            }
        }
        let mut doubts = Doubts::default();
        for [sends, receives] in channels.into_values() {
            let shorter = sends.len().min(receives.len());
            // If the rank starts late, the first messages that it receives were sent before the recording.
            let late = receives.first().is_some_and(|end| self.ranks[end.rank][0].begin < 0);
            let (first, fits) = best_fit(&sends, &receives, late);
            doubts.unfit += u64::from(!fits);
            doubts.left_out += (sends.len() + receives.len() - 2 * shorter) as u64;
            for end in outside(&sends, first[0], shorter) {
                self.ranks[end.rank][end.place].sends = false;
            }
            for end in outside(&receives, first[1], shorter) {
                self.ranks[end.rank][end.place].receives = false;
            }
        }
        doubts
    }

    fn build(
        self,
        name: &str,
        options: &Options,
        [collectives, messages]: [Doubts; 2],
    ) -> Result<Trace, TraceError> {
        let mut build = TraceBuilder::new(self.ranks.len() as u64, options.limit())
            .map_err(|error| TraceError::new(name, error.to_string()))?;
        let left_out = collectives.left_out + messages.left_out;
        if left_out > 0 {
            build.notes.push(format!(
                "{left_out} calls at the ends were left out: their other side is not recorded"
            ));
        }
        if collectives.unfit > 0 {
            build.notes.push(format!(
                "in {} communicators, the collective calls of the ranks differ however they are aligned, so \
                 calls may be matched wrongly",
                collectives.unfit
            ));
        }
        if messages.unfit > 0 {
            build.notes.push(format!(
                "on {} channels (sender, receiver, communicator, tag), some messages are larger than their \
                 receives however they are aligned, so messages may be matched wrongly",
                messages.unfit
            ));
        }
        let mut tags = Tags::default();
        for (rank, events) in self.ranks.iter().enumerate() {
            let mut process = Process { sequence: Sequence::new(rank as u32), open: HashMap::new() };
            let mut last = 0;
            for event in events {
                let fault = at_line(name, event.line);
                let gap = u64::try_from(event.begin.saturating_sub(last)).unwrap_or(0);
                process.sequence.compute(&mut build, scaled(gap, options.time_scale)).map_err(&fault)?;
                last = event.end.max(last);
                let done = process.act(&mut build, event, &self.communicators, &mut tags, options);
                done.map_err(|message| TraceError::line(name, event.line, message))?;
            }
        }
        build.finish().map_err(|error| TraceError::new(name, error.to_string()))
    }
}

/// What the assignment of calls to each other leaves open.
#[derive(Default)]
struct Doubts {
    /// Number of calls that were left out.
    left_out: u64,
    /// Number of communicators or channels whose calls fit with no alignment.
    unfit: u64,
}

/// The range of each member's calls that all members have in common, and whether these calls agree.
///
/// Each recording starts with the rank's first call after the same instant. After that instant, a late
/// rank makes calls that the other ranks made before it, so its recording has additional calls at the
/// start, and lacks calls at the end.
fn aligned<'e>(
    lists: &[&[usize]],
    event: &dyn Fn(usize, usize) -> &'e Event,
) -> (Vec<std::ops::Range<usize>>, bool) {
    /// Maximum number of early calls that the search tries.
    const MOST_EARLY: usize = 64;
    let of = |member: usize, at: usize| event(member, lists[member][at]);
    let shortest = (0..lists.len()).min_by_key(|&member| lists[member].len()).unwrap_or(0);
    let fits = |member: usize, start: usize| {
        let common = lists[shortest].len().min(lists[member].len() - start);
        (0..common).all(|at| of(member, start + at).what == of(shortest, at).what)
    };
    let start = |member: usize| {
        let late = !lists[member].is_empty() && of(member, 0).begin < 0;
        let most = if late { MOST_EARLY.min(lists[member].len()) } else { 0 };
        (0..=most).find(|&start| fits(member, start))
    };
    let found: Vec<Option<usize>> = (0..lists.len()).map(start).collect();
    let fit = found.iter().all(Option::is_some);
    let starts: Vec<usize> = found.into_iter().map(Option::unwrap_or_default).collect();
    let common = lists.iter().zip(&starts).map(|(list, start)| list.len() - start).min().unwrap_or(0);
    (starts.into_iter().map(|start| start..start + common).collect(), fit)
}

/// One side of a message: rank, index among the rank's calls, and bytes.
struct End {
    rank: usize,
    place: usize,
    bytes: u64,
}

/// The channel and the bytes that a call sends, and those that it receives.
const fn ends(what: &What) -> [Option<(Channel, u64)>; 2] {
    match what {
        What::Send { channel, bytes, .. } => [Some((*channel, *bytes)), None],
        What::Recv { channel, bytes, .. } => [None, Some((*channel, *bytes))],
        What::Both { send, recv } => [Some(*send), Some(*recv)],
        What::Wait(_) | What::Collective { .. } => [None, None],
    }
}

/// Returns all elements except `count` elements that start at the index `first`.
fn outside(ends: &[End], first: usize, count: usize) -> impl Iterator<Item = &End> {
    ends[..first].iter().chain(&ends[first + count..])
}

/// Finds the first send and the first receive on a channel that belong to the same message. With this
/// start, no message may be larger than its receive. If no start satisfies this, the result is the first
/// one that was tried, and false.
fn best_fit(sends: &[End], receives: &[End], late: bool) -> ([usize; 2], bool) {
    /// Maximum number of messages that the search tries.
    const MOST: usize = 64;
    let shorter = sends.len().min(receives.len());
    let fits = |&[send, receive]: &[usize; 2]| {
        let mut pairs = sends[send..].iter().zip(&receives[receive..]).take(shorter);
        pairs.all(|(send, receive)| send.bytes <= receive.bytes)
    };
    let early = if late { (receives.len() - shorter).min(MOST) } else { 0 };
    let receives_first = (0..=(receives.len() - shorter).min(MOST)).map(|first| [0, first]);
    let sends_first = (1..=(sends.len() - shorter).min(MOST)).map(|first| [first, 0]);
    let mut starts: Vec<[usize; 2]> = receives_first.chain(sends_first).collect();
    starts.sort_by_key(|&[_, receive]| receive.abs_diff(early));
    let found = starts.into_iter().find(fits);
    (found.unwrap_or([0, early]), found.is_some())
}

/// Assigns a unique tag to each pair of communicator and tag, so that messages of different communicators
/// never match. The tags of `MPI_COMM_WORLD` do not change.
#[derive(Default)]
struct Tags(HashMap<(usize, u32), u32>);

/// First tag for communicators other than `MPI_COMM_WORLD`. The tags of `MPI_COMM_WORLD` must be smaller.
const OTHER_TAGS: u32 = 1 << 30;

impl Tags {
    fn of(&mut self, (_, _, communicator, tag): Channel) -> Result<u32, String> {
        if communicator == 0 {
            return if tag < OTHER_TAGS {
                Ok(tag)
            } else {
                Err(format!("tag {tag} is larger than {OTHER_TAGS}"))
            };
        }
        let next = OTHER_TAGS + self.0.len() as u32;
        let tag = *self.0.entry((communicator, tag)).or_insert(next);
        if tag < COLLECTIVE_TAGS { Ok(tag) } else { Err("too many pairs of communicator and tag".to_owned()) }
    }
}

struct Process {
    sequence: Sequence,
    open: HashMap<String, Vec<u32>>,
}

impl Process {
    fn act(
        &mut self,
        build: &mut TraceBuilder,
        event: &Event,
        communicators: &[Communicator],
        tags: &mut Tags,
        options: &Options,
    ) -> Result<(), String> {
        let text = |error: crate::trace::BuildError| error.to_string();
        let mut messages = Vec::new();
        let request = match &event.what {
            What::Send { channel, bytes, request } => {
                messages.extend(event.sends.then_some((true, *channel, *bytes)));
                request
            }
            What::Recv { channel, bytes, request } => {
                messages.extend(event.receives.then_some((false, *channel, *bytes)));
                request
            }
            What::Both { send, recv } => {
                messages.extend(event.receives.then_some((false, recv.0, recv.1)));
                messages.extend(event.sends.then_some((true, send.0, send.1)));
                &None
            }
            What::Wait(requests) => {
                for request in requests {
                    // A request may be missing, because calls whose other side was not recorded are
                    // omitted.
                    if let Some(list) = self.open.get_mut(request).filter(|list| !list.is_empty()) {
                        self.sequence.wait(list.remove(0));
                    }
                }
                return Ok(());
            }
            What::Collective { operation, communicator, root, bytes } => {
                if !event.sends {
                    return Ok(());
                }
                let members = &communicators[*communicator].1;
                let me = members.iter().position(|&rank| rank == self.sequence.rank());
                let me = me.ok_or("the rank is not a member of the communicator")? as u32;
                let algorithm = options.algorithms.of(*operation);
                let sizes = Sizes::Uniform(*bytes);
                let call = Call::new(*operation, algorithm, members.len() as u32, *root, sizes)?;
                let own = |place: u32| members[place as usize];
                return self.sequence.collective(build, &call, &own, me, *communicator as u32).map_err(text);
            }
        };
        let mut made = Vec::new();
        for (sends, channel, bytes) in messages {
            let tag = tags.of(channel)?;
            let operation = if sends {
                Operation::send(channel.1, bytes, tag)
            } else {
                Operation::recv(channel.0, bytes, tag)
            };
            made.push(self.sequence.start(build, operation).map_err(text)?);
        }
        match request {
            Some(request) => self.open.entry(request.clone()).or_default().extend(made),
            None => made.into_iter().for_each(|operation| self.sequence.wait(operation)),
        }
        Ok(())
    }
}
