//! Congestion management as a composition of parts: a marking rule at the switches, a way for
//! the marks to return, a reaction at the sources, and the isolation of congested flows (whose
//! parts live in [`crate::queueing`]). The mechanisms of the literature are presets of parts.

pub mod marking;
pub mod reaction;

use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use silvan_engine::{Bytes, Time};

use crate::packet_format::Packet;
use crate::queueing::{Isolation, SpecialQueues};
use marking::{Fecn, FillMapping, Marking, Mvpm, Opm, Sampled};
use reaction::{Cct, CctTable, ExplicitRate, Lipd, Mvcm, Qcn, Reaction};

/// What is to be in force: a mechanism, and parts in place of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Congestion {
    /// A mechanism of the literature; it fills in the parts that are not given. `none` switches all
    /// parts off; leave it out to give parts alone.
    pub mechanism: Mechanism,
    /// How switches mark packets.
    pub marking: Option<Marking>,
    /// How marks return to the source.
    pub notification: Option<Notification>,
    /// Whether marks say how severe congestion is; by default they are a bit, but with `qcn`.
    pub feedback: Option<Feedback>,
    /// Least time between notification packets of a receiver, which marks that come sooner do not cause; by
    /// default each mark causes one.
    pub coalescing: Option<Coalescing>,
    /// How packets of congested flows are kept apart from others.
    pub isolation: Option<Isolation>,
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
    /// Isolation of congested flows in input-queued switches: one queue and special queues per
    /// input (FBICM; Paper V).
    Fbicm,
    /// FBICM and throttling: special queues of a root above a threshold mark (Paper V).
    Ccfit,
    /// Isolation of hot flows in VOQ switches (Paper VI).
    Hfdi,
    /// HFDI and throttling, two thresholds in all (Paper VI).
    Ecocc,
    /// Input packet marking, a window of one packet and linear inter-packet delays (MVCM, 3.2.1).
    Renato,
    /// Output packet marking and the congestion control table (MVCM, 3.2.2).
    Pfister,
    /// Marking and validation, a dynamic window and waiting slots (MVCM, 4).
    Mvcm,
    /// Explicit rates: single application assignment (Zdornov and Birk, 5 and 6).
    Saa,
    /// Quantized congestion notification: sampled marks that say how severe congestion is, straight from the
    /// switch to the source, whose rate they divide (IEEE 802.1Qau).
    Qcn,
}

impl Mechanism {
    /// Whether it is made for switches with one read port and one normal queue per input.
    #[must_use]
    pub fn is_input_queued(self) -> bool {
        matches!(self, Self::Fbicm | Self::Ccfit)
    }

    /// Whether it is made for switches with buffers at inputs and outputs.
    #[must_use]
    pub fn is_output_buffered(self) -> bool {
        matches!(self, Self::Renato | Self::Pfister | Self::Mvcm)
    }
}

/// How marks return to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// An explicit congestion notification packet per marked packet.
    Cnp,
    /// Acknowledgements carry the mark: one per message, and at once for a marked packet.
    Ack,
    /// An acknowledgement for every packet, with its marks.
    AckEach,
    /// The switch sends a notification to the source itself; the packet goes on without a mark. It is a control
    /// message of the size of `packet.control` that needs no credit and goes ahead of what waits for a link, as
    /// if it had a traffic class of its own that never fills; each switch takes it in whole before it passes it
    /// on, by its forwarding table.
    Backward,
}

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// That there is congestion: a bit.
    #[default]
    Binary,
    /// How severe it is: 1 to 63, from how far the queue is above its set point and how fast it grows.
    Quantized,
}

/// How receivers coalesce notification packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coalescing {
    /// Least time from one notification packet to the next.
    pub interval: Time,
    /// What the time counts for.
    #[serde(default)]
    pub per: CoalescePer,
}

/// What has a least time between its notification packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescePer {
    /// Each flow that the host receives.
    #[default]
    Flow,
    /// The host's port: all its flows together.
    Port,
}

/// The parts in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// See [`Marking`].
    pub marking: Marking,
    /// See [`Notification`].
    pub notification: Notification,
    /// See [`Feedback`].
    pub feedback: Feedback,
    /// See [`Coalescing`].
    pub coalescing: Option<Coalescing>,
    /// See [`Isolation`].
    pub isolation: Isolation,
    /// See [`Reaction`].
    pub reaction: Reaction,
}

impl Serialize for Congestion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Beside the word `none` parts would be nothing when this is read again.
        let nothing = Mechanism::None.parts(&Packet::default());
        let alone = self.mechanism == Mechanism::None && self.parts(&Packet::default()) != nothing;
        let mut table = serializer.serialize_struct("Congestion", 7 - usize::from(alone))?;
        if alone {
            table.skip_field("mechanism")?;
        } else {
            table.serialize_field("mechanism", &self.mechanism)?;
        }
        table.serialize_field("marking", &self.marking)?;
        table.serialize_field("notification", &self.notification)?;
        match &self.feedback {
            Some(feedback) => table.serialize_field("feedback", feedback)?,
            None => table.skip_field("feedback")?,
        }
        match &self.coalescing {
            Some(coalescing) => table.serialize_field("coalescing", coalescing)?,
            None => table.skip_field("coalescing")?,
        }
        table.serialize_field("isolation", &self.isolation)?;
        table.serialize_field("reaction", &self.reaction)?;
        table.end()
    }
}

