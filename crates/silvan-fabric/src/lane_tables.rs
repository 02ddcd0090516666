//! Arbitration of virtual lanes by tables with weights (InfiniBand Architecture Specification, volume 1, 7.6.9).
//!
//! ```text
//!  high table: [vl 2, weight 8] [vl 3, weight 4]   while bytes remain of the limit of high priority
//!  low table:  [vl 0, weight 1] [vl 1, weight 3]   otherwise, and if no lane of the high table can send
//! ```
//!
//! The entries of a table take turns. In its turn, an entry sends packets of its lane until the sum of their bytes
//! reaches its weight, so the last packet may exceed the weight. The turn ends early if the lane has no packet, or no
//! credit for its packet, while another lane sends; the rest of the weight is then lost. Entries with a weight of zero
//! are skipped.
//!
//! The limit works in the same way: the high table precedes the low one until its packets since the last opportunity
//! of the low table have as many bytes as the limit. The limit starts again when the low table sends a packet, or has
//! none to send.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

/// Two tables by which outputs select the virtual lane that sends the next packet, as in InfiniBand (volume 1 of the
/// specification, 7.6.9). The entries of a table take turns: an entry `[lane, weight]` sends packets until the sum of
/// their bytes reaches 64 times its weight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VlArbitration {
    /// Entries `[lane, weight]` of the table with high priority, at most 64. Weights are from 0 to 255, in units of 64
    /// bytes; entries with weight 0 are skipped. A lane can have several entries, also in both tables.
    #[schemars(length(max = 64))]
    pub high: Vec<(u8, u8)>,
    /// Entries of the table with low priority, as in `high`.
    #[schemars(length(max = 64))]
    pub low: Vec<(u8, u8)>,
    /// Bytes that the table `high` may send before the table `low` has an opportunity to send a packet.
    pub limit: HighLimit,
}

impl VlArbitration {
    /// Maximum number of entries of a table.
    pub const MOST_ENTRIES: usize = 64;

    /// The entries of both tables that are not skipped.
    pub fn entries(&self) -> impl Iterator<Item = (u8, u8)> {
        self.high.iter().chain(&self.low).copied().filter(|(_, weight)| *weight > 0)
    }
}

/// The limit of high priority in units of 4096 bytes, as InfiniBand encodes it: 255 stands for no limit.
///
/// ```
/// use silvan_fabric::lane_tables::HighLimit;
///
/// assert_eq!("8 KiB".parse(), Ok(HighLimit(2)));
/// assert_eq!("unlimited".parse(), Ok(HighLimit::UNLIMITED));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(
    with = "String",
    description = "A multiple of 4 KiB up to 1016 KiB, `0 B` for a single packet, or `unlimited`."
)]
pub struct HighLimit(pub u8);

impl HighLimit {
    /// The table of low priority has an opportunity only if the other one has nothing to send.
    pub const UNLIMITED: Self = Self(255);
    const UNIT: u64 = 4096;

    /// `None` without a limit. The smallest limit is reached after one packet of any size.
    fn bytes(self) -> Option<i64> {
        (self != Self::UNLIMITED).then(|| (i64::from(self.0) * Self::UNIT as i64).max(1))
    }
}

/// A text that is not a limit of high priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a limit of high priority: write a multiple of 4 KiB up to 1016 KiB, \"0 B\" for a single packet, or \
     \"unlimited\""
)]
pub struct NotALimit(String);

impl FromStr for HighLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        if text == "unlimited" {
            return Ok(Self::UNLIMITED);
        }
        let units = text.parse::<Bytes>().ok().filter(|bytes| bytes.0 % Self::UNIT == 0);
        let units = units.and_then(|bytes| u8::try_from(bytes.0 / Self::UNIT).ok()).map(Self);
        let not_a_limit = || NotALimit(text.chars().take(60).collect());
        units.filter(|limit| *limit != Self::UNLIMITED).ok_or_else(not_a_limit)
    }
}

impl TryFrom<String> for HighLimit {
    type Error = NotALimit;

    fn try_from(text: String) -> Result<Self, NotALimit> {
        text.parse()
    }
}

impl From<HighLimit> for String {
    fn from(limit: HighLimit) -> Self {
        limit.to_string()
    }
}

impl fmt::Display for HighLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNLIMITED => f.write_str("unlimited"),
            Self(0) => f.write_str("0 B"),
            Self(units) => write!(f, "{} KiB", u64::from(units) * Self::UNIT / 1024),
        }
    }
}

/// Up to 16 distinct lanes in the order in which an output tries them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LaneSequence {
    /// Four bits per lane.
    lanes: u64,
    count: u32,
}

impl LaneSequence {
    /// Panics in debug builds if there are more than 16 lanes.
    pub fn of(lanes: impl Iterator<Item = Vl>) -> Self {
        lanes.fold(Self::default(), |before, vl| before.then(vl))
    }

