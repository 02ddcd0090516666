//! Durations of Chakra nodes that state their work, in operations and bytes, instead of a duration.
//!
//! A computation takes the longer of its operations at the speed of a host and its bytes at the memory
//! bandwidth, as in the roofline model. A memory access takes its bytes at the memory bandwidth. Generators
//! such as STAGE write only the work of nodes.

use silvan_engine::Rate;

use super::chakra::{ChakraNode, kind};
use super::{Options, seconds};
use crate::error::TraceError;

/// What a node lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The speed of a host.
    Speed,
    /// The memory bandwidth of a host.
    Bandwidth,
}

/// The speeds of a host, and counts of the nodes that need them.
#[derive(Debug, Default)]
pub(super) struct Work {
    flops: Option<f64>,
    bandwidth: Option<Rate>,
    /// Numbers of nodes that need a speed or a bandwidth that is not given, with the errors at the first
    /// ones.
    lacking: [(u64, Option<TraceError>); 2],
    /// Number of nodes whose duration results from their work.
    computed: u64,
    /// Number of these whose bytes have no effect, because no bandwidth is given.
    without_bytes: u64,
}

impl Work {
    pub(super) fn new(options: &Options) -> Self {
        Self { flops: options.host_flops, bandwidth: options.host_bandwidth, ..Self::default() }
    }

    /// Whether the duration of a node results from its work: it computes or accesses memory, and has no
    /// duration.
    fn applies(node: &ChakraNode) -> bool {
        let is_work = matches!(node.kind, kind::MEMORY_LOAD | kind::MEMORY_STORE | kind::COMPUTE);
        is_work && node.micros == 0 && (node.operations > 0 || node.tensor_bytes > 0)
    }

    fn missing(&self, node: &ChakraNode) -> Option<Missing> {
        if node.kind == kind::COMPUTE && node.operations > 0 {
            return self.flops.is_none().then_some(Missing::Speed);
        }
        (node.tensor_bytes > 0 && self.bandwidth.is_none()).then_some(Missing::Bandwidth)
    }

    /// Counts a node; `at` creates an error at its position.
    pub(super) fn count(&mut self, rank: u32, node: &ChakraNode, at: &dyn Fn(String) -> TraceError) {
        if !Self::applies(node) {
            return;
        }
        self.computed += 1;
        let has_operations = node.kind == kind::COMPUTE && node.operations > 0;
        self.without_bytes += u64::from(has_operations && node.tensor_bytes > 0 && self.bandwidth.is_none());
        if let Some(missing) = self.missing(node) {
            let (count, first) = &mut self.lacking[missing as usize];
            *count += 1;
            first.get_or_insert_with(|| at(format!("the first is node {} of rank {rank}", node.id)));
        }
    }

    /// Fails if nodes need a speed that is not given.
    pub(super) fn check(&mut self) -> Result<(), TraceError> {
        let texts = [
            (
                "computations state operations (num_ops), but no duration",
                "give the speed of a host in flop/s, `--host-flops`, or `host_flops` in a scenario",
            ),
            (
                "nodes state bytes of memory (tensor_size), but no duration",
                "give the memory bandwidth of a host, such as `--host-bandwidth \"2000 GB/s\"`, or `host_bandwidth` in a \
                 scenario",
            ),
        ];
        for ((count, first), (what, how)) in self.lacking.iter_mut().zip(texts) {
            if let Some(first) = first.take() {
                let message = format!("{count} {what}; {how}; {}", first.message);
                return Err(TraceError { message, ..first });
            }
        }
        Ok(())
    }

    /// The duration of a node in nanoseconds that results from its work; `None` for other nodes.
    pub(super) fn duration_ns(&self, node: &ChakraNode) -> Option<u64> {
        if !Self::applies(node) {
            return None;
        }
        let operations = if node.kind == kind::COMPUTE { node.operations } else { 0 };
        let compute = self.flops.map_or(0.0, |flops| operations as f64 / flops);
        let memory = self.bandwidth.map_or(0.0, |rate| node.tensor_bytes as f64 * 8.0 / rate.0 as f64);
        Some(seconds(compute.max(memory)))
    }

    /// Statements about the nodes whose duration results from their work.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.computed > 0 {
            let speeds = [
                self.flops.map(|flops| format!("{flops:e} flop/s (host_flops)")),
                self.bandwidth.map(|rate| format!("{rate} of memory (host_bandwidth)")),
            ];
            let speeds = speeds.into_iter().flatten().collect::<Vec<_>>().join(" and ");
            notes.push(format!("{} nodes have no duration; it was computed with {speeds}", self.computed));
        }
        if self.without_bytes > 0 {
            notes.push(format!(
                "the tensor_size of {} computations has no effect, because host_bandwidth is not given",
                self.without_bytes
            ));
        }
        notes
    }
}
