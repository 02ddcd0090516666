//! Control packets: acknowledgements and notifications, what they tell a source, and how hosts send
//! them (ahead of their data).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::Host;
use crate::congestion::reaction::{ControlLevel, Mark};
use crate::congestion::{CoalescePer, Coalescing, Notification};
use crate::context::Context;
use crate::facts::Severity;
use crate::message::{Announcement, Report};
use crate::packet::{Kind, NO_PACKET, Packet, PacketId};
use crate::port::{Port, Vl};

/// What a control packet says of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Announced {
    /// Nothing.
    No,
    /// That it is there.
    New(Announcement),
    /// What has been found out about it, by the index of the announcement.
    Back(u32),
}

/// A control packet that waits to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    pub kind: Kind,
    pub becn: bool,
    pub severity: Severity,
    pub validated: bool,
    pub to: u32,
    pub source: u16,
    pub class: u16,
    pub sl: u8,
    pub vl: Vl,
    pub announced: Announced,
}

/// The control packets of a host that wait to be sent: in order on each virtual lane, so that a lane
/// without credit holds up no other.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Per virtual lane, with a number that counts all of them.
    lanes: Box<[VecDeque<(u64, Control)>]>,
    added: u64,
    len: usize,
}

impl Outbox {
    pub fn new(lanes: u8) -> Self {
        Self { lanes: vec![VecDeque::new(); usize::from(lanes.max(1))].into(), added: 0, len: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push_back(&mut self, control: Control) {
        self.lanes[usize::from(control.vl)].push_back((self.added, control));
        self.added += 1;
        self.len += 1;
    }

    /// The one that waits longest among the first ones of the lanes that are not in a set.
    fn oldest(&self, blocked_lanes: u16) -> Option<Control> {
        let open = self.lanes.iter().enumerate().filter(|(vl, _)| blocked_lanes >> vl & 1 == 0);
        let first = open.filter_map(|(_, lane)| lane.front()).min_by_key(|(number, _)| *number)?;
        Some(first.1)
    }

    fn pop(&mut self, vl: Vl) {
        self.len -= usize::from(self.lanes[usize::from(vl)].pop_front().is_some());
    }
}

/// When a receiver may send the next notification packet, where it coalesces them.
#[derive(Debug)]
pub(super) struct Coalescer {
    rule: Coalescing,
    /// Per flow by sending host and source, or of the port.
    next_at: FxHashMap<(u32, u16), Time>,
    /// Entries at which those whose time has passed are cleared away next.
    tidy_at: usize,
}

impl Coalescer {
    pub fn new(rule: Coalescing) -> Self {
        Self { rule, next_at: FxHashMap::default(), tidy_at: 64 }
    }

    /// Whether a mark that arrives now on a packet causes a notification packet.
    fn passes(&mut self, packet: &Packet, now: Time) -> bool {
        let flow = match self.rule.per {
            CoalescePer::Flow => (packet.src, packet.source),
            CoalescePer::Port => (0, 0),
        };
        if self.next_at.get(&flow).is_some_and(|&next| now < next) {
            return false;
        }
        if self.next_at.len() >= self.tidy_at {
            self.next_at.retain(|_, next| now < *next);
            self.tidy_at = (2 * self.next_at.len()).max(64);
        }
        self.next_at.insert(flow, now + self.rule.interval);
        true
    }
}

impl Host {
    /// Returns a mark, or an acknowledgement, as soon as possible. A FECN is ignored where the
    /// BECN is set too, and on control packets.
    pub(super) fn acknowledge(&mut self, ctx: &mut Context, packet: &Packet) {
        let marked = packet.fecn && !packet.becn;
        let (kind, wanted) = match self.notification {
            Notification::Cnp => {
                let coalescer = if marked { self.coalescer.as_mut() } else { None };
                (Kind::Cnp, marked && coalescer.is_none_or(|coalescer| coalescer.passes(packet, ctx.now)))
            }
            Notification::Ack => (Kind::Ack, marked || packet.last),
            Notification::AckEach => (Kind::Ack, true),
            Notification::Backward => return,
        };
        if !wanted {
            return;
        }
        let (sl, vl) = match &self.paths {
            None => (packet.sl, packet.vl),
            Some(paths) => {
                let level = paths.lanes.levels.get(self.id as usize, packet.src as usize);
                (level, Vl(paths.of_level[usize::from(level)]))
            }
        };
        self.control.push_back(Control {
            kind,
            becn: marked,
            severity: packet.severity,
            validated: packet.validated,
            to: packet.src,
            source: packet.source,
            class: packet.class,
            sl,
            vl: self.control_lane.unwrap_or(vl),
            announced: Announced::No,
        });
        self.wake(ctx);
    }

    /// A notification or acknowledgement arrived for the flow of `packet.source` to the host that it
    /// comes from.
    pub(super) fn heard(&mut self, ctx: &mut Context, packet: &Packet) {
        ctx.meters.becn_received += u64::from(packet.becn);
        let counts = self.reaction.as_ref().is_some_and(|rule| rule.counts_answers());
        if !packet.becn && !counts {
            return;
        }
        let mark = match (packet.becn, packet.validated) {
            (false, _) => Mark::Cold,
            (true, false) if self.validates => Mark::Warm,
            (true, _) => Mark::Hot,
        };
        self.answered(ctx.now, (packet.source, packet.src), (mark, packet.severity));
        // A flow may go on now, or be held back to the others' profit.
        self.wake(ctx);
    }

    /// A switch has marked a packet of a flow of this host.
    pub(super) fn reported(&mut self, ctx: &mut Context, report: Report) {
        ctx.meters.becn_received += 1;
        ctx.meters.reports += 1;
        let Report { destination, source, severity, .. } = report;
        self.answered(ctx.now, (source, destination), (Mark::Hot, severity));
        self.wake(ctx);
    }

    /// Has the reaction hear what became of a packet of a flow, given by its source and destination.
    fn answered(&mut self, now: Time, (source, destination): (u16, u32), answer: (Mark, Severity)) {
        let Some(rule) = &self.reaction else { return };
        let sl = self.level(source, destination);
        if rule.level() == ControlLevel::Sl {
            rule.answered(&mut self.sl_states[usize::from(sl)], sl, answer, now);
            return;
        }
        let id = self.flows.entry(source, destination, || rule.fresh(sl));
        let flow = self.flows.get_mut(id);
        flow.may_send = false;
        rule.answered(&mut flow.control, sl, answer, now);
        // Windows may open, and slots go; others only hold back.
        if rule.counts_answers() && self.flows.reopen(id) {
            self.enlist(id, now);
        }
        self.tidy(now);
    }

    /// Sends the control packet that waits longest, of those whose virtual lane has credit and is not
    /// in `blocked_lanes`, to which it adds those without.
    pub(super) fn send_control(&mut self, ctx: &mut Context, blocked_lanes: &mut u16) -> bool {
        let space = self.sizes.space(self.sizes.control);
        while let Some(control) = self.control.oldest(*blocked_lanes) {
            if !ctx.has_credit_or_wait((self.out, control.vl, control.to), space) {
                *blocked_lanes |= 1 << control.vl.0;
                continue;
            }
            self.control.pop(control.vl);
            let id = self.control_packet(ctx, control);
            ctx.send(self.out, id);
            return true;
        }
        false
    }

    /// Makes a control packet.
    pub(super) fn control_packet(&self, ctx: &mut Context, control: Control) -> PacketId {
        let size = self.sizes.control;
        let payload = match control.announced {
            Announced::No => 0,
            Announced::New(announcement) => ctx.announcements.add(announcement),
            Announced::Back(id) => id,
        };
        let packet = Packet {
            created: ctx.now,
            injected: ctx.now,
            tail_lag: Time::ZERO,
            payload,
            size,
            space: self.sizes.space(size),
            src: self.id,
            dst: control.to,
            next: NO_PACKET,
            out: Port::FIRST,
            class: control.class,
            source: control.source,
            kind: control.kind,
            sl: control.sl,
            vl: control.vl,
            came: control.vl,
            fecn: false,
            validated: control.validated,
            becn: control.becn,
            severity: control.severity,
            last: true,
            pinned: false,
        };
        ctx.meters.control_injected += 1;
        ctx.packets.insert(packet)
    }
}
