//! Tests of the parts that all architectures share: lanes, tables, avoided ports, and waiting for tails.

use silvan_network::topology::Topology;

use super::*;
use crate::link::{CreditWay, EventKey, unkey};
use crate::partition::Partition;
use crate::switch::Switches;
use crate::tests::{config, network, packet, star, topology};

fn partition_of(topology: &Topology) -> Partition {
    network(topology, &config(Time::from_us(10))).partitions.remove(0)
}

/// A host with a link of 8 Gbit/s, and one with a link of 32 Gbit/s.
fn two_rates() -> Partition {
    partition_of(&topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "switches": [{"name": "S", "ports": 2}], "links": [
            {"from": "A", "to": "S:1", "rate": "8 Gbit/s"}, {"from": "B", "to": "S:2", "rate": "32 Gbit/s"}
        ]}"#,
    ))
}

fn ports_of(switches: &mut Switches) -> &mut Ports {
    let Switches::Voq(switches) = switches else { panic!("VOQ switches are the default") };
    &mut switches[0].ports
}

#[test]
fn a_packet_waits_until_its_tail_arrives_before_a_faster_link_has_sent_it() {
    let mut partition = two_rates();
    let (slow, fast) = (Port(0), Port(1));
    let ctx = &mut partition.ctx;
    ctx.now = Time::from_us(5);
    let span = |port| ctx.links.span(partition.switches.at(0).ports().out(port), 1_000);
    let lags = [span(slow), span(fast)];
    let ids = [(0, 1, lags[0]), (1, 0, lags[1])]
        .map(|(from, to, tail_lag)| ctx.packets.insert(Packet { tail_lag, ..packet(from, to) }));
    let ports = partition.switches.at(0).ports();
    let (time, key) = ports.waits_for_tail(ctx, slow, ids[0]).unwrap();
    assert_eq!(
        (time, unkey(key)),
        (ctx.now + Time(lags[0].0 - lags[1].0), EventKey { class: Class::SwitchReady, node: 0, port: slow })
    );
    assert_eq!(ports.waits_for_tail(ctx, fast, ids[1]), None, "its output is slower");
    ctx.packets[ids[0]].tail_lag = lags[1];
    assert_eq!(ports.waits_for_tail(ctx, slow, ids[0]), None, "its tail arrives in time");
}

#[test]
fn only_ports_to_faster_links_may_lack_a_tail() {
    let partition = two_rates();
    let ports = partition.switches.at(0).ports();
    assert!(ports.may_underrun);
    assert_eq!([0, 1].map(|port: usize| ports.wiring[port].unwrap().may_underrun), [false, true]);
    assert!(!star(|_| {}).switches.at(0).ports().may_underrun);
}

#[test]
fn ports_that_are_avoided_become_usable_again() {
    let mut partition = star(|_| {});
    let switch = ports_of(&mut partition.switches);
    assert!(Port::all(4).all(|port| !switch.avoids(port)));
    switch.use_port(Port(2), false);
    assert_eq!([1, 2, 3].map(|port| switch.avoids(Port(port))), [false, true, false]);
    switch.use_port(Port(2), true);
    assert!(Port::all(4).all(|port| !switch.avoids(port)));
}

#[test]
fn a_switch_uses_the_tables_with_a_number() {
    let mut partition = star(|_| {});
    let switch = ports_of(&mut partition.switches);
    let own = switch.table.row;
    let table = |row| NumberedTable { row, hasher: None, choices: None };
    assert!(!switch.has_several_tables());
    switch.all_tables = [table(own), table(own + 9)].into();
    assert!(switch.has_several_tables());
    assert!(switch.use_tables(1));
    assert_eq!(switch.table.row, own + 9);
    assert!(!switch.use_tables(2), "there are two");
    assert_eq!(switch.table.row, own + 9);
    assert!(switch.use_tables(0));
    assert_eq!(switch.table.row, own);
}

#[test]
fn a_packet_whose_output_changes_stores_it() {
    let mut partition = star(|_| {});
    let switch = ports_of(&mut partition.switches);
    let packet = Packet { out: Port(1), ..packet(0, 3) };
    assert_eq!(switch.route_of(&packet), Port(3), "the table determines it");
    switch.steering = Some(Box::new(Steering::Flows(Director::new(None, [].into_iter()))));
    assert_eq!(switch.route_of(&packet), Port(1));
    assert_eq!(switch.steers_by_packet(), Err(NotBinned::AnnouncedFlows));
    assert!(!switch.is_by_destination() && !switch.changes_lanes());
    switch.steering = None;
    assert_eq!(switch.steers_by_packet(), Ok(()));
    assert!(switch.is_by_destination());
}

#[test]
fn a_transmission_returns_credit_when_the_packet_has_left_the_memory() {
    for read in [None, Some(Time(700))] {
        let mut partition = star(|_| {});
        let switch = ports_of(&mut partition.switches);
        let ctx = &mut partition.ctx;
        let (own, feeder) = (switch.out(Port(3)), switch.feeder(Port(0)));
        // The sender has spent all of its credit.
        let all = ctx.links.capacity(feeder, Vl::FIRST);
        let spent = ctx.packets.insert(Packet { space: all, ..packet(0, 3) });
        ctx.send(feeder, spent);
        let id = ctx.packets.insert(packet(0, 3));
        let end = switch.transmit(ctx, id, Port(0), Port(3), read);
        assert_eq!(end, ctx.links.span(own, 1_000));
        let back = read.unwrap_or(end) + ctx.links.delay(feeder);
        let has_credit = |ctx: &mut Context, now| {
            ctx.links.has_credit(CreditWay { channel: feeder, vl: Vl::FIRST, dst: 3 }, 1_024, now)
        };
        assert!(!has_credit(ctx, back - Time(1)));
        assert!(has_credit(ctx, back));
    }
}
