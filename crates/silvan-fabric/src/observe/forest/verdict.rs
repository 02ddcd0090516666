//! Classifies a tree: its contributors and victims, whether it was silent or windy, and whether it moved.

use rustc_hash::FxHashMap;

use super::growth::{Tree, TreeEnd};
use super::roles::{Feeding, TreeTraffic, WaitingTraffic, Who};

/// In a silent tree, the median contributor sends at least this share of its packets through the root.
const ALL: f64 = 0.999;
/// A host and class that send at least this share of the host's payload through the root contribute, unless
/// they do so rarely.
const OWN: f64 = 0.25;
/// With a smaller share, a host and class contribute if they send through the root in at least this multiple
/// of the number of intervals expected by chance, plus a margin.
const PREFERRED: f64 = 2.0;

/// The classification of a tree.
#[derive(Debug)]
pub(crate) struct TreeKind {
    pub contributors: Vec<(Who, Feeding)>,
    pub victims: Vec<(Who, WaitingTraffic)>,
    /// Payload through the root, from all senders.
    pub through_root: f64,
    /// The share of the contributors' payload that went through the root; 1 for a silent tree.
    pub share: f64,
    is_silent: bool,
    pub moved_from: Option<u32>,
    pub moved_to: Option<u32>,
}

impl TreeKind {
    pub(super) fn new(tree: &Tree, around: &TreeTraffic, hosts: usize) -> Self {
        let mut feeding: Vec<(Who, Feeding)> = around.feeding.iter().collect();
        feeding.sort_unstable_by_key(|one| one.0);
        if feeding.iter().all(|one| one.1.bytes == 0.0) {
            for (_, feeding) in &mut feeding {
                feeding.bytes = feeding.inside_bytes as f64;
            }
        }
        let through_root = feeding.iter().map(|one| one.1.bytes).sum();
        let active = |who: Who| around.active_samples(who.class, tree.samples);
        let contributors = contributors((tree.born_ns, tree.last_ns), &feeding, hosts, active);
        let waiting = around.waiting.iter().filter(|(who, waiting)| is_often(waiting.samples, active(**who)));
        let mut victims: Vec<(Who, WaitingTraffic)> = waiting.map(|one| (*one.0, *one.1)).collect();
        victims.sort_unstable_by_key(|one| one.0);
        let mut hosts: FxHashMap<u32, (Feeding, f64)> = FxHashMap::default();
        for (who, feeding) in &contributors {
            // Count each host only once, because all its classes contain the same counts of the whole host.
            let (all, own) = hosts.entry(who.host).or_default();
            all.own_packets += feeding.own_packets;
            all.packets = all.packets.max(feeding.packets);
            all.sent_bytes = all.sent_bytes.max(feeding.sent_bytes);
            *own += feeding.bytes;
        }
        let own_of = |one: &(Feeding, f64)| one.0.own_packets as f64 / one.0.packets.max(1) as f64;
        let mut shares: Vec<f64> = hosts.values().map(own_of).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let is_silent = shares.get(shares.len() / 2).is_none_or(|&middle| middle >= ALL);
        let sent: u64 = hosts.values().map(|one| one.0.sent_bytes).sum();
        let own: f64 = contributors.iter().map(|one| one.1.bytes).sum();
        let share = if is_silent || sent == 0 { 1.0 } else { (own / sent as f64).min(1.0) };
        Self { contributors, victims, through_root, share, is_silent, moved_from: None, moved_to: None }
    }

    /// 0 for a silent tree, 1 for a windy tree, 2 for a moving tree.
    pub fn kind(&self) -> u32 {
        match (self.moved_from.or(self.moved_to), self.is_silent) {
            (Some(_), _) => 2,
            (None, is_silent) => u32::from(!is_silent),
        }
    }
}

/// Whether these samples are at least a tenth of the samples in which the class was active. A short job has a
/// role in a tree that exists much longer than the job.
fn is_often(samples: u32, active: u32) -> bool {
    10 * u64::from(samples) >= u64::from(active)
}

