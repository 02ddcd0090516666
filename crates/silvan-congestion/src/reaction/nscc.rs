//! Ultra Ethernet's network-signaled congestion control, NSCC: a window that depends on marks and on the queueing
//! delay. The implementation follows the consortium's simulator (uet-htsim, `uec.cpp`, 2025).
//!
//! ```text
//!  per acknowledgement of n bytes, with queueing delay d = round trip - least round trip, and its mean a:
//!    no mark, d >= Q       window += 5 S A n / window                       (fair increase)
//!    no mark, d <  Q       window += n A / 4, while d < 1 us for a window's bytes   (fast increase), or else
//!                          window += 4 S A n (Q - d) / 12 us / window       (proportional increase)
//!    mark, d >= Q          window x max(1 - 0.8 (a - Q) / a, 1/2), if a > Q, once per least round trip
//!    mark, d <  Q          nothing
//!  increases by a quotient of the window take effect after 8 packets or a round trip, and every round trip adds 0.15 S A
//!
//!  quick adapt, every least round trip + Q: if d > 4 Q and less than an eighth of the largest window was acknowledged,
//!                          window = what was acknowledged; marks of what is in flight then are ignored
//! ```
//!
//! S is the payload of a full packet, Q is the target of the queueing delay, and A is the bandwidth-delay product of
//! the network in units of 150,000 bytes (12 us at 100 Gbit/s). The mean a has weight 1/80. In this mean, an
//! unmarked packet with d > Q counts as a quarter of the least round trip. Windows range from one packet to
//! 1.5 times the bandwidth-delay product, and start at that maximum unless `first_window` is less. A packet
//! is sent if the window has room for the whole packet.
//!
//! With packet trimming, a negative acknowledgement of n bytes means:
//!
//! ```text
//!    window -= n, except if quick adapt follows, or if RCCC limits the flow, too, and the packet was lost at the last output
//!    the mean a counts a queueing delay of a round trip without load; quick adapt is due at the end of its interval
//! ```
//!
//! The default of the target Q is then three quarters of the round trip, because trimming shortens queues.
//!
//! With `rule = "spec"`, three rules are those of the text of the specification (UEC 1.0, 3.6.13) instead: a packet is sent
//! if the window has room for a full packet; the mean a is that of the acknowledgements and losses of the last least round
//! trip, and zero before the first one has passed; and with packet trimming, only losses start quick adapt. The text leaves
//! the mean open; the interval is that of a reduction.
//!
//! With `level = "destination"`, the queue pairs and ports from a host to another one have one window, as in MRC (OCP
//! specification 1.0).
//!
//! Windows are in units of 2^-16 bytes, and the mean is in units of 2^-16 picoseconds. The choice of paths is not part of
//! this reaction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate, Time};

use super::progress::FlowProgress;
use super::{Properties, ReactionParameters, ReactionRule, Source, StateLevel};
use crate::LinkLayer;
use crate::facts::{Answer, Lost, Mark, Next, Sent};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// The source of the rules of NSCC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NsccRules {
    /// The consortium's simulator (uet-htsim 2025).
    #[default]
    Htsim,
    /// The text of the specification (UEC 1.0): a packet needs room for a full packet in the window, the mean delay is that of
    /// the last round trip without load, and with packet trimming, only losses start quick adapt.
    Spec,
}

/// To what a window belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NsccLevel {
    /// To a queue pair (flow).
    #[default]
    Qp,
    /// To the traffic from a host to another one, over all queue pairs and ports, as in MRC. The rate from which windows
    /// follow is then that of all ports.
    Destination,
}

/// Parameters of NSCC; the defaults are those of the consortium's simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nscc {
    /// Round trip without load; by default that of the longest route between hosts that communicate.
    pub round_trip: Option<Time>,
    /// The target of the queueing delay, Q; by default the round trip without load, or three quarters of it if switches trim
    /// packets.
    pub target: Option<Time>,
    /// The window of a flow before its first answer, from a full packet to the largest window, which is the
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_window: Option<Bytes>,
    /// Whether a window is set to the recently acknowledged bytes when the queueing delay is far above the target.
    pub quick_adapt: bool,
    /// Quick adapt applies if fewer bytes were acknowledged than the largest window divided by 2 to the power of this
    /// number.
    #[schemars(range(max = 10))]
    pub quick_adapt_gate: u8,
    /// Whose rules apply where the specification and the simulator differ.
    pub rule: NsccRules,
    /// To what a window belongs.
    pub level: NsccLevel,
}

