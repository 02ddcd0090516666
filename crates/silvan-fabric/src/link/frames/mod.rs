//! Flow control with pause frames (priority flow control). A receiver stops lanes of its sender by frames on the other
//! direction of the link.
//!
//! The stages of a frame:
//!
//! - freed: a packet has left the buffer of the receiver;
//! - check: after all arrivals and departures of an instant, the receiver decides which lanes are paused, and starts a frame
//!   if that has changed and its link is free; otherwise, it checks again when the link is free;
//! - obeyed: the frame takes effect at the sender.
//!
//! A frame states which lanes are paused when it starts, so at most one frame waits for a link.

mod memory;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, Vl};

use super::control::{CheckTimes, DepartingSpace, Departures};
use super::{ChannelId, Class, MAX_NODES, MAX_PORTS, Overflow, ReceiverControl, Signal, SignalCheck, key};
use crate::not_binned::NotBinned;
use memory::Gate;
pub(crate) use memory::{Rule, SwitchMemory};

/// The stages of pause frames, of link-level retry and of links that change, as port numbers of events of the class `Link`.
/// The node of these events is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Freed = 0,
    Check = 1,
    Obeyed = 2,
    /// With link-level retry, a message arrives at the sender of a channel, its timer expires, or a frame can be sent again.
    Retry = 3,
    /// Links change.
    Change = 4,
}

impl Stage {
    /// The key of the events of this stage.
    pub fn key(self) -> u32 {
        key(Class::Link, 0, Port(self as u16))
    }
}

/// The state of a lane at its sender, with statistics.
#[derive(Debug, Clone, Copy, Saved)]
struct LaneSender {
    /// The start of the current pause; `None` if the lane is not paused.
    since: Option<Time>,
    #[saved(latest)]
    first: Time,
    #[saved(count)]
    pauses: u64,
    #[saved(count)]
    resumes: u64,
    #[saved(count)]
    total: Time,
    #[saved(most)]
    longest: Time,
}

/// Pauses of a lane, up to a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paused {
    /// Number of frames that paused the lane, and of those that resumed it.
    pub pauses: u64,
    pub resumes: u64,
    pub total: Time,
    /// The longest time without interruption. If it has not ended, it counts up to the given time.
    pub longest: Time,
    pub first: Time,
    /// The start of the current pause; `None` if the lane is not paused.
    pub since: Option<Time>,
}

/// The receiving end of a channel. Sets of lanes have one bit per lane.
#[derive(Debug, Clone, Saved)]
struct Receiver {
    #[saved(constant)]
    rule: Rule,
    /// Bytes of a lossy lane that does not share memory.
    #[saved(constant)]
    capacity: u32,
    /// The channel in the other direction.
    #[saved(constant)]
    reverse: ChannelId,
    /// Lanes with arrivals and with departures since the last check.
    arrived: u16,
    left: u16,
    /// Lanes that are to be paused.
    stopped: u16,
    /// Lanes that the last frame has paused.
    announced: u16,
    times: CheckTimes,
}

/// A pause that reached the limit of the watchdog: the time of that, and the lane. The order is that of [`Overflow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
pub(crate) struct OverlongPause {
    pub time: Time,
    pub channel: ChannelId,
    pub vl: u8,
}

/// The settings that all links share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameSpec {
    /// Bytes of a frame on the link. With zero bytes, frames do not wait for the link either (on/off flow control).
    pub bytes: u32,
    /// Time from the arrival of a frame until it takes effect.
    pub response: Time,
    /// The length of a pause that stops the run; `NEVER` if none does.
    pub longest: Time,
}

/// The senders and receivers of all channels. A partition uses those of its own nodes.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Frames {
    #[saved(constant)]
    pub spec: FrameSpec,
    #[saved(constant)]
    lanes: usize,
    /// Lanes that are never paused, one bit per lane.
    #[saved(constant)]
    lossy: u16,
    senders: Vec<LaneSender>,
    receivers: Vec<Receiver>,
    gates: Vec<Gate>,
    /// Packets of each lane that are leaving the buffer.
    leaving: Vec<u32>,
    memories: Vec<SwitchMemory>,
    departures: Departures,
    overflow: Option<Overflow>,
    /// The first pause that had reached `spec.longest` when it ended.
    too_long: OverlongPause,
}

