//! The event-ordered scheduler as [`Schedule`]: packets and links are stored in a [`Context`].

use std::marker::PhantomData;

use silvan_engine::{Rate, Time};
use silvan_network::port::{Port, Vl};

use crate::context::Context;
use crate::link::{ChannelId, CreditWay};
use crate::packet::Pool;
use crate::schedule::{Applied, Need, Schedule};

/// A record of an output that sends on a channel.
pub(super) trait OnChannel {
    /// The channel on which the output sends.
    fn channel(&self) -> ChannelId;
    /// Its port at the switch.
    fn port(&self) -> Port;
}

/// An output of a switch whose architecture has no other record of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchOutput {
    pub channel: ChannelId,
    pub port: Port,
}

impl OnChannel for SwitchOutput {
    #[inline(always)]
    fn channel(&self) -> ChannelId {
        self.channel
    }

    #[inline(always)]
    fn port(&self) -> Port {
        self.port
    }
}

/// The packets and links of a context, for a switch. `O` is the type of its records of outputs.
pub(super) struct EventLinks<'a, O> {
    ctx: &'a mut Context,
    /// The place of the switch in its partition, which identifies it in events.
    place: u32,
    records: PhantomData<O>,
}

impl<'a, O> EventLinks<'a, O> {
    #[inline(always)]
    pub fn new(ctx: &'a mut Context, place: u32) -> Self {
        Self { ctx, place, records: PhantomData }
    }
}

impl<O: OnChannel> Schedule for EventLinks<'_, O> {
    type Output = O;

    #[inline(always)]
    fn packets(&mut self) -> &mut Pool {
        &mut self.ctx.packets
    }

    #[inline(always)]
    fn free_at(&self, output: &O) -> Time {
        self.ctx.free_at(output.channel())
    }

    fn rate(&self, output: &O) -> Rate {
        self.ctx.links.rate(output.channel())
    }

    fn sent(&self, output: &O) -> u64 {
        self.ctx.links.sent_by(output.channel(), self.ctx.now)
    }

    #[inline(always)]
    fn has_credit(&mut self, output: &mut O, Need { vl, dst, space, now, .. }: Need) -> bool {
        self.ctx.links.has_credit(CreditWay { channel: output.channel(), vl: Vl::new(vl), dst }, space, now)
    }

    fn has_some_credit(&mut self, output: &mut O, Need { vl, space, now, .. }: Need) -> bool {
        self.ctx.links.has_some_credit(output.channel(), Vl::new(vl), space, now)
    }

    fn wait_for_credit(&mut self, output: &mut O, Need { vl, dst, space, .. }: Need) -> Time {
        let way = CreditWay { channel: output.channel(), vl: Vl::new(vl), dst };
        self.ctx.links.wait_for_credit(way, space, &mut self.ctx.queue);
        // An event wakes the output.
        Time::NEVER
    }

    fn note_applied(&mut self, output: &O, applied: Applied) {
        self.ctx.note_applied((self.place, true, output.port()), applied);
    }

    #[cold]
    fn report_broken(&mut self, output: &O, what: &str) {
        self.ctx.report_broken(format!("channel {}: {what}", output.channel()));
    }
}
