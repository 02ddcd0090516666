//! k-ary n-flies: multistage networks of n stages of switches with k ports on each side. Several papers on
//! marking and validation use them.
//!
//! ```text
//!           one-way, butterfly            bidirectional, butterfly
//!   H1 ->-+      +-->--+      +-->- H1    H1 --+      +-----+
//!         | S1.1 |     | S2.1 | ..             | S1.1 |     | S2.1
//!   H2 ->-+      +-\ />+      +-->- H3    H2 --+      +-\ /-+
//!                   X                                    X
//!   H3 ->-+      +-/ \>+      +-->- H2    H3 --+      +-/ \-+
//!         | S1.2 |     | S2.2 | ..             | S1.2 |     | S2.2
//!   H4 ->-+      +-->--+      +-->- H4    H4 --+      +-----+
//! ```
//!
//! Both networks in the figure are 2-ary 2-flies. With unidirectional links, a host sends to the first stage and
//! receives from the last one. Every path has n switches, and there is one path for each pair of hosts. With
//! bidirectional links, all hosts are at the first stage. A packet goes forward as far as necessary and then back
//! (turnaround), through 1, 3, .. 2 n - 1 switches.
//!
//! # Numbering
//! In this description, hosts are counted from 0, and a number has n digits to the base k, `x_(n-1) .. x_0`. Consider
//! k^n lines that pass through all stages. [`Topology::switches`] contains stage after stage; switch `i` of stage `s`
//! is named `S<s>.<i>`, where both count from 1. With unidirectional links, port `p` of a switch receives from the
//! previous stage (or a host) and sends to the next one (or a host).
//!
//! | wiring | a switch of stage `s` (from 0) connects | its number | port - 1 | routed by |
//! | --- | --- | --- | --- | --- |
//! | butterfly | lines that differ in digit `s` only | the line without that digit | digit `s` | digit `s` |
//! | perfect shuffle | lines that differ in digit 0, after a shuffle | the line without digit 0 | digit 0 | digit `n - 1 - s` |
//!
//! In a butterfly (as in the fast Fourier transform, with the shortest strides first), the hosts on either side are
//! connected to the lines with the same numbers. A perfect shuffle moves the highest digit to the lowest position
//! before every stage (an omega network). The two networks are isomorphic, but different hosts share a switch.
//!
//! The bidirectional network is the unidirectional one with a reverse channel added to every link and
//! without the hosts of the far side. It is the tree PGFT(n; k,..,k; 1,k,..,k; 1,..,1), routed by D-mod-K,
//! which uses the same digits in the forward direction. The ports 1 ..= k of its switches lead towards the
//! hosts, as in [`super::pgft`]. With a perfect shuffle, the hosts and switches of that tree have other
//! numbers: host `x_(n-1) .. x_0` of the shuffle is host `x_0 .. x_(n-1)` of the butterfly.
//!
//! # Other numbers of hosts
//! Bidirectional networks of at least two stages may have k^(n-1) r hosts, where r > 1 divides k. The highest
//! digit of the butterfly then has only r values. So that every port is used, a switch of the last stage is
//! connected to each of r switches of the previous stage by k / r parallel links. A perfect shuffle of the
//! same number of lines gives the same network, except that other switches of a subtree share a switch of the
//! last stage. The published 4-ary 5-fly has 512 = 4^4 * 2 hosts, with 128 switches per stage, 640 in total,
//! and up to 9 on a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, check_size, default_link_delay, default_link_rate, host_end, numbered_hosts,
    switch, switch_end, within,
};
use super::pgft::{Labels, MAX_LEVELS, Pgft};
use super::{End, Link, MAX_FCFS_PORTS, NodeRef, Shape, Topology, TopologyError};

const KIND: &str = "k-ary-n-fly";

