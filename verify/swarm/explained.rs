//! Explanations of messages: their pieces must partition the time of the message, and their causes its delay.

use silvan_delays::{Circumstances, Delays, Explanation, Label, StepError};
use silvan_fabric::RunRecord;

use crate::case::guarded;
use crate::checks::Findings;

/// Number of messages of a run that are explained.
const MOST: usize = 12;

/// Explains the messages with the longest delays, and the jobs. The circumstances affect which causes are found, but not
/// that they add up, so `seed` draws them.
pub fn check(recording: RunRecord, seed: u64, findings: &mut Findings) {
    let job_numbers = recording.parcels.iter().map(|parcel| parcel.job + 1).max().unwrap_or(0);
    let has = |bit: u64| seed >> bit & 1 == 1;
    let circumstances = Circumstances {
        has_paths: has(0),
        has_one_queue: has(1),
        shares_inputs: has(2),
        requests_grants: has(3),
        goes_back: has(4),
        ..Circumstances::default()
    };
    let delays = Delays::new(recording, i64::MAX / 4, circumstances);
    let messages = delays.slowest(|_| true, MOST);
    for &(number, message) in &messages {
        findings.made.push("explained");
        let what = format!("message {number} of {:?}", message.flow);
        let span = Some((message.start, message.end));
        let found =
            guarded(|| delays.explain(message).map_err(|error| error.to_string())).and_then(|found| found);
        judge(found, span, &what, findings);
    }
    for job in 0..job_numbers {
        let explain = || match delays.explain_step(job, 0, i64::MAX / 4) {
            Ok(found) => Ok(Some(found)),
            // No rank of the job has done anything.
            Err(StepError::Nothing(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        if let Some(found) = guarded(explain).and_then(|found| found).transpose() {
            findings.made.push("explained");
            judge(found, None, &format!("job {job}"), findings);
        }
    }
}

fn judge(found: Result<Explanation, String>, span: Option<(i64, i64)>, what: &str, findings: &mut Findings) {
    let found = match found {
        Ok(found) => found,
        Err(error) => return findings.fail("explained", format!("{what}: {error}")),
    };
    let (start, end) = span.unwrap_or((found.start, found.end));
    let mut at = start;
    for piece in &found.pieces {
        if piece.start != at || piece.end <= piece.start {
            return findings.fail("explained", format!("{what}: after {at} ps comes {piece:?}"));
        }
        at = piece.end;
    }
    findings.ensure(at == end, "explained", || format!("{what}: ends at {at} ps instead of {end} ps"));
    let caused: i64 = found.causes.iter().map(|cause| cause.length).sum();
    let necessary = |piece: &&silvan_delays::Piece| piece.label == Label::Necessary;
    let rest: i64 = found.pieces.iter().filter(necessary).map(silvan_delays::Piece::length).sum();
    findings.ensure(caused + rest == end - start, "explained", || {
        format!("{what}: {caused} and {rest} ps are not {} ps", end - start)
    });
}
