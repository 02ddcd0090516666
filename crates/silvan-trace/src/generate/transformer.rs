//! A training step of a transformer with tensor, context, pipeline and data parallelism.
//!
//! Ranks are numbered as in Megatron-LM (Narayanan et al. 2021): first within a tensor group, then within a context group, then
//! within a data group, then by pipeline stage. The ranks of a context group share each sequence. During the attention, keys and
//! values of their parts move around a ring (ring attention, Liu et al. 2023), while each rank computes with those it has; in
//! the backward pass, their gradients move, too. In each layer, the tensor group executes two all-reduces of the
//! activations in the forward pass, and two of their gradients in the backward pass. Stages exchange
//! activations and gradients of activations. At the end of a step, the data groups reduce the gradients of
//! the parameters. The pipeline schedule is one forward, one backward (1F1B).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Group, computing, speed, text, within};
use crate::collective::{Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{MAX_RANKS, Operation, Trace, TraceBuilder};

/// A transformer model, its parallelization, and the speed of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Transformer {
    /// Number of layers.
    pub layers: u32,
    /// Width of the model (hidden size).
    pub hidden: u64,
    /// Width of the feed-forward network; 0 means four times `hidden`.
    pub feed_forward: u64,
    /// Size of the vocabulary.
    pub vocabulary: u64,
    /// Length of a sequence in tokens.
    pub sequence: u64,
    /// Sequences per micro-batch.
    pub micro_batch: u64,
    /// Micro-batches per step and replica.
    pub micro_batches: u32,
    /// Bytes per number in activations.
    pub bytes: u64,
    /// Bytes per number in gradients.
    pub gradient_bytes: u64,
    /// Ranks of a tensor group, which share each layer.
    pub tensor: u32,
    /// Ranks of a context group, which share each sequence.
    pub context: u32,
    /// Number of pipeline stages, which share the layers.
    pub pipeline: u32,
    /// Number of replicas (data parallelism).
    pub data: u32,
    /// Speed of a rank, in flop/s.
    pub flops: f64,
    /// Number of training steps.
    pub steps: u32,
}

impl Default for Transformer {
    /// A model with 1.3 billion parameters (GPT-3 XL) on 16 ranks.
    fn default() -> Self {
        Self {
            layers: 24,
            hidden: 2048,
            feed_forward: 0,
            vocabulary: 51_200,
            sequence: 2048,
            micro_batch: 1,
            micro_batches: 4,
            bytes: 2,
            gradient_bytes: 2,
            tensor: 4,
            context: 1,
            pipeline: 2,
            data: 2,
            flops: 150e12,
            steps: 1,
        }
    }
}

/// The tag of keys and values. Those of activations between stages are lower.
const KEYS: u32 = 1 << 20;

/// A forward or backward pass of a micro-batch through a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Forward(u32),
    Backward(u32),
}

/// The order of passes of a stage. The stage first executes as many forward passes as there are later stages,
/// but at most all, and then alternates.
fn schedule(stage: u32, stages: u32, micro_batches: u32) -> Vec<Pass> {
    let ahead = (stages - 1 - stage).min(micro_batches);
    let mut passes: Vec<Pass> = (0..ahead).map(Pass::Forward).collect();
    for number in 0..micro_batches {
        if number + ahead < micro_batches {
            passes.push(Pass::Forward(number + ahead));
        }
        passes.push(Pass::Backward(number));
    }
    passes
}

/// The state of a rank while a trace is generated.
struct Worker<'w> {
    model: &'w Transformer,
    algorithms: &'w Choice,
    sequence: Sequence,
    stage: u32,
    tensor: Group,
    /// The ranks that share a sequence.
    context: Vec<u32>,
    /// The ranks with the same parameters.
    data: Group,
    /// Sends that have started but have not been waited for.
    open: Vec<u32>,
}

