//! Errors of links, and link-level retry: go-back-N with a replay buffer, as in Ultra Ethernet (specification 1.0, 5.1; LLR
//! document of the Switch Abstraction Interface). InfiniBand's link-level retransmission has the same form.
//!
//! The sender
//!
//! - keeps each frame until it is acknowledged, and starts a new one only if the replay buffer has room for the largest frame;
//! - after a NACK, and when its timer expires, sends all unacknowledged frames again before any new frame.
//!
//! The receiver
//!
//! - delivers a good frame with the expected number, and acknowledges it, together with all earlier ones, at least
//!   `ack_spacing` after its last acknowledgement;
//! - discards all other frames; it answers the first one that is bad or has a later number with a NACK, which also
//!   acknowledges all earlier frames, and gives no answer to the following ones until it gets the expected frame;
//! - discards a good frame that it has delivered before, and acknowledges it again.
//!
//! A bad frame is discarded before the receiver forwards any part of it. Acknowledgements and NACKs take the delay of the
//! link, but no space on it, and can get lost like frames. If the link goes down, both ends discard their state: frames of the
//! replay buffer that the receiver has not accepted are lost. A link that is down carries no frames that are kept. What the
//! receiver does follows from the frames and from their errors, so the sender computes it when it sends a frame, and no event
//! at the receiver is needed.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use super::ChannelId;
use crate::packet::PacketId;

/// Errors are drawn in units of one per this number.
const BILLION: u32 = 1_000_000_000;

/// The settings that all links share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetrySpec {
    /// Limits of the replay buffer. Each frame counts with its bytes on the wire.
    pub frames: u32,
    pub bytes: u32,
    /// Time without progress after which all frames are sent again.
    pub timer: Time,
    /// Number of consecutive replays without progress after which the link has failed.
    pub count: u32,
    /// Bytes of the largest frame.
    pub largest: u32,
    /// Bad frames and lost messages per billion.
    pub error_ppb: u32,
    /// The minimum time between two acknowledgements is the transmission time of this number of bytes.
    pub ack_spacing: u32,
}

/// Counts since the start of the run. Frames and messages that are on their way at the end are included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Saved)]
pub(crate) struct Retries {
    /// Frames sent for the first time.
    pub frames: u64,
    /// Frames sent again.
    pub replayed: u64,
    /// Frames that the receiver discards because they are bad.
    pub bad: u64,
    /// Good frames that the receiver discards because it expects another one.
    pub discarded: u64,
    pub acks: u64,
    pub nacks: u64,
    /// Number of acknowledgements and NACKs that were lost.
    pub lost: u64,
    /// Replays that the timer triggered.
    pub timeouts: u64,
}

/// A frame in a replay buffer.
#[derive(Debug, Clone, Copy, Saved)]
struct Frame {
    size: u32,
    packet: PacketId,
    /// The time at which the receiver accepts the frame, or `Time::NEVER`.
    accepted_at: Time,
}

/// A frame that is being sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentFrame {
    pub now: Time,
    /// The time at which its tail reaches the receiver.
    pub tail: Time,
    /// The propagation delay.
    pub delay: Time,
    /// The minimum time between two acknowledgements.
    pub ack_spacing: Time,
}

/// A frame that is to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    pub packet: PacketId,
    pub size: u32,
    place: usize,
}

/// Both ends of a channel.
#[derive(Debug, Clone, Saved)]
struct ChannelEnds {
    errors: Stream,
    losses: Stream,
    /// Bad frames and lost messages per billion at present.
    error_ppb: u32,
    /// The replay buffer. The receiver has accepted the first `accepted` frames.
    frames: VecDeque<Frame>,
    bytes: u32,
    accepted: usize,
    /// Whether the receiver has sent a NACK and waits for the expected frame.
    is_silent: bool,
    /// The time of the receiver's last acknowledgement, which may be in the future.
    ack_at: Option<Time>,
    /// The times at which acknowledgements and NACKs arrive, in order, and whether they are NACKs.
    messages: VecDeque<(Time, bool)>,
    /// The next frame to be sent again, during a replay.
    next: Option<usize>,
    /// Number of replays since the last progress.
    replays: u32,
    deadline: Time,
    has_failed: bool,
    /// The earliest time for which an event is scheduled.
    look_at: Time,
    counts: Retries,
}

