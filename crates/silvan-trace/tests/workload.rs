//! Text workloads of SimAI and ASTRA-sim: groups, order, bytes and times in closed form.

use silvan_engine::{Rate, Time};
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::read::source::Source;
use silvan_trace::read::{Format, Options, read, workload};
use silvan_trace::{Kind, Operation, Trace};

/// Two layers with tensor parallelism in forward and backward passes, and data parallelism.
const TWO: &str = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 2 ga: 1 all_gpus: 4\n2\n\
    attention -1 5000 ALLREDUCE 4096 4000 ALLREDUCE 4096 3000 NONE 0 10\n\
    mlp\t-1\t7000\tNONE\t0\t6000\tNONE\t0\t2000\tALLREDUCE\t65536\t20\n";

fn with(text: &str, options: &Options) -> Trace {
    workload::read(Source::new(text.as_bytes(), "t").unwrap(), options).unwrap()
}

fn of(text: &str) -> Trace {
    with(text, &Options::default())
}

fn operations(trace: &Trace, rank: u32, kind: Kind) -> Vec<Operation> {
    trace.of_rank(rank).map(|at| trace.operation(at)).filter(|operation| operation.kind == kind).collect()
}

fn sizes(trace: &Trace, rank: u32, kind: Kind) -> Vec<u64> {
    operations(trace, rank, kind).iter().map(|operation| operation.size).collect()
}

/// The peers to which a rank sends, in the order of its messages.
fn peers(trace: &Trace, rank: u32) -> Vec<u32> {
    operations(trace, rank, Kind::Send).iter().map(|operation| operation.peer).collect()
}

/// Duration in ps with a time per byte and no other costs.
fn span(trace: &Trace, rate: Option<Rate>) -> u64 {
    let gap_per_byte_fs = rate.map_or(0, Parameters::gap_of);
    let done = execute(trace, &Parameters { gap_per_byte_fs, ..Parameters::default() }).unwrap();
    assert!(done.complete(), "{:?}", done.stuck);
    assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
    let Time(span) = done.span;
    span
}

#[test]
fn two_layers_on_two_by_two_ranks() {
    let trace = of(TWO);
    assert_eq!((trace.ranks(), trace.notes.as_slice()), (4, &[][..]));
    for rank in 0..4 {
        // Forward through both layers, then backward: gradients of inputs, and of weights.
        assert_eq!(sizes(&trace, rank, Kind::Calc), [5000, 7000, 6000, 2000, 4000, 3000]);
        assert_eq!(sizes(&trace, rank, Kind::Delay), [10, 20, 10]);
        // Recursive doubling of two ranks is one exchange. Ranks 0 and 1 share a tensor-parallel group, and ranks
        // 0 and 2 a data-parallel group.
        assert_eq!(sizes(&trace, rank, Kind::Send), [4096, 65536, 4096]);
        assert_eq!(peers(&trace, rank), [rank ^ 1, rank ^ 2, rank ^ 1]);
        assert_eq!(trace.of_rank(rank).len(), 6 + 3 + 2 * 3);
    }
    // Without costs of communication: all computations, and the updates for which a rank waits.
    assert_eq!(span(&trace, None), (27_000 + 2 * 10) * 1000);
    let doubled = with(TWO, &Options { time_scale: 2.0, ..Options::default() });
    assert_eq!(span(&doubled, None), 2 * (27_000 + 2 * 10) * 1000);
}

#[test]
fn gradients_of_weights_overlap_the_rest_of_the_backward_pass() {
    // At 1 byte per ns: the operation of layer b starts at 100 + 100 + 200 + 300 ns.
    let text = |bytes: u64| {
        format!(
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 1 all_gpus: 2\n2\n\
             a -1 100 NONE 0 200 NONE 0 300 NONE 0 0\nb -1 100 NONE 0 200 NONE 0 300 ALLREDUCE {bytes} 7\n"
        )
    };
    let rate = Some(Rate::from_gbit(8));
    assert_eq!(span(&of(&text(400)), rate), 1_200_000);
    assert_eq!(span(&of(&text(4000)), rate), (700 + 4000 + 7) * 1000);
}

