//! Converts a topology to a [`Problem`] with one link per channel. The injection and drain rates of hosts limit the
//! capacities of their links.

use silvan_engine::Rate;

use super::{FluidError, Problem};
use crate::routing::{Tables, trace};
use crate::topology::{NodeRef, Topology, Wiring};

/// Rate limits of each host, in addition to the rate of its link. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostRates {
    /// Maximum rate at which a host sends.
    pub injection: Option<Rate>,
    /// Maximum rate at which a host receives.
    pub drain: Option<Rate>,
}

/// A topology with its tables, to which flows between hosts can be added. Link `2 n` of the problem is the
/// channel from `a` to `b` of link `n` of the topology, and link `2 n + 1` is the opposite channel, which no
/// route uses if the link is unidirectional.
pub struct FluidNetwork<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    wiring: Wiring,
    host: HostRates,
}

/// The rate at which a host sends or drains.
#[derive(Debug, Clone, Copy)]
struct HostLimit {
    rate: Rate,
    /// "injection of" or "drain of".
    what: &'static str,
    host: NodeRef,
}

impl<'a> FluidNetwork<'a> {
    /// Creates the problem without flows. A link from or to a host carries at most the injection or drain
    /// rate of the host.
    ///
    /// # Errors
    /// If the capacity of a link is zero.
    pub fn new(
        topology: &'a Topology,
        tables: &'a Tables,
        host: HostRates,
    ) -> Result<(Self, Problem), FluidError> {
        let network = Self { topology, tables, wiring: topology.wiring(), host };
        let mut problem = Problem::default();
        for link in 0..2 * topology.links.len() {
            problem.add_link(network.capacity(link).0 as f64)?;
        }
        Ok((network, problem))
    }

    fn ends(&self, link: usize) -> (crate::topology::End, crate::topology::End) {
        let wire = &self.topology.links[link / 2];
        if link.is_multiple_of(2) { (wire.a, wire.b) } else { (wire.b, wire.a) }
    }

    /// The lowest limit of a host on a link of the problem, with its name and host, if it is below the link's
    /// rate.
    fn limit(&self, link: usize) -> Option<HostLimit> {
        let (from, to) = self.ends(link);
        let sends = self.host.injection.map(|rate| HostLimit { rate, what: "injection of", host: from.node });
        let drains = self.host.drain.map(|rate| HostLimit { rate, what: "drain of", host: to.node });
        let limits = [sends, drains].into_iter().flatten();
        let of_host = limits.filter(|limit| matches!(limit.host, NodeRef::Host(_)));
        let lower = of_host.filter(|limit| limit.rate < self.topology.links[link / 2].rate);
        lower.min_by_key(|limit| limit.rate)
    }

    fn capacity(&self, link: usize) -> Rate {
        self.limit(link).map_or(self.topology.links[link / 2].rate, |limit| limit.rate)
    }

    /// The name of a link of the problem: "S1:4 -> S2:1", or "injection of H1" or "drain of H5" if the rate
    /// of the host is the limit. For a link that does not exist, only "link" and its number.
    #[must_use]
    pub fn link_name(&self, link: u32) -> String {
        let link = link as usize;
        if link / 2 >= self.topology.links.len() {
            return format!("link {link}");
        }
        if let Some(HostLimit { what, host, .. }) = self.limit(link) {
            return format!("{what} {}", self.topology.name_of(host));
        }
        let (from, to) = self.ends(link);
        let name = |end: crate::topology::End| match end.node {
            NodeRef::Host(_) => self.topology.name_of(end.node).to_owned(),
            NodeRef::Switch(_) => self.topology.port_name(end),
        };
        format!("{} -> {}", name(from), name(to))
    }

