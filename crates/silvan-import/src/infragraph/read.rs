//! The contents of a file: devices, links, instances and edges, with texts of endpoints.

use silvan_engine::{Rate, Time};

use super::units::{Dialect, TRANSFERS, current_units};
use super::{ImportError, clip};
use crate::yaml::{Content, Value};

/// Maximum number of components of a device, all kinds together.
const MAX_COMPONENTS: u64 = 65_536;
/// Maximum number of edges of a device, together with those of all devices within.
const MAX_EDGES: usize = 1 << 20;
/// Largest latency of a link in seconds.
const MOST_LATENCY_S: f64 = 1.0;

/// What a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Xpu,
    Nic,
    Port,
    Switch,
    /// Processors, memory and custom components.
    Other,
}

/// The values of `choice` of a component. Older versions call an xpu npu.
pub(super) const CHOICES: [(&str, Kind); 8] = [
    ("custom", Kind::Other),
    ("cpu", Kind::Other),
    ("xpu", Kind::Xpu),
    ("npu", Kind::Xpu),
    ("nic", Kind::Nic),
    ("memory", Kind::Other),
    ("port", Kind::Port),
    ("switch", Kind::Switch),
];
/// The value of `choice` of a component that is a device.
const DEVICE: &str = "device";

/// A component that is not a device, within any number of devices.
#[derive(Clone)]
pub(super) struct Component {
    /// The names and counts of the devices around it, the outer one first, and its own.
    pub levels: Vec<(String, u32)>,
    pub kind: Kind,
    /// Number of these components of a device: the product of all counts.
    pub count: u32,
}

impl Component {
    /// The name of a component, such as `card.3.port.1`.
    pub fn label(&self, index: u32) -> String {
        let mut rest = index;
        let mut parts: Vec<String> = Vec::with_capacity(self.levels.len());
        for (name, count) in self.levels.iter().rev() {
            parts.push(format!("{name}.{}", rest % count));
            rest /= count;
        }
        parts.reverse();
        parts.join(".")
    }
}

/// A component as a file states it.
pub(super) struct Part {
    pub line: usize,
    pub name: String,
    /// `None` for a device.
    pub kind: Option<Kind>,
    pub count: u32,
}

pub(super) struct LinkKind {
    pub name: String,
    pub rate: Option<Rate>,
    pub latency: Option<Time>,
    /// The line of a bandwidth in transfers per second, which are not known to be bits.
    transfers: Option<usize>,
}

/// How an edge connects two lists of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    OneToOne,
    ManyToMany,
    /// Each endpoint of the first list, then of the second one unless it is the same, with the next one, and the last one with
    /// the first.
    Ring,
}

/// An endpoint with slices; `instance` is empty within a device. The component follows the devices around it, such as
/// `card[0:2].port`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub instance: String,
    pub component: String,
}

#[derive(Clone)]
pub(super) struct Edge {
    pub line: usize,
    pub ends: [Endpoint; 2],
    pub scheme: Scheme,
    pub link: String,
}

/// An endpoint: instance and its number, component and its number.
pub(super) type Place = (u32, u32, u32, u32);

/// A pair of endpoints with an edge, as older dialects state them.
#[derive(Clone, Copy)]
pub(super) struct Connection {
    pub line: usize,
    pub ends: [Place; 2],
    /// Index into the links of the device or network.
    pub link: u32,
}

pub(super) struct Device {
    pub line: usize,
    pub name: String,
    /// Also those of devices within.
    pub components: Vec<Component>,
    /// Whether there are devices within.
    pub is_nested: bool,
    pub links: Vec<LinkKind>,
    /// Edges of this device and of each device within, with the index of the device in the file whose links they use. Their
    /// endpoints refer to this device.
    pub edges: Vec<(usize, Edge)>,
    /// Edges of a file in an older dialect. The instance of their endpoints is 0.
    pub connections: Vec<Connection>,
}

/// A device as a file states it.
pub(super) struct PlainDevice {
    pub line: usize,
    pub name: String,
    pub parts: Vec<Part>,
    pub links: Vec<LinkKind>,
    pub edges: Vec<Edge>,
    pub connections: Vec<Connection>,
}

