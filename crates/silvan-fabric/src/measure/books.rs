//! What must hold of the traffic whatever the build: nothing that was generated is lost, and nothing
//! waits in a network in which nothing will happen any more.

use crate::context::Context;
use crate::host::Host;
use crate::packet::Kind;

/// Checks that whatever was generated has been delivered, is inside, or waits at its source where that
/// will find it.
///
/// # Errors
/// A sentence with the numbers.
pub(crate) fn check_traffic(ctx: &Context, hosts: &[Host]) -> Result<(), String> {
    let meters = &ctx.meters;
    let mut found: Vec<u64> = meters.classes.iter().map(|class| class.delivered_bytes).collect();
    let (mut data, mut control, mut marked) = (0u64, 0u64, 0u64);
    for packet in ctx.packets() {
        if packet.kind == Kind::Data {
            data += 1;
            marked += u64::from(packet.fecn);
            found[usize::from(packet.class)] += u64::from(packet.payload);
        } else {
            control += 1;
        }
    }
    let later = ctx.meters_of_parts().flat_map(|meters| meters.later(ctx.now, true));
    let undelivered = hosts.iter().flat_map(Host::undelivered);
    for packet in later.chain(undelivered) {
        data += 1;
        marked += u64::from(packet.fecn);
        found[usize::from(packet.class)] += u64::from(packet.payload);
    }
    for host in hosts {
        for id in host.buffered(ctx) {
            // Counted as injected when they leave the host.
            data -= u64::from(ctx.part(host.part).packets[id].kind == Kind::Data);
        }
        for waiting in host.waiting() {
            if !waiting.is_listed {
                return Err(format!(
                    "host {} has forgotten {} bytes of `{}` for host {}",
                    host.id,
                    waiting.bytes,
                    meters.classes[usize::from(waiting.class)].name,
                    waiting.destination
                ));
            }
            found[usize::from(waiting.class)] += waiting.bytes;
        }
    }
    for (class, found) in meters.classes.iter().zip(found) {
        if class.generated_bytes != found {
            return Err(format!(
                "{} bytes of `{}` were generated, but {found} are delivered, inside or waiting",
                class.generated_bytes, class.name
            ));
        }
    }
    let inside = meters.packets_injected - meters.packets_delivered;
    if inside != data {
        return Err(format!("{data} data packets are inside, but {inside} went in and did not come out"));
    }
    let inside = meters.control_injected - meters.control_delivered;
    if inside != control {
        return Err(format!(
            "{control} control packets are alive, but {inside} went in and did not come out"
        ));
    }
    let delivered: u64 = meters.classes.iter().map(|class| class.total.marked + class.interval.marked).sum();
    let on_their_way = ctx.reports_on_their_way() as u64;
    if meters.fecn_marks != delivered + marked + meters.reports + on_their_way {
        return Err(format!(
            "{} packets were marked, but {delivered} were delivered with a mark and {marked} are inside, and \
             switches told sources of {}, with {on_their_way} still to be told",
            meters.fecn_marks, meters.reports
        ));
    }
    Ok(())
}

/// What waits for something, as a list in words; none if nothing does. In a network in which no event
/// is pending it will wait for ever.
pub(crate) fn left_waiting(ctx: &Context, hosts: &[Host], names: &[String]) -> Option<String> {
    const SHOWN: usize = 5;
    let mut list = Vec::new();
    let mut more = 0;
    let mut add = |text: &dyn Fn() -> String| {
        if list.len() < SHOWN {
            list.push(text());
        } else {
            more += 1;
        }
    };
    for host in hosts {
        let name = |index: u32| names.get(index as usize).map_or("?", String::as_str);
        for waiting in host.waiting() {
            let class = &ctx.meters.classes[usize::from(waiting.class)].name;
            add(&|| {
                format!(
                    "{} bytes of `{class}` at {} for {}",
                    waiting.bytes,
                    name(host.id),
                    name(waiting.destination)
                )
            });
        }
        if host.control_waiting() > 0 {
            add(&|| format!("{} control packets at {}", host.control_waiting(), name(host.id)));
        }
    }
    if ctx.alive() > 0 {
        add(&|| format!("{} packets inside the network", ctx.alive()));
    }
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!list.is_empty()).then(|| list.join(", ") + &more)
}
