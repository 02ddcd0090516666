//! Reads YAML, and JSON as a part of it, with limits on memory. Anchors, aliases, tags and several documents are refused.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScanError, Span};

use super::{ImportError, clip};

/// Maximum number of values of a file, including tables and lists.
const MAX_VALUES: usize = 2_000_000;
/// Maximum depth of tables and lists within each other.
const MAX_DEPTH: usize = 32;

/// A value, and the line at which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value<'t> {
    pub line: usize,
    pub content: Content<'t>,
}

/// The keys and values of a table, in the order of the file.
pub(super) type Entries<'t> = Vec<(Cow<'t, str>, Value<'t>)>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content<'t> {
    /// A text, number or other value without parts.
    Text(Cow<'t, str>),
    List(Vec<Value<'t>>),
    Table(Entries<'t>),
}

/// A table or list that has not ended.
enum Open<'t> {
    List(usize, Vec<Value<'t>>),
    /// With a key whose value follows.
    Table(usize, Entries<'t>, Option<Cow<'t, str>>),
}

/// Reads a document; `origin` is the name of the file in messages.
pub(super) fn parse<'t>(text: &'t str, origin: &str) -> Result<Value<'t>, ImportError> {
    let mut reader = Reader { origin, open: Vec::new(), root: None, values: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error: ScanError| {
            ImportError::at(origin, error.marker().line(), format!("is not valid YAML: {}", error.info()))
        })?;
        reader.event(event, span)?;
    }
    reader.root.ok_or_else(|| ImportError::new(origin, "is empty"))
}

struct Reader<'t, 'o> {
    origin: &'o str,
    open: Vec<Open<'t>>,
    root: Option<Value<'t>>,
    values: usize,
}

impl<'t> Reader<'t, '_> {
    fn wrong(&self, line: usize, what: impl Into<String>) -> ImportError {
        ImportError::at(self.origin, line, what)
    }

    fn event(&mut self, event: Event<'t>, span: Span) -> Result<(), ImportError> {
        let line = span.start.line();
        match event {
            Event::Alias(_) => Err(self.wrong(line, "aliases (*name) are not read; write the value out")),
            Event::Scalar(_, _, anchor, ref tag)
            | Event::SequenceStart(anchor, ref tag)
            | Event::MappingStart(anchor, ref tag)
                if anchor != 0 || tag.is_some() =>
            {
                Err(self.wrong(line, "anchors (&name) and tags (!name) are not read; leave them out"))
            }
            Event::Scalar(text, ..) => self.scalar(line, text),
            Event::SequenceStart(..) => self.start(line, Open::List(line, Vec::new())),
            Event::MappingStart(..) => self.start(line, Open::Table(line, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(line),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.wrong(line, "a second document begins; a file has one"))
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, line: usize, open: Open<'t>) -> Result<(), ImportError> {
        if self.open.len() == MAX_DEPTH {
            return Err(self.wrong(line, format!("tables and lists are nested more than {MAX_DEPTH} times")));
        }
        if let Some(Open::Table(_, _, None)) = self.open.last() {
            return Err(self.wrong(line, "a key must be a text"));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, line: usize, text: Cow<'t, str>) -> Result<(), ImportError> {
        match self.open.last_mut() {
            Some(Open::Table(_, _, key @ None)) => {
                *key = Some(text);
                Ok(())
            }
            _ => self.add(Value { line, content: Content::Text(text) }),
        }
    }

    fn end(&mut self, line: usize) -> Result<(), ImportError> {
        let value = match self.open.pop() {
            Some(Open::List(line, list)) => Value { line, content: Content::List(list) },
            Some(Open::Table(line, entries, _)) => {
                let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_ref()).collect();
                keys.sort_unstable();
                if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                    let again = entries.iter().rev().find(|(key, _)| key == twice[0]);
                    let what = format!("the key {} is given twice", clip(twice[0]));
                    return Err(self.wrong(again.map_or(line, |(_, value)| value.line), what));
                }
                Value { line, content: Content::Table(entries) }
            }
            None => return Err(self.wrong(line, "a table or list ends that has not started")),
        };
        self.add(value)
    }

    /// Adds a value to the table or list that contains it.
    fn add(&mut self, value: Value<'t>) -> Result<(), ImportError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.wrong(value.line, format!("the file has more than {MAX_VALUES} values")));
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Open::List(_, list)) => list.push(value),
            Some(Open::Table(_, entries, key)) => {
                // The start of a table or list without key was refused.
                let key = key.take().unwrap_or_default();
                entries.push((key, value));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &Value) -> String {
        match &value.content {
            Content::Text(text) => format!("{text}@{}", value.line),
            Content::List(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Content::Table(entries) => {
                let entry = |(key, value): &(Cow<str>, Value)| format!("{key}={}", shown(value));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn yaml_and_json_give_the_same_values() {
        let yaml = "a: 1\nb:\n- x: 'y z'\n- [2, 3]\n";
        assert_eq!(shown(&parse(yaml, "t").unwrap()), "{a=1@1 b=[{x=y z@3} [2@4 3@4]]}");
        let json = "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t{\"x\": \"y z\"},\n\t\t[2, 3]\n\t]\n}\n";
        assert_eq!(shown(&parse(json, "t").unwrap()), "{a=1@2 b=[{x=y z@4} [2@5 3@5]]}");
    }

    #[test]
    fn what_could_exhaust_memory_is_refused() {
        let message = |text: &str| parse(text, "t").map_err(|error| error.to_string()).err().unwrap();
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
        assert_eq!(message(bomb), "t:1: anchors (&name) and tags (!name) are not read; leave them out");
        assert_eq!(message(&"[".repeat(100)), "t:1: tables and lists are nested more than 32 times");
        assert_eq!(
            message(&"- x\n".repeat(MAX_VALUES + 1)),
            "t:2000001: the file has more than 2000000 values"
        );
        assert_eq!(message("a: 1\nb: 2\na: 3\n"), "t:3: the key `a` is given twice");
        assert_eq!(message("--- a\n--- b\n"), "t:2: a second document begins; a file has one");
        assert_eq!(message("[a]: 1\n"), "t:1: a key must be a text");
        assert_eq!(message(""), "t: is empty");
        assert!(message("a: b: c\n").starts_with("t:1: is not valid YAML: "));
    }
}
