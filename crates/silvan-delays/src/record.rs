//! What a run has recorded, with indexes to search it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_fabric::{
    FlowAddress, NOT_RECORDED, RecordedChannel, RecordedHop, RecordedLoss, RecordedLossKind, RecordedPacket,
    RecordedParcel, RecordedRole, RecordedWaitKind, RunRecord,
};

use crate::channel::{Backlog, Buffer, Passage};
use crate::message::{Message, messages};
use crate::piece::{Place, Signal};
use crate::ports::united;
use crate::{NEVER, Picos, Span};

/// Number of waits of a flow that may be out of order, because a wait can begin at the end of a packet that is still being
/// sent.
const OUT_OF_ORDER: usize = 8;

/// A wait of a flow: why, its start, and its end or [`NEVER`].
type FlowWait = (RecordedWaitKind, Picos, Picos);

/// A recording of a part of a run.
#[derive(Debug)]
pub struct Record {
    pub(crate) recording: RunRecord,
    /// The end of the recording.
    pub(crate) until: Picos,
    /// The first start of a departure.
    begin: Picos,
    /// The first departure of each channel, and the number of all departures.
    edges: Vec<u32>,
    by_packet: ByPacket,
    /// The departures of the same packet before and after each departure, or [`NOT_RECORDED`].
    previous: Vec<u32>,
    next: Vec<u32>,
    /// Whether the link sent the packet again later; empty if no link did.
    is_replaced: Vec<bool>,
    /// By channel: whether it sent packets again.
    errors: Vec<bool>,
    losses: FxHashMap<u32, Lost>,
    /// By channel: the arrivals of packets at a host, and when they were drained.
    drains: Vec<Vec<(Picos, Picos)>>,
    /// By host: the times in which it waited for its injection limit, in order, without overlaps.
    injections: FxHashMap<u32, Vec<(Picos, Picos)>>,
    flows: BTreeMap<FlowAddress, Flow>,
    /// The messages of jobs that are divided, by the flow of the part that arrived last, start and end.
    divided: FxHashMap<(FlowAddress, Picos, Picos), u32>,
    /// By channel, Gbit/s.
    usual_rates: Vec<f64>,
    out_of_host: FxHashMap<u32, u32>,
    has_numbers: bool,
    /// Whether receivers discard packets that arrive out of order.
    pub(crate) goes_back: bool,
    buffers: Vec<OnceLock<Buffer>>,
    backlogs: Vec<OnceLock<Backlog>>,
}

/// A lost packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub time: Picos,
    pub channel: u32,
    pub kind: RecordedLossKind,
}

/// What is known of a flow.
#[derive(Debug, Default)]
struct Flow {
    /// In the order in which they started.
    packets: Vec<u32>,
    /// In order of time, except for a few.
    waits: Vec<FlowWait>,
    messages: OnceLock<Vec<Message>>,
    sent: OnceLock<FxHashMap<Picos, u32>>,
    answers: OnceLock<FxHashMap<Picos, u32>>,
    /// When the flow learned of marks or waits.
    signals: OnceLock<Vec<(Picos, Signal)>>,
}

/// The departures of packets, in order of time.
#[derive(Debug)]
struct ByPacket {
    edges: Vec<u32>,
    rows: Vec<u32>,
}

impl ByPacket {
    /// `first` is the first departure of each packet, and `next` the departure after each one.
    fn new(first: &[u32], next: &[u32]) -> Self {
        let (mut edges, mut rows) = (Vec::with_capacity(first.len() + 1), Vec::with_capacity(next.len()));
        edges.push(0);
        for &first in first {
            let mut row = first;
            while row != NOT_RECORDED {
                rows.push(row);
                row = next[row as usize];
            }
            edges.push(rows.len() as u32);
        }
        Self { edges, rows }
    }

    fn of(&self, packet: u32) -> &[u32] {
        let [from, to] = [packet, packet + 1].map(|at| self.edges[at as usize] as usize);
        &self.rows[from..to]
    }
}

pub(crate) fn picos(time: Time) -> Picos {
    Picos::try_from(time.0).map_or(NEVER, |time| time.min(NEVER))
}

