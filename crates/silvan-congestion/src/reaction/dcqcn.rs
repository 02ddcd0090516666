//! DCQCN's reaction point (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3.3).
//! The implementation follows network adapters, which have a separate clock for each of the three steps (model of
//! HPCC's authors, 2019: `rdma-hw.cc`, cases `dcqcn` and `dcqcn_paper`).
//!
//! ```text
//!  first notification            alpha = 1; rate = target = first_rate_percent of the link; the first two clocks start
//!  each alpha_interval           alpha = (1 - g) alpha + g, if a notification has come since the last time
//!                                alpha = (1 - g) alpha, if not
//!  each decrease_interval,       target = rate, if the rate has been raised since the last decrease;
//!  if a notification has come    rate = rate (1 - alpha / 2); the counts of raises are zero and their clocks restart
//!  each increase_interval, and   rate = (target + rate) / 2, and before that
//!  each increase_bytes           target += additive_increase, or hyper_increase, once past fast recovery
//! ```
//!
//! Fast recovery lasts until one of the clocks for increases has raised the rate `fast_recovery` times. Hyper
//! increase begins when both clocks have raised the rate more than `fast_recovery` times. Without
//! `increase_bytes`, only the clock of time counts.
//!
//! Rates and alpha are fractions of 2^30, where 2^30 is the link's rate or 1. The factor 1 - g rounds alpha down, so
//! that it reaches 0. A flow whose rate equals that of the link and whose alpha is 0 is released, and its next
//! notification counts as the first one. If several clocks expire at one instant, increases are handled last, because a
//! decrease restarts their clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Bytes, Rate, Time};

use super::paced::{LINE, Last, part};
use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Lost, Mark, Next, Sent};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of DCQCN's reaction point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dcqcn {
    /// The published parameter set that provides the intervals that are not set here.
    pub set: DcqcnSet,
    /// Time between updates of alpha.
    pub alpha_interval: Option<Time>,
    /// Least time between decreases of the rate.
    pub decrease_interval: Option<Time>,
    /// Time between increases of the rate.
    pub increase_interval: Option<Time>,
    /// Number of bytes that the flow sends between increases of the rate; by default, only `increase_interval` causes
    /// increases.
    pub increase_bytes: Option<Bytes>,
    /// The gain g of alpha is 1 divided by this number.
    #[schemars(range(min = 1))]
    pub gain_divisor: u16,
    /// Number of increases in fast recovery (F). Later increases also raise the target.
    #[schemars(range(min = 1, max = 100))]
    pub fast_recovery: u8,
    /// Increment of the target in additive increase; by default 5 Mbit/s per 25 Gbit/s of the host's link.
    pub additive_increase: Option<Rate>,
    /// Increment of the target in hyper increase; by default 50 Mbit/s per 25 Gbit/s of the host's link.
    pub hyper_increase: Option<Rate>,
    /// The lowest rate of a flow; by default 1 % of the rate of the host's link, so 1 Gbit/s on a link of 100
    /// Gbit/s.
    pub min_rate: Option<Rate>,
    /// Whether every decrease sets the target to the current rate. Otherwise, only the first of several consecutive decreases
    /// does.
    pub clamp_target: bool,
    /// Whether the loss of a packet has the effect of a notification, with loss recovery. With go-back-N, all packets
    /// that are sent again because of one loss count as one. Some adapters reduce their rate after losses
    /// (measurements of a ConnectX-5 by the project simllm, 2026).
    pub after_losses: bool,
    /// Rate after the first notification, in percent of the rate of the host's link.
    #[schemars(range(min = 1, max = 100))]
    pub first_rate_percent: u8,
    /// Whether alpha or the rate is updated first when both change at the same time.
    pub order: DcqcnOrder,
}

/// Intervals of DCQCN in the comparison of HPCC's authors (SIGCOMM 2019).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DcqcnSet {
    /// Tuned by the vendor: alpha every 1 us, decreases every 4 us, increases every 300 us.
    #[default]
    Tuned,
    /// The values of the paper: alpha every 50 us, decreases every 50 us, increases every 55 us.
    Paper,
}

/// The order of updates at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DcqcnOrder {
    /// Alpha is updated, then the rate is decreased by the new alpha (network adapters).
    #[default]
    AlphaFirst,
    /// The rate is decreased by the old alpha, then alpha is updated (the paper).
    DecreaseFirst,
}

