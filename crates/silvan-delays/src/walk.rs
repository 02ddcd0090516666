//! Walks back in time along the packets of a message, from its delivery to its generation.
//!
//! At each moment, the walk is at one packet of the message. If this packet waits behind an earlier packet of the
//! message, the walk continues with that one at the same place. The walk thus stays at the narrowest place of the route.

use rustc_hash::FxHashMap;

use crate::Picos;
use crate::causes::Causes;
use crate::message::{Message, delivered};
use crate::piece::{Chains, Label, Piece, Place};
use crate::record::Record;

/// Start and end of a departure, its packet, and its number on the route of the packet.
type Step = (Picos, Picos, u32, usize);

struct Walk<'r> {
    message: &'r Message,
    record: &'r Record,
    causes: Causes<'r>,
    /// In reverse order of time.
    pieces: Vec<Piece>,
    /// The last departure of each packet on each channel of its route.
    routes: FxHashMap<u32, Vec<u32>>,
    on_channel: FxHashMap<u32, Vec<Step>>,
    /// When packets had been drained, in order.
    drained: Vec<(Picos, u32)>,
    /// Scratch space.
    parts: Vec<Piece>,
}

/// Divides the time of a message from its generation to its delivery into pieces, in order.
pub(crate) fn walk(message: &Message, causes: Causes<'_>) -> (Vec<Piece>, Chains) {
    let record = causes.record;
    let route = |packet: u32| {
        let mut rows: Vec<u32> = Vec::new();
        for &row in record.hops(packet) {
            match rows.last_mut() {
                Some(last) if record.hop(*last).channel == record.hop(row).channel => *last = row,
                _ => rows.push(row),
            }
        }
        rows
    };
    let routes: FxHashMap<u32, Vec<u32>> =
        message.packets.iter().map(|&packet| (packet, route(packet))).collect();
    let mut on_channel: FxHashMap<u32, Vec<Step>> = FxHashMap::default();
    for (&packet, rows) in &routes {
        for (stage, &row) in rows.iter().enumerate() {
            let step = (record.start(row), record.end(row), packet, stage);
            on_channel.entry(record.hop(row).channel).or_default().push(step);
        }
    }
    on_channel.values_mut().for_each(|steps| steps.sort_unstable());
    let drained = |&packet: &u32| Some((delivered(record, packet)?, packet));
    let mut drained: Vec<_> = message.packets.iter().filter_map(drained).collect();
    drained.sort_unstable();
    let (pieces, parts) = (Vec::new(), Vec::new());
    let mut walk = Walk { message, record, causes, pieces, routes, on_channel, drained, parts };
    walk.run();
    walk.pieces.reverse();
    (walk.pieces, walk.causes.into_chains())
}

impl Walk<'_> {
    fn run(&mut self) {
        let (mut packet, mut time) = self.at_receiver(self.message.last, self.message.end);
        let mut stage = self.routes[&packet].len() - 1;
        while stage > 0 {
            let (row, before) = (self.routes[&packet][stage], self.routes[&packet][stage - 1]);
            let arrival = self.record.arrival(before);
            match self.earlier(row, time) {
                Some((start, end, other, other_stage)) if end > arrival => {
                    (packet, stage) = (other, other_stage);
                    let own = self.routes[&packet][stage];
                    self.causes.waits_for_output(row, (end, time), 0, &mut self.parts);
                    self.add();
                    self.causes.busy(own, (start, end), 0, &mut self.parts);
                    self.add();
                    time = start;
                }
                _ => {
                    self.causes.waits_for_output(row, (arrival, time), 0, &mut self.parts);
                    self.add();
                    let start = self.record.start(before);
                    self.wire(before, start, arrival);
                    (time, stage) = (start, stage - 1);
                }
            }
        }
        self.at_host(packet, time);
    }

    /// Moves the scratch space to the pieces.
    fn add(&mut self) {
        self.pieces.extend(self.parts.drain(..).rev().filter(|piece| piece.end > piece.start));
    }

    /// The departure of the message on the channel of another one, and before it.
    fn earlier(&self, row: u32, time: Picos) -> Option<Step> {
        let steps = &self.on_channel[&self.record.hop(row).channel];
        let at = steps.partition_point(|step| step.0 < time);
        Some(steps[at.checked_sub(1)?])
    }

    /// Divides the time from the start of a packet on a channel to its arrival.
    fn wire(&mut self, row: u32, start: Picos, end: Picos) {
        let hop = self.record.hop(row);
        let channel = self.record.channel(row);
        let first = self.record.hops(hop.packet)[0];
        let necessary = |span| {
            let piece = Piece::new(span, Label::Necessary, Place::Channel(hop.channel));
            Piece { owner: Some(self.message.flow), ..piece }
        };
        if !channel.arrives_with_tail || self.record.start(row) != start || row < first {
            self.parts.push(necessary((start, end)));
        } else {
            let sent = self.record.end(row);
            self.causes.busy(row, (start, sent), 0, &mut self.parts);
            self.parts.push(necessary((sent, end)));
        }
        self.add();
    }

    /// Walks back to a packet that waited for no earlier one at the host, and to its last departure.
    fn at_receiver(&mut self, mut packet: u32, mut time: Picos) -> (u32, Picos) {
        let mut at = self.drained.partition_point(|&drain| drain < (time, packet));
        loop {
            let route = &self.routes[&packet];
            let row = route[route.len() - 1];
            let arrival = self.record.arrival(row);
            let place = Place::Host(self.record.channel(row).to_host);
            let before = at.checked_sub(1).map_or((0, packet), |at| self.drained[at]);
            if before.0 <= arrival {
                let slow = Piece::new((arrival, time), Label::SlowReceiver, place);
                self.parts.push(Piece { owner: Some(self.message.flow), ..slow });
                self.add();
                let start = self.record.start(row);
                self.wire(row, start, arrival);
                return (packet, start);
            }
            let edge = (before.0 + self.record.usual_span(row)).min(time);
            let necessary = Piece::new((before.0, edge), Label::Necessary, place);
            self.parts.push(Piece { owner: Some(self.message.flow), ..necessary });
            let slow = Piece::new((edge, time), Label::SlowReceiver, place);
            self.parts.push(Piece { owner: Some(self.message.flow), ..slow });
            self.add();
            ((time, packet), at) = (before, at - 1);
        }
    }

    /// Walks back from the departure of a packet from its host to the generation of the message.
    fn at_host(&mut self, mut packet: u32, mut time: Picos) {
        loop {
            let row = self.routes[&packet][0];
            let channel = self.record.hop(row).channel;
            let earlier = self.earlier(row, time);
            let begin = earlier.map_or(self.message.start, |step| step.1.max(self.message.start));
            if self.causes.is_repeated(packet) {
                self.causes.lost(packet, (begin, time), &mut self.parts);
            } else {
                self.causes.at_host((begin, time), &mut self.parts);
            }
            self.add();
            let Some((start, end, before, _)) = earlier else { return };
            packet = before;
            let row = self.routes[&packet][0];
            self.causes.busy(row, (start.max(self.message.start), end), 0, &mut self.parts);
            self.add();
            time = start;
            if self.record.hop(row).channel != channel {
                return;
            }
        }
    }
}
