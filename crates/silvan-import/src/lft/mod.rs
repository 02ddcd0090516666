//! Forwarding tables in the formats of OpenSM (`opensm-lfts.dump`), of `dump_fts` and `ibroute`, and the
//! `opensm.fdbs` of OpenSM and ibdiagnet. The format is detected from the first line.
//!
//! ```text
//! Unicast lids [0-9] of switch Lid 2 guid 0x0002c90200000000 ('swA'):
//! 0x0001 001 # Channel Adapter portguid 0x0002c90300000001: 'node-0'
//! 9 lids dumped
//!
//! Unicast lids [0x0-0x9] of switch DR path slid 0; dlid 0; 0,1 guid 0x0002c90200000000 (swA):
//!   Lid  Out   Destination
//!        Port     Info
//! 0x0001 001
//! 9 valid lids dumped
//!
//! dump_ucast_routes: Switch 0x0002c90200000000
//! LID    : Port : Hops : Optimal
//! 0x0001 : 001  : 01   : yes
//! 0x0009 : UNREACHABLE
//! ```
//!
//! - Switches are identified by GUID, or by name if the topology has no GUIDs.
//! - The LIDs of hosts come from the topology. If the topology has none, they come from the port GUIDs and
//!   names that OpenSM adds to each entry (but `dump_fts` does not).
//! - A port with several LIDs (LMC > 0) has an entry for each of them. Its routes to them may differ.
//! - LIDs that do not belong to a node of the topology are skipped, because tables keep the LIDs of removed
//!   nodes.
//! - In the first two formats, the table of a switch ends with a count. OpenSM prints the top LID there, and
//!   the other tools print the number of entries. A table without a count, or with a different number, is rejected.
//! - `dump_fts` omits the last LID if it is a multiple of 64. If a host has this LID, the dump cannot be
//!   used, and the error message says so.

mod read;
mod write;

use silvan_network::routing::Tables;
use silvan_network::topology::Topology;

use super::ImportError;

pub use write::{write, write_fdbs};

/// The full contents of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// The routes to hosts, which a run requires.
    pub tables: Tables,
    /// The routes to the switches themselves (to their management ports).
    pub switch_routes: SwitchRoutes,
    /// Base LID of each host.
    pub host_lids: Vec<u16>,
    /// Base LID of each switch; `None` if neither the topology nor the dump contains it.
    pub switch_lids: Vec<Option<u16>>,
}

/// The routes between switches: `out[switch][target]` is an output port (from 1), or [`Tables::NO_ROUTE`],
/// which is also the entry of a switch for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchRoutes {
    /// Output port by switch and target switch.
    pub out: Vec<Vec<u16>>,
}

impl Forwarding {
    /// Sets the LIDs of a topology, such as a netlist, to those of the dump.
    pub fn apply_lids(&self, topology: &mut Topology) {
        for (host, lid) in topology.hosts.iter_mut().zip(&self.host_lids) {
            host.lid = Some(*lid);
        }
        for (switch, lid) in topology.switches.iter_mut().zip(&self.switch_lids) {
            switch.lid = *lid;
        }
    }
}

/// Reads forwarding tables for a topology; `origin` is the name of the file in error messages.
///
/// # Errors
/// If the text is malformed or truncated, a switch has no table, a table belongs to no switch, a LID or port
/// is out of range or appears twice, the dump and the topology disagree about a LID, the LID of a host is
/// unknown, no switch has a route to some host, or the network is too large.
pub fn parse(text: &str, origin: &str, topology: &Topology) -> Result<Tables, ImportError> {
    parse_all(text, origin, topology).map(|forwarding| forwarding.tables)
}

/// Same as [`parse`], but also returns the routes to switches and the LIDs.
///
/// # Errors
/// Same as [`parse`].
pub fn parse_all(text: &str, origin: &str, topology: &Topology) -> Result<Forwarding, ImportError> {
    read::forwarding(text, origin, topology)
}

#[cfg(test)]
mod tests;
