//! Traces of applications: checking, conversion, generation.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};
use silvan_trace::check::{self, Contents};
use silvan_trace::collective::Choice;
use silvan_trace::execute::Parameters;
use silvan_trace::generate::{Kernels, Repeated, Transformer};
use silvan_trace::read::{Format, Options, read};
use silvan_trace::trace::{CollectiveUse, MAX_ITEMS, MAX_KEPT};
use silvan_trace::{Trace, write};

use crate::convert::{self, TraceError};

/// Options from Python: how to read a trace, and the costs of communication. Quantities are strings.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    format: Option<String>,
    time_scale: f64,
    compute_scale: f64,
    host_flops: Option<f64>,
    host_bandwidth: Option<String>,
    ranks: Option<u32>,
    bytes: Option<String>,
    algorithms: BTreeMap<String, String>,
    limit: Option<u64>,
    in_memory: u64,
    latency: String,
    overhead: String,
    gap: String,
    bandwidth: Option<String>,
    copy: Option<String>,
    rendezvous_above: Option<String>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            format: None,
            time_scale: 1.0,
            compute_scale: 1.0,
            host_flops: None,
            host_bandwidth: None,
            ranks: None,
            bytes: None,
            algorithms: BTreeMap::new(),
            limit: None,
            in_memory: MAX_KEPT,
            latency: "0 ns".to_owned(),
            overhead: "0 ns".to_owned(),
            gap: "0 ns".to_owned(),
            bandwidth: None,
            copy: None,
            rendezvous_above: None,
        }
    }
}

fn failed(error: impl Display) -> PyErr {
    TraceError::new_err(error.to_string())
}

fn factor(name: &str, number: f64) -> PyResult<f64> {
    if number.is_finite() && (0.0..=1e12).contains(&number) {
        return Ok(number);
    }
    Err(failed(format!("{name} = {number}: must be 0 to 1e12")))
}

impl Request {
    fn parse(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map_err(failed)
    }

    fn algorithms(&self) -> PyResult<Choice> {
        let mut choice = Choice::default();
        for (operation, algorithm) in &self.algorithms {
            choice.set(operation, algorithm).map_err(failed)?;
        }
        Ok(choice)
    }

    fn options(&self) -> PyResult<Options> {
        if let Some(flops) = self.host_flops.filter(|flops| flops.is_nan() || *flops < 1.0) {
            return Err(failed(format!("host_flops = {flops}: must be 1 or more")));
        }
        let host_bandwidth = self.host_bandwidth.as_deref().map(str::parse::<Rate>).transpose();
        let host_bandwidth = host_bandwidth.map_err(|error| failed(format!("host_bandwidth: {error}")))?;
        if host_bandwidth.is_some_and(|rate| rate.0 == 0) {
            return Err(failed("host_bandwidth: must be more than 0"));
        }
        let bytes = self.bytes.as_deref().map(str::parse::<Bytes>).transpose();
        let bytes = bytes.map_err(|error| failed(format!("bytes: {error}")))?;
        Ok(Options {
            format: self.format.as_deref().map(Format::by_name).transpose().map_err(failed)?,
            time_scale: factor("time_scale", self.time_scale)?,
            compute_scale: factor("compute_scale", self.compute_scale)?,
            host_flops: self.host_flops,
            host_bandwidth,
            ranks: self.ranks,
            bytes: bytes.map(|bytes| bytes.0),
            algorithms: self.algorithms()?,
            limit: self.limit,
            in_memory: self.in_memory,
        })
    }

