//! The state of one output of a VOQ switch. With one virtual lane, it occupies two cache lines, which contain all
//! output state that a packet hop uses: the lane, and the packets at the heads of up to four queues.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use crate::packet::{Packet, PacketId};
use crate::switch_marking::JudgedPacket;

/// Number of queue heads that an [`Output`] stores by value.
const HELD: usize = 4;

/// The key of a free place.
const FREE: u8 = 0xff;

/// The fields of a packet that a packet hop uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Saved)]
pub(crate) struct Head {
    pub packet: PacketId,
    /// The destination host, combined with [`CONTROL`] for a control packet.
    pub to: u32,
    /// Bytes on the wire.
    pub size: u32,
    /// Bytes in a buffer.
    pub space: u32,
}

/// Flag in [`Head::to`] for control packets.
const CONTROL: u32 = 1 << 31;

impl Head {
    #[inline(always)]
    pub fn of(id: PacketId, packet: &Packet) -> Self {
        let flag = if packet.is_data() { 0 } else { CONTROL };
        Self { packet: id, to: packet.dst | flag, size: packet.size, space: packet.space }
    }

    /// The packet, as the marking rule judges it.
    #[inline(always)]
    pub fn judged(&self) -> JudgedPacket {
        JudgedPacket { id: self.packet, size: self.size, is_data: self.is_data() }
    }

    #[inline(always)]
    pub fn dst(&self) -> u32 {
        self.to & !CONTROL
    }

    #[inline(always)]
    pub fn is_data(&self) -> bool {
        self.to & CONTROL == 0
    }
}

/// A [`Head`] as stored in an output. Outputs do not store heads if packets can exceed 65,535 bytes.
#[derive(Debug, Clone, Copy, Default, Saved)]
#[repr(C)]
struct HeldHead {
    packet: PacketId,
    to: u32,
    size: u16,
    space: u16,
}

/// One virtual lane of an output, with its queues, its turn, and its credit.
#[derive(Debug, Clone, Copy, Default, Saved)]
#[repr(C)]
pub(crate) struct OutputLane {
    /// Inputs 0 to 63 that have packets for the lane, one bit each. If all inputs share a queue, its first packet
    /// ([`Self::front`]).
    pub requests: u64,
    /// The inputs in `requests` with packets that are not stored heads. If all inputs share a queue, the sizes of its first
    /// packet.
    pub more: u64,
    /// Bytes in all queues of the lane.
    pub sum: u32,
    /// Available credit in bytes; used only by the binned scheduler.
    pub available: u32,
    /// Buffer space that the next packet needs and for which there is no credit; zero if there is credit. Until credit
    /// returns, packets that need at least as much space cannot be sent either.
    pub blocked: u32,
    /// The input to serve next, if it has a packet. Unused if all inputs share a queue.
    pub turn: u8,
    /// Whether the marking rule needs every change of the queues.
    pub above: bool,
    /// Whether a packet has waited for credit since the last packet was sent; used only by the binned scheduler.
    pub short: bool,
    /// Whether a pause frame has stopped the lane; used only by the binned scheduler.
    pub paused: bool,
}

/// Maximum number of hosts, whose numbers occupy the lower bits of [`Head::to`].
pub(crate) const MOST_HOSTS: u32 = 1 << 20;
/// Maximum number of inputs of a switch whose inputs share queues. The number of an input fits between that of the host and
/// [`CONTROL`].
pub(crate) const MOST_INPUTS: u32 = CONTROL / MOST_HOSTS;

impl OutputLane {
    /// The first packet of the queue that all inputs share, with its input; `None` if the queue is empty.
    #[inline(always)]
    pub fn front(&self) -> Option<QueuedPacket> {
        let Self { requests, more, .. } = *self;
        let (upper, space) = ((requests >> 32) as u32, (more >> 32) as u32);
        let (to, input) = (upper & !Self::INPUTS, (upper & Self::INPUTS) / MOST_HOSTS);
        let head = Head { packet: requests as u32, to, size: more as u32, space };
        (head.size > 0).then_some(QueuedPacket { head, input: input as u16 })
    }

    /// Sets the first packet of the queue that all inputs share.
    #[inline(always)]
    pub fn set_front(&mut self, first: Option<QueuedPacket>) {
        let QueuedPacket { head, input } = first.unwrap_or_default();
        debug_assert!(first.is_none_or(|_| head.size > 0), "a packet has a size");
        debug_assert!(u32::from(input) < MOST_INPUTS && head.dst() < MOST_HOSTS, "both numbers fit");
        let upper = head.to + u32::from(input) * MOST_HOSTS;
        self.requests = u64::from(upper) << 32 | u64::from(head.packet);
        self.more = u64::from(head.space) << 32 | u64::from(head.size);
    }

    const INPUTS: u32 = CONTROL - MOST_HOSTS;
}

