//! The congestion logs of switches and channel adapters at the end of a run, as tables and totals.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_network::port::Port;

use crate::congestion_log::{SWITCH_EVENTS, TriggerEvent};
use crate::outcome::{Column, CongestionLogSummary, HostLogSummary, SwitchLogSummary, Table, Values};
use crate::partition::View;

/// The names that the logs refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logs<'a> {
    pub switches: &'a [String],
    pub hosts: &'a [String],
    pub classes: &'a [String],
}

fn ns(time: Time) -> f64 {
    time.0 as f64 / 1e3
}

fn column(name: &'static str, values: Values) -> Column {
    Column { name, values }
}

fn named(name: &'static str, codes: Vec<u32>, names: &[String]) -> Column {
    column(name, Values::Name { codes, names: Arc::new(names.to_vec()) })
}

/// An event of a switch: time, port, source, destination and service level, in the order of their significance.
type Marked = (Time, u16, u32, u32, u8);

/// The latest events of all ports of a switch.
fn latest_of_switch(view: View, switch: u32) -> Vec<Marked> {
    let ports = Port::all(view.ports(switch).count());
    let of_port = |port: Port| {
        let log = view.log(switch, port).iter();
        log.map(move |event| (event.time, port.number(), event.source, event.destination, event.sl))
    };
    let mut events: Vec<Marked> = ports.flat_map(of_port).collect();
    events.sort_unstable();
    events.split_off(events.len().saturating_sub(SWITCH_EVENTS))
}

impl Logs<'_> {
    /// Number of events and ports of each switch that marked packets, and of events of each host that logged any.
    pub fn summary(&self, view: View) -> CongestionLogSummary {
        let of_switch = |(index, name): (usize, &String)| {
            let switch = index as u32;
            let ports = Port::all(view.ports(switch).count());
            let marks: Vec<(u16, u64)> = ports
                .map(|port| (port.number(), view.marks(switch, port).0))
                .filter(|one| one.1 > 0)
                .collect();
            (!marks.is_empty()).then(|| SwitchLogSummary {
                switch: name.clone(),
                events: marks.iter().map(|(_, count)| count).sum(),
                ports: marks.iter().map(|(port, _)| *port).collect(),
            })
        };
        let of_host = |(index, name): (usize, &String)| {
            let log = view.host(index).log.as_ref()?;
            (log.count > 0).then(|| HostLogSummary {
                host: name.clone(),
                events: log.count,
                service_levels: (0..16).filter(|sl| log.levels >> sl & 1 == 1).collect(),
            })
        };
        CongestionLogSummary {
            switches: self.switches.iter().enumerate().filter_map(of_switch).collect(),
            hosts: self.hosts.iter().enumerate().filter_map(of_host).collect(),
        }
    }

    /// The events in the logs of switches, then those of hosts.
    pub fn tables(&self, view: View) -> [Table; 2] {
        [self.of_switches(view), self.of_hosts(view)]
    }

    fn of_switches(&self, view: View) -> Table {
        let [mut switches, mut sources, mut destinations, mut ports, mut levels] = [const { Vec::new() }; 5];
        let mut times = Vec::new();
        for switch in 0..view.switch_count() as u32 {
            for (time, port, source, destination, sl) in latest_of_switch(view, switch) {
                switches.push(switch);
                times.push(ns(time));
                ports.push(port.into());
                sources.push(source);
                destinations.push(destination);
                levels.push(sl.into());
            }
        }
        Table {
            name: "congestion_log_switches",
            columns: vec![
                named("switch", switches, self.switches),
                column("time_ns", Values::F64(times)),
                column("port", Values::U32(ports)),
                named("source", sources, self.hosts),
                named("destination", destinations, self.hosts),
                column("sl", Values::U32(levels)),
            ],
        }
    }

    fn of_hosts(&self, view: View) -> Table {
        let [mut hosts, mut classes, mut destinations, mut levels] = [const { Vec::new() }; 4];
        let mut times = Vec::new();
        for (index, host) in view.hosts().enumerate() {
            let events = host.log.as_ref().map_or(&[][..], |log| log.latest.events());
            for &TriggerEvent { time, destination, sl, source } in events {
                hosts.push(index as u32);
                times.push(ns(time));
                classes.push(host.sources[usize::from(source)].class.into());
                destinations.push(destination);
                levels.push(sl.into());
            }
        }
        Table {
            name: "congestion_log_hosts",
            columns: vec![
                named("host", hosts, self.hosts),
                column("time_ns", Values::F64(times)),
                named("class", classes, self.classes),
                named("destination", destinations, self.hosts),
                column("sl", Values::U32(levels)),
            ],
        }
    }
}
