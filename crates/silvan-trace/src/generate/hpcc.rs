//! The kernels of HPC Challenge, with the communication of version 1.5.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;

use super::{Group, computing, speed, text, within};
use crate::collective::{Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{ANY, MAX_RANKS, Operation, Trace, TraceBuilder};

/// A kernel of HPC Challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Round trips of messages between two ranks. The pairs of ranks run one after another.
    PingPong,
    /// Each rank exchanges messages with its two neighbors.
    NaturalRing,
    /// Like `natural-ring`, with the ranks in random order.
    RandomRing,
    /// Transpose of a matrix that is distributed in blocks over a grid of ranks.
    Ptrans,
    /// Solution of a dense system of linear equations by LU factorization.
    Hpl,
    /// One-dimensional Fourier transform: all-to-all exchanges between local transforms.
    Fft,
    /// Updates at random positions of a table.
    RandomAccess,
}

/// A kernel of HPC Challenge with its sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Kernels {
    /// The kernel.
    pub kernel: Kernel,
    /// Number of ranks.
    pub ranks: u32,
    /// Message size in bytes (ping-pong, rings): 8 for latency, 2,000,000 for bandwidth.
    pub bytes: u64,
    /// Number of repetitions.
    pub iterations: u32,
    /// Maximum number of pairs in the ping-pong. If there are more pairs, an evenly distributed subset is used.
    pub pairs: u32,
    /// Order of the matrix (PTRANS, HPL).
    pub n: u64,
    /// Order of the matrix blocks (PTRANS, HPL).
    pub nb: u64,
    /// Number of points of the transform; each is a complex number of 16 bytes.
    pub points: u64,
    /// Number of messages that each rank sends (RandomAccess).
    pub messages: u32,
    /// Whether calls block (PTRANS, RandomAccess): in PTRANS, a rank exchanges its blocks with one rank after the
    /// other; in RandomAccess, it begins to send a message when the previous send has finished.
    pub blocking: bool,
    /// Speed of a rank, in flop/s.
    pub flops: f64,
    /// Seed of random choices.
    pub seed: u64,
}

impl Default for Kernels {
    fn default() -> Self {
        Self {
            kernel: Kernel::NaturalRing,
            ranks: 8,
            bytes: 2_000_000,
            iterations: 1,
            pairs: 28,
            n: 2048,
            nb: 64,
            points: 1 << 20,
            messages: 256,
            blocking: false,
            flops: 1e10,
            seed: 1,
        }
    }
}

/// The state while a trace is generated.
pub(super) struct Work<'w> {
    pub(super) sizes: &'w Kernels,
    pub(super) algorithms: &'w Choice,
    pub(super) build: TraceBuilder,
    pub(super) ranks: Vec<Sequence>,
}

impl Kernels {
    /// Generates the trace; collective operations use `algorithms`.
    ///
    /// # Errors
    /// If a size is out of range, an algorithm does not support the operation, or the trace would have more
    /// than `limit` operations and dependencies.
    pub fn trace(&self, algorithms: &Choice, limit: u64) -> Result<Trace, String> {
        within("ranks", u64::from(self.ranks), 2, u64::from(MAX_RANKS))?;
        within("iterations", u64::from(self.iterations), 1, 1 << 20)?;
        within("bytes", self.bytes, 0, 1 << 50)?;
        speed("flops", self.flops)?;
        let build = TraceBuilder::new(u64::from(self.ranks), limit).map_err(text)?;
        let ranks = (0..self.ranks).map(Sequence::new).collect();
        let mut work = Work { sizes: self, algorithms, build, ranks };
        match self.kernel {
            Kernel::PingPong => work.ping_pong()?,
            Kernel::NaturalRing => work.ring(&(0..self.ranks).collect::<Vec<_>>())?,
            Kernel::RandomRing => {
                let mut order: Vec<u32> = (0..self.ranks).collect();
                Stream::new(self.seed, "random ring", 0).shuffle(&mut order);
                work.ring(&order)?;
            }
            Kernel::Ptrans => work.transpose()?,
            Kernel::Hpl => work.factorize()?,
            Kernel::Fft => work.transform()?,
            Kernel::RandomAccess => work.update()?,
        }
        work.build.finish().map_err(text)
    }
}

