//! Rates and times of networks whose links change.

use std::path::Path;

use silvan_fabric::outcome::{Outcome, Values};
use silvan_scenario::Scenario;

use crate::common::runs::outcome;

/// Two leaves with two uplinks each. Each uplink of the first leaf carries two flows of 45 Gbit/s.
const CABLE: &str = r#"duration = "300 us"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 4
link_rate = "100 Gbit/s"
[[event]]
kind = "rate"
links = ["L1.1:5"]
rate = "25 Gbit/s"
start = "100 us"
lasts = "100 us"
[[event]]
kind = "down"
links = ["L1.1:5"]
start = "200 us"
[rerouting]
delay = "20 us"
[[traffic]]
hosts = "H[1-4]"
pattern = { kind = "shift", by = 4 }
rate = "45 Gbit/s"
[measure]
interval = "10 us"
"#;

fn numbers<'o>(outcome: &'o Outcome, table: &str, column: &str) -> &'o [f64] {
    let table = outcome.tables.iter().find(|one| one.name == table).unwrap();
    let column = table.columns.iter().find(|one| one.name == column).unwrap();
    let Values::F64(values) = &column.values else { panic!("no numbers") };
    values
}

/// With a quarter of the rate, 90 + 25 Gbit/s are possible. Without the uplink, the other one carries 100
/// Gbit/s. Tables change at 220 us, so the next interval is nearly full.
#[test]
fn recovery_is_measured_against_what_the_remaining_network_permits() {
    let found = outcome(CABLE);
    let permitted = numbers(&found, "recoveries", "permitted_gbit_s");
    assert!((permitted[0] - 115.0).abs() < 1e-6 && (permitted[1] - 100.0).abs() < 1e-6, "{permitted:?}");
    let recovered = numbers(&found, "recoveries", "recovered_ns");
    assert!(recovered[0] <= 10_000.0 && recovered[1] == 20_000.0, "{recovered:?}");
    let without = outcome(&CABLE.replace("[rerouting]\ndelay = \"20 us\"\n", ""));
    let recovered = numbers(&without, "recoveries", "recovered_ns");
    assert!(recovered[1].is_nan(), "half of the flows stay lost: {recovered:?}");
}

