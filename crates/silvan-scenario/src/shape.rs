//! Checks a scenario against its schema before it is converted to types. The check finds unknown keys,
//! values of the wrong type or without a unit, and names that are not allowed. Unlike deserialization, it
//! reports the exact key of an error, even inside tables whose keys depend on their `kind`.

use std::cell::RefCell;

use serde_json::{Map, Value as Json};
use silvan_engine::units::InCycles;
use silvan_engine::{Bytes, Rate, Time};
use toml::{Table, Value};

use crate::error::{Fault, did_you_mean, name_list};
use crate::schema::resolve;

/// One allowed form of a value: a schema without references or alternatives.
#[derive(Clone, Copy)]
struct Leaf<'s> {
    /// Name of the definition that contains this form.
    name: Option<&'s str>,
    schema: &'s Map<String, Json>,
}

impl<'s> Leaf<'s> {
    /// The constant string that this leaf allows.
    fn word(&self) -> Option<&'s str> {
        self.schema.get("const").and_then(Json::as_str)
    }

    /// The `kind` that this table must have.
    fn kind(&self) -> Option<&'s str> {
        self.schema.get("properties")?.get("kind")?.get("const")?.as_str()
    }
}

/// A quantity given in cycles: its key, and its value in another unit.
pub(crate) type Converted = (String, String);

/// Checks a whole scenario. Returns all quantities given in cycles, with their values in other units.
pub(crate) fn check(table: &Table, root: &Json) -> Result<Vec<Converted>, Fault> {
    let Some(schema) = root.as_object() else { return Ok(Vec::new()) };
    let checker = Checker { root, cycle: cycle(table)?, converted: RefCell::default() };
    checker.table(table, Leaf { name: None, schema }, "")?;
    Ok(checker.converted.into_inner())
}

/// The length of a cycle, if given.
fn cycle(table: &Table) -> Result<Option<Time>, Fault> {
    const LONGEST: Time = Time(1_000_000_000_000);
    let Some(value) = table.get("cycle") else { return Ok(None) };
    let given = quantity::<Time>(value, "cycle", TIME, None)?;
    if given == Time::ZERO || given > LONGEST {
        return Err(Fault::new("cycle", format!("must be 1 ps to {LONGEST}")));
    }
    Ok(Some(given))
}

const TIME: &str = "a time with its unit, such as \"150 us\"";
const BYTES: &str = "a size with its unit, such as \"64 KiB\"";
const RATE: &str = "a rate with its unit, such as \"16 Gbit/s\"";

struct Checker<'s> {
    root: &'s Json,
    cycle: Option<Time>,
    converted: RefCell<Vec<Converted>>,
}

impl<'s> Checker<'s> {
    /// All forms that a schema allows, with references resolved.
    fn leaves(&self, schema: &'s Map<String, Json>, name: Option<&'s str>, into: &mut Vec<Leaf<'s>>) {
        if let Some((name, target)) =
            schema.get("$ref").and_then(Json::as_str).and_then(|r| resolve(self.root, r))
        {
            return self.leaves(target, Some(name), into);
        }
        let choices = schema.get("oneOf").or(schema.get("anyOf")).and_then(Json::as_array);
        match choices {
            Some(choices) => {
                choices.iter().filter_map(Json::as_object).for_each(|s| self.leaves(s, name, into))
            }
            None => into.push(Leaf { name, schema }),
        }
    }

    fn value(&self, value: &Value, schema: &'s Map<String, Json>, path: &str) -> Result<(), Fault> {
        let mut leaves = Vec::new();
        self.leaves(schema, None, &mut leaves);
        if let [only] = leaves.as_slice()
            && only.kind().is_none()
        {
            return self.leaf(value, *only, path);
        }
        let words: Vec<&str> = leaves.iter().flat_map(words_of).collect();
        if !words.is_empty() && leaves.iter().all(|leaf| !words_of(leaf).is_empty()) {
            return one_of(value, &words, path);
        }
        if leaves.iter().all(|leaf| leaf.kind().is_some()) {
            return self.tagged(value, &leaves, path);
        }
        let mut first = Ok(());
        let before = self.converted.borrow().len();
        for leaf in leaves {
            let result = self.leaf(value, leaf, path);
            if result.is_ok() {
                return result;
            }
            self.converted.borrow_mut().truncate(before);
            first = first.and(result);
        }
        first
    }