impl DcqcnSet {
    /// Intervals of alpha, decreases and increases, in microseconds.
    fn intervals(self) -> [u64; 3] {
        match self {
            Self::Tuned => [1, 4, 300],
            Self::Paper => [50, 50, 55],
        }
    }
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self {
            set: DcqcnSet::default(),
            alpha_interval: None,
            decrease_interval: None,
            increase_interval: None,
            increase_bytes: None,
            gain_divisor: 256,
            fast_recovery: 1,
            additive_increase: None,
            hyper_increase: None,
            min_rate: None,
            clamp_target: false,
            after_losses: false,
            first_rate_percent: 100,
            order: DcqcnOrder::default(),
        }
    }
}

impl ReactionParameters for Dcqcn {
    fn properties(&self) -> Properties {
        Properties { link_layer: Some(LinkLayer::Ethernet), ..Properties::NOTIFIED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        for (key, interval) in [
            ("alpha_interval", self.alpha_interval),
            ("decrease_interval", self.decrease_interval),
            ("increase_interval", self.increase_interval),
        ] {
            ensure_time(key, interval)?;
        }
        for (key, rate) in [
            ("additive_increase", self.additive_increase),
            ("hyper_increase", self.hyper_increase),
            ("min_rate", self.min_rate),
        ] {
            ensure(rate != Some(Rate(0)), key, || {
                "must be more than 0 bit/s; with 0, flows do not recover".to_owned()
            })?;
        }
        let bytes = self.increase_bytes.unwrap_or(Bytes(1));
        ensure((1..=1 << 30).contains(&bytes.0), "increase_bytes", || "must be 1 B to 1 GiB".to_owned())
    }
}

impl Dcqcn {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<DcqcnRule> {
        Some(self.rule_of_link(source.rate))
    }

    /// The rule of a host whose link has this rate.
    fn rule_of_link(&self, link: Rate) -> DcqcnRule {
        let [alpha, decrease, increase] = self.set.intervals().map(Time::from_us);
        let share = |rate: Option<Rate>, of: u32| rate.map_or(LINE / of, |rate| part(rate, link));
        DcqcnRule {
            alpha_interval: self.alpha_interval.unwrap_or(alpha),
            decrease_interval: self.decrease_interval.unwrap_or(decrease),
            increase_interval: self.increase_interval.unwrap_or(increase),
            increase_bytes: self.increase_bytes.map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX)),
            divisor: u32::from(self.gain_divisor.max(1)),
            fast: self.fast_recovery,
            additive: share(self.additive_increase, 5_000),
            hyper: share(self.hyper_increase, 500),
            least: share(self.min_rate, 100),
            is_clamped: self.clamp_target,
            after_losses: self.after_losses,
            first: (u64::from(LINE) * u64::from(self.first_rate_percent) / 100) as u32,
            order: self.order,
            pace: link.pace(),
        }
    }
}

/// The rule of one host. Rates are fractions of the rate of its link.
#[derive(Debug, Clone, Copy)]
pub struct DcqcnRule {
    alpha_interval: Time,
    decrease_interval: Time,
    increase_interval: Time,
    increase_bytes: Option<u32>,
    divisor: u32,
    fast: u8,
    additive: u32,
    hyper: u32,
    least: u32,
    is_clamped: bool,
    after_losses: bool,
    first: u32,
    order: DcqcnOrder,
    pace: BytePace,
}

/// A flow's rate limiter.
#[derive(Debug, Clone, Copy, Saved)]
pub struct DcqcnState {
    rate: u32,
    target: u32,
    alpha: u32,
    /// Whether a notification has arrived since the last update of alpha.
    is_noted_by_alpha: bool,
    /// Whether a notification has arrived since the last decrease.
    is_noted_by_rate: bool,
    /// The times at which the clocks of alpha and of decreases expire; `NEVER` if there was no notification. A time in the
    /// past means that alpha has not been updated since, or that an expiry for decreases changes nothing.
    alpha_at: Time,
    decrease_at: Time,
    /// The time at which the clock of increases expires; `NEVER` if the rate equals that of the link.
    increase_at: Time,
    /// Bytes until the next increase by bytes.
    bytes_left: u32,
    /// Number of increases since the last decrease, by time and by bytes.
    by_time: u8,
    by_bytes: u8,
    last: Last,
}

