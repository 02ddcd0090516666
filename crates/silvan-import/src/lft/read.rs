//! Parses the text of a dump into tables.

use std::collections::HashMap;

use silvan_network::routing::Tables;
use silvan_network::topology::{NodeRef, Topology};

use super::{Forwarding, SwitchRoutes};
use crate::scan::{self, Cursor, Lines};
use crate::{ImportError, MAX_UNICAST_LID, clip, noise};

/// First words of a table in `opensm.fdbs` or `ibdiagnet2.fdbs`.
const FDBS_HEADER: &str = "dump_ucast_routes: Switch ";
/// Additional line in the output of ibdiagnet, where a switch may have several tables.
const FDBS_TABLE: &str = "PLFT_NUM:";
/// Port number that OpenSM writes for "no path".
const NO_PATH: u16 = 255;
/// Maximum number of table entries, which take 512 MiB of memory.
const MAX_ENTRIES: usize = 256 << 20;

/// One table of the file, with a port per LID.
struct Section {
    switch: usize,
    line: usize,
    top: u16,
    /// Port of each LID; `NO_PATH` for LIDs without an entry. The list is only as long as the largest LID
    /// requires.
    ports: Vec<u16>,
    seen: Vec<bool>,
    entries: usize,
}

/// The known owners of LIDs.
struct Owners<'a> {
    topology: &'a Topology,
    by_guid: HashMap<u64, NodeRef>,
    by_name: HashMap<&'a str, NodeRef>,
    owner: HashMap<u16, NodeRef>,
    /// Base LID of each host; 0 if unknown.
    host_lids: Vec<u16>,
    switch_lids: Vec<Option<u16>>,
    /// The largest number of LIDs of a host.
    lids: usize,
}

/// Reads a whole dump. LIDs are resolved to hosts only at the end, because a later line may name the owner
/// of a LID.
pub(super) fn forwarding(text: &str, origin: &str, topology: &Topology) -> Result<Forwarding, ImportError> {
    check_size(origin, topology)?;
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#') && !noise::is_noise(line);
    let mut lines = text.lines().map(str::trim).filter(is_row);
    if lines.find(|l| !l.starts_with(FDBS_TABLE)).is_some_and(|l| l.contains(FDBS_HEADER)) {
        return fdbs(text, origin, topology);
    }
    dump(text, origin, topology)
}

/// The largest number of LIDs of a host.
fn most_lids(topology: &Topology) -> usize {
    topology.hosts.iter().map(|host| 1 << host.lmc).max().unwrap_or(1)
}

fn check_size(origin: &str, topology: &Topology) -> Result<(), ImportError> {
    let (hosts, switches) = (topology.hosts.len(), topology.switches.len());
    let lids = most_lids(topology);
    if (hosts.saturating_mul(lids) + switches).saturating_mul(switches) > MAX_ENTRIES
        || hosts + switches > usize::from(MAX_UNICAST_LID)
    {
        let message =
            format!("{hosts} hosts and {switches} switches are too many for unicast forwarding tables");
        return Err(ImportError::new(origin, message));
    }
    Ok(())
}

/// Reads the tables of `.fdbs` files. Each row contains a LID, a port, the number of hops, and whether
/// that number is minimal. A table ends where the next one begins.
fn fdbs(text: &str, origin: &str, topology: &Topology) -> Result<Forwarding, ImportError> {
    let owners = Owners::new(topology, origin)?;
    let mut tables: Vec<Option<Section>> = topology.switches.iter().map(|_| None).collect();
    let mut open: Option<usize> = None;
    for line in Lines::new(text, origin) {
        let mut line = line?;
        let whole = line;
        if line.until(FDBS_HEADER).is_some() {
            let guid_text = line.word();
            let guid = scan::guid(guid_text).ok_or_else(|| {
                whole.error(format!(
                    "the switch GUID is {}; a valid one is 0x0002c90200000000",
                    clip(guid_text)
                ))
            })?;
            let section = Section::of(&whole, guid, "", MAX_UNICAST_LID, &owners)?;
            section.check_new(&whole, topology, &tables)?;
            let switch = section.switch;
            open = Some(switch);
            tables[switch] = Some(section);
            continue;
        }
        line.skip_blanks();
        if line.rest.is_empty() || line.rest.starts_with('#') || line.rest.starts_with("LID ") {
            continue;
        }
        if line.take(FDBS_TABLE) {
            if line.rest.trim() != "0" {
                return Err(whole.error(format!(
                    "the tables of private LFT {} are not read, only those of private LFT 0; a switch has one table here",
                    clip(line.rest.trim())
                )));
            }
            continue;
        }
        let Some(section) = open.and_then(|switch| tables[switch].as_mut()) else {
            let message =
                format!("this entry is outside of a table; a line `{FDBS_HEADER}0x...` must come first");
            return Err(whole.error(message));
        };
        let (Some(lid_text), port_text) = (line.until(":"), line.rest.split(':').next().unwrap_or("").trim())
        else {
            return Err(whole.error(format!(
                "{} is not an entry of a table; the form is `0x0001 : 001  : 02   : yes`",
                clip(whole.rest)
            )));
        };
        let port_text = if port_text.starts_with("UNREACHABLE") { "255" } else { port_text };
        section.put(&whole, topology, lid_text.trim(), port_text)?;
    }
    owners.resolve(&tables, origin)
}