/// The transmission time of bytes at a rate in Gbit/s.
pub(crate) fn span_at(size: u32, rate: f64) -> Picos {
    (f64::from(size) * 8000.0 / rate).round_ties_even() as Picos
}

fn is_answer(packet: &RecordedPacket) -> bool {
    matches!(packet.role, RecordedRole::Answer | RecordedRole::Notification)
}

/// The flow of the answers.
pub(crate) fn back(flow: FlowAddress) -> FlowAddress {
    FlowAddress { host: flow.destination, destination: flow.host, ..flow }
}

impl Record {
    pub(crate) fn new(mut recording: RunRecord, until: Picos, goes_back: bool) -> Self {
        let channels = recording.channels.len();
        let hops = &recording.hops;
        let mut edges = vec![0; channels + 1];
        let mut first = vec![NOT_RECORDED; recording.packets.len()];
        let mut next = vec![NOT_RECORDED; hops.len()];
        let mut previous = std::mem::take(&mut recording.previous);
        for (row, (hop, &before)) in (0..).zip(hops.iter().zip(&previous)) {
            edges[hop.channel as usize + 1] = row + 1;
            if before != NOT_RECORDED {
                next[before as usize] = row;
            } else if hop.packet != NOT_RECORDED {
                first[hop.packet as usize] = row;
            }
        }
        (1..edges.len()).for_each(|channel| edges[channel] = edges[channel].max(edges[channel - 1]));
        let by_packet = ByPacket::new(&first, &next);
        let (mut is_replaced, mut errors) = (Vec::new(), vec![false; channels]);
        if recording.has_repeats {
            is_replaced = vec![false; hops.len()];
            for packet in 0..recording.packets.len() as u32 {
                for pair in by_packet.of(packet).windows(2) {
                    let (before, after) = (pair[0] as usize, pair[1] as usize);
                    if hops[before].channel == hops[after].channel {
                        // A link sends a packet again after an error: the packet has not left the buffer before.
                        is_replaced[before] = true;
                        errors[hops[before].channel as usize] = true;
                        previous[after] = previous[before];
                        next[before] = NOT_RECORDED;
                    }
                }
            }
        }
        let mut flows: BTreeMap<FlowAddress, Flow> = BTreeMap::new();
        for (number, packet) in (0..).zip(&recording.packets) {
            flows.entry(packet.flow).or_default().packets.push(number);
        }
        let mut injections: FxHashMap<u32, Vec<(Picos, Picos)>> = FxHashMap::default();
        for wait in std::mem::take(&mut recording.waits) {
            let (since, until) = (picos(wait.since), picos(wait.until));
            if wait.kind != RecordedWaitKind::Injection {
                if let Some(flow) = flows.get_mut(&wait.flow) {
                    flow.waits.push((wait.kind, since, until));
                }
                continue;
            }
            injections.entry(wait.flow.host).or_default().push((since, until));
        }
        injections.values_mut().for_each(|waits| *waits = united(std::mem::take(waits)));
        let mut drains = vec![Vec::new(); channels];
        for drain in std::mem::take(&mut recording.drained) {
            drains[drain.channel as usize].push((picos(drain.arrival), picos(drain.done)));
        }
        let lost = |loss: &RecordedLoss| {
            (loss.packet, Lost { time: picos(loss.time), channel: loss.channel, kind: loss.kind })
        };
        let losses = recording.losses.iter().map(lost).collect();
        let is_divided = |(number, parcel): (u32, &RecordedParcel)| {
            let key = (parcel.flow, picos(parcel.handed), picos(parcel.delivered?));
            (!parcel.flows_of_parts.is_empty()).then_some((key, number))
        };
        // Packets do not tell the messages apart that a rank sends to another at the same time.
        let mut alike: FxHashMap<(u32, u32, u32, Time), u32> = FxHashMap::default();
        let ends = |parcel: &RecordedParcel| (parcel.job, parcel.from, parcel.to, parcel.handed);
        recording.parcels.iter().for_each(|parcel| *alike.entry(ends(parcel)).or_default() += 1);
        let is_alone = |&(_, parcel): &(u32, &RecordedParcel)| alike.get(&ends(parcel)) == Some(&1);
        let divided = (0..).zip(&recording.parcels).filter(is_alone).filter_map(is_divided).collect();
        let is_from_host = |&(_, channel): &(u32, &RecordedChannel)| channel.from_host != NOT_RECORDED;
        let numbered = (0..).zip(&recording.channels);
        let begin = recording.hops.iter().map(|hop| picos(hop.start)).min().unwrap_or(0);
        Self {
            until,
            begin,
            edges,
            by_packet,
            previous,
            next,
            is_replaced,
            errors,
            losses,
            drains,
            injections,
            flows,
            divided,
            usual_rates: usual_rates(&recording.channels),
            out_of_host: numbered.filter(is_from_host).map(|(id, channel)| (channel.from_host, id)).collect(),
            has_numbers: recording.packets.iter().any(|packet| packet.number != 0),
            goes_back,
            buffers: recording.channels.iter().map(|_| OnceLock::new()).collect(),
            backlogs: recording.channels.iter().map(|_| OnceLock::new()).collect(),
            recording,
        }
    }

