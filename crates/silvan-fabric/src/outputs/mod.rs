//! The outputs of VOQ switches, each by itself: the fast way to run the most usual networks.
//!
//! At a VOQ switch (Paper I, 3.1; see [`crate::switch`]) no output reads or changes what another one does:
//! only the packets that arrive for it and the credits for its own link matter to it. So the unit here is an
//! output, not a switch, and all outputs of a network lie in one array.
//!
//! ```text
//!            bin of time             one output
//!  arrivals  [ o | o | o | o ] -->  heads of its queues, requests, credit, turn --> arrival in a later bin
//!  planned   [ output | ... ]  -->  decides                                     --> credit for who sent it
//! ```
//!
//! Whatever an output does reaches another one no sooner than after the *lookahead*: a link's delay and the
//! switch's latency for a packet, its transmission and the delay for a credit. Time is therefore cut into
//! [bins](silvan_engine::Bins) no wider than that. When a bin's turn comes, everything that arrives in it is
//! known, and outputs are run one after the other in any order, each in its own time: its arrivals in order
//! of time and input, and between them what it decides. The results are those of
//! [`crate::switch::VoqSwitch`], which handles all events of the network in their order, to the last bit.
//!
//! [`Plan::fits`] says which networks can be run this way.

mod build;
mod credit;
mod exchange;
mod foresee;
mod look;
mod partition;
mod port;
mod routes;
mod run;

use std::sync::Arc;

use silvan_engine::{Bins, EventQueue, Time};

use crate::congestion::marking::{FecnRule, FecnState};
use crate::limiter::Limiter;
use crate::link::{ChannelId, LinkKind, Links, Returns, Spills};
use crate::message::{HeadArrival as Arrival, Mailbox};
use crate::meters::Meters;
use crate::packet::{Fifo, PacketId, Pool};
pub(crate) use build::Plan;
pub(crate) use partition::Partitioning;
use port::Port;
use routes::Routes;

/// What outputs act on besides each other.
pub(crate) struct Around<'a> {
    pub packets: &'a mut Pool,
    pub queue: &'a mut EventQueue,
    /// The links that hosts send on.
    pub links: &'a mut Links,
    pub meters: &'a mut Meters,
    /// Messages for other partitions, by their numbers.
    pub outbox: &'a mut [Mailbox],
    /// Hosts have done all that was to be done before this time.
    pub hosts_at: Time,
}

/// What many links have in common, and what tells when credit is booked early.
#[derive(Debug, Clone, Copy)]
struct Kind {
    link: LinkKind,
    /// No byte of space is spent faster than one in so many picoseconds.
    least_ps: u64,
    /// In this time the space of one full packet can be spent, and no more.
    full_ps: u64,
}

/// Credit of a lane, booked before it is back.
#[derive(Debug, Clone, Copy)]
struct Early {
    back: Time,
    lane: u32,
    space: u32,
}

/// Who sends to an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Output(u32),
    Host(ChannelId),
    /// One of [`Bank::senders`].
    Remote(u32),
}

/// Where the packets of a channel come in.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The first port of the switch.
    first: u32,
    row: u32,
    input: u8,
}

/// An output of another partition, with the delay of its link.
#[derive(Debug, Clone, Copy)]
struct Sender {
    part: u16,
    output: u32,
    delay: Time,
}

/// A switch of another partition.
#[derive(Debug, Clone, Copy)]
struct Remote {
    part: u16,
    entry: Entry,
}

