//! The flows of a host: those that have data to send, and those that may send.
//!
//! State exists only for flows that have messages or that the reaction still affects. Flows that may send
//! form a ring, which is served round robin, one packet each. Held flows lack a resource: credit, room, or
//! permission for their destination. Throttled flows wait in a heap, ordered by the time at which they may
//! send. Closed flows wait for an answer, a grant or a timer.
//!
//! Lost packets precede the messages of their flow, in ascending order of their numbers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::{Message, Source};

use super::index::{FlowId, Index, NONE, hash};
use crate::packet::Segment;

/// Identifies a flow of a host by its source (traffic generator) and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
pub(super) struct Connection {
    pub source: u16,
    pub destination: u32,
}

/// The list in which a flow waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum FlowList {
    /// In no list.
    Idle,
    /// In the ring, in the held flows, or in a list of the host.
    Listed,
    /// In the heap, until a known time.
    Throttled,
    /// In no list until an answer, a grant or a timer.
    Closed,
    /// In the list of unused entries.
    Free,
}

/// Messages in the order in which they were generated. Most flows have a single message, which is stored
/// without extra memory.
#[derive(Debug, Clone, Default, Saved)]
pub(crate) struct MessageQueue {
    first: Option<Message>,
    #[expect(clippy::box_collection, reason = "most flows have none, and many lie side by side")]
    others: Option<Box<VecDeque<Message>>>,
}

impl MessageQueue {
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

    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        self.first.iter().chain(self.others.iter().flat_map(|others| others.iter()))
    }

    /// Removes the first message.
    #[inline]
    pub fn pop(&mut self) -> Option<Message> {
        let next = self.others.as_mut().and_then(|others| others.pop_front());
        std::mem::replace(&mut self.first, next)
    }
}

/// The traffic from one source of a host to one destination. Occupies one cache line. Its index also
/// identifies the flow's state in the reaction.
#[derive(Debug, Clone, Saved)]
#[repr(C, align(64))]
pub(crate) struct QueuedFlow {
    pub destination: u32,
    /// The next flow of its list, or the next unused entry.
    next: FlowId,
    /// The previous flow in its list. Undefined for the first one.
    previous: FlowId,
    /// If throttled, the time at which the flow may send.
    #[saved(latest)]
    release_at: Time,
    /// The first message may have been sent in part.
    pub messages: MessageQueue,
    /// Index of the flow's source at the host.
    pub source: u16,
    place: FlowList,
    /// Whether the flow may send when its turn comes, according to the last check. `Host::recheck_permission`
    /// clears this flag.
    pub may_send: bool,
}

const _: () = assert!(size_of::<QueuedFlow>() == 64);

impl QueuedFlow {
    /// Whether the flow is in a list: it waits for its turn, a time, credit, or an answer.
    pub fn is_listed(&self) -> bool {
        !matches!(self.place, FlowList::Idle | FlowList::Free)
    }
}

/// The lists are linked through the flows, so hosts with few flows use little memory.
#[derive(Debug, Saved)]
pub(crate) struct FlowTable {
    flows: Vec<QueuedFlow>,
    /// Finds flows with state by source and destination.
    index: Index,
    free: FlowId,
    /// The flows that may send, in the order of their turns.
    ring: List,
    /// The flows that lack a resource, in the order in which they were held.
    held: List,
    /// Held flows that do not take part in the present attempt to send, because the output buffer still refuses them.
    /// They follow the flows of the ring. Empty between attempts.
    #[saved(scratch)]
    passed: List,
    /// Whether the output buffer has refused all held flows, and nothing has changed since then.
    #[saved(scratch)]
    are_refused: bool,
    /// For each source, the number of its held flows.
    held_of: Vec<u32>,
    /// Ordered by time. Among equal times, the flow whose source was served longest ago comes first.
    #[saved(order)]
    throttled: BinaryHeap<Reverse<(Time, u64, FlowId)>>,
    /// The number of packets served so far.
    #[saved(order)]
    served: u64,
    /// For each source, the value of `served` after its last packet; zero if it was never served.
    #[saved(order)]
    last_served: Vec<u64>,
    /// Packets that must be sent again, by number, for each flow that has any.
    lost: FxHashMap<FlowId, BTreeMap<u64, Segment>>,
    /// Number of flows that are throttled or closed.
    waiting: u32,
    /// For each flow, a number that grows each time a flow begins to wait. Empty unless [`Self::keep_order`]
    /// was called.
    #[saved(order)]
    began: Vec<u64>,
    keeps_order: bool,
    #[saved(order)]
    begun: u64,
}

