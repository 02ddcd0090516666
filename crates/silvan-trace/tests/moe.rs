//! Layers of a mixture of experts: tokens for each destination, and what computes at the same time.

use silvan_engine::{Bytes, Rate, Time};
use silvan_trace::collective::Choice;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::generate::{Dispatch, ExpertPlacement, Moe};
use silvan_trace::trace::MAX_ITEMS;
use silvan_trace::{Kind, Operation, Trace};

fn trace(model: &Moe, ranks_per_host: u32) -> Trace {
    let mut algorithms = Choice::default();
    algorithms.ranks_per_host = ranks_per_host;
    algorithms.set("all-to-all", "linear").unwrap();
    let trace = model.trace(&algorithms, MAX_ITEMS).unwrap();
    for rendezvous_above in [u64::MAX, 0] {
        let done = execute(&trace, &Parameters { rendezvous_above, ..Parameters::default() }).unwrap();
        assert!(done.complete(), "{:?}", done.stuck);
        assert_eq!((done.unreceived.0, done.truncated.0), (0, 0));
    }
    trace
}

/// Sender and operation of all messages.
fn messages(trace: &Trace) -> Vec<(u32, Operation)> {
    let all = (0..trace.ranks()).flat_map(|rank| trace.of_rank(rank).map(move |at| (rank, at)));
    let all = all.map(|(rank, at)| (rank, trace.operation(at)));
    all.filter(|(_, one)| one.kind == Kind::Send).collect()
}

fn received(trace: &Trace) -> Vec<u64> {
    let mut sums = vec![0; trace.ranks() as usize];
    messages(trace).iter().for_each(|(_, one)| sums[one.peer as usize] += one.size);
    sums
}

/// A dispatch of one byte per token.
fn dispatch(ranks: u32, top_k: u32) -> Moe {
    let bytes = |bytes| Bytes(bytes);
    Moe { ranks, top_k, tokens: 1 << 24, dispatch_bytes: bytes(1), combine_bytes: bytes(0), ..Moe::default() }
}

#[test]
fn the_busiest_rank_receives_its_share_of_zipf() {
    for (ranks, zipf, contiguous, round_robin) in [
        (8, 0.5, 2.6016, 1.1527),
        (8, 1.0, 5.3015, 1.9337),
        (16, 0.5, 3.4878, 1.3542),
        (16, 1.0, 8.8322, 3.1389),
        (32, 0.5, 4.5758, 1.7849),
        (32, 0.8, 9.6493, 3.5438),
        (32, 1.0, 14.2009, 5.6409),
        (64, 1.0, 21.7710, 10.7460),
    ] {
        for (placement, wanted) in
            [(ExpertPlacement::Contiguous, contiguous), (ExpertPlacement::RoundRobin, round_robin)]
        {
            let found = received(&trace(&Moe { zipf, placement, ..dispatch(ranks, 1) }, 1));
            let mean = found.iter().sum::<u64>() as f64 / f64::from(ranks);
            let busiest = *found.iter().max().unwrap() as f64 / mean;
            assert!((busiest - wanted).abs() < 1e-4, "{ranks} {zipf} {placement:?}: {busiest}");
            // Each token crosses the network unless its expert is on its own rank: the totals are exact.
            let most = u64::from(ranks) * dispatch(ranks, 1).tokens;
            assert!((mean / (most / u64::from(ranks)) as f64) < 1.0);
        }
    }
}

