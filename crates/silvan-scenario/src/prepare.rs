//! Fills in omitted values before the checks: the `kind` of a congestion component that only adjusts a
//! preset, and the default routing of the topology.

use silvan_congestion::{LinkLayer, Mechanism};
use silvan_fabric::config::Packet;
use toml::{Table, Value};

use crate::error::Fault;
use crate::source::Source;
use crate::validate;

/// Kinds of fat trees, which D-mod-K can route.
pub const FAT_TREES: [&str; 6] = [
    "pgft",
    "k-ary-n-tree",
    "modified-k-ary-n-tree",
    "two-level-fat-tree",
    "three-level-fat-tree",
    "fat-tree-648",
];

/// Fills in omitted values; returns warnings about keys that have no effect.
pub(crate) fn prepare(table: &mut Table, source: &Source) -> Result<Vec<String>, Fault> {
    fill_routing(table);
    fill_duration(table);
    fill_link_layer(table, source);
    let mut notes = fill_components(table, source)?;
    notes.extend(drop_reduction(table, source));
    Ok(notes)
}

/// Removes the settings of reduction units that have no effect because overrides changed the algorithms of jobs, or the
/// jobs. Returns a note for each.
fn drop_reduction(table: &mut Table, source: &Source) -> Vec<String> {
    let mut notes = Vec::new();
    let (mut is_used, mut is_changed) = (false, source.is_overridden("job"));
    let jobs = table.get_mut("job").and_then(Value::as_array_mut);
    for (index, job) in jobs.into_iter().flatten().enumerate() {
        let algorithms = job.get("algorithms").and_then(Value::as_table);
        let in_network = |value: &Value| value.as_str() == Some("in-network");
        if algorithms.is_some_and(|algorithms| algorithms.values().any(in_network)) {
            is_used = true;
            continue;
        }
        let (algorithms, own) = (format!("job.{index}.algorithms"), format!("job.{index}.reduction"));
        let is_other = source.is_overridden("job") || source.is_overridden_within(&algorithms);
        is_changed |= is_other;
        if is_other
            && !source.is_overridden_within(&own)
            && job.as_table_mut().and_then(|job| job.remove("reduction")).is_some()
        {
            notes.push(format!(
                "{own} has no effect: no operation of the job has the algorithm \"in-network\""
            ));
        }
    }
    let is_stale = !is_used && is_changed && !source.is_overridden_within("reduction");
    if is_stale && table.remove("reduction").is_some() {
        notes.push("reduction has no effect: no job has the algorithm \"in-network\"".to_owned());
    }
    notes
}

/// Adds the longest duration to a scenario for a program, which decides itself how long the run takes.
fn fill_duration(table: &mut Table) {
    if table.contains_key("external") {
        table.entry("duration").or_insert_with(|| Value::String("3600 s".to_owned()));
    }
}

fn fill_routing(table: &mut Table) {
    let topology = table.get("topology");
    let kind = topology.and_then(|t| t.get("kind")).and_then(Value::as_str);
    let links = topology.and_then(|t| t.get("links"));
    let one_way = |link: &Value| link.get("one_way").and_then(Value::as_bool) == Some(true);
    let routing = match kind {
        Some("k-ary-n-fly") if links.and_then(Value::as_str) != Some("bidirectional") => "destination-tag",
        Some("k-ary-n-fly") => "d-mod-k",
        Some("custom") if links.and_then(Value::as_array).is_some_and(|all| all.iter().any(one_way)) => {
            "shortest-path"
        }
        Some(kind) if FAT_TREES.contains(&kind) => "d-mod-k",
        Some("torus" | "mesh" | "hyperx") => "dimension-order",
        Some("dragonfly" | "dragonfly-plus") => "minimal",
        _ => "up-down",
    };
    let entry = table.entry("routing").or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(given) = entry {
        given.entry("kind").or_insert_with(|| Value::String(routing.to_owned()));
    }
}

/// Bytes of a packet of RDMA over converged Ethernet in addition to its payload, rounded up from 62: Ethernet 18,
/// IP 20, UDP 8, InfiniBand's transport 16.
const ETHERNET_HEADER: &str = "64 B";

