//! Reads distributions of message sizes and lists of transfers, in the formats in which they are published.

use std::path::Path;
use std::sync::Arc;

use silvan_engine::Time;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Cdf, Listed, ListedTransfer, MOST_LISTED, Pattern, Sizes, Traffic};

use crate::error::Fault;
use crate::import::ImportError;
use crate::import::text::read_text;
use crate::validate::LARGEST_MESSAGE;

/// The traffic of a scenario with the content of the files that it names.
pub(crate) fn load(traffic: &[Traffic], base: &Path, topology: &Topology) -> Result<Vec<Traffic>, Fault> {
    let mut traffic = traffic.to_vec();
    for (index, one) in traffic.iter_mut().enumerate() {
        let fault = |key: &str| {
            let path = format!("traffic.{index}.{key}");
            move |error: ImportError| Fault::new(path, error.to_string())
        };
        if let Some(Sizes::File { file }) = &one.sizes {
            let cdf = cdf(&base.join(file)).map_err(fault("sizes.file"))?;
            one.loaded.sizes = Some(Arc::new(cdf));
        }
        if let Pattern::Listed(listed) = &one.pattern {
            let list = list(listed, base, topology).map_err(fault("pattern.file"))?;
            one.loaded.transfers = Some(Arc::new(list));
        }
    }
    Ok(traffic)
}

/// The lines of a text with their numbers, without comments and empty lines.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    let bare = numbered.map(|(number, line)| (number, line.split('#').next().unwrap_or("").trim()));
    bare.filter(|(_, line)| !line.is_empty())
}

/// Reads a distribution of sizes.
fn cdf(path: &Path) -> Result<Cdf, ImportError> {
    let (text, origin) = (read_text(path)?, path.display().to_string());
    let mut points = Vec::new();
    let mut numbers = Vec::new();
    for (number, line) in lines(&text) {
        let wrong = || {
            let what = format!(
                "`{line}` is no point of a distribution; a line has a size (0 to {} bytes) and a share, such as `10000 0.15`",
                LARGEST_MESSAGE.0
            );
            ImportError::at(&origin, number, what)
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [size, share] = fields[..] else { return Err(wrong()) };
        let size = size.parse::<u32>().ok().filter(|&size| u64::from(size) <= LARGEST_MESSAGE.0);
        let share = share.parse::<f64>().ok().filter(|share| share.is_finite());
        let (Some(size), Some(share)) = (size, share) else { return Err(wrong()) };
        points.push((size, share));
        numbers.push(number);
    }
    // Shares are fractions or percentages; the last one, 1 or 100, shows which.
    if points.last().is_some_and(|&(_, share)| share <= 1.0) {
        points.iter_mut().for_each(|(_, share)| *share *= 100.0);
    }
    Cdf::new(&points).map_err(|(at, what)| match numbers.get(at) {
        Some(&number) => ImportError::at(&origin, number, what),
        None => ImportError::new(&origin, what),
    })
}

/// Reads a list of transfers.
fn list(listed: &Listed, base: &Path, topology: &Topology) -> Result<Vec<ListedTransfer>, ImportError> {
    let path = base.join(&listed.file);
    let (text, origin) = (read_text(&path)?, path.display().to_string());
    let rows = match lines(&text).next() {
        None => return Err(ImportError::new(&origin, "has no transfers")),
        Some((_, header)) if header.contains(',') => csv(&text, &origin)?,
        Some(_) => hpcc(&text, &origin)?,
    };
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let wrong = |what: String| ImportError::at(&origin, row.number, what);
        let host = |name: &str| {
            let by_number = || name.parse::<u32>().ok().filter(|&number| number < topology.end_hosts());
            topology.host_named(name).or_else(by_number).ok_or_else(|| {
                let hosts = topology.end_hosts();
                wrong(format!("there is no host `{name}`; use names, or numbers from 0 to {}", hosts - 1))
            })
        };
        let (from, to) = (host(row.from)?, host(row.to)?);
        if from == to {
            return Err(wrong(format!("host {} sends to itself", row.from)));
        }
        let bytes = row.bytes.parse::<u32>().ok().filter(|&bytes| bytes > 0);
        let bytes = bytes.filter(|&bytes| u64::from(bytes) <= LARGEST_MESSAGE.0).ok_or_else(|| {
            wrong(format!("`{}` is no size; must be 1 to {} bytes", row.bytes, LARGEST_MESSAGE.0))
        })?;
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
    Ok(found)
}

/// A row of a list.
struct Row<'t> {
    number: usize,
    from: &'t str,
    to: &'t str,
    bytes: &'t str,
    level: &'t str,
    start: &'t str,
    /// The unit of `start`.
    unit: &'static str,
    /// Number of decimal digits from this unit to picoseconds.
    digits: usize,
}

