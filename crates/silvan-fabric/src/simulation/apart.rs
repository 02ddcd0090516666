//! Runs whose outputs are run apart: bin after bin of time, by one thread or by several.
//!
//! Within a bin, hosts come first, in the order of their events, then outputs: none of them acts on another one
//! within a bin. Partitions act on each other only after their lookahead: a thread has one, does all bins that
//! are no longer than that together, and exchanges mail with the others.

use std::borrow::BorrowMut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use silvan_engine::barrier::Barrier;
use silvan_engine::{Event, Time};

use super::{ModelError, Simulation};
use crate::build::{Apart, Network};
use crate::core::Core;
use crate::host::Host;
use crate::jobs::Jobs;
use crate::link::{Class, key, unkey};
use crate::outputs::Mail;

/// No bin.
const NEVER: u64 = u64::MAX;

/// A partition at work: its state and its hosts, by their places.
struct Part<'a, H> {
    core: &'a mut Core,
    hosts: &'a mut [H],
    /// Those of the network, where this is its only partition.
    jobs: Option<&'a mut Jobs>,
}

impl<H: BorrowMut<Host>> Part<'_, H> {
    /// The first bin in which something is to be done.
    fn next_bin(&mut self) -> u64 {
        let Core { queue, outputs, rest, .. } = &mut *self.core;
        let Some(outputs) = outputs else { return NEVER };
        let of_hosts = (*rest).or_else(|| queue.next_time()).map(|time| outputs.bin_of(time));
        [of_hosts, outputs.next_bin()].into_iter().flatten().min().unwrap_or(NEVER)
    }

    /// Does what is to be done in a bin, or what comes before somebody looks at `cut` if that is in it: what
    /// arrives by then, and what is decided before. Returns how much that was.
    fn bin(&mut self, bin: u64, cut: Time) -> u64 {
        let Some(outputs) = &mut self.core.outputs else { return 0 };
        outputs.begin(bin);
        let end = outputs.end_of_bin();
        let mut events = 0;
        if let Some(time) = self.core.rest
            && time < cut
        {
            self.core.rest = None;
            events += self.instant(time);
        }
        while let Some(time) = self.core.queue.next_time()
            && time < end.min(cut)
        {
            events += self.instant(time);
        }
        if cut >= end {
            return events + self.core.run_outputs(end, end);
        }
        self.core.now = cut;
        self.core.rest = Some(cut);
        while self.core.queue.next_time() == Some(cut)
            && let Some(event) = self.core.queue.pop_before(cut, key(Class::Sample, 0, 0))
        {
            events += self.handle(event);
        }
        self.step_jobs();
        events + self.core.run_outputs(cut + Time(1), cut)
    }

    /// All that happens to hosts at one instant.
    fn instant(&mut self, time: Time) -> u64 {
        debug_assert!(time >= self.core.now, "time does not go back");
        self.core.now = time;
        let mut events = 0;
        while let Some(event) = self.core.queue.pop_at(time) {
            events += self.handle(event);
        }
        self.step_jobs();
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

    /// What ranks do, after all that arrives.
    #[inline]
    fn step_jobs(&mut self) {
        if let Some(jobs) = &mut self.jobs {
            jobs.step(self.core, self.hosts);
        }
    }

    /// Returns how much was done. The end of the warm-up, which all partitions have, does not count, nor do
    /// wake-ups: a look in the middle of a bin may add some that find nothing to do.
    fn handle(&mut self, event: Event) -> u64 {
        let (class, host, _) = unkey(event.key);
        let core = &mut *self.core;
        match class {
            Class::HostArrival => self.hosts[host as usize].borrow_mut().receive(core, event.data),
            Class::HostWake => {
                if core.take_wakes(event) {
                    self.hosts[host as usize].borrow_mut().woken(core);
                }
            }
            Class::Warmup => {
                self.hosts.iter_mut().for_each(|host| host.borrow_mut().count_drained(core));
                core.meters.end_warmup();
                core.expect_look(core.next_look);
            }
            Class::HostDrained => self.hosts[host as usize].borrow_mut().count_drained(core),
            // See `step_jobs`.
            Class::Job => {}
            // Traffic that waits for deliveries, notices and switches with events of their own are not run
            // this way.
            _ => debug_assert!(false, "{class:?} where outputs are run apart"),
        }
        u64::from(class == Class::HostArrival)
    }
}

