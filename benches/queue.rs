//! Benchmark of the event queue alone: remove the earliest event and add another one a packet time later,
//! with different numbers of pending events.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use silvan_engine::random::Stream;
use silvan_engine::{Event, EventQueue, Time};

fn holds(criterion: &mut Criterion) {
    const HOLDS: u64 = 10_000;
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(HOLDS));
    for pending in [100_u32, 5_000, 100_000] {
        // As in the simulator: with more hosts, events are closer together.
        let mut queue = EventQueue::new(Time(1_024_000 / u64::from(pending)), Time::ZERO);
        let mut random = Stream::new(1, "bench", 0);
        for data in 0..pending {
            queue.push(Event { time: Time(u64::from(random.below(1_024_000))), key: data, data });
        }
        group.bench_function(BenchmarkId::new("hold", pending), |bencher| {
            bencher.iter(|| {
                for _ in 0..HOLDS {
                    if let Some(event) = queue.pop() {
                        let delay = 100_000 + u64::from(random.below(1_024_000));
                        queue.push(Event { time: Time(event.time.0 + delay), ..event });
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, holds);
criterion_main!(benches);
