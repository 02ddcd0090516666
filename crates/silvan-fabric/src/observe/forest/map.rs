//! The network as congestion trees see it: its directed links, and the routes that do not change.

use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};
use silvan_network::port::{Port, Vl};

use super::NONE;
use crate::config::{Config, RoutePer};
use crate::link::ChannelId;
use crate::observe::series::LinkName;
use crate::partition::View;
use crate::routes::ForwardingTable;
use crate::switch::Ports;

/// A directed link in the tree analysis.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct DirectedLink {
    #[saved(constant)]
    pub channel: ChannelId,
    /// The switch and the output that sends on the link; `None` for a host's link.
    #[saved(constant)]
    pub switch: Option<(u32, Port)>,
    /// The host at the link's receiving end, or [`NONE`].
    #[saved(constant)]
    pub host: u32,
    /// Whether the link leads to a host and lacks credit because the buffer of the host is small, and not because the
    /// host is slow.
    #[saved(constant)]
    pub is_short: bool,
    sent_bytes: u64,
}

/// The structure of the network, which does not change between samples, and counters.
#[derive(Debug, Saved)]
pub(super) struct Map {
    pub links: Vec<DirectedLink>,
    /// The link of each switch output, or [`NONE`].
    #[saved(constant)]
    pub outputs: Vec<Vec<u32>>,
    /// The link of each sending host.
    #[saved(constant)]
    pub of_host: Vec<u32>,
    /// The link of each channel, or [`NONE`].
    #[saved(constant)]
    by_channel: Vec<u32>,
    /// The forwarding tables; `None` unless they alone determine the routes of packets, and do not change.
    #[saved(constant)]
    pub tables: Option<StaticRoutes>,
    #[saved(constant)]
    pub lanes: u8,
    /// Whether packets may change lanes along their routes.
    #[saved(constant)]
    pub changes_lanes: bool,
    /// Whether adaptive routing per packet or spraying can give a flow several routes.
    #[saved(constant)]
    pub has_choice: bool,
    #[saved(constant)]
    pub full_space: u32,
    #[saved(constant)]
    drain: Option<Rate>,
}

impl Map {
    pub fn new(
        config: &Config,
        full_space: u32,
        (links, is_short): (&[LinkName], &[bool]),
        switches: &[Ports],
    ) -> Self {
        let mut outputs: Vec<Vec<u32>> = switches.iter().map(|switch| vec![NONE; switch.count()]).collect();
        let channels = links.iter().map(|link| link.channel as usize + 1).max().unwrap_or(0);
        let mut by_channel = vec![NONE; channels];
        for (at, link) in links.iter().enumerate() {
            by_channel[link.channel as usize] = at as u32;
            if let Some((switch, output)) = link.switch {
                outputs[switch as usize][output.index()] = at as u32;
            }
        }
        let links = links
            .iter()
            .zip(is_short)
            .map(|(link, &is_short)| DirectedLink {
                channel: link.channel,
                switch: link.switch,
                host: NONE,
                is_short,
                sent_bytes: 0,
            })
            .collect();
        let lanes = config.lanes.count.max(1);
        let (drain, changes_lanes) = (config.host.drain_rate, config.path_lanes.is_some());
        let has_choice = config.chosen_routes(RoutePer::Packet).is_some() || config.sprays();
        let (of_host, tables) = (Vec::new(), None);
        Self {
            links,
            outputs,
            of_host,
            by_channel,
            tables,
            lanes,
            changes_lanes,
            has_choice,
            full_space,
            drain,
        }
    }

    /// Finds the links on which hosts send and receive, and the forwarding tables. Only the first call has an
    /// effect.
    pub fn find_hosts(&mut self, view: View) {
        if !self.of_host.is_empty() {
            return;
        }
        let Self { links, by_channel, of_host, .. } = self;
        for (at, host) in view.hosts().enumerate() {
            let link = |channel: ChannelId| by_channel.get(channel as usize).copied().unwrap_or(NONE);
            of_host.push(link(host.out));
            if let Some(into) = links.get_mut(link(host.into) as usize) {
                into.host = at as u32;
            }
        }
        self.tables = StaticRoutes::new(view, &self.links);
    }

    /// The links on which a switch sends packets for a host behind a root. If routes depend on the
    /// destination alone, this is the link in its forwarding table; otherwise, these are the link to the host
    /// and the links on which packets for it were stopped.
    pub fn wanted(&self, view: View, number: u32, (host, vl): (u32, u8)) -> impl Iterator<Item = u32> {
        let (ports, cams) = (view.ports(number), view.cams(number));
        let route = if ports.is_by_destination() { Some(ports.route(host)) } else { None };
        let stops = move |output: Port| cams.is_some_and(|cams| cams.stops(ports.lane(output, Vl(vl)), host));
        let outputs = self.outputs[number as usize].iter().enumerate();
        let is_wanted = move |output: usize, link: u32| match route.map(Port::index) {
            Some(route) => output == route,
            None => self.links[link as usize].host == host || stops(Port::new(output)),
        };
        outputs.filter(move |&(output, &link)| link != NONE && is_wanted(output, link)).map(|(_, &link)| link)
    }

    /// The bytes that a link has carried since the last call.
    pub fn carried(&mut self, view: View, at: usize) -> u64 {
        let link = &mut self.links[at];
        let sent = view.sent_by(link.channel);
        sent.saturating_sub(std::mem::replace(&mut link.sent_bytes, sent))
    }

    /// The utilization of a link that carried `bytes`, relative to the capacity of the link or the rate at
    /// which its host can receive.
    pub fn utilisation(&self, view: View, at: usize, bytes: u64, span: Time) -> f64 {
        let link = &self.links[at];
        let rate = view.rate(link.channel);
        let most = if link.host == NONE { rate } else { self.drain.map_or(rate, |drain| drain.min(rate)) };
        bytes as f64 * 8.0 / (most.0 as f64 * span.as_secs_f64())
    }
}

/// The routes of all packets, if forwarding tables that do not change alone determine them.
#[derive(Debug)]
pub(super) struct StaticRoutes {
    /// The switch at the receiving end of each link, or [`NONE`].
    pub far: Vec<u32>,
    /// For each switch, its forwarding table.
    pub of: Vec<ForwardingTable>,
}

impl StaticRoutes {
    /// Returns `None` if another component selects outputs, or tables change during the run.
    pub fn new(view: View, links: &[DirectedLink]) -> Option<Self> {
        let is_static = |ports: &Ports| ports.steering.is_none() && !ports.has_several_tables();
        let table = |ports: &Ports| is_static(ports).then(|| ports.table().clone());
        let far = |link: &DirectedLink| {
            let receiver = view.receiver.get(link.channel as usize).copied().flatten();
            receiver.map_or(NONE, |(switch, _)| switch)
        };
        let of = view.all_ports().map(table).collect::<Option<_>>()?;
        Some(Self { far: links.iter().map(far).collect(), of })
    }
}
