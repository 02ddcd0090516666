//! InfiniBand's reaction: the congestion control table and the index into it (IBA 1.2.1 annex
//! A10; Paper I, 2.2; Paper III, VII.B).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use super::{Properties, ReactionParameters, ReactionRule, Source, StateLevel};
use crate::LinkLayer;
use crate::facts::{Answer, Mark, Next, Sent};
use crate::unfit::{Check, LONGEST_DELAY, Limits, Unfit, ensure};

/// Parameters of a channel adapter, for all service levels that are not in `per_sl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cct {
    /// Increment of the index for each BECN.
    pub ccti_increase: u16,
    /// Increment for a BECN with the greatest severity (63). For lower severities it is proportionally smaller, but at
    /// least `ccti_increase`.
    pub quantized_increase: u16,
    /// Upper bound of the index.
    pub ccti_limit: u16,
    /// Lower bound of the index.
    pub ccti_min: u16,
    /// Period after which each index is decremented by one, in units of 1.024 us.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ccti_timer: u32,
    /// The congestion log contains an event each time an index rises from less than this value to this value
    /// or more (`Trigger_Threshold`; see `measure.congestion_log`). With 0, there are no events.
    pub trigger_threshold: u16,
    /// Whether the CCTI timer runs freely or restarts with each BECN.
    pub timer: TimerStart,
    /// Whether an index belongs to a queue pair (flow) or to a service level.
    pub level: ControlLevel,
    /// The congestion control table: injection rate delays.
    pub table: CctTable,
    /// Parameters of single service levels, which replace those above.
    pub per_sl: Vec<PerSl>,
}

/// Whether the state of a reaction (index, window, rate, delays) belongs to a queue pair (flow) or to a service level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlLevel {
    /// Per flow.
    #[default]
    Qp,
    /// Per service level of the port: all flows of a host with this service level share the state.
    Sl,
}

/// How the periods of the CCTI timer start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimerStart {
    /// Periodically, independently of notifications: one timer per host and service level (IBA 1.2.1, annex
    /// A10).
    Cyclic,
    /// Each BECN restarts the timer of its index, so the index is decremented after a period without a BECN (Paper I,
    /// 3.2; Paper V, III.D; MVCM, 3.2.2).
    Notification,
}

/// Parameters of one service level. A parameter that is not given has the value for all service levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerSl {
    /// The service level, 0 to 15.
    #[schemars(range(max = 15))]
    pub sl: u8,
    /// Increment of the index for each BECN.
    pub ccti_increase: Option<u16>,
    /// Upper bound of the index.
    pub ccti_limit: Option<u16>,
    /// Lower bound of the index.
    pub ccti_min: Option<u16>,
    /// Period after which each index is decremented by one, in units of 1.024 us.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ccti_timer: Option<u32>,
    /// Index at which an event is added to the congestion log. With 0, there are no events.
    pub trigger_threshold: Option<u16>,
}

/// The format of the table. Delays are for a full packet (MTU); those of shorter packets are proportionally shorter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CctTable {
    /// CCT[i] = scale * i^2 * 7 / divisor^2 microseconds. The rule of the switch vendor has divisor 95, and
    /// the rule of Paper III has divisor 106.
    Quadratic {
        /// The divisor in the formula.
        #[schemars(range(min = 1))]
        divisor: u32,
        /// The scale in the formula. The larger networks of Paper IV need more than 1.
        #[schemars(range(min = 1))]
        scale: u32,
        /// Number of entries, 128 or more.
        #[schemars(range(min = 128, max = 16_384))]
        entries: u16,
    },
    /// CCT[i] = i times the transmission time of `packets` full packets.
    Linear {
        /// Packets per entry.
        #[schemars(range(min = 1, max = 1024))]
        packets: u32,
        /// Number of entries, 128 or more.
        #[schemars(range(min = 128, max = 16_384))]
        entries: u16,
    },
    /// The delays for a full packet, in nanoseconds.
    List {
        /// 128 or more delays, each of at most one second.
        #[schemars(length(min = 128, max = 16_384), inner(range(max = 1_000_000_000)))]
        delays_ns: Vec<u64>,
    },
    /// Entries as encoded by IBA: bits 15..14 are a shift, bits 13..0 a multiplier; the delay is the packet's
    /// transmission time times multiplier / 2^shift.
    Iba {
        /// 128 or more entries.
        #[schemars(length(min = 128, max = 16_384))]
        entries: Vec<u16>,
    },
}

