//! Determines, before the run, the times at which links and hosts change, from the events of the scenario and
//! the seed.

use rustc_hash::FxHashMap;
use silvan_engine::random::Stream;
use silvan_engine::{Rate, Time};
use silvan_network::topology::{End, NodeRef, Topology};

use super::{Event, EventKind, Width};
use crate::error::{Reason, SetupError};
use crate::link::LinkState;

/// The largest number of changes of links and hosts in a run.
const MOST_CHANGES: usize = 1_000_000;

/// The state of a link, beginning at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkChange {
    pub time: Time,
    /// Index into [`Topology::links`].
    pub link: usize,
    pub state: LinkState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostState {
    /// The time until which the host does not drain its input buffer; zero if it drains the buffer.
    pub stalls_until: Time,
    /// The rate at which the host drains its input buffer, if the rate is changed.
    pub drain: Option<Rate>,
    /// Whether packets that the host sends share this rate.
    pub is_shared: bool,
    /// Whether the host has failed.
    pub is_stopped: bool,
}

impl HostState {
    /// The state without changes.
    pub const USUAL: Self =
        Self { stalls_until: Time::ZERO, drain: None, is_shared: false, is_stopped: false };

    /// The state that follows from all spans that contain a time.
    fn of(spans: &[Span]) -> Self {
        if spans.iter().any(|span| span.kind == EventKind::Stop) {
            return Self { is_stopped: true, ..Self::USUAL };
        }
        let stalls = spans.iter().filter(|span| span.kind == EventKind::Stall);
        Self {
            stalls_until: stalls.map(|span| span.end).max().unwrap_or_default(),
            drain: spans.iter().filter_map(|span| span.rate).min(),
            is_shared: spans.iter().any(|span| span.is_shared),
            is_stopped: false,
        }
    }
}

/// The state of a host, beginning at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostChange {
    pub time: Time,
    /// Index into [`Topology::hosts`].
    pub host: usize,
    pub state: HostState,
}

/// All changes during a run. Each list is in order of time, and then of links or hosts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PlannedChanges {
    pub(crate) links: Vec<LinkChange>,
    pub(crate) hosts: Vec<HostChange>,
}

/// A time during which a link or host has a certain state because of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: Time,
    end: Time,
    kind: EventKind,
    rate: Option<Rate>,
    is_shared: bool,
    loss_ppb: u32,
}

impl Span {
    /// A time during which a link is down.
    fn of_down(start: Time, end: Time) -> Self {
        Self { start, end, kind: EventKind::Down, rate: None, is_shared: false, loss_ppb: 0 }
    }
}

