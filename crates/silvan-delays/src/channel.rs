//! What happens on a channel, and in the buffer behind it.

use crate::Picos;

/// Number of packets that are searched for one that is in a buffer.
const MOST_ROWS_SEARCHED: usize = 4096;
/// An output is the root of a queue if it sends for at least this share of a period, as in congestion trees.
const ROOT_SHARE: f64 = 0.9;

/// A packet that passes a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    pub arrival: Picos,
    /// The start and the end of its departure from the buffer.
    pub leaves: Picos,
    pub left: Picos,
    /// The departure; `None` if it was not recorded.
    pub row: Option<u32>,
}

/// The packets that pass the buffer at the end of a channel, in the order in which they have left it.
#[derive(Debug)]
pub(crate) struct Buffer {
    passages: Vec<Passage>,
    arrivals: Vec<Picos>,
}

impl Buffer {
    pub fn new(mut passages: Vec<Passage>) -> Self {
        passages.sort_by_key(|passage| passage.left);
        let mut arrivals: Vec<Picos> = passages.iter().map(|passage| passage.arrival).collect();
        arrivals.sort_unstable();
        Self { passages, arrivals }
    }

    /// The packet that waits in the buffer at a time and leaves first, or one whose transmission has begun if no packet
    /// waits; `None` if the buffer is empty.
    pub fn first_present(&self, time: Picos) -> Option<Passage> {
        let mut leaving = None;
        for passage in self.inside(time) {
            if passage.leaves > time {
                return Some(*passage);
            }
            leaving = leaving.or(Some(*passage));
        }
        leaving
    }

    /// The packets that are in the buffer at a time.
    fn inside(&self, time: Picos) -> impl Iterator<Item = &Passage> {
        let left = self.passages.partition_point(|passage| passage.left <= time);
        let arrived = self.arrivals.partition_point(|&arrival| arrival <= time);
        let near = self.passages[left..].iter().take(MOST_ROWS_SEARCHED);
        // Those that have left had arrived, so the others that have arrived are inside.
        near.filter(move |passage| passage.arrival <= time).take(arrived.saturating_sub(left))
    }

    /// The packet that the buffer sends at a time, if it sends one packet at a time.
    pub fn leaving(&self, time: Picos) -> Option<Passage> {
        let first = self.passages.partition_point(|passage| passage.left <= time);
        self.passages.get(first).copied().filter(|passage| passage.leaves <= time)
    }

    /// The last of the packets that arrived before `arrival` and are in the buffer at a time.
    pub fn in_front(&self, arrival: Picos, time: Picos) -> Option<Passage> {
        let earlier = self.inside(time).filter(|passage| passage.arrival < arrival);
        earlier.max_by_key(|passage| passage.arrival).copied()
    }

    /// The recorded departures of the packets that are in the buffer at a time.
    pub fn present(&self, time: Picos) -> impl Iterator<Item = u32> {
        self.inside(time).filter_map(|passage| passage.row)
    }

    /// The first arrival after a time; `limit` if there is none before.
    pub fn next_arrival(&self, time: Picos, limit: Picos) -> Picos {
        let at = self.arrivals.partition_point(|&arrival| arrival <= time);
        self.arrivals.get(at).map_or(limit, |&arrival| arrival.min(limit))
    }
}

/// The times in which packets wait for a channel, which sends others, or lacks credit.
///
/// A *period* lasts as long as packets wait without interruption. All lists have an element per departure.
#[derive(Debug)]
pub(crate) struct Backlog {
    starts: Vec<Picos>,
    /// Since when the channel could have sent, and for how long it lacked credit since then.
    since: Vec<Picos>,
    blocked: Vec<Picos>,
    period: Vec<u32>,
    /// The first element with a lack of credit from each one on, and the last one before it; the number of elements and
    /// [`usize::MAX`] if there is none.
    next_blocked: Vec<usize>,
    last_blocked: Vec<usize>,
    /// Sums of the elements before one.
    blocked_before: Vec<Picos>,
    busy_before: Vec<Picos>,
}

