//! The reaction point of quantized congestion notification (IEEE 802.1Qau, which is clause 31 of IEEE
//! 802.1Q).
//!
//! ```text
//!  a mark of severity s     target = rate, if a cycle has ended since the last one;   rate -= rate x s / 128
//!  the end of a cycle       rate = (target + rate) / 2, and before that, after five cycles of bytes or of time
//!                           (fast recovery), target += 5 Mbit/s (active increase), or, after five of both,
//!                           target += 50 Mbit/s x the cycles beyond (hyper-active increase)
//! ```
//!
//! A cycle lasts for a number of bytes of the flow, or for an amount of time, and half as long after fast recovery.
//! The two kinds of cycles are counted separately, and restart with each mark. If the target is more than ten times
//! the rate at the end of a cycle, and one cycle of either kind has ended, the target is divided by eight.
//!
//! In the standard, cycles vary by 15 % at random to avoid synchronized sources. Here, cycles do not vary. They start
//! with the marks of the source, and the sampling that causes the marks varies. Rates are in units of 2^-30 of the
//! link's rate. A flow is no longer throttled when its rate is within 1/1024 of the link's rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Bytes, Rate, Time};

use super::paced::{LINE, Last, part};
use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Mark, Next, Sent, Severity};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of the reaction point; the defaults are those of the standard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Qcn {
    /// The lowest rate of a flow.
    pub min_rate: Rate,
    /// Increment of the target in each cycle of active increase.
    pub active_increase: Rate,
    /// Increment of the target in each cycle of hyper-active increase, multiplied by the number of such
    /// cycles so far.
    pub hyper_increase: Rate,
    /// Length of a byte cycle; half of it after fast recovery (active and hyper-active increase).
    pub cycle_bytes: Bytes,
    /// Length of a time cycle; half of it after fast recovery.
    pub cycle_time: Time,
    /// Number of cycles of fast recovery.
    #[schemars(range(min = 1, max = 100))]
    pub cycles: u8,
    /// The severity assumed for a mark of one bit.
    #[schemars(range(min = 1, max = 63))]
    pub binary_severity: u8,
}

impl Default for Qcn {
    fn default() -> Self {
        Self {
            min_rate: Rate(10_000_000),
            active_increase: Rate(5_000_000),
            hyper_increase: Rate(50_000_000),
            cycle_bytes: Bytes(150_000),
            cycle_time: Time::from_us(15_000),
            cycles: 5,
            binary_severity: 32,
        }
    }
}

/// The rule of one host. Rates are in units of 2^-30 of its link's rate.
#[derive(Debug, Clone, Copy)]
pub struct QcnRule {
    least: u32,
    active: u32,
    hyper: u32,
    cycle_bytes: u32,
    cycle_time: Time,
    cycles: u8,
    binary: Severity,
    pace: BytePace,
}

/// A flow's rate limiter.
#[derive(Debug, Clone, Copy, Saved)]
pub struct QcnState {
    /// The link's rate if the flow is not throttled.
    rate: u32,
    target: u32,
    /// The end of the current time cycle, if the flow is throttled.
    cycle_ends: Time,
    /// Bytes left in the current byte cycle.
    cycle_left: u32,
    /// Number of byte cycles that have ended since the last mark.
    byte_cycles: u8,
    /// Number of time cycles that have ended since the last mark.
    time_cycles: u8,
    last: Last,
}

impl ReactionParameters for Qcn {
    fn properties(&self) -> Properties {
        Properties { link_layer: Some(LinkLayer::Ethernet), ..Properties::NOTIFIED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        for (key, rate) in [
            ("min_rate", self.min_rate),
            ("active_increase", self.active_increase),
            ("hyper_increase", self.hyper_increase),
        ] {
            ensure(rate.0 > 0, key, || "must be more than 0 bit/s; with 0, flows do not recover".to_owned())?;
        }
        ensure((1..=1 << 30).contains(&self.cycle_bytes.0), "cycle_bytes", || {
            "must be 1 B to 1 GiB".to_owned()
        })?;
        ensure_time("cycle_time", Some(self.cycle_time))
    }
}

impl Qcn {
    /// Creates the rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<QcnRule> {
        Some(self.rule_of_link(source.rate))
    }

