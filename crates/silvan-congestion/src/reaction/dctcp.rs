//! DCTCP's window-based reaction (Alizadeh et al., Data Center TCP, SIGCOMM 2010, section 3; RFC 8257).
//!
//! ```text
//!  once per round trip       alpha = (1 - g) alpha + g F       F: marked bytes of the round trip / its bytes
//!  a mark                    window = window (1 - alpha / 2), once per window of data
//!  a loss                    window = window / 2, once per window of data (RFC 8257, section 3.5)
//!  other answers             window += acknowledged bytes                        until the first mark or loss (slow start)
//!                            window += full packet x acknowledged bytes / window  from then on
//! ```
//!
//! Once per window of data (RFC 8257, section 3.3; RFC 3168, section 6.1.2): after a reduction, the window
//! does not change until a packet that was sent after the reduction is acknowledged. The round trips over
//! which alpha is averaged begin and end independently of these windows of data.
//!
//! A flow sends while less than its window is in flight. A window grows only while at least half of it is in flight, so
//! it cannot grow without bound if something else limits the flow (RFC 7661).
//!
//! Windows are in units of 2^-16 bytes on the wire, and alpha is in units of 2^-30.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::progress::FlowProgress;
use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Lost, Mark, Next, Sent};
use crate::unfit::{Check, Limits, ensure_window};

/// Parameters of DCTCP's window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dctcp {
    /// The gain g of alpha is 1 divided by this number.
    #[schemars(range(min = 1))]
    pub gain_divisor: u16,
    /// The first window of a flow, in full packets.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub initial_packets: u16,
    /// The smallest window, in full packets.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub min_packets: u16,
    /// Whether a flow begins with slow start, in which its window doubles in each round trip.
    pub slow_start: bool,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self { gain_divisor: 16, initial_packets: 10, min_packets: 1, slow_start: true }
    }
}

impl ReactionParameters for Dctcp {
    fn properties(&self) -> Properties {
        Properties { link_layer: Some(LinkLayer::Ethernet), ..Properties::ACKNOWLEDGED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_window("initial_packets", Some(self.initial_packets))?;
        ensure_window("min_packets", Some(self.min_packets))
    }
}

impl Dctcp {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<DctcpRule> {
        Some(self.rule_of_packets(source.full_size, source.header()))
    }

