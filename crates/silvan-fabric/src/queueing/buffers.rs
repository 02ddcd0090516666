//! The queues of a node with any organization, and the selection of queues that may send next.
//!
//! Each queue whose head may be sent waits in a ring. A ring belongs to an input and to the output that the
//! heads request, and its queues take turns. The state of an output contains the inputs with waiting queues.
//!
//! An input or output is a [`PortVl`], a port with one of its virtual lanes, unless it is called a port.

mod isolating;
mod turns;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_network::port::{Lanes, Port, PortVl, Vl};
use silvan_network::port_set::PortSet;

use super::Organisation;
use super::arbitration::{DueTimes, SpecialQueue};
use super::isolation::{Cams, Notice};
use super::rings::{Ring, RingLinks, RingMember};
use crate::packet::{Fifo, Kind, Packet, PacketId, Pool};
use crate::routes::ForwardingTable;

/// Index of a queue.
pub(crate) type QueueId = u32;

/// The purpose of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum QueueRole {
    /// Notifications and acknowledgements, which precede all data of their input.
    Control,
    /// One of the queues that exist from the start.
    Normal,
    /// The queue of one destination.
    Destination,
    /// A queue of one destination. The owner of the buffers stores its index, and not
    /// [`Buffers::by_destination`].
    Open,
    /// A queue that can be allocated to a congestion tree.
    Special(u8),
}

impl QueueRole {
    #[inline]
    fn is_special(self) -> bool {
        matches!(self, Self::Special(_))
    }
}

/// The list in which a queue waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum Seat {
    /// None, because the queue is empty.
    None,
    /// The ring of the queue's input port at a lane of an output.
    Ring(PortVl),
    /// The list of queues that wait for credit of a lane of an output, or for permission of the next node.
    Parked(PortVl),
}

/// Occupies half a cache line.
#[derive(Debug, Clone, Saved)]
#[repr(align(32))]
struct Queue {
    fifo: Fifo,
    place: RingLinks,
    bytes: u32,
    /// The input port and the virtual lane, separately and combined.
    port: Port,
    input: PortVl,
    vl: Vl,
    role: QueueRole,
    seat: Seat,
}

const _: () = assert!(size_of::<Queue>() == 32);

impl Queue {
    fn new(input: PortVl, lanes: usize, role: QueueRole) -> Self {
        let (port, vl) = (input.port(lanes), input.vl(lanes));
        let (fifo, place) = (Fifo::default(), RingLinks::NOWHERE);
        Self { fifo, place, bytes: 0, port, input, vl, role, seat: Seat::None }
    }
}

impl RingMember for Queue {
    #[inline]
    fn place(&self) -> RingLinks {
        self.place
    }

    #[inline]
    fn place_mut(&mut self) -> &mut RingLinks {
        &mut self.place
    }
}

/// The turn of an output lane, which its arbiter determines.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct Turn {
    /// Buffer space that the next packet needs and for which it has no credit.
    pub blocked: u32,
    /// The input port to consider first.
    pub input: Port,
    /// The virtual lane to consider first; used only in the first lane of an output.
    pub lane: Vl,
    /// Whether the output will be settled at the end of this instant; used only in the first lane of an output.
    pub dirty: bool,
}

/// The queues that wait for an output, and its turn. With few ports, this occupies half a cache line.
#[derive(Debug, Clone, Copy, Default, Saved)]
#[repr(align(32))]
struct OutputRequests<S> {
    /// Input ports with waiting queues.
    requests: S,
    /// The input ports in `requests` for which only [`Buffers::home`] waits. This is the usual case, in which the rings
    /// stay empty and need not be read.
    alone: S,
    /// Bytes that wait for the output.
    sum: u32,
    /// Number of queues that wait for credit or permission.
    parked: u32,
    turn: Turn,
}

const _: () = assert!(size_of::<OutputRequests<silvan_network::port_set::Ports64>>() == 32);

/// The output ports that are needed on a virtual lane.
#[derive(Debug, Clone, Copy, Default, Saved)]
struct Wanted<S> {
    /// Output ports for which queues wait.
    asked_for: S,
    /// Output ports for which bytes wait.
    filled: S,
}

/// A packet that moved from a normal to a special queue, with its input port, output port, virtual lane and
/// destination.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Moved {
    pub input: Port,
    pub output: Port,
    pub vl: Vl,
    pub dst: u32,
}

