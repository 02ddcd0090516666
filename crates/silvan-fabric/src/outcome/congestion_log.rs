//! The congestion logs of switches and channel adapters at the end of a run, as tables and totals.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Port;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::congestion_log::{SWITCH_EVENTS, TriggerEvent};
use crate::partition::View;
use crate::table::{Described, Layout, RowsOf, classes, hosts, names, numbers, small, switches};

/// Totals of the congestion logs over the whole run. The tables `congestion_log_switches` and
/// `congestion_log_hosts` have the latest events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CongestionLogSummary {
    /// The switches that marked packets.
    pub switches: Vec<SwitchLogSummary>,
    /// The hosts in which an index reached its trigger threshold.
    pub hosts: Vec<HostLogSummary>,
}

/// Totals of the congestion log of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SwitchLogSummary {
    /// Name of the switch.
    pub switch: String,
    /// Number of data packets that received their mark at the switch (`LogEventsCounter`).
    pub events: u64,
    /// Numbers of the ports that marked packets (`PortMap`).
    pub ports: Vec<u16>,
}

/// Totals of the congestion log of a channel adapter.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostLogSummary {
    /// Name of the host.
    pub host: String,
    /// Number of times that an index reached its trigger threshold (`ThresholdEventCounter`).
    pub events: u64,
    /// The service levels of these indexes (`ThresholdCongestionEventMap`).
    pub service_levels: Vec<u8>,
}

/// An event of a switch: time, port, source, destination and service level, in the order of their
/// significance.
type Marked = (Time, u16, u32, u32, u8);

/// The latest events of all ports of a switch together, at most [`SWITCH_EVENTS`].
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

/// A switch, and an event in its log.
type SwitchRow = (u32, Marked);

const OF_SWITCHES: Layout<RowsOf<SwitchRow>> = Layout {
    name: "congestion_log_switches",
    rows: "The latest 15 data packets that each switch marked, with measure.congestion_log.",
    columns: &[
        names("switch", "the switch", switches, |all| all.of(|row| row.0)),
        numbers("time_ns", "time of the mark", |all| all.of(|row| row.1.0.as_ns_f64())),
        small("port", "number of the output", |all| all.of(|row| row.1.1.into())),
        names("source", "source of the packet", hosts, |all| all.of(|row| row.1.2)),
        names("destination", "destination of the packet", hosts, |all| all.of(|row| row.1.3)),
        small("sl", "service level", |all| all.of(|row| row.1.4.into())),
    ],
};

/// A host, the class of a flow, and an event in the log of the host.
type HostRow = (u32, u16, TriggerEvent);

const OF_HOSTS: Layout<RowsOf<HostRow>> = Layout {
    name: "congestion_log_hosts",
    rows: "The latest 13 notifications of each host with which an index reached trigger_threshold.",
    columns: &[
        names("host", "the host", hosts, |all| all.of(|row| row.0)),
        numbers("time_ns", "time of the notification", |all| all.of(|row| row.2.time.as_ns_f64())),
        names("class", "class of the flow", classes, |all| all.of(|row| row.1.into())),
        names("destination", "destination of the flow", hosts, |all| all.of(|row| row.2.destination)),
        small("sl", "service level", |all| all.of(|row| row.2.sl.into())),
    ],
};

/// The congestion logs.
#[derive(Saved)]
pub(crate) struct LogSection;

impl Section for LogSection {
    type Entry = Option<CongestionLogSummary>;
    const WHEN: &'static str = "with measure.congestion_log = true";
    const TABLES: &'static [&'static dyn Described] = &[&OF_SWITCHES, &OF_HOSTS];

    fn new(of: &Recording) -> Option<Self> {
        of.config.measure.congestion_log.then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let view = end.view;
        let switches = 0..view.switch_count() as u32;
        let of_switches = switches
            .flat_map(|switch| latest_of_switch(view, switch).into_iter().map(move |one| (switch, one)));
        let of_hosts = (0..).zip(view.hosts()).flat_map(|(index, host)| {
            let events = host.log.as_ref().map_or(&[][..], |log| log.latest.events());
            events.iter().map(move |&event| (index, host.sources[usize::from(event.source)].class, event))
        });
        let tables = vec![
            OF_SWITCHES.fill(of_switches.collect(), end.names),
            OF_HOSTS.fill(of_hosts.collect(), end.names),
        ];
        SectionResult { entry: Some(summary(end)), tables, ..SectionResult::default() }
    }
}

/// The totals of the switches that marked packets and of the hosts that logged events.
fn summary(end: &Ending) -> CongestionLogSummary {
    let view = end.view;
    let of_switch = |(index, name): (usize, &String)| {
        let switch = index as u32;
        let ports = Port::all(view.ports(switch).count());
        let marks: Vec<(u16, u64)> =
            ports.map(|port| (port.number(), view.marks(switch, port).0)).filter(|one| one.1 > 0).collect();
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
        switches: end.names.switches.iter().enumerate().filter_map(of_switch).collect(),
        hosts: end.names.hosts.iter().enumerate().filter_map(of_host).collect(),
    }
}
