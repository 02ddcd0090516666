//! A run that a program outside the model controls: it sends messages, and the run stops when the program has something to
//! learn.

use silvan_engine::{Rate, Time};

use super::{ModelError, Simulation};
use crate::jobs::{External, ExternalMessage, Heard, Jobs};
use crate::partition::Partition;

/// Why [`Simulation::run_until`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is something to learn; see [`Simulation::take_heard`].
    Heard,
    /// The run has reached the time. Messages sent now precede a sample at this time.
    Reached,
    /// Nothing more will happen, so a run without limit would never return.
    Idle,
    /// The run has reached its duration.
    Ended,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The configuration has no [`crate::config::Config::external`].
    #[error("the scenario is not one whose messages a program sends; add [external]")]
    NotExternal,
    /// The host does not exist.
    #[error("host {0} does not exist: hosts have the numbers 0 to {1}")]
    NoHost(u32, u32),
    /// Sender and receiver are the same.
    #[error("host {0} cannot send to itself over the network")]
    SameHost(u32),
    /// The service level is too high.
    #[error("service level {0} is not used: levels are 0 to {1}")]
    NoLevel(u8, u8),
    /// The run has ended.
    #[error("the run has ended at {0}")]
    Ended(Time),
}

impl Simulation {
    /// The messages of the program outside the model. There is then one partition.
    fn external(&mut self) -> Option<&mut External> {
        self.network.partitions[0].jobs.as_mut().and_then(Jobs::external)
    }

    /// Sends a message now. Returns its number: 0 for the first message.
    ///
    /// # Errors
    /// [`Refused`] if the configuration or the message does not permit it.
    pub fn send(&mut self, message: ExternalMessage) -> Result<u64, Refused> {
        let ExternalMessage { from, to, sl, .. } = message;
        let (hosts, done, now) = (self.end_hosts as u32, self.done, self.now);
        let levels = self.external().ok_or(Refused::NotExternal)?.levels();
        if let Some(&host) = [from, to].iter().find(|&&host| host >= hosts) {
            return Err(Refused::NoHost(host, hosts - 1));
        }
        if from == to {
            return Err(Refused::SameHost(from));
        }
        if sl >= levels {
            return Err(Refused::NoLevel(sl, levels - 1));
        }
        if done {
            return Err(Refused::Ended(now));
        }
        self.network.is_destination[to as usize] = true;
        self.network.partitions[0].send(message).ok_or(Refused::NotExternal)
    }

    /// Number of hosts that can send.
    #[must_use]
    pub fn end_hosts(&self) -> u32 {
        self.end_hosts as u32
    }

    /// Number of events processed so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The current rate of the link on which a host sends.
    #[must_use]
    pub fn host_rate(&self, host: u32) -> Rate {
        let (partition, place) = self.network.places.hosts[host as usize];
        let partition = &self.network.partitions[usize::from(partition)];
        partition.ctx.links.rate(partition.hosts[place as usize].out)
    }

    /// Payload that a host has sent and received so far. The number of received bytes may include packets that will be drained
    /// before the run stops next.
    #[must_use]
    pub fn host_bytes(&self, host: u32) -> (u64, u64) {
        let meters = self.network.partitions.iter().map(|partition| &partition.ctx.meters);
        let of_each =
            meters.map(|meters| (meters.sent_bytes[host as usize], meters.received_bytes[host as usize]));
        of_each.fold((0, 0), |sums, own| (sums.0 + own.0, sums.1 + own.1))
    }

    /// What has happened to messages since the last call, in the order of time.
    pub fn take_heard(&mut self) -> Vec<Heard> {
        self.external().map_or_else(Vec::new, |external| external.take_heard().collect())
    }

    /// Number of messages of the program that have not arrived.
    pub fn pending_messages(&mut self) -> u64 {
        self.external().map_or(0, |external| external.pending())
    }

    /// Bytes of the messages of a host that have not left it completely.
    ///
    /// # Errors
    /// [`Refused`] if the host does not exist, or the configuration does not permit messages.
    pub fn unsent_bytes(&mut self, host: u32) -> Result<u64, Refused> {
        let hosts = self.end_hosts as u32;
        let external = self.external().ok_or(Refused::NotExternal)?;
        if host < hosts { Ok(external.unsent(host)) } else { Err(Refused::NoHost(host, hosts - 1)) }
    }

    /// A time before which nothing happens in the network; `None` if nothing will happen. Samples do not count.
    pub fn next_event(&mut self) -> Option<Time> {
        if self.done {
            return None;
        }
        let of_each = self.network.partitions.iter_mut().filter_map(Partition::next_event);
        of_each.min().map(|time| time.max(self.now))
    }

    /// Advances to a time, or until there is something to learn. The run stops at a time as at a sample, after the arrivals
    /// and before the decisions at that time, so stops do not affect its results. With [`Time::NEVER`], it also stops when
    /// nothing more will happen.
    ///
    /// # Errors
    /// Those of [`Self::advance`].
    pub fn run_until(&mut self, until: Time) -> Result<Stop, ModelError> {
        let (is_external, until) = (self.external().is_some(), until.max(self.now));
        loop {
            if self.has_heard() {
                return Ok(Stop::Heard);
            }
            if self.done {
                return Ok(Stop::Ended);
            }
            if until == Time::NEVER && is_external && self.next_event().is_none() {
                return Ok(Stop::Idle);
            }
            let stop = self.next_stop();
            let cut = stop.min(until);
            self.network.expect_sample(cut);
            if !self.run_to(cut, u64::MAX)? || self.has_heard() {
                self.forget_boundaries();
                continue;
            }
            if until < stop || until == stop && stop < self.config.duration {
                self.now = until;
                self.network.partitions.iter_mut().for_each(|partition| partition.ctx.now = until);
                self.check_broken()?;
                return Ok(Stop::Reached);
            }
            self.reach(stop)?;
        }
    }

    /// Whether the program has something to learn.
    fn has_heard(&mut self) -> bool {
        self.external().is_some_and(|external| external.has_heard())
    }
}