impl Default for Nscc {
    fn default() -> Self {
        let rule = NsccRules::default();
        Self {
            round_trip: None,
            target: None,
            first_window: None,
            quick_adapt: true,
            quick_adapt_gate: 3,
            rule,
            level: NsccLevel::default(),
        }
    }
}

impl ReactionParameters for Nscc {
    fn properties(&self) -> Properties {
        Properties {
            link_layer: Some(LinkLayer::Ethernet),
            needs_round_trip: self.round_trip.is_none(),
            handles_loss: true,
            counts_bytes: true,
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, limits: &Limits) -> Check {
        ensure_time("round_trip", self.round_trip)?;
        ensure_time("target", self.target)?;
        ensure(self.first_window.is_none_or(|window| window >= limits.full), "first_window", || {
            format!("must be at least a full packet, {}", limits.full)
        })
    }
}

impl Nscc {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<NsccRule> {
        let round_trip = self.round_trip.unwrap_or_else(|| source.shortest_round_trip()).max(Time(1));
        let mut rule = self.rule_of_link(source.rate, round_trip, source.full_size, source.header());
        if source.trims && self.target.is_none() {
            rule.target = (round_trip.0 / 4 * 3).max(1);
        }
        rule.adapts_to_delay = !(source.trims && self.rule == NsccRules::Spec);
        Some(rule)
    }

    fn rule_of_link(&self, link: Rate, round_trip: Time, full: u32, header: u32) -> NsccRule {
        let product = link.bytes_in(round_trip);
        let payload = u64::from(full - header);
        NsccRule {
            link,
            round_trip: round_trip.0,
            target: self.target.unwrap_or(round_trip).0,
            first: self.first_window.map(|window| window.0),
            gate: self.quick_adapt.then_some(self.quick_adapt_gate),
            adapts_to_delay: true,
            follows_text: self.rule == NsccRules::Spec,
            level: match self.level {
                NsccLevel::Qp => StateLevel::Flow,
                NsccLevel::Destination => StateLevel::Destination,
            },
            product: u128::from(product),
            payload: u128::from(payload),
            full: u64::from(full),
            header,
        }
    }
}

/// Number of bits for the fraction of a byte, and for the fraction of a picosecond of the mean delay.
const FRACTION: u32 = 16;
/// The unit of bandwidth-delay products: 12 us at 100 Gbit/s.
const REFERENCE: u128 = 150_000;
const REFERENCE_PS: u128 = 12_000_000;
/// Queueing delay, in picoseconds, below which increases are fast.
const SHORT: u64 = 1_000_000;

/// The rule of one host; times in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct NsccRule {
    link: Rate,
    round_trip: u64,
    target: u64,
    /// The first window in bytes, if it is not the largest.
    first: Option<u64>,
    gate: Option<u8>,
    /// Whether a long queueing delay starts quick adapt.
    adapts_to_delay: bool,
    /// Whether the rules are those of [`NsccRules::Spec`].
    follows_text: bool,
    level: StateLevel,
    /// The network's bandwidth-delay product in bytes.
    product: u128,
    /// Payload bytes of a full packet.
    payload: u128,
    full: u64,
    header: u32,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct NsccState {
    window: u64,
    /// The shortest round trip so far.
    least: u64,
    progress: FlowProgress,
    /// The mean queueing delay, in units of 2^-16 picoseconds.
    mean: u64,
    /// With [`NsccRules::Spec`]: the sum of the delays since a time, their number, and that time.
    delays: (u64, u32, Time),
    /// The time of the last window reduction by a mark.
    reduced_at: Option<Time>,
    /// Increases that have not taken effect, in square bytes.
    pending: u128,
    /// Bytes acknowledged since increases last took effect.
    received: u64,
    /// The time of the last addition of 0.15 S A.
    adjusted_at: Time,
    /// Bytes acknowledged with a short delay.
    short: u64,
    /// Whether increases are fast.
    is_fast: bool,
    /// The end of the interval of quick adapt; `None` before the first interval.
    interval_ends: Option<Time>,
    /// Bytes acknowledged in this interval.
    achieved: u64,
    /// Bytes that were in flight when quick adapt last set the window. Marks of these bytes are ignored.
    to_ignore: u64,
    /// Bytes acknowledged or lost since then.
    ignored: u64,
    /// Whether a packet was lost since quick adapt last set the window.
    is_due: bool,
}

impl NsccRule {
    /// The window of a flow, in bytes.
    pub(super) fn window(&self, state: &NsccState) -> u64 {
        state.window >> FRACTION
    }

