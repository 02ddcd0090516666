//! The flows of a host: which of them have something to send, and which may send.
//!
//! State exists only for flows that have messages or that the reaction still affects. Flows that may send form a ring
//! and are served round robin, a packet each. Throttled flows wait in a heap, by the time at which they may send;
//! closed flows wait for an answer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use silvan_engine::Time;
use silvan_engine::cache::prefetch;

use super::index::{Index, hash};
use crate::traffic::source::Message;

/// Index of a flow in its [`FlowTable`].
pub(crate) type FlowId = u32;

/// Identifies a flow of a host: the source (traffic generator) and the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Connection {
    pub source: u16,
    pub destination: u32,
}

/// No flow.
pub(super) const NONE: FlowId = FlowId::MAX;

/// Where a flow waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing to send.
    Idle,
    /// In the ring.
    Ready,
    /// In the heap.
    Throttled,
    /// With the host: it lacks credit or a resource of its own.
    Held,
    /// Until an answer, a grant or a timer lets it send.
    Closed,
    /// Not a flow: free for the next one.
    Free,
}

/// Messages in the order in which they were generated. Most flows have one, which needs no extra memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    first: Option<Message>,
    #[expect(clippy::box_collection, reason = "most flows have none, and many lie side by side")]
    others: Option<Box<VecDeque<Message>>>,
}

impl Messages {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub fn first(&self) -> Option<&Message> {
        self.first.as_ref()
    }

    #[inline]
    pub fn first_mut(&mut self) -> Option<&mut Message> {
        self.first.as_mut()
    }

    #[inline]
    pub fn push(&mut self, message: Message) {
        if self.first.is_none() {
            self.first = Some(message);
        } else {
            self.others.get_or_insert_default().push_back(message);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        self.first.iter().chain(self.others.iter().flat_map(|others| others.iter()))
    }

    /// Takes the first one out.
    #[inline]
    pub fn pop(&mut self) -> Option<Message> {
        let next = self.others.as_mut().and_then(|others| others.pop_front());
        std::mem::replace(&mut self.first, next)
    }
}

/// What one source of a host sends to one destination. One cache line. The reaction stores its own state by the
/// flow's index.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    pub destination: u32,
    /// The flow after it in the ring, or among those that are free.
    next: FlowId,
    /// When it may send, if it is throttled.
    release_at: Time,
    /// The first one is being cut into packets.
    pub messages: Messages,
    /// Which of the host's sources it belongs to.
    pub source: u16,
    place: Place,
    /// Whether it may send when its turn comes: no answer has arrived since that was found.
    pub may_send: bool,
}

/// See the module. Lists are linked through the flows themselves, so that little memory is touched where there are
/// few flows.
#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    /// The flows with state.
    index: Index,
    free: FlowId,
    /// First and last flow of the ring, and their number.
    first: FlowId,
    last: FlowId,
    ready: u32,
    /// By time, then by the source that was served longest ago.
    throttled: BinaryHeap<Reverse<(Time, u64, FlowId)>>,
    /// Packets served so far, and per source the number of its last one; zero for none.
    served: u64,
    last_served: Vec<u64>,
    /// Flows that are throttled or closed.
    waiting: u32,
}

impl Default for FlowTable {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            index: Index::default(),
            free: NONE,
            first: NONE,
            last: NONE,
            ready: 0,
            throttled: BinaryHeap::new(),
            served: 0,
            last_served: Vec::new(),
            waiting: 0,
        }
    }
}

impl FlowTable {
    /// The flow of a source to a destination, if it has any state.
    #[inline]
    pub fn find(&self, source: u16, destination: u32) -> Option<FlowId> {
        self.index.find(hash(source, destination), |id| {
            let flow = &self.flows[id as usize];
            flow.destination == destination && flow.source == source
        })
    }

    /// The flow of a source to a destination. If it has no state yet, it is made, and `begin` is called with its
    /// index: that of a forgotten flow, or the next one after the last.
    #[inline]
    pub fn entry(&mut self, source: u16, destination: u32, begin: impl FnOnce(FlowId)) -> FlowId {
        if let Some(id) = self.find(source, destination) {
            return id;
        }
        let id = self.free;
        let (place, next) = (Place::Idle, NONE);
        let id = if let Some(flow) = self.flows.get_mut(id as usize) {
            // A forgotten flow leaves its empty queue of messages for the next one.
            self.free = flow.next;
            (flow.destination, flow.source, flow.place) = (destination, source, place);
            flow.may_send = false;
            id
        } else {
            let messages = Messages::default();
            self.flows.push(Flow {
                destination,
                source,
                place,
                release_at: Time::ZERO,
                may_send: false,
                next,
                messages,
            });
            (self.flows.len() - 1) as FlowId
        };
        begin(id);
        self.index.insert(hash(source, destination), id);
        id
    }

