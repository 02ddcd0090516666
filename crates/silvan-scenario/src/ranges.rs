//! Expands ranges in lists of hosts: `node-[00-03,7]` means five hosts, and `H[1-63/2]` means every second of
//! 63 hosts. A single string may replace a list.
//!
//! Lists are expanded when a scenario is read, before the network is known. [`Expanded`] stores the
//! original positions for messages.

use toml::{Table, Value};

use crate::error::Fault;

/// Maximum number of hosts that all ranges of a scenario may name in total.
const MOST_HOSTS: u64 = 1 << 20;
/// Maximum number of digits of a number in a range.
const MOST_DIGITS: usize = 9;

/// A list of hosts that was expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expanded {
    /// Key of the list, such as `traffic.0.hosts`.
    path: String,
    /// For each host, its name and the index of the list element that names it. There is no index if a
    /// string replaces the list.
    hosts: Vec<(String, Option<usize>)>,
}

impl Expanded {
    /// Converts a path in the expanded list to the path in the file, and returns it with the name of the
    /// host. `None` if the path is not in this list.
    pub fn written(&self, path: &str) -> Option<(String, &str)> {
        let index = path.strip_prefix(&self.path)?.strip_prefix('.')?;
        let (host, at) = self.hosts.get(index.parse::<usize>().ok()?)?;
        Some((at.map_or_else(|| self.path.clone(), |at| format!("{}.{at}", self.path)), host))
    }
}

/// Replaces ranges by names, in lists of hosts and in the lists of links and switches of events.
pub(crate) fn expand(table: &mut Table) -> Result<Vec<Expanded>, Fault> {
    let mut expander = Expander { found: Vec::new(), left: MOST_HOSTS };
    let lists = [
        ("traffic", &["hosts", "pattern.to"][..]),
        ("job", &["hosts"]),
        ("event", &["links", "switches", "hosts"]),
    ];
    for (kind, keys) in lists {
        expander.tables(table.get_mut(kind), kind, keys)?;
    }
    let settings = table.get_mut("congestion").and_then(|congestion| congestion.get_mut("hosts"));
    expander.tables(settings, "congestion.hosts", &["at"])?;
    Ok(expander.found)
}

struct Expander {
    found: Vec<Expanded>,
    /// Number of hosts that further ranges may name.
    left: u64,
}

