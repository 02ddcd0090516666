//! Links that change during a run: the state of each channel, and the packets that were lost on it.
//!
//! A packet is lost at random, or if its link is down at any time from the start of its transmission until
//! its arrival: until its head (or, at a store-and-forward switch, its tail) is ready for arbitration at a
//! switch, or its tail reaches a host. The receiver discards it at that time, and returns its credit. A switch
//! keeps sending on a link that is down, so packets that wait for such a link are lost at the pace of the
//! link. A host keeps its packets until the link is up. Messages between the two ends of a link, such as
//! credits, are not lost.
//!
//! Every partition applies every change to its own copy of the links.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Event, Rate, Time};

use super::{ChannelId, Class, EventKey, LinkParameters, Links, Stage, owner, unkey};
use crate::packet::{Packet, PacketId};

/// Losses are counted per billion packets.
const BILLION: u32 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub is_up: bool,
    pub rate: Rate,
    /// Packets that are lost at random, per billion.
    pub loss_ppb: u32,
}

/// A change at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub time: Time,
    pub what: What,
}

/// What changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Channel(ChannelId, LinkState),
    /// Whether the switch that sends on a channel uses its port for packets that may use several ports.
    Port(ChannelId, bool),
    /// The tables of all switches.
    Tables(usize),
    /// How packets pass through the host at the end of a channel.
    Host(ChannelId, HostPaces),
}

/// How packets pass through a host, apart from its input buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPaces {
    /// The pace at which the host injects data packets.
    pub injection: BytePace,
    /// Whether packets in both directions share this pace.
    pub is_shared: bool,
    /// Whether the host has failed.
    pub is_stopped: bool,
}

/// What the nodes of a partition do because of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    Nothing,
    /// The link on which a host sends goes down, or comes up if the second value is true.
    HostLink(ChannelId, bool),
    /// A link on which a switch sends goes down.
    SwitchLinkDown(ChannelId),
    Port(ChannelId, bool),
    Tables(usize),
    Host(ChannelId, HostPaces),
}

/// Packets that were lost on a channel, or dropped by its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub(crate) struct LossCounts {
    pub data_packets: u64,
    pub control_packets: u64,
    /// Those that were dropped.
    pub dropped_packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug, Clone, Saved)]
pub(crate) struct Faults {
    /// In order of time.
    changes: Arc<[Change]>,
    /// The next change.
    next: usize,
    /// For each channel: [`Time::NEVER`] while it is down; otherwise, the time at which it came up.
    down_until: Vec<Time>,
    /// For channels whose senders may not send: the time at which they would be free.
    blocked: FxHashMap<ChannelId, Time>,
    /// The indexes of the usual parameters of the channels that have changed.
    usual: FxHashMap<ChannelId, u16>,
    /// The index of the parameters with a changed rate, by the index of the usual parameters and the rate.
    #[saved(constant)]
    parameters: FxHashMap<(u16, Rate), u16>,
    /// For each channel that has errors at some time, how many packets get lost per billion, and the stream that selects them.
    errors: FxHashMap<ChannelId, (u32, Stream)>,
    /// Channels to hosts that have failed.
    stopped: BTreeSet<ChannelId>,
    /// What was lost on channels whose receivers are in this partition.
    lost: FxHashMap<ChannelId, LossCounts>,
    /// In the binned scheduler: lost packets that are still on their way to hosts.
    lost_on_way: BTreeSet<PacketId>,
}

impl Faults {
    /// Whether a channel loses a packet that it transmits from `start` until `arrival`. All changes until
    /// `start` must have been applied, and none of a later time than `arrival`. Call once per packet, in the
    /// order of the packets of a channel, because losses are random.
    fn loses(&mut self, channel: ChannelId, start: Time, arrival: Time) -> bool {
        let mut down_until = self.down_until[channel as usize];
        let mut errors = self.errors.get_mut(&channel);
        let mut loss_ppb = errors.as_ref().map_or(0, |(ppb, _)| *ppb);
        let coming = self.changes[self.next..].iter().take_while(|change| change.time < arrival);
        for change in coming {
            if let What::Channel(other, state) = change.what
                && other == channel
            {
                loss_ppb = state.loss_ppb;
                down_until = match (down_until, state.is_up) {
                    (Time::NEVER, true) => change.time,
                    (_, true) => down_until,
                    (_, false) => Time::NEVER,
                };
            }
        }
        let is_bad = match &mut errors {
            Some((_, stream)) if loss_ppb > 0 => stream.chance(loss_ppb, BILLION),
            _ => false,
        };
        is_bad || down_until > start
    }
}

