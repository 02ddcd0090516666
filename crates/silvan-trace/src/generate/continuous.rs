//! Continuous batching: requests join the batch of an instance at any step, and prompts are processed in parts next to the
//! generation of tokens.
//!
//! In each step, each running request generates a token, and the prompts of waiting requests, in the order of their arrivals,
//! fill the rest of the budget of tokens. A request begins when fewer requests than the largest batch are running, and generates
//! its first token in the step that processes the rest of its prompt.
//!
//! Which requests take part in a step depends on the times at which steps start, so it is planned before the run: with the
//! computation times, and the times of all-reduces by rings at a given rate. In the run, a step waits for the requests that join
//! it, and for the previous step.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::within;

/// A request with its own sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Time of its arrival after the start of the job. Requests are listed in the order of their arrivals.
    pub at: Time,
    /// Length of the prompt in tokens.
    pub prompt: u64,
    /// Tokens that are generated.
    pub output: u32,
}

/// Continuous batching with prompts in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Continuous {
    /// Most tokens of a step: one for each running request, and parts of prompts. At least `batch`.
    pub token_budget: u64,
    /// The rate at which the plan assumes that a rank sends in the all-reduces of a step. Default: they take no time in the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_rate: Option<Rate>,
    /// The requests. Default: `requests` of them every `interval`, with `prompt` and `output` tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<Request>,
}

impl Default for Continuous {
    fn default() -> Self {
        Self { token_budget: 2048, planned_rate: None, arrivals: Vec::new() }
    }
}

/// A step of an instance. Requests are numbers among those of the instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Step {
    pub tokens: u64,
    /// The requests that begin.
    pub joins: Vec<usize>,
    /// The requests that generate their first token.
    pub firsts: Vec<usize>,
    /// The requests that generate their last token.
    pub lasts: Vec<usize>,
}

/// The state of the instance while its steps are planned.
struct Plan<'r> {
    requests: &'r [Request],
    /// Most running requests, and tokens of a step.
    most: (usize, u64),
    /// Requests that have begun whose prompt is not complete, with the tokens that are left.
    prompts: VecDeque<(usize, u64)>,
    /// Requests that generate tokens, with the tokens that are left.
    running: Vec<(usize, u32)>,
    /// Number of requests that have begun.
    begun: usize,
}

impl Plan<'_> {
    /// The next step, which starts at a time (ps); `None` if no request can take part.
    fn step(&mut self, now: u64) -> Option<Step> {
        let (most, budget) = self.most;
        let mut step = Step { tokens: self.running.len() as u64, ..Step::default() };
        for (request, left) in &mut self.running {
            *left -= 1;
            if *left == 0 {
                step.lasts.push(*request);
            }
        }
        let mut firsts = Vec::new();
        while step.tokens < budget {
            if self.prompts.is_empty() {
                let next = self.requests.get(self.begun).filter(|next| next.at.0 <= now);
                let has_room = self.running.len() + firsts.len() < most;
                let Some(next) = next.filter(|_| has_room) else { break };
                self.prompts.push_back((self.begun, next.prompt));
                step.joins.push(self.begun);
                self.begun += 1;
            }
            let Some((request, left)) = self.prompts.front_mut() else { break };
            let part = (*left).min(budget - step.tokens);
            step.tokens += part;
            *left -= part;
            if *left == 0 {
                firsts.push(*request);
                self.prompts.pop_front();
            }
        }
        self.running.retain(|&(_, left)| left > 0);
        for request in firsts {
            let left = self.requests[request].output - 1;
            step.firsts.push(request);
            match left {
                0 => step.lasts.push(request),
                _ => self.running.push((request, left)),
            }
        }
        (step.tokens > 0).then_some(step)
    }
}

/// What a plan needs to know about a model.
pub(super) struct Planned<F> {
    /// Most running requests.
    pub batch: u32,
    /// The time in ps of a step with a number of tokens.
    pub step_ps: F,
}

impl Continuous {
    /// Checks the sizes. `batch` is the largest number of running requests.
    pub(super) fn check(&self, batch: u32) -> Result<(), String> {
        within("continuous.token_budget", self.token_budget, u64::from(batch), 1 << 24)?;
        if self.planned_rate.is_some_and(|rate| rate.0 < 1_000) {
            return Err("continuous.planned_rate: must be at least 1 kbit/s".to_owned());
        }
        for (number, request) in self.arrivals.iter().enumerate() {
            let at = |key: &str| format!("continuous.arrivals.{number}.{key}");
            within(&at("prompt"), request.prompt, 1, 1 << 24)?;
            within(&at("output"), u64::from(request.output), 1, 1 << 20)?;
            if number > 0 && self.arrivals[number - 1].at > request.at {
                return Err(format!("{}: requests must be in the order of their arrivals", at("at")));
            }
        }
        Ok(())
    }

