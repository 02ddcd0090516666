//! Jobs of a scenario: the programs of their ranks, and the hosts on which the ranks run.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::{Job, QueuePairs, Sends};
use silvan_trace::Trace;
use silvan_trace::collective::{
    Algorithm, COLLECTIVES, Choice, Collective, CpuVendor, Gpu, LatencySet, Protocol, STREAMS, Tuner,
};
use silvan_trace::execute::Parameters;
use silvan_trace::generate::{Dispatch, Inference, Kernels, Moe, Repeated, Transformer};
use silvan_trace::read::{Format, Options, read};
use silvan_trace::trace::{MAX_ITEMS, MAX_KEPT};

use crate::error::Fault;
use crate::estimate;
use crate::ports;
use crate::reduction::{self, JobReduction, Units};
use crate::spec::Spec;
use crate::validate::ensure;

/// A parallel application: its ranks run on hosts, compute, send messages and wait for messages from each
/// other. The network, shared with all other traffic, determines how long messages take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Name in results. Default: its key, "job.0", "job.1" and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program of the ranks.
    pub program: Program,
    /// Hosts on which the ranks can be placed, in this order: a list, or a text with a range such as `H[1-64]`
    /// (also within a list). Default: all hosts that no earlier job uses, in the order of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// How ranks are assigned to these hosts.
    #[serde(default)]
    pub placement: Placement,
    /// How ranks are distributed if several of them share a host.
    #[serde(default)]
    pub sharing: Sharing,
    /// Ranks per host, 1 to 64. Messages between ranks of one host do not use the network.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks_per_host: u32,
    /// Time at which the ranks start.
    #[serde(default)]
    pub start: Time,
    /// Service level of the messages, 0 to 15.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
    /// CPU time of a rank for each message sent or received (LogGP's o). Default: 0 s.
    #[serde(default)]
    pub overhead: Time,
    /// Rate at which the CPU of a rank copies the data it sends and receives (LogGP's 1/O). By default,
    /// copying takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_rate: Option<Rate>,
    /// How a host sends messages that its ranks post at the same time.
    #[serde(default)]
    pub sends: Sends,
    /// The queue pairs of each pair of ranks on different hosts. Default: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_pairs: Option<QueuePairs>,
    /// Rate at which messages between ranks of one host are copied. By default, they take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_rate: Option<Rate>,
    /// Messages larger than this are sent by rendezvous: they wait until the matching receive is posted. By default,
    /// messages of all sizes are sent without waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous_above: Option<Bytes>,
    /// How messages contain their data. All sizes in results, and `rendezvous_above`, refer to the resulting messages.
    #[serde(default)]
    pub protocol: Protocol,
    /// Constants (assumed) of the time that the messages of collective operations wait before they are sent, by algorithm and
    /// protocol. Default: none wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<LatencySet>,
    /// The algorithm of each collective operation.
    #[serde(default)]
    pub algorithms: Algorithms,
    /// Lets the cost model of NCCL choose algorithms and protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<Nccl>,
    /// How collective operations of the algorithm `in-network` use the reduction units of switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<JobReduction>,
}

const fn one() -> u32 {
    1
}

/// The choice of algorithms and protocols by the cost model of NCCL, for each all-reduce, all-gather and reduce-scatter by its
/// size and group. If `algorithms` states the algorithm, only its protocol is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nccl {
    /// The generation of the GPUs.
    pub gpu: Gpu,
    /// The vendor of the CPUs.
    pub cpu: CpuVendor,
    /// Number of channels. Default: 16, assumed; NCCL derives it from the links of a host (`NCCL_DEBUG=INFO` prints it).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub channels: Option<u32>,
    /// The bandwidth between hosts of all channels together, for each rank of a group on a host. Default: that of all ports of
    /// a host, divided by `ranks_per_host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// The bandwidth of all channels of a group on one host together. Default: `ports.inner_rate` or `memory_rate`, otherwise
    /// `bandwidth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_bandwidth: Option<Rate>,
    /// The protocols that can be chosen. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<Protocol>>,
    /// Whether NVLS, in which switches within hosts combine data, can be chosen. Default: if `ports.inner_rate` is given, and
    /// ranks have no `overhead` and no `copy_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvls: Option<bool>,
}

