//! Which keys and choices the random scenarios use.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
use serde_json::Value as Json;
use toml::{Table, Value};

/// Number of occurrences, by name.
pub type Counts = BTreeMap<String, u64>;

/// Keys ("switch.buffer") and choices ("switch.queues=single") of a scenario.
pub fn of_scenario(table: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(&Value::Table(table.clone()), "", &mut found);
    found
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let path = join(path, key);
                found.insert(path.clone());
                walk(value, &path, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, path, found)),
        Value::String(word) => {
            found.insert(format!("{path}={word}"));
        }
        Value::Boolean(value) => {
            found.insert(format!("{path}={value}"));
        }
        _ => {}
    }
}

/// All keys and choices of a schema, in the same notation.
#[cfg(test)]
pub fn of_schema(root: &Json) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk_schema(root, root, "", &mut found);
    found
}

#[cfg(test)]
fn walk_schema(root: &Json, schema: &Json, path: &str, found: &mut BTreeSet<String>) {
    if let Some(target) = schema.get("$ref").and_then(Json::as_str) {
        if let Some(target) = root.pointer(target.trim_start_matches('#')) {
            walk_schema(root, target, path, found);
        }
        return;
    }
    for choices in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get(choices).and_then(Json::as_array);
        choices.into_iter().flatten().for_each(|choice| walk_schema(root, choice, path, found));
    }
    let words = schema.get("enum").and_then(Json::as_array).into_iter().flatten().chain(schema.get("const"));
    for word in words.filter_map(Json::as_str) {
        found.insert(format!("{path}={word}"));
    }
    if schema.get("type").and_then(Json::as_str) == Some("boolean") {
        found.extend([true, false].map(|value| format!("{path}={value}")));
    }
    if let Some(items) = schema.get("items") {
        walk_schema(root, items, path, found);
    }
    for (key, value) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        let path = join(path, key);
        found.insert(path.clone());
        walk_schema(root, value, &path, found);
    }
}