/// The first expiry after `now` of a clock that expires at `at` and then after every `interval`.
fn after(now: Time, at: Time, interval: Time) -> Time {
    if at > now { at } else { at + Time(((now - at).0 / interval.0 + 1) * interval.0) }
}

/// Alpha after a number of updates without a notification. Each update subtracts the `divisor`-th part, rounded up.
/// Updates that subtract the same amount are computed in one step, so the number of steps is bounded.
fn decayed(mut alpha: u32, mut updates: u64, divisor: u32) -> u32 {
    while alpha > 0 && updates > 0 {
        let part = alpha.div_ceil(divisor);
        let same = if part < divisor { (alpha - (part - 1) * divisor).div_ceil(part) } else { 1 };
        let same = updates.min(u64::from(same));
        alpha -= same as u32 * part;
        updates -= same;
    }
    alpha
}

impl DcqcnRule {
    /// The time at which the rate next changes without a notification.
    fn next_change(&self, state: &DcqcnState) -> Time {
        let decrease = if state.is_noted_by_rate { state.decrease_at } else { Time::NEVER };
        decrease.min(state.increase_at)
    }

    /// Applies the changes of the rate that are due at `now`. Alpha is updated when a decrease needs it.
    fn pass(&self, state: &mut DcqcnState, now: Time) {
        loop {
            let at = self.next_change(state);
            if at > now {
                return;
            }
            if state.decrease_at == at && state.is_noted_by_rate {
                let is_first = self.order == DcqcnOrder::AlphaFirst;
                self.update_alpha(state, if is_first { at } else { Time(at.0 - 1) });
                self.decrease(state);
            } else {
                state.increase_at = at + self.increase_interval;
                self.raise(state, |state| &mut state.by_time);
            }
        }
    }

    /// Applies all changes that are due, and releases the flow if its rate is that of the link and its alpha
    /// is 0.
    fn settle(&self, state: &mut DcqcnState, now: Time) {
        self.pass(state, now);
        if state.alpha_at == Time::NEVER {
            return;
        }
        if state.rate == LINE && !state.is_noted_by_rate {
            self.update_alpha(state, now);
            if state.alpha == 0 && !state.is_noted_by_alpha {
                *state = DcqcnState { last: state.last, ..self.fresh(0) };
            }
        }
    }

    /// Updates alpha for all expiries of its clock up to and including `until`.
    fn update_alpha(&self, state: &mut DcqcnState, until: Time) {
        if state.alpha_at > until {
            return;
        }
        let updates = (until - state.alpha_at).0 / self.alpha_interval.0 + 1;
        if state.is_noted_by_alpha {
            state.is_noted_by_alpha = false;
            let noted = decayed(state.alpha, 1, self.divisor) + LINE / self.divisor;
            state.alpha = decayed(noted, updates - 1, self.divisor);
        } else {
            state.alpha = decayed(state.alpha, updates, self.divisor);
        }
        state.alpha_at += Time(updates * self.alpha_interval.0);
    }

    /// Handles a notification, or a loss that has the same effect.
    fn notified(&self, state: &mut DcqcnState, now: Time) {
        self.settle(state, now);
        if state.alpha_at == Time::NEVER {
            state.alpha = LINE;
            (state.rate, state.target) = (self.first, self.first);
            state.bytes_left = self.increase_bytes.unwrap_or(0);
            (state.alpha_at, state.decrease_at) = (now + self.alpha_interval, now + self.decrease_interval);
        } else {
            self.update_alpha(state, now);
            state.is_noted_by_alpha = true;
            state.decrease_at = after(now, state.decrease_at, self.decrease_interval);
        }
        state.is_noted_by_rate = true;
    }

    fn decrease(&self, state: &mut DcqcnState) {
        if self.is_clamped || state.by_time > 0 || state.by_bytes > 0 {
            state.target = state.rate;
        }
        let less = (u64::from(state.rate) * u64::from(state.alpha)) >> 31;
        state.rate = (state.rate - less as u32).max(self.least).min(state.rate);
        (state.by_time, state.by_bytes) = (0, 0);
        state.bytes_left = self.increase_bytes.unwrap_or(0);
        state.increase_at = state.decrease_at + self.increase_interval;
        state.is_noted_by_rate = false;
        state.decrease_at += self.decrease_interval;
        self.rest(state);
    }