/// All outputs of a network or of a partition, with so many virtual lanes, with or without a marking rule.
#[derive(Debug)]
pub(crate) struct Bank<const LANES: usize, const MARKS: bool> {
    arrivals: Bins<Arrival>,
    planned: Bins<u32>,
    /// Bits of a bin's width in picoseconds.
    shift: u32,
    /// The current bin.
    bin: u64,
    /// The time of the next sample: what happens later is not booked before it does.
    next_sample: Time,
    ports: Box<[Port<LANES>]>,
    /// Packets behind the heads: `[(port * LANES + vl) * width + input]`.
    queues: Box<[Fifo]>,
    /// Inputs of the largest switch.
    width: usize,
    /// Whether there are more outputs than the cache holds.
    are_many: bool,
    /// `[port * LANES + vl]`.
    returns: Box<[Returns]>,
    spills: Spills,
    /// Credit that was booked early and is back after the next look, and of it the sum per lane.
    early: Vec<Early>,
    early_sums: Box<[u32]>,
    /// The least credit that some packet has been waiting for since the last one was sent.
    wanted: Box<[u32]>,
    /// Receive buffer per virtual lane.
    capacities: Box<[u32]>,
    feeders: Box<[Feeder]>,
    routes: Arc<Routes>,
    kinds: Vec<Kind>,
    /// Per channel: the output that sends on it; [`NONE`] for a host's.
    output_of: Box<[u32]>,
    /// Switches of other partitions, as outputs know them.
    remotes: Box<[Remote]>,
    /// What hosts drain their input buffers at, by their places.
    sinks: Box<[Limiter]>,
    /// Whether hosts answer packets that are not marked.
    acknowledges: bool,
    /// Outputs of other partitions that send here.
    senders: Box<[Sender]>,
    /// Per channel that a host sends on.
    entries: Box<[Option<Entry>]>,
    rule: Option<Arc<FecnRule>>,
    /// No fill up to this concerns the rule, while it was never above.
    least: u32,
    full_space: u32,
    markers: Box<[FecnState]>,
    /// Data packets marked per output.
    marks: Box<[u64]>,
    hops: u64,
    events: u64,
    /// Lists that are empty between calls.
    at_hand: Vec<Arrival>,
    to_decide: Vec<u32>,
    several: Vec<(u32, u32, u8, u32)>,
    #[cfg(debug_assertions)]
    in_flight: Box<[u32]>,
}

/// No output.
const NONE: u32 = u32::MAX;

/// The outputs of a network whose switches are run output by output.
#[derive(Debug)]
pub(crate) enum Outputs {
    One(Box<Bank<1, false>>),
    OneMarking(Box<Bank<1, true>>),
    Two(Box<Bank<2, false>>),
    TwoMarking(Box<Bank<2, true>>),
}

/// Does the same with whatever bank it is.
macro_rules! with_bank {
    ($outputs:expr, $bank:ident => $what:expr) => {
        match $outputs {
            Outputs::One($bank) => $what,
            Outputs::OneMarking($bank) => $what,
            Outputs::Two($bank) => $what,
            Outputs::TwoMarking($bank) => $what,
        }
    };
}
use with_bank;

impl Outputs {
    /// The earliest bin in which something is to be done here.
    pub fn next_bin(&self) -> Option<u64> {
        with_bank!(self, bank => bank.next_bin())
    }

    /// Begins with a bin: what hosts do from now on happens in it.
    #[inline]
    pub fn begin(&mut self, bin: u64) {
        with_bank!(self, bank => bank.begin(bin));
    }

    /// The bin of a time.
    #[inline]
    pub fn bin_of(&self, time: Time) -> u64 {
        with_bank!(self, bank => time.0 >> bank.shift)
    }

    /// When the current bin is over.
    #[inline]
    pub fn end_of_bin(&self) -> Time {
        with_bank!(self, bank => bank.end())
    }

    /// Does what is to be done in the current bin: what arrives before one time, and what is decided before
    /// another.
    #[inline]
    pub fn run(&mut self, around: &mut Around, arrive_before: Time, decide_before: Time) {
        with_bank!(self, bank => bank.run(around, arrive_before, decide_before));
    }

    /// The next sample is taken at this time.
    pub fn expect_sample(&mut self, time: Time) {
        with_bank!(self, bank => bank.next_sample = time);
    }

    /// A sample is taken now.
    pub fn sample(&mut self, now: Time) {
        with_bank!(self, bank => bank.sample(now));
    }

    /// A host has begun to send a packet, whose head is ready for arbitration at a time.
    #[inline]
    pub fn enter(&mut self, channel: ChannelId, id: PacketId, packets: &Pool, when: Time) {
        with_bank!(self, bank => bank.enter(channel, id, packets, when));
    }

    /// The output that sends on a channel; none for a host's.
    #[inline]
    pub fn sender(&self, channel: ChannelId) -> Option<usize> {
        with_bank!(self, bank => bank.sender(channel))
    }

    /// What was counted since the last call: packets that were sent, and things that were done.
    pub fn take_counts(&mut self) -> (u64, u64) {
        with_bank!(self, bank => (std::mem::take(&mut bank.hops), std::mem::take(&mut bank.events)))
    }
}
