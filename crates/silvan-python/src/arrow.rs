//! Tables of a run to Arrow and numpy, without copies.

use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3_arrow::PyTable;
use silvan_fabric::outcome::{Table, Values};

/// A numeric column that numpy reads in place: `numpy.asarray(view)` makes no copy and keeps
/// the memory alive. Read-only.
#[pyclass(module = "silvan._core", frozen)]
pub struct ArrayView {
    array: ArrayRef,
    /// Address of the first value.
    address: usize,
    kind: &'static str,
}

#[pymethods]
impl ArrayView {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.array.len(),))?;
        interface.set_item("typestr", self.kind)?;
        interface.set_item("data", (self.address, true))?;
        Ok(interface)
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }
}

impl ArrayView {
    fn new(name: &str, array: &ArrayRef) -> PyResult<Self> {
        if array.null_count() > 0 {
            return Err(PyTypeError::new_err(format!("column `{name}` has missing values")));
        }
        let any = array.as_any();
        let (address, kind) = if let Some(values) = any.downcast_ref::<UInt64Array>() {
            (values.values().as_ptr().addr(), "<u8")
        } else if let Some(values) = any.downcast_ref::<UInt32Array>() {
            (values.values().as_ptr().addr(), "<u4")
        } else if let Some(values) = any.downcast_ref::<Float64Array>() {
            (values.values().as_ptr().addr(), "<f8")
        } else {
            return Err(PyTypeError::new_err(format!(
                "column `{name}` is {}, not a number",
                array.data_type()
            )));
        };
        Ok(Self { array: Arc::clone(array), address, kind })
    }
}

fn failed(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A table as `arro3.core.Table`, of one batch over the very memory of the run.
pub fn table(py: Python<'_>, table: Table) -> PyResult<Py<PyAny>> {
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for column in table.columns {
        let array: ArrayRef = match column.values {
            Values::U64(values) => Arc::new(UInt64Array::from(values)),
            Values::U32(values) => Arc::new(UInt32Array::from(values)),
            Values::F64(values) => Arc::new(Float64Array::from(values)),
            Values::Name { codes, names } => {
                let names = Arc::new(StringArray::from_iter_values(names.iter()));
                let codes = UInt32Array::from(codes);
                Arc::new(DictionaryArray::<UInt32Type>::try_new(codes, names).map_err(|e| failed(&e))?)
            }
        };
        fields.push(Field::new(column.name, array.data_type().clone(), false));
        columns.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|e| failed(&e))?;
    Ok(PyTable::try_new(vec![batch], schema)?.into_arro3(py)?.unbind())
}

/// The columns of any Arrow table for numpy: an [`ArrayView`] each, or for a column of names a
/// pair of codes and list of names. Tables in one batch are not copied.
#[pyfunction]
pub fn columns<'py>(py: Python<'py>, table: PyTable) -> PyResult<Bound<'py, PyDict>> {
    let (batches, schema) = table.into_inner();
    let batch = match batches.as_slice() {
        [only] => only.clone(),
        several => concat_batches(&schema, several).map_err(|e| failed(&e))?,
    };
    let result = PyDict::new(py);
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let name = field.name();
        if !matches!(array.data_type(), DataType::Dictionary(..)) {
            result.set_item(name, ArrayView::new(name, array)?)?;
            continue;
        }
        let Some(coded) = array.as_any().downcast_ref::<DictionaryArray<UInt32Type>>() else {
            return Err(PyTypeError::new_err(format!("column `{name}` is {}", array.data_type())));
        };
        let Some(names) = coded.values().as_any().downcast_ref::<StringArray>() else {
            return Err(PyTypeError::new_err(format!("column `{name}` is {}", array.data_type())));
        };
        let codes: ArrayRef = Arc::new(coded.keys().clone());
        let names = PyList::new(py, names.iter().map(Option::unwrap_or_default))?;
        result.set_item(name, (ArrayView::new(name, &codes)?, names))?;
    }
    Ok(result)
}
