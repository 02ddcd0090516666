//! The endpoints of edges, and the pairs of endpoints that an edge connects.

use silvan_network::topology::MAX_LINKS;

use super::clip;
use super::read::{Component, Device, Endpoint, Infrastructure, Place, Scheme};

/// The endpoints that a text such as `host[0:2]`, `card[1].port` describes: a range of instances and, in each of them, ranges of
/// components and of the devices around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ends {
    /// The instance, and the numbers of those that are meant.
    instance: u32,
    numbers: (u32, u32),
    component: u32,
    /// For each level of the component: its count, and the numbers of those that are meant.
    levels: Vec<(u32, (u32, u32))>,
}

impl Ends {
    /// The endpoints of an edge of the network.
    pub(super) fn of_network(found: &Infrastructure, end: &Endpoint) -> Result<Self, String> {
        let (name, range) = sliced(&end.instance)?;
        let known = found.instances.iter().position(|instance| instance.name == name);
        let at = known.ok_or_else(|| format!("there is no instance {}", clip(name)))?;
        let numbers = range.within(found.instances[at].count, &end.instance)?;
        let own = Self::of_device(&found.devices[found.instances[at].device], end)?;
        Ok(Self { instance: at as u32, numbers, ..own })
    }

    /// The endpoints of an edge within a device.
    pub(super) fn of_device(device: &Device, end: &Endpoint) -> Result<Self, String> {
        let parts = end.component.split('.').map(sliced).collect::<Result<Vec<_>, _>>()?;
        let is_named = |component: &Component| {
            let names = component.levels.iter().map(|(name, _)| name.as_str());
            names.eq(parts.iter().map(|(name, _)| *name))
        };
        let known = device.components.iter().position(is_named);
        let at = known.ok_or_else(|| {
            let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
            format!("device {} has no component {}", clip(&device.name), clip(&names.join(".")))
        })?;
        let levels = parts.iter().zip(&device.components[at].levels);
        let levels =
            levels.map(|((_, range), &(_, count))| Ok((count, range.within(count, &end.component)?)));
        let levels = levels.collect::<Result<Vec<_>, String>>()?;
        Ok(Self { instance: 0, numbers: (0, 1), component: at as u32, levels })
    }

    fn len(&self) -> u64 {
        let of = |(from, to): (u32, u32)| u64::from(to - from);
        of(self.numbers) * self.levels.iter().map(|&(_, range)| of(range)).product::<u64>()
    }

    fn get(&self, at: u64) -> Place {
        let (mut rest, mut index, mut unit) = (at, 0, 1);
        for &(count, (from, to)) in self.levels.iter().rev() {
            let each = u64::from(to - from);
            index += unit * (from + (rest % each) as u32);
            rest /= each;
            unit *= count;
        }
        (self.instance, self.numbers.0 + rest as u32, self.component, index)
    }
}

/// A slice, such as `[0:2]`.
enum Slice {
    All,
    One(u32),
    Range(Option<u32>, Option<u32>),
}

/// Divides a text into a name and a slice.
fn sliced(text: &str) -> Result<(&str, Slice), String> {
    let wrong = || format!("{} must be a name with a slice, such as nic, nic[1] or nic[0:2]", clip(text));
    let Some((name, rest)) = text.split_once('[') else { return Ok((text.trim(), Slice::All)) };
    let inner = rest.trim_end().strip_suffix(']').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let bound = |text: &str| match text.trim() {
        "" => Ok(None),
        text => number(text).map(Some),
    };
    let slice = match inner.split_once(':') {
        Some((from, to)) => Slice::Range(bound(from)?, bound(to)?),
        None => Slice::One(number(inner)?),
    };
    Ok((name.trim(), slice))
}

impl Slice {
    /// The numbers from the first to the one behind the last, of `count`.
    fn within(&self, count: u32, text: &str) -> Result<(u32, u32), String> {
        let (from, to) = match *self {
            Self::All => (0, count),
            Self::One(at) => (at, at.saturating_add(1)),
            Self::Range(from, to) => (from.unwrap_or(0), to.unwrap_or(count)),
        };
        match from < to && to <= count {
            true => Ok((from, to)),
            false => Err(format!("{} is out of range: there are {count}, numbered from 0", clip(text))),
        }
    }
}

/// The number of endpoints of a ring. A list that is given twice counts once.
fn ring_length(from: &Ends, to: &Ends) -> u64 {
    from.len() + if from == to { 0 } else { to.len() }
}

/// The pairs of endpoints that an edge connects.
pub(super) struct Pairs<'e> {
    from: &'e Ends,
    to: &'e Ends,
    scheme: Scheme,
    next: u64,
    count: u64,
}

impl<'e> Pairs<'e> {
    /// Fails if there are more links than a topology may have; `before` is the number of those that exist.
    pub(super) fn new(from: &'e Ends, to: &'e Ends, scheme: Scheme, before: u64) -> Result<Self, String> {
        let count = match scheme {
            Scheme::OneToOne => from.len().min(to.len()),
            Scheme::ManyToMany => from.len().saturating_mul(to.len()),
            Scheme::Ring => match ring_length(from, to) {
                length @ 3.. => length,
                length => length / 2,
            },
        };
        if before.saturating_add(count) > MAX_LINKS {
            return Err(format!("more than {MAX_LINKS} links"));
        }
        Ok(Self { from, to, scheme, next: 0, count })
    }

    /// A note about the endpoints that remain.
    pub(super) fn unused(&self, ends: &[Endpoint; 2]) -> Option<String> {
        let (from, to) = (self.from.len(), self.to.len());
        let longer = match self.scheme == Scheme::OneToOne && from != to {
            true => &ends[usize::from(to > from)],
            false => return None,
        };
        let name = [longer.instance.as_str(), longer.component.as_str()].join(" ");
        Some(format!(
            "the shorter list of one2one has {}, so {} of {} have no edge",
            from.min(to),
            from.abs_diff(to),
            clip(name.trim())
        ))
    }
}

impl Iterator for Pairs<'_> {
    type Item = (Place, Place);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            return None;
        }
        let at = self.next;
        self.next += 1;
        Some(match self.scheme {
            Scheme::OneToOne => (self.from.get(at), self.to.get(at)),
            Scheme::ManyToMany => (self.from.get(at / self.to.len()), self.to.get(at % self.to.len())),
            Scheme::Ring => {
                let place = |at: u64| match at.checked_sub(self.from.len()) {
                    None => self.from.get(at),
                    Some(at) => self.to.get(at),
                };
                (place(at), place((at + 1) % ring_length(self.from, self.to)))
            }
        })
    }
}
