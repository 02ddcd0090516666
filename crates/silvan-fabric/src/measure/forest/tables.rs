//! What trees were, and the tables about them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::growth::{End, Origin, Tree};
use super::roles::{Counts, Key};
use super::{Forest, NONE, Nodes, column};
use crate::core::Core;
use crate::outcome::{Table, Values};

/// What the numbers of the columns `kind`, `root_kind`, `origin` and `end` mean.
const KINDS: [&str; 3] = ["silent", "windy", "moving"];
const ROOT_KINDS: [&str; 2] = ["endpoint", "inner"];
const ORIGINS: [&str; 3] = ["new", "split", "moved"];
const ENDS: [&str; 4] = ["lasts", "died", "merged", "moved"];

/// A contributor that sends at least this part of its packets through the root sends there alone.
const ALL: f64 = 0.999;

/// A tree in the end.
struct Verdict {
    contributors: Vec<(Key, Counts)>,
    victims: Vec<(Key, Counts)>,
    /// The share of what its contributors sent that went through the root.
    share: f64,
    is_silent: bool,
    moved_from: Option<u32>,
    moved_to: Option<u32>,
}

impl Verdict {
    /// `of_tree` are all hosts and classes that had anything to do with it; `received_bytes` is what the host
    /// at the root took in, if there is one.
    fn new(tree: &Tree, of_tree: &[(Key, Counts)], received_bytes: Option<u64>) -> Self {
        let is_often = |samples: u32| samples > 0 && 10 * u64::from(samples) >= u64::from(tree.samples);
        let feeding: Vec<_> = of_tree.iter().filter(|one| is_often(one.1.feeding)).copied().collect();
        let rate = |one: &(Key, Counts)| {
            one.1.through_root as f64 / tree.last_ns.saturating_sub(one.1.first_ns).max(1) as f64
        };
        // Whoever sends to a hotspot now and then, as to any host, does not feed the tree: it has much less than
        // the share of a packet's sender, on average over packets.
        let sum = |power| feeding.iter().map(|one| rate(one).powi(power)).sum::<f64>();
        let least = sum(2) / sum(1).max(f64::MIN_POSITIVE) / 8.0;
        // Nor does who has little of its own for it, unless that is much for the tree.
        let is_own = |one: &(Key, Counts)| {
            let (own, packets) = (one.1.through_root, one.1.packets);
            own * 4 >= packets || own * 10 >= packets && rate(one) >= 2.0 * least
        };
        let contributors: Vec<_> =
            feeding.iter().filter(|one| rate(one) >= least && is_own(one)).copied().collect();
        let victims = of_tree.iter().filter(|one| is_often(one.1.waiting)).copied().collect();
        let all: u64 = of_tree.iter().map(|one| one.1.through_root).sum();
        let hosts = by_host(tree, &contributors);
        let mut shares: Vec<f64> = hosts.iter().map(|one| one.0 as f64 / one.1.max(1) as f64).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let is_silent = shares.get(shares.len() / 2).is_none_or(|&middle| middle >= ALL);
        let sum = |of: fn(&(u64, u64, u64)) -> u64| hosts.iter().map(of).sum::<u64>().max(1) as f64;
        let through_root = sum(|one| one.0);
        let share = match received_bytes {
            _ if is_silent => 1.0,
            // Packets to the hotspot stay inside longer than others: bytes tell their share, packets do not.
            Some(bytes) => bytes as f64 * through_root / all.max(1) as f64 / sum(|one| one.2),
            None => through_root / sum(|one| one.1),
        };
        let share = share.min(1.0);
        Self { contributors, victims, share, is_silent, moved_from: None, moved_to: None }
    }

    fn kind(&self) -> u32 {
        match (self.moved_from.or(self.moved_to), self.is_silent) {
            (Some(_), _) => 2,
            (None, is_silent) => u32::from(!is_silent),
        }
    }
}

