//! Saves the state of a run, and restores it.
//!
//! A run is restored in two steps: it is built again from its scenario, and then its state is overwritten in place. What was
//! built once and does not change is therefore not saved: parts that are shared ([`Arc`]), and fields with the attribute
//! `#[saved(constant)]` of the derive macro [`Saved`](macro@Saved).
//!
//! Numbers are little-endian and have the width of their type. A list starts with its length, and an option or an enum with
//! one byte. The encoding contains no names, so that only the same version can read it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::io::{self, Read, Write};
use std::num::NonZeroU16;
use std::sync::Arc;

use hdrhistogram::Histogram;
pub use silvan_derive::Saved;
use smallvec::{Array, SmallVec};

pub use crate::notes::Change;
use crate::notes::Notes;

/// State that can be saved and restored. Implement it with the derive macro of the same name.
pub trait Saved {
    /// A hash of the names and types of everything that is saved. Versions that differ in it cannot read each other's data.
    const LAYOUT: u64;

    /// Appends the state.
    fn save(&self, to: &mut Writer<'_>);

    /// Replaces the state with a saved one. After an error, the value must not be used.
    ///
    /// # Errors
    /// [`Damaged`] if the data is not what [`Self::save`] wrote, or belongs to a value that was built differently.
    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged>;

    /// Creates a value from its saved state.
    ///
    /// # Errors
    /// Same as those of [`Self::restore`]. Always fails for types with constant or scratch fields, which can only be
    /// restored in place.
    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged>
    where
        Self: Sized,
    {
        let _ = from;
        Err(Damaged::in_place::<Self>())
    }
}

/// Why a state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// The data ends early, or cannot be read or decompressed.
    #[error("the data cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The data contains a value that its type does not have.
    #[error("invalid value of the type `{0}`")]
    Value(&'static str),
    /// A value with constant parts is not in the run that was built.
    #[error("a value of the type `{0}` does not exist in the network")]
    InPlace(&'static str),
    /// A text is longer than texts at this place can be.
    #[error("a text of {found} bytes is longer than {most}, the maximum")]
    Long {
        /// The stated length in bytes.
        found: u64,
        /// The largest length.
        most: u64,
    },
    /// The values take more memory than data of this size can describe; see [`Reader::limit`].
    #[error("its values take more memory than a file of this size describes")]
    Large,
    /// The values contradict each other.
    #[error("{0}")]
    Wrong(String),
    /// A list whose length is determined by the network has another length.
    #[error("a list of {found} values of the type `{what}` has {expected} in the network")]
    Length {
        /// The type of the values.
        what: &'static str,
        /// The length in the data.
        found: usize,
        /// The length in the network.
        expected: usize,
    },
}

impl Damaged {
    /// The error for data that is not a value of a type.
    #[must_use]
    pub fn value<T>() -> Self {
        Self::Value(std::any::type_name::<T>())
    }

    /// The error for a type that can only be restored in place.
    #[must_use]
    pub fn in_place<T>() -> Self {
        Self::InPlace(std::any::type_name::<T>())
    }
}

/// The layout of a type with this name that contains types with these layouts.
#[must_use]
pub const fn layout(name: &str, parts: &[u64]) -> u64 {
    // FNV-1a.
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < name.len() {
        hash = (hash ^ name.as_bytes()[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    at = 0;
    while at < parts.len() {
        hash = (hash ^ parts[at]).wrapping_mul(PRIME).rotate_left(29);
        at += 1;
    }
    hash
}

/// Number of bytes that are written or read at a time.
const BLOCK: usize = 1 << 16;

/// Writes a saved state.
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    block: Vec<u8>,
    result: io::Result<()>,
    memory: u64,
    /// What is noted about the values of a relative state.
    notes: Option<&'a mut Notes>,
}

impl<'a> Writer<'a> {
    /// Creates a writer. Call [`Self::finish`] at the end.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, block: Vec::with_capacity(2 * BLOCK), result: Ok(()), memory: 0, notes: None }
    }

    /// Creates a writer that also notes how each value changes with time; see [`crate::repeats`].
    pub(crate) fn relative(out: &'a mut dyn Write, notes: &'a mut Notes) -> Self {
        Self { notes: Some(notes), ..Self::new(out) }
    }

    /// Whether a relative state is written.
    #[inline]
    #[must_use]
    pub fn is_relative(&self) -> bool {
        self.notes.is_some()
    }

    /// Names the values that follow, for explanations.
    #[inline]
    pub fn label(&mut self, label: &'static str) {
        if let Some(notes) = &mut self.notes {
            notes.label = label;
        }
    }

    /// States how the values that follow change. Returns what holds for those around them, for [`Self::end`].
    #[inline]
    pub fn begin(&mut self, change: Change) -> Change {
        match &mut self.notes {
            Some(notes) if notes.change == Change::State => std::mem::replace(&mut notes.change, change),
            Some(notes) => notes.change,
            None => Change::State,
        }
    }

    /// States that the values that follow are the key of a map, which does not change. Returns what holds for its value, for
    /// [`Self::end`].
    #[inline]
    fn begin_key(&mut self) -> Change {
        let change = self.notes.as_mut().map(|notes| std::mem::replace(&mut notes.change, Change::State));
        change.unwrap_or(Change::State)
    }

    /// Begins another group of numbers of which only the order matters.
    pub fn begin_order(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.orders += 1;
        }
    }

    /// Appends bytes without a meaning.
    #[inline]
    pub fn put_any(&mut self, bytes: &[u8]) {
        if let Some(notes) = &mut self.notes {
            notes.add(bytes.len(), Change::Any);
        }
        self.append(bytes);
    }

    /// Ends what [`Self::begin`] began.
    #[inline]
    pub fn end(&mut self, outer: Change) {
        if let Some(notes) = &mut self.notes {
            notes.change = outer;
        }
    }

    /// The memory in bytes of the values of all lists so far. Restoring them takes at most about twice as much.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Appends the bytes of a number that may be a count.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if let Some(notes) = &mut self.notes {
            notes.number(bytes.len());
        }
        self.append(bytes);
    }

