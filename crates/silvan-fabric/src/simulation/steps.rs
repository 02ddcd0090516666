//! Records the work of each partition between two exchanges, from which the speed of many threads can be
//! predicted.
//!
//! The partitions run one after another on one thread, so no partition waits for another, and the times do
//! not depend on the number of cores. The steps and the results are those of [`super::threads`].

use std::time::Instant;

use super::exchange::{Exchange, Goal, Halted, MeetingInterval, Reached};
use crate::partition::{Neighbors, Partition};

/// The work of each partition in each step. A step ends with an exchange of messages.
#[derive(Debug, Clone)]
pub struct Steps {
    partitions: usize,
    events: Vec<u32>,
    work_ns: Vec<u32>,
    neighbors: Vec<Vec<u16>>,
    rounds: Vec<u32>,
}

impl Steps {
    pub(super) fn new(neighbors: &Neighbors) -> Self {
        let neighbors = neighbors.of.clone();
        let partitions = neighbors.len();
        Self { partitions, events: Vec::new(), work_ns: Vec::new(), neighbors, rounds: Vec::new() }
    }

    /// Events of each partition, step by step. Unlike times, they do not depend on the machine.
    pub fn events(&self) -> impl Iterator<Item = &[u32]> {
        self.events.chunks_exact(self.partitions)
    }

    /// Nanoseconds of work of each partition, step by step: events, and the messages posted and received.
    pub fn work_ns(&self) -> impl Iterator<Item = &[u32]> {
        self.work_ns.chunks_exact(self.partitions)
    }

    /// For each partition, those with which it exchanges messages.
    #[must_use]
    pub fn neighbors(&self) -> &[Vec<u16>] {
        &self.neighbors
    }

    /// Number of steps in each interval between two meetings of all partitions.
    #[must_use]
    pub fn rounds(&self) -> &[u32] {
        &self.rounds
    }

    /// Begins a step.
    fn begin(&mut self) {
        if let Some(steps) = self.rounds.last_mut() {
            *steps += 1;
        }
        self.work_ns.resize(self.work_ns.len() + self.partitions, 0);
        self.events.resize(self.events.len() + self.partitions, 0);
    }

    /// Adds to the work of a partition in the last step.
    fn add(&mut self, me: usize, since: Instant) {
        let at = self.work_ns.len() - self.partitions + me;
        let spent = u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX);
        self.work_ns[at] = self.work_ns[at].saturating_add(spent);
    }

    /// Records the events of a partition in the last step.
    fn note(&mut self, me: usize, events: u64) {
        let at = self.events.len() - self.partitions + me;
        self.events[at] = u32::try_from(events).unwrap_or(u32::MAX);
    }
}

/// Runs all partitions to the goal, one after the other in each step. Same as `run_threads`, without threads.
pub(super) fn run_in_turn(
    partitions: &mut [Partition],
    neighbors: &Neighbors,
    goal: Goal,
    steps: &mut Steps,
) -> Result<Reached, Halted> {
    let exchange = Exchange::new(neighbors);
    let mut round = MeetingInterval::first(neighbors);
    let (last, step) = (partitions[0].tick_of(goal.cut), partitions[0].ticks_in(goal.lookahead));
    let (mut events, mut turn) = (0, 0);
    let mut busy = partitions.len() as u64;
    let mut next = partitions.iter_mut().map(Partition::next_tick).min().unwrap_or(last);
    loop {
        let is_last = next >= last;
        if !is_last && events >= goal.events {
            collect_all(&exchange, turn, partitions, None)?;
            return Ok(Reached { sample: false, events });
        }
        round.adapt(busy);
        busy = 0;
        steps.rounds.push(0);
        let mut end = if is_last { last + 1 } else { next.saturating_add(step).min(last) };
        let planned = if is_last { 1 } else { round.steps };
        for left in (0..planned).rev() {
            steps.begin();
            collect_all(&exchange, turn, partitions, Some(steps))?;
            let known: u64 =
                partitions.iter().filter_map(|one| one.ctx.ahead.as_ref()).map(|one| one.known()).sum();
            if known >= partitions[0].triggers.next {
                for (me, partition) in partitions.iter().enumerate() {
                    exchange.publish_due(me, partition, silvan_engine::Time(end))?;
                }
                partitions.iter_mut().try_for_each(|partition| exchange.schedule_due(partition))?;
            }
            turn = 1 - turn;
            next = u64::MAX;
            for (me, partition) in partitions.iter_mut().enumerate() {
                let began = Instant::now();
                let done =
                    if is_last { partition.run_to_sample(goal.cut) } else { partition.run(end, u64::MAX) };
                events += done;
                busy += u64::from(done > 0);
                partition.pass(end);
                if !is_last {
                    partition.begin_exchange(end);
                }
                steps.note(me, done);
                let by_messages = exchange.post(turn, me, partition)?;
                next = next.min(partition.next_tick()).min(partition.tick_of(by_messages));
                steps.add(me, began);
            }
            if left == 0 || end == last {
                break;
            }
            end = end.saturating_add(step).min(last);
        }
        if is_last {
            collect_all(&exchange, turn, partitions, Some(steps))?;
            return Ok(Reached { sample: true, events });
        }
    }
}

/// Receives the messages of all partitions.
fn collect_all(
    exchange: &Exchange,
    turn: usize,
    partitions: &mut [Partition],
    mut steps: Option<&mut Steps>,
) -> Result<(), Halted> {
    for (me, partition) in partitions.iter_mut().enumerate() {
        let began = Instant::now();
        exchange.collect(turn, me, partition)?;
        if let Some(steps) = &mut steps {
            steps.add(me, began);
        }
    }
    Ok(())
}
