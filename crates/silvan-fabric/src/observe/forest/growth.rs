//! Follows trees over time: trees with the same root at consecutive samples are the same tree.

use super::NONE;
use super::moment::Moment;
use silvan_engine::saved::Saved;

/// The event that started a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(super) enum Origin {
    New,
    /// The root was previously a branch of the given tree.
    Split(u32),
}

/// The event that ended a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(super) enum TreeEnd {
    /// The tree still existed at the last sample.
    Lasts,
    Died,
    /// The root became a branch of the given tree.
    Merged(u32),
}

/// A tree and its development.
#[derive(Debug, Clone, Saved)]
pub(super) struct Tree {
    /// The link at the root.
    pub root: u32,
    pub born_ns: u64,
    /// The end of the last interval in which the tree existed.
    pub last_ns: u64,
    pub samples: u32,
    pub peak_branches: u32,
    pub peak_depth: u32,
    pub peak_queued: u64,
    pub origin: Origin,
    pub end: TreeEnd,
    /// Number of samples since the tree last existed.
    missed: u32,
}

/// All trees so far, and the current ones.
#[derive(Debug, Default, Saved)]
pub(super) struct TreeHistory {
    pub trees: Vec<Tree>,
    /// The current trees as pairs of root and tree, sorted by root.
    live: Vec<(u32, u32)>,
    /// Links in trees at the previous sample and their trees, sorted by link.
    before: Vec<(u32, u32)>,
}

impl TreeHistory {
    /// Number of samples for which a tree may be absent and still be the same tree. With congestion control,
    /// trees often disappear for a short time.
    pub const PATIENCE: u32 = 2;

    /// Adds the trees of a sample. Returns their numbers, in the order of their roots.
    pub fn follow(&mut self, moment: &mut Moment, (from_ns, now_ns): (u64, u64)) -> Vec<u32> {
        let numbers: Vec<u32> = moment.roots.iter().map(|&root| self.number(root, from_ns)).collect();
        for &link in &moment.order {
            let member = moment.members[link as usize];
            let tree = &mut self.trees[numbers[member.root as usize] as usize];
            if member.depth == 0 {
                tree.samples += 1;
                (tree.missed, tree.last_ns, tree.end) = (0, now_ns, TreeEnd::Lasts);
            }
        }
        self.measure(moment, &numbers);
        self.end_absent(moment, &numbers);
        self.before.clear();
        let place = |&link: &u32| (link, numbers[moment.members[link as usize].root as usize]);
        self.before.extend(moment.order.iter().map(place));
        self.before.sort_unstable();
        numbers
    }

    /// Whether a tree with this root currently exists; it may be absent for a short time.
    pub fn lives(&self, root: u32) -> bool {
        self.live.binary_search_by_key(&root, |live| live.0).is_ok()
    }

    /// The roots and numbers of the current trees, in the order of links.
    pub fn live(&self) -> &[(u32, u32)] {
        &self.live
    }

    /// The number of the current tree with this root. If there is none, assigns a new number.
    fn number(&mut self, root: u32, from_ns: u64) -> u32 {
        let place = match self.live.binary_search_by_key(&root, |live| live.0) {
            Ok(place) => return self.live[place].1,
            Err(place) => place,
        };
        let before = self.before.binary_search_by_key(&root, |before| before.0);
        let origin = before.map_or(Origin::New, |at| Origin::Split(self.before[at].1));
        let number = self.trees.len() as u32;
        self.trees.push(Tree {
            root,
            born_ns: from_ns,
            last_ns: from_ns,
            samples: 0,
            peak_branches: 0,
            peak_depth: 0,
            peak_queued: 0,
            origin,
            end: TreeEnd::Lasts,
            missed: 0,
        });
        self.live.insert(place, (root, number));
        number
    }

    fn measure(&mut self, moment: &Moment, numbers: &[u32]) {
        let mut sizes = vec![(0, 0, 0); numbers.len()];
        for &link in &moment.order {
            let member = moment.members[link as usize];
            // Bytes that wait for several trees are divided among these trees.
            let share = u64::from(member.queued) / moment.trees_of(link).count().max(1) as u64;
            for root in moment.trees_of(link) {
                let size: &mut (u32, u32, u64) = &mut sizes[root as usize];
                size.0 += u32::from(member.depth > 0);
                size.1 = size.1.max(member.depth);
                size.2 += share;
            }
        }
        for (&number, (branches, depth, queued)) in numbers.iter().zip(sizes) {
            let tree = &mut self.trees[number as usize];
            tree.peak_branches = tree.peak_branches.max(branches);
            tree.peak_depth = tree.peak_depth.max(depth);
            tree.peak_queued = tree.peak_queued.max(queued);
        }
    }

