//! What ports did in intervals of time, in the manner of hardware counters.

use silvan_fabric::{NOT_RECORDED, RecordedRole};

use crate::channel::Backlog;
use crate::record::{Record, picos};
use crate::{Picos, Span};

/// What the sending port of each channel did in each interval. The lists have an element per interval and channel: those of
/// the first interval, then those of the second.
///
/// Packets count in the interval in which they start, and their bytes in those in which they are sent. Packets that have
/// not left their buffer at the end of the recording do not count, and neither does the time for which they have waited.
#[derive(Debug)]
pub struct PortActivity {
    /// Packets, without link-level messages.
    pub packets: Vec<u64>,
    /// Bytes of these packets, with headers.
    pub bytes: Vec<u64>,
    /// Notifications of marks among these packets.
    pub notifications: Vec<u64>,
    /// Time in picoseconds in which the port had a packet to send and sent nothing.
    pub waiting: Vec<u64>,
}

/// `ends` are the ends of the intervals, in order; the first starts at 0.
pub(crate) fn activity(record: &Record, ends: &[Picos]) -> PortActivity {
    let channels = record.channels().len();
    let none = || vec![0; ends.len() * channels];
    let mut found = PortActivity { packets: none(), bytes: none(), notifications: none(), waiting: none() };
    for channel in 0..channels as u32 {
        let cell = |interval: usize| interval * channels + channel as usize;
        for row in record.departures(channel) {
            let hop = record.hop(row);
            let interval = ends.partition_point(|&end| end <= record.start(row));
            if hop.packet == NOT_RECORDED || interval == ends.len() {
                continue;
            }
            found.packets[cell(interval)] += 1;
            let (start, end) = (record.start(row), record.end(row));
            let mut left = u64::from(hop.size);
            for (interval, &edge) in ends.iter().enumerate().skip(interval) {
                let unsent = u64::from(hop.size) * (end - edge).max(0) as u64 / (end - start).max(1) as u64;
                found.bytes[cell(interval)] += left - unsent;
                left = unsent;
                if left == 0 {
                    break;
                }
            }
            let is_notification = record.packet(hop.packet).role == RecordedRole::Notification;
            found.notifications[cell(interval)] += u64::from(is_notification);
        }
        let host = record.channels()[channel as usize].from_host;
        let waits =
            if host == NOT_RECORDED { waits_in_switch(record, channel) } else { waits_in_host(record, host) };
        for (start, end) in waits {
            let mut at = start;
            let first = ends.partition_point(|&end| end <= start);
            for (interval, &edge) in ends.iter().enumerate().skip(first) {
                let stop = edge.min(end);
                if at >= stop {
                    break;
                }
                found.waiting[cell(interval)] += (stop - at) as u64;
                at = stop;
            }
        }
    }
    found
}

fn waits_in_switch(record: &Record, channel: u32) -> Vec<Span> {
    let times = |row: u32| {
        let ready =
            record.previous(row).map_or(record.start(row), |before| record.ready_times(row, before).0);
        (ready, record.start(row), record.end(row))
    };
    let rows: Vec<_> = record.departures(channel).map(times).collect();
    Backlog::new(&rows).lacks().collect()
}

/// The times in which a flow of a host may send and has data, but the host sends nothing although its injection limit
/// permits it.
fn waits_in_host(record: &Record, host: u32) -> Vec<Span> {
    let mut wanted = Vec::new();
    for flow in record.flows().filter(|flow| flow.host == host) {
        let pending = record.packets_of(flow).iter().filter_map(|&packet| {
            let known = record.packet(packet);
            let first = *record.hops(packet).first()?;
            let is_data = known.role == RecordedRole::Data && record.channel(first).from_host == host;
            is_data.then(|| (picos(known.created), record.start(first)))
        });
        for span in united(pending.collect()) {
            let free = record.flow_waits(flow, span).into_iter().filter(|wait| wait.2.is_none());
            wanted.extend(free.map(|(start, end, _)| (start, end)));
        }
    }
    let sending = record.departures(record.out_of(host)).map(|row| (record.start(row), record.end(row)));
    let not_waiting = united(sending.chain(record.injection(host).iter().copied()).collect());
    without(&united(wanted), &not_waiting)
}

/// The union of spans, in order.
pub(crate) fn united(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut found: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match found.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => found.push((start, end)),
        }
    }
    found.retain(|span| span.0 < span.1);
    found
}

/// The parts of spans that are not in others. Both are in order and without overlaps.
fn without(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut found = Vec::new();
    for &(start, end) in spans {
        let mut at = start;
        let first = others.partition_point(|other| other.1 <= start);
        for &(begin, stop) in others[first..].iter().take_while(|other| other.0 < end) {
            if at < begin {
                found.push((at, begin));
            }
            at = stop;
        }
        if at < end {
            found.push((at, end));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{united, without};

    #[test]
    fn spans_are_united_and_subtracted() {
        assert_eq!(united(vec![(5, 9), (0, 2), (2, 3), (8, 12), (20, 20)]), [(0, 3), (5, 12)]);
        let others = [(0, 1), (2, 3), (8, 30)];
        assert_eq!(without(&[(1, 2), (2, 9), (40, 50)], &others), [(1, 2), (3, 8), (40, 50)]);
        assert_eq!(without(&[(2, 3)], &others), []);
    }
}
