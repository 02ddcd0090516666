//! The resolved traffic: hosts are numbers, and default names and sizes are filled in.

use std::sync::Arc;

use silvan_engine::{Bytes, Rate, Time};
use silvan_network::topology::Topology;
use silvan_network::traffic::{Arrivals, Bursts, Cdf, Incast, ListedTransfer, Pattern, Traffic};

use super::{HostNames, small};
use crate::config::Config;
use crate::error::{Reason, SetupError};

/// A flow of the scenario, with its defaults resolved.
pub(super) struct OfferedFlow {
    pub name: String,
    pub from: u32,
    pub to: u32,
    /// Bytes of a message, at least one.
    pub message: u32,
    /// Rate of the generated payload; `None` if unlimited.
    pub rate: Option<Rate>,
    pub arrivals: Arrivals,
    pub sl: u8,
    pub start: Time,
    /// The number of delivered packets in the network after which the flow starts, if it waits for
    /// deliveries.
    pub start_after_packets: Option<u64>,
    pub stop: Time,
    /// Total payload in bytes; `u64::MAX` if unlimited.
    pub total: u64,
}

/// A traffic pattern of the scenario, with its defaults resolved.
pub(super) struct Offered<'a> {
    pub name: String,
    /// The hosts that send.
    pub senders: Vec<u32>,
    pub pattern: &'a Pattern,
    /// The hotspots, or the receivers of an incast, which are all hosts by default. Empty for other patterns.
    pub named: Vec<u32>,
    /// Size of the smallest message in bytes, at least one; the mean size if `sizes` is present.
    pub message: u32,
    /// The difference between the largest and the smallest size, in bytes.
    pub spread: u32,
    /// Whether a largest size was given.
    pub is_varied: bool,
    /// See [`OfferedFlow::rate`].
    pub rate: Option<Rate>,
    pub arrivals: Arrivals,
    pub sl: u8,
    pub start: Time,
    /// See [`OfferedFlow::start_after_packets`].
    pub start_after_packets: Option<u64>,
    pub stop: Time,
    /// Maximum number of data packets of each host, if limited.
    pub packets_per_host: Option<u64>,
    /// The distribution of message sizes, if there is one.
    pub sizes: Option<Arc<Cdf>>,
    pub load_percent: Option<u32>,
    pub bursts: Option<Bursts>,
    /// For a closed loop: the number of outstanding messages and the think time.
    pub closed: Option<(u32, Time)>,
    /// The transfers of a list; empty for other patterns.
    pub listed: Arc<Vec<ListedTransfer>>,
    pub has_own_flows: bool,
}

impl Offered<'_> {
    /// Whether messages can have any size, because a distribution or a list determines their sizes.
    pub fn has_any_size(&self) -> bool {
        self.sizes.is_some() || matches!(self.pattern, Pattern::Listed(_))
    }
}

/// The flows, with their hosts.
pub(super) fn flows(config: &Config, topology: &Topology) -> Result<Vec<OfferedFlow>, SetupError> {
    let names = HostNames::new(topology);
    let flow = |(at, flow): (usize, &silvan_network::traffic::Flow)| {
        Ok(OfferedFlow {
            name: flow.shown_name(),
            from: names.find(&flow.from, format_args!("flow.{at}.from"))?,
            to: names.find(&flow.to, format_args!("flow.{at}.to"))?,
            message: message(config, flow.message, || format!("flow.{at}.message"))?,
            rate: flow.rate,
            arrivals: flow.arrivals,
            sl: flow.sl,
            start: flow.start,
            start_after_packets: flow.start_after_packets,
            stop: flow.stop.unwrap_or(Time::NEVER),
            total: flow.total.map_or(u64::MAX, |total| total.0),
        })
    };
    config.flows.iter().enumerate().map(flow).collect()
}

/// The patterns, with their hosts.
pub(super) fn patterns<'a>(config: &'a Config, topology: &Topology) -> Result<Vec<Offered<'a>>, SetupError> {
    let names = HostNames::new(topology);
    config.traffic.iter().enumerate().map(|traffic| pattern(traffic, config, (topology, &names))).collect()
}

fn pattern<'a>(
    (at, traffic): (usize, &'a Traffic),
    config: &Config,
    (topology, names): (&Topology, &HostNames<'_>),
) -> Result<Offered<'a>, SetupError> {
    let senders = match &traffic.hosts {
        Some(hosts) => names.find_all(hosts, &format!("traffic.{at}.hosts"))?,
        None => (0..topology.end_hosts()).collect(),
    };
    let named = match &traffic.pattern {
        Pattern::Hotspots { to } | Pattern::Incast(Incast { to: Some(to), .. }) => {
            names.find_all(to, &format!("traffic.{at}.pattern.to"))?
        }
        Pattern::Incast(_) => (0..topology.end_hosts()).collect(),
        Pattern::Forest(forest) if forest.hotspots == 0 || topology.end_hosts() < 2 => {
            return Err(Reason::NoForest.at(format!("traffic.{at}.pattern.hotspots")));
        }
        _ => Vec::new(),
    };
    let sizes = traffic.cdf();
    let given = sizes.as_ref().map_or(traffic.message, |sizes| Some(Bytes(sizes.mean().into())));
    let message = message(config, given, || format!("traffic.{at}.message"))?;
    let key = format!("traffic.{at}.message_max");
    let most = traffic.message_max.map_or(Ok(message), |most| small(most, &key))?;
    let spread = most.checked_sub(message);
    Ok(Offered {
        name: traffic.shown_name(at),
        senders,
        pattern: &traffic.pattern,
        named,
        message,
        spread: spread.ok_or_else(|| Reason::LargestBelowSmallest.of(key, Bytes(most.into())))?,
        is_varied: traffic.message_max.is_some(),
        rate: traffic.rate,
        arrivals: traffic.arrivals,
        sl: traffic.sl,
        start: traffic.start,
        start_after_packets: traffic.start_after_packets,
        stop: traffic.stop.unwrap_or(Time::NEVER),
        packets_per_host: traffic.packets_per_host,
        sizes,
        load_percent: traffic.load_percent,
        bursts: traffic.bursts,
        closed: traffic.outstanding.map(|count| (count, traffic.think.unwrap_or_default())),
        listed: traffic.loaded.transfers.clone().unwrap_or_default(),
        has_own_flows: traffic.has_own_flows(),
    })
}

/// Bytes of a message, at least one; by default the payload of a full packet.
fn message(config: &Config, given: Option<Bytes>, key: impl FnOnce() -> String) -> Result<u32, SetupError> {
    small(given.unwrap_or(config.packet.mtu), &key()).map(|bytes| bytes.max(1))
}
