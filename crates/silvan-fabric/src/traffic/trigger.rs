//! Traffic that starts when so many data packets have been delivered: the hot phase of
//! the paper on MVCM.
//!
//! A trigger is the experimenter's hand, as the end of the warm-up is: it knows of all hosts at
//! once, which nothing inside the network does.

use silvan_engine::Time;

/// A source that waits for its trigger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub host: u32,
    /// Its index among the host's sources.
    pub source: u16,
    /// From the trigger to its first message.
    pub phase: Time,
}

/// One class of traffic that waits.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub class: u16,
    pub after_packets: u64,
    /// When it started, once it has.
    pub started: Option<Time>,
    pub waiting: Vec<Waiting>,
}

/// All of them, in the order in which they are pulled.
#[derive(Debug)]
pub(crate) struct Triggers {
    list: Vec<Trigger>,
    pulled: usize,
    /// Packets at which the next one is pulled.
    pub next: u64,
}

impl Triggers {
    pub fn new(mut list: Vec<Trigger>) -> Self {
        list.sort_by_key(|trigger| trigger.after_packets);
        let mut triggers = Self { list, pulled: 0, next: 0 };
        triggers.look_ahead();
        triggers
    }

    fn look_ahead(&mut self) {
        self.next = self.list.get(self.pulled).map_or(u64::MAX, |trigger| trigger.after_packets);
    }

    /// Pulls the next one, if `delivered` packets are enough for it, and gives its sources.
    pub fn pull(&mut self, delivered: u64, now: Time) -> Option<&[Waiting]> {
        if delivered < self.next {
            return None;
        }
        let trigger = self.list.get_mut(self.pulled)?;
        trigger.started = Some(now);
        let at = self.pulled;
        self.pulled += 1;
        self.look_ahead();
        Some(&self.list[at].waiting)
    }

    /// One after the other.
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
    fn triggers_are_pulled_in_turn_and_once() {
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
}
