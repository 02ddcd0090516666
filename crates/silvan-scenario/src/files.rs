//! Reads topologies, tables and lanes from the files that a scenario names.

use std::path::Path;

use silvan_engine::{Rate, Time};
use silvan_network::routing::{LaneMaps, PathLevels, Tables};
use silvan_network::topology::Topology;

use crate::import::{Wiring, hpcc, htsim, ibnetdiscover, lanes, site, text};

/// Reads the topology of a fabric, in any format that [`site`] detects, or in that of HPCC's
/// simulator or htsim.
pub(crate) fn topology(path: &Path, link_delay: Time, default_rate: Option<Rate>) -> Result<Wiring, String> {
    let found = text::read_text(path).map_err(|error| error.to_string())?;
    let plain = if hpcc::is_hpcc(&found) {
        Some(hpcc::parse(&found, &name(path)))
    } else if htsim::is_htsim(&found) {
        Some(htsim::parse(&found, &name(path)))
    } else {
        None
    };
    if let Some(topology) = plain {
        return topology
            .map(|topology| Wiring { topology, notes: Vec::new() })
            .map_err(|error| error.to_string());
    }
    let options = ibnetdiscover::Options { link_delay, default_rate };
    site::topology(path, options).map_err(|error| error.to_string())
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Reads the service levels of paths.
pub(crate) fn path_levels(path: &Path, topology: &Topology) -> Result<PathLevels, String> {
    let found = text::read_text(path).and_then(|text| lanes::paths(&text, &name(path), topology));
    found.map(|paths| paths.levels).map_err(|error| error.to_string())
}

/// Reads the SL-to-VL tables of switches.
pub(crate) fn lane_maps(path: &Path, topology: &Topology) -> Result<LaneMaps, String> {
    let found = text::read_text(path).and_then(|text| lanes::maps(&text, &name(path), topology));
    found.map(|maps| maps.maps).map_err(|error| error.to_string())
}

/// Reads the forwarding tables of a subnet manager.
pub(crate) fn tables(path: &Path, topology: &Topology) -> Result<Tables, String> {
    site::tables(path, topology).map_err(|error| error.to_string())
}
