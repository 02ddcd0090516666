//! The watchdog, which finds packets that wait for each other in a cycle.

use rustc_hash::FxHashSet;
use silvan_network::port::{Port, Vl};

use crate::partition::View;

/// A virtual lane of a switch output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SwitchLane {
    pub switch: u32,
    pub output: Port,
    pub vl: Vl,
}

/// Finds a cycle of outputs, each of which waits for credit that only the next output can free.
///
/// An output that lacks credit waits for the input buffer at the far end of its link, which frees space as
/// soon as any packet leaves it. An output is therefore permanently blocked exactly if every packet at the
/// head of that buffer's queues waits for a permanently blocked output. The search finds the largest such set
/// by removing outputs that are not blocked.
pub(crate) fn find_deadlock(view: View) -> Option<Vec<SwitchLane>> {
    let mut stuck: FxHashSet<SwitchLane> = FxHashSet::default();
    for (index, ports) in view.all_ports().enumerate() {
        for (output, wiring) in ports.wiring.iter().enumerate() {
            let Some(wiring) = wiring else { continue };
            for vl in Vl::all(ports.lanes) {
                if view.is_stuck(wiring.out, vl) {
                    stuck.insert(SwitchLane { switch: index as u32, output: Port::new(output), vl });
                }
            }
        }
    }
    let next = |lane: SwitchLane| -> Option<Vec<SwitchLane>> {
        let channel = view.ports(lane.switch).out(lane.output);
        let (far, input) = (*view.receiver.get(channel as usize)?)?;
        let heads = view.heads(far, input, lane.vl);
        let at_far = |(output, vl)| SwitchLane { switch: far, output, vl };
        (!heads.is_empty()).then(|| heads.into_iter().map(at_far).collect())
    };
    loop {
        let free: Vec<SwitchLane> = stuck
            .iter()
            .copied()
            .filter(|&lane| next(lane).is_none_or(|heads| heads.iter().any(|head| !stuck.contains(head))))
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|lane| {
            stuck.remove(lane);
        });
    }
    let mut at = *stuck.iter().min()?;
    let mut path = vec![at];
    loop {
        at = next(at)?.into_iter().min()?;
        if let Some(start) = path.iter().position(|&lane| lane == at) {
            return Some(path.split_off(start));
        }
        path.push(at);
    }
}