/// The space in the buffers of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneRoom {
    /// Bytes that may arrive before any lane can be full.
    pub room: u64,
    /// Bytes that the buffers store.
    pub stored: u64,
}

impl OverlongPause {
    /// A pause of a lane since a time.
    fn of((channel, vl): (ChannelId, u8), since: Time, limit: Time) -> Self {
        Self { time: Time(since.0.saturating_add(limit.0)), channel, vl }
    }
}

/// The receiver of a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiverSpec {
    /// Its memory.
    pub rule: Rule,
    /// Bytes of a lane, if the lane is lossy.
    pub capacity: u32,
    /// The channel in the other direction.
    pub reverse: ChannelId,
}

impl Frames {
    /// `channels` has the receiver of each channel. `lossy` has a bit for each lossy lane.
    pub fn new(
        spec: FrameSpec,
        (lanes, lossy): (usize, u16),
        channels: &[ReceiverSpec],
        memories: Vec<SwitchMemory>,
    ) -> Self {
        let receiver = |&ReceiverSpec { rule, capacity, reverse }: &ReceiverSpec| Receiver {
            rule,
            capacity,
            reverse,
            arrived: 0,
            left: 0,
            stopped: 0,
            announced: 0,
            times: CheckTimes::new(),
        };
        let sender = LaneSender {
            since: None,
            first: Time::NEVER,
            pauses: 0,
            resumes: 0,
            total: Time::ZERO,
            longest: Time::ZERO,
        };
        let count = channels.len() * lanes;
        debug_assert!(channels.len() < MAX_NODES as usize * MAX_PORTS as usize);
        Self {
            spec,
            lanes,
            lossy,
            senders: vec![sender; count],
            receivers: channels.iter().map(receiver).collect(),
            gates: vec![Gate::default(); count],
            leaving: vec![0; count],
            memories,
            departures: Departures::default(),
            overflow: None,
            too_long: OverlongPause { time: Time::NEVER, channel: 0, vl: 0 },
        }
    }

    fn index(&self, channel: ChannelId, vl: Vl) -> usize {
        channel as usize * self.lanes + vl.index()
    }

    /// Whether receivers may drop packets.
    pub fn may_drop(&self) -> bool {
        self.lossy != 0
    }

    /// Stores a packet of a switch whose lanes all have [`Self::room`], so no check is needed.
    #[inline]
    pub fn fill(&mut self, channel: ChannelId, vl: Vl, space: u32) {
        let index = self.index(channel, vl);
        self.gates[index].add(&self.receivers[channel as usize].rule, &mut self.memories, space);
    }

    /// Undoes [`Self::fill`].
    pub fn take_out(&mut self, channel: ChannelId, vl: Vl, space: u32) {
        let index = self.index(channel, vl);
        self.gates[index].remove(&self.receivers[channel as usize].rule, &mut self.memories, space);
    }

    /// Notes that a packet starts to leave a buffer.
    #[inline]
    pub fn starts_to_leave(&mut self, channel: ChannelId, vl: Vl) {
        let index = self.index(channel, vl);
        self.leaving[index] += 1;
    }

    /// Removes a packet that has left.
    #[inline]
    pub fn remove(&mut self, channel: ChannelId, vl: Vl, space: u32) {
        let index = self.index(channel, vl);
        let receiver = &mut self.receivers[channel as usize];
        self.leaving[index] -= 1;
        self.gates[index].remove(&receiver.rule, &mut self.memories, space);
        receiver.left |= 1 << vl.0;
    }

    /// The room on the given channels, which lead to the same switch. `None` if a lane is paused or may be full with the next
    /// byte.
    pub fn room(&self, channels: impl Iterator<Item = ChannelId>) -> Option<LaneRoom> {
        let mut found = LaneRoom { room: u64::MAX, stored: 0 };
        for channel in channels {
            let receiver = &self.receivers[channel as usize];
            if receiver.stopped | receiver.announced != 0 {
                return None;
            }
            let first = channel as usize * self.lanes;
            for gate in &self.gates[first..first + self.lanes] {
                found.room = found.room.min(gate.room(&receiver.rule, &self.memories)?);
                found.stored += gate.stored();
            }
        }
        Some(found)
    }