impl Default for Cct {
    fn default() -> Self {
        Self {
            ccti_increase: 1,
            quantized_increase: 8,
            ccti_limit: 127,
            ccti_min: 0,
            ccti_timer: 150,
            trigger_threshold: 0,
            timer: TimerStart::Cyclic,
            level: ControlLevel::Qp,
            table: CctTable::Quadratic { divisor: 106, scale: 1, entries: 128 },
            per_sl: Vec::new(),
        }
    }
}

/// Number of entries that a congestion control table may have.
const ENTRIES: std::ops::RangeInclusive<usize> = 128..=16_384;

/// Length of a tick of the CCTI timer in picoseconds: 1.024 us.
const TIMER_UNIT_PS: u64 = 1_024_000;

/// The parameters of one service level at one host.
#[derive(Debug, Clone)]
struct Level {
    increase: u16,
    limit: u16,
    min: u16,
    trigger: u16,
    period_ps: u64,
    /// Phase of the free-running timer in picoseconds. It is random, because hosts are not synchronized.
    phase_ps: u64,
    start: TimerStart,
}

impl Level {
    /// The state of an index's timer after a notification; see [`CctState::mark`].
    fn mark(&self, now: Time) -> u64 {
        match self.start {
            TimerStart::Cyclic => self.expiries(now),
            TimerStart::Notification => now.0,
        }
    }

    /// Number of times that the free-running timer has expired.
    fn expiries(&self, now: Time) -> u64 {
        (now.0 + self.phase_ps) / self.period_ps
    }

    /// Number of times that the timer of an index has expired since its mark.
    fn since(&self, mark: u64, now: Time) -> u64 {
        match self.start {
            TimerStart::Cyclic => self.expiries(now) - mark,
            TimerStart::Notification => (now.0 - mark) / self.period_ps,
        }
    }

    /// The time at which the timer of an index expires for the `n`-th time since its mark, in picoseconds.
    fn expiry(&self, mark: u64, n: u64) -> u64 {
        match self.start {
            TimerStart::Cyclic => (mark + n) * self.period_ps - self.phase_ps,
            TimerStart::Notification => mark + n * self.period_ps,
        }
    }
}

/// The reaction of one host.
#[derive(Debug, Clone)]
pub struct CctRule {
    levels: Box<[Level]>,
    /// Injection rate delay for each index, for a packet of `full_size` bytes.
    delays_ps: Arc<[u64]>,
    largest_delay_ps: u64,
    full_size: u64,
    quantized_increase: u32,
    level: ControlLevel,
}

/// The index of a flow or service level, and the time from which the delay counts.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub struct CctState {
    index: u16,
    /// The time up to which `index` has been decremented: for a free-running timer, its number of expiries; otherwise,
    /// the start of the index's own timer in picoseconds.
    mark: u64,
    /// The time at which the tail of the last packet left the host.
    last_end: Time,
    last_size: u32,
}

impl CctTable {
    /// The delay of a full packet for each index, in picoseconds. `full_span` is the transmission time of a full
    /// packet on the host's link.
    #[must_use]
    pub fn delays_ps(&self, full_span: Time) -> Vec<u64> {
        match self {
            Self::Quadratic { divisor, scale, entries } => (0..u128::from(*entries))
                .map(|i| {
                    let square = u128::from(*divisor).pow(2).max(1);
                    (u128::from(*scale) * i * i * 7_000_000 / square) as u64
                })
                .collect(),
            Self::Linear { packets, entries } => {
                (0..u64::from(*entries)).map(|i| i * u64::from(*packets) * full_span.0).collect()
            }
            Self::List { delays_ns } => delays_ns.iter().map(|ns| ns.saturating_mul(1_000)).collect(),
            Self::Iba { entries } => entries
                .iter()
                .map(|entry| (full_span.0 * u64::from(entry & 0x3fff)) >> (entry >> 14))
                .collect(),
        }
    }

