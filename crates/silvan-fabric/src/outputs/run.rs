//! A bin's turn: what arrives in it, and what outputs decide.

use silvan_engine::{Event, Time};

use super::port::{Company, Head, OutputLane, REMOTE, TO_HOST, UNPLANNED};
use super::{Around, Arrival, Bank, Feeder, Remote, Sender};
use crate::congestion::facts::{Departure, QueueChange, Verdict};
use crate::congestion::marking::MarkingRule;
use crate::link::{ChannelId, Class, key};
use crate::packet::{Kind, PacketId, Pool};
use crate::port::{Port, Vl};
use crate::port_set::{Ports256, next_of};

impl<const LANES: usize, const MARKS: bool> Bank<LANES, MARKS> {
    #[inline]
    pub(super) fn next_bin(&self) -> Option<u64> {
        match (self.arrivals.next(), self.planned.next()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, bin: u64) {
        self.bin = bin;
        self.arrivals.turn_to(bin);
        self.planned.turn_to(bin);
    }

    #[inline]
    fn start(&self) -> Time {
        Time(self.bin << self.shift)
    }

    #[inline]
    pub(super) fn end(&self) -> Time {
        Time((self.bin + 1) << self.shift)
    }

    /// The time of an arrival of the current bin.
    #[inline(always)]
    fn time(&self, when: u32) -> Time {
        let start = self.start().0;
        Time(start + u64::from(when.wrapping_sub(start as u32)))
    }

    #[inline]
    pub(super) fn sender(&self, channel: ChannelId) -> Option<usize> {
        let output = self.output_of[channel as usize];
        (output != super::NONE).then_some(output as usize)
    }

    /// See [`super::Outputs::enter`].
    pub(super) fn enter(&mut self, channel: ChannelId, id: PacketId, packets: &Pool, when: Time) {
        let Some(entry) = self.entries[channel as usize] else { return };
        let packet = &packets[id];
        self.arrive((entry.first, entry.row, entry.input), Head::of(id, packet), packet.vl.0, when);
    }

    /// A packet is on its way to a switch: finds its output there.
    #[inline(always)]
    fn arrive(&mut self, (first, row, input): (u32, u32, u8), head: Head, vl: u8, when: Time) {
        let Head { packet, dst, size, space } = head;
        let output = first + self.routes.of(row, dst);
        debug_assert!(when >= self.end(), "no sooner than after the lookahead");
        let arrival = Arrival { output, packet, when: when.0 as u32, dst, size, space, input, vl };
        self.arrivals.push(when.0 >> self.shift, arrival);
    }

    /// As [`Self::arrive`], at a switch of another partition.
    #[inline(never)]
    fn arrive_elsewhere(&mut self, around: &mut Around, remote: u32, head: Head, vl: u8, when: Time) {
        let Remote { part, entry } = self.remotes[remote as usize];
        let Head { packet, dst, size, space } = head;
        let output = entry.first + self.routes.of(entry.row, dst);
        let arrival =
            Arrival { output, packet, when: when.0 as u32, dst, size, space, input: entry.input, vl };
        self.mail[usize::from(part)].send(when, arrival, around.packets[packet]);
        around.packets.remove(packet);
    }

    /// Notes that an output wants to decide at a time, if it is not to be asked before that anyway.
    #[inline(always)]
    pub(super) fn plan(&mut self, output: usize, ready: Time) {
        let bin = self.planned.bin(ready);
        let slot = self.planned.slot(bin);
        let port = &mut self.ports[output];
        let mask = self.planned.count() - 1;
        let now = self.bin as usize;
        let ahead = |slot: usize| slot.wrapping_sub(now) & mask;
        if port.planned == UNPLANNED || ahead(slot) < ahead(usize::from(port.planned)) {
            port.planned = slot as u16;
            self.planned.push(bin, output as u32);
        }
    }

    /// As [`Self::plan`], where it has decided what it had planned.
    #[inline(always)]
    fn plan_again(&mut self, output: usize) {
        let port = &mut self.ports[output];
        if port.ready_at == Time::NEVER {
            port.planned = UNPLANNED;
            return;
        }
        let bin = self.planned.bin(port.ready_at);
        port.planned = self.planned.slot(bin) as u16;
        self.planned.push(bin, output as u32);
    }

    /// See [`super::Outputs::run`].
    pub(super) fn run(&mut self, around: &mut Around, arrive_before: Time, decide_before: Time) {
        self.run_arrivals(around, arrive_before, decide_before);
        let mut planned = std::mem::take(&mut self.to_decide);
        self.planned.take(&mut planned);
        let slot = self.planned.slot(self.bin) as u16;
        for (at, &output) in planned.iter().enumerate() {
            self.foresee_decisions(&planned, at);
            let output = output as usize;
            if self.ports[output].planned != slot {
                continue;
            }
            self.decide(around, output, decide_before);
            self.plan_again(output);
        }
        planned.clear();
        self.to_decide = planned;
    }

    /// What arrives in the current bin before a time, and what of it leaves at once, before another.
    fn run_arrivals(&mut self, around: &mut Around, before: Time, decide_before: Time) {
        let mut arrivals = std::mem::take(&mut self.at_hand);
        self.arrivals.take(&mut arrivals);
        if before < self.end() {
            let (bin, before) = (self.bin, before.0);
            arrivals.retain(|arrival| {
                let is_due = self.time(arrival.when).0 < before;
                if !is_due {
                    self.arrivals.push(bin, *arrival);
                }
                is_due
            });
        }
        self.events += arrivals.len() as u64;
        // Those that arrive at one instant change nothing for each other, unless the marking rule counts the
        // inputs.
        let counts_inputs = MARKS && self.least == 0;
        let (start, width) = (self.start().0 as u32, 1u32 << self.shift);
        for (at, arrival) in arrivals.iter().enumerate() {
            self.foresee_arrivals(&arrivals, at);
            let port = &mut self.ports[arrival.output as usize];
            if port.stamp.wrapping_sub(start) < width {
                let in_order = counts_inputs || port.stamp != arrival.when;
                let company = if in_order { Company::Several } else { Company::Together };
                port.company = port.company.max(company);
            } else {
                (port.stamp, port.company) = (arrival.when, Company::Alone);
            }
        }
        for (at, arrival) in arrivals.iter().enumerate() {
            self.foresee_landing(around.packets, &arrivals, at);
            match self.ports[arrival.output as usize].company {
                Company::Alone => self.land(around, arrival, decide_before),
                Company::Together => self.land(around, arrival, Time::ZERO),
                Company::Several => {
                    let since = arrival.when.wrapping_sub(start);
                    self.several.push((arrival.output, since, arrival.input, at as u32));
                }
            }
        }
        if !self.several.is_empty() {
            let mut several = std::mem::take(&mut self.several);
            several.sort_unstable();
            for &(_, _, _, at) in &several {
                self.land(around, &arrivals[at as usize], Time::ZERO);
            }
            several.clear();
            self.several = several;
        }
        arrivals.clear();
        self.at_hand = arrivals;
    }

    /// A packet arrives at an output, which first decides what it had to before. If nothing else waits there,
    /// the packet may leave at once, before a time.
    #[inline(always)]
    fn land(&mut self, around: &mut Around, arrival: &Arrival, leave_before: Time) {
        let now = self.time(arrival.when);
        let output = arrival.output as usize;
        self.decide(around, output, now);
        if !(now < leave_before && self.pass_on(around, output, now, arrival)) {
            self.enqueue(around, output, now, arrival);
        }
    }

    /// Sends a packet that has just arrived where no other waits or arrives at this time, if there is credit
    /// and the marking rule is not concerned: what [`Self::enqueue`] and [`Self::settle`] would do.
    #[inline(always)]
    fn pass_on(&mut self, around: &mut Around, output: usize, now: Time, arrival: &Arrival) -> bool {
        let Arrival { packet, dst, size, space, input, vl, .. } = *arrival;
        let vl = usize::from(vl) % LANES;
        let port = &mut self.ports[output];
        let lane = &mut port.lanes[vl];
        let is_idle = port.waiting == 0 && port.free_at <= now;
        if !is_idle || MARKS && (u32::from(size) > self.least || lane.above) {
            return false;
        }
        let returns = &mut self.returns[output * LANES + vl];
        if !lane.has_credit(u32::from(space), now, returns, &mut self.spills) {
            return false;
        }
        lane.turn = input + 1;
        if LANES > 1 {
            port.turn = if vl + 1 == LANES { 0 } else { vl as u8 + 1 };
        }
        self.events += 1;
        #[cfg(debug_assertions)]
        self.landed(around, output, usize::from(input), arrival);
        self.transmit(around, output, (vl, usize::from(input)), Head { packet, dst, size, space }, now);
        true
    }

    /// A packet waits for an output from now on.
    #[inline(always)]
    fn enqueue(&mut self, around: &mut Around, output: usize, now: Time, arrival: &Arrival) {
        let Arrival { packet, dst, size, space, input, vl, .. } = *arrival;
        let (input, vl) = (usize::from(input), usize::from(vl) % LANES);
        #[cfg(debug_assertions)]
        self.landed(around, output, input, arrival);
        let port = &mut self.ports[output];
        let bit = 1u64 << (input % 64);
        let is_first = port.lanes[vl].requests & bit == 0;
        if !is_first || !port.hold(vl, input, Head { packet, dst, size, space }) {
            port.lanes[vl].more |= bit;
            self.queues[(output * LANES + vl) * self.width + input].push(packet, around.packets);
        }
        let lane = &mut port.lanes[vl];
        lane.requests |= bit;
        lane.sum += u32::from(size);
        let (sum, above, blocked) = (lane.sum, lane.above, lane.blocked);
        port.waiting |= 1 << vl;
        let ready = now.max(port.free_at);
        let is_sooner = (blocked == 0 || u32::from(space) < blocked) && ready < port.ready_at;
        if is_sooner {
            port.ready_at = ready;
        }
        if MARKS && (sum > self.least || above) {
            self.fill_changed(output, vl, now);
        }
        if is_sooner {
            self.plan(output, ready);
        }
    }

    /// Tells the marking rule of a changed fill; see [`crate::switch::Ports::queue_changed`].
    #[inline(never)]
    fn fill_changed(&mut self, output: usize, vl: usize, now: Time) {
        let Some(rule) = &self.rule else { return };
        let at = output * LANES + vl;
        let marker = &mut self.markers[at];
        let (returns, spills) = (&mut self.returns[at], &mut self.spills);
        let port = &mut self.ports[output];
        let packets = if port.free_at <= now { 2 } else { 1 };
        let space = packets * self.full_space;
        let lane = &mut port.lanes[vl];
        let inputs = Ports256::from_words([lane.requests, 0, 0, 0]);
        let change = QueueChange { now, queue: None, queue_bytes: lane.sum, inputs };
        rule.queue_changed(marker, &change, || lane.has_credit(space, now, returns, spills));
        lane.above = rule.watches_queue(marker, 0);
    }

    /// Decides all that an output has to before a time.
    #[inline(always)]
    fn decide(&mut self, around: &mut Around, output: usize, before: Time) {
        while self.ports[output].ready_at < before {
            self.settle(around, output);
        }
    }

    /// Lets an output send, if it can.
    #[inline(always)]
    fn settle(&mut self, around: &mut Around, output: usize) {
        self.events += 1;
        let port = &self.ports[output];
        let now = port.ready_at;
        let mut wake = Time::NEVER;
        if LANES == 1 {
            match self.settle_lane(around, output, 0, now) {
                Ok(()) => return,
                Err(ready) => wake = ready,
            }
        } else {
            // From the lane whose turn it is to the last, then from the first on.
            let ahead = port.waiting & (u8::MAX << port.turn);
            for mut lanes in [ahead, port.waiting & !ahead] {
                while lanes != 0 {
                    let vl = lanes.trailing_zeros() as usize % LANES;
                    lanes &= lanes - 1;
                    match self.settle_lane(around, output, vl, now) {
                        Ok(()) => {
                            self.ports[output].turn = if vl + 1 == LANES { 0 } else { vl as u8 + 1 };
                            return;
                        }
                        Err(ready) => wake = wake.min(ready),
                    }
                }
            }
        }
        self.ports[output].ready_at = wake;
    }

    /// Lets an output that is free send from one of its lanes; gives when it has the credit that it lacks.
    #[inline(always)]
    fn settle_lane(&mut self, around: &mut Around, output: usize, vl: usize, now: Time) -> Result<(), Time> {
        let port = &mut self.ports[output];
        port.lanes[vl].blocked = 0;
        let OutputLane { requests, turn, .. } = port.lanes[vl];
        let Some(input) = next_of(requests, Port(u16::from(turn))).map(Port::index) else {
            return Err(Time::NEVER);
        };
        let place = port.find(vl, input);
        let queue = (output * LANES + vl) * self.width + input;
        let head = match place {
            Some(place) => port.head(place),
            None => {
                let Some(id) = self.queues[queue].head() else { return Err(Time::NEVER) };
                Head::of(id, &around.packets[id])
            }
        };
        let (size, space) = (u32::from(head.size), u32::from(head.space));
        let returns = &mut self.returns[output * LANES + vl];
        if !port.lanes[vl].has_credit(space, now, returns, &mut self.spills) {
            return Err(self.wait_for_credit(output, vl, space).unwrap_or(Time::NEVER));
        }
        self.take_head(around, output, (vl, input), place);
        let lane = &mut self.ports[output].lanes[vl];
        lane.sum -= size;
        lane.turn = input as u8 + 1;
        if MARKS && (lane.sum > self.least || lane.above) {
            self.fill_changed(output, vl, now);
            self.mark(around, output, vl, head, now);
        }
        self.transmit(around, output, (vl, input), head, now);
        Ok(())
    }

    /// Takes the packet at the head of a queue out of it.
    #[inline(always)]
    fn take_head(
        &mut self,
        around: &mut Around,
        output: usize,
        (vl, input): (usize, usize),
        place: Option<usize>,
    ) {
        let port = &mut self.ports[output];
        let bit = 1u64 << (input % 64);
        let lane = &mut port.lanes[vl];
        if lane.more & bit == 0 {
            lane.requests &= !bit;
            if let Some(place) = place {
                port.free(place);
            }
        } else {
            let queue = &mut self.queues[(output * LANES + vl) * self.width + input];
            let taken = queue.pop(around.packets);
            if queue.is_empty() {
                lane.more &= !bit;
                if place.is_none() {
                    lane.requests &= !bit;
                }
            }
            if let (Some(place), Some(id)) = (place, taken) {
                port.replace(place, Head::of(id, &around.packets[id]));
            }
        }
        if self.ports[output].lanes[vl].requests == 0 {
            self.ports[output].waiting &= !(1 << vl);
        }
    }

    /// Marks a packet that is about to be sent, if the rule says so.
    #[inline(never)]
    fn mark(&mut self, around: &mut Around, output: usize, vl: usize, head: Head, now: Time) {
        let Some(rule) = &self.rule else { return };
        let at = output * LANES + vl;
        let marker = &mut self.markers[at];
        if !rule.watches_departures(marker) {
            return;
        }
        let packet = &mut around.packets[head.packet];
        let port = &mut self.ports[output];
        let lane = &mut port.lanes[vl];
        let departure = Departure {
            now,
            size: u32::from(head.size),
            is_data: packet.kind == Kind::Data,
            is_marked: packet.fecn,
            queue_bytes: lane.sum,
            buffer_bytes: 0,
            sent_bytes: port.sent_bytes,
            rate: self.kinds[usize::from(port.kind)].link.rate,
        };
        let (returns, spills) = (&mut self.returns[at], &mut self.spills);
        let space = 2 * self.full_space;
        match rule.departs(marker, &departure, || lane.has_credit(space, now, returns, spills)) {
            Verdict::Mark(_) => {
                if !packet.fecn && packet.kind == Kind::Data {
                    self.marks[output] += 1;
                    around.meters.fecn_marks += 1;
                }
                packet.fecn = true;
            }
            // The rule of this scheduler only marks; see `Marker::into_binned`.
            Verdict::Forward | Verdict::Validate | Verdict::Stamp(_) => {}
        }
    }

    /// A packet's head and tail reach a host at these times. What the host does with the packet is known:
    /// when it will have drained it, and so when its credit is back. If it neither answers it nor a rank
    /// waits for it nor anybody looks before, the packet is delivered at once.
    #[inline(always)]
    fn deliver(
        &mut self,
        around: &mut Around,
        (output, vl): (usize, usize),
        (host, head): (u32, Head),
        (head_at, tail_at): (Time, Time),
    ) {
        let packet = &mut around.packets[head.packet];
        let is_data = packet.kind == Kind::Data;
        let mut done = tail_at;
        if is_data {
            done = self.sinks[host as usize].pass(head_at, packet.size).max(tail_at);
            around.meters.check_order(packet, tail_at);
        }
        let is_quiet = !packet.fecn && !self.acknowledges && !around.meters.ends_message(packet);
        if is_data && is_quiet {
            self.events += 1;
            around.meters.will_deliver(packet, (tail_at, done));
            around.packets.remove(head.packet);
        } else {
            packet.tail_lag = done - tail_at;
            let event =
                Event { time: tail_at, key: key(Class::HostArrival, host, Port::FIRST), data: head.packet };
            around.queue.push(event);
        }
        let delay = self.kinds[usize::from(self.ports[output].kind)].link.delay;
        let (back, space) = (done + delay, u32::from(head.space));
        if is_data {
            self.credit_of_drained(output, vl, back, space);
        } else {
            self.credit(output, vl, back, space);
        }
    }

    /// Puts a packet on the wire, and lets the credit for its space return.
    #[inline(always)]
    fn transmit(
        &mut self,
        around: &mut Around,
        output: usize,
        (vl, input): (usize, usize),
        head: Head,
        now: Time,
    ) {
        let (size, space) = (u32::from(head.size), u32::from(head.space));
        let port = &mut self.ports[output];
        let link = &mut self.kinds[usize::from(port.kind)].link;
        let (span, delay, head_delay) = (link.span(size), link.delay, link.head_delay);
        let lane = &mut port.lanes[vl];
        lane.available -= space;
        if lane.short {
            lane.short = false;
            self.wanted[output * LANES + vl] = 0;
        }
        #[cfg(debug_assertions)]
        if port.row < REMOTE {
            self.in_flight[output * LANES + vl] += space;
        }
        let end = now + span;
        port.free_at = end;
        port.sent_bytes += u64::from(size);
        port.ready_at = if port.waiting == 0 { Time::NEVER } else { end };
        self.hops += 1;
        let (peer, row, far_input, feeder) =
            (port.peer, port.row, port.input, output - usize::from(port.number) + input);
        if row == TO_HOST {
            self.deliver(around, (output, vl), (peer, head), (now + delay, end + delay));
        } else if row == REMOTE {
            self.arrive_elsewhere(around, peer, head, vl as u8, now + head_delay);
        } else {
            self.arrive((peer, row, far_input), head, vl as u8, now + head_delay);
        }
        match self.feeders[feeder] {
            Feeder::Output(feeder) => {
                let feeder = feeder as usize;
                let delay = self.kinds[usize::from(self.ports[feeder].kind)].link.delay;
                self.credit(feeder, vl, end + delay, space);
            }
            Feeder::Remote(sender) => {
                let Sender { part, output, delay } = self.senders[sender as usize];
                self.mail[usize::from(part)].credit(output, vl as u8, end + delay, space);
            }
            Feeder::Host(channel) => {
                around.links.release(
                    (channel, Vl::new(vl), head.dst),
                    space,
                    (end, now, around.hosts_at),
                    around.queue,
                );
            }
        }
    }
}
