//! Scenario files.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use silvan_scenario::checkpoint::Written;

use crate::convert::{self, ScenarioError};
use crate::fabric::FlowRoutes;

/// A validated scenario: a complete, immutable description of a simulation.
///
/// There is no constructor. `Scenario.load("testbed.toml")` reads a file, `Scenario.from_toml(text)` reads
/// text, and `silvan.scenarios.load("testbed")` loads a scenario that comes with Silvan.
///
/// Overrides map dotted keys to values: `{"congestion.mechanism": "ib-cc", "seed": 7}`. Strings are parsed
/// like values after `--set` on the command line, so `"1 ms"` is a quantity. The scenario keeps the text
/// from which it was read, so further overrides apply to what the user wrote, not to default values.
#[pyclass(module = "silvan", frozen)]
pub struct Scenario {
    inner: silvan_scenario::Scenario,
    text: String,
    origin: String,
    base_dir: PathBuf,
    overrides: Vec<(String, String)>,
}

impl Scenario {
    fn new(
        py: Python<'_>,
        text: String,
        origin: String,
        base_dir: PathBuf,
        overrides: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let inner = py
            .detach(|| silvan_scenario::Scenario::from_toml(&text, &origin, &base_dir, &overrides))
            .map_err(|e| ScenarioError::new_err(e.to_string()))?;
        Ok(Self { inner, text, origin, base_dir, overrides })
    }

    /// The scenario of a checkpoint, as it was read for the run.
    pub fn of_checkpoint(py: Python<'_>, written: &Written) -> PyResult<Self> {
        let Written { text, origin, base_dir, overrides } = written.clone();
        Self::new(py, text, origin, base_dir.into(), overrides)
    }

    /// The scenario as the user wrote it, with an absolute folder, for checkpoints.
    pub fn written(&self) -> PyResult<Written> {
        let wrong = |what: String| ScenarioError::new_err(format!("{}: {what}", self.base_dir.display()));
        let folder = if self.base_dir.as_os_str().is_empty() { Path::new(".") } else { &self.base_dir };
        let folder = std::path::absolute(folder).map_err(|error| wrong(error.to_string()))?;
        let base_dir = folder.into_os_string().into_string();
        let base_dir = base_dir.map_err(|_| {
            wrong("a checkpoint cannot contain this name, which is not UTF-8 text".to_owned())
        })?;
        let (text, origin) = (self.text.clone(), self.origin.clone());
        Ok(Written { text, origin, base_dir, overrides: self.overrides.clone() })
    }

    /// The scenario as a Rust value.
    pub const fn inner(&self) -> &silvan_scenario::Scenario {
        &self.inner
    }
}

#[pymethods]
impl Scenario {
    /// Reads a scenario file, or the scenario with this name that comes with Silvan.
    #[staticmethod]
    #[pyo3(signature = (path, overrides=None))]
    fn load(py: Python<'_>, path: PathBuf, overrides: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let overrides = convert::overrides(overrides)?;
        // A file takes precedence over a scenario with the same name. If neither exists, the error
        // lists similar names.
        let path: PathBuf = py.import("silvan.scenarios")?.call_method1("locate", (path,))?.extract()?;
        // The scenario crate reads the file first, so that it reports all errors. The text is read again to
        // be stored.
        let inner = py
            .detach(|| silvan_scenario::Scenario::load(&path, &overrides))
            .map_err(|e| ScenarioError::new_err(e.to_string()))?;
        let text = std::fs::read_to_string(&path)
            .map_err(|e| ScenarioError::new_err(format!("{}: {e}", path.display())))?;
        let base_dir = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Ok(Self { inner, text, origin: path.display().to_string(), base_dir, overrides })
    }

