//! Tests of the readers of forwarding tables.

use std::path::Path;

use super::*;
use crate::{ibnetdiscover, read_text};

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics");
    read_text(&root.join(name)).unwrap()
}

fn topology(name: &str) -> Topology {
    ibnetdiscover::parse(&file(name), name, ibnetdiscover::Options::default()).unwrap().topology
}

fn small() -> Topology {
    topology("sw2-h7/updn/ibnetdiscover.topo")
}

const NAMED: &str = "sw2-h7/updn/opensm-lfts.dump";
const BARE: &str = "sw2-h7/updn/dump_fts.lft";

/// The message for a dump of the small fabric with one text replaced.
fn message(name: &str, from: &str, to: &str) -> String {
    let text = file(name);
    assert!(text.contains(from), "the text to replace must be there: {from}");
    parse(&text.replacen(from, to, 1), "f", &small()).expect_err("the reader must refuse it").to_string()
}

#[test]
fn both_forms_give_the_same_tables() {
    // swA has nodes 0 to 2 on ports 1 to 3, swB nodes 3 to 6 on ports 1 to 4; port 8 connects them.
    let expected = Tables::new(vec![vec![1, 2, 3, 8, 8, 8, 8], vec![8, 8, 8, 1, 2, 3, 4]]);
    assert_eq!(parse(&file(NAMED), "f", &small()), Ok(expected.clone()));
    assert_eq!(parse(&file(BARE), "f", &small()), Ok(expected.clone()));
    assert_eq!(parse(&file(NAMED).replace('\n', "\r\n"), "f", &small()), Ok(expected), "Windows line ends");
    for engine in ["ftree", "updn", "minhop"] {
        let topology = topology(&format!("4ary3tree-h64/{engine}/ibnetdiscover.topo.gz"));
        let named = parse_all(&file(&format!("4ary3tree-h64/{engine}/opensm-lfts.dump.gz")), "f", &topology);
        let bare = parse_all(&file(&format!("4ary3tree-h64/{engine}/dump_fts.lft.gz")), "f", &topology);
        assert!(named.is_ok(), "{named:?}");
        assert_eq!(named, bare, "{engine}");
    }
}

#[test]
fn a_netlist_gets_its_lids_from_the_dump() {
    let mut netlist = topology("sw2-h7/input.topo");
    let forwarding = parse_all(&file(NAMED), "f", &netlist).unwrap();
    forwarding.apply_lids(&mut netlist);
    assert_eq!((&netlist.hosts, &netlist.switches), (&small().hosts, &small().switches));
    assert_eq!(forwarding, parse_all(&file(NAMED), "f", &small()).unwrap());

    let error = parse(&file(BARE), "f", &topology("sw2-h7/input.topo")).unwrap_err().to_string();
    assert_eq!(
        error,
        "f: host \"node-0\" has no LID in the topology, and the dump does not name it; take the topology from \
         `ibnetdiscover` on the running fabric, or a dump with names (opensm-lfts.dump)"
    );
}

#[test]
fn writing_gives_the_original_file_again() {
    let fabrics = [
        ("sw2-h7/updn/ibnetdiscover.topo", NAMED),
        ("4ary3tree-h64/updn/ibnetdiscover.topo.gz", "4ary3tree-h64/updn/opensm-lfts.dump.gz"),
        ("ft2-36p-h648/ftree/ibnetdiscover.topo.gz", "ft2-36p-h648/ftree/opensm-lfts.dump.gz"),
    ];
    for (wiring, dump) in fabrics {
        let (topology, text) = (topology(wiring), file(dump));
        let forwarding = parse_all(&text, "f", &topology).unwrap();
        let written = write(&topology, &forwarding.tables, Some(&forwarding.switch_routes)).unwrap();
        assert!(written == text, "{dump} is not reproduced byte for byte");
    }
}

#[test]
fn routes_to_switches_are_made_where_none_are_given() {
    let topology = topology("4ary3tree-h64/ftree/ibnetdiscover.topo.gz");
    let tables = parse(&file("4ary3tree-h64/ftree/opensm-lfts.dump.gz"), "f", &topology).unwrap();
    let written = write(&topology, &tables, None).unwrap();
    let back = parse_all(&written, "f", &topology).unwrap();
    assert_eq!(back.tables, tables);
    let wiring = topology.wiring();
    for from in 0..topology.switches.len() {
        for to in 0..topology.switches.len() {
            let (mut at, mut hops) = (from, 0);
            while at != to {
                let port = usize::from(back.switch_routes.out[at][to]);
                assert_ne!(port, 0, "no route from {at} to {to}");
                let Some((far, _)) = wiring.switches[at][port - 1] else {
                    panic!("port {port} of {at} is not connected")
                };
                let silvan_network::topology::NodeRef::Switch(next) = far.node else {
                    panic!("a route to a switch must not pass through a host")
                };
                (at, hops) = (next as usize, hops + 1);
                assert!(hops <= 4, "a route between switches of a 3-level tree has at most 4 hops");
            }
        }
    }
}

