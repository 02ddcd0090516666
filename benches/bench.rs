//! Benchmark of the simulator: packet hops and events per second, time of the setup, and memory.
//!
//! Each case is a shipped scenario, or the scenario that the module [`hadoop`] generates. It runs in a separate process,
//! so that its peak memory can be measured. Right after each case, the same process times a reference loop: the event
//! queue alone, in a steady state of push and pop. If the speed of the machine varies, the ratio of the two rates is
//! more meaningful than each rate.
//!
//! ```text
//! cargo run --release -p silvan-scenario --example bench -- bench.json [CASE...]
//! cargo run --release -p silvan-scenario --example bench -- --one CASE [KEY=VALUE...]
//! cargo run --release -p silvan-scenario --example bench -- --file SCENARIO [KEY=VALUE...]
//! cargo run --release -p silvan-scenario --example bench -- --counted CASE [KEY=VALUE...]
//! cargo run --release -p silvan-scenario --example bench -- --steps CASE THREADS [KEY=VALUE...]
//! cargo run --release -p silvan-scenario --example bench -- --exchange
//! cargo run --release -p silvan-scenario --example bench -- --setups
//! cargo run --release -p silvan-scenario --example bench -- --setup PATTERN
//! cargo run --release -p silvan-scenario --example bench -- --cases
//! ```
//!
//! `--counted` runs two short intervals of a case, for programs that count instructions
//! (`tools/instructions.py`). They count only in the function [`counted`], which is the second interval.
//!
//! `--steps` records the work of each partition between exchanges of messages, and `--exchange` measures what two
//! threads need for an exchange without messages. `tools/predict_threads.py` uses both.
//!
//! `--setup` only sets up a network of 11,664 hosts with a pattern of traffic, and measures time and memory. `--setups` does
//! this for all patterns, and so does a run of all cases.
//!
//! `tools/bench_ratio.py` compares two builds: it asks the newer one for its cases (`--cases`) and runs the
//! newer one's scenario files with both (`--file`). Builds older than `--file` run any file through the
//! case `trees_1024`, which therefore must not change its scenario.

mod hadoop;
mod setups;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use silvan_engine::lockstep::{Lockstep, Separate};
use silvan_engine::memory::HugePages;
use silvan_engine::random::Stream;
use silvan_engine::{Event, EventQueue, Time};
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_scenario::Scenario;

use setups::SETUPS;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// A case: its name in the results, the scenario, and its overrides.
struct Case {
    name: &'static str,
    scenario: &'static str,
    overrides: &'static [(&'static str, &'static str)],
    /// The interval whose instructions are counted. It starts after an equal interval. Empty if the case is too large
    /// for a program that counts instructions.
    interval: &'static str,
}

impl Case {
    /// The overrides of the case. Unless the case sets [`SAMPLER`], another one turns off the sampler of congestion trees.
    fn all_overrides(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_set = self.overrides.iter().any(|(key, _)| *key == SAMPLER);
        self.overrides.iter().copied().chain((!is_set).then_some((SAMPLER, "false")))
    }

