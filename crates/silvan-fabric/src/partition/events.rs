//! Handles the events of a partition. The code is compiled for each architecture of switches, so no event determines
//! the architecture of its switch.

use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use super::Handling;
use crate::context::Context;
use crate::host::{Host, PROBE, TIMEOUT, take_turns};
use crate::jobs::Jobs;
use crate::link::{ChannelId, Class, Effect, EventKey, Stage, key, unkey};
use crate::outputs::{BinnedSwitch, Outputs};
use crate::switch::{Architecture, accept};
use crate::trigger::{Triggers, Waiting};

/// The parts of a [`super::Partition`] that events concern.
pub(super) struct Handler<'p, A> {
    pub ctx: &'p mut Context,
    pub hosts: &'p mut Vec<Host>,
    pub switches: &'p mut [A],
    pub jobs: &'p mut Option<Jobs>,
    pub triggers: &'p mut Triggers,
    pub outputs: &'p mut Option<Outputs>,
    pub binned: &'p mut Vec<BinnedSwitch>,
    pub handling: &'p mut Handling,
}

impl<A: Architecture> Handler<'_, A> {
    /// The time of the next event; `None` if no event is pending.
    #[inline(always)]
    pub fn next_time(&mut self) -> Option<Time> {
        if self.handling.prefetches && self.ctx.queue.is_turn_over() {
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

    /// Handles all events at the time of a sample that precede it, and then the pending actions of ranks.
    /// Returns the amount of work.
    pub fn arrive_at(&mut self, cut: Time) -> u64 {
        let done = self.events_below(cut, key(Class::Sample, 0, Port::FIRST));
        self.step_jobs();
        done
    }

    /// Handles the events of an instant with keys below `key`. Returns the amount of work.
    pub fn events_below(&mut self, time: Time, key: u32) -> u64 {
        let mut done = 0;
        self.ctx.now = time;
        self.handling.unfinished = Some(time);
        while self.ctx.queue.next_time() == Some(time)
            && let Some(event) = self.ctx.queue.pop_before(time, key)
        {
            done += self.handle(event);
        }
        done
    }

    /// Handles all events before a time, but stops early if the amount of work reaches `most`. Returns the amount of
    /// work. Also stops early before the decisions of an instant at which an application stops the run. If such a stop, a sample
    /// or a change of links interrupted an instant, first handles the rest of that instant.
    pub fn instants(&mut self, end: Time, most: u64) -> u64 {
        let mut unfinished = self.handling.unfinished.take_if(|time| *time < end);
        let mut done = 0;
        while done < most
            && let Some(time) = unfinished.take().or_else(|| self.next_time())
            && time < end
        {
            let (events, is_stopped) = self.instant(time);
            done += events;
            if is_stopped {
                break;
            }
        }
        done
    }

    /// Handles all events of one instant. Returns the amount of work, and whether an application stopped the run
    /// before the decisions.
    #[inline(always)]
    fn instant(&mut self, time: Time) -> (u64, bool) {
        debug_assert!(time >= self.ctx.now, "time does not go back");
        self.ctx.now = time;
        let mut events = 0;
        while let Some(event) = self.ctx.queue.pop_at(time) {
            events += self.handle(event);
        }
        if self.step_jobs() {
            self.handling.unfinished = Some(time);
            return (events, true);
        }
        if !self.ctx.dirty_outputs.is_empty() {
            self.settle_outputs();
        }
        if !self.ctx.reports.is_empty() {
            self.send_reports();
        }
        if self.handling.settles_in_order {
            self.ctx.dirty_hosts.sort_unstable();
        }
        for at in 0..self.ctx.dirty_hosts.len() {
            let host = self.ctx.dirty_hosts[at];
            self.hosts[host as usize].settle(self.ctx);
        }
        self.ctx.dirty_hosts.clear();
        if let Some(jobs) = self.jobs {
            jobs.note(self.ctx);
        }
        #[cfg(debug_assertions)]
        self.check_rest(time);
        (events, false)
    }

    /// Checks, after all events of an instant, that one output of the partition does not idle while it could send a packet.
    /// The time selects the output, so that most outputs are checked sooner or later.
    #[cfg(debug_assertions)]
    fn check_rest(&mut self, time: Time) {
        let more = self.ctx.queue.current().first().is_some_and(|event| event.time == time);
        let mut select = time.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut one_of = |count: usize| {
            let selected = select % count.max(1) as u64;
            select /= count.max(1) as u64;
            selected as usize
        };
        let index = one_of(self.switches.len());
        let Some(switch) = self.switches.get_mut(index).filter(|_| !more) else { return };
        let ports = switch.ports().wiring.len();
        let output = Port::new(one_of(ports));
        if ports > 0 && !switch.rests(self.ctx, output) {
            self.ctx.report_broken(format!("output {output:?} of switch {index} idled while it could send"));
        }
    }

    /// Settles outputs in the order of the events that scheduled them, so that the resulting events are nearly in
    /// order, which makes the queue faster.
    fn settle_outputs(&mut self) {
        // Sending a packet may add outputs to the list, because a packet for another output may become the head of its
        // queue.
        let mut at = 0;
        while let Some(&(switch, output)) = self.ctx.dirty_outputs.get(at) {
            self.switches[switch as usize].settle(self.ctx, output);
            at += 1;
        }
        self.ctx.dirty_outputs.clear();
    }

    #[cold]
    fn send_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.ctx.reports);
        reports.sort_by_key(|(cause, _)| *cause);
        for ((switch, ..), report) in reports {
            self.switches[switch as usize].send_report(self.ctx, report);
        }
    }

    /// Handles the pending actions of applications, after all arrivals. Returns whether the run must stop before the
    /// decisions.
    #[inline(always)]
    fn step_jobs(&mut self) -> bool {
        self.jobs.as_mut().is_some_and(|jobs| jobs.step(self.ctx, self.hosts))
    }

    /// Handles an event and returns the amount of work. Some events count as no work: the end of the warm-up, because
    /// all partitions have it; changes of links, for the same reason; and wake-ups, awaited deliveries and actions of ranks,
    /// because their number depends on the scheduler and the number of partitions.
    #[inline(always)]
    fn handle(&mut self, event: Event) -> u64 {
        let EventKey { class, node, port } = unkey(event.key);
        let node = node as usize;
        let Self { ctx, hosts, switches, .. } = self;
        match class {
            Class::SwitchArrival => {
                if ctx.loses(switches[node].ports().feeder(port), event.data) {
                    return 1;
                }
                if ctx.links.has_messages() {
                    ctx.store(switches[node].ports().feeder(port), event.data);
                }
                accept(&mut switches[node], ctx, port, event.data);
            }
            Class::SwitchReady => switches[node].admit(ctx, port, event.data),
            Class::HostArrival => {
                if ctx.loses(hosts[node].into, event.data) {
                    return 1;
                }
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
            Class::SwitchNotice => switches[node].receive(ctx, port, event.data),
            Class::HostNotice => hosts[node].notice(ctx, event.data),
            Class::Link => {
                if port == Port(Stage::Change as u16) {
                    self.change_links();
                    return 0;
                }
                if let Some(channel) = ctx.link_event(port, event.data) {
                    self.sent_frame(channel);
                }
            }
            Class::HostTimer if event.data == TIMEOUT => hosts[node].expire_outstanding(ctx),
            Class::HostTimer if event.data == PROBE => hosts[node].send_probes(ctx),
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
                self.handling.expect_sample(self.ctx, self.outputs, self.handling.next_sample);
                return 0;
            }
            Class::Job => return 0,
            Class::Sample => debug_assert!(false, "there are no such events"),
        }
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

    /// Applies the changes that are due, and schedules the next ones.
    #[cold]
    fn change_links(&mut self) {
        let now = self.ctx.now;
        while let Some(effect) = self.ctx.links.take_change(now) {
            let Self { ctx, hosts, switches, outputs, binned, .. } = self;
            if let (Some(outputs), Some(channel)) = (outputs, ctx.links.changed_channel()) {
                outputs.use_parameters(channel, ctx.links.parameters_index(channel));
            }
            match effect {
                Effect::SwitchLinkDown(channel) if ctx.sends_on(channel) => ctx.reset_retry(channel),
                Effect::HostLink(channel, is_up) if ctx.sends_on(channel) => {
                    if !is_up {
                        ctx.reset_retry(channel);
                    }
                    ctx.links.block(channel, is_up, now);
                    let host = &mut hosts[ctx.links.sending_host(channel)];
                    if is_up {
                        host.wake(ctx);
                        if ctx.links.has_messages() {
                            ctx.queue.push(Event { time: now, key: Stage::Check.key(), data: host.into });
                        }
                    }
                }
                Effect::Host(channel, paces) => {
                    if paces.is_stopped && ctx.sends_on(channel) {
                        ctx.ignore_receiver(channel);
                    }
                    if ctx.receives_on(channel) {
                        hosts[ctx.links.receiving_host(channel)].change_paces(paces);
                    }
                }
                Effect::Port(channel, is_usable) if ctx.sends_on(channel) => {
                    if let Some((switch, port)) = ctx.links.sending_switch(channel) {
                        let ports = match binned.get_mut(switch as usize) {
                            Some(switch) => &mut switch.ports,
                            None => switches[switch as usize].ports_mut(),
                        };
                        ports.use_port(port, is_usable);
                    }
                }
                Effect::Tables(number) => self.use_tables(number),
                Effect::Nothing | Effect::HostLink(..) | Effect::SwitchLinkDown(..) | Effect::Port(..) => {}
            }
        }
        if let Some(next) = self.ctx.links.next_change() {
            self.ctx.queue.push(next);
        }
    }

    /// Has all switches use other tables.
    pub fn use_tables(&mut self, number: usize) {
        let Self { ctx, switches, binned, .. } = self;
        let have_all = switches.iter_mut().all(|switch| switch.ports_mut().use_tables(number))
            && binned.iter_mut().all(|switch| switch.ports.use_tables(number));
        if !have_all {
            ctx.report_broken(format!("a switch has no tables with number {number}"));
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

    /// Prefetches the data that the next step reads to find other data.
    #[inline(never)]
    fn prefetch_first_step(&self) {
        let ctx = &*self.ctx;
        for event in ctx.queue.current() {
            let EventKey { class, node, port } = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].prefetch_route(ctx, port, event.data),
                Class::SwitchWake => self.switches[node].prefetch_output(port),
                Class::HostArrival => {
                    self.hosts[node].prefetch_answer(&ctx.packets[event.data]);
                    ctx.packets.prefetch_telemetry(event.data);
                }
                Class::HostWake if self.handling.prefetches_flows => {
                    self.hosts[node].prefetch_entry(event.time)
                }
                _ => {}
            }
        }
    }

    /// Prefetches for the next events without changing any state. First come the packets and links that the staged
    /// events name. Once these are in the cache, the data that the current events will reach through them follow.
    #[inline]
    fn prefetch(&self) {
        let ctx = &*self.ctx;
        for event in ctx.queue.staged() {
            // Arrivals contain a packet, and wake-ups contain a channel or a lane.
            let EventKey { class, node, .. } = unkey(event.key);
            if event.key < key(Class::SwitchNotice, 0, Port::FIRST) {
                ctx.packets.prefetch(event.data);
            } else if class.is_wake() {
                ctx.links.prefetch_wake(event.data);
            }
            match class {
                Class::SwitchArrival | Class::SwitchWake => self.switches[node as usize].prefetch(),
                Class::HostArrival if self.handling.prefetches_flows => {
                    prefetch_lines::<_, 10>(std::slice::from_ref(&self.hosts[node as usize]), 0);
                }
                Class::HostArrival => prefetch(std::slice::from_ref(&self.hosts[node as usize]), 0),
                Class::HostWake => {
                    prefetch_lines::<_, 5>(std::slice::from_ref(&self.hosts[node as usize]), 0);
                }
                _ => {}
            }
        }
        let prefetches_flows = self.handling.prefetches_flows;
        if prefetches_flows || self.switches.first().is_some_and(A::prefetches_in_steps) {
            self.prefetch_first_step();
        }
        for event in ctx.queue.current() {
            let EventKey { class, node, port } = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].prefetch_arrival(ctx, port, event.data),
                Class::SwitchWake => self.switches[node].prefetch_wake(ctx, port),
                Class::HostArrival => self.hosts[node].prefetch_arrival(ctx, event.data),
                Class::HostWake => {
                    self.hosts[node].prefetch_wake(ctx);
                    if self.handling.prefetches_flows {
                        self.hosts[node].prefetch_flow(event.time);
                    }
                }
                _ => {}
            }
        }
    }
}
