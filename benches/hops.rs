//! Cost per packet hop of one switch: a hop without contention, round robin at a VOQ output with 35
//! requesting inputs, and iSLIP on an input-queued switch.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../crates/silvan-fabric/tests/common/mod.rs"]
mod common;

use common::{config, flow, tables, topology, us};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use silvan_fabric::config::{Architecture, Config};
use silvan_fabric::simulation::Simulation;
use silvan_network::topology::Topology;
use silvan_network::traffic::Pattern;

fn run_to_the_end(mut simulation: Simulation) -> u64 {
    while !simulation.advance(1 << 20).unwrap().done {}
    simulation.finish().unwrap().summary.packet_hops
}

fn bench(criterion: &mut Criterion, name: &str, topology: &Topology, config: &Config) {
    let tables = tables(topology);
    let build = || Simulation::new(topology, &tables, config).unwrap();
    let mut group = criterion.benchmark_group("hop");
    group.sample_size(20).throughput(Throughput::Elements(run_to_the_end(build())));
    group.bench_function(name, |bencher| {
        bencher.iter_batched(build, run_to_the_end, BatchSize::PerIteration);
    });
    group.finish();
}

fn star(hosts: u32) -> Topology {
    topology(&format!(r#"{{"kind": "star", "hosts": {hosts}}}"#))
}

fn hops(criterion: &mut Criterion) {
    let mut alone = config(us(20_000));
    alone.flows = vec![flow("H1", "H2")];
    bench(criterion, "uncontended", &star(2), &alone);

    let mut incast = config(us(20_000));
    incast.flows = (1..36).map(|host| flow(&format!("H{host}"), "H36")).collect();
    bench(criterion, "voq 35 to 1", &star(36), &incast);

    let mut uniform = config(us(1_000));
    uniform.traffic = vec![common::pattern(Pattern::Uniform { include_self: false })];
    bench(criterion, "voq uniform", &star(36), &uniform);
    uniform.switch.architecture = Some(Architecture::Iq);
    bench(criterion, "islip uniform", &star(36), &uniform);
}

criterion_group!(benches, hops);
criterion_main!(benches);
