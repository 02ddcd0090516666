//! The common structure of dragonflies and dragonfly+: groups of switches, with links between the groups.
//!
//! # Global links
//! Some switches of a group have `h` global ports each. Within the group, these ports are numbered q = 0, 1, .. along
//! its switches. With g groups, every g - 1 consecutive ports form a round, which has one port for each other group.
//! Ports after the last complete round have no link. The number of links between two groups equals the number of
//! rounds, which is one if a group has g - 1 global ports. Within a round, port t of group i leads to
//!
//! | arrangement | group | port of that group in the round |
//! | --- | --- | --- |
//! | absolute | j = t if t < i, else t + 1 | i if i < j, else i - 1 |
//! | relative | i + t + 1 modulo g | g - 2 - t |
//!
//! Hastings and others (Cluster 2015) compare these arrangements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, check_size, host_end, numbered_hosts, switch, switch_end, within,
};
use super::{Link, MAX_FCFS_PORTS, MAX_SWITCHES, Shape, Topology, TopologyError};

/// The group to which each global port leads; the formulas are in `docs/topologies.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// The ports of a group lead to the other groups in ascending order.
    #[default]
    Absolute,
    /// The ports of a group lead to the groups after its own, modulo the number of groups.
    Relative,
}

/// How the switches of a group are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// All to each other; all have hosts and global links: a dragonfly.
    Mesh,
    /// Leaves have the hosts and connect to every spine; spines have the global links: a dragonfly+.
    LeavesAndSpines {
        /// Leaves per group; they are numbered before the spines.
        leaves: u16,
    },
}

/// The shape of a dragonfly or dragonfly+.
///
/// [`Topology::switches`] contains group after group. The first ports of a switch lead to its hosts, the
/// following ones to other switches of its group in ascending order, the last ones to other groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// How the switches of a group are connected.
    pub inside: Inside,
    /// Number of groups.
    pub groups: u16,
    /// Switches per group.
    pub switches: u16,
    /// Hosts per switch that has hosts.
    pub hosts: u16,
    /// Global ports per switch that has global ports.
    pub global: u16,
    /// The group to which each global port leads.
    pub arrangement: Arrangement,
}

impl Groups {
    /// Number of switches of a group that have hosts. They are its first switches.
    #[must_use]
    pub fn with_hosts(self) -> u16 {
        match self.inside {
            Inside::Mesh => self.switches,
            Inside::LeavesAndSpines { leaves } => leaves,
        }
    }

    /// Number of switches of a group that have global ports. They are its last switches.
    #[must_use]
    pub fn with_global(self) -> u16 {
        match self.inside {
            Inside::Mesh => self.switches,
            Inside::LeavesAndSpines { leaves } => self.switches - leaves,
        }
    }

    /// Number of rounds, which is the number of links between any two groups.
    #[must_use]
    pub fn rounds(self) -> usize {
        let ports = usize::from(self.with_global()) * usize::from(self.global);
        ports.checked_div(usize::from(self.groups) - 1).unwrap_or(0)
    }

    /// The group of a switch.
    #[must_use]
    pub fn group(self, switch: usize) -> usize {
        switch / usize::from(self.switches)
    }

    /// The position of a switch in its group.
    #[must_use]
    pub fn place(self, switch: usize) -> usize {
        switch % usize::from(self.switches)
    }

    /// The switch to which a host is connected.
    #[must_use]
    pub fn home(self, host: usize) -> usize {
        let number = host / usize::from(self.hosts);
        let each = usize::from(self.with_hosts());
        number / each * usize::from(self.switches) + number % each
    }

    /// The port (from 1) that leads to a host, on the switch of the host.
    #[must_use]
    pub fn host_port(self, host: usize) -> u16 {
        (host % usize::from(self.hosts)) as u16 + 1
    }

    /// Whether the switch at a position of its group has hosts.
    #[must_use]
    pub fn has_hosts(self, place: usize) -> bool {
        place < usize::from(self.with_hosts())
    }

    /// Number of hosts of the switch at a position.
    fn hosts_at(self, place: usize) -> u16 {
        if self.has_hosts(place) { self.hosts } else { 0 }
    }

