//! Messages with flows of their own, like queue pairs that carry one message.
//!
//! Each message of such a source is sent by another source of the host, so it has its own number for the hash of ECMP, its
//! own place in the turns of flows, and its own state of the reaction. Sources are made when they are first needed. When a
//! source of traffic has as many as it can have messages under way, the one that has been unused longest is used again, as a new
//! connection: what receivers keep of the old one, and what they still send to it, does not count.
//! A message ends with its last acknowledgement or, if receivers do not acknowledge all data, when it has been sent.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::{Chooser, Clock, Source};

use super::Host;

/// The sources that send the messages of a source of traffic.
#[derive(Debug, Saved)]
pub(super) struct OwnFlows {
    /// Index of the source of traffic.
    parent: u16,
    made: u32,
    /// Indexes of unused sources, the one that has been unused longest first.
    unused: VecDeque<u16>,
}

impl Host {
    /// The source that sends the next message of a source of traffic.
    #[inline]
    pub(super) fn sender_of(&mut self, index: usize, destination: u32) -> usize {
        if self.sources[index].has_own_flows() { self.own_flow(index as u16, destination) } else { index }
    }

    #[inline(never)]
    fn own_flow(&mut self, parent: u16, destination: u32) -> usize {
        let pools = self.own_flows.get_or_insert_default();
        let at = pools.iter().position(|pool| pool.parent == parent).unwrap_or_else(|| {
            pools.push(OwnFlows { parent, made: 0, unused: VecDeque::new() });
            pools.len() - 1
        });
        let pool = &mut pools[at];
        let unused = if pool.made < Source::MAX_BACKLOG { None } else { pool.unused.pop_front() };
        let index = match unused {
            None => {
                pool.made += 1;
                let own = self.sources[usize::from(parent)].own_flow(parent, destination);
                self.sources.push(own);
                self.sources.len() - 1
            }
            Some(index) => {
                if let Chooser::Fixed(before) = self.sources[usize::from(index)].chooser {
                    self.reset(index, before);
                }
                self.sources[usize::from(index)].connect(destination);
                index.into()
            }
        };
        self.sources[index].backlog += 1;
        index
    }

    /// Records that a source has sent its message, which thus has ended unless it is to be acknowledged.
    #[inline]
    pub(super) fn own_flow_left(&mut self, source: u16, now: Time, is_acknowledged: bool) {
        if let Clock::Own { parent, .. } = self.sources[usize::from(source)].clock
            && !is_acknowledged
        {
            self.own_flow_ends(source, parent, now);
        }
    }

    /// Records that messages of a source have been acknowledged. Returns whether the host may send another message because
    /// of this.
    #[inline(never)]
    pub(super) fn own_flow_acknowledged(&mut self, source: u16, now: Time) -> bool {
        let own = &self.sources[usize::from(source)];
        let (Clock::Own { parent, .. }, &Chooser::Fixed(destination)) = (&own.clock, &own.chooser) else {
            return false;
        };
        let parent = *parent;
        self.reset(source, destination);
        self.own_flow_ends(source, parent, now)
    }

    fn own_flow_ends(&mut self, source: u16, parent: u16, now: Time) -> bool {
        let mut pools = self.own_flows.iter_mut().flatten();
        if let Some(pool) = pools.find(|pool| pool.parent == parent) {
            pool.unused.push_back(source);
        }
        self.sources[usize::from(parent)].ended(now)
    }
}
