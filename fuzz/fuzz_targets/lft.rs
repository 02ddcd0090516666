//! Forwarding tables for small fabrics: parsed tables must fit the fabric, and be equal after writing and
//! parsing them again.
#![no_main]

#[path = "mutate/dump.rs"]
mod dump;
mod mutate;

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_network::routing::Tables;
use silvan_network::topology::Topology;
use silvan_scenario::import::{ibnetdiscover, lft};

const WIRING: &str = include_str!("../../tests/data/fabrics/sw2-h7/updn/ibnetdiscover.topo");
const NETLIST: &str = include_str!("../../tests/data/fabrics/sw2-h7/input.topo");

const FORMAT: mutate::Format = mutate::Format { draw: dump::draw, words: dump::WORDS };

/// One fabric with LIDs, one without, and one without GUIDs as well.
static FABRICS: LazyLock<Vec<Topology>> = LazyLock::new(|| {
    let read = |text| {
        ibnetdiscover::parse(text, "seed", ibnetdiscover::Options::default()).expect("the seed is valid").topology
    };
    let mut bare = read(NETLIST);
    bare.hosts.iter_mut().for_each(|host| host.guid = None);
    bare.switches.iter_mut().for_each(|switch| switch.guid = None);
    vec![read(WIRING), read(NETLIST), bare]
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    // The length of the text selects one fabric. All three would take three times as long.
    let topology = &FABRICS[text.len() % FABRICS.len()];
    let Ok(forwarding) = lft::parse_all(text, "fuzz", topology) else { return };
    for (row, switch) in forwarding.tables.out.iter().zip(&topology.switches) {
        let fits = |&port: &u16| port == Tables::NO_ROUTE || (1..=switch.ports).contains(&port);
        assert!(row.len() == topology.hosts.len() && row.iter().all(fits), "{row:?}");
    }
    let mut named = topology.clone();
    forwarding.apply_lids(&mut named);
    let written =
        lft::write(&named, &forwarding.tables, Some(&forwarding.switch_routes)).expect("the fabric is small");
    let back = lft::parse_all(&written, "fuzz", &named).expect("written tables can be parsed");
    assert_eq!(back.tables, forwarding.tables, "{written}");
    if forwarding.switch_lids.iter().all(Option::is_some) {
        assert_eq!(back, forwarding, "{written}");
    }
});
