//! Inference of a transformer whose instances either process prompts or generate tokens.
//!
//! Each instance is a tensor group. A prefill instance processes the prompts of its requests one after the other, which also
//! gives the first token of each. The keys and values of the prompt then go to a decode instance, each rank sending its part
//! to the ranks that need it. A decode instance generates the other tokens for a batch of requests, one token of each per
//! step. In each layer, the tensor group executes two all-reduces of the activations. Prefill instances have the first ranks.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

use super::continuous::{Continuous, Planned, Request};
use super::{Group, text, within};
use crate::collective::{Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{MAX_RANKS, Operation, Trace, TraceBuilder};

/// When keys and values are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyTransfer {
    /// Those of all layers, when the prefill of a request has finished.
    #[default]
    Whole,
    /// Those of each layer when it has finished, so that they are sent while later layers compute.
    Layers,
}

impl KeyTransfer {
    const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Layers => "layers",
        }
    }
}

/// Requests to a transformer: prefill, transfer of keys and values, and decode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Inference {
    /// Number of instances that process prompts; 0 with `continuous`.
    pub prefill: u32,
    /// Ranks of each of these instances, which share each layer (tensor parallelism).
    pub prefill_tensor: u32,
    /// Number of instances that generate tokens.
    pub decode: u32,
    /// Ranks of each of these instances.
    pub decode_tensor: u32,
    /// Number of layers.
    pub layers: u32,
    /// Width of the model (hidden size).
    pub hidden: u64,
    /// Bytes per number in activations.
    pub bytes: u64,
    /// Size of the keys and values of a token, in all layers and on all ranks of an instance: 2 x layers x number of key heads x
    /// width of a head x bytes per number.
    pub kv_bytes: Bytes,
    /// Number of requests. Prefill instances process them in turn, and decode instances receive them in turn.
    pub requests: u32,
    /// Time between the arrivals of two requests. Default: 0 s, all arrive at the start.
    pub interval: Time,
    /// Length of a prompt in tokens.
    pub prompt: u64,
    /// Tokens that are generated for a request. The prefill generates the first one.
    pub output: u32,
    /// Number of requests that a decode instance processes together. It starts when it has the keys and values of all of them,
    /// and has finished with the previous ones.
    pub batch: u32,
    /// Computation time of a prompt on each rank, in all layers.
    pub prefill_compute: Time,
    /// Computation time of a step that generates a token for each request of a batch, on each rank, in all layers.
    pub decode_compute: Time,
    /// When keys and values are sent.
    pub transfer: KeyTransfer,
    /// Lets requests join the batch of a decode instance at any step, which also processes prompts. Keys and values then stay
    /// where they are. A step takes `decode_compute`, or if this is longer, `prefill_compute` times its tokens / `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous: Option<Continuous>,
}

impl Default for Inference {
    /// A model with 80 layers, a hidden size of 8192, and 8 key heads of width 128 (Llama 3 70B), on two instances with 8 ranks.
    fn default() -> Self {
        Self {
            prefill: 1,
            prefill_tensor: 8,
            decode: 1,
            decode_tensor: 8,
            layers: 80,
            hidden: 8192,
            bytes: 2,
            kv_bytes: Bytes(327_680),
            requests: 1,
            interval: Time::ZERO,
            prompt: 2048,
            output: 16,
            batch: 1,
            prefill_compute: Time::ZERO,
            decode_compute: Time::ZERO,
            transfer: KeyTransfer::Whole,
            continuous: None,
        }
    }
}

/// A part of the keys and values of a prompt that is sent from one rank to another.
struct KeyPart {
    peer: u32,
    bytes: u64,
}

/// The `index`-th of `parts` consecutive ranges of a length.
fn range(length: u64, parts: u64, index: u64) -> Range<u64> {
    let at = |index: u64| (u128::from(length) * u128::from(index) / u128::from(parts)) as u64;
    at(index)..at(index + 1)
}

/// Instances of one kind.
#[derive(Clone, Copy)]
struct Instances {
    first_group: u32,
    first_rank: u32,
    tensor: u32,
}

impl Instances {
    fn group(self, number: u32) -> Group {
        let first = self.first_rank + number * self.tensor;
        Group { number: self.first_group + number, members: (first..first + self.tensor).collect() }
    }
}

