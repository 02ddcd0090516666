//! Writes the results of a run to a folder that `silvan show` and `silvan.load` read: the summary, the account, the scenario
//! and the provenance. The tables of time series are written only by the Python package.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Serializer, json};
use silvan_fabric::outcome::Outcome;
use silvan_scenario::Scenario;

/// Version of the layout of the folder; see `python/silvan/_folder.py`.
const FORMAT: u32 = 4;

/// Writes JSON as Python does, so that the files of a run do not depend on the interface that started it.
struct PythonFormat<'a>(PrettyFormatter<'a>);

/// Forwards methods to the formatter inside.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$method(writer $(, $argument)*)
        })*
    };
}

impl Formatter for PythonFormat<'_> {
    forward! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(number(value).as_bytes())
    }
}

/// A number as Python writes it: with the fewest digits that identify it, and with an exponent if it is below 0.0001 or at least
/// 10^16.
fn number(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

fn to_json(value: &impl Serialize) -> io::Result<String> {
    let mut text = Vec::new();
    let format = PythonFormat(PrettyFormatter::with_indent(b"  "));
    value.serialize(&mut Serializer::with_formatter(&mut text, format))?;
    text.push(b'\n');
    String::from_utf8(text).map_err(io::Error::other)
}

/// The date and time in UTC, as in `2026-11-30T12:00:00+00:00`.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, in eras of 400 years, so that the leap day is the last day of its year.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, is_late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + is_late;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

/// The processor's model; empty if it is unknown.
fn processor() -> String {
    let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = facts.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or(String::new(), |(_, name)| name.trim().to_owned())
}

/// The origin of a run.
#[derive(Debug)]
pub struct RunFacts {
    /// The scenario.
    pub scenario: Scenario,
    /// Overrides of the scenario: dotted keys and values.
    pub overrides: Vec<(String, String)>,
    /// When the run began.
    pub started: SystemTime,
}

/// Writes the results of a run. Files with the same names are replaced.
///
/// # Errors
/// If the scenario cannot be written as text, or a file cannot be written.
pub(crate) fn write(folder: &Path, outcome: &Outcome, run: &RunFacts) -> io::Result<()> {
    let RunFacts { scenario, overrides, started } = run;
    let wall_s = started.elapsed().unwrap_or(Duration::ZERO).as_secs_f64();
    let of_scenario = scenario.standalone().and_then(|scenario| scenario.to_toml());
    let of_scenario = of_scenario.map_err(|error| io::Error::other(error.to_string()))?;
    let mut account = outcome.account.clone();
    account.extend(outcome.warnings.iter().map(|warning| format!("Warning: {warning}")));
    let events = outcome.summary.events as f64;
    let machine = json!({
        "system": std::env::consts::OS,
        "cpu": processor(),
        "cores": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
    });
    let provenance = json!({
        "scenario": scenario.spec.name.as_deref().unwrap_or("scenario"),
        "origin": scenario.origin(),
        "base_dir": std::path::absolute(&scenario.base_dir).unwrap_or_default(),
        "overrides": overrides.iter().cloned().collect::<BTreeMap<_, _>>(),
        "seed": scenario.spec.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "git_commit": null,
        "started": timestamp(*started),
        "wall_s": (wall_s * 1e3).round() / 1e3,
        "events_per_s": (wall_s > 0.0).then(|| (events / wall_s).round() as u64),
        "machine": machine,
        "python": "",
        "format": FORMAT,
        "tables": [],
        "account": outcome.account,
        "warnings": outcome.warnings,
    });
    fs::create_dir_all(folder)?;
    fs::write(folder.join("scenario.toml"), of_scenario)?;
    fs::write(folder.join("summary.json"), to_json(&outcome.summary)?)?;
    fs::write(
        folder.join("account.txt"),
        account.iter().map(|line| format!("{line}\n")).collect::<String>(),
    )?;
    // The last file marks a complete folder.
    fs::write(folder.join("provenance.json"), to_json(&provenance)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let written = [0.0, 1.0, -2.5, 0.0001, 0.00001, 1.5e-7, 1e15, 1e16, 123_456_789_012_345_680.0, 1e100];
        let expected = [
            "0.0",
            "1.0",
            "-2.5",
            "0.0001",
            "1e-05",
            "1.5e-07",
            "1000000000000000.0",
            "1e+16",
            "1.2345678901234568e+17",
            "1e+100",
        ];
        assert_eq!(written.map(number), expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56+00:00");
        assert_eq!(at(1_796_083_199), "2026-11-30T23:59:59+00:00");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00+00:00");
    }
}
