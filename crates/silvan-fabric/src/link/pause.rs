//! On/off flow control (Xon/Xoff, as in priority flow control; thesis, 2.1.4): a receiver stops its
//! sender when its buffer is filled above one threshold, and lets it go when it has drained to another.
//!
//! The messages take a link's delay. What the sender knows at some time is therefore what the receiver
//! knew one delay before. The sender's side computes that for itself, from the packets that it sent and
//! the space that it was told of: no event is spent on a message that nobody waits for. A packet that has
//! begun is sent to its end; the room above the threshold must hold it and all that was on its way.

use std::collections::VecDeque;

use silvan_engine::Time;

/// Fills of a virtual lane's receive buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Above this the sender is stopped.
    pub xoff: u32,
    /// At this or below it may go on.
    pub xon: u32,
}

/// The receiver of one lane as its sender knows it.
#[derive(Debug, Clone)]
struct Receiver {
    thresholds: Thresholds,
    fill: u32,
    is_stopped: bool,
    /// Changes of the fill, by the time at which the sender knows of them.
    changes: VecDeque<(Time, i64)>,
}

impl Receiver {
    fn add(&mut self, time: Time, change: i64) {
        // Mostly in order: the place is near the end.
        let place = self.changes.iter().rposition(|entry| entry.0 <= time).map_or(0, |at| at + 1);
        self.changes.insert(place, (time, change));
    }

    /// Whether the sender is stopped, with another fill.
    fn next(&self, is_stopped: bool, fill: u32) -> bool {
        if is_stopped { fill > self.thresholds.xon } else { fill > self.thresholds.xoff }
    }

    /// The fill and whether the sender is stopped after the changes of one instant, from the change `at` on;
    /// and how many these are.
    fn step(&self, at: usize, (is_stopped, fill): (bool, u32)) -> (usize, (bool, u32)) {
        let time = self.changes[at].0;
        let now = self.changes.iter().skip(at).take_while(|entry| entry.0 == time);
        let (mut count, mut sum) = (0, i64::from(fill));
        now.for_each(|entry| (count, sum) = (count + 1, sum + entry.1));
        let fill = u32::try_from(sum.max(0)).unwrap_or(u32::MAX);
        (count, (self.next(is_stopped, fill), fill))
    }

    /// The changes that the sender knows of by now, and whether it is stopped then, with the fill.
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

    /// When the sender may start again after the changes before `at`, which led to `state`.
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
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    lanes: Vec<Receiver>,
}

impl Pauses {
    /// `thresholds` per channel; none at all where links give credits.
    pub fn new(thresholds: impl Iterator<Item = Option<Thresholds>>, lane_count: usize) -> Option<Self> {
        let receiver =
            |thresholds| Receiver { thresholds, fill: 0, is_stopped: false, changes: VecDeque::new() };
        let channels: Option<Vec<Thresholds>> = thresholds.collect();
        let lanes = channels?
            .into_iter()
            .flat_map(|thresholds| std::iter::repeat_with(move || receiver(thresholds)).take(lane_count));
        Some(Self { lanes: lanes.collect() })
    }

    /// Whether a lane's sender may start a packet now.
    pub fn is_open(&mut self, lane: usize, now: Time) -> bool {
        self.lanes[lane].advance(now);
        !self.lanes[lane].is_stopped
    }

    /// As [`Self::is_open`] denies it, without booking anything.
    pub fn is_stopped(&self, lane: usize, now: Time) -> bool {
        self.lanes[lane].known(now).1.0
    }

    /// Books what a lane's sender knows by now, so that [`Self::opens_at`] gives no time before.
    pub fn advance(&mut self, lane: usize, now: Time) {
        self.lanes[lane].advance(now);
    }

    /// When a lane's sender may start again, as far as is known, after what has been booked; none if that lets it: it
    /// has been told, or is at this instant.
    pub fn opens_at(&self, lane: usize) -> Option<Time> {
        let receiver = &self.lanes[lane];
        if receiver.is_stopped { receiver.opens_after(0, (true, receiver.fill)) } else { None }
    }

    /// Whether a lane's sender is stopped now, and nothing on its way lets it go.
    pub fn is_stopped_for_good(&self, lane: usize, now: Time) -> bool {
        let receiver = &self.lanes[lane];
        let (at, state) = receiver.known(now);
        state.0 && receiver.opens_after(at, state).is_none()
    }

    /// A packet of `space` bytes will be in the buffer, which the sender knows at `time`.
    pub fn fills(&mut self, lane: usize, time: Time, space: u32) {
        self.lanes[lane].add(time, i64::from(space));
    }

    /// `space` bytes will be free again, which the sender knows at `time`.
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
    fn a_sender_stops_above_one_threshold_and_goes_at_the_other() {
        let mut pauses = pauses(300, 100);
        [10, 20, 30, 40].into_iter().for_each(|time| pauses.fills(0, Time(time), 100));
        let open: Vec<bool> = (0..5).map(|at| pauses.is_open(0, Time(10 * at))).collect();
        assert_eq!(open, [true, true, true, true, false]);
        assert_eq!(pauses.opens_at(0), None, "nothing drains");
        pauses.drains(0, Time(50), 200);
        assert_eq!(pauses.opens_at(0), None, "200 bytes are above 100");
        // Space may be freed in another order than packets came.
        pauses.drains(0, Time(80), 50);
        pauses.drains(0, Time(60), 60);
        assert_eq!(pauses.opens_at(0), Some(Time(80)));
        assert!(!pauses.is_open(0, Time(79)));
        assert!(pauses.is_open(0, Time(80)));
    }

    #[test]
    fn a_sender_that_was_let_go_and_stopped_again_is_stopped() {
        let mut pauses = pauses(300, 100);
        pauses.fills(0, Time(10), 400);
        assert!(!pauses.is_open(0, Time(10)));
        pauses.drains(0, Time(20), 400);
        pauses.fills(0, Time(30), 400);
        let stopped = [10, 19, 20, 29, 30].map(|now| pauses.is_stopped_for_good(0, Time(now)));
        assert_eq!(stopped, [false, false, false, false, true]);
        assert_eq!(pauses.opens_at(0), Some(Time(20)), "nothing after 10 is booked");
        pauses.advance(0, Time(25));
        assert_eq!(pauses.opens_at(0), None);
    }

    #[test]
    fn what_comes_and_goes_at_one_instant_changes_nothing() {
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
