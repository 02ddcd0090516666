//! The choice of algorithm and protocol by the cost model of NCCL: the time of each combination is estimated as a latency plus
//! bytes / bandwidth, and the smallest one wins. Latencies, limits and corrections are those of NCCL 2.30 (June 2026).
//!
//! Approximate: the bandwidth of a ring or a tree between hosts is that of the adapters of its ranks, its channels are given,
//! trees have balanced nodes, and reductions by switches between hosts (CollNet) are left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Rate;

use super::{Algorithm, Call, Collective};

/// How messages contain their data, as in NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Messages consist of data.
    #[default]
    Simple,
    /// Lines of 16 B with 8 B of data.
    Ll,
    /// Lines of 128 B with 120 B of data.
    Ll128,
}

impl Protocol {
    /// The size of a message with a number of bytes of data.
    #[must_use]
    pub const fn size(self, data: u64) -> u64 {
        match self {
            Self::Simple => data,
            Self::Ll => data.div_ceil(8).saturating_mul(16),
            Self::Ll128 => data.div_ceil(120).saturating_mul(128),
        }
    }
}

/// The generation of a GPU, which determines the limits of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gpu {
    /// Compute capability 7.
    Volta,
    /// Compute capability 8.
    Ampere,
    /// Compute capability 9.
    #[default]
    Hopper,
    /// Compute capability 10.
    Blackwell,
}

/// The vendor of the CPUs, which determines the cost of a message between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuVendor {
    /// 1 us per message.
    #[default]
    Intel,
    /// 2 us per message.
    Amd,
}

/// The hardware that NCCL's cost model describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuner {
    /// The generation of all GPUs.
    pub gpu: Gpu,
    /// The vendor of all CPUs.
    pub cpu: CpuVendor,
    /// Number of channels.
    pub channels: u32,
    /// The bandwidth between hosts of all channels together, for each rank of a group on a host.
    pub bandwidth: Rate,
    /// The bandwidth of all channels of a group on one host together.
    pub inner_bandwidth: Rate,
    /// Whether each protocol can be chosen, by its number in [`Protocol`].
    pub protocols: [bool; 3],
    /// Whether switches within hosts can combine data ([`Algorithm::Nvls`]).
    pub switches: bool,
}

/// A collective operation of a group of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    /// The operation.
    pub operation: Collective,
    /// Number of ranks of the group.
    pub ranks: u32,
    /// Number of hosts of the group.
    pub hosts: u32,
    /// Number of ranks of the group on each host; `None` if it differs.
    pub each: Option<u32>,
    /// Bytes of the vector, or of all blocks together.
    pub bytes: u64,
}

/// Values of LL, LL128 and Simple.
type OfProtocols = [f64; 3];

/// An algorithm of the cost model.
struct Modeled {
    algorithm: Algorithm,
    /// Latencies in microseconds: of any operation, of a step within a host, and of a step between hosts.
    base: OfProtocols,
    inner: OfProtocols,
    outer: OfProtocols,
}

const TREE: Modeled = Modeled {
    algorithm: Algorithm::DoubleTree,
    base: [6.8, 14.0, 8.4],
    inner: [0.6, 1.25, 4.0],
    outer: [5.0, 8.5, 14.0],
};
const RING: Modeled = Modeled {
    algorithm: Algorithm::Ring,
    base: [6.6, 14.0, 8.4],
    inner: [0.6, 1.9, 3.4],
    outer: [2.7, 4.0, 14.0],
};
const PAT: Modeled = Modeled {
    algorithm: Algorithm::Pat,
    base: [8.0, 8.0, 8.0],
    inner: [0.0, 0.0, 4.0],
    outer: [0.0, 0.0, 14.0],
};

/// A switch within each host. The latency between hosts is that of a level of the trees.
const NVLS: Modeled = Modeled {
    algorithm: Algorithm::Nvls,
    base: [0.0, 0.0, 0.0],
    inner: [0.0, 0.0, 25.0],
    outer: [0.0, 0.0, 20.9],
};

