//! Congestion trees, as far as samples show them: where their roots were, how far they reached,
//! which flows fed them and which only suffered.
//!
//! At each sample a switch output with packets waiting is *blocked* if it lacks credit for a full
//! packet, else *loaded*. A blocked output that faces a host, or a loaded one with more than two
//! full packets waiting, is a root; any other blocked output is a branch.

use crate::config::Config;
use crate::core::Core;
use crate::host::Host;
use crate::measure::forest::{Forest, Nodes};
use crate::measure::series::{FlowName, LinkName};
use crate::switch::Switch;
use crate::topology::Topology;

/// What an output was at the samples so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutputHistory {
    pub root: u32,
    pub branch: u32,
}

/// A flow's part in the congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It met neither root nor branch.
    Free,
    /// It goes through a root.
    Contributor,
    /// It goes through a branch but no root.
    Victim,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trees {
    full_space: u32,
    /// Per link of the series.
    pub outputs: Vec<OutputHistory>,
    pub samples: u32,
    /// Largest number of branches at one sample.
    pub most_branches: u32,
    /// Per flow of the series: samples as contributor, as victim, and while it sent.
    flows: Vec<(u32, u32, u32)>,
    sent: Vec<u64>,
    state: Vec<Part>,
    /// Link of the series per switch output.
    index: Vec<Vec<Option<usize>>>,
    /// The trees one by one, if they are recorded.
    pub forest: Option<Box<Forest>>,
}

impl Trees {
    pub fn new(
        (config, topology): (&Config, &Topology),
        full_space: u32,
        (links, flows): (&[LinkName], usize),
        switches: &[Switch],
    ) -> Self {
        let mut index: Vec<Vec<Option<usize>>> =
            switches.iter().map(|switch| vec![None; switch.ports().count()]).collect();
        for (at, link) in links.iter().enumerate() {
            if let Some((switch, output)) = link.switch {
                index[switch as usize][output] = Some(at);
            }
        }
        Self {
            full_space,
            outputs: vec![OutputHistory::default(); links.len()],
            samples: 0,
            most_branches: 0,
            flows: vec![(0, 0, 0); flows],
            sent: vec![0; flows],
            state: vec![Part::Free; links.len()],
            index,
            forest: config
                .measure
                .forest
                .then(|| Box::new(Forest::new((config, topology), full_space, links, switches))),
        }
    }

    /// Looks at every output now.
    pub fn sample(
        &mut self,
        core: &mut Core,
        (switches, hosts): (&[Switch], &[Host]),
        links: &[LinkName],
        flows: &[FlowName],
        receiver: &[Option<(u32, usize)>],
    ) {
        self.samples += 1;
        let mut branches = 0;
        for (at, link) in links.iter().enumerate() {
            self.state[at] = Part::Free;
            let Some((switch, output)) = link.switch else { continue };
            let (switch, ports) = (&switches[switch as usize], switches[switch as usize].ports());
            let queued = switch.queued_bytes(core, output);
            if queued == 0 {
                continue;
            }
            let blocked =
                (0..ports.lanes).any(|vl| !core.has_some_credit(link.channel, vl as u8, self.full_space));
            let faces_host = ports.wiring[output].is_some_and(|wiring| wiring.faces_host);
            if blocked && !faces_host {
                self.state[at] = Part::Victim;
                self.outputs[at].branch += 1;
                branches += 1;
            } else if blocked || queued > 2 * self.full_space {
                self.state[at] = Part::Contributor;
                self.outputs[at].root += 1;
            }
        }
        self.most_branches = self.most_branches.max(branches);
        if let Some(forest) = &mut self.forest {
            forest.sample(core, Nodes { switches, hosts, receiver }, &self.state);
        }
        for (at, flow) in flows.iter().enumerate() {
            let sent = core.meters.classes[usize::from(flow.class)].injected_bytes;
            if sent == std::mem::replace(&mut self.sent[at], sent) {
                continue;
            }
            let first = receiver[hosts[flow.host as usize].out as usize];
            let counts = self.part(switches, first, flow.destination, receiver);
            let entry = &mut self.flows[at];
            entry.0 += u32::from(counts == Part::Contributor);
            entry.1 += u32::from(counts == Part::Victim);
            entry.2 += 1;
        }
    }

    /// What the path from a switch to a host meets now.
    fn part(
        &self,
        switches: &[Switch],
        first: Option<(u32, usize)>,
        destination: u32,
        receiver: &[Option<(u32, usize)>],
    ) -> Part {
        let mut part = Part::Free;
        let mut at = first;
        // A path is no longer than the number of switches: tables are checked before the run.
        for _ in 0..switches.len() {
            let Some((switch, _)) = at else { break };
            let ports = switches[switch as usize].ports();
            let output = ports.route(destination);
            match self.index[switch as usize].get(output).copied().flatten().map(|link| self.state[link]) {
                Some(Part::Contributor) => return Part::Contributor,
                Some(Part::Victim) => part = Part::Victim,
                _ => {}
            }
            at = receiver.get(ports.out(output) as usize).copied().flatten();
        }
        part
    }

    /// What a flow was in most of the samples in which it sent, if in at least a third.
    pub fn role(&self, flow: usize) -> Part {
        let (contributor, victim, active) = self.flows[flow];
        if 3 * contributor.max(victim) < active.max(1) {
            Part::Free
        } else if contributor >= victim {
            Part::Contributor
        } else {
            Part::Victim
        }
    }
}
