//! Command-line options.

use std::path::PathBuf;

/// The usage text.
pub const USAGE: &str = "\
usage: swarm [--count N] [--first SEED] [--threads N] [--out DIR] [--fresh]
             [--books PROGRAM] [--books-every K] [--skip CHECK,...]
       swarm --seed SEED [--minimise]        one case: its TOML, and its failures
       swarm --file FILE                     the same for a file
       swarm --fingerprints FIRST COUNT      a line per seed, to compare two builds
       swarm --fingerprint-of FILE           the same for a file
       swarm --show SEED ATTEMPT             a generated scenario, accepted or not

  --count N         scenarios, from the first seed on (300)
  --books PROGRAM   the swarm of a debug build, whose results must be the same
  --books-every K   for every K-th chunk of 25 seeds only (1)
  --fresh           discard earlier results; otherwise it resumes
  --skip CHECK,...  checks to skip";

/// The task to execute.
#[derive(Debug, PartialEq)]
pub enum Task {
    Swarm,
    Seed(u64),
    File(PathBuf),
    Fingerprints { first: u64, count: u64 },
    FingerprintOf(PathBuf),
    Show { seed: u64, attempt: u64 },
}

/// The options of [`USAGE`].
#[derive(Debug)]
pub struct Options {
    pub task: Task,
    pub first: u64,
    pub count: u64,
    pub threads: usize,
    pub out: PathBuf,
    pub fresh: bool,
    pub minimise: bool,
    pub books: Option<PathBuf>,
    pub books_every: u64,
    pub skip: Vec<String>,
}

impl Options {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self {
            task: Task::Swarm,
            first: 1,
            count: 300,
            threads,
            out: PathBuf::from("out/swarm"),
            fresh: false,
            minimise: false,
            books: None,
            books_every: 1,
            skip: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut text = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let mut number = || {
                let text = text()?;
                text.parse::<u64>().map_err(|_| format!("{word}: `{text}` is not a whole number"))
            };
            match word.as_str() {
                "--count" => options.count = number()?,
                "--first" => options.first = number()?,
                "--threads" => options.threads = number()?.clamp(1, 256) as usize,
                "--books-every" => options.books_every = number()?.max(1),
                "--seed" => options.task = Task::Seed(number()?),
                "--show" => options.task = Task::Show { seed: number()?, attempt: number()? },
                "--fingerprints" => options.task = Task::Fingerprints { first: number()?, count: number()? },
                "--out" => options.out = text()?.into(),
                "--books" => options.books = Some(text()?.into()),
                "--file" => options.task = Task::File(text()?.into()),
                "--fingerprint-of" => options.task = Task::FingerprintOf(text()?.into()),
                "--skip" => options.skip.extend(text()?.split(',').map(str::to_owned)),
                "--fresh" => options.fresh = true,
                "--minimise" => options.minimise = true,
                _ => return Err(format!("unknown option {word}")),
            }
        }
        Ok(options)
    }
}