/// Reads `opensm-lfts.dump` and the output of `dump_fts` and `ibroute`.
fn dump(text: &str, origin: &str, topology: &Topology) -> Result<Forwarding, ImportError> {
    let mut owners = Owners::new(topology, origin)?;
    let mut tables: Vec<Option<Section>> = topology.switches.iter().map(|_| None).collect();
    let mut open: Option<Section> = None;
    for line in Lines::rows(text, origin) {
        let line = line?;
        if is_heading(line.rest) {
            continue;
        }
        if line.rest.starts_with("0x") {
            let section = open.as_mut().ok_or_else(|| {
                line.error("this entry is outside of a table; a line `Unicast lids [...] of switch ...` must come first")
            })?;
            section.entry(line, topology, &mut owners)?;
        } else if line.rest.starts_with("Unicast lids") {
            if let Some(section) = &open {
                return Err(section.cut_short(topology, origin));
            }
            let section = header(line, &owners)?;
            section.check_new(&line, topology, &tables)?;
            open = Some(section);
        } else if line.rest.trim_end().ends_with("lids dumped") {
            let section = open.take().ok_or_else(|| line.error("a table ends here, but none was started"))?;
            section.check_count(line)?;
            let switch = section.switch;
            tables[switch] = Some(section);
        } else {
            return Err(line.error(format!(
                "{} is not a line of a forwarding table dump; expected `Unicast lids ...`, an entry `0x0001 001` or \
                 `N lids dumped`",
                clip(line.rest)
            )));
        }
    }
    if let Some(section) = &open {
        return Err(section.cut_short(topology, origin));
    }
    owners.resolve(&tables, origin)
}

/// The column titles of `dump_fts`.
fn is_heading(text: &str) -> bool {
    let mut words = text.split_whitespace();
    matches!((words.next(), words.next()), (Some("Lid"), Some("Out")) | (Some("Port"), Some("Info")))
}

/// Parses a line such as `Unicast lids [0x0-0x9] of switch ... guid 0x... (name):`.
fn header(line: Cursor, owners: &Owners) -> Result<Section, ImportError> {
    let form = || {
        line.error(format!(
            "{} is not complete; the form is `Unicast lids [0-9] of switch Lid 2 guid 0x0002c90200000000 ('name'):`",
            clip(line.rest)
        ))
    };
    let mut at = line;
    let range = (at.until("[").is_some()).then(|| at.until("]")).flatten().ok_or_else(form)?;
    let top = range.split_once('-').and_then(|(low, top)| scan::lid(low).and(scan::lid(top)));
    let top = top.filter(|&top| top <= MAX_UNICAST_LID).ok_or_else(|| {
        let message = format!("the LIDs are [{range}]", range = clip(range).trim_matches('`'));
        line.error(format!("{message}; they must be two numbers from 0 to {MAX_UNICAST_LID}"))
    })?;
    at.until(" guid ").ok_or_else(form)?;
    let text = at.word();
    let guid = scan::guid(text).ok_or_else(|| {
        line.error(format!("the switch GUID is {}; a valid one is 0x0002c90200000000", clip(text)))
    })?;
    let name = at.rest.trim().trim_end_matches(':').trim_start_matches('(').trim_end_matches(')');
    let name = name.strip_prefix('\'').and_then(|n| n.strip_suffix('\'')).unwrap_or(name);
    Section::of(&line, guid, name, top, owners)
}

