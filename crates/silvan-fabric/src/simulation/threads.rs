//! Advances a run from sample to sample, with one thread per partition.
//!
//! Partitions affect each other only after their lookahead. Each partition handles all events within that time, then
//! exchanges messages with the others. If traffic waits for deliveries, all deliveries within that time are known in
//! advance, and the threads together determine when the traffic starts. A single partition exchanges no messages.

use silvan_engine::Time;

use super::exchange::{Exchange, Halted, Together};
use super::steps::{Steps, run_in_turn};
use super::{ModelError, Simulation};
use crate::partition::Partition;

/// The limits of a step of the run.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    /// The time of the next sample.
    pub cut: Time,
    /// The amount of work after which the partitions may stop.
    pub events: u64,
    /// The minimum time in which a partition can affect another one.
    pub lookahead: Time,
}

/// The progress of all partitions.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    /// Whether the partitions reached the sample and not just the amount of work.
    pub sample: bool,
    /// The work done.
    pub events: u64,
}

/// Runs a single partition to the goal.
fn run_alone(partition: &mut Partition, goal: Goal) -> Reached {
    let last = partition.tick_of(goal.cut);
    let mut events = partition.run(last, goal.events);
    let sample = partition.next_tick() >= last;
    if sample {
        events += partition.run_to_sample(goal.cut);
    }
    Reached { sample, events }
}

/// Runs a partition to the goal, together with the others.
fn run_together(
    partition: &mut Partition,
    me: usize,
    exchange: &Exchange,
    goal: Goal,
) -> Result<Reached, Halted> {
    let _guard = exchange.barrier.guard();
    let (last, step) = (partition.tick_of(goal.cut), partition.ticks_in(goal.lookahead));
    let (mut events, mut turn) = (0, 0);
    // The initial values are the same as after a step.
    let mut next = partition.next_tick();
    loop {
        let known = partition.ctx.ahead.as_ref().map_or(0, |ahead| ahead.known());
        let together = exchange.share(turn, me, Together { next, done: events, known })?;
        exchange.collect(turn, me, partition)?;
        partition.ctx.exchanged = partition.ctx.now;
        let is_last = together.next >= last;
        if !is_last && together.done >= goal.events {
            return Ok(Reached { sample: false, events });
        }
        let end = if is_last { last + 1 } else { together.next.saturating_add(step).min(last) };
        if together.known >= partition.triggers.next {
            exchange.plan_triggers(me, partition, Time(end))?;
        }
        turn = 1 - turn;
        if is_last {
            // The last tick is incomplete, so it is a separate step, at whose end all threads meet. Its messages are
            // delivered immediately, for the sample.
            events += partition.run_to_sample(goal.cut);
            partition.pass(end);
            exchange.post(turn, me, partition)?;
            exchange.wait()?;
            exchange.collect(turn, me, partition)?;
            return Ok(Reached { sample: true, events });
        }
        events += partition.run(end, u64::MAX);
        partition.pass(end);
        // All earlier events have been handled, so messages may take effect in any later tick.
        partition.begin_exchange(end);
        let by_messages = exchange.post(turn, me, partition)?;
        next = partition.next_tick().min(partition.tick_of(by_messages));
    }
}

/// Runs all partitions, each in its own thread.
fn run_threads(partitions: &mut [Partition], goal: Goal) -> Result<Reached, Halted> {
    let exchange = Exchange::new(partitions.len());
    let results: Vec<Result<Reached, Halted>> = std::thread::scope(|scope| {
        // If the system cannot create another thread, this guard ensures that the existing threads do not wait for it.
        let _guard = exchange.barrier.guard();
        let threads: Vec<_> = partitions
            .iter_mut()
            .enumerate()
            .map(|(me, partition)| {
                let exchange = &exchange;
                scope.spawn(move || run_together(partition, me, exchange, goal))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Reached { sample: true, events: 0 };
    for result in results {
        let one = result?;
        all = Reached { sample: all.sample && one.sample, events: all.events + one.events };
    }
    Ok(all)
}

impl Simulation {
    /// Records the work of each partition in each step from now on. The partitions then run in turn on the calling
    /// thread, with the same results.
    pub fn record_steps(&mut self) {
        self.steps = Some(Steps::new(self.network.partitions.len()));
    }

    /// The recorded steps, if [`Self::record_steps`] was called.
    #[must_use]
    pub fn steps(&self) -> Option<&Steps> {
        self.steps.as_ref()
    }

    /// Advances to the next sample, or until the given amount of work has been done.
    pub(super) fn run_partitions(&mut self, target: u64) -> Result<(), ModelError> {
        let duration = self.config.duration;
        let cut = self.next_sample.map_or(duration, |time| time.min(duration));
        let events = target.saturating_sub(self.events);
        let goal = Goal { cut, events, lookahead: self.network.lookahead.unwrap_or(Time::ZERO) };
        let partitions = self.network.partitions.as_mut_slice();
        let reached = match partitions {
            [only] => Ok(run_alone(only, goal)),
            several => match &mut self.steps {
                Some(steps) => run_in_turn(several, goal, steps),
                None => run_threads(several, goal),
            },
        };
        let now = self.network.partitions.iter().map(|partition| partition.ctx.now).max();
        self.now = now.unwrap_or(self.now);
        let reached = reached.map_err(|Halted| ModelError::Broken {
            now: self.now,
            what: "the thread of a partition ended before the others; its messages are lost".into(),
        })?;
        self.events += reached.events;
        if reached.sample { self.reach(cut) } else { Ok(()) }
    }
}