    /// Checks the table and returns its number of entries.
    ///
    /// # Errors
    /// Fails if a list has a number of entries out of range, or if the last delay of a quadratic table
    /// exceeds one second.
    fn check(&self) -> Result<usize, Unfit> {
        let count = |key: &str, entries: usize| {
            ensure(ENTRIES.contains(&entries), key, || {
                format!("must have {} to {} entries", ENTRIES.start(), ENTRIES.end())
            })
        };
        match self {
            Self::Quadratic { divisor, scale, entries } => {
                let last = u128::from(*entries).saturating_sub(1);
                let largest =
                    u128::from(*scale) * last * last * 7_000_000 / u128::from(*divisor).pow(2).max(1);
                ensure(largest <= u128::from(LONGEST_DELAY.0), "table.scale", || {
                    format!("gives a last delay of {} s; must be at most 1 s", largest / 1_000_000_000_000)
                })?;
            }
            Self::Linear { .. } => {}
            Self::List { delays_ns } => count("table.delays_ns", delays_ns.len())?,
            Self::Iba { entries } => count("table.entries", entries.len())?,
        }
        Ok(self.len())
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Quadratic { entries, .. } | Self::Linear { entries, .. } => usize::from(*entries),
            Self::List { delays_ns } => delays_ns.len(),
            Self::Iba { entries } => entries.len(),
        }
    }

    /// Whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReactionParameters for Cct {
    fn properties(&self) -> Properties {
        Properties { link_layer: Some(LinkLayer::InfiniBand), ..Properties::NOTIFIED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        let entries = self.table.check()?;
        check_bounds("", self.ccti_limit, self.ccti_min, entries)?;
        check_trigger("", self.trigger_threshold, (self.ccti_min, self.ccti_limit))?;
        ensure(self.ccti_timer > 0, "ccti_timer", || "must be at least 1 (unit 1.024 us)".to_owned())?;
        for (index, own) in self.per_sl.iter().enumerate() {
            let at = format!("per_sl.{index}.");
            let first = self.per_sl.iter().position(|other| other.sl == own.sl).unwrap_or(index);
            ensure(first == index, &format!("{at}sl"), || {
                format!("is already given by congestion.reaction.per_sl.{first}")
            })?;
            let limit = own.ccti_limit.unwrap_or(self.ccti_limit);
            let min = own.ccti_min.unwrap_or(self.ccti_min);
            check_bounds(&at, limit, min, entries)?;
            let trigger = own.trigger_threshold.unwrap_or(self.trigger_threshold);
            check_trigger(&at, trigger, (min, limit)).map_err(|mut unfit| {
                if own.trigger_threshold.is_none() {
                    unfit.what += &format!("; this entry inherits {trigger}");
                }
                unfit
            })?;
            ensure(own.ccti_timer != Some(0), &format!("{at}ccti_timer"), || {
                "must be at least 1 (unit 1.024 us)".to_owned()
            })?;
        }
        Ok(())
    }
}

/// Checks the bounds of an index. `at` is the prefix of their keys.
fn check_bounds(at: &str, limit: u16, min: u16, entries: usize) -> Check {
    ensure(usize::from(limit) < entries, &format!("{at}ccti_limit"), || {
        format!("must be 0 to {}, as the table has {entries} entries", entries - 1)
    })?;
    ensure(min <= limit, &format!("{at}ccti_min"), || format!("must be at most ccti_limit, {limit}"))
}

/// Checks that an index can rise to the trigger threshold. `at` is the prefix of the key.
fn check_trigger(at: &str, trigger: u16, (min, limit): (u16, u16)) -> Check {
    ensure(trigger == 0 || (min < trigger && trigger <= limit), &format!("{at}trigger_threshold"), || {
        if min == limit {
            "must be 0 (no events), because the index is constant: ccti_min equals ccti_limit".to_owned()
        } else {
            format!("must be 0 (no events) or {} to {limit}, to which an index can rise", min + 1)
        }
    })
}

impl Cct {
    /// Creates the rule of a host. Hosts with equal link rates share the table of delays.
    pub(super) fn rule(&self, source: &Source) -> Option<CctRule> {
        let span = source.rate.pace().time(source.full_size);
        let delays = source.tables.get(source.rate, || self.table.delays_ps(span));
        let mut random = Stream::new(source.seed, "ccti timer", u64::from(source.host));
        Some(self.rule_with(delays, source.full_size, &mut random))
    }

