//! Converts the consecutive calls of an MPI rank to a graph of operations.

use crate::collective::{Algorithm, Call, PIECES, Round, STREAMS, Shares, StepLatency};
use crate::trace::{BuildError, COLLECTIVE_TAGS, Operation, SWITCH_NIC, TraceBuilder, When};

/// If there would be more dependencies than this between two rounds, an additional operation joins
/// them.
const JOINED_ABOVE: u64 = 16;

/// The tag of the messages of a communicator in a stream of rounds.
const fn tag(comm: u32, stream: u8) -> u32 {
    let of_stream = COLLECTIVE_TAGS / STREAMS as u32 * stream as u32;
    let comm = comm % (COLLECTIVE_TAGS - 1) + of_stream;
    COLLECTIVE_TAGS | (comm % (COLLECTIVE_TAGS - 1))
}

/// An MPI rank that makes one call after the other. The number of an operation identifies an open
/// request.
#[derive(Debug, Clone)]
pub struct Sequence {
    rank: u32,
    /// The operations for which the next operation waits.
    front: Vec<(u32, When)>,
    cpu: u8,
}

impl Sequence {
    /// Starts an empty sequence for a rank on cpu 0.
    #[must_use]
    pub const fn new(rank: u32) -> Self {
        Self::on_cpu(rank, 0)
    }

    /// Starts an empty sequence for a rank on a given CPU.
    #[must_use]
    pub const fn on_cpu(rank: u32, cpu: u8) -> Self {
        Self { rank, front: Vec::new(), cpu }
    }

    /// Starts a second sequence of the same rank on another CPU. It begins at the current position of
    /// `other`.
    #[must_use]
    pub fn fork(other: &Self, cpu: u8) -> Self {
        Self { rank: other.rank, front: other.front.clone(), cpu }
    }

    /// Adds the next operations on another CPU.
    pub(crate) const fn move_to(&mut self, cpu: u8) {
        self.cpu = cpu;
    }

    /// The rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Makes the next operation also wait for the current position of `other`.
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

