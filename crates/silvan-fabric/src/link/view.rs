//! What observers ask of links. Nothing here changes them.

use silvan_engine::Time;

use super::{ChannelId, Links};
use crate::port::Vl;

impl Links {
    /// As [`Links::has_some_credit`], without booking the credit that is back by now.
    pub fn would_have_credit(&self, id: ChannelId, vl: Vl, space: u32, now: Time) -> bool {
        let mut parts = self.parts(id, vl).peekable();
        if parts.peek().is_none() {
            // Nothing was sent yet to any destination.
            return self.divided.as_ref().is_some_and(|divided| divided.capacities[id as usize] >= space);
        }
        parts.any(|index| match &self.pauses {
            Some(pauses) => !pauses.is_stopped(index, now),
            None => {
                let back = self.returning(index).filter(|entry| entry.0 <= now).map(|entry| entry.1);
                self.lanes[index].available + back.sum::<u32>() >= space
            }
        })
    }

    /// Checks that no lane has more credit, with what returns, than its buffer holds: `most` lanes from `first` on, in turn.
    ///
    /// # Errors
    /// A sentence with the numbers.
    pub fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        let count = self.lanes.len();
        for step in 0..most.min(count) {
            let index = (first + step) % count;
            let (available, capacity) = (self.lanes[index].available, self.capacities[index]);
            let returning: u32 = self.returning(index).map(|entry| entry.1).sum();
            if available.saturating_add(returning) > capacity {
                return Err(format!(
                    "lane {index} has a credit of {available} bytes and {returning} bytes returning, but the buffer \
                     has {capacity}"
                ));
            }
        }
        Ok(())
    }
}