impl Transformer {
    fn check(&self) -> Result<(), String> {
        let degrees = [self.tensor, self.context, self.pipeline, self.data].map(u64::from);
        let ranks = degrees.into_iter().fold(1, u64::saturating_mul);
        within("tensor * context * pipeline * data", ranks, 1, u64::from(MAX_RANKS))?;
        within("layers", u64::from(self.layers), u64::from(self.pipeline), 1 << 16)?;
        if !self.layers.is_multiple_of(self.pipeline) {
            return Err(format!("{} layers cannot be divided into {} stages", self.layers, self.pipeline));
        }
        for (name, number) in [
            ("hidden", self.hidden),
            ("vocabulary", self.vocabulary),
            ("sequence", self.sequence),
            ("micro-batch", self.micro_batch),
        ] {
            within(name, number, 1, 1 << 24)?;
        }
        within("feed-forward", self.feed_forward, 0, 1 << 26)?;
        within("micro_batches", u64::from(self.micro_batches), 1, 1 << 16)?;
        within("steps", u64::from(self.steps), 1, 1 << 16)?;
        within("bytes", self.bytes, 1, 8)?;
        within("gradient-bytes", self.gradient_bytes, 1, 8)?;
        if !self.hidden.is_multiple_of(u64::from(self.tensor)) {
            return Err(format!("a width of {} cannot be divided among {} ranks", self.hidden, self.tensor));
        }
        if !self.sequence.is_multiple_of(u64::from(self.context)) {
            return Err(format!(
                "a sequence of {} cannot be divided among {} ranks",
                self.sequence, self.context
            ));
        }
        speed("flops", self.flops)
    }

    /// Generates the trace; collective operations use `algorithms`.
    ///
    /// # Errors
    /// If a size is out of range or not divisible, an algorithm does not support the operation, or the
    /// trace would have more than `limit` operations and dependencies.
    pub fn trace(&self, algorithms: &Choice, limit: u64) -> Result<Trace, String> {
        self.check()?;
        let (tensor, context, data) = (self.tensor, self.context, self.data);
        let of_stage = tensor * context * data;
        let ranks = of_stage * self.pipeline;
        let mut build = TraceBuilder::new(u64::from(ranks), limit).map_err(text)?;
        for rank in 0..ranks {
            let own = rank % tensor;
            let (of_replica, stage) = (rank / (tensor * context) * tensor * context, rank / of_stage);
            let first = stage * of_stage;
            let mut worker = Worker {
                model: self,
                algorithms,
                sequence: Sequence::new(rank),
                stage,
                tensor: Group {
                    number: rank / tensor,
                    members: (0..tensor).map(|other| rank - own + other).collect(),
                },
                context: (0..context).map(|other| of_replica + other * tensor + own).collect(),
                data: Group {
                    number: ranks + stage * tensor + own,
                    members: (0..context * data).map(|other| first + other * tensor + own).collect(),
                },
                open: Vec::new(),
            };
            for _ in 0..self.steps {
                worker.step(&mut build)?;
            }
        }
        build.finish().map_err(text)
    }

    const fn inner(&self) -> u64 {
        if self.feed_forward == 0 { 4 * self.hidden } else { self.feed_forward }
    }

    /// Number of parameters of a layer: four matrices of the attention (`hidden` x `hidden`), and two of the
    /// feed-forward network (`hidden` x `inner`).
    const fn of_layer(&self) -> u64 {
        4 * self.hidden * self.hidden + 2 * self.hidden * self.inner()
    }

    /// Number of tokens of a micro-batch on a rank.
    fn tokens(&self) -> u64 {
        self.micro_batch * (self.sequence / u64::from(self.context))
    }

    /// Size in bytes of the activations of a micro-batch between two layers, on a rank.
    fn activations(&self) -> u64 {
        self.tokens() * self.hidden * self.bytes
    }

    /// Floating-point operations of a layer in the forward pass: two per parameter and token, plus the
    /// attention between all tokens.
    fn forward(&self) -> f64 {
        let words = self.tokens() as f64;
        2.0 * words * self.of_layer() as f64 + 4.0 * words * self.sequence as f64 * self.hidden as f64
    }

    /// Number of parameters of a rank. The first and the last stage both contain the embeddings.
    fn parameters(&self, stage: u32) -> u64 {
        let layers = u64::from(self.layers / self.pipeline) * self.of_layer();
        let words = if stage == 0 || stage == self.pipeline - 1 { self.vocabulary * self.hidden } else { 0 };
        (layers + words) / u64::from(self.tensor)
    }
}

