//! Assigns switches and hosts to partitions, which threads run.

use silvan_engine::Time;

use super::Effects;
use crate::switch::Ports;

/// The minimum time in which a partition can affect another one, or the reason why there is only one
/// partition.
pub(crate) type Lookahead = Result<Time, &'static str>;

/// The nodes of a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes<'a> {
    pub switches: &'a [Ports],
    /// Number of hosts, each of which has one port.
    pub hosts: usize,
    /// Hosts that must be in one partition, because they are the ports of one host.
    pub together: &'a [Vec<u32>],
}

/// The partition of each node. A host belongs to the partition of its switch, so only switches affect each
/// other across partitions.
#[derive(Debug)]
pub(crate) struct Partitioning {
    pub count: usize,
    /// One entry per switch.
    pub of_switch: Vec<u16>,
    /// For each host, its partition and its index among the hosts of that partition.
    pub of_host: Vec<(u16, u32)>,
    /// The minimum time in which a switch can affect a switch of another partition.
    pub lookahead: Time,
}

impl Partitioning {
    /// Assigns nodes to at most `threads` partitions. With traffic that waits for deliveries, a packet
    /// affects all partitions when it is delivered. If a link between partitions has no delay, returns a
    /// single partition and the reason.
    pub fn of_threads(
        threads: usize,
        effects: &Effects,
        nodes: Nodes<'_>,
        waits_for_deliveries: bool,
    ) -> (Self, Lookahead) {
        let mut found = Self::new(threads, effects, nodes);
        if waits_for_deliveries {
            found.lookahead = found.lookahead.min(effects.least_delivery());
        }
        if found.lookahead == Time::ZERO {
            let alone = Self::new(1, effects, nodes);
            return (alone, Err("zero lookahead: a link has no delay"));
        }
        let lookahead = Ok(found.lookahead);
        (found, lookahead)
    }

    /// Creates at most `count` partitions, and no more than there are groups of switches with common hosts. Creates
    /// fewer partitions if a host would otherwise send to a switch of one partition and receive from a switch
    /// of another.
    fn new(count: usize, effects: &Effects, nodes: Nodes<'_>) -> Self {
        let mut count = count;
        loop {
            let partition = Self::of_runs(count, effects, nodes);
            if partition.count == 1 || partition.keeps_hosts_together(effects) {
                return partition;
            }
            count = partition.count - 1;
        }
    }

    /// Whether each host sends to a switch of its own partition.
    fn keeps_hosts_together(&self, effects: &Effects) -> bool {
        effects.hosts_from.iter().all(|(channel, host)| {
            let first = effects.receivers[*channel as usize];
            first.is_none_or(|(switch, _)| self.of_switch[switch as usize] == self.of_host[*host as usize].0)
        })
    }

    /// Divides each level of the network into runs of consecutive switches with about equal numbers of
    /// ports. Switches with ports of the same host are in the same run.
    fn of_runs(count: usize, effects: &Effects, nodes: Nodes<'_>) -> Self {
        let Nodes { switches, hosts, .. } = nodes;
        let mut levels = levels(effects, switches).into_iter();
        let leaves = grouped(levels.next().unwrap_or_default(), effects, nodes);
        let count = count.clamp(1, leaves.len().clamp(1, usize::from(u16::MAX)));
        let levels = levels.map(|level| level.into_iter().map(|switch| vec![switch]).collect());
        let mut of_switch = vec![0; switches.len()];
        for level in std::iter::once(leaves).chain(levels) {
            let ports =
                |group: &Vec<usize>| group.iter().map(|&switch| switches[switch].count()).sum::<usize>();
            let all: usize = level.iter().map(ports).sum();
            let mut before = 0;
            for group in &level {
                group.iter().for_each(|&switch| of_switch[switch] = (before * count / all.max(1)) as u16);
                before += ports(group);
            }
        }
        let mut partition_of = vec![0; hosts];
        for (switch, partition) in switches.iter().zip(&of_switch) {
            for wiring in switch.wiring.iter().flatten() {
                if let Some(&host) = effects.hosts_at.get(&wiring.out) {
                    partition_of[host as usize] = *partition;
                }
            }
        }
        let mut known = vec![0; count];
        let place = |partition: u16| {
            let next: &mut u32 = &mut known[usize::from(partition)];
            *next += 1;
            (partition, *next - 1)
        };
        let of_host = partition_of.into_iter().map(place).collect();
        let lookahead = lookahead(effects, switches, &of_switch);
        Self { count, of_switch, of_host, lookahead }
    }
}