    /// Appends bytes that are equal in states that are equal.
    #[inline]
    pub fn put_state(&mut self, bytes: &[u8]) {
        if let Some(notes) = &mut self.notes {
            notes.add(bytes.len(), Change::State);
        }
        self.append(bytes);
    }

    /// Appends a time.
    #[inline]
    pub fn put_time(&mut self, time: u64) {
        if let Some(notes) = &mut self.notes {
            notes.time();
        }
        self.append(&time.to_le_bytes());
    }

    /// Appends a number of eight bytes that may be a count.
    #[inline]
    pub fn put_number(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number that grows by the same amount in each repetition as all other numbers of its series. A series has a
    /// number from [`Self::series`].
    #[inline]
    pub fn put_serial(&mut self, value: u64, series: u32) {
        if let Some(notes) = &mut self.notes {
            notes.add(8, Change::Serial(series));
        }
        self.append(&value.to_le_bytes());
    }

    /// Same as [`Self::put_serial`], for a number of four bytes.
    #[inline]
    pub fn put_short_serial(&mut self, value: u32, series: u32) {
        if let Some(notes) = &mut self.notes {
            notes.add(4, Change::Serial(series));
        }
        self.append(&value.to_le_bytes());
    }

    /// States the series of the numbers of the operations of each rank, of which this is the first. They hold for all values that
    /// follow.
    pub fn number_operations(&mut self, first: u32) {
        if let Some(notes) = &mut self.notes {
            notes.operations = first;
        }
    }

    /// Appends the number of an operation of a rank.
    pub fn put_operation(&mut self, index: u32, rank: u32) {
        let first = self.notes.as_ref().map_or(0, |notes| notes.operations);
        self.put_short_serial(index, first.saturating_add(rank));
    }

    /// States the series of the numbers of rows, for all values that follow.
    pub fn number_rows(&mut self, series: u32) {
        if let Some(notes) = &mut self.notes {
            notes.rows = series;
        }
    }

    /// Appends the number of a row.
    pub fn put_row(&mut self, row: u32) {
        let series = self.notes.as_ref().map_or(0, |notes| notes.rows);
        self.put_short_serial(row, series);
    }

    /// Begins a number of series. Returns the first.
    pub fn series(&mut self, count: u32) -> u32 {
        let Some(notes) = &mut self.notes else { return 0 };
        notes.series += count;
        notes.series - count
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.flush();
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        if self.result.is_ok() {
            self.result = self.out.write_all(&self.block);
        }
        self.block.clear();
    }

    /// Writes what remains.
    ///
    /// # Errors
    /// The first error of writing, which may have occurred earlier.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.result
    }
}

