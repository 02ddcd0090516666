//! Completion times of finite flows. Rates are constant until a flow starts, stops or completes, and are then
//! recomputed.

use super::{Allocation, FluidError};

/// The active period of a flow, and the amount of data that it sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Start time in seconds.
    pub start_s: f64,
    /// Time in seconds at which the flow stops even if it is incomplete. Infinite if there is no limit.
    pub stop_s: f64,
    /// Data to send, in bits; infinite for an unlimited flow.
    pub bits: f64,
}

/// The fraction of a flow that may remain when the flow counts as complete. It absorbs rounding errors, which
/// would otherwise require additional steps.
const NOTHING: f64 = 1e-9;

/// Returns the time in seconds at which each flow has sent all its data, or `None` for flows that never do.
/// `allocate` receives one entry per flow, which is true for active flows, and returns the rates of all
/// flows.
///
/// # Errors
/// Any error of `allocate`, and an error if `allocate` returns the wrong number of rates.
pub fn completions(
    demands: &[Demand],
    mut allocate: impl FnMut(&[bool]) -> Result<Allocation, FluidError>,
) -> Result<Vec<Option<f64>>, FluidError> {
    let mut ends = vec![None; demands.len()];
    let mut left: Vec<f64> = demands.iter().map(|demand| demand.bits).collect();
    let mut now = 0.0;
    loop {
        let waits = |(demand, end): (&Demand, &Option<f64>)| end.is_none() && demand.stop_s > now;
        let there: Vec<bool> = demands.iter().zip(&ends).map(waits).collect();
        let active: Vec<bool> =
            there.iter().zip(demands).map(|(&there, demand)| there && demand.start_s <= now).collect();
        let finite = there.iter().zip(demands).any(|(&there, demand)| there && demand.bits.is_finite());
        if !finite {
            return Ok(ends);
        }
        let rates = if active.contains(&true) { allocate(&active)?.rates } else { vec![0.0; demands.len()] };
        if rates.len() != demands.len() {
            return Err(FluidError(format!("{} rates for {} flows", rates.len(), demands.len())));
        }
        let mut next = f64::INFINITY;
        for (flow, demand) in demands.iter().enumerate().filter(|(flow, _)| there[*flow]) {
            let event = if active[flow] { demand.stop_s } else { demand.start_s };
            let end = if active[flow] && rates[flow] > 0.0 { now + left[flow] / rates[flow] } else { event };
            next = next.min(event).min(end);
        }
        if next.is_infinite() {
            return Ok(ends);
        }
        for flow in (0..demands.len()).filter(|&flow| active[flow]) {
            left[flow] -= rates[flow] * (next - now);
            if demands[flow].bits.is_finite() && left[flow] <= NOTHING * demands[flow].bits {
                ends[flow] = Some(next);
            }
        }
        now = next;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, figure_1, problem};
    use super::super::{max_min, saa, uncontrolled};
    use super::*;

    const SECOND: Demand = Demand { start_s: 0.0, stop_s: f64::INFINITY, bits: 1.0 };

    fn ends_at(ends: &[Option<f64>], expected: &[f64]) -> bool {
        ends.len() == expected.len()
            && ends.iter().zip(expected).all(|(end, &at)| end.is_some_and(|end| close(end, at)))
    }

    #[test]
    fn figure_1_ends_after_five_without_control_and_after_four_at_best() {
        let problem = figure_1();
        let free = completions(&[SECOND; 6], |active| uncontrolled(&problem, active)).unwrap();
        assert!(ends_at(&free, &[5.0, 5.0, 5.0, 5.0, 3.0, 3.0]), "{free:?}");
        let best = completions(&[SECOND; 6], |active| Ok(saa(&problem, active))).unwrap();
        assert_eq!(best, [Some(4.0); 6]);
        let fair = completions(&[SECOND; 6], |active| Ok(max_min(&problem, active))).unwrap();
        assert_eq!(fair, [Some(4.0); 6]);
    }

    #[test]
    fn starts_stops_and_flows_without_end() {
        let shared = problem(&[1.0], &[&[0], &[0], &[0]]);
        let fair = |active: &[bool]| Ok(max_min(&shared, active));
        let late = Demand { start_s: 2.0, bits: 3.0, ..SECOND };
        let endless = Demand { bits: f64::INFINITY, stop_s: 4.0, ..SECOND };
        // The first flow shares the link with the unlimited flow and sends 1 bit by 2 s. The late flow sends 1 bit by
        // 4 s, when the unlimited flow stops, and its other 2 bits by 6 s.
        let ends = completions(&[SECOND, late, endless], fair).unwrap();
        assert!(ends[0].is_some_and(|end| close(end, 2.0)) && ends[2].is_none(), "{ends:?}");
        assert!(ends[1].is_some_and(|end| close(end, 6.0)), "{ends:?}");
        let early = Demand { stop_s: 0.5, ..SECOND };
        assert_eq!(completions(&[early, SECOND, SECOND], fair).unwrap()[0], None);
        assert_eq!(completions(&[endless; 3], fair).unwrap(), [None; 3]);
    }

    #[test]
    fn errors_of_rates_are_reported() {
        let error = completions(&[SECOND], |_| Err(FluidError("no".to_owned())));
        assert_eq!(error, Err(FluidError("no".to_owned())));
        let short = completions(&[SECOND], |_| Ok(Allocation::idle(0)));
        assert_eq!(short, Err(FluidError("0 rates for 1 flows".to_owned())));
    }
}
