//! LogGP costs of communication: a crossbar without internal congestion.

use silvan_engine::saved::Saved;

use super::Parameters;
use super::ranks::{Agenda, Carrier, Parcel, Part, later};

/// Times in ps at which an interface becomes free, for each direction.
#[derive(Debug, Clone, Copy, Default)]
struct Interface {
    outgoing: u64,
    incoming: u64,
}

/// Cost of a parcel on a crossbar, in ps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Cost {
    /// Time from sending the first byte to receiving it.
    pub latency: u64,
    /// Transmission time of the bytes on the slowest link.
    pub span: u128,
    /// Time for which the interface of the sender is busy. It is less than `span` if that interface is faster than the
    /// route.
    pub sending: u128,
    /// Time for which the interface of the receiver is busy. It may also be less than `span`.
    pub receiving: u128,
    /// Number of packets, at least one.
    pub packets: u64,
    /// The part of `sending` that a packet takes, except for the last packet, which takes the rest.
    pub packet: u128,
}

/// Copies messages between ranks of one host, which do not use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// The time per byte, in femtoseconds.
    pub gap_per_byte_fs: u64,
}

impl Copies {
    /// Delivers a message within a host.
    pub fn carry(&self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        let end = later(now, per_byte(parcel.bytes, self.gap_per_byte_fs));
        agenda.arrives(end, parcel);
        agenda.left(end, parcel);
    }
}

/// An ideal crossbar: each interface sends and receives one message at a time, and there are no other
/// limits.
#[derive(Debug)]
pub struct Crossbar<C> {
    /// The host of each rank.
    hosts: Vec<u32>,
    cost: C,
    /// Interfaces by host and number.
    interfaces: Vec<Vec<Interface>>,
}

impl<C: Fn(&Parcel) -> Cost> Crossbar<C> {
    /// Creates a crossbar; `hosts` gives the host of each rank. Messages within a host are those of [`super::Machines`].
    pub fn new(hosts: Vec<u32>, cost: C) -> Self {
        let count = hosts.iter().max().map_or(0, |&last| last as usize + 1);
        Self { hosts, cost, interfaces: vec![Vec::new(); count] }
    }

    fn interface(&mut self, host: u32, number: u8) -> &mut Interface {
        let list = &mut self.interfaces[host as usize];
        let number = usize::from(number);
        if list.len() <= number {
            list.resize(number + 1, Interface::default());
        }
        &mut list[number]
    }
}

impl Parameters {
    /// The cost of a parcel on a network whose routes are all equal.
    #[must_use]
    pub fn cost(&self, parcel: &Parcel) -> Cost {
        let span = per_byte(parcel.bytes, self.gap_per_byte_fs);
        let busy = span.max(u128::from(self.gap.0));
        Cost { latency: self.latency.0, span, sending: busy, receiving: busy, packets: 1, packet: busy }
    }
}

impl<C: Fn(&Parcel) -> Cost> Carrier for Crossbar<C> {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        let host = self.hosts[parcel.from as usize];
        let cost = (self.cost)(parcel);
        // A permission takes only the latency.
        if parcel.part == Part::Permission {
            return agenda.arrives(later(now, u128::from(cost.latency)), parcel);
        }
        let interface = self.interface(host, parcel.nic);
        let start = now.max(interface.outgoing);
        interface.outgoing = later(start, cost.sending);
        agenda.head(later(start, u128::from(cost.latency)), parcel);
        agenda.left(later(start, cost.span), parcel);
    }

    fn head(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        let cost = (self.cost)(parcel);
        let host = self.hosts[parcel.to as usize];
        let interface = self.interface(host, parcel.nic);
        let start = now.max(interface.incoming);
        interface.incoming = later(start, cost.receiving);
        agenda.arrives(later(start, cost.span), parcel);
    }
}

/// The time in ps, rounded up, for a number of bytes at `pace_fs` femtoseconds per byte.
pub(super) fn per_byte(bytes: u64, pace_fs: u64) -> u128 {
    (u128::from(bytes) * u128::from(pace_fs)).div_ceil(1000)
}
