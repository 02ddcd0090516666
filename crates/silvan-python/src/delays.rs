//! The causes of delays, from the recording of a run.

use std::collections::HashMap;
use std::sync::Mutex;

use pyo3::prelude::*;
use silvan_delays::{Chains, Circumstances, Message, Place, RankTime, Record, Signal};
use silvan_fabric::{FlowAddress, RecordedChannel};

use crate::convert::SilvanError;
use crate::tables::ArrayView;

/// A flow: sending host, number of the source in it, and receiving host.
type FlowKey = (u32, u16, u32);
/// Start, end, bytes, and ideal time of a message.
type MessageRow = (i64, i64, u64, i64);
/// Time, channel, and whether a packet was marked there.
type SignalRow = (i64, String, bool);
/// Label, place, picoseconds, owners with their picoseconds, chain, signal of a reaction, and kind of a loss.
type CauseRow =
    (&'static str, String, i64, Vec<(FlowKey, i64)>, Vec<String>, Option<SignalRow>, Option<&'static str>);
/// Start, end, label, place, owner, chain, and signal of a reaction.
type PieceRow = (i64, i64, &'static str, String, Option<FlowKey>, Vec<String>, Option<SignalRow>);

fn address((host, source, destination): FlowKey) -> FlowAddress {
    FlowAddress { host, source, destination }
}

fn key(FlowAddress { host, source, destination }: FlowAddress) -> FlowKey {
    (host, source, destination)
}

fn row(message: &Message) -> MessageRow {
    (message.start, message.end, message.bytes, message.ideal)
}

/// What a run has recorded; [`Delays`] takes it.
#[pyclass(module = "silvan._core", frozen)]
pub struct Recording {
    taken: Mutex<Option<silvan_fabric::RunRecord>>,
    channels: Vec<String>,
    is_full: bool,
}

impl Recording {
    pub fn new(recording: silvan_fabric::RunRecord) -> Self {
        let channels = recording.channels.iter().map(|channel: &RecordedChannel| channel.name.clone());
        Self { channels: channels.collect(), is_full: recording.is_full, taken: Mutex::new(Some(recording)) }
    }
}

#[pymethods]
impl Recording {
    /// Names of the directions of links, by number.
    #[getter]
    fn channels(&self) -> Vec<String> {
        self.channels.clone()
    }

    /// Whether the recording reached its limit, so that its end is missing.
    #[getter]
    fn is_full(&self) -> bool {
        self.is_full
    }
}

/// What the scenario states about its network: a dictionary with the fields of [`Circumstances`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Facts {
    down: HashMap<u32, Vec<(i64, i64)>>,
    has_paths: bool,
    has_one_queue: bool,
    shares_inputs: bool,
    requests_grants: bool,
    goes_back: bool,
    senses_delays: bool,
}

impl From<Facts> for Circumstances {
    fn from(facts: Facts) -> Self {
        Self {
            down: facts.down.into_iter().collect(),
            has_paths: facts.has_paths,
            has_one_queue: facts.has_one_queue,
            shares_inputs: facts.shares_inputs,
            requests_grants: facts.requests_grants,
            goes_back: facts.goes_back,
            senses_delays: facts.senses_delays,
        }
    }
}

/// A recording with what the scenario states about its network.
#[pyclass(module = "silvan._core", frozen)]
pub struct Delays {
    inner: silvan_delays::Delays,
}

#[pymethods]
impl Delays {
    /// Takes a recording, which ends at `until_ps`. Raises `SilvanError` if the recording has been taken before.
    #[new]
    fn new(
        py: Python<'_>,
        recording: &Bound<'_, Recording>,
        until_ps: i64,
        circumstances: Facts,
    ) -> PyResult<Self> {
        let taken = recording.get().taken.lock().map_or(None, |mut taken| taken.take());
        let taken = taken.ok_or_else(|| SilvanError::new_err("the recording has been taken before"))?;
        let inner = py.detach(|| silvan_delays::Delays::new(taken, until_ps, circumstances.into()));
        Ok(Self { inner })
    }

