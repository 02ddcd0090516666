//! Forwarding tables as OpenSM dumps them (`opensm-lfts.dump`) and as `dump_fts` and `ibroute`
//! print them; and the `opensm.fdbs` of OpenSM and ibdiagnet, told apart by their first line.
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
//! - Switches are told by GUID, or by name where the topology has no GUIDs.
//! - The LIDs of hosts come from the topology, or else from the port GUIDs and names that
//!   OpenSM adds to each entry. (`dump_fts` adds none.)
//! - LIDs that are nobody's in the topology are passed over: tables keep those of nodes that left.
//! - A switch's table ends with its count. OpenSM prints the top LID there and the other tools
//!   the number of entries; a table whose last line is neither is taken as cut short.
//! - `dump_fts` leaves out the last LID where that is a multiple of 64; if it is a host's, the
//!   dump cannot be used, and the error says so.

mod read;
mod write;

use silvan_fabric::routing::Tables;
use silvan_fabric::topology::Topology;

use super::ImportError;

pub use write::{write, write_fdbs};

/// Everything that a dump says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// The routes to hosts, which is what a run needs.
    pub tables: Tables,
    /// The routes to the switches themselves (to their management ports).
    pub switch_routes: SwitchRoutes,
    /// LID of each host.
    pub host_lids: Vec<u16>,
    /// LID of each switch; `None` where neither topology nor dump names it.
    pub switch_lids: Vec<Option<u16>>,
}

/// The routes from switch to switch: `out[switch][target]` is an output port (from 1), or
/// [`Tables::NO_ROUTE`], as it is at the target itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchRoutes {
    /// Output port by switch and target switch.
    pub out: Vec<Vec<u16>>,
}

impl Forwarding {
    /// Gives a topology without LIDs (a netlist) those of the dump.
    pub fn apply_lids(&self, topology: &mut Topology) {
        for (host, lid) in topology.hosts.iter_mut().zip(&self.host_lids) {
            host.lid = Some(*lid);
        }
        for (switch, lid) in topology.switches.iter_mut().zip(&self.switch_lids) {
            switch.lid = *lid;
        }
    }
}

/// Reads forwarding tables for a topology; `origin` is the name of the file in errors.
///
/// # Errors
/// Where the text is not of this form or cut short, a switch has no table, a table belongs to no
/// switch, a LID or port is out of range or stated twice, the dump and the topology disagree on
/// who has a LID, or no switch has a route to some host.
pub fn parse(text: &str, origin: &str, topology: &Topology) -> Result<Tables, ImportError> {
    parse_all(text, origin, topology).map(|forwarding| forwarding.tables)
}

/// As [`parse`], with the routes to switches and the LIDs too.
///
/// # Errors
/// As [`parse`].
pub fn parse_all(text: &str, origin: &str, topology: &Topology) -> Result<Forwarding, ImportError> {
    read::forwarding(text, origin, topology)
}

#[cfg(test)]
mod tests;
