//! A partition: some hosts and switches with all that happens there, instant after instant.
//!
//! Within an instant arrivals come first, then decisions. Handling one node at an instant never makes another one
//! act at the same instant: nodes act on each other only through links, which take time. With a binned scheduler
//! time goes on in bins: hosts come first, in the order of their events, then outputs, as no output acts on another one
//! within a bin.

mod state;
mod view;

use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::{Event, Time};

use crate::context::{Context, Entering};
use crate::host::Host;
use crate::jobs::Jobs;
use crate::link::{Class, key, unkey};
use crate::message::Mailbox;
use crate::outputs::{Around, BinnedSwitch, Outputs};
use crate::port::Port;
use crate::switch::Switch;
use crate::traffic::trigger::{Triggers, Waiting};
pub(crate) use view::{Places, View};

/// The tick of what never happens.
pub(crate) const NEVER: u64 = u64::MAX;

/// See the module. Time is counted in ticks: bins with a binned scheduler, else picoseconds.
pub(crate) struct Partition {
    pub ctx: Context,
    /// By their places.
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    /// With a binned scheduler: the outputs of the switches, and the switches themselves instead of those above.
    pub outputs: Option<Outputs>,
    pub binned: Vec<BinnedSwitch>,
    /// The ranks of jobs that are on these hosts.
    pub jobs: Option<Jobs>,
    /// Traffic of these hosts that waits for deliveries.
    pub triggers: Triggers,
    /// Whether the network is too large for the cache that is close to a core.
    prefetches: bool,
    /// When the next sample is taken.
    next_sample: Time,
    /// The time of an unfinished sample: all arrivals of that time are done, and no decision is.
    unfinished_sample: Option<Time>,
    /// What does not hold, and since when.
    #[cfg(debug_assertions)]
    broken: Option<(Time, String)>,
}

impl Partition {
    /// `is_large` says that the network is too large for the cache that is close to a core.
    pub fn new(
        ctx: Context,
        (hosts, switches): (Vec<Host>, Vec<Switch>),
        (outputs, binned): (Option<Outputs>, Vec<BinnedSwitch>),
        jobs: Option<Jobs>,
        triggers: Triggers,
        is_large: bool,
    ) -> Self {
        Self {
            ctx,
            hosts,
            switches,
            prefetches: is_large && outputs.is_none(),
            outputs,
            binned,
            jobs,
            triggers,
            next_sample: Time::ZERO,
            unfinished_sample: None,
            #[cfg(debug_assertions)]
            broken: None,
        }
    }

    /// Plans the first events: the end of the warm-up, and what hosts and ranks begin with.
    pub fn start(&mut self, warmup: Time) {
        let Self { ctx, hosts, jobs, .. } = self;
        if let Some(jobs) = jobs {
            jobs.start(ctx);
        }
        ctx.queue.push(Event { time: warmup, key: key(Class::Warmup, 0, Port::FIRST), data: 0 });
        hosts.iter_mut().for_each(|host| host.start(ctx));
    }