impl Device {
    /// Number of components of a kind.
    pub(super) fn count(&self, kind: Kind) -> u64 {
        let own = self.components.iter().filter(|component| component.kind == kind);
        own.map(|component| u64::from(component.count)).sum()
    }

    /// Whether instances are switches.
    pub(super) fn is_switch(&self) -> bool {
        let has = |kind: Kind| self.count(kind) > 0;
        !has(Kind::Nic) && !has(Kind::Xpu) && (has(Kind::Port) || has(Kind::Switch))
    }
}

pub(super) struct Instance {
    pub line: usize,
    pub name: String,
    /// Index into [`Infrastructure::devices`].
    pub device: usize,
    pub count: u32,
}

pub(super) struct Infrastructure {
    pub name: String,
    pub devices: Vec<Device>,
    pub links: Vec<LinkKind>,
    pub instances: Vec<Instance>,
    pub edges: Vec<Edge>,
    /// Edges of a file in an older dialect.
    pub connections: Vec<Connection>,
}

/// Keys of older dialects, and what replaces them.
const OLDER: [(&str, &str); 6] = [
    ("infrastructure", "its content at the top of the file"),
    ("connections", "edges with ep1, ep2, scheme and link"),
    ("many2many", "scheme"),
    ("type", "choice"),
    ("external", "nothing: edges state which components have links"),
    ("bandwidth", "physical.bandwidth with a choice"),
];

/// Keys of the current dialect, and what replaces them in older ones.
const NEWER: [(&str, &str); 3] = [
    ("edges", "connections, such as host.0.nic.0.LINK.leaf.0.port.1"),
    ("choice", "type"),
    ("scheme", "a connection for each pair"),
];

/// Reads a file in the current dialect. Also returns notes.
pub(super) fn infrastructure(
    root: &Value,
    origin: &str,
) -> Result<(Infrastructure, Vec<String>), ImportError> {
    let reader = Reader { origin, dialect: Dialect::Current };
    let known = ["name", "description", "devices", "links", "instances", "edges", "annotations"];
    let top = reader.table(root, "an infrastructure", &known)?;
    let mut notes = Vec::new();
    if let Some(annotations) = top.get("annotations") {
        notes.push(format!("not used: annotations in line {}", annotations.line));
    }
    let plain =
        top.list("devices")?.iter().map(|value| reader.device(value)).collect::<Result<Vec<_>, _>>()?;
    let devices = reader.devices(plain, &mut notes)?;
    let instances = top.list("instances")?.iter().map(|value| reader.instance(value, &devices));
    let instances = instances.collect::<Result<Vec<_>, _>>()?;
    reader.distinct(&instances, |instance| (instance.name.as_str(), instance.line))?;
    let links = top.list("links")?.iter().map(|value| reader.link(value, true)).collect::<Result<_, _>>()?;
    let edges = top.list("edges")?.iter().map(|value| reader.edge(value, true)).collect::<Result<_, _>>()?;
    let name = top.get("name").map_or(Ok(""), |value| reader.text(value, "name"))?.to_owned();
    Ok((Infrastructure { name, devices, links, instances, edges, connections: Vec::new() }, notes))
}

/// The components and edges of a device, see [`Device`].
type Contents = (Vec<Component>, Vec<(usize, Edge)>);

/// Whether a value is a table with a choice and its value.
fn has_choice(value: &Value, choice: &str) -> bool {
    let Content::Table(entries) = &value.content else { return false };
    let is_chosen = |value: &Value| matches!(&value.content, Content::Text(text) if text.as_ref() == choice);
    let has = |wanted: &str| entries.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    has("choice").is_some_and(is_chosen) && has(choice).is_some()
}

/// Adds the contents of the devices within a device to its own.
struct Expansion<'d, 'o> {
    reader: Reader<'o>,
    plain: &'d [PlainDevice],
    of: usize,
}