/// What threads tell each other between two steps.
struct Board {
    /// Per partition: the next bin in which something is to be done there or by its mail, and how much has been
    /// done. Twice, for one step and the next.
    next: [Vec<AtomicU64>; 2],
    done: [Vec<AtomicU64>; 2],
    /// Mail from each partition to each.
    mail: [Vec<Mutex<Mail>>; 2],
    barrier: Barrier,
}

impl Board {
    fn new(parts: usize) -> Self {
        let numbers = || (0..parts).map(|_| AtomicU64::new(0)).collect();
        let mail = || (0..parts * parts).map(|_| Mutex::new(Mail::default())).collect();
        Self {
            next: [numbers(), numbers()],
            done: [numbers(), numbers()],
            mail: [mail(), mail()],
            barrier: Barrier::new(parts),
        }
    }

    /// Puts what a partition has for others where they find it. Returns the first bin in which any of it
    /// matters.
    fn post(&self, turn: usize, me: usize, core: &mut Core) -> u64 {
        let Some(outputs) = &mut core.outputs else { return NEVER };
        let parts = self.next[turn].len();
        let mut earliest = NEVER;
        for other in 0..parts {
            let own = outputs.mail_mut(other);
            if own.is_empty() {
                continue;
            }
            let time = own.earliest;
            if let Ok(mut place) = self.mail[turn][me * parts + other].lock() {
                std::mem::swap(&mut *place, own);
            }
            earliest = earliest.min(outputs.bin_of(time));
        }
        earliest
    }

    /// Takes in what others have put there for a partition.
    fn collect(&self, turn: usize, me: usize, core: &mut Core) {
        let Core { outputs: Some(outputs), packets, .. } = core else { return };
        let parts = self.next[turn].len();
        for other in 0..parts {
            if let Ok(mut mail) = self.mail[turn][other * parts + me].lock()
                && !mail.is_empty()
            {
                outputs.collect(&mut mail, packets);
            }
        }
    }
}

/// How far a partition goes.
#[derive(Clone, Copy)]
struct Goal {
    /// Somebody looks then.
    cut: Time,
    /// The bin of that time.
    last: u64,
    /// Enough has been done when this much has.
    events: u64,
    /// Bins that all do before they exchange mail.
    step: u64,
}

/// Runs a partition together with the others until the goal. Returns whether that was the look, rather than
/// enough, and how much was done.
fn work<H: BorrowMut<Host>>(mut part: Part<H>, me: usize, board: &Board, goal: Goal) -> (bool, u64) {
    let _guard = board.barrier.guard();
    let mut done = 0;
    let mut turn = 0;
    // What comes first, as if a step had just ended.
    let mut earliest = part.next_bin();
    loop {
        board.next[turn][me].store(earliest, Ordering::Relaxed);
        board.done[turn][me].store(done, Ordering::Relaxed);
        if board.barrier.wait().is_err() {
            return (false, done);
        }
        let sum =
            |numbers: &[AtomicU64]| numbers.iter().map(|number| number.load(Ordering::Relaxed)).sum::<u64>();
        let next =
            board.next[turn].iter().map(|number| number.load(Ordering::Relaxed)).min().unwrap_or(NEVER);
        board.collect(turn, me, part.core);
        let is_last = next >= goal.last;
        if !is_last && sum(&board.done[turn]) >= goal.events {
            return (false, done);
        }
        turn = 1 - turn;
        let end = if is_last { goal.last + 1 } else { (next + goal.step).min(goal.last) };
        // The last bin is cut, so it is a step of its own; all are there at its end.
        let mut bin = if is_last { goal.last } else { part.next_bin() };
        while bin < end {
            done += part.bin(bin, goal.cut);
            bin = if is_last { end } else { part.next_bin() };
        }
        if !is_last && let Some(outputs) = &mut part.core.outputs {
            // All that was to be done before has been, so mail may come for any bin from here on.
            outputs.begin(end);
        }
        earliest = part.next_bin().min(board.post(turn, me, part.core));
        if is_last {
            // Mail of the last bin is delivered at once: somebody looks.
            let is_there = board.barrier.wait().is_ok();
            board.collect(turn, me, part.core);
            return (is_there, done);
        }
    }
}

