//! LIDs and GUIDs of all nodes. Known ones are kept, missing ones are assigned.

use std::collections::HashSet;

use silvan_network::topology::{Topology, TopologyError};

use super::lids::Lids;
use super::{MAX_PORTS, MAX_UNICAST_LID};

/// First assigned GUIDs. Their prefix is locally administered, so they differ from the GUIDs of vendors.
const HOST_GUIDS: u64 = 0x0200_0003_0000_0000;
const SWITCH_GUIDS: u64 = 0x0200_0002_0000_0000;
/// Distance between assigned node GUIDs, which leaves space for the GUIDs of the nodes' ports.
const STEP: u64 = 0x10;

/// A LID and a GUID for each host and switch, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identities {
    /// LID of each host.
    pub host_lids: Vec<u16>,
    /// LID of each switch.
    pub switch_lids: Vec<u16>,
    /// Port GUID of each host.
    pub host_guids: Vec<u64>,
    /// Node GUID of each switch.
    pub switch_guids: Vec<u64>,
}

impl Identities {
    /// Keeps the addresses of the topology. Hosts and then switches without a LID get the smallest unused
    /// ones; missing GUIDs are derived from node numbers.
    ///
    /// # Errors
    /// If a switch has more ports, or the topology needs more LIDs, than InfiniBand has, or if a link is
    /// unidirectional.
    pub fn of(topology: &Topology) -> Result<Self, TopologyError> {
        if let Some(link) = topology.links.iter().find(|link| link.one_way) {
            let (from, to) = (topology.port_name(link.a), topology.port_name(link.b));
            return Err(TopologyError(format!(
                "link {from} -> {to} is unidirectional; links of InfiniBand, and thus the files of its tools, have both \
                 directions"
            )));
        }
        if let Some(switch) = topology.switches.iter().find(|s| s.ports > MAX_PORTS) {
            let message = format!(
                "switch \"{}\" has {} ports; InfiniBand has at most {MAX_PORTS}",
                switch.name, switch.ports
            );
            return Err(TopologyError(message));
        }
        let lmcs = topology.hosts.iter().map(|h| h.lmc).chain(topology.switches.iter().map(|s| s.lmc));
        let lids: usize = lmcs.map(|lmc| 1 << lmc).sum();
        let nodes = topology.hosts.len() + topology.switches.len();
        if lids > usize::from(MAX_UNICAST_LID) {
            let message =
                format!("{nodes} hosts and switches need {lids} LIDs; InfiniBand has {MAX_UNICAST_LID}");
            return Err(TopologyError(message));
        }
        let host_lids = topology.hosts.iter().map(|h| h.lid);
        let switch_lids = topology.switches.iter().map(|s| s.lid);
        let hosts = topology.hosts.iter().map(|h| (h.lid, h.lmc));
        let taken = hosts.chain(topology.switches.iter().map(|s| (s.lid, s.lmc)));
        let taken = taken.filter_map(|(lid, lmc)| lid.map(|base| Lids { base, lmc }));
        let used: HashSet<u16> = taken.flat_map(Lids::all).collect();
        let mut free_lids = (1..=MAX_UNICAST_LID).filter(|lid| !used.contains(lid));
        let mut lid = |known: Option<u16>| known.or_else(|| free_lids.next()).unwrap_or(0);

        let host_guids = topology.hosts.iter().map(|h| h.guid);
        let switch_guids = topology.switches.iter().map(|s| s.guid);
        let used: HashSet<u64> = host_guids.clone().chain(switch_guids.clone()).flatten().collect();
        let used = &used;
        let unused =
            |start: u64| (0..).map(move |i: u64| start + i * STEP).filter(move |guid| !used.contains(guid));
        let (mut free_hosts, mut free_switches) = (unused(HOST_GUIDS + 1), unused(SWITCH_GUIDS));
        Ok(Self {
            host_lids: host_lids.map(&mut lid).collect(),
            switch_lids: switch_lids.map(lid).collect(),
            host_guids: host_guids.map(|g| g.or_else(|| free_hosts.next()).unwrap_or(0)).collect(),
            switch_guids: switch_guids.map(|g| g.or_else(|| free_switches.next()).unwrap_or(0)).collect(),
        })
    }

    /// Node GUIDs of the adapters, by host, which are unique and differ from the GUIDs of other nodes and their
    /// ports. Known ones are kept; if several hosts are ports of one adapter, the first one has its GUID. The
    /// others are one less than the port GUID, as `ibsim` expects, or, if another node or port has this GUID,
    /// equal to the port GUID.
    #[must_use]
    pub fn adapters(&self, known: &[Option<u64>]) -> Vec<u64> {
        let mut used: HashSet<u64> = self.switch_guids.iter().copied().collect();
        let known = known.iter().copied().chain(std::iter::repeat(None)).take(self.host_guids.len());
        let kept: Vec<Option<u64>> = known.map(|guid| guid.filter(|&guid| used.insert(guid))).collect();
        let ports: HashSet<u64> = self.host_guids.iter().copied().collect();
        let next = |(kept, &port): (Option<u64>, &u64)| {
            kept.unwrap_or_else(|| {
                let is_free = |guid: &u64| !used.contains(guid) && (*guid == port || !ports.contains(guid));
                let below = (1..).map(|less: u64| port.wrapping_sub(less));
                let mut all = below.clone().take(1).chain([port]).chain(below);
                let guid = all.find(is_free).unwrap_or(port);
                used.insert(guid);
                guid
            })
        };
        kept.into_iter().zip(&self.host_guids).map(next).collect()
    }

    /// Writes the LIDs and GUIDs into the topology.
    pub fn apply(&self, topology: &mut Topology) {
        for (host, (lid, guid)) in topology.hosts.iter_mut().zip(self.host_lids.iter().zip(&self.host_guids))
        {
            (host.lid, host.guid) = (Some(*lid), Some(*guid));
        }
        for (switch, (lid, guid)) in
            topology.switches.iter_mut().zip(self.switch_lids.iter().zip(&self.switch_guids))
        {
            (switch.lid, switch.guid) = (Some(*lid), Some(*guid));
        }
    }
}
