//! Reads topologies in the format of SimAI: servers with GPUs and NVSwitches, and the network between them.
//!
//! ```text
//! nodes gpus-per-server NVSwitches switches links type-of-GPU
//! number of each NVSwitch and switch
//! node node rate delay error-rate                  (for each link)
//! ```
//!
//! The nodes that the second line does not list are GPUs, server by server. Server 3 becomes the host `H3`. Its links to switches
//! become its ports `H3.1`, `H3.2` and so on, in the order of the GPUs and, for each GPU, of the lines; parallel links are
//! separate ports. Switches are named by their numbers. Links between GPUs and NVSwitches are links within a host: their rate
//! per GPU (the sum of parallel links) is that of a rank to the others of its host, and a message crosses two of them.
//!
//! If each GPU has one port, ranks use the ports of their GPUs. Otherwise messages are divided among all ports of a host.

use std::collections::HashMap;

use silvan_engine::{Rate, Time};
use silvan_network::topology::{MAX_HOSTS, MAX_LINKS, MAX_SWITCHES};
use silvan_network::traffic::{InnerLinks, PortUse};

use super::hpcc::{self, is_hpcc};
use super::machines::{Cluster, ClusterLink, Side};
use super::{FilePorts, ImportError, Wiring, clip};

/// Whether a text begins like a topology of SimAI, and most other lines are links.
#[must_use]
pub fn is_simai(text: &str) -> bool {
    let first = hpcc::rows(text).next().map_or("", |(_, line)| line);
    sizes(first).is_some() && is_hpcc(text)
}

/// The numbers in the first line.
#[derive(Clone, Copy)]
struct Sizes {
    nodes: u64,
    per_server: u64,
    nvswitches: u64,
    switches: u64,
    links: u64,
}

fn sizes(first: &str) -> Option<Sizes> {
    let fields: Vec<&str> = first.split_whitespace().collect();
    let [numbers @ .., kind] = &fields[..] else { return None };
    let numbers: Vec<u64> = numbers.iter().map_while(|field| field.parse().ok()).collect();
    match numbers[..] {
        [nodes, per_server, nvswitches, switches, links] if kind.parse::<f64>().is_err() => {
            Some(Sizes { nodes, per_server, nvswitches, switches, links })
        }
        _ => None,
    }
}

impl Sizes {
    /// The number of GPUs, if the numbers describe a network.
    fn gpus(self) -> Result<u64, String> {
        let Self { nodes, per_server, nvswitches, switches, links } = self;
        let gpus = nvswitches.checked_add(switches).and_then(|inner| nodes.checked_sub(inner));
        let Some(gpus) = gpus.filter(|&gpus| gpus > 0) else {
            return Err(format!(
                "{nodes} nodes, of which {nvswitches} are NVSwitches and {switches} are switches; the others must be GPUs"
            ));
        };
        if nvswitches + switches > MAX_SWITCHES || gpus > MAX_HOSTS || links > MAX_LINKS {
            return Err(format!(
                "{gpus} GPUs, {} NVSwitches and switches, and {links} links; at most {MAX_HOSTS}, {MAX_SWITCHES} and {MAX_LINKS} \
                 are possible",
                nvswitches + switches
            ));
        }
        if per_server == 0 || !gpus.is_multiple_of(per_server) {
            return Err(format!(
                "{gpus} GPUs ({nodes} nodes less {nvswitches} NVSwitches and {switches} switches) cannot be divided into servers \
                 of {per_server}"
            ));
        }
        Ok(gpus)
    }
}

/// A node, with its number among the nodes of its kind.
#[derive(Clone, Copy)]
enum Node {
    Gpu(u32),
    NvSwitch(u32),
    Switch(u32),
}

/// Links of a GPU to NVSwitches.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Inner {
    rate: u64,
    delay: Time,
}

