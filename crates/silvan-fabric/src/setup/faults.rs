//! Determines the changes of links and hosts during a run, and the routes that follow, before the run.

use rustc_hash::FxHashMap;
use silvan_engine::{Rate, Time};
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::routing::{Tables, cycle_text};
use silvan_network::topology::{NodeRef, Topology};

use super::{Builder, WiredChannel};
use crate::config::{Config, RoutePer};
use crate::error::SetupError;
use crate::faults::{
    FaultRoutes, HostChange, HostState, LinkChange, PlannedChanges, Remaining, Reroutes, around,
};
use crate::sink::{DrainStep, HostSink};

/// The largest number of instants with changes of links for which [`FaultPlan::remaining_networks`] returns
/// networks.
const MOST_REMAINING: usize = 100;

/// The network that remains after links have changed at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct RemainingNetwork {
    /// The time of the changes.
    pub time: Time,
    /// The network without the links that are down, at the rates of that time.
    pub topology: Topology,
    /// Tables with routes around the missing links.
    pub tables: Tables,
    /// The links that go down or lose rate at this instant, as indexes into the links of the whole network.
    pub worse: Vec<usize>,
}

/// The changes of links and hosts during a run, and the changes of tables that follow.
#[derive(Debug, Default)]
pub struct FaultPlan {
    pub(super) changes: PlannedChanges,
    pub(super) reroutes: Reroutes,
}

impl FaultPlan {
    /// Determines the tables that follow from `changes`.
    ///
    /// # Errors
    /// If there are too many different tables.
    pub fn new(
        config: &Config,
        changes: PlannedChanges,
        topology: &Topology,
        tables: &Tables,
    ) -> Result<Self, SetupError> {
        let routes = FaultRoutes { topology, tables, given: config.tables_after_faults.as_deref() };
        let reroutes = Reroutes::new(&config.rerouting, &changes.links, routes, config.duration)?;
        Ok(Self { changes, reroutes })
    }

    /// Same as [`Self::new`], with the changes that a configuration describes.
    ///
    /// # Errors
    /// Those of [`PlannedChanges::new`] and [`Self::new`].
    pub fn of(config: &Config, topology: &Topology, tables: &Tables) -> Result<Self, SetupError> {
        let changes = PlannedChanges::new(&config.events, topology, config.duration, config.seed)?;
        Self::new(config, changes, topology, tables)
    }

    /// The time of the first change of tables that permits a deadlock while switches change their tables, and
    /// the cycle of channels. Packets on old and on new routes can then wait for each other. `None` if there
    /// is no such change.
    #[must_use]
    pub fn transition_deadlock(
        &self,
        config: &Config,
        topology: &Topology,
        tables: &Tables,
    ) -> Option<(Time, String)> {
        let has_choice = config.chosen_routes(RoutePer::Packet).is_some() || config.hashing().is_some();
        let groups = |number: usize| {
            let (topology, tables) = match number.checked_sub(1) {
                None => (topology, tables),
                Some(at) => (&self.reroutes.others[at].topology, &self.reroutes.others[at].tables),
            };
            if has_choice { PortGroups::new(topology, tables) } else { PortGroups::of_tables(tables) }
        };
        let mut before = 0;
        for &(time, number) in &self.reroutes.times {
            let both = groups(before).joined(&groups(number));
            if let Some(cycle) = both.deadlock_cycle(topology) {
                return Some((time, cycle_text(&cycle)));
            }
            before = number;
        }
        None
    }

    /// The changes of links at each instant.
    fn changes_of_links(&self) -> impl Iterator<Item = &[LinkChange]> {
        self.changes.links.chunk_by(|one, other| one.time == other.time)
    }

    /// The number of networks that [`Self::remaining_networks`] returns.
    #[must_use]
    pub fn count_remaining(&self) -> usize {
        let count = self.changes_of_links().count();
        if count > MOST_REMAINING { 0 } else { count }
    }

    /// The network and the tables that remain after each instant at which links change. Empty if there are
    /// more than a hundred such instants.
    pub fn remaining_networks(
        &self,
        topology: &Topology,
        tables: &Tables,
    ) -> impl Iterator<Item = RemainingNetwork> {
        let mut current = topology.clone();
        let mut is_down = vec![false; topology.links.len()];
        let mut computed: FxHashMap<Vec<bool>, Tables> = FxHashMap::default();
        self.changes_of_links().take(self.count_remaining()).map(move |together| {
            let mut worse = Vec::new();
            for change in together {
                let (link, state) = (change.link, change.state);
                let was_up = !std::mem::replace(&mut is_down[link], !state.is_up);
                let before = std::mem::replace(&mut current.links[link].rate, state.rate);
                if was_up && (!state.is_up || state.rate < before) {
                    worse.push(link);
                }
            }
            let tables = match self.reroutes.tables_of(&is_down) {
                Some(0) => tables.clone(),
                Some(number) => self.reroutes.others[number - 1].tables.clone(),
                None => {
                    let found = computed.entry(is_down.clone());
                    found.or_insert_with(|| around(topology, tables, &is_down).tables).clone()
                }
            };
            let topology = Remaining::without(&current, &is_down);
            RemainingNetwork { time: together[0].time, topology, tables, worse }
        })
    }
}

impl Builder<'_> {
    /// The input buffers of the hosts whose rates change during the run. Each rate is at most that of the host's link.
    pub(super) fn changing_sinks(&self) -> FxHashMap<u32, HostSink> {
        let duration = self.model.config.duration;
        let mut by_host: FxHashMap<u32, Vec<HostChange>> = FxHashMap::default();
        for &change in &self.changes.hosts {
            by_host.entry(change.host as u32).or_default().push(change);
        }
        let mut sinks = FxHashMap::default();
        for WiredChannel { link, to, .. } in self.directed() {
            let NodeRef::Host(host) = to.node else { continue };
            let Some(changes) = by_host.get(&host) else { continue };
            let usual = self.model.host.drain_rate(link.rate);
            let step = |change: &HostChange| DrainStep {
                since: change.time,
                rate: match change.state {
                    HostState { stalls_until, .. } if stalls_until > change.time => Rate::default(),
                    HostState { drain, .. } => drain.map_or(usual, |rate| rate.min(usual)),
                },
            };
            let of_changes = changes.iter().map(step).filter(|step| step.since < duration);
            let [first, last] = [Time::ZERO, duration].map(|since| DrainStep { since, rate: usual });
            let plan = std::iter::once(first).chain(of_changes).chain([last]).collect();
            let is_shared = changes.iter().any(|change| change.state.is_shared);
            sinks.insert(host, HostSink::changing(plan, is_shared));
        }
        sinks
    }
}