    /// Same as [`Self::all_overrides`], as owned strings.
    fn owned_overrides(&self) -> Vec<(String, String)> {
        self.all_overrides().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

const CASES: &[Case] = &[
    Case {
        name: "uniform_648",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[("duration", "5 ms"), ("measure.links", "false")],
        interval: "8 us",
    },
    Case {
        name: "uniform_64",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "k-ary-n-tree"),
            ("topology.k", "4"),
            ("topology.n", "3"),
            ("duration", "40 ms"),
            ("measure.interval", "1 ms"),
            ("measure.links", "false"),
        ],
        interval: "80 us",
    },
    Case {
        name: "uniform_4096",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "k-ary-n-tree"),
            ("topology.k", "16"),
            ("topology.n", "3"),
            ("duration", "0.6 ms"),
            ("measure.links", "false"),
        ],
        interval: "2 us",
    },
    Case {
        name: "uniform_11664",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "three-level-fat-tree"),
            ("topology.radix", "36"),
            ("duration", "0.3 ms"),
            ("measure.links", "false"),
        ],
        interval: "2 us",
    },
    Case {
        name: "hotspot_648",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[("duration", "20 ms"), ("congestion.mechanism", "none")],
        interval: "16 us",
    },
    Case {
        name: "hotspot_648_cc",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[("duration", "20 ms"), ("congestion.mechanism", "ib-cc")],
        interval: "16 us",
    },
    Case {
        name: "forest_648",
        scenario: "papers/common/forest-648.toml",
        overrides: &[("duration", "20 ms"), ("congestion.mechanism", "none"), ("measure.links", "false")],
        interval: "16 us",
    },
    Case {
        name: "forest_648_cc",
        scenario: "papers/common/forest-648.toml",
        overrides: &[("duration", "20 ms"), ("congestion.mechanism", "ib-cc"), ("measure.links", "false")],
        interval: "16 us",
    },
    // The previous case with the sampler of congestion trees, which is off in the other cases.
    Case {
        name: "forest_648_cc_sampled",
        scenario: "papers/common/forest-648.toml",
        overrides: &[
            ("duration", "20 ms"),
            ("congestion.mechanism", "ib-cc"),
            ("measure.links", "false"),
            (SAMPLER, "true"),
        ],
        interval: "16 us",
    },
    Case {
        name: "forest_11664_cc",
        scenario: "papers/common/forest-648.toml",
        overrides: &[
            ("topology.kind", "three-level-fat-tree"),
            ("topology.radix", "36"),
            ("duration", "0.3 ms"),
            ("measure.interval", "50 us"),
        ],
        interval: "5 us",
    },
    Case {
        name: "testbed_cc",
        scenario: "scenarios/testbed.toml",
        overrides: &[("congestion.mechanism", "ib-cc"), ("duration", "5 s")],
        interval: "2 ms",
    },
    mechanism("trees_1024", &[]),
    mechanism("trees_1024_ib_cc", &[("congestion.mechanism", "ib-cc")]),
    mechanism("trees_1024_fbicm", &[("congestion.mechanism", "fbicm")]),
    mechanism("trees_1024_ccfit", &[("congestion.mechanism", "ccfit")]),
    mechanism("trees_1024_hfdi", &[("congestion.mechanism", "hfdi")]),
    mechanism("trees_1024_ecocc", &[("congestion.mechanism", "ecocc")]),
    mechanism(
        "trees_1024_voqnet",
        &[("switch.queues", "per-destination"), ("switch.queue_buffer", "128 KiB")],
    ),
    // The hot phase starts at 55,000 cycles, when 10,000 packets have been delivered.
    Case {
        name: "cioq_512",
        scenario: "scenarios/mvcm-hot-phase.toml",
        overrides: &[("duration", "300_000 cycles"), ("congestion.mechanism", "none")],
        interval: "60_000 cycles",
    },
    Case {
        name: "cioq_512_mvcm",
        scenario: "scenarios/mvcm-hot-phase.toml",
        overrides: &[("duration", "300_000 cycles"), ("congestion.mechanism", "mvcm")],
        interval: "60_000 cycles",
    },
    Case {
        name: "fcfs_512_routes",
        scenario: "scenarios/routes-512.toml",
        overrides: &[("switch.arbitration", "fcfs"), ("duration", "1 ms"), ("warmup", "0 s")],
        interval: "20 us",
    },
    Case {
        name: "hotspot_648_qcn",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[
            ("duration", "20 ms"),
            ("congestion.mechanism", "qcn"),
            ("congestion.marking", "{}"),
            ("congestion.reaction", "{}"),
        ],
        interval: "16 us",
    },
    // Switches, adapters and rates of `roce-dcqcn`, with the traffic of `hotspot-648`.
    Case {
        name: "hotspot_648_dcqcn",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[
            ("duration", "5 ms"),
            ("topology.link_rate", "100 Gbit/s"),
            ("topology.link_delay", "600 ns"),
            ("packet.mtu", "1000 B"),
            ("switch.buffer", "512 KiB"),
            ("host", "{}"),
            ("traffic.0.rate", "20 Gbit/s"),
            ("congestion", DCQCN),
        ],
        interval: "10 us",
    },
    // RDMA over Ethernet with ECMP on the same network: with DCQCN, and with HPCC at half of the injection rate.
    Case {
        name: "dcqcn_648",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[
            ("duration", "5 ms"),
            ("topology.link_rate", "100 Gbit/s"),
            ("topology.link_delay", "600 ns"),
            ("packet.mtu", "1000 B"),
            ("switch.buffer", "512 KiB"),
            ("host", "{}"),
            ("traffic.0.rate", "20 Gbit/s"),
            ("congestion", DCQCN),
            ("ecmp", "{}"),
        ],
        interval: "10 us",
    },
    Case {
        name: "hpcc_648",
        scenario: "scenarios/hotspot-648.toml",
        overrides: &[
            ("duration", "2 ms"),
            ("topology.link_rate", "100 Gbit/s"),
            ("topology.link_delay", "600 ns"),
            ("packet.mtu", "1000 B"),
            ("packet.header", "42 B"),
            ("packet.control", "106 B"),
            ("switch.buffer", "512 KiB"),
            ("host", "{}"),
            ("traffic.0.rate", "20 Gbit/s"),
            ("congestion", HPCC),
            ("ecmp", "{}"),
        ],
        interval: "10 us",
    },
    // The workload of HPCC's evaluation: many flows, pause frames with shared memory, FIFO queues, and acknowledgements of
    // all packets.
    Case {
        name: "hadoop_320_dcqcn",
        scenario: hadoop::FILE,
        overrides: &[("congestion", HADOOP_DCQCN)],
        interval: "40 us",
    },
    Case {
        name: "hadoop_320_hpcc",
        scenario: hadoop::FILE,
        overrides: &[("packet.header", "90 B"), ("packet.control", "88 B"), ("congestion", HADOOP_HPCC)],
        interval: "40 us",
    },
    // Larger flows, which arrive at random, with the sizes of web search.
    Case {
        name: "web_search_128_hpcc",
        scenario: "scenarios/web-search-128.toml",
        overrides: &[],
        interval: "40 us",
    },
    Case {
        name: "web_search_320_hpcc",
        scenario: "scenarios/web-search-320.toml",
        overrides: &[],
        interval: "40 us",
    },
    // Ultra Ethernet: sprayed transfers with the control of sources.
    Case {
        name: "nscc_1024",
        scenario: "scenarios/uec-permutation-1024.toml",
        overrides: &[("measure.interval", "20 us")],
        interval: "2 us",
    },
    Case {
        name: "uniform_65536",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "three-level-fat-tree"),
            ("topology.radix", "64"),
            ("duration", "0.1 ms"),
            ("warmup", "0.02 ms"),
            ("measure.links", "false"),
        ],
        interval: "",
    },
    // A plane of 512 leaves and 256 spines: each host sends 64 KiB to another one.
    Case {
        name: "plane_131072",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology", PLANE),
            ("host", "{}"),
            ("traffic", PERMUTATION),
            ("switch.arbitration", "fcfs"),
            ("duration", "0.1 ms"),
            ("warmup", "0 s"),
            ("measure.interval", "0.1 ms"),
            ("measure.hosts", "false"),
            ("measure.links", "false"),
            ("measure.forest", "false"),
        ],
        interval: "",
    },
    // A layer of experts on 128 hosts with 8 GPUs and ports each.
    Case {
        name: "moe_1024",
        scenario: "scenarios/moe.toml",
        overrides: &[
            ("topology.leaves", "32"),
            ("topology.spines", "32"),
            ("topology.hosts_per_leaf", "32"),
            ("ports.count", "8"),
            ("job.0.ranks_per_host", "8"),
            ("job.0.program.ranks", "1024"),
            ("job.0.program.experts", "1024"),
            ("job.0.program.top_k", "8"),
            ("job.0.program.tokens", "128"),
            ("job.0.program.layers", "1"),
            ("duration", "1 ms"),
        ],
        interval: "",
    },
    // Measured by wall time: `tools/bench_ratio.py` runs these with one thread in the other build.
    Case {
        name: "uniform_4096_2_threads",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "k-ary-n-tree"),
            ("topology.k", "16"),
            ("topology.n", "3"),
            ("duration", "0.6 ms"),
            ("measure.links", "false"),
            ("threads", "2"),
        ],
        interval: "2 us",
    },
    Case {
        name: "uniform_11664_2_threads",
        scenario: "scenarios/uniform-648.toml",
        overrides: &[
            ("topology.kind", "three-level-fat-tree"),
            ("topology.radix", "36"),
            ("duration", "0.3 ms"),
            ("measure.links", "false"),
            ("threads", "2"),
        ],
        interval: "2 us",
    },
];

