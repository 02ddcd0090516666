//! In-network reduction: closed forms, equality with units that a scenario defines itself, other traffic, and
//! invalid settings.

use std::fmt::Write as _;
use std::path::Path;

use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::{JobSummary, Outcome};
use silvan_scenario::Scenario;

use crate::common::runs::{finish, outcome};

/// Links of 16 Gbit/s (0.5 ns per byte) and 20 ns, and 100 ns in a switch.
const COMMON: &str = r#"
duration = "1 s"
switch = { latency = "100 ns" }
measure = { interval = "100 us", forest = false }
"#;
const STAR: &str =
    r#"topology = { kind = "star", hosts = 8, link_rate = "16 Gbit/s", link_delay = "20 ns" }"#;
const TREE: &str = r#"topology = { kind = "two-level-fat-tree", leaves = 4, spines = 2, hosts_per_leaf = 4, link_rate = "16 Gbit/s", link_delay = "20 ns" }"#;
const NS_PER_BYTE: f64 = 0.5;
const MTU: f64 = 2048.0;
const LINK: f64 = 20.0;
const SWITCH: f64 = 100.0;
/// Defaults of `[reduction]`.
const UNIT_LINK: f64 = 1.0;
const COMBINING: f64 = 200.0;

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::from_toml(text, "reduction.toml", Path::new("."), &[]).map_err(|error| error.to_string())
}

fn all_reduce(ranks: u32, bytes: u64) -> String {
    format!(
        "[[job]]\nalgorithms = {{ all_reduce = \"in-network\" }}\n\
         program = {{ kind = \"collective\", operation = \"all-reduce\", ranks = {ranks}, bytes = \"{bytes} B\" }}\n"
    )
}

fn only_job(outcome: &Outcome) -> &JobSummary {
    let [job] = outcome.summary.jobs.as_slice() else { panic!("one job") };
    job
}

#[track_caller]
fn takes(outcome: &Outcome, expected: f64) {
    let finished = only_job(outcome).finished_ns.unwrap();
    assert!((finished - expected).abs() < 1.0, "{finished} ns; {expected} are right");
}

/// The time of one packet on the link of a host.
const PACKET: f64 = MTU * NS_PER_BYTE;
/// Time from a host to the unit of its switch, or back, without the transmission of the packet.
const WAY: f64 = LINK + SWITCH + UNIT_LINK;

#[test]
fn a_vector_takes_its_bytes_and_the_way_to_the_unit_and_back() {
    // All copies of the last chunk arrive at the same time and leave at the same time, so one copy waits for
    // the seven others on the link of the unit, which is eight times as fast.
    let others = 7.0 / 8.0 * PACKET;
    for chunks in [1u32, 2, 40, 500] {
        let text = format!("{COMMON}{STAR}\n{}", all_reduce(8, u64::from(chunks) * 2048));
        let outcome = outcome(&text);
        takes(&outcome, f64::from(chunks) * PACKET + 2.0 * WAY + COMBINING + 2.0 * others + PACKET);
        let job = only_job(&outcome);
        assert_eq!((job.ranks, job.hosts, job.units), (8, 8, Some(1)));
        assert_eq!(job.bytes, 2 * 8 * u64::from(chunks) * 2048, "each vector once to the unit and once back");
        assert_eq!(outcome.summary.hosts.len(), 8, "the unit is not a host in the summary");
    }
}

#[test]
fn with_one_outstanding_chunk_each_chunk_takes_a_round_trip() {
    let others = 7.0 / 8.0 * PACKET;
    let first = PACKET + 2.0 * WAY + COMBINING + 2.0 * others + PACKET;
    // The host that gets its result last sends its next chunk last, so this chunk does not wait for others.
    let next = first - others;
    let text = format!("{COMMON}{STAR}\n{}reduction = {{ outstanding = 1 }}\n", all_reduce(8, 10 * 2048));
    takes(&outcome(&text), first + 9.0 * next);
}

#[test]
fn a_tree_of_units_adds_the_way_between_switches() {
    // The path leads from the unit of a leaf switch to that of the spine, and back.
    let between = 2.0 * (2.0 * UNIT_LINK + 2.0 * SWITCH + LINK) + COMBINING;
    for chunks in [40u32, 500] {
        let text = format!("{COMMON}{TREE}\n{}", all_reduce(16, u64::from(chunks) * 2048));
        let outcome = outcome(&text);
        let finished = only_job(&outcome).finished_ns.unwrap();
        // A unit sends a chunk only when the whole chunk has arrived. This applies upwards, downwards, and to
        // the host.
        let links = 3.0 * PACKET;
        // The copies of a chunk wait for each other on the way to and from a unit, whose link has the rate of six links
        // in a leaf switch and of four in a spine.
        let others = 2.0 * (3.0 / 6.0 + 3.0 / 4.0) * PACKET;
        let least = f64::from(chunks) * PACKET + 2.0 * WAY + COMBINING + between + links + others;
        // The copies also wait for copies of other chunks, which use the links at the same time.
        assert!(
            (least..least + PACKET).contains(&finished),
            "{finished} ns; {least} or a little more is right"
        );
        assert_eq!(only_job(&outcome).units, Some(5), "four leaves and a spine");
    }
}