/// The channels of all links. A partition uses those on which its own nodes send.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Retry {
    #[saved(constant)]
    spec: RetrySpec,
    ends: Vec<ChannelEnds>,
    /// The first failure: its time, and the channel with too many replays without progress. If several channels fail at
    /// that time, it is the one with the lowest number.
    pub failed: Option<(Time, ChannelId)>,
}

impl ChannelEnds {
    fn new(seed: u64, owner: u64, error_ppb: u32) -> Self {
        Self {
            error_ppb,
            errors: Stream::new(seed, "link errors", owner),
            losses: Stream::new(seed, "lost acknowledgements", owner),
            frames: VecDeque::new(),
            bytes: 0,
            accepted: 0,
            is_silent: false,
            ack_at: None,
            messages: VecDeque::new(),
            next: None,
            replays: 0,
            deadline: Time::NEVER,
            has_failed: false,
            look_at: Time::NEVER,
            counts: Retries::default(),
        }
    }

    /// Computes whether the receiver accepts the frame at index `place` of the replay buffer, and schedules the answer.
    /// Returns whether the receiver accepts the frame.
    fn arrives(&mut self, place: usize, sending: SentFrame) -> bool {
        let SentFrame { tail, delay, ack_spacing, .. } = sending;
        let error_ppb = self.error_ppb;
        let is_bad = error_ppb > 0 && self.errors.chance(error_ppb, BILLION);
        let is_accepted = !is_bad && place == self.accepted;
        self.counts.bad += u64::from(is_bad);
        self.counts.discarded += u64::from(!is_bad && !is_accepted);
        if is_accepted {
            self.frames[place].accepted_at = tail;
            self.accepted += 1;
            self.is_silent = false;
        }
        // Without an answer to frames that were delivered before, a sender whose buffer is full could wait forever.
        if is_accepted || (!is_bad && place < self.accepted) {
            // An acknowledgement that has not left yet covers this frame.
            if self.ack_at.is_none_or(|last| tail > last) {
                let leaves = self.ack_at.map_or(tail, |last| tail.max(last + ack_spacing));
                self.ack_at = Some(leaves);
                self.counts.acks += 1;
                self.answer(leaves + delay, false);
            }
        } else if !self.is_silent {
            self.is_silent = true;
            self.counts.nacks += 1;
            self.answer(tail + delay, true);
        }
        is_accepted
    }

    /// Sends an acknowledgement or a NACK, which arrives at `back` unless it gets lost.
    fn answer(&mut self, back: Time, is_nack: bool) {
        let error_ppb = self.error_ppb;
        if error_ppb > 0 && self.losses.chance(error_ppb, BILLION) {
            self.counts.lost += 1;
            return;
        }
        let place = self.messages.iter().rposition(|entry| entry.0 <= back).map_or(0, |at| at + 1);
        self.messages.insert(place, (back, is_nack));
    }

    /// Discards the state of both ends. Returns the packets of the replay buffer that the receiver has not accepted.
    fn reset(&mut self) -> Vec<PacketId> {
        let lost = self.frames.iter().skip(self.accepted).map(|frame| frame.packet).collect();
        self.frames.clear();
        self.messages.clear();
        (self.bytes, self.accepted, self.replays) = (0, 0, 0);
        (self.is_silent, self.ack_at, self.next, self.deadline) = (false, None, None, Time::NEVER);
        lost
    }

    /// Removes the frames that the receiver had accepted by `sent_at`. Returns whether there were any.
    fn free(&mut self, sent_at: Time) -> bool {
        let mut count = 0;
        while self.frames.front().is_some_and(|frame| frame.accepted_at <= sent_at) {
            self.bytes -= self.frames.pop_front().map_or(0, |frame| frame.size);
            count += 1;
        }
        self.accepted -= count;
        self.next = self.next.map(|next| next.saturating_sub(count)).filter(|&next| next < self.frames.len());
        count > 0
    }