/// The lines of the report: for the most important keys, how often each choice was generated.
pub fn report(counts: &Counts) -> Vec<String> {
    const KEYS: [&str; 15] = [
        "topology.kind",
        "routing.kind",
        "switch.architecture",
        "switch.arbitration",
        "switch.queues",
        "switch.memory",
        "congestion.mechanism",
        "congestion.marking.kind",
        "congestion.notification",
        "congestion.isolation.kind",
        "congestion.isolation.arbitration",
        "congestion.reaction.kind",
        "host.queues",
        "traffic.pattern.kind",
        "adaptive_routing.heuristic",
    ];
    let line = |key: &str| {
        let start = format!("{key}=");
        let of_key = counts.range(start.clone()..).take_while(|(name, _)| name.starts_with(&start));
        let values: Vec<String> =
            of_key.map(|(name, count)| format!("{} {count}", &name[start.len()..])).collect();
        format!("  {key}: {}", values.join(", "))
    };
    KEYS.iter().map(|key| line(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::read;
    use crate::draw::draw;
    use crate::draw::ecmp::{hashing, lids, priority, retirement};
    use crate::draw::events;
    use crate::draw::rdma::{Around, congestion};
    use crate::draw::sources;
    use crate::draw::trimming::trimming;
    use crate::variants::{with_jobs, with_ports};

    /// Keys and choices that are not generated. The checks `threads` and `engine` run every relevant scenario
    /// with several numbers of threads and both schedulers, and the check `measure` switches the forest off.
    /// Without these keys, older builds can read the generated scenarios.
    const EXEMPT: [&str; 35] = [
        // Refused: credit belongs to queue pairs.
        "congestion.reaction.nscc.level=destination",
        // The check `skip` compares the results.
        "engine",
        "engine.skip",
        "engine.skip=false",
        "engine.skip=true",
        // The check `stored` compares the results.
        "job.program.in_memory",
        "threads",
        "threads=auto",
        "scheduler",
        "scheduler=auto",
        "scheduler=binned",
        "scheduler=event-ordered",
        "measure.forest",
        "measure.forest=false",
        "measure.forest=true",
        // The check `engine` and the random scenarios for the second model cover coalescing.
        "congestion.coalescing",
        "congestion.coalescing.interval",
        "congestion.coalescing.per",
        "congestion.coalescing.per=flow",
        "congestion.coalescing.per=port",
        "congestion.reaction.timer",
        "congestion.reaction.timer=cyclic",
        "congestion.reaction.timer=notification",
        // Lanes of paths need files that match the network; they have their own tests.
        "lanes.assignment=paths",
        "lanes.path_levels",
        "lanes.tables",
        // A program sends the messages, so such a scenario cannot be run on its own.
        "external",
        "external.name",
        // Readers of traces have their own tests.
        "job.program.format=goal-binary",
        "job.program.format=ti",
        "job.program.format=vef",
        "job.program.format=chakra",
        "job.program.format=hpcc",
        "job.program.format=workload",
        "job.program.format=msccl",
    ];

    #[test]
    fn random_scenarios_cover_every_key_and_choice_of_the_schema() {
        let mut drawn = BTreeSet::new();
        for seed in 0..4_000 {
            let table = draw(seed, 0);
            drawn.extend(of_scenario(&table));
            if seed < 1_500
                && let Ok(Ok(scenario)) = read(&table)
                && let Some(with) = with_jobs(&table, &scenario)
            {
                drawn.extend(of_scenario(&with));
                drawn.extend(with_ports(&table, &scenario).iter().flat_map(of_scenario));
            }
            let around = Around { full: 2_048, has_one_way: false, rates: vec![100_000_000_000] };
            let with = Table::from_iter([("congestion".to_owned(), congestion(seed, &around).into())]);
            drawn.extend(of_scenario(&with));
            let (ecmp, host) = hashing(seed);
            let tables = [("ecmp", ecmp), ("host", host), ("lanes", priority(seed, 3))]
                .map(|(key, table)| (key.to_owned(), table.into()));
            let with = Table::from_iter(tables);
            drawn.extend(of_scenario(&with));
            let with = trimming(seed, 2_048, &[1_000_000_000, 4_000_000_000])
                .map(|(key, table)| (key.to_owned(), table.into()));
            drawn.extend(of_scenario(&Table::from_iter(with)));
            for has_acks in [false, true] {
                let hosts = ["A", "B", "C"].map(str::to_owned).into();
                let around = sources::Around { hosts, duration: 10_000, mtu: 2_048, has_acks, levels: 16 };
                let list = Value::Array(sources::sources(seed, &around));
                drawn.extend(of_scenario(&Table::from_iter([("traffic".to_owned(), list)])));
            }
            let mut topology = table.get("topology").and_then(Value::as_table).cloned().unwrap_or_default();
            topology.extend(sources::levels(seed, &topology));
            let tables = [("topology", topology), ("measure", sources::measure(seed))];
            let with = Table::from_iter(tables.map(|(key, table)| (key.to_owned(), table.into())));
            drawn.extend(of_scenario(&with));
            let names = |names: [&str; 2]| names.map(str::to_owned).into();
            let (switches, ports) = (names(["S1", "S2"]), names(["A", "S1:1"]));
            let hosts = names(["A", "B"]);
            let around = events::Around {
                switches,
                hosts,
                ports,
                duration: 10_000,
                slowest: 1_000_000_000,
                is_limited: false,
            };
            let list = Value::Array(events::events(seed, &around));
            let rerouting = Value::Table(events::rerouting(seed, 10_000));
            let recovery = Value::Table(events::recovery(seed, 10_000, false));
            let lossy = Table::from_iter([("lossy_lanes".to_owned(), events::lossy_lanes(seed, 2).into())]);
            let flow_control = Value::Table(lossy);
            let states = Value::Table(retirement(seed, 10_000, 64));
            let retirement = Table::from_iter([("retirement".to_owned(), states)]);
            let tables = [
                ("event", list),
                ("rerouting", rerouting),
                ("recovery", recovery),
                ("flow_control", flow_control),
                ("ecmp", Value::Table(retirement)),
            ]
            .map(|(key, value)| (key.to_owned(), value));
            drawn.extend(of_scenario(&Table::from_iter(tables)));
            let with = Table::from_iter(lids(seed).map(|(key, table)| (key.to_owned(), table.into())));
            drawn.extend(of_scenario(&with));
        }
        let known = of_schema(&silvan_scenario::schema());
        assert!(
            known.len() > 250 && known.contains("congestion.mechanism=ccfit"),
            "{} in the schema",
            known.len()
        );
        // Single hosts have the same reactions as all others.
        let is_drawn_elsewhere = |name: &str| {
            let of_all = name.strip_prefix("congestion.hosts.").map(|rest| format!("congestion.{rest}"));
            of_all.is_some_and(|name| known.contains(&name))
        };
        assert!(drawn.contains("congestion.hosts.reaction.ccti_timer"));
        let missing: Vec<&String> = known
            .difference(&drawn)
            .filter(|name| !EXEMPT.contains(&name.as_str()) && !is_drawn_elsewhere(name))
            .collect();
        assert!(missing.is_empty(), "in the schema, but never generated by the swarm: {missing:#?}");
    }

    #[test]
    fn most_random_scenarios_are_accepted() {
        let accepted = (0..300).filter(|&seed| matches!(read(&draw(seed, 0)), Ok(Ok(_)))).count();
        assert!(accepted > 180, "{accepted} of 300");
    }

    #[test]
    fn a_seed_always_gives_the_same_scenario() {
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }
}
