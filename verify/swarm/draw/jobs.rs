//! Jobs in addition to the other traffic. They use a separate random stream, so that scenarios without jobs
//! do not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::{Draw, bytes, int, kind, put};

/// A trace of four ranks.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/traces/exchange.goal");

const ALGORITHMS: [(&str, &str, &[&str]); 10] = [
    (
        "all-reduce",
        "all_reduce",
        &["recursive-doubling", "ring", "recursive-halving", "binomial", "double-tree"],
    ),
    ("all-gather", "all_gather", &["ring", "recursive-doubling", "bruck", "pat"]),
    ("reduce-scatter", "reduce_scatter", &["pairwise", "ring", "recursive-halving", "pat"]),
    ("all-to-all", "all_to_all", &["pairwise", "bruck", "linear"]),
    ("broadcast", "broadcast", &["binomial", "ring", "linear"]),
    ("reduce", "reduce", &["binomial", "linear"]),
    ("gather", "gather", &["binomial", "linear"]),
    ("scatter", "scatter", &["binomial", "linear"]),
    ("barrier", "barrier", &["dissemination", "recursive-doubling", "binomial"]),
    ("scan", "scan", &["recursive-doubling", "linear"]),
];

/// Properties of the scenario that its jobs need.
pub struct Around {
    pub hosts: Vec<String>,
    pub switches: Vec<String>,
    /// In ps.
    pub duration: u64,
    pub mtu: u64,
    /// Number of service levels.
    pub levels: u64,
}

/// Replaces the program of a job by a collective operation in the network, and returns the settings of the
/// reduction units. The random stream is separate, so that all other jobs do not change.
pub fn reduction(seed: u64, around: &Around, job: &mut Table) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm reduction", 0), cycle: None, is_crowd: false };
    for key in ["overhead", "copy_rate", "rendezvous_above", "protocol", "nccl"] {
        job.remove(key);
    }
    draw.reduced(around, job);
    draw.units()
}

/// Makes a mixture of experts or an all-reduce use that consecutive ranks share a host, if hosts have the same number of ranks.
fn by_host(job: &mut Table, per_host: u64) {
    let Some(program) = job.get_mut("program").and_then(Value::as_table_mut) else { return };
    let ranks = program.get("ranks").and_then(Value::as_integer).unwrap_or(1);
    let is_all_reduce = program.get("operation").and_then(Value::as_str) == Some("all-reduce");
    if ranks % per_host as i64 != 0 {
        return;
    }
    if program.contains_key("top_k") {
        put(program, "dispatch", "host");
    } else if is_all_reduce && !program.contains_key("groups") {
        let mut chosen = Table::new();
        put(&mut chosen, "all_reduce", "hierarchical");
        put(job, "algorithms", Value::Table(chosen));
    }
}

/// One or two jobs.
pub fn jobs(seed: u64, around: &Around) -> Vec<Value> {
    let mut draw = Draw { random: Stream::new(seed, "swarm jobs", 0), cycle: None, is_crowd: false };
    let count = if around.hosts.len() > 3 && draw.chance(30) { 2 } else { 1 };
    let each = (around.hosts.len() as u64 / count).max(1);
    let mut jobs: Vec<Table> = (0..count).map(|_| draw.job(around, each)).collect();
    let mut draw = Draw { random: Stream::new(seed, "swarm models", 0), cycle: None, is_crowd: false };
    jobs.iter_mut().for_each(|job| draw.model(job, each));
    jobs.into_iter().map(Value::Table).collect()
}

