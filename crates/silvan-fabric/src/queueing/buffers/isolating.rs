//! Handles packets that may match CAM lines, separately from the code for every packet.

use silvan_engine::Time;
use silvan_network::port::{Lanes, Port, PortVl};
use silvan_network::port_set::PortSet;

use super::super::arbitration::SpecialQueue;
use super::super::isolation::{Growth, InputLane, Notice};
use super::{Buffers, Moved, Queue, QueueId, QueueRole, Seat, Stored};
use crate::packet::{Packet, Pool};

/// The error if a packet concerns CAM lines although there are none.
const NO_CAMS: &str = "a node without special queues has isolated a packet";

impl<S: PortSet, L: Lanes> Buffers<S, L> {
    /// Completes [`Self::store_in`] if [`Self::may_isolate`] returned true.
    #[inline(never)]
    pub(super) fn store_isolating(
        &mut self,
        packets: &mut Pool,
        now: Time,
        port: Port,
        output: PortVl,
        queue: QueueId,
        was_empty: bool,
    ) -> Stored {
        let Some(cams) = &self.cams else {
            self.changes.report_broken(NO_CAMS);
            return Stored::Behind;
        };
        let Queue { role, bytes, .. } = self.queues[queue as usize];
        let may_match = !self.is_quiet(cams, packets, queue);
        let may_detect = role == QueueRole::Normal && cams.may_detect(bytes);
        let mut stored = if was_empty { Stored::First } else { Stored::Behind };
        if was_empty && !may_match {
            self.sit(queue, output, output.port(self.lanes()), port, now);
        } else if was_empty {
            stored = Stored::Otherwise;
            self.head_changed(packets, now, queue);
        }
        if role != QueueRole::Normal || !may_detect && !may_match {
            return stored;
        }
        if stored == Stored::First {
            self.changes.ask(output, port);
        }
        if may_detect {
            self.detect(packets, now, queue);
        } else {
            self.reconsider(packets, now, queue);
        }
        Stored::Otherwise
    }

    /// Completes [`Self::take`] for a packet for `dst` with `size` bytes that leaves a queue with a CAM line.
    #[inline(never)]
    pub(super) fn take_isolated(
        &mut self,
        packets: &mut Pool,
        now: Time,
        queue: QueueId,
        to: Port,
        dst: u32,
        size: u32,
    ) {
        let Queue { role, bytes, input, vl, .. } = self.queues[queue as usize];
        let Some(cams) = &mut self.cams else { return self.changes.report_broken(NO_CAMS) };
        if let (Some(due_times), QueueRole::Special(at)) = (&mut self.due_times, role) {
            let number = usize::from(at);
            due_times.served(SpecialQueue { input, number }, size, || cams.share(input, number), now);
        }
        let notice = match role {
            QueueRole::Special(at) => {
                cams.special_shrank(InputLane { input, vl }, usize::from(at), dst, bytes)
            }
            QueueRole::Normal => cams.normal_shrank(InputLane { input, vl }, to, bytes),
            QueueRole::Control | QueueRole::Destination | QueueRole::Open => None,
        };
        self.send_notice(input, notice);
        self.head_left(packets, now, queue, dst);
        if let QueueRole::Special(at) = role
            && bytes == 0
        {
            self.release(packets, now, input, usize::from(at));
        }
    }

    /// Releases an empty special queue unless it is stopped, and then isolates packets that waited for a
    /// special queue.
    fn release(&mut self, packets: &mut Pool, now: Time, input: PortVl, at: usize) {
        let vl = input.vl(self.lanes());
        let Some(cams) = &mut self.cams else { return self.changes.report_broken(NO_CAMS) };
        let (released, notice) = cams.release(InputLane { input, vl }, at, now);
        let wanted = released && cams.take_wanting(input);
        if let (true, Some(due_times)) = (released, &mut self.due_times) {
            due_times.forget(SpecialQueue { input, number: at });
        }
        self.send_notice(input, notice);
        if wanted {
            let first = (self.first_queue(input) + 1) as QueueId;
            (first..first + QueueId::from(self.normal))
                .for_each(|queue| self.reconsider(packets, now, queue));
        }
    }

