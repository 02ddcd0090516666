//! The model of a lossless interconnection network.
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`topology`] | how hosts and switches are wired, one file per family |
//! | [`routing`] | forwarding tables, one file per algorithm, and the deadlock check |
//! | [`config`] | everything a run needs to know besides topology and tables |
//! | [`congestion`] | marking at switches and reaction at hosts, one file per part |
//! | [`traffic`] | who sends what to whom, when |

pub mod config;
pub mod congestion;
pub mod outcome;
pub mod routing;
pub mod simulation;
pub mod topology;
pub mod traffic;