impl Section {
    /// An empty table for the switch with the given GUID. A switch without a GUID is found by name.
    fn of(line: &Cursor, guid: u64, name: &str, top: u16, owners: &Owners) -> Result<Self, ImportError> {
        let Some(NodeRef::Switch(switch)) = owners.find(guid, name) else {
            let called = if name.is_empty() { String::new() } else { format!(" ({})", clip(name)) };
            return Err(line.error(format!(
                "switch 0x{guid:016x}{called} is not in the topology; take both files from the same fabric at the same \
                 time"
            )));
        };
        Ok(Self {
            switch: switch as usize,
            line: line.line,
            top,
            ports: Vec::new(),
            seen: Vec::new(),
            entries: 0,
        })
    }

    fn check_new(
        &self,
        line: &Cursor,
        topology: &Topology,
        tables: &[Option<Self>],
    ) -> Result<(), ImportError> {
        let Some(first) = &tables[self.switch] else { return Ok(()) };
        let name = &topology.switches[self.switch].name;
        let message = format!(
            "switch \"{name}\" already has a table in line {}; only one table is allowed",
            first.line
        );
        Err(line.error(message))
    }

    /// Parses an entry such as `0x0001 001`, with or without information about the destination.
    fn entry(
        &mut self,
        mut line: Cursor,
        topology: &Topology,
        owners: &mut Owners,
    ) -> Result<(), ImportError> {
        let (lid_text, port_text) = (line.word(), line.word());
        let lid = self.put(&line, topology, lid_text, port_text)?;
        owners.learn(&line, lid)
    }

    /// Stores the port of a LID, both given as text; returns the LID.
    fn put(
        &mut self,
        line: &Cursor,
        topology: &Topology,
        lid_text: &str,
        port_text: &str,
    ) -> Result<u16, ImportError> {
        let switch = &topology.switches[self.switch];
        let lid = scan::lid(lid_text).filter(|lid| (1..=self.top).contains(lid)).ok_or_else(|| {
            line.error(format!(
                "the LID is {}; this table has LIDs from 0x0001 to 0x{:04x} (line {})",
                clip(lid_text),
                self.top,
                self.line
            ))
        })?;
        let digits = !port_text.is_empty() && port_text.bytes().all(|b| b.is_ascii_digit());
        let port = digits.then(|| port_text.parse().ok()).flatten();
        let port = port.filter(|&port: &u16| port <= switch.ports || port == NO_PATH).ok_or_else(|| {
            let message = format!(
                "the port is {}; switch \"{}\" has ports 0 to {}",
                clip(port_text),
                switch.name,
                switch.ports
            );
            line.error(message)
        })?;
        if self.seen.len() <= usize::from(lid) {
            self.seen.resize(usize::from(lid) + 1, false);
            self.ports.resize(usize::from(lid) + 1, NO_PATH);
        }
        if std::mem::replace(&mut self.seen[usize::from(lid)], true) {
            return Err(line.error(format!(
                "LID 0x{lid:04x} appears twice in the table of \"{}\"; it must appear once",
                switch.name
            )));
        }
        self.ports[usize::from(lid)] = port;
        self.entries += 1;
        Ok(lid)
    }

    fn cut_short(&self, topology: &Topology, origin: &str) -> ImportError {
        let name = &topology.switches[self.switch].name;
        let message = format!(
            "the table of switch \"{name}\" has {} entries and then no line `N lids dumped`; the file is truncated",
            self.entries
        );
        ImportError::at(origin, self.line, message)
    }

    fn check_count(&self, mut line: Cursor) -> Result<(), ImportError> {
        let whole = line;
        let count: usize = line.word().parse().map_err(|_| {
            whole.error(format!(
                "{} does not start with a number; the form is `9 lids dumped`",
                clip(whole.rest)
            ))
        })?;
        // OpenSM prints the top LID, the diagnostic tools print the number of entries.
        if count == self.entries || count == usize::from(self.top) {
            return Ok(());
        }
        Err(whole.error(format!(
            "{count} LIDs should have been dumped, but the table from line {} on has {} entries; lines are missing or added",
            self.line, self.entries
        )))
    }
}

