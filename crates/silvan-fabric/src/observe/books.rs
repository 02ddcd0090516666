//! Checks that no generated payload is lost without being counted, and lists traffic that waits.

use crate::host::Host;
use crate::meters::ClassMeter;
use crate::partition::View;

/// Checks that all generated or repeated payload is delivered, lost, discarded, inside the network, or
/// waiting in a queue that its host serves. Also compares the numbers of packets and marks.
///
/// # Errors
/// A message with the numbers that differ, or with the waiting traffic that a host does not serve.
pub(crate) fn check_traffic(view: View) -> Result<(), String> {
    let meters = view.totals;
    let gone = |class: &ClassMeter| class.delivered_bytes + class.lost_bytes + class.discarded_bytes;
    let mut found: Vec<u64> = meters.classes.iter().map(gone).collect();
    let (mut data, mut control, mut marked) = (0u64, 0u64, 0u64);
    for packet in view.packets() {
        if packet.is_data() {
            data += 1;
            marked += u64::from(packet.fecn);
        } else {
            control += 1;
        }
        // The segment of a header or of a negative acknowledgement was lost and will be sent again.
        found[usize::from(packet.class)] += u64::from(packet.payload());
    }
    for (class, bytes) in view.hosts().flat_map(Host::unreported) {
        found[usize::from(class)] += bytes;
    }
    for packet in view.received_early().chain(view.hosts().flat_map(Host::undelivered)) {
        data += 1;
        marked += u64::from(packet.fecn);
        found[usize::from(packet.class)] += u64::from(packet.payload());
    }
    for host in view.hosts() {
        // These packets are counted as injected only when they leave the host.
        data -= data_buffered(view, host);
        for waiting in host.waiting() {
            if !waiting.is_listed {
                return Err(format!(
                    "host {} does not serve {} waiting bytes of `{}` for host {}",
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
        if class.generated_bytes + class.repeated_bytes != found {
            return Err(format!(
                "{} bytes of `{}` were generated and {} are sent again, but {found} are delivered, lost, discarded, inside or \
                 waiting",
                class.generated_bytes, class.name, class.repeated_bytes
            ));
        }
    }
    let inside = meters.data_inside();
    if inside != Some(data) {
        return Err(format!(
            "{data} data packets are inside, but {} were injected, {} delivered, {} trimmed, {} lost and {} discarded",
            meters.packets_injected, meters.packets_delivered, meters.trimmed, meters.lost, meters.discarded
        ));
    }
    let inside = meters.control_inside();
    if inside != Some(control) {
        return Err(format!(
            "{control} control packets are inside, but {} were injected, {} packets were trimmed, {} were delivered and {} lost",
            meters.control_injected, meters.trimmed, meters.control_delivered, meters.lost_control
        ));
    }
    let delivered: u64 = meters.classes.iter().map(|class| class.total.marked + class.interval.marked).sum();
    let on_their_way = view.reports_on_their_way() as u64;
    let gone = meters.trimmed_marked + meters.lost_marked + meters.discarded_marked;
    if meters.fecn_marks != delivered + marked + gone + meters.reports + on_their_way {
        return Err(format!(
            "{} packets were marked, but {delivered} were delivered with a mark, {marked} are inside and {gone} were trimmed, \
             lost or discarded, switches have reported {} to sources, and {on_their_way} reports are on their way",
            meters.fecn_marks, meters.reports
        ));
    }
    Ok(())
}

/// Data packets in a host's output buffer.
fn data_buffered(view: View, host: &Host) -> u64 {
    let (partition, ids) = view.buffered(host);
    ids.into_iter().filter(|&id| partition.ctx.packets[id].is_data()).count() as u64
}

/// Compares the number of packets inside the network with the counts of packets that entered and left it.
/// This is fast enough for every sample of a release build.
///
/// # Errors
/// A message with the numbers that differ.
pub(crate) fn check_conservation(view: View) -> Result<(), String> {
    let meters = view.totals;
    let received =
        view.received_early().count() + view.hosts().map(|host| host.undelivered().count()).sum::<usize>();
    let buffered: u64 = view.hosts().map(|host| data_buffered(view, host)).sum();
    let found = (view.alive() + received) as u64;
    let too_many = |kind: &str| format!("more {kind} packets were delivered than injected");
    let expected = meters.data_inside().ok_or_else(|| too_many("data"))?
        + meters.control_inside().ok_or_else(|| too_many("control"))?
        + buffered;
    if expected != found {
        return Err(format!("{found} packets are inside, but {expected} were injected and not delivered"));
    }
    Ok(())
}

/// Lists waiting traffic and the number of packets inside the network, at most five entries and a count of
/// the rest. `None` if there is nothing to list. Without pending events, this traffic would wait
/// indefinitely.
pub(crate) fn left_waiting(view: View, names: &[String]) -> Option<String> {
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
    for host in view.hosts() {
        let name = |index: u32| names.get(index as usize).map_or("?", String::as_str);
        for waiting in host.waiting() {
            let class = &view.totals.classes[usize::from(waiting.class)].name;
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
    if view.alive() > 0 {
        add(&|| format!("{} packets inside the network", view.alive()));
    }
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!list.is_empty()).then(|| list.join(", ") + &more)
}
