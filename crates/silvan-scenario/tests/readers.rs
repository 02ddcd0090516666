//! Files of other simulators: endpoints and columns of lists of transfers, latencies of switches, dialects,
//! and distributions of sizes.

use std::path::{Path, PathBuf};

use silvan_engine::Time;
use silvan_network::topology::NodeRef;
use silvan_scenario::Scenario;

/// A folder with files, which is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn with(test: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("silvan-readers-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
        Self(path)
    }

    fn scenario(&self, text: &str) -> Scenario {
        Scenario::from_toml(&format!("duration = \"10 us\"\n{text}"), "a.toml", &self.0, &[]).unwrap()
    }

    /// The error of a scenario without the folder, or an empty text.
    fn error(&self, text: &str) -> String {
        let built = self.scenario(text).build();
        let error = built.map_err(|error| error.to_string()).err().unwrap_or_default();
        error.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Node 0 is the switch of hosts 1 to 3.
const SWITCH_FIRST: &str = "4 1 3\n0\n0 1 100Gbps 1us 0\n0 2 100Gbps 1us 0\n0 3 100Gbps 1us 0\n";
const STAR: &str = "topology = { kind = \"star\", hosts = 4 }\n";

fn of_file(topology: &str) -> String {
    format!("topology = {{ kind = \"file\", file = \"{topology}\" }}\n")
}

fn listed(list: &str, starts_at: &str) -> String {
    format!(
        "[[traffic]]\npattern = {{ kind = \"listed\", file = \"{list}\", starts_at = \"{starts_at}\" }}\n"
    )
}

#[test]
fn a_switch_is_no_end_of_a_transfer() {
    let files = [
        ("t.txt", SWITCH_FIRST),
        ("flow.txt", "1\n0 3 3 100 20000 2.0\n"),
        ("flow.csv", "from,to,bytes,start_ns\n0,3,20000,2e9\n"),
        ("beyond.csv", "from,to,bytes,start_ns\n1,4,20000,2\n"),
        ("switch.csv", "from,to,bytes,start_ns\nS1,0,20000,2\n"),
        ("index.csv", "from,to,bytes,start_ns\n0,H4,20000,2\n"),
    ];
    let folder = Folder::with("switch", &files);
    let error = |topology: &str, list: &str| folder.error(&(topology.to_owned() + &listed(list, "0 s")));
    let file = of_file("t.txt");
    for (list, line) in [("flow.txt", 2), ("flow.csv", 2)] {
        let expected = format!("{list}:{line}: node 0 is a switch; a transfer is between hosts");
        assert!(error(&file, list).contains(&expected), "{}", error(&file, list));
    }
    let error_of_name = error(&file, "beyond.csv");
    assert!(
        error_of_name.contains("there is no host `4`; use names of hosts, such as `1`"),
        "{error_of_name}"
    );
    assert!(error(STAR, "switch.csv").contains("node S1 is a switch"), "{}", error(STAR, "switch.csv"));
    // Without numbers as names, a number is an index.
    assert_eq!(error(STAR, "index.csv"), "");
}

#[test]
fn the_columns_of_the_older_simulator_are_refused() {
    let files = [
        ("t.txt", SWITCH_FIRST),
        ("port.txt", "1\n2 1 3 1000000 2 9\n"),
        ("fraction.txt", "1\n2 1 3 1000 2.0 9\n"),
        ("all.txt", "2\n2 1 3 1000 2 9\n3 1 3 1000 3 9\n"),
        ("new.txt", "2\n2 1 3 1000 2 9\n3 1 3 1000 30 9\n"),
        ("more.txt", "1\n2 1 3 1000 20 9\n3 1 3 1000 30 9\n"),
    ];
    let folder = Folder::with("columns", &files);
    let scenario = |list: &str| of_file("t.txt") + &listed(list, "1 s");
    for list in ["port.txt", "fraction.txt", "all.txt"] {
        let error = folder.error(&scenario(list));
        assert!(error.contains(&format!("{list}:2: `2 1 3 ")), "{error}");
        for order in
            ["source, destination, priority, packets, start and stop", "priority, port, bytes and start"]
        {
            assert!(error.contains(order), "{error}");
        }
    }
    assert_eq!(folder.error(&scenario("new.txt")), "");
    let more = folder.scenario(&scenario("more.txt"));
    more.build().unwrap();
    assert_eq!(
        more.file_notes(),
        ["traffic.0.pattern.file: 1 lines after the announced 1 flows are not used"]
    );
}

#[test]
fn transfers_may_be_larger_than_messages() {
    let files = [
        ("t.txt", SWITCH_FIRST),
        ("flow.txt", "1\n1 3 3 100 1000000000000 2.0\n"),
        ("huge.txt", "1\n1 3 3 100 1099511627777 2.0\n"),
    ];
    let folder = Folder::with("large", &files);
    let (_, _, config) = folder.scenario(&(of_file("t.txt") + &listed("flow.txt", "2 s"))).build().unwrap();
    let transfers = config.traffic[0].loaded.transfers.as_ref().unwrap();
    assert_eq!((transfers[0].bytes, transfers[0].start), (1_000_000_000_000, Time::ZERO));
    let error = folder.error(&(of_file("t.txt") + &listed("huge.txt", "2 s")));
    assert!(error.contains("`1099511627777` is no size; must be 1 to 1099511627776 bytes"), "{error}");
}

#[test]
fn sizes_and_times_of_lists_may_have_exponents() {
    let files = [
        ("t.txt", SWITCH_FIRST),
        ("flow.txt", "1\n1 3 3 100 2.5e6 1e-5\n"),
        ("short.txt", "1\n1 3 3 2.5E+6 1.0e-05\n"),
        ("flow.csv", "from,to,bytes,start_ns\n1,3,25e5,1e4\n"),
        ("in.cm", "Nodes 3\nConnections 1\n1->3 start 1e7 size 2.5e6\n"),
        ("half.csv", "from,to,bytes,start_ns\n1,3,25e-1,1e4\n"),
        ("huge.csv", "from,to,bytes,start_ns\n1,3,1,1e31\n"),
        ("cdf.txt", "0 0\n1e3 50\n2.5e6 100\n"),
    ];
    let folder = Folder::with("exponents", &files);
    let scenario = |list: &str| of_file("t.txt") + &listed(list, "0 s");
    for list in ["flow.txt", "short.txt", "flow.csv", "in.cm"] {
        let (_, _, config) = folder.scenario(&scenario(list)).build().unwrap();
        let [one] = config.traffic[0].loaded.transfers.as_ref().unwrap().as_slice() else { panic!("{list}") };
        assert_eq!((one.bytes, one.start), (2_500_000, Time::from_us(10)), "{list}");
    }
    let half = folder.error(&scenario("half.csv"));
    assert!(half.contains("half.csv:2: `25e-1` is no size"), "{half}");
    let huge = folder.error(&scenario("huge.csv"));
    assert!(huge.contains("huge.csv:2: ") && huge.contains("1e31"), "{huge}");
    let sizes = "sizes = { kind = \"file\", file = \"cdf.txt\" }\nload_percent = 10\n";
    let (_, _, config) =
        folder.scenario(&format!("{STAR}[[traffic]]\npattern.kind = \"uniform\"\n{sizes}")).build().unwrap();
    // Half of the messages have up to 1000 bytes, the others 1000 to 2.5 million.
    assert_eq!(config.traffic[0].loaded.sizes.as_ref().unwrap().mean(), 625_500);
}

#[test]
fn a_connection_matrix_is_a_list_of_transfers() {
    let matrix = "Nodes 4\nConnections 2\n0->3 id 1 start 0 size 2000000\n1->3 id 2 start 1000000 size 3000000 prio 7\n";
    let folder = Folder::with("matrix", &[("in.cm", matrix)]);
    let scenario = folder.scenario(&(STAR.to_owned() + &listed("in.cm", "0 s")));
    let (_, _, config) = scenario.build().unwrap();
    let transfers = config.traffic[0].loaded.transfers.as_ref().unwrap();
    let found: Vec<_> = transfers.iter().map(|one| (one.from, one.to, one.bytes, one.start)).collect();
    assert_eq!(found, [(0, 3, 2_000_000, Time::ZERO), (1, 3, 3_000_000, Time::from_us(1))]);
    assert_eq!(scenario.file_notes(), ["traffic.0.pattern.file: prio of 1 connections is not used"]);
}

/// A tree of two tiers with two hosts per leaf switch.
fn tree(lower: &str, upper: &str) -> String {
    let tier =
        |extra: &str| format!("Downlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\n{extra}\n");
    format!("Nodes 4\nTiers 2\nPodsize 4\nTier 0\nRadix_Up 2\n{}Tier 1\n{}", tier(lower), tier(upper))
}

#[test]
fn switches_have_the_latencies_of_the_file() {
    let files = [
        ("same.topo", tree("Switch_Latency_ns 5000", "Switch_Latency_ns 5000")),
        ("other.topo", tree("Switch_Latency_ns 5000", "Switch_Latency_ns 3000")),
        ("none.topo", tree("", "")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = Folder::with("latency", &files);
    let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\ntotal = \"1000 B\"\n";
    // The delay of the path from H1 to H4: four links and three switches.
    let path = |scenario: &Scenario| {
        let (topology, _, config) = scenario.build().unwrap();
        let is_host = |node: NodeRef| matches!(node, NodeRef::Host(_));
        let delay = |of_hosts: bool| {
            let mut links = topology.links.iter();
            let link = links.find(|link| (is_host(link.a.node) || is_host(link.b.node)) == of_hosts);
            link.unwrap().delay.0
        };
        Time(2 * delay(true) + 2 * delay(false) + 3 * config.switch.latency.0)
    };
    let of = |file: &str, more: &str| folder.scenario(&format!("{}{flow}{more}", of_file(file)));
    assert_eq!(path(&of("same.topo", "")), Time::from_us(4 + 15));
    assert_eq!(path(&of("other.topo", "")), Time::from_us(4 + 5 + 3 + 5));
    assert_eq!(path(&of("none.topo", "")), Time::from_us(4) + Time::from_ns(300));
    let own = of("other.topo", "[switch]\nlatency = \"50 ns\"\n");
    assert_eq!(path(&own), Time::from_us(4) + Time::from_ns(150));
    let note =
        "topology.file: the latencies of switches in the file are not used, because switch.latency is set";
    assert_eq!(own.file_notes(), [note]);
    // A scenario that was written has the same network.
    let again = |scenario: &Scenario| {
        let text = scenario.to_toml().unwrap();
        Scenario::from_toml(&text, "b.toml", &folder.0, &[]).unwrap()
    };
    for scenario in [of("other.topo", ""), own] {
        assert_eq!(path(&again(&scenario)), path(&scenario));
    }
}

#[test]
fn distributions_of_sizes_have_several_forms() {
    let files = [
        ("blanks.txt", "1000 0\n2000 0.5\n3000 1\n"),
        ("titles.csv", "bytes,share\n1000,0\n2000.0,50\n3000,100\n"),
        ("ns2.txt", "1000 1 0\n2000 1 0.5\n3000 1 1\n"),
    ];
    let folder = Folder::with("sizes", &files);
    let made = |file: &str| {
        let traffic = format!(
            "[[traffic]]\npattern.kind = \"uniform\"\nload_percent = 10\nsizes = {{ kind = \"file\", file = \"{file}\" }}\n"
        );
        let scenario = folder.scenario(&(STAR.to_owned() + &traffic));
        let (_, _, config) = scenario.build().unwrap();
        let sizes = config.traffic[0].loaded.sizes.clone().unwrap();
        (sizes.mean(), sizes.largest(), scenario.file_notes().len())
    };
    assert_eq!(made("blanks.txt"), (2000, 3000, 0));
    assert_eq!(made("titles.csv"), (2000, 3000, 0));
    assert_eq!(made("ns2.txt"), (2000, 3000, 1), "a note says that the unit is uncertain");
}

#[test]
fn a_star_has_up_to_1024_hosts() {
    let folder = Folder(Path::new("none").to_owned());
    let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
    let star = |more: &str| {
        folder.scenario(&format!("topology = {{ kind = \"star\", hosts = 1024 }}\n{flow}{more}"))
    };
    star("[switch]\narbitration = \"fcfs\"\n").check().unwrap();
    let error = star("").check().unwrap_err().to_string();
    assert!(
        error.contains("switch S1 has 1024 ports; a switch may have up to 256, or up to 1024"),
        "{error}"
    );
}

#[test]
fn a_file_of_another_simulator_is_no_scenario() {
    let text = "ENABLE_QCN 1\nTOPOLOGY_FILE mix/topology.txt\n";
    let error = Scenario::from_toml(text, "config.txt", Path::new(""), &[]).unwrap_err().to_string();
    assert!(error.ends_with("; the file looks like a configuration of HPCC's simulator"), "{error}");
}
