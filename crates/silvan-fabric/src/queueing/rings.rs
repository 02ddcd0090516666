//! Rings of queues that take turns. The members are linked, so joining, leaving and passing the turn take constant
//! time.

use silvan_engine::saved::Saved;

/// Represents no member.
const NONE: u32 = u32::MAX;

/// The members before and after a member. Undefined if the member is in no ring.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct RingLinks {
    before: u32,
    after: u32,
}

impl RingLinks {
    pub const NOWHERE: Self = Self { before: NONE, after: NONE };
}

/// A type that can be in at most one ring.
pub(super) trait RingMember {
    fn place(&self) -> RingLinks;
    fn place_mut(&mut self) -> &mut RingLinks;
}

/// A ring of members, identified by their index in a slice: the first and the last one.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct Ring {
    first: u32,
    last: u32,
}

impl Ring {
    pub const EMPTY: Self = Self { first: NONE, last: NONE };

    /// The member whose turn it is.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Whether the ring has exactly one member.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.first == self.last && self.first != NONE
    }

    /// Adds a member at the end of the turns.
    #[inline]
    pub fn push_back<M: RingMember>(&mut self, members: &mut [M], at: u32) {
        *members[at as usize].place_mut() = RingLinks { before: self.last, after: NONE };
        match self.last {
            NONE => self.first = at,
            last => members[last as usize].place_mut().after = at,
        }
        self.last = at;
    }

    /// Adds a member that has the next turn.
    #[inline]
    pub fn push_front<M: RingMember>(&mut self, members: &mut [M], at: u32) {
        *members[at as usize].place_mut() = RingLinks { before: NONE, after: self.first };
        match self.first {
            NONE => self.last = at,
            first => members[first as usize].place_mut().before = at,
        }
        self.first = at;
    }

    /// Removes a member. Returns whether the ring is then empty.
    #[inline]
    pub fn remove<M: RingMember>(&mut self, members: &mut [M], at: u32) -> bool {
        let RingLinks { before, after } = members[at as usize].place();
        match before {
            NONE => self.first = after,
            before => members[before as usize].place_mut().after = after,
        }
        match after {
            NONE => self.last = before,
            after => members[after as usize].place_mut().before = before,
        }
        self.first == NONE
    }

    /// The members in the order of their turns.
    pub fn iter<'m, M: RingMember>(&self, members: &'m [M]) -> impl Iterator<Item = u32> + 'm {
        let some = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(some(self.first), move |&at| some(members[at as usize].place().after))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    impl RingMember for RingLinks {
        fn place(&self) -> RingLinks {
            *self
        }

        fn place_mut(&mut self) -> &mut RingLinks {
            self
        }
    }

    proptest! {
        /// Compares two rings, which queues join and leave, with plain lists.
        #[test]
        fn rings_are_queues(steps in prop::collection::vec((0u32..8, 0usize..2, any::<bool>()), 1..200)) {
            let mut rings = [Ring::EMPTY; 2];
            let mut members = [RingLinks::NOWHERE; 8];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (queue, ring, at_front) in steps {
                if let Some(of) = (0..2).find(|&ring| model[ring].contains(&queue)) {
                    model[of].retain(|&other| other != queue);
                    prop_assert_eq!(rings[of].remove(&mut members, queue), model[of].is_empty());
                } else if at_front {
                    model[ring].push_front(queue);
                    rings[ring].push_front(&mut members, queue);
                } else {
                    model[ring].push_back(queue);
                    rings[ring].push_back(&mut members, queue);
                }
                for (ring, model) in rings.iter().zip(&model) {
                    prop_assert!(ring.iter(&members).eq(model.iter().copied()));
                    prop_assert_eq!(ring.front(), model.front().copied());
                    prop_assert_eq!(ring.is_single(), model.len() == 1);
                }
            }
        }
    }
}
