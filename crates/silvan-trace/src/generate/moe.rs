//! Layers of a mixture of experts with expert parallelism.
//!
//! In each layer, a router selects `top_k` experts for each token. The rank of the token dispatches it to the ranks of these
//! experts, and combines what they return. Both are all-to-all exchanges of blocks of different sizes. The numbers of tokens
//! are expected values (see [`super::experts`]), rounded so that the tokens for each destination are right in total.
//!
//! In the backward pass, the gradients of the results go the way of the tokens, and those of the tokens the way of the
//! results. Both computations of a layer take twice as long.

use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;
use silvan_engine::{Bytes, Time};

use super::experts::{
    Held, MOST_DRAWN, MOST_ZIPF, Popularity, copies, popularity, popularity_of_copies, zipf,
};
use super::{Group, text, within};
use crate::collective::{Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{MAX_RANKS, Trace, TraceBuilder};

/// Most products of weights for the tokens of a layer with copies of experts.
const MOST_PRODUCTS: u64 = 1 << 30;

/// The ranks of the experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertPlacement {
    /// The first experts are on the first rank, the next ones on the second, and so on.
    #[default]
    Contiguous,
    /// The first expert is on the first rank, the second one on the second rank, and so on.
    RoundRobin,
    /// The most popular experts first, each on the rank with the fewest tokens that has room for it.
    Balanced,
}

/// How often a token is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// Once to each rank with one of its experts.
    #[default]
    Rank,
    /// Once to each host with one of its experts: to the rank with the same number as the sender, which passes it on to the
    /// ranks of its host when it has the tokens of all hosts. Results return in the opposite order. The job needs
    /// `ranks_per_host`.
    Host,
}

/// Layers of a mixture of experts: inference, or with `backward` a training step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Moe {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of experts. Together with `redundant`, a multiple of `ranks`.
    pub experts: u32,
    /// Number of additional copies of experts. Each is a copy of the expert whose copies have the most tokens. Tokens use all
    /// copies of an expert equally often. Copies follow the experts in the order of `placement`.
    pub redundant: u32,
    /// Number of different experts that process a token, 1 to 32.
    #[schemars(range(min = 1, max = 32))]
    pub top_k: u32,
    /// Tokens per rank.
    pub tokens: u64,
    /// Size of a token on its way to the experts.
    pub dispatch_bytes: Bytes,
    /// Size of a token on its way back.
    pub combine_bytes: Bytes,
    /// Number of layers.
    pub layers: u32,
    /// Number of forward passes through all layers, or of training steps. A rank starts one when it has finished the previous
    /// one.
    pub steps: u32,
    /// Whether a step also has a backward pass, in which computations take twice as long.
    pub backward: bool,
    /// Size of the gradient of a token in the backward pass, on its way to the experts and back. Default: `combine_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_bytes: Option<Bytes>,
    /// Size of the gradients of all weights that each rank holds, such as those of the attention. All ranks reduce them after
    /// the backward pass of a step, by the algorithm for all-reduce.
    pub shared_gradients: Bytes,
    /// Computation time of the experts of a rank per layer, if it processes the mean number of tokens. It is proportional to
    /// the number of tokens.
    pub expert_compute: Time,
    /// Computation time of a rank per layer before the dispatch.
    pub other_compute: Time,
    /// The ranks of the experts.
    pub placement: ExpertPlacement,
    /// Popularity of the experts by Zipf's law: expert i has weight i^-zipf. Default: 0, equal weights.
    #[schemars(range(min = 0.0, max = 4.0))]
    pub zipf: f64,
    /// The weight of each expert, instead of `zipf`. All experts of a token are drawn by weight, and all again if some are
    /// equal, so with `top_k` above 1, the loads of experts differ less than their weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// Whether the weights are assigned to experts at random, differently in each layer of each step.
    pub shuffle: bool,
    /// Seed of `shuffle`.
    pub seed: u64,
    /// How often a token is sent.
    pub dispatch: Dispatch,
    /// Whether the tokens of a rank form two micro-batches, so that one of them computes while the other one communicates.
    pub overlap: bool,
}

impl Default for Moe {
    /// A layer with 256 experts on 16 ranks, a hidden size of 7168, FP8 with scales for the dispatch, and BF16 for the
    /// combination.
    fn default() -> Self {
        Self {
            ranks: 16,
            experts: 256,
            redundant: 0,
            top_k: 8,
            tokens: 4096,
            dispatch_bytes: Bytes(7392),
            combine_bytes: Bytes(14_336),
            layers: 1,
            steps: 1,
            backward: false,
            gradient_bytes: None,
            shared_gradients: Bytes(0),
            expert_compute: Time::ZERO,
            other_compute: Time::ZERO,
            placement: ExpertPlacement::Contiguous,
            zipf: 0.0,
            weights: Vec::new(),
            shuffle: false,
            seed: 1,
            dispatch: Dispatch::Rank,
            overlap: false,
        }
    }
}

