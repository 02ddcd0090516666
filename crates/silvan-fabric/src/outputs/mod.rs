//! The binned scheduler, which runs the outputs of VOQ and FIFO switches one by one. It is the fastest scheduler for the
//! most common networks.
//!
//! No output of these switches reads or changes the state of another one (see [`crate::voq`]). The scheduler therefore
//! handles outputs instead of switches, and stores all outputs of a partition in one array. Switches that send messages
//! are an exception while one may be due ([`ordered`]).
//!
//! ```text
//!            bin of time             one output
//!  arrivals  [ o | o | o | o ] -->  heads of its queues, requests, credit, turn --> arrival in a later bin
//!  planned   [ output | ... ]  -->  decides                                     --> credit for its feeder
//! ```
//!
//! An output cannot affect another one within the *lookahead*: a packet takes the link's delay and the switch's
//! latency, and a credit takes the packet's transmission time and the delay. Time is therefore divided into
//! [bins](silvan_engine::Bins) that are no wider than the lookahead. When a bin is processed, all arrivals in it are
//! known. The outputs run one after the other in any order. Each output handles its arrivals in the order of time and
//! input, and makes its decisions between them. The results are bit-identical to those of the event-ordered scheduler.
//!
//! [`Plan::fits`] determines which networks this scheduler supports.

mod build;
mod changes;
mod credit;
mod exchange;
mod observe;
mod ordered;
mod pauses;
mod prefetch;
mod reports;
mod run;
mod tails;

use std::ops::Range;
use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::{Bins, Time};

use crate::context::Context;
use crate::link::{ChannelId, LinkParameters};
use crate::message::HeadArrival as Arrival;
use crate::routes::{Hasher, Routes};
use crate::switch::Ports;
use crate::switch_marking::SwitchMarking;
use crate::trimming::Trimmer;
use crate::voq::{ALL_EVENTS, DEPARTURES, MOST_LANES, Output, UNMARKED, VoqOutputs};
pub(crate) use build::{OutputQueues, Plan};
use changes::ChangingLinks;
use ordered::Ordered;
use pauses::Pauses;
use run::OutputLinks;
use tails::TailLinks;

/// The state that outputs share with the rest of the partition.
pub(crate) struct Around<'a> {
    pub ctx: &'a mut Context,
    /// The switches of the partition.
    pub switches: &'a [BinnedSwitch],
    /// Hosts have handled all events before this time.
    pub hosts_at: Time,
}

/// The number of packets that arrive at an output in a bin. The bits of a smaller value are a subset of those of a
/// larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Company {
    /// One packet.
    Alone = 0,
    /// Several packets that all arrive at the same time, in an order that does not matter.
    Together = 1,
    /// Several packets whose order matters.
    Several = 3,
}

/// The data that the binned scheduler stores with an output.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(C)]
struct Binned {
    /// The earliest time at which the output may be able to send; `Time::NEVER` if it has no packets, or no credit for
    /// any of them.
    ready_at: Time,
    /// Bytes on the wire sent so far.
    sent_bytes: u64,
    /// The far end of the link: the first output of the switch, or the host's index in its partition. Above its 30 bits, the
    /// [`Company`] in the bin of `stamp`.
    far_end: u32,
    /// The start of the far switch's forwarding table. [`TO_HOST`] if a host is at the far end, [`REMOTE`] if `far_end` is
    /// an index into [`Bank::remotes`].
    row: u32,
    /// The lower bits of the arrival time of the first packet in the latest bin with arrivals.
    stamp: u32,
    /// The slot of the next decision in [`Bank::planned`].
    planned: u16,
    /// Index into [`OutputLinks::links`].
    link: u8,
    /// The input at the far end.
    input: u8,
}

const _: () = assert!(size_of::<Output<1, Binned>>() == 128 && size_of::<Output<2, Binned>>() == 192);

impl Binned {
    const PEER: u32 = (1 << 30) - 1;

    /// The first output of the switch at the far end, or the host's index in its partition.
    #[inline(always)]
    fn peer(&self) -> u32 {
        self.far_end & Self::PEER
    }

    #[inline(always)]
    fn company(&self) -> Company {
        match self.far_end >> 30 {
            0 => Company::Alone,
            1 => Company::Together,
            _ => Company::Several,
        }
    }

    fn set_peer(&mut self, peer: u32) {
        debug_assert!(peer <= Self::PEER, "a partition has fewer outputs and hosts");
        self.far_end = self.far_end & !Self::PEER | peer;
    }

