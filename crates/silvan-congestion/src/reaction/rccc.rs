//! Ultra Ethernet's receiver-credit congestion control, RCCC: a flow sends while it has credit, which the
//! receiver grants at the rate of the receiver's link. The implementation follows the consortium's simulator
//! (uet-htsim, `uec.cpp`, 2025).
//!
//! ```text
//!  a packet is sent      only if credit > 0; credit -= its bytes
//!                        its target = granted + min(bytes that wait, limit [, NSCC's window + a packet]) - credit
//!  a grant up to g       credit = min(credit + g - granted, limit); granted = g
//! ```
//!
//! A flow starts with speculative credit. The first grant or acknowledgement removes what is left of this
//! credit. Each data packet carries the target of its flow: the total that the receiver should have granted
//! since the flow began. A flow that gets a message while it has no credit and nothing to send requests
//! credit with a control packet instead. While the credit is speculative, the target is at least a packet
//! ahead.
//!
//! With packet trimming, the bytes of a lost packet wait again, and the first negative acknowledgement also
//! removes what is left of the speculative credit. If the flow then has no credit and no request is pending,
//! it requests credit.
//!
//! With `nscc`, a flow also has NSCC's window, and sends only what both allow.
//!
//! Grants and targets are in quanta of 256 bytes on the wire, modulo 2^32. The receiver is
//! [`crate::receiver::Notification::AckGrant`], and [`Pacing`] contains its parameters. With
//! `divide_requests`, a host divides the request of a data packet by the number of its flows that may send;
//! the consortium's simulator always does so. With `oversubscribed`, receivers grant less while many packets
//! are marked; the simulator does so in oversubscribed networks without NSCC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Time};

use super::nscc::{Nscc, NsccLevel, NsccRule, NsccState};
use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Grant, Lost, Next, Queued, Sent};
use crate::receiver::{Oversubscribed, Pacing, QUANTUM};
use crate::unfit::{Check, Limits, Unfit, ensure, ensure_time};

/// Parameters of receiver credits; the defaults are those of the consortium's simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rccc {
    /// Round trip without load, from which the largest credit is derived; by default that of the longest route between hosts
    /// that communicate.
    pub round_trip: Option<Time>,
    /// The most credit that a flow can have; by default 1.5 times the bytes of a round trip. At least a full packet, rounded up
    /// to whole quanta of 256 bytes.
    pub limit: Option<Bytes>,
    /// Credit that a flow has before the first grant; by default the most that it can have. With `"0 B"`, a
    /// flow waits for its first grant.
    pub speculative: Option<Bytes>,
    /// The rate at which a receiver grants, in percent of the rate of its link.
    #[schemars(range(min = 1, max = 100))]
    pub grant_percent: u8,
    /// The most that a receiver grants to a flow in a turn, in payloads of full packets.
    #[schemars(range(min = 1, max = 64))]
    pub grant_packets: u8,
    /// Whether a receiver also grants credit, up to the largest credit, to flows without a request while no
    /// flow has a request.
    pub idle_credit: bool,
    /// Whether a host divides the credit that a data packet requests by the number of the host's flows that may send
    /// when the packet leaves. Needs `idle_credit`, because the requested part may not suffice for a packet.
    pub divide_requests: bool,
    /// Lower rates of grants while many packets are marked, for oversubscribed networks.
    pub oversubscribed: Option<Oversubscribed>,
    /// Parameters of NSCC, if a flow also has the window of NSCC.
    pub nscc: Option<Nscc>,
}

impl Default for Rccc {
    fn default() -> Self {
        Self {
            round_trip: None,
            limit: None,
            speculative: None,
            grant_percent: 99,
            grant_packets: 4,
            idle_credit: true,
            divide_requests: false,
            oversubscribed: None,
            nscc: None,
        }
    }
}

/// The most credit that can be given: 1 GiB.
const MOST: Bytes = Bytes(1 << 30);

