//! Reads the text workloads of SimAI, which AICB writes, and of ASTRA-sim 1.
//!
//! ```text
//! HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4
//! 2
//! attention -1 5000 ALLREDUCE 4096 4000 ALLREDUCE 4096 3000 NONE 0 10
//! mlp       -1 7000 NONE      0    6000 NONE      0    2000 ALLREDUCE 65536 10
//! ```
//!
//! The first line states a policy and the sizes of groups, and the second the number of layers. A layer has a
//! name, a dependency that no simulator uses, and the duration (in ns), the collective operation and the bytes
//! of the forward pass, of the gradients of inputs, and of the gradients of weights, in this order. The last
//! word is the time to update the layer with the result of an operation.
//!
//! Every rank executes all layers once, in the order of the originals:
//!
//! | policy | order |
//! | --- | --- |
//! | `HYBRID_TRANSFORMER` | forward; backward, in each layer: gradients of inputs, then of weights |
//! | `HYBRID_TRANSFORMER_FWD_IN_BCKWD` | also forward from a checkpoint before some layers of the backward pass |
//! | `DATA` | forward; backward: gradients of weights, then of inputs except for the first layer |
//! | `MODEL` | as the first one; gradients of weights overlap the operation for inputs |
//! | `MICRO` | only the operations for gradients of weights, in the order of the file |
//! | `DISTRIBUTED_INFERENCE` | forward |
//!
//! A rank waits for an operation, and then for the update, before it continues. Operations for gradients of
//! weights run one after another on a second CPU, while the rank continues. (In SimAI, a scheduler chooses their
//! order, and `MICRO` executes only the first layer.) `HYBRID_TRANSFORMER_FWD_IN_BCKWD` repeats the forward pass
//! before each layer of `checkpoint_initiates`, from the nearest layer of `checkpoints` that is not behind it.
//! `MODEL` omits the operation for inputs of the first layer.
//!
//! The number of a rank is its place in the tensor-parallel group, plus the size of that group times its place in
//! the data-parallel group, plus the size of both times its pipeline stage, as in Megatron-LM. SimAI's numbers are
//! the same if there is one stage. Expert-parallel groups (`_EP`) divide a data-parallel group into parts of `ep`
//! consecutive members. The members with the same place in all parts reduce the gradients of their experts
//! (`_DP_EP`). The ranks of all stages execute the layers of the file, which are those of one stage. Messages
//! between stages are not simulated, because the file does not state which layers belong to which micro-batch.
//!
//! Sizes are as in SimAI: for an all-gather and a reduce-scatter, the whole vector; for an all-to-all, all bytes
//! that a rank sends. The root of a broadcast, which SimAI ignores, is the first rank of the group. Operations
//! without bytes or with one rank take no time, not even for the update.

use std::collections::{BTreeSet, HashMap};

use super::fields::{Ignored, WORKLOAD};
use super::shares;
use crate::collective::{Call, Choice, Collective, Sizes};
use crate::error::{TraceError, clip};
use crate::read::source::Source;
use crate::read::{Fault, Options, at_line};
use crate::sequence::Sequence;
use crate::trace::{MAX_RANKS, Operation, Trace, TraceBuilder, scaled};

/// What the ranks execute, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Transformer,
    Recomputing,
    Data,
    Model,
    Micro,
    Inference,
}

const POLICIES: [(&str, Policy); 6] = [
    ("HYBRID_TRANSFORMER", Policy::Transformer),
    ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", Policy::Recomputing),
    ("DATA", Policy::Data),
    ("MODEL", Policy::Model),
    ("MICRO", Policy::Micro),
    ("DISTRIBUTED_INFERENCE", Policy::Inference),
];

