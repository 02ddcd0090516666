//! What must hold in every state of the network; checked in debug builds.

use std::borrow::Borrow;

use super::check_traffic;
use crate::context::Context;
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
    ctx: &Context,
    switches: &[S],
    channel: u32,
    far: Receiver,
) -> Result<(), String> {
    let far = far.map(|(switch, input)| (switches[switch as usize].borrow(), input));
    // The books of links between partitions are not kept: what is in flight is in neither.
    if far.is_some_and(|(switch, _)| !std::ptr::eq(ctx.part(switch.ports().part), ctx.owner(channel))) {
        return Ok(());
    }
    for vl in Vl::all(ctx.links.lane_count()) {
        let buffered = far.map_or(0, |(switch, input)| switch.buffered(ctx, input, vl));
        ctx.check_credits(channel, vl, buffered)?;
    }
    Ok(())
}

/// Checks all channels, that nothing of the traffic is lost, and that it stays in order.
///
/// # Errors
/// A sentence that says what does not hold.
pub(crate) fn check_all(
    ctx: &Context,
    (switches, hosts): (&[Switch], &[Host]),
    receiver: &[Receiver],
) -> Result<(), String> {
    check_traffic(ctx, hosts)?;
    if let Some(message) = ctx.out_of_order() {
        return Err(message.clone());
    }
    for (channel, far) in receiver.iter().enumerate() {
        check_channel(ctx, switches, channel as u32, *far)?;
    }
    Ok(())
}
