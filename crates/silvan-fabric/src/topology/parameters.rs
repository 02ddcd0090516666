//! What the generators share: checks of parameters, before anything is allocated, and the
//! making of nodes.

use silvan_engine::{Rate, Time};

use super::{End, Host, MAX_HOSTS, MAX_LINK_DELAY, MAX_LINKS, MAX_SWITCHES, NodeRef, Switch, TopologyError};

/// Data rate of a link that says nothing else: 20 Gbit/s of signalling with 8b/10b coding.
pub(crate) fn default_link_rate() -> Rate {
    Rate::from_gbit(16)
}

/// Propagation delay of a link that says nothing else: some four metres of cable.
pub(crate) fn default_link_delay() -> Time {
    Time::from_ns(20)
}

/// A number of things of which there is one unless something else is said.
pub(crate) const fn one() -> u32 {
    1
}

/// A parameter that must lie between two bounds, as the small number it then is.
pub(super) fn within(kind: &str, name: &str, value: u32, low: u16, high: u16) -> Result<u16, TopologyError> {
    match u16::try_from(value) {
        Ok(small) if (low..=high).contains(&small) => Ok(small),
        _ => Err(TopologyError(format!(
            "{kind}: `{name}` = {value} is out of range; it must be {low} to {high}"
        ))),
    }
}

/// A link rate must be more than zero.
pub(super) fn check_rate(kind: &str, name: &str, rate: Rate) -> Result<(), TopologyError> {
    if rate.0 == 0 {
        return Err(TopologyError(format!(
            "{kind}: `{name}` = {rate} carries nothing; it must be more than 0, for example \"16 Gbit/s\""
        )));
    }
    Ok(())
}

/// A link delay must be more than zero, so that no two nodes share an instant, and not absurd.
pub(super) fn check_delay(kind: &str, name: &str, delay: Time) -> Result<(), TopologyError> {
    if delay == Time::ZERO || delay > MAX_LINK_DELAY {
        return Err(TopologyError(format!(
            "{kind}: `{name}` = {delay} is out of range; it must be more than 0 and at most \
             {MAX_LINK_DELAY}, for example \"20 ns\""
        )));
    }
    Ok(())
}

/// The size a set of parameters leads to, against the limits. `parameters` names them with
/// their values.
pub(super) fn check_size(
    kind: &str,
    parameters: &str,
    [hosts, switches, links]: [u64; 3],
) -> Result<(), TopologyError> {
    for (count, what, limit) in
        [(hosts, "hosts", MAX_HOSTS), (switches, "switches", MAX_SWITCHES), (links, "links", MAX_LINKS)]
    {
        if count > limit {
            return Err(TopologyError(format!(
                "{kind}: {parameters} make more than {limit} {what}, the largest number; choose smaller ones"
            )));
        }
    }
    Ok(())
}

/// Hosts H1, H2, ...
pub(super) fn numbered_hosts(count: u64) -> Vec<Host> {
    (1..=count).map(|i| host(format!("H{i}"))).collect()
}

pub(crate) fn host(name: String) -> Host {
    Host { name, lid: None, guid: None }
}

pub(crate) fn switch(name: String, ports: u16) -> Switch {
    Switch { name, ports, lid: None, guid: None }
}

/// The network port of a host.
pub(crate) fn host_end(index: u32) -> End {
    End { node: NodeRef::Host(index), port: 1 }
}

pub(crate) fn switch_end(index: u32, port: u16) -> End {
    End { node: NodeRef::Switch(index), port }
}
