//! Isolation of congested flows in special queues: FBICM (Paper V, II and III), HFDI and the
//! isolating half of EcoCC (Paper VI, 3.1.2).
//!
//! ```text
//!  input port                                   output port
//!   normal queues  --post-processing--+          CAM: lines of the next switch's input
//!   special queue 0 <- CAM line 0 <---+               (destinations, stopped?)
//!   special queue 1 <- CAM line 1
//! ```
//!
//! - *Detection*: a normal queue above the detection threshold makes the output that its first
//!   packet asks for a root. With one normal queue per input a special queue is taken for the
//!   root at once (`at_root`); with one per output, the normal queue is the root's own already, and
//!   gets a CAM line only.
//! - *Post-processing*: a packet at the head of a normal queue whose destination is on a CAM line
//!   of that input or of the output it asks for moves to that line's special queue. Pointers move,
//!   not data, so it takes no time.
//! - *Propagation*: a line whose queue is above its threshold is sent upstream (for a normal queue,
//!   at detection), where it is stored at the output port; inputs take a special queue for it when
//!   their first matching packet asks for that output.
//! - *Stop and Go*: a packet stored above the stop threshold after the line was sent stops the
//!   queue upstream, falling to the go threshold lets it go.
//! - *Exhaustion*: a packet that finds no free special queue stays in its normal queue and blocks what
//!   is behind it while its flow is stopped.
//! - *Release*: a special queue that is empty and not stopped is given back, and with it its line
//!   here and at the output upstream.
//!
//! What the papers leave open, and what is chosen here:
//! - "The second time the threshold is reached" (Paper VI, 3.1.2) is the next packet stored above
//!   it; otherwise a queue that never falls below it would grow without bound.
//! - Stop holds for the destinations of a line, wherever their packets wait, as the host's arbiter
//!   has it (Paper VI, 3.2). If it held for special queues only, packets without one would fill the
//!   next switch for ever, and inputs that obey would starve.
//! - The normal queue of a root is stopped and let go as special queues are (it has a CAM line with
//!   the same bits), and its line is released when it is empty.
//! - A packet follows those before it: while a special queue holds packets for its destination, it
//!   goes there; else to the oldest matching line. So nothing is reordered when lines come and go.
//! - A special queue whose line the next switch released keeps what it holds, and takes only what
//!   must follow that; it is free when empty, or comes under the next line that lists a destination
//!   it holds packets for.
//! - A host's own queue never finds a root: the host's link is not shared with anybody.

mod marks;
mod received;
mod shares;
mod views;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::cache::prefetch;
use silvan_engine::{Bytes, Rate, Time};

use self::marks::Marks;
use super::SpecialArbitration;
use crate::port::{Port, PortVl, Vl};

/// An isolation rule with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Isolation {
    /// Congested flows share queues with others.
    None,
    /// Special queues, given to congestion trees as they come.
    SpecialQueues(SpecialQueues),
}

/// Parameters of dynamic isolation in special queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpecialQueues {
    /// Special queues of each input port and virtual lane (CFQs, HPQs), each with a CAM line.
    #[schemars(range(max = 64))]
    pub queues: u8,
    /// Destinations that a CAM line can list.
    #[schemars(range(min = 1, max = 4096))]
    pub destinations: u16,
    /// Fill of a normal queue above which a root is found; by default six full packets.
    pub detection: Option<Bytes>,
    /// Fill of a special queue above which its line goes upstream, and then Stop; by default six
    /// full packets.
    pub stop: Option<Bytes>,
    /// Fill at or below which a stopped queue upstream may go on; by default four full packets.
    pub go: Option<Bytes>,
    /// Whether a root's own switch takes special queues for it, which it need not where normal
    /// queues are per output.
    pub at_root: bool,
    /// Size of a notification on the wire, to which its list of destinations adds two bytes each.
    pub message: Bytes,
    /// How normal and special queues take turns at an output.
    pub arbitration: SpecialArbitration,
    /// With `arbitration = "strict"`: the time after which a special queue that may go does so before normal
    /// ones; by default 10 us.
    pub longest_wait: Option<Time>,
}

impl Default for SpecialQueues {
    fn default() -> Self {
        Self {
            queues: 2,
            destinations: 8,
            detection: None,
            stop: None,
            go: None,
            at_root: false,
            message: Bytes(16),
            arbitration: SpecialArbitration::RoundRobin,
            longest_wait: None,
        }
    }
}

