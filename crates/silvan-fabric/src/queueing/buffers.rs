//! The queues of a node and who may send next, whatever their organisation.
//!
//! Each queue with a packet that may go waits in the ring of its input and of the output that the
//! packet at its head asks for; the queues of a ring take turns. An output sees which inputs have
//! anyone waiting for it.
//!
//! Inputs and outputs are numbered with their virtual lanes, `port * lanes + vl`.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::Organisation;
use super::isolation::{Cams, Notice};
use crate::packet::{Fifo, Kind, Packet, PacketId, Pool};

/// Index of a queue.
pub(crate) type QueueId = u32;

/// What a queue is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Notifications and acknowledgements, ahead of all data of the input.
    Control,
    /// One of those that the organisation has from the start.
    Normal,
    /// That of a destination.
    Destination(u32),
    /// One that congestion trees may take.
    Special(u8),
}

/// Where a queue waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// Nowhere: it is empty.
    None,
    /// In this ring.
    Ring(u32),
    /// Out of this ring, until there may be credit for it or the next node lets it go.
    Parked(u32),
}

#[derive(Debug, Clone)]
struct Queue {
    fifo: Fifo,
    bytes: u32,
    /// Input and virtual lane.
    input: u32,
    role: Role,
    seat: Seat,
}

/// A packet moved from a normal to a special queue: input and output port, virtual lane, and its
/// destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub input: usize,
    pub output: usize,
    pub vl: usize,
    pub dst: u32,
}

/// What changed in a node's buffers and concerns others.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Outputs (with virtual lane) that someone new waits for, and the input port.
    pub asked: Vec<(usize, usize)>,
    /// Packets that changed queues.
    pub moved: Vec<Moved>,
    /// What to tell the node upstream of an input port.
    pub notices: Vec<(usize, Notice)>,
}

impl Changes {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.asked.clear();
        self.moved.clear();
        self.notices.clear();
    }
}

/// The shape of a node's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub inputs: usize,
    pub outputs: usize,
    pub lanes: usize,
    pub organisation: Organisation,
    pub control_first: bool,
}

/// How the output port of a packet is known.
#[derive(Debug)]
pub(crate) enum Routes {
    /// There is one output.
    None,
    /// By its destination.
    Table(Box<[u16]>),
    /// It was written into the packet when it came in.
    Packet,
}