    /// Removes all packets from the lanes of a receiver, without a check.
    pub fn empty(&mut self, channel: ChannelId) {
        let rule = &self.receivers[channel as usize].rule;
        let lanes = channel as usize * self.lanes..(channel as usize + 1) * self.lanes;
        for gate in &mut self.gates[lanes.clone()] {
            let stored = gate.stored() as u32;
            gate.remove(rule, &mut self.memories, stored);
        }
        self.leaving[lanes].fill(0);
    }

    /// The memory of the receiver of a channel.
    pub fn rule(&self, channel: ChannelId) -> &Rule {
        &self.receivers[channel as usize].rule
    }

    /// See [`crate::packet::Pool::keep_order`].
    pub fn keep_order(&mut self) {
        self.departures.keep_order();
    }

    /// The first pause that has reached the limit by now, whether it lasts or not.
    pub fn too_long(&self, now: Time) -> Option<OverlongPause> {
        let limit = self.spec.longest;
        if limit == Time::NEVER {
            return None;
        }
        let lasting = self.senders.iter().enumerate().filter_map(|(index, sender)| {
            let lane = ((index / self.lanes) as ChannelId, (index % self.lanes) as u8);
            Some(OverlongPause::of(lane, sender.since?, limit))
        });
        lasting.chain([self.too_long]).min().filter(|pause| pause.time <= now)
    }

    /// The pauses of a lane, if there were any.
    pub fn paused(&self, channel: ChannelId, vl: Vl, now: Time) -> Option<Paused> {
        let &LaneSender { since, first, pauses, resumes, total, longest } =
            &self.senders[self.index(channel, vl)];
        let current = since.map_or(Time::ZERO, |since| now.saturating_sub(since));
        (pauses > 0).then(|| Paused {
            pauses,
            resumes,
            total: total + current,
            longest: longest.max(current),
            first,
            since,
        })
    }
}

impl ReceiverControl for Frames {
    fn reverse(&self, channel: ChannelId) -> ChannelId {
        self.receivers[channel as usize].reverse
    }

    fn is_open(&self, lane: usize, _now: Time) -> bool {
        self.senders[lane].since.is_none()
    }

    fn is_shut(&self, channel: ChannelId, vl: Vl) -> bool {
        let receiver = &self.receivers[channel as usize];
        receiver.stopped & receiver.announced & 1 << vl.0 != 0 && self.leaving[self.index(channel, vl)] == 0
    }

    fn drops(&self, channel: ChannelId, vl: Vl, space: u32) -> bool {
        let receiver = &self.receivers[channel as usize];
        let rule = (&receiver.rule, receiver.capacity);
        let gate = &self.gates[self.index(channel, vl)];
        self.lossy >> vl.0 & 1 != 0 && !gate.fits(rule, &self.memories, space)
    }

    fn store(&mut self, channel: ChannelId, vl: Vl, space: u32, now: Time) -> bool {
        let index = self.index(channel, vl);
        let receiver = &mut self.receivers[channel as usize];
        let is_lossy = self.lossy >> vl.0 & 1 != 0;
        let lack = self.gates[index].store(&receiver.rule, &mut self.memories, space);
        if let Some(lack) = lack.filter(|_| !is_lossy) {
            let found = Overflow { time: now, channel, vl: vl.0, lack };
            self.overflow = Some(self.overflow.map_or(found, |first| first.min(found)));
        }
        receiver.arrived |= 1 << vl.0;
        receiver.times.is_first(now)
    }

    fn will_leave(&mut self, channel: ChannelId, vl: Vl, space: u32) -> u32 {
        self.starts_to_leave(channel, vl);
        self.departures.add(DepartingSpace { channel, vl, space })
    }

    fn left(&mut self, slot: u32, now: Time) -> Option<ChannelId> {
        let DepartingSpace { channel, vl, space } = self.departures.take(slot);
        self.remove(channel, vl, space);
        self.receivers[channel as usize].times.is_first(now).then_some(channel)
    }

