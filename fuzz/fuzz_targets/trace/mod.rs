//! Properties of every parsed trace: it can be run, and both forms of GOAL represent the same trace.
#![allow(dead_code)]

use silvan_engine::Time;
use silvan_engine::random::Stream;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::read::source::Source;
use silvan_trace::read::{Options, goal, goal_binary};
use silvan_trace::{Kind, Trace, write};

/// Limits that are small enough for every parsed trace to run quickly.
pub fn options() -> Options {
    Options { limit: Some(20_000), ..Options::default() }
}

/// Runs a trace, writes it in both forms, and reads them again.
pub fn check(trace: &Trace) {
    // Mutations often change the number of ranks. Most of a million ranks would do nothing.
    if trace.ranks() > 1000 {
        return;
    }
    let costs = Parameters {
        latency: Time(1_000_003),
        overhead: Time(70_001),
        gap: Time(503),
        gap_per_byte_fs: 80_000,
        overhead_per_byte_fs: 10_000,
        rendezvous_above: 4096,
    };
    let Ok(done) = execute(trace, &costs) else { return };
    assert!(done.messages * 2 <= trace.operations() as u64);
    assert!(done.complete() || !done.stuck.is_empty(), "unfinished operations are reported");
    let mut text = Vec::new();
    // Writing fails if delays need a cpu that is not available.
    if write::text(trace, &mut text).is_err() {
        return;
    }
    let options = Options { limit: options().limit.map(|limit| 2 * limit), ..options() };
    let source = Source::new(&text[..], "again").expect("memory can be read");
    let again = goal::read(source, &options).expect("a written trace can be parsed");
    let mut binary = Vec::new();
    write::binary(&again, &mut binary).expect("delays were converted before");
    let third = goal_binary::read(std::io::Cursor::new(binary), "again", &options);
    let third = third.expect("a written trace can be parsed");
    assert!((0..again.operations()).all(|at| again.operation(at) == third.operation(at)));
    assert_eq!(execute(&again, &costs), execute(&third, &costs));
    let delays = (0..trace.operations()).filter(|&at| trace.operation(at).kind == Kind::Delay).count();
    if delays < 100 {
        let same = execute(&again, &costs).expect("it ends at the same time");
        assert_eq!((same.finished, same.unfinished), (done.finished, done.unfinished));
    }
}

fn number(random: &mut Stream) -> u32 {
    let most = [2, 3, 10, 5000, 100_000][random.below(5) as usize];
    random.below(most)
}

/// GOAL text.
pub fn draw_goal(random: &mut Stream) -> String {
    let ranks = 1 + random.below(5);
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        text += &format!("rank {rank} {{\n");
        let operations = random.below(6);
        for label in 0..operations {
            let (peer, size, tag) = (random.below(ranks), number(random), random.below(3));
            text += &match random.below(4) {
                0 => format!("l{label}: calc {size} cpu {tag}\n"),
                1 => format!("l{label}: send {size}b to {peer} tag {tag}\n"),
                2 => format!("l{label}: recv {size}b from -1 tag -1\n"),
                _ => format!("l{label}: recv {size}b from {peer} tag {tag} cpu {tag} nic 0\n"),
            };
            if label > 0 {
                let word = if random.chance(1, 3) { "irequires" } else { "requires" };
                text += &format!("l{label} {word} l{}\n", random.below(label));
            }
        }
        text += "}\n";
    }
    text
}

/// Actions of time-independent traces, of the same kind in all ranks.
pub fn draw_ti(random: &mut Stream) -> String {
    let ranks = 1 + random.below(5);
    let mut text = String::new();
    for _ in 0..1 + random.below(6) {
        let (count, root) = (number(random), random.below(ranks));
        let list = vec![count.to_string(); ranks as usize].join(" ");
        let kind = random.below(12);
        for rank in 0..ranks {
            let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            text += &match kind {
                0 => format!("{rank} init\n{rank} irecv {before} 1 {count}\n{rank} isend {next} 1 {count}\n{rank} waitall\n"),
                1 => format!("{rank} compute {count}e3\n{rank} sleep 1e-6\n"),
                2 => format!("{rank} bcast {count} {root} 1\n"),
                3 => format!("{rank} allreduce {count} {count}\n"),
                4 => format!("{rank} alltoall {count} {count}\n{rank} barrier\n"),
                5 => format!("{rank} allgatherv {count} {list}\n"),
                6 => format!("{rank} reducescatter {list} 100 0\n"),
                7 => format!("{rank} alltoallv 0 {list} 0 {list} 1 1\n"),
                8 => format!("{rank} gather {count} {count} {root} 0 0\n{rank} scatterv {list} {count} {root} 2 2\n"),
                9 => format!("{rank} sendRecv {count} {next} {count} {before} 6 6\n"),
                10 => format!("{rank} scan {count} 5\n{rank} reduce {count} 5 {root}\n"),
                _ => format!("{rank} irecv -1 -1 -1\n{rank} send {next} 0 {count}\n{rank} wait {before} {rank} 0\n"),
            };
        }
    }
    text
}

