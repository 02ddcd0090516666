//! Inference of a transformer: who sends which keys and values, and when steps start.

use std::collections::HashMap;

use silvan_engine::{Bytes, Rate, Time};
use silvan_trace::collective::Choice;
use silvan_trace::execute::{Execution, Parameters, execute};
use silvan_trace::generate::{Continuous, Inference, KeyTransfer, Request};
use silvan_trace::trace::MAX_ITEMS;
use silvan_trace::{Kind, Trace};

fn trace(model: &Inference) -> Trace {
    let trace = model.trace(&Choice::default(), MAX_ITEMS).unwrap();
    for rendezvous_above in [u64::MAX, 0] {
        let done = execute(&trace, &Parameters { rendezvous_above, ..Parameters::default() }).unwrap();
        assert!(done.complete(), "{:?}", done.stuck);
        assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
    }
    trace
}

fn run(model: &Inference, gbit: u64) -> Execution {
    let costs =
        Parameters { gap_per_byte_fs: Parameters::gap_of(Rate::from_gbit(gbit)), ..Parameters::default() };
    execute(&trace(model), &costs).unwrap()
}

/// A model whose ranks work alone.
fn single() -> Inference {
    Inference {
        prefill_tensor: 1,
        decode_tensor: 1,
        layers: 4,
        kv_bytes: Bytes(100_000),
        prompt: 1000,
        output: 11,
        prefill_compute: Time::from_us(4000),
        decode_compute: Time::from_us(200),
        ..Inference::default()
    }
}

