//! Explains why messages and jobs were slow: causes that add up exactly to their delay.
//!
//! | module | content |
//! | --- | --- |
//! | `record` | what a run has recorded, with indexes to search it |
//! | `channel` | the packets on a channel and in the buffer behind it, as functions of time |
//! | `piece` | a part of a time with its cause, and sums of such parts |
//! | `causes` | follows waits to the links, hosts and packets that caused them |
//! | `message` | messages, and their ideal times |
//! | `walk` | walks back in time along the packets of a message |
//! | `ports` | what ports did in intervals of time, in the manner of hardware counters |
//! | `ranks` | walks back in time along the ranks of a job |
//!
//! Times are whole picoseconds. Packets, channels, hosts and departures (*rows*) are indexes into a [`RunRecord`].

use std::cmp::Reverse;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use silvan_fabric::{FlowAddress, NOT_RECORDED, RunRecord};

mod causes;
mod channel;
mod message;
mod piece;
mod ports;
mod ranks;
mod record;
mod walk;

pub use message::Message;
pub use piece::{Cause, Chains, Explanation, Label, LossKind, Piece, Place, Signal};
pub use ports::PortActivity;
pub use ranks::RankTime;
pub use record::Record;

/// A time in picoseconds, or the difference of two times.
pub type Picos = i64;

/// A time from its start to its end.
pub(crate) type Span = (Picos, Picos);

/// A time that is not known.
const NEVER: Picos = Picos::MAX / 2;

/// An error in Silvan: the pieces of a time have a gap.
#[derive(Debug, thiserror::Error)]
#[error("the causes of a message leave a gap at {at} ps (next: {next} ps)")]
pub struct Gap {
    at: Picos,
    next: Picos,
}

/// A job of which no rank did anything before a time.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// There is no event to start from.
    #[error("no rank did anything before {:.0} ns", *.0 as f64 / 1e3)]
    Nothing(Picos),
    /// A message on the path could not be explained.
    #[error(transparent)]
    Gap(#[from] Gap),
}

/// What the scenario of a run states about its network.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// The times in which links are down, by channel, in order.
    pub down: FxHashMap<u32, Vec<(Picos, Picos)>>,
    /// Whether packets to a host may take one of several paths.
    pub has_paths: bool,
    /// Whether each input of a switch has one queue, so that packets for other outputs may be in front.
    pub has_one_queue: bool,
    /// Whether an input sends to one output at a time.
    pub shares_inputs: bool,
    /// Whether the reaction asks receivers for permission.
    pub requests_grants: bool,
    /// Whether receivers discard packets that arrive out of order (go-back-n).
    pub goes_back: bool,
    /// Whether the reaction measures delays or loads, so that it slows down without marks.
    pub senses_delays: bool,
}

/// For each channel, the others of its switch from which a host is equally far.
pub(crate) type Alternatives = Vec<Vec<u32>>;

/// A recording with what the scenario states about its network.
#[derive(Debug)]
pub struct Delays {
    record: Record,
    circumstances: Circumstances,
    /// By host.
    alternatives: Vec<OnceLock<Alternatives>>,
}

impl Delays {
    /// Combines a recording, which ends at `until`, and the circumstances of its run.
    #[must_use]
    pub fn new(recording: RunRecord, until: Picos, circumstances: Circumstances) -> Self {
        let alternatives = recording.hosts.iter().map(|_| OnceLock::new()).collect();
        let record = Record::new(recording, until, circumstances.goes_back);
        Self { record, circumstances, alternatives }
    }

    /// The recording.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What each port did in intervals that end at given times, in order; see [`PortActivity`].
    #[must_use]
    pub fn activity(&self, ends: &[Picos]) -> PortActivity {
        ports::activity(&self.record, ends)
    }

    /// The messages of a flow that were recorded from their first packet to their delivery.
    #[must_use]
    pub fn messages(&self, flow: FlowAddress) -> &[Message] {
        self.record.messages(flow)
    }

