//! Ports and virtual lanes as separate types, which the compiler distinguishes from each other and from
//! indices of queues. Each type wraps a number.

use silvan_engine::saved::Saved;
use std::fmt;
use std::ops::Range;

/// A port of a switch, counted from 0; a host has only port 0. Topologies and forwarding tables number ports from 1:
/// see [`Port::of_number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Saved)]
pub struct Port(pub u16);

impl Port {
    /// The first port; the only one of a host.
    pub const FIRST: Self = Self(0);

    /// The port at an index of per-port data.
    #[inline(always)]
    pub fn new(index: usize) -> Self {
        debug_assert!(index <= usize::from(u16::MAX), "ports fit 16 bits");
        Self(index as u16)
    }

    /// The port for a number as in topologies and forwarding tables. The number must not be 0.
    #[inline(always)]
    pub fn of_number(number: u16) -> Self {
        Self(number - 1)
    }

    /// The number of the port in topologies and forwarding tables, from 1.
    #[inline(always)]
    pub fn number(self) -> u16 {
        self.0 + 1
    }

    /// The index into per-port data.
    #[inline(always)]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All ports of a node with `count` ports.
    #[inline]
    pub fn all(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count).map(Self::new)
    }

    /// The next port in round-robin order among `count` ports.
    #[inline(always)]
    pub fn after(self, count: usize) -> Self {
        if self.index() + 1 == count { Self::FIRST } else { Self(self.0 + 1) }
    }

    /// The pairs of the port and each of its `lanes` virtual lanes.
    #[inline(always)]
    pub fn with_lanes(self, lanes: usize) -> impl Iterator<Item = PortVl> + Clone {
        self.lane_range(lanes).map(PortVl::new)
    }

    /// The index range of the port's virtual lanes.
    #[inline(always)]
    pub fn lane_range(self, lanes: usize) -> Range<usize> {
        self.index() * lanes..(self.index() + 1) * lanes
    }
}

/// A virtual lane, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Saved)]
pub struct Vl(pub u8);

impl Vl {
    /// The first virtual lane.
    pub const FIRST: Self = Self(0);

    /// The virtual lane at an index of per-lane data.
    #[inline(always)]
    pub fn new(index: usize) -> Self {
        debug_assert!(index <= usize::from(u8::MAX), "virtual lanes fit 8 bits");
        Self(index as u8)
    }

    /// The index into per-lane data.
    #[inline(always)]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All virtual lanes of a link with `lanes` lanes.
    #[inline]
    pub fn all(lanes: usize) -> impl Iterator<Item = Self> + Clone {
        (0..lanes).map(Self::new)
    }

    /// The next virtual lane in round-robin order among `lanes` lanes.
    #[inline(always)]
    pub fn after(self, lanes: usize) -> Self {
        if self.index() + 1 == lanes { Self::FIRST } else { Self(self.0 + 1) }
    }

    /// All virtual lanes in round-robin order, starting with this one.
    #[inline(always)]
    pub fn in_turn(self, lanes: usize) -> impl Iterator<Item = Self> {
        let first = self.index();
        let lane = move |at: usize| if at < lanes { at } else { at - lanes };
        (first..first + lanes).map(move |at| Self::new(lane(at)))
    }
}

/// The number of virtual lanes of a node, as a type. Code for [`OneLane`] has neither arithmetic nor loops
/// for lanes.
pub trait Lanes: Copy + fmt::Debug {
    /// A value per lane.
    type Each<T: Copy + fmt::Debug>: fmt::Debug;
    /// A value for `count` lanes: 1 for [`OneLane`], at most 255 for [`ManyLanes`].
    fn new(count: usize) -> Self;
    /// The number of lanes.
    fn count(self) -> usize;
    /// The same value for each lane.
    fn each<T: Copy + fmt::Debug>(self, value: T) -> Self::Each<T>;
    /// The value of a lane.
    fn at<T: Copy + fmt::Debug>(each: &Self::Each<T>, vl: Vl) -> &T;
    /// The value of a lane, to change it.
    fn at_mut<T: Copy + fmt::Debug>(each: &mut Self::Each<T>, vl: Vl) -> &mut T;
}