    fn rule_of_link(&self, link: Rate) -> QcnRule {
        QcnRule {
            least: part(self.min_rate, link),
            active: part(self.active_increase, link),
            hyper: part(self.hyper_increase, link),
            cycle_bytes: u32::try_from(self.cycle_bytes.0).unwrap_or(u32::MAX),
            cycle_time: self.cycle_time,
            cycles: self.cycles,
            binary: self.binary_severity,
            pace: link.pace(),
        }
    }
}

impl QcnRule {
    /// 1 if cycles have half their length, as is the case after fast recovery, and otherwise 0.
    fn is_halved(&self, cycles: u8) -> u32 {
        u32::from(cycles >= self.cycles)
    }

    /// Ends the time cycles that are over.
    fn pass(&self, state: &mut QcnState, now: Time) {
        while state.cycle_ends <= now {
            let at = state.cycle_ends;
            state.time_cycles = state.time_cycles.saturating_add(1);
            state.cycle_ends = at + Time((self.cycle_time.0 >> self.is_halved(state.time_cycles)).max(1));
            self.raise(state);
        }
    }

    /// Raises the rate at the end of a cycle, and also the target after fast recovery.
    fn raise(&self, state: &mut QcnState) {
        let least = state.byte_cycles.min(state.time_cycles);
        let most = state.byte_cycles.max(state.time_cycles);
        let step = if least > self.cycles {
            self.hyper.saturating_mul(u32::from(least - self.cycles))
        } else if most > self.cycles {
            self.active
        } else {
            0
        };
        let is_first = state.byte_cycles == 1 || state.time_cycles == 1;
        if is_first && u64::from(state.target) > 10 * u64::from(state.rate) {
            state.target = (state.target / 8).max(state.rate);
        } else {
            state.target = state.target.saturating_add(step).min(LINE);
        }
        state.rate += (state.target - state.rate).div_ceil(2);
        if state.rate >= LINE - LINE / 1024 {
            *state = QcnState { last: state.last, ..self.fresh(0) };
        }
    }

    /// The time at which the next packet may start, at the flow's current rate.
    fn due(&self, state: &QcnState) -> Time {
        state.last.due(state.rate, self.pace)
    }
}

impl ReactionRule for QcnRule {
    type State = QcnState;

    fn counts_answers(&self) -> bool {
        false
    }

    /// The state of a flow without marks.
    fn fresh(&self, _sl: u8) -> QcnState {
        QcnState {
            rate: LINE,
            target: LINE,
            cycle_ends: Time::NEVER,
            cycle_left: self.cycle_bytes,
            byte_cycles: 0,
            time_cycles: 0,
            last: Last::NONE,
        }
    }

    #[inline]
    fn sent(&self, state: &mut QcnState, sent: &Sent) {
        let Sent { end, size, .. } = *sent;
        state.last = Last::of(sent);
        if state.rate < LINE {
            self.pass(state, end);
        }
        if state.rate == LINE {
            return;
        }
        if size < state.cycle_left {
            state.cycle_left -= size;
            return;
        }
        state.byte_cycles = state.byte_cycles.saturating_add(1);
        state.cycle_left = (self.cycle_bytes >> self.is_halved(state.byte_cycles)).max(1);
        self.raise(state);
    }

    /// Handles a mark that has returned. A severity of 0 means that the mark is a single bit.
    fn answered(&self, state: &mut QcnState, _sl: u8, answer: &Answer) {
        let Answer { now, mark, severity, .. } = *answer;
        if mark != Mark::Hot {
            return;
        }
        self.pass(state, now);
        if state.byte_cycles > 0 || state.time_cycles > 0 {
            state.target = state.rate;
        }
        let severity = u64::from(if severity == 0 { self.binary } else { severity });
        let slower = u64::from(state.rate) * (128 - severity) / 128;
        state.rate = (slower as u32).max(self.least).min(state.rate);
        (state.byte_cycles, state.time_cycles) = (0, 0);
        (state.cycle_left, state.cycle_ends) = (self.cycle_bytes, now + self.cycle_time);
    }