/// Selects the contributors among the senders through the root. A host that sends through the root only as
/// often as to any other host is a contributor only if no sender prefers the root. The tree existed from
/// `born_ns` to `last_ns`. `hosts` is the number of hosts, and `active` the number of samples of the tree in
/// which a class was active.
fn contributors(
    (born_ns, last_ns): (u64, u64),
    feeding: &[(Who, Feeding)],
    hosts: usize,
    active: impl Fn(Who) -> u32,
) -> Vec<(Who, Feeding)> {
    // If a sender started late, its rate is computed from its first interval, but over at least half of the
    // tree's lifetime.
    let half = last_ns.saturating_sub(born_ns) / 2;
    let rate = |one: &Feeding| one.bytes / last_ns.saturating_sub(one.first_ns).max(half).max(1) as f64;
    let sum = |power| feeding.iter().map(|one| rate(&one.1).powi(power)).sum::<f64>();
    // The limit is an eighth of the mean rate of the senders, weighted by their rates.
    let least = sum(2) / sum(1).max(f64::MIN_POSITIVE) / 8.0;
    let is_own = |who: Who, one: &Feeding| {
        let is_often = is_often(one.samples, active(who));
        one.bytes >= OWN * one.sent_bytes as f64 && is_often && (one.fed > 1 || rate(one) >= least)
    };
    let is_preferred = |who: Who, one: &Feeding| {
        // The expected number of intervals in which the host would have sent through the root if it sent
        // equally to all other hosts.
        let to_others = (one.sent_bytes as f64 - one.bytes).max(0.0) / hosts.saturating_sub(2).max(1) as f64;
        let by_chance = f64::from(one.fed) * to_others / one.bytes.max(1.0);
        let enough = 3.0f64.min(f64::from(active(who)) / 2.0);
        f64::from(one.fed) >= PREFERRED * by_chance + enough
    };
    let all = |feeds: &dyn Fn(Who, &Feeding) -> bool| -> Vec<(Who, Feeding)> {
        feeding.iter().filter(|(who, one)| feeds(*who, one)).copied().collect()
    };
    let found = all(&|who, one| is_own(who, one) || is_preferred(who, one));
    // If all hosts send equally to all others, the contributors are those with the highest rates.
    if found.is_empty() { all(&|_, one| rate(one) >= least) } else { found }
}

/// Classifies the trees.
pub(super) fn judge(
    trees: &[Tree],
    (around, hosts): (&[TreeTraffic], usize),
    is_endpoint: impl Fn(&Tree) -> bool,
) -> Vec<TreeKind> {
    let none = TreeTraffic::default();
    let of = |number: usize| around.get(number).unwrap_or(&none);
    let mut verdicts: Vec<TreeKind> =
        trees.iter().enumerate().map(|(number, tree)| TreeKind::new(tree, of(number), hosts)).collect();
    find_moves(trees, &mut verdicts, is_endpoint);
    verdicts
}