/// A k-ary n-fly; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KAryNFly {
    /// Ports on each side of a switch, 2 to 512.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 2, max = 512))]
    pub k: u32,
    /// Number of stages, 1 to 16.
    #[schemars(range(min = 1, max = 16))]
    pub n: u32,
    /// Whether links are unidirectional, from stage to stage, or bidirectional.
    #[serde(default)]
    pub links: Ways,
    /// How the stages are connected.
    #[serde(default)]
    pub wiring: Wires,
    /// Number of hosts. Default: k^n. A bidirectional network of at least two stages can also have k^(n-1)
    /// times another divisor of k greater than 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
}

/// The direction of a fly's links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// Hosts send to the first stage and receive from the last one.
    #[default]
    Unidirectional,
    /// All hosts are at the first stage; packets turn around at the first possible stage.
    Bidirectional,
}

/// How the stages of a fly are connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wires {
    /// Each stage exchanges another digit of the line number, the lowest one first.
    #[default]
    Butterfly,
    /// The same perfect shuffle precedes every stage.
    PerfectShuffle,
}

impl Wires {
    fn as_str(self) -> &'static str {
        match self {
            Self::Butterfly => "butterfly",
            Self::PerfectShuffle => "perfect shuffle",
        }
    }
}

/// The shape of a fly with unidirectional links. The [module](self) describes the numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fly {
    /// Ports on each side of a switch, at least 1.
    pub k: u16,
    /// Number of stages.
    pub n: u32,
    /// How the stages are connected.
    pub wiring: Wires,
}

impl Fly {
    /// k^`digits`, saturating at the largest value of the type.
    fn power(self, digits: u32) -> u64 {
        u64::from(self.k).saturating_pow(digits)
    }

    /// Number of hosts.
    #[must_use]
    pub fn hosts(self) -> u64 {
        self.power(self.n)
    }

    /// Number of switches per stage.
    #[must_use]
    pub fn switches_per_stage(self) -> u64 {
        self.power(self.n.saturating_sub(1))
    }

    /// Number of switches.
    #[must_use]
    pub fn switches(self) -> u64 {
        self.switches_per_stage().saturating_mul(u64::from(self.n))
    }

    /// The output port (from 1) through which all switches of a stage (from 0) send to a host: digit
    /// `stage` of the destination in a butterfly, digit `n - 1 - stage` in a perfect shuffle.
    #[must_use]
    pub fn port(self, stage: u32, host: u64) -> u16 {
        let digit = match self.wiring {
            Wires::Butterfly => stage,
            Wires::PerfectShuffle => self.n.saturating_sub(1).saturating_sub(stage),
        };
        (host / self.power(digit) % u64::from(self.k)) as u16 + 1
    }

    /// The switch (within its stage) and the port (from 0) of a line at the inputs or outputs of a stage.
    fn place(self, stage: u32, line: u64) -> (u64, u64) {
        let k = u64::from(self.k);
        match self.wiring {
            Wires::Butterfly => {
                let low = self.power(stage);
                (line / (low * k) * low + line % low, line / low % k)
            }
            Wires::PerfectShuffle => (line / k, line % k),
        }
    }

    /// The line at the inputs of the next stage to which a line at the outputs of a stage or of the hosts
    /// leads.
    fn next_line(self, line: u64) -> u64 {
        match self.wiring {
            Wires::Butterfly => line,
            Wires::PerfectShuffle => {
                let high = self.switches_per_stage();
                line % high * u64::from(self.k) + line / high
            }
        }
    }

    /// The end of a link for a line at the inputs or outputs of a stage.
    fn end(self, stage: u32, line: u64) -> End {
        let (switch, port) = self.place(stage, line);
        switch_end((u64::from(stage) * self.switches_per_stage() + switch) as u32, port as u16 + 1)
    }

    /// The links stage by stage, starting at the hosts. The links of a stage are ordered by the line at which
    /// they start.
    fn links(self, rate: Rate, delay: Time) -> Vec<Link> {
        let mut links = Vec::new();
        let mut push = |a, b| links.push(Link { a, b, rate, delay, one_way: true });
        for line in 0..self.hosts() {
            push(host_end(line as u32), self.end(0, self.next_line(line)));
        }
        for stage in 1..self.n {
            for line in 0..self.hosts() {
                push(self.end(stage - 1, line), self.end(stage, self.next_line(line)));
            }
        }
        for line in 0..self.hosts() {
            push(self.end(self.n - 1, line), host_end(line as u32));
        }
        links
    }
}

