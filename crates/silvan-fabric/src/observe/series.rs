//! Time series, which have rows for each interval. The rows are added at the end of the interval.

use std::mem::take;
use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, Vl};

use crate::observe::classes::{CLASSES, ClassRows};
use crate::observe::latest::{Latest, tail};
use crate::partition::View;
use crate::table::{
    Described, Layout, ResultNames, Table, counts, flows, hosts, links, names, numbers, small,
};

/// A directed channel from a switch or host, as shown in results.
#[derive(Debug, Clone, Saved)]
pub(crate) struct LinkName {
    pub channel: u32,
    /// The switch and the output that send on the channel; `None` for a host's channel.
    pub switch: Option<(u32, Port)>,
    /// Number of virtual lanes of the link.
    pub lanes: usize,
}

/// A named flow, which has its own series.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct FlowName {
    pub class: u16,
    pub host: u32,
    pub source: u16,
    pub destination: u32,
}

#[derive(Debug, Default, Saved)]
struct HostRows {
    time_ns: Vec<u64>,
    host: Vec<u32>,
    received: Vec<u64>,
    sent: Vec<u64>,
    last: Vec<(u64, u64)>,
}

#[derive(Debug, Default, Saved)]
struct FlowRows {
    time_ns: Vec<u64>,
    flow: Vec<u32>,
    received: Vec<u64>,
    sent: Vec<u64>,
    ccti: Vec<u32>,
    last: Vec<(u64, u64)>,
}

#[derive(Debug, Default, Saved)]
struct LinkSeriesRows {
    time_ns: Vec<u64>,
    link: Vec<u32>,
    sent: Vec<u64>,
    utilisation: Vec<f64>,
    queued: Vec<u32>,
    downstream: Vec<u32>,
    marks: Vec<u32>,
    congested: Vec<u32>,
    last: Vec<(u64, u64)>,
}

#[derive(Debug, Default, Saved)]
struct NetworkRows {
    time_ns: Vec<u64>,
    delivered: Vec<u64>,
    marks: Vec<u64>,
    becn: Vec<u64>,
    throttled: Vec<u32>,
    congested: Vec<u32>,
    inside: Vec<u64>,
    last: [u64; 3],
}

/// All time series of a run.
#[derive(Debug, Saved)]
pub(crate) struct Series {
    #[saved(constant)]
    pub interval: Time,
    #[saved(constant)]
    with_hosts: bool,
    #[saved(constant)]
    with_links: bool,
    last_time: Time,
    #[saved(constant)]
    pub flows: Vec<FlowName>,
    #[saved(constant)]
    pub links: Vec<LinkName>,
    hosts_rows: HostRows,
    flow_rows: FlowRows,
    link_rows: LinkSeriesRows,
    network: NetworkRows,
    classes: ClassRows,
}

fn ns(time: Time) -> u64 {
    time.0 / 1_000
}

impl Series {
    pub fn new(
        interval: Time,
        (with_hosts, with_links): (bool, bool),
        hosts: usize,
        class_names: Option<Arc<Vec<String>>>,
        flows: Vec<FlowName>,
        links: Vec<LinkName>,
    ) -> Self {
        let hosts_rows = HostRows { last: vec![(0, 0); hosts], ..HostRows::default() };
        let flow_rows = FlowRows { last: vec![(0, 0); flows.len()], ..FlowRows::default() };
        let link_rows = LinkSeriesRows { last: vec![(0, 0); links.len()], ..LinkSeriesRows::default() };
        Self {
            interval,
            with_hosts,
            with_links,
            last_time: Time::ZERO,
            flows,
            links,
            hosts_rows,
            flow_rows,
            link_rows,
            network: NetworkRows::default(),
            classes: ClassRows::new(class_names),
        }
    }

    /// Adds the rows of the interval that ends now. Returns false without adding any if a sample was already
    /// taken at this time.
    pub fn sample(&mut self, view: View) -> bool {
        if view.now == self.last_time {
            return false;
        }
        let congested = self.sample_links(view);
        self.sample_flows(view);
        if self.with_hosts {
            self.sample_hosts(view);
        }
        let row = &mut self.network;
        let counters = [
            view.totals.classes.iter().map(|class| class.delivered_bytes).sum(),
            view.totals.fecn_marks,
            view.totals.becn_received,
        ];
        row.time_ns.push(ns(view.now));
        row.delivered.push(counters[0] - row.last[0]);
        row.marks.push(counters[1] - row.last[1]);
        row.becn.push(counters[2] - row.last[2]);
        row.throttled.push(view.hosts().map(|host| host.throttled_flows() as u32).sum());
        row.congested.push(congested);
        row.inside.push(view.alive() as u64);
        row.last = counters;
        self.classes.sample(view.now, view.now - self.last_time, &view.totals.classes);
        self.last_time = view.now;
        true
    }

