//! Walks back in time along the critical path through the ranks of a job.
//!
//! The path begins at the operation that ended last, and continues with what it waited for: computation of the same
//! rank, or a message, and then with the rank that sent the message. A rank that is late because it waited for another
//! one is therefore not blamed.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use silvan_fabric::{FlowAddress, RecordedParcel};

use crate::piece::{Chains, Explanation, Label, Piece, Place, summed};
use crate::ports::united;
use crate::record::picos;
use crate::{Delays, Gap, Picos, StepError};

/// What a rank did in a part of its job, such as a collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankTime {
    /// The rank.
    pub rank: u32,
    /// When it posted its first message.
    pub arrival: Picos,
    /// From then to its last event, the time in which its CPUs were busy.
    pub busy: Picos,
    /// The rest of this time.
    pub waiting: Picos,
}

/// What the ranks of a job did. All lists are in order of time.
struct Ranks<'d> {
    delays: &'d Delays,
    /// By rank: the end and the start of each time in which a CPU was busy, and whether it computed.
    busy: FxHashMap<u32, Vec<(Picos, Picos, bool)>>,
    /// By rank: when messages had arrived, and had left.
    arrivals: FxHashMap<u32, Vec<(Picos, &'d RecordedParcel)>>,
    departures: FxHashMap<u32, Vec<(Picos, &'d RecordedParcel)>>,
    /// The messages of flows by their starts.
    messages: FxHashMap<FlowAddress, FxHashMap<Picos, usize>>,
    chains: Chains,
}

/// The row of a time in a list.
fn at<T: Copy>(rows: Option<&Vec<T>>, time: Picos, key: impl Fn(&T) -> Picos) -> Option<T> {
    let rows = rows?;
    let row = rows.get(rows.partition_point(|row| key(row) < time))?;
    (key(row) == time).then_some(*row)
}

/// The time of the last row before a time.
fn before<T>(rows: Option<&Vec<T>>, time: Picos, key: impl Fn(&T) -> Picos) -> Option<Picos> {
    let rows = rows?;
    Some(key(&rows[rows.partition_point(|row| key(row) < time).checked_sub(1)?]))
}

impl<'d> Ranks<'d> {
    fn new(delays: &'d Delays, job: u32) -> Self {
        let recording = &delays.record.recording;
        let mut busy: FxHashMap<u32, Vec<_>> = FxHashMap::default();
        for (_, time) in recording.busy.iter().filter(|row| row.0 == job) {
            busy.entry(time.rank).or_default().push((picos(time.end), picos(time.start), time.computes));
        }
        let mut arrivals: FxHashMap<u32, Vec<(Picos, &RecordedParcel)>> = FxHashMap::default();
        let mut departures = arrivals.clone();
        for parcel in recording.parcels.iter().filter(|parcel| parcel.job == job) {
            for (time, rank, rows) in
                [(parcel.delivered, parcel.to, &mut arrivals), (parcel.left, parcel.from, &mut departures)]
            {
                if let Some(time) = time {
                    rows.entry(rank).or_default().push((picos(time), parcel));
                }
            }
        }
        busy.values_mut().for_each(|rows| rows.sort_unstable());
        arrivals.values_mut().chain(departures.values_mut()).for_each(|rows| rows.sort_by_key(|row| row.0));
        let (messages, chains) = (FxHashMap::default(), Chains::default());
        Self { delays, busy, arrivals, departures, messages, chains }
    }

    /// The time and the rank of the last event until a time; of several ranks, the first.
    fn last(&self, until: Picos) -> Option<(Picos, u32)> {
        let busy = self
            .busy
            .iter()
            .filter_map(|(&rank, rows)| Some((before(Some(rows), until + 1, |row| row.0)?, rank)));
        let arrivals = self
            .arrivals
            .iter()
            .filter_map(|(&rank, rows)| Some((before(Some(rows), until + 1, |row| row.0)?, rank)));
        busy.chain(arrivals).max_by_key(|&(time, rank)| (time, std::cmp::Reverse(rank)))
    }

    /// Divides the time from `start` to the last event until `end` along the critical path.
    fn path(&mut self, (start, end): (Picos, Picos)) -> Result<Vec<Piece>, StepError> {
        let (mut time, mut rank) = self.last(end).ok_or(StepError::Nothing(end))?;
        let mut pieces = Vec::new();
        // The ranks on the path at this time. Messages may take no time, and lead to each other.
        let mut visited = vec![rank];
        while time > start {
            let (begin, next, parts) = self.before(rank, time, &visited)?;
            if begin < time {
                visited.clear();
            }
            visited.push(next);
            pieces.extend(parts.into_iter().rev().filter(|piece| piece.end > piece.start));
            (time, rank) = (begin, next);
        }
        pieces.reverse();
        pieces.iter_mut().for_each(|piece| piece.start = piece.start.max(start));
        pieces.retain(|piece| piece.end > piece.start);
        Ok(pieces)
    }

    /// Where the path continues before a time, with the pieces up to this time.
    /// It is earlier, or at another rank than those of `visited`.
    fn before(&mut self, rank: u32, time: Picos, visited: &[u32]) -> Result<(Picos, u32, Vec<Piece>), Gap> {
        let place = Place::Rank(rank);
        let (busy, arrivals, departures) =
            (self.busy.get(&rank), self.arrivals.get(&rank), self.departures.get(&rank));
        if let Some((end, start, computes)) = at(busy, time, |row| row.0).filter(|row| row.1 < time) {
            let label = if computes { Label::Compute } else { Label::Overhead };
            return Ok((start, rank, vec![Piece::new((start, end), label, place)]));
        }
        let leads_on =
            |parcel: &RecordedParcel| picos(parcel.handed) < time || !visited.contains(&parcel.from);
        if let Some((_, parcel)) = at(arrivals, time, |row| row.0).filter(|row| leads_on(row.1)) {
            return Ok((picos(parcel.handed), parcel.from, self.carried(parcel, time)?));
        }
        if let Some((_, parcel)) = at(departures, time, |row| row.0).filter(|row| picos(row.1.handed) < time)
        {
            return Ok((picos(parcel.handed), rank, self.carried(parcel, time)?));
        }
        let begin = self.last_event(rank, time).unwrap_or(0);
        Ok((begin, rank, vec![Piece::new((begin, time), Label::Local, place)]))
    }

    fn carried(&mut self, parcel: &RecordedParcel, until: Picos) -> Result<Vec<Piece>, Gap> {
        let handed = picos(parcel.handed);
        let known = self.delays.messages(parcel.flow);
        let by_start = self.messages.entry(parcel.flow).or_insert_with(|| {
            known.iter().enumerate().map(|(number, message)| (message.start, number)).collect()
        });
        let Some(&number) = by_start.get(&handed) else {
            return Ok(vec![Piece::new((handed, until), Label::Earlier, Place::Host(parcel.flow.host))]);
        };
        let (mut pieces, chains) = self.delays.walk(&known[number])?;
        let mut known_chains: FxHashMap<u32, u32> = FxHashMap::default();
        for piece in &mut pieces {
            // The earlier messages of the flow belong to the same rank, which could not send this one sooner.
            if piece.label == Label::OutputBusy && piece.owner == Some(parcel.flow) {
                piece.label = Label::Necessary;
            }
            piece.chain = *known_chains.entry(piece.chain).or_insert_with(|| {
                let channels = chains.channels(piece.chain);
                channels.into_iter().fold(0, |chain, channel| self.chains.extended(chain, channel))
            });
            piece.end = piece.end.min(until);
        }
        pieces.retain(|piece| piece.end > piece.start);
        let end = pieces.last().map_or(handed, |piece| piece.end);
        if end < until {
            // The host passes the message to the rank later.
            pieces.push(Piece::new((end, until), Label::Local, Place::Rank(parcel.to)));
        }
        Ok(pieces)
    }

    /// When something last happened at a rank before a time.
    fn last_event(&self, rank: u32, time: Picos) -> Option<Picos> {
        let ends = [
            before(self.busy.get(&rank), time, |row| row.0),
            before(self.arrivals.get(&rank), time, |row| row.0),
            before(self.departures.get(&rank), time, |row| row.0),
        ];
        ends.into_iter().flatten().max()
    }

    /// What each rank that posts a message from `start` to `end` did in this time, in order of ranks.
    fn times(&self, (start, end): (Picos, Picos)) -> Vec<RankTime> {
        let mut arrivals: BTreeMap<u32, Picos> = BTreeMap::new();
        for (_, parcel) in self.departures.values().flatten() {
            let handed = picos(parcel.handed);
            if (start..=end).contains(&handed) {
                let first = arrivals.entry(parcel.from).or_insert(handed);
                *first = handed.min(*first);
            }
        }
        let time = |(rank, arrival): (u32, Picos)| {
            let busy = self.busy.get(&rank);
            let last = self.last_event(rank, end + 1).unwrap_or(arrival).max(arrival);
            let inside = busy.into_iter().flatten().map(|row| (row.1.max(arrival), row.0.min(last)));
            let busy = united(inside.filter(|span| span.0 < span.1).collect());
            let busy = busy.into_iter().map(|(begin, stop)| stop - begin).sum::<Picos>();
            RankTime { rank, arrival, busy, waiting: last - arrival - busy }
        };
        arrivals.into_iter().map(time).collect()
    }

    /// The median of the times that ranks computed.
    fn usual_computation(&self) -> Picos {
        let computed = |rows: &Vec<(Picos, Picos, bool)>| {
            rows.iter().filter(|row| row.2).map(|&(end, start, _)| end - start).sum()
        };
        let mut sums: Vec<Picos> = self.busy.values().map(computed).collect();
        sums.sort_unstable();
        sums.get(sums.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }
}

/// See [`Delays::explain_step`].
pub(crate) fn explain(
    delays: &Delays,
    job: u32,
    (start, end): (Picos, Picos),
) -> Result<Explanation, StepError> {
    let mut ranks = Ranks::new(delays, job);
    let usual = ranks.usual_computation();
    let mut kept: FxHashMap<Place, Picos> = FxHashMap::default();
    let mut pieces = Vec::new();
    for piece in ranks.path((start, end))? {
        match piece.label {
            Label::Overhead | Label::Local => pieces.push(Piece { label: Label::Necessary, ..piece }),
            Label::Compute => {
                let kept = kept.entry(piece.place).or_default();
                let edge = (piece.start + (usual - *kept).max(0)).min(piece.end);
                *kept += edge - piece.start;
                let parts =
                    [Piece { end: edge, label: Label::Necessary, ..piece }, Piece { start: edge, ..piece }];
                pieces.extend(parts.into_iter().filter(|part| part.end > part.start));
            }
            _ => pieces.push(piece),
        }
    }
    let causes = summed(&pieces, &ranks.chains, &delays.record);
    let times = ranks.times((start, end));
    let end = pieces.last().map_or(start, |piece| piece.end);
    let ideal = end - start - causes.iter().map(|cause| cause.length).sum::<Picos>();
    Ok(Explanation { start, end, ideal, pieces, causes, chains: ranks.chains, ranks: times })
}
