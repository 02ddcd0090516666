//! The tables about trees.

use std::mem::take;
use std::sync::Arc;

use super::growth::{Origin, Tree, TreeEnd};
use super::roles::{Feeding, WaitingTraffic, Who};
use super::verdict::TreeKind;
use super::{ForestObserver, Judged, LinkRows, NONE};
use crate::partition::View;
use crate::table::{
    Described, Layout, ResultNames, RowsOf, Table, classes, counts, fixed, hosts, links, names, numbers,
    small,
};

/// The meanings of the numbers in the columns `kind`, `root_kind`, `origin` and `end`, and of the numbers of
/// kinds of nodes.
const KINDS: [&str; 3] = ["silent", "windy", "moving"];
const ROOT_KINDS: [&str; 2] = ["endpoint", "inner"];
const ORIGINS: [&str; 3] = ["new", "split", "moved"];
const ENDS: [&str; 4] = ["lasts", "died", "merged", "moved"];
const NODE_KINDS: [&str; 2] = ["host", "switch"];

/// All tables, in order.
pub(crate) const TABLES: &[&dyn Described] = &[&TREES, &TREE_LINKS, &CONTRIBUTORS, &VICTIMS, &WIRING];

/// Creates the tables.
pub(super) fn fill(judged: Judged, view: View, names: &ResultNames) -> Vec<Table> {
    let wiring = WIRING.fill(wiring(&judged.forest, view, names), names);
    let Judged { mut forest, verdicts } = judged;
    let rows = take(&mut forest.rows);
    let contributors = roles(&verdicts, |verdict| &verdict.contributors);
    let victims = roles(&verdicts, |verdict| &verdict.victims);
    let trees = (0..).zip(forest.growth.trees.iter().zip(&verdicts));
    let trees = trees.map(|(number, (tree, verdict))| TreeRow::of(number, &forest, tree, verdict));
    vec![
        TREES.fill(trees.collect(), names),
        TREE_LINKS.fill(rows, names),
        CONTRIBUTORS.fill(contributors, names),
        VICTIMS.fill(victims, names),
        wiring,
    ]
}

/// The ends of a channel. Nodes are numbered: first the hosts, then the switches.
struct Wire {
    link: u32,
    from: u32,
    to: u32,
    rate_gbit_s: f64,
}

/// The names of all nodes, the number of hosts, and the rows.
struct Wires {
    nodes: Arc<Vec<String>>,
    hosts: usize,
    rows: RowsOf<Wire>,
}

impl Wires {
    /// The kind of the node that `node` returns for each row, as an index into [`NODE_KINDS`].
    fn kinds(&self, node: fn(&Wire) -> u32) -> Vec<u32> {
        self.rows.of(|row| u32::from(node(row) as usize >= self.hosts))
    }
}

const WIRING: Layout<Wires> = Layout {
    name: "wiring",
    rows: "A row per channel.",
    columns: &[
        names("link", "the channel", links, |all| all.rows.of(|row| row.link)),
        names("from_node", "its sender", |all, _| Arc::clone(&all.nodes), |all| all.rows.of(|row| row.from)),
        names("from_kind", "host or switch", |_, _| fixed(&NODE_KINDS), |all| all.kinds(|row| row.from)),
        names("to_node", "its receiver", |all, _| Arc::clone(&all.nodes), |all| all.rows.of(|row| row.to)),
        names("to_kind", "host or switch", |_, _| fixed(&NODE_KINDS), |all| all.kinds(|row| row.to)),
        numbers("rate_gbit_s", "the rate", |all| all.rows.of(|row| row.rate_gbit_s)),
    ],
};

/// The two ends of each link.
fn wiring(forest: &ForestObserver, view: View, names: &ResultNames) -> Wires {
    let hosts = names.hosts.len();
    let all = &forest.map.links;
    let mut sender = vec![0; all.len()];
    for (host, &link) in forest.map.of_host.iter().enumerate().filter(|one| *one.1 != NONE) {
        sender[link as usize] = host as u32;
    }
    let place = |switch: u32| switch + hosts as u32;
    let rows = (0..).zip(all.iter().zip(sender)).map(|(index, (link, host))| {
        let far = view.receiver.get(link.channel as usize).copied().flatten();
        Wire {
            link: index,
            from: link.switch.map_or(host, |(switch, _)| place(switch)),
            to: far.map_or(link.host, |(switch, _)| place(switch)),
            rate_gbit_s: view.rate(link.channel).0 as f64 / 1e9,
        }
    });
    let nodes = Arc::new(names.hosts.iter().chain(&*names.switches).cloned().collect());
    Wires { nodes, hosts, rows: rows.collect() }
}

