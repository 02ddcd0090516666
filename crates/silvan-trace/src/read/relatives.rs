//! Names the formats that Silvan recognizes but does not read in the place where a file is given: other
//! formats of the field, and formats that belong in another place.

use std::path::Path;

/// How a format is recognized.
enum Mark {
    /// A line starts with this text.
    Start(&'static str),
    /// A line contains this text.
    Part(&'static str),
    /// The name of the file starts with this text.
    Name(&'static str),
    /// The lines, without blanks at their ends and without empty lines, fit.
    Lines(fn(&[&str]) -> bool),
}

/// Number of lines that are examined.
const LINES: usize = 1000;

/// The formats. The first one that fits is used, so specific marks come first.
const RELATIVES: [(Mark, &str); 36] = [
    (Mark::Start("SwitchName="), "topology.conf of Slurm, which has no ports"),
    (Mark::Part("StartDevice"), "a list of cables of UFM (NDT)"),
    (Mark::Start("Port=1 Lid="), "counters of ports (ibdiagnet2.pm)"),
    (Mark::Start("CA '"), "output of ibstat, which describes one host"),
    (Mark::Start("hca_id:"), "output of ibv_devinfo, which describes one host"),
    (Mark::Start("digraph "), "a graph of Graphviz"),
    (Mark::Start("graph "), "a graph of Graphviz"),
    (Mark::Start("<algo "), "an algorithm of MSCCL (XML)"),
    (Mark::Start("<!DOCTYPE"), "an HTML page"),
    (Mark::Start("<?xml"), "an XML file"),
    (Mark::Start("num_ranks"), "a trace of an application (GOAL)"),
    (Mark::Start("[topology]"), "a scenario, whose network `silvan fabric route` writes as a fabric"),
    (
        Mark::Part("Effective BER"),
        "ibdiagnet2.net_dump_ext, which has no neighbors of ports; ibdiagnet2.net_dump has them",
    ),
    (Mark::Start("sminfo:"), "output of sminfo, which describes the subnet manager"),
    (Mark::Start("# Port info:"), "output of smpquery, which describes one port"),
    (Mark::Start("# Node info:"), "output of smpquery, which describes one node"),
    (Mark::Start("NodeRecord dump:"), "output of saquery, which has no links"),
    (
        Mark::Start("Connections "),
        "a connection matrix of htsim (.cm), which a pattern of the kind \"listed\" reads",
    ),
    (Mark::Lines(is_htsim), "a topology of htsim (.topo)"),
    (Mark::Lines(is_simai), "a topology of SimAI, which `topology.file` of a scenario reads"),
    (
        Mark::Lines(is_infragraph),
        "an infrastructure of InfraGraph, which `topology.file` of a scenario reads",
    ),
    (Mark::Lines(is_workload), "a trace of an application (text workload of ASTRA-sim or SimAI)"),
    (Mark::Part(" entering at walltime "), "a DUMPI trace as text (`dumpi2ascii`)"),
    (Mark::Start("fileprefix=dumpi"), "the description of a DUMPI trace"),
    (Mark::Name("dumpi-"), "a DUMPI trace"),
    (Mark::Lines(is_liballprof), "a trace of liballprof; convert it to GOAL with schedgen"),
    (Mark::Start("ENABLE_QCN "), "a configuration of HPCC's simulator"),
    (Mark::Start("TOPOLOGY_FILE "), "a configuration of HPCC's simulator"),
    (Mark::Start("CC_MODE "), "a configuration of HPCC's simulator"),
    (Mark::Lines(is_booksim), "a configuration of BookSim"),
    (Mark::Start("[General]"), "a configuration of OMNeT++"),
    (Mark::Start("npus_count:"), "a network of ASTRA-sim (YAML)"),
    (Mark::Start("import sst"), "a configuration of SST"),
    (Mark::Lines(is_flows), "a list of flows, which a pattern of the kind \"listed\" reads"),
    (Mark::Lines(is_cdf), "a distribution of message sizes, which `sizes.file` of traffic reads"),
    (Mark::Lines(is_json), "JSON"),
];

/// The format that a file resembles, in words; `text` is its content or its start. `None` if it resembles
/// none.
#[must_use]
pub fn named(file: &Path, text: &str) -> Option<&'static str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(LINES).collect();
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |mark: &Mark| match mark {
        Mark::Start(start) => lines.iter().any(|line| line.starts_with(start)),
        Mark::Part(part) => lines.iter().any(|line| line.contains(part)),
        Mark::Name(start) => name.starts_with(start),
        Mark::Lines(fit) => fit(&lines),
    };
    RELATIVES.iter().find(|(mark, _)| fits(mark)).map(|(_, what)| *what)
}

fn numbers(line: &str) -> Option<Vec<f64>> {
    line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(|word| word.parse().ok()).collect()
}

fn is_htsim(lines: &[&str]) -> bool {
    let has = |key: &str| lines.iter().any(|line| line.to_ascii_lowercase().starts_with(key));
    has("nodes ") && has("tiers ")
}

/// Five numbers and a type of GPU.
fn is_simai(lines: &[&str]) -> bool {
    let words: Vec<&str> = lines.first().map_or_else(Vec::new, |line| line.split_whitespace().collect());
    let is_number = |word: &&str| word.parse::<f64>().is_ok();
    matches!(&words[..], [numbers @ .., kind] if numbers.len() == 5 && numbers.iter().all(is_number) && !is_number(kind))
}

/// Keys of YAML or JSON.
fn is_infragraph(lines: &[&str]) -> bool {
    let has = |key: &str| {
        lines.iter().any(|line| {
            line.trim_matches(['"', '{', ' ']).strip_prefix(key).is_some_and(|rest| rest.contains(':'))
        })
    };
    has("devices") && has("instances")
}

/// Settings that end with a semicolon, among them the topology.
fn is_booksim(lines: &[&str]) -> bool {
    lines.iter().any(|line| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        key.trim_end() == "topology" && value.trim_end().ends_with(';')
    })
}

/// The name of a parallelization, the number of layers, and a line per layer with the operations of its
/// passes.
fn is_workload(lines: &[&str]) -> bool {
    const OPERATIONS: [&str; 5] = ["NONE", "ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCESCATTER"];
    let of_layer = |line: &&&str| {
        line.split_whitespace().filter(|word| OPERATIONS.iter().any(|of| word.starts_with(of))).count() >= 3
    };
    lines.get(1).is_some_and(|line| line.parse::<u32>().is_ok())
        && lines.iter().skip(2).take(3).any(|line| of_layer(&line))
}

/// Calls of MPI with arguments that colons separate.
fn is_liballprof(lines: &[&str]) -> bool {
    let calls = lines.iter().filter(|line| {
        let (call, rest) = line.split_once(':').unwrap_or_default();
        call.starts_with("MPI_")
            && call[4..].bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            && rest.contains(':')
    });
    let comments = lines.iter().filter(|line| line.starts_with('#')).count();
    let calls = calls.count();
    calls > 0 && calls + comments == lines.len()
}

/// A number of flows, and a line of five or six numbers per flow.
fn is_flows(lines: &[&str]) -> bool {
    let Some((first, rest)) = lines.split_first() else { return false };
    first.parse::<u64>().is_ok()
        && !rest.is_empty()
        && rest.iter().all(|line| numbers(line).is_some_and(|found| matches!(found.len(), 5 | 6)))
}

/// Lines of a size and a share, with another number between them in ns-2's form. Shares rise to 1 or 100.
fn is_cdf(lines: &[&str]) -> bool {
    let rows: Option<Vec<Vec<f64>>> =
        lines.iter().filter(|line| !line.starts_with('#')).map(|line| numbers(line)).collect();
    let Some(rows) = rows.filter(|rows| rows.len() > 1) else { return false };
    let shares: Option<Vec<f64>> =
        rows.iter().map(|row| row.last().copied().filter(|_| matches!(row.len(), 2 | 3))).collect();
    shares.is_some_and(|shares| {
        let last = shares.last().copied().unwrap_or_default();
        shares.is_sorted() && (last == 1.0 || last == 100.0)
    })
}

fn is_json(lines: &[&str]) -> bool {
    let starts = lines.first().is_some_and(|line| line.starts_with(['{', '[']));
    starts && lines.last().is_some_and(|line| line.ends_with(['}', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relatives_are_named() {
        for (name, text, what) in [
            ("a.xml", "<algo name=\"ring\" nchunks=\"2\">\n <gpu id=\"0\">\n", "an algorithm of MSCCL"),
            (
                "a.txt",
                "DATA\n1\nfc1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 64 5\n",
                "a trace of an application (text",
            ),
            (
                "d.txt",
                "MPI_Init entering at walltime 1.5, cputime 0.1 seconds in thread 0.\n",
                "a DUMPI trace as text",
            ),
            ("dumpi-2.bin", "\u{1}\u{2}", "a DUMPI trace"),
            (
                "pmpi-0.txt",
                "# own sample\nMPI_Init:10:-:20\nMPI_Barrier:30:0,2:40\n",
                "a trace of liballprof",
            ),
            ("net_dump_ext", "Ty : # : Raw BER : Effective BER : Node Desc\n", "ibdiagnet2.net_dump_ext"),
            ("x.cm", "Nodes 2\nConnections 1\n0->1 start 0 size 5\n", "a connection matrix of htsim"),
            ("x.topo", "Nodes 2\nTiers 2\n", "a topology of htsim"),
            ("rails.txt", "9 2 2 3 10 A100\n4 5 6 7 8\n", "a topology of SimAI"),
            ("a.yaml", "devices:\n- name: box\ninstances: []\n", "an infrastructure of InfraGraph"),
            ("a.json", "{\n\"devices\": [],\n\"instances\": []\n}", "an infrastructure of InfraGraph"),
            ("flow.txt", "1\n0 1 3 100 5 2.0\n", "a list of flows"),
            ("cdf.txt", "1 0 0\n1 1 0.5\n3 1 1\n", "a distribution of message sizes"),
            ("cdf.csv", "10,0.5\n20,1\n", "a distribution of message sizes"),
            ("config.txt", "ENABLE_QCN 1\n", "a configuration of HPCC's simulator"),
            ("config.txt", "ENABLE_PFC 1\nCC_MODE 3\n", "a configuration of HPCC's simulator"),
            ("mesh88", "// 8 x 8\ntopology = mesh;\nk = 8;\n", "a configuration of BookSim"),
            ("omnetpp.ini", "[General]\nnetwork = Star\n", "a configuration of OMNeT++"),
            ("ring.yml", "topology: [ Ring ]\nnpus_count: [ 8 ]\n", "a network of ASTRA-sim"),
            ("emberLoad.py", "import sst\nimport sys\n", "a configuration of SST"),
        ] {
            let found = named(Path::new(name), text).unwrap_or("nothing");
            assert!(found.starts_with(what), "{name}: {found}");
        }
        assert_eq!(named(Path::new("x"), "hello\n"), None);
        assert_eq!(
            named(Path::new("x"), "3 1 2\n0\n"),
            None,
            "the numbers of a topology are no distribution"
        );
    }
}
