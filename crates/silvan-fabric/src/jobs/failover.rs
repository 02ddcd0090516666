//! Ports that fail. Messages that are posted afterwards use other ports of their hosts. With
//! [`JobPorts::failover`](silvan_network::traffic::JobPorts::failover), those under way move there, too: their senders know
//! which packets have arrived, as if receivers acknowledged them over another port, and send the others again.

use std::cmp::Reverse;

use silvan_engine::Time;
use silvan_trace::execute::Parcel;

use super::application::Instant;
use super::running::{PiecesLeft, PostedPiece, Running, has_bytes};
use crate::message::Travel;
use crate::packet::FlowAddress;

/// A piece that moves.
#[derive(Debug, Clone, Copy)]
struct MovedPiece {
    travel: Travel,
    /// Payload that has not arrived.
    bytes: u64,
    /// Whether the last packet has arrived, so that the rest of the piece arrives where it was sent to.
    has_ended: bool,
    /// Whether a part of the piece has not been sent.
    is_leaving: bool,
}

/// The packets of a flow that have not arrived.
struct Missing<'a> {
    /// The number of the next packet.
    next: u64,
    /// The numbers of packets that have been sent, in ascending order.
    sent: &'a [u64],
    mtu: u64,
}

impl Missing<'_> {
    /// The payload of a piece that has not arrived, if the piece has `bytes` and its first packet has a number. Also returns
    /// whether its last packet has arrived.
    fn of_piece(&self, first: u64, bytes: u64) -> (u64, bool) {
        let end = first + bytes.div_ceil(self.mtu);
        let size = |number: u64| self.mtu.min(bytes - (number - first) * self.mtu);
        let from = self.sent.partition_point(|&number| number < first);
        let to = self.sent.partition_point(|&number| number < end);
        let lost = &self.sent[from..to];
        let unsent = self.next.max(first);
        let rest = if unsent < end { bytes - (unsent - first) * self.mtu } else { 0 };
        let has_ended = end <= self.next && lost.last() != Some(&(end - 1));
        (lost.iter().map(|&number| size(number)).sum::<u64>() + rest, has_ended)
    }
}

impl PiecesLeft {
    /// Counts `count` other pieces instead of what has not arrived of a piece.
    fn replace(&mut self, piece: &MovedPiece, count: u32) {
        // Once the whole parcel has left, its rank does not wait for this any more.
        if self.leaving > 0 {
            self.leaving = self.leaving - u32::from(piece.is_leaving) + count;
        }
        self.coming = self.coming - u32::from(!piece.has_ended) + count;
    }
}

impl Running {
    /// Moves the messages that use a port, and have not arrived, to other ports of their hosts. Messages between hosts without
    /// another pair of ports stay.
    pub fn fail_over(&mut self, port: u32, at: &mut Instant) {
        let is_concerned = |flow: &FlowAddress| flow.host == port || flow.destination == port;
        let coming = self.coming.iter().filter(|(flow, list)| is_concerned(flow) && !list.is_empty());
        let mut flows: Vec<FlowAddress> = coming.map(|(&flow, _)| flow).collect();
        flows.sort_unstable_by_key(|flow| (flow.host, flow.source, flow.destination));
        let mut moved = Vec::new();
        for flow in flows {
            moved.extend(self.withdraw(flow, at));
        }
        let setup = &self.setup;
        let can_move = |posted: &PostedPiece| {
            is_concerned(&posted.flow) && setup.can_move(&posted.travel.parcel, at.failed)
        };
        for host in &mut self.hosts {
            let (waiting, rest): (Vec<PostedPiece>, Vec<PostedPiece>) =
                host.line.drain(..).partition(can_move);
            host.line.extend(rest);
            let piece = |PostedPiece { travel, .. }| {
                let bytes = travel.bytes;
                MovedPiece { travel, bytes, has_ended: false, is_leaving: true }
            };
            moved.extend(waiting.into_iter().map(piece));
        }
        let mut sprayed: Vec<Travel> = Vec::new();
        for piece in moved {
            let parcel = piece.travel.parcel;
            if !self.setup.sprays() || !has_bytes(&parcel) || parcel.bytes == 0 {
                self.post_again(piece, at);
                continue;
            }
            self.put_back(piece);
            if sprayed.iter().all(|travel| travel.parcel != parcel) {
                sprayed.push(piece.travel);
            }
        }
        for travel in sprayed {
            self.spray_again(travel, at);
        }
    }

    /// Adds a packet that moves to the rest of its message, from which all ports take packets.
    fn put_back(&mut self, piece: MovedPiece) {
        let chunk = self.setup.ports.as_ref().map_or(1, |ports| ports.chunk);
        self.moved_bytes += piece.bytes;
        let joined = self.joined(&piece);
        let before = joined.rest.div_ceil(chunk);
        joined.rest += piece.bytes;
        let more = joined.rest.div_ceil(chunk) - before;
        joined.replace(&piece, more as u32);
    }

