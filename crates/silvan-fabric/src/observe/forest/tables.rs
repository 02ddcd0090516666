//! Creates the tables about trees.

use std::sync::Arc;

use super::growth::{Origin, Tree, TreeEnd};
use super::roles::{Feeding, WaitingTraffic, Who};
use super::verdict::TreeKind;
use super::{ForestObserver, Judged, NONE, column};
use crate::outcome::{Table, Values};
use crate::partition::View;

/// The meanings of the numbers in the columns `kind`, `root_kind`, `origin` and `end`.
const KINDS: [&str; 3] = ["silent", "windy", "moving"];
const ROOT_KINDS: [&str; 2] = ["endpoint", "inner"];
const ORIGINS: [&str; 3] = ["new", "split", "moved"];
const ENDS: [&str; 4] = ["lasts", "died", "merged", "moved"];

/// The names in the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeNames<'a> {
    pub links: &'a [String],
    pub hosts: &'a [String],
    /// Classes of traffic.
    pub classes: &'a [String],
}

/// Creates the tables.
pub(super) fn write(judged: Judged, names: TreeNames) -> Vec<Table> {
    let TreeNames { links, hosts, classes } = names;
    let links = Arc::new(links.to_vec());
    let names = [Arc::new(classes.to_vec()), Arc::new(hosts.to_vec())];
    let Judged { forest, verdicts } = judged;
    vec![
        of_trees(&forest, &verdicts, &links),
        of_links(forest.rows, links),
        of_contributors(&verdicts, &names),
        of_victims(&verdicts, &names),
    ]
}

/// The two ends of each link.
pub(super) fn wiring(forest: &ForestObserver, view: View, names: TreeNames) -> Table {
    let TreeNames { links, hosts, .. } = names;
    let all = &forest.map.links;
    let mut sender = vec![0; all.len()];
    for (host, &link) in forest.map.of_host.iter().enumerate().filter(|one| *one.1 != NONE) {
        sender[link as usize] = host as u32;
    }
    // Node numbers: first the hosts, then the switches.
    let place = |switch: u32| switch + hosts.len() as u32;
    let from =
        all.iter().zip(sender).map(|(link, host)| link.switch.map_or(host, |(switch, _)| place(switch)));
    let to = all.iter().map(|link| {
        let far = view.receiver.get(link.channel as usize).copied().flatten();
        far.map_or(link.host, |(switch, _)| place(switch))
    });
    let names = Arc::new(hosts.iter().chain(&forest.switch_names).cloned().collect::<Vec<_>>());
    let (from, to): (Vec<u32>, Vec<u32>) = (from.collect(), to.collect());
    let kinds = |nodes: &[u32]| {
        coded(
            nodes.iter().map(|&node| u32::from(node as usize >= hosts.len())).collect(),
            &["host", "switch"],
        )
    };
    let (from_kind, to_kind) = (kinds(&from), kinds(&to));
    let named = |codes| Values::Name { codes, names: Arc::clone(&names) };
    let rates = all.iter().map(|link| view.rate(link.channel).0 as f64 / 1e9).collect();
    let links = Values::Name { codes: (0..all.len() as u32).collect(), names: Arc::new(links.to_vec()) };
    Table {
        name: "wiring",
        columns: vec![
            column("link", links),
            column("from_node", named(from)),
            column("from_kind", from_kind),
            column("to_node", named(to)),
            column("to_kind", to_kind),
            column("rate_gbit_s", Values::F64(rates)),
        ],
    }
}

fn coded(codes: Vec<u32>, names: &[&str]) -> Values {
    Values::Name { codes, names: Arc::new(names.iter().map(ToString::to_string).collect()) }
}

/// Tables number trees from 1; 0 means no tree.
fn shown(tree: Option<u32>) -> u32 {
    tree.map_or(0, |tree| tree + 1)
}

