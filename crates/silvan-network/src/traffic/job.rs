//! A job: the ranks of a trace, placed on hosts.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};
use silvan_trace::execute::Parameters;
use silvan_trace::{Kind, Trace};

/// Maximum number of ranks of a job on one host or reduction unit, which has one source for each pair of a
/// local and a remote rank.
pub const MOST_SHARING: u16 = 64;

/// How a host sends messages of a job that are posted at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sends {
    /// Messages to different ranks share the link: the host sends their packets round-robin.
    #[default]
    Interleaved,
    /// One message after the other, in the order in which they are posted.
    Sequential,
}

/// How messages of ranks use the ports of hosts with several ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortUse {
    /// Each rank has a port, as a GPU has its own adapter: the n-th rank of a host uses the n-th port. If there are more
    /// ranks than ports, the ports are used in turn.
    Rank,
    /// A hash of the two ranks selects a port for all messages between them.
    Hash,
    /// The packets of each message are divided among all ports in turn.
    Stripe,
    /// Each port sends the next packet of a message when it has sent the last one, so slower ports send fewer packets.
    Spray,
}

impl PortUse {
    /// The name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Hash => "hash",
            Self::Stripe => "stripe",
            Self::Spray => "spray",
        }
    }
}

/// The port at which a message arrives if each rank has a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalPort {
    /// The port of the receiving rank.
    #[default]
    Own,
    /// The port with the number of the sender's port, so that the message stays on its rail.
    Same,
}

/// Links between the ranks of a host, such as `NVLink`: each rank sends and receives at this rate, and a switch that is never
/// a bottleneck connects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerLinks {
    /// The rate of each rank, in each direction.
    pub rate: Rate,
    /// The time from sending the first byte of a message to receiving it.
    pub latency: Time,
}

/// The hosts with several ports on which the ranks of a job run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPorts {
    /// The ports of each host.
    pub machines: Vec<Vec<u32>>,
    /// For each rank, its host as an index into `machines`.
    pub machine_of: Vec<u32>,
    /// For each rank, its number among the ranks of its host, from 0.
    pub number: Vec<u32>,
    /// How messages use the ports.
    pub used: PortUse,
    /// Where messages arrive with [`PortUse::Rank`].
    pub arrival: ArrivalPort,
    /// Payload that goes to a port before it is the next port's turn, with [`PortUse::Stripe`] and [`PortUse::Spray`]: that of a
    /// full packet.
    pub chunk: u64,
    /// The links between ranks of a host; `None` if their messages are copied, see [`Job::memory_rate`].
    pub inner: Option<InnerLinks>,
    /// Whether messages may use any pair of ports if no usual pair is left: ports fail, and all ports are connected.
    pub crosses: bool,
    /// The time from the failure of a port until its messages that have not arrived move to other ports; `None` if they wait.
    pub failover: Option<Time>,
}

/// The part of a message that uses one pair of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The port that sends it.
    pub from: u32,
    /// The port that receives it.
    pub to: u32,
    /// Its payload in bytes.
    pub bytes: u64,
}

impl JobPorts {
    /// The ports of the host of a rank.
    #[must_use]
    pub fn ports(&self, rank: u32) -> &[u32] {
        &self.machines[self.machine_of[rank as usize] as usize]
    }

    /// The number of the port of a rank that has a port of its own, from 0.
    #[must_use]
    pub fn number_of_own(&self, rank: u32) -> usize {
        self.number[rank as usize] as usize % self.ports(rank).len()
    }

    /// The port of a rank that has a port of its own, otherwise the first port of its host.
    #[must_use]
    pub fn own(&self, rank: u32) -> u32 {
        let ports = self.ports(rank);
        match self.used {
            PortUse::Rank => ports[self.number_of_own(rank)],
            PortUse::Hash | PortUse::Stripe | PortUse::Spray => ports[0],
        }
    }

