//! Forwarding tables of a network without the links that are down.

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_network::routing::Tables;
use silvan_network::routing::port_groups::ShortestPorts;
use silvan_network::topology::Topology;

use super::Rerouting;
use super::plan::LinkChange;
use crate::error::{Reason, SetupError};

/// The largest number of different tables of a run.
const MOST_TABLES: usize = 1_000;

/// A network without some links, and its tables.
#[derive(Debug)]
pub(crate) struct Remaining {
    pub topology: Topology,
    pub tables: Tables,
}

impl Remaining {
    /// A network without the links that are down, where `is_down` has an entry for each link.
    pub fn without(topology: &Topology, is_down: &[bool]) -> Topology {
        let links = topology.links.iter().zip(is_down);
        let links = links.filter(|(_, is_down)| !**is_down).map(|(link, _)| *link).collect();
        // The other members have no references to links.
        Topology { links, ..topology.clone() }
    }
}

/// The changes of tables during a run.
#[derive(Debug, Default)]
pub(crate) struct Reroutes {
    /// Tables other than those at the start, each once.
    pub others: Vec<Remaining>,
    /// The times at which all switches change their tables, and the number of the tables: 0 for those at the
    /// start, otherwise an index into `others`, plus one.
    pub times: Vec<(Time, usize)>,
    /// The number of the tables for each combination of links that are down, as far as it has been
    /// determined.
    of_state: FxHashMap<Vec<bool>, usize>,
    /// Whether the tables for any combination of links that are down are given instead of computed.
    is_given: bool,
}

/// Computes routes around links that are down, where `is_down` has an entry for each link. Routes to hosts
/// that cannot be reached stay. Routes at switches that no packet passes on a new route also stay: such a
/// switch could otherwise send packets back, which could cause a deadlock.
pub(crate) fn around(topology: &Topology, tables: &Tables, is_down: &[bool]) -> Remaining {
    let remaining = Remaining::without(topology, is_down);
    let mut shortest = ShortestPorts::new(&remaining);
    let mut found = tables.clone();
    for rows in std::iter::once(&mut found.out).chain(&mut found.further) {
        for (switch, row) in rows.iter_mut().enumerate() {
            for (host, port) in row.iter_mut().enumerate() {
                let ports = shortest.ports(switch, host);
                if *port != Tables::NO_ROUTE && !ports.is_empty() && !ports.contains(port) {
                    *port = ports[host % ports.len()];
                }
            }
        }
    }
    Remaining { topology: remaining, tables: found }
}

/// Returns `tables` with the routes of `others` instead of missing routes.
#[must_use]
pub fn completed(mut tables: Tables, others: &Tables) -> Tables {
    let rows = std::iter::once(&mut tables.out).chain(&mut tables.further);
    let of_others = std::iter::once(&others.out).chain(&others.further);
    for (rows, others) in rows.zip(of_others) {
        for (port, other) in rows.iter_mut().flatten().zip(others.iter().flatten()) {
            if *port == Tables::NO_ROUTE {
                *port = *other;
            }
        }
    }
    tables
}

/// The routes of a network in which links go down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultRoutes<'a> {
    pub topology: &'a Topology,
    pub tables: &'a Tables,
    /// The tables while any link is down; `None` if they are computed.
    pub given: Option<&'a Tables>,
}

impl Reroutes {
    /// The changes of tables that follow changes of links after a delay.
    ///
    /// # Errors
    /// [`Reason::TooManyTables`] at `rerouting.delay`.
    pub fn new(
        rerouting: &Rerouting,
        changes: &[LinkChange],
        routes: FaultRoutes<'_>,
        duration: Time,
    ) -> Result<Self, SetupError> {
        let mut found = Self { is_given: routes.given.is_some(), ..Self::default() };
        let Some(delay) = rerouting.delay else { return Ok(found) };
        let mut is_down = vec![false; routes.topology.links.len()];
        found.of_state.insert(is_down.clone(), 0);
        let mut current = 0;
        for together in changes.chunk_by(|one, other| one.time == other.time) {
            for change in together {
                is_down[change.link] = !change.state.is_up;
            }
            let time = together[0].time + delay;
            if time >= duration {
                break;
            }
            let number = match found.tables_of(&is_down) {
                Some(number) => number,
                None => found.add(routes, &is_down)?,
            };
            if number != current {
                found.times.push((time, number));
                current = number;
            }
        }
        Ok(found)
    }

