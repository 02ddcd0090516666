//! Exceptions, and conversions between Python values and text.

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

create_exception!(silvan, SilvanError, pyo3::exceptions::PyException, "What Silvan refuses or cannot do.");
create_exception!(
    silvan,
    ScenarioError,
    SilvanError,
    "A scenario is wrong: says where, what, and what is right."
);
create_exception!(silvan, ModelError, SilvanError, "A run could not be built or go on, with its context.");
create_exception!(
    silvan,
    FabricError,
    SilvanError,
    "The files of a real fabric are wrong or do not fit together."
);

create_exception!(silvan, TraceError, SilvanError, "A trace is wrong: says where, what, and what is right.");

/// Python objects of a value that serialises to JSON.
pub fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Overrides as the command line gives them: dotted keys and texts.
///
/// A Python text is read like the text after `--set key=`: `"1 ms"` is a quantity, `"12"` a
/// number. Everything else is written as the TOML value it is.
pub fn overrides(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    given
        .iter()
        .map(|(key, value)| {
            let key: String = key.extract().map_err(|_| {
                PyTypeError::new_err(format!("an override's key must be a dotted text, not {key:?}"))
            })?;
            let text = match value.cast::<PyString>() {
                Ok(text) => text.to_cow()?.into_owned(),
                Err(_) => toml_value(&key, &value, 0)?,
            };
            Ok((key, text))
        })
        .collect()
}

/// Lists and tables go no deeper than this; a list may hold itself, and the stack has an end.
const DEEPEST: usize = 64;

/// A Python value as TOML, on one line; `depth` counts what it is inside of.
fn toml_value(key: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if depth > DEEPEST {
        let message = format!("--set {key}: lists and tables nested more than {DEEPEST} deep");
        return Err(ScenarioError::new_err(message));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.is_truthy()? { "true" } else { "false" }.to_owned());
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.str()?.to_cow()?.into_owned());
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return Ok(format!("{:?}", float.value()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(toml_text(&text.to_cow()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items: Vec<String> =
            value.try_iter()?.map(|item| toml_value(key, &item?, depth + 1)).collect::<PyResult<_>>()?;
        return Ok(format!("[{}]", items.join(", ")));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let items: Vec<String> = table
            .iter()
            .map(|(name, item)| {
                Ok(format!("{} = {}", toml_text(&name.str()?.to_cow()?), toml_value(key, &item, depth + 1)?))
            })
            .collect::<PyResult<_>>()?;
        return Ok(format!("{{ {} }}", items.join(", ")));
    }
    // Numbers of numpy and the like offer `__index__` or `__float__`.
    if let Ok(item) = value.call_method0("item") {
        return toml_value(key, &item, depth + 1);
    }
    Err(PyTypeError::new_err(format!(
        "{key} = {value:?}: a {} cannot be written in a scenario; use a text, number, truth value, list or dict",
        value.get_type().name()?
    )))
}

/// A TOML basic string.
fn toml_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
