//! Triggers of traffic that starts after a number of delivered data packets, such as the hot phase of the
//! paper on MVCM.
//!
//! The simulator itself fires a trigger, because the trigger depends on the state of all hosts, which is not
//! available to any component of a network.
//!
//! If there is one partition, a trigger fires at the delivery of the packet that completes its number.
//! Several partitions compute this time together in advance: see `context::Ahead`.

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// A source that waits for its trigger.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Waiting {
    pub host: u32,
    /// Index of the source among the host's sources.
    pub source: u16,
    /// Time from the trigger to the first message of the source.
    pub phase: Time,
}

/// A class of traffic that waits for its trigger.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Trigger {
    pub class: u16,
    pub after_packets: u64,
    /// The time at which the traffic started, if it has started.
    pub started: Option<Time>,
    pub waiting: Vec<Waiting>,
}

/// All triggers, in the order in which they fire.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Triggers {
    list: Vec<Trigger>,
    pulled: usize,
    /// Number of delivered packets at which the next trigger fires; `u64::MAX` if there is none.
    pub next: u64,
}

impl Triggers {
    pub fn new(mut list: Vec<Trigger>) -> Self {
        list.sort_by_key(|trigger| trigger.after_packets);
        let mut triggers = Self { list, pulled: 0, next: 0 };
        triggers.update_next();
        triggers
    }

    fn update_next(&mut self) {
        self.next = self.list.get(self.pulled).map_or(u64::MAX, |trigger| trigger.after_packets);
    }

    /// Fires the next trigger if `delivered` packets are enough, and returns its sources.
    pub fn pull(&mut self, delivered: u64, now: Time) -> Option<&[Waiting]> {
        if delivered < self.next {
            return None;
        }
        let at = self.pull_next(now)?;
        Some(self.waiting(at))
    }

    /// Fires the next trigger if the packet that completes its number is among those delivered at these times
    /// (in order, after `delivered` others). Returns the time and the index of the trigger.
    pub fn plan(&mut self, delivered: u64, times: &[Time]) -> Option<(Time, usize)> {
        let place = self.next.checked_sub(delivered + 1)?;
        let time = *times.get(usize::try_from(place).ok()?)?;
        Some((time, self.pull_next(time)?))
    }

    fn pull_next(&mut self, now: Time) -> Option<usize> {
        let at = self.pulled;
        self.list.get_mut(at)?.started = Some(now);
        self.pulled += 1;
        self.update_next();
        Some(at)
    }

    /// The sources that a trigger starts.
    pub fn waiting(&self, at: usize) -> &[Waiting] {
        &self.list[at].waiting
    }

    /// The same triggers with only the sources of one partition. Hosts are numbered by their positions in
    /// that partition.
    pub fn of_partition(&self, partition: u16, place: impl Fn(u32) -> (u16, u32)) -> Self {
        let mut own = self.clone();
        for trigger in &mut own.list {
            trigger.waiting.retain(|waiting| place(waiting.host).0 == partition);
            trigger.waiting.iter_mut().for_each(|waiting| waiting.host = place(waiting.host).1);
        }
        own
    }

    /// The triggers in order.
    pub fn iter(&self) -> impl Iterator<Item = &Trigger> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(class: u16, after_packets: u64) -> Trigger {
        let waiting = vec![Waiting { host: class.into(), source: 0, phase: Time::ZERO }];
        Trigger { class, after_packets, started: None, waiting }
    }

    #[test]
    fn triggers_fire_in_order_and_once() {
        let mut triggers = Triggers::new(vec![trigger(0, 50), trigger(1, 10), trigger(2, 10)]);
        let mut pull = |delivered, now| {
            let hosts = |waiting: &[Waiting]| waiting.iter().map(|source| source.host).collect::<Vec<_>>();
            triggers.pull(delivered, Time(now)).map(hosts).unwrap_or_default()
        };
        assert_eq!(pull(9, 1), [0; 0]);
        assert_eq!(pull(10, 2), [1]);
        assert_eq!(pull(10, 2), [2]);
        assert_eq!(pull(49, 3), [0; 0]);
        assert_eq!(pull(50, 4), [0]);
        assert_eq!(pull(u64::MAX - 1, 5), [0; 0]);
        let started: Vec<_> = triggers.iter().map(|trigger| (trigger.class, trigger.started)).collect();
        assert_eq!(started, [(1, Some(Time(2))), (2, Some(Time(2))), (0, Some(Time(4)))]);
        assert_eq!(Triggers::new(Vec::new()).next, u64::MAX);
    }

    #[test]
    fn triggers_are_predicted_at_the_packet_that_completes_the_number() {
        let mut triggers =
            Triggers::new(vec![trigger(0, 50), trigger(1, 10), trigger(2, 10), trigger(3, 12)]);
        let times = [3, 5, 5, 8].map(Time);
        assert_eq!(triggers.plan(5, &times), None, "the ninth at most");
        let found: Vec<_> = std::iter::from_fn(|| triggers.plan(8, &times)).collect();
        assert_eq!(found, [(Time(5), 0), (Time(5), 1), (Time(8), 2)]);
        assert_eq!(triggers.next, 50);
        assert_eq!(triggers.waiting(2)[0].host, 3);
    }

    #[test]
    fn a_partition_has_the_sources_of_its_hosts() {
        let triggers = Triggers::new((0..4).map(|class| trigger(class, 1)).collect());
        let own = triggers.of_partition(1, |host| ((host % 2) as u16, 10 + host));
        let hosts: Vec<Vec<u32>> =
            own.iter().map(|trigger| trigger.waiting.iter().map(|waiting| waiting.host).collect()).collect();
        assert_eq!(hosts, [vec![], vec![11], vec![], vec![13]]);
    }
}
