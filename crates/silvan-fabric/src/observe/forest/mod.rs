//! Records congestion trees over time: which outputs are roots, and which outputs wait for them.
//!
//! At each sample, the outputs that block each other determine the current trees ([`moment`]). Trees of
//! consecutive samples are the same if they have the same root ([`growth`]). The payload that hosts behind
//! roots receive and the packets inside the network determine contributors and victims ([`roles`]). At the
//! end, [`verdict`] classifies each tree.

mod growth;
mod map;
mod moment;
mod roles;
mod tables;
mod verdict;
mod ways;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use self::roles::Seen;
use crate::config::Config;
use crate::meters::Watch;
use crate::observe::latest::{LatestTree, TreeLink};
use crate::observe::series::LinkName;
use crate::partition::View;
use crate::switch::Ports;
use crate::table::{ResultNames, Table};
use growth::TreeHistory;
use map::Map;
use moment::Moment;
use roles::Roles;
pub(crate) use tables::TABLES;
pub(crate) use verdict::TreeKind;

/// Maximum number of rows of the table `tree_links`, which take 160 MB. Samples that do not fit are not
/// recorded.
pub const MOST_TREE_ROWS: u64 = 4_000_000;

/// Represents no link or no tree.
const NONE: u32 = u32::MAX;

/// Rows of the table `tree_links`, one for each link in a tree at a sample.
#[derive(Debug, Default, Saved)]
struct LinkRows {
    time_ns: Vec<u64>,
    tree: Vec<u32>,
    link: Vec<u32>,
    waits_for: Vec<u32>,
    depth: Vec<u32>,
    trees: Vec<u32>,
    queued: Vec<u32>,
    held: Vec<u32>,
    isolated: Vec<u32>,
}

#[derive(Debug, Saved)]
pub(crate) struct ForestObserver {
    map: Map,
    moment: Moment,
    growth: TreeHistory,
    roles: Roles,
    rows: LinkRows,
    /// Number of samples whose links were not recorded because the table was full.
    pub unrecorded: u32,
    /// Number of samples.
    pub samples: u32,
    /// The largest number of links that waited for a root at any sample.
    pub most_branches: u32,
    last_time: Time,
}

impl ForestObserver {
    /// Minimum utilization of an output that is always busy, which is below 1 because there are gaps between packets.
    pub const BUSY: f64 = 0.9;

    /// `links` are the directions of links, each with a mark if it leads to a host and lacks credit for [`Self::BUSY`]
    /// although the host is not slow.
    pub fn new(config: &Config, full_space: u32, links: (&[LinkName], &[bool]), switches: &[Ports]) -> Self {
        let map = Map::new(config, full_space, links, switches);
        Self {
            moment: Moment::new(links.0.len()),
            growth: TreeHistory::default(),
            roles: Roles::new(config),
            rows: LinkRows::default(),
            unrecorded: 0,
            samples: 0,
            most_branches: 0,
            last_time: Time::ZERO,
            map,
        }
    }

    /// Adds the trees of the current sample. Returns the hosts and flows whose deliveries must be counted, if
    /// they have changed.
    pub fn sample(&mut self, view: View) -> Option<&Watch> {
        let span = view.now.saturating_sub(self.last_time);
        if span == Time::ZERO {
            return None;
        }
        self.map.find_hosts(view);
        let Self { moment, growth, .. } = self;
        moment.find(view, &mut self.map, span, |root| growth.lives(root));
        let from_ns = self.last_time.0 / 1_000;
        let trees = growth.follow(moment, (from_ns, view.now.0 / 1_000));
        self.samples += 1;
        self.most_branches = self.most_branches.max((moment.order.len() - moment.roots.len()) as u32);
        self.record(view, &trees);
        let seen = Seen { moment: &self.moment, numbers: &trees, growth: &self.growth };
        let is_new = self.roles.sample(view, &self.map, seen, (from_ns, span));
        self.last_time = view.now;
        is_new.then(|| self.roles.watch())
    }