impl Expansion<'_, '_> {
    fn device(&self) -> Result<Contents, ImportError> {
        let (mut components, mut edges, mut total) = (Vec::new(), Vec::new(), 0);
        self.add(&mut vec![self.of], &[], &mut components, &mut total)?;
        self.add_edges(self.of, "", &mut edges)?;
        Ok((components, edges))
    }

    /// Adds the components of the innermost of some devices. `around` has the names and counts of devices, except the outermost
    /// one.
    fn add(
        &self,
        inside: &mut Vec<usize>,
        around: &[(String, u32)],
        components: &mut Vec<Component>,
        total: &mut u64,
    ) -> Result<(), ImportError> {
        let device = &self.plain[inside[inside.len() - 1]];
        let copies: u64 = around.iter().map(|(_, count)| u64::from(*count)).product();
        for part in &device.parts {
            let count = copies.saturating_mul(u64::from(part.count));
            *total = total.saturating_add(count);
            if *total > MAX_COMPONENTS {
                let outer = &self.plain[self.of];
                let what = format!("device {} has more than {MAX_COMPONENTS} components", clip(&outer.name));
                return Err(self.reader.wrong(outer.line, what));
            }
            let levels: Vec<(String, u32)> =
                around.iter().cloned().chain([(part.name.clone(), part.count)]).collect();
            if let Some(kind) = part.kind {
                components.push(Component { levels, kind, count: count as u32 });
                continue;
            }
            let within = self.plain.iter().position(|known| known.name == part.name);
            let within = within.ok_or_else(|| {
                let what = format!(
                    "component {} is a device, but there is no device of this name",
                    clip(&part.name)
                );
                self.reader.wrong(part.line, what)
            })?;
            if inside.contains(&within) {
                let what = format!("device {} contains itself", clip(&part.name));
                return Err(self.reader.wrong(part.line, what));
            }
            inside.push(within);
            self.add(inside, &levels, components, total)?;
            inside.pop();
        }
        Ok(())
    }

    /// Adds the edges of a device whose components have a prefix in the outermost one, and of the devices within. There are not
    /// more devices than components.
    fn add_edges(
        &self,
        device: usize,
        prefix: &str,
        edges: &mut Vec<(usize, Edge)>,
    ) -> Result<(), ImportError> {
        let PlainDevice { edges: own, parts, .. } = &self.plain[device];
        if edges.len() + own.len() > MAX_EDGES {
            let outer = &self.plain[self.of];
            let what = format!(
                "device {} has more than {MAX_EDGES} edges with those of devices within",
                clip(&outer.name)
            );
            return Err(self.reader.wrong(outer.line, what));
        }
        let named =
            |end: &Endpoint| Endpoint { component: format!("{prefix}{}", end.component), ..end.clone() };
        let prefixed = |edge: &Edge| (device, Edge { ends: edge.ends.each_ref().map(named), ..edge.clone() });
        edges.extend(own.iter().map(prefixed));
        for part in parts.iter().filter(|part| part.kind.is_none()) {
            let Some(within) = self.plain.iter().position(|known| known.name == part.name) else { continue };
            for index in 0..part.count {
                self.add_edges(within, &format!("{prefix}{}[{index}].", part.name), edges)?;
            }
        }
        Ok(())
    }
}

/// Reads values of a file.
#[derive(Clone, Copy)]
pub(super) struct Reader<'o> {
    pub origin: &'o str,
    pub dialect: Dialect,
}

/// A table with known keys.
pub(super) struct Table<'v, 't, 'o> {
    reader: Reader<'o>,
    what: &'static str,
    value: &'v Value<'t>,
}