    /// Creates the rule of a host. `random` determines the phases of its timers.
    fn rule_with(&self, delays_ps: Arc<[u64]>, full_size: u32, random: &mut Stream) -> CctRule {
        let levels = (0..16)
            .map(|sl| {
                let own = self.per_sl.iter().find(|own| own.sl == sl);
                let timer = own.and_then(|own| own.ccti_timer).unwrap_or(self.ccti_timer);
                let period_ps = u64::from(timer.max(1)) * TIMER_UNIT_PS;
                let fraction = u64::from(random.next_u32());
                Level {
                    increase: own.and_then(|own| own.ccti_increase).unwrap_or(self.ccti_increase),
                    limit: own.and_then(|own| own.ccti_limit).unwrap_or(self.ccti_limit),
                    min: own.and_then(|own| own.ccti_min).unwrap_or(self.ccti_min),
                    trigger: own.and_then(|own| own.trigger_threshold).unwrap_or(self.trigger_threshold),
                    period_ps,
                    phase_ps: ((u128::from(period_ps) * u128::from(fraction)) >> 32) as u64,
                    start: self.timer,
                }
            })
            .collect();
        let largest_delay_ps = delays_ps.iter().copied().max().unwrap_or(0);
        CctRule {
            levels,
            delays_ps,
            largest_delay_ps,
            full_size: u64::from(full_size.max(1)),
            quantized_increase: u32::from(self.quantized_increase),
            level: self.level,
        }
    }
}

impl CctRule {
    /// The current index, after all timer expiries so far.
    #[inline]
    fn index(&self, state: &CctState, sl: u8, now: Time) -> u16 {
        let level = &self.levels[usize::from(sl)];
        if state.index <= level.min {
            return state.index;
        }
        let expired = level.since(state.mark, now);
        u64::from(state.index).saturating_sub(expired).max(u64::from(level.min)) as u16
    }

    #[inline]
    fn delay(&self, index: u16, size: u32) -> u64 {
        let full = self.delays_ps[usize::from(index).min(self.delays_ps.len() - 1)];
        if full == 0 || u64::from(size) == self.full_size {
            full
        } else {
            (u128::from(full) * u128::from(size) / u128::from(self.full_size)) as u64
        }
    }
}

impl ReactionRule for CctRule {
    type State = CctState;

    fn counts_answers(&self) -> bool {
        false
    }

    fn level(&self) -> StateLevel {
        self.level.into()
    }

    /// The state of a flow that has not been notified.
    fn fresh(&self, sl: u8) -> CctState {
        CctState { index: self.levels[usize::from(sl)].min, ..CctState::default() }
    }

    /// The earliest time, starting with `now`, at which the next packet may start. This is the end of the previous
    /// packet plus the delay of the index *at that time*, so that timer expiries up to then count.
    #[inline]
    fn may_send_at(&self, state: &CctState, sl: u8, next: &Next) -> Option<Time> {
        let now = next.now;
        let level = &self.levels[usize::from(sl)];
        let mut index = self.index(state, sl, now);
        let mut due = state.last_end.0 + self.delay(index, state.last_size);
        if due <= now.0 || index <= level.min {
            return Some(Time(due.max(now.0)));
        }
        let mut n = level.since(state.mark, now) + 1;
        loop {
            let expiry = level.expiry(state.mark, n);
            if due <= expiry || index <= level.min {
                return Some(Time(due));
            }
            index -= 1;
            n += 1;
            due = (state.last_end.0 + self.delay(index, state.last_size)).max(expiry);
        }
    }

    #[inline]
    fn sent(&self, state: &mut CctState, sent: &Sent) {
        state.last_end = sent.end;
        state.last_size = sent.size;
    }

    /// Handles a BECN. A severity of 0 means that the BECN contains no severity.
    fn answered(&self, state: &mut CctState, sl: u8, answer: &Answer) {
        let Answer { now, mark, severity, .. } = *answer;
        if mark != Mark::Hot {
            return;
        }
        let level = &self.levels[usize::from(sl)];
        let index = self.index(state, sl, now);
        let quantized = (self.quantized_increase * u32::from(severity)).div_ceil(63);
        let increase = level.increase.max(quantized.min(u32::from(u16::MAX)) as u16);
        state.index = index.saturating_add(increase).min(level.limit);
        state.mark = level.mark(now);
    }

    /// Whether the index is at its minimum and even the largest delay after the last packet has passed.
    fn is_fresh(&self, state: &CctState, sl: u8, now: Time) -> bool {
        // For most flows, the time alone shows that the state is not fresh. Full packets need no division.
        let size = u64::from(state.last_size);
        let largest = if size == self.full_size {
            self.largest_delay_ps
        } else {
            self.largest_delay_ps.saturating_mul(size) / self.full_size
        };
        let is_past = state.last_end.0.saturating_add(largest) < now.0;
        is_past && self.index(state, sl, now) == self.levels[usize::from(sl)].min
    }

