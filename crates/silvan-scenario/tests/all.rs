//! The tests of scenarios, in one program, because each program takes seconds to compile and link.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

mod checkpoint;
mod cycles;
mod direct_topologies;
mod ethernet;
mod events;
mod fabrics;
mod fields;
mod golden;
mod jobs;
mod jobs_routes;
mod limits;
mod lmc;
mod machines;
mod memory;
mod messages;
mod messages_files;
mod messages_hosts;
mod outputs;
mod pairs;
mod path_lanes;
mod properties;
mod published;
mod readers;
mod recording;
mod reduction;
mod round_trip;
mod skipping;
mod threads;
