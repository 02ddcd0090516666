//! A partition, which consists of some hosts and switches, and processes their events.
//!
//! At each instant, arrivals are handled before decisions. An action of one node never causes another node to act at
//! the same instant, because nodes affect each other only through links, which take time. With the binned scheduler,
//! time advances in bins: the hosts handle their events in order, and then the outputs run, which cannot affect each
//! other within a bin.

mod state;
mod view;

use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::{Event, Time};

use crate::context::{Context, Turns};
use crate::host::{Host, take_turns};
use crate::jobs::Jobs;
use crate::link::{ChannelId, Class, key, unkey};
use crate::message::Mailbox;
use crate::outputs::{Around, BinnedSwitch, Outputs};
use crate::port::Port;
use crate::switch::Switch;
use crate::traffic::trigger::{Triggers, Waiting};
pub(crate) use view::{Places, View};

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

/// One partition. Time is counted in ticks. A tick is a bin with the binned scheduler, and a picosecond otherwise.
pub(crate) struct Partition {
    pub ctx: Context,
    /// Indexed by place.
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    /// With the binned scheduler: the outputs of the switches, and the switches themselves. `switches` is then empty.
    pub outputs: Option<Outputs>,
    pub binned: Vec<BinnedSwitch>,
    /// The ranks of jobs on these hosts.
    pub jobs: Option<Jobs>,
    /// Traffic of these hosts that starts after a number of deliveries.
    pub triggers: Triggers,
    /// Whether the network does not fit into the fast caches of a core.
    is_large: bool,
    /// Whether to prefetch for events.
    prefetches: bool,
    /// Whether answers to all packets arrive at hosts.
    has_answers: bool,
    next_sample: Time,
    /// The time of an unfinished sample: all arrivals of that time have been handled, but no decisions.
    unfinished_sample: Option<Time>,
    /// A violated invariant, and the first time at which it was violated.
    #[cfg(debug_assertions)]
    broken: Option<(Time, String)>,
}

