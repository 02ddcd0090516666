//! Reads topologies, tables and lanes from the files that a scenario names.

use std::path::Path;

use silvan_engine::{Rate, Time};
use silvan_network::routing::{LaneMaps, PathLevels, Tables};
use silvan_network::topology::Topology;

use crate::error::Fault;
use crate::import::{Wiring, ibnetdiscover, lanes, site, text};

/// Reads the topology of a fabric, in any format that [`site`] detects.
pub(crate) fn topology(path: &Path, link_delay: Time, default_rate: Option<Rate>) -> Result<Wiring, String> {
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

/// Reads the forwarding tables of a subnet manager, and notes about the file; `key` is the key of the file.
pub(crate) fn tables(path: &Path, topology: &Topology, key: &str) -> Result<(Tables, Vec<String>), Fault> {
    let (tables, notes) = site::tables(path, topology).map_err(|error| Fault::new(key, error.to_string()))?;
    Ok((tables, notes.into_iter().map(|note| format!("{key}: {note}")).collect()))
}
