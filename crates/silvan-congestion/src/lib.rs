//! Congestion management as a composition of components: a marking rule at the switches, a receiver that answers, a
//! reaction at the sources, and the isolation of congested flows (in `silvan_fabric::queueing`). The mechanisms of the
//! literature are presets. A component receives the facts in [`facts`] and its own parameters, but has no access to the
//! simulator.

pub mod facts;
mod hosts;
pub mod isolation;
mod link_layer;
pub mod marking;
pub mod reaction;
pub mod receiver;
pub mod round_trip;
#[cfg(test)]
mod tests;
pub mod unfit;

use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::packet_format::Packet;

use crate::isolation::{Isolation, SpecialQueues};
pub use hosts::HostSetting;
pub use link_layer::LinkLayer;
use marking::{Fecn, FillMapping, InBandTelemetry, Ipm, Marking, Mvpm, Opm, Red, Sampled};
use reaction::{
    Cct, CctTable, Dcqcn, Dctcp, ExplicitRate, Hpcc, Lipd, Mvcm, Nscc, PccRtt, PccTelemetry, Qcn, Rccc,
    Reaction, Swift, Timely,
};
pub use receiver::{AcknowledgeUnit, CoalescePer, Coalescing, Notification};

/// Congestion management of a run: a mechanism, and components that replace those of the mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Congestion {
    /// A mechanism of the literature, which provides all components that are not given. `none` switches all components
    /// off; leave `mechanism` out to use only the given components.
    pub mechanism: Mechanism,
    /// How switches mark packets.
    pub marking: Option<Marking>,
    /// How marks return to the source.
    pub notification: Option<Notification>,
    /// Whether marks give the severity of congestion. By default they are one bit, except with `qcn`.
    pub feedback: Option<Feedback>,
    /// Minimum time between notification packets, for each flow or for a whole receiver. Marks that arrive earlier cause
    /// none. By default, each mark causes one, except with `dcqcn`.
    pub coalescing: Option<Coalescing>,
    /// Time that a receiver needs to turn a mark into a notification packet (`np_delay` of network adapters); by default
    /// none. Coalescing is applied before this time, when the marked packet arrives.
    pub notification_delay: Option<Time>,
    /// Acknowledgements that cover several packets, as in the consortium's simulator of Ultra Ethernet (`bytes = "16 KiB"`). By
    /// default, `ack-each` and `ack-grant` acknowledge each packet.
    pub acknowledge: Option<AcknowledgeUnit>,
    /// How packets of congested flows are isolated from packets of other flows.
    pub isolation: Option<Isolation>,
    /// How sources react to returned marks.
    pub reaction: Option<Reaction>,
    /// Reactions of single hosts, which replace `reaction`.
    pub hosts: Vec<HostSetting>,
}