#[test]
fn topologies_without_addresses_are_matched_by_name() {
    let mut bare = small();
    bare.hosts.iter_mut().for_each(|h| (h.lid, h.guid) = (None, None));
    bare.switches.iter_mut().for_each(|s| (s.lid, s.guid) = (None, None));
    let tables = parse(&file(NAMED), "f", &small()).unwrap();
    let written = write(&bare, &tables, None).unwrap();
    let first = "Unicast lids [0-9] of switch Lid 8 guid 0x0200000200000000 ('swA'):\n\
                 0x0001 001 # Channel Adapter portguid 0x0200000300000001: 'node-0'\n";
    assert!(written.starts_with(first), "{written}");
    assert_eq!(parse(&written, "f", &bare), Ok(tables));
}

#[test]
fn gaps_in_the_lids_are_fine() {
    // OpenSM's count is the top LID even if some LIDs are missing. The LIDs of removed nodes remain
    // in the dump.
    let text = file(NAMED)
        .replace("[0-9]", "[0-70]")
        .replace("9 lids dumped", "0x0046 008 # unknown node and type\n70 lids dumped");
    assert_eq!(parse(&text, "f", &small()), parse(&file(NAMED), "f", &small()));
    let text = file(BARE).replace("0x0001 008", "0x0001 255");
    let tables = parse(&text, "f", &small()).unwrap();
    assert_eq!(tables.out[1][0], Tables::NO_ROUTE, "255 is no route");
}

#[test]
fn invalid_tables_are_reported() {
    let form = "the form is `Unicast lids [0-9] of switch Lid 2 guid 0x0002c90200000000 ('name'):`";
    let same = "take both files from the same fabric at the same time";
    let cases = [
        ("[0-9]", "[0-9", format!("f:1: `Unicast lids [0-9 of switch Lid 2 guid 0x0002c90200000000 ('...` is not complete; {form}")),
        (" guid 0x0002c90200000000 (", " (", format!("f:1: `Unicast lids [0-9] of switch Lid 2 ('swA'):` is not complete; {form}")),
        ("[0-9]", "[0-49152]", "f:1: the LIDs are [0-49152]; they must be two numbers from 0 to 49151".into()),
        ("[0-9]", "[9]", "f:1: the LIDs are [9]; they must be two numbers from 0 to 49151".into()),
        ("guid 0x0002c90200000000 (", "guid 0xzz (", "f:1: the switch GUID is `0xzz`; a valid one is 0x0002c90200000000".into()),
        ("guid 0x0002c90200000000 (", "guid 0x77 (", format!("f:1: switch 0x0000000000000077 (`swA`) is not in the topology; {same}")),
        ("Lid 3 guid 0x0002c90200000010", "Lid 2 guid 0x0002c90200000000", "f:12: switch \"swA\" already has a table in line 1; only one table is allowed".into()),
        ("0x0003 008", "0x000a 008", "f:4: the LID is `0x000a`; this table has LIDs from 0x0001 to 0x0009 (line 1)".into()),
        ("0x0003 008", "0x0000 008", "f:4: the LID is `0x0000`; this table has LIDs from 0x0001 to 0x0009 (line 1)".into()),
        ("0x0003 008", "0x10003 008", "f:4: the LID is `0x10003`; this table has LIDs from 0x0001 to 0x0009 (line 1)".into()),
        ("0x0003 008", "0x0003 009", "f:4: the port is `009`; switch \"swA\" has ports 0 to 8".into()),
        ("0x0003 008", "0x0003 -8", "f:4: the port is `-8`; switch \"swA\" has ports 0 to 8".into()),
        ("0x0003 008 #", "0x0003", "f:4: the port is `Switch`; switch \"swA\" has ports 0 to 8".into()),
        ("0x0003 008 # Switch portguid 0x0002c90200000010: 'swB'", "0x0002 008", "f:4: LID 0x0002 appears twice in the table of \"swA\"; it must appear once".into()),
        (
            "0002c90300000001: 'node-0'",
            "0002c90300000001",
            "f:2: the port GUID is incomplete: `0x0002c90300000001`; the form is `portguid 0x0002c90300000001: 'name'`".into(),
        ),
        (
            "0x0001 001 # Channel Adapter portguid 0x0002c90300000001",
            "0x0001 001 # Channel Adapter portguid 0x0002c90300000011",
            format!("f:2: LID 0x0001 is that of \"node-1\" here, but of \"node-0\" elsewhere; {same}"),
        ),
        (
            "0x0001 001 # Channel Adapter portguid 0x0002c90300000001",
            "0x0001 000 # Channel Adapter portguid 0x0002c90300000001",
            "f:1: the table of switch \"swA\" sends LID 0x0001 to port 0, the switch itself, but it is that of host \"node-0\"".into(),
        ),
        ("9 lids dumped", "8 lids dumped", "f:11: 8 LIDs should have been dumped, but the table from line 1 on has 9 entries; lines are missing or added".into()),
        ("9 lids dumped", "many lids dumped", "f:11: `many lids dumped` does not start with a number; the form is `9 lids dumped`".into()),
        ("9 lids dumped", "", "f:1: the table of switch \"swA\" has 9 entries and then no line `N lids dumped`; the file is truncated".into()),
        ("Unicast lids [0-9]", "# Unicast lids [0-9]", "f:2: this entry is outside of a table; a line `Unicast lids [...] of switch ...` must come first".into()),
        ("Unicast lids [0-9]", "9 lids dumped\nUnicast lids [0-9]", "f:1: a table ends here, but none was started".into()),
        (
            "Unicast lids [0-9]",
            "Multicast mlids [0-9]",
            "f:1: `Multicast mlids [0-9] of switch Lid 2 guid 0x0002c9020000000...` is not a line of a forwarding table dump; \
             expected `Unicast lids ...`, an entry `0x0001 001` or `N lids dumped`"
                .into(),
        ),
        ("0x0003 008", "0x0003\0 008", "f:4: the line contains the control character U+0000; this must be plain text".into()),
    ];
    for (from, to, expected) in cases {
        assert_eq!(message(NAMED, from, to), expected, "{from} -> {to}");
    }
}

