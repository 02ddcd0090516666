//! Flow control by messages from the receiver of a channel to its sender.
//!
//! With credits, the sender counts what the buffer at the far end holds, and its ledgers determine whether a
//! packet may start; see [`super::Ledger`]. With pause frames and on/off messages, the receiver counts, and
//! its messages determine what the sender may start. A kind consists of the state of both ends, of the
//! message, and of the rules in [`ReceiverControl`].

use silvan_engine::Time;
use silvan_engine::saved::{Damaged, Reader, Saved, Writer};
use silvan_network::port::Vl;

use super::ChannelId;
use crate::free_slots::FreeSlots;
use crate::not_binned::NotBinned;

/// The content of a message. Its kind of flow control defines the meaning.
pub(crate) type Signal = u64;

/// A packet that did not fit into the buffer of a lane: the earliest one, and of those at one time, the one of the first
/// channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
pub(crate) struct Overflow {
    pub time: Time,
    pub channel: ChannelId,
    pub vl: u8,
    pub lack: Lack,
}

/// A packet did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
pub(crate) struct Lack {
    /// Bytes that are missing.
    pub missing: u64,
    /// The headroom of the lane, or of all lanes of the switch.
    pub headroom: u64,
    /// Whether the headroom of the whole switch is exhausted, and not only that of the lane.
    pub is_pool: bool,
}

/// What a receiver does at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalCheck {
    Nothing,
    /// It checks again at this time.
    Later(Time),
    /// It starts a message.
    Send(Signal),
}

/// A kind of flow control in which receivers count what their buffers hold. A lane is an index into the ledgers: the channel
/// times the number of virtual lanes, plus the virtual lane.
///
/// | stage | what happens |
/// | --- | --- |
/// | a packet arrives | [`Self::store`] |
/// | it starts to leave, and has left | [`Self::will_leave`], [`Self::left`] |
/// | all arrivals and departures of an instant have been handled | [`Self::check`] decides whether a message starts |
/// | the message takes effect at the sender | [`Self::obey`] |
/// | the sender has a packet | [`Self::is_open`], and [`Self::starts`] when it sends the packet |
pub(crate) trait ReceiverControl {
    /// Whether the sender of a lane may start a packet.
    fn is_open(&self, lane: usize, now: Time) -> bool;

    /// The time at which a lane that is not open opens without a message; `None` if a message opens it.
    fn opens_at(&self, _lane: usize) -> Option<Time> {
        None
    }

    /// Notes that the sender of a lane starts a packet of `space` bytes.
    fn starts(&mut self, _lane: usize, _space: u32, _now: Time) {}

    /// Applies a message at the sender of a channel. Returns the virtual lanes whose packets may start
    /// earlier than before, one bit each.
    fn obey(&mut self, channel: ChannelId, signal: Signal, now: Time) -> u16;

    /// Counts a packet that has arrived in the buffer. Returns whether a check at this instant is needed.
    fn store(&mut self, channel: ChannelId, vl: Vl, space: u32, now: Time) -> bool;

    /// Notes that a packet will have left at a known time. Returns the number by which [`Self::left`] identifies it.
    fn will_leave(&mut self, channel: ChannelId, vl: Vl, space: u32) -> u32;

    /// Removes a packet that has left. Returns the channel if it needs a check at this instant.
    fn left(&mut self, slot: u32, now: Time) -> Option<ChannelId>;

    /// Decides whether a message for the sender of a channel is due, and whether it starts now. The link to the sender is
    /// free at `free_at`.
    fn check(&mut self, channel: ChannelId, now: Time, free_at: Time) -> SignalCheck;

    /// The first packet that did not fit into the buffer of a receiver, if there is one.
    fn overflow(&self) -> Option<Overflow>;

    /// Whether no event is pending that could lead to a message that opens a lane.
    fn is_shut(&self, channel: ChannelId, vl: Vl) -> bool;

    /// Whether the receiver of a channel drops a packet that arrives on a lossy lane, because it does not
    /// fit.
    fn drops(&self, _channel: ChannelId, _vl: Vl, _space: u32) -> bool {
        false
    }

    /// Bytes of a message on the link. If messages take no space, they do not wait for the link either.
    fn bytes(&self) -> u32;

    /// Time from the arrival of a message until it takes effect.
    fn response(&self) -> Time;

    /// The channel on which the receiver of a channel sends its messages.
    fn reverse(&self, channel: ChannelId) -> ChannelId;

    /// Checks whether the binned scheduler handles the messages.
    ///
    /// # Errors
    /// The reason why it does not.
    fn has_bins(&self) -> Result<(), NotBinned> {
        Err(NotBinned::Messages)
    }
}

/// A packet that is leaving the buffer at the end of a channel.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct DepartingSpace {
    pub channel: ChannelId,
    pub vl: Vl,
    pub space: u32,
}

/// Packets that are leaving buffers. Slots are reused.
#[derive(Debug, Clone, Default, Saved)]
#[saved(relative(Self::save_leaving, Self::restore_leaving))]
pub(super) struct Departures {
    slots: Vec<DepartingSpace>,
    free: FreeSlots,
}

impl Departures {
    /// See [`FreeSlots::keep_order`].
    pub fn keep_order(&mut self) {
        self.free.keep_order();
    }

    /// Saves the slots that are in use.
    fn save_leaving(&self, to: &mut Writer<'_>) {
        self.free.save_used(&self.slots, to);
    }

    fn restore_leaving(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        FreeSlots::restore_used(&mut self.slots, from)
    }

    /// Adds a packet. Returns its number.
    pub fn add(&mut self, packet: DepartingSpace) -> u32 {
        if let Some(slot) = self.free.take() {
            self.slots[slot as usize] = packet;
            return slot;
        }
        self.slots.push(packet);
        (self.slots.len() - 1) as u32
    }

    /// Removes a packet.
    pub fn take(&mut self, slot: u32) -> DepartingSpace {
        self.free.add(slot);
        self.slots[slot as usize]
    }
}

/// The times at which the receiver of a channel checks whether a message is due.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct CheckTimes {
    /// The last check that followed an arrival or a departure.
    #[saved(latest)]
    checked_at: Time,
    /// The last check that waited for the link.
    #[saved(latest)]
    waited_for: Time,
}

impl CheckTimes {
    pub fn new() -> Self {
        Self { checked_at: Time::NEVER, waited_for: Time::NEVER }
    }

    /// Whether no check at `now` is scheduled yet. Records that one is.
    pub fn is_first(&mut self, now: Time) -> bool {
        std::mem::replace(&mut self.checked_at, now) != now
    }

    /// Sends a message if the link is free. Otherwise, schedules a check for the time at which the link is
    /// free, unless that check is scheduled.
    pub fn send(&mut self, signal: Signal, now: Time, free_at: Time) -> SignalCheck {
        if free_at <= now {
            return SignalCheck::Send(signal);
        }
        let is_scheduled = std::mem::replace(&mut self.waited_for, free_at) == free_at;
        if is_scheduled { SignalCheck::Nothing } else { SignalCheck::Later(free_at) }
    }
}
