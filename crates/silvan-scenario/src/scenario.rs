//! Reads, resolves and builds a scenario.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use silvan_congestion::Components;
use silvan_engine::Time;
use silvan_fabric::config::{Assignment, Config, RoutePer};
use silvan_fabric::faults::PlannedChanges;
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_fabric::{FaultPlan, RecordPlan, completed_tables};
use silvan_network::routing::Tables;
use silvan_network::routing::adaptive::AdaptiveTables;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Job, Pattern, Sizes};
use toml::Table;

use crate::error::{Fault, ScenarioError};
use crate::fluid;
use crate::import::{FilePorts, Wiring, plain, unicode};
use crate::jobs::{self, Program};
use crate::network;
use crate::ports::{self, PortsOfJobs};
use crate::prepare::prepare;
use crate::ranges;
use crate::report::{self, Report};
use crate::rows;
use crate::schema;
use crate::shape;
use crate::source::{MAX_TEXT_BYTES, Source, lookup, set};
use crate::spec::{FileTopology, Routing, RoutingSource, Spec, TableRouting, TopologySource};
use crate::threads::Threads;
use crate::transfers;
use crate::validate::{self, ensure};

/// A scenario, with all defaults filled in.
///
/// Two scenarios are equal if their contents are equal, regardless of the files from which they were read.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The contents.
    pub spec: Spec,
    /// Folder to which file names in the scenario are relative.
    pub base_dir: PathBuf,
    /// Warnings about keys that have no effect.
    pub notes: Vec<String>,
    /// Contents of files of networks and transfers, once these have been read.
    of_files: OnceLock<OfFiles>,
    /// Whether the file or an override sets `switch.latency`.
    has_latency: bool,
    /// See [`Config::records`].
    records: bool,
    source: Source,
    table: Table,
}

/// The network, its tables and the configuration of a run; see [`Scenario::try_build`].
type Built = ((Topology, Tables, Config), PlannedChanges, bool);

/// What the files of a scenario contain in addition to the network and the traffic.
#[derive(Debug, Clone, Default)]
struct OfFiles {
    notes: Vec<String>,
    /// Node GUIDs of the adapters in the file of the topology, by host; empty if there are none.
    node_guids: Vec<Option<u64>>,
    /// Latency of the switches, unless the scenario sets it.
    latency: Option<Time>,
    /// What the file of the topology states about hosts with several ports.
    ports: FilePorts,
}

impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

/// The largest number of hosts of a network that [`Scenario::check`] sets up, including reduction units.
pub const MOST_HOSTS_SET_UP: usize = 4_096;

impl Scenario {
    /// Reads a scenario file and applies `overrides` (dotted key, value) to it.
    ///
    /// # Errors
    /// If the file cannot be read, or any error of [`Scenario::from_toml`].
    pub fn load(path: impl AsRef<Path>, overrides: &[(String, String)]) -> Result<Self, ScenarioError> {
        Self::of_file(path.as_ref(), |text, origin, base_dir| {
            Self::from_toml(text, origin, base_dir, overrides)
        })
    }

    /// Same as [`Scenario::load`], for a program that sends messages. If nothing in the scenario sends, the program does.
    ///
    /// # Errors
    /// Those of [`Scenario::load`].
    pub fn load_controlled(
        path: impl AsRef<Path>,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        Self::of_file(path.as_ref(), |text, origin, base_dir| {
            Self::controlled_from_toml(text, origin, base_dir, overrides)
        })
    }

    /// Calls a function with the text of a file, its name in errors, and its folder.
    fn of_file(
        path: &Path,
        read_text: impl FnOnce(&str, &str, &Path) -> Result<Self, ScenarioError>,
    ) -> Result<Self, ScenarioError> {
        let origin = path.display().to_string();
        let text = read(path).map_err(|what| ScenarioError::of_file(&origin, what))?;
        read_text(&text, &origin, path.parent().unwrap_or(Path::new("")))
    }

