//! Finds the trees at a sample: the roots, and the outputs that lack credit because of them.
//!
//! At each sample, a switch output with waiting packets is *blocked* if it lacks credit for a full packet on
//! any virtual lane, and otherwise *loaded* if more than two full packets wait. An output that faces a host
//! is loaded if it lacks credit.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, PortVl, Vl};

use super::map::Map;
use super::{ForestObserver, NONE};
use crate::link::ChannelId;
use crate::partition::View;
use crate::queueing::isolation::Cams;

/// The state of a switch output at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(super) enum OutputState {
    /// No packets wait, or few packets wait and there is credit.
    Free,
    /// Packets wait, and the output faces a switch and lacks credit for a full packet.
    Blocked,
    /// More than two full packets wait and there is credit, or packets wait and the output faces a host and
    /// lacks credit.
    Loaded,
}

/// The position of a link in the nearest tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(super) struct TreePosition {
    /// Index of the tree among the roots of this sample; [`NONE`] if the link is in no tree.
    pub root: u32,
    /// The link for which this link waits, which is one link nearer to the root; [`NONE`] for the root.
    pub waits_for: u32,
    /// Number of links to the root.
    pub depth: u32,
    /// Virtual lanes on which the link waits for a root, one bit each; all lanes for a root.
    pub lanes: u16,
    /// Bytes that wait for the link; zero for a host's link.
    pub queued: u32,
    /// Whether the link waits only because special queues at its far end stop packets to a root. Other
    /// packets pass.
    pub is_isolated: bool,
}

impl TreePosition {
    /// Whether the link is in a tree.
    pub fn is_in(&self) -> bool {
        self.root != NONE
    }

    /// Whether the link is in a tree on a virtual lane.
    pub fn holds(&self, vl: u8) -> bool {
        self.lanes >> vl & 1 == 1
    }
}

const NOT_IN: TreePosition =
    TreePosition { root: NONE, waits_for: NONE, depth: 0, lanes: 0, queued: 0, is_isolated: false };

#[derive(Debug, Saved)]
pub(super) struct Moment {
    /// One entry per link.
    pub members: Vec<TreePosition>,
    /// Roots, in the order of links.
    pub roots: Vec<u32>,
    /// Links in trees: first the roots, then the links that wait directly for them, and so on.
    pub order: Vec<u32>,
    /// One entry per link; `Free` for a host's link.
    states: Vec<OutputState>,
    /// The wait relation: `(a, b, vl, lane)` means that link `b` waits on virtual lane `vl` for `lane` of
    /// link `a`.
    waits: Vec<(u32, u32, u8, u8)>,
    /// Whether each link waits for another link.
    waiting: Vec<bool>,
    /// Whether each link waits because it lacks credit.
    lacks_credit: Vec<bool>,
    /// For each link, a fixed number of words with one bit per root for which the link waits, directly or
    /// indirectly.
    sets: Vec<u64>,
    words: usize,
}

impl Moment {
    pub fn new(links: usize) -> Self {
        let (roots, order, waits, waiting) = (Vec::new(), Vec::new(), Vec::new(), vec![false; links]);
        let (members, states) = (vec![NOT_IN; links], vec![OutputState::Free; links]);
        let lacks_credit = waiting.clone();
        Self { members, roots, order, states, waits, waiting, lacks_credit, sets: Vec::new(), words: 0 }
    }

    /// Assigns each link to its nearest root only.
    #[cfg(test)]
    pub fn mark_nearest(&mut self) {
        self.words = 1;
        self.sets = self.members.iter().map(|one| if one.root == NONE { 0 } else { 1 << one.root }).collect();
    }

    /// Makes a link wait for the roots with these bits.
    #[cfg(test)]
    pub fn set_trees_of(&mut self, link: usize, roots: u64) {
        self.sets[link] = roots;
    }