    /// Drops a flow's state; it must be idle.
    #[inline]
    pub fn forget(&mut self, id: FlowId) {
        let flow = &self.flows[id as usize];
        debug_assert!(flow.place == Place::Idle && flow.messages.is_empty());
        self.index.remove(hash(flow.source, flow.destination), id);
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.next) = (Place::Free, self.free);
        self.free = id;
    }

    /// Drops idle flows that `is_fresh`, when there are many.
    pub fn forget_fresh(&mut self, mut is_fresh: impl FnMut(FlowId, &Flow) -> bool) {
        for id in 0..self.flows.len() {
            let flow = &self.flows[id];
            if flow.place == Place::Idle && flow.messages.is_empty() && is_fresh(id as FlowId, flow) {
                self.forget(id as FlowId);
            }
        }
        // Free places with the lowest indexes are used first.
        self.free = NONE;
        for (id, flow) in self.flows.iter_mut().enumerate().rev() {
            if flow.place == Place::Free {
                flow.next = std::mem::replace(&mut self.free, id as FlowId);
            }
        }
    }

    /// Flows with state.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Prefetches the flow that is needed first; gives its index.
    #[inline]
    pub fn prefetch(&self) -> FlowId {
        let id = if self.first == NONE { self.free } else { self.first };
        prefetch(&self.flows, id as usize);
        self.index.prefetch();
        id
    }

    #[inline]
    pub fn get(&self, id: FlowId) -> &Flow {
        &self.flows[id as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id as usize]
    }

    /// The flows with messages, and whether each is in some list.
    pub fn with_messages(&self) -> impl Iterator<Item = (&Flow, bool)> {
        let waiting = self.flows.iter().filter(|flow| !flow.messages.is_empty());
        waiting.map(|flow| (flow, !matches!(flow.place, Place::Idle | Place::Free)))
    }

    /// Whether the flow is in a list: ring, heap, closed, or with the host.
    #[inline]
    pub fn is_queued(&self, id: FlowId) -> bool {
        self.flows[id as usize].place != Place::Idle
    }

    /// Puts a flow at the end of the ring.
    #[inline]
    pub fn make_ready(&mut self, id: FlowId) {
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.next) = (Place::Ready, NONE);
        if self.ready == 0 {
            self.first = id;
        } else {
            self.flows[self.last as usize].next = id;
        }
        self.last = id;
        self.ready += 1;
    }

    /// Puts a flow back at the head of the ring: it keeps its turn.
    #[inline]
    pub fn keep_turn(&mut self, id: FlowId) {
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.next) = (Place::Ready, self.first);
        if self.ready == 0 {
            self.last = id;
        }
        self.first = id;
        self.ready += 1;
    }

    /// Moves the flow of the ring with the smallest `key` to its head.
    pub fn bring_first(&mut self, key: impl Fn(&Flow) -> u128) {
        let (mut at, mut before) = (self.first, NONE);
        let mut best = (u128::MAX, NONE, NONE);
        for _ in 0..self.ready {
            let flow = &self.flows[at as usize];
            let own = key(flow);
            if own < best.0 {
                best = (own, at, before);
            }
            (before, at) = (at, flow.next);
        }
        let (_, id, before) = best;
        if id == NONE || before == NONE {
            return;
        }
        self.flows[before as usize].next = self.flows[id as usize].next;
        if self.last == id {
            self.last = before;
        }
        self.flows[id as usize].next = self.first;
        self.first = id;
    }

    /// Notes that the host keeps a flow in a list of its own.
    #[inline]
    pub fn hold(&mut self, id: FlowId) {
        self.flows[id as usize].place = Place::Held;
    }

    /// Makes a flow wait until `time`.
    #[inline]
    pub fn throttle(&mut self, id: FlowId, time: Time) {
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.release_at) = (Place::Throttled, time);
        let source = usize::from(flow.source);
        let served = self.last_served.get(source).copied().unwrap_or_default();
        self.throttled.push(Reverse((time, served, id)));
        self.waiting += 1;
    }

    /// Makes a flow wait for an answer, a grant or a timer.
    pub fn close(&mut self, id: FlowId) {
        self.flows[id as usize].place = Place::Closed;
        self.waiting += 1;
    }

    /// Ends the wait of a throttled or closed flow. Returns whether it was one.
    pub fn reopen(&mut self, id: FlowId) -> bool {
        let flow = &mut self.flows[id as usize];
        // Its entry in the heap is skipped later.
        let waits = matches!(flow.place, Place::Throttled | Place::Closed);
        if waits {
            flow.place = Place::Idle;
            self.waiting -= 1;
        }
        waits
    }

    /// Takes the flow whose turn it is out of the ring.
    #[inline]
    pub fn take_turn(&mut self) -> Option<FlowId> {
        let id = self.first;
        let flow = self.flows.get_mut(id as usize)?;
        flow.place = Place::Idle;
        self.first = flow.next;
        self.ready -= 1;
        Some(id)
    }

    /// Number of flows in the ring.
    #[inline]
    pub fn ready(&self) -> usize {
        self.ready as usize
    }

    /// Notes that a packet of a source is sent.
    #[inline]
    pub fn serve(&mut self, source: u16) {
        let source = usize::from(source);
        if source >= self.last_served.len() {
            self.last_served.resize(source + 1, 0);
        }
        self.served += 1;
        self.last_served[source] = self.served;
    }

    /// Takes the throttled flow with the earliest time. Among equal times (all flows of a service level, if state
    /// belongs to those) it is the one whose source was served longest ago, then the one with the lower index.
    #[inline]
    pub fn take_released(&mut self, now: Time) -> Option<FlowId> {
        if self.next_release()? > now {
            return None;
        }
        let Reverse((_, _, id)) = self.throttled.pop()?;
        self.flows[id as usize].place = Place::Idle;
        self.waiting -= 1;
        Some(id)
    }

    /// When the next throttled flow may send.
    #[inline]
    pub fn next_release(&mut self) -> Option<Time> {
        loop {
            let Reverse((time, _, id)) = *self.throttled.peek()?;
            let flow = &self.flows[id as usize];
            if flow.place == Place::Throttled && flow.release_at == time {
                return Some(time);
            }
            // A flow that was released earlier left its entry here, and may wait again until another time.
            self.throttled.pop();
        }
    }

    /// Number of throttled and closed flows.
    pub fn throttled(&self) -> usize {
        self.waiting as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_one_cache_line() {
        assert_eq!(size_of::<Flow>(), 64);
    }
}
