//! What outputs of one partition send to those of another.

use silvan_engine::Time;

use super::{Arrival, Bank, Outputs, with_bank};
use crate::packet::{Packet, Pool};

/// Credit on its way to an output.
#[derive(Debug, Clone, Copy)]
struct Credit {
    output: u32,
    space: u32,
    back: Time,
    vl: u8,
}

/// Packets and credits for another partition, from one exchange to the next.
#[derive(Debug)]
pub(crate) struct Mail {
    arrivals: Vec<(Time, Arrival, Packet)>,
    credits: Vec<Credit>,
    /// The earliest time at which any of it matters.
    pub earliest: Time,
}

impl Default for Mail {
    fn default() -> Self {
        Self { arrivals: Vec::new(), credits: Vec::new(), earliest: Time::NEVER }
    }
}

impl Mail {
    /// A packet's head is ready for arbitration at an output at a time.
    pub(super) fn send(&mut self, when: Time, arrival: Arrival, packet: Packet) {
        self.arrivals.push((when, arrival, packet));
        self.earliest = self.earliest.min(when);
    }

    /// Credit is back at an output at a time.
    pub(super) fn credit(&mut self, output: u32, vl: u8, back: Time, space: u32) {
        self.credits.push(Credit { output, space, back, vl });
        self.earliest = self.earliest.min(back);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.earliest == Time::NEVER
    }
}

impl<const LANES: usize, const MARKS: bool> Bank<LANES, MARKS> {
    fn collect(&mut self, mail: &mut Mail, packets: &mut Pool) {
        for (when, mut arrival, packet) in mail.arrivals.drain(..) {
            arrival.packet = packets.insert(packet);
            self.arrivals.push(when.0 >> self.shift, arrival);
        }
        for Credit { output, space, back, vl } in mail.credits.drain(..) {
            self.credit(output as usize, usize::from(vl), back, space);
        }
        mail.earliest = Time::NEVER;
    }
}

impl Outputs {
    /// What is to be sent to another partition.
    pub fn mail_mut(&mut self, part: usize) -> &mut Mail {
        with_bank!(self, bank => &mut bank.mail[part])
    }

    /// Packets that other partitions have not taken in yet.
    pub fn sent_elsewhere(&self) -> impl Iterator<Item = &Packet> {
        let mail = with_bank!(self, bank => &bank.mail);
        mail.iter().flat_map(|mail| mail.arrivals.iter().map(|(_, _, packet)| packet))
    }

    /// Takes in what another partition sent.
    pub fn collect(&mut self, mail: &mut Mail, packets: &mut Pool) {
        with_bank!(self, bank => bank.collect(mail, packets));
    }

    /// How many bins may pass between two exchanges of mail, where there is a lookahead.
    pub fn bins_in(&self, lookahead: Time) -> u64 {
        with_bank!(self, bank => (lookahead.0 >> bank.shift).max(1))
    }
}