/// Tables number trees from 1; 0 means no tree.
fn shown(tree: Option<u32>) -> u32 {
    tree.map_or(0, |tree| tree + 1)
}

/// A row of the table of trees.
struct TreeRow {
    number: u32,
    root: u32,
    is_inner: bool,
    kind: u32,
    share: f64,
    born_ns: u64,
    last_ns: u64,
    samples: u32,
    origin: (u32, Option<u32>),
    end: (u32, Option<u32>),
    peak_branches: u32,
    peak_depth: u32,
    peak_queued: u64,
    contributors: usize,
    victims: usize,
}

impl TreeRow {
    fn of(number: u32, forest: &ForestObserver, tree: &Tree, verdict: &TreeKind) -> Self {
        let origin = match (verdict.moved_from, tree.origin) {
            (Some(from), _) => (2, Some(from)),
            (None, Origin::Split(from)) => (1, Some(from)),
            (None, Origin::New) => (0, None),
        };
        let end = match (verdict.moved_to, tree.end) {
            (Some(into), _) => (3, Some(into)),
            (None, TreeEnd::Merged(into)) => (2, Some(into)),
            (None, TreeEnd::Died) => (1, None),
            (None, TreeEnd::Lasts) => (0, None),
        };
        Self {
            number,
            root: tree.root,
            is_inner: forest.map.links[tree.root as usize].host == NONE,
            kind: verdict.kind(),
            share: verdict.share,
            born_ns: tree.born_ns,
            last_ns: tree.last_ns,
            samples: tree.samples,
            origin,
            end,
            peak_branches: tree.peak_branches,
            peak_depth: tree.peak_depth,
            peak_queued: tree.peak_queued,
            contributors: verdict.contributors.len(),
            victims: verdict.victims.len(),
        }
    }
}

const TREES: Layout<RowsOf<TreeRow>> = Layout {
    name: "trees",
    rows: "A row per congestion tree (this table and the next four are written unless measure.forest is off).",
    columns: &[
        small("tree", "number from 1, in order of birth", |all| all.of(|row| row.number + 1)),
        names("root", "a channel", links, |all| all.of(|row| row.root)),
        names(
            "root_kind",
            "endpoint if the root leads to a host, else inner",
            |_, _| fixed(&ROOT_KINDS),
            |all| all.of(|row| row.is_inner.into()),
        ),
        names("kind", "silent, windy or moving", |_, _| fixed(&KINDS), |all| all.of(|row| row.kind)),
        numbers(
            "root_share",
            "fraction of the traffic of its contributors that went through the root",
            |all| all.of(|row| row.share),
        ),
        counts("born_ns", "first sample", |all| all.of(|row| row.born_ns)),
        counts("last_ns", "last sample", |all| all.of(|row| row.last_ns)),
        small("samples", "number of samples", |all| all.of(|row| row.samples)),
        names(
            "origin",
            "new, split from the tree `from_tree`, or moved from its root",
            |_, _| fixed(&ORIGINS),
            |all| all.of(|row| row.origin.0),
        ),
        small("from_tree", "0 for none", |all| all.of(|row| shown(row.origin.1))),
        names(
            "end",
            "lasts, died, merged into the tree `into_tree`, or moved to its root",
            |_, _| fixed(&ENDS),
            |all| all.of(|row| row.end.0),
        ),
        small("into_tree", "0 for none", |all| all.of(|row| shown(row.end.1))),
        small("peak_branches", "most branches at a sample", |all| all.of(|row| row.peak_branches)),
        small("peak_depth", "most links from the root to a branch", |all| all.of(|row| row.peak_depth)),
        counts("peak_queued_bytes", "most bytes that waited in the tree", |all| {
            all.of(|row| row.peak_queued)
        }),
        small("contributors", "rows of the table contributors", |all| all.of(|row| row.contributors as u32)),
        small("victims", "rows of the table victims", |all| all.of(|row| row.victims as u32)),
    ],
};