    /// The links of the problem on the route between two hosts, in order.
    ///
    /// # Errors
    /// Same as [`trace`].
    pub fn route(&self, from: u32, to: u32) -> Result<Vec<u32>, FluidError> {
        let path = trace(self.topology, &self.wiring, self.tables, from, to)
            .map_err(|error| FluidError(error.to_string()))?;
        let number = |channel: &crate::routing::Channel| {
            let back = self.topology.links[channel.link].a != channel.from;
            (2 * channel.link + usize::from(back)) as u32
        };
        Ok(path.channels.iter().map(number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::close;
    use super::super::{max_min, saa, uncontrolled};
    use super::*;
    use crate::routing::RoutingSpec;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;

    /// Rates without control and the names of the limiting links. Rates are relative to the drain rate, or to
    /// the rate of the first link if there is no drain rate.
    fn shares(topology: &Topology, host: HostRates, pairs: &[(u32, u32)]) -> (Vec<f64>, Vec<String>) {
        let tables = RoutingSpec::suitable(topology).compute(topology).unwrap();
        let (network, mut problem) = FluidNetwork::new(topology, &tables, host).unwrap();
        for &(from, to) in pairs {
            problem.add_flow(&network.route(from, to).unwrap(), 1.0, None).unwrap();
        }
        let found = uncontrolled(&problem, &problem.all()).unwrap();
        let rate = host.drain.unwrap_or(topology.links[0].rate).0 as f64;
        let names = found.bottlenecks.iter().map(|link| network.link_name(link.unwrap())).collect();
        (found.rates.iter().map(|share| share / rate).collect(), names)
    }

    fn all_close(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(&a, &b)| close(a, b))
    }

    #[test]
    fn parking_lot_on_the_testbed() {
        // In Paper I, F1 leads from H1 to H4, and F2 to F5 lead from H2, H3, H6 and H7 to H5, which drains 13 of 16
        // Gbit/s.
        let testbed = Dumbbell { link_rate: Rate::from_gbit(16), ..Dumbbell::default() }.build().unwrap();
        let host = HostRates { drain: Some(Rate::from_gbit(13)), injection: None };
        let pairs = [(0, 3), (1, 4), (2, 4), (5, 4), (6, 4)];
        let (found, names) = shares(&testbed, host, &pairs);
        let (sixth, third) = (1.0 / 6.0, 1.0 / 3.0);
        assert!(all_close(&found, &[sixth, sixth, sixth, third, third]), "{found:?}");
        assert!(names.iter().all(|name| name == "drain of H5"), "{names:?}");
    }

    #[test]
    fn a_victim_gets_the_same_share_as_the_contributor_next_to_it() {
        // In the thesis, 2.2, the link between the switches is twice as fast, H2, H6 and H7 send to H5, and H1
        // sends to H4.
        let (rate, trunk_rate) = (Rate::from_gbit(16), Rate::from_gbit(32));
        let testbed = Dumbbell { link_rate: rate, trunk_rate: Some(trunk_rate), ..Dumbbell::default() };
        let (found, names) =
            shares(&testbed.build().unwrap(), HostRates::default(), &[(0, 3), (1, 4), (5, 4), (6, 4)]);
        assert!(all_close(&found, &[1.0 / 3.0; 4]), "{found:?}");
        assert!(names.iter().all(|name| name == "S2:2 -> H5"), "{names:?}");
    }

    #[test]
    fn all_to_one_on_trees_starves_the_farthest_by_the_law() {
        for (k, n) in [(2_u32, 2_u32), (2, 3), (4, 3), (3, 3)] {
            let topology = KAryNTree::new(k, n).build().unwrap();
            let hosts = topology.hosts.len() as u32;
            let pairs: Vec<(u32, u32)> = (1..hosts).map(|from| (from, 0)).collect();
            let (found, _) = shares(&topology, HostRates::default(), &pairs);
            // Paper II, section V: 1/(k^(2n-1) - k^(2n-2)).
            let law = 1.0 / f64::from(k.pow(2 * n - 1) - k.pow(2 * n - 2));
            let far = &found[(k.pow(n - 1) - 1) as usize..];
            assert!(far.iter().all(|&share| close(share, law)), "{k}-ary {n}-tree: {far:?}, not {law}");
            assert!(close(found.iter().sum(), 1.0), "{k}-ary {n}-tree");
            assert!(close(found[0], 1.0 / f64::from(k)), "a neighbor has its own port at the last switch");
        }
    }

    #[test]
    fn several_permutations_on_a_tree_of_512() {
        let topology = KAryNTree::new(8, 3).build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        let (network, mut problem) = FluidNetwork::new(&topology, &tables, HostRates::default()).unwrap();
        for (from, by) in (0..512).flat_map(|from| [(from, 65), (from, 130), (from, 333)]) {
            problem.add_flow(&network.route(from, (from + by) % 512).unwrap(), 1.0, None).unwrap();
        }
        // D-mod-K routes a shift at full rate, so each of three simultaneous shifts gets a third.
        let third = topology.links[0].rate.0 as f64 / 3.0;
        let all = problem.all();
        for rates in [
            max_min(&problem, &all).rates,
            saa(&problem, &all).rates,
            uncontrolled(&problem, &all).unwrap().rates,
        ] {
            assert!(rates.iter().all(|&rate| close(rate, third)));
        }
    }

    #[test]
    fn missing_routes_are_reported_by_name() {
        let testbed = Dumbbell::default().build().unwrap();
        let tables = Tables::empty(&testbed);
        let (network, _) = FluidNetwork::new(&testbed, &tables, HostRates::default()).unwrap();
        let message = network.route(0, 4).err().map(|e| e.0).unwrap_or_default();
        assert_eq!(message, "from H1 to H5: switch S1 has no route to H5");
        assert!(network.route(0, 99).is_err());
    }
}
