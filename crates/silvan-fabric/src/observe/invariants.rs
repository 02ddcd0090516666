//! Invariants of every state of the network. All builds check packet conservation and the bounds of credits at every
//! sample; debug builds check all invariants.

use super::books::check_conservation;
#[cfg(debug_assertions)]
use super::books::check_traffic;
use crate::partition::View;

/// Number of lanes per partition whose credit is checked at one sample. The lanes of a large network are checked
/// over several samples.
const LANES_PER_SAMPLE: usize = 1 << 14;

#[derive(Debug, Default)]
pub(crate) struct Invariants {
    /// The first lane to check at the next sample.
    next_lane: usize,
}

impl Invariants {
    /// Checks the state at a sample.
    ///
    /// # Errors A description of the violated invariant.
    pub fn check(&mut self, view: View) -> Result<(), String> {
        check_conservation(view)?;
        for partition in view.partitions {
            partition.check_capacities(self.next_lane, LANES_PER_SAMPLE)?;
        }
        self.next_lane = self.next_lane.wrapping_add(LANES_PER_SAMPLE);
        #[cfg(debug_assertions)]
        check_all(view)?;
        Ok(())
    }
}

/// Checks all channels, and that all traffic is accounted for and in order.
#[cfg(debug_assertions)]
fn check_all(view: View) -> Result<(), String> {
    check_traffic(view)?;
    if let Some(message) = view.out_of_order() {
        return Err(message.clone());
    }
    (0..view.receiver.len()).try_for_each(|channel| view.check_channel(channel as u32))
}
