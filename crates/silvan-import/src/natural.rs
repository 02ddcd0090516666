//! Natural order of names: "node-2" before "node-10".

use std::cmp::Ordering;

/// Compares names piece by piece. Sequences of digits are compared as numbers.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a, b);
    while !rest_a.is_empty() && !rest_b.is_empty() {
        let (piece_a, after_a) = piece(rest_a);
        let (piece_b, after_b) = piece(rest_b);
        let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        let order = if digits(piece_a) && digits(piece_b) {
            let (value_a, value_b) = (piece_a.trim_start_matches('0'), piece_b.trim_start_matches('0'));
            value_a.len().cmp(&value_b.len()).then_with(|| value_a.cmp(value_b))
        } else {
            piece_a.cmp(piece_b)
        };
        if order.is_ne() {
            return order;
        }
        (rest_a, rest_b) = (after_a, after_b);
    }
    // Names whose pieces are equal as numbers ("a1" and "a01") still need a total order.
    rest_a.len().cmp(&rest_b.len()).then_with(|| a.cmp(b))
}

/// Splits off the first run of digits, or of other characters.
fn piece(text: &str) -> (&str, &str) {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_count_by_value() {
        let mut names =
            vec!["node-10", "node-2", "node-1", "leaf-3", "node-02", "node-1/2", "node-1/1", "node", "é7"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            ["leaf-3", "node", "node-1", "node-1/1", "node-1/2", "node-02", "node-2", "node-10", "é7"]
        );
        assert_eq!(compare("n99999999999999999999", "n100000000000000000000"), Ordering::Less);
    }

    proptest! {
        #[test]
        fn natural_order_is_a_total_order(a in "[a1-][a0-2-]{0,5}", b in "[a1-][a0-2-]{0,5}", c in "[a1-][a0-2-]{0,5}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b) == Ordering::Equal, a == b);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
