//! Networks and their traffic.
//!
//! | module | content |
//! | --- | --- |
//! | [`port`], [`port_set`] | ports, virtual lanes, and sets of ports |
//! | [`packet_format`] | the sizes of packets |
//! | [`topology`] | how hosts and switches are wired, one file per family |
//! | [`routing`] | forwarding tables, one file per algorithm, the selection among several routes, and the deadlock check |
//! | [`traffic`] | traffic patterns, flows and jobs: sources, destinations and times |
//! | [`fluid`] | flow rates in the fluid limit: optima, and the steady state of back pressure |
//!
//! `silvan-fabric` simulates such a network.

pub mod fluid;
pub mod packet_format;
pub mod port;
pub mod port_set;
pub mod routing;
pub mod topology;
pub mod traffic;