/// Packets through the root, packets in all, and bytes sent, of each host of several classes.
fn by_host(tree: &Tree, contributors: &[(Key, Counts)]) -> Vec<(u64, u64, u64)> {
    let life = tree.last_ns.saturating_sub(tree.born_ns).max(1) as f64;
    let mut hosts: FxHashMap<u32, (u64, u64, u64)> = FxHashMap::default();
    for (key, counts) in contributors {
        let host = hosts.entry(key.host).or_default();
        // It fed the tree from when it was first seen doing so, with packets inside at a sample or not.
        let samples = f64::from(tree.samples) * tree.last_ns.saturating_sub(counts.first_ns) as f64 / life;
        let sent = counts.sent_bytes as f64 * (samples / f64::from(counts.feeding.max(1))).max(1.0);
        // Classes that feed the tree at the same samples have the host's other packets in common.
        *host = (host.0 + counts.through_root, host.1.max(counts.packets), host.2.max(sent as u64));
    }
    hosts.into_values().collect()
}

/// Finds trees whose hotspot moved: half of the contributors of either, or more, went on to feed the other one.
fn find_moves(trees: &[Tree], verdicts: &mut [Verdict], is_endpoint: impl Fn(&Tree) -> bool) {
    let mut fed: FxHashMap<(u16, u32), Vec<u32>> = FxHashMap::default();
    for (number, verdict) in verdicts.iter().enumerate().filter(|one| is_endpoint(&trees[one.0])) {
        for (key, _) in &verdict.contributors {
            fed.entry((key.class, key.host)).or_default().push(number as u32);
        }
    }
    let mut shared: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    for list in fed.values() {
        // Numbers are in the order of births.
        for pair in list.windows(2) {
            *shared.entry((pair[0], pair[1])).or_default() += 1;
        }
    }
    let mut shared: Vec<_> = shared.into_iter().collect();
    shared.sort_unstable();
    for ((old, new), hosts) in shared {
        let (one, other) = (&trees[old as usize], &trees[new as usize]);
        let size = |number: u32| verdicts[number as usize].contributors.len();
        let is_later = one.end != End::Lasts && other.born_ns > one.born_ns && other.last_ns > one.last_ns;
        if is_later && one.root != other.root && 2 * hosts >= size(old).min(size(new)) {
            verdicts[old as usize].moved_to.get_or_insert(new);
            verdicts[new as usize].moved_from = Some(old);
        }
    }
}

/// The tables.
pub(super) fn write(
    forest: Forest,
    (links, hosts, classes): (&[String], &[String], &[String]),
) -> Vec<Table> {
    let mut all: Vec<(Key, Counts)> =
        forest.roles.counts.iter().map(|(key, counts)| (*key, *counts)).collect();
    all.sort_unstable_by_key(|one| one.0);
    let trees = &forest.growth.trees;
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(trees.len());
    for (number, tree) in trees.iter().enumerate() {
        let first = all.partition_point(|one| one.0.tree < number as u32);
        let last = all.partition_point(|one| one.0.tree <= number as u32);
        let received = forest.roles.received_bytes.get(&(number as u32)).copied();
        verdicts.push(Verdict::new(tree, &all[first..last], received));
    }
    find_moves(trees, &mut verdicts, |tree| forest.map.links[tree.root as usize].host != NONE);
    let links = Arc::new(links.to_vec());
    let names = [Arc::new(classes.to_vec()), Arc::new(hosts.to_vec())];
    vec![
        of_trees(&forest, &verdicts, &links),
        of_links(forest.rows, links),
        of_contributors(&verdicts, &names),
        of_victims(&verdicts, &names),
    ]
}