/// Other policies of the format, and why they are refused.
const REFUSED: [(&str, &str); 5] = [
    ("HYBRID_DATA_MODEL", OF_NETWORK),
    ("HYBRID_MODEL_DATA", OF_NETWORK),
    ("HYBRID_CUSTOMIZED", OF_NETWORK),
    ("HYBRID_DLRM", OF_EMBEDDINGS),
    ("HYBRID_DLRM_ENHANCED", OF_EMBEDDINGS),
];
const OF_NETWORK: &str = "its groups are dimensions of ASTRA-sim's network, which the file does not contain";
const OF_EMBEDDINGS: &str = "its order of embedding layers is not supported";

/// A pass through a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Forward,
    Input,
    Weight,
}

/// The passes, with the names of their fields.
const PASSES: [(Pass, &str); 3] =
    [(Pass::Forward, "forward"), (Pass::Input, "input-gradient"), (Pass::Weight, "weight-gradient")];

const OPERATIONS: [(&str, Collective); 5] = [
    ("ALLREDUCE", Collective::AllReduce),
    ("ALLGATHER", Collective::AllGather),
    ("REDUCESCATTER", Collective::ReduceScatter),
    ("ALLTOALL", Collective::AllToAll),
    ("BROADCAST", Collective::Broadcast),
];

impl Policy {
    fn name(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Whether the first line states groups. Otherwise, all ranks form one group.
    const fn has_groups(self) -> bool {
        matches!(self, Self::Transformer | Self::Recomputing)
    }

    /// Whether a pass can have a collective operation.
    const fn communicates(self, pass: Pass) -> bool {
        match self {
            Self::Transformer | Self::Recomputing => true,
            Self::Data | Self::Micro => matches!(pass, Pass::Weight),
            Self::Model => !matches!(pass, Pass::Weight),
            Self::Inference => matches!(pass, Pass::Forward),
        }
    }

    /// Whether the computations of a pass are executed.
    const fn computes(self, pass: Pass) -> bool {
        match self {
            Self::Micro => false,
            Self::Inference => matches!(pass, Pass::Forward),
            _ => true,
        }
    }
}

/// Whether a file with this first line is a workload.
#[must_use]
pub fn looks_like(first: &str) -> bool {
    let word = first.split_whitespace().next().unwrap_or_default();
    POLICIES.iter().any(|(name, _)| *name == word) || REFUSED.iter().any(|(name, _)| *name == word)
}

/// The first line.
struct Header {
    line: u64,
    policy: Policy,
    tensor: Option<u32>,
    experts: Option<u32>,
    stages: Option<u32>,
    ranks: Option<u32>,
    /// Layers from which the forward pass can be repeated, and layers that repeat it.
    checkpoints: BTreeSet<u32>,
    initiates: BTreeSet<u32>,
    /// Fields that are stated, but not used.
    unused: Vec<&'static str>,
}

fn number(key: &str, word: Option<&str>, least: u32) -> Result<u32, String> {
    let word = word.ok_or_else(|| format!("a number is missing after {key}"))?;
    let found = word.parse().ok().filter(|number| *number >= least);
    found.ok_or_else(|| format!("{key} {} is not a whole number from {least} to {}", clip(word), u32::MAX))
}

fn header(line: u64, text: &str) -> Result<Header, String> {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let supported = || POLICIES.map(|(name, _)| name).join(", ");
    let policy = POLICIES.iter().find(|(name, _)| *name == first).map(|(_, policy)| *policy);
    let policy = policy.ok_or_else(|| match REFUSED.iter().find(|(name, _)| *name == first) {
        Some((name, why)) => format!("policy {name}: {why}; policies that can be read are {}", supported()),
        None => format!("policy {} is not one of {}", clip(first), supported()),
    })?;
    let mut header = Header {
        line,
        policy,
        tensor: None,
        experts: None,
        stages: None,
        ranks: None,
        checkpoints: BTreeSet::new(),
        initiates: BTreeSet::new(),
        unused: Vec::new(),
    };
    while let Some(word) = words.next() {
        let key = word.strip_suffix(':').unwrap_or(word);
        match key {
            "model_parallel_NPU_group" => header.tensor = Some(number(key, words.next(), 1)?),
            "ep" | "expert_parallel_npu_group" => header.experts = Some(number(key, words.next(), 1)?),
            "pp" => header.stages = Some(number(key, words.next(), 1)?),
            "all_gpus" => header.ranks = Some(number(key, words.next(), 1)?),
            "vpp" | "ga" => {
                number(key, words.next(), 0)?;
                header.unused.push(if key == "ga" { "ga" } else { "vpp" });
            }
            "pp_comm" => {
                // AICB divides it by the size of a group, and writes a decimal number.
                let bytes = words.next().unwrap_or_default();
                bytes
                    .parse::<f64>()
                    .ok()
                    .filter(|bytes| bytes.is_finite() && *bytes >= 0.0)
                    .ok_or_else(|| format!("pp_comm {} is not a number of bytes", clip(bytes)))?;
                header.unused.push("pp_comm");
            }
            "checkpoints" | "checkpoint_initiates" => {
                let count = number(key, words.next(), 0)?;
                let layers =
                    if key == "checkpoints" { &mut header.checkpoints } else { &mut header.initiates };
                for _ in 0..count {
                    layers.insert(number(key, words.next(), 0)?);
                }
            }
            _ => {
                return Err(format!(
                    "{} is not one of model_parallel_NPU_group, ep, pp, vpp, ga, all_gpus, checkpoints, \
                     checkpoint_initiates and pp_comm",
                    clip(key)
                ));
            }
        }
    }
    Ok(header)
}

/// Groups of ranks. The members of a group have constant distances.
#[derive(Debug, Clone, Copy)]
struct Groups {
    ranks: u32,
    tensor: u32,
    data: u32,
    experts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Tensor,
    Data,
    Experts,
    ExpertData,
}

impl Groups {
    /// The groups of a workload. Errors are without position.
    fn new(header: &Header, ranks: u32) -> Result<Self, String> {
        if !header.policy.has_groups() {
            let tensor = if header.policy.communicates(Pass::Forward) { ranks } else { 1 };
            return Ok(Self { ranks, tensor, data: ranks / tensor, experts: 1 });
        }
        let tensor = header
            .tensor
            .ok_or_else(|| format!("{} needs model_parallel_NPU_group", header.policy.name()))?;
        let (stages, experts) = (header.stages.unwrap_or(1), header.experts.unwrap_or(1));
        let of_replica = u64::from(tensor) * u64::from(stages);
        if !u64::from(ranks).is_multiple_of(of_replica) {
            return Err(format!(
                "{ranks} ranks cannot be divided into replicas of {tensor} (model_parallel_NPU_group) x {stages} (pp) ranks"
            ));
        }
        let data = (u64::from(ranks) / of_replica) as u32;
        if !data.is_multiple_of(experts) {
            return Err(format!("{data} replicas cannot be divided into groups of {experts} (ep)"));
        }
        Ok(Self { ranks, tensor, data, experts })
    }

