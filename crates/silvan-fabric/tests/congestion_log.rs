//! The congestion logs of switches and hosts.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{config, flow, ib_cc, tables, topology, us};
use silvan_congestion::reaction::{Cct, Reaction};
use silvan_congestion::{Congestion, Notification};
use silvan_engine::Bytes;
use silvan_fabric::config::{Config, Scheduler};
use silvan_fabric::outcome::{Outcome, Table, Values};
use silvan_fabric::simulation::Simulation;
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

/// Four leaf switches with four hosts each. H1 and H16 are destinations of several hosts of other switches.
fn network() -> Topology {
    topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2}"#)
}

fn congested(cct: Cct) -> Config {
    let mut config = config(us(400));
    config.congestion = Congestion { reaction: Some(Reaction::Cct(cct)), ..ib_cc() };
    let to = |from: usize, to: &str, sl| Flow { sl, ..flow(&format!("H{from}"), to) };
    config.flows =
        (5..10).map(|host| to(host, "H1", 0)).chain((2..5).map(|host| to(host, "H16", 2))).collect();
    config.measure.congestion_log = true;
    config
}

fn run_as(config: &Config, scheduler: Scheduler, threads: u16) -> Outcome {
    let network = network();
    let config = Config { threads, scheduler, ..config.clone() };
    let mut simulation = Simulation::new(&network, &tables(&network), &config).unwrap();
    assert_eq!(simulation.partitions().unwrap_or(1), usize::from(threads), "each thread has a partition");
    while !simulation.advance(10_000).unwrap().done {}
    simulation.finish().unwrap()
}

fn table<'o>(outcome: &'o Outcome, name: &str) -> &'o Table {
    outcome.tables.iter().find(|table| table.name == name).unwrap()
}

fn names(table: &Table, column: &str) -> Vec<String> {
    let Values::Name { codes, names } = &values(table, column) else { panic!("{column} has no names") };
    codes.iter().map(|&code| names[code as usize].clone()).collect()
}

fn values<'t>(table: &'t Table, column: &str) -> &'t Values {
    &table.columns.iter().find(|one| one.name == column).unwrap().values
}

fn numbers(table: &Table, column: &str) -> Vec<u32> {
    let Values::U32(numbers) = values(table, column) else { panic!("{column} has no numbers") };
    numbers.clone()
}

fn times(table: &Table) -> Vec<f64> {
    let Values::F64(times) = values(table, "time_ns") else { panic!("no times") };
    times.clone()
}

#[test]
fn logs_do_not_depend_on_the_scheduler_or_on_threads() {
    let config = congested(Cct { ccti_increase: 3, ccti_timer: 5, trigger_threshold: 7, ..Cct::default() });
    let expected = run_as(&config, Scheduler::EventOrdered, 1);
    let logs = ["congestion_log_switches", "congestion_log_hosts"];
    assert!(logs.iter().all(|log| times(table(&expected, log)).len() > 15));
    for (scheduler, threads) in [
        (Scheduler::Binned, 1),
        (Scheduler::EventOrdered, 2),
        (Scheduler::Binned, 2),
        (Scheduler::EventOrdered, 4),
        (Scheduler::Binned, 4),
    ] {
        let outcome = run_as(&config, scheduler, threads);
        for log in logs {
            assert_eq!(table(&outcome, log), table(&expected, log), "{scheduler:?}, {threads} threads");
        }
        assert_eq!(outcome.summary.congestion_log, expected.summary.congestion_log);
    }
}

#[test]
fn a_switch_counts_all_marks_and_logs_the_latest_15() {
    let outcome = run_as(&congested(Cct::default()), Scheduler::BinnedIfPossible, 1);
    let totals = outcome.summary.congestion_log.as_ref().unwrap();
    let events: u64 = totals.switches.iter().map(|switch| switch.events).sum();
    assert_eq!(events, outcome.summary.fecn_marks);
    assert!(totals.switches.iter().any(|switch| switch.events > 100), "{totals:?}");
    let log = table(&outcome, "congestion_log_switches");
    let (switches, times) = (names(log, "switch"), times(log));
    let (ports, levels) = (numbers(log, "port"), numbers(log, "sl"));
    let (sources, destinations) = (names(log, "source"), names(log, "destination"));
    for switch in &totals.switches {
        let rows: Vec<usize> = (0..times.len()).filter(|&row| switches[row] == switch.switch).collect();
        assert_eq!(rows.len() as u64, switch.events.min(15), "{}", switch.switch);
        assert!(rows.iter().all(|&row| switch.ports.contains(&(ports[row] as u16))));
        let of = |row: usize| (times[row], ports[row]);
        assert!(rows.windows(2).all(|rows| of(rows[0]) <= of(rows[1])), "oldest first, then by port");
    }
    assert_eq!(switches.len(), totals.switches.iter().map(|one| one.events.min(15) as usize).sum::<usize>());
    for row in 0..times.len() {
        let from: usize = sources[row][1..].parse().unwrap();
        let expected = if (5..10).contains(&from) { ("H1", 0) } else { ("H16", 2) };
        assert_eq!((destinations[row].as_str(), levels[row]), expected);
    }
}

