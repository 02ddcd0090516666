//! Messages, and the times that they take alone.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_fabric::{FlowAddress, NOT_RECORDED, RecordedRole};

use crate::Picos;
use crate::record::{Lost, Record, back, picos, span_at};

/// Number of packets of a message that are sent one by one to compute the ideal time. The others follow at the pace of
/// the slowest link.
const PACKETS_ONE_BY_ONE: usize = 64;

/// A message whose last packet has been delivered.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its flow.
    pub flow: FlowAddress,
    /// When it was generated.
    pub start: Picos,
    /// When its last packet was delivered.
    pub end: Picos,
    /// Payload.
    pub bytes: u64,
    /// The time that it takes alone on its route, with usual rates.
    pub ideal: Picos,
    /// If it is the last part of a message of a job that is divided among ports or queue pairs: the number of this message in
    /// the recording. `bytes` and `ideal` are then those of the whole message.
    pub(crate) whole: Option<u32>,
    /// The packets that carry its data, in the order in which they left the host, repeated ones included.
    pub(crate) packets: Vec<u32>,
    /// The packet that was delivered last.
    pub(crate) last: u32,
}

/// Why a packet was sent again: the loss, if it is known.
pub(crate) type Repeated = FxHashMap<u32, Option<Lost>>;

impl Message {
    /// Duration beyond the ideal one.
    #[must_use]
    pub fn delay(&self) -> Picos {
        self.end - self.start - self.ideal
    }

    /// The packets that repeat earlier ones. The cause is the latest earlier loss of a packet with the same number, or else of
    /// any packet of the message, which makes a receiver discard those behind it, or else of an answer.
    pub(crate) fn repeated(&self, record: &Record) -> Repeated {
        let mut seen = FxHashSet::default();
        let repeats = |&packet: &u32| !seen.insert(record.number(packet));
        let repeated: Vec<u32> = self.packets.iter().copied().filter(repeats).collect();
        if repeated.is_empty() {
            return Repeated::default();
        }
        let losses_of = |packets: &[u32]| {
            let mut losses: Vec<(i64, Lost)> =
                packets.iter().filter_map(|&one| Some((record.number(one), record.loss(one)?))).collect();
            losses.sort_by_key(|(_, loss)| loss.time);
            losses
        };
        let own = losses_of(&self.packets);
        let answers = losses_of(record.packets_of(back(self.flow)));
        let mut by_number: FxHashMap<i64, Vec<Lost>> = FxHashMap::default();
        own.iter().for_each(|&(number, loss)| by_number.entry(number).or_default().push(loss));
        let cause = |packet: u32| {
            let start = record.start(*record.hops(packet).first()?);
            let latest = |losses: &[(i64, Lost)]| {
                let at = losses.partition_point(|(_, loss)| loss.time <= start);
                Some(losses[at.checked_sub(1)?].1)
            };
            let mut alike = by_number.get(&record.number(packet)).into_iter().flatten();
            let same = alike.rfind(|loss| loss.time <= start).copied();
            same.or_else(|| latest(&own)).or_else(|| latest(&answers))
        };
        repeated.into_iter().map(|packet| (packet, cause(packet))).collect()
    }
}

/// The messages of a flow that were recorded from their first packet to their delivery. The last part of a message that is
/// divided stands for the whole.
pub(crate) fn messages(record: &Record, flow: FlowAddress) -> Vec<Message> {
    let mut found = parts(record, flow);
    for message in &mut found {
        if let Some((number, whole)) = record.whole(flow, (message.start, message.end)) {
            (message.bytes, message.ideal, message.whole) = (whole.bytes, picos(whole.alone), Some(number));
        }
    }
    found
}

