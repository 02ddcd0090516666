//! What ranks did, for the explanation of delays.

use super::running::Running;
use crate::recorder::{RecordedParcel, RunRecord};

/// Adds when CPUs of ranks were busy, and the messages of ranks.
pub(super) fn add(jobs: &mut [Running], recording: &mut RunRecord) {
    for (number, job) in (0..).zip(jobs) {
        recording.busy.extend(job.ranks.take_busy_times().into_iter().map(|time| (number, time)));
        let setup = &job.setup;
        recording.parcels.extend(job.log.iter().map(|message| RecordedParcel {
            job: number,
            from: message.from,
            to: message.to,
            handed: message.handed,
            left: message.left,
            delivered: message.there,
            bytes: message.bytes,
            alone: message.alone,
            flow: message.flow,
            flows_of_parts: setup.flows_of_parts(&message.parcel()),
        }));
    }
}
