//! Checks the settings of credits and of pause frames, and their combinations with other settings.

use silvan_congestion::Notification;
use silvan_congestion::isolation::Isolation;
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Credits, FlowControl, Pfc, SharedMemory, WatchdogAction};
use silvan_fabric::{Reason, SetupError};
use silvan_network::traffic::Pattern;

use super::{Check, LONGEST, LONGEST_DELAY, delay, ensure, events};
use crate::error::Fault;
use crate::spec::Spec;

/// Sizes of pause frames on the link: an Ethernet frame has at least 64 bytes.
const FRAMES: std::ops::RangeInclusive<Bytes> = Bytes(64)..=Bytes(1_024);

/// The longest time between two returns of credits.
const LONGEST_SPACING: Time = Time(1_000_000_000);

pub(super) fn check(spec: &Spec) -> Check {
    let pfc = match &spec.flow_control {
        FlowControl::Credits(given) => return credits(spec, given),
        FlowControl::OnOff(_) => return Ok(()),
        FlowControl::Pfc(pfc) => pfc,
    };
    let parts = spec.congestion.components(&spec.packet);
    // Notifications of special queues and backward notifications do not wait for credit, so any number of
    // them could delay a pause frame.
    ensure(parts.isolation == Isolation::None, "flow_control.kind", || {
        "cannot be combined with special queues, whose notifications would delay pause frames; set \
         congestion.isolation.kind = \"none\", or use credits"
            .to_owned()
    })?;
    ensure(parts.notification != Notification::Backward, "flow_control.kind", || {
        "cannot be combined with congestion.notification = \"backward\", whose messages would delay pause frames; use \
         another notification, or flow_control.kind = \"on-off\""
            .to_owned()
    })?;
    settings(pfc)?;
    lossy_lanes(spec, pfc)?;
    pfc.shared.as_ref().map_or(Ok(()), |shared| shared_memory(pfc, shared))
}

/// The fault of an error during setup. If headroom is large because small packets occupy whole blocks of a buffer,
/// the message says so.
pub(crate) fn fault(spec: &Spec, error: SetupError) -> Fault {
    let is_headroom =
        matches!(error.reason, Reason::NoSharedMemory { .. } | Reason::NoRoomAboveThreshold { .. });
    let mut fault = Fault::from(error);
    if is_headroom && let Some(hint) = large_headroom(spec) {
        fault.what = format!("{}; {hint}", fault.what);
    }
    fault
}

/// Explains headroom that is more than twice as large as for full packets; `None` if it is not.
fn large_headroom(spec: &Spec) -> Option<String> {
    let is_any_size = |one: &silvan_network::traffic::Traffic| {
        one.sizes.is_some() || one.message_max.is_some() || matches!(one.pattern, Pattern::Listed(_))
    };
    let (least, block) = (1 + spec.packet.header.0, spec.packet.credit_block.0);
    let space = least.div_ceil(block) * block;
    let varies = !spec.job.is_empty() || spec.external.is_some() || spec.traffic.iter().any(is_any_size);
    (varies && space > 2 * least).then(|| {
        format!(
            "headroom is up to {} times as large as for full packets, because a packet with a payload of 1 B has {least} B \
             on a link, but {space} B in a buffer; set packet.header, such as \"64 B\"",
            space.div_ceil(least)
        )
    })
}

fn credits(spec: &Spec, given: &Credits) -> Check {
    let fits = given.return_spacing.is_none_or(|spacing| spacing <= LONGEST_SPACING);
    ensure(fits, "flow_control.return_spacing", || format!("must be at most {LONGEST_SPACING}"))?;
    let Some(shared) = &given.shared else { return Ok(()) };
    ensure(spec.lanes.count > 1, "flow_control.shared", || {
        "has no effect with one virtual lane; increase lanes.count, or leave it out".to_owned()
    })?;
    ensure(shared.limit.is_none() || shared.alpha_shift.is_none(), "flow_control.shared.alpha_shift", || {
        "cannot be combined with flow_control.shared.limit; leave out one of them".to_owned()
    })
}

fn settings(pfc: &Pfc) -> Check {
    ensure(FRAMES.contains(&pfc.frame), "flow_control.frame", || {
        format!("must be {} to {}", FRAMES.start(), FRAMES.end())
    })?;
    delay("flow_control.response_time", pfc.response_time, LONGEST_DELAY)?;
    if let Some(limit) = pfc.watchdog {
        ensure(limit > Time::ZERO, "flow_control.watchdog", || {
            "must be more than 0 s; leave it out to permit pauses of any length".to_owned()
        })?;
        delay("flow_control.watchdog", limit, LONGEST)?;
    }
    let acts = pfc.watchdog.is_some() || pfc.watchdog_action == WatchdogAction::default();
    ensure(acts, "flow_control.watchdog_action", || "has no effect without flow_control.watchdog".to_owned())
}

fn lossy_lanes(spec: &Spec, pfc: &Pfc) -> Check {
    let lanes = &pfc.lossy_lanes;
    for (at, &lane) in lanes.iter().enumerate() {
        let key = format!("flow_control.lossy_lanes.{at}");
        ensure(lane < spec.lanes.count, &key, || {
            format!("must be 0 to {}, as lanes.count is {}", spec.lanes.count - 1, spec.lanes.count)
        })?;
        ensure(!lanes[..at].contains(&lane), &key, || "is there twice".to_owned())?;
    }
    if lanes.is_empty() { Ok(()) } else { events::losses(spec, "flow_control.lossy_lanes") }
}

fn shared_memory(pfc: &Pfc, shared: &SharedMemory) -> Check {
    for (key, given) in [("xoff", pfc.xoff), ("xon", pfc.xon)] {
        ensure(given.is_none(), &format!("flow_control.{key}"), || {
            "cannot be combined with flow_control.shared, whose thresholds depend on the free memory; leave out one of them"
                .to_owned()
        })?;
    }
    ensure((-7..=10).contains(&shared.alpha_shift), "flow_control.shared.alpha_shift", || {
        "must be -7 to 10, for thresholds of 128 times to 1/1024 of the free memory".to_owned()
    })
}
