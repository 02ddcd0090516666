//! Tests of the turns of inputs and lanes, and of waiting for credit. The tests set the credit of the link.

use silvan_congestion::marking::Marker;
use silvan_engine::Rate;

use super::*;
use crate::packet::Packet;
use crate::schedule::Applied;

/// The link of an output with `L` lanes: the credit of each lane and the time at which more arrives.
struct Link<const L: usize> {
    packets: Pool,
    credit: [u32; MOST_LANES],
    ready: [Time; MOST_LANES],
    waited: Vec<Need>,
    is_broken: bool,
}

impl<const L: usize> Schedule for Link<L> {
    type Output = Output<L, ()>;

    fn packets(&mut self) -> &mut Pool {
        &mut self.packets
    }

    fn free_at(&self, _output: &Self::Output) -> Time {
        Time::ZERO
    }

    fn rate(&self, _output: &Self::Output) -> Rate {
        Rate::from_gbit(8)
    }

    fn sent(&self, _output: &Self::Output) -> u64 {
        0
    }

    fn has_credit(&mut self, _output: &mut Self::Output, need: Need) -> bool {
        self.credit[need.vl] >= need.space
    }

    fn wait_for_credit(&mut self, _output: &mut Self::Output, need: Need) -> Time {
        self.waited.push(need);
        self.ready[need.vl]
    }

    fn note_applied(&mut self, _output: &Self::Output, _applied: Applied) {}

    fn report_broken(&mut self, _output: &Self::Output, _what: &str) {
        self.is_broken = true;
    }
}

/// One output. Its link initially has credit for all packets.
struct Bench<const L: usize> {
    outputs: VoqOutputs<L, UNMARKED, false, ()>,
    link: Link<L>,
    marking: SwitchMarking,
}

impl<const L: usize> Bench<L> {
    fn new(inputs: usize, order: LaneOrder) -> Self {
        let marking = SwitchMarking::new(Marker::None, 1, 100);
        let records = vec![Output::new(0, ())];
        Self {
            outputs: VoqOutputs::new(records, inputs, order, false, &marking),
            link: Link {
                packets: Pool::default(),
                credit: [u32::MAX; MOST_LANES],
                ready: [Time::NEVER; MOST_LANES],
                waited: Vec::new(),
                is_broken: false,
            },
            marking,
        }
    }

    /// With one lane, or two if the variant has room for them.
    fn with_inputs(inputs: usize) -> Self {
        Self::new(inputs, LaneOrder { lanes: L.min(2), first: None })
    }

    /// Adds a packet of `space` bytes. Returns whether the output should be settled.
    fn arrive(&mut self, input: usize, vl: usize, space: u32) -> bool {
        let packet = Packet { size: space, space, vl: Vl::new(vl), ..Packet::example() };
        let head = Head::of(self.link.packets.insert(packet), &packet);
        let slot = Slot::new(0, vl, input);
        self.outputs.enqueue(&mut self.link, &mut self.marking, slot, head, Time::ZERO)
    }

    /// Returns the input, the lane and the packet that the output sends next.
    fn settle(&mut self) -> Result<(usize, usize, PacketId), Time> {
        let Sending { slot, head } = self.outputs.settle(&mut self.link, &mut self.marking, 0, Time::ZERO)?;
        Ok((slot.input(), slot.vl(), head.packet))
    }

    /// Sends all packets. Returns their inputs.
    fn inputs(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.settle().ok().map(|(input, ..)| input)).collect()
    }

    /// Sends all packets. Returns their lanes.
    fn lanes(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.settle().ok().map(|(_, vl, _)| vl)).collect()
    }
}

/// Checks a rule in the variant that stores the heads of queues and in the general one.
fn in_both(check_held: impl FnOnce(Bench<1>), check_general: impl FnOnce(Bench<MOST_LANES>)) {
    check_held(Bench::with_inputs(8));
    check_general(Bench::new(8, LaneOrder { lanes: 1, first: None }));
}

fn serves_all_inputs_in_turn<const L: usize>(mut bench: Bench<L>) {
    for input in [5, 2, 5, 0, 2] {
        bench.arrive(input, 0, 64);
    }
    assert_eq!(bench.inputs(), [0, 2, 5, 2, 5]);
    // It is the turn of input 6.
    for input in [0, 5, 7] {
        bench.arrive(input, 0, 64);
    }
    assert_eq!(bench.inputs(), [7, 0, 5]);
    assert_eq!(bench.settle(), Err(Time::NEVER), "nothing waits");
    assert_eq!((bench.outputs.records[0].waiting, bench.outputs.queued_bytes(0)), (0, 0));
}

