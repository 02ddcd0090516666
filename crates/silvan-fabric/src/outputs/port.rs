//! One output of a switch: all that a hop touches of it, in two cache lines with one virtual lane.

use silvan_engine::Time;

use crate::packet::{Packet, PacketId};

/// Packets at the heads of queues that a [`Port`] holds by value.
const HEADS: usize = 4;
/// Inputs of a switch at most, so that an input and a virtual lane fit a byte and none of these is [`FREE`].
pub(super) const MAX_INPUTS: usize = 64;
/// Virtual lanes at most.
pub(super) const MAX_LANES: usize = 2;
/// No head here.
const FREE: u8 = 0xff;
/// Not planned.
pub(super) const UNPLANNED: u16 = u16::MAX;

/// What a hop needs of the packet at the head of a queue.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Head {
    pub packet: PacketId,
    pub dst: u32,
    /// Bytes on the wire, and in a buffer.
    pub size: u16,
    pub space: u16,
}

impl Head {
    pub fn of(id: PacketId, packet: &Packet) -> Self {
        Self { packet: id, dst: packet.dst, size: packet.size as u16, space: packet.space as u16 }
    }
}

/// What arrives at an output in a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Company {
    /// One packet.
    Alone,
    /// Packets whose order does not matter, all at one time.
    Together,
    /// Packets whose order matters.
    Several,
}

/// One virtual lane of an output: what waits for it, whose turn it is, and the credit it has.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct OutputLane {
    /// Inputs with packets for it, one bit each.
    pub requests: u64,
    /// Those of them with more packets than the one in [`Port::heads`].
    pub more: u64,
    /// Bytes in all queues for it.
    pub sum: u32,
    /// Credit in bytes; what returns and may be needed before it is back is in [`super::Bank::returns`].
    pub available: u32,
    /// The space for which the packet whose turn it is lacks credit; zero if none does.
    pub blocked: u32,
    /// The input to look at first.
    pub turn: u8,
    /// Whether the marking rule wants to hear of every change.
    pub above: bool,
    /// Whether a packet waits for credit since the last one was sent.
    pub short: bool,
}

/// See the module.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Port<const L: usize> {
    /// When the last bit of the packet before is on the wire.
    pub free_at: Time,
    /// When it may send next, as far as is known; never if nothing waits, or nothing that has credit.
    pub ready_at: Time,
    /// Bytes sent so far, on the wire.
    pub sent_bytes: u64,
    /// Of each of `heads` its input and lane, a byte each.
    keys: u32,
    /// At the far end: the first port of the switch, or the host's place in its partition.
    pub peer: u32,
    /// Where the far switch's forwarding table begins; [`TO_HOST`] if a host is at the far end, [`REMOTE`] if
    /// `peer` is a place in [`super::Bank::remotes`].
    pub row: u32,
    /// When the first packet of the last bin in which some did arrived: the lower bits.
    pub stamp: u32,
    /// The bin in whose list it is, as a place in the ring.
    pub planned: u16,
    /// How many packets arrive in that bin.
    pub company: Company,
    /// Which of [`super::Bank::kinds`] its link is.
    pub kind: u8,
    /// Virtual lanes with packets for it, one bit each.
    pub waiting: u8,
    /// The virtual lane to look at first.
    pub turn: u8,
    /// The input at the far end.
    pub input: u8,
    /// Its number at its own switch.
    pub number: u8,
    pub lanes: [OutputLane; L],
    heads: [Head; HEADS],
}

/// No forwarding table at the far end, but a host.
pub(super) const TO_HOST: u32 = u32::MAX;
/// No forwarding table known here.
pub(super) const REMOTE: u32 = u32::MAX - 1;

/// The first of four bytes that is `key`, or 4.
#[inline(always)]
fn find(keys: u32, key: u8) -> usize {
    const ONES: u32 = 0x0101_0101;
    let differs = keys ^ ONES.wrapping_mul(u32::from(key));
    ((differs.wrapping_sub(ONES) & !differs & (ONES << 7)).trailing_zeros() / 8) as usize
}

#[inline(always)]
fn key(vl: usize, input: usize) -> u8 {
    (vl << 6 | input) as u8
}

impl<const L: usize> Port<L> {
    pub fn new(number: u8) -> Self {
        Self {
            free_at: Time::ZERO,
            ready_at: Time::NEVER,
            sent_bytes: 0,
            keys: u32::MAX,
            peer: 0,
            row: TO_HOST,
            stamp: 0,
            planned: UNPLANNED,
            company: Company::Alone,
            kind: 0,
            waiting: 0,
            turn: 0,
            input: 0,
            number,
            lanes: [OutputLane::default(); L],
            heads: [Head::default(); HEADS],
        }
    }

    /// Where the head of an input's queue is held, if it is.
    #[inline(always)]
    pub fn find(&self, vl: usize, input: usize) -> Option<usize> {
        let place = find(self.keys, key(vl, input));
        (place < HEADS).then_some(place)
    }

    #[inline(always)]
    pub fn head(&self, place: usize) -> Head {
        self.heads[place % HEADS]
    }

    /// Puts another head in the place of one that has left.
    #[inline(always)]
    pub fn replace(&mut self, place: usize, head: Head) {
        self.heads[place % HEADS] = head;
    }

    /// Holds the head of an input's queue, if there is room.
    #[inline(always)]
    pub fn hold(&mut self, vl: usize, input: usize, head: Head) -> bool {
        let place = find(self.keys, FREE);
        if place == HEADS {
            return false;
        }
        self.heads[place % HEADS] = head;
        self.keys ^= u32::from(FREE ^ key(vl, input)) << (8 * place);
        true
    }

    /// Frees the place of a head that has left and has none after it.
    #[inline(always)]
    pub fn free(&mut self, place: usize) {
        self.keys |= u32::from(FREE) << (8 * place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_two_cache_lines() {
        assert_eq!((size_of::<Port<1>>(), size_of::<OutputLane>(), size_of::<Head>()), (128, 32, 12));
        assert_eq!(size_of::<Port<2>>(), 192);
    }

    #[test]
    fn heads_are_found_by_input_and_lane() {
        let mut port = Port::<2>::new(0);
        let head = |packet| Head { packet, ..Head::default() };
        assert_eq!(port.find(0, 5), None);
        for (packet, (vl, input)) in [(0, 0), (1, 0), (1, 62), (0, 7)].into_iter().enumerate() {
            assert!(port.hold(vl, input, head(packet as u32)));
        }
        assert!(!port.hold(0, 9, head(9)), "four are held");
        assert_eq!(
            [(0, 0), (1, 0), (1, 62), (0, 7)].map(|(vl, i)| port.head(port.find(vl, i).unwrap()).packet),
            [0, 1, 2, 3]
        );
        assert_eq!((port.find(0, 62), port.find(1, 7)), (None, None));
        port.free(port.find(1, 0).unwrap());
        assert_eq!(port.find(1, 0), None);
        assert!(port.hold(0, 9, head(9)));
        assert_eq!(port.head(port.find(0, 9).unwrap()).packet, 9);
    }
}
