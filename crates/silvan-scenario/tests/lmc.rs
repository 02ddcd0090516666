//! Fabrics with several LIDs per port (LMC > 0): reading, writing, the checks of all routes, and runs.

use std::fmt::Write as _;
use std::path::Path;

use silvan_fabric::config::PathBits;
use silvan_fabric::outcome::{Outcome, Values};
use silvan_network::routing::ecmp::{Hash, HashedFields};
use silvan_network::routing::lanes::{IDENTITY, LaneMaps, Lanes, PathLevels};
use silvan_network::routing::{
    RoutingSpec, Tables, analyze, check_lanes, deadlock_cycle, is_sound, trace_lids,
};
use silvan_network::topology::{NodeRef, Topology, TopologySpec};
use silvan_scenario::import::{ibnetdiscover, lft, sections};
use silvan_scenario::{Scenario, Threads};

/// Two switches with two links between them (ports 3 and 4), and two hosts each. Host `i` has the base LID `4 + 2 * i`.
pub fn wiring(lmc: u8) -> String {
    let mut text = String::new();
    for switch in 0..2 {
        let (other, lid) = (1 - switch, 16 + switch);
        let _ = write!(
            text,
            "switchguid=0xa{switch}\nSwitch 4 \"S-00000000000000a{switch}\" # \"sw-{switch}\" base port 0 lid {lid} lmc 0\n"
        );
        for port in 1..3 {
            let host = 2 * switch + port - 1;
            let _ =
                writeln!(text, "[{port}] \"H-00000000000000{host}0\"[1](0{host}1) # \"h{host}\" lid 9 4xEDR");
        }
        for port in 3..5 {
            let _ =
                writeln!(text, "[{port}] \"S-00000000000000a{other}\"[{port}] # \"sw-{other}\" lid 9 4xEDR");
        }
        text.push('\n');
    }
    for host in 0..4 {
        let (switch, port, lid) = (host / 2, host % 2 + 1, 4 + 2 * host);
        let _ = write!(
            text,
            "caguid=0x{host}0\nCa 1 \"H-00000000000000{host}0\" # \"h{host}\"\n\
             [1](0{host}1) \"S-00000000000000a{switch}\"[{port}] # lid {lid} lmc {lmc} \"sw-{switch}\" lid 9 4xEDR\n\n"
        );
    }
    text
}

/// Tables that use port 3 between the switches for base LIDs, and port 4 for the other LIDs.
fn dump() -> String {
    let mut text = String::new();
    for switch in 0..2 {
        let _ = writeln!(
            text,
            "Unicast lids [0x0-0x11] of switch Lid 9 guid 0x00000000000000a{switch} ('sw-{switch}'):"
        );
        for lid in 4..12 {
            let host = (lid - 4) / 2;
            let port = if host / 2 == switch { host % 2 + 1 } else { 3 + lid % 2 };
            let _ = writeln!(text, "0x{lid:04x} {port:03}");
        }
        let _ = writeln!(text, "8 valid lids dumped");
    }
    text
}

fn topology() -> Topology {
    ibnetdiscover::parse(&wiring(1), "f", ibnetdiscover::Options::default()).unwrap().topology
}

fn error(dump: &str) -> String {
    lft::parse(dump, "f", &topology()).unwrap_err().to_string()
}

#[test]
fn each_lid_has_its_own_routes() {
    let topology = topology();
    assert_eq!(
        topology.hosts.iter().map(|host| (host.lid, host.lmc)).collect::<Vec<_>>(),
        [(Some(4), 1), (Some(6), 1), (Some(8), 1), (Some(10), 1)]
    );
    let tables = lft::parse(&dump(), "f", &topology).unwrap();
    assert_eq!(tables.out, [[1, 2, 3, 3], [3, 3, 1, 2]]);
    assert_eq!(tables.further, [[[1, 2, 4, 4], [4, 4, 1, 2]]]);
    let paths = trace_lids(&topology, &topology.wiring(), &tables, 0, 2).unwrap();
    let ports: Vec<u16> = paths.iter().map(|path| path.channels[1].from.port).collect();
    assert_eq!(ports, [3, 4]);

    // One link between the switches carries the flows to base LIDs. The other link carries the flows to the
    // second LIDs.
    let (both, base) = (analyze(&topology, &tables), analyze(&topology, &Tables::new(tables.out.clone())));
    assert_eq!((both.pairs, both.unroutable, base.pairs), (12, 0, 12));
    assert_eq!((both.hops, base.hops), (vec![0, 8, 16], vec![0, 4, 8]));
    assert_eq!((both.between_switches.min, both.between_switches.max), (4, 4));
    assert_eq!((base.between_switches.min, base.between_switches.max), (0, 4));
    let doubled: Vec<[u64; 2]> = base.loads.iter().map(|load| load.map(|flows| 2 * flows)).collect();
    assert_eq!(both.loads[..4], doubled[..4], "links of hosts");
    assert!(is_sound(&topology, &tables));
}

