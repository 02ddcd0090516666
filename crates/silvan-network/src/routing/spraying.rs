//! Packet spraying: a host gives each packet an entropy value, which switches hash in addition to the fields of the flow
//! ([`super::ecmp`]). Packets of one flow then take many routes.
//!
//! The rules are those of the Ultra Ethernet Consortium's simulator (uet-htsim 2025), without its timeouts, and the states of
//! paths of Multipath Reliable Connection ([`super::path_states`]). Each host has its own random stream.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use super::adaptive::mixed;
pub use super::path_states::RouteFeedback;
use super::path_states::{PathSet, Probe, Probes, Retirement};

/// How hosts select the entropy values of data packets. Control packets that answer a packet have its entropy
/// value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Saved)]
#[serde(rename_all = "kebab-case")]
pub enum Spraying {
    /// Packets have no entropy value: each flow has one route.
    #[default]
    None,
    /// Each flow uses one entropy value after another, in an order that is permuted at random before each
    /// round.
    Oblivious,
    /// Each packet has a random entropy value.
    Random,
    /// As `oblivious`, but a packet passes over values that have pending skips. A mark adds one skip to the value of the marked
    /// packet, and a loss before the last output adds four. A value has at most 15 pending skips.
    Bitmap,
    /// Recycled entropies (REPS): a packet takes the oldest of the last eight values whose packets were acknowledged
    /// without a mark, and that have not been used since. If there is none, the value is random.
    Reps,
    /// A packet takes the oldest value that was acknowledged without a mark and has not been used since. If there is none,
    /// it takes a value as with `bitmap`.
    Mixed,
    /// The states of paths of Multipath Reliable Connection (MRC, OCP 2026). A mark, or a loss that is reported before the last
    /// output, makes a packet pass over the value once. After another loss, the value is retired (`retirement`): no packet
    /// takes it until a probe with this value is answered.
    PathStates,
}

impl Spraying {
    /// Whether packets of a flow can take several routes.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::None
    }

    /// Whether entropy values depend on marks and losses.
    #[must_use]
    pub fn reads_marks(self) -> bool {
        matches!(self, Self::Bitmap | Self::Reps | Self::Mixed | Self::PathStates)
    }

    /// Whether entropy values of packets without a mark are used again.
    #[must_use]
    pub fn reuses_values(self) -> bool {
        matches!(self, Self::Reps | Self::Mixed)
    }
}

/// Maximum number of entropy values that REPS stores for a flow.
const RECYCLED: usize = 8;
/// Maximum number of pending skips of an entropy value.
const MOST_SKIPS: u8 = 15;
/// The number of skips after a lost packet.
const SKIPS_OF_LOSS: u8 = 4;

/// A round over all entropy values. The value at each position is the position with some bits inverted.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct EntropyRound {
    at: u16,
    inverted: u16,
}

impl EntropyRound {
    pub(super) fn new(values: u16, random: &mut Stream) -> Self {
        Self { at: 0, inverted: random.below(u32::from(values)) as u16 }
    }

    pub(super) fn value(self) -> u16 {
        self.at ^ self.inverted
    }

    pub(super) fn advance(&mut self, values: u16, random: &mut Stream) {
        self.at += 1;
        if self.at == values {
            *self = Self::new(values, random);
        }
    }
}

/// The state of a flow at its source.
#[derive(Debug, Saved)]
struct SprayedFlow {
    round: EntropyRound,
    /// How often each value is to be skipped; empty unless the rule skips values.
    skips: Box<[u8]>,
    /// Values to use again, the oldest first.
    recycled: VecDeque<u16>,
    /// The states of the values, if the rule has them, from the first mark or loss.
    paths: Option<Box<PathSet>>,
}

/// Selects the entropy values of a host's packets.
#[derive(Debug, Saved)]
pub struct Sprayer {
    rule: Spraying,
    /// The number of entropy values, a power of two.
    values: u16,
    /// How values are retired, with [`Spraying::PathStates`].
    retirement: Retirement,
    random: Stream,
    /// Whether entropy values select ports directly, and are not hashed with the fields of the flow.
    is_direct: bool,
    /// The number of the host.
    host: u32,
    /// By traffic source and destination host.
    flows: FxHashMap<(u16, u32), SprayedFlow>,
    probes: Probes,
}

impl Sprayer {
    /// The state of `host` without flows. `values` is the number of entropy values, a power of two; `seed` is
    /// the seed of the run.
    pub fn new(rule: Spraying, values: u16, retirement: Retirement, (seed, host): (u64, u32)) -> Self {
        let random = Stream::new(seed, "entropy", u64::from(host));
        let (values, flows) = (values.max(1), FxHashMap::default());
        let probes = Probes::default();
        Self { rule, values, retirement, random, is_direct: false, host, flows, probes }
    }