/// A list of flows, linked through [`QueuedFlow::next`].
#[derive(Debug, Clone, Copy, Saved)]
struct List {
    /// The first and last flow. Undefined while the list is empty, except that both are [`NONE`] before the
    /// first flow.
    first: FlowId,
    last: FlowId,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    #[inline]
    fn push(&mut self, flows: &mut [QueuedFlow], id: FlowId) {
        let flow = &mut flows[id as usize];
        (flow.next, flow.previous) = (NONE, self.last);
        if self.len == 0 {
            self.first = id;
        } else {
            flows[self.last as usize].next = id;
        }
        self.last = id;
        self.len += 1;
    }

    #[inline]
    fn push_first(&mut self, flows: &mut [QueuedFlow], id: FlowId) {
        flows[id as usize].next = self.first;
        if self.len == 0 {
            self.last = id;
        } else {
            flows[self.first as usize].previous = id;
        }
        self.first = id;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self, flows: &[QueuedFlow]) -> Option<FlowId> {
        let id = self.first;
        self.first = flows.get(id as usize)?.next;
        self.len -= 1;
        Some(id)
    }

    /// Removes a flow of the list.
    fn unlink(&mut self, flows: &mut [QueuedFlow], id: FlowId) {
        debug_assert!(self.iter(flows).any(|other| other == id), "the flow is in the list");
        let QueuedFlow { previous, next, .. } = flows[id as usize];
        if id == self.first {
            self.first = next;
        } else {
            flows[previous as usize].next = next;
        }
        if id == self.last {
            self.last = previous;
        } else {
            flows[next as usize].previous = previous;
        }
        self.len -= 1;
    }

    /// The flows of the list, in order.
    fn iter(&self, flows: &[QueuedFlow]) -> impl Iterator<Item = FlowId> {
        let after = |&id: &FlowId| Some(flows[id as usize].next);
        std::iter::successors(Some(self.first), after).take(self.len as usize)
    }

    /// Appends another list, which is empty afterwards.
    fn append(&mut self, flows: &mut [QueuedFlow], other: &mut Self) {
        if self.len == 0 {
            *self = *other;
        } else if other.len > 0 {
            flows[self.last as usize].next = other.first;
            flows[other.first as usize].previous = self.last;
            self.last = other.last;
            self.len += other.len;
        }
        *other = Self::default();
    }
}

impl Default for FlowTable {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            index: Index::default(),
            free: NONE,
            ring: List::default(),
            held: List::default(),
            passed: List::default(),
            are_refused: false,
            held_of: Vec::new(),
            throttled: BinaryHeap::new(),
            served: 0,
            last_served: Vec::new(),
            lost: FxHashMap::default(),
            waiting: 0,
            began: Vec::new(),
            keeps_order: false,
            begun: 0,
        }
    }
}

impl FlowTable {
    /// Payload of the next packet of a flow, in bytes.
    #[inline]
    pub fn next_payload(&self, id: FlowId, mtu: u32) -> u32 {
        if let Some(packet) = self.first_lost(id) {
            return packet.bytes;
        }
        let left = self.get(id).messages.first().map_or(0, |message| message.left);
        left.min(u64::from(mtu)) as u32
    }

