//! A partition, which consists of some hosts and switches, and processes their events.
//!
//! At each instant, arrivals are handled before decisions. An action of one node never causes another node to act at
//! the same instant, because nodes affect each other only through links, which take time. With the binned scheduler,
//! time advances in bins: the hosts handle their events in order, and then the outputs run, which cannot affect each
//! other within a bin.

mod events;
mod state;
#[cfg(test)]
mod tests;
mod view;

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use crate::context::{Context, Turns};
use crate::host::{Host, take_turns};
use crate::jobs::{ExternalMessage, Jobs};
use crate::link::{Class, Stage, key};
use crate::message::Mailbox;
use crate::outputs::{Around, BinnedSwitch, Outputs};
use crate::switch::{Switches, with_switches};
use crate::trigger::Triggers;
use events::Handler;
pub(crate) use view::{OnLinks, Places, View};

/// The tick of an event that never happens.
pub(crate) const NEVER: u64 = u64::MAX;

/// The partitions that exchange messages.
pub(crate) struct Neighbors {
    /// For each partition, those with which it exchanges messages, in ascending order.
    pub of: Vec<Vec<u16>>,
    /// Whether all partitions meet after each step, because events in one partition take effect in all others without
    /// crossing links: traffic waits for deliveries, or there are jobs.
    pub all_meet: bool,
}

impl Neighbors {
    /// `channels` contains the partitions of the sender and of the receiver of each channel. A receiver returns credit,
    /// so messages go in both directions.
    pub fn new(count: usize, channels: impl Iterator<Item = (u16, u16)>, all_meet: bool) -> Self {
        let mut are_near = vec![vec![all_meet; count]; count];
        for (sender, receiver) in channels {
            are_near[usize::from(sender)][usize::from(receiver)] = true;
            are_near[usize::from(receiver)][usize::from(sender)] = true;
        }
        let others = |(me, row): (u16, &Vec<bool>)| {
            (0..).zip(row).filter(|&(other, near)| *near && other != me).map(|(other, _)| other).collect()
        };
        Self { of: (0..).zip(&are_near).map(others).collect(), all_meet }
    }
}

/// Evaluates an expression for the handler of the events of a partition, whose type depends on its switches.
macro_rules! with_handler {
    ($partition:expr, $name:ident => $then:expr) => {{
        let Partition { ctx, hosts, switches, jobs, triggers, outputs, binned, handling, .. } = $partition;
        with_switches!(switches, switches => {
            let mut $name =
                Handler { ctx, hosts, switches: &mut switches[..], jobs, triggers, outputs, binned, handling };
            $then
        })
    }};
}

/// One partition. Time is counted in ticks. A tick is a bin with the binned scheduler, and a picosecond otherwise.
#[derive(Saved)]
#[saved(then = Self::use_tables)]
pub(crate) struct Partition {
    pub ctx: Context,
    /// Indexed by place.
    pub hosts: Vec<Host>,
    pub switches: Switches,
    /// With the binned scheduler: the outputs of the switches, and the switches themselves. There are then no `switches`.
    pub outputs: Option<Outputs>,
    pub binned: Vec<BinnedSwitch>,
    /// The ranks of jobs on these hosts, and the program outside the model.
    pub jobs: Option<Jobs>,
    /// Traffic of the partition's hosts that starts after a number of deliveries.
    pub triggers: Triggers,
    /// Whether the network does not fit into the fast caches of a core.
    is_large: bool,
    handling: Handling,
}

/// Data on which the handling of events depends, in addition to the nodes.
#[derive(Debug, Saved)]
struct Handling {
    /// Whether to prefetch for events.
    prefetches: bool,
    /// Whether to prefetch the flows of answers and of messages to random hosts.
    prefetches_flows: bool,
    /// See [`Host::shares_windows`].
    settles_in_order: bool,
    #[saved(latest)]
    next_sample: Time,
    /// The time of an instant that an application, a sample or a change of links interrupted: arrivals have been handled, but
    /// no decisions.
    unfinished: Option<Time>,
}

impl Handling {
    /// See [`Partition::expect_sample`].
    fn expect_sample(&mut self, ctx: &mut Context, outputs: &mut Option<Outputs>, time: Time) {
        self.next_sample = time;
        let meters = &mut ctx.meters;
        let first = if meters.warm { time } else { time.min(meters.warmup) };
        if let Some(outputs) = outputs {
            outputs.expect_sample(first);
        }
        meters.expect_sample(first);
    }
}

impl Partition {
    /// Has the switches use the tables that follow from the changes of links so far.
    fn use_tables(&mut self) {
        if let Some(number) = self.ctx.links.tables_in_use() {
            with_handler!(self, handler => handler.use_tables(number));
        }
    }

