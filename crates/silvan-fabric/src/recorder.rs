//! Records which packets cross which links, and when, for the explanation of delays.
//!
//! Only departures are recorded, not waits: the time that a packet waits for an output is the time between its arrival
//! and its departure, and the departures of other packets tell what the output did meanwhile. Hosts also record why
//! their flows wait ([`crate::host::WaitLog`]), because a reaction leaves no trace on links. The recorder needs the
//! event-ordered scheduler and one partition, whose results equal those of other runs.

use silvan_engine::Time;

use crate::link::{ChannelId, Links};
use crate::message::SourceReport;
use crate::packet::{Contents, Packet, PacketId, Pool};
use crate::table::{Column, Table, Values};

/// Number of a packet that has left no host since the start of the recording, and of link-level messages.
const NO_SERIAL: u32 = u32::MAX;

/// The time that a recording covers, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlan {
    /// Packets that leave a node before this time are not recorded.
    pub from: Time,
    /// The run ends at this time.
    pub until: Time,
    /// The number of departures at which the recording ends. A departure takes about 40 bytes.
    pub most: usize,
}

/// A packet that starts to leave a node, or a link-level message.
#[derive(Debug, Clone, Copy)]
struct RecordedHop {
    serial: u32,
    channel: ChannelId,
    start: Time,
    end: Time,
    /// When the packet can be forwarded at the next switch, or when its tail reaches a host.
    arrival: Time,
    size: u32,
    /// The lane, and whether the packet is marked (bit 8).
    flags: u32,
}

/// What is known of a recorded packet.
#[derive(Debug, Clone, Copy)]
struct RecordedPacket {
    packet: Packet,
    /// Number of the packet in its flow, if packets have numbers.
    number: u64,
    /// When the packet left its host; the first recorded departure if it left earlier.
    start: Time,
}

/// What a recorder has recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    from: Time,
    most: usize,
    /// By the identifier of a packet.
    serials: Vec<u32>,
    packets: Vec<RecordedPacket>,
    departures: Vec<RecordedHop>,
    /// The channel of packets that reached a host, their arrival, and the time at which the host has drained them.
    drained: Vec<(ChannelId, Time, Time)>,
    /// Lost or trimmed packets: number, channel, time, and [`Loss`].
    losses: Vec<(u32, ChannelId, Time, Loss)>,
    /// Notifications that switches send to sources: the output that has marked a packet, as place of the switch and
    /// port, and the time.
    reports: Vec<((u32, u16), Time, SourceReport)>,
    /// Whether the limit was reached.
    is_full: bool,
}

/// How the payload of a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// On a link that was down or had errors.
    OnLink = 0,
    /// In front of a full buffer.
    Dropped = 1,
    /// A switch removed the payload, and forwards the header.
    Trimmed = 2,
}

impl Recorder {
    pub fn new(plan: RecordPlan) -> Self {
        Self { from: plan.from, most: plan.most, ..Self::default() }
    }