/// Reads a topology; `origin` is the name of the file in messages.
///
/// # Errors
/// If the text is not in this format, the numbers of nodes or links are not those that the first line announces, GPUs are
/// connected with each other, an NVSwitch with another server or a switch, GPUs have different links to NVSwitches, a GPU has no
/// link to a switch, a link has errors, or the network exceeds the limits.
pub fn parse(text: &str, origin: &str) -> Result<Wiring, ImportError> {
    let missing = |what: &str| ImportError::new(origin, format!("ends before {what}"));
    let mut lines = hpcc::rows(text).peekable();
    let (number, first) = lines.next().ok_or_else(|| missing("the first line"))?;
    let wrong = |what: String| ImportError::at(origin, number, what);
    let sizes = sizes(first).ok_or_else(|| {
        wrong(format!(
            "{} must be the numbers of nodes, GPUs per server, NVSwitches, switches and links, and the type of GPU",
            clip(first)
        ))
    })?;
    let gpus = sizes.gpus().map_err(wrong)?;
    let listed = sizes.nvswitches + sizes.switches;
    let mut reader = Reader::new(sizes, gpus as u32);
    let mut last = number;
    while let Some((number, line)) = lines.next_if(|(_, line)| hpcc::is_list(line)) {
        last = number;
        let add = |field: &str| reader.switch(field).map_err(|what| ImportError::at(origin, number, what));
        line.split_whitespace().try_for_each(add)?;
    }
    if reader.listed != listed {
        let what = format!(
            "{} NVSwitches and switches; the first line announces {} and {}",
            reader.listed, sizes.nvswitches, sizes.switches
        );
        return Err(ImportError::at(origin, last, what));
    }
    reader.name_gpus();
    let mut count = 0;
    for (number, line) in lines {
        count += 1;
        if count > sizes.links {
            let what = format!("{} is link {count}; the first line announces {}", clip(line), sizes.links);
            return Err(ImportError::at(origin, number, what));
        }
        reader.link(line).map_err(|what| ImportError::at(origin, number, what))?;
    }
    if count < sizes.links {
        return Err(missing(&format!("link {} of {}", count + 1, sizes.links)));
    }
    reader.wiring(origin)
}

/// A topology in the course of reading.
struct Reader {
    sizes: Sizes,
    nodes: HashMap<u32, Node>,
    /// Number of nodes in the second line.
    listed: u64,
    cluster: Cluster,
    /// Links to switches of each GPU.
    ports: Vec<u32>,
    /// Links to NVSwitches of each GPU.
    inner: Vec<Inner>,
    /// The numbers of NVSwitches, and their servers.
    nvswitches: Vec<(u32, Option<u32>)>,
    /// The number of each GPU in the file.
    names: Vec<u32>,
}

