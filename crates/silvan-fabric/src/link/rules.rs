//! Rules that determine when a sender may start a packet: those in addition to its ledgers, and the kind of flow control.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use super::{ChannelId, Frames, ReceiverControl, Retry, Shared};

/// The times at which receivers return credits: each receiver of a channel has a clock with the same period.
#[derive(Debug, Clone)]
pub(crate) struct ReturnClock {
    /// In picoseconds; more than zero.
    spacing: u64,
    /// The first time at which the receiver of each channel returns credits, in picoseconds, below `spacing`.
    phases: Arc<[u32]>,
}

impl ReturnClock {
    /// The clocks have different phases, which are drawn from the seed and the number of each channel's sender; see
    /// [`owner`].
    pub fn new(spacing: Time, seed: u64, owners: impl Iterator<Item = u64>) -> Self {
        let spacing = spacing.0.max(1);
        let below = u32::try_from(spacing).unwrap_or(u32::MAX);
        let phase = |owner| Stream::new(seed, "credit returns", owner).below(below);
        Self { spacing, phases: owners.map(phase).collect() }
    }

    /// The time at which a credit is returned for space that becomes free at `freed`.
    #[inline]
    pub fn leaves_at(&self, channel: ChannelId, freed: Time) -> Time {
        let phase = u64::from(self.phases[channel as usize]);
        let periods = freed.0.saturating_sub(phase).div_ceil(self.spacing);
        Time(phase + periods * self.spacing)
    }
}

/// The number from which the random streams of a channel are derived: the host or switch that sends on it, and its port.
pub(crate) fn owner(from_host: bool, node: u32, port: u16) -> u64 {
    u64::from(from_host) << 32 | u64::from(node) << 8 | u64::from(port)
}

/// The rules that determine when a sender has credit, in addition to its ledgers.
#[derive(Debug, Clone, Default, Saved)]
pub(crate) struct CreditRules {
    /// Present if receivers return credits at certain times only.
    #[saved(constant)]
    pub clock: Option<ReturnClock>,
    /// Present if frames are sent again after errors.
    pub retry: Option<Box<Retry>>,
    /// Present if the lanes of a channel share credits.
    #[saved(constant)]
    pub shared: Option<Shared>,
}

impl CreditRules {
    pub fn is_empty(&self) -> bool {
        self.clock.is_none() && self.retry.is_none() && self.shared.is_none()
    }

    /// Whether the sender of a channel may start a frame if it has credit.
    #[inline]
    pub fn is_open(&self, channel: ChannelId) -> bool {
        self.retry.as_ref().is_none_or(|retry| retry.is_open(channel))
    }

    /// The delay until a receiver returns the credit for space that becomes free at `freed`. Zero without a clock.
    #[inline]
    pub fn later(&self, channel: ChannelId, freed: Time) -> Time {
        self.clock.as_ref().map_or(Time::ZERO, |clock| clock.leaves_at(channel, freed) - freed)
    }
}

/// Rules that determine whether a sender may start a packet, in addition to the ledgers or instead of them.
#[derive(Debug, Clone, Saved)]
#[expect(clippy::large_enum_variant, reason = "the links have a single one, on the heap")]
pub(crate) enum Control {
    /// Credits: the rules in addition to the ledgers.
    Credits(CreditRules),
    /// Receivers stop lanes of their senders by frames.
    Frames(Frames),
}

impl Control {
    /// The flow control by messages; `None` with credits.
    #[inline]
    pub fn by_messages(&self) -> Option<&dyn ReceiverControl> {
        match self {
            Self::Credits(_) => None,
            Self::Frames(frames) => Some(frames),
        }
    }

    /// See [`Self::by_messages`].
    #[inline]
    pub fn by_messages_mut(&mut self) -> Option<&mut dyn ReceiverControl> {
        match self {
            Self::Credits(_) => None,
            Self::Frames(frames) => Some(frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_leave_at_the_next_tick() {
        let mut clock = ReturnClock::new(Time(100), 1, (0..50).map(|node| owner(false, node, 3)));
        assert!(clock.phases.iter().all(|&phase| phase < 100), "{:?}", clock.phases);
        assert!(clock.phases.iter().any(|&phase| phase != clock.phases[0]), "the clocks differ");
        clock.phases = [30, 0].into();
        let leaves: Vec<u64> = [0, 30, 31, 130, 131].map(|freed| clock.leaves_at(0, Time(freed)).0).into();
        assert_eq!(leaves, [30, 30, 130, 130, 230]);
        assert_eq!((clock.leaves_at(1, Time(0)), clock.leaves_at(1, Time(1))), (Time(0), Time(100)));
    }

    #[test]
    fn hosts_and_switches_have_different_streams() {
        assert_ne!(owner(true, 1, 0), owner(false, 1, 0));
        assert_ne!(owner(false, 1, 0), owner(false, 0, 1));
    }
}