/// A mechanism of the literature, as a preset of components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Only link-level flow control.
    #[default]
    None,
    /// InfiniBand congestion control: FECN marking, notification packets, CCT reaction.
    IbCc,
    /// Isolation of congested flows in input-queued switches with one normal queue and special queues per input (FBICM;
    /// Paper V).
    Fbicm,
    /// FBICM and throttling: special queues of a root mark packets above a threshold (Paper V).
    Ccfit,
    /// Isolation of hot flows in VOQ switches (Paper VI).
    Hfdi,
    /// HFDI and throttling, with only two thresholds (Paper VI).
    Ecocc,
    /// Input packet marking, a window of one packet and linear inter-packet delays (MVCM, 3.2.1).
    Renato,
    /// Output packet marking and the congestion control table (MVCM, 3.2.2).
    Pfister,
    /// Marking and validation, a dynamic window and waiting slots (MVCM, 4).
    Mvcm,
    /// Explicit rates: single application assignment (Zdornov and Birk, 5 and 6).
    Saa,
    /// Quantized congestion notification: the switch samples packets and reports the severity of congestion to the
    /// source, which reduces its rate accordingly (IEEE 802.1Qau).
    Qcn,
    /// DCQCN with the intervals that the vendor tuned: random marks, at most one notification packet per flow
    /// every 4 us, and a rate per flow. The thresholds of HPCC's authors, 100 and 400 kB for 25 Gbit/s and
    /// 13 us, are scaled to the rate of an output and the longest round trip. At the upper threshold, 20 % of the
    /// packets are marked.
    Dcqcn,
    /// DCTCP: all packets above a threshold are marked, and each flow has a window. The threshold of HPCC's
    /// authors, 30 kB for 10 Gbit/s and 13 us, is scaled to the rate of an output and the longest round trip.
    Dctcp,
    /// TIMELY: a rate per flow, controlled by the gradient of its round-trip time; no marks.
    Timely,
    /// Swift: a window per flow, controlled by a target round-trip time; no marks.
    Swift,
    /// HPCC: telemetry of switches, a window and a rate per flow.
    Hpcc,
    /// A rate per flow, controlled by its round-trip time, modeled on adapters with programmable congestion
    /// control; no marks.
    PccRtt,
    /// A rate per flow, controlled by the telemetry of the last switch, modeled on programmable adapters.
    PccTelemetry,
    /// Ultra Ethernet's control of sources (NSCC): marks and delays control a window per flow. The thresholds
    /// of marks are 0.2 and 0.8 of the bandwidth-delay product of the output's rate and the longest round
    /// trip, as in the consortium's simulator.
    Nscc,
    /// Ultra Ethernet's control of receivers (RCCC): receivers grant credit; no marks.
    Rccc,
    /// Ultra Ethernet with NSCC and RCCC: receivers grant credit, and marks and delays control a window per
    /// flow.
    Uec,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 21] = [
        Self::None,
        Self::IbCc,
        Self::Fbicm,
        Self::Ccfit,
        Self::Hfdi,
        Self::Ecocc,
        Self::Renato,
        Self::Pfister,
        Self::Mvcm,
        Self::Saa,
        Self::Qcn,
        Self::Dcqcn,
        Self::Dctcp,
        Self::Timely,
        Self::Swift,
        Self::Hpcc,
        Self::PccRtt,
        Self::PccTelemetry,
        Self::Nscc,
        Self::Rccc,
        Self::Uec,
    ];

    /// The name in a scenario.
    #[must_use]
    pub fn name(self) -> String {
        kebab(&format!("{self:?}"))
    }

    /// The link layer for which the components of the mechanism are designed, if any.
    #[must_use]
    pub fn link_layer(self) -> Option<LinkLayer> {
        let parts = self.components(&Packet::default());
        parts.reaction.properties().link_layer.or(parts.marking.link_layer())
    }

    /// Whether links have pause frames by default. True for mechanisms of RDMA over converged Ethernet. Ultra
    /// Ethernet uses credits, and the notifications of QCN would delay pause frames.
    #[must_use]
    pub fn is_roce(self) -> bool {
        let of_ultra_ethernet = matches!(self, Self::Nscc | Self::Rccc | Self::Uec);
        self.link_layer() == Some(LinkLayer::Ethernet) && !of_ultra_ethernet && self != Self::Qcn
    }

    /// Whether the mechanism is designed for switches with one read port and one normal queue per input.
    #[must_use]
    pub fn is_input_queued(self) -> bool {
        matches!(self, Self::Fbicm | Self::Ccfit)
    }

    /// Whether the mechanism is designed for switches with buffers at inputs and outputs.
    #[must_use]
    pub fn is_output_buffered(self) -> bool {
        matches!(self, Self::Renato | Self::Pfister | Self::Mvcm)
    }
}

/// The information in a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// One bit: there is congestion.
    #[default]
    Binary,
    /// The severity of congestion, from 1 to 63: from how far the queue is above its set point and how fast it grows.
    Quantized,
}

/// The name of a variant in a scenario file: `pcc-rtt` for `PccRtt`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// The components in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Components {
    /// See [`Marking`].
    pub marking: Marking,
    /// See [`Notification`].
    pub notification: Notification,
    /// See [`Feedback`].
    pub feedback: Feedback,
    /// See [`Coalescing`].
    pub coalescing: Option<Coalescing>,
    /// See [`Congestion::notification_delay`]; zero for none.
    pub notification_delay: Time,
    /// See [`AcknowledgeUnit`].
    pub acknowledge: Option<AcknowledgeUnit>,
    /// See [`Isolation`].
    pub isolation: Isolation,
    /// See [`Reaction`].
    pub reaction: Reaction,
    /// See [`HostSetting`].
    pub hosts: Vec<HostSetting>,
}

