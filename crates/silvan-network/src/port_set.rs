//! Sets of ports of a switch.

use crate::port::Port;
use silvan_engine::saved::Saved;

/// Number of 64-bit words of [`Ports256`].
const WORDS: usize = 4;

/// A set of ports of a switch: [`Ports64`] if the switch has at most 64 ports, otherwise [`Ports256`].
pub trait PortSet: Copy + Default + Eq + std::fmt::Debug {
    /// The set of a single port.
    fn of(port: Port) -> Self;
    /// Adds a port.
    fn insert(&mut self, port: Port);
    /// Removes a port.
    fn remove(&mut self, port: Port);
    /// Whether a port is in the set.
    fn contains(self, port: Port) -> bool;
    /// Whether the set has no ports.
    fn is_empty(self) -> bool;
    /// Number of ports.
    fn count(self) -> u32;
    /// The intersection.
    fn and(self, other: Self) -> Self;
    /// The union.
    fn or(self, other: Self) -> Self;
    /// The ports of this set that are not in `other`.
    fn without(self, other: Self) -> Self;
    /// The first port at or after `turn`, wrapping around. `None` if the set is empty.
    fn next(self, turn: Port) -> Option<Port>;
    /// The ports in ascending order.
    fn iter(self) -> impl Iterator<Item = Port>;
    /// Converts the set to [`Ports256`].
    fn widen(self) -> Ports256;
}

/// A set of ports of a switch with at most 64 ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub struct Ports64(u64);

impl PortSet for Ports64 {
    #[inline]
    fn of(port: Port) -> Self {
        Self(1 << (port.0 % 64))
    }

    #[inline]
    fn insert(&mut self, port: Port) {
        self.0 |= 1 << (port.0 % 64);
    }

    #[inline]
    fn remove(&mut self, port: Port) {
        self.0 &= !(1 << (port.0 % 64));
    }

    #[inline]
    fn contains(self, port: Port) -> bool {
        self.0 >> (port.0 % 64) & 1 == 1
    }

    #[inline]
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    fn count(self) -> u32 {
        self.0.count_ones()
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[inline]
    fn next(self, turn: Port) -> Option<Port> {
        next_of(self.0, turn)
    }

    #[inline]
    fn iter(self) -> impl Iterator<Item = Port> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let port = Port::new(bits.trailing_zeros() as usize);
            (bits != 0).then(|| {
                bits &= bits - 1;
                port
            })
        })
    }

    #[inline]
    fn widen(self) -> Ports256 {
        Ports256([self.0, 0, 0, 0])
    }
}

/// A set of ports of a switch with at most 256 ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub struct Ports256([u64; WORDS]);

impl Ports256 {
    /// The set without ports.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The set with these bits; the first word contains the first 64 ports.
    #[inline]
    pub fn from_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }

    #[inline]
    fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| join(self.0[at], other.0[at])))
    }

    /// Whether all ports are among the first 64.
    #[inline]
    fn is_small(&self) -> bool {
        self.0[1] | self.0[2] | self.0[3] == 0
    }
}

impl PortSet for Ports256 {
    #[inline]
    fn of(port: Port) -> Self {
        std::iter::once(port).collect()
    }

    #[inline]
    fn insert(&mut self, port: Port) {
        self.0[port.index() / 64] |= 1 << (port.0 % 64);
    }

    #[inline]
    fn remove(&mut self, port: Port) {
        self.0[port.index() / 64] &= !(1 << (port.0 % 64));
    }

    #[inline]
    fn contains(self, port: Port) -> bool {
        self.0[port.index() / 64] >> (port.0 % 64) & 1 == 1
    }

    #[inline]
    fn is_empty(self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    #[inline]
    fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    #[inline]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline]
    fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    #[inline]
    fn next(self, turn: Port) -> Option<Port> {
        let first = turn.index() / 64;
        let ahead = self.0[first] & (u64::MAX << (turn.0 % 64));
        if ahead != 0 {
            return Some(Port::new(first * 64 + ahead.trailing_zeros() as usize));
        }
        if self.is_small() {
            return (self.0[0] != 0).then(|| Port::new(self.0[0].trailing_zeros() as usize));
        }
        // The lower bits of the first word come last.
        (first + 1..=first + WORDS).map(|word| word % WORDS).find_map(|word| {
            let bits = self.0[word];
            (bits != 0).then(|| Port::new(word * 64 + bits.trailing_zeros() as usize))
        })
    }

    #[inline]
    fn iter(self) -> impl Iterator<Item = Port> {
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
            let port = Port::new(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
            Some(port)
        })
    }

    #[inline]
    fn widen(self) -> Self {
        self
    }
}

impl FromIterator<Port> for Ports256 {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        collect(ports)
    }
}

impl FromIterator<Port> for Ports64 {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        collect(ports)
    }
}

fn collect<S: PortSet>(ports: impl IntoIterator<Item = Port>) -> S {
    let mut set = S::default();
    ports.into_iter().for_each(|port| set.insert(port));
    set
}

/// The first set bit at or after `turn` (modulo 64), wrapping around. `None` if `bits` is zero.
#[inline(always)]
pub fn next_of(bits: u64, turn: Port) -> Option<Port> {
    let ahead = bits & (u64::MAX << (turn.0 % 64));
    (bits != 0).then(|| Port::new((if ahead == 0 { bits } else { ahead }).trailing_zeros() as usize))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Compares sets of ports of `0..most` with sets of the standard library.
    fn check<S: PortSet>(most: usize, one: &BTreeSet<Port>, other: &BTreeSet<Port>, turn: Port) {
        let set: S = collect(one.iter().copied());
        let with: S = collect(other.iter().copied());
        assert!(set.iter().eq(one.iter().copied()));
        assert!(set.widen().iter().eq(one.iter().copied()));
        assert_eq!(set.count() as usize, one.len());
        assert_eq!(set.is_empty(), one.is_empty());
        assert!(Port::all(most).all(|port| set.contains(port) == one.contains(&port)));
        let ports = |set: BTreeSet<Port>| collect::<S>(set);
        assert_eq!(set.and(with), ports(one & other));
        assert_eq!(set.or(with), ports(one | other));
        assert_eq!(set.without(with), ports(one - other));
        let next = one.range(turn..).chain(one.range(..turn)).next().copied();
        assert_eq!(set.next(turn), next);
        let mut rest = set;
        one.iter().for_each(|&port| rest.remove(port));
        assert_eq!(rest, S::default());
        assert_eq!(S::of(turn), ports([turn].into()));
    }

    proptest! {
        #[test]
        fn port_sets_agree_with_standard_sets(
            one in prop::collection::btree_set(0u16..256, 0..12),
            other in prop::collection::btree_set(0u16..256, 0..12),
            turn in 0u16..256,
        ) {
            let any = |ports: &BTreeSet<u16>| ports.iter().map(|&port| Port(port)).collect();
            check::<Ports256>(256, &any(&one), &any(&other), Port(turn));
            let few = |ports: &BTreeSet<u16>| ports.iter().map(|port| Port(port % 64)).collect();
            check::<Ports64>(64, &few(&one), &few(&other), Port(turn % 64));
        }
    }

    #[test]
    fn a_turn_after_the_only_request_wraps_around() {
        assert_eq!([0, 1, 2, 4].map(|turn| next_of(0b1011, Port(turn)).unwrap().0), [0, 1, 3, 0]);
        assert_eq!(next_of(0b10, Port(5)), Some(Port(1)));
        assert_eq!(next_of(0, Port(3)), None);
    }
}