    /// The largest window of a flow, in units of 2^-16 bytes.
    fn most(&self, state: &NsccState) -> u64 {
        (self.link.bytes_in(Time(state.least)) * 3 / 2).max(self.full) << FRACTION
    }

    fn bound(&self, state: &mut NsccState) {
        state.window = state.window.clamp(self.full << FRACTION, self.most(state));
    }

    /// Applies quick adapt. Returns whether quick adapt sets the window, or the current mark or loss is to be
    /// ignored.
    fn quick_adapt(&self, state: &mut NsccState, now: Time, is_marked: bool, delay: u64) -> bool {
        let Some(gate) = self.gate else { return false };
        let mut is_done = state.ignored < state.to_ignore && is_marked;
        if !is_done && state.interval_ends.is_none_or(|end| now > end) {
            let few = state.achieved < (self.most(state) >> FRACTION) >> gate;
            let is_late = state.is_due || self.adapts_to_delay && delay > 4 * self.target;
            if state.interval_ends.is_some() && is_late && few {
                state.is_due = false;
                state.window = state.achieved.max(self.full) << FRACTION;
                (state.to_ignore, state.ignored) = (state.progress.in_flight(), 0);
                is_done = true;
            }
            state.achieved = 0;
            state.interval_ends = Some(now + Time(state.least + self.target));
        }
        if is_done {
            (state.pending, state.received) = (0, 0);
        }
        is_done
    }

    /// Adds a queueing delay to the mean.
    fn average(&self, state: &mut NsccState, now: Time, delay: u64) {
        if !self.follows_text {
            state.mean = (79 * state.mean + (delay << FRACTION)) / 80;
            return;
        }
        let (sum, count, since) = &mut state.delays;
        if now > *since + Time(state.least) {
            state.mean = sum.checked_div(u64::from(*count)).unwrap_or(0) << FRACTION;
            (*sum, *count, *since) = (0, 0, now);
        }
        *sum += delay;
        *count += 1;
    }

    /// Increases the window after an unmarked acknowledgement with a delay below the target. Increases are
    /// fast while the queue is almost empty, and otherwise proportional to the distance from the target.
    fn increase(&self, state: &mut NsccState, size: u64, delay: u64) {
        if delay < SHORT {
            state.short += size;
            if state.short > state.window >> FRACTION || state.is_fast {
                state.window += ((u128::from(size) << FRACTION) * self.product / (4 * REFERENCE)) as u64;
                state.is_fast = true;
                return;
            }
        } else {
            state.short = 0;
        }
        state.is_fast = false;
        let span = u128::from(self.target - delay);
        state.pending +=
            4 * self.payload * self.product * u128::from(size) * span / (REFERENCE * REFERENCE_PS);
    }

    /// Handles a lost packet. If `keeps` is true, only quick adapt can change the window.
    pub(super) fn lose(&self, state: &mut NsccState, lost: &Lost, keeps: bool) {
        let size = u64::from(lost.payload) + u64::from(self.header);
        if lost.is_answer {
            state.least = state.least.min((lost.now - lost.sent_at).0);
        }
        state.ignored += size;
        self.average(state, lost.now, self.round_trip);
        state.is_due = true;
        if !self.quick_adapt(state, lost.now, true, 0) && !keeps {
            state.window = state.window.saturating_sub(size << FRACTION);
        }
        self.bound(state);
        state.progress.lost(lost, self.header);
    }

