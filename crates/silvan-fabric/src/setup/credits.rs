//! Sets up the rules of credits, and link-level retry.

use silvan_engine::{Rate, Time};
use silvan_network::port::Port;
use silvan_network::routing::Tables;
use silvan_network::topology::{NodeRef, Topology};

use super::faults::FaultPlan;
use super::{Builder, WiredChannel, small};
use crate::config::{Config, Credits, LinkRetry, SharedCredits};
use crate::error::{Reason, SetupError};
use crate::host::PacketSizes;
use crate::link::{CreditPool, CreditRules, Limit, Retry, RetrySpec, ReturnClock, Shared, owner};

/// A direction of a link on which a virtual lane cannot use the rate, even if the receiver empties its buffer without
/// waiting: the lane has used all credit before the credit of its first packet has returned. `return_spacing` is not
/// considered.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortCredit {
    /// The sender and the receiver, such as "S1:3->H4".
    pub link: String,
    /// Whether the receiver is a host.
    pub is_to_host: bool,
    /// Number of such directions, of which this one can use the smallest share.
    pub links: usize,
    /// The rate of the link.
    pub rate: Rate,
    /// Time from the start of a full packet until its credit has returned.
    pub returns: Time,
    /// Bytes of credit that the lane has.
    pub credit: u32,
    /// Bytes of credit that the lane needs in order to use the rate.
    pub needed: u64,
    /// The part of the rate that the lane can use.
    pub share: f64,
}

/// The direction of a link on which a lane can use the smallest share of the rate because it lacks credit. `None` if
/// lanes can use the rates of all links, and with pause frames or on/off flow control.
///
/// # Errors
/// A [`SetupError`] with the first key whose value is invalid.
pub fn short_credit(
    topology: &Topology,
    tables: &Tables,
    config: &Config,
) -> Result<Option<ShortCredit>, SetupError> {
    Builder::new(topology, tables, config, FaultPlan::default())?.short_credit()
}

/// The way of a credit on an idle direction of a link, with full packets.
struct CreditLoop {
    /// Time from the start of a packet until its credit has returned.
    returns: Time,
    /// Transmission time of a packet, and its buffer space in bytes.
    span: Time,
    space: u32,
    /// Bytes of credit that a lane has.
    credit: u32,
}

impl CreditLoop {
    /// The part of the rate of the link that a lane can use, at most 1.
    fn share(&self) -> f64 {
        let packets = f64::from(self.credit / self.space.max(1));
        (packets * self.span.0 as f64 / self.returns.0.max(1) as f64).min(1.0)
    }

    /// Bytes of credit with which a lane can use the rate.
    fn needed(&self) -> u64 {
        self.returns.0.div_ceil(self.span.0.max(1)) * u64::from(self.space)
    }
}