/// One virtual lane.
#[derive(Debug, Clone, Copy)]
pub struct OneLane;

/// Any number of virtual lanes up to 255.
#[derive(Debug, Clone, Copy)]
pub struct ManyLanes(u8);

impl Lanes for OneLane {
    type Each<T: Copy + fmt::Debug> = T;

    #[inline]
    fn new(count: usize) -> Self {
        debug_assert_eq!(count, 1, "a node of this type has one lane");
        Self
    }

    #[inline(always)]
    fn count(self) -> usize {
        1
    }

    #[inline]
    fn each<T: Copy + fmt::Debug>(self, value: T) -> T {
        value
    }

    #[inline(always)]
    fn at<T: Copy + fmt::Debug>(each: &T, _vl: Vl) -> &T {
        each
    }

    #[inline(always)]
    fn at_mut<T: Copy + fmt::Debug>(each: &mut T, _vl: Vl) -> &mut T {
        each
    }
}

impl Lanes for ManyLanes {
    type Each<T: Copy + fmt::Debug> = Box<[T]>;

    #[inline]
    fn new(count: usize) -> Self {
        debug_assert!(count <= usize::from(u8::MAX), "virtual lanes fit 8 bits");
        Self(count as u8)
    }

    #[inline(always)]
    fn count(self) -> usize {
        usize::from(self.0)
    }

    #[inline]
    fn each<T: Copy + fmt::Debug>(self, value: T) -> Box<[T]> {
        vec![value; self.count()].into()
    }

    #[inline(always)]
    fn at<T: Copy + fmt::Debug>(each: &Box<[T]>, vl: Vl) -> &T {
        &each[vl.index()]
    }

    #[inline(always)]
    fn at_mut<T: Copy + fmt::Debug>(each: &mut Box<[T]>, vl: Vl) -> &mut T {
        &mut each[vl.index()]
    }
}

/// The order in which an output serves its virtual lanes: round-robin, except for a lane that precedes all
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneOrder {
    /// Number of virtual lanes.
    pub lanes: usize,
    /// The lane that precedes all others, which needs at least two lanes. `None` if no lane precedes the
    /// others.
    pub first: Option<Vl>,
}

impl LaneOrder {
    /// The lane at position `step` (from 0) of the order, if the round starts at `turn`.
    #[inline(always)]
    pub fn at(self, turn: Vl, step: usize) -> Vl {
        let Some(first) = self.first else {
            let lane = turn.index() + step;
            return Vl::new(if lane < self.lanes { lane } else { lane - self.lanes });
        };
        if step == 0 {
            return first;
        }
        // The number of `turn` among the lanes other than `first`. If `turn` is `first`, the round starts at
        // the lane after it.
        let own = turn.index() - usize::from(turn > first);
        let other = (own + step - 1) % (self.lanes - 1);
        Vl::new(other + usize::from(other >= first.index()))
    }

    /// All lanes in this order, if the round starts at `turn`.
    #[inline(always)]
    pub fn from(self, turn: Vl) -> impl Iterator<Item = Vl> {
        (0..self.lanes).map(move |step| self.at(turn, step))
    }

    /// The start of the next round after lane `served` was served. Serving the lane that precedes all others
    /// does not change the start.
    #[inline(always)]
    pub fn after(self, turn: Vl, served: Vl) -> Vl {
        if self.first == Some(served) { turn } else { served.after(self.lanes) }
    }
}

/// A port and one of its virtual lanes as one number: `port * lanes + vl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Saved)]
pub struct PortVl(u16);

impl PortVl {
    /// The first virtual lane of the first port.
    pub const FIRST: Self = Self(0);

    /// The pair at an index of data per port and virtual lane.
    #[inline(always)]
    pub fn new(index: usize) -> Self {
        debug_assert!(index <= usize::from(u16::MAX), "ports and virtual lanes fit 16 bits");
        Self(index as u16)
    }

    /// A port and one of its `lanes` virtual lanes.
    #[inline(always)]
    pub fn of(port: Port, vl: Vl, lanes: usize) -> Self {
        debug_assert!(vl.index() < lanes, "a port has this lane");
        // Most networks have one lane.
        if lanes == 1 { Self(port.0) } else { Self::new(port.index() * lanes + vl.index()) }
    }

