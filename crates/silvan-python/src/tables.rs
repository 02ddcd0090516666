//! Tables of a run for numpy, without copies. `python/silvan/_tables.py` converts them to Arrow tables. This
//! crate does not depend on an Arrow crate, which would take most of the compile time.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use silvan_fabric::outcome::{Table, Values};

/// A read-only numeric column that numpy reads in place: `numpy.asarray(view)` makes no copy and keeps the
/// memory alive.
#[pyclass(module = "silvan._core", frozen)]
pub struct ArrayView {
    numbers: Numbers,
}

enum Numbers {
    U64(Vec<u64>),
    U32(Vec<u32>),
    F64(Vec<f64>),
}

impl ArrayView {
    /// A column of counts.
    pub const fn of(values: Vec<u64>) -> Self {
        Self { numbers: Numbers::U64(values) }
    }
}

#[pymethods]
impl ArrayView {
    /// The array interface of numpy: address and type of the numbers.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, kind) = match &self.numbers {
            Numbers::U64(values) => (values.as_ptr().addr(), "<u8"),
            Numbers::U32(values) => (values.as_ptr().addr(), "<u4"),
            Numbers::F64(values) => (values.as_ptr().addr(), "<f8"),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.__len__(),))?;
        interface.set_item("typestr", kind)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }

    const fn __len__(&self) -> usize {
        match &self.numbers {
            Numbers::U64(values) => values.len(),
            Numbers::U32(values) => values.len(),
            Numbers::F64(values) => values.len(),
        }
    }
}

/// The columns of a table by name. A column of numbers is an [`ArrayView`]; a column of names is a pair of
/// codes and list of names.
pub fn columns(py: Python<'_>, table: Table) -> PyResult<Py<PyDict>> {
    let columns = PyDict::new(py);
    for column in table.columns {
        let view = |numbers| ArrayView { numbers };
        match column.values {
            Values::U64(values) => columns.set_item(column.name, view(Numbers::U64(values)))?,
            Values::U32(values) => columns.set_item(column.name, view(Numbers::U32(values)))?,
            Values::F64(values) => columns.set_item(column.name, view(Numbers::F64(values)))?,
            Values::Name { codes, names } => {
                let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                columns.set_item(column.name, (view(Numbers::U32(codes)), names))?;
            }
        }
    }
    Ok(columns.unbind())
}
