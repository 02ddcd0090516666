//! Applies a marking rule at a switch: passes the rule the facts that it needs, applies its verdicts to
//! packets, and counts marks. All switch architectures and both schedulers use this code.

use std::num::NonZeroU32;

use silvan_congestion::facts::{Arrival, Departure, PortState, QueueChange, Severity, Verdict};
use silvan_congestion::marking::Marker;
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use crate::congestion_log::{MarkEvent, OutputLog};
use crate::message::SourceReport;
use crate::packet::{Contents, Packet, PacketId, Pool};
use crate::schedule::{Applied, Need, Schedule};

/// The marking rule and its state, for the outputs of one switch or of a partition.
#[derive(Debug, Saved)]
pub(crate) struct SwitchMarking {
    pub marker: Marker,
    /// Number of data packets that each output marked since the start of the run, excluding packets that were
    /// already marked.
    pub marks: Box<[u64]>,
    /// For each output, the latest packets that count in `marks`, if switches keep a congestion log.
    log: Option<Box<[OutputLog]>>,
    /// Bytes of the notification for a mark, if switches notify sources themselves.
    #[saved(constant)]
    pub report: Option<NonZeroU32>,
    /// Whether marks carry the severity of congestion.
    pub is_quantized: bool,
    /// Space of a full packet, for which an output must have credit to be a root.
    full_space: u32,
    /// See [`Self::quiet_fill`].
    quiet: u32,
    /// Whether the rule has no quiet fill.
    is_always_on: bool,
    /// See [`Self::watches_queues`] and [`Self::watches_arrivals`].
    watches_queues: bool,
    watches_arrivals: bool,
    /// Whether the rule reads the bytes that outputs have sent.
    reads_sent_bytes: bool,
}

/// An output and one of its lanes, as indexes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkedLane {
    /// Index of the output in [`SwitchMarking::marks`].
    pub output: usize,
    /// Index of the lane in the state of the rule.
    pub lane: usize,
    /// Its virtual lane.
    pub vl: usize,
}

/// The fill of an output when a packet leaves through it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputFill {
    /// Bytes in all queues of the lane, excluding the packet.
    pub queue_bytes: u32,
    /// Bytes in use of the lane's share of the output buffer, including the packet; zero if there are no
    /// output buffers.
    pub buffer_bytes: u32,
}

impl OutputFill {
    /// The fill of an output without a buffer.
    #[inline]
    pub fn of_queues(queue_bytes: u32) -> Self {
        Self { queue_bytes, buffer_bytes: 0 }
    }
}

/// A packet that has entered the queues of an output, or starts to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgedPacket {
    pub id: PacketId,
    /// Bytes on the wire.
    pub size: u32,
    pub is_data: bool,
}

impl JudgedPacket {
    #[inline]
    pub fn of(id: PacketId, packet: &Packet) -> Self {
        Self { id, size: packet.size, is_data: packet.is_data() }
    }
}

impl SwitchMarking {
    /// `outputs` is the number of outputs; `full_space` is the space of a full packet.
    pub fn new(marker: Marker, outputs: usize, full_space: u32) -> Self {
        let marks = vec![0; outputs].into();
        let (quiet, is_always_on) = marker.quiet_fill().map_or((0, true), |quiet| (quiet, false));
        let (watches_queues, watches_arrivals) = (marker.watches_queues(), marker.watches_arrivals());
        let reads_sent_bytes = marker.reads_sent_bytes();
        Self {
            marker,
            marks,
            log: None,
            report: None,
            is_quantized: false,
            full_space,
            quiet,
            is_always_on,
            watches_queues,
            watches_arrivals,
            reads_sent_bytes,
        }
    }

    /// Joins the states of several switches in their order.
    pub fn join(parts: Vec<Self>) -> Self {
        let (mut marks, mut markers, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut report, mut is_quantized, mut full_space) = (None, false, 0);
        for part in parts {
            (report, is_quantized, full_space) = (part.report, part.is_quantized, part.full_space);
            marks.extend(part.marks);
            markers.push(part.marker);
            logs.extend(part.log.into_iter().flatten());
        }
        let log = (!logs.is_empty()).then(|| logs.into());
        let joined = Self::new(Marker::join(markers), marks.len(), full_space);
        Self { marks: marks.into(), log, report, is_quantized, ..joined }
    }

