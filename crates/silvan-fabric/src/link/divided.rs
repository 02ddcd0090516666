//! Which lane's credits a packet needs, where receive buffers are divided.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::{ChannelId, Division, Lane, Links, Way};
use crate::pages::Pages;

/// The lanes of networks whose receive buffers are divided.
#[derive(Debug, Default, Clone)]
pub(super) struct Divided {
    /// Per channel.
    pub divisions: Vec<Division>,
    /// Per channel: index of its first lane; lanes per destination come into being later.
    pub first: Vec<u32>,
    /// One more than the lane of a channel with its virtual lane (`channel * lanes + vl`), and a destination.
    pub by_destination: Pages,
    /// Lanes that came into being, per channel and virtual lane.
    pub grown: FxHashMap<(ChannelId, u8), Vec<u32>>,
    /// Per channel.
    pub capacities: Vec<u32>,
}

impl Links {
    #[inline(never)]
    pub(super) fn divided_lane(&mut self, id: ChannelId, vl: u8, dst: u32) -> usize {
        let Some(divided) = &mut self.divided else { return 0 };
        let first = |divided: &Divided| divided.first[id as usize] as usize + usize::from(vl);
        match &divided.divisions[id as usize] {
            Division::PerDestination => {
                let row = id as usize * self.lane_count + usize::from(vl);
                match divided.by_destination.get(row, dst) {
                    0 => self.grow((id, vl, dst)),
                    lane => lane as usize - 1,
                }
            }
            Division::Whole => first(divided),
            Division::Table(part_of, _) => {
                first(divided) + usize::from(part_of[dst as usize]) * self.lane_count
            }
        }
    }

    /// Makes the lane of a destination on a channel's virtual lane.
    #[cold]
    fn grow(&mut self, way: Way) -> usize {
        let lane = self.lanes.len();
        if let Some(divided) = &mut self.divided {
            let (id, vl, dst) = way;
            let row = id as usize * self.lane_count + usize::from(vl);
            *divided.by_destination.get_mut(row, dst) = lane as u32 + 1;
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

    /// The indices of all lanes of a channel's virtual lane.
    pub(super) fn parts(&self, id: ChannelId, vl: u8) -> impl Iterator<Item = usize> {
        let (first, parts, grown): (usize, usize, &[u32]) = match &self.divided {
            None => (id as usize * self.lane_count, 1, &[]),
            Some(divided) => {
                let parts = match &divided.divisions[id as usize] {
                    Division::Whole => 1,
                    Division::Table(_, parts) => *parts as usize,
                    Division::PerDestination => 0,
                };
                let grown = divided.grown.get(&(id, vl)).map_or(&[][..], Vec::as_slice);
                (divided.first[id as usize] as usize, parts, grown)
            }
        };
        let fixed = (0..parts).map(move |part| first + part * self.lane_count + usize::from(vl));
        fixed.chain(grown.iter().map(|&lane| lane as usize))
    }
}