impl Serialize for Congestion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Do not write `none`, because a reader of the resolved scenario would then ignore the components.
        let nothing = Mechanism::None.components(&Packet::default());
        let alone = self.mechanism == Mechanism::None && self.components(&Packet::default()) != nothing;
        let mut table = serializer.serialize_struct("Congestion", 10 - usize::from(alone))?;
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
        match &self.notification_delay {
            Some(delay) => table.serialize_field("notification_delay", delay)?,
            None => table.skip_field("notification_delay")?,
        }
        match &self.acknowledge {
            Some(unit) => table.serialize_field("acknowledge", unit)?,
            None => table.skip_field("acknowledge")?,
        }
        table.serialize_field("isolation", &self.isolation)?;
        table.serialize_field("reaction", &self.reaction)?;
        if self.hosts.is_empty() {
            table.skip_field("hosts")?;
        } else {
            table.serialize_field("hosts", &self.hosts)?;
        }
        table.end()
    }
}

impl Congestion {
    /// The given components, completed with those of the preset, for the given packet size.
    #[must_use]
    pub fn components(&self, packet: &Packet) -> Components {
        let preset = self.mechanism.components(packet);
        Components {
            marking: self.marking.clone().unwrap_or(preset.marking),
            notification: self.notification.unwrap_or(preset.notification),
            feedback: self.feedback.unwrap_or(preset.feedback),
            coalescing: self.coalescing.or_else(|| {
                preset.coalescing.filter(|_| self.notification.unwrap_or(preset.notification).notifies())
            }),
            notification_delay: self.notification_delay.unwrap_or(preset.notification_delay),
            acknowledge: self.acknowledge,
            isolation: self.isolation.clone().unwrap_or(preset.isolation),
            reaction: self.reaction.clone().unwrap_or(preset.reaction),
            hosts: self.hosts.clone(),
        }
    }
}