/// An input port and an output port, and the virtual lane of packets from one to the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    pub input: Port,
    pub output: Port,
    pub vl: Vl,
}

/// The result of storing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Behind other packets of its queue.
    Behind,
    /// The packet became the first packet of its queue, which now waits for the packet's output.
    First,
    /// Further queues may have changed, which [`Changes`] then records.
    Otherwise,
}

/// Changes in a node's buffers that concern its neighbors, arbitration or marking.
#[derive(Debug, Default, Saved)]
pub(crate) struct Changes {
    /// Whether any list may contain a change. Most packets change nothing, so the lists need not be read.
    any: bool,
    lists: Box<ChangeLists>,
}

#[derive(Debug, Default, Saved)]
struct ChangeLists {
    asked: Vec<(PortVl, Port)>,
    moved: Vec<Moved>,
    notices: Vec<(Port, Notice)>,
    broken: Option<String>,
}

impl Changes {
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Removes all changes, but not a violated invariant.
    #[inline]
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.any) {
            let ChangeLists { asked, moved, notices, .. } = &mut *self.lists;
            asked.clear();
            moved.clear();
            notices.clear();
        }
    }

    /// Outputs for which a queue has started to wait, with the input port of the queue.
    pub fn asked(&mut self) -> &mut Vec<(PortVl, Port)> {
        &mut self.lists.asked
    }

    /// Packets that moved to another queue.
    pub fn moved(&mut self) -> &mut Vec<Moved> {
        &mut self.lists.moved
    }

    /// Notifications for the node upstream of an input port.
    pub fn notices(&mut self) -> &mut Vec<(Port, Notice)> {
        &mut self.lists.notices
    }

    /// Removes and returns the first violated invariant that the buffers have detected.
    pub fn take_broken(&mut self) -> Option<String> {
        self.lists.broken.take()
    }

    #[cold]
    fn report_broken(&mut self, what: &str) {
        self.any = true;
        self.lists.broken.get_or_insert_with(|| what.into());
    }

    fn ask(&mut self, output: PortVl, input: Port) {
        self.any = true;
        self.lists.asked.push((output, input));
    }

    fn note_moved(&mut self, moved: Moved) {
        self.any = true;
        self.lists.moved.push(moved);
    }

    fn notify(&mut self, input: Port, notice: Notice) {
        self.any = true;
        self.lists.notices.push((input, notice));
    }
}

/// The structure of a node's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferShape {
    pub inputs: usize,
    pub outputs: usize,
    pub lanes: usize,
    pub organisation: Organisation,
    pub control_first: bool,
}

/// How the output port of a packet is determined.
#[derive(Debug, Saved)]
pub(crate) enum PortSelection {
    /// There is one output.
    None,
    /// A table contains the port of each destination.
    Table(ForwardingTable),
    /// The switch stored the port in the packet on arrival.
    Packet,
}

impl PortSelection {
    #[inline]
    fn of(&self, packet: &Packet) -> Port {
        match self {
            Self::None => Port::FIRST,
            Self::Table(table) => table.port(packet.dst),
            Self::Packet => packet.out,
        }
    }
}

// The order of the fields follows their use: those that every packet needs come first, those that only some networks
// need come last.
#[derive(Debug, Saved)]
#[repr(C)]
pub(crate) struct Buffers<S: PortSet, L: Lanes> {
    #[saved(constant)]
    organisation: Organisation,
    #[saved(constant)]
    inputs: u16,
    /// Number of queues per input that exist from the start.
    #[saved(constant)]
    per_input: u16,
    /// Number of normal queues among them.
    #[saved(constant)]
    normal: u16,
    #[saved(constant)]
    lanes: L,
    #[saved(constant)]
    control_first: bool,
    /// Whether the ledger of a packet on its last link determines the packet's way through this switch. If
    /// so, the links store the queue of the packet and the ledger of its next link.
    #[saved(constant)]
    pub relays: bool,
    routes: PortSelection,
    /// For each input, its control queue, its fixed normal queues and its special queues, followed by the queues for
    /// destinations.
    queues: Vec<Queue>,
    /// Indexed by `output * ports + input port`.
    rings: Box<[Ring]>,
    /// One entry per output.
    demand: Box<[OutputRequests<S>]>,
    /// For each virtual lane; `None` if not needed.
    wanted: Option<L::Each<Wanted<S>>>,
    /// Due times of special queues; `None` if all queues take turns.
    due_times: Option<Box<DueTimes>>,
    pub changes: Changes,
    pub cams: Option<Cams>,
    parked: Box<[Vec<QueueId>]>,
    /// Scratch space.
    #[saved(scratch)]
    unparked: Vec<QueueId>,
    /// Indexed by input and destination.
    by_destination: FxHashMap<(PortVl, u32), QueueId>,
    unused: Vec<QueueId>,
}

