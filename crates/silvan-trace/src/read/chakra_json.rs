//! Reads Chakra execution traces in JSON, in both of its forms.
//!
//! - *Graph*, which the feeder of Chakra reads: an object whose `workload_graph` is the list of nodes. Attributes are keys
//!   of a node.
//! - *Messages*, which `chakra_jsonizer` writes: the messages of the binary form as objects, in a list or one after
//!   another. The first object is the metadata. Numbers with 64 bits are in quotes, and values of 0 are left out.
//!
//! Nodes are read one after the other, so that no list of nodes is kept in memory.

use std::cell::Cell;
use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::chakra::Each;
use super::chakra_values::InFile;
use super::fields::{CHAKRA, Ignored};
use crate::error::TraceError;

/// Maximum length of a string in bytes, and maximum depth of lists and objects in each other.
const MAX_STRING: u64 = 1 << 20;
const MAX_DEPTH: u32 = 100;

/// Keys with which an object of messages may start, because their numbers in the binary form are the lowest.
const FIRST_KEYS: [&str; 5] = ["version", "attr", "id", "name", "type"];

/// Form of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Graph,
    Messages,
}

/// Whether a Chakra trace in JSON may start with these bytes.
pub(super) fn looks_like(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"{") || start.trim_ascii_start().starts_with(b"[")
}

/// Whether a file that starts with this text is a Chakra trace in JSON.
pub(super) fn is_certain(start: &str) -> bool {
    let start = start.trim_start();
    let has = |key: &str| start.contains(&format!("\"{key}\""));
    let has_parts = has("attr") || has("version") || start.contains("_NODE\"");
    is_graph(start) || may_be_messages(start) && has_parts && !has("traceEvents")
}

fn is_graph(start: &str) -> bool {
    start.starts_with('{') && start.contains("\"workload_graph\"")
}

/// Whether the first object is empty, as metadata may be, or has a key of a message at its start.
fn may_be_messages(start: &str) -> bool {
    let first = start.strip_prefix('[').unwrap_or(start).trim_start().strip_prefix('{');
    first.is_some_and(|keys| {
        let key = keys.trim_start().strip_prefix('"').and_then(|key| key.split('"').next());
        keys.trim_start().starts_with('}') || key.is_some_and(|key| FIRST_KEYS.contains(&key))
    })
}

impl Form {
    fn of(start: &str) -> Self {
        let start = start.trim_start();
        let is_messages = start.starts_with('[') || may_be_messages(start);
        if is_messages && !is_graph(start) { Self::Messages } else { Self::Graph }
    }
}

/// Reads the nodes of a rank. `start` is the text with which `from` starts.
pub(super) fn each_node(
    from: &mut dyn BufRead,
    start: &str,
    name: &str,
    rank: u32,
    ignored: &mut Ignored,
    each: Each<'_>,
) -> Result<(), TraceError> {
    let line = Cell::new(1);
    let bounded = Bounded { from, line: &line, inside: None, depth: 0 };
    let mut json = serde_json::Deserializer::from_reader(bounded);
    let mut reading =
        Reading { name, rank, line: &line, ignored, each, form: Form::of(start), objects: 0, failed: None };
    let read = match reading.form {
        Form::Graph => json.deserialize_map(Graph(&mut reading)).and_then(|()| json.end()),
        Form::Messages if start.trim_start().starts_with('[') => {
            Nodes(&mut reading).deserialize(&mut json).and_then(|()| json.end())
        }
        Form::Messages => loop {
            // Blanks up to the next object have been skipped if there is one.
            match json.end() {
                Ok(()) => break Ok(()),
                Err(error) if error.is_io() => break Err(error),
                Err(_) => {}
            }
            if let Err(error) = Object(&mut reading).deserialize(&mut json) {
                break Err(error);
            }
        },
    };
    match (read, reading.failed) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let line = if error.line() > 0 { error.line() as u64 } else { line.get() };
            Err(TraceError::line(name, line, message))
        }
        (Ok(()), None) => Ok(()),
    }
}

