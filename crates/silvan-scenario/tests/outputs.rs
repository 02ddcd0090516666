//! Reads files that users pass as fabrics: output with other messages in it, unusual cables, output of other
//! tools and options.

use std::path::{Path, PathBuf};

use silvan_scenario::Scenario;
use silvan_scenario::import::ibnetdiscover::{self, Options};
use silvan_scenario::import::site::{self, Kind, kind_of};
use silvan_scenario::import::{Wiring, iblinkinfo, lst, net_dump, ports, sections};

const WIRING: &str = r#"switchguid=0xa0(a0)
Switch	8 "S-00000000000000a0"		# "swA" base port 0 lid 2 lmc 0
[1]	"H-0000000000000b00"[1](b01) 		# "node-0" lid 3 4xQDR
[2]	"H-0000000000000b10"[1](b11) 		# "node-1" lid 4 4xQDR

caguid=0xb00
Ca	1 "H-0000000000000b00"		# "node-0"
[1](b01) 	"S-00000000000000a0"[1]		# lid 3 lmc 0 "swA" lid 2 4xQDR

caguid=0xb10
Ca	1 "H-0000000000000b10"		# "node-1"
[1](b11) 	"S-00000000000000a0"[2]		# lid 4 lmc 0 "swA" lid 2 4xQDR
"#;

fn discovered(text: &str) -> Wiring {
    ibnetdiscover::parse(text, "f", Options::default()).unwrap()
}

fn names(wiring: &Wiring) -> Vec<&str> {
    wiring.topology.hosts.iter().map(|host| host.name.as_str()).collect()
}

fn gbit(wiring: &Wiring) -> Vec<f64> {
    wiring.topology.links.iter().map(|link| link.rate.as_gbit_f64()).collect()
}

#[test]
fn a_cable_from_a_switch_to_itself_is_left_out() {
    let whole = discovered(WIRING);
    assert_eq!(whole.notes, Vec::<String>::new());
    let line = "[2]\t\"H-0000000000000b10\"";
    let two_ports = "[7]\t\"S-00000000000000a0\"[8]\t\t# \"swA\" lid 2 4xQDR\n[8]\t\"S-00000000000000a0\"[7]\t\t# \"swA\" lid 2 4xQDR\n";
    let one_port = "[6]\t\"S-00000000000000a0\"[6]\t\t# \"swA\" lid 2 4xQDR\n";
    let looped = discovered(&WIRING.replacen(line, &format!("{two_ports}{one_port}{line}"), 1));
    assert_eq!(looped.topology, whole.topology);
    assert_eq!(looped.notes, ["2 cables from a node to itself left out (first: line 4)"]);
    looped.topology.validate().unwrap();
}

#[test]
fn a_looped_port_of_an_adapter_is_no_host() {
    let looped = WIRING.replacen(
        "Ca\t1 \"H-0000000000000b10\"\t\t# \"node-1\"\n",
        "Ca\t2 \"H-0000000000000b10\"\t\t# \"node-1\"\n[2](b12) \t\"H-0000000000000b10\"[2](b12) \t\t# \"node-1\" lid 9 4xQDR\n",
        1,
    );
    let read = discovered(&looped);
    assert_eq!(names(&read), ["node-0", "node-1"]);
    assert_eq!(read.notes, ["1 cable from a node to itself left out (first: line 12)"]);
    read.topology.validate().unwrap();
}

#[test]
fn ports_without_a_configured_lid_have_none() {
    let read = discovered(&WIRING.replace("lid 4", "lid 65535"));
    assert_eq!(read.topology.hosts.iter().map(|host| host.lid).collect::<Vec<_>>(), [Some(3), None]);
    assert_eq!(read.notes, ["1 LID is 65535, so not configured yet, and read as none (first: line 12)"]);
    let read = discovered(&WIRING.replace("lid 4", "lid 0xffff").replace("lid 3", "lid 0xffff"));
    assert_eq!(read.notes, ["2 LIDs are 65535, so not configured yet, and read as none (first: line 8)"]);
    assert!(discovered(&WIRING.replace("lid 4", "lid 0")).notes.is_empty());
}

