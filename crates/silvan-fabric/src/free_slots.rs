//! The free slots of a table whose slots are reused.

use silvan_engine::saved::{Damaged, Reader, Saved, Writer};

/// The slots of a table that are not in use.
#[derive(Debug, Clone, Default, Saved)]
pub(crate) struct FreeSlots {
    /// With `is_ordered`, in descending order.
    free: Vec<u32>,
    /// Whether the first free slot is taken instead of the last one that became free.
    #[saved(constant)]
    is_ordered: bool,
}

impl FreeSlots {
    /// Has the first free slot taken from now on, so that the numbers of slots do not depend on the order in which earlier
    /// ones became free.
    pub fn keep_order(&mut self) {
        self.is_ordered = true;
        self.free.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Takes a free slot, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Frees a slot.
    #[inline]
    pub fn add(&mut self, slot: u32) {
        if self.is_ordered {
            self.add_in_order(slot);
        } else {
            self.free.push(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_in_order(&mut self, slot: u32) {
        self.free.insert(self.free.partition_point(|other| *other > slot), slot);
    }

    /// Number of free slots.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// The slots that are in use, of a table with this number of slots.
    pub fn used(&self, slots: usize) -> Vec<u32> {
        let mut is_free = vec![false; slots];
        self.free.iter().for_each(|&slot| is_free[slot as usize] = true);
        (0..).zip(is_free).filter_map(|(slot, is_free)| (!is_free).then_some(slot)).collect()
    }

    /// Saves the slots that are in use, with their numbers. The others contain earlier values.
    pub fn save_used<T: Saved>(&self, slots: &[T], to: &mut Writer<'_>) {
        let used = self.used(slots.len());
        used.save(to);
        used.iter().for_each(|&slot| slots[slot as usize].save(to));
    }

    /// Restores the slots that [`Self::save_used`] saved.
    pub fn restore_used<T: Saved>(slots: &mut [T], from: &mut Reader<'_>) -> Result<(), Damaged> {
        for slot in Vec::<u32>::load(from)? {
            let slot = slots.get_mut(slot as usize);
            slot.ok_or_else(Damaged::value::<T>)?.restore(from)?;
        }
        Ok(())
    }
}