impl Partition {
    /// See [`Self::is_large`].
    pub fn new(
        ctx: Context,
        (hosts, switches): (Vec<Host>, Vec<Switch>),
        (outputs, binned): (Option<Outputs>, Vec<BinnedSwitch>),
        jobs: Option<Jobs>,
        triggers: Triggers,
        is_large: bool,
    ) -> Self {
        // Outputs in bins prefetch for themselves. Hosts in bins need it if answers concern many flows.
        let has_answers = hosts.iter().any(Host::awaits_answers);
        let prefetches = is_large && (outputs.is_none() || has_answers);
        Self {
            ctx,
            hosts,
            switches,
            is_large,
            prefetches,
            has_answers,
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

    /// Schedules the first events: the end of the warm-up, and the first actions of hosts and ranks.
    pub fn start(&mut self, warmup: Time) {
        let Self { ctx, hosts, jobs, outputs, .. } = self;
        if let Some(outputs) = outputs
            && hosts.iter().any(Host::is_solo)
        {
            ctx.turns = Some(Box::new(Turns::new(outputs.bins_of_decisions(), self.is_large)));
        }
        if let Some(jobs) = jobs {
            jobs.start(ctx);
        }
        ctx.queue.push(Event { time: warmup, key: key(Class::Warmup, 0, Port::FIRST), data: 0 });
        hosts.iter_mut().for_each(|host| host.start(ctx));
    }

    /// Sets the time of the next sample, unless the warm-up ends earlier.
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

    /// Receives the messages sent by another partition.
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

    /// Starts a tick in which messages of other partitions may take effect. All earlier events must have been handled.
    pub fn begin_exchange(&mut self, tick: u64) {
        if let Some(outputs) = &mut self.outputs {
            outputs.begin(tick);
        }
    }

    /// Runs the outputs in the current bin; see [`Outputs::run`]. Returns the amount of work.
    #[inline]
    fn run_outputs(&mut self, arrive_before: Time, decide_before: Time) -> u64 {
        let Self { outputs: Some(outputs), ctx, .. } = self else { return 0 };
        let Context { packets, queue, links, meters, notices, outbox, entering, .. } = ctx;
        outputs.enter(packets, entering);
        let around = &mut Around { packets, queue, links, meters, notices, outbox, hosts_at: decide_before };
        outputs.run(around, arrive_before, decide_before);
        let (hops, events) = outputs.take_counts();
        links.packet_hops += hops;
        events
    }

    /// The tick that contains a time.
    pub fn tick_of(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bin_of(time))
    }

    /// The number of whole ticks in a time, at least one.
    pub fn ticks_in(&self, time: Time) -> u64 {
        self.outputs.as_ref().map_or(time.0, |outputs| outputs.bins_in(time)).max(1)
    }

    /// The first tick with work.
    pub fn next_tick(&mut self) -> u64 {
        let of_event =
            self.unfinished_sample.or_else(|| self.next_time()).map_or(NEVER, |time| self.tick_of(time));
        let of_hosts = self.ctx.turns.as_ref().and_then(|turns| turns.bins.next()).unwrap_or(NEVER);
        let of_outputs = self.outputs.as_ref().and_then(|outputs| outputs.next_bin()).unwrap_or(NEVER);
        // A delivery that has no event, but after which traffic may start.
        let delivery = self.ctx.ahead.as_ref().and_then(|ahead| ahead.next());
        of_event.min(of_hosts).min(of_outputs).min(delivery.map_or(NEVER, |time| time.0))
    }

    /// The time of the next event.
    #[inline(always)]
    fn next_time(&mut self) -> Option<Time> {
        if self.prefetches && self.ctx.queue.is_turn_over() {
            self.turn_and_prefetch();
        }
        self.ctx.queue.next_time()
    }

    /// Advances the event wheel, and prefetches for the next events.
    #[inline(never)]
    fn turn_and_prefetch(&mut self) {
        if self.ctx.queue.turn_wheel() {
            self.prefetch();
        }
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
        let done = self.arrive_at(cut);
        self.step_jobs();
        done
    }

    /// Handles all arrivals at the time of a sample.
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

    /// Handles a bin. If the sample at `cut` is in the bin, handles only what precedes the sample: arrivals up to that
    /// time, and decisions before it. Returns the amount of work.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.outputs else { return 0 };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        if let Some(turns) = &mut self.ctx.turns {
            turns.bins.turn_to(bin);
        }
        let mut events = self.instants(end.min(cut), u64::MAX);
        take_turns(&mut self.ctx, &mut self.hosts, end.min(cut));
        if cut >= end {
            return events + self.run_outputs(end, end);
        }
        events += self.arrive_at(cut);
        self.step_jobs();
        events + self.run_outputs(cut + Time(1), cut)
    }

    /// Handles all events before a time, but stops early if the amount of work reaches `most`. Returns the amount of
    /// work. If a sample interrupted an instant, first handles the rest of that instant.
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

    /// Handles all events of one instant.
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

    /// Settles outputs in the order of the events that scheduled them, so that the resulting events are nearly in
    /// order, which makes the queue faster.
    fn settle_outputs(&mut self) {
        // Sending a packet may add outputs to the list, because a packet for another output may become the head of its
        // queue.
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

    /// Runs the ranks, after all arrivals.
    #[inline(always)]
    fn step_jobs(&mut self) {
        if let Some(jobs) = &mut self.jobs {
            jobs.step(&mut self.ctx, &mut self.hosts);
        }
    }

    /// Handles an event and returns the amount of work. Some events count as no work: the end of the warm-up, because
    /// all partitions have it; and wake-ups, awaited deliveries and actions of ranks, because their number depends on
    /// the scheduler and the number of partitions.
    #[inline(always)]
    fn handle(&mut self, event: Event) -> u64 {
        let (class, node, port) = unkey(event.key);
        let node = node as usize;
        let Self { ctx, hosts, switches, .. } = self;
        match class {
            Class::SwitchArrival => {
                if ctx.links.has_frames() {
                    ctx.store(switches[node].ports().feeder(port), event.data);
                }
                switches[node].accept(ctx, port, event.data);
            }
            Class::SwitchReady => switches[node].enqueue(ctx, port, event.data),
            Class::HostArrival => {
                hosts[node].receive(ctx, event.data);
                self.check_triggers();
            }
            Class::HostDrained => {
                hosts[node].count_drained(ctx);
                self.check_triggers();
                return 0;
            }
            Class::Trigger => {
                self.begin(event.data as usize);
                return 0;
            }
            Class::SwitchNotice => switches[node].notice(ctx, port, event.data),
            Class::HostNotice => hosts[node].notice(ctx, event.data),
            Class::Link => {
                if let Some(channel) = ctx.link_event(port, event.data) {
                    self.sent_frame(channel);
                }
            }
            Class::HostTimer => hosts[node].expire_timers(ctx),
            // All arrivals of an instant are handled before wake-ups.
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
                take_turns(ctx, hosts, event.time);
                hosts.iter_mut().for_each(|host| host.count_drained(ctx));
                ctx.meters.end_warmup();
                self.expect_sample(self.next_sample);
                return 0;
            }
            Class::Job => return 0,
            Class::Sample => debug_assert!(false, "there are no such events"),
        }
        self.check_event(class, node, port);
        1
    }

    /// Informs the node that sends on a channel that a pause frame or a repeated frame occupies the channel.
    #[cold]
    fn sent_frame(&mut self, channel: ChannelId) {
        let Self { ctx, switches, .. } = self;
        // A host checks whether its link is free when it attempts to send.
        if let Some((node, port)) = ctx.links.sending_switch(channel) {
            switches[node as usize].link_was_used(ctx, port);
        }
    }

    /// If this is the only partition, starts traffic that waits for deliveries.
    #[inline]
    fn check_triggers(&mut self) {
        let meters = &self.ctx.meters;
        if meters.is_awaited && meters.packets_delivered >= self.triggers.next {
            self.pull_triggers();
        }
    }

    /// Starts the traffic that waited for the packet just delivered, at this instant.
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

    /// Starts the traffic of a scheduled trigger.
    #[cold]
    fn begin(&mut self, trigger: usize) {
        let Self { ctx, hosts, triggers, .. } = self;
        for &Waiting { host, source, phase } in triggers.waiting(trigger) {
            let at = ctx.now + phase;
            hosts[host as usize].begin(ctx, source, at);
        }
    }

    /// Prefetches for the next events without changing any state. First come the packets and links that the staged
    /// events name. Once these are in the cache, the data that the current events will reach through them follow.
    #[inline]
    fn prefetch(&self) {
        let ctx = &self.ctx;
        for event in ctx.queue.staged() {
            // Arrivals contain a packet, and wake-ups contain a channel or a lane.
            let (class, node, _) = unkey(event.key);
            if event.key < key(Class::SwitchNotice, 0, Port::FIRST) {
                ctx.packets.prefetch(event.data);
            } else if class.is_wake() {
                ctx.links.prefetch_wake(event.data);
            }
            match class {
                Class::SwitchArrival | Class::SwitchWake => self.switches[node as usize].prefetch(),
                Class::HostArrival if self.has_answers => {
                    prefetch_lines::<_, 10>(std::slice::from_ref(&self.hosts[node as usize]), 0);
                }
                Class::HostArrival => prefetch(std::slice::from_ref(&self.hosts[node as usize]), 0),
                Class::HostWake => {
                    prefetch_lines::<_, 5>(std::slice::from_ref(&self.hosts[node as usize]), 0);
                }
                _ => {}
            }
        }
        // A separate loop, which makes the loads independent.
        for event in ctx.queue.current() {
            let (class, node, port) = unkey(event.key);
            match class {
                Class::SwitchArrival => self.switches[node as usize].prefetch_route(ctx, port, event.data),
                Class::HostArrival => self.hosts[node as usize].prefetch_answer(&ctx.packets[event.data]),
                Class::HostWake if self.has_answers => self.hosts[node as usize].prefetch_entry(event.time),
                Class::SwitchWake => self.switches[node as usize].prefetch_output(port),
                _ => {}
            }
        }
        for event in ctx.queue.current() {
            let (class, node, port) = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].prefetch_arrival(ctx, port, event.data),
                Class::SwitchWake => self.switches[node].prefetch_wake(ctx, port),
                Class::HostArrival => self.hosts[node].prefetch_arrival(ctx, event.data),
                Class::HostWake => {
                    self.hosts[node].prefetch_wake(ctx);
                    if self.has_answers {
                        self.hosts[node].prefetch_flow(event.time);
                    }
                }
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

    /// Removes and returns an invariant that was violated while an event was handled, and the time.
    #[cfg(debug_assertions)]
    pub fn take_broken(&mut self) -> Option<(Time, String)> {
        self.broken.take()
    }
}