impl PlannedChanges {
    /// All changes before the end of a run, which lasts for `duration`.
    ///
    /// # Errors
    /// An error at a key of an event, such as `event.0.links.2`, if a link, switch or host does not exist, if
    /// a link or host is named twice, if a rate exceeds that of a link, or if there are too many changes.
    pub fn new(events: &[Event], topology: &Topology, duration: Time, seed: u64) -> Result<Self, SetupError> {
        if events.is_empty() {
            return Ok(Self::default());
        }
        let names = Names::new(topology);
        let mut links: FxHashMap<usize, Vec<Span>> = FxHashMap::default();
        let mut hosts: FxHashMap<usize, Vec<Span>> = FxHashMap::default();
        let rate_of = |width: Option<Width>, link: usize| Some(width?.share_of(topology.links[link].rate));
        let mut left = MOST_CHANGES;
        for (index, event) in events.iter().enumerate() {
            let is_of_hosts = event.kind.is_of_hosts();
            let groups = if is_of_hosts { names.hosts(event, index)? } else { names.links(event, index)? };
            for (owner, members) in groups {
                let mut stream = Stream::new(seed, "events", (index as u64) << 40 | owner);
                let times = times(event, duration, &mut stream, left / members.len().max(1));
                let times = times.ok_or_else(|| {
                    Reason::TooManyChanges { most: MOST_CHANGES }.at(format!("event.{index}"))
                })?;
                left = left.saturating_sub(times.len() * members.len());
                for member in members {
                    if event.kind == EventKind::Stop {
                        let is_down = |&(start, end): &(Time, Time)| Span::of_down(start, end);
                        for &link in names.of_host(member) {
                            links.entry(link).or_default().extend(times.iter().map(is_down));
                        }
                    }
                    let span = |&(start, end): &(Time, Time)| Span {
                        start,
                        end,
                        kind: event.kind,
                        rate: event.rate.or_else(|| rate_of(event.width, member)),
                        is_shared: event.shared,
                        loss_ppb: event.loss_ppb.unwrap_or_default(),
                    };
                    let spans = if is_of_hosts { &mut hosts } else { &mut links };
                    spans.entry(member).or_default().extend(times.iter().map(span));
                }
            }
        }
        let of_link = |(&link, spans): (&usize, &Vec<Span>)| {
            let usual = LinkState { is_up: true, rate: topology.links[link].rate, loss_ppb: 0 };
            let states = states(usual, spans, |spans| LinkState {
                is_up: spans.iter().all(|span| span.kind != EventKind::Down),
                rate: spans.iter().filter_map(|span| span.rate).fold(usual.rate, Rate::min),
                loss_ppb: spans.iter().map(|span| span.loss_ppb).max().unwrap_or_default(),
            });
            states.into_iter().map(move |(time, state)| LinkChange { time, link, state })
        };
        let mut links: Vec<LinkChange> = links.iter().flat_map(of_link).collect();
        links.retain(|change| change.time < duration);
        links.sort_unstable_by_key(|change| (change.time, change.link));
        let of_host = |(&host, spans): (&usize, &Vec<Span>)| {
            let states = states(HostState::USUAL, spans, HostState::of);
            states.into_iter().map(move |(time, state)| HostChange { time, host, state })
        };
        let mut hosts: Vec<HostChange> = hosts.iter().flat_map(of_host).collect();
        hosts.retain(|change| change.time < duration);
        hosts.sort_unstable_by_key(|change| (change.time, change.host));
        Ok(Self { links, hosts })
    }
}

/// The start and end times of an event on one link, switch or host; `None` if there are more than `most`.
fn times(event: &Event, duration: Time, stream: &mut Stream, most: usize) -> Option<Vec<(Time, Time)>> {
    let lasts = event.lasts.unwrap_or(Time::NEVER);
    let end = |start: Time| Time(start.0.saturating_add(lasts.0));
    let mut found = Vec::new();
    let mut next = event.start;
    let wait = |stream: &mut Stream| {
        let jitter = event.jitter.map_or(0, |jitter| below(stream, jitter.0));
        let gap = event.mean_time_between.map_or(0, |mean| stream.exponential(mean.0));
        Time(jitter + gap)
    };
    while next < duration {
        let start = next + wait(stream);
        if start >= duration {
            break;
        }
        if found.len() == most {
            return None;
        }
        found.push((start, end(start)));
        next = match (event.every, event.mean_time_between) {
            (Some(every), _) => next + every,
            (None, Some(_)) => end(start),
            (None, None) => break,
        };
    }
    Some(found)
}

/// A uniform random number below `bound`; zero if `bound` is zero.
fn below(stream: &mut Stream, bound: u64) -> u64 {
    let word = u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32());
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// The times at which the combined state changes, with the new states. `combined` returns the state that
/// follows from the spans of a time.
fn states<S: Copy + PartialEq>(usual: S, spans: &[Span], combined: impl Fn(&[Span]) -> S) -> Vec<(Time, S)> {
    let mut times: Vec<Time> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
    times.sort_unstable();
    times.dedup();
    let mut by_start = spans.to_vec();
    by_start.sort_unstable_by_key(|span| span.start);
    let (mut found, mut state, mut begun, mut current) = (Vec::new(), usual, 0, Vec::<Span>::new());
    for time in times {
        while let Some(span) = by_start.get(begun).filter(|span| span.start <= time) {
            current.push(*span);
            begun += 1;
        }
        current.retain(|span| span.end > time);
        let next = combined(&current);
        if next != state {
            found.push((time, next));
            state = next;
        }
    }
    found
}