    /// All directions of links.
    #[must_use]
    pub fn channels(&self) -> &[RecordedChannel] {
        &self.recording.channels
    }

    /// Names of hosts.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.recording.hosts
    }

    /// The name of a channel, host or rank; empty if it is not known.
    #[must_use]
    pub fn name_of(&self, place: Place) -> String {
        match place {
            Place::Channel(channel) => self.recording.channels[channel as usize].name.clone(),
            Place::Host(host) => self.recording.hosts[host as usize].clone(),
            Place::Rank(rank) => format!("rank {rank}"),
            Place::Unknown => String::new(),
        }
    }

    /// All flows that have packets, including those of answers, in order.
    pub fn flows(&self) -> impl Iterator<Item = FlowAddress> {
        self.flows.keys().copied()
    }

    /// The number of the class of a flow; `None` if it has no packets.
    #[must_use]
    pub fn class_of(&self, flow: FlowAddress) -> Option<u16> {
        Some(self.packet(*self.packets_of(flow).first()?).class)
    }

    pub(crate) fn packet(&self, packet: u32) -> &RecordedPacket {
        &self.recording.packets[packet as usize]
    }

    pub(crate) fn hop(&self, row: u32) -> &RecordedHop {
        &self.recording.hops[row as usize]
    }

    pub(crate) fn start(&self, row: u32) -> Picos {
        picos(self.hop(row).start)
    }

    pub(crate) fn end(&self, row: u32) -> Picos {
        picos(self.hop(row).end)
    }

    pub(crate) fn arrival(&self, row: u32) -> Picos {
        picos(self.hop(row).arrival)
    }

    pub(crate) fn channel(&self, row: u32) -> &RecordedChannel {
        &self.recording.channels[self.hop(row).channel as usize]
    }

    /// Whether a channel sent packets again.
    pub(crate) fn has_errors(&self, channel: u32) -> bool {
        self.errors[channel as usize]
    }

    /// Whether the link sent the packet of a departure again later, because of an error.
    pub(crate) fn is_replaced(&self, row: u32) -> bool {
        self.is_replaced.get(row as usize).is_some_and(|&is_replaced| is_replaced)
    }

    /// The departure of the same packet before another one, from another place.
    pub(crate) fn previous(&self, row: u32) -> Option<u32> {
        Some(self.previous[row as usize]).filter(|&before| before != NOT_RECORDED)
    }

    /// The rows of the departures of a packet in order of time.
    pub(crate) fn hops(&self, packet: u32) -> &[u32] {
        self.by_packet.of(packet)
    }

    /// When the recording starts.
    pub(crate) fn begin(&self) -> Picos {
        self.begin
    }

    /// Number of a packet in its flow, which repeated packets keep. Without loss and reordering, packets have no
    /// numbers. Each then has another negative number.
    pub(crate) fn number(&self, packet: u32) -> i64 {
        if self.has_numbers { self.packet(packet).number as i64 } else { -1 - i64::from(packet) }
    }

    /// Whether packets have numbers: they may be lost, or overtake each other.
    pub(crate) fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// The usual rate of a channel in Gbit/s.
    pub(crate) fn usual_rate(&self, channel: u32) -> f64 {
        self.usual_rates[channel as usize]
    }

    /// How long a departure takes at the usual rate of its channel.
    pub(crate) fn usual_span(&self, row: u32) -> Picos {
        let hop = self.hop(row);
        span_at(hop.size, self.usual_rate(hop.channel))
    }

    /// When a departure from a switch could start at the earliest, because its tail must not arrive too late, and the same
    /// time if the packet had come over a link with its usual rate. `before` is the previous departure of the packet.
    pub(crate) fn ready_times(&self, row: u32, before: u32) -> (Picos, Picos) {
        let arrival = self.arrival(before);
        if self.channel(before).arrives_with_tail {
            return (arrival, arrival);
        }
        let length = |row| self.end(row) - self.start(row);
        let (own, span) = (length(row), length(before));
        let least = self.usual_span(before).min(span);
        (arrival + (span - own).max(0), arrival + (least - own).max(0))
    }

    /// The channel on which a host sends.
    pub(crate) fn out_of(&self, host: u32) -> u32 {
        self.out_of_host[&host]
    }

    /// The rows of the departures on a channel, in order.
    pub(crate) fn departures(&self, channel: u32) -> Range<u32> {
        self.edges[channel as usize]..self.edges[channel as usize + 1]
    }

    /// The number of departures on a channel that are earlier than the first one for which a condition does not hold.
    fn count_while(&self, channel: u32, holds: impl Fn(Picos) -> bool) -> u32 {
        let Range { start, end } = self.departures(channel);
        self.recording.hops[start as usize..end as usize].partition_point(|hop| holds(picos(hop.start)))
            as u32
    }

    /// The last departure on a channel that starts before a time.
    pub(crate) fn last_before(&self, channel: u32, time: Picos) -> Option<u32> {
        let before = self.count_while(channel, |start| start < time);
        Some(self.departures(channel).start + before.checked_sub(1)?)
    }

    /// The row, the start and the end of each departure on a channel that overlaps with a time, in order.
    pub(crate) fn within(
        &self,
        channel: u32,
        begin: Picos,
        end: Picos,
    ) -> impl Iterator<Item = (u32, Picos, Picos)> {
        let rows = self.departures(channel);
        let first = self.count_while(channel, |start| start <= begin).saturating_sub(1);
        (rows.start + first..rows.end)
            .map(|row| (row, self.start(row), self.end(row)))
            .take_while(move |&(_, start, _)| start < end)
            .filter(move |&(_, _, stop)| stop > begin)
    }

    /// The lack of credit that is nearest to a departure; see [`Backlog::blocked_near`].
    pub(crate) fn blocked_near(&self, row: u32, span: (Picos, Picos)) -> Option<(Picos, Picos)> {
        let channel = self.hop(row).channel;
        let backlog = self.backlogs[channel as usize].get_or_init(|| {
            // Packets in hosts do not count.
            let arrival = |row| self.previous(row).map_or(self.start(row), |before| self.arrival(before));
            let times = |row: u32| (arrival(row), self.start(row), self.end(row));
            Backlog::new(&self.departures(channel).map(times).collect::<Vec<_>>())
        });
        backlog.blocked_near((row - self.departures(channel).start) as usize, span)
    }

    /// The packets in the buffer at the end of a channel.
    pub(crate) fn buffer(&self, channel: u32) -> &Buffer {
        self.buffers[channel as usize].get_or_init(|| Buffer::new(self.passages(channel)))
    }

    fn passages(&self, channel: u32) -> Vec<Passage> {
        let rows = self.departures(channel);
        if self.recording.channels[channel as usize].to_host != NOT_RECORDED {
            let arrived: FxHashMap<Picos, u32> = rows.map(|row| (self.arrival(row), row)).collect();
            let passage = |&(arrival, left): &(Picos, Picos)| {
                let row = arrived.get(&arrival).copied();
                Passage { arrival, leaves: arrival, left, row }
            };
            return self.drains[channel as usize].iter().map(passage).collect();
        }
        let passage = |row: u32| {
            let arrival = self.arrival(row);
            let next = self.next[row as usize];
            if next != NOT_RECORDED {
                return Passage { arrival, leaves: self.start(next), left: self.end(next), row: Some(next) };
            }
            // It is still there at the end of the recording, or lost.
            let lost = self.losses.get(&self.hop(row).packet).map_or(NEVER, |loss| loss.time);
            Passage { arrival, leaves: lost, left: lost, row: None }
        };
        rows.filter(|&row| !self.is_replaced(row)).map(passage).collect()
    }

    /// When a host has drained a packet; its arrival if that is not known.
    pub(crate) fn drained_at(&self, channel: u32, arrival: Picos) -> Picos {
        let drains = &self.drains[channel as usize];
        let at = drains.partition_point(|&(time, _)| time < arrival);
        drains.get(at).filter(|drain| drain.0 == arrival).map_or(arrival, |drain| drain.1)
    }

    /// The loss of a packet; `None` if it was not lost.
    pub(crate) fn loss(&self, packet: u32) -> Option<Lost> {
        self.losses.get(&packet).copied()
    }

    /// The packets of a flow, in the order in which they started.
    pub(crate) fn packets_of(&self, flow: FlowAddress) -> &[u32] {
        self.flows.get(&flow).map_or(&[], |known| &known.packets)
    }

    /// The times in which a host waited for its injection limit, in order, without overlaps.
    pub(crate) fn injection(&self, host: u32) -> &[(Picos, Picos)] {
        self.injections.get(&host).map_or(&[], Vec::as_slice)
    }

    /// The message of a job that is divided, and of which a flow carried the last part, with its number.
    pub(crate) fn whole(&self, flow: FlowAddress, span: Span) -> Option<(u32, &RecordedParcel)> {
        let &number = self.divided.get(&(flow, span.0, span.1))?;
        Some((number, &self.recording.parcels[number as usize]))
    }

    /// The packets of the parts of a message that is divided.
    pub(crate) fn other_parts(&self, message: &Message) -> impl Iterator<Item = u32> {
        let whole = message.whole.map(|number| &self.recording.parcels[number as usize]);
        let flows = whole.into_iter().flat_map(|whole| &whole.flows_of_parts);
        let is_part = |&packet: &u32| picos(self.packet(packet).created) == message.start;
        flows.flat_map(|&flow| self.packets_of(flow)).copied().filter(is_part)
    }

    pub(crate) fn messages(&self, flow: FlowAddress) -> &[Message] {
        self.flows.get(&flow).map_or(&[], |known| known.messages.get_or_init(|| messages(self, flow)))
    }

    /// The data packet of a flow whose source started to send it at a time.
    pub(crate) fn sent(&self, flow: FlowAddress, time: Picos) -> Option<u32> {
        let known = self.flows.get(&flow)?;
        let sent = known.sent.get_or_init(|| {
            let is_data = |&&packet: &&u32| self.packet(packet).role == RecordedRole::Data;
            let data = known.packets.iter().filter(is_data);
            data.map(|&packet| (picos(self.packet(packet).injected), packet)).collect()
        });
        sent.get(&time).copied()
    }

    /// The answer to a flow that arrived at a time.
    pub(crate) fn answer(&self, flow: FlowAddress, time: Picos) -> Option<u32> {
        let known = self.flows.get(&flow)?;
        let answers = known.answers.get_or_init(|| {
            let arrived = |&packet: &u32| {
                let last = self.hops(packet).last()?;
                is_answer(self.packet(packet)).then(|| (self.arrival(*last), packet))
            };
            self.packets_of(back(flow)).iter().filter_map(arrived).collect()
        });
        answers.get(&time).copied()
    }

    /// What a flow last learned before a time: a mark or, if it never learned of one and `senses_delays`, the longest wait
    /// of an answered packet.
    pub(crate) fn last_signal(&self, flow: FlowAddress, time: Picos, senses_delays: bool) -> Option<Signal> {
        let known = self.flows.get(&flow)?;
        let signals = known.signals.get_or_init(|| {
            let answers = self.packets_of(back(flow));
            let mut found: Vec<_> = answers.iter().filter_map(|&answer| self.mark(flow, answer)).collect();
            for report in &self.recording.reports {
                if report.flow == flow && report.channel != NOT_RECORDED {
                    let (time, channel) = (picos(report.time), report.channel);
                    found.push((time, Signal { time, channel, is_mark: true }));
                }
            }
            if found.is_empty() && senses_delays {
                found.extend(answers.iter().filter_map(|&answer| self.longest_wait(flow, answer)));
            }
            found.sort_unstable();
            found
        });
        let at = signals.partition_point(|signal| signal.0 <= time);
        Some(signals[at.checked_sub(1)?].1)
    }

    /// When an answer to a flow arrived, and the packet that it answers.
    fn answered(&self, flow: FlowAddress, answer: u32) -> Option<(Picos, u32, bool)> {
        let (sent, is_marked) = self.packet(answer).echo?;
        let last = *self.hops(answer).last()?;
        let data = self.sent(flow, picos(sent)).filter(|_| self.channel(last).to_host == flow.host)?;
        Some((self.arrival(last), data, is_marked))
    }

    /// When an answer that notifies a flow arrived, and the mark.
    fn mark(&self, flow: FlowAddress, answer: u32) -> Option<(Picos, Signal)> {
        let (arrival, data, _) = self.answered(flow, answer).filter(|known| known.2)?;
        let marked = *self.hops(data).iter().find(|&&row| self.hop(row).is_marked)?;
        let (time, channel) = (self.start(marked), self.hop(marked).channel);
        Some((arrival, Signal { time, channel, is_mark: true }))
    }

    /// When an answer to a flow arrived, and the longest wait of the packet that it answers.
    fn longest_wait(&self, flow: FlowAddress, answer: u32) -> Option<(Picos, Signal)> {
        let (arrival, data, _) = self.answered(flow, answer)?;
        let waits = self.hops(data).windows(2).map(|pair| {
            let came = self.arrival(pair[0]);
            (self.start(pair[1]) - came, Reverse(came), self.hop(pair[1]).channel)
        });
        let (length, Reverse(time), channel) = waits.max()?;
        (length > 0).then_some((arrival, Signal { time, channel, is_mark: false }))
    }

    /// Divides a time into waits of a flow for its reaction or announcement, and others (`None`).
    pub(crate) fn flow_waits(
        &self,
        flow: FlowAddress,
        (start, end): (Picos, Picos),
    ) -> Vec<(Picos, Picos, Option<RecordedWaitKind>)> {
        let rows = self.flows.get(&flow).map_or(&[][..], |known| &known.waits);
        let mut found = Vec::new();
        let mut at = start;
        // The last wait that began before `start` may last longer.
        let first = rows.partition_point(|row| row.1 <= start).saturating_sub(OUT_OF_ORDER);
        for (index, &(wait, since, until)) in rows.iter().enumerate().skip(first) {
            if since >= end {
                break;
            }
            let following = rows.get(index + 1).map_or(NEVER, |row| row.1);
            let (begin, stop) = (since.max(at), until.min(following).min(end));
            if wait == RecordedWaitKind::Reopened || begin >= stop {
                continue;
            }
            if at < begin {
                found.push((at, begin, None));
            }
            found.push((begin, stop, Some(wait)));
            at = stop;
        }
        if at < end {
            found.push((at, end, None));
        }
        found
    }

    /// The flow of a packet; for answers, the flow that they answer.
    pub(crate) fn data_flow(&self, packet: u32) -> FlowAddress {
        let known = self.packet(packet);
        if is_answer(known) { back(known.flow) } else { known.flow }
    }
}

/// The usual rate of each channel: the most frequent one of the channels with the same kinds of ends.
fn usual_rates(channels: &[RecordedChannel]) -> Vec<f64> {
    let kind = |one: &RecordedChannel| (one.from_host != NOT_RECORDED, one.to_host != NOT_RECORDED);
    let mut kinds: FxHashMap<(bool, bool), BTreeMap<u64, u32>> = FxHashMap::default();
    for channel in channels {
        // Positive numbers have the order of their bits.
        *kinds.entry(kind(channel)).or_default().entry(channel.rate_gbit_s.to_bits()).or_default() += 1;
    }
    let usual = |channel| {
        let rates = kinds.get(&kind(channel)).into_iter().flatten();
        rates.max_by_key(|&(_, &count)| count).map_or(channel.rate_gbit_s, |(&bits, _)| f64::from_bits(bits))
    };
    channels.iter().map(usual).collect()
}