    #[inline(always)]
    fn set_company(&mut self, company: Company) {
        self.far_end = self.peer() | (company as u32) << 30;
    }

    /// Sets the larger of the previous and the given company.
    #[inline(always)]
    fn raise_company(&mut self, company: Company) {
        self.far_end |= (company as u32) << 30;
    }
}

/// Means that the far end is a host, which has no forwarding table.
const TO_HOST: u32 = u32::MAX;
/// The far switch is in another partition.
const REMOTE: u32 = u32::MAX - 1;
/// Maximum number of inputs of a switch, because an input must fit in 8 bits.
const MAX_INPUTS: usize = 256;

/// The parameters of a link, and the data that determine whether credit may be booked early.
#[derive(Debug, Clone, Copy)]
struct OutputLink {
    parameters: LinkParameters,
    /// The minimum time in which the link consumes one byte of buffer space, in picoseconds.
    least_ps: u64,
    /// The time in which the link consumes the space of one full packet and no more, in picoseconds.
    full_ps: u64,
}

impl OutputLink {
    /// Whether `space` bytes suffice for all that the link can consume within a number of picoseconds, and for `packets`
    /// full packets in addition.
    #[inline(always)]
    fn leaves(&self, space: u32, within: u64, packets: u64) -> bool {
        u64::from(space) * self.least_ps >= within + packets * self.full_ps
    }
}

/// The sender of the packets that arrive at an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Output(u32),
    Host(ChannelId),
    /// An index into [`Bank::senders`].
    Remote(u32),
}

/// Where the outputs of a partition are. Inputs and outputs have the same indexes.
#[derive(Debug)]
struct OutputPlaces {
    /// The channel on which each output sends, and the one on which its input receives; [`ChannelId::MAX`] if it is not wired.
    channels: Box<[(ChannelId, ChannelId)]>,
    /// The first output of each output's switch.
    firsts: Box<[u32]>,
    /// For each output, the number of ports of its switch.
    ports: Box<[u16]>,
}

impl OutputPlaces {
    #[inline(always)]
    fn first(&self, output: u32) -> u32 {
        self.firsts[output as usize]
    }

    /// The channel on which an input receives.
    #[inline(always)]
    fn fed_by(&self, input: u32) -> ChannelId {
        self.channels[input as usize].1
    }

    /// The outputs of a switch, given the first one.
    fn range(&self, first: u32) -> Range<usize> {
        first as usize..first as usize + usize::from(self.ports[first as usize])
    }
}

/// The switch input at which the packets of a channel arrive.
#[derive(Debug, Clone, Copy)]
struct ChannelInput {
    /// The first output of the switch.
    first: u32,
    row: u32,
    input: u8,
}

/// An output of another partition, and the delay of its link.
#[derive(Debug, Clone, Copy)]
struct RemoteOutput {
    partition: u16,
    output: u32,
    /// The channel on which it sends.
    channel: ChannelId,
    delay: Time,
}

/// A switch of another partition.
#[derive(Debug, Clone, Copy)]
struct Remote {
    partition: u16,
    entry: ChannelInput,
    /// The number of the switch among all switches.
    switch: u32,
}

/// Hash functions of the switches to which a partition sends packets.
#[derive(Debug)]
struct Hashing {
    /// By output, for the first outputs of switches.
    own: Box<[Hasher]>,
    /// In the order of [`Bank::remotes`].
    remote: Box<[Hasher]>,
}

