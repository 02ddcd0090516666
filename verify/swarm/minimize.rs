//! Minimizes a failing scenario: removes, halves or simplifies values while the same check fails.

use std::time::{Duration, Instant};

use toml::{Table, Value};

/// One step into a value: a key of a table, or an index of a list.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    At(usize),
}

type Place = Vec<Step>;

/// Returns the smallest table for which `fails` holds that is found in the given time. `fails` must hold
/// for `table`.
pub fn minimize(table: &Table, limit: Duration, fails: &mut dyn FnMut(&Table) -> bool) -> Table {
    let mut best = Value::Table(table.clone());
    let end = Instant::now() + limit;
    loop {
        let before = best.clone();
        for pass in [plainer_network, fewer_nodes, shorter_lists, fewer_keys, smaller_values] {
            pass(&mut best, &mut |candidate| {
                Instant::now() < end && candidate.as_table().is_some_and(&mut *fails)
            });
        }
        if best == before || Instant::now() >= end {
            break;
        }
    }
    match best {
        Value::Table(table) => table,
        _ => table.clone(),
    }
}

type Fails<'f> = &'f mut dyn FnMut(&Value) -> bool;

/// Accepts a candidate if it still fails.
fn adopt(best: &mut Value, candidate: Value, fails: Fails<'_>) -> bool {
    let better = candidate != *best && fails(&candidate);
    if better {
        *best = candidate;
    }
    better
}

fn get<'v>(value: &'v Value, place: &[Step]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key.as_str()),
        Step::At(at) => value.get(*at),
    })
}

fn get_mut<'v>(value: &'v mut Value, place: &[Step]) -> Option<&'v mut Value> {
    place.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::At(at) => value.get_mut(*at),
    })
}

/// All places below a value, outer ones first.
fn places(value: &Value) -> Vec<Place> {
    let mut found: Vec<Place> = vec![Vec::new()];
    let mut at = 0;
    while at < found.len() {
        let place = found[at].clone();
        let steps: Vec<Step> = match get(value, &place) {
            Some(Value::Table(table)) => table.keys().cloned().map(Step::Key).collect(),
            Some(Value::Array(list)) => (0..list.len()).map(Step::At).collect(),
            _ => Vec::new(),
        };
        found.extend(steps.into_iter().map(|step| [place.as_slice(), &[step]].concat()));
        at += 1;
    }
    found.remove(0);
    found
}

/// Replaces the network by a star with the smallest number of hosts, of those tried, that still fails.
fn plainer_network(best: &mut Value, fails: Fails<'_>) {
    for hosts in [2, 3, 4, 6, 9, 16, 33, 70] {
        let mut candidate = best.clone();
        let Some(table) = candidate.as_table_mut() else { return };
        let is_star =
            table.get("topology").and_then(|topology| topology.get("kind")) == Some(&Value::from("star"));
        if is_star {
            return;
        }
        let mut star = Table::new();
        star.insert("kind".to_owned(), Value::from("star"));
        star.insert("hosts".to_owned(), Value::from(hosts));
        for key in ["link_rate", "link_delay"] {
            if let Some(value) = table.get("topology").and_then(|topology| topology.get(key)) {
                star.insert(key.to_owned(), value.clone());
            }
        }
        table.insert("topology".to_owned(), Value::Table(star));
        table.remove("routing");
        if adopt(best, candidate, fails) {
            return;
        }
    }
}

/// Removes a host or switch of a custom network and everything that names it.
fn fewer_nodes(best: &mut Value, fails: Fails<'_>) {
    for list in ["switches", "hosts"] {
        let nodes = best.get("topology").and_then(|topology| topology.get(list)).and_then(Value::as_array);
        let name = |node: &Value| node.get("name").unwrap_or(node).as_str().map(str::to_owned);
        let names: Vec<String> = nodes.into_iter().flatten().filter_map(name).collect();
        for name in names {
            let mut candidate = best.clone();
            forget(&mut candidate, &name);
            adopt(best, candidate, fails);
        }
    }
}

/// Removes from all lists the elements that are, or name, a node or one of its ports.
fn forget(value: &mut Value, node: &str) {
    let is_node = |value: &Value| {
        let name = value.as_str().unwrap_or_default();
        name == node || name.strip_prefix(node).is_some_and(|rest| rest.starts_with(':'))
    };
    match value {
        Value::Array(list) => {
            list.retain(|one| {
                let keys = ["name", "from", "to"];
                !is_node(one) && !keys.iter().any(|key| one.get(key).is_some_and(is_node))
            });
            list.iter_mut().for_each(|one| forget(one, node));
        }
        Value::Table(table) => table.iter_mut().for_each(|(_, one)| forget(one, node)),
        _ => {}
    }
}

