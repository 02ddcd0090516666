//! Generates random scenarios from a tape of numbers. Each number selects one option. Zero selects the
//! simplest option, so shrinking the tape leads to a short scenario.

/// The numbers that have not been used.
struct Tape<'t> {
    left: &'t [u16],
    /// Whether the scenario defines the length of a cycle.
    in_cycles: bool,
}

impl Tape<'_> {
    fn next(&mut self, of: usize) -> usize {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        usize::from(*first) % of
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        let choice = choices[self.next(choices.len())];
        if choice.contains("cycle") && !self.in_cycles { choices[0] } else { choice }
    }

    /// Returns `key = VALUE` with probability 1/`of`, otherwise an empty string.
    fn maybe(&mut self, of: usize, key: &str, values: &[&str]) -> String {
        if self.next(of) + 1 < of {
            return String::new();
        }
        format!("{key} = {}\n", self.pick(values))
    }

    /// Returns the chosen keys of a table, each with probability 1/`of`.
    fn keys(&mut self, of: usize, keys: &[(&str, &[&str])]) -> String {
        keys.iter().map(|(key, values)| self.maybe(of, key, values)).collect()
    }
}

const TOPOLOGIES: [&str; 14] = [
    r#"{ kind = "star", hosts = 5 }"#,
    r#"{ kind = "dumbbell" }"#,
    r#"{ kind = "dumbbell", left = 4, right = 4, link_rate = "8 Gbit/s", trunk_rate = "10 Gbit/s" }"#,
    r#"{ kind = "k-ary-n-tree", k = 2, n = 3 }"#,
    r#"{ kind = "pgft", m = [3, 2], w = [1, 2], p = [1, 2] }"#,
    r#"{ kind = "k-ary-n-fly", k = 2, n = 3 }"#,
    r#"{ kind = "k-ary-n-fly", k = 2, n = 3, links = "bidirectional" }"#,
    r#"{ kind = "k-ary-n-fly", k = 2, n = 3, wiring = "perfect-shuffle", link_delay = "1.5 ns" }"#,
    r#"{ kind = "modified-k-ary-n-tree", k = 2, n = 3 }"#,
    r#"{ kind = "two-level-fat-tree", leaves = 3, spines = 2, hosts_per_leaf = 3, parallel = 2 }"#,
    r#"{ kind = "three-level-fat-tree", radix = 4, link_rate = "2.5 GB/s" }"#,
    r#"{ kind = "custom", hosts = ["H1", "H2", "H3", "H4", "H5"], switches = [{ name = "S" }], links = [{ from = "H1", to = "S", rate = "3 Gbit/s" }, { from = "H2", to = "S:4" }, { from = "H3", to = "S" }, { from = "S", to = "H4", delay = "7.5 ns" }, { from = "H5", to = "S" }] }"#,
    r#"{ kind = "file", file = "minhop/ibnetdiscover.topo", link_delay = "31 ns" }"#,
    r#"{ kind = "file", file = "./../sw2-h7/updn/ibnetdiscover.topo", default_rate = "5 Gbit/s" }"#,
];

const MECHANISMS: [&str; 11] = [
    r#""ib-cc""#,
    r#""none""#,
    r#""fbicm""#,
    r#""ccfit""#,
    r#""hfdi""#,
    r#""ecocc""#,
    r#""renato""#,
    r#""pfister""#,
    r#""mvcm""#,
    r#""saa""#,
    r#""ib-cc""#,
];

const MARKINGS: [&str; 12] = [
    r#"{ kind = "fecn" }"#,
    r#"{ kind = "none" }"#,
    r#"{ threshold = 9 }"#,
    r#"{ kind = "fecn", threshold = 12, fill = "sum-per-input", pattern = "regular", marking_rate = 3 }"#,
    r#"{ kind = "fecn", upper = "6 KiB", lower = "1.5 KB", fill = "each", percent = 40 }"#,
    r#"{ kind = "fecn", upper = "4 KiB", hysteresis = "0 B", victim_mask = "all", packet_size = 0 }"#,
    r#"{ percent = 20, victim_mask = "none" }"#,
    r#"{ upper = "5 KiB" }"#,
    r#"{ kind = "ipm" }"#,
    r#"{ kind = "opm", output_percent = 20 }"#,
    r#"{ kind = "mvpm" }"#,
    r#"{ output_percent = 12 }"#,
];

