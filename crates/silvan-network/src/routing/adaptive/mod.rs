//! Adaptive routing per flow (Zdornov and Birk, SYSTOR 2009, section 4). A set-up packet precedes a flow and selects
//! its route switch by switch, based on the local state of each switch. All packets of the flow follow this route, so
//! they arrive in order.
//!
//! | file | contents |
//! | --- | --- |
//! | [`table`] | the extended table of a switch: default and alternate ports per destination |
//! | [`cache`] | the route cache of an input port: the flows that do not use the default port |
//! | [`heuristic`] | criteria for the selection of output ports |
//! | [`state`] | one switch: its handling of set-up, data and tear-down packets |
//! | [`relation`] | all possible routes: check for cycles and deadlock |
//! | [`flow_level`] | whole networks, flow by flow, without packets or time |
//! | [`contention`] | random permutations: the number of flows on a flow's most loaded link |
//!
//! # Permitted routes
//! The networks are trees, either plain or with horizontal links ([`crate::topology::modified_tree`]). A switch that is
//! not above the destination can send up through any port. A switch above the destination can send down (one port) or
//! sideways. The first switch of a row that a flow reaches determines the direction, which is towards the side with
//! more switches. Flows do not reverse within the row:
//!
//! ```text
//!    |up/down                                          (a flow from elsewhere
//!    v                                                  enters the row's left half)
//!   L3.1 ===> L3.2 ===> L3.3 ===> L3.4
//!              |         |         |                    it may go down from any of
//!              v         v         v                    these, but only to the right
//! ```
//!
//! A route first goes up. On each level of the way down, it goes to one side within the row, and then one hop
//! down. Channels are used only in this order, so there is no dependency cycle; [`relation`] verifies this.
//!
//! If a route cache is full, set-up selects the default port. A switch has one counter per output link and
//! one route cache per input port.

pub mod cache;
pub mod contention;
pub mod flow_level;
pub mod heuristic;
pub mod relation;
pub mod state;
pub mod table;

pub use cache::{FlowKey, RouteCache};
pub use contention::{Contention, Permutations};
pub use flow_level::FlowLevel;
pub use heuristic::Heuristic;
pub use heuristic::mixed;
pub use relation::{RouteFault, check_relation};
pub use state::{AdaptiveFlow, AnnouncedFlows, SwitchState, choose};
pub use table::{AdaptiveTables, Alternates, Entry, ExtendedTable};
