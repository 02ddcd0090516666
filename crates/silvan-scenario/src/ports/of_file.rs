//! Hosts with several ports in a network that a file describes.

use silvan_network::topology::{Cabling, Topology};

use super::{Ports, check_use};
use crate::error::Fault;
use crate::import::FilePorts;
use crate::spec::{Spec, TopologySource};
use crate::validate::ensure;

/// The scenario with the ports of its hosts, if a file describes the network and hosts in it have several ports. `[ports]`
/// takes precedence over the file.
pub(crate) fn resolved(spec: &Spec, topology: &Topology, file: FilePorts) -> Result<Option<Spec>, Fault> {
    if !matches!(spec.topology, TopologySource::File(_)) {
        return Ok(None);
    }
    if topology.machines.is_empty() {
        ensure(spec.ports.is_none(), "ports", || {
            "has no effect: each host in the file of the topology has one port; leave it out".to_owned()
        })?;
        return Ok(None);
    }
    let wiring = if is_one(topology)? { Cabling::Rails } else { Cabling::Planes };
    let count = topology.machines.iter().map(|machine| machine.ports.len()).max().unwrap_or(1);
    let given = spec.ports;
    let (used, arrival) = given.map_or((None, None), |given| (given.used, given.arrival));
    let own = given.and_then(|given| given.inner_rate).map(|rate| (rate, None));
    let inner = own.or(file.inner.map(|inner| (inner.rate, Some(inner.latency))));
    let mut ports = Ports {
        count: Some(count as u16),
        wiring: Some(wiring),
        used: used.or(file.used),
        arrival,
        inner_rate: inner.map(|(rate, _)| rate),
        cross: given.and_then(|given| given.cross),
        relay_part: given.and_then(|given| given.relay_part),
        injection_rate: given.and_then(|given| given.injection_rate),
        failover: given.and_then(|given| given.failover),
        inner_latency: given.and_then(|given| given.inner_latency).or(inner.and_then(|(_, latency)| latency)),
    };
    ports.resolve();
    check_use(spec, &ports)?;
    Ok(Some(Spec { ports: Some(ports), ..spec.clone() }))
}

/// Whether all hosts are connected. It is an error if they are not, and ports with the same number are not connected either,
/// because packets cannot change between parts of the network.
fn is_one(topology: &Topology) -> Result<bool, Fault> {
    let parts = topology.part_numbers().hosts;
    if parts.iter().all(|&part| part == 0) {
        return Ok(true);
    }
    let of = |machine: usize| -> Vec<u32> {
        topology.machines[machine].ports.iter().map(|&port| parts[port as usize]).collect()
    };
    let first = of(0);
    match (1..topology.machines.len()).find(|&machine| of(machine) != first) {
        None => Ok(false),
        Some(other) => Err(Fault::new(
            "topology.file",
            format!(
                "the network consists of {} parts that are not connected, and the ports of hosts {} and {} with the same number \
                 are not in the same part, so the hosts cannot send to each other; connect the parts, or give each host a port in \
                 each of them",
                1 + parts.iter().max().unwrap_or(&0),
                topology.machines[0].name,
                topology.machines[other].name
            ),
        )),
    }
}
