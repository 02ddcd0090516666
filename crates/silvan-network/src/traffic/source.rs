//! A source: one flow, or the traffic of one host in a pattern, as a sequence of messages.
//!
//! Messages are generated on demand, at most [`Source::MAX_BACKLOG`] ahead, so a long backlog needs little
//! memory.

use std::collections::VecDeque;
use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use super::forest::Generator;
use super::{Cdf, ListedTransfer};

/// A message that is being sent.
#[derive(Debug, Clone, Copy, Saved)]
pub struct Message {
    /// Number of the receiving host.
    pub destination: u32,
    /// The time at which the message was due.
    pub created: Time,
    /// Payload in bytes that has not been divided into packets yet.
    pub left: u64,
    /// Whether the message was generated for a hotspot; see [`Generator`].
    pub hot: bool,
}

/// How the destination of each message is chosen.
#[derive(Debug, Clone, Saved)]
pub enum Chooser {
    /// Always the same host.
    Fixed(u32),
    /// Any host (except the sender, unless `include_self`), with equal probability.
    Uniform {
        /// Number of the sending host.
        me: u32,
        /// Number of hosts of the network.
        hosts: u32,
        /// Whether the sender is one of the destinations.
        include_self: bool,
    },
    /// All other hosts, one after another.
    InTurn {
        /// Number of the sending host.
        me: u32,
        /// Number of hosts of the network.
        hosts: u32,
        /// Distance from the sender to the next destination.
        next: u32,
    },
    /// A hotspot or any other host, each with a share of the rate. Such a source has a separate clock in
    /// the generator, and its [`Clock`] is `Saturating`.
    Forest(Box<Generator>),
    /// The destinations of [`Varied::listed`].
    Listed,
}

/// The rule for the times at which messages are generated.
#[derive(Debug, Clone, Saved)]
pub enum Clock {
    /// Whenever the host can send one.
    Saturating,
    /// Messages are spaced evenly, by the time for `bytes` bytes. The carry prevents rounding errors from
    /// accumulating.
    Periodic {
        /// Time per byte.
        pace: BytePace,
        /// Bytes from one message to the next.
        bytes: u32,
        /// Remainder of the division, in the unit of [`BytePace::time_carrying`].
        carry: u64,
    },
    /// Spacing is exponentially distributed.
    Poisson {
        /// Mean in picoseconds.
        mean_ps: u64,
    },
    /// A message exists whenever a rank of a job posts one; the source generates none.
    Fed,
    /// At the times of [`Varied::listed`].
    Listed,
    /// At the times of [`Varied::due`], some time after an earlier message has ended.
    Closed {
        /// Time from the end of a message to the next one.
        think: Time,
    },
    /// The source sends one message at a time, which another source generated.
    Own {
        /// Index of that source among the host's sources.
        parent: u16,
        /// Number of messages that this source had before, modulo 2^32.
        connection: u32,
    },
}

/// How the sizes of messages are drawn.
#[derive(Debug, Clone, Saved)]
pub enum SizeLaw {
    /// Uniformly, up to this difference from the smallest message.
    Spread(u32),
    /// By a cumulative distribution.
    Cdf(Arc<Cdf>),
}

/// Busy and silent periods; see [`super::Bursts`].
#[derive(Debug, Clone, Saved)]
pub struct Periods {
    /// Mean length of busy periods.
    pub on: Time,
    /// Mean length of silent periods.
    pub off: Time,
    /// Length of the rest of the current busy period.
    pub left: Time,
    /// Random numbers for the lengths of periods.
    pub random: Stream,
}

impl Periods {
    /// Periods that begin with a busy one.
    pub fn new(on: Time, off: Time, mut random: Stream) -> Self {
        let left = Time(random.exponential(on.0));
        Self { on, off, left, random }
    }

    /// Advances by a time within busy periods. Returns this time plus the silent periods in between.
    pub fn pass(&mut self, busy: Time) -> Time {
        let (mut rest, mut total) = (busy, busy);
        while rest > self.left {
            rest -= self.left;
            total += Time(self.random.exponential(self.off.0));
            self.left = Time(self.random.exponential(self.on.0));
        }
        self.left -= rest;
        total
    }
}

