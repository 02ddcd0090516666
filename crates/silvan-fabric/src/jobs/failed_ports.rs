//! The ports of hosts that fail during a run.

use std::collections::BTreeSet;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// A port of a host is taken out of use, or used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortChange {
    pub time: Time,
    pub port: u32,
    pub is_failed: bool,
}

/// The ports of hosts that are not in use because they have failed.
#[derive(Debug, Saved)]
pub(super) struct FailedPorts {
    /// In the order of time.
    #[saved(constant)]
    changes: Vec<PortChange>,
    /// Number of changes that have taken effect.
    passed: usize,
    /// Hosts of the network, each of which is one port.
    now: BTreeSet<u32>,
}

impl FailedPorts {
    pub fn new(changes: Vec<PortChange>) -> Self {
        Self { changes, passed: 0, now: BTreeSet::new() }
    }

    /// The time of the next change.
    pub fn next(&self) -> Option<Time> {
        self.changes.get(self.passed).map(|change| change.time)
    }

    /// Has all changes that are due take effect. Returns the ports from which messages may now move: those that have failed and,
    /// if another port has returned, all that are not in use.
    #[inline]
    pub fn take_due(&mut self, now: Time) -> Vec<u32> {
        let due = self.changes[self.passed..].iter().take_while(|change| change.time <= now);
        let (mut failed, mut has_returned) = (Vec::new(), false);
        for &PortChange { port, is_failed, .. } in due {
            self.passed += 1;
            if is_failed {
                self.now.insert(port);
                failed.push(port);
            } else {
                has_returned |= self.now.remove(&port);
            }
        }
        if has_returned { self.now.iter().copied().collect() } else { failed }
    }

    /// Whether both ports of a pair are in use.
    pub fn are_live(&self, (from, to): (u32, u32)) -> bool {
        !self.now.contains(&from) && !self.now.contains(&to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_fail_and_return_at_their_times() {
        let change = |time, port, is_failed| PortChange { time: Time(time), port, is_failed };
        let mut ports = FailedPorts::new(vec![change(5, 1, true), change(5, 2, true), change(9, 1, false)]);
        assert_eq!((ports.next(), ports.take_due(Time(4))), (Some(Time(5)), vec![]));
        assert_eq!(ports.take_due(Time(5)), [1, 2]);
        assert!(!ports.are_live((1, 4)) && !ports.are_live((4, 2)) && ports.are_live((3, 4)));
        assert_eq!(ports.take_due(Time(20)), [2], "messages of port 2 may now move to port 1");
        assert!(ports.are_live((1, 4)) && ports.next().is_none());
    }
}
