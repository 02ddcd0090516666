//! The rules by which receivers answer data packets. Each receiver has its own file; this file lists them.
//!
//! | file | receiver |
//! | --- | --- |
//! | `notify` | a notification packet per marked packet, optionally coalesced |
//! | `acknowledge` | an acknowledgement per message, or per packet |
//! | `credits` | an acknowledgement per packet, and credit at the rate of the host's link |
//! | `units` | acknowledgements of a number of bytes, for the two receivers above |
//! | `silent` | no answers: the switches themselves report marks to the sources |
//!
//! To add a receiver, write a file with its rule and tests, and add a line to the list `receivers!` below. The list
//! generates the enum of the configuration, [`Notification`], and that of the hosts in a run, [`Responder`].

mod acknowledge;
mod credits;
mod notify;
mod oversubscribed;
mod silent;
mod units;

use acknowledge::{AcknowledgeMessages, AcknowledgePackets, CombineMarks};
use credits::AcknowledgeAndGrant;
pub(crate) use credits::{Pacing, QUANTUM};
use notify::NotifyMarks;
pub use notify::{CoalescePer, Coalescing};
pub use oversubscribed::Oversubscribed;
pub use oversubscribed::Oversubscription;
use silent::Silent;
pub use units::AcknowledgeUnit;

use std::cell::RefCell;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use crate::facts::{Received, Request, Sender, Severity, Telemetry};

/// A host for which a rule is created.
#[derive(Debug, Clone, Copy)]
pub struct Sink {
    /// See [`Coalescing`].
    pub coalescing: Option<Coalescing>,
    /// See [`AcknowledgeUnit`].
    pub unit: Option<AcknowledgeUnit>,
    /// Time that a notification packet takes inside the host before it waits for the link.
    pub notification_delay: Time,
    /// Rate of the host's link.
    pub rate: Rate,
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Bytes of a full packet on the wire.
    pub full_size: u32,
    /// How the receiver grants credit, if the reaction needs it.
    pub pacing: Option<Pacing>,
}

/// A rule by which a host answers the data packets that it receives. The default methods do nothing.
pub trait ReceiverRule {
    /// The state per receiving host. It derives `Saved`, because checkpoints of a run contain it.
    type State: Default + Saved;

    /// Whether the rule needs all data packets instead of only the marked ones.
    const WATCHES_UNMARKED: bool;

    /// Whether the rule acknowledges each packet, or a number of bytes at a time with an [`AcknowledgeUnit`].
    const ACKNOWLEDGES_EACH: bool;

    /// Whether the rule sends notification packets, which may be coalesced.
    const NOTIFIES: bool;

    /// Whether the rule answers requests with grants.
    const GRANTS: bool = false;

    /// Creates the rule of a host.
    fn new(sink: &Sink) -> Self;

    /// Handles a data packet whose tail has arrived.
    fn received(&self, state: &mut Self::State, packet: &Received, out: &mut Replies);

    /// Handles the header of a packet whose payload was lost. The host itself sends the negative acknowledgement,
    /// afterwards.
    fn trimmed(&self, _state: &mut Self::State, _header: &Received, _at_last_hop: bool, _out: &mut Replies) {}

    /// Handles a request from a source ([`super::reaction::ReactionRule::request`]).
    fn requested(&self, _state: &mut Self::State, _request: &Request, _out: &mut Replies) {}

    /// The time at which the rule needs [`Self::timer`] next, if any. The host reads it after each call of another
    /// method.
    fn next_timer(&self, _state: &Self::State) -> Option<Time> {
        None
    }

    /// Handles the timer at the time that [`Self::next_timer`] returned. Afterwards, `next_timer` must return a later
    /// time or `None`.
    fn timer(&self, _state: &mut Self::State, _now: Time, _out: &mut Replies) {}
}

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub enum Content {
    /// A notification packet for a data packet.
    Notification(Echo),
    /// An acknowledgement, with the numbers of payload bytes and of packets that it covers.
    Acknowledgement(Echo, u32, u32),
    /// A grant. The components define the unit of the amount.
    Grant(u32),
}

/// The fields of a data packet that its answer repeats.
#[derive(Debug, Clone, PartialEq, Eq, Default, Saved)]
pub struct Echo {
    /// The time at which the source began to send the packet.
    pub sent_at: Time,
    /// Whether a switch has marked the packet.
    pub is_marked: bool,
    /// Severity of the congestion; 0 if marks are single bits.
    pub severity: Severity,
    /// Whether a switch has validated the mark.
    pub is_validated: bool,
    /// Entropy value of the packet; 0 if packets have none.
    pub entropy: u16,
    /// Number of the packet in its flow; 0 if packets have none.
    pub number: u64,
    /// Telemetry that the packet has collected.
    pub hops: Vec<Telemetry>,
}

