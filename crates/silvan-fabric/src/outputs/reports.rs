//! Notifications that switches themselves send to sources (quantized congestion notification).
//!
//! A mark at one output sends a notification through another output of the same switch at the same instant. This is the
//! only way in which outputs affect each other within a bin. The supported marking rules mark packets on arrival, so
//! the number of bytes that arrive in a bin determines in advance whether an output may mark in that bin. If a switch
//! has such an output, all its arrivals are handled in the order of time, while the outputs of other switches remain
//! independent. Like a packet, a notification from another switch is known before its bin begins.

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use super::{Around, Arrival, Bank, REMOTE, Remote, TO_HOST};
use crate::link::{Class, key};
use crate::message::{OutputNotice, SourceReport, Word};

/// Lane number that identifies an [`Arrival`] as a notification.
pub(super) const NOTICE: u8 = u8::MAX;

/// The order of notifications within an instant, as stored in [`Arrival::input`]: packets come first (0 to 511), then
/// received notifications by their input, then the switch's own notifications by the output that marked.
const CAME_IN: u16 = 512;
const OWN: u16 = 768;

#[derive(Debug, Saved)]
pub(super) struct Reports {
    /// Bytes of a notification on the wire.
    #[saved(constant)]
    bytes: u32,
    /// Notifications on their way, indexed by [`Arrival::packet`].
    slots: Vec<SourceReport>,
    free: Vec<u32>,
    /// For each output, the start of the forwarding table of its own switch.
    #[saved(constant)]
    rows: Box<[u32]>,
    /// Bytes of data that arrive in the current bin for each output and lane; the next field lists the lanes with
    /// nonzero values.
    arriving: Box<[u32]>,
    touched: Vec<(u32, u32)>,
    /// Whether any output of a switch may mark in the current bin, indexed by the first output of the switch.
    may_mark: Box<[bool]>,
    switches: Vec<u32>,
    /// Arrivals at switches that may mark.
    arrivals: Vec<SwitchArrival>,
    /// Reports of the current instant, with the number of the output that marked.
    pub own: Vec<(u8, SourceReport)>,
}

/// An arrival, sorted by switch and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
struct SwitchArrival {
    /// First output of the switch.
    first: u32,
    /// Picoseconds since the start of the bin.
    since: u32,
    rank: u16,
    /// Index into the bin's arrivals.
    at: u32,
}

impl Reports {
    /// `rows` has one entry per output. `lanes` is the number of outputs times the number of lanes.
    pub fn new(bytes: u32, rows: Vec<u32>, lanes: usize) -> Self {
        Self {
            bytes,
            slots: Vec::new(),
            free: Vec::new(),
            may_mark: vec![false; rows.len()].into(),
            rows: rows.into(),
            arriving: vec![0; lanes].into(),
            touched: Vec::new(),
            switches: Vec::new(),
            arrivals: Vec::new(),
            own: Vec::new(),
        }
    }