impl Worker<'_> {
    fn step(&mut self, build: &mut TraceBuilder) -> Result<(), String> {
        for pass in schedule(self.stage, self.model.pipeline, self.model.micro_batches) {
            match pass {
                Pass::Forward(number) => self.pass(build, number, true)?,
                Pass::Backward(number) => self.pass(build, number, false)?,
            }
        }
        std::mem::take(&mut self.open).into_iter().for_each(|send| self.sequence.wait(send));
        let gradients = self.model.parameters(self.stage) * self.model.gradient_bytes;
        let sizes = Sizes::Uniform(gradients);
        self.data.collective(build, &mut self.sequence, Collective::AllReduce, sizes, self.algorithms)
    }

    /// The rank with the same position in another stage.
    fn at_stage(&self, stage: u32) -> u32 {
        let of_stage = self.model.tensor * self.model.context * self.model.data;
        self.sequence.rank() % of_stage + stage * of_stage
    }

    fn pass(&mut self, build: &mut TraceBuilder, number: u32, forward: bool) -> Result<(), String> {
        let last = self.model.pipeline - 1;
        let (before, behind) = if forward {
            (self.stage.checked_sub(1), (self.stage < last).then_some(self.stage + 1))
        } else {
            ((self.stage < last).then_some(self.stage + 1), self.stage.checked_sub(1))
        };
        let tag = 2 * number + u32::from(!forward);
        let bytes = self.model.activations();
        if let Some(stage) = before {
            let recv = Operation::recv(self.at_stage(stage), bytes, tag);
            self.sequence.blocking(build, recv).map_err(text)?;
        }
        for _ in 0..self.model.layers / self.model.pipeline {
            self.layer(build, forward)?;
        }
        if self.stage == last {
            // Predicting the next token multiplies by the embeddings of the whole vocabulary.
            let words = self.model.tokens() as f64;
            let flops = 2.0 * words * self.model.hidden as f64 * self.model.vocabulary as f64;
            self.compute(build, flops, forward)?;
        }
        if let Some(stage) = behind {
            let send = Operation::send(self.at_stage(stage), bytes, tag);
            self.open.push(self.sequence.start(build, send).map_err(text)?);
        }
        Ok(())
    }

    /// Adds attention and feed-forward network, each with an all-reduce.
    fn layer(&mut self, build: &mut TraceBuilder, forward: bool) -> Result<(), String> {
        for is_attention in [true, false] {
            let flops = self.model.forward() / 2.0;
            if is_attention {
                self.attention(build, flops, forward)?;
            } else {
                self.compute(build, flops, forward)?;
            }
            let sizes = Sizes::Uniform(self.model.activations());
            self.tensor.collective(
                build,
                &mut self.sequence,
                Collective::AllReduce,
                sizes,
                self.algorithms,
            )?;
        }
        Ok(())
    }

    /// Adds an attention that needs `flops` operations of all ranks of the tensor group. The rank computes with the keys and
    /// values of one part of the sequence after the other. Meanwhile, these go to the next rank of the ring.
    fn attention(&mut self, build: &mut TraceBuilder, flops: f64, forward: bool) -> Result<(), String> {
        let parts = self.model.context;
        let me = self.sequence.rank() / self.model.tensor % parts;
        let place = |by: u32| self.context[((me + by) % parts) as usize];
        let (next, previous) = (place(1), place(parts - 1));
        // Keys and values, and in the backward pass the gradients of both.
        let tensors = if forward { 2 } else { 4 };
        let bytes = tensors * self.model.activations() / u64::from(self.model.tensor);
        for part in 1..=parts {
            let mut moved = Vec::new();
            if part < parts {
                for operation in [Operation::recv(previous, bytes, KEYS), Operation::send(next, bytes, KEYS)]
                {
                    moved.push(self.sequence.start(build, operation).map_err(text)?);
                }
            }
            self.compute(build, flops / f64::from(parts), forward)?;
            moved.into_iter().for_each(|operation| self.sequence.wait(operation));
        }
        Ok(())
    }

    /// Adds a rank's share of a computation that needs `flops` operations in the forward pass, and twice as
    /// many in the backward pass.
    fn compute(&mut self, build: &mut TraceBuilder, flops: f64, forward: bool) -> Result<(), String> {
        let share = if forward { 1.0 } else { 2.0 } * flops / f64::from(self.model.tensor);
        self.sequence.compute(build, computing(share, self.model.flops)).map_err(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_take_turns() {
        use Pass::{Backward, Forward};
        assert_eq!(schedule(1, 2, 2), [Forward(0), Backward(0), Forward(1), Backward(1)]);
        assert_eq!(
            schedule(0, 2, 3),
            [Forward(0), Forward(1), Backward(0), Forward(2), Backward(1), Backward(2)]
        );
        for (stage, stages, number) in [(0, 8, 3), (3, 8, 16), (7, 8, 16)] {
            let passes = schedule(stage, stages, number);
            assert_eq!(passes.len(), 2 * number as usize);
            for micro in 0..number {
                let place = |pass| passes.iter().position(|&one| one == pass).unwrap();
                assert!(place(Forward(micro)) < place(Backward(micro)));
            }
        }
    }
}
