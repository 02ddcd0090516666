//! Reading, resolving and building a scenario.

use std::io::Read;
use std::path::{Path, PathBuf};

use silvan_fabric::config::{Assignment, Config, RoutePer};
use silvan_fabric::congestion::Parts;
use silvan_fabric::routing::Tables;
use silvan_fabric::routing::adaptive::AdaptiveTables;
use silvan_fabric::simulation::{Engine, ModelError, Simulation};
use silvan_fabric::topology::Topology;
use silvan_fabric::traffic::Job;
use toml::Table;

use crate::error::{Fault, ScenarioError};
use crate::jobs::{self, Program};
use crate::network;
use crate::plain;
use crate::prepare::prepare;
use crate::report::{self, Report};
use crate::schema;
use crate::shape;
use crate::source::{MAX_TEXT_BYTES, Source, lookup, set};
use crate::spec::{FileTopology, Routing, RoutingSource, Spec, TableRouting, TopologySource};
use crate::validate;

/// A scenario as read, with all that it leaves unsaid filled in.
///
/// Two scenarios are equal if they say the same, wherever they were read from.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it says.
    pub spec: Spec,
    /// Directory that the files it names are relative to.
    pub base_dir: PathBuf,
    /// What it says without effect.
    pub notes: Vec<String>,
    source: Source,
    table: Table,
}

impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Scenario {
    /// Reads a scenario file and sets `overrides` (dotted key, value) on top of it.
    ///
    /// # Errors
    /// An unreadable file, and whatever [`Scenario::from_toml`] refuses.
    pub fn load(path: impl AsRef<Path>, overrides: &[(String, String)]) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let origin = path.display().to_string();
        let text = read(path).map_err(|what| ScenarioError::of_file(&origin, what))?;
        Self::from_toml(&text, &origin, path.parent().unwrap_or(Path::new("")), overrides)
    }

    /// Reads a scenario from a text. `origin` is its name in messages; the files it names are
    /// relative to `base_dir`. A value of an override is a TOML value or a text without quotes.
    ///
    /// # Errors
    /// Texts that are not TOML, unknown keys, values that are wrong in themselves or beside
    /// each other. What needs the network (names of hosts, say) is found by [`Scenario::build`].
    pub fn from_toml(
        text: &str,
        origin: &str,
        base_dir: &Path,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let (source, mut table) = Source::read(text, origin, overrides)?;
        match resolve(&mut table, &source) {
            Ok((spec, notes)) => Ok(Self { spec, base_dir: base_dir.to_owned(), notes, source, table }),
            Err(fault) => Err(source.locate(fault, &table)),
        }
    }

    /// The resolved scenario as a TOML text: every default written out, paths as they were given
    /// (relative to [`Scenario::base_dir`]). It reads back as an equal scenario.
    ///
    /// # Errors
    /// A specification changed by hand into something that TOML cannot say.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        let text = toml::to_string_pretty(&self.spec);
        text.map_err(|e| ScenarioError::of_file(self.origin(), format!("cannot be written as TOML: {e}")))
    }

    /// The same scenario with the files that it names named by whole paths, so that it reads the same
    /// from any folder.
    ///
    /// # Errors
    /// A folder that cannot be told, or whose name is no text.
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
            Err(_) => {
                Err(wrong("the folder's name is not UTF-8 text, so no file in it can be named".to_owned()))
            }
        };
        let mut scenario = self.clone();
        if let TopologySource::File(FileTopology::File { file, .. }) = &mut scenario.spec.topology {
            whole(file)?;
        }
        if let RoutingSource::Table(TableRouting::Table { file }) = &mut scenario.spec.routing.source {
            whole(file)?;
        }
        let lanes = &mut scenario.spec.lanes;
        for file in [&mut lanes.path_levels, &mut lanes.tables].into_iter().flatten() {
            whole(file)?;
        }
        for job in &mut scenario.spec.job {
            if let Program::Trace { file, .. } = &mut job.program {
                whole(file)?;
            }
        }
        Ok(scenario)
    }

    /// The name of the file it was read from.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.source.origin
    }

    /// The kind of routing, as in the file.
    #[must_use]
    pub fn routing_kind(&self) -> &str {
        lookup(&self.table, "routing.kind").and_then(toml::Value::as_str).unwrap_or_default()
    }

    /// The network, its forwarding tables, and the rest of what a run needs.
    ///
    /// # Errors
    /// Files that cannot be read, a network that is not wired right or cannot be routed, hosts
    /// that do not exist, more rows of results than a machine can hold.
    pub fn build(&self) -> Result<(Topology, Tables, Config), ScenarioError> {
        self.try_build().map_err(|fault| self.locate(fault))
    }

    fn try_build(&self) -> Result<(Topology, Tables, Config), Fault> {
        let topology = self.topology()?;
        network::check(&self.spec, &topology)?;
        let tables = self.tables(&topology)?;
        if self.spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.is_per(RoutePer::Flow)) {
            AdaptiveTables::new(&topology)
                .map_err(|error| Fault::new("adaptive_routing", error.to_string()))?;
        }
        silvan_fabric::check_routes(&self.config(Vec::new()), &topology, &tables)?;
        let jobs = jobs::build(&self.spec, &self.base_dir, &topology)?;
        let path_lanes = network::path_lanes(&self.spec, &self.base_dir, &topology, &tables)?;
        let config = Config { path_lanes, ..self.config(jobs) };
        Ok((topology, tables, config))
    }

    /// A run, ready to advance.
    ///
    /// # Errors
    /// As [`Scenario::build`]; and tables that can deadlock, unless `routing.allow_deadlock` is
    /// set.
    pub fn simulation(&self) -> Result<Simulation, ScenarioError> {
        self.simulation_with(Engine::default())
    }

    /// As [`Scenario::simulation`], with the choice of how the run is done.
    ///
    /// # Errors
    /// As of [`Scenario::simulation`].
    pub fn simulation_with(&self, engine: Engine) -> Result<Simulation, ScenarioError> {
        let (topology, tables, config) = self.build()?;
        if !self.spec.routing.allow_deadlock
            && let Some(cycle) = network::deadlock(&topology, &tables, &config)
        {
            let what = format!(
                "can deadlock: packets may wait for each other along {cycle}; {}, or run it all the same with \
                 routing.allow_deadlock = true",
                self.way_out(&topology, &config)
            );
            return Err(self.locate(Fault::new("routing.kind", what)));
        }
        Simulation::with_engine(&topology, &tables, &config, engine).map_err(|error| match error {
            ModelError::Configuration(error) => self.locate(error.into()),
            other => ScenarioError::of_file(self.origin(), other.to_string()),
        })
    }

    /// What keeps packets from waiting for each other.
    fn way_out(&self, topology: &Topology, config: &Config) -> String {
        if config.chosen_routes(RoutePer::Packet).is_some() {
            return "adaptive_routing.per = \"packet\" takes any way of the fewest hops, which is safe on trees; leave it \
                    out"
                .to_owned();
        }
        let other = "choose routing.kind = \"up-down\"";
        let RoutingSource::Computed(routing) = &self.spec.routing.source else { return other.to_owned() };
        match routing.lanes(topology) {
            Ok(Some(lanes)) if self.spec.lanes.assignment != Assignment::Routing => {
                format!("give it {} lanes with lanes.assignment = \"routing\", {other}", lanes.count())
            }
            _ => other.to_owned(),
        }
    }

    /// What the scenario amounts to, without running it.
    ///
    /// # Errors
    /// As [`Scenario::build`]. Tables that can deadlock are reported, not refused.
    pub fn check(&self) -> Result<Report, ScenarioError> {
        let (topology, tables, config) = self.build()?;
        Ok(report::report(self, &topology, &tables, &config))
    }

    fn config(&self, jobs: Vec<Job>) -> Config {
        let spec = &self.spec;
        Config { flows: spec.flow.clone(), traffic: spec.traffic.clone(), jobs, ..settings(spec) }
    }

    fn topology(&self) -> Result<Topology, Fault> {
        match &self.spec.topology {
            TopologySource::Generated(spec) => {
                spec.build().map_err(|error| self.topology_fault(&error.to_string()))
            }
            TopologySource::File(FileTopology::File { file, link_delay, default_rate }) => {
                crate::files::topology(&self.base_dir.join(file), *link_delay, *default_rate)
                    .map_err(|what| Fault::new("topology.file", what))
            }
        }
    }

    /// A generator names the parameter at fault in backquotes, which tells the line.
    fn topology_fault(&self, what: &str) -> Fault {
        let parameter = what.split('`').nth(1).map(|key| format!("topology.{key}"));
        let path = parameter.filter(|path| lookup(&self.table, path).is_some());
        Fault::new(path.unwrap_or_else(|| "topology".to_owned()), what)
    }

    fn tables(&self, topology: &Topology) -> Result<Tables, Fault> {
        let Routing { source, .. } = &self.spec.routing;
        match source {
            RoutingSource::Computed(spec) => {
                spec.compute(topology).map_err(|error| Fault::new("routing.kind", error.to_string()))
            }
            RoutingSource::Table(TableRouting::Table { file }) => {
                crate::files::tables(&self.base_dir.join(file), topology)
                    .map_err(|what| Fault::new("routing.file", what))
            }
        }
    }

    pub(crate) fn locate(&self, fault: Fault) -> ScenarioError {
        self.source.locate(fault, &self.table)
    }
}