impl ReactionParameters for Rccc {
    fn properties(&self) -> Properties {
        let is_given = self.limit.is_some() || self.round_trip.is_some();
        let is_timed =
            self.oversubscribed.as_ref().is_none_or(|rule| rule.interval.or(self.round_trip).is_some());
        let window_needs_it = self.nscc.as_ref().is_some_and(|nscc| nscc.properties().needs_round_trip);
        Properties {
            reads_marks: self.nscc.is_some() || self.oversubscribed.is_some(),
            link_layer: Some(LinkLayer::Ethernet),
            needs_round_trip: !is_given || !is_timed || window_needs_it,
            sends_requests: true,
            needs_grants: true,
            handles_loss: true,
            counts_bytes: true,
            concerns_all_hosts: true,
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, limits: &Limits) -> Check {
        ensure_time("round_trip", self.round_trip)?;
        ensure(self.limit.is_none_or(|limit| limit >= limits.full && limit <= MOST), "limit", || {
            format!("must be {} to {MOST}, at least a full packet", limits.full)
        })?;
        let most = self.limit.unwrap_or(MOST);
        ensure(self.speculative.is_none_or(|credit| credit <= most), "speculative", || match self.limit {
            Some(limit) => format!("must be at most `limit`, {limit}"),
            None => format!("must be at most {MOST}"),
        })?;
        ensure(self.idle_credit || !self.divide_requests, "divide_requests", || {
            "needs `idle_credit`: the part that a flow asks for may not suffice for a packet, and a flow that cannot send \
             cannot ask again"
                .to_owned()
        })?;
        let nested = |unfit: Unfit| Unfit { key: format!("oversubscribed.{}", unfit.key), ..unfit };
        self.oversubscribed.as_ref().map_or(Ok(()), Oversubscribed::check).map_err(nested)?;
        let is_of_flows = self.nscc.as_ref().is_none_or(|nscc| nscc.level == NsccLevel::Qp);
        ensure(is_of_flows, "nscc.level", || {
            "must be \"qp\", because credit belongs to queue pairs".to_owned()
        })?;
        let nested = |unfit: Unfit| Unfit { key: format!("nscc.{}", unfit.key), ..unfit };
        self.nscc.as_ref().map_or(Ok(()), |nscc| nscc.check(limits)).map_err(nested)
    }
}

impl Rccc {
    fn round_trip_of(&self, source: &Source) -> Time {
        self.round_trip.unwrap_or_else(|| source.shortest_round_trip())
    }

    fn limit_of(&self, source: &Source) -> u64 {
        let usual = source.rate.bytes_in(self.round_trip_of(source)) * 3 / 2;
        // Grants are whole quanta, so the credit must be at least the quanta of a full packet.
        let full = u64::from(source.full_size).next_multiple_of(u64::from(QUANTUM));
        self.limit.map_or(usual, |limit| limit.0).clamp(full, MOST.0)
    }

    /// How a host grants credit.
    pub(super) fn pacing(&self, source: &Source) -> Pacing {
        let limit = self.limit_of(source);
        Pacing {
            percent: self.grant_percent,
            turn: (source.mtu * u32::from(self.grant_packets) / QUANTUM).max(1),
            idle: if self.idle_credit { (limit / u64::from(QUANTUM)) as u32 } else { 0 },
            oversubscription: self
                .oversubscribed
                .as_ref()
                .map(|rule| rule.at(self.round_trip_of(source), (source.seed, source.host))),
        }
    }

    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<RcccRule> {
        let limit = self.limit_of(source) as i64;
        let nscc = match &self.nscc {
            None => None,
            Some(nscc) => Some(nscc.rule(source)?),
        };
        Some(RcccRule {
            limit,
            speculative: self.speculative.map_or(limit, |credit| credit.0 as i64).min(limit),
            full: i64::from(source.full_size),
            mtu: u64::from(source.mtu.max(1)),
            header: u64::from(source.header()),
            divides: self.divide_requests,
            nscc,
        })
    }
}

/// The rule of one host. Sizes are bytes on the wire, except for `mtu`.
#[derive(Debug, Clone, Copy)]
pub struct RcccRule {
    limit: i64,
    speculative: i64,
    full: i64,
    mtu: u64,
    header: u64,
    /// Whether targets are divided by the number of flows that may send.
    divides: bool,
    nscc: Option<NsccRule>,
}

/// The state of a flow at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct RcccState {
    /// Credit in bytes. May be negative, because any positive credit permits a whole packet.
    credit: i64,
    is_speculative: bool,
    /// Quanta that have been granted.
    granted: u64,
    /// Bytes of the flow that wait to be sent.
    waiting: i64,
    is_untouched: bool,
    /// Whether a packet has been sent.
    has_sent: bool,
    /// Whether the last packet or a request carried the target for the bytes that wait.
    has_asked: bool,
    nscc: Option<NsccState>,
}