impl KAryNFly {
    /// A unidirectional butterfly with the default link.
    #[must_use]
    pub fn new(k: u32, n: u32) -> Self {
        Self {
            k,
            n,
            links: Ways::default(),
            wiring: Wires::default(),
            hosts: None,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the network exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let k = within(KIND, "k", self.k, 2, MAX_FCFS_PORTS / 2)?;
        within(KIND, "n", self.n, 1, MAX_LEVELS as u16)?;
        let fly = Fly { k, n: self.n, wiring: self.wiring };
        let values = self.last_digit(fly)?;
        let hosts = fly.switches_per_stage().saturating_mul(u64::from(values));
        let name = format!("{}-ary {}-fly of {hosts} hosts", self.k, self.n);
        match self.links {
            Ways::Unidirectional => {
                self.one_way(fly, &format!("{name}, unidirectional, {}", self.wiring.as_str()))
            }
            Ways::Bidirectional => {
                self.both_ways(fly, values, &format!("{name}, bidirectional, {}", self.wiring.as_str()))
            }
        }
    }

    fn parameters(&self) -> String {
        format!("`k` = {}, `n` = {}", self.k, self.n)
    }

    /// Number of values of a host's highest digit.
    fn last_digit(&self, fly: Fly) -> Result<u16, TopologyError> {
        let per_digit = fly.switches_per_stage();
        let fits = |values: u16| {
            let others = self.links == Ways::Bidirectional && self.n > 1 && fly.k.is_multiple_of(values);
            (values == fly.k || others).then(|| per_digit.saturating_mul(u64::from(values)))
        };
        let Some(hosts) = self.hosts else { return Ok(fly.k) };
        if let Some(values) = (2..=fly.k).find(|&values| fits(values) == Some(u64::from(hosts))) {
            return Ok(values);
        }
        let possible: Vec<String> =
            (2..=fly.k).filter_map(fits).take(6).map(|hosts| hosts.to_string()).collect();
        Err(TopologyError(format!(
            "{KIND}: `hosts` = {hosts} does not fit {}; it must be {}{}",
            self.parameters(),
            possible.join(" or "),
            if self.links == Ways::Unidirectional {
                ", the default, as `links` = \"unidirectional\""
            } else {
                ""
            }
        )))
    }

    fn one_way(&self, fly: Fly, name: &str) -> Result<Topology, TopologyError> {
        check_rate(KIND, "link_rate", self.link_rate)?;
        check_delay(KIND, "link_delay", self.link_delay)?;
        let links = fly.hosts().saturating_mul(u64::from(fly.n) + 1);
        check_size(KIND, &self.parameters(), [fly.hosts(), fly.switches(), links])?;
        let numbers = (1..=fly.n).flat_map(|s| (1..=fly.switches_per_stage()).map(move |i| (s, i)));
        Ok(Topology {
            name: name.to_owned(),
            hosts: numbered_hosts(fly.hosts()),
            switches: numbers.map(|(stage, i)| switch(format!("S{stage}.{i}"), fly.k)).collect(),
            links: fly.links(self.link_rate, self.link_delay),
            units: 0,
            machines: Vec::new(),
            shape: Shape::Fly(fly),
        })
    }

    fn both_ways(&self, fly: Fly, values: u16, name: &str) -> Result<Topology, TopologyError> {
        let stages = fly.n as usize;
        let (mut m, mut w, mut p) = (vec![fly.k; stages], vec![fly.k; stages], vec![1; stages]);
        w[0] = 1;
        if stages > 1 {
            let last = stages - 1;
            (m[last], w[last], p[last]) = (values, values, fly.k / values);
        }
        let tree = Pgft { m, w, p };
        let labels = Labels { kind: KIND, parameters: &self.parameters(), name, most_ports: MAX_FCFS_PORTS };
        let mut topology = tree.wire(labels, self.link_rate, self.link_delay)?;
        for switch in &mut topology.switches {
            switch.name.replace_range(..1, "S");
        }
        if self.wiring == Wires::PerfectShuffle {
            shuffle(&mut topology);
        }
        Ok(topology)
    }
}

/// Renumbers a tree for the perfect shuffle.
fn shuffle(topology: &mut Topology) {
    let Shape::FatTree(tree) = std::mem::take(&mut topology.shape) else { return };
    let (hosts, switches) = unshuffled(&tree);
    let inverse = |old: &[u32]| {
        let mut new = vec![0; old.len()];
        (0u32..).zip(old).for_each(|(at, &old)| new[old as usize] = at);
        new
    };
    let (hosts, switches) = (inverse(&hosts), inverse(&switches));
    for link in &mut topology.links {
        for end in [&mut link.a, &mut link.b] {
            end.node = match end.node {
                NodeRef::Host(i) => NodeRef::Host(hosts[i as usize]),
                NodeRef::Switch(i) => NodeRef::Switch(switches[i as usize]),
            };
        }
    }
    topology.shape = Shape::ShuffledFatTree(tree);
}

/// The number in the tree of each host and each switch of a shuffled tree.
///
/// The number of a host in the shuffle has the digits of its number in the tree, reversed. A switch of
/// level `l` has the digits `b_2 .. b_l` and `a_(l+1) .. a_h` in the tree, lowest digit first
/// ([`super::pgft`]; `b_1` is always 0). The shuffles have moved the `a` digits to the upper end, the first
/// one highest, and inserted the `b` digits below them.
pub(crate) fn unshuffled(tree: &Pgft) -> (Vec<u32>, Vec<u32>) {
    let reversed = |radices: &[u16], number: u64| {
        // Digits are processed from the lowest to the highest, so the first of `radices` belongs to the highest digit
        // of the result.
        let mut place: u64 = radices.iter().map(|&r| u64::from(r)).product();
        let mut rest = number;
        radices.iter().rev().fold(0, |sum, &radix| {
            place /= u64::from(radix);
            let digit = rest % u64::from(radix);
            rest /= u64::from(radix);
            sum + digit * place
        })
    };
    let hosts = (0..tree.hosts()).map(|host| reversed(&tree.m, host) as u32).collect();
    let mut switches = Vec::new();
    for level in 1..=tree.levels() {
        let mut radices = tree.w[1..level].to_vec();
        radices.extend(&tree.m[level..]);
        let first = tree.first_switch(level);
        let of_shuffle = |number: u64| (first + unshuffled_switch(&radices, level - 1, number)) as u32;
        switches.extend((0..tree.nodes_at(level)).map(of_shuffle));
    }
    (hosts, switches)
}

/// The number of a switch of a shuffled tree within its level. `radices` are the radices of its digits in
/// the tree, lowest first; the first `forward` of them belong to the forward direction.
fn unshuffled_switch(radices: &[u16], forward: usize, number: u64) -> u64 {
    let mut places = vec![1u64; radices.len()];
    for at in 1..radices.len() {
        places[at] = places[at - 1] * u64::from(radices[at - 1]);
    }
    // The digits in ascending order of significance in the shuffle's number: b_l .. b_2, then a_h .. a_(l+1).
    let order = (0..forward).rev().chain((forward..radices.len()).rev());
    let mut rest = number;
    order.fold(0, |sum, at| {
        let radix = u64::from(radices[at]);
        let digit = rest % radix;
        rest /= radix;
        sum + digit * places[at]
    })
}

#[cfg(test)]
mod tests {
    use super::super::TopologySpec;
    use super::*;

