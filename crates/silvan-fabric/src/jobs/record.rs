//! What ranks did, for the explanation of delays.

use silvan_engine::Time;
use silvan_trace::execute::BusyTime;

use super::Logged;
use super::running::Running;
use crate::packet::FlowAddress;
use crate::recorder::{small, table, times};
use crate::table::{Table, Values};

/// A message of a rank, and its flow.
type Message = (u32, Logged, FlowAddress);

/// The tables `busy` and `parcels`: when CPUs of ranks were busy, and the messages of ranks.
pub(super) fn tables(jobs: &mut [Running]) -> [Table; 2] {
    let mut busy: Vec<(u32, BusyTime)> = Vec::new();
    let mut parcels: Vec<Message> = Vec::new();
    for (number, job) in (0..).zip(jobs) {
        busy.extend(job.ranks.take_busy_times().into_iter().map(|time| (number, time)));
        let places = &job.setup.places;
        parcels.extend(job.log.iter().map(|&message| {
            let (from, to) = (places[message.from as usize], places[message.to as usize]);
            let source = from.source + to.slot;
            (number, message, FlowAddress { host: from.host, source, destination: to.host })
        }));
    }
    let rows = &busy;
    let busy = table(
        "busy",
        vec![
            ("job", small(rows, |row| row.0)),
            ("rank", small(rows, |row| row.1.rank)),
            ("start_ps", times(rows, |row| row.1.start)),
            ("end_ps", times(rows, |row| row.1.end)),
            ("computes", small(rows, |row| row.1.computes.into())),
        ],
    );
    let rows = &parcels;
    let parcels = table(
        "parcels",
        vec![
            ("job", small(rows, |row| row.0)),
            ("from_rank", small(rows, |row| row.1.from)),
            ("to_rank", small(rows, |row| row.1.to)),
            ("bytes", Values::U64(rows.iter().map(|row| row.1.bytes).collect())),
            ("handed_ps", times(rows, |row| row.1.handed)),
            ("left_ps", times(rows, |row| row.1.left.unwrap_or(Time::NEVER))),
            ("delivered_ps", times(rows, |row| row.1.there.unwrap_or(Time::NEVER))),
            ("source_host", small(rows, |row| row.2.host)),
            ("source", small(rows, |row| row.2.source.into())),
            ("destination_host", small(rows, |row| row.2.destination)),
        ],
    );
    [busy, parcels]
}