    /// The port that leads from one switch of a group to another; `None` if they are not connected. Both switches are
    /// given by position.
    #[must_use]
    pub fn local_port(self, from: usize, to: usize) -> Option<u16> {
        let first = self.hosts_at(from) + 1;
        // Numbers of ports fit 16 bits.
        match self.inside {
            Inside::Mesh => (from != to).then(|| first + to as u16 - u16::from(to > from)),
            Inside::LeavesAndSpines { leaves } => {
                let leaves = usize::from(leaves);
                match (from < leaves, to < leaves) {
                    (true, false) => Some(first + (to - leaves) as u16),
                    (false, true) => Some(first + to as u16),
                    _ => None,
                }
            }
        }
    }

    /// Number of ports of the switch at a position that lead to other switches of its group.
    fn locals(self, place: usize) -> u16 {
        match self.inside {
            Inside::Mesh => self.switches - 1,
            Inside::LeavesAndSpines { leaves } if place < usize::from(leaves) => self.switches - leaves,
            Inside::LeavesAndSpines { leaves } => leaves,
        }
    }

    /// The number, within group `from`, of the global port that leads to group `to` in a round.
    fn global_number(self, from: usize, to: usize, round: usize) -> usize {
        let groups = usize::from(self.groups);
        let within = match self.arrangement {
            Arrangement::Absolute => to - usize::from(to > from),
            Arrangement::Relative => (to + groups - from) % groups - 1,
        };
        round * (groups - 1) + within
    }

    /// The start of a link from one group to another in a round (from 0): the position of the switch in its
    /// group, and its port (from 1). The groups must differ.
    #[must_use]
    pub fn gate(self, from: usize, to: usize, round: usize) -> (usize, u16) {
        let number = self.global_number(from, to, round);
        let (nth, port) = (number / usize::from(self.global), number % usize::from(self.global));
        let place = usize::from(self.switches - self.with_global()) + nth;
        (place, self.hosts_at(place) + self.locals(place) + port as u16 + 1)
    }

    /// Number of switches.
    #[must_use]
    pub fn all_switches(self) -> u64 {
        u64::from(self.groups) * u64::from(self.switches)
    }

    /// Number of hosts.
    #[must_use]
    pub fn all_hosts(self) -> u64 {
        u64::from(self.groups) * u64::from(self.with_hosts()) * u64::from(self.hosts)
    }
}

/// Properties of the links of a dragonfly or dragonfly+.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cables {
    pub link_rate: Rate,
    pub link_delay: Time,
    /// Delay of links between groups. Default: `link_delay`.
    pub global_delay: Option<Time>,
}

