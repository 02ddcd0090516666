//! A pinned run: the same bits in debug and release builds, today and tomorrow. The Python tests
//! hold the release build to the same file.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;

use silvan_scenario::Scenario;

#[test]
fn the_busy_run_gives_the_pinned_summary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden");
    let mut simulation = Scenario::load(folder.join("busy.toml"), &[]).unwrap().simulation().unwrap();
    while !simulation.advance(1 << 16).unwrap().done {}
    let summary = serde_json::to_string_pretty(&simulation.finish().unwrap().summary).unwrap() + "\n";
    let file = folder.join("busy.json");
    if std::env::var_os("SILVAN_UPDATE").is_some() {
        std::fs::write(&file, &summary).unwrap();
    }
    let pinned = std::fs::read_to_string(&file).unwrap();
    for (number, (pinned, now)) in pinned.lines().zip(summary.lines()).enumerate() {
        assert_eq!(
            pinned,
            now,
            "busy.json:{}: the run changed. If it should have, SILVAN_UPDATE=1 cargo test -p \
             silvan-scenario --test golden pins it anew; say why in the commit",
            number + 1
        );
    }
    assert_eq!(pinned.lines().count(), summary.lines().count());
}