impl Builder<'_> {
    /// See [`short_credit`].
    pub(super) fn short_credit(&self) -> Result<Option<ShortCredit>, SetupError> {
        let mut short = Vec::new();
        for way in self.directed() {
            if let Some(of_way) = self.credit_loop(&way)?.filter(|of_way| of_way.share() < 1.0) {
                short.push((way, of_way));
            }
        }
        let links = short.len();
        let least = short.into_iter().min_by(|(_, one), (_, two)| one.share().total_cmp(&two.share()));
        Ok(least.map(|(way, of_way)| ShortCredit {
            link: self.channel_name(&way),
            is_to_host: matches!(way.to.node, NodeRef::Host(_)),
            links,
            rate: way.link.rate,
            returns: of_way.returns,
            credit: of_way.credit,
            needed: of_way.needed(),
            share: of_way.share(),
        }))
    }

    /// For each host's link to the host, whether a lane can use less than `share` of the rate because it lacks credit,
    /// and not because the host is slow. Other directions of links are `false`.
    pub(super) fn is_short_of_credit(&self, share: f64) -> Result<Vec<bool>, SetupError> {
        let has_slow_hosts = self.model.config.events.iter().any(|event| event.kind.is_of_hosts());
        let is_short = |way: WiredChannel| {
            let is_to_host = matches!(way.to.node, NodeRef::Host(_));
            if has_slow_hosts || !is_to_host || self.model.host.drain_rate(way.link.rate) < way.link.rate {
                return Ok(false);
            }
            Ok(self.credit_loop(&way)?.is_some_and(|of_way| of_way.share() < share))
        };
        self.directed().map(is_short).collect()
    }

    /// The way of a credit; `None` with pause frames, on/off flow control or packet trimming, and if the receiver divides
    /// its memory among queues.
    fn credit_loop(&self, way: &WiredChannel) -> Result<Option<CreditLoop>, SetupError> {
        let Some(credits) = self.model.credits.filter(|_| self.model.switch.trimming.is_none()) else {
            return Ok(None);
        };
        let PacketSizes { mtu, header, .. } = self.model.sizes;
        let (full, space) = (mtu + header, self.model.sizes.space(mtu + header));
        let span = way.link.rate.pace().time(full);
        let (lane, waits) = match way.to.node {
            NodeRef::Host(_) => {
                let drained = self.model.host.drain_rate(way.link.rate).pace().time(full);
                (self.model.host.lane, drained.max(span))
            }
            NodeRef::Switch(_) if !self.model.switch.shared => return Ok(None),
            NodeRef::Switch(_) => {
                let stored = if self.model.switch.stores { span } else { Time::ZERO };
                (self.model.switch.lane, stored + self.model.switch.latency + span)
            }
        };
        let credit = match &credits.shared {
            None => lane,
            Some(shared) => {
                let pool = self.pool(shared, lane)?;
                pool.reserve.saturating_add(pool.size)
            }
        };
        let returns = way.link.delay + waits + way.link.delay;
        Ok(Some(CreditLoop { returns, span, space, credit }))
    }

    /// For each channel, the number from which its random streams are derived.
    fn channel_owners(&self) -> impl Iterator<Item = u64> {
        self.directed().map(|WiredChannel { from, .. }| match from.node {
            NodeRef::Host(host) => owner(true, host, 0),
            NodeRef::Switch(switch) => owner(false, switch, Port::of_number(from.port).0),
        })
    }

    pub(super) fn credit_rules(&self, credits: &Credits) -> Result<CreditRules, SetupError> {
        let seed = self.model.config.seed;
        let spacing = credits.return_spacing.filter(|spacing| spacing.0 > 0);
        Ok(CreditRules {
            clock: spacing.map(|spacing| ReturnClock::new(spacing, seed, self.channel_owners())),
            shared: credits.shared.as_ref().map(|shared| self.shared_credits(shared)).transpose()?,
            retry: match &self.model.config.link.retry {
                Some(given) => Some(Box::new(Retry::new(self.retry(given)?, seed, self.channel_owners()))),
                None => None,
            },
        })
    }

    /// Checks that the queues of an input share its memory, if lanes share credits.
    pub(super) fn check_shared_credits(&self) -> Result<(), SetupError> {
        let is_shared = self.model.credits.is_some_and(|credits| credits.shared.is_some());
        if is_shared && !self.model.switch.shared {
            return Err(Reason::DividedCredits.at("flow_control.shared"));
        }
        Ok(())
    }

    /// The pool of each channel, and the limit that all channels have in common.
    fn shared_credits(&self, given: &SharedCredits) -> Result<Shared, SetupError> {
        let pools = self.directed().map(|WiredChannel { to, .. }| match to.node {
            NodeRef::Host(_) => self.pool(given, self.model.host.lane),
            NodeRef::Switch(_) => self.pool(given, self.model.switch.lane),
        });
        Ok(Shared {
            pools: pools.collect::<Result<_, _>>()?,
            limit: match (given.limit, given.alpha_shift) {
                (Some(limit), _) => Limit::Static(small(limit, "flow_control.shared.limit")?),
                (None, Some(shift)) => Limit::Dynamic(shift),
                (None, None) => Limit::None,
            },
        })
    }

    /// The reserve of each lane and the shared credits of a channel whose receiver has `lane` bytes for each
    /// lane. Fails if the reserve is smaller than the largest packet or larger than `lane`.
    pub(super) fn pool(&self, given: &SharedCredits, lane: u32) -> Result<CreditPool, SetupError> {
        const KEY: &str = "flow_control.shared.reserve";
        let PacketSizes { mtu, header, control, credit_block, .. } = self.model.sizes;
        let least = self.model.sizes.space((mtu + header).max(control));
        let reserve = match given.reserve {
            Some(bytes) => small(bytes, KEY)? / credit_block * credit_block,
            None => least,
        };
        if reserve < least || reserve > lane {
            let reason = Reason::CreditReserve { least, most: lane };
            return Err(match given.reserve {
                Some(bytes) => reason.of(KEY, bytes),
                None => reason.at(KEY),
            });
        }
        let size = (lane - reserve) * u32::from(self.model.lanes.count);
        Ok(CreditPool { reserve, size })
    }

    /// Resolves link-level retry. Checks that the retry buffer holds the largest packet, and that the timer
    /// of each link is longer than its round trip.
    fn retry(&self, given: &LinkRetry) -> Result<RetrySpec, SetupError> {
        const KEY: &str = "link.retry.timer";
        let sizes = self.model.sizes;
        let largest = (sizes.mtu + sizes.header).max(sizes.control);
        let ack_spacing = small(given.ack_spacing, "link.retry.ack_spacing")?;
        let bytes = small(given.bytes, "link.retry.bytes")?;
        if bytes < largest {
            return Err(Reason::NoRoomForFrame { largest }.of("link.retry.bytes", given.bytes));
        }
        for WiredChannel { link, .. } in self.directed() {
            let pace = link.rate.pace();
            let frame = pace.time(largest);
            let least = link.delay + link.delay + frame + frame + pace.time(ack_spacing);
            if given.timer <= least {
                let reason = Reason::ShortRetryTimer { rate: link.rate, delay: link.delay, least };
                return Err(reason.of(KEY, given.timer));
            }
        }
        Ok(RetrySpec {
            frames: given.frames,
            bytes,
            timer: given.timer,
            count: given.count,
            largest,
            error_ppb: self.model.config.link.error_rate_ppb,
            ack_spacing,
        })
    }
}
