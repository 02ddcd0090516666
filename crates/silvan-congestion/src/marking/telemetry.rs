//! In-band telemetry: each switch writes facts about the output into each departing data packet. They are the time, the
//! bytes sent so far, the bytes that wait, and the rate (HPCC, SIGCOMM 2019, section 3.1 and figure 7). No packet is
//! marked.
//!
//! The receiver returns the telemetry with its acknowledgement. The bytes that telemetry occupies on the wire belong to
//! `packet.header` and `packet.control`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MarkingParameters, MarkingRule, RuleLane, SwitchFacts};
use crate::LinkLayer;
use crate::facts::{Departure, Verdict};

/// In-band telemetry has no parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InBandTelemetry {}

impl MarkingParameters for InBandTelemetry {
    fn link_layer(&self) -> Option<LinkLayer> {
        Some(LinkLayer::Ethernet)
    }

    fn has_severities(&self) -> bool {
        false
    }

    fn stamps(&self) -> bool {
        true
    }
}

impl InBandTelemetry {
    /// The rule of a network's switches.
    pub(super) fn rule(&self, _switches: &SwitchFacts) -> StampRule {
        StampRule
    }
}

/// The rule, which keeps no state.
#[derive(Debug, Clone, Copy)]
pub struct StampRule;

impl MarkingRule for StampRule {
    type State = ();

    fn port(&self, _lane: &RuleLane) {}

    fn reads_sent_bytes(&self) -> bool {
        true
    }

    fn watches_queues(&self) -> bool {
        false
    }

    fn watches_queue(&self, _port: &(), _queue_bytes: u32) -> bool {
        false
    }

    fn watches_arrivals(&self) -> bool {
        false
    }

    fn departs(&self, _port: &mut (), departure: &Departure, _has_credit: impl FnOnce() -> bool) -> Verdict {
        if departure.is_data { Verdict::Stamp(departure.telemetry()) } else { Verdict::Forward }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Rate, Time};

    use super::*;
    use crate::facts::Telemetry;

    #[test]
    fn a_data_packet_gets_the_state_of_its_output_and_a_control_packet_nothing() {
        let departure = |is_data| Departure {
            now: Time(7),
            size: 1_000,
            is_data,
            is_marked: false,
            queue_bytes: 3_000,
            buffer_bytes: 0,
            sent_bytes: 50_000,
            rate: Rate::from_gbit(100),
        };
        let rule = InBandTelemetry {}.rule(&SwitchFacts {
            lane: 0,
            output_lane: 0,
            full_space: 0,
            queues_have_one_output: true,
            ..SwitchFacts::default()
        });
        let expected =
            Telemetry { time: Time(7), sent_bytes: 50_000, queue_bytes: 3_000, rate: Rate::from_gbit(100) };
        assert_eq!(rule.departs(&mut (), &departure(true), || true), Verdict::Stamp(expected));
        assert_eq!(rule.departs(&mut (), &departure(false), || true), Verdict::Forward);
        assert_eq!(rule.quiet_fill(), None, "every departure matters");
    }
}
