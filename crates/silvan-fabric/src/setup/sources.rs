//! Builds the sources of traffic of each host from flows and patterns.

use std::collections::VecDeque;
use std::sync::Arc;

use silvan_engine::random::Stream;
use silvan_engine::units::BytePace;
use silvan_engine::{Rate, Time};
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::forest::{ForestRoles, Generator, GeneratorSpec, Role};
use silvan_network::traffic::listed::{IncastPlan, draw_incasts};
use silvan_network::traffic::source::{Chooser, Clock, Periods, SizeLaw, Source, Varied};
use silvan_network::traffic::{Arrivals, Bursts, Forest, ListedTransfer, MOST_LISTED, Pattern};

use super::model::Model;
use super::offered::{Offered, OfferedFlow};
use super::{Builder, WiredChannel};
use crate::error::{Reason, SetupError};
use crate::host::Host;
use crate::meters::ClassMeter;
use crate::observe::FlowName;
use crate::outcome::Group;
use crate::trigger::{Trigger, Triggers, Waiting};

#[cfg(test)]
mod tests;

/// Picoseconds per second.
const PS_PER_S: u128 = 1_000_000_000_000;

impl Builder<'_> {
    /// Creates the sources of each host and the class of each flow or pattern. Returns the named flows, and
    /// the sources that wait for a trigger.
    pub(super) fn add_sources(
        &self,
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
        is_destination: &mut [bool],
    ) -> Result<(Vec<(String, FlowName)>, Triggers), SetupError> {
        let mut triggers = Vec::new();
        let named = self.add_flows(hosts, classes, is_destination, &mut triggers)?;
        for (traffic, placement) in self.model.traffic.iter().zip(&self.forests) {
            if let (Pattern::Forest(forest), Some(placement)) = (traffic.pattern, placement) {
                self.add_forest(traffic, (forest, placement), hosts, classes)?;
                is_destination.fill(true);
                continue;
            }
            let class = self.add_class(classes, &traffic.name)?;
            if let Some(transfers) = self.transfers(traffic, class)? {
                self.add_listed(traffic, class, &transfers, hosts, is_destination);
                continue;
            }
            let waiting = self.add_pattern(traffic, class, hosts, is_destination)?;
            if let Some(after_packets) = traffic.start_after_packets {
                triggers.push(Trigger { class, after_packets, started: None, waiting });
            }
        }
        for host in hosts.iter() {
            let made = host.sources.iter().filter(|source| source.has_own_flows()).count();
            let most = host.sources.len() + made * Source::MAX_BACKLOG as usize;
            if most > usize::from(u16::MAX) {
                let name = self.topology.hosts[host.id as usize].name.clone();
                return Err(Reason::TooManyFlows(name).at("traffic"));
            }
        }
        Ok((named, Triggers::new(triggers)))
    }

    /// Adds the flows. Classes are in the order of the file. Sources are in the order of their names, so the
    /// order in the file does not affect which flow a host sends first.
    fn add_flows(
        &self,
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
        is_destination: &mut [bool],
        triggers: &mut Vec<Trigger>,
    ) -> Result<Vec<(String, FlowName)>, SetupError> {
        let mut named = Vec::new();
        for flow in &self.model.flows {
            let class = self.add_class(classes, &flow.name)?;
            is_destination[flow.to as usize] = true;
            named.push((
                flow.name.clone(),
                FlowName { class, host: flow.from, source: 0, destination: flow.to },
            ));
        }
        let mut order: Vec<usize> = (0..named.len()).collect();
        order.sort_by_key(|&at| {
            let flow = &self.model.flows[at];
            let size = (flow.message, flow.total, flow.rate, flow.sl);
            (flow.name.as_str(), flow.to, flow.start, flow.stop, flow.start_after_packets, size)
        });
        for at in order {
            let (flow, (_, place)) = (&self.model.flows[at], &mut named[at]);
            let host = &mut hosts[place.host as usize];
            place.source = host.sources.len() as u16;
            host.sources.push(self.flow_source(flow, place.class));
            if let Some(after_packets) = flow.start_after_packets {
                let waiting = vec![hold(&mut host.sources, place.host)];
                triggers.push(Trigger { class: place.class, after_packets, started: None, waiting });
            }
        }
        Ok(named)
    }

    pub(super) fn add_class(&self, classes: &mut Vec<ClassMeter>, name: &str) -> Result<u16, SetupError> {
        // The cast cannot truncate, because the model limits the number of classes.
        let class = classes.len() as u16;
        let meter = ClassMeter::new(name.to_string());
        classes.push(meter);
        Ok(class)
    }

    /// The clock of messages whose sizes are uniformly distributed from `message` to `message + spread`
    /// bytes.
    fn clock(rate: Option<Rate>, arrivals: Arrivals, message: u32, spread: u32) -> Clock {
        let Some(rate) = rate else { return Clock::Saturating };
        // The mean may include half a byte, so use the sum of the smallest and largest size at twice the
        // rate.
        let (pace, bytes) = match spread {
            0 => (rate.pace(), message),
            _ => (Rate(rate.0.saturating_mul(2)).pace(), 2 * message + spread),
        };
        match arrivals {
            Arrivals::Periodic => Clock::Periodic { pace, bytes, carry: 0 },
            Arrivals::Poisson => Clock::Poisson { mean_ps: pace.time(bytes).0 },
        }
    }

    /// The additional state of a pattern's source; `None` if the source needs none.
    fn varied(&self, traffic: &Offered, owner: u64) -> Option<Box<Varied>> {
        let Offered { spread, sizes, bursts, packets_per_host, has_own_flows, .. } = traffic;
        let is_plain = *spread == 0 && packets_per_host.is_none() && bursts.is_none() && !has_own_flows;
        if is_plain {
            return None;
        }
        let stream = |purpose| Stream::new(self.model.config.seed, purpose, owner);
        Some(Box::new(Varied {
            sizes: sizes.clone().map_or(SizeLaw::Spread(*spread), SizeLaw::Cdf),
            packets: packets_per_host.unwrap_or(u64::MAX),
            mtu: self.model.sizes.mtu,
            random: stream("message sizes"),
            periods: bursts.map(|Bursts { on, off }| Periods::new(on, off, stream("bursts"))),
            listed: [].into(),
            next: 0,
            due: VecDeque::new(),
            has_own_flows: *has_own_flows,
        }))
    }

    /// The rate that a host offers on a link of this rate in its busy periods; `None` if unlimited.
    fn offered_rate(&self, traffic: &Offered, link: Rate) -> Option<Rate> {
        let most = u128::from(self.model.host.injection_rate(link).0);
        let load = traffic.load_percent.map(|percent| most * u128::from(percent) / 100);
        let mean = traffic.rate.map(|rate| rate.0.into()).or(load)?;
        let busy = match traffic.bursts {
            None => mean,
            Some(Bursts { on, off }) => mean * u128::from(on.0 + off.0) / u128::from(on.0.max(1)),
        };
        Some(Rate(u64::try_from(busy).unwrap_or(u64::MAX).max(1)))
    }

    /// The transfers of a list or an incast; `None` for other patterns. Fails if an incast has too many.
    fn transfers(
        &self,
        traffic: &Offered,
        class: u16,
    ) -> Result<Option<Arc<Vec<ListedTransfer>>>, SetupError> {
        let incast = match traffic.pattern {
            Pattern::Listed(_) => return Ok(Some(Arc::clone(&traffic.listed))),
            Pattern::Incast(incast) => incast,
            _ => return Ok(None),
        };
        let rates = self.link_rates();
        let rate = |&host: &u32| u128::from(self.model.host.injection_rate(rates[host as usize]).0);
        let count = (incast.senders as usize).min(traffic.senders.len());
        let all: u128 = traffic.senders.iter().map(rate).sum();
        let bits = count as u128 * u128::from(traffic.message) * 8 * 100 * PS_PER_S;
        let load = |percent: u32| (bits / (u128::from(percent) * all).max(1)) as u64;
        let mean = incast.every.map_or_else(|| load(traffic.load_percent.unwrap_or(1)), |every| every.0);
        let mut gap = |random: &mut Stream| match traffic.arrivals {
            Arrivals::Periodic => Time(mean),
            Arrivals::Poisson => Time(random.exponential(mean)),
        };
        let mut bytes = |random: &mut Stream| match (&traffic.sizes, traffic.spread) {
            (Some(sizes), _) => sizes.draw(random),
            (None, 0) => traffic.message,
            (None, spread) => traffic.message + random.below(spread + 1),
        };
        let mut random = Stream::new(self.model.config.seed, "incast", class.into());
        let plan = IncastPlan {
            senders: &traffic.senders,
            receivers: &traffic.named,
            count,
            jitter: incast.jitter.unwrap_or_default(),
            gap: &mut gap,
            bytes: &mut bytes,
            start: traffic.start,
            stop: traffic.stop.min(self.model.config.duration),
            sl: traffic.sl,
        };
        let drawn = draw_incasts(plan, &mut random);
        let number = usize::from(class) - self.model.flows.len();
        let error = || Reason::TooManyTransfers { most: MOST_LISTED }.at(format!("traffic.{number}.pattern"));
        drawn.map(|drawn| Some(Arc::new(drawn))).ok_or_else(error)
    }

    /// Adds the sources of listed transfers: one for each host and service level.
    fn add_listed(
        &self,
        traffic: &Offered,
        class: u16,
        transfers: &[ListedTransfer],
        hosts: &mut [Host],
        is_destination: &mut [bool],
    ) {
        let mut sorted = transfers.to_vec();
        sorted.retain(|one| one.from != one.to);
        // Transfers that start at the same time keep their order.
        sorted.sort_by_key(|one| (one.from, one.sl, one.start));
        for one in &sorted {
            is_destination[one.to as usize] = true;
        }
        for own in sorted.chunk_by(|one, other| (one.from, one.sl) == (other.from, other.sl)) {
            let host = &mut hosts[own[0].from as usize];
            let owner = owner(own[0].from, &host.sources, self.model.flows.len());
            let varied = self.varied(traffic, owner).map(|varied| Varied { listed: own.into(), ..*varied });
            host.sources.push(Source {
                class,
                sl: own[0].sl,
                vl: self.model.lanes.of(own[0].sl),
                chooser: Chooser::Listed,
                clock: Clock::Listed,
                message: traffic.message,
                varied: varied.map(Box::new),
                next_at: own[0].start,
                stop: traffic.stop,
                left: u64::MAX,
                destinations: Stream::new(self.model.config.seed, "destinations", owner),
                arrivals: Stream::new(self.model.config.seed, "arrivals", owner),
                backlog: 0,
                ready: 0,
            });
        }
    }

    fn flow_source(&self, flow: &OfferedFlow, class: u16) -> Source {
        let seed = self.model.config.seed;
        let owner = u64::from(flow.from);
        Source {
            class,
            sl: flow.sl,
            vl: self.model.lanes.of(flow.sl),
            chooser: Chooser::Fixed(flow.to),
            clock: Self::clock(flow.rate, flow.arrivals, flow.message, 0),
            message: flow.message,
            varied: None,
            next_at: flow.start,
            stop: flow.stop,
            left: flow.total,
            destinations: Stream::new(seed, "destinations", owner),
            arrivals: Stream::new(seed, &format!("arrivals of flow {}", flow.name), owner),
            backlog: 0,
            ready: 0,
        }
    }

    fn add_pattern(
        &self,
        traffic: &Offered,
        class: u16,
        hosts: &mut [Host],
        is_destination: &mut [bool],
    ) -> Result<Vec<Waiting>, SetupError> {
        // Reduction units take no part in patterns.
        let count = self.topology.end_hosts();
        let targets = self.targets(traffic, class, count);
        let (message, spread) = (traffic.message, traffic.spread);
        let rates = self.link_rates();
        let mut waiting = Vec::new();
        for (position, &sender) in traffic.senders.iter().enumerate() {
            let Some(chooser) = chooser(traffic.pattern, &targets, position, sender, count) else {
                continue;
            };
            match &chooser {
                Chooser::Fixed(to) => is_destination[*to as usize] = true,
                _ => is_destination[..count as usize].fill(true),
            }
            let host = &mut hosts[sender as usize];
            let owner = owner(sender, &host.sources, self.model.flows.len());
            let mut arrivals = Stream::new(self.model.config.seed, "arrivals", owner);
            let mut varied = self.varied(traffic, owner);
            let clock = match traffic.closed {
                Some((_, think)) => Clock::Closed { think },
                None => {
                    let rate = self.offered_rate(traffic, rates[sender as usize]);
                    Self::clock(rate, traffic.arrivals, message, spread)
                }
            };
            let mut phase = match &clock {
                Clock::Saturating | Clock::Fed | Clock::Listed | Clock::Own { .. } => 0,
                Clock::Closed { think } => {
                    let count = traffic.closed.map_or(1, |(count, _)| count);
                    first_requests((traffic.start, *think), count, &mut arrivals, varied.as_mut())
                }
                Clock::Periodic { pace, bytes, .. } => {
                    let spacing = u128::from(pace.time(*bytes).0);
                    ((spacing * u128::from(arrivals.next_u32())) >> 32) as u64
                }
                Clock::Poisson { mean_ps } => arrivals.exponential(*mean_ps),
            };
            if let Some(periods) = varied.as_mut().and_then(|varied| varied.periods.as_mut()) {
                phase = periods.pass(Time(phase)).0;
            }
            host.sources.push(Source {
                class,
                sl: traffic.sl,
                vl: self.model.lanes.of(traffic.sl),
                chooser,
                clock,
                message,
                varied,
                next_at: traffic.start + Time(phase),
                stop: traffic.stop,
                left: u64::MAX,
                destinations: Stream::new(self.model.config.seed, "destinations", owner),
                arrivals,
                backlog: 0,
                ready: 0,
            });
            if traffic.start_after_packets.is_some() {
                waiting.push(hold(&mut host.sources, sender));
            }
        }
        Ok(waiting)
    }

    /// Adds the sources of a forest's hosts. Each role is a class.
    fn add_forest(
        &self,
        traffic: &Offered,
        (forest, placement): (&Forest, &ForestRoles),
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
    ) -> Result<(), SetupError> {
        let rates = self.link_rates();
        let mut known: Vec<(&str, u16)> = Vec::new();
        for &(sender, role) in &placement.roles {
            let (kind, subset, p) = match role {
                Role::Contributor { subset } => ("contributors", subset, 100),
                Role::Victim => ("victims", 0, 0),
                Role::Mixed { subset } => ("mixed hosts", subset, forest.p.min(100)),
            };
            let class = match known.iter().find(|(known, _)| *known == kind) {
                Some((_, class)) => *class,
                None => {
                    let class = self.add_class(classes, &format!("{}: {kind}", traffic.name))?;
                    known.push((kind, class));
                    class
                }
            };
            let host = &mut hosts[sender as usize];
            let owner = owner(sender, &host.sources, self.model.flows.len());
            let spec = GeneratorSpec {
                me: sender,
                hosts: self.topology.end_hosts(),
                subset,
                p,
                hotspots: Arc::clone(&placement.hotspots),
                paces: [p, 100 - p].map(|share| self.share_pace(traffic.rate, rates[sender as usize], share)),
                start: traffic.start,
            };
            host.sources.push(Source {
                class,
                sl: traffic.sl,
                vl: self.model.lanes.of(traffic.sl),
                chooser: Chooser::Forest(Box::new(Generator::new(spec))),
                clock: Clock::Saturating,
                message: traffic.message,
                varied: None,
                next_at: traffic.start,
                stop: traffic.stop,
                left: u64::MAX,
                destinations: Stream::new(self.model.config.seed, "destinations", owner),
                arrivals: Stream::new(self.model.config.seed, "arrivals", owner),
                backlog: 0,
                ready: 0,
            });
        }
        Ok(())
    }

    /// The pace of a share, in percent, of the traffic that a host sends. Unlimited if a host without an
    /// offered rate sends all of its traffic at this pace.
    fn share_pace(&self, offered: Option<Rate>, link: Rate, share: u8) -> BytePace {
        let most = self.model.host.injection_rate(link);
        match (offered, share) {
            (None, 100) => BytePace::INSTANT,
            (rate, _) => Rate(rate.unwrap_or(most).0.saturating_mul(share.into()) / 100).pace(),
        }
    }

    /// The rate of each host's link.
    fn link_rates(&self) -> Vec<Rate> {
        let mut rates = vec![Rate::from_gbit(1); self.topology.hosts.len()];
        for WiredChannel { link, from, .. } in self.directed() {
            if let NodeRef::Host(host) = from.node {
                rates[host as usize] = link.rate;
            }
        }
        rates
    }

    /// The groups of hosts of each forest: the hosts of each role that has any and, unless hotspots move, the
    /// hotspots and the other hosts.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for (traffic, placement) in self.model.traffic.iter().zip(&self.forests) {
            let Some(placement) = placement else { continue };
            let mut add = |name, hosts: Vec<u32>| {
                if !hosts.is_empty() {
                    groups.push(Group { traffic: traffic.name.clone(), name, hosts });
                }
            };
            if placement.hotspots.periods() == 1 {
                let hotspots = placement.hotspots.of(0);
                let others = (0..self.topology.end_hosts()).filter(|host| !hotspots.contains(host));
                add("hotspots", hotspots.to_vec());
                add("other hosts", others.collect());
            }
            add("contributors", placement.hosts(|role| matches!(role, Role::Contributor { .. })).collect());
            add("victims", placement.hosts(|role| role == Role::Victim).collect());
            add("mixed hosts", placement.hosts(|role| matches!(role, Role::Mixed { .. })).collect());
        }
        groups
    }

    /// The hosts to which a pattern refers: its hotspots or receivers, or the images of a permutation.
    fn targets(&self, traffic: &Offered, class: u16, hosts: u32) -> Vec<u32> {
        match traffic.pattern {
            Pattern::Permutation => permutation(self.model.config.seed, class, hosts),
            _ => traffic.named.clone(),
        }
    }
}