impl<S: PortSet, L: Lanes> Buffers<S, L> {
    pub fn new(shape: BufferShape, routes: PortSelection, cams: Option<Cams>) -> Self {
        let BufferShape { inputs, outputs, lanes, organisation, control_first } = shape;
        let normal = organisation.fixed(outputs);
        let special = cams.as_ref().map_or(0, |cams| cams.rule().queues);
        let roles = std::iter::once(QueueRole::Control)
            .chain(std::iter::repeat_n(QueueRole::Normal, normal))
            .chain((0..special).map(|at| QueueRole::Special(at as u8)));
        let queue = |input, role| Queue::new(input, lanes, role);
        let queues: Vec<Queue> = PortVl::all(inputs, lanes)
            .flat_map(|input| roles.clone().map(move |role| queue(input, role)))
            .collect();
        Self {
            organisation,
            inputs: inputs as u16,
            per_input: (1 + normal + special) as u16,
            normal: normal as u16,
            lanes: L::new(lanes),
            control_first,
            relays: false,
            routes,
            queues,
            rings: vec![Ring::EMPTY; outputs * lanes * inputs].into(),
            by_destination: FxHashMap::default(),
            unused: Vec::new(),
            demand: vec![OutputRequests::default(); outputs * lanes].into(),
            wanted: None,
            parked: vec![Vec::new(); outputs * lanes].into(),
            unparked: Vec::new(),
            due_times: cams
                .as_ref()
                .and_then(|cams| DueTimes::new(cams.rule(), inputs * lanes))
                .map(Box::new),
            cams,
            changes: Changes::default(),
        }
    }

    /// Enables the sets of outputs for which queues wait, [`Self::asked_for`] and [`Self::filled`]. Must be called
    /// before any packet is stored.
    pub fn note_wanted(&mut self) {
        self.wanted = Some(self.lanes.each(Wanted::default()));
    }

    /// Number of virtual lanes.
    #[inline(always)]
    pub fn lanes(&self) -> usize {
        self.lanes.count()
    }

    /// Combines a port and a virtual lane.
    #[inline(always)]
    pub fn lane(&self, port: Port, vl: Vl) -> PortVl {
        PortVl::of(port, vl, self.lanes())
    }

    fn route(&self, packet: &Packet) -> Port {
        self.routes.of(packet)
    }

    /// Bytes that wait for an output.
    #[inline]
    pub fn sum(&self, output: PortVl) -> u32 {
        self.demand[output.index()].sum
    }

    #[inline(always)]
    pub fn turn(&self, output: PortVl) -> &Turn {
        &self.demand[output.index()].turn
    }

    /// See [`Self::turn`].
    #[inline(always)]
    pub fn turn_mut(&mut self, output: PortVl) -> &mut Turn {
        &mut self.demand[output.index()].turn
    }

    /// Input ports with queues that wait for an output.
    #[inline]
    pub fn requests(&self, output: PortVl) -> S {
        self.demand[output.index()].requests
    }

    /// Output ports for which queues of a virtual lane wait.
    #[inline(always)]
    pub fn asked_for(&self, vl: Vl) -> S {
        self.wanted.as_ref().map_or(S::default(), |wanted| L::at(wanted, vl).asked_for)
    }

    /// Output ports for which bytes wait.
    #[inline(always)]
    pub fn filled(&self) -> S {
        debug_assert!(self.wanted.is_some(), "the sets of outputs are enabled");
        let Some(wanted) = &self.wanted else { return S::default() };
        Vl::all(self.lanes()).fold(S::default(), |all, vl| all.or(L::at(wanted, vl).filled))
    }

    /// See [`Wanted`].
    #[inline(always)]
    fn wanted_mut(&mut self, vl: Vl) -> Option<&mut Wanted<S>> {
        self.wanted.as_mut().map(|wanted| L::at_mut(wanted, vl))
    }

