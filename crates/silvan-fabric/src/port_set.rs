//! Sets of a switch's ports.

/// Words of a set.
const WORDS: usize = 4;

/// Some of the ports of a switch, which has at most 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortSet([u64; WORDS]);

impl PortSet {
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The set of one port.
    pub fn of(port: usize) -> Self {
        let mut set = Self::EMPTY;
        set.insert(port);
        set
    }

    /// The set with these bits, the first 64 ports in the first word.
    #[inline]
    pub fn from_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }

    #[inline]
    pub fn insert(&mut self, port: usize) {
        self.0[port / 64] |= 1 << (port % 64);
    }

    #[inline]
    pub fn remove(&mut self, port: usize) {
        self.0[port / 64] &= !(1 << (port % 64));
    }

    #[inline]
    pub fn contains(&self, port: usize) -> bool {
        self.0[port / 64] >> (port % 64) & 1 == 1
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Number of ports.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Those that are in both.
    #[inline]
    pub fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Those that are in one of them.
    #[inline]
    pub fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Those that are not in the other.
    #[inline]
    pub fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    #[inline]
    fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| join(self.0[at], other.0[at])))
    }

    /// Whether all are among the first 64 ports.
    #[inline]
    fn is_small(&self) -> bool {
        self.0[1] | self.0[2] | self.0[3] == 0
    }

    /// The first port at or after `turn`, going round.
    #[inline]
    pub fn next(&self, turn: u16) -> Option<usize> {
        let first = usize::from(turn) / 64;
        let ahead = self.0[first] & (u64::MAX << (turn % 64));
        if ahead != 0 {
            return Some(first * 64 + ahead.trailing_zeros() as usize);
        }
        if self.is_small() {
            return (self.0[0] != 0).then(|| self.0[0].trailing_zeros() as usize);
        }
        // What is left of that word comes last.
        (first + 1..=first + WORDS).map(|word| word % WORDS).find_map(|word| {
            let bits = self.0[word];
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// The ports in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let last = if self.is_small() { 0 } else { WORDS - 1 };
        let mut word = 0;
        let mut bits = self.0[0];
        std::iter::from_fn(move || {
            while bits == 0 {
                if word == last {
                    return None;
                }
                word += 1;
                bits = self.0[word];
            }
            let port = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(port)
        })
    }
}

impl FromIterator<usize> for PortSet {
    fn from_iter<I: IntoIterator<Item = usize>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

/// The first bit at or after `turn` that is set, going round.
#[inline(always)]
pub(crate) fn next_of(bits: u64, turn: u16) -> Option<usize> {
    let ahead = bits & (u64::MAX << (turn % 64));
    (bits != 0).then(|| (if ahead == 0 { bits } else { ahead }).trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_sets(
            one in prop::collection::btree_set(0usize..256, 0..12),
            other in prop::collection::btree_set(0usize..256, 0..12),
            turn in 0u16..256,
        ) {
            let set: PortSet = one.iter().copied().collect();
            let with: PortSet = other.iter().copied().collect();
            prop_assert!(set.iter().eq(one.iter().copied()));
            prop_assert_eq!(set.count() as usize, one.len());
            prop_assert_eq!(set.is_empty(), one.is_empty());
            prop_assert!((0..256).all(|port| set.contains(port) == one.contains(&port)));
            let ports = |set: BTreeSet<usize>| set.into_iter().collect::<PortSet>();
            prop_assert_eq!(set.and(with), ports(&one & &other));
            prop_assert_eq!(set.or(with), ports(&one | &other));
            prop_assert_eq!(set.without(with), ports(&one - &other));
            let from = usize::from(turn);
            let next = one.range(from..).chain(one.range(..from)).next().copied();
            prop_assert_eq!(set.next(turn), next);
            let mut rest = set;
            one.iter().for_each(|&port| rest.remove(port));
            prop_assert_eq!(rest, PortSet::EMPTY);
        }
    }

    #[test]
    fn a_turn_past_the_only_request_wraps() {
        assert_eq!([0, 1, 2, 4].map(|turn| next_of(0b1011, turn).unwrap()), [0, 1, 3, 0]);
        assert_eq!(next_of(0b10, 5), Some(1));
        assert_eq!(next_of(0, 3), None);
    }
}