    #[inline]
    fn then(self, vl: Vl) -> Self {
        debug_assert!(self.count < 16, "a port has at most 16 lanes");
        Self { lanes: self.lanes | u64::from(vl.0 & 15) << (4 * self.count), count: self.count + 1 }
    }
}

impl Iterator for LaneSequence {
    type Item = Vl;

    #[inline]
    fn next(&mut self) -> Option<Vl> {
        self.count = self.count.checked_sub(1)?;
        let vl = Vl((self.lanes & 15) as u8);
        self.lanes >>= 4;
        Some(vl)
    }
}

/// An entry of a table with a weight above zero, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WeightedLane {
    vl: Vl,
    bytes: i64,
}

/// The tables of all ports of a network.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaneTables {
    /// The tables with high and with low priority.
    tables: [Box<[WeightedLane]>; 2],
    /// `None` if the limit is never reached.
    limit: Option<i64>,
}

const HIGH: usize = 0;
const LOW: usize = 1;

impl LaneTables {
    /// Bytes per unit of weights.
    const UNIT: i64 = 64;

    /// Tables of ports with `lanes` virtual lanes, without entries of other lanes.
    pub fn new(given: &VlArbitration, lanes: u8) -> Self {
        let entries = |table: &[(u8, u8)]| {
            let used = table.iter().filter(|(vl, weight)| *weight > 0 && *vl < lanes);
            used.map(|&(vl, weight)| WeightedLane { vl: Vl(vl), bytes: i64::from(weight) * Self::UNIT })
                .collect()
        };
        Self { tables: [entries(&given.high), entries(&given.low)], limit: given.limit.bytes() }
    }
}

/// The turns of the lanes of one port.
#[derive(Debug, Clone, Copy, Saved)]
struct LaneTurns {
    /// The entry of each table whose turn it is, and the bytes that it may still send, which are more than zero.
    at: [u8; 2],
    left: [i64; 2],
    /// Bytes of high priority until the low table has an opportunity, which it has if there are none.
    high_left: i64,
}

impl LaneTurns {
    fn new(of: &LaneTables) -> Self {
        let left = [HIGH, LOW].map(|table| of.tables[table].first().map_or(0, |entry| entry.bytes));
        Self { at: [0; 2], left, high_left: of.limit.unwrap_or(1) }
    }

    /// The entries in the order in which the port tries them, as tables and indexes.
    fn order<'a>(&self, of: &'a LaneTables) -> impl Iterator<Item = (usize, usize, WeightedLane)> + use<'a> {
        let at = self.at.map(usize::from);
        let tables = if self.high_left > 0 { [HIGH, LOW] } else { [LOW, HIGH] };
        tables.into_iter().flat_map(move |table| {
            let entries = &of.tables[table];
            let (before, from) = entries.split_at(at[table].min(entries.len()));
            let indexes = (at[table]..entries.len()).chain(0..at[table]);
            indexes.zip(from.iter().chain(before)).map(move |(index, entry)| (table, index, *entry))
        })
    }

    fn sequence(&self, of: &LaneTables) -> LaneSequence {
        let mut seen = 0u16;
        let entries = self.order(of).map(|(.., entry)| entry.vl);
        LaneSequence::of(entries.filter(|vl| {
            let is_new = seen >> vl.0 & 1 == 0;
            seen |= 1 << vl.0;
            is_new
        }))
    }

    fn served(&mut self, of: &LaneTables, vl: Vl, bytes: u32) {
        let bytes = i64::from(bytes);
        let Some((table, index, entry)) = self.order(of).find(|(.., entry)| entry.vl == vl) else { return };
        if let Some(limit) = of.limit {
            // The low table has sent a packet, or has had an opportunity without packets.
            if table == LOW || self.high_left <= 0 {
                self.high_left = limit;
            }
            if table == HIGH {
                self.high_left -= bytes;
            }
        }
        let before = if index == usize::from(self.at[table]) { self.left[table] } else { entry.bytes };
        let (mut at, mut left) = (index, before - bytes);
        if left <= 0 {
            at = (index + 1) % of.tables[table].len();
            left = of.tables[table][at].bytes;
        }
        (self.at[table], self.left[table]) = (at as u8, left);
    }
}

/// The arbitration of the lanes of several ports that have the same tables.
#[derive(Debug, Saved)]
pub(crate) struct LaneArbiters {
    #[saved(constant)]
    tables: Arc<LaneTables>,
    ports: Box<[LaneTurns]>,
}

impl LaneArbiters {
    pub fn new(tables: &Arc<LaneTables>, ports: usize) -> Self {
        Self { tables: Arc::clone(tables), ports: vec![LaneTurns::new(tables); ports].into() }
    }

    /// All lanes in the order in which a port tries them.
    pub fn sequence(&self, port: usize) -> LaneSequence {
        self.ports[port].sequence(&self.tables)
    }

