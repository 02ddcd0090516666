//! Reads the scenario file, which completely describes one simulation.
//!
//! A scenario is a TOML file in which values have units. [`Scenario::load`] reads and checks the
//! file, [`Scenario::build`] creates the network, its forwarding tables and the configuration of a
//! run, and [`schema`] returns the JSON Schema of the file.
//!
//! | module | contents |
//! | --- | --- |
//! | [`spec`] | the types that represent the file |
//! | [`checkpoint`] | files from which a run can be continued |
//! | [`jobs`] | parallel applications: programs and placement |
//! | [`reduction`] | reduction units of switches |
//! | [`report`] | the network and routes of a scenario, without a run |
//! | [`opensm`] | congestion control as options of OpenSM |
//! | [`describe`] | networks, samples and results as JSON, for displays of a run |
//! | [`import`] | readers and writers for topologies and tables of real fabrics (the crate `silvan-import`) |
//! | `source`, `shape`, `validate`, `network` | the checks, from the text to the connected network |

pub mod checkpoint;
pub mod describe;
mod error;
mod estimate;
mod files;
mod fluid;
pub mod jobs;
mod network;
pub mod opensm;
pub mod ports;
mod prepare;
mod ranges;
pub mod reduction;
pub mod report;
mod rows;
mod scenario;
mod schema;
mod shape;
mod source;
pub mod spec;
mod threads;
mod transfers;
mod validate;

pub use error::ScenarioError;
pub use estimate::Estimate;
pub use fluid::{FluidFlow, FluidReport, FluidShare, FluidTotal};
pub use prepare::FAT_TREES;
pub use report::{LinkLoad, Report};
pub use scenario::Scenario;
pub use schema::schema;
pub use silvan_import as import;
pub use threads::Threads;
