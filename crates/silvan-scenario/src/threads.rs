//! The number of threads that a run uses.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Threads that the run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// A number from 1 to [`Threads::MOST`].
    Count(u16),
    /// The number of cores of the machine.
    Auto,
}

impl Default for Threads {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Threads {
    /// Maximum number of threads. A larger number is probably a mistake.
    pub const MOST: u16 = 256;

    /// The number of threads to use on this machine.
    #[must_use]
    pub fn count(self) -> u16 {
        match self {
            Self::Count(count) => count,
            Self::Auto => std::thread::available_parallelism()
                .map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(Self::MOST).min(Self::MOST)),
        }
    }

    pub(crate) fn is_one(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Threads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u16(*count),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Threads;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of threads from 1 to {}, or \"auto\"", Threads::MOST)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Threads, E> {
                match u16::try_from(value) {
                    Ok(count @ 1..=Threads::MOST) => Ok(Threads::Count(count)),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
                }
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Threads, E> {
                self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Threads, E> {
                if text == "auto" {
                    Ok(Threads::Auto)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Threads {
    fn schema_name() -> Cow<'static, str> {
        "Threads".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Threads that the run may use.",
            "oneOf": [
                { "type": "integer", "minimum": 1, "maximum": Threads::MOST },
                { "const": "auto" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Threads, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn threads_are_a_number_or_auto() {
        assert_eq!(read("1"), Ok(Threads::Count(1)));
        assert_eq!(read("256"), Ok(Threads::Count(256)));
        assert_eq!(read("\"auto\""), Ok(Threads::Auto));
        assert!((1..=Threads::MOST).contains(&Threads::Auto.count()));
        for wrong in ["0", "257", "-1", "\"many\"", "1.5"] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("a number of threads from 1 to 256, or \"auto\""), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for threads in [Threads::Count(7), Threads::Auto] {
            assert_eq!(read(&serde_json::to_string(&threads).unwrap()), Ok(threads));
        }
    }
}
