//! What must hold in every state of the network; checked in debug builds.

use std::borrow::Borrow;

use super::check_traffic;
use crate::core::Core;
use crate::host::Host;
use crate::link::Receiver;
use crate::port::Vl;
use crate::switch::Switch;

/// Checks one direction of a link: the sender's credit, what is in flight, what is buffered and
/// what returns add up to the buffer, on every virtual lane. `far` is the receiving switch and
/// input; a host's buffer drains at a known pace, so its space is on its way back at once.
///
/// # Errors
/// A sentence that says what does not hold.
pub(crate) fn check_channel<S: Borrow<Switch>>(
    core: &Core,
    switches: &[S],
    channel: u32,
    far: Receiver,
) -> Result<(), String> {
    let far = far.map(|(switch, input)| (switches[switch as usize].borrow(), input));
    // The books of links between partitions are not kept: what is in flight is in neither.
    if far.is_some_and(|(switch, _)| !std::ptr::eq(core.part(switch.ports().part), core.owner(channel))) {
        return Ok(());
    }
    for vl in Vl::all(core.links.lane_count()) {
        let buffered = far.map_or(0, |(switch, input)| switch.buffered(core, input, vl));
        core.check_credits(channel, vl, buffered)?;
    }
    Ok(())
}

/// Checks all channels, that nothing of the traffic is lost, and that it stays in order.
///
/// # Errors
/// A sentence that says what does not hold.
pub(crate) fn check_all(
    core: &Core,
    (switches, hosts): (&[Switch], &[Host]),
    receiver: &[Receiver],
) -> Result<(), String> {
    check_traffic(core, hosts)?;
    if let Some(message) = core.out_of_order() {
        return Err(message.clone());
    }
    for (channel, far) in receiver.iter().enumerate() {
        check_channel(core, switches, channel as u32, *far)?;
    }
    Ok(())
}
