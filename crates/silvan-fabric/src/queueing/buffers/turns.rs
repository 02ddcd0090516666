//! Selects the queue whose turn it is at an output. Special queues may yield to normal ones; see
//! [`crate::queueing::arbitration`].

use silvan_engine::Time;
use silvan_network::port::{Lanes, Port, PortVl};
use silvan_network::port_set::PortSet;

use super::super::arbitration::{DueTimes, SpecialQueue, Standing};
use super::{Buffers, OutputRequests, Queue, QueueId, QueueRole};

impl<S: PortSet, L: Lanes> Buffers<S, L> {
    /// The queue whose turn it is among the queues of an input port that wait for an output.
    #[inline]
    pub fn front(&self, output: PortVl, port: Port, now: Time) -> Option<QueueId> {
        match &self.due_times {
            None if self.demand[output.index()].alone.contains(port) => Some(self.home(output, port)),
            None => self.rings[self.ring_index(output, port)].front(),
            Some(due_times) => self.choose(due_times, output, port, now),
        }
    }

    /// The queue of an input port that usually waits alone for an output: the port's only normal queue, or its queue
    /// for the output.
    #[inline(always)]
    fn home(&self, output: PortVl, port: Port) -> QueueId {
        let (to, vl) = (output.port(self.lanes()), output.vl(self.lanes()));
        (self.first_queue(self.with_lane(port, vl)) + 1 + self.organisation.index(to, 0)) as QueueId
    }

    /// The queues of an input port that wait for an output, in the order of their turns.
    pub(super) fn members(&self, output: PortVl, port: Port) -> impl Iterator<Item = QueueId> {
        let is_alone = self.demand[output.index()].alone.contains(port);
        let home = is_alone.then(|| self.home(output, port));
        home.into_iter().chain(self.rings[self.ring_index(output, port)].iter(&self.queues))
    }

    /// Whether exactly one queue of an input port waits for an output.
    #[inline(always)]
    pub(super) fn waits_alone(&self, output: PortVl, port: Port) -> bool {
        self.demand[output.index()].alone.contains(port)
            || self.rings[self.ring_index(output, port)].is_single()
    }

    /// Adds a queue of an input port to those that wait for an output. A queue of control packets is added before the
    /// others, any other queue after them.
    #[inline(always)]
    pub(super) fn join_ring(&mut self, queue: QueueId, role: QueueRole, output: PortVl, port: Port) {
        let is_home = role == QueueRole::Normal && queue == self.home(output, port);
        let ring = self.ring_index(output, port);
        let OutputRequests { requests, alone, .. } = &mut self.demand[output.index()];
        if is_home && !requests.contains(port) {
            requests.insert(port);
            alone.insert(port);
            return;
        }
        requests.insert(port);
        if alone.contains(port) {
            alone.remove(port);
            let home = self.home(output, port);
            self.rings[ring].push_back(&mut self.queues, home);
        }
        let ring = &mut self.rings[ring];
        if role == QueueRole::Control {
            ring.push_front(&mut self.queues, queue);
        } else {
            ring.push_back(&mut self.queues, queue);
        }
    }

    /// Selects a queue by its due time. Separate from the code that every packet uses.
    #[inline(never)]
    fn choose(&self, due_times: &DueTimes, output: PortVl, port: Port, now: Time) -> Option<QueueId> {
        due_times.choose(self.members(output, port).map(|id| (id, self.standing(id))), now)
    }

    /// The input ports that may be served at an output: those with a waiting queue that need not yield. If
    /// all of them are busy, the result contains all ports with waiting queues; with `strict`, it contains
    /// the busy ports whose queues need not yield and, among the other ports, those whose queues are due
    /// first.
    #[inline]
    pub fn in_turn(&self, output: PortVl, busy: S, now: Time) -> S {
        let requests = self.requests(output);
        if self.due_times.is_none() { requests } else { self.without_passed(output, requests, busy, now) }
    }

    /// See [`Self::in_turn`].
    #[inline(never)]
    fn without_passed(&self, output: PortVl, requests: S, busy: S, now: Time) -> S {
        let (mut others, mut longest) = (requests, (Time::NEVER, S::default()));
        for port in requests.iter() {
            let Some(queue) = self.front(output, port, now).filter(|&queue| self.lets_pass(queue, now))
            else {
                continue;
            };
            others.remove(port);
            let due = self.due_times.as_ref().map_or(Time::ZERO, |times| times.due(self.standing(queue)));
            if !busy.contains(port) && due <= longest.0 {
                longest.1 = if due < longest.0 { S::default() } else { longest.1 };
                longest.0 = due;
                longest.1.insert(port);
            }
        }
        if !others.without(busy).is_empty() {
            return others;
        }
        // The output may wait for a busy input whose queue does not yield, but not for one whose queue
        // yields.
        if self.is_strict() { others.or(longest.1) } else { requests }
    }