/// Each of the first four hosts sends 45 Gbit/s to the seven others, so each pair has 45/7 Gbit/s. 16 of
/// these pairs use the uplinks.
#[test]
fn random_destinations_are_expected_to_get_equal_parts() {
    let uniform = |pattern: &str| outcome(&CABLE.replace(r#"{ kind = "shift", by = 4 }"#, pattern));
    let found = uniform(r#"{ kind = "uniform" }"#);
    let permitted = numbers(&found, "recoveries", "permitted_gbit_s");
    let half = 8.0 * 45.0 / 7.0;
    assert!((permitted[0] - (180.0 - half + 25.0)).abs() < 1e-3, "{permitted:?}");
    assert!((permitted[1] - (180.0 - 2.0 * half + 100.0)).abs() < 1e-3, "{permitted:?}");
    assert!(numbers(&found, "recoveries", "victims").iter().all(|count| count.is_nan()), "unknown");
    let closed = CABLE.replace(r#"{ kind = "shift", by = 4 }"#, r#"{ kind = "uniform" }"#);
    let closed = outcome(
        &closed
            .replace("rate = \"45 Gbit/s\"", "outstanding = 2")
            .replace("[measure]", "[congestion]\nnotification = \"ack\"\n[measure]"),
    );
    assert!(closed.tables.iter().all(|table| table.name != "recoveries"), "nothing is expected");
}

/// Each flow has a separate uplink, at 60 Gbit/s. After the failure of one uplink, both flows must share the
/// other.
#[test]
fn victims_are_flows_that_suffer_without_using_the_link_that_failed() {
    let flows = |second: &str| {
        let named = |from: &str, to: &str| {
            format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"60 Gbit/s\"\n")
        };
        let text = CABLE.replace(
            "[[traffic]]\nhosts = \"H[1-4]\"\npattern = { kind = \"shift\", by = 4 }\nrate = \"45 Gbit/s\"\n",
            &(named("H1", "H5") + &named("H2", second)),
        );
        let found = outcome(&text);
        let account = found.account.join(" ");
        (numbers(&found, "recoveries", "victims").to_vec(), account)
    };
    let (victims, account) = flows("H6");
    assert_eq!(victims, [0.0, 1.0], "{account}");
    assert!(account.contains("Less than 90 % of what they received before went to H"), "{account}");
    let (victims, account) = flows("H3");
    assert_eq!(victims, [0.0, 0.0], "a flow within the leaf does not suffer: {account}");
}

/// Flows of a hotspot are throttled, so all of their packets take port 6, which the table of the leaf
/// contains for H6. Packets that are sent again may take port 5. With the route of the table, they would
/// never arrive.
#[test]
fn repeated_packets_of_throttled_flows_leave_the_route_of_the_table() {
    let text = |port: u8, recovery: &str| {
        format!(
            r#"duration = "6 ms"
adaptive_routing = {{ per = "packet", pinned = ["throttled"] }}
{recovery}
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 4
link_rate = "100 Gbit/s"
[congestion]
mechanism = "ib-cc"
[[event]]
kind = "down"
links = ["L1.1:{port}"]
start = "200 us"
[[flow]]
name = "F"
from = "H1"
to = "H6"
total = "1 MB"
[[flow]]
from = "H2"
to = "H6"
stop = "1 ms"
[[flow]]
from = "H7"
to = "H6"
stop = "1 ms"
"#
        )
    };
    let received = |text: String| outcome(&text).summary.flows[0].received_bytes;
    assert_eq!(received(text(5, "")), 1_000_000, "no packet takes the other port");
    assert!(received(text(6, "")) < 500_000, "all packets take the port of the table");
    let recovery = r#"recovery = { kind = "selective-repeat", timeout = "200 us" }"#;
    assert_eq!(received(text(6, recovery)), 1_000_000);
}

#[test]
fn tables_that_could_deadlock_are_rejected() {
    let ring = r#"duration = "100 us"
[topology]
kind = "torus"
sizes = [5]
[lanes]
count = 1
[routing]
kind = "up-down"
[[event]]
kind = "down"
links = ["S1:2"]
start = "10 us"
[rerouting]
delay = "1 us"
[[traffic]]
pattern = { kind = "uniform" }
"#;
    let scenario = Scenario::from_toml(ring, "ring.toml", Path::new(""), &[]).unwrap();
    let error = scenario.simulation().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("can deadlock when switches change their tables at 11 us"), "{error}");
}

/// Tables of the fabric of [`crate::lmc::wiring`] that use the port `between` to the other switch. The first
/// switch has no route to the host `without`.
fn dump(between: u32, without: Option<u32>) -> String {
    let mut text = String::new();
    for switch in 0..2 {
        text += &format!(
            "Unicast lids [0x0-0x11] of switch Lid 9 guid 0x00000000000000a{switch} ('sw-{switch}'):\n"
        );
        let without = without.filter(|_| switch == 0);
        for host in (0..4).filter(|&host| without != Some(host)) {
            let port = if host / 2 == switch { host % 2 + 1 } else { between };
            text += &format!("0x{:04x} {port:03}\n", 4 + 2 * host);
        }
        text += &format!("{} lids dumped\n", 4 - usize::from(without.is_some()));
    }
    text
}

/// The link of port 3 fails at 50 us. From 70 us, the tables of a second dump use port 4.
#[test]
fn tables_of_a_second_file_are_used_while_a_link_is_down() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables-after-faults");
    std::fs::create_dir_all(&folder).unwrap();
    let files = [
        ("net.topo", crate::lmc::wiring(0)),
        ("3.dump", dump(3, None)),
        ("4.dump", dump(4, None)),
        ("part.dump", dump(4, Some(2))),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let text = |lines: &str| {
        format!(
            "duration = \"200 us\"\nmeasure = {{ interval = \"10 us\" }}\n\
         topology = {{ kind = \"file\", file = \"net.topo\" }}\nrouting = {{ kind = \"table\", file = \"3.dump\" }}\n\
         [rerouting]\n{lines}\n[[event]]\nkind = \"down\"\nlinks = [\"sw-0:3\"]\nstart = \"50 us\"\nlasts = \"80 us\"\n\
         [[flow]]\nfrom = \"h0\"\nto = \"h2\"\n"
        )
    };
    let load = |lines: &str| Scenario::from_toml(&text(lines), "a.toml", &folder, &[]);
    let recovered = |file: &str| {
        let scenario = load(&format!("delay = \"20 us\"\ntables = \"{file}\"")).unwrap();
        let mut simulation = scenario.simulation().unwrap();
        while !simulation.advance(100_000).unwrap().done {}
        let outcome = simulation.finish().unwrap();
        assert!(outcome.summary.losses.unwrap().data_packets > 10);
        let permitted = numbers(&outcome, "recoveries", "permitted_gbit_s").to_vec();
        (permitted[0] > 0.0, numbers(&outcome, "recoveries", "recovered_ns").to_vec())
    };
    assert_eq!(
        recovered("4.dump"),
        (true, vec![20_000.0, 0.0]),
        "the tables of the start are used again at 150 us"
    );
    let (is_permitted, times) = recovered("3.dump");
    assert!(!is_permitted && times[0] == 0.0, "these have no route without the link");
    let (is_permitted, _) = recovered("part.dump");
    assert!(!is_permitted, "the route that is missing stays");
    let message = |lines: &str| match load(lines).and_then(|scenario| scenario.build()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let cases = [
        ("tables = \"4.dump\"", "a.toml:6: rerouting.tables = \"4.dump\": needs rerouting.delay"),
        ("delay = \"1 us\"\ntables = \"none.dump\"", "a.toml:7: rerouting.tables = \"none.dump\": "),
    ];
    for (lines, expected) in cases {
        assert!(message(lines).starts_with(expected), "{}", message(lines));
    }
    let standalone = load("delay = \"20 us\"\ntables = \"4.dump\"").unwrap().standalone().unwrap();
    assert_eq!(standalone.spec.rerouting.tables.unwrap(), folder.join("4.dump").display().to_string());
}