    /// An upper limit of the number of steps of all instances.
    pub(super) fn most_steps(&self, requests: &[Request]) -> u64 {
        let of = |one: &Request| u64::from(one.output) + one.prompt.div_ceil(self.token_budget.max(1)) + 1;
        requests.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The steps of an instance.
    pub(super) fn steps(&self, requests: &[Request], model: &Planned<impl Fn(u64) -> u64>) -> Vec<Step> {
        let most = (model.batch as usize, self.token_budget);
        let (prompts, running) = (VecDeque::new(), Vec::new());
        let mut plan = Plan { requests, most, prompts, running, begun: 0 };
        let (mut now, mut steps) = (0u64, Vec::new());
        loop {
            if let Some(step) = plan.step(now) {
                now = now.saturating_add((model.step_ps)(step.tokens));
                steps.push(step);
            } else if let Some(next) = requests.get(plan.begun) {
                now = now.max(next.at.0);
            } else {
                return steps;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(list: &[(u64, u64, u32)]) -> Vec<Request> {
        list.iter().map(|&(us, prompt, output)| Request { at: Time::from_us(us), prompt, output }).collect()
    }

    /// The tokens of each step, and the requests that join, generate their first and their last token. A step takes 10 us, and
    /// a time per token in addition.
    fn planned(
        batching: &Continuous,
        batch: u32,
        list: &[(u64, u64, u32)],
        token_us: u64,
    ) -> Vec<(u64, [Vec<usize>; 3])> {
        let step_ps = |tokens: u64| (10 + tokens * token_us) * 1_000_000;
        let steps = batching.steps(&requests(list), &Planned { batch, step_ps });
        steps.into_iter().map(|step| (step.tokens, [step.joins, step.firsts, step.lasts])).collect()
    }

    #[test]
    fn prompts_fill_the_budget_next_to_running_requests() {
        let batching = Continuous { token_budget: 8, ..Continuous::default() };
        let found = planned(&batching, 4, &[(0, 12, 3), (0, 3, 2), (35, 8, 1)], 0);
        let wanted: Vec<(u64, [Vec<usize>; 3])> = vec![
            (8, [vec![0], vec![], vec![]]),
            (7, [vec![1], vec![0, 1], vec![]]),
            (2, [vec![], vec![], vec![1]]),
            (1, [vec![], vec![], vec![0]]),
            // The step that begins after 40 us.
            (8, [vec![2], vec![2], vec![2]]),
        ];
        assert_eq!(found, wanted);
        // A request that arrives during a step joins the next one, in the rest of its budget.
        let found = planned(&batching, 4, &[(0, 8, 4), (1, 8, 1)], 0);
        let tokens: Vec<u64> = found.iter().map(|step| step.0).collect();
        assert_eq!(tokens, [8, 8, 2, 1]);
        assert_eq!(found[1].1[0], [1]);
        assert_eq!(found[2].1[1], [1]);
    }

    #[test]
    fn a_full_batch_keeps_requests_waiting() {
        let batching = Continuous { token_budget: 100, ..Continuous::default() };
        let found = planned(&batching, 1, &[(0, 5, 3), (0, 5, 1)], 0);
        let tokens: Vec<u64> = found.iter().map(|step| step.0).collect();
        assert_eq!(tokens, [5, 1, 1, 5]);
    }

    #[test]
    fn longer_steps_gather_more_requests() {
        let list: Vec<(u64, u64, u32)> = (0..4).map(|number| (number * 15, 4, 2)).collect();
        let joins = |token_us: u64| -> Vec<Vec<usize>> {
            let batching = Continuous { token_budget: 8, ..Continuous::default() };
            planned(&batching, 8, &list, token_us).into_iter().map(|step| step.1[0].clone()).collect()
        };
        assert_eq!(joins(0), [vec![0], vec![], vec![1], vec![2], vec![], vec![3], vec![]]);
        assert_eq!(joins(16), [vec![0], vec![1, 2], vec![3], vec![]]);
    }
}
