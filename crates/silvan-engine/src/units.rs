//! Quantities with units: [`Time`] in picoseconds, [`Bytes`], [`Rate`] in bits per second.
//!
//! All quantities are integers, so results do not depend on the machine. Each type parses and formats text with a unit
//! ("150 us", "64 KiB", "13.5 Gbit/s"), as in scenario files. Prefixes are decimal (k, M, G) or binary (Ki, Mi, Gi);
//! `KB` is 1000 bytes.
//!
//! If the length of a cycle is given, times and rates can also be given in cycles ("3 cycles", "0.25
//! bytes/cycle"); see [`InCycles`].

use std::borrow::Cow;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use crate::saved::{Damaged, Reader, Saved, Writer, layout};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The error for a text that is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: {reason}; write for example \"{example}\"")]
pub struct UnitError {
    text: String,
    kind: &'static str,
    reason: String,
    example: &'static str,
}

/// A type of quantity, with its units and their sizes in the smallest unit.
struct Kind {
    name: &'static str,
    example: &'static str,
    /// Sorted by increasing size. Among units of equal size, the first one is used for output.
    units: &'static [(&'static str, u128)],
    /// Units based on cycles.
    in_cycles: &'static [&'static str],
    /// The size of one of `in_cycles` for a cycle of the given length in picoseconds, as a fraction of the
    /// smallest unit.
    of_cycle: fn(u64) -> (u128, u128),
}

const TIME: Kind = Kind {
    name: "time",
    example: "150 us",
    units: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    in_cycles: &["cycle", "cycles"],
    of_cycle: |cycle_ps| (u128::from(cycle_ps), 1),
};

const BYTES: Kind = Kind {
    name: "size",
    example: "64 KiB",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
    in_cycles: &[],
    of_cycle: |_| (1, 1),
};