/// Largest bandwidths in GB/s for groups on one, two and more hosts.
type OfHosts = [f64; 3];

/// Bandwidth of LL by generation of the GPU; of groups on several hosts, the first row is that of [`CpuVendor::Intel`], and the
/// second one that of [`CpuVendor::Amd`].
const LL: [OfHosts; 4] = [[39.0, 39.0, 20.4], [87.7, 22.5, 19.0], [141.0, 45.0, 35.0], [282.0, 90.0, 70.0]];
/// Bandwidth of a channel of a ring with LL128, by generation.
const RING_LL128: [f64; 4] = [20.0, 20.0, 36.7, 40.0];
/// Bandwidth of a channel of a tree with LL128, by generation.
const TREE_LL128: [OfHosts; 4] =
    [[20.0, 20.0, 20.0], [20.0, 20.0, 20.0], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]];
/// Bandwidth of a channel of a tree, by generation.
const TREE_CHANNEL: [OfHosts; 4] =
    [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]];

/// Bandwidth of a share of NVLS between hosts, by generation. GPUs before [`Gpu::Hopper`] do not support it.
const NVLS_SHARE: [Option<OfHosts>; 4] =
    [None, None, Some([f64::INFINITY, 57.7, 45.5]), Some([f64::INFINITY, 96.0, 80.0])];
/// The part of the bandwidth of links within a host that NVLS uses, by generation.
const NVLS_EFFICIENCY: [f64; 4] = [0.0, 0.0, 0.85, 0.74];
/// Least number of ranks on a host for which NCCL uses NVLS.
const NVLS_RANKS: u32 = 3;
/// Largest number of ranks of an all-gather or reduce-scatter by NVLS.
const NVLS_ARITY: u32 = 32;

/// Factors of the bandwidth of trees for vectors of at least 64, 128, 256, ... B.
const CORRECTIONS: [[f64; 23]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9,
        0.9, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7,
        0.8, 0.9, 0.9,
    ],
];

/// The protocols in the order of the tables.
const PROTOCOLS: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];
const SIMPLE: usize = 2;

