//! Matches messages with receives, as MPI does.

use silvan_engine::saved::{Saved, Writer};
use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::trace::{ANY, COLLECTIVE_TAGS, Trace};

/// Source and tag. In receives, either of them may be [`ANY`].
type Key = (u32, u32);

#[derive(Debug, Default, Saved)]
pub(super) struct Rank {
    /// Posted receives with the time of posting, in the order of posting.
    posted: HashMap<Key, VecDeque<(u64, u32)>>,
    /// Messages that arrived before their receive was posted, by source and tag, in the order of arrival.
    early: HashMap<Key, VecDeque<(u64, u32)>>,
    /// The keys of the messages in `early`, in the order of arrival, for receives with wildcards.
    early_in_order: BTreeMap<u64, Key>,
    /// Counts postings and arrivals, to order them.
    clock: u64,
}

impl Rank {
    /// Saves the entries with the numbers of operations as those of the rank `me` for receives, and of the source for messages.
    fn save_relative(&self, me: u32, to: &mut Writer<'_>) {
        let clock = to.series(1);
        for (is_early, queues) in [(false, &self.posted), (true, &self.early)] {
            let mut keys: Vec<&Key> = queues.keys().collect();
            keys.sort_unstable();
            put_length(keys.len(), to);
            for key in keys {
                key.save(to);
                put_length(queues[key].len(), to);
                for &(at, operation) in &queues[key] {
                    to.put_serial(at, clock);
                    to.put_operation(operation, if is_early { key.0 } else { me });
                }
            }
        }
        put_length(self.early_in_order.len(), to);
        for (at, key) in &self.early_in_order {
            to.put_serial(*at, clock);
            key.save(to);
        }
        to.put_serial(self.clock, clock);
    }
}

fn put_length(length: usize, to: &mut Writer<'_>) {
    to.put_state(&(length as u64).to_le_bytes());
}

/// Posted receives and arrived messages of each rank. Matching is first in, first out for each source,
/// destination and tag: a message matches the earliest posted receive that fits, and a receive matches
/// the earliest message that fits.
#[derive(Debug, Saved)]
#[saved(relative(Self::save_relative))]
pub(super) struct Matching(pub(super) Vec<Rank>);

impl Matching {
    fn save_relative(&self, to: &mut Writer<'_>) {
        put_length(self.0.len(), to);
        to.label("Matching");
        (0..).zip(&self.0).for_each(|(me, rank)| rank.save_relative(me, to));
    }

    pub(super) fn new(ranks: usize) -> Self {
        Self(std::iter::repeat_with(Rank::default).take(ranks).collect())
    }

    /// Handles the arrival of a message; returns the receive that it matches, if one is posted.
    pub(super) fn arrive(&mut self, to: u32, from: u32, tag: u32, send: u32) -> Option<u32> {
        let rank = &mut self.0[to as usize];
        let keys = [(from, tag), (ANY, tag), (from, ANY), (ANY, ANY)];
        let fitting = if tag < COLLECTIVE_TAGS { 4 } else { 2 };
        let first = |key: &Key| Some((rank.posted.get(key)?.front()?.0, *key));
        if let Some((_, key)) = keys[..fitting].iter().filter_map(first).min() {
            return pop(&mut rank.posted, key).map(|(_, receive)| receive);
        }
        rank.clock += 1;
        rank.early.entry((from, tag)).or_default().push_back((rank.clock, send));
        rank.early_in_order.insert(rank.clock, (from, tag));
        None
    }

    /// Posts a receive; returns the rank and the send of the message that it matches, if one has arrived.
    pub(super) fn post(&mut self, to: u32, from: u32, tag: u32, receive: u32) -> Option<(u32, u32)> {
        let rank = &mut self.0[to as usize];
        let key = if from == ANY || tag == ANY {
            let fits = |&&(source, of): &&Key| {
                (from == ANY || source == from) && (if tag == ANY { of < COLLECTIVE_TAGS } else { of == tag })
            };
            rank.early_in_order.values().find(fits).copied()
        } else {
            Some((from, tag))
        };
        if let Some((clock, send)) = key.and_then(|key| pop(&mut rank.early, key)) {
            let (source, _) = rank.early_in_order.remove(&clock)?;
            return Some((source, send));
        }
        rank.clock += 1;
        rank.posted.entry((from, tag)).or_default().push_back((rank.clock, receive));
        None
    }

    /// Sends that were never received, as numbers over all ranks. They are ordered by rank and arrival.
    pub(super) fn unreceived(&self, trace: &Trace) -> Vec<usize> {
        let mut sends = Vec::new();
        for rank in &self.0 {
            let mut own: Vec<(u64, usize)> = rank
                .early
                .iter()
                .flat_map(|(&(from, _), queue)| {
                    queue.iter().map(move |&(clock, send)| (clock, trace.first(from) + send as usize))
                })
                .collect();
            own.sort_unstable();
            sends.extend(own.into_iter().map(|(_, send)| send));
        }
        sends
    }
}

/// Removes the first element of a queue, and the queue if it becomes empty, because there may be many
/// tags.
fn pop(queues: &mut HashMap<Key, VecDeque<(u64, u32)>>, key: Key) -> Option<(u64, u32)> {
    let queue = queues.get_mut(&key)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&key);
    }
    first
}
