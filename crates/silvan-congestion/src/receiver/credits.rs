//! Acknowledgements of every packet, and credit that a receiver grants at the rate of its link (Ultra Ethernet's RCCC; see
//! [`crate::reaction::Rccc`]).
//!
//! ```text
//!  flows whose target is ahead of their grants take turns: up to `turn` quanta each
//!  while there are none, flows whose demand was met take turns: `turn` quanta, until they are `idle` quanta ahead;
//!  a target that leaves a flow fewer than `idle` quanta ahead gives it turns again
//!  next turn: when the link has carried what was granted, at `percent` of its rate, or less ([`super::oversubscribed`])
//! ```
//!
//! Targets and grants count quanta since the connection began, modulo 2^32. A packet of a later connection of the same source
//! ends the earlier one.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use super::oversubscribed::{Oversubscription, Slowdown};
use super::units::{AcknowledgeUnit, Units};
use super::{ReceiverRule, Replies, Sink};
use crate::facts::{Received, Request, Sender};

/// Bytes of a quantum.
pub const QUANTUM: u32 = 256;

/// How receivers grant credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    pub percent: u8,
    /// The largest grant of a turn, in quanta.
    pub turn: u32,
    /// Quanta that a flow may have without a request.
    pub idle: u32,
    /// How marks lower the rate of grants; `None` if they do not.
    pub oversubscription: Option<Oversubscription>,
}

/// A receiver that acknowledges packets and grants credit.
#[derive(Debug)]
pub struct AcknowledgeAndGrant {
    /// Pace of the host's link.
    pace: BytePace,
    /// `None` if the reaction needs no grants; the receiver then grants no credit.
    pacing: Option<Pacing>,
    unit: Option<AcknowledgeUnit>,
}

/// The target and the grants of a flow, in quanta since its connection began.
#[derive(Debug, Clone, Copy, Default, Saved)]
struct Account {
    connection: u32,
    target: u32,
    granted: u32,
    /// Whether the flow is in [`Accounts::turns`].
    is_in_turn: bool,
    /// Whether the flow is in [`Accounts::met`].
    is_met: bool,
}

impl Account {
    /// Quanta that the flow requests; negative if it has received some without a request.
    fn demand(&self) -> i32 {
        self.target.wrapping_sub(self.granted) as i32
    }
}

/// The flows of a receiving host.
#[derive(Debug, Default, Saved)]
pub struct Accounts {
    of: FxHashMap<(u32, u16), Account>,
    /// Flows with demand, and flows whose demand was met, in the order of their turns. A flow that gets demand again
    /// stays in the second list, which has no turns while the first has flows.
    turns: VecDeque<Sender>,
    met: VecDeque<Sender>,
    /// The time from which the next grant may be sent.
    free_at: Time,
    /// Present once a packet has arrived, if marks lower the rate.
    slowdown: Option<Box<Slowdown>>,
    /// Used if an acknowledgement covers several packets.
    units: Units,
}

impl Accounts {
    /// The account of a flow, created at its first use. A later connection of the same source replaces the
    /// account. `None` if the connection is an earlier one.
    fn account(&mut self, from: Sender) -> Option<&mut Account> {
        let fresh = Account { connection: from.connection, ..Account::default() };
        let account = self.of.entry(from.key()).or_insert(fresh);
        let later = from.connection.wrapping_sub(account.connection) as i32;
        if later > 0 {
            *account = fresh;
            self.turns.retain(|other| other.key() != from.key());
            self.met.retain(|other| other.key() != from.key());
        }
        (later >= 0).then_some(account)
    }
}

impl AcknowledgeAndGrant {
    /// Stores the target of a flow, and grants immediately if the link is free.
    ///
    /// With divided requests, a target at or below the grants may not suffice for the next packet. Such a
    /// flow takes turns while no flow has demand, until it is again `idle` quanta ahead.
    fn note(&self, state: &mut Accounts, now: Time, from: Sender, target: u32, out: &mut Replies) {
        let Some(pacing) = self.pacing else { return };
        let Some(account) = state.account(from) else { return };
        if (target.wrapping_sub(account.target) as i32) <= 0 {
            return;
        }
        account.target = target;
        let (demand, ahead) = (account.demand(), account.demand().unsigned_abs());
        if demand > 0 && !account.is_in_turn {
            account.is_in_turn = true;
            state.turns.push_back(from);
        } else if demand <= 0 && !account.is_met && ahead < pacing.idle {
            account.is_met = true;
            state.met.push_back(from);
        } else {
            return;
        }
        if state.free_at <= now {
            self.grant(state, now, out);
        }
    }

