//! The reasons for which the event-ordered scheduler runs the switches of a network. This list is the only one: the account,
//! the summary and error messages print its clauses, and `docs/internals.md` contains all of it.

use std::fmt;

/// Defines the reasons, with the clause that follows "because", and with an explanation.
macro_rules! reasons {
    ($($name:ident: $clause:literal, $explanation:literal;)*) => {
        /// Why the event-ordered scheduler runs the switches of a network.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum NotBinned {
            $(#[doc = $explanation] $name,)*
        }

        impl NotBinned {
            /// All reasons, in the order in which they are tested, so a network has the first one that applies.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The reason, as a clause that follows "because".
            #[must_use]
            pub fn clause(self) -> &'static str {
                match self {
                    $(Self::$name => $clause,)*
                }
            }

            /// What the binned scheduler cannot do, or why the other one is better.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Self::$name => $explanation,)*
                }
            }
        }
    };
}

reasons! {
    Selected: "the scenario selects it", "The scenario has `scheduler = \"event-ordered\"`.";
    AwaitedDeliveries: "its traffic waits for a number of deliveries",
        "With `start_after_packets`, a delivery can affect several hosts at one instant.";
    Program: "a program sends its messages",
        "The program acts between two instants, and a bin contains many instants.";
    Skips: "it skips repeated work", "A repetition begins at an instant, and a bin contains many instants.";
    Drops: "its switches and hosts may drop packets",
        "With lossy lanes, the packets that a buffer holds at an instant determine which packet is dropped.";
    DependentOutputs: "the outputs of its switches depend on each other",
        "They share a read port, an arbiter or output buffers, unless switches are VOQ switches with round-robin arbitration \
         or FCFS switches.";
    AnnouncedFlows: "its flows are announced to switches",
        "Announcements change the state of the switch from which routes follow.";
    RoutesByLoad: "each packet chooses its port by the load of all",
        "The choice needs the state of several outputs when the packet arrives.";
    ChosenLanes: "its switches choose the lanes of packets",
        "A packet in bins stays on the lane on which its host sends it.";
    DividedBuffers: "its buffers are divided among queues",
        "An output has one credit account per lane, which alone must determine whether a packet may start.";
    Retry: "its links send frames again after errors",
        "The messages and timers of link-level retry also determine whether a packet may start.";
    SharedCredits: "its lanes share credits", "The credit of a lane then depends on the packets of other lanes.";
    Messages: "its receivers send messages that change when outputs may send",
        "Bins know the messages of pause frames and of on/off flow control only.";
    PausingHosts: "its hosts may send pause frames",
        "Packets leave the buffers of hosts without events, so no fill is compared with a threshold. A host never pauses if it \
         drains its buffer as fast as its link during the whole run, and the buffer holds a packet.";
    TrimsAndPauses: "its switches trim packets and send pause frames",
        "The bytes that may arrive before a pause are counted in advance, and trimming changes them.";
    ManyPorts: "a switch has more than 256 ports", "Inputs are stored in 8 bits.";
    ReportsOfDepartures: "its switches notify sources themselves of packets that leave",
        "A notification uses another output at the same instant, and a mark at a departure is unknown before its bin.";
    LargePackets: "its packets occupy more than 65,535 bytes", "Sizes are stored in 16 bits.";
    ManyKindsOfLinks: "its links have more than 255 parameter sets",
        "The rate, delay and latency of a link are stored as a number of 8 bits.";
    NoLookahead: "the delays of its links differ too much, or are too short",
        "A bin is not longer than the shortest time between a cause and its effect, and events are at most a fixed number of \
         bins ahead.";
    FewArrivals: "it is so small that a bin would contain less than one packet",
        "Each bin has a fixed cost. The event-ordered scheduler is faster if all switches together would receive less than one \
         packet per bin with all links busy.";
}

impl fmt::Display for NotBinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.clause())
    }
}
