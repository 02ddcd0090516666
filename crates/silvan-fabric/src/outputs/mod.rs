//! The binned scheduler: runs the outputs of VOQ switches one by one, which is the fastest way to run the most common
//! networks.
//!
//! No output of a VOQ switch reads or changes the state of another one (see [`crate::voq`]). So the unit here is an
//! output, not a switch, and all outputs of a partition are stored in one array.
//!
//! ```text
//!            bin of time             one output
//!  arrivals  [ o | o | o | o ] -->  heads of its queues, requests, credit, turn --> arrival in a later bin
//!  planned   [ output | ... ]  -->  decides                                     --> credit for its feeder
//! ```
//!
//! An output affects another one no sooner than after the *lookahead*: with a packet, after the link's delay and the
//! switch's latency; with a credit, after the packet's transmission and the delay. Time is therefore divided into
//! [bins](silvan_engine::Bins) no wider than that. When a bin is processed, everything that arrives in it is known. The
//! outputs run one after the other in any order, each in its own time: its arrivals in the order of time and input, and
//! its decisions between them. The results equal those of the event-ordered scheduler, bit for bit.
//!
//! [`Plan::fits`] determines which networks can run this way.

mod build;
mod credit;
mod exchange;
mod observe;
mod partition;
mod prefetch;
mod reports;
mod routes;
mod run;

#[cfg(debug_assertions)]
use std::ops::Range;
use std::sync::Arc;

use silvan_engine::{Bins, EventQueue, Time};

use crate::congestion::marking::SwitchMarking;
use crate::limiter::Limiter;
use crate::link::{ChannelId, LinkParameters, Links};
use crate::message::{HeadArrival as Arrival, Mailbox, Notices};
use crate::meters::Meters;
use crate::packet::{PacketId, Pool};
use crate::switch::Ports;
use crate::voq::{ALL_EVENTS, DEPARTURES, MOST_LANES, UNMARKED, VoqOutputs};
pub(crate) use build::Plan;
pub(crate) use partition::Partitioning;
use routes::Routes;
use run::Wiring;

/// The state around the outputs that they act on.
pub(crate) struct Around<'a> {
    pub packets: &'a mut Pool,
    pub queue: &'a mut EventQueue,
    /// The links that hosts send on.
    pub links: &'a mut Links,
    pub meters: &'a mut Meters,
    /// Notifications on their way to hosts.
    pub notices: &'a mut Notices,
    /// Messages for other partitions, by their numbers.
    pub outbox: &'a mut [Mailbox],
    /// Hosts have handled all events before this time.
    pub hosts_at: Time,
}

/// The packets that arrive at an output in a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Company {
    /// One packet.
    Alone,
    /// Packets that all arrive at one time, in an order that does not matter.
    Together,
    /// Packets whose order matters.
    Several,
}

/// The data that the binned scheduler stores with an output.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Binned {
    /// When it may send next, as far as is known; `Time::NEVER` if it has no packets, or none that has credit.
    ready_at: Time,
    /// Bytes sent so far, on the wire.
    sent_bytes: u64,
    /// At the far end: the first output of the switch, or the host's place in its partition.
    peer: u32,
    /// The start of the far switch's forwarding table; [`TO_HOST`] if a host is at the far end, [`REMOTE`] if `peer` is
    /// an index into [`Bank::remotes`].
    row: u32,
    /// The lower bits of the time at which the first packet of the latest bin with arrivals arrived.
    stamp: u32,
    /// The bin in whose list it is, as an index into the ring.
    planned: u16,
    /// Index into [`Wiring::links`].
    link: u8,
    /// The input at the far end (6 bits), and the [`Company`] in the bin of `stamp`.
    far: u8,
}

impl Binned {
    /// The input at the far end.
    #[inline(always)]
    fn input(&self) -> u8 {
        self.far & 63
    }

    #[inline(always)]
    fn company(&self) -> Company {
        match self.far >> 6 {
            0 => Company::Alone,
            1 => Company::Together,
            _ => Company::Several,
        }
    }

    #[inline(always)]
    fn set_company(&mut self, company: Company) {
        self.far = self.far & 63 | (company as u8) << 6;
    }
}

/// Marks that a host, not a forwarding table, is at the far end.
const TO_HOST: u32 = u32::MAX;
/// The far switch is in another partition.
const REMOTE: u32 = u32::MAX - 1;
/// Marks an output that is not planned.
const UNPLANNED: u16 = u16::MAX;
/// The maximum number of inputs of a switch, so that an input fits in 6 bits.
const MAX_INPUTS: usize = 64;

/// The parameters of a link, and the data that decides whether credit is booked early.
#[derive(Debug, Clone, Copy)]
struct Link {
    parameters: LinkParameters,
    /// The shortest time in which the link can spend one byte of space, in picoseconds.
    least_ps: u64,
    /// In this time the link can spend the space of one full packet, and no more.
    full_ps: u64,
}

/// The sender of the packets that arrive at an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Output(u32),
    Host(ChannelId),
    /// One of [`Bank::senders`].
    Remote(u32),
}

/// The switch input at which the packets of a channel arrive.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The first output of the switch.
    first: u32,
    row: u32,
    input: u8,
}

/// An output of another partition, with the delay of its link.
#[derive(Debug, Clone, Copy)]
struct Sender {
    partition: u16,
    output: u32,
    delay: Time,
}

/// A switch of another partition.
#[derive(Debug, Clone, Copy)]
struct Remote {
    partition: u16,
    entry: Entry,
}

