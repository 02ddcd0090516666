//! Each line's share of the root's rate, for `arbitration = "weighted"`; see [`crate::queueing::arbitration`].

use silvan_congestion::isolation::SpecialArbitration;
use silvan_engine::Rate;
use silvan_network::port::{Port, PortVl, Vl};

use super::{Cams, Cause, Line, OwnLine};

impl Cams {
    /// The rate that the root accepts from a special queue: the rate of the root's link, or the rate that the
    /// next node has reported, divided evenly among this node's special queues for the same line or root.
    /// `None` if the tree no longer exists, or if the next node has reported no rate.
    pub fn share(&self, input: PortVl, at: usize) -> Option<Rate> {
        let Line { output, cause, .. } = self.inputs[input.index()].special[at].as_ref()?;
        let whole = match cause {
            Cause::Root(_) => self.rates[output.port(self.lanes()).index()],
            Cause::Branch(number) => self.known(*output, *number)?.rate?,
            Cause::Orphan => return None,
        };
        let is_alike = |line: &&Line| {
            line.output == *output
                && match (&line.cause, cause) {
                    (Cause::Root(_), Cause::Root(_)) => true,
                    (Cause::Branch(number), Cause::Branch(of)) => number == of,
                    _ => false,
                }
        };
        let lines = self.inputs.iter().flat_map(|cam| cam.special.iter().flatten());
        Some(Rate(whole.0 / lines.filter(is_alike).count().max(1) as u64))
    }

    /// The rate that the root accepts from a normal queue of its own switch: the rate of the root divided evenly among
    /// the inputs (of a virtual lane) whose queues have CAM lines.
    fn own_share(&self, vl: Vl, port: Port) -> Rate {
        let inputs = (vl.index()..self.inputs.len()).step_by(self.lanes()).map(PortVl::new);
        let lines = inputs.filter(|&input| self.own[self.own_index(input, port)] != OwnLine::Free).count();
        Rate(self.rates[port.index()].0 / lines.max(1) as u64)
    }

    /// The share of a special queue, as reported upstream. `None` unless arbitration is weighted.
    pub(super) fn announced_rate(&self, input: PortVl, at: usize) -> Option<Rate> {
        if self.is_weighted() { self.share(input, at) } else { None }
    }

    /// The share of a normal queue in the root's own switch, as reported upstream. `None` unless arbitration
    /// is weighted.
    pub(super) fn announced_rate_of_line(&self, vl: Vl, port: Port) -> Option<Rate> {
        self.is_weighted().then(|| self.own_share(vl, port))
    }

    fn is_weighted(&self) -> bool {
        self.rule.arbitration == SpecialArbitration::Weighted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use silvan_engine::Time;

    use super::super::{Growth, InputLane, LineMessage, Notice, SpecialQueueRule};
    use super::*;
    use silvan_congestion::isolation::SpecialQueues;

    const GBIT: u64 = 1_000_000_000;
    const VL: Vl = Vl::FIRST;

    /// A node with three inputs, two outputs of 16 and 40 Gbit/s, and one lane.
    fn cams(arbitration: SpecialArbitration, at_root: bool) -> Cams {
        let special = SpecialQueues { arbitration, at_root, ..SpecialQueues::default() };
        let rates = [16, 40].map(Rate::from_gbit).into();
        Cams::new(Arc::new(SpecialQueueRule::new(&special, 1_000)), 3, rates, 1, true)
    }

    fn at(input: usize) -> InputLane {
        InputLane { input: PortVl::new(input), vl: VL }
    }

    /// The notification of an input whose normal queue for output 0 grows to `bytes`.
    fn grown(cams: &mut Cams, input: usize, bytes: u32) -> Option<Notice> {
        let (output, port, queue, last) = (PortVl::FIRST, Port::FIRST, input as u32, 0);
        let growth = Growth { at: at(input), queue, last, output, port, bytes };
        cams.normal_grew(growth, |_| [7].into_iter(), Time::ZERO)
    }

    fn gbit(notice: Option<Notice>) -> Option<u64> {
        notice.unwrap().rate.map(|rate| rate.0 / GBIT)
    }

    #[test]
    fn a_root_is_shared_by_the_inputs_that_contribute() {
        let mut cams = cams(SpecialArbitration::Weighted, false);
        assert_eq!(gbit(grown(&mut cams, 0, 6_001)), Some(16), "allocate");
        assert_eq!(gbit(grown(&mut cams, 2, 6_001)), Some(8), "allocate");
        assert_eq!(gbit(grown(&mut cams, 0, 7_000)), Some(8), "stop");
        assert_eq!(gbit(grown(&mut cams, 1, 6_001)), Some(5), "allocate");
        assert_eq!(gbit(cams.normal_shrank(at(0), Port::FIRST, 4_000)), Some(5), "go");
        assert_eq!(gbit(cams.normal_shrank(at(1), Port::FIRST, 0)), None, "release");
        assert_eq!(gbit(grown(&mut cams, 0, 7_000)), Some(8), "stop");
    }

    #[test]
    fn nothing_is_told_where_nobody_asks() {
        for arbitration in [SpecialArbitration::RoundRobin, SpecialArbitration::Strict] {
            let mut cams = cams(arbitration, false);
            assert_eq!(gbit(grown(&mut cams, 0, 6_001)), None);
        }
    }

    #[test]
    fn branches_share_what_they_are_told_and_special_queues_of_a_root_its_link() {
        let mut cams = cams(SpecialArbitration::Weighted, true);
        let notice = |rate, message| Notice { vl: VL, line: 5, rate, message };
        let allocate = || LineMessage::Allocate([9].into());
        cams.received(PortVl::new(1), notice(Some(Rate::from_gbit(12)), allocate()));
        let taken: Vec<_> = (0..3)
            .map(|input| cams.special_for(PortVl::new(input), PortVl::new(1), 9, Time::ZERO).unwrap())
            .collect();
        let share = |cams: &Cams, input: usize| {
            cams.share(PortVl::new(input), taken[input]).map(|rate| rate.0 / GBIT)
        };
        assert_eq!([0, 1, 2].map(|input| share(&cams, input)), [Some(4); 3]);
        // One of the queues fills up and notifies the next switch upstream.
        assert_eq!(gbit(cams.special_grew(at(1), taken[1], 9, 6_001)), Some(4));
        // The next notification from the next node contains a different rate.
        cams.received(PortVl::new(1), notice(Some(Rate::from_gbit(6)), LineMessage::Stop));
        assert_eq!(share(&cams, 0), Some(2));
        // Two special queues of a root at output 0 share its link, independently of those at output 1.
        assert_eq!(grown(&mut cams, 0, 6_001), None);
        assert_eq!(cams.share(PortVl::FIRST, 1), Some(Rate::from_gbit(16)));
        assert_eq!(grown(&mut cams, 1, 6_001), None);
        assert_eq!(cams.share(PortVl::FIRST, 1), Some(Rate::from_gbit(8)));
        // A special queue whose tree no longer exists has no share and reports none.
        cams.received(PortVl::new(1), notice(None, LineMessage::Release));
        assert_eq!(share(&cams, 0), None);
        assert_eq!(cams.special_grew(at(1), taken[1], 9, 6_002).unwrap().rate, None, "stop");
    }
}
