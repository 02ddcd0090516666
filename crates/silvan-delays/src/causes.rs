//! Follows waits to their causes: which link, host or packet delayed a packet at each moment.
//!
//! Each function divides a span of time into pieces without gaps and overlaps, and appends them to a list in order.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_fabric::{FlowAddress, NOT_RECORDED, RecordedLossKind, RecordedRole, RecordedWaitKind};

use crate::channel::Passage;
use crate::message::{Message, Repeated};
use crate::piece::{Chain, Chains, Label, LossKind, Piece, Place};
use crate::record::{Lost, Record, back, picos};
use crate::{Alternatives, Circumstances, Picos, Span};

/// Number of buffers that are followed at most, one behind the other. Longer chains are cycles, because no route is
/// longer.
const MOST_HOPS: usize = 64;
/// Length of the chain to a place that is reached through a lack of credit.
const BEHIND_CREDIT: usize = 2;
/// The departures in this time after a signal tell what was in the queue (50 us).
const QUEUE_HORIZON: Picos = 50_000_000;
/// Number of packets of a queue that are counted.
const MOST_QUEUED: usize = 4096;

/// Number of packets of a flow that are searched for announcements, requests and grants on their way.
const MOST_ON_WAY: usize = 64;

/// What is behind the times in which a channel sends nothing.
#[derive(Clone, Copy)]
enum Idle {
    /// A packet waits for the channel; its departure, if it is in a switch.
    Waiting(Option<u32>),
    /// The host waits for its injection limit.
    Injecting,
}

/// Follows the waits of one message.
pub(crate) struct Causes<'r> {
    pub record: &'r Record,
    circumstances: &'r Circumstances,
    alternatives: &'r Alternatives,
    flow: FlowAddress,
    /// The time of the message.
    span: Span,
    /// The packets of the message and of its other parts, those of the other parts only, and those of the message that repeat
    /// earlier ones.
    own: FxHashSet<u32>,
    of_other_parts: FxHashSet<u32>,
    repeated: Repeated,
    chains: Chains,
    owners: FxHashMap<(u32, Picos), Option<FlowAddress>>,
    /// By departure: the nearest lack of credit of its channel.
    lacks: FxHashMap<u32, Option<Span>>,
    /// By channel, start of a lack of credit, and length of the chain before it, if that matters: the main cause, and this chain.
    main_causes: FxHashMap<(u32, Picos, usize), (Piece, Chain)>,
    /// Number of main causes that are being searched, each within the other.
    depth: usize,
}

impl<'r> Causes<'r> {
    pub fn new(
        record: &'r Record,
        circumstances: &'r Circumstances,
        alternatives: &'r Alternatives,
        message: &Message,
    ) -> Self {
        let mut own: FxHashSet<u32> = message.packets.iter().copied().collect();
        // Those that are in both are packets of the message.
        let of_other_parts = record.other_parts(message).filter(|&packet| own.insert(packet)).collect();
        Self {
            record,
            circumstances,
            alternatives,
            flow: message.flow,
            span: (message.start, message.end),
            own,
            of_other_parts,
            repeated: message.repeated(record),
            chains: Chains::default(),
            owners: FxHashMap::default(),
            lacks: FxHashMap::default(),
            main_causes: FxHashMap::default(),
            depth: 0,
        }
    }

    /// The chains of all pieces.
    pub fn into_chains(self) -> Chains {
        self.chains
    }

    /// Whether a packet of the message repeats an earlier one.
    pub fn is_repeated(&self, packet: u32) -> bool {
        self.repeated.contains_key(&packet)
    }