#[test]
fn what_is_written_is_read_again() {
    let topology = topology();
    let all = lft::parse_all(&dump(), "f", &topology).unwrap();
    let text = lft::write(&topology, &all.tables, Some(&all.switch_routes)).unwrap();
    assert!(text.contains("0x0009 004 # Channel Adapter portguid 0x0000000000000021: 'h2'\n"), "{text}");
    assert_eq!(lft::parse_all(&text, "f", &topology).unwrap().tables, all.tables);
    let fdbs = lft::write_fdbs(&topology, &all.tables, None).unwrap();
    assert_eq!(lft::parse(&fdbs, "f", &topology).unwrap(), all.tables);
    let written = ibnetdiscover::write(&topology).unwrap();
    let again = ibnetdiscover::parse(&written, "f", ibnetdiscover::Options::default()).unwrap().topology;
    assert_eq!((&again.hosts, &again.switches), (&topology.hosts, &topology.switches));

    // Computed tables have one route to all LIDs of a host.
    let computed = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
    let text = lft::write(&topology, &computed, None).unwrap();
    let back = lft::parse(&text, "f", &topology).unwrap();
    assert_eq!((&back.out, &back.further[0]), (&computed.out, &computed.out));
}

#[test]
fn hosts_with_fewer_lids_repeat_their_routes() {
    // Only h3 has two LIDs.
    let text = wiring(0).replace("lid 10 lmc 0", "lid 10 lmc 1");
    let topology = ibnetdiscover::parse(&text, "f", ibnetdiscover::Options::default()).unwrap().topology;
    let tables = lft::parse(&dump(), "f", &topology).unwrap();
    assert_eq!(tables.out, [[1, 2, 3, 3], [3, 3, 1, 2]]);
    assert_eq!(tables.further, [[[1, 2, 3, 4], [3, 3, 1, 2]]]);
    // Without an LMC in the wiring, only base LIDs belong to a host.
    let topology = ibnetdiscover::parse(&wiring(0), "f", ibnetdiscover::Options::default()).unwrap().topology;
    assert_eq!(lft::parse(&dump(), "f", &topology).unwrap().lids(), 1);
}

#[test]
fn lids_that_do_not_fit_their_lmc_are_errors() {
    let message = |lmc| {
        ibnetdiscover::parse(&wiring(lmc), "f", ibnetdiscover::Options::default()).unwrap_err().to_string()
    };
    assert_eq!(
        message(2),
        "f:21: the LID is 6 with LMC 2; it must be a multiple of 4, the number of LIDs of the port"
    );
    assert_eq!(message(8), "f:17: the LMC is `8`; it must be a number from 0 to 7");
    let overlapping = wiring(1).replace("lid 16 lmc 0", "lid 11 lmc 0");
    let error = ibnetdiscover::parse(&overlapping, "f", ibnetdiscover::Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f:2: LID 11 of \"sw-0\" is also that of \"h3\" (line 29); it must be unique"
    );
}

#[test]
fn a_dump_must_have_entries_for_all_lids() {
    let without =
        dump().replace("0x0009 001\n", "").replace("0x0009 004\n", "").replace("8 valid", "7 valid");
    assert_eq!(
        error(&without),
        "f: no table has an entry for LID 0x0009 of host \"h2\"; the dump must be of the same fabric at the same time"
    );
    let own = dump().replacen("0x0009 004", "0x0009 000", 1);
    assert_eq!(
        error(&own),
        "f:1: the table of switch \"sw-0\" sends LID 0x0009 to port 0, the switch itself, but it is that of host \"h2\""
    );
}

#[test]
fn a_pair_is_routed_only_if_all_lids_are() {
    let topology = topology();
    // sw-0 sends packets for the second LID of h2 to h0.
    let tables = lft::parse(&dump().replacen("0x0009 004", "0x0009 001", 1), "f", &topology).unwrap();
    let analysis = analyze(&topology, &tables);
    assert_eq!((analysis.pairs, analysis.unroutable), (10, 2));
    assert_eq!(
        analysis.problems[0],
        "from h0 to h2: switch sw-0 delivers to host h0 by port 1 (path bits 1)"
    );
    assert!(!is_sound(&topology, &tables));
    assert_eq!(analyze(&topology, &Tables::new(tables.out)).unroutable, 0);
}

