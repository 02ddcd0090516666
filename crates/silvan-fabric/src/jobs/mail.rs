//! What the ranks of one partition have for those of another.
//!
//! | what | when it matters there |
//! | --- | --- |
//! | a parcel that was handed over | when its last packet has crossed the network, so after the next exchange |
//! | that a message is there | in the table of messages, at the end of the run |
//! | that all ranks here have finished | at the next look, and for what hosts have spent their time with by then |
//!
//! So nothing of it can come too late, and none has an event.

use std::borrow::BorrowMut;

use silvan_engine::Time;

use super::{FlowKey, Jobs, Travel};
use crate::host::Host;

/// See the module. Everything is with the number of its job.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(super) parcels: Vec<(u16, FlowKey, Travel)>,
    /// Messages that are there: their rows in the other partition's log, and since when.
    pub(super) there: Vec<(u16, u32, Time)>,
    /// Jobs whose ranks here have finished, and when the last one did.
    pub(super) finished: Vec<(u16, Time)>,
}

impl Mail {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.there.is_empty() && self.finished.is_empty()
    }
}

impl Jobs {
    /// What there is for another partition.
    pub fn mail_mut(&mut self, part: usize) -> &mut Mail {
        &mut self.mail[part]
    }

    /// Takes in what another partition sent.
    pub fn collect<H: BorrowMut<Host>>(&mut self, mail: &mut Mail, hosts: &[H]) {
        for (job, flow, travel) in mail.parcels.drain(..) {
            self.list[usize::from(job)].expect(flow, travel);
        }
        for (job, row, time) in mail.there.drain(..) {
            self.list[usize::from(job)].is_there(row, time);
        }
        for (job, time) in mail.finished.drain(..) {
            self.list[usize::from(job)].part_finished(time, hosts);
        }
    }
}
