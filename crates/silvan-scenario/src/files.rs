//! Topologies and tables that a scenario takes from files.

use std::path::Path;

use silvan_engine::{Rate, Time};
use silvan_fabric::routing::Tables;
use silvan_fabric::topology::Topology;

use crate::import::{ibnetdiscover, site};

/// Reads the wiring of a fabric, of any sort that [`site`] knows.
pub(crate) fn topology(
    path: &Path,
    link_delay: Time,
    default_rate: Option<Rate>,
) -> Result<Topology, String> {
    let options = ibnetdiscover::Options { link_delay, default_rate };
    site::topology(path, options).map_err(|error| error.to_string())
}

/// Reads the forwarding tables of a subnet manager.
pub(crate) fn tables(path: &Path, topology: &Topology) -> Result<Tables, String> {
    site::tables(path, topology).map_err(|error| error.to_string())
}