/// Options that only some sources have: messages of different sizes, a limited number of packets, periods, listed transfers,
/// closed loops, and messages with separate flows.
#[derive(Debug, Clone, Saved)]
pub struct Varied {
    /// The sizes of messages.
    pub sizes: SizeLaw,
    /// Number of packets still to be generated.
    pub packets: u64,
    /// Maximum payload of a packet.
    pub mtu: u32,
    /// The random numbers of sizes.
    pub random: Stream,
    /// Busy and silent periods, if there are any.
    pub periods: Option<Periods>,
    /// The transfers of a list.
    pub listed: Arc<[ListedTransfer]>,
    /// Position of the next transfer in `listed`.
    pub next: usize,
    /// The times at which later messages of a closed loop are due, in order.
    pub due: VecDeque<Time>,
    /// Whether each message has a separate flow.
    pub has_own_flows: bool,
}

impl Varied {
    /// Draws the payload of a message of at least `least` bytes, and returns whether it is the last
    /// message.
    fn draw(&mut self, least: u32) -> (u64, bool) {
        let drawn = match &self.sizes {
            SizeLaw::Spread(0) => u64::from(least),
            SizeLaw::Spread(spread) => u64::from(least) + u64::from(self.random.below(spread + 1)),
            SizeLaw::Cdf(cdf) => cdf.draw(&mut self.random).into(),
        };
        let mtu = u64::from(self.mtu.max(1));
        let bytes = drawn.min(self.packets.saturating_mul(mtu));
        self.packets -= bytes.div_ceil(mtu);
        (bytes, self.packets == 0)
    }

    /// The time to the next message: `spacing`, plus the silent periods in between if the source has periods.
    #[inline]
    fn spaced(varied: Option<&mut Box<Self>>, spacing: Time) -> Time {
        match varied.and_then(|varied| varied.periods.as_mut()) {
            None => spacing,
            Some(periods) => periods.pass(spacing),
        }
    }
}

/// A source, as described in the module documentation. It occupies two cache lines.
#[derive(Debug, Clone, Saved)]
#[repr(align(64))]
pub struct Source {
    /// Class of traffic, for the meters.
    pub class: u16,
    /// Service level.
    pub sl: u8,
    /// Virtual lane of the host's link.
    pub vl: u8,
    /// Determines destinations.
    pub chooser: Chooser,
    /// Determines times.
    pub clock: Clock,
    /// Payload of a message in bytes, or of the smallest message if sizes vary.
    pub message: u32,
    /// See [`Varied`].
    pub varied: Option<Box<Varied>>,
    /// Time at which the next message is generated. `NEVER` if the time is unknown, such as before a trigger.
    pub next_at: Time,
    /// No message is generated at or after this time.
    pub stop: Time,
    /// Payload in bytes still to be generated.
    pub left: u64,
    /// The random numbers of destinations.
    pub destinations: Stream,
    /// The random numbers of times.
    pub arrivals: Stream,
    /// Number of generated messages that have not been sent completely.
    pub backlog: u32,
    /// Number of flows of this source that may send now.
    pub ready: u32,
}

const _: () = assert!(size_of::<Source>() == 128);

impl Source {
    /// Maximum number of generated messages that have not been sent completely. Further messages are
    /// generated when earlier messages have left.
    pub const MAX_BACKLOG: u32 = 1024;

    /// Time at which the next message is due, if there is one.
    #[inline]
    pub fn due(&self) -> Option<Time> {
        (self.next_at < self.stop && self.left > 0).then_some(self.next_at)
    }

    /// Whether the source will generate no more messages. Not valid while the source waits for its trigger.
    /// Always false for sources of a forest.
    pub fn is_over(&self, now: Time) -> bool {
        match (&self.chooser, &self.clock) {
            (Chooser::Forest(_), _) => false,
            (_, Clock::Saturating) => now >= self.stop || self.due().is_none(),
            // The next message may be due some time after the end of a message that is being sent.
            (_, Clock::Closed { .. }) => now >= self.stop || self.left == 0,
            _ => self.due().is_none(),
        }
    }

