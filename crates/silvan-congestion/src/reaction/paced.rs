//! Common code of reactions with a rate: rates as fractions of the rate of the host's link, and the resulting pauses.
//! [`Paced`] is a complete reaction, except for the law that determines the rate from acknowledgements.

use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Rate, Time};

use super::ReactionRule;
use super::progress::FlowProgress;
use crate::facts::{Answer, Lost, Next, Sent};

/// The link's rate, in the unit of rates.
pub(super) const LINE: u32 = 1 << 30;

/// A rate as a fraction of the link's rate, rounded down, from 1 to [`LINE`].
pub(super) fn part(rate: Rate, link: Rate) -> u32 {
    let part = u128::from(rate.0) * u128::from(LINE) / u128::from(link.0.max(1));
    part.clamp(1, u128::from(LINE)) as u32
}

/// The last packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Last {
    /// The time at which the packet's tail left the host.
    pub end: Time,
    size: u32,
}

impl Last {
    /// No packet has been sent.
    pub const NONE: Self = Self { end: Time::ZERO, size: 0 };

    pub fn of(sent: &Sent) -> Self {
        Self { end: sent.end, size: sent.size }
    }

    /// The time at which the next packet may start: when the last packet would have ended at this rate.
    /// `pace` is the pace of the link.
    pub fn due(&self, rate: u32, pace: BytePace) -> Time {
        let span = pace.time(self.size).0;
        let (rate, rest) = (u128::from(rate), u128::from(LINE - rate));
        self.end + Time((u128::from(span) * rest / rate) as u64)
    }
}

/// A law that determines the rate of a flow from its acknowledgements.
pub trait RateLaw {
    /// The state that the law stores per flow, in addition to [`PacedFlow`].
    type State: Saved;

    /// The state of a flow without acknowledgements.
    fn fresh(&self) -> Self::State;

    /// Changes the rate of a flow after an acknowledgement, which `flow.progress` includes.
    fn acknowledged(&self, flow: &mut PacedFlow<Self::State>, answer: &Answer);

    /// A flow may send while fewer than this number of its bytes on the wire are in flight.
    fn window(&self, _flow: &PacedFlow<Self::State>) -> u64 {
        u64::MAX
    }
}

/// A flow with a rate.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct PacedFlow<S> {
    /// See [`part`].
    pub rate: u32,
    pub progress: FlowProgress,
    /// The state of the law.
    pub law: S,
    last: Last,
}

/// The rule of one host whose flows send at the rates that a law determines.
#[derive(Debug, Clone, Copy)]
pub struct Paced<L> {
    pub law: L,
    /// Bytes of a packet that are not payload.
    header: u32,
    /// Pace of the host's link.
    pace: BytePace,
}

impl<L> Paced<L> {
    pub fn new(law: L, link: Rate, header: u32) -> Self {
        Self { law, header, pace: link.pace() }
    }
}

impl<L: RateLaw> ReactionRule for Paced<L> {
    type State = PacedFlow<L::State>;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> Self::State {
        let (progress, law) = (FlowProgress::default(), self.law.fresh());
        PacedFlow { rate: LINE, progress, law, last: Last::NONE }
    }

    fn sent(&self, flow: &mut Self::State, sent: &Sent) {
        flow.progress.sent(sent);
        flow.last = Last::of(sent);
    }

    /// The laws do not react to losses.
    fn lost(&self, flow: &mut Self::State, lost: &Lost) -> u32 {
        flow.progress.lost(lost, self.header);
        0
    }

    fn arrived(&self, flow: &mut Self::State, payload: u32) {
        flow.progress.left(payload, self.header);
    }

    fn answered(&self, flow: &mut Self::State, _sl: u8, answer: &Answer) {
        flow.progress.acknowledged(answer, self.header);
        self.law.acknowledged(flow, answer);
    }

    fn may_send_at(&self, flow: &Self::State, _sl: u8, next: &Next) -> Option<Time> {
        let is_open = flow.progress.in_flight() < self.law.window(flow);
        is_open.then(|| next.now.max(flow.last.due(flow.rate, self.pace)))
    }

    fn is_fresh(&self, flow: &Self::State, _sl: u8, _now: Time) -> bool {
        flow.progress.is_untouched()
    }

    /// The link's rate divided by the flow's rate, rounded down, minus one.
    fn strength(&self, flow: &Self::State, _sl: u8, _now: Time) -> u16 {
        (LINE / flow.rate - 1).min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::sent;
    use super::*;

    #[test]
    fn a_rate_is_a_part_of_the_link() {
        let link = Rate::from_gbit(100);
        let of = |rate| part(rate, link);
        assert_eq!(of(Rate::from_gbit(25)), LINE / 4);
        assert_eq!(of(Rate(1)), 1, "1 bit/s is less than a part");
        assert_eq!(of(Rate::from_gbit(400)), LINE, "not above the link");
    }

    #[test]
    fn the_pause_makes_up_for_the_difference_to_the_link() {
        // 1,000 bytes take 80 ns at 100 Gbit/s, and 320 ns at a quarter of it.
        let pace = Rate::from_gbit(100).pace();
        let last = Last::of(&sent(500_000, 1_000));
        assert_eq!(last.due(LINE / 4, pace), Time(500_000 + 240_000));
        assert_eq!(last.due(LINE, pace), Time(500_000));
        assert_eq!(Last::NONE.due(1, pace), Time::ZERO);
    }
}
