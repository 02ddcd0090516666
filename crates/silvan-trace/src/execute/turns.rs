//! Flows of messages that take turns to send a packet.
//!
//! The flows form a balanced binary tree (a treap) in the order of their turns. Each subtree has the time of a round of its
//! flows and the fewest packets that one of them has left, so that whole rounds and parts of a round are skipped in
//! logarithmic time.

use std::collections::{HashMap, VecDeque};

use silvan_engine::saved::{Damaged, Reader, Saved, Writer};

use super::loggp::Cost;
use super::ranks::Parcel;

/// A message that is being sent, or that waits for an earlier message to the same rank.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct Sending {
    pub parcel: Parcel,
    pub cost: Cost,
}

impl Sending {
    const fn pair(&self) -> (u32, u32) {
        (self.parcel.from, self.parcel.to)
    }
}

/// Stands for an empty subtree.
const NONE: u32 = u32::MAX;

/// The messages of a pair of ranks, and the root of a subtree.
#[derive(Debug)]
struct Node {
    flow: VecDeque<Sending>,
    /// Number of packets of the first message that have not left completely.
    left: u64,
    /// The subtrees of the flows that have their turns before and after this one.
    children: [u32; 2],
    /// Packets that each flow below this one has sent, but that are not subtracted there yet.
    sent: u64,
    /// The time in which each flow of the subtree sends a packet.
    round: u128,
    /// The smallest `left` of the subtree.
    fewest: u64,
}

/// Flows in the order of their turns. A packet of the first flow is being sent.
#[derive(Debug)]
pub(super) struct Turns {
    nodes: Vec<Node>,
    root: u32,
    /// Nodes that are not in the tree.
    unused: Vec<u32>,
    /// The node of each pair of ranks.
    of_pair: HashMap<(u32, u32), u32>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NONE, unused: Vec::new(), of_pair: HashMap::new() }
    }
}

impl Turns {
    /// Adds a message. Returns whether it need not wait for another one of its pair of ranks. It then has its turn after
    /// all others.
    pub fn push(&mut self, sending: Sending) -> bool {
        if let Some(&node) = self.of_pair.get(&sending.pair()) {
            self.nodes[node as usize].flow.push_back(sending);
            return false;
        }
        self.append(VecDeque::from([sending]), sending.cost.packets);
        true
    }

    fn append(&mut self, flow: VecDeque<Sending>, left: u64) {
        let pair = flow[0].pair();
        let node = Node { flow, left, children: [NONE; 2], sent: 0, round: 0, fewest: 0 };
        let at = self.unused.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(at as usize) {
            Some(unused) => *unused = node,
            None => self.nodes.push(node),
        }
        self.of_pair.insert(pair, at);
        self.update(at);
        self.root = self.merge(self.root, at);
    }

    /// The time in which each flow sends a packet.
    pub fn round(&self) -> u128 {
        self.round_of(self.root)
    }

    /// The number of rounds before the last packet of a message.
    pub fn full_rounds(&self) -> u64 {
        self.nodes.get(self.root as usize).map_or(0, |node| node.fewest - 1)
    }

    /// Each flow sends a number of packets.
    pub fn skip(&mut self, rounds: u64) {
        self.subtract(self.root, rounds);
    }

    /// Sends as many packets, except last ones, as end within a time. Returns the time in which they are sent.
    pub fn advance(&mut self, time: u128) -> u128 {
        let (first, others) = self.split(self.root, time);
        self.subtract(first, 1);
        let passed = self.round_of(first);
        self.root = self.merge(others, first);
        passed
    }

    /// The time until a message is complete, and this message; `None` without messages.
    pub fn next(&mut self) -> Option<(u128, Parcel)> {
        let (round, rounds) = (self.round(), u128::from(self.full_rounds()));
        let (mut at, mut earlier) = (self.root, 0);
        while at != NONE {
            self.settle(at);
            let Node { ref flow, left, children: [before, after], fewest, .. } = self.nodes[at as usize];
            let Sending { parcel, cost } = flow[0];
            if self.fewest_of(before) == fewest {
                at = before;
                continue;
            }
            earlier += self.round_of(before);
            if left == fewest {
                let last = cost.sending - cost.packet * u128::from(cost.packets - 1);
                return Some((earlier + rounds * round + last, parcel));
            }
            earlier += cost.packet;
            at = after;
        }
        None
    }

    /// Removes the message whose turn it is. Returns it, and the next message of its pair of ranks, which has its turn after
    /// all others.
    pub fn complete(&mut self) -> Option<(Sending, Option<Sending>)> {
        if self.root == NONE {
            return None;
        }
        let (first, others) = self.split_first(self.root);
        self.root = others;
        self.unused.push(first);
        let mut flow = std::mem::take(&mut self.nodes[first as usize].flow);
        let done = flow.pop_front()?;
        self.of_pair.remove(&done.pair());
        let next = flow.front().copied();
        if let Some(next) = next {
            self.append(flow, next.cost.packets);
        }
        Some((done, next))
    }