/// The tokens of a layer. The share of a destination is the share of the tokens of any rank that it receives.
struct ExpertLoad {
    sources: u32,
    /// The sum of the shares of all ranks before each rank, and of all ranks.
    ranks: Vec<f64>,
    /// The same for hosts.
    hosts: Vec<f64>,
    /// Tokens per expert of a rank, relative to the mean.
    work: Vec<f64>,
}

impl ExpertLoad {
    fn new(sources: u32, ranks: &[Popularity], hosts: &[Popularity]) -> Self {
        let sums = |list: &[Popularity]| {
            let mut sums = vec![0.0];
            list.iter().for_each(|one| sums.push(sums[sums.len() - 1] + one.reached));
            sums
        };
        let mean = ranks.iter().map(|one| one.used).sum::<f64>() / f64::from(sources);
        let work = ranks.iter().map(|one| one.used / mean).collect();
        Self { sources, ranks: sums(ranks), hosts: sums(hosts), work }
    }

    /// How many of the tokens of a rank have a given destination. Sources round at different thresholds, so the tokens of all
    /// sources for a destination differ from the expected value by at most one.
    fn tokens(&self, shares: &[f64], tokens: u64, from: u32, to: u32) -> u64 {
        let threshold = (f64::from(from) + 0.5) / f64::from(self.sources);
        let until = |place: usize| (tokens as f64 * shares[place] + threshold) as u64;
        until(to as usize + 1) - until(to as usize)
    }

    fn to_rank(&self, tokens: u64, from: u32, to: u32) -> u64 {
        self.tokens(&self.ranks, tokens, from, to)
    }

    fn to_host(&self, tokens: u64, from: u32, to: u32) -> u64 {
        self.tokens(&self.hosts, tokens, from, to)
    }
}

/// The groups of ranks that exchange tokens of a micro-batch.
struct TokenGroups {
    all: Group,
    /// The ranks with the same number on all hosts.
    rails: Vec<Group>,
    hosts: Vec<Group>,
}

impl TokenGroups {
    fn new(ranks: u32, each: u32, batch: u32) -> Self {
        let hosts = ranks / each;
        let rail = |own| Group {
            number: 2 * (1 + own) + batch,
            members: (0..hosts).map(|host| host * each + own).collect(),
        };
        let host = |host| Group {
            number: 2 * (1 + each + host) + batch,
            members: (host * each..(host + 1) * each).collect(),
        };
        Self {
            all: Group { number: batch, members: (0..ranks).collect() },
            rails: (0..each).map(rail).collect(),
            hosts: (0..hosts).map(host).collect(),
        }
    }
}

/// Messages of one direction of an exchange.
#[derive(Clone, Copy)]
struct Way {
    /// Whether messages go to the experts.
    is_dispatch: bool,
    /// Size of a token or of its gradient.
    bytes: u64,
}

/// A part of the tokens of all ranks.
struct MicroBatch {
    /// The CPU of its messages.
    cpu: u8,
    tokens: u64,
    groups: TokenGroups,
    ranks: Vec<Sequence>,
}

/// The state while a trace is generated.
struct Passes<'p> {
    model: &'p Moe,
    algorithms: &'p Choice,
    build: TraceBuilder,
    /// Ranks per host, or 1 if tokens are sent to ranks.
    each: u32,
    /// The ranks that reduce gradients: all.
    replicas: Group,
}

