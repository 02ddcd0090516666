//! The flows of a host: who has something to send, who may.
//!
//! State exists only for flows that have something pending or are held back by congestion
//! control; a flow that is neither leaves no trace. Flows that may send form a ring and are
//! served round robin, a packet each. Throttled ones wait in a heap by the time they may go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use crate::congestion::reaction::CctState;
use crate::traffic::source::Message;

/// Index of a flow in its [`FlowTable`].
pub(crate) type FlowId = u32;

/// Where a flow waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing to send.
    Idle,
    /// In the ring.
    Ready,
    /// In the heap.
    Throttled,
    /// With the host, for want of something of its own.
    Held,
}

/// What one source of a host sends to one destination.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub destination: u32,
    /// Which of the host's sources it belongs to.
    pub source: u16,
    place: Place,
    /// The message being cut into packets comes first.
    pub messages: VecDeque<Message>,
    pub cct: CctState,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    free: Vec<FlowId>,
    by_pair: FxHashMap<(u16, u32), FlowId>,
    ring: VecDeque<FlowId>,
    throttled: BinaryHeap<Reverse<(Time, FlowId)>>,
}

impl FlowTable {
    /// The flow of a source to a destination, if it has any state.
    pub fn find(&self, source: u16, destination: u32) -> Option<FlowId> {
        self.by_pair.get(&(source, destination)).copied()
    }

    /// The flow of a source to a destination, made if need be with `fresh` control state.
    #[inline]
    pub fn entry(&mut self, source: u16, destination: u32, fresh: CctState) -> FlowId {
        let (flows, free) = (&mut self.flows, &mut self.free);
        *self.by_pair.entry((source, destination)).or_insert_with(|| {
            if let Some(id) = free.pop() {
                // A forgotten flow leaves its empty queue of messages for the next one.
                let flow = &mut flows[id as usize];
                (flow.destination, flow.source, flow.place, flow.cct) =
                    (destination, source, Place::Idle, fresh);
                id
            } else {
                let place = Place::Idle;
                flows.push(Flow { destination, source, place, messages: VecDeque::new(), cct: fresh });
                (flows.len() - 1) as FlowId
            }
        })
    }

    /// Drops a flow's state; it must be idle.
    #[inline]
    pub fn forget(&mut self, id: FlowId) {
        let flow = &self.flows[id as usize];
        debug_assert!(flow.place == Place::Idle && flow.messages.is_empty());
        self.by_pair.remove(&(flow.source, flow.destination));
        self.free.push(id);
    }

    /// Drops idle flows that `is_fresh`, when there are many.
    pub fn forget_fresh(&mut self, is_fresh: impl Fn(&Flow) -> bool) {
        let stale: Vec<FlowId> = self
            .by_pair
            .values()
            .copied()
            .filter(|&id| {
                let flow = &self.flows[id as usize];
                flow.place == Place::Idle && is_fresh(flow)
            })
            .collect();
        stale.into_iter().for_each(|id| self.forget(id));
        // The order of `values` is that of a hash table: restore an order of our own.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Flows with state.
    pub fn len(&self) -> usize {
        self.by_pair.len()
    }

    #[inline]
    pub fn get(&self, id: FlowId) -> &Flow {
        &self.flows[id as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id as usize]
    }

    /// Whether the flow waits in ring or heap, or with the host.
    #[inline]
    pub fn is_queued(&self, id: FlowId) -> bool {
        self.flows[id as usize].place != Place::Idle
    }

    /// Puts a flow at the end of the ring.
    #[inline]
    pub fn make_ready(&mut self, id: FlowId) {
        self.flows[id as usize].place = Place::Ready;
        self.ring.push_back(id);
    }

    /// Puts a flow back to the head of the ring: it keeps its turn.
    #[inline]
    pub fn keep_turn(&mut self, id: FlowId) {
        self.flows[id as usize].place = Place::Ready;
        self.ring.push_front(id);
    }

    /// Notes that the host keeps a flow that is in neither ring nor heap.
    #[inline]
    pub fn hold(&mut self, id: FlowId) {
        self.flows[id as usize].place = Place::Held;
    }

    /// Lets a flow wait until `time`.
    #[inline]
    pub fn throttle(&mut self, id: FlowId, time: Time) {
        self.flows[id as usize].place = Place::Throttled;
        self.throttled.push(Reverse((time, id)));
    }

    /// Takes the flow whose turn it is out of the ring.
    #[inline]
    pub fn take_turn(&mut self) -> Option<FlowId> {
        let id = self.ring.pop_front()?;
        self.flows[id as usize].place = Place::Idle;
        Some(id)
    }

    /// Number of flows in the ring.
    #[inline]
    pub fn ready(&self) -> usize {
        self.ring.len()
    }

    /// Takes the throttled flow whose time came first; of those whose time is the same, the one
    /// with the lower number, which is the one that came into being first unless it took the
    /// place of a forgotten one.
    #[inline]
    pub fn take_released(&mut self, now: Time) -> Option<FlowId> {
        let Reverse((time, id)) = *self.throttled.peek()?;
        if time > now {
            return None;
        }
        self.throttled.pop();
        self.flows[id as usize].place = Place::Idle;
        Some(id)
    }

    /// When the next throttled flow may go on.
    #[inline]
    pub fn next_release(&self) -> Option<Time> {
        self.throttled.peek().map(|entry| entry.0.0)
    }

    /// Number of flows that wait for their delay to pass.
    pub fn throttled(&self) -> usize {
        self.throttled.len()
    }
}
