//! Networks whose set-up is measured, with InfiniBand CC: a pattern of traffic for each. `make bench` measures time and
//! memory with 11,664 hosts, and a test of `silvan-scenario` bounds the memory with fewer hosts.

/// The name of a pattern, and the entry of `traffic` in the scenario.
pub const SETUPS: &[(&str, &str)] = &[
    ("uniform", r#"pattern = { kind = "uniform" }"#),
    ("hotspots", r#"pattern = { kind = "hotspots", to = ["H1", "H2"] }"#),
    ("shift", r#"pattern = { kind = "shift", by = 1 }"#),
    ("permutation", r#"pattern = { kind = "permutation" }"#),
    ("all-to-all", r#"pattern = { kind = "all-to-all" }"#),
    ("forest", r#"pattern = { kind = "forest", hotspots = 8, contributors = 80, victims = 20 }"#),
    ("incast", r#"pattern = { kind = "incast", senders = 16 }, message = "64 KiB", load_percent = 10"#),
    ("web-search", r#"pattern = { kind = "uniform" }, sizes = { kind = "web-search" }, load_percent = 50"#),
];
