//! Packets that leave on a faster link than the one on which they arrive. Such a packet starts so late that its tail has
//! arrived in time.

use std::sync::Arc;

use silvan_engine::Time;

use super::{Around, Arrival, Bank, MAX_INPUTS, OutputPlaces};

/// Flag in [`Arrival::input`] of a packet that has waited for its tail. It follows all packets whose heads arrive at the
/// same instant.
const READY: u16 = MAX_INPUTS as u16;

/// The links of the switches. Inputs and outputs have the same indexes, and links are given by their index into
/// [`super::OutputLinks::links`].
#[derive(Debug)]
pub(super) struct TailLinks {
    places: Arc<OutputPlaces>,
    of_inputs: Box<[u8]>,
    /// For each output, whether its link may be faster than that of an input of its switch at the start of the run. If not,
    /// and if links do not change, no packet waits there.
    exceeds_input: Box<[bool]>,
}

impl TailLinks {
    /// `rates` has the rate of each link in bits per second.
    pub fn new(places: Arc<OutputPlaces>, of_inputs: Box<[u8]>, of_outputs: &[u8], rates: &[u64]) -> Self {
        let rate = |link: u8| rates[usize::from(link)];
        // By the first output of a switch.
        let firsts = &places.firsts;
        let mut slowest = vec![u64::MAX; firsts.len()];
        for (&first, &input) in firsts.iter().zip(&of_inputs) {
            let slowest = &mut slowest[first as usize];
            *slowest = rate(input).min(*slowest);
        }
        let outputs = firsts.iter().zip(of_outputs);
        let exceeds_input = outputs.map(|(&first, &output)| rate(output) > slowest[first as usize]).collect();
        Self { places, of_inputs, exceeds_input }
    }

    #[inline(always)]
    fn input(&self, arrival: &Arrival) -> usize {
        self.places.first(arrival.output) as usize + arrival.input_index()
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Delays packets until they may leave. Those that may leave at `before` or later are put back.
    pub(super) fn wait_for_tails(&mut self, around: &Around, arrivals: &mut Vec<Arrival>, before: Time) {
        let Some(tails) = self.tails.take() else { return };
        let have_changes = self.changes.is_some();
        arrivals.retain_mut(|arrival| {
            let may_wait = have_changes || tails.exceeds_input[arrival.output as usize];
            !(may_wait && arrival.is_head() && self.delay_for_tail(around, &tails, arrival, before))
        });
        self.tails = Some(tails);
    }

    /// If a packet must wait for its tail, replaces its time by that at which it may leave. If that time is `before` or
    /// later, puts the packet back. Returns whether it was put back.
    #[inline(never)]
    fn delay_for_tail(
        &mut self,
        around: &Around,
        tails: &TailLinks,
        arrival: &mut Arrival,
        before: Time,
    ) -> bool {
        let start = self.start;
        let have_changes = self.changes.is_some();
        let input = tails.input(arrival);
        let from = tails.of_inputs[input];
        let to = self.voq.records[arrival.output as usize].own.link;
        let mut span = |link: u8| self.wiring.links[usize::from(link)].parameters.span(arrival.size.into());
        // The rate of the last link may have changed since the packet left.
        let lag = if have_changes { around.ctx.packets[arrival.packet].tail_lag } else { span(from) };
        let own = span(to);
        if lag <= own {
            return false;
        }
        let since = u64::from(arrival.when.wrapping_sub(start.0 as u32));
        let ready = start + Time(since) + lag - own;
        (arrival.when, arrival.input) = (ready.0 as u32, arrival.input | READY);
        let is_late = ready >= before;
        if is_late {
            if let Some(pauses) = &mut self.pauses {
                pauses.is_underway(arrival, input, ready);
            }
            self.arrivals.push(self.arrivals.bin(ready), *arrival);
        }
        is_late
    }
}

impl Arrival {
    /// The input of the packet.
    #[inline(always)]
    pub(super) fn input_index(&self) -> usize {
        usize::from(self.input & (READY - 1))
    }

    /// Whether this is the head of a packet, rather than a message or a packet that has waited for its tail.
    #[inline(always)]
    pub(super) fn is_head(&self) -> bool {
        self.input < READY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_exceed_an_input_of_their_switch_are_known() {
        // Two switches with two ports each: inputs at 100 and 400 Gbit/s, and at 400 Gbit/s only.
        let (firsts, ports) = (Box::new([0, 0, 2, 2]), Box::new([2; 4]));
        let places = OutputPlaces { channels: Box::new([(0, 0); 4]), firsts, ports };
        let tails =
            TailLinks::new(Arc::new(places), Box::new([0, 1, 1, 1]), &[0, 1, 1, 0], &[100_000, 400_000]);
        assert_eq!(tails.exceeds_input[..], [false, true, false, false]);
    }
}