    /// Prefetches the data for a packet that arrives at an input port and requests an output port. `open` is its queue
    /// if [`Self::open_queue`] created it.
    #[inline]
    pub fn prefetch(&self, port: Port, vl: Vl, to: Port, dst: u32, open: Option<QueueId>) {
        let (input, output) = (self.with_lane(port, vl), self.with_lane(to, vl));
        // With one queue per output, a queue usually waits alone, and its ring is not used.
        if self.organisation != Organisation::PerOutput {
            prefetch(&self.rings, self.ring_index(output, port));
        }
        let queue = if let Some(open) = open {
            open as usize
        } else if self.organisation == Organisation::PerDestination {
            self.by_destination.get(&(input, dst)).map_or(usize::MAX, |&queue| queue as usize)
        } else {
            self.first_queue(input) + 1 + self.organisation.index(to, dst)
        };
        prefetch(&self.queues, queue);
        prefetch(&self.demand, output.index());
        if let Some(cams) = &self.cams {
            cams.prefetch(input, output);
        }
    }

    /// Prefetches the record of the queues that wait for an output.
    #[inline]
    pub fn prefetch_output(&self, output: PortVl) {
        prefetch(&self.demand, output.index());
    }

    /// Combines a port and a virtual lane of this node.
    #[inline(always)]
    fn with_lane(&self, port: Port, vl: Vl) -> PortVl {
        PortVl::of(port, vl, self.lanes())
    }

    /// The index of an input's control queue, which is followed by its normal and special queues.
    #[inline(always)]
    fn first_queue(&self, input: PortVl) -> usize {
        input.index() * usize::from(self.per_input)
    }

    /// The index of a special queue of an input.
    #[inline(always)]
    fn special_queue(&self, input: PortVl, at: usize) -> usize {
        self.first_queue(input) + 1 + usize::from(self.normal) + at
    }

    /// The index of the ring of an input port at an output.
    #[inline(always)]
    fn ring_index(&self, output: PortVl, port: Port) -> usize {
        output.index() * usize::from(self.inputs) + port.index()
    }

    /// Whether each input port has a single first-in first-out queue.
    pub fn is_fifo(&self) -> bool {
        self.lanes() == 1 && self.normal == 1 && self.cams.is_none() && !self.control_first
    }

    /// Input ports of the queues that wait for credit or permission at an output.
    pub fn aside(&self, output: PortVl) -> S {
        // Usually, no queue waits for credit or permission, and the list is not read.
        if self.demand[output.index()].parked == 0 {
            return S::default();
        }
        let port = |&queue: &QueueId| self.queues[queue as usize].port;
        self.parked[output.index()].iter().map(port).fold(S::default(), |all, port| all.or(S::of(port)))
    }

    #[inline]
    pub fn head(&self, queue: QueueId) -> Option<PacketId> {
        self.queues[queue as usize].fifo.head()
    }

    /// The first packet of the queue whose turn it is among those of an input port that wait for an output.
    /// `None` if none waits.
    #[inline]
    pub fn first_packet(&self, output: PortVl, port: Port, now: Time) -> Option<PacketId> {
        self.head(self.front(output, port, now)?)
    }

    /// The queue in which a packet is stored. The queue of a destination is created if it does not exist.
    #[inline(always)]
    fn queue_for(&mut self, input: PortVl, to: Port, dst: u32, kind: Kind) -> QueueId {
        let base = self.first_queue(input);
        if self.control_first && !kind.follows_data() {
            return base as QueueId;
        }
        if self.organisation == Organisation::PerDestination {
            return self.queue_of_destination(input, dst);
        }
        (base + 1 + self.organisation.index(to, dst)) as QueueId
    }

    fn queue_of_destination(&mut self, input: PortVl, dst: u32) -> QueueId {
        let fresh = self.unused.last().copied().unwrap_or(self.queues.len() as QueueId);
        let id = *self.by_destination.entry((input, dst)).or_insert(fresh);
        if id == fresh {
            let queue = Queue::new(input, self.lanes(), QueueRole::Destination);
            if self.unused.pop().is_some() {
                self.queues[id as usize] = queue;
            } else {
                self.queues.push(queue);
            }
        }
        id
    }

