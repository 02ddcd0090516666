//! The interface of the kernel of VOQ and FCFS outputs, and of the marking rule of all switches, to the scheduler, which
//! stores packets and links. Both schedulers implement it.

use silvan_engine::{Rate, Time};

use crate::message::SourceReport;
use crate::packet::Pool;

/// The credit that a packet needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// Index of the output.
    pub output: usize,
    pub vl: usize,
    pub dst: u32,
    /// Bytes of buffer space at the far end of the link.
    pub space: u32,
    pub now: Time,
}

/// The effect of a verdict, for the counters and the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    /// Whether the verdict counts as a mark: a data packet was marked for the first time, or its source is
    /// notified.
    pub is_mark: bool,
    pub is_validation: bool,
    /// The report to send to the source.
    pub report: Option<SourceReport>,
}

/// The packets, the links and the counters of a scheduler.
pub(crate) trait Schedule {
    /// The record of an output, from which the scheduler finds its link.
    type Output;

    fn packets(&mut self) -> &mut Pool;

    /// The time at which the link of an output is free.
    fn free_at(&self, output: &Self::Output) -> Time;

    /// The rate of the output's link.
    fn rate(&self, output: &Self::Output) -> Rate;

    /// The number of bytes that an output has sent so far.
    fn sent(&self, output: &Self::Output) -> u64;

    /// Whether there is enough credit for a packet.
    fn has_credit(&mut self, output: &mut Self::Output, need: Need) -> bool;

    /// Whether there is enough credit for a packet to some destination.
    fn has_some_credit(&mut self, output: &mut Self::Output, need: Need) -> bool {
        self.has_credit(output, need)
    }

    /// Records that a packet waits for credit. Returns the time at which there will be enough credit, or
    /// [`Time::NEVER`] if the time is not known. The scheduler settles the output at that time, or earlier if credit
    /// arrives earlier.
    fn wait_for_credit(&mut self, output: &mut Self::Output, need: Need) -> Time;

    /// Counts a decision of the marking rule that has been applied to a packet at an output, and queues its report.
    fn note_applied(&mut self, output: &Self::Output, applied: Applied);

    /// Reports an impossible state of an output as an error in the model.
    fn report_broken(&mut self, output: &Self::Output, what: &str);
}