/// The key that turns the sampler of congestion trees on. Cases run without it unless they set it: its cost depends on
/// the interval, and would hide changes of the model.
const SAMPLER: &str = "measure.forest";

/// The congestion control of `scenarios/roce-dcqcn.toml`.
const DCQCN: &str = r#"{
    marking = { kind = "red", min = "100 kB", max = "400 kB", percent = 20 },
    notification = "cnp",
    coalescing = { interval = "4 us" },
    reaction = { kind = "dcqcn", set = "tuned" }
}"#;

/// The congestion control of `scenarios/roce-hpcc.toml`.
const HPCC: &str = r#"{
    marking = { kind = "telemetry" },
    notification = "ack-each",
    reaction = { kind = "hpcc" }
}"#;

/// The network of the case `plane_131072`, and its traffic: 32 packets of each host.
const PLANE: &str = "{ kind = \"two-level-fat-tree\", leaves = 512, spines = 256, hosts_per_leaf = 256, \
                     link_rate = \"400 Gbit/s\" }";
const PERMUTATION: &str = "[{ name = \"permutation\", pattern = { kind = \"permutation\" }, message = \"64 KiB\", \
                           packets_per_host = 32 }]";

/// DCQCN with acknowledgements of all packets, as in HPCC's evaluation.
const HADOOP_DCQCN: &str = r#"{
    marking = { kind = "red", min = "400 kB", max = "1600 kB", percent = 20 },
    notification = "ack-each",
    reaction = { kind = "dcqcn", set = "tuned" }
}"#;

