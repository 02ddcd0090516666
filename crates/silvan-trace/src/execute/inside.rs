//! Messages between ranks of one host, which do not use the network.

use super::interleaved::Interfaces;
use super::loggp::{Copies, Cost, per_byte};
use super::ranks::{Agenda, Carrier, Parcel, Part};
use crate::trace::SWITCH_NIC;

/// The bytes of a message that a rank sends before it is the next message's turn.
const TURN: u64 = 4_096;

/// A link of a rank to a switch inside its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerLink {
    /// The time per byte in each direction, in femtoseconds.
    pub gap_per_byte_fs: u64,
    /// The time from sending the first byte of a message to receiving it, in ps.
    pub latency: u64,
}

impl InnerLink {
    /// The cost of a message. The switch itself ([`SWITCH_NIC`]) is half of the way, and its rate does not limit messages; its
    /// number exceeds those of the other ranks.
    fn cost(&self, parcel: &Parcel) -> Cost {
        let time = |bytes| per_byte(bytes, self.gap_per_byte_fs);
        let at_switch = parcel.nic == SWITCH_NIC;
        let latency = if at_switch { self.latency / 2 } else { self.latency };
        if parcel.part == Part::Permission {
            return Cost { latency, span: 0, sending: 0, receiving: 0, packets: 1, packet: 0 };
        }
        if at_switch && parcel.from > parcel.to {
            let span = time(parcel.bytes);
            return Cost { latency, span, sending: 0, receiving: span, packets: 1, packet: 0 };
        }
        let (span, packets) = (time(parcel.bytes), parcel.bytes.div_ceil(TURN).max(1));
        let packet = if packets > 1 { time(TURN).min(span / u128::from(packets - 1)) } else { span };
        let receiving = if at_switch { 0 } else { span };
        Cost { latency, span, sending: span, receiving, packets, packet }
    }
}

/// How messages between ranks of one host are transported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// Each message is copied, independently of others.
    Copies(Copies),
    /// Each rank has a link to a switch that is never a bottleneck. A rank sends to several ranks in turn.
    Links(InnerLink),
}

/// Transports messages between ranks of one host, and passes others to another carrier.
pub struct Machines<'a, C> {
    /// The host of each rank.
    pub machine_of: &'a [u32],
    /// Transport within a host.
    pub inside: Inside,
    /// State of the links within hosts, which has an interface for each rank.
    pub links: &'a mut Interfaces,
    /// Transport between hosts.
    pub outside: C,
}

impl<C> Machines<'_, C> {
    /// The link that transports a parcel, if a link within a host does.
    fn link(&self, parcel: &Parcel) -> Option<InnerLink> {
        match self.inside {
            Inside::Links(link) if self.is_inside(parcel) => Some(link),
            _ => None,
        }
    }

    fn is_inside(&self, parcel: &Parcel) -> bool {
        self.machine_of[parcel.from as usize] == self.machine_of[parcel.to as usize]
    }
}

impl<C: Carrier> Carrier for Machines<'_, C> {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        if !self.is_inside(parcel) {
            return self.outside.carry(now, parcel, agenda);
        }
        match self.inside {
            Inside::Links(link) if parcel.from != parcel.to => {
                self.links.carry(now, (parcel.from, link.cost(parcel)), parcel, agenda);
            }
            Inside::Links(_) => Copies::default().carry(now, parcel, agenda),
            Inside::Copies(copies) => copies.carry(now, parcel, agenda),
        }
    }

    fn sent(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        match self.link(parcel) {
            Some(_) => self.links.sent(now, parcel.from, parcel, agenda),
            None => self.outside.sent(now, parcel, agenda),
        }
    }

    fn head(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        match self.link(parcel) {
            Some(link) => self.links.head(now, (parcel.to, link.cost(parcel)), parcel, agenda),
            None => self.outside.head(now, parcel, agenda),
        }
    }
}
