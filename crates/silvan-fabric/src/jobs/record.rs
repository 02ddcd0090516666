//! What ranks did, for the explanation of delays.

use super::running::Running;
use crate::packet::FlowAddress;
use crate::recorder::{RecordedParcel, RunRecord};

/// Adds when CPUs of ranks were busy, and the messages of ranks.
pub(super) fn add(jobs: &mut [Running], recording: &mut RunRecord) {
    for (number, job) in (0..).zip(jobs) {
        recording.busy.extend(job.ranks.take_busy_times().into_iter().map(|time| (number, time)));
        let places = &job.setup.places;
        recording.parcels.extend(job.log.iter().map(|message| {
            let (from, to) = (places[message.from as usize], places[message.to as usize]);
            RecordedParcel {
                job: number,
                from: message.from,
                to: message.to,
                handed: message.handed,
                left: message.left,
                delivered: message.there,
                flow: FlowAddress { host: from.host, source: from.source + to.slot, destination: to.host },
            }
        }));
    }
}
