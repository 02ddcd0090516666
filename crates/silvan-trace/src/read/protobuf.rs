//! Decodes the subset of the protobuf encoding that Chakra needs.
//!
//! No library is used, because a library would decode whole nodes, including the shapes of all tensors,
//! before any limit could be checked. It would also need a schema compiler, although only a few fields of
//! a node are used.

use std::io::{BufRead, Read};

/// Maximum number of bytes of a message.
pub(super) const MAX_MESSAGE: u64 = 16 << 20;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
}

impl Value<'_> {
    /// The number in a field with any of the unsigned encodings; `None` if the field contains bytes.
    pub(super) const fn number(self) -> Option<u64> {
        match self {
            Self::Varint(number) | Self::Fixed64(number) => Some(number),
            Self::Fixed32(number) => Some(number as u64),
            Self::Bytes(_) => None,
        }
    }
}

/// Decodes a number with seven bits per byte.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("the message ends inside a number")?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number has more than ten bytes".to_owned())
}

/// The fields of a message.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: u64) -> Result<&'b [u8], String> {
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(format!("a field of {count} bytes is longer than its message"));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N as u64)?;
        taken.try_into().map_err(|_| "the message ends inside a number".to_owned())
    }

    fn field(&mut self) -> Result<(u64, Value<'b>), String> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = varint(&mut self.0)?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            other => return Err(format!("a field of type {other}: protobuf has 0, 1, 2 and 5")),
        };
        Ok((key >> 3, value))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Value<'b>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Decodes a repeated number, which is either packed or has one field per element.
pub(super) fn numbers(value: Value<'_>, mut each: impl FnMut(u64)) -> Result<(), String> {
    match value {
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                each(varint(&mut packed)?);
            }
        }
        Value::Varint(number) => each(number),
        _ => return Err("a list of numbers has an unknown encoding".to_owned()),
    }
    Ok(())
}

/// Reads length-prefixed messages.
pub(super) struct Messages<R> {
    from: R,
    /// Position at which the last message starts.
    pub(super) offset: u64,
    next: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Messages<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { from, offset: 0, next: 0, bytes: Vec::new() }
    }

    /// The next message; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, String> {
        self.offset = self.next;
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let mut head = Vec::with_capacity(10);
        while head.last().is_none_or(|byte| byte & 0x80 != 0) {
            let count = self.from.by_ref().take(1).read_to_end(&mut head).map_err(unreadable)?;
            if count == 0 {
                let whole = head.is_empty();
                return if whole { Ok(None) } else { Err("the file ends inside a length".to_owned()) };
            }
            if head.len() > 10 {
                return Err("a length has more than ten bytes".to_owned());
            }
        }
        let length = varint(&mut &head[..])?;
        if length > MAX_MESSAGE {
            return Err(format!("a message of {length} bytes; the maximum is {MAX_MESSAGE}"));
        }
        self.bytes.clear();
        self.from.by_ref().take(length).read_to_end(&mut self.bytes).map_err(unreadable)?;
        if self.bytes.len() as u64 != length {
            let found = self.bytes.len();
            return Err(format!("the file ends inside a message: {found} of its {length} bytes exist"));
        }
        self.next = self.offset + head.len() as u64 + length;
        Ok(Some(&self.bytes))
    }
}
