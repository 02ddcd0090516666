//! Isolation of congested flows in special queues: FBICM (Paper V, II and III), HFDI and the isolation of EcoCC (Paper
//! VI, 3.1.2).
//!
//! ```text
//!  input port                                   output port
//!   normal queues  --post-processing--+          CAM: lines of the next switch's input
//!   special queue 0 <- CAM line 0 <---+               (destinations, stopped?)
//!   special queue 1 <- CAM line 1
//! ```
//!
//! - *Detection*: when a normal queue exceeds the detection threshold, the output that its first packet requests is a
//!   root. With one normal queue per input, a special queue is allocated for the root immediately (`at_root`). With one
//!   normal queue per output, the normal queue already contains only packets for the root, so it only gets a CAM line.
//! - *Post-processing*: if the destination of a packet at the head of a normal queue is on a CAM line of its input or
//!   of the output that it requests, the packet moves to that line's special queue. This takes no time, because only
//!   pointers move.
//! - *Propagation*: when the queue of a line exceeds its threshold (for a normal queue, at detection), the line is sent
//!   upstream, and the output port there stores it. An input allocates a special queue for the line when its first
//!   matching packet requests that output.
//! - *Stop and Go*: once the line has been sent, storing a packet above the stop threshold stops the queue upstream.
//!   When the fill falls to the go threshold, that queue may send again.
//! - *Exhaustion*: a packet that finds no free special queue stays in its normal queue and blocks the packets behind it
//!   while its flow is stopped.
//! - *Release*: an empty special queue that is not stopped is released. Its line is deleted here and at the output
//!   upstream.
//!
//! The papers leave some points open, which this implementation decides as follows:
//! - "The second time the threshold is reached" (Paper VI, 3.1.2) is taken to be the next packet that is stored above
//!   the threshold. Otherwise, a queue that never falls below the threshold would grow without bound.
//! - Stop applies to all packets for the destinations of a line, in any queue, as in the host's arbiter (Paper VI,
//!   3.2). If Stop applied only to special queues, packets in other queues would keep filling the next switch, and
//!   inputs that obey Stop would starve.
//! - The normal queue of a root is stopped and released in the same way as special queues, because its CAM line has the
//!   same bits. The line is released when the queue is empty.
//! - While a special queue holds packets for a destination, further packets for this destination join the same queue.
//!   Otherwise, they join the queue of the oldest matching line. This keeps packets in order when lines are allocated
//!   and released.
//! - If the next switch releases the line of a special queue, the queue keeps its packets, and accepts only packets
//!   that must stay in order behind these. It becomes free when it is empty, or is assigned to the next line that lists
//!   a destination of its packets.
//! - A host's normal queue never detects a root, because the host does not share its link with other hosts.

mod marks;
mod received;
mod shares;
#[cfg(test)]
mod tests;
mod views;

use std::sync::Arc;

use silvan_congestion::isolation::{IsolationThresholds, SpecialArbitration, SpecialQueues};
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::port::{Port, PortVl, Vl};

use self::marks::DestinationFilter;
use crate::packet::PacketId;

/// The parameters with thresholds in bytes, which are the same for all nodes of a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpecialQueueRule {
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

impl SpecialQueueRule {
    /// The rule with these parameters; `full` is the size of a full packet in bytes.
    pub fn new(parameters: &SpecialQueues, full: u32) -> Self {
        let IsolationThresholds { detection, stop, go } = parameters.thresholds(u64::from(full));
        let small = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        Self {
            queues: usize::from(parameters.queues),
            destinations: usize::from(parameters.destinations),
            detection: small(detection),
            stop: small(stop),
            go: small(go),
            at_root: parameters.at_root,
            message: small(parameters.message),
            arbitration: parameters.arbitration,
            longest_wait: parameters.longest_wait.unwrap_or(Time::from_us(10)),
        }
    }
}

/// The content of a notification about a CAM line of the sending input.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub(crate) enum LineMessage {
    /// The given destinations are congested; the list replaces an earlier one.
    Allocate(Box<[u32]>),
    Stop,
    Go,
    /// The line is free again.
    Release,
}