/// The nodes of a network by name, and its links by the ports at their ends.
struct Names<'t> {
    topology: &'t Topology,
    nodes: FxHashMap<&'t str, NodeRef>,
    /// One-way links can have a port in common.
    links: FxHashMap<(NodeRef, u16), Vec<usize>>,
}

/// The number from which the random stream of a group is derived, and the links or hosts of the group, which
/// change together.
type Group = (u64, Vec<usize>);

impl<'t> Names<'t> {
    fn new(topology: &'t Topology) -> Self {
        let hosts = topology.hosts.iter().enumerate();
        let hosts = hosts.map(|(index, host)| (host.name.as_str(), NodeRef::Host(index as u32)));
        let switches = topology.switches.iter().enumerate();
        let switches = switches.map(|(index, switch)| (switch.name.as_str(), NodeRef::Switch(index as u32)));
        let mut links: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (index, link) in topology.links.iter().enumerate() {
            for End { node, port } in [link.a, link.b] {
                links.entry((node, port)).or_default().push(index);
            }
        }
        Self { topology, nodes: switches.chain(hosts).collect(), links }
    }

    /// The groups of links of an event. Each link is in one group.
    fn links(&self, event: &Event, index: usize) -> Result<Vec<Group>, SetupError> {
        let (mut groups, mut taken) = (Vec::new(), vec![false; self.topology.links.len()]);
        for (at, name) in event.links.iter().enumerate() {
            let key = || format!("event.{index}.links.{at}");
            let links = self.at_port(name);
            if links.is_empty() {
                return Err(Reason::NoSuchLink(name.clone()).at(key()));
            }
            for link in links {
                if std::mem::replace(&mut taken[link], true) {
                    return Err(Reason::LinkTwice(name.clone()).at(key()));
                }
                groups.push((link as u64, vec![link]));
            }
        }
        for (at, name) in event.switches.iter().enumerate() {
            let key = || format!("event.{index}.switches.{at}");
            let Some(NodeRef::Switch(switch)) = self.nodes.get(name.as_str()) else {
                return Err(Reason::NoSuchSwitch(name.clone()).at(key()));
            };
            let is_of_switch = |end: End| end.node == NodeRef::Switch(*switch);
            let links = self.topology.links.iter().enumerate();
            let links = links.filter(|(_, link)| is_of_switch(link.a) || is_of_switch(link.b));
            let links: Vec<usize> = links.map(|(link, _)| link).collect();
            groups.push((1 << 32 | u64::from(*switch), links));
        }
        if let Some(rate) = event.rate {
            let links = groups.iter().flat_map(|(_, links)| links);
            let slowest = links.map(|&link| self.topology.links[link].rate).min().unwrap_or_default();
            if rate > slowest {
                return Err(Reason::FasterThanLink { slowest }.of(format!("event.{index}.rate"), rate));
            }
        }
        Ok(groups)
    }

    /// The groups of hosts of an event: each host alone, or all ports of a host with several ports together.
    fn hosts(&self, event: &Event, index: usize) -> Result<Vec<Group>, SetupError> {
        let mut taken = vec![false; self.topology.hosts.len()];
        let of_name = |(at, name): (usize, &String)| {
            let key = || format!("event.{index}.hosts.{at}");
            let own = self.ports_of(name);
            let first = *own.first().ok_or_else(|| Reason::NoSuchHost(name.clone()).at(key()))?;
            for &host in own {
                if std::mem::replace(&mut taken[host as usize], true) {
                    return Err(Reason::HostTwice.at(key()));
                }
            }
            Ok((u64::from(first), own.iter().map(|&host| host as usize).collect()))
        };
        event.hosts.iter().enumerate().map(of_name).collect()
    }

    /// The ports of a host, each of which is a host of the network; empty if there is no such host.
    fn ports_of(&self, name: &str) -> &[u32] {
        match self.nodes.get(name) {
            Some(NodeRef::Host(host)) => std::slice::from_ref(host),
            _ => self.topology.machine_named(name).map_or(&[][..], |machine| &machine.ports),
        }
    }