    fn strength(&self, state: &CctState, sl: u8, now: Time) -> u16 {
        self.index(state, sl, now)
    }

    fn trigger(&self, sl: u8) -> u16 {
        self.levels[usize::from(sl)].trigger
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;

    fn rule(cct: &Cct) -> CctRule {
        let delays = cct.table.delays_ps(Time(1_024_000)).into();
        let mut rule = cct.rule_with(delays, 2048, &mut Stream::new(1, "cct", 0));
        rule.levels.iter_mut().for_each(|level| level.phase_ps = 0);
        rule
    }

    const TICK: u64 = 150 * TIMER_UNIT_PS;

    #[test]
    fn tables_by_formula_list_and_encoding() {
        let quadratic = CctTable::Quadratic { divisor: 106, scale: 1, entries: 128 }.delays_ps(Time(1));
        assert_eq!(quadratic.len(), 128);
        assert_eq!((quadratic[0], quadratic[106], quadratic[127]), (0, 7_000_000, 10_048_326));
        let list = CctTable::List { delays_ns: vec![0, 5] }.delays_ps(Time(1));
        assert_eq!(list, [0, 5_000]);
        let linear = CctTable::Linear { packets: 2, entries: 128 }.delays_ps(Time(7));
        assert_eq!((linear.len(), linear[1], linear[127]), (128, 14, 127 * 14));
        // Multiplier 3 with shifts 0 to 3.
        let entries = vec![3, 1 << 14 | 3, 2 << 14 | 3, 3 << 14 | 3];
        assert_eq!(CctTable::Iba { entries }.delays_ps(Time(1_000)), [3_000, 1_500, 750, 375]);
    }

    #[test]
    fn index_rises_with_notifications_and_falls_with_the_timer() {
        let rule = rule(&Cct { ccti_increase: 2, ccti_limit: 5, ccti_min: 1, ..Cct::default() });
        let mut state = rule.fresh(0);
        assert_eq!(rule.index(&state, 0, Time::ZERO), 1);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 10));
        assert_eq!(rule.index(&state, 0, Time(10)), 3);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 10));
        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 10));
        assert_eq!(rule.index(&state, 0, Time(10)), 5, "CCTI_Limit");
        assert_eq!(rule.index(&state, 0, Time(TICK - 1)), 5);
        assert_eq!(rule.index(&state, 0, Time(TICK)), 4);
        assert_eq!(rule.index(&state, 0, Time(100 * TICK)), 1, "CCTI_Min");
    }

    #[test]
    fn delay_counts_from_the_end_of_the_packet_before() {
        let rule = rule(&Cct::default());
        let mut state = rule.fresh(0);
        rule.sent(&mut state, &sent(1_000_000, 2048));
        assert_eq!(rule.may_send_at(&state, 0, &next(1_000_000)), Some(Time(1_000_000)));
        (0..106).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 1_000_000)));
        assert_eq!(rule.may_send_at(&state, 0, &next(1_000_000)), Some(Time(8_000_000)));
        rule.sent(&mut state, &sent(1_000_000, 1024));
        assert_eq!(
            rule.may_send_at(&state, 0, &next(1_000_000)),
            Some(Time(4_500_000)),
            "relative to packet length"
        );
    }

    #[test]
    fn timer_expiries_during_a_long_delay_shorten_it() {
        let table = CctTable::List { delays_ns: (0..128).map(|i| i * 100_000).collect() };
        let rule = rule(&Cct { table, ..Cct::default() });
        let mut state = rule.fresh(0);
        rule.sent(&mut state, &sent(0, 2048));
        (0..10).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 0)));
        // The delay is 1000 us at index 10, and each tick of 153.6 us reduces it by 100 us.
        let due = rule.may_send_at(&state, 0, &next(0));
        assert_eq!(due, Some(Time(4 * TICK)), "at the 4th tick index 6 asks for 600 us, which have passed");
        for now in [0, TICK, 2 * TICK + 5] {
            assert_eq!(
                rule.may_send_at(&state, 0, &next(now)),
                due,
                "the answer does not depend on when one asks"
            );
        }
    }

    #[test]
    fn a_notification_starts_its_own_timer_anew() {
        let table = CctTable::List { delays_ns: (0..128).map(|i| i * 100_000).collect() };
        let rule = rule(&Cct { timer: TimerStart::Notification, table, ..Cct::default() });
        let mut state = rule.fresh(0);
        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 5));
        // Less than a whole period has passed, so this timer has not expired, unlike a free-running one.
        rule.answered(&mut state, 0, &answer(Mark::Hot, 0, TICK + 4));
        assert_eq!(rule.index(&state, 0, Time(2 * TICK + 3)), 2, "nothing is taken off");
        assert_eq!(rule.index(&state, 0, Time(2 * TICK + 4)), 1, "a period after the last");
        rule.sent(&mut state, &sent(TICK + 4, 2048));
        let due = Time(TICK + 4 + TICK);
        for now in [TICK + 4, TICK + 5, 2 * TICK + 3] {
            assert_eq!(rule.may_send_at(&state, 0, &next(now)), Some(due), "200 us at index 2, but 100 at 1");
        }
    }

    #[test]
    fn a_trigger_is_an_index_that_is_reached_from_below() {
        let is_fine = |trigger| check_trigger("", trigger, (4, 9)).is_ok();
        assert_eq!([0, 4, 5, 9, 10].map(is_fine), [true, false, true, true, false]);
        assert!(check_trigger("", 4, (4, 4)).is_err(), "a constant index reaches nothing");
    }

    #[test]
    fn the_trigger_of_a_service_level_is_reached_within_its_own_bounds() {
        let wrong = |own: PerSl| {
            let common = Cct { ccti_limit: 100, trigger_threshold: 50, ..Cct::default() };
            let cct = Cct { per_sl: vec![own], ..common };
            cct.check(&Limits { lane: silvan_engine::Bytes(65_536), full: silvan_engine::Bytes(2_048) })
                .err()
                .map(|unfit| (unfit.key, unfit.what))
        };
        let own = PerSl {
            sl: 3,
            ccti_increase: None,
            ccti_limit: Some(49),
            ccti_min: None,
            ccti_timer: None,
            trigger_threshold: None,
        };
        let key = "per_sl.0.trigger_threshold".to_owned();
        let what = "must be 0 (no events) or 1 to 49, to which an index can rise";
        assert_eq!(wrong(own.clone()), Some((key.clone(), format!("{what}; this entry inherits 50"))));
        assert_eq!(
            wrong(PerSl { trigger_threshold: Some(50), ..own.clone() }),
            Some((key.clone(), what.to_owned()))
        );
        assert_eq!(wrong(PerSl { ccti_limit: Some(50), ..own.clone() }), None);
        assert_eq!(wrong(PerSl { trigger_threshold: Some(0), ..own.clone() }), None);
        let high = wrong(PerSl { ccti_limit: None, ccti_min: Some(50), ..own });
        let what = "must be 0 (no events) or 51 to 100, to which an index can rise; this entry inherits 50";
        assert_eq!(high, Some((key, what.to_owned())));
    }

    #[test]
    fn timers_of_service_levels_have_phases_all_over_their_period() {
        let mut random = Stream::new(1, "ccti timer", 0);
        let rule = Cct::default().rule_with([0].into(), 2_048, &mut random);
        let phases: Vec<u64> = rule.levels.iter().map(|level| level.phase_ps).collect();
        let period = rule.levels[0].period_ps;
        assert!(phases.iter().all(|&phase| phase < period));
        for quarter in 0..4 {
            let range = quarter * period / 4..(quarter + 1) * period / 4;
            assert!(phases.iter().any(|phase| range.contains(phase)), "{phases:?} in {range:?}");
        }
    }

    #[test]
    fn service_levels_have_their_own_parameters() {
        let own = PerSl {
            sl: 3,
            ccti_increase: Some(9),
            ccti_limit: None,
            ccti_min: None,
            ccti_timer: Some(1),
            trigger_threshold: None,
        };
        let rule = rule(&Cct { per_sl: vec![own], ..Cct::default() });
        let (mut a, mut b) = (rule.fresh(0), rule.fresh(3));
        rule.answered(&mut a, 0, &answer(Mark::Hot, 0, 0));
        rule.answered(&mut b, 3, &answer(Mark::Hot, 0, 0));
        assert_eq!((rule.index(&a, 0, Time(0)), rule.index(&b, 3, Time(0))), (1, 9));
        assert_eq!((rule.index(&a, 0, Time(TIMER_UNIT_PS)), rule.index(&b, 3, Time(TIMER_UNIT_PS))), (1, 8));
    }
}
