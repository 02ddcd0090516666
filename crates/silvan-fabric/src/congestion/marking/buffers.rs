//! Marking by the fill of buffers at inputs and outputs (MVCM, 3.1 and 4.1): IPM, OPM and MVPM.
//!
//! ```text
//!  IPM   a full input buffer      marks all packets at the switch's inputs for the outputs it asks for
//!  OPM   output above threshold   marks what leaves through it
//!  MVPM  input above threshold    marks what arrives;   output above: validates what leaves marked
//! ```
//!
//! They need a switch with buffers at both (`cioq`). Fills count whole credit blocks, per virtual
//! lane; a packet counts from the arrival of its head until its tail has left, so what arrives or
//! leaves counts itself. Control packets are not marked. Marks stay, also where a later switch
//! validates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Rule;

/// Parameters of output packet marking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Opm {
    /// Share of the output buffer above which packets through it are marked, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub output_percent: u8,
}

impl Default for Opm {
    fn default() -> Self {
        Self { output_percent: 33 }
    }
}

/// Parameters of marking and validation.
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

/// A rule with its thresholds in bytes of a virtual lane's share.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BufferRule {
    /// An input with more than this has no room for another packet.
    Ipm {
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

/// What an arrival does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Nothing,
    /// The packet is marked.
    Marked,
    /// All packets at inputs for the outputs that this buffer's packets ask for are marked.
    Full,
}

fn share(capacity: u32, percent: u8) -> u32 {
    (u64::from(capacity) * u64::from(percent) / 100) as u32
}

impl BufferRule {
    pub fn opm(opm: &Opm, output: u32) -> Self {
        Self::Opm { output: share(output, opm.output_percent) }
    }

    /// For the shares of a virtual lane at inputs and outputs.
    pub fn mvpm(mvpm: &Mvpm, (input, output): (u32, u32)) -> Self {
        Self::Mvpm { input: share(input, mvpm.input_percent), output: share(output, mvpm.output_percent) }
    }

    /// For the share of a virtual lane at inputs and the space of a full packet.
    pub fn ipm(input: u32, full_space: u32) -> Self {
        Self::Ipm { room_for_none: input - full_space }
    }
}

impl Rule for BufferRule {
    type State = ();

    fn came_into_buffer(&self, used: u32) -> Arrival {
        match *self {
            Self::Mvpm { input, .. } if used > input => Arrival::Marked,
            Self::Ipm { room_for_none } if used > room_for_none => Arrival::Full,
            _ => Arrival::Nothing,
        }
    }

    fn leaves_buffer(&self, used: u32, is_marked: bool) -> (bool, bool) {
        match *self {
            Self::Opm { output } => (used > output, false),
            Self::Mvpm { output, .. } => (false, is_marked && used > output),
            Self::Ipm { .. } => (false, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_exceeded_not_reached() {
        let rule = BufferRule::mvpm(&Mvpm { input_percent: 50, output_percent: 25 }, (1024, 2048));
        assert_eq!(
            (rule.came_into_buffer(512), rule.came_into_buffer(513)),
            (Arrival::Nothing, Arrival::Marked)
        );
        assert_eq!(rule.leaves_buffer(512, true), (false, false));
        assert_eq!(rule.leaves_buffer(513, true), (false, true));
        assert_eq!(rule.leaves_buffer(2048, false), (false, false), "validated only if marked");
        let rule = BufferRule::opm(&Opm::default(), 1024);
        assert_eq!(
            (rule.leaves_buffer(337, false), rule.leaves_buffer(338, false)),
            ((false, false), (true, false))
        );
        assert_eq!(rule.came_into_buffer(1024), Arrival::Nothing);
    }

    #[test]
    fn an_input_is_full_when_the_next_packet_has_no_room() {
        // Three packets of 320 bytes fit in 1024.
        let rule = BufferRule::ipm(1024, 320);
        assert_eq!(rule.came_into_buffer(640), Arrival::Nothing);
        assert_eq!(rule.came_into_buffer(960), Arrival::Full);
        assert_eq!(rule.leaves_buffer(1024, false), (false, false));
    }
}