/// Reads a saved state.
pub struct Reader<'a> {
    from: Box<dyn Read + 'a>,
    block: Vec<u8>,
    /// Index of the next byte in `block`.
    at: usize,
    /// Number of bytes before `block`.
    passed: u64,
    /// The memory in bytes that lists may still take.
    left: u64,
    is_relative: bool,
}

impl<'a> Reader<'a> {
    /// Creates a reader. It may read more than the state.
    pub fn new(from: impl Read + 'a) -> Self {
        Self { from: Box::new(from), block: Vec::new(), at: 0, passed: 0, left: u64::MAX, is_relative: false }
    }

    /// Creates a reader of a state that a writer of relative states wrote.
    pub(crate) fn relative(from: impl Read + 'a) -> Self {
        Self { is_relative: true, ..Self::new(from) }
    }

    /// Whether a relative state is read.
    #[must_use]
    pub fn is_relative(&self) -> bool {
        self.is_relative
    }

    /// Limits the memory in bytes of the values that lists gain from now on. Values that the built run already has do not
    /// count. Data that needs more is [`Damaged::Large`].
    pub fn limit(&mut self, memory: u64) {
        self.left = memory;
    }

    /// Takes the next text, of at most `most` bytes.
    ///
    /// # Errors
    /// [`Damaged::Long`] for a longer text, before memory is allocated for it; also the errors of a [`String`].
    pub fn text(&mut self, most: u64) -> Result<String, Damaged> {
        let found = u64::from_le_bytes(self.take()?);
        if found > most {
            return Err(Damaged::Long { found, most });
        }
        let mut bytes = Vec::new();
        load_list(found as usize, self, |byte| bytes.push(byte))?;
        String::from_utf8(bytes).map_err(|_| Damaged::value::<String>())
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`Damaged::Read`] if fewer bytes follow or the source reports an error.
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        loop {
            if let Some(bytes) = self.block.get(self.at..).and_then(<[u8]>::first_chunk) {
                self.at += N;
                return Ok(*bytes);
            }
            self.read_block()?;
        }
    }

    /// Reads another block.
    #[inline(never)]
    fn read_block(&mut self) -> Result<(), Damaged> {
        self.passed += self.at as u64;
        self.block.drain(..std::mem::take(&mut self.at));
        match (&mut self.from).take(BLOCK as u64).read_to_end(&mut self.block)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// [`Damaged::Value`] if a byte follows, and [`Damaged::Read`] if the source reports an error at its end,
    /// such as a wrong checksum.
    pub fn finish(mut self) -> Result<(), Damaged> {
        match self.take::<1>() {
            Ok(_) => Err(Damaged::value::<()>()),
            Err(Damaged::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Number of bytes taken so far.
    fn taken(&self) -> u64 {
        self.passed + self.at as u64
    }
}

macro_rules! number {
    ($put:ident: $($of:ty)*) => {$(
        impl Saved for $of {
            const LAYOUT: u64 = layout(stringify!($of), &[]);

            #[inline]
            fn save(&self, to: &mut Writer<'_>) {
                to.$put(&self.to_le_bytes());
            }

            #[inline]
            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                *self = Self::load(from)?;
                Ok(())
            }

            #[inline]
            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                from.take().map(Self::from_le_bytes)
            }
        }
    )*};
}

number!(put: u32 u64 u128 i32 i64 i128);
number!(put_state: u8 u16 i8 i16 f32 f64);

/// Implements the trait for types that are converted to another one.
macro_rules! converted {
    ($($of:ty as $saved:ty: |$value:ident| $to:expr, |$loaded:ident| $back:expr;)*) => {$(
        impl Saved for $of {
            const LAYOUT: u64 = layout(stringify!($of), &[]);

            #[inline]
            fn save(&self, to: &mut Writer<'_>) {
                let $value = self;
                <$saved>::save(&$to, to);
            }

            #[inline]
            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                *self = Self::load(from)?;
                Ok(())
            }

            #[inline]
            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                let $loaded = <$saved>::load(from)?;
                $back.ok_or_else(Damaged::value::<Self>)
            }
        }
    )*};
}

