//! Files of a fabric other than those of `ibnetdiscover` and the dumps: each is parsed by the reader of its
//! format, written, and parsed again.
#![no_main]

mod mutate;

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_engine::Rate;
use silvan_engine::random::Stream;
use silvan_network::routing::lanes::{IDENTITY, LaneMaps, Lanes, PathLevels};
use silvan_network::routing::{Tables, check_lanes, deadlock_cycle};
use silvan_network::topology::Topology;
use silvan_scenario::import::site::{Kind, kind_of};
use silvan_scenario::import::{
    far, hpcc, htsim, iblinkinfo, ibnetdiscover, infragraph, lanes, lft, lst, net_dump, ports, sections, simai,
};

const WIRING: &str = include_str!("../../tests/data/fabrics/sw2-h7/updn/ibnetdiscover.topo");
const DUMP: &str = include_str!("../../tests/data/fabrics/sw2-h7/updn/opensm-lfts.dump");

const FORMAT: mutate::Format = mutate::Format { draw, words: WORDS };

const WORDS: &[&str] = &[
    "START_NODES",
    "END_NODES",
    "START_PORTS",
    "END_PORTS",
    "START_LINKS",
    "END_LINKS",
    "START_AR_INFO",
    "NodeGUID",
    "NodeGuid",
    "PortNum",
    "LID",
    "NodeDesc",
    "NodeType",
    "NumPorts",
    "LinkSpeedActv",
    "N/A",
    "dump_ucast_routes: Switch 0x0002c90200000000",
    "UNREACHABLE",
    "Groups Definition:",
    "LFT Definition:",
    "Static",
    "Free",
    "HBF",
    "Switch",
    "CA:",
    "Switch:",
    "==(",
    ")==>",
    "4X",
    "10.0",
    "25.78125",
    "LinkUp",
    "{",
    "}",
    "SW",
    "CA-SM",
    "Ports:24",
    "NodeGUID:0002c90200000000",
    "PN:01",
    "LID:0002",
    "PHY=4x",
    "LOG=ACT",
    "SPD=10",
    "0x01",
    "0xff",
    "65535",
    "49152",
    "255",
    "254",
    ",",
    ":",
    "\"",
    "[",
    "]",
    "100Gbps",
    "0.0005ms",
    "H100",
    "Nodes",
    "Tiers",
    "Radix_Down",
    "devices:",
    "components:",
    "instances:",
    "edges:",
    "choice:",
    "one2one",
    "infrastructure:",
    "connections:",
    "giga_bytes_per_second: 50",
    "host.0.nic.0.cable.leaf.0.port.1",
    "many2many",
    "[0:2]",
    "\u{e9}",
];

/// A path record, a table or a few rows; the seeds provide everything else.
fn draw(random: &mut Stream) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(6) {
        let (a, b) = (1 + random.below(10), 1 + random.below(10));
        match random.below(3) {
            0 => text.push_str(&format!("{a} {b} {}\n", random.below(17))),
            1 => text.push_str(&format!("0x0002c90200000000 {} {} 0x01 0x23 0x45 0x67 0x{a:02x} 0x11 0x22 0xff\n", a % 9, b)),
            _ => text.push_str(&format!("Switch 0x0002c902000000{}0, base LID 2, \"x\"\n{a} {b} : 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 {a}\n", a % 2)),
        }
    }
    text
}

static FABRIC: LazyLock<(Topology, Tables)> = LazyLock::new(|| {
    let topology = ibnetdiscover::parse(WIRING, "seed", ibnetdiscover::Options::default());
    let topology = topology.expect("the seed is valid").topology;
    let tables = lft::parse(DUMP, "seed", &topology).expect("the seed is valid");
    (topology, tables)
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

/// Checks that a list of links contains every link of a topology, if names and rates can be written.
fn wiring(topology: &Topology) {
    let Ok(written) = lst::write(topology) else { return };
    let options = ibnetdiscover::Options::default();
    // Descriptions that have blanks at their ends or contain control characters are not valid names in the
    // list.
    let Ok(back) = lst::parse(&written, "fuzz", options) else { return };
    assert_eq!(back.topology.links.len(), topology.links.len(), "{written}");
}

/// Checks that a topology is valid, and that each port belongs to one host.
fn cluster(topology: &Topology) {
    topology.validate().expect("a topology that was read is valid");
    let mut ports: Vec<u32> = topology.machines.iter().flat_map(|machine| machine.ports.iter().copied()).collect();
    ports.sort_unstable();
    assert!(topology.machines.is_empty() || ports == (0..topology.hosts.len() as u32).collect::<Vec<_>>());
    wiring(topology);
}

fuzz_target!(|text: &str| {
    let (topology, tables) = &*FABRIC;
    let rate = text.len().is_multiple_of(2).then(|| Rate::from_gbit(32));
    let options = ibnetdiscover::Options { default_rate: rate, ..Default::default() };
    match kind_of(text) {
        Some(Kind::LinkList) => drop(lst::parse(text, "fuzz", options).map(|found| wiring(&found.topology))),
        Some(Kind::LinkInfo) => {
            drop(iblinkinfo::parse(text, "fuzz", options).map(|found| wiring(&found.topology)));
        }
        Some(Kind::Ports) => drop(ports::parse(text, "fuzz", options).map(|found| wiring(&found.topology))),
        Some(Kind::NetDump) => {
            drop(net_dump::parse(text, "fuzz", options).map(|found| wiring(&found.topology)));
        }
        Some(Kind::Hpcc) => drop(hpcc::parse(text, "fuzz").map(|found| cluster(&found.topology))),
        Some(Kind::SimAi) => drop(simai::parse(text, "fuzz").map(|found| cluster(&found.topology))),
        Some(Kind::Htsim) => drop(htsim::parse(text, "fuzz").map(|found| cluster(&found.topology))),
        Some(Kind::InfraGraph) => {
            drop(infragraph::parse(text, "fuzz", options).map(|found| cluster(&found.topology)));
        }
        Some(Kind::Sections) => {
            drop(sections::parse(text, "fuzz", options).map(|found| wiring(&found.topology)));
        }
        Some(Kind::Fdbs) => {
            let Ok(found) = lft::parse_all(text, "fuzz", topology) else { return };
            let _ = deadlock_cycle(topology, &found.tables);
            let written =
                lft::write_fdbs(topology, &found.tables, Some(&found.switch_routes)).expect("the fabric is small");
            assert_eq!(
                lft::parse_all(&written, "fuzz", topology).expect("it was written"),
                found,
                "{written}"
            );
        }
        Some(Kind::Far) => drop(far::parse(text, "fuzz", topology)),
        Some(Kind::PathLevels) => {
            let Ok(found) = lanes::paths(text, "fuzz", topology) else { return };
            let written = lanes::write_paths(topology, &found.levels).expect("the fabric is small");
            let back = lanes::paths(&written, "fuzz", topology).expect("it was written");
            assert_eq!(back.levels, found.levels, "{written}");
            let maps = LaneMaps::new(topology, IDENTITY).expect("the fabric is small");
            let analysis = check_lanes(topology, tables, &Lanes { levels: found.levels, maps, detours: None });
            assert!(analysis.cycle.is_none(), "two switches cannot form a cycle");
        }
        Some(Kind::LaneMaps) => {
            let Ok(found) = lanes::maps(text, "fuzz", topology) else { return };
            let levels = PathLevels::new(topology, 3).expect("the fabric is small");
            let analysis = check_lanes(topology, tables, &Lanes { levels, maps: found.maps, detours: None });
            assert!(analysis.cycle.is_none(), "two switches cannot form a cycle");
        }
        _ => {}
    }
});