#[test]
fn a_barrier_exchanges_empty_chunks() {
    let text = format!(
        "{COMMON}{STAR}\n[[job]]\nalgorithms = {{ barrier = \"in-network\" }}\n\
         program = {{ kind = \"collective\", operation = \"barrier\", ranks = 8, iterations = 3 }}\n"
    );
    let outcome = outcome(&text);
    // An empty message is a control packet of 64 bytes.
    let packet = 64.0 * NS_PER_BYTE;
    let first = packet + 2.0 * WAY + COMBINING + 2.0 * 7.0 / 8.0 * packet + packet;
    takes(&outcome, 3.0 * first - 2.0 * 7.0 / 8.0 * packet);
    assert_eq!(only_job(&outcome).bytes, 0);
}

#[test]
fn groups_of_ranks_use_trees_of_their_own() {
    let text = format!(
        "{COMMON}{TREE}\n[[job]]\nalgorithms = {{ all_reduce = \"in-network\" }}\n\
         program = {{ kind = \"collective\", operation = \"all-reduce\", ranks = 16, groups = 2, bytes = \"64 KiB\" }}\n"
    );
    let outcome = outcome(&text);
    assert_eq!(only_job(&outcome).units, Some(6), "both spines are roots");
    let text = text.replace("[[job]]", "[[job]]\nreduction = { root = \"L2.2\" }");
    assert_eq!(only_job(&self::outcome(&text)).units, Some(5));
}

/// A custom network that equals the star with two hosts and a unit, and the program for a vector of two
/// chunks, as a user would write them without reduction units.
#[test]
fn units_equal_hosts_that_a_scenario_lists() {
    let custom = r#"
[topology]
kind = "custom"
hosts = ["H1", "H2", "H3"]
switches = [{ name = "S1" }]
links = [
    { from = "H1", to = "S1:1", rate = "16 Gbit/s", delay = "20 ns" },
    { from = "H2", to = "S1:2", rate = "16 Gbit/s", delay = "20 ns" },
    { from = "H3", to = "S1:3", rate = "32 Gbit/s", delay = "1 ns" },
]
"#;
    let mut goal = "num_ranks 3\n".to_owned();
    for rank in 0..2 {
        writeln!(goal, "rank {rank} {{").unwrap();
        for (chunk, bytes) in [2048, 952].into_iter().enumerate() {
            writeln!(goal, "r{chunk}: recv {bytes}b from 2 tag 1\ns{chunk}: send {bytes}b to 2 tag 1")
                .unwrap();
        }
        goal += "r1 irequires r0\ns1 irequires s0\n}\n";
    }
    goal += "rank 2 {\n";
    for (chunk, bytes) in [2048, 952].into_iter().enumerate() {
        for rank in 0..2 {
            writeln!(goal, "r{rank}c{chunk}: recv {bytes}b from {rank} tag 1").unwrap();
        }
        // A computation on a separate CPU does not delay the other chunk.
        writeln!(goal, "c{chunk}: calc 200 cpu {}", chunk + 1).unwrap();
        writeln!(goal, "c{chunk} requires r0c{chunk}\nc{chunk} requires r1c{chunk}").unwrap();
        for rank in 0..2 {
            writeln!(
                goal,
                "s{rank}c{chunk}: send {bytes}b to {rank} tag 1\ns{rank}c{chunk} requires c{chunk}"
            )
            .unwrap();
        }
    }
    goal += "}\n";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reduction.goal");
    std::fs::write(&file, goal).unwrap();
    let listed =
        format!("{COMMON}{custom}[[job]]\nprogram = {{ kind = \"trace\", file = \"{}\" }}\n", file.display());
    let star = STAR.replace("hosts = 8", "hosts = 2");
    let units = format!("{COMMON}{star}\n{}", all_reduce(2, 3000));
    let (listed, units) = (outcome(&listed), outcome(&units));
    assert_eq!(only_job(&listed).finished_ns, only_job(&units).finished_ns);
    let summaries =
        [&listed, &units].map(|outcome| (outcome.summary.packet_hops, outcome.summary.latency.clone()));
    assert_eq!(summaries[0], summaries[1]);
}

