//! States that all flows from a host to a destination share: those of different queue pairs, and those of different ports if
//! the host has several. A port whose flow waits for such a state is woken when an answer to another port changes the state.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use silvan_engine::saved::{Damaged, Reader, Saved, Writer};

/// The channel on which a port sends.
type PortChannel = u32;

/// A value that the ports of a host share. They belong to the same partition, so no port waits for the lock. Each port saves
/// the value, and restores the same one.
#[derive(Debug, Default)]
pub(super) struct AmongPorts<T>(Arc<Mutex<T>>);

impl<T> AmongPorts<T> {
    /// The same value for another port.
    pub fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    #[inline]
    pub fn with<R>(&self, access: impl FnOnce(&mut T) -> R) -> R {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Saved> Saved for AmongPorts<T> {
    const LAYOUT: u64 = T::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        self.with(|value| value.save(to));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.with(|value| value.restore(from))
    }
}

/// The destinations of the flows of one port.
#[derive(Debug, Default, Saved)]
pub struct Destinations {
    /// For each flow, the number of its destination.
    of_flow: Vec<u32>,
    /// For each host of the network model, which is a port, the host to which it belongs. Empty if all hosts have one port.
    #[saved(constant)]
    host_of: Arc<[u32]>,
    common: AmongPorts<Common>,
}

#[derive(Debug, Default, Saved)]
struct Common {
    /// For each host to which a flow has begun, its number.
    numbers: FxHashMap<u32, u32>,
    /// For each number, the ports with flows that wait, in the order in which they began to wait.
    waiting: Vec<Vec<PortChannel>>,
    /// Ports that an answer to another port concerns, with the number of the destination.
    concerned: Vec<(PortChannel, u32)>,
    /// Ports that are to be woken.
    to_wake: Vec<PortChannel>,
}

impl Destinations {
    /// Determines the host to which each port of the network belongs.
    pub fn set_hosts(&mut self, host_of: Arc<[u32]>) {
        self.host_of = host_of;
    }

    pub(super) fn share_with(&mut self, other: &Self) {
        self.common = other.common.share();
    }

    /// The number of a flow's destination.
    #[inline]
    pub fn of_flow(&self, flow: u32) -> u32 {
        self.of_flow[flow as usize]
    }

    fn host_of(&self, port: u32) -> u32 {
        self.host_of.get(port as usize).copied().unwrap_or(port)
    }

    /// The number of the host to which a port belongs, if a flow to it has begun.
    pub(super) fn number(&self, port: u32) -> Option<u32> {
        let host = self.host_of(port);
        self.common.with(|common| common.numbers.get(&host).copied())
    }

    /// Begins a flow to a port. Returns the number of the host to which the port belongs.
    pub(super) fn begin(&mut self, flow: u32, port: u32) -> u32 {
        let host = self.host_of(port);
        let number = self.common.with(|common| {
            let next = common.numbers.len() as u32;
            let number = *common.numbers.entry(host).or_insert(next);
            if number == next {
                common.waiting.push(Vec::new());
            }
            number
        });
        let flow = flow as usize;
        if flow >= self.of_flow.len() {
            self.of_flow.resize(flow + 1, 0);
        }
        self.of_flow[flow] = number;
        number
    }

    /// Records that a flow of a port waits for an answer.
    pub fn wait(&self, flow: u32, port: PortChannel) {
        self.common.with(|common| {
            let waiting = &mut common.waiting[self.of_flow(flow) as usize];
            if !waiting.contains(&port) {
                waiting.push(port);
            }
        });
    }

    /// Records that the state of a flow of `port` has changed. Other ports with flows that wait for it are to be woken.
    pub fn changed(&self, flow: u32, port: PortChannel) {
        let number = self.of_flow(flow);
        self.common.with(|Common { waiting, concerned, to_wake, .. }| {
            waiting[number as usize].retain(|&other| {
                if other != port {
                    concerned.push((other, number));
                    to_wake.push(other);
                }
                other == port
            });
        });
    }

    /// The ports that are to be woken; empties their list.
    pub fn take_to_wake(&self) -> Vec<PortChannel> {
        self.common.with(|common| std::mem::take(&mut common.to_wake))
    }

    /// The numbers of the destinations whose states answers to other ports have changed since the last call for this port.
    pub fn take_changed(&self, port: PortChannel) -> Vec<u32> {
        self.common.with(|Common { concerned, .. }| {
            let found = concerned.iter().filter(|one| one.0 == port).map(|one| one.1).collect();
            concerned.retain(|one| one.0 != port);
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_host_share_its_destinations_and_wake_each_other() {
        // Ports 0 and 2 belong to one host, 1 and 3 to another.
        let host_of: Arc<[u32]> = [0, 1, 0, 1].into();
        let mut ports = [Destinations::default(), Destinations::default()];
        let [one, two] = &mut ports;
        two.share_with(one);
        one.set_hosts(Arc::clone(&host_of));
        two.set_hosts(host_of);
        assert_eq!([one.begin(0, 1), two.begin(0, 3), two.begin(1, 2), one.begin(7, 0)], [0, 0, 1, 1]);
        one.wait(0, 10);
        two.wait(0, 20);
        two.wait(0, 20);
        two.wait(1, 20);
        one.changed(0, 10);
        assert_eq!((one.take_changed(10), one.take_to_wake()), (vec![], vec![20]), "only the other port");
        assert_eq!((two.take_changed(20), two.take_changed(20)), (vec![0], vec![]));
        two.changed(0, 20);
        assert_eq!((one.take_changed(10), two.take_to_wake()), (vec![0], vec![10]), "port 10 still waits");
    }
}