    /// The fill up to which the rule needs neither queue changes nor departures, unless [`Self::needs_all`]
    /// is true.
    #[inline(always)]
    pub fn quiet_fill(&self) -> u32 {
        self.quiet
    }

    /// Whether the rule needs changes of queues. If not, it may still need departures.
    #[inline(always)]
    pub fn watches_queues(&self) -> bool {
        self.watches_queues
    }

    /// Whether the rule needs every packet that arrives.
    #[inline(always)]
    pub fn watches_arrivals(&self) -> bool {
        self.watches_arrivals
    }

    /// Whether the rule currently needs every queue change and every departure of a lane, regardless of the
    /// fill.
    #[inline]
    pub fn needs_all(&self, lane: usize) -> bool {
        self.is_always_on || self.marker.needs_all(lane)
    }

    /// Whether the order of packets that arrive at one instant affects the rule, because it samples packets,
    /// counts inputs, or reads single queues.
    pub fn needs_order(&self) -> bool {
        self.quiet == 0 && self.watches_queues || self.watches_arrivals || self.marker.needs_queues()
    }

    /// The space for which an output must have credit to be a root: that of a full packet in addition to the
    /// current or next one. An output that consumes its credit as soon as it arrives is a victim, even at the
    /// instant between the arrival of credit and its use.
    #[inline]
    pub fn root_space(&self, is_idle: bool) -> u32 {
        if is_idle { 2 * self.full_space } else { self.full_space }
    }

    /// Reports a change of a queue to the rule. Returns [`Self::needs_all`] after the change.
    #[inline]
    pub fn queue_changed<S: Schedule>(
        &mut self,
        schedule: &mut S,
        output: &mut S::Output,
        at: MarkedLane,
        change: &QueueChange,
    ) -> bool {
        let need = self.need_of_root(schedule, output, at, change.now);
        let has_credit = || schedule.has_some_credit(output, need);
        self.marker.queue_changed(at.lane, change, has_credit) || self.is_always_on
    }

    /// Lets the rule decide about a packet that has entered the queues of an output, and carries out the decision. The
    /// queues of the lane hold `queue_bytes`, including the packet.
    #[inline(always)]
    pub fn arrives<S: Schedule>(
        &mut self,
        schedule: &mut S,
        output: &S::Output,
        at: MarkedLane,
        queue_bytes: u32,
        packet: JudgedPacket,
        now: Time,
    ) {
        let JudgedPacket { id, size, is_data } = packet;
        if self.marker.skips_arrival(at.lane, size, is_data) {
            return;
        }
        let (sent_bytes, rate) = self.of_link(schedule, output);
        let arrival = Arrival { now, size, is_data, queue_bytes, sent_bytes, rate };
        let verdict = self.arrival_verdict(at.lane, &arrival);
        self.carry_out(schedule, output, (at.output, now), id, verdict);
    }

    #[inline(never)]
    fn arrival_verdict(&mut self, lane: usize, arrival: &Arrival) -> Verdict {
        self.marker.arrives(lane, arrival)
    }

    /// Lets the rule decide about a packet that starts to leave through an output, and carries out the decision.
    ///
    /// The decision depends on the fill that remains after the packet has left (Paper I, section 3.2.1),
    /// which the caller has already reported. With a single threshold, the packet whose departure brings the
    /// fill below the threshold is not marked. This makes a single threshold unfair, so two thresholds must
    /// differ by more than a packet (Paper II, section IV).
    #[inline(always)]
    pub fn departs<S: Schedule>(
        &mut self,
        schedule: &mut S,
        output: &mut S::Output,
        at: MarkedLane,
        fill: OutputFill,
        packet: JudgedPacket,
        now: Time,
    ) {
        if !self.marker.watches_departures(at.lane) {
            return;
        }
        let JudgedPacket { id, size, is_data } = packet;
        let OutputFill { queue_bytes, buffer_bytes } = fill;
        let (sent_bytes, rate) = self.of_link(schedule, output);
        let is_marked = schedule.packets()[id].fecn;
        let departure =
            Departure { now, size, is_data, is_marked, queue_bytes, buffer_bytes, sent_bytes, rate };
        let need = self.need_of_root(schedule, output, at, now);
        let verdict = self.marker.departs(at.lane, &departure, || schedule.has_some_credit(output, need));
        self.carry_out(schedule, output, (at.output, now), id, verdict);
    }

