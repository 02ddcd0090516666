//! Congestion trees as a subject of the results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::observe::{Judged, TREES, TreeKind};
use crate::table::Described;

/// Minimum share of its offered traffic that a class must lose to trees to be reported as a victim.
const WORTH_NAMING: f64 = 0.05;

/// Congestion trees.
#[derive(Saved)]
pub(crate) struct TreeSection;

impl Section for TreeSection {
    type Entry = ();
    const WHEN: &'static str = "unless measure.forest = false";
    const TABLES: &'static [&'static dyn Described] = TREES;

    fn new(_: &Recording) -> Option<Self> {
        Some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<()> {
        let Some(judged) = end.forest.take() else {
            let account = vec!["Congestion trees were not recorded (measure.forest).".to_owned()];
            return SectionResult { account, ..SectionResult::default() };
        };
        let account = trees(end, &judged);
        let (samples, unrecorded) = (judged.forest.samples, judged.forest.unrecorded);
        let warning = (unrecorded > 0).then(|| {
            format!(
                "The table tree_links was full after {} of {samples} samples; increase measure.interval, or switch off \
                 measure.forest.",
                samples - unrecorded
            )
        });
        let tables = judged.into_tables(end.view, end.names);
        SectionResult { tables, account, warnings: warning.into_iter().collect(), ..SectionResult::default() }
    }
}

fn share(count: u32, whole: u32) -> String {
    format!("{:.0} %", 100.0 * f64::from(count) / f64::from(whole.max(1)))
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] if names.len() <= 6 => format!("{} and {last}", some.join(", ")),
        _ => format!("{} and {} others", names[..5].join(", "), names.len() - 5),
    }
}

/// Describes the outputs that were roots in more than a tenth of the samples, and the contributors and
/// victims of their trees.
fn trees(end: &Ending, judged: &Judged) -> Vec<String> {
    let samples = judged.forest.samples;
    let mut by_root: BTreeMap<u32, u32> = BTreeMap::new();
    judged.trees().for_each(|tree| *by_root.entry(tree.root).or_default() += tree.samples);
    by_root.retain(|_, seen| 10 * *seen > samples);
    if by_root.is_empty() {
        return vec![
            "No output was the root of a congestion tree in more than a tenth of the samples.".into(),
        ];
    }
    let mut roots: Vec<(u32, u32)> = by_root.iter().map(|(&link, &seen)| (link, seen)).collect();
    roots.sort_by_key(|&(link, seen)| (Reverse(seen), link));
    let named: Vec<String> = roots
        .iter()
        .take(8)
        .map(|&(link, seen)| format!("{} ({} of the samples)", end.link(link as usize), share(seen, samples)))
        .collect();
    let more = if roots.len() > 8 { format!(", and {} more", roots.len() - 8) } else { String::new() };
    let reach = match judged.forest.most_branches {
        0 => "No tree grew beyond its root.".to_string(),
        1 => "At most one link waited for a root at a time.".to_string(),
        n => format!("Up to {n} links waited for a root at a time."),
    };
    let mut lines = vec![format!("Roots of congestion trees: {}{more}. {reach}", named.join(", "))];
    lines.extend(roles(
        end,
        judged.trees().filter(|tree| by_root.contains_key(&tree.root)).map(|tree| tree.kind),
    ));
    lines
}

/// Describes the contributors and the victims of the given trees.
fn roles<'a>(end: &Ending, trees: impl Iterator<Item = &'a TreeKind>) -> Vec<String> {
    let mut feeding: BTreeMap<u16, BTreeSet<u32>> = BTreeMap::new();
    let mut waiting: BTreeMap<u16, (BTreeSet<u32>, f64, f64)> = BTreeMap::new();
    for tree in trees {
        for (who, _) in &tree.contributors {
            feeding.entry(who.class).or_default().insert(who.host);
        }
        for (who, suffered) in &tree.victims {
            let (hosts, lost, offered) = waiting.entry(who.class).or_default();
            hosts.insert(who.host);
            *lost += suffered.lost_bytes;
            *offered += suffered.offered_bytes;
        }
    }
    let is_flow = |class: u16| usize::from(class) < end.config.flows.len();
    let called = |class: u16, hosts: &BTreeSet<u32>| {
        let name = &end.view.totals.classes[usize::from(class)].name;
        match hosts.len() {
            _ if is_flow(class) => name.clone(),
            1 => format!("1 host of `{name}`"),
            n => format!("{n} hosts of `{name}`"),
        }
    };
    let contributors: Vec<String> = feeding.iter().map(|(&class, hosts)| called(class, hosts)).collect();
    let victims: Vec<String> = waiting
        .iter()
        .filter(|(_, (_, lost, offered))| *lost >= WORTH_NAMING * offered && *lost > 0.0)
        .map(|(&class, (hosts, lost, offered))| {
            format!(
                "{} (sent {:.0} % less than offered meanwhile)",
                called(class, hosts),
                100.0 * lost / offered
            )
        })
        .collect();
    let mut lines = Vec::new();
    if !contributors.is_empty() {
        lines.push(format!("Contributors (they send through a root): {}.", list(&contributors)));
    }
    if !victims.is_empty() {
        lines.push(format!(
            "Victims (held back by a tree whose root they do not send through): {}.",
            list(&victims)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_six_or_the_first_five() {
        let names = |count: usize| (1..=count).map(|at| format!("n{at}")).collect::<Vec<_>>();
        let listed = [0, 1, 2, 3, 6, 7].map(|count| list(&names(count)));
        let expected = [
            "",
            "n1",
            "n1 and n2",
            "n1, n2 and n3",
            "n1, n2, n3, n4, n5 and n6",
            "n1, n2, n3, n4, n5 and 2 others",
        ];
        assert_eq!(listed, expected);
        assert_eq!((share(1, 4).as_str(), share(0, 0).as_str()), ("25 %", "0 %"));
    }
}
