//! Writes GOAL text.

use std::io::{Result, Write};

use super::Lanes;
use crate::trace::{ANY, Kind, Operation, Trace, When};

/// Writes a trace as text GOAL.
///
/// # Errors
/// The errors of `out`, and an error if there are fewer than two CPU numbers above those that a rank with
/// delays uses.
pub fn text(trace: &Trace, out: &mut impl Write) -> Result<()> {
    writeln!(out, "num_ranks {}", trace.ranks())?;
    for rank in 0..trace.ranks() {
        let lanes = Lanes::new(trace, rank).map_err(std::io::Error::other)?;
        writeln!(out, "\nrank {rank} {{")?;
        let first = trace.first(rank);
        for at in trace.of_rank(rank) {
            write!(out, "l{}: ", at - first)?;
            operation(out, lanes.written(trace, at))?;
        }
        // Write dependencies after all operations: both labels must be defined first, and a
        // dependency may refer to a later operation.
        for at in trace.of_rank(rank) {
            for (when, word) in [(When::Finish, "requires"), (When::Start, "irequires")] {
                for later in trace.successors(at, when).iter() {
                    writeln!(out, "l{later} {word} l{}", at - first)?;
                }
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn operation(out: &mut impl Write, operation: Operation) -> Result<()> {
    let Operation { kind, peer, size, tag, cpu, nic } = operation;
    let any = |number: u32| if number == ANY { "-1".to_owned() } else { number.to_string() };
    match kind {
        Kind::Send => write!(out, "send {size}b to {peer}")?,
        Kind::Recv => write!(out, "recv {size}b from {}", any(peer))?,
        Kind::Calc | Kind::Delay => write!(out, "calc {size}")?,
    }
    let message = matches!(kind, Kind::Send | Kind::Recv);
    if message && tag != 0 {
        write!(out, " tag {}", any(tag))?;
    }
    if cpu != 0 {
        write!(out, " cpu {cpu}")?;
    }
    if message && nic != 0 {
        write!(out, " nic {nic}")?;
    }
    writeln!(out)
}
