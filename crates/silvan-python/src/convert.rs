//! Exceptions, and conversions between Python values and text.

use std::borrow::Cow;

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

create_exception!(silvan, SilvanError, pyo3::exceptions::PyException, "Base class of all errors of Silvan.");
create_exception!(
    silvan,
    ScenarioError,
    SilvanError,
    "A scenario is invalid. The message states the position, the error and what would be valid."
);
create_exception!(silvan, ModelError, SilvanError, "A run could not be set up or could not continue.");
create_exception!(
    silvan,
    FabricError,
    SilvanError,
    "The files of a real fabric are invalid or do not match."
);

create_exception!(
    silvan,
    TraceError,
    SilvanError,
    "A trace is invalid. The message states the position, the error and what would be valid."
);

/// Converts an error of a run.
pub fn model_error(error: silvan_fabric::simulation::ModelError) -> PyErr {
    ModelError::new_err(error.to_string())
}

/// Converts a value that serializes to JSON to Python objects.
pub fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Converts a Python string to text. A string with surrogates is an error.
pub fn text(given: &Bound<'_, PyString>, what: &str) -> PyResult<String> {
    given.to_cow().map(Cow::into_owned).map_err(|error| {
        let reason = error.value(given.py()).to_string();
        ScenarioError::new_err(format!("{what} is not valid Unicode: {reason}"))
    })
}

/// Converts overrides to the form of the command line: dotted keys and strings.
///
/// A Python string is interpreted like the text after `--set key=`: `"1 ms"` is a quantity, `"12"` a
/// number. Other values are written as TOML.
pub fn overrides(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    given
        .iter()
        .map(|(key, value)| {
            let key = key.cast::<PyString>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "the key of an override must be a string with dots, not {key:?}"
                ))
            })?;
            let key = text(key, "the key of an override")?;
            let text = match value.cast::<PyString>() {
                Ok(given) => text(given, &format!("the override of {key}"))?,
                Err(_) => toml_value(&key, &value, 0)?,
            };
            Ok((key, text))
        })
        .collect()
}

/// Maximum nesting of lists and tables. A Python list may contain itself, which would overflow the
/// stack.
const DEEPEST: usize = 64;

/// Formats a Python value as TOML on one line; `depth` is its nesting level.
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
    // `item()` converts numbers of numpy and similar libraries to Python numbers.
    if let Ok(item) = value.call_method0("item") {
        return toml_value(key, &item, depth + 1);
    }
    Err(PyTypeError::new_err(format!(
        "{key} = {value:?}: a {} cannot be written in a scenario; use a string, number, bool, list or dict",
        value.get_type().name()?
    )))
}

/// Formats a TOML basic string.
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
