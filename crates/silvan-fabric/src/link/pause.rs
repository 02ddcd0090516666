//! On/off flow control (Xon/Xoff, as in priority flow control; thesis, 2.1.4). A receiver stops its sender when the
//! fill of its buffer exceeds one threshold, and resumes it when the buffer has drained to another one.
//!
//! The messages take the link's delay, so the sender acts on the receiver's state one delay earlier. The sender
//! computes this state from the packets that it sent and from the space that was freed, so a message needs an event
//! only if a packet waits for it. A packet that has started is sent completely. The space above the threshold must hold
//! this packet and everything that was on its way.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// Fills of a virtual lane's receive buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// The sender is stopped above this fill.
    pub xoff: u32,
    /// The sender is resumed at or below this fill.
    pub xon: u32,
}

/// The sender's copy of the receiver state of one lane.
#[derive(Debug, Clone, Saved)]
struct LaneReceiver {
    #[saved(constant)]
    thresholds: Thresholds,
    fill: u32,
    is_stopped: bool,
    /// Changes of the fill, with the times at which the sender learns of them.
    changes: VecDeque<(Time, i64)>,
}

impl LaneReceiver {
    fn add(&mut self, time: Time, change: i64) {
        // Most changes are added in order, so the search starts at the end.
        let place = self.changes.iter().rposition(|entry| entry.0 <= time).map_or(0, |at| at + 1);
        self.changes.insert(place, (time, change));
    }

    /// Whether the sender is stopped after the fill has changed to `fill`.
    fn next(&self, is_stopped: bool, fill: u32) -> bool {
        if is_stopped { fill > self.thresholds.xon } else { fill > self.thresholds.xoff }
    }

    /// Applies the changes of one instant, starting with change `at`. Returns their number, whether the sender is
    /// stopped afterwards, and the fill.
    fn step(&self, at: usize, (is_stopped, fill): (bool, u32)) -> (usize, (bool, u32)) {
        let time = self.changes[at].0;
        let now = self.changes.iter().skip(at).take_while(|entry| entry.0 == time);
        let (mut count, mut sum) = (0, i64::from(fill));
        now.for_each(|entry| (count, sum) = (count + 1, sum + entry.1));
        let fill = u32::try_from(sum.max(0)).unwrap_or(u32::MAX);
        (count, (self.next(is_stopped, fill), fill))
    }

    /// The number of changes of which the sender has learned by now, whether it is stopped, and the fill.
    fn known(&self, now: Time) -> (usize, (bool, u32)) {
        let (mut at, mut state) = (0, (self.is_stopped, self.fill));
        while self.changes.get(at).is_some_and(|entry| entry.0 <= now) {
            let (count, next) = self.step(at, state);
            (at, state) = (at + count, next);
        }
        (at, state)
    }

    fn advance(&mut self, now: Time) {
        let (count, state) = self.known(now);
        (self.is_stopped, self.fill) = state;
        self.changes.drain(..count);
    }

    /// The time at which the sender may start again, if the changes before `at` led to `state`.
    fn opens_after(&self, mut at: usize, mut state: (bool, u32)) -> Option<Time> {
        while at < self.changes.len() {
            let time = self.changes[at].0;
            let (count, next) = self.step(at, state);
            if !next.0 {
                return Some(time);
            }
            (at, state) = (at + count, next);
        }
        None
    }
}

/// The receivers of all lanes.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Pauses {
    lanes: Vec<LaneReceiver>,
}

impl Pauses {
    /// `thresholds` has one entry per channel. If links use credits, all entries are `None`.
    pub fn new(thresholds: impl Iterator<Item = Option<Thresholds>>, lane_count: usize) -> Option<Self> {
        let receiver =
            |thresholds| LaneReceiver { thresholds, fill: 0, is_stopped: false, changes: VecDeque::new() };
        let channels: Option<Vec<Thresholds>> = thresholds.collect();
        let lanes = channels?
            .into_iter()
            .flat_map(|thresholds| std::iter::repeat_with(move || receiver(thresholds)).take(lane_count));
        Some(Self { lanes: lanes.collect() })
    }