/// A notification from an input to the output upstream of it.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub(crate) struct Notice {
    pub vl: Vl,
    /// Number of the line at the sending input.
    pub line: u16,
    /// The rate that the root accepts from its flows. Present if arbitration needs it and the tree exists.
    pub rate: Option<Rate>,
    pub message: LineMessage,
}

/// Counters since the start of the run.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct IsolationCounters {
    /// Number of special queues allocated.
    pub allocations: u64,
    /// Number of times that no special queue was free for a packet that should be isolated.
    pub exhausted: u64,
    /// Number of released special queues, and the total time for which they had been allocated.
    pub releases: u64,
    pub life_ps: u128,
    /// Number of notifications sent: allocate, stop, go, release.
    pub messages: [u64; 4],
}

impl IsolationCounters {
    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.exhausted += other.exhausted;
        self.releases += other.releases;
        self.life_ps += other.life_ps;
        self.messages.iter_mut().zip(other.messages).for_each(|(sum, count)| *sum += count);
    }
}

/// The place where the destinations of a special queue's line are stored.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
enum Cause {
    /// The root is an output of this switch; these are the destinations.
    Root(Vec<u32>),
    /// The root is further downstream; the destinations are on this line of the output's CAM.
    Branch(u16),
    /// The next switch has released the line, so no more packets match it.
    Orphan,
}

/// The CAM line of a special queue.
#[derive(Debug, Clone, Saved)]
struct Line {
    /// The output of this node for which the line was allocated.
    output: PortVl,
    cause: Cause,
    /// The position of the line in the order of allocations.
    age: u64,
    born: Time,
    propagated: bool,
    sent_stop: bool,
    /// Destinations of the packets in the queue, with the number of packets for each destination.
    held: Vec<(u32, u32)>,
    /// With [`Cause::Root`]: a normal queue and a packet in it. The line lists the destinations of all
    /// packets of the queue, up to this packet, that request the root.
    read: Option<(u32, PacketId)>,
}

/// The state of the CAM line of a normal queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum OwnLine {
    /// There is no line.
    Free,
    /// The CAM line has been sent upstream.
    Going,
    /// Stop has also been sent.
    Stopped,
}

/// A line of an output's CAM, which corresponds to a line of the next node's input.
#[derive(Debug, Clone, Saved)]
struct OutputLine {
    line: u16,
    destinations: Box<[u32]>,
    stopped: bool,
    /// The last reported rate that the root accepts from its flows.
    rate: Option<Rate>,
}

/// The CAM of an input. Occupies half a cache line.
#[derive(Debug, Clone, Default, Saved)]
#[repr(align(32))]
struct InputCam {
    /// Destinations that the input's special queues hold or that are listed for a root. The set may include outdated
    /// destinations.
    marks: DestinationFilter,
    /// Lines of its special queues.
    special: Box<[Option<Line>]>,
    /// Number of special queues in use.
    used: u16,
    /// Number of lines of its normal queues.
    own: u16,
    /// Whether a packet could not be isolated since the last release of a queue.
    wanting: bool,
}

const _: () = assert!(size_of::<InputCam>() == 32);

/// Adds destinations that a line does not list yet, up to the line's limit.
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

/// An input port and one of its virtual lanes. The lane is stored separately because all callers need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputLane {
    pub input: PortVl,
    pub vl: Vl,
}

/// A normal queue that has grown, and the output that its first packet requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    pub at: InputLane,
    /// The queue, and its last packet.
    pub queue: u32,
    pub last: PacketId,
    /// The output, on the lane of the queue, and its port.
    pub output: PortVl,
    pub port: Port,
    /// Bytes in the queue.
    pub bytes: u32,
}