    fn fly(k: u32, n: u32, links: Ways, wiring: Wires) -> KAryNFly {
        KAryNFly { links, wiring, ..KAryNFly::new(k, n) }
    }

    /// The numbers of hosts, switches and channels equal those of published networks.
    #[test]
    fn sizes_are_those_of_the_paper() {
        use Ways::{Bidirectional, Unidirectional};
        use Wires::{Butterfly, PerfectShuffle};
        for (k, n, links, wiring, hosts, counts) in [
            (2, 3, Unidirectional, Butterfly, None, [8, 12, 8 * 4]),
            (2, 5, Unidirectional, Butterfly, None, [32, 80, 32 * 6]),
            (2, 6, Unidirectional, Butterfly, None, [64, 192, 64 * 7]),
            (2, 7, Unidirectional, Butterfly, None, [128, 448, 128 * 8]),
            (4, 3, Unidirectional, Butterfly, None, [64, 48, 64 * 4]),
            (4, 4, Unidirectional, Butterfly, None, [256, 256, 256 * 5]),
            (2, 3, Bidirectional, Butterfly, None, [8, 12, 2 * 8 * 3]),
            (4, 3, Bidirectional, PerfectShuffle, None, [64, 48, 2 * 64 * 3]),
            (4, 4, Bidirectional, PerfectShuffle, None, [256, 256, 2 * 256 * 4]),
            (4, 5, Bidirectional, PerfectShuffle, Some(512), [512, 640, 2 * 512 * 5]),
            (4, 5, Bidirectional, PerfectShuffle, None, [1024, 1280, 2 * 1024 * 5]),
            (8, 3, Bidirectional, PerfectShuffle, None, [512, 192, 2 * 512 * 3]),
        ] {
            let spec = KAryNFly { hosts, ..fly(k, n, links, wiring) };
            let built = TopologySpec::KAryNFly(spec).build().unwrap();
            let found = [built.hosts.len(), built.switches.len(), built.channel_count()];
            assert_eq!(found, counts, "{}", built.name);
            for stage in 1..=n {
                let prefix = format!("S{stage}.");
                let switches = built.switches.iter().filter(|s| s.name.starts_with(&prefix)).count();
                assert_eq!(switches, counts[1] / n as usize, "{} stage {stage}", built.name);
            }
        }
    }