#[test]
fn operations_of_one_group_at_the_same_time_have_different_tags() {
    let trace = of("HYBRID_TRANSFORMER model_parallel_NPU_group: 1 ep: 2 all_gpus: 2\n2\n\
        a -1 0 NONE 0 0 ALLREDUCE_EP 8 0 NONE 0 0\nb -1 0 NONE 0 0 NONE 0 0 ALLREDUCE_EP 8 0\n");
    let sends = operations(&trace, 0, Kind::Send);
    assert_eq!((sends.len(), sends[0].cpu, sends[1].cpu), (2, 1, 0));
    assert_ne!(sends[0].tag, sends[1].tag);
}

#[test]
fn ranks_are_numbered_by_tensor_group_then_replica_then_stage() {
    let trace = of(
        "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 4 all_gpus: 16 pp_comm: 1.5\n2\n\
         a -1 0 ALLTOALL 8 0 ALLTOALL_EP 8 0 ALLTOALL_DP_EP 8 0\nb -1 0 NONE 0 0 NONE 0 0 ALLTOALL 8 0\n",
    );
    // Rank 13 is rank 1 of its tensor-parallel group, in replica 2 of stage 1. The operation of layer b precedes the
    // gradients of layer a.
    assert_eq!(peers(&trace, 13), [12, 15, 9, 11, 15, 9]);
    let second: Vec<_> = operations(&trace, 13, Kind::Send).iter().map(|operation| operation.cpu).collect();
    assert_eq!(second, [0, 1, 1, 1, 0, 1], "gradients of weights have the second CPU");
    assert_eq!(
        trace.notes,
        [
            "the 2 pipeline stages exchange no messages, because the file does not state their order",
            "not used: ga, pp_comm, vpp"
        ]
    );
    span(&trace, None);
}

#[test]
fn micro_workloads_run_one_operation_after_the_other() {
    let text = "MICRO model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0\n2\n\
        a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 16777216 1\nb -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 67108864 1\n";
    let mut options = Options::default();
    options.algorithms.set("all-reduce", "ring").unwrap();
    let trace = with(text, &options);
    for rank in 0..8 {
        let sent: u64 = sizes(&trace, rank, Kind::Send).iter().sum();
        assert_eq!(sent, 2 * 7 * (16_777_216 + 67_108_864) / 8);
        assert_eq!(sizes(&trace, rank, Kind::Calc), Vec::<u64>::new());
    }
    // A byte takes 1 ns, and each update 1 ns.
    assert_eq!(span(&trace, Some(Rate::from_gbit(8))), (146_800_640 + 2) * 1000);
    assert_eq!(
        trace.notes,
        [
            "not used: forward compute, input-gradient compute, model_parallel_NPU_group, weight-gradient compute"
        ]
    );
}

#[test]
fn sizes_are_those_of_whole_vectors() {
    // Bytes that four ranks send in all. The blocks of 10 bytes are 3, 3, 2 and 2 bytes; in an all-to-all, 3 bytes.
    for (operation, sent) in [
        ("ALLREDUCE", 2 * 3 * 10),
        ("ALLGATHER", 3 * 10),
        ("REDUCESCATTER", 3 * 10),
        ("ALLTOALL", 4 * 3 * 3),
        ("BROADCAST", 3 * 10),
    ] {
        let text = format!("DISTRIBUTED_INFERENCE\n1\na -1 0 {operation} 10 0 NONE 0 0 NONE 0 0\n");
        let mut options = Options { ranks: Some(4), ..Options::default() };
        options.algorithms.set("all-reduce", "recursive-halving").unwrap();
        let trace = with(&text, &options);
        let found: u64 = (0..4).flat_map(|rank| sizes(&trace, rank, Kind::Send)).sum();
        assert_eq!(found, sent, "{operation}");
        span(&trace, None);
    }
}