/// All outputs of a partition, with up to `LANES` virtual lanes, with or without a marking rule, and with one queue
/// per input or one for all inputs.
#[derive(Debug, Saved)]
pub(crate) struct Bank<const LANES: usize, const MARKS: u8, const FIFO: bool> {
    arrivals: Bins<Arrival>,
    planned: Bins<u32>,
    /// Width of a bin in picoseconds, as a power of two.
    #[saved(constant)]
    shift: u32,
    /// The current bin, and its start.
    bin: u64,
    start: Time,
    voq: VoqOutputs<LANES, MARKS, FIFO, Binned>,
    marking: SwitchMarking,
    /// Present if switches trim packets.
    trimmer: Option<Box<Trimmer>>,
    wiring: OutputLinks,
    /// Whether there are more outputs than fit in the cache.
    #[saved(constant)]
    are_many: bool,
    /// Whether to prefetch packets: there are many outputs, or switches hash packets.
    #[saved(constant)]
    prefetches: bool,
    #[saved(constant)]
    feeders: Box<[Feeder]>,
    /// Present if packets may leave on a faster link than the one on which they arrive.
    #[saved(constant)]
    tails: Option<Box<TailLinks>>,
    /// Present if switches send pause frames.
    pauses: Option<Box<Pauses>>,
    /// Present if switches send pause frames or notify sources.
    ordered: Option<Box<Ordered>>,
    /// Present if links change during the run.
    #[saved(constant)]
    changes: Option<Box<ChangingLinks>>,
    /// Whether links change, or departures are recorded.
    #[saved(constant)]
    is_watched: bool,
    routes: Arc<Routes>,
    /// Present if switches hash packets onto ports.
    #[saved(constant)]
    hashing: Option<Box<Hashing>>,
    /// For each channel, the output that sends on it; [`NONE`] if a host sends on it.
    #[saved(constant)]
    output_of: Box<[u32]>,
    /// The switches of other partitions to which outputs send.
    #[saved(constant)]
    remotes: Box<[Remote]>,
    /// Whether hosts act on packets that are neither marked nor the last of a message: they acknowledge them, or restore
    /// their order.
    #[saved(constant)]
    acts_on_all: bool,
    /// Whether packets of a flow may overtake each other.
    #[saved(constant)]
    may_reorder: bool,
    /// The outputs of other partitions that send to this one.
    #[saved(constant)]
    senders: Box<[RemoteOutput]>,
    /// Indexed by the channel on which a host sends.
    #[saved(constant)]
    entries: Box<[Option<ChannelInput>]>,
    hops: u64,
    events: u64,
    /// Scratch lists, empty between calls.
    #[saved(scratch)]
    at_hand: Vec<Arrival>,
    #[saved(scratch)]
    to_decide: Vec<u32>,
    #[saved(scratch)]
    several: Vec<InOrder>,
}

/// An arrival, sorted by output, time and input. One number is compared faster than fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InOrder(u128);

impl InOrder {
    /// `since` has the picoseconds since the start of the bin, and `at` is the index into the bin's arrivals.
    #[inline(always)]
    fn new(output: u32, since: u32, input: u16, at: usize) -> Self {
        Self(u128::from(output) << 96 | u128::from(since) << 64 | u128::from(input) << 32 | at as u128)
    }

    /// Whether both arrive at the same output at the same time.
    #[inline(always)]
    fn is_same_instant(self, other: Self) -> bool {
        (self.0 ^ other.0) >> 64 == 0
    }