    /// The `most` messages of some flows that have the longest delays, the longest first, with their numbers in
    /// [`Self::messages`]. Of equal delays, the earlier message comes first.
    pub fn slowest(&self, flows: impl Fn(FlowAddress) -> bool, most: usize) -> Vec<(usize, &Message)> {
        let messages = self.record.flows().filter(|&flow| flows(flow)).map(|flow| self.messages(flow));
        let mut found: Vec<(usize, &Message)> = messages.flat_map(|list| list.iter().enumerate()).collect();
        let key = |&(number, message): &(usize, &Message)| {
            (Reverse(message.delay()), message.start, message.flow, number)
        };
        if most < found.len() {
            found.select_nth_unstable_by_key(most, key);
            found.truncate(most);
        }
        found.sort_unstable_by_key(key);
        found
    }

    /// Explains the duration of a message of the recording.
    ///
    /// # Errors
    /// [`Gap`], which would be an error in Silvan.
    pub fn explain(&self, message: &Message) -> Result<Explanation, Gap> {
        let (pieces, chains) = self.walk(message)?;
        let causes = piece::summed(&pieces, &chains, &self.record);
        let (start, end, ideal) = (message.start, message.end, message.ideal);
        Ok(Explanation { start, end, ideal, pieces, causes, chains, ranks: Vec::new() })
    }

    /// Explains the duration of a job, or of a part of it such as a collective operation, from `start` to the last event
    /// that is not later than `end`.
    ///
    /// Computation counts as a delay as far as the rank computes longer than the median of the ranks. All other
    /// computation, the overheads of ranks, and the necessary times of messages are the ideal duration.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn explain_step(&self, job: u32, start: Picos, end: Picos) -> Result<Explanation, StepError> {
        ranks::explain(self, job, (start, end))
    }

    /// Divides the time of a message from its generation to its delivery.
    fn walk(&self, message: &Message) -> Result<(Vec<Piece>, Chains), Gap> {
        let to = message.flow.destination;
        static NO_PATHS: Alternatives = Vec::new();
        let alternatives = if self.circumstances.has_paths {
            self.alternatives[to as usize].get_or_init(|| self.find_alternatives(to))
        } else {
            &NO_PATHS
        };
        let causes = causes::Causes::new(&self.record, &self.circumstances, alternatives, message);
        let (pieces, chains) = walk::walk(message, causes);
        let mut at = message.start;
        for piece in &pieces {
            if piece.start != at {
                return Err(Gap { at, next: piece.start });
            }
            at = piece.end;
        }
        if at == message.end { Ok((pieces, chains)) } else { Err(Gap { at, next: message.end }) }
    }

    fn find_alternatives(&self, destination: u32) -> Alternatives {
        let channels = self.record.channels();
        let mut into: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for channel in channels {
            into.entry(channel.to_switch).or_default().push(channel.from_switch);
        }
        let Some(last) = channels.iter().find(|one| one.to_host == destination) else { return Vec::new() };
        let mut distance: FxHashMap<u32, u32> = FxHashMap::default();
        distance.insert(last.from_switch, 0);
        let mut queue = std::collections::VecDeque::from([last.from_switch]);
        while let Some(switch) = queue.pop_front() {
            let far = distance[&switch];
            for &before in into.get(&switch).into_iter().flatten() {
                if before != NOT_RECORDED && !distance.contains_key(&before) {
                    distance.insert(before, far + 1);
                    queue.push_back(before);
                }
            }
        }
        let mut groups: FxHashMap<(u32, u32), Vec<u32>> = FxHashMap::default();
        for (number, channel) in (0..).zip(channels) {
            if channel.from_switch != NOT_RECORDED
                && let Some(&far) = distance.get(&channel.to_switch)
            {
                groups.entry((channel.from_switch, far)).or_default().push(number);
            }
        }
        let mut found = vec![Vec::new(); channels.len()];
        for group in groups.values() {
            for &one in group {
                found[one as usize] = group.iter().copied().filter(|&other| other != one).collect();
            }
        }
        found
    }
}
