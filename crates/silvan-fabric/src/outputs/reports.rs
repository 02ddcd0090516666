//! Notifications that switches themselves send to sources (quantized congestion notification).
//!
//! A mark at one output sends a notification through another output of the same switch at the same instant. This is the
//! only way in which outputs affect each other within a bin. The supported marking rules mark packets on arrival, so
//! the number of bytes that arrive in a bin determines in advance whether an output may mark in that bin. If a switch
//! has such an output, its arrivals are handled in the order of time; see [`super::ordered`]. Like a packet, a
//! notification from another switch is known before its bin begins.

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use super::ordered::{CAME_IN, OWN};
use super::{Around, Arrival, Bank, ChannelInput, REMOTE, Remote, TO_HOST};
use crate::link::{Class, key};
use crate::message::{SourceReport, Word};

/// Lane number that identifies an [`Arrival`] as a notification.
pub(super) const NOTICE: u8 = u8::MAX;

#[derive(Debug, Saved)]
pub(super) struct Reports {
    /// Bytes of a notification on the wire.
    #[saved(constant)]
    bytes: u32,
    /// For each output, the start of the forwarding table of its own switch.
    #[saved(constant)]
    rows: Box<[u32]>,
    /// Bytes of data that arrive in the current bin for each output and lane; the next field lists the lanes with
    /// nonzero values.
    arriving: Box<[u32]>,
    touched: Vec<(u32, u32)>,
    /// Reports of the current instant, with the number of the output that marked.
    pub own: Vec<(u8, SourceReport)>,
}

impl Reports {
    /// `rows` has one entry per output. `lanes` is the number of outputs times the number of lanes.
    pub fn new(bytes: u32, rows: Vec<u32>, lanes: usize) -> Self {
        Self {
            bytes,
            rows: rows.into(),
            arriving: vec![0; lanes].into(),
            touched: Vec::new(),
            own: Vec::new(),
        }
    }
}

impl Arrival {
    #[inline(always)]
    pub(super) fn is_notice(&self) -> bool {
        self.vl == NOTICE
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Puts notifications back that are in the last bin of the ring but arrive later than that bin.
    pub(super) fn put_back_later(&mut self, arrivals: &mut Vec<Arrival>) {
        let end = self.end();
        arrivals.retain(|arrival| {
            let time = self.time(arrival.when);
            let is_later = arrival.is_notice() && time >= end;
            if is_later {
                self.arrivals.push(self.arrivals.bin(time), *arrival);
            }
            !is_later
        });
    }

    /// Puts the events of the switches with outputs that may mark in the current bin in order.
    pub(super) fn find_marking_switches(&mut self, arrivals: &[Arrival]) {
        let Self { wiring, voq, marking, ordered, .. } = self;
        let (Some(reports), Some(ordered)) = (&mut wiring.reports, ordered) else { return };
        for arrival in arrivals {
            if !arrival.is_message() && arrival.head().is_data() {
                let slot = arrival.slot::<LANES>();
                let lane = voq.lane_index(slot.output(), slot.vl());
                if reports.arriving[lane] == 0 {
                    reports.touched.push((arrival.output, lane as u32));
                }
                reports.arriving[lane] += u32::from(arrival.size);
            }
        }
        for (output, lane) in reports.touched.drain(..) {
            let bytes = std::mem::take(&mut reports.arriving[lane as usize]);
            if marking.marker.may_mark_arrivals(lane as usize, bytes) {
                ordered.add(output - u32::from(voq.records[output as usize].number));
            }
        }
    }

    /// Sends the reports of a switch at an instant.
    pub(super) fn send_reports(&mut self, around: &mut Around, first: u32, now: Time, decide_before: Time) {
        let Some(reports) = self.wiring.reports.as_mut().filter(|reports| !reports.own.is_empty()) else {
            return;
        };
        let row = reports.rows[first as usize];
        let mut own = std::mem::take(&mut reports.own);
        own.sort_by_key(|&(number, _)| number);
        for (number, report) in own.drain(..) {
            let output = first as usize + usize::from(number);
            if let Some(recorder) = &mut around.ctx.recorder
                && let Some((switch, port)) = around.ctx.links.sending_switch(recorder.channel(output))
            {
                recorder.reports((switch, port.0), now, report);
            }
            let id = around.ctx.notices.add(Word::Report(report));
            let notice = self.notice((first, row), (id, report.to), OWN + u16::from(number), now);
            self.forward(around, &notice, decide_before);
        }
        if let Some(reports) = &mut self.wiring.reports {
            reports.own = own;
        }
    }

    /// Determines the output of a notification for a host at the switch with the given first output and forwarding table.
    fn notice(&self, (first, row): (u32, u32), (id, to): (u32, u32), input: u16, time: Time) -> Arrival {
        let output = first + u32::from(self.routes.port(row, to).0);
        Arrival { output, packet: id, when: time.0 as u32, to, size: 0, space: 0, input, vl: NOTICE }
    }

    /// Puts a notification on the wire, after a packet that leaves at this instant but before all other packets.
    pub(super) fn forward(&mut self, around: &mut Around, notice: &Arrival, decide_before: Time) {
        let now = self.time(notice.when);
        let output = notice.output as usize;
        if now >= decide_before {
            // This is the time of a sample, which is taken between arrivals and decisions.
            self.arrivals.push(self.bin, *notice);
            return;
        }
        self.decide(around, output, now + Time(1));
        let Some(reports) = &self.wiring.reports else { return };
        let end = self.occupy(around, output, now, reports.bytes);
        let (id, to, own) = (notice.packet, notice.to, &self.voq.records[output].own);
        let (peer, row, input) = (own.peer(), own.row, own.input);
        let time = end + self.link(output).head_delay;
        if row == TO_HOST {
            let key = key(Class::HostNotice, peer, Port::FIRST);
            around.ctx.queue.push(Event { time: end + self.link(output).delay, key, data: id });
        } else if row == REMOTE {
            let Remote { partition, entry: ChannelInput { first, row, input }, .. } =
                self.remotes[peer as usize];
            let Some(Word::Report(report)) = around.ctx.notices.take(id) else { return };
            let notice = self.notice((first, row), (id, to), CAME_IN + u16::from(input), time);
            around.ctx.outbox[usize::from(partition)].send_output_message(time, notice, Some(report));
        } else {
            let notice = self.notice((peer, row), (id, to), CAME_IN + u16::from(input), time);
            self.message_arrives(notice, time);
        }
    }
}