    fn size(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Tensor => self.tensor,
            Kind::Data => self.data,
            Kind::Experts => self.experts,
            Kind::ExpertData => self.data / self.experts,
        }
    }

    /// The first member of the group of a rank, the distance between members, and the place of the rank.
    fn of(&self, kind: Kind, rank: u32) -> (u32, u32, u32) {
        let replica = rank / self.tensor % self.data;
        let (distance, place) = match kind {
            Kind::Tensor => (1, rank % self.tensor),
            Kind::Data => (self.tensor, replica),
            Kind::Experts => (self.tensor, replica % self.experts),
            Kind::ExpertData => (self.tensor * self.experts, replica / self.experts),
        };
        (rank - place * distance, distance, place)
    }
}

/// A collective operation and the update that follows it.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    operation: Collective,
    kind: Kind,
    bytes: u64,
    update_ns: u64,
}

/// A layer: the duration and the operation of each pass.
struct Layer {
    line: u64,
    passes: [(u64, Option<Exchange>); 3],
}

/// A step of all ranks.
enum Step {
    Compute(u64),
    Exchange(Exchange),
    /// The operation runs while the rank continues.
    Start(Exchange),
    /// The rank waits for the operations that have started.
    Wait,
}

struct Reader<'o> {
    name: String,
    header: Header,
    groups: Groups,
    build: TraceBuilder,
    options: &'o Options,
    ignored: Ignored,
    /// Number of operations of groups with one rank.
    alone: u64,
    layers: Vec<Layer>,
    steps: Vec<(u64, Step)>,
}

