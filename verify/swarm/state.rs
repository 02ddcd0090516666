//! The state of a swarm in a file, from which an interrupted swarm resumes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::case::Hash;
use crate::coverage::Counts;

/// A failure, as listed at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub seed: u64,
    pub check: String,
    pub what: String,
}

/// The state of a swarm.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Identifies the program, the checks and the first seed.
    pub of: String,
    /// Chunks that are finished.
    pub done: BTreeSet<u64>,
    pub scenarios: u64,
    /// Number of generated scenarios that the loader rejected, and the reasons.
    pub refused: u64,
    pub reasons: Counts,
    /// Keys and choices of the scenarios that were run.
    pub drawn: Counts,
    /// Number of times that each check was made, and number of runs with each result.
    pub made: Counts,
    pub ends: Counts,
    /// Combinations of mechanism and architecture.
    pub pairs: Counts,
    pub failures: Vec<Listed>,
    /// Thread time in milliseconds.
    pub busy_ms: u64,
}

impl State {
    /// Loads the state from a folder if it belongs to the same program and options; otherwise returns a new
    /// one.
    pub fn load(folder: &Path, of: &str) -> Self {
        let text = fs::read_to_string(file(folder)).unwrap_or_default();
        let state = serde_json::from_str::<Self>(&text).ok().filter(|state| state.of == of);
        state.unwrap_or_else(|| Self { of: of.to_owned(), ..Self::default() })
    }

    /// Writes a temporary file and renames it, so that an interruption leaves the old state or the new one.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        let new = folder.join("state.json.new");
        fs::write(&new, serde_json::to_string(self)?)?;
        fs::rename(new, file(folder))
    }

    /// Adds the results of a chunk.
    pub fn merge(&mut self, chunk: u64, other: Self) {
        self.done.insert(chunk);
        self.scenarios += other.scenarios;
        self.refused += other.refused;
        self.busy_ms += other.busy_ms;
        let counts = [
            (&mut self.reasons, other.reasons),
            (&mut self.drawn, other.drawn),
            (&mut self.made, other.made),
            (&mut self.ends, other.ends),
            (&mut self.pairs, other.pairs),
        ];
        for (own, others) in counts {
            others.into_iter().for_each(|(name, count)| *own.entry(name).or_default() += count);
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
    }

    /// Failures by check.
    pub fn by_check(&self) -> BTreeMap<&str, Vec<&Listed>> {
        let mut found: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
        self.failures.iter().for_each(|failure| found.entry(&failure.check).or_default().push(failure));
        found
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("state.json")
}

/// Identifies this build: findings of another build are not counted.
pub fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mut hash = Hash::new();
    hash.add(&program);
    format!("{:016x}", hash.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_again_by_the_same_program_only() {
        let folder = std::env::temp_dir().join(format!("swarm-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut state = State::load(&folder, "one");
        assert_eq!(state.scenarios, 0);
        let failure = Listed { seed: 3, check: "repeat".to_owned(), what: "differs".to_owned() };
        let drawn = Counts::from([("switch.queues=single".to_owned(), 2)]);
        let chunk = State { scenarios: 5, drawn, failures: vec![failure], ..State::default() };
        state.merge(4, chunk.clone());
        state.merge(2, chunk);
        state.save(&folder).unwrap();
        let again = State::load(&folder, "one");
        assert_eq!(again, state);
        assert_eq!((again.scenarios, again.drawn["switch.queues=single"], again.failures.len()), (10, 4, 2));
        assert!(again.done.contains(&4) && again.done.contains(&2) && !again.done.contains(&3));
        assert_eq!(State::load(&folder, "other").scenarios, 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