    /// Handles the expiry of one of the clocks for increases; `count` selects its counter.
    fn raise(&self, state: &mut DcqcnState, count: impl Fn(&mut DcqcnState) -> &mut u8) {
        let (by_time, by_bytes) = (state.by_time, state.by_bytes);
        let (least, most) = match self.increase_bytes {
            Some(_) => (by_time.min(by_bytes), by_time.max(by_bytes)),
            None => (by_time, by_time),
        };
        let step = match () {
            () if most < self.fast => 0,
            () if least > self.fast => self.hyper,
            () => self.additive,
        };
        state.target = state.target.saturating_add(step).min(LINE);
        state.rate += (state.target - state.rate).div_ceil(2);
        let count = count(state);
        *count = count.saturating_add(1);
        self.rest(state);
    }

    /// Stops the clock of increases at the rate of the link.
    fn rest(&self, state: &mut DcqcnState) {
        if state.rate == LINE {
            state.increase_at = Time::NEVER;
        }
    }
}

impl ReactionRule for DcqcnRule {
    type State = DcqcnState;

    fn counts_answers(&self) -> bool {
        false
    }

    /// A flow without any notification.
    fn fresh(&self, _sl: u8) -> DcqcnState {
        DcqcnState {
            rate: LINE,
            target: LINE,
            alpha: 0,
            is_noted_by_alpha: false,
            is_noted_by_rate: false,
            alpha_at: Time::NEVER,
            decrease_at: Time::NEVER,
            increase_at: Time::NEVER,
            bytes_left: 0,
            by_time: 0,
            by_bytes: 0,
            last: Last::NONE,
        }
    }

    #[inline]
    fn sent(&self, state: &mut DcqcnState, sent: &Sent) {
        state.last = Last::of(sent);
        // Apply the due changes. Otherwise, each later call of `may_send_at` would compute them again.
        self.pass(state, sent.now);
        let Some(cycle) = self.increase_bytes else { return };
        if state.rate == LINE {
            return;
        }
        if sent.size < state.bytes_left {
            state.bytes_left -= sent.size;
            return;
        }
        state.bytes_left = cycle;
        self.raise(state, |state| &mut state.by_bytes);
    }

    fn answered(&self, state: &mut DcqcnState, _sl: u8, answer: &Answer) {
        if answer.mark == Mark::Hot {
            self.notified(state, answer.now);
        }
    }

    fn lost(&self, state: &mut DcqcnState, lost: &Lost) -> u32 {
        if self.after_losses {
            self.notified(state, lost.now);
        }
        0
    }

    /// The earliest time, from `next.now`, at which the flow has paused long enough for its rate at that time.
    #[inline]
    fn may_send_at(&self, state: &DcqcnState, _sl: u8, next: &Next) -> Option<Time> {
        let due = state.last.due(state.rate, self.pace).max(next.now);
        if due < self.next_change(state) {
            return Some(due);
        }
        let (mut state, mut time) = (*state, next.now);
        loop {
            self.pass(&mut state, time);
            let due = state.last.due(state.rate, self.pace).max(time);
            let change = self.next_change(&state);
            if due < change {
                return Some(due);
            }
            time = change;
        }
    }

    /// A decrease can throttle a flow that was already allowed to send, so the host must call `may_send_at` again.
    fn next_timer(&self, state: &DcqcnState) -> Option<Time> {
        state.is_noted_by_rate.then_some(state.decrease_at)
    }

    fn timer(&self, state: &mut DcqcnState, now: Time) {
        self.pass(state, now);
    }

    fn is_fresh(&self, state: &DcqcnState, _sl: u8, now: Time) -> bool {
        let mut state = *state;
        state.last.end <= now && {
            self.settle(&mut state, now);
            state.alpha_at == Time::NEVER
        }
    }