const RATE: Kind = Kind {
    name: "rate",
    example: "16 Gbit/s",
    units: &[
        ("bit/s", 1),
        ("B/s", 8),
        ("kbit/s", 1_000),
        ("kB/s", 8_000),
        ("Mbit/s", 1_000_000),
        ("MB/s", 8_000_000),
        ("Gbit/s", 1_000_000_000),
        ("GB/s", 8_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ],
    in_cycles: &["byte/cycle", "bytes/cycle", "B/cycle"],
    of_cycle: |cycle_ps| (8_000_000_000_000, u128::from(cycle_ps)),
};

impl Kind {
    fn error(&self, text: &str, reason: impl Into<String>) -> UnitError {
        UnitError {
            text: text.chars().take(60).collect(),
            kind: self.name,
            reason: reason.into(),
            example: self.example,
        }
    }

    /// Splits a text into the number and the unit.
    fn split<'t>(&self, text: &'t str) -> Result<(&'t str, &'t str), UnitError> {
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim();
        if number.is_empty() {
            return Err(self.error(text, "it does not start with a number"));
        }
        if unit.is_empty() {
            return Err(self.error(text, "the unit is missing"));
        }
        Ok((number, unit))
    }

    /// Whether a text is given in cycles.
    fn is_in_cycles(&self, text: &str) -> bool {
        self.split(text).is_ok_and(|(_, unit)| self.in_cycles.contains(&unit))
    }

    /// Size of a unit as a fraction of the smallest unit.
    fn size(&self, text: &str, unit: &str, cycle: Option<Time>) -> Result<(u128, u128), UnitError> {
        if self.in_cycles.contains(&unit) {
            return match cycle {
                Some(Time(cycle_ps)) if cycle_ps > 0 => Ok((self.of_cycle)(cycle_ps)),
                _ => Err(self.error(
                    text,
                    "the length of a cycle is not given; set it, for example `cycle = \"1 ns\"`",
                )),
            };
        }
        let known = self.units.iter().find(|(name, _)| *name == unit);
        known.map(|&(_, size)| (size, 1)).ok_or_else(|| {
            let known: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
            self.error(text, format!("unit `{unit}` is not one of {}", known.join(", ")))
        })
    }

    /// Parses a text such as "12.5 us" exactly, in decimal arithmetic.
    fn parse(&self, text: &str, cycle: Option<Time>) -> Result<u64, UnitError> {
        let (number, unit) = self.split(text)?;
        let (size, of) = self.size(text, unit, cycle)?;
        let malformed = || self.error(text, "the number is malformed or too long");
        let digits = number.replace('_', "");
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        if whole.len() > 20 || fraction.len() > 15 || fraction.contains('.') {
            return Err(malformed());
        }
        let fraction = fraction.trim_end_matches('0');
        let parse = |s: &str| if s.is_empty() { Ok(0) } else { s.parse::<u128>() };
        let (Ok(whole), Ok(part)) = (parse(whole), parse(fraction)) else { return Err(malformed()) };
        let too_large = || self.error(text, "it is too large");
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let common = greatest_common_divisor(size, scale * of);
        let (size, of) = (size / common, scale * of / common);
        let steps = (whole * scale + part).checked_mul(size).ok_or_else(too_large)?;
        if !steps.is_multiple_of(of) {
            let finest = self.units[0].0;
            let reason = match cycle {
                Some(cycle) if self.in_cycles.contains(&unit) => {
                    format!("with a cycle of {cycle} it is not a whole number of {finest}")
                }
                _ => format!("it is finer than 1 {finest}"),
            };
            return Err(self.error(text, reason));
        }
        u64::try_from(steps / of).map_err(|_| too_large())
    }

    /// Formats a value in the largest unit in which it is at least 1 and needs at most six decimals. Values
    /// in binary units have no decimals.
    fn format(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from(value);
        for &(name, size) in self.units.iter().rev() {
            // Skip units of bytes: rates are written in bits, as usual in networking.
            if value < size || name == "kB" || name.ends_with("B/s") {
                continue;
            }
            let rest = value % size;
            if rest == 0 {
                return write!(f, "{} {name}", value / size);
            }
            if !size.is_power_of_two() && (rest * 1_000_000) % size == 0 {
                let decimals = format!("{:06}", rest * 1_000_000 / size);
                return write!(f, "{}.{} {name}", value / size, decimals.trim_end_matches('0'));
            }
        }
        write!(f, "{value} {}", self.units[0].0)
    }
}

/// The greatest common divisor of two positive numbers.
const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A quantity that can be given in cycles if their length is known: a time ("3 cycles") or a rate ("0.25
/// bytes/cycle").
pub trait InCycles: Sized + fmt::Display {
    /// Whether a text is given in cycles.
    fn is_in_cycles(text: &str) -> bool;

    /// Parses a quantity with a unit or in cycles of length `cycle`. One byte per cycle of 1 ns is 8 Gbit/s.
    ///
    /// # Errors
    /// Same as those of `parse`, and if a text in cycles is not a whole number of picoseconds or bit/s, or the length of
    /// the cycle is zero or not given.
    fn read(text: &str, cycle: Option<Time>) -> Result<Self, UnitError>;
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $put:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl Saved for $name {
            const LAYOUT: u64 = layout(stringify!($name), &[<u64 as Saved>::LAYOUT]);

            #[inline]
            fn save(&self, to: &mut Writer<'_>) {
                to.$put(self.0);
            }

            #[inline]
            fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
                *self = Self::load(from)?;
                Ok(())
            }

            #[inline]
            fn load(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                u64::load(from).map(Self)
            }
        }

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                $kind.parse(text, None).map(Self)
            }
        }

        impl InCycles for $name {
            fn is_in_cycles(text: &str) -> bool {
                $kind.is_in_cycles(text)
            }

            fn read(text: &str, cycle: Option<Time>) -> Result<Self, UnitError> {
                $kind.parse(text, cycle).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.format(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a {} with its unit, such as \"{}\"", $kind.name, $kind.example)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let plain = $kind.units.iter().map(|(name, _)| *name);
                let units: Vec<&str> = plain.chain($kind.in_cycles.iter().copied()).collect();
                let pattern = format!(r"^\s*[0-9_]*\.?[0-9_]+\s*({})\s*$", units.join("|"));
                json_schema!({
                    "type": "string",
                    "description": format!("a {} with its unit", $kind.name),
                    "pattern": pattern,
                    "examples": [$kind.example],
                })
            }
        }
    };
}

