//! Compares the sizes of generated traces with formulas, and checks that the traces run to completion.

use silvan_engine::Time;
use silvan_trace::check::Contents;
use silvan_trace::collective::{COLLECTIVES, Choice};
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::generate::{Kernel, Kernels, Repeated, Transformer};
use silvan_trace::trace::MAX_ITEMS;
use silvan_trace::{Kind, Trace};

fn runs(trace: &Trace) -> Contents {
    for rendezvous_above in [u64::MAX, 0] {
        let done = execute(trace, &Parameters { rendezvous_above, ..Parameters::default() }).unwrap();
        assert!(done.complete(), "{:?}", done.stuck);
        assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
    }
    Contents::of(trace)
}

fn kernel(kernels: &Kernels) -> Contents {
    runs(&kernels.trace(&Choice::default(), MAX_ITEMS).unwrap())
}

#[test]
fn kernels_send_what_the_benchmark_sends() {
    for ranks in [2, 3, 6, 7, 16] {
        let of =
            |kernel, bytes| Kernels { kernel, ranks, bytes, iterations: 3, pairs: 5, ..Kernels::default() };
        let n = u64::from(ranks);
        let pairs = (n * (n - 1) / 2).min(5);
        assert_eq!(kernel(&of(Kernel::PingPong, 8)).bytes, pairs * 3 * 2 * 8);
        for ring in [Kernel::NaturalRing, Kernel::RandomRing] {
            assert_eq!(kernel(&of(ring, 1000)).bytes, n * 3 * 2 * 1000);
        }
        let fft = Kernels { points: 1 << 16, iterations: 1, ..of(Kernel::Fft, 0) };
        assert_eq!(kernel(&fft).bytes, 3 * n * (n - 1) * (16 * (1 << 16) / (n * n)));
        let random = Kernels { messages: 100, ..of(Kernel::RandomAccess, 0) };
        assert_eq!(kernel(&random).bytes, n * 100 * 8 * (1024 / n));
    }
}

#[test]
fn a_transpose_moves_all_blocks_that_are_not_in_place() {
    // On a square grid, the diagonal does not move. Each of 4 ranks has a quarter, and 2 ranks exchange
    // theirs.
    let of = |ranks, n, nb| kernel(&Kernels { kernel: Kernel::Ptrans, ranks, n, nb, ..Kernels::default() });
    assert_eq!(of(4, 1024, 64).bytes, 8 * 1024 * 1024 / 2);
    assert_eq!(of(16, 1024, 64).bytes, 8 * 1024 * 1024 * 12 / 16);
    // The last block is smaller. With two ranks in a row, blocks (i, j) with i and j of different parity
    // move.
    let (even, odd) = (64 + 36, 64);
    assert_eq!(of(2, 164, 64).bytes, 8 * 2 * even * odd);
}

#[test]
fn blocking_calls_send_the_same_one_after_the_other() {
    for kernel in [Kernel::Ptrans, Kernel::RandomAccess] {
        let trace = |blocking| {
            let kernels =
                Kernels { kernel, ranks: 6, n: 600, nb: 10, messages: 20, blocking, ..Kernels::default() };
            kernels.trace(&Choice::default(), MAX_ITEMS).unwrap()
        };
        let [at_once, blocking] = [false, true].map(trace);
        assert_eq!(runs(&at_once).bytes, runs(&blocking).bytes);
        // With a rendezvous, each send waits for an answer.
        let costs = Parameters { latency: Time::from_us(10), rendezvous_above: 0, ..Parameters::default() };
        let [fast, slow] = [&at_once, &blocking].map(|trace| execute(trace, &costs).unwrap().span);
        assert!(slow.0 > 2 * fast.0, "{kernel:?}: {slow:?} and {fast:?}");
    }
}

#[test]
fn a_factorization_computes_two_thirds_of_n_cubed() {
    let kernels = Kernels { kernel: Kernel::Hpl, ranks: 6, n: 512, nb: 32, flops: 1e9, ..Kernels::default() };
    let found = kernel(&kernels).computing_ns as f64;
    let wanted = 2.0 / 3.0 * 512f64.powi(3);
    assert!((found / wanted - 1.0).abs() < 0.1, "{found} for {wanted}");
}