/// Which link leads from where to where.
pub(super) fn wiring(
    forest: &Forest,
    core: &Core,
    nodes: Nodes,
    (links, hosts): (&[String], &[String]),
) -> Table {
    let all = &forest.map.links;
    let mut sender = vec![0; all.len()];
    for (host, &link) in forest.map.of_host.iter().enumerate().filter(|one| *one.1 != NONE) {
        sender[link as usize] = host as u32;
    }
    // Nodes: hosts, then switches.
    let place = |switch: u32| switch + hosts.len() as u32;
    let from =
        all.iter().zip(sender).map(|(link, host)| link.switch.map_or(host, |(switch, _)| place(switch)));
    let to = all.iter().map(|link| {
        let far = nodes.receiver.get(link.channel as usize).copied().flatten();
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
    let rates = all.iter().map(|link| core.links.rate(link.channel).0 as f64 / 1e9).collect();
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

/// Trees count from 1 in tables; 0 is none.
fn shown(tree: Option<u32>) -> u32 {
    tree.map_or(0, |tree| tree + 1)
}

fn of_trees(forest: &Forest, verdicts: &[Verdict], links: &Arc<Vec<String>>) -> Table {
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
        (None, End::Merged(into)) => (2, Some(into)),
        (None, End::Died) => (1, None),
        (None, End::Lasts) => (0, None),
    });
    let (end, into): (Vec<u32>, Vec<u32>) = ends.map(|(code, into)| (code, shown(into))).unzip();
    let counted =
        |of: fn(&Verdict) -> usize| Values::U32(verdicts.iter().map(|one| of(one) as u32).collect());
    let root = Values::Name { codes: trees.iter().map(|tree| tree.root).collect(), names: Arc::clone(links) };
    Table {
        name: "trees",
        columns: vec![
            column("tree", Values::U32((1..=trees.len() as u32).collect())),
            column("root", root),
            column("root_kind", coded(trees.iter().map(is_inner).collect(), &ROOT_KINDS)),
            column("kind", coded(verdicts.iter().map(Verdict::kind).collect(), &KINDS)),
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
        ],
    }
}

/// The columns that `contributors` and `victims` begin with.
fn beginning(rows: &[(Key, Counts)], names: &[Arc<Vec<String>>; 2]) -> Vec<crate::outcome::Column> {
    let codes = |of: fn(&Key) -> u32| rows.iter().map(|one| of(&one.0)).collect::<Vec<_>>();
    let named = |codes, names: &Arc<Vec<String>>| Values::Name { codes, names: Arc::clone(names) };
    vec![
        column("tree", Values::U32(codes(|key| key.tree + 1))),
        column("class", named(codes(|key| u32::from(key.class)), &names[0])),
        column("host", named(codes(|key| key.host), &names[1])),
        column("first_ns", Values::U64(rows.iter().map(|one| one.1.first_ns).collect())),
        column("last_ns", Values::U64(rows.iter().map(|one| one.1.last_ns).collect())),
    ]
}

fn of_contributors(verdicts: &[Verdict], names: &[Arc<Vec<String>>; 2]) -> Table {
    let rows: Vec<_> = verdicts.iter().flat_map(|one| one.contributors.iter().copied()).collect();
    let of_tree = verdicts.iter().flat_map(|verdict| {
        let all: u64 = verdict.contributors.iter().map(|one| one.1.through_root).sum();
        verdict.contributors.iter().map(move |one| one.1.through_root as f64 / all.max(1) as f64)
    });
    let share = of_tree.collect();
    let mut columns = beginning(&rows, names);
    columns.extend([
        column("samples", Values::U32(rows.iter().map(|one| one.1.feeding).collect())),
        column("throttled_samples", Values::U32(rows.iter().map(|one| one.1.throttled).collect())),
        column("share_of_root", Values::F64(share)),
    ]);
    Table { name: "contributors", columns }
}

fn of_victims(verdicts: &[Verdict], names: &[Arc<Vec<String>>; 2]) -> Table {
    let rows: Vec<_> = verdicts.iter().flat_map(|one| one.victims.iter().copied()).collect();
    let lost = |one: &(Key, Counts)| {
        if one.1.offered_bytes > 0.0 { one.1.lost_bytes / one.1.offered_bytes } else { 0.0 }
    };
    let mut columns = beginning(&rows, names);
    columns.extend([
        column("samples", Values::U32(rows.iter().map(|one| one.1.waiting).collect())),
        column("lost_bytes", Values::U64(rows.iter().map(|one| one.1.lost_bytes.round() as u64).collect())),
        column("lost_share", Values::F64(rows.iter().map(lost).collect())),
    ]);
    Table { name: "victims", columns }
}
