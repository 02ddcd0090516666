//! All-reduce over two binary trees at the same time, as in NCCL. One half of the vector is reduced to the root of each tree
//! and sent back. Half of the ranks are inner nodes of the first tree and leaves of the second, and vice versa, so all links
//! are used in both directions.
//!
//! The data moves in chunks. A node whose index in the tree ends in k zero bits is at level k. In each step, it sends one chunk
//! to its parent, k steps after the leaves, and one chunk of the result to its children.

use super::{Call, Round, Take, part};

/// Number of streams of chunks, at most.
pub(super) const TREE_STREAMS: u64 = 4;

/// One of the two trees. Its nodes are numbered from the root (0); `first` is true for the tree in which ranks are numbered
/// from 0.
#[derive(Debug, Clone, Copy)]
struct BinaryTree {
    ranks: u32,
    first: bool,
}

impl BinaryTree {
    /// The node of a rank. In the second tree of an even number of ranks, ranks are mirrored, otherwise shifted by one.
    const fn node(self, rank: u32) -> u32 {
        match (self.first, self.ranks.is_multiple_of(2)) {
            (true, _) => rank,
            (false, true) => self.ranks - 1 - rank,
            (false, false) => (rank + self.ranks - 1) % self.ranks,
        }
    }

    const fn rank(self, node: u32) -> u32 {
        match (self.first, self.ranks.is_multiple_of(2)) {
            (false, false) => (node + 1) % self.ranks,
            _ => self.node(node),
        }
    }

    /// The level of the root: the binary logarithm of the number of ranks, rounded up.
    const fn top(self) -> u32 {
        u32::BITS - (self.ranks - 1).leading_zeros()
    }

    const fn level(self, node: u32) -> u32 {
        if node == 0 { self.top() } else { node.trailing_zeros() }
    }

    fn parent(self, node: u32) -> Option<u32> {
        let lowest = 1 << node.checked_ilog2().map(|_| node.trailing_zeros())?;
        let (left, right) = (node ^ lowest, u64::from(node ^ lowest) | u64::from(lowest) << 1);
        Some(if right < u64::from(self.ranks) { right as u32 } else { left })
    }

    /// The children: the inner nodes of the next lower levels before and after the node.
    fn children(self, node: u32) -> impl Iterator<Item = u32> {
        let level = self.level(node);
        let before = (node > 0 && level > 0).then(|| node - (1 << (level - 1)));
        let mut after = (0..level).rev().map(move |below| u64::from(node) + (1 << below));
        let after = after.find(|&after| after < u64::from(self.ranks)).map(|after| after as u32);
        before.into_iter().chain(after)
    }
}

/// The smaller half of a vector in the first tree, or the rest in the second, in chunks of about the same size.
#[derive(Debug, Clone, Copy)]
pub(super) struct HalfVector {
    half: u64,
    count: u64,
}

impl HalfVector {
    /// The size of a chunk, if it exists.
    pub fn chunk(&self, number: Option<u64>) -> Option<u64> {
        let number = number.filter(|&number| number < self.count)?;
        Some(part(self.half, self.count, number))
    }
}

/// Number of streams among which chunks are divided, so that a rank need not wait for the slowest message of each step.
pub(super) fn streams(bytes: u64, chunk: u64) -> u8 {
    bytes.div_ceil(2).div_ceil(chunk.max(1)).clamp(1, TREE_STREAMS) as u8
}

/// One of the two halves of a vector in `count` chunks.
pub(super) const fn half(bytes: u64, first: bool, count: u64) -> HalfVector {
    HalfVector { half: if first { bytes / 2 } else { bytes - bytes / 2 }, count }
}

pub(super) fn all_reduce<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let bytes = call.vector();
    let streams = streams(bytes, call.chunk);
    let end = |stream: u8| (u128::from(bytes) * u128::from(stream) / u128::from(streams)) as u64;
    (0..streams).try_for_each(|stream| {
        let bytes = end(stream + 1) - end(stream);
        let count = bytes.div_ceil(2).div_ceil(call.chunk.max(1)).max(1);
        let trees = [true, false].map(|first| (first, half(bytes, first, count)));
        let both = Pipeline { ranks: call.ranks, me, trees: &trees, switch: None, stream, results: None };
        if call.latencies.is_none() {
            return both.rounds(&|rank| rank, take);
        }
        // Chunks on the way up must not wait for results, which have had the latencies of all levels.
        (0..2).try_for_each(|tree: u8| {
            let stream = 2 * stream + tree;
            let results = Some(2 * TREE_STREAMS as u8 + stream);
            Pipeline { trees: &trees[usize::from(tree)..=usize::from(tree)], stream, results, ..both }
                .rounds(&|rank| rank, take)
        })
    })
}