#[test]
fn an_output_serves_all_inputs_in_turn() {
    in_both(serves_all_inputs_in_turn, serves_all_inputs_in_turn);
}

fn keeps_the_order_of_each_input<const L: usize>(mut bench: Bench<L>) {
    // More queues than heads that an output stores.
    for round in 0..3 {
        for input in 0..7 {
            assert!(bench.arrive(input, 0, 64 + round));
        }
    }
    for round in 0..3 {
        for input in 0..7 {
            assert_eq!(bench.settle(), Ok((input, 0, (7 * round + input) as PacketId)));
        }
    }
    assert_eq!(bench.settle(), Err(Time::NEVER));
}

#[test]
fn packets_of_an_input_leave_in_their_order() {
    in_both(keeps_the_order_of_each_input, keeps_the_order_of_each_input);
}

fn keeps_the_turn_of_an_input_that_lacks_credit<const L: usize>(mut bench: Bench<L>) {
    bench.arrive(1, 0, 500);
    bench.arrive(2, 0, 64);
    (bench.link.credit[0], bench.link.ready[0]) = (499, Time(70));
    assert_eq!(bench.settle(), Err(Time(70)), "the time at which the credit arrives");
    assert_eq!(bench.link.waited.len(), 1, "only the packet whose turn it is waits");
    assert_eq!((bench.link.waited[0].space, bench.link.waited[0].dst), (500, 9));
    bench.link.credit[0] = 500;
    assert_eq!(bench.inputs(), [1, 2], "the small packet has not overtaken the large one");
}

#[test]
fn an_input_that_lacks_credit_keeps_its_turn() {
    in_both(keeps_the_turn_of_an_input_that_lacks_credit, keeps_the_turn_of_an_input_that_lacks_credit);
}

fn is_settled_early_only_for_smaller_packets<const L: usize>(mut bench: Bench<L>) {
    assert!(bench.arrive(1, 0, 500), "an output with nothing to send");
    bench.link.credit[0] = 100;
    assert_eq!(bench.settle(), Err(Time::NEVER));
    assert!(!bench.arrive(2, 0, 500), "the credit is also too little for this one");
    assert!(bench.arrive(3, 0, 499), "this one may have its turn first");
    bench.link.credit[0] = 1_000;
    assert_eq!(bench.settle(), Ok((1, 0, 0)));
    assert!(bench.arrive(4, 0, 500), "credit has returned");
}

#[test]
fn while_a_packet_lacks_credit_only_smaller_ones_cause_an_attempt() {
    in_both(is_settled_early_only_for_smaller_packets, is_settled_early_only_for_smaller_packets);
}

fn serves_lanes_in_turn<const L: usize>(mut bench: Bench<L>) {
    for (input, vl) in [(0, 0), (0, 0), (1, 1), (1, 1), (2, 1)] {
        bench.arrive(input, vl, 64);
    }
    assert_eq!(bench.lanes(), [0, 1, 0, 1, 1]);
    for (input, vl) in [(0, 0), (1, 1)] {
        bench.arrive(input, vl, 64);
    }
    assert_eq!(bench.lanes(), [0, 1], "the turn passed to lane 0 after lane 1");
}

#[test]
fn lanes_are_served_in_turn() {
    serves_lanes_in_turn(Bench::<2>::with_inputs(4));
    serves_lanes_in_turn(Bench::<MOST_LANES>::with_inputs(4));
}

fn passes_over_a_lane_that_lacks_credit<const L: usize>(mut bench: Bench<L>) {
    for (input, vl) in [(0, 0), (1, 1), (1, 1)] {
        bench.arrive(input, vl, 64);
    }
    bench.link.credit[0] = 0;
    assert_eq!(bench.lanes(), [1, 1]);
    bench.arrive(1, 1, 64);
    bench.link.credit[1] = 0;
    (bench.link.ready[0], bench.link.ready[1]) = (Time(90), Time(40));
    assert_eq!(bench.settle(), Err(Time(40)), "the lane whose credit arrives first");
    (bench.link.credit[0], bench.link.credit[1]) = (64, 64);
    assert_eq!(bench.lanes(), [0, 1], "after lane 1, it is the turn of lane 0");
}