    /// Adds a call that returns when its operation has finished. Returns the number of the operation.
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`].
    pub fn blocking(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<u32, BuildError> {
        let made = self.push(build, operation)?;
        self.front = vec![(made, When::Finish)];
        Ok(made)
    }

    /// Adds a computation, unless its duration is zero.
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`].
    pub fn compute(&mut self, build: &mut TraceBuilder, ns: u64) -> Result<(), BuildError> {
        if ns > 0 {
            self.blocking(build, Operation::calc(ns))?;
        }
        Ok(())
    }

    /// Adds a call that returns immediately. Returns the number of its operation, for
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`].
    pub fn start(&mut self, build: &mut TraceBuilder, operation: Operation) -> Result<u32, BuildError> {
        let made = self.push(build, operation)?;
        // When this operation has started, its own conditions are met, so the next operation need not
        // wait for them.
        self.front = vec![(made, When::Start)];
        Ok(made)
    }

    /// Makes the next operation wait until an operation has finished.
    pub fn wait(&mut self, operation: u32) {
        self.front.retain(|&(known, _)| known != operation);
        self.front.push((operation, When::Finish));
    }

    /// Adds operations that start at the same time. The next operation waits for all of them, if there are any.
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`].
    pub(crate) fn together(
        &mut self,
        build: &mut TraceBuilder,
        operations: impl Iterator<Item = Operation> + Clone,
    ) -> Result<(), BuildError> {
        let items = operations.clone().count() as u64;
        build.allow(items)?;
        // If many operations wait for many others, an operation between them reduces the number of
        // dependencies.
        if items * self.front.len() as u64 > JOINED_ABOVE {
            self.blocking(build, Operation::delay(0))?;
        }
        let mut made = Vec::with_capacity(items as usize);
        for operation in operations {
            made.push((self.push(build, operation)?, When::Finish));
        }
        if !made.is_empty() {
            self.front = made;
        }
        Ok(())
    }

    /// Adds the operations of this rank in a collective operation. `members` maps the index of a
    /// participant to its rank, and `me` is the index of this rank.
    ///
    /// The tag of the messages depends on the communicator `comm`, and differs from all tags of the
    /// application. With [`Algorithm::InNetwork`], the trace gets a rank for
    /// the reducer of the communicator, and with [`Algorithm::Nvls`], ranks for the switches within hosts.
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`], [`BuildError::Ranks`] if the rank of a reducer or a switch would exceed the largest number
    /// of ranks, [`BuildError::Mixed`], [`BuildError::Uneven`] and [`BuildError::SeveralHosts`].
    pub fn collective(
        &mut self,
        build: &mut TraceBuilder,
        call: &Call<'_>,
        members: &dyn Fn(u32) -> u32,
        me: u32,
        comm: u32,
    ) -> Result<(), BuildError> {
        let first = build.operations(self.rank);
        let (tuned, algorithm) = call.tuned(members).map_err(BuildError::from)?;
        let combiner = self.combiner(build, (call, &tuned), members, (me, comm))?;
        let latency = StepLatency::of(&tuned, call.hosts(members));
        if latency.base_ns > 0 && call.ranks > 1 {
            self.blocking(build, Operation::delay(latency.base_ns))?;
        }
        let host = |rank: u32| rank / call.ranks_per_host.max(1);
        let message = |of: fn(u32, u64, u32) -> Operation, (peer, bytes): (u32, u64), tag: u32| {
            let size = tuned.size(bytes);
            match peer.checked_sub(call.ranks) {
                None => of(members(peer), size, tag),
                Some(part) if tuned.algorithm == Algorithm::Nvls => {
                    of(combiner + part, size, tag).at_switch()
                }
                Some(_) => of(combiner, size, tag),
            }
        };
        let mut streams: Vec<Self> = Vec::new();
        let mut late = Vec::new();
        let start = self.clone();
        tuned.rounds(me, &mut |round: &Round| {
            let tag = tag(comm, round.tag);
            let recvs = round.recvs.iter().map(|&one| message(Operation::recv, one, tag));
            let sends = round.sends.iter().map(|&one| message(Operation::send, one, tag));
            let own = match round.stream.checked_sub(1) {
                None => &mut *self,
                Some(other) => {
                    let count = streams.len().max(usize::from(round.stream));
                    streams.resize_with(count, || Self::fork(&start, start.cpu));
                    &mut streams[usize::from(other)]
                }
            };
            let wait = |send: &Operation| match (send.nic == SWITCH_NIC, host(send.peer) == host(start.rank))
            {
                (true, _) => 0,
                (false, true) => latency.inner_ns,
                (false, false) => latency.outer_ns,
            };
            if !latency.is_zero() {
                let sends: Vec<(u64, Operation)> = sends.map(|send| (wait(&send), send)).collect();
                return own.delayed(build, recvs, sends, &mut late);
            }
            own.together(build, recvs.chain(sends))
        })?;
        streams.iter().for_each(|other| self.join(other));
        if !late.is_empty() {
            self.front.extend(late);
            self.blocking(build, Operation::delay(0))?;
        }
        build.mark_collective((self.rank, first, comm), call.operation.name(), algorithm);
        Ok(())
    }

    /// The first of the ranks that combine data for a collective operation, if the algorithm has any. `call` is the call with the
    /// number of ranks on each host, and `tuned` with that of participants.
    fn combiner(
        &self,
        build: &mut TraceBuilder,
        (call, tuned): (&Call<'_>, &Call<'_>),
        members: &dyn Fn(u32) -> u32,
        (me, comm): (u32, u32),
    ) -> Result<u32, BuildError> {
        if tuned.algorithm != Algorithm::Nvls || tuned.ranks_per_host <= 1 {
            return Ok(build.reducer(tuned, members, me, (comm, tag(comm, 0)))?.unwrap_or_default());
        }
        let first = me / tuned.ranks_per_host * tuned.ranks_per_host;
        let participants = (first..first + tuned.ranks_per_host).map(members);
        build.switch(participants, (self.rank, call.ranks_per_host), (comm, tuned.shares()))
    }

    /// Adds the messages of a round, of which some are sent after a number of ns. The next operation waits for all of them except
    /// those, which are added to `late`: the latency of a message delays those that depend on it, and not the next ones.
    fn delayed(
        &mut self,
        build: &mut TraceBuilder,
        recvs: impl Iterator<Item = Operation> + Clone,
        sends: Vec<(u64, Operation)>,
        late: &mut Vec<(u32, When)>,
    ) -> Result<(), BuildError> {
        let mut delays: Vec<u64> = sends.iter().map(|&(ns, _)| ns).filter(|&ns| ns > 0).collect();
        delays.sort_unstable();
        delays.dedup();
        for ns in delays {
            let delay = self.push(build, Operation::delay(ns))?;
            for &(_, send) in sends.iter().filter(|send| send.0 == ns) {
                let made = build.push(self.rank, send.on(self.cpu))?;
                build.wait(self.rank, made, delay, When::Finish)?;
                late.push((made, When::Finish));
            }
        }
        let now = sends.into_iter().filter(|&(ns, _)| ns == 0).map(|(_, send)| send);
        self.together(build, recvs.chain(now))
    }
}

/// A collective operation of the ranks of a host that its switch executes.
#[derive(Debug)]
pub(crate) struct Switched {
    /// The rank of the switch that adds shares. The next one copies results.
    pub first: u32,
    /// The ranks, in the order of their shares.
    pub participants: Vec<u32>,
    /// The communicator.
    pub comm: u32,
    /// The division of the vector.
    pub shares: Shares,
}

impl Switched {
    /// Adds the operations of the switch.
    pub fn add(&self, build: &mut TraceBuilder) -> Result<(), BuildError> {
        let (adder, copier) = (self.first, self.first + 1);
        let of_pieces = tag(self.comm, PIECES);
        let Shares { is_added, is_copied, .. } = self.shares;
        for (head, flow, bytes) in self.shares.pieces() {
            let head = self.participants[head as usize];
            if is_added {
                let of_sum = tag(self.comm, flow);
                let sum = build.push(adder, Operation::send(head, bytes, of_sum).at_switch())?;
                for &rank in &self.participants {
                    let piece = build.push(adder, Operation::recv(rank, bytes, of_pieces).at_switch())?;
                    build.wait(adder, sum, piece, When::Finish)?;
                }
            }
            if is_copied {
                let of_result = tag(self.comm, Shares::results(flow));
                let result = build.push(copier, Operation::recv(head, bytes, of_result).at_switch())?;
                for &rank in &self.participants {
                    let copy = build.push(copier, Operation::send(rank, bytes, of_pieces).at_switch())?;
                    build.wait(copier, copy, result, When::Finish)?;
                }
            }
        }
        Ok(())
    }
}