impl Nccl {
    /// The tuner for ranks whose ports have a rate together, and whose links within their host have another one.
    fn tuner(&self, at: &str, RankRates { ports, inner, is_linked }: RankRates) -> Result<Tuner, Fault> {
        let channels = self.channels.unwrap_or(16);
        ensure((1..=64).contains(&channels), &format!("{at}.channels"), || "must be 1 to 64".to_owned())?;
        for (key, rate) in [("bandwidth", self.bandwidth), ("inner_bandwidth", self.inner_bandwidth)] {
            ensure(rate.is_none_or(|rate| rate.0 >= 1_000), &format!("{at}.{key}"), || {
                "must be at least 1 kbit/s".to_owned()
            })?;
        }
        let has = |protocol| self.protocols.as_ref().is_none_or(|given| given.contains(&protocol));
        let protocols = [Protocol::Simple, Protocol::Ll, Protocol::Ll128].map(has);
        ensure(protocols.contains(&true), &format!("{at}.protocols"), || {
            "must contain at least one protocol; leave it out for all".to_owned()
        })?;
        let bandwidth = self.bandwidth.unwrap_or(ports);
        let inner_bandwidth = self.inner_bandwidth.or(inner).unwrap_or(bandwidth);
        let switches = self.nvls.unwrap_or(true) && is_linked;
        Ok(Tuner { gpu: self.gpu, cpu: self.cpu, channels, bandwidth, inner_bandwidth, protocols, switches })
    }
}

/// The rates of the ports of a rank, and of its link within its host.
#[derive(Debug, Clone, Copy)]
struct RankRates {
    ports: Rate,
    inner: Option<Rate>,
    /// Whether links to a switch connect the ranks of a host.
    is_linked: bool,
}

/// How ranks are assigned to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// In the order of the hosts.
    #[default]
    Linear,
    /// The first host of each leaf switch, then the second host of each, and so on.
    RoundRobin,
    /// In a random order, derived from the seed.
    Random,
}

/// How ranks share hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Consecutive ranks share a host: ranks 0 and 1, then 2 and 3.
    #[default]
    Block,
    /// One rank on each host, then a second rank on each, and so on.
    Cyclic,
}

/// The program of a job's ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    /// A recorded trace: GOAL (text or binary), SimGrid's time-independent traces, VEF, Chakra,
    /// recordings of HPCC, text workloads of SimAI and ASTRA-sim, or an algorithm of MSCCL.
    Trace {
        /// The file. The name is relative to the scenario.
        file: String,
        /// Format of the file. By default it is detected from the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<Format>,
        /// Nanoseconds per time unit of the file, 1 by default.
        #[serde(default = "unscaled")]
        #[schemars(range(min = 0))]
        time_scale: f64,
        /// Factor by which computation times and delays are multiplied, 1 by default.
        #[serde(default = "unscaled")]
        #[schemars(range(min = 0))]
        compute_scale: f64,
        /// Speed of a host in flop/s, for traces that count operations. Default: 1e9 for SimGrid's traces.
        /// Chakra's traces need it if computations state `num_ops`, but no duration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        host_flops: Option<f64>,
        /// Memory bandwidth of a host, for nodes of Chakra's traces that state `tensor_size`, but no
        /// duration. A computation takes the longer of its operations at `host_flops` and its bytes at this
        /// rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_bandwidth: Option<Rate>,
        /// Number of ranks, for text workloads of SimAI and ASTRA-sim that do not state it (`all_gpus`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        ranks: Option<u32>,
        /// Total size of the operation, for algorithms of MSCCL: that of all chunks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// Number of operations and dependencies, 33,554,432 by default, above which a GOAL or Chakra trace is stored in a
        /// temporary file during the run. Results do not depend on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_memory: Option<u64>,
    },
    /// A collective operation, repeated.
    Collective {
        /// The operation.
        operation: Collective,
        /// Number of ranks of all groups together.
        #[schemars(range(min = 1))]
        ranks: u32,
        /// Number of independent groups of `ranks` / `groups` consecutive ranks each.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        groups: u32,
        /// Size of the vector (all-reduce, broadcast, reduce, scan), or of each block. A barrier has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// Number of repetitions.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        iterations: u32,
        /// Computation time of each rank before each repetition.
        #[serde(default)]
        compute: Time,
    },
    /// A kernel of HPC Challenge.
    HpcChallenge(Kernels),
    /// A training step of a transformer with tensor, context, pipeline and data parallelism.
    Transformer(Transformer),
    /// Layers of a mixture of experts, whose ranks exchange tokens.
    Moe(Moe),
    /// Requests to a transformer: some instances process prompts, and others generate tokens.
    Inference(Inference),
}