    /// Checks whether a normal queue that has grown indicates a root.
    fn detect(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        let Queue { fifo, bytes, input, vl, .. } = self.queues[queue as usize];
        // The packet that arrived may have moved to a special queue.
        let (Some(head), Some(last)) = (fifo.head(), fifo.last()) else { return };
        let port = self.route(&packets[head]);
        let output = self.with_lane(port, vl);
        let (routes, pool) = (&self.routes, &*packets);
        let there = |packet: &&Packet| packet.kind().follows_data() && routes.of(packet) == port;
        let behind = |before| fifo.iter_after(before, pool).map(|id| &pool[id]);
        let waiting = |before| behind(before).filter(there).map(|packet| packet.dst);
        let Some(cams) = &mut self.cams else { return self.changes.report_broken(NO_CAMS) };
        // Allocate a special queue only for a packet that can move there now.
        if cams.rule().at_root && !packets[head].kind().follows_data() {
            return;
        }
        let growth = Growth { at: InputLane { input, vl }, queue, last, output, port, bytes };
        let notice = cams.normal_grew(growth, waiting, now);
        self.send_notice(input, notice);
        self.reconsider(packets, now, queue);
    }

    /// Moves packets from the head of a normal queue to special queues while they match a CAM line. Returns
    /// whether any packet moved.
    pub(super) fn isolate(&mut self, packets: &mut Pool, now: Time, queue: QueueId) -> bool {
        let mut any = false;
        let lanes = self.lanes();
        let first_special = self.special_queue(self.queues[queue as usize].input, 0);
        loop {
            let Queue { fifo, input, vl, role, .. } = self.queues[queue as usize];
            let (Some(cams), QueueRole::Normal, Some(id)) = (&mut self.cams, role, fifo.head()) else {
                return any;
            };
            let (dst, size, kind) = (packets[id].dst, packets[id].size, packets[id].kind());
            if !kind.follows_data() {
                return any;
            }
            let port = self.routes.of(&packets[id]);
            let output = PortVl::of(port, vl, lanes);
            let Some(at) = cams.special_for(input, output, dst, now) else { return any };
            any = true;
            cams.normal_lost(input, id);
            let state = &mut self.queues[queue as usize];
            state.fifo.pop(packets);
            state.bytes -= size;
            let left = state.bytes;
            let special = (first_special + at) as QueueId;
            let state = &mut self.queues[special as usize];
            let was_empty = state.fifo.is_empty();
            state.fifo.push(id, packets);
            state.bytes += size;
            let place = InputLane { input, vl };
            let notices =
                [cams.normal_shrank(place, port, left), cams.special_grew(place, at, dst, state.bytes)];
            notices.into_iter().for_each(|notice| self.send_notice(input, notice));
            self.changes.note_moved(Moved { input: input.port(lanes), output: port, vl, dst });
            if was_empty {
                self.seat(packets, now, special);
            }
        }
    }

    /// Isolates the head of a normal queue if it matches a line.
    fn reconsider(&mut self, packets: &mut Pool, now: Time, queue: QueueId) {
        if self.isolate(packets, now, queue) {
            self.unseat(queue);
            self.seat(packets, now, queue);
        }
    }

    /// Handles a notification that arrived at an output port about a line of the next node.
    pub fn received(&mut self, packets: &mut Pool, now: Time, port: Port, notice: Notice) {
        let output = self.with_lane(port, notice.vl);
        // Hosts whose output buffers have no special queues ignore the notifications of their switches.
        let Some(cams) = &mut self.cams else { return };
        for (input, at) in cams.received(output, notice) {
            let queue = self.special_queue(input, at);
            if self.queues[queue].fifo.is_empty() {
                self.release(packets, now, input, at);
            }
        }
        self.unpark(packets, now, output);
        let waiting: Vec<QueueId> =
            Port::all(usize::from(self.inputs)).flat_map(|port| self.members(output, port)).collect();
        for queue in waiting {
            self.reconsider(packets, now, queue);
            if let Queue { fifo, seat: Seat::Ring(_), .. } = self.queues[queue as usize]
                && fifo.head().is_some_and(|id| self.is_stopped(&packets[id], output))
            {
                self.park(queue);
            }
        }
    }
}