    /// The same component for entropy values that select ports directly, such as source routes.
    pub fn with_direct_values(self) -> Self {
        Self { is_direct: true, ..self }
    }

    /// The entropy value of control packets that neither answer a packet nor have a value of their own, such as requests
    /// for credit, from a traffic source of the host, or to it. If values select ports, it is a hash of the flow, so
    /// that flows use different routes.
    pub fn of_flow(&self, destination: u32, source: u16) -> u16 {
        if !self.is_direct {
            return 0;
        }
        (mixed([self.host, destination, source.into()]) % u64::from(self.values)) as u16
    }

    fn flow(&mut self, source: u16, destination: u32) -> (&mut SprayedFlow, &mut Stream) {
        let Self { rule, values, random, flows, .. } = self;
        let skips = if matches!(rule, Spraying::Bitmap | Spraying::Mixed) { usize::from(*values) } else { 0 };
        let flow = flows.entry((source, destination)).or_insert_with(|| SprayedFlow {
            round: EntropyRound::new(*values, random),
            skips: vec![0; skips].into(),
            recycled: VecDeque::new(),
            paths: None,
        });
        (flow, random)
    }

    /// Selects the entropy value of the next packet from a traffic source of the host to a destination; 0
    /// without spraying. Probes of the flow that were suspended become due after the interval.
    pub fn next(&mut self, source: u16, destination: u32, now: Time) -> u16 {
        let (rule, values) = (self.rule, self.values);
        let interval = self.retirement.probe_interval;
        let (flow, random) = self.flow(source, destination);
        match rule {
            Spraying::None => 0,
            Spraying::Oblivious => flow.in_turn(values, random),
            Spraying::Random => random.below(u32::from(values)) as u16,
            Spraying::Bitmap => flow.unskipped(values, random),
            Spraying::Reps => match flow.recycled.pop_front() {
                Some(value) => value,
                None => random.below(u32::from(values)) as u16,
            },
            Spraying::Mixed => match flow.recycled.pop_front() {
                Some(value) => value,
                None => flow.unskipped(values, random),
            },
            Spraying::PathStates => {
                let SprayedFlow { round, paths, .. } = flow;
                let Some(paths) = paths else { return flow.in_turn(values, random) };
                let value = paths.next(|| {
                    let slot = round.value();
                    round.advance(values, random);
                    slot
                });
                for value in paths.take_suspended() {
                    self.probes.add(Probe { source, destination, value }, 0, now, interval);
                }
                value
            }
        }
    }

    /// Handles the answer to a packet with this entropy value, or its loss. No effect if the rule ignores marks. Returns
    /// whether the value has been retired.
    pub fn answered(
        &mut self,
        (source, destination): (u16, u32),
        value: u16,
        feedback: RouteFeedback,
        now: Time,
    ) -> bool {
        let rule = self.rule;
        if !rule.reads_marks() {
            return false;
        }
        let (values, retirement) = (self.values, self.retirement.clone());
        let (flow, _) = self.flow(source, destination);
        if rule == Spraying::PathStates {
            if flow.paths.is_none() && feedback == RouteFeedback::Good {
                return false;
            }
            let paths = flow.paths.get_or_insert_with(|| Box::new(PathSet::new(values, &retirement)));
            let (is_retired, needs_probe) = paths.answered(value, feedback);
            if needs_probe {
                self.probes.add(Probe { source, destination, value }, 0, now, self.retirement.probe_interval);
            }
            return is_retired;
        }
        let more = match feedback {
            RouteFeedback::Good => 0,
            RouteFeedback::Marked => 1,
            RouteFeedback::Trimmed | RouteFeedback::Lost => SKIPS_OF_LOSS,
        };
        if more > 0 {
            if let Some(skips) = flow.skips.get_mut(usize::from(value)) {
                *skips = (*skips + more).min(MOST_SKIPS);
            }
        } else if rule.reuses_values() {
            flow.recycled.push_back(value);
            if rule == Spraying::Reps && flow.recycled.len() > RECYCLED {
                flow.recycled.pop_front();
            }
        }
        false
    }

    /// Forgets what a flow knows about its routes.
    pub fn forget(&mut self, source: u16, destination: u32) {
        self.flows.remove(&(source, destination));
        self.probes.forget(source, destination);
    }

    /// The time at which the next probe is due.
    pub fn next_probe(&self) -> Option<Time> {
        self.probes.next()
    }

    /// Removes and returns the next probe that is due by `now` and whose value is still retired, and the number of those of the
    /// value that were not answered.
    pub fn take_probe(&mut self, now: Time) -> Option<(Probe, u8)> {
        while let Some((probe, unanswered)) = self.probes.take(now) {
            let paths = self.paths_of(&probe);
            if paths.is_some_and(|paths| paths.confirm_probe(probe.value)) {
                return Some((probe, unanswered));
            }
        }
        None
    }

