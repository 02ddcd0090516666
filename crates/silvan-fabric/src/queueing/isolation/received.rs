//! Handles notifications from the next node about its CAM lines.

use silvan_network::port::PortVl;

use super::marks::DestinationFilter;
use super::{Cams, Cause, LineMessage, Notice, OutputLine};

impl Cams {
    /// Handles a notification from the next node. Returns the affected special queues, as input and number.
    pub fn received(&mut self, output: PortVl, notice: Notice) -> Vec<(PortVl, usize)> {
        let found = self.note(output, notice);
        self.listed[output.index()] =
            DestinationFilter::of(self.outputs[output.index()].iter().flat_map(|line| &line.destinations));
        found
    }

    fn note(&mut self, output: PortVl, notice: Notice) -> Vec<(PortVl, usize)> {
        let Notice { line, rate, message, .. } = notice;
        let lines = &mut self.outputs[output.index()];
        let place = lines.iter().position(|known| known.line == line);
        if let Some(at) = place {
            lines[at].rate = rate;
        }
        match (message, place) {
            (LineMessage::Allocate(destinations), None) => {
                lines.push(OutputLine { line, destinations, stopped: false, rate });
                self.output_lines += 1;
                self.adopt(output, line);
            }
            (LineMessage::Allocate(destinations), Some(at)) => lines[at].destinations = destinations,
            (LineMessage::Stop, Some(at)) => lines[at].stopped = true,
            (LineMessage::Go, Some(at)) => lines[at].stopped = false,
            (LineMessage::Release, Some(at)) => {
                lines.remove(at);
                self.output_lines -= 1;
                return self.branches(output, line, true);
            }
            // Stop, go and release have no effect on a line that is not stored.
            (_, None) => return Vec::new(),
        }
        self.branches(output, line, false)
    }

    /// Assigns orphaned queues to a new line that lists a destination of their packets. Otherwise, their packets and
    /// those that must follow would never be stopped.
    fn adopt(&mut self, output: PortVl, number: u16) {
        let known = self.outputs[output.index()].iter().find(|known| known.line == number);
        let Some(known) = known else { return debug_assert!(false, "the line was just added") };
        for line in self.inputs.iter_mut().flat_map(|cam| cam.special.iter_mut().flatten()) {
            let listed = line.held.iter().any(|held| known.destinations.contains(&held.0));
            if line.output == output && line.cause == Cause::Orphan && listed {
                line.cause = Cause::Branch(number);
            }
        }
    }

    fn branches(&mut self, output: PortVl, number: u16, orphan: bool) -> Vec<(PortVl, usize)> {
        let mut found = Vec::new();
        for (input, cam) in self.inputs.iter_mut().enumerate() {
            for (at, line) in cam.special.iter_mut().enumerate() {
                let Some(line) = line else { continue };
                if line.output == output && line.cause == Cause::Branch(number) {
                    found.push((PortVl::new(input), at));
                    if orphan {
                        line.cause = Cause::Orphan;
                    }
                }
            }
        }
        found
    }
}
