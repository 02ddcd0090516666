//! Threads that work in steps, each of which starts when certain other threads have finished the previous one.

use std::sync::PoisonError;
#[cfg(not(all(test, feature = "loom")))]
use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
use std::time::{Duration, Instant};

#[cfg(all(test, feature = "loom"))]
use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};

/// If each thread has its own core: how long a waiting thread keeps reading the counters of others before it sleeps.
/// Most steps take less time.
const AWAKE: Duration = Duration::from_micros(100);
/// Number of times that a thread reads a counter between two reads of the clock.
const READS: u32 = 64;

/// A value on separate cache lines. The alignment is two lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Separate<T>(pub T);

/// The progress of a fixed number of threads.
///
/// Each thread counts its finished steps in a counter that only this thread writes. A thread that waits reads the
/// counters of those threads that it depends on. If these are its neighbors, the cost of a step does not depend on the
/// number of threads.
///
/// Steps take microseconds, so a waiting thread first reads a counter repeatedly, and sleeps only if the step takes
/// long. It never yields, because on a machine with other busy processes, a thread that yields must wait for its turn
/// among them, whereas a sleeping thread is scheduled soon after it is woken.
#[derive(Debug)]
pub struct Lockstep {
    /// The number of steps that each thread has finished.
    finished: Vec<Separate<AtomicUsize>>,
    is_broken: AtomicBool,
    /// How long a thread waits without sleeping. Zero if there are fewer cores than threads.
    awake: Duration,
    /// Number of threads that sleep or are about to sleep.
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wakes: Condvar,
}