    /// Makes a probe that has been sent due again, in case that it is not answered.
    pub fn repeat_probe(&mut self, probe: Probe, unanswered: u8, now: Time) {
        self.probes.add(probe, unanswered.saturating_add(1), now, self.retirement.probe_interval);
    }

    /// Suspends the probe of a value until the next packet of its flow.
    pub fn suspend_probe(&mut self, probe: Probe) {
        if let Some(paths) = self.paths_of(&probe) {
            paths.suspend(probe.value);
        }
    }

    /// Handles the answer to a probe. Returns whether the value was retired, and has been restored.
    pub fn probe_answered(&mut self, probe: Probe, is_marked: bool) -> bool {
        self.paths_of(&probe).is_some_and(|paths| paths.restore(probe.value, is_marked))
    }

    fn paths_of(&mut self, &Probe { source, destination, .. }: &Probe) -> Option<&mut PathSet> {
        self.flows.get_mut(&(source, destination))?.paths.as_deref_mut()
    }
}

impl SprayedFlow {
    /// Returns the current value of the round, and advances the round.
    fn in_turn(&mut self, values: u16, random: &mut Stream) -> u16 {
        let value = self.round.value();
        self.round.advance(values, random);
        value
    }

    /// The next value of the round without pending skips. Removes one skip of the first value that it passes over. If all
    /// values have skips, the value is the next one after a whole round.
    fn unskipped(&mut self, values: u16, random: &mut Stream) -> u16 {
        let first = usize::from(self.round.value());
        if self.skips[first] > 0 {
            self.skips[first] -= 1;
            for _ in 0..values {
                self.round.advance(values, random);
                if self.skips[usize::from(self.round.value())] == 0 {
                    break;
                }
            }
        }
        self.in_turn(values, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(5);
    const ALL: [Spraying; 6] = [
        Spraying::Oblivious,
        Spraying::Random,
        Spraying::Bitmap,
        Spraying::Reps,
        Spraying::Mixed,
        Spraying::PathStates,
    ];

    fn sprayer(rule: Spraying, values: u16) -> Sprayer {
        Sprayer::new(rule, values, Retirement { least_active: Some(1), ..Retirement::default() }, (1, 7))
    }

    fn take(sprayer: &mut Sprayer, count: usize) -> Vec<u16> {
        (0..count).map(|_| sprayer.next(0, 9, NOW)).collect()
    }

    fn answer(sprayer: &mut Sprayer, value: u16, feedback: RouteFeedback) {
        assert!(!sprayer.answered((0, 9), value, feedback, NOW), "only path states retire values");
    }

    #[test]
    fn each_round_contains_every_value_once() {
        for rule in [Spraying::Oblivious, Spraying::Bitmap, Spraying::Mixed, Spraying::PathStates] {
            let mut sprayer = sprayer(rule, 16);
            let rounds: Vec<Vec<u16>> = (0..4).map(|_| take(&mut sprayer, 16)).collect();
            for round in &rounds {
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..16).collect::<Vec<u16>>(), "{rule:?}");
            }
            assert!(rounds.iter().any(|round| *round != rounds[0]), "{rule:?}: rounds have different orders");
        }
    }

    #[test]
    fn values_stay_below_their_number_and_flows_are_separate() {
        for rule in ALL {
            let mut sprayer = sprayer(rule, 8);
            let one: Vec<u16> = (0..100).map(|_| sprayer.next(0, 1, NOW)).collect();
            let other: Vec<u16> = (0..100).map(|_| sprayer.next(0, 2, NOW)).collect();
            assert!(one.iter().chain(&other).all(|&value| value < 8), "{rule:?}");
            assert_ne!(one, other, "{rule:?}");
            assert_eq!(sprayer.flows.len(), 2);
        }
        assert!(ALL.map(|rule| take(&mut sprayer(rule, 1), 5)).iter().flatten().all(|&value| value == 0));
    }

    #[test]
    fn marked_values_are_skipped_once_per_mark() {
        let mut sprayer = sprayer(Spraying::Bitmap, 4);
        let order = take(&mut sprayer, 4);
        assert_eq!(order.len(), 4);
        answer(&mut sprayer, 2, RouteFeedback::Marked);
        answer(&mut sprayer, 2, RouteFeedback::Marked);
        // In each of the next two rounds, another value takes the place of value 2, so a round ends a packet earlier.
        let next = take(&mut sprayer, 6);
        assert!(!next.contains(&2), "{next:?}");
        let last = take(&mut sprayer, 4);
        assert!(last.contains(&2), "{last:?}");
    }