const REACTIONS: [&str; 15] = [
    r#"{ kind = "cct" }"#,
    r#"{ kind = "none" }"#,
    r#"{ ccti_timer = 2 }"#,
    r#"{ kind = "cct", ccti_timer = 1, level = "sl", per_sl = [{ sl = 1, ccti_min = 2 }, { sl = 0, ccti_timer = 3 }] }"#,
    r#"{ kind = "cct", table = { kind = "linear", packets = 2, entries = 128 }, ccti_limit = 20 }"#,
    r#"{ table = { kind = "quadratic", divisor = 95, scale = 2, entries = 130 } }"#,
    r#"{ kind = "static-window", packets = 3 }"#,
    r#"{ kind = "aimd", window = 4, m = 3 }"#,
    r#"{ kind = "fimd", slowest = 16 }"#,
    r#"{ kind = "lipd", delay = "1.25 us" }"#,
    r#"{ window = 2 }"#,
    r#"{ kind = "mvcm", limited = false, warm = false }"#,
    r#"{ slot = "3 us", factor = 2 }"#,
    r#"{ kind = "explicit-rate", injection = "shaped-virtual-clock" }"#,
    r#"{ probe = "2 us" }"#,
];

const ISOLATIONS: [&str; 7] = [
    r#"{ kind = "special-queues" }"#,
    r#"{ kind = "none" }"#,
    r#"{ queues = 1, destinations = 2 }"#,
    r#"{ kind = "special-queues", detection = "4 KiB", stop = "5000 B", go = "3 KB", at_root = true, message = "20 B" }"#,
    r#"{ at_root = true }"#,
    r#"{ arbitration = "weighted" }"#,
    r#"{ kind = "special-queues", at_root = true, arbitration = "strict", longest_wait = "3 us" }"#,
];

const PATTERNS: [&str; 8] = [
    r#"{ kind = "uniform" }"#,
    r#"{ kind = "uniform", include_self = true }"#,
    r#"{ kind = "hotspots", to = ["H1"] }"#,
    r#"{ kind = "hotspots", to = ["H2", "H5"] }"#,
    r#"{ kind = "shift", by = 2 }"#,
    r#"{ kind = "permutation" }"#,
    r#"{ kind = "all-to-all" }"#,
    r#"{ kind = "forest", hotspots = 2, contributors = 40, mixed = 40, p = 50, victims = 20, lifetime = "11 us" }"#,
];

