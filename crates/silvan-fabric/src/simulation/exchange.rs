//! Data that threads exchange between two steps: their progress, and the messages of their partitions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use silvan_engine::barrier::Barrier;
use silvan_engine::{Event, Time};

use crate::link::{Class, key};
use crate::message::Mailbox;
use crate::partition::{NEVER, Partition};
use crate::port::Port;

/// Another thread has ended early, so its messages are lost and the run cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Halted;

/// The number of a partition's past deliveries, and the times of the deliveries in the next step.
type Due = (u64, Vec<Time>);

/// All data exist twice: for one step and for the next.
pub(super) struct Exchange {
    partitions: usize,
    /// For each partition: the next tick in which it has work or its messages take effect; and the amount of work
    /// done.
    next: [Vec<AtomicU64>; 2],
    done: [Vec<AtomicU64>; 2],
    /// Messages from each partition to each other one.
    mail: [Vec<Mutex<Mailbox>>; 2],
    /// The number of known deliveries of each partition, if traffic waits for deliveries.
    known: [Vec<AtomicU64>; 2],
    due: Vec<Mutex<Due>>,
    pub barrier: Barrier,
}

/// The combined progress of all partitions before a step.
pub(super) struct Together {
    /// The next tick with work.
    pub next: u64,
    pub done: u64,
    pub known: u64,
}

impl Exchange {
    pub fn new(partitions: usize) -> Self {
        let numbers = || (0..partitions).map(|_| AtomicU64::new(0)).collect();
        let mail = || (0..partitions * partitions).map(|_| Mutex::new(Mailbox::default())).collect();
        Self {
            partitions,
            next: [numbers(), numbers()],
            done: [numbers(), numbers()],
            mail: [mail(), mail()],
            known: [numbers(), numbers()],
            due: (0..partitions).map(|_| Mutex::default()).collect(),
            barrier: Barrier::new(partitions),
        }
    }

    /// Waits until all threads have arrived.
    pub fn wait(&self) -> Result<(), Halted> {
        self.barrier.wait().map(drop).map_err(|_| Halted)
    }

    /// Publishes the progress of a partition, and returns the combined progress of all partitions.
    pub fn share(
        &self,
        turn: usize,
        me: usize,
        Together { next, done, known }: Together,
    ) -> Result<Together, Halted> {
        self.next[turn][me].store(next, Ordering::Relaxed);
        self.done[turn][me].store(done, Ordering::Relaxed);
        self.known[turn][me].store(known, Ordering::Relaxed);
        self.wait()?;
        let load = |numbers: &[AtomicU64]| -> Vec<u64> {
            numbers.iter().map(|number| number.load(Ordering::Relaxed)).collect()
        };
        Ok(Together {
            next: load(&self.next[turn]).into_iter().min().unwrap_or(NEVER),
            done: load(&self.done[turn]).into_iter().sum(),
            known: load(&self.known[turn]).into_iter().sum(),
        })
    }

    /// Posts the messages of a partition for the others. Returns the earliest time at which any of them takes effect.
    pub fn post(&self, turn: usize, me: usize, partition: &mut Partition) -> Result<Time, Halted> {
        let mut earliest = Time::NEVER;
        for (other, own) in partition.ctx.outbox.iter_mut().enumerate() {
            if !own.is_empty() {
                let mut mailbox = self.mail[turn][me * self.partitions + other].lock().map_err(|_| Halted)?;
                earliest = earliest.min(own.earliest());
                std::mem::swap(&mut *mailbox, own);
            }
        }
        Ok(earliest)
    }

    /// Receives the messages that others have posted for a partition.
    pub fn collect(&self, turn: usize, me: usize, partition: &mut Partition) -> Result<(), Halted> {
        for other in 0..self.partitions {
            let mut mailbox = self.mail[turn][other * self.partitions + me].lock().map_err(|_| Halted)?;
            partition.collect(&mut mailbox);
        }
        Ok(())
    }

    /// Together with the other threads, determines and schedules the traffic that starts before a time.
    pub fn plan_triggers(&self, me: usize, partition: &mut Partition, end: Time) -> Result<(), Halted> {
        self.publish_due(me, partition, end)?;
        self.wait()?;
        self.schedule_due(partition)
    }

    /// Publishes the deliveries of a partition before a time.
    pub fn publish_due(&self, me: usize, partition: &Partition, end: Time) -> Result<(), Halted> {
        if let Some(ahead) = &partition.ctx.ahead {
            *self.due[me].lock().map_err(|_| Halted)? = ahead.before(end);
        }
        Ok(())
    }

    /// Schedules the traffic of a partition that starts by the deliveries that all partitions have published.
    pub fn schedule_due(&self, partition: &mut Partition) -> Result<(), Halted> {
        let (mut past, mut times) = (0, Vec::new());
        for place in &self.due {
            let place = place.lock().map_err(|_| Halted)?;
            past += place.0;
            times.extend_from_slice(&place.1);
        }
        times.sort_unstable();
        while let Some((time, trigger)) = partition.triggers.plan(past, &times) {
            let event = Event { time, key: key(Class::Trigger, 0, Port::FIRST), data: trigger as u32 };
            partition.ctx.queue.push(event);
        }
        if partition.triggers.next == u64::MAX {
            partition.ctx.ahead = None;
        }
        Ok(())
    }
}
