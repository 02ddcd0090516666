//! `silvan._core`: the simulator as a Python extension module.
//!
//! This crate only converts values, releases the GIL while Rust code runs, and converts errors to the
//! exceptions of the Python package.
//!
//! | file | what it binds |
//! | --- | --- |
//! | [`scenario`] | scenario files |
//! | [`run`] | a run that reports its progress and can be interrupted |
//! | [`controlled`] | a run that the caller controls |
//! | [`checkpoint`] | saving a run, and the scenario of a checkpoint |
//! | [`viewer`] | an object that receives samples while the run progresses |
//! | [`tables`] | tables of a run for numpy, without copies |
//! | [`fabric`] | topologies and forwarding tables of real fabrics |
//! | [`fluid`] | fluid rates of a scenario's flows |
//! | [`contention`] | flows on trees, without packets |
//! | [`trace`] | traces of applications |
//! | [`delays`] | the causes of delays |
//! | [`convert`] | conversions of values, and the exceptions |

use pyo3::prelude::*;
use silvan_engine::memory::HugePages;

mod checkpoint;
mod contention;
mod controlled;
mod convert;
mod delays;
mod fabric;
mod fluid;
mod run;
mod scenario;
mod tables;
mod trace;
mod viewer;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// The extension module of the package `silvan`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("SilvanError", py.get_type::<convert::SilvanError>())?;
    module.add("ScenarioError", py.get_type::<convert::ScenarioError>())?;
    module.add("ModelError", py.get_type::<convert::ModelError>())?;
    module.add("FabricError", py.get_type::<convert::FabricError>())?;
    module.add("TraceError", py.get_type::<convert::TraceError>())?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<controlled::Controlled>()?;
    module.add_class::<delays::Recording>()?;
    module.add_class::<delays::Delays>()?;
    module.add_class::<delays::Explanation>()?;
    module.add_class::<fabric::FlowRoutes>()?;
    module.add_class::<tables::ArrayView>()?;
    module.add_function(wrap_pyfunction!(scenario::schema, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::record, module)?)?;
    module.add_function(wrap_pyfunction!(run::tables_of_results, module)?)?;
    module.add_function(wrap_pyfunction!(run::schema_of_summary, module)?)?;
    module.add_function(wrap_pyfunction!(checkpoint::checkpoint_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(fabric::fabric_check, module)?)?;
    module.add_function(wrap_pyfunction!(fabric::fabric_ibdmchk, module)?)?;
    module.add_function(wrap_pyfunction!(fabric::fabric_route, module)?)?;
    module.add_function(wrap_pyfunction!(fabric::fabric_without, module)?)?;
    module.add_function(wrap_pyfunction!(fluid::fluid, module)?)?;
    module.add_function(wrap_pyfunction!(contention::contention, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_check, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_convert, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_generate, module)?)?;
    Ok(())
}