    /// Checks a table whose other keys depend on its `kind`.
    fn tagged(&self, value: &Value, leaves: &[Leaf<'s>], path: &str) -> Result<(), Fault> {
        let Value::Table(table) = value else { return Err(wrong(path, "a table with a `kind`")) };
        let kinds: Vec<&str> = leaves.iter().filter_map(Leaf::kind).collect();
        let path_of_kind = format!("{path}.kind");
        let Some(kind) = table.get("kind") else {
            return Err(Fault::new(path_of_kind, format!("missing; one of {}", name_list(&kinds))));
        };
        one_of(kind, &kinds, &path_of_kind)?;
        let leaf = leaves.iter().find(|leaf| leaf.kind() == kind.as_str());
        leaf.map_or(Ok(()), |leaf| self.table(table, *leaf, path))
    }

    fn leaf(&self, value: &Value, leaf: Leaf<'s>, path: &str) -> Result<(), Fault> {
        match leaf.name {
            Some("Time") => return self.quantity::<Time>(value, path, TIME),
            Some("Bytes") => return self.quantity::<Bytes>(value, path, BYTES),
            Some("Rate") => return self.quantity::<Rate>(value, path, RATE),
            _ => {}
        }
        let known = words_of(&leaf);
        if !known.is_empty() {
            return one_of(value, &known, path);
        }
        match leaf.schema.get("type").and_then(Json::as_str) {
            Some("object") => match value {
                Value::Table(table) => self.table(table, leaf, path),
                _ => Err(wrong(path, "a table")),
            },
            Some("array") => self.list(value, leaf, path),
            Some("string") if !value.is_str() => Err(wrong(path, "a text in quotes")),
            Some("boolean") if !value.is_bool() => Err(wrong(path, "true or false")),
            Some("number") if !(value.is_float() || value.is_integer()) => Err(wrong(path, "a number")),
            Some("integer") => integer(value, leaf, path),
            _ => Ok(()),
        }
    }

    fn quantity<Q: InCycles>(&self, value: &Value, path: &str, right: &str) -> Result<(), Fault> {
        let read = quantity::<Q>(value, path, right, self.cycle)?;
        if value.as_str().is_some_and(Q::is_in_cycles) {
            self.converted.borrow_mut().push((path.to_owned(), read.to_string()));
        }
        Ok(())
    }

    fn list(&self, value: &Value, leaf: Leaf<'s>, path: &str) -> Result<(), Fault> {
        let Value::Array(list) = value else {
            let hint = if value.is_table() && ["flow", "traffic", "job"].contains(&path) {
                format!("a list of tables: write [[{path}]]")
            } else {
                "a list".to_owned()
            };
            return Err(wrong(path, &hint));
        };
        let Some(items) = leaf.schema.get("items").and_then(Json::as_object) else { return Ok(()) };
        for (index, item) in list.iter().enumerate() {
            self.value(item, items, &format!("{path}.{index}"))?;
        }
        Ok(())
    }

    fn table(&self, table: &Table, leaf: Leaf<'s>, path: &str) -> Result<(), Fault> {
        let empty = Map::new();
        let properties = leaf.schema.get("properties").and_then(Json::as_object);
        let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let known: Vec<&str> = properties.unwrap_or(&empty).keys().map(String::as_str).collect();
        for (key, value) in table {
            let Some(schema) = properties.and_then(|p| p.get(key)) else {
                let hint = did_you_mean(key, known.iter().copied());
                let what = format!(
                    "unknown key{hint}{}known here: {}",
                    if hint.is_empty() { "; " } else { " " },
                    name_list(&known)
                );
                return Err(Fault::new(join(key), what));
            };
            if let Some(schema) = schema.as_object() {
                self.value(value, schema, &join(key))?;
            }
        }
        let required = leaf.schema.get("required").and_then(Json::as_array);
        for key in required.into_iter().flatten().filter_map(Json::as_str) {
            if !table.contains_key(key) {
                let about = properties.and_then(|p| p.get(key)?.get("description")?.as_str());
                let about = about.map_or_else(String::new, |text| format!(": {}", first_sentence(text)));
                return Err(Fault::new(join(key), format!("missing, and needed{about}")));
            }
        }
        Ok(())
    }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// The constant strings that a leaf allows.
fn words_of<'s>(leaf: &Leaf<'s>) -> Vec<&'s str> {
    if let Some(word) = leaf.word() {
        return vec![word];
    }
    let list = leaf.schema.get("enum").and_then(Json::as_array);
    list.into_iter().flatten().filter_map(Json::as_str).collect()
}

fn wrong(path: &str, right: &str) -> Fault {
    Fault::new(path, format!("must be {right}"))
}

fn one_of(value: &Value, known: &[&str], path: &str) -> Result<(), Fault> {
    match value.as_str() {
        Some(word) if known.contains(&word) => Ok(()),
        word => {
            let list =
                if known.len() == 1 { name_list(known) } else { format!("one of {}", name_list(known)) };
            let hint = word.map_or_else(String::new, |word| {
                elsewhere(word, path)
                    .or_else(|| also_called(word, known))
                    .unwrap_or_else(|| did_you_mean(word, known.iter().copied()))
            });
            Err(wrong(path, &format!("{list}{hint}")))
        }
    }
}