const fn unscaled() -> f64 {
    1.0
}

/// The algorithm of each collective operation. Defaults: recursive doubling (all-reduce, scan), ring
/// (all-gather), pairwise (reduce-scatter, all-to-all), binomial (broadcast, reduce, gather, scatter),
/// dissemination (barrier).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Algorithms {
    /// Every rank receives the combination of all vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::AllReduce as usize }>")]
    pub all_reduce: Option<Algorithm>,
    /// Every rank receives the blocks of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::AllGather as usize }>")]
    pub all_gather: Option<Algorithm>,
    /// Every rank receives its block of the combination.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::ReduceScatter as usize }>")]
    pub reduce_scatter: Option<Algorithm>,
    /// Every rank sends a different block to every other rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::AllToAll as usize }>")]
    pub all_to_all: Option<Algorithm>,
    /// Every rank receives the root's vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Broadcast as usize }>")]
    pub broadcast: Option<Algorithm>,
    /// The root receives the combination of all vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Reduce as usize }>")]
    pub reduce: Option<Algorithm>,
    /// The root receives the blocks of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Gather as usize }>")]
    pub gather: Option<Algorithm>,
    /// Every rank receives its block from the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Scatter as usize }>")]
    pub scatter: Option<Algorithm>,
    /// No rank continues before all ranks have reached the barrier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Barrier as usize }>")]
    pub barrier: Option<Algorithm>,
    /// Every rank receives the combination of its own vector and those of all earlier ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_of::<{ Collective::Scan as usize }>")]
    pub scan: Option<Algorithm>,
    /// Maximum size of the chunks that an operation by `double-tree` or `nvls` sends, 128 KiB by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Maximum number of rings of an all-reduce, all-gather or reduce-scatter by `ring`. Each has a part of the data, and enters
    /// and leaves each host by another rank, so there are no more rings than ranks on a host. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub channels: Option<u8>,
}

