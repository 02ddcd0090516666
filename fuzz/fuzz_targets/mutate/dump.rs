//! Generates forwarding tables of the small test fabric in both formats.

use std::fmt::Write;

use silvan_engine::random::Stream;

pub const WORDS: &[&str] = &[
    "Unicast lids [0-9] of switch Lid 2 guid 0x0002c90200000000 ('swA'):",
    "Unicast lids [0x0-0x9] of switch DR path slid 0; dlid 0; 0,1 guid 0x0002c90200000010 (swB):",
    "Lid  Out   Destination",
    "lids dumped",
    "valid lids dumped",
    "portguid",
    "guid",
    "Switch",
    "Channel Adapter",
    "0xbfff",
    "0xc000",
    "0x0040",
    "255",
    "swA",
    "swB",
    "node-0",
    "'it's (so)'",
    ")",
    "'",
    "\u{e9}",
];

/// GUID and name of the node with a LID, and whether it is a switch. Switches have the LIDs 2 and 3.
fn about(lid: u32) -> (u64, String, bool) {
    match lid {
        2 | 3 => (
            0x0002_c902_0000_0000 + 0x10 * u64::from(lid - 2),
            format!("sw{}", ["A", "B"][lid as usize - 2]),
            true,
        ),
        _ => {
            let number = if lid == 1 { 0 } else { lid.saturating_sub(3) };
            (0x0002_c903_0000_0001 + 0x10 * u64::from(number), format!("node-{number}"), false)
        }
    }
}

pub fn draw(random: &mut Stream) -> String {
    // One of three texts has shifted LIDs, because a netlist has none.
    let shift = if random.chance(1, 3) { random.below(70) } else { 0 };
    let named = random.chance(2, 3);
    let top = 9 + shift + if random.chance(1, 4) { random.below(200) } else { 0 };
    let mut text = String::new();
    for switch in if random.chance(1, 2) { [2, 3] } else { [3, 2] } {
        let (guid, name, _) = about(switch);
        if named {
            let lid = switch + shift;
            let _ =
                writeln!(text, "Unicast lids [0-{top}] of switch Lid {lid} guid 0x{guid:016x} ('{name}'):");
        } else {
            let _ = writeln!(
                text,
                "Unicast lids [0x0-0x{top:x}] of switch DR path slid 0; dlid 0; 0,1 guid 0x{guid:016x} ({name}):"
            );
            text.push_str("  Lid  Out   Destination\n       Port     Info \n");
        }
        let entries = table(&mut text, switch, shift, named, random);
        let _ = writeln!(
            text,
            "{} {}lids dumped",
            if named { top } else { entries },
            if named { "" } else { "valid " }
        );
    }
    text
}

fn table(text: &mut String, switch: u32, shift: u32, named: bool, random: &mut Stream) -> u32 {
    let mut entries = 0;
    for lid in 1..=9 {
        let (guid, name, is_switch) = about(lid);
        let port = match random.below(20) {
            _ if lid == switch => 0,
            0 => 255,
            1 => continue,
            _ => 1 + random.below(8),
        };
        entries += 1;
        let _ = write!(text, "0x{:04x} {port:03} ", lid + shift);
        if named && !random.chance(1, 12) {
            let kind = if is_switch { "Switch" } else { "Channel Adapter" };
            let _ = write!(text, "# {kind} portguid 0x{guid:016x}: '{name}'");
        }
        text.push('\n');
    }
    entries
}