const TREE_LINKS: Layout<LinkRows> = Layout {
    name: "tree_links",
    rows: "A row per link of a tree and interval.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        small("tree", "the tree; of several, the one with the nearest root", |all| {
            take(&mut all.tree).into_iter().map(|tree| tree + 1).collect()
        }),
        names("link", "the channel", links, |all| take(&mut all.link)),
        names("waits_for", "the channel for which it waits; for a root, the link itself", links, |all| {
            take(&mut all.waits_for)
        }),
        small("depth", "links to the root", |all| take(&mut all.depth)),
        small("trees", "number of trees that contain the link", |all| take(&mut all.trees)),
        small("queued_bytes", "bytes that wait for the link", |all| take(&mut all.queued)),
        small(
            "downstream_bytes",
            "bytes for which its sender lacks credit: in flight, in the buffer at its far end, or returning",
            |all| take(&mut all.held),
        ),
        small("isolated", "1 if only packets in special queues wait, and others pass; else 0", |all| {
            take(&mut all.isolated)
        }),
    ],
};

/// A row of `contributors` or of `victims`.
struct RoleRow<R> {
    /// Number of the tree, from 1.
    tree: u32,
    who: Who,
    role: R,
    /// Payload through the root of the tree.
    through_root: f64,
}

/// The rows of all trees.
fn roles<R: Clone>(verdicts: &[TreeKind], of: fn(&TreeKind) -> &[(Who, R)]) -> RowsOf<RoleRow<R>> {
    let trees = (1..).zip(verdicts);
    let rows = trees.flat_map(|(tree, verdict)| {
        let through_root = verdict.through_root;
        of(verdict).iter().map(move |(who, role)| RoleRow {
            tree,
            who: *who,
            role: role.clone(),
            through_root,
        })
    });
    rows.collect()
}

const CONTRIBUTORS: Layout<RowsOf<RoleRow<Feeding>>> = Layout {
    name: "contributors",
    rows: "A row per tree, class and host that feeds it.",
    columns: &[
        small("tree", "the tree", |all| all.of(|row| row.tree)),
        names("class", "class of traffic", classes, |all| all.of(|row| row.who.class.into())),
        names("host", "the host", hosts, |all| all.of(|row| row.who.host)),
        counts("first_ns", "first sample", |all| all.of(|row| row.role.first_ns)),
        counts("last_ns", "last sample", |all| all.of(|row| row.role.last_ns)),
        small(
            "samples",
            "intervals in which the host fed the tree, or had packets on the way to it at the end",
            |all| all.of(|row| row.role.samples),
        ),
        small("throttled_samples", "those of them at whose end the host throttled a flow", |all| {
            all.of(|row| row.role.throttled)
        }),
        numbers("share_of_root", "fraction of the payload through the root", |all| {
            all.of(|row| row.role.bytes / row.through_root.max(1.0))
        }),
    ],
};

const VICTIMS: Layout<RowsOf<RoleRow<WaitingTraffic>>> = Layout {
    name: "victims",
    rows: "A row per tree, class and host that waits for it.",
    columns: &[
        small("tree", "the tree", |all| all.of(|row| row.tree)),
        names("class", "class of traffic", classes, |all| all.of(|row| row.who.class.into())),
        names("host", "the host", hosts, |all| all.of(|row| row.who.host)),
        counts("first_ns", "first sample", |all| all.of(|row| row.role.first_ns)),
        counts("last_ns", "last sample", |all| all.of(|row| row.role.last_ns)),
        small("samples", "samples at which it waited", |all| all.of(|row| row.role.samples)),
        counts("lost_bytes", "offered but not sent", |all| all.of(|row| row.role.lost_bytes.round() as u64)),
        numbers("lost_share", "fraction of what it offered in these intervals", |all| {
            all.of(|row| match row.role.offered_bytes {
                offered if offered > 0.0 => row.role.lost_bytes / offered,
                _ => 0.0,
            })
        }),
    ],
};
