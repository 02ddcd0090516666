//! The links between ranks of a host, from the edges within devices.

use std::collections::HashSet;

use silvan_engine::{Rate, Time};
use silvan_network::traffic::InnerLinks;

use super::edges::{Ends, Pairs};
use super::read::{Device, Kind, LinkKind, Place};
use super::{ImportError, clip};

/// Maximum number of links of different names that the edges of a device have, together with those of devices within.
const MAX_CLASSES: usize = 256;

/// A kind of link of the xpu components of a device.
struct Class<'d> {
    link: &'d LinkKind,
    /// Number of links of each xpu component.
    links: Vec<u32>,
    /// Whether links connect xpu components directly.
    is_direct: bool,
}

/// The links between ranks, which must be the same for all hosts. `None` if there are none with a bandwidth.
pub(super) fn links(
    devices: &[Device],
    hosts: &[&Device],
    origin: &str,
    notes: &mut Vec<String>,
) -> Result<Option<InnerLinks>, ImportError> {
    let mut known: Option<(&Device, Option<InnerLinks>)> = None;
    let mut seen = HashSet::new();
    for &device in hosts {
        if device.count(Kind::Xpu) < 2 || !seen.insert(&device.name) {
            continue;
        }
        let own = of_device(devices, device, origin, notes)?;
        match &known {
            None => known = Some((device, own)),
            Some((_, inner)) if *inner == own => {}
            Some((other, _)) => {
                let what = format!(
                    "the links of xpu components of {} differ from those of {}; those of all hosts must be equal",
                    clip(&device.name),
                    clip(&other.name)
                );
                return Err(ImportError::at(origin, device.line, what));
            }
        }
    }
    Ok(known.and_then(|(_, inner)| inner))
}

fn of_device(
    devices: &[Device],
    device: &Device,
    origin: &str,
    notes: &mut Vec<String>,
) -> Result<Option<InnerLinks>, ImportError> {
    let classes = classes(devices, device, origin)?;
    let of = |class: &Class| {
        let sum = class.link.rate.map(|rate| rate.0.saturating_mul(u64::from(class.links[0])));
        sum.filter(|&sum| sum > 0)
    };
    let best = classes.iter().filter_map(|class| Some((of(class)?, class))).max_by_key(|(sum, _)| *sum);
    let Some((sum, class)) = best else {
        notes.push(format!(
            "the links of xpu components in {} have no bandwidth, so messages within a host are copied (job.memory_rate)",
            clip(&device.name)
        ));
        return Ok(None);
    };
    let differs = |links: &u32| *links != class.links[0];
    if let Some(at) = class.links.iter().position(differs) {
        let what = format!(
            "the xpu components 0 and {at} of {} have {} and {} links {}; those of all must be equal",
            clip(&device.name),
            class.links[0],
            class.links[at],
            clip(&class.link.name)
        );
        return Err(ImportError::at(origin, device.line, what));
    }
    let hops = if class.is_direct { 1 } else { 2 };
    let latency = class.link.latency.map_or(Time::ZERO, |latency| Time(latency.0.saturating_mul(hops)));
    notes.push(format!(
        "messages within {} use its links {}, {} of each xpu component",
        clip(&device.name),
        clip(&class.link.name),
        Rate(sum)
    ));
    Ok(Some(InnerLinks { rate: Rate(sum), latency }))
}

/// The kinds of links of the xpu components of a device, and of the devices within.
fn classes<'d>(
    devices: &'d [Device],
    device: &'d Device,
    origin: &str,
) -> Result<Vec<Class<'d>>, ImportError> {
    // The number of the first xpu of each component.
    let mut first = Vec::with_capacity(device.components.len());
    let mut count = 0;
    for one in &device.components {
        first.push(count);
        count += if one.kind == Kind::Xpu { one.count } else { 0 };
    }
    let xpu = |(_, _, component, index): Place| {
        let is_xpu = device.components[component as usize].kind == Kind::Xpu;
        is_xpu.then(|| first[component as usize] + index)
    };
    let mut classes: Vec<Class> = Vec::new();
    let class_of = |classes: &mut Vec<Class<'d>>, link: &'d LinkKind, line: usize| {
        if let Some(known) = classes.iter().position(|class| std::ptr::eq(class.link, link)) {
            return Ok(known);
        }
        if classes.len() == MAX_CLASSES {
            let name = clip(&device.name);
            let what = format!("the edges of device {name} have links of more than {MAX_CLASSES} names");
            return Err(ImportError::at(origin, line, what));
        }
        classes.push(Class { link, links: vec![0; count as usize], is_direct: false });
        Ok(classes.len() - 1)
    };
    let count_link = |class: &mut Class, one: Place, other: Place| {
        let both = [xpu(one), xpu(other)];
        class.is_direct |= both.iter().all(Option::is_some);
        both.into_iter().flatten().for_each(|at| class.links[at as usize] += 1);
    };
    let mut pairs = 0;
    for (owner, edge) in &device.edges {
        let owner = &devices[*owner];
        let wrong = |what: String| ImportError::at(origin, edge.line, what);
        let link = owner.links.iter().find(|link| link.name == edge.link);
        let link = link
            .ok_or_else(|| wrong(format!("device {} has no link {}", clip(&owner.name), clip(&edge.link))))?;
        let place = class_of(&mut classes, link, edge.line)?;
        let ends = |side: usize| Ends::of_device(device, &edge.ends[side]).map_err(wrong);
        let (from, to) = (ends(0)?, ends(1)?);
        let mut seen = HashSet::new();
        for (one, other) in Pairs::new(&from, &to, edge.scheme, pairs).map_err(wrong)? {
            pairs += 1;
            // If both lists have the same components, a pair is connected once, and no component with itself.
            if one != other && seen.insert((one.min(other), one.max(other))) {
                count_link(&mut classes[place], one, other);
            }
        }
    }
    for connection in &device.connections {
        let place = class_of(&mut classes, &device.links[connection.link as usize], connection.line)?;
        count_link(&mut classes[place], connection.ends[0], connection.ends[1]);
    }
    Ok(classes)
}
