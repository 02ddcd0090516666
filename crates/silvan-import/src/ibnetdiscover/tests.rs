//! Tests of the reader of ibnetdiscover files.

use std::path::Path;

use proptest::prelude::*;
use silvan_network::topology::{End, Host, Link, Machine, NodeRef, Switch};

use super::*;
use crate::read_text;
use silvan_network::topology::Topology;

/// Two switches, two hosts; the second host has two connected ports.
const SMALL: &str = r#"# a comment
vendid=0x2c9
devid=0xc738
sysimgguid=0xa0
switchguid=0xa0(a0)
Switch	4 "S-00000000000000a0"		# "left" enhanced port 0 lid 3 lmc 0
[1]	"H-0000000000000b00"[1](b01) 		# "one" lid 1 4xFDR10
[4]	"S-00000000000000b0"[4]		# "right" lid 4 4xEDR

switchguid=0xb0(b0)
Switch	4 "S-00000000000000b0"		# "right" base port 0 lid 4 lmc 0
[2]	"H-0000000000000b00"[2](b02) 		# "one" lid 2 1xSDR
[4]	"S-00000000000000a0"[4]		# "left" lid 3 4xEDR

caguid=0xb00
Ca	2 "H-0000000000000b00"		# "one"
[1](b01) 	"S-00000000000000a0"[1]		# lid 1 lmc 0 "left" lid 3 4xFDR10
[2](b02) 	"S-00000000000000b0"[2]		# lid 2 lmc 0 "right" lid 4 1xSDR
"#;

fn read(text: &str) -> Result<Topology, String> {
    parse(text, "f", Options::default()).map(|wiring| wiring.topology).map_err(|e| e.to_string())
}

/// The error message for the small fabric with the first `from` replaced by `to`.
fn message(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "the text to replace must be there: {from}");
    match read(&SMALL.replacen(from, to, 1)) {
        Ok(_) => panic!("the reader must refuse {from} -> {to}"),
        Err(message) => message,
    }
}

#[test]
fn the_small_fabric_is_read_whole() {
    let topology = read(SMALL).unwrap();
    let end = |node, port| End { node, port };
    let delay = Time::from_ns(20);
    let (left, right) = (NodeRef::Switch(0), NodeRef::Switch(1));
    let expected = Topology {
        name: "f".into(),
        hosts: vec![
            Host { name: "one/1".into(), lid: Some(1), lmc: 0, guid: Some(0xb01) },
            Host { name: "one/2".into(), lid: Some(2), lmc: 0, guid: Some(0xb02) },
        ],
        switches: vec![
            Switch { name: "left".into(), ports: 4, lid: Some(3), lmc: 0, guid: Some(0xa0) },
            Switch { name: "right".into(), ports: 4, lid: Some(4), lmc: 0, guid: Some(0xb0) },
        ],
        links: vec![
            Link {
                a: end(NodeRef::Host(0), 1),
                b: end(left, 1),
                rate: Rate::from_gbit(40),
                delay,
                one_way: false,
            },
            Link {
                a: end(NodeRef::Host(1), 1),
                b: end(right, 2),
                rate: Rate::from_gbit(2),
                delay,
                one_way: false,
            },
            Link { a: end(left, 4), b: end(right, 4), rate: Rate::from_gbit(100), delay, one_way: false },
        ],
        machines: vec![Machine { name: "one".into(), ports: vec![0, 1] }],
        ..Topology::default()
    };
    assert_eq!(topology, expected);
    assert_eq!(read(&SMALL.replace('\n', "\r\n")), Ok(expected.clone()), "Windows line ends");
    let unpadded = SMALL.replace("H-0000000000000b00", "H-b00").replacen("S-00000000000000a0", "S-a0", 2);
    assert_eq!(read(&unpadded), Ok(expected), "some GUIDs without leading zeros");
}

