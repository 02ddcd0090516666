//! The interface between hosts and what decides when they send messages.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_trace::execute::Parcel;

use super::failed_ports::FailedPorts;
use crate::context::Context;
use crate::host::Host;
use crate::packet::FlowAddress;

/// Remaining number of messages that may be logged, for all jobs together. Of the messages that are posted at
/// the same instant, either all are logged or none. The logged messages therefore do not depend on the order
/// of ranks and partitions.
#[derive(Debug, Saved)]
pub(super) struct Room {
    #[saved(count)]
    left: usize,
    #[saved(latest)]
    last: Time,
}

impl Room {
    pub fn new(most: usize) -> Self {
        Self { left: most, last: Time::ZERO }
    }

    /// Whether a message that is posted at `now` may be logged: a row is left, or the last row was taken at
    /// the same time. Takes a row if one is left.
    pub fn take(&mut self, now: Time) -> bool {
        if self.left == 0 {
            return now == self.last;
        }
        (self.left, self.last) = (self.left - 1, now);
        true
    }
}

/// What an application may use while it acts at an instant.
pub(super) struct Instant<'a> {
    pub ctx: &'a mut Context,
    /// The hosts of the partition.
    pub hosts: &'a mut [Host],
    /// The number of the application among all applications of the network.
    pub number: u16,
    /// The rows that are left in the table of messages.
    pub room: &'a mut Room,
    /// Scratch space, empty between calls.
    pub handed: &'a mut Vec<Parcel>,
    /// The ports of hosts that have failed.
    pub failed: &'a FailedPorts,
}

/// Posts messages to hosts with [`Host::feed`], and learns when they have left and arrived.
///
/// All messages of an application have its class. The messages of a flow leave and arrive in the order of posting.
pub(super) trait Application {
    /// The time of its next action; `None` if it waits only for messages, or has nothing left to do.
    fn next(&self) -> Option<Time>;

    /// The oldest message of a flow that has not arrived has arrived at this instant. Returns whether there is such a
    /// message.
    #[must_use]
    fn received(&mut self, flow: FlowAddress, at: &mut Instant) -> bool;

    /// The last byte of the oldest message of a flow that has not left will have left at `end`. Returns whether there is
    /// such a message.
    #[must_use]
    fn left(&mut self, flow: FlowAddress, end: Time) -> bool;

    /// Acts at an instant for which [`Self::next`] asked, after all arrivals and before hosts send.
    fn step(&mut self, at: &mut Instant);

    /// Whether the run must stop at this instant, before hosts send, because a program outside the model must act first.
    fn stops_run(&self) -> bool {
        false
    }
}
