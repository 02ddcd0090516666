//! The JSON Schema of a scenario file. The checks on load use the same schema (see `shape`). Ranges of values
//! are declared only at the fields of the types. `validate` checks conditions that depend on other keys, and
//! limits whose error message gives advice (for example, to omit a key instead of setting it to zero).

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::spec::Spec;

/// The JSON Schema (draft 2020-12) of a whole scenario file.
#[must_use]
pub fn schema() -> Value {
    cached().clone()
}

pub(crate) fn cached() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut root = schemars::schema_for!(Spec).to_value();
        polish(&mut root);
        merge_routing(&mut root);
        for part in ["Marking", "Isolation", "Reaction", "Routing"] {
            make_kind_optional(&mut root, part);
        }
        allow_ranges(&mut root);
        // These keys are optional in files, because loading fills them in.
        if let Some(Value::Array(required)) = root.get_mut("required") {
            required.retain(|key| key != "routing");
        }
        if let Some(object) = root.as_object_mut() {
            object.insert("title".into(), "Silvan scenario".into());
        }
        root
    })
}

/// Allows a single string with a range instead of a list of hosts; see `ranges`.
fn allow_ranges(root: &mut Value) {
    for (definition, key) in [
        ("Traffic", "hosts"),
        ("JobSpec", "hosts"),
        ("Pattern", "to"),
        ("HostSetting", "at"),
        ("Event", "links"),
        ("Event", "switches"),
        ("Event", "hosts"),
    ] {
        let Some(found) = root.pointer_mut(&format!("/$defs/{definition}")) else { continue };
        let variants = match found.get_mut("oneOf") {
            Some(Value::Array(variants)) => variants.iter_mut().collect(),
            _ => vec![found],
        };
        for variant in variants {
            let Some(Value::Object(list)) = variant.pointer_mut(&format!("/properties/{key}")) else {
                continue;
            };
            if let (Some(kind), Some(items)) = (list.remove("type"), list.remove("items")) {
                let array = json!({ "type": kind, "items": items });
                list.insert("anyOf".into(), json!([array, { "type": "string" }]));
            }
        }
    }
}

/// The definition to which `#/$defs/...` refers.
pub(crate) fn resolve<'s>(root: &'s Value, reference: &str) -> Option<(&'s str, &'s Map<String, Value>)> {
    let name = reference.strip_prefix("#/$defs/")?;
    let (name, schema) = root.get("$defs")?.as_object()?.get_key_value(name)?;
    Some((name, schema.as_object()?))
}

/// Adapts the generated schema to TOML: no null, no unknown keys in tables, descriptions without Rust
/// syntax.
fn polish(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(polish),
        Value::Object(object) => {
            without_null(object);
            if object.get("properties").is_some_and(Value::is_object)
                && !object.contains_key("unevaluatedProperties")
            {
                object.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = plain(text);
            }
            object.values_mut().for_each(polish);
        }
        _ => {}
    }
}

fn without_null(object: &mut Map<String, Value>) {
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Object(default)) = object.get_mut("default") {
        default.retain(|_, value| !value.is_null());
    }
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = object.get_mut(key) else { continue };
        choices.retain(|choice| choice.get("type").and_then(Value::as_str) != Some("null"));
        if let [Value::Object(only)] = choices.as_mut_slice()
            && only.contains_key("$ref")
        {
            let only = std::mem::take(only);
            object.remove(key);
            object.extend(only);
        }
    }
}

/// A doc comment as plain text: links to Rust items become inline code.
fn plain(text: &str) -> String {
    let joined = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n").replace("[`", "`").replace("`]", "`")
}

/// Adds `allow_deadlock` to the keys of every kind of routing.
fn merge_routing(root: &mut Value) {
    let mut variants = Vec::new();
    for name in ["TableRouting", "RoutingSpec"] {
        let found =
            root.pointer(&format!("/$defs/{name}/oneOf")).or(root.pointer(&format!("/$defs/{name}/anyOf")));
        if let Some(Value::Array(list)) = found {
            variants.extend(list.iter().cloned());
        }
    }
    for properties in variants.iter_mut().filter_map(|v| v.get_mut("properties")?.as_object_mut()) {
        properties.insert(
            "allow_deadlock".into(),
            json!({
                "type": "boolean",
                "default": false,
                "description": "Run even if packets can wait for each other in a cycle; the run-time \
                                watchdog then reports the cycle if they do.",
            }),
        );
    }
    let Some(definitions) = root.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    for name in ["TableRouting", "RoutingSpec"] {
        definitions.remove(name);
    }
    if let Some(Value::Object(routing)) = definitions.get_mut("Routing") {
        routing.remove("anyOf");
        routing.insert("oneOf".into(), Value::Array(variants));
    }
}

/// Makes `kind` optional: a component without `kind` gets the kind of the mechanism, and a routing without
/// it gets the default of the topology.
fn make_kind_optional(root: &mut Value, part: &str) {
    let Some(Value::Object(schema)) = root.pointer_mut(&format!("/$defs/{part}")) else { return };
    let Some(Value::Array(mut variants)) = schema.remove("oneOf") else { return };
    for variant in &mut variants {
        if let Some(Value::Array(required)) = variant.get_mut("required") {
            required.retain(|key| key != "kind");
        }
    }
    schema.insert("anyOf".into(), Value::Array(variants));
}