/// A ring of three switches with one host each. Base LIDs are reached directly, the other LIDs in one direction.
#[test]
fn deadlock_is_found_among_the_routes_of_all_lids() {
    let spec = r#"{"kind": "torus", "sizes": [3], "hosts_per_switch": 1}"#;
    let topology = serde_json::from_str::<TopologySpec>(spec).unwrap().build().unwrap();
    let direct = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
    let wiring = topology.wiring();
    let to_switch = |switch: usize, port: u16| {
        wiring.switches[switch][usize::from(port) - 1]
            .is_some_and(|(end, _)| matches!(end.node, NodeRef::Switch(_)))
    };
    let ports =
        |switch: usize| (1..=topology.switches[switch].ports).filter(move |&port| to_switch(switch, port));
    // All packets to the other LIDs go around the ring in one direction.
    let onward: Vec<Vec<u16>> = (0..3)
        .map(|switch| {
            let next = (switch + 1) % 3;
            let port = ports(switch).find(|&p| {
                wiring.switches[switch][usize::from(p) - 1].unwrap().0.node == NodeRef::Switch(next as u32)
            });
            direct.out[switch]
                .iter()
                .map(|&own| if to_switch(switch, own) { port.unwrap() } else { own })
                .collect()
        })
        .collect();
    assert_eq!(deadlock_cycle(&topology, &direct), None);
    let tables = Tables { out: direct.out.clone(), further: vec![onward] };
    assert_eq!(analyze(&topology, &tables).unroutable, 0);
    assert_eq!(deadlock_cycle(&topology, &tables).unwrap().len(), 3);
    assert!(!is_sound(&topology, &tables) && is_sound(&topology, &direct));
    let lanes = Lanes {
        levels: PathLevels::new(&topology, 0).unwrap(),
        maps: LaneMaps::new(&topology, IDENTITY).unwrap(),
        detours: None,
    };
    assert!(check_lanes(&topology, &tables, &lanes).cycle.is_some());
    assert_eq!(check_lanes(&topology, &direct, &lanes).cycle, None);
}

#[test]
fn ibdiagnet_states_the_lmc_per_port() {
    let text = |lid: &str, lmc: &str| {
        format!(
            "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n\"sw\",2,2,0xa0\n\"h0\",1,1,0x10\n\"h1\",1,1,0x20\n\
             END_NODES\nSTART_PORTS\nNodeGuid,PortGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv\n\
             0xa0,0xa0,0,1,0,0,0,0\n0xa0,0xa0,1,0,0,2,4,0\n0xa0,0xa0,2,0,0,2,4,0\n\
             0x10,0x11,1,{lid},{lmc},2,4,0\n0x20,0x21,1,8,0,2,4,0\nEND_PORTS\nSTART_LINKS\n\
             NodeGuid1,PortNum1,NodeGuid2,PortNum2\n0xa0,1,0x10,1\n0xa0,2,0x20,1\nEND_LINKS\n"
        )
    };
    let read = |lid, lmc| sections::parse(&text(lid, lmc), "f", ibnetdiscover::Options::default());
    let hosts = read("4", "2").unwrap().topology.hosts;
    assert_eq!((hosts[0].lid, hosts[0].lmc, hosts[1].lmc), (Some(4), 2, 0));
    assert_eq!(
        read("6", "2").unwrap_err().to_string(),
        "f:12: the LID is 6 with LMC 2; it must be a multiple of 4, the number of LIDs of the port"
    );
    assert_eq!(
        read("4", "9").unwrap_err().to_string(),
        "f:12: the LMC is `9`; it must be a number from 0 to 7"
    );
    assert_eq!(
        read("8", "2").unwrap_err().to_string(),
        "f:18: LID 8 of \"h1\" is also that of \"h0\" (line 17); it must be unique"
    );
}

/// The trunks between the switches of the sample fabric, in the direction from swA to swB.
const TRUNKS: [&str; 2] = ["swA:7->swB:7", "swA:8->swB:8"];
/// One flow for each host of the first switch.
const THREE: &str = r#"flow = [
    { from = "node-0", to = "node-3" },
    { from = "node-1", to = "node-4" },
    { from = "node-2", to = "node-5" },
]"#;
const UNIFORM: &str = r#"traffic = [{ pattern = { kind = "uniform" } }]"#;

fn scenario(fabric: &str, path_bits: &str, more: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"200 us\"\nwarmup = \"50 us\"\ntopology = {{ kind = \"file\", file = \"{fabric}\" }}\n{more}\n\
         measure = {{ interval = \"200 us\" }}\n[routing]\nkind = \"table\"\nfile = \"{}\"\npath_bits = \"{path_bits}\"\n",
        fabric.replace(".topo", ".lft").replace("ibnetdiscover.lft", "opensm-lfts.dump")
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/lmc");
    Scenario::from_toml(&text, "lmc.toml", &folder, &[]).map_err(|error| error.to_string())
}

