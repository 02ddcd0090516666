//! Values in Chakra execution traces in JSON: a node with its keys and attributes. Values that are not used are not stored.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::chakra::{Attribute, ChakraNode};
use super::fields::{CHAKRA, Ignored};
use crate::error::clip;

/// Maximum number of dependencies of a node.
const MAX_DEPENDENCIES: usize = 1 << 20;

/// Names of the kinds of nodes in the order of their codes.
const KINDS: [&str; 11] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
];

/// Attributes that are keys of a node in the form *graph*.
const ATTRIBUTES: [&str; 12] = [
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_size",
    "comm_type",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_root",
    "root",
    "pg_name",
    "involved_dim",
];

/// Types of the values of attributes. The key of a value is its type with `Val` or `List`.
const NUMBERS: [&str; 12] = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
    "sfixed32", "sfixed64",
];

/// A node, or the metadata.
#[derive(Default)]
pub(super) struct InFile {
    pub(super) node: ChakraNode,
    pub(super) has_id: bool,
    has_kind: bool,
    /// Keys that are not used, with values that are not empty.
    pub(super) other_keys: Ignored,
    /// Attributes that are not used.
    pub(super) other_attributes: Ignored,
    /// The first error in an attribute. Attributes of the metadata have no effect.
    pub(super) wrong: Option<String>,
}

impl InFile {
    /// Whether the object has neither a number nor a type, as the metadata.
    pub(super) const fn is_metadata(&self) -> bool {
        !self.has_id && !self.has_kind
    }

    fn set(&mut self, name: &str, value: Attribute<'_>) {
        let set = self.node.set(name, value, &mut self.other_attributes);
        if let Err(message) = set {
            self.wrong.get_or_insert(message);
        }
    }

    pub(super) fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut found = Self::default();
        let mut micros = None;
        let mut waits_for = None;
        while let Some(key) = map.next_key::<String>()? {
            let twice = || A::Error::custom(format!("{} is given twice in a node", clip(&key)));
            match &*key {
                "Id" | "id" => {
                    let Whole(id) = map.next_value()?;
                    found.node.id = id;
                    (!std::mem::replace(&mut found.has_id, true)).then_some(()).ok_or_else(twice)?;
                }
                "NodeType" | "node_type" | "type" => {
                    let Kind(kind) = map.next_value()?;
                    found.node.kind = kind;
                    (!std::mem::replace(&mut found.has_kind, true)).then_some(()).ok_or_else(twice)?;
                }
                "runtime" | "durationMicros" | "duration_micros" => {
                    let value: Option<Whole> = map.next_value()?;
                    micros
                        .replace(value.map_or(0, |Whole(micros)| micros))
                        .map_or(Ok(()), |_| Err(twice()))?;
                }
                "data_deps" | "dataDeps" => {
                    let Dependencies(ids) = map.next_value()?;
                    waits_for.replace(ids).map_or(Ok(()), |_| Err(twice()))?;
                }
                "attr" => map.next_value_seed(Attributes(&mut found))?,
                attribute if ATTRIBUTES.contains(&attribute) => {
                    if let Some(value) = map.next_value::<Option<AnyValue>>()? {
                        found.set(attribute, value.of(attribute).map_err(A::Error::custom)?);
                    }
                }
                other => {
                    let IsEmpty(is_empty) = map.next_value()?;
                    if !is_empty {
                        found.other_keys.add(&CHAKRA, binary_name(other));
                    }
                }
            }
        }
        found.node.micros = micros.unwrap_or(0);
        found.node.waits_for = waits_for.unwrap_or_default();
        Ok(found)
    }
}

/// The name of a key in the binary form.
fn binary_name(key: &str) -> &str {
    match key {
        "ctrlDeps" => "ctrl_deps",
        "startTimeMicros" => "start_time_micros",
        "docString" => "doc_string",
        other => other,
    }
}

/// The list of attributes of a node.
struct Attributes<'f>(&'f mut InFile);

impl<'de> DeserializeSeed<'de> for Attributes<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Attributes<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of attributes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(Named(name, value)) = list.next_element()? {
            self.0.set(&name, value);
        }
        Ok(())
    }
}

/// An attribute with its name.
struct Named(String, Attribute<'static>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an attribute with a `name` and a value, such as `int64Val`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
                let mut name: Option<String> = None;
                let mut value = None;
                while let Some(key) = map.next_key::<String>()? {
                    match &*key {
                        "name" => name = Some(map.next_value()?),
                        "docString" | "doc_string" => drop(map.next_value::<IgnoredAny>()?),
                        _ => {
                            if value.replace(typed(&key, &mut map)?).is_some() {
                                return Err(A::Error::custom(format!(
                                    "an attribute has a second value, {}; it has one",
                                    clip(&key)
                                )));
                            }
                        }
                    }
                }
                let name = name.ok_or_else(|| A::Error::custom("an attribute has no `name`"))?;
                Ok(Named(name, value.unwrap_or(Attribute::Other)))
            }
        }

        from.deserialize_map(Parts)
    }
}