/// Maps names in other tools and papers to the names that Silvan uses.
const ALSO_CALLED: &[(&str, &str)] = &[
    ("priority-flow-control", "pfc"),
    ("802.1qbb", "pfc"),
    ("xon-xoff", "on-off"),
    ("credit", "credits"),
    ("cbfc", "credits"),
    ("infiniband", "ib-cc"),
    ("ibcc", "ib-cc"),
    ("802.1qau", "qcn"),
    ("ultra-ethernet", "uec"),
    ("uet", "uec"),
    ("1q", "single"),
    ("voqsw", "per-output"),
    ("voqnet", "per-destination"),
    ("dbbm", "destination-modulo"),
    ("obqa", "output-modulo"),
    ("incast", "hotspots"),
    ("random", "uniform"),
    ("ftree", "d-mod-k"),
    ("updn", "up-down"),
    ("dor", "dimension-order"),
    ("minhop", "shortest-path"),
    ("fat-tree", "two-level-fat-tree"),
    ("leaf-spine", "two-level-fat-tree"),
    ("spine-leaf", "two-level-fat-tree"),
    ("clos", "two-level-fat-tree"),
    ("roce", "dcqcn"),
    ("rocev2", "dcqcn"),
    ("ecn", "red"),
    ("wred", "red"),
    ("int", "telemetry"),
];

/// Maps other names of routings to the tables that contain these routings.
const ROUTINGS_ELSEWHERE: &[(&str, &str)] = &[
    ("ecmp", "hashing onto all shortest paths is the table [ecmp]"),
    ("spraying", "the spraying of packets is `ecmp.spraying`"),
    ("adaptive", "adaptive routing is the table [adaptive_routing]"),
];

/// Maps other spellings of units to those of Silvan.
const UNITS_ELSEWHERE: &[(&str, &str)] = &[
    ("Gb/s", "Gbit/s"),
    ("Gbps", "Gbit/s"),
    ("Gbit", "Gbit/s"),
    ("G", "Gbit/s"),
    ("GBps", "GB/s"),
    ("Tb/s", "Tbit/s"),
    ("Tbps", "Tbit/s"),
    ("Mb/s", "Mbit/s"),
    ("Mbps", "Mbit/s"),
    ("MBps", "MB/s"),
    ("K", "KiB"),
    ("\u{b5}s", "us"),
    ("\u{3bc}s", "us"),
    ("usec", "us"),
    ("msec", "ms"),
    ("nsec", "ns"),
    ("sec", "s"),
];

/// A hint for a quantity with another spelling of its unit.
fn other_unit<Q: InCycles>(text: &str, cycle: Option<Time>) -> Option<String> {
    UNITS_ELSEWHERE.iter().find_map(|(other, here)| {
        let meant = format!("{} {here}", text.trim().strip_suffix(other)?.trim_end());
        Q::read(&meant, cycle).ok().map(|_| format!("; did you mean \"{meant}\"?"))
    })
}

/// A hint for a routing algorithm that a different table of scenarios configures.
fn elsewhere(word: &str, path: &str) -> Option<String> {
    let found = ROUTINGS_ELSEWHERE.iter().find(|(other, _)| path == "routing.kind" && *other == word)?;
    Some(format!("; {}", found.1))
}

/// A hint for a word that is a synonym of an allowed one.
fn also_called(word: &str, known: &[&str]) -> Option<String> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    let synonym = ALSO_CALLED.iter().find(|(other, here)| *other == word && known.contains(here));
    let here =
        synonym.map(|(_, here)| *here).or_else(|| known.contains(&word.as_str()).then_some(word.as_str()))?;
    Some(format!("; it is called `{here}` here"))
}

fn quantity<Q: InCycles>(value: &Value, path: &str, right: &str, cycle: Option<Time>) -> Result<Q, Fault> {
    let Value::String(text) = value else { return Err(wrong(path, right)) };
    Q::read(text, cycle).map_err(|error| {
        let message = error.to_string();
        // The fault already names the value, so the message must not repeat it.
        let quoted = format!("`{}` is ", text.chars().take(60).collect::<String>());
        let hint = other_unit::<Q>(text, cycle).unwrap_or_default();
        Fault::new(path, format!("{}{hint}", message.strip_prefix(&quoted).unwrap_or(&message)))
    })
}

fn integer(value: &Value, leaf: Leaf<'_>, path: &str) -> Result<(), Fault> {
    let low = leaf.schema.get("minimum").and_then(Json::as_i64);
    // Mention the limit of the type only if the value exceeds it.
    let format = leaf.schema.get("format").and_then(Json::as_str);
    let beyond = format == Some("uint32") && value.as_integer().is_some_and(|n| n > i64::from(u32::MAX));
    let type_bound = beyond.then_some(i64::from(u32::MAX));
    let high = leaf.schema.get("maximum").and_then(Json::as_i64).or(type_bound);
    let whole = if value.is_integer() { "" } else { "a whole number, " };
    let right = match (low, high) {
        (Some(low), Some(high)) => format!("{whole}{low} to {high}"),
        (Some(low), None) => format!("{whole}{low} or more"),
        _ => "a whole number".to_owned(),
    };
    match value {
        Value::Integer(n) if low.is_none_or(|low| *n >= low) && high.is_none_or(|high| *n <= high) => Ok(()),
        _ => Err(wrong(path, &right)),
    }
}