#[test]
fn each_rank_sends_its_keys_to_the_ranks_that_need_them() {
    for (tensor, receivers, wanted) in [
        (4, 2, vec![(0, 4, 25), (1, 4, 25), (2, 5, 25), (3, 5, 25)]),
        (2, 4, vec![(0, 2, 25), (0, 3, 25), (1, 4, 25), (1, 5, 25)]),
        (2, 3, vec![(0, 2, 33), (0, 3, 17), (1, 3, 16), (1, 4, 34)]),
    ] {
        for transfer in [KeyTransfer::Whole, KeyTransfer::Layers] {
            let model = Inference {
                prefill_tensor: tensor,
                decode_tensor: receivers,
                layers: 1,
                kv_bytes: Bytes(10),
                prompt: 10,
                output: 1,
                transfer,
                ..Inference::default()
            };
            let trace = trace(&model);
            let mut sums: HashMap<(u32, u32), u64> = HashMap::new();
            for from in 0..tensor {
                let sends = trace.of_rank(from).map(|at| trace.operation(at));
                for one in sends.filter(|one| one.kind == Kind::Send && one.peer >= tensor) {
                    *sums.entry((from, one.peer)).or_default() += one.size;
                }
            }
            let mut found: Vec<_> = sums.into_iter().map(|((from, to), bytes)| (from, to, bytes)).collect();
            found.sort_unstable();
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn decode_follows_the_transfer_of_all_keys() {
    // 100 MB at 100 Gbit/s take 8 ms, and ten steps 2 ms.
    let done = run(&single(), 100);
    assert_eq!(done.span, Time::from_us(4000 + 8000 + 2000));
    let (arrival, steps) = (&done.calls[0], Time::from_us(2000));
    assert_eq!(arrival.end, Some(Time(done.span.0 - steps.0)));
    // Layer by layer, each quarter takes twice as long as the computation of a layer.
    let layers = Inference { transfer: KeyTransfer::Layers, ..single() };
    assert_eq!(run(&layers, 100).span, Time::from_us(1000 + 8000 + 2000));
    // At four times the rate, only the transfer of the last layer is not hidden.
    assert_eq!(run(&layers, 400).span, Time::from_us(4000 + 500 + 2000));
}

#[test]
fn prefills_overlap_with_transfers_and_steps() {
    // The transfer takes as long as a prefill, so the keys of request n arrive after n + 2 prefills.
    let model = Inference { requests: 6, batch: 2, ..single() };
    let done = run(&model, 200);
    let ends: Vec<u64> = done.calls.iter().map(|call| call.end.unwrap().0 / 1_000_000).collect();
    assert_eq!(ends, [8000, 12_000, 16_000, 20_000, 24_000, 28_000]);
    // A batch of two starts with the keys of the second one.
    assert_eq!(done.span, Time::from_us(28_000 + 2000));
    // If steps take longer, batches wait for them: the first one starts after 12 ms.
    let slow = Inference { decode_compute: Time::from_us(2000), ..model.clone() };
    assert_eq!(run(&slow, 200).span, Time::from_us(12_000 + 3 * 20_000));
    // Two instances of each kind share the requests.
    let both = Inference { prefill: 2, decode: 2, batch: 3, ..slow };
    assert_eq!(run(&both, 200).span, Time::from_us(16_000 + 20_000));
    // Requests that arrive every 10 ms do not wait for each other.
    let rare = Inference { interval: Time::from_us(10_000), batch: 1, ..model };
    let done = run(&rare, 200);
    for (number, call) in (0..).zip(&done.calls) {
        let arrival = Time::from_us(10_000 * number);
        assert_eq!((call.start, call.end), (Some(arrival), Some(arrival + Time::from_us(8000))));
    }
}

#[test]
fn tensor_groups_reduce_activations_of_prompts_and_batches() {
    let model = Inference { prefill_tensor: 2, decode_tensor: 4, requests: 3, batch: 2, ..single() };
    let trace = trace(&model);
    let sizes = |rank: u32, group: u32| -> Vec<u64> {
        let of_rank = trace.of_rank(rank).map(|at| trace.operation(at));
        of_rank
            .filter(|one| one.kind == Kind::Send && one.peer / 2 == group / 2)
            .map(|one| one.size)
            .collect()
    };
    // Two all-reduces of each of four layers and three prompts, by recursive doubling.
    assert_eq!(sizes(0, 0), vec![1000 * 8192 * 2; 2 * 4 * 3]);
    // Ten steps of a batch of two requests, and ten of one: rank 2 exchanges with ranks 3 and 4.
    let wanted: Vec<u64> = [2u64, 1].iter().flat_map(|&batch| vec![batch * 8192 * 2; 2 * 4 * 10]).collect();
    assert_eq!(sizes(2, 2), wanted);
    assert_eq!(sizes(2, 4), wanted);
}

/// An instance of one rank, next to an idle one, with steps of 200 us, or 4 us per token if that is longer.
fn continuous(arrivals: Vec<Request>) -> Inference {
    let batching = Continuous { token_budget: 512, arrivals, ..Continuous::default() };
    Inference { prefill: 0, decode: 2, batch: 8, continuous: Some(batching), ..single() }
}

fn request(us: u64, prompt: u64, output: u32) -> Request {
    Request { at: Time::from_us(us), prompt, output }
}

#[test]
fn first_and_other_tokens_of_requests_are_recorded() {
    // 1000 tokens are two parts, of 2048 and 1952 us, and then 10 steps of 200 us follow.
    let done = run(&continuous(vec![request(0, 1000, 11)]), 100);
    let spans: Vec<(u64, u64)> = done
        .calls
        .iter()
        .map(|call| (call.start.unwrap().0 / 1_000_000, call.end.unwrap().0 / 1_000_000))
        .collect();
    assert_eq!(spans, [(0, 4000), (4000, 6000)]);
    // The instances take turns. The second request of an instance arrives while it computes the first part, and fills the
    // second one, which has 488 of 512 tokens. The rest of its prompt delays the first request.
    let list = vec![request(0, 1000, 11), request(0, 1, 1), request(500, 124, 2)];
    let done = run(&continuous(list), 100);
    let spans: Vec<(u32, u64, u64)> = done
        .calls
        .iter()
        .map(|call| (call.comm - 2, call.start.unwrap().0 / 1_000_000, call.end.unwrap().0 / 1_000_000))
        .collect();
    let second = 2048 + 2048;
    let third = second + 404;
    assert_eq!(
        spans,
        [(0, 0, second), (1, 0, 200), (2, 500, third), (0, second, third + 9 * 200), (2, third, third + 200),]
    );
}

#[test]
fn requests_without_a_list_arrive_at_equal_intervals() {
    let list = (0..6).map(|number| request(number * 300, 100, 3)).collect();
    let equal =
        Inference { requests: 6, interval: Time::from_us(300), prompt: 100, output: 3, ..continuous(vec![]) };
    // The computation time of a prompt refers to its length.
    let listed = Inference { prompt: 100, ..continuous(list) };
    assert_eq!(trace(&equal), trace(&listed));
}

#[test]
fn tensor_groups_reduce_activations_of_all_tokens_of_a_step() {
    let model = Inference {
        decode: 1,
        decode_tensor: 2,
        layers: 1,
        ..continuous(vec![request(0, 600, 3), request(0, 10, 1)])
    };
    let trace = trace(&model);
    let sent: Vec<u64> = trace
        .of_rank(1)
        .map(|at| trace.operation(at))
        .filter(|one| one.kind == Kind::Send)
        .map(|one| one.size)
        .collect();
    let wanted: Vec<u64> = [512u64, 98, 1, 1].iter().flat_map(|tokens| [tokens * 8192 * 2; 2]).collect();
    assert_eq!(sent, wanted);
}

#[test]
fn impossible_plans_are_refused() {
    let said = |model: Inference| model.trace(&Choice::default(), 1 << 20).unwrap_err();
    assert_eq!(
        said(Inference { prefill: 1, ..continuous(vec![]) }),
        "prefill = 1: must be 0 with `continuous`, because decode instances process prompts, too"
    );
    assert_eq!(
        said(Inference { batch: 513, ..continuous(vec![]) }),
        "continuous.token_budget = 512: must be 513 to 16777216"
    );
    assert_eq!(
        said(continuous(vec![request(5, 1, 1), request(4, 1, 1)])),
        "continuous.arrivals.1.at: requests must be in the order of their arrivals"
    );
    assert_eq!(
        said(continuous(vec![request(5, 1, 0)])),
        "continuous.arrivals.0.output = 0: must be 1 to 1048576"
    );
    let many = continuous(vec![request(0, 1, 1 << 20); 10]);
    assert!(said(many).starts_with("more than 1048576 operations"));
}

#[test]
fn impossible_sizes_are_refused() {
    let said = |model: Inference| model.trace(&Choice::default(), 1 << 20).unwrap_err();
    assert_eq!(said(Inference { output: 0, ..single() }), "output = 0: must be 1 to 1048576");
    assert_eq!(said(Inference { batch: 0, ..single() }), "batch = 0: must be 1 to 65536");
    let many = Inference { requests: 1 << 20, output: 1 << 20, ..single() };
    assert!(said(many).starts_with("more than 1048576 operations"));
    let ranks = Inference { prefill: 1 << 20, ..single() };
    assert_eq!(
        said(ranks),
        "prefill * prefill_tensor + decode * decode_tensor = 1048577: must be 2 to 1048576"
    );
}
