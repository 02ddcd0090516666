//! A receiver that does not answer, because the switches themselves report marks to the sources.

use super::{ReceiverRule, Replies, Sink};
use crate::facts::Received;

#[derive(Debug)]
pub struct Silent;

impl ReceiverRule for Silent {
    type State = ();

    const WATCHES_UNMARKED: bool = false;
    const ACKNOWLEDGES_EACH: bool = false;
    const NOTIFIES: bool = false;

    fn new(_sink: &Sink) -> Self {
        Self
    }

    fn received(&self, _state: &mut (), _packet: &Received, _out: &mut Replies) {}
}
