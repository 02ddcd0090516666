//! Selects the lane whose credit a packet needs, if receive buffers are divided.

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::cache::prefetch;

use super::{ChannelId, Division, Lane, Links, Way};
use crate::port::Vl;

/// The lanes of a network whose receive buffers are divided.
#[derive(Debug, Default, Clone)]
pub(super) struct Divided {
    /// One entry per channel.
    pub divisions: Vec<Division>,
    /// Index of the first lane of each channel; the lanes of destinations are created later.
    pub first: Vec<u32>,
    /// The lane for each combination of channel, virtual lane and destination.
    pub by_destination: FxHashMap<Way, u32>,
    /// The most recently used entry. After a query of its credit, its packet is usually sent next.
    pub memo: Option<(Way, u32)>,
    /// The lanes that were created for each channel and virtual lane.
    pub grown: FxHashMap<(ChannelId, Vl), Vec<u32>>,
    /// Bytes of the receive buffer per region of a virtual lane, for each channel.
    pub capacities: Vec<u32>,
}

impl Links {
    #[inline(never)]
    pub(super) fn divided_lane(&mut self, id: ChannelId, vl: Vl, dst: u32) -> usize {
        let Some(divided) = &mut self.divided else { return 0 };
        let first = |divided: &Divided| divided.first[id as usize] as usize + vl.index();
        match &divided.divisions[id as usize] {
            Division::PerDestination => {
                if let Some((way, lane)) = divided.memo
                    && way == (id, vl, dst)
                {
                    return lane as usize;
                }
                let Some(&lane) = divided.by_destination.get(&(id, vl, dst)) else {
                    return self.grow((id, vl, dst));
                };
                divided.memo = Some(((id, vl, dst), lane));
                lane as usize
            }
            Division::Whole => first(divided),
            Division::Table(region_of, _) => {
                first(divided) + usize::from(region_of[dst as usize]) * self.lane_count
            }
        }
    }

    /// See [`Links::prefetch_way`].
    #[inline(never)]
    pub(super) fn prefetch_divided(&self, divided: &Divided, way: Way) {
        let (id, vl, dst) = way;
        let first = divided.first[id as usize] as usize + vl.index();
        let lane = match &divided.divisions[id as usize] {
            Division::PerDestination => divided.by_destination.get(&way).map(|&lane| lane as usize),
            Division::Whole => Some(first),
            Division::Table(region_of, _) => {
                region_of.get(dst as usize).map(|&region| first + usize::from(region) * self.lane_count)
            }
        };
        if let Some(lane) = lane {
            prefetch(&self.lanes, lane);
        }
    }

    /// Creates the lane of a destination on a virtual lane of a channel.
    #[cold]
    fn grow(&mut self, way: Way) -> usize {
        let lane = self.lanes.len();
        if let Some(divided) = &mut self.divided {
            let (id, vl, _) = way;
            divided.by_destination.insert(way, lane as u32);
            divided.grown.entry((id, vl)).or_default().push(lane as u32);
            let capacity = divided.capacities[id as usize];
            self.lanes.push(Lane::new(capacity));
            self.ready.push(Time::NEVER);
            self.capacities.push(capacity);
            #[cfg(debug_assertions)]
            self.in_flight.push(0);
        }
        lane
    }

    /// The indices of all lanes of a virtual lane of a channel.
    pub(super) fn ledgers(&self, id: ChannelId, vl: Vl) -> impl Iterator<Item = usize> {
        let (first, regions, grown): (usize, usize, &[u32]) = match &self.divided {
            None => (id as usize * self.lane_count, 1, &[]),
            Some(divided) => {
                let regions = match &divided.divisions[id as usize] {
                    Division::Whole => 1,
                    Division::Table(_, regions) => *regions as usize,
                    Division::PerDestination => 0,
                };
                let grown = divided.grown.get(&(id, vl)).map_or(&[][..], Vec::as_slice);
                (divided.first[id as usize] as usize, regions, grown)
            }
        };
        let fixed = (0..regions).map(move |region| first + region * self.lane_count + vl.index());
        fixed.chain(grown.iter().map(|&lane| lane as usize))
    }
}