/// The value with a key that states its type.
fn typed<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Attribute<'static>, A::Error> {
    let suffix = |camel: &str, snake: &str| key.strip_suffix(camel).or_else(|| key.strip_suffix(snake));
    match (suffix("Val", "_val"), suffix("List", "_list")) {
        (Some("string"), _) => Ok(Attribute::Text(Cow::Owned(map.next_value()?))),
        (Some("bool"), _) => Ok(Attribute::Number(u64::from(map.next_value::<bool>()?))),
        (Some(number), _) if NUMBERS.contains(&number) => {
            map.next_value::<AnyValue>()?.of(key).map_err(A::Error::custom)
        }
        (_, Some("bool")) => {
            let list: Values = map.next_value()?;
            Ok(list.values.map_or(Attribute::Involved { all: true }, |values| values.0))
        }
        (Some("bytes"), _) | (_, Some("string" | "bytes")) => {
            map.next_value::<IgnoredAny>()?;
            Ok(Attribute::Other)
        }
        (_, Some(number)) if NUMBERS.contains(&number) => {
            map.next_value::<IgnoredAny>()?;
            Ok(Attribute::Other)
        }
        _ => Err(A::Error::custom(format!(
            "an attribute has the key {}; it has a `name` and a value, such as `int64Val` or `stringVal`",
            clip(key)
        ))),
    }
}

/// A list in an object, as the value of an attribute is.
#[derive(Deserialize)]
struct Values {
    #[serde(default)]
    values: Option<AnyValue>,
}

/// A number, a text, true or false, or a list of them.
struct AnyValue(Attribute<'static>);

impl AnyValue {
    /// The value of a key. Numbers may be in quotes.
    fn of(self, key: &str) -> Result<Attribute<'static>, String> {
        match self.0 {
            Attribute::Text(text) if key != "pg_name" => {
                let number = text.parse().ok().map(Attribute::Number);
                let real = || text.parse().ok().map(Attribute::Real);
                number.or_else(real).ok_or_else(|| format!("{key} is {}; must be a number", clip(&text)))
            }
            value @ Attribute::Involved { .. } if key == "involved_dim" => Ok(value),
            Attribute::Involved { .. } => Err(format!("{key} is a list; must be one value")),
            _ if key == "involved_dim" => {
                Err("involved_dim is one value; must be a list of true and false".to_owned())
            }
            value => Ok(value),
        }
    }
}

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = AnyValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, true, false, or a list of them")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<AnyValue, E> {
                Ok(AnyValue(Attribute::Number(u64::from(value))))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<AnyValue, E> {
                Ok(AnyValue(Attribute::Number(number)))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<AnyValue, E> {
                Ok(AnyValue(u64::try_from(number).map_or(Attribute::Real(number as f64), Attribute::Number)))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<AnyValue, E> {
                Ok(AnyValue(Attribute::Real(number)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AnyValue, E> {
                Ok(AnyValue(Attribute::Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AnyValue, A::Error> {
                let mut all = true;
                while let Some(AnyValue(value)) = list.next_element()? {
                    all &= value != Attribute::Number(0);
                }
                Ok(AnyValue(Attribute::Involved { all }))
            }
        }

        from.deserialize_any(Any)
    }
}

/// A whole number, as a number or in quotes.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = AnyValue::deserialize(from)?;
        let wrong = |text: &str| {
            let message = format!("{} is not a whole number of at least 0", clip(text));
            D::Error::custom(message)
        };
        match value.0 {
            Attribute::Number(number) => Ok(Self(number)),
            // Larger numbers are not exact.
            Attribute::Real(real) if real.fract() == 0.0 && (0.0..9e15).contains(&real) => {
                Ok(Self(real as u64))
            }
            Attribute::Real(real) => Err(wrong(&real.to_string())),
            Attribute::Text(text) => text.parse().map(Self).map_err(|_| wrong(&text)),
            Attribute::Involved { .. } | Attribute::Other => Err(wrong("a list")),
        }
    }
}

/// The kind of a node, as its code or its name.
struct Kind(u64);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let AnyValue(value) = AnyValue::deserialize(from)?;
        if let Attribute::Number(code) = value {
            return Ok(Self(code));
        }
        let Attribute::Text(text) = value else {
            return Err(D::Error::custom("the type of a node is neither a code nor a name"));
        };
        let code = KINDS.iter().position(|kind| *kind == text).map(|code| code as u64);
        let code = code.or_else(|| text.parse().ok());
        code.map(Self).ok_or_else(|| {
            let known = KINDS[1..].join(", ");
            D::Error::custom(format!("type {} is not one of {known}", clip(&text)))
        })
    }
}

/// Numbers of the nodes for which a node waits.
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
                while let Some(Whole(id)) = list.next_element()? {
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

/// Whether a value is an empty list or object, an empty text, null, or 0, so that it has no effect.
struct IsEmpty(bool);

impl<'de> Deserialize<'de> for IsEmpty {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = IsEmpty;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<IsEmpty, E> {
                Ok(IsEmpty(true))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<IsEmpty, E> {
                Ok(IsEmpty(false))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<IsEmpty, E> {
                Ok(IsEmpty(number == 0))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<IsEmpty, E> {
                Ok(IsEmpty(false))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<IsEmpty, E> {
                Ok(IsEmpty(number == 0.0))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<IsEmpty, E> {
                Ok(IsEmpty(text.is_empty() || text == "0"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<IsEmpty, A::Error> {
                let mut is_empty = true;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    is_empty = false;
                }
                Ok(IsEmpty(is_empty))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IsEmpty, A::Error> {
                let mut is_empty = true;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    is_empty = false;
                }
                Ok(IsEmpty(is_empty))
            }
        }

        from.deserialize_any(Any)
    }
}
