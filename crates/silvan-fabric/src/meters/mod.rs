//! Counters that nodes update. Each partition has its own counters, and the run adds them up at each sample.

mod deliveries;
mod latency;
#[cfg(test)]
mod tests;
mod transfers;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::packet::{Contents, FlowAddress, Kind, Packet, Segment};
pub(crate) use deliveries::{Deliveries, RoutedFlow, Watch};
pub(crate) use latency::Bin;
use latency::Latency;
pub(crate) use transfers::{Transfer, Transfers};

/// Bytes per time span in Gbit/s; zero for an empty span.
pub(crate) fn rate_gbit_s(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO { 0.0 } else { bytes as f64 * 8_000.0 / span.0 as f64 }
}

/// Counts of packets that overtook each other.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct Reordering {
    /// Packets that arrived after a later packet of their flow.
    #[saved(count)]
    pub late: u64,
    /// Packets that had to wait for an earlier one.
    #[saved(count)]
    pub held: u64,
    /// Held packets that were released, and their total waiting time in picoseconds.
    #[saved(count)]
    pub released: u64,
    #[saved(count)]
    pub waited_ps: u128,
    /// The largest payload that one host held at a time, in bytes.
    #[saved(most)]
    pub most_bytes: u64,
}

impl Reordering {
    /// Adds the counts of other hosts.
    pub fn add(&mut self, other: &Self) {
        self.late += other.late;
        self.held += other.held;
        self.released += other.released;
        self.waited_ps += other.waited_ps;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
    }
}

/// Counters of one class of traffic: a named flow, a traffic pattern, a role of a forest, or a job.
#[derive(Debug, Default, Saved)]
pub(crate) struct ClassMeter {
    /// The name shown in results.
    #[saved(constant)]
    pub name: String,
    /// Payload of the messages generated since the start.
    #[saved(count)]
    pub generated_bytes: u64,
    /// Payload injected since the start, counted when sending begins.
    #[saved(count)]
    pub injected_bytes: u64,
    /// Payload delivered since the start, counted when it is drained.
    #[saved(count)]
    pub delivered_bytes: u64,
    /// Payload of the packets that were lost.
    #[saved(count)]
    pub lost_bytes: u64,
    /// Payload that hosts decided to send again, because it was not acknowledged in time or a receiver
    /// requested it.
    #[saved(count)]
    pub repeated_bytes: u64,
    /// Payload that arrived but was discarded, because it had arrived before or was out of sequence.
    #[saved(count)]
    pub discarded_bytes: u64,
    /// Payload delivered before the end of the warm-up.
    #[saved(count)]
    pub warmup_bytes: u64,
    /// Packets delivered in the current sampling interval.
    pub interval: Tally,
    /// Packets delivered in all earlier intervals.
    pub total: Tally,
    /// The time at which the last delivered packet was drained.
    #[saved(latest)]
    pub last_delivery: Time,
    /// Latency, since the generation of their messages, of packets delivered after the warm-up.
    pub since_generation: Latency,
    /// Latency, since their injection, of packets delivered after the warm-up.
    pub since_injection: Latency,
}

/// Counts of delivered packets.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct Tally {
    #[saved(count)]
    pub packets: u64,
    /// Packets with the FECN bit set.
    #[saved(count)]
    pub marked: u64,
    /// Packets with the validation bit set.
    #[saved(count)]
    pub validated: u64,
    /// Sum of latencies since the generation of messages, and since the injection of packets.
    #[saved(count)]
    pub generation_ps: u128,
    #[saved(count)]
    pub injection_ps: u128,
    /// Longest latency since generation.
    #[saved(most)]
    pub longest: Time,
}

/// The latencies of a delivered packet.
#[derive(Debug, Clone, Copy)]
struct Latencies {
    since_generation: Time,
    since_injection: Time,
}

impl Tally {
    #[inline]
    fn count(
        &mut self,
        Latencies { since_generation, since_injection }: Latencies,
        is_marked: bool,
        is_validated: bool,
    ) {
        self.packets += 1;
        self.marked += u64::from(is_marked);
        self.validated += u64::from(is_validated);
        self.generation_ps += u128::from(since_generation.0);
        self.injection_ps += u128::from(since_injection.0);
        self.longest = self.longest.max(since_generation);
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.marked += other.marked;
        self.validated += other.validated;
        self.generation_ps += other.generation_ps;
        self.injection_ps += other.injection_ps;
        self.longest = self.longest.max(other.longest);
    }
}