    fn sample_hosts(&mut self, view: View) {
        let rows = &mut self.hosts_rows;
        for (host, last) in rows.last.iter_mut().enumerate() {
            let (received, sent) = (view.totals.received_bytes[host], view.totals.sent_bytes[host]);
            rows.time_ns.push(ns(view.now));
            rows.host.push(host as u32);
            rows.received.push(received - last.0);
            rows.sent.push(sent - last.1);
            *last = (received, sent);
        }
    }

    fn sample_flows(&mut self, view: View) {
        let rows = &mut self.flow_rows;
        for (index, (flow, last)) in self.flows.iter().zip(&mut rows.last).enumerate() {
            let class = &view.totals.classes[usize::from(flow.class)];
            let ccti = view.host(flow.host as usize).strength(flow.source, flow.destination, view.now);
            rows.time_ns.push(ns(view.now));
            rows.flow.push(index as u32);
            rows.received.push(class.delivered_bytes - last.0);
            rows.sent.push(class.injected_bytes - last.1);
            rows.ccti.push(u32::from(ccti));
            *last = (class.delivered_bytes, class.injected_bytes);
        }
    }

    /// Adds a row per link, if links are recorded. Returns the number of outputs in the congestion state.
    fn sample_links(&mut self, view: View) -> u32 {
        let span = (view.now - self.last_time).as_secs_f64();
        let rows = &mut self.link_rows;
        let mut all_congested = 0;
        for (index, (link, last)) in self.links.iter().zip(&mut rows.last).enumerate() {
            let (mut marks, mut queued, mut congested) = (0, 0, false);
            if let Some((switch, output)) = link.switch {
                queued = view.queued_bytes(switch, output);
                (marks, congested) = view.marks(switch, output);
            }
            all_congested += u32::from(congested);
            if self.with_links {
                // The count can be one byte less than at the last sample, because times are rounded.
                let sent_bytes = view.sent_by(link.channel).max(last.0);
                let sent = sent_bytes - last.0;
                rows.time_ns.push(ns(view.now));
                rows.link.push(index as u32);
                rows.sent.push(sent);
                let whole = view.rate(link.channel).0 as f64 * span / 8.0;
                // Rounding to whole bytes and picoseconds can raise the share of a busy link slightly above
                // 1.
                rows.utilisation.push((sent as f64 / whole).min(1.0));
                rows.queued.push(queued);
                let outstanding = |vl| view.outstanding(link.channel, vl);
                rows.downstream.push(Vl::all(link.lanes).map(outstanding).sum());
                rows.marks.push((marks - last.1) as u32);
                rows.congested.push(u32::from(congested));
                *last = (sent_bytes, marks);
            }
        }
        all_congested
    }

    /// The end of each interval in nanoseconds, and the payload received in it, in bytes.
    pub fn received(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        self.network.time_ns.iter().copied().zip(self.network.delivered.iter().copied())
    }

    /// The end of each interval in nanoseconds, and the payload that a flow received in it, in bytes.
    pub fn received_of_flow(&self, flow: u32) -> impl Iterator<Item = (u64, u64)> {
        self.one_of(&self.flow_rows.received, flow, self.flows.len())
    }

    /// The end of each interval in nanoseconds, and the payload that a host received in it, in bytes. Empty
    /// if hosts are not recorded.
    pub fn received_of_host(&self, host: u32) -> impl Iterator<Item = (u64, u64)> {
        self.one_of(&self.hosts_rows.received, host, self.hosts_rows.last.len())
    }