    /// Attributes a time to the loss because of which a packet is sent again.
    pub fn lost(&mut self, packet: u32, (start, end): Span, out: &mut Vec<Piece>) {
        let Some(lost) = self.repeated.get(&packet).copied().flatten() else {
            return out.push(Piece::new((start, end), Label::Loss, Place::Unknown));
        };
        let Lost { time, channel, kind } = lost;
        // The packet crossed the link for less than this time when it was lost.
        let crossed = time - picos(self.record.channels()[channel as usize].delay) - QUEUE_HORIZON;
        let down = self.circumstances.down.get(&channel).map_or(&[][..], Vec::as_slice);
        let (loss, owner) = match kind {
            RecordedLossKind::OnLink if down.iter().any(|span| span.0 <= time && span.1 > crossed) => {
                (LossKind::LinkDown, None)
            }
            RecordedLossKind::OnLink => (LossKind::Errors, None),
            RecordedLossKind::Dropped => (LossKind::FullBuffer, self.owner_of_buffer(channel, time)),
            RecordedLossKind::Trimmed => (LossKind::Trimmed, self.owner_of_queue(channel, time)),
        };
        let piece = Piece::new((start, end), Label::Loss, Place::Channel(channel));
        out.push(Piece { owner, loss: Some(loss), ..piece });
    }

    fn bytes_by_flow(&self, rows: impl Iterator<Item = u32>) -> FxHashMap<FlowAddress, u64> {
        let mut sums = FxHashMap::default();
        for hop in rows.map(|row| self.record.hop(row)) {
            *sums.entry(self.record.data_flow(hop.packet)).or_default() += u64::from(hop.size);
        }
        sums
    }

    /// The flow that has most bytes in the buffer at the end of a channel at a time.
    fn owner_of_buffer(&self, channel: u32, time: Picos) -> Option<FlowAddress> {
        largest(self.bytes_by_flow(self.record.buffer(channel).present(time)))
    }

    /// Divides a time in which a packet crosses a channel into the usual time and that due to a slow link.
    ///
    /// If the channel often lacked credit in this period, it had a queue only because of what is behind it, so the time
    /// is attributed to the cause of the nearest lack of credit.
    pub fn busy(&mut self, row: u32, (start, end): Span, chain: Chain, out: &mut Vec<Piece>) {
        let mut lack = None;
        if !self.is_own(row, chain) && self.chains.length(chain) < MOST_HOPS {
            let (record, span) = (self.record, self.span);
            lack = *self.lacks.entry(row).or_insert_with(|| record.blocked_near(row, span));
        }
        match lack {
            None => self.sends(row, (start, end), chain, out),
            Some(lack) => {
                let cause = self.main_cause(self.record.hop(row).channel, lack, chain);
                self.push_with_owners(cause, (start, end), out);
            }
        }
    }

    /// Appends a cause for a time. If it is a busy channel, the owners are the flows that use it in this time.
    fn push_with_owners(&self, cause: Piece, (start, end): Span, out: &mut Vec<Piece>) {
        let is_busy = matches!(cause.label, Label::OutputBusy | Label::HashCollision);
        let mut at = start;
        if let (true, Place::Channel(channel)) = (is_busy, cause.place) {
            for (row, _, stop) in self.record.within(channel, start, end) {
                let packet = self.record.hop(row).packet;
                if packet != NOT_RECORDED {
                    let (owner, stop) = (Some(self.record.data_flow(packet)), stop.min(end));
                    out.push(Piece { start: at, end: stop, owner, ..cause });
                    at = stop;
                }
            }
        }
        if at < end {
            out.push(Piece { start: at, end, ..cause });
        }
    }

    /// Whether a departure is a necessary one of the message. A packet of the message that is in front of another one
    /// behind a lack of credit is not: the transmission of each packet is necessary once, at the place of the walk.
    fn is_own(&self, row: u32, chain: Chain) -> bool {
        self.chains.length(chain) < BEHIND_CREDIT && self.own.contains(&self.record.hop(row).packet)
    }

    /// The longest piece of a time in which a channel lacked credit.
    fn main_cause(&mut self, channel: u32, lack: Span, chain: Chain) -> Piece {
        // The cause hardly depends on the channels before this one. Without this, the time would grow exponentially with the
        // length of chains, because each lack of credit has several others behind it.
        let key = (channel, lack.0, self.chains.length(chain).min(BEHIND_CREDIT));
        if let Some(&(known, before)) = self.main_causes.get(&key) {
            return Piece { chain: self.chains.moved(known.chain, before, chain), ..known };
        }
        let circle = Piece { chain, ..Piece::new(lack, Label::Deadlock, Place::Channel(channel)) };
        if self.depth >= MOST_HOPS {
            return circle;
        }
        // If the search returns to this lack of credit, the channels wait for each other.
        self.main_causes.insert(key, (circle, chain));
        let mut pieces = Vec::new();
        self.depth += 1;
        self.idle(channel, None, lack, chain, &mut pieces);
        self.depth -= 1;
        let longest = pieces.into_iter().max_by_key(|piece| (piece.length(), -piece.start));
        let cause = longest.unwrap_or_else(|| Piece::new(lack, Label::Earlier, Place::Channel(channel)));
        self.main_causes.insert(key, (cause, chain));
        cause
    }