    /// Time at which the source should generate its next message; a time in the past means now. `None` if
    /// there is no such message, or if an earlier one must be sent first.
    #[inline]
    pub fn next_draw(&self, now: Time) -> Option<Time> {
        if let Chooser::Forest(generator) = &self.chooser {
            let due = if self.ready == 0 { generator.due(now, self.has_room()) } else { None };
            return due.filter(|due| (*due).max(now) < self.stop);
        }
        let wanted = match (&self.clock, &self.chooser) {
            // A saturating source with one destination stores at most one message. A source with many
            // destinations continues to generate messages while congestion control throttles some of them,
            // so that no flow blocks another one inside the host.
            (Clock::Fed | Clock::Own { .. }, _) => false,
            (Clock::Saturating, Chooser::Fixed(_)) => self.backlog == 0 && now < self.stop,
            (Clock::Saturating, _) => self.ready == 0 && self.has_room() && now < self.stop,
            _ => self.has_room(),
        };
        if wanted { self.due() } else { None }
    }

    /// Whether the source generates messages only if none of its flows is ready.
    pub fn counts_ready(&self) -> bool {
        let has_choice = !matches!(self.chooser, Chooser::Fixed(_));
        matches!(self.chooser, Chooser::Forest(_)) || matches!(self.clock, Clock::Saturating) && has_choice
    }

    /// Whether one more message can be stored.
    #[inline]
    fn has_room(&self) -> bool {
        self.backlog < Self::MAX_BACKLOG
    }

    /// Whether a message should be generated now.
    #[inline]
    pub fn wants_to_draw(&self, now: Time) -> bool {
        self.next_draw(now).is_some_and(|due| due <= now)
    }

    /// Generates the next message.
    pub fn draw(&mut self, now: Time) -> Message {
        if matches!(self.clock, Clock::Listed) {
            return self.draw_listed(now);
        }
        let mut bytes = u64::from(self.message);
        if let Some(varied) = &mut self.varied {
            let last;
            (bytes, last) = varied.draw(self.message);
            if last {
                self.left = self.left.min(bytes);
            }
        }
        bytes = bytes.min(self.left);
        self.left = self.left.saturating_sub(bytes);
        let created = match &mut self.clock {
            Clock::Saturating | Clock::Fed | Clock::Listed | Clock::Own { .. } => now,
            Clock::Periodic { pace, bytes, carry } => {
                let spacing = pace.time_carrying(*bytes, carry);
                let created = self.next_at;
                self.next_at += Varied::spaced(self.varied.as_mut(), spacing);
                created
            }
            Clock::Poisson { mean_ps } => {
                let spacing = Time(self.arrivals.exponential(*mean_ps));
                let created = self.next_at;
                self.next_at += Varied::spaced(self.varied.as_mut(), spacing);
                created
            }
            Clock::Closed { .. } => {
                let next = self.varied.as_mut().and_then(|varied| varied.due.pop_front());
                std::mem::replace(&mut self.next_at, next.unwrap_or(Time::NEVER))
            }
        };
        let room = self.has_room();
        self.backlog += 1;
        let (destination, hot) = self.choose(now, room);
        Message { destination, created, left: bytes, hot }
    }

    /// Takes the next transfer from the list, and returns its message. The transfer must be due.
    fn draw_listed(&mut self, now: Time) -> Message {
        self.backlog += 1;
        let mut message = Message { destination: 0, created: self.next_at, left: 0, hot: false };
        self.next_at = Time::NEVER;
        if let Some(varied) = &mut self.varied {
            if let Some(transfer) = varied.listed.get(varied.next) {
                (message.destination, message.left) = (transfer.to, transfer.bytes);
            }
            varied.next += 1;
            self.next_at = varied.listed.get(varied.next).map_or(Time::NEVER, |transfer| transfer.start);
        }
        debug_assert!(message.created <= now && message.left > 0, "a transfer is due");
        message
    }

    /// Whether each message has a separate flow.
    #[inline]
    pub fn has_own_flows(&self) -> bool {
        self.varied.as_ref().is_some_and(|varied| varied.has_own_flows)
    }

