//! The traffic of Paper IV, in which contributors, victims and mixed hosts create congestion trees rooted at
//! hotspots.
//!
//! ```text
//!   contributor (C)   sends all its traffic to its hotspot
//!   victim (V)        sends all its traffic to random hosts
//!   mixed (B)         sends p percent to its hotspot, the rest to random hosts
//! ```
//!
//! Contributors and mixed hosts are divided into subsets as evenly as possible, with one hotspot per subset.
//! If there is a lifetime, all hotspots are drawn again after each lifetime, but each host stays in its
//! subset. The trees then move (Paper IV, section III and frame I).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use super::source::Message;

/// Maximum number of hotspots in a run, over all moves.
pub const MOST_HOTSPOTS: u64 = 4_000_000;

/// Roles of hosts, the number of hotspots, and their lifetime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forest {
    /// Number of hotspots, drawn from all hosts of the network. A hotspot can also have a role as a sender.
    #[schemars(range(min = 1))]
    pub hotspots: u32,
    /// Percentage of hosts that send only to their hotspot (C nodes of Paper IV). Default: 0.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub contributors: u8,
    /// Percentage of hosts that send only to random hosts (V nodes). Default: 0.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub victims: u8,
    /// Percentage of hosts that do both (B nodes). Hosts without a role send nothing. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub mixed: u8,
    /// Percentage of a mixed host's traffic that goes to its hotspot. Default: 0. At any time, at most this
    /// share of what the host could have sent so far goes to the hotspot, and at most the rest to other
    /// hosts. If congestion control throttles one share, the other share continues.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub p: u8,
    /// Time after which all hotspots are drawn again. By default they never change.
    pub lifetime: Option<Time>,
}

/// The role of a host in a forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends to the hotspot of its subset.
    Contributor {
        /// Index of the host's subset.
        subset: u32,
    },
    /// Sends to random hosts.
    Victim,
    /// Sends to the hotspot of its subset and to random hosts.
    Mixed {
        /// Index of the host's subset.
        subset: u32,
    },
}

/// The hotspots over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hotspots {
    start: Time,
    lifetime: Option<Time>,
    subsets: u32,
    /// Ordered by period, then by subset.
    hosts: Vec<u32>,
}

/// Roles and hotspots of a forest, drawn from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestRoles {
    /// Numbers and roles of hosts, ordered by role and subset. Hosts without a role are omitted.
    pub roles: Vec<(u32, Role)>,
    /// The hotspots over time.
    pub hotspots: Arc<Hotspots>,
}

impl Hotspots {
    fn draw(forest: &Forest, hosts: u32, (seed, number): (u64, u64), (start, end): (Time, Time)) -> Self {
        let subsets = forest.hotspots.min(hosts);
        let span = end.saturating_sub(start).0;
        let periods = forest.lifetime.map_or(1, |lifetime| span.div_ceil(lifetime.0.max(1)));
        let mut drawn: Vec<u32> = Vec::new();
        let mut taken = vec![false; hosts as usize];
        for period in 0..periods.clamp(1, (MOST_HOTSPOTS / u64::from(subsets.max(1))).max(1)) {
            // Each period has a separate random stream, so its hotspots do not depend on the number of earlier moves.
            let mut random = Stream::new(seed, "hotspots", number << 32 | period);
            let first = drawn.len();
            while drawn.len() < first + subsets as usize {
                let host = random.below(hosts);
                if !std::mem::replace(&mut taken[host as usize], true) {
                    drawn.push(host);
                }
            }
            drawn[first..].iter().for_each(|&host| taken[host as usize] = false);
        }
        Self { start, lifetime: forest.lifetime, subsets, hosts: drawn }
    }

    /// Number of the period that contains `now`.
    #[inline]
    fn period(&self, now: Time) -> u32 {
        let Some(lifetime) = self.lifetime else { return 0 };
        let last = self.periods() - 1;
        (now.saturating_sub(self.start).0 / lifetime.0.max(1)).min(last.into()) as u32
    }

    /// Start of the next period after that of `now`, if there is one.
    #[inline]
    fn next_move(&self, now: Time) -> Option<Time> {
        let lifetime = self.lifetime?;
        let next = self.period(now) + 1;
        (next < self.periods()).then(|| Time(self.start.0 + u64::from(next) * lifetime.0))
    }