fn parts(record: &Record, flow: FlowAddress) -> Vec<Message> {
    let mut finder = Finder { record, flow, ideals: FxHashMap::default(), shape: Shape::default() };
    if !record.has_numbers() {
        let carriers = record.packets_of(flow).iter().copied().filter(|&packet| carries_data(record, packet));
        let carriers: Vec<u32> = carriers.collect();
        let is_one = |&one: &u32, &other: &u32| {
            !record.packet(one).is_last && record.packet(one).created == record.packet(other).created
        };
        let groups = carriers.chunk_by(is_one);
        return groups.filter_map(|group| finder.message_in_order(group.to_vec())).collect();
    }
    let mut parts: Vec<(Picos, Vec<u32>)> = Vec::new();
    let mut places: FxHashMap<Picos, usize> = FxHashMap::default();
    for &packet in record.packets_of(flow) {
        if carries_data(record, packet) {
            let created = picos(record.packet(packet).created);
            let place = *places.entry(created).or_insert_with(|| {
                parts.push((created, Vec::new()));
                parts.len() - 1
            });
            parts[place].1.push(packet);
        }
    }
    let mut found: Vec<Message> = Vec::new();
    for (created, packets) in parts {
        // Messages that a source generates at the same time follow each other.
        for group in split(record, packets) {
            let after = found.last().map_or(0, |before| before.end);
            found.extend(finder.message(created, after, group));
        }
    }
    found
}

/// Whether a packet carries a part of a message, or did before it was trimmed.
fn carries_data(record: &Record, packet: u32) -> bool {
    matches!(record.packet(packet).role, RecordedRole::Data | RecordedRole::Header)
}

/// Divides the packets of messages of the same time. A message ends with its last packet.
fn split(record: &Record, packets: Vec<u32>) -> Vec<Vec<u32>> {
    let mut groups = vec![Vec::new()];
    let mut numbers = FxHashSet::default();
    let mut has_ended = false;
    for packet in packets {
        let number = record.number(packet);
        if has_ended && !numbers.contains(&number) {
            groups.push(Vec::new());
            numbers.clear();
            has_ended = false;
        }
        if let Some(group) = groups.last_mut() {
            group.push(packet);
        }
        numbers.insert(number);
        has_ended |= record.packet(packet).is_last;
    }
    groups
}

/// The route of a message and the sizes of its packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Shape {
    route: Vec<u32>,
    sizes: Vec<u32>,
}

/// Finds the messages of a flow.
struct Finder<'r> {
    record: &'r Record,
    flow: FlowAddress,
    ideals: FxHashMap<Shape, Picos>,
    /// Scratch memory.
    shape: Shape,
}