    /// Records the links of the current trees, which have the numbers `trees`.
    fn record(&mut self, view: View, trees: &[u32]) {
        let Self { moment, map, rows, .. } = self;
        if (rows.link.len() + moment.order.len()) as u64 > MOST_TREE_ROWS {
            self.unrecorded += 1;
            return;
        }
        for &link in &moment.order {
            let member = moment.members[link as usize];
            rows.time_ns.push(view.now.0 / 1_000);
            rows.tree.push(trees[member.root as usize]);
            rows.link.push(link);
            rows.waits_for.push(if member.waits_for == NONE { link } else { member.waits_for });
            rows.depth.push(member.depth);
            rows.trees.push(moment.trees_of(link).count() as u32);
            rows.queued.push(member.queued);
            rows.isolated.push(u32::from(member.is_isolated));
            let channel = map.links[link as usize].channel;
            rows.held.push(Vl::all(usize::from(map.lanes)).map(|vl| view.outstanding(channel, vl)).sum());
        }
    }

    /// The trees of the last sample and their links.
    pub fn latest(&self, view: View) -> (Vec<LatestTree>, Vec<TreeLink>) {
        let now_ns = self.last_time.0 / 1_000;
        let tree = |&root: &u32| {
            let live = self.growth.live();
            let place = live.binary_search_by_key(&root, |live| live.0).ok()?;
            let (number, tree) = (live[place].1, &self.growth.trees[live[place].1 as usize]);
            let around = self.roles.of.get(number as usize)?;
            let verdict = TreeKind::new(tree, around, view.host_count());
            let mut contributors: Vec<u32> = (verdict.contributors.iter())
                .filter(|(_, feeding)| feeding.last_ns == now_ns)
                .map(|(who, _)| who.host)
                .collect();
            let waiting = verdict.victims.iter().filter(|(_, waiting)| waiting.last_ns == now_ns);
            let mut victims: Vec<u32> = waiting.map(|(who, _)| who.host).collect();
            // A host may have several classes of traffic.
            for hosts in [&mut contributors, &mut victims] {
                hosts.sort_unstable();
                hosts.dedup();
            }
            let (tree, born_ns) = (number + 1, tree.born_ns);
            Some(LatestTree { tree, root, born_ns, is_silent: verdict.kind() == 0, contributors, victims })
        };
        let trees: Vec<LatestTree> = self.moment.roots.iter().filter_map(tree).collect();
        let link = |&link: &u32| {
            let member = self.moment.members[link as usize];
            TreeLink {
                tree: trees.get(member.root as usize).map_or(0, |tree| tree.tree),
                link,
                waits_for: if member.waits_for == NONE { link } else { member.waits_for },
                depth: member.depth,
                trees: self.moment.trees_of(link).count() as u32,
                queued_bytes: member.queued,
                is_isolated: member.is_isolated,
                downstream_bytes: self.held(view, link),
            }
        };
        let links = self.moment.order.iter().map(link).collect();
        (trees, links)
    }

    /// The bytes for which the sender of a link lacks credit: in flight, in the buffer at the far end, or
    /// returning as credit.
    fn held(&self, view: View, link: u32) -> u32 {
        let channel = self.map.links[link as usize].channel;
        Vl::all(usize::from(self.map.lanes)).map(|vl| view.outstanding(channel, vl)).sum()
    }

    /// Classifies the trees.
    pub fn judge(mut self, view: View) -> Judged {
        self.map.find_hosts(view);
        let is_endpoint = |tree: &growth::Tree| self.map.links[tree.root as usize].host != NONE;
        let verdicts = verdict::judge(&self.growth.trees, (&self.roles.of, view.host_count()), is_endpoint);
        Judged { forest: self, verdicts }
    }
}

/// The trees of a completed run.
#[derive(Debug)]
pub(crate) struct Judged {
    pub forest: ForestObserver,
    verdicts: Vec<TreeKind>,
}

/// A tree with its verdict.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgedTree<'a> {
    /// The link at the root.
    pub root: u32,
    /// Number of samples in which the tree existed.
    pub samples: u32,
    pub kind: &'a TreeKind,
}

impl Judged {
    /// All trees, with their verdicts.
    pub fn trees(&self) -> impl Iterator<Item = JudgedTree<'_>> {
        let trees = self.forest.growth.trees.iter().zip(&self.verdicts);
        trees.map(|(tree, kind)| JudgedTree { root: tree.root, samples: tree.samples, kind })
    }

    /// The tables [`TABLES`].
    pub fn into_tables(self, view: View, names: &ResultNames) -> Vec<Table> {
        tables::fill(self, view, names)
    }
}
