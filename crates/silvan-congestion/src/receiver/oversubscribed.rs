//! Control of the rate of grants in an oversubscribed network, where the links to hosts are not the
//! bottleneck. It follows the consortium's simulator (uet-htsim, `oversubscribed_cc.cpp`, 2025).
//!
//! ```text
//!  at the end of each interval   mean = (mean + marked packets / packets with payload) / 2
//!    lost before the last output   rate -= packets lost there / packets; steps = 0
//!    mean > target                 rate -= rate * (mean - target) * decrease; steps = 0
//!    else                          rate += increase, or increase * 2^steps if no packet was marked; steps += 1
//!  least <= rate <= 1; the length of an interval is random, from 0.75 to 1.25 times the given one
//! ```
//!
//! The rate is relative to that of a receiver without this control. A receiver ends intervals only when it needs the rate or
//! counts a packet, so an idle receiver has no events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use crate::unfit::{Check, ensure};

/// A rate or a share of 1.
const ONE: u64 = 1 << 30;
/// The shortest interval: 100 ns.
const SHORTEST: Time = Time(100_000);
/// Maximum number of times that an increase is doubled. Even the smallest increase then exceeds the largest
/// rate.
const MOST_STEPS: u32 = 12;

/// Parameters of the control of grants in oversubscribed networks; the defaults are those of the consortium's simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Oversubscribed {
    /// Mean time between two changes of the rate, at least 100 ns; by default 1.5 times the round trip.
    pub interval: Option<Time>,
    /// The mean share of marked packets above which the rate decreases, in percent.
    #[schemars(range(min = 0, max = 99))]
    pub target_percent: u8,
    /// Decrease of the rate, in percent of the rate times the difference between the mean share and the target.
    #[schemars(range(min = 1, max = 100))]
    pub decrease_percent: u8,
    /// Increase of the rate, in thousandths of the largest rate. It doubles with each interval since the last decrease,
    /// if no packet of the interval was marked.
    #[schemars(range(min = 1, max = 1000))]
    pub increase_permille: u16,
    /// The lowest rate, in thousandths of the largest one. The consortium's simulator uses 900 divided by the
    /// ratio of the links to hosts and the links to higher switches, at least 10.
    #[schemars(range(min = 1, max = 1000))]
    pub min_rate_permille: u16,
}

impl Default for Oversubscribed {
    fn default() -> Self {
        Self {
            interval: None,
            target_percent: 30,
            decrease_percent: 50,
            increase_permille: 10,
            min_rate_permille: 10,
        }
    }
}

impl Oversubscribed {
    /// Checks that a given interval is not less than 100 ns.
    pub fn check(&self) -> Check {
        ensure(self.interval.is_none_or(|interval| interval >= SHORTEST), "interval", || {
            format!("must be at least {SHORTEST}")
        })
    }

    /// The rule of a host in a network with this round trip, and the seed and number from which its stream is derived.
    pub fn at(&self, round_trip: Time, (seed, host): (u64, u32)) -> Oversubscription {
        let usual = Time(round_trip.0 / 2 * 3);
        Oversubscription {
            interval: self.interval.unwrap_or(usual).max(SHORTEST).min(Time::from_us(1_000_000)).0,
            target: ONE * u64::from(self.target_percent) / 100,
            decrease: u64::from(self.decrease_percent),
            increase: ONE * u64::from(self.increase_permille) / 1000,
            least: ONE * u64::from(self.min_rate_permille) / 1000,
            seed,
            host,
        }
    }
}

/// The rule of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Oversubscription {
    /// In picoseconds.
    interval: u64,
    target: u64,
    /// In percent.
    decrease: u64,
    increase: u64,
    least: u64,
    seed: u64,
    host: u32,
}

/// The state of a receiving host.
#[derive(Debug, Saved)]
pub(super) struct Slowdown {
    rule: Oversubscription,
    rate: u64,
    mean: u64,
    steps: u32,
    /// Numbers of packets in this interval: with payload, with payload and a mark, trimmed, and trimmed before the last
    /// output.
    received: u64,
    marked: u64,
    trimmed: u64,
    trimmed_before: u64,
    ends_at: Time,
    random: Stream,
}

impl Slowdown {
    pub fn new(rule: Oversubscription) -> Self {
        let random = Stream::new(rule.seed, "oversubscribed", u64::from(rule.host));
        let (mean, steps, received, marked) = (0, 0, 0, 0);
        let (trimmed, trimmed_before, ends_at) = (0, 0, Time::ZERO);
        let mut found =
            Self { rule, rate: ONE, mean, steps, received, marked, trimmed, trimmed_before, ends_at, random };
        found.begin();
        found
    }

    /// Begins the next interval.
    fn begin(&mut self) {
        let (interval, drawn) = (self.rule.interval, u64::from(self.random.next_u32()));
        self.ends_at += Time(interval / 4 * 3 + ((interval / 2 * drawn) >> 32));
    }

    /// Ends all intervals up to a time.
    fn pass_time(&mut self, now: Time) {
        while self.ends_at <= now {
            self.change();
            self.begin();
        }
    }