    /// Number of periods.
    #[must_use]
    pub fn periods(&self) -> u32 {
        (self.hosts.len() / self.subsets.max(1) as usize) as u32
    }

    /// The hotspots of a period (from 0), one for each subset. Panics if there is no such period.
    #[must_use]
    pub fn of(&self, period: u32) -> &[u32] {
        let subsets = self.subsets as usize;
        &self.hosts[period as usize * subsets..][..subsets]
    }

    /// The destination of a member of a subset in a period: the hotspot of the subset or, if the member is that
    /// hotspot, the hotspot of the next subset. `None` if there is no other hotspot.
    #[inline]
    fn target(&self, period: u32, subset: u32, me: u32) -> Option<u32> {
        let hotspots = self.of(period);
        let own = hotspots[subset as usize];
        if own != me {
            return Some(own);
        }
        let next = hotspots[(subset as usize + 1) % hotspots.len()];
        (next != me).then_some(next)
    }
}

impl ForestRoles {
    /// Draws roles among the `senders` and hotspots among all `hosts`, for a run from `start` to `end`. `number` is
    /// the number of the traffic pattern, which gives each pattern separate random streams.
    ///
    /// Victims are drawn first, then mixed hosts, then contributors, so the set of victims does not change if the
    /// other roles are omitted.
    #[must_use]
    pub fn draw(
        forest: &Forest,
        (senders, hosts): (&[u32], u32),
        (seed, number): (u64, u64),
        span: (Time, Time),
    ) -> Self {
        let hotspots = Hotspots::draw(forest, hosts, (seed, number), span);
        let mut order = senders.to_vec();
        Stream::new(seed, "roles", number).shuffle(&mut order);
        // Rounding the sums instead of the parts ensures that the total never exceeds the number of senders.
        let upto = |percent: u32| {
            let twice = 2 * order.len() as u64 * u64::from(percent.min(100)) + 100;
            (twice / 200) as usize
        };
        let (victims, mixed) = (u32::from(forest.victims), u32::from(forest.mixed));
        let ends =
            [upto(victims), upto(victims + mixed), upto(victims + mixed + u32::from(forest.contributors))];
        let roles = order[..ends[2]].iter().enumerate().map(|(at, &host)| {
            let subset = |first: usize| ((at - first) % hotspots.subsets.max(1) as usize) as u32;
            let role = if at < ends[0] {
                Role::Victim
            } else if at < ends[1] {
                Role::Mixed { subset: subset(ends[0]) }
            } else {
                Role::Contributor { subset: subset(ends[1]) }
            };
            (host, role)
        });
        Self { roles: roles.collect(), hotspots: Arc::new(hotspots) }
    }

    /// Hosts whose role fulfills a condition.
    pub fn hosts(&self, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = u32> {
        self.roles.iter().filter(move |(_, role)| wanted(*role)).map(|(host, _)| *host)
    }

    /// Number of contributors and mixed hosts in each subset.
    #[must_use]
    pub fn subset_sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.hotspots.subsets as usize];
        for (_, role) in &self.roles {
            if let Role::Contributor { subset } | Role::Mixed { subset } = role {
                sizes[*subset as usize] += 1;
            }
        }
        sizes
    }

    /// The average payload rate that a host would receive if there were no hotspots, as a share of the rate of one
    /// host. It is the traffic of victims and the random traffic of mixed hosts, divided by the number of `hosts`
    /// (t_max of Paper IV).
    #[must_use]
    pub fn t_max(&self, p: u8, hosts: u32) -> f64 {
        let victims = self.hosts(|role| role == Role::Victim).count() as f64;
        let mixed = self.hosts(|role| matches!(role, Role::Mixed { .. })).count() as f64;
        (victims + mixed * f64::from(100 - p.min(100)) / 100.0) / f64::from(hosts.max(1))
    }
}

/// Limits the messages generated so far: the next message is due after the transmission time of all earlier messages at
/// the rate of this share.
#[derive(Debug, Clone, Saved)]
struct Share {
    pace: BytePace,
    carry: u64,
    next_at: Time,
}

impl Share {
    fn spend(&mut self, bytes: u32) {
        self.next_at += self.pace.time_carrying(bytes, &mut self.carry);
    }
}

