//! Fabrics: what is read must be sound, and survive being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silvan_fabric::topology::NodeRef;
use silvan_scenario::import::ibnetdiscover::{Options, parse, write};

fuzz_target!(|text: &str| {
    let Ok(topology) = parse(text, "fuzz", Options::default()) else { return };
    for end in topology.links.iter().flat_map(|link| [link.a, link.b]) {
        let ports = match end.node {
            NodeRef::Host(host) => topology.hosts.get(host as usize).map(|_| 1),
            NodeRef::Switch(switch) => topology.switches.get(switch as usize).map(|s| s.ports),
        };
        assert!(ports.is_some_and(|ports| (1..=ports).contains(&end.port)), "a link ends nowhere: {end:?}");
    }
    let written = write(&topology).expect("what was read can be numbered");
    let back = parse(&written, "fuzz", Options::default()).expect("what was written can be read");
    assert_eq!(back.links, topology.links, "{written}");
});
