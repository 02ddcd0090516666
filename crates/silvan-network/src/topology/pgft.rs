//! Parallel-ports generalized fat trees, PGFT(h; m; w; p), defined by Zahavi (2010). The family includes
//! k-ary n-trees, XGFTs and most commercial fat trees.
//!
//! ```text
//!   level 2      L2.1     L2.2          w[1] = 2 parents of every level-1 node,
//!                |||\\   //|||          p[1] = 2 parallel links to each
//!                ||| \\ // |||
//!   level 1      L1.1     L1.2          m[1] = 2 children of every level-2 node
//!               / |  \   / |  \
//!   level 0    H1 H2 H3 H4 H5 H6        m[0] = 3 hosts per leaf switch
//! ```
//!
//! # Numbering
//! A node of level `l` is identified by digits: `b_1 .. b_l` select among the `w` parents at each level, and `a_(l+1)
//! .. a_h` select among the `m` children at the levels above. Its index within the level is the mixed-radix number with
//! `b_1` as its lowest digit, then `b_2` to `b_l`, then `a_(l+1)` to `a_h`. Hosts are therefore numbered left to right,
//! and the switches of a subtree are neighbors. [`Topology::switches`] contains all switches of level 1 first, then
//! level 2 and so on; [`Pgft::first_switch`] returns the start of a level. Switch `i` (from 1) of level `l` is named
//! `L<l>.<i>`.
//!
//! Nodes of adjacent levels are connected if all their common digits are equal. On a switch of level `l`,
//! the ports `1 + a + r * m_l` lead down to child `a` over parallel link `r` (`1 ..= m_l * p_l` in total),
//! and the following ports, `1 + m_l * p_l + b + r * w_(l+1)`, lead up to parent `b` over parallel link
//! `r`. Routing relies on this numbering.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, check_size, default_link_delay, default_link_rate, host_end, numbered_hosts,
    switch, switch_end, within,
};
use super::{Link, MAX_FCFS_PORTS, Shape, Topology, TopologyError};

const KIND: &str = "pgft";

/// Maximum number of levels of switches.
pub const MAX_LEVELS: usize = 16;

/// The parameters of a parallel-ports generalized fat tree PGFT(h; m; w; p) (Zahavi 2010).
///
/// Level 0 contains the hosts. A node of level `l` has `m[l-1]` children below and `w[l]` parents above, and
/// `p[l]` parallel links to each parent. The [module](self) describes the numbering of nodes and ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgft {
    /// Children of a node per level, `m[0]` = hosts per leaf switch.
    pub m: Vec<u16>,
    /// Parents of a node per level, `w[0]` = leaf switches per host (1).
    pub w: Vec<u16>,
    /// Parallel links between a node and each parent, `p[0]` = 1.
    pub p: Vec<u16>,
}

fn product(factors: &[u16]) -> u64 {
    factors.iter().fold(1, |all: u64, &f| all.saturating_mul(u64::from(f)))
}