/// The reader accepts other output of the tools: chassis, external ports, full information, routers, names
/// with unusual characters, ports that are down.
#[test]
fn variants_of_the_tools_are_read() {
    let text = r##"
Chassis 1 (guid 0x8f10400411234)
# Spine Nodes
sysimgguid=0xa0		# Chassis 1
switchguid=0xa0(a1)	# SLB-2024 line 3 Chip 1
Switch	36 "S-00000000000000a0"		# "Vendor "X" # 4xQDR, lid 7 [base port 0]" enhanced port 0 lid 0xa lmc 0
[1][ext 13]	"H-0000000000000b00"[1](b01) 		# "tëst "q" lid 9 lmc 3" lid 1 2xHDR s=4 w=16 v=4 slot 3
[2][ext 14]	"S-00000000000000a0"[3][ext 15]		# "loop-back" lid 10 12xNDR
[3][ext 15]	"S-00000000000000a0"[2][ext 14]		# "loop-back" lid 10 12xNDR
[4]	"R-0000000000000c00"[1](c01) 		# "router" lid 2 8xDDR
[36]

Non-Chassis Nodes
Hostname: somewhere
rtguid=0xc00
Rt	2 "R-0000000000000c00"		# "router"
[1](c01) 	"S-00000000000000a0"[4]		# lid 2 lmc 0 "Vendor" lid 10 8xDDR
[2](c02)		# down

caguid=0xb00
Ca	1 "H-0000000000000b00"		# "tëst "q" lid 9 lmc 3" (scp)
[1](b01) 	"S-00000000000000a0"[1][ext 13]		# lid 1 lmc 0 "Vendor "X"" lid 10 2xHDR s=4 w=16 v=4 (scp)

caguid=0xd00
Ca	1 "H-0000000000000d00"		# "alone"
"##;
    let topology = read(text).unwrap();
    let names: Vec<&str> = topology.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["router", "tëst \"q\" lid 9 lmc 3"], "unconnected adapters are left out");
    assert_eq!(topology.switches[0].name, "Vendor \"X\" # 4xQDR, lid 7 [base port 0]");
    assert_eq!(topology.switches[0].lid, Some(10));
    let rates: Vec<u64> = topology.links.iter().map(|l| l.rate.0 / 1_000_000_000).collect();
    assert_eq!(rates, [32, 100], "a cable from a switch to itself is left out");
}

/// The reader accepts a hand-written netlist for ibsim: names instead of GUIDs, unquoted descriptions, far
/// ports omitted if they are 1, no speeds.
#[test]
fn hand_written_netlists_are_read() {
    let text = "Switch 8 \"core\" # big switch base port 0 lid 0 lmc 0\n[1] \"a\"\n[2] \"b\"[1]\n\n\
                Hca 1 \"a\" # node a\n[1] \"core\"[1]\n\nCa 1 \"b\"\n[1] \"core\"[2]\n";
    let options = Options { default_rate: Some(Rate::from_gbit(8)), ..Options::default() };
    let topology = parse(text, "dir/net", options).unwrap().topology;
    assert_eq!(topology.name, "net");
    assert_eq!(topology.switches[0].name, "big switch");
    assert_eq!((topology.switches[0].lid, topology.switches[0].guid), (None, None));
    let names: Vec<&str> = topology.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["b", "node a"]);
    assert!(topology.links.iter().all(|l| l.rate == Rate::from_gbit(8)));
    assert_eq!(
        read(text).unwrap_err(),
        "f:2: the link from \"big switch\" port 1 states no width and speed such as 4xQDR; add it, or set a default rate"
    );
}

/// Blanks at the ends of a name would be lost in a file that writes the name between quotes.
#[test]
fn names_end_without_blanks() {
    let name = |text: &str| read(text).map(|topology| topology.switches[0].name.clone());
    assert_eq!(name("Switch 8 \" core \""), Ok("core".into()));
    assert_eq!(name("Switch 8 \"core\" # big  base port 0 lid 0 lmc 0"), Ok("big".into()));
    assert_eq!(name("Switch 8 \"a \" # \"same\"\n\nSwitch 8 \"b \" # \"same\""), Ok("same a".into()));
    assert_eq!(
        name("Switch 8 \" \""),
        Err("f:1: the node's name is empty; a valid one is \"S-0002c90200000010\"".into())
    );
}

#[test]
fn port_guids_must_differ() {
    let text = SMALL.replace("(b02)", "(b01)");
    let expected = "f:18: port GUID 0x0000000000000b01 of \"one/2\" is also that of \"one/1\" (line 17); it must be unique";
    assert_eq!(read(&text).unwrap_err(), expected);
}