    /// Records that a message with a separate flow has ended. Returns whether the source generates another
    /// message because of this, or could not generate one before.
    pub fn ended(&mut self, now: Time) -> bool {
        let was_full = !self.has_room();
        self.backlog -= 1;
        let Clock::Closed { think } = self.clock else { return was_full };
        if self.next_at == Time::NEVER {
            self.next_at = now + think;
        } else if let Some(varied) = &mut self.varied {
            varied.due.push_back(now + think);
        }
        true
    }

    /// Creates a source that sends messages of this source, one at a time, first to `destination`. `parent`
    /// is the index of this source at the host.
    pub fn own_flow(&self, parent: u16, destination: u32) -> Self {
        Self {
            chooser: Chooser::Fixed(destination),
            clock: Clock::Own { parent, connection: 0 },
            varied: None,
            next_at: Time::NEVER,
            left: 0,
            backlog: 0,
            ready: 0,
            ..self.clone()
        }
    }

    /// Number of the connection of a source with [`Clock::Own`]: each message of the source has a new number.
    /// 0 for other sources.
    #[inline]
    pub fn connection(&self) -> u32 {
        match self.clock {
            Clock::Own { connection, .. } => connection,
            _ => 0,
        }
    }

    /// Prepares a source with [`Clock::Own`] for the next message, to host `to`.
    pub fn connect(&mut self, to: u32) {
        self.chooser = Chooser::Fixed(to);
        if let Clock::Own { connection, .. } = &mut self.clock {
            *connection = connection.wrapping_add(1);
        }
    }

    /// Records that a message has been sent.
    #[inline]
    pub fn finished(&mut self, message: &Message) {
        self.backlog -= 1;
        if let Chooser::Forest(generator) = &mut self.chooser {
            generator.finished(message);
        }
    }

    /// The destination of the next message, without generating the message. `None` unless all
    /// destinations are uniform and exclude the sender.
    #[inline]
    pub fn next_destination(&self) -> Option<u32> {
        let (me, hosts) = match &self.chooser {
            Chooser::Uniform { me, hosts, include_self: false } => (*me, *hosts),
            Chooser::Forest(generator) => generator.only_random()?,
            _ => return None,
        };
        Some(self.destinations.clone().below_except(hosts, me))
    }