impl Pgft {
    /// Whether each list has one entry per level and no entry is 0, which the other methods require.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let levels = self.m.len();
        [&self.m, &self.w, &self.p].iter().all(|list| list.len() == levels && !list.contains(&0))
    }

    /// Number of levels of switches.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.m.len()
    }

    /// Number of hosts below one switch of a level (1 = leaf). For the last level, this is the number of all hosts.
    #[must_use]
    pub fn hosts_below(&self, level: usize) -> u64 {
        product(&self.m[..level])
    }

    /// The product of `w` up to `level`, which is the number of nodes of that level that reach the same hosts.
    #[must_use]
    pub fn siblings(&self, level: usize) -> u64 {
        product(&self.w[..level])
    }

    /// Number of nodes of a level; level 0 contains the hosts.
    #[must_use]
    pub fn nodes_at(&self, level: usize) -> u64 {
        product(&self.w[..level]).saturating_mul(product(&self.m[level..]))
    }

    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u64 {
        self.nodes_at(0)
    }

    /// Number of switches.
    #[must_use]
    pub fn switches(&self) -> u64 {
        (1..=self.levels()).fold(0, |sum: u64, level| sum.saturating_add(self.nodes_at(level)))
    }

    /// Number of links, including those of the hosts.
    #[must_use]
    pub fn links(&self) -> u64 {
        (0..self.levels()).fold(0, |sum: u64, level| {
            let up = u64::from(self.w[level]) * u64::from(self.p[level]);
            sum.saturating_add(self.nodes_at(level).saturating_mul(up))
        })
    }

    /// Index into [`Topology::switches`] of the first switch of a level (from 1).
    #[must_use]
    pub fn first_switch(&self, level: usize) -> u64 {
        (1..level).fold(0, |sum: u64, below| sum.saturating_add(self.nodes_at(below)))
    }

    /// Number of ports of a switch of `level` (from 1) that lead towards the hosts.
    #[must_use]
    pub fn down_ports(&self, level: usize) -> u32 {
        u32::from(self.m[level - 1]) * u32::from(self.p[level - 1])
    }

    /// Number of ports of a switch of `level` (from 1) that lead away from the hosts; 0 at the top.
    #[must_use]
    pub fn up_ports(&self, level: usize) -> u32 {
        if level == self.levels() { 0 } else { u32::from(self.w[level]) * u32::from(self.p[level]) }
    }

    /// Builds the tree with equal links. `labels` describes the user's input for messages, and names the topology.
    pub(super) fn wire(self, labels: Labels<'_>, rate: Rate, delay: Time) -> Result<Topology, TopologyError> {
        let levels =
            vec![LevelLinks { rate: ("link_rate", rate), delay: ("link_delay", delay) }; self.levels()];
        self.wire_levels(labels, &levels)
    }

    /// Same as [`Self::wire`], with the links of each level, starting at the hosts.
    pub(super) fn wire_levels(
        self,
        labels: Labels<'_>,
        levels: &[LevelLinks],
    ) -> Result<Topology, TopologyError> {
        let Labels { kind, parameters, name, most_ports } = labels;
        for LevelLinks { rate, delay } in levels {
            check_rate(kind, rate.0, rate.1)?;
            check_delay(kind, delay.0, delay.1)?;
        }
        check_size(kind, parameters, [self.hosts(), self.switches(), self.links()])?;
        let mut switches = Vec::new();
        for level in 1..=self.levels() {
            let ports = self.down_ports(level) + self.up_ports(level);
            let Some(ports) = u16::try_from(ports).ok().filter(|&p| p <= most_ports) else {
                return Err(TopologyError(format!(
                    "{kind}: {parameters} make switches of {ports} ports at level {level}; at most \
                     {most_ports} are possible"
                )));
            };
            switches.extend((1..=self.nodes_at(level)).map(|i| switch(format!("L{level}.{i}"), ports)));
        }
        Ok(Topology {
            name: name.to_owned(),
            hosts: numbered_hosts(self.hosts()),
            switches,
            links: self.all_links(levels),
            units: 0,
            machines: Vec::new(),
            shape: Shape::FatTree(self),
        })
    }

    /// The links level by level, starting at the hosts. Within a level, they are ordered from left to right and by up
    /// port.
    fn all_links(&self, levels: &[LevelLinks]) -> Vec<Link> {
        let mut links = Vec::new();
        for (level, LevelLinks { rate: (_, rate), delay: (_, delay) }) in (1..).zip(levels.iter().copied()) {
            let (m, w) = (u64::from(self.m[level - 1]), u64::from(self.w[level - 1]));
            let ups = w * u64::from(self.p[level - 1]);
            let siblings = self.siblings(level - 1);
            for child in 0..self.nodes_at(level - 1) {
                let (low, rest) = (child % siblings, child / siblings);
                let (a, high) = (rest % m, rest / m);
                for up in 0..ups {
                    let (b, r) = (up % w, up / w);
                    let parent = low + siblings * (b + w * high);
                    let lower = if level == 1 {
                        host_end(child as u32)
                    } else {
                        let port = u64::from(self.down_ports(level - 1)) + up + 1;
                        switch_end((self.first_switch(level - 1) + child) as u32, port as u16)
                    };
                    let upper =
                        switch_end((self.first_switch(level) + parent) as u32, (1 + a + r * m) as u16);
                    links.push(Link { a: lower, b: upper, rate, delay, one_way: false });
                }
            }
        }
        links
    }
}

impl fmt::Display for Pgft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |v: &[u16]| v.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        write!(f, "PGFT({}; {}; {}; {})", self.levels(), list(&self.m), list(&self.w), list(&self.p))
    }
}