impl Inference {
    fn check(&self) -> Result<(), String> {
        if let Some(continuous) = &self.continuous {
            if self.prefill != 0 {
                return Err(format!(
                    "prefill = {}: must be 0 with `continuous`, because decode instances process prompts, too",
                    self.prefill
                ));
            }
            continuous.check(self.batch)?;
        } else {
            within("prefill", u64::from(self.prefill), 1, u64::from(MAX_RANKS))?;
        }
        for (name, number, most) in [
            ("prefill_tensor", self.prefill_tensor, 1 << 10),
            ("decode", self.decode, MAX_RANKS),
            ("decode_tensor", self.decode_tensor, 1 << 10),
            ("layers", self.layers, 1 << 12),
            ("requests", self.requests, 1 << 20),
            ("output", self.output, 1 << 20),
            ("batch", self.batch, 1 << 16),
        ] {
            within(name, u64::from(number), 1, u64::from(most))?;
        }
        for (name, number, most) in
            [("hidden", self.hidden, 1 << 24), ("bytes", self.bytes, 8), ("prompt", self.prompt, 1 << 24)]
        {
            within(name, number, 1, most)?;
        }
        within("kv_bytes", self.kv_bytes.0, 0, 1 << 30)?;
        let of_kind = |count: u32, tensor: u32| u64::from(count) * u64::from(tensor);
        let ranks = of_kind(self.prefill, self.prefill_tensor) + of_kind(self.decode, self.decode_tensor);
        within("prefill * prefill_tensor + decode * decode_tensor", ranks, 2, u64::from(MAX_RANKS))
    }

    /// The requests with their arrivals.
    fn arrivals(&self, continuous: &Continuous) -> Result<Vec<Request>, String> {
        if !continuous.arrivals.is_empty() {
            return Ok(continuous.arrivals.clone());
        }
        let equal = |number: u32| {
            let at = self.time_of(number)?;
            Ok(Request { at, prompt: self.prompt, output: self.output })
        };
        (0..self.requests).map(equal).collect()
    }

    /// The time at which a request arrives, if all have equal intervals.
    fn time_of(&self, request: u32) -> Result<Time, String> {
        let time = u128::from(self.interval.0) * u128::from(request);
        Ok(Time(u64::try_from(time).map_err(|_| "interval: too long".to_owned())?))
    }

    /// The time of a step in the plan of continuous batching, in ps. All-reduces are rings at a rate, if it is given.
    fn planned_ps(&self, rate: Option<Rate>, tokens: u64) -> u64 {
        let compute = u128::from(self.step_compute(tokens).0);
        let reduced = rate.map_or(0, |rate| {
            let bits = 16 * u128::from(tokens * self.hidden * self.bytes);
            let others = u128::from(self.decode_tensor - 1);
            let once =
                bits * others * 1_000_000_000_000 / u128::from(self.decode_tensor) / u128::from(rate.0);
            2 * u128::from(self.layers) * once
        });
        u64::try_from(compute + reduced).unwrap_or(u64::MAX)
    }

    /// The computation time of a step with parts of prompts.
    fn step_compute(&self, tokens: u64) -> Time {
        let of_tokens = u128::from(self.prefill_compute.0) * u128::from(tokens) / u128::from(self.prompt);
        Time(u64::try_from(of_tokens).unwrap_or(u64::MAX)).max(self.decode_compute)
    }

    const fn prefills(&self) -> Instances {
        Instances { first_group: 0, first_rank: 0, tensor: self.prefill_tensor }
    }

    const fn decodes(&self) -> Instances {
        let first_rank = self.prefill * self.prefill_tensor;
        Instances { first_group: self.prefill, first_rank, tensor: self.decode_tensor }
    }

    /// Generates the trace; all-reduces use the algorithm of `algorithms`.
    ///
    /// # Errors
    /// If a size is out of range, or the trace would have more than `limit` operations and dependencies.
    pub fn trace(&self, algorithms: &Choice, limit: u64) -> Result<Trace, String> {
        self.check()?;
        let Instances { first_rank, tensor, .. } = self.decodes();
        let ranks = first_rank + self.decode * tensor;
        let build = TraceBuilder::new(u64::from(ranks), limit).map_err(text)?;
        if let Some(continuous) = &self.continuous {
            let requests = self.arrivals(continuous)?;
            let steps = continuous.most_steps(&requests);
            build.allow(steps.saturating_mul(u64::from(self.layers))).map_err(text)?;
            return Serving { model: self, algorithms, build }.all_continuous(continuous, &requests);
        }
        let batches = u64::from(self.requests.div_ceil(self.batch));
        let steps = u64::from(self.requests) + batches * u64::from(self.output - 1);
        build.allow(steps.saturating_mul(u64::from(self.layers))).map_err(text)?;
        let mut serving = Serving { model: self, algorithms, build };
        for instance in 0..self.prefill {
            let group = self.prefills().group(instance);
            group.members.iter().try_for_each(|&rank| serving.prefill(instance, &group, rank))?;
        }
        for instance in 0..self.decode {
            let group = self.decodes().group(instance);
            group.members.iter().try_for_each(|&rank| serving.decode(instance, &group, rank))?;
        }
        serving.build.finish().map_err(text)
    }

