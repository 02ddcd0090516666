//! Checks the state of a restored run. A checkpoint with a valid checksum can contain any values, because anyone can compute
//! the checksum.
//!
//! Most wrong values end the run with an error: checks of indexes and the invariants at samples find them. The checks here
//! concern values with which a run would not end, or would allocate memory without limit.

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Damaged;

use super::Simulation;
use crate::packet::Kind;

/// Maximum number of packets that a flow may have sent after the first one that has not been delivered. The receiver's list
/// of these packets then takes at most this number of bytes.
const AHEAD: u64 = 1 << 28;

impl Simulation {
    /// Checks that the restored state of a run permits the run to continue.
    ///
    /// # Errors
    /// [`Damaged::Wrong`], with the values that contradict each other.
    pub fn check_restored(&self) -> Result<(), Damaged> {
        let (now, end) = (self.now, self.config.duration);
        let is_sampled = self.next_sample.is_none_or(|next| now <= next && next <= end);
        if self.done || now > end || !is_sampled {
            let next = self.next_sample.unwrap_or(Time::NEVER);
            return Err(Damaged::Wrong(format!(
                "the run is at {now} of {end}, with the next sample at {next}"
            )));
        }
        let queues = self.network.partitions.iter().map(|partition| &partition.ctx.queue);
        if !queues.into_iter().all(|queue| queue.is_intact()) {
            return Err(Damaged::Wrong("the queue of pending events is inconsistent".into()));
        }
        self.check_numbers()
    }

    /// Checks the numbers of packets whose order is restored.
    fn check_numbers(&self) -> Result<(), Damaged> {
        let view = self.network.view(self.now);
        let hosts = (0..view.host_count() as u32).map(|host| (host, view.host(host as usize)));
        let orders = || hosts.clone().filter_map(|(host, of)| Some((host, of.packet_order()?)));
        let sent: FxHashMap<(u32, u16, u32), u64> = orders()
            .flat_map(|(host, order)| {
                order.sent().map(move |((source, to), number)| ((host, source, to), number))
            })
            .collect();
        if sent.is_empty() {
            return Ok(());
        }
        let of = |flow: (u32, u16, u32)| sent.get(&flow).copied().unwrap_or(0);
        let mut delivered = FxHashMap::default();
        for (host, order) in orders() {
            for ((from, source), next, newest) in order.received() {
                let flow = (from, source, host);
                if next > of(flow) || newest > of(flow) {
                    return Err(Damaged::Wrong(format!(
                        "host {host} has received packet {} of a flow of {} packets",
                        next.max(newest),
                        of(flow)
                    )));
                }
                delivered.insert(flow, next);
            }
        }
        let ahead = sent.iter().map(|(flow, sent)| sent - delivered.get(flow).unwrap_or(&0));
        if let Some(ahead) = ahead.into_iter().find(|ahead| *ahead > AHEAD) {
            return Err(Damaged::Wrong(format!("{ahead} packets of a flow wait for an earlier one")));
        }
        let partitions = &self.network.partitions;
        let numbered = partitions.iter().flat_map(|partition| partition.ctx.numbered_packets());
        let mut numbered = numbered.chain(view.hosts().flat_map(|host| host.undrained()));
        let wrong = numbered.find(|(packet, number)| {
            let is_of_source = matches!(packet.kind(), Kind::Data | Kind::Header);
            is_of_source && *number > 0 && *number >= of((packet.src, packet.source, packet.dst))
        });
        wrong.map_or(Ok(()), |(packet, number)| {
            Err(Damaged::Wrong(format!("packet {number} of a flow of host {} was not sent", packet.src)))
        })
    }
}