impl<'a> Owners<'a> {
    fn new(topology: &'a Topology, origin: &str) -> Result<Self, ImportError> {
        let mut owners = Self {
            topology,
            by_guid: HashMap::new(),
            by_name: HashMap::new(),
            owner: HashMap::new(),
            host_lids: vec![0; topology.hosts.len()],
            switch_lids: vec![None; topology.switches.len()],
            lids: most_lids(topology),
        };
        let hosts = (0..).zip(&topology.hosts).map(|(i, h)| (NodeRef::Host(i), &h.name, h.guid, h.lid));
        let switches =
            (0..).zip(&topology.switches).map(|(i, s)| (NodeRef::Switch(i), &s.name, s.guid, s.lid));
        for (node, name, guid, lid) in hosts.chain(switches) {
            match guid {
                Some(guid) => owners.by_guid.insert(guid, node),
                None => owners.by_name.insert(name, node),
            };
            if let Some(lid) = lid.filter(|&lid| lid != 0) {
                let lids = owners.lids_from(node, lid);
                let is_free = |lid: u32| {
                    u16::try_from(lid).is_ok_and(|l| l <= MAX_UNICAST_LID && !owners.owner.contains_key(&l))
                };
                if !lids.into_iter().all(is_free) {
                    let message = format!("LID {lid} of \"{name}\" in the topology is taken or out of range");
                    return Err(ImportError::new(origin, message));
                }
                owners.set(node, lid);
            }
        }
        Ok(owners)
    }

    /// All LIDs of a node with the given base LID.
    fn lids_from(&self, node: NodeRef, base: u16) -> std::ops::Range<u32> {
        let lmc = match node {
            NodeRef::Host(i) => self.topology.hosts[i as usize].lmc,
            NodeRef::Switch(i) => self.topology.switches[i as usize].lmc,
        };
        u32::from(base)..u32::from(base) + (1 << lmc)
    }

    /// The LID of a host for path bits. A host with fewer LIDs ignores the upper bits.
    fn lid_by(&self, path_bits: usize, host: usize) -> u16 {
        let own = (1 << self.topology.hosts[host].lmc) - 1;
        self.host_lids[host] + (path_bits as u16 & own)
    }

    fn set(&mut self, node: NodeRef, lid: u16) {
        self.owner.extend(self.lids_from(node, lid).map(|lid| (lid as u16, node)));
        match node {
            NodeRef::Host(i) => self.host_lids[i as usize] = lid,
            NodeRef::Switch(i) => self.switch_lids[i as usize] = Some(lid),
        }
    }

    fn lid_of(&self, node: NodeRef) -> Option<u16> {
        match node {
            NodeRef::Host(i) => Some(self.host_lids[i as usize]).filter(|&lid| lid != 0),
            NodeRef::Switch(i) => self.switch_lids[i as usize],
        }
    }

    /// Finds a node by GUID; only nodes without a GUID are found by name.
    fn find(&self, guid: u64, name: &str) -> Option<NodeRef> {
        self.by_guid.get(&guid).or_else(|| self.by_name.get(name)).copied()
    }