fn network(tape: &mut Tape<'_>) -> String {
    let mut text = tape.maybe(3, "cycle", &[r#""1 ns""#, r#""2.5 ns""#]);
    tape.in_cycles = !text.is_empty();
    text += &tape.keys(
        4,
        &[
            ("name", &[r#""a \"name\" \\ é""#]),
            ("seed", &["7", "9223372036854775807"]),
            ("warmup", &[r#""5 us""#, r#""5_000 cycles""#]),
        ],
    );
    text += &format!("duration = {}\n", tape.pick(&[r#""20 us""#, r#""30_000 ns""#, r#""12000 cycles""#]));
    text += &format!("topology = {}\n", tape.pick(&TOPOLOGIES));
    text += &tape.maybe(
        4,
        "routing",
        &[
            r#"{ kind = "up-down" }"#,
            r#"{ kind = "shortest-path" }"#,
            r#"{ allow_deadlock = true }"#,
            r#"{ kind = "table", file = "minhop/opensm-lfts.dump" }"#,
            r#"{ kind = "up-down", root = "S1" }"#,
            r#"{ kind = "up-down", root = ["S1"], allow_deadlock = false }"#,
        ],
    );
    text += &tape.maybe(
        5,
        "adaptive_routing",
        &["{}", "{ enabled = false }", r#"{ heuristic = "bytes", cache = 1 }"#],
    );
    text
}

fn components(tape: &mut Tape<'_>) -> String {
    let mut text = String::from("[packet]\n");
    text += &tape.keys(
        5,
        &[
            ("mtu", &[r#""256 B""#, r#""1 KiB""#, r#""999 B""#]),
            ("header", &[r#""26 B""#]),
            ("control", &[r#""30 B""#]),
            ("credit_block", &[r#""1 B""#, r#""100 B""#]),
        ],
    );
    text += "[lanes]\n";
    text += &tape.keys(
        5,
        &[
            ("count", &["2", "3", "15"]),
            ("sl_to_vl", &["[0, 1]", "[1, 0, 0, 1]", "[0]"]),
            ("control", &["0", "1"]),
            ("assignment", &[r#""destination""#, r#""vftree""#]),
        ],
    );
    text += "[switch]\n";
    text += &tape.keys(
        7,
        &[
            ("architecture", &[r#""voq""#, r#""iq""#, r#""cioq""#]),
            ("arbitration", &[r#""fcfs""#]),
            (
                "queues",
                &[
                    r#""single""#,
                    r#""per-output""#,
                    r#""per-destination""#,
                    r#""destination-modulo""#,
                    r#""output-modulo""#,
                ],
            ),
            ("queue_count", &["2", "8"]),
            ("memory", &[r#""shared""#, r#""divided""#]),
            ("queue_buffer", &[r#""8 KiB""#]),
            ("buffer", &[r#""32 KiB""#, r#""131 KB""#]),
            ("latency", &[r#""1 ps""#, r#""33 cycles""#]),
            ("forwarding", &[r#""store-and-forward""#, r#""cut-through""#]),
            ("output_buffer", &[r#""16 KiB""#]),
            ("crossbar", &[r#""20 Gbit/s""#, r#""6.25 bytes/cycle""#]),
            ("islip_iterations", &["1", "2"]),
            ("islip_cell", &[r#""0 B""#, r#""64 B""#, r#""256 B""#]),
            ("control_first", &["true", "false"]),
        ],
    );
    text += "[host]\n";
    text += &tape.keys(
        6,
        &[
            ("injection_rate", &[r#""13.5 Gbit/s""#, r#""1.001 MB/s""#, r#""2 bytes/cycle""#]),
            ("injection_includes_control", &["true", "false"]),
            ("drain_rate", &[r#""3 Gbit/s""#]),
            ("buffer", &[r#""128 KiB""#]),
            ("message_overhead", &[r#""150 ns""#]),
            ("queues", &[r#""none""#, r#""single""#, r#""per-destination""#, r#""destination-modulo""#]),
            ("output_buffer", &[r#""32 KiB""#, r#""64 KiB""#]),
        ],
    );
    text
}

fn congestion(tape: &mut Tape<'_>) -> String {
    let mut text = String::from("[congestion]\n");
    text += &tape.maybe(2, "mechanism", &MECHANISMS);
    text += &tape.maybe(4, "marking", &MARKINGS);
    text += &tape.maybe(4, "notification", &[r#""ack""#, r#""ack-message""#, r#""ack-each""#, r#""cnp""#]);
    text += &tape.maybe(6, "isolation", &ISOLATIONS);
    text += &tape.maybe(4, "reaction", &REACTIONS);
    text
}

fn measure(tape: &mut Tape<'_>) -> String {
    let mut text = String::from("[measure]\n");
    let recorded = ["false", "true"];
    text += &tape.keys(
        5,
        &[
            ("interval", &[r#""10 us""#, r#""7777 cycles""#]),
            ("links", &recorded),
            ("hosts", &recorded),
            ("classes", &recorded),
            ("forest", &recorded),
        ],
    );
    text
}

/// Keys that flows and patterns have in common. Messages are not tiny, because debug builds check invariants
/// in time proportional to the number of waiting packets.
fn sending(tape: &mut Tape<'_>) -> String {
    tape.keys(
        5,
        &[
            ("name", &[r#""x""#, r#""y z""#]),
            ("start", &[r#""3.25 us""#, r#""100 cycles""#]),
            ("start_after_packets", &["20"]),
            ("stop", &[r#""31 us""#]),
            ("message", &[r#""700 B""#, r#""64 KiB""#, r#""1 KB""#]),
            ("rate", &[r#""2 Gbit/s""#, r#""333_333_333 bit/s""#, r#""0.25 B/cycle""#]),
            ("arrivals", &[r#""poisson""#]),
            ("sl", &["1", "3", "15"]),
        ],
    )
}

fn traffic(tape: &mut Tape<'_>) -> String {
    let mut text = String::new();
    for _ in 0..tape.next(3) {
        let (from, to) = (tape.pick(&["H1", "H2", "H3"]), tape.pick(&["H4", "H5", "H1"]));
        text += &format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n{}", sending(tape));
        text += &tape.maybe(4, "total", &[r#""9999 B""#, r#""64 KB""#]);
    }
    for _ in 0..1 + tape.next(2) {
        text += &format!("[[traffic]]\npattern = {}\n{}", tape.pick(&PATTERNS), sending(tape));
        text += &tape.keys(
            5,
            &[
                ("hosts", &[r#"["H3", "H4"]"#]),
                ("packets_per_host", &["5"]),
                ("message_max", &[r#""64 KiB""#]),
            ],
        );
    }
    text
}

const OVERRIDES: [(&str, &str); 10] = [
    ("congestion.mechanism", "none"),
    ("congestion.mechanism", "ib-cc"),
    ("congestion.marking.kind", "none"),
    ("congestion.reaction.kind", "none"),
    ("congestion", r#"{ mechanism = "ecocc", marking = { threshold = 3 } }"#),
    ("congestion.marking.threshold", "13"),
    ("switch.latency", "120 cycles"),
    ("seed", "99"),
    ("packet.mtu", "512 B"),
    ("measure.links", "false"),
];

/// Returns the text of a scenario and its overrides. Many of the scenarios are invalid.
pub fn drawn(tape: &[u16]) -> (String, Vec<(String, String)>) {
    let tape = &mut Tape { left: tape, in_cycles: false };
    let text = [network(tape), traffic(tape), congestion(tape), components(tape), measure(tape)].concat();
    let count = tape.next(5).saturating_sub(2);
    let mut overrides = Vec::new();
    for _ in 0..count {
        let (key, value) = OVERRIDES[tape.next(OVERRIDES.len())];
        overrides.push((key.to_owned(), value.to_owned()));
    }
    (text, overrides)
}
