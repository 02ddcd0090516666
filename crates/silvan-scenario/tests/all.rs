//! The tests of scenarios, in one program, because each program takes seconds to compile and link.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

mod cycles;
mod direct_topologies;
mod ethernet;
mod events;
mod fabrics;
mod golden;
mod jobs;
mod jobs_routes;
mod limits;
mod lmc;
mod messages;
mod messages_control;
mod messages_ecmp;
mod messages_events;
mod messages_queues;
mod messages_rdma;
mod messages_setup;
mod messages_sources;
mod messages_trimming;
mod outputs;
mod pairs;
mod path_lanes;
mod properties;
mod published;
mod reduction;
mod round_trip;
mod threads;