#[test]
fn shared_descriptions_are_distinguished_by_guid() {
    let text = SMALL.replace("\"right\"", "\"left\"");
    let names: Vec<String> = read(&text).unwrap().switches.into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["left 0x00000000000000a0", "left 0x00000000000000b0"]);
}

#[test]
fn invalid_nodes_are_reported() {
    let ports = "it must be a number from 1 to 254";
    let cases = [
        ("Switch\t4", "Switch\t4000000000", format!("f:6: the number of ports is `4000000000`; {ports}")),
        ("Switch\t4", "Switch\t-4", format!("f:6: the number of ports is `-4`; {ports}")),
        ("Switch\t4", "Switch\t0", format!("f:6: the number of ports is `0`; {ports}")),
        ("Switch\t4", "Switch", format!("f:6: the number of ports is `\"S-00000000000000a0\"`; {ports}")),
        (
            "\"S-00000000000000a0\"\t\t# \"left\" e",
            "S-a0\t\t# \"left\" e",
            "f:6: the node's name must come next, in double quotes, instead of \
             `S-a0\\t\\t# \"left\" enhanced port 0 lid 3 lmc 0`"
                .into(),
        ),
        (
            "Ca\t2 \"H-0000000000000b00\"\t\t# \"one\"",
            "Ca\t2 \"H-0000000000000b00",
            "f:16: the node's name has no closing double quote: `H-0000000000000b00`".into(),
        ),
        (
            "# \"one\"\n",
            "# \"one\n",
            "f:16: the description has no closing double quote: `\"one`".into(),
        ),
        ("Ca\t2 \"H-0000000000000b00\"", "Ca\t2 \"\"", "f:16: the node's name is empty; a valid one is \"S-0002c90200000010\"".into()),
        (
            "Ca\t2",
            "Cable\t2",
            "f:16: `Cable\\t2 \"H-0000000000000b00\"\\t\\t# \"one\"` is not a line of `ibnetdiscover` output; expected a \
             `Switch`, `Ca` or `Rt` line, a port line `[1] ...`, `key=value` or a comment"
                .into(),
        ),
        (
            "vendid=0x2c9",
            "speed=4",
            "f:2: `speed` is not a known key; known are switchguid, caguid, rtguid, hcaguid, vendid, devid, sysimgguid".into(),
        ),
        ("switchguid=0xa0(", "switchguid=0xag(", "f:5: switchguid is `0xag`; it must be a GUID such as 0x2c90200000010".into()),
        (
            "caguid=0xb00",
            "caguid=0xa0",
            "f:16: node \"H-0000000000000b00\" (one) is already described in line 6; each node and GUID must appear once".into(),
        ),
        ("lid 3 lmc 0", "lid 49152 lmc 0", "f:6: the LID is `49152`; it must be a number from 0 to 49151, or 65535 for a port that is not configured".into()),
        ("lid 3 lmc 0", "lid", "f:6: the LID is ``; it must be a number from 0 to 49151, or 65535 for a port that is not configured".into()),
        ("lid 1 lmc 0", "lid 1 lmc 8", "f:17: the LMC is `8`; it must be a number from 0 to 7".into()),
        (
            "lid 1 lmc 0",
            "lid 6 lmc 2",
            "f:17: the LID is 6 with LMC 2; it must be a multiple of 4, the number of LIDs of the port".into(),
        ),
        ("lid 1 lmc 0", "lid 2 lmc 1", "f:18: LID 2 of \"one/2\" is also that of \"one/1\" (line 17); it must be unique".into()),
        ("lid 2 lmc 0", "lid 1 lmc 0", "f:18: LID 1 of \"one/2\" is also that of \"one/1\" (line 17); it must be unique".into()),
        (
            "\"[2](b02) \t\t# \"one\" lid 2",
            "\"[2](b03) \t\t# \"one\" lid 2",
            "f:12: port 2 of \"right\" leads to port 2 of \"one\" with GUID 0x0000000000000b03, but line 18 says \
             0x0000000000000b02; both must agree"
                .into(),
        ),
        (
            "# \"right\" base",
            "# \"one/1\" base",
            "f:11: the name \"one/1\" is also used in line 16; rename one of the nodes".into(),
        ),
        ("# a comment", "# a\0comment", "f:1: the line contains the control character U+0000; this must be plain text".into()),
    ];
    for (from, to, expected) in cases {
        assert_eq!(message(from, to), expected, "{from} -> {to}");
    }
}

