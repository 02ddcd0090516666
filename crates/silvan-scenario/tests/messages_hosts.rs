//! Checks messages about hosts: without a route between them, and in ranges of names.

use std::path::Path;

use crate::common::BASE;
use crate::messages::message;

/// The error message of a run on the fabric of two switches in which swA has no route to node-4, with
/// additional lines.
fn without_route(lines: &str) -> String {
    let fabric = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics/sw2-h7/minhop");
    let dump = std::fs::read_to_string(fabric.join("opensm-lfts.dump")).unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-route.dump");
    let route = "0x0007 008 # Channel Adapter portguid 0x0002c90300000041: 'node-4'\n";
    std::fs::write(&file, dump.replacen(route, "", 1)).unwrap();
    let (topology, file) = (fabric.join("ibnetdiscover.topo"), file.display());
    let text = format!(
        "duration = \"1 us\"\ntopology = {{ kind = \"file\", file = '{}' }}\n\
         routing = {{ kind = \"table\", file = '{file}' }}\n{lines}",
        topology.display()
    );
    message(&text, &[])
}

#[test]
fn hosts_that_exchange_packets_need_routes() {
    let flow = |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    assert_eq!(without_route(&flow("node-0", "node-3")), "fine");
    let hole = "from node-0 to node-4: switch swA has no route to node-4";
    let said = without_route(&flow("node-0", "node-4"));
    assert_eq!(said, format!("a.toml:6: flow.0.to = \"node-4\": {hole}"));
    let said = without_route(&flow("node-4", "node-0"));
    assert_eq!(said, format!("a.toml:6: flow.0.to = \"node-0\": {hole}"), "the answers have no route");
    let hotspots = |to: &str| {
        let pattern = format!("pattern = {{ kind = \"hotspots\", to = [\"{to}\"] }}");
        without_route(&format!("[[traffic]]\nhosts = [\"node-0\"]\n{pattern}\n"))
    };
    let said = hotspots("node-4");
    assert_eq!(said, format!("a.toml:6: traffic.0.pattern.to = a list of 1: {hole}"));
    let pairs =
        format!("routing.kind = \"table\": leaves 3 pairs of hosts without a route; the first is {hole}");
    assert_eq!(hotspots("node-0"), format!("a.toml:3: {pairs}"));
    let backward = format!("congestion = {{ mechanism = \"qcn\" }}\n{}", flow("node-0", "node-3"));
    let said = without_route(&backward);
    assert!(
        said.contains("congestion.notification")
            && said.contains("switch swA may have to notify host node-4"),
        "{said}"
    );
}

/// Ranges of hosts are expanded before the network is known, but messages show them as they were written.
#[test]
fn errors_in_ranges_of_hosts_name_the_range_and_the_host() {
    let text = |hosts: &str| {
        format!("{BASE}[[traffic]]\nhosts = {hosts}\npattern = {{ kind = \"hotspots\", to = \"H[1-2]\" }}\n")
    };
    let line = BASE.lines().count() + 2;
    assert_eq!(message(&text("\"H[3-6]\""), &[]), "fine");
    let whole = message(&text("\"H[3-12]\""), &[]);
    let expected = format!("a.toml:{line}: traffic.0.hosts = \"H[3-12]\": H8: no such host");
    assert!(whole.starts_with(&expected), "{whole}");
    let one = message(&text("[\"H2\",\n\"H[1-3]\"]"), &[]);
    let expected = format!("a.toml:{}: traffic.0.hosts.1 = \"H[1-3]\": H2: is in the list twice", line + 1);
    assert_eq!(one, expected);
    let wrong = message(&text("[\"H[2-1]\"]"), &[]);
    assert!(
        wrong.starts_with(&format!("a.toml:{line}: traffic.0.hosts.0 = \"H[2-1]\": must be a name")),
        "{wrong}"
    );
    let set = message(&text("\"H1\""), &[("traffic.0.pattern.to", "H[6-9]")]);
    assert!(set.starts_with("--set traffic.0.pattern.to = \"H[6-9]\": H8: no such host"), "{set}");
    assert_eq!(message(&text("5"), &[]), format!("a.toml:{line}: traffic.0.hosts = 5: must be a list"));
}
