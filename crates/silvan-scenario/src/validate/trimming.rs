//! Checks the settings that packet trimming needs, and those that have no effect or are excluded without flow
//! control. The model checks the sizes, the lane of headers, and that reactions send lost packets again.

use std::collections::BTreeSet;

use silvan_congestion::isolation::Isolation;
use silvan_fabric::config::{Arbitration, Assignment, FlowControl, HostConfig, SwitchConfig, Trimmed};
use silvan_fabric::queueing::{HostQueues, Memory};
use silvan_network::traffic::Traffic;

use super::{Check, ensure};
use crate::scenario::settings;
use crate::spec::Spec;

pub(super) fn check(spec: &Spec) -> Check {
    let Some(trimming) = &spec.switch.trimming else { return Ok(()) };
    let (settings, mechanism) = (settings(spec), spec.congestion.mechanism);
    let is_fifo = settings.arbitration() == Arbitration::Fcfs;
    ensure(is_fifo || trimming.which != Some(Trimmed::Either), "switch.trimming.which", || {
        "must be \"arriving\" unless switch.arbitration is \"fcfs\", with which an output has one queue for the packets of \
         all inputs"
            .to_owned()
    })?;
    let is_isolated = settings.components().isolation != Isolation::None;
    ensure(!is_isolated, "switch.trimming", || {
        "cannot be combined with special queues (congestion.isolation), which react to full buffers"
            .to_owned()
    })?;
    ensure(spec.switch.memory(mechanism) == Memory::Shared, "switch.trimming", || {
        "cannot be combined with queues that have memory of their own; set switch.memory = \"shared\""
            .to_owned()
    })?;
    ensure(spec.flow_control == FlowControl::default(), "flow_control.kind", || {
        "cannot be combined with switch.trimming, which replaces flow control; leave one of them out"
            .to_owned()
    })?;
    buffers(spec)?;
    ensure(spec.host.drain_rate.is_none(), "host.drain_rate", || {
        "cannot be combined with switch.trimming: nothing would stop packets that a slower host cannot accept; leave it \
         out"
            .to_owned()
    })?;
    ensure(spec.host.queues.is_none_or(|queues| queues == HostQueues::None), "host.queues", || {
        "cannot be combined with switch.trimming, with which hosts keep packets until they know that these have arrived; \
         use \"none\""
            .to_owned()
    })?;
    let adapts = spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.enabled);
    ensure(!adapts, "adaptive_routing", || {
        "cannot be combined with switch.trimming: ports are compared by credits and announcements, which do not exist \
         without flow control; use [ecmp] with ecmp.spraying"
            .to_owned()
    })?;
    lanes(spec)
}

/// Checks that no size of a buffer is given, because `switch.trimming.queue` is the only limit.
fn buffers(spec: &Spec) -> Check {
    let given = [
        ("switch.buffer", spec.switch.buffer != SwitchConfig::default().buffer),
        ("switch.output_buffer", spec.switch.output_buffer.is_some()),
        ("host.buffer", spec.host.buffer != HostConfig::default().buffer),
    ];
    for (key, is_given) in given {
        ensure(!is_given, key, || {
            "has no effect with switch.trimming, whose limit is switch.trimming.queue; leave it out"
                .to_owned()
        })?;
    }
    Ok(())
}

/// Checks that the transfers of lists do not use the lane of headers.
pub(crate) fn check_listed(spec: &Spec, traffic: &[Traffic]) -> Check {
    let Some(control) = spec.switch.trimming.as_ref().and_then(|_| lane_of_headers(spec)) else {
        return Ok(());
    };
    for (index, one) in traffic.iter().enumerate() {
        let of_list = one.loaded.transfers.iter().flat_map(|list| list.iter());
        for sl in of_list.map(|transfer| transfer.sl).collect::<BTreeSet<u8>>() {
            ensure(spec.lanes.of_level(sl) != control, &format!("traffic.{index}.pattern.file"), || {
                format!(
                    "has transfers with service level {sl} and virtual lane {control}, lanes.control, which with \
                     switch.trimming carries only headers and control packets; set lanes.sl_to_vl, or change the file"
                )
            })?;
        }
    }
    Ok(())
}

/// The lane of headers, if the service level determines lanes.
fn lane_of_headers(spec: &Spec) -> Option<u8> {
    spec.lanes.control.filter(|_| spec.lanes.assignment == Assignment::ServiceLevel)
}

/// Checks that no data uses the lane of headers.
fn lanes(spec: &Spec) -> Check {
    let Some(control) = lane_of_headers(spec) else { return Ok(()) };
    let of_flows = spec.flow.iter().enumerate().map(|(at, flow)| (format!("flow.{at}.sl"), flow.sl));
    let of_traffic =
        spec.traffic.iter().enumerate().map(|(at, traffic)| (format!("traffic.{at}.sl"), traffic.sl));
    let of_jobs = spec.job.iter().enumerate().map(|(at, job)| (format!("job.{at}.sl"), job.sl));
    let levels = spec.external.iter().flat_map(|_| 0..spec.lanes.levels());
    let of_external = levels.map(|sl| ("external".to_owned(), sl));
    for (key, sl) in of_flows.chain(of_traffic).chain(of_jobs).chain(of_external) {
        ensure(spec.lanes.of_level(sl) != control, &key, || {
            format!(
                "has virtual lane {control}, lanes.control, which with switch.trimming carries only headers and control \
                 packets; use another service level, or set lanes.sl_to_vl"
            )
        })?;
    }
    Ok(())
}
