//! Checks errors of links and link-level retry, and their combinations with other settings.

use silvan_engine::Time;
use silvan_fabric::config::FlowControl;

use super::{Check, LARGEST_BUFFER, LONGEST_DELAY, delay, ensure};
use crate::spec::Spec;

pub(super) fn check(spec: &Spec) -> Check {
    let Some(retry) = &spec.link.retry else {
        return ensure(spec.link.error_rate_ppb == 0, "link.error_rate_ppb", || {
            "needs link.retry, because packets must not get lost; set link.retry = {}".to_owned()
        });
    };
    ensure(matches!(spec.flow_control, FlowControl::Credits(_)), "link.retry", || {
        "needs flow_control.kind = \"credits\": the headroom of receivers that pause their senders does not cover frames that \
         are sent again"
            .to_owned()
    })?;
    ensure(retry.timer > Time::ZERO, "link.retry.timer", || "must be more than 0 s".to_owned())?;
    delay("link.retry.timer", retry.timer, LONGEST_DELAY)?;
    for (key, bytes) in [("bytes", retry.bytes), ("ack_spacing", retry.ack_spacing)] {
        ensure(bytes <= LARGEST_BUFFER, &format!("link.retry.{key}"), || {
            format!("must be at most {LARGEST_BUFFER}")
        })?;
    }
    Ok(())
}