impl Expander {
    /// Expands the lists at these keys of all tables of an array, whose key is `path`.
    fn tables(&mut self, array: Option<&mut Value>, path: &str, keys: &[&str]) -> Result<(), Fault> {
        let Some(Value::Array(list)) = array else { return Ok(()) };
        for (index, element) in list.iter_mut().enumerate() {
            for key in keys {
                let written = key.split('.').try_fold(&mut *element, |value, key| value.get_mut(key));
                if let Some(value) = written {
                    self.list(value, &format!("{path}.{index}.{key}"))?;
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, value: &mut Value, path: &str) -> Result<(), Fault> {
        let mut hosts = Vec::new();
        match value {
            Value::String(text) => self.names(text, None, path, &mut hosts)?,
            Value::Array(list) => {
                let has_range = |item: &Value| item.as_str().is_some_and(|text| text.contains('['));
                if !list.iter().any(has_range) {
                    return Ok(());
                }
                for (index, item) in list.iter().enumerate() {
                    let text = item.as_str().unwrap_or_default();
                    self.names(text, Some(index), &format!("{path}.{index}"), &mut hosts)?;
                }
            }
            _ => return Ok(()),
        }
        *value = Value::Array(hosts.iter().map(|(name, _)| Value::String(name.clone())).collect());
        self.found.push(Expanded { path: path.to_owned(), hosts });
        Ok(())
    }

    /// Adds the hosts that one string names.
    fn names(
        &mut self,
        text: &str,
        index: Option<usize>,
        path: &str,
        hosts: &mut Vec<(String, Option<usize>)>,
    ) -> Result<(), Fault> {
        let Some((prefix, rest)) = text.split_once('[') else {
            hosts.push((text.to_owned(), index));
            return Ok(());
        };
        let right = "must be a name, or a name with one range such as \"node-[00-03,7]\"";
        let parts = rest.split_once(']').filter(|(numbers, suffix)| {
            !prefix.contains(']') && !suffix.contains(['[', ']']) && !numbers.contains('[')
        });
        let Some((numbers, suffix)) = parts else { return Err(Fault::new(path, right)) };
        for part in numbers.split(',') {
            let Part { first, last, step, width } = Part::read(part.trim()).ok_or_else(|| {
                let shown: String = part.chars().take(40).collect();
                Fault::new(path, format!("{right}; `{shown}` is not a number or a rising range"))
            })?;
            self.left = self.left.checked_sub((last - first) / step + 1).ok_or_else(|| {
                Fault::new(path, format!("must not name more than {MOST_HOSTS} hosts by ranges in total"))
            })?;
            let numbers = (first..=last).step_by(step as usize);
            hosts.extend(numbers.map(|n| (format!("{prefix}{n:0width$}{suffix}"), index)));
        }
        Ok(())
    }
}

/// A part of a range: the numbers from `first` to `last` at a distance of `step`, with at least `width` digits.
struct Part {
    first: u64,
    last: u64,
    step: u64,
    width: usize,
}

impl Part {
    /// Parses a number or a range, such as `7`, `00-03` or `1-63/2`. `None` if the text has another form.
    fn read(part: &str) -> Option<Self> {
        let number = |text: &str| {
            let is_number =
                (1..=MOST_DIGITS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            if is_number { text.parse::<u64>().ok() } else { None }
        };
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, number(step).filter(|&step| step > 0)?),
            None => (part, 1),
        };
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(low)?, number(high)?);
        (first <= last).then_some(Self { first, last, step, width: low.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(hosts: &str) -> Result<Vec<String>, String> {
        let mut table: Table = format!("[[traffic]]\nhosts = {hosts}").parse().unwrap();
        let found = expand(&mut table).map_err(|fault| format!("{}: {}", fault.path, fault.what))?;
        let list: Vec<String> = table["traffic"][0]["hosts"].clone().try_into().unwrap();
        if let Some(one) = found.first() {
            let written: Vec<&str> = one.hosts.iter().map(|(host, _)| host.as_str()).collect();
            assert_eq!(written, list);
        }
        Ok(list)
    }

    #[test]
    fn ranges_keep_order_and_digits() {
        for (written, names) in [
            ("\"H[1-3]\"", "H1 H2 H3"),
            ("\"H7\"", "H7"),
            ("[\"H2\", \"H[9-11]\", \"H1\"]", "H2 H9 H10 H11 H1"),
            ("[\"node-[08-10, 3]-ib0\"]", "node-08-ib0 node-09-ib0 node-10-ib0 node-3-ib0"),
            ("\"H[1-8/3, 20-21/5]\"", "H1 H4 H7 H20"),
            ("[]", ""),
        ] {
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            assert_eq!(expanded(written), Ok(names), "{written}");
        }
    }

    #[test]
    fn wrong_ranges_are_refused_at_their_element() {
        for wrong in [
            "H[",
            "H]1[",
            "H[1-]",
            "H[3-1]",
            "H[1][2]",
            "H[]",
            "H[a-b]",
            "H[1]]",
            "H[+1]",
            "H[1_0]",
            "H[1-4/0]",
            "H[1-4/]",
            "H[1-4/1/2]",
        ] {
            let said = expanded(&format!("[\"H1\", \"{wrong}\"]"));
            assert!(
                said.clone().is_err_and(|text| text.starts_with("traffic.0.hosts.1: ")),
                "{wrong}: {said:?}"
            );
        }
        let many = expanded("\"H[0-1048576]\"").unwrap_err();
        assert!(many.ends_with("must not name more than 1048576 hosts by ranges in total"), "{many}");
        assert!(expanded("\"H[0-2097150/2]\"").is_ok());
        let many = expanded("[\"H[1-1048576]\", \"H[5]\"]").unwrap_err();
        assert!(many.starts_with("traffic.0.hosts.1: "), "{many}");
        let long = expanded("\"H[1-99999999999999999999]\"").unwrap_err();
        assert!(long.contains("is not a number or a rising range"), "{long}");
    }
}