impl Backlog {
    /// `rows` are the arrival of each packet at the switch, and the start and the end of its departure.
    pub fn new(rows: &[(Picos, Picos, Picos)]) -> Self {
        let mut first: Vec<Picos> = rows.iter().map(|row| row.0).collect();
        for at in (1..rows.len()).rev() {
            first[at - 1] = first[at - 1].min(first[at]);
        }
        let mut found = Self {
            starts: rows.iter().map(|row| row.1).collect(),
            since: Vec::with_capacity(rows.len()),
            blocked: Vec::with_capacity(rows.len()),
            period: Vec::with_capacity(rows.len()),
            next_blocked: vec![rows.len(); rows.len()],
            last_blocked: Vec::with_capacity(rows.len()),
            blocked_before: vec![0],
            busy_before: vec![0],
        };
        let (mut free, mut period, mut blocked_sum, mut busy_sum) = (0, 0, 0, 0);
        for (&(_, start, end), first) in rows.iter().zip(first) {
            period += u32::from(first >= free);
            let since = first.max(free);
            let blocked = (start - since).max(0);
            (blocked_sum, busy_sum, free) = (blocked_sum + blocked, busy_sum + end - start, end);
            found.since.push(since);
            found.blocked.push(blocked);
            found.period.push(period);
            found.blocked_before.push(blocked_sum);
            found.busy_before.push(busy_sum);
        }
        let mut known = usize::MAX;
        for (at, &blocked) in found.blocked.iter().enumerate() {
            found.last_blocked.push(known);
            known = if blocked > 0 { at } else { known };
        }
        let mut known = rows.len();
        for at in (0..rows.len()).rev() {
            known = if found.blocked[at] > 0 { at } else { known };
            found.next_blocked[at] = known;
        }
        found
    }

    /// The times in which the channel lacked credit, in order.
    pub fn lacks(&self) -> impl Iterator<Item = (Picos, Picos)> {
        let all = self.since.iter().zip(&self.starts);
        all.filter(|(since, start)| since < start).map(|(&since, &start)| (since, start))
    }

    /// The lack of credit that is nearest to a departure, if the channel is no root in its period. `at` is the position
    /// of the departure on the channel. Only the part of the period within `span` counts.
    pub fn blocked_near(&self, at: usize, span: (Picos, Picos)) -> Option<(Picos, Picos)> {
        let period = self.period[at];
        let first = self.period.partition_point(|&one| one < period);
        let first =
            first.max(self.starts.partition_point(|&start| start <= span.0).saturating_sub(1)).min(at);
        let last = self.period.partition_point(|&one| one <= period);
        let last = last.min(self.starts.partition_point(|&start| start < span.1)).max(at + 1);
        let blocked = self.blocked_before[last] - self.blocked_before[first];
        let busy = self.busy_before[last] - self.busy_before[first];
        if blocked as f64 <= (1.0 - ROOT_SHARE) * (blocked + busy) as f64 {
            return None;
        }
        let (next, before) = (self.next_blocked[at], self.last_blocked[at]);
        let found =
            if next < last { next } else { Some(before).filter(|&one| one != usize::MAX && one >= first)? };
        Some((self.since[found], self.starts[found]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Backlog, Buffer, Passage};

    #[test]
    fn the_packet_that_leaves_first_is_in_front() {
        let passage = |arrival, leaves, left, row| Passage { arrival, leaves, left, row: Some(row) };
        let buffer = Buffer::new(vec![passage(0, 30, 40, 1), passage(5, 10, 20, 2)]);
        let row = |time| buffer.first_present(time).and_then(|first| first.row);
        // At 3, the second packet has not arrived. At 15, it is leaving, and the first one waits.
        assert_eq!(
            [row(-1), row(3), row(7), row(15), row(35), row(40)],
            [None, Some(1), Some(2), Some(1), Some(1), None]
        );
        assert_eq!(
            [buffer.next_arrival(-5, 9), buffer.next_arrival(0, 9), buffer.next_arrival(5, 9)],
            [0, 5, 9]
        );
    }

    #[test]
    fn a_channel_that_mostly_sends_is_a_root() {
        // Three packets wait from 0 on. The channel sends from 0 to 20, lacks credit until 30, and sends until 40.
        let backlog = Backlog::new(&[(0, 0, 10), (0, 10, 20), (0, 30, 40)]);
        assert_eq!(backlog.lacks().collect::<Vec<_>>(), [(20, 30)]);
        assert_eq!(backlog.blocked_near(0, (0, 100)), Some((20, 30)));
        // In the first 20, it was busy.
        assert_eq!(backlog.blocked_near(0, (0, 20)), None);
        // A packet that arrives when the channel is free starts another period.
        let backlog = Backlog::new(&[(0, 0, 100), (0, 101, 200), (250, 260, 300)]);
        assert_eq!(backlog.blocked_near(1, (0, 400)), None);
        assert_eq!(backlog.blocked_near(2, (0, 400)), Some((250, 260)));
    }
}