/// VEF: messages that wait for the previous one, followed by collective operations.
pub fn draw_vef(random: &mut Stream) -> String {
    let tasks = 1 + random.below(4);
    let (messages, collectives) = (random.below(5), random.below(3));
    let mut text = format!("VEF {tasks} {messages} 1 {collectives} {} FALSE\nC0", collectives * tasks);
    (0..tasks).for_each(|task| text += &format!(" {task}"));
    let mut holder = random.below(tasks);
    for id in 0..messages {
        let (to, time) = (random.below(tasks), number(random));
        let (kind, of) = if id == 0 { (0, -1) } else { (2, i64::from(id) - 1) };
        text += &format!("\n{id} {holder} {to} {} {kind} {time} {of}", number(random));
        holder = to;
    }
    for id in 0..collectives {
        let (operation, bytes) = (random.below(8), number(random));
        for task in 0..tasks {
            let (kind, of) = if id == 0 { (0, -1) } else { (3, i64::from(id) - 1) };
            text += &format!("\nG{id} 0 {operation} {task} {bytes} {bytes} {kind} 5 {of}");
        }
    }
    text + "\n"
}

/// A recording of MPI calls.
pub fn draw_hpcc(random: &mut Stream) -> String {
    let ranks = 1 + random.below(4);
    let mut text = format!("# HPCC 1.5.0 section X, {ranks} ranks, one machine\n");
    let members: Vec<String> = (0..ranks).rev().map(|rank| rank.to_string()).collect();
    for _ in 0..1 + random.below(5) {
        let (kind, bytes, time) = (random.below(7), number(random), i64::from(number(random)) - 1000);
        for rank in 0..ranks {
            let (next, before, end) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks, time + 10);
            text += &match kind {
                0 => format!("{rank} {time} {end} Allreduce bytes {bytes} comm 0 size {ranks}\n"),
                1 => format!("{rank} {time} {end} Bcast root 0 bytes {bytes} comm 3 size {ranks}\n"),
                2 => format!("{rank} {time} {end} Comm_split parent 0 new 3 members {}\n", members.join(" ")),
                3 => format!(
                    "{rank} {time} {end} Sendrecv dst {next} bytes {bytes} tag 0 src {before} rbytes {bytes} rtag 0 comm 0\n"
                ),
                4 => format!(
                    "{rank} {time} {end} Irecv src {before} maxbytes {bytes} tag 7 comm 0 req a\n\
                     {rank} {time} {end} Isend dst {next} bytes {bytes} tag 7 comm 0 req b\n\
                     {rank} {time} {end} Waitall n 2 a b\n"
                ),
                5 => format!("{rank} {time} {end} Alltoall bytes_per_peer {bytes} comm 0 size {ranks}\n"),
                _ => format!("{rank} {time} {end} Barrier comm 0 size {ranks}\n"),
            };
        }
    }
    text
}

/// A text workload: layers with operations that the policy has.
pub fn draw_workload(random: &mut Stream) -> String {
    const POLICIES: [(&str, [bool; 3]); 6] = [
        ("HYBRID_TRANSFORMER", [true; 3]),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", [true; 3]),
        ("DATA", [false, false, true]),
        ("MODEL", [true, true, false]),
        ("MICRO", [false, false, true]),
        ("DISTRIBUTED_INFERENCE", [true, false, false]),
    ];
    let kind = random.below(6) as usize;
    let (policy, communicates) = POLICIES[kind];
    let (tensor, experts, replicas, stages) =
        (1 + random.below(3), 1 + random.below(2), 1 + random.below(2), 1 + random.below(2));
    let ranks = tensor * experts * replicas * stages;
    let layers = 1 + random.below(4);
    let mut text = format!(
        "{policy} model_parallel_NPU_group: {tensor} ep: {experts} pp: {stages} vpp: 1 ga: 2 all_gpus: {ranks} \
         checkpoints: 1 0 checkpoint_initiates: 1 {} pp_comm {}\n{layers}\n",
        random.below(layers),
        number(random)
    );
    for layer in 0..layers {
        text += &format!("l{layer} -1");
        for pass in communicates {
            let operation = ["NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BROADCAST"]
                [random.below(6) as usize];
            let suffix = if kind < 2 { ["", "_EP", "_DP_EP"][random.below(3) as usize] } else { "" };
            let (operation, suffix) =
                if pass && operation != "NONE" { (operation, suffix) } else { ("NONE", "") };
            text += &format!(" {} {operation}{suffix} {}", number(random), number(random));
        }
        text += &format!(" {}\n", number(random));
    }
    text
}
