//! Fluid rates of a scenario's flows.

use pyo3::prelude::*;

use crate::convert::{self, ScenarioError};
use crate::scenario::Scenario;

/// Returns the fluid rates of the scenario's flows, and the completion times of flows with a total: without
/// congestion control, with max-min fairness, and with single application assignment. Raises `ScenarioError`.
#[pyfunction]
pub fn fluid<'py>(py: Python<'py>, scenario: &Scenario) -> PyResult<Bound<'py, PyAny>> {
    let report = py.detach(|| scenario.inner().fluid()).map_err(|e| ScenarioError::new_err(e.to_string()))?;
    convert::to_python(py, &report)
}
