//! Destination-tag routing on unidirectional k-ary n-flies.
//!
//! There is one path for each pair of hosts. At each stage, the output port is one digit of the destination, to the
//! base k. On a butterfly, the lowest digit comes first; on a perfect shuffle, the highest. All switches of a stage
//! have the same table. Packets always move to the next stage, so there is no dependency cycle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RoutingError, Tables};
use crate::topology::{Shape, Topology};

/// Routing by the destination's digits, for `k-ary-n-fly` with `links = "unidirectional"`. No parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestinationTag {}

impl DestinationTag {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated unidirectional k-ary n-fly, or has
    /// other numbers of hosts or switches.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        let Shape::Fly(fly) = topology.shape else {
            let instead = match topology.shape {
                Shape::FatTree(_) | Shape::ShuffledFatTree(_) => "d-mod-k",
                _ if topology.has_one_way_links() => "shortest-path",
                _ => "up-down or shortest-path",
            };
            return Err(RoutingError::Unsuitable(format!(
                "destination-tag: {} is not a generated unidirectional k-ary n-fly; use {instead}",
                topology.name
            )));
        };
        let (hosts, switches) = (topology.hosts.len() as u64, topology.switches.len() as u64);
        if fly.k == 0 || (fly.hosts(), fly.switches()) != (hosts, switches) {
            return Err(RoutingError::Unsuitable(format!(
                "destination-tag: the network has {hosts} hosts and {switches} switches, which are not those of \
                 a {}-ary {}-fly; use shortest-path",
                fly.k, fly.n
            )));
        }
        let mut out = Vec::with_capacity(topology.switches.len());
        for stage in 0..fly.n {
            let table: Vec<u16> = (0..hosts).map(|host| fly.port(stage, host)).collect();
            out.extend(std::iter::repeat_n(table, fly.switches_per_stage() as usize));
        }
        Ok(Tables::new(out))
    }
}

#[cfg(test)]
mod tests {
    use super::super::shortest_path::ShortestPath;
    use super::super::up_down::UpDown;
    use super::super::{RoutingSpec, analyze, deadlock_cycle, trace};
    use super::*;
    use crate::topology::TopologySpec;
    use crate::topology::k_ary_n_fly::KAryNFly;

    fn built(json: &str) -> (Topology, Tables) {
        let topology = serde_json::from_str::<TopologySpec>(json).unwrap().build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        assert_eq!(tables.validate(&topology), Ok(()));
        (topology, tables)
    }

    /// The output ports through which a packet passes.
    fn path(topology: &Topology, tables: &Tables, from: u32, to: u32) -> Vec<String> {
        let path = trace(topology, &topology.wiring(), tables, from, to).unwrap();
        path.channels.iter().map(|c| topology.port_name(c.from)).collect()
    }