/// The names of the algorithms of an operation.
fn algorithms_of<const OPERATION: usize>(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = COLLECTIVES[OPERATION].algorithms().iter().map(|one| one.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

impl Algorithms {
    /// Whether the algorithm of some operation is `in-network`.
    pub(crate) fn reduces_in_network(&self) -> bool {
        COLLECTIVES.into_iter().any(|operation| self.given(operation) == Some(Algorithm::InNetwork))
    }

    /// Whether the algorithm of some operation is `nvls`.
    fn uses_switches(&self) -> bool {
        COLLECTIVES.into_iter().any(|operation| self.given(operation) == Some(Algorithm::Nvls))
    }

    fn given(&self, operation: Collective) -> Option<Algorithm> {
        match operation {
            Collective::AllReduce => self.all_reduce,
            Collective::AllGather => self.all_gather,
            Collective::ReduceScatter => self.reduce_scatter,
            Collective::AllToAll => self.all_to_all,
            Collective::Broadcast => self.broadcast,
            Collective::Reduce => self.reduce,
            Collective::Gather => self.gather,
            Collective::Scatter => self.scatter,
            Collective::Barrier => self.barrier,
            Collective::Scan => self.scan,
        }
    }

    /// The algorithms of a job whose hosts have a number of consecutive ranks. `is_tuned` states whether NCCL's model chooses
    /// those that are not given.
    fn choice(&self, at: &str, ranks_per_host: u32, is_tuned: bool) -> Result<Choice, Fault> {
        let mut choice = Choice::default();
        choice.ranks_per_host = ranks_per_host;
        if let Some(chunk) = self.chunk {
            let at = format!("{at}.algorithms.chunk");
            ensure(chunk.0 > 0, &at, || "must be at least 1 B".to_owned())?;
            let is_used = self.all_reduce == Some(Algorithm::DoubleTree)
                || self.uses_switches()
                || self.all_reduce.is_none() && is_tuned;
            ensure(is_used, &at, || {
                "has no effect unless all_reduce = \"double-tree\", or an operation has \"nvls\"; leave it out"
                    .to_owned()
            })?;
            choice.chunk = chunk.0;
        }
        if let Some(channels) = self.channels {
            let at = format!("{at}.algorithms.channels");
            ensure((1..=STREAMS).contains(&channels), &at, || format!("must be 1 to {STREAMS}"))?;
            ensure(!is_tuned, &at, || "cannot be combined with `nccl`; use nccl.channels".to_owned())?;
            let rings = [self.all_reduce, self.all_gather, self.reduce_scatter];
            ensure(rings.contains(&Some(Algorithm::Ring)), &at, || {
                "has no effect unless all_reduce, all_gather or reduce_scatter is \"ring\"; leave it out"
                    .to_owned()
            })?;
            choice.channels = channels;
        }
        for operation in COLLECTIVES {
            if let Some(algorithm) = self.given(operation) {
                let key = operation.name().replace('-', "_");
                let set = choice.set(operation.name(), algorithm.name());
                set.map_err(|what| Fault::new(format!("{at}.algorithms.{key}"), what))?;
            }
        }
        Ok(choice)
    }
}

impl JobSpec {
    fn parameters(&self) -> Parameters {
        Parameters {
            overhead: self.overhead,
            overhead_per_byte_fs: self.copy_rate.map_or(0, Parameters::gap_of),
            rendezvous_above: self.rendezvous_above.map_or(u64::MAX, |bytes| bytes.0),
            ..Parameters::default()
        }
    }

    /// Whether messages take no CPU time, as those to and from switches within hosts.
    fn is_free(&self) -> bool {
        self.overhead == Time::ZERO && self.copy_rate.is_none()
    }

    /// Checks what NVLS and latencies need.
    fn check_devices(&self, at: &str) -> Result<(), Fault> {
        let is_switched = self.algorithms.uses_switches();
        let given = [("overhead", self.overhead > Time::ZERO), ("copy_rate", self.copy_rate.is_some())];
        for (key, is_given) in given {
            ensure(!(is_given && is_switched), &format!("{at}.{key}"), || {
                "cannot be combined with the algorithm \"nvls\": switches combine and copy data without a CPU; use latencies".to_owned()
            })?;
        }
        ensure(!is_switched || self.protocol == Protocol::Simple, &format!("{at}.protocol"), || {
            "must be \"simple\" with the algorithm \"nvls\": switches combine data alone".to_owned()
        })?;
        let switches = self.nccl.as_ref().and_then(|nccl| nccl.nvls) == Some(true);
        ensure(!switches || self.is_free(), &format!("{at}.nccl.nvls"), || {
            "cannot be combined with job.overhead and job.copy_rate: switches combine and copy data without a CPU; use latencies"
                .to_owned()
        })?;
        ensure(
            self.latencies.is_none() || !self.algorithms.reduces_in_network(),
            &format!("{at}.latencies"),
            || "cannot be combined with the algorithm \"in-network\"; leave it out".to_owned(),
        )
    }

    fn choice(&self, at: &str, rates: RankRates) -> Result<Choice, Fault> {
        let by_host = matches!(&self.program, Program::Moe(Moe { dispatch: Dispatch::Host, .. }))
            || self.algorithms.all_reduce == Some(Algorithm::Hierarchical)
            || self.algorithms.uses_switches()
            || self.latencies.is_some()
            || self.algorithms.channels.is_some_and(|channels| channels > 1)
            || self.nccl.is_some();
        ensure(!by_host || self.sharing == Sharing::Block, &format!("{at}.sharing"), || {
            "must be \"block\" with the algorithms `hierarchical` and `nvls`, several channels, dispatch = \"host\", `latencies` and \
             `nccl`, so that consecutive ranks share a host"
                .to_owned()
        })?;
        self.check_devices(at)?;
        let mut choice = self.algorithms.choice(at, self.ranks_per_host, self.nccl.is_some())?;
        (choice.latencies, choice.protocol) = (self.latencies, self.protocol);
        if let Some(nccl) = &self.nccl {
            ensure(self.protocol == Protocol::Simple, &format!("{at}.protocol"), || {
                "cannot be combined with `nccl`, which chooses protocols; use nccl.protocols".to_owned()
            })?;
            ensure(!self.algorithms.reduces_in_network(), &format!("{at}.nccl"), || {
                "cannot be combined with the algorithm \"in-network\"".to_owned()
            })?;
            let tuner = nccl.tuner(&format!("{at}.nccl"), rates)?;
            choice.channels = tuner.channels as u8;
            choice.tuner = Some(tuner);
        }
        Ok(choice)
    }

    /// Reads or generates the trace of the ranks, with reducers if an algorithm is `in-network`.
    fn trace(&self, base: &Path, at: &str, rates: RankRates) -> Result<Trace, Fault> {
        let algorithms = self.choice(at, rates)?;
        let is_switched =
            self.algorithms.uses_switches() || self.nccl.as_ref().is_some_and(|nccl| nccl.nvls == Some(true));
        ensure(!is_switched || rates.is_linked, &format!("{at}.algorithms"), || {
            "\"nvls\" needs links between the ranks of a host; set ports.inner_rate".to_owned()
        })?;
        let wrong = |what: String| Fault::new(format!("{at}.program"), what);
        match &self.program {
            Program::Trace {
                file,
                format,
                time_scale,
                compute_scale,
                host_flops,
                host_bandwidth,
                ranks,
                bytes,
                in_memory,
            } => {
                let options = Options {
                    format: *format,
                    time_scale: *time_scale,
                    compute_scale: *compute_scale,
                    host_flops: *host_flops,
                    host_bandwidth: *host_bandwidth,
                    ranks: *ranks,
                    bytes: bytes.map(|bytes| bytes.0),
                    algorithms,
                    in_memory: in_memory.unwrap_or(MAX_KEPT),
                    ..Options::default()
                };
                let made = read(&base.join(file), &options);
                let made =
                    made.map_err(|error| Fault::new(format!("{at}.program.file"), error.to_string()))?;
                let may_be_stored = matches!(made.format, Format::Goal | Format::GoalBinary | Format::Chakra);
                ensure(in_memory.is_none() || may_be_stored, &format!("{at}.program.in_memory"), || {
                    format!(
                        "has no effect: a trace of the format \"{}\" is always in memory",
                        made.format.name()
                    )
                })?;
                Ok(made.trace)
            }
            Program::Collective { operation, ranks, groups, bytes, iterations, compute } => {
                let (ranks, groups, iterations) = (*ranks, *groups, *iterations);
                let sizes = Repeated {
                    operation: *operation,
                    ranks,
                    groups,
                    bytes: bytes.map_or(0, |bytes| bytes.0),
                    iterations,
                    compute_ns: compute.0 / 1_000,
                };
                sizes.trace(&algorithms, MAX_ITEMS).map_err(wrong)
            }
            Program::HpcChallenge(sizes) => sizes.trace(&algorithms, MAX_ITEMS).map_err(wrong),
            Program::Transformer(sizes) => sizes.trace(&algorithms, MAX_ITEMS).map_err(wrong),
            Program::Moe(sizes) => sizes.trace(&algorithms, MAX_ITEMS).map_err(wrong),
            Program::Inference(sizes) => sizes.trace(&algorithms, MAX_ITEMS).map_err(wrong),
        }
    }
}

/// Checks the settings of jobs that depend on neither the network nor files.
pub(crate) fn check(spec: &Spec) -> Result<(), Fault> {
    for (index, job) in spec.job.iter().enumerate() {
        let at = format!("job.{index}");
        ensure(job.ranks_per_host > 1 || job.sharing == Sharing::Block, &format!("{at}.sharing"), || {
            "has no effect with one rank on a host; set ranks_per_host".to_owned()
        })?;
        ensure(job.start < spec.duration, &format!("{at}.start"), || {
            format!("must be before the end of the run, {}", spec.duration)
        })?;
        // The rates are not known yet, but no error depends on them.
        job.choice(&at, RankRates { ports: Rate(1), inner: None, is_linked: false })?;
        let is_plain = job.protocol == Protocol::Simple || !job.algorithms.reduces_in_network();
        ensure(is_plain, &format!("{at}.protocol"), || {
            "must be \"simple\" with the algorithm \"in-network\": adapters send the data alone".to_owned()
        })?;
        reduction::check_job(spec, job, &at)?;
        if let Some(pairs) = job.queue_pairs {
            check_queue_pairs(pairs, job, &format!("{at}.queue_pairs"))?;
        }
        if let Program::Trace { time_scale, compute_scale, host_flops, host_bandwidth, ranks, .. } =
            &job.program
        {
            for (key, value) in [("time_scale", time_scale), ("compute_scale", compute_scale)] {
                let fine = value.is_finite() && (0.0..=1e12).contains(value);
                ensure(fine, &format!("{at}.program.{key}"), || "must be 0 to 1e12".to_owned())?;
            }
            let fine = host_flops.is_none_or(|flops| flops.is_finite() && flops >= 1.0);
            ensure(fine, &format!("{at}.program.host_flops"), || "must be 1 or more".to_owned())?;
            let fine = host_bandwidth.is_none_or(|rate| rate.0 > 0);
            ensure(fine, &format!("{at}.program.host_bandwidth"), || "must be more than 0".to_owned())?;
            ensure(*ranks != Some(0), &format!("{at}.program.ranks"), || "must be 1 or more".to_owned())?;
        }
        if let Program::Collective { operation, bytes, compute, .. } = &job.program {
            let is_barrier = *operation == Collective::Barrier;
            ensure(bytes.is_some() != is_barrier, &format!("{at}.program.bytes"), || match is_barrier {
                true => "has no effect: a barrier carries no bytes; leave it out".to_owned(),
                false => format!("missing: the size of {}, such as \"1 MiB\"", operation.name()),
            })?;
            ensure(compute.0 % 1_000 == 0, &format!("{at}.program.compute"), || {
                "must be whole nanoseconds".to_owned()
            })?;
        }
    }
    Ok(())
}

fn check_queue_pairs(QueuePairs { count, split }: QueuePairs, job: &JobSpec, at: &str) -> Result<(), Fault> {
    ensure((1..=64).contains(&count), &format!("{at}.count"), || "must be 1 to 64".to_owned())?;
    let split_at = format!("{at}.split");
    ensure(!split || count > 1, &split_at, || {
        "has no effect with one queue pair; leave it out, or set count to at least 2".to_owned()
    })?;
    ensure(!split || job.sends == Sends::Interleaved, &split_at, || {
        "cannot be combined with sends = \"sequential\", with which a host sends one part of a message after the other".to_owned()
    })
}

/// The name of a job in results.
pub(crate) fn name(job: &JobSpec, index: usize) -> String {
    job.name.clone().unwrap_or_else(|| format!("job.{index}"))
}

/// The jobs with their traces and the hosts of their ranks, and the reduction units that they use.
pub(crate) fn build(spec: &Spec, base: &Path, topology: &Topology) -> Result<(Vec<Job>, Units), Fault> {
    let mut used: HashSet<u32> = HashSet::new();
    let (mut jobs, mut units) = (Vec::new(), Units::default());
    let ports = topology.machines.iter().map(|machine| machine.ports.len()).max().unwrap_or(1);
    let of_host = estimate::rates(spec, topology).0.0.saturating_mul(ports as u64);
    for (index, job) in spec.job.iter().enumerate() {
        let at = format!("job.{index}");
        let inner = spec.ports.as_ref().and_then(|ports| ports.inner_rate);
        let rates = RankRates {
            ports: Rate(of_host / u64::from(job.ranks_per_host.max(1))),
            inner: inner.or(job.memory_rate),
            is_linked: inner.is_some() && job.is_free(),
        };
        let mut trace = job.trace(base, &at, rates)?;
        let resized = trace.resize_messages(|data| job.protocol.size(data));
        resized.map_err(|error| Fault::new(format!("{at}.program"), error.to_string()))?;
        let mut hosts = places(job, spec.seed, (index, &at), topology, &used, trace.members())?;
        used.extend(&hosts);
        // A switch within a host is where the ranks are that it connects.
        let switches: Vec<u32> = trace.switches.iter().map(|&rank| hosts[rank as usize]).collect();
        hosts.extend(&switches);
        let ports = ports::of_job(spec, topology, &hosts);
        if let Some(ports) = &ports {
            trace = ports::pass_on(spec, &at, ports, trace)?;
            hosts = (0..trace.ranks()).map(|rank| ports.own(rank)).collect();
        }
        units.add((job, &at), topology, (&trace, &hosts))?;
        jobs.push(Job {
            name: name(job, index),
            trace: Arc::new(trace),
            hosts,
            ports,
            queue_pairs: job.queue_pairs.unwrap_or_default(),
            units: switches.len() as u32,
            parameters: job.parameters(),
            start: job.start,
            sl: job.sl,
            sends: job.sends,
            memory_rate: job.memory_rate,
        });
    }
    Ok((jobs, units))
}

/// The host of each rank; with hosts of several ports, as an index into [`Topology::machines`].
fn places(
    job: &JobSpec,
    seed: u64,
    (index, at): (usize, &str),
    topology: &Topology,
    used: &HashSet<u32>,
    ranks: u32,
) -> Result<Vec<u32>, Fault> {
    let names: Vec<&str> = match topology.machines.is_empty() {
        true => topology.hosts.iter().map(|host| host.name.as_str()).collect(),
        false => topology.machines.iter().map(|machine| machine.name.as_str()).collect(),
    };
    let known: HashMap<&str, u32> = (0..).zip(&names).map(|(at, &name)| (name, at)).collect();
    let mut hosts: Vec<u32> = match &job.hosts {
        // The network check has already verified that these hosts exist.
        Some(names) => names.iter().filter_map(|name| known.get(name.as_str()).copied()).collect(),
        None => (0..names.len() as u32).filter(|host| !used.contains(host)).collect(),
    };
    let needed = ranks.div_ceil(job.ranks_per_host);
    ensure(hosts.len() >= needed as usize, &format!("{at}.hosts"), || {
        let (there, each) = (hosts.len(), job.ranks_per_host);
        let whose = if job.hosts.is_some() { "are given" } else { "are left by the jobs before it" };
        format!("{there} {whose}, but {ranks} ranks need {needed}, {each} on each (ranks_per_host)")
    })?;
    match job.placement {
        Placement::Linear => {}
        Placement::RoundRobin => hosts = one_per_leaf_in_turn(&hosts, topology),
        Placement::Random => Stream::new(seed, "placement of ranks", index as u64).shuffle(&mut hosts),
    }
    let place = |rank: u32| match job.sharing {
        Sharing::Block => rank / job.ranks_per_host,
        Sharing::Cyclic => rank % needed,
    };
    Ok((0..ranks).map(|rank| hosts[place(rank) as usize]).collect())
}

/// Orders hosts by leaf switch: the first host of each switch, then the second of each, and so on. Leaf
/// switches are in the order of their first hosts.
fn one_per_leaf_in_turn(hosts: &[u32], topology: &Topology) -> Vec<u32> {
    let mut leaf_of = vec![u32::MAX; topology.hosts.len()];
    for link in &topology.links {
        for (one, other) in [(link.a.node, link.b.node), (link.b.node, link.a.node)] {
            if let (NodeRef::Host(host), NodeRef::Switch(switch)) = (one, other) {
                leaf_of[host as usize] = switch;
            }
        }
    }
    let mut leaves: Vec<(u32, Vec<u32>)> = Vec::new();
    for &host in hosts {
        // A host with several ports counts at the switch of its first one.
        let port = topology.machines.get(host as usize).map_or(host, |machine| machine.ports[0]);
        let leaf = leaf_of[port as usize];
        match leaves.iter_mut().find(|known| known.0 == leaf) {
            Some((_, own)) => own.push(host),
            None => leaves.push((leaf, vec![host])),
        }
    }
    let most = leaves.iter().map(|leaf| leaf.1.len()).max().unwrap_or(0);
    (0..most).flat_map(|row| leaves.iter().filter_map(move |leaf| leaf.1.get(row).copied())).collect()
}
