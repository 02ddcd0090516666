//! Read access to CAMs for meters and checks.

use silvan_network::port::{Port, PortVl, Vl};

use super::{Cams, Cause, Line, OwnLine};

impl Cams {
    /// Number of CAM lines in use at an input, and the number of these with a special queue.
    pub fn usage(&self, input: PortVl) -> (usize, usize) {
        let cam = &self.inputs[input.index()];
        let ports = usize::from(self.own_ports);
        let own = &self.own[input.index() * ports..(input.index() + 1) * ports];
        let used = usize::from(cam.used);
        (used + own.iter().filter(|line| **line != OwnLine::Free).count(), used)
    }

    /// Number of CAM lines in use at outputs.
    pub fn output_lines(&self) -> usize {
        self.output_lines as usize
    }

    /// Whether a line lists a destination on a virtual lane: either the line of a special queue whose root is in this
    /// node, or a line reported by the next node.
    pub fn lists(&self, vl: Vl, dst: u32) -> bool {
        let of_lane = |at: &PortVl| at.vl(self.lanes()) == vl;
        let here = |line: &Line| matches!(&line.cause, Cause::Root(listed) if listed.contains(&dst));
        let at_input = |input: PortVl| {
            let cam = &self.inputs[input.index()];
            cam.used > 0 && cam.special.iter().flatten().any(here)
        };
        let at_output =
            |output: PortVl| self.outputs[output.index()].iter().any(|line| line.destinations.contains(&dst));
        let outputs = || (0..self.outputs.len()).map(PortVl::new);
        self.inputs().filter(of_lane).any(at_input)
            || self.output_lines > 0 && outputs().filter(of_lane).any(at_output)
    }

    /// Whether an input has a line for a root at this output port.
    pub fn is_root(&self, port: Port) -> bool {
        let own = |input: PortVl| self.own.get(self.own_index(input, port));
        self.inputs().any(|input| {
            port.0 < self.own_ports && own(input).is_some_and(|line| *line != OwnLine::Free)
                || port.with_lanes(self.lanes()).any(|output| self.root_queue(input, output).is_some())
        })
    }
}