/// Lets the switch between the ranks of each host combine and copy the data of all-reduces, all-gathers and reduce-scatters in
/// some jobs, whose ranks have links to each other.
pub fn combine_in_hosts(seed: u64, jobs: &mut [Value]) {
    let mut draw =
        Draw { random: Stream::new(seed, "swarm switches of hosts", 0), cycle: None, is_crowd: false };
    let mut of_blocks =
        Draw { random: Stream::new(seed, "swarm switches of blocks", 0), cycle: None, is_crowd: false };
    for job in jobs.iter_mut().filter_map(Value::as_table_mut) {
        let per_host = job.get("ranks_per_host").and_then(Value::as_integer).unwrap_or(1).max(2);
        let program = job.get_mut("program").and_then(Value::as_table_mut);
        let Some(program) = program.filter(|program| program.contains_key("operation")) else { continue };
        let ranks = program.get("ranks").and_then(Value::as_integer).unwrap_or(1);
        if ranks < per_host || !draw.chance(40) {
            continue;
        }
        // Each host has the same number of ranks.
        put(program, "ranks", int((ranks - ranks % per_host) as u64));
        let is_blocks = of_blocks.chance(40);
        let operation =
            if is_blocks { of_blocks.pick(&["all-gather", "reduce-scatter"]) } else { "all-reduce" };
        put(program, "operation", operation);
        if !program.contains_key("bytes") {
            put(program, "bytes", "3000 B");
        }
        program.remove("groups");
        if is_blocks {
            // Each group has a host.
            put(program, "groups", int((ranks / per_host) as u64));
        }
        put(job, "ranks_per_host", int(per_host as u64));
        for key in ["overhead", "copy_rate", "sharing", "protocol", "algorithms"] {
            job.remove(key);
        }
        if let Some(nccl) = job.get_mut("nccl").and_then(Value::as_table_mut) {
            put(nccl, "nvls", true);
        } else {
            let mut chosen = Table::new();
            put(&mut chosen, &operation.replace('-', "_"), "nvls");
            put(job, "algorithms", Value::Table(chosen));
        }
    }
}

/// Settings of hosts with several ports.
pub fn host_ports(seed: u64) -> Table {
    let mut draw = Draw { random: Stream::new(seed, "swarm host ports", 0), cycle: None, is_crowd: false };
    let mut ports = Table::new();
    let count = draw.range(2, 4);
    put(&mut ports, "count", int(count));
    let wiring = draw.pick(&["planes", "rails", "block"]);
    put(&mut ports, "wiring", wiring);
    let used = draw.pick(&["rank", "hash", "stripe", "spray"]);
    if draw.chance(80) {
        put(&mut ports, "use", used);
        if used == "rank" && draw.chance(60) {
            let arrival = if wiring == "planes" { "same" } else { draw.pick(&["own", "same"]) };
            put(&mut ports, "arrival", arrival);
        }
    }
    if draw.chance(50) {
        let rate = draw.range(1, 4_000) * 1_000_000_000;
        put(&mut ports, "inner_rate", draw.rate(rate));
        if draw.chance(50) {
            let latency = draw.below(2_000_000);
            put(&mut ports, "inner_latency", draw.time(latency));
        }
        let is_own = wiring != "planes" && ports.get("arrival").and_then(Value::as_str) != Some("same");
        let is_rank = ports.get("use").is_none_or(|given| given.as_str() == Some("rank"));
        if is_own && is_rank && draw.chance(60) {
            let cross = draw.pick(&["inner", "inner", "network"]);
            put(&mut ports, "cross", cross);
            if cross == "inner" && draw.chance(70) {
                put(&mut ports, "relay_part", bytes(draw.range(1, 20_000)));
            }
        }
    }
    if draw.chance(40) {
        let rate = draw.range(1, 200) * 1_000_000_000;
        put(&mut ports, "injection_rate", draw.rate(rate));
    }
    ports
}

/// Failures of ports of a host, all but one at most, as events, and the time until messages move to other ports.
pub fn port_failures(seed: u64, ports: &[&str], duration: u64) -> (Vec<Value>, Option<Value>) {
    let mut draw = Draw { random: Stream::new(seed, "swarm port failures", 0), cycle: None, is_crowd: false };
    let first = draw.below(ports.len() as u64) as usize;
    let count = draw.range(1, ports.len() as u64 - 1) as usize;
    let failed = ports.iter().cycle().skip(first).take(count);
    let events = failed.map(|port| {
        let mut event = kind("down");
        put(&mut event, "links", *port);
        let start = draw.below(duration / 2);
        put(&mut event, "start", draw.time(start));
        if draw.chance(60) {
            let lasts = draw.range(1, duration / 3);
            put(&mut event, "lasts", draw.time(lasts));
            if draw.chance(40) {
                put(&mut event, "every", draw.time(lasts + duration / 8));
            }
        }
        Value::Table(event)
    });
    let events = events.collect();
    let wait = draw.pick(&[0, duration / 1_000, duration / 30]);
    (events, draw.chance(85).then(|| draw.time(wait)))
}