impl<'v, 't> Table<'v, 't, '_> {
    pub(super) fn get(&self, key: &str) -> Option<&'v Value<'t>> {
        let Content::Table(entries) = &self.value.content else { return None };
        entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(super) fn line(&self) -> usize {
        self.value.line
    }

    fn need(&self, key: &str) -> Result<&'v Value<'t>, ImportError> {
        let missing = || self.reader.wrong(self.value.line, format!("{} lacks the key {key}", self.what));
        self.get(key).ok_or_else(missing)
    }

    pub(super) fn text(&self, key: &str) -> Result<&'v str, ImportError> {
        self.reader.text(self.need(key)?, key)
    }

    /// The items of a list; none if the key is missing or its value is empty.
    pub(super) fn list(&self, key: &str) -> Result<&'v [Value<'t>], ImportError> {
        match self.get(key).map(|value| (value, &value.content)) {
            None => Ok(&[]),
            Some((_, Content::List(list))) => Ok(list),
            Some((_, Content::Text(text))) if text.is_empty() => Ok(&[]),
            Some((value, _)) => Err(self.reader.wrong(value.line, format!("{key} must be a list"))),
        }
    }

    pub(super) fn count(&self) -> Result<u32, ImportError> {
        let value = self.need("count")?;
        let text = self.reader.text(value, "count")?;
        text.parse::<u32>().ok().filter(|&count| count > 0).ok_or_else(|| {
            self.reader.wrong(value.line, format!("count is {}; must be a number of at least 1", clip(text)))
        })
    }
}

impl<'o> Reader<'o> {
    pub(super) fn wrong(self, line: usize, what: impl Into<String>) -> ImportError {
        ImportError::at(self.origin, line, what)
    }

