//! Messages from the outputs of other partitions.

use silvan_engine::Time;

use super::{Bank, Outputs, with_bank};
use crate::context::Context;
use crate::message::{Mailbox, Word};

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    fn collect(&mut self, mailbox: &mut Mailbox, ctx: &mut Context) {
        for (when, mut arrival, (packet, marks, telemetry)) in mailbox.heads.drain(..) {
            arrival.packet = ctx.packets.insert(packet);
            ctx.packets.set_marks(arrival.packet, marks);
            ctx.packets.set_telemetry(arrival.packet, telemetry);
            self.arrivals.push(when.0 >> self.shift, arrival);
        }
        mailbox.credits.drain(..).for_each(|credit| self.free(credit));
        for (time, mut message, report) in mailbox.output_messages.drain(..) {
            if let Some(report) = report {
                message.packet = ctx.notices.add(Word::Report(report));
            }
            self.message_arrives(message, time);
        }
    }
}

impl Outputs {
    /// Receives the messages sent by the outputs of another partition.
    pub fn collect(&mut self, mailbox: &mut Mailbox, ctx: &mut Context) {
        with_bank!(self, bank => bank.collect(mailbox, ctx));
    }

    /// The number of bins between two exchanges of messages, given a lookahead.
    pub fn bins_in(&self, lookahead: Time) -> u64 {
        with_bank!(self, bank => (lookahead.0 >> bank.shift).max(1))
    }
}