    /// The indices of the roots for which a link waits, directly or indirectly.
    pub fn trees_of(&self, link: u32) -> impl Iterator<Item = u32> + use<'_> {
        let first = link as usize * self.words;
        let words = self.sets.get(first..first + self.words).unwrap_or_default();
        words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|&word| word != 0)
                .map(move |word| at as u32 * 64 + word.trailing_zeros())
        })
    }

    /// Finds the trees of this sample. A root is a loaded output that does not wait itself, that was busy
    /// during the interval or faces a host, and for which other links wait or special queues exist. A root
    /// that already had a tree, according to `lives`, keeps the tree while the root is busy. If a host that is not slow
    /// has so small a buffer that its link lacks credit also for a single flow, two links must wait.
    pub fn find(&mut self, view: View, map: &mut Map, span: Time, lives: impl Fn(u32) -> bool) {
        for &link in &self.order {
            self.members[link as usize] = NOT_IN;
        }
        self.roots.clear();
        self.order.clear();
        self.waits.clear();
        self.waiting.fill(false);
        self.lacks_credit.fill(false);
        let is_some_loaded = self.read_states(view, map);
        if is_some_loaded {
            self.find_waits(view, map);
        }
        for at in 0..map.links.len() {
            let bytes = map.carried(view, at);
            if self.states[at] != OutputState::Loaded {
                continue;
            }
            let is_busy = map.utilisation(view, at, bytes, span) >= ForestObserver::BUSY;
            if self.is_root(view, map, (at as u32, is_busy), &lives) {
                let root = self.roots.len() as u32;
                self.members[at] = TreePosition { root, lanes: u16::MAX, ..NOT_IN };
                self.roots.push(at as u32);
                self.order.push(at as u32);
            }
        }
        self.spread();
        self.gather();
        for &link in &self.order {
            if let Some((switch, output)) = map.links[link as usize].switch {
                let queued = view.queued_bytes(switch, output);
                self.members[link as usize].queued = queued;
            }
            let (lacks_credit, member) = (self.lacks_credit[link as usize], &mut self.members[link as usize]);
            member.is_isolated = member.depth > 0 && !lacks_credit;
        }
    }

    /// Whether a loaded output is a root.
    fn is_root(
        &self,
        view: View,
        map: &Map,
        (at, is_busy): (u32, bool),
        lives: &impl Fn(u32) -> bool,
    ) -> bool {
        if self.waiting[at as usize] {
            return false;
        }
        let first = self.waits.partition_point(|wait| wait.0 < at);
        let is_waited_for = self.waits.get(first).is_some_and(|wait| wait.0 == at);
        let several_wait = || {
            let mut waiting = self.waits[first..].iter().take_while(|wait| wait.0 == at);
            waiting.any(|wait| wait.1 != self.waits[first].1)
        };
        let link = &map.links[at as usize];
        let faces_host = link.host != NONE && (!link.is_short || several_wait());
        let has_queues = |(switch, output): (u32, Port)| {
            let cams = view.cams(switch);
            cams.is_some_and(|cams| cams.is_root(output))
        };
        (is_busy || faces_host) && (is_waited_for || link.switch.is_some_and(has_queues))
            || is_busy && lives(at)
    }

    /// Determines the state of each output. Returns whether any output is loaded, because there are no roots
    /// without loaded outputs.
    fn read_states(&mut self, view: View, map: &Map) -> bool {
        let mut is_some_loaded = false;
        for (link, state) in map.links.iter().zip(&mut self.states) {
            let Some((switch, output)) = link.switch else { continue };
            let queued = view.queued_bytes(switch, output);
            *state = if queued == 0 {
                OutputState::Free
            } else if (0..map.lanes).map(Vl).any(|vl| !view.has_some_credit(link.channel, vl, map.full_space))
            {
                if link.host == NONE { OutputState::Blocked } else { OutputState::Loaded }
            } else if queued > 2 * map.full_space {
                OutputState::Loaded
            } else {
                OutputState::Free
            };
            is_some_loaded |= *state == OutputState::Loaded;
        }
        is_some_loaded
    }

    /// Adds to each tree the links that wait for its root, nearest links first.
    fn spread(&mut self) {
        let mut reached: Vec<(u32, u16)> = self.roots.iter().map(|&root| (root, u16::MAX)).collect();
        let mut next = 0;
        while let Some(&(link, lanes)) = reached.get(next) {
            next += 1;
            let TreePosition { root, depth, .. } = self.members[link as usize];
            let first = self.waits.partition_point(|wait| wait.0 < link);
            for &(_, waiting, vl, lane) in self.waits[first..].iter().take_while(|wait| wait.0 == link) {
                let member = &mut self.members[waiting as usize];
                if lanes >> lane & 1 == 0 || member.holds(vl) {
                    continue;
                }
                if !member.is_in() {
                    *member = TreePosition { root, waits_for: link, depth: depth + 1, ..NOT_IN };
                    self.order.push(waiting);
                }
                member.lanes |= 1 << vl;
                reached.push((waiting, 1 << vl));
            }
        }
    }

    /// Finds all roots for which each link waits. A second round reaches links that wait for links at the
    /// same distance from a root.
    fn gather(&mut self) {
        let Self { members, roots, order, waits, sets, words, .. } = self;
        *words = roots.len().div_ceil(64);
        sets.clear();
        sets.resize(members.len() * *words, 0);
        for (at, &root) in roots.iter().enumerate() {
            sets[root as usize * *words + at / 64] |= 1 << (at % 64);
        }
        for &link in order.iter().chain(order.iter()) {
            let first = waits.partition_point(|wait| wait.0 < link);
            for &(_, waiting, _, lane) in waits[first..].iter().take_while(|wait| wait.0 == link) {
                if !members[link as usize].holds(lane) {
                    continue;
                }
                for word in 0..*words {
                    sets[waiting as usize * *words + word] |= sets[link as usize * *words + word];
                }
            }
        }
    }

    /// Finds the wait relation.
    fn find_waits(&mut self, view: View, map: &Map) {
        for (at, link) in map.links.iter().enumerate() {
            // A host's link has no state, so it is always examined.
            if link.switch.is_some() && self.states[at] == OutputState::Free {
                continue;
            }
            let Some((far, input)) = view.receiver.get(link.channel as usize).copied().flatten() else {
                continue;
            };
            for vl in 0..map.lanes {
                // A sender that spends credit as soon as it arrives has credit for one packet at times, so
                // require two.
                if view.has_some_credit(link.channel, Vl(vl), 2 * map.full_space) {
                    continue;
                }
                for (output, lane) in view.heads(far, input, Vl(vl)) {
                    let wanted = map.outputs[far as usize][output.index()];
                    if wanted != NONE && self.states[wanted as usize] != OutputState::Free {
                        self.waits.push((wanted, at as u32, vl, lane.0));
                        self.lacks_credit[at] = true;
                    }
                }
            }
        }
        self.find_stopped(view, map);
        // The order is that of tuples; a single number needs only one comparison.
        self.waits.sort_unstable_by_key(|&(link, waiting, vl, lane)| {
            u128::from(link) << 48 | u128::from(waiting) << 16 | u128::from(vl) << 8 | u128::from(lane)
        });
        self.waits.dedup();
        self.waits.iter().for_each(|wait| self.waiting[wait.1 as usize] = true);
    }

    /// Finds outputs of switches and hosts at which the next switch has stopped packets to a host whose link
    /// is loaded.
    fn find_stopped(&mut self, view: View, map: &Map) {
        let hosts: Vec<u32> = (map.links.iter().zip(&self.states))
            .filter(|(link, state)| link.host != NONE && **state != OutputState::Free)
            .map(|(link, _)| link.host)
            .collect();
        let lanes = usize::from(map.lanes);
        let mut stopped = |cams: &Cams, output: Port, (channel, at): (ChannelId, u32)| {
            let Some((far, _)) = view.receiver.get(channel as usize).copied().flatten() else { return };
            for &host in &hosts {
                for vl in (0..map.lanes).filter(|&vl| cams.stops(PortVl::of(output, Vl(vl), lanes), host)) {
                    let wanted = map.wanted(view, far, (host, vl));
                    self.waits.extend(wanted.map(|wanted| (wanted, at, vl, vl)));
                }
            }
        };
        for (number, outputs) in (0..).zip(&map.outputs) {
            let Some(cams) = view.cams(number).filter(|cams| cams.output_lines() > 0) else { continue };
            for (output, &at) in Port::all(outputs.len()).zip(outputs).filter(|one| *one.1 != NONE) {
                if view.queued_bytes(number, output) > 0 {
                    stopped(cams, output, (view.ports(number).out(output), at));
                }
            }
        }
        for (sender, &at) in view.hosts().zip(&map.of_host).filter(|one| *one.1 != NONE) {
            let Some(cams) = sender.cams().filter(|cams| cams.output_lines() > 0) else { continue };
            stopped(cams, Port::FIRST, (sender.out, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trees of the given roots. Each wait consists of the link waited for, the waiting link, its lane,
    /// and the lane for which it waits.
    fn trees(links: usize, roots: &[u32], waits: &[(u32, u32, u8, u8)]) -> Moment {
        let mut moment = Moment::new(links);
        for (index, &root) in (0..).zip(roots) {
            moment.members[root as usize] = TreePosition { root: index, lanes: u16::MAX, ..NOT_IN };
        }
        (moment.roots, moment.order, moment.waits) = (roots.to_vec(), roots.to_vec(), waits.to_vec());
        moment.spread();
        moment.gather();
        moment
    }

    #[test]
    fn a_link_belongs_to_the_nearest_root_and_to_all_trees_that_it_waits_for() {
        let waits = [(0, 1, 0, 0), (1, 2, 0, 0), (2, 4, 1, 1), (2, 5, 1, 0), (3, 2, 0, 0)];
        let moment = trees(6, &[0, 3], &waits);
        let place = |link: usize| {
            let TreePosition { root, waits_for, depth, .. } = moment.members[link];
            (root, waits_for, depth)
        };
        assert_eq!([0, 3].map(place), [(0, NONE, 0), (1, NONE, 0)]);
        assert_eq!(place(1), (0, 0, 1));
        // The link waits for link 1 of the first tree, and for the second root itself.
        assert_eq!(place(2), (1, 3, 1));
        // Link 2 waits only on lane 0, so a link that waits for lane 1 of link 2 is not in the tree.
        assert!(!moment.members[4].is_in() && moment.members[5].is_in());
        assert_eq!(place(5), (1, 2, 2));
        assert_eq!([0, 1].map(|vl| moment.members[5].holds(vl)), [false, true]);
        assert_eq!(moment.order, [0, 3, 1, 2, 5]);
        let of = |link| moment.trees_of(link).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3, 4, 5].map(of), [vec![0], vec![0], vec![0, 1], vec![1], vec![], vec![0, 1]]);
    }

    #[test]
    fn there_may_be_more_than_64_trees() {
        let roots: Vec<u32> = (0..130).collect();
        let moment = trees(131, &roots, &[(3, 130, 0, 0), (64, 130, 0, 0), (129, 130, 0, 0)]);
        assert_eq!(moment.trees_of(130).collect::<Vec<_>>(), [3, 64, 129]);
        assert_eq!(moment.trees_of(128).collect::<Vec<_>>(), [128]);
        assert_eq!(moment.members[130].root, 3);
    }
}