impl Draw {
    fn reduced(&mut self, around: &Around, job: &mut Table) {
        let mut algorithms = Table::new();
        for key in ["all_reduce", "barrier"] {
            put(&mut algorithms, key, "in-network");
        }
        put(job, "algorithms", Value::Table(algorithms));
        let own = job.get("program").and_then(|program| program.get("ranks")).and_then(Value::as_integer);
        let ranks = own.unwrap_or(2).clamp(1, around.hosts.len() as i64);
        let mut program = kind("collective");
        put(&mut program, "ranks", Value::Integer(ranks));
        if ranks % 2 == 0 && self.chance(30) {
            put(&mut program, "groups", int(2));
        }
        if self.chance(70) {
            put(&mut program, "operation", "all-reduce");
            let size = self.range(1, 12 * around.mtu);
            put(&mut program, "bytes", bytes(size));
        } else {
            put(&mut program, "operation", "barrier");
        }
        let iterations = self.range(1, 3);
        put(&mut program, "iterations", int(iterations));
        put(job, "program", Value::Table(program));
        let mut reduction = Table::new();
        if self.chance(50) {
            let chunk = self.range(1.max(around.mtu / 4), 3 * around.mtu);
            put(&mut reduction, "chunk", bytes(chunk));
        }
        if self.chance(70) {
            let outstanding = self.range(1, 8);
            put(&mut reduction, "outstanding", int(outstanding));
        }
        if self.chance(30) {
            let root = self.below(around.switches.len() as u64) as usize;
            put(&mut reduction, "root", around.switches[root].clone());
        }
        if !reduction.is_empty() {
            put(job, "reduction", Value::Table(reduction));
        }
    }

    fn units(&mut self) -> Table {
        let mut units = Table::new();
        if self.chance(50) {
            let combining = self.below(1_000) * 1_000;
            let combining = self.time(combining);
            put(&mut units, "combining", combining);
        }
        if self.chance(50) {
            let rate = self.range(1, 400) * 1_000_000_000;
            let rate = self.rate(rate);
            put(&mut units, "link_rate", rate);
        }
        if self.chance(50) {
            let delay = self.range(1, 100_000);
            let delay = self.time(delay);
            put(&mut units, "link_delay", delay);
        }
        units
    }

    /// Adds backward passes to a mixture of experts, replaces some programs by inference, and lets NCCL's cost model choose.
    fn model(&mut self, job: &mut Table, hosts: u64) {
        let per_host = job.get("ranks_per_host").and_then(Value::as_integer).unwrap_or(1) as u64;
        let most = (hosts * per_host).min(12);
        if most >= 2 && self.chance(8) {
            job.remove("algorithms");
            let mut program = self.inference(most);
            if self.chance(40) {
                self.batch_continuously(&mut program);
            }
            put(job, "program", Value::Table(program));
        }
        if let Some(program) = job.get_mut("program").and_then(Value::as_table_mut)
            && program.contains_key("top_k")
            && self.chance(50)
        {
            let ranks = program.get("ranks").and_then(Value::as_integer).unwrap_or(1) as u64;
            if self.chance(50) {
                let copies = ranks * self.range(1, 2);
                put(program, "redundant", int(copies));
            }
            if self.chance(40) {
                put(program, "placement", "balanced");
            }
            let is_backward = self.chance(80);
            put(program, "backward", is_backward);
            for key in ["gradient_bytes", "shared_gradients"] {
                if is_backward && self.chance(60) {
                    let size = self.below(2_000);
                    put(program, key, bytes(size));
                }
            }
        }
        let is_cyclic = job.get("sharing").and_then(Value::as_str) == Some("cyclic");
        if !job.contains_key("protocol") && !is_cyclic && self.chance(30) {
            let mut nccl = Table::new();
            if self.chance(50) {
                put(&mut nccl, "gpu", self.word(&["volta", "ampere", "hopper", "blackwell"]));
            }
            if self.chance(30) {
                put(&mut nccl, "cpu", self.word(&["intel", "amd"]));
            }
            for key in ["bandwidth", "inner_bandwidth"] {
                if self.chance(20) {
                    let rate = self.range(1, 4_000) * 1_000_000_000;
                    put(&mut nccl, key, self.rate(rate));
                }
            }
            if self.chance(50) {
                put(&mut nccl, "channels", int(self.range(1, 64)));
            }
            if self.chance(30) {
                put(&mut nccl, "protocols", vec![self.word(&["simple", "ll", "ll128"])]);
            }
            if self.chance(30) {
                put(&mut nccl, "nvls", false);
            }
            put(job, "nccl", Value::Table(nccl));
        }
        let is_in_network = job
            .get("algorithms")
            .and_then(Value::as_table)
            .is_some_and(|chosen| chosen.values().any(|name| name.as_str() == Some("in-network")));
        if !is_in_network && !is_cyclic && self.chance(20) {
            let set = self.word(&["nccl", "simai-1.7"]);
            put(job, "latencies", set);
        }
    }

