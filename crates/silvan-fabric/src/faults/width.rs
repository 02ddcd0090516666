//! The width of a link: the number of its lanes that work.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Rate;

/// The usual number of lanes of a link if none is given, as on most InfiniBand links.
const USUAL: u32 = 4;

/// The widths of InfiniBand (IBA vol. 1) and of Ethernet, in lanes.
const WIDTHS: [u32; 5] = [1, 2, 4, 8, 12];

/// The number of lanes that a link keeps, and the number that it usually has, such as "1x" (of 4x) or "2x of
/// 8x".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Width {
    lanes: u32,
    of: u32,
}

/// A text that is not a width that links can keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a smaller width: write for example \"1x\" of a link of 4x, or \"2x of 8x\"; widths are 1x, 2x, 4x, 8x and 12x"
)]
pub struct NotAWidth(String);

impl Width {
    /// The rate that remains of a link's usual rate, rounded down to whole bit/s.
    #[must_use]
    pub fn share_of(self, usual: Rate) -> Rate {
        Rate((u128::from(usual.0) * u128::from(self.lanes) / u128::from(self.of)) as u64)
    }
}

impl FromStr for Width {
    type Err = NotAWidth;

    fn from_str(text: &str) -> Result<Self, NotAWidth> {
        let lanes = |part: &str| part.strip_suffix('x').and_then(|lanes| lanes.parse().ok());
        let (first, of) = match text.split_once(" of ") {
            Some((first, of)) => (first, lanes(of)),
            None => (text, Some(USUAL)),
        };
        match (lanes(first), of) {
            (Some(lanes), Some(of)) if lanes < of && WIDTHS.contains(&lanes) && WIDTHS.contains(&of) => {
                Ok(Self { lanes, of })
            }
            _ => Err(NotAWidth(text.chars().take(60).collect())),
        }
    }
}

impl TryFrom<String> for Width {
    type Error = NotAWidth;

    fn try_from(text: String) -> Result<Self, NotAWidth> {
        text.parse()
    }
}

impl From<Width> for String {
    fn from(width: Width) -> Self {
        width.to_string()
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            USUAL => write!(f, "{}x", self.lanes),
            of => write!(f, "{}x of {of}x", self.lanes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_the_share_of_its_lanes() {
        let rate = |width: &str| width.parse::<Width>().unwrap().share_of(Rate(100_000_000_003)).0;
        assert_eq!(rate("1x"), 25_000_000_000, "rounded down");
        assert_eq!(rate("2x of 12x"), 16_666_666_667);
        for text in ["1x", "2x", "4x of 12x"] {
            assert_eq!(String::from(text.parse::<Width>().unwrap()), text);
        }
        assert_eq!("1x of 4x".parse::<Width>().unwrap().to_string(), "1x");
    }

    #[test]
    fn other_texts_are_not_widths() {
        for text in ["", "4x", "x", "1", "3x", "8x", "2x of 2x", "1x of 5x", "1x of 4", "1x of", "-1x", "1X"]
        {
            assert_eq!(text.parse::<Width>(), Err(NotAWidth(text.to_owned())));
        }
    }
}