impl SpecialQueues {
    /// The thresholds for detection, Stop and Go, in bytes, for full packets of a size.
    #[must_use]
    pub fn thresholds(&self, full: u64) -> (Bytes, Bytes, Bytes) {
        let or = |given: Option<Bytes>, packets| given.unwrap_or(Bytes(packets * full));
        (or(self.detection, 6), or(self.stop, 6), or(self.go, 4))
    }

    pub(crate) fn rule(&self, full: u32) -> Rule {
        let (detection, stop, go) = self.thresholds(u64::from(full));
        let small = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        Rule {
            queues: usize::from(self.queues),
            destinations: usize::from(self.destinations),
            detection: small(detection),
            stop: small(stop),
            go: small(go),
            at_root: self.at_root,
            message: small(self.message),
            arbitration: self.arbitration,
            longest_wait: self.longest_wait.unwrap_or(Time::from_us(10)),
        }
    }
}

/// The parameters with thresholds in bytes, the same for all nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub queues: usize,
    destinations: usize,
    detection: u32,
    stop: u32,
    go: u32,
    pub at_root: bool,
    message: u32,
    pub arbitration: SpecialArbitration,
    pub longest_wait: Time,
}

/// What a notification says about a CAM line of the input that sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// These destinations are congested; replaces an earlier list.
    Allocate(Box<[u32]>),
    Stop,
    Go,
    /// The line is free again.
    Release,
}

/// A notification from an input to the output upstream of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub vl: Vl,
    /// Number of the line at the input that sends it.
    pub line: u16,
    /// What the root takes of its flows, where arbitration asks for it and its tree is there.
    pub rate: Option<Rate>,
    pub message: Message,
}

/// What was counted since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Special queues taken.
    pub allocations: u64,
    /// Times a packet was to be isolated and no special queue was free.
    pub exhausted: u64,
    /// Special queues given back, and how long they had been taken in all.
    pub releases: u64,
    pub life_ps: u128,
    /// Notifications sent: allocate, stop, go, release.
    pub messages: [u64; 4],
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.exhausted += other.exhausted;
        self.releases += other.releases;
        self.life_ps += other.life_ps;
        self.messages.iter_mut().zip(other.messages).for_each(|(sum, count)| *sum += count);
    }
}

/// Where the destinations of a special queue's line are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    /// The root is an output of this switch; these are the destinations.
    Root(Vec<u32>),
    /// The root is further down; they are on this line of the output's CAM.
    Branch(u16),
    /// The next switch has released its line: nothing matches any more.
    Orphan,
}

/// The CAM line of a special queue.
#[derive(Debug, Clone)]
struct Line {
    /// Output of this node.
    output: PortVl,
    cause: Cause,
    /// Lines were taken in this order.
    age: u64,
    born: Time,
    propagated: bool,
    sent_stop: bool,
    /// Destinations of the packets in the queue, and how many of each.
    held: Vec<(u32, u32)>,
}

/// The CAM line of a normal queue, which is a root's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnLine {
    /// There is none.
    Free,
    /// It has been sent upstream.
    Going,
    /// Stop has been sent since.
    Stopped,
}

/// A line of an output's CAM: one of the next node's input.
#[derive(Debug, Clone)]
struct OutputLine {
    line: u16,
    destinations: Box<[u32]>,
    stopped: bool,
    /// What the root takes of its flows, as was told last.
    rate: Option<Rate>,
}

/// The CAM of an input. Half a cache line.
#[derive(Debug, Clone, Default)]
#[repr(align(32))]
struct InputCam {
    /// Those that its special queues hold or list as a root's, and perhaps some that they did.
    marks: Marks,
    /// Of its special queues.
    special: Box<[Option<Line>]>,
    /// Special queues in use.
    used: u16,
    /// Lines of its normal queues.
    own: u16,
    /// Whether a packet could not be isolated since a queue was given back last.
    wanting: bool,
}

/// Adds the destinations that a line does not list yet, as many as it has room for.
fn extend(list: &mut Vec<u32>, waiting: impl Iterator<Item = u32>, room: usize) {
    for dst in waiting {
        if list.len() >= room {
            return;
        }
        if !list.contains(&dst) {
            list.push(dst);
        }
    }
}

/// The CAMs of a node. Inputs and outputs are a [`PortVl`] each, unless they are called ports.
// In memory the fields lie in this order: first what every packet touches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cams {
    rule: Arc<Rule>,
    lanes: usize,
    inputs: Box<[InputCam]>,
    /// Of normal queues, where each has an output of its own: `[input * ports + output port]`; else empty.
    own: Box<[OwnLine]>,
    /// Normal queues of an input that may have a line of their own.
    own_ports: usize,
    /// Per output: the destinations on its lines.
    listed: Box<[Marks]>,
    /// Whether normal queues find roots (a host's do not).
    detects: bool,
    outputs: Box<[Vec<OutputLine>]>,
    /// Lines of all outputs.
    output_lines: usize,
    /// Of the link at each output port.
    rates: Box<[Rate]>,
    ages: u64,
    pub tally: Tally,
}