converted! {
    usize as u64: |value| *value as u64, |loaded| usize::try_from(loaded).ok();
    bool as u8: |value| u8::from(*value), |loaded| (loaded < 2).then_some(loaded == 1);
    NonZeroU16 as u16: |value| value.get(), |loaded| Self::new(loaded);
    String as Vec<u8>: |value| value.as_bytes().to_vec(), |loaded| Self::from_utf8(loaded).ok();
}

/// Shared values do not change during a run, so they are not saved.
impl<T: ?Sized> Saved for Arc<T> {
    const LAYOUT: u64 = layout("Arc", &[]);

    fn save(&self, _: &mut Writer<'_>) {}

    fn restore(&mut self, _: &mut Reader<'_>) -> Result<(), Damaged> {
        Ok(())
    }
}

impl<T: Saved> Saved for Box<T> {
    const LAYOUT: u64 = T::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        (**self).save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        (**self).restore(from)
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        T::load(from).map(Self::new)
    }
}

impl<T: Saved> Saved for Option<T> {
    const LAYOUT: u64 = layout("Option", &[T::LAYOUT]);

    fn save(&self, to: &mut Writer<'_>) {
        self.is_some().save(to);
        if let Some(value) = self {
            value.save(to);
        }
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        match (bool::load(from)?, self) {
            (true, Some(value)) => value.restore(from)?,
            (true, empty) => *empty = Some(T::load(from)?),
            (false, value) => *value = None,
        }
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        bool::load(from)?.then(|| T::load(from)).transpose()
    }
}

fn save_list<'v, T: Saved + 'v>(len: usize, values: impl IntoIterator<Item = &'v T>, to: &mut Writer<'_>) {
    to.put_state(&(len as u64).to_le_bytes());
    to.memory += (len * size_of::<T>()) as u64;
    values.into_iter().for_each(|value| value.save(to));
}

/// Loads values one by one, so that the length of the data limits the memory, even if the stated length is larger. A value
/// may take much more memory than data, so the memory has a limit of its own.
fn load_list<T: Saved>(len: usize, from: &mut Reader<'_>, mut add: impl FnMut(T)) -> Result<(), Damaged> {
    let start = from.taken();
    for count in 1..=len as u64 {
        from.left = from.left.checked_sub(size_of::<T>() as u64).ok_or(Damaged::Large)?;
        add(T::load(from)?);
        if from.taken() - start < count {
            return Err(Damaged::value::<T>());
        }
    }
    Ok(())
}

impl<T: Saved> Saved for [T] {
    const LAYOUT: u64 = layout("List", &[T::LAYOUT]);

    fn save(&self, to: &mut Writer<'_>) {
        save_list(self.len(), self, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let (found, expected) = (usize::load(from)?, self.len());
        if found != expected {
            return Err(Damaged::Length { what: std::any::type_name::<T>(), found, expected });
        }
        self.iter_mut().try_for_each(|value| value.restore(from))
    }
}

impl<T: Saved> Saved for Box<[T]> {
    const LAYOUT: u64 = <[T]>::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        (**self).save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut values = std::mem::take(self).into_vec();
        values.restore(from)?;
        *self = values.into();
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Vec::load(from).map(Into::into)
    }
}

impl<T: Saved, const N: usize> Saved for [T; N] {
    const LAYOUT: u64 = layout("Array", &[T::LAYOUT, N as u64]);

    fn save(&self, to: &mut Writer<'_>) {
        self.iter().for_each(|value| value.save(to));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.iter_mut().try_for_each(|value| value.restore(from))
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut values = Vec::with_capacity(N);
        for _ in 0..N {
            values.push(T::load(from)?);
        }
        Self::try_from(values).map_err(|_| Damaged::value::<Self>())
    }
}

macro_rules! list {
    ($($of:ident, $add:ident;)*) => {$(
        impl<T: Saved> Saved for $of<T> {
            const LAYOUT: u64 = <[T]>::LAYOUT;

            fn save(&self, to: &mut Writer<'_>) {
                save_list(self.len(), self, to);
            }

            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                let len = usize::load(from)?;
                self.truncate(len);
                self.iter_mut().try_for_each(|value| value.restore(from))?;
                load_list(len - self.len(), from, |value| self.$add(value))
            }

            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                let mut values = Self::new();
                values.restore(from)?;
                Ok(values)
            }
        }
    )*};
}