impl Congestion {
    /// The parts with the preset filled in, for packets of a size.
    #[must_use]
    pub fn parts(&self, packet: &Packet) -> Parts {
        let preset = self.mechanism.parts(packet);
        Parts {
            marking: self.marking.clone().unwrap_or(preset.marking),
            notification: self.notification.unwrap_or(preset.notification),
            feedback: self.feedback.unwrap_or(preset.feedback),
            coalescing: self.coalescing.or(preset.coalescing),
            isolation: self.isolation.clone().unwrap_or(preset.isolation),
            reaction: self.reaction.clone().unwrap_or(preset.reaction),
        }
    }
}

impl Mechanism {
    /// The preset; thresholds that the papers give in packets are those of full ones.
    #[must_use]
    pub fn parts(self, packet: &Packet) -> Parts {
        let packets = |count: u64| Some(Bytes(count * (packet.mtu.0 + packet.header.0)));
        // A port is congested while any single queue is above; its own packets tell it so.
        let each = |upper, lower| Fecn {
            fill: FillMapping::Each,
            upper: packets(upper),
            lower: packets(lower),
            ..Fecn::default()
        };
        // Thresholds of Paper V, III.E and IV.A: High 4, Low 2, Stop 10, Go 4; detection is not
        // published.
        let fbicm = SpecialQueues { detection: packets(4), stop: packets(10), ..SpecialQueues::default() };
        let fbicm = SpecialQueues { go: packets(4), at_root: true, ..fbicm };
        // Paper VI, 4.1: HTh 6, LTh 4. HFDI alone is FBICM on VOQ switches (4.1): like that, it takes a
        // special queue for a root in its own switch, too (supplement 6: one queue per root). That a
        // root needs none is EcoCC's optimisation (3.1.2).
        let hfdi = SpecialQueues { detection: packets(6), stop: packets(6), ..SpecialQueues::default() };
        let hfdi = SpecialQueues { go: packets(4), at_root: self == Self::Hfdi, ..hfdi };
        let marking = match self {
            Self::None | Self::Fbicm | Self::Hfdi | Self::Saa => Marking::None,
            Self::Renato => Marking::Ipm,
            Self::Pfister => Marking::Opm(Opm::default()),
            Self::Mvcm => Marking::Mvpm(Mvpm::default()),
            Self::IbCc => Marking::Fecn(Fecn::default()),
            Self::Ccfit => Marking::Fecn(Fecn { percent: Some(85), ..each(4, 2) }),
            Self::Ecocc => Marking::Fecn(each(6, 4)),
            Self::Qcn => Marking::Sampled(Sampled::default()),
        };
        let isolation = match self {
            Self::None | Self::IbCc | Self::Renato | Self::Pfister | Self::Mvcm | Self::Saa | Self::Qcn => {
                Isolation::None
            }
            Self::Fbicm | Self::Ccfit => Isolation::SpecialQueues(fbicm),
            Self::Hfdi | Self::Ecocc => Isolation::SpecialQueues(hfdi),
        };
        let reaction = match self {
            Self::None | Self::Fbicm | Self::Hfdi => Reaction::None,
            // EcoCC's timer and marking rate are those of the earlier hardware study (Paper VI, 4.1).
            Self::IbCc | Self::Ecocc => Reaction::Cct(Cct::default()),
            // CCTI_Timer 8000 ns (Paper V, IV.A), in units of 1.024 us.
            Self::Ccfit => Reaction::Cct(Cct { ccti_timer: 8, ..Cct::default() }),
            Self::Renato => Reaction::Lipd(Lipd { window: Some(1), ..Lipd::default() }),
            // Neither table, increase nor timer are published: delays of so many packets, and a timer
            // of the order of a round trip.
            Self::Pfister => {
                let table = CctTable::Linear { packets: 1, entries: 128 };
                Reaction::Cct(Cct { ccti_timer: 1, table, ..Cct::default() })
            }
            Self::Mvcm => Reaction::Mvcm(Mvcm::default()),
            Self::Saa => Reaction::ExplicitRate(ExplicitRate::default()),
            Self::Qcn => Reaction::Qcn(Qcn::default()),
        };
        let (notification, feedback) = match self {
            Self::Qcn => (Notification::Backward, Feedback::Quantized),
            _ if self.is_output_buffered() => (Notification::AckEach, Feedback::Binary),
            _ => (Notification::Cnp, Feedback::Binary),
        };
        Parts { marking, notification, feedback, coalescing: None, isolation, reaction }
    }
}