    /// Adds the given or computed tables for links that are down. Returns their number, or an error if there
    /// are too many.
    fn add(&mut self, routes: FaultRoutes<'_>, is_down: &[bool]) -> Result<usize, SetupError> {
        let FaultRoutes { topology, tables, given } = routes;
        if self.others.len() == MOST_TABLES {
            return Err(Reason::TooManyTables { most: MOST_TABLES }.at("rerouting.delay"));
        }
        self.others.push(match given {
            Some(given) => {
                Remaining { topology: Remaining::without(topology, is_down), tables: given.clone() }
            }
            None => around(topology, tables, is_down),
        });
        self.of_state.insert(is_down.to_vec(), self.others.len());
        Ok(self.others.len())
    }

    /// The number of the tables for links that are down, if the tables are known. Given tables are those for
    /// any links.
    pub fn tables_of(&self, is_down: &[bool]) -> Option<usize> {
        match self.is_given {
            true => Some(usize::from(is_down.contains(&true))).filter(|&number| number <= self.others.len()),
            false => self.of_state.get(is_down).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silvan_network::routing::{RoutingSpec, analyze};
    use silvan_network::topology::TopologySpec;

    /// Three leaves with four hosts each, and three spines.
    fn tree() -> (Topology, Tables) {
        let spec: TopologySpec = serde_json::from_str(
            r#"{"kind": "two-level-fat-tree", "leaves": 3, "spines": 3, "hosts_per_leaf": 4}"#,
        )
        .unwrap();
        let topology = spec.build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        (topology, tables)
    }

    #[test]
    fn routes_avoid_a_link_that_is_down_and_others_stay() {
        let (topology, tables) = tree();
        // Links of hosts come first.
        let uplink = 12;
        let mut is_down = vec![false; topology.links.len()];
        is_down[uplink] = true;
        let Remaining { topology: remaining, tables: new } = around(&topology, &tables, &is_down);
        let analysis = analyze(&remaining, &new);
        assert_eq!((analysis.unroutable, remaining.links.len()), (0, topology.links.len() - 1));
        let changed =
            |switch: usize| (0..12).filter(|&host| new.out[switch][host] != tables.out[switch][host]).count();
        let lost = topology.links[uplink];
        let lost_port = [lost.a, lost.b]
            .into_iter()
            .find(|end| end.node == silvan_network::topology::NodeRef::Switch(0))
            .unwrap();
        let used = tables.out[0].iter().filter(|&&port| port == lost_port.port).count();
        assert_eq!(changed(0), used, "the leaf of the link moves what used it");
        // The other leaves move their routes to the first leaf through the spine of the link.
        let to_first =
            |switch: usize| (0..4).filter(|&host| new.out[switch][host] != tables.out[switch][host]).count();
        assert!([1, 2].iter().all(|&leaf| changed(leaf) == to_first(leaf) && to_first(leaf) > 0));
        let mut moved: Vec<u16> = (0..12)
            .filter(|&host| tables.out[0][host] == lost_port.port)
            .map(|host| new.out[0][host])
            .collect();
        moved.sort_unstable();
        moved.dedup();
        assert_eq!(moved.len(), 2, "both other spines take some");
    }

    #[test]
    fn tables_return_when_links_do() {
        let (topology, tables) = tree();
        let change = |time, link, is_up| LinkChange {
            time: Time(time),
            link,
            state: crate::link::LinkState { is_up, rate: topology.links[link].rate, loss_ppb: 0 },
        };
        let changes = [
            change(10, 12, false),
            change(10, 13, false),
            change(30, 12, true),
            change(40, 13, true),
            change(90, 12, false),
        ];
        let rerouting = Rerouting { delay: Some(Time(15)), ..Rerouting::default() };
        let of = |given| {
            let routes = FaultRoutes { topology: &topology, tables: &tables, given };
            Reroutes::new(&rerouting, &changes, routes, Time(100)).unwrap()
        };
        let found = of(None);
        assert_eq!(found.times, [(Time(25), 1), (Time(45), 2), (Time(55), 0)]);
        assert_eq!(found.others.len(), 2);
        let given = of(Some(&tables));
        assert_eq!((given.times, given.others.len()), (vec![(Time(25), 1), (Time(55), 0)], 1));
    }
}
