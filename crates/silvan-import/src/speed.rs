//! Link widths and speeds of InfiniBand, and the data rates after line coding.

use silvan_engine::Rate;

/// Valid link widths in lanes. The usual width comes first, because the first width that matches a rate is
/// used for output.
const WIDTHS: [u64; 5] = [4, 1, 2, 12, 8];

/// Name, signaling rate per lane in bit/s, data bits and coded bits. The source is IBA vol. 2. The values for
/// HDR and later are the data rates in the data sheets of products.
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

/// The names of [`SPEEDS`], for messages.
pub(super) const KNOWN: &str = "SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR";

/// Data rate of a number of lanes, rounded down to whole bit/s.
fn data_rate(lanes: u64, signaling: u64, data: u64, coded: u64) -> Rate {
    Rate(lanes * signaling * data / coded)
}

/// The rate for a width and speed such as "4xQDR"; `None` if the text is not a valid width and speed.
pub(super) fn parse(text: &str) -> Option<Rate> {
    let (width, name) = text.split_once('x')?;
    let lanes = *WIDTHS.iter().find(|lanes| lanes.to_string() == width)?;
    let &(_, signaling, data, coded) = SPEEDS.iter().find(|speed| speed.0 == name)?;
    Some(data_rate(lanes, signaling, data, coded))
}

/// The lane speeds in lists of links for each of [`SPEEDS`]: signaling rates in Gbit/s, which some tools
/// round.
const LANES: [(&str, &[&str]); 9] = [
    ("SDR", &["2.5"]),
    ("DDR", &["5", "5.0"]),
    ("QDR", &["10", "10.0"]),
    ("FDR10", &["FDR10", "10.3125"]),
    ("FDR", &["14", "14.0625"]),
    ("EDR", &["25", "25.78125"]),
    ("HDR", &["50", "53.125"]),
    ("NDR", &["100", "106.25"]),
    ("XDR", &["200", "212.5"]),
];

/// Parses the width "4x" or "4X", and the lane speed "25" or "25.78125".
pub(super) fn of_lane(width: &str, lane: &str) -> Option<Rate> {
    let width = width.strip_suffix(['x', 'X'])?;
    let (name, _) = LANES.iter().find(|(_, texts)| texts.contains(&lane))?;
    parse(&format!("{width}x{name}"))
}

/// The width of a link rate, and its lane speed as written in lists of links; `None` for an unknown rate.
pub(super) fn lane(rate: Rate) -> Option<(u64, &'static str)> {
    let name = name(rate)?;
    let (width, speed) = name.split_once('x')?;
    let (_, texts) = LANES.iter().find(|(name, _)| *name == speed)?;
    Some((width.parse().ok()?, texts[0]))
}

/// The rate for the codes in PortInfo: LinkWidthActive, LinkSpeedActive and, for FDR and faster links,
/// LinkSpeedExtActive (InfiniBand Architecture Specification, vol. 1, 14.2.5.6). Some tools print
/// LinkSpeedExtActive, shifted by eight bits, in the field of LinkSpeedActive. `None` if there is no such
/// link.
pub(super) fn of_codes(width: u64, speed: u64, extended: u64) -> Option<Rate> {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };
    let extended = if extended == 0 { speed >> 8 } else { extended };
    let name = match (extended, speed) {
        (0x100, _) => "FDR10",
        (1, _) => "FDR",
        (2, _) => "EDR",
        (4, _) => "HDR",
        (8, _) => "NDR",
        (16, _) => "XDR",
        (0, 1) => "SDR",
        (0, 2) => "DDR",
        (0, 4) => "QDR",
        _ => return None,
    };
    parse(&format!("{lanes}x{name}"))
}

/// Returns the width and speed of a rate; `None` if no InfiniBand link has it.
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
    fn lanes_and_codes_are_the_same_rates() {
        for lanes in WIDTHS {
            for (speed, texts) in LANES {
                let rate = parse(&format!("{lanes}x{speed}")).unwrap();
                assert!(texts.iter().all(|text| of_lane(&format!("{lanes}X"), text) == Some(rate)));
                let (width, text) = lane(rate).unwrap();
                assert_eq!(of_lane(&format!("{width}x"), text), Some(rate));
            }
        }
        let gbit = |width, speed, extended| of_codes(width, speed, extended).map(Rate::as_gbit_f64);
        assert_eq!(gbit(2, 4, 0), Some(32.0));
        assert_eq!((gbit(2, 4, 2), gbit(2, 0x200, 0)), (Some(100.0), Some(100.0)));
        assert_eq!((gbit(16, 0x400, 0), gbit(2, 0x10000, 0)), (Some(100.0), Some(40.0)));
        assert_eq!((gbit(3, 4, 0), gbit(2, 3, 0), gbit(2, 4, 3)), (None, None, None));
        assert_eq!((of_lane("4", "10"), of_lane("4x", "11")), (None, None));
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