    /// Whether the limit of departures was reached.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    fn serial(&self, id: PacketId) -> u32 {
        self.serials.get(id as usize).copied().unwrap_or(NO_SERIAL)
    }

    /// Records a packet that starts now to leave a node on a channel, on which its last bit leaves at `end`.
    /// `is_from_host` states whether the node is a host.
    pub fn departs(
        &mut self,
        (channel, is_from_host): (ChannelId, bool),
        (id, packets): (PacketId, &Pool),
        (start, end, arrival): (Time, Time, Time),
    ) {
        if self.serials.len() <= id as usize {
            self.serials.resize(id as usize + 1, NO_SERIAL);
        }
        let is_early = end < self.from;
        let packet = &packets[id];
        let serial = &mut self.serials[id as usize];
        if is_from_host {
            *serial = NO_SERIAL;
        }
        if is_early || self.is_full {
            return;
        }
        if *serial == NO_SERIAL {
            *serial = self.packets.len() as u32;
            self.packets.push(RecordedPacket { packet: *packet, number: packets.number(id), start });
        }
        let flags = u32::from(packet.vl.0) | u32::from(packet.fecn) << 8;
        let row = RecordedHop { serial: *serial, channel, start, end, arrival, size: packet.size, flags };
        self.push(row);
    }

    /// Records a packet that starts now to cross a channel again, after an error.
    pub fn departs_again(
        &mut self,
        channel: ChannelId,
        (id, packet): (PacketId, &Packet),
        (start, end, arrival): (Time, Time, Time),
    ) {
        let (serial, flags) = (self.serial(id), u32::from(packet.vl.0) | u32::from(packet.fecn) << 8);
        self.push(RecordedHop { serial, channel, start, end, arrival, size: packet.size, flags });
    }

    /// Records a link-level message that occupies a channel until `end`.
    pub fn message(&mut self, channel: ChannelId, (start, end): (Time, Time)) {
        let (serial, arrival) = (NO_SERIAL, end);
        self.push(RecordedHop { serial, channel, start, end, arrival, size: 0, flags: 0 });
    }

    fn push(&mut self, row: RecordedHop) {
        self.is_full |= self.departures.len() >= self.most;
        if row.end >= self.from && !self.is_full {
            self.departures.push(row);
        }
    }

    /// Records a packet that arrives now at a host, which will have drained it at `done`.
    pub fn drained(&mut self, channel: ChannelId, now: Time, done: Time) {
        if done >= self.from && !self.is_full {
            self.drained.push((channel, now, done));
        }
    }

    /// Records a packet that is lost, or its payload.
    pub fn lost(&mut self, id: PacketId, channel: ChannelId, now: Time, loss: Loss) {
        let serial = self.serial(id);
        if serial != NO_SERIAL && !self.is_full {
            self.losses.push((serial, channel, now, loss));
        }
    }

    /// Records a notification that a port of a switch (by its place) sends to a source.
    pub fn reports(&mut self, at: (u32, u16), now: Time, report: SourceReport) {
        if now >= self.from && !self.is_full {
            self.reports.push((at, now, report));
        }
    }

    /// The tables of the recording. Times are in picoseconds.
    pub fn into_tables(self, links: &Links) -> Vec<Table> {
        let packets = packet_table(&self.packets);
        let rows = &self.departures;
        let departures = table(
            "departures",
            vec![
                ("packet", small(rows, |row| row.serial)),
                ("channel", small(rows, |row| row.channel)),
                ("start_ps", times(rows, |row| row.start)),
                ("end_ps", times(rows, |row| row.end)),
                ("arrival_ps", times(rows, |row| row.arrival)),
                ("size", small(rows, |row| row.size)),
                ("flags", small(rows, |row| row.flags)),
            ],
        );
        let rows = &self.drained;
        let drained = table(
            "drained",
            vec![
                ("channel", small(rows, |row| row.0)),
                ("arrival_ps", times(rows, |row| row.1)),
                ("done_ps", times(rows, |row| row.2)),
            ],
        );
        let rows = &self.losses;
        let losses = table(
            "losses",
            vec![
                ("packet", small(rows, |row| row.0)),
                ("channel", small(rows, |row| row.1)),
                ("time_ps", times(rows, |row| row.2)),
                ("loss", small(rows, |row| row.3 as u32)),
            ],
        );
        let channel_of = |(switch, port): (u32, u16)| {
            let is_at = |&channel: &ChannelId| {
                links
                    .sending_switch(channel)
                    .is_some_and(|(place, output)| (place, output.0) == (switch, port))
            };
            (0..links.count() as ChannelId).find(is_at).unwrap_or(ChannelId::MAX)
        };
        let rows = &self.reports;
        let reports = table(
            "reports",
            vec![
                ("channel", small(rows, |row| channel_of(row.0))),
                ("time_ps", times(rows, |row| row.1)),
                ("source_host", small(rows, |row| row.2.to)),
                ("source", small(rows, |row| row.2.source.into())),
                ("destination_host", small(rows, |row| row.2.destination)),
                ("sent_ps", times(rows, |row| row.2.sent_at)),
            ],
        );
        vec![packets, departures, drained, losses, reports]
    }
}

fn packet_table(rows: &[RecordedPacket]) -> Table {
    let echoed = |row: &RecordedPacket| match row.packet.contents {
        Contents::Cnp(echoed) | Contents::Ack(echoed) => Some(echoed),
        _ => None,
    };
    let injected = |row: &RecordedPacket| match row.packet.contents {
        Contents::Data { injected, .. } | Contents::Header { injected, .. } => injected,
        _ => row.start,
    };
    table(
        "packets",
        vec![
            ("kind", small(rows, |row| row.packet.kind() as u32)),
            ("source_host", small(rows, |row| row.packet.src)),
            ("source", small(rows, |row| row.packet.source.into())),
            ("destination_host", small(rows, |row| row.packet.dst)),
            ("class", small(rows, |row| row.packet.class.into())),
            ("number", Values::U64(rows.iter().map(|row| row.number).collect())),
            ("payload", small(rows, |row| row.packet.payload())),
            ("is_last", small(rows, |row| row.packet.segment().is_some_and(|part| part.is_last).into())),
            ("created_ps", times(rows, |row| row.packet.segment().map_or(row.start, |part| part.created))),
            ("injected_ps", times(rows, injected)),
            ("echo_sent_ps", times(rows, |row| echoed(row).map_or(Time::NEVER, |echoed| echoed.sent_at))),
            ("echo_is_marked", small(rows, |row| echoed(row).is_some_and(|echoed| echoed.is_marked).into())),
        ],
    )
}

/// A table of recorded rows.
pub(crate) fn table(name: &'static str, columns: Vec<(&'static str, Values)>) -> Table {
    let columns = columns.into_iter().map(|(name, values)| Column { name, values }).collect();
    Table { name, columns }
}

/// A column of small numbers.
pub(crate) fn small<R>(rows: &[R], value: impl Fn(&R) -> u32) -> Values {
    Values::U32(rows.iter().map(value).collect())
}

/// A column of times.
pub(crate) fn times<R>(rows: &[R], value: impl Fn(&R) -> Time) -> Values {
    Values::U64(rows.iter().map(|row| value(row).0).collect())
}
