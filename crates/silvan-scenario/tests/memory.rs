//! The memory that the set-up of a run allocates, per host, for each pattern of traffic.
//!
//! An allocator counts the bytes of each thread, so other tests do not affect the numbers, and they are the same on each
//! machine. `make bench` measures the same patterns with 11,664 hosts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use silvan_scenario::Scenario;

#[path = "../../../benches/setups.rs"]
mod setups;

use setups::SETUPS;

/// Counts the bytes that a thread has allocated and not freed, and their maximum.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: all blocks belong to `System`, and counting neither allocates nor has a destructor.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Bytes per host of a run after the set-up, and at the peak of the set-up.
#[derive(Debug, Clone, Copy)]
struct Memory {
    live: isize,
    peak: isize,
}

/// Sets up a run on a fat tree with three levels of switches, and returns its memory.
fn set_up(radix: u32, traffic: &str) -> Memory {
    let text = format!(
        r#"duration = "1 ms"
measure = {{ links = false, hosts = false, forest = false, interval = "1 ms" }}
topology = {{ kind = "three-level-fat-tree", radix = {radix} }}
congestion = {{ mechanism = "ib-cc" }}
{traffic}
"#
    );
    let before = LIVE.get();
    PEAK.set(before);
    let scenario = Scenario::from_toml(&text, "memory.toml", Path::new(""), &[]).unwrap();
    let simulation = scenario.simulation().unwrap();
    drop(scenario);
    let hosts = simulation.size().hosts as isize;
    assert_eq!(hosts, (radix * radix * radix / 4) as isize);
    Memory { live: (LIVE.get() - before) / hosts, peak: (PEAK.get() - before) / hosts }
}

/// A network without other traffic than a flow: hosts, links, switches, tables, names.
fn idle(radix: u32) -> Memory {
    set_up(radix, "flow = [{ from = \"H1\", to = \"H2\" }]")
}

/// The most bytes per host of a pattern in addition to those of an idle network: 20 % more than the 540 of patterns with one
/// source per host, 650 with the generator of a forest, and 780 if each message has a flow. A list of all hosts at each host
/// would exceed this with 1,024 hosts.
fn most(pattern: &str) -> isize {
    match pattern {
        "forest" => 780,
        "incast" | "web-search" => 940,
        _ => 650,
    }
}

#[test]
fn the_memory_of_a_host_depends_neither_on_the_pattern_nor_on_the_size_of_the_network() {
    // The first scenario builds the schema, which is kept.
    idle(8);
    for radix in [8, 16] {
        let idle = idle(radix);
        // 20 % more than a host takes with its share of switches, links, tables and names.
        assert!(idle.live <= 7_500 && idle.peak <= 9_500, "{radix} ports: {idle:?}");
        for (name, traffic) in SETUPS {
            let with = set_up(radix, &format!("traffic = [{{ {traffic} }}]"));
            let added = Memory { live: with.live - idle.live, peak: with.peak - idle.peak };
            assert!(added.live.max(added.peak) <= most(name), "{radix} ports, {name}: {added:?}");
            // A source alone has 128 bytes.
            assert!(added.live > 128, "{radix} ports, {name}: {added:?}");
        }
    }
}

#[test]
fn bytes_are_counted_per_thread_and_at_the_peak() {
    let (before, other) = (LIVE.get(), std::thread::spawn(|| vec![0u8; 1 << 20]).join().unwrap());
    let mut blocks = vec![vec![1u8; 3_000]];
    PEAK.set(LIVE.get());
    blocks.push(vec![2; 5_000]);
    blocks[1].reserve_exact(9_000);
    let peak = PEAK.get() - before;
    blocks.pop();
    assert!((17_000..18_000).contains(&peak), "{peak}");
    assert!((3_000..4_000).contains(&(LIVE.get() - before)), "{}", LIVE.get() - before);
    assert_eq!((blocks[0][7], other.len()), (1, 1 << 20));
}