impl Moe {
    fn check(&self) -> Result<(), String> {
        within("ranks", u64::from(self.ranks), 2, u64::from(MAX_RANKS))?;
        within("experts", u64::from(self.experts), u64::from(self.ranks), 1 << 16)?;
        within("redundant", u64::from(self.redundant), 0, 1 << 16)?;
        if !(self.experts + self.redundant).is_multiple_of(self.ranks) {
            let with =
                if self.redundant > 0 { format!(" and {} copies", self.redundant) } else { String::new() };
            return Err(format!(
                "{} experts{with} cannot be divided among {} ranks",
                self.experts, self.ranks
            ));
        }
        let work = u64::from(self.experts) * u64::from(self.ranks) * u64::from(self.top_k);
        if self.redundant > 0 && work > MOST_PRODUCTS {
            return Err(format!(
                "redundant: experts * ranks * top_k = {work}: must be at most {MOST_PRODUCTS}"
            ));
        }
        within("top_k", u64::from(self.top_k), 1, u64::from(MOST_DRAWN.min(self.experts)))?;
        within("tokens", self.tokens, if self.overlap { 2 } else { 1 }, 1 << 30)?;
        within("dispatch_bytes", self.dispatch_bytes.0, 0, 1 << 20)?;
        within("combine_bytes", self.combine_bytes.0, 0, 1 << 20)?;
        within("layers", u64::from(self.layers), 1, 1 << 12)?;
        within("steps", u64::from(self.steps), 1, 1 << 12)?;
        within("gradient_bytes", self.gradient_bytes.map_or(0, |bytes| bytes.0), 0, 1 << 20)?;
        within("shared_gradients", self.shared_gradients.0, 0, 1 << 50)?;
        for (name, is_given) in [
            ("gradient_bytes", self.gradient_bytes.is_some()),
            ("shared_gradients", self.shared_gradients.0 > 0),
        ] {
            if is_given && !self.backward {
                return Err(format!("{name} has no effect without a backward pass: set backward = true"));
            }
        }
        if !(0.0..=MOST_ZIPF).contains(&self.zipf) {
            return Err(format!("zipf = {}: must be 0 to {MOST_ZIPF}", self.zipf));
        }
        if !self.weights.is_empty() {
            if self.zipf > 0.0 {
                return Err("weights and zipf cannot be combined; leave one of them out".to_owned());
            }
            if self.weights.len() != self.experts as usize {
                return Err(format!("{} weights for {} experts", self.weights.len(), self.experts));
            }
            let is_wrong = |weight: &&f64| !(weight.is_finite() && **weight >= 0.0);
            if let Some(wrong) = self.weights.iter().find(is_wrong) {
                return Err(format!("weights: {wrong}: must be 0 or more"));
            }
        }
        Ok(())
    }

    /// Ranks per host, or 1 if tokens are sent to ranks.
    fn each(&self, algorithms: &Choice) -> Result<u32, String> {
        let each = algorithms.ranks_per_host;
        if self.dispatch == Dispatch::Rank {
            return Ok(1);
        }
        if each <= 1 {
            return Err("dispatch = \"host\" needs several ranks per host: set job.ranks_per_host".to_owned());
        }
        if !self.ranks.is_multiple_of(each) {
            return Err(format!(
                "dispatch = \"host\": {} ranks cannot be divided into hosts of {each}",
                self.ranks
            ));
        }
        Ok(each)
    }

    /// Generates the trace. Exchanges use the algorithm for all-to-all, and hosts have as many ranks as `algorithms` states.
    ///
    /// # Errors
    /// If a size is out of range or not divisible, the weights admit no expected values, the algorithm does not support blocks
    /// of different sizes, or the trace would have more than `limit` operations and dependencies.
    pub fn trace(&self, algorithms: &Choice, limit: u64) -> Result<Trace, String> {
        self.check()?;
        let each = self.each(algorithms)?;
        let build = TraceBuilder::new(u64::from(self.ranks), limit).map_err(text)?;
        let partners = if each > 1 { self.ranks / each + each - 2 } else { self.ranks - 1 };
        let twice = |condition: bool| if condition { 2 } else { 1 };
        let passes =
            u64::from(self.layers) * u64::from(self.steps) * twice(self.overlap) * twice(self.backward);
        // Each rank sends to and receives from each partner, in a dispatch and in a combination.
        let messages = 4 * u64::from(partners) * u64::from(self.ranks);
        build.allow(messages.saturating_mul(passes)).map_err(text)?;
        let members = (0..self.ranks).collect();
        // After the numbers of all groups that exchange tokens.
        let replicas = Group { number: 2 * (1 + each + self.ranks / each), members };
        Passes { model: self, algorithms, build, each, replicas }.all()
    }