    /// The next sample is taken at a time, unless the warm-up ends before.
    pub fn expect_sample(&mut self, time: Time) {
        self.next_sample = time;
        let meters = &mut self.ctx.meters;
        let first = if meters.warm { time } else { time.min(meters.warmup) };
        if let Some(outputs) = &mut self.outputs {
            outputs.expect_sample(first);
        }
        meters.expect_sample(first);
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

    /// Takes in what another partition sent.
    pub fn collect(&mut self, mailbox: &mut Mailbox) {
        if mailbox.is_empty() {
            return;
        }
        let Self { ctx, hosts, outputs, jobs, .. } = self;
        ctx.collect(mailbox);
        if let Some(outputs) = outputs {
            outputs.collect(mailbox, &mut ctx.packets);
        }
        if let Some(jobs) = jobs {
            jobs.collect(mailbox, hosts);
        }
        mailbox.emptied();
    }

    /// Begins with a tick in which messages of other partitions may take effect: all that comes before is done.
    pub fn begin_exchange(&mut self, tick: u64) {
        if let Some(outputs) = &mut self.outputs {
            outputs.begin(tick);
        }
    }

    /// Has outputs do what is to be done in the current bin; see [`Outputs::run`]. Returns how much that was.
    #[inline]
    fn run_outputs(&mut self, arrive_before: Time, decide_before: Time) -> u64 {
        let Self { outputs: Some(outputs), ctx, .. } = self else { return 0 };
        let Context { packets, queue, links, meters, notices, outbox, entering, .. } = ctx;
        for Entering { channel, packet, when } in entering.drain(..) {
            outputs.enter(channel, packet, packets, when);
        }
        let around = &mut Around { packets, queue, links, meters, notices, outbox, hosts_at: decide_before };
        outputs.run(around, arrive_before, decide_before);
        let (hops, events) = outputs.take_counts();
        links.packet_hops += hops;
        events
    }

    /// The tick of a time.
    pub fn tick_of(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bin_of(time))
    }