    /// The pairs of ports among which messages from one rank to another are divided, the preferred one first if each
    /// message uses one. Pairs for which `is_live` is false are left out, unless it is false for all of them.
    fn pairs(&self, (from, to): (u32, u32), is_live: impl Fn((u32, u32)) -> bool) -> Vec<(u32, u32)> {
        let (own, others) = (self.ports(from), self.ports(to));
        let count = own.len();
        let (first, shift) = match self.used {
            PortUse::Rank => {
                let first = self.number[from as usize] as usize % count;
                let arrival = match self.arrival {
                    ArrivalPort::Own => self.number[to as usize] as usize,
                    ArrivalPort::Same => first,
                };
                (first, arrival + others.len() * count - first)
            }
            PortUse::Hash => ((mixed(from, to) % count as u64) as usize, 0),
            PortUse::Stripe | PortUse::Spray => (0, 0),
        };
        let pair = |port: usize| (own[port % count], others[(port + shift) % others.len()]);
        let all: Vec<(u32, u32)> = (first..first + count).map(pair).collect();
        let mut live: Vec<(u32, u32)> = all.iter().copied().filter(|&pair| is_live(pair)).collect();
        if live.is_empty() && self.crosses {
            let crossing = |(place, &(from, _)): (usize, &(u32, u32))| {
                let receivers = all.iter().cycle().skip(place).take(all.len());
                receivers.map(|&(_, to)| (from, to)).find(|&pair| is_live(pair))
            };
            live = all.iter().enumerate().filter_map(crossing).collect();
        }
        if live.is_empty() { all } else { live }
    }

    /// Whether a pair of ports is left for messages from one rank to another.
    pub fn has_live(&self, ranks: (u32, u32), is_live: impl Fn((u32, u32)) -> bool) -> bool {
        self.pairs(ranks, &is_live).first().is_some_and(|&pair| is_live(pair))
    }

    /// The packets of a message with which the ports begin, with [`PortUse::Spray`]: one on each pair of ports for which
    /// `is_live` is true. `turn` varies the first port.
    pub fn first_packets(
        &self,
        ranks: (u32, u32),
        turn: u32,
        bytes: u64,
        is_live: impl Fn((u32, u32)) -> bool,
    ) -> Vec<Piece> {
        let piece = |((from, to), at): ((u32, u32), u64)| {
            let bytes = self.chunk.min(bytes - at * self.chunk);
            Piece { from, to, bytes }
        };
        self.in_turn(ranks, turn, is_live).into_iter().zip(0..self.packets(bytes)).map(piece).collect()
    }

    /// The pairs of ports in the order in which they get packets; `turn` varies the first one.
    fn in_turn(&self, ranks: (u32, u32), turn: u32, is_live: impl Fn((u32, u32)) -> bool) -> Vec<(u32, u32)> {
        let mut pairs = self.pairs(ranks, is_live);
        let first = mixed(ranks.0, turn) % pairs.len() as u64;
        pairs.rotate_left(first as usize);
        pairs
    }

    /// Number of packets of a message.
    #[must_use]
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk).max(1)
    }

    /// Divides a message between ranks of different hosts among the pairs of ports for which `is_live` is true; see
    /// [`PortUse`]. If it is false for the port of a rank or of a hash, the next pair is used. `turn` varies the port of the
    /// first piece. With [`PortUse::Spray`], this is the division if all ports are equally fast.
    pub fn pieces(
        &self,
        ranks: (u32, u32),
        turn: u32,
        bytes: u64,
        is_live: impl Fn((u32, u32)) -> bool,
    ) -> Vec<Piece> {
        if !matches!(self.used, PortUse::Stripe | PortUse::Spray) {
            let (from, to) = self.pairs(ranks, is_live)[0];
            return vec![Piece { from, to, bytes }];
        }
        let pairs = self.in_turn(ranks, turn, is_live);
        let parts = dealt(bytes, self.chunk, pairs.len() as u64);
        pairs.into_iter().zip(parts).map(|((from, to), bytes)| Piece { from, to, bytes }).collect()
    }
}

/// Deals `bytes` to `count` parts in turn, in chunks of which the last may be shorter. Fewer parts if there are fewer chunks.
fn dealt(bytes: u64, chunk: u64, count: u64) -> impl Iterator<Item = u64> {
    let chunks = bytes.div_ceil(chunk).max(1);
    (0..count.min(chunks)).map(move |at| {
        let own_chunks = (chunks - at).div_ceil(count);
        let is_last = (chunks - 1) % count == at;
        let short = if is_last { chunks * chunk - bytes } else { 0 };
        own_chunks * chunk - short
    })
}

/// A hash of two numbers, which distributes neighboring values widely.
fn mixed(one: u32, other: u32) -> u64 {
    let mut value = (u64::from(one) << 32 | u64::from(other)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        value = (value ^ (value >> 30)).wrapping_mul(factor);
    }
    value ^ (value >> 31)
}

