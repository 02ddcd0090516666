//! The wiring of a fabric as `ibnetdiscover` prints it, which is also what `ibsim` reads.
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
//! What becomes of it:
//! - Each connected port of a channel adapter (`Ca`, `Hca`) or router (`Rt`) becomes a host,
//!   named by its description. Where an adapter has several connected ports, they are `name/1`,
//!   `name/2`. Adapters without any connected port are left out, as nothing can reach them.
//! - Descriptions that several nodes share get the node GUID appended.
//! - Hosts and switches are numbered by name in natural order ("node-2" before "node-10"), so
//!   that the numbers do not depend on where the discovery started.
//! - Each link must be described from both ends, alike in ports and rate.
//! - Data rates are those after line coding; the rate of a link whose width or speed is not
//!   stated comes from [`Options::default_rate`].

pub(in crate::import) mod build;
pub(in crate::import) mod read;
mod write;

use silvan_engine::{Rate, Time};
use silvan_fabric::topology::Topology;

use super::ImportError;

pub use write::write;

/// What the files do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Propagation delay of every link.
    pub link_delay: Time,
    /// Data rate of links that state no width and speed; `None`: such links are an error.
    pub default_rate: Option<Rate>,
}

impl Default for Options {
    /// 20 ns, some four metres of cable; no default rate.
    fn default() -> Self {
        Self { link_delay: Time::from_ns(20), default_rate: None }
    }
}

/// Reads a fabric from the text of `ibnetdiscover` or an `ibsim` netlist; `origin` is the name
/// of the file in errors.
///
/// # Errors
/// Where the text is not of this form, a node or port appears twice, a link is not seen alike
/// from both ends, a number is out of range, or an address mask (LMC) is not 0.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Topology, ImportError> {
    let nodes = read::nodes(text, origin)?;
    build::topology(&nodes, origin, options)
}

#[cfg(test)]
mod tests;