impl Finder<'_> {
    /// A message whose packets are neither repeated nor trimmed.
    fn message_in_order(&mut self, packets: Vec<u32>) -> Option<Message> {
        let record = self.record;
        packets.last().filter(|&&packet| record.packet(packet).is_last)?;
        let mut latest = (0, packets[0]);
        for &packet in &packets {
            latest = latest.max((delivered(record, packet)?, packet));
        }
        let (end, last) = latest;
        let bytes = packets.iter().map(|&packet| u64::from(record.packet(packet).payload)).sum();
        self.shape.sizes.clear();
        self.shape.sizes.extend(packets.iter().map(|&packet| record.hop(record.hops(packet)[0]).size));
        let (start, ideal) = (picos(record.packet(last).created), self.ideal(last));
        Some(Message { flow: self.flow, start, end, bytes, ideal, whole: None, packets, last })
    }

    /// A message that was generated at `start`. The message before it ended at `after`.
    fn message(&mut self, start: Picos, after: Picos, packets: Vec<u32>) -> Option<Message> {
        let record = self.record;
        packets.iter().find(|&&packet| record.packet(packet).is_last)?;
        let mut payloads: FxHashMap<i64, u32> = FxHashMap::default();
        let mut deliveries: BTreeMap<i64, Vec<(Picos, u32)>> = BTreeMap::new();
        for &packet in &packets {
            let number = record.number(packet);
            payloads.insert(number, record.packet(packet).payload);
            let is_data = record.packet(packet).role == RecordedRole::Data;
            if let Some(done) = is_data.then(|| delivered(record, packet)).flatten() {
                deliveries.entry(number).or_default().push((done, packet));
            }
        }
        if deliveries.len() != payloads.len() {
            return None;
        }
        let (end, last) = if record.goes_back {
            // A packet is accepted only after the one before it.
            let mut last = (after, packets[0]);
            for known in deliveries.values() {
                last = *known.iter().filter(|one| one.0 >= last.0).min()?;
            }
            last
        } else {
            *deliveries.values().filter_map(|known| known.iter().min()).max()?
        };
        let bytes = payloads.values().map(|&bytes| u64::from(bytes)).sum();
        self.shape.sizes = sizes(record, &packets);
        let ideal = self.ideal(last);
        Some(Message { flow: self.flow, start, end, bytes, ideal, whole: None, packets, last })
    }

    /// The ideal time of a message with the sizes in `shape`, on the route of its last packet.
    fn ideal(&mut self, last: u32) -> Picos {
        let Self { record, ideals, shape, .. } = self;
        shape.route.clear();
        for &row in record.hops(last) {
            let channel = record.hop(row).channel;
            if !shape.route.contains(&channel) {
                shape.route.push(channel);
            }
        }
        if let Some(&ideal) = ideals.get(shape) {
            return ideal;
        }
        let ideal = ideal_time(record, shape);
        ideals.insert(shape.clone(), ideal);
        ideal
    }
}

/// When a host has drained a packet; `None` if that was not recorded.
pub(crate) fn delivered(record: &Record, packet: u32) -> Option<Picos> {
    let rows = record.hops(packet);
    let (&first, &last) = (rows.first()?, rows.last()?);
    let is_there = record.channel(last).to_host == record.packet(packet).flow.destination;
    let is_whole = record.channel(first).from_host != NOT_RECORDED;
    let arrival = record.arrival(last);
    (is_there && is_whole && record.loss(packet).is_none() && arrival <= record.until)
        .then(|| record.drained_at(record.hop(last).channel, arrival))
}

/// The sizes of the packets of a message with headers.
fn sizes(record: &Record, packets: &[u32]) -> Vec<u32> {
    let mut places: FxHashMap<i64, usize> = FxHashMap::default();
    let mut sizes = Vec::new();
    for &packet in packets {
        let size = record.hop(record.hops(packet)[0]).size;
        let place = *places.entry(record.number(packet)).or_insert(sizes.len());
        if place == sizes.len() {
            sizes.push(size);
        }
        sizes[place] = size;
    }
    sizes
}

/// The time that packets take alone on a route, with usual rates.
fn ideal_time(record: &Record, Shape { route, sizes }: &Shape) -> Picos {
    let channels = record.channels();
    let span = |channel: u32, size: u32| span_at(size, record.usual_rate(channel));
    let longest = |&size: &u32| route.iter().map(|&channel| span(channel, size)).max().unwrap_or(0);
    let left_out = sizes.len().saturating_sub(PACKETS_ONE_BY_ONE);
    let extra: Picos = sizes.iter().skip(1).take(left_out).map(longest).sum();
    let mut free = vec![0; route.len()];
    let mut arrival = 0;
    for &size in sizes.iter().take(1).chain(sizes.iter().skip(1 + left_out)) {
        arrival = 0;
        let (mut before, mut came_whole) = (0, true);
        for (&channel, free) in route.iter().zip(&mut free) {
            let known = &channels[channel as usize];
            let own = span(channel, size);
            let ready = if came_whole { arrival } else { arrival + (before - own).max(0) };
            let start = ready.max(*free);
            *free = start + own;
            arrival = start + picos(known.head_delay) + if known.arrives_with_tail { own } else { 0 };
            (before, came_whole) = (own, known.arrives_with_tail);
        }
    }
    arrival + extra
}
