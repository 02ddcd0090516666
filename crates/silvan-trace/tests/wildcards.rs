//! Receives from any source or with any tag, compared with LogGOPSim (spcl/LogGOPSim, commit 76451de): the expected times and
//! the operations left are those that it prints with `-L 100 -o 0 -g 0 -G 0 -O 0 -S 100000`.

use silvan_engine::Time;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::read::source::Source;
use silvan_trace::read::{Options, goal};

/// Ranks 1 and 2 compute, then send; rank 0 receives.
const EARLY: &str = "num_ranks 3
rank 0 {
l1: calc 5000
l2: recv 8b from -1 tag -1
l2 requires l1
l3: recv 8b from 1 tag 5
l3 requires l2
l4: calc 100
l4 requires l3
}
rank 1 {
l1: calc 1000
l2: send 8b to 0 tag 5
l2 requires l1
}
rank 2 {
l1: calc 500
l2: send 8b to 0 tag 6
l2 requires l1
}
";

/// Three receives that are posted at once.
const POSTED: &str = "num_ranks 3
rank 0 {
l1: recv 8b from 1 tag -1
l2: recv 8b from -1 tag 5
l3: recv 8b from -1 tag -1
l4: calc 100
l4 requires l1
l5: calc 100
l5 requires l2
l6: calc 100
l6 requires l3
}
rank 1 {
l1: calc 1000
l2: send 8b to 0 tag 5
l2 requires l1
l3: calc 3000
l3 requires l2
l4: send 8b to 0 tag 6
l4 requires l3
}
rank 2 {
l1: calc 500
l2: send 8b to 0 tag 7
l2 requires l1
l3: calc 8000
l3 requires l2
}
";

/// A receive with a wildcard takes the message that arrives first.
const TAKEN: &str = "num_ranks 3
rank 0 {
l1: recv 8b from -1 tag 5
l2: recv 8b from 2 tag -1
l2 requires l1
l3: recv 8b from 1 tag 5
l3 requires l2
l4: calc 100
l4 requires l3
}
rank 1 {
l1: calc 1000
l2: send 8b to 0 tag 5
l2 requires l1
}
rank 2 {
l1: calc 500
l2: send 8b to 0 tag 5
l2 requires l1
l3: calc 900
l3 requires l2
l4: send 8b to 0 tag 6
l4 requires l3
}
";

/// The times in ns at which the ranks finish; the receives and the messages that are left, as rank and operation.
type Result = (Vec<u64>, Vec<(u32, u32)>, Vec<(u32, u32)>);

fn run(text: &str) -> Result {
    let trace = goal::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default()).unwrap();
    let parameters = Parameters { latency: Time::from_ns(100), ..Parameters::default() };
    let made = execute(&trace, &parameters).unwrap();
    let stuck = made.stuck.iter().map(|stuck| (stuck.rank, stuck.index)).collect();
    let numbered = |at: &usize| (trace.rank_of(*at), (at - trace.first(trace.rank_of(*at))) as u32);
    let unreceived = made.unreceived.1.iter().map(numbered).collect();
    let times =
        if made.complete() { made.finished.iter().map(|time| time.0 / 1000).collect() } else { vec![] };
    (times, stuck, unreceived)
}

#[test]
fn messages_match_receives_with_wildcards_as_in_loggopsim() {
    assert_eq!(run(EARLY), (vec![5100, 1000, 500], vec![], vec![]), "the message of rank 2 arrived first");
    // LogGOPSim: "unexpected queue on host 0: src 1, tag 6; receive queue on host 0: src -1, tag 5".
    assert_eq!(run(POSTED), (vec![], vec![(0, 1)], vec![(1, 3)]), "the first receive takes tag 5");
    let other = POSTED.replace("tag 7", "tag 5");
    assert_eq!(run(&other), (vec![4200, 4000, 8500], vec![], vec![]), "the second receive takes rank 2's");
    assert_eq!(run(TAKEN), (vec![1600, 1000, 1400], vec![], vec![]));
    // LogGOPSim: "unexpected queue on host 0: src 2, tag 6; receive queue on host 0: src 1, tag 5".
    let late = TAKEN.replace("calc 500", "calc 5000");
    assert_eq!(run(&late), (vec![], vec![(0, 2)], vec![(2, 3)]), "the first message is that of rank 1");
}