const HADOOP_HPCC: &str = r#"{
    marking = { kind = "telemetry" },
    notification = "ack-each",
    reaction = { kind = "hpcc", max_stage = 0, round_trip = "12240 ns" }
}"#;

/// A mechanism on the largest network in which it was studied.
const fn mechanism(name: &'static str, overrides: &'static [(&'static str, &'static str)]) -> Case {
    Case { name, scenario: "scenarios/trees-1024.toml", overrides, interval: "20 us" }
}

/// Operations per second of the event queue alone: pop the earliest event, push one that is a packet time
/// later.
fn reference_holds_per_s() -> f64 {
    const PENDING: u32 = 5_000;
    const HOLDS: u32 = 4_000_000;
    let mut random = Stream::new(1, "reference", 0);
    let mut queue = EventQueue::new(Time(256), Time::ZERO);
    for data in 0..PENDING {
        queue.push(Event { time: Time(u64::from(random.below(1_024_000))), key: data, data });
    }
    let start = Instant::now();
    for _ in 0..HOLDS {
        if let Some(event) = queue.pop() {
            let delay = 100_000 + u64::from(random.below(1_024_000));
            queue.push(Event { time: Time(event.time.0 + delay), ..event });
        }
    }
    f64::from(HOLDS) / start.elapsed().as_secs_f64()
}

/// Resident memory of this process in bytes, if the system reports it: now (`VmRSS`) or at its peak (`VmHWM`).
fn resident_bytes(key: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
}

/// Parses overrides (`key=value`).
fn read_overrides(words: &[String]) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let pair = |word: &String| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    words.iter().map(|word| pair(word).ok_or_else(|| format!("`{word}` is not key=value").into())).collect()
}

