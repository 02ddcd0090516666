//! Writes binary GOAL. [`crate::read::goal_binary`] documents the layout.

use std::io::{Result, Write};

use super::Lanes;
use crate::read::goal_binary::{COOKIE, RECORD};
use crate::trace::{Kind, Operation, Trace, When};

/// Writes a trace as binary GOAL.
///
/// # Errors
/// The errors of `out`, and an error if there are fewer than two CPU numbers above those that a rank with
/// delays uses.
pub fn binary(trace: &Trace, out: &mut impl Write) -> Result<()> {
    out.write_all(&COOKIE.to_le_bytes())?;
    out.write_all(&trace.ranks().to_le_bytes())?;
    out.write_all(&highest(trace)?)?;
    let mut start = 6 + 16 * u64::from(trace.ranks());
    for rank in 0..trace.ranks() {
        let operations = trace.of_rank(rank);
        let roots = operations.clone().filter(|&at| trace.waits(at) == 0).count() as u64;
        let edges: u64 = operations.clone().map(|at| u64::from(trace.waits(at))).sum();
        let end = start + 8 + 4 * (roots + edges) + RECORD * operations.len() as u64;
        out.write_all(&start.to_le_bytes())?;
        out.write_all(&end.to_le_bytes())?;
        start = end;
    }
    (0..trace.ranks()).try_for_each(|rank| section(trace, rank, out))
}

/// The highest numbers of CPUs and of network interfaces in use.
fn highest(trace: &Trace) -> Result<[u8; 2]> {
    let mut most = [0; 2];
    for rank in 0..trace.ranks() {
        let lanes = Lanes::new(trace, rank).map_err(std::io::Error::other)?;
        for at in trace.of_rank(rank) {
            let operation = lanes.written(trace, at);
            most = [most[0].max(operation.cpu), most[1].max(operation.nic)];
        }
    }
    Ok(most)
}

fn section(trace: &Trace, rank: u32, out: &mut impl Write) -> Result<()> {
    let lanes = Lanes::new(trace, rank).map_err(std::io::Error::other)?;
    let operations = trace.of_rank(rank);
    let first = operations.start;
    let roots: Vec<u32> =
        operations.clone().filter(|&at| trace.waits(at) == 0).map(|at| (at - first) as u32).collect();
    out.write_all(&(operations.len() as u32).to_le_bytes())?;
    out.write_all(&(roots.len() as u32).to_le_bytes())?;
    for root in roots {
        out.write_all(&root.to_le_bytes())?;
    }
    let mut place = 0u32;
    for at in operations.clone() {
        record(out, lanes.written(trace, at), trace.waits(at))?;
        for when in [When::Finish, When::Start] {
            let count = trace.successors(at, when).len() as u32;
            out.write_all(&count.to_le_bytes())?;
            out.write_all(&place.to_le_bytes())?;
            place += count;
        }
    }
    for at in operations {
        for when in [When::Finish, When::Start] {
            for later in trace.successors(at, when).iter() {
                out.write_all(&later.to_le_bytes())?;
            }
        }
    }
    Ok(())
}

fn record(out: &mut impl Write, operation: Operation, waits: u32) -> Result<()> {
    let Operation { kind, peer, size, tag, cpu, nic } = operation;
    let number = match kind {
        Kind::Send => 1u8,
        Kind::Recv => 2,
        Kind::Calc | Kind::Delay => 3,
    };
    out.write_all(&waits.to_le_bytes())?;
    out.write_all(&[number])?;
    out.write_all(&peer.to_le_bytes())?;
    out.write_all(&size.to_le_bytes())?;
    out.write_all(&tag.to_le_bytes())?;
    out.write_all(&[cpu, nic])
}
