//! Tests of the division of a network among threads.

use super::*;

#[test]
fn elements_keep_their_order_in_each_partition() {
    let places = [(1, 0), (0, 0), (1, 1), (2, 0)];
    assert_eq!(divide(vec!["a", "b", "c", "d"], &places, 4), [vec!["b"], vec!["a", "c"], vec!["d"], vec![]]);
}

#[test]
fn hosts_and_switches_have_places_of_their_own() {
    let places = Places { senders: Vec::new(), hosts: vec![(0, 0), (2, 5)], switches: vec![(1, 0), (0, 7)] };
    assert_eq!(place_of(NodeRef::Host(1), &places), (2, 5));
    assert_eq!(place_of(NodeRef::Switch(1), &places), (0, 7));
}
