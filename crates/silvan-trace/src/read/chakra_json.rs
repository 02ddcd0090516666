//! Reads the JSON form of Chakra execution traces, which the feeder of Chakra reads: an object whose
//! `workload_graph` is the list of nodes, with the names of the binary form.
//!
//! Nodes are read one after the other, so that no list of nodes is kept in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::chakra::{ChakraNode, Each};
use super::fields::{CHAKRA, Ignored};
use crate::error::TraceError;

/// Maximum length of a string in bytes, and maximum number of dependencies of a node.
const MAX_STRING: u64 = 1 << 20;
const MAX_DEPENDENCIES: usize = 1 << 20;

/// Whether a Chakra trace in JSON may start with these bytes.
pub(super) fn looks_like(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"{")
}

/// Reads the nodes of a rank.
pub(super) fn each_node(
    from: &mut dyn BufRead,
    name: &str,
    rank: u32,
    ignored: &mut Ignored,
    each: Each<'_>,
) -> Result<(), TraceError> {
    let mut failed = None;
    let bounded = Bounded { from, inside: None };
    let mut json = serde_json::Deserializer::from_reader(bounded);
    let graph = Graph { name, rank, ignored, each, failed: &mut failed };
    let read = json.deserialize_map(graph).and_then(|()| json.end());
    match (read, failed) {
        (_, Some(error)) => Err(error),
        (Err(error), None) if error.line() > 0 => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Err(TraceError::line(name, error.line() as u64, message))
        }
        (Err(error), None) => Err(TraceError::new(name, error.to_string())),
        (Ok(()), None) => Ok(()),
    }
}

/// Passes bytes through, and returns an error for a string that is too long, because the parser stores a whole string
/// in memory.
struct Bounded<'r> {
    from: &'r mut dyn BufRead,
    /// In a string, its length so far in bytes, and whether the next byte is escaped.
    inside: Option<(u64, bool)>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(into)?;
        for &byte in &into[..count] {
            self.inside = match (self.inside, byte) {
                (None, b'"') => Some((0, false)),
                (None, _) | (Some((_, false)), b'"') => None,
                (Some((length, _)), _) if length == MAX_STRING => {
                    return Err(std::io::Error::other(format!("a string is longer than {MAX_STRING} bytes")));
                }
                (Some((length, escaped)), byte) => Some((length + 1, byte == b'\\' && !escaped)),
            };
        }
        Ok(count)
    }
}

struct Graph<'e, 'n> {
    name: &'n str,
    rank: u32,
    ignored: &'n mut Ignored,
    each: Each<'e>,
    /// The error of a node. It is stored here because an error of the parser contains only text.
    failed: &'n mut Option<TraceError>,
}

impl<'de> Visitor<'de> for Graph<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a `workload_graph`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "workload_graph" {
                found = true;
                map.next_value_seed(Nodes(&mut self))?;
            } else {
                self.ignored.add(&CHAKRA, &key);
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found { Ok(()) } else { Err(A::Error::custom("there is no `workload_graph`, the list of nodes")) }
    }
}

struct Nodes<'g, 'e, 'n>(&'g mut Graph<'e, 'n>);

impl<'de> DeserializeSeed<'de> for Nodes<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Nodes<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<(), A::Error> {
        let Graph { name, rank, ignored, each, failed } = self.0;
        while let Some(node) = nodes.next_element::<InFile>()? {
            let at = |message: String| TraceError::new(name, message);
            for (key, is_empty) in &node.others {
                if !is_empty.0 {
                    ignored.add(&CHAKRA, key);
                }
            }
            let node = node.into_node().map_err(A::Error::custom)?;
            if let Err(error) = each(*rank, node, &at) {
                **failed = Some(error);
                return Err(A::Error::custom("a node is not valid"));
            }
        }
        Ok(())
    }
}

/// The keys of a node that the reader uses.
#[derive(Deserialize)]
struct InFile {
    #[serde(rename = "Id", alias = "id")]
    id: Number,
    #[serde(rename = "NodeType", alias = "node_type")]
    kind: Number,
    #[serde(default)]
    data_deps: Dependencies,
    #[serde(default)]
    runtime: Option<Number>,
    #[serde(default)]
    is_cpu_op: Option<bool>,
    #[serde(default)]
    num_ops: Option<Number>,
    #[serde(default)]
    tensor_size: Option<Number>,
    #[serde(default)]
    comm_size: Option<Number>,
    #[serde(default)]
    comm_type: Option<Number>,
    #[serde(default)]
    comm_src: Option<Number>,
    #[serde(default)]
    comm_dst: Option<Number>,
    #[serde(default)]
    comm_tag: Option<Number>,
    #[serde(default, alias = "root")]
    comm_root: Option<Number>,
    #[serde(default)]
    pg_name: Option<Name>,
    #[serde(default)]
    involved_dim: Vec<bool>,
    /// The other keys, and whether their values are empty.
    #[serde(flatten)]
    others: BTreeMap<String, IsEmpty>,
}

impl InFile {
    fn into_node(self) -> Result<ChakraNode, String> {
        let of = |number: Option<Number>| number.map(|number| number.0);
        let mut node = ChakraNode {
            id: self.id.0,
            kind: self.kind.0,
            waits_for: self.data_deps.0,
            micros: of(self.runtime).unwrap_or(0),
            operations: of(self.num_ops).unwrap_or(0),
            tensor_bytes: of(self.tensor_size).unwrap_or(0),
            on_host: self.is_cpu_op,
            bytes: of(self.comm_size),
            operation: of(self.comm_type),
            source: of(self.comm_src),
            destination: of(self.comm_dst),
            tag: of(self.comm_tag),
            root: of(self.comm_root),
            group: None,
            partly: self.involved_dim.contains(&false),
        };
        node.set_group(self.pg_name.map(|name| name.0))?;
        Ok(node)
    }
}

/// A whole number, as a number or in quotes.
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 0")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                u64::try_from(number)
                    .map(Number)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                // Larger numbers are not exact.
                let exact = number.fract() == 0.0 && (0.0..9e15).contains(&number);
                if exact {
                    Ok(Number(number as u64))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        from.deserialize_any(Whole)
    }
}

/// The name of a process group: a string or a number.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a process group")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Name, E> {
                Ok(Name(number.to_string()))
            }
        }

        from.deserialize_any(Text)
    }
}

#[derive(Default)]
struct Dependencies(Vec<u64>);

impl<'de> Deserialize<'de> for Dependencies {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Dependencies;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers of nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Dependencies, A::Error> {
                let mut all = Vec::new();
                while let Some(Number(id)) = list.next_element()? {
                    if all.len() == MAX_DEPENDENCIES {
                        let message = format!("a node waits for more than {MAX_DEPENDENCIES} nodes");
                        return Err(A::Error::custom(message));
                    }
                    all.push(id);
                }
                Ok(Dependencies(all))
            }
        }

        from.deserialize_seq(List)
    }
}

/// Whether a value is an empty list, an empty text, null, or 0, so that it has no effect.
struct IsEmpty(bool);

impl<'de> Deserialize<'de> for IsEmpty {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(match serde_json::Value::deserialize(from)? {
            serde_json::Value::Null => true,
            serde_json::Value::Array(list) => list.is_empty(),
            serde_json::Value::String(text) => text.is_empty(),
            serde_json::Value::Number(number) => number.as_f64() == Some(0.0),
            _ => false,
        }))
    }
}