    /// The port of a host with one of its virtual lanes.
    #[inline(always)]
    pub fn of_host(vl: Vl) -> Self {
        Self(u16::from(vl.0))
    }

    /// The index into data per port and virtual lane.
    #[inline(always)]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All pairs of a node with `ports` ports.
    #[inline]
    pub fn all(ports: usize, lanes: usize) -> impl Iterator<Item = Self> + Clone {
        (0..ports * lanes).map(Self::new)
    }

    /// The port, if each has `lanes` virtual lanes.
    #[inline(always)]
    pub fn port(self, lanes: usize) -> Port {
        // Most networks have one lane, so no division is needed.
        if lanes == 1 { Port(self.0) } else { Port::new(self.index() / lanes) }
    }

    /// The virtual lane, if each port has `lanes` virtual lanes.
    #[inline(always)]
    pub fn vl(self, lanes: usize) -> Vl {
        if lanes == 1 { Vl::FIRST } else { Vl::new(self.index() % lanes) }
    }
}

impl fmt::Display for Vl {
    #[inline]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

macro_rules! indices {
    ($($name:ident),*) => {
        $(impl From<$name> for usize {
            #[inline(always)]
            fn from(of: $name) -> Self {
                of.index()
            }
        })*
    };
}

indices!(Port, Vl, PortVl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_returns_its_port_and_lane() {
        for lanes in [1, 3, 16] {
            let pairs: Vec<PortVl> = PortVl::all(5, lanes).collect();
            let each = Port::all(5).flat_map(|port| Vl::all(lanes).map(move |vl| (port, vl)));
            for (at, (port, vl)) in each.enumerate() {
                assert_eq!(pairs[at], PortVl::of(port, vl, lanes));
                assert_eq!((at, port, vl), (pairs[at].index(), pairs[at].port(lanes), pairs[at].vl(lanes)));
            }
            let of_third: Vec<PortVl> = Port(2).with_lanes(lanes).collect();
            assert_eq!(of_third, pairs[2 * lanes..3 * lanes]);
        }
    }

    #[test]
    fn ports_and_lanes_take_turns() {
        assert_eq!([Port(0), Port(3), Port(4)].map(|port| port.after(5)), [Port(1), Port(4), Port(0)]);
        assert_eq!([Vl(0), Vl(2)].map(|vl| vl.after(3)), [Vl(1), Vl(0)]);
        let from = |first: u8| Vl(first).in_turn(3).map(|vl| vl.0).collect::<Vec<_>>();
        assert_eq!([from(0), from(1), from(2)], [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn a_lane_precedes_the_others_which_take_turns() {
        let order = |first: Option<u8>, turn: u8| {
            LaneOrder { lanes: 4, first: first.map(Vl) }.from(Vl(turn)).map(|vl| vl.0).collect::<Vec<_>>()
        };
        assert_eq!([order(None, 0), order(None, 2)], [[0, 1, 2, 3], [2, 3, 0, 1]]);
        assert_eq!(
            [order(Some(3), 0), order(Some(3), 2), order(Some(3), 3)],
            [[3, 0, 1, 2], [3, 2, 0, 1], [3, 0, 1, 2]]
        );
        assert_eq!(
            [order(Some(1), 0), order(Some(1), 1), order(Some(1), 3)],
            [[1, 0, 2, 3], [1, 2, 3, 0], [1, 3, 0, 2]]
        );
        let order = LaneOrder { lanes: 4, first: Some(Vl(1)) };
        assert_eq!([order.after(Vl(2), Vl(1)), order.after(Vl(2), Vl(3))], [Vl(2), Vl(0)]);
        let two = LaneOrder { lanes: 2, first: Some(Vl(1)) };
        assert_eq!(two.from(Vl(0)).collect::<Vec<_>>(), [Vl(1), Vl(0)]);
    }

    #[test]
    fn numbers_count_from_one() {
        assert_eq!((Port::of_number(1), Port(255).number()), (Port::FIRST, 256));
    }
}