    /// Starts to send all frames again. Returns whether there have been too many replays.
    fn go_back(&mut self, now: Time, spec: &RetrySpec) -> bool {
        self.deadline = now + spec.timer;
        self.next = Some(0);
        self.replays += 1;
        self.replays > spec.count
    }

    /// Handles the messages that have arrived, and the timer. Returns whether the link has failed.
    fn take_messages(&mut self, now: Time, delay: Time, spec: &RetrySpec) -> bool {
        let mut has_failed = false;
        while let Some(&(_, is_nack)) = self.messages.front().filter(|message| message.0 <= now) {
            let arrived = self.messages.pop_front().map_or(now, |message| message.0);
            if self.free(arrived.saturating_sub(delay)) {
                self.replays = 0;
                self.deadline = if self.frames.is_empty() { Time::NEVER } else { now + spec.timer };
            }
            if is_nack && !self.frames.is_empty() {
                has_failed |= self.go_back(now, spec);
            }
        }
        if self.deadline <= now {
            self.counts.timeouts += 1;
            has_failed |= self.go_back(now, spec);
        }
        if has_failed {
            self.has_failed = true;
            (self.next, self.deadline) = (None, Time::NEVER);
            self.messages.clear();
        }
        has_failed
    }
}

impl Retry {
    /// `owners` has the number of each channel from which its random streams are derived.
    pub fn new(spec: RetrySpec, seed: u64, owners: impl Iterator<Item = u64>) -> Self {
        let ends = owners.map(|owner| ChannelEnds::new(seed, owner, spec.error_ppb)).collect();
        Self { spec, ends, failed: None }
    }

    /// Discards the state of both ends of a channel, because its link goes down. Returns the packets of the replay buffer that
    /// the receiver has not accepted.
    pub fn reset(&mut self, channel: ChannelId) -> Vec<PacketId> {
        self.ends[channel as usize].reset()
    }

    /// Sets the bad frames and lost messages of a channel per billion, to at least the number for all links.
    pub fn set_errors(&mut self, channel: ChannelId, error_ppb: u32) {
        self.ends[channel as usize].error_ppb = error_ppb.max(self.spec.error_ppb);
    }

    /// Whether the sender of a channel may start a new frame.
    #[inline]
    pub fn is_open(&self, channel: ChannelId) -> bool {
        let (end, spec) = (&self.ends[channel as usize], &self.spec);
        end.next.is_none()
            && (end.frames.len() as u32) < spec.frames
            && end.bytes + spec.largest <= spec.bytes
            && !end.has_failed
    }

    /// Sends a new frame. Returns whether the receiver accepts it.
    pub fn send(&mut self, channel: ChannelId, (packet, size): (PacketId, u32), sending: SentFrame) -> bool {
        let (end, spec) = (&mut self.ends[channel as usize], &self.spec);
        end.frames.push_back(Frame { size, packet, accepted_at: Time::NEVER });
        end.bytes += size;
        end.counts.frames += 1;
        if end.deadline == Time::NEVER {
            end.deadline = sending.now + spec.timer;
        }
        end.arrives(end.frames.len() - 1, sending)
    }

    /// Handles the messages that have arrived at the sender of a channel.
    pub fn take_messages(&mut self, channel: ChannelId, now: Time, delay: Time) {
        if self.ends[channel as usize].take_messages(now, delay, &self.spec) {
            let found = (now, channel);
            self.failed = Some(self.failed.map_or(found, |first| first.min(found)));
        }
    }

    /// The frame that must be sent again next, if there is one.
    pub fn next_replay(&self, channel: ChannelId) -> Option<Replay> {
        let end = &self.ends[channel as usize];
        let place = end.next?;
        let Frame { size, packet, .. } = end.frames[place];
        Some(Replay { packet, size, place })
    }