/// The message generator of one host of a forest.
///
/// The next message is generated when no earlier one can be sent. If both shares are due, the message goes to the
/// hotspot with probability p. While congestion control throttles a message for the hotspot, no further message for
/// the hotspot is generated, but messages for other hosts are.
#[derive(Debug, Clone, Saved)]
pub struct Generator {
    me: u32,
    hosts: u32,
    subset: u32,
    /// Percentage of messages for the hotspot.
    p: u8,
    hotspots: Arc<Hotspots>,
    hot: Share,
    random: Share,
    /// Period of the latest message for a hotspot.
    period: u32,
    /// Number of unsent messages for the hotspot of `period`.
    hot_on_hand: u32,
}

/// Parameters of [`Generator::new`].
#[derive(Debug)]
pub struct GeneratorSpec {
    /// Number of the host.
    pub me: u32,
    /// Number of hosts of the network.
    pub hosts: u32,
    /// Number of the host's subset.
    pub subset: u32,
    /// Percentage of messages for the hotspot, 0 to 100.
    pub p: u8,
    /// The hotspots of all subsets and periods.
    pub hotspots: Arc<Hotspots>,
    /// Time per byte of the hotspot share and of the rest.
    pub paces: [BytePace; 2],
    /// The time of the first message.
    pub start: Time,
}

impl Generator {
    /// A generator before its first message.
    pub fn new(spec: GeneratorSpec) -> Self {
        let [hot, random] = spec.paces.map(|pace| Share { pace, carry: 0, next_at: spec.start });
        let GeneratorSpec { me, hosts, subset, p, hotspots, .. } = spec;
        Self { me, hosts, subset, p, hotspots, hot, random, period: 0, hot_on_hand: 0 }
    }

    /// The earliest time at which a message for the hotspot may be generated. `None` if p is 0, or if none
    /// may be generated in this period and no other period follows.
    #[inline]
    fn hot_due(&self, now: Time) -> Option<Time> {
        if self.p == 0 {
            return None;
        }
        let period = self.hotspots.period(now);
        let free = self.hot_on_hand == 0 || period > self.period;
        if free && self.hotspots.target(period, self.subset, self.me).is_some() {
            return Some(self.hot.next_at);
        }
        self.hotspots.next_move(now).map(|moved| moved.max(self.hot.next_at))
    }

    /// The host itself, and the number of hosts among which destinations are drawn; `None` if there are messages for a
    /// hotspot.
    #[inline]
    pub fn only_random(&self) -> Option<(u32, u32)> {
        (self.p == 0).then_some((self.me, self.hosts))
    }

    /// The time at which a message for a random host may be generated. `None` if p is 100 or the host cannot
    /// store more messages.
    #[inline]
    fn random_due(&self, room: bool) -> Option<Time> {
        (self.p < 100 && room).then_some(self.random.next_at)
    }

    /// The earliest time at which a message may be generated. `None` if an earlier message must first be
    /// sent, or if no message can be generated at all. `room` states whether the host can store more
    /// messages.
    #[inline]
    pub fn due(&self, now: Time, room: bool) -> Option<Time> {
        self.hot_due(now).into_iter().chain(self.random_due(room)).min()
    }

    /// Generates a message of `bytes` bytes, which must be due. Returns its destination, and whether the destination is
    /// the hotspot.
    pub fn choose(
        &mut self,
        now: Time,
        room: bool,
        bytes: u32,
        (choices, destinations): (&mut Stream, &mut Stream),
    ) -> (u32, bool) {
        let hot = self.hot_due(now).is_some_and(|due| due <= now);
        let random = self.random_due(room).is_some_and(|due| due <= now);
        if hot && (!random || choices.chance(self.p.into(), 100)) {
            let period = self.hotspots.period(now);
            if period > self.period {
                (self.period, self.hot_on_hand) = (period, 0);
            }
            if let Some(target) = self.hotspots.target(period, self.subset, self.me) {
                self.hot_on_hand += 1;
                self.hot.spend(bytes);
                return (target, true);
            }
        }
        self.random.spend(bytes);
        (destinations.below_except(self.hosts, self.me), false)
    }