    /// The first packet that a flow is to send again; `None` without such packets.
    #[inline]
    fn first_lost(&self, id: FlowId) -> Option<&Segment> {
        if self.lost.is_empty() {
            return None;
        }
        self.lost.get(&id)?.first_key_value().map(|(_, packet)| packet)
    }

    /// Whether a flow has data to send.
    #[inline]
    pub fn has_data(&self, id: FlowId) -> bool {
        !self.get(id).messages.is_empty() || self.first_lost(id).is_some()
    }

    /// Adds a packet that a flow is to send again.
    pub fn add_lost(&mut self, id: FlowId, number: u64, packet: Segment) {
        self.are_refused = false;
        self.lost.entry(id).or_default().insert(number, packet);
    }

    /// Removes and returns the first packet that a flow is to send again, with its number; `None` without
    /// such packets.
    #[inline(always)]
    pub fn take_lost(&mut self, id: FlowId) -> Option<(u64, Segment)> {
        if self.lost.is_empty() {
            return None;
        }
        let packets = self.lost.get_mut(&id)?;
        let first = packets.pop_first();
        if packets.is_empty() {
            self.lost.remove(&id);
        }
        first
    }

    /// The lowest number of the flow's packets that are to be sent again.
    pub fn lowest_lost(&self, id: FlowId) -> Option<u64> {
        self.lost.get(&id)?.keys().next().copied()
    }

    /// Payload that a flow is to send again, in bytes.
    pub fn lost_bytes(&self, id: FlowId) -> u64 {
        self.lost.get(&id).into_iter().flatten().map(|(_, packet)| u64::from(packet.bytes)).sum()
    }

    /// The flow from a source to a destination, if it has state.
    #[inline]
    pub fn find(&self, source: u16, destination: u32) -> Option<FlowId> {
        self.index.find(hash(source, destination), |id| {
            let flow = &self.flows[id as usize];
            flow.destination == destination && flow.source == source
        })
    }

    /// The flow from a source to a destination. If the flow has no state, reuses the first unused entry or
    /// adds one, and calls `begin` with its index.
    #[inline]
    pub fn entry(&mut self, source: u16, destination: u32, begin: impl FnOnce(FlowId)) -> FlowId {
        if let Some(id) = self.find(source, destination) {
            return id;
        }
        let id = self.free;
        let (place, next) = (FlowList::Idle, NONE);
        let id = if let Some(flow) = self.flows.get_mut(id as usize) {
            // The next flow reuses the empty message queue of the entry.
            self.free = flow.next;
            (flow.destination, flow.source, flow.place) = (destination, source, place);
            flow.may_send = false;
            id
        } else {
            let messages = MessageQueue::default();
            if self.keeps_order {
                self.began.push(0);
            }
            self.flows.push(QueuedFlow {
                destination,
                source,
                place,
                release_at: Time::ZERO,
                may_send: false,
                next,
                previous: NONE,
                messages,
            });
            (self.flows.len() - 1) as FlowId
        };
        begin(id);
        self.index.insert(hash(source, destination), id);
        id
    }