    /// The parts of keys and values that a rank exchanges with the ranks of the other instance of a request. `length` is the
    /// size of all parts.
    fn parts(&self, length: u64, request: u32, own: u32, is_prefill: bool) -> Vec<KeyPart> {
        let (prefills, decodes) = (self.prefills(), self.decodes());
        let (mine, others, instance) = match is_prefill {
            true => (prefills, decodes, request % self.decode),
            false => (decodes, prefills, request % self.prefill),
        };
        let of =
            |instances: Instances, index: u32| range(length, u64::from(instances.tensor), u64::from(index));
        let own = of(mine, own);
        let part = |index: u32| {
            let other = of(others, index);
            let bytes = own.end.min(other.end).saturating_sub(own.start.max(other.start));
            let peer = others.first_rank + instance * others.tensor + index;
            (bytes > 0).then_some(KeyPart { peer, bytes })
        };
        (0..others.tensor).filter_map(part).collect()
    }

    /// The sizes of the keys and values of a prompt that are sent at the same time, with the layers after which they are sent.
    fn transfers(&self) -> Vec<(u32, u64)> {
        let all = self.kv_bytes.0.saturating_mul(self.prompt);
        let layers = u64::from(self.layers);
        let of_layer = |layer: u32| {
            let Range { start, end } = range(all, layers, u64::from(layer));
            (layer, end - start)
        };
        match self.transfer {
            KeyTransfer::Whole => vec![(self.layers - 1, all)],
            KeyTransfer::Layers => (0..self.layers).map(of_layer).collect(),
        }
    }
}

/// The state while a trace is generated.
struct Serving<'s> {
    model: &'s Inference,
    algorithms: &'s Choice,
    build: TraceBuilder,
}

/// The CPU of the messages with keys and values, which do not wait for computations.
const KEY_CPU: u8 = 1;