/// The queue pairs of each pair of ranks. Each is a flow of its own, so it may have another route and another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuePairs {
    /// Number of queue pairs of each pair of ranks, 1 to 64 (`NCCL_IB_QPS_PER_CONNECTION`).
    #[schemars(range(min = 1, max = 64))]
    pub count: u16,
    /// Whether the packets of each message are divided among the queue pairs (`NCCL_IB_SPLIT_DATA_ON_QPS`). Otherwise, the
    /// messages from a rank to another use the queue pairs of the two in turn.
    #[serde(default)]
    pub split: bool,
}

impl Default for QueuePairs {
    fn default() -> Self {
        Self { count: 1, split: false }
    }
}

impl QueuePairs {
    /// The payload of a message on each queue pair, by its number. `turn` is the number of the message from its rank to the
    /// other, and `chunk` the payload of a full packet.
    pub fn parts(self, turn: u32, bytes: u64, chunk: u64) -> impl Iterator<Item = (u16, u64)> {
        let (first, count) = match self.split {
            true => (0, u64::from(self.count)),
            false => ((turn % u32::from(self.count)) as u16, 1),
        };
        (first..).zip(dealt(bytes, chunk, count))
    }
}

/// A parallel application: a trace, and the hosts of its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Name in results; unique among all jobs.
    pub name: String,
    /// The operations of its ranks.
    pub trace: Arc<Trace>,
    /// For each rank, the index of its host; with hosts of several ports, that of [`JobPorts::own`].
    pub hosts: Vec<u32>,
    /// The ports of these hosts, if some of them have several.
    pub ports: Option<Arc<JobPorts>>,
    /// The queue pairs of each pair of ranks.
    pub queue_pairs: QueuePairs,
    /// Number of reduction units, which are the last ranks.
    pub units: u32,
    /// Costs of messages for the ranks: overheads, and the size from which a message waits until its receive
    /// is posted. Latency and gaps have no effect: they result from the simulated network.
    pub parameters: Parameters,
    /// Time at which its ranks start.
    pub start: Time,
    /// How the hosts of the job send messages that are posted at the same time.
    pub sends: Sends,
    /// The rate of messages between ranks of one host. `None` means that they take no time.
    pub memory_rate: Option<Rate>,
    /// Service level of its messages.
    pub sl: u8,
}