    /// Batches the requests of an inference continuously.
    fn batch_continuously(&mut self, program: &mut Table) {
        put(program, "prefill", int(0));
        for key in ["prefill_tensor", "kv_bytes", "transfer"] {
            program.remove(key);
        }
        let mut continuous = Table::new();
        put(&mut continuous, "token_budget", int(self.range(3, 40)));
        if self.chance(50) {
            let rate = self.range(1, 400) * 1_000_000_000;
            put(&mut continuous, "planned_rate", self.rate(rate));
        }
        if self.chance(50) {
            for key in ["requests", "interval", "prompt", "output"] {
                program.remove(key);
            }
            let mut at = 0;
            let arrivals = (0..self.range(1, 5)).map(|_| {
                let mut request = Table::new();
                at += self.below(2_000) * 1_000;
                put(&mut request, "at", self.time(at));
                put(&mut request, "prompt", int(self.range(1, 60)));
                put(&mut request, "output", int(self.range(1, 3)));
                Value::Table(request)
            });
            let arrivals: Vec<Value> = arrivals.collect();
            put(&mut continuous, "arrivals", arrivals);
        }
        put(program, "continuous", Value::Table(continuous));
    }

    fn inference(&mut self, most: u64) -> Table {
        let mut program = kind("inference");
        let ranks = self.range(1, most - 1);
        for (number, tensor, ranks) in
            [("prefill", "prefill_tensor", ranks), ("decode", "decode_tensor", most - ranks)]
        {
            let instances = self.range(1, ranks);
            put(&mut program, number, int(instances));
            put(&mut program, tensor, int(ranks / instances));
        }
        for (key, least, largest) in [
            ("layers", 1, 3),
            ("hidden", 1, 200),
            ("requests", 1, 5),
            ("prompt", 1, 30),
            ("output", 1, 3),
            ("batch", 1, 3),
        ] {
            put(&mut program, key, int(self.range(least, largest)));
        }
        let size = self.below(2_000);
        put(&mut program, "kv_bytes", bytes(size));
        for key in ["interval", "prefill_compute", "decode_compute"] {
            let time = self.below(2_000) * 1_000;
            let time = self.time(time);
            put(&mut program, key, time);
        }
        let transfer = self.word(&["whole", "layers"]);
        put(&mut program, "transfer", transfer);
        program
    }

