//! The tests of traces, in one program, because each program takes seconds to compile and link.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod apart;
mod archives;
mod chakra_json;
mod closed_forms;
mod collectives;
mod fields;
mod formats;
mod generated;
mod inference;
mod moe;
mod msccl;
mod nvls;
mod reduction;
mod stored;
mod wildcards;
mod workload;
mod wrong;
