//! The scenario of the cases `hadoop_320_*`: RDMA over Ethernet as it is usually studied. Flows with the sizes of a Hadoop
//! cluster load the network of HPCC's evaluation (Li et al., SIGCOMM 2019) to one half: 320 hosts at 100 Gbit/s, and
//! switches in three levels at 400 Gbit/s with shared memory, pause frames, FIFO queues and ECMP.

use std::fmt::Write;
use std::path::Path;

use silvan_engine::random::Stream;

/// The file that contains the scenario. Other builds read it as well.
pub const FILE: &str = "target/hadoop-320.toml";

/// Sizes of flows in bytes, and the fraction of flows that are not larger, in thousandths (Roy et al., SIGCOMM 2015, as
/// HPCC's simulator reads them). Sizes between two points are equally likely.
const SIZES: [(u32, u32); 20] = [
    (0, 0),
    (100, 10),
    (200, 20),
    (300, 50),
    (350, 150),
    (400, 200),
    (500, 300),
    (600, 400),
    (700, 500),
    (1_000, 600),
    (2_000, 670),
    (7_000, 700),
    (30_000, 720),
    (50_000, 820),
    (80_000, 870),
    (120_000, 900),
    (300_000, 950),
    (1_000_000, 975),
    (2_000_000, 990),
    (10_000_000, 1_000),
];

const PODS: usize = 5;
/// Leaves of a pod, spines of a pod, and cores that each spine of a pod reaches.
const WIDTH: usize = 4;
const HOSTS_PER_LEAF: usize = 16;
const LEAVES: usize = PODS * WIDTH;
const HOSTS: usize = LEAVES * HOSTS_PER_LEAF;

/// The time in which flows start, in picoseconds.
const ARRIVALS: u64 = 1_000_000_000;

/// Mean size of a flow in bytes.
fn mean_size() -> u64 {
    let pieces = SIZES.windows(2).map(|of| u64::from(of[0].0 + of[1].0) * u64::from(of[1].1 - of[0].1));
    pieces.sum::<u64>() / 2_000
}

fn size(random: &mut Stream) -> u32 {
    let thousandths = random.below(1_000);
    let above = SIZES.partition_point(|&(_, fraction)| fraction <= thousandths).min(SIZES.len() - 1);
    let (least, most) = (SIZES[above - 1].0, SIZES[above].0);
    least + 1 + random.below(most - least)
}

/// The scenario, without congestion control.
fn text() -> String {
    let names = |letter: char, count: usize| {
        (0..count).map(|at| format!("\"{letter}{at}\"")).collect::<Vec<_>>().join(", ")
    };
    let switches: Vec<String> = [('L', LEAVES), ('P', LEAVES), ('C', WIDTH * WIDTH)]
        .into_iter()
        .flat_map(|(letter, count)| (0..count).map(move |at| format!("{{ name = \"{letter}{at}\" }}")))
        .collect();
    let mut text = format!(
        "name = \"hadoop-320\"\nseed = 1\nduration = \"1 ms\"\n\n[topology]\nkind = \"custom\"\n\
         link_rate = \"100 Gbit/s\"\nlink_delay = \"1 us\"\nhosts = [{}]\nswitches = [{}]\nlinks = [\n",
        names('H', HOSTS),
        switches.join(", "),
    );
    let mut link = |from: String, to: String, rate: u32| {
        let _ = writeln!(text, "  {{ from = \"{from}\", to = \"{to}\", rate = \"{rate} Gbit/s\" }},");
    };
    for host in 0..HOSTS {
        link(format!("H{host}"), format!("L{}", host / HOSTS_PER_LEAF), 100);
    }
    for leaf in 0..LEAVES {
        (0..WIDTH).for_each(|at| link(format!("L{leaf}"), format!("P{}", leaf / WIDTH * WIDTH + at), 400));
    }
    for spine in 0..LEAVES {
        (0..WIDTH).for_each(|at| link(format!("P{spine}"), format!("C{}", spine % WIDTH * WIDTH + at), 400));
    }
    text.push_str(
        "]\n\n[routing]\nkind = \"shortest-path\"\n\n[ecmp]\n\n[packet]\nmtu = \"1000 B\"\nheader = \"48 B\"\n\
         control = \"60 B\"\n\n[switch]\nlatency = \"17 ns\"\narbitration = \"fcfs\"\n\n[host]\nbuffer = \"1 MiB\"\n\n\
         [flow_control]\nkind = \"pfc\"\nshared = { memory = \"32 MiB\", alpha_shift = 3, alpha_by_rate = false, \
         reserve = \"4 KiB\" }\n\n[measure]\ninterval = \"1 ms\"\nhosts = false\nlinks = false\nclasses = false\n\
         forest = false\n",
    );
    for (number, (start, from, to, size)) in flows().into_iter().enumerate() {
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"F{number}\"\nfrom = \"H{from}\"\nto = \"H{to}\"\nstart = \"{start} ps\"\nmessage = \"{size} B\"\n\
             total = \"{size} B\"\n",
        );
    }
    text
}

/// Start, source, destination and size of each flow, ordered by start.
fn flows() -> Vec<(u64, usize, usize, u32)> {
    // Half of 100 Gbit/s is 160 ps per byte.
    let mean_ps = 160 * mean_size();
    let mut flows = Vec::new();
    for from in 0..HOSTS {
        let mut random = Stream::new(1, "hadoop", from as u64);
        let mut start = random.exponential(mean_ps);
        while start < ARRIVALS {
            let other = random.below(HOSTS as u32 - 1) as usize;
            flows.push((start, from, other + usize::from(other >= from), size(&mut random)));
            start += random.exponential(mean_ps);
        }
    }
    flows.sort_unstable();
    flows
}

/// Writes the file [`FILE`].
///
/// # Errors
/// If the file cannot be written.
pub fn write() -> std::io::Result<()> {
    let file = Path::new(FILE);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Another process may read the file meanwhile.
    let own = file.with_extension(format!("toml.{}", std::process::id()));
    std::fs::write(&own, text())?;
    std::fs::rename(own, file)
}