/// All but what sends.
pub(crate) fn settings(spec: &Spec) -> Config {
    Config {
        seed: spec.seed,
        duration: spec.duration,
        warmup: spec.warmup,
        packet: spec.packet.clone(),
        lanes: spec.lanes.clone(),
        flow_control: spec.flow_control.clone(),
        switch: spec.switch.clone(),
        host: spec.host.clone(),
        congestion: spec.congestion.clone(),
        adaptive_routing: spec.adaptive_routing.clone().filter(|adaptive| adaptive.enabled),
        flows: Vec::new(),
        traffic: Vec::new(),
        jobs: Vec::new(),
        ends_with_jobs: spec.end_with_jobs,
        path_lanes: None,
        measure: spec.measure.clone(),
        threads: spec.threads.count(),
    }
}

/// From a table of TOML values to types, checked in the order in which a user would look.
fn resolve(table: &mut Table, source: &Source) -> Result<(Spec, Vec<String>), Fault> {
    let notes = prepare(table, source)?;
    let converted = shape::check(table, schema::cached())?;
    // The table keeps what was written, for messages.
    let mut plain = table.clone();
    for (path, quantity) in converted {
        let set = set(&mut plain, &path, toml::Value::String(quantity));
        set.map_err(|what| Fault::new(path, what))?;
    }
    let value = toml::Value::Table(plain);
    let mut spec: Spec = match serde_path_to_error::deserialize(value) {
        Ok(spec) => spec,
        Err(error) => {
            let path = error.path().to_string();
            let what = error.inner().message().lines().collect::<Vec<_>>().join("; ");
            return Err(Fault::new(if path == "." { String::new() } else { path }, what));
        }
    };
    validate::check(&spec)?;
    let Parts { marking, notification, isolation, reaction, .. } = spec.congestion.parts(&spec.packet);
    spec.congestion.marking = Some(marking);
    spec.congestion.notification = Some(notification);
    spec.congestion.isolation = Some(isolation);
    spec.congestion.reaction = Some(reaction);
    let mechanism = spec.congestion.mechanism;
    let switch = &mut spec.switch;
    switch.memory = Some(switch.memory(mechanism));
    switch.control_first = Some(switch.control_first(mechanism));
    (switch.architecture, switch.queues) =
        (Some(switch.architecture(mechanism)), Some(switch.queues(mechanism)));
    Ok((spec, notes))
}

/// Reads a whole file, of bounded size.
fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = MAX_TEXT_BYTES as u64 + 1;
    let file = plain::open(path).map_err(|e| format!("cannot be read: {e}"))?;
    file.take(limit).read_to_end(&mut bytes).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(format!("larger than {MAX_TEXT_BYTES} bytes, the most a scenario may have"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        format!("line {line} is not UTF-8 text; is this a scenario?")
    })
}
