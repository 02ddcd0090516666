//! Which hosts exchange traffic, and the sets of hosts that have no traffic with each other.

use rustc_hash::FxHashSet;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Job, Pattern, Traffic};

use super::HostNames;
use crate::config::Config;

/// Hosts that exchange traffic.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExchangingHosts {
    /// The sender and the receiver of each pair, which differ.
    Pairs(Vec<(u32, u32)>),
    /// Each sender may send to each receiver.
    All { senders: Vec<u32>, receivers: Vec<u32> },
}

/// The traffic of a network, divided into sets of hosts. Hosts of different sets do not exchange traffic.
#[derive(Debug)]
pub(super) struct Exchanges {
    /// The traffic of each set, at least one set.
    pub sets: Vec<Vec<ExchangingHosts>>,
    /// The set of each host; `None` if the host neither sends nor receives.
    pub of_host: Vec<Option<u32>>,
}

impl Exchanges {
    /// The traffic that a configuration describes. Patterns that draw destinations may use any destination that they can
    /// draw. Without any traffic, all hosts exchange traffic.
    pub fn new(topology: &Topology, config: &Config) -> Self {
        let mut found = listed(topology, config);
        found.retain(|exchange| match exchange {
            ExchangingHosts::Pairs(pairs) => !pairs.is_empty(),
            ExchangingHosts::All { senders, receivers } => match (&senders[..], &receivers[..]) {
                ([one], [other]) => one != other,
                ([], _) | (_, []) => false,
                _ => true,
            },
        });
        if found.is_empty() {
            let all: Vec<u32> = (0..topology.hosts.len() as u32).collect();
            found = vec![ExchangingHosts::All { senders: all.clone(), receivers: all }];
        }
        Self::divided(found, topology.hosts.len())
    }

    /// Divides traffic into sets, which are in the order of their first hosts.
    fn divided(all: Vec<ExchangingHosts>, hosts: usize) -> Self {
        let mut joined = Joined::new(hosts);
        for exchange in &all {
            match exchange {
                ExchangingHosts::Pairs(pairs) => pairs.iter().for_each(|&(from, to)| joined.join(from, to)),
                ExchangingHosts::All { senders, receivers } => {
                    let first = senders[0];
                    senders.iter().chain(receivers).for_each(|&host| joined.join(first, host));
                }
            }
        }
        let mut has_traffic = vec![false; hosts];
        let mut mark = |host: &u32| has_traffic[*host as usize] = true;
        for exchange in &all {
            match exchange {
                ExchangingHosts::Pairs(pairs) => {
                    pairs.iter().for_each(|(from, to)| [from, to].into_iter().for_each(&mut mark))
                }
                ExchangingHosts::All { senders, receivers } => {
                    senders.iter().chain(receivers).for_each(&mut mark)
                }
            }
        }
        let mut number_of = vec![None; hosts];
        let mut sets: Vec<Vec<ExchangingHosts>> = Vec::new();
        let mut of_host = vec![None; hosts];
        for host in (0..hosts).filter(|&host| has_traffic[host]) {
            let number = *number_of[joined.root(host as u32) as usize].get_or_insert_with(|| {
                sets.push(Vec::new());
                sets.len() as u32 - 1
            });
            of_host[host] = Some(number);
        }
        let set_of = |host: u32| of_host[host as usize].unwrap_or_default() as usize;
        for exchange in all {
            match exchange {
                ExchangingHosts::Pairs(mut pairs) => {
                    pairs.sort_unstable_by_key(|&(from, to)| (set_of(from), to, from));
                    for of_set in pairs.chunk_by(|one, other| set_of(one.0) == set_of(other.0)) {
                        sets[set_of(of_set[0].0)].push(ExchangingHosts::Pairs(of_set.to_vec()));
                    }
                }
                ExchangingHosts::All { senders, receivers } => {
                    sets[set_of(senders[0])].push(ExchangingHosts::All { senders, receivers });
                }
            }
        }
        Self { sets, of_host }
    }
}