impl Tuner {
    /// The algorithm and the protocol with the smallest estimate, among those of an algorithm if it is given; `None` if the
    /// model does not contain the operation or the algorithm.
    #[must_use]
    pub fn choose(&self, call: &Tuned, given: Option<Algorithm>) -> Option<(Algorithm, Protocol)> {
        let mut best: Option<(f64, Algorithm, Protocol)> = None;
        for modeled in [&TREE, &RING, &NVLS, &PAT] {
            if given.is_some_and(|algorithm| algorithm != modeled.algorithm) {
                continue;
            }
            for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
                let Some(time) = self.time(call, modeled, at).filter(|_| self.protocols[protocol as usize])
                else {
                    continue;
                };
                if best.is_none_or(|(least, ..)| time < least) {
                    best = Some((time, modeled.algorithm, protocol));
                }
            }
        }
        best.map(|(_, algorithm, protocol)| (algorithm, protocol))
    }

    /// The estimate in microseconds; `None` if NCCL does not use this combination.
    fn time(&self, call: &Tuned, modeled: &Modeled, protocol: usize) -> Option<f64> {
        let reduces_all = match call.operation {
            Collective::AllReduce => true,
            Collective::AllGather | Collective::ReduceScatter => false,
            _ => return None,
        };
        let is_used = match modeled.algorithm {
            Algorithm::DoubleTree => reduces_all,
            Algorithm::Nvls => {
                let is_switched = self.switches && call.each.is_some_and(|each| each >= NVLS_RANKS);
                // Other operations on several hosts need CollNet.
                let is_near = reduces_all || call.hosts == 1 && call.ranks <= NVLS_ARITY;
                is_near && protocol == SIMPLE && is_switched && NVLS_SHARE[self.gpu as usize].is_some()
            }
            Algorithm::Pat => !reduces_all && protocol == SIMPLE && call.hosts == call.ranks,
            _ => true,
        };
        let latency = self.latency(call, modeled, protocol);
        let bandwidth = self.bandwidth(call, modeled, protocol);
        is_used.then(|| latency + call.bytes as f64 / (1000.0 * bandwidth))
    }

    /// The latency in microseconds.
    fn latency(&self, call: &Tuned, modeled: &Modeled, protocol: usize) -> f64 {
        let (ranks, hosts) = (f64::from(call.ranks), f64::from(call.hosts));
        let (base, mut inner, mut outer) =
            (modeled.base[protocol], modeled.inner[protocol], modeled.outer[protocol]);
        if call.ranks == call.hosts && modeled.algorithm == Algorithm::Ring {
            // No step within a host hides a part of this latency.
            outer = TREE.outer[protocol];
        }
        let levels = f64::from(call.hosts.ilog2());
        match modeled.algorithm {
            Algorithm::DoubleTree => {
                base + 2.0 * (f64::from(call.ranks / call.hosts - 1) * inner + levels * outer)
            }
            Algorithm::Nvls => base + inner + 2.0 * levels * outer,
            Algorithm::Pat => base + levels * (outer / 3.5) + ranks * 2.8,
            _ => {
                let both = if call.operation == Collective::AllReduce { 2.0 } else { 1.0 };
                if call.hosts > 1 {
                    inner = inner.max(of_message(self.cpu, protocol));
                }
                let latency = base + both * ((ranks - hosts) * inner + (hosts - 1.0) * outer);
                let per_channel = call.bytes / (u64::from(self.channels) * u64::from(call.ranks));
                let is_long = protocol == SIMPLE && call.hosts > 1 && both > 1.0 && per_channel >= 64;
                let factor = if self.gpu == Gpu::Volta { 1.9 } else { 1.4 };
                latency * if is_long { factor } else { 1.0 }
            }
        }
    }

    /// The bandwidth in GB/s for the bytes of the vector, or of all blocks.
    fn bandwidth(&self, call: &Tuned, modeled: &Modeled, protocol: usize) -> f64 {
        let gpu = self.gpu as usize;
        let size = call.hosts.min(3) as usize - 1;
        let of_bus = match size {
            0 => self.inner_bandwidth.0 as f64 / 8e9,
            _ => self.bandwidth.0 as f64 / 8e9 * (f64::from(call.ranks) / f64::from(call.hosts)),
        };
        let channels = f64::from(self.channels);
        let low = LL[if size == 0 { gpu } else { self.cpu as usize }][size];
        let reduces_all = call.operation == Collective::AllReduce;
        match modeled.algorithm {
            Algorithm::DoubleTree => {
                let all = (of_bus * 0.92).min(channels * TREE_CHANNEL[gpu][size]);
                let own = match protocol {
                    0 => (all / 3.8).min(low),
                    1 => {
                        let share = if size == 0 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                        (all * share).min(channels * TREE_LL128[gpu][size])
                    }
                    _ => all,
                };
                let step = (call.bytes >> 6).checked_ilog2().map(|power| power as usize);
                let correction = step.and_then(|step| CORRECTIONS[protocol].get(step)).copied();
                own * 0.5 * correction.unwrap_or(1.0)
            }
            Algorithm::Nvls => {
                let heads = f64::from(call.ranks) / f64::from(call.hosts);
                let inner =
                    self.inner_bandwidth.0 as f64 / 8e9 * NVLS_EFFICIENCY[gpu] * (heads - 1.0) / heads;
                if !reduces_all {
                    // Of the blocks, one stays in its rank. The estimate is not divided by the number of steps.
                    return inner * (heads - 1.0) / heads;
                }
                let share = NVLS_SHARE[gpu].map_or(0.0, |shares| shares[size]);
                let outer = match size {
                    0 => f64::INFINITY,
                    1 => 2.0 * of_bus,
                    _ => of_bus,
                };
                let others = f64::from(call.ranks - 1);
                (2.0 * inner).min(outer).min(share * heads) * f64::from(call.ranks) / (2.0 * others)
            }
            Algorithm::Pat => of_bus * 0.75,
            _ => {
                let own = match protocol {
                    0 => (of_bus * 0.5).min(low),
                    1 => (of_bus * 0.92).min(channels * RING_LL128[gpu]),
                    _ => of_bus,
                };
                let others = f64::from(call.ranks - 1);
                own * f64::from(call.ranks) / if reduces_all { 2.0 * others } else { others }
            }
        }
    }
}