    /// Chooses the destination of a message generated now, and returns it with whether it is for a hotspot.
    fn choose(&mut self, now: Time, room: bool) -> (u32, bool) {
        let destination = match &mut self.chooser {
            Chooser::Fixed(host) => *host,
            Chooser::Uniform { hosts, include_self: true, .. } => self.destinations.below(*hosts),
            Chooser::Uniform { me, hosts, include_self: false } => {
                self.destinations.below_except(*hosts, *me)
            }
            Chooser::InTurn { me, hosts, next } => {
                let host = (*me + *next) % *hosts;
                *next = if *next + 1 == *hosts { 1 } else { *next + 1 };
                host
            }
            // The list of transfers contains the destinations.
            Chooser::Listed => 0,
            Chooser::Forest(generator) => {
                let streams = (&mut self.arrivals, &mut self.destinations);
                return generator.choose(now, room, self.message, streams);
            }
        };
        (destination, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::forest::tests::{forest, generator};
    use silvan_engine::Rate;

    fn source(chooser: Chooser, clock: Clock) -> Source {
        Source {
            class: 0,
            sl: 0,
            vl: 0,
            chooser,
            clock,
            message: 1000,
            varied: None,
            next_at: Time(100),
            stop: Time::NEVER,
            left: u64::MAX,
            destinations: Stream::new(1, "destinations", 0),
            arrivals: Stream::new(1, "arrivals", 0),
            backlog: 0,
            ready: 0,
        }
    }

    #[test]
    fn the_next_destination_is_that_of_the_next_message() {
        let mut uniform =
            source(Chooser::Uniform { me: 3, hosts: 9, include_self: false }, Clock::Saturating);
        for _ in 0..100 {
            let next = uniform.next_destination();
            assert_eq!(next, Some(uniform.draw(Time(100)).destination));
            assert_ne!(next, Some(3));
        }
        assert_eq!(source(Chooser::Fixed(7), Clock::Saturating).next_destination(), None);
    }

    #[test]
    fn the_next_destination_of_a_forest_is_known_without_hotspots() {
        for (p, is_known) in [(0, true), (1, false), (100, false)] {
            let generator = generator(p, &forest(), 3);
            let mut source = source(Chooser::Forest(Box::new(generator)), Clock::Saturating);
            for at in 0..100 {
                let next = source.next_destination();
                assert_eq!(next.is_some(), is_known);
                let drawn = source.draw(Time(at * 1_000_000_000)).destination;
                assert!(next.is_none_or(|next| next == drawn));
            }
        }
    }

    #[test]
    fn uniform_destinations_include_all_hosts_except_the_sender() {
        let mut source = source(Chooser::Uniform { me: 2, hosts: 5, include_self: false }, Clock::Saturating);
        let mut counts = [0; 5];
        (0..10_000).for_each(|_| counts[source.choose(Time(0), true).0 as usize] += 1);
        assert_eq!(counts[2], 0);
        assert!(counts.iter().enumerate().all(|(i, &c)| i == 2 || (2_300..2_700).contains(&c)), "{counts:?}");
    }

    #[test]
    fn all_to_all_visits_each_other_host_in_turn() {
        let mut source = source(Chooser::InTurn { me: 1, hosts: 4, next: 1 }, Clock::Saturating);
        let visits: Vec<u32> = (0..7).map(|_| source.choose(Time(0), true).0).collect();
        assert_eq!(visits, [2, 3, 0, 2, 3, 0, 2]);
    }

    #[test]
    fn periodic_messages_keep_their_times_even_if_generated_late() {
        let pace = Rate(3_000_000_000).pace(); // 1000 bytes in 2,666,666.67 ps
        let mut source = source(Chooser::Fixed(1), Clock::Periodic { pace, bytes: 1000, carry: 0 });
        source.left = 3_500;
        let drawn: Vec<(u64, u64)> = std::iter::from_fn(|| source.due().map(|_| source.draw(Time(1 << 40))))
            .map(|message| (message.created.0, message.left))
            .collect();
        assert_eq!(drawn, [(100, 1000), (2_666_766, 1000), (5_333_433, 1000), (8_000_100, 500)]);
    }

    #[test]
    fn varied_messages_stay_in_bounds_and_end_with_the_last_packet() {
        let mut source = source(Chooser::Fixed(1), Clock::Saturating);
        let sizes = Stream::new(1, "sizes", 0);
        source.varied = Some(Box::new(Varied {
            sizes: SizeLaw::Spread(2000),
            packets: 10_001,
            mtu: 1024,
            random: sizes,
            periods: None,
            listed: [].into(),
            next: 0,
            due: VecDeque::new(),
            has_own_flows: false,
        }));
        let mut drawn: Vec<u64> = Vec::new();
        while source.due().is_some() {
            drawn.push(source.draw(Time(0)).left);
        }
        let packets: u64 = drawn.iter().map(|bytes| bytes.div_ceil(1024)).sum();
        assert_eq!(packets, 10_001);
        let last = drawn.pop();
        assert!(last.is_some_and(|bytes| (1..=3000).contains(&bytes)));
        assert!(drawn.iter().all(|bytes| (1000..=3000).contains(bytes)));
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((1_960.0..2_040.0).contains(&mean), "{mean}");
        assert!(drawn.iter().any(|&b| b < 1_010) && drawn.iter().any(|&b| b > 2_990));
    }

    #[test]
    fn saturating_source_stops_at_its_stop_time() {
        let mut source = source(Chooser::Fixed(1), Clock::Saturating);
        source.stop = Time(500);
        assert!(!source.wants_to_draw(Time(99)));
        assert!(source.wants_to_draw(Time(100)));
        source.draw(Time(100));
        assert!(!source.wants_to_draw(Time(200)), "one stored message is enough");
        source.backlog = 0;
        assert!(!source.wants_to_draw(Time(500)));
    }
}