/// Hosts that are joined to sets.
struct Joined {
    parents: Vec<u32>,
}

impl Joined {
    fn new(hosts: usize) -> Self {
        Self { parents: (0..hosts as u32).collect() }
    }

    fn root(&mut self, mut host: u32) -> u32 {
        while self.parents[host as usize] != host {
            let above = self.parents[self.parents[host as usize] as usize];
            self.parents[host as usize] = above;
            host = above;
        }
        host
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[one.max(other) as usize] = one.min(other);
    }
}

/// The traffic of flows, patterns, jobs and a program outside the model. Names that do not exist are rejected elsewhere.
fn listed(topology: &Topology, config: &Config) -> Vec<ExchangingHosts> {
    let names = HostNames::new(topology);
    let find = |name: &String| names.find(name, "").ok();
    let of_flow = config.flows.iter().filter_map(|flow| find(&flow.from).zip(find(&flow.to)));
    // The network may be one without the reduction units with which jobs exchange messages.
    let exists = |host: u32| (host as usize) < topology.hosts.len();
    let of_jobs = config.jobs.iter().flat_map(Job::pairs);
    let of_jobs = of_jobs.filter(|&(from, to)| exists(from) && exists(to));
    let mut found = vec![pairs(of_flow.chain(of_jobs))];
    for traffic in &config.traffic {
        found.push(of_pattern(traffic, topology.end_hosts(), &find));
    }
    if config.external.is_some() {
        let hosts: Vec<u32> = (0..topology.end_hosts()).collect();
        found.push(ExchangingHosts::All { senders: hosts.clone(), receivers: hosts });
    }
    found
}

/// The traffic of a pattern in a network with this number of hosts that are no reduction units.
fn of_pattern(traffic: &Traffic, hosts: u32, find: &impl Fn(&String) -> Option<u32>) -> ExchangingHosts {
    let named = |names: &Option<Vec<String>>| match names {
        Some(names) => names.iter().filter_map(find).collect(),
        None => (0..hosts).collect::<Vec<u32>>(),
    };
    let senders = named(&traffic.hosts);
    match &traffic.pattern {
        Pattern::Hotspots { to } => {
            let targets: Vec<u32> = to.iter().filter_map(find).collect();
            pairs(senders.into_iter().zip(targets.into_iter().cycle()))
        }
        Pattern::Shift { by } => pairs(senders.into_iter().map(|from| (from, (from + by % hosts) % hosts))),
        Pattern::Incast(incast) => ExchangingHosts::All { senders, receivers: named(&incast.to) },
        Pattern::Listed(_) => {
            let transfers = traffic.loaded.transfers.iter().flat_map(|all| all.iter());
            pairs(transfers.map(|transfer| (transfer.from, transfer.to)))
        }
        Pattern::Uniform { .. } | Pattern::Permutation | Pattern::AllToAll | Pattern::Forest(_) => {
            ExchangingHosts::All { senders, receivers: (0..hosts).collect() }
        }
    }
}

/// Different pairs of different hosts.
fn pairs(all: impl Iterator<Item = (u32, u32)>) -> ExchangingHosts {
    let found: FxHashSet<(u32, u32)> = all.filter(|(from, to)| from != to).collect();
    ExchangingHosts::Pairs(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_exchange_no_traffic_are_in_different_sets() {
        let all = vec![
            ExchangingHosts::Pairs(vec![(7, 2), (0, 1), (4, 1)]),
            ExchangingHosts::All { senders: vec![5, 6], receivers: vec![2] },
        ];
        let found = Exchanges::divided(all, 9);
        let (first, second) = (Some(0), Some(1));
        assert_eq!(found.of_host, [first, first, second, None, first, second, second, second, None]);
        assert_eq!(found.sets[0], [ExchangingHosts::Pairs(vec![(0, 1), (4, 1)])]);
        let all = ExchangingHosts::All { senders: vec![5, 6], receivers: vec![2] };
        assert_eq!(found.sets[1], [ExchangingHosts::Pairs(vec![(7, 2)]), all]);
    }
}