    /// The copies of each rank, as indexes into a list of all copies with their weights.
    fn of_ranks(&self, weights: &[f64]) -> Vec<Vec<usize>> {
        let (ranks, each) = (self.ranks as usize, weights.len() / self.ranks as usize);
        let place = |rank: usize, number: usize| match self.placement {
            ExpertPlacement::RoundRobin => number * ranks + rank,
            _ => rank * each + number,
        };
        if self.placement != ExpertPlacement::Balanced {
            return (0..ranks).map(|rank| (0..each).map(|number| place(rank, number)).collect()).collect();
        }
        let mut found = vec![(0.0f64, Vec::with_capacity(each)); ranks];
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]));
        for copy in order {
            let has_room = found.iter_mut().filter(|(_, own)| own.len() < each);
            let Some((load, own)) = has_room.min_by(|one, other| one.0.total_cmp(&other.0)) else { break };
            *load += weights[copy];
            own.push(copy);
        }
        found.into_iter().map(|(_, own)| own).collect()
    }

    fn load(&self, weights: &[f64], each: u32) -> Result<ExpertLoad, String> {
        let all = copies(weights, self.redundant);
        let mut counts = vec![0u32; weights.len()];
        all.iter().for_each(|&expert| counts[expert] += 1);
        let of_copies: Vec<f64> =
            all.iter().map(|&expert| weights[expert] / f64::from(counts[expert])).collect();
        let ranks = self.of_ranks(&of_copies);
        let hosts: Vec<Vec<usize>> = ranks.chunks(each as usize).map(<[Vec<usize>]>::concat).collect();
        let drawn = self.top_k as usize;
        let held = |group: &Vec<usize>| {
            let mut held = Held::new();
            for &copy in group {
                let (expert, share) = (all[copy], 1.0 / f64::from(counts[all[copy]]));
                match held.iter_mut().find(|one| one.0 == expert) {
                    Some((_, known)) => *known += share,
                    None => held.push((expert, share)),
                }
            }
            held
        };
        let found = |groups: &[Vec<usize>]| match self.redundant {
            0 => {
                let of = |group: &Vec<usize>| group.iter().map(|&expert| weights[expert]).collect();
                popularity(&groups.iter().map(of).collect::<Vec<_>>(), drawn)
            }
            _ => popularity_of_copies(weights, &groups.iter().map(held).collect::<Vec<_>>(), drawn),
        };
        let popular = |groups: &[Vec<usize>]| {
            found(groups).ok_or_else(|| {
                format!("weights: {drawn} experts must have weights above 0 that do not differ too much")
            })
        };
        Ok(ExpertLoad::new(self.ranks, &popular(&ranks)?, &popular(&hosts)?))
    }
}