    fn sends(&mut self, row: u32, (start, end): Span, chain: Chain, out: &mut Vec<Piece>) {
        let hop = self.record.hop(row);
        if self.record.is_replaced(row) {
            let piece = Piece::new((start, end), Label::LinkErrors, Place::Channel(hop.channel));
            return out.push(Piece { chain, ..piece });
        }
        if self.is_repeated(hop.packet) {
            return self.lost(hop.packet, (start, end), out);
        }
        let is_own = self.is_own(row, chain);
        let mut label = if is_own { Label::Necessary } else { Label::OutputBusy };
        // The other parts of a message could have used another path, too.
        let may_collide = !is_own || self.of_other_parts.contains(&hop.packet);
        if may_collide && self.collides(hop.channel, (start, end)) {
            label = Label::HashCollision;
        }
        let is_packet = hop.packet != NOT_RECORDED;
        let owner = is_packet.then(|| self.record.data_flow(hop.packet));
        let piece = Piece::new((start, end), label, Place::Channel(hop.channel));
        let piece = Piece { owner, chain, ..piece };
        let (first, least) = (self.record.start(row), self.record.usual_span(row));
        if !is_packet || self.record.end(row) - first <= least + 1 {
            out.push(piece);
            return;
        }
        // The first part of the transmission would also have been necessary on a link with the usual rate.
        let middle = (first + least).max(start).min(end);
        if start < middle {
            out.push(Piece { end: middle, ..piece });
        }
        if middle < end {
            out.push(Piece { start: middle, label: Label::SlowLink, ..piece });
        }
    }

    /// Whether another path was idle in a time.
    fn collides(&self, channel: u32, (start, end): Span) -> bool {
        let others = self.alternatives.get(channel as usize).into_iter().flatten();
        others.into_iter().any(|&other| self.record.within(other, start, end).next().is_none())
    }

    /// Divides a time in which a packet waits in a switch for its departure `row`.
    pub fn waits_for_output(&mut self, row: u32, (start, end): Span, chain: Chain, out: &mut Vec<Piece>) {
        let hop = self.record.hop(row);
        let mut at = start;
        if let Some(before) = self.record.previous(row) {
            let (ready, usual) = self.record.ready_times(row, before);
            let place = Place::Channel(self.record.hop(before).channel);
            let owner = Some(self.record.data_flow(hop.packet));
            // The tail of another packet, which is in front, is necessary for that one only.
            let is_own = self.chains.length(chain) == 0 || self.is_own(row, chain);
            let tail = if is_own { Label::Necessary } else { Label::OutputBusy };
            for (label, edge) in [(tail, usual), (Label::SlowLink, ready)] {
                let edge = edge.min(end);
                if at < edge {
                    out.push(Piece { owner, chain, ..Piece::new((at, edge), label, place) });
                    at = edge;
                }
            }
        }
        if at < end {
            self.at_channel(hop.channel, Some(row), (at, end), chain, out);
        }
    }

    fn at_channel(&mut self, channel: u32, row: Option<u32>, span: Span, chain: Chain, out: &mut Vec<Piece>) {
        let chain = self.chains.extended(chain, channel);
        self.divide(channel, span, chain, Idle::Waiting(row), out);
    }

    /// Divides a time into packets on a channel, and the times between them.
    fn divide(&mut self, channel: u32, (start, end): Span, chain: Chain, idle: Idle, out: &mut Vec<Piece>) {
        let mut at = start;
        for (row, begin, stop) in self.record.within(channel, start, end) {
            if begin > at {
                self.between(channel, (at, begin), chain, idle, out);
            }
            let stop = stop.min(end);
            self.busy(row, (begin.max(at), stop), chain, out);
            at = stop;
        }
        if at < end {
            self.between(channel, (at, end), chain, idle, out);
        }
    }

