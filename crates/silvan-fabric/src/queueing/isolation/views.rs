//! What meters and checks ask of CAMs.

use super::{Cams, Cause, Line, OwnLine};

impl Cams {
    /// CAM lines in use at an input, and how many of them have a special queue.
    pub fn usage(&self, input: usize) -> (usize, usize) {
        let cam = &self.inputs[input];
        let own = &self.own[input * self.own_ports..(input + 1) * self.own_ports];
        (cam.used + own.iter().filter(|line| **line != OwnLine::Free).count(), cam.used)
    }

    /// CAM lines in use at outputs.
    pub fn output_lines(&self) -> usize {
        self.output_lines
    }

    /// Whether a line lists a destination on a virtual lane: one of a special queue whose root is here, or one that
    /// a next node has told of.
    pub fn lists(&self, vl: usize, dst: u32) -> bool {
        let of_lane = |at: &usize| at % self.lanes == vl;
        let here = |line: &Line| matches!(&line.cause, Cause::Root(listed) if listed.contains(&dst));
        let at_input = |input: usize| {
            let cam = &self.inputs[input];
            cam.used > 0 && cam.special.iter().flatten().any(here)
        };
        let at_output =
            |output: usize| self.outputs[output].iter().any(|line| line.destinations.contains(&dst));
        (0..self.inputs.len()).filter(of_lane).any(at_input)
            || self.output_lines > 0 && (0..self.outputs.len()).filter(of_lane).any(at_output)
    }

    /// Whether an output port is a root as far as this node knows: some input has a line for it.
    pub fn is_root(&self, port: usize, lanes: usize) -> bool {
        let own = |input: usize| self.own.get(input * self.own_ports + port);
        (0..self.inputs.len()).any(|input| {
            port < self.own_ports && own(input).is_some_and(|line| *line != OwnLine::Free)
                || (0..lanes).any(|vl| self.root_queue(input, port * lanes + vl).is_some())
        })
    }
}