    /// The end of each interval, and the value of one of `count` subjects. Each subject has one row per
    /// interval.
    fn one_of<'a>(
        &'a self,
        rows: &'a [u64],
        index: u32,
        count: usize,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        let own = rows.iter().copied().skip(index as usize).step_by(count.max(1));
        self.network.time_ns.iter().copied().zip(own)
    }

    /// The values of the last sample, without congestion trees and without the list of links that are down.
    pub fn latest(&self) -> Latest<'_> {
        let (links, hosts, flows) = (self.links.len(), self.hosts_rows.last.len(), self.flows.len());
        let (h, f, l, n) = (&self.hosts_rows, &self.flow_rows, &self.link_rows, &self.network);
        let of_network = |column: &[u64]| column.last().copied().unwrap_or_default();
        let of_network_u32 = |column: &[u32]| column.last().copied().unwrap_or_default();
        Latest {
            time_ns: of_network(&n.time_ns),
            received_bytes: of_network(&n.delivered),
            fecn_marks: of_network(&n.marks),
            becn_received: of_network(&n.becn),
            packets_inside: of_network(&n.inside),
            throttled_flows: of_network_u32(&n.throttled),
            congested_outputs: of_network_u32(&n.congested),
            host_received_bytes: tail(&h.received, hosts),
            host_sent_bytes: tail(&h.sent, hosts),
            flow_received_bytes: tail(&f.received, flows),
            flow_ccti: tail(&f.ccti, flows),
            link_utilisation: tail(&l.utilisation, links),
            link_queued_bytes: tail(&l.queued, links),
            class_throughput_gbit_s: self.classes.latest().0,
            class_latency_ns: self.classes.latest().1,
            ..Latest::default()
        }
    }

    /// The tables of time series.
    pub fn into_tables(self, names: &ResultNames) -> Vec<Table> {
        vec![
            NETWORK.fill(self.network, names),
            HOSTS.fill(self.hosts_rows, names),
            FLOWS.fill(self.flow_rows, names),
            LINKS.fill(self.link_rows, names),
            CLASSES.fill(self.classes, names),
        ]
    }
}

/// The tables of time series, which every run has.
pub(crate) const TABLES: [&dyn Described; 5] = [&NETWORK, &HOSTS, &FLOWS, &LINKS, &CLASSES];

const NETWORK: Layout<NetworkRows> = Layout {
    name: "network",
    rows: "A row per interval.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        counts("received_bytes", "received by all hosts", |all| take(&mut all.delivered)),
        counts("fecn_marks", "data packets marked", |all| take(&mut all.marks)),
        counts("becn_received", "notifications that reached their source", |all| take(&mut all.becn)),
        small(
            "throttled_flows",
            "flows that wait because of their reaction, at the end of the interval",
            |all| take(&mut all.throttled),
        ),
        small("congested_outputs", "outputs in the congestion state", |all| take(&mut all.congested)),
        counts("packets_inside", "packets in the network", |all| take(&mut all.inside)),
    ],
};

const HOSTS: Layout<HostRows> = Layout {
    name: "hosts",
    rows: "A row per host and interval; empty with measure.hosts = false.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        names("host", "the name", hosts, |all| take(&mut all.host)),
        counts("received_bytes", "received", |all| take(&mut all.received)),
        counts("sent_bytes", "sent", |all| take(&mut all.sent)),
    ],
};

const FLOWS: Layout<FlowRows> = Layout {
    name: "flows",
    rows: "Named flows (`[[flow]]`), a row per flow and interval.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        names("flow", "the name", flows, |all| take(&mut all.flow)),
        counts("received_bytes", "received", |all| take(&mut all.received)),
        counts("sent_bytes", "sent", |all| take(&mut all.sent)),
        small("ccti", "index into the congestion control table at the end of the interval", |all| {
            take(&mut all.ccti)
        }),
    ],
};

const LINKS: Layout<LinkSeriesRows> = Layout {
    name: "links",
    rows: "A row per channel and interval; empty with measure.links = false.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        names("link", "the channel, named by its sending port", links, |all| take(&mut all.link)),
        counts("sent_bytes", "bytes on the link, with headers and control packets", |all| {
            take(&mut all.sent)
        }),
        numbers("utilisation", "fraction of the rate that was used, 0 to 1", |all| {
            take(&mut all.utilisation)
        }),
        small("queued_bytes", "bytes that wait for the link at the end of the interval", |all| {
            take(&mut all.queued)
        }),
        small(
            "downstream_bytes",
            "bytes for which its sender lacks credit: in flight, in the buffer at its far end, or returning",
            |all| take(&mut all.downstream),
        ),
        small("fecn_marks", "data packets marked at this output", |all| take(&mut all.marks)),
        small("congested", "number of virtual lanes in the congestion state", |all| take(&mut all.congested)),
    ],
};
