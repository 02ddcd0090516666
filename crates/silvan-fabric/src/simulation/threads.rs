//! How a run goes on: from look to look, by one thread or by several.
//!
//! Partitions act on each other only after their lookahead: a thread has one, does all that is to be done in less
//! time than that together with the others, and exchanges mail with them. Where traffic waits for deliveries, all
//! deliveries of that time are known before, and threads find out together when the traffic begins.

use std::borrow::BorrowMut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use silvan_engine::barrier::Barrier;
use silvan_engine::{Event, Time};

use super::part::{NEVER, Part};
use super::{ModelError, Simulation};
use crate::context::{Context, Mail};
use crate::host::Host;
use crate::jobs::{self, Jobs};
use crate::link::{Class, key};
use crate::outputs;
use crate::port::Port;
use crate::setup::Network;
use crate::switch::Switch;
use crate::traffic::trigger::Triggers;

/// What a partition has for another one.
#[derive(Default)]
struct Letters {
    of_nodes: Mail,
    of_outputs: outputs::Mail,
    of_jobs: jobs::Mail,
}

/// What threads tell each other between two steps.
struct Board {
    /// Per partition: the next tick in which something is to be done there or by its mail, and how much has been
    /// done. Twice, for one step and the next.
    next: [Vec<AtomicU64>; 2],
    done: [Vec<AtomicU64>; 2],
    /// Mail from each partition to each.
    mail: [Vec<Mutex<Letters>>; 2],
    /// Per partition, where traffic waits for deliveries: those that are known, twice again.
    known: [Vec<AtomicU64>; 2],
    /// How many of them are past, and when those of the step to come are.
    due: Vec<Mutex<(u64, Vec<Time>)>>,
    barrier: Barrier,
}

impl Board {
    fn new(parts: usize) -> Self {
        let numbers = || (0..parts).map(|_| AtomicU64::new(0)).collect();
        let mail = || (0..parts * parts).map(|_| Mutex::new(Letters::default())).collect();
        Self {
            next: [numbers(), numbers()],
            done: [numbers(), numbers()],
            mail: [mail(), mail()],
            known: [numbers(), numbers()],
            due: (0..parts).map(|_| Mutex::default()).collect(),
            barrier: Barrier::new(parts),
        }
    }

    /// Puts what a partition has for others where they find it. Returns the earliest time at which any of it
    /// matters.
    fn post<H, S>(&self, turn: usize, me: usize, part: &mut Part<H, S>) -> Time {
        let Part { ctx, jobs, .. } = part;
        let parts = self.next[turn].len();
        let mut earliest = Time::NEVER;
        for other in 0..parts {
            let place = || self.mail[turn][me * parts + other].lock();
            if let Some(own) = ctx.mail_mut(other).filter(|own| !own.is_empty())
                && let Ok(mut place) = place()
            {
                earliest = earliest.min(own.earliest);
                std::mem::swap(&mut place.of_nodes, own);
            }
            let own = ctx.outputs.as_mut().map(|outputs| outputs.mail_mut(other));
            if let Some(own) = own.filter(|own| !own.is_empty())
                && let Ok(mut place) = place()
            {
                earliest = earliest.min(own.earliest);
                std::mem::swap(&mut place.of_outputs, own);
            }
            let own = jobs.as_mut().map(|jobs| jobs.mail_mut(other));
            if let Some(own) = own.filter(|own| !own.is_empty())
                && let Ok(mut place) = place()
            {
                std::mem::swap(&mut place.of_jobs, own);
            }
        }
        earliest
    }

    /// Takes in what others have put there for a partition.
    fn collect<H: BorrowMut<Host>, S>(&self, turn: usize, me: usize, part: &mut Part<H, S>) {
        let Part { ctx, hosts, jobs, .. } = part;
        let parts = self.next[turn].len();
        for other in 0..parts {
            let Ok(mut letters) = self.mail[turn][other * parts + me].lock() else { continue };
            if !letters.of_nodes.is_empty() {
                ctx.collect(&mut letters.of_nodes);
            }
            if let Context { outputs: Some(outputs), packets, .. } = ctx
                && !letters.of_outputs.is_empty()
            {
                outputs.collect(&mut letters.of_outputs, packets);
            }
            if let Some(jobs) = jobs {
                jobs.collect(&mut letters.of_jobs, hosts);
            }
        }
    }

