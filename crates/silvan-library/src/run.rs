//! A run that a program controls, and the order of calls.
//!
//! Calls have the order of time, and at one time the order in which the program asked for them. All arrivals at a time precede
//! the calls at that time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::{ExternalMessage, Fate, ModelError, Refused, Simulation, Stop};
use silvan_scenario::Scenario;

use crate::matching::{MatchKey, Matching};
use crate::results::{self, RunFacts};

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An argument is invalid. The run can continue.
    #[error("{0}")]
    Argument(String),
    /// The scenario is invalid, or its network cannot continue: a buffer overflows, or a link fails.
    #[error("{0}")]
    Scenario(String),
    /// Packets wait for each other, or messages will never arrive.
    #[error("{0}")]
    Deadlock(String),
    /// The run has reached its duration, or a file cannot be written.
    #[error("{0}")]
    Limit(String),
    /// An error of the simulator.
    #[error("{0}")]
    Internal(String),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::Argument(refused.to_string())
    }
}

impl From<ModelError> for Problem {
    fn from(error: ModelError) -> Self {
        let what = error.to_string();
        match error {
            ModelError::Deadlock { .. } | ModelError::Stalled { .. } => Self::Deadlock(what),
            ModelError::Broken { .. } => Self::Internal(what),
            _ => Self::Scenario(what),
        }
    }
}

/// A message of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The host that sends.
    pub from: u32,
    /// The host that receives.
    pub to: u32,
    /// Payload.
    pub bytes: u64,
    /// Receives match messages with the same tag.
    pub tag: u64,
    /// Service level.
    pub sl: u8,
}

impl Delivery {
    const fn key(&self) -> MatchKey {
        MatchKey { from: self.from, to: self.to, tag: self.tag }
    }
}

/// A message on its way, with its callbacks and the number of the first one.
#[derive(Debug)]
struct Outstanding<C> {
    delivery: Delivery,
    number: u64,
    sent: Option<C>,
    delivered: Option<C>,
}

/// A run that a program controls. See the [crate].
pub struct ControlledRun<C> {
    scenario: Scenario,
    overrides: Vec<(String, String)>,
    simulation: Simulation,
    started: SystemTime,
    /// Whether the program may send.
    may_send: bool,
    hosts: u32,
    /// Time that a message between ranks of one host takes.
    overhead: Time,
    /// Number of callbacks so far.
    numbers: u64,
    /// The callbacks whose time is known, by time and number.
    calls: BTreeMap<(Time, u64), C>,
    /// Messages from a host to itself that have not arrived, by time and number.
    own: BTreeMap<(Time, u64), Outstanding<C>>,
    /// Messages in the network, by their number in the simulation.
    outstanding: FxHashMap<u64, Outstanding<C>>,
    receives: Matching<(u64, C)>,
    is_stopped: bool,
    failed: Option<Problem>,
}

impl<C> ControlledRun<C> {
    /// Reads a scenario file and builds its network. If nothing in the scenario sends, the program may send; otherwise it may if
    /// the scenario has the key `external`. Overrides are pairs of dotted key and value, as after `silvan run --set`.
    ///
    /// # Errors
    /// [`Problem::Scenario`], with the place of the error.
    pub fn open(path: &Path, overrides: &[(String, String)]) -> Result<Self, Problem> {
        let wrong = |error: silvan_scenario::ScenarioError| Problem::Scenario(error.to_string());
        let run = Self::new(Scenario::load_controlled(path, overrides).map_err(wrong)?)?;
        Ok(Self { overrides: overrides.to_vec(), ..run })
    }

    /// Builds the network of a scenario, which was read by a function for controlled runs.
    ///
    /// # Errors
    /// [`Problem::Scenario`], with the place of the error.
    pub fn new(scenario: Scenario) -> Result<Self, Problem> {
        let started = SystemTime::now();
        let simulation = scenario.controlled().map_err(|error| Problem::Scenario(error.to_string()))?;
        Ok(Self {
            may_send: scenario.spec.external.is_some(),
            hosts: simulation.end_hosts(),
            overhead: scenario.spec.host.message_overhead,
            scenario,
            overrides: Vec::new(),
            simulation,
            started,
            numbers: 0,
            calls: BTreeMap::new(),
            own: BTreeMap::new(),
            outstanding: FxHashMap::default(),
            receives: Matching::default(),
            is_stopped: false,
            failed: None,
        })
    }

    /// Number of hosts, whose numbers start from 0.
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Whether the program may send.
    pub const fn may_send(&self) -> bool {
        self.may_send
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.simulation.now()
    }

    /// Current rate of the link on which a host sends, Gbit/s.
    ///
    /// # Errors
    /// [`Problem::Argument`] if the host does not exist.
    pub fn bandwidth_gbit_s(&self, host: u32) -> Result<f64, Problem> {
        self.check_host(host)?;
        Ok(self.simulation.host_rate(host).as_gbit_f64())
    }