    /// Same as [`Scenario::from_toml`], for a program that sends messages. If nothing in the scenario sends, the program does.
    ///
    /// # Errors
    /// Those of [`Scenario::from_toml`].
    pub fn controlled_from_toml(
        text: &str,
        origin: &str,
        base_dir: &Path,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let (mut source, mut table) = Source::read(text, origin, overrides)?;
        if !["flow", "traffic", "job", "external"].iter().any(|key| table.contains_key(*key)) {
            source.set(&mut table, "external", "{}")?;
        }
        Self::of_table(source, table, base_dir)
    }

    /// Reads a scenario from a string. `origin` names the string in error messages. File names in the
    /// scenario are relative to `base_dir`. The value of an override is a TOML value, or a string without
    /// quotes.
    ///
    /// # Errors
    /// If the text is too long or not TOML, an override has an invalid place, a key is unknown, a value is
    /// invalid, or two values contradict each other. Errors that depend on the network (for example, unknown
    /// host names) are found by [`Scenario::build`].
    pub fn from_toml(
        text: &str,
        origin: &str,
        base_dir: &Path,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let (source, table) = Source::read(text, origin, overrides)?;
        Self::of_table(source, table, base_dir)
    }

    fn of_table(mut source: Source, mut table: Table, base_dir: &Path) -> Result<Self, ScenarioError> {
        let has_latency = lookup(&table, "switch.latency").is_some();
        match resolve(&mut table, &mut source) {
            Ok((spec, notes)) => {
                let (base_dir, of_files) = (base_dir.to_owned(), OnceLock::new());
                Ok(Self { spec, base_dir, notes, of_files, has_latency, records: false, source, table })
            }
            Err(fault) => Err(source.locate(fault, &table)),
        }
    }

