//! Reads fabrics with tables of OpenSM, and compares them with their known properties.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use silvan_network::routing::Tables;
use silvan_network::routing::check::{Analysis, analyze};
use silvan_network::routing::deadlock::deadlock_cycle;
use silvan_network::topology::{NodeRef, Topology};
use silvan_scenario::import::{ibnetdiscover, lft, read_text};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics").join(name)
}

/// Reads a fabric, and its tables from the first dump that exists.
fn load(fabric: &str, dumps: &[&str]) -> (Topology, Tables) {
    let pick = |names: &[&str]| {
        let name =
            names.iter().map(|name| format!("{fabric}/{name}")).find(|name| path(name).exists()).unwrap();
        (read_text(&path(&name)).unwrap(), name)
    };
    let (text, origin) = pick(&["ibnetdiscover.topo", "ibnetdiscover.topo.gz"]);
    let topology = ibnetdiscover::parse(&text, &origin, ibnetdiscover::Options::default()).unwrap().topology;
    let (text, origin) = pick(dumps);
    let tables = lft::parse(&text, &origin, &topology).unwrap();
    (topology, tables)
}

const OPENSM: [&str; 2] = ["opensm-lfts.dump", "opensm-lfts.dump.gz"];
const DUMP_FTS: [&str; 2] = ["dump_fts.lft", "dump_fts.lft.gz"];

fn routed(topology: &Topology, tables: &Tables) -> Analysis {
    let analysis = analyze(topology, tables);
    let hosts = topology.hosts.len() as u64;
    assert_eq!((analysis.pairs, analysis.unroutable), (hosts * (hosts - 1), 0), "{:?}", analysis.problems);
    analysis
}

/// Flows per directed link between switches, counted along the path of every pair: slow, but independent of
/// the analysis under test.
fn walked_loads(topology: &Topology, tables: &Tables) -> BTreeMap<u64, u64> {
    let wiring = topology.wiring();
    let mut loads: BTreeMap<(usize, u16), u64> = BTreeMap::new();
    for (switch, ports) in wiring.switches.iter().enumerate() {
        for (port, far) in (1..).zip(ports) {
            if matches!(far, Some((end, _)) if matches!(end.node, NodeRef::Switch(_))) {
                loads.insert((switch, port), 0);
            }
        }
    }
    for from in 0..topology.hosts.len() {
        for to in (0..topology.hosts.len()).filter(|&to| to != from) {
            let mut at = wiring.hosts[from].unwrap().0.node;
            let mut hops = 0;
            while let NodeRef::Switch(switch) = at {
                let port = tables.out[switch as usize][to];
                if let Some(load) = loads.get_mut(&(switch as usize, port)) {
                    *load += 1;
                }
                at = wiring.switches[switch as usize][usize::from(port) - 1].unwrap().0.node;
                hops += 1;
                assert!(hops <= 5, "no path in these fabrics has more than 5 switches");
            }
            assert_eq!(at, NodeRef::Host(u32::try_from(to).unwrap()));
        }
    }
    let mut histogram = BTreeMap::new();
    for load in loads.values() {
        *histogram.entry(*load).or_default() += 1;
    }
    histogram
}

#[test]
fn the_testbed_routes_its_42_pairs_under_every_engine() {
    for engine in ["minhop", "updn", "lash"] {
        for dump in [OPENSM, DUMP_FTS] {
            let (topology, tables) = load(&format!("sw2-h7/{engine}"), &dump);
            let analysis = routed(&topology, &tables);
            assert_eq!(analysis.pairs, 42);
            // 18 pairs inside a switch and 24 between switches; ibdmchk reports the same numbers.
            assert_eq!(analysis.hops, [0, 18, 24], "{engine}");
            assert_eq!(analysis.between_switches.histogram, BTreeMap::from([(12, 2)]), "{engine}");
            assert_eq!(deadlock_cycle(&topology, &tables), None, "{engine}: a tree cannot deadlock");
        }
    }
}

#[test]
fn the_4_ary_3_tree_has_the_known_loads() {
    for (engine, min, max) in [("ftree", 48, 60), ("updn", 60, 192)] {
        let (topology, tables) = load(&format!("4ary3tree-h64/{engine}"), &OPENSM);
        let analysis = routed(&topology, &tables);
        let loads = walked_loads(&topology, &tables);
        assert_eq!(analysis.between_switches.histogram, loads, "{engine}");
        let used: Vec<u64> = loads.keys().copied().filter(|&load| load > 0).collect();
        assert_eq!((used.first(), used.last()), (Some(&min), Some(&max)), "{engine}: {loads:?}");
        assert_eq!(deadlock_cycle(&topology, &tables), None, "{engine}");
    }
}

#[test]
fn minimal_hops_alone_are_free_of_deadlock_on_the_tree() {
    let (topology, tables) = load("4ary3tree-h64/minhop", &OPENSM);
    routed(&topology, &tables);
    assert_eq!(deadlock_cycle(&topology, &tables), None, "shortest paths in a tree go up, then down");
}

#[test]
fn the_648_hosts_load_every_link_equally() {
    let (topology, tables) = load("ft2-36p-h648/ftree", &OPENSM);
    let analysis = routed(&topology, &tables);
    assert_eq!(analysis.between_switches.histogram, BTreeMap::from([(630, 1296)]));
    assert_eq!(walked_loads(&topology, &tables), BTreeMap::from([(630, 1296)]));
    assert_eq!(deadlock_cycle(&topology, &tables), None);
    let (bare_topology, bare) = load("ft2-36p-h648/ftree", &DUMP_FTS);
    assert!((bare_topology, bare) == (topology, tables), "both dumps have the same contents");

    let (topology, tables) = load("ft2-36p-h648/updn", &DUMP_FTS);
    routed(&topology, &tables);
    assert_eq!(deadlock_cycle(&topology, &tables), None);
}