impl Echo {
    /// The fields of this packet. Takes its telemetry, because a packet has one answer.
    pub fn of(packet: &Received) -> Self {
        let Received { sent_at, is_marked, severity, is_validated, entropy, number, hops, .. } = *packet;
        Self {
            sent_at,
            is_marked,
            severity,
            is_validated,
            entropy,
            number: number.unwrap_or(0),
            hops: hops.map(RefCell::take).unwrap_or_default(),
        }
    }
}

/// A control packet that a receiver sends.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct Reply {
    /// The flow whose source receives the packet.
    pub to: Sender,
    /// The content of the packet.
    pub content: Content,
}

impl Reply {
    /// A notification packet for a data packet.
    fn notification(packet: &Received) -> Self {
        Self { to: packet.from, content: Content::Notification(Echo::of(packet)) }
    }
}

/// The control packets that a receiver sends, in order.
#[derive(Debug, Default, Saved)]
pub struct Replies(Vec<Reply>);

impl Replies {
    /// Adds a notification packet for a data packet.
    pub fn notify(&mut self, packet: &Received) {
        self.0.push(Reply::notification(packet));
    }

    /// Acknowledges a packet. `bytes` is the acknowledged payload, including that of the packet.
    pub fn acknowledge_packet(&mut self, packet: &Received, bytes: u32) {
        self.acknowledge(packet.from, Echo::of(packet), (bytes, 1));
    }

    /// Acknowledges payload bytes and packets to a flow. The acknowledgement repeats the fields of one of the packets.
    pub fn acknowledge(&mut self, to: Sender, echo: Echo, (bytes, packets): (u32, u32)) {
        self.0.push(Reply { to, content: Content::Acknowledgement(echo, bytes, packets) });
    }

    /// Grants an amount to a flow. The components define its unit.
    pub fn grant(&mut self, to: Sender, bytes: u32) {
        self.0.push(Reply { to, content: Content::Grant(bytes) });
    }

    /// Adds a reply that was created earlier.
    fn send(&mut self, reply: Reply) {
        self.0.push(reply);
    }

    /// Removes and returns the replies.
    pub fn drain(&mut self) -> impl Iterator<Item = Reply> {
        self.0.drain(..)
    }