    fn job(&mut self, around: &Around, hosts: u64) -> Table {
        let mut job = Table::new();
        let per_host = if self.chance(20) { self.range(2, 3) } else { 1 };
        let most = (hosts * per_host).min(12);
        if self.chance(50) {
            let name = format!("job {}", self.below(1 << 20));
            put(&mut job, "name", name);
        }
        let program = self.program(around, most, &mut job);
        put(&mut job, "program", Value::Table(program));
        if per_host > 1 {
            put(&mut job, "ranks_per_host", int(per_host));
            if self.chance(60) {
                let sharing = self.word(&["block", "cyclic"]);
                put(&mut job, "sharing", sharing);
            }
        }
        if per_host > 1 && !job.contains_key("sharing") && self.chance(50) {
            by_host(&mut job, per_host);
        }
        if self.chance(20) {
            let protocol = self.word(&["simple", "ll", "ll128"]);
            put(&mut job, "protocol", protocol);
        }
        if self.chance(40) {
            put(&mut job, "hosts", self.shuffled(&around.hosts));
        }
        if self.chance(60) {
            let placement = self.word(&["linear", "round-robin", "random"]);
            put(&mut job, "placement", placement);
        }
        if self.chance(30) {
            let start = self.range(1, around.duration / 2);
            let start = self.time(start);
            put(&mut job, "start", start);
        }
        if self.chance(30) {
            let level = self.below(around.levels.max(1));
            put(&mut job, "sl", int(level));
        }
        if self.chance(40) {
            let overhead = self.range(1, 3_000_000);
            let overhead = self.time(overhead);
            put(&mut job, "overhead", overhead);
        }
        if self.chance(20) {
            let rate = self.range(1, 100) * 1_000_000_000;
            let rate = self.rate(rate);
            put(&mut job, "copy_rate", rate);
        }
        if self.chance(40) {
            let above = self.range(0, 3 * around.mtu);
            put(&mut job, "rendezvous_above", bytes(above));
        }
        if self.chance(30) {
            let sends = self.word(&["interleaved", "sequential"]);
            put(&mut job, "sends", sends);
        }
        if self.chance(20) {
            let rate = self.range(1, 100) * 1_000_000_000;
            let rate = self.rate(rate);
            put(&mut job, "memory_rate", rate);
        }
        if self.chance(30) {
            let mut pairs = Table::new();
            let count = self.range(1, 8);
            put(&mut pairs, "count", int(count));
            let is_sequential = job.get("sends").and_then(Value::as_str) == Some("sequential");
            if count > 1 && !is_sequential && self.chance(70) {
                put(&mut pairs, "split", self.chance(70));
            }
            put(&mut job, "queue_pairs", pairs);
        }
        job
    }

    fn program(&mut self, around: &Around, most: u64, job: &mut Table) -> Table {
        let size = self.range(1, 6 * around.mtu);
        match self.below(10) {
            0 | 1 if most >= 4 => {
                let mut program = kind("trace");
                put(&mut program, "file", TRACE);
                if self.chance(50) {
                    put(&mut program, "format", "goal");
                }
                for key in ["time_scale", "compute_scale"] {
                    if self.chance(30) {
                        put(&mut program, key, Value::Float(0.5 + self.below(4) as f64));
                    }
                }
                if self.chance(20) {
                    put(&mut program, "host_flops", Value::Float(1e9));
                }
                if self.chance(20) {
                    put(&mut program, "host_bandwidth", "100 GB/s");
                }
                program
            }
            2 if most >= 2 => self.kernel(most),
            3 if most >= 2 => self.transformer(most),
            4 if most >= 2 => self.moe(most),
            _ => {
                let mut program = kind("collective");
                let (operation, key, algorithms) = self.pick(&ALGORITHMS);
                put(&mut program, "operation", operation);
                // Some algorithms need a power of two.
                let ranks = self.range(1, most);
                let ranks = if self.chance(60) { 1 << ranks.ilog2() } else { ranks };
                put(&mut program, "ranks", int(ranks));
                if ranks % 2 == 0 && self.chance(30) {
                    put(&mut program, "groups", int(2));
                }
                if operation != "barrier" {
                    put(&mut program, "bytes", bytes(size));
                }
                if self.chance(50) {
                    let iterations = self.range(1, 4);
                    put(&mut program, "iterations", int(iterations));
                }
                if self.chance(30) {
                    let compute = self.range(1, 2_000) * 1_000;
                    let compute = self.time(compute);
                    put(&mut program, "compute", compute);
                }
                if self.chance(70) {
                    let mut chosen = Table::new();
                    let algorithm = self.word(algorithms);
                    let is_tree = algorithm.as_str() == Some("double-tree");
                    let is_divided = ["all_reduce", "all_gather", "reduce_scatter"].contains(&key);
                    let is_ring = is_divided && algorithm.as_str() == Some("ring");
                    put(&mut chosen, key, algorithm);
                    if is_ring && self.chance(40) {
                        put(&mut chosen, "channels", int(self.range(1, 6)));
                    }
                    if is_tree && self.chance(70) {
                        let chunk = self.range(1.max(size / 20), size);
                        put(&mut chosen, "chunk", bytes(chunk));
                    }
                    put(job, "algorithms", Value::Table(chosen));
                }
                program
            }
        }
    }

