//! Generates fabrics in the format of `ibnetdiscover`, hand-written netlists, and mixtures.

use std::fmt::Write;

use silvan_engine::random::Stream;

pub const WORDS: &[&str] = &[
    "Switch",
    "Ca",
    "Hca",
    "Rt",
    "switchguid=0x2c902",
    "caguid=0x2c903",
    "rtguid=7",
    "vendid=0x2c9",
    "lid",
    "lmc",
    "base port 0 lid",
    "enhanced port 0 lid",
    "ext 1",
    "4xQDR",
    "1xSDR",
    "12xHDR",
    "2xNDR",
    "8xXDR",
    "4xFDR10",
    "????",
    "# \"a\" b\" lid 3 lmc 0",
    "Chassis 1",
    "Hostname: x",
    "\"S-0\"",
    "\"H-ffffffffffffffff\"",
    "\"#\"",
    "\u{e9}",
];

struct Node {
    id: String,
    name: String,
    guid: u64,
    lid: u32,
    ports: u32,
    is_switch: bool,
    /// The peer of each port.
    far: Vec<Option<(usize, u32)>>,
}

pub fn draw(random: &mut Stream) -> String {
    let (switches, hosts) = (random.below(4), random.below(7));
    let mut nodes: Vec<Node> =
        (0..switches + hosts).map(|number| node(number, number < switches, random)).collect();
    for _ in 0..random.below(3 * (switches + hosts) + 1) {
        join(&mut nodes, random);
    }
    let speed = ["4xQDR", "1xSDR", "12xEDR", "", "4x??"][random.below(5) as usize];
    let mut text = String::from(["", "# Topology file\n\n"][random.below(2) as usize]);
    for index in 0..nodes.len() {
        write_node(&mut text, &nodes, index, speed, random);
    }
    text
}

fn node(number: u32, is_switch: bool, random: &mut Stream) -> Node {
    let ports = match random.below(8) {
        0 => 1,
        1 => 254,
        _ if is_switch => 1 + random.below(8),
        _ => 1 + random.below(2),
    };
    let guid = match random.below(12) {
        0 => u64::MAX,
        1 => 0,
        _ => 0x0002_c902_0000_0000 + 0x10 * u64::from(number),
    };
    let kind = if is_switch { 'S' } else { 'H' };
    let id = match random.below(6) {
        0 => format!("n{number}"),
        1 => format!("{kind}-{guid:x}"),
        _ => format!("{kind}-{guid:016x}"),
    };
    let name = match random.below(8) {
        0 => "same".to_owned(),
        1 => format!("a \"{number}\" b"),
        2 => String::new(),
        3 => format!("lid {number} #"),
        _ => format!("node-{number}"),
    };
    let lid = if random.chance(1, 8) { random.below(3) } else { number + 1 };
    Node { id, name, guid, lid, ports, is_switch, far: vec![None; ports as usize + 1] }
}

fn join(nodes: &mut [Node], random: &mut Stream) {
    let mut free = || {
        let node = random.below(nodes.len() as u32) as usize;
        let port = 1 + random.below(nodes[node].ports.min(9));
        (node, port)
    };
    let (a, b) = (free(), free());
    if a != b && nodes[a.0].far[a.1 as usize].is_none() && nodes[b.0].far[b.1 as usize].is_none() {
        nodes[a.0].far[a.1 as usize] = Some(b);
        nodes[b.0].far[b.1 as usize] = Some(a);
    }
}

fn write_node(text: &mut String, nodes: &[Node], index: usize, speed: &str, random: &mut Stream) {
    let node = &nodes[index];
    if !random.chance(1, 4) {
        let _ = writeln!(text, "{}guid=0x{:x}", if node.is_switch { "switch" } else { "ca" }, node.guid);
    }
    let word = if node.is_switch { "Switch" } else { ["Ca", "Hca", "Rt"][random.below(3) as usize] };
    let _ = write!(text, "{word}\t{} \"{}\"\t\t# \"{}\"", node.ports, node.id, node.name);
    if node.is_switch {
        let _ = write!(text, " base port 0 lid {} lmc 0", node.lid);
    }
    text.push('\n');
    for (port, far) in (0..).zip(&node.far) {
        let Some((peer, back)) = *far else { continue };
        let peer = &nodes[peer];
        let own_guid =
            if node.is_switch { String::new() } else { format!("({:x})", node.guid.wrapping_add(port)) };
        let far_guid = if peer.is_switch {
            String::new()
        } else {
            format!("({:x})", peer.guid.wrapping_add(u64::from(back)))
        };
        let ext = if random.chance(1, 12) { "[ext 7]" } else { "" };
        let own_lid = if node.is_switch { String::new() } else { format!("lid {} lmc 0 ", node.lid) };
        let _ = writeln!(
            text,
            "[{port}]{ext}{own_guid}\t\"{}\"[{back}]{far_guid} \t\t# {own_lid}\"{}\" lid {} {speed}",
            peer.id, peer.name, peer.lid
        );
    }
    text.push('\n');
}