fn sample(path_bits: &str, more: &str) -> Scenario {
    scenario("fabric.topo", path_bits, more).unwrap()
}

fn run(mut scenario: Scenario, threads: u16) -> Outcome {
    scenario.spec.threads = Threads::Count(threads);
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(9_999).unwrap().done {}
    simulation.finish().unwrap()
}

/// The bytes on each trunk.
fn trunks(outcome: &Outcome) -> [u64; 2] {
    let table = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name| &table.columns.iter().find(|column| column.name == name).unwrap().values;
    let (Values::Name { codes, names }, Values::U64(sent)) = (column("link"), column("sent_bytes")) else {
        panic!("columns of other types")
    };
    TRUNKS.map(|trunk| {
        let rows = codes.iter().zip(sent).filter(|(code, _)| names[**code as usize] == trunk);
        rows.map(|(_, sent)| sent).sum()
    })
}

#[test]
fn path_bits_spread_the_load_over_the_routes() {
    let [zero, packet] = ["zero", "per-packet"].map(|path_bits| run(sample(path_bits, THREE), 1));
    let ([unused, all], [first, second]) = (trunks(&zero), trunks(&packet));
    assert!(unused == 0 && all > 100_000, "{unused} {all}");
    assert!(first.abs_diff(second) * 50 < first + second, "{first} {second}");
    assert!(packet.summary.throughput_gbit_s > 1.2 * zero.summary.throughput_gbit_s);
    assert!(zero.summary.reordering.is_none() && packet.summary.reordering.is_some());
}

#[test]
fn each_flow_has_one_lid() {
    let mut totals = [0, 0];
    for from in 0..3 {
        for to in 3..7 {
            let flow = format!("flow = [{{ from = \"node-{from}\", to = \"node-{to}\" }}]");
            let outcome = run(sample("per-flow", &flow), 1);
            assert_eq!(outcome.summary.reordering, None);
            let fields = HashedFields { source: from, destination: to, connection: 0, entropy: 0 };
            let ports = if to == 3 { &[8, 7, 7, 8][..] } else { &[8, 7] };
            let port = ports[Hash::of_lids(PathBits::PerFlow, 4).index(&fields, ports.len())];
            let found = trunks(&outcome);
            assert!(found[port - 7] > 0 && found[8 - port] == 0, "{from} {to} {port} {found:?}");
            totals[port - 7] += 1;
        }
    }
    assert!(totals.iter().all(|&flows| flows > 2), "{totals:?}");
}

#[test]
fn results_do_not_depend_on_threads() {
    for path_bits in ["zero", "per-flow", "per-packet"] {
        let of = |threads| run(sample(path_bits, UNIFORM), threads);
        let one = of(1);
        assert!(one.summary.packets_delivered > 1_000);
        for threads in [2, 3] {
            let other = of(threads);
            assert_eq!(other.summary, one.summary, "{path_bits}");
            assert_eq!(format!("{:?}", other.tables), format!("{:?}", one.tables), "{path_bits}");
        }
    }
}

#[test]
fn checks_include_the_routes_that_packets_use() {
    let load = |path_bits| {
        let report = sample(path_bits, UNIFORM).check().unwrap();
        (report.pairs_routed, report.all_to_all.min, report.all_to_all.max)
    };
    assert_eq!(load("zero"), (42, 0, 12));
    assert_eq!(load("per-flow"), (42, 24, 24));
}

#[test]
fn path_bits_without_effect_are_errors() {
    let one_lid = scenario("../fabrics/sw2-h7/updn/ibnetdiscover.topo", "per-flow", UNIFORM).unwrap();
    assert_eq!(
        one_lid.build().unwrap_err().to_string(),
        "lmc.toml:9: routing.path_bits = \"per-flow\": has no effect: each host has one LID; leave it out, or take \
         topology.file from ibnetdiscover or ibdiagnet2.db_csv, which state the LMC"
    );
    let error = |path_bits, more: &str| {
        let error = scenario("fabric.topo", path_bits, &format!("{UNIFORM}\n{more}")).unwrap_err();
        error.split_once("routing.path_bits").unwrap().1.to_owned()
    };
    assert_eq!(
        error("per-flow", "ecmp = {}"),
        " = \"per-flow\": cannot be combined with [ecmp]: switches either use the routes of LIDs or hash packets; leave one \
         of them out"
    );
    assert!(error("per-flow", "adaptive_routing = { per = \"packet\" }").contains("[adaptive_routing]"));
    let hpcc = "congestion = { marking = { kind = \"telemetry\" }, notification = \"ack-each\", reaction = { kind = \"hpcc\" } }";
    assert!(error("per-packet", hpcc).contains("the telemetry of one route"));
    assert!(scenario("fabric.topo", "every", UNIFORM).unwrap_err().contains("per-packet"));
}