impl Links {
    /// Plans changes, which must be in order of time. The nodes must have their numbers in the network. `drops` states whether
    /// receivers may drop packets.
    ///
    /// # Errors
    /// If the links have too many different parameters.
    pub fn plan_changes(&mut self, changes: Vec<Change>, drops: bool, seed: u64) -> Result<(), &'static str> {
        if changes.is_empty() && !drops {
            return Ok(());
        }
        let (mut parameters, mut errors) = (FxHashMap::default(), FxHashMap::default());
        for change in &changes {
            let What::Channel(channel, state) = change.what else { continue };
            // With link-level retry, no packet is lost: bad frames are sent again.
            if state.loss_ppb > 0 && self.retry().is_none() {
                let EventKey { class, node, port } = unkey(self.channels[channel as usize].wake_key);
                let owner = owner(class == Class::HostWake, node, port.0);
                errors.entry(channel).or_insert_with(|| (0, Stream::new(seed, "losses", owner)));
            }
            let usual = self.parameters_of[channel as usize];
            let own = self.parameters[usize::from(usual)];
            if own.rate == state.rate || parameters.contains_key(&(usual, state.rate)) {
                continue;
            }
            let index = u16::try_from(self.parameters.len())
                .map_err(|_| "links have more than 65536 different combinations of rate and delay")?;
            let pace = state.rate.pace();
            self.parameters.push(LinkParameters { rate: state.rate, pace, memo: (0, Time::ZERO), ..own });
            parameters.insert((usual, state.rate), index);
        }
        self.faults = Some(Box::new(Faults {
            changes: changes.into(),
            next: 0,
            down_until: vec![Time::ZERO; self.channels.len()],
            blocked: FxHashMap::default(),
            usual: FxHashMap::default(),
            parameters,
            errors,
            stopped: BTreeSet::new(),
            lost: FxHashMap::default(),
            lost_on_way: BTreeSet::new(),
        }));
        Ok(())
    }

    /// Whether links change during the run, or receivers may drop packets.
    #[inline(always)]
    pub fn has_changes(&self) -> bool {
        self.faults.is_some()
    }

    pub fn next_change(&self) -> Option<Event> {
        let faults = self.faults.as_ref()?;
        let change = faults.changes.get(faults.next)?;
        Some(Event { time: change.time, key: Stage::Change.key(), data: 0 })
    }

    /// Takes the next change if it is due at `now`, and applies what concerns the links. Returns its effect, or
    /// `None` if no change is due.
    pub fn take_change(&mut self, now: Time) -> Option<Effect> {
        let faults = self.faults.as_deref_mut()?;
        let &Change { what, .. } = faults.changes.get(faults.next).filter(|change| change.time == now)?;
        faults.next += 1;
        let (channel, state) = match what {
            What::Channel(channel, state) => (channel, state),
            What::Port(channel, is_usable) => return Some(Effect::Port(channel, is_usable)),
            What::Tables(number) => return Some(Effect::Tables(number)),
            What::Host(channel, paces) => {
                if paces.is_stopped {
                    faults.stopped.insert(channel);
                }
                return Some(Effect::Host(channel, paces));
            }
        };
        let at = channel as usize;
        let usual = *faults.usual.entry(channel).or_insert(self.parameters_of[at]);
        self.parameters_of[at] = faults.parameters.get(&(usual, state.rate)).copied().unwrap_or(usual);
        if let Some((loss_ppb, _)) = faults.errors.get_mut(&channel) {
            *loss_ppb = state.loss_ppb;
        }
        if let Some(retry) = self.retry_mut() {
            retry.set_errors(channel, state.loss_ppb);
        }
        let faults = self.faults.as_deref_mut()?;
        let was_up = faults.down_until[at] != Time::NEVER;
        if was_up == state.is_up {
            return Some(Effect::Nothing);
        }
        faults.down_until[at] = if state.is_up { now } else { Time::NEVER };
        let EventKey { class, .. } = unkey(self.channels[at].wake_key);
        let is_of_host = class == Class::HostWake;
        Some(match (is_of_host, state.is_up) {
            (true, is_up) => Effect::HostLink(channel, is_up),
            (false, false) => Effect::SwitchLinkDown(channel),
            (false, true) => Effect::Nothing,
        })
    }

    /// All changes of the run, in order of time.
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.faults.iter().flat_map(|faults| faults.changes.iter())
    }

    /// Whether a host drains its input buffer at several rates, injects at several rates, or fails during the run.
    pub fn changes_hosts(&self) -> bool {
        self.changes().any(|change| matches!(change.what, What::Host(..)))
    }

    /// Whether switches change their tables, or the ports that they use, during the run.
    pub fn changes_routes(&self) -> bool {
        self.changes().any(|change| matches!(change.what, What::Tables(_) | What::Port(..)))
    }

    /// The channel of the last change that was taken, if the change set the state of a channel.
    pub fn changed_channel(&self) -> Option<ChannelId> {
        let faults = self.faults.as_deref()?;
        match faults.changes.get(faults.next.checked_sub(1)?)?.what {
            What::Channel(channel, _) => Some(channel),
            What::Port(..) | What::Tables(_) | What::Host(..) => None,
        }
    }

    /// The number of the tables that switches use after the changes so far, if these include a change of tables.
    pub fn tables_in_use(&self) -> Option<usize> {
        let faults = self.faults.as_deref()?;
        let past = faults.changes.get(..faults.next)?;
        past.iter().rev().find_map(|change| match change.what {
            What::Tables(number) => Some(number),
            _ => None,
        })
    }

    /// Whether the link of a channel is down.
    pub fn is_down(&self, channel: ChannelId) -> bool {
        self.faults.as_deref().is_some_and(|faults| faults.down_until[channel as usize] == Time::NEVER)
    }

    /// Whether a channel leads to a host that has failed. Messages of such a host have no effect.
    pub fn is_stopped(&self, channel: ChannelId) -> bool {
        self.faults.as_deref().is_some_and(|faults| faults.stopped.contains(&channel))
    }

    /// Prevents the sender of a channel from sending. With `is_up`, permits it again, but not before the end
    /// of the packet that it was sending.
    pub fn block(&mut self, channel: ChannelId, is_up: bool, now: Time) {
        let Some(faults) = self.faults.as_deref_mut() else { return };
        let free_at = &mut self.channels[channel as usize].free_at;
        if is_up {
            *free_at = faults.blocked.remove(&channel).map_or(now, |before| before.max(now));
        } else {
            faults.blocked.insert(channel, std::mem::replace(free_at, Time::NEVER));
        }
    }

    /// The place of the host that sends on a channel.
    pub fn sending_host(&self, channel: ChannelId) -> usize {
        unkey(self.channels[channel as usize].wake_key).node as usize
    }

    /// Number of channels.
    pub fn count(&self) -> usize {
        self.channels.len()
    }

    /// Whether a host receives on a channel.
    pub fn leads_to_host(&self, channel: ChannelId) -> bool {
        self.parameters(channel).to_host
    }

    /// The place of the host that receives on a channel.
    pub fn receiving_host(&self, channel: ChannelId) -> usize {
        unkey(self.channels[channel as usize].arrival_key).node as usize
    }

    /// Whether a packet that is due at the end of a channel now was lost on the way. Call once per packet, in
    /// the order of the packets, because losses are random.
    pub fn was_lost(&mut self, channel: ChannelId, packet: &Packet, now: Time) -> bool {
        let link = self.parameters(channel);
        let took = link.until_arrival(packet.tail_lag);
        let Some(faults) = self.faults.as_deref_mut() else { return false };
        faults.loses(channel, now.saturating_sub(took), now)
    }

    /// In the binned scheduler: whether a packet for a host is lost between the time at which it starts to
    /// cross a channel and the time at which its tail arrives. If so, records it for
    /// [`Self::was_lost_on_way`].
    pub fn will_be_lost(
        &mut self,
        channel: ChannelId,
        packet: PacketId,
        (now, tail_at): (Time, Time),
    ) -> bool {
        let Some(faults) = self.faults.as_deref_mut() else { return false };
        let is_lost = faults.loses(channel, now, tail_at);
        if is_lost {
            faults.lost_on_way.insert(packet);
        }
        is_lost
    }

    /// In the binned scheduler: whether a packet on its way to a host is lost.
    pub fn is_lost_on_way(&self, packet: PacketId) -> bool {
        self.faults.as_deref().is_some_and(|faults| faults.lost_on_way.contains(&packet))
    }

    /// In the binned scheduler: whether a packet that is due at a host now was lost. Removes the record of
    /// the loss.
    pub fn was_lost_on_way(&mut self, packet: PacketId) -> bool {
        self.faults.as_deref_mut().is_some_and(|faults| faults.lost_on_way.remove(&packet))
    }

    /// Whether the receiver of a channel drops a packet that arrives on a lossy lane, because it does not
    /// fit.
    pub fn drops(&self, channel: ChannelId, packet: &Packet) -> bool {
        self.by_messages().is_some_and(|control| control.drops(channel, packet.vl, packet.space))
    }

    /// Counts a packet that was lost on a channel, or dropped by its receiver.
    pub fn count_lost(&mut self, channel: ChannelId, packet: &Packet, is_dropped: bool) {
        let Some(faults) = self.faults.as_deref_mut() else { return };
        let lost = faults.lost.entry(channel).or_default();
        *(if packet.is_data() { &mut lost.data_packets } else { &mut lost.control_packets }) += 1;
        lost.dropped_packets += u64::from(is_dropped);
        lost.bytes += u64::from(packet.size);
    }

    /// What was lost on a channel, if its receiver is in this partition.
    pub fn lost(&self, channel: ChannelId) -> LossCounts {
        let lost = self.faults.as_deref().and_then(|faults| faults.lost.get(&channel));
        lost.copied().unwrap_or_default()
    }

    /// Same as [`Self::parameters_index`], without changes.
    pub fn usual_index(&self, channel: ChannelId) -> usize {
        let usual = self.faults.as_deref().and_then(|faults| faults.usual.get(&channel));
        usual.map_or_else(|| self.parameters_index(channel), |&usual| usize::from(usual))
    }

    /// A channel's data rate without changes.
    pub fn usual_rate(&self, channel: ChannelId) -> Rate {
        self.parameters[self.usual_index(channel)].rate
    }
}
