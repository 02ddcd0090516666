//! Subjects of the results. A [`Section`] defines what it records, its entry in the summary, its tables, and
//! its sentences in the account. The list in `outcome/mod.rs` names all sections.

use silvan_congestion::Components;
use silvan_congestion::round_trip::RoundTrip;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Rate, Time};

use crate::config::Config;
use crate::faults::PlannedChanges;
use crate::host::PacketSizes;
use crate::jobs::Closed;
use crate::observe::{Judged, LinkName, Series};
use crate::partition::View;
use crate::table::{Described, ResultNames, Table};

/// How transfers are recorded.
#[derive(Debug, Clone, Saved)]
pub(crate) struct TransferPlan {
    pub sizes: PacketSizes,
    /// Whether receivers acknowledge all data.
    pub awaits_acks: bool,
    /// Whether each packet has its own acknowledgement.
    pub is_each: bool,
    /// The end of the warm-up: the summary covers transfers that start from then on.
    pub from: Time,
    /// The number of classes that are flows, which have one name in the results.
    pub flows: u16,
    /// The paces of injection and drain of all hosts.
    #[saved(constant)]
    pub host_paces: (BytePace, BytePace),
}

/// The settings of a run that determine which sections it has.
pub(crate) struct Recording<'a> {
    pub config: &'a Config,
    /// The components of congestion management in effect.
    pub parts: &'a Components,
    /// How transfers are recorded, if they are.
    pub transfers: Option<TransferPlan>,
}

/// The changes of a run, with the names of the links and hosts.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    pub changes: PlannedChanges,
    /// The times at which switches change their tables.
    pub tables: Vec<Time>,
    /// Names of all links, followed by those of all hosts.
    pub names: Vec<String>,
    pub links: usize,
    /// The rate of each host's link.
    pub rates: Vec<Rate>,
}

/// The rate to expect after a change of links until the next one, and the traffic that the change does not
/// affect, as determined before the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The time of the change.
    pub time: Time,
    /// The total payload rate that the remaining network permits to all flows, in Gbit/s.
    pub permitted_gbit_s: f64,
    /// The traffic that the change does not affect; `None` if this is not known.
    pub spared: Option<Spared>,
}

/// Traffic whose routes do not use the links that go down or lose rate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spared {
    /// Numbers of named flows.
    pub flows: Vec<u32>,
    /// Numbers of hosts that receive from patterns.
    pub hosts: Vec<u32>,
}

/// The data from which sections create their results at the end of a run.
pub(crate) struct Ending<'a> {
    pub config: &'a Config,
    /// The components of congestion management in effect.
    pub parts: &'a Components,
    /// The state at the end of the run.
    pub view: View<'a>,
    pub links: &'a [LinkName],
    pub names: &'a ResultNames,
    /// Time series of the network, hosts, flows, links and classes.
    pub series: &'a Series,
    /// Congestion trees, if they were recorded.
    pub forest: Option<Judged>,
    pub jobs: Vec<Closed>,
    pub changes: &'a ChangeLog,
    /// The rates that the network permits after each change of links.
    pub expected: &'a [Expected],
    /// The longest of the round trips from which parameters follow, and their number, one for each group of hosts; `None`
    /// if no component needs them.
    pub round_trip: Option<(RoundTrip, usize)>,
}

impl Ending<'_> {
    pub fn now(&self) -> Time {
        self.view.now
    }

    /// The name of a link, by its index in the results.
    pub fn link(&self, index: usize) -> &str {
        &self.names.links[index]
    }
}

/// A number of times in words.
pub(super) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// What a section adds to the results.
#[derive(Default)]
pub(crate) struct SectionResult<E> {
    /// The entry in the summary.
    pub entry: E,
    pub tables: Vec<Table>,
    /// Sentences of the account.
    pub account: Vec<String>,
    pub warnings: Vec<String>,
}

/// A subject of the results.
pub(crate) trait Section: Saved + Sized {
    /// The entry in the summary: `Option` or `Vec`, which is left out if it is empty; `()` without an entry.
    type Entry: Default;
    /// Which runs have the tables, as a clause that follows "a run has it"; empty without tables.
    const WHEN: &'static str = "";
    /// The tables. A run has either all of them or none.
    const TABLES: &'static [&'static dyn Described] = &[];

    /// The section of a run; `None` if the run does not have it.
    fn new(of: &Recording) -> Option<Self>;

    /// Records the interval that ends now.
    fn sample(&mut self, _view: View) {}

    /// The results at the end of the run.
    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry>;
}