    /// Whether there are no replies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A rule with its state at one host.
#[derive(Debug, Saved)]
pub struct Receiving<R: ReceiverRule> {
    #[saved(constant)]
    rule: R,
    state: R::State,
}

/// Defines the receivers. Each entry has the documentation, the variant (in kebab case, the name in a
/// configuration), and the rule.
macro_rules! receivers {
    ($( $(#[$meta:meta])* $name:ident => $rule:ty; )*) => {
        /// How marks return to the source.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Notification {
            $( $(#[$meta])* $name, )*
        }

        impl Notification {
            /// Whether receivers also answer data packets without a mark.
            #[must_use]
            pub fn answers_unmarked(self) -> bool {
                match self { $( Self::$name => <$rule as ReceiverRule>::WATCHES_UNMARKED, )* }
            }

            /// Whether receivers acknowledge each packet, or a number of bytes at a time with an
            /// [`AcknowledgeUnit`].
            #[must_use]
            pub fn acknowledges_each(self) -> bool {
                match self { $( Self::$name => <$rule as ReceiverRule>::ACKNOWLEDGES_EACH, )* }
            }

            /// Whether receivers send notification packets, which may be coalesced.
            #[must_use]
            pub fn notifies(self) -> bool {
                match self { $( Self::$name => <$rule as ReceiverRule>::NOTIFIES, )* }
            }

            /// Whether receivers answer requests with grants.
            #[must_use]
            pub fn grants(self) -> bool {
                match self { $( Self::$name => <$rule as ReceiverRule>::GRANTS, )* }
            }

            /// Creates the receiver of a host.
            pub fn responder(self, sink: &Sink) -> Responder {
                match self {
                    $( Self::$name => Responder::$name(Receiving {
                        rule: <$rule as ReceiverRule>::new(sink),
                        state: Default::default(),
                    }), )*
                }
            }
        }

        /// The receiver of one host, with its state.
        #[derive(Debug, Saved)]
        pub enum Responder {
            $( $(#[$meta])* $name(Receiving<$rule>), )*
        }

        /// See [`ReceiverRule`].
        impl Responder {
            /// See [`ReceiverRule::WATCHES_UNMARKED`].
            #[inline]
            pub fn watches_unmarked(&self) -> bool {
                match self { $( Self::$name(_) => <$rule as ReceiverRule>::WATCHES_UNMARKED, )* }
            }

            /// See [`ReceiverRule::received`].
            #[inline]
            pub fn received(&mut self, packet: &Received, out: &mut Replies) {
                match self {
                    $( Self::$name(Receiving { rule, state }) => rule.received(state, packet, out), )*
                }
            }

            /// See [`ReceiverRule::trimmed`].
            pub fn trimmed(&mut self, header: &Received, at_last_hop: bool, out: &mut Replies) {
                match self {
                    $( Self::$name(Receiving { rule, state }) => {
                        rule.trimmed(state, header, at_last_hop, out);
                    } )*
                }
            }

            /// See [`ReceiverRule::requested`].
            pub fn requested(&mut self, request: &Request, out: &mut Replies) {
                match self {
                    $( Self::$name(Receiving { rule, state }) => rule.requested(state, request, out), )*
                }
            }

            /// See [`ReceiverRule::next_timer`].
            #[inline]
            pub fn next_timer(&self) -> Option<Time> {
                match self { $( Self::$name(Receiving { rule, state }) => rule.next_timer(state), )* }
            }

            /// See [`ReceiverRule::timer`].
            pub fn timer(&mut self, now: Time, out: &mut Replies) {
                match self { $( Self::$name(Receiving { rule, state }) => rule.timer(state, now, out), )* }
            }
        }
    };
}

receivers! {
    /// An explicit congestion notification packet per marked packet, or fewer with `coalescing`.
    Cnp => NotifyMarks;
    /// Acknowledgements carry the mark: one per message, and immediately for a marked packet.
    Ack => AcknowledgeMessages;
    /// An acknowledgement per message, with the last packet of the message. It is marked if any packet of the message
    /// is, validated if any of them is, and has the largest severity.
    AckMessage => CombineMarks;
    /// An acknowledgement for every packet, with the packet's marks. With `acknowledge`, an acknowledgement
    /// can cover several packets.
    AckEach => AcknowledgePackets;
    /// An acknowledgement for every packet, with the packet's marks, and grants of credit. With
    /// `acknowledge`, an acknowledgement can cover several packets. The reaction `rccc` has the parameters of
    /// the grants.
    AckGrant => AcknowledgeAndGrant;
    /// The switch itself sends a notification to the source; the packet continues without a mark. The notification is a
    /// control message of the size of `packet.control`. It needs no credit and precedes all packets that wait for a
    /// link, as if it had its own traffic class with unlimited buffers. Each switch receives it completely before
    /// forwarding it by its forwarding table.
    Backward => Silent;
}

/// Arguments for tests of receivers.
#[cfg(test)]
mod trial {
    use silvan_engine::{Rate, Time};

    use super::{Replies, Sink};
    use crate::facts::{Received, Sender};
    use silvan_network::port::Vl;

    pub fn sink() -> Sink {
        Sink {
            coalescing: None,
            unit: None,
            notification_delay: Time::ZERO,
            rate: Rate::from_gbit(8),
            mtu: 2_048,
            full_size: 2_074,
            pacing: None,
        }
    }

    /// A flow of source 0 of a host.
    pub fn sender(host: u32) -> Sender {
        Sender { host, source: 0, connection: 0, class: 0, sl: 0, vl: Vl::FIRST }
    }

    /// A packet of 100 payload bytes that a host sends.
    pub fn packet(host: u32, now: u64, is_marked: bool, is_last: bool) -> Received<'static> {
        Received {
            now: Time(now),
            from: sender(host),
            size: 126,
            payload: 100,
            sent_at: Time::ZERO,
            is_marked,
            severity: 0,
            is_validated: false,
            is_last,
            hops: None,
            target: 0,
            entropy: 0,
            number: None,
            asks: false,
            is_repeated: false,
        }
    }

    /// The number of replies, and the total number of bytes that they acknowledge or grant.
    pub fn count(replies: &mut Replies) -> (usize, u64) {
        let bytes = |reply: super::Reply| match reply.content {
            super::Content::Notification(_) => 0,
            super::Content::Acknowledgement(_, bytes, _) | super::Content::Grant(bytes) => u64::from(bytes),
        };
        replies.drain().map(bytes).fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }
}