    fn kernel(&mut self, most: u64) -> Table {
        let mut program = kind("hpc-challenge");
        let kernels = ["ping-pong", "natural-ring", "random-ring", "ptrans", "hpl", "fft", "random-access"];
        let kernel = self.word(&kernels);
        put(&mut program, "kernel", kernel);
        let ranks = 1 << self.range(2, most).ilog2();
        put(&mut program, "ranks", int(ranks));
        put(&mut program, "bytes", int(self.below(20_000)));
        put(&mut program, "iterations", int(self.range(1, 2)));
        put(&mut program, "pairs", int(self.range(1, 4)));
        put(&mut program, "n", int(64));
        put(&mut program, "nb", int(16));
        put(&mut program, "points", int(1 << 10));
        put(&mut program, "messages", int(self.range(1, 20)));
        put(&mut program, "flops", Value::Float(1e10));
        put(&mut program, "seed", int(self.below(1000)));
        if self.chance(30) {
            put(&mut program, "blocking", self.chance(50));
        }
        program
    }

    fn moe(&mut self, most: u64) -> Table {
        let mut program = kind("moe");
        let ranks = self.range(2, most);
        let each = self.range(1, 3);
        put(&mut program, "ranks", int(ranks));
        put(&mut program, "experts", int(ranks * each));
        put(&mut program, "top_k", int(self.range(1, 2)));
        put(&mut program, "tokens", int(self.range(2, 60)));
        for key in ["dispatch_bytes", "combine_bytes"] {
            let size = self.below(1_000);
            put(&mut program, key, bytes(size));
        }
        put(&mut program, "layers", int(self.range(1, 2)));
        if self.chance(70) {
            put(&mut program, "zipf", Value::Float(self.below(9) as f64 / 4.0));
        } else {
            let weights = (0..ranks * each).map(|_| Value::Float(self.range(1, 9) as f64));
            let weights: Vec<Value> = weights.collect();
            put(&mut program, "weights", weights);
        }
        for key in ["shuffle", "overlap"] {
            put(&mut program, key, self.chance(50));
        }
        for key in ["expert_compute", "other_compute"] {
            let compute = self.below(2_000) * 1_000;
            let compute = self.time(compute);
            put(&mut program, key, compute);
        }
        let placement = self.word(&["contiguous", "round-robin"]);
        put(&mut program, "placement", placement);
        put(&mut program, "dispatch", "rank");
        program
    }

    fn transformer(&mut self, most: u64) -> Table {
        let mut program = kind("transformer");
        let (tensor, context, pipeline, data) = match most {
            8.. => self.pick(&[(2, 1, 2, 2), (2, 2, 1, 2), (1, 4, 2, 1)]),
            4.. => self.pick(&[(2, 1, 2, 1), (1, 1, 2, 2), (4, 1, 1, 1), (1, 2, 2, 1)]),
            _ => self.pick(&[(2, 1, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2), (1, 2, 1, 1)]),
        };
        for (key, value) in [
            ("layers", 2),
            ("hidden", 16),
            ("feed_forward", 32),
            ("vocabulary", 100),
            ("sequence", 16),
            ("micro_batch", 1),
            ("micro_batches", 2),
            ("bytes", 2),
            ("gradient_bytes", 4),
            ("tensor", tensor),
            ("context", context),
            ("pipeline", pipeline),
            ("data", data),
            ("steps", 1),
        ] {
            put(&mut program, key, int(value));
        }
        put(&mut program, "flops", Value::Float(1e13));
        program
    }
}
