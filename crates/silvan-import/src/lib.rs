//! Readers and writers for the files of other tools: real fabrics, their tables, and traffic.
//!
//! | module | contents |
//! | --- | --- |
//! | [`read_text`] | plain or gzip files, with limits on memory |
//! | [`ibnetdiscover`] | the topology in the format of `ibnetdiscover`, also read by `ibsim` |
//! | [`lst`] | the topology as a list of links (`opensm-subnet.lst`) |
//! | [`sections`] | the topology in sections (`ibdiagnet2.db_csv`, `opensm-smdb.dump`) |
//! | [`iblinkinfo`] | the topology in the format of `iblinkinfo` |
//! | [`ports`] | the topology as a report of ports (`ibnetdiscover -p`) |
//! | [`net_dump`] | the topology as tables of the ports of switches (`ibdiagnet2.net_dump`) |
//! | [`lft`] | forwarding tables, as OpenSM (`opensm-lfts.dump`, `opensm.fdbs`) or `dump_fts` writes them |
//! | [`far`] | forwarding tables with groups for adaptive routing (`ibdiagnet2.far`) |
//! | [`lanes`] | service levels of paths, SL-to-VL tables |
//! | [`detect`] | the format of a file |
//! | [`fields`] | the fields of all formats, and what their readers do with them |
//! | [`site`] | all of these formats, detected from the content |
//! | [`hpcc`] | the topology in the format of HPCC's simulator |
//! | [`htsim`] | the topology in the format of htsim (`.topo`) |
//! | [`simai`] | the topology in the format of SimAI: GPUs, NVSwitches and a network |
//! | [`infragraph`] | the topology in the format of InfraGraph: devices, instances and edges |
//! | [`sizes`], [`transfers`] | distributions of message sizes, and lists of transfers |
//! | [`plain`] | opens regular files only |
//! | [`identity`] | LIDs and GUIDs for topologies that have none |
//!
//! These files come from unknown sources, so the readers limit the memory that they allocate. Errors state
//! the file, the line, what was found and what would be valid.

pub mod detect;
pub mod far;
pub mod fields;
pub mod hpcc;
pub mod htsim;
pub mod iblinkinfo;
pub mod ibnetdiscover;
pub mod identity;
pub mod infragraph;
pub mod lanes;
pub mod lft;
mod lids;
pub mod lst;
mod machines;
mod natural;
pub mod net_dump;
mod noise;
mod notes;
pub mod plain;
pub mod ports;
mod records;
mod scan;
pub mod sections;
pub mod simai;
pub mod site;
pub mod sizes;
mod speed;
pub mod text;
pub mod transfers;
mod yaml;

use std::fmt;

use silvan_engine::Time;
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::{InnerLinks, PortUse};

pub use text::{MAX_LINE_BYTES, MAX_TEXT_BYTES, decode, read_text, unicode};

/// Maximum number of nodes of a fabric. InfiniBand itself has 49,151 unicast LIDs.
pub const MAX_NODES: usize = 200_000;
/// Maximum number of ports of a node: port numbers are one byte, and 255 means "no route".
pub const MAX_PORTS: u16 = 254;
/// The largest unicast LID. Larger LIDs belong to multicast groups.
pub const MAX_UNICAST_LID: u16 = 0xbfff;

/// A topology that was read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Wiring {
    /// The nodes and links.
    pub topology: Topology,
    /// Statements about omitted parts of the file, such as cables from a node to itself, and about decisions
    /// of the reader.
    pub notes: Vec<String>,
    /// Latency of each switch; empty if the file states none.
    pub latencies: Vec<Time>,
    /// GUID of the adapter of each host, if the file states it; empty if it states none.
    pub node_guids: Vec<Option<u64>>,
    /// How jobs use hosts with several ports.
    pub ports: FilePorts,
}

/// What a file states about hosts with several ports, in addition to [`Topology::machines`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilePorts {
    /// How messages of jobs use the ports; `None` for the default of the wiring.
    pub used: Option<PortUse>,
    /// The links between the ranks of a host.
    pub inner: Option<InnerLinks>,
}

impl Wiring {
    /// Wiring from a file without latencies of switches and GUIDs of adapters.
    pub(crate) fn new(topology: Topology, notes: Vec<String>) -> Self {
        let (latencies, node_guids, ports) = (Vec::new(), Vec::new(), FilePorts::default());
        Self { topology, notes, latencies, node_guids, ports }
    }

    /// Moves the latencies of switches into the network: the smallest one is the result, and half of the rest
    /// is added to the delay of each link of a switch, so that every path through the switch has its latency.
    /// `None` if the file states no latencies.
    pub fn settle_latencies(&mut self) -> Option<Time> {
        let common = self.latencies.iter().copied().min()?;
        let half = |node: NodeRef| match node {
            NodeRef::Host(_) => Time::ZERO,
            NodeRef::Switch(switch) => {
                let own = self.latencies.get(switch as usize).copied().unwrap_or(common);
                Time(own.saturating_sub(common).0 / 2)
            }
        };
        for link in &mut self.topology.links {
            link.delay = link.delay + half(link.a.node) + half(link.b.node);
        }
        self.latencies.clear();
        Some(common)
    }
}

/// An error in an imported file, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1; `None` if the error does not belong to a single line.
    pub line: Option<usize>,
    /// A statement of the error, and what would be valid.
    pub message: String,
}

impl ImportError {
    /// An error that concerns the whole file.
    #[must_use]
    pub fn new(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, message: message.into() }
    }

    /// An error in one line, counted from 1.
    #[must_use]
    pub fn at(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ImportError {}

/// Quotes text from a file in a message: shortened, and without control characters.
fn clip(text: &str) -> String {
    const MOST: usize = 60;
    let mut short = String::new();
    for c in text.chars().take(MOST) {
        if c.is_control() { short.extend(c.escape_debug()) } else { short.push(c) }
    }
    if text.chars().nth(MOST).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
}