impl Reader {
    fn new(sizes: Sizes, gpus: u32) -> Self {
        let servers = u64::from(gpus) / sizes.per_server;
        let hosts = (1..=servers).map(|server| format!("H{server}")).collect();
        Self {
            sizes,
            nodes: HashMap::new(),
            listed: 0,
            cluster: Cluster { hosts, ..Cluster::default() },
            ports: vec![0; gpus as usize],
            inner: vec![Inner::default(); gpus as usize],
            nvswitches: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Adds an NVSwitch or, after these, a switch.
    fn switch(&mut self, field: &str) -> Result<(), String> {
        let number = hpcc::node_number(field, self.sizes.nodes)?;
        let node = if self.listed < self.sizes.nvswitches {
            self.nvswitches.push((number, None));
            Node::NvSwitch(self.nvswitches.len() as u32 - 1)
        } else {
            self.cluster.add_switch(number.to_string());
            Node::Switch(self.cluster.switches.len() as u32 - 1)
        };
        self.listed += 1;
        match self.nodes.insert(number, node) {
            None => Ok(()),
            Some(_) => Err(format!("node {number} is in the list twice")),
        }
    }

    /// Numbers the other nodes, which are GPUs.
    fn name_gpus(&mut self) {
        for number in 0..self.sizes.nodes as u32 {
            self.nodes.entry(number).or_insert_with(|| {
                self.names.push(number);
                Node::Gpu(self.names.len() as u32 - 1)
            });
        }
    }

    fn server(&self, gpu: u32) -> u32 {
        gpu / self.sizes.per_server as u32
    }

    /// Adds the link of a line.
    fn link(&mut self, line: &str) -> Result<(), String> {
        let [a, b, rate, delay] = hpcc::link_fields(line)?;
        let (rate, delay) = (hpcc::rate(rate)?, hpcc::delay(delay)?);
        let (a, b) = (hpcc::node_number(a, self.sizes.nodes)?, hpcc::node_number(b, self.sizes.nodes)?);
        let sides = match (self.nodes[&a], self.nodes[&b]) {
            (Node::Gpu(gpu), Node::NvSwitch(at)) | (Node::NvSwitch(at), Node::Gpu(gpu)) => {
                return self.inner_link((gpu, at), rate, delay);
            }
            (Node::Gpu(gpu), Node::Switch(at)) => [self.port(gpu), self.cluster.next_port(at)?],
            (Node::Switch(at), Node::Gpu(gpu)) => [self.cluster.next_port(at)?, self.port(gpu)],
            (Node::Switch(one), Node::Switch(other)) => {
                [self.cluster.next_port(one)?, self.cluster.next_port(other)?]
            }
            (Node::Gpu(_), Node::Gpu(_)) => {
                return Err(format!(
                    "nodes {a} and {b} are GPUs; a GPU has links to NVSwitches and switches"
                ));
            }
            (Node::NvSwitch(_), _) | (_, Node::NvSwitch(_)) => {
                return Err(format!(
                    "one of the nodes {a} and {b} is an NVSwitch, and the other one is no GPU; an NVSwitch has links to the GPUs \
                     of its server"
                ));
            }
        };
        self.cluster.links.push(ClusterLink { sides, rate, delay });
        Ok(())
    }

    fn port(&mut self, gpu: u32) -> Side {
        self.ports[gpu as usize] += 1;
        Side::Port { host: self.server(gpu), place: gpu % self.sizes.per_server as u32, name: None }
    }

    fn inner_link(&mut self, (gpu, at): (u32, u32), rate: Rate, delay: Time) -> Result<(), String> {
        let server = self.server(gpu);
        let (number, owner) = &mut self.nvswitches[at as usize];
        if let Some(other) = owner.replace(server).filter(|other| *other != server) {
            return Err(format!(
                "NVSwitch {number} has links to GPUs of two servers, {} and {}; a server has {} GPUs",
                other + 1,
                server + 1,
                self.sizes.per_server
            ));
        }
        let inner = &mut self.inner[gpu as usize];
        inner.rate = inner.rate.saturating_add(rate.0);
        inner.delay = inner.delay.max(delay);
        Ok(())
    }

    fn wiring(mut self, origin: &str) -> Result<Wiring, ImportError> {
        let wrong = |what: String| Err(ImportError::new(origin, what));
        if let Some(gpu) = self.ports.iter().position(|&ports| ports == 0) {
            return wrong(format!("GPU {} has no link to a switch", self.names[gpu]));
        }
        if let Some((number, _)) = self.nvswitches.iter().find(|(_, server)| server.is_none()) {
            return wrong(format!("NVSwitch {number} has no link"));
        }
        let first = self.inner[0];
        if let Some(other) = self.inner.iter().position(|inner| *inner != first) {
            let text = |inner: Inner| match inner.rate {
                0 => "none".to_owned(),
                rate => format!("{} with {}", Rate(rate), inner.delay),
            };
            return wrong(format!(
                "GPU {} has links to NVSwitches ({}) that differ from those of GPU {} ({}); those of all GPUs must be equal",
                self.names[other],
                text(self.inner[other]),
                self.names[0],
                text(first)
            ));
        }
        let inner = InnerLinks { rate: Rate(first.rate), latency: Time(first.delay.0.saturating_mul(2)) };
        let inner = Some(inner).filter(|_| first.rate > 0 && self.sizes.per_server > 1);
        let mut notes = Vec::new();
        let mut used = Some(PortUse::Rank).filter(|_| self.sizes.per_server > 1);
        if self.ports.iter().any(|&ports| ports != 1) {
            used = Some(PortUse::Stripe);
            notes.push(
                "GPUs have several ports, so the messages of jobs are divided among all ports of a host (ports.use = \"stripe\")"
                    .to_owned(),
            );
        }
        self.cluster.has_inner = inner.is_some();
        let (servers, switches) = (self.cluster.hosts.len(), self.cluster.switches.len());
        let name = format!(
            "{servers} servers of {} GPUs, {switches} switches, from {origin}",
            self.sizes.per_server
        );
        let topology = self.cluster.topology(&name, origin)?;
        Ok(Wiring { ports: FilePorts { used, inner }, ..Wiring::new(topology, notes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use silvan_network::topology::NodeRef;

    /// Two servers of two GPUs on two rails, with a spine.
    const RAILS: &str = "9 2 2 3 10 A100\n4 5 6 7 8\n0 4 2400Gbps 0.00002ms 0\n1 4 2400Gbps 0.00002ms 0\n\
                         2 5 2400Gbps 0.00002ms 0\n3 5 2400Gbps 0.00002ms 0\n0 6 200Gbps 0.0005ms 0\n1 7 200Gbps 0.0005ms 0\n\
                         2 6 200Gbps 0.0005ms 0\n7 3 200Gbps 0.0005ms 0\n6 8 400Gbps 0.0005ms 0\n7 8 400Gbps 0.0005ms 0\n";

    #[test]
    fn servers_are_hosts_whose_gpus_have_ports() {
        assert!(is_simai(RAILS) && !is_simai("5 2 1 4 10 40\n3 4\n0 3 100Gbps 1us 0\n"));
        let Wiring { topology, notes, ports, .. } = parse(RAILS, "t").unwrap();
        assert!(notes.is_empty());
        let wiring = topology.wiring();
        let leaf = |port: u32| topology.port_name(wiring.hosts[port as usize].unwrap().0);
        let of = |name: &str| -> Vec<String> {
            topology.machine_named(name).unwrap().ports.iter().map(|&port| leaf(port)).collect()
        };
        assert_eq!(
            (of("H1"), of("H2")),
            (vec!["6:1".into(), "7:1".into()], vec!["6:2".into(), "7:2".into()])
        );
        let names: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["H1.1", "H1.2", "H2.1", "H2.2"]);
        assert_eq!(topology.switches.iter().map(|at| at.ports).collect::<Vec<_>>(), [3, 3, 2]);
        assert_eq!(topology.links.len(), 6, "links to NVSwitches are not part of the network");
        let inner = InnerLinks { rate: Rate::from_gbit(2400), latency: Time::from_ns(40) };
        assert_eq!(ports, FilePorts { used: Some(PortUse::Rank), inner: Some(inner) });
    }

    #[test]
    fn parallel_links_are_separate_ports() {
        let text = RAILS
            .replace("10 A100", "17 A100")
            .replace("0 6 200Gbps 0.0005ms 0\n", "0 6 200Gbps 0.0005ms 0\n0 7 200Gbps 0.0005ms 0\n")
            .replace("2 6 200Gbps 0.0005ms 0\n", "2 6 200Gbps 0.0005ms 0\n2 7 200Gbps 0.0005ms 0\n")
            .replace("1 7 200", "1 7 200Gbps 0.0005ms 0\n1 7 200")
            .replace("7 3 200", "7 3 200Gbps 0.0005ms 0\n7 3 200")
            .replace("6 8 400", "6 8 400Gbps 0.0005ms 0\n6 8 400")
            .replace("0 4 2400", "0 4 2400Gbps 0.00002ms 0\n0 4 2400")
            .replace("1 4 2400", "1 4 2400Gbps 0.00002ms 0\n1 4 2400");
        let differs = parse(&text, "t").unwrap_err().to_string();
        assert_eq!(
            differs,
            "t: GPU 2 has links to NVSwitches (2.4 Tbit/s with 20 ns) that differ from those of GPU 0 (4.8 Tbit/s with 20 ns); \
             those of all GPUs must be equal"
        );
        let text = text
            .replace("17 A100", "19 A100")
            .replace("2 5 2400", "2 5 2400Gbps 0.00002ms 0\n2 5 2400")
            .replace("3 5 2400", "3 5 2400Gbps 0.00002ms 0\n3 5 2400");
        let Wiring { topology, ports, notes, .. } = parse(&text, "t").unwrap();
        assert_eq!(topology.machines[0].ports, [0, 1, 2, 3], "two ports of each GPU");
        let spine = |link: &&silvan_network::topology::Link| {
            [link.a, link.b].iter().all(|end| matches!(end.node, NodeRef::Switch(_)))
        };
        assert_eq!(topology.links.iter().filter(spine).count(), 3);
        assert_eq!(ports.inner.unwrap().rate, Rate::from_gbit(4800));
        assert_eq!((ports.used, notes.len()), (Some(PortUse::Stripe), 1));
    }

    #[test]
    fn servers_of_one_gpu_are_plain_hosts() {
        let text = "4 1 0 1 3 A100\n3\n0 3 200Gbps 1us 0\n1 3 200Gbps 1us 0\n2 3 200Gbps 1us 0\n";
        let Wiring { topology, ports, .. } = parse(text, "t").unwrap();
        assert_eq!((topology.machines.len(), ports), (0, FilePorts::default()));
        assert_eq!(
            topology.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(),
            ["H1", "H2", "H3"]
        );
    }

    #[test]
    fn errors_state_the_line() {
        for (old, new, expected) in [
            (
                "9 2",
                "10 2",
                "t:1: 5 GPUs (10 nodes less 2 NVSwitches and 3 switches) cannot be divided into servers of 2",
            ),
            (
                "9 2",
                "9 0",
                "t:1: 4 GPUs (9 nodes less 2 NVSwitches and 3 switches) cannot be divided into servers of 0",
            ),
            (
                "9 2",
                "5 2",
                "t:1: 5 nodes, of which 2 are NVSwitches and 3 are switches; the others must be GPUs",
            ),
            (
                "9 2",
                "900000 2",
                "t:1: 899995 GPUs, 5 NVSwitches and switches, and 10 links; at most 200000, 100000 and 2000000 are possible",
            ),
            (
                "9 2 2 3 10",
                "9 2 3 10",
                "t:1: `9 2 3 10 A100` must be the numbers of nodes, GPUs per server, NVSwitches, switches and links, and the type \
                 of GPU",
            ),
            ("4 5 6 7 8\n", "4 5 6 7\n", "t:2: 4 NVSwitches and switches; the first line announces 2 and 3"),
            (
                "4 5 6 7 8\n",
                "4 5\n6 7 8 3\n",
                "t:3: 6 NVSwitches and switches; the first line announces 2 and 3",
            ),
            ("4 5 6 7 8\n", "4 5 6 7 9\n", "t:2: `9` is no node; must be 0 to 8"),
            ("4 5 6 7 8\n", "4 5 6 7 7\n", "t:2: node 7 is in the list twice"),
            ("10 A100", "11 A100", "t: ends before link 11 of 11"),
            ("10 A100", "9 A100", "t:12: `7 8 400Gbps 0.0005ms 0` is link 10; the first line announces 9"),
            ("7 8 400", "7 9 400", "t:12: `9` is no node; must be 0 to 8"),
            (
                "7 8 400",
                "0 1 400",
                "t:12: nodes 0 and 1 are GPUs; a GPU has links to NVSwitches and switches",
            ),
            (
                "7 8 400",
                "4 8 400",
                "t:12: one of the nodes 4 and 8 is an NVSwitch, and the other one is no GPU; an NVSwitch has links to the GPUs of \
                 its server",
            ),
            (
                "2 5 2400",
                "2 4 2400",
                "t:5: NVSwitch 4 has links to GPUs of two servers, 1 and 2; a server has 2 GPUs",
            ),
            (
                "3 5 2400Gbps",
                "3 7 2400Gbps",
                "t: GPU 3 has links to NVSwitches (none) that differ from those of GPU 0 (2.4 Tbit/s with 20 ns); those of all \
                 GPUs must be equal",
            ),
            ("7 3 200", "7 8 200", "t: GPU 3 has no link to a switch"),
            (
                "7 8 400Gbps",
                "7 8 0Gbps",
                "t:12: `0Gbps` is no rate, such as `100Gbps`, or a number of at least 1000000 in bit/s",
            ),
            ("7 8 400Gbps 0.0005ms", "7 8 400Gbps 0ms", "t:12: `0ms` is no delay, such as `1000ns`"),
            (
                "7 8 400Gbps 0.0005ms 0",
                "7 8 400Gbps 0.0005ms 0.01",
                "t:12: the error rate is `0.01`; must be 0: errors of links are set with link.error_rate_ppb",
            ),
            (
                "7 8 400Gbps 0.0005ms 0",
                "7 8 400Gbps",
                "t:12: `7 8 400Gbps` is no link; a line has two nodes, rate, delay and error rate",
            ),
        ] {
            assert!(RAILS.contains(old), "{old}");
            let message = parse(&RAILS.replacen(old, new, 1), "t").map_err(|error| error.to_string()).err();
            assert_eq!(message.as_deref(), Some(expected), "{new}");
        }
    }

    proptest! {
        /// Damaged files give an error or a valid topology, but never a panic.
        #[test]
        fn damaged_files_never_cause_a_panic(
            cuts in prop::collection::vec((0..RAILS.len(), 0..12usize, "[0-9A-Gbps \n.#-]{0,6}"), 0..4)
        ) {
            let mut text = RAILS.to_owned();
            for (at, length, insert) in cuts {
                let at = at.min(text.len());
                let end = (at + length).min(text.len());
                if text.is_char_boundary(at) && text.is_char_boundary(end) {
                    text.replace_range(at..end, &insert);
                }
            }
            if let Ok(wiring) = parse(&text, "t") {
                prop_assert_eq!(wiring.topology.validate(), Ok(()));
            }
        }
    }
}