    /// A quantity of the run by name, or a quantity of a host.
    ///
    /// # Errors
    /// [`Problem::Argument`] if there is no such quantity or host.
    pub fn quantity(&mut self, name: &str, host: u32) -> Result<f64, Problem> {
        let value = match name {
            "events" => self.simulation.events(),
            "packet_hops" => self.simulation.packet_hops(),
            "pending_messages" => self.simulation.pending_messages() + self.own.len() as u64,
            "pending_receives" => self.receives.open(),
            "unsent_bytes" => self.simulation.unsent_bytes(host)?,
            "sent_bytes" | "received_bytes" => {
                self.check_host(host)?;
                let (sent, received) = self.simulation.host_bytes(host);
                if name == "sent_bytes" { sent } else { received }
            }
            _ => {
                return Err(Problem::Argument(format!(
                    "no quantity `{name}`; there are events, packet_hops, pending_messages, pending_receives, and of hosts \
                     unsent_bytes, sent_bytes, received_bytes"
                )));
            }
        };
        Ok(value as f64)
    }

    fn check_host(&self, host: u32) -> Result<(), Problem> {
        let last = self.hosts - 1;
        if host <= last { Ok(()) } else { Err(Refused::NoHost(host, last).into()) }
    }

    fn check(&self) -> Result<(), Problem> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Numbers for callbacks.
    const fn take_numbers(&mut self, count: u64) -> u64 {
        self.numbers += count;
        self.numbers - count
    }

    /// Sends a message now. `sent` is called when its last byte has left the host, and `delivered` when the other host has
    /// drained its last byte.
    ///
    /// A message of zero bytes takes as long as a control packet. A message from a host to itself does not use the network; it
    /// takes `host.message_overhead`.
    ///
    /// # Errors
    /// [`Problem::Argument`] if a host or the service level does not exist, or if the scenario has other messages.
    pub fn send(&mut self, delivery: Delivery, sent: Option<C>, delivered: Option<C>) -> Result<(), Problem> {
        self.check()?;
        let Delivery { from, to, bytes, sl, .. } = delivery;
        if from == to {
            self.check_host(from)?;
            if !self.may_send {
                return Err(Refused::NotExternal.into());
            }
            let (number, at) = (self.take_numbers(2), self.now() + self.overhead);
            self.own.insert((at, number), Outstanding { delivery, number, sent, delivered });
            return Ok(());
        }
        let awaits_departure = sent.is_some();
        let message = self.simulation.send(ExternalMessage { from, to, bytes, sl, awaits_departure })?;
        let number = self.take_numbers(2);
        self.outstanding.insert(message, Outstanding { delivery, number, sent, delivered });
        Ok(())
    }

