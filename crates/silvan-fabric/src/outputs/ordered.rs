//! Switches whose outputs affect each other within a bin. All events of such a switch in the bin are handled in the order of
//! time, while the outputs of other switches remain independent.
//!
//! There are two reasons. A lane of the switch may be paused, see [`super::pauses`]: then tails that leave, checks and
//! decisions of all outputs are handled in order as well. Or an output may notify a source through another output, see
//! [`super::reports`]: then arrivals and notifications are in order, and each output makes its decisions when the next of
//! these occurs at it.
//!
//! The order within an instant is that of the event-ordered scheduler:
//!
//! 1. heads are stored in the buffers of their inputs,
//! 2. packets that may leave are queued, and pause frames take effect,
//! 3. tails leave, and inputs check whether to send a frame,
//! 4. outputs decide,
//! 5. notifications are sent: received ones by their input, then the switch's own ones by the output that marked.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port_set::{PortSet, Ports256};

use super::{Around, Arrival, Bank, OutputPlaces};

/// The order of pause frames within an instant, as stored in [`Arrival::input`]. They follow all packets.
pub(super) const PAUSES: u16 = 512;
/// The order of received notifications, to which their input is added.
pub(super) const CAME_IN: u16 = 768;
/// The order of a switch's own notifications, to which the output that marked is added.
pub(super) const OWN: u16 = 1_024;

/// Switches whose events are handled in order.
#[derive(Debug, Saved)]
pub(super) struct Ordered {
    #[saved(constant)]
    places: Arc<OutputPlaces>,
    /// Whether the events of a switch are handled in order, by its first output.
    is_in_order: Box<[bool]>,
    /// The first outputs of these switches.
    switches: Vec<u32>,
    /// Arrivals at these switches.
    #[saved(scratch)]
    arrivals: Vec<InSwitch>,
}

/// An arrival at a switch, sorted by switch, time and order at an instant.
#[derive(Debug, Clone, Copy)]
struct InSwitch {
    /// First output of the switch.
    first: u32,
    /// Picoseconds since the start of the bin.
    since: u32,
    /// Whether the packet only arrives in the buffer of its input.
    is_stored: bool,
    arrival: Arrival,
}

impl InSwitch {
    fn order(&self) -> impl Ord + use<> {
        (self.first, self.since, !self.is_stored, self.arrival.input)
    }
}

/// Arrivals before one time and decisions before another are handled.
#[derive(Debug, Clone, Copy)]
pub(super) struct BinLimits {
    pub arrive_before: Time,
    pub decide_before: Time,
}

impl Ordered {
    pub fn new(places: Arc<OutputPlaces>) -> Self {
        let is_in_order = vec![false; places.firsts.len()].into();
        Self { places, is_in_order, switches: Vec::new(), arrivals: Vec::new() }
    }

    /// Adds a switch.
    pub fn add(&mut self, first: u32) {
        if !std::mem::replace(&mut self.is_in_order[first as usize], true) {
            self.switches.push(first);
        }
    }

    /// Adds an arrival at one of these switches. `is_stored` states whether it only arrives in the buffer of its input.
    pub fn keep(&mut self, arrival: &Arrival, start: Time, is_stored: bool) {
        let first = self.places.first(arrival.output);
        let since = arrival.when.wrapping_sub(start.0 as u32);
        self.arrivals.push(InSwitch { first, since, is_stored, arrival: *arrival });
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Takes the arrivals at switches whose events are handled in order out of a list, and handles the events of these
    /// switches in the current bin.
    #[inline(never)]
    pub(super) fn run_ordered(
        &mut self,
        around: &mut Around,
        arrivals: &mut Vec<Arrival>,
        limits: BinLimits,
    ) {
        self.find_marking_switches(arrivals);
        let start = self.start;
        let Some(ordered) = &mut self.ordered else { return };
        if ordered.switches.is_empty() {
            return;
        }
        arrivals.retain(|arrival| {
            let is_in_order = ordered.is_in_order[ordered.places.first(arrival.output) as usize];
            if is_in_order {
                ordered.keep(arrival, start, false);
            }
            !is_in_order
        });
        let (mut list, mut switches) =
            (std::mem::take(&mut ordered.arrivals), std::mem::take(&mut ordered.switches));
        list.sort_unstable_by_key(InSwitch::order);
        for &first in &switches {
            let from = list.partition_point(|item| item.first < first);
            let count = list[from..].partition_point(|item| item.first == first);
            self.run_switch(around, first, &list[from..from + count], limits);
        }
        switches.retain(|&first| self.stays_in_order(around, first));
        list.clear();
        if let Some(ordered) = &mut self.ordered {
            (ordered.arrivals, ordered.switches) = (list, switches);
        }
    }

    /// Handles the events of a switch.
    fn run_switch(&mut self, around: &mut Around, first: u32, mut arrivals: &[InSwitch], limits: BinLimits) {
        let may_pause = self.pauses.as_ref().is_some_and(|pauses| pauses.may_pause(first));
        loop {
            let mut now = arrivals.first().map_or(Time::NEVER, |item| self.start + Time(item.since.into()));
            if may_pause {
                now = now.min(self.next_of(first, limits));
            }
            if now == Time::NEVER {
                return;
            }
            let since = (now - self.start).0;
            let (instant, later) =
                arrivals.split_at(arrivals.iter().take_while(|item| u64::from(item.since) == since).count());
            arrivals = later;
            let (instant, notices) =
                instant.split_at(instant.iter().take_while(|item| !item.arrival.is_notice()).count());
            let mut touched = Ports256::default();
            for InSwitch { is_stored, arrival, .. } in instant {
                if *is_stored {
                    touched.insert(self.store_head(around, first, arrival, now));
                } else {
                    self.land(around, arrival, Time::ZERO, limits.decide_before);
                }
            }
            if may_pause {
                self.leave_and_decide(around, first, (now, touched), limits);
            }
            for notice in notices {
                self.forward(around, &notice.arrival, limits.decide_before);
            }
            self.send_reports(around, first, now, limits.decide_before);
        }
    }

    /// Has a message occupy the link of an output when the link is free. Returns the time at which the message has left.
    pub(super) fn occupy(&mut self, around: &mut Around, output: usize, now: Time, bytes: u32) -> Time {
        let record = &mut self.voq.records[output];
        let link = &self.wiring.links[usize::from(record.own.link)].parameters;
        let start = record.free_at.max(now);
        let end = start + link.pace.time(bytes);
        record.free_at = end;
        record.own.sent_bytes += u64::from(bytes);
        if record.own.ready_at < Time::NEVER {
            record.own.ready_at = record.own.ready_at.max(end);
        }
        if let Some(recorder) = &mut around.ctx.recorder {
            recorder.message(recorder.channel(output), (start, end));
        }
        end
    }

    /// Schedules the arrival of a message at an output.
    pub(super) fn message_arrives(&mut self, message: Arrival, time: Time) {
        self.arrivals.push(self.arrivals.bin(time), message);
    }

    /// Whether the events of a switch are still handled in order. If not, forgets the switch.
    fn stays_in_order(&mut self, around: &mut Around, first: u32) -> bool {
        let stays = self.pauses.is_some() && self.stays_paused(around, first);
        if let Some(ordered) = &mut self.ordered {
            ordered.is_in_order[first as usize] = stays;
        }
        stays
    }
}
