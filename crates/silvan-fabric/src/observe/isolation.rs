//! Records the use of special queues: the number allocated over time, and the totals.

use silvan_congestion::isolation::SpecialQueues;
use silvan_engine::saved::Saved;

use crate::host::Host;
use crate::outcome::{Column, IsolationSummary, Table, Values};
use crate::partition::View;
use crate::queueing::cost::cells_per_port;
use crate::queueing::isolation::{Cams, IsolationCounters};
use crate::switch::Ports;

/// The time series, for networks with special queues.
#[derive(Debug, Default, Saved)]
pub(crate) struct IsolationRows {
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

impl IsolationRows {
    /// Adds the row of the interval that ends now.
    pub fn sample(&mut self, view: View) {
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

    /// Returns the table, if there are rows.
    pub fn into_table(self) -> Option<Table> {
        if self.time_ns.is_empty() {
            return None;
        }
        let column = |name, values| Column { name, values };
        let [allocate, stop, go, release] = self.messages;
        Some(Table {
            name: "isolation",
            columns: vec![
                column("time_ns", Values::U64(self.time_ns)),
                column("full_ports", Values::U32(self.full_ports)),
                column("special_queues", Values::U32(self.special_queues)),
                column("input_lines", Values::U32(self.input_lines)),
                column("output_lines", Values::U32(self.output_lines)),
                column("allocations", Values::U64(self.allocations)),
                column("exhausted", Values::U64(self.exhausted)),
                column("allocate", Values::U64(allocate)),
                column("stop", Values::U64(stop)),
                column("go", Values::U64(go)),
                column("release", Values::U64(release)),
            ],
        })
    }
}

/// The totals, for a network with special queues.
pub(crate) fn summary(special: &SpecialQueues, view: View) -> Option<IsolationSummary> {
    view.all_cams().next()?;
    let sum = tally(all(view));
    let mut taken = Taken::default();
    all(view).for_each(|cams| taken.add(cams));
    let ports = view.all_ports().map(Ports::count).max().unwrap_or(0) as u64;
    // A packet never leaves through the port on which it arrived, so one normal queue fewer than there are ports is
    // needed.
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
