//! Sets up the rules of credits, and link-level retry.

use silvan_network::port::Port;
use silvan_network::topology::NodeRef;

use super::{Builder, WiredChannel, small};
use crate::config::{Credits, LinkRetry, SharedCredits};
use crate::error::{Reason, SetupError};
use crate::host::PacketSizes;
use crate::link::{CreditPool, CreditRules, Limit, Retry, RetrySpec, ReturnClock, Shared, owner};

impl Builder<'_> {
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
