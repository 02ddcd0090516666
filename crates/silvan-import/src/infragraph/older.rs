//! Older dialects of InfraGraph, of files up to September 2025.
//!
//! ```text
//! infrastructure:            # optional; otherwise its content is at the top
//!   devices:
//!   - name: server
//!     components: [{name: gpu, type: xpu, count: 2}, {name: nic, type: nic, external: true}]
//!     links: [{name: bus, bandwidth: {giga_bytes_per_second: 32}}]
//!     connections: [gpu.0.bus.nic.0, gpu.1.bus.nic.1]
//!   ...
//!   instances: [{name: host, device: server}, ...]
//!   links: [{name: cable, bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}}]
//!   connections: [host.0.nic.0.cable.leaf.0.port.3, ...]
//! ```
//!
//! - A connection consists of a component and its number, a link, and a component and its number. In the network, instances and
//!   their numbers precede the components. Each number without a count extends its component or instance.
//! - Ports of switches have the type `nic`. A device with `nic` and `custom` components, but without processors (`xpu`, `npu`,
//!   `cpu`) and ports, is a switch. A note states so.
//! - Bandwidths and latencies are keys of links, or of their `physical`.

use std::collections::HashMap;

use silvan_network::topology::MAX_LINKS;

use super::read::{
    CHOICES, Connection, Device, Infrastructure, Instance, Kind, LinkKind, Part, PlainDevice, Reader, Table,
};
use super::units::Dialect;
use super::{ImportError, clip};
use crate::yaml::{Content, Value};

/// The key of the whole content of a file.
const WHOLE: &str = "infrastructure";
/// Parts of a connection of the network.
const PARTS: [&str; 9] =
    ["instance", "number", "component", "number", "link", "instance", "number", "component", "number"];
/// Parts of a connection within a device.
const INNER: &[&str; 5] = &["component", "number", "link", "component", "number"];

/// Whether a file is in an older dialect.
pub(super) fn is_older(root: &Value) -> bool {
    let Content::Table(entries) = &root.content else { return false };
    entries.iter().any(|(key, _)| key == WHOLE || key == "connections")
}

/// Components of a device or instances, of which connections state the numbers.
#[derive(Default)]
struct Numbered<'v> {
    by_name: HashMap<&'v str, u32>,
    /// The stated count of each, and the largest number so far plus one.
    counts: Vec<(Option<u32>, u32)>,
}

impl<'v> Numbered<'v> {
    fn add(&mut self, name: &'v str, count: Option<u32>) {
        self.by_name.entry(name).or_insert(self.counts.len() as u32);
        self.counts.push((count, 0));
    }

    /// The count of each; 1 if there is neither a count nor a connection.
    fn counts(&self) -> impl Iterator<Item = u32> {
        self.counts.iter().map(|&(stated, used)| stated.unwrap_or(used.max(1)))
    }

    /// The place in the list, and the number. `missing` is the message for an unknown name.
    fn find(&mut self, name: &str, number: &str, missing: impl Fn() -> String) -> Result<(u32, u32), String> {
        let at = *self.by_name.get(name).ok_or_else(missing)?;
        let parsed = number.parse::<u32>().ok().filter(|&number| number < u32::MAX);
        let parsed = parsed.ok_or_else(|| format!("{} must be a number from 0 on", clip(number)))?;
        let (stated, used) = &mut self.counts[at as usize];
        if let Some(count) = stated.filter(|&count| parsed >= count) {
            let whole = format!("{name}.{number}");
            return Err(format!("{} is out of range: there are {count}, numbered from 0", clip(&whole)));
        }
        *used = (*used).max(parsed + 1);
        Ok((at, parsed))
    }

    /// The component of a device, and its number.
    fn of_device(&mut self, device: &str, name: &str, number: &str) -> Result<(u32, u32), String> {
        self.find(name, number, || format!("device {} has no component {}", clip(device), clip(name)))
    }
}

