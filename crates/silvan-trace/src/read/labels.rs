//! The labels of the operations of a rank in text GOAL.
//!
//! Most schedules number their labels: `l1`, `l2`, ... Consecutive numbers of consecutive operations take the space of one.

use std::collections::HashMap;

/// Labels with consecutive numbers, of consecutive operations.
#[derive(Debug, Clone, Copy)]
struct Run {
    number: u64,
    operation: u32,
    length: u32,
}

/// Labels with their operations.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// For each text before the number of a label, runs in the order of their numbers.
    numbered: HashMap<String, Vec<Run>>,
    others: HashMap<String, u32>,
}

impl Labels {
    /// Adds a label. Returns whether it is new; otherwise, the earlier one remains.
    pub fn insert(&mut self, label: &str, operation: u32) -> bool {
        if self.get(label).is_some() {
            return false;
        }
        if let Some((name, number)) = parts(label) {
            if !self.numbered.contains_key(name) {
                self.numbered.insert(name.to_owned(), Vec::new());
            }
            let Some(runs) = self.numbered.get_mut(name) else { return false };
            let run = Run { number, operation, length: 1 };
            let Some(last) = runs.last_mut() else {
                runs.push(run);
                return true;
            };
            let end = last.number + u64::from(last.length);
            if number == end && operation == last.operation + last.length {
                last.length += 1;
                return true;
            }
            if number >= end {
                runs.push(run);
                return true;
            }
        }
        self.others.insert(label.to_owned(), operation);
        true
    }

    /// The operation of a label, if it is known.
    pub fn get(&self, label: &str) -> Option<u32> {
        let numbered = || {
            let (name, number) = parts(label)?;
            let runs = self.numbered.get(name)?;
            let run = runs[..runs.partition_point(|run| run.number <= number)].last()?;
            let place = u32::try_from(number - run.number).ok().filter(|&place| place < run.length)?;
            Some(run.operation + place)
        };
        numbered().or_else(|| self.others.get(label).copied())
    }

    /// Removes all labels.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Divides a label into the text before a number and this number, if there is one that has a single spelling.
fn parts(label: &str) -> Option<(&str, u64)> {
    let name = label.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &label[name.len()..];
    // 18 digits are always less than 2^63.
    let is_plain = digits.len() <= 18 && (digits == "0" || !digits.starts_with('0'));
    is_plain.then(|| digits.parse().ok()).flatten().map(|number| (name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_first_operations() {
        let mut labels = Labels::default();
        let given = [
            ("l1", 0),
            ("l2", 1),
            ("l3", 3),
            ("l10", 4),
            ("l11", 5),
            ("l5", 6),
            ("l", 7),
            ("l05", 8),
            ("l0", 9),
            ("x7", 10),
            ("x8", 11),
            ("l4", 12),
            ("l1234567890123456789012", 13),
            ("a1b", 14),
        ];
        for (label, operation) in given {
            assert_eq!(labels.get(label), None, "{label}");
            assert!(labels.insert(label, operation), "{label}");
        }
        for (label, operation) in given {
            assert!(!labels.insert(label, 100), "{label}");
            assert_eq!(labels.get(label), Some(operation), "{label}");
        }
        for label in ["l6", "l12", "l9", "x6", "x9", "x", "l00", "y1", "a1"] {
            assert_eq!(labels.get(label), None, "{label}");
        }
        assert_eq!(labels.numbered["l"].len(), 3, "of 1 and 2, of 3, and of 10 and 11");
        labels.clear();
        assert_eq!(labels.get("l1"), None);
    }
}
