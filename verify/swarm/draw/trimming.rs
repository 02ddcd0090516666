//! Packet trimming, for a scenario that was drawn without it. The choices use a separate random stream, so
//! that the scenario of a seed does not change.

use silvan_engine::random::Stream;
use toml::{Table, Value};

use super::rdma::{acknowledge, first_window, marks_at_hosts};
use super::{Draw, bytes, int, kind, put};

/// The tables `lanes`, `switch` and `congestion` of a seed, with packet trimming. `full` is the size of a
/// full packet in bytes, and `rates` are the rates of the links.
pub fn trimming(seed: u64, full: u64, rates: &[u64]) -> [(&'static str, Table); 3] {
    let mut draw = Draw { random: Stream::new(seed, "swarm trimming", 0), cycle: None, is_crowd: false };
    let [mut lanes, mut switch, mut congestion] = [Table::new(), Table::new(), Table::new()];
    let count = draw.pick(&[2, 2, 3]);
    let control = draw.below(count);
    put(&mut lanes, "count", int(count));
    put(&mut lanes, "control", int(control));
    put(&mut lanes, "control_priority", true);
    let data: Vec<u64> = (0..count).filter(|&lane| lane != control).collect();
    let map: Vec<Value> = (0..16).map(|_| int(draw.pick(&data))).collect();
    put(&mut lanes, "sl_to_vl", Value::Array(map));
    let mut trimming = Table::new();
    let odd = if draw.chance(30) { draw.below(full) } else { 0 };
    let packets = draw.pick(&[1, 1, 2, 3, 10, 40]);
    put(&mut trimming, "queue", bytes(full * packets + odd));
    if draw.chance(50) {
        // Headers as large as packets would keep a packet waiting forever, because each header causes the next packet.
        let size = draw.pick(&[1, 20, 64, 128, full / 2]).clamp(1, full);
        put(&mut trimming, "size", bytes(size));
    }
    if draw.chance(60) {
        let which = draw.word(&["either", "arriving"]);
        put(&mut trimming, "which", which);
    }
    let mut own = Draw { random: Stream::new(seed, "swarm trimming rates", 0), cycle: None, is_crowd: false };
    if own.chance(30) {
        let queue = |draw: &mut Draw, table: &mut Table| {
            let packets = draw.pick(&[1, 2, 5, 20]);
            put(table, "queue", bytes(full * packets + draw.below(full)));
        };
        put(&mut trimming, "rates", own.thresholds(rates, queue));
    }
    put(&mut switch, "arbitration", "fcfs");
    put(&mut switch, "trimming", trimming);
    let marking = if draw.chance(80) { draw.red(full) } else { kind("none") };
    put(&mut congestion, "marking", marking);
    if draw.chance(60) {
        put(&mut congestion, "notification", "ack-grant");
        put(&mut congestion, "reaction", draw.rccc(full));
    } else {
        let mut reaction = kind("nscc");
        draw.nscc(&mut reaction);
        put(&mut congestion, "notification", "ack-each");
        put(&mut congestion, "reaction", reaction);
    }
    acknowledge(seed, full, &mut congestion);
    marks_at_hosts(seed, &mut congestion);
    first_window(seed, full, &mut congestion);
    [("lanes", lanes), ("switch", switch), ("congestion", congestion)]
}
