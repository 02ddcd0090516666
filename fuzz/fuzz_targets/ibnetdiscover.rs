//! Fabrics: a parsed topology must be valid, and equal after writing and parsing it again.
#![no_main]

#[path = "mutate/fabric.rs"]
mod fabric;
mod mutate;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_engine::Rate;
use silvan_network::topology::{NodeRef, Topology};
use silvan_scenario::import::ibnetdiscover::{Options, parse, write};

const FORMAT: mutate::Format = mutate::Format { draw: fabric::draw, words: fabric::WORDS };

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    let strict = parse(text, "fuzz", Options::default());
    let lenient = Options { default_rate: Some(Rate::from_gbit(100)), ..Options::default() };
    let Ok(wiring) = strict.or_else(|_| parse(text, "fuzz", lenient)) else { return };
    let topology = wiring.topology;
    check_ends(&topology);
    let written = write(&topology).expect("a parsed topology can be numbered");
    let back = parse(&written, "fuzz", Options::default()).expect("a written topology can be parsed").topology;
    assert_eq!(back.links, topology.links, "{written}");
    let known = |topology: &Topology| {
        let hosts = topology.hosts.iter().map(|host| host.name.clone());
        hosts.chain(topology.switches.iter().map(|switch| switch.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(known(&back), known(&topology), "{written}");
    // Once numbered, it does not change.
    assert_eq!(write(&back).as_ref(), Ok(&written));
});

fn check_ends(topology: &Topology) {
    for end in topology.links.iter().flat_map(|link| [link.a, link.b]) {
        let ports = match end.node {
            NodeRef::Host(host) => topology.hosts.get(host as usize).map(|_| 1),
            NodeRef::Switch(switch) => topology.switches.get(switch as usize).map(|s| s.ports),
        };
        assert!(ports.is_some_and(|ports| (1..=ports).contains(&end.port)), "a link end does not exist: {end:?}");
    }
}
