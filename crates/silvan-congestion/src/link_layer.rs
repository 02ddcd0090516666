//! Link layers for which components of congestion management are designed.

use std::fmt;

/// A link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: credits, FECN and BECN, congestion control tables.
    InfiniBand,
    /// Ethernet, with RoCE, Data Center Bridging or Ultra Ethernet: outputs with one queue per class, which the packets of
    /// all inputs join in the order of their arrival.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}