/// A data packet that a host will drain after the next sample, with the times at which its tail arrives in
/// the host's buffer and at which it is drained.
#[derive(Debug, Clone, Copy, Saved)]
struct Later {
    tail_at: Time,
    done: Time,
    packet: Packet,
}

/// The counters of a partition, or their sums over all partitions.
#[derive(Debug, Default, Saved)]
pub(crate) struct Meters {
    pub classes: Vec<ClassMeter>,
    /// Payload received and sent by each host since the start.
    #[saved(count)]
    pub received_bytes: Vec<u64>,
    #[saved(count)]
    pub sent_bytes: Vec<u64>,
    /// Payload received and sent by each host until the end of the warm-up.
    #[saved(count)]
    pub received_warmup: Vec<u64>,
    #[saved(count)]
    pub sent_warmup: Vec<u64>,
    pub warm: bool,
    /// The end of the warm-up. Averages include only later deliveries.
    #[saved(latest)]
    pub warmup: Time,
    #[saved(count)]
    pub packets_injected: u64,
    #[saved(count)]
    pub packets_delivered: u64,
    /// Whether traffic waits for a number of packets to be delivered.
    pub is_awaited: bool,
    /// The time before which these counters are not read.
    #[saved(latest)]
    next_sample: Time,
    /// Data packets that hosts will drain after that time.
    later: Vec<Later>,
    /// Classes with this index or a higher one are jobs, whose ranks wait for messages.
    pub jobs_from: u16,
    /// Delivered messages of jobs that were not yet reported: class, and host, source and destination.
    pub messages_in: Vec<(u16, FlowAddress)>,
    /// Messages of jobs that have left their source but were not yet reported, with the time of leaving.
    pub messages_out: Vec<(u16, FlowAddress, Time)>,
    #[saved(count)]
    pub control_injected: u64,
    #[saved(count)]
    pub control_delivered: u64,
    #[saved(count)]
    pub fecn_marks: u64,
    /// Number of flows whose set-up packets returned, and number of returned probes or weights.
    #[saved(count)]
    pub announced: u64,
    #[saved(count)]
    pub probes: u64,
    /// The largest weight of a link that was returned or that a host's own link had, in picoseconds.
    #[saved(most)]
    pub busiest_link_ps: u64,
    /// Number of marked packets whose validation bit was also set.
    #[saved(count)]
    pub validations: u64,
    #[saved(count)]
    pub becn_received: u64,
    /// Number of notifications in `becn_received` that switches sent themselves.
    #[saved(count)]
    pub reports: u64,
    /// Reordering counts, if packets may overtake each other.
    pub reordering: Reordering,
    /// Data packets whose payload switches removed. They then count as control packets inside the network.
    #[saved(count)]
    pub trimmed: u64,
    /// Trimmed packets that had been marked.
    #[saved(count)]
    pub trimmed_marked: u64,
    /// Lost data packets, those of them that had been marked, and lost control packets.
    #[saved(count)]
    pub lost: u64,
    #[saved(count)]
    pub lost_marked: u64,
    #[saved(count)]
    pub lost_control: u64,
    /// Data packets that arrived but were discarded, and those of them that had been marked.
    #[saved(count)]
    pub discarded: u64,
    #[saved(count)]
    pub discarded_marked: u64,
    /// Number of timeouts of packets that were not acknowledged.
    #[saved(count)]
    pub timeouts: u64,
    /// Number of packets that counted as lost because later ones had been acknowledged.
    #[saved(count)]
    pub overtaken: u64,
    /// Entropy values that were retired and restored, and probes that tested them.
    #[saved(count)]
    pub retired: u64,
    #[saved(count)]
    pub restored: u64,
    #[saved(count)]
    pub path_probes: u64,
    /// Data packets that were sent again, which `packets_injected` includes.
    #[saved(count)]
    pub resent: u64,
    /// The most bytes of headers and other control packets that waited for one output.
    #[saved(most)]
    pub most_header_bytes: u32,
    /// Payload received by watched hosts, per sender.
    pub deliveries: Deliveries,
    /// The transfers of the hosts, if they are recorded.
    pub transfers: Option<Box<Transfers>>,
    #[cfg(debug_assertions)]
    #[saved(scratch)]
    order: rustc_hash::FxHashMap<(u32, u32, u16), Time>,
    /// An error message about a packet that overtook another packet of its flow.
    #[cfg(debug_assertions)]
    #[saved(scratch)]
    pub out_of_order: Option<String>,
}

