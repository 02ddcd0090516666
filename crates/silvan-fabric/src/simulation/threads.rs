//! Advances a run from sample to sample, with one thread per partition.
//!
//! Partitions affect each other only after their lookahead. In each step, a partition handles all events
//! within that time. It then waits until its neighbors have finished the step as well, and receives their
//! messages. After a number of steps, all threads meet and skip the time in which no partition has work
//! ([`MeetingInterval`]). If traffic waits for deliveries, all deliveries within a step are known in advance,
//! and the threads meet after each step to determine when the traffic starts. A single partition exchanges no
//! messages.

use silvan_engine::Time;

use super::exchange::{Exchange, Goal, Halted, MeetingInterval, PartitionProgress, Reached};
use super::steps::{Steps, run_in_turn};
use super::{ModelError, Simulation};
use crate::partition::{Neighbors, Partition};
use crate::setup::Network;

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
    mut round: MeetingInterval,
    goal: Goal,
) -> Result<Reached, Halted> {
    let _guard = exchange.steps.guard();
    let (last, step) = (partition.tick_of(goal.cut), partition.ticks_in(goal.lookahead));
    let (mut turn, mut meeting) = (0, 0);
    let mut own = PartitionProgress { next: partition.next_tick(), done: 0, busy: 1, known: 0 };
    loop {
        own.known = partition.ctx.ahead.as_ref().map_or(0, |ahead| ahead.known());
        let together = exchange.share(meeting, me, own)?;
        meeting += 1;
        exchange.collect(turn, me, partition)?;
        let is_last = together.next >= last;
        if !is_last && together.done >= goal.events {
            return Ok(Reached { sample: false, events: own.done });
        }
        let mut end = if is_last { last + 1 } else { together.next.saturating_add(step).min(last) };
        if together.known >= partition.triggers.next {
            exchange.plan_triggers(me, partition, Time(end))?;
        }
        if is_last {
            // The last tick is incomplete, so it is a separate step, at whose end all threads meet. Its
            // messages are delivered immediately, for the sample.
            turn = 1 - turn;
            own.done += partition.run_to_sample(goal.cut);
            partition.pass(end);
            exchange.post(turn, me, partition)?;
            exchange.meet(me)?;
            exchange.collect(turn, me, partition)?;
            return Ok(Reached { sample: true, events: own.done });
        }
        round.adapt(together.busy);
        own.busy = 0;
        for left in (0..round.steps).rev() {
            turn = 1 - turn;
            let done = partition.run(end, u64::MAX);
            own.done += done;
            own.busy += u64::from(done > 0);
            partition.pass(end);
            // All earlier events have been handled, so messages may take effect in any later tick.
            partition.begin_exchange(end);
            let by_messages = exchange.post(turn, me, partition)?;
            if left == 0 || end == last {
                own.next = partition.next_tick().min(partition.tick_of(by_messages));
                break;
            }
            exchange.wait_for_neighbors(me)?;
            exchange.collect(turn, me, partition)?;
            end = end.saturating_add(step).min(last);
        }
    }
}

/// Runs all partitions, each in its own thread.
fn run_threads(partitions: &mut [Partition], neighbors: &Neighbors, goal: Goal) -> Result<Reached, Halted> {
    let exchange = Exchange::new(neighbors);
    let round = MeetingInterval::first(neighbors);
    let results: Vec<Result<Reached, Halted>> = std::thread::scope(|scope| {
        // If the system cannot create another thread, this guard ensures that the existing threads do not
        // wait for it.
        let _guard = exchange.steps.guard();
        let threads: Vec<_> = partitions
            .iter_mut()
            .enumerate()
            .map(|(me, partition)| {
                let exchange = &exchange;
                scope.spawn(move || run_together(partition, me, exchange, round, goal))
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
    /// Records the work of each partition in each later step. The partitions then run one after another on
    /// the calling thread, with the same results. A single partition has no steps.
    pub fn record_steps(&mut self) {
        self.steps = Some(Steps::new(&self.network.neighbors));
    }

    /// The recorded steps, if [`Self::record_steps`] was called.
    #[must_use]
    pub fn steps(&self) -> Option<&Steps> {
        self.steps.as_ref()
    }

    /// Advances to the next sample, or until the given amount of work has been done. Stops before it if an application
    /// stops the run.
    pub(super) fn run_partitions(&mut self, target: u64) -> Result<(), ModelError> {
        let cut = self.next_stop();
        let events = target.saturating_sub(self.events);
        if self.run_to(cut, events)? { self.reach(cut) } else { self.look_for_repetition() }
    }

    /// Advances to a time, or until the given amount of work has been done, or until an application stops the run. Handles
    /// what precedes a sample at that time. Returns whether the run has reached the time. There must be no sample before it.
    pub(super) fn run_to(&mut self, cut: Time, events: u64) -> Result<bool, ModelError> {
        let goal = Goal { cut, events, lookahead: self.network.lookahead.unwrap_or(Time::ZERO) };
        let Network { partitions, neighbors, .. } = &mut self.network;
        let reached = match partitions.as_mut_slice() {
            [only] => Ok(run_alone(only, goal)),
            several => match &mut self.steps {
                Some(steps) => run_in_turn(several, neighbors, goal, steps),
                None => run_threads(several, neighbors, goal),
            },
        };
        let now = self.network.partitions.iter().map(|partition| partition.ctx.now).max();
        self.now = now.unwrap_or(self.now);
        let reached = reached.map_err(|Halted| ModelError::Broken {
            now: self.now,
            what: "the thread of a partition ended before the others; its messages are lost".into(),
        })?;
        self.events += reached.events;
        Ok(reached.sample)
    }
}
