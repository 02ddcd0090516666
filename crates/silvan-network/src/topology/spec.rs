//! Selection of a topology in a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::custom::Custom;
use super::dragonfly::Dragonfly;
use super::dragonfly_plus::DragonflyPlus;
use super::dumbbell::Dumbbell;
use super::grid::{GridSpec, Rows};
use super::k_ary_n_fly::KAryNFly;
use super::k_ary_n_tree::KAryNTree;
use super::modified_tree::ModifiedTree;
use super::pgft::PgftSpec;
use super::star::Star;
use super::three_level::ThreeLevelFatTree;
use super::two_level::{FatTree648, TwoLevelFatTree};
use super::{Topology, TopologyError};

/// A generated topology: its `kind` and the parameters of that kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TopologySpec {
    /// Two switches and a trunk: the testbed of Papers I to III.
    Dumbbell(Dumbbell),
    /// One switch.
    Star(Star),
    /// A parallel-ports generalized fat tree.
    Pgft(PgftSpec),
    /// A k-ary n-tree.
    KAryNTree(KAryNTree),
    /// A k-ary n-fly: a multistage network with unidirectional or bidirectional links.
    KAryNFly(KAryNFly),
    /// A k-ary n-tree with horizontal links, for adaptive routing per flow.
    #[serde(rename = "modified-k-ary-n-tree")]
    ModifiedTree(ModifiedTree),
    /// Leaves and spines.
    TwoLevelFatTree(TwoLevelFatTree),
    /// The 648-port fabric of Paper IV.
    #[serde(rename = "fat-tree-648")]
    FatTree648(FatTree648),
    /// The full three-level fat tree of switches with equal radix.
    ThreeLevelFatTree(ThreeLevelFatTree),
    /// A torus of any number of dimensions.
    Torus(GridSpec),
    /// A mesh of any number of dimensions.
    Mesh(GridSpec),
    /// A `HyperX`, or flattened butterfly: the switches of every row are fully connected.
    #[serde(rename = "hyperx")]
    HyperX(GridSpec),
    /// A dragonfly.
    Dragonfly(Dragonfly),
    /// A dragonfly+: groups of leaves and spines.
    DragonflyPlus(DragonflyPlus),
    /// Lists of hosts, switches and links.
    Custom(Custom),
}

impl TopologySpec {
    /// Builds the network and validates it.
    ///
    /// # Errors
    /// If a parameter is out of range, or the network exceeds the limits or is invalid.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let topology = match self {
            Self::Dumbbell(spec) => spec.build(),
            Self::Star(spec) => spec.build(),
            Self::Pgft(spec) => spec.build(),
            Self::KAryNTree(spec) => spec.build(),
            Self::KAryNFly(spec) => spec.build(),
            Self::ModifiedTree(spec) => spec.build(),
            Self::TwoLevelFatTree(spec) => spec.build(),
            Self::FatTree648(spec) => spec.build(),
            Self::ThreeLevelFatTree(spec) => spec.build(),
            Self::Torus(spec) => spec.build(Rows::Rings),
            Self::Mesh(spec) => spec.build(Rows::Lines),
            Self::HyperX(spec) => spec.build(Rows::Full),
            Self::Dragonfly(spec) => spec.build(),
            Self::DragonflyPlus(spec) => spec.build(),
            Self::Custom(spec) => spec.build(),
        }?;
        topology.validate()?;
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<TopologySpec, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn every_kind_is_read_by_its_name() {
        for (json, hosts) in [
            (r#"{"kind": "dumbbell"}"#, 7),
            (r#"{"kind": "star", "hosts": 5}"#, 5),
            (r#"{"kind": "pgft", "m": [2, 2], "w": [1, 2]}"#, 4),
            (r#"{"kind": "k-ary-n-tree", "k": 2, "n": 3, "link_rate": "32 Gbit/s"}"#, 8),
            (r#"{"kind": "k-ary-n-fly", "k": 2, "n": 4, "wiring": "perfect-shuffle"}"#, 16),
            (r#"{"kind": "modified-k-ary-n-tree", "k": 2, "n": 3, "horizontal_width": 1}"#, 8),
            (r#"{"kind": "two-level-fat-tree", "leaves": 3, "spines": 2, "hosts_per_leaf": 4}"#, 12),
            (r#"{"kind": "fat-tree-648", "link_delay": "10 ns"}"#, 648),
            (r#"{"kind": "three-level-fat-tree", "radix": 4}"#, 16),
            (r#"{"kind": "torus", "sizes": [4, 4, 4]}"#, 64),
            (r#"{"kind": "mesh", "sizes": [3, 2], "hosts_per_switch": 2}"#, 12),
            (r#"{"kind": "hyperx", "sizes": [4, 4], "link_delay": "10 ns"}"#, 16),
            (r#"{"kind": "dragonfly", "p": 2, "a": 4, "h": 2}"#, 72),
            (r#"{"kind": "dragonfly", "p": 1, "a": 4, "h": 2, "g": 5, "arrangement": "relative"}"#, 20),
            (r#"{"kind": "dragonfly-plus", "p": 2, "leaves": 2, "spines": 2, "h": 2}"#, 20),
            (
                r#"{"kind": "custom", "hosts": ["A", "B"], "switches": [{"name": "S"}],
                    "links": [{"from": "A", "to": "S"}, {"from": "B", "to": "S:2"}]}"#,
                2,
            ),
        ] {
            let spec = read(json).unwrap();
            assert_eq!(spec.build().unwrap().hosts.len(), hosts, "{json}");
            let written = serde_json::to_string(&spec).unwrap();
            assert_eq!(read(&written), Ok(spec), "a written specification is read back");
        }
    }

    #[test]
    fn unknown_keys_are_rejected() {
        let error = read(r#"{"kind": "star", "host": 5}"#).unwrap_err();
        assert_eq!(error, "unknown field `host`, expected one of `hosts`, `link_rate`, `link_delay`");
        assert!(read(r#"{"kind": "fat-tree-648", "radix": 5}"#).is_err());
        assert!(read(r#"{"kind": "cube"}"#).unwrap_err().contains("unknown variant `cube`"));
    }
}