/// Fills in omitted keys for mechanisms for Ethernet except QCN: headers of packets, buffers of 1 MiB per port of
/// switches and hosts, and outputs that serve packets in the order of arrival. Without headers, a payload of 1 byte
/// would occupy a link for 1 byte, but a whole block of a buffer, so the headroom of pause frames would be as many
/// times larger as a block has bytes. Merchant switches have 0.5 to 2 MB per port. Mechanisms for RDMA over
/// converged Ethernet also get pause frames, with shared memory if no key sets the architecture of the switches.
/// Defaults that other settings exclude, such as trimming, are not filled in. If an override turns off the mechanism
/// of the file, the defaults remain, so that runs with and without the mechanism have the same network.
fn fill_link_layer(table: &mut Table, source: &Source) {
    let is_off =
        |mechanism: Option<Mechanism>| mechanism.is_none_or(|mechanism| mechanism == Mechanism::None);
    let mut mechanism = mechanism_of(table);
    if is_off(mechanism) && source.overridden.iter().any(|key| key.starts_with("congestion")) {
        mechanism = written_mechanism(source);
    }
    let Some(mechanism) = mechanism.filter(|mechanism| mechanism.link_layer() == Some(LinkLayer::Ethernet))
    else {
        return;
    };
    // QCN is older than switches with such buffers.
    if mechanism == Mechanism::Qcn {
        return;
    }
    let has = |part: &str, keys: &[&str]| {
        let part = table.get(part).and_then(Value::as_table);
        part.is_some_and(|part| keys.iter().any(|&key| part.contains_key(key)))
    };
    let isolates = has("congestion", &["isolation"]);
    let is_plain = !has("switch", &["arbitration", "architecture", "queues", "memory"]) && !isolates;
    let (trims, has_part) =
        (has("switch", &["trimming"]), has("switch", &["buffer", "queue_buffer", "trimming"]));
    let has_host_buffer = has("host", &["buffer"]) || trims;
    let by_routes = ["paths", "routing"].map(|kind| Some(Value::String(kind.to_owned())));
    let lanes = table.get("lanes").and_then(|lanes| lanes.get("assignment")).cloned();
    let may_pause = !isolates && !trims && !by_routes.contains(&lanes);
    let mut fill = |part: &str, key: &str, value: Value| {
        let part = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(part) = part {
            part.entry(key).or_insert(value);
        }
    };
    let text = |text: &str| Value::String(text.to_owned());
    fill("packet", "header", text(ETHERNET_HEADER));
    if !has_part {
        fill("switch", "buffer", text("1 MiB"));
    }
    if !has_host_buffer {
        fill("host", "buffer", text("1 MiB"));
    }
    if is_plain && !by_routes.contains(&lanes) {
        fill("switch", "arbitration", text("fcfs"));
    }
    if mechanism.is_roce() && may_pause && !table.contains_key("flow_control") {
        let mut pauses = Table::from_iter([("kind".to_owned(), text("pfc"))]);
        if is_plain {
            pauses.insert("shared".to_owned(), Value::Table(Table::new()));
        }
        table.insert("flow_control".to_owned(), Value::Table(pauses));
    }
}

/// The components of a mechanism that have a kind.
const COMPONENTS: [&str; 3] = ["marking", "isolation", "reaction"];
/// Settings that belong to these components.
const ATTACHED: [&str; 6] =
    ["notification", "feedback", "coalescing", "notification_delay", "acknowledge", "hosts"];

/// The mechanism that the file selects, regardless of overrides.
fn written_mechanism(source: &Source) -> Option<Mechanism> {
    mechanism_of(&source.text.parse().ok()?)
}

fn mechanism_of(table: &Table) -> Option<Mechanism> {
    table.get("congestion")?.get("mechanism")?.clone().try_into().ok()
}