/// Removes elements of lists: first halves, then quarters, then single elements.
fn shorter_lists(best: &mut Value, fails: Fails<'_>) {
    for place in places(best) {
        let Some(Value::Array(list)) = get(best, &place) else { continue };
        let mut size = list.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while let Some(Value::Array(list)) = get(best, &place) {
                if at >= list.len() {
                    break;
                }
                let mut candidate = best.clone();
                if let Some(Value::Array(list)) = get_mut(&mut candidate, &place) {
                    list.drain(at..(at + size).min(list.len()));
                }
                if !adopt(best, candidate, fails) {
                    at += size;
                }
            }
            size /= 2;
        }
    }
}

fn fewer_keys(best: &mut Value, fails: Fails<'_>) {
    for place in places(best) {
        let Some((Step::Key(key), outer)) = place.split_last() else { continue };
        let mut candidate = best.clone();
        if let Some(Value::Table(table)) = get_mut(&mut candidate, outer) {
            table.remove(key);
            adopt(best, candidate, fails);
        }
    }
}

fn smaller_values(best: &mut Value, fails: Fails<'_>) {
    for place in places(best) {
        // The first candidate that still fails is accepted and reduced again, at most 24 times.
        'smaller: for _ in 0..24 {
            let Some(value) = get(best, &place) else { break };
            for smaller in smaller(value) {
                let mut candidate = best.clone();
                if let Some(value) = get_mut(&mut candidate, &place) {
                    *value = smaller;
                }
                if adopt(best, candidate, fails) {
                    continue 'smaller;
                }
            }
            break;
        }
    }
}

/// Simpler values instead of one: smaller numbers, rounder quantities.
fn smaller(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(number) if *number > 0 => {
            let mut plainer = vec![0, 1, 2, number / 2, number - 1];
            plainer.retain(|plain| plain < number);
            plainer.dedup();
            plainer.into_iter().map(Value::from).collect()
        }
        Value::String(text) => {
            let Some((number, unit)) = text.split_once(' ') else { return Vec::new() };
            let Ok(number) = number.parse::<f64>() else { return Vec::new() };
            let mut plainer = vec![1.0, (number / 2.0).floor(), number.floor()];
            // One digit, then two.
            for digits in [0, 1] {
                let scale = 10f64.powf(number.max(1.0).log10().floor() - f64::from(digits));
                plainer.push((number / scale).floor() * scale);
            }
            plainer.retain(|plain| *plain < number && *plain >= 1.0);
            plainer.into_iter().map(|plain| Value::from(format!("{plain} {unit}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    const LARGE: &str = "
        duration = \"1234 us\"
        seed = 77
        [topology]
        kind = \"star\"
        hosts = 40
        [switch]
        buffer = \"5000 B\"
        latency = \"17 ns\"
        [[flow]]
        from = \"H1\"
        to = \"H2\"
        [[flow]]
        from = \"H3\"
        to = \"H2\"
        total = \"999 B\"
        [[flow]]
        from = \"H4\"
        to = \"H1\"
    ";

    #[test]
    fn irrelevant_keys_are_removed_and_numbers_shrink_to_the_limit() {
        let mut asked = 0;
        // Fails if some flow has a total and there are eleven hosts or more.
        let small = minimize(&read(LARGE), Duration::from_secs(60), &mut |table| {
            asked += 1;
            let flows = table.get("flow").and_then(Value::as_array);
            let hosts = table.get("topology").and_then(|t| t.get("hosts")).and_then(Value::as_integer);
            flows.is_some_and(|flows| flows.iter().any(|flow| flow.get("total").is_some()))
                && hosts.is_some_and(|hosts| hosts > 10)
        });
        let wanted = "[topology]\nhosts = 11\n[[flow]]\ntotal = \"1 B\"\n";
        assert_eq!(small, read(wanted), "after {asked} candidates");
        assert!(asked < 300, "{asked} candidates");
    }

    #[test]
    fn a_scenario_that_cannot_be_reduced_is_kept() {
        let large = read(LARGE);
        let small = minimize(&large, Duration::from_secs(60), &mut |table| *table == large);
        assert_eq!(small, large);
    }

    #[test]
    fn a_node_is_removed_with_its_links_and_flows() {
        let wired = read(
            "flow = [{ from = \"H1\", to = \"H2\" }, { from = \"H3\", to = \"H2\" }]
            [topology]
            kind = \"custom\"
            hosts = [\"H1\", \"H2\", \"H3\"]
            links = [{ from = \"H1\", to = \"S:1\" }, { from = \"H2\", to = \"S:2\" }, { from = \"H3\", to = \"S\" }]
            ",
        );
        let mut value = Value::Table(wired);
        forget(&mut value, "H3");
        let left = "flow = [{ from = \"H1\", to = \"H2\" }]
            [topology]
            kind = \"custom\"
            hosts = [\"H1\", \"H2\"]
            links = [{ from = \"H1\", to = \"S:1\" }, { from = \"H2\", to = \"S:2\" }]
            ";
        assert_eq!(value, Value::Table(read(left)));
        forget(&mut value, "S");
        assert_eq!(value["topology"]["links"], Value::Array(Vec::new()));
    }

    #[test]
    fn time_is_bounded() {
        let small = minimize(&read(LARGE), Duration::ZERO, &mut |_| true);
        assert_eq!(small, read(LARGE));
    }
}