#[test]
fn each_policy_has_its_order() {
    let layers = |forward: &str, input: &str, weight: &str| {
        let layer = |n: u32| format!("l -1 {n}1 {forward} 8 {n}2 {input} 8 {n}3 {weight} 8 0\n");
        [1, 2, 3].map(layer).concat()
    };
    let none = "NONE";
    for (header, layers, calculations, sends) in [
        (
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 2",
            layers("ALLREDUCE", "ALLREDUCE", "ALLREDUCE"),
            &[11, 21, 31, 32, 33, 22, 23, 12, 13][..],
            9,
        ),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 1 0 checkpoint_initiates: 2 2 1",
            layers("ALLREDUCE", none, none),
            &[11, 21, 31, 11, 21, 32, 33, 11, 22, 23, 12, 13],
            6,
        ),
        ("DATA", layers(none, none, "ALLREDUCE"), &[11, 21, 31, 33, 32, 23, 22, 13], 3 * 2),
        ("MODEL", layers("ALLREDUCE", "ALLREDUCE", none), &[11, 21, 31, 32, 33, 22, 23, 12, 13], 5 * 2),
        ("DISTRIBUTED_INFERENCE", layers("ALLREDUCE", none, none), &[11, 21, 31], 3 * 2),
        ("MICRO", layers(none, none, "ALLREDUCE"), &[], 3 * 2),
    ] {
        let trace =
            with(&format!("{header}\n3\n{layers}"), &Options { ranks: Some(4), ..Options::default() });
        for rank in 0..4 {
            assert_eq!(sizes(&trace, rank, Kind::Calc), calculations, "{header}");
            assert_eq!(sizes(&trace, rank, Kind::Send), vec![8; sends], "{header}");
        }
        span(&trace, None);
    }
}

#[test]
fn gradients_of_weights_overlap_the_operation_for_inputs_with_model_parallelism() {
    let text = "MODEL all_gpus: 2\n3\na -1 0 NONE 0 0 ALLREDUCE 100 0 NONE 0 0\n\
        b -1 0 NONE 0 50 ALLREDUCE 100 0 NONE 0 0\nc -1 0 NONE 0 0 ALLREDUCE 100 70 NONE 0 0\n";
    // Layer c: 100 ns, during which it computes; layer b: 50 + 100 ns. Layer a needs no gradients of its inputs.
    assert_eq!(span(&of(text), Some(Rate::from_gbit(8))), 250_000);
}

#[test]
fn the_number_of_ranks_is_an_option_of_workloads_only() {
    let path =
        |name: &str| std::env::temp_dir().join(format!("silvan-workload-{}-{name}", std::process::id()));
    let options = Options { ranks: Some(2), ..Options::default() };
    std::fs::write(path("a"), "DATA\n1\na -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 8 0\n").unwrap();
    let made = read(&path("a"), &options).unwrap();
    assert_eq!((made.format, made.trace.ranks()), (Format::Workload, 2));
    std::fs::write(path("b"), "num_ranks 2\n").unwrap();
    let error = read(&path("b"), &options).unwrap_err().to_string();
    assert!(
        error.ends_with("`ranks` has no effect: files of the format goal state their ranks; leave it out")
    );
    std::fs::remove_file(path("a")).unwrap();
    std::fs::remove_file(path("b")).unwrap();
}

#[test]
fn operations_of_one_rank_are_counted_in_a_note() {
    let text = "HYBRID_TRANSFORMER model_parallel_NPU_group: 1 all_gpus: 2\n1\na -1 5 ALLREDUCE 8 5 ALLGATHER 8 5 ALLREDUCE 0 9\n";
    let trace = of(text);
    assert_eq!(trace.notes, ["2 collective operations have only one rank, and take no time"]);
    assert_eq!((trace.operations(), span(&trace, None)), (2 * 3, 15_000));
}