    /// The resolved scenario as TOML, with all defaults written out. File names remain as they were given
    /// (relative to [`Scenario::base_dir`]). Reading the text gives an equal scenario.
    ///
    /// # Errors
    /// If code has changed the specification to something that TOML cannot represent.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        let is_of_file = matches!(self.spec.topology, TopologySource::File(_)) && !self.has_latency;
        let text = if is_of_file {
            // Without this key, the latency is that in the file of the topology, if it has one.
            Table::try_from(&self.spec).and_then(|mut table| {
                if let Some(switch) = table.get_mut("switch").and_then(toml::Value::as_table_mut) {
                    switch.remove("latency");
                }
                toml::to_string_pretty(&table)
            })
        } else {
            toml::to_string_pretty(&self.spec)
        };
        text.map_err(|e| ScenarioError::of_file(self.origin(), format!("cannot be written as TOML: {e}")))
    }

    /// A copy of the scenario with absolute file names, which can be read from any folder.
    ///
    /// # Errors
    /// If the current folder cannot be determined, or its name is not valid UTF-8.
    pub fn standalone(&self) -> Result<Self, ScenarioError> {
        let wrong = |what: String| ScenarioError::of_file(&self.base_dir.display().to_string(), what);
        let base = std::path::absolute(if self.base_dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.base_dir
        })
        .map_err(|error| wrong(error.to_string()))?;
        let whole = |file: &mut String| match base.join(&*file).into_os_string().into_string() {
            Ok(path) => {
                *file = path;
                Ok(())
            }
            Err(_) => Err(wrong(
                "the folder name is not UTF-8 text, so the scenario cannot name files in it".to_owned(),
            )),
        };
        let mut scenario = self.clone();
        if let TopologySource::File(FileTopology::File { file, .. }) = &mut scenario.spec.topology {
            whole(file)?;
        }
        if let RoutingSource::Table(TableRouting::Table { file, .. }) = &mut scenario.spec.routing.source {
            whole(file)?;
        }
        let (lanes, rerouting) = (&mut scenario.spec.lanes, &mut scenario.spec.rerouting);
        for file in [&mut lanes.path_levels, &mut lanes.tables, &mut rerouting.tables].into_iter().flatten() {
            whole(file)?;
        }
        for traffic in &mut scenario.spec.traffic {
            if let Some(Sizes::File { file }) = &mut traffic.sizes {
                whole(file)?;
            }
            if let Pattern::Listed(listed) = &mut traffic.pattern {
                whole(&mut listed.file)?;
            }
        }
        for job in &mut scenario.spec.job {
            if let Program::Trace { file, .. } = &mut job.program {
                whole(file)?;
            }
        }
        Ok(scenario)
    }

    /// Notes about files of networks and transfers. There are none before they have been read by
    /// [`Scenario::build`] or [`Scenario::simulation`].
    #[must_use]
    pub fn file_notes(&self) -> &[String] {
        self.of_files.get().map_or(&[], |found| &found.notes)
    }

    /// Node GUIDs of the adapters in the file of the topology, by host. Empty if the file states none, or before it
    /// has been read by [`Scenario::build`] or [`Scenario::simulation`].
    #[must_use]
    pub fn node_guids(&self) -> &[Option<u64>] {
        self.of_files.get().map_or(&[], |found| &found.node_guids)
    }

    /// Name of the file from which the scenario was read, or the `origin` of its text.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.source.origin
    }

    /// The kind of routing: as written in the file or an override, or the default of the topology.
    #[must_use]
    pub fn routing_kind(&self) -> &str {
        lookup(&self.table, "routing.kind").and_then(toml::Value::as_str).unwrap_or_default()
    }

    /// Creates the network, its forwarding tables, and the configuration of a run. The last hosts are the reduction units
    /// that jobs use; [`Scenario::build_plain`] leaves them out.
    ///
    /// # Errors
    /// If a file cannot be read, the network has wiring errors or cannot be routed, a host does not exist,
    /// the jobs or virtual lanes do not fit the network, or the run would record too many rows (see `rows`).
    pub fn build(&self) -> Result<(Topology, Tables, Config), ScenarioError> {
        self.try_build().map(|(built, ..)| built).map_err(|fault| self.locate(fault))
    }

    /// Same as [`Scenario::build`], but the network and the tables contain no reduction units.
    ///
    /// # Errors
    /// Same as [`Scenario::build`].
    pub fn build_plain(&self) -> Result<(Topology, Tables, Config), ScenarioError> {
        self.build().and_then(|built| self.plain(built))
    }

    /// The hosts with several ports, and how messages of jobs use them; `None` if all hosts have one port.
    ///
    /// # Errors
    /// If a file cannot be read, or the ports of hosts do not fit together.
    pub fn ports_of_jobs(&self) -> Result<Option<PortsOfJobs>, ScenarioError> {
        let made =
            self.topology().and_then(|(topology, found)| PortsOfJobs::new(&self.spec, topology, found.ports));
        made.map_err(|fault| self.locate(fault))
    }

    /// Replaces a network and its tables by those without reduction units.
    fn plain(
        &self,
        (topology, tables, config): (Topology, Tables, Config),
    ) -> Result<(Topology, Tables, Config), ScenarioError> {
        if topology.units == 0 {
            return Ok((topology, tables, config));
        }
        let plain = || {
            let (topology, _) = self.topology()?;
            let (tables, _) = self.tables(&topology)?;
            Ok((topology, tables))
        };
        let (topology, tables) = plain().map_err(|fault| self.locate(fault))?;
        Ok((topology, tables, config))
    }

    /// Builds the network, its tables and the configuration of a run. Also returns the changes of links and
    /// hosts, and whether the tables are known to be deadlock-free on a single lane.
    fn try_build(&self) -> Result<Built, Fault> {
        let (mut topology, mut found) = self.topology()?;
        network::check(&self.spec, &topology)?;
        let (mut tables, notes) = self.tables(&topology)?;
        found.notes.extend(notes);
        if self.spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.is_per(RoutePer::Flow)) {
            AdaptiveTables::new(&topology)
                .map_err(|error| Fault::new("adaptive_routing", error.to_string()))?;
        }
        let deadlock_free = silvan_fabric::check_routes(&self.config(Vec::new()), &topology, &tables)?;
        let with_ports = ports::of_file::resolved(&self.spec, &topology, found.ports)?;
        let spec = with_ports.as_ref().unwrap_or(&self.spec);
        let (mut jobs, units) = jobs::build(spec, &self.base_dir, &topology)?;
        if !units.is_empty() {
            units.install(&self.spec, &mut topology, &mut jobs)?;
            tables = tables.with_units(&topology);
        }
        let path_lanes = network::path_lanes(&self.spec, &self.base_dir, &topology, &tables)?;
        let (traffic, notes) = transfers::load(&self.spec.traffic, &self.base_dir, &topology)?;
        found.notes.extend(notes);
        validate::trimming::check_listed(&self.spec, &traffic)?;
        let (tables_after_faults, notes) = self.tables_after_faults(&topology, &tables)?.unzip();
        found.notes.extend(notes.into_iter().flatten());
        let records = self.records;
        let mut config = Config { path_lanes, traffic, tables_after_faults, records, ..self.config(jobs) };
        if let Some(latency) = found.latency {
            config.switch.latency = latency;
        }
        if config.external.is_some() {
            config.duration = config.duration.min(rows::longest(&self.spec, &topology));
        }
        self.of_files.get_or_init(|| found);
        let changes = PlannedChanges::new(&config.events, &topology, config.duration, config.seed)?;
        Ok(((topology, tables, config), changes, deadlock_free))
    }

    /// Creates a run that is ready to advance.
    ///
    /// # Errors
    /// Same as [`Scenario::build`], and if settings do not fit together. Tables that can deadlock are also an
    /// error, unless `routing.allow_deadlock` is set.
    pub fn simulation(&self) -> Result<Simulation, ScenarioError> {
        self.simulation_with(|_, _, _| ()).map(|(simulation, ())| simulation)
    }

    /// Creates a run that records departures, with one thread, which does not change its results.
    ///
    /// # Errors
    /// Same as [`Scenario::simulation`].
    pub fn recorded(&self, plan: RecordPlan) -> Result<Simulation, ScenarioError> {
        let mut single = Self { records: true, ..self.clone() };
        single.spec.threads = Threads::Count(1);
        let mut simulation = single.simulation()?;
        let recorded = simulation.record(plan);
        recorded
            .map_err(|needs| ScenarioError::of_file(self.origin(), format!("a recording needs {needs}")))?;
        Ok(simulation)
    }

    /// Same as [`Self::simulation`], and also returns what a function returns for the network, its tables and the
    /// configuration.
    pub(crate) fn simulation_with<T>(
        &self,
        inspect: impl FnOnce(&Topology, &Tables, &Config) -> T,
    ) -> Result<(Simulation, T), ScenarioError> {
        if self.spec.external.is_some() {
            let what = "needs a program that sends messages, so it cannot be run on its own; see docs/library.md, or leave it out \
                        and add a [[flow]], [[traffic]] or [[job]]";
            return Err(self.locate(Fault::new("external", what)));
        }
        self.set_up_with(inspect)
    }

    /// Same as [`Self::simulation`], also for scenarios in which a program sends messages.
    ///
    /// # Errors
    /// Same as [`Scenario::simulation`].
    pub fn controlled(&self) -> Result<Simulation, ScenarioError> {
        self.set_up_with(|_, _, _| ()).map(|(simulation, ())| simulation)
    }

    fn set_up_with<T>(
        &self,
        inspect: impl FnOnce(&Topology, &Tables, &Config) -> T,
    ) -> Result<(Simulation, T), ScenarioError> {
        let ((topology, tables, config), changes, deadlock_free) =
            self.try_build().map_err(|fault| self.locate(fault))?;
        let only_tables = config.path_lanes.is_none()
            && config.chosen_routes(RoutePer::Packet).is_none()
            && config.hashing().is_none();
        let known_free = deadlock_free && only_tables;
        if !known_free && let Some(cycle) = network::deadlock(&topology, &tables, &config) {
            self.refuse_deadlock(&cycle, &topology, &config)?;
        }
        let faults = self.faults(changes, &topology, &tables, &config)?;
        if let Some((time, cycle)) = faults.transition_deadlock(&config, &topology, &tables)
            && !self.spec.routing.allow_deadlock
        {
            let what = format!(
                "can deadlock when switches change their tables at {time}: packets may wait for each other along {cycle}; leave it \
                 out, or run it anyway with routing.allow_deadlock = true"
            );
            return Err(self.locate(Fault::new("rerouting.delay", what)));
        }
        let expected = fluid::expected(&self.spec, &topology, &tables, &faults);
        let simulation = self.set_up(&topology, &tables, &config, faults)?;
        let warnings = match topology.units {
            0 => {
                let network = (&self.spec, &topology, &tables, &config);
                network::findings_with(simulation.short_credit(), network)
            }
            _ => {
                let (topology, tables, config) = self.build_plain()?;
                network::findings(&self.spec, &topology, &tables, &config)
            }
        };
        let inspected = inspect(&topology, &tables, &config);
        Ok((simulation.with_warnings(warnings).with_expectations(expected), inspected))
    }

    fn faults(
        &self,
        changes: PlannedChanges,
        topology: &Topology,
        tables: &Tables,
        config: &Config,
    ) -> Result<FaultPlan, ScenarioError> {
        FaultPlan::new(config, changes, topology, tables).map_err(|error| self.locate(error.into()))
    }

    /// Creates the nodes of a run whose routes have been checked.
    fn set_up(
        &self,
        topology: &Topology,
        tables: &Tables,
        config: &Config,
        faults: FaultPlan,
    ) -> Result<Simulation, ScenarioError> {
        let simulation = Simulation::with_checked_routes(topology, tables, config, faults);
        simulation.map_err(|error| match error {
            ModelError::Configuration(error) => self.locate(validate::flow_control::fault(&self.spec, error)),
            other => ScenarioError::of_file(self.origin(), other.to_string()),
        })
    }

    /// Fails if the scenario does not allow routes that can deadlock along a cycle.
    pub(crate) fn refuse_deadlock(
        &self,
        cycle: &str,
        topology: &Topology,
        config: &Config,
    ) -> Result<(), ScenarioError> {
        if self.spec.routing.allow_deadlock {
            return Ok(());
        }
        let what = format!(
            "can deadlock: packets may wait for each other along {cycle}; {}, or run it anyway with \
             routing.allow_deadlock = true",
            self.deadlock_advice(topology, config)
        );
        Err(self.locate(Fault::new("routing.kind", what)))
    }

    /// Advice on how to avoid the deadlock.
    fn deadlock_advice(&self, topology: &Topology, config: &Config) -> String {
        if config.chosen_routes(RoutePer::Packet).is_some() {
            return "adaptive_routing.per = \"packet\" uses every shortest route, which is safe only on trees; leave it \
                    out"
                .to_owned();
        }
        if config.hashing().is_some() {
            return "[ecmp] uses every shortest route, which is safe only on trees; leave it out".to_owned();
        }
        let other = "choose routing.kind = \"up-down\"";
        let RoutingSource::Computed(routing) = &self.spec.routing.source else { return other.to_owned() };
        match routing.lanes(topology) {
            Ok(Some(lanes)) if self.spec.lanes.assignment != Assignment::Routing => {
                format!("use {} lanes with lanes.assignment = \"routing\", {other}", lanes.count())
            }
            _ => other.to_owned(),
        }
    }

    /// Summarizes the scenario without running it. If the network is not very large, creates its nodes, which finds the
    /// settings that do not fit together.
    ///
    /// # Errors
    /// Same as [`Scenario::simulation`], for networks of up to [`MOST_HOSTS_SET_UP`] hosts, or as [`Scenario::build`] for
    /// larger ones. Tables that can deadlock are reported, not rejected.
    pub fn check(&self) -> Result<Report, ScenarioError> {
        let (built, changes, _) = self.try_build().map_err(|fault| self.locate(fault))?;
        let (topology, tables, config) = &built;
        if topology.hosts.len() <= MOST_HOSTS_SET_UP {
            let faults = self.faults(changes, topology, tables, config)?;
            self.set_up(topology, tables, config, faults)?;
        }
        let (topology, tables, config) = self.plain(built)?;
        Ok(report::report(self, &topology, &tables, &config))
    }

    fn config(&self, jobs: Vec<Job>) -> Config {
        let spec = &self.spec;
        Config { flows: spec.flow.clone(), traffic: spec.traffic.clone(), jobs, ..settings(spec) }
    }

    fn topology(&self) -> Result<(Topology, OfFiles), Fault> {
        match &self.spec.topology {
            TopologySource::Generated(spec) => {
                let built = spec.build().map_err(|error| self.topology_fault(&error.to_string()))?;
                Ok((ports::with_ports(&self.spec, built)?, OfFiles::default()))
            }
            TopologySource::File(FileTopology::File { file, link_delay, default_rate }) => {
                let read = crate::files::topology(&self.base_dir.join(file), *link_delay, *default_rate);
                let mut wiring = read.map_err(|what| Fault::new("topology.file", what))?;
                let mut latency = None;
                if self.has_latency {
                    if !wiring.latencies.is_empty() {
                        let note = "the latencies of switches in the file are not used, because switch.latency is set";
                        wiring.notes.push(note.to_owned());
                    }
                } else {
                    latency = wiring.settle_latencies();
                }
                let notes = wiring.notes.into_iter().map(|note| format!("topology.file: {note}")).collect();
                let Wiring { topology, node_guids, ports, .. } = wiring;
                Ok((topology, OfFiles { notes, node_guids, latency, ports }))
            }
        }
    }

    /// The fault that a topology generator found. The message has the invalid parameter in backquotes, from
    /// which the line is determined.
    fn topology_fault(&self, what: &str) -> Fault {
        let parameter = what.split('`').nth(1).map(|key| format!("topology.{key}"));
        let path = parameter.filter(|path| lookup(&self.table, path).is_some());
        Fault::new(path.unwrap_or_else(|| "topology".to_owned()), what)
    }

    /// The forwarding tables, and notes about their file.
    fn tables(&self, topology: &Topology) -> Result<(Tables, Vec<String>), Fault> {
        let Routing { source, .. } = &self.spec.routing;
        match source {
            RoutingSource::Computed(spec) => {
                let computed = spec.compute(topology);
                let computed = computed.map_err(|error| Fault::new("routing.kind", error.to_string()))?;
                Ok((computed, Vec::new()))
            }
            RoutingSource::Table(TableRouting::Table { file, path_bits }) => {
                let file = self.base_dir.join(file);
                let (tables, notes) = crate::files::tables(&file, topology, "routing.file")?;
                if !path_bits.is_used() {
                    return Ok((Tables::new(tables.out), notes));
                }
                if tables.lids() == 1 {
                    let what = "has no effect: each host has one LID; leave it out, or take topology.file from ibnetdiscover \
                                or ibdiagnet2.db_csv, which state the LMC";
                    return Err(Fault::new("routing.path_bits", what));
                }
                Ok((tables, notes))
            }
        }
    }

    /// The tables in the file [`Rerouting::tables`], and notes about the file. `None` if the key is not set.
    fn tables_after_faults(
        &self,
        topology: &Topology,
        tables: &Tables,
    ) -> Result<Option<TablesOfFile>, Fault> {
        const KEY: &str = "rerouting.tables";
        let Some(file) = &self.spec.rerouting.tables else { return Ok(None) };
        let (mut found, notes) = crate::files::tables(&self.base_dir.join(file), topology, KEY)?;
        if !self.spec.routing.path_bits().is_used() {
            found = Tables::new(found.out);
        }
        let (lids, own) = (found.lids(), tables.lids());
        ensure(lids == own, KEY, || {
            format!(
                "has tables for {lids} LIDs of each host, but those at the start have {own}; use tables of the same fabric"
            )
        })?;
        if topology.units > 0 {
            found = found.with_units(topology);
        }
        Ok(Some((Arc::new(completed_tables(found, tables)), notes)))
    }

    pub(crate) fn locate(&self, fault: Fault) -> ScenarioError {
        self.source.locate(fault, &self.table)
    }
}

