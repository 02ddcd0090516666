//! Congestion management as a composition of parts: a marking rule at the switches, a way for
//! the marks to return, and a reaction at the sources. The mechanisms of the literature are
//! presets of parts.

pub mod marking;
pub mod reaction;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use marking::Marking;
use reaction::Reaction;

/// The parts in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Congestion {
    /// A mechanism of the literature; it fills in the parts that are not given.
    pub mechanism: Mechanism,
    /// How switches mark packets.
    pub marking: Option<Marking>,
    /// How marks return to the source.
    pub notification: Option<Notification>,
    /// What sources do about returned marks.
    pub reaction: Option<Reaction>,
}

/// A mechanism of the literature, as a preset of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Link-level flow control alone.
    #[default]
    None,
    /// InfiniBand congestion control: FECN marking, notification packets, CCT reaction.
    IbCc,
}

/// How marks return to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// An explicit congestion notification packet per marked packet.
    Cnp,
    /// Acknowledgements carry the mark: one per message, and at once for a marked packet.
    Ack,
}

impl Default for Congestion {
    fn default() -> Self {
        Self { mechanism: Mechanism::None, marking: None, notification: None, reaction: None }
    }
}

impl Congestion {
    /// The parts with the preset filled in.
    #[must_use]
    pub fn parts(&self) -> (Marking, Notification, Reaction) {
        let (marking, reaction) = match self.mechanism {
            Mechanism::None => (Marking::None, Reaction::None),
            Mechanism::IbCc => {
                (Marking::Fecn(marking::Fecn::default()), Reaction::Cct(reaction::Cct::default()))
            }
        };
        (
            self.marking.clone().unwrap_or(marking),
            self.notification.unwrap_or(Notification::Cnp),
            self.reaction.clone().unwrap_or(reaction),
        )
    }
}