list! {
    Vec, push;
    VecDeque, push_back;
}

/// Implements the trait for collections, which are not restored in place but created from the list of their values.
macro_rules! collection {
    ($(<$($part:ident: $bound:ident $(+ $also:ident)*),*> $of:ty = [$item:ty], |$values:ident| $collected:expr;)*) => {$(
        impl<$($part: $bound $(+ $also)*),*> Saved for $of {
            const LAYOUT: u64 = layout(stringify!($of), &[<$item>::LAYOUT]);

            fn save(&self, to: &mut Writer<'_>) {
                to.put_state(&(self.len() as u64).to_le_bytes());
                to.memory += (self.len() * size_of::<$item>()) as u64;
                self.iter().for_each(|value| value.save(to));
            }

            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                *self = Self::load(from)?;
                Ok(())
            }

            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                let $values = Vec::load(from)?;
                Ok($collected)
            }
        }
    )*};
}

/// Saves the parts of an entry of a map.
trait Entry {
    fn save(&self, to: &mut Writer<'_>);
}

impl<K: Saved, V: Saved> Entry for (&K, &V) {
    fn save(&self, to: &mut Writer<'_>) {
        let outer = to.begin_key();
        self.0.save(to);
        to.end(outer);
        self.1.save(to);
    }
}

collection! {
    <T: Saved + Ord> BTreeSet<T> = [T], |values| Self::from_iter(values);
    <K: Saved + Ord, V: Saved> BTreeMap<K, V> = [(K, V)], |values| Self::from_iter(values);
}

/// The order of the values in memory depends on the past, so a relative state contains them in their own order.
impl<T: Saved + Ord> Saved for BinaryHeap<T> {
    const LAYOUT: u64 = layout("BinaryHeap<T>", &[T::LAYOUT]);

    fn save(&self, to: &mut Writer<'_>) {
        if !to.is_relative() {
            return save_list(self.len(), self, to);
        }
        let mut values: Vec<&T> = self.iter().collect();
        values.sort_unstable();
        save_list(self.len(), values, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::load(from)?;
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Vec::load(from).map(Self::from)
    }
}

/// Entries are saved in the order of their keys, so that the bytes do not depend on the hasher, whose seed may be random.
impl<K: Saved + Hash + Ord, V: Saved, S: BuildHasher + Default> Saved for HashMap<K, V, S> {
    const LAYOUT: u64 = layout("HashMap<K, V, S>", &[<[(K, V)]>::LAYOUT]);

    fn save(&self, to: &mut Writer<'_>) {
        let mut entries: Vec<(&K, &V)> = self.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        to.put_state(&(entries.len() as u64).to_le_bytes());
        to.memory += (entries.len() * size_of::<(K, V)>()) as u64;
        entries.iter().for_each(|entry| Entry::save(entry, to));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::load(from)?;
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Vec::load(from)?.into_iter().collect())
    }
}

macro_rules! tuple {
    ($(($($part:ident $name:ident),*);)*) => {$(
        impl<$($part: Saved),*> Saved for ($($part,)*) {
            const LAYOUT: u64 = layout("tuple", &[$($part::LAYOUT),*]);

            #[allow(unused_variables)]
            fn save(&self, to: &mut Writer<'_>) {
                let ($($name,)*) = self;
                $($name.save(to);)*
            }

            #[allow(unused_variables)]
            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                let ($($name,)*) = self;
                $($name.restore(from)?;)*
                Ok(())
            }

            #[allow(unused_variables)]
            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Ok(($($part::load(from)?,)*))
            }
        }
    )*};
}

tuple! {
    ();
    (A a);
    (A a, B b);
    (A a, B b, C c);
    (A a, B b, C c, D d);
}

impl<T: Saved> Saved for Reverse<T> {
    const LAYOUT: u64 = T::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        self.0.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.0.restore(from)
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        T::load(from).map(Self)
    }
}

impl<A: Array<Item: Saved>> Saved for SmallVec<A> {
    const LAYOUT: u64 = <[A::Item]>::LAYOUT;

    fn save(&self, to: &mut Writer<'_>) {
        (**self).save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::load(from)?;
        Ok(())
    }

    fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Vec::load(from).map(Self::from_iter)
    }
}