/// The rounds of a node that reduces chunks in trees.
pub(super) struct Pipeline<'t> {
    /// Number of nodes.
    pub ranks: u32,
    /// The node, numbered as ranks are.
    pub me: u32,
    /// Whether a tree is the first one, and what it reduces.
    pub trees: &'t [(bool, HalfVector)],
    /// The peers from which chunks are received before they are reduced in the tree, and to which the results are sent.
    pub switch: Option<(u32, u32)>,
    /// The stream of the rounds.
    pub stream: u8,
    /// The stream and the tag of results, which need not wait for the chunks on the way to the root. `None` if each step consists
    /// of both. With it, there must be one tree.
    pub results: Option<u8>,
}

impl Pipeline<'_> {
    /// Passes the rounds to `take`. `peer` gives the peer of a node.
    pub fn rounds<E>(&self, peer: &dyn Fn(u32) -> u32, take: Take<'_, E>) -> Result<(), E> {
        let &Self { ranks, me, trees, switch, stream, results } = self;
        // A chunk from the switch is received one step before it is sent to the parent.
        let lead = u64::from(switch.is_some());
        let top = u64::from(BinaryTree { ranks, first: true }.top());
        let count = trees.iter().map(|(_, half)| half.count).max().unwrap_or(0);
        for step in 0..count + 2 * top + lead {
            let mut round = Round { stream, tag: stream, ..Round::default() };
            let mut back = Round { stream, tag: stream, ..Round::default() };
            for &(first, ref half) in trees {
                let tree = BinaryTree { ranks, first };
                let own = tree.node(me);
                let level = |node: u32| u64::from(tree.level(node));
                // The chunk that a node sends to its parent in this step, and the chunk of the result that it sends to its
                // children.
                let up = |node: u32| half.chunk(step.checked_sub(level(node) + lead));
                let down = |node: u32| half.chunk((step + level(node)).checked_sub(2 * top + lead));
                let message = |node: u32, bytes: u64| (peer(tree.rank(node)), bytes);
                let parent = tree.parent(own);
                round.sends.extend(parent.and_then(|parent| Some(message(parent, up(own)?))));
                if let Some((from, _)) = switch {
                    let reduced = half.chunk(step.checked_sub(level(own)));
                    round.recvs.extend(reduced.map(|bytes| (from, bytes)));
                }
                for child in tree.children(own) {
                    round.recvs.extend(up(child).map(|bytes| message(child, bytes)));
                }
                let back = if results.is_some() { &mut back } else { &mut round };
                back.recvs.extend(parent.and_then(|parent| Some(message(parent, down(parent)?))));
                if let Some((_, to)) = switch {
                    back.sends.extend(down(own).map(|bytes| (to, bytes)));
                }
                for child in tree.children(own) {
                    back.sends.extend(down(own).map(|bytes| message(child, bytes)));
                }
            }
            if let Some(results) = results {
                back.tag = results;
                // The root sends results that it has reduced in the steps before.
                let is_root = trees.iter().any(|&(first, _)| BinaryTree { ranks, first }.node(me) == 0);
                back.stream = if is_root { stream } else { results };
            }
            for round in [back, round] {
                if !(round.sends.is_empty() && round.recvs.is_empty()) {
                    take(&round)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(ranks: u32) -> [BinaryTree; 2] {
        [true, false].map(|first| BinaryTree { ranks, first })
    }

    /// The parent of each rank, and the number of its children.
    fn parents(tree: BinaryTree) -> (Vec<Option<u32>>, Vec<usize>) {
        let parents = (0..tree.ranks).map(|rank| tree.parent(tree.node(rank)).map(|node| tree.rank(node)));
        let children = (0..tree.ranks).map(|rank| tree.children(tree.node(rank)).count());
        (parents.collect(), children.collect())
    }

    #[test]
    fn eight_ranks_have_the_trees_of_nccl() {
        let [first, second] = trees(8).map(|tree| parents(tree).0);
        assert_eq!(first, [None, Some(2), Some(4), Some(2), Some(0), Some(6), Some(4), Some(6)]);
        assert_eq!(second, [Some(1), Some(3), Some(1), Some(7), Some(5), Some(3), Some(5), None]);
    }

    #[test]
    fn parents_form_two_trees_in_which_each_rank_is_a_leaf_once() {
        for ranks in 2..=64 {
            let found = trees(ranks).map(|tree| {
                let (parents, children) = parents(tree);
                for rank in 0..ranks {
                    let path = std::iter::successors(Some(rank), |&at| parents[at as usize]);
                    assert!(path.take(9).count() <= 8, "rank {rank} of {ranks} does not reach the root");
                    let level = |rank| tree.level(tree.node(rank));
                    assert!(parents[rank as usize].is_none_or(|parent| level(parent) > level(rank)));
                    let listed: Vec<u32> =
                        tree.children(tree.node(rank)).map(|node| tree.rank(node)).collect();
                    let known: Vec<u32> =
                        (0..ranks).filter(|&child| parents[child as usize] == Some(rank)).collect();
                    assert_eq!(listed.len(), known.len());
                    assert!(known.iter().all(|child| listed.contains(child)));
                }
                assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1);
                children
            });
            if ranks.is_multiple_of(2) {
                assert!((0..ranks as usize).all(|rank| (found[0][rank] == 0) != (found[1][rank] == 0)));
            }
        }
    }
}
