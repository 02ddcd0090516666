//! The sources of a host that may generate messages now. A host with many sources skips those that have not
//! started or have ended.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::Source;

/// The sources of a host, by their state.
#[derive(Debug, Saved)]
pub(super) struct Live {
    /// Indexes of the sources that have started and not ended, in ascending order.
    now: Vec<u16>,
    /// The sources that have not started, with the times at which they start, the earliest one last.
    later: Vec<(Time, u16)>,
}

impl Live {
    /// The minimum number of sources for which a host uses this list.
    pub const LEAST: usize = 8;

    pub fn new(sources: &[Source]) -> Self {
        let lasting = (0..).zip(sources).filter(|(_, source)| !source.is_over(Time::ZERO));
        let mut later: Vec<_> = lasting.map(|(index, source)| (source.next_at, index)).collect();
        later.sort_unstable_by(|one, other| other.cmp(one));
        Self { now: Vec::new(), later }
    }

    /// Adds a source that starts at `start`.
    pub fn add(&mut self, start: Time, index: u16) {
        let at = self.later.partition_point(|&one| one > (start, index));
        self.later.insert(at, (start, index));
    }

    /// Moves the sources that have started by `now` to the list of active sources.
    pub fn advance(&mut self, now: Time) {
        while let Some(&(start, index)) = self.later.last()
            && start <= now
        {
            self.later.pop();
            let at = self.now.partition_point(|&other| other < index);
            self.now.insert(at, index);
        }
    }

    /// Removes the sources that generate no more messages after `now`.
    pub fn retain(&mut self, sources: &[Source], now: Time) {
        self.now.retain(|&index| !sources[usize::from(index)].is_over(now));
    }

    /// Indexes of the sources that have started.
    pub fn indexes(&self) -> &[u16] {
        &self.now
    }

    /// The time at which the next source starts.
    pub fn next_start(&self) -> Option<Time> {
        self.later.last().map(|&(start, _)| start)
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::random::Stream;

    use super::*;
    use silvan_network::traffic::source::{Chooser, Clock};

    fn source(start: u64, left: u64) -> Source {
        Source {
            class: 0,
            sl: 0,
            vl: 0,
            chooser: Chooser::Fixed(1),
            clock: Clock::Saturating,
            message: 1000,
            varied: None,
            next_at: Time(start),
            stop: Time(100),
            left,
            destinations: Stream::new(1, "destinations", 0),
            arrivals: Stream::new(1, "arrivals", 0),
            backlog: 0,
            ready: 0,
        }
    }

    #[test]
    fn sources_are_live_from_their_start_to_their_end() {
        // The second one waits for a trigger, the third one has no data, and the fourth one starts at its
        // stop time.
        let mut sources =
            [source(50, 9), source(u64::MAX, 9), source(0, 0), source(100, 9), source(10, 9), source(50, 9)];
        let mut live = Live::new(&sources);
        assert_eq!((live.indexes(), live.next_start()), (&[][..], Some(Time(10))));
        live.advance(Time(10));
        assert_eq!((live.indexes(), live.next_start()), (&[4][..], Some(Time(50))));
        live.add(Time(30), 1);
        assert_eq!(live.next_start(), Some(Time(30)));
        live.advance(Time(50));
        assert_eq!((live.indexes(), live.next_start()), (&[0, 1, 4, 5][..], None));
        sources[4].left = 0;
        sources[1].next_at = Time(30);
        live.retain(&sources, Time(60));
        assert_eq!(live.indexes(), [0, 1, 5]);
        live.retain(&sources, Time(100));
        assert_eq!(live.indexes(), [0; 0], "saturating sources end at their stop time");
    }
}
