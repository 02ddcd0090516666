//! A partition at work: what happens in it, instant after instant.
//!
//! Within an instant come arrivals first, then decisions. Handling one node at an instant never makes another one
//! act at the same instant: nodes act on each other only through links, which take time. Where outputs are run
//! apart, time goes on in bins: hosts come first, in the order of their events, then outputs, as none of them acts
//! on another one within a bin.

use std::borrow::BorrowMut;

use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::{Event, Time};

use crate::context::Context;
use crate::host::Host;
use crate::jobs::Jobs;
use crate::link::{Class, key, unkey};
use crate::port::Port;
use crate::switch::Switch;
use crate::traffic::trigger::{Triggers, Waiting};

/// Nothing happens any more.
pub(super) const NEVER: u64 = u64::MAX;

/// See the module. Time is counted in ticks: bins where outputs are run apart, else picoseconds.
pub(super) struct Part<'a, H, S> {
    pub ctx: &'a mut Context,
    /// By their places.
    pub hosts: &'a mut [H],
    pub switches: &'a mut [S],
    /// The ranks of jobs that are on these hosts.
    pub jobs: Option<&'a mut Jobs>,
    /// Traffic of these hosts that waits for deliveries.
    pub triggers: &'a mut Triggers,
    /// Whether the network is too large for the cache that is close to a core.
    pub prefetches: bool,
}

