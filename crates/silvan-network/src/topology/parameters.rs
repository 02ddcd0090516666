//! Functions shared by the generators: checks of parameters before memory is allocated, and creation of nodes.

use silvan_engine::{Rate, Time};

use super::{End, Host, MAX_HOSTS, MAX_LINK_DELAY, MAX_LINKS, MAX_SWITCHES, NodeRef, Switch, TopologyError};

/// Default data rate of a link: 16 Gbit/s, which is 20 Gbit/s of signaling with 8b/10b coding.
pub fn default_link_rate() -> Rate {
    Rate::from_gbit(16)
}

/// Default propagation delay of a link: 20 ns, about four meters of cable.
pub fn default_link_delay() -> Time {
    Time::from_ns(20)
}

/// Default of keys that count something.
pub const fn one() -> u32 {
    1
}

/// Checks that a parameter is between two bounds and converts it to a smaller type.
pub(super) fn within(kind: &str, name: &str, value: u32, low: u16, high: u16) -> Result<u16, TopologyError> {
    match u16::try_from(value) {
        Ok(small) if (low..=high).contains(&small) => Ok(small),
        _ => Err(TopologyError(format!(
            "{kind}: `{name}` = {value} is out of range; it must be {low} to {high}"
        ))),
    }
}

/// Checks that a link rate is more than zero.
pub(super) fn check_rate(kind: &str, name: &str, rate: Rate) -> Result<(), TopologyError> {
    if rate.0 == 0 {
        return Err(TopologyError(format!(
            "{kind}: `{name}` = {rate} carries no data; it must be more than 0, for example \"16 Gbit/s\""
        )));
    }
    Ok(())
}

/// Checks that a link delay is more than zero and at most [`MAX_LINK_DELAY`]. With delays above zero, nodes
/// never affect each other at the same instant.
pub(super) fn check_delay(kind: &str, name: &str, delay: Time) -> Result<(), TopologyError> {
    if delay == Time::ZERO || delay > MAX_LINK_DELAY {
        return Err(TopologyError(format!(
            "{kind}: `{name}` = {delay} is out of range; it must be more than 0 and at most \
             {MAX_LINK_DELAY}, for example \"20 ns\""
        )));
    }
    Ok(())
}

/// Checks the resulting size against the limits. `parameters` lists the parameters with their values.
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
                "{kind}: {parameters} make more than {limit} {what}, which is the maximum; choose smaller values"
            )));
        }
    }
    Ok(())
}

/// Creates the hosts H1, H2, ...
pub(super) fn numbered_hosts(count: u64) -> Vec<Host> {
    (1..=count).map(|i| host(format!("H{i}"))).collect()
}

pub fn host(name: String) -> Host {
    Host { name, lid: None, lmc: 0, guid: None }
}

pub fn switch(name: String, ports: u16) -> Switch {
    Switch { name, ports, lid: None, lmc: 0, guid: None }
}

/// The network port of a host.
pub fn host_end(index: u32) -> End {
    End { node: NodeRef::Host(index), port: 1 }
}

pub fn switch_end(index: u32, port: u16) -> End {
    End { node: NodeRef::Switch(index), port }
}