/// The parameters of a dragonfly or dragonfly+ in a scenario. `hosts` and `global` include their keys.
pub(super) struct Given<'a> {
    pub kind: &'a str,
    pub family: &'a str,
    pub hosts: (&'a str, u32),
    pub global: (&'a str, u32),
    pub groups: Option<u32>,
    pub arrangement: Arrangement,
    pub cables: Cables,
}

impl Given<'_> {
    /// Builds a network of groups with `switches` switches each.
    ///
    /// # Errors
    /// If a parameter is out of range, the groups cannot be fully connected, or the network exceeds the limits.
    pub fn build(&self, inside: Inside, switches: u16) -> Result<Topology, TopologyError> {
        let shape = self.checked(inside, switches)?;
        let Cables { link_rate, link_delay, global_delay } = self.cables;
        let global_delay = global_delay.unwrap_or(link_delay);
        check_rate(self.kind, "link_rate", link_rate)?;
        check_delay(self.kind, "link_delay", link_delay)?;
        check_delay(self.kind, "global_delay", global_delay)?;
        let link = |a, b, delay| Link { a, b, rate: link_rate, delay, one_way: false };
        let to_host = |host: usize| {
            let at = switch_end(shape.home(host) as u32, shape.host_port(host));
            link(host_end(host as u32), at, link_delay)
        };
        let mut links: Vec<Link> = (0..shape.all_hosts() as usize).map(to_host).collect();
        let (groups, each) = (usize::from(shape.groups), usize::from(switches));
        for group in 0..groups {
            let end = |place: usize, port| switch_end((group * each + place) as u32, port);
            let pairs = (0..each).flat_map(|from| (from + 1..each).map(move |to| (from, to)));
            let joined = |(from, to)| {
                Some((end(from, shape.local_port(from, to)?), end(to, shape.local_port(to, from)?)))
            };
            links.extend(pairs.filter_map(joined).map(|(a, b)| link(a, b, link_delay)));
        }
        for round in 0..shape.rounds() {
            for (from, to) in (0..groups).flat_map(|from| (from + 1..groups).map(move |to| (from, to))) {
                let end = |from: usize, to: usize| {
                    // A link belongs to the same round at both ends.
                    let (place, port) = shape.gate(from, to, round);
                    switch_end((from * each + place) as u32, port)
                };
                links.push(link(end(from, to), end(to, from), global_delay));
            }
        }
        let name = |number: usize| format!("G{}.{}", shape.group(number), shape.place(number));
        let ports = |place: usize| {
            let has_global = place >= usize::from(switches - shape.with_global());
            shape.hosts_at(place) + shape.locals(place) + if has_global { shape.global } else { 0 }
        };
        let all = 0..shape.all_switches() as usize;
        Ok(Topology {
            name: format!("{} of {} groups of {switches} switches", self.family, shape.groups),
            hosts: numbered_hosts(shape.all_hosts()),
            switches: all.map(|number| switch(name(number), ports(shape.place(number)))).collect(),
            links,
            units: 0,
            machines: Vec::new(),
            shape: Shape::Groups(shape),
        })
    }

    /// Returns the shape, or an error if it exceeds the limits.
    fn checked(&self, inside: Inside, switches: u16) -> Result<Groups, TopologyError> {
        let kind = self.kind;
        let small = |(name, value): (&str, u32)| within(kind, name, value, 1, MAX_FCFS_PORTS);
        let (hosts, global) = (small(self.hosts)?, small(self.global)?);
        let arrangement = self.arrangement;
        let mut shape = Groups { inside, groups: 1, switches, hosts, global, arrangement };
        for place in 0..usize::from(switches) {
            let has_global = place >= usize::from(switches - shape.with_global());
            let ports = shape.hosts_at(place) + shape.locals(place) + if has_global { global } else { 0 };
            if ports > MAX_FCFS_PORTS {
                return Err(TopologyError(format!(
                    "{kind}: `{}` = {hosts}, `{}` = {global} need switches of {ports} ports in groups of {switches}; \
                     at most {MAX_FCFS_PORTS} are possible",
                    self.hosts.0, self.global.0
                )));
            }
        }
        // At most 1,024 switches of 1,024 ports.
        let ports = u32::from(shape.with_global()) * u32::from(global);
        let groups = self.groups.unwrap_or(ports + 1);
        if groups < 2 || groups > ports + 1 {
            return Err(TopologyError(format!(
                "{kind}: `g` = {groups} is out of range; it must be 2 to {}, as a group has {ports} global ports and a \
                 link to each other group",
                ports + 1
            )));
        }
        // More groups need more switches than are permitted, which is an error below.
        shape.groups = u16::try_from(groups).unwrap_or(u16::MAX);
        let total = u64::from(groups) * u64::from(switches);
        let parameters = format!(
            "`{}` = {hosts}, `{}` = {global}, groups of {switches}, {groups} of them",
            self.hosts.0, self.global.0
        );
        let rounds = u64::from(ports / (groups - 1));
        let between = u64::from(groups) * u64::from(groups - 1) / 2 * rounds;
        let within_group: u64 =
            (0..usize::from(switches)).map(|place| u64::from(shape.locals(place))).sum::<u64>() / 2;
        let all_hosts = u64::from(groups) * u64::from(shape.with_hosts()) * u64::from(hosts);
        check_size(
            kind,
            &parameters,
            [all_hosts, total.min(MAX_SWITCHES + 1), all_hosts + u64::from(groups) * within_group + between],
        )?;
        Ok(shape)
    }
}