    /// Removes the state of a flow, which must be idle and have no messages.
    #[inline]
    pub fn forget(&mut self, id: FlowId) {
        let flow = &self.flows[id as usize];
        debug_assert!(flow.place == FlowList::Idle && flow.messages.is_empty());
        self.index.remove(hash(flow.source, flow.destination), id);
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.next) = (FlowList::Free, self.free);
        self.free = id;
    }

    /// Removes the idle flows without messages for which `is_fresh` returns true.
    pub fn forget_fresh(&mut self, mut is_fresh: impl FnMut(FlowId, &QueuedFlow) -> bool) {
        for id in 0..self.flows.len() {
            let flow = &self.flows[id];
            if flow.place == FlowList::Idle && flow.messages.is_empty() && is_fresh(id as FlowId, flow) {
                self.forget(id as FlowId);
            }
        }
        // Unused entries with low indexes are reused first.
        self.free = NONE;
        for (id, flow) in self.flows.iter_mut().enumerate().rev() {
            if flow.place == FlowList::Free {
                flow.next = std::mem::replace(&mut self.free, id as FlowId);
            }
        }
    }

    /// Number of flows with state.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Prefetches the first flow of the ring or otherwise the first unused entry, and the index of flows.
    /// Returns the index of the flow or entry.
    #[inline]
    pub fn prefetch(&self) -> FlowId {
        let id = if self.ring.first == NONE { self.free } else { self.ring.first };
        prefetch(&self.flows, id as usize);
        self.index.prefetch();
        id
    }

    /// Prefetches the entry of the index that leads to a flow.
    #[inline]
    pub fn prefetch_entry(&self, source: u16, destination: u32) {
        self.index.prefetch_slot(hash(source, destination));
    }

    /// Prefetches a flow whose entry has been prefetched, and returns its index. This may be another flow
    /// with the same hash.
    #[inline]
    pub fn prefetch_flow(&self, source: u16, destination: u32) -> Option<FlowId> {
        let id = self.index.find(hash(source, destination), |_| true)?;
        prefetch(&self.flows, id as usize);
        Some(id)
    }

    #[inline]
    pub fn get(&self, id: FlowId) -> &QueuedFlow {
        &self.flows[id as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> &mut QueuedFlow {
        &mut self.flows[id as usize]
    }

    /// The flows with data to send.
    pub fn sending(&self) -> impl Iterator<Item = (FlowId, &QueuedFlow)> {
        (0..).zip(&self.flows).filter(|&(id, _)| self.has_data(id))
    }

    /// Whether the flow is in the ring or the heap, held, in a list of the host, or closed. The flow must
    /// have state.
    #[inline]
    pub fn is_queued(&self, id: FlowId) -> bool {
        self.flows[id as usize].place != FlowList::Idle
    }

    /// Appends a flow to the ring.
    #[inline]
    pub fn make_ready(&mut self, id: FlowId) {
        self.flows[id as usize].place = FlowList::Listed;
        self.ring.push(&mut self.flows, id);
    }

    /// Puts a flow back at the head of the ring, so that it keeps its turn.
    #[inline]
    pub fn keep_turn(&mut self, id: FlowId) {
        self.flows[id as usize].place = FlowList::Listed;
        self.ring.push_first(&mut self.flows, id);
    }

    /// Moves the first flow with the smallest `key` to the head of the ring.
    pub fn bring_first(&mut self, sources: &mut [Source], key: impl Fn(&QueuedFlow) -> u128) {
        let ring = self.ring.iter(&self.flows).map(|id| (id, false));
        let mut best: Option<(u128, FlowId, bool)> = None;
        for (id, is_passed) in ring.chain(self.passed.iter(&self.flows).map(|id| (id, true))) {
            let own = key(self.get(id));
            if best.is_none_or(|best| own < best.0) {
                best = Some((own, id, is_passed));
            }
            if own == 0 {
                break;
            }
        }
        let Some((_, id, is_passed)) = best else { return };
        if is_passed {
            self.passed.unlink(&mut self.flows, id);
            self.count_released(sources, id);
        } else if id == self.ring.first {
            return;
        } else {
            self.ring.unlink(&mut self.flows, id);
        }
        self.ring.push_first(&mut self.flows, id);
    }

    /// Counts a held flow as ready.
    fn count_released(&mut self, sources: &mut [Source], id: FlowId) {
        let source = usize::from(self.flows[id as usize].source);
        self.held_of[source] -= 1;
        sources[source].ready += 1;
    }

    /// Records that the output buffer may have room for a held flow.
    pub fn may_be_admitted(&mut self) {
        self.are_refused = false;
    }

    /// Records whether the output buffer refuses all held flows.
    pub fn note_refusals(&mut self, are_refused: bool) {
        self.are_refused = are_refused;
    }

    /// Whether the output buffer refuses all held flows.
    pub fn are_refused(&self) -> bool {
        self.are_refused
    }

    /// Keeps the held flows out of the attempt that begins. They continue to be held.
    pub fn pass_held(&mut self) {
        self.passed = std::mem::take(&mut self.held);
    }

    /// The flows that do not take part in the present attempt.
    pub fn passed(&self) -> impl Iterator<Item = FlowId> {
        self.passed.iter(&self.flows)
    }

    /// Moves the flows that do not take part in the present attempt to the end of the ring, and returns their number.
    #[inline]
    pub fn release_passed(&mut self, sources: &mut [Source]) -> usize {
        if self.passed.len == 0 {
            return 0;
        }
        let passed: Vec<FlowId> = self.passed().collect();
        passed.iter().for_each(|&id| self.count_released(sources, id));
        let mut list = std::mem::take(&mut self.passed);
        self.ring.append(&mut self.flows, &mut list);
        passed.len()
    }

    /// Ends an attempt without a packet: the flows that did not take part follow the other held flows.
    #[inline]
    pub fn hold_passed(&mut self) {
        let mut passed = std::mem::take(&mut self.passed);
        self.held.append(&mut self.flows, &mut passed);
    }

    /// Records that the host keeps a flow in its own list.
    #[inline]
    pub fn keep(&mut self, id: FlowId) {
        self.flows[id as usize].place = FlowList::Listed;
    }

    /// Appends a flow to the held flows.
    pub fn hold(&mut self, id: FlowId) {
        let flow = &mut self.flows[id as usize];
        flow.place = FlowList::Listed;
        let source = usize::from(flow.source);
        if self.held_of.len() <= source {
            self.held_of.resize(source + 1, 0);
        }
        self.held_of[source] += 1;
        self.held.push(&mut self.flows, id);
    }

    /// Removes and returns the first held flow.
    pub fn take_held(&mut self) -> Option<FlowId> {
        let id = self.held.pop(&self.flows)?;
        let flow = &mut self.flows[id as usize];
        flow.place = FlowList::Idle;
        self.held_of[usize::from(flow.source)] -= 1;
        Some(id)
    }

    /// Moves all flows of the ring to the end of the held flows, without visiting the flows.
    pub fn hold_ring(&mut self, sources: &mut [Source]) {
        self.held.append(&mut self.flows, &mut self.ring);
        if self.held_of.len() < sources.len() {
            self.held_of.resize(sources.len(), 0);
        }
        for (source, held) in sources.iter_mut().zip(&mut self.held_of) {
            *held += std::mem::take(&mut source.ready);
        }
    }

    /// Moves all held flows to the end of the ring, without visiting the flows.
    pub fn release_held(&mut self, sources: &mut [Source]) {
        self.are_refused = false;
        if self.held.len == 0 {
            return;
        }
        self.ring.append(&mut self.flows, &mut self.held);
        for (source, held) in sources.iter_mut().zip(&mut self.held_of) {
            source.ready += std::mem::take(held);
        }
    }

    /// The flows of the ring, in the order of their turns.
    pub fn ring(&self) -> impl Iterator<Item = FlowId> {
        self.ring.iter(&self.flows)
    }

    /// The held flows, in the order in which they began to be held.
    pub fn held(&self) -> impl Iterator<Item = FlowId> {
        self.held.iter(&self.flows).chain(self.passed())
    }

    /// Whether a flow is in the ring, held, or in a list of the host.
    #[inline]
    pub fn is_listed(&self, id: FlowId) -> bool {
        self.flows[id as usize].place == FlowList::Listed
    }

    /// Removes a held flow.
    pub fn unlink_held(&mut self, id: FlowId) {
        self.held.unlink(&mut self.flows, id);
        self.flows[id as usize].place = FlowList::Idle;
        self.held_of[usize::from(self.flows[id as usize].source)] -= 1;
    }

    /// Removes a flow that is in the ring or held. Returns whether it was in the ring.
    pub fn unlink(&mut self, id: FlowId) -> bool {
        let is_ready = self.ring().any(|other| other == id);
        if is_ready {
            self.unlink_ready(id);
        } else {
            self.unlink_held(id);
        }
        is_ready
    }

    /// Removes a flow from the ring.
    pub fn unlink_ready(&mut self, id: FlowId) {
        self.ring.unlink(&mut self.flows, id);
        self.flows[id as usize].place = FlowList::Idle;
    }

    /// The number of flows in the ring and of held flows.
    #[inline]
    pub fn sharing(&self) -> u32 {
        self.ring.len + self.held.len + self.passed.len
    }

    #[inline]
    pub fn has_held(&self) -> bool {
        self.held.len > 0
    }

    /// Makes a flow wait until `time`.
    #[inline]
    pub fn throttle(&mut self, id: FlowId, time: Time) {
        let flow = &mut self.flows[id as usize];
        (flow.place, flow.release_at) = (FlowList::Throttled, time);
        let source = usize::from(flow.source);
        let served = self.last_served.get(source).copied().unwrap_or_default();
        self.throttled.push(Reverse((time, served, id)));
        self.begins_to_wait(id);
    }

    #[inline]
    fn begins_to_wait(&mut self, id: FlowId) {
        self.waiting += 1;
        if self.keeps_order {
            self.begun += 1;
            self.began[id as usize] = self.begun;
        }
    }

    /// Records the order in which flows begin to wait, for [`Self::waiting`]. Must be called while the table
    /// is empty.
    pub fn keep_order(&mut self) {
        self.keeps_order = true;
    }

    /// The throttled and closed flows, in the order in which they began to wait. Requires
    /// [`Self::keep_order`].
    pub fn waiting(&self) -> Vec<FlowId> {
        let waits =
            |id: &FlowId| matches!(self.flows[*id as usize].place, FlowList::Throttled | FlowList::Closed);
        let mut waiting: Vec<FlowId> = (0..self.flows.len() as FlowId).filter(waits).collect();
        waiting.sort_unstable_by_key(|&id| self.began[id as usize]);
        waiting
    }

    /// Makes a flow wait for an answer, a grant or a timer.
    pub fn close(&mut self, id: FlowId) {
        self.flows[id as usize].place = FlowList::Closed;
        self.begins_to_wait(id);
    }

    /// Ends the wait of a throttled or closed flow. Returns whether the flow was waiting.
    pub fn reopen(&mut self, id: FlowId) -> bool {
        let flow = &mut self.flows[id as usize];
        // The flow's entry in the heap is skipped later.
        let waits = matches!(flow.place, FlowList::Throttled | FlowList::Closed);
        if waits {
            flow.place = FlowList::Idle;
            self.waiting -= 1;
        }
        waits
    }

    /// Removes the flow whose turn it is from the ring.
    #[inline]
    pub fn take_turn(&mut self) -> Option<FlowId> {
        let id = self.ring.pop(&self.flows)?;
        self.flows[id as usize].place = FlowList::Idle;
        Some(id)
    }

    /// Number of flows in the ring.
    #[inline]
    pub fn ready(&self) -> usize {
        self.ring.len as usize
    }

    /// Records that a packet of a source is sent.
    #[inline]
    pub fn serve(&mut self, source: u16) {
        let source = usize::from(source);
        if source >= self.last_served.len() {
            self.last_served.resize(source + 1, 0);
        }
        self.served += 1;
        self.last_served[source] = self.served;
    }

    /// Removes and returns the throttled flow with the earliest time, if it may send at `now`. Among equal
    /// times, selects the flow whose source was served longest ago, then the one with the lowest index.
    #[inline]
    pub fn take_released(&mut self, now: Time) -> Option<FlowId> {
        if self.next_release()? > now {
            return None;
        }
        let Reverse((_, _, id)) = self.throttled.pop()?;
        self.flows[id as usize].place = FlowList::Idle;
        self.waiting -= 1;
        Some(id)
    }

    /// The earliest time at which a throttled flow may send; `None` without throttled flows.
    #[inline]
    pub fn next_release(&mut self) -> Option<Time> {
        loop {
            let Reverse((time, _, id)) = *self.throttled.peek()?;
            let flow = &self.flows[id as usize];
            if flow.place == FlowList::Throttled && flow.release_at == time {
                return Some(time);
            }
            // This entry is outdated: its flow was released earlier, and may be waiting again until another
            // time.
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
    use proptest::prelude::*;

    use super::*;

    /// Steps on two lists, with the flow that each step concerns.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push(FlowId),
        PushFirst(FlowId),
        Pop,
        Unlink(FlowId),
        Append,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let flow = || 0..12 as FlowId;
        let step = prop_oneof![
            flow().prop_map(Step::Push),
            flow().prop_map(Step::PushFirst),
            Just(Step::Pop),
            flow().prop_map(Step::Unlink),
            Just(Step::Append),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        #[test]
        fn linked_lists_equal_plain_lists(steps in steps()) {
            let mut table = FlowTable::default();
            (0..12).for_each(|at| assert_eq!(table.entry(0, at, |_| {}), at));
            let flows = &mut table.flows;
            let (mut ring, mut held) = (List::default(), List::default());
            let (mut plain_ring, mut plain_held) = (VecDeque::new(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Push(id) | Step::PushFirst(id) if plain_ring.contains(&id) || plain_held.contains(&id) => {}
                    Step::Push(id) => {
                        ring.push(flows, id);
                        plain_ring.push_back(id);
                    }
                    Step::PushFirst(id) => {
                        ring.push_first(flows, id);
                        plain_ring.push_front(id);
                    }
                    Step::Pop => prop_assert_eq!(ring.pop(flows), plain_ring.pop_front()),
                    Step::Unlink(id) if plain_ring.contains(&id) => {
                        ring.unlink(flows, id);
                        plain_ring.retain(|&other| other != id);
                    }
                    Step::Unlink(_) => {}
                    // Both orders of concatenation occur over time.
                    Step::Append => {
                        held.append(flows, &mut ring);
                        plain_held.append(&mut plain_ring);
                        std::mem::swap(&mut ring, &mut held);
                        std::mem::swap(&mut plain_ring, &mut plain_held);
                    }
                }
                prop_assert!(ring.iter(flows).eq(plain_ring.iter().copied()));
                prop_assert!(held.iter(flows).eq(plain_held.iter().copied()));
            }
        }
    }

    #[test]
    fn lost_packets_precede_messages_in_the_order_of_their_numbers() {
        let mut table = FlowTable::default();
        let id = table.entry(0, 9, |_| {});
        assert_eq!((table.has_data(id), table.take_lost(id)), (false, None));
        let message = Message { destination: 9, created: Time(1), left: 100, hot: false };
        table.get_mut(id).messages.push(message);
        let packet = |bytes| Segment { bytes, created: Time(1), is_last: false };
        table.add_lost(id, 7, packet(30));
        table.add_lost(id, 3, packet(20));
        assert_eq!((table.next_payload(id, 64), table.lost_bytes(id)), (20, 50));
        assert_eq!(
            [table.take_lost(id), table.take_lost(id)],
            [Some((3, packet(20))), Some((7, packet(30)))]
        );
        assert_eq!((table.next_payload(id, 64), table.take_lost(id)), (64, None));
        table.get_mut(id).messages.pop();
        table.add_lost(id, 9, packet(1));
        assert!(table.has_data(id) && table.sending().count() == 1, "without messages");
    }
}
