//! The swarm: runs random scenarios in several ways and checks the properties that every run must have.
//!
//! ```text
//! cargo run --release -p silvan-scenario --example swarm -- --count 300
//! cargo run --release -p silvan-scenario --example swarm -- --seed 17
//! ```
//!
//! `verify/README.md` describes the checks and how to repeat a failed case.

mod accounting;
mod case;
mod checks;
mod coverage;
mod draw;
mod drive;
mod explained;
mod finish;
mod minimize;
mod options;
mod state;
mod variants;
mod watch;

use std::process::ExitCode;

use options::{Options, Task, USAGE};

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("swarm: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    case::install_hook();
    let result = match &options.task {
        Task::Swarm => drive::swarm(&options),
        Task::Seed(seed) => drive::replay(*seed, &options),
        Task::File(file) => drive::replay_file(file, &options),
        Task::Fingerprints { first, count } => drive::fingerprints(*first, *count),
        Task::FingerprintOf(file) => drive::fingerprint_of(file),
        Task::Show { seed, attempt } => drive::show(*seed, *attempt),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("swarm: {error}");
            ExitCode::from(2)
        }
    }
}