    /// Stores a packet that arrived at an input port, for the output port `to`.
    #[inline(always)]
    pub fn store(&mut self, packets: &mut Pool, now: Time, port: Port, to: Port, id: PacketId) -> Stored {
        let packet = &packets[id];
        let queue = self.queue_for(self.with_lane(port, packet.vl), to, packet.dst, packet.kind());
        self.store_in(queue, packets, now, (port, to), id)
    }

    /// Whether each destination has a queue.
    pub fn is_per_destination(&self) -> bool {
        self.organisation == Organisation::PerDestination
    }

    /// Whether a packet of this kind is stored in the queue of its destination.
    #[inline]
    pub fn has_own_queue(&self, kind: Kind) -> bool {
        self.organisation == Organisation::PerDestination && (!self.control_first || kind.follows_data())
    }

    /// Creates a queue for a destination at an input. The caller stores its index, and adds the packets of
    /// the destination to the queue until it is empty.
    pub fn open_queue(&mut self, port: Port, vl: Vl) -> QueueId {
        let queue = Queue::new(self.with_lane(port, vl), self.lanes(), QueueRole::Open);
        match self.unused.pop() {
            Some(id) => {
                self.queues[id as usize] = queue;
                id
            }
            None => {
                self.queues.push(queue);
                self.queues.len() as QueueId - 1
            }
        }
    }

    /// Stores a packet in a queue.
    #[inline(always)]
    pub fn store_in(
        &mut self,
        queue: QueueId,
        packets: &mut Pool,
        now: Time,
        (port, to): (Port, Port),
        id: PacketId,
    ) -> Stored {
        let Packet { vl, size, .. } = packets[id];
        let (input, output) = (self.with_lane(port, vl), self.with_lane(to, vl));
        self.demand[output.index()].sum += size;
        if let Some(wanted) = self.wanted_mut(vl) {
            wanted.filled.insert(to);
        }
        let state = &mut self.queues[queue as usize];
        let was_empty = state.fifo.is_empty();
        state.fifo.push(id, packets);
        state.bytes += size;
        let bytes = state.bytes;
        // In the usual case, no other queue changes.
        if self.cams.is_some() && self.may_isolate(packets, queue, input, bytes) {
            return self.store_isolating(packets, now, port, output, queue, was_empty);
        }
        if was_empty {
            self.sit(queue, output, to, port, now);
            return Stored::First;
        }
        Stored::Behind
    }

    /// Whether a queue that has grown to `bytes` may indicate a root, or its head may match a CAM line.
    #[inline(always)]
    fn may_isolate(&self, packets: &Pool, queue: QueueId, input: PortVl, bytes: u32) -> bool {
        let Some(cams) = &self.cams else { return false };
        cams.may_detect(bytes) || cams.has_lines(input) && !self.is_quiet(cams, packets, queue)
    }

    /// Whether a queue is empty, or its head matches no CAM line and is not stopped.
    #[inline]
    fn is_quiet(&self, cams: &Cams, packets: &Pool, queue: QueueId) -> bool {
        let Queue { fifo, vl, input, .. } = &self.queues[queue as usize];
        fifo.head().is_none_or(|id| {
            let packet = &packets[id];
            let output = self.with_lane(self.routes.of(packet), *vl);
            cams.is_quiet(*input, output, packet.dst)
        })
    }

    /// Removes the packet at the head of a queue, which leaves through an output port. If the next packet
    /// simply replaces it, the change is not recorded in [`Changes`], because the output tries to send again
    /// in any case. Returns the bytes that still wait for the output on that virtual lane.
    #[inline(always)]
    pub fn take(&mut self, packets: &mut Pool, now: Time, queue: QueueId, to: Port) -> u32 {
        let state = &mut self.queues[queue as usize];
        let Some(id) = state.fifo.pop(packets) else {
            self.changes.report_broken("a packet was taken from an empty queue");
            return 0;
        };
        let (dst, size) = (packets[id].dst, packets[id].size);
        state.bytes -= size;
        let (role, input, vl) = (state.role, state.input, state.vl);
        let output = self.with_lane(to, vl);
        let sum = &mut self.demand[output.index()].sum;
        *sum -= size;
        let left = *sum;
        if left == 0
            && let Some(wanted) = self.wanted_mut(vl)
        {
            wanted.filled.remove(to);
        }
        let is_isolated = match (&mut self.cams, role) {
            (None, _) | (_, QueueRole::Control | QueueRole::Destination | QueueRole::Open) => false,
            (Some(cams), QueueRole::Normal) => {
                cams.normal_lost(input, id);
                cams.has_own_line(input, to)
            }
            (Some(_), QueueRole::Special(_)) => true,
        };
        if is_isolated {
            self.take_isolated(packets, now, queue, to, dst, size);
        } else {
            self.head_left(packets, now, queue, dst);
        }
        left
    }