impl RcccRule {
    /// The target of a flow with this credit and these bytes that wait, if `sharing` flows request credit.
    fn target(&self, state: &RcccState, (credit, waiting): (i64, i64), sharing: u32) -> u32 {
        let mut most = waiting.min(self.limit);
        if let (Some(rule), Some(nscc)) = (&self.nscc, &state.nscc) {
            most = most.min(rule.window(nscc) as i64 + self.full);
        }
        let mut wanted = most - credit;
        if state.is_speculative && waiting > 0 {
            wanted = wanted.max(self.full);
        }
        if self.divides {
            // Round up, so that a flow that requests a part of a quantum requests a whole one.
            let sharing = i64::from(sharing.max(1));
            wanted = wanted / sharing + i64::from(wanted % sharing > 0);
        }
        let quanta =
            wanted.div_euclid(i64::from(QUANTUM)) + i64::from(wanted.rem_euclid(i64::from(QUANTUM)) > 0);
        state.granted.saturating_add_signed(quanta) as u32
    }

    /// The target of a flow, to be requested with a control packet; at least 1.
    fn ask(&self, state: &mut RcccState) -> u32 {
        state.has_asked = true;
        self.target(state, (state.credit, state.waiting), 1).max(1)
    }
}

impl RcccState {
    /// Removes the rest of the speculative credit. Returns false if the flow had received a grant or an
    /// answer before.
    fn end_speculation(&mut self) -> bool {
        let was_speculative = std::mem::take(&mut self.is_speculative);
        if was_speculative {
            self.credit = self.credit.min(0);
        }
        was_speculative
    }
}

