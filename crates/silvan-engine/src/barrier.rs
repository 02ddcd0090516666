//! A barrier for threads that work in steps: no thread starts a step before all threads have finished the
//! previous one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of times that a thread polls the counter before it yields, if each thread has its own core.
const SPINS: u32 = 1 << 12;

/// A barrier. Steps take microseconds, so threads poll instead of sleeping; if there are more threads than
/// cores, they yield.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    step: AtomicUsize,
    is_broken: AtomicBool,
    spins: u32,
}

/// One of the threads has panicked, so the others must not wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Barrier {
    /// Creates a barrier for a number of threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let (arrived, step) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Without a core for each thread, spinning threads would slow down the others.
        let spins = if threads <= cores { SPINS } else { 0 };
        Self { threads, arrived, step, is_broken: AtomicBool::new(false), spins }
    }

    /// Waits until all threads have arrived. All memory writes before the call are visible to all threads
    /// after it.
    ///
    /// # Errors
    /// [`Broken`] if a thread has panicked.
    pub fn wait(&self) -> Result<(), Broken> {
        let step = self.step.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.step.store(step.wrapping_add(1), Ordering::Release);
        } else {
            let mut polls = 0u32;
            while self.step.load(Ordering::Acquire) == step {
                if self.is_broken.load(Ordering::Relaxed) {
                    return Err(Broken);
                }
                polls = polls.saturating_add(1);
                if polls < self.spins { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
        if self.is_broken.load(Ordering::Relaxed) { Err(Broken) } else { Ok(()) }
    }

    /// Breaks the barrier if this thread panics before the guard is dropped.
    #[must_use]
    pub fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Barrier);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.is_broken.store(true, Ordering::Relaxed);
                }
            }
        }
        Guard(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn no_thread_runs_a_step_ahead() {
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
    fn no_thread_waits_for_a_thread_that_panicked() {
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