fn fill_components(table: &mut Table, source: &Source) -> Result<Vec<String>, Fault> {
    let mut notes = Vec::new();
    // Ignore errors in this table, because later checks report them.
    let packet = table.get("packet").and_then(|packet| packet.clone().try_into().ok());
    let packet = packet.filter(|packet| validate::packet(packet).is_ok()).unwrap_or_default();
    let Some(Value::Table(congestion)) = table.get_mut("congestion") else { return Ok(notes) };
    let presets = presets(congestion, &packet);
    let mechanism = congestion.get("mechanism").and_then(Value::as_str).map(str::to_owned);
    if mechanism.as_deref() == Some("none") {
        return switch_off(congestion, source);
    }
    if let Some(mechanism) = &mechanism {
        notes = leave_out_others(congestion, mechanism, &presets, source);
    }
    let is_ethernet = mechanism_of(table).and_then(Mechanism::link_layer) == Some(LinkLayer::Ethernet);
    let Some(Value::Table(congestion)) = table.get_mut("congestion") else { return Ok(notes) };
    let marks = if is_ethernet { "red" } else { "fecn" };
    for (part, usual) in [("marking", marks), ("isolation", "special-queues"), ("reaction", "cct")] {
        let path = format!("congestion.{part}");
        let Some(Value::Table(given)) = congestion.get_mut(part) else { continue };
        if given.contains_key("kind") {
            // If an override switches a component off, the parameters in the file have no effect.
            let off = given.get("kind").and_then(Value::as_str) == Some("none");
            if off && source.is_overridden(&format!("{path}.kind")) && given.len() > 1 {
                given.retain(|key, _| key == "kind");
                notes.push(format!("{path} is switched off: its parameters have no effect"));
            }
            continue;
        }
        match mechanism.as_deref() {
            // Skip an unknown mechanism, because the schema check reports it.
            Some(_) => {
                let own = presets.get(part).and_then(|own| own.get("kind")).and_then(Value::as_str);
                let kind = own.filter(|&kind| kind != "none").unwrap_or(usual);
                given.insert("kind".to_owned(), Value::String(kind.to_owned()));
                adjust(given, presets.get(part));
            }
            None => {
                let what = "adjusts a mechanism, but congestion.mechanism is not set; set it (\"ib-cc\" on InfiniBand, \"dcqcn\" on \
                            Ethernet), or add a `kind` to this table";
                return Err(Fault::new(path, what));
            }
        }
    }
    fill_hosts(congestion, presets.get("reaction"))?;
    Ok(notes)
}

/// Adds omitted parameters of the reactions of single hosts from the common reaction, unless the reaction of
/// a host has a `kind`.
fn fill_hosts(congestion: &mut Table, preset: Option<&Value>) -> Result<(), Fault> {
    let usual = congestion.get("reaction").or(preset).cloned();
    let kind = usual.as_ref().and_then(|usual| usual.get("kind")?.as_str()).filter(|&kind| kind != "none");
    let Some(Value::Array(settings)) = congestion.get_mut("hosts") else { return Ok(()) };
    for (index, setting) in settings.iter_mut().enumerate() {
        let Some(Value::Table(own)) = setting.get_mut("reaction") else { continue };
        if own.contains_key("kind") {
            continue;
        }
        let Some(kind) = kind else {
            let what =
                "adjusts the reaction of the other hosts, but they have none; add a `kind` to this table";
            return Err(Fault::new(format!("congestion.hosts.{index}.reaction"), what));
        };
        own.insert("kind".to_owned(), Value::String(kind.to_owned()));
        adjust(own, usual.as_ref());
    }
    Ok(())
}

/// Removes components that are given together with `mechanism = "none"`. An override may turn off the
/// components in a file, but a file that contains both is contradictory.
fn switch_off(congestion: &mut Table, source: &Source) -> Result<Vec<String>, Fault> {
    let mut notes = Vec::new();
    for (part, nothing) in [
        ("marking", "none"),
        ("notification", "cnp"),
        ("feedback", "binary"),
        ("coalescing", "none"),
        ("notification_delay", "none"),
        ("acknowledge", "none"),
        ("isolation", "none"),
        ("reaction", "none"),
        ("hosts", "none"),
    ] {
        let is_nothing = match congestion.get(part) {
            None => true,
            Some(Value::Array(hosts)) => hosts.is_empty(),
            Some(Value::Table(given)) => {
                given.len() == 1 && given.get("kind").and_then(Value::as_str) == Some(nothing)
            }
            Some(given) => given.as_str() == Some(nothing),
        };
        if is_nothing {
            continue;
        }
        let path = format!("congestion.{part}");
        if !source.is_overridden("congestion.mechanism") {
            let owner = owner(part, congestion.get(part));
            let what = format!(
                "has no effect together with congestion.mechanism = \"none\", which switches every component off; leave one of \
                 them out, or name the mechanism that the component belongs to ({owner})"
            );
            return Err(Fault::new(path, what));
        }
        congestion.remove(part);
        notes.push(format!("{path} has no effect, because congestion.mechanism is \"none\""));
    }
    Ok(notes)
}