/// The links between two levels, with the names of the parameters that determine them.
#[derive(Debug, Clone, Copy)]
pub(super) struct LevelLinks {
    pub rate: (&'static str, Rate),
    pub delay: (&'static str, Time),
}

impl LevelLinks {
    /// These links with another rate or delay, if given.
    pub fn or_else(self, rate: (&'static str, Option<Rate>), delay: (&'static str, Option<Time>)) -> Self {
        Self {
            rate: rate.1.map_or(self.rate, |own| (rate.0, own)),
            delay: delay.1.map_or(self.delay, |own| (delay.0, own)),
        }
    }
}

/// Names of a tree in messages and reports.
pub(super) struct Labels<'a> {
    /// The generator.
    pub kind: &'a str,
    /// The generator's parameters with their values.
    pub parameters: &'a str,
    /// The topology's name.
    pub name: &'a str,
    /// The largest number of ports of a switch.
    pub most_ports: u16,
}

/// A parallel-ports generalized fat tree; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PgftSpec {
    /// Children of a node per level, from the leaf switches up: the first entry is the number of hosts per
    /// leaf switch. One entry per level of switches, 1 to 16.
    pub m: Vec<u32>,
    /// Parents of a node per level, from the hosts up; the first entry is 1 (a host has one link).
    pub w: Vec<u32>,
    /// Parallel links between a node and each parent, per level, from the hosts up; the first entry is 1.
    /// Default: all 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<Vec<u32>>,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
    /// Data rates of the links below each level of switches, one entry per level, starting with the links of
    /// the hosts. Default: `link_rate` for all levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_rates: Option<Vec<Rate>>,
    /// Propagation delays of the links below each level of switches, one entry per level, starting with the
    /// links of the hosts. Default: `link_delay` for all levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_delays: Option<Vec<Time>>,
}

impl PgftSpec {
    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, the lists have different lengths, or the tree exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let levels = self.m.len();
        if levels == 0 || levels > MAX_LEVELS {
            return Err(TopologyError(format!(
                "{KIND}: `m` has {levels} entries; it must have 1 to {MAX_LEVELS}, one per level of switches"
            )));
        }
        let p = self.p.clone().unwrap_or_else(|| vec![1; levels]);
        let shape = Pgft {
            m: small("m", &self.m, levels)?,
            w: small("w", &self.w, levels)?,
            p: small("p", &p, levels)?,
        };
        for (name, first) in [("w", shape.w[0]), ("p", shape.p[0])] {
            if first != 1 {
                return Err(TopologyError(format!(
                    "{KIND}: `{name}[0]` = {first} gives a host several links; it must be 1"
                )));
            }
        }
        let name = shape.to_string();
        let parameters = format!("`m` = {:?}, `w` = {:?}, `p` = {p:?}", self.m, self.w);
        let given = [
            ("level_rates", self.level_rates.as_ref().map(Vec::len)),
            ("level_delays", self.level_delays.as_ref().map(Vec::len)),
        ];
        for (name, count) in given {
            if let Some(count) = count.filter(|&count| count != levels) {
                return Err(TopologyError(format!(
                    "{KIND}: `{name}` has {count} entries; it must have {levels}, one per level of switches"
                )));
            }
        }
        let link = |level: usize| LevelLinks {
            rate: match &self.level_rates {
                Some(rates) => ("level_rates", rates[level]),
                None => ("link_rate", self.link_rate),
            },
            delay: match &self.level_delays {
                Some(delays) => ("level_delays", delays[level]),
                None => ("link_delay", self.link_delay),
            },
        };
        let links: Vec<LevelLinks> = (0..levels).map(link).collect();
        shape.wire_levels(
            Labels { kind: KIND, parameters: &parameters, name: &name, most_ports: MAX_FCFS_PORTS },
            &links,
        )
    }
}