    /// Reads the owner of a LID from the end of an entry, such as `# Channel Adapter portguid
    /// 0x0002c90300000001: 'node-0'`, and checks it against known owners.
    fn learn(&mut self, line: &Cursor, lid: u16) -> Result<(), ImportError> {
        let mut at = *line;
        if at.until("portguid ").is_none() {
            return Ok(());
        }
        let Some((guid, name)) =
            at.rest.split_once(':').and_then(|(guid, name)| Some((scan::guid(guid.trim())?, name)))
        else {
            let message = format!(
                "the port GUID is incomplete: {}; the form is `portguid 0x0002c90300000001: 'name'`",
                clip(at.rest)
            );
            return Err(line.error(message));
        };
        let name = name.trim().trim_end_matches(')');
        let name = name.strip_prefix('\'').and_then(|n| n.strip_suffix('\'')).unwrap_or(name);
        let Some(node) = self.find(guid, name) else { return Ok(()) };
        let known = self.topology.name_of(node);
        if let Some(other) = self.owner.get(&lid).copied().filter(|&other| other != node) {
            return Err(line.error(format!(
                "LID 0x{lid:04x} is that of \"{known}\" here, but of \"{}\" elsewhere; take both files from the same fabric \
                 at the same time",
                self.topology.name_of(other)
            )));
        }
        match self.lid_of(node) {
            None => self.set(node, lid),
            Some(had) if !self.lids_from(node, had).contains(&u32::from(lid)) => {
                return Err(line.error(format!(
                    "\"{known}\" has LID 0x{lid:04x} here, but 0x{had:04x} elsewhere; take both files from the same fabric \
                     at the same time, and the wiring from a file with the LMC if ports have several LIDs (ibnetdiscover, \
                     ibdiagnet2.db_csv)"
                )));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Resolves LIDs to hosts and switches. Fails if the LID of a host is unknown or a switch has no table.
    fn resolve(self, tables: &[Option<Section>], origin: &str) -> Result<Forwarding, ImportError> {
        if let Some(host) = self.host_lids.iter().position(|&lid| lid == 0) {
            let name = &self.topology.hosts[host].name;
            let message = format!(
                "host \"{name}\" has no LID in the topology, and the dump does not name it; take the topology from \
                 `ibnetdiscover` on the running fabric, or a dump with names (opensm-lfts.dump)"
            );
            return Err(ImportError::new(origin, message));
        }
        let (hosts, mut all) = (self.host_lids.len(), vec![Vec::with_capacity(tables.len()); self.lids]);
        let mut switch_out = Vec::with_capacity(tables.len());
        for (index, (table, switch)) in tables.iter().zip(&self.topology.switches).enumerate() {
            let Some(section) = table else {
                let guid = switch.guid.map_or(String::new(), |guid| format!(" (0x{guid:016x})"));
                let message = format!(
                    "switch \"{}\"{guid} has no table; the dump must have one for every switch",
                    switch.name
                );
                return Err(ImportError::new(origin, message));
            };
            let port = |lid: u16| match section.ports.get(usize::from(lid)) {
                None | Some(&NO_PATH) => Tables::NO_ROUTE,
                Some(&port) => port,
            };
            for (path_bits, out) in all.iter_mut().enumerate() {
                let lid = |host: usize| self.lid_by(path_bits, host);
                let is_own = |&host: &usize| section.ports.get(usize::from(lid(host))) == Some(&0);
                if let Some(host) = (0..hosts).find(is_own) {
                    let (lid, name) = (lid(host), &self.topology.hosts[host].name);
                    let message = format!(
                        "the table of switch \"{}\" sends LID 0x{lid:04x} to port 0, the switch itself, but it is that of host \"{name}\"",
                        switch.name
                    );
                    return Err(ImportError::at(origin, section.line, message));
                }
                out.push((0..hosts).map(|host| port(lid(host))).collect::<Vec<u16>>());
            }
            let to_switch = |(target, lid): (usize, &Option<u16>)| match lid {
                Some(lid) if target != index => port(*lid),
                _ => Tables::NO_ROUTE,
            };
            switch_out.push(self.switch_lids.iter().enumerate().map(to_switch).collect());
        }
        for (path_bits, out) in all.iter().enumerate() {
            self.check_reached(tables, (path_bits, out), origin)?;
        }
        let mut all = all.into_iter();
        let tables = Tables { out: all.next().unwrap_or_default(), further: all.collect() };
        Ok(Forwarding {
            tables,
            switch_routes: SwitchRoutes { out: switch_out },
            host_lids: self.host_lids,
            switch_lids: self.switch_lids,
        })
    }

    /// Fails if no table has an entry for a LID of a host, which indicates a wrong dump.
    fn check_reached(
        &self,
        sections: &[Option<Section>],
        (path_bits, out): (usize, &[Vec<u16>]),
        origin: &str,
    ) -> Result<(), ImportError> {
        if out.is_empty() {
            return Ok(());
        }
        let lost = |&host: &usize| out.iter().all(|row| row[host] == Tables::NO_ROUTE);
        let Some(host) = (0..self.host_lids.len()).find(lost) else { return Ok(()) };
        let (lid, name) = (self.lid_by(path_bits, host), &self.topology.hosts[host].name);
        let top = sections.iter().flatten().map(|s| s.top).max().unwrap_or(0);
        let why = if lid == top && lid.is_multiple_of(64) {
            "`dump_fts` omits the last LID if it is a multiple of 64; take the dump from OpenSM (opensm-lfts.dump)"
        } else {
            "the dump must be of the same fabric at the same time"
        };
        Err(ImportError::new(
            origin,
            format!("no table has an entry for LID 0x{lid:04x} of host \"{name}\"; {why}"),
        ))
    }
}