    fn check(&mut self, channel: ChannelId, now: Time, free_at: Time) -> SignalCheck {
        let first = channel as usize * self.lanes;
        let receiver = &mut self.receivers[channel as usize];
        let touched = (receiver.arrived | receiver.left) & !self.lossy;
        for vl in (0..self.lanes).filter(|vl| touched >> vl & 1 != 0) {
            let (gate, bit) = (&self.gates[first + vl], 1 << vl);
            if receiver.stopped & bit == 0 {
                if receiver.arrived & bit != 0 && gate.is_full(&receiver.rule, &self.memories) {
                    receiver.stopped |= bit;
                }
            } else if receiver.left & bit != 0 && gate.is_low(&receiver.rule, &self.memories) {
                receiver.stopped &= !bit;
            }
        }
        (receiver.arrived, receiver.left) = (0, 0);
        if receiver.stopped == receiver.announced {
            return SignalCheck::Nothing;
        }
        let check = receiver.times.send(receiver.stopped.into(), now, free_at);
        if matches!(check, SignalCheck::Send(_)) {
            receiver.announced = receiver.stopped;
        }
        check
    }

    /// The signal has a bit for each lane that is paused. All others are resumed.
    fn obey(&mut self, channel: ChannelId, lanes: Signal, now: Time) -> u16 {
        let first = channel as usize * self.lanes;
        let mut resumed = 0;
        let limit = self.spec.longest;
        for (vl, sender) in self.senders[first..first + self.lanes].iter_mut().enumerate() {
            match (sender.since, lanes >> vl & 1 != 0) {
                (None, true) => {
                    sender.since = Some(now);
                    sender.first = sender.first.min(now);
                    sender.pauses += 1;
                }
                (Some(since), false) => {
                    sender.since = None;
                    sender.resumes += 1;
                    sender.total += now - since;
                    sender.longest = sender.longest.max(now - since);
                    resumed |= 1 << vl;
                    let found = OverlongPause::of((channel, vl as u8), since, limit);
                    if found.time <= now {
                        self.too_long = self.too_long.min(found);
                    }
                }
                // The frame does not change this lane.
                (None, false) | (Some(_), true) => {}
            }
        }
        resumed
    }

    fn overflow(&self) -> Option<Overflow> {
        self.overflow
    }

    fn bytes(&self) -> u32 {
        self.spec.bytes
    }

    fn response(&self) -> Time {
        self.spec.response
    }