    fn wires(built: &Topology) -> Vec<String> {
        let arrow = |link: &Link| if link.one_way { "->" } else { "-" };
        let name = |l: &Link| format!("{} {} {}", built.port_name(l.a), arrow(l), built.port_name(l.b));
        built.links.iter().map(name).collect()
    }

    #[test]
    fn the_networks_of_the_drawing_are_connected_as_documented() {
        let one_way = fly(2, 2, Ways::Unidirectional, Wires::Butterfly).build().unwrap();
        assert_eq!(one_way.name, "2-ary 2-fly of 4 hosts, unidirectional, butterfly");
        assert_eq!(
            wires(&one_way),
            [
                "H1:1 -> S1.1:1",
                "H2:1 -> S1.1:2",
                "H3:1 -> S1.2:1",
                "H4:1 -> S1.2:2",
                "S1.1:1 -> S2.1:1",
                "S1.1:2 -> S2.2:1",
                "S1.2:1 -> S2.1:2",
                "S1.2:2 -> S2.2:2",
                "S2.1:1 -> H1:1",
                "S2.2:1 -> H2:1",
                "S2.1:2 -> H3:1",
                "S2.2:2 -> H4:1",
            ]
        );
        let omega = fly(2, 2, Ways::Unidirectional, Wires::PerfectShuffle).build().unwrap();
        assert_eq!(
            wires(&omega),
            [
                "H1:1 -> S1.1:1",
                "H2:1 -> S1.2:1",
                "H3:1 -> S1.1:2",
                "H4:1 -> S1.2:2",
                "S1.1:1 -> S2.1:1",
                "S1.1:2 -> S2.2:1",
                "S1.2:1 -> S2.1:2",
                "S1.2:2 -> S2.2:2",
                "S2.1:1 -> H1:1",
                "S2.1:2 -> H2:1",
                "S2.2:1 -> H3:1",
                "S2.2:2 -> H4:1",
            ]
        );
        let both_ways = fly(2, 2, Ways::Bidirectional, Wires::Butterfly).build().unwrap();
        assert_eq!(
            wires(&both_ways)[4..],
            ["S1.1:3 - S2.1:1", "S1.1:4 - S2.2:1", "S1.2:3 - S2.1:2", "S1.2:4 - S2.2:2"]
        );
    }