    fn between(&mut self, channel: u32, span: Span, chain: Chain, idle: Idle, out: &mut Vec<Piece>) {
        match idle {
            Idle::Waiting(row) => self.idle(channel, row, span, chain, out),
            Idle::Injecting => {
                out.push(Piece::new(span, Label::Injection, Place::Host(self.flow.host)));
            }
        }
    }

    /// Divides a time in which a channel sends nothing although a packet waits for it.
    fn idle(&mut self, channel: u32, row: Option<u32>, span: Span, chain: Chain, out: &mut Vec<Piece>) {
        let down = self.circumstances.down.get(&channel).map_or(&[][..], Vec::as_slice);
        for (begin, stop, is_down) in cut(down, span) {
            let failed =
                self.record.last_before(channel, begin).is_some_and(|last| self.record.is_replaced(last));
            match row {
                _ if is_down || failed => {
                    let label = if is_down { Label::LinkDown } else { Label::LinkErrors };
                    out.push(Piece { chain, ..Piece::new((begin, stop), label, Place::Channel(channel)) });
                }
                Some(row) => self.behind(channel, row, (begin, stop), chain, out),
                None => self.blocked(channel, (begin, stop), chain, out),
            }
        }
    }

    /// Divides a time in which a packet in a switch waits although its output is idle.
    fn behind(&mut self, channel: u32, row: u32, (start, end): Span, chain: Chain, out: &mut Vec<Piece>) {
        let Circumstances { has_one_queue, shares_inputs, .. } = *self.circumstances;
        let before = self.record.previous(row).filter(|_| has_one_queue || shares_inputs);
        let Some(before) = before else { return self.blocked(channel, (start, end), chain, out) };
        let input = self.record.hop(before).channel;
        let mut at = start;
        while at < end {
            let buffer = self.record.buffer(input);
            let sending = if shares_inputs { buffer.leaving(at) } else { None };
            let first = sending.or_else(|| buffer.first_present(at));
            let foreign = |first: Passage| Some((first, first.row.filter(|&other| other != row)?));
            // With output buffers, a packet in front may leave the switch later.
            let in_front = || {
                buffer.in_front(self.record.arrival(before), at).filter(|_| has_one_queue && shares_inputs)
            };
            let other = first.and_then(foreign).or_else(|| in_front().and_then(foreign));
            let Some((first, other)) = other else {
                return self.blocked(channel, (at, end), chain, out);
            };
            let is_leaving = at >= first.leaves;
            let stop = if is_leaving { first.left } else { first.leaves }.min(end);
            if is_leaving {
                // The input sends another packet.
                self.busy(other, (at, stop), chain, out);
            } else if has_one_queue && self.chains.length(chain) < MOST_HOPS {
                self.at_channel(self.record.hop(other).channel, Some(other), (at, stop), chain, out);
            } else {
                self.blocked(channel, (at, stop), chain, out);
            }
            at = stop;
        }
    }

    /// Divides a time in which the sender of a channel lacks credit, or is paused.
    ///
    /// The time is that of the packet that is in the buffer at the end of the channel and leaves it first, one delay
    /// earlier, because its space returns with that delay.
    fn blocked(&mut self, channel: u32, (start, end): Span, chain: Chain, out: &mut Vec<Piece>) {
        let here = Place::Channel(channel);
        let piece = |span, label, place| Piece { chain, ..Piece::new(span, label, place) };
        if self.chains.length(chain) >= MOST_HOPS {
            out.push(piece((start, end), Label::Deadlock, here));
            return;
        }
        let known = &self.record.channels()[channel as usize];
        let (buffer, delay) = (self.record.buffer(channel), picos(known.delay));
        let mut at = start;
        while at < end {
            let Some(first) = buffer.first_present(at - delay) else {
                let stop = buffer.next_arrival(at - delay, end - delay) + delay;
                let is_known = at - delay >= self.record.begin();
                let label = match (is_known, self.record.has_errors(channel)) {
                    // The sender waits for the receiver to confirm what it has sent.
                    (_, true) => Label::LinkErrors,
                    (true, false) => Label::SmallBuffer,
                    (false, false) => Label::Earlier,
                };
                out.push(piece((at, stop), label, here));
                at = stop;
                continue;
            };
            let stop = (first.left + delay).min(end);
            if known.to_host != NOT_RECORDED {
                let owner = first.row.map(|row| self.record.data_flow(self.record.hop(row).packet));
                let slow = piece((at, stop), Label::SlowReceiver, Place::Host(known.to_host));
                out.push(Piece { owner, ..slow });
            } else if let Some(row) = first.row {
                let middle = (first.leaves + delay).max(at).min(stop);
                let from = out.len();
                if at < middle {
                    self.waits_for_output(row, (at - delay, middle - delay), chain, out);
                }
                if middle < stop {
                    self.busy(row, (middle - delay, stop - delay), chain, out);
                }
                for piece in &mut out[from..] {
                    piece.start += delay;
                    piece.end += delay;
                }
            } else {
                out.push(piece((at, stop), Label::Earlier, here));
            }
            at = stop;
        }
    }