    #[test]
    fn every_pair_of_a_unidirectional_fly_has_its_path() {
        for wiring in ["butterfly", "perfect-shuffle"] {
            for (k, n, hosts) in
                [(2u64, 3, 8u64), (2, 5, 32), (2, 6, 64), (2, 7, 128), (3, 2, 9), (4, 3, 64), (5, 1, 5)]
            {
                let json = format!(r#"{{"kind": "k-ary-n-fly", "k": {k}, "n": {n}, "wiring": "{wiring}"}}"#);
                let (topology, tables) = built(&json);
                let analysis = analyze(&topology, &tables);
                assert_eq!(
                    (analysis.pairs, analysis.unroutable),
                    (hosts * (hosts - 1), 0),
                    "{}",
                    topology.name
                );
                let mut hops = vec![0; n + 1];
                hops[n] = hosts * (hosts - 1);
                assert_eq!(analysis.hops, hops, "every path has n switches");
                assert_eq!(deadlock_cycle(&topology, &tables), None);
                // A channel after stage s is on the paths from k^s hosts to k^(n - s) hosts, except those
                // from a host to itself.
                let between = analysis.between_switches;
                assert_eq!(between.channels, (n as u64 - 1) * hosts, "{}", topology.name);
                assert!(between.max <= hosts && (n == 1 || between.min >= hosts - k), "{between:?}");
                assert!(
                    analysis.loads.iter().all(|loads| loads[1] == 0),
                    "no traffic in the reverse direction"
                );
            }
        }
    }

    /// There is only one path for each pair, so both algorithms find it.
    #[test]
    fn fewest_hops_are_the_same_paths() {
        for wiring in ["butterfly", "perfect-shuffle"] {
            let json = format!(r#"{{"kind": "k-ary-n-fly", "k": 3, "n": 3, "wiring": "{wiring}"}}"#);
            let (topology, tables) = built(&json);
            let shortest = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
            assert_eq!(shortest.validate(&topology), Ok(()));
            for (from, to) in (0..27).flat_map(|from| (0..27).map(move |to| (from, to))) {
                assert_eq!(path(&topology, &tables, from, to), path(&topology, &shortest, from, to));
            }
        }
    }

    #[test]
    fn digits_decide_stage_by_stage() {
        // Host 5 is 012 to the base 3.
        let (topology, tables) = built(r#"{"kind": "k-ary-n-fly", "k": 3, "n": 3}"#);
        assert_eq!(path(&topology, &tables, 26, 5), ["H27:1", "S1.9:3", "S2.9:2", "S3.6:1"]);
        let (topology, tables) =
            built(r#"{"kind": "k-ary-n-fly", "k": 3, "n": 3, "wiring": "perfect-shuffle"}"#);
        assert_eq!(path(&topology, &tables, 26, 5), ["H27:1", "S1.9:1", "S2.7:2", "S3.2:3"]);
    }

    /// On the 2-ary 3-fly, hosts 0 and 3, which send to host 7, share an output of the second stage. Packets from
    /// hosts 1 and 2 to host 5 also pass that switch.
    #[test]
    fn two_flows_meet_at_the_second_stage() {
        for links in ["unidirectional", "bidirectional"] {
            let json = format!(r#"{{"kind": "k-ary-n-fly", "k": 2, "n": 3, "links": "{links}"}}"#);
            let (topology, tables) = built(&json);
            let of = |from, to| path(&topology, &tables, from, to);
            let hot = [of(0, 7), of(3, 7)];
            assert_eq!(hot[0][2], hot[1][2], "{links}: the shared output");
            assert_ne!(hot[0][1], hot[1][1], "{links}: the flows arrive over different links");
            for cold in [of(1, 5), of(2, 5)] {
                let switch = |port: &str| port.split(':').next().map(str::to_owned);
                assert_eq!(switch(&cold[2]), switch(&hot[0][2]), "{links}: the shared switch");
                assert_ne!(cold[2], hot[0][2], "{links}: through another output");
            }
        }
    }

    /// The longest path has 2 n - 1 switches (nine in the published 4-ary 5-fly of 512 hosts).
    #[test]
    fn bidirectional_flies_use_turnaround_routing() {
        for wiring in ["butterfly", "perfect-shuffle"] {
            for (k, n, hosts) in
                [(2u64, 3, 8u64), (4, 3, 64), (4, 3, 32), (4, 4, 256), (8, 3, 512), (4, 5, 512), (4, 5, 1024)]
            {
                let json = format!(
                    r#"{{"kind": "k-ary-n-fly", "k": {k}, "n": {n}, "hosts": {hosts}, "links": "bidirectional",
                         "wiring": "{wiring}"}}"#
                );
                let (topology, tables) = built(&json);
                let analysis = analyze(&topology, &tables);
                assert_eq!(
                    (analysis.pairs, analysis.unroutable),
                    (hosts * (hosts - 1), 0),
                    "{}",
                    topology.name
                );
                let mut hops = vec![0; 2 * n];
                let mut below = 1;
                for stage in 1..=n {
                    let reached = if stage == n { hosts } else { below * k };
                    hops[2 * stage - 1] = hosts * (reached - below);
                    below = reached;
                }
                assert_eq!(analysis.hops, hops, "{}", topology.name);
                assert_eq!(deadlock_cycle(&topology, &tables), None);
                let between = analysis.between_switches;
                assert_eq!(between.channels, 2 * (n as u64 - 1) * hosts, "every port is in use");
                assert!(between.min > 0, "{}: {between:?}", topology.name);
            }
        }
    }

    #[test]
    fn unsuitable_networks_are_rejected() {
        let message = |routing: RoutingSpec, topology: &Topology| {
            routing.compute(topology).map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        let tags = || RoutingSpec::DestinationTag(DestinationTag {});
        let (both_ways, _) = built(r#"{"kind": "k-ary-n-fly", "k": 2, "n": 3, "links": "bidirectional"}"#);
        assert_eq!(
            message(tags(), &both_ways),
            "destination-tag: 2-ary 3-fly of 8 hosts, bidirectional, butterfly is not a generated unidirectional \
             k-ary n-fly; use d-mod-k"
        );
        let mut fly = KAryNFly::new(2, 3).build().unwrap();
        assert_eq!(
            message(RoutingSpec::UpDown(UpDown::default()), &fly),
            "up-down: 2-ary 3-fly of 8 hosts, unidirectional, butterfly has unidirectional links, but up*/down* \
             needs both directions; use destination-tag on a k-ary n-fly, or shortest-path"
        );
        fly.switches.push(fly.switches[0].clone());
        fly.switches[12].name = "more".to_owned();
        assert_eq!(message(tags(), &fly), "no path leads from any host to switch more; link it or remove it");
        let other = KAryNFly::new(2, 2).build().unwrap();
        assert_eq!(
            message(tags(), &Topology { shape: fly.shape, ..other }),
            "destination-tag: the network has 4 hosts and 4 switches, which are not those of a 2-ary 3-fly; use \
             shortest-path"
        );
    }

    /// A wrong entry makes only the affected pairs unroutable.
    #[test]
    fn invalid_tables_are_detected_on_unidirectional_links() {
        let (topology, mut tables) = built(r#"{"kind": "k-ary-n-fly", "k": 2, "n": 3}"#);
        tables.out[0][7] = 1;
        let analysis = analyze(&topology, &tables);
        assert_eq!((analysis.pairs, analysis.unroutable), (54, 2), "those of hosts 1 and 2 to host 8");
        assert_eq!(analysis.problems[0], "from H1 to H8: switch S3.3 delivers to host H7 by port 2");
    }
}