    /// The links of a host.
    fn of_host(&self, host: usize) -> &[usize] {
        self.links.get(&(NodeRef::Host(host as u32), 1)).map_or(&[], Vec::as_slice)
    }

    /// The links at a port, such as "S1:3", or of all ports of a host. Empty if there is no such port or host.
    fn at_port(&self, name: &str) -> Vec<usize> {
        let ports = self.ports_of(name);
        if !ports.is_empty() {
            return ports.iter().flat_map(|&port| self.of_host(port as usize)).copied().collect();
        }
        let of_switch = |(node, port): (&str, &str)| {
            self.links.get(&(*self.nodes.get(node)?, port.parse().ok()?)).cloned()
        };
        name.rsplit_once(':').and_then(of_switch).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silvan_network::topology::TopologySpec;

    fn event(kind: EventKind, link: &str, start: u64, lasts: u64) -> Event {
        Event {
            name: None,
            kind,
            links: vec![link.into()],
            switches: Vec::new(),
            hosts: Vec::new(),
            rate: None,
            width: None,
            shared: false,
            loss_ppb: None,
            start: Time(start),
            lasts: Some(Time(lasts)),
            every: None,
            jitter: None,
            mean_time_between: None,
        }
    }

    fn rate(link: &str, gbit: u64, start: u64, lasts: u64) -> Event {
        Event { rate: Some(Rate::from_gbit(gbit)), ..event(EventKind::Rate, link, start, lasts) }
    }

    fn all_changes(events: &[Event], duration: u64) -> PlannedChanges {
        let spec: TopologySpec =
            serde_json::from_str(r#"{"kind": "star", "hosts": 3, "link_rate": "8 Gbit/s"}"#).unwrap();
        PlannedChanges::new(events, &spec.build().unwrap(), Time(duration), 1).unwrap()
    }

    fn changes(events: &[Event], duration: u64) -> Vec<(u64, usize, bool, u64)> {
        let changes = all_changes(events, duration).links;
        let plain =
            |one: &LinkChange| (one.time.0, one.link, one.state.is_up, one.state.rate.0 / 1_000_000_000);
        changes.iter().map(plain).collect()
    }

    #[test]
    fn the_name_of_a_host_stands_for_all_of_its_ports() {
        let star: TopologySpec = serde_json::from_str(r#"{"kind": "star", "hosts": 3}"#).unwrap();
        let planes = star.build().unwrap().with_ports(2, silvan_network::topology::Cabling::Planes).unwrap();
        let plan = |list: &str| {
            let event: Event = serde_json::from_str(list).unwrap();
            PlannedChanges::new(&[event], &planes, Time::from_ns(100), 1)
        };
        let down = plan(r#"{"kind": "down", "links": ["H2"], "start": "5 ns"}"#).unwrap();
        assert_eq!(down.links.iter().map(|change| change.link).collect::<Vec<_>>(), [1, 4]);
        let stall =
            plan(r#"{"kind": "stall", "hosts": ["H3"], "start": "5 ns", "jitter": "50 ns"}"#).unwrap();
        let of_hosts: Vec<(usize, Time)> =
            stall.hosts.iter().map(|change| (change.host, change.time)).collect();
        assert_eq!(of_hosts, [(2, of_hosts[0].1), (5, of_hosts[0].1)], "at the same time");
        let twice = plan(r#"{"kind": "stop", "hosts": ["H3.2", "H3"]}"#).unwrap_err();
        assert!(twice.to_string().contains("twice"), "{twice}");
        assert!(plan(r#"{"kind": "down", "links": ["H4"]}"#).is_err());
    }

    #[test]
    fn overlapping_changes_combine_to_the_worst_state() {
        let events = [
            event(EventKind::Down, "H1", 10, 20),
            event(EventKind::Down, "S1:1", 25, 15),
            rate("H1", 4, 5, 50),
            rate("H1", 2, 35, 10),
        ];
        let found = changes(&events, 100);
        let expected =
            [(5, true, 4), (10, false, 4), (35, false, 2), (40, true, 2), (45, true, 4), (55, true, 8)];
        assert_eq!(found, expected.map(|(time, is_up, rate)| (time, 0, is_up, rate)));
    }

    #[test]
    fn changes_repeat_until_the_end() {
        let flap = Event { every: Some(Time(30)), ..event(EventKind::Down, "H2", 10, 5) };
        let found = changes(std::slice::from_ref(&flap), 75);
        let expected = [(10, false), (15, true), (40, false), (45, true), (70, false)];
        assert_eq!(
            found,
            expected.map(|(time, is_up)| (time, 1, is_up, 8)),
            "the link is still down at the end"
        );
        let jittered = changes(&[Event { jitter: Some(Time(20)), ..flap }], 75);
        for (change, (time, is_up)) in jittered.iter().zip(expected) {
            assert!((time..time + 20).contains(&change.0) && change.2 == is_up, "{jittered:?}");
        }
    }

    #[test]
    fn random_changes_have_the_given_mean_and_differ_between_links() {
        let mut random = Event {
            links: vec!["H1".into(), "H2".into()],
            mean_time_between: Some(Time(1_000)),
            ..event(EventKind::Down, "", 0, 100)
        };
        let found = changes(std::slice::from_ref(&random), 1_100_000);
        let starts = |link| {
            let of_link = found.iter().filter(move |one| one.1 == link && !one.2);
            of_link.map(|one| one.0).collect::<Vec<_>>()
        };
        for link in [0, 1] {
            // A thousand cycles of 1,100 ps on average; the standard deviation of their number is about 29.
            assert!((900..1_100).contains(&starts(link).len()), "{}", starts(link).len());
        }
        assert_ne!(starts(0)[..5], starts(1)[..5]);
        (random.links, random.switches) = (Vec::new(), vec!["S1".into()]);
        let together = changes(&[random], 10_000);
        assert!(together.chunks_exact(3).all(|all| all.iter().all(|one| one.0 == all[0].0)), "{together:?}");
    }

    #[test]
    fn a_host_that_stops_takes_its_link_down_and_does_not_change_any_more() {
        let of_host = |kind, start, lasts: Option<u64>| Event {
            links: Vec::new(),
            hosts: vec!["H3".into()],
            rate: (kind == EventKind::Drain).then(|| Rate::from_gbit(4)),
            lasts: lasts.map(Time),
            ..event(kind, "", start, 1)
        };
        let events = [
            of_host(EventKind::Drain, 10, Some(50)),
            of_host(EventKind::Stop, 30, None),
            event(EventKind::Down, "H3", 20, 40),
        ];
        let found = all_changes(&events, 100);
        let of_link = found.links.iter().map(|one| (one.time.0, one.link, one.state.is_up));
        assert_eq!(of_link.collect::<Vec<_>>(), [(20, 2, false)]);
        let of_hosts = found.hosts.iter().map(|one| (one.time.0, one.host, one.state.is_stopped));
        assert_eq!(of_hosts.collect::<Vec<_>>(), [(10, 2, false), (30, 2, true)]);
        assert_eq!(found.hosts[1].state.drain, None);
    }

    #[test]
    fn hosts_stall_until_the_last_stall_ends_and_drain_at_the_lowest_rate() {
        let of_hosts = |kind, start, lasts, rate: Option<u64>| Event {
            links: Vec::new(),
            hosts: vec!["H3".into()],
            rate: rate.map(Rate::from_gbit),
            ..event(kind, "", start, lasts)
        };
        let events = [
            of_hosts(EventKind::Stall, 10, 20, None),
            of_hosts(EventKind::Stall, 20, 30, None),
            of_hosts(EventKind::Drain, 15, 100, Some(4)),
            of_hosts(EventKind::Drain, 40, 5, Some(2)),
        ];
        let found = all_changes(&events, 100).hosts;
        let plain = |one: &HostChange| {
            let HostState { stalls_until, drain, .. } = one.state;
            (one.time.0, stalls_until.0, drain.map_or(0, |rate| rate.0 / 1_000_000_000))
        };
        let expected = [(10, 30, 0), (15, 30, 4), (20, 50, 4), (40, 50, 2), (45, 50, 4), (50, 0, 4)];
        assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|one| one.host == 2));
    }
}
