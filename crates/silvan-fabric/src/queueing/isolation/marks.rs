//! A filter for the destinations on CAM lines. Most packets match no line. The filter detects this by testing one
//! word instead of all lines.

use super::{Cause, InputCam};
use silvan_engine::saved::Saved;

/// A set of destinations in which several destinations may share a bit. It quickly rejects most destinations that
/// it does not contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Saved)]
pub(super) struct DestinationFilter(u64);

impl DestinationFilter {
    #[inline]
    pub fn insert(&mut self, dst: u32) {
        self.0 |= 1 << (dst % 64);
    }

    #[inline]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub fn may_contain(self, dst: u32) -> bool {
        self.0 >> (dst % 64) & 1 == 1
    }

    pub fn of<'d>(destinations: impl Iterator<Item = &'d u32>) -> Self {
        let mut marks = Self::default();
        destinations.for_each(|&dst| marks.insert(dst));
        marks
    }
}

impl InputCam {
    /// Recomputes the filter from all lines after the release of a line.
    pub(super) fn mark_again(&mut self) {
        let lines = self.special.iter().flatten();
        let here = lines.flat_map(|line| {
            let listed = if let Cause::Root(listed) = &line.cause { &listed[..] } else { &[] };
            line.held.iter().map(|(dst, _)| dst).chain(listed)
        });
        self.marks = DestinationFilter::of(here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_it_is_never_missed() {
        let mut marks = DestinationFilter::of([3, 70].iter());
        assert_eq!([3, 70, 67, 4].map(|dst| marks.may_contain(dst)), [true, true, true, false]);
        marks.insert(4);
        assert!(marks.may_contain(4));
        assert!(!DestinationFilter::default().may_contain(0));
        assert_eq!(
            DestinationFilter::of([3].iter()).or(DestinationFilter::of([70].iter())),
            DestinationFilter::of([70, 3].iter())
        );
    }
}
