//! Tests of single matchings: pointers, iterations, and the choice between grants.

use silvan_network::port::OneLane;
use silvan_network::port_set::Ports64;

use super::*;
use crate::config;
use crate::partition::Partition;
use crate::queueing::Queues;
use crate::switch::{Architecture, Switches};
use crate::tests::{enqueue, packet, star};

type Switch = QueuedSwitch<Ports64, OneLane, Islip<Ports64>>;

/// A switch with a queue per output at each of four inputs.
fn partition(iterations: u8) -> Partition {
    star(|config| {
        config.switch.architecture = Some(config::Architecture::Iq);
        config.switch.queues = Some(Queues::PerOutput);
        config.switch.islip_iterations = iterations;
    })
}

fn parts(partition: &mut Partition) -> (&mut Switch, &mut Context) {
    let Switches::Islip(switches) = &mut partition.switches else { panic!("the switch has one lane") };
    (&mut switches[0], &mut partition.ctx)
}

/// Queues packets, which are given by their inputs and outputs, and matches once. Returns the outputs that have sent.
fn settle(switch: &mut Switch, ctx: &mut Context, packets: &[(u16, u16)]) -> Vec<u16> {
    for &(input, output) in packets {
        enqueue(switch, ctx, Port(input), packet(input.into(), output.into()));
    }
    // All wake-ups until now are due.
    Port::all(4).for_each(|output| switch.wake(ctx, output));
    ctx.dirty_outputs.clear();
    switch.settle(ctx, Port::FIRST);
    let busy = |output: &u16| ctx.free_at(switch.ports.out(Port(*output))) > ctx.now;
    (0..4).filter(busy).collect()
}

/// The pointers of the outputs, and those of the inputs.
fn pointers(switch: &Switch) -> ([u16; 4], [u16; 4]) {
    let granting = |port| switch.buffers.turn(switch.buffers.lane(Port(port), Vl::FIRST)).input.0;
    let accepting = |port: usize| switch.arbiter.inputs[port].accept.0;
    ([0, 1, 2, 3].map(granting), [0, 1, 2, 3].map(accepting))
}

#[test]
fn an_input_accepts_the_grant_nearest_to_its_pointer_and_only_that_one_moves_pointers() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(0, 3), (0, 2)]), [2]);
    // Output 3 also granted but was not accepted.
    assert_eq!(pointers(switch), ([0, 0, 1, 0], [3, 0, 0, 0]));
}

#[test]
fn later_iterations_match_the_rest_without_moving_pointers() {
    let mut partition = partition(2);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(0, 2), (0, 3), (1, 3)]), [2, 3]);
    assert_eq!(pointers(switch), ([0, 0, 1, 0], [3, 0, 0, 0]));
}

#[test]
fn with_one_iteration_an_unaccepted_grant_is_repeated_after_a_cell() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(0, 2), (0, 3), (1, 3)]), [2]);
    let cell = ctx.links.span(0, 64);
    let wakes: Vec<Time> = ctx.queue.iter().map(|event| event.time).filter(|&time| time == cell).collect();
    assert_eq!(wakes, [cell], "input 1 is free and requests output 3");
    ctx.now = cell;
    assert_eq!(settle(switch, ctx, &[]), [2, 3]);
}

#[test]
fn nothing_is_repeated_if_no_free_input_requests_the_output() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(0, 2), (0, 3)]), [2]);
    let cell = ctx.links.span(0, 64);
    assert!(ctx.queue.iter().all(|event| event.time != cell));
}

#[test]
fn outputs_grant_to_the_first_request_at_or_after_their_pointers() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(1, 0), (2, 0), (3, 1)]), [0, 1]);
    assert_eq!(pointers(switch), ([2, 0, 0, 0], [0, 1, 0, 2]));
    // When all ports are free again, it is the turn of input 2; after the last input, the turn returns to the first
    // input.
    ctx.now = Time(2 * ctx.links.span(0, 1_000).0);
    assert_eq!(settle(switch, ctx, &[(0, 1), (2, 1), (1, 0)]), [0, 1]);
    assert_eq!(pointers(switch).0, [3, 1, 0, 0]);
}

#[test]
fn a_busy_input_gets_no_grant() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(settle(switch, ctx, &[(1, 0)]), [0]);
    ctx.now = Time(1);
    assert_eq!(settle(switch, ctx, &[(1, 2), (3, 2)]), [0, 2]);
    assert_eq!(switch.queued_bytes(Port(2)), 1_000);
    assert!(switch.arbiter.busy.contains(Port(1)) && switch.arbiter.busy.contains(Port(3)));
}

#[test]
fn an_input_prefers_a_grant_that_cannot_wait_and_then_the_nearest_one() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    enqueue(switch, ctx, Port(1), packet(1, 0));
    let lane = switch.buffers.lane(Port(0), Vl::FIRST);
    let channel = switch.ports.out(Port(0));
    let head =
        candidate(ctx, &mut switch.buffers, LaneOnLink { lane, vl: Vl::FIRST, channel }, Port(1)).unwrap();
    let grant = |output, waits| Match { input: Port(1), output: Port(output), vl: Vl::FIRST, head, waits };
    let state = &mut switch.arbiter;
    state.inputs[1].accept = Port(2);
    // From the pointer, the order is 2, 3, 0, 1.
    for (nearer, other) in [(2, 3), (3, 0), (0, 1), (2, 1)] {
        assert!(state.is_nearer(&grant(nearer, false), &grant(other, false)), "{nearer} {other}");
        assert!(!state.is_nearer(&grant(other, false), &grant(nearer, false)), "{other} {nearer}");
        assert!(state.is_nearer(&grant(other, false), &grant(nearer, true)), "{nearer} can wait");
    }
    for offers in [[grant(3, false), grant(0, false)], [grant(0, false), grant(3, false)]] {
        let (mut accepted, mut refused) = (Vec::new(), Ports64::default());
        offers.into_iter().for_each(|offer| state.offer(offer, &mut accepted, &mut refused));
        assert_eq!(accepted.iter().map(|pair| pair.output).collect::<Vec<_>>(), [Port(3)]);
        assert!(refused.contains(Port(0)) && !refused.contains(Port(3)));
    }
}

#[test]
fn accepted_grants_are_ordered_by_input() {
    let mut partition = partition(1);
    let (switch, ctx) = parts(&mut partition);
    enqueue(switch, ctx, Port(1), packet(1, 0));
    let lane = switch.buffers.lane(Port(0), Vl::FIRST);
    let channel = switch.ports.out(Port(0));
    let head =
        candidate(ctx, &mut switch.buffers, LaneOnLink { lane, vl: Vl::FIRST, channel }, Port(1)).unwrap();
    let (mut accepted, mut refused) = (Vec::new(), Ports64::default());
    for (output, input) in (0..).zip([2, 0, 3, 1]) {
        let offer = Match { input: Port(input), output: Port(output), vl: Vl::FIRST, head, waits: false };
        switch.arbiter.offer(offer, &mut accepted, &mut refused);
    }
    assert_eq!(accepted.iter().map(|pair| pair.input.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(accepted.iter().map(|pair| pair.output.0).collect::<Vec<_>>(), [1, 3, 0, 2]);
    assert!(refused.is_empty());
}
