//! The table of packet trimming: which outputs trimmed how many packets.

use std::sync::Arc;

use crate::observe::series::LinkName;
use crate::outcome::{Column, Table, Values};
use crate::partition::View;

/// The table: a row for each output of a switch that trimmed packets.
pub(crate) fn table(view: View, links: &[LinkName], names: &[String]) -> Table {
    let (mut codes, mut counts) = (Vec::new(), Vec::new());
    for (index, link) in links.iter().enumerate() {
        let count = link.switch.map_or(0, |(switch, output)| view.trimmed(switch, output));
        if count > 0 {
            codes.push(index as u32);
            counts.push(count);
        }
    }
    let names = Arc::new(names.to_vec());
    Table {
        name: "trimming",
        columns: vec![
            Column { name: "link", values: Values::Name { codes, names } },
            Column { name: "trimmed_packets", values: Values::U64(counts) },
        ],
    }
}
