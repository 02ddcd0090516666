//! The CongestionLog of switches and channel adapters (IBA 1.2.1, annex A10.4.3.5): their latest events.
//!
//! Events of one instant are ordered by their contents rather than by the order in which the model finds
//! them, so the logs do not depend on the scheduler or on the number of threads.

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// Number of events in the log of a switch.
pub(crate) const SWITCH_EVENTS: usize = 15;
/// Number of events in the log of a channel adapter.
pub(crate) const HOST_EVENTS: usize = 13;

/// The largest `MOST` values noted so far, in ascending order. Values that begin with their time are the
/// latest events.
#[derive(Debug, Clone, Saved)]
pub(crate) struct LatestEvents<E, const MOST: usize>(Vec<E>);

impl<E, const MOST: usize> Default for LatestEvents<E, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E: Ord, const MOST: usize> LatestEvents<E, MOST> {
    pub fn note(&mut self, event: E) {
        if self.0.len() == MOST {
            if event <= self.0[0] {
                return;
            }
            self.0.remove(0);
        }
        let at = self.0.partition_point(|other| *other <= event);
        self.0.insert(at, event);
    }

    pub fn events(&self) -> &[E] {
        &self.0
    }
}

/// A packet that an output marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
pub(crate) struct MarkEvent {
    pub time: Time,
    pub source: u32,
    pub destination: u32,
    pub sl: u8,
}

/// The latest packets that one output marked.
pub(crate) type OutputLog = LatestEvents<MarkEvent, SWITCH_EVENTS>;

/// A notification that raised the index of a flow, or of its service level, to the trigger threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
pub(crate) struct TriggerEvent {
    pub time: Time,
    /// The other host of the flow.
    pub destination: u32,
    pub sl: u8,
    /// The source (traffic generator) in the host to which the flow belongs.
    pub source: u16,
}

/// The log of a channel adapter.
#[derive(Debug, Default, Saved)]
pub(crate) struct HostLog {
    pub latest: LatestEvents<TriggerEvent, HOST_EVENTS>,
    /// Number of events.
    pub count: u64,
    /// A bit for each service level that had an event.
    pub levels: u16,
}

impl HostLog {
    #[inline(never)]
    pub fn note(&mut self, event: TriggerEvent) {
        self.count += 1;
        self.levels |= 1 << event.sl;
        self.latest.note(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, source: u32) -> MarkEvent {
        MarkEvent { time: Time(time), source, destination: 0, sl: 0 }
    }

    #[test]
    fn a_full_log_loses_its_oldest_event() {
        let mut log = OutputLog::default();
        (0..SWITCH_EVENTS as u64).for_each(|time| log.note(event(time, 0)));
        assert_eq!((log.events().len(), log.events()[0].time), (15, Time(0)));
        log.note(event(20, 0));
        let times: Vec<u64> = log.events().iter().map(|event| event.time.0).collect();
        assert_eq!(times, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20]);
    }

    #[test]
    fn events_of_one_instant_can_be_noted_in_any_order() {
        let noted = |order: &[u32]| {
            let mut log = OutputLog::default();
            log.note(event(1, 99));
            order.iter().for_each(|&source| log.note(event(2, source)));
            log.events().to_vec()
        };
        let up: Vec<u32> = (0..20).collect();
        let down: Vec<u32> = (0..20).rev().collect();
        let kept: Vec<MarkEvent> = (5..20).map(|source| event(2, source)).collect();
        assert_eq!(noted(&up), kept);
        assert_eq!(noted(&down), kept);
        assert_eq!(noted(&[3, 1, 2]), [event(1, 99), event(2, 1), event(2, 2), event(2, 3)]);
    }

    #[test]
    fn a_host_counts_events_that_its_log_has_lost() {
        let mut log = HostLog::default();
        for time in 0..20 {
            log.note(TriggerEvent { time: Time(time), destination: 1, sl: (time % 2) as u8 * 3, source: 0 });
        }
        assert_eq!((log.count, log.levels, log.latest.events().len()), (20, 0b1001, 13));
        assert_eq!(log.latest.events()[0].time, Time(7));
    }
}