    /// For `is_large`, see the field.
    pub fn new(
        ctx: Context,
        (hosts, switches): (Vec<Host>, Switches),
        (outputs, binned): (Option<Outputs>, Vec<BinnedSwitch>),
        jobs: Option<Jobs>,
        triggers: Triggers,
        is_large: bool,
    ) -> Self {
        // The binned scheduler prefetches for its outputs. Prefetching for its hosts saves time if they search for flows often:
        // if answers arrive for many flows, or if most hosts send to random hosts, so that the flow of the next message is known
        // in advance. With the event-ordered scheduler, prefetching the flows of messages took more time than it saved.
        let drawing = hosts.iter().filter(|host| host.draws_flows()).count();
        let prefetches_flows =
            hosts.iter().any(Host::awaits_answers) || outputs.is_some() && 2 * drawing > hosts.len();
        let prefetches = is_large && (outputs.is_none() || prefetches_flows);
        let handling = Handling {
            prefetches,
            prefetches_flows,
            settles_in_order: hosts.iter().any(Host::shares_windows),
            next_sample: Time::ZERO,
            unfinished: None,
        };
        Self { ctx, hosts, switches, is_large, outputs, binned, jobs, triggers, handling }
    }

    /// Schedules the first events: the end of the warm-up, the first change of a link, and the first actions of hosts and ranks.
    pub fn start(&mut self, warmup: Time) {
        let Self { ctx, hosts, jobs, outputs, .. } = self;
        // A host cannot take turns while its link is down.
        if let Some(outputs) = outputs
            && hosts.iter().any(Host::is_solo)
            && !ctx.links.has_changes()
            && !ctx.is_recorded()
        {
            ctx.turns = Some(Box::new(Turns::new(outputs.bins_of_decisions(), self.is_large)));
        }
        if let Some(jobs) = jobs {
            jobs.start(ctx);
        }
        ctx.queue.push(Event { time: warmup, key: key(Class::Warmup, 0, Port::FIRST), data: 0 });
        if let Some(change) = ctx.links.next_change() {
            ctx.queue.push(change);
        }
        hosts.iter_mut().for_each(|host| host.start(ctx));
    }

    /// Sets the time of the next sample. Outputs and meters expect the end of the warm-up if it is earlier.
    pub fn expect_sample(&mut self, time: Time) {
        let Self { ctx, outputs, handling, .. } = self;
        handling.expect_sample(ctx, outputs, time);
    }

    /// Brings the counters up to the time of a sample.
    pub fn prepare_sample(&mut self, now: Time) {
        let Self { ctx, hosts, outputs, .. } = self;
        ctx.now = now;
        hosts.iter_mut().for_each(|host| host.count_drained(ctx));
        if let Some(outputs) = outputs {
            outputs.sample(now);
        }
    }

    /// Receives the messages sent by another partition.
    pub fn collect(&mut self, mailbox: &mut Mailbox) {
        if mailbox.is_empty() {
            return;
        }
        let Self { ctx, hosts, outputs, jobs, .. } = self;
        // With outputs, all credit is for them.
        if let Some(outputs) = outputs {
            outputs.collect(mailbox, ctx);
        }
        ctx.collect(mailbox);
        if let Some(jobs) = jobs {
            jobs.collect(mailbox, hosts);
        }
        mailbox.emptied();
    }

    /// Starts a tick in which messages of other partitions may take effect. All earlier events must have been handled.
    pub fn begin_exchange(&mut self, tick: u64) {
        if let Some(outputs) = &mut self.outputs {
            outputs.begin(tick);
        }
    }

    /// Runs the outputs in the current bin; see [`Outputs::run`]. Returns the amount of work.
    #[inline]
    fn run_outputs(&mut self, arrive_before: Time, decide_before: Time) -> u64 {
        let Self { outputs: Some(outputs), ctx, binned, .. } = self else { return self.has_no_bins() };
        outputs.enter(ctx);
        let around = &mut Around { ctx: &mut *ctx, switches: binned, hosts_at: decide_before };
        outputs.run(around, arrive_before, decide_before);
        let (hops, events) = outputs.take_counts();
        ctx.links.packet_hops += hops;
        events
    }

    /// Reports that a partition of the event-ordered scheduler was to handle a bin. This is no work.
    #[cold]
    fn has_no_bins(&mut self) -> u64 {
        self.ctx.report_broken("a partition without outputs was to handle a bin".into());
        0
    }