/// Reads a workload.
///
/// # Errors
/// If the workload cannot be read, is invalid, does not state the number of ranks although
/// [`Options::ranks`] is omitted, or exceeds `options.limit()`. Errors of a line contain its number.
pub fn read(mut source: Source<'_>, options: &Options) -> Result<Trace, TraceError> {
    let name = source.name.clone();
    let Some((line, text)) = next(&mut source)? else {
        return Err(TraceError::new(&name, "the file is empty; a workload starts with its policy"));
    };
    let at = |message: String| TraceError::line(&name, line, message);
    let header = header(line, &text).map_err(at)?;
    let ranks = match (header.ranks, options.ranks) {
        (Some(stated), Some(other)) if stated != other => {
            return Err(at(format!("all_gpus is {stated}; ranks = {other} must be omitted or equal")));
        }
        (stated, other) => stated.or(other).ok_or_else(|| {
            at("the number of ranks (all_gpus) is not in the file: give it, `--ranks`, or `ranks` in a scenario".to_owned())
        })?,
    };
    let build = TraceBuilder::new(u64::from(ranks), options.limit()).map_err(at_line(&name, line))?;
    let groups = Groups::new(&header, ranks).map_err(at)?;
    let mut reader = Reader {
        name: name.clone(),
        header,
        groups,
        build,
        options,
        ignored: Ignored::default(),
        alone: 0,
        layers: Vec::new(),
        steps: Vec::new(),
    };
    let Some((line, text)) = next(&mut source)? else {
        return Err(TraceError::new(&name, "the second line, which states the number of layers, is missing"));
    };
    let wanted = number("number of layers", Some(text.trim()), 1)
        .map_err(|message| TraceError::line(&name, line, message))?;
    while let Some((here, text)) = next(&mut source)? {
        let place = reader.layers.len() as u32;
        if place == wanted {
            let message = format!("more layers than the {wanted} declared in line {line}");
            return Err(TraceError::line(&name, here, message));
        }
        reader.build.allow(u64::from(place) + 1).map_err(at_line(&name, here))?;
        let layer = reader.layer(here, &text).map_err(|message| TraceError::line(&name, here, message))?;
        reader.layers.push(layer);
    }
    if reader.layers.len() as u32 != wanted {
        let message = format!("{wanted} layers are declared, but there are {}", reader.layers.len());
        return Err(TraceError::line(&name, line, message));
    }
    reader.finish()
}

/// The next line that is not empty, with its number.
fn next(source: &mut Source<'_>) -> Result<Option<(u64, String)>, TraceError> {
    loop {
        let number = source.line + 1;
        match source.next_line()? {
            Some(line) if line.trim().is_empty() => {}
            line => return Ok(line.map(|line| (number, line.to_owned()))),
        }
    }
}

