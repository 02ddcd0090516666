//! Marking by the fill of input and output buffers (MVCM, 3.1 and 4.1): IPM, OPM and MVPM.
//!
//! ```text
//!  IPM   input buffer full        marks packets at all inputs that wait for the same outputs as its packets
//!  OPM   output above threshold   marks packets that leave through the output
//!  MVPM  input above threshold    marks arriving packets;   output above threshold: validates marked packets
//! ```
//!
//! These rules need a switch with input and output buffers (`cioq`). Fills count whole credit blocks, for each virtual
//! lane. A packet counts from the arrival of its head until its tail has left, so the fill includes arriving and
//! departing packets. Control packets are not marked. No switch removes a mark.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MarkingParameters, MarkingRule, RuleLane, SwitchFacts};
use crate::facts::{Departure, InputBuffer, InputVerdict, Verdict};

/// Input packet marking, which has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipm {}

/// Parameters of output packet marking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Opm {
    /// Fill level, in percent of the output buffer, above which packets that leave the buffer are marked.
    #[schemars(range(min = 1, max = 99))]
    pub output_percent: u8,
}

impl Default for Opm {
    fn default() -> Self {
        Self { output_percent: 33 }
    }
}

/// Parameters of marking with validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mvpm {
    /// Share of the input buffer above which arriving packets are marked, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub input_percent: u8,
    /// Share of the output buffer above which marked packets through it are validated, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub output_percent: u8,
}

impl Default for Mvpm {
    fn default() -> Self {
        Self { input_percent: 66, output_percent: 33 }
    }
}

/// A rule with its thresholds in bytes, for one virtual lane's share of a buffer.
#[derive(Debug, Clone, Copy)]
pub enum BufferRule {
    Ipm {
        /// An input whose fill exceeds this threshold has no room for another full packet.
        room_for_none: u32,
    },
    Opm {
        output: u32,
    },
    Mvpm {
        input: u32,
        output: u32,
    },
}

fn share(capacity: u32, percent: u8) -> u32 {
    (u64::from(capacity) * u64::from(percent) / 100) as u32
}

impl MarkingParameters for Ipm {
    fn has_severities(&self) -> bool {
        false
    }

    fn needs_output_buffers(&self) -> bool {
        true
    }
}

impl Ipm {
    pub(super) fn rule(&self, switches: &SwitchFacts) -> BufferRule {
        BufferRule::Ipm { room_for_none: switches.lane - switches.full_space }
    }
}

impl MarkingParameters for Opm {
    fn has_severities(&self) -> bool {
        false
    }

    fn needs_output_buffers(&self) -> bool {
        true
    }
}

impl Opm {
    pub(super) fn rule(&self, switches: &SwitchFacts) -> BufferRule {
        BufferRule::Opm { output: share(switches.output_lane, self.output_percent) }
    }
}

impl MarkingParameters for Mvpm {
    fn has_severities(&self) -> bool {
        false
    }

    fn needs_output_buffers(&self) -> bool {
        true
    }

    fn validates(&self) -> bool {
        true
    }
}

impl Mvpm {
    pub(super) fn rule(&self, switches: &SwitchFacts) -> BufferRule {
        BufferRule::Mvpm {
            input: share(switches.lane, self.input_percent),
            output: share(switches.output_lane, self.output_percent),
        }
    }
}

impl MarkingRule for BufferRule {
    type State = ();

    fn port(&self, _lane: &RuleLane) {}

    fn watches_queue(&self, _port: &(), _queue_bytes: u32) -> bool {
        false
    }

    fn watches_arrivals(&self) -> bool {
        false
    }

    fn departs(&self, _port: &mut (), departure: &Departure, _has_credit: impl FnOnce() -> bool) -> Verdict {
        if !departure.is_data {
            return Verdict::Forward;
        }
        match *self {
            Self::Opm { output } if departure.buffer_bytes > output => Verdict::Mark(0),
            Self::Mvpm { output, .. } if departure.is_marked && departure.buffer_bytes > output => {
                Verdict::Validate
            }
            Self::Ipm { .. } | Self::Opm { .. } | Self::Mvpm { .. } => Verdict::Forward,
        }
    }

    fn watches_input_buffers(&self) -> bool {
        true
    }

    fn enters_buffer(&self, buffer: &InputBuffer) -> InputVerdict {
        match *self {
            Self::Mvpm { input, .. } if buffer.used_bytes > input => InputVerdict::Mark,
            Self::Ipm { room_for_none } if buffer.used_bytes > room_for_none => InputVerdict::MarkContenders,
            Self::Ipm { .. } | Self::Opm { .. } | Self::Mvpm { .. } => InputVerdict::Forward,
        }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Rate, Time};

    use super::*;

    /// Switches with buffers of these sizes per lane, for packets of 320 bytes.
    fn switches(lane: u32, output_lane: u32) -> SwitchFacts {
        SwitchFacts {
            lane,
            output_lane,
            full_space: 320,
            queues_have_one_output: false,
            ..SwitchFacts::default()
        }
    }

    /// The decision of a rule about a data packet that enters a buffer with `used_bytes`.
    fn enters(rule: &BufferRule, used_bytes: u32) -> InputVerdict {
        rule.enters_buffer(&InputBuffer { used_bytes })
    }

    /// The decision of a rule about a data packet that leaves an output buffer with `buffer_bytes`.
    fn leaves(rule: &BufferRule, buffer_bytes: u32, is_marked: bool) -> Verdict {
        let departure = Departure {
            now: Time::ZERO,
            size: 278,
            is_data: true,
            is_marked,
            queue_bytes: 0,
            buffer_bytes,
            sent_bytes: 0,
            rate: Rate::from_gbit(8),
        };
        rule.departs(&mut (), &departure, || true)
    }

    #[test]
    fn thresholds_are_exceeded_not_reached() {
        let rule = Mvpm { input_percent: 50, output_percent: 25 }.rule(&switches(1024, 2048));
        assert_eq!((enters(&rule, 512), enters(&rule, 513)), (InputVerdict::Forward, InputVerdict::Mark));
        assert_eq!(leaves(&rule, 512, true), Verdict::Forward);
        assert_eq!(leaves(&rule, 513, true), Verdict::Validate);
        assert_eq!(leaves(&rule, 2048, false), Verdict::Forward, "validated only if marked");
        let rule = Opm::default().rule(&switches(1024, 1024));
        assert_eq!(
            (leaves(&rule, 337, false), leaves(&rule, 338, false)),
            (Verdict::Forward, Verdict::Mark(0))
        );
        assert_eq!(enters(&rule, 1024), InputVerdict::Forward);
    }

    #[test]
    fn an_input_is_full_when_the_next_packet_has_no_room() {
        // Three packets of 320 bytes fit in 1024.
        let rule = Ipm {}.rule(&switches(1024, 1024));
        assert_eq!(enters(&rule, 640), InputVerdict::Forward);
        assert_eq!(enters(&rule, 960), InputVerdict::MarkContenders);
        assert_eq!(leaves(&rule, 1024, false), Verdict::Forward);
    }
}