/// Finds moving trees with endpoint roots: at least half of the contributors of one of two successive trees
/// contributed to both.
fn find_moves(trees: &[Tree], verdicts: &mut [TreeKind], is_endpoint: impl Fn(&Tree) -> bool) {
    let mut fed: FxHashMap<(u16, u32), Vec<u32>> = FxHashMap::default();
    for (number, verdict) in verdicts.iter().enumerate().filter(|one| is_endpoint(&trees[one.0])) {
        for (who, _) in &verdict.contributors {
            fed.entry((who.class, who.host)).or_default().push(number as u32);
        }
    }
    let mut shared: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    for list in fed.values() {
        // Trees are numbered in the order in which they began.
        for pair in list.windows(2) {
            *shared.entry((pair[0], pair[1])).or_default() += 1;
        }
    }
    let mut shared: Vec<_> = shared.into_iter().collect();
    shared.sort_unstable();
    for ((old, new), hosts) in shared {
        let (one, other) = (&trees[old as usize], &trees[new as usize]);
        let size = |number: u32| verdicts[number as usize].contributors.len();
        let is_later =
            one.end != TreeEnd::Lasts && other.born_ns > one.born_ns && other.last_ns > one.last_ns;
        if is_later && one.root != other.root && 2 * hosts >= size(old).min(size(new)) {
            verdicts[old as usize].moved_to.get_or_insert(new);
            verdicts[new as usize].moved_from = Some(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contributors of a tree of 10 ms in a network of 102 hosts. Each sender is given by the bytes
    /// through the root, the bytes in total, and the number of intervals.
    fn found(senders: &[(f64, u64, u32)]) -> Vec<u32> {
        found_in(100, senders)
    }

    /// Same as [`found`], for a class that was active in a number of samples.
    fn found_in(active: u32, senders: &[(f64, u64, u32)]) -> Vec<u32> {
        let feeding = senders.iter().zip(0..).map(|(&(bytes, sent_bytes, fed), host)| {
            let seen =
                Feeding { bytes, sent_bytes, fed, samples: fed, last_ns: 10_000_000, ..Feeding::default() };
            (Who { class: 0, host }, seen)
        });
        let feeding: Vec<_> = feeding.collect();
        contributors((0, 10_000_000), &feeding, 102, |_| active).iter().map(|one| one.0.host).collect()
    }

    #[test]
    fn a_sender_to_the_root_alone_contributes_whatever_the_amount() {
        assert_eq!(found(&[(1e6, 1_000_000, 100), (1e4, 10_000, 20), (1e4, 1_000_000, 5)]), [0, 1]);
        assert_eq!(found(&[(1e6, 1_000_000, 100), (1e4, 10_000, 2)]), [0], "seldom");
    }

    #[test]
    fn a_sender_that_prefers_the_root_contributes() {
        // 1 MB to others is 10 kB to each of 100 hosts.
        let windy = (1e5, 1_100_000, 50);
        assert_eq!(found(&[windy, windy, (1e4, 1_010_000, 10), (19_000.0, 1_019_000, 19)]), [0, 1]);
        // A number of intervals slightly above the expected number can be due to chance.
        assert_eq!(found(&[windy, (4e3, 104_000, 4), (8e3, 108_000, 8)]), [0, 2]);
    }

    #[test]
    fn a_short_job_has_roles_in_a_tree_that_exists_much_longer() {
        // In a tree of 100 samples, class 1 was active in five, and its hosts waited or sent in two of them.
        let active = |who: Who| if who.class == 0 { 100 } else { 5 };
        assert!(is_often(2, active(Who { class: 1, host: 0 })));
        assert!(!is_often(2, active(Who { class: 0, host: 0 })));
        let sender = |class, host, bytes: f64, fed| {
            let sent_bytes = bytes as u64;
            let seen =
                Feeding { bytes, sent_bytes, fed, samples: fed, last_ns: 10_000_000, ..Feeding::default() };
            (Who { class, host }, seen)
        };
        let feeding = [sender(0, 0, 1e6, 100), sender(0, 1, 1e4, 2), sender(1, 2, 1e4, 2)];
        let found = contributors((0, 10_000_000), &feeding, 102, active);
        assert_eq!(found.iter().map(|one| one.0.host).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn a_class_that_is_active_in_few_samples_needs_half_of_them() {
        // Both hosts sent through the root in two intervals, once more than expected by chance.
        let senders = [(1e6, 1_000_000, 2), (1e4, 50_000, 2)];
        assert_eq!(found_in(2, &senders), [0, 1]);
        assert_eq!(found_in(20, &senders), [0], "two of twenty intervals can be due to chance");
    }

    #[test]
    fn under_uniform_traffic_the_largest_senders_contribute() {
        assert_eq!(found(&[(1e4, 1_010_000, 10), (9e3, 910_000, 9), (1e3, 101_000, 1)]), [0, 1]);
        assert!(found(&[]).is_empty());
    }
}
