//! Networks for the unit tests of all modules.

use silvan_engine::{Event, Time};
use silvan_network::port::Port;
use silvan_network::routing::{RoutingSpec, Tables};
use silvan_network::topology::{Topology, TopologySpec};
use silvan_network::traffic::Flow;

use crate::config::{Config, FlowControl, HostConfig, PathBits, Scheduler};
use crate::context::Context;
use crate::error::SetupError;
use crate::link::{Class, key};
use crate::packet::{Packet, PacketId};
use crate::partition::Partition;
use crate::setup::{FaultPlan, Network, build};
use crate::simulation::Simulation;
use crate::switch::Architecture;

/// Builds a topology from its table in a scenario, as JSON.
pub(crate) fn topology(json: &str) -> Topology {
    serde_json::from_str::<TopologySpec>(json).unwrap().build().unwrap()
}

pub(crate) fn tables(topology: &Topology) -> Tables {
    RoutingSpec::suitable(topology).compute(topology).unwrap()
}

/// A configuration without traffic.
pub(crate) fn config(duration: Time) -> Config {
    Config {
        seed: 1,
        duration,
        warmup: Time::ZERO,
        packet: Default::default(),
        lanes: Default::default(),
        switch: Default::default(),
        host: HostConfig::default(),
        congestion: Default::default(),
        flow_control: FlowControl::default(),
        link: Default::default(),
        events: Vec::new(),
        rerouting: Default::default(),
        recovery: None,
        adaptive_routing: None,
        ecmp: None,
        path_bits: PathBits::Zero,
        shared_injection: None,
        flows: Vec::new(),
        traffic: Vec::new(),
        jobs: Vec::new(),
        external: None,
        ends_with_jobs: true,
        path_lanes: None,
        tables_after_faults: None,
        measure: Default::default(),
        threads: 1,
        scheduler: Scheduler::EventOrdered,
        skip: false,
        records: false,
    }
}

/// A flow that sends as much as it can from time 0 on.
pub(crate) fn flow(from: &str, to: &str) -> Flow {
    Flow {
        name: None,
        from: from.into(),
        to: to.into(),
        start: Time::ZERO,
        start_after_packets: None,
        stop: None,
        message: None,
        rate: None,
        total: None,
        arrivals: Default::default(),
        sl: 0,
    }
}

/// A run that has not begun.
pub(crate) fn simulation(topology: &Topology, config: &Config) -> Simulation {
    Simulation::new(topology, &tables(topology), config).unwrap()
}

/// The partitions of a run and what belongs to them, without any scheduled event.
pub(crate) fn try_network(topology: &Topology, config: &Config) -> Result<Network, SetupError> {
    let tables = tables(topology);
    let faults = FaultPlan::of(config, topology, &tables)?;
    build(topology, &tables, config, faults)
}

/// Same as [`try_network`], for a valid configuration.
pub(crate) fn network(topology: &Topology, config: &Config) -> Network {
    try_network(topology, config).unwrap()
}

/// A switch with four hosts, which send nothing for 90 us. Host H1 then sends to H4.
pub(crate) fn star(set: impl FnOnce(&mut Config)) -> Partition {
    let mut config = config(Time::from_us(100));
    config.flows = vec![Flow { start: Time::from_us(90), ..flow("H1", "H4") }];
    set(&mut config);
    let mut network = network(&topology(r#"{"kind": "star", "hosts": 4}"#), &config);
    network.expect_sample(config.duration);
    network.partitions.remove(0)
}

/// Handles everything before a time, or before the bin of that time.
pub(crate) fn run_to(partition: &mut Partition, time: Time) {
    partition.run(partition.tick_of(time), u64::MAX);
}

/// A data packet of 1,000 bytes.
pub(crate) fn packet(from: u32, to: u32) -> Packet {
    Packet { src: from, dst: to, size: 1_000, space: 1_024, ..Packet::example() }
}

/// Has a host start to send a packet at a time, after everything that happens earlier. The packet is marked,
/// so its arrival at its destination is an event of each scheduler.
pub(crate) fn send_marked(partition: &mut Partition, (from, to): (u32, u32), at: Time) -> PacketId {
    run_to(partition, at);
    let Partition { ctx, hosts, .. } = partition;
    // Other events of this bin may not have been handled yet.
    let now = std::mem::replace(&mut ctx.now, at);
    let id = ctx.packets.insert(Packet { fecn: true, ..packet(from, to) });
    ctx.send(hosts[from as usize].out, id);
    ctx.now = now;
    // An event in this bin, in which the packet enters the network.
    ctx.queue.push(Event { time: at, key: key(Class::Job, 0, Port::FIRST), data: 0 });
    id
}

/// The time from the start of a packet at a host until the switch can forward it, and the transmission time
/// of [`packet`].
pub(crate) fn times(partition: &Partition) -> (Time, Time) {
    let (links, channel) = (&partition.ctx.links, partition.hosts[0].out);
    (links.all_parameters()[links.parameters_index(channel)].head_delay, links.span(channel, 1_000))
}

/// Queues a packet at an input of a switch, as if it had just arrived.
pub(crate) fn enqueue(
    switch: &mut impl Architecture,
    ctx: &mut Context,
    input: Port,
    packet: Packet,
) -> PacketId {
    let id = ctx.packets.insert(packet);
    switch.enqueue(ctx, input, id);
    id
}