    /// Has the ports that are left begin to send the rest of a message.
    fn spray_again(&mut self, travel: Travel, at: &mut Instant) {
        let Some(joined) = self.joined.get_mut(&travel.parcel) else { return };
        let rest = Parcel { bytes: joined.rest, ..travel.parcel };
        let pieces = self.setup.first_packets(&rest, at.failed);
        joined.rest -= pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
        self.post_all(travel, pieces, at);
    }

    /// Posts a piece to the ports that are left.
    fn post_again(&mut self, piece: MovedPiece, at: &mut Instant) {
        let parcel = piece.travel.parcel;
        let bytes = if has_bytes(&parcel) && parcel.bytes > 0 { piece.bytes } else { 0 };
        self.moved_bytes += bytes;
        let pieces = self.setup.pieces(&Parcel { bytes, ..parcel }, at.failed);
        let pieces = self.on_queue_pairs(&parcel, pieces);
        self.joined(&piece).replace(&piece, pieces.len() as u32);
        self.post_all(piece.travel, pieces, at);
    }

    /// The pieces of the parcel of a piece.
    fn joined(&mut self, piece: &MovedPiece) -> &mut PiecesLeft {
        let alone = PiecesLeft { leaving: piece.is_leaving.into(), coming: 1, rest: 0, left: Time::ZERO };
        self.joined.entry(piece.travel.parcel).or_insert(alone)
    }

    fn post_all(&mut self, travel: Travel, pieces: Vec<(FlowAddress, u64)>, at: &mut Instant) {
        for (flow, bytes) in pieces {
            let travel =
                Travel { pieces: travel.pieces.max(2), bytes: bytes.max(self.setup.least), ..travel };
            self.post(at.ctx, at.hosts, PostedPiece { flow, travel }, at.number);
        }
    }

    /// Takes the pieces of a flow that have not arrived back from its host, if they can use other ports. Returns them.
    fn withdraw(&mut self, flow: FlowAddress, at: &mut Instant) -> Vec<MovedPiece> {
        let Instant { ctx, hosts, failed, .. } = at;
        let Some(mut travels) = self.coming.remove(&flow) else { return Vec::new() };
        if !travels.front().is_some_and(|travel| self.setup.can_move(&travel.parcel, failed)) {
            self.coming.insert(flow, travels);
            return Vec::new();
        }
        let mtu = self.setup.ideal.mtu;
        let (next, unsent) = hosts[flow.host as usize].next_packets(flow);
        let sent = hosts[flow.destination as usize].not_arrived(flow, next);
        let missing = Missing { next, sent: &sent, mtu };
        // The pieces that have not left are the last ones.
        let leaving = self.leaving.remove(&flow).unwrap_or_default();
        if leaving.iter().any(|travel| self.is_sequential(&travel.parcel)) {
            self.ends.push(Reverse((ctx.now, flow.host)));
        }
        let left = travels.len().saturating_sub(leaving.len());
        let mut end = next + unsent;
        let (mut moved, mut stays) = (Vec::new(), vec![true; travels.len()]);
        for (place, travel) in travels.iter_mut().enumerate().rev() {
            let Some(first) = end.checked_sub(travel.bytes.div_ceil(mtu)) else {
                ctx.report_broken(format!("host {} has sent fewer packets than were posted", flow.host));
                break;
            };
            let (bytes, has_ended) = missing.of_piece(first, travel.bytes);
            if bytes > 0 {
                travel.pieces = travel.pieces.max(2);
                stays[place] = has_ended;
                moved.push(MovedPiece { travel: *travel, bytes, has_ended, is_leaving: place >= left });
            }
            end = first;
        }
        moved.reverse();
        let mut stays = stays.into_iter();
        travels.retain(|_| stays.next() == Some(true));
        if !travels.is_empty() {
            self.coming.insert(flow, travels);
        }
        let total = moved.iter().map(|piece| piece.bytes).sum();
        hosts[flow.host as usize].withdraw(ctx, flow, total);
        hosts[flow.destination as usize].give_up(ctx, flow, next, &sent);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_payload_of_pieces_follows_from_the_numbers_of_their_packets() {
        // Packets 3, 5 and 7 have not arrived; 8 and later ones have not been sent.
        let missing = Missing { next: 8, sent: &[3, 5, 7], mtu: 100 };
        assert_eq!(missing.of_piece(0, 300), (0, true));
        assert_eq!(missing.of_piece(2, 250), (100, true), "packets 2 to 4");
        assert_eq!(missing.of_piece(4, 150), (50, false), "the last packet is short");
        assert_eq!(missing.of_piece(5, 1_010), (100 + 100 + 710, false), "packets 5, 7, and 8 to 15");
        assert_eq!(missing.of_piece(9, 20), (20, false));
    }
}
