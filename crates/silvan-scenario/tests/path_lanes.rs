//! Runs fabrics with the lanes of their subnet manager: service levels of paths, and SL-to-VL tables.

use std::path::{Path, PathBuf};

use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_scenario::import::lanes;
use silvan_scenario::{Scenario, ScenarioError};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/lanes")
}

/// Every host sends to the host two positions after it at full rate; buffers hold one packet per lane.
fn text(fabric: &str, lanes: &str, rest: &str) -> String {
    format!(
        "duration = \"1 ms\"\n{rest}\n\
         topology = {{ kind = \"file\", file = \"{fabric}/ibnetdiscover.topo.gz\" }}\n\
         packet = {{ mtu = \"2 KiB\" }}\n\
         switch = {{ buffer = \"{}\" }}\n\
         host = {{ buffer = \"64 KiB\" }}\n\
         measure = {{ interval = \"50 us\" }}\n\
         [lanes]\n{lanes}\n\
         [routing]\nkind = \"table\"\nfile = \"{fabric}/opensm-lfts.dump.gz\"\nallow_deadlock = {}\n\
         [[traffic]]\npattern = {{ kind = \"shift\", by = 2 }}\nmessage = \"64 KiB\"\n",
        if lanes.is_empty() { "2 KiB" } else { "16 KiB" },
        lanes.is_empty()
    )
}

fn by_path(fabric: &str) -> String {
    format!(
        "count = 8\nassignment = \"paths\"\npath_levels = \"{fabric}/path-sl.txt.gz\"\ntables = \"{fabric}/opensm-sl2vl.dump.gz\""
    )
}

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml(text, "lanes.toml", &folder(), &[])
}

fn ready(text: &str) -> Simulation {
    match read(text).and_then(|scenario| scenario.simulation()) {
        Ok(simulation) => simulation,
        Err(error) => panic!("{error}"),
    }
}

fn run(text: &str) -> Result<u64, ModelError> {
    let mut simulation = ready(text);
    while !simulation.advance(1_000_000)?.done {}
    simulation.finish().map(|outcome| outcome.summary.packets_delivered)
}

#[test]
fn fabrics_that_rely_on_lanes_run_on_them() {
    for fabric in
        ["ring-6/dfsssp", "ring-6/lash", "torus-4x4/dfsssp", "drawn-12/lash", "torus-5x5/torus-2QoS"]
    {
        let all = "[[traffic]]\npattern = { kind = \"uniform\" }\n";
        let text = text(fabric, &by_path(fabric), "") + all;
        let report = read(&text).unwrap().check().unwrap();
        assert_eq!(report.deadlock, None, "{fabric}");
        let delivered = run(&text).unwrap_or_else(|error| panic!("{fabric}: {error}"));
        assert!(delivered > 2_000, "{fabric}: {delivered} packets");
    }
}

#[test]
fn on_one_lane_the_same_tables_deadlock_and_are_reported() {
    for fabric in ["ring-6/dfsssp", "ring-6/lash"] {
        let one = text(fabric, "", "");
        assert!(read(&one).unwrap().check().unwrap().deadlock.is_some(), "{fabric}");
        let error = run(&one).expect_err(fabric);
        assert!(matches!(error, ModelError::Deadlock { .. }), "{fabric}: {error}");
    }
    // The service levels of MINHOP do not prevent deadlock: all packets use one lane.
    let minhop = "torus-4x4/minhop";
    let refused = read(&text(minhop, &by_path(minhop), "")).unwrap().simulation().map(|_| ()).unwrap_err();
    assert!(
        refused.to_string().contains("can deadlock") && refused.to_string().contains("VL 0"),
        "{refused}"
    );
}

#[test]
fn congestion_control_works_on_lanes_of_paths() {
    for level in ["", "reaction = { level = \"sl\" }"] {
        let fabric = "torus-4x4/dfsssp";
        let control = format!("[congestion]\nmechanism = \"ib-cc\"\n{level}\n");
        let hot = "[[traffic]]\npattern = { kind = \"hotspots\", to = [\"H1\"] }\n";
        let hosts = read(&text(fabric, &by_path(fabric), "")).unwrap().build().unwrap().0.hosts;
        let text = text(fabric, &by_path(fabric), "") + &hot.replace("H1", &hosts[0].name) + &control;
        let mut simulation = read(&text).unwrap().simulation().unwrap();
        while !simulation.advance(1_000_000).unwrap().done {}
        let summary = simulation.finish().unwrap().summary;
        assert!(summary.fecn_marks > 0 && summary.becn_received > 0, "{level}: {}", summary.fecn_marks);
    }
}

#[test]
fn errors_of_lanes_of_paths_are_explained() {
    let fabric = "ring-6/dfsssp";
    let good = by_path(fabric);
    let mut failures = Vec::new();
    for (lanes, rest, expected) in [
        (good.replace("path-sl.txt", "opensm-sl2vl.dump"), "", "lanes.path_levels"),
        (good.replace("opensm-sl2vl.dump.gz", "path-sl.txt.gz"), "", "lanes.tables"),
        (good.replace("path-sl", "nothing"), "", "lanes.path_levels"),
        (good.replace("paths\"", "service-level\""), "", "has no effect; set lanes.assignment = \"paths\""),
        ("count = 8\nassignment = \"paths\"".to_owned(), "", "needs lanes.path_levels, lanes.tables or both"),
        (good.clone() + "\ncontrol = 1", "", "lanes.control"),
        (good.clone(), "flow_control = { kind = \"on-off\" }", "and credits"),
        (good.clone(), "congestion = { mechanism = \"ccfit\" }", "needs switches of architecture \"voq\""),
        (good.replace("count = 8", "count = 1"), "", "but there are 1 lanes; must be at least 2"),
    ] {
        let text = text(fabric, &lanes, rest);
        let result = read(&text).and_then(|scenario| scenario.simulation().map(|_| ()));
        match result {
            Err(error) if error.to_string().contains(expected) => {}
            Err(error) => failures.push(format!("{lanes}\n{rest}\n  says: {error}\n  wanted: {expected}")),
            Ok(()) => failures.push(format!("{lanes}\n{rest}: accepted")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let first = text(fabric, &good, "").replace("switch = { ", "switch = { control_first = true, ");
    let error = read(&first).unwrap_err().to_string();
    assert!(
        error.contains("switch.control_first = true: cannot be combined with lanes by paths or routing"),
        "{error}"
    );
}

#[test]
fn the_path_of_a_host_to_itself_is_ignored() {
    let topology = read(&text("ring-6/dfsssp", "", "")).unwrap().build().unwrap().0;
    let lids: Vec<u16> = topology.hosts.iter().map(|host| host.lid.unwrap()).collect();
    let (one, other) = (lids[0], lids[1]);
    let found = lanes::paths(&format!("{one} {one} 5\n{one} {other} 3\n"), "f", &topology).unwrap();
    assert_eq!((found.pairs, found.others), (1, 1));
    assert_eq!((found.levels.get(0, 0), found.levels.get(0, 1)), (0, 3));
    let error = lanes::paths(&format!("{one} {one} 5\n"), "f", &topology).unwrap_err().to_string();
    assert!(error.starts_with("f: no path is between hosts of the topology"), "{error}");
}
