//! Forwarding tables for one small fabric: what is read must fit it, and be written and read again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use silvan_fabric::topology::Topology;
use silvan_scenario::import::{ibnetdiscover, lft};

const WIRING: &str = include_str!("../../tests/data/fabrics/sw2-h7/updn/ibnetdiscover.topo");
const NETLIST: &str = include_str!("../../tests/data/fabrics/sw2-h7/input.topo");

static FABRICS: LazyLock<Vec<Topology>> = LazyLock::new(|| {
    let read = |text| {
        ibnetdiscover::parse(text, "seed", ibnetdiscover::Options::default()).expect("the seed is sound")
    };
    vec![read(WIRING), read(NETLIST)]
});

fuzz_target!(|text: &str| {
    for topology in FABRICS.iter() {
        let Ok(forwarding) = lft::parse_all(text, "fuzz", topology) else { continue };
        let mut named = topology.clone();
        forwarding.apply_lids(&mut named);
        let written =
            lft::write(&named, &forwarding.tables, Some(&forwarding.switch_routes)).expect("it is small");
        let back = lft::parse_all(&written, "fuzz", &named).expect("what was written can be read");
        assert_eq!(back.tables, forwarding.tables, "{written}");
    }
});