    fn reduce(&self, state: &mut NsccState, now: Time) {
        (state.is_fast, state.short) = (false, 0);
        let mean = state.mean >> FRACTION;
        let is_due = state.reduced_at.is_none_or(|at| now > at + Time(state.least));
        if mean > self.target && is_due {
            let less = u128::from(state.window) * 4 * u128::from(mean - self.target) / (5 * u128::from(mean));
            state.window -= (less as u64).min(state.window / 2);
            state.reduced_at = Some(now);
        }
    }
}

impl ReactionRule for NsccRule {
    type State = NsccState;
    const HAS_DESTINATIONS: bool = true;

    fn level(&self) -> StateLevel {
        self.level
    }

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> NsccState {
        let mut state = NsccState {
            window: 0,
            least: self.round_trip,
            progress: FlowProgress::default(),
            mean: 0,
            delays: (0, 0, if self.follows_text { Time::ZERO } else { Time::NEVER }),
            reduced_at: None,
            pending: 0,
            received: 0,
            adjusted_at: Time::ZERO,
            short: 0,
            is_fast: false,
            interval_ends: None,
            achieved: 0,
            to_ignore: 0,
            ignored: 0,
            is_due: false,
        };
        let most = self.most(&state);
        state.window = self.first.map_or(most, |first| most.min(first.min(1 << 30) << FRACTION));
        state
    }

    fn sent(&self, state: &mut NsccState, sent: &Sent) {
        state.progress.sent(sent);
    }

    fn answered(&self, state: &mut NsccState, _sl: u8, answer: &Answer) {
        let (now, is_marked) = (answer.now, answer.mark == Mark::Hot);
        let size = state.progress.acknowledged(answer, self.header);
        state.achieved += size;
        state.received += size;
        state.ignored += size;
        let round_trip = (now - answer.sent_at).0;
        state.least = state.least.min(round_trip);
        let delay = round_trip - state.least;
        let counts = if !is_marked && delay > self.target { state.least / 4 } else { delay };
        self.average(state, now, counts);
        if self.quick_adapt(state, now, is_marked, delay) {
            self.bound(state);
            return;
        }
        match (is_marked, delay >= self.target) {
            (false, true) => {
                state.pending += 5 * self.payload * self.product * u128::from(size) / REFERENCE;
            }
            (false, false) => self.increase(state, size, delay),
            (true, true) => self.reduce(state, now),
            (true, false) => {}
        }
        self.bound(state);
        let since = now.saturating_sub(state.adjusted_at).0;
        if state.received > 8 * self.full || since > self.round_trip {
            state.window += ((state.pending << (2 * FRACTION)) / u128::from(state.window)) as u64;
            if since >= self.round_trip {
                state.window += (((15 * self.payload * self.product) << FRACTION) / (100 * REFERENCE)) as u64;
                state.adjusted_at = now;
            }
            (state.pending, state.received) = (0, 0);
        }
        self.bound(state);
    }

    fn lost(&self, state: &mut NsccState, lost: &Lost) -> u32 {
        self.lose(state, lost, false);
        0
    }

    fn arrived(&self, state: &mut NsccState, payload: u32) {
        state.progress.left(payload, self.header);
    }

    fn may_send_at(&self, state: &NsccState, _sl: u8, next: &Next) -> Option<Time> {
        let size = if self.follows_text { self.full } else { next.size.into() };
        let wanted = state.progress.in_flight() + size;
        (wanted <= state.window >> FRACTION).then_some(next.now)
    }

    fn must_ask(&self, state: &NsccState, next: &Next) -> bool {
        let size = u64::from(next.size);
        let after = state.progress.in_flight() + size + if self.follows_text { self.full } else { size };
        state.progress.is_untouched() || after > state.window >> FRACTION
    }

    fn is_fresh(&self, state: &NsccState, _sl: u8, _now: Time) -> bool {
        state.progress.is_untouched()
    }

