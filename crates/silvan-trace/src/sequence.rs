//! The calls of an MPI rank, one after the other, as a graph of operations.

use crate::collective::{Call, Round};
use crate::trace::{BuildError, COLLECTIVE_TAGS, Kind, Operation, TraceBuilder, When};

/// More dependencies than these between two rounds go through one operation.
const JOINED_ABOVE: u64 = 16;

/// A rank that makes one call after the other; open requests are waited for by name.
#[derive(Debug, Clone)]
pub struct Sequence {
    rank: u32,
    /// What the next operation waits for.
    front: Vec<(u32, When)>,
    cpu: u8,
}

impl Sequence {
    /// The rank's calls from the start on.
    #[must_use]
    pub const fn new(rank: u32) -> Self {
        Self::on_cpu(rank, 0)
    }

    /// The same on another cpu.
    #[must_use]
    pub const fn on_cpu(rank: u32, cpu: u8) -> Self {
        Self { rank, front: Vec::new(), cpu }
    }

    /// A second sequence of the same rank on a cpu of its own, that starts where `other` is.
    #[must_use]
    pub fn beside(other: &Self, cpu: u8) -> Self {
        Self { rank: other.rank, front: other.front.clone(), cpu }
    }

    /// The rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Lets what follows wait for all that `other` has come to, too.
    pub fn join(&mut self, other: &Self) {
        let more: Vec<_> = other.front.iter().filter(|one| !self.front.contains(one)).copied().collect();
        self.front.extend(more);
    }

    fn push(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<u32, BuildError> {
        let made = build.push(self.rank, operation.on(self.cpu))?;
        for &(earlier, when) in &self.front {
            build.wait(self.rank, made, earlier, when)?;
        }
        Ok(made)
    }

    /// A call that returns when the operation has finished; gives its number.
    ///
    /// # Errors
    /// As [`TraceBuilder::push`].
    pub fn blocking(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<u32, BuildError> {
        let made = self.push(build, operation)?;
        self.front = vec![(made, When::Finish)];
        Ok(made)
    }

    /// Computing; none for no time.
    ///
    /// # Errors
    /// As [`TraceBuilder::push`].
    pub fn compute(&mut self, build: &mut TraceBuilder, ns: u64) -> Result<(), BuildError> {
        if ns > 0 {
            self.blocking(build, Operation::calc(ns))?;
        }
        Ok(())
    }

    /// A call that returns at once; gives the number to [`wait`](Self::wait) for.
    ///
    /// # Errors
    /// As [`TraceBuilder::push`].
    pub fn start(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<u32, BuildError> {
        let made = self.push(build, operation)?;
        // It has started only when all before it has finished.
        self.front = vec![(made, When::Start)];
        Ok(made)
    }

    /// Waits until an operation has finished.
    pub fn wait(&mut self, operation: u32) {
        self.front.retain(|&(known, _)| known != operation);
        self.front.push((operation, When::Finish));
    }

    /// The part of this rank in a collective operation over `members`, of which it is number `me`.
    ///
    /// Its messages carry a tag of the communicator `comm`, apart from those of the application.
    ///
    /// # Errors
    /// As [`TraceBuilder::push`].
    pub fn collective(
        &mut self,
        build: &mut TraceBuilder,
        call: &Call<'_>,
        members: &dyn Fn(u32) -> u32,
        me: u32,
        comm: u32,
    ) -> Result<(), BuildError> {
        let tag = COLLECTIVE_TAGS | (comm % (COLLECTIVE_TAGS - 1));
        let first = build.operations(self.rank);
        call.rounds(me, &mut |round: &Round| {
            let items = (round.sends.len() + round.recvs.len()) as u64;
            build.allow(items)?;
            // Many that wait for many: one in between takes them together.
            if items * self.front.len() as u64 > JOINED_ABOVE {
                self.blocking(build, Operation::delay(0))?;
            }
            let mut made = Vec::with_capacity(items as usize);
            let list = [(Kind::Recv, &round.recvs), (Kind::Send, &round.sends)];
            for (kind, messages) in list {
                for &(peer, bytes) in messages {
                    let peer = members(peer);
                    let operation = match kind {
                        Kind::Send => Operation::send(peer, bytes, tag),
                        _ => Operation::recv(peer, bytes, tag),
                    };
                    made.push((self.push(build, operation)?, When::Finish));
                }
            }
            if !made.is_empty() {
                self.front = made;
            }
            Ok(())
        })?;
        build.mark_collective((self.rank, first, comm), call.operation.name(), call.algorithm.name());
        Ok(())
    }
}
