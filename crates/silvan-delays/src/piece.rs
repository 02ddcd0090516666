//! A part of a time with its cause, and sums of such parts.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use silvan_fabric::FlowAddress;

use crate::Picos;
use crate::ranks::RankTime;
use crate::record::Record;

/// What happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// It is part of the duration on an empty network.
    Necessary,
    /// A channel sends packets of others.
    OutputBusy,
    /// The same, while an equally short path is idle.
    HashCollision,
    /// A channel is slower than others of its kind.
    SlowLink,
    /// A host drains its buffer more slowly than its link.
    SlowReceiver,
    /// A channel waits for credit although the buffer behind it is empty.
    SmallBuffer,
    /// A host waits for its injection limit or the overhead of messages.
    Injection,
    /// A reaction holds the flow back until a given time.
    Pacing,
    /// The flow waits for an answer.
    Window,
    /// The flow waits for a grant.
    Grant,
    /// The flow waits for the answer to its announcement.
    Announcement,
    /// Packets or their answers were lost.
    Loss,
    /// A link is down.
    LinkDown,
    /// A link repeats packets after errors.
    LinkErrors,
    /// Packets wait for each other.
    Deadlock,
    /// A rank computes.
    Compute,
    /// A rank handles messages.
    Overhead,
    /// A rank waits for something on its host.
    Local,
    /// What happened before the recording.
    Earlier,
}

impl Label {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Necessary => "necessary",
            Self::OutputBusy => "output-busy",
            Self::HashCollision => "hash-collision",
            Self::SlowLink => "slow-link",
            Self::SlowReceiver => "slow-receiver",
            Self::SmallBuffer => "small-buffer",
            Self::Injection => "injection",
            Self::Pacing => "pacing",
            Self::Window => "window",
            Self::Grant => "grant",
            Self::Announcement => "announcement",
            Self::Loss => "loss",
            Self::LinkDown => "link-down",
            Self::LinkErrors => "link-errors",
            Self::Deadlock => "deadlock",
            Self::Compute => "compute",
            Self::Overhead => "overhead",
            Self::Local => "local",
            Self::Earlier => "earlier",
        }
    }
}

/// Where something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// On a channel.
    Channel(u32),
    /// In a host.
    Host(u32),
    /// In a rank of the job.
    Rank(u32),
    /// It is not known where.
    Unknown,
}

/// How a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossKind {
    /// On a link that was down.
    LinkDown,
    /// On a link with errors.
    Errors,
    /// In front of a full buffer.
    FullBuffer,
    /// A switch removed its payload.
    Trimmed,
}

impl LossKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinkDown => "link-down",
            Self::Errors => "errors",
            Self::FullBuffer => "full-buffer",
            Self::Trimmed => "trimmed",
        }
    }
}

/// What caused a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal {
    /// When the packet was marked, or joined the queue in which it waited longest.
    pub time: Picos,
    /// The channel of the queue.
    pub channel: u32,
    /// Whether the packet was marked.
    pub is_mark: bool,
}

/// A list of channels; see [`Chains`].
pub(crate) type Chain = u32;

/// A part of a time. It has one label, so the pieces of a message add up exactly to its duration.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// When it starts.
    pub start: Picos,
    /// When it ends.
    pub end: Picos,
    /// What happens.
    pub label: Label,
    /// Where it happens.
    pub place: Place,
    /// The flow that uses the place; `None` if that has no meaning.
    pub owner: Option<FlowAddress>,
    /// The channels from the waiting packet to the place, an identifier for [`Chains::channels`].
    pub chain: Chain,
    /// What caused a reaction.
    pub signal: Option<Signal>,
    /// How a packet was lost, if that is known.
    pub loss: Option<LossKind>,
}

impl Piece {
    pub(crate) fn new((start, end): (Picos, Picos), label: Label, place: Place) -> Self {
        Self { start, end, label, place, owner: None, chain: 0, signal: None, loss: None }
    }

    /// The duration.
    #[must_use]
    pub fn length(&self) -> Picos {
        self.end - self.start
    }
}

/// Lists of channels, each of which has one identifier. That of the empty list is 0.
#[derive(Debug)]
pub struct Chains {
    /// By identifier: the list without its last channel, this channel, and the length.
    links: Vec<(Chain, u32, usize)>,
    known: FxHashMap<(Chain, u32), Chain>,
}

impl Default for Chains {
    fn default() -> Self {
        Self { links: vec![(0, 0, 0)], known: FxHashMap::default() }
    }
}

impl Chains {
    /// The list that a channel extends.
    pub(crate) fn extended(&mut self, chain: Chain, channel: u32) -> Chain {
        let Self { links, known } = self;
        *known.entry((chain, channel)).or_insert_with(|| {
            links.push((chain, channel, links[chain as usize].2 + 1));
            links.len() as Chain - 1
        })
    }

