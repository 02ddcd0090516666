//! Adaptive routing of flows (Zdornov and Birk, SYSTOR 2009, section 4): a packet goes ahead of a
//! flow and chooses its way switch by switch, by what each switch knows itself; the flow's packets
//! then all follow it, and so arrive in order.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`table`] | the extended table of a switch: default and alternate ports per destination |
//! | [`cache`] | the route cache of an input port: the flows that left the default |
//! | [`heuristic`] | what makes one port better than another |
//! | [`state`] | one switch: what it does with set-up, data and tear-down |
//! | [`relation`] | all routes that can come of it: free of circles and of deadlock? |
//! | [`flow_level`] | whole networks, flow by flow, without packets or time |
//! | [`contention`] | random permutations: how many flows share a flow's worst link |
//!
//! # What is allowed
//! Trees, plain or with horizontal links ([`crate::topology::modified_tree`]). A switch that is not
//! above the destination may send up by any port. One that is above it may send down (one port),
//! or sideways; the first switch of a row that a flow meets decides to which side, that with more
//! switches left, and there is no turning back within the row:
//!
//! ```text
//!    |up/down                                          (a flow from elsewhere
//!    v                                                  enters the row's left half)
//!   L3.1 ===> L3.2 ===> L3.3 ===> L3.4
//!              |         |         |                    it may go down from any of
//!              v         v         v                    these, but only to the right
//! ```
//!
//! A route is thus a climb, and then per level a walk to one side and a step down. No channel can
//! come before itself in this order, so nothing waits in a circle; [`relation`] checks it.
//!
//! Nothing blocks and nothing is tried twice: if a route cache is full, the default port is taken.
//! A switch has a counter per output link and caches of bounded size, whatever the number of flows.
//!
//! A set-up packet that has reached the destination goes back on default ports and changes
//! nothing on the way; that, and to start a flow only when the one before it on the same
//! connection has arrived, is for the hosts.

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
pub(crate) use heuristic::mixed;
pub use relation::{Fault, check_relation};
pub use state::{Flow, LinkLoad, SwitchState, choose};
pub use table::{AdaptiveTables, Alternates, Entry, ExtendedTable};