    /// The link's rate divided by the flow's rate, rounded down, minus one.
    fn strength(&self, state: &DcqcnState, _sl: u8, now: Time) -> u16 {
        let mut state = *state;
        self.pass(&mut state, now);
        (LINE / state.rate - 1).min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::random::Stream;

    use super::super::trial::{answer, next, sent};
    use super::*;

    const US: u64 = 1_000_000;

    /// A link of 100 Gbit/s, intervals of 10, 20 and 100 us, and a gain of a quarter.
    fn given() -> Dcqcn {
        Dcqcn {
            alpha_interval: Some(Time::from_us(10)),
            decrease_interval: Some(Time::from_us(20)),
            increase_interval: Some(Time::from_us(100)),
            gain_divisor: 4,
            additive_increase: Some(Rate::from_gbit(5)),
            hyper_increase: Some(Rate::from_gbit(10)),
            ..Dcqcn::default()
        }
    }

    fn rule(given: &Dcqcn) -> DcqcnRule {
        given.rule_of_link(Rate::from_gbit(100))
    }

    /// The rate and the target as shares of the link's rate, and alpha, at a time in microseconds.
    fn at(rule: &DcqcnRule, state: &DcqcnState, us: u64) -> [f64; 3] {
        let mut state = *state;
        rule.settle(&mut state, Time(us * US));
        rule.update_alpha(&mut state, Time(us * US));
        [state.rate, state.target, state.alpha].map(|part| {
            let share = f64::from(part) / f64::from(LINE);
            (share * 1e6).round() / 1e6
        })
    }

    fn noted(rule: &DcqcnRule, state: &mut DcqcnState, us: u64) {
        rule.answered(state, 0, &answer(Mark::Hot, 0, us * US));
    }

    #[test]
    fn losses_have_the_effect_of_notifications_if_they_count() {
        let lost = |now| Lost {
            now: Time(now),
            sent_at: Time(0),
            is_answer: false,
            payload: 1_000,
            at_last_hop: false,
        };
        for after_losses in [false, true] {
            let rule = rule(&Dcqcn { after_losses, ..given() });
            let mut state = rule.fresh(0);
            // All losses until the next decrease, at 25 us, count once.
            for now in [5 * US, 6 * US, 7 * US] {
                assert_eq!(rule.lost(&mut state, &lost(now)), 0);
            }
            // Alpha is 0.75 at the decrease.
            let rate = if after_losses { 0.625 } else { 1.0 };
            assert!((at(&rule, &state, 30)[0] - rate).abs() < 1e-6, "{:?}", at(&rule, &state, 30));
            assert_eq!(rule.next_timer(&state), after_losses.then_some(Time(25 * US)));
        }
    }

    #[test]
    fn the_first_decrease_follows_the_first_notification_by_an_interval() {
        let rule = rule(&given());
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 1_000);
        assert_eq!(at(&rule, &state, 1_019), [1.0, 1.0, 0.75], "alpha has been updated once");
        // Alpha is updated first: 1, 0.75, 0.5625. The decrease uses the third value.
        assert_eq!(at(&rule, &state, 1_020), [1.0 - 0.5625 / 2.0, 1.0, 0.5625]);
        assert_eq!(rule.next_timer(&state), Some(Time(1_020 * US)));
    }

