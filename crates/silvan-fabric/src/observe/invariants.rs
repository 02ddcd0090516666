//! Checks invariants of the network. At every sample, all builds check packet conservation, and the credits
//! of as many receivers as a budget permits. They check the credits of all receivers at the end of a run.
//! Debug builds check everything at every sample.

use super::books::check_conservation;
#[cfg(debug_assertions)]
use super::books::check_traffic;
use crate::link::ChannelId;
use crate::partition::{OnLinks, View};
use silvan_engine::saved::Saved;

/// A violated invariant: the channel that it concerns, if it concerns one, and a description.
pub(crate) type Violation = (Option<ChannelId>, String);

/// The cost of checking a virtual lane, in units of about ten instructions. A pending event or packet costs
/// one unit.
const UNITS_PER_LANE: u64 = 6;
/// The cost of checking a queue at the input of a switch, which has one queue per output.
const UNITS_PER_QUEUE: u64 = 2;
/// The number of packet hops that permit one more unit. A hop takes 600 instructions or more, so the checks
/// take at most one percent of a long run.
const HOPS_PER_UNIT: u64 = 2;
/// The minimum number of units per sample, which suffices to check small networks completely.
const LEAST_UNITS: u64 = 1 << 10;

#[derive(Debug, Default, Saved)]
pub(crate) struct Invariants {
    /// The next receiver whose credits are checked: a switch, or a host if all switches have been checked.
    next: usize,
    /// Packet hops at the last sample.
    hops: u64,
    /// The units that the next checks may use.
    budget: u64,
}

impl Invariants {
    /// Checks the state at a sample.
    ///
    /// # Errors
    /// A description of the violated invariant.
    pub fn check(&mut self, view: View) -> Result<(), Violation> {
        check_conservation(view).map_err(|what| (None, what))?;
        #[cfg(debug_assertions)]
        check_all(view)?;
        self.check_credits(view)
    }

    /// Checks the credits of as many receivers as the budget permits, beginning after the last one that was
    /// checked.
    fn check_credits(&mut self, view: View) -> Result<(), Violation> {
        let hops = view.packet_hops();
        self.budget += LEAST_UNITS + (hops - self.hops) / HOPS_PER_UNIT;
        self.hops = hops;
        // The check of one receiver needs all packets on links.
        let pending = view.pending() as u64;
        if self.budget < 2 * pending {
            return Ok(());
        }
        self.budget -= pending;
        let (switches, mut on_links) = (view.switch_count(), view.on_links());
        let receivers = switches + view.host_count();
        let packets_per_switch = (view.alive() / switches.max(1)) as u64;
        for _ in 0..receivers {
            let lanes = on_links.lanes() as u64;
            let cost = if self.next < switches {
                let ports = view.ports(self.next as u32).count() as u64;
                packets_per_switch + ports * lanes * (UNITS_PER_LANE + UNITS_PER_QUEUE * ports)
            } else {
                UNITS_PER_LANE * lanes
            };
            let Some(rest) = self.budget.checked_sub(cost) else { return Ok(()) };
            self.budget = rest;
            check_receiver(view, self.next, &mut on_links)?;
            self.next = (self.next + 1) % receivers;
        }
        self.budget = 0;
        Ok(())
    }
}

fn check_receiver(view: View, receiver: usize, on_links: &mut OnLinks) -> Result<(), Violation> {
    let switches = view.switch_count();
    let checked = if receiver < switches {
        view.check_credits_of_switch(receiver as u32, on_links)
    } else {
        view.check_credits_of_host(receiver - switches, on_links)
    };
    checked.map_err(|(channel, what)| (Some(channel), what))
}

/// Checks the credits of all channels.
///
/// # Errors
/// A description of the violated invariant.
pub(crate) fn check_all_credits(view: View) -> Result<(), Violation> {
    let mut on_links = view.on_links();
    (0..view.switch_count() + view.host_count())
        .try_for_each(|receiver| check_receiver(view, receiver, &mut on_links))
}

/// Checks all channels, and that all traffic is accounted for and in order.
#[cfg(debug_assertions)]
fn check_all(view: View) -> Result<(), Violation> {
    check_traffic(view).map_err(|what| (None, what))?;
    if let Some(message) = view.out_of_order() {
        return Err((None, message.clone()));
    }
    check_all_credits(view)
}
