//! A barrier for threads that work in steps: no thread starts a step before all threads have finished the previous one.

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

/// If each thread has its own core: how long a waiting thread keeps reading the step counter before it sleeps. Most
/// steps take less time.
const AWAKE: Duration = Duration::from_micros(100);
/// Number of times that a thread reads the step counter between two reads of the clock.
const READS: u32 = 64;

/// A barrier for a fixed number of threads.
///
/// Steps take microseconds, so a waiting thread first reads the step counter repeatedly, and sleeps only if the step
/// takes long. It never yields, because on a machine with other busy processes, a thread that yields must wait for its
/// turn among them, whereas a sleeping thread is scheduled soon after it is woken.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    step: AtomicUsize,
    is_broken: AtomicBool,
    /// How long a thread waits without sleeping.
    awake: Duration,
    /// Number of threads that sleep or are about to sleep.
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wakes: Condvar,
}

/// One of the threads has panicked, so the others must not wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Barrier {
    /// Creates a barrier for a number of threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            step: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            // If there are fewer cores than threads, a thread that stays awake prevents others from working.
            awake: if threads <= cores { AWAKE } else { Duration::ZERO },
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wakes: Condvar::new(),
        }
    }

    /// Waits until all threads have arrived. All memory writes before the call are visible to all threads
    /// after it.
    ///
    /// # Errors
    /// [`Broken`] if another thread has panicked.
    pub fn wait(&self) -> Result<(), Broken> {
        let step = self.step.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.step.store(step.wrapping_add(1), Ordering::Release);
            self.wake_all();
        } else if !self.stay_awake(step) {
            self.sleep(step);
        }
        if self.is_broken.load(Ordering::Acquire) { Err(Broken) } else { Ok(()) }
    }

    /// Breaks the barrier if this thread panics before the guard is dropped.
    #[must_use]
    pub fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Barrier);
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

    fn is_over(&self, step: usize) -> bool {
        self.step.load(Ordering::Acquire) != step || self.is_broken.load(Ordering::Acquire)
    }

    /// Waits without sleeping. Returns true when the step has ended, and false if that takes too long.
    fn stay_awake(&self, step: usize) -> bool {
        // The model checker loom cannot explore a loop that depends on the clock.
        if self.awake.is_zero() || cfg!(all(test, feature = "loom")) {
            return self.is_over(step);
        }
        let began = Instant::now();
        loop {
            for _ in 0..READS {
                if self.is_over(step) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() > self.awake {
                return false;
            }
        }
    }

    fn sleep(&self, step: usize) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Together with the fence in `wake_all`: either this thread reads the new step, or the other thread sees the
        // new sleeper.
        fence(Ordering::SeqCst);
        while !self.is_over(step) {
            lock = self.wakes.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        drop(lock);
    }

    fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // A thread that has read the old step but is not yet waiting holds the lock, so this waits for it.
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
    fn no_thread_is_a_step_ahead() {
        const THREADS: usize = 3;
        let barrier = Barrier::new(THREADS);
        let counts: [AtomicU32; THREADS] = Default::default();
        std::thread::scope(|scope| {
            for own in &counts {
                scope.spawn(|| {
                    for step in 0..1_000 {
                        own.store(step, Ordering::Relaxed);
                        barrier.wait().unwrap();
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == step));
                        barrier.wait().unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_comes_late_wakes_those_that_sleep() {
        let barrier = Barrier::new(3);
        std::thread::scope(|scope| {
            let early: Vec<_> = (0..2).map(|_| scope.spawn(|| barrier.wait())).collect();
            while barrier.sleepers.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            assert_eq!(barrier.wait(), Ok(()));
            assert!(early.into_iter().all(|thread| thread.join().unwrap() == Ok(())));
        });
        assert_eq!(barrier.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_wakes_threads_that_sleep() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| barrier.wait());
            while barrier.sleepers.load(Ordering::Relaxed) < 1 {
                std::thread::yield_now();
            }
            let one = scope.spawn(|| {
                let _guard = barrier.guard();
                panic!("as an error of the model would");
            });
            assert_eq!(other.join().unwrap(), Err(Broken));
            assert!(one.join().is_err());
        });
    }

    #[test]
    fn a_panic_ends_the_wait_of_the_other_threads() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                let _guard = barrier.guard();
                panic!("as a model error would");
            });
            assert_eq!(scope.spawn(|| barrier.wait()).join().unwrap(), Err(Broken));
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

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // Synchronization errors show up with few preemptions, and without a bound, three threads take hours.
        builder.preemption_bound = Some(3);
        builder.check(check);
    }

    /// Starts threads that repeatedly write, wait, read the values of all other threads, and wait again.
    fn in_steps(threads: usize, steps: usize) {
        model(move || {
            let barrier = Arc::new(Barrier::new(threads));
            // Relaxed accesses: only the barrier makes the writes of one thread visible to another.
            let values: Arc<Vec<_>> = Arc::new((0..threads).map(|_| AtomicUsize::new(0)).collect());
            let work = move |me: usize, barrier: Arc<Barrier>, values: Arc<Vec<AtomicUsize>>| {
                for step in 1..=steps {
                    values[me].store(step, Ordering::Relaxed);
                    barrier.wait().unwrap();
                    for value in values.iter() {
                        assert_eq!(value.load(Ordering::Relaxed), step);
                    }
                    if step < steps {
                        barrier.wait().unwrap();
                    }
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|me| {
                    let (barrier, values) = (Arc::clone(&barrier), Arc::clone(&values));
                    thread::spawn(move || work(me, barrier, values))
                })
                .collect();
            work(0, Arc::clone(&barrier), values);
            others.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(barrier.sleepers.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn two_threads_see_what_both_wrote_in_each_step() {
        in_steps(2, 2);
    }

    #[test]
    fn three_threads_see_what_all_wrote() {
        in_steps(3, 1);
    }

    #[test]
    fn a_thread_that_gives_up_ends_the_wait_of_the_others() {
        model(|| {
            let barrier = Arc::new(Barrier::new(3));
            let other = {
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || barrier.wait())
            };
            barrier.give_up();
            assert_eq!(barrier.wait(), Err(Broken));
            assert_eq!(other.join().unwrap(), Err(Broken));
        });
    }
}
