//! Most tests of whole networks, in one program, because each program takes seconds to compile and link.
#![allow(missing_docs)]

mod common;

mod arrivals;
mod components;
mod congestion_log;
mod control;
mod credits;
mod crossbar;
mod ecmp;
mod external;
mod faults;
mod flows;
mod forest;
mod forwarding;
mod idle;
mod invariants;
mod isolation;
mod jobs;
mod laws;
mod links;
mod measures;
mod on_off;
mod packets;
mod pfc;
mod phases;
mod qcn;
mod rdma;
mod repeatable;
mod rerouting;
mod resolved;
mod schedulers;
mod setup;
mod starvation;
mod stored;
mod tables;
mod transfers;
mod trimming;
mod turns;
mod ugal;
mod validation;