#[test]
fn invalid_links_are_reported() {
    let cases = [
        (
            "[4]\t\"S-00000000000000b0\"",
            "[5]\t\"S-00000000000000b0\"",
            "f:8: the port is `5`; it must be a number from 1 to 4",
        ),
        (
            "[4]\t\"S-00000000000000b0\"",
            "[0]\t\"S-00000000000000b0\"",
            "f:8: the port is `0`; it must be a number from 1 to 4",
        ),
        (
            "[4]\t\"S-00000000000000b0\"",
            "[4\t\"S-00000000000000b0\"",
            "f:8: the port is `4\\t\"S-00000000000000b0\"[4`; it must be a number from 1 to 4",
        ),
        ("[1]\t\"H-", "[4]\t\"H-", "f:8: port 4 of \"left\" is already used in line 7; a port has one link"),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000b0\"[400]",
            "f:8: the far port is `400`; it must be a number from 1 to 254",
        ),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000b0\"[5]",
            "f:8: port 4 of \"left\" leads to port 5 of \"right\", which has ports 1 to 4 (line 11)",
        ),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000b0\"[3]",
            "f:8: port 4 of \"left\" leads to port 3 of \"right\", which has no link in the file; each link must be described \
             from both ends",
        ),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000b0\"[2]",
            "f:8: port 4 of \"left\" leads to port 2 of \"right\", but according to line 12 that port leads to port 2 of \
             \"H-0000000000000b00\"; both ends must agree",
        ),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000a0\"[4]",
            "f:13: port 4 of \"right\" leads to port 4 of \"left\", but according to line 8 that port leads to port 4 of \
             \"S-00000000000000a0\"; both ends must agree",
        ),
        (
            "[4]\t\"S-00000000000000b0\"[4]",
            "[4]\t\"S-00000000000000c0\"[4]",
            "f:8: port 4 of \"left\" leads to \"S-00000000000000c0\", which is not described; the file must describe both \
             ends of a link",
        ),
        (
            "[4]\t\"S-00000000000000b0\"",
            "[4]\tS-b0",
            "f:8: the node at the far end must come next, in double quotes, instead of `S-b0[4]\\t\\t# \"right\" lid 4 4xEDR`",
        ),
        (
            "4xEDR",
            "4xZDR",
            "f:8: the width and speed are `4xZDR`; the width must be 1x, 2x, 4x, 8x or 12x and the speed one of SDR, DDR, \
             QDR, FDR10, FDR, EDR, HDR, NDR, XDR",
        ),
        (
            "4xEDR",
            "99999999999999999999x",
            "f:8: the width and speed are `99999999999999999999x`; the width must be 1x, 2x, 4x, 8x or 12x and the speed one \
             of SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR",
        ),
        (
            "(b01) \t\t#",
            "(b01 \t\t#",
            "f:7: the port GUID has no closing parenthesis: `b01 \\t\\t# \"one\" lid 1 4xFDR10`",
        ),
        (
            "(b01) \t\t#",
            "(12345678901234567) \t\t#",
            "f:7: the port GUID is `12345678901234567`; a valid one is 2c90300000001",
        ),
        (
            "[4]\t\t# \"right\"",
            "[4] w=4\t\t# \"right\"",
            "f:8: `w=4\\t\\t# \"right\" lid 4 4xEDR` is not valid here; expected `#` and the comment",
        ),
        (
            "\"right\" lid 4 4xEDR",
            "\"right lid 4 4xEDR",
            "f:8: the description has no closing double quote: `\"right lid 4 4xEDR`",
        ),
        (
            "lmc 0\n[1]",
            "lmc 0\n\n[1]",
            "f:8: this port line belongs to no node; it must follow the `Switch`, `Ca` or `Rt` line of its node",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(message(from, to), expected, "{from} -> {to}");
    }
}