    /// Whether the sender of a lane may start a packet now.
    pub fn is_open(&mut self, lane: usize, now: Time) -> bool {
        self.lanes[lane].advance(now);
        !self.lanes[lane].is_stopped
    }

    /// Whether the sender of a lane is stopped now. Unlike [`Self::is_open`], this does not book changes.
    pub fn is_stopped(&self, lane: usize, now: Time) -> bool {
        self.lanes[lane].known(now).1.0
    }

    /// Books the changes of which the sender of a lane has learned by now, so that [`Self::opens_at`] returns no
    /// earlier time.
    pub fn advance(&mut self, lane: usize, now: Time) {
        self.lanes[lane].advance(now);
    }

    /// The time at which the sender of a lane may start again, according to the changes that are not yet booked; `None`
    /// if the booked changes leave the lane open.
    pub fn opens_at(&self, lane: usize) -> Option<Time> {
        let receiver = &self.lanes[lane];
        if receiver.is_stopped { receiver.opens_after(0, (true, receiver.fill)) } else { None }
    }

    /// Whether the sender of a lane is stopped now and no change that is on its way resumes it.
    pub fn is_blocked(&self, lane: usize, now: Time) -> bool {
        let receiver = &self.lanes[lane];
        let (at, state) = receiver.known(now);
        state.0 && receiver.opens_after(at, state).is_none()
    }

    /// Records that a packet of `space` bytes enters the buffer. The sender learns of this at `time`.
    pub fn fills(&mut self, lane: usize, time: Time, space: u32) {
        self.lanes[lane].add(time, i64::from(space));
    }

    /// Records that `space` bytes become free, of which the sender learns at `time`.
    pub fn drains(&mut self, lane: usize, time: Time, space: u32) {
        self.lanes[lane].add(time, -i64::from(space));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(xoff: u32, xon: u32) -> Pauses {
        Pauses::new([Some(Thresholds { xoff, xon })].into_iter(), 1).unwrap()
    }

    #[test]
    fn a_sender_stops_above_one_threshold_and_resumes_at_the_other() {
        let mut pauses = pauses(300, 100);
        [10, 20, 30, 40].into_iter().for_each(|time| pauses.fills(0, Time(time), 100));
        let open: Vec<bool> = (0..5).map(|at| pauses.is_open(0, Time(10 * at))).collect();
        assert_eq!(open, [true, true, true, true, false]);
        assert_eq!(pauses.opens_at(0), None, "nothing drains");
        pauses.drains(0, Time(50), 200);
        assert_eq!(pauses.opens_at(0), None, "200 bytes are above 100");
        // The order in which space is freed may differ from that in which packets arrived.
        pauses.drains(0, Time(80), 50);
        pauses.drains(0, Time(60), 60);
        assert_eq!(pauses.opens_at(0), Some(Time(80)));
        assert!(!pauses.is_open(0, Time(79)));
        assert!(pauses.is_open(0, Time(80)));
    }

    #[test]
    fn a_sender_that_was_resumed_and_stopped_again_is_stopped() {
        let mut pauses = pauses(300, 100);
        pauses.fills(0, Time(10), 400);
        assert!(!pauses.is_open(0, Time(10)));
        pauses.drains(0, Time(20), 400);
        pauses.fills(0, Time(30), 400);
        let stopped = [10, 19, 20, 29, 30].map(|now| pauses.is_blocked(0, Time(now)));
        assert_eq!(stopped, [false, false, false, false, true]);
        assert_eq!(pauses.opens_at(0), Some(Time(20)), "nothing after 10 is booked");
        pauses.advance(0, Time(25));
        assert_eq!(pauses.opens_at(0), None);
    }

    #[test]
    fn space_used_and_freed_at_one_instant_changes_nothing() {
        let mut pauses = pauses(100, 50);
        pauses.fills(0, Time(10), 100);
        pauses.fills(0, Time(20), 50);
        pauses.drains(0, Time(20), 60);
        assert!(pauses.is_open(0, Time(20)));
    }

    #[test]
    fn links_with_credits_have_no_thresholds() {
        assert!(Pauses::new([None, None].into_iter(), 2).is_none());
    }
}
