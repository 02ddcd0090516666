//! Moves single destinations to links that tables leave without flows, within the routes that an algorithm permits.
//!
//! A destination is moved only if no other link loses its last flow, and if no changed link gets more flows than the most
//! loaded link had before all changes.

use super::Tables;
use super::graph::{Edge, Graph};

/// Number of visited switches after which the search starts no more attempts.
const MAX_STEPS: u64 = 50_000_000;
/// Maximum number of paths that are tried for a link and a destination.
const MAX_TRIES: u32 = 50;

/// The permitted edges of each switch towards the current home switch.
pub(super) type Permitted = Vec<Vec<Edge>>;

/// A switch, and the new edge of its entry for the current destination.
type Change = (usize, Edge);

struct Filler<'a> {
    graph: &'a Graph,
    tables: Tables,
    /// Flows on each edge.
    loads: Vec<u64>,
    /// The flows on the most loaded edge before any change.
    most: u64,
    steps: u64,
}

/// Returns tables that use more links, if possible. `permitted(home)` returns the edges that an entry for a
/// host of `home` may name. Any selection among them must be a valid route.
pub(super) fn fill(graph: &Graph, tables: Tables, permitted: impl Fn(usize) -> Permitted) -> Tables {
    let mut filler = Filler { graph, tables, loads: vec![0; graph.edge_count()], most: 0, steps: 0 };
    let homes: Vec<usize> = graph.homes().collect();
    for &home in &homes {
        for host in graph.hosts_of(home) {
            for (edge, flows) in filler.flows(home, host, &[]) {
                filler.loads[edge] += flows;
            }
        }
    }
    filler.most = filler.loads.iter().copied().max().unwrap_or(0);
    for &home in &homes {
        if filler.steps > MAX_STEPS || filler.loads.iter().all(|&flows| flows > 0) {
            break;
        }
        let permitted = permitted(home);
        for host in graph.hosts_of(home) {
            filler.use_links(home, host, &permitted);
        }
    }
    filler.tables
}

impl Filler<'_> {
    /// The edges on the routes to a host after `changes`, each with a number of flows. An edge occurs once for each switch
    /// whose route uses it, so its numbers must be added.
    fn flows(&mut self, home: usize, host: u32, changes: &[Change]) -> Vec<(usize, u64)> {
        let mut found: Vec<(usize, u64)> = Vec::new();
        for start in (0..self.graph.len()).filter(|&s| s != home && self.graph.senders_at(s) > 0) {
            let flows = u64::from(self.graph.senders_at(start));
            let mut at = start;
            while at != home {
                self.steps += 1;
                let port = match changes.iter().find(|(switch, _)| *switch == at) {
                    Some((_, edge)) => edge.port,
                    None => self.tables.port(at, host as usize),
                };
                let Some((edge, to)) = self.graph.edge_at(at, port) else { break };
                found.push((edge, flows));
                at = to;
            }
        }
        found
    }

    /// Moves routes to a host onto links without flows where possible.
    fn use_links(&mut self, home: usize, host: u32, permitted: &Permitted) {
        for (switch, edges) in permitted.iter().enumerate() {
            for &edge in edges {
                let is_idle =
                    self.graph.edge_at(switch, edge.port).is_some_and(|(at, _)| self.loads[at] == 0);
                if is_idle && self.steps <= MAX_STEPS {
                    let mut tries = MAX_TRIES;
                    self.try_path(home, host, permitted, &mut vec![(switch, edge)], &mut tries);
                }
            }
        }
    }

    /// Applies `changes`, or else the first acceptable extension of them backwards along permitted edges.
    /// Returns whether any were applied.
    fn try_path(
        &mut self,
        home: usize,
        host: u32,
        permitted: &Permitted,
        changes: &mut Vec<Change>,
        tries: &mut u32,
    ) -> bool {
        let Some(&(first, _)) = changes.last() else { return false };
        if *tries == 0 {
            return false;
        }
        *tries -= 1;
        if self.apply(home, host, changes) {
            return true;
        }
        for edge in self.graph.edges(first).to_vec() {
            let before = edge.to as usize;
            for onward in permitted[before].iter().copied().filter(|onward| onward.to as usize == first) {
                changes.push((before, onward));
                if self.try_path(home, host, permitted, changes, tries) {
                    return true;
                }
                changes.pop();
            }
        }
        false
    }

    /// Applies changes if an unused link becomes used, no link becomes unused, and no changed link exceeds
    /// `most`. Returns whether they were applied.
    fn apply(&mut self, home: usize, host: u32, changes: &[Change]) -> bool {
        let (before, after) = (self.flows(home, host, &[]), self.flows(home, host, changes));
        let mut loads = std::collections::BTreeMap::new();
        for &(edge, flows) in &before {
            *loads.entry(edge).or_insert(self.loads[edge]) -= flows;
        }
        for &(edge, flows) in &after {
            *loads.entry(edge).or_insert(self.loads[edge]) += flows;
        }
        let is_new = |edge: &usize| self.loads[*edge] == 0;
        let gained = loads.iter().filter(|(edge, flows)| is_new(edge) && **flows > 0).count();
        let is_lost = loads.iter().any(|(edge, &flows)| !is_new(edge) && flows == 0);
        if gained == 0 || is_lost || loads.values().any(|&flows| flows > self.most) {
            return false;
        }
        for (edge, flows) in loads {
            self.loads[edge] = flows;
        }
        for &(switch, edge) in changes {
            self.tables.out[switch][host as usize] = edge.port;
        }
        true
    }
}