    fn rule_of_packets(&self, full: u32, header: u32) -> DctcpRule {
        let bytes = |packets: u16| (u64::from(packets) * u64::from(full.max(1))) << FRACTION;
        DctcpRule {
            divisor: u64::from(self.gain_divisor.max(1)),
            initial: bytes(self.initial_packets.max(self.min_packets)),
            least: bytes(self.min_packets),
            is_slow: self.slow_start,
            full: u64::from(full),
            header,
        }
    }
}

/// Bits of the fraction of a byte.
const FRACTION: u32 = 16;
/// An alpha of 1.
const ONE: u64 = 1 << 30;
/// The largest window: a tebibyte.
const LARGEST: u64 = 1 << (40 + FRACTION);

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub struct DctcpRule {
    divisor: u64,
    initial: u64,
    least: u64,
    is_slow: bool,
    full: u64,
    header: u32,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct DctcpState {
    window: u64,
    alpha: u64,
    progress: FlowProgress,
    /// Bytes acknowledged in the present round trip.
    acknowledged: u64,
    /// The part of `acknowledged` with marks.
    marked: u64,
    is_slow: bool,
    /// The end of the data in flight at the last reduction of the window; `None` before the first reduction, and
    /// after an acknowledgement beyond that end.
    reduced_until: Option<u64>,
}

impl ReactionRule for DctcpRule {
    type State = DctcpState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> DctcpState {
        DctcpState {
            window: self.initial,
            alpha: ONE,
            progress: FlowProgress::default(),
            acknowledged: 0,
            marked: 0,
            is_slow: self.is_slow,
            reduced_until: None,
        }
    }

    fn sent(&self, state: &mut DctcpState, sent: &Sent) {
        state.progress.sent(sent);
    }

    fn answered(&self, state: &mut DctcpState, _sl: u8, answer: &Answer) {
        let is_limit = 2 * state.progress.in_flight() >= state.window >> FRACTION;
        let size = state.progress.acknowledged(answer, self.header);
        let is_marked = answer.mark == Mark::Hot;
        state.acknowledged += size;
        state.marked += if is_marked { size } else { 0 };
        let is_first = state.progress.is_first();
        if state.progress.completes_round() {
            if !is_first {
                let share = state.marked * ONE / state.acknowledged;
                state.alpha = (state.alpha * (self.divisor - 1) + share) / self.divisor;
            }
            (state.acknowledged, state.marked) = (0, 0);
        }
        state.reduced_until = state.reduced_until.filter(|&end| !state.progress.is_beyond(end));
        if state.reduced_until.is_some() {
            return;
        }
        if is_marked {
            let less = (u128::from(state.window) * u128::from(state.alpha)) >> 31;
            state.window = (state.window - less as u64).max(self.least);
            (state.reduced_until, state.is_slow) = (Some(state.progress.window_end()), false);
        } else if is_limit {
            let more = if state.is_slow {
                size << FRACTION
            } else {
                ((self.full * size) << FRACTION) / (state.window >> FRACTION)
            };
            state.window = (state.window + more).min(LARGEST);
        }
    }

    fn lost(&self, state: &mut DctcpState, lost: &Lost) -> u32 {
        state.progress.lost(lost, self.header);
        state.reduced_until = state.reduced_until.filter(|&end| !state.progress.is_beyond(end));
        if state.reduced_until.is_none() {
            state.window = (state.window / 2).max(self.least);
            (state.reduced_until, state.is_slow) = (Some(state.progress.window_end()), false);
        }
        0
    }

    fn arrived(&self, state: &mut DctcpState, payload: u32) {
        state.progress.left(payload, self.header);
    }

    fn may_send_at(&self, state: &DctcpState, _sl: u8, next: &Next) -> Option<Time> {
        (state.progress.in_flight() < state.window >> FRACTION).then_some(next.now)
    }

    fn is_fresh(&self, state: &DctcpState, _sl: u8, _now: Time) -> bool {
        state.progress.is_untouched()
    }

    /// Number of full packets by which the window is smaller than the initial window.
    fn strength(&self, state: &DctcpState, _sl: u8, _now: Time) -> u16 {
        let missing = self.initial.saturating_sub(state.window) >> FRACTION;
        (missing / self.full.max(1)).min(u64::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;

    /// Full packets have 1,000 bytes, including a header of 26 bytes.
    fn rule(given: &Dctcp) -> DctcpRule {
        given.rule_of_packets(1_000, 26)
    }

    fn window(state: &DctcpState) -> u64 {
        state.window >> FRACTION
    }

    /// Sends as much as the window permits, and answers all of it, with marks on the given packets.
    fn round(rule: &DctcpRule, state: &mut DctcpState, marked: &[usize]) {
        let mut packets = 0;
        while rule.may_send_at(state, 0, &next(0)).is_some() {
            rule.sent(state, &sent(0, 1_000));
            packets += 1;
        }
        for packet in 0..packets {
            let mark = if marked.contains(&packet) { Mark::Hot } else { Mark::Cold };
            rule.answered(state, 0, &Answer { bytes: 974, ..answer(mark, 0, 0) });
        }
    }

    #[test]
    fn slow_start_adds_what_is_acknowledged_and_congestion_avoidance_a_packet_per_round_trip() {
        let rule = rule(&Dctcp::default());
        let mut state = rule.fresh(0);
        assert_eq!(window(&state), 10_000);
        round(&rule, &mut state, &[]);
        // Four answers add a packet. At the fifth, 6,000 bytes are in flight, which is less than half of 14,000.
        assert_eq!(window(&state), 14_000);
        let slow = Dctcp { slow_start: false, ..Dctcp::default() };
        let rule = super::tests::rule(&slow);
        let mut state = rule.fresh(0);
        // Answers one packet at a time while ten are in flight.
        (0..10).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        for _ in 0..10 {
            rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(Mark::Cold, 0, 0) });
            rule.sent(&mut state, &sent(0, 1_000));
        }
        // The window grows by 1,000 x 1,000 / window ten times: 100 + 99 + ... bytes.
        assert!((10_950..10_965).contains(&window(&state)), "{}", window(&state));
    }

    #[test]
    fn a_window_shrinks_once_per_round_trip_by_half_of_alpha() {
        let rule = rule(&Dctcp { slow_start: false, ..Dctcp::default() });
        let mut state = rule.fresh(0);
        (0..10).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        let mut answered = |mark| rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(mark, 0, 0) });
        (0..3).for_each(|_| answered(Mark::Hot));
        assert_eq!(window(&state), 5_000, "alpha is 1 at first, and the other marks do not count");
        // The round trip began with the first answer, when ten packets had been sent. Of its nine answers and the
        // answer that ends it, two are marked, so alpha = 15/16 + 2/10/16.
        (0..7).for_each(|_| rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(Mark::Cold, 0, 0) }));
        rule.sent(&mut state, &sent(0, 1_000));
        rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(Mark::Cold, 0, 0) });
        let alpha = state.alpha as f64 / ONE as f64;
        assert!((alpha - (15.0 / 16.0 + 0.2 / 16.0)).abs() < 1e-6, "{alpha}");
    }

    /// In a window of 100 packets, eleven successive packets are marked, all of which were sent before the first mark
    /// arrived. The position of the burst in a round trip of alpha has no effect.
    #[test]
    fn marks_of_one_window_of_data_reduce_the_window_once() {
        let rule = rule(&Dctcp { initial_packets: 100, slow_start: false, ..Dctcp::default() });
        for phase in 0..220 {
            let mut state = rule.fresh(0);
            let mut least = window(&state);
            (0..100).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
            for packet in 0..450 {
                let mark = if (phase..phase + 11).contains(&packet) { Mark::Hot } else { Mark::Cold };
                let before = window(&state);
                rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(mark, 0, 0) });
                if window(&state) < before {
                    assert!(least >= 100_000, "phase {phase}: reduced again at packet {packet}");
                    let factor = 1.0 - state.alpha as f64 / ONE as f64 / 2.0;
                    assert!((window(&state) as f64 - before as f64 * factor).abs() < 2.0, "phase {phase}");
                    least = window(&state);
                }
                while rule.may_send_at(&state, 0, &next(0)).is_some() {
                    rule.sent(&mut state, &sent(0, 1_000));
                }
            }
            assert!(least < 65_000, "phase {phase}: not reduced");
        }
    }

    #[test]
    fn losses_of_one_window_of_data_halve_the_window_once() {
        let rule = rule(&Dctcp { slow_start: false, ..Dctcp::default() });
        let mut state = rule.fresh(0);
        let (now, sent_at) = (Time(9), Time::ZERO);
        let lost = Lost { now, sent_at, is_answer: false, payload: 974, at_last_hop: false };
        (0..10).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        (0..3).for_each(|_| assert_eq!(rule.lost(&mut state, &lost), 0));
        assert_eq!((window(&state), state.progress.in_flight()), (5_000, 7_000));
        (0..6).for_each(|_| rule.arrived(&mut state, 974));
        assert_eq!((window(&state), state.progress.in_flight()), (5_000, 1_000));
        rule.sent(&mut state, &sent(0, 1_000));
        (0..2).for_each(|_| assert_eq!(rule.lost(&mut state, &lost), 0));
        assert_eq!((window(&state), state.progress.in_flight()), (2_500, 0), "a packet of a later window");
    }

    /// The rule of RFC 8257 in terms of packet numbers: a window is reduced by the first mark of a packet that was sent
    /// after the last reduction, and by no other mark.
    #[test]
    fn only_marks_of_later_packets_reduce_the_window_again() {
        let mut draws = silvan_engine::random::Stream::new(1, "marks", 0);
        for gain_divisor in [1, 4, 16] {
            let rule = rule(&Dctcp { gain_divisor, initial_packets: 40, ..Dctcp::default() });
            let mut state = rule.fresh(0);
            let (mut all_sent, mut first_later, mut reductions) = (0u64, 0u64, 0);
            for packet in 0..20_000 {
                while rule.may_send_at(&state, 0, &next(0)).is_some() {
                    rule.sent(&mut state, &sent(0, 1_000));
                    all_sent += 1;
                }
                let is_marked = draws.below(20) == 0;
                let before = state.window;
                let mark = if is_marked { Mark::Hot } else { Mark::Cold };
                rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(mark, 0, 0) });
                let reduces = is_marked && packet >= first_later;
                assert!(state.window >= before || reduces, "packet {packet} of {first_later}");
                if reduces {
                    let is_due = state.alpha > 0 && before > rule.least;
                    assert!(state.window < before || !is_due, "packet {packet}");
                    (first_later, reductions) = (all_sent, reductions + 1);
                } else if packet < first_later {
                    assert_eq!(state.window, before, "no increase before the reduction takes effect");
                }
            }
            assert!(reductions > 300, "{reductions}");
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let rule = rule(&Dctcp::default());
        let mut state = rule.fresh(0);
        for _ in 0..20 {
            rule.sent(&mut state, &sent(0, 1_000));
            rule.answered(&mut state, 0, &Answer { bytes: 974, ..answer(Mark::Cold, 0, 0) });
        }
        assert_eq!(window(&state), 10_000);
    }

    #[test]
    fn the_smallest_window_lets_one_packet_be_sent() {
        let rule = rule(&Dctcp { gain_divisor: 1, ..Dctcp::default() });
        let mut state = rule.fresh(0);
        (0..30).for_each(|_| round(&rule, &mut state, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!(window(&state), 1_000);
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 9);
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), Some(Time(5)));
        rule.sent(&mut state, &sent(0, 1_000));
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), None);
    }
}