    fn parameters(&self) -> PyResult<Parameters> {
        let time = |text: &str| text.parse::<Time>().map_err(failed);
        let pace = |text: &Option<String>| {
            let rate = text.as_deref().map(str::parse::<Rate>).transpose().map_err(failed)?;
            Ok::<u64, PyErr>(rate.map_or(0, Parameters::gap_of))
        };
        let threshold = self.rendezvous_above.as_deref().map(str::parse::<Bytes>).transpose();
        Ok(Parameters {
            latency: time(&self.latency)?,
            overhead: time(&self.overhead)?,
            gap: time(&self.gap)?,
            gap_per_byte_fs: pace(&self.bandwidth)?,
            overhead_per_byte_fs: pace(&self.copy)?,
            rendezvous_above: threshold.map_err(failed)?.map_or(u64::MAX, |bytes| bytes.0),
        })
    }
}

/// Reads a trace and, unless `stream` is set, runs it without a network. `request` is JSON. Raises
/// `TraceError`.
#[pyfunction]
pub fn trace_check<'py>(
    py: Python<'py>,
    path: PathBuf,
    request: &str,
    stream: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let request = Request::parse(request)?;
    let (options, parameters) = (request.options()?, request.parameters()?);
    let checked = py.detach(|| match stream {
        true => check::read_through(&path, &options),
        false => check::check(&path, &options, &parameters),
    });
    convert::to_python(py, &checked.map_err(failed)?)
}

/// Description of a written file, which is serialized to JSON.
#[derive(Serialize)]
struct Written {
    contents: Contents,
    collectives: Vec<CollectiveUse>,
    notes: Vec<String>,
}

fn written(trace: Trace, out: &Path, binary: bool) -> PyResult<Written> {
    // An error of the file system names `out`, which Python replaces by the name of the final file.
    let unwritable = |error: std::io::Error| match error.raw_os_error() {
        Some(code) => {
            let text = error.to_string();
            let text = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text);
            PyOSError::new_err((code, text.to_owned(), out.as_os_str().to_owned()))
        }
        None => failed(format!("the trace cannot be written: {error}")),
    };
    let mut file = BufWriter::new(File::create(out).map_err(unwritable)?);
    let done = if binary { write::binary(&trace, &mut file) } else { write::text(&trace, &mut file) };
    done.and_then(|()| file.flush()).map_err(unwritable)?;
    let contents = Contents::of(&trace);
    Ok(Written { contents, collectives: trace.collectives, notes: trace.notes })
}

/// Reads a trace and writes it as GOAL, in the binary format if `binary` is set. `request` is JSON. Raises
/// `TraceError`, and `OSError` if the file cannot be written.
#[pyfunction]
pub fn trace_convert<'py>(
    py: Python<'py>,
    path: PathBuf,
    request: &str,
    out: PathBuf,
    binary: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Request::parse(request)?.options()?;
    let done = py.detach(|| {
        let made = read(&path, &options).map_err(failed)?;
        written(made.trace, &out, binary)
    })?;
    convert::to_python(py, &done)
}

fn sized<S: serde::de::DeserializeOwned>(sizes: &str) -> PyResult<S> {
    serde_json::from_str(sizes).map_err(failed)
}

/// Generates a trace from sizes and writes it as GOAL. The kinds are `kernel` (HPC Challenge), `collective`
/// (collective operation) and `transformer` (training step). `sizes` and `request` are JSON. Raises
/// `TraceError`, and `OSError` if the file cannot be written.
#[pyfunction]
pub fn trace_generate<'py>(
    py: Python<'py>,
    kind: &str,
    sizes: &str,
    request: &str,
    out: PathBuf,
    binary: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let request = Request::parse(request)?;
    let algorithms = request.algorithms()?;
    let done = py.detach(|| {
        let limit = request.limit.unwrap_or(MAX_ITEMS);
        let trace = match kind {
            "kernel" => sized::<Kernels>(sizes)?.trace(&algorithms, limit),
            "collective" => sized::<Repeated>(sizes)?.trace(&algorithms, limit),
            _ => sized::<Transformer>(sizes)?.trace(&algorithms, limit),
        };
        written(trace.map_err(failed)?, &out, binary)
    })?;
    convert::to_python(py, &done)
}
