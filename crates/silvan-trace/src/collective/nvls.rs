//! All-reduce by switches within hosts, as by NVLS of NCCL (`NVLink` SHARP).
//!
//! Each rank of a host is the *head* of a share of the vector. It reads the sum of the share from the switch, which reads the
//! share from all ranks, and writes the result to the switch, which writes it to all ranks. If there are several hosts, heads
//! with the same number reduce their sums in two binary trees before (NVLS tree).
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

use super::trees::{self, HalfVector, Pipeline};
use super::{ANY_BYTES, Call, Round, Take, part};

/// Number of ranks in a trace that stand for the switch of a host: the adder and the copier.
pub(crate) const SWITCH_PARTS: u32 = 2;
/// The number of halves of streams of a head. Each has a stream of rounds for pieces on the way to the root of its tree.
const FLOWS: u8 = 2 * trees::TREE_STREAMS as u8;
/// The stream of pieces between ranks and the switch. Those with results follow it.
pub(crate) const PIECES: u8 = FLOWS;

/// How a vector is divided among heads, streams and chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    bytes: u64,
    heads: u32,
    streams: u8,
    /// Number of chunks of each half of each stream.
    count: u64,
}

impl Shares {
    fn new(bytes: u64, heads: u32, chunk: u64) -> Self {
        let most = bytes.div_ceil(u64::from(heads));
        let streams = trees::streams(most, chunk);
        let of_stream = most.div_ceil(u64::from(streams));
        let count = of_stream.div_ceil(2).div_ceil(chunk.max(1)).max(1);
        Self { bytes, heads, streams, count }
    }

    /// The half of a stream of a head that is reduced in one of the trees.
    fn half(&self, head: u32, stream: u8, is_first: bool) -> HalfVector {
        let of_head = part(self.bytes, u64::from(self.heads), u64::from(head));
        trees::half(part(of_head, u64::from(self.streams), u64::from(stream)), is_first, self.count)
    }

    /// The stream of the results of a stream of pieces.
    pub const fn results(flow: u8) -> u8 {
        PIECES + 1 + flow
    }

    /// All pieces in the order in which they are sent: head, stream of the messages of heads,
    /// and bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, u8, u64)> {
        let halves = move |number: u64| {
            (0..2 * self.streams).flat_map(move |flow| {
                (0..self.heads).filter_map(move |head| {
                    let bytes = self.half(head, flow / 2, flow.is_multiple_of(2)).chunk(Some(number))?;
                    Some((head, flow, bytes))
                })
            })
        };
        (0..self.count).flat_map(halves)
    }
}

impl Call<'_> {
    /// How the vector is divided among the participants of a host.
    pub(crate) fn shares(&self) -> Shares {
        Shares::new(self.vector(), self.ranks_per_host, self.chunk)
    }
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
