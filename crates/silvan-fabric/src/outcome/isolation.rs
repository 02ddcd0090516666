//! Records the use of special queues: the number allocated over time, and the totals.

use std::mem::take;

use schemars::JsonSchema;
use serde::Serialize;
use silvan_congestion::isolation::{Isolation, SpecialQueues};
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::host::Host;
use crate::partition::View;
use crate::queueing::cost::cells_per_port;
use crate::queueing::isolation::{Cams, IsolationCounters};
use crate::switch::Ports;
use crate::table::{Described, Layout, counts, small};

/// Special queues for congested flows in switches and hosts: use over the whole run, and hardware cost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IsolationSummary {
    /// Number of times that a special queue was allocated.
    pub allocations: u64,
    /// Number of times that no special queue was free for a packet that should be isolated.
    pub exhausted: u64,
    /// Number of special queues in use at the end.
    pub in_use: u64,
    /// Number of CAM lines of inputs and outputs in use at the end.
    pub lines_in_use: u64,
    /// Mean time for which a special queue was allocated, over those that were released, ns; 0 if none was.
    pub mean_life_ns: f64,
    /// Number of notifications that create or change CAM lines.
    pub allocate: u64,
    /// Number of notifications of the kind Stop.
    pub stop: u64,
    /// Number of notifications of the kind Go.
    pub go: u64,
    /// Number of notifications of released CAM lines.
    pub release: u64,
    /// Number of CAM lines per input port of the largest switch.
    pub cam_lines_per_port: u64,
    /// Content-addressable memory of these lines, in cells (bits); Paper VI, supplement 8.
    pub cam_cells_per_port: u64,
    /// Ordinary memory of these lines, in cells (bits).
    pub sram_cells_per_port: u64,
}

/// The time series, for networks with special queues.
#[derive(Debug, Default, Saved)]
pub(crate) struct IsolationSection {
    time_ns: Vec<u64>,
    full_ports: Vec<u32>,
    special_queues: Vec<u32>,
    input_lines: Vec<u32>,
    output_lines: Vec<u32>,
    allocations: Vec<u64>,
    exhausted: Vec<u64>,
    messages: [Vec<u64>; 4],
    last: IsolationCounters,
}

/// The resources in use at a sample.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    full_ports: u32,
    special_queues: u32,
    input_lines: u32,
    output_lines: u32,
}

impl Taken {
    fn add(&mut self, cams: &Cams) {
        for input in cams.inputs() {
            let (lines, special) = cams.usage(input);
            self.input_lines += lines as u32;
            self.special_queues += special as u32;
            self.full_ports += u32::from(special == cams.rule().queues);
        }
        self.output_lines += cams.output_lines() as u32;
    }
}

/// The CAMs of all switches and of all hosts.
fn all(view: View<'_>) -> impl Iterator<Item = &Cams> {
    view.all_cams().chain(view.hosts().filter_map(Host::cams))
}

fn tally<'a>(cams: impl Iterator<Item = &'a Cams>) -> IsolationCounters {
    let mut sum = IsolationCounters::default();
    cams.for_each(|cams| sum.add(&cams.tally));
    sum
}

const ISOLATION: Layout<IsolationSection> = Layout {
    name: "isolation",
    rows: "A row per interval, with special queues. Switches at the end of the interval, counts with hosts.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        small(
            "full_ports",
            "inputs of switches without a free special queue, of which each virtual lane counts",
            |all| take(&mut all.full_ports),
        ),
        small("special_queues", "special queues in use", |all| take(&mut all.special_queues)),
        small("input_lines", "CAM lines of inputs in use", |all| take(&mut all.input_lines)),
        small("output_lines", "CAM lines of outputs in use", |all| take(&mut all.output_lines)),
        counts("allocations", "special queues assigned", |all| take(&mut all.allocations)),
        counts("exhausted", "number of times that no special queue was free", |all| take(&mut all.exhausted)),
        counts("allocate", "notifications of that kind", |all| take(&mut all.messages[0])),
        counts("stop", "notifications of that kind", |all| take(&mut all.messages[1])),
        counts("go", "notifications of that kind", |all| take(&mut all.messages[2])),
        counts("release", "notifications of that kind", |all| take(&mut all.messages[3])),
    ],
};

impl Section for IsolationSection {
    type Entry = Option<IsolationSummary>;
    const WHEN: &'static str = "with special queues (congestion.isolation)";
    const TABLES: &'static [&'static dyn Described] = &[&ISOLATION];

    fn new(of: &Recording) -> Option<Self> {
        matches!(of.parts.isolation, Isolation::SpecialQueues(_)).then(Self::default)
    }

    fn sample(&mut self, view: View) {
        if view.all_cams().next().is_none() {
            return;
        }
        let mut taken = Taken::default();
        view.all_cams().for_each(|cams| taken.add(cams));
        let sum = tally(all(view));
        self.time_ns.push(view.now.0 / 1_000);
        self.full_ports.push(taken.full_ports);
        self.special_queues.push(taken.special_queues);
        self.input_lines.push(taken.input_lines);
        self.output_lines.push(taken.output_lines);
        self.allocations.push(sum.allocations - self.last.allocations);
        self.exhausted.push(sum.exhausted - self.last.exhausted);
        for (kind, rows) in self.messages.iter_mut().enumerate() {
            rows.push(sum.messages[kind] - self.last.messages[kind]);
        }
        self.last = sum;
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let Isolation::SpecialQueues(special) = &end.parts.isolation else { return SectionResult::default() };
        let Some(sum) = summary(special, end.view) else { return SectionResult::default() };
        let IsolationSummary { allocations, exhausted, allocate, stop, go, release, .. } = sum;
        let short = match exhausted {
            0 => "none was ever missing".to_owned(),
            times => format!("one was missing {times} times"),
        };
        let sentence = format!(
            "Special queues were taken {allocations} times, for {:.1} us on average, and {short}; {} notifications went upstream.",
            sum.mean_life_ns / 1_000.0,
            allocate + stop + go + release
        );
        let unused = "Isolation had no effect: no queue was ever above its thresholds.";
        SectionResult {
            entry: Some(sum),
            tables: vec![ISOLATION.fill(self, end.names)],
            account: vec![sentence],
            warnings: (allocate == 0).then(|| unused.to_owned()).into_iter().collect(),
        }
    }
}

/// The totals; `None` if no switch has special queues.
fn summary(special: &SpecialQueues, view: View) -> Option<IsolationSummary> {
    view.all_cams().next()?;
    let sum = tally(all(view));
    let mut taken = Taken::default();
    all(view).for_each(|cams| taken.add(cams));
    let ports = view.all_ports().map(Ports::count).max().unwrap_or(0) as u64;
    // A packet never leaves through the port on which it arrived, so one normal queue fewer than there are
    // ports is needed.
    let own = if special.at_root { 0 } else { ports.saturating_sub(1) };
    let lines = own + u64::from(special.queues);
    let (cam_cells, sram_cells) =
        cells_per_port(lines, view.host_count() as u64, u64::from(special.destinations));
    let lives = sum.releases.max(1) as f64;
    let [allocate, stop, go, release] = sum.messages;
    Some(IsolationSummary {
        allocations: sum.allocations,
        exhausted: sum.exhausted,
        in_use: u64::from(taken.special_queues),
        lines_in_use: u64::from(taken.input_lines + taken.output_lines),
        mean_life_ns: sum.life_ps as f64 / lives / 1_000.0,
        allocate,
        stop,
        go,
        release,
        cam_lines_per_port: lines,
        cam_cells_per_port: cam_cells,
        sram_cells_per_port: sram_cells,
    })
}