    fn has_bins(&self) -> Result<(), NotBinned> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        let rule = Rule::Fixed { xoff: 300, xon: 100, headroom: 1_000 };
        let spec = FrameSpec { bytes: 84, response: Time::ZERO, longest: Time(30) };
        Frames::new(
            spec,
            (2, 0),
            &[1, 0].map(|reverse| ReceiverSpec { rule, capacity: 0, reverse }),
            Vec::new(),
        )
    }

    fn leave(frames: &mut Frames, vl: Vl, space: u32, now: Time) {
        let slot = frames.will_leave(0, vl, space);
        frames.left(slot, now);
    }

    #[test]
    fn the_first_pause_that_reaches_the_limit_is_kept() {
        let mut frames = frames();
        frames.obey(0, 0b01, Time(10));
        frames.obey(1, 0b10, Time(12));
        assert_eq!(frames.too_long(Time(39)), None);
        let first = OverlongPause { time: Time(40), channel: 0, vl: 0 };
        assert_eq!([frames.too_long(Time(40)), frames.too_long(Time(99))], [Some(first); 2], "it lasts");
        frames.obey(0, 0, Time(39));
        let second = OverlongPause { time: Time(42), channel: 1, vl: 1 };
        assert_eq!(frames.too_long(Time(50)), Some(second), "the first has ended after 29");
        frames.obey(1, 0, Time(42));
        frames.obey(0, 0b10, Time(43));
        assert_eq!(frames.too_long(Time(99)), Some(second), "the second has ended after 30");
        frames.obey(0, 0, Time(98));
        assert_eq!(frames.too_long(Time(99)), Some(second), "the third has ended later");
    }

    #[test]
    fn a_lossy_lane_drops_what_does_not_fit_and_is_not_paused() {
        let rule = Rule::Fixed { xoff: 300, xon: 100, headroom: 100 };
        let spec = FrameSpec { bytes: 84, response: Time::ZERO, longest: Time::NEVER };
        let mut frames = Frames::new(
            spec,
            (2, 0b10),
            &[1, 0].map(|reverse| ReceiverSpec { rule, capacity: 600, reverse }),
            Vec::new(),
        );
        assert!([(0, 999), (1, 600)].iter().all(|&(vl, space)| !frames.drops(0, Vl(vl), space)));
        assert!(frames.drops(0, Vl(1), 601));
        frames.store(0, Vl(1), 550, Time(5));
        assert!(frames.drops(0, Vl(1), 51) && !frames.drops(0, Vl(1), 50));
        assert_eq!((frames.check(0, Time(5), Time(5)), frames.overflow), (SignalCheck::Nothing, None));
        frames.store(0, Vl(0), 401, Time(6));
        assert_eq!(frames.check(0, Time(6), Time(6)), SignalCheck::Send(0b01));
        assert!(frames.overflow.is_some_and(|found| found.vl == 0), "other lanes must not lose packets");
    }

    #[test]
    fn one_frame_states_all_lanes_at_its_start() {
        let mut frames = frames();
        assert!(frames.store(0, Vl(0), 301, Time(5)));
        assert!(!frames.store(0, Vl(1), 301, Time(5)), "one check per instant");
        // The link is busy until 9; in the meantime, lane 1 drains.
        assert_eq!(frames.check(0, Time(5), Time(9)), SignalCheck::Later(Time(9)));
        leave(&mut frames, Vl(1), 201, Time(7));
        assert_eq!(frames.check(0, Time(7), Time(9)), SignalCheck::Nothing, "a check is pending");
        assert_eq!(frames.check(0, Time(9), Time(9)), SignalCheck::Send(1));
        assert_eq!(frames.check(0, Time(9), Time(10)), SignalCheck::Nothing);
    }

    #[test]
    fn a_pause_that_ends_before_its_frame_starts_is_not_announced() {
        let mut frames = frames();
        frames.store(0, Vl(0), 301, Time(5));
        assert_eq!(frames.check(0, Time(5), Time(9)), SignalCheck::Later(Time(9)));
        leave(&mut frames, Vl(0), 301, Time(8));
        assert_eq!(frames.check(0, Time(8), Time(9)), SignalCheck::Nothing);
        assert_eq!(frames.check(0, Time(9), Time(9)), SignalCheck::Nothing);
    }

    #[test]
    fn the_statistics_cover_pauses_that_have_not_ended() {
        let mut frames = frames();
        assert_eq!(frames.paused(0, Vl(0), Time(50)), None);
        assert_eq!(frames.obey(0, 0b01, Time(10)), 0);
        assert_eq!(frames.obey(0, 0b10, Time(30)), 0b01);
        assert_eq!(frames.obey(0, 0b01, Time(35)), 0b10);
        let lane = |vl| frames.paused(0, Vl(vl), Time(40)).unwrap();
        let Paused { pauses, resumes, total, longest, first, since } = lane(0);
        assert_eq!((pauses, resumes, total, longest), (2, 1, Time(25), Time(20)));
        assert_eq!((first, since), (Time(10), Some(Time(35))));
        assert_eq!((lane(1).total, lane(1).since), (Time(5), None));
        assert!(!frames.is_open(0, Time(40)) && frames.is_open(1, Time(40)));
    }

    #[test]
    fn the_first_overflow_is_kept() {
        let mut frames = frames();
        frames.store(1, Vl(1), 1_301, Time(5));
        frames.store(0, Vl(1), 1_302, Time(5));
        frames.store(0, Vl(0), 1_303, Time(6));
        let Some(Overflow { time, channel, vl, lack }) = frames.overflow else { panic!("none") };
        assert_eq!((time, channel, vl, lack.missing), (Time(5), 0, 1, 2));
    }

    #[test]
    fn a_lane_from_which_a_packet_leaves_may_resume() {
        let mut frames = frames();
        frames.store(0, Vl(0), 500, Time(5));
        assert!(!frames.is_shut(0, Vl(0)));
        assert_eq!(frames.check(0, Time(5), Time(5)), SignalCheck::Send(1));
        assert!(frames.is_shut(0, Vl(0)));
        frames.will_leave(0, Vl(0), 500);
        assert!(!frames.is_shut(0, Vl(0)));
    }
}
