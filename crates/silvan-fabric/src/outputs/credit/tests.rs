//! Tests of credit that is booked before its arrival: when this is permitted, and that no sample shows it.

use silvan_engine::Rate;

use super::super::{OutputLink, Outputs};
use super::*;
use crate::config::Scheduler;
use crate::partition::Partition;
use crate::tests::star;

type Small = Bank<1, { crate::voq::UNMARKED }, false>;

fn partition() -> Partition {
    star(|config| config.scheduler = Scheduler::Binned)
}

fn bank(partition: &mut Partition) -> &mut Small {
    let Some(Outputs::One(bank)) = &mut partition.outputs else { panic!("one lane and no marking rule") };
    bank
}

/// The credit that the sender of an output's lane sees at a time.
fn has(bank: &mut Small, space: u32, now: Time) -> bool {
    let need = Need { output: 0, vl: 0, dst: 0, space, now };
    let Small { voq, wiring, .. } = bank;
    wiring.credits.has_credit(&mut voq.records[0], need)
}

fn outstanding(bank: &Small, now: Time) -> u32 {
    bank.wiring.credits.outstanding(0, &bank.voq.records[0].lanes[0], now)
}

/// Spends credit of output 0, as if packets had been sent.
fn spend(bank: &mut Small, space: u32) {
    bank.wiring.credits.spend(0, &mut bank.voq.records[0].lanes[0], space);
}

#[test]
fn a_link_leaves_credit_if_it_cannot_use_all_until_more_arrives() {
    let parameters = bank(&mut partition()).wiring.links[0].parameters;
    assert_eq!(parameters.rate, Rate::from_gbit(16));
    let link = OutputLink { parameters, least_ps: 500, full_ps: 1_000_000 };
    // In 2 us, the link uses up to 4,000 bytes. Three full packets are 6,000.
    assert!(link.leaves(10_000, 2_000_000, 3));
    assert!(!link.leaves(9_999, 2_000_000, 3));
    assert!(!link.leaves(10_000, 2_000_001, 3));
    let unbounded = OutputLink { least_ps: 0, full_ps: u64::MAX / 8, ..link };
    assert!(!unbounded.leaves(u32::MAX, 0, 3), "without a bound, never");
}

#[test]
fn ample_credit_is_booked_before_it_arrives_and_the_next_sample_does_not_show_it() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    let capacity = bank.wiring.credits.capacities[0];
    let (sample, back) = (Time(300_000), Time(400_000));
    bank.wiring.credits.expect_sample(sample);
    spend(bank, 1_024);
    bank.credit(0, 0, back, 1_024);
    assert!(has(bank, capacity, Time::ZERO), "it is booked");
    assert_eq!(outstanding(bank, sample), 1_024, "but has not arrived");
    bank.wiring.credits.sample(sample);
    assert_eq!(outstanding(bank, sample), 1_024);
    // The sample after its arrival.
    bank.wiring.credits.expect_sample(Time(600_000));
    bank.wiring.credits.sample(Time(600_000));
    assert_eq!(outstanding(bank, Time(600_000)), 0);
}

#[test]
fn credit_that_arrives_before_the_next_sample_needs_no_note() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    bank.wiring.credits.expect_sample(Time(400_000));
    spend(bank, 1_024);
    bank.credit(0, 0, Time(400_000), 1_024);
    assert!(bank.wiring.credits.early.booked.is_empty());
    assert_eq!(outstanding(bank, Time(400_000)), 0);
}

#[test]
fn scarce_credit_arrives_at_its_time() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    let capacity = bank.wiring.credits.capacities[0];
    let back = Time(400_000);
    spend(bank, capacity - 100);
    bank.credit(0, 0, back, 1_024);
    assert!(!has(bank, 101, back - Time(1)));
    assert!(has(bank, 1_124, back));
    assert!(!has(bank, 1_125, back));
}

#[test]
fn an_output_that_waits_for_credit_decides_when_enough_has_arrived() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    let capacity = bank.wiring.credits.capacities[0];
    spend(bank, capacity);
    let need = Need { output: 0, vl: 0, dst: 0, space: 1_024, now: Time::ZERO };
    let Small { voq, wiring, .. } = &mut *bank;
    assert_eq!(wiring.credits.wait(&mut voq.records[0], need), Time::NEVER, "none is on its way");
    let (first, second) = (Time(300_000), Time(500_000));
    bank.credit(0, 0, first, 1_000);
    assert_eq!(bank.voq.records[0].own.ready_at, Time::NEVER, "too little");
    bank.credit(0, 0, second, 24);
    assert_eq!(bank.voq.records[0].own.ready_at, second);
    assert_eq!(bank.planned.next(), Some(second.0 >> bank.shift), "a decision is planned");
    // The link is busy when the credit arrives.
    let busy_until = Time(700_000);
    bank.voq.records[1].free_at = busy_until;
    let capacity = bank.wiring.credits.capacities[1];
    let Small { voq, wiring, .. } = &mut *bank;
    wiring.credits.spend(1, &mut voq.records[1].lanes[0], capacity);
    wiring.credits.wait(&mut voq.records[1], Need { output: 1, ..need });
    bank.credit(1, 0, second, 1_024);
    assert_eq!(bank.voq.records[1].own.ready_at, busy_until);
}

