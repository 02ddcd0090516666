//! Explains which operations never finish, and why.

use super::Parameters;
use super::waits::{DONE, Waits};
use crate::trace::{ANY, COLLECTIVE_TAGS, Kind, Operation, Trace};
use silvan_engine::saved::Saved;

/// The reason why an operation never finishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub enum Why {
    /// The other rank has no matching operation, or its matching operations are used up.
    NoPartner,
    /// The other rank has a matching operation, but never reaches it.
    PartnerWaits,
    /// All matching sends were received, and this operation of the rank, a receive with a wildcard, may have
    /// received one of them.
    TakenByWildcard(u32),
}

/// An operation that has started but never finishes.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct Stuck {
    /// Rank of the operation.
    pub rank: u32,
    /// Number of the operation within its rank.
    pub index: u32,
    /// The operation.
    pub operation: Operation,
    /// The reason.
    pub why: Why,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, index, operation, why } = self;
        write!(f, "rank {rank}, operation {index}: {operation}: ")?;
        let (other, wanted) = match operation.kind {
            Kind::Send => (format!("rank {}", operation.peer), "receive"),
            _ if operation.peer == ANY => ("any rank".to_owned(), "send"),
            _ => (format!("rank {}", operation.peer), "send"),
        };
        match why {
            Why::NoPartner => write!(f, "{other} has no matching {wanted} left"),
            Why::PartnerWaits => write!(f, "{other} never reaches its {wanted}"),
            Why::TakenByWildcard(receive) => write!(
                f,
                "{other} has no matching {wanted} left; operation {receive}, a receive with a wildcard, may have taken its \
                 message"
            ),
        }
    }
}

/// Returns the first operations that wait for another rank, and ranks that wait for each other in a cycle.
pub(super) fn explain(
    trace: &Trace,
    waits: &Waits,
    parameters: &Parameters,
    most: usize,
) -> (Vec<Stuck>, Vec<u32>) {
    let mut stuck = Vec::new();
    // For each rank, another rank for which it waits and that never reaches the matching operation.
    let mut waits_for = vec![None; trace.ranks() as usize];
    for rank in 0..trace.ranks() {
        let blocked = trace.of_rank(rank).enumerate().filter(|&(_, at)| {
            let operation = trace.operation(at);
            let waiting = match operation.kind {
                Kind::Recv => true,
                Kind::Send => operation.size > parameters.rendezvous_above,
                Kind::Calc | Kind::Delay => false,
            };
            waiting && waits.of(trace, rank, at) == 0
        });
        // The search for a partner is expensive. Beyond the operations to report, examine only the first
        // operation of each rank.
        for (index, at) in blocked.take(most.saturating_sub(stuck.len()).max(1)) {
            let operation = trace.operation(at);
            let partner = partner(trace, waits, rank, operation);
            let why = match partner {
                Some(_) => Why::PartnerWaits,
                None => wildcard(trace, waits, rank, operation).map_or(Why::NoPartner, Why::TakenByWildcard),
            };
            stuck.push(Stuck { rank, index: index as u32, operation, why });
            waits_for[rank as usize] = waits_for[rank as usize].or(partner);
        }
    }
    stuck.truncate(most);
    (stuck, cycle(&waits_for))
}

/// The first rank that has a matching operation but has not reached it, if there is one.
fn partner(trace: &Trace, waits: &Waits, rank: u32, operation: Operation) -> Option<u32> {
    let others = if operation.peer == ANY { 0..trace.ranks() } else { operation.peer..operation.peer + 1 };
    let fits = |of: u32, at: usize| {
        let other = trace.operation(at);
        let (send, recv) = if operation.kind == Kind::Send { (operation, other) } else { (other, operation) };
        let source = if operation.kind == Kind::Send { rank } else { of };
        let to = if operation.kind == Kind::Send { operation.peer } else { rank };
        let of_tag = recv.tag == send.tag || (recv.tag == ANY && send.tag < COLLECTIVE_TAGS);
        send.kind == Kind::Send
            && recv.kind == Kind::Recv
            && send.peer == to
            && (recv.peer == ANY || recv.peer == source)
            && of_tag
            && !matches!(waits.of(trace, of, at), 0 | DONE)
    };
    others.into_iter().find(|&other| trace.of_rank(other).any(|at| fits(other, at)))
}

/// For a receive, a finished receive with a wildcard in its rank that may have taken a message that fits
/// both; `None` if there is none.
fn wildcard(trace: &Trace, waits: &Waits, rank: u32, operation: Operation) -> Option<u32> {
    if operation.kind != Kind::Recv {
        return None;
    }
    let fits = |receive: Operation, source: u32, send: Operation| {
        let of_tag = receive.tag == send.tag || (receive.tag == ANY && send.tag < COLLECTIVE_TAGS);
        send.kind == Kind::Send
            && send.peer == rank
            && (receive.peer == ANY || receive.peer == source)
            && of_tag
    };
    let sources = if operation.peer == ANY { 0..trace.ranks() } else { operation.peer..operation.peer + 1 };
    let sends = sources.flat_map(|source| trace.of_rank(source).map(move |at| (source, at)));
    let sends: Vec<(u32, Operation)> = sends
        .map(|(source, at)| (source, trace.operation(at)))
        .filter(|&(source, send)| fits(operation, source, send))
        .collect();
    let took = |at: usize| {
        let other = trace.operation(at);
        let is_wild = other.kind == Kind::Recv && (other.peer == ANY || other.tag == ANY);
        is_wild
            && waits.of(trace, rank, at) == DONE
            && sends.iter().any(|&(source, send)| fits(other, source, send))
    };
    trace.of_rank(rank).position(took).map(|index| index as u32)
}

/// Follows the ranks that wait for each other until a rank repeats.
fn cycle(waits_for: &[Option<u32>]) -> Vec<u32> {
    let mut seen = vec![0u32; waits_for.len()];
    for start in 0..waits_for.len() {
        let walk = start as u32 + 1;
        let mut path = Vec::new();
        let mut at = start as u32;
        while seen[at as usize] == 0 {
            seen[at as usize] = walk;
            path.push(at);
            match waits_for[at as usize] {
                Some(next) => at = next,
                None => break,
            }
        }
        let closed = seen[at as usize] == walk && waits_for[at as usize].is_some();
        if let Some(first) = path.iter().position(|&rank| closed && rank == at) {
            return path.split_off(first);
        }
    }
    Vec::new()
}