    #[test]
    fn a_loss_skips_its_value_four_times() {
        let mut sprayer = sprayer(Spraying::Bitmap, 4);
        answer(&mut sprayer, 2, RouteFeedback::Lost);
        assert_eq!(*sprayer.flows[&(0, 9)].skips, [0, 0, 4, 0]);
        (0..4).for_each(|_| answer(&mut sprayer, 2, RouteFeedback::Lost));
        assert_eq!(*sprayer.flows[&(0, 9)].skips, [0, 0, 15, 0]);
        let mut sprayer = self::sprayer(Spraying::Reps, 4);
        answer(&mut sprayer, 2, RouteFeedback::Lost);
        assert!(sprayer.flows[&(0, 9)].recycled.is_empty());
    }

    #[test]
    fn if_all_values_are_marked_a_packet_takes_one_nevertheless() {
        let mut sprayer = sprayer(Spraying::Bitmap, 4);
        for _ in 0..40 {
            (0..4).for_each(|value| answer(&mut sprayer, value, RouteFeedback::Marked));
        }
        // At most 15 skips of each value are pending, and each packet removes one skip.
        let found = take(&mut sprayer, 10);
        assert!(found.iter().all(|&value| value < 4));
        assert_eq!(sprayer.flows[&(0, 9)].skips.iter().map(|&skips| u32::from(skips)).sum::<u32>(), 50);
    }

    #[test]
    fn reps_reuses_the_last_eight_values_without_a_mark() {
        let mut sprayer = sprayer(Spraying::Reps, 256);
        (0..12).for_each(|value| answer(&mut sprayer, 100 + value, RouteFeedback::of_mark(value == 6)));
        // Of eleven values without a mark, the last eight are stored.
        assert_eq!(take(&mut sprayer, 8), [103, 104, 105, 107, 108, 109, 110, 111]);
        answer(&mut sprayer, 42, RouteFeedback::Good);
        assert_eq!(sprayer.next(0, 9, NOW), 42);
        let random = take(&mut sprayer, 64);
        assert!(random.iter().any(|&value| value != random[0]));
    }

    #[test]
    fn control_packets_of_flows_are_spread_over_values_that_select_ports() {
        let sprayer = sprayer(Spraying::Oblivious, 4);
        assert_eq!(sprayer.of_flow(3, 1), 0, "switches hash the fields of the flow");
        let sprayer = sprayer.with_direct_values();
        let mut counts = [0_u32; 4];
        (0..4_000).for_each(|destination| counts[usize::from(sprayer.of_flow(destination, 1))] += 1);
        // Four standard deviations of a binomial distribution are 110.
        assert!(counts.iter().all(|&count| count.abs_diff(1_000) < 110), "{counts:?}");
    }

    #[test]
    fn mixed_reuses_all_values_and_then_skips_marked_ones() {
        let mut sprayer = sprayer(Spraying::Mixed, 4);
        (0..12).for_each(|value| answer(&mut sprayer, value % 4, RouteFeedback::Good));
        assert_eq!(take(&mut sprayer, 12), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        answer(&mut sprayer, 1, RouteFeedback::Marked);
        let next = take(&mut sprayer, 3);
        assert!(!next.contains(&1), "{next:?}");
    }

    #[test]
    fn probes_follow_retirement_at_intervals_until_they_are_answered() {
        let mut sprayer = sprayer(Spraying::PathStates, 4);
        let interval = sprayer.retirement.probe_interval;
        assert!(sprayer.answered((0, 9), 2, RouteFeedback::Lost, NOW));
        assert_eq!((sprayer.next_probe(), sprayer.take_probe(NOW)), (Some(NOW + interval), None));
        let probe = Probe { source: 0, destination: 9, value: 2 };
        let first = NOW + interval;
        assert_eq!(sprayer.take_probe(first), Some((probe, 0)));
        sprayer.repeat_probe(probe, 0, first);
        assert_eq!(sprayer.take_probe(first + interval), None, "the interval doubles");
        assert_eq!(sprayer.take_probe(first + interval + interval), Some((probe, 1)));
        sprayer.repeat_probe(probe, 9, first);
        assert_eq!(sprayer.next_probe(), Some(first + Time(32 * interval.0)));
        assert_eq!(sprayer.take_probe(first + Time(32 * interval.0)), Some((probe, 10)));
        sprayer.suspend_probe(probe);
        assert_eq!(sprayer.next_probe(), None);
        sprayer.next(0, 9, first);
        assert_eq!(sprayer.next_probe(), Some(first + interval), "the flow sends again");
        assert!(sprayer.probe_answered(probe, false) && !sprayer.probe_answered(probe, false));
        assert_eq!(sprayer.take_probe(first + interval), None, "the value is not retired any more");
        assert!(sprayer.answered((0, 9), 3, RouteFeedback::Lost, first));
        sprayer.forget(0, 9);
        assert_eq!(sprayer.next_probe(), None);
    }
}