impl Job {
    /// The pairs of different ports between which messages of the job are sent.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.trace.ranks()).flat_map(move |rank| {
            let operations = self.trace.of_rank(rank).map(|at| self.trace.operation(at));
            let sends = operations.filter(|operation| operation.kind == Kind::Send);
            sends.flat_map(move |send| self.pairs_of(rank, send.peer))
        })
    }

    /// The pairs of different ports that messages from one rank to another may use.
    fn pairs_of(&self, from: u32, to: u32) -> Vec<(u32, u32)> {
        let Some(ports) = &self.ports else {
            let pair = (self.hosts[from as usize], self.hosts[to as usize]);
            return Vec::from_iter((pair.0 != pair.1).then_some(pair));
        };
        match ports.machine_of[from as usize] == ports.machine_of[to as usize] {
            true => Vec::new(),
            false if ports.crosses => {
                let receivers = ports.ports(to);
                ports
                    .ports(from)
                    .iter()
                    .flat_map(|&from| receivers.iter().map(move |&to| (from, to)))
                    .collect()
            }
            // If ports fail, other pairs are used.
            false => ports.pairs((from, to), |_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(used: PortUse) -> JobPorts {
        JobPorts {
            machines: vec![vec![0, 1, 2], vec![3, 4, 5], vec![6]],
            machine_of: vec![0, 0, 0, 0, 1, 1, 1, 1, 2],
            number: vec![0, 1, 2, 3, 0, 1, 2, 3, 0],
            used,
            arrival: ArrivalPort::Own,
            chunk: 100,
            inner: None,
            crosses: false,
            failover: None,
        }
    }

    fn pieces(ports: &JobPorts, pair: (u32, u32), turn: u32, bytes: u64) -> Vec<(u32, u32, u64)> {
        let found = ports.pieces(pair, turn, bytes, |_| true).into_iter();
        found.map(|Piece { from, to, bytes }| (from, to, bytes)).collect()
    }

    #[test]
    fn messages_use_queue_pairs_in_turn_or_are_divided_among_them() {
        let parts = |split, turn, bytes| -> Vec<(u16, u64)> {
            QueuePairs { count: 3, split }.parts(turn, bytes, 100).collect()
        };
        assert_eq!(parts(false, 0, 750), [(0, 750)]);
        assert_eq!(parts(false, 5, 750), [(2, 750)]);
        assert_eq!(parts(true, 5, 750), [(0, 300), (1, 250), (2, 200)], "packets 0, 3, 6; 1, 4, 7; 2, 5");
        assert_eq!(parts(true, 0, 150), [(0, 100), (1, 50)], "two packets");
        assert_eq!(parts(true, 0, 0), [(0, 0)]);
    }

    #[test]
    fn each_rank_has_a_port() {
        let mut ports = ports(PortUse::Rank);
        assert_eq!(pieces(&ports, (1, 6), 0, 7), [(1, 5, 7)], "from the second port to the third");
        assert_eq!(pieces(&ports, (3, 4), 0, 7), [(0, 3, 7)], "the fourth rank uses the first port");
        ports.arrival = ArrivalPort::Same;
        assert_eq!(pieces(&ports, (1, 6), 0, 7), [(1, 4, 7)], "on the rail of the sender");
        assert_eq!(pieces(&ports, (1, 8), 0, 7), [(1, 6, 7)], "a host with one port");
    }

    #[test]
    fn other_ports_replace_those_that_are_down() {
        let mut ports = ports(PortUse::Rank);
        let used = |ports: &JobPorts, pair, down: &[u32]| {
            let is_live = |(from, to)| !down.contains(&from) && !down.contains(&to);
            let found = ports.pieces(pair, 0, 1_000, is_live).into_iter();
            found.map(|piece| (piece.from, piece.to, piece.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(used(&ports, (1, 6), &[1]), [(2, 3, 1_000)], "the next pair");
        assert_eq!(used(&ports, (1, 6), &[5]), [(2, 3, 1_000)]);
        assert_eq!(used(&ports, (1, 6), &[0, 1, 2]), [(1, 5, 1_000)], "none is left");
        assert_eq!(used(&ports, (1, 6), &[0, 1, 3]), [(1, 5, 1_000)], "no usual pair is left");
        ports.crosses = true;
        assert_eq!(used(&ports, (1, 6), &[0, 1, 3]), [(2, 4, 1_000)], "any ports");
        ports.used = PortUse::Stripe;
        let mut shares = used(&ports, (1, 6), &[4]);
        shares.sort_unstable();
        assert_eq!(shares, [(0, 3, 500), (2, 5, 500)]);
    }

    #[test]
    fn a_hash_of_the_ranks_selects_a_port() {
        let ports = ports(PortUse::Hash);
        let chosen = |turn| pieces(&ports, (0, 4), turn, 1_000);
        assert_eq!((chosen(0).len(), chosen(0)), (1, chosen(7)), "all messages of the pair");
        let mut used: Vec<u32> = (0..4)
            .flat_map(|from| (4..8).map(move |to| (from, to)))
            .map(|pair| pieces(&ports, pair, 0, 1)[0].0)
            .collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used, [0, 1, 2]);
    }

    #[test]
    fn the_packets_of_a_message_are_divided_among_ports() {
        let ports = ports(PortUse::Stripe);
        for bytes in [0, 1, 99, 100, 101, 250, 300, 301, 1_234, 5_000] {
            let mut found = pieces(&ports, (0, 5), 3, bytes);
            assert_eq!(found.iter().map(|piece| piece.2).sum::<u64>(), bytes);
            assert_eq!(found.len() as u64, bytes.div_ceil(100).clamp(1, 3), "{bytes} bytes");
            assert!(found.iter().all(|&(from, to, _)| to == from + 3));
            let (most, least) = (found.iter().map(|p| p.2).max(), found.iter().map(|p| p.2).min());
            assert!(
                bytes < 300 || most.zip(least).is_some_and(|(most, least)| most - least <= 100),
                "{bytes} bytes"
            );
            found.dedup_by_key(|piece| piece.0);
            assert_eq!(found.len() as u64, bytes.div_ceil(100).clamp(1, 3), "different ports");
        }
        for bytes in [0, 99, 250, 1_234] {
            let first = ports.first_packets((0, 5), 3, bytes, |_| true);
            let sizes: Vec<u64> = first.iter().map(|piece| piece.bytes).collect();
            let expected: Vec<u64> = (0..3).map(|at| (bytes.saturating_sub(100 * at)).min(100)).collect();
            assert_eq!(sizes, expected[..first.len()], "{bytes} bytes");
            assert_eq!(first.len() as u64, ports.packets(bytes).min(3));
        }
        let first: Vec<u32> = (0..40).map(|turn| pieces(&ports, (0, 5), turn, 8)[0].0).collect();
        assert!((0..3).all(|port| first.contains(&port)), "short messages take turns");
    }
}