    /// Grants credit to the flow whose turn it is.
    fn grant(&self, state: &mut Accounts, now: Time, out: &mut Replies) {
        let Some(pacing) = self.pacing else { return };
        let Some((to, quanta)) = self.demanded(state, pacing).or_else(|| self.idle(state, pacing)) else {
            return;
        };
        let span = self.pace.time(quanta * QUANTUM);
        let span = Time(span.0 * 100 / u64::from(pacing.percent.max(1)));
        let span = state.slowdown.as_mut().map_or(span, |slowdown| slowdown.stretched(now, span));
        state.free_at = now + span;
        out.grant(to, state.of.get(&to.key()).map_or(0, |account| account.granted));
    }

    /// Grants to the next flow with demand.
    fn demanded(&self, state: &mut Accounts, pacing: Pacing) -> Option<(Sender, u32)> {
        let to = state.turns.pop_front()?;
        let account = state.of.get_mut(&to.key())?;
        let quanta = account.demand().unsigned_abs().min(pacing.turn);
        account.granted = account.granted.wrapping_add(quanta);
        if account.demand() > 0 {
            state.turns.push_back(to);
        } else {
            account.is_in_turn = false;
            if pacing.idle > 0 && !std::mem::replace(&mut account.is_met, true) {
                state.met.push_back(to);
            }
        }
        Some((to, quanta))
    }

    /// Grants to the next flow whose demand was met.
    fn idle(&self, state: &mut Accounts, pacing: Pacing) -> Option<(Sender, u32)> {
        let to = state.met.pop_front()?;
        let account = state.of.get_mut(&to.key())?;
        account.granted = account.granted.wrapping_add(pacing.turn);
        account.is_met = account.demand().unsigned_abs() < pacing.idle;
        if account.is_met {
            state.met.push_back(to);
        }
        Some((to, pacing.turn))
    }
}

impl ReceiverRule for AcknowledgeAndGrant {
    type State = Accounts;

    const WATCHES_UNMARKED: bool = true;
    const ACKNOWLEDGES_EACH: bool = true;
    const NOTIFIES: bool = false;
    const GRANTS: bool = true;

    fn new(sink: &Sink) -> Self {
        Self { pace: sink.rate.pace(), pacing: sink.pacing, unit: sink.unit }
    }

    fn received(&self, state: &mut Accounts, packet: &Received, out: &mut Replies) {
        if let Some(pacing) = self.pacing {
            if let Some(rule) = pacing.oversubscription {
                let slowdown = state.slowdown.get_or_insert_with(|| Box::new(Slowdown::new(rule)));
                slowdown.count(packet.now, packet.is_marked);
            }
            self.note(state, packet.now, packet.from, packet.target, out);
        }
        match self.unit {
            None => out.acknowledge_packet(packet, packet.payload),
            Some(unit) => state.units.take(unit, packet, out),
        }
    }

    fn trimmed(&self, state: &mut Accounts, header: &Received, at_last_hop: bool, out: &mut Replies) {
        let Some(pacing) = self.pacing else { return };
        if let Some(rule) = pacing.oversubscription {
            let slowdown = state.slowdown.get_or_insert_with(|| Box::new(Slowdown::new(rule)));
            slowdown.count_trimmed(header.now, at_last_hop);
        }
        self.note(state, header.now, header.from, header.target, out);
    }

    fn requested(&self, state: &mut Accounts, request: &Request, out: &mut Replies) {
        self.note(state, request.now, request.from, request.bytes, out);
        // A flow with demand gets a grant when its turn comes.
        if request.is_repeated
            && let Some(account) = state.of.get(&request.from.key())
            && account.demand() <= 0
            && out.is_empty()
        {
            out.grant(request.from, account.granted);
        }
    }

    fn next_timer(&self, state: &Accounts) -> Option<Time> {
        let turn = (!state.turns.is_empty() || !state.met.is_empty()).then_some(state.free_at);
        turn.into_iter().chain(state.units.next_due()).min()
    }

