//! Files of networks whose hosts have several ports.

use std::path::PathBuf;

use silvan_engine::{Rate, Time};
use silvan_network::traffic::{ArrivalPort, InnerLinks, JobPorts, PortUse};
use silvan_scenario::Scenario;

/// Two servers of two GPUs; the two rails are connected by a spine.
const RAILS: &str = "9 2 2 3 10 A100\n4 5 6 7 8\n0 4 2400Gbps 20ns 0\n1 4 2400Gbps 20ns 0\n2 5 2400Gbps 20ns 0\n\
                     3 5 2400Gbps 20ns 0\n0 6 200Gbps 500ns 0\n1 7 200Gbps 500ns 0\n2 6 200Gbps 500ns 0\n3 7 200Gbps 500ns 0\n\
                     6 8 200Gbps 500ns 0\n7 8 200Gbps 500ns 0\n";
const JOB: &str = "[[job]]\nranks_per_host = 2\nprogram = { kind = \"collective\", operation = \"all-reduce\", ranks = 4, bytes = \"1 MiB\" }\n";

/// Two rails that are not connected.
fn apart() -> String {
    RAILS
        .replace("9 2 2 3 10", "8 2 2 2 8")
        .replace("4 5 6 7 8", "4 5 6 7")
        .replace("6 8 2", "#")
        .replace("7 8 2", "#")
}

/// What a scenario with a file and other keys builds.
fn job(name: &str, file: &str, keys: &str) -> Result<JobPorts, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join(name), file).unwrap();
    let text =
        format!("duration = \"1 ms\"\ntopology = {{ kind = \"file\", file = \"{name}\" }}\n{keys}{JOB}");
    let scenario = Scenario::from_toml(&text, "a", &folder, &[]).map_err(|error| error.to_string())?;
    let built = scenario.build().map_err(|error| error.to_string().replace(folder.to_str().unwrap(), ""))?;
    let ports = built.2.jobs[0].ports.as_ref().ok_or("one port")?;
    Ok((**ports).clone())
}

#[test]
fn ranks_use_the_ports_and_inner_links_of_the_file() {
    let ports = job("rails.txt", RAILS, "").unwrap();
    assert_eq!((ports.used, ports.arrival), (PortUse::Rank, ArrivalPort::Own));
    assert_eq!(ports.machines, [[0, 1], [2, 3]]);
    assert_eq!((ports.machine_of, ports.number), (vec![0, 0, 1, 1], vec![0, 1, 0, 1]));
    let inner = InnerLinks { rate: Rate::from_gbit(2400), latency: Time::from_ns(40) };
    assert_eq!(ports.inner, Some(inner));
}

#[test]
fn ports_in_separate_networks_are_planes() {
    let ports = job("apart.txt", &apart(), "").unwrap();
    assert_eq!(
        (ports.used, ports.arrival),
        (PortUse::Rank, ArrivalPort::Same),
        "a packet stays in its plane"
    );
    // Without GPUs, nothing assigns ports to ranks.
    let hosts = "5 2 6\n3 4\n0 3 100Gbps 1us 0\n0 4 100Gbps 1us 0\n1 3 100Gbps 1us 0\n1 4 100Gbps 1us 0\n2 3 100Gbps 1us 0\n\
                 2 4 100Gbps 1us 0\n";
    assert_eq!(job("hosts.txt", hosts, "").unwrap().used, PortUse::Stripe);
}

#[test]
fn the_scenario_takes_precedence_over_the_file() {
    let keys = "[ports]\nuse = \"hash\"\ninner_rate = \"3600 Gbit/s\"\n";
    let ports = job("own.txt", RAILS, keys).unwrap();
    let inner = InnerLinks { rate: Rate::from_gbit(3600), latency: Time::ZERO };
    assert_eq!((ports.used, ports.inner), (PortUse::Hash, Some(inner)));
    let ports = job("latency.txt", RAILS, "[ports]\ninner_latency = \"1 us\"\n").unwrap();
    let inner = InnerLinks { rate: Rate::from_gbit(2400), latency: Time::from_ns(1_000) };
    assert_eq!(ports.inner, Some(inner));
}

#[test]
fn settings_that_do_not_fit_the_file_are_refused() {
    let star = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 100Gbps 1us 0\n";
    // Host 0 is in both networks, host 1 in one, host 2 in the other.
    let uneven = "5 2 4\n3 4\n0 3 100Gbps 1us 0\n0 4 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n";
    let cases = [
        (
            RAILS.to_owned(),
            "[ports]\ncount = 2\n",
            "a:4: ports.count = 2: has no effect: the file of the topology states the ports of hosts; leave it out",
        ),
        (
            RAILS.to_owned(),
            "[ports]\nwiring = \"rails\"\n",
            "a:4: ports.wiring = \"rails\": has no effect: the file of the topology states the ports of hosts; leave it out",
        ),
        (
            star.to_owned(),
            "[ports]\nuse = \"hash\"\n",
            "a:3: ports: has no effect: each host in the file of the topology has one port; leave it out",
        ),
        (
            apart(),
            "[ports]\nuse = \"rank\"\narrival = \"own\"\n",
            "a:5: ports.arrival = \"own\": must be \"same\" with ports.wiring = \"planes\", because planes are not connected",
        ),
        (
            uneven.to_owned(),
            "",
            "a:2: topology.file = \"refused.txt\": the network consists of 2 parts that are not connected, and the ports of hosts 0 \
             and 1 with the same number are not in the same part, so the hosts cannot send to each other; connect the parts, or give \
             each host a port in each of them",
        ),
    ];
    for (file, keys, expected) in cases {
        assert_eq!(job("refused.txt", &file, keys).err().as_deref(), Some(expected), "{keys}");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let text = "duration = \"1 ms\"\ntopology = { kind = \"star\", hosts = 4 }\n[ports]\ncount = 2\n";
    let error = Scenario::from_toml(&format!("{text}{JOB}"), "a", &folder, &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "a:3: ports.wiring: missing, and needed: how many ports each host has (count), and how they are connected (wiring)"
    );
}

#[test]
fn routes_are_those_of_the_ports_without_hosts() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("routes.txt"), RAILS).unwrap();
    let text = format!("duration = \"1 ms\"\ntopology = {{ kind = \"file\", file = \"routes.txt\" }}\n{JOB}");
    let (topology, tables, _) = Scenario::from_toml(&text, "a", &folder, &[]).unwrap().build().unwrap();
    let mut plain = topology.clone();
    plain.machines.clear();
    let routing = silvan_network::routing::RoutingSpec::suitable(&plain);
    assert_eq!(routing.compute(&plain).unwrap(), tables);
}