    /// Names of hosts, by number.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.inner.record().hosts().to_vec()
    }

    /// What the sending port of each channel did in intervals that end at given times: `packets`, `bytes`, `notifications`
    /// and `waiting` (in picoseconds). The columns have a row per interval and channel, in this order.
    fn activity(&self, py: Python<'_>, ends_ps: Vec<i64>) -> HashMap<&'static str, ArrayView> {
        let found = py.detach(|| self.inner.activity(&ends_ps));
        let columns = [
            ("packets", found.packets),
            ("bytes", found.bytes),
            ("notifications", found.notifications),
            ("waiting", found.waiting),
        ];
        columns.into_iter().map(|(name, values)| (name, ArrayView::of(values))).collect()
    }

    /// All flows that have packets, including those of answers.
    fn flows(&self) -> Vec<FlowKey> {
        self.inner.record().flows().map(key).collect()
    }

    /// The number of the class of a flow; `None` if it has no packets.
    fn class_of(&self, flow: FlowKey) -> Option<u16> {
        self.inner.record().class_of(address(flow))
    }

    /// The messages of a flow that were recorded from their first packet to their delivery: start, end, bytes, and the
    /// time that they take alone.
    fn messages(&self, flow: FlowKey) -> Vec<MessageRow> {
        self.inner.messages(address(flow)).iter().map(row).collect()
    }

    /// The flow, the number, and the row of [`Self::messages`] of the `most` messages with the longest delays, the longest
    /// first. Numbers of hosts restrict them to their sender or receiver.
    fn slowest(
        slf: &Bound<'_, Self>,
        sender: Option<u32>,
        receiver: Option<u32>,
        most: usize,
    ) -> Vec<(FlowKey, usize, MessageRow)> {
        let inner = &slf.get().inner;
        let is_chosen = |flow: FlowAddress| {
            sender.is_none_or(|host| host == flow.host)
                && receiver.is_none_or(|host| host == flow.destination)
        };
        let found = slf.py().detach(|| inner.slowest(is_chosen, most));
        found.into_iter().map(|(number, message)| (key(message.flow), number, row(message))).collect()
    }

    /// Explains a message by its number in [`Self::messages`]. Raises `SilvanError` if there is none, or if the pieces do
    /// not add up, which would be an error in Silvan.
    fn explain(slf: &Bound<'_, Self>, flow: FlowKey, number: usize) -> PyResult<Explanation> {
        let inner = &slf.get().inner;
        let message = inner.messages(address(flow)).get(number);
        let message = message.ok_or_else(|| SilvanError::new_err("there is no such message"))?;
        let found = slf.py().detach(|| inner.explain(message));
        let found = found.map_err(|error| SilvanError::new_err(error.to_string()))?;
        Ok(Explanation { found, delays: slf.clone().unbind(), job: String::new() })
    }

    /// Explains the part of a job, which has a number and a name, from a time to the last event until another time.
    /// Raises `SilvanError` if there is no such event, or if the pieces do not add up, which would be an error in Silvan.
    fn explain_step(
        slf: &Bound<'_, Self>,
        job: (u32, String),
        start_ps: i64,
        end_ps: i64,
    ) -> PyResult<Explanation> {
        let inner = &slf.get().inner;
        let (number, job) = job;
        let found = slf.py().detach(|| inner.explain_step(number, start_ps, end_ps));
        let found = found.map_err(|error| SilvanError::new_err(format!("job {job}: {error}")))?;
        Ok(Explanation { found, delays: slf.clone().unbind(), job })
    }
}

/// The causes of the duration of a message, a job or an operation.
#[pyclass(module = "silvan._core", frozen)]
pub struct Explanation {
    found: silvan_delays::Explanation,
    delays: Py<Delays>,
    job: String,
}

impl Explanation {
    fn place(&self, record: &Record, place: Place) -> String {
        let name = record.name_of(place);
        if matches!(place, Place::Rank(_)) { format!("{name} of {}", self.job) } else { name }
    }
}

fn signal(record: &Record, signal: Option<Signal>) -> Option<SignalRow> {
    signal.map(|known| (known.time, record.name_of(Place::Channel(known.channel)), known.is_mark))
}

fn names(record: &Record, chains: &Chains, chain: u32) -> Vec<String> {
    chains.channels(chain).into_iter().map(|channel| record.name_of(Place::Channel(channel))).collect()
}

#[pymethods]
impl Explanation {
    /// End in picoseconds.
    #[getter]
    fn end_ps(&self) -> i64 {
        self.found.end
    }

    /// Ideal duration in picoseconds.
    #[getter]
    fn ideal_ps(&self) -> i64 {
        self.found.ideal
    }

    /// The causes by share, the largest first.
    fn causes(&self) -> Vec<CauseRow> {
        let record = self.delays.get().inner.record();
        let row = |cause: &silvan_delays::Cause| {
            let owners = cause.owners.iter().map(|&(flow, length)| (key(flow), length)).collect();
            let chain = names(record, &self.found.chains, cause.chain);
            let place = self.place(record, cause.place);
            let loss = cause.loss.map(silvan_delays::LossKind::name);
            (cause.label.name(), place, cause.length, owners, chain, signal(record, cause.signal), loss)
        };
        self.found.causes.iter().map(row).collect()
    }

    /// For a job or an operation: the rank, its arrival, and its busy and waiting times, of each rank that posts a message.
    fn ranks(&self) -> Vec<(u32, i64, i64, i64)> {
        let row = |time: &RankTime| (time.rank, time.arrival, time.busy, time.waiting);
        self.found.ranks.iter().map(row).collect()
    }

    /// What happened when, in order, without gaps.
    fn pieces(&self) -> Vec<PieceRow> {
        let record = self.delays.get().inner.record();
        let row = |piece: &silvan_delays::Piece| {
            let chain = names(record, &self.found.chains, piece.chain);
            let (place, owner) = (self.place(record, piece.place), piece.owner.map(key));
            (piece.start, piece.end, piece.label.name(), place, owner, chain, signal(record, piece.signal))
        };
        self.found.pieces.iter().map(row).collect()
    }
}