#[test]
fn the_smaller_rate_of_two_ends_is_used() {
    let read = discovered(&WIRING.replacen("4xQDR", "1xQDR", 1));
    assert_eq!(gbit(&read), [8.0, 32.0]);
    let read = discovered(&WIRING.replacen("\"swA\" lid 2 4xQDR", "\"swA\" lid 2 1xSDR", 1));
    assert_eq!(gbit(&read), [2.0, 32.0]);
    assert_eq!(
        read.notes,
        ["1 link has different widths or speeds at the two ends; the smaller rate is used (first: line 3)"]
    );
}

#[test]
fn messages_and_prompts_around_the_output_are_counted() {
    let whole = discovered(WIRING);
    let before = "=~=~=~=~=~=~=~=~=~=~=~= PuTTY log 2023.05.01 12:00:00 =~=~=~=~=~=~=~=~=~=~=~=\n\
        login as: admin\n\
        Last login: Mon May  1 12:00:00 2023 from 192.0.2.1\n\
        [root@node-17 ~]# ibnetdiscover\n\
        ibwarn: [12345] mad_rpc: _do_madrpc failed; dport (Lid 7)\n\
        src/query_smp.c:229; umad (DR path slid 0; dlid 0; 0,1) Attr 0x11 bad status\n\
        \u{1b}[?2004l\u{1b}]0;root@node-17:~\u{7}user@node:~/x$ sudo ibnetdiscover 2>&1\n";
    let after = "\n[root@node-17 ~]# \nufm-host > ibnetdiscover\n\u{1b}[?2004hroot@node:/# exit\n";
    let read = discovered(&format!("{before}{WIRING}{after}"));
    assert_eq!(read.topology, whole.topology);
    assert_eq!(read.notes, ["10 lines of a terminal or an error stream skipped (first: line 1)"]);
    assert_eq!(kind_of(&format!("{before}{WIRING}")), Some(Kind::Discovered));
    let inside = WIRING.replacen("[2]\t", "ibwarn: [1] x\n[2]\t", 1);
    assert_eq!(discovered(&inside).topology, whole.topology);
    // Other lines are still errors.
    for wrong in ["hello", "[root]", "[1", "some text > here", "Switch"] {
        assert!(
            ibnetdiscover::parse(&format!("{WIRING}\n{wrong}\n"), "f", Options::default()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn names_with_signs_of_prompts_are_names() {
    for name in ["a$b", "user@host", "x # y > z", "ibwarn: x", "100%"] {
        let read = discovered(&WIRING.replace("node-1", name));
        assert_eq!(read.notes, Vec::<String>::new());
        assert!(names(&read).contains(&name), "{name}: {:?}", names(&read));
    }
}

#[test]
fn blanks_that_a_terminal_removed_are_not_needed() {
    let squeezed = WIRING.replace('\t', "").replace("Switch8 ", "Switch8").replace("Ca1 ", "Ca1");
    assert_eq!(discovered(&squeezed).topology, discovered(WIRING).topology);
}

const REPORT: &str = "\
CA     3  1 0x0000000000000b01 4x QDR - SW     2  1 0x00000000000000a0 ( 'node-0' - 'swA' )
CA     4  1 0x0000000000000b11 4x QDR - SW     2  2 0x00000000000000a0 ( 'node-1' - 'swA' )
SW     2  8 0x00000000000000a0 4x ???                                    'swA'
SW     2  2 0x00000000000000a0 4x QDR - CA     4  1 0x0000000000000b11 ( 'swA' - 'node-1' )
SW     2  1 0x00000000000000a0 4x QDR - CA     3  1 0x0000000000000b01 ( 'swA' - 'node-0' )
";

#[test]
fn a_report_of_ports_is_the_same_fabric() {
    assert_eq!(kind_of(REPORT), Some(Kind::Ports));
    let read = ports::parse(REPORT, "f", Options::default()).unwrap();
    let whole = discovered(WIRING);
    assert_eq!(read.topology, whole.topology);
    assert_eq!(read.notes, Vec::<String>::new());
    let unquoted = REPORT.replace('\'', "");
    assert_eq!(ports::parse(&unquoted, "f", Options::default()).unwrap().topology, whole.topology);
    let narrow = REPORT.replacen("4x QDR", "1x QDR", 1);
    let read = ports::parse(&narrow, "f", Options::default()).unwrap();
    assert_eq!(gbit(&read), [8.0, 32.0]);
    assert_eq!(read.notes.len(), 1);
    for (from, to, message) in [
        ("4x QDR", "4x ZDR", "the width and speed are `4x ZDR`"),
        ("( 'node-0'", "'node-0'", "is not a line of `ibnetdiscover -p`"),
        ("     3  1 0x", "     3  300 0x", "the port is `300`; it must be from 1 to 254"),
        ("     3  1 0x", " 50000  1 0x", "the LID is `50000`"),
        ("0x0000000000000b01 4x", "0xg 4x", "the GUID is `0xg`"),
        ("SW     2  1", "SW     2  2", "but to another port in line"),
    ] {
        let error =
            ports::parse(&REPORT.replacen(from, to, 1), "f", Options::default()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

const NET_DUMP: &str = "\
# This file was generated by a tool
\"swA\", Mellanox, 0x00000000000000a0, LID 2
#        : IB# : Sta  : PhysSta : MTU : LWA : LSA  : FEC mode : Retran : Neighbor Guid      : N#  : NLID : Neighbor Description
1/1      : 1   : ACT  : LINK UP : 5   : 4x  : 25   : NO FEC   : NO-RTR : 0x0000000000000b01 : 1   : 3    : \"node-0: x\"
1/2      : 2   : ACT  : LINK UP : 5   : 4x  : 25   : NO FEC   : NO-RTR : 0x00000000000000c0 : 1/4 : 5    : \"swB\"
1/3      : 3   : DOWN : POLLING : N/A : N/A : N/A  : N/A      : N/A    :                    :     :      :

\"swB\", Mellanox, 0x00000000000000c0, LID 5
#        : IB# : Sta  : PhysSta : MTU : LWA : LSA  : FEC mode : Retran : Neighbor Guid      : N#  : NLID : Neighbor Description
1/4      : 8   : ACT  : LINK UP : 5   : 4x  : 25   : NO FEC   : NO-RTR : 0x00000000000000a0 : 1/2 : 2    : \"swA\"
1/5      : 9   : ACT  : LINK UP : 5   : 2x  : 100  : NO FEC   : NO-RTR : 0x0000000000000b11 : 1   : 4    : \"node-1\"
";

#[test]
fn tables_of_ports_of_switches_are_read() {
    assert_eq!(kind_of(NET_DUMP), Some(Kind::NetDump));
    let read = net_dump::parse(NET_DUMP, "f", Options::default()).unwrap();
    assert_eq!(names(&read), ["node-0: x", "node-1"]);
    assert_eq!(gbit(&read), [100.0, 200.0, 100.0]);
    assert_eq!(
        read.topology.switches.iter().map(|s| (s.name.as_str(), s.lid)).collect::<Vec<_>>(),
        [("swA", Some(2)), ("swB", Some(5))]
    );
    // The link between the switches: port 2 of swA, and port 8 of swB, which is labeled 1/4.
    let between = read.topology.links.iter().map(|link| (link.a.port, link.b.port)).collect::<Vec<_>>();
    assert!(between.contains(&(2, 8)), "{between:?}");
    read.topology.validate().unwrap();
    for (from, to, message) in [
        ("LWA", "LWB", "the table has no column `LWA`"),
        ("4x  : 25 ", "4x  : 26 ", "LWA `4x` and LSA `26` are not a width"),
        ("\"swA\", Mellanox", "swA, Mellanox", "is neither a row nor"),
        (": 1/4 :", ": 1/9 :", "the port is `1/9`"),
        ("0x00000000000000c0, LID 5", "0x00000000000000a0, LID 5", "has another table above"),
    ] {
        let error = net_dump::parse(&NET_DUMP.replacen(from, to, 1), "f", Options::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

const LINES: &str = "\
0x00000000000000a0 \"  swA\"  2  1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  0x0000000000000b01  3  1[  ] \"node-0\" ( )
0x00000000000000a0 \"  swA\"  2  2[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  0x0000000000000b11  4  1[  ] \"node-1\" ( )
0x00000000000000a0 \"  swA\"  2  3[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )
";

#[test]
fn adapters_that_only_switches_mention_are_read() {
    let read = iblinkinfo::parse(LINES, "f", Options::default()).unwrap();
    assert_eq!(names(&read), ["node-0", "node-1"]);
    assert_eq!(read.topology.hosts.iter().map(|host| host.lid).collect::<Vec<_>>(), [Some(3), Some(4)]);
    assert_eq!(read.notes, ["2 nodes are not described in the file, and taken as adapters (first: line 1)"]);
    read.topology.validate().unwrap();
    // A node with several links, or with many ports, must be a switch that the file does not describe.
    for wrong in [LINES.replacen(" 4  1[  ]", " 3  2[  ]", 1), LINES.replacen(" 4  1[  ]", " 4 17[  ]", 1)] {
        let error = iblinkinfo::parse(&wrong, "f", Options::default()).unwrap_err().to_string();
        assert!(error.contains("which no line describes; use the complete output"), "{error}");
    }
}

#[test]
fn lists_and_sections_take_the_smaller_rate() {
    let end = |kind: &str, guid: &str, name: &str, lid: &str| {
        format!(
            "{{ {kind} Ports:08 SystemGUID:{guid} NodeGUID:{guid} PortGUID:{guid} VenID:0 DevID:0 Rev:0 {{{name}}} \
             LID:{lid} PN:01 }}"
        )
    };
    let (a, b) = (end("SW", "a0", "swA", "0002"), end("CA", "b0", "node", "FFFF"));
    let text = format!("{a} {b} PHY=4x LOG=ACT SPD=10\n{b} {a} PHY=1x LOG=ACT SPD=10\n");
    let read = lst::parse(&text, "f", Options::default()).unwrap();
    assert_eq!(gbit(&read), [8.0]);
    assert_eq!(read.topology.hosts[0].lid, None);
    assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
    let text = "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n\"swA\",8,2,0xa0\n\"node\",1,1,0xb0\nEND_NODES\n\
        START_PORTS\nNodeGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv\n\
        0xa0,1,2,0,2,4,0\n0xb0,1,65535,0,1,4,0\nEND_PORTS\n\
        START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0xa0,1,0xb0,1\nEND_LINKS\n";
    let read = sections::parse(text, "f", Options::default()).unwrap();
    assert_eq!(read.topology.links[0].rate.as_gbit_f64(), 8.0);
    assert_eq!(read.topology.hosts[0].lid, None);
    assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
}

/// A temporary file, which is removed when it is dropped.
struct File(PathBuf);

impl File {
    fn with(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("silvan-outputs-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn refused(file: &Path) -> String {
    let load = site::load(&[file.to_owned()], None, Options::default()).unwrap_err().to_string();
    let wiring = site::topology(file, Options::default()).unwrap_err().to_string();
    assert!(wiring.contains(load.rsplit("; it looks like ").next().unwrap()), "{wiring} {load}");
    load
}

#[test]
fn files_of_other_kinds_are_named() {
    for (name, text, what) in [
        ("topology.conf", "# x\nSwitchName=s0 Nodes=n[0-7]\n", "; it looks like topology.conf of Slurm"),
        ("ndt.csv", "StartDevice,StartPort,EndDevice,EndPort\n", "; it looks like a list of cables of UFM"),
        ("x.json", "{ \"nodes\": [] }\n", "; it looks like JSON"),
        ("own", "seed = 1\n[topology]\nkind = \"star\"\n", "; it looks like a scenario, whose network"),
        ("x.dot", "digraph g {\n a -> b\n}\n", "; it looks like a graph of Graphviz"),
    ] {
        let error = refused(&File::with(name, text.as_bytes()).0);
        assert!(error.contains(what), "{error}");
    }
    let list = File::with("list", b"Switch\t: 0x0002c90200000000 ports 8 devid 0x1 vendid 0x2 \"swA\"\n");
    let error = site::topology(&list.0, Options::default()).unwrap_err().to_string();
    assert!(error.contains("this is a list of nodes (`ibnetdiscover -l`"), "{error}");
    let dump = File::with("dump", b"Unicast lids [0x0-0x3] of switch Lid 2 guid 0xa0 (swA):\n");
    let error = site::topology(&dump.0, Options::default()).unwrap_err().to_string();
    assert!(error.ends_with("contains forwarding tables (dump), not the wiring of a fabric"), "{error}");
}

#[test]
fn a_wiring_in_utf_16_is_read() {
    let bytes: Vec<u8> =
        [0xfeff].into_iter().chain(WIRING.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let file = File::with("utf16", &bytes);
    let read = site::topology(&file.0, Options::default()).unwrap();
    assert_eq!(read.topology.links, discovered(WIRING).topology.links);
}

const DUMP: &str = "\
Unicast lids [0-4] of switch Lid 2 guid 0x00000000000000a0 ('swA'):
0x0002 000 # Switch portguid 0x00000000000000a0: 'swA'
0x0003 001 # Channel Adapter portguid 0x0000000000000b01: 'node-0'
0x0004 002 # Channel Adapter portguid 0x0000000000000b11: 'node-1'
4 lids dumped
";

/// The notes about the files of a fabric that were used and ignored.
fn loaded(files: &[&File]) -> (Vec<String>, Vec<String>) {
    let paths: Vec<PathBuf> = files.iter().map(|file| file.0.clone()).collect();
    let site = site::load(&paths, None, Options::default()).unwrap();
    assert_eq!((site.topology.hosts.len(), site.tables.out.len()), (2, 1));
    let texts = |notes: Vec<site::Note>| notes.into_iter().map(|note| note.text).collect();
    (texts(site.used), texts(site.ignored))
}

#[test]
fn messages_around_any_file_are_skipped_and_counted() {
    let warnings = "ibwarn: [123] _do_madrpc: recv failed: Connection timed out\n".repeat(250);
    let comments = "# comment\n".repeat(250);
    let wiring =
        |before: &str, after: &str| File::with("around", format!("{before}{WIRING}\n{after}").as_bytes());
    let dump = File::with("around.lft", DUMP.as_bytes());
    let plain = "2 hosts, 1 switches, 2 links";
    let of_wiring = |file: &File| loaded(&[file, &dump]).0[0].clone();
    assert_eq!(of_wiring(&wiring(&comments, "")), plain);
    assert_eq!(
        of_wiring(&wiring(&warnings, "")),
        format!("{plain}; 250 lines of a terminal or an error stream skipped (first: line 1)")
    );
    for prompt in [
        "sw-1 [standalone: master] (config) # ",
        "\rufm-1 [ mgmt-ha-active ] (config) # ",
        "n01:~ #",
        "logout",
    ] {
        let note = of_wiring(&wiring("", prompt));
        assert!(note.starts_with(plain) && note.contains("; 1 line of a terminal"), "{note}");
    }
    // The same lines around forwarding tables.
    let whole = wiring("", "");
    let noisy = File::with("noisy.lft", format!("{warnings}{DUMP}n01:~ #\n").as_bytes());
    let (used, _) = loaded(&[&whole, &noisy]);
    assert_eq!(used[1], "of 1 switches; 251 lines of a terminal or an error stream skipped (first: line 1)");
    assert_eq!(loaded(&[&whole, &dump]).0[1], "of 1 switches");
}

#[test]
fn the_cache_of_lids_is_ignored() {
    let wiring = File::with("cached.topo", WIRING.as_bytes());
    let dump = File::with("cached.lft", DUMP.as_bytes());
    let cache = "0x00000000000000a0 0x0002 0x0002\n\n0x0000000000000b01 0x0003 0x0003\n";
    let file = File::with("guid2lid", cache.as_bytes());
    assert_eq!(kind_of(cache), Some(Kind::LidCache));
    let (_, ignored) = loaded(&[&wiring, &dump, &file]);
    assert_eq!(ignored, ["OpenSM's cache of LIDs, which has no links and no routes"]);
    // Sources of paths may be GUIDs, too.
    assert_eq!(kind_of("0x0000000000000b01 0x0004 7\n3 4 0\n"), Some(Kind::PathLevels));
}

#[test]
fn a_format_needs_half_of_the_lines() {
    let rows = "3 4 0\n4 3 1\n";
    assert_eq!(kind_of(rows), Some(Kind::PathLevels));
    assert_eq!(kind_of(&format!("{rows}one\ntwo\n")), Some(Kind::PathLevels));
    assert_eq!(kind_of(&format!("{rows}one\ntwo\nthree\n")), None);
    assert_eq!(kind_of("4 1 3\n0\n0 1 100Gbps 1us 0\n0 2 100Gbps 1us 0\n"), Some(Kind::Hpcc));
    assert_eq!(kind_of("Nodes 4\nTiers 2\n"), Some(Kind::Htsim));
    assert_eq!(kind_of("Nodes 4\nConnections 1\n0->1 start 0 size 5\n"), None);
}

#[test]
fn topologies_of_other_simulators_are_fabrics() {
    let hpcc = File::with("t.txt", b"4 1 3\n0\n0 1 100Gbps 1us 0\n0 2 100Gbps 1us 0\n0 3 100Gbps 1us 0\n");
    assert_eq!(names(&site::topology(&hpcc.0, Options::default()).unwrap()), ["1", "2", "3"]);
    let tree = "Nodes 2\nTiers 1\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\nQueue_Up 7\n";
    let htsim = File::with("t.topo", tree.as_bytes());
    let read = site::topology(&htsim.0, Options::default()).unwrap();
    assert_eq!((names(&read), read.notes.len()), (vec!["H1", "H2"], 1));
}

/// [`WIRING`] with adapters whose ports have their GUIDs, which are consecutive.
fn consecutive() -> String {
    WIRING
        .replace("[1](b01)", "[1](b10)")
        .replace("H-0000000000000b10", "H-0000000000000b11")
        .replace("caguid=0xb10", "caguid=0xb11")
        .replace("H-0000000000000b00", "H-0000000000000b10")
        .replace("caguid=0xb00", "caguid=0xb10")
}

#[test]
fn adapters_keep_their_guids() {
    let read = discovered(&consecutive());
    assert_eq!(read.node_guids, [Some(0xb10), Some(0xb11)]);
    let written = ibnetdiscover::write_with(&read.topology, &read.node_guids).unwrap();
    for line in ["caguid=0xb10\nCa\t1 \"H-0000000000000b10\"\t\t# \"node-0\"", "caguid=0xb11\nCa\t1"] {
        assert!(written.contains(line), "{written}");
    }
    let again = discovered(&written);
    assert_eq!((&again.topology, &again.node_guids), (&read.topology, &read.node_guids));
}

#[test]
fn adapters_keep_their_guids_in_lists_of_links() {
    let read = discovered(&consecutive());
    let written = lst::write_with(&read.topology, &read.node_guids).unwrap();
    for guid in ["b10", "b11"] {
        let end = format!("NodeGUID:0000000000000{guid} PortGUID:0000000000000{guid} ");
        assert_eq!(written.matches(&end).count(), 2, "{written}");
    }
    let again = lst::parse(&written, "f", Options::default()).unwrap();
    assert_eq!((again.topology.hosts, again.node_guids), (read.topology.hosts, read.node_guids));
}

#[test]
fn a_list_of_links_states_the_guids_of_adapters() {
    let written = lst::write_with(&discovered(&consecutive()).topology, &[Some(0xb10), Some(0xb11)]).unwrap();
    let read = lst::parse(&written, "f", Options::default()).unwrap();
    let network = ibnetdiscover::write_with(&read.topology, &read.node_guids).unwrap();
    let again = discovered(&network);
    assert_eq!(again.node_guids, [Some(0xb10), Some(0xb11)]);
    assert_eq!(again.topology.hosts, read.topology.hosts);
}

#[test]
fn a_scenario_keeps_the_guids_of_adapters() {
    let file = File::with("consecutive.topo", consecutive().as_bytes());
    let text = format!(
        "duration = \"1 us\"\ntopology = {{ kind = \"file\", file = {:?} }}\n[[traffic]]\npattern.kind = \"uniform\"\n",
        file.0
    );
    let scenario = Scenario::from_toml(&text, "a.toml", Path::new("."), &[]).unwrap();
    scenario.build_plain().unwrap();
    assert_eq!(scenario.node_guids(), [Some(0xb10), Some(0xb11)]);
}

#[test]
fn an_adapter_has_no_guid_of_another_port() {
    // `ibnetdiscover -p` and `iblinkinfo` state the GUIDs of ports only.
    let ports = "CA 3 1 0xb10 4x QDR - SW 2 1 0xa0 ( 'node-0' - 'swA' )\n\
                 CA 4 1 0xb11 4x QDR - SW 2 2 0xa0 ( 'node-1' - 'swA' )\n";
    let listed = ports::parse(ports, "f", Options::default()).unwrap();
    let lines = "0xb10 \"node-0\" 3 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xa0 2 1[ ] \"swA\" ( )\n\
                 0xb11 \"node-1\" 4 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xa0 2 2[ ] \"swA\" ( )\n\
                 0xa0 \"swA\" 2 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xb10 3 1[ ] \"node-0\" ( )\n\
                 0xa0 \"swA\" 2 2[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xb11 4 1[ ] \"node-1\" ( )\n";
    for read in [listed, iblinkinfo::parse(lines, "f", Options::default()).unwrap()] {
        assert_eq!(names(&read), ["node-0", "node-1"]);
        let network = ibnetdiscover::write_with(&read.topology, &read.node_guids).unwrap();
        let again = discovered(&network);
        // 0xb10 is the GUID of a port of another adapter.
        assert_eq!(again.node_guids, [Some(0xb0f), Some(0xb11)], "{network}");
        assert_eq!(again.topology.hosts, read.topology.hosts);
    }
}

#[test]
fn a_table_of_ports_states_the_guids_of_adapters() {
    let tables = "\"swA\", Mellanox, 0x00000000000000a0, LID 2\n\
        # : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid : N# : NLID : Neighbor Description\n\
        1 : 1 : ACT : LINK UP : 5 : 4x : 25 : NO FEC : NO-RTR : 0x0000000000000b10 : 1 : 3 : \"node-0\"\n\
        2 : 2 : ACT : LINK UP : 5 : 4x : 25 : NO FEC : NO-RTR : 0x0000000000000b11 : 1 : 4 : \"node-1\"\n";
    let read = net_dump::parse(tables, "f", Options::default()).unwrap();
    assert_eq!(read.node_guids, [Some(0xb10), Some(0xb11)]);
    let network = ibnetdiscover::write_with(&read.topology, &read.node_guids).unwrap();
    assert_eq!(discovered(&network).node_guids, read.node_guids);
}