    /// The first time, starting with `now`, at which the pause after the last packet is over. The rate at that time
    /// determines the pause.
    #[inline]
    fn may_send_at(&self, state: &QcnState, _sl: u8, next: &Next) -> Option<Time> {
        if state.rate == LINE {
            return Some(next.now.max(state.last.end));
        }
        let due = self.due(state).max(next.now);
        if due < state.cycle_ends {
            return Some(due);
        }
        let (mut state, mut time) = (*state, next.now);
        loop {
            self.pass(&mut state, time);
            let due = self.due(&state).max(time);
            if due < state.cycle_ends {
                return Some(due);
            }
            time = state.cycle_ends;
        }
    }

    fn is_fresh(&self, state: &QcnState, _sl: u8, now: Time) -> bool {
        let mut state = *state;
        self.pass(&mut state, now);
        state.rate == LINE && state.last.end <= now
    }

    /// The link's rate divided by the flow's rate, rounded down, minus one.
    fn strength(&self, state: &QcnState, _sl: u8, now: Time) -> u16 {
        let mut state = *state;
        self.pass(&mut state, now);
        (LINE / state.rate - 1).min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;

    /// The rule for a link of 10 Gbit/s, where the most severe mark nearly halves a rate.
    fn rule() -> QcnRule {
        Qcn::default().rule_of_link(Rate::from_gbit(10))
    }

    fn mbit(rate: u32) -> f64 {
        f64::from(rate) * 10_000.0 / f64::from(LINE)
    }

    /// Rate and target after each of several byte cycles within one time cycle.
    fn after_cycles(rule: &QcnRule, state: &mut QcnState, cycles: usize) -> Vec<(f64, f64)> {
        let cycle = |_| {
            let before = state.byte_cycles;
            while state.byte_cycles == before && state.rate < LINE {
                rule.sent(state, &sent(1, 1_500));
            }
            (mbit(state.rate), mbit(state.target))
        };
        (0..cycles).map(cycle).collect()
    }

    #[test]
    fn fast_recovery_halves_the_distance_to_the_target_five_times() {
        let rule = rule();
        let mut state = rule.fresh(0);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 63, 0));
        assert!((mbit(state.rate) - 10_000.0 * 65.0 / 128.0).abs() < 0.1);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 32, 0));
        let low = 10_000.0 * 65.0 / 128.0 * 96.0 / 128.0;
        assert!((mbit(state.rate) - low).abs() < 0.1, "again, before a cycle: the target stays");
        let mut expected = low;
        for (rate, target) in after_cycles(&rule, &mut state, 5) {
            expected = (expected + 10_000.0) / 2.0;
            assert!((rate - expected).abs() < 0.1 && (target - 10_000.0).abs() < 0.1, "{rate} {target}");
        }
    }

    #[test]
    fn active_increase_moves_the_target_by_five_in_half_cycles() {
        let rule = rule();
        let mut state = rule.fresh(0);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 63, 0));
        after_cycles(&rule, &mut state, 1);
        // A cycle has ended, so the target is the current rate.
        let target = mbit(state.rate);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 20, 0));
        assert_eq!(mbit(state.target), target);
        let bytes_of_cycle = |state: &mut QcnState| {
            let before = state.byte_cycles;
            let mut bytes = 0;
            while state.byte_cycles == before {
                rule.sent(state, &sent(1, 1_500));
                bytes += 1_500;
            }
            bytes
        };
        let cycles: Vec<u32> = (0..7).map(|_| bytes_of_cycle(&mut state)).collect();
        assert_eq!(cycles, [150_000, 150_000, 150_000, 150_000, 150_000, 75_000, 75_000]);
        assert!((mbit(state.target) - target - 10.0).abs() < 0.1, "two cycles after five of recovery");
    }

    #[test]
    fn hyper_active_increase_grows_with_the_cycles_of_both_kinds() {
        let rule = rule();
        let mut state = rule.fresh(0);
        (0..40).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 63, 0)));
        assert!((mbit(state.rate) - 10.0).abs() < 0.01, "the lowest rate");
        after_cycles(&rule, &mut state, 1);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 1, 0));
        let target = mbit(state.target);
        after_cycles(&rule, &mut state, 8);
        assert!((mbit(state.target) - target - 15.0).abs() < 0.1, "three cycles of active increase");
        // Five cycles of 15 ms, then cycles of half that length.
        rule.pass(&mut state, Time::from_us(75_000));
        assert!((mbit(state.target) - target - 15.0 - 25.0).abs() < 0.1, "active: bytes alone have gone on");
        rule.pass(&mut state, Time::from_us(75_000 + 7_500));
        assert!((mbit(state.target) - target - 40.0 - 50.0).abs() < 0.1, "hyper-active: 50 x 1");
        rule.pass(&mut state, Time::from_us(75_000 + 15_000));
        assert!((mbit(state.target) - target - 90.0 - 100.0).abs() < 0.1, "50 x 2");
    }

    #[test]
    fn a_target_far_above_the_rate_is_divided_by_eight_once() {
        let rule = rule();
        let mut state = rule.fresh(0);
        (0..10).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 63, 0)));
        let low = mbit(state.rate);
        let course = after_cycles(&rule, &mut state, 2);
        assert!((course[0].1 - 1_250.0).abs() < 0.1 && (course[0].0 - (1_250.0 + low) / 2.0).abs() < 0.1);
        assert!((course[1].1 - 1_250.0).abs() < 0.1);
    }

    #[test]
    fn a_bit_stands_for_one_severity_and_a_recovered_flow_is_fresh() {
        let rule = rule();
        let (mut bit, mut quantized) = (rule.fresh(0), rule.fresh(0));
        rule.answered(&mut bit, 0, &answer(Mark::Hot, 0, 7));
        rule.answered(&mut quantized, 0, &answer(Mark::Hot, 32, 7));
        assert_eq!(bit.rate, quantized.rate);
        assert_eq!(rule.strength(&bit, 0, Time(7)), 0, "three quarters of the link");
        rule.sent(&mut bit, &sent(5_000, 1_500));
        assert!(!rule.is_fresh(&bit, 0, Time(10_000)));
        // Nine halvings suffice: the initial distance of 1/4 of the link's rate becomes 1/2048.
        assert!(rule.is_fresh(&bit, 0, Time::from_us(15_000 * 9)));
    }

    #[test]
    fn packets_keep_the_rate_of_the_time_at_which_they_may_start() {
        let rule = rule();
        let mut state = rule.fresh(0);
        (0..3).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 63, 0)));
        let rate = state.rate;
        // 1,500 bytes take 1.2 us of the link.
        rule.sent(&mut state, &sent(1_200_000, 1_500));
        let pause = 1_200_000 * u64::from(LINE - rate) / u64::from(rate);
        assert_eq!(rule.may_send_at(&state, 0, &next(1_300_000)), Some(Time(1_200_000 + pause)));
        assert_eq!(rule.may_send_at(&state, 0, &next(50_000_000)), Some(Time(50_000_000)), "long over");
        // A cycle that ends during the pause shortens the pause, but not to a time before the end of the cycle.
        let slow = Qcn { cycle_time: Time(4_000_000), ..Qcn::default() }.rule_of_link(Rate::from_gbit(10));
        let mut state = slow.fresh(0);
        (0..3).for_each(|_| slow.answered(&mut state, 0, &answer(Mark::Hot, 63, 0)));
        slow.sent(&mut state, &sent(1_200_000, 1_500));
        assert!(Time(1_200_000 + pause) > Time(4_000_000));
        assert_eq!(slow.may_send_at(&state, 0, &next(1_300_000)), Some(Time(4_000_000)));
    }
}