    pub(crate) fn length(&self, chain: Chain) -> usize {
        self.links[chain as usize].2
    }

    /// The list that begins with `after` instead of `before`. A list that does not begin with `before` becomes `after`.
    pub(crate) fn moved(&mut self, chain: Chain, before: Chain, after: Chain) -> Chain {
        if chain == before || self.length(chain) <= self.length(before) {
            return after;
        }
        let (shorter, channel, _) = self.links[chain as usize];
        let moved = self.moved(shorter, before, after);
        self.extended(moved, channel)
    }

    /// The channels of a list, in order.
    #[must_use]
    pub fn channels(&self, mut chain: Chain) -> Vec<u32> {
        let mut found = Vec::with_capacity(self.length(chain));
        while chain != 0 {
            let (before, channel, _) = self.links[chain as usize];
            found.push(channel);
            chain = before;
        }
        found.reverse();
        found
    }
}

/// What caused a part of a delay.
#[derive(Debug, Clone)]
pub struct Cause {
    /// What happens.
    pub label: Label,
    /// Where it happens.
    pub place: Place,
    /// For how long.
    pub length: Picos,
    /// The flows that used the place meanwhile, and for how long, the longest first.
    pub owners: Vec<(FlowAddress, Picos)>,
    /// The channels from the waiting packet to the place; those of the longest wait.
    pub chain: Chain,
    /// What caused a reaction; that of the longest wait.
    pub signal: Option<Signal>,
    /// How packets were lost; that of the longest wait.
    pub loss: Option<LossKind>,
}

/// The causes of the duration of a message, a job or an operation.
#[derive(Debug)]
pub struct Explanation {
    /// When it started.
    pub start: Picos,
    /// When it ended.
    pub end: Picos,
    /// The ideal duration.
    pub ideal: Picos,
    /// What happened when, without gaps.
    pub pieces: Vec<Piece>,
    /// By share, the largest first. They and the overlap of transmissions add up to the delay.
    pub causes: Vec<Cause>,
    /// The chains of pieces and causes.
    pub chains: Chains,
    /// For a job or an operation: what each rank did that posts a message in this time, in order of ranks.
    pub ranks: Vec<RankTime>,
}

/// The causes of pieces by label and place, the largest first.
pub(crate) fn summed(pieces: &[Piece], chains: &Chains, record: &Record) -> Vec<Cause> {
    #[derive(Default)]
    struct Sums {
        length: Picos,
        owners: FxHashMap<FlowAddress, Picos>,
        chains: FxHashMap<Chain, Picos>,
        signals: FxHashMap<Signal, Picos>,
        losses: FxHashMap<LossKind, Picos>,
    }
    let mut groups: FxHashMap<(Label, Place), Sums> = FxHashMap::default();
    for piece in pieces.iter().filter(|piece| piece.label != Label::Necessary) {
        let length = piece.length();
        let sums = groups.entry((piece.label, piece.place)).or_default();
        sums.length += length;
        *sums.chains.entry(piece.chain).or_default() += length;
        if let Some(owner) = piece.owner {
            *sums.owners.entry(owner).or_default() += length;
        }
        if let Some(loss) = piece.loss {
            *sums.losses.entry(loss).or_default() += length;
        }
        if let Some(signal) = piece.signal {
            *sums.signals.entry(signal).or_default() += length;
        }
    }
    let name = |&channel: &u32| &record.channels()[channel as usize].name;
    let names = |&chain: &Chain| chains.channels(chain).iter().map(name).collect::<Vec<_>>();
    let cause = |((label, place), sums): ((Label, Place), Sums)| {
        let mut owners: Vec<_> = sums.owners.into_iter().collect();
        owners.sort_unstable_by_key(|&(flow, length)| (Reverse(length), flow));
        let chain = sums.chains.iter().min_by_key(|&(chain, &length)| (Reverse(length), names(chain)));
        let key = |signal: &Signal| (signal.time, name(&signal.channel));
        let signal = sums.signals.iter().min_by_key(|&(signal, &length)| (Reverse(length), key(signal)));
        let chain = chain.map_or(0, |(&chain, _)| chain);
        let signal = signal.map(|(&signal, _)| signal);
        let loss = sums.losses.iter().min_by_key(|&(&kind, &length)| (Reverse(length), kind));
        let loss = loss.map(|(&kind, _)| kind);
        Cause { label, place, length: sums.length, owners, chain, signal, loss }
    };
    let mut causes: Vec<Cause> = groups.into_iter().map(cause).collect();
    causes
        .sort_by_cached_key(|cause| (Reverse(cause.length), cause.label.name(), record.name_of(cause.place)));
    causes
}