    /// Called when a message has left the host.
    #[inline]
    pub fn finished(&mut self, message: &Message) {
        if message.hot && self.hotspots.period(message.created) == self.period {
            self.hot_on_hand -= 1;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use silvan_engine::Rate;

    const HOSTS: u32 = 648;
    const BYTES: u32 = 4096;
    const MS: u64 = 1_000_000_000;

    pub fn forest() -> Forest {
        Forest { hotspots: 8, contributors: 60, victims: 15, mixed: 25, p: 60, lifetime: None }
    }

    fn place(forest: &Forest, seed: u64) -> ForestRoles {
        let senders: Vec<u32> = (0..HOSTS).collect();
        ForestRoles::draw(forest, (&senders, HOSTS), (seed, 0), (Time(0), Time(100 * MS)))
    }

    fn of(placement: &ForestRoles, wanted: fn(Role) -> bool) -> Vec<u32> {
        placement.hosts(wanted).collect()
    }

    /// The generator of one mixed host at 13.5 Gbit/s.
    pub fn generator(p: u8, forest: &Forest, me: u32) -> Generator {
        let pace = |share: u8| Rate(135_000_000 * u64::from(share)).pace();
        let hotspots = place(forest, 1).hotspots;
        let paces = [pace(p), pace(100 - p)];
        Generator::new(GeneratorSpec { me, hosts: HOSTS, subset: 0, p, hotspots, paces, start: Time(0) })
    }

    /// Generates messages until `end` for a host that is never blocked. Messages for the hotspot are sent unless `held`
    /// is true. Returns the time, the destination, and whether the destination is the hotspot.
    fn generate(generator: &mut Generator, held: bool, end: Time) -> Vec<(Time, u32, bool)> {
        let mut streams = (Stream::new(1, "choices", 0), Stream::new(1, "destinations", 0));
        let mut sent = Vec::new();
        let mut now = Time(0);
        while let Some(due) = generator.due(now, true).filter(|due| *due < end) {
            now = now.max(due);
            let (destination, hot) = generator.choose(now, true, BYTES, (&mut streams.0, &mut streams.1));
            sent.push((now, destination, hot));
            if !(hot && held) {
                generator.finished(&Message { destination, created: now, left: 0, hot });
            }
        }
        sent
    }

    #[test]
    fn roles_are_drawn_from_the_seed_in_the_configured_shares() {
        let placement = place(&forest(), 1);
        assert_eq!(placement, place(&forest(), 1), "the same seed gives the same");
        assert_ne!(placement.roles, place(&forest(), 2).roles);
        assert_ne!(placement.hotspots, place(&forest(), 2).hotspots);
        let victims = of(&placement, |role| role == Role::Victim);
        let mixed = of(&placement, |role| matches!(role, Role::Mixed { .. }));
        assert_eq!((victims.len(), mixed.len(), placement.roles.len()), (97, 162, 648));
        let mut all: Vec<u32> = placement.roles.iter().map(|(host, _)| *host).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..HOSTS), "every host has one role");
        let sizes = placement.subset_sizes();
        assert!(sizes.iter().all(|size| (68..=70).contains(size)), "{sizes:?}");
        let mut hotspots = placement.hotspots.of(0).to_vec();
        hotspots.dedup();
        assert_eq!(hotspots.len(), 8);
    }

    #[test]
    fn victims_stay_the_same_without_the_other_roles() {
        let alone = Forest { contributors: 0, mixed: 0, p: 0, ..forest() };
        let victim = |role| role == Role::Victim;
        assert_eq!(of(&place(&alone, 1), victim), of(&place(&forest(), 1), victim));
        assert_eq!(place(&alone, 1).roles.len(), 97, "hosts without a role send nothing");
    }

    #[test]
    fn tmax_is_the_traffic_offered_to_all_hosts_equally() {
        let published = |x: u8, p: u8| {
            let rest = 100 - x;
            let forest = Forest { contributors: rest / 5 * 4, victims: rest / 5, mixed: x, p, ..forest() };
            13.5 * place(&forest, 1).t_max(p, HOSTS)
        };
        assert!((published(25, 0) - 5.4).abs() < 0.05, "Paper IV, figure 5");
        assert!((published(0, 0) - 2.7).abs() < 0.05, "Paper IV, table II");
        assert!(published(100, 100) < 1e-9);
    }