fn of_trees(forest: &ForestObserver, verdicts: &[TreeKind], links: &Arc<Vec<String>>) -> Table {
    let trees = &forest.growth.trees;
    let both = || trees.iter().zip(verdicts);
    let numbers = |of: fn(&Tree) -> u32| Values::U32(trees.iter().map(of).collect());
    let times = |of: fn(&Tree) -> u64| Values::U64(trees.iter().map(of).collect());
    let is_inner = |tree: &Tree| u32::from(forest.map.links[tree.root as usize].host == NONE);
    let origins = both().map(|(tree, verdict)| match (verdict.moved_from, tree.origin) {
        (Some(from), _) => (2, Some(from)),
        (None, Origin::Split(from)) => (1, Some(from)),
        (None, Origin::New) => (0, None),
    });
    let (origin, from): (Vec<u32>, Vec<u32>) = origins.map(|(code, from)| (code, shown(from))).unzip();
    let ends = both().map(|(tree, verdict)| match (verdict.moved_to, tree.end) {
        (Some(into), _) => (3, Some(into)),
        (None, TreeEnd::Merged(into)) => (2, Some(into)),
        (None, TreeEnd::Died) => (1, None),
        (None, TreeEnd::Lasts) => (0, None),
    });
    let (end, into): (Vec<u32>, Vec<u32>) = ends.map(|(code, into)| (code, shown(into))).unzip();
    let counted =
        |of: fn(&TreeKind) -> usize| Values::U32(verdicts.iter().map(|one| of(one) as u32).collect());
    let root = Values::Name { codes: trees.iter().map(|tree| tree.root).collect(), names: Arc::clone(links) };
    Table {
        name: "trees",
        columns: vec![
            column("tree", Values::U32((1..=trees.len() as u32).collect())),
            column("root", root),
            column("root_kind", coded(trees.iter().map(is_inner).collect(), &ROOT_KINDS)),
            column("kind", coded(verdicts.iter().map(TreeKind::kind).collect(), &KINDS)),
            column("root_share", Values::F64(verdicts.iter().map(|one| one.share).collect())),
            column("born_ns", times(|tree| tree.born_ns)),
            column("last_ns", times(|tree| tree.last_ns)),
            column("samples", numbers(|tree| tree.samples)),
            column("origin", coded(origin, &ORIGINS)),
            column("from_tree", Values::U32(from)),
            column("end", coded(end, &ENDS)),
            column("into_tree", Values::U32(into)),
            column("peak_branches", numbers(|tree| tree.peak_branches)),
            column("peak_depth", numbers(|tree| tree.peak_depth)),
            column("peak_queued_bytes", times(|tree| tree.peak_queued)),
            column("contributors", counted(|one| one.contributors.len())),
            column("victims", counted(|one| one.victims.len())),
        ],
    }
}

fn of_links(rows: super::LinkRows, links: Arc<Vec<String>>) -> Table {
    Table {
        name: "tree_links",
        columns: vec![
            column("time_ns", Values::U64(rows.time_ns)),
            column("tree", Values::U32(rows.tree.into_iter().map(|tree| tree + 1).collect())),
            column("link", Values::Name { codes: rows.link, names: Arc::clone(&links) }),
            column("waits_for", Values::Name { codes: rows.waits_for, names: links }),
            column("depth", Values::U32(rows.depth)),
            column("trees", Values::U32(rows.trees)),
            column("queued_bytes", Values::U32(rows.queued)),
            column("downstream_bytes", Values::U32(rows.held)),
            column("isolated", Values::U32(rows.isolated)),
        ],
    }
}

/// The first columns of `contributors` and `victims`: trees, hosts and classes, and first and last times.
fn beginning(
    rows: impl Iterator<Item = (u32, Who, u64, u64)>,
    names: &[Arc<Vec<String>>; 2],
) -> Vec<crate::outcome::Column> {
    let (mut trees, mut classes, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (tree, who, first_ns, last_ns) in rows {
        trees.push(tree + 1);
        classes.push(u32::from(who.class));
        hosts.push(who.host);
        first.push(first_ns);
        last.push(last_ns);
    }
    let named = |codes, names: &Arc<Vec<String>>| Values::Name { codes, names: Arc::clone(names) };
    vec![
        column("tree", Values::U32(trees)),
        column("class", named(classes, &names[0])),
        column("host", named(hosts, &names[1])),
        column("first_ns", Values::U64(first)),
        column("last_ns", Values::U64(last)),
    ]
}

fn of_contributors(verdicts: &[TreeKind], names: &[Arc<Vec<String>>; 2]) -> Table {
    let rows = || {
        (0u32..).zip(verdicts).flat_map(|(tree, verdict)| {
            verdict.contributors.iter().map(move |(who, feeding)| (tree, verdict, *who, feeding))
        })
    };
    let numbers = |of: fn(&Feeding) -> u32| Values::U32(rows().map(|row| of(row.3)).collect());
    let share = rows().map(|(_, verdict, _, feeding)| feeding.bytes / verdict.through_root.max(1.0));
    let mut columns =
        beginning(rows().map(|(tree, _, who, one)| (tree, who, one.first_ns, one.last_ns)), names);
    columns.extend([
        column("samples", numbers(|one| one.samples)),
        column("throttled_samples", numbers(|one| one.throttled)),
        column("share_of_root", Values::F64(share.collect())),
    ]);
    Table { name: "contributors", columns }
}

fn of_victims(verdicts: &[TreeKind], names: &[Arc<Vec<String>>; 2]) -> Table {
    let rows = || {
        (0u32..).zip(verdicts).flat_map(|(tree, verdict)| {
            verdict.victims.iter().map(move |(who, waiting)| (tree, *who, waiting))
        })
    };
    let lost_share = |one: &WaitingTraffic| {
        if one.offered_bytes > 0.0 { one.lost_bytes / one.offered_bytes } else { 0.0 }
    };
    let mut columns = beginning(rows().map(|(tree, who, one)| (tree, who, one.first_ns, one.last_ns)), names);
    columns.extend([
        column("samples", Values::U32(rows().map(|row| row.2.samples).collect())),
        column("lost_bytes", Values::U64(rows().map(|row| row.2.lost_bytes.round() as u64).collect())),
        column("lost_share", Values::F64(rows().map(|row| lost_share(row.2)).collect())),
    ]);
    Table { name: "victims", columns }
}
