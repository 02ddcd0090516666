//! Transfers with hosts, sizes and times that are known before the run: from files, or drawn for incasts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::random::Stream;

/// Maximum number of transfers of a pattern that lists them.
pub const MOST_LISTED: usize = 4_000_000;

/// Transfers of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The file, plain or compressed (`.gz`): the flow file of HPCC (a line with the number of flows, then source,
    /// destination, priority, port, bytes, and start in seconds), the connection matrix of htsim (`.cm`), or
    /// CSV with the columns `from`, `to`, `bytes`, `start_ns` and optionally `sl`. Hosts are names, or
    /// numbers from 0 in the order of the network, unless names of hosts are numbers. A priority is a service
    /// level. The name is relative to the scenario.
    pub file: String,
    /// Time in the file at which the run starts; 0 s by default. Files of HPCC often start at 2 s.
    #[serde(default)]
    pub starts_at: Time,
}

/// Many hosts that send to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// Number of hosts that send, drawn from `hosts` each time.
    #[schemars(range(min = 1))]
    pub senders: u32,
    /// Possible receivers, one of which is drawn each time: a list, or a text with a range such as `H[1-4]`
    /// (also within a list). Default: all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// Time from one incast to the next, or its mean with `arrivals = "poisson"`, instead of `load_percent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Time>,
    /// Each sender starts up to this time after the start of the incast, at a random time. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Time>,
}

/// A transfer that is known before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListedTransfer {
    /// Number of the sending host.
    pub from: u32,
    /// Number of the receiving host.
    pub to: u32,
    /// Payload, at least one byte.
    pub bytes: u64,
    /// The time at which the transfer starts.
    pub start: Time,
    /// Service level.
    pub sl: u8,
}

/// The parameters of [`draw_incasts`].
pub struct IncastPlan<'a> {
    /// Hosts that may send.
    pub senders: &'a [u32],
    /// Hosts that may receive. Must not be empty.
    pub receivers: &'a [u32],
    /// Number of hosts that send in each incast. If there are fewer senders apart from the receiver, all of them send.
    pub count: usize,
    /// Maximum time from the start of an incast to the start of each of its messages.
    pub jitter: Time,
    /// Draws the time from one incast to the next.
    pub gap: &'a mut dyn FnMut(&mut Stream) -> Time,
    /// Draws the size of a message in bytes.
    pub bytes: &'a mut dyn FnMut(&mut Stream) -> u32,
    /// The time of the first incast.
    pub start: Time,
    /// No incast starts at or after this time.
    pub stop: Time,
    /// Service level.
    pub sl: u8,
}

/// Draws incasts; `None` if there are more than [`MOST_LISTED`] transfers.
pub fn draw_incasts(plan: IncastPlan, random: &mut Stream) -> Option<Vec<ListedTransfer>> {
    let mut found = Vec::new();
    let mut time = plan.start;
    while time < plan.stop {
        if found.len() + plan.count > MOST_LISTED {
            return None;
        }
        let to = plan.receivers[random.below(plan.receivers.len() as u32) as usize];
        let mut others: Vec<u32> = plan.senders.iter().copied().filter(|&host| host != to).collect();
        for place in 0..plan.count.min(others.len()) {
            let left = (others.len() - place) as u32;
            others.swap(place, place + random.below(left) as usize);
            let late = (u128::from(plan.jitter.0) * u128::from(random.next_u32())) >> 32;
            let (from, bytes) = (others[place], (plan.bytes)(random));
            found.push(ListedTransfer {
                from,
                to,
                bytes: bytes.into(),
                start: time + Time(late as u64),
                sl: plan.sl,
            });
        }
        let gap = (plan.gap)(random);
        time += gap.max(Time(1));
    }
    Some(found)
}