/// The tables in a file, and notes about the file.
type TablesOfFile = (Arc<Tables>, Vec<String>);

/// The configuration of a run without its traffic sources.
pub(crate) fn settings(spec: &Spec) -> Config {
    Config {
        seed: spec.seed,
        duration: spec.duration,
        warmup: spec.warmup,
        packet: spec.packet.clone(),
        lanes: spec.lanes.clone(),
        flow_control: spec.flow_control.clone(),
        link: spec.link.clone(),
        switch: spec.switch.clone(),
        host: spec.host.clone(),
        congestion: spec.congestion.clone(),
        adaptive_routing: spec.adaptive_routing.clone().filter(|adaptive| adaptive.enabled),
        ecmp: spec.ecmp.clone().filter(|ecmp| ecmp.enabled),
        path_bits: spec.routing.path_bits(),
        shared_injection: spec.ports.as_ref().and_then(|ports| ports.injection_rate),
        events: spec.event.clone(),
        rerouting: spec.rerouting.clone(),
        recovery: spec.recovery.clone(),
        flows: Vec::new(),
        traffic: Vec::new(),
        jobs: Vec::new(),
        external: spec.external.clone(),
        ends_with_jobs: spec.end_with_jobs,
        path_lanes: None,
        tables_after_faults: None,
        measure: spec.measure.clone(),
        threads: spec.threads.count(),
        scheduler: spec.scheduler,
        skip: spec.engine.skip,
        records: false,
    }
}