impl Passes<'_> {
    fn all(mut self) -> Result<Trace, String> {
        let Moe { ranks, experts, tokens, layers, steps, backward, shuffle, seed, overlap, .. } = *self.model;
        let mut weights = match self.model.weights.as_slice() {
            [] => (1..=experts).map(|expert| zipf(expert, self.model.zipf)).collect(),
            given => {
                let largest = given.iter().copied().fold(0.0, f64::max);
                given.iter().map(|weight| weight / largest).collect::<Vec<f64>>()
            }
        };
        let parts = if overlap { vec![tokens.div_ceil(2), tokens / 2] } else { vec![tokens] };
        let batch = |(number, tokens): (u8, u64)| MicroBatch {
            cpu: 1 + number,
            tokens,
            groups: TokenGroups::new(ranks, self.each, u32::from(number)),
            ranks: (0..ranks).map(Sequence::new).collect(),
        };
        let mut batches: Vec<MicroBatch> = (0..).zip(parts).map(batch).collect();
        let mut load = Rc::new(self.model.load(&weights, self.each)?);
        for step in 0..steps {
            let mut loads = Vec::with_capacity(layers as usize);
            for layer in 0..layers {
                if shuffle {
                    let place = u64::from(step) * u64::from(layers) + u64::from(layer);
                    Stream::new(seed, "popularity of experts", place).shuffle(&mut weights);
                    load = Rc::new(self.model.load(&weights, self.each)?);
                }
                self.layer(&mut batches, &load, Self::forward)?;
                loads.push(Rc::clone(&load));
            }
            if backward {
                loads.iter().rev().try_for_each(|load| self.layer(&mut batches, load, Self::backward))?;
            }
            self.end_step(&mut batches)?;
        }
        self.build.finish().map_err(text)
    }

    fn layer(
        &mut self,
        batches: &mut [MicroBatch],
        load: &ExpertLoad,
        pass: fn(&mut Self, &mut MicroBatch, &ExpertLoad, u32) -> Result<(), String>,
    ) -> Result<(), String> {
        for batch in batches {
            (0..self.model.ranks).try_for_each(|rank| pass(self, batch, load, rank))?;
        }
        Ok(())
    }

    /// Waits for all micro-batches of each rank, and reduces the gradients of the weights that all ranks hold.
    fn end_step(&mut self, batches: &mut [MicroBatch]) -> Result<(), String> {
        let (first, others) = batches.split_first_mut().ok_or("no micro-batches")?;
        for (rank, sequence) in first.ranks.iter_mut().enumerate() {
            others.iter().for_each(|other| sequence.join(&other.ranks[rank]));
            if self.model.shared_gradients.0 > 0 {
                let sizes = Sizes::Uniform(self.model.shared_gradients.0);
                self.replicas.collective(
                    &mut self.build,
                    sequence,
                    Collective::AllReduce,
                    sizes,
                    self.algorithms,
                )?;
            }
            others.iter_mut().for_each(|other| other.ranks[rank].join(sequence));
        }
        Ok(())
    }

    fn forward(&mut self, batch: &mut MicroBatch, load: &ExpertLoad, rank: u32) -> Result<(), String> {
        let Moe { other_compute, expert_compute, dispatch_bytes, combine_bytes, .. } = *self.model;
        let share = batch.tokens as f64 / self.model.tokens as f64;
        self.compute(batch, rank, other_compute, share)?;
        self.exchange(batch, load, rank, Way { is_dispatch: true, bytes: dispatch_bytes.0 })?;
        self.compute(batch, rank, expert_compute, share * load.work[rank as usize])?;
        self.exchange(batch, load, rank, Way { is_dispatch: false, bytes: combine_bytes.0 })
    }

    fn backward(&mut self, batch: &mut MicroBatch, load: &ExpertLoad, rank: u32) -> Result<(), String> {
        let Moe { other_compute, expert_compute, gradient_bytes, combine_bytes, .. } = *self.model;
        let share = 2.0 * batch.tokens as f64 / self.model.tokens as f64;
        let bytes = gradient_bytes.unwrap_or(combine_bytes).0;
        self.exchange(batch, load, rank, Way { is_dispatch: true, bytes })?;
        self.compute(batch, rank, expert_compute, share * load.work[rank as usize])?;
        self.exchange(batch, load, rank, Way { is_dispatch: false, bytes })?;
        self.compute(batch, rank, other_compute, share)
    }

    /// Adds a share of a computation, rounded to nanoseconds.
    fn compute(&mut self, batch: &mut MicroBatch, rank: u32, time: Time, share: f64) -> Result<(), String> {
        let ns = (time.0 as f64 * share / 1000.0).round() as u64;
        batch.ranks[rank as usize].move_to(0);
        batch.ranks[rank as usize].compute(&mut self.build, ns).map_err(text)
    }

    /// Adds a dispatch or a combination.
    fn exchange(
        &mut self,
        batch: &mut MicroBatch,
        load: &ExpertLoad,
        rank: u32,
        way: Way,
    ) -> Result<(), String> {
        let (tokens, each, groups) = (batch.tokens, self.each, &batch.groups);
        let sequence = &mut batch.ranks[rank as usize];
        // The messages of a micro-batch do not wait until the other one has computed.
        sequence.move_to(batch.cpu);
        if each == 1 {
            let sent = |from, to| load.to_rank(tokens, from, to);
            return self.all_to_all(&groups.all, sequence, way, &sent);
        }
        let to_host = |from, to| load.to_host(tokens, from, to / each);
        // A rank passes on the tokens of the ranks with its number on all hosts, and its own.
        let spread = |via: u32, to| {
            let rail = (via % each..self.model.ranks).step_by(each as usize);
            rail.map(|from| load.to_rank(tokens, from, to)).sum()
        };
        let (rail, host) = (&groups.rails[(rank % each) as usize], &groups.hosts[(rank / each) as usize]);
        if way.is_dispatch {
            self.all_to_all(rail, sequence, way, &to_host)?;
            return self.all_to_all(host, sequence, way, &spread);
        }
        self.all_to_all(host, sequence, way, &spread)?;
        self.all_to_all(rail, sequence, way, &to_host)
    }

    /// Adds the messages of a rank in an exchange. `tokens` is the number of tokens from one rank to another in a dispatch; in
    /// a combination, they return.
    fn all_to_all(
        &mut self,
        group: &Group,
        sequence: &mut Sequence,
        Way { is_dispatch, bytes }: Way,
        tokens: &dyn Fn(u32, u32) -> u64,
    ) -> Result<(), String> {
        let me = sequence.rank();
        let list = |is_away: bool| -> Vec<u64> {
            let count = |&other: &u32| match (other == me, is_away) {
                (true, _) => 0,
                (false, true) => tokens(me, other),
                (false, false) => tokens(other, me),
            };
            group.members.iter().map(|other| count(other).saturating_mul(bytes)).collect()
        };
        let (sends, recvs) = (list(is_dispatch), list(!is_dispatch));
        let sizes = Sizes::Matrix { sends: &sends, recvs: &recvs };
        group.collective(&mut self.build, sequence, Collective::AllToAll, sizes, self.algorithms)
    }
}