    #[test]
    fn each_share_is_bounded_by_time() {
        for p in [10, 50, 90] {
            let sent = generate(&mut generator(p, &forest(), 3), false, Time(5 * MS));
            let mut bytes = [0_u64; 2];
            for (now, _, hot) in &sent {
                bytes[usize::from(*hot)] += u64::from(BYTES);
                for (share, bytes) in [(100 - p, bytes[0]), (p, bytes[1])] {
                    // 13.5 Gbit/s are 16875 bytes in 10 us.
                    let bound = now.0 as f64 * 1.6875e-3 * f64::from(share) / 100.0;
                    assert!(bytes as f64 <= bound + f64::from(BYTES) + 1.0, "{p}: {bytes} at {now}");
                }
            }
            let total = 13.5e9 / 8.0 * 5e-3;
            assert!(
                (bytes[0] + bytes[1]) as f64 > 0.999 * total,
                "without congestion, the host sends at full rate"
            );
        }
    }

    #[test]
    fn a_throttled_share_does_not_affect_the_other() {
        let sent = generate(&mut generator(60, &forest(), 3), true, Time(5 * MS));
        assert_eq!(
            sent.iter().filter(|(_, _, hot)| *hot).count(),
            1,
            "one message waits, and no more are generated"
        );
        let random = sent.len() - 1;
        let due = (0.4 * 13.5e9 / 8.0 * 5e-3 / f64::from(BYTES)) as usize;
        assert!((due..=due + 1).contains(&random), "{random} instead of {due}");
    }

    #[test]
    fn blocked_shares_resume_in_proportion() {
        // No message was sent for a long time, so both shares are due, and p determines how they alternate.
        let mut generator = generator(90, &forest(), 3);
        let mut streams = (Stream::new(1, "choices", 0), Stream::new(1, "destinations", 0));
        let mut hot_messages = 0;
        for _ in 0..10_000 {
            let now = Time(1_000 * MS);
            let (destination, hot) = generator.choose(now, true, BYTES, (&mut streams.0, &mut streams.1));
            generator.finished(&Message { destination, created: now, left: 0, hot });
            hot_messages += u32::from(hot);
        }
        assert!((8_900..9_100).contains(&hot_messages), "{hot_messages}");
    }

    #[test]
    fn hotspots_move_at_exact_times_and_subsets_stay() {
        let moving = Forest { lifetime: Some(Time(MS)), ..forest() };
        let placement = place(&moving, 1);
        assert_eq!(placement.roles, place(&forest(), 1).roles);
        assert_eq!(placement.hotspots.periods(), 100);
        assert_eq!(placement.hotspots.of(0), place(&forest(), 1).hotspots.of(0));
        let mut targets = generate(&mut generator(100, &moving, 3), false, Time(4 * MS));
        targets.iter_mut().for_each(|(now, ..)| now.0 /= MS);
        for (period, target, hot) in targets {
            assert!(hot);
            assert_eq!(target, placement.hotspots.of(period.0 as u32)[0]);
        }
        assert_eq!(placement.hotspots.period(Time(MS - 1)), 0);
        assert_eq!(placement.hotspots.period(Time(MS)), 1);
        assert_eq!(placement.hotspots.next_move(Time(MS)), Some(Time(2 * MS)));
        assert_eq!(placement.hotspots.next_move(Time(99 * MS)), None, "the run ends before the next move");
    }

    #[test]
    fn a_throttled_message_for_an_old_hotspot_does_not_block_the_new_hotspot() {
        let moving = Forest { lifetime: Some(Time(MS)), ..forest() };
        let sent = generate(&mut generator(100, &moving, 3), true, Time(10 * MS));
        let times: Vec<u64> = sent.iter().map(|(now, ..)| now.0).collect();
        assert!(
            times.into_iter().eq((0..10).map(|period| period * MS)),
            "one message per period, at its start"
        );
    }

    #[test]
    fn no_hotspot_sends_to_itself() {
        let hotspots = place(&forest(), 1).hotspots;
        let (first, second) = (hotspots.of(0)[0], hotspots.of(0)[1]);
        let sent = generate(&mut generator(50, &forest(), first), false, Time(20 * MS));
        assert!(sent.iter().all(|(_, to, hot)| *to != first && *hot == (*to == second) || !hot));
        assert!(sent.iter().any(|(.., hot)| *hot), "it sends to the hotspot of the next subset instead");
        let alone = Forest { hotspots: 1, ..forest() };
        let only = place(&alone, 1).hotspots.of(0)[0];
        let sent = generate(&mut generator(50, &alone, only), false, Time(MS));
        assert!(!sent.is_empty() && sent.iter().all(|(_, to, hot)| !hot && *to != only));
    }
}
