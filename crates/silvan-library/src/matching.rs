//! Which messages complete which receives.
//!
//! Receives match bytes, not messages. A receive is complete when as many bytes have arrived with its tag from its sender at
//! its receiver as it needs and earlier receives have left. Surplus bytes remain for the next receive.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Messages and receives with equal values match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatchKey {
    /// The host that sends.
    pub from: u32,
    /// The host that receives.
    pub to: u32,
    /// A number that the program chooses.
    pub tag: u64,
}

/// The receives that wait for one kind of messages, or the bytes that wait for a receive.
#[derive(Debug)]
struct Waiting<R> {
    /// Bytes that have arrived and that no complete receive has used.
    bytes: u64,
    /// Receives in the order of posting, each with the number of its bytes.
    receives: VecDeque<(u64, R)>,
}

/// All receives of a run, each with a value.
#[derive(Debug)]
pub struct Matching<R> {
    waiting: FxHashMap<MatchKey, Waiting<R>>,
    open: u64,
}

impl<R> Default for Matching<R> {
    fn default() -> Self {
        Self { waiting: FxHashMap::default(), open: 0 }
    }
}

impl<R> Matching<R> {
    /// Number of receives that are not complete.
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// Adds a receive of at least one byte. `complete` is called with its value if enough bytes have arrived already.
    pub fn receive(&mut self, key: MatchKey, bytes: u64, receive: R, complete: impl FnMut(R)) {
        self.open += 1;
        self.change(key, complete, |waiting| waiting.receives.push_back((bytes, receive)));
    }

    /// Adds the bytes of a message that has arrived. `complete` is called with the value of each receive that is then
    /// complete, in the order of posting.
    pub fn arrive(&mut self, key: MatchKey, bytes: u64, complete: impl FnMut(R)) {
        self.change(key, complete, |waiting| waiting.bytes = waiting.bytes.saturating_add(bytes));
    }

    fn change(&mut self, key: MatchKey, mut complete: impl FnMut(R), change: impl FnOnce(&mut Waiting<R>)) {
        let waiting =
            self.waiting.entry(key).or_insert_with(|| Waiting { bytes: 0, receives: VecDeque::new() });
        change(waiting);
        while let Some(&(needed, _)) = waiting.receives.front()
            && needed <= waiting.bytes
            && let Some((_, receive)) = waiting.receives.pop_front()
        {
            waiting.bytes -= needed;
            self.open -= 1;
            complete(receive);
        }
        if waiting.bytes == 0 && waiting.receives.is_empty() {
            self.waiting.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: MatchKey = MatchKey { from: 0, to: 1, tag: 7 };
    const MIB: u64 = 1 << 20;

    /// Which receives are complete after each of these steps: a receive (its name and bytes), or an arrival (no name).
    fn completions(steps: &[(Option<char>, u64)]) -> Vec<String> {
        let mut matching = Matching::default();
        let mut step = |&(name, bytes): &(Option<char>, u64)| {
            let mut done = String::new();
            match name {
                Some(name) => matching.receive(KEY, bytes, name, |name| done.push(name)),
                None => matching.arrive(KEY, bytes, |name| done.push(name)),
            }
            done
        };
        steps.iter().map(&mut step).collect()
    }

    #[test]
    fn two_receives_share_a_message() {
        assert_eq!(completions(&[(Some('a'), MIB), (Some('b'), MIB), (None, 2 * MIB)]), ["", "", "ab"]);
    }

    #[test]
    fn a_receive_needs_two_messages() {
        assert_eq!(completions(&[(Some('a'), 2 * MIB), (None, MIB), (None, MIB)]), ["", "", "a"]);
    }

    #[test]
    fn surplus_bytes_remain_for_the_next_receive() {
        assert_eq!(completions(&[(None, 5), (Some('a'), 3), (Some('b'), 3), (None, 1)]), ["", "a", "", "b"]);
    }

    #[test]
    fn receives_are_complete_in_the_order_of_posting() {
        let steps = [(Some('a'), 4), (Some('b'), 1), (None, 1), (None, 3), (None, 1)];
        assert_eq!(completions(&steps), ["", "", "", "a", "b"]);
    }

    #[test]
    fn more_than_two_gibibytes_are_counted() {
        let most = 6 << 30;
        assert_eq!(completions(&[(Some('a'), most), (None, 3 << 30), (None, 3 << 30)]), ["", "", "a"]);
    }

    #[test]
    fn other_tags_and_hosts_do_not_match_and_nothing_is_kept() {
        let mut matching = Matching::default();
        matching.receive(KEY, 8, (), |()| unreachable!());
        for other in [MatchKey { from: 2, ..KEY }, MatchKey { to: 2, ..KEY }, MatchKey { tag: 8, ..KEY }] {
            matching.arrive(other, 8, |()| unreachable!());
            matching.receive(other, 8, (), |()| ());
        }
        assert_eq!((matching.open(), matching.waiting.len()), (1, 1));
        matching.arrive(KEY, 8, |()| ());
        assert_eq!((matching.open(), matching.waiting.len()), (0, 0));
    }
}
