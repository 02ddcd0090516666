//! Reports seeds that take long, because a run that never ends reports nothing, and ends the program if a seed takes
//! too long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(300);
/// The time after which the program ends. The slowest seeds known take minutes.
const TOO_LONG: Duration = Duration::from_secs(1800);

/// The seed that each thread is processing, and when the thread started it.
#[derive(Default)]
pub struct Watch {
    at: Mutex<HashMap<ThreadId, (u64, Instant)>>,
    is_over: AtomicBool,
}

/// Ends a watch when it is dropped, also during a panic.
pub struct End<'w>(&'w Watch);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    /// Records that this thread starts a seed.
    pub fn begin(&self, seed: u64) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.insert(thread::current().id(), (seed, Instant::now()));
    }

    pub fn ends_with_this(&self) -> End<'_> {
        End(self)
    }

    /// Reports slow seeds until the watch ends. Ends the program with a failure if a seed takes too long: its thread
    /// cannot be stopped. The results of other seeds are kept, and `--seed` repeats this one.
    pub fn look(&self) {
        let mut told = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(200));
            let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
            for (seed, since) in at.values() {
                if since.elapsed() > TOO_LONG {
                    println!("FAILS seed {seed} takes more than {} s", TOO_LONG.as_secs());
                    std::process::exit(1);
                }
                if since.elapsed() > LONG && !told.contains(seed) {
                    told.push(*seed);
                    println!("seed {seed} has taken {} s so far", LONG.as_secs());
                }
            }
        }
    }
}
