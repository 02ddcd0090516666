//! The interface between hosts and what decides when they send messages.

use silvan_engine::Time;
use silvan_trace::execute::Parcel;

use super::running::Room;
use crate::context::Context;
use crate::host::Host;
use crate::packet::FlowAddress;

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