/// The recorded values with their counts. The bounds and the precision are those of the histogram that is restored.
impl Saved for Histogram<u64> {
    const LAYOUT: u64 = layout("Histogram", &[]);

    fn save(&self, to: &mut Writer<'_>) {
        let counted = self.iter_recorded();
        let counted: Vec<(u64, u64)> =
            counted.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
        counted.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.reset();
        for (value, count) in Vec::load(from)? {
            self.record_n(value, count).map_err(|_| Damaged::value::<Self>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Event, EventQueue, Time};

    fn saved(value: &impl Saved) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        value.save(&mut writer);
        writer.finish().unwrap();
        bytes
    }

    fn loaded<T: Saved>(bytes: &[u8]) -> Result<T, Damaged> {
        let mut reader = Reader::new(bytes);
        let value = T::load(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    #[derive(Debug, Clone, PartialEq, Saved)]
    enum Shape {
        Empty,
        Round(u8, Option<i64>),
        Named { name: String, parts: Vec<(u32, f64)> },
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let shapes = VecDeque::from([
            Shape::Empty,
            Shape::Round(7, Some(-1)),
            Shape::Named { name: "a".to_owned(), parts: vec![(1, f64::NEG_INFINITY), (2, 0.5)] },
        ]);
        let bytes = saved(&shapes);
        assert_eq!(loaded::<VecDeque<Shape>>(&bytes).unwrap(), shapes);
        let map: HashMap<(u8, bool), [u16; 2]> =
            (0..40).map(|key| ((key, key > 7), [1, key.into()])).collect();
        assert_eq!(loaded::<HashMap<(u8, bool), [u16; 2]>>(&saved(&map)).unwrap(), map);
        let tree = BTreeMap::from([(3, BTreeSet::from([1_u8, 5])), (1, BTreeSet::new())]);
        assert_eq!(loaded::<BTreeMap<u64, BTreeSet<u8>>>(&saved(&tree)).unwrap(), tree);
    }

    #[test]
    fn equal_maps_have_equal_bytes() {
        // Each map has a hasher with a seed of its own.
        let map = |keys: &mut dyn Iterator<Item = u32>| keys.map(|key| (key, u64::from(key))).collect();
        let maps: [HashMap<u32, u64>; 2] = [map(&mut (0..500)), map(&mut (0..500).rev())];
        let orders = maps.each_ref().map(|map| map.keys().copied().collect::<Vec<u32>>());
        assert_ne!(orders[0], orders[1]);
        assert_eq!(saved(&maps[0]), saved(&maps[1]));
    }

    /// More than one block is written, and values cross the ends of blocks.
    #[test]
    fn long_lists_pass_in_blocks() {
        let list: Vec<(u8, u64)> = (0..BLOCK as u64).map(|at| (at as u8, at)).collect();
        assert_eq!(loaded::<Vec<(u8, u64)>>(&saved(&list)).unwrap(), list);
    }

    #[test]
    fn values_are_restored_in_place() {
        #[derive(Saved)]
        #[saved(then = Node::count)]
        struct Node {
            #[saved(constant)]
            name: &'static str,
            fill: u32,
            #[saved(scratch)]
            restored: u32,
        }
        impl Node {
            fn count(&mut self) {
                self.restored += 1;
            }
        }
        let node = |name, fill| Node { name, fill, restored: 0 };
        let bytes = saved(&vec![node("a", 1), node("b", 2)]);
        let mut others = vec![node("c", 8), node("d", 9), node("e", 9)];
        others.restore(&mut Reader::new(&bytes[..])).unwrap();
        let found: Vec<_> = others.iter().map(|node| (node.name, node.fill, node.restored)).collect();
        assert_eq!(found, [("c", 1, 1), ("d", 2, 1)]);
        let error = Vec::<Node>::new().restore(&mut Reader::new(&bytes[..])).unwrap_err();
        assert!(matches!(error, Damaged::InPlace(what) if what.ends_with("Node")), "{error}");
        let error = [node("c", 8)][..].restore(&mut Reader::new(&bytes[..])).unwrap_err();
        assert!(matches!(error, Damaged::Length { found: 2, expected: 1, .. }), "{error}");
    }

    #[test]
    fn invalid_data_is_an_error() {
        assert!(matches!(loaded::<bool>(&[2]), Err(Damaged::Value("bool"))));
        assert!(matches!(loaded::<Shape>(&[3]), Err(Damaged::Value(_))));
        assert!(matches!(loaded::<String>(&[1, 0, 0, 0, 0, 0, 0, 0, 0xff]), Err(Damaged::Value(_))));
        assert!(matches!(loaded::<NonZeroU16>(&[0, 0]), Err(Damaged::Value(_))));
        assert!(matches!(loaded::<u64>(&[1, 2, 3]), Err(Damaged::Read(_))), "too short");
        assert!(loaded::<u8>(&[1, 2]).is_err(), "too long");
        // A list does not allocate memory for its stated length before its values have been read.
        assert!(matches!(loaded::<Vec<u64>>(&[0xff; 20]), Err(Damaged::Read(_))));
        assert!(matches!(loaded::<Vec<()>>(&[0xff; 8]), Err(Damaged::Value("()"))));
    }

    #[test]
    fn the_length_of_a_text_and_the_memory_of_lists_are_limited() {
        let bytes = saved(&"abc".to_owned());
        assert_eq!(Reader::new(&bytes[..]).text(3).unwrap(), "abc");
        let error = Reader::new(&bytes[..]).text(2).unwrap_err();
        assert!(matches!(error, Damaged::Long { found: 3, most: 2 }), "{error}");
        // A value that is absent takes one byte of data, but as much memory as any other.
        let list = vec![None::<[u64; 4]>; 10];
        let mut data = Vec::new();
        let mut writer = Writer::new(&mut data);
        list.save(&mut writer);
        let memory = writer.memory();
        writer.finish().unwrap();
        assert_eq!((memory, data.len()), (10 * 40, 8 + 10));
        let restored = |limit, mut into: Vec<Option<[u64; 4]>>| {
            let mut reader = Reader::new(&data[..]);
            reader.limit(limit);
            into.restore(&mut reader).map(|()| into)
        };
        assert_eq!(restored(memory, Vec::new()).unwrap(), list);
        assert!(matches!(restored(memory - 1, Vec::new()), Err(Damaged::Large)));
        // Values that exist already need no memory.
        assert_eq!(restored(40, vec![None; 9]).unwrap(), list);
    }

    #[test]
    fn layouts_differ_with_names_types_and_order() {
        mod other {
            use super::*;
            #[derive(Saved)]
            pub enum Shape {
                Empty,
                Round(u8, Option<u64>),
                Named { name: String, parts: Vec<(u32, f64)> },
            }
        }
        let layouts = [
            Shape::LAYOUT,
            other::Shape::LAYOUT,
            <(u8, u16)>::LAYOUT,
            <(u16, u8)>::LAYOUT,
            <[u8; 2]>::LAYOUT,
            <[u8; 3]>::LAYOUT,
            Vec::<u8>::LAYOUT,
            Option::<u8>::LAYOUT,
        ];
        assert_eq!(BTreeSet::from(layouts).len(), layouts.len());
    }

    #[test]
    fn an_event_queue_continues_in_the_same_order() {
        let mut queue = EventQueue::new(Time(100), Time::ZERO);
        let event = |at: u64| Event { time: Time(at * at * 1_000), key: at as u32 % 7, data: at as u32 };
        (1..5_000).for_each(|at| queue.push(event(at)));
        (0..1_000).for_each(|_| assert!(queue.pop().is_some()));
        let bytes = saved(&queue);
        let mut other = EventQueue::new(Time(100), Time::ZERO);
        other.restore(&mut Reader::new(&bytes[..])).unwrap();
        for at in 1_000..1_100 {
            queue.push(event(at));
            other.push(event(at));
        }
        while let Some(next) = queue.pop() {
            assert_eq!(other.pop(), Some(next));
        }
        assert!(other.is_empty());
    }

    #[test]
    fn a_histogram_keeps_its_counts() {
        let new = || Histogram::<u64>::new_with_bounds(1, 1 << 44, 2).unwrap();
        let (mut histogram, mut other) = (new(), new());
        (1..2_000).for_each(|value| histogram.record(value * value).unwrap());
        other.record(5).unwrap();
        other.restore(&mut Reader::new(&saved(&histogram)[..])).unwrap();
        assert_eq!(other, histogram);
        assert_eq!((other.max(), other.min()), (histogram.max(), histogram.min()));
    }
}
