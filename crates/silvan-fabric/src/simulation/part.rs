//! A partition at work: what happens in it, instant after instant.
//!
//! Within an instant come arrivals first, then decisions. Handling one node at an instant never makes another one
//! act at the same instant: nodes act on each other only through links, which take time. Where outputs are run
//! apart, time goes on in bins: hosts come first, in the order of their events, then outputs, as none of them acts
//! on another one within a bin.

use std::borrow::BorrowMut;

use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::{Event, Time};

use crate::core::Core;
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
    pub core: &'a mut Core,
    /// By their places.
    pub hosts: &'a mut [H],
    pub switches: &'a mut [S],
    /// The ranks of jobs that are on these hosts.
    pub jobs: Option<&'a mut Jobs>,
    /// Traffic of these hosts that waits for deliveries.
    pub triggers: &'a mut Triggers,
    /// Whether the network is too large for the cache that is close to a core.
    pub looks_ahead: bool,
}

impl<H: BorrowMut<Host>, S: BorrowMut<Switch>> Part<'_, H, S> {
    /// The tick of a time.
    pub fn tick_of(&self, time: Time) -> u64 {
        self.core.outputs.as_ref().map_or(time.0, |outputs| outputs.bin_of(time))
    }

    /// The ticks that are over in a time, at least one.
    pub fn ticks_in(&self, time: Time) -> u64 {
        self.core.outputs.as_ref().map_or(time.0, |outputs| outputs.bins_in(time)).max(1)
    }

    /// The first tick in which something is to be done.
    pub fn next_tick(&mut self) -> u64 {
        let of_events = self.core.rest.or_else(|| self.next_time()).map(|time| self.tick_of(time));
        let of_outputs = self.core.outputs.as_ref().and_then(|outputs| outputs.next_bin());
        // Such a delivery has no event of its own, but traffic may begin with it.
        let of_deliveries = self.core.ahead.as_ref().and_then(|ahead| ahead.next()).map(|time| time.0);
        [of_events, of_outputs, of_deliveries].into_iter().flatten().min().unwrap_or(NEVER)
    }

    /// The time of the next event.
    #[inline(always)]
    fn next_time(&mut self) -> Option<Time> {
        if self.looks_ahead && self.core.queue.is_turn_over() {
            self.turn_and_foresee();
        }
        self.core.queue.next_time()
    }

    /// Turns the wheel and looks at what is to come.
    #[inline(never)]
    fn turn_and_foresee(&mut self) {
        if self.core.queue.turn_wheel() {
            self.foresee();
        }
    }

    /// All deliveries before a tick are past.
    pub fn pass(&mut self, end: u64) {
        if let Some(ahead) = &mut self.core.ahead {
            ahead.pass(Time(end));
        }
    }

    /// Does what is to be done in the ticks before one, or less if `most` has been done. Returns how much that
    /// was. Nobody looks before that tick.
    pub fn run(&mut self, end: u64, most: u64) -> u64 {
        if self.core.outputs.is_none() {
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
    pub fn run_to_look(&mut self, cut: Time) -> u64 {
        if self.core.outputs.is_some() {
            return self.bin(self.tick_of(cut), cut);
        }
        let done = self.arrive_at(cut);
        self.step_jobs();
        done
    }

    /// All that arrives at the time of a look.
    fn arrive_at(&mut self, cut: Time) -> u64 {
        let mut done = 0;
        self.core.now = cut;
        self.core.rest = Some(cut);
        while self.core.queue.next_time() == Some(cut)
            && let Some(event) = self.core.queue.pop_before(cut, key(Class::Look, 0, Port::FIRST))
        {
            done += self.handle(event);
        }
        done
    }

    /// Does what is to be done in a bin, or what comes before somebody looks at `cut` if that is in it: what
    /// arrives by then, and what is decided before. Returns how much that was.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.core.outputs else { return 0 };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        let mut events = self.instants(end.min(cut), u64::MAX);
        if cut >= end {
            return events + self.core.run_outputs(end, end);
        }
        events += self.arrive_at(cut);
        self.step_jobs();
        events + self.core.run_outputs(cut + Time(1), cut)
    }

    /// All that happens before a time, or less if `most` has been done: first the rest of an instant at which
    /// somebody looked. Returns how much that was.
    fn instants(&mut self, end: Time, most: u64) -> u64 {
        let mut rest = self.core.rest.take_if(|time| *time < end);
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
        debug_assert!(time >= self.core.now, "time does not go back");
        self.core.now = time;
        let mut events = 0;
        while let Some(event) = self.core.queue.pop_at(time) {
            events += self.handle(event);
        }
        self.step_jobs();
        if !self.core.dirty_outputs.is_empty() {
            self.settle_outputs();
        }
        if !self.core.reports.is_empty() {
            self.send_reports();
        }
        for at in 0..self.core.dirty_hosts.len() {
            let host = self.core.dirty_hosts[at];
            self.hosts[host as usize].borrow_mut().settle(self.core);
        }
        self.core.dirty_hosts.clear();
        if let Some(jobs) = &mut self.jobs {
            jobs.note(self.core);
        }
        events
    }

    /// In the order of the events that asked for it: what follows from them is then nearly in order, too, and
    /// quickly sorted by the queue.
    fn settle_outputs(&mut self) {
        // What an output sends may bring a packet for another one of the switch to a queue's head.
        let mut at = 0;
        while let Some(&(switch, output)) = self.core.dirty_outputs.get(at) {
            self.switches[switch as usize].borrow_mut().settle(self.core, output);
            at += 1;
        }
        self.core.dirty_outputs.clear();
    }

    #[cold]
    fn send_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.core.reports);
        reports.sort_by_key(|(cause, _)| *cause);
        for ((switch, ..), report) in reports {
            self.switches[switch as usize].borrow_mut().send_report(self.core, report);
        }
    }

    /// What ranks do, after all that arrives.
    #[inline(always)]
    fn step_jobs(&mut self) {
        if let Some(jobs) = &mut self.jobs {
            jobs.step(self.core, self.hosts);
        }
    }

    /// Returns how much was done. The end of the warm-up, which all partitions have, does not count, nor do
    /// wake-ups, deliveries that are waited for and what ranks do: how many such events there are depends on how the
    /// run is done.
    #[inline(always)]
    fn handle(&mut self, event: Event) -> u64 {
        let (class, node, port) = unkey(event.key);
        let node = node as usize;
        let Self { core, hosts, switches, .. } = self;
        match class {
            Class::SwitchArrival => switches[node].borrow_mut().accept(core, port, event.data),
            Class::SwitchReady => switches[node].borrow_mut().enqueue(core, port, event.data),
            Class::HostArrival => {
                hosts[node].borrow_mut().receive(core, event.data);
                self.look_at_triggers();
            }
            Class::HostDrained => {
                hosts[node].borrow_mut().count_drained(core);
                self.look_at_triggers();
                return 0;
            }
            Class::Trigger => {
                self.begin(event.data as usize);
                return 0;
            }
            Class::SwitchNotice => switches[node].borrow_mut().notice(core, port, event.data),
            Class::HostNotice => hosts[node].borrow_mut().notice(core, event.data),
            // Whatever arrives at an instant has arrived before wake-ups are handled.
            Class::SwitchWake => {
                if core.take_wakes(event) {
                    switches[node].borrow_mut().wake(core, port);
                }
                return 0;
            }
            Class::HostWake => {
                if core.take_wakes(event) {
                    hosts[node].borrow_mut().woken(core);
                }
                return 0;
            }
            Class::Warmup => {
                hosts.iter_mut().for_each(|host| host.borrow_mut().count_drained(core));
                core.meters.end_warmup();
                core.expect_look(core.next_look);
                return 0;
            }
            // See `step_jobs`.
            Class::Job => return 0,
            Class::Look => debug_assert!(false, "there are no such events"),
        }
        self.check_event(class, node, port);
        1
    }

    /// Where this is the only partition.
    #[inline]
    fn look_at_triggers(&mut self) {
        let meters = &self.core.meters;
        if meters.is_awaited && meters.packets_delivered >= self.triggers.next {
            self.pull_triggers();
        }
    }

    /// Starts the traffic that waited for the packet just delivered, at this very instant.
    #[cold]
    fn pull_triggers(&mut self) {
        let Self { core, hosts, triggers, .. } = self;
        while let Some(waiting) = triggers.pull(core.meters.packets_delivered, core.now) {
            for &Waiting { host, source, phase } in waiting {
                let at = core.now + phase;
                hosts[host as usize].borrow_mut().begin(core, source, at);
            }
        }
        core.meters.is_awaited = triggers.next < u64::MAX;
    }

    /// Starts what a trigger that was foreseen sets off.
    #[cold]
    fn begin(&mut self, trigger: usize) {
        let Self { core, hosts, triggers, .. } = self;
        for &Waiting { host, source, phase } in triggers.waiting(trigger) {
            let at = core.now + phase;
            hosts[host as usize].borrow_mut().begin(core, source, at);
        }
    }

    /// Looks at the events to come and has what they will touch brought into the cache: first
    /// the packets and links that the staged events name, then, once these are there, what the
    /// current events will find through them. Changes nothing.
    #[inline]
    fn foresee(&self) {
        let core = &*self.core;
        for event in core.queue.staged() {
            // Arrivals name a packet, wake-ups a channel or a lane.
            let (class, node, _) = unkey(event.key);
            if event.key < key(Class::SwitchNotice, 0, Port::FIRST) {
                core.packets.foresee(event.data);
            } else if class.is_wake() {
                core.links.foresee_wake(event.data);
            }
            match class {
                Class::SwitchArrival | Class::SwitchWake => self.switches[node as usize].borrow().foresee(),
                Class::HostArrival => prefetch(std::slice::from_ref(self.hosts[node as usize].borrow()), 0),
                Class::HostWake => {
                    prefetch_lines::<_, 5>(std::slice::from_ref(self.hosts[node as usize].borrow()), 0);
                }
                _ => {}
            }
        }
        // Apart, as one of them does not wait for another.
        for event in core.queue.current() {
            let (class, node, _) = unkey(event.key);
            if class == Class::SwitchArrival {
                self.switches[node as usize].borrow().foresee_route(core, event.data);
            }
        }
        for event in core.queue.current() {
            let (class, node, port) = unkey(event.key);
            let node = node as usize;
            match class {
                Class::SwitchArrival => self.switches[node].borrow().foresee_arrival(core, port, event.data),
                Class::SwitchWake => self.switches[node].borrow().foresee_wake(core, port),
                Class::HostArrival => self.hosts[node].borrow().foresee_arrival(core),
                Class::HostWake => self.hosts[node].borrow().foresee_wake(core),
                _ => {}
            }
        }
    }

    #[cfg(debug_assertions)]
    fn check_event(&mut self, class: Class, node: usize, port: Port) {
        let arrives = matches!(class, Class::SwitchArrival | Class::SwitchReady);
        if !arrives || !self.core.is_whole || self.core.broken.is_some() {
            return;
        }
        let Some(wiring) = self.switches[node].borrow().ports().wiring[port.index()] else { return };
        let far = Some((node as u32, port));
        if let Err(what) = crate::measure::check_channel(self.core, self.switches, wiring.into, far) {
            self.core.broken = Some((self.core.now, what));
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    fn check_event(&self, _class: Class, _node: usize, _port: Port) {}
}