/// Converts a table of TOML values to types. The order of the checks is the order in which a user would fix
/// the errors.
fn resolve(table: &mut Table, source: &mut Source) -> Result<(Spec, Vec<String>), Fault> {
    let notes = prepare(table, source)?;
    let converted = shape::check(table, schema::cached())?;
    // The original table keeps the values as written, for messages.
    let mut plain = table.clone();
    for (path, quantity) in converted {
        let set = set(&mut plain, &path, toml::Value::String(quantity));
        set.map_err(|what| Fault::new(path, what))?;
    }
    source.expanded = ranges::expand(&mut plain)?;
    let value = toml::Value::Table(plain);
    let mut spec: Spec = match serde_path_to_error::deserialize(value) {
        Ok(spec) => spec,
        Err(error) => {
            // "event[0].width" is "event.0.width" in messages.
            let path = error.path().to_string().replace('[', ".").replace(']', "");
            let what = error.inner().message().lines().collect::<Vec<_>>().join("; ");
            return Err(Fault::new(if path == "." { String::new() } else { path }, what));
        }
    };
    validate::check(&spec)?;
    let Components { marking, notification, coalescing, isolation, reaction, .. } =
        spec.congestion.components(&spec.packet);
    spec.congestion.coalescing = coalescing;
    spec.congestion.marking = Some(marking);
    spec.congestion.notification = Some(notification);
    spec.congestion.isolation = Some(isolation);
    spec.congestion.reaction = Some(reaction);
    let mechanism = spec.congestion.mechanism;
    let arbitration = settings(&spec).arbitration();
    if let Some(ports) = &mut spec.ports {
        ports.resolve();
    }
    let switch = &mut spec.switch;
    switch.arbitration = Some(arbitration);
    if let Some(trimming) = &mut switch.trimming {
        trimming.which = Some(trimming.which(arbitration));
    }
    switch.memory = Some(switch.memory(mechanism));
    switch.control_first = Some(switch.control_first(mechanism));
    (switch.architecture, switch.queues) =
        (Some(switch.architecture(mechanism)), Some(switch.queues(mechanism)));
    Ok((spec, notes))
}

/// Reads a whole file of limited size.
fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = MAX_TEXT_BYTES as u64 + 1;
    let file = plain::open(path).map_err(|e| format!("cannot be read: {e}"))?;
    file.take(limit).read_to_end(&mut bytes).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(format!("larger than {MAX_TEXT_BYTES} bytes, the maximum for a scenario"));
    }
    String::from_utf8(unicode(bytes)?).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        format!("line {line} is not UTF-8 text; is this a scenario?")
    })
}