#[test]
fn given_weights_decide_the_tokens_of_each_destination() {
    let weights = vec![4.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    let model = Moe { experts: 8, tokens: 800, weights, ..dispatch(4, 1) };
    // The ranks have 4, 2, 2 and 0 eighths of the weights, and the tokens of three other ranks cross the network.
    assert_eq!(received(&trace(&model, 1)), [1200, 600, 600, 0]);
    // The results return.
    let back = Moe { dispatch_bytes: Bytes(0), combine_bytes: Bytes(2), ..model.clone() };
    assert_eq!(received(&trace(&back, 1)), [2 * 400, 2 * 600, 2 * 600, 2 * 800]);
    // Thirds of tokens are rounded up or down, so that totals stay right.
    let thirds = Moe { experts: 3, weights: vec![1.0; 3], tokens: 100, ..dispatch(3, 1) };
    let mut sent = vec![0; 3];
    messages(&trace(&thirds, 1)).iter().for_each(|(from, one)| sent[*from as usize] += one.size);
    assert!(sent.iter().all(|sent| (66..=67).contains(sent)), "{sent:?}");
    assert!(received(&trace(&thirds, 1)).iter().all(|got| (66..=67).contains(got)));
}

#[test]
fn copies_divide_the_tokens_of_popular_experts() {
    // Weights 8, 2, 1 and 1, and four copies: the first expert has five, with 8/5 each.
    let weights = vec![8.0, 2.0, 1.0, 1.0];
    let model = Moe { experts: 4, redundant: 4, tokens: 12_000, weights, ..dispatch(4, 1) };
    // Ranks hold experts (0 1), (2 3), and copies of 0. The tokens of three other ranks cross the network.
    let third = |weight: f64| (3.0 * 1_000.0 * weight).round() as u64;
    assert_eq!(received(&trace(&model, 1)), [third(3.6), third(2.0), third(3.2), third(3.2)]);
    // In the order of weights: 1 and four copies of 0 fill places, then 0, 2 and 3 follow where loads are the least.
    let balanced = Moe { placement: ExpertPlacement::Balanced, ..model.clone() };
    assert_eq!(received(&trace(&balanced, 1)), [third(3.0), third(3.2), third(3.2), third(2.6)]);
    // With two experts per token, each of two ranks with all experts gets all tokens.
    let everywhere = Moe { experts: 2, redundant: 2, tokens: 900, ..dispatch(2, 2) };
    assert_eq!(received(&trace(&everywhere, 1)), [675, 675], "both on one rank in a quarter of the cases");
}

#[test]
fn balanced_experts_have_about_equal_loads() {
    // Largest share of Zipf's law on 16 ranks: 8.83 and 3.14 (contiguous, round robin).
    let zipf = Moe { zipf: 1.0, placement: ExpertPlacement::Balanced, ..dispatch(16, 1) };
    let busiest = |model: &Moe| {
        let found = received(&trace(model, 1));
        *found.iter().max().unwrap() as f64 * 16.0 / found.iter().sum::<u64>() as f64
    };
    let harmonic: f64 = (1..=256).map(|expert| 1.0 / f64::from(expert)).sum();
    // The rank of the first expert also has the fifteen least popular ones.
    let others: f64 = (242..=256).map(|expert| 1.0 / f64::from(expert)).sum();
    let found = busiest(&zipf);
    assert!((found - 16.0 / harmonic * (1.0 + others)).abs() < 1e-4, "{found}");
    // With 16 further copies, no rank has more than a few percent above the mean.
    let found = busiest(&Moe { redundant: 16, ..zipf });
    assert!((1.0..1.05).contains(&found), "{found}");
}

#[test]
fn hosts_receive_a_token_once_and_pass_it_on() {
    for (hosts, wanted) in [(2u32, 1.9930), (4, 3.6142), (8, 5.2947)] {
        let model = Moe { dispatch: Dispatch::Host, ..dispatch(4 * hosts, 8) };
        let (mut between, mut within) = (0, 0);
        for (from, one) in messages(&trace(&model, 4)) {
            if from / 4 == one.peer / 4 {
                within += one.size;
            } else {
                assert_eq!(from % 4, one.peer % 4, "on its rail");
                between += one.size;
            }
        }
        let per_token = |bytes: u64| bytes as f64 / (model.tokens * u64::from(model.ranks)) as f64;
        let others = f64::from(hosts - 1) / f64::from(hosts);
        assert!((per_token(between) / others - wanted).abs() < 1e-4, "{}", per_token(between));
        // Without the hosts, each token is sent to more ranks.
        let ranks =
            per_token(received(&trace(&Moe { dispatch: Dispatch::Rank, ..model.clone() }, 1)).iter().sum());
        let n = f64::from(model.ranks);
        let all = ranks * n / (n - 1.0);
        assert!(
            (per_token(within) / all - 0.75).abs() < 1e-4,
            "three of four ranks of a host are reached by links inside"
        );
        assert!(all > wanted);
    }
}

#[test]
fn micro_batches_compute_while_others_communicate() {
    let costs =
        Parameters { gap_per_byte_fs: Parameters::gap_of(Rate::from_gbit(400)), ..Parameters::default() };
    let span = |model: &Moe| execute(&trace(model, 1), &costs).unwrap().span.0 as f64 * 1e-6;
    let compute = Time::from_us(400);
    let model = Moe {
        ranks: 8,
        top_k: 1,
        tokens: 2048,
        dispatch_bytes: Bytes(8000),
        combine_bytes: Bytes(8000),
        layers: 3,
        expert_compute: compute,
        other_compute: compute,
        ..Moe::default()
    };
    let exchange = 7.0 * 256.0 * 8000.0 / 50e3;
    let serial = 3.0 * 2.0 * (400.0 + exchange);
    assert!((span(&model) / serial - 1.0).abs() < 1e-3);
    // Each half of the tokens computes 200 us and communicates for 143 us, hidden but for the last combination.
    let overlapped = 3.0 * 2.0 * 400.0 + exchange / 2.0;
    assert!((span(&Moe { overlap: true, ..model.clone() }) / overlapped - 1.0).abs() < 1e-3);
    // The rank with three quarters of the tokens computes three times as long as the mean of four.
    let mut weights = vec![1.0 / 3.0; 4];
    weights[0] = 3.0;
    let skewed = Moe { ranks: 4, experts: 4, weights, other_compute: Time::ZERO, layers: 1, ..model };
    let free = execute(&trace(&skewed, 1), &Parameters::default()).unwrap();
    assert_eq!(free.span, Time::from_us(1200));
}

#[test]
fn a_training_step_has_a_backward_pass_and_reduces_shared_gradients() {
    let costs =
        Parameters { gap_per_byte_fs: Parameters::gap_of(Rate::from_gbit(400)), ..Parameters::default() };
    let span = |model: &Moe| execute(&trace(model, 1), &costs).unwrap().span.0 as f64 * 1e-6;
    let model = Moe {
        ranks: 8,
        top_k: 1,
        tokens: 2048,
        dispatch_bytes: Bytes(4000),
        combine_bytes: Bytes(8000),
        layers: 3,
        steps: 2,
        expert_compute: Time::from_us(400),
        other_compute: Time::from_us(300),
        backward: true,
        ..Moe::default()
    };
    let exchange = |bytes: f64| 7.0 * 256.0 * bytes / 50e3;
    let step =
        |gradient: f64| 3.0 * (3.0 * 700.0 + exchange(4000.0) + exchange(8000.0) + 2.0 * exchange(gradient));
    assert!((span(&model) / (2.0 * step(8000.0)) - 1.0).abs() < 1e-3);
    let model = Moe { gradient_bytes: Some(Bytes(2000)), ..model };
    assert!((span(&model) / (2.0 * step(2000.0)) - 1.0).abs() < 1e-3);
    // Recursive doubling sends the vector three times.
    let shared = Moe { shared_gradients: Bytes(50_000_000), ..model.clone() };
    assert!((span(&shared) / (2.0 * (step(2000.0) + 3000.0)) - 1.0).abs() < 1e-3);
    // Each half of the tokens communicates while the other one computes. One reduction follows both.
    let halves = Moe { overlap: true, steps: 1, ..shared };
    assert!((span(&halves) / (3.0 * 3.0 * 700.0 + 3000.0) - 1.0).abs() < 1e-3);
}

#[test]
fn gradients_return_to_the_experts_that_processed_their_tokens() {
    // Experts differ in each layer, so a backward pass in another order would compute at other ranks.
    let forward = Moe { layers: 3, zipf: 1.0, shuffle: true, tokens: 4096, ..dispatch(8, 2) };
    let both = Moe { backward: true, gradient_bytes: Some(Bytes(1)), ..forward.clone() };
    let sizes = |model: &Moe| -> Vec<u64> {
        let trace = trace(model, 1);
        let of_rank = trace.of_rank(0).map(|at| trace.operation(at));
        of_rank.filter(|one| one.kind == Kind::Send && one.size > 0).map(|one| one.size).collect()
    };
    let (forward, both) = (sizes(&forward), sizes(&both));
    let layer = |sizes: &[u64], number: usize| sizes[number * 7..][..7].to_vec();
    // A dispatch of each forward layer; then the gradients of the last layer: to the experts and back.
    for number in 0..3 {
        assert_eq!(layer(&both, number), layer(&forward, number));
        assert_eq!(layer(&both, 3 + 2 * number), layer(&forward, 2 - number));
    }
    assert_ne!(layer(&forward, 0), layer(&forward, 2));
}

#[test]
fn experts_are_popular_by_seed_and_layer() {
    let model = |seed, shuffle| Moe { layers: 2, zipf: 1.0, shuffle, seed, tokens: 64, ..dispatch(8, 2) };
    assert_eq!(trace(&model(1, true), 1), trace(&model(1, true), 1));
    assert_ne!(trace(&model(1, true), 1), trace(&model(2, true), 1));
    assert_eq!(trace(&model(1, false), 1), trace(&model(2, false), 1));
}

#[test]
fn impossible_sizes_are_refused() {
    let base = || Moe { ranks: 8, experts: 64, ..Moe::default() };
    let said = |model: Moe| model.trace(&Choice::default(), 1 << 20).unwrap_err();
    assert_eq!(said(Moe { experts: 63, ..base() }), "63 experts cannot be divided among 8 ranks");
    assert_eq!(said(Moe { top_k: 33, ..base() }), "top_k = 33: must be 1 to 32");
    let refused = "shared_gradients has no effect without a backward pass: set backward = true";
    assert_eq!(said(Moe { shared_gradients: Bytes(1), ..base() }), refused);
    let refused = "gradient_bytes has no effect without a backward pass: set backward = true";
    assert_eq!(said(Moe { gradient_bytes: Some(Bytes(0)), ..base() }), refused);
    assert_eq!(said(Moe { zipf: f64::NAN, ..base() }), "zipf = NaN: must be 0 to 4");
    assert_eq!(said(Moe { weights: vec![1.0; 8], ..base() }), "8 weights for 64 experts");
    let few = (0..64).map(|expert| f64::from(u8::from(expert < 7))).collect();
    let refused = "weights: 8 experts must have weights above 0 that do not differ too much";
    assert_eq!(said(Moe { weights: few, ..base() }), refused);
    assert_eq!(said(Moe { weights: vec![0.0; 64], ..base() }), refused);
    assert!(said(Moe { dispatch: Dispatch::Host, ..base() }).contains("set job.ranks_per_host"));
    assert!(said(Moe { layers: 4096, steps: 4096, ..base() }).starts_with("more than 1048576 operations"));
    let mut algorithms = Choice::default();
    algorithms.set("all-to-all", "bruck").unwrap();
    let refused = base().trace(&algorithms, MAX_ITEMS).unwrap_err();
    assert_eq!(refused, "all-to-all by bruck needs blocks of equal size; use pairwise or linear");
}