/// Reads an infrastructure. Also returns notes.
pub(super) fn infrastructure(
    root: &Value,
    origin: &str,
) -> Result<(Infrastructure, Vec<String>), ImportError> {
    let reader = Reader { origin, dialect: Dialect::Older };
    let known = ["name", "description", "devices", "links", "instances", "connections", "annotations"];
    let whole = match &root.content {
        Content::Table(entries) if entries.iter().any(|(key, _)| key == WHOLE) => {
            let outer = reader.table(root, "a file with the key infrastructure", &[WHOLE])?;
            outer.get(WHOLE).unwrap_or(root)
        }
        _ => root,
    };
    let top = reader.table(whole, "an infrastructure", &known)?;
    let mut notes = Vec::new();
    if let Some(annotations) = top.get("annotations") {
        notes.push(format!("not used: annotations in line {}", annotations.line));
    }
    let drafts = top.list("devices")?.iter().map(|value| Older(reader).device(value));
    let drafts = drafts.collect::<Result<Vec<_>, _>>()?;
    Older(reader).network(&top, drafts, &mut notes).map(|found| (found, notes))
}

/// A device, and its components, whose counts the connections of the network extend.
struct Draft<'v> {
    device: PlainDevice,
    components: Numbered<'v>,
    /// Whether each component is external; empty if the device does not state this.
    external: Vec<bool>,
    /// Whether its components of the type `nic` are ports.
    is_switch: bool,
}

/// A component as a file states it.
struct Stated<'v> {
    line: usize,
    name: &'v str,
    kind: Kind,
    /// The text of the kind.
    choice: &'v str,
    count: Option<u32>,
    is_external: Option<bool>,
}

/// An instance whose count the connections may state.
struct StatedInstance<'v> {
    line: usize,
    name: &'v str,
    device: usize,
    count: Option<u32>,
}

/// Reads values of a file.
#[derive(Clone, Copy)]
struct Older<'o>(Reader<'o>);