impl Reader<'_> {
    fn layer(&mut self, line: u64, text: &str) -> Result<Layer, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, dependency, .., update] = words[..] else { return Err(wrong_length(words.len())) };
        if words.len() != 12 {
            return Err(wrong_length(words.len()));
        }
        let dependency: i64 = dependency.parse().map_err(|_| {
            format!("dependency {} is not a whole number; it is usually -1", clip(dependency))
        })?;
        if dependency != -1 {
            self.ignored.add(&WORKLOAD, "dependency");
        }
        let update_ns = self.time("update", update)?;
        let mut layer = Layer { line, passes: [(0, None); 3] };
        for (place, (pass, name)) in PASSES.into_iter().enumerate() {
            let [duration, operation, bytes] = [0, 1, 2].map(|offset| words[2 + 3 * place + offset]);
            let field = format!("{name} compute");
            let ns = self.time(&field, duration)?;
            if ns > 0 && !self.header.policy.computes(pass) {
                self.ignored.add(&WORKLOAD, &field);
            } else {
                layer.passes[place].0 = ns;
            }
            let bytes = whole(&format!("{name} bytes"), bytes)?;
            let Some((operation, kind)) = self.operation(pass, name, operation)? else { continue };
            if self.groups.size(kind) == 1 {
                self.alone += 1;
            } else if bytes > 0 {
                layer.passes[place].1 = Some(Exchange { operation, kind, bytes, update_ns });
            }
        }
        Ok(layer)
    }

    fn time(&self, name: &str, word: &str) -> Result<u64, String> {
        Ok(scaled(whole(name, word)?, self.options.time_scale))
    }

    /// The operation and the group that a word of a layer names; `None` for `NONE`.
    fn operation(&self, pass: Pass, name: &str, word: &str) -> Result<Option<(Collective, Kind)>, String> {
        if word == "NONE" {
            return Ok(None);
        }
        let (operation, of_experts) = match (word.strip_suffix("_DP_EP"), word.strip_suffix("_EP")) {
            (Some(operation), _) => (operation, Some(Kind::ExpertData)),
            (None, Some(operation)) => (operation, Some(Kind::Experts)),
            (None, None) => (word, None),
        };
        let Some((_, operation)) = OPERATIONS.iter().find(|(known, _)| *known == operation) else {
            return Err(format!(
                "{name} collective {} is not one of NONE, {}; _EP or _DP_EP may follow",
                clip(word),
                OPERATIONS.map(|(known, _)| known).join(", ")
            ));
        };
        let policy = self.header.policy;
        if !policy.communicates(pass) {
            return Err(format!("{name} collective must be NONE with {}, not {word}", policy.name()));
        }
        if of_experts.is_some() && !policy.has_groups() {
            return Err(format!("{name} collective {word}: {} has no groups of experts", policy.name()));
        }
        let usual = if pass == Pass::Weight { Kind::Data } else { Kind::Tensor };
        Ok(Some((*operation, of_experts.unwrap_or(usual))))
    }

    /// Adds a step, unless it has no effect.
    fn step(&mut self, line: u64, step: Option<Step>) -> Result<(), TraceError> {
        if let Some(step) = step.filter(|step| !matches!(step, Step::Compute(0))) {
            self.build.allow(self.steps.len() as u64 + 1).map_err(at_line(&self.name, line))?;
            self.steps.push((line, step));
        }
        Ok(())
    }

    /// Adds the computation of a pass, and its operation if the rank waits for it.
    fn pass(&mut self, layer: usize, pass: Pass, waits: bool) -> Result<Option<Exchange>, TraceError> {
        let Layer { line, passes } = &self.layers[layer];
        let (line, (ns, exchange)) = (*line, passes[pass as usize]);
        self.step(line, Some(Step::Compute(ns)))?;
        if waits {
            self.step(line, exchange.map(Step::Exchange))?;
        }
        Ok(exchange)
    }

    fn schedule(&mut self) -> Result<(), TraceError> {
        let policy = self.header.policy;
        let count = self.layers.len();
        for layer in 0..count {
            if policy == Policy::Micro {
                self.pass(layer, Pass::Weight, true)?;
            } else {
                self.pass(layer, Pass::Forward, true)?;
            }
        }
        if matches!(policy, Policy::Micro | Policy::Inference) {
            return Ok(());
        }
        let mut repeated = 0;
        for layer in (0..count).rev() {
            let line = self.layers[layer].line;
            match policy {
                Policy::Data => {
                    let exchange = self.pass(layer, Pass::Weight, false)?;
                    self.step(line, exchange.map(Step::Start))?;
                    if layer > 0 {
                        self.pass(layer, Pass::Input, false)?;
                    }
                }
                Policy::Model => {
                    let exchange = self.pass(layer, Pass::Input, false)?.filter(|_| layer > 0);
                    self.step(line, exchange.map(Step::Start))?;
                    self.pass(layer, Pass::Weight, false)?;
                    self.step(line, exchange.map(|_| Step::Wait))?;
                }
                _ => {
                    if let Some(first) = self.repeats_from(layer)? {
                        repeated += (layer - first) as u64;
                        self.build.allow(repeated).map_err(at_line(&self.name, line))?;
                        for earlier in first..layer {
                            self.pass(earlier, Pass::Forward, true)?;
                        }
                    }
                    self.pass(layer, Pass::Input, true)?;
                    let exchange = self.pass(layer, Pass::Weight, false)?;
                    self.step(line, exchange.map(Step::Start))?;
                }
            }
        }
        Ok(())
    }

    /// The layer from which the forward pass is repeated before the backward pass of a layer.
    fn repeats_from(&self, layer: usize) -> Result<Option<usize>, TraceError> {
        if self.header.policy != Policy::Recomputing || !self.header.initiates.contains(&(layer as u32)) {
            return Ok(None);
        }
        match self.header.checkpoints.range(..=layer as u32).next_back() {
            Some(&first) => Ok(Some(first as usize)),
            None => {
                let message =
                    format!("checkpoint_initiates {layer}: no layer of checkpoints is at or before it");
                Err(TraceError::line(&self.name, self.header.line, message))
            }
        }
    }

    fn finish(mut self) -> Result<Trace, TraceError> {
        let count = self.layers.len() as u32;
        let last = self.header.checkpoints.iter().chain(&self.header.initiates).max().copied();
        if let Some(last) = last.filter(|&last| last >= count) {
            let message = format!("checkpoint of layer {last}: the file has layers 0 to {}", count - 1);
            return Err(TraceError::line(&self.name, self.header.line, message));
        }
        self.note_unused();
        self.schedule()?;
        self.allow()?;
        let ranks = self.groups.ranks;
        let mut sequences: Vec<[Sequence; 2]> =
            (0..ranks).map(|rank| [Sequence::new(rank), Sequence::on_cpu(rank, 1)]).collect();
        for (line, step) in &self.steps {
            execute(step, self.groups, &mut self.build, &mut sequences, &self.options.algorithms)
                .map_err(|fault| fault.at(&self.name, *line))?;
        }
        self.build.finish().map_err(|error| TraceError::new(&self.name, error.to_string()))
    }

    /// Rejects a workload with more operations than allowed before they exist. The number of messages depends on
    /// the operation and the group, but not on the bytes.
    fn allow(&self) -> Result<(), TraceError> {
        let (ranks, algorithms) = (u64::from(self.groups.ranks), &self.options.algorithms);
        let mut known: HashMap<(Collective, Kind), u64> = HashMap::new();
        let mut all = 0u64;
        for (line, step) in &self.steps {
            let fault = |fault: Fault| fault.at(&self.name, *line);
            all += match step {
                Step::Wait => 0,
                Step::Compute(_) => ranks,
                Step::Exchange(exchange) | Step::Start(exchange) => {
                    let update = if exchange.update_ns > 0 { ranks } else { 0 };
                    let key = (exchange.operation, exchange.kind);
                    let messages = match known.get(&key) {
                        Some(&messages) => messages,
                        None => messages(exchange, self.groups, algorithms, self.options.limit())
                            .map_err(fault)?,
                    };
                    known.insert(key, messages);
                    messages + update
                }
            };
            self.build.allow(all).map_err(|error| fault(error.into()))?;
        }
        Ok(())
    }

    /// Adds notes on what has no effect.
    fn note_unused(&mut self) {
        let header = &self.header;
        let stages = if header.policy.has_groups() { header.stages.unwrap_or(1) } else { 1 };
        if stages > 1 {
            header.unused.iter().for_each(|name| self.ignored.add(&WORKLOAD, name));
            self.build.notes.push(format!(
                "the {stages} pipeline stages exchange no messages, because the file does not state their order"
            ));
        }
        if !header.policy.has_groups() {
            let sizes =
                [("model_parallel_NPU_group", header.tensor), ("ep", header.experts), ("pp", header.stages)];
            for (name, _) in sizes.into_iter().filter(|(_, size)| size.is_some_and(|size| size > 1)) {
                self.ignored.add(&WORKLOAD, name);
            }
        }
        if header.policy != Policy::Recomputing {
            let lists = [("checkpoints", &header.checkpoints), ("checkpoint_initiates", &header.initiates)];
            for (name, _) in lists.into_iter().filter(|(_, layers)| !layers.is_empty()) {
                self.ignored.add(&WORKLOAD, name);
            }
        }
        if self.alone > 0 {
            let note = format!("{} collective operations have only one rank, and take no time", self.alone);
            self.build.notes.push(note);
        }
        self.build.notes.extend(self.ignored.note());
    }
}

