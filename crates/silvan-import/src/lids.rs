//! The LIDs of a port: a base LID and the LID mask control (LMC).

use super::notes::{Notes, What};
use super::scan::{self, Cursor};
use super::{ImportError, MAX_UNICAST_LID, clip};

/// Maximum LMC: a port has up to 128 LIDs.
const MAX_LMC: u8 = 7;
/// The permissive LID, which a port has until a subnet manager configures it.
const NOT_CONFIGURED: u16 = 0xffff;

/// Consecutive LIDs of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lids {
    /// The first LID, a multiple of the number of LIDs.
    pub base: u16,
    /// There are 2^LMC LIDs.
    pub lmc: u8,
}

impl Lids {
    /// Checks that a unicast LID `base` is a multiple of the number of LIDs. The other LIDs are then unicast
    /// LIDs too, because the first multicast LID is a multiple of 2^[`MAX_LMC`].
    pub fn new(line: &Cursor, base: u16, lmc: u8) -> Result<Self, ImportError> {
        let count = 1 << lmc;
        if !base.is_multiple_of(count) {
            return Err(line.error(format!(
                "the LID is {base} with LMC {lmc}; it must be a multiple of {count}, the number of LIDs of the port"
            )));
        }
        Ok(Self { base, lmc })
    }

    /// All LIDs, in order.
    pub fn all(self) -> std::ops::Range<u16> {
        self.base..self.base + (1 << self.lmc)
    }
}

/// Parses a LID: decimal, or hexadecimal with `0x`. Returns `None` for a port without a LID, which has 0, or
/// 65535 before it is configured.
pub(super) fn lid(line: &Cursor, text: &str, notes: &Notes) -> Result<Option<u16>, ImportError> {
    known(line, scan::lid(text), text, notes)
}

/// Checks a LID that was parsed from `text`.
pub(super) fn known(
    line: &Cursor,
    lid: Option<u16>,
    text: &str,
    notes: &Notes,
) -> Result<Option<u16>, ImportError> {
    match lid {
        Some(0) => Ok(None),
        Some(NOT_CONFIGURED) => {
            notes.add(What::NoLid, line.line);
            Ok(None)
        }
        Some(lid) if lid <= MAX_UNICAST_LID => Ok(Some(lid)),
        _ => Err(line.error(format!(
            "the LID is {}; it must be a number from 0 to {MAX_UNICAST_LID}, or 65535 for a port that is not \
             configured",
            clip(text)
        ))),
    }
}

/// Parses an LMC from 0 to 7.
pub(super) fn lmc(line: &Cursor, text: &str) -> Result<u8, ImportError> {
    let lmc = text.parse().ok().filter(|&lmc: &u8| lmc <= MAX_LMC && text.len() == 1);
    lmc.ok_or_else(|| {
        line.error(format!("the LMC is {}; it must be a number from 0 to {MAX_LMC}", clip(text)))
    })
}