impl Serving<'_> {
    /// Instances serve the requests in turn.
    fn all_continuous(mut self, batching: &Continuous, requests: &[Request]) -> Result<Trace, String> {
        let model = self.model;
        for instance in 0..model.decode {
            let group = model.decodes().group(instance);
            let numbers: Vec<u32> =
                (instance..requests.len() as u32).step_by(model.decode as usize).collect();
            let own: Vec<Request> = numbers.iter().map(|&number| requests[number as usize]).collect();
            for &rank in &group.members {
                self.continuous(batching, (&group, rank), (&own, &numbers))?;
            }
        }
        self.build.finish().map_err(text)
    }

    /// A sequence that begins when a request arrives.
    fn arrival(&mut self, rank: u32, at: Time) -> Result<Sequence, String> {
        let mut arrival = Sequence::on_cpu(rank, KEY_CPU);
        let after = at.0 / 1000;
        if after > 0 {
            arrival.blocking(&mut self.build, Operation::delay(after)).map_err(text)?;
        }
        Ok(arrival)
    }

    /// Adds the operations of a rank of an instance, which serves its part of the requests. `numbers` are those of its requests
    /// among all.
    fn continuous(
        &mut self,
        batching: &Continuous,
        (group, rank): (&Group, u32),
        (requests, numbers): (&[Request], &[u32]),
    ) -> Result<(), String> {
        let model = self.model;
        let is_first = group.members[0] == rank;
        let mut sequence = Sequence::new(rank);
        let mut arrivals: Vec<Option<Sequence>> = vec![None; requests.len()];
        // For each request, the position at which it has generated its first token.
        let mut begun: Vec<Option<Sequence>> = vec![None; requests.len()];
        let step_ps = |tokens: u64| model.planned_ps(batching.planned_rate, tokens);
        for step in batching.steps(requests, &Planned { batch: model.batch, step_ps }) {
            for request in step.joins {
                let arrival = self.arrival(rank, requests[request].at)?;
                sequence.join(&arrival);
                arrivals[request] = Some(arrival);
            }
            for layer in 0..model.layers {
                self.layer(group, &mut sequence, layer, model.step_compute(step.tokens), step.tokens)?;
            }
            if !is_first {
                continue;
            }
            let communicator = |request: usize| model.decode + numbers[request];
            for request in step.firsts {
                if let Some(arrival) = arrivals[request].take() {
                    self.record(arrival, &sequence, communicator(request), "first-token")?;
                }
                begun[request] = Some(Sequence::fork(&sequence, KEY_CPU));
            }
            for request in step.lasts {
                if let Some(first) = begun[request].take().filter(|_| requests[request].output > 1) {
                    self.record(first, &sequence, communicator(request), "other-tokens")?;
                }
            }
        }
        Ok(())
    }

    /// Records the time between two positions of a rank as a collective operation.
    fn record(
        &mut self,
        mut from: Sequence,
        to: &Sequence,
        communicator: u32,
        name: &'static str,
    ) -> Result<(), String> {
        let (rank, first) = (from.rank(), self.build.operations(from.rank()));
        from.blocking(&mut self.build, Operation::delay(0)).map_err(text)?;
        from.join(to);
        from.blocking(&mut self.build, Operation::delay(0)).map_err(text)?;
        self.build.mark_collective((rank, first, communicator), name, "continuous");
        Ok(())
    }

    fn prefill(&mut self, instance: u32, group: &Group, rank: u32) -> Result<(), String> {
        let model = self.model;
        let mut sequence = Sequence::new(rank);
        for request in (instance..model.requests).step_by(model.prefill as usize) {
            let arrival = self.arrival(rank, model.time_of(request)?)?;
            sequence.join(&arrival);
            let mut transfers = model.transfers().into_iter().peekable();
            for layer in 0..model.layers {
                self.layer(group, &mut sequence, layer, model.prefill_compute, model.prompt)?;
                if let Some((_, bytes)) = transfers.next_if(|&(after, _)| after == layer) {
                    let parts = model.parts(bytes, request, rank % model.prefill_tensor, true);
                    let sends = parts.iter().map(|part| Operation::send(part.peer, part.bytes, request));
                    Sequence::fork(&sequence, KEY_CPU).together(&mut self.build, sends).map_err(text)?;
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, instance: u32, group: &Group, rank: u32) -> Result<(), String> {
        let model = self.model;
        let own = (rank - model.decodes().first_rank) % model.decode_tensor;
        let mut sequence = Sequence::new(rank);
        let requests: Vec<u32> = (instance..model.requests).step_by(model.decode as usize).collect();
        for batch in requests.chunks(model.batch as usize) {
            for &request in batch {
                let mut arrival = self.arrival(rank, model.time_of(request)?)?;
                let transfers = model.transfers().into_iter();
                let parts = transfers.flat_map(|(_, bytes)| model.parts(bytes, request, own, false));
                let receives: Vec<Operation> =
                    parts.map(|part| Operation::recv(part.peer, part.bytes, request)).collect();
                let first = self.build.operations(rank);
                arrival.together(&mut self.build, receives.into_iter()).map_err(text)?;
                let communicator = model.prefill + model.decode + request;
                self.build.mark_collective((rank, first, communicator), "prefill", model.transfer.name());
                sequence.join(&arrival);
            }
            for _ in 1..model.output {
                for layer in 0..model.layers {
                    self.layer(group, &mut sequence, layer, model.decode_compute, batch.len() as u64)?;
                }
            }
        }
        Ok(())
    }

    /// Adds attention and feed-forward network, each with an all-reduce. `compute` is the time of all layers.
    fn layer(
        &mut self,
        group: &Group,
        sequence: &mut Sequence,
        layer: u32,
        compute: Time,
        tokens: u64,
    ) -> Result<(), String> {
        let model = self.model;
        for half in [2 * layer, 2 * layer + 1] {
            let Range { start, end } = range(compute.0 / 1000, 2 * u64::from(model.layers), u64::from(half));
            sequence.compute(&mut self.build, end - start).map_err(text)?;
            let sizes = Sizes::Uniform(tokens * model.hidden * model.bytes);
            group.collective(&mut self.build, sequence, Collective::AllReduce, sizes, self.algorithms)?;
        }
        Ok(())
    }
}
