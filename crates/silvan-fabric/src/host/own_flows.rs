//! Messages with separate flows, like queue pairs that carry one message.
//!
//! Each message of such a traffic source is sent by a separate source of the host. The message therefore has
//! its own number for the hash of ECMP, its own turn among the flows, and its own state in the reaction.
//!
//! Sources are created when they are first needed. After [`Source::MAX_BACKLOG`] have been created, the one
//! that has been unused longest is reused as a new connection, and grants for the old connection are ignored.
//! A message ends with its last acknowledgement or, if receivers do not acknowledge all data, when it has
//! been sent.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::{Chooser, Clock, Source};

use super::Host;

/// The sources that send the messages of one traffic source.
#[derive(Debug, Saved)]
pub(super) struct OwnFlows {
    /// Index of the traffic source.
    parent: u16,
    made: u32,
    /// Indexes of unused sources, in the order in which they became unused.
    unused: VecDeque<u16>,
}

impl Host {
    /// The source that sends the next message of a traffic source: `index` itself unless messages have flows
    /// of their own. For a message with its own flow, reuses or creates a source.
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

    /// Records that a source has sent its message. This ends the message unless it is to be acknowledged.
    #[inline]
    pub(super) fn own_flow_left(&mut self, source: u16, now: Time, is_acknowledged: bool) {
        if let Clock::Own { parent, .. } = self.sources[usize::from(source)].clock
            && !is_acknowledged
        {
            self.own_flow_ends(source, parent, now);
        }
    }

    /// Records that the message of a source has been acknowledged. Returns whether the host may therefore
    /// send another one.
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