/// The CAMs of a node. Inputs and outputs are each a [`PortVl`], unless they are called ports.
// The order of the fields follows their use: those that every packet needs come first.
#[derive(Debug, Saved)]
#[repr(C)]
pub(crate) struct Cams {
    rule: Arc<SpecialQueueRule>,
    inputs: Box<[InputCam]>,
    /// Lines of normal queues, indexed by `input * ports + output port`. Empty unless each queue has one output.
    own: Box<[OwnLine]>,
    /// The destinations on the lines of each output.
    listed: Box<[DestinationFilter]>,
    /// Number of lines of all outputs.
    output_lines: u32,
    /// Number of normal queues per input that may have a line.
    own_ports: u16,
    lanes: u8,
    /// Whether normal queues detect roots, which is false for hosts.
    detects: bool,
    outputs: Box<[Vec<OutputLine>]>,
    /// Rate of the link at each output port.
    rates: Box<[Rate]>,
    ages: u64,
    pub tally: Box<IsolationCounters>,
}

impl Cams {
    /// Creates the CAMs of a node. The node has one output for each element of the links' rates.
    pub fn new(
        rule: Arc<SpecialQueueRule>,
        inputs: usize,
        rates: Box<[Rate]>,
        lanes: usize,
        detects: bool,
    ) -> Self {
        let outputs = rates.len();
        let own_ports = if rule.at_root || !detects { 0 } else { outputs };
        let input = InputCam { special: vec![None; rule.queues].into(), ..InputCam::default() };
        Self {
            rule,
            lanes: lanes as u8,
            rates,
            detects,
            inputs: vec![input; inputs * lanes].into(),
            own: vec![OwnLine::Free; inputs * lanes * own_ports].into(),
            own_ports: own_ports as u16,
            outputs: vec![Vec::new(); outputs * lanes].into(),
            listed: vec![DestinationFilter::default(); outputs * lanes].into(),
            output_lines: 0,
            ages: 0,
            tally: Box::default(),
        }
    }

    fn lanes(&self) -> usize {
        usize::from(self.lanes)
    }

    pub fn rule(&self) -> &SpecialQueueRule {
        &self.rule
    }

    /// Size of a notification on the wire, in bytes.
    pub fn wire_size(&self, message: &LineMessage) -> u32 {
        let listed = if let LineMessage::Allocate(destinations) = message { destinations.len() } else { 0 };
        self.rule.message + 2 * listed as u32
    }

    pub fn inputs(&self) -> impl Iterator<Item = PortVl> {
        (0..self.inputs.len()).map(PortVl::new)
    }

    /// Whether a normal queue that has grown to `bytes` may indicate a root; see [`Self::normal_grew`].
    #[inline]
    pub fn may_detect(&self, bytes: u32) -> bool {
        self.detects && bytes > self.rule.detection.min(self.rule.stop)
    }

    /// Whether a packet at an input could match any line of that input or of any output.
    #[inline]
    pub fn has_lines(&self, input: PortVl) -> bool {
        self.output_lines > 0 || self.inputs[input.index()].used > 0
    }

    /// Whether a packet at an input matches no line and is not stopped by a line of its output.
    #[inline]
    pub fn is_quiet(&self, input: PortVl, output: PortVl, dst: u32) -> bool {
        !self.inputs[input.index()].marks.or(self.listed[output.index()]).may_contain(dst)
    }

    /// Whether the normal queue of an input for the output `port` has a line.
    #[inline]
    pub fn has_own_line(&self, input: PortVl, port: Port) -> bool {
        self.inputs[input.index()].own > 0
            && self.own.get(self.own_index(input, port)).is_some_and(|line| *line != OwnLine::Free)
    }

    /// Prefetches the data for a packet that arrives at an input and requests an output.
    #[inline]
    pub fn prefetch(&self, input: PortVl, output: PortVl) {
        prefetch(&self.inputs, input.index());
        prefetch(&self.listed, output.index());
    }

    /// The index of the line of an input's normal queue for the output `port`.
    #[inline(always)]
    fn own_index(&self, input: PortVl, port: Port) -> usize {
        input.index() * usize::from(self.own_ports) + port.index()
    }

    /// The number of the CAM line of a normal queue for the output `port` in notifications. Lower numbers
    /// belong to the lines of special queues.
    fn own_number(&self, port: Port) -> u16 {
        (self.rule.queues + port.index()) as u16
    }

    /// Returns the special queue to which the packet at the head of a normal queue must move, if any. If only a line of the
    /// output lists the destination, allocates a queue; if none is free, the packet stays.
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

