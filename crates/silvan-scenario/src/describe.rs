//! Converts networks, samples and results to JSON, for displays of a run. Nodes are numbered: first the hosts, then the
//! switches.

use serde_json::{Map, Value, json};
use silvan_fabric::outcome::{Outcome, Table, Values};
use silvan_fabric::simulation::{Latest, Simulation};
use silvan_network::topology::{NodeRef, Topology};

use crate::Scenario;

/// Highest level of utilization in a sample; the lowest is 0.
const SHADES: f64 = 15.0;

/// The network of a scenario, and the quantities that its run records.
///
/// # Errors
/// If the JSON cannot be written.
pub fn network(scenario: &Scenario, topology: &Topology, simulation: &Simulation) -> Result<String, String> {
    let hosts = topology.hosts.len() as u32;
    let node = |node: NodeRef| match node {
        NodeRef::Host(index) => index,
        NodeRef::Switch(index) => hosts + index,
    };
    let name = |end: silvan_network::topology::End| match end.node {
        NodeRef::Host(_) => topology.name_of(end.node).to_owned(),
        NodeRef::Switch(_) => format!("{}:{}", topology.name_of(end.node), end.port),
    };
    let (mut links, mut source, mut target, mut rate) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for link in &topology.links {
        for (from, to) in link.channels() {
            links.push(format!("{}->{}", name(from), name(to)));
            source.push(node(from.node));
            target.push(node(to.node));
            rate.push(link.rate.0 as f64 / 1e9);
        }
    }
    let of_hosts = topology.hosts.iter().map(|host| host.name.as_str());
    let of_switches = topology.switches.iter().map(|switch| switch.name.as_str());
    let spec = &scenario.spec;
    text(&json!({
        "name": spec.name,
        "topology": topology.name,
        "nodes": of_hosts.chain(of_switches).collect::<Vec<_>>(),
        "hosts": hosts,
        "links": links,
        "source": source,
        "target": target,
        "rate_gbit_s": rate,
        "classes": simulation.class_names().collect::<Vec<_>>(),
        // The named flows are the first classes.
        "flows": spec.flow.len(),
        "interval_ns": spec.measure.interval.0 as f64 / 1e3,
        "duration_ns": spec.duration.0 as f64 / 1e3,
        "notes": scenario.notes,
    }))
}

/// A sample. Each link of a tree is an array of numbers instead of an object, because there may be many links.
///
/// # Errors
/// If the JSON cannot be written.
pub fn sample(latest: &Latest, packet_hops: u64) -> Result<String, String> {
    let shade = |share: &f64| (share * SHADES).round() as u8;
    let trees: Vec<Value> = (latest.trees.iter())
        .map(|tree| {
            json!({
                "tree": tree.tree,
                "root": tree.root,
                "born_ns": tree.born_ns,
                "kind": if tree.is_silent { "silent" } else { "windy" },
                "contributors": tree.contributors,
                "victims": tree.victims,
            })
        })
        .collect();
    let links: Vec<[u32; 8]> = (latest.tree_links.iter())
        .map(|one| {
            let (queued, held) = (one.queued_bytes, one.downstream_bytes);
            [
                one.link,
                one.tree,
                one.waits_for,
                one.depth,
                one.trees,
                queued,
                held,
                u32::from(one.is_isolated),
            ]
        })
        .collect();
    text(&json!({
        "time_ns": latest.time_ns,
        "packet_hops": packet_hops,
        "received_bytes": latest.received_bytes,
        "fecn_marks": latest.fecn_marks,
        "becn_received": latest.becn_received,
        "packets_inside": latest.packets_inside,
        "throttled_flows": latest.throttled_flows,
        "congested_outputs": latest.congested_outputs,
        "host_received_bytes": latest.host_received_bytes,
        "flow_received_bytes": latest.flow_received_bytes,
        "flow_ccti": latest.flow_ccti,
        "utilisation": latest.link_utilisation.iter().map(shade).collect::<Vec<_>>(),
        "class_throughput_gbit_s": latest.class_throughput_gbit_s,
        "class_latency_ns": latest.class_latency_ns,
        "down": latest.links_down,
        "trees": trees,
        // Columns: link, tree, waits_for, depth, trees, queued_bytes, downstream_bytes, isolated.
        "tree_links": links,
    }))
}

/// The results of a run.
///
/// # Errors
/// If the JSON cannot be written.
pub fn results(outcome: &Outcome) -> Result<String, String> {
    let tables: Map<String, Value> =
        outcome.tables.iter().map(|one| (one.name.to_owned(), columns(one))).collect();
    let summary = serde_json::to_value(&outcome.summary).map_err(|error| error.to_string())?;
    text(&json!({
        "summary": summary,
        "tables": tables,
        "account": outcome.account,
        "warnings": outcome.warnings,
    }))
}

fn columns(table: &Table) -> Value {
    let values = |values: &Values| match values {
        Values::U64(numbers) => json!(numbers),
        Values::U32(numbers) => json!(numbers),
        Values::F64(numbers) => json!(numbers),
        Values::Name { codes, names } => {
            let name = |code: &u32| names.get(*code as usize).map(String::as_str).unwrap_or_default();
            json!(codes.iter().map(name).collect::<Vec<_>>())
        }
    };
    let columns = table.columns.iter().map(|column| (column.name.to_owned(), values(&column.values)));
    Value::Object(columns.collect())
}

fn text(value: &Value) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