    #[inline]
    fn send_notice(&mut self, input: PortVl, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.changes.notify(input.port(self.lanes()), notice);
        }
    }

    /// Updates the position of a queue in its ring after its head has left.
    #[inline(always)]
    fn head_left(&mut self, packets: &mut Pool, now: Time, queue: QueueId, dst: u32) {
        let state = &mut self.queues[queue as usize];
        let (input, port) = (state.input, state.port);
        let Seat::Ring(output) = state.seat else {
            self.changes.report_broken("a packet left a queue that had no turn");
            return self.head_changed(packets, now, queue);
        };
        let Some(id) = state.fifo.head() else {
            state.seat = Seat::None;
            let role = state.role;
            self.leave_ring(queue, output, port);
            match role {
                QueueRole::Destination => self.forget(queue, dst),
                QueueRole::Open => self.unused.push(queue),
                QueueRole::Control | QueueRole::Normal | QueueRole::Special(_) => {}
            }
            return;
        };
        // If the next packet waits for the same output and no other queue of the input does, the ring does not change.
        // This is also true for special queues, because packets never move out of them.
        let (vl, role) = (state.vl, state.role);
        if self.waits_alone(output, port) {
            let next = &packets[id];
            let to = self.with_lane(self.routes.of(next), vl);
            let stays = |cams: &Cams| {
                cams.is_quiet(input, output, next.dst)
                    || role.is_special() && self.due_times.is_none() && !cams.stops(output, next.dst)
            };
            if to == output && self.cams.as_ref().is_none_or(stays) {
                return;
            }
        }
        self.head_changed(packets, now, queue);
    }

    /// Updates a queue whose head has changed.
    #[inline(never)]
    fn head_changed(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        self.unseat(queue);
        self.isolate(packets, now, queue);
        self.seat(packets, now, queue);
    }

    /// Releases the empty queue of a destination.
    fn forget(&mut self, queue: QueueId, dst: u32) {
        let input = self.queues[queue as usize].input;
        self.by_destination.remove(&(input, dst));
        self.unused.push(queue);
    }

    /// Puts a queue into the ring of the output that its head requests, unless it is empty or stopped.
    fn seat(&mut self, packets: &Pool, now: Time, queue: QueueId) {
        let state = &self.queues[queue as usize];
        let Some(id) = state.fifo.head() else { return };
        let (port, vl) = (state.port, state.vl);
        let to = self.route(&packets[id]);
        let output = self.with_lane(to, vl);
        if self.is_stopped(&packets[id], output) {
            self.queues[queue as usize].seat = Seat::Parked(output);
            self.add_parked(queue, output);
            return;
        }
        self.sit(queue, output, to, port, now);
        self.changes.ask(output, port);
    }

    /// Adds a queue to the ring of its input port at an output.
    #[inline(always)]
    fn sit(&mut self, queue: QueueId, output: PortVl, to: Port, port: Port, now: Time) {
        let state = &mut self.queues[queue as usize];
        state.seat = Seat::Ring(output);
        if let (Some(due_times), QueueRole::Special(at)) = (&mut self.due_times, state.role) {
            due_times.may_go(SpecialQueue { input: state.input, number: at.into() }, now);
        }
        let (role, vl) = (state.role, state.vl);
        self.join_ring(queue, role, output, port);
        if let Some(wanted) = self.wanted_mut(vl) {
            wanted.asked_for.insert(to);
        }
    }

    /// Whether the next node has stopped the flow of a packet.
    fn is_stopped(&self, packet: &Packet, output: PortVl) -> bool {
        packet.kind().follows_data() && self.cams.as_ref().is_some_and(|cams| cams.stops(output, packet.dst))
    }

    /// Removes a queue from the list in which it waits.
    fn unseat(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue as usize];
        let port = state.port;
        match std::mem::replace(&mut state.seat, Seat::None) {
            Seat::None => {}
            Seat::Ring(output) => self.leave_ring(queue, output, port),
            Seat::Parked(output) => {
                self.parked[output.index()].retain(|&parked| parked != queue);
                self.demand[output.index()].parked -= 1;
            }
        }
    }

    #[inline(always)]
    fn leave_ring(&mut self, queue: QueueId, output: PortVl, port: Port) {
        let ring = self.ring_index(output, port);
        let OutputRequests { requests, alone, .. } = &mut self.demand[output.index()];
        if alone.contains(port) {
            alone.remove(port);
        } else if !self.rings[ring].remove(&mut self.queues, queue) {
            // Other queues of the input wait for the output.
            return;
        }
        requests.remove(port);
        if requests.is_empty() {
            let (to, vl) = (output.port(self.lanes()), output.vl(self.lanes()));
            if let Some(wanted) = self.wanted_mut(vl) {
                wanted.asked_for.remove(to);
            }
        }
    }

    /// Parks a queue, which may then not send until [`Self::unpark`].
    pub fn park(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue as usize];
        let Seat::Ring(output) = state.seat else {
            return self.changes.report_broken("a queue that had no turn was parked");
        };
        let port = state.port;
        state.seat = Seat::Parked(output);
        self.leave_ring(queue, output, port);
        self.add_parked(queue, output);
    }

    fn add_parked(&mut self, queue: QueueId, output: PortVl) {
        self.parked[output.index()].push(queue);
        self.demand[output.index()].parked += 1;
    }

    /// Moves the queues that wait for credit or permission at an output back to their rings, unless the next
    /// node has stopped them.
    pub fn unpark(&mut self, packets: &Pool, now: Time, output: PortVl) {
        if self.demand[output.index()].parked == 0 {
            return;
        }
        let room = std::mem::take(&mut self.unparked);
        let mut unparked = std::mem::replace(&mut self.parked[output.index()], room);
        self.demand[output.index()].parked = 0;
        for queue in unparked.drain(..) {
            self.queues[queue as usize].seat = Seat::None;
            self.seat(packets, now, queue);
        }
        self.unparked = unparked;
    }

    /// Bytes in the queue of an input port whose fill indicates the congestion of an output. This is the special queue
    /// of the root if roots have one, and otherwise the normal queue. `open` is the queue of the destination if
    /// [`Self::open_queue`] created it.
    pub fn telling_bytes(&self, passage: Passage, dst: u32, open: Option<QueueId>) -> u32 {
        let Passage { input: port, output: to, vl } = passage;
        let input = self.with_lane(port, vl);
        match &self.cams {
            Some(cams) if cams.rule().at_root => {
                let root = cams.root_queue(input, self.with_lane(to, vl));
                root.map_or(0, |at| self.queues[self.special_queue(input, at)].bytes)
            }
            _ if self.normal == 0 => {
                let queue = open.or_else(|| self.by_destination.get(&(input, dst)).copied());
                queue.map_or(0, |queue| self.queues[queue as usize].bytes)
            }
            _ => self.queues[self.first_queue(input) + 1 + self.organisation.index(to, dst)].bytes,
        }
    }

    fn of_input(&self, port: Port, vl: Vl) -> impl Iterator<Item = &Queue> {
        let input = self.with_lane(port, vl);
        self.queues.iter().filter(move |queue| queue.input == input && !queue.fifo.is_empty())
    }

    /// The packets at an input port on a virtual lane.
    pub fn waiting(&self, packets: &Pool, port: Port, vl: Vl) -> Vec<PacketId> {
        self.of_input(port, vl).flat_map(|queue| queue.fifo.iter(packets)).collect()
    }

    /// Buffer space in use at an input port on a virtual lane, computed from its queues.
    pub fn space(&self, packets: &Pool, port: Port, vl: Vl) -> u32 {
        self.of_input(port, vl).flat_map(|queue| queue.fifo.iter(packets)).map(|id| packets[id].space).sum()
    }

    /// The output ports requested by the heads of an input port's queues.
    pub fn heads(&self, packets: &Pool, port: Port, vl: Vl) -> Vec<Port> {
        let heads = self.of_input(port, vl).filter_map(|queue| queue.fifo.head());
        heads.map(|id| self.route(&packets[id])).collect()
    }
}