impl Simulation {
    /// As [`Simulation::advance`], where outputs are run apart: as far as the next look, or until enough has
    /// been done.
    pub(super) fn advance_apart(&mut self, target: u64) -> Result<(), ModelError> {
        let duration = self.config.duration;
        let cut = self.next_sample.map_or(duration, |time| time.min(duration));
        let Network { core, hosts, jobs, apart: Apart::Partitions { lookahead }, .. } = &mut self.network
        else {
            return Ok(());
        };
        let is_there = if core.parts.is_empty() {
            let mut part = Part { core, hosts: hosts.as_mut_slice(), jobs: jobs.as_mut() };
            let last = part.core.outputs.as_ref().map_or(0, |outputs| outputs.bin_of(cut));
            let mut bin = part.next_bin();
            while bin < last && self.events < target {
                self.events += part.bin(bin, cut);
                bin = part.next_bin();
            }
            let is_there = bin >= last;
            if is_there {
                self.events += part.bin(last, cut);
            }
            is_there
        } else {
            let events = target.saturating_sub(self.events);
            let (is_there, done) = run_parts(core, hosts, *lookahead, cut, events);
            self.events += done;
            core.now = core.parts.iter().map(|part| part.now).max().unwrap_or(core.now);
            is_there
        };
        if is_there { self.look(cut) } else { Ok(()) }
    }

    /// Somebody looks at a time: the end of an interval, or of the run.
    fn look(&mut self, time: Time) -> Result<(), ModelError> {
        let core = &mut self.network.core;
        core.now = time;
        core.parts.iter_mut().for_each(|part| part.now = time);
        if self.next_sample == Some(time) {
            self.events += 1;
            self.sample()?;
        }
        if time == self.config.duration {
            self.is_cut = !self.network.core.is_idle();
            return self.end();
        }
        Ok(())
    }
}

/// Runs all partitions, each in a thread of its own. Returns whether they have come to the look, and how much
/// was done.
fn run_parts(core: &mut Core, hosts: &mut [Host], lookahead: Time, cut: Time, events: u64) -> (bool, u64) {
    let count = core.parts.len();
    let mut hosts_of: Vec<Vec<&mut Host>> = (0..count).map(|_| Vec::new()).collect();
    // In the order of their places.
    for host in hosts {
        hosts_of[usize::from(host.part)].push(host);
    }
    let Some(outputs) = core.parts.first().and_then(|part| part.outputs.as_ref()) else { return (true, 0) };
    let goal = Goal { cut, last: outputs.bin_of(cut), events, step: outputs.bins_in(lookahead) };
    let board = Board::new(count);
    let results: Vec<(bool, u64)> = std::thread::scope(|scope| {
        // Where the system allows no more threads, those that are there must not wait for ever.
        let _guard = board.barrier.guard();
        let threads: Vec<_> = core
            .parts
            .iter_mut()
            .zip(&mut hosts_of)
            .enumerate()
            .map(|(me, (core, hosts))| {
                let board = &board;
                scope.spawn(move || {
                    work(Part { core, hosts: hosts.as_mut_slice(), jobs: None }, me, board, goal)
                })
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