/// The scenario file of a case, which is written first if it is generated.
fn file_of(case: &Case) -> Result<&'static Path, Box<dyn Error>> {
    if case.scenario == hadoop::FILE {
        hadoop::write()?;
    }
    Ok(Path::new(case.scenario))
}

/// Runs a case. Further overrides, for example to shorten a run for profiling, also skip the reference
/// loop.
fn run_case(case: &Case, more: &[String]) -> Result<Value, Box<dyn Error>> {
    let mut overrides = case.owned_overrides();
    overrides.extend(read_overrides(more)?);
    let mut result = run_file(file_of(case)?, &overrides)?;
    if more.is_empty() {
        let reference = reference_holds_per_s();
        let events_per_s = result["events_per_s"].as_f64().unwrap_or(f64::NAN);
        result["reference_holds_per_s"] = json!(reference.round());
        result["events_per_reference_hold"] = json!(events_per_s / reference);
    }
    Ok(result)
}

/// Runs a scenario file.
fn run_file(file: &Path, overrides: &[(String, String)]) -> Result<Value, Box<dyn Error>> {
    let before = resident_bytes("VmRSS");
    let start = Instant::now();
    let mut simulation = Scenario::load(file, overrides)?.simulation()?;
    let (setup_s, size) = (start.elapsed().as_secs_f64(), simulation.size());
    let after_setup = resident_bytes("VmHWM");
    let start = Instant::now();
    while !simulation.advance(1 << 20)?.done {}
    let wall_s = start.elapsed().as_secs_f64();
    let peak = resident_bytes("VmHWM");
    let summary = simulation.finish()?.summary;
    let per_s = |count: u64| count as f64 / wall_s;
    let mb = |bytes: f64| (bytes * 1e-4).round() / 100.0;
    let per = |count: usize| Some(((peak? - before?) / count as f64).round());
    Ok(json!({
        "packet_hops_per_s": per_s(summary.packet_hops).round(),
        "events_per_s": per_s(summary.events).round(),
        "rss_mb": peak.map(mb),
        "setup_rss_mb": after_setup.map(mb),
        "bytes_per_host": per(size.hosts),
        "bytes_per_link": per(size.links),
        "hosts": size.hosts,
        "links": size.links,
        "setup_s": setup_s,
        "wall_s": wall_s,
        "simulated_s": summary.simulated_ns as f64 * 1e-9,
        "packet_hops": summary.packet_hops,
        "events": summary.events,
    }))
}

/// Sets up a network of 11,664 hosts with a pattern of [`SETUPS`].
fn run_setup(name: &str) -> Result<Value, Box<dyn Error>> {
    let (_, traffic) = SETUPS.iter().find(|(pattern, _)| *pattern == name).ok_or_else(|| {
        let names: Vec<&str> = SETUPS.iter().map(|(pattern, _)| *pattern).collect();
        format!("no pattern `{name}`; the patterns are {}", names.join(", "))
    })?;
    let overrides = [
        ("topology.kind", "three-level-fat-tree"),
        ("topology.radix", "36"),
        ("congestion.mechanism", "ib-cc"),
        ("traffic", &format!("[{{ {traffic} }}]")),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let before = resident_bytes("VmRSS");
    let start = Instant::now();
    let simulation = Scenario::load("scenarios/uniform-648.toml", &overrides)?.simulation()?;
    let setup_s = start.elapsed().as_secs_f64();
    let hosts = simulation.size().hosts as f64;
    let per_host = |key| Some(((resident_bytes(key)? - before?) / hosts).round());
    Ok(json!({
        "setup_s": setup_s,
        "bytes_per_host": per_host("VmRSS"),
        "peak_bytes_per_host": per_host("VmHWM"),
    }))
}

/// Measures all patterns of [`SETUPS`], each in a separate process.
fn run_setups() -> Result<Value, Box<dyn Error>> {
    let mut results = serde_json::Map::new();
    println!("{:<24} {:>8} {:>12} {:>12}", "set-up, 11,664 hosts", "setup s", "bytes/host", "at the peak");
    for (name, _) in SETUPS {
        let value = in_process(&["--setup", name])?;
        let number = |key: &str| value[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<24} {:>8.2} {:>12.0} {:>12.0}",
            name,
            number("setup_s"),
            number("bytes_per_host"),
            number("peak_bytes_per_host")
        );
        results.insert((*name).to_owned(), value);
    }
    Ok(Value::Object(results))
}