    /// Number of full packets by which the window is smaller than the maximum.
    fn strength(&self, state: &NsccState, _sl: u8, _now: Time) -> u16 {
        let missing = self.most(state).saturating_sub(state.window) >> FRACTION;
        (missing / self.full.max(1)).min(u64::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;

    /// 100 Gbit/s, 12 us and packets of 4,096 + 64 bytes: A is 1, Q is 12 us.
    fn rule(given: &Nscc) -> NsccRule {
        given.rule_of_link(Rate::from_gbit(100), Time::from_us(12), 4_160, 64)
    }

    const PACKET: u64 = 4_160;

    /// Creates a flow with a window in bytes and a number of packets in flight. Increases have just taken
    /// effect.
    fn flow(rule: &NsccRule, window: u64, packets: u32) -> NsccState {
        let mut state = NsccState { window: window << FRACTION, ..rule.fresh(0) };
        (0..packets).for_each(|_| rule.sent(&mut state, &sent(0, PACKET as u32)));
        state.adjusted_at = Time::from_us(100);
        state.interval_ends = Some(Time::from_us(10_000));
        state
    }

    /// Acknowledges a packet. The time of arrival and the queueing delay are in microseconds.
    fn acknowledge(rule: &NsccRule, state: &mut NsccState, mark: Mark, us: u64, delay: u64) {
        let now = us * 1_000_000;
        let sent_at = Time(now - (12 + delay) * 1_000_000);
        rule.answered(state, 0, &Answer { bytes: 4_096, sent_at, ..answer(mark, 0, now) });
    }

    fn bytes(state: &NsccState) -> u64 {
        state.window >> FRACTION
    }

    #[test]
    fn a_window_starts_with_one_and_a_half_products_and_sends_whole_packets() {
        let rule = rule(&Nscc::default());
        let mut state = rule.fresh(0);
        assert_eq!(bytes(&state), 225_000);
        (0..54).for_each(|_| rule.sent(&mut state, &sent(0, PACKET as u32)));
        // 54 packets have 224,640 bytes.
        let small = Next { size: 360, ..next(7) };
        assert_eq!(rule.may_send_at(&state, 0, &small), Some(Time(7)));
        assert_eq!(rule.may_send_at(&state, 0, &Next { size: 361, ..next(7) }), None);
    }

    #[test]
    fn a_first_window_may_be_smaller_than_the_largest() {
        let first = |bytes| Nscc { first_window: Some(Bytes(bytes)), ..Nscc::default() };
        let windows = [8_320, 1 << 40].map(|window| rule(&first(window)).fresh(0).window >> FRACTION);
        assert_eq!(windows, [8_320, 225_000]);
    }

    #[test]
    fn the_first_packet_and_the_last_one_of_a_window_ask_for_an_acknowledgement() {
        let rule = rule(&Nscc::default());
        let next = Next { size: PACKET as u32, ..next(0) };
        let asks = [0, 1, 2, 3].map(|packets| rule.must_ask(&flow(&rule, 4 * PACKET, packets), &next));
        assert_eq!(asks, [true, false, false, true]);
    }

    /// A loss that the source detects `us` microseconds after the start of the run, 12 us after it sent the
    /// packet.
    fn loss(us: u64) -> Lost {
        let (now, sent_at) = (Time::from_us(us), Time::from_us(us - 12));
        Lost { now, sent_at, is_answer: true, payload: 4_096, at_last_hop: false }
    }

    #[test]
    fn a_loss_shrinks_the_window_by_the_packet() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 100_000, 20);
        rule.lost(&mut state, &loss(101));
        assert_eq!((bytes(&state), state.progress.in_flight()), (100_000 - PACKET, 19 * PACKET));
        // A queueing delay of 12 us with weight 1/80.
        assert_eq!(state.mean >> FRACTION, 150_000);
        rule.lose(&mut state, &loss(101), true);
        assert_eq!((bytes(&state), state.progress.in_flight()), (100_000 - PACKET, 18 * PACKET));
        // A shorter round trip is the new minimum. The trimmed header may have waited less than a full
        // packet.
        rule.lost(&mut state, &Lost { sent_at: Time::from_us(92), ..loss(101) });
        assert_eq!(state.least, 9_000_000);
        (0..30).for_each(|_| assert_eq!(rule.lost(&mut state, &loss(101)), 0));
        assert_eq!(bytes(&state), PACKET, "at least a packet");
    }