impl Mechanism {
    /// The components of the preset. If papers give thresholds in packets, these are taken as full packets.
    #[must_use]
    pub fn components(self, packet: &Packet) -> Components {
        let packets = |count: u64| Some(Bytes(count * (packet.mtu.0 + packet.header.0)));
        // A port is congested if any of its queues is above the threshold.
        let each = |upper, lower| Fecn {
            fill: FillMapping::Each,
            upper: packets(upper),
            lower: packets(lower),
            ..Fecn::default()
        };
        // Thresholds in kB for a rate in Gbit/s and a round trip in us.
        let red = |(min, max): (u64, u64), percent, (rate, round_trip)| {
            Marking::Red(Red {
                min: Bytes(min * 1_000),
                max: Bytes(max * 1_000),
                percent,
                per_rate: Some(Rate::from_gbit(rate)),
                per_round_trip: Some(Time::from_us(round_trip)),
                ..Red::default()
            })
        };
        // Thresholds of Paper V, III.E and IV.A: High 4, Low 2, Stop 10, Go 4. The detection threshold is not
        // published.
        let fbicm = SpecialQueues { detection: packets(4), stop: packets(10), ..SpecialQueues::default() };
        let fbicm = SpecialQueues { go: packets(4), at_root: true, ..fbicm };
        // Paper VI, 4.1: HTh 6, LTh 4. HFDI alone is FBICM on VOQ switches (4.1). Like FBICM, it allocates a special
        // queue for a root in the root's own switch (supplement 6: one queue per root). EcoCC optimizes this by
        // omitting that queue (3.1.2).
        let hfdi = SpecialQueues { detection: packets(6), stop: packets(6), ..SpecialQueues::default() };
        let hfdi = SpecialQueues { go: packets(4), at_root: self == Self::Hfdi, ..hfdi };
        let marking = match self {
            Self::None | Self::Fbicm | Self::Hfdi | Self::Saa => Marking::None,
            Self::Renato => Marking::Ipm(Ipm {}),
            Self::Pfister => Marking::Opm(Opm::default()),
            Self::Mvcm => Marking::Mvpm(Mvpm::default()),
            Self::IbCc => Marking::Fecn(Fecn::default()),
            Self::Ccfit => Marking::Fecn(Fecn { percent: Some(85), ..each(4, 2) }),
            Self::Ecocc => Marking::Fecn(each(6, 4)),
            Self::Qcn => Marking::Sampled(Sampled::default()),
            Self::Timely | Self::Swift | Self::PccRtt | Self::Rccc => Marking::None,
            Self::Hpcc | Self::PccTelemetry => Marking::Telemetry(InBandTelemetry {}),
            // HPCC's section 5.1 has these thresholds for its networks, whose longest round trip is 13 us.
            Self::Dcqcn => red((100, 400), 20, (25, 13)),
            Self::Dctcp => red((30, 30), 100, (10, 13)),
            // The reference network of NSCC has 150 kB in a round trip.
            Self::Nscc | Self::Uec => red((30, 120), 100, (100, 12)),
        };
        let isolation = match self {
            Self::Fbicm | Self::Ccfit => Isolation::SpecialQueues(fbicm),
            Self::Hfdi | Self::Ecocc => Isolation::SpecialQueues(hfdi),
            _ => Isolation::None,
        };
        let reaction = match self {
            Self::None | Self::Fbicm | Self::Hfdi => Reaction::None,
            // EcoCC uses the timer and marking rate of the earlier hardware study (Paper VI, 4.1).
            Self::IbCc | Self::Ecocc => Reaction::Cct(Cct::default()),
            // CCTI_Timer 8000 ns (Paper V, IV.A), in units of 1.024 us.
            Self::Ccfit => Reaction::Cct(Cct { ccti_timer: 8, ..Cct::default() }),
            Self::Renato => Reaction::Lipd(Lipd { window: Some(1), ..Lipd::default() }),
            // The table, increase and timer are not published. The delays chosen here are whole packets, and the timer
            // is similar to a round trip.
            Self::Pfister => {
                let table = CctTable::Linear { packets: 1, entries: 128 };
                Reaction::Cct(Cct { ccti_timer: 1, table, ..Cct::default() })
            }
            Self::Mvcm => Reaction::Mvcm(Mvcm::default()),
            Self::Saa => Reaction::ExplicitRate(ExplicitRate::default()),
            Self::Qcn => Reaction::Qcn(Qcn::default()),
            Self::Dcqcn => Reaction::Dcqcn(Dcqcn::default()),
            Self::Dctcp => Reaction::Dctcp(Dctcp::default()),
            Self::Timely => Reaction::Timely(Timely::default()),
            Self::Swift => Reaction::Swift(Swift::default()),
            Self::Hpcc => Reaction::Hpcc(Hpcc::default()),
            Self::PccRtt => Reaction::PccRtt(PccRtt::default()),
            Self::PccTelemetry => Reaction::PccTelemetry(PccTelemetry::default()),
            Self::Nscc => Reaction::Nscc(Nscc::default()),
            Self::Rccc => Reaction::Rccc(Rccc::default()),
            Self::Uec => Reaction::Rccc(Rccc { nscc: Some(Nscc::default()), ..Rccc::default() }),
        };
        let (notification, feedback) = match self {
            Self::Qcn => (Notification::Backward, Feedback::Quantized),
            Self::Rccc | Self::Uec => (Notification::AckGrant, Feedback::Binary),
            _ if reaction.properties().needs_acknowledgements => (Notification::AckEach, Feedback::Binary),
            _ if self.is_output_buffered() => (Notification::AckEach, Feedback::Binary),
            _ => (Notification::Cnp, Feedback::Binary),
        };
        let notification_delay = Time::ZERO;
        Components {
            marking,
            notification,
            feedback,
            // The interval of the simulator of HPCC's authors.
            coalescing: (self == Self::Dcqcn)
                .then(|| Coalescing { interval: Time::from_us(4), per: CoalescePer::Flow }),
            notification_delay,
            acknowledge: None,
            isolation,
            reaction,
            hosts: Vec::new(),
        }
    }
}