    /// Divides a time in which the flow has data to send, but its host sends none of it.
    pub fn at_host(&mut self, span: Span, out: &mut Vec<Piece>) {
        for (begin, stop, wait) in self.record.flow_waits(self.flow, span) {
            match wait {
                None => self.host_link((begin, stop), out),
                Some(RecordedWaitKind::Answer) => self.answer((begin, stop), out),
                Some(RecordedWaitKind::Announcement) => {
                    let pieces = self.followed_messages((begin, stop));
                    self.merge((begin, stop), Label::Announcement, pieces, out);
                }
                Some(_) => self.paced((begin, stop), out),
            }
        }
    }

    fn host_link(&mut self, span: Span, out: &mut Vec<Piece>) {
        let channel = self.record.out_of(self.flow.host);
        let chain = self.chains.extended(0, channel);
        for (begin, stop, is_slow) in cut(self.record.injection(self.flow.host), span) {
            let idle = if is_slow { Idle::Injecting } else { Idle::Waiting(None) };
            self.divide(channel, (begin, stop), chain, idle, out);
        }
    }

    fn paced(&mut self, span: Span, out: &mut Vec<Piece>) {
        let senses_delays = self.circumstances.senses_delays;
        let signal = self.record.last_signal(self.flow, span.0, senses_delays);
        let owner = signal.and_then(|signal| self.owner_of_queue(signal.channel, signal.time));
        let piece = Piece::new(span, Label::Pacing, Place::Host(self.flow.host));
        out.push(Piece { owner, signal, ..piece });
    }

    /// The flow that has most bytes in the queue of an output at a time, except the own flow.
    fn owner_of_queue(&mut self, channel: u32, time: Picos) -> Option<FlowAddress> {
        if let Some(&known) = self.owners.get(&(channel, time)) {
            return known;
        }
        let record = self.record;
        let near = record.within(channel, time, time + QUEUE_HORIZON).take(MOST_QUEUED).map(|(row, ..)| row);
        let has_come = |row: &u32| record.previous(*row).is_some_and(|before| record.arrival(before) <= time);
        let mut sums = self.bytes_by_flow(near.filter(has_come));
        if sums.len() > 1 {
            sums.remove(&self.flow);
        }
        let owner = largest(sums);
        self.owners.insert((channel, time), owner);
        owner
    }

    /// Divides a time in which the flow waits for an answer or a grant.
    fn answer(&mut self, span: Span, out: &mut Vec<Piece>) {
        if self.circumstances.requests_grants {
            let pieces = self.followed_messages(span);
            self.merge(span, Label::Grant, pieces, out);
        } else {
            let pieces = self.followed_answer(span);
            self.merge(span, Label::Window, pieces, out);
        }
    }

    /// Divides a wait of the flow into waits of packets, and the rest of the time.
    fn merge(&self, (start, end): Span, label: Label, mut pieces: Vec<Piece>, out: &mut Vec<Piece>) {
        let place = Place::Host(self.flow.host);
        pieces.retain(|piece| piece.label != Label::Necessary);
        pieces.sort_by_key(|piece| (piece.start, piece.end));
        let mut at = start;
        // Waits may overlap: an answer may leave while the host still drains the packet.
        for piece in pieces {
            if at < piece.start {
                out.push(Piece::new((at, piece.start), label, place));
            }
            if at < piece.end {
                out.push(Piece { start: at.max(piece.start), ..piece });
                at = piece.end;
            }
        }
        if at < end {
            out.push(Piece::new((at, end), label, place));
        }
    }