    /// The line of an output that has this number at the next node.
    fn known(&self, output: PortVl, number: u16) -> Option<&OutputLine> {
        self.outputs[output.index()].iter().find(|line| line.line == number)
    }

    /// Allocates a special queue. Returns `None` if none is free; `cause` is then not called.
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
        let (propagated, sent_stop, read) = (false, false, None);
        cam.special[at] = Some(Line { output, cause, age, born, propagated, sent_stop, held, read });
        Some(at)
    }

    /// Handles the growth of a normal queue, and returns the notification for the upstream node, if any.
    /// `waiting` returns the destinations of the queue's packets for the output, in order: those behind a
    /// given packet, or all of them.
    pub fn normal_grew<I: Iterator<Item = u32>>(
        &mut self,
        growth: Growth,
        waiting: impl Fn(Option<PacketId>) -> I,
        now: Time,
    ) -> Option<Notice> {
        let Growth { at: InputLane { input, vl }, port, bytes, .. } = growth;
        if !self.may_detect(bytes) {
            return None;
        }
        if self.rule.at_root {
            return if bytes > self.rule.detection { self.root(growth, waiting, now) } else { None };
        }
        let (line, at) = (self.own_number(port), self.own_index(input, port));
        let own = &mut self.own[at];
        let message = match *own {
            OwnLine::Going if bytes > self.rule.stop => {
                *own = OwnLine::Stopped;
                LineMessage::Stop
            }
            OwnLine::Free if bytes > self.rule.detection => {
                *own = OwnLine::Going;
                self.inputs[input.index()].own += 1;
                let mut list = Vec::new();
                extend(&mut list, waiting(None), self.rule.destinations);
                LineMessage::Allocate(list.into())
            }
            _ => return None,
        };
        let rate = self.announced_rate_of_line(vl, port);
        self.say(vl, line, rate, message)
    }

    /// Handles the detection of a root if its own switch allocates special queues. Adds the destinations of
    /// waiting packets to the root's line at this input, or to a new line if that line is full.
    fn root<I: Iterator<Item = u32>>(
        &mut self,
        growth: Growth,
        waiting: impl Fn(Option<PacketId>) -> I,
        now: Time,
    ) -> Option<Notice> {
        let Growth { at: of, output, queue, last, .. } = growth;
        let input = of.input;
        let room = self.rule.destinations;
        let InputCam { special, marks, .. } = &mut self.inputs[input.index()];
        let lines = special.iter_mut().enumerate();
        let mut known = lines.filter_map(|(at, line)| match line {
            Some(Line { output: own, cause: Cause::Root(list), propagated, read, .. }) if *own == output => {
                Some((at, list, *propagated, read))
            }
            _ => None,
        });
        if let Some((at, list, propagated, read)) = known.find(|(_, list, ..)| list.len() < room) {
            let before = list.len();
            // Packets that had arrived when the line was last extended cannot add to the list.
            let behind = read.filter(|read| read.0 == queue).map(|read| read.1);
            extend(list, waiting(behind), room);
            debug_assert!(list.len() >= room || waiting(None).all(|dst| list.contains(&dst)));
            *read = (list.len() < room).then_some((queue, last));
            list[before..].iter().for_each(|&dst| marks.insert(dst));
            let list = propagated.then(|| list.clone().into())?;
            return self.say_special(of, at, LineMessage::Allocate(list));
        }
        let cause = || {
            let mut list = Vec::new();
            extend(&mut list, waiting(None), room);
            Cause::Root(list)
        };
        self.take(input, output, cause, now);
        None
    }

    fn say_special(&mut self, of: InputLane, at: usize, message: LineMessage) -> Option<Notice> {
        self.say(of.vl, at as u16, self.announced_rate(of.input, at), message)
    }

    fn say(&mut self, vl: Vl, line: u16, rate: Option<Rate>, message: LineMessage) -> Option<Notice> {
        let kind = match message {
            LineMessage::Allocate(_) => 0,
            LineMessage::Stop => 1,
            LineMessage::Go => 2,
            LineMessage::Release => 3,
        };
        self.tally.messages[kind] += 1;
        Some(Notice { vl, line, rate, message })
    }

    /// Handles a packet that leaves a normal queue of an input.
    #[inline(always)]
    pub fn normal_lost(&mut self, input: PortVl, id: PacketId) {
        if self.inputs[input.index()].used > 0 && self.rule.at_root {
            self.forget_read(input, id);
        }
    }

    /// Clears `read` of the CAM lines of an input in which `read` names this packet.
    #[inline(never)]
    fn forget_read(&mut self, input: PortVl, id: PacketId) {
        for line in self.inputs[input.index()].special.iter_mut().flatten() {
            line.read = line.read.filter(|read| read.1 != id);
        }
    }

    /// Handles a normal queue that a departing packet for the output `port` has reduced to `bytes`. Returns
    /// the notification for the upstream node, if any.
    #[inline]
    pub fn normal_shrank(&mut self, of: InputLane, port: Port, bytes: u32) -> Option<Notice> {
        let InputLane { input, vl } = of;
        let go = self.rule.go;
        let (line, at) = (self.own_number(port), self.own_index(input, port));
        let own = self.own.get_mut(at)?;
        if *own == OwnLine::Free {
            None
        } else if bytes == 0 {
            *own = OwnLine::Free;
            self.inputs[input.index()].own -= 1;
            self.say(vl, line, None, LineMessage::Release)
        } else if *own == OwnLine::Stopped && bytes <= go {
            *own = OwnLine::Going;
            self.say(vl, line, self.announced_rate_of_line(vl, port), LineMessage::Go)
        } else {
            None
        }
    }

    /// Handles a packet for `dst` that was stored in a special queue, whose size is now `bytes`. Returns the
    /// notification for the upstream node, if any.
    pub fn special_grew(&mut self, of: InputLane, at: usize, dst: u32, bytes: u32) -> Option<Notice> {
        let stop = self.rule.stop;
        let InputCam { special, marks, .. } = &mut self.inputs[of.input.index()];
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
            return self.say_special(of, at, LineMessage::Stop);
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
        self.say_special(of, at, LineMessage::Allocate(list))
    }

    /// Handles a packet for `dst` that left a special queue, whose size is now `bytes`. Returns the
    /// notification for the upstream node, if any. If the queue is empty, the caller must call
    /// [`Self::release`].
    pub fn special_shrank(&mut self, of: InputLane, at: usize, dst: u32, bytes: u32) -> Option<Notice> {
        let go = self.rule.go;
        let line = self.inputs[of.input.index()].special[at].as_mut()?;
        if let Some(place) = line.held.iter().position(|held| held.0 == dst) {
            line.held[place].1 -= 1;
            if line.held[place].1 == 0 {
                line.held.swap_remove(place);
            }
        }
        if bytes > 0 && line.sent_stop && bytes <= go {
            line.sent_stop = false;
            return self.say_special(of, at, LineMessage::Go);
        }
        None
    }

    /// Releases an empty special queue unless it is stopped. Returns whether it was released, and the notification for
    /// the upstream node.
    pub fn release(&mut self, of: InputLane, at: usize, now: Time) -> (bool, Option<Notice>) {
        if self.is_stopped(of.input, at) {
            return (false, None);
        }
        let cam = &mut self.inputs[of.input.index()];
        let Some(line) = cam.special[at].take() else { return (false, None) };
        cam.used -= 1;
        cam.mark_again();
        self.tally.releases += 1;
        self.tally.life_ps += u128::from((now - line.born).0);
        (true, if line.propagated { self.say_special(of, at, LineMessage::Release) } else { None })
    }

    /// Whether a packet at the input found no free special queue since the last call.
    pub fn take_wanting(&mut self, input: PortVl) -> bool {
        std::mem::take(&mut self.inputs[input.index()].wanting)
    }

    /// Whether the next node has stopped the line for which a special queue was allocated.
    fn is_stopped(&self, input: PortVl, at: usize) -> bool {
        match &self.inputs[input.index()].special[at] {
            Some(Line { output, cause: Cause::Branch(number), .. }) => {
                self.known(*output, *number).is_some_and(|line| line.stopped)
            }
            Some(Line { cause: Cause::Root(_) | Cause::Orphan, .. }) | None => false,
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
