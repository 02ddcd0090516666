//! All-reduce, all-gather and reduce-scatter by switches within hosts, as by NVLS of NCCL (`NVLink` SHARP).
//!
//! In an all-reduce, each rank of a host is the *head* of a share of the vector. It reads the sum of the share from the switch,
//! which reads the share from all ranks, and writes the result to the switch, which writes it to all ranks. If there are several
//! hosts, heads with the same number reduce their sums in two binary trees before (NVLS tree).
//!
//! ```text
//!   ranks --S--> adder --S/G--> head --S/G--> copier --S--> ranks
//!                                | ^
//!                           heads of other hosts
//! ```
//!
//! The link of each rank carries the vector and one share in each direction, (1 + 1/G) S, instead of 2 (G - 1)/G S in a ring.
//! The switch has two ranks in the trace: the adder and the copier. They begin with a piece as soon as it has arrived, and have
//! buffers for all pieces.
//!
//! In an all-gather of blocks of B bytes, each rank writes its block to the copier, and in a reduce-scatter, it reads the sum of
//! its block from the adder. All ranks must be on one host, whose links carry G B in one direction and B in the other one. In a
//! ring, they carry (G - 1) B in both.

use super::trees::{self, HalfVector, Pipeline};
use super::{ANY_BYTES, Call, Collective, Round, Take, part};

/// Number of ranks in a trace that stand for the switch of a host: the adder and the copier.
pub(crate) const SWITCH_PARTS: u32 = 2;
/// The number of halves of streams of a head. Each has a stream of rounds for pieces on the way to the root of its tree.
const FLOWS: u8 = 2 * trees::TREE_STREAMS as u8;
/// The stream of pieces between ranks and the switch. Those with results follow it.
pub(crate) const PIECES: u8 = FLOWS;

/// How data is divided among heads, streams and chunks.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    /// The bytes of each head.
    of_heads: Vec<u64>,
    /// Number of streams of an all-reduce, each with two halves; 0 for other operations, which have no trees.
    streams: u8,
    /// Number of chunks of each half of each stream, or of each share.
    count: u64,
    /// Whether the adder and the copier have a part.
    pub is_added: bool,
    pub is_copied: bool,
}

impl Shares {
    fn new(of_heads: Vec<u64>, operation: Collective, chunk: u64) -> Self {
        let most = of_heads.iter().copied().max().unwrap_or_default();
        let reduces_all = operation == Collective::AllReduce;
        let streams = if reduces_all { trees::streams(most, chunk) } else { 0 };
        let of_flow = match streams {
            0 => most,
            streams => most.div_ceil(u64::from(streams)).div_ceil(2),
        };
        let count = of_flow.div_ceil(chunk.max(1)).max(1);
        let is_added = operation != Collective::AllGather;
        Self { of_heads, streams, count, is_added, is_copied: operation != Collective::ReduceScatter }
    }

    /// The half of a stream of a head that is reduced in one of the trees.
    fn half(&self, head: u32, stream: u8, is_first: bool) -> HalfVector {
        let of_head = self.of_heads[head as usize];
        trees::half(part(of_head, u64::from(self.streams), u64::from(stream)), is_first, self.count)
    }

    /// The stream of the results of a stream of pieces.
    pub const fn results(flow: u8) -> u8 {
        PIECES + 1 + flow
    }

    /// All pieces in the order in which they are sent: head, stream of the messages of heads,
    /// and bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, u8, u64)> {
        let of_head = move |head: u32, flow: u8, number: u64| match self.streams {
            0 => Some(part(self.of_heads[head as usize], self.count, number)),
            _ => self.half(head, flow / 2, flow.is_multiple_of(2)).chunk(Some(number)),
        };
        (0..self.count).flat_map(move |number| {
            (0..(2 * self.streams).max(1)).flat_map(move |flow| {
                let heads = 0..self.of_heads.len() as u32;
                heads.filter_map(move |head| Some((head, flow, of_head(head, flow, number)?)))
            })
        })
    }
}

impl Call<'_> {
    /// How the data is divided among the participants of a host.
    pub(crate) fn shares(&self) -> Shares {
        let heads = 0..self.ranks_per_host;
        let of_head = |head: u32| match self.operation {
            Collective::AllReduce => part(self.vector(), u64::from(self.ranks_per_host), u64::from(head)),
            _ => self.block(head),
        };
        Shares::new(heads.map(of_head).collect(), self.operation, self.chunk)
    }
}

/// A round of messages with one part of the switch.
fn with_switch(stream: u8, sends: Vec<(u32, u64)>, recvs: Vec<(u32, u64)>) -> Round {
    Round { sends, recvs, stream, tag: stream }
}

/// Each rank writes its block to the copier, which writes it to all ranks. The peer of a rank after all participants is the
/// adder, and the next one the copier.
pub(super) fn all_gather<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let (shares, copier) = (call.shares(), call.ranks + 1);
    let own = shares.pieces().filter(|&(head, ..)| head == me).map(|(.., bytes)| (copier, bytes));
    take(&with_switch(Shares::results(0), own.collect(), Vec::new()))?;
    // The pieces of heads arrive in any order.
    let all = shares.pieces().map(|_| (copier, ANY_BYTES));
    take(&with_switch(PIECES, Vec::new(), all.collect()))
}

/// The adder reads each block from all ranks, and the rank of the block reads the sum.
pub(super) fn reduce_scatter<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let (shares, adder) = (call.shares(), call.ranks);
    let all = shares.pieces().map(|(.., bytes)| (adder, bytes));
    take(&with_switch(PIECES, all.collect(), Vec::new()))?;
    let own = shares.pieces().filter(|&(head, ..)| head == me).map(|(.., bytes)| (adder, bytes));
    take(&with_switch(0, Vec::new(), own.collect()))
}

/// The peers of a rank after all participants are the adder and the copier of its host.
pub(super) fn all_reduce<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    if call.ranks_per_host <= 1 {
        return trees::all_reduce(call, me, take);
    }
    let (each, shares) = (call.ranks_per_host, call.shares());
    let (adder, copier) = (call.ranks, call.ranks + 1);
    let sends = shares.pieces().map(|(.., bytes)| (adder, bytes)).collect();
    // The pieces of heads arrive in any order.
    let recvs = shares.pieces().map(|_| (copier, ANY_BYTES)).collect();
    take(&Round { sends, recvs, stream: PIECES, tag: PIECES })?;
    let own = me % each;
    for flow in 0..2 * shares.streams {
        let is_first = flow.is_multiple_of(2);
        let trees = [(is_first, shares.half(own, flow / 2, is_first))];
        let (ranks, switch) = (call.ranks / each, Some((adder, copier)));
        let results = Some(Shares::results(flow));
        let heads = Pipeline { ranks, me: me / each, trees: &trees, switch, stream: flow, results };
        heads.rounds(&|host| host * each + own, take)?;
    }
    Ok(())
}