/// Removes the components that belong to the mechanism of the file, if an override selects another one. Returns notes about
/// them.
fn leave_out_others(
    congestion: &mut Table,
    mechanism: &str,
    presets: &Table,
    source: &Source,
) -> Vec<String> {
    let is_written = || written_mechanism(source).is_some_and(|written| written.name() == mechanism);
    if !source.is_overridden("congestion.mechanism") || is_written() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let kind_of = |part: Option<&Value>| part?.get("kind")?.as_str().map(str::to_owned);
    let is_of_file = |part: &str| !source.is_overridden_within(&format!("congestion.{part}"));
    let is_of_other = |part: &&str| {
        let given = kind_of(congestion.get(*part));
        given.is_some() && given != kind_of(presets.get(*part)) && is_of_file(part)
    };
    let others: Vec<&str> = COMPONENTS.into_iter().filter(is_of_other).collect();
    // The other settings belong to the components that are omitted.
    let attached: &[&str] = if others.is_empty() { &[] } else { &ATTACHED };
    for part in others.iter().chain(attached.iter().filter(|part| is_of_file(part))) {
        if congestion.remove(*part).is_some() {
            notes.push(format!(
                "congestion.{part} of the file has no effect, because congestion.mechanism is set to \"{mechanism}\""
            ));
        }
    }
    notes
}

/// The mechanisms that have a component of this kind, or one for each link layer.
fn owner(part: &str, given: Option<&Value>) -> String {
    let kind = given.and_then(|given| given.get("kind")).and_then(Value::as_str);
    let has = |mechanism: &Mechanism| {
        let parts = mechanism.components(&Packet::default());
        let own = match part {
            "marking" => parts.marking.kind(),
            "reaction" => parts.reaction.kind(),
            _ => return false,
        };
        Some(own.as_str()) == kind
    };
    let quoted = |mechanism: Mechanism| format!("\"{}\"", mechanism.name());
    let owners: Vec<String> = Mechanism::ALL.into_iter().filter(has).map(quoted).collect();
    if owners.is_empty() {
        "\"ib-cc\" on InfiniBand, \"dcqcn\" on Ethernet".to_owned()
    } else {
        owners.join(", ")
    }
}

/// The components of the selected mechanism, as they would be written in a file.
fn presets(congestion: &Table, packet: &Packet) -> Table {
    let mechanism = congestion.get("mechanism").cloned().map(Value::try_into::<Mechanism>);
    let Some(Ok(mechanism)) = mechanism else { return Table::new() };
    let parts = mechanism.components(packet);
    let written = [
        ("marking", Value::try_from(parts.marking)),
        ("isolation", Value::try_from(parts.isolation)),
        ("reaction", Value::try_from(parts.reaction)),
    ];
    written.into_iter().filter_map(|(part, value)| Some((part.to_owned(), value.ok()?))).collect()
}

/// Adds omitted parameters of a component from the mechanism's component of the same kind. If a threshold
/// is given in one form, the preset's thresholds in other forms are not added.
fn adjust(given: &mut Table, preset: Option<&Value>) {
    let Some(Value::Table(preset)) = preset else { return };
    if given.get("kind") != preset.get("kind") {
        return;
    }
    let by_weight = given.contains_key("threshold");
    let by_rate = given.contains_key("marking_rate");
    let by_link = given.contains_key("thresholds");
    for (key, value) in preset {
        let moot = match key.as_str() {
            "upper" | "lower" => by_weight || by_link,
            "threshold" | "min" | "max" | "per_rate" | "per_round_trip" => by_link,
            "percent" => by_rate,
            _ => false,
        };
        if !moot && !given.contains_key(key) {
            given.insert(key.clone(), value.clone());
        }
    }
}
