//! Reads distributions of message sizes and lists of transfers, in the formats in which they are published.

use std::path::Path;
use std::sync::Arc;

use silvan_engine::{Rate, Time};
use silvan_network::topology::Topology;
use silvan_network::traffic::{Listed, ListedTransfer, Pattern, Sizes, Traffic};

use crate::error::Fault;
use crate::import::text::{read_text, without_exponent};
use crate::import::{ImportError, sizes, transfers};

/// The largest transfer of a list: 1 TiB. Traffic that generates messages has the smaller limit of messages.
const LARGEST_TRANSFER: u64 = 1 << 40;
/// The longest time that the payload of a transfer may take on the slowest link, so that times fit the clock
/// even if headers are many times larger than the payload.
const LONGEST_TRANSFER_S: u64 = 1_000_000;

/// The traffic of a scenario with the content of the files that it names, and notes about these files.
pub(crate) fn load(
    traffic: &[Traffic],
    base: &Path,
    topology: &Topology,
) -> Result<(Vec<Traffic>, Vec<String>), Fault> {
    let mut traffic = traffic.to_vec();
    let mut notes = Vec::new();
    for (index, one) in traffic.iter_mut().enumerate() {
        let fault = |key: &str| {
            let path = format!("traffic.{index}.{key}");
            move |error: ImportError| Fault::new(path, error.to_string())
        };
        if let Some(Sizes::File { file }) = &one.sizes {
            let (cdf, found) = sizes::read(&base.join(file)).map_err(fault("sizes.file"))?;
            one.loaded.sizes = Some(Arc::new(cdf));
            notes.extend(found.into_iter().map(|note| format!("traffic.{index}.sizes.file: {note}")));
        }
        if let Pattern::Listed(listed) = &one.pattern {
            let (list, found) = list(listed, base, topology).map_err(fault("pattern.file"))?;
            stay_in_parts(&list, topology, &format!("traffic.{index}.pattern.file"))?;
            one.loaded.transfers = Some(Arc::new(list));
            notes.extend(found.into_iter().map(|note| format!("traffic.{index}.pattern.file: {note}")));
        }
    }
    Ok((traffic, notes))
}

/// Checks that transfers are between hosts that are connected.
fn stay_in_parts(list: &[ListedTransfer], topology: &Topology, path: &str) -> Result<(), Fault> {
    let parts = topology.part_numbers();
    let part = |host: u32| parts.hosts[host as usize];
    match list.iter().find(|transfer| part(transfer.from) != part(transfer.to)) {
        None => Ok(()),
        Some(transfer) => {
            let [from, to] = [transfer.from, transfer.to].map(|host| &topology.hosts[host as usize].name);
            Err(Fault::new(path, format!("has a transfer from {from} to {to}, which are not connected")))
        }
    }
}

/// Finds hosts by the names in a list.
struct Names<'t> {
    topology: &'t Topology,
    /// Whether numbers are indices of hosts. They are not if names of nodes are numbers.
    by_number: bool,
}

impl<'t> Names<'t> {
    fn of(topology: &'t Topology) -> Self {
        let is_number = |name: &str| name.parse::<u32>().is_ok();
        let hosts = topology.hosts.iter().map(|host| host.name.as_str());
        let switches = topology.switches.iter().map(|switch| switch.name.as_str());
        Self { topology, by_number: !hosts.chain(switches).any(is_number) }
    }

    /// The number of the host with this name, or with this number.
    fn host(&self, name: &str) -> Result<u32, String> {
        let hosts = self.topology.end_hosts();
        if let Some(host) = self.topology.host_named(name) {
            return Ok(host);
        }
        if self.topology.switch_named(name).is_some() {
            return Err(format!("node {name} is a switch; a transfer is between hosts"));
        }
        let known = self.topology.hosts.first().map_or("", |host| host.name.as_str());
        if !self.by_number {
            return Err(format!("there is no host `{name}`; use names of hosts, such as `{known}`"));
        }
        name.parse::<u32>().ok().filter(|&number| number < hosts).ok_or_else(|| {
            let last = hosts.saturating_sub(1);
            format!("there is no host `{name}`; use names, or numbers from 0 to {last}")
        })
    }
}

/// Reads a list of transfers; also returns notes about parts of the file that are not used.
fn list(
    listed: &Listed,
    base: &Path,
    topology: &Topology,
) -> Result<(Vec<ListedTransfer>, Vec<String>), ImportError> {
    let path = base.join(&listed.file);
    let (text, origin) = (read_text(&path)?, path.display().to_string());
    let (rows, notes) = transfers::read(&text, &path, &origin, topology.end_hosts())?;
    let names = Names::of(topology);
    let slowest = topology.links.iter().map(|link| link.rate).min().unwrap_or(Rate(1));
    let by_rate = u128::from(slowest.0) * u128::from(LONGEST_TRANSFER_S) / 8;
    let most = u128::from(LARGEST_TRANSFER).min(by_rate) as u64;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let wrong = |what: String| ImportError::at(&origin, row.number, what);
        let host = |name: &str| names.host(name).map_err(wrong);
        let (from, to) = (host(row.from)?, host(row.to)?);
        if from == to {
            return Err(wrong(format!("host {} sends to itself", row.from)));
        }
        let bytes = without_exponent(row.bytes).and_then(|bytes| bytes.parse::<u64>().ok());
        let bytes = bytes.filter(|bytes| (1..=most).contains(bytes));
        let bytes =
            bytes.ok_or_else(|| wrong(format!("`{}` is no size; must be 1 to {most} bytes", row.bytes)))?;
        let sl = row.level.parse::<u8>().ok().filter(|&level| level < 16).ok_or_else(|| {
            wrong(format!("`{}` is no service level or priority; must be 0 to 15", row.level))
        })?;
        let time = picoseconds(row.start, row.digits).ok_or_else(|| {
            wrong(format!("`{}` is no time; must be a decimal number of {}", row.start, row.unit))
        })?;
        let start = time.checked_sub(listed.starts_at.0).map(Time).ok_or_else(|| {
            wrong(format!("starts at {}, before pattern.starts_at = {}", Time(time), listed.starts_at))
        })?;
        found.push(ListedTransfer { from, to, bytes, start, sl });
    }
    Ok((found, notes))
}

/// A decimal number times 10^`digits`, without the fraction. `None` if the text is not a decimal number, or
/// the result is too large.
fn picoseconds(text: &str, digits: usize) -> Option<u64> {
    let text = without_exponent(text)?;
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if whole.is_empty() || !(whole.to_owned() + part).bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shown: String = part.chars().chain(std::iter::repeat('0')).take(digits).collect();
    format!("{whole}{shown}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(picoseconds("2", 12), Some(2_000_000_000_000));
        assert_eq!(picoseconds("2.000000067", 12), Some(2_000_000_067_000));
        assert_eq!(picoseconds("0.0000000000019", 12), Some(1), "less than a picosecond is cut off");
        assert_eq!(picoseconds("12.5", 3), Some(12_500));
        assert_eq!(picoseconds("1e-5", 12), Some(10_000_000));
        assert_eq!(picoseconds("2.000000067e0", 12), Some(2_000_000_067_000));
        assert_eq!(["-1", "1e", "", ".5", "1.2.3"].map(|text| picoseconds(text, 3)), [None; 5]);
    }
}