impl Routes {
    #[inline]
    fn of(&self, packet: &Packet) -> usize {
        match self {
            Self::None => 0,
            Self::Table(table) => usize::from(table[packet.dst as usize]),
            Self::Packet => usize::from(packet.out),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Buffers {
    shape: Shape,
    routes: Routes,
    /// Per input its control queue, its fixed normal queues and its special ones; then those of
    /// destinations.
    queues: Vec<Queue>,
    /// Of which so many are there per input from the start.
    per_input: usize,
    normal: usize,
    by_destination: FxHashMap<(u32, u32), QueueId>,
    unused: Vec<QueueId>,
    /// `[output * ports + input port]`
    rings: Box<[VecDeque<QueueId>]>,
    /// Input ports with someone waiting, one bit each, per output.
    requests: Box<[[u64; 4]]>,
    /// Bytes waiting per output, in whichever queue.
    sums: Box<[u32]>,
    parked: Vec<Vec<QueueId>>,
    pub cams: Option<Cams>,
    pub changes: Changes,
}

impl Buffers {
    pub fn new(shape: Shape, routes: Routes, cams: Option<Cams>) -> Self {
        let Shape { inputs, outputs, lanes, organisation, .. } = shape;
        let normal = organisation.fixed(outputs);
        let special = cams.as_ref().map_or(0, |cams| cams.rule().queues);
        let roles = std::iter::once(Role::Control)
            .chain(std::iter::repeat_n(Role::Normal, normal))
            .chain((0..special).map(|at| Role::Special(at as u8)));
        let queue = |input, role| Queue { fifo: Fifo::default(), bytes: 0, input, role, seat: Seat::None };
        let queues: Vec<Queue> = (0..(inputs * lanes) as u32)
            .flat_map(|input| roles.clone().map(move |role| queue(input, role)))
            .collect();
        Self {
            shape,
            routes,
            queues,
            per_input: 1 + normal + special,
            normal,
            by_destination: FxHashMap::default(),
            unused: Vec::new(),
            rings: vec![VecDeque::new(); outputs * lanes * inputs].into(),
            requests: vec![[0; 4]; outputs * lanes].into(),
            sums: vec![0; outputs * lanes].into(),
            parked: vec![Vec::new(); outputs * lanes],
            cams,
            changes: Changes::default(),
        }
    }

    fn route(&self, packet: &Packet) -> usize {
        self.routes.of(packet)
    }

    /// Bytes waiting for an output.
    #[inline]
    pub fn sum(&self, output: usize) -> u32 {
        self.sums[output]
    }

    /// Input ports with someone waiting for an output, one bit each.
    #[inline]
    pub fn requests(&self, output: usize) -> [u64; 4] {
        self.requests[output]
    }

    /// Whether each input port is one first-in first-out queue.
    pub fn is_fifo(&self) -> bool {
        self.shape.lanes == 1 && self.normal == 1 && self.cams.is_none() && !self.shape.control_first
    }

    /// Input ports of the queues that stand aside at an output, one bit each.
    pub fn aside(&self, output: usize) -> [u64; 4] {
        let mut ports = [0; 4];
        for &queue in &self.parked[output] {
            let port = self.queues[queue as usize].input as usize / self.shape.lanes;
            ports[port / 64] |= 1 << (port % 64);
        }
        ports
    }

    /// The queue whose turn it is among those of an input port that wait for an output.
    #[inline]
    pub fn front(&self, output: usize, port: usize) -> Option<QueueId> {
        self.rings[output * self.shape.inputs + port].front().copied()
    }

    /// The packet at the head of a queue.
    #[inline]
    pub fn head(&self, queue: QueueId) -> Option<PacketId> {
        self.queues[queue as usize].fifo.head()
    }

    /// The queue that a packet is stored in.
    fn queue_for(&mut self, input: usize, output: usize, dst: u32, kind: Kind) -> QueueId {
        let base = input * self.per_input;
        if self.shape.control_first && !kind.follows_data() {
            return base as QueueId;
        }
        if self.shape.organisation != Organisation::PerDestination {
            return (base + 1 + self.shape.organisation.index(output, dst)) as QueueId;
        }
        let fresh = self.unused.last().copied().unwrap_or(self.queues.len() as QueueId);
        let id = *self.by_destination.entry((input as u32, dst)).or_insert(fresh);
        if id == fresh {
            let role = Role::Destination(dst);
            let queue =
                Queue { fifo: Fifo::default(), bytes: 0, input: input as u32, role, seat: Seat::None };
            if self.unused.pop().is_some() {
                self.queues[id as usize] = queue;
            } else {
                self.queues.push(queue);
            }
        }
        id
    }

    /// Stores a packet that came in at an input port.
    pub fn store(&mut self, packets: &mut Pool, now: Time, port: usize, id: PacketId) {
        let packet = &packets[id];
        let (vl, dst, size, kind) = (usize::from(packet.vl), packet.dst, packet.size, packet.kind);
        let lanes = self.shape.lanes;
        let (input, output) = (port * lanes + vl, self.route(packet));
        let queue = self.queue_for(input, output, dst, kind);
        self.sums[output * lanes + vl] += size;
        let state = &mut self.queues[queue as usize];
        let was_empty = state.fifo.is_empty();
        state.fifo.push(id, packets);
        state.bytes += size;
        if was_empty {
            self.head_changed(packets, now, queue);
        }
        if self.cams.is_some() && self.queues[queue as usize].role == Role::Normal {
            self.detect(packets, now, queue);
        }
    }

    /// Takes the packet at the head of a queue out, which leaves now.
    pub fn take(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        let state = &mut self.queues[queue as usize];
        let Some(id) = state.fifo.pop(packets) else { return };
        let (dst, size) = (packets[id].dst, packets[id].size);
        state.bytes -= size;
        let (role, bytes, input) = (state.role, state.bytes, state.input as usize);
        let (lanes, output) = (self.shape.lanes, self.route(&packets[id]));
        let vl = input % lanes;
        self.sums[output * lanes + vl] -= size;
        let Some(cams) = &mut self.cams else {
            self.head_changed(packets, now, queue);
            return;
        };
        let place = (input, vl as u8);
        let notice = match role {
            Role::Special(at) => cams.special_shrank(place, usize::from(at), dst, bytes),
            Role::Normal => cams.normal_shrank(place, output, bytes),
            Role::Control | Role::Destination(_) => None,
        };
        self.tell(input, notice);
        self.head_changed(packets, now, queue);
        if let Role::Special(at) = role
            && bytes == 0
        {
            self.release(packets, now, input, usize::from(at));
        }
    }

    fn tell(&mut self, input: usize, notice: Option<Notice>) {
        self.changes.notices.extend(notice.map(|notice| (input / self.shape.lanes, notice)));
    }

    /// Has an empty special queue given back, and isolates whoever waited for one.
    fn release(&mut self, packets: &mut Pool, now: Time, input: usize, at: usize) {
        let vl = (input % self.shape.lanes) as u8;
        let Some(cams) = &mut self.cams else { return };
        let (released, notice) = cams.release((input, vl), at, now);
        let wanted = released && cams.take_wanting(input);
        self.tell(input, notice);
        if wanted {
            let first = (input * self.per_input + 1) as QueueId;
            (first..first + self.normal as QueueId).for_each(|queue| self.reconsider(packets, now, queue));
        }
    }

    /// Looks whether a normal queue that has grown shows a root.
    fn detect(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        let Queue { fifo, bytes, input, .. } = self.queues[queue as usize];
        let Some(head) = fifo.head() else { return };
        let (input, lanes) = (input as usize, self.shape.lanes);
        let (port, vl) = (self.route(&packets[head]), input % lanes);
        let (routes, pool) = (&self.routes, &*packets);
        let waiting = || {
            let there = |packet: &&Packet| packet.kind.follows_data() && routes.of(packet) == port;
            fifo.iter(pool).map(|id| &pool[id]).filter(there).map(|packet| packet.dst).collect()
        };
        let Some(cams) = &mut self.cams else { return };
        // A special queue is taken for a packet that can move there now.
        if cams.rule().at_root && !packets[head].kind.follows_data() {
            return;
        }
        let place = (input, vl as u8);
        let notice = cams.normal_grew(place, (port * lanes + vl, port), bytes, waiting, now);
        self.tell(input, notice);
        self.reconsider(packets, now, queue);
    }

    /// Moves packets at the head of a normal queue to special queues, as long as they match a CAM
    /// line. Returns whether any did.
    fn isolate(&mut self, packets: &mut Pool, now: Time, queue: QueueId) -> bool {
        let mut any = false;
        loop {
            let Queue { fifo, input, role, .. } = self.queues[queue as usize];
            let (Some(cams), Role::Normal, Some(id)) = (&mut self.cams, role, fifo.head()) else {
                return any;
            };
            let (dst, size, kind) = (packets[id].dst, packets[id].size, packets[id].kind);
            if !kind.follows_data() {
                return any;
            }
            let port = self.routes.of(&packets[id]);
            let (input, lanes) = (input as usize, self.shape.lanes);
            let vl = input % lanes;
            let Some(at) = cams.special_for(input, port * lanes + vl, dst, now) else { return any };
            any = true;
            let state = &mut self.queues[queue as usize];
            state.fifo.pop(packets);
            state.bytes -= size;
            let left = state.bytes;
            let special = (input * self.per_input + 1 + self.normal + at) as QueueId;
            let state = &mut self.queues[special as usize];
            let was_empty = state.fifo.is_empty();
            state.fifo.push(id, packets);
            state.bytes += size;
            let place = (input, vl as u8);
            let notices =
                [cams.normal_shrank(place, port, left), cams.special_grew(place, at, dst, state.bytes)];
            notices.into_iter().for_each(|notice| self.tell(input, notice));
            self.changes.moved.push(Moved { input: input / lanes, output: port, vl, dst });
            if was_empty {
                self.seat(packets, special);
            }
        }
    }

    /// A queue has another packet at its head, or none any more.
    fn head_changed(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        self.unseat(queue);
        self.isolate(packets, now, queue);
        let state = &self.queues[queue as usize];
        if let (Role::Destination(dst), true) = (state.role, state.fifo.is_empty()) {
            self.by_destination.remove(&(state.input, dst));
            self.unused.push(queue);
            return;
        }
        self.seat(packets, queue);
    }

    /// Isolates the head of a normal queue if it matches now.
    fn reconsider(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        if self.isolate(packets, now, queue) {
            self.unseat(queue);
            self.seat(packets, queue);
        }
    }

    /// Lets a queue wait in the ring of what its head asks for, unless it is empty or stopped.
    fn seat(&mut self, packets: &Pool, queue: QueueId) {
        let state = &self.queues[queue as usize];
        let Some(id) = state.fifo.head() else { return };
        let input = state.input as usize;
        let lanes = self.shape.lanes;
        let output = self.route(&packets[id]) * lanes + input % lanes;
        let port = input / lanes;
        let ring = output * self.shape.inputs + port;
        if self.is_stopped(&packets[id], output) {
            self.queues[queue as usize].seat = Seat::Parked(ring as u32);
            self.parked[output].push(queue);
            return;
        }
        if state.role == Role::Control {
            self.rings[ring].push_front(queue);
        } else {
            self.rings[ring].push_back(queue);
        }
        self.queues[queue as usize].seat = Seat::Ring(ring as u32);
        self.requests[output][port / 64] |= 1 << (port % 64);
        self.changes.asked.push((output, port));
    }

    /// Whether the next node has stopped the flow of a packet.
    fn is_stopped(&self, packet: &Packet, output: usize) -> bool {
        packet.kind.follows_data() && self.cams.as_ref().is_some_and(|cams| cams.stops(output, packet.dst))
    }

    /// Takes a queue out of where it waits.
    fn unseat(&mut self, queue: QueueId) {
        match std::mem::replace(&mut self.queues[queue as usize].seat, Seat::None) {
            Seat::None => {}
            Seat::Ring(ring) => self.leave_ring(queue, ring as usize),
            Seat::Parked(ring) => {
                self.parked[ring as usize / self.shape.inputs].retain(|&parked| parked != queue);
            }
        }
    }

    fn leave_ring(&mut self, queue: QueueId, ring: usize) {
        let waiting = &mut self.rings[ring];
        if waiting.front() == Some(&queue) {
            waiting.pop_front();
        } else {
            waiting.retain(|&other| other != queue);
        }
        if waiting.is_empty() {
            let (output, port) = (ring / self.shape.inputs, ring % self.shape.inputs);
            self.requests[output][port / 64] &= !(1 << (port % 64));
        }
    }

    /// Lets a queue that may not go stand aside until [`Self::unpark`].
    pub fn park(&mut self, queue: QueueId) {
        let Seat::Ring(ring) = self.queues[queue as usize].seat else { return };
        self.leave_ring(queue, ring as usize);
        self.queues[queue as usize].seat = Seat::Parked(ring);
        self.parked[ring as usize / self.shape.inputs].push(queue);
    }

    /// Those that stood aside at an output may go again.
    pub fn unpark(&mut self, packets: &Pool, output: usize) {
        for queue in std::mem::take(&mut self.parked[output]) {
            self.queues[queue as usize].seat = Seat::None;
            self.seat(packets, queue);
        }
    }

    /// A notification of the next node about one of its lines came in at an output port.
    pub fn received(&mut self, packets: &mut Pool, now: Time, port: usize, notice: Notice) {
        let Some(cams) = &mut self.cams else { return };
        let output = port * self.shape.lanes + usize::from(notice.vl);
        for (input, at) in cams.received(output, notice.line, notice.message) {
            let queue = input * self.per_input + 1 + self.normal + at;
            if self.queues[queue].fifo.is_empty() {
                self.release(packets, now, input, at);
            }
        }
        self.unpark(packets, output);
        let rings = output * self.shape.inputs..(output + 1) * self.shape.inputs;
        let waiting: Vec<QueueId> = self.rings[rings].iter().flatten().copied().collect();
        for queue in waiting {
            self.reconsider(packets, now, queue);
            if let Queue { fifo, seat: Seat::Ring(_), .. } = self.queues[queue as usize]
                && fifo.head().is_some_and(|id| self.is_stopped(&packets[id], output))
            {
                self.park(queue);
            }
        }
    }

    /// Bytes in the queue of an input port whose fill tells of an output's congestion: the special
    /// queue of the root where roots have one, else the normal queue.
    pub fn telling_bytes(&self, port: usize, output: usize, vl: usize, dst: u32) -> u32 {
        let input = port * self.shape.lanes + vl;
        let base = input * self.per_input + 1;
        match &self.cams {
            Some(cams) if cams.rule().at_root => {
                let root = cams.root_queue(input, output * self.shape.lanes + vl);
                root.map_or(0, |at| self.queues[base + self.normal + at].bytes)
            }
            _ if self.normal == 0 => {
                let queue = self.by_destination.get(&(input as u32, dst));
                queue.map_or(0, |&queue| self.queues[queue as usize].bytes)
            }
            _ => self.queues[base + self.shape.organisation.index(output, dst)].bytes,
        }
    }

    fn of_input(&self, port: usize, vl: usize) -> impl Iterator<Item = &Queue> {
        let input = (port * self.shape.lanes + vl) as u32;
        self.queues.iter().filter(move |queue| queue.input == input && !queue.fifo.is_empty())
    }

    /// The packets at an input port and virtual lane.
    pub fn waiting(&self, packets: &Pool, port: usize, vl: usize) -> Vec<PacketId> {
        self.of_input(port, vl).flat_map(|queue| queue.fifo.iter(packets)).collect()
    }

    /// Buffer space in use at an input port and virtual lane, found by walking its queues.
    #[cfg(debug_assertions)]
    pub fn space(&self, packets: &Pool, port: usize, vl: usize) -> u32 {
        self.of_input(port, vl).flat_map(|queue| queue.fifo.iter(packets)).map(|id| packets[id].space).sum()
    }

    /// The output ports that the packets at the heads of an input port's queues ask for.
    pub fn heads(&self, packets: &Pool, port: usize, vl: usize) -> Vec<usize> {
        let heads = self.of_input(port, vl).filter_map(|queue| queue.fifo.head());
        heads.map(|id| self.route(&packets[id])).collect()
    }
}