    /// The waits in a time of the answer that ends it, and of the packet that is answered.
    fn followed_answer(&mut self, span: Span) -> Vec<Piece> {
        let record = self.record;
        let mut found = Vec::new();
        let Some(ending) = record.answer(self.flow, span.1) else { return found };
        let sent = record.packet(ending).echo.map(|echo| picos(echo.0));
        let data = sent.and_then(|sent| record.sent(self.flow, sent));
        for packet in data.into_iter().chain([ending]) {
            self.waits_of(packet, span, &mut found);
        }
        found
    }

    /// The waits in a time of the flow's announcements and requests, and of the replies and grants to it.
    fn followed_messages(&mut self, span: Span) -> Vec<Piece> {
        let record = self.record;
        let mut found = Vec::new();
        for (flow, role) in [
            (self.flow, RecordedRole::Other),
            (back(self.flow), RecordedRole::Other),
            (back(self.flow), RecordedRole::Answer),
        ] {
            let packets = record.packets_of(flow);
            let start = |&packet: &u32| record.hops(packet).first().map_or(0, |&row| record.start(row));
            let last = packets.partition_point(|packet| start(packet) < span.1);
            for &packet in packets[..last].iter().rev().take(MOST_ON_WAY) {
                if record.packet(packet).role == role && record.packet(packet).echo.is_none() {
                    self.waits_of(packet, span, &mut found);
                }
            }
        }
        found
    }

    /// Divides the part of a time in which a packet is on its way, until its host has drained it.
    fn waits_of(&mut self, packet: u32, (start, end): Span, out: &mut Vec<Piece>) {
        let record = self.record;
        let rows = record.hops(packet);
        for (at, &row) in rows.iter().enumerate() {
            let here = Place::Channel(record.hop(row).channel);
            let arrival = record.arrival(row);
            let (begin, stop) = (record.start(row).max(start), arrival.min(end));
            if begin < stop {
                let piece = Piece::new((begin, stop), Label::Necessary, here);
                out.push(Piece { owner: Some(self.flow), ..piece });
            }
            let Some(&next) = rows.get(at + 1) else {
                let to = record.channel(row).to_host;
                let is_at_host = to != NOT_RECORDED;
                let done =
                    if is_at_host { record.drained_at(record.hop(row).channel, arrival) } else { arrival };
                let (begin, stop) = (arrival.max(start), done.min(end));
                if begin < stop {
                    let piece = Piece::new((begin, stop), Label::SlowReceiver, Place::Host(to));
                    out.push(Piece { owner: Some(self.flow), ..piece });
                }
                return;
            };
            let (begin, stop) = (arrival.max(start), record.start(next).min(end));
            if begin >= stop {
                continue;
            }
            if record.hop(next).channel == record.hop(row).channel {
                // The link sends the packet again after an error.
                out.push(Piece::new((begin, stop), Label::LinkErrors, here));
            } else {
                self.waits_for_output(next, (begin, stop), 0, out);
            }
        }
    }
}

/// The flow with most bytes.
fn largest(sums: FxHashMap<FlowAddress, u64>) -> Option<FlowAddress> {
    sums.into_iter().min_by_key(|&(flow, size)| (Reverse(size), flow)).map(|(flow, _)| flow)
}

/// Divides a time into parts inside and outside of ordered spans.
fn cut(spans: &[Span], (start, end): Span) -> Vec<(Picos, Picos, bool)> {
    let mut found = Vec::new();
    let mut at = start;
    let first = spans.partition_point(|span| span.1 <= start);
    for &(begin, stop) in &spans[first..] {
        if begin >= end || at >= end {
            break;
        }
        if at < begin {
            found.push((at, begin, false));
        }
        found.push((begin.max(at), stop.min(end), true));
        at = stop.min(end);
    }
    if at < end {
        found.push((at, end, false));
    }
    found
}