    pub fn add(&mut self, report: SourceReport) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = report;
            return slot;
        }
        self.slots.push(report);
        (self.slots.len() - 1) as u32
    }

    pub fn take(&mut self, slot: u32) -> SourceReport {
        self.free.push(slot);
        self.slots[slot as usize]
    }

    /// Number of notifications on their way between switches.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
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

    /// Finds the switches with outputs that may mark in the current bin.
    pub(super) fn find_marking_switches(&mut self, arrivals: &[Arrival]) {
        let Self { wiring, voq, marking, .. } = self;
        let Some(reports) = &mut wiring.reports else { return };
        reports.switches.drain(..).for_each(|first| reports.may_mark[first as usize] = false);
        for arrival in arrivals {
            if !arrival.is_notice() && arrival.head().is_data() {
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
                let first = output - u32::from(voq.records[output as usize].number);
                if !std::mem::replace(&mut reports.may_mark[first as usize], true) {
                    reports.switches.push(first);
                }
            }
        }
    }

    /// Stores an arrival for [`Self::run_marking_switches`] if an output of its switch may mark in the current bin.
    #[inline]
    pub(super) fn keep_for_switch(&mut self, arrival: &Arrival, at: usize) -> bool {
        let start = self.start().0 as u32;
        let Self { wiring, voq, .. } = self;
        let Some(reports) = &mut wiring.reports else { return false };
        let first = arrival.output - u32::from(voq.records[arrival.output as usize].number);
        let is_kept = reports.may_mark[first as usize];
        if is_kept {
            let (since, rank) = (arrival.when.wrapping_sub(start), arrival.input);
            reports.arrivals.push(SwitchArrival { first, since, rank, at: at as u32 });
        }
        is_kept
    }

    /// Handles the arrivals at switches that may mark, ordered by time within each switch.
    pub(super) fn run_marking_switches(
        &mut self,
        around: &mut Around,
        arrivals: &[Arrival],
        decide_before: Time,
    ) {
        let Some(reports) = &mut self.wiring.reports else { return };
        if reports.arrivals.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut reports.arrivals);
        list.sort_unstable();
        for instant in list.chunk_by(|one, other| (one.first, one.since) == (other.first, other.since)) {
            let Some(&SwitchArrival { first, at, .. }) = instant.first() else { continue };
            let when = arrivals[at as usize].when;
            for item in instant {
                self.land(around, &arrivals[item.at as usize], Time::ZERO, decide_before);
            }
            let mut own = self
                .wiring
                .reports
                .as_mut()
                .map(|reports| std::mem::take(&mut reports.own))
                .unwrap_or_default();
            own.sort_by_key(|&(number, _)| number);
            for (number, report) in own.drain(..) {
                let output = first as usize + usize::from(number);
                if let Some(recorder) = &mut around.recorder
                    && let Some((switch, port)) = around.links.sending_switch(recorder.channel(output))
                {
                    recorder.reports((switch, port.0), self.time(when), report);
                }
                let notice = self.notice(first, report, OWN + u16::from(number), when);
                self.forward(around, &notice, decide_before);
            }
            if let Some(reports) = &mut self.wiring.reports {
                reports.own = own;
            }
        }
        list.clear();
        if let Some(reports) = &mut self.wiring.reports {
            reports.arrivals = list;
        }
    }

    /// Determines the output of a notification at a switch; `first` is the first output of the switch.
    fn notice(&mut self, first: u32, report: SourceReport, input: u16, when: u32) -> Arrival {
        let row = self.wiring.reports.as_ref().map_or(0, |reports| reports.rows[first as usize]);
        let output = first + u32::from(self.routes.port(row, report.to).0);
        let packet = self.wiring.reports.as_mut().map_or(0, |reports| reports.add(report));
        Arrival { output, packet, when, to: report.to, size: 0, space: 0, input, vl: NOTICE }
    }

    /// Receives a notification from another switch at an input.
    pub(super) fn notice_arrives(&mut self, first: u32, report: SourceReport, input: u8, time: Time) {
        let notice = self.notice(first, report, CAME_IN + u16::from(input), time.0 as u32);
        self.arrivals.push(self.arrivals.bin(time), notice);
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
        let Some(reports) = &mut self.wiring.reports else { return };
        let report = reports.take(notice.packet);
        let record = &mut self.voq.records[output];
        let link = &self.wiring.links[usize::from(record.own.link)].parameters;
        let start = record.free_at.max(now);
        record.free_at = start + link.pace.time(reports.bytes);
        record.own.sent_bytes += u64::from(reports.bytes);
        if record.own.ready_at < Time::NEVER {
            record.own.ready_at = record.own.ready_at.max(record.free_at);
        }
        let (free_at, delay, head_delay) = (record.free_at, link.delay, link.head_delay);
        let (peer, row, input) = (record.own.peer(), record.own.row, record.own.input);
        if let Some(recorder) = &mut around.recorder {
            recorder.message(recorder.channel(output), (start, free_at));
        }
        if row == TO_HOST {
            let data = around.notices.add(Word::Report(report));
            let key = key(Class::HostNotice, peer, Port::FIRST);
            around.queue.push(Event { time: free_at + delay, key, data });
        } else if row == REMOTE {
            let Remote { partition, entry, .. } = self.remotes[peer as usize];
            let (first, input, time) = (entry.first, entry.input, free_at + head_delay);
            around.outbox[usize::from(partition)].send_output_notice(OutputNotice {
                first,
                report,
                input,
                time,
            });
        } else {
            self.notice_arrives(peer, report, input, free_at + head_delay);
        }
    }
}