/// Checks a list with one entry per level, each a valid number of ports.
fn small(name: &str, values: &[u32], levels: usize) -> Result<Vec<u16>, TopologyError> {
    if values.len() != levels {
        return Err(TopologyError(format!(
            "{KIND}: `{name}` has {} entries and `m` has {levels}; both must have one per level of switches",
            values.len()
        )));
    }
    let entry = |(i, &v): (usize, &u32)| within(KIND, &format!("{name}[{i}]"), v, 1, MAX_FCFS_PORTS);
    values.iter().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(m: &[u32], w: &[u32], p: &[u32]) -> PgftSpec {
        PgftSpec {
            m: m.to_vec(),
            w: w.to_vec(),
            p: Some(p.to_vec()),
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
            level_rates: None,
            level_delays: None,
        }
    }

    #[test]
    fn levels_may_have_links_of_their_own() {
        let gbit = Rate::from_gbit;
        let mut tree = spec(&[3, 2, 2], &[1, 2, 1], &[1, 1, 1]);
        tree.level_rates = Some(vec![gbit(100), gbit(400), gbit(800)]);
        tree.level_delays = Some([10, 20, 30].map(Time::from_ns).to_vec());
        let built = tree.build().unwrap();
        let links: Vec<_> = built.links.iter().map(|link| (link.rate, link.delay)).collect();
        let of = |rate, delay| (gbit(rate), Time::from_ns(delay));
        let expected = [vec![of(100, 10); 12], vec![of(400, 20); 8], vec![of(800, 30); 4]].concat();
        assert_eq!(links, expected);
        tree.level_rates = Some(vec![gbit(100)]);
        assert_eq!(
            tree.build().unwrap_err().to_string(),
            "pgft: `level_rates` has 1 entries; it must have 3, one per level of switches"
        );
        tree.level_rates = Some(vec![gbit(100), Rate(0), gbit(1)]);
        assert_eq!(
            tree.build().unwrap_err().to_string(),
            "pgft: `level_rates` = 0 bit/s carries no data; it must be more than 0, for example \"16 Gbit/s\""
        );
    }

    #[test]
    fn the_tree_of_the_drawing_is_connected_as_documented() {
        let built = spec(&[3, 2], &[1, 2], &[1, 2]).build().unwrap();
        built.validate().unwrap();
        assert_eq!(built.name, "PGFT(2; 3,2; 1,2; 1,2)");
        let wired: Vec<String> = built
            .links
            .iter()
            .skip(3)
            .map(|l| format!("{} {}", built.port_name(l.a), built.port_name(l.b)))
            .collect();
        assert_eq!(
            wired,
            [
                "H4:1 L1.2:1",
                "H5:1 L1.2:2",
                "H6:1 L1.2:3",
                "L1.1:4 L2.1:1",
                "L1.1:5 L2.2:1",
                "L1.1:6 L2.1:3",
                "L1.1:7 L2.2:3",
                "L1.2:4 L2.1:2",
                "L1.2:5 L2.2:2",
                "L1.2:6 L2.1:4",
                "L1.2:7 L2.2:4",
            ]
        );
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |m: &[u32], w: &[u32], p: &[u32]| {
            spec(m, w, p).build().map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(
            message(&[], &[], &[]),
            "pgft: `m` has 0 entries; it must have 1 to 16, one per level of switches"
        );
        assert_eq!(
            message(&[4, 4], &[1], &[1, 1]),
            "pgft: `w` has 1 entries and `m` has 2; both must have one per level of switches"
        );
        assert_eq!(
            message(&[4, 0], &[1, 4], &[1, 1]),
            "pgft: `m[1]` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(&[4, 4], &[2, 4], &[1, 1]),
            "pgft: `w[0]` = 2 gives a host several links; it must be 1"
        );
        assert_eq!(
            message(&[250, 250, 250], &[1, 1, 1], &[1, 1, 1]),
            "pgft: `m` = [250, 250, 250], `w` = [1, 1, 1], `p` = [1, 1, 1] make more than 200000 hosts, which is \
             the maximum; choose smaller values"
        );
        assert_eq!(
            message(&[250; 16], &[1; 16], &[1; 16])
                .split_once("make")
                .map(|(_, end)| end.to_owned())
                .as_deref(),
            Some(" more than 200000 hosts, which is the maximum; choose smaller values"),
            "overflowing products are still detected"
        );
        assert_eq!(
            message(&[2, 2], &[1, 600], &[1, 2]),
            "pgft: `m` = [2, 2], `w` = [1, 600], `p` = [1, 2] make switches of 1202 ports at level 1; at \
             most 1024 are possible"
        );
    }
}