/// The role of each host in a forest; `None` for other patterns.
pub(super) fn placement(
    model: &Model,
    (number, traffic): (usize, &Offered),
    topology: &Topology,
) -> Option<ForestRoles> {
    let Pattern::Forest(forest) = traffic.pattern else { return None };
    let owner = (model.config.seed, number as u64);
    let span = (traffic.start, traffic.stop.min(model.config.duration));
    Some(ForestRoles::draw(forest, (&traffic.senders, topology.end_hosts()), owner, span))
}

/// The number that distinguishes the random streams of a host's patterns: the host, and the number of pattern
/// sources that it already has. The classes of the `flows` flows come first.
fn owner(host: u32, sources: &[Source], flows: usize) -> u64 {
    let patterns = sources.iter().filter(|source| usize::from(source.class) >= flows).count();
    u64::from(host) << 16 | patterns as u64
}

/// The phase, in picoseconds, of the first message of a closed loop. The `count` first messages are at random
/// times in the first think time after `start`. The times of the others are stored in `varied`.
fn first_requests(
    (start, think): (Time, Time),
    count: u32,
    arrivals: &mut Stream,
    varied: Option<&mut Box<Varied>>,
) -> u64 {
    let late = |random: &mut Stream| ((u128::from(think.0) * u128::from(random.next_u32())) >> 32) as u64;
    let mut times: Vec<u64> = (0..count).map(|_| late(arrivals)).collect();
    times.sort_unstable();
    let Some((first, others)) = times.split_first() else { return 0 };
    if let Some(varied) = varied {
        varied.due.extend(others.iter().map(|&late| start + Time(late)));
    }
    *first
}