impl ClassMeter {
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Closes the current sampling interval.
    fn close_interval(&mut self) {
        let interval = std::mem::take(&mut self.interval);
        self.total.add(&interval);
    }
}

impl Meters {
    pub fn new(classes: Vec<ClassMeter>, hosts: usize) -> Self {
        let zeros = || vec![0; hosts];
        Self {
            classes,
            received_bytes: zeros(),
            sent_bytes: zeros(),
            received_warmup: zeros(),
            sent_warmup: zeros(),
            jobs_from: u16::MAX,
            ..Self::default()
        }
    }

    /// Returns counters for the same classes and hosts. All are zero, except that the transfers are copied.
    pub fn fresh(&self) -> Self {
        let classes = self.classes.iter().map(|class| ClassMeter::new(class.name.clone()));
        let meters = Self::new(classes.collect(), self.received_bytes.len());
        Self { warmup: self.warmup, jobs_from: self.jobs_from, transfers: self.transfers.clone(), ..meters }
    }

    /// Sets these counters to the sums over all partitions. Moves the counts of the current interval here,
    /// but not the latencies; see [`Self::gather_latencies`].
    pub fn gather<'a>(&mut self, partitions: impl Iterator<Item = &'a mut Self>) {
        self.reset();
        for other in partitions {
            self.warm |= other.warm;
            self.packets_injected += other.packets_injected;
            self.packets_delivered += other.packets_delivered;
            self.control_injected += other.control_injected;
            self.control_delivered += other.control_delivered;
            self.fecn_marks += other.fecn_marks;
            self.validations += other.validations;
            self.becn_received += other.becn_received;
            self.reports += other.reports;
            self.announced += other.announced;
            self.probes += other.probes;
            self.busiest_link_ps = self.busiest_link_ps.max(other.busiest_link_ps);
            self.reordering.add(&other.reordering);
            self.trimmed += other.trimmed;
            self.trimmed_marked += other.trimmed_marked;
            self.lost += other.lost;
            self.lost_marked += other.lost_marked;
            self.lost_control += other.lost_control;
            self.discarded += other.discarded;
            self.discarded_marked += other.discarded_marked;
            self.timeouts += other.timeouts;
            self.overtaken += other.overtaken;
            self.retired += other.retired;
            self.restored += other.restored;
            self.path_probes += other.path_probes;
            self.resent += other.resent;
            self.most_header_bytes = self.most_header_bytes.max(other.most_header_bytes);
            self.deliveries.gather(&mut other.deliveries);
            for (sums, own) in [
                (&mut self.received_bytes, &other.received_bytes),
                (&mut self.sent_bytes, &other.sent_bytes),
                (&mut self.received_warmup, &other.received_warmup),
                (&mut self.sent_warmup, &other.sent_warmup),
            ] {
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            for (sum, own) in self.classes.iter_mut().zip(&mut other.classes) {
                sum.generated_bytes += own.generated_bytes;
                sum.injected_bytes += own.injected_bytes;
                sum.delivered_bytes += own.delivered_bytes;
                sum.lost_bytes += own.lost_bytes;
                sum.repeated_bytes += own.repeated_bytes;
                sum.discarded_bytes += own.discarded_bytes;
                sum.warmup_bytes += own.warmup_bytes;
                sum.last_delivery = sum.last_delivery.max(own.last_delivery);
                sum.interval.add(&std::mem::take(&mut own.interval));
            }
        }
    }

    /// Sets the sums computed by [`Self::gather`] to zero.
    fn reset(&mut self) {
        let hosts = self.received_bytes.len();
        let mut classes = std::mem::take(&mut self.classes);
        for class in &mut classes {
            (class.generated_bytes, class.injected_bytes) = (0, 0);
            (class.delivered_bytes, class.warmup_bytes) = (0, 0);
            (class.lost_bytes, class.repeated_bytes, class.discarded_bytes) = (0, 0, 0);
        }
        let deliveries = std::mem::take(&mut self.deliveries);
        let (warmup, jobs_from) = (self.warmup, self.jobs_from);
        *self = Self { warmup, jobs_from, deliveries, ..Self::new(classes, hosts) };
    }

    /// Moves the latencies of the partitions here. Called once, at the end.
    pub fn gather_latencies<'a>(&mut self, partitions: impl Iterator<Item = &'a mut Self>) {
        for (at, other) in partitions.enumerate() {
            for (sum, own) in self.classes.iter_mut().zip(&mut other.classes) {
                for (sum, own) in [
                    (&mut sum.since_generation, &mut own.since_generation),
                    (&mut sum.since_injection, &mut own.since_injection),
                ] {
                    // Swap the counters of the first partition instead of adding them, which is faster with
                    // many classes.
                    if at == 0 { std::mem::swap(sum, own) } else { sum.add(own) }
                }
            }
        }
    }

    /// Closes the current sampling interval.
    pub fn close_interval(&mut self) {
        self.deliveries.clear();
        self.classes.iter_mut().for_each(ClassMeter::close_interval);
    }

    /// Ends the warm-up and starts averages.
    pub fn end_warmup(&mut self) {
        self.warm = true;
        self.received_warmup.copy_from_slice(&self.received_bytes);
        self.sent_warmup.copy_from_slice(&self.sent_bytes);
        for class in &mut self.classes {
            class.warmup_bytes = class.delivered_bytes;
        }
    }

    /// Counts a message that a source of a host generated at `created`.
    #[inline]
    pub fn generated(&mut self, class: u16, flow: FlowAddress, bytes: u64, created: Time) {
        self.classes[usize::from(class)].generated_bytes += bytes;
        if class < self.jobs_from
            && let Some(transfers) = &mut self.transfers
        {
            transfers.begin(flow, class, bytes, created);
        }
    }

    /// Whether receivers acknowledge all data, and transfers are recorded.
    #[inline]
    pub fn awaits_acks(&self) -> bool {
        self.transfers.as_ref().is_some_and(|transfers| transfers.awaits_acks())
    }

    /// Counts bytes of a host's flow whose acknowledgement has reached the host. Returns whether a message is
    /// now acknowledged completely.
    #[inline]
    pub fn acknowledged(&mut self, flow: FlowAddress, bytes: u32, now: Time) -> bool {
        self.transfers.as_mut().is_some_and(|transfers| transfers.acknowledge(flow, bytes.into(), now))
    }

    /// Counts a data packet that a host began to send.
    #[inline]
    pub fn injected(&mut self, packet: &Packet) {
        self.packets_injected += 1;
        let bytes = u64::from(packet.payload());
        self.sent_bytes[packet.src as usize] += bytes;
        self.classes[usize::from(packet.class)].injected_bytes += bytes;
    }

    /// Data packets that were injected but neither delivered nor trimmed, lost or discarded. `None` if the
    /// counters are inconsistent.
    pub fn data_inside(&self) -> Option<u64> {
        let gone = self.packets_delivered + self.trimmed + self.lost + self.discarded;
        self.packets_injected.checked_sub(gone)
    }

    /// Counts a data packet that arrived but is discarded.
    pub fn discards(&mut self, packet: &Packet) {
        self.discarded += 1;
        self.discarded_marked += u64::from(packet.fecn);
        self.discards_segment(packet);
    }

    /// Counts the segment of a packet that is not needed any more.
    pub fn discards_segment(&mut self, packet: &Packet) {
        self.classes[usize::from(packet.class)].discarded_bytes += u64::from(packet.payload());
    }

    /// Counts payload of a class that will be sent again because it was not acknowledged in time.
    pub fn repeats(&mut self, class: u16, payload: u32) {
        self.classes[usize::from(class)].repeated_bytes += u64::from(payload);
    }

    /// Counts payload of a class that will be generated again for other flows: `bytes` that have not arrived. `waiting` bytes
    /// had not been sent, or were to be sent again; the rest was sent without effect.
    pub fn withdraws(&mut self, class: u16, bytes: u64, waiting: u64) {
        let meter = &mut self.classes[usize::from(class)];
        meter.generated_bytes -= bytes;
        meter.repeated_bytes = meter.repeated_bytes + bytes - waiting;
    }

    /// Counts a packet that was lost.
    pub fn was_lost(&mut self, packet: &Packet) {
        if packet.is_data() {
            self.lost += 1;
            self.lost_marked += u64::from(packet.fecn);
        } else {
            self.lost_control += 1;
        }
        let Some(Segment { bytes, created, .. }) = packet.segment() else { return };
        // A negative acknowledgement goes from the receiver to the source.
        let flow = if packet.kind() == Kind::Nack { packet.answered_flow() } else { packet.flow() };
        self.classes[usize::from(packet.class)].lost_bytes += u64::from(bytes);
        if !self.is_of_job(packet)
            && let Some(transfers) = &mut self.transfers
        {
            transfers.lose(flow, created);
        }
    }

    /// Control packets inside the network, including the headers of trimmed packets. `None` if the counters
    /// are inconsistent.
    pub fn control_inside(&self) -> Option<u64> {
        let inside = (self.control_injected + self.trimmed).checked_sub(self.control_delivered)?;
        inside.checked_sub(self.lost_control)
    }

    /// Sets the time before which these counters are not read, and counts the packets drained until then.
    pub fn expect_sample(&mut self, time: Time) {
        self.next_sample = time;
        let mut later = std::mem::take(&mut self.later);
        later.retain(|&Later { done, packet, .. }| {
            let is_later = done > time;
            if !is_later {
                self.delivered(&packet, done);
            }
            is_later
        });
        self.later = later;
    }

    /// Returns data packets that will be drained after the next sample: those whose tails are in their hosts'
    /// buffers at `now` or, if `are_in` is false, those that are still on their way.
    pub fn later(&self, now: Time, are_in: bool) -> impl Iterator<Item = &Packet> {
        self.later.iter().filter(move |one| (one.tail_at <= now) == are_in).map(|one| &one.packet)
    }

    /// Counts a data packet whose tail arrives at a host at `tail_at` and that the host will drain at `done`.
    /// No component waits for the packet, so it is counted immediately unless there is a sample before
    /// `done`.
    #[inline]
    pub fn will_deliver(&mut self, packet: &Packet, (tail_at, done): (Time, Time)) {
        if done <= self.next_sample {
            self.delivered(packet, done);
        } else {
            self.later.push(Later { tail_at, done, packet: *packet });
        }
    }

    /// Counts a data packet that a host has drained at `done`. Throughput and latency refer to this time.
    #[inline]
    pub fn delivered(&mut self, packet: &Packet, done: Time) {
        let Contents::Data { bytes, created, is_last, injected, is_validated } = packet.contents else {
            return;
        };
        self.packets_delivered += 1;
        self.received_bytes[packet.dst as usize] += u64::from(bytes);
        self.deliveries.count(packet, bytes);
        let class = &mut self.classes[usize::from(packet.class)];
        class.delivered_bytes += u64::from(bytes);
        class.last_delivery = class.last_delivery.max(done);
        let latencies = Latencies { since_generation: done - created, since_injection: done - injected };
        class.interval.count(latencies, packet.fecn, is_validated);
        if done > self.warmup {
            class.since_generation.record(latencies.since_generation);
            class.since_injection.record(latencies.since_injection);
        }
        if is_last
            && !self.is_of_job(packet)
            && let Some(transfers) = &mut self.transfers
        {
            transfers.deliver(packet.flow(), created, done);
        }
        if self.ends_message(packet) {
            self.messages_in.push((packet.class, packet.flow()));
        }
    }

    /// Whether a packet is the last packet of a message of a job.
    #[inline]
    pub fn ends_message(&self, packet: &Packet) -> bool {
        self.is_of_job(packet) && packet.ends_message()
    }

    /// Whether a packet belongs to a job.
    #[inline]
    pub fn is_of_job(&self, packet: &Packet) -> bool {
        packet.class >= self.jobs_from
    }

    /// Records that the tail of a data packet is in its host's input buffer. Debug builds use this to check
    /// the order of packets.
    #[cfg(debug_assertions)]
    pub fn check_order(&mut self, packet: &Packet, now: Time) {
        let Contents::Data { injected, .. } = packet.contents else { return };
        let last = self.order.insert((packet.src, packet.dst, packet.source), injected);
        if last.is_some_and(|last| last >= injected) {
            self.out_of_order = Some(format!(
                "a packet of host {} to host {} injected at {injected} arrived at {now} after a later one",
                packet.src, packet.dst
            ));
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub fn check_order(&mut self, _packet: &Packet, _now: Time) {}
}
