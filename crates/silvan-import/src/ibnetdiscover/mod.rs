//! Reads and writes the topology of a fabric in the format of `ibnetdiscover`, which `ibsim` also reads.
//!
//! ```text
//! switchguid=0x2c90200000000(2c90200000000)
//! Switch  8 "S-0002c90200000000"      # "swA" base port 0 lid 2 lmc 0
//! [1]     "H-0002c90300000000"[1](2c90300000001)      # "node-0" lid 1 4xQDR
//!
//! caguid=0x2c90300000000
//! Ca      1 "H-0002c90300000000"      # "node-0"
//! [1](2c90300000001)  "S-0002c90200000000"[1]     # lid 1 lmc 0 "swA" lid 2 4xQDR
//! ```
//!
//! The conversion to a topology:
//! - Each connected port of a channel adapter (`Ca`, `Hca`) or router (`Rt`) becomes a host, named by its
//!   description. If an adapter has several connected ports, they are named `name/1`, `name/2`, and are the ports of one
//!   [`Machine`](silvan_network::topology::Machine). Adapters without a connected port are left out, because they cannot be
//!   reached.
//! - If several nodes share a description, the node GUID is appended.
//! - Hosts and switches are numbered by name in natural order ("node-2" before "node-10"), so the numbers
//!   do not depend on where the discovery started.
//! - Each link must be described from both ends, with equal ports. If the ends state different rates, the link has
//!   the smaller one. A cable from a node to itself is left out. Notes count both.
//! - A LID of 65535 means that the port is not configured, so the port has no LID. Notes count such LIDs.
//! - Lines of a terminal or of an error stream are skipped and counted in a note.
//! - Rates are data rates after line coding. The rate of a link without width or speed is
//!   [`Options::default_rate`].

pub(crate) mod build;
pub(crate) mod read;
mod write;

use silvan_engine::{Rate, Time};

use super::notes::Notes;
use super::{ImportError, Wiring};

pub use write::{write, write_with};

/// Properties of links that the files do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Propagation delay of every link.
    pub link_delay: Time,
    /// Data rate of links without width and speed. If it is `None`, such links are errors.
    pub default_rate: Option<Rate>,
}

impl Default for Options {
    /// 20 ns, the delay of about four meters of cable; no default rate.
    fn default() -> Self {
        Self { link_delay: Time::from_ns(20), default_rate: None }
    }
}

/// Reads the output of `ibnetdiscover` or an `ibsim` netlist; `origin` is the name of the file in error
/// messages.
///
/// # Errors
/// If the text is malformed or has no nodes, a node, port, name, LID or port GUID appears twice, the two ends
/// of a link disagree or one of them is not described, a link has no rate and there is no default rate, a
/// number is out of range, or LIDs do not fit the LID mask control (LMC) of their port.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let notes = Notes::default();
    let nodes = read::nodes(text, origin, &notes)?;
    let built = build::topology(&nodes, origin, options, &notes)?;
    Ok(Wiring { node_guids: built.node_guids, ..Wiring::new(built.topology, notes.texts()) })
}

#[cfg(test)]
mod tests;
