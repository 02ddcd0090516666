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

/// A quarter of the rate leaves 90 + 25 Gbit/s. Without the uplink, the other one carries 100. Tables change at 220 us, so
/// the next interval is nearly full.
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
    let uniform = outcome(&CABLE.replace(r#"{ kind = "shift", by = 4 }"#, r#"{ kind = "uniform" }"#));
    assert!(uniform.tables.iter().all(|table| table.name != "recoveries"), "destinations are not fixed");
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