impl Cams {
    /// With an output for each of the links' rates.
    pub fn new(rule: Arc<Rule>, inputs: usize, rates: Box<[Rate]>, lanes: usize, detects: bool) -> Self {
        let outputs = rates.len();
        let own_ports = if rule.at_root || !detects { 0 } else { outputs };
        let input = InputCam { special: vec![None; rule.queues].into(), ..InputCam::default() };
        Self {
            rule,
            lanes,
            rates,
            detects,
            inputs: vec![input; inputs * lanes].into(),
            own: vec![OwnLine::Free; inputs * lanes * own_ports].into(),
            own_ports,
            outputs: vec![Vec::new(); outputs * lanes].into(),
            listed: vec![Marks::default(); outputs * lanes].into(),
            output_lines: 0,
            ages: 0,
            tally: Tally::default(),
        }
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Size of a notification on the wire.
    pub fn wire_size(&self, message: &Message) -> u32 {
        let listed = if let Message::Allocate(destinations) = message { destinations.len() } else { 0 };
        self.rule.message + 2 * listed as u32
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = PortVl> {
        (0..self.inputs.len()).map(PortVl::new)
    }

    /// Whether a normal queue that has grown to so many bytes may show a root; see
    /// [`Self::normal_grew`].
    #[inline]
    pub fn may_detect(&self, bytes: u32) -> bool {
        self.detects && bytes > self.rule.detection.min(self.rule.stop)
    }

    /// Whether there are lines that a packet at an input could match, of that input or of any output.
    #[inline]
    pub fn has_lines(&self, input: PortVl) -> bool {
        self.output_lines > 0 || self.inputs[input.index()].used > 0
    }

    /// Whether a packet at an input for an output cannot match any line, and no line there stops it.
    #[inline]
    pub fn is_quiet(&self, input: PortVl, output: PortVl, dst: u32) -> bool {
        !self.inputs[input.index()].marks.or(self.listed[output.index()]).may_contain(dst)
    }

    /// Whether the normal queue of an input has a line of its own for the output `port`.
    #[inline]
    pub fn has_own_line(&self, input: PortVl, port: Port) -> bool {
        self.inputs[input.index()].own > 0
            && self.own.get(self.own_index(input, port)).is_some_and(|line| *line != OwnLine::Free)
    }

    /// Has what a packet touches that comes in at an input for an output brought into the cache.
    #[inline]
    pub fn prefetch(&self, input: PortVl, output: PortVl) {
        prefetch(&self.inputs, input.index());
        prefetch(&self.listed, output.index());
    }

    /// The index of the own line of an input's normal queue for the output `port`.
    #[inline(always)]
    fn own_index(&self, input: PortVl, port: Port) -> usize {
        input.index() * self.own_ports + port.index()
    }

    /// The number upstream of the own line of a normal queue for the output `port`: those of special queues come
    /// first.
    fn own_number(&self, port: Port) -> u16 {
        (self.rule.queues + port.index()) as u16
    }

    /// The special queue that the packet at the head of a normal queue moves to, if any.
    pub fn special_for(&mut self, input: PortVl, output: PortVl, dst: u32, now: Time) -> Option<usize> {
        if self.is_quiet(input, output, dst) {
            return None;
        }
        let cam = &self.inputs[input.index()];
        let lines = || cam.special.iter().enumerate().filter_map(|(at, line)| Some((at, line.as_ref()?)));
        let follows = lines().find(|(_, line)| line.held.iter().any(|held| held.0 == dst));
        let matches = |line: &Line| {
            line.output == output
                && match &line.cause {
                    Cause::Root(destinations) => destinations.contains(&dst),
                    Cause::Branch(number) => {
                        self.known(output, *number).is_some_and(|line| line.destinations.contains(&dst))
                    }
                    Cause::Orphan => false,
                }
        };
        let oldest = || lines().filter(|(_, line)| matches(line)).min_by_key(|(_, line)| line.age);
        if let Some((at, _)) = follows.or_else(oldest) {
            return Some(at);
        }
        let listed = self.outputs[output.index()].iter().find(|line| line.destinations.contains(&dst))?;
        let line = listed.line;
        self.take(input, output, || Cause::Branch(line), now)
    }

    /// The line of an output that the next node gave this number.
    fn known(&self, output: PortVl, number: u16) -> Option<&OutputLine> {
        self.outputs[output.index()].iter().find(|line| line.line == number)
    }

    /// Takes a free special queue; `cause` is asked only if there is one.
    fn take(
        &mut self,
        input: PortVl,
        output: PortVl,
        cause: impl FnOnce() -> Cause,
        now: Time,
    ) -> Option<usize> {
        let cam = &mut self.inputs[input.index()];
        let Some(at) = cam.special.iter().position(Option::is_none) else {
            cam.wanting = true;
            self.tally.exhausted += 1;
            return None;
        };
        self.ages += 1;
        cam.used += 1;
        self.tally.allocations += 1;
        let (age, born, cause) = (self.ages, now, cause());
        if let Cause::Root(listed) = &cause {
            listed.iter().for_each(|&dst| cam.marks.insert(dst));
        }
        let held = Vec::new();
        cam.special[at] = Some(Line { output, cause, age, born, propagated: false, sent_stop: false, held });
        Some(at)
    }

    /// A normal queue has grown to `bytes`; its first packet asks for `output` (of this virtual lane, which is
    /// that of the port `port`). `waiting` tells the destinations of its packets for that
    /// output, the first one first.
    pub fn normal_grew(
        &mut self,
        (input, vl): (PortVl, Vl),
        (output, port): (PortVl, Port),
        bytes: u32,
        waiting: impl Iterator<Item = u32>,
        now: Time,
    ) -> Option<Notice> {
        if !self.may_detect(bytes) {
            return None;
        }
        if self.rule.at_root {
            return if bytes > self.rule.detection {
                self.root(input, vl, output, waiting, now)
            } else {
                None
            };
        }
        let (line, at) = (self.own_number(port), self.own_index(input, port));
        let own = &mut self.own[at];
        let message = match *own {
            OwnLine::Going if bytes > self.rule.stop => {
                *own = OwnLine::Stopped;
                Message::Stop
            }
            OwnLine::Free if bytes > self.rule.detection => {
                *own = OwnLine::Going;
                self.inputs[input.index()].own += 1;
                let mut list = Vec::new();
                extend(&mut list, waiting, self.rule.destinations);
                Message::Allocate(list.into())
            }
            _ => return None,
        };
        let rate = self.told_of_own(vl, port);
        self.say(vl, line, rate, message)
    }

    /// A root was found that special queues are taken for in its own switch: the first destination
    /// goes to the line that the root has at this input, while it has room, else to one of its own.
    fn root(
        &mut self,
        input: PortVl,
        vl: Vl,
        output: PortVl,
        waiting: impl Iterator<Item = u32>,
        now: Time,
    ) -> Option<Notice> {
        let room = self.rule.destinations;
        let InputCam { special, marks, .. } = &mut self.inputs[input.index()];
        let lines = special.iter_mut().enumerate();
        let mut known = lines.filter_map(|(at, line)| match line {
            Some(Line { output: of, cause: Cause::Root(list), propagated, .. }) if *of == output => {
                Some((at, list, *propagated))
            }
            _ => None,
        });
        if let Some((at, list, propagated)) = known.find(|(_, list, _)| list.len() < room) {
            let before = list.len();
            extend(list, waiting, room);
            list[before..].iter().for_each(|&dst| marks.insert(dst));
            let list = propagated.then(|| list.clone().into())?;
            return self.say_special((input, vl), at, Message::Allocate(list));
        }
        let cause = || {
            let mut list = Vec::new();
            extend(&mut list, waiting, room);
            Cause::Root(list)
        };
        self.take(input, output, cause, now);
        None
    }

    fn say_special(&mut self, (input, vl): (PortVl, Vl), at: usize, message: Message) -> Option<Notice> {
        self.say(vl, at as u16, self.told(input, at), message)
    }

    fn say(&mut self, vl: Vl, line: u16, rate: Option<Rate>, message: Message) -> Option<Notice> {
        let kind = match message {
            Message::Allocate(_) => 0,
            Message::Stop => 1,
            Message::Go => 2,
            Message::Release => 3,
        };
        self.tally.messages[kind] += 1;
        Some(Notice { vl, line, rate, message })
    }

    /// A normal queue has shrunk to `bytes` by a packet for the output `port`.
    #[inline]
    pub fn normal_shrank(&mut self, (input, vl): (PortVl, Vl), port: Port, bytes: u32) -> Option<Notice> {
        let go = self.rule.go;
        let (line, at) = (self.own_number(port), self.own_index(input, port));
        let own = self.own.get_mut(at)?;
        if *own == OwnLine::Free {
            None
        } else if bytes == 0 {
            *own = OwnLine::Free;
            self.inputs[input.index()].own -= 1;
            self.say(vl, line, None, Message::Release)
        } else if *own == OwnLine::Stopped && bytes <= go {
            *own = OwnLine::Going;
            self.say(vl, line, self.told_of_own(vl, port), Message::Go)
        } else {
            None
        }
    }

    /// A packet for `dst` was stored in a special queue, which has `bytes` now.
    pub fn special_grew(
        &mut self,
        (input, vl): (PortVl, Vl),
        at: usize,
        dst: u32,
        bytes: u32,
    ) -> Option<Notice> {
        let stop = self.rule.stop;
        let InputCam { special, marks, .. } = &mut self.inputs[input.index()];
        let (outputs, line) = (&self.outputs, special[at].as_mut()?);
        match line.held.iter_mut().find(|held| held.0 == dst) {
            Some(held) => held.1 += 1,
            None => {
                line.held.push((dst, 1));
                marks.insert(dst);
            }
        }
        if bytes <= stop {
            return None;
        }
        if line.propagated {
            if line.sent_stop {
                return None;
            }
            line.sent_stop = true;
            return self.say_special((input, vl), at, Message::Stop);
        }
        let list = match &line.cause {
            Cause::Root(list) => list.clone().into(),
            Cause::Branch(number) => {
                let known = outputs[line.output.index()].iter().find(|known| known.line == *number)?;
                known.destinations.clone()
            }
            Cause::Orphan => return None,
        };
        line.propagated = true;
        self.say_special((input, vl), at, Message::Allocate(list))
    }

    /// A packet for `dst` left a special queue, which has `bytes` now; an empty queue is to be
    /// offered for [`Self::release`] afterwards.
    pub fn special_shrank(
        &mut self,
        (input, vl): (PortVl, Vl),
        at: usize,
        dst: u32,
        bytes: u32,
    ) -> Option<Notice> {
        let go = self.rule.go;
        let line = self.inputs[input.index()].special[at].as_mut()?;
        if let Some(place) = line.held.iter().position(|held| held.0 == dst) {
            line.held[place].1 -= 1;
            if line.held[place].1 == 0 {
                line.held.swap_remove(place);
            }
        }
        if bytes > 0 && line.sent_stop && bytes <= go {
            line.sent_stop = false;
            return self.say_special((input, vl), at, Message::Go);
        }
        None
    }

    /// Gives an empty special queue back, unless it is stopped. Returns whether it did, and what to
    /// tell upstream.
    pub fn release(&mut self, (input, vl): (PortVl, Vl), at: usize, now: Time) -> (bool, Option<Notice>) {
        if self.is_stopped(input, at) {
            return (false, None);
        }
        let cam = &mut self.inputs[input.index()];
        let Some(line) = cam.special[at].take() else { return (false, None) };
        cam.used -= 1;
        cam.mark_again();
        self.tally.releases += 1;
        self.tally.life_ps += u128::from((now - line.born).0);
        (true, if line.propagated { self.say_special((input, vl), at, Message::Release) } else { None })
    }

    /// Whether a packet waits at the input for a special queue to become free; asks once.
    pub fn take_wanting(&mut self, input: PortVl) -> bool {
        std::mem::take(&mut self.inputs[input.index()].wanting)
    }

    /// Whether the next node has stopped the line that a special queue was taken for.
    fn is_stopped(&self, input: PortVl, at: usize) -> bool {
        match &self.inputs[input.index()].special[at] {
            Some(Line { output, cause: Cause::Branch(number), .. }) => {
                self.known(*output, *number).is_some_and(|line| line.stopped)
            }
            _ => false,
        }
    }

    /// Whether the next node has stopped packets for a destination.
    #[inline]
    pub fn stops(&self, output: PortVl, dst: u32) -> bool {
        self.listed[output.index()].may_contain(dst) && self.stops_one_of(output, dst)
    }

    fn stops_one_of(&self, output: PortVl, dst: u32) -> bool {
        self.outputs[output.index()].iter().any(|line| line.stopped && line.destinations.contains(&dst))
    }

    /// The special queue of a root at this node's output, if the input has one.
    pub fn root_queue(&self, input: PortVl, output: PortVl) -> Option<usize> {
        let is_root = |line: &Option<Line>| {
            line.as_ref().is_some_and(|line| line.output == output && matches!(line.cause, Cause::Root(_)))
        };
        self.inputs[input.index()].special.iter().position(is_root)
    }
}
