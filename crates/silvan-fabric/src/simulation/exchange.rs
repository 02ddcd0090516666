//! Data that threads exchange between two steps: the messages of their partitions, and, when all threads
//! meet, their progress.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use silvan_engine::lockstep::{Lockstep, Separate};
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use crate::link::{Class, key};
use crate::message::Mailbox;
use crate::partition::{NEVER, Neighbors, Partition};

/// The limits up to which the partitions run.
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
    /// Whether the partitions stopped at the time of the sample, and not before it because of the amount of
    /// work or an application.
    pub sample: bool,
    /// The work done.
    pub events: u64,
}

/// Another thread has ended early, so its messages are lost and the run cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Halted;

/// The number of a partition's past deliveries, and the times of the deliveries in the next step.
type Due = (u64, Vec<Time>);

/// The progress of a partition, or the combined progress of all partitions, when all threads meet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionProgress {
    /// The next tick with work. Messages that have been sent count as work at the time at which they take
    /// effect.
    pub next: u64,
    /// The amount of work done.
    pub done: u64,
    /// The number of steps with work since the last meeting.
    pub busy: u64,
    /// The number of known deliveries, if traffic waits for deliveries.
    pub known: u64,
}

/// The values that a partition publishes for a meeting.
#[derive(Debug, Default)]
struct Published {
    next: AtomicU64,
    done: AtomicU64,
    busy: AtomicU64,
    known: AtomicU64,
}

/// The messages of one partition for another.
#[derive(Debug, Default)]
struct Letterbox {
    /// Whether there are messages. Threads read it to avoid taking the lock of an empty mailbox.
    is_full: AtomicBool,
    mailbox: Mutex<Mailbox>,
}

/// The number of steps between two meetings of all threads.
///
/// At a meeting, the partitions skip the time in which none of them has work. Between two meetings, each
/// partition waits only for its neighbors, and its steps follow each other without gaps. Results do not
/// depend on the interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeetingInterval {
    pub steps: u64,
    most: u64,
}

impl MeetingInterval {
    /// With this number of steps, meetings cost less than a tenth of the waits for neighbors.
    const MOST: u64 = 32;

    pub fn first(neighbors: &Neighbors) -> Self {
        Self { steps: 1, most: if neighbors.all_meet { 1 } else { Self::MOST } }
    }

    /// Sets the length of the next round. `busy` is the number of steps with work in the last round, summed
    /// over all partitions.
    pub fn adapt(&mut self, busy: u64) {
        if busy * 2 <= self.steps {
            self.steps = (self.steps / 2).max(1);
        } else if busy * 4 >= self.steps * 3 {
            self.steps = (self.steps * 2).min(self.most);
        }
    }
}

/// The data that threads exchange. Messages and progress exist twice: a thread may already write those of the
/// next step or meeting while another thread still reads the previous ones.
pub(super) struct Exchange<'a> {
    neighbors: &'a Neighbors,
    published: [Vec<Separate<Published>>; 2],
    /// Messages from each partition to each other one.
    mail: [Vec<Separate<Letterbox>>; 2],
    due: Vec<Mutex<Due>>,
    pub steps: Lockstep,
}

impl<'a> Exchange<'a> {
    pub fn new(neighbors: &'a Neighbors) -> Self {
        let partitions = neighbors.of.len();
        let published = || (0..partitions).map(|_| Separate::default()).collect();
        let mail = || (0..partitions * partitions).map(|_| Separate::default()).collect();
        Self {
            neighbors,
            published: [published(), published()],
            mail: [mail(), mail()],
            due: (0..partitions).map(|_| Mutex::default()).collect(),
            steps: Lockstep::new(partitions),
        }
    }

    fn letterbox(&self, turn: usize, from: usize, to: usize) -> &Letterbox {
        &self.mail[turn][from * self.neighbors.of.len() + to].0
    }

    /// Ends a step, and waits until all threads have ended it.
    pub fn meet(&self, me: usize) -> Result<(), Halted> {
        self.steps.meet(me).map_err(|_| Halted)
    }

    /// Ends a step, and waits until the neighbors have ended it.
    pub fn wait_for_neighbors(&self, me: usize) -> Result<(), Halted> {
        self.steps.finish(me);
        self.steps.wait_for(me, &self.neighbors.of[me]).map_err(|_| Halted)
    }

    /// Publishes the progress of a partition for meeting number `meeting`, ends a step, and returns the
    /// combined progress of all partitions.
    pub fn share(
        &self,
        meeting: usize,
        me: usize,
        own: PartitionProgress,
    ) -> Result<PartitionProgress, Halted> {
        let all = &self.published[meeting % 2];
        // The end of the step makes these values visible.
        let mine = &all[me].0;
        mine.next.store(own.next, Ordering::Relaxed);
        mine.done.store(own.done, Ordering::Relaxed);
        mine.busy.store(own.busy, Ordering::Relaxed);
        mine.known.store(own.known, Ordering::Relaxed);
        self.meet(me)?;
        let mut together = PartitionProgress { next: NEVER, done: 0, busy: 0, known: 0 };
        for Separate(one) in all {
            together.next = together.next.min(one.next.load(Ordering::Relaxed));
            together.done += one.done.load(Ordering::Relaxed);
            together.busy += one.busy.load(Ordering::Relaxed);
            together.known += one.known.load(Ordering::Relaxed);
        }
        Ok(together)
    }

    /// Posts the messages of a partition for its neighbors. Returns the earliest time at which any of them
    /// takes effect.
    pub fn post(&self, turn: usize, me: usize, partition: &mut Partition) -> Result<Time, Halted> {
        let mut earliest = Time::NEVER;
        for &other in &self.neighbors.of[me] {
            let other = usize::from(other);
            let own = &mut partition.ctx.outbox[other];
            if !own.is_empty() {
                let letterbox = self.letterbox(turn, me, other);
                earliest = earliest.min(own.earliest());
                std::mem::swap(&mut *letterbox.mailbox.lock().map_err(|_| Halted)?, own);
                // The end of the step makes this value visible.
                letterbox.is_full.store(true, Ordering::Relaxed);
            }
        }
        debug_assert!(partition.ctx.outbox.iter().all(Mailbox::is_empty), "messages go to neighbors");
        Ok(earliest)
    }

    /// Receives the messages that the neighbors have posted for a partition.
    pub fn collect(&self, turn: usize, me: usize, partition: &mut Partition) -> Result<(), Halted> {
        for &other in &self.neighbors.of[me] {
            let letterbox = self.letterbox(turn, usize::from(other), me);
            if letterbox.is_full.load(Ordering::Relaxed) {
                partition.collect(&mut *letterbox.mailbox.lock().map_err(|_| Halted)?);
                letterbox.is_full.store(false, Ordering::Relaxed);
            }
        }
        partition.ctx.exchanged = partition.ctx.now;
        Ok(())
    }

    /// Together with the other threads, determines and schedules the traffic that starts before a time.
    pub fn plan_triggers(&self, me: usize, partition: &mut Partition, end: Time) -> Result<(), Halted> {
        self.publish_due(me, partition, end)?;
        self.meet(me)?;
        self.schedule_due(partition)
    }

    /// Publishes the deliveries of a partition that are due before a time.
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