quantity!(
    /// A point in simulated time, or a duration, in picoseconds. The last representable instant,
    /// [`Time::NEVER`], is after about 213 days.
    Time,
    TIME,
    put_time
);
quantity!(
    /// A number of bytes.
    Bytes,
    BYTES,
    put_number
);
quantity!(
    /// A data rate in bits per second.
    Rate,
    RATE,
    put_number
);

impl Time {
    /// The start of a run, or a duration of zero.
    pub const ZERO: Self = Self(0);
    /// A time later than any event.
    pub const NEVER: Self = Self(u64::MAX);

    /// A whole number of nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// A whole number of microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// The time in seconds, for reports only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// The time in nanoseconds, with their fraction, for reports only.
    #[must_use]
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// The time rounded to four significant digits, for texts.
    #[must_use]
    pub const fn rounded(self) -> Self {
        let Some(digits) = self.0.checked_ilog10() else { return self };
        if digits < 4 {
            return self;
        }
        let unit = 10_u64.pow(digits - 3);
        Self((self.0 / unit + self.0 % unit / unit.div_ceil(2)).saturating_mul(unit))
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, rhs: Self) {
        self.0 += rhs.0;
    }
}

impl Sub for Time {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl SubAssign for Time {
    fn sub_assign(&mut self, rhs: Self) {
        self.0 -= rhs.0;
    }
}

/// The exact time a byte takes at some [`Rate`]: `num / den` picoseconds, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct BytePace {
    num: u64,
    den: u64,
}

impl Rate {
    /// A whole number of gigabits per second.
    #[must_use]
    pub const fn from_gbit(gbit: u64) -> Self {
        Self(gbit * 1_000_000_000)
    }

    /// The rate in Gbit/s, for reports only.
    #[must_use]
    pub fn as_gbit_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The number of bytes that pass in `span` at this rate, rounded up.
    #[must_use]
    pub fn bytes_in(self, span: Time) -> u64 {
        let bytes = (u128::from(span.0) * u128::from(self.0)).div_ceil(8_000_000_000_000);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The time per byte at this rate. A rate of zero counts as 1 bit/s to avoid a division by zero.
    /// Scenarios reject such rates.
    #[must_use]
    pub fn pace(self) -> BytePace {
        let (num, den) = (8_000_000_000_000, self.0.max(1));
        let common = greatest_common_divisor(u128::from(num), u128::from(den)) as u64;
        BytePace { num: num / common, den: den / common }
    }
}

/// The time for a number of bytes, as whole picoseconds and a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct SpanParts {
    whole: u64,
    rest: u64,
}

impl BytePace {
    /// A pace of zero: any number of bytes takes no time.
    pub const INSTANT: Self = Self { num: 0, den: 1 };