    /// Finds out together with the others which traffic begins before a time, and plans it. False if another
    /// partition has given up.
    fn foresee<H, S>(&self, me: usize, part: &mut Part<H, S>, end: Time) -> bool {
        if let Some(ahead) = &part.ctx.ahead
            && let Ok(mut place) = self.due[me].lock()
        {
            *place = ahead.before(end);
        }
        if self.barrier.wait().is_err() {
            return false;
        }
        let (mut past, mut times) = (0, Vec::new());
        for place in &self.due {
            let Ok(place) = place.lock() else { return false };
            past += place.0;
            times.extend_from_slice(&place.1);
        }
        times.sort_unstable();
        while let Some((time, trigger)) = part.triggers.foresee(past, &times) {
            let event = Event { time, key: key(Class::Trigger, 0, Port::FIRST), data: trigger as u32 };
            part.ctx.queue.push(event);
        }
        if part.triggers.next == u64::MAX {
            part.ctx.ahead = None;
        }
        true
    }
}

/// How far a partition goes.
#[derive(Clone, Copy)]
struct Goal {
    /// Somebody looks then.
    cut: Time,
    /// Enough has been done when this much has.
    events: u64,
    /// No partition acts on another one sooner than after this.
    lookahead: Time,
}

/// Runs a partition together with the others until the goal. Returns whether that was the look, rather than
/// enough, and how much was done.
fn work<H: BorrowMut<Host>, S: BorrowMut<Switch>>(
    mut part: Part<H, S>,
    me: usize,
    board: &Board,
    goal: Goal,
) -> (bool, u64) {
    let _guard = board.barrier.guard();
    let (last, step) = (part.tick_of(goal.cut), part.ticks_in(goal.lookahead));
    let (mut done, mut turn) = (0, 0);
    // What comes first, as if a step had just ended.
    let mut earliest = part.next_tick();
    loop {
        board.next[turn][me].store(earliest, Ordering::Relaxed);
        board.done[turn][me].store(done, Ordering::Relaxed);
        let known = part.ctx.ahead.as_ref().map_or(0, |ahead| ahead.known());
        board.known[turn][me].store(known, Ordering::Relaxed);
        if board.barrier.wait().is_err() {
            return (false, done);
        }
        let sum =
            |numbers: &[AtomicU64]| numbers.iter().map(|number| number.load(Ordering::Relaxed)).sum::<u64>();
        let next =
            board.next[turn].iter().map(|number| number.load(Ordering::Relaxed)).min().unwrap_or(NEVER);
        board.collect(turn, me, &mut part);
        part.ctx.exchanged = part.ctx.now;
        let is_last = next >= last;
        if !is_last && sum(&board.done[turn]) >= goal.events {
            return (false, done);
        }
        let end = if is_last { last + 1 } else { next.saturating_add(step).min(last) };
        let is_near = sum(&board.known[turn]) >= part.triggers.next;
        if is_near && !board.foresee(me, &mut part, Time(end)) {
            return (false, done);
        }
        turn = 1 - turn;
        if is_last {
            // The last tick is cut, so it is a step of its own; all are there at its end. Its mail is delivered
            // at once: somebody looks.
            done += part.run_to_sample(goal.cut);
            part.pass(end);
            board.post(turn, me, &mut part);
            let is_there = board.barrier.wait().is_ok();
            board.collect(turn, me, &mut part);
            return (is_there, done);
        }
        done += part.run(end, u64::MAX);
        part.pass(end);
        if let Some(outputs) = &mut part.ctx.outputs {
            // All that was to be done before has been, so mail may come for any bin from here on.
            outputs.begin(end);
        }
        let by_mail = board.post(turn, me, &mut part);
        earliest = part.next_tick().min(part.tick_of(by_mail));
    }
}