    /// The ticks that are over in a time, at least one.
    pub fn ticks_in(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bins_in(time)).max(1)
    }

    /// The first tick in which something is to be done.
    pub fn next_tick(&mut self) -> u64 {
        let of_events = self.unfinished_sample.or_else(|| self.next_time()).map(|time| self.tick_of(time));
        let of_outputs = self.outputs.as_ref().and_then(|outputs| outputs.next_bin());
        // Such a delivery has no event of its own, but traffic may begin with it.
        let of_deliveries = self.ctx.ahead.as_ref().and_then(|ahead| ahead.next()).map(|time| time.0);
        [of_events, of_outputs, of_deliveries].into_iter().flatten().min().unwrap_or(NEVER)
    }

    /// The time of the next event.
    #[inline(always)]
    fn next_time(&mut self) -> Option<Time> {
        if self.prefetches && self.ctx.queue.is_turn_over() {
            self.turn_and_prefetch();
        }
        self.ctx.queue.next_time()
    }

    /// Turns the wheel and looks at what is to come.
    #[inline(never)]
    fn turn_and_prefetch(&mut self) {
        if self.ctx.queue.turn_wheel() {
            self.prefetch();
        }
    }

    /// All deliveries before a tick are past.
    pub fn pass(&mut self, end: u64) {
        if let Some(ahead) = &mut self.ctx.ahead {
            ahead.pass(Time(end));
        }
    }

    /// Does what is to be done in the ticks before one, or less if `most` has been done. Returns how much that
    /// was. No sample is taken before that tick.
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

    /// Does what comes before the sample at `cut`, in the tick of that time. Returns how much that was.
    pub fn run_to_sample(&mut self, cut: Time) -> u64 {
        if self.outputs.is_some() {
            return self.bin(self.tick_of(cut), cut);
        }
        let done = self.arrive_at(cut);
        self.step_jobs();
        done
    }

    /// All that arrives at the time of a sample.
    fn arrive_at(&mut self, cut: Time) -> u64 {
        let mut done = 0;
        self.ctx.now = cut;
        self.unfinished_sample = Some(cut);
        while self.ctx.queue.next_time() == Some(cut)
            && let Some(event) = self.ctx.queue.pop_before(cut, key(Class::Sample, 0, Port::FIRST))
        {
            done += self.handle(event);
        }
        done
    }

    /// Does what is to be done in a bin, or what comes before the sample at `cut` if that is in it: what arrives by
    /// then, and what is decided before. Returns how much that was.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.outputs else { return 0 };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        let mut events = self.instants(end.min(cut), u64::MAX);
        if cut >= end {
            return events + self.run_outputs(end, end);
        }
        events += self.arrive_at(cut);
        self.step_jobs();
        events + self.run_outputs(cut + Time(1), cut)
    }

    /// All that happens before a time, or less if `most` has been done: first what is left of the instant of an
    /// unfinished sample. Returns how much that was.
    fn instants(&mut self, end: Time, most: u64) -> u64 {
        let mut unfinished = self.unfinished_sample.take_if(|time| *time < end);
        let mut done = 0;
        while done < most
            && let Some(time) = unfinished.take().or_else(|| self.next_time())
            && time < end
        {
            done += self.instant(time);
        }
        done
    }

    /// All that happens at one instant.
    #[inline(always)]
    fn instant(&mut self, time: Time) -> u64 {
        debug_assert!(time >= self.ctx.now, "time does not go back");
        self.ctx.now = time;
        let mut events = 0;
        while let Some(event) = self.ctx.queue.pop_at(time) {
            events += self.handle(event);
        }
        self.step_jobs();
        if !self.ctx.dirty_outputs.is_empty() {
            self.settle_outputs();
        }
        if !self.ctx.reports.is_empty() {
            self.send_reports();
        }
        for at in 0..self.ctx.dirty_hosts.len() {
            let host = self.ctx.dirty_hosts[at];
            self.hosts[host as usize].settle(&mut self.ctx);
        }
        self.ctx.dirty_hosts.clear();
        if let Some(jobs) = &mut self.jobs {
            jobs.note(&mut self.ctx);
        }
        events
    }

    /// In the order of the events that asked for it: what follows from them is then nearly in order, too, and
    /// quickly sorted by the queue.
    fn settle_outputs(&mut self) {
        // What an output sends may bring a packet for another one of the switch to a queue's head.
        let mut at = 0;
        while let Some(&(switch, output)) = self.ctx.dirty_outputs.get(at) {
            self.switches[switch as usize].settle(&mut self.ctx, output);
            at += 1;
        }
        self.ctx.dirty_outputs.clear();
    }

    #[cold]
    fn send_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.ctx.reports);
        reports.sort_by_key(|(cause, _)| *cause);
        for ((switch, ..), report) in reports {
            self.switches[switch as usize].send_report(&mut self.ctx, report);
        }
    }

    /// What ranks do, after all that arrives.
    #[inline(always)]
    fn step_jobs(&mut self) {
        if let Some(jobs) = &mut self.jobs {
            jobs.step(&mut self.ctx, &mut self.hosts);
        }
    }

    /// Returns how much was done. The end of the warm-up, which all partitions have, does not count, nor do
    /// wake-ups, deliveries that are waited for and what ranks do: how many such events there are depends on how the
    /// run is done.
    #[inline(always)]
    fn handle(&mut self, event: Event) -> u64 {
        let (class, node, port) = unkey(event.key);
        let node = node as usize;
        let Self { ctx, hosts, switches, .. } = self;
        match class {
            Class::SwitchArrival => switches[node].accept(ctx, port, event.data),
            Class::SwitchReady => switches[node].enqueue(ctx, port, event.data),
            Class::HostArrival => {
                hosts[node].receive(ctx, event.data);
                self.look_at_triggers();
            }
            Class::HostDrained => {
                hosts[node].count_drained(ctx);
                self.look_at_triggers();
                return 0;
            }
            Class::Trigger => {
                self.begin(event.data as usize);
                return 0;
            }
            Class::SwitchNotice => switches[node].notice(ctx, port, event.data),
            Class::HostNotice => hosts[node].notice(ctx, event.data),
            Class::HostTimer => hosts[node].expire_timers(ctx),
            // Whatever arrives at an instant has arrived before wake-ups are handled.
            Class::SwitchWake => {
                if ctx.take_wakes(event) {
                    switches[node].wake(ctx, port);
                }
                return 0;
            }
            Class::HostWake => {
                if ctx.take_wakes(event) {
                    hosts[node].woken(ctx);
                }
                return 0;
            }
            Class::Warmup => {
                hosts.iter_mut().for_each(|host| host.count_drained(ctx));
                ctx.meters.end_warmup();
                self.expect_sample(self.next_sample);
                return 0;
            }
            // See `step_jobs`.
            Class::Job => return 0,
            Class::Sample => debug_assert!(false, "there are no such events"),
        }
        self.check_event(class, node, port);
        1
    }

    /// Where this is the only partition.
    #[inline]
    fn look_at_triggers(&mut self) {
        let meters = &self.ctx.meters;
        if meters.is_awaited && meters.packets_delivered >= self.triggers.next {
            self.pull_triggers();
        }
    }

    /// Starts the traffic that waited for the packet just delivered, at this very instant.
    #[cold]
    fn pull_triggers(&mut self) {
        let Self { ctx, hosts, triggers, .. } = self;
        while let Some(waiting) = triggers.pull(ctx.meters.packets_delivered, ctx.now) {
            for &Waiting { host, source, phase } in waiting {
                let at = ctx.now + phase;
                hosts[host as usize].begin(ctx, source, at);
            }
        }
        ctx.meters.is_awaited = triggers.next < u64::MAX;
    }

    /// Starts the traffic of a trigger that was planned.
    #[cold]
    fn begin(&mut self, trigger: usize) {
        let Self { ctx, hosts, triggers, .. } = self;
        for &Waiting { host, source, phase } in triggers.waiting(trigger) {
            let at = ctx.now + phase;
            hosts[host as usize].begin(ctx, source, at);
        }
    }

    /// Looks at the events to come and has what they will touch brought into the cache: first
    /// the packets and links that the staged events name, then, once these are there, what the
    /// current events will find through them. Changes nothing.
    #[inline]
    fn prefetch(&self) {
        let ctx = &self.ctx;
        for event in ctx.queue.staged() {
            // Arrivals name a packet, wake-ups a channel or a lane.
            let (class, node, _) = unkey(event.key);
            if event.key < key(Class::SwitchNotice, 0, Port::FIRST) {
                ctx.packets.prefetch(event.data);
            } else if class.is_wake() {
                ctx.links.prefetch_wake(event.data);
            }
            match class {
                Class::SwitchArrival | Class::SwitchWake => self.switches[node as usize].prefetch(),
                Class::HostArrival => prefetch(std::slice::from_ref(&self.hosts[node as usize]), 0),
                Class::HostWake => {
                    prefetch_lines::<_, 5>(std::slice::from_ref(&self.hosts[node as usize]), 0);
                }
                _ => {}
            }
        }
        // Apart, as one of them does not wait for another.
        for event in ctx.queue.current() {
            let (class, node, _) = unkey(event.key);
            if class == Class::SwitchArrival {
                self.switches[node as usize].prefetch_route(ctx, event.data);
            }
        }
        for event in ctx.queue.current() {
            let (class, node, port) = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].prefetch_arrival(ctx, port, event.data),
                Class::SwitchWake => self.switches[node].prefetch_wake(ctx, port),
                Class::HostArrival => self.hosts[node].prefetch_arrival(ctx),
                Class::HostWake => self.hosts[node].prefetch_wake(ctx),
                _ => {}
            }
        }
    }

    #[cfg(debug_assertions)]
    fn check_event(&mut self, class: Class, node: usize, port: Port) {
        let arrives = matches!(class, Class::SwitchArrival | Class::SwitchReady);
        if !arrives || !self.ctx.is_local() || self.broken.is_some() {
            return;
        }
        let Some(wiring) = self.switches[node].ports().wiring[port.index()] else { return };
        if let Err(what) = self.check_channel(wiring.into, Some((node, port))) {
            self.broken = Some((self.ctx.now, what));
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    fn check_event(&self, _class: Class, _node: usize, _port: Port) {}

    /// What did not hold at some event, and when that was.
    #[cfg(debug_assertions)]
    pub fn take_broken(&mut self) -> Option<(Time, String)> {
        self.broken.take()
    }
}