/// The least time of a message between hosts in a ring, in microseconds, by the number of the protocol in the tables.
fn of_message(cpu: CpuVendor, protocol: usize) -> f64 {
    let once = if cpu == CpuVendor::Amd { 2.0 } else { 1.0 };
    if protocol == SIMPLE { 3.0 * once } else { once }
}

/// Whose constants determine the latencies of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencySet {
    /// The cost model of NCCL 2.30: a latency of each operation, and one of each message.
    #[serde(rename = "nccl")]
    Nccl,
    /// `SimAI` 1.7: both latencies for each message; 6 us with algorithms that NCCL does not have.
    #[serde(rename = "simai-1.7")]
    SimAi,
}

/// How long an operation and its messages wait before they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepLatency {
    /// Of the operation, in ns.
    pub base_ns: u64,
    /// Of each message between ranks of a host, in ns.
    pub inner_ns: u64,
    /// Of each message between hosts, in ns.
    pub outer_ns: u64,
}

impl StepLatency {
    /// The latencies of a call on a number of hosts.
    pub fn of(call: &Call<'_>, hosts: u32) -> Self {
        let Some(set) = call.latencies else { return Self::default() };
        let protocol = match call.protocol {
            Protocol::Ll => 0,
            Protocol::Ll128 => 1,
            Protocol::Simple => SIMPLE,
        };
        let modeled = [&TREE, &RING, &PAT, &NVLS].into_iter().find(|one| one.algorithm == call.algorithm);
        let Some(modeled) = modeled else {
            let each = if set == LatencySet::SimAi { 6.0 } else { 0.0 };
            return Self::from_us(0.0, each, each);
        };
        let (base, inner, outer) = (modeled.base[protocol], modeled.inner[protocol], modeled.outer[protocol]);
        match (set, call.algorithm) {
            // The switch delays an operation once.
            (LatencySet::SimAi, Algorithm::Nvls) => Self::from_us(inner, 0.0, NVLS_SIMAI),
            (LatencySet::SimAi, _) => Self::from_us(0.0, base + inner, base + outer),
            (LatencySet::Nccl, Algorithm::Nvls) => Self::from_us(base + inner, 0.0, outer),
            (LatencySet::Nccl, Algorithm::Pat) => {
                Self::from_us(base + 2.8 * f64::from(call.ranks), inner, outer / 3.5)
            }
            (LatencySet::Nccl, Algorithm::Ring) if hosts == call.ranks => {
                Self::from_us(base, inner, TREE.outer[protocol])
            }
            (LatencySet::Nccl, Algorithm::Ring) if hosts > 1 => {
                let cpu = call.tuner.map_or(CpuVendor::Intel, |tuner| tuner.cpu);
                Self::from_us(base, inner.max(of_message(cpu, protocol)), outer)
            }
            (LatencySet::Nccl, _) => Self::from_us(base, inner, outer),
        }
    }

    fn from_us(base: f64, inner: f64, outer: f64) -> Self {
        let [base_ns, inner_ns, outer_ns] = [base, inner, outer].map(|us| (us * 1000.0).round() as u64);
        Self { base_ns, inner_ns, outer_ns }
    }

    /// Whether nothing waits.
    pub const fn is_zero(&self) -> bool {
        self.base_ns == 0 && self.inner_ns == 0 && self.outer_ns == 0
    }
}

/// The latency of NVLS between hosts in `SimAI`, in microseconds.
const NVLS_SIMAI: f64 = 18.0;