    /// Links between two stages as pairs of switch numbers within their stages, from 0.
    fn between(built: &Topology, stage: usize, per_stage: u32) -> Vec<(u32, u32)> {
        let number = |end: End| match end.node {
            NodeRef::Switch(i) => Some((i / per_stage, i % per_stage)),
            NodeRef::Host(_) => None,
        };
        let ends = built.links.iter().filter_map(|l| Some((number(l.a)?, number(l.b)?)));
        let mut found: Vec<_> =
            ends.filter(|(a, _)| a.0 as usize == stage).map(|(a, b)| (a.1, b.1)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn bidirectional_shuffles_use_the_numbering_of_the_shuffle() {
        for (k, n, hosts) in [(2, 4, None), (3, 3, None), (4, 3, None), (4, 5, Some(512)), (4, 3, Some(32))] {
            let spec = fly(k, n, Ways::Bidirectional, Wires::PerfectShuffle);
            let built = KAryNFly { hosts, ..spec }.build().unwrap();
            let count = built.hosts.len() as u32;
            let per_stage = count / k;
            for (at, (end, _)) in (0..count).zip(built.wiring().hosts.iter().flatten()) {
                assert_eq!(end.node, NodeRef::Switch(at % per_stage), "{}, host {at}", built.name);
                assert_eq!(u32::from(end.port) - 1, at / per_stage);
            }
            // With other numbers of hosts, parallel links connect the switches of the last two stages.
            let radix = hosts.map_or(k, |hosts| hosts / k.pow(n - 1));
            for stage in 0..n as usize - 1 {
                let last = stage + 2 == n as usize;
                let (onward, parallel) = if last { (radix, k / radix) } else { (k, 1) };
                let mut expected: Vec<(u32, u32)> = (0..per_stage)
                    .flat_map(|w| (0..onward).map(move |t| (w, (w * onward + t) % per_stage)))
                    .flat_map(|pair| std::iter::repeat_n(pair, parallel as usize))
                    .collect();
                expected.sort_unstable();
                assert_eq!(between(&built, stage, per_stage), expected, "{}, stage {stage}", built.name);
            }
        }
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |spec: KAryNFly| spec.build().map_err(|e| e.to_string()).err().unwrap_or_default();
        let both_ways =
            |k, n, hosts| KAryNFly { hosts: Some(hosts), ..fly(k, n, Ways::Bidirectional, Wires::Butterfly) };
        assert_eq!(message(KAryNFly::new(1, 3)), "k-ary-n-fly: `k` = 1 is out of range; it must be 2 to 512");
        assert_eq!(
            message(KAryNFly::new(4, 17)),
            "k-ary-n-fly: `n` = 17 is out of range; it must be 1 to 16"
        );
        assert_eq!(
            message(both_ways(4, 5, 513)),
            "k-ary-n-fly: `hosts` = 513 does not fit `k` = 4, `n` = 5; it must be 512 or 1024"
        );
        assert_eq!(
            message(both_ways(4, 1, 2)),
            "k-ary-n-fly: `hosts` = 2 does not fit `k` = 4, `n` = 1; it must be 4"
        );
        assert_eq!(
            message(KAryNFly { hosts: Some(32), ..KAryNFly::new(4, 3) }),
            "k-ary-n-fly: `hosts` = 32 does not fit `k` = 4, `n` = 3; it must be 64, the default, as `links` = \
             \"unidirectional\""
        );
        for links in [Ways::Unidirectional, Ways::Bidirectional] {
            let error = message(fly(128, 16, links, Wires::PerfectShuffle));
            assert_eq!(
                error,
                "k-ary-n-fly: `k` = 128, `n` = 16 make more than 200000 hosts, which is the maximum; choose smaller \
                 values"
            );
        }
        let slow = KAryNFly { link_delay: Time::ZERO, ..KAryNFly::new(2, 2) };
        assert!(message(slow).starts_with("k-ary-n-fly: `link_delay` = 0 ps is out of range"));
    }
}