    /// Same as [`Self::send`], if the messages of the host that have not left completely have at most `room` bytes together with
    /// this one, or if there are none. Returns whether the message was sent.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub fn try_send(
        &mut self,
        delivery: Delivery,
        room: u64,
        sent: Option<C>,
        delivered: Option<C>,
    ) -> Result<bool, Problem> {
        self.check()?;
        let unsent = self.simulation.unsent_bytes(delivery.from)?;
        let has_room = unsent == 0 || unsent.saturating_add(delivery.bytes) <= room;
        if has_room {
            self.send(delivery, sent, delivered)?;
        }
        Ok(has_room)
    }

    /// Receives bytes: `arrived` is called when this number of bytes has arrived from a host with a tag, in addition to those of
    /// earlier receives. See [`crate::matching`].
    ///
    /// # Errors
    /// [`Problem::Argument`] if a host does not exist, or the number is zero.
    pub fn receive(&mut self, key: MatchKey, bytes: u64, arrived: C) -> Result<(), Problem> {
        self.check()?;
        self.check_host(key.from)?;
        self.check_host(key.to)?;
        if bytes == 0 {
            let what = "a receive needs at least one byte; a message of zero bytes only calls `delivered`";
            return Err(Problem::Argument(what.to_owned()));
        }
        let (number, now) = (self.take_numbers(1), self.now());
        let calls = &mut self.calls;
        self.receives.receive(key, bytes, (number, arrived), |(number, arrived)| {
            calls.insert((now, number), arrived);
        });
        Ok(())
    }

    /// Calls a callback at a time.
    ///
    /// # Errors
    /// [`Problem::Argument`] if the time has passed.
    pub fn at(&mut self, time: Time, alarm: C) -> Result<(), Problem> {
        self.check()?;
        let now = self.now();
        if time < now {
            return Err(Problem::Argument(format!("the time {time} has passed: it is {now}")));
        }
        let number = self.take_numbers(1);
        self.calls.insert((time, number), alarm);
        Ok(())
    }

    /// The time of the next call whose time is known.
    fn next_known(&self) -> Option<Time> {
        let calls = self.calls.first_key_value().map(|(&(time, _), _)| time);
        let own = self.own.first_key_value().map(|(&(time, _), _)| time);
        calls.into_iter().chain(own).min()
    }

    /// A time before which there is no call, unless the program asks for one; `None` if there will be no call.
    pub fn next_time(&mut self) -> Option<Time> {
        let of_network = if self.outstanding.is_empty() { None } else { self.simulation.next_event() };
        self.next_known().into_iter().chain(of_network).min()
    }

    /// Has [`Self::next_call`] return without a further call, once.
    pub const fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Advances until a callback is due, and returns it; `None` if the run has reached `until`, if [`Self::stop`] was called, or
    /// if `until` is [`Time::NEVER`] and nothing is left that could cause a call. Without messages of the program, the run then
    /// continues to its duration.
    ///
    /// # Errors
    /// [`Problem`]. After any other than [`Problem::Argument`] and [`Problem::Limit`], the run cannot continue.
    pub fn next_call(&mut self, until: Time) -> Result<Option<C>, Problem> {
        self.check()?;
        let now = self.now();
        if until < now {
            return Err(Problem::Argument(format!("the time {until} has passed: it is {now}")));
        }
        let mut has_reached = false;
        loop {
            if std::mem::take(&mut self.is_stopped) {
                return Ok(None);
            }
            self.deliver_own();
            if let Some(call) = self.calls.first_entry()
                && call.key().0 <= self.simulation.now()
            {
                return Ok(Some(call.remove()));
            }
            let target = self.next_known().map_or(until, |time| time.min(until));
            let is_idle = self.may_send && self.outstanding.is_empty() && target == Time::NEVER;
            if is_idle || has_reached && target == until {
                return Ok(None);
            }
            let stop = self.simulation.run_until(target);
            match stop.map_err(|error| self.fail(error.into()))? {
                Stop::Heard => self.hear(),
                Stop::Reached => has_reached = target == until,
                Stop::Idle => {
                    let count = self.outstanding.len();
                    let what =
                        format!("{count} messages will never arrive: the network is idle at {}", self.now());
                    return Err(self.fail(Problem::Deadlock(what)));
                }
                Stop::Ended => return self.ended(),
            }
        }
    }

    /// Stores a problem after which the run cannot continue.
    fn fail(&mut self, problem: Problem) -> Problem {
        self.failed = Some(problem.clone());
        problem
    }

    /// The run has reached its duration.
    fn ended(&self) -> Result<Option<C>, Problem> {
        if !self.may_send {
            return Ok(None);
        }
        Err(Problem::Limit(format!(
            "the run has reached its end, {}; set a longer duration, or a longer measure.interval if the results would have \
             too many rows",
            self.now()
        )))
    }

    /// Delivers the messages from hosts to themselves that are due.
    fn deliver_own(&mut self) {
        while let Some(own) = self.own.first_entry()
            && own.key().0 <= self.simulation.now()
        {
            let Outstanding { delivery, number, sent, delivered } = own.remove();
            let now = self.now();
            if let Some(sent) = sent {
                self.calls.insert((now, number), sent);
            }
            self.arrive(delivery, number, delivered, now);
        }
    }

    /// Notes what has happened to messages in the network.
    fn hear(&mut self) {
        for heard in self.simulation.take_heard() {
            match heard.fate {
                Fate::Left => {
                    let message = self.outstanding.get_mut(&heard.message);
                    if let Some((number, sent)) = message.and_then(|one| Some((one.number, one.sent.take()?)))
                    {
                        self.calls.insert((heard.time, number), sent);
                    }
                }
                Fate::Delivered => {
                    if let Some(message) = self.outstanding.remove(&heard.message) {
                        let Outstanding { delivery, number, sent, delivered } = message;
                        // With an output buffer at the host, both may happen at one time.
                        if let Some(sent) = sent {
                            self.calls.insert((heard.time, number), sent);
                        }
                        self.arrive(delivery, number, delivered, heard.time);
                    }
                }
            }
        }
    }

    fn arrive(&mut self, delivery: Delivery, number: u64, delivered: Option<C>, now: Time) {
        let calls = &mut self.calls;
        if let Some(delivered) = delivered {
            calls.insert((now, number + 1), delivered);
        }
        self.receives.arrive(delivery.key(), delivery.bytes, |(number, arrived)| {
            calls.insert((now, number), arrived);
        });
    }

    /// Ends the run, and returns its results.
    ///
    /// # Errors
    /// [`Problem`], also of an earlier call after which the run could not continue.
    pub fn finish(self) -> Result<(Outcome, RunFacts), Problem> {
        self.check()?;
        let Self { scenario, overrides, simulation, started, .. } = self;
        let mut outcome = simulation.finish()?;
        outcome.warnings.extend_from_slice(scenario.file_notes());
        Ok((outcome, RunFacts { scenario, overrides, started }))
    }

    /// Ends the run, and writes its results to a folder, if one is given.
    ///
    /// # Errors
    /// Those of [`Self::finish`], and [`Problem::Limit`] if a file cannot be written.
    pub fn close(self, folder: Option<&Path>) -> Result<(), Problem> {
        let Some(folder) = folder else { return self.check() };
        let (outcome, facts) = self.finish()?;
        let written = results::write(folder, &outcome, &facts);
        written.map_err(|error| Problem::Limit(format!("{}: {error}", folder.display())))
    }
}