    /// Checks that a value is a table with known keys. `what` names it in messages.
    pub(super) fn table<'v, 't>(
        self,
        value: &'v Value<'t>,
        what: &'static str,
        known: &[&str],
    ) -> Result<Table<'v, 't, 'o>, ImportError> {
        let Content::Table(entries) = &value.content else {
            return Err(self.wrong(value.line, format!("{what} must be a table of keys and values")));
        };
        for (key, value) in entries {
            if known.contains(&key.as_ref()) {
                continue;
            }
            let (others, dialect) = match self.dialect {
                Dialect::Current => (&OLDER[..], "an older dialect"),
                Dialect::Older => (&NEWER[..], "the current dialect"),
            };
            if let Some((_, instead)) = others.iter().find(|(other, _)| other == key) {
                let what = format!("`{key}` belongs to {dialect} of InfraGraph; instead, write {instead}");
                return Err(self.wrong(value.line, what));
            }
            let what = format!("{} is no key of {what}; known: {}", clip(key), known.join(", "));
            return Err(self.wrong(value.line, what));
        }
        Ok(Table { reader: self, what, value })
    }

    pub(super) fn text<'v>(self, value: &'v Value, key: &str) -> Result<&'v str, ImportError> {
        match &value.content {
            Content::Text(text) => Ok(text),
            _ => Err(self.wrong(value.line, format!("{key} must be a text or number"))),
        }
    }

    pub(super) fn distinct<'t, T>(
        self,
        list: &'t [T],
        of: impl Fn(&'t T) -> (&'t str, usize),
    ) -> Result<(), ImportError> {
        let mut names: Vec<_> = list.iter().map(of).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => {
                let what = format!("the name {} is already used in line {}", clip(pair[0].0), pair[0].1);
                Err(self.wrong(pair[1].1, what))
            }
        }
    }

    /// The devices of a file, with the contents of those within.
    pub(super) fn devices(
        self,
        plain: Vec<PlainDevice>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Device>, ImportError> {
        self.distinct(&plain, |device| (device.name.as_str(), device.line))?;
        let transfers = plain.iter().flat_map(|device| &device.links).find(|link| link.transfers.is_some());
        if let Some(LinkKind { name, transfers: Some(line), .. }) = transfers {
            notes.push(format!(
                "not used: bandwidths of links within devices in {TRANSFERS}, which states no number of lanes, such as that of {} in \
                 line {line}",
                clip(name)
            ));
        }
        let expanded = (0..plain.len()).map(|at| Expansion { reader: self, plain: &plain, of: at }.device());
        let expanded = expanded.collect::<Result<Vec<_>, _>>()?;
        let own = plain.into_iter().zip(expanded).map(|(plain, (components, edges))| {
            let PlainDevice { line, name, links, parts, connections, .. } = plain;
            let is_nested = parts.iter().any(|part| part.kind.is_none());
            Device { line, name, components, is_nested, links, edges, connections }
        });
        Ok(own.collect())
    }

    fn device(self, value: &Value) -> Result<PlainDevice, ImportError> {
        let table =
            self.table(value, "a device", &["name", "description", "components", "links", "edges"])?;
        let name = table.text("name")?.to_owned();
        let parts = table.list("components")?.iter().map(|value| self.component(value));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.distinct(&parts, |part| (part.name.as_str(), value.line))?;
        let links =
            table.list("links")?.iter().map(|value| self.link(value, false)).collect::<Result<_, _>>()?;
        let edges =
            table.list("edges")?.iter().map(|value| self.edge(value, false)).collect::<Result<_, _>>()?;
        Ok(PlainDevice { line: value.line, name, parts, links, edges, connections: Vec::new() })
    }

    fn component(self, value: &Value) -> Result<Part, ImportError> {
        // The table of a choice contains nothing but the type of a custom component.
        let own = ["name", "description", "count", "choice", DEVICE];
        let known: Vec<&str> = own.into_iter().chain(CHOICES.iter().map(|(name, _)| *name)).collect();
        let table = self.table(value, "a component", &known)?;
        for (choice, _) in CHOICES {
            if let Some(of_choice) = table.get(choice) {
                self.table(
                    of_choice,
                    "the table of a choice",
                    if choice == "custom" { &["type"] } else { &[] },
                )?;
            }
        }
        let choice = table.text("choice")?;
        let known = CHOICES.iter().find(|(name, _)| *name == choice).map(|(_, kind)| *kind);
        if known.is_none() && choice != DEVICE {
            let names: Vec<&str> = CHOICES.iter().map(|(name, _)| *name).chain([DEVICE]).collect();
            let what = format!("the choice is {}; must be one of {}", clip(choice), names.join(", "));
            return Err(self.wrong(value.line, what));
        }
        let name = table.text("name")?.to_owned();
        if name.contains(['.', '[', ']']) {
            let what = format!(
                "the name {} contains a dot or bracket, which divide the parts of endpoints",
                clip(&name)
            );
            return Err(self.wrong(value.line, what));
        }
        Ok(Part { line: value.line, name, kind: known, count: table.count()? })
    }

    fn instance(self, value: &Value, devices: &[Device]) -> Result<Instance, ImportError> {
        let table = self.table(value, "an instance", &["name", "description", "device", "count"])?;
        let device = table.text("device")?;
        let known = devices.iter().position(|known| known.name == device);
        let known =
            known.ok_or_else(|| self.wrong(value.line, format!("there is no device {}", clip(device))))?;
        let name = table.text("name")?.to_owned();
        Ok(Instance { line: value.line, name, device: known, count: table.count()? })
    }

    /// Reads a link of the network or within a device.
    pub(super) fn link(self, value: &Value, is_network: bool) -> Result<LinkKind, ImportError> {
        let known = ["name", "description", "physical", "bandwidth", "latency"];
        let known = if self.dialect == Dialect::Older { &known[..] } else { &known[..3] };
        let table = self.table(value, "a link", known)?;
        let name = table.text("name")?.to_owned();
        let physical = table.get("physical");
        let physical = physical.map(|value| self.table(value, "physical", &["bandwidth", "latency"]));
        let physical = physical.transpose()?;
        // In older dialects, a quantity can be a key of the link.
        let quantity =
            |key: &str| match (table.get(key), physical.as_ref().and_then(|physical| physical.get(key))) {
                (Some(own), Some(_)) => Err(self.wrong(own.line, format!("{key} is given twice"))),
                (own, within) => Ok(own.or(within).map(|value| current_units(value, self.dialect))),
            };
        let bandwidth = quantity("bandwidth")?;
        let bandwidth = bandwidth.as_deref();
        let transfers =
            bandwidth.filter(|value| !is_network && has_choice(value, TRANSFERS)).map(|value| value.line);
        let in_bits = bandwidth.filter(|_| transfers.is_none());
        let rate = in_bits.map(|value| self.rate(value)).transpose()?.flatten();
        let latency = quantity("latency")?;
        let latency = latency.as_deref().map(|value| self.latency(value)).transpose()?.flatten();
        Ok(LinkKind { name, rate, latency, transfers })
    }

    /// A quantity: a choice among a list of units with factors, and its number. `None` if there is a choice only, as the package
    /// of InfraGraph writes for quantities that are not given.
    fn quantity(
        self,
        value: &Value,
        what: &'static str,
        units: &[(&str, f64)],
    ) -> Result<Option<f64>, ImportError> {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        let known = ["choice", TRANSFERS].into_iter().chain(names.iter().copied());
        let table = self.table(value, what, &known.collect::<Vec<_>>())?;
        let choice = table.text("choice")?;
        let is_given = names.iter().chain([&TRANSFERS]).any(|unit| table.get(unit).is_some());
        let is_known = choice == TRANSFERS || names.contains(&choice);
        if is_known && !is_given {
            return Ok(None);
        }
        if choice == TRANSFERS {
            let what = "gigatransfers_per_second states no number of lanes; use gigabytes_per_second";
            return Err(self.wrong(value.line, what));
        }
        let (_, factor) = units.iter().find(|(name, _)| *name == choice).ok_or_else(|| {
            let what = format!("the choice of {what} is {}; must be {}", clip(choice), names.join(" or "));
            self.wrong(value.line, what)
        })?;
        let text = table.text(choice)?;
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let number = number.ok_or_else(|| {
            self.wrong(value.line, format!("{choice} is {}; must be a number of more than 0", clip(text)))
        })?;
        Ok(Some(number * factor))
    }

    fn rate(self, value: &Value) -> Result<Option<Rate>, ImportError> {
        let units = [("gigabits_per_second", 1e9), ("gigabytes_per_second", 8e9)];
        let Some(rate) = self.quantity(value, "bandwidth", &units)?.map(f64::round) else { return Ok(None) };
        match (1e3..1e18).contains(&rate) {
            true => Ok(Some(Rate(rate as u64))),
            false => Err(self.wrong(value.line, "the bandwidth must be 1 kbit/s to 1 Ebit/s")),
        }
    }

    fn latency(self, value: &Value) -> Result<Option<Time>, ImportError> {
        let units = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
        let Some(seconds) = self.quantity(value, "latency", &units)? else { return Ok(None) };
        let latency = (seconds.min(2.0 * MOST_LATENCY_S) * 1e12).round();
        match (1.0..=MOST_LATENCY_S * 1e12).contains(&latency) {
            true => Ok(Some(Time(latency as u64))),
            false => Err(self.wrong(value.line, "the latency must be 1 ps to 1 s")),
        }
    }

    fn edge(self, value: &Value, is_network: bool) -> Result<Edge, ImportError> {
        let table = self.table(value, "an edge", &["ep1", "ep2", "scheme", "link"])?;
        let scheme = match table.text("scheme")? {
            "one2one" => Scheme::OneToOne,
            "many2many" => Scheme::ManyToMany,
            "ring" => Scheme::Ring,
            other => {
                let what = format!("the scheme is {}; must be one2one, many2many or ring", clip(other));
                return Err(self.wrong(value.line, what));
            }
        };
        let end = |key: &str| self.endpoint(table.need(key)?, is_network);
        let ends = [end("ep1")?, end("ep2")?];
        Ok(Edge { line: value.line, ends, scheme, link: table.text("link")?.to_owned() })
    }

    fn endpoint(self, value: &Value, is_network: bool) -> Result<Endpoint, ImportError> {
        let table = self.table(value, "an endpoint", &["instance", "device", "component"])?;
        let instance = match (table.get("instance"), is_network) {
            (None, false) => "",
            (Some(_), false) => {
                let what = "the endpoint names an instance; an edge within a device has components only";
                return Err(self.wrong(value.line, what));
            }
            (_, true) => table.text("instance")?,
        };
        // The devices around the component are a part of its text, or a text of their own.
        let component = table.text("component")?;
        let component = match table.get(DEVICE) {
            None => component.to_owned(),
            Some(device) => format!("{}.{component}", self.text(device, DEVICE)?),
        };
        Ok(Endpoint { instance: instance.to_owned(), component })
    }
}