    /// Records that a port sends a packet of `bytes` on the wire, on the first lane of its sequence that can send.
    pub fn served(&mut self, port: usize, vl: Vl, bytes: u32) {
        self.ports[port].served(&self.tables, vl, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lanes of `count` packets of `bytes`, if the lanes in `waiting` always have packets.
    fn lanes(
        arbiters: &mut LaneArbiters,
        count: usize,
        bytes: u32,
        waiting: impl Fn(usize) -> u16,
    ) -> Vec<u8> {
        let mut sent = Vec::new();
        for at in 0..count {
            let can_send = |vl: &Vl| waiting(at) >> vl.0 & 1 == 1;
            let vl = arbiters.sequence(0).find(can_send).expect("a lane waits");
            arbiters.served(0, vl, bytes);
            sent.push(vl.0);
        }
        sent
    }

    fn arbiters(high: &[(u8, u8)], low: &[(u8, u8)], limit: HighLimit) -> LaneArbiters {
        let given = VlArbitration { high: high.to_vec(), low: low.to_vec(), limit };
        LaneArbiters::new(&Arc::new(LaneTables::new(&given, 3)), 1)
    }

    #[test]
    fn lanes_share_by_weights() {
        // Weights of 4, 0, 2 and 1 packet; the entry of lane 1 is skipped, and its other entry is the last.
        let entries = [(0, 8), (1, 0), (2, 4), (1, 2)];
        for (high, low) in [(&entries[..], &[][..]), (&[], &entries)] {
            let mut one = arbiters(high, low, HighLimit(3));
            assert_eq!(lanes(&mut one, 9, 128, |_| 0b111), [0, 0, 0, 0, 2, 2, 1, 0, 0]);
        }
        // The last packet of a turn may exceed the weight: turns have 2, 1 and 1 packet of 300 bytes.
        let mut one = arbiters(&entries, &[], HighLimit(3));
        assert_eq!(lanes(&mut one, 8, 300, |_| 0b111), [0, 0, 2, 1, 0, 0, 2, 1]);
    }

    /// A lane that cannot send loses the rest of its turn.
    #[test]
    fn a_turn_ends_when_another_lane_sends() {
        let mut one = arbiters(&[], &[(0, 8), (1, 4)], HighLimit(0));
        let waiting = |at: usize| if at == 1 { 0b10 } else { 0b11 };
        assert_eq!(lanes(&mut one, 8, 128, waiting), [0, 1, 1, 0, 0, 0, 0, 1]);
        // If no other lane has packets, the lane takes one turn after another.
        assert_eq!(lanes(&mut one, 5, 128, |_| 0b10), [1; 5]);
    }

    #[test]
    fn high_priority_sends_as_many_bytes_as_its_limit() {
        for (limit, packets) in [(0, 1), (1, 4), (2, 8)] {
            let mut one = arbiters(&[(1, 255)], &[(0, 1)], HighLimit(limit));
            let round: Vec<u8> = std::iter::repeat_n(1, packets).chain([0]).collect();
            assert_eq!(lanes(&mut one, 3 * round.len(), 1_024, |_| 0b11), round.repeat(3));
        }
        let mut one = arbiters(&[(1, 1)], &[(0, 1)], HighLimit::UNLIMITED);
        assert_eq!(lanes(&mut one, 100, 4_096, |_| 0b11), [1; 100]);
        assert_eq!(lanes(&mut one, 2, 64, |_| 0b01), [0; 2]);
    }

    /// If the low table has no packet when it has an opportunity, the limit starts again.
    #[test]
    fn an_opportunity_without_packets_restores_the_limit() {
        let mut one = arbiters(&[(1, 255)], &[(0, 1)], HighLimit(1));
        let waiting = |at: usize| if at < 5 { 0b10 } else { 0b11 };
        // The fifth packet uses the opportunity of lane 0, and three others use the rest of the new limit.
        assert_eq!(lanes(&mut one, 10, 1_024, waiting), [1, 1, 1, 1, 1, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn a_lane_of_both_tables_uses_the_table_that_precedes() {
        let mut one = arbiters(&[(0, 1), (1, 1)], &[(0, 2), (2, 2)], HighLimit(1));
        let sent = lanes(&mut one, 10, 1_024, |_| 0b111);
        assert_eq!(sent, [0, 1, 0, 1, 0, 0, 1, 0, 1, 2]);
    }

    #[test]
    fn limits_have_units_of_four_kibibytes() {
        for (text, units) in [("0 B", 0), ("4 KiB", 1), ("1016 KiB", 254), ("unlimited", 255)] {
            let limit: HighLimit = text.parse().unwrap();
            assert_eq!((limit, limit.to_string()), (HighLimit(units), text.to_owned()));
        }
        for text in ["", "1 B", "6 KiB", "1020 KiB", "1 GB", "4", "Unlimited"] {
            assert_eq!(text.parse::<HighLimit>(), Err(NotALimit(text.to_owned())));
        }
    }
}