fn wrong_length(words: usize) -> String {
    format!(
        "a layer has 12 words: name, dependency, three times duration, collective operation and bytes, and update; \
         found {words}"
    )
}

fn whole(name: &str, word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{name} {} is not a whole number below 2^64", clip(word)))
}

/// Passes the call of an exchange to `then`.
fn with_call<R>(
    exchange: &Exchange,
    groups: Groups,
    algorithms: &Choice,
    then: impl FnOnce(&Call<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let Exchange { operation, kind, bytes, .. } = *exchange;
    let size = groups.size(kind);
    let each = u64::from(size);
    let blocks: Vec<u64>;
    let sizes = match operation {
        Collective::AllGather | Collective::ReduceScatter if bytes.is_multiple_of(each) => {
            Sizes::Uniform(bytes / each)
        }
        Collective::AllGather | Collective::ReduceScatter => {
            blocks = shares(bytes, each);
            Sizes::PerRank(&blocks)
        }
        Collective::AllToAll => Sizes::Uniform(bytes.div_ceil(each)),
        _ => Sizes::Uniform(bytes),
    };
    then(&Call::new(operation, algorithms.of(operation), size, 0, sizes)?)
}

/// Number of messages of all ranks in an exchange. The count stops when it exceeds `most`.
fn messages(exchange: &Exchange, groups: Groups, algorithms: &Choice, most: u64) -> Result<u64, Fault> {
    with_call(exchange, groups, algorithms, |call| {
        let of_all = u64::from(groups.ranks / call.ranks);
        let mut found = 0;
        for place in 0..call.ranks {
            let counted = call.rounds(place, &mut |round| {
                found += of_all * (round.sends.len() + round.recvs.len()) as u64;
                if found > most { Err(()) } else { Ok(()) }
            });
            if counted.is_err() {
                break;
            }
        }
        Ok(found)
    })
}

/// Adds the operations of a step in all ranks.
fn execute(
    step: &Step,
    groups: Groups,
    build: &mut TraceBuilder,
    sequences: &mut [[Sequence; 2]],
    algorithms: &Choice,
) -> Result<(), Fault> {
    let (exchange, second) = match step {
        Step::Compute(ns) => {
            return Ok(sequences.iter_mut().try_for_each(|[own, _]| own.compute(build, *ns))?);
        }
        Step::Wait => {
            sequences.iter_mut().for_each(|[own, started]| own.join(started));
            return Ok(());
        }
        Step::Exchange(exchange) => (exchange, false),
        Step::Start(exchange) => (exchange, true),
    };
    let Exchange { kind, update_ns, .. } = *exchange;
    with_call(exchange, groups, algorithms, |call| {
        for (rank, [own, started]) in (0..).zip(sequences) {
            let (first, distance, place) = groups.of(kind, rank);
            if second {
                started.join(own);
            }
            let sequence = if second { started } else { own };
            // Operations that run at the same time need communicators, and therefore tags, of their own.
            let comm = (2 * kind as u32 + u32::from(second)) * MAX_RANKS + first;
            sequence.collective(build, call, &|member| first + member * distance, place, comm)?;
            if update_ns > 0 {
                sequence.blocking(build, Operation::delay(update_ns))?;
            }
        }
        Ok(())
    })
}
