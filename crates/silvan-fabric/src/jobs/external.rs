//! A program outside the model that sends messages and waits for their arrival, such as a caller of the library.
//!
//! The run stops at each instant at which the program has something to learn, after all arrivals and before hosts send. What
//! the program sends then is sent at that instant, as if a rank had posted it. Results therefore do not depend on how often
//! the program stops the run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::Message;

use super::application::{Application, Instant};
use crate::context::Context;
use crate::host::Host;
use crate::packet::FlowAddress;

/// A message of a program outside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalMessage {
    /// The host that sends, and another host, which receives.
    pub from: u32,
    /// See `from`.
    pub to: u32,
    /// Payload. A message that is smaller than a control packet takes as long as one.
    pub bytes: u64,
    /// Service level.
    pub sl: u8,
    /// Whether the run stops when the last byte has left.
    pub awaits_departure: bool,
}

/// What has happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub enum Fate {
    /// Its last byte has left its host, or is in the output buffer of the host, if there is one.
    Left,
    /// The receiving host has drained its last byte.
    Delivered,
}

/// Something that the program learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Heard {
    /// The number of the message: 0 for the first one of the run.
    pub message: u64,
    /// Payload of the message.
    pub bytes: u64,
    /// When it happened.
    pub time: Time,
    /// What has happened.
    pub fate: Fate,
}

/// What the network needs to know about the program before the run.
#[derive(Debug)]
pub(crate) struct ExternalSetup {
    pub class: u16,
    /// For each host, the source for service level 0. Those for the other levels follow.
    pub sources: Vec<u16>,
    /// Number of service levels.
    pub levels: u8,
    /// Payload of a message of zero bytes.
    pub least: u64,
}

/// A message on its way.
#[derive(Debug, Clone, Copy, Saved)]
struct Posted {
    message: u64,
    bytes: u64,
    awaits_departure: bool,
}

/// A message whose last byte will have left at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
struct LeavingMessage {
    time: Time,
    message: u64,
    bytes: u64,
    host: u32,
    is_awaited: bool,
}

/// The messages of a program outside the model.
#[derive(Debug, Saved)]
pub(crate) struct External {
    setup: Arc<ExternalSetup>,
    /// Number of messages so far.
    posted: u64,
    /// Number of messages that have not arrived.
    pending: u64,
    /// For each flow, the messages that have not left completely, in the order of posting.
    leaving: FxHashMap<FlowAddress, VecDeque<Posted>>,
    /// For each flow, the messages that have not arrived, in the order of posting.
    coming: FxHashMap<FlowAddress, VecDeque<Posted>>,
    departures: BinaryHeap<Reverse<LeavingMessage>>,
    /// For each host, bytes of the messages that have not left completely.
    unsent: Vec<u64>,
    /// What has happened since [`Self::take_heard`].
    heard: Vec<Heard>,
}

impl External {
    pub fn new(setup: Arc<ExternalSetup>) -> Self {
        let unsent = vec![0; setup.sources.len()];
        Self {
            setup,
            posted: 0,
            pending: 0,
            leaving: FxHashMap::default(),
            coming: FxHashMap::default(),
            departures: BinaryHeap::new(),
            unsent,
            heard: Vec::new(),
        }
    }

    /// The class of the messages.
    pub fn class(&self) -> u16 {
        self.setup.class
    }

    /// Number of service levels that messages can have.
    pub fn levels(&self) -> u8 {
        self.setup.levels
    }

    /// Number of messages that have not arrived.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Bytes of the messages of a host that have not left completely.
    pub fn unsent(&self, host: u32) -> u64 {
        self.unsent[host as usize]
    }

    /// Whether something has happened since [`Self::take_heard`].
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// What has happened since the last call, in the order of time.
    pub fn take_heard(&mut self) -> std::vec::Drain<'_, Heard> {
        self.heard.drain(..)
    }

    /// Sends a message now. Returns its number.
    pub fn send(&mut self, ctx: &mut Context, host: &mut Host, message: ExternalMessage) -> u64 {
        let ExternalMessage { from, to, bytes, sl, awaits_departure } = message;
        let source = self.setup.sources[from as usize] + u16::from(sl);
        let flow = FlowAddress { host: from, source, destination: to };
        let posted = Posted { message: self.posted, bytes, awaits_departure };
        self.posted += 1;
        self.pending += 1;
        self.unsent[from as usize] += bytes;
        self.leaving.entry(flow).or_default().push_back(posted);
        self.coming.entry(flow).or_default().push_back(posted);
        let left = bytes.max(self.setup.least);
        host.feed(ctx, source, Message { destination: to, created: ctx.now, left, hot: false });
        posted.message
    }
}

impl Application for External {
    fn next(&self) -> Option<Time> {
        self.departures.peek().map(|Reverse(departure)| departure.time)
    }

    fn received(&mut self, flow: FlowAddress, at: &mut Instant) -> bool {
        let posted = self.coming.get_mut(&flow).and_then(VecDeque::pop_front);
        let Some(Posted { message, bytes, .. }) = posted else { return false };
        self.pending -= 1;
        self.heard.push(Heard { message, bytes, time: at.ctx.now, fate: Fate::Delivered });
        true
    }

    fn left(&mut self, flow: FlowAddress, end: Time) -> bool {
        let posted = self.leaving.get_mut(&flow).and_then(VecDeque::pop_front);
        let Some(Posted { message, bytes, awaits_departure }) = posted else { return false };
        let departure =
            LeavingMessage { time: end, message, bytes, host: flow.host, is_awaited: awaits_departure };
        self.departures.push(Reverse(departure));
        true
    }

    fn step(&mut self, at: &mut Instant) {
        while let Some(&Reverse(LeavingMessage { time, message, bytes, host, is_awaited })) =
            self.departures.peek()
            && time <= at.ctx.now
        {
            self.departures.pop();
            self.unsent[host as usize] -= bytes;
            if is_awaited {
                self.heard.push(Heard { message, bytes, time, fate: Fate::Left });
            }
        }
    }

    fn stops_run(&self) -> bool {
        self.has_heard()
    }
}