    #[test]
    fn the_order_of_alpha_and_decrease_is_an_option() {
        let rule = rule(&Dcqcn { order: DcqcnOrder::DecreaseFirst, ..given() });
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 1_000);
        assert_eq!(at(&rule, &state, 1_020), [1.0 - 0.75 / 2.0, 1.0, 0.5625]);
    }

    #[test]
    fn alpha_follows_the_notifications_of_its_intervals() {
        let rule = rule(&given());
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 0);
        // One notification in the first interval, two in the second, none in the third.
        noted(&rule, &mut state, 5);
        noted(&rule, &mut state, 12);
        noted(&rule, &mut state, 13);
        let alpha = |us| at(&rule, &state, us)[2];
        assert_eq!([9, 10, 20, 30, 40].map(alpha), [1.0, 1.0, 1.0, 0.75, 0.5625]);
    }

    #[test]
    fn recovery_halves_the_distance_then_raises_the_target() {
        let rule = rule(&given());
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 0);
        // 1 - 0.5625 / 2 at 20 us.
        let low = 0.71875;
        let fast = (low + 1.0) / 2.0;
        assert_eq!(at(&rule, &state, 119)[0], low);
        assert_eq!(at(&rule, &state, 120)[..2], [fast, 1.0]);
        assert_eq!(at(&rule, &state, 220)[..2], [0.929_688, 1.0], "the target is at the link's rate");
        noted(&rule, &mut state, 125);
        // At 140 us, the target becomes the current rate. Alpha is 0.75^12 at 120 us. Its update at 130 us adds 0.25
        // for the notification at 125 us, and another update follows at 140 us.
        let mut alpha = 0.75_f64.powi(12);
        alpha = alpha * 0.75 + 0.25;
        alpha *= 0.75;
        let [rate, target, _] = at(&rule, &state, 140);
        assert!((target - fast).abs() < 2e-6);
        let low = fast * (1.0 - alpha / 2.0);
        assert!((rate - low).abs() < 2e-6, "{rate} {low}");
        // One step of fast recovery, then an additive increase of 5 Gbit/s and a hyper increase of 10 Gbit/s.
        let first = (low + fast) / 2.0;
        let second = (first + fast + 0.05) / 2.0;
        let third = (second + fast + 0.15_f64.min(1.0 - fast)) / 2.0;
        for (us, expected) in [(240, first), (340, second), (440, third)] {
            let [rate, ..] = at(&rule, &state, us);
            assert!((rate - expected).abs() < 4e-6, "{us} us: {rate} {expected}");
        }
    }

    #[test]
    fn a_decrease_without_an_increase_before_it_keeps_the_target_unless_clamped() {
        for clamp_target in [false, true] {
            let rule = rule(&Dcqcn { clamp_target, ..given() });
            let mut state = rule.fresh(0);
            noted(&rule, &mut state, 0);
            noted(&rule, &mut state, 25);
            let [rate, target, _] = at(&rule, &state, 40);
            // Alpha at 40 us: 0.5625 at 20 us, 0.75 x 0.5625 + 0.25 at 30 us, and 0.75 times this at 40 us.
            let alpha = (0.5625 * 0.75 + 0.25) * 0.75;
            assert!((rate - 0.71875 * (1.0 - alpha / 2.0)).abs() < 2e-6);
            assert_eq!(target, if clamp_target { 0.71875 } else { 1.0 });
        }
    }

    #[test]
    fn bytes_raise_the_rate_as_well_and_hyper_increase_needs_both() {
        let given = Dcqcn {
            increase_bytes: Some(Bytes(3_000)),
            increase_interval: Some(Time::from_us(100)),
            ..given()
        };
        let rule = rule(&given);
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 0);
        noted(&rule, &mut state, 25);
        rule.pass(&mut state, Time(40 * US));
        noted(&rule, &mut state, 45);
        rule.pass(&mut state, Time(60 * US));
        state.target = LINE / 2;
        state.rate = LINE / 4;
        let mut steps = Vec::new();
        for packet in 0..9 {
            rule.sent(&mut state, &Sent { now: Time((61 + packet) * US), ..sent(0, 1_000) });
            steps.push((state.by_bytes, f64::from(state.target) / f64::from(LINE)));
        }
        let near = |value: f64, other: f64| (value - other).abs() < 1e-6;
        assert_eq!(steps.iter().map(|step| step.0).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 2, 2, 2, 3]);
        assert!(near(steps[2].1, 0.5) && near(steps[5].1, 0.55) && near(steps[8].1, 0.6), "{steps:?}");
        // No more bytes are sent. The clock of time causes additive increases at 160 and 260 us, and a hyper
        // increase at 360 us.
        let target = |us| at(&rule, &state, us)[1];
        assert!(
            near(target(160), 0.65) && near(target(260), 0.7) && near(target(360), 0.8),
            "{}",
            target(360)
        );
    }

    #[test]
    fn a_flow_that_has_recovered_is_released() {
        let rule = rule(&given());
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 0);
        assert!(!rule.is_fresh(&state, 0, Time(1_000 * US)));
        // The target is the rate of the link, and 30 increases close the distance. Alpha reaches 0 after 73 updates.
        assert!(rule.is_fresh(&state, 0, Time(3_200 * US)));
        noted(&rule, &mut state, 4_000);
        assert_eq!(state.alpha, LINE, "a first notification again");
    }

    /// A reference implementation that handles each expiry of a clock separately.
    #[derive(Debug, Clone, Copy)]
    struct Replay(DcqcnState);

    impl Replay {
        fn pass(&mut self, rule: &DcqcnRule, now: Time) {
            let state = &mut self.0;
            loop {
                let alpha =
                    if state.alpha > 0 || state.is_noted_by_alpha { state.alpha_at } else { Time::NEVER };
                let decrease = if state.is_noted_by_rate { state.decrease_at } else { Time::NEVER };
                let at = alpha.min(decrease).min(state.increase_at);
                if at > now {
                    return;
                }
                let is_decrease = decrease == at;
                if alpha == at && (rule.order == DcqcnOrder::AlphaFirst || !is_decrease) {
                    state.alpha -= state.alpha.div_ceil(rule.divisor);
                    if std::mem::take(&mut state.is_noted_by_alpha) {
                        state.alpha += LINE / rule.divisor;
                    }
                    state.alpha_at += rule.alpha_interval;
                } else if is_decrease {
                    rule.decrease(state);
                } else {
                    state.increase_at = at + rule.increase_interval;
                    rule.raise(state, |state| &mut state.by_time);
                }
                let is_noted = state.is_noted_by_alpha || state.is_noted_by_rate;
                if state.rate == LINE && state.alpha == 0 && !is_noted {
                    *state = DcqcnState { last: state.last, ..rule.fresh(0) };
                }
            }
        }

        fn noted(&mut self, rule: &DcqcnRule, now: Time) {
            self.pass(rule, now);
            let state = &mut self.0;
            if state.alpha_at == Time::NEVER {
                state.alpha = LINE;
                (state.rate, state.target) = (rule.first, rule.first);
                state.bytes_left = rule.increase_bytes.unwrap_or(0);
                (state.alpha_at, state.decrease_at) =
                    (now + rule.alpha_interval, now + rule.decrease_interval);
            } else {
                state.is_noted_by_alpha = true;
                state.alpha_at = after(now, state.alpha_at, rule.alpha_interval);
                state.decrease_at = after(now, state.decrease_at, rule.decrease_interval);
            }
            state.is_noted_by_rate = true;
        }

        fn sent(&mut self, rule: &DcqcnRule, sent: &Sent) {
            self.0.last = Last::of(sent);
            self.pass(rule, sent.now);
            let state = &mut self.0;
            let Some(cycle) = rule.increase_bytes.filter(|_| state.rate < LINE) else { return };
            if sent.size < state.bytes_left {
                state.bytes_left -= sent.size;
                return;
            }
            state.bytes_left = cycle;
            rule.raise(state, |state| &mut state.by_bytes);
        }

        fn due(mut self, rule: &DcqcnRule, now: Time) -> Time {
            let mut time = now;
            loop {
                self.pass(rule, time);
                let due = self.0.last.due(self.0.rate, rule.pace).max(time);
                let decrease = if self.0.is_noted_by_rate { self.0.decrease_at } else { Time::NEVER };
                let change = decrease.min(self.0.increase_at);
                if due < change {
                    return due;
                }
                time = change;
            }
        }
    }

    #[test]
    fn alpha_decays_as_update_by_update() {
        let mut draws = Stream::new(1, "alpha", 0);
        for divisor in [1, 2, 3, 16, 255, 256, 1_000, 65_535] {
            for _ in 0..60 {
                let first = draws.next_u32() >> draws.below(31) >> 1;
                let (mut alpha, mut updates) = (first, 0);
                while alpha > 0 && updates < 3_000 {
                    if draws.below(40) == 0 {
                        assert_eq!(decayed(first, updates, divisor), alpha, "{first}, {updates}, {divisor}");
                    }
                    alpha -= alpha.div_ceil(divisor);
                    updates += 1;
                }
                assert_eq!(decayed(first, updates, divisor), alpha);
                assert_eq!(decayed(first, u64::MAX, divisor), 0);
            }
        }
    }

    /// Compares the rule with [`Replay`] for random parameters, notifications, packets and pauses.
    #[test]
    fn results_are_those_of_every_single_expiry() {
        let mut draws = Stream::new(7, "dcqcn", 0);
        let mut released = 0;
        for _ in 0..400 {
            let mut pick = |from: &[u64]| from[draws.below(from.len() as u32) as usize];
            let interval = |ns: u64| Some(Time::from_ns(ns));
            let given = Dcqcn {
                alpha_interval: interval(pick(&[1_000, 1_000, 777, 50_000])),
                decrease_interval: interval(pick(&[4_000, 1_000, 50_000, 333])),
                increase_interval: interval(pick(&[300_000, 5_000, 1_000, 55_000])),
                increase_bytes: [None, Some(Bytes(3_000))][pick(&[0, 1]) as usize],
                gain_divisor: pick(&[1, 2, 16, 256, 1_000]) as u16,
                fast_recovery: pick(&[1, 5]) as u8,
                additive_increase: Some(Rate(pick(&[20_000_000, 5_000_000_000]))),
                hyper_increase: Some(Rate(pick(&[200_000_000, 50_000_000_000]))),
                clamp_target: pick(&[0, 1]) == 1,
                first_rate_percent: pick(&[100, 50, 1]) as u8,
                order: [DcqcnOrder::AlphaFirst, DcqcnOrder::DecreaseFirst][pick(&[0, 1]) as usize],
                ..Dcqcn::default()
            };
            let rule = rule(&given);
            let (mut state, mut replay) = (rule.fresh(0), Replay(rule.fresh(0)));
            let mut now = Time::ZERO;
            for _ in 0..120 {
                let most = [10, 1_000, 1_000, 10_000, 300_000, 20_000_000][draws.below(6) as usize];
                // Many of these times coincide with the expiry of a clock.
                now += Time(u64::from(draws.below(most)) * [1, 1_000][draws.below(2) as usize]);
                match draws.below(4) {
                    0 => {
                        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, now.0));
                        replay.noted(&rule, now);
                    }
                    1 => {
                        let packet = Sent { now, ..sent(now.0 + 80_000, 1_000) };
                        rule.sent(&mut state, &packet);
                        replay.sent(&rule, &packet);
                    }
                    2 if rule.next_timer(&state) == Some(now) => rule.timer(&mut state, now),
                    _ => {}
                }
                let mut there = replay;
                there.pass(&rule, now);
                let is_fresh = there.0.alpha_at == Time::NEVER && there.0.last.end <= now;
                released += u32::from(is_fresh);
                assert_eq!(rule.is_fresh(&state, 0, now), is_fresh, "{given:?}");
                assert_eq!(
                    rule.strength(&state, 0, now),
                    (LINE / there.0.rate - 1).min(65_535) as u16,
                    "{given:?}"
                );
                assert_eq!(
                    rule.may_send_at(&state, 0, &next(now.0)),
                    Some(replay.due(&rule, now)),
                    "{given:?}"
                );
                let timer = replay.0.is_noted_by_rate.then_some(replay.0.decrease_at).filter(|&at| at > now);
                assert_eq!(rule.next_timer(&state).filter(|&at| at > now), timer, "{given:?}");
            }
        }
        assert!(released > 1_000, "{released}");
    }

    #[test]
    fn packets_keep_the_rate_of_the_time_at_which_they_may_start() {
        let rule = rule(&given());
        let mut state = rule.fresh(0);
        noted(&rule, &mut state, 0);
        rule.pass(&mut state, Time(20 * US));
        // 1 MB takes 80 us at the rate of the link, and 80 us / 0.71875 at the flow's rate.
        rule.sent(&mut state, &sent(101 * US, 1_000_000));
        let pause = (80e6 * (1.0 / 0.71875 - 1.0)) as u64;
        let due = rule.may_send_at(&state, 0, &next(102 * US)).unwrap();
        // The increase at 120 us shortens the pause.
        let faster = (80e6 * (1.0 / 0.859_375 - 1.0)) as u64;
        assert!(101 * US + pause > 120 * US);
        assert_eq!(due, Time(120 * US), "{} {}", pause, 101 * US + faster);
        // A notification slows the flow down at the next decrease, at 120 us. No increase follows at that time.
        noted(&rule, &mut state, 105);
        let due = rule.may_send_at(&state, 0, &next(110 * US)).unwrap();
        assert!(due > Time(101 * US + pause), "{due}");
    }

    #[test]
    fn defaults_follow_the_link_and_the_set() {
        let paper = rule(&Dcqcn { set: DcqcnSet::Paper, ..Dcqcn::default() });
        assert_eq!(
            [paper.alpha_interval, paper.decrease_interval, paper.increase_interval],
            [50, 50, 55].map(Time::from_us)
        );
        let tuned = rule(&Dcqcn::default());
        assert_eq!(tuned.decrease_interval, Time::from_us(4));
        // 20 Mbit/s, 200 Mbit/s and 1 Gbit/s of 100 Gbit/s.
        assert_eq!([tuned.additive, tuned.hyper, tuned.least], [5_000, 500, 100].map(|of| LINE / of));
    }
}