/// One of the threads has panicked, so the others must not wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Lockstep {
    /// Creates the counters of a number of threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            finished: (0..threads).map(|_| Separate(AtomicUsize::new(0))).collect(),
            is_broken: AtomicBool::new(false),
            // If there are fewer cores than threads, a thread that stays awake prevents others from working.
            awake: if threads <= cores { AWAKE } else { Duration::ZERO },
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wakes: Condvar::new(),
        }
    }

    /// Ends a step of thread `me`. A thread that waits for this step sees all earlier memory writes of this thread.
    pub fn finish(&self, me: usize) {
        let finished = &self.finished[me].0;
        finished.store(finished.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        self.wake_all();
    }

    /// Waits until the other threads have finished as many steps as thread `me`.
    ///
    /// # Errors
    /// [`Broken`] if a thread has panicked.
    pub fn wait_for(&self, me: usize, others: &[u16]) -> Result<(), Broken> {
        self.wait(me, others.iter().map(|&other| usize::from(other)))
    }

    /// Ends a step of thread `me`, and waits until all threads have finished as many steps.
    ///
    /// # Errors
    /// [`Broken`] if a thread has panicked.
    pub fn meet(&self, me: usize) -> Result<(), Broken> {
        self.finish(me);
        self.wait(me, 0..self.finished.len())
    }

    /// Makes the waits of all threads fail with [`Broken`] if this thread panics before the guard is dropped.
    #[must_use]
    pub fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Lockstep);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.give_up();
                }
            }
        }
        Guard(self)
    }

    fn give_up(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.wake_all();
    }

    fn wait(&self, me: usize, mut others: impl Iterator<Item = usize> + Clone) -> Result<(), Broken> {
        let step = self.finished[me].0.load(Ordering::Relaxed);
        while let Some(other) = others.next() {
            if !self.has_finished(other, step) && !self.stay_awake(other, step) {
                self.sleep(step, std::iter::once(other).chain(others.clone()));
                break;
            }
        }
        if self.is_broken.load(Ordering::Acquire) { Err(Broken) } else { Ok(()) }
    }

    /// Whether a thread has finished a number of steps. A counter may wrap around.
    #[inline]
    fn has_finished(&self, other: usize, step: usize) -> bool {
        self.finished[other].0.load(Ordering::Acquire).wrapping_sub(step).cast_signed() >= 0
    }

    fn is_over(&self, other: usize, step: usize) -> bool {
        self.has_finished(other, step) || self.is_broken.load(Ordering::Acquire)
    }

    /// Waits without sleeping. Returns true when the other thread has finished the step or a thread has
    /// panicked, and false if this takes longer than `awake`.
    fn stay_awake(&self, other: usize, step: usize) -> bool {
        // The model checker loom cannot explore a loop that depends on the clock.
        if self.awake.is_zero() || cfg!(all(test, feature = "loom")) {
            return self.is_over(other, step);
        }
        let began = Instant::now();
        loop {
            for _ in 0..READS {
                if self.is_over(other, step) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() > self.awake {
                return false;
            }
        }
    }

    fn sleep(&self, step: usize, others: impl Iterator<Item = usize>) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Together with the fence in `wake_all`: either this thread reads the new counter, or the other
        // thread reads the new number of sleepers.
        fence(Ordering::SeqCst);
        for other in others {
            while !self.is_over(other, step) {
                lock = self.wakes.wait(lock).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        drop(lock);
    }

    fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // A thread that has read the old counter but is not yet waiting holds the lock. Taking the lock ensures
            // that this thread waits before it is notified.
            drop(self.lock.lock());
            self.wakes.notify_all();
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn no_thread_is_a_step_ahead_if_all_meet() {
        const THREADS: usize = 3;
        let steps = Lockstep::new(THREADS);
        let counts: [AtomicU32; THREADS] = Default::default();
        std::thread::scope(|scope| {
            for (me, own) in counts.iter().enumerate() {
                let (steps, counts) = (&steps, &counts);
                scope.spawn(move || {
                    for step in 0..1_000 {
                        own.store(step, Ordering::Relaxed);
                        steps.meet(me).unwrap();
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == step));
                        steps.meet(me).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn threads_in_a_chain_are_ahead_by_at_most_their_distance() {
        const THREADS: usize = 4;
        let steps = Lockstep::new(THREADS);
        let counts: [AtomicU32; THREADS] = Default::default();
        std::thread::scope(|scope| {
            for me in 0..THREADS {
                let (steps, counts) = (&steps, &counts);
                scope.spawn(move || {
                    let near: Vec<u16> =
                        (0..THREADS as u16).filter(|other| usize::from(*other).abs_diff(me) == 1).collect();
                    for step in 1..=1_000 {
                        counts[me].store(step, Ordering::Relaxed);
                        steps.finish(me);
                        steps.wait_for(me, &near).unwrap();
                        for (other, count) in counts.iter().enumerate() {
                            let lag = i64::from(step) - i64::from(count.load(Ordering::Relaxed));
                            assert!(lag < other.abs_diff(me).max(1) as i64, "{me} is {lag} ahead of {other}");
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn counters_may_wrap_around() {
        let steps = Lockstep::new(2);
        for counter in &steps.finished {
            counter.0.store(usize::MAX, Ordering::Relaxed);
        }
        steps.finish(0);
        assert!(!steps.has_finished(1, 0) && steps.has_finished(0, 0) && steps.has_finished(0, usize::MAX));
        steps.finish(1);
        assert_eq!(steps.wait_for(0, &[1]), Ok(()));
    }

    #[test]
    fn a_thread_that_comes_late_wakes_those_that_sleep() {
        let steps = Lockstep::new(3);
        std::thread::scope(|scope| {
            let steps = &steps;
            let early: Vec<_> = (0..2).map(|me| scope.spawn(move || steps.meet(me))).collect();
            while steps.sleepers.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            assert_eq!(steps.meet(2), Ok(()));
            assert!(early.into_iter().all(|thread| thread.join().unwrap() == Ok(())));
        });
        assert_eq!(steps.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_wakes_threads_that_sleep() {
        let steps = Lockstep::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| steps.meet(0));
            while steps.sleepers.load(Ordering::Relaxed) < 1 {
                std::thread::yield_now();
            }
            let one = scope.spawn(|| {
                let _guard = steps.guard();
                panic!("as an error of the model would");
            });
            assert_eq!(other.join().unwrap(), Err(Broken));
            assert!(one.join().is_err());
        });
    }

    #[test]
    fn a_panic_ends_the_wait_of_the_other_threads() {
        let steps = Lockstep::new(2);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                let _guard = steps.guard();
                panic!("as a model error would");
            });
            assert_eq!(scope.spawn(|| steps.meet(0)).join().unwrap(), Err(Broken));
            assert!(one.join().is_err());
        });
    }
}

/// Explores all interleavings of a few threads (`make loom`).
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Explores interleavings with a limited number of preemptions. Synchronization errors show up with few, and without
    /// a limit, three threads take hours.
    fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(check);
    }

    /// Starts threads that write a value in each step, and then read the values of the threads that they wait for.
    /// There are two values per thread, because a thread may write the next value while others read this one.
    fn in_steps(threads: usize, steps: usize, preemptions: usize, neighbors: fn(usize, usize) -> Vec<u16>) {
        model(preemptions, move || {
            let lockstep = Arc::new(Lockstep::new(threads));
            // Relaxed accesses: only the counters of steps make the writes of one thread visible to another.
            let values: Arc<Vec<[_; 2]>> =
                Arc::new((0..threads).map(|_| [AtomicUsize::new(0), AtomicUsize::new(0)]).collect());
            let work = move |me: usize, lockstep: Arc<Lockstep>, values: Arc<Vec<[AtomicUsize; 2]>>| {
                let near = neighbors(me, threads);
                for step in 1..=steps {
                    values[me][step % 2].store(step, Ordering::Relaxed);
                    lockstep.finish(me);
                    lockstep.wait_for(me, &near).unwrap();
                    for &other in &near {
                        assert_eq!(values[usize::from(other)][step % 2].load(Ordering::Relaxed), step);
                    }
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|me| {
                    let (lockstep, values) = (Arc::clone(&lockstep), Arc::clone(&values));
                    thread::spawn(move || work(me, lockstep, values))
                })
                .collect();
            work(0, Arc::clone(&lockstep), values);
            others.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(lockstep.sleepers.load(Ordering::Relaxed), 0);
        });
    }

    fn all(_: usize, threads: usize) -> Vec<u16> {
        (0..threads as u16).collect()
    }

    fn adjacent(me: usize, threads: usize) -> Vec<u16> {
        (0..threads as u16).filter(|&other| usize::from(other).abs_diff(me) == 1).collect()
    }

    #[test]
    fn two_threads_see_what_both_wrote_in_each_step() {
        in_steps(2, 3, 3, all);
    }

    #[test]
    fn three_threads_see_what_all_wrote() {
        in_steps(3, 1, 3, all);
    }

    #[test]
    fn three_threads_in_a_chain_see_what_their_neighbors_wrote() {
        in_steps(3, 2, 2, adjacent);
    }

    #[test]
    fn a_thread_that_gives_up_ends_the_wait_of_the_others() {
        model(3, || {
            let lockstep = Arc::new(Lockstep::new(3));
            let other = {
                let lockstep = Arc::clone(&lockstep);
                thread::spawn(move || lockstep.meet(1))
            };
            lockstep.give_up();
            assert_eq!(lockstep.meet(0), Err(Broken));
            assert_eq!(other.join().unwrap(), Err(Broken));
        });
    }
}