    /// The credit that an output must have to be a root; see [`Self::root_space`].
    #[inline(always)]
    fn need_of_root<S: Schedule>(&self, schedule: &S, output: &S::Output, at: MarkedLane, now: Time) -> Need {
        let space = self.root_space(schedule.free_at(output) <= now);
        Need { output: at.output, vl: at.vl, dst: 0, space, now }
    }

    /// The bytes that an output has sent, which are 0 if the rule does not read them, and the rate of its link.
    #[inline(always)]
    fn of_link<S: Schedule>(&self, schedule: &S, output: &S::Output) -> (u64, Rate) {
        let sent_bytes = if self.reads_sent_bytes { schedule.sent(output) } else { 0 };
        (sent_bytes, schedule.rate(output))
    }

    /// Carries out a decision of the rule.
    #[inline(always)]
    fn carry_out<S: Schedule>(
        &mut self,
        schedule: &mut S,
        output: &S::Output,
        at: (usize, Time),
        id: PacketId,
        verdict: Verdict,
    ) {
        if verdict == Verdict::Forward {
            return;
        }
        let applied = self.apply(at, schedule.packets(), id, verdict);
        if applied != Applied::default() {
            schedule.note_applied(output, applied);
        }
    }

    /// Starts a congestion log.
    pub fn keep_log(&mut self) {
        self.log = Some(vec![OutputLog::default(); self.marks.len()].into());
    }

    /// The congestion log of an output, from the oldest event to the latest; empty if there is no log.
    pub fn log(&self, output: usize) -> &[MarkEvent] {
        self.log.as_ref().map_or(&[], |log| log[output].events())
    }

    /// Applies the rule's decision at an output and a time to a packet.
    fn apply(&mut self, at: (usize, Time), packets: &mut Pool, id: PacketId, verdict: Verdict) -> Applied {
        let packet = &mut packets[id];
        let is_data = packet.is_data();
        match verdict {
            Verdict::Forward => {}
            Verdict::Mark(severity) => return self.mark(at, packet, severity),
            Verdict::Validate => {
                let Contents::Data { is_validated, .. } = &mut packet.contents else {
                    return Applied::default();
                };
                let is_validation = !std::mem::replace(is_validated, true);
                return Applied { is_validation, ..Applied::default() };
            }
            Verdict::Stamp(telemetry) if is_data => packets.stamp(id, telemetry),
            Verdict::Stamp(_) => {}
        }
        Applied::default()
    }

    /// Marks a packet at an output and a time, or instead requests a notification of its source.
    pub fn mark(&mut self, at: (usize, Time), packet: &mut Packet, severity: Severity) -> Applied {
        let severity = if self.is_quantized { severity } else { 0 };
        let is_data = packet.is_data();
        if self.report.is_some() {
            let Contents::Data { injected: sent_at, .. } = packet.contents else { return Applied::default() };
            self.count(at, packet);
            let Packet { src: to, dst: destination, source, .. } = *packet;
            let report = Some(SourceReport { to, destination, source, severity, sent_at });
            return Applied { is_mark: true, report, ..Applied::default() };
        }
        let is_mark = is_data && !packet.fecn;
        if is_mark {
            self.count(at, packet);
        }
        packet.fecn = true;
        packet.severity = packet.severity.max(severity);
        Applied { is_mark, ..Applied::default() }
    }

    /// Counts a mark, and logs it if there is a log.
    #[inline(always)]
    fn count(&mut self, (output, now): (usize, Time), packet: &Packet) {
        self.marks[output] += 1;
        if let Some(log) = &mut self.log {
            note(&mut log[output], now, packet);
        }
    }

    /// The number of data packets that an output has marked, and whether it is in the congestion state on any
    /// lane.
    pub fn state(&self, output: usize, lanes: impl Iterator<Item = usize>) -> (u64, bool) {
        let state = |lane| self.marker.state(lane);
        (self.marks[output], lanes.map(state).any(|PortState { is_congested, .. }| is_congested))
    }
}

#[cold]
#[inline(never)]
fn note(log: &mut OutputLog, time: Time, packet: &Packet) {
    let &Packet { src: source, dst: destination, sl, .. } = packet;
    log.note(MarkEvent { time, source, destination, sl });
}