/// Groups the switches with hosts so that all switches of hosts that must be together are in one group. The order follows the
/// first switch of each group.
fn grouped(leaves: Vec<usize>, effects: &Effects, nodes: Nodes<'_>) -> Vec<Vec<usize>> {
    if nodes.together.is_empty() {
        return leaves.into_iter().map(|leaf| vec![leaf]).collect();
    }
    let mut leaf_of = vec![None; nodes.hosts];
    for (place, &leaf) in leaves.iter().enumerate() {
        for wiring in nodes.switches[leaf].wiring.iter().flatten() {
            if let Some(&host) = effects.hosts_at.get(&wiring.out) {
                leaf_of[host as usize] = Some(place);
            }
        }
    }
    // Each place refers to an earlier one of its group, and the first one to itself.
    let mut first: Vec<usize> = (0..leaves.len()).collect();
    let root = |first: &[usize], mut place: usize| {
        while first[place] != place {
            place = first[place];
        }
        place
    };
    for hosts in nodes.together {
        let mut places = hosts.iter().filter_map(|&host| leaf_of[host as usize]);
        let Some(one) = places.next() else { continue };
        for other in places {
            let (one, other) = (root(&first, one), root(&first, other));
            first[one.max(other)] = one.min(other);
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); leaves.len()];
    for (place, leaf) in leaves.into_iter().enumerate() {
        groups[root(&first, place)].push(leaf);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// The switches grouped by their distance from hosts, starting with those that have hosts. The last group
/// consists of the switches that packets from hosts cannot reach.
fn levels(effects: &Effects, switches: &[Ports]) -> Vec<Vec<usize>> {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut is_known = vec![false; switches.len()];
    let has_hosts = |switch: &usize| switches[*switch].wiring.iter().flatten().any(|port| port.faces_host);
    let mut next: Vec<usize> = (0..switches.len()).filter(has_hosts).collect();
    while !next.is_empty() {
        next.iter().for_each(|&switch| is_known[switch] = true);
        let ports = next.iter().flat_map(|&switch| switches[switch].wiring.iter().flatten());
        let far = ports.filter_map(|port| effects.receivers[port.out as usize]);
        let mut beyond: Vec<usize> =
            far.map(|(switch, _)| switch as usize).filter(|&switch| !is_known[switch]).collect();
        beyond.sort_unstable();
        beyond.dedup();
        levels.push(std::mem::replace(&mut next, beyond));
    }
    let rest: Vec<usize> = (0..switches.len()).filter(|&switch| !is_known[switch]).collect();
    levels.push(rest);
    levels
}

/// The minimum time in which a switch can affect a switch of another partition; `Time::NEVER` without such a
/// switch.
fn lookahead(effects: &Effects, switches: &[Ports], of_switch: &[u16]) -> Time {
    let kinds = effects.links.all_parameters();
    let mut least = Time::NEVER;
    for (switch, partition) in switches.iter().zip(of_switch) {
        for wiring in switch.wiring.iter().flatten() {
            if let Some((far, _)) = effects.receivers[wiring.out as usize]
                && of_switch[far as usize] != *partition
            {
                let link = &kinds[effects.links.parameters_index(wiring.out)];
                least = least.min(effects.reach_of(link));
            }
        }
    }
    least
}