/// Stops the source that was added last until its trigger fires.
fn hold(sources: &mut [Source], host: u32) -> Waiting {
    let mut phase = Time::ZERO;
    if let Some(source) = sources.last_mut() {
        phase = std::mem::replace(&mut source.next_at, Time::NEVER);
    }
    Waiting { host, source: sources.len().saturating_sub(1) as u16, phase }
}

/// The destination of each host in the permutation that a run selects at random for a class of traffic. No
/// host sends to itself unless it is the only one.
#[must_use]
pub fn permutation(seed: u64, class: u16, hosts: u32) -> Vec<u32> {
    let mut random = Stream::new(seed, "permutation", u64::from(class));
    let mut images: Vec<u32> = (0..hosts).collect();
    // About one permutation in e has no fixed point. With a single host, there is no such permutation.
    while hosts > 1 && images.iter().enumerate().any(|(at, &image)| at as u32 == image) {
        random.shuffle(&mut images);
    }
    images
}

/// The rule by which one sender of a pattern selects destinations; `None` if it has no destination.
fn chooser(pattern: &Pattern, targets: &[u32], position: usize, me: u32, count: u32) -> Option<Chooser> {
    let fixed = |to: u32| (to != me).then_some(Chooser::Fixed(to));
    match pattern {
        Pattern::Uniform { include_self } => (count > 1 || *include_self).then_some(Chooser::Uniform {
            me,
            hosts: count,
            include_self: *include_self,
        }),
        Pattern::Hotspots { .. } => fixed(targets[position % targets.len().max(1)]),
        Pattern::Shift { by } => fixed((me + by % count) % count),
        Pattern::Permutation => fixed(targets[me as usize]),
        Pattern::AllToAll => (count > 1).then_some(Chooser::InTurn { me, hosts: count, next: 1 }),
        // Handled by `add_forest` and `add_listed`.
        Pattern::Forest(_) | Pattern::Incast(_) | Pattern::Listed(_) => None,
    }
}