impl Simulation {
    /// Goes as far as the next look, or until enough has been done.
    pub(super) fn run_partitions(&mut self, target: u64) -> Result<(), ModelError> {
        let duration = self.config.duration;
        let cut = self.next_sample.map_or(duration, |time| time.min(duration));
        let Network { ctx, hosts, switches, jobs, triggers, lookahead, .. } = &mut self.network;
        let is_there = if ctx.parts.is_empty() {
            let [triggers] = triggers.as_mut_slice() else { return Ok(()) };
            let jobs = jobs.first_mut();
            let prefetches = self.is_large && ctx.is_whole;
            let mut part = Part { ctx, hosts, switches, jobs, triggers, prefetches };
            let last = part.tick_of(cut);
            self.events += part.run(last, target.saturating_sub(self.events));
            let is_there = part.next_tick() >= last;
            if is_there {
                self.events += part.run_to_sample(cut);
            }
            is_there
        } else {
            let events = target.saturating_sub(self.events);
            let lookahead = lookahead.unwrap_or(Time::ZERO);
            let goal = Goal { cut, events, lookahead };
            let acting = (jobs.as_mut_slice(), triggers.as_mut_slice());
            let (is_there, done) = run_threads(ctx, (hosts, switches), acting, goal, self.is_large);
            self.events += done;
            ctx.now = ctx.parts.iter().map(|part| part.now).max().unwrap_or(ctx.now);
            is_there
        };
        if is_there { self.look(cut) } else { Ok(()) }
    }

    /// Somebody looks at a time: the end of an interval, or of the run.
    fn look(&mut self, time: Time) -> Result<(), ModelError> {
        let ctx = &mut self.network.ctx;
        ctx.now = time;
        ctx.parts.iter_mut().for_each(|part| part.now = time);
        #[cfg(debug_assertions)]
        if let Some((now, what)) = ctx.broken.take() {
            return Err(ModelError::Broken { now, what });
        }
        if self.next_sample == Some(time) {
            self.events += 1;
            self.sample()?;
        }
        if time == self.config.duration {
            self.is_cut = !self.network.ctx.is_idle();
            return self.end();
        }
        Ok(())
    }
}

/// Runs all partitions, each in a thread of its own. Returns whether they have come to the look, and how much
/// was done.
fn run_threads(
    ctx: &mut Context,
    (hosts, switches): (&mut [Host], &mut [Switch]),
    (jobs, triggers): (&mut [Jobs], &mut [Triggers]),
    goal: Goal,
    is_large: bool,
) -> (bool, u64) {
    let count = ctx.parts.len();
    // In the order of their places.
    let mut hosts_of: Vec<Vec<&mut Host>> = (0..count).map(|_| Vec::new()).collect();
    for host in hosts {
        hosts_of[usize::from(host.part)].push(host);
    }
    let mut switches_of: Vec<Vec<&mut Switch>> = (0..count).map(|_| Vec::new()).collect();
    for switch in switches {
        switches_of[usize::from(switch.ports().part)].push(switch);
    }
    let board = Board::new(count);
    let results: Vec<(bool, u64)> = std::thread::scope(|scope| {
        // Where the system allows no more threads, those that are there must not wait for ever.
        let _guard = board.barrier.guard();
        let nodes = hosts_of.iter_mut().zip(&mut switches_of);
        let jobs = jobs.iter_mut().map(Some).chain(std::iter::repeat_with(|| None));
        let threads: Vec<_> = ctx
            .parts
            .iter_mut()
            .zip(nodes)
            .zip(jobs.zip(triggers))
            .enumerate()
            .map(|(me, ((ctx, (hosts, switches)), (jobs, triggers)))| {
                let board = &board;
                let prefetches = is_large && ctx.outputs.is_none();
                let part = Part { ctx, hosts, switches, jobs, triggers, prefetches };
                scope.spawn(move || work(part, me, board, goal))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let done = results.iter().map(|result| result.1).sum();
    (results.iter().all(|result| result.0), done)
}