    /// Ends trees that have been absent for too long.
    fn end_absent(&mut self, moment: &Moment, numbers: &[u32]) {
        let trees = &mut self.trees;
        self.live.retain(|&(root, number)| {
            if numbers.contains(&number) {
                return true;
            }
            let tree = &mut trees[number as usize];
            tree.missed += 1;
            let other = moment.members[root as usize].root;
            tree.end = if other == NONE { TreeEnd::Died } else { TreeEnd::Merged(numbers[other as usize]) };
            if tree.missed > Self::PATIENCE {
                return false;
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::moment::TreePosition;
    use super::*;

    /// A sample with the given links. For each: its number, the index of its root, and its depth.
    fn moment(members: &[(u32, u32, u32)]) -> Moment {
        let mut moment = Moment::new(10);
        for &(link, root, depth) in members {
            moment.members[link as usize] =
                TreePosition { root, waits_for: NONE, depth, lanes: 1, queued: 100, is_isolated: false };
            moment.order.push(link);
            if depth == 0 {
                moment.roots.push(link);
            }
        }
        moment.mark_nearest();
        moment
    }

    #[test]
    fn a_tree_grows_splits_merges_and_dies() {
        let mut growth = TreeHistory::default();
        assert_eq!(growth.follow(&mut moment(&[(1, 0, 0), (2, 0, 1), (3, 0, 2)]), (0, 10)), [0]);
        assert_eq!(growth.follow(&mut moment(&[(1, 0, 0), (2, 1, 0), (3, 1, 1)]), (10, 20)), [0, 1]);
        assert_eq!(growth.trees[1].origin, Origin::Split(0));
        for at in 2..5 {
            assert_eq!(growth.follow(&mut moment(&[(1, 0, 0), (2, 0, 1)]), (at * 10, at * 10 + 10)), [0]);
        }
        assert_eq!(growth.trees[1].end, TreeEnd::Merged(0));
        assert_eq!((growth.trees[1].born_ns, growth.trees[1].last_ns), (10, 20));
        for at in 5..8 {
            assert!(growth.follow(&mut moment(&[]), (at * 10, at * 10 + 10)).is_empty());
        }
        assert_eq!((growth.trees[0].end, growth.trees[0].samples), (TreeEnd::Died, 5));
        // The tree was absent for three samples, so this is a new tree.
        assert_eq!(growth.follow(&mut moment(&[(1, 0, 0)]), (80, 90)), [2]);
        let first = &growth.trees[0];
        assert_eq!((first.peak_branches, first.peak_depth, first.peak_queued), (2, 2, 300));
    }

    #[test]
    fn bytes_that_wait_for_two_trees_are_divided() {
        let mut sample = moment(&[(1, 0, 0), (2, 1, 0), (3, 0, 1)]);
        // Link 3 waits for both roots.
        sample.set_trees_of(3, 0b11);
        let mut growth = TreeHistory::default();
        assert_eq!(growth.follow(&mut sample, (0, 10)), [0, 1]);
        assert_eq!([0, 1].map(|tree| growth.trees[tree].peak_queued), [150, 150]);
    }

    #[test]
    fn a_tree_may_be_absent_for_a_while() {
        let mut growth = TreeHistory::default();
        growth.follow(&mut moment(&[(1, 0, 0)]), (0, 10));
        growth.follow(&mut moment(&[]), (10, 20));
        growth.follow(&mut moment(&[]), (20, 30));
        assert_eq!(growth.follow(&mut moment(&[(1, 0, 0)]), (30, 40)), [0]);
        assert_eq!((growth.trees[0].samples, growth.trees[0].last_ns), (2, 40));
        growth.follow(&mut moment(&[]), (40, 50));
        assert_eq!(growth.trees[0].end, TreeEnd::Died, "the tree was absent at the end");
    }
}