/// A decimal number times 10^`digits`, without the fraction. `None` if the text is not a decimal number, or
/// the result is too large.
fn picoseconds(text: &str, digits: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !(whole.to_owned() + part).bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shown: String = part.chars().chain(std::iter::repeat('0')).take(digits).collect();
    format!("{whole}{shown}").parse().ok()
}

/// The flow files of HPCC, and of simulators that omit the port. Lines after the announced number of flows
/// are ignored, as in these simulators.
fn hpcc<'t>(text: &'t str, origin: &str) -> Result<Vec<Row<'t>>, ImportError> {
    let mut rows = lines(text);
    let (number, first) = rows.next().unwrap_or((1, ""));
    let count = first.parse::<usize>().ok().filter(|&count| count <= MOST_LISTED).ok_or_else(|| {
        let what = format!(
            "`{first}` is no number of flows; a flow file begins with their number (at most {MOST_LISTED}), and CSV with \
             `from,to,bytes,start_ns`"
        );
        ImportError::at(origin, number, what)
    })?;
    let mut found = Vec::with_capacity(count);
    for (number, line) in rows.take(count) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (from, to, level, bytes, start) = match fields[..] {
            [from, to, level, _, bytes, start] | [from, to, level, bytes, start] => {
                (from, to, level, bytes, start)
            }
            _ => {
                let what = format!(
                    "`{line}` is no flow; a line has source, destination, priority, port, bytes and start in seconds"
                );
                return Err(ImportError::at(origin, number, what));
            }
        };
        found.push(Row { number, from, to, bytes, level, start, unit: "seconds", digits: 12 });
    }
    if found.len() < count {
        let what = format!("the first line announces {count} flows, but {} follow", found.len());
        return Err(ImportError::at(origin, number, what));
    }
    Ok(found)
}

/// Reads CSV with a line of column names.
fn csv<'t>(text: &'t str, origin: &str) -> Result<Vec<Row<'t>>, ImportError> {
    const KNOWN: [&str; 5] = ["from", "to", "bytes", "start_ns", "sl"];
    let mut rows = lines(text);
    let (number, header) = rows.next().unwrap_or((1, ""));
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let column = |name: &str| names.iter().position(|&other| other == name);
    let is_known = names.iter().all(|name| KNOWN.contains(name));
    let needed = [column("from"), column("to"), column("bytes"), column("start_ns")];
    let [Some(from), Some(to), Some(bytes), Some(start)] = needed else {
        let what = format!("the columns are `{header}`; must be from, to, bytes, start_ns and optionally sl");
        return Err(ImportError::at(origin, number, what));
    };
    if !is_known {
        let what = format!("the columns are `{header}`; must be from, to, bytes, start_ns and optionally sl");
        return Err(ImportError::at(origin, number, what));
    }
    let level = column("sl");
    let mut found = Vec::new();
    for (number, line) in rows {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != names.len() {
            let what =
                format!("the line has {} columns, but the first one has {}", fields.len(), names.len());
            return Err(ImportError::at(origin, number, what));
        }
        if found.len() == MOST_LISTED {
            return Err(ImportError::at(origin, number, format!("more than {MOST_LISTED} transfers")));
        }
        found.push(Row {
            number,
            from: fields[from],
            to: fields[to],
            bytes: fields[bytes],
            level: level.map_or("0", |level| fields[level]),
            start: fields[start],
            unit: "nanoseconds",
            digits: 3,
        });
    }
    Ok(found)
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
        assert_eq!(["-1", "1e3", "", ".5", "1.2.3"].map(|text| picoseconds(text, 3)), [None; 5]);
    }
}