    /// The tick that contains a time.
    pub fn tick_of(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bin_of(time))
    }

    /// The number of whole ticks in a time, at least one.
    pub fn ticks_in(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bins_in(time)).max(1)
    }

    /// The first tick with work; `NEVER` if there is none.
    pub fn next_tick(&mut self) -> u64 {
        let of_event =
            self.handling.unfinished.or_else(|| self.next_time()).map_or(NEVER, |time| self.tick_of(time));
        let of_hosts = self.ctx.turns.as_ref().and_then(|turns| turns.bins.next()).unwrap_or(NEVER);
        let of_outputs = self.outputs.as_ref().and_then(|outputs| outputs.next_bin()).unwrap_or(NEVER);
        // A delivery that has no event, but after which traffic may start.
        let delivery = self.ctx.ahead.as_ref().and_then(|ahead| ahead.next());
        of_event.min(of_hosts).min(of_outputs).min(delivery.map_or(NEVER, |time| time.0))
    }

    /// A time before which nothing happens; `None` if nothing will happen.
    pub fn next_event(&mut self) -> Option<Time> {
        let has_decided = self.ctx.has_decided();
        if self.outputs.is_some() {
            let tick = if self.is_idle() { NEVER } else { self.next_tick() };
            let start = self.outputs.as_ref().map(|outputs| outputs.start_of_bin(tick));
            return start.filter(|_| tick < NEVER);
        }
        let unfinished = self.handling.unfinished.filter(|_| !has_decided);
        unfinished.or_else(|| self.next_time())
    }

    /// Sends a message of the program outside the model now, before the decisions of this instant. Returns its number; `None` if
    /// there is no such program.
    pub fn send(&mut self, message: ExternalMessage) -> Option<u64> {
        let Self { ctx, hosts, jobs, handling, .. } = self;
        let external = jobs.as_mut().and_then(Jobs::external)?;
        handling.unfinished = Some(ctx.now);
        Some(external.send(ctx, &mut hosts[message.from as usize], message))
    }

    /// See [`Handler::next_time`].
    fn next_time(&mut self) -> Option<Time> {
        with_handler!(self, handler => handler.next_time())
    }

    /// Handles all events before a time; see [`Handler::instants`].
    fn instants(&mut self, end: Time, most: u64) -> u64 {
        with_handler!(self, handler => handler.instants(end, most))
    }

    /// See [`Handler::arrive_at`].
    fn arrive_at(&mut self, cut: Time) -> u64 {
        with_handler!(self, handler => handler.arrive_at(cut))
    }

    /// See [`Handler::events_below`].
    fn events_below(&mut self, time: Time, key: u32) -> u64 {
        with_handler!(self, handler => handler.events_below(time, key))
    }

    /// Handles everything that precedes a change of links in its bin, and then the change. Returns the amount of work.
    #[cold]
    fn bin_to_change(&mut self, time: Time) -> u64 {
        let change = Stage::Change.key();
        let mut events = self.instants(time, u64::MAX) + self.events_below(time, change);
        // Packets that arrive at the time of the change precede it, and decisions of outputs follow it.
        events += self.run_outputs(time + Time(1), time);
        events + self.events_below(time, change + 1)
    }

    /// Marks all deliveries before a tick as past.
    pub fn pass(&mut self, end: u64) {
        if let Some(ahead) = &mut self.ctx.ahead {
            ahead.pass(Time(end));
        }
    }

    /// Handles the ticks before `end`, but stops early if the amount of work reaches `most`. Returns the amount of
    /// work. There must be no sample before `end`.
    pub fn run(&mut self, end: u64, most: u64) -> u64 {
        if self.outputs.is_none() {
            return self.instants(Time(end), most);
        }
        let mut done = 0;
        let mut bin = self.next_tick();
        while bin < end && done < most {
            done += self.bin(bin, Time::NEVER);
            bin = self.next_tick();
        }
        done
    }

    /// Handles everything that precedes the sample at `cut` in the tick of that time. Returns the amount of work.
    pub fn run_to_sample(&mut self, cut: Time) -> u64 {
        if self.outputs.is_some() {
            return self.bin(self.tick_of(cut), cut);
        }
        self.arrive_at(cut)
    }

    /// Handles a bin. If the sample at `cut` is in the bin, handles only what precedes the sample: arrivals up to that
    /// time, and decisions before it. Returns the amount of work.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.outputs else { return self.has_no_bins() };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        if let Some(turns) = &mut self.ctx.turns {
            turns.bins.turn_to(bin);
        }
        let mut events = 0;
        while let Some(Event { time, .. }) = self.ctx.links.next_change().filter(|next| next.time < end)
            && time <= cut
        {
            events += self.bin_to_change(time);
        }
        events += self.instants(end.min(cut), u64::MAX);
        take_turns(&mut self.ctx, &mut self.hosts, end.min(cut));
        if cut >= end {
            return events + self.run_outputs(end, end);
        }
        events += self.arrive_at(cut);
        events + self.run_outputs(cut + Time(1), cut)
    }
}