    /// Sends a frame again. Returns whether the receiver accepts it.
    pub fn replay(&mut self, channel: ChannelId, replay: Replay, sending: SentFrame) -> bool {
        let end = &mut self.ends[channel as usize];
        end.counts.replayed += 1;
        end.next = Some(replay.place + 1).filter(|&next| next < end.frames.len());
        end.arrives(replay.place, sending)
    }

    /// The time at which the sender of a channel must act next, for which the caller must schedule an event.
    /// `None` if an event is already scheduled for that time or before. The channel is free at `free_at`.
    pub fn next_action(&mut self, channel: ChannelId, free_at: Time) -> Option<Time> {
        let end = &mut self.ends[channel as usize];
        let message = end.messages.front().map_or(Time::NEVER, |message| message.0);
        let replay = end.next.map_or(Time::NEVER, |_| free_at);
        let time = message.min(end.deadline).min(replay);
        (time < end.look_at).then(|| {
            end.look_at = time;
            time
        })
    }

    /// Whether the event of this instant is the expected one. If so, no event is scheduled afterwards.
    pub fn take_action(&mut self, channel: ChannelId, now: Time) -> bool {
        let end = &mut self.ends[channel as usize];
        let is_due = end.look_at == now;
        if is_due {
            end.look_at = Time::NEVER;
        }
        is_due
    }

    /// The frames that receivers have not accepted yet: the channel and the packet of each.
    pub fn unaccepted(&self) -> impl Iterator<Item = (ChannelId, PacketId)> {
        let frames = |(channel, end): (ChannelId, &'_ ChannelEnds)| {
            end.frames.iter().skip(end.accepted).map(move |frame| (channel, frame.packet)).collect::<Vec<_>>()
        };
        (0..).zip(&self.ends).flat_map(frames)
    }

    /// The counts of a channel, if frames were sent on it.
    pub fn counts(&self, channel: ChannelId) -> Option<Retries> {
        Some(self.ends[channel as usize].counts).filter(|counts| counts.frames > 0)
    }

