//! Time series, which have rows for each interval. The rows are added at the end of the interval.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, Vl};

use crate::observe::classes::ClassRows;
use crate::observe::faults::{Spared, suffers};
use crate::observe::isolation::IsolationRows;
use crate::observe::latest::{Latest, tail};
use crate::outcome::{Column, Table, Values};
use crate::partition::View;

/// A directed channel from a switch or host, as shown in results.
#[derive(Debug, Clone, Saved)]
pub(crate) struct LinkName {
    pub channel: u32,
    /// The switch and the output that send on it; `None` for a host's channel.
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
    host_names: Arc<Vec<String>>,
    flow_names: Arc<Vec<String>>,
    link_names: Arc<Vec<String>>,
    #[saved(constant)]
    pub flows: Vec<FlowName>,
    #[saved(constant)]
    pub links: Vec<LinkName>,
    hosts_rows: HostRows,
    flow_rows: FlowRows,
    link_rows: LinkSeriesRows,
    network: NetworkRows,
    isolation: IsolationRows,
    classes: ClassRows,
}

fn ns(time: Time) -> u64 {
    time.0 / 1_000
}

impl Series {
    pub fn new(
        interval: Time,
        (with_hosts, with_links): (bool, bool),
        host_names: Vec<String>,
        class_names: Option<Vec<String>>,
        flows: Vec<(String, FlowName)>,
        links: Vec<(String, LinkName)>,
    ) -> Self {
        let hosts_rows = HostRows { last: vec![(0, 0); host_names.len()], ..HostRows::default() };
        let flow_rows = FlowRows { last: vec![(0, 0); flows.len()], ..FlowRows::default() };
        let link_rows = LinkSeriesRows { last: vec![(0, 0); links.len()], ..LinkSeriesRows::default() };
        let (flow_names, flows) = flows.into_iter().unzip();
        let (link_names, links) = links.into_iter().unzip();
        Self {
            interval,
            with_hosts,
            with_links,
            last_time: Time::ZERO,
            host_names: Arc::new(host_names),
            flow_names: Arc::new(flow_names),
            link_names: Arc::new(link_names),
            flows,
            links,
            hosts_rows,
            flow_rows,
            link_rows,
            network: NetworkRows::default(),
            isolation: IsolationRows::default(),
            classes: ClassRows::new(class_names),
        }
    }

    /// Adds the rows of the interval that ends now. Returns false without adding any if a sample was already taken at
    /// this time.
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
        self.isolation.sample(view);
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

    /// Returns the number of outputs in the congestion state.
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
                // The count can be one byte less than at the last sample, because times are rounded. If a run stops early,
                // a partition may be ahead of the clock.
                let sent_bytes = view.sent_by(link.channel).max(last.0);
                let sent = sent_bytes - last.0;
                rows.time_ns.push(ns(view.now));
                rows.link.push(index as u32);
                rows.sent.push(sent);
                let whole = view.rate(link.channel).0 as f64 * span / 8.0;
                // Rounding to whole bytes and picoseconds can raise the share of a busy link slightly above 1.
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

    /// The end of each interval in nanoseconds, and the payload received in it.
    pub fn received(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        self.network.time_ns.iter().copied().zip(self.network.delivered.iter().copied())
    }

    /// Names of the spared flows and hosts that suffer from a change; see [`suffers`].
    pub fn victims(&self, spared: &Spared, times: (u64, u64, u64)) -> Vec<String> {
        let ends = || self.network.time_ns.iter().copied();
        let of = |received: &[u64], (index, count): (usize, usize)| {
            let own = received.iter().copied().skip(index).step_by(count.max(1));
            suffers(ends().zip(own), times)
        };
        let (flows, hosts) = (self.flows.len(), self.host_names.len());
        let is_victim = |&&flow: &&u32| of(&self.flow_rows.received, (flow as usize, flows));
        let flows = spared.flows.iter().filter(is_victim).map(|&flow| self.flow_names[flow as usize].clone());
        let is_victim = |&&host: &&u32| of(&self.hosts_rows.received, (host as usize, hosts));
        let hosts = spared.hosts.iter().filter(is_victim).map(|&host| self.host_names[host as usize].clone());
        flows.chain(hosts).collect()
    }

    /// The rows of the last sample. `classes` is left empty.
    pub fn latest(&self) -> Latest<'_> {
        let (links, hosts, flows) = (self.links.len(), self.host_names.len(), self.flows.len());
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

    /// The tables that every run has, and that of isolation.
    pub fn into_tables(self) -> (Vec<Table>, Option<Table>) {
        let column = |name, values| Column { name, values };
        let named = |codes, names: &Arc<Vec<String>>| Values::Name { codes, names: Arc::clone(names) };
        let (h, f, l, n) = (self.hosts_rows, self.flow_rows, self.link_rows, self.network);
        let (isolation, classes) = (self.isolation.into_table(), self.classes.into_table());
        let mut tables = vec![
            Table {
                name: "network",
                columns: vec![
                    column("time_ns", Values::U64(n.time_ns)),
                    column("received_bytes", Values::U64(n.delivered)),
                    column("fecn_marks", Values::U64(n.marks)),
                    column("becn_received", Values::U64(n.becn)),
                    column("throttled_flows", Values::U32(n.throttled)),
                    column("congested_outputs", Values::U32(n.congested)),
                    column("packets_inside", Values::U64(n.inside)),
                ],
            },
            Table {
                name: "hosts",
                columns: vec![
                    column("time_ns", Values::U64(h.time_ns)),
                    column("host", named(h.host, &self.host_names)),
                    column("received_bytes", Values::U64(h.received)),
                    column("sent_bytes", Values::U64(h.sent)),
                ],
            },
            Table {
                name: "flows",
                columns: vec![
                    column("time_ns", Values::U64(f.time_ns)),
                    column("flow", named(f.flow, &self.flow_names)),
                    column("received_bytes", Values::U64(f.received)),
                    column("sent_bytes", Values::U64(f.sent)),
                    column("ccti", Values::U32(f.ccti)),
                ],
            },
            Table {
                name: "links",
                columns: vec![
                    column("time_ns", Values::U64(l.time_ns)),
                    column("link", named(l.link, &self.link_names)),
                    column("sent_bytes", Values::U64(l.sent)),
                    column("utilisation", Values::F64(l.utilisation)),
                    column("queued_bytes", Values::U32(l.queued)),
                    column("downstream_bytes", Values::U32(l.downstream)),
                    column("fecn_marks", Values::U32(l.marks)),
                    column("congested", Values::U32(l.congested)),
                ],
            },
        ];
        tables.push(classes);
        (tables, isolation)
    }
}
