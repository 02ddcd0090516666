//! Writes the reference of all keys. It is generated from the schema, so it is always complete.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::schema::{cached, resolve};

/// Returns the reference of all keys of a scenario file, in Markdown.
#[must_use]
pub fn reference() -> String {
    let root = cached();
    let mut out = String::new();
    let Some(properties) = root.get("properties").and_then(Value::as_object) else { return out };
    out.push_str("### Top level\n\n");
    let (plain, tables): (Vec<_>, Vec<_>) = properties.iter().partition(|(_, schema)| is_plain(root, schema));
    rows(&mut out, root, &plain, root.get("required"));
    for (key, schema) in tables {
        let list = schema.get("type").and_then(Value::as_str) == Some("array");
        let heading = if list { format!("[[{key}]]") } else { format!("[{key}]") };
        let inner = if list { schema.get("items").unwrap_or(schema) } else { schema };
        section(&mut out, root, &heading, key, schema, inner, 3);
    }
    out
}

/// Resolves a reference.
fn target<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Map<String, Value>> {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.map_or_else(|| schema.as_object(), |r| resolve(root, r).map(|(_, schema)| schema))
}

/// The alternatives of a schema, flattened.
fn choices<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Map<String, Value>> {
    let Some(object) = target(root, schema) else { return Vec::new() };
    match object.get("oneOf").or(object.get("anyOf")).and_then(Value::as_array) {
        Some(list) => list.iter().flat_map(|choice| choices(root, choice)).collect(),
        None => vec![object],
    }
}

/// Whether a value fits into a table cell, because it is neither a table nor a list of tables.
fn is_plain(root: &Value, schema: &Value) -> bool {
    choices(root, schema).iter().all(|choice| {
        let list = choice.get("items").is_some_and(|items| !is_plain(root, items));
        !list && !choice.contains_key("properties")
    })
}

fn section(
    out: &mut String,
    root: &Value,
    heading: &str,
    path: &str,
    outer: &Value,
    inner: &Value,
    level: usize,
) {
    let _ = write!(out, "\n{} `{heading}`\n\n", "#".repeat(level));
    let own = outer.get("description").or(target(root, inner).and_then(|t| t.get("description")));
    if let Some(text) = own.and_then(Value::as_str) {
        let _ = write!(out, "{text}\n\n");
    }
    let variants = choices(root, inner);
    let mut nested = Vec::new();
    for variant in &variants {
        let Some(properties) = variant.get("properties").and_then(Value::as_object) else { continue };
        if let Some(kind) = properties.get("kind").and_then(|k| k.get("const")?.as_str()) {
            let text = variant.get("description").and_then(Value::as_str).unwrap_or_default();
            let _ = write!(out, "**`kind = \"{kind}\"`**: {text}\n\n");
        }
        let keys: Vec<_> = properties.iter().filter(|(key, _)| *key != "kind").collect();
        if !keys.is_empty() {
            rows(out, root, &keys, variant.get("required"));
            out.push('\n');
        }
        nested.extend(keys.into_iter().filter(|(_, schema)| !is_plain(root, schema)));
    }
    for (key, schema) in nested {
        let list = schema.get("items");
        let path = format!("{path}.{key}");
        let heading = if list.is_some() { format!("[[{path}]]") } else { format!("[{path}]") };
        section(out, root, &heading, &path, schema, list.unwrap_or(schema), level + 1);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
}

fn rows(out: &mut String, root: &Value, keys: &[(&String, &Value)], required: Option<&Value>) {
    out.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    let needed =
        |key: &str| required.and_then(Value::as_array).is_some_and(|list| list.iter().any(|k| k == key));
    for (key, schema) in keys {
        let default = match schema.get("default") {
            _ if needed(key) => "needed".to_owned(),
            Some(Value::Object(_)) => "see below".to_owned(),
            Some(value) => format!("`{value}`"),
            None => String::new(),
        };
        let meaning =
            schema.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
        let _ = writeln!(
            out,
            "| `{key}` | {} | {default} | {} |",
            value_type(root, schema),
            meaning.replace('|', "\\|")
        );
    }
}

/// Describes the type of a value in words.
fn value_type(root: &Value, schema: &Value) -> String {
    match schema.get("$ref").and_then(Value::as_str) {
        Some("#/$defs/Time") => return "time".to_owned(),
        Some("#/$defs/Bytes") => return "size".to_owned(),
        Some("#/$defs/Rate") => return "rate".to_owned(),
        _ => {}
    }
    if !is_plain(root, schema) {
        return if schema.get("items").is_some() { "tables" } else { "table" }.to_owned();
    }
    let variants = choices(root, schema);
    let listed: Vec<String> = variants.iter().flat_map(|variant| words(variant)).collect();
    let others = variants.iter().filter(|variant| words(variant).is_empty());
    let mut kinds: Vec<String> = others.map(|variant| simple_type(root, variant)).collect();
    if !listed.is_empty() {
        kinds.push(listed.join(", "));
    }
    kinds.join(" or ")
}

fn words(variant: &Map<String, Value>) -> Vec<String> {
    let one = variant.get("const").into_iter();
    let many = variant.get("enum").and_then(Value::as_array).into_iter().flatten();
    one.chain(many).filter_map(Value::as_str).map(|word| format!("`\"{word}\"`")).collect()
}

fn simple_type(root: &Value, variant: &Map<String, Value>) -> String {
    match variant.get("type").and_then(Value::as_str) {
        Some("integer") => "whole number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("array") => {
            let items =
                variant.get("items").map_or_else(|| "value".to_owned(), |items| value_type(root, items));
            format!("list: {items}")
        }
        Some("string") => "text".to_owned(),
        other => other.unwrap_or("any").to_owned(),
    }
}