#[test]
fn random_rings_differ_by_seed_and_are_the_same_with_one() {
    let of = |seed| {
        let kernels = Kernels { kernel: Kernel::RandomRing, ranks: 16, seed, ..Kernels::default() };
        kernels.trace(&Choice::default(), MAX_ITEMS).unwrap()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_collective_operation_is_repeated_in_groups() {
    for operation in COLLECTIVES {
        let one = Repeated { operation, bytes: 100, ranks: 5, ..Repeated::default() };
        let many = Repeated { ranks: 15, groups: 3, iterations: 4, compute_ns: 7, ..one.clone() };
        let [once, often] =
            [one, many].map(|sizes| runs(&sizes.trace(&Choice::default(), MAX_ITEMS).unwrap()));
        assert_eq!((often.bytes, often.sends), (12 * once.bytes, 12 * once.sends), "{operation:?}");
        assert_eq!(often.computing_ns, 15 * 4 * 7);
    }
    let wrong = Repeated { groups: 3, ..Repeated::default() }.trace(&Choice::default(), MAX_ITEMS);
    assert_eq!(wrong.unwrap_err(), "8 ranks cannot be divided into 3 groups");
}

#[test]
fn a_training_step_sends_bytes_according_to_its_dimensions() {
    let mut ring = Choice::default();
    ring.set("all-reduce", "ring").unwrap();
    for (tensor, pipeline, data) in [(1, 1, 8), (4, 2, 2), (2, 4, 1), (8, 1, 1), (8, 4, 4)] {
        let model =
            Transformer { tensor, pipeline, data, micro_batches: 6, layers: 8, ..Transformer::default() };
        let found = runs(&model.trace(&ring, MAX_ITEMS).unwrap());
        let (t, p, d) = (u64::from(tensor), u64::from(pipeline), u64::from(data));
        let activations = 2048 * 2048 * 2;
        let passes = 2 * 6 * d;
        // Four all-reduces per layer and micro-batch, two forward and two backward. The ranks of a tensor
        // group together send 2 (t - 1) times the bytes in each of them.
        let in_tensors = 8 * passes * 2 * 2 * (t - 1) * activations;
        let between = passes * (p - 1) * t * activations;
        let layers = 8 * (4 + 8) * 2048 * 2048;
        let words = 51_200 * 2048 * if p > 1 { 2 } else { 1 };
        let in_data = 2 * (d - 1) * 2 * (layers + words);
        assert_eq!(found.bytes, in_tensors + between + in_data, "{tensor} {pipeline} {data}");
        assert_eq!(found.ranks, tensor * pipeline * data);
    }
}

#[test]
fn a_context_group_passes_keys_and_values_around() {
    let model = Transformer {
        tensor: 2,
        context: 4,
        pipeline: 1,
        micro_batches: 3,
        layers: 2,
        ..Transformer::default()
    };
    let mut ring = Choice::default();
    ring.set("all-reduce", "ring").unwrap();
    let trace = model.trace(&ring, MAX_ITEMS).unwrap();
    let found = runs(&trace);
    // Sixteen ranks, of which eight have the same parameters, and two replicas of eight ranks.
    let activations = 2048 / 4 * 2048 * 2;
    let in_tensors = 8 * 2 * 3 * 2 * 4 * activations;
    // Keys and values are a half of the activations each, because two ranks share the heads. With their gradients, they go
    // three steps in each layer.
    let in_rings = 16 * 2 * 3 * 3 * (1 + 2) * activations;
    let parameters = 2 * 12 * 2048 * 2048 + 51_200 * 2048;
    let in_data = 2 * 2 * 7 * parameters / 2 * 2;
    assert_eq!(found.bytes, in_tensors + in_rings + in_data);
    // Each rank computes a quarter, and the messages are hidden if computations take longer.
    let whole = Transformer { context: 1, ..model.clone() }.trace(&ring, MAX_ITEMS).unwrap();
    let computing = |trace: &Trace| execute(trace, &Parameters::default()).unwrap().span.0 as f64;
    assert!((computing(&trace) * 4.0 / computing(&whole) - 1.0).abs() < 1e-3);
    let alone = Transformer { tensor: 1, data: 1, flops: 1e12, vocabulary: 1, ..model };
    let costs = Parameters { latency: Time::from_us(3), ..Parameters::default() };
    let trace = alone.trace(&ring, MAX_ITEMS).unwrap();
    let [free, slow] = [&Parameters::default(), &costs].map(|costs| execute(&trace, costs).unwrap().span);
    // Only the gradients at the end are visible: six steps of a ring.
    assert_eq!(slow.0 - free.0, 6 * Time::from_us(3).0);
}

#[test]
fn a_pipeline_has_the_known_fill_and_drain_times() {
    // Without communication costs, the time is (micro-batches + stages - 1) times the forward and
    // backward pass of a stage. The last stage additionally computes the vocabulary.
    let model = Transformer {
        tensor: 1,
        pipeline: 4,
        data: 1,
        layers: 4,
        vocabulary: 1,
        micro_batches: 8,
        ..Transformer::default()
    };
    let trace = model.trace(&Choice::default(), MAX_ITEMS).unwrap();
    let done = execute(&trace, &Parameters::default()).unwrap();
    let stage = done.computing[0].0 as f64 / 8.0;
    assert!((done.span.0 as f64 / (11.0 * stage) - 1.0).abs() < 1e-3, "{} {stage}", done.span.0);
}

#[test]
fn a_hierarchical_all_reduce_reduces_within_hosts_first() {
    let (hosts, each, bytes) = (4u64, 3u64, 12_000_000u64);
    let mut algorithms = Choice::default();
    algorithms.ranks_per_host = each as u32;
    algorithms.set("all-reduce", "hierarchical").unwrap();
    let repeated = |ranks, groups| Repeated { ranks, groups, bytes, ..Repeated::default() };
    let trace = repeated(12, 1).trace(&algorithms, MAX_ITEMS).unwrap();
    let inside = 2 * (each - 1) * bytes * hosts;
    let between = 2 * (hosts - 1) * bytes;
    assert_eq!(runs(&trace).bytes, inside + between);
    let parts = |rank: u32| {
        let sends = trace.of_rank(rank).map(|at| trace.operation(at)).filter(|one| one.kind == Kind::Send);
        let (near, far): (Vec<_>, Vec<_>) = sends.partition(|one| one.peer / 3 == rank / 3);
        assert!(far.iter().all(|one| one.peer % 3 == rank % 3), "ranks with the same number");
        [near, far].map(|list| list.iter().map(|one| one.size).sum::<u64>())
    };
    assert!((0..12).all(|rank| parts(rank) == [inside / 12, between / 12]));
    // A group on one host, and a group of one rank per host.
    assert_eq!(runs(&repeated(3, 1).trace(&algorithms, MAX_ITEMS).unwrap()).bytes, 2 * (each - 1) * bytes);
    let model = Transformer { tensor: 3, pipeline: 1, data: 4, hidden: 48, ..Transformer::default() };
    runs(&model.trace(&algorithms, MAX_ITEMS).unwrap());
    let refused = repeated(10, 1).trace(&algorithms, MAX_ITEMS).unwrap_err();
    assert!(refused.contains("the first host has 3; use `ring`"), "{refused}");
}