impl<H: BorrowMut<Host>, S: BorrowMut<Switch>> Part<'_, H, S> {
    /// The tick of a time.
    pub fn tick_of(&self, time: Time) -> u64 {
        self.ctx.outputs.as_ref().map_or(time.0, |outputs| outputs.bin_of(time))
    }

    /// The ticks that are over in a time, at least one.
    pub fn ticks_in(&self, time: Time) -> u64 {
        self.ctx.outputs.as_ref().map_or(time.0, |outputs| outputs.bins_in(time)).max(1)
    }

    /// The first tick in which something is to be done.
    pub fn next_tick(&mut self) -> u64 {
        let of_events = self.ctx.rest.or_else(|| self.next_time()).map(|time| self.tick_of(time));
        let of_outputs = self.ctx.outputs.as_ref().and_then(|outputs| outputs.next_bin());
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
    /// was. Nobody looks before that tick.
    pub fn run(&mut self, end: u64, most: u64) -> u64 {
        if self.ctx.outputs.is_none() {
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

    /// Does what comes before somebody looks, in the tick of that time. Returns how much that was.
    pub fn run_to_sample(&mut self, cut: Time) -> u64 {
        if self.ctx.outputs.is_some() {
            return self.bin(self.tick_of(cut), cut);
        }
        let done = self.arrive_at(cut);
        self.step_jobs();
        done
    }

    /// All that arrives at the time of a look.
    fn arrive_at(&mut self, cut: Time) -> u64 {
        let mut done = 0;
        self.ctx.now = cut;
        self.ctx.rest = Some(cut);
        while self.ctx.queue.next_time() == Some(cut)
            && let Some(event) = self.ctx.queue.pop_before(cut, key(Class::Sample, 0, Port::FIRST))
        {
            done += self.handle(event);
        }
        done
    }

    /// Does what is to be done in a bin, or what comes before somebody looks at `cut` if that is in it: what
    /// arrives by then, and what is decided before. Returns how much that was.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.ctx.outputs else { return 0 };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        let mut events = self.instants(end.min(cut), u64::MAX);
        if cut >= end {
            return events + self.ctx.run_outputs(end, end);
        }
        events += self.arrive_at(cut);
        self.step_jobs();
        events + self.ctx.run_outputs(cut + Time(1), cut)
    }

    /// All that happens before a time, or less if `most` has been done: first the rest of an instant at which
    /// somebody looked. Returns how much that was.
    fn instants(&mut self, end: Time, most: u64) -> u64 {
        let mut rest = self.ctx.rest.take_if(|time| *time < end);
        let mut done = 0;
        while done < most
            && let Some(time) = rest.take().or_else(|| self.next_time())
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
            self.hosts[host as usize].borrow_mut().settle(self.ctx);
        }
        self.ctx.dirty_hosts.clear();
        if let Some(jobs) = &mut self.jobs {
            jobs.note(self.ctx);
        }
        events
    }

    /// In the order of the events that asked for it: what follows from them is then nearly in order, too, and
    /// quickly sorted by the queue.
    fn settle_outputs(&mut self) {
        // What an output sends may bring a packet for another one of the switch to a queue's head.
        let mut at = 0;
        while let Some(&(switch, output)) = self.ctx.dirty_outputs.get(at) {
            self.switches[switch as usize].borrow_mut().settle(self.ctx, output);
            at += 1;
        }
        self.ctx.dirty_outputs.clear();
    }

    #[cold]
    fn send_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.ctx.reports);
        reports.sort_by_key(|(cause, _)| *cause);
        for ((switch, ..), report) in reports {
            self.switches[switch as usize].borrow_mut().send_report(self.ctx, report);
        }
    }

    /// What ranks do, after all that arrives.
    #[inline(always)]
    fn step_jobs(&mut self) {
        if let Some(jobs) = &mut self.jobs {
            jobs.step(self.ctx, self.hosts);
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
            Class::SwitchArrival => switches[node].borrow_mut().accept(ctx, port, event.data),
            Class::SwitchReady => switches[node].borrow_mut().enqueue(ctx, port, event.data),
            Class::HostArrival => {
                hosts[node].borrow_mut().receive(ctx, event.data);
                self.look_at_triggers();
            }
            Class::HostDrained => {
                hosts[node].borrow_mut().count_drained(ctx);
                self.look_at_triggers();
                return 0;
            }
            Class::Trigger => {
                self.begin(event.data as usize);
                return 0;
            }
            Class::SwitchNotice => switches[node].borrow_mut().notice(ctx, port, event.data),
            Class::HostNotice => hosts[node].borrow_mut().notice(ctx, event.data),
            // Whatever arrives at an instant has arrived before wake-ups are handled.
            Class::SwitchWake => {
                if ctx.take_wakes(event) {
                    switches[node].borrow_mut().wake(ctx, port);
                }
                return 0;
            }
            Class::HostWake => {
                if ctx.take_wakes(event) {
                    hosts[node].borrow_mut().woken(ctx);
                }
                return 0;
            }
            Class::Warmup => {
                hosts.iter_mut().for_each(|host| host.borrow_mut().count_drained(ctx));
                ctx.meters.end_warmup();
                ctx.expect_sample(ctx.next_sample);
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
                hosts[host as usize].borrow_mut().begin(ctx, source, at);
            }
        }
        ctx.meters.is_awaited = triggers.next < u64::MAX;
    }

    /// Starts what a trigger that was foreseen sets off.
    #[cold]
    fn begin(&mut self, trigger: usize) {
        let Self { ctx, hosts, triggers, .. } = self;
        for &Waiting { host, source, phase } in triggers.waiting(trigger) {
            let at = ctx.now + phase;
            hosts[host as usize].borrow_mut().begin(ctx, source, at);
        }
    }

    /// Looks at the events to come and has what they will touch brought into the cache: first
    /// the packets and links that the staged events name, then, once these are there, what the
    /// current events will find through them. Changes nothing.
    #[inline]
    fn prefetch(&self) {
        let ctx = &*self.ctx;
        for event in ctx.queue.staged() {
            // Arrivals name a packet, wake-ups a channel or a lane.
            let (class, node, _) = unkey(event.key);
            if event.key < key(Class::SwitchNotice, 0, Port::FIRST) {
                ctx.packets.prefetch(event.data);
            } else if class.is_wake() {
                ctx.links.prefetch_wake(event.data);
            }
            match class {
                Class::SwitchArrival | Class::SwitchWake => self.switches[node as usize].borrow().prefetch(),
                Class::HostArrival => prefetch(std::slice::from_ref(self.hosts[node as usize].borrow()), 0),
                Class::HostWake => {
                    prefetch_lines::<_, 5>(std::slice::from_ref(self.hosts[node as usize].borrow()), 0);
                }
                _ => {}
            }
        }
        // Apart, as one of them does not wait for another.
        for event in ctx.queue.current() {
            let (class, node, _) = unkey(event.key);
            if class == Class::SwitchArrival {
                self.switches[node as usize].borrow().prefetch_route(ctx, event.data);
            }
        }
        for event in ctx.queue.current() {
            let (class, node, port) = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].borrow().prefetch_arrival(ctx, port, event.data),
                Class::SwitchWake => self.switches[node].borrow().prefetch_wake(ctx, port),
                Class::HostArrival => self.hosts[node].borrow().prefetch_arrival(ctx),
                Class::HostWake => self.hosts[node].borrow().prefetch_wake(ctx),
                _ => {}
            }
        }
    }

    #[cfg(debug_assertions)]
    fn check_event(&mut self, class: Class, node: usize, port: Port) {
        let arrives = matches!(class, Class::SwitchArrival | Class::SwitchReady);
        if !arrives || !self.ctx.is_whole || self.ctx.broken.is_some() {
            return;
        }
        let Some(wiring) = self.switches[node].borrow().ports().wiring[port.index()] else { return };
        let far = Some((node as u32, port));
        if let Err(what) = crate::measure::check_channel(self.ctx, self.switches, wiring.into, far) {
            self.ctx.broken = Some((self.ctx.now, what));
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    fn check_event(&self, _class: Class, _node: usize, _port: Port) {}
}