#[test]
fn patterns_do_not_send_to_units() {
    let traffic = "[[traffic]]\nname = \"others\"\npattern = { kind = \"uniform\" }\nrate = \"4 Gbit/s\"\n";
    let text = format!("{COMMON}{TREE}\nend_with_jobs = true\n{}{traffic}", all_reduce(8, 1 << 18));
    let both = outcome(&text);
    assert!(only_job(&both).finished_ns.is_some());
    let others = |outcome: &Outcome| {
        outcome.summary.classes.iter().find(|class| class.class == "others").unwrap().received_gbit_s
    };
    // Nearly all traffic of the pattern arrives at hosts.
    assert!(others(&both) > 0.9 * 4.0 * 16.0, "{}", others(&both));
    let alone = outcome(&format!("{COMMON}{TREE}\n{}", all_reduce(8, 1 << 18)));
    assert!(only_job(&both).span_ns > 1.02 * only_job(&alone).span_ns, "the pattern delays the job");
}

#[test]
fn a_hotspot_at_one_member_delays_all_ranks() {
    let hotspot = "[[flow]]\nname = \"hot\"\nfrom = \"H5\"\nto = \"H1\"\nrate = \"12 Gbit/s\"\n";
    let text = format!("{COMMON}{TREE}\n{}reduction = {{ root = \"L2.1\" }}\n", all_reduce(16, 1 << 20));
    let alone = only_job(&outcome(&text)).span_ns;
    let both = only_job(&outcome(&format!("{text}{hotspot}"))).span_ns;
    // H1 gets the results at half of the rate of its link.
    assert!((1.9..2.1).contains(&(both / alone)), "{both} {alone}");
}

#[test]
fn threads_do_not_matter() {
    let text = format!("threads = 3\n{COMMON}{TREE}\n{}", all_reduce(16, 1 << 18));
    let one = outcome(&text.replace("threads = 3", "threads = 1"));
    assert_eq!(one, finish(&text, Scheduler::BinnedIfPossible));
}

#[test]
fn overrides_of_algorithms_switch_units_off() {
    let text = format!(
        "{COMMON}{TREE}\n{}reduction = {{ outstanding = 3 }}\n[reduction]\n",
        all_reduce(16, 1 << 18)
    );
    let with = |overrides: &[(&str, &str)]| {
        let overrides: Vec<(String, String)> =
            overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Scenario::from_toml(&text, "a.toml", Path::new("."), &overrides)
    };
    assert_eq!(with(&[]).unwrap().notes, Vec::<String>::new());
    let ring = with(&[("job.0.algorithms.all_reduce", "ring")]).unwrap();
    assert_eq!(
        ring.notes,
        [
            "job.0.reduction has no effect: no operation of the job has the algorithm \"in-network\"",
            "reduction has no effect: no job has the algorithm \"in-network\""
        ]
    );
    assert_eq!((ring.spec.reduction, ring.spec.job[0].reduction.as_ref()), (None, None));
    let both = [("job.0.algorithms.all_reduce", "ring"), ("job.0.reduction.outstanding", "5")];
    assert!(
        with(&both).unwrap_err().to_string().contains("has no effect"),
        "the override itself has no effect"
    );
}

#[test]
fn a_job_uses_the_same_roots_alone() {
    let job = "[[job]]\nalgorithms = { all_reduce = \"in-network\" }\n\
               program = { kind = \"collective\", operation = \"all-reduce\", ranks = 8, bytes = \"64 KiB\" }\n";
    let text = |jobs: &str| format!("{COMMON}{TREE}\n{jobs}");
    let second = format!("{job}hosts = \"H[9-16]\"\n");
    let alone = outcome(&text(&second));
    let both = outcome(&text(&format!("{job}{second}")));
    assert_eq!(both.summary.jobs[1].finished_ns, alone.summary.jobs[0].finished_ns, "the jobs share no link");
}

#[test]
fn check_describes_the_network_without_units() {
    let report = scenario(&format!("{COMMON}{TREE}\n{}", all_reduce(16, 1 << 18))).unwrap().check().unwrap();
    assert_eq!((report.hosts, report.links, report.pairs_unroutable), (16, 24, 0));
    let job = &report.jobs[0];
    assert_eq!((job.ranks, job.hosts.len(), job.units), (16, 16, 5));
    assert_eq!(job.bytes, (2 * 16 + 2 * 4) << 18);
}