impl Older<'_> {
    /// The instances and connections, with devices and links.
    fn network(
        self,
        top: &Table,
        mut drafts: Vec<Draft>,
        notes: &mut Vec<String>,
    ) -> Result<Infrastructure, ImportError> {
        let links = self.links(top, true)?;
        let stated = top.list("instances")?.iter().map(|value| self.instance(value, &drafts));
        let stated = stated.collect::<Result<Vec<_>, _>>()?;
        self.0.distinct(&stated, |instance| (instance.name, instance.line))?;
        let mut numbered = Numbered::default();
        stated.iter().for_each(|instance| numbered.add(instance.name, instance.count));
        let values = top.list("connections")?;
        if let Some(value) = values.get(MAX_LINKS as usize) {
            return Err(self.0.wrong(value.line, format!("more than {MAX_LINKS} links")));
        }
        let by_name = places(&links);
        let (mut connections, mut not_external) = (Vec::with_capacity(values.len()), Vec::new());
        for value in values {
            let parts: [&str; 9] = self.parts(value, &PARTS)?;
            let wrong = |what: String| self.0.wrong(value.line, what);
            let link = by_name.get(parts[4]);
            let link = *link.ok_or_else(|| wrong(format!("there is no link {}", clip(parts[4]))))?;
            let mut end = |from: usize| {
                let missing = || format!("there is no instance {}", clip(parts[from]));
                let (instance, number) = numbered.find(parts[from], parts[from + 1], missing)?;
                let device = stated[instance as usize].device;
                let Draft { components, device: PlainDevice { name, .. }, .. } = &mut drafts[device];
                let (component, index) = components.of_device(name, parts[from + 2], parts[from + 3])?;
                if drafts[device].external.get(component as usize) == Some(&false) {
                    not_external.push((value.line, device, component));
                }
                Ok((instance, number, component, index))
            };
            let ends = [end(0).map_err(wrong)?, end(5).map_err(wrong)?];
            connections.push(Connection { line: value.line, ends, link });
        }
        if let Some(&(line, device, component)) = not_external.first() {
            let PlainDevice { name, parts, .. } = &drafts[device].device;
            notes.push(format!(
                "connections have {} ends that are not external, such as {} of {} in line {line}",
                not_external.len(),
                clip(&parts[component as usize].name),
                clip(name)
            ));
        }
        let counted = stated.iter().zip(numbered.counts());
        let counted = counted.map(|(&StatedInstance { line, name, device, .. }, count)| Instance {
            line,
            name: name.to_owned(),
            device,
            count,
        });
        let instances = counted.collect();
        let devices = self.devices(drafts, notes)?;
        let name = top.get("name").map_or(Ok(""), |value| self.0.text(value, "name"))?.to_owned();
        Ok(Infrastructure { name, devices, links, instances, edges: Vec::new(), connections })
    }

    /// The devices with the counts of their components.
    fn devices(self, drafts: Vec<Draft>, notes: &mut Vec<String>) -> Result<Vec<Device>, ImportError> {
        let mut switches = drafts.iter().filter(|draft| draft.is_switch);
        if let Some(Draft { device: first, .. }) = switches.next() {
            let more = match switches.count() {
                0 => String::new(),
                more => format!(", and {more} more,"),
            };
            notes.push(format!(
                "device {} in line {}{more} without xpu, npu and cpu components is a switch, and its nic components are ports",
                clip(&first.name),
                first.line
            ));
        }
        let plain = drafts.into_iter().map(|Draft { mut device, components, .. }| {
            device.parts.iter_mut().zip(components.counts()).for_each(|(part, count)| part.count = count);
            device
        });
        self.0.devices(plain.collect(), notes)
    }

    fn device<'v>(self, value: &'v Value) -> Result<Draft<'v>, ImportError> {
        let known = ["name", "description", "components", "links", "connections"];
        let table = self.0.table(value, "a device", &known)?;
        let name = table.text("name")?.to_owned();
        let stated = table.list("components")?.iter().map(|value| self.component(value));
        let stated = stated.collect::<Result<Vec<_>, _>>()?;
        self.0.distinct(&stated, |one| (one.name, one.line))?;
        let is_any = |kinds: &[&str]| stated.iter().any(|one| kinds.contains(&one.choice));
        let is_switch =
            is_any(&["nic"]) && is_any(&["custom"]) && !is_any(&["xpu", "npu", "cpu", "port", "switch"]);
        let states_external = stated.iter().any(|one| one.is_external.is_some());
        let external = stated.iter().filter(|_| states_external).map(|one| one.is_external == Some(true));
        let external = external.collect();
        let parts = stated.iter().map(|one| Part {
            line: one.line,
            name: one.name.to_owned(),
            kind: Some(if is_switch && one.kind == Kind::Nic { Kind::Port } else { one.kind }),
            count: 0,
        });
        let parts = parts.collect();
        let mut components = Numbered::default();
        stated.iter().for_each(|one| components.add(one.name, one.count));
        let links = self.links(&table, false)?;
        let connections = self.inner_connections(&table, &name, &links, &mut components)?;
        let device = PlainDevice { line: value.line, name, parts, links, edges: Vec::new(), connections };
        Ok(Draft { device, components, external, is_switch })
    }

    /// The connections within a device.
    fn inner_connections(
        self,
        table: &Table,
        device: &str,
        links: &[LinkKind],
        components: &mut Numbered,
    ) -> Result<Vec<Connection>, ImportError> {
        let by_name = places(links);
        let connection = |value: &Value| {
            let [one, number, link, other, other_number] = self.parts(value, INNER)?;
            let wrong = |what: String| self.0.wrong(value.line, what);
            let at = by_name.get(link).copied();
            let at =
                at.ok_or_else(|| wrong(format!("device {} has no link {}", clip(device), clip(link))))?;
            let mut end = |name, number| components.of_device(device, name, number).map_err(wrong);
            let [one, other] = [end(one, number)?, end(other, other_number)?];
            if one == other {
                return Err(wrong("connects a component with itself".to_owned()));
            }
            Ok(Connection {
                line: value.line,
                ends: [one, other].map(|(at, index)| (0, 0, at, index)),
                link: at,
            })
        };
        table.list("connections")?.iter().map(connection).collect()
    }

    fn component<'v>(self, value: &'v Value) -> Result<Stated<'v>, ImportError> {
        let known = ["name", "description", "type", "count", "external", "components"];
        let table = self.0.table(value, "a component", &known)?;
        if let Some(within) = table.get("components") {
            let what = "components within a component are not read; list them with those of the device";
            return Err(self.0.wrong(within.line, what));
        }
        let choice = table.text("type")?;
        let kind = CHOICES.iter().find(|(name, _)| *name == choice).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| {
            let names: Vec<&str> = CHOICES.iter().map(|(name, _)| *name).collect();
            self.0.wrong(
                value.line,
                format!("the type is {}; must be one of {}", clip(choice), names.join(", ")),
            )
        })?;
        let is_external =
            match table.get("external").map(|value| self.0.text(value, "external")).transpose()? {
                None => None,
                Some("true") => Some(true),
                Some("false") => Some(false),
                Some(other) => {
                    let what = format!("external is {}; must be true or false", clip(other));
                    return Err(self.0.wrong(value.line, what));
                }
            };
        let count = self.count(&table)?;
        Ok(Stated { line: value.line, name: self.name(&table)?, kind, choice, count, is_external })
    }

    fn instance<'v>(self, value: &'v Value, drafts: &[Draft]) -> Result<StatedInstance<'v>, ImportError> {
        let table = self.0.table(value, "an instance", &["name", "description", "device", "count"])?;
        let device = table.text("device")?;
        let known = drafts.iter().position(|draft| draft.device.name == device);
        let known =
            known.ok_or_else(|| self.0.wrong(value.line, format!("there is no device {}", clip(device))))?;
        let count = self.count(&table)?;
        Ok(StatedInstance { line: value.line, name: self.name(&table)?, device: known, count })
    }

    fn links(self, table: &Table, is_network: bool) -> Result<Vec<LinkKind>, ImportError> {
        let links = table.list("links")?.iter().map(|value| {
            let link = self.0.link(value, is_network)?;
            self.without_dots(&link.name, value.line)?;
            Ok((link, value.line))
        });
        let links = links.collect::<Result<Vec<_>, ImportError>>()?;
        self.0.distinct(&links, |(link, line)| (link.name.as_str(), *line))?;
        Ok(links.into_iter().map(|(link, _)| link).collect())
    }

    /// The count, if it is stated.
    fn count(self, table: &Table) -> Result<Option<u32>, ImportError> {
        table.get("count").map(|_| table.count()).transpose()
    }

    fn name<'v>(self, table: &Table<'v, '_, '_>) -> Result<&'v str, ImportError> {
        let name = table.text("name")?;
        self.without_dots(name, table.line())?;
        Ok(name)
    }

    fn without_dots(self, name: &str, line: usize) -> Result<(), ImportError> {
        match name.contains('.') || name.is_empty() {
            false => Ok(()),
            true => {
                let what =
                    format!("the name {} is empty or contains a dot, which divides connections", clip(name));
                Err(self.0.wrong(line, what))
            }
        }
    }

    /// The parts of a connection.
    fn parts<'v, const COUNT: usize>(
        self,
        value: &'v Value,
        names: &[&str; COUNT],
    ) -> Result<[&'v str; COUNT], ImportError> {
        let text = self.0.text(value, "a connection")?;
        let mut parts = [""; COUNT];
        let mut found = 0;
        for part in text.split('.') {
            if let Some(place) = parts.get_mut(found) {
                *place = part.trim();
            }
            found += 1;
        }
        if found == COUNT {
            return Ok(parts);
        }
        let what = format!(
            "the connection {} has {found} parts; must have {COUNT}: {}",
            clip(text),
            names.join(".")
        );
        Err(self.0.wrong(value.line, what))
    }
}

/// The place of each link by its name.
fn places(links: &[LinkKind]) -> HashMap<&str, u32> {
    links.iter().map(|link| link.name.as_str()).zip(0..).collect()
}

#[cfg(test)]
mod tests;