/// Notifications of a flow raise its index one by one, and no timer decrements it.
fn rising(trigger_threshold: u16) -> Outcome {
    let cct = Cct { ccti_timer: u32::MAX >> 8, trigger_threshold, ..Cct::default() };
    run_as(&congested(cct), Scheduler::BinnedIfPossible, 1)
}

#[test]
fn a_host_logs_each_index_that_reaches_the_threshold_once() {
    let outcome = rising(4);
    let totals = &outcome.summary.congestion_log.as_ref().unwrap().hosts;
    assert!(totals.len() > 4, "{totals:?}");
    for host in totals {
        let from: usize = host.host[1..].parse().unwrap();
        let expected = if (5..10).contains(&from) { 0 } else { 2 };
        assert_eq!((host.events, &host.service_levels[..]), (1, &[expected][..]), "{}", host.host);
    }
    let (early, late) = (times(table(&outcome, "congestion_log_hosts")), rising(9));
    assert!(early[0] < times(table(&late, "congestion_log_hosts"))[0], "a higher threshold is reached later");
}

#[test]
fn without_a_threshold_hosts_log_nothing() {
    let outcome = rising(0);
    assert!(outcome.summary.becn_received > 100);
    assert_eq!(outcome.summary.congestion_log.as_ref().unwrap().hosts, []);
    assert!(times(table(&outcome, "congestion_log_hosts")).is_empty());
}

#[test]
fn an_index_that_falls_and_rises_again_is_logged_again() {
    let cct = Cct { ccti_timer: 1, ccti_increase: 2, trigger_threshold: 2, ..Cct::default() };
    let outcome = run_as(&congested(cct), Scheduler::BinnedIfPossible, 1);
    let totals = &outcome.summary.congestion_log.as_ref().unwrap().hosts;
    let log = names(table(&outcome, "congestion_log_hosts"), "host");
    assert!(totals.iter().any(|host| host.events > 13), "{totals:?}");
    for host in totals {
        let kept = log.iter().filter(|name| **name == host.host).count() as u64;
        assert_eq!(kept, host.events.min(13), "{}", host.host);
    }
}

#[test]
fn notifications_by_switches_are_logged_like_marks() {
    let mut config = congested(Cct { trigger_threshold: 1, ..Cct::default() });
    config.congestion.notification = Some(Notification::Backward);
    config.flows.iter_mut().for_each(|flow| flow.message = Some(Bytes(2_048)));
    let outcome = run_as(&config, Scheduler::BinnedIfPossible, 1);
    let totals = outcome.summary.congestion_log.as_ref().unwrap();
    let events: u64 = totals.switches.iter().map(|switch| switch.events).sum();
    assert!(events > 0 && events == outcome.summary.fecn_marks, "{totals:?}");
    assert!(!totals.hosts.is_empty());
}

#[test]
fn runs_without_logs_have_no_tables() {
    let mut config = congested(Cct { trigger_threshold: 1, ..Cct::default() });
    let with = run_as(&config, Scheduler::BinnedIfPossible, 1);
    config.measure.congestion_log = false;
    let mut without = run_as(&config, Scheduler::BinnedIfPossible, 1);
    assert_eq!(without.summary.congestion_log, None);
    without.summary.congestion_log.clone_from(&with.summary.congestion_log);
    assert_eq!(without.summary, with.summary, "the logs do not affect the run");
    let others = with.tables.iter().filter(|table| !table.name.starts_with("congestion_log"));
    assert!(others.eq(&without.tables));
}