    /// Same as `load`, for a program that sends messages. If nothing in the scenario sends, the program does.
    #[staticmethod]
    #[pyo3(signature = (path, overrides=None))]
    fn load_controlled(
        py: Python<'_>,
        path: PathBuf,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let overrides = convert::overrides(overrides)?;
        let path: PathBuf = py.import("silvan.scenarios")?.call_method1("locate", (path,))?.extract()?;
        let inner = py
            .detach(|| silvan_scenario::Scenario::load_controlled(&path, &overrides))
            .map_err(|e| ScenarioError::new_err(e.to_string()))?;
        // The resolved scenario states that a program sends, so that it can be read again.
        let text = inner.to_toml().map_err(|e| ScenarioError::new_err(e.to_string()))?;
        let base_dir = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Ok(Self { inner, text, origin: path.display().to_string(), base_dir, overrides })
    }

    /// Reads a scenario from a string. Relative file names in it start from `base_dir`. Error messages refer
    /// to the text as `origin`.
    #[staticmethod]
    #[pyo3(signature = (text, origin="<text>", base_dir=None, overrides=None))]
    fn from_toml(
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        origin: &str,
        base_dir: Option<PathBuf>,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let overrides = convert::overrides(overrides)?;
        let text = convert::text(text, "the text")?;
        Self::new(py, text, origin.to_owned(), base_dir.unwrap_or_else(|| ".".into()), overrides)
    }

    /// Returns the scenario with more overrides, by dotted key. Later overrides take precedence over earlier
    /// ones.
    fn with_overrides(&self, py: Python<'_>, overrides: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut all = self.overrides.clone();
        all.extend(convert::overrides(Some(overrides))?);
        Self::new(py, self.text.clone(), self.origin.clone(), self.base_dir.clone(), all)
    }

    /// Returns the resolved scenario as TOML, with all defaults written out. With `standalone`, file names
    /// are absolute, so that the scenario can be read from any folder.
    #[pyo3(signature = (*, standalone=false))]
    fn to_toml(&self, standalone: bool) -> PyResult<String> {
        let text = if standalone {
            self.inner.standalone().and_then(|scenario| scenario.to_toml())
        } else {
            self.inner.to_toml()
        };
        text.map_err(|e| ScenarioError::new_err(e.to_string()))
    }

    /// Returns facts that do not need a run: sizes, routing, deadlock check and estimated cost.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| self.inner.check()).map_err(|e| ScenarioError::new_err(e.to_string()))?;
        convert::to_python(py, &report)
    }

    /// Returns the routes of flows. Raises `FabricError` if they depend on the load, on random numbers or on
    /// LIDs.
    fn routes(&self, py: Python<'_>) -> PyResult<FlowRoutes> {
        py.detach(|| FlowRoutes::of(&self.inner))
    }

    /// Returns the scenario's congestion control settings as options of OpenSM's configuration file.
    fn opensm_options(&self) -> PyResult<String> {
        silvan_scenario::opensm::options(&self.inner).map_err(|e| ScenarioError::new_err(e.to_string()))
    }

    /// The scenario's name, or the name of its file without extension.
    #[getter]
    fn name(&self) -> String {
        match &self.inner.spec.name {
            Some(name) => name.clone(),
            None => Path::new(&self.origin)
                .file_stem()
                .map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned()),
        }
    }

    /// The text from which the scenario was read, without the overrides.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The name of the scenario's source in error messages, usually the file name.
    #[getter]
    fn origin(&self) -> &str {
        &self.origin
    }

    /// Folder from which relative file names in the scenario start.
    #[getter]
    fn base_dir(&self) -> PathBuf {
        self.base_dir.clone()
    }

    /// The overrides as strings, in the order in which they were given.
    #[getter]
    fn overrides(&self) -> Vec<(String, String)> {
        self.overrides.clone()
    }

    /// The seed from which all random numbers derive.
    #[getter]
    const fn seed(&self) -> u64 {
        self.inner.spec.seed
    }

    /// Simulated time at which the run ends, in nanoseconds.
    #[getter]
    const fn duration_ns(&self) -> u64 {
        self.inner.spec.duration.0 / 1_000
    }

    fn __repr__(&self) -> String {
        format!("Scenario({:?} from {:?})", self.name(), self.origin)
    }
}

/// Returns the JSON Schema of scenario files, as text.
#[pyfunction]
pub fn schema() -> PyResult<String> {
    serde_json::to_string_pretty(&silvan_scenario::schema()).map_err(|e| PyValueError::new_err(e.to_string()))
}