#[test]
fn missing_tables_and_entries_are_reported() {
    let (text, topology) = (file(NAMED), small());
    let error = |text: &str, topology: &Topology| parse(text, "f", topology).unwrap_err().to_string();
    assert_eq!(
        error("", &topology),
        "f: switch \"swA\" (0x0002c90200000000) has no table; the dump must have one for every switch"
    );
    let first = &text[..text.find("Unicast lids [0-9] of switch Lid 3").unwrap()];
    assert_eq!(
        error(first, &topology),
        "f: switch \"swB\" (0x0002c90200000010) has no table; the dump must have one for every switch"
    );
    let cut = &text[..text.len() - 60];
    assert_eq!(
        error(cut, &topology),
        "f:12: the table of switch \"swB\" has 9 entries and then no line `N lids dumped`; the file is truncated"
    );
    let lost = text
        .replace("0x0005 003 # Channel Adapter portguid 0x0002c90300000021: 'node-2'\n", "")
        .replace("0x0005 008 # Channel Adapter portguid 0x0002c90300000021: 'node-2'\n", "");
    assert_eq!(
        error(&lost, &topology),
        "f: no table has an entry for LID 0x0005 of host \"node-2\"; the dump must be of the same fabric at the same time"
    );
    let mut at_64 = topology.clone();
    at_64.hosts[6].lid = Some(64);
    let dropped = file(BARE)
        .replace("[0x0-0x9]", "[0x0-0x40]")
        .replace("0x0009 004 \n", "")
        .replace("0x0009 008 \n", "")
        .replace("9 valid lids dumped", "8 valid lids dumped");
    assert_eq!(
        error(&dropped, &at_64),
        "f: no table has an entry for LID 0x0040 of host \"node-6\"; `dump_fts` omits the last LID if it is a \
         multiple of 64; take the dump from OpenSM (opensm-lfts.dump)"
    );
}

#[test]
fn topologies_beyond_the_address_space_are_rejected_before_anything_is_allocated() {
    let topology = Topology { switches: vec![small().switches[0].clone(); 60_000], ..Topology::default() };
    let error = parse("", "f", &topology).unwrap_err().to_string();
    assert_eq!(error, "f: 0 hosts and 60000 switches are too many for unicast forwarding tables");
    let error = write(&topology, &Tables::new(vec![]), None).unwrap_err().to_string();
    assert_eq!(error, "60000 hosts and switches need 60000 LIDs; InfiniBand has 49151");
}

#[test]
fn tables_of_ibdiagnet_are_read_where_a_switch_has_one() {
    let plain = lft_fdbs();
    let expected = parse_all(&plain, "f", &small());
    assert!(expected.is_ok(), "{expected:?}");
    // The number of the table may precede or follow the line of the switch, and a comment may come
    // first.
    for (from, to) in [("LID    :", "PLFT_NUM: 0\nLID    :"), ("dump_ucast", "PLFT_NUM: 0\ndump_ucast")] {
        let text = format!("# ibdiagnet\n{}", plain.replace(from, to));
        assert_ne!(text, plain);
        assert_eq!(parse_all(&text, "f", &small()), expected, "{to}");
    }
    let second = plain.replacen("LID    :", "PLFT_NUM: 1\nLID    :", 1);
    assert_eq!(
        parse(&second, "f", &small()).unwrap_err().to_string(),
        "f:2: the tables of private LFT `1` are not read, only those of private LFT 0; a switch has one table here"
    );
}

/// The tables of the small fabric as `.fdbs`.
fn lft_fdbs() -> String {
    let found = parse_all(&file(NAMED), "f", &small()).unwrap();
    write_fdbs(&small(), &found.tables, Some(&found.switch_routes)).unwrap()
}
