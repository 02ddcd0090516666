//! Switches whose outputs are run apart.

use silvan_engine::Rate;
use silvan_engine::units::BytePace;

use super::{Builder, Receiver, wrong};
use crate::build::Apart;
use crate::congestion::Notification;
use crate::congestion::marking::Marking;
use crate::core::Core;
use crate::host::Host;
use crate::link::Links;
use crate::outputs::{Outputs, Partition, Plan};
use crate::simulation::ModelError;
use crate::switch::Switch;
use crate::topology::{End, Link, NodeRef};
use crate::traffic::source::{Clock, Source};

impl Builder<'_> {
    /// Has the outputs of switches run apart, in as many partitions as there are to be threads, if the network
    /// allows it; else says why not.
    pub(super) fn run_apart(
        &self,
        core: &mut Core,
        hosts: &mut [Host],
        switches: &mut Vec<Switch>,
        receivers: &[Receiver],
    ) -> Result<Apart, ModelError> {
        let plan = self.outputs(&core.links, receivers, hosts);
        if let Err(why) = plan.fits(switches) {
            return Ok(Apart::No(why));
        }
        // A rank that gets a message acts at once, wherever it is.
        let threads = if self.config.jobs.is_empty() { usize::from(self.config.threads.max(1)) } else { 1 };
        let partition = Partition::new(threads, &plan, switches, hosts.len());
        let mut outputs = Outputs::new(&plan, &partition, switches);
        if partition.count == 1 {
            core.outputs = outputs.pop();
            return Ok(Apart::Partitions { lookahead: partition.lookahead });
        }
        for (host, &(part, place)) in hosts.iter_mut().zip(&partition.of_host) {
            (host.part, host.place) = (part, place);
        }
        let mut part_of = vec![0; receivers.len()];
        for (channel, _, from, _) in self.directed() {
            part_of[channel as usize] = match from.node {
                NodeRef::Host(host) => partition.of_host[host as usize].0,
                NodeRef::Switch(switch) => partition.of_switch[switch as usize],
            };
        }
        for outputs in outputs {
            let meters = core.meters.fresh().ok_or_else(|| wrong("latencies cannot be counted"))?;
            let mut links = core.links.clone();
            hosts.iter().for_each(|host| links.renumber(host.out, host.place));
            core.parts.push(Core { outputs: Some(outputs), ..self.core(links, meters) });
        }
        core.part_of = part_of.into();
        Ok(Apart::Partitions { lookahead: partition.lookahead })
    }

    /// What the outputs need to know.
    pub(super) fn outputs<'p>(
        &self,
        links: &'p Links,
        receivers: &'p [Receiver],
        hosts: &[Host],
    ) -> Plan<'p> {
        let host_at = |(channel, _, _, to): (u32, &Link, End, End)| match to.node {
            NodeRef::Host(host) => Some((channel, host)),
            NodeRef::Switch(_) => None,
        };
        let sources = hosts.iter().flat_map(|host| &host.sources);
        let drawn = sources.filter(|source| !matches!(source.clock, Clock::Fed));
        let payloads = drawn.map(|source| self.least_payload(source));
        let data = payloads.chain(self.least_of_jobs()).min().unwrap_or(self.sizes.mtu) + self.sizes.header;
        // Without marks there are notifications only of what is acknowledged anyway.
        let parts = self.config.parts();
        let quiet = matches!(parts.marking, Marking::None) && matches!(parts.notification, Notification::Cnp);
        Plan {
            links,
            receivers,
            drain: self.config.host.drain_rate.map_or(BytePace::INSTANT, Rate::pace),
            acknowledges: parts.notification != Notification::Cnp,
            hosts_from: hosts.iter().map(|host| (host.out, host.id)).collect(),
            hosts_at: self.directed().filter_map(host_at).collect(),
            lanes: self.config.lanes.count,
            full_space: self.full_space(),
            control_space: self.sizes.space(self.sizes.control),
            have_adapters: hosts.iter().any(|host| host.adapter.is_some()),
            smallest: if quiet { data } else { data.min(self.sizes.control) }.max(1),
            credit_block: self.sizes.credit_block,
        }
    }

    /// The payload of a source's smallest packet, or less.
    fn least_payload(&self, source: &Source) -> u32 {
        let mtu = self.sizes.mtu;
        // The last packet of a message has what is left.
        let of = |message: u64| match (message / u64::from(mtu), (message % u64::from(mtu)) as u32) {
            (0, rest) => rest,
            (_, 0) => mtu,
            (_, rest) => rest,
        };
        let message = u64::from(source.message);
        let spread = source.varied.as_ref().map_or(0, |varied| varied.spread);
        if spread > 0 {
            return if message + u64::from(spread) <= u64::from(mtu) { source.message } else { 1 };
        }
        let last = if source.left == u64::MAX { 0 } else { source.left % message.max(1) };
        if last == 0 { of(message) } else { of(message).min(of(last)) }
    }
}