#[test]
fn invalid_settings_are_reported() {
    let job = all_reduce(16, 1 << 18);
    let says = |text: String, expected: &str| {
        let error = scenario(&text).and_then(|scenario| match scenario.build() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        assert_eq!(error.unwrap_err().split_once(": ").unwrap().1, expected);
    };
    let top = |line: &str, expected: &str| says(format!("{line}\n{COMMON}{TREE}\n{job}"), expected);
    let own = |line: &str, expected: &str| says(format!("{COMMON}{TREE}\n{job}{line}\n"), expected);
    says(
        format!("{COMMON}{TREE}\n[reduction]\ncombining = \"100 ns\"\n"),
        "reduction: has no effect: no job has the algorithm \"in-network\"; set algorithms.all_reduce = \
         \"in-network\" in a [[job]]",
    );
    says(
        format!("{COMMON}{TREE}\n{}reduction = {{ outstanding = 3 }}\n", job.replace("in-network", "ring")),
        "job.0.reduction: has no effect: no operation of the job has the algorithm \"in-network\"; set \
         algorithms.all_reduce or algorithms.barrier",
    );
    top(
        "reduction = { combining = \"1.5 ns\" }",
        "reduction.combining = \"1.5 ns\": must be whole nanoseconds, at most 1 s",
    );
    top(
        "reduction = { link_delay = \"0 s\" }",
        "reduction.link_delay = \"0 s\": must be more than 0 s and at most 1 s",
    );
    top(
        "reduction = { link_rate = \"10 bit/s\" }",
        "reduction.link_rate = \"10 bit/s\": must be at least 1 kbit/s",
    );
    own("reduction = { chunk = \"0 B\" }", "job.0.reduction.chunk = \"0 B\": must be 1 B to 1 GiB");
    own("reduction = { outstanding = 0 }", "job.0.reduction.outstanding = 0: must be 1 or more");
    own(
        "reduction = { root = \"L3.1\" }",
        "job.0.reduction.root = \"L3.1\": no such switch; did you mean `L1.1`? the 6 switches are L1.1 to L2.2",
    );
    own(
        "reduction = { root = \"H1\" }",
        "job.0.reduction.root = \"H1\": is a host; the 6 switches are L1.1 to L2.2",
    );
    let adapters = "cannot be combined with the algorithm \"in-network\": adapters divide vectors into chunks, which \
                    cost no CPU time; leave it out";
    own("overhead = \"1 us\"", &format!("job.0.overhead = \"1 us\": {adapters}"));
    own("copy_rate = \"1 Gbit/s\"", &format!("job.0.copy_rate = \"1 Gbit/s\": {adapters}"));
    own("rendezvous_above = \"1 KiB\"", &format!("job.0.rendezvous_above = \"1 KiB\": {adapters}"));
    let rates = "cannot be combined with the algorithm \"in-network\" of a job: units send and receive at the rate of \
                 their links; leave it out";
    top("host = { drain_rate = \"1 Gbit/s\" }", &format!("host.drain_rate = \"1 Gbit/s\": {rates}"));
    top("host = { injection_rate = \"1 Gbit/s\" }", &format!("host.injection_rate = \"1 Gbit/s\": {rates}"));
    top("host = { message_overhead = \"1 us\" }", &format!("host.message_overhead = \"1 us\": {rates}"));
    let routes = "cannot be combined with the algorithm \"in-network\" of a job, whose units are reached through the \
                  forwarding tables; leave it out";
    top("adaptive_routing = { per = \"packet\" }", &format!("adaptive_routing: {routes}"));
    top("ecmp = {}", &format!("ecmp: {routes}"));
    says(
        format!(
            "{COMMON}topology = {{ kind = \"star\", hosts = 130 }}\n[[job]]\nalgorithms = {{ barrier = \"in-network\" }}\n\
             program = {{ kind = \"collective\", operation = \"barrier\", ranks = 130, groups = 65 }}\n"
        ),
        "job.0.algorithms: more than 64 groups of ranks would use the reduction unit of switch S1; divide the \
         job, or give fewer groups \"in-network\"",
    );
    says(
        format!("{COMMON}topology = {{ kind = \"k-ary-n-fly\", k = 2, n = 3 }}\n{}", all_reduce(4, 100)),
        "job.0.algorithms: no switch is connected with H1 in both directions",
    );
}

/// A network without reduction units, in which warnings are searched, has jobs that use units.
#[test]
fn a_reaction_with_a_round_trip_permits_reduction_units() {
    for mechanism in ["none", "mvcm", "hpcc", "swift", "nscc"] {
        let toml = format!(
            r#"
            duration = "1 us"
            topology = {{ kind = "star" }}
            congestion = {{ mechanism = "{mechanism}" }}
            [[job]]
            program = {{ kind = "collective", ranks = 2, operation = "all-reduce", bytes = "1 KB" }}
            algorithms = {{ all_reduce = "in-network" }}
            "#
        );
        let scenario = Scenario::from_toml(&toml, "test", Path::new("."), &[]).unwrap();
        let mut simulation = scenario.simulation().unwrap();
        while !simulation.advance(1_000).unwrap().done {}
        assert_eq!(simulation.finish().unwrap().summary.jobs.len(), 1, "{mechanism}");
    }
}
