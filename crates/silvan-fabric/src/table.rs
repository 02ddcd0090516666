//! Tables of results: what their columns contain, and how they are filled.

use std::sync::Arc;

use serde::Serialize;

/// A named table of equally long columns, ready to become an Arrow record batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the table: `hosts`, `flows`, `links`, `latency`, ...
    pub name: &'static str,
    /// Columns in order.
    pub columns: Vec<Column>,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name, which ends with the unit if the values have one.
    pub name: &'static str,
    /// The values.
    pub values: Values,
}

/// The values of a column. Two columns are equal if their bits are equal: a missing value (NaN) equals
/// itself.
#[derive(Debug, Clone)]
pub enum Values {
    /// Counts, bytes, nanoseconds.
    U64(Vec<u64>),
    /// Small counts.
    U32(Vec<u32>),
    /// Ratios and rates.
    F64(Vec<f64>),
    /// Names, dictionary-encoded: `codes` index into `names`.
    Name {
        /// For each row, an index into `names`.
        codes: Vec<u32>,
        /// Each name once.
        names: Arc<Vec<String>>,
    },
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::U64(own), Self::U64(other)) => own == other,
            (Self::U32(own), Self::U32(other)) => own == other,
            (Self::F64(own), Self::F64(other)) => {
                own.iter().map(|value| value.to_bits()).eq(other.iter().map(|value| value.to_bits()))
            }
            (Self::Name { codes, names }, Self::Name { codes: other_codes, names: other_names }) => {
                codes == other_codes && names == other_names
            }
            _ => false,
        }
    }
}

/// The names to which codes refer in most tables.
#[derive(Debug)]
pub(crate) struct ResultNames {
    /// Channels, named by their sending ports.
    pub links: Arc<Vec<String>>,
    /// Hosts, including reduction units.
    pub hosts: Arc<Vec<String>>,
    pub switches: Arc<Vec<String>>,
    /// Classes of traffic.
    pub classes: Arc<Vec<String>>,
    /// Named flows.
    pub flows: Arc<Vec<String>>,
}

/// Returns the names of a column of a table that is filled from `T`.
type NamesOf<T> = fn(&T, &ResultNames) -> Arc<Vec<String>>;

/// Defines functions that return some of the names.
macro_rules! lists {
    ($($list:ident)*) => {
        $(pub(crate) fn $list<T>(_: &T, names: &ResultNames) -> Arc<Vec<String>> {
            Arc::clone(&names.$list)
        })*
    };
}

lists!(links hosts switches classes flows);

/// Names that do not depend on the run.
pub(crate) fn fixed(names: &[&str]) -> Arc<Vec<String>> {
    Arc::new(names.iter().map(ToString::to_string).collect())
}

/// A table of results that is filled from `T`: from [`RowsOf`], or from columns that an observer has stored.
/// Unless the meaning of a column states otherwise, bytes are payload, and counts are those of the interval.
pub(crate) struct Layout<T: 'static> {
    pub name: &'static str,
    /// Which rows the table has.
    pub rows: &'static str,
    pub columns: &'static [ColumnOf<T>],
}

/// A column of a [`Layout`].
pub(crate) struct ColumnOf<T> {
    name: &'static str,
    meaning: &'static str,
    cells: Cells<T>,
}

/// How a column is filled.
enum Cells<T> {
    U64(fn(&mut T) -> Vec<u64>),
    U32(fn(&mut T) -> Vec<u32>),
    F64(fn(&mut T) -> Vec<f64>),
    Names(NamesOf<T>, fn(&mut T) -> Vec<u32>),
}

/// Defines functions that return columns of numbers.
macro_rules! columns {
    ($($(#[$doc:meta])* $column:ident: $number:ty => $cells:ident;)*) => {
        $($(#[$doc])*
        pub(crate) const fn $column<T>(
            name: &'static str,
            meaning: &'static str,
            cells: fn(&mut T) -> Vec<$number>,
        ) -> ColumnOf<T> {
            ColumnOf { name, meaning, cells: Cells::$cells(cells) }
        })*
    };
}

columns! {
    /// A column of counts, bytes or nanoseconds.
    counts: u64 => U64;
    /// A column of small counts.
    small: u32 => U32;
    /// A column of numbers that may have fractions, or be missing (NaN).
    numbers: f64 => F64;
}

/// A column of names, with the list of the names and the index of each row.
pub(crate) const fn names<T>(
    name: &'static str,
    meaning: &'static str,
    list: NamesOf<T>,
    codes: fn(&mut T) -> Vec<u32>,
) -> ColumnOf<T> {
    ColumnOf { name, meaning, cells: Cells::Names(list, codes) }
}

impl<T> Layout<T> {
    /// The table. Columns may be taken out of `from`.
    pub fn fill(&self, mut from: T, names: &ResultNames) -> Table {
        let columns = self.columns.iter().map(|column| {
            let values = match column.cells {
                Cells::U64(cells) => Values::U64(cells(&mut from)),
                Cells::U32(cells) => Values::U32(cells(&mut from)),
                Cells::F64(cells) => Values::F64(cells(&mut from)),
                Cells::Names(list, codes) => {
                    Values::Name { codes: codes(&mut from), names: list(&from, names) }
                }
            };
            Column { name: column.name, values }
        });
        Table { name: self.name, columns: columns.collect() }
    }
}

/// Rows from which a table is filled, column by column.
pub(crate) struct RowsOf<R>(pub Vec<R>);

impl<R> RowsOf<R> {
    /// The values of a column.
    pub fn of<V>(&self, value: impl Fn(&R) -> V) -> Vec<V> {
        self.0.iter().map(value).collect()
    }
}

impl<R> FromIterator<R> for RowsOf<R> {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// The description of a table.
#[derive(Debug, Clone, Serialize)]
pub struct TableDescription {
    /// Name of the table.
    pub name: &'static str,
    /// Which rows the table has.
    pub rows: &'static str,
    /// The columns of the table in order.
    pub columns: Vec<ColumnDescription>,
}

/// The description of a column.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnDescription {
    /// The name, which ends with the unit if the values have one.
    pub name: &'static str,
    /// `names`, `whole numbers` or `numbers`.
    pub kind: &'static str,
    /// The content of the column.
    pub meaning: &'static str,
}

/// A [`Layout`] that is filled from any type.
pub(crate) trait Described {
    fn describe(&self) -> TableDescription;
}

impl<T> Described for Layout<T> {
    fn describe(&self) -> TableDescription {
        let columns = self.columns.iter().map(|column| ColumnDescription {
            name: column.name,
            kind: match column.cells {
                Cells::U64(_) | Cells::U32(_) => "whole numbers",
                Cells::F64(_) => "numbers",
                Cells::Names(..) => "names",
            },
            meaning: column.meaning,
        });
        TableDescription { name: self.name, rows: self.rows, columns: columns.collect() }
    }
}
