//! Equal-cost multipath (ECMP): a switch hashes the fields that identify a flow, and the entropy value of the packet,
//! onto the ports that lead to the destination by the fewest hops. Packets with equal fields take one route. Instead, the
//! entropy value can be a source route ([`Selection::SourceRoute`]).
//!
//! Each switch has a salt from its own random stream. Without salts, the switches of one level would divide flows in
//! the same way as those of the level below, and some ports could remain unused (polarization).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;

use super::adaptive::mixed;
use super::path_bits::PathBits;
use super::port_groups::Choices;

/// How switches select ports with entropy values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Switches hash the entropy value together with the fields of the flow.
    #[default]
    Hash,
    /// The entropy value is a source route: its digits are the positions of the ports at switches of hosts, at the switches
    /// above them, and so on.
    SourceRoute,
}

/// The hash function of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash {
    kind: HashKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HashKind {
    /// A hash of the fields with a salt.
    Fields { salt: u32 },
    /// The entropy value is the number of one of the LIDs of the destination, of which there are this many.
    Lid { lids: u16 },
    /// The entropy value is a source route. The place value is that of the digit that selects the port.
    Digit { place_value: u16 },
}

/// The fields of a packet that are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedFields {
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// The source (traffic generator) in the sending host, which corresponds to a queue pair or a UDP port.
    pub connection: u16,
    /// The entropy value that the sending host selected; 0 if packets have none.
    pub entropy: u16,
}

impl Hash {
    /// The hash function of a switch in a run with this seed.
    #[must_use]
    pub fn new(seed: u64, switch: u64) -> Self {
        Self { kind: HashKind::Fields { salt: Stream::new(seed, "ecmp", switch).next_u32() } }
    }

    /// The selection of ports by source routes. `place_value` is that of the switch; see
    /// [`PortGroups::place_values`](super::port_groups::PortGroups::place_values).
    #[must_use]
    pub fn of_source_routes(place_value: u16) -> Self {
        Self { kind: HashKind::Digit { place_value } }
    }

    /// The hash function of all switches if the ports of a destination are listed in the order of its `lids`
    /// path bits. With [`PathBits::PerPacket`], the entropy value selects the port directly.
    #[must_use]
    pub fn of_lids(path_bits: PathBits, lids: usize) -> Self {
        let kind = match path_bits {
            PathBits::PerPacket => HashKind::Lid { lids: lids as u16 },
            PathBits::Zero | PathBits::PerFlow => HashKind::Fields { salt: 0 },
        };
        Self { kind }
    }

    /// The number of LIDs of a host, if entropy values select one of them.
    #[must_use]
    pub fn lids(self) -> Option<u16> {
        match self.kind {
            HashKind::Lid { lids } => Some(lids),
            HashKind::Fields { .. } | HashKind::Digit { .. } => None,
        }
    }

    /// The port (from 1) of a packet; `None` without a route.
    #[inline]
    #[must_use]
    pub fn port(self, choices: &Choices, fields: &HashedFields) -> Option<u16> {
        match choices.ports(fields.destination as usize) {
            [] => None,
            [port] => Some(*port),
            ports => ports.get(self.index(fields, ports.len())).copied(),
        }
    }

    /// The index of a packet's port among `ports` ports.
    #[inline]
    #[must_use]
    pub fn index(self, fields: &HashedFields, ports: usize) -> usize {
        (self.of(fields) % ports.max(1) as u64) as usize
    }

    #[inline]
    fn of(self, fields: &HashedFields) -> u64 {
        let HashedFields { source, destination, connection, entropy } = *fields;
        match self.kind {
            HashKind::Fields { salt } => {
                mixed([salt, source, destination, u32::from(entropy) << 16 | u32::from(connection)])
            }
            HashKind::Lid { .. } => entropy.into(),
            HashKind::Digit { place_value } => u64::from(entropy / place_value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: HashedFields = HashedFields { source: 3, destination: 8, connection: 1, entropy: 0 };

    #[test]
    fn every_field_and_the_salt_change_the_hash() {
        let hash = Hash::new(1, 0);
        let others = [
            HashedFields { source: 4, ..FIELDS },
            HashedFields { destination: 9, ..FIELDS },
            HashedFields { connection: 2, ..FIELDS },
            HashedFields { entropy: 1, ..FIELDS },
        ];
        assert!(others.iter().all(|other| hash.of(other) != hash.of(&FIELDS)));
        assert_ne!(Hash::new(1, 1).of(&FIELDS), hash.of(&FIELDS));
        assert_ne!(Hash::new(2, 0).of(&FIELDS), hash.of(&FIELDS));
        assert_eq!(Hash::new(1, 0).of(&FIELDS), hash.of(&FIELDS));
    }

    #[test]
    fn flows_and_entropy_values_are_spread_evenly() {
        let hash = Hash::new(7, 5);
        for vary in [
            |value| HashedFields { source: value, ..FIELDS },
            |value| HashedFields { entropy: value as u16, ..FIELDS },
        ] {
            let mut counts = [0_u32; 6];
            (0..60_000).for_each(|value| counts[(hash.of(&vary(value)) % 6) as usize] += 1);
            // Six standard deviations of a binomial distribution with 60,000 draws.
            assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 550), "{counts:?}");
        }
    }

    #[test]
    fn the_digits_of_source_routes_are_the_positions_of_ports() {
        // Three ports at the switches of hosts, and two at those above.
        let (low, high) = (Hash::of_source_routes(1), Hash::of_source_routes(3));
        let index = |hash: Hash, entropy, ports| hash.index(&HashedFields { entropy, ..FIELDS }, ports);
        let routes: Vec<_> =
            (0..6).map(|entropy| (index(low, entropy, 3), index(high, entropy, 2))).collect();
        assert_eq!(routes, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn switches_divide_flows_independently() {
        // One switch sends some flows through the first of its four ports. Another switch sends a quarter of these
        // flows through each of its own four ports.
        let (low, high) = (Hash::new(1, 10), Hash::new(1, 11));
        let mut counts = [0_u32; 4];
        for source in 0..40_000 {
            let fields = HashedFields { source, ..FIELDS };
            if low.of(&fields) % 4 == 0 {
                counts[(high.of(&fields) % 4) as usize] += 1;
            }
        }
        assert!(counts.iter().all(|&count| count.abs_diff(2_500) < 300), "{counts:?}");
    }
}