    /// Index into the bin's arrivals.
    #[inline(always)]
    fn at(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A switch whose outputs the binned scheduler runs.
#[derive(Debug, Saved)]
pub(crate) struct BinnedSwitch {
    pub ports: Ports,
    /// Index of the switch's first output in its partition.
    #[saved(constant)]
    pub first: u32,
}

impl BinnedSwitch {
    /// The indexes of the outputs in the partition.
    pub fn outputs(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.ports.count()
    }
}

/// No output.
const NONE: u32 = u32::MAX;

/// The outputs of a partition.
#[derive(Debug, Saved)]
pub(crate) enum Outputs {
    One(Box<Bank<1, UNMARKED, false>>),
    OneMarking(Box<Bank<1, DEPARTURES, false>>),
    /// With a marking rule that samples arrivals, or with pause frames.
    OneSampling(Box<Bank<1, ALL_EVENTS, false>>),
    Two(Box<Bank<2, UNMARKED, false>>),
    TwoMarking(Box<Bank<2, DEPARTURES, false>>),
    /// With any number of lanes and any marking rule.
    Many(Box<Bank<MOST_LANES, ALL_EVENTS, false>>),
    OneFifo(Box<Bank<1, ALL_EVENTS, true>>),
    TwoFifos(Box<Bank<2, ALL_EVENTS, true>>),
    /// With any number of lanes.
    Fifos(Box<Bank<MOST_LANES, ALL_EVENTS, true>>),
}

/// Evaluates an expression for any variant.
macro_rules! with_bank {
    ($outputs:expr, $bank:ident => $what:expr) => {
        match $outputs {
            Outputs::One($bank) => $what,
            Outputs::OneMarking($bank) => $what,
            Outputs::OneSampling($bank) => $what,
            Outputs::Two($bank) => $what,
            Outputs::TwoMarking($bank) => $what,
            Outputs::Many($bank) => $what,
            Outputs::OneFifo($bank) => $what,
            Outputs::TwoFifos($bank) => $what,
            Outputs::Fifos($bank) => $what,
        }
    };
}
use with_bank;

impl Outputs {
    /// The earliest bin with work.
    pub fn next_bin(&self) -> Option<u64> {
        with_bank!(self, bank => bank.next_bin())
    }

    /// Starts a bin, to which subsequent actions of hosts belong.
    #[inline]
    pub fn begin(&mut self, bin: u64) {
        with_bank!(self, bank => bank.begin(bin));
    }

    /// The bin that contains a time.
    #[inline]
    pub fn bin_of(&self, time: Time) -> u64 {
        with_bank!(self, bank => time.0 >> bank.shift)
    }

    /// The channel on which each output sends.
    pub fn channels(&self) -> Box<[ChannelId]> {
        with_bank!(self, bank => {
            let mut channels = vec![ChannelId::MAX; bank.voq.records.len()];
            for (channel, &output) in (0..).zip(&bank.output_of).filter(|(_, output)| **output != NONE) {
                channels[output as usize] = channel;
            }
            channels.into()
        })
    }

    /// The first time of a bin.
    pub fn start_of_bin(&self, bin: u64) -> Time {
        with_bank!(self, bank => Time(bin << bank.shift))
    }

    /// The end of the current bin.
    #[inline]
    pub fn end_of_bin(&self) -> Time {
        with_bank!(self, bank => bank.end())
    }

    /// Runs the current bin: handles arrivals before `arrive_before`, and makes decisions before `decide_before`.
    #[inline]
    pub fn run(&mut self, around: &mut Around, arrive_before: Time, decide_before: Time) {
        with_bank!(self, bank => bank.run(around, arrive_before, decide_before));
    }

    /// Empty bins that are as wide and as many as those of decisions.
    pub fn bins_of_decisions(&self) -> Bins<u32> {
        with_bank!(self, bank => Bins::new(bank.shift, bank.planned.count()))
    }

    /// Announces the time of the next sample.
    pub fn expect_sample(&mut self, time: Time) {
        with_bank!(self, bank => bank.wiring.credits.expect_sample(time));
    }

    /// Updates the state at a sample.
    pub fn sample(&mut self, now: Time) {
        with_bank!(self, bank => bank.wiring.credits.sample(now));
    }

    /// Accepts the packets that hosts have begun to send, and the credit that they return. It leaves the hosts later than
    /// all decisions made so far.
    #[inline]
    pub fn enter(&mut self, ctx: &mut Context) {
        with_bank!(self, bank => {
            let mut entering = std::mem::take(&mut ctx.entering);
            entering.drain(..).for_each(|entering| bank.enter(ctx, entering));
            ctx.entering = entering;
            ctx.freed.drain(..).for_each(|credit| bank.free(credit));
        });
    }

    /// The output that sends on a channel; `None` for a host's channel.
    #[inline]
    pub fn sender(&self, channel: ChannelId) -> Option<usize> {
        with_bank!(self, bank => bank.sender(channel))
    }

    /// Returns and resets the counts since the last call: packets sent, and events.
    pub fn take_counts(&mut self) -> (u64, u64) {
        with_bank!(self, bank => (std::mem::take(&mut bank.hops), std::mem::take(&mut bank.events)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_of_one_instant_are_at_the_same_output_and_time() {
        let one = InOrder::new(2, 7, 3, 0);
        let others = [(2, 7, 9, 5), (2, 8, 3, 0), (1, 7, 3, 0)];
        let found = others
            .map(|(output, since, input, at)| one.is_same_instant(InOrder::new(output, since, input, at)));
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn arrivals_are_ordered_by_output_time_and_input() {
        let mut list = [
            InOrder::new(2, 0, 0, 0),
            InOrder::new(1, 9, 255, 1),
            InOrder::new(1, 9, 3, 2),
            InOrder::new(1, 8, 200, u32::MAX as usize),
        ];
        list.sort_unstable();
        assert_eq!(list.map(InOrder::at), [u32::MAX as usize, 2, 1, 0]);
    }

    #[test]
    fn the_far_end_and_the_company_share_a_word() {
        let mut own = build::fresh();
        own.set_peer(Binned::PEER);
        let all = [Company::Several, Company::Together, Company::Alone];
        for company in all {
            own.set_company(company);
            assert_eq!((own.peer(), own.company()), (Binned::PEER, company));
            for other in all {
                own.set_company(company);
                own.raise_company(other);
                assert_eq!((own.peer(), own.company()), (Binned::PEER, company.max(other)));
            }
        }
        own.set_peer(5);
        assert_eq!(own.peer(), 5);
    }
}