impl ReactionRule for RcccRule {
    type State = RcccState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, sl: u8) -> RcccState {
        RcccState {
            credit: self.speculative,
            is_speculative: true,
            granted: 0,
            waiting: 0,
            is_untouched: true,
            has_sent: false,
            has_asked: false,
            nscc: self.nscc.as_ref().map(|rule| rule.fresh(sl)),
        }
    }

    fn request(&self, state: &mut RcccState, queued: &Queued) -> u32 {
        let packets = queued.bytes.div_ceil(self.mtu).max(1);
        let had_some = state.waiting > 0;
        state.waiting += (queued.bytes + packets * self.header) as i64;
        // If there is credit, a data packet will carry the target. If other data waited, a target has been
        // sent.
        if state.credit > 0 || had_some {
            return 0;
        }
        state.is_untouched = false;
        self.ask(state)
    }

    fn has_targets(&self) -> bool {
        true
    }

    fn target(&self, state: &RcccState, next: &Next, sharing: u32) -> Option<u32> {
        let size = i64::from(next.size);
        Some(self.target(state, (state.credit - size, state.waiting - size), sharing))
    }

    fn sent(&self, state: &mut RcccState, sent: &Sent) {
        state.credit -= i64::from(sent.size);
        state.waiting -= i64::from(sent.size);
        state.is_untouched = false;
        state.has_sent = true;
        state.has_asked = state.waiting > 0;
        if let (Some(rule), Some(nscc)) = (&self.nscc, &mut state.nscc) {
            rule.sent(nscc, sent);
        }
    }

    fn granted(&self, state: &mut RcccState, grant: &Grant) {
        let more = grant.bytes.wrapping_sub(state.granted as u32) as i32;
        state.end_speculation();
        if more > 0 {
            state.granted += u64::from(more.unsigned_abs());
            state.credit = (state.credit + i64::from(more) * i64::from(QUANTUM)).min(self.limit);
        }
    }

    fn lost(&self, state: &mut RcccState, lost: &Lost) -> u32 {
        let (had_some, had_credit) = (state.waiting > 0, state.credit > 0);
        state.waiting += i64::from(lost.payload) + self.header as i64;
        state.end_speculation();
        if let (Some(rule), Some(nscc)) = (&self.nscc, &mut state.nscc) {
            rule.lose(nscc, lost, lost.at_last_hop);
        }
        // If there is credit, a data packet will carry the target. If other data waited for credit, their
        // target has been sent.
        if state.credit > 0 || had_some && !had_credit {
            return 0;
        }
        self.ask(state)
    }

    fn acknowledged(&self, state: &mut RcccState) -> u32 {
        if !state.end_speculation() {
            return 0;
        }
        // No request was sent for a message that was added while there was credit.
        if state.waiting > 0 && !state.has_asked { self.ask(state) } else { 0 }
    }

    fn arrived(&self, state: &mut RcccState, payload: u32) {
        if let (Some(rule), Some(nscc)) = (&self.nscc, &mut state.nscc) {
            rule.arrived(nscc, payload);
        }
    }

    fn missing_grant(&self, state: &RcccState) -> u32 {
        match state.waiting > 0 && state.credit <= 0 {
            true => self.target(state, (state.credit, state.waiting), 1).max(1),
            false => 0,
        }
    }

    fn answered(&self, state: &mut RcccState, sl: u8, answer: &Answer) {
        if let (Some(rule), Some(nscc)) = (&self.nscc, &mut state.nscc) {
            rule.answered(nscc, sl, answer);
        }
    }

    fn may_send_at(&self, state: &RcccState, sl: u8, next: &Next) -> Option<Time> {
        if state.credit <= 0 {
            return None;
        }
        match (&self.nscc, &state.nscc) {
            (Some(rule), Some(nscc)) => rule.may_send_at(nscc, sl, next),
            _ => Some(next.now),
        }
    }

    fn must_ask(&self, state: &RcccState, next: &Next) -> bool {
        let window_asks = match (&self.nscc, &state.nscc) {
            (Some(rule), Some(nscc)) => rule.must_ask(nscc, next),
            _ => false,
        };
        !state.has_sent || state.credit <= i64::from(next.size) || window_asks
    }

    fn is_fresh(&self, state: &RcccState, _sl: u8, _now: Time) -> bool {
        state.is_untouched && state.waiting == 0
    }

    /// Number of full packets for which credit is missing. With NSCC, at least the strength of NSCC's window.
    fn strength(&self, state: &RcccState, sl: u8, now: Time) -> u16 {
        let missing = (state.waiting.min(self.limit) - state.credit).max(0) / self.full.max(1);
        let closed = match (&self.nscc, &state.nscc) {
            (Some(rule), Some(nscc)) => rule.strength(nscc, sl, now),
            _ => 0,
        };
        closed.max(missing.min(i64::from(u16::MAX)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::super::SharedTables;
    use super::super::trial::{answer, next, sent};
    use super::*;
    use crate::facts::Mark;

    /// 100 Gbit/s, packets of 4,096 + 64 bytes.
    fn rule(given: &Rccc) -> RcccRule {
        let tables = SharedTables::default();
        let rate = Rate::from_gbit(100);
        let source = Source {
            host: 0,
            rate,
            full_size: 4_160,
            mtu: 4_096,
            round_trip: None,
            trims: false,
            seed: 1,
            tables: &tables,
        };
        given.rule(&source).expect("hosts have a rule")
    }

    fn given(limit: u64, speculative: u64) -> Rccc {
        let (limit, speculative) = (Some(Bytes(limit)), Some(Bytes(speculative)));
        Rccc { limit, speculative, ..Rccc::default() }
    }

    fn queued(bytes: u64) -> Queued {
        Queued { now: Time::ZERO, bytes }
    }

    #[test]
    fn the_first_acknowledgement_ends_speculation() {
        let rule = rule(&given(100_000, 50_000));
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(3 * 4_096));
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!((rule.acknowledged(&mut state), state.credit), (0, 0), "the packet has asked");
        assert_eq!(rule.may_send_at(&state, 0, &full()), None);
        // No request was sent for a message that began with credit, and the credit has been used up.
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(4_096));
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!(rule.request(&mut state, &queued(4_096)), 0);
        assert_eq!((rule.acknowledged(&mut state), rule.acknowledged(&mut state)), (17, 0), "4,160 bytes");
    }

    fn full() -> Next {
        Next { size: 4_160, payload: 4_096, ..next(0) }
    }

    fn grant(quanta: u32) -> Grant {
        Grant { now: Time(9), bytes: quanta }
    }

    #[test]
    fn a_round_trip_gives_one_and_a_half_times_its_bytes() {
        let rule = rule(&Rccc { round_trip: Some(Time::from_us(12)), ..Rccc::default() });
        assert_eq!((rule.limit, rule.speculative), (225_000, 225_000));
    }

    #[test]
    fn the_limit_has_room_for_the_quanta_of_a_full_packet() {
        let tables = SharedTables::default();
        for (full_size, limit) in [(60, 256), (256, 256), (257, 512), (4_160, 4_352)] {
            let rate = Rate::from_gbit(100);
            let given = Rccc { limit: Some(Bytes(u64::from(full_size))), ..Rccc::default() };
            let source = Source {
                host: 0,
                rate,
                full_size,
                mtu: full_size - 10,
                round_trip: None,
                trims: false,
                seed: 1,
                tables: &tables,
            };
            assert_eq!(given.rule(&source).map(|rule| rule.limit), Some(limit));
            assert_eq!(
                given.pacing(&source).idle,
                limit as u32 / QUANTUM,
                "idle credit suffices for a packet"
            );
        }
    }

    #[test]
    fn a_divided_request_asks_for_a_quantum_at_least() {
        let rule = rule(&Rccc { divide_requests: true, ..given(100_000, 0) });
        let state = RcccState { granted: 50, is_speculative: false, ..rule.fresh(0) };
        let targets = [(0, 5), (0, 0), (5, 0), (900, 0)].map(|state_of| rule.target(&state, state_of, 8));
        assert_eq!(targets, [51, 50, 50, 50], "credit for more than the waiting bytes is no request");
    }

    #[test]
    fn targets_are_what_waits_less_the_credit() {
        let rule = rule(&given(100_000, 8_320));
        let mut state = rule.fresh(0);
        assert_eq!(rule.request(&mut state, &queued(4 * 4_096)), 0, "there is speculative credit");
        assert_eq!(state.waiting, 16_640);
        // 12,480 bytes wait and 4,160 bytes of credit remain, so the flow needs 8,320 bytes, which are 33 quanta.
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(33));
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(33));
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!(rule.may_send_at(&state, 0, &full()), None);
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 2);
        rule.granted(&mut state, &grant(1));
        assert_eq!(rule.may_send_at(&state, 0, &next(7)), Some(Time(7)), "any credit lets a packet go");
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(33), "the same bytes in all");
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!(state.credit, 256 - 4_160);
        rule.granted(&mut state, &grant(1));
        assert_eq!(state.credit, 256 - 4_160, "a grant that is not new");
        rule.granted(&mut state, &grant(33));
        rule.sent(&mut state, &sent(0, 4_160));
        assert_eq!((state.waiting, state.credit), (0, 33 * 256 - 8_320));
    }

    #[test]
    fn the_first_grant_takes_the_rest_of_the_speculative_credit() {
        let rule = rule(&given(100_000, 50_000));
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(2 * 4_096));
        // Speculative credit covers the packet that waits, but the target is still a packet ahead.
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(17));
        rule.sent(&mut state, &sent(0, 4_160));
        rule.granted(&mut state, &grant(17));
        assert_eq!(state.credit, 17 * 256);
        // Granted credit that is not used remains.
        rule.granted(&mut state, &grant(34));
        assert_eq!(state.credit, 34 * 256);
        rule.granted(&mut state, &grant(10_000));
        assert_eq!(state.credit, 100_000, "the limit");
        assert_eq!(state.granted, 10_000);
    }

    #[test]
    fn hosts_divide_what_packets_ask_for_by_the_number_of_flows() {
        let rule = rule(&Rccc { divide_requests: true, ..given(100_000, 0) });
        let mut state = rule.fresh(0);
        assert_eq!(rule.request(&mut state, &queued(100 * 4_096)), 391, "not of a request");
        rule.granted(&mut state, &grant(391));
        assert_eq!(state.credit, 100_000);
        (0..8).for_each(|_| rule.sent(&mut state, &sent(0, 4_160)));
        // With this packet, the credit is 9 * 4,160 = 37,440 bytes below the limit: 147 quanta, or 49 for one
        // of three flows.
        let target = |sharing| ReactionRule::target(&rule, &state, &full(), sharing);
        assert_eq!([1, 3, 0].map(target), [Some(391 + 147), Some(391 + 49), Some(391 + 147)]);
    }

    #[test]
    fn lost_bytes_wait_again_and_are_asked_for_if_nothing_else_asks() {
        let rule = rule(&given(100_000, 50_000));
        let (now, sent_at) = (Time(9), Time::ZERO);
        let lost = Lost { now, sent_at, is_answer: true, payload: 4_096, at_last_hop: false };
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(2 * 4_096));
        rule.sent(&mut state, &sent(0, 4_160));
        rule.sent(&mut state, &sent(0, 4_160));
        // The flow loses the rest of its speculative credit and requests 4,160 bytes, which are 17 quanta.
        assert_eq!(rule.lost(&mut state, &lost), 17);
        assert_eq!((state.waiting, state.credit), (4_160, 0));
        assert_eq!(rule.lost(&mut state, &lost), 0, "the request has been made");
        rule.granted(&mut state, &grant(40));
        assert_eq!(rule.lost(&mut state, &lost), 0, "a packet will carry the target");
        assert_eq!(state.waiting, 3 * 4_160);
        assert_eq!(rule.missing_grant(&state), 0, "it has credit");
        (0..3).for_each(|_| rule.sent(&mut state, &sent(0, 4_160)));
        rule.lost(&mut state, &lost);
        // 4,160 bytes, and 2,240 of negative credit: 25 quanta.
        assert_eq!((state.credit, rule.missing_grant(&state)), (40 * 256 - 3 * 4_160, 40 + 25));
        // The second message was added while the flow had speculative credit, which the loss removes.
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(4_096));
        rule.sent(&mut state, &sent(0, 4_160));
        rule.request(&mut state, &queued(4_096));
        assert_eq!(rule.lost(&mut state, &lost), 33);
    }

    #[test]
    fn a_flow_without_credit_requests_some_when_it_gets_a_message() {
        let rule = rule(&given(100_000, 0));
        let mut state = rule.fresh(0);
        assert_eq!(rule.request(&mut state, &queued(4_096)), 17);
        assert!(!rule.is_fresh(&state, 0, Time::ZERO));
        assert_eq!(rule.request(&mut state, &queued(4_096)), 0, "grants of the first will come");
        rule.granted(&mut state, &grant(17));
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(33));
        assert_eq!(rule.request(&mut rule.fresh(0), &queued(1_000_000)), 391, "the limit in quanta");
        assert_eq!(rule.request(&mut rule.fresh(0), &queued(0)), 17, "a packet, while nothing was granted");
    }

    #[test]
    fn targets_and_grants_go_on_after_their_largest_number() {
        let rule = rule(&given(100_000, 0));
        let mut state =
            RcccState { granted: (1 << 32) - 10, waiting: 4_160, is_speculative: false, ..rule.fresh(0) };
        assert_eq!(rule.target(&state, (0, 4_160), 1), 7);
        rule.granted(&mut state, &grant(7));
        assert_eq!((state.granted, state.credit), ((1 << 32) + 7, 17 * 256));
    }

    #[test]
    fn with_nscc_both_must_allow_a_packet() {
        let nscc = Nscc { round_trip: Some(Time::from_ns(700)), ..Nscc::default() };
        let rule = rule(&Rccc { nscc: Some(nscc), ..given(1_000_000, 9_000) });
        let mut state = rule.fresh(0);
        rule.request(&mut state, &queued(100 * 4_096));
        // A window of 13,125 bytes and a packet, minus the remaining credit of 4,840 bytes: 12,445 bytes.
        assert_eq!(ReactionRule::target(&rule, &state, &full(), 1), Some(49));
        (0..3).for_each(|_| rule.sent(&mut state, &sent(0, 4_160)));
        state.credit = 50_000;
        assert_eq!(rule.may_send_at(&state, 0, &full()), None, "the window is full");
        rule.answered(&mut state, 0, &Answer { bytes: 4_096, ..answer(Mark::Cold, 0, 700_000) });
        assert_eq!(rule.may_send_at(&state, 0, &full()), Some(Time(0)));
        state.credit = 0;
        assert_eq!(rule.may_send_at(&state, 0, &full()), None, "no credit");
    }
}