#[test]
fn malicious_and_empty_files_are_rejected() {
    let none = "f: there is no node; expected the output of `ibnetdiscover` or an ibsim netlist";
    assert_eq!(read("").unwrap_err(), none);
    assert_eq!(read("# only a comment\n\n").unwrap_err(), none);
    let alone = "Ca 1 \"H-1\"\n";
    assert_eq!(
        read(alone).unwrap_err(),
        "f: no adapter has a link, and there is no switch; the file must describe a network"
    );
    let digits = "9".repeat(1_000_000);
    assert_eq!(
        read(&format!("Switch {digits} \"S-1\"\n")).unwrap_err(),
        format!("f:1: the number of ports is `{}...`; it must be a number from 1 to 254", "9".repeat(60))
    );
    let many: String = (0..=crate::MAX_NODES).map(|i| format!("Ca 1 \"H-{i:x}\"\n")).collect();
    assert_eq!(read(&many).unwrap_err(), "f:200001: there are more than 200000 nodes, which is the maximum");
    let cut = &SMALL[..SMALL.find("caguid").unwrap()];
    assert_eq!(
        read(cut).unwrap_err(),
        "f:7: port 1 of \"left\" leads to \"H-0000000000000b00\", which is not described; the file must describe both \
         ends of a link"
    );
}

fn fabric(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics");
    read_text(&root.join(name)).unwrap()
}

#[test]
fn hosts_are_numbered_by_name() {
    let topology = read(&fabric("ft2-36p-h648/ftree/ibnetdiscover.topo.gz")).unwrap();
    assert_eq!((topology.hosts.len(), topology.switches.len(), topology.links.len()), (648, 54, 1296));
    for (i, host) in topology.hosts.iter().enumerate() {
        assert_eq!(host.name, format!("node-{i:04}"));
    }
    let other = read(&fabric("ft2-36p-h648/input.topo.gz")).unwrap();
    assert_eq!(other.links, topology.links, "the netlist gives the same numbers");
    assert_eq!(other.hosts[5].lid, None, "but no LIDs");
}

#[test]
fn what_is_written_is_read_back() {
    for name in ["sw2-h7/updn/ibnetdiscover.topo", "4ary3tree-h64/ftree/ibnetdiscover.topo.gz"] {
        let topology = read(&fabric(name)).unwrap();
        let written = write(&topology).unwrap();
        assert_eq!(read(&written), Ok(topology), "{name}");
    }
    let odd = read(SMALL).unwrap();
    let written = write(&odd).unwrap();
    let mut back = read(&written).unwrap();
    assert_eq!(back, odd, "two ports of one adapter, as two adapters");
    back.links[0].rate = Rate(13_500_000_000);
    let options = Options { default_rate: Some(Rate(13_500_000_000)), ..Options::default() };
    assert_eq!(
        parse(&write(&back).unwrap(), "f", options).map(|wiring| wiring.topology),
        Ok(back),
        "a rate that no link has needs a default"
    );
}

#[test]
fn topologies_without_addresses_get_some() {
    let mut bare = read(SMALL).unwrap();
    bare.hosts.iter_mut().for_each(|h| (h.lid, h.guid) = (None, None));
    bare.switches.iter_mut().for_each(|s| (s.lid, s.guid) = (None, None));
    bare.switches[1].lid = Some(2);
    let back = read(&write(&bare).unwrap()).unwrap();
    assert_eq!(back.links, bare.links);
    assert_eq!(
        back.hosts.iter().map(|h| h.lid).collect::<Vec<_>>(),
        [Some(1), Some(3)],
        "LIDs in use are skipped"
    );
    assert_eq!(back.switches.iter().map(|s| s.lid).collect::<Vec<_>>(), [Some(4), Some(2)]);
    assert_eq!(back.hosts[1].guid, Some(0x0200_0003_0000_0011));

    bare.switches[0].ports = 255;
    assert_eq!(
        write(&bare).unwrap_err().to_string(),
        "switch \"left\" has 255 ports; InfiniBand has at most 254"
    );
}

proptest! {
    /// Any lines in any order, with any damage, give an error or a topology, but never a panic.
    #[test]
    fn damaged_files_never_cause_a_panic(
        cuts in prop::collection::vec((0..SMALL.len(), 0..12usize, "[\\[\\]\"#()0-9a-fx \\n\\t=é]{0,6}"), 0..4)
    ) {
        let mut text = SMALL.to_owned();
        for (at, length, insert) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &insert);
            }
        }
        if let Ok(topology) = read(&text) {
            let back = read(&write(&topology).unwrap());
            prop_assert_eq!(back.map(|t| t.links), Ok(topology.links));
        }
    }
}