    fn round_of(&self, at: u32) -> u128 {
        self.nodes.get(at as usize).map_or(0, |node| node.round)
    }

    fn fewest_of(&self, at: u32) -> u64 {
        self.nodes.get(at as usize).map_or(u64::MAX, |node| node.fewest)
    }

    /// Subtracts packets from all flows of a subtree.
    fn subtract(&mut self, at: u32, packets: u64) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.left -= packets;
            node.fewest -= packets;
            node.sent += packets;
        }
    }

    /// Subtracts the packets that the flows below a node have sent.
    fn settle(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let (sent, children) = (std::mem::take(&mut node.sent), node.children);
        children.into_iter().for_each(|child| self.subtract(child, sent));
    }

    /// Computes the values of a subtree from those of its parts.
    fn update(&mut self, at: u32) {
        let Node { ref flow, left, children: [before, after], .. } = self.nodes[at as usize];
        let round = flow[0].cost.packet + self.round_of(before) + self.round_of(after);
        let fewest = left.min(self.fewest_of(before)).min(self.fewest_of(after));
        let node = &mut self.nodes[at as usize];
        (node.round, node.fewest) = (round, fewest);
    }

    fn set_child(&mut self, at: u32, side: usize, child: u32) {
        self.nodes[at as usize].children[side] = child;
        self.update(at);
    }

    /// Joins two trees. The flows of the first one have their turns first.
    fn merge(&mut self, first: u32, second: u32) -> u32 {
        if first == NONE || second == NONE {
            return first.min(second);
        }
        if priority(first) > priority(second) {
            self.settle(first);
            let after = self.merge(self.nodes[first as usize].children[1], second);
            self.set_child(first, 1, after);
            return first;
        }
        self.settle(second);
        let before = self.merge(first, self.nodes[second as usize].children[0]);
        self.set_child(second, 0, before);
        second
    }

    /// Splits off the flows that send a packet, except for a last one, one after the other within a time.
    fn split(&mut self, at: u32, time: u128) -> (u32, u32) {
        if self.fewest_of(at) > 1 && self.round_of(at) <= time {
            return (at, NONE);
        }
        self.settle(at);
        let Node { ref flow, left, children: [before, after], .. } = self.nodes[at as usize];
        let own = flow[0].cost.packet;
        if before != NONE && (self.fewest_of(before) == 1 || self.round_of(before) > time) {
            let (first, rest) = self.split(before, time);
            self.set_child(at, 0, rest);
            return (first, at);
        }
        let time = time - self.round_of(before);
        if left == 1 || own > time {
            self.set_child(at, 0, NONE);
            return (before, at);
        }
        let (first, rest) = self.split(after, time - own);
        self.set_child(at, 1, first);
        (at, rest)
    }

    /// Splits off the first flow.
    fn split_first(&mut self, at: u32) -> (u32, u32) {
        self.settle(at);
        let [before, after] = self.nodes[at as usize].children;
        if before == NONE {
            return (at, after);
        }
        let (first, rest) = self.split_first(before);
        self.set_child(at, 0, rest);
        (first, at)
    }

    /// Lists the flows of a subtree and the packets left of their first messages, in the order of their turns.
    fn list(&self, at: u32, sent: u64, to: &mut Vec<(u64, VecDeque<Sending>)>) {
        if let Some(node) = self.nodes.get(at as usize) {
            let [before, after] = node.children;
            self.list(before, sent + node.sent, to);
            to.push((node.left - sent, node.flow.clone()));
            self.list(after, sent + node.sent, to);
        }
    }
}

/// The priority of a node, which is the largest one of its subtree: pseudo-random, so that the tree is balanced.
const fn priority(at: u32) -> u64 {
    let mixed = (at as u64 ^ 0x2545_f491_4f6c_dd1d).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

/// The flows are saved in the order of their turns. The tree follows from them.
impl Saved for Turns {
    const LAYOUT: u64 = Vec::<(u64, VecDeque<Sending>)>::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        let mut flows = Vec::new();
        self.list(self.root, 0, &mut flows);
        flows.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::load(from)?;
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut turns = Self::default();
        for (left, flow) in Vec::<(u64, VecDeque<Sending>)>::load(from)? {
            let is_valid = |one: &Sending| {
                let Cost { sending, packet, packets, .. } = one.cost;
                let before_last = packet.checked_mul(u128::from(packets.wrapping_sub(1)));
                sending < 1 << 96 && before_last.is_some_and(|time| time <= sending)
            };
            let first = flow.front().filter(|first| (1..=first.cost.packets).contains(&left));
            let is_other = first.is_some_and(|first| !turns.of_pair.contains_key(&first.pair()));
            if !is_other || !flow.iter().all(is_valid) {
                return Err(Damaged::Wrong("the messages of a host that take turns are inconsistent".into()));
            }
            turns.append(flow, left);
        }
        Ok(turns)
    }
}