    /// The bytes by which acknowledgements are spaced.
    pub fn ack_spacing(&self) -> u32 {
        self.spec.ack_spacing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: RetrySpec = RetrySpec {
        frames: 4,
        bytes: 450,
        timer: Time(1_000),
        count: 2,
        largest: 100,
        error_ppb: 0,
        ack_spacing: 0,
    };

    fn retry(seed: u64) -> Retry {
        Retry::new(SPEC, seed, [7].into_iter())
    }

    /// Sends a frame of 100 bytes, which takes 10 with a delay of 50, at `now`.
    fn send(retry: &mut Retry, now: u64, ack_spacing: u64) -> bool {
        retry.send(0, (0, 100), sending(now, ack_spacing))
    }

    fn sending(now: u64, ack_spacing: u64) -> SentFrame {
        SentFrame { now: Time(now), tail: Time(now + 60), delay: Time(50), ack_spacing: Time(ack_spacing) }
    }

    fn replay(retry: &mut Retry, now: u64) -> Option<bool> {
        let next = retry.next_replay(0)?;
        Some(retry.replay(0, next, sending(now, 0)))
    }

    /// A seed with which a frame is bad and its NACK arrives, with an error in half of the cases.
    fn unlucky_frame() -> u64 {
        let draws = |seed, name| Stream::new(seed, name, 7).chance(BILLION / 2, BILLION);
        (0..100).find(|&seed| draws(seed, "link errors") && !draws(seed, "lost acknowledgements")).unwrap()
    }

    #[test]
    fn frames_stay_in_the_buffer_until_they_are_acknowledged() {
        let mut retry = retry(1);
        for (place, now) in [0, 10, 20, 30].into_iter().enumerate() {
            assert!(retry.is_open(0), "frame {place}");
            assert!(send(&mut retry, now, 0));
        }
        assert!(!retry.is_open(0), "four frames, and no room for another hundred bytes");
        assert_eq!(retry.next_action(0, Time(40)), Some(Time(110)), "the first tail is there at 60");
        assert!(!retry.take_action(0, Time(109)) && retry.take_action(0, Time(110)));
        retry.take_messages(0, Time(110), Time(50));
        assert!(retry.is_open(0));
        assert_eq!((retry.ends[0].frames.len(), retry.ends[0].bytes), (3, 300));
        assert_eq!(retry.ends[0].deadline, Time(1_110), "the timer starts again");
        retry.take_messages(0, Time(140), Time(50));
        assert_eq!((retry.ends[0].frames.len(), retry.ends[0].deadline), (0, Time::NEVER));
    }

    #[test]
    fn acknowledgements_are_cumulative_and_spaced() {
        let mut retry = retry(1);
        for now in [0, 10, 20, 30] {
            send(&mut retry, now, 25);
        }
        // Tails at 60, 70, 80 and 90; acknowledgements leave at 60, 85 and 110.
        assert_eq!(retry.ends[0].messages, [(Time(110), false), (Time(135), false), (Time(160), false)]);
        let left = [110, 135, 160].map(|now| {
            retry.take_messages(0, Time(now), Time(50));
            retry.ends[0].frames.len()
        });
        assert_eq!(left, [3, 1, 0]);
        assert_eq!(retry.counts(0).map(|counts| (counts.frames, counts.acks)), Some((4, 3)));
    }

    #[test]
    fn one_nack_repeats_all_frames_from_the_bad_one_on() {
        let mut retry = retry(unlucky_frame());
        retry.set_errors(0, BILLION / 2);
        assert!(!send(&mut retry, 0, 0), "it is bad");
        retry.set_errors(0, 0);
        assert!(!send(&mut retry, 10, 0), "not the expected frame");
        assert_eq!(retry.ends[0].messages, [(Time(110), true)], "one NACK");
        retry.take_messages(0, Time(110), Time(50));
        assert!(!retry.is_open(0), "replays precede new frames");
        assert_eq!(retry.next_action(0, Time(115)), Some(Time(115)), "when the link is free");
        assert_eq!(
            [replay(&mut retry, 115), replay(&mut retry, 125), replay(&mut retry, 135)],
            [Some(true), Some(true), None]
        );
        assert!(retry.is_open(0));
        let Retries { frames, replayed, bad, discarded, acks, nacks, lost, timeouts } =
            retry.counts(0).unwrap();
        assert_eq!((frames, replayed, bad, discarded), (2, 2, 1, 1));
        assert_eq!((acks, nacks, lost, timeouts), (2, 1, 0, 0));
    }

    #[test]
    fn the_timer_repeats_frames_until_the_link_has_failed() {
        let mut retry = retry(1);
        retry.set_errors(0, BILLION);
        send(&mut retry, 0, 0);
        assert!(retry.ends[0].messages.is_empty(), "the NACK got lost");
        for (replays, now) in [1_000, 2_000].into_iter().enumerate() {
            retry.take_messages(0, Time(now - 1), Time(50));
            assert_eq!(retry.next_replay(0), None);
            retry.take_messages(0, Time(now), Time(50));
            assert_eq!(replay(&mut retry, now), Some(false), "replay {replays}");
        }
        assert_eq!(retry.failed, None);
        retry.take_messages(0, Time(3_000), Time(50));
        assert_eq!(retry.failed, Some((Time(3_000), 0)), "after more than two replays");
        assert!(!retry.is_open(0));
        assert_eq!(retry.counts(0).map(|counts| (counts.replayed, counts.timeouts)), Some((2, 3)));
    }

    /// The receiver has accepted both frames, but the acknowledgement of the second one was lost.
    #[test]
    fn duplicates_are_acknowledged_again() {
        let mut retry = retry(1);
        send(&mut retry, 0, 0);
        send(&mut retry, 10, 0);
        retry.ends[0].messages.pop_back();
        retry.take_messages(0, Time(110), Time(50));
        retry.take_messages(0, Time(1_110), Time(50));
        assert_eq!(replay(&mut retry, 1_110), Some(false), "a packet is delivered once");
        assert_eq!(retry.counts(0).map(|counts| (counts.discarded, counts.acks)), Some((1, 3)));
        retry.take_messages(0, Time(1_220), Time(50));
        assert!(retry.ends[0].frames.is_empty());
    }
}