/// A waiting packet, and the input whose memory it occupies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Saved)]
pub(crate) struct QueuedPacket {
    pub head: Head,
    pub input: u16,
}

/// One output of a VOQ switch with `L` virtual lanes. `X` is the data that its scheduler stores with it.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(C, align(64))]
pub(crate) struct Output<const L: usize, X> {
    /// The time at which the last bit of the previous packet is on the wire; used only by the binned scheduler.
    #[saved(past)]
    pub free_at: Time,
    /// The input and the lane of each stored head, one byte each.
    keys: u32,
    /// Virtual lanes that have packets, one bit each.
    pub waiting: u16,
    /// The virtual lane to serve next, if it has a packet.
    pub turn: u8,
    /// Port number at its switch, from 0; used only by the binned scheduler.
    pub number: u8,
    pub own: X,
    pub lanes: [OutputLane; L],
    heads: [HeldHead; HELD],
}

// Two cache lines with the data of a scheduler in half a line; another lane takes one more line, with padding.
const _: () = assert!(size_of::<OutputLane>() == 32 && size_of::<HeldHead>() == 12);
const _: () = assert!(size_of::<Output<1, [u64; 4]>>() == 128 && size_of::<Output<2, [u64; 4]>>() == 192);

/// Index of the first of four bytes that equals `key`, or 4.
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

impl<const L: usize, X> Output<L, X> {
    pub fn new(number: u8, own: X) -> Self {
        Self {
            free_at: Time::ZERO,
            keys: u32::MAX,
            waiting: 0,
            turn: 0,
            number,
            own,
            lanes: [OutputLane::default(); L],
            heads: [HeldHead::default(); HELD],
        }
    }

    /// The position of the head of an input's queue, if the head is stored here.
    #[inline(always)]
    pub fn find(&self, vl: usize, input: usize) -> Option<usize> {
        let place = find(self.keys, key(vl, input));
        (place < HELD).then_some(place)
    }

    #[inline(always)]
    pub fn head(&self, place: usize) -> Head {
        let HeldHead { packet, to, size, space } = self.heads[place % HELD];
        Head { packet, to, size: size.into(), space: space.into() }
    }

    /// Replaces a head that has left with the next packet of its queue.
    #[inline(always)]
    pub fn replace(&mut self, place: usize, head: Head) {
        let Head { packet, to, size, space } = head;
        self.heads[place % HELD] = HeldHead { packet, to, size: size as u16, space: space as u16 };
    }

    /// Stores the head of an input's queue. Returns false if all positions are in use.
    #[inline(always)]
    pub fn hold(&mut self, vl: usize, input: usize, head: Head) -> bool {
        let place = find(self.keys, FREE);
        if place == HELD {
            return false;
        }
        self.replace(place, head);
        self.keys ^= u32::from(FREE ^ key(vl, input)) << (8 * place);
        true
    }

    /// Frees the position of a head whose departure left its queue empty.
    #[inline(always)]
    pub fn free(&mut self, place: usize) {
        self.keys |= u32::from(FREE) << (8 * place);
    }

    /// Moves the turn to the lane after `vl`.
    #[inline(always)]
    pub fn served(&mut self, vl: usize, lanes: usize) {
        self.turn = Vl::new(vl).after(lanes).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_stores_the_first_packet_of_its_queue() {
        let mut lane = OutputLane::default();
        assert_eq!(lane.front(), None);
        let head = Head { packet: u32::MAX, to: 0, size: 70_000, space: 70_016 };
        let last = MOST_INPUTS as u16 - 1;
        for (input, to) in [(last, 3), (0, CONTROL | 3), (255, CONTROL | (MOST_HOSTS - 1)), (256, 0)] {
            let first = QueuedPacket { head: Head { to, ..head }, input };
            lane.set_front(Some(first));
            assert_eq!(lane.front(), Some(first));
        }
        lane.set_front(None);
        assert_eq!(lane.front(), None);
    }

    #[test]
    fn heads_are_found_by_input_and_lane() {
        let mut output = Output::<2, ()>::new(0, ());
        let head = |packet| Head { packet, ..Head::default() };
        assert_eq!(output.find(0, 5), None);
        for (packet, (vl, input)) in [(0, 0), (1, 0), (1, 62), (0, 7)].into_iter().enumerate() {
            assert!(output.hold(vl, input, head(packet as u32)));
        }
        assert!(!output.hold(0, 9, head(9)), "all four places are taken");
        assert_eq!(
            [(0, 0), (1, 0), (1, 62), (0, 7)].map(|(vl, i)| output.head(output.find(vl, i).unwrap()).packet),
            [0, 1, 2, 3]
        );
        assert_eq!((output.find(0, 62), output.find(1, 7)), (None, None));
        output.free(output.find(1, 0).unwrap());
        assert_eq!(output.find(1, 0), None);
        assert!(output.hold(0, 9, head(9)));
        assert_eq!(output.head(output.find(0, 9).unwrap()).packet, 9);
    }
}