    fn timer(&self, state: &mut Accounts, now: Time, out: &mut Replies) {
        if state.free_at <= now {
            self.grant(state, now, out);
        }
        state.units.expire(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{packet, sender, sink};
    use super::super::{Content, Reply};
    use super::*;

    /// A byte takes 1 ns; turns have 4 quanta.
    fn rule(percent: u8, idle: u32) -> AcknowledgeAndGrant {
        let pacing = Pacing { percent, turn: 4, idle, oversubscription: None };
        AcknowledgeAndGrant::new(&Sink { pacing: Some(pacing), ..sink() })
    }

    /// Removes and returns the grants, as sources and numbers.
    fn grants(out: &mut Replies) -> Vec<(u32, u32)> {
        let grant = |Reply { to, content }| match content {
            Content::Grant(quanta) => Some((to.host, quanta)),
            _ => None,
        };
        out.drain().filter_map(grant).collect()
    }

    /// Lets the timer expire up to `most` times. Returns each grant with its time in units of the time of a
    /// quantum.
    fn turns(rule: &AcknowledgeAndGrant, state: &mut Accounts, most: usize) -> Vec<(u64, u32, u32)> {
        let mut out = Replies::default();
        let mut found = Vec::new();
        while let Some(now) = rule.next_timer(state).filter(|_| found.len() < most) {
            rule.timer(state, now, &mut out);
            found.extend(grants(&mut out).into_iter().map(|(host, quanta)| (now.0 / 256_000, host, quanta)));
        }
        found
    }

    fn carrying(host: u32, now: u64, target: u32) -> Received<'static> {
        Received { target, ..packet(host, now, false, false) }
    }

    #[test]
    fn flows_with_demand_take_turns_at_the_rate_of_the_link() {
        let (rule, mut state, mut out) = (rule(100, 0), Accounts::default(), Replies::default());
        rule.received(&mut state, &carrying(1, 0, 10), &mut out);
        assert_eq!(grants(&mut out), [(1, 4)], "the link is free");
        rule.received(&mut state, &carrying(2, 0, 5), &mut out);
        rule.received(&mut state, &carrying(2, 0, 6), &mut out);
        rule.received(&mut state, &carrying(1, 0, 9), &mut out);
        assert_eq!(grants(&mut out), [], "the pacer waits, and targets do not go back");
        let expected = [(4, 1, 8), (8, 2, 4), (12, 1, 10), (14, 2, 6)];
        assert_eq!(turns(&rule, &mut state, 9), expected);
        assert_eq!(rule.next_timer(&state), None);
        let request = Request { now: Time(16 * 256_000), from: sender(2), bytes: 7, is_repeated: false };
        rule.requested(&mut state, &Request { now: Time(15 * 256_000), ..request }, &mut out);
        assert_eq!(grants(&mut out), [], "what was granted is not carried");
        assert_eq!(turns(&rule, &mut state, 9), [(16, 2, 7)]);
    }

    #[test]
    fn the_last_grant_is_repeated_if_a_source_without_demand_asks_again() {
        let (rule, mut state, mut out) = (rule(100, 0), Accounts::default(), Replies::default());
        let request = Request { now: Time::ZERO, from: sender(1), bytes: 6, is_repeated: true };
        rule.requested(&mut state, &request, &mut out);
        assert_eq!(grants(&mut out), [(1, 4)], "the first request was lost");
        rule.requested(&mut state, &request, &mut out);
        assert_eq!(grants(&mut out), [], "a turn comes");
        assert_eq!(turns(&rule, &mut state, 9), [(4, 1, 6)]);
        rule.requested(&mut state, &request, &mut out);
        assert_eq!(grants(&mut out), [(1, 6)]);
        rule.requested(&mut state, &Request { is_repeated: false, ..request }, &mut out);
        assert_eq!((grants(&mut out), state.free_at), (vec![], Time(6 * 256_000)));
    }

    #[test]
    fn grants_leave_a_part_of_the_link() {
        let (rule, mut state, mut out) = (rule(50, 0), Accounts::default(), Replies::default());
        rule.received(&mut state, &carrying(1, 0, 8), &mut out);
        assert_eq!(turns(&rule, &mut state, 9), [(8, 1, 8)]);
        assert_eq!(state.free_at, Time(16 * 256_000));
    }

    #[test]
    fn an_idle_receiver_grants_to_flows_whose_demand_was_met() {
        let (rule, mut state, mut out) = (rule(100, 10), Accounts::default(), Replies::default());
        rule.received(&mut state, &carrying(1, 0, 2), &mut out);
        assert_eq!(grants(&mut out), [(1, 2)]);
        assert_eq!(turns(&rule, &mut state, 1), [(2, 1, 6)]);
        // Demand has precedence, and counts from what was granted.
        rule.received(&mut state, &carrying(2, 0, 3), &mut out);
        rule.received(&mut state, &carrying(1, 0, 5), &mut out);
        assert_eq!(turns(&rule, &mut state, 2), [(6, 2, 3), (9, 1, 10)]);
        // Flow 1 has grants of 5 quanta beyond its target, and flow 2 none. Both get grants until they are 10
        // quanta ahead.
        let expected = [(13, 2, 7), (17, 1, 14), (21, 2, 11), (25, 1, 18), (29, 2, 15)];
        assert_eq!(turns(&rule, &mut state, 9), expected);
    }

    #[test]
    fn a_flow_that_is_no_longer_ahead_takes_idle_turns_again() {
        let (rule, mut state, mut out) = (rule(100, 10), Accounts::default(), Replies::default());
        rule.received(&mut state, &carrying(1, 0, 2), &mut out);
        assert_eq!(turns(&rule, &mut state, 9), [(2, 1, 6), (6, 1, 10), (10, 1, 14)]);
        out.drain().for_each(drop);
        // A target of 4 leaves the flow exactly 10 quanta ahead, a target of 5 leaves it 9.
        rule.received(&mut state, &carrying(1, 20 * 256_000, 4), &mut out);
        assert_eq!((grants(&mut out), rule.next_timer(&state)), (vec![], None));
        rule.received(&mut state, &carrying(1, 21 * 256_000, 5), &mut out);
        assert_eq!(grants(&mut out), [(1, 18)], "the link is free");
        assert_eq!(rule.next_timer(&state), None, "13 quanta ahead");
    }

    #[test]
    fn a_later_connection_of_a_source_has_an_account_of_its_own() {
        let (rule, mut state, mut out) = (rule(100, 10), Accounts::default(), Replies::default());
        let carrying = |connection, target| Received {
            from: Sender { connection, ..sender(1) },
            ..carrying(1, 0, target)
        };
        rule.received(&mut state, &carrying(0, 9), &mut out);
        assert_eq!(grants(&mut out), [(1, 4)], "five quanta are still to be granted");
        rule.received(&mut state, &carrying(1, 2), &mut out);
        rule.received(&mut state, &carrying(0, 12), &mut out);
        assert_eq!(grants(&mut out), [], "the pacer waits");
        assert_eq!(turns(&rule, &mut state, 2), [(4, 1, 2), (6, 1, 6)], "the earlier connection has ended");
        rule.received(&mut state, &carrying(2, 1), &mut out);
        assert_eq!(turns(&rule, &mut state, 1), [(10, 1, 1)], "it had idle turns");
        rule.timer(&mut state, Time(11 * 256_000), &mut out);
        let connections: Vec<u32> = out.drain().map(|reply| reply.to.connection).collect();
        assert_eq!(connections.last(), Some(&2), "grants name their connection");
    }

    #[test]
    fn a_header_carries_the_target_of_its_flow() {
        let (rule, mut state, mut out) = (rule(100, 0), Accounts::default(), Replies::default());
        rule.trimmed(&mut state, &carrying(1, 0, 3), true, &mut out);
        let replies: Vec<Reply> = out.drain().collect();
        assert_eq!(replies, [Reply { to: sender(1), content: Content::Grant(3) }], "no acknowledgement");
    }

    #[test]
    fn every_packet_is_acknowledged() {
        let (rule, mut state, mut out) = (rule(100, 0), Accounts::default(), Replies::default());
        rule.received(&mut state, &carrying(1, 0, 1), &mut out);
        let kinds: Vec<bool> =
            out.drain().map(|reply| matches!(reply.content, Content::Acknowledgement(_, 100, 1))).collect();
        assert_eq!(kinds, [false, true], "after the grant");
    }
}