/// Passes bytes through, and counts lines. Returns an error for a string that is too long, because the parser stores a
/// whole string in memory, and for a depth that is too large.
struct Bounded<'r> {
    from: &'r mut dyn BufRead,
    line: &'r Cell<u64>,
    /// In a string, its length so far in bytes, and whether the next byte is escaped.
    inside: Option<(u64, bool)>,
    depth: u32,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let failed = |message: String| Err(std::io::Error::other(message));
        let count = self.from.read(into)?;
        for &byte in &into[..count] {
            self.line.set(self.line.get() + u64::from(byte == b'\n'));
            self.inside = match (self.inside, byte) {
                (None, b'"') => Some((0, false)),
                (None, b'{' | b'[') if self.depth == MAX_DEPTH => {
                    return failed(format!("more than {MAX_DEPTH} lists and objects are in each other"));
                }
                (None, _) => {
                    self.depth += u32::from(matches!(byte, b'{' | b'['));
                    self.depth = self.depth.saturating_sub(u32::from(matches!(byte, b'}' | b']')));
                    None
                }
                (Some((_, false)), b'"') => None,
                (Some((length, _)), _) if length == MAX_STRING => {
                    return failed(format!("a string is longer than {MAX_STRING} bytes"));
                }
                (Some((length, escaped)), byte) => Some((length + 1, byte == b'\\' && !escaped)),
            };
        }
        Ok(count)
    }
}

struct Reading<'e, 'n> {
    name: &'n str,
    rank: u32,
    /// Line of the last byte that was read.
    line: &'n Cell<u64>,
    ignored: &'n mut Ignored,
    each: Each<'e>,
    form: Form,
    /// Number of nodes and metadata that were read.
    objects: u64,
    /// The error of a node. It is stored here because an error of the parser contains only text.
    failed: Option<TraceError>,
}

impl Reading<'_, '_> {
    /// Handles a node or the metadata. `line` is the line with which it starts.
    fn object<E: de::Error>(&mut self, object: InFile, line: u64) -> Result<(), E> {
        self.objects += 1;
        if self.form == Form::Messages && self.objects == 1 && object.is_metadata() {
            return object.other_keys.first().map_or(Ok(()), |key| {
                Err(E::custom(format!(
                    "the metadata has the key `{key}`; it has `version` and `attr`, and each node is an object of its own"
                )))
            });
        }
        if self.form == Form::Graph && !object.has_id {
            return Err(E::custom("a node has no `Id`, its number"));
        }
        self.ignored.extend(object.other_keys);
        self.ignored.extend(object.other_attributes);
        let name = self.name;
        let at = |message: String| TraceError::line(name, line, message);
        let done = match object.wrong {
            Some(message) => Err(at(format!("node {}: {message}", object.node.id))),
            None => (self.each)(self.rank, object.node, &at),
        };
        done.map_err(|error| {
            self.failed = Some(error);
            E::custom("a node is not valid")
        })
    }
}

/// The object of the form *graph*.
struct Graph<'r, 'e, 'n>(&'r mut Reading<'e, 'n>);

impl<'de> Visitor<'de> for Graph<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a `workload_graph`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "workload_graph" {
                if found {
                    return Err(A::Error::custom("there is a second `workload_graph`; a file has one"));
                }
                found = true;
                map.next_value_seed(Nodes(&mut *self.0))?;
            } else {
                self.0.ignored.add(&CHAKRA, &key);
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found { Ok(()) } else { Err(A::Error::custom("there is no `workload_graph`, the list of nodes")) }
    }
}

/// A list of nodes.
struct Nodes<'r, 'e, 'n>(&'r mut Reading<'e, 'n>);

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
        while nodes.next_element_seed(Object(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// A node or the metadata.
struct Object<'r, 'e, 'n>(&'r mut Reading<'e, 'n>);

impl<'de> DeserializeSeed<'de> for Object<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, which describes a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let line = self.0.line.get();
        self.0.object(InFile::from_map(map)?, line)
    }
}