/// The result of this program with other arguments, in a separate process.
fn in_process(arguments: &[&str]) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs two equal intervals of a case on one thread, and returns the packet hops of the second, which is the call of
/// [`counted`]. The first fills the network.
fn run_counted(case: &Case, more: &[String]) -> Result<Value, Box<dyn Error>> {
    if case.interval.is_empty() {
        return Err(format!("{} is too large", case.name).into());
    }
    let mut overrides = case.owned_overrides();
    for (key, value) in [("measure.interval", case.interval), ("warmup", "0 s"), ("threads", "1")] {
        overrides.push((key.to_owned(), value.to_owned()));
    }
    overrides.extend(read_overrides(more)?);
    let mut simulation = Scenario::load(file_of(case)?, &overrides)?.simulation()?;
    while !simulation.advance_to_sample(u64::MAX)?.1 {}
    let before = simulation.packet_hops();
    counted(&mut simulation)?;
    Ok(json!({ "packet_hops": simulation.packet_hops() - before }))
}

/// Runs an interval. Programs that count instructions identify it by its name.
#[inline(never)]
fn counted(simulation: &mut Simulation) -> Result<(), ModelError> {
    while !simulation.advance_to_sample(u64::MAX)?.1 {}
    Ok(())
}

/// Runs a case with a number of partitions, one after another on one thread, and returns the work of each in each step.
fn run_steps(case: &Case, threads: &str, more: &[String]) -> Result<Value, Box<dyn Error>> {
    let mut overrides = case.owned_overrides();
    overrides.extend(read_overrides(more)?);
    overrides.push(("threads".to_owned(), threads.to_owned()));
    let mut simulation = Scenario::load(file_of(case)?, &overrides)?.simulation()?;
    simulation.record_steps();
    let start = Instant::now();
    while !simulation.advance(1 << 20)?.done {}
    let wall_s = start.elapsed().as_secs_f64();
    let steps = simulation.steps().ok_or("a case with one partition has no steps")?;
    Ok(json!({
        "wall_s": wall_s,
        "packet_hops": simulation.packet_hops(),
        "events": steps.events().collect::<Vec<_>>(),
        "work_ns": steps.work_ns().collect::<Vec<_>>(),
        "neighbors": steps.neighbors(),
        "rounds": steps.rounds(),
    }))
}

/// Nanoseconds per step of two threads that do nothing but wait for each other, and the additional time per mailbox that
/// both lock in turn, and per counter that each writes and the other reads.
fn measure_exchange() -> Value {
    const STEPS: usize = 200_000;
    const CHUNK: usize = 50;
    const MANY: usize = 64;
    let step_ns = |mailboxes: usize, counters: usize| {
        let steps = Lockstep::new(2);
        // On separate cache lines, like the buffers of messages.
        let mail: Vec<[Mutex<[u64; 14]>; 2]> = (0..mailboxes).map(|_| Default::default()).collect();
        let counts: [Vec<Separate<AtomicUsize>>; 2] =
            std::array::from_fn(|_| (0..counters).map(|_| Separate::default()).collect());
        let work = |me: usize| {
            let mut chunks = Vec::with_capacity(STEPS / CHUNK);
            let mut start = Instant::now();
            for step in 1..=STEPS {
                for pair in &mail {
                    if let Ok(mut mailbox) = pair[(me + step) % 2].lock() {
                        mailbox[0] += 1;
                    }
                }
                for count in &counts[me] {
                    count.0.store(step, Ordering::Release);
                }
                // This fails only if a thread panics.
                let _ = steps.meet(me);
                for count in &counts[1 - me] {
                    if count.0.load(Ordering::Acquire) < step {
                        break;
                    }
                }
                if step % CHUNK == 0 {
                    chunks.push(start.elapsed().as_nanos() as f64 / CHUNK as f64);
                    start = Instant::now();
                }
            }
            chunks.sort_unstable_by(f64::total_cmp);
            // Other programs interrupt some of the chunks.
            chunks[chunks.len() / 4]
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(1));
            work(0)
        })
    };
    let empty = step_ns(0, 0);
    let each = |full: f64| (full - empty) / MANY as f64;
    json!({ "wait_ns": empty, "mailbox_ns": each(step_ns(MANY, 0)), "counter_ns": each(step_ns(0, MANY)) })
}

