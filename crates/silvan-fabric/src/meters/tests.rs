//! Tests of the sums over partitions.

use super::*;

/// The counters that are added up, and those whose maximum is taken.
fn counters(meters: &mut Meters) -> ([&mut u64; 23], (&mut u64, &mut u32)) {
    let Meters {
        packets_injected,
        packets_delivered,
        control_injected,
        control_delivered,
        fecn_marks,
        validations,
        becn_received,
        reports,
        announced,
        probes,
        trimmed,
        trimmed_marked,
        lost,
        lost_marked,
        lost_control,
        discarded,
        discarded_marked,
        timeouts,
        overtaken,
        retired,
        restored,
        path_probes,
        resent,
        busiest_link_ps,
        most_header_bytes,
        ..
    } = meters;
    let sums = [
        packets_injected,
        packets_delivered,
        control_injected,
        control_delivered,
        fecn_marks,
        validations,
        becn_received,
        reports,
        announced,
        probes,
        trimmed,
        trimmed_marked,
        lost,
        lost_marked,
        lost_control,
        discarded,
        discarded_marked,
        timeouts,
        overtaken,
        retired,
        restored,
        path_probes,
        resent,
    ];
    (sums, (busiest_link_ps, most_header_bytes))
}

#[test]
fn a_run_has_the_sums_and_the_largest_values_of_its_partitions() {
    let fresh = || Meters::new(vec![ClassMeter::new("f".into())], 2);
    let mut parts = [fresh(), fresh()];
    for (part, factor) in parts.iter_mut().zip([3, 10]) {
        let (sums, largest) = counters(part);
        for (number, counter) in (1..).zip(sums) {
            *counter = factor * number;
        }
        (*largest.0, *largest.1) = (factor, 11 - factor as u32);
    }
    let mut whole = fresh();
    // A second call counts nothing twice.
    for _ in 0..2 {
        whole.gather(parts.iter_mut());
        let (sums, largest) = counters(&mut whole);
        assert_eq!(sums.map(|sum| *sum), std::array::from_fn(|at| 13 * (at as u64 + 1)));
        assert_eq!((*largest.0, *largest.1), (10, 8));
    }
}