/// The numbers of rows and columns of the grid of ranks, which is as square as possible and has at most as many
/// rows as columns.
pub(super) fn grid(ranks: u32) -> (u32, u32) {
    let rows = (1..=ranks.isqrt()).rev().find(|rows| ranks.is_multiple_of(*rows)).unwrap_or(1);
    (rows, ranks / rows)
}

impl Work<'_> {
    pub(super) fn compute(&mut self, rank: u32, flops: f64) -> Result<(), String> {
        let ns = computing(flops, self.sizes.flops);
        self.ranks[rank as usize].compute(&mut self.build, ns).map_err(text)
    }

    /// Adds concurrent sends and receives of all ranks, and waits for all of them.
    fn exchange(&mut self, messages: impl Iterator<Item = (u32, u32, u64)>, tag: u32) -> Result<(), String> {
        let mut open: Vec<(u32, u32)> = Vec::new();
        for (from, to, bytes) in messages {
            let ends = [(to, Operation::recv(from, bytes, tag)), (from, Operation::send(to, bytes, tag))];
            for (rank, operation) in ends {
                let made = self.ranks[rank as usize].start(&mut self.build, operation).map_err(text)?;
                open.push((rank, made));
            }
        }
        open.into_iter().for_each(|(rank, made)| self.ranks[rank as usize].wait(made));
        Ok(())
    }

    pub(super) fn collective(
        &mut self,
        group: &Group,
        operation: Collective,
        bytes: u64,
    ) -> Result<(), String> {
        for &rank in &group.members {
            let sequence = &mut self.ranks[rank as usize];
            group.collective(&mut self.build, sequence, operation, Sizes::Uniform(bytes), self.algorithms)?;
        }
        Ok(())
    }

    fn ping_pong(&mut self) -> Result<(), String> {
        let ranks = u64::from(self.sizes.ranks);
        let all = ranks * (ranks - 1) / 2;
        let wanted = u64::from(self.sizes.pairs).min(all);
        within("pairs", wanted, 1, all)?;
        let world = Group { number: 0, members: (0..self.sizes.ranks).collect() };
        let mut pairs = (0..self.sizes.ranks).flat_map(|a| (a + 1..self.sizes.ranks).map(move |b| (a, b)));
        let mut gone = 0;
        for number in 0..wanted {
            let place = number * all / wanted;
            let Some((one, other)) = pairs.nth((place - gone) as usize) else { break };
            gone = place + 1;
            for _ in 0..self.sizes.iterations {
                for (from, to) in [(one, other), (other, one)] {
                    let send = Operation::send(to, self.sizes.bytes, 0);
                    self.ranks[from as usize].blocking(&mut self.build, send).map_err(text)?;
                    let recv = Operation::recv(from, self.sizes.bytes, 0);
                    self.ranks[to as usize].blocking(&mut self.build, recv).map_err(text)?;
                }
            }
            self.collective(&world, Collective::Barrier, 0)?;
        }
        Ok(())
    }

    fn ring(&mut self, order: &[u32]) -> Result<(), String> {
        let (ranks, bytes) = (order.len(), self.sizes.bytes);
        for _ in 0..self.sizes.iterations {
            // Use different tags to the right and to the left, because with two ranks both neighbors are the same
            // rank.
            for (tag, step) in [(200, 1), (201, ranks - 1)] {
                let to = |place: usize| order[(place + step) % ranks];
                self.exchange((0..ranks).map(|place| (order[place], to(place), bytes)), tag)?;
            }
        }
        Ok(())
    }

    /// Exchanges blocks: block (i, j) is on rank (i mod rows, j mod columns) and moves to the rank of block (j,
    /// i).
    fn transpose(&mut self) -> Result<(), String> {
        let Kernels { n, nb, ranks, blocking, .. } = *self.sizes;
        within("nb", nb, 1, 1 << 20)?;
        within("n", n, nb, 1 << 24)?;
        let (rows, columns) = grid(ranks);
        let period = u64::from(rows) * u64::from(columns) / gcd(u64::from(rows), u64::from(columns));
        let blocks = n / nb;
        // The number of elements in all blocks whose number has a given remainder. The last block may be smaller.
        let elements = |rest: u64| {
            let whole = (blocks + period - 1 - rest) / period * nb;
            whole + if blocks % period == rest { n % nb } else { 0 }
        };
        let mut bytes = std::collections::BTreeMap::new();
        for i in 0..period {
            for j in 0..period {
                let rank =
                    |i: u64, j: u64| (i % u64::from(rows)) as u32 * columns + (j % u64::from(columns)) as u32;
                *bytes.entry((rank(i, j), rank(j, i))).or_insert(0) += 8 * elements(i) * elements(j);
            }
        }
        for _ in 0..self.sizes.iterations {
            let messages = bytes.iter().filter(|&(&(from, to), &bytes)| from != to && bytes > 0);
            let messages = messages.map(|(&(from, to), &bytes)| (from, to, bytes));
            if blocking {
                for step in 1..ranks {
                    let is_now = |&(from, to, _): &(u32, u32, u64)| (to + ranks - from) % ranks == step;
                    self.exchange(messages.clone().filter(is_now), 0)?;
                }
            } else {
                self.exchange(messages, 0)?;
            }
            // Adding the other matrix takes one operation per element.
            for rank in 0..ranks {
                self.compute(rank, (n * n) as f64 / f64::from(ranks))?;
            }
        }
        Ok(())
    }

    /// Adds the transform: three all-to-all exchanges, with local transforms between them.
    fn transform(&mut self) -> Result<(), String> {
        let Kernels { points, ranks, .. } = *self.sizes;
        within("points", points, u64::from(ranks) * u64::from(ranks), 1 << 44)?;
        let world = Group { number: 0, members: (0..ranks).collect() };
        let block = 16 * points / (u64::from(ranks) * u64::from(ranks));
        let flops = 5.0 * points as f64 * (points as f64).log2() / f64::from(ranks);
        for _ in 0..self.sizes.iterations {
            for step in 0..3 {
                self.collective(&world, Collective::AllToAll, block)?;
                for rank in 0..if step < 2 { ranks } else { 0 } {
                    self.compute(rank, flops / 2.0)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the updates of the table. A rank has 1024 updates in progress, and those for the same rank form one
    /// message.
    fn update(&mut self) -> Result<(), String> {
        let Kernels { ranks, messages, seed, blocking, .. } = *self.sizes;
        within("messages", u64::from(messages), 1, 1 << 24)?;
        let bytes = 8 * (1024 / u64::from(ranks)).max(1);
        let mut expected = vec![0u32; ranks as usize];
        let mut sends = Vec::new();
        for rank in 0..ranks {
            let mut random = Stream::new(seed, "random access", u64::from(rank));
            for _ in 0..messages {
                let to = (rank + 1 + random.below(ranks - 1)) % ranks;
                expected[to as usize] += 1;
                sends.push((rank, Operation::send(to, bytes, 1)));
            }
        }
        let mut open = Vec::new();
        let receives = (0..ranks).flat_map(|rank| {
            (0..expected[rank as usize]).map(move |_| (rank, Operation::recv(ANY, bytes, 1)))
        });
        for (rank, operation) in receives {
            let made = self.ranks[rank as usize].start(&mut self.build, operation).map_err(text)?;
            open.push((rank, made));
        }
        for (rank, operation) in sends {
            let sequence = &mut self.ranks[rank as usize];
            if blocking {
                sequence.blocking(&mut self.build, operation).map_err(text)?;
            } else {
                open.push((rank, sequence.start(&mut self.build, operation).map_err(text)?));
            }
        }
        open.into_iter().for_each(|(rank, made)| self.ranks[rank as usize].wait(made));
        let world = Group { number: 0, members: (0..ranks).collect() };
        self.collective(&world, Collective::Barrier, 0)
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