/// All outputs of a partition, with up to `LANES` virtual lanes, with or without a marking rule.
#[derive(Debug)]
pub(crate) struct Bank<const LANES: usize, const MARKS: u8> {
    arrivals: Bins<Arrival>,
    planned: Bins<u32>,
    /// Bits of a bin's width in picoseconds.
    shift: u32,
    /// The current bin.
    bin: u64,
    voq: VoqOutputs<LANES, MARKS, Binned>,
    marking: SwitchMarking,
    wiring: Wiring,
    /// Whether there are more outputs than fit in the cache.
    are_many: bool,
    feeders: Box<[Feeder]>,
    routes: Arc<Routes>,
    /// Per channel: the output that sends on it; [`NONE`] for a host's.
    output_of: Box<[u32]>,
    /// Switches of other partitions that outputs send to.
    remotes: Box<[Remote]>,
    /// The pace at which hosts drain their input buffers, by their places.
    sinks: Box<[Limiter]>,
    /// Whether hosts acknowledge packets that are not marked.
    acknowledges: bool,
    /// Outputs of other partitions that send here.
    senders: Box<[Sender]>,
    /// Per channel that a host sends on.
    entries: Box<[Option<Entry>]>,
    hops: u64,
    events: u64,
    /// A channel whose packet arrived without an entry: a defect, reported at the next sample.
    broken: Option<ChannelId>,
    /// Scratch lists that are empty between calls.
    at_hand: Vec<Arrival>,
    to_decide: Vec<u32>,
    several: Vec<InOrder>,
}

/// An arrival that is handled in the order of output, time and input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InOrder {
    output: u32,
    /// Picoseconds since the start of the bin.
    since: u32,
    input: u8,
    /// Index into the bin's arrivals.
    at: u32,
}

/// A switch whose outputs the binned scheduler runs.
#[derive(Debug)]
pub(crate) struct BinnedSwitch {
    pub ports: Ports,
    /// Its first output among those of its partition.
    pub first: u32,
}

impl BinnedSwitch {
    /// Its outputs.
    #[cfg(debug_assertions)]
    pub fn outputs(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.ports.count()
    }
}

/// No output.
const NONE: u32 = u32::MAX;

/// The outputs of a partition.
#[derive(Debug)]
pub(crate) enum Outputs {
    One(Box<Bank<1, UNMARKED>>),
    OneMarking(Box<Bank<1, DEPARTURES>>),
    /// A marking rule that samples arrivals.
    OneSampling(Box<Bank<1, ALL_EVENTS>>),
    Two(Box<Bank<2, UNMARKED>>),
    TwoMarking(Box<Bank<2, DEPARTURES>>),
    /// Any number of lanes, any marking rule.
    Many(Box<Bank<MOST_LANES, ALL_EVENTS>>),
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
        }
    };
}
use with_bank;

impl Outputs {
    /// The earliest bin with work.
    pub fn next_bin(&self) -> Option<u64> {
        with_bank!(self, bank => bank.next_bin())
    }

    /// Makes a bin the current one: hosts' actions from now on are in it.
    #[inline]
    pub fn begin(&mut self, bin: u64) {
        with_bank!(self, bank => bank.begin(bin));
    }

    /// The bin of a time.
    #[inline]
    pub fn bin_of(&self, time: Time) -> u64 {
        with_bank!(self, bank => time.0 >> bank.shift)
    }

    /// The end of the current bin.
    #[inline]
    pub fn end_of_bin(&self) -> Time {
        with_bank!(self, bank => bank.end())
    }

    /// Runs the current bin: arrivals before one time, decisions before another.
    #[inline]
    pub fn run(&mut self, around: &mut Around, arrive_before: Time, decide_before: Time) {
        with_bank!(self, bank => bank.run(around, arrive_before, decide_before));
    }

    /// The next sample is taken at this time.
    pub fn expect_sample(&mut self, time: Time) {
        with_bank!(self, bank => bank.wiring.credits.next_sample = time);
    }

    /// A sample is taken now.
    pub fn sample(&mut self, now: Time) {
        with_bank!(self, bank => bank.wiring.credits.sample(now));
    }

    /// A host has begun to send a packet, whose head is ready for arbitration at a time.
    #[inline]
    pub fn enter(&mut self, channel: ChannelId, id: PacketId, packets: &Pool, when: Time) {
        with_bank!(self, bank => bank.enter(channel, id, packets, when));
    }

    /// The output that sends on a channel; `None` for a host's channel.
    #[inline]
    pub fn sender(&self, channel: ChannelId) -> Option<usize> {
        with_bank!(self, bank => bank.sender(channel))
    }

    /// Takes the counts since the last call: packets sent, and events.
    pub fn take_counts(&mut self) -> (u64, u64) {
        with_bank!(self, bank => (std::mem::take(&mut bank.hops), std::mem::take(&mut bank.events)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::voq::Output;

    #[test]
    fn an_output_takes_two_cache_lines() {
        assert_eq!(size_of::<Output<1, Binned>>(), 128);
        assert_eq!(size_of::<Output<2, Binned>>(), 192);
    }

    #[test]
    fn the_far_input_and_the_company_share_a_byte() {
        let mut own = build::fresh();
        own.far = 63;
        for company in [Company::Several, Company::Together, Company::Alone] {
            own.set_company(company);
            assert_eq!((own.input(), own.company()), (63, company));
        }
    }
}
