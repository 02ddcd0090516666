//! Converts the consecutive calls of an MPI rank to a graph of operations.

use crate::collective::{Algorithm, Call, Round, STREAMS};
use crate::trace::{BuildError, COLLECTIVE_TAGS, Operation, TraceBuilder, When};

/// If there would be more dependencies than this between two rounds, an additional operation joins
/// them.
const JOINED_ABOVE: u64 = 16;

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
    /// application. With [`Algorithm::InNetwork`](crate::collective::Algorithm::InNetwork), the trace gets a rank for
    /// the reducer of the communicator.
    ///
    /// # Errors
    /// Same as [`TraceBuilder::push`], [`BuildError::Ranks`] if the rank of a reducer would exceed the largest number of ranks,
    /// and [`BuildError::Uneven`].
    pub fn collective(
        &mut self,
        build: &mut TraceBuilder,
        call: &Call<'_>,
        members: &dyn Fn(u32) -> u32,
        me: u32,
        comm: u32,
    ) -> Result<(), BuildError> {
        let tag = |stream: u8| {
            let of_stream = COLLECTIVE_TAGS / u32::from(STREAMS) * u32::from(stream);
            let comm = comm % (COLLECTIVE_TAGS - 1) + of_stream;
            COLLECTIVE_TAGS | (comm % (COLLECTIVE_TAGS - 1))
        };
        let first = build.operations(self.rank);
        let (call, protocol, algorithm) = call.tuned(members);
        let reducer = build.reducer(&call, members, me, (comm, tag(0)))?;
        let call = &Call { ranks_per_host: of_host(&call, members)?, ..call };
        let mut streams: Vec<Self> = Vec::new();
        let start = self.clone();
        call.rounds(me, &mut |round: &Round| {
            let named = |peer| reducer.filter(|_| peer == call.reducer()).unwrap_or_else(|| members(peer));
            let tag = tag(round.stream);
            let recvs = round
                .recvs
                .iter()
                .map(|&(peer, bytes)| Operation::recv(named(peer), protocol.size(bytes), tag));
            let sends = round
                .sends
                .iter()
                .map(|&(peer, bytes)| Operation::send(named(peer), protocol.size(bytes), tag));
            let messages = recvs.chain(sends);
            let Some(other) = round.stream.checked_sub(1) else { return self.together(build, messages) };
            streams
                .resize_with(streams.len().max(usize::from(round.stream)), || Self::fork(&start, start.cpu));
            streams[usize::from(other)].together(build, messages)
        })?;
        streams.iter().for_each(|other| self.join(other));
        build.mark_collective((self.rank, first, comm), call.operation.name(), algorithm);
        Ok(())
    }
}

/// The number of participants on each host, for [`Algorithm::Hierarchical`] and several rings: consecutive ranks share a host.
/// Hosts with different numbers of participants have one ring.
fn of_host(call: &Call<'_>, members: &dyn Fn(u32) -> u32) -> Result<u32, BuildError> {
    let is_ring = call.algorithm == Algorithm::Ring && call.channels > 1;
    if call.algorithm != Algorithm::Hierarchical && !is_ring {
        return Ok(1);
    }
    let host = |place: u32| members(place) / call.ranks_per_host.max(1);
    let each = (0..call.ranks).take_while(|&place| host(place) == host(0)).count() as u32;
    // Each block of participants shares a host, and the next block has another one.
    let is_block = |place: u32| host(place) == host(place / each * each);
    let is_even = (0..call.ranks).all(|place| {
        is_block(place) && (place < each || !place.is_multiple_of(each) || host(place) != host(place - each))
    });
    match is_even && call.ranks.is_multiple_of(each) {
        true => Ok(each),
        false if is_ring => Ok(1),
        false => Err(BuildError::Uneven(each)),
    }
}