/// All cases, for a program that runs them with another build.
fn list_cases() -> Result<Value, Box<dyn Error>> {
    let list = CASES.iter().map(|case| {
        file_of(case)?;
        Ok(json!({
            "name": case.name,
            "scenario": case.scenario,
            "overrides": case.all_overrides().collect::<Vec<_>>(),
            "is_counted": !case.interval.is_empty(),
        }))
    });
    Ok(Value::Array(list.collect::<Result<_, Box<dyn Error>>>()?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--cases"] => println!("{}", list_cases()?),
        ["--counted", name, ..] => println!("{}", run_counted(case_named(name)?, &arguments[2..])?),
        ["--steps", name, threads, ..] => {
            println!("{}", run_steps(case_named(name)?, threads, &arguments[3..])?);
        }
        ["--setup", name] => println!("{}", run_setup(name)?),
        ["--setups"] => drop(run_setups()?),
        ["--exchange"] => println!("{}", measure_exchange()),
        ["--one", name, ..] => println!("{}", run_case(case_named(name)?, &arguments[2..])?),
        ["--file", file, ..] => {
            println!("{}", run_file(Path::new(file), &read_overrides(&arguments[2..])?)?);
        }
        [target, wanted @ ..] if !target.starts_with('-') => run_all(target, wanted)?,
        _ => return Err("usage: bench OUTPUT.json [CASE...]".into()),
    }
    Ok(())
}

fn case_named(name: &str) -> Result<&'static Case, Box<dyn Error>> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        format!("no case `{name}`; the cases are {}", names.join(", ")).into()
    })
}

/// Runs cases, each in a separate process, and writes the results to the file `target`. Without selected cases, the set-ups
/// of all patterns follow.
fn run_all(target: &str, wanted: &[&str]) -> Result<(), Box<dyn Error>> {
    wanted.iter().try_for_each(|name| case_named(name).map(drop))?;
    let mut results = serde_json::Map::new();
    println!(
        "{:<24} {:>14} {:>12} {:>9} {:>11} {:>8} {:>8} {:>10} {:>10}",
        "case",
        "packet-hops/s",
        "events/s",
        "wall s",
        "events/hold",
        "setup s",
        "RSS MB",
        "bytes/host",
        "bytes/link"
    );
    for case in CASES.iter().filter(|case| wanted.is_empty() || wanted.contains(&case.name)) {
        let value = in_process(&["--one", case.name])?;
        let number = |key: &str| value[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<24} {:>12.2} M {:>10.2} M {:>9.2} {:>11.2} {:>8.2} {:>8.1} {:>10.0} {:>10.0}",
            case.name,
            number("packet_hops_per_s") * 1e-6,
            number("events_per_s") * 1e-6,
            number("wall_s"),
            number("events_per_reference_hold"),
            number("setup_s"),
            number("rss_mb"),
            number("bytes_per_host"),
            number("bytes_per_link")
        );
        results.insert(case.name.to_string(), value);
    }
    if wanted.is_empty() {
        results.insert("setups".to_owned(), run_setups()?);
    }
    std::fs::write(target, serde_json::to_string_pretty(&Value::Object(results))? + "\n")?;
    println!("written to {target}");
    Ok(())
}