    /// Whether each byte takes a whole number of picoseconds.
    #[inline]
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.den == 1
    }

    /// The time for `bytes`, rounded up to whole picoseconds.
    #[inline]
    #[must_use]
    pub fn time(self, bytes: u32) -> Time {
        // Common link rates divide evenly, and a predictable branch is cheaper than a division.
        match u64::from(bytes).checked_mul(self.num) {
            Some(product) if self.den == 1 => Time(product),
            Some(product) => Time(product.div_ceil(self.den)),
            None => {
                let product = u128::from(bytes) * u128::from(self.num);
                Time(product.div_ceil(u128::from(self.den)) as u64)
            }
        }
    }

    /// Whether a byte takes at most as long as at the other pace.
    #[must_use]
    pub fn is_as_fast_as(self, other: Self) -> bool {
        u128::from(self.num) * u128::from(other.den) <= u128::from(other.num) * u128::from(self.den)
    }

    /// The time for `bytes`, as an argument of [`Self::add_parts`].
    #[must_use]
    pub fn parts(self, bytes: u32) -> SpanParts {
        match u64::from(bytes).checked_mul(self.num) {
            Some(product) => SpanParts { whole: product / self.den, rest: product % self.den },
            None => {
                let product = u128::from(bytes) * u128::from(self.num);
                let den = u128::from(self.den);
                SpanParts { whole: (product / den) as u64, rest: (product % den) as u64 }
            }
        }
    }

    /// Same as [`Self::time_carrying`], but without a division, because the [`Self::parts`] are already known.
    #[inline]
    #[must_use]
    pub fn add_parts(self, parts: SpanParts, carry: &mut u64) -> Time {
        let rest = parts.rest + *carry;
        let over = rest >= self.den;
        *carry = if over { rest - self.den } else { rest };
        Time(parts.whole + u64::from(over))
    }

    /// The time for `bytes`. `carry` keeps the fraction of a picosecond that earlier calls left, so that a long
    /// sequence of packets does not drift.
    #[inline]
    #[must_use]
    pub fn time_carrying(self, bytes: u32, carry: &mut u64) -> Time {
        let product = u64::from(bytes).checked_mul(self.num);
        match product.and_then(|product| product.checked_add(*carry)) {
            Some(total) if self.den == 1 => Time(total),
            Some(total) => {
                *carry = total % self.den;
                Time(total / self.den)
            }
            None => {
                let total = u128::from(bytes) * u128::from(self.num) + u128::from(*carry);
                *carry = (total % u128::from(self.den)) as u64;
                Time((total / u128::from(self.den)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_in_sentences_have_four_digits() {
        let rounded = |text: &str| text.parse::<Time>().expect("valid").rounded().to_string();
        assert_eq!(rounded("9.425736 ms"), "9.426 ms");
        assert_eq!(rounded("1834.0208 us"), "1.834 ms");
        assert_eq!(rounded("999.95 us"), "1 ms");
        assert_eq!(rounded("9999 ps"), "9.999 ns");
        assert_eq!(Time(10_005).rounded(), Time(10_010));
        assert_eq!(Time(0).rounded(), Time(0));
        assert_eq!(Time::NEVER.rounded(), Time::NEVER);
    }

    #[test]
    fn texts_are_read_exactly() {
        assert_eq!("150 us".parse(), Ok(Time(150_000_000)));
        assert_eq!("1.024us".parse(), Ok(Time(1_024_000)));
        assert_eq!("64 KiB".parse(), Ok(Bytes(65_536)));
        assert_eq!("13.5 Gbit/s".parse(), Ok(Rate(13_500_000_000)));
        assert_eq!("2.5 GB/s".parse(), Ok(Rate(20_000_000_000)));
        assert_eq!("1_000 B".parse(), Ok(Bytes(1_000)));
    }

    #[test]
    fn quantities_use_the_most_readable_unit() {
        assert_eq!(Rate::from_gbit(16).to_string(), "16 Gbit/s");
        assert_eq!(Rate(13_500_000_000).to_string(), "13.5 Gbit/s");
        assert_eq!(Bytes(65_536).to_string(), "64 KiB");
        assert_eq!(Time(153_600_000).to_string(), "153.6 us");
    }

    #[test]
    fn errors_of_quantities_are_explained() {
        let message = |text: &str| text.parse::<Time>().map_err(|e| e.to_string());
        let example = "write for example \"150 us\"";
        assert_eq!(
            message("fast"),
            Err(format!("`fast` is not a time: it does not start with a number; {example}"))
        );
        assert_eq!(message("10"), Err(format!("`10` is not a time: the unit is missing; {example}")));
        assert_eq!(
            message("10 hours"),
            Err(format!("`10 hours` is not a time: unit `hours` is not one of ps, ns, us, ms, s; {example}"))
        );
        assert_eq!(
            message("0.0001 ns"),
            Err(format!("`0.0001 ns` is not a time: it is finer than 1 ps; {example}"))
        );
        assert_eq!(
            message("99999999999 s"),
            Err(format!("`99999999999 s` is not a time: it is too large; {example}"))
        );
        assert!("1.2.3 us".parse::<Time>().is_err());
    }

    #[test]
    fn cycles_are_converted_exactly_or_not_at_all() {
        let time = |text: &str, ps| Time::read(text, Some(Time(ps))).map_err(|e| e.to_string());
        let rate = |text: &str, ps| Rate::read(text, Some(Time(ps))).map_err(|e| e.to_string());
        assert_eq!(time("3 cycles", 1_000), Ok(Time(3_000)));
        assert_eq!(time("1cycle", 4), Ok(Time(4)));
        assert_eq!(time("1_000.25 cycles", 4), Ok(Time(4_001)));
        assert_eq!(time("150 us", 4), Ok(Time(150_000_000)), "other units are not affected");
        assert_eq!(rate("1 byte/cycle", 1_000), Ok(Rate::from_gbit(8)));
        assert_eq!(rate("0.25 bytes/cycle", 1_000), Ok(Rate::from_gbit(2)));
        assert_eq!(rate("3 B/cycle", 3_000), Ok(Rate::from_gbit(8)));
        assert_eq!(
            time("0.5 cycles", 1),
            Err(
                "`0.5 cycles` is not a time: with a cycle of 1 ps it is not a whole number of ps; write for \
                 example \"150 us\""
                    .into()
            )
        );
        assert!(rate("1 B/cycle", 3_000).is_err_and(|e| e.contains("not a whole number of bit/s")));
        assert!(time("1 bytes/cycle", 1).is_err(), "a rate is not a time");
        assert!(Bytes::read("3 cycles", Some(Time(1))).is_err());
        for cycle in [None, Some(Time(0))] {
            let error = Time::read("3 cycles", cycle).map_err(|e| e.to_string());
            assert!(error.is_err_and(|e| e.contains("the length of a cycle is not given")));
        }
        assert!(Time::is_in_cycles(" 3 cycles ") && Rate::is_in_cycles("3 B/cycle"));
        assert!(!Time::is_in_cycles("3 ns") && !Time::is_in_cycles("cycles"));
    }

    #[test]
    fn paces_are_exact() {
        assert_eq!(Rate::from_gbit(16).pace().time(2048), Time(1_024_000));
        let pace = Rate(13_500_000_000).pace();
        let mut carry = 0;
        let total: u64 = (0..27_000).map(|_| pace.time_carrying(2048, &mut carry).0).sum();
        assert_eq!(total, 27_000 * 2048 * 16_000 / 27, "nothing is lost over many packets");
        assert_eq!(BytePace::INSTANT.time(4096), Time::ZERO);
        // The rate shares no factors with the unit, so a message of a gigabyte exceeds 64 bits in intermediate results.
        let odd = Rate(13_333_333_333).pace();
        assert_eq!(odd.time(1 << 30), Time(644_245_094_417));
        assert_eq!(odd.time_carrying(1 << 30, &mut 0), Time(644_245_094_416));
        let (mut one, mut other) = (0, 0);
        for bytes in [1 << 30, 1, 2048, 1 << 30, 64, 64] {
            let added = odd.add_parts(odd.parts(bytes), &mut one);
            assert_eq!((added, one), (odd.time_carrying(bytes, &mut other), other), "{bytes} bytes");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_quantity_parses_back_equal(value in any::<u64>()) {
            prop_assert_eq!(Time(value).to_string().parse::<Time>().ok(), Some(Time(value)));
            prop_assert_eq!(Bytes(value).to_string().parse::<Bytes>().ok(), Some(Bytes(value)));
            prop_assert_eq!(Rate(value).to_string().parse::<Rate>().ok(), Some(Rate(value)));
        }
    }
}
