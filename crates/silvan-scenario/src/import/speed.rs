//! Link widths and speeds of InfiniBand, and the data rate that is left after line coding.

use silvan_engine::Rate;

/// Widths a link can have, in lanes; the usual one first, as rates are written with the first
/// that fits.
const WIDTHS: [u64; 5] = [4, 1, 2, 12, 8];

/// Name, signalling rate per lane in bit/s, data bits per coded bits (IBA vol. 2, and the
/// products' data sheets from HDR on, where the quoted rate is that of the data).
const SPEEDS: [(&str, u64, u64, u64); 9] = [
    ("SDR", 2_500_000_000, 8, 10),
    ("DDR", 5_000_000_000, 8, 10),
    ("QDR", 10_000_000_000, 8, 10),
    ("FDR10", 10_312_500_000, 64, 66),
    ("FDR", 14_062_500_000, 64, 66),
    ("EDR", 25_781_250_000, 64, 66),
    ("HDR", 50_000_000_000, 1, 1),
    ("NDR", 100_000_000_000, 1, 1),
    ("XDR", 200_000_000_000, 1, 1),
];

/// The words of [`SPEEDS`], for messages.
pub(super) const KNOWN: &str = "SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR";

/// Data rate of a number of lanes, rounded down to whole bit/s.
fn data_rate(lanes: u64, signalling: u64, data: u64, coded: u64) -> Rate {
    Rate(lanes * signalling * data / coded)
}

/// Reads "4xQDR". `None` where the text is not a width and a speed that exist.
pub(super) fn parse(text: &str) -> Option<Rate> {
    let (width, name) = text.split_once('x')?;
    let lanes = *WIDTHS.iter().find(|lanes| lanes.to_string() == width)?;
    let &(_, signalling, data, coded) = SPEEDS.iter().find(|speed| speed.0 == name)?;
    Some(data_rate(lanes, signalling, data, coded))
}

/// Writes a rate as width and speed; `None` where no InfiniBand link has it.
pub(super) fn name(rate: Rate) -> Option<String> {
    WIDTHS.iter().find_map(|&lanes| {
        let speed = SPEEDS.iter().find(|s| data_rate(lanes, s.1, s.2, s.3) == rate)?;
        Some(format!("{lanes}x{}", speed.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_rates_are_those_after_line_coding() {
        let table = [
            ("1xSDR", 2_000_000_000),
            ("4xSDR", 8_000_000_000),
            ("4xDDR", 16_000_000_000),
            ("4xQDR", 32_000_000_000),
            ("12xQDR", 96_000_000_000),
            ("4xFDR10", 40_000_000_000),
            ("4xFDR", 54_545_454_545),
            ("4xEDR", 100_000_000_000),
            ("2xHDR", 100_000_000_000),
            ("4xHDR", 200_000_000_000),
            ("4xNDR", 400_000_000_000),
            ("4xXDR", 800_000_000_000),
        ];
        for (text, bits) in table {
            assert_eq!(parse(text), Some(Rate(bits)), "{text}");
        }
        for text in ["4xqdr", "3xQDR", "04xQDR", "x", "4x", "xQDR", "4QDR", "99999999999999999999xQDR"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_read_back_as_the_same_rate() {
        for lanes in WIDTHS {
            for (speed, ..) in SPEEDS {
                let rate = parse(&format!("{lanes}x{speed}")).unwrap();
                assert_eq!(parse(&name(rate).unwrap()), Some(rate));
            }
        }
        assert_eq!(name(Rate::from_gbit(32)).as_deref(), Some("4xQDR"));
        assert_eq!(name(Rate(13_500_000_000)), None);
    }
}
