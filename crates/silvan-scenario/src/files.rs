//! Topologies and tables that a scenario takes from files.

use std::path::Path;

use silvan_engine::{Rate, Time};
use silvan_fabric::routing::Tables;
use silvan_fabric::topology::Topology;

use crate::import::{ibnetdiscover, lft, read_text};

/// Reads the output of `ibnetdiscover` or an ibsim netlist.
pub(crate) fn topology(
    path: &Path,
    link_delay: Time,
    default_rate: Option<Rate>,
) -> Result<Topology, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let options = ibnetdiscover::Options { link_delay, default_rate };
    ibnetdiscover::parse(&text, &path.display().to_string(), options).map_err(|error| error.to_string())
}

/// Reads the forwarding tables of a subnet manager.
pub(crate) fn tables(path: &Path, topology: &Topology) -> Result<Tables, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    lft::parse(&text, &path.display().to_string(), topology).map_err(|error| error.to_string())
}