    /// Changes the rate at the end of an interval.
    fn change(&mut self) {
        let Oversubscription { target, decrease, increase, least, .. } = self.rule;
        let share = (self.marked * ONE).checked_div(self.received).unwrap_or(0);
        self.mean = u64::midpoint(self.mean, share);
        let (packets, has_losses) = (self.received + self.trimmed, self.trimmed_before > 0);
        if has_losses {
            self.rate = self.rate.saturating_sub(self.trimmed_before * ONE / packets);
        }
        if self.mean > target {
            self.rate -= (self.rate * (self.mean - target) / ONE) * decrease / 100;
        }
        if has_losses || self.mean > target {
            self.steps = 0;
        } else {
            self.rate += if self.marked == 0 { increase << self.steps } else { increase };
            self.steps = (self.steps + 1).min(MOST_STEPS);
        }
        self.rate = self.rate.clamp(least, ONE);
        (self.received, self.marked, self.trimmed, self.trimmed_before) = (0, 0, 0, 0);
    }

    /// Counts a packet that was trimmed.
    pub fn count_trimmed(&mut self, now: Time, at_last_hop: bool) {
        self.pass_time(now);
        self.trimmed += 1;
        self.trimmed_before += u64::from(!at_last_hop);
    }

    /// Counts a packet with payload.
    pub fn count(&mut self, now: Time, is_marked: bool) {
        self.pass_time(now);
        self.received += 1;
        self.marked += u64::from(is_marked);
    }

    /// Updates the rate. Returns the time between two grants that is `span` at the largest rate.
    pub fn stretched(&mut self, now: Time, span: Time) -> Time {
        self.pass_time(now);
        Time((u128::from(span.0) * u128::from(ONE) / u128::from(self.rate)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Oversubscribed {
        Oversubscribed { interval: Some(Time::from_us(1)), ..Oversubscribed::default() }
    }

    fn slowdown(given: &Oversubscribed) -> Slowdown {
        Slowdown::new(given.at(Time::from_us(40), (1, 3)))
    }

    /// Ends an interval with this many packets and marked packets; returns the rate in thousandths.
    fn pass(of: &mut Slowdown, received: u64, marked: u64) -> u64 {
        (of.received, of.marked) = (received, marked);
        of.pass_time(of.ends_at);
        (of.rate * 1000 + ONE / 2) / ONE
    }

    #[test]
    fn packets_lost_before_the_last_output_lower_the_rate() {
        let mut of = slowdown(&given());
        let pass = |of: &mut Slowdown, received, losses: &[bool]| {
            let now = Time(of.ends_at.0 - 1);
            losses.iter().for_each(|&at_last_hop| of.count_trimmed(now, at_last_hop));
            pass(of, received, 0)
        };
        assert_eq!(pass(&mut of, 6, &[false, false, true, true]), 800, "two of ten packets");
        assert_eq!(pass(&mut of, 6, &[true]), 810, "as without a loss");
        assert_eq!(pass(&mut of, 0, &[false]), 10, "the lowest rate");
    }

    #[test]
    fn the_rate_falls_with_the_mean_share_of_marks_above_the_target() {
        let mut of = slowdown(&given());
        // The mean share is 1/2, 3/4 and 7/8. The rate loses half of the excess over 0.3.
        assert_eq!(pass(&mut of, 10, 10), 900);
        assert_eq!(pass(&mut of, 10, 10), 698, "0.9 * (1 - 0.225)");
        assert_eq!(pass(&mut of, 10, 10), 497, "0.6975 * (1 - 0.2875)");
        // 0.4375 is above the target, 0.21875 is not.
        assert_eq!(pass(&mut of, 10, 0), 463);
        assert_eq!([pass(&mut of, 10, 0), pass(&mut of, 10, 0), pass(&mut of, 10, 0)], [473, 493, 533]);
        assert_eq!(pass(&mut of, 10, 1), 543, "a marked packet prevents a doubled increase");
        assert_eq!(pass(&mut of, 0, 0), 703, "16 times");
        (0..10).for_each(|_| assert!(pass(&mut of, 0, 0) <= 1000));
        assert_eq!(pass(&mut of, 0, 0), 1000);
    }

    #[test]
    fn the_rate_stays_above_the_lowest_one() {
        let mut of = slowdown(&Oversubscribed { min_rate_permille: 225, ..given() });
        assert_eq!((0..40).map(|_| pass(&mut of, 7, 7)).last(), Some(225));
        let span = of.stretched(Time::ZERO, Time(1_000));
        assert_eq!(span, Time(4_444));
    }

    #[test]
    fn intervals_vary_by_a_quarter_and_have_the_given_mean() {
        let mut of = slowdown(&given());
        let mut spans = Vec::new();
        for _ in 0..4_000 {
            let begun = of.ends_at;
            pass(&mut of, 1, 0);
            spans.push((of.ends_at - begun).0);
        }
        assert!(spans.iter().all(|span| (750_000..1_250_000).contains(span)));
        let mean = spans.iter().sum::<u64>() / 4_000;
        // Five standard deviations of the mean of 4,000 uniform numbers.
        assert!(mean.abs_diff(1_000_000) < 11_500, "{mean}");
        let usual = Oversubscribed::default().at(Time::from_us(40), (1, 3));
        assert_eq!(usual.interval, Time::from_us(60).0);
    }

    #[test]
    fn packets_count_in_the_interval_of_their_arrival() {
        let mut of = slowdown(&given());
        let end = of.ends_at;
        of.count(end - Time(1), true);
        assert_eq!((of.received, of.marked, of.mean), (1, 1, 0));
        of.count(end, false);
        assert_eq!((of.received, of.marked, of.mean), (1, 0, ONE / 2));
    }
}