#[test]
fn a_packet_that_is_sent_ends_the_wait() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    let need = Need { output: 0, vl: 0, dst: 0, space: u32::MAX, now: Time::ZERO };
    let Small { voq, wiring, .. } = &mut *bank;
    wiring.credits.wait(&mut voq.records[0], need);
    assert!(bank.voq.records[0].lanes[0].short && bank.wiring.credits.wanted[0] > 0);
    spend(bank, 64);
    assert!(!bank.voq.records[0].lanes[0].short && bank.wiring.credits.wanted[0] == 0);
    assert_eq!(outstanding(bank, Time::ZERO), 64);
}

#[test]
fn credit_of_drained_packets_is_booked_if_the_whole_buffer_outlasts_their_return() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    let capacity = bank.wiring.credits.capacities[0];
    let link = bank.wiring.links[usize::from(bank.voq.records[0].own.link)];
    spend(bank, capacity);
    // However little credit there is, only the buffer counts.
    let longest = u64::from(capacity) * link.least_ps - 4 * link.full_ps;
    bank.credit_of_drained(0, 0, Time(longest), 64);
    assert_eq!(bank.voq.records[0].lanes[0].available, 64);
    bank.credit_of_drained(0, 0, Time(longest + 1), 64);
    assert_eq!(bank.voq.records[0].lanes[0].available, 64, "this one may be needed earlier");
}

#[test]
fn credit_of_hosts_is_booked_under_the_same_condition() {
    let mut partition = partition();
    let now = Time::ZERO;
    let out = partition.hosts[0].out;
    let capacity = partition.ctx.links.capacity(out, Vl::FIRST);
    let id = partition.ctx.packets.insert(crate::tests::packet(0, 3));
    partition.ctx.send(out, id);
    let Partition { outputs, ctx, .. } = &mut partition;
    let Some(Outputs::One(bank)) = outputs else { panic!("one lane and no marking rule") };
    bank.wiring.credits.expect_sample(Time(10));
    let around = &mut Around { ctx, switches: &[], hosts_at: now };
    let way = CreditWay { channel: out, vl: Vl::FIRST, dst: 3 };
    bank.credit_host(around, way, (Time(1_000), now), 512);
    assert!(around.ctx.links.has_credit(way, capacity - 512, now), "there is ample credit");
    assert_eq!(bank.wiring.credits.early_of_host(out, Vl::FIRST), 512);
    let never_ample = Time::from_us(10_000);
    bank.credit_host(around, way, (never_ample, now), 512);
    assert!(!around.ctx.links.has_credit(way, capacity - 511, now));
    assert!(around.ctx.links.has_credit(way, capacity, never_ample + around.ctx.links.delay(out)));
    bank.wiring.credits.sample(Time::from_us(100));
    assert_eq!(bank.wiring.credits.early_of_host(out, Vl::FIRST), 0);
}

#[test]
fn a_packet_on_a_channel_without_an_entry_is_reported() {
    let mut partition = partition();
    let id = partition.ctx.packets.insert(crate::tests::packet(0, 3));
    let channel = partition.hosts[0].into;
    let Partition { outputs, ctx, .. } = &mut partition;
    ctx.entering.push(crate::message::Entering { channel, packet: id, when: Time::from_us(1) });
    assert_eq!(ctx.broken(), None);
    outputs.as_mut().unwrap().enter(ctx);
    let (_, what) = ctx.broken().unwrap();
    assert_eq!(what, format!("channel {channel} leads to no switch of its partition"));
}

#[test]
fn a_paused_lane_has_no_credit_and_waits_for_a_frame() {
    let mut partition = partition();
    let bank = bank(&mut partition);
    assert!(has(bank, 64, Time::ZERO));
    bank.voq.records[0].lanes[0].paused = true;
    assert!(!has(bank, 64, Time::ZERO));
    let need = Need { output: 0, vl: 0, dst: 0, space: 64, now: Time::ZERO };
    let Small { voq, wiring, .. } = &mut *bank;
    assert_eq!(wiring.credits.wait(&mut voq.records[0], need), Time::NEVER);
    assert_eq!(wiring.credits.wanted[0], 0, "credit does not wake it");
}