#[test]
fn a_lane_that_lacks_credit_does_not_block_others() {
    passes_over_a_lane_that_lacks_credit(Bench::<2>::with_inputs(4));
    passes_over_a_lane_that_lacks_credit(Bench::<MOST_LANES>::with_inputs(4));
}

fn serves_the_first_lane_before_all<const L: usize>(lanes: usize, expected: &[usize]) {
    let mut bench = Bench::<L>::new(4, LaneOrder { lanes, first: Some(Vl(1)) });
    for vl in (0..lanes).flat_map(|vl| [vl, vl]) {
        bench.arrive(0, vl, 64);
    }
    assert_eq!(bench.lanes(), expected);
    bench.arrive(0, 0, 64);
    bench.arrive(0, 1, 64);
    bench.link.credit[1] = 0;
    assert_eq!(bench.lanes(), [0], "without credit, it does not block the others");
}

#[test]
fn a_lane_that_precedes_all_others_takes_no_turns() {
    serves_the_first_lane_before_all::<2>(2, &[1, 1, 0, 0]);
    serves_the_first_lane_before_all::<MOST_LANES>(3, &[1, 1, 0, 2, 0, 2]);
}

#[test]
fn inputs_beyond_the_first_word_take_turns_too() {
    let mut bench = Bench::<MOST_LANES>::with_inputs(256);
    let inputs = [255, 64, 63, 200, 0, 64];
    for input in inputs {
        bench.arrive(input, 1, 64);
    }
    assert_eq!(bench.inputs(), [0, 63, 64, 200, 255, 64]);
    bench.arrive(255, 1, 64);
    bench.arrive(0, 1, 64);
    assert_eq!(bench.inputs(), [255, 0]);
    bench.arrive(255, 1, 64);
    bench.arrive(1, 1, 64);
    assert_eq!(bench.inputs(), [1, 255], "after input 0");
}

#[test]
fn a_packet_may_pass_an_output_without_waiting_packets() {
    let mut bench = Bench::<2>::with_inputs(4);
    let may_pass = |bench: &Bench<2>| bench.outputs.may_pass(0, 0, 64, &bench.marking);
    assert!(may_pass(&bench));
    let packet = Packet { size: 64, space: 64, ..Packet::example() };
    let head = Head::of(bench.link.packets.insert(packet), &packet);
    let slot = Slot::new(0, 0, 2);
    bench.outputs.passes(&mut bench.link, &mut bench.marking, slot, head, Time::ZERO);
    assert_eq!((bench.outputs.records[0].lanes[0].turn, bench.outputs.records[0].turn), (3, 1));
    bench.arrive(0, 1, 64);
    assert!(!may_pass(&bench), "a packet waits, even though on the other lane");
    // The turns are those after a queued packet: input 3 and lane 1 are next.
    for (input, vl) in [(2, 0), (3, 0)] {
        bench.arrive(input, vl, 64);
    }
    let order: Vec<(usize, usize)> =
        std::iter::from_fn(|| bench.settle().ok().map(|(input, vl, _)| (vl, input))).collect();
    assert_eq!(order, [(1, 0), (0, 3), (0, 2)]);
}

#[test]
fn a_request_without_a_packet_is_reported() {
    let mut bench = Bench::<MOST_LANES>::with_inputs(4);
    assert_eq!(bench.settle(), Err(Time::NEVER));
    assert!(!bench.link.is_broken, "an output without requests has nothing to send");
    bench.arrive(2, 1, 64);
    bench.outputs.queues.fill(Fifo::default());
    assert_eq!(bench.settle(), Err(Time::NEVER));
    assert!(bench.link.is_broken);
}

#[test]
fn observers_see_the_packets_of_each_input() {
    let mut bench = Bench::<1>::with_inputs(8);
    for input in [1, 3, 1] {
        bench.arrive(input, 0, 64);
    }
    let requested =
        |bench: &Bench<1>, input| !bench.outputs.requested(0, 1, Port(input), Vl::FIRST).is_empty();
    assert_eq!([0, 1, 3].map(|input| requested(&bench, input)), [false, true, true]);
    let of_input: Vec<PacketId> = bench.outputs.packets(&bench.link.packets, Slot::new(0, 0, 1)).collect();
    assert_eq!(of_input, [0, 2]);
    assert_eq!(bench.outputs.queued_bytes(0), 192);
}