    /// Whether special queues also yield to normal queues of other outputs that can send.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.due_times.as_ref().is_some_and(|times| times.is_strict())
    }

    /// Whether a queue is a special queue that must yield.
    #[inline]
    pub fn lets_pass(&self, queue: QueueId, now: Time) -> bool {
        self.due_times.as_ref().is_some_and(|due_times| due_times.lets_pass(self.standing(queue), now))
    }

    fn standing(&self, queue: QueueId) -> Standing {
        match self.queues[queue as usize] {
            Queue { role: QueueRole::Control, .. } => Standing::Control,
            Queue { role: QueueRole::Normal | QueueRole::Destination | QueueRole::Open, .. } => {
                Standing::Normal
            }
            Queue { role: QueueRole::Special(at), input, .. } => {
                Standing::Special(SpecialQueue { input, number: at.into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;
    use silvan_engine::Rate;

    use super::super::{BufferShape, PortSelection};
    use super::*;
    use crate::packet::{Contents, Kind, Packet, Pool};
    use crate::queueing::Organisation;
    use crate::queueing::isolation::{Cams, LineMessage, Notice, SpecialQueueRule};
    use crate::routes::{ForwardingTable, RoutesBuilder};
    use silvan_congestion::isolation::{SpecialArbitration, SpecialQueues};
    use silvan_network::port::{OneLane, Vl};
    use silvan_network::port_set::Ports64;

    const HOT: u32 = 7;
    const COLD: u32 = 1;
    const SLOT: Time = Time(100_000);
    const OUT: PortVl = PortVl::FIRST;

    fn packet(dst: u32) -> Packet {
        Packet { size: 1_000, space: 1_000, dst, ..Packet::example() }
    }

    /// Two inputs and one output. The next node has allocated a line for the hot destination with a rate of 20 Gbit/s.
    /// Input 0 holds hot packets and `cold` cold packets, and input 1 holds hot packets.
    fn node(arbitration: SpecialArbitration, cold: usize) -> (Buffers<Ports64, OneLane>, Pool) {
        let longest_wait = (arbitration == SpecialArbitration::Strict).then_some(Time(5 * SLOT.0));
        let special = SpecialQueues { arbitration, longest_wait, ..SpecialQueues::default() };
        let cams = Cams::new(
            Arc::new(SpecialQueueRule::new(&special, 1_000)),
            2,
            [Rate::from_gbit(80)].into(),
            1,
            false,
        );
        let shape = BufferShape {
            inputs: 2,
            outputs: 1,
            lanes: 1,
            organisation: Organisation::Single,
            control_first: false,
        };
        let (mut buffers, mut packets) =
            (Buffers::new(shape, PortSelection::None, Some(cams)), Pool::default());
        let message = LineMessage::Allocate([HOT].into());
        let notice = Notice { vl: Vl::FIRST, line: 0, rate: Some(Rate::from_gbit(20)), message };
        buffers.received(&mut packets, Time::ZERO, Port::FIRST, notice);
        let hot = std::iter::repeat_n(HOT, 20);
        for (input, dst) in
            hot.flat_map(|dst| [(0, dst), (1, dst)]).chain(std::iter::repeat_n((0, COLD), cold))
        {
            let id = packets.insert(packet(dst));
            buffers.store(&mut packets, Time::ZERO, Port(input), Port::FIRST, id);
        }
        (buffers, packets)
    }

    /// The packets that the output sends, one per slot, in a round robin of its inputs. `c` stands for a cold
    /// packet, and the number of the input for a hot packet.
    fn sent(arbitration: SpecialArbitration, cold: usize, slots: u64) -> String {
        let (mut buffers, mut packets) = node(arbitration, cold);
        let (mut sent, mut turn) = (String::new(), Port::FIRST);
        for now in (0..slots).map(|slot| Time(slot * SLOT.0)) {
            let input = buffers.in_turn(OUT, Ports64::default(), now).next(turn).unwrap();
            turn = Port(input.0 + 1);
            let queue = buffers.front(OUT, input, now).unwrap();
            let dst = packets[buffers.head(queue).unwrap()].dst;
            sent.push(if dst == COLD { 'c' } else { ['0', '1'][input.index()] });
            buffers.take(&mut packets, now, queue, Port::FIRST);
        }
        sent
    }

    #[test]
    fn special_queues_let_other_inputs_pass_until_they_are_due() {
        assert_eq!(sent(SpecialArbitration::RoundRobin, 20, 12), "01c101c101c1");
        assert_eq!(sent(SpecialArbitration::Strict, 20, 17), "ccccc10ccc10ccc10");
        // The link has 80 Gbit/s, and the root accepts 10 Gbit/s from each input, which is every eighth packet.
        assert_eq!(sent(SpecialArbitration::Weighted, 20, 17), "01cccccc10cccccc1");
        // If there are no cold packets, the special queues of the inputs send immediately and alternate.
        assert_eq!(sent(SpecialArbitration::Strict, 2, 6), "cc1010");
        assert_eq!(sent(SpecialArbitration::Weighted, 0, 6), "010101");
    }

    #[test]
    fn a_special_queue_keeps_its_place_until_it_is_stopped() {
        let (mut buffers, mut packets) = node(SpecialArbitration::RoundRobin, 0);
        let queue = buffers.front(OUT, Port::FIRST, Time::ZERO).unwrap();
        buffers.changes.clear();
        assert_eq!(
            buffers.take(&mut packets, Time::ZERO, queue, Port::FIRST),
            39_000,
            "of two times 20 packets"
        );
        assert_eq!(buffers.front(OUT, Port::FIRST, Time::ZERO), Some(queue));
        assert!(buffers.changes.asked().is_empty(), "no further input waits");
        let stop = Notice { vl: Vl::FIRST, line: 0, rate: None, message: LineMessage::Stop };
        buffers.received(&mut packets, Time::ZERO, Port::FIRST, stop);
        assert_eq!(buffers.front(OUT, Port::FIRST, Time::ZERO), None);
        assert_eq!(buffers.aside(OUT), Port::all(2).collect::<Ports64>());
    }

    #[test]
    fn inputs_that_are_busy_do_not_make_others_wait() {
        let (buffers, _) = node(SpecialArbitration::Strict, 1);
        let ports = |ports: &[u16]| ports.iter().map(|&port| Port(port)).collect::<Ports64>();
        assert_eq!(buffers.in_turn(OUT, ports(&[]), Time::ZERO), ports(&[0]));
        assert_eq!(buffers.in_turn(OUT, ports(&[0]), Time::ZERO), ports(&[0, 1]));
        assert_eq!(buffers.in_turn(OUT, ports(&[1]), Time::ZERO), ports(&[0]));
    }

    /// A switch with two inputs and two outputs, where the destination of a packet is its output.
    fn switch(organisation: Organisation) -> Buffers<Ports64, OneLane> {
        let shape = BufferShape { inputs: 2, outputs: 2, lanes: 1, organisation, control_first: true };
        let numbers: Vec<u16> = (0..8).map(|dst| 1 + dst % 2).collect();
        let mut builder = RoutesBuilder::default();
        let row = builder.add(&numbers);
        Buffers::new(shape, PortSelection::Table(ForwardingTable { routes: builder.build(), row }), None)
    }

    proptest! {
        /// Compares with plain lists of queues. A queue that gets its first packet or another head is served after the
        /// others of its input and output, or before them if it is the control queue.
        #[test]
        fn queues_take_turns(
            organisation in prop::sample::select(vec![
                Organisation::Single,
                Organisation::PerOutput,
                Organisation::DestinationModulo(3),
                Organisation::PerDestination,
            ]),
            steps in prop::collection::vec((0u16..2, 0u32..8, any::<bool>(), any::<bool>()), 1..150),
        ) {
            let (mut buffers, mut packets) = (switch(organisation), Pool::default());
            let mut turns: [[VecDeque<QueueId>; 2]; 2] = Default::default();
            let output_of = |dst: u32| dst as usize % 2;
            for (input, dst, is_control, stores) in steps {
                let to = Port(dst as u16 % 2);
                let of_input = Port(input);
                let joins = if stores {
                    let kind = if is_control { Kind::Cnp } else { Kind::Data };
                    let id = packets.insert(Packet { contents: Contents::example(kind), ..packet(dst) });
                    buffers.store(&mut packets, Time::ZERO, of_input, to, id);
                    let holds = |queue: &Queue| queue.port == of_input && queue.fifo.iter(&packets).any(|other| other == id);
                    let queue = buffers.queues.iter().position(holds).unwrap() as QueueId;
                    (buffers.head(queue) == Some(id)).then_some(queue)
                } else {
                    let Some(queue) = turns[to.index()][usize::from(input)].pop_front() else { continue };
                    buffers.take(&mut packets, Time::ZERO, queue, to);
                    buffers.head(queue).map(|_| queue)
                };
                if let Some(queue) = joins {
                    let head = &packets[buffers.head(queue).unwrap()];
                    let ring = &mut turns[output_of(head.dst)][usize::from(input)];
                    if head.kind() == Kind::Cnp { ring.push_front(queue) } else { ring.push_back(queue) }
                }
                for (output, inputs) in (0..).map(PortVl::new).zip(&turns) {
                    for (port, ring) in Port::all(2).zip(inputs) {
                        prop_assert!(buffers.members(output, port).eq(ring.iter().copied()));
                        prop_assert_eq!(buffers.front(output, port, Time::ZERO), ring.front().copied());
                        prop_assert_eq!(buffers.requests(output).contains(port), !ring.is_empty());
                        prop_assert_eq!(buffers.waits_alone(output, port), ring.len() == 1);
                    }
                }
            }
        }
    }
}