    #[test]
    fn quick_adapt_follows_a_loss_at_the_end_of_its_interval() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 200_000, 40);
        state.interval_ends = Some(Time::from_us(110));
        rule.lost(&mut state, &loss(101));
        assert_eq!(bytes(&state), 200_000 - PACKET);
        acknowledge(&rule, &mut state, Mark::Hot, 102, 1);
        // Only one packet was acknowledged, which is less than an eighth of 225,000.
        rule.lost(&mut state, &loss(111));
        assert_eq!((bytes(&state), state.to_ignore), (PACKET, 38 * PACKET));
        let interval_ends = state.interval_ends;
        assert_eq!(interval_ends, Some(Time::from_us(111 + 12 + 12)));
        // Marks and losses of packets that were in flight are ignored.
        rule.lost(&mut state, &loss(140));
        assert_eq!((state.interval_ends, state.ignored), (interval_ends, PACKET));
    }

    #[test]
    fn the_target_is_shorter_if_switches_trim() {
        let tables = super::super::SharedTables::default();
        let source = |trims| Source {
            host: 0,
            rate: Rate::from_gbit(100),
            full_size: 4_160,
            mtu: 4_096,
            round_trip: None,
            trims,
            seed: 1,
            tables: &tables,
        };
        let given = Nscc { round_trip: Some(Time::from_us(12)), ..Nscc::default() };
        let target = |given: &Nscc, trims| given.rule(&source(trims)).map(|rule| rule.target);
        assert_eq!([target(&given, false), target(&given, true)], [Some(12_000_000), Some(9_000_000)]);
        let own = Nscc { target: Some(Time::from_us(5)), ..given };
        assert_eq!(target(&own, true), Some(5_000_000));
    }

    #[test]
    fn the_rules_of_the_text_need_room_for_a_full_packet_and_average_over_a_round_trip() {
        let rule = rule(&Nscc { rule: NsccRules::Spec, ..Nscc::default() });
        let state = flow(&rule, 2 * PACKET, 1);
        let small = Next { size: 100, ..next(7) };
        assert_eq!(rule.may_send_at(&state, 0, &small), Some(Time(7)));
        let mut full = flow(&rule, 2 * PACKET - 1, 1);
        assert_eq!(rule.may_send_at(&full, 0, &small), None);
        assert!(rule.must_ask(&state, &small) && !rule.must_ask(&flow(&rule, 4 * PACKET, 1), &small));
        full.delays = (0, 0, Time::from_us(100));
        acknowledge(&rule, &mut full, Mark::Hot, 101, 6);
        acknowledge(&rule, &mut full, Mark::Hot, 112, 20);
        assert_eq!(full.mean, 0, "no round trip of 12 us has passed");
        acknowledge(&rule, &mut full, Mark::Hot, 113, 40);
        assert_eq!(full.mean >> FRACTION, 13_000_000);
    }

    #[test]
    fn only_losses_start_quick_adapt_of_the_text_if_switches_trim() {
        let window = |adapts_to_delay| {
            let rule =
                NsccRule { adapts_to_delay, ..rule(&Nscc { rule: NsccRules::Spec, ..Nscc::default() }) };
            let mut state = flow(&rule, 225_000, 50);
            state.interval_ends = Some(Time::from_us(200));
            acknowledge(&rule, &mut state, Mark::Hot, 201, 49);
            bytes(&state)
        };
        assert_eq!(window(true), PACKET);
        assert!(window(false) > 200_000);
    }

    #[test]
    fn increases_take_effect_after_eight_packets() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 100_000, 20);
        (0..8).for_each(|_| acknowledge(&rule, &mut state, Mark::Cold, 101, 6));
        assert_eq!(bytes(&state), 100_000);
        acknowledge(&rule, &mut state, Mark::Cold, 101, 6);
        // 4 S n (Q - d) / 12 us / window, with n of nine packets and half of Q: 2 x 4,096 x 37,440 / 100,000.
        assert_eq!(bytes(&state), 103_067);
        let mut state = flow(&rule, 100_000, 20);
        (0..9).for_each(|_| acknowledge(&rule, &mut state, Mark::Cold, 101, 12));
        // Fair increase: 5 x 4,096 x 37,440 / 100,000.
        assert_eq!(bytes(&state), 107_667);
    }

    #[test]
    fn each_round_trip_adds_a_share_of_a_packet() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 100_000, 2);
        state.pending = 0;
        acknowledge(&rule, &mut state, Mark::Hot, 113, 6);
        assert_eq!(bytes(&state), 100_614, "0.15 x 4,096");
        assert_eq!(state.adjusted_at, Time::from_us(113));
    }

    #[test]
    fn a_window_grows_fast_once_a_window_was_acknowledged_without_queue() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 2 * PACKET, 4);
        acknowledge(&rule, &mut state, Mark::Cold, 101, 0);
        acknowledge(&rule, &mut state, Mark::Cold, 101, 0);
        assert_eq!(bytes(&state), 2 * PACKET, "not more than a window");
        acknowledge(&rule, &mut state, Mark::Cold, 101, 0);
        assert_eq!(bytes(&state), 2 * PACKET + PACKET / 4);
        acknowledge(&rule, &mut state, Mark::Cold, 101, 2);
        assert!(!state.is_fast && state.short == 0);
    }

    #[test]
    fn marks_with_a_long_delay_reduce_by_the_mean_once_per_round_trip() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 100_000, 20);
        state.mean = 24_000_000 << FRACTION;
        acknowledge(&rule, &mut state, Mark::Hot, 110, 24);
        // 1 - 0.8 (24 - 12) / 24 = 0.6.
        assert_eq!(bytes(&state), 60_000);
        acknowledge(&rule, &mut state, Mark::Hot, 111, 24);
        assert_eq!(bytes(&state), 60_000, "too soon");
        let before = bytes(&state);
        acknowledge(&rule, &mut state, Mark::Hot, 111, 1);
        assert_eq!(bytes(&state), before, "a mark without a long delay");
        state.mean = 12_000_000 << FRACTION;
        state.reduced_at = None;
        acknowledge(&rule, &mut state, Mark::Hot, 111, 12);
        assert_eq!(bytes(&state), before, "the mean is not above the target");
    }

    #[test]
    fn the_mean_counts_unmarked_packets_with_a_long_delay_as_short() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 100_000, 20);
        acknowledge(&rule, &mut state, Mark::Hot, 101, 8);
        assert_eq!(state.mean, (8_000_000 << FRACTION) / 80);
        let mut state = flow(&rule, 100_000, 20);
        acknowledge(&rule, &mut state, Mark::Cold, 101, 40);
        assert_eq!(state.mean, (3_000_000 << FRACTION) / 80, "a quarter of 12 us");
    }

    #[test]
    fn quick_adapt_takes_what_was_acknowledged_and_ignores_marks_in_flight() {
        let rule = rule(&Nscc::default());
        let mut state = flow(&rule, 225_000, 50);
        state.interval_ends = Some(Time::from_us(200));
        acknowledge(&rule, &mut state, Mark::Hot, 150, 49);
        acknowledge(&rule, &mut state, Mark::Hot, 199, 49);
        let before = bytes(&state);
        acknowledge(&rule, &mut state, Mark::Hot, 201, 49);
        assert!(before > 100_000);
        assert_eq!(bytes(&state), 3 * PACKET, "three packets, less than 28,125 bytes");
        assert_eq!((state.to_ignore, state.interval_ends), (47 * PACKET, Some(Time::from_us(225))));
        state.mean = 40_000_000 << FRACTION;
        (0..46).for_each(|_| acknowledge(&rule, &mut state, Mark::Hot, 300, 30));
        assert_eq!(bytes(&state), 3 * PACKET, "marks of packets that were in flight");
        let off = super::tests::rule(&Nscc { quick_adapt: false, ..Nscc::default() });
        let mut state = flow(&off, 225_000, 50);
        state.interval_ends = Some(Time::from_us(200));
        acknowledge(&off, &mut state, Mark::Cold, 201, 49);
        assert!(bytes(&state) > 200_000);
    }
}