/// The name of a combination in results.
pub(super) const fn name(algorithm: Algorithm, protocol: Protocol) -> &'static str {
    match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Simple) => "ring/simple",
        (Algorithm::Ring, Protocol::Ll) => "ring/ll",
        (Algorithm::Ring, Protocol::Ll128) => "ring/ll128",
        (Algorithm::DoubleTree, Protocol::Simple) => "double-tree/simple",
        (Algorithm::DoubleTree, Protocol::Ll) => "double-tree/ll",
        (Algorithm::DoubleTree, Protocol::Ll128) => "double-tree/ll128",
        (Algorithm::Nvls, _) => "nvls/simple",
        (Algorithm::Pat, _) => "pat/simple",
        (other, _) => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts with eight GPUs that have 50 GB/s each.
    const TUNER: Tuner = Tuner {
        gpu: Gpu::Hopper,
        cpu: CpuVendor::Intel,
        channels: 16,
        bandwidth: Rate::from_gbit(400),
        inner_bandwidth: Rate::from_gbit(3600),
        protocols: [true; 3],
        switches: false,
    };

    fn all_reduce(ranks: u32, hosts: u32, bytes: u64) -> Tuned {
        Tuned { operation: Collective::AllReduce, ranks, hosts, each: Some(ranks / hosts), bytes }
    }

    fn near(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 1e-9, "{found} instead of {wanted}");
    }

    #[test]
    fn latencies_and_bandwidths_follow_the_steps() {
        let call = all_reduce(64, 8, 1 << 20);
        let latencies =
            |modeled, call: &Tuned| [0, 1, 2].map(|protocol| TUNER.latency(call, modeled, protocol));
        let bandwidths =
            |modeled, call: &Tuned| [0, 1, 2].map(|protocol| TUNER.bandwidth(call, modeled, protocol));
        for (found, wanted) in [
            (latencies(&TREE, &call), [45.2, 82.5, 148.4]),
            (latencies(&RING, &call), [6.6 + 112.0 + 37.8, 14.0 + 212.8 + 56.0, 1.4 * (8.4 + 380.8 + 196.0)]),
            (bandwidths(&TREE, &call), [20.4 / 2.0 * 0.5, 345.0 / 2.0 * 0.6, 184.0 * 0.5]),
            (bandwidths(&RING, &call), [20.4, 368.0, 400.0].map(|bus| bus * 64.0 / 126.0)),
        ] {
            found.iter().zip(wanted).for_each(|(&found, wanted)| near(found, wanted));
        }
        // Messages between hosts cost more with the other vendor's CPUs.
        let amd = Tuner { cpu: CpuVendor::Amd, ..TUNER };
        near(amd.latency(&all_reduce(64, 8, 64), &RING, SIMPLE), 8.4 + 112.0 * 6.0 + 14.0 * 14.0);
    }

    #[test]
    fn rings_of_blackwell_have_the_modeled_bandwidths_that_are_published() {
        // https://github.com/NVIDIA/nccl/pull/2343: 640 and 480 GB/s for two and three ranks with LL128.
        let tuner = Tuner { gpu: Gpu::Blackwell, inner_bandwidth: Rate::from_gbit(7200), ..TUNER };
        near(tuner.bandwidth(&all_reduce(2, 1, 1 << 30), &RING, 1), 640.0);
        near(tuner.bandwidth(&all_reduce(3, 1, 1 << 30), &RING, 1), 480.0);
    }

    #[test]
    fn the_smallest_estimate_wins() {
        use Algorithm::{DoubleTree, Pat, Ring};
        use Protocol::{Ll, Ll128, Simple};
        let chosen = |bytes| TUNER.choose(&all_reduce(64, 8, bytes), None);
        for (bytes, wanted) in [
            (0, (DoubleTree, Ll)),
            (1 << 10, (DoubleTree, Ll)),
            (1 << 20, (DoubleTree, Ll128)),
            (1 << 30, (DoubleTree, Simple)),
            (1 << 32, (Ring, Simple)),
        ] {
            assert_eq!(chosen(bytes), Some(wanted), "{bytes}");
        }
        // One GPU per host: 41.6 us and 23.3 GB/s by a ring with LL, 42.4 us and 37.5 GB/s by PAT, and 106.4 us and 57.1 GB/s by
        // a ring.
        for operation in [Collective::AllGather, Collective::ReduceScatter] {
            for (bytes, wanted) in
                [(1 << 10, (Ring, Ll)), (1 << 20, (Pat, Simple)), (100 << 20, (Ring, Simple))]
            {
                let call = Tuned { operation, ..all_reduce(8, 8, bytes) };
                assert_eq!(TUNER.choose(&call, None), Some(wanted), "{bytes}");
            }
            let call = Tuned { operation, ..all_reduce(16, 8, 1 << 20) };
            assert_eq!(TUNER.choose(&call, Some(Pat)), None, "several GPUs per host");
        }
        assert_eq!(TUNER.choose(&all_reduce(64, 8, 1 << 10), Some(Ring)), Some((Ring, Ll)));
        let simple = Tuner { protocols: [true, false, false], ..TUNER };
        assert_eq!(simple.choose(&all_reduce(64, 8, 1 << 10), None), Some((DoubleTree, Simple)));
        assert_eq!(TUNER.choose(&all_reduce(64, 8, 64), Some(Algorithm::Hierarchical)), None);
        let other = Tuned { operation: Collective::AllToAll, ..all_reduce(64, 8, 64) };
        assert_eq!(TUNER.choose(&other, None), None);
    }

    #[test]
    fn switches_within_hosts_are_chosen_if_they_exist() {
        use Algorithm::{Nvls, Ring};
        let tuner = Tuner { switches: true, ..TUNER };
        let chosen = |call: &Tuned| tuner.choose(call, None).map(|(algorithm, _)| algorithm);
        // On one host: 25 us and 2 x 450 x .85 x 7/8 GB/s of the bus, a ring 56 us and 450 GB/s.
        near(tuner.latency(&all_reduce(8, 1, 64), &NVLS, SIMPLE), 25.0);
        near(tuner.bandwidth(&all_reduce(8, 1, 1 << 30), &NVLS, SIMPLE), 669.375 * 8.0 / 14.0);
        assert_eq!(chosen(&all_reduce(8, 1, 1 << 10)), Some(Ring));
        assert_eq!(chosen(&all_reduce(8, 1, 1 << 28)), Some(Nvls));
        // On two hosts, shares limit the bandwidth; on eight, adapters do.
        near(tuner.latency(&all_reduce(64, 8, 64), &NVLS, SIMPLE), 25.0 + 6.0 * 20.9);
        near(tuner.bandwidth(&all_reduce(16, 2, 1 << 30), &NVLS, SIMPLE), 8.0 * 57.7 * 16.0 / 30.0);
        near(tuner.bandwidth(&all_reduce(64, 8, 1 << 30), &NVLS, SIMPLE), 8.0 * 45.5 * 64.0 / 126.0);
        assert_eq!(chosen(&all_reduce(16, 2, 1 << 32)), Some(Nvls));
        assert_eq!(chosen(&all_reduce(64, 8, 1 << 32)), Some(Ring));
        for (what, tuner, call) in [
            ("two GPUs per host", tuner, all_reduce(2, 1, 1 << 28)),
            ("uneven hosts", tuner, Tuned { each: None, ..all_reduce(8, 2, 1 << 28) }),
            ("older GPUs", Tuner { gpu: Gpu::Ampere, ..tuner }, all_reduce(8, 1, 1 << 28)),
            ("other protocols", Tuner { protocols: [false, true, true], ..tuner }, all_reduce(8, 1, 1 << 28)),
            ("all-gather", tuner, Tuned { operation: Collective::AllGather, ..all_reduce(16, 2, 1 << 28) }),
            ("33 ranks", tuner, Tuned { operation: Collective::ReduceScatter, ..all_reduce(33, 1, 1 << 28) }),
        ] {
            assert_eq!(tuner.choose(&call, Some(Nvls)), None, "{what}");
        }
    }

    #[test]
    fn blocks_pass_switches_on_one_host() {
        use Algorithm::{Nvls, Ring};
        let tuner = Tuner { switches: true, ..TUNER };
        for operation in [Collective::AllGather, Collective::ReduceScatter] {
            let call = |ranks, bytes| Tuned { operation, ..all_reduce(ranks, 1, bytes) };
            near(tuner.latency(&call(8, 64), &NVLS, SIMPLE), 25.0);
            near(tuner.bandwidth(&call(8, 64), &NVLS, SIMPLE), 450.0 * 0.85 * 7.0 / 8.0 * 7.0 / 8.0);
            // Eight ranks: 10.8 us and 161 GB/s by a ring with LL, 27.3 us and 473 GB/s with LL128. 32 ranks: 25.2 us and
            // 146 GB/s by a ring with LL.
            for (ranks, bytes, wanted) in [
                (8, 1 << 10, (Ring, Protocol::Ll)),
                (8, 8 << 20, (Ring, Protocol::Ll128)),
                (32, 1 << 10, (Nvls, Protocol::Simple)),
                (32, 1 << 30, (Ring, Protocol::Simple)),
            ] {
                assert_eq!(tuner.choose(&call(ranks, bytes), None), Some(wanted), "{ranks} {bytes}");
            }
            let simple = Tuner { protocols: [true, false, false], ..tuner };
            assert_eq!(simple.choose(&call(8, 1 << 10), None), Some((Nvls, Protocol::Simple)));
            assert_eq!(simple.choose(&call(8, 1 << 30), None), Some((Ring, Protocol::Simple)));
        }
    }

    #[test]
    fn latencies_are_those_of_nccl_and_simai() {
        use crate::collective::{Sizes, Variant};
        let of = |latencies, algorithm: Algorithm, protocol, hosts| {
            let variant =
                Variant { latencies: Some(latencies), ranks_per_host: 8, protocol, ..algorithm.into() };
            let operation = match algorithm {
                Algorithm::Pat => Collective::AllGather,
                Algorithm::Linear => Collective::AllToAll,
                _ => Collective::AllReduce,
            };
            let call = Call::new(operation, variant, 16, 0, Sizes::Uniform(8)).unwrap();
            let StepLatency { base_ns, inner_ns, outer_ns } = StepLatency::of(&call, hosts);
            (base_ns, inner_ns, outer_ns)
        };
        use Algorithm::{DoubleTree, Linear, Nvls, Pat, Ring};
        use LatencySet::{Nccl, SimAi};
        use Protocol::{Ll, Ll128, Simple};
        for (algorithm, protocol, nccl, simai) in [
            (Ring, Ll, (6_600, 1_000, 2_700), (0, 7_200, 9_300)),
            (Ring, Ll128, (14_000, 1_900, 4_000), (0, 15_900, 18_000)),
            (Ring, Simple, (8_400, 3_400, 14_000), (0, 11_800, 22_400)),
            (DoubleTree, Ll, (6_800, 600, 5_000), (0, 7_400, 11_800)),
            (DoubleTree, Ll128, (14_000, 1_250, 8_500), (0, 15_250, 22_500)),
            (DoubleTree, Simple, (8_400, 4_000, 14_000), (0, 12_400, 22_400)),
            (Pat, Simple, (52_800, 4_000, 4_000), (0, 12_000, 22_000)),
            (Nvls, Simple, (25_000, 0, 20_900), (25_000, 0, 18_000)),
            (Linear, Simple, (0, 0, 0), (0, 6_000, 6_000)),
        ] {
            assert_eq!(of(Nccl, algorithm, protocol, 2), nccl, "{algorithm:?} {protocol:?}");
            assert_eq!(of(SimAi, algorithm, protocol, 2), simai, "{algorithm:?} {protocol:?}");
        }
        assert_eq!(of(Nccl, Ring, Ll, 1), (6_600, 600, 2_700), "one host");
        assert_eq!(of(Nccl, Ring, Ll, 16), (6_600, 600, 5_000), "one rank per host");
    }
}
