//! Feeds each reader a value that matters for each field of its format. A field that is used changes the
//! result. A field that is ignored does not, and a note names it. A field that is refused is an error.

use std::path::Path;

use silvan_scenario::Scenario;
use silvan_scenario::import::fields::{
    ALL, CHAKRA, CONNECTION_MATRIX, CSV, FLOWS, GOAL, HPCC, HTSIM, IBLINKINFO, IBNETDISCOVER, INFRAGRAPH,
    LST, NET_DUMP, OLDER_INFRAGRAPH, SECTIONS, SIMAI, SIZES, TI,
};
use silvan_trace::read::fields::{Fields, Handling};
use silvan_trace::read::{Options, read};

/// A file of a format, and a change of it for each field: the name of the field, an old text and a new one,
/// and a part of the note or error.
struct Sample {
    of: Fields,
    name: &'static str,
    text: &'static str,
    changes: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

/// What a reader returns: the result as text, and notes.
type Outcome = Result<(String, Vec<String>), String>;

fn outcome(of: Fields, name: &str, text: &str) -> Outcome {
    let folder = std::env::temp_dir().join(format!(
        "silvan-fields-{}-{}",
        std::process::id(),
        of.format.replace(' ', "-")
    ));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    let made = match of.format {
        "chakra" | "goal" | "ti" => trace(&folder.join(name)),
        format => scenario(&folder, format, name),
    };
    std::fs::remove_dir_all(&folder).unwrap();
    made
}

fn trace(path: &Path) -> Outcome {
    let options = Options {
        host_flops: Some(1e9),
        host_bandwidth: Some("8 Gbit/s".parse().unwrap()),
        ..Options::default()
    };
    let made = read(path, &options).map_err(|error| error.to_string())?.trace;
    let notes = made.notes.clone();
    let mut text = Vec::new();
    silvan_trace::write::text(&made, &mut text).unwrap();
    Ok((String::from_utf8(text).unwrap(), notes))
}

fn scenario(folder: &Path, format: &str, name: &str) -> Outcome {
    let star = "topology = { kind = \"star\", hosts = 4 }\n";
    let text = match format {
        "htsim" | "hpcc" | "simai" | "infragraph" | "infragraph, older" | "ibnetdiscover" | "lst"
        | "db_csv" | "iblinkinfo" | "net_dump" => {
            format!(
                "topology = {{ kind = \"file\", file = \"{name}\", default_rate = \"3 Gbit/s\" }}\n[[traffic]]\npattern.kind = \"uniform\"\n"
            )
        }
        "sizes" => format!(
            "{star}[[traffic]]\npattern.kind = \"uniform\"\nload_percent = 5\nsizes = {{ kind = \"file\", file = \"{name}\" }}\n"
        ),
        _ => format!("{star}[[traffic]]\npattern = {{ kind = \"listed\", file = \"{name}\" }}\n"),
    };
    let text = format!("duration = \"10 us\"\nlanes.count = 8\nlanes.assignment = \"service-level\"\n{text}");
    let scenario = Scenario::from_toml(&text, "a.toml", folder, &[]).map_err(|error| error.to_string())?;
    let (topology, _, config) = scenario.build().map_err(|error| error.to_string())?;
    let loaded = &config.traffic[0].loaded;
    let result = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        scenario.node_guids(),
        topology.machines,
        topology.hosts,
        topology.switches,
        topology.links,
        config.switch.latency,
        loaded.transfers,
        loaded.sizes
    );
    Ok((result, scenario.file_notes().to_vec()))
}

const SAMPLES: [Sample; 17] = [
    Sample {
        of: HTSIM,
        name: "t.topo",
        text: "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\nOversubscribed 1\n\
               Downlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\n",
        changes: &[
            ("nodes", "Nodes 4", "Nodes 8", "Nodes is 8"),
            ("tiers", "Tiers 2", "Tiers 1", "Tiers is 1"),
            ("podsize", "Podsize 4", "Podsize 2", "Podsize is 2"),
            ("tier", "Tier 1", "Tier 2", "tier 2 follows"),
            (
                "downlink_speed_gbps",
                "Oversubscribed 1\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100",
                "Oversubscribed 2\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 50",
                "",
            ),
            (
                "radix_down",
                "Radix_Down 2\nDownlink_Latency_ns 1000\n",
                "Radix_Down 4\nDownlink_Latency_ns 1000\n",
                "Nodes is 4",
            ),
            ("radix_up", "Radix_Up 2\nOversubscribed 1\n", "Radix_Up 4\n", ""),
            ("downlink_latency_ns", "Downlink_Latency_ns 1000\nTier", "Downlink_Latency_ns 2000\nTier", ""),
            ("switch_latency_ns", "Tier 1\n", "Switch_Latency_ns 700\nTier 1\n", ""),
            ("bundle", "Tier 1\n", "Tier 1\nBundle 2\n", "Nodes is 4"),
            ("oversubscribed", "Oversubscribed 1", "Oversubscribed 8", "Oversubscribed is 8"),
            ("queue_up", "Tier 1\n", "Queue_Up 100\nTier 1\n", "queue_up"),
            ("queue_down", "Tier 1\n", "Queue_Down 100\nTier 1\n", "queue_down"),
        ],
    },
    Sample {
        of: HPCC,
        name: "t.txt",
        text: "4 1 3\n3\n0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n2 3 25Gbps 1us 0\n",
        changes: &[
            ("nodes", "4 1 3", "5 1 3", "host 4 has no link"),
            ("switches", "4 1 3", "4 2 3", "announces 2"),
            ("links", "4 1 3", "4 1 4", "ends before link 4"),
            ("leaf switches", "4 1 3", "4 1 1 3", "leaf switches"),
            ("capacities", "4 1 3", "4 1 1 3 25 100", "capacities"),
            ("numbers of switches", "\n3\n", "\n2\n", "are hosts"),
            ("ends", "0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n", "1 3 25Gbps 1us 0\n0 3 25Gbps 1us 0\n", ""),
            ("rate", "0 3 25Gbps", "0 3 50Gbps", ""),
            ("delay", "1us", "2us", ""),
            ("error rate", "1us 0\n1", "1us 0.5\n1", "the error rate is"),
            ("more lines", "2 3 25Gbps 1us 0\n", "2 3 25Gbps 1us 0\n0 1 25Gbps 1us 0\n", "1 lines after"),
        ],
    },
    Sample {
        of: SIMAI,
        name: "t.txt",
        text: "7 2 2 1 8 A100\n4 5 6\n0 4 900Gbps 20ns 0\n1 4 900Gbps 20ns 0\n2 5 900Gbps 20ns 0\n3 5 900Gbps 20ns 0\n\
               0 6 25Gbps 1us 0\n1 6 25Gbps 1us 0\n2 6 25Gbps 1us 0\n3 6 25Gbps 1us 0\n",
        changes: &[
            ("nodes", "7 2", "8 2", "cannot be divided"),
            ("GPUs per server", "7 2", "7 4", ""),
            ("NVSwitches", "7 2 2 1", "7 2 1 2", "must be equal"),
            ("switches", "7 2 2 1", "7 2 2 3", "announces 2 and 3"),
            ("links", "8 A100", "9 A100", "ends before link 9"),
            ("type of GPU", "A100", "H800", ""),
            ("numbers of switches", "4 5 6", "4 6 5", "two servers"),
            ("ends", "0 6 25Gbps 1us 0\n1 6 25Gbps 1us 0\n", "1 6 25Gbps 1us 0\n0 6 25Gbps 1us 0\n", ""),
            ("rate", "0 6 25Gbps", "0 6 50Gbps", ""),
            ("rate to an NVSwitch", "900Gbps", "800Gbps", "must be equal"),
            ("delay", "1us", "2us", ""),
            ("delay to an NVSwitch", "20ns", "30ns", "must be equal"),
            ("error rate", "1us 0\n1", "1us 0.5\n1", "the error rate is"),
            ("more lines", "3 6 25Gbps 1us 0\n", "3 6 25Gbps 1us 0\n0 6 25Gbps 1us 0\n", "is link 9"),
        ],
    },
    Sample {
        of: INFRAGRAPH,
        name: "t.yaml",
        text: "name: pair\ndescription: x\ndevices:\n\
               - {name: box, components: [{name: nic, count: 2, choice: nic}, {name: aux, count: 1, choice: custom, custom: {type: a}}],\n\
               \u{20} links: [{name: bus, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 8}}}]}\n\
               - {name: leaf, components: [{name: port, count: 9, choice: port}]}\nlinks:\n\
               - {name: slow, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}, latency: {choice: ns, ns: 9}}}\n\
               - {name: fast, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 50}}}\n\
               instances: [{name: host, device: box, count: 2}, {name: sw, device: leaf, count: 1}]\nedges:\n\
               - {ep1: {instance: host, component: \"nic[0]\"}, ep2: {instance: sw, component: \"port[0:2]\"}, scheme: one2one, link: slow}\n\
               - {ep1: {instance: host, component: \"nic[1]\"}, ep2: {instance: sw, component: \"port[2:4]\"}, scheme: one2one, link: fast}\n",
        changes: &[
            ("name", "name: pair", "name: other", ""),
            ("description", "description: x", "description: y", ""),
            ("annotations", "description: x", "annotations: {nodes: []}", "annotations in line 2"),
            ("component name", "{name: nic", "{name: hca", "no component `nic`"),
            ("component count", "count: 9", "count: 8", ""),
            ("component choice", "count: 2, choice: nic", "count: 2, choice: port", "has no hosts"),
            ("custom type", "type: a", "type: b", ""),
            ("nested device", "choice: custom", "choice: device", "no device of this name"),
            ("link name", "{name: slow", "{name: slower", "there is no link `slow`"),
            ("gigabits_per_second", "gigabits_per_second: 100", "gigabits_per_second: 50", ""),
            ("gigabytes_per_second", "gigabytes_per_second: 50", "gigabytes_per_second: 25", ""),
            (
                "gigatransfers_per_second within devices",
                "gigabits_per_second, gigabits_per_second: 8",
                "gigatransfers_per_second, gigatransfers_per_second: 8",
                "such as that of `bus`",
            ),
            (
                "gigatransfers_per_second",
                "choice: gigabytes_per_second, gigabytes",
                "choice: gigatransfers_per_second, gigatransfers",
                "states no number of lanes",
            ),
            ("latency", "ns: 9", "ns: 8", ""),
            ("instance name", "{name: host", "{name: hosts", "there is no instance `host`"),
            ("instance device", "device: box", "device: leaf", "no component `nic`"),
            ("instance count", "device: box, count: 2", "device: box, count: 1", ""),
            ("instance of an endpoint", "instance: host,", "instance: \"host[1]\",", ""),
            ("component of an endpoint", "port[0:2]", "port[4:6]", ""),
            (
                "device of an endpoint",
                "host, component",
                "host, device: aux, component",
                "no component `aux.nic`",
            ),
            ("scheme", "scheme: one2one", "scheme: many2many", "has a second edge"),
            ("link of an edge", "link: slow", "link: fast", ""),
            ("other keys", "description: x", "color: x", "is no key of an infrastructure"),
            ("keys of older dialects", "choice: custom", "type: custom", "older dialect"),
        ],
    },
    Sample {
        of: OLDER_INFRAGRAPH,
        name: "t.yaml",
        text: "name: pair\ndescription: x\ndevices:\n\
               - name: box\n\
               \u{20} components: [{name: cpu, type: cpu}, {name: nic, type: nic, external: true}]\n\
               \u{20} links: [{name: bus, bandwidth: {g_bits_per_second: 8}}]\n\
               \u{20} connections: [cpu.0.bus.nic.0]\n\
               - name: leaf\n\
               \u{20} components: [{name: asic, type: custom}, {name: port, type: nic, external: true, count: 9}, {name: out, type: nic}]\n\
               \u{20} links: [{name: ic}]\n\
               \u{20} connections: [asic.0.ic.port.3, asic.0.ic.out.0]\n\
               links:\n\
               - {name: slow, bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}, latency: {ns: 9}}\n\
               - {name: fast, bandwidth: {giga_bytes_per_second: 50}}\n\
               instances: [{name: host, device: box, count: 2}, {name: sw, device: leaf}]\nconnections:\n\
               - host.0.nic.0.slow.sw.0.port.0\n\
               - host.1.nic.0.slow.sw.0.port.1\n\
               - host.1.nic.1.fast.sw.0.port.2\n",
        changes: &[
            ("name", "name: pair", "name: other", ""),
            ("description", "description: x", "description: y", ""),
            ("annotations", "description: x", "annotations: [{name: a}]", "annotations in line 2"),
            ("component name", "{name: nic", "{name: hca", "no component `nic`"),
            ("component count", "count: 9", "count: 8", ""),
            ("component type", "cpu, type: cpu", "cpu, type: custom", "has no hosts"),
            (
                "external",
                "nic, external: true}",
                "nic, external: false}",
                "that are not external, such as `nic`",
            ),
            ("components of a component", "type: cpu", "type: cpu, components: []", "are not read"),
            ("link name", "{name: slow", "{name: slower", "there is no link `slow`"),
            ("gigabits_per_second", "gigabits_per_second: 100", "gigabits_per_second: 50", ""),
            ("gigabytes_per_second", "giga_bytes_per_second: 50", "giga_bytes_per_second: 25", ""),
            (
                "gigatransfers_per_second within devices",
                "g_bits_per_second",
                "g_transfers_per_second",
                "such as that of `bus`",
            ),
            (
                "gigatransfers_per_second",
                "giga_bytes_per_second",
                "giga_transfers_per_second",
                "states no number of lanes",
            ),
            ("latency", "ns: 9", "ns: 8", ""),
            ("instance name", "{name: host", "{name: hosts", "there is no instance `host`"),
            ("instance device", "device: box", "device: leaf", "no component `nic`"),
            ("instance count", "device: box, count: 2", "device: box, count: 1", "`host.1` is out of range"),
            ("connections of devices", "out.0", "out.1", ""),
            ("connections", "slow.sw.0.port.0", "slow.sw.0.port.4", ""),
            ("other keys", "description: x", "color: x", "is no key of an infrastructure"),
            ("keys of the current dialect", "cpu, type: cpu", "cpu, choice: cpu", "current dialect"),
        ],
    },
    Sample {
        of: FLOWS,
        name: "flow.txt",
        text: "1\n0 3 2 100 20000 1.5\n",
        changes: &[
            ("number of flows", "1\n", "2\n", "announces 2"),
            ("source", "0 3 2", "1 3 2", ""),
            ("destination", "0 3 2", "0 2 2", ""),
            ("priority", "0 3 2", "0 3 1", ""),
            ("port", "100 ", "100000 ", "where a port is at most"),
            ("bytes", "20000", "30000", ""),
            ("start", "1.5", "1.6", ""),
            ("more lines", "1.5\n", "1.5\n1 3 2 100 5 9\n", "1 lines after"),
        ],
    },
    Sample {
        of: CONNECTION_MATRIX,
        name: "in.cm",
        text: "Nodes 4\nConnections 1\n0->3 id 1 start 5 size 2000\n",
        changes: &[
            ("Nodes", "Nodes 4", "Nodes 8", "Nodes is 8"),
            ("Connections", "Connections 1", "Connections 2", "announces 2"),
            ("Triggers", "Connections 1", "Connections 1\nTriggers 1", "`Triggers`"),
            ("Failures", "Connections 1", "Connections 1\nFailures 1", "`Failures`"),
            ("->", "0->3", "0->2", ""),
            ("id", "id 1", "id 9", ""),
            ("start", "start 5", "start 6", ""),
            ("size", "size 2000", "size 3000", ""),
            ("prio", "size 2000", "size 2000 prio 3", "prio"),
            ("trigger", "start 5", "trigger 5", "`trigger`"),
            ("failure", "0->3", "failure switch_type TOR\n0->3", "`failure`"),
            ("send_done_trigger", "id 1", "send_done_trigger 1", "`send_done_trigger`"),
            ("recv_done_trigger", "id 1", "recv_done_trigger 1", "`recv_done_trigger`"),
            ("addon", "id 1", "addon id 1", "`addon`"),
        ],
    },
    Sample {
        of: CSV,
        name: "list.csv",
        text: "from,to,bytes,start_ns,sl\n0,3,2000,7,1\n",
        changes: &[
            ("from", "0,3", "1,3", ""),
            ("to", "0,3", "0,2", ""),
            ("bytes", "2000", "3000", ""),
            ("start_ns", ",7,", ",8,", ""),
            ("sl", ",1\n", ",2\n", ""),
            ("other columns", "sl\n0,3,2000,7,1", "sl,x\n0,3,2000,7,1,5", "the columns are"),
        ],
    },
    Sample {
        of: SIZES,
        name: "cdf.txt",
        text: "1000 0\n2000 0.5\n3000 1\n",
        changes: &[
            ("size", "2000", "2500", ""),
            (
                "second column of ns-2",
                "1000 0\n2000 0.5\n3000 1\n",
                "1000 9 0\n2000 9 0.5\n3000 9 1\n",
                "second column",
            ),
            ("share", "0.5", "0.25", ""),
        ],
    },
    Sample {
        of: IBNETDISCOVER,
        name: "ib.topo",
        text: "vendid=0x2c9\ndevid=0xbd36\nsysimgguid=0xa0\nswitchguid=0xa0(a0)\n\
               Switch\t8 \"S-a0\"\t\t# \"swA\" base port 0 lid 2 lmc 0\n\
               [1]\t\"H-b00\"[1](b01) \t\t# \"node-0\" lid 3 4xQDR\n[2]\t\"H-b10\"[1](b11) \t\t# \"node-1\" lid 4 4xQDR\n\n\
               caguid=0xb00\nCa\t1 \"H-b00\"\t\t# \"node-0\"\n[1](b01) \t\"S-a0\"[1]\t\t# lid 3 lmc 0 \"swA\" lid 2 4xQDR\n\n\
               caguid=0xb10\nCa\t1 \"H-b10\"\t\t# \"node-1\"\n[1](b11) \t\"S-a0\"[2]\t\t# lid 4 lmc 0 \"swA\" lid 2 4xQDR\n",
        changes: &[
            ("vendid", "vendid=0x2c9", "vendid=0x119f", ""),
            ("devid", "devid=0xbd36", "devid=0x1", ""),
            ("sysimgguid", "sysimgguid=0xa0", "sysimgguid=0xa1", ""),
            ("switchguid", "switchguid=0xa0(a0)", "switchguid=0xa7(a7)", ""),
            ("caguid", "caguid=0xb10", "caguid=0xb00", "is already described"),
            ("ports", "Switch\t8", "Switch\t9", ""),
            ("node", "[2]\t\"H-b10\"", "[2]\t\"H-b90\"", "which is not described"),
            ("description", "\"S-a0\"\t\t# \"swA\"", "\"S-a0\"\t\t# \"swB\"", ""),
            ("lid", "lid 4 lmc", "lid 5 lmc", ""),
            ("lmc", "lid 4 lmc 0", "lid 4 lmc 1", ""),
            ("port GUID", "(b11)", "(b17)", "both must agree"),
            ("rate", "4xQDR", "1xQDR", ""),
            ("comment", "vendid", "# a remark\nvendid", ""),
            ("other keys", "vendid", "color=0x1\nvendid", "is not a known key"),
            ("lines of a terminal", "vendid", "ibwarn: x\nvendid", "1 line of a terminal"),
        ],
    },
    Sample {
        of: LST,
        name: "n.lst",
        text: "{ CA Ports:01 SystemGUID:b00 NodeGUID:b00 PortGUID:b01 VenID:000000 DevID:0000 Rev:00000000 {node-0} LID:0003 PN:01 } { SW Ports:08 SystemGUID:a0 NodeGUID:a0 PortGUID:a0 VenID:000000 DevID:0000 Rev:00000000 {swA} LID:0002 PN:01 } PHY=4x LOG=ACT SPD=10\n{ CA Ports:01 SystemGUID:b10 NodeGUID:b10 PortGUID:b11 VenID:000000 DevID:0000 Rev:00000000 {node-1} LID:0004 PN:01 } { SW Ports:08 SystemGUID:a0 NodeGUID:a0 PortGUID:a0 VenID:000000 DevID:0000 Rev:00000000 {swA} LID:0002 PN:02 } PHY=4x LOG=ACT SPD=10\n{ CA Ports:01 SystemGUID:b20 NodeGUID:b20 PortGUID:b21 VenID:000000 DevID:0000 Rev:00000000 {node-2} LID:0005 PN:01 } { SW Ports:08 SystemGUID:a0 NodeGUID:a0 PortGUID:a0 VenID:000000 DevID:0000 Rev:00000000 {swA} LID:0002 PN:03 } PHY=4x LOG=ACT SPD=10\n",
        changes: &[
            ("type", "{ CA", "{ SW", ""),
            ("Ports", "SW Ports:08", "SW Ports:09", ""),
            ("SystemGUID", "SystemGUID:b00", "SystemGUID:b07", ""),
            ("NodeGUID", "NodeGUID:b00", "NodeGUID:b07", ""),
            ("PortGUID", "PortGUID:b01", "PortGUID:b07", ""),
            ("VenID", "VenID:000000", "VenID:000001", ""),
            ("DevID", "DevID:0000", "DevID:0001", ""),
            ("Rev", "Rev:00000000", "Rev:00000001", ""),
            ("description", "{node-0}", "{node-9}", ""),
            ("LID", "LID:0003", "LID:0009", ""),
            ("PN", "LID:0002 PN:01", "LID:0002 PN:07", ""),
            ("PHY", "PHY=4x", "PHY=1x", ""),
            ("LOG", "LOG=ACT", "LOG=DWN", ""),
            ("SPD", "SPD=10", "SPD=5", ""),
        ],
    },
    Sample {
        of: SECTIONS,
        name: "n.db_csv",
        text: "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\nswA,8,2,0xa0\nnode-0,1,1,0xb0\nnode-1,1,1,0xb1\nEND_NODES\nSTART_PORTS\nNodeGuid,PortNum,PortGUID,LID,LMC,LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv,NMTU,OpVLs,HoQLife,VLStallCnt,VLHighLimit,X\n0xa0,0,0xa0,2,0,0,0,0,0,0,0,0,0,7\n0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7\n0xb1,1,0xc1,6,0,2,4,0,0,0,0,0,0,7\nEND_PORTS\nSTART_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0xa0,1,0xb0,1\n0xa0,2,0xb1,1\nEND_LINKS\n",
        changes: &[
            ("NodeDesc", "node-0", "node-9", ""),
            ("NumPorts", "swA,8", "swA,9", ""),
            ("NodeType", "swA,8,2", "swA,8,1", "connects two hosts"),
            ("NodeGUID", "node-0,1,1,0xb0", "node-0,1,1,0xb7", "which is not in section NODES"),
            ("PortNum", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,2,0xc0,4,0,2,4,0,0,0,0,0,0,7", ""),
            ("PortGUID", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xd0,4,0,2,4,0,0,0,0,0,0,7", ""),
            ("LID", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xc0,8,0,2,4,0,0,0,0,0,0,7", ""),
            ("LMC", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xc0,4,1,2,4,0,0,0,0,0,0,7", ""),
            ("LinkWidthActv", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xc0,4,0,1,4,0,0,0,0,0,0,7", ""),
            ("LinkSpeedActv", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xc0,4,0,2,2,0,0,0,0,0,0,7", ""),
            (
                "LinkSpeedExtActv",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,2,0,0,0,0,0,7",
                "",
            ),
            (
                "NMTU",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,0,5,0,0,0,0,7",
                "not used: NMTU of 1 port",
            ),
            (
                "OpVLs",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,0,0,3,0,0,0,7",
                "not used: OpVLs of 1 port",
            ),
            (
                "HoQLife",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,16,0,0,7",
                "not used: HoQLife of 1 port",
            ),
            (
                "VLStallCnt",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,7,0,7",
                "not used: VLStallCnt of 1 port",
            ),
            (
                "VLHighLimit",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7",
                "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,4,7",
                "not used: VLHighLimit of 1 port",
            ),
            ("NodeGuid1", "0xa0,1,0xb0,1", "0xa7,1,0xb0,1", "which is not in section NODES"),
            ("PortNum1", "0xa0,1,0xb0,1", "0xa0,3,0xb0,1", ""),
            ("NodeGuid2", "0xa0,1,0xb0,1", "0xa0,1,0xb7,1", "which is not in section NODES"),
            ("PortNum2", "0xa0,1,0xb0,1", "0xa0,1,0xb0,2", "does not exist"),
            ("other columns", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,7", "0xb0,1,0xc0,4,0,2,4,0,0,0,0,0,0,8", ""),
            (
                "other sections",
                "START_LINKS",
                "START_CABLES\nA\n1\nEND_CABLES\nSTART_LINKS",
                "skipped CABLES",
            ),
        ],
    },
    Sample {
        of: IBLINKINFO,
        name: "n.txt",
        text: "0xb1 \"node-0\" 3 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xa0 2 1[ ] \"swA\" ( )\n0xa0 \"swA\" 2 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xb1 3 1[ ] \"node-0\" ( )\n0xb2 \"node-1\" 4 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xa0 2 2[ ] \"swA\" ( )\n0xa0 \"swA\" 2 2[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xb2 4 1[ ] \"node-1\" ( )\n",
        changes: &[
            ("GUID", "0xb1 \"node-0\"", "0xb7 \"node-0\"", ""),
            ("name", "0xb1 \"node-0\"", "0xb1 \"node-9\"", ""),
            ("LID", "\"node-0\" 3", "\"node-0\" 9", "but to another port"),
            ("port", "\"node-0\" 3 1", "\"node-0\" 3 2", "no line describes"),
            ("width", "4X 10.0", "1X 10.0", ""),
            ("speed", "10.0 Gbps", "5.0 Gbps", ""),
            (
                "state",
                "0xb1 \"node-0\" 3 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xa0 2 1[ ] \"swA\" ( )\n0xa0 \"swA\" 2 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 0xb1 3 1[ ] \"node-0\" ( )\n",
                "0xb1 \"node-0\" 3 1[ ] ==( Down/ Polling)==> [ ] \"\" ( )\n0xa0 \"swA\" 2 1[ ] ==( Down/ Polling)==> [ ] \"\" ( )\n",
                "needs a network of at least two hosts",
            ),
            ("physical state", "LinkUp", "LinkErrorRecovery", ""),
            ("GUID of the far end", "==> 0xa0 2 1", "==> 0xa7 2 1", "another name or GUID"),
            ("LID of the far end", "==> 0xa0 2 1", "==> 0xa0 9 1", "but to another port"),
            ("port of the far end", "==> 0xa0 2 1", "==> 0xa0 2 2", "but to another port"),
            ("name of the far end", "1[ ] \"swA\"", "1[ ] \"swB\"", "another name or GUID"),
            ("possible speed", "\"swA\" ( )", "\"swA\" ( Could be 14.0625 Gbps)", ""),
        ],
    },
    Sample {
        of: NET_DUMP,
        name: "n.net_dump",
        text: "\"swA\", Mellanox, 0xa0, LID 2\n# : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid : N# : NLID : Neighbor Description\n1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"\n1/2 : 2 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xc0 : 1/4 : 5 : \"swB\"\n\"swB\", Mellanox, 0xc0, LID 5\n# : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid : N# : NLID : Neighbor Description\n1/4 : 8 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xa0 : 1/2 : 2 : \"swA\"\n1/5 : 9 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb2 : 1 : 4 : \"node-1\"\n",
        changes: &[
            ("name", "\"swA\", M", "\"swX\", M", ""),
            ("vendor", "Mellanox", "Other", ""),
            ("GUID", "Mellanox, 0xa0", "Mellanox, 0xa7", "the port is `1/2`"),
            ("LID", "LID 2", "LID 7", ""),
            ("#", "1/2 : 2 :", "1/9 : 2 :", "the port is `1/2`"),
            ("IB#", "1/1 : 1 :", "1/1 : 7 :", ""),
            (
                "Sta",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : DOWN : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "needs a network of at least two hosts",
            ),
            (
                "PhysSta",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : x : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "",
            ),
            (
                "MTU",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : 5 : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "not used: MTU of 1 port",
            ),
            (
                "LWA",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 1x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "",
            ),
            (
                "LSA",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 50 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "",
            ),
            (
                "FEC mode",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : RS-FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "not used: FEC mode of 1 port",
            ),
            (
                "Retran",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "not used: Retran of 1 port",
            ),
            (
                "Neighbor Guid",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb7 : 1 : 3 : \"node-0\"",
                "",
            ),
            ("N#", "0xc0 : 1/4 : 5", "0xc0 : 1/5 : 5", "but to another port"),
            (
                "NLID",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 9 : \"node-0\"",
                "",
            ),
            (
                "Neighbor Description",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-0\"",
                "1/1 : 1 : ACT : LINK UP : N/A : 4x : 25 : NO FEC : NO-RTR : 0xb1 : 1 : 3 : \"node-9\"",
                "",
            ),
        ],
    },
    Sample {
        of: CHAKRA,
        name: "t.json",
        text: r#"{"workload_name": "w", "workload_graph": [
{"Id": 1, "Name": "n", "NodeType": 4, "runtime": 3},
{"Id": 2, "NodeType": 4, "is_cpu_op": true, "num_ops": 5000, "tensor_size": 100, "data_deps": [1]},
{"Id": 3, "NodeType": 2, "tensor_size": 4000},
{"Id": 4, "NodeType": 7, "comm_type": 0, "comm_size": 1000, "pg_name": "a", "involved_dim": [true]},
{"Id": 5, "NodeType": 5, "comm_dst": 0, "comm_size": 100, "comm_tag": 3},
{"Id": 6, "NodeType": 6, "comm_src": 0, "comm_size": 100, "comm_tag": 3}]}"#,
        changes: &[
            ("id", "\"Id\": 2", "\"Id\": 1", "node 1 is defined twice"),
            ("name", "\"Id\": 3", "\"name\": \"x\", \"Id\": 3", ""),
            ("Name", "\"n\"", "\"m\"", ""),
            ("workload_name", "\"w\"", "\"v\"", ""),
            ("version", "\"workload_name\"", "\"version\": \"1\", \"workload_name\"", ""),
            ("doc_string", "\"Id\": 3", "\"doc_string\": \"x\", \"Id\": 3", ""),
            ("type", "\"NodeType\": 2", "\"NodeType\": 4", ""),
            ("ctrl_deps", "\"Id\": 2", "\"ctrl_deps\": [1], \"Id\": 2", "ctrl_deps"),
            ("data_deps", "[1]}", "[]}", ""),
            ("start_time_micros", "\"Id\": 2", "\"start_time_micros\": 7, \"Id\": 2", "start_time_micros"),
            ("duration_micros", "\"runtime\": 3", "\"runtime\": 4", ""),
            ("inputs", "\"Id\": 2", "\"inputs\": {\"x\": 1}, \"Id\": 2", "inputs"),
            ("outputs", "\"Id\": 2", "\"outputs\": {\"x\": 1}, \"Id\": 2", "outputs"),
            ("is_cpu_op", "true, \"num", "false, \"num", ""),
            ("num_ops", "5000", "6000", ""),
            ("tensor_size", "4000", "5000", ""),
            ("comm_size", "\"comm_dst\": 0, \"comm_size\": 100", "\"comm_dst\": 0, \"comm_size\": 200", ""),
            ("comm_type", "\"comm_type\": 0", "\"comm_type\": 17", "comm_type 17 is not one of"),
            ("comm_src", "\"comm_src\": 0", "\"comm_src\": 7", "7"),
            ("comm_dst", "\"comm_dst\": 0", "\"comm_dst\": 7", "7"),
            ("comm_tag", "\"comm_tag\": 3}]", "\"comm_tag\": 4}]", ""),
            ("comm_root", "\"comm_type\": 0", "\"comm_type\": 5, \"comm_root\": 3", "3"),
            ("root", "\"comm_type\": 0", "\"comm_type\": 5, \"root\": 3", "3"),
            (
                "pg_name",
                "\"pg_name\": \"a\", \"involved_dim\": [true]",
                "\"involved_dim\": [false]",
                "involved_dim",
            ),
            (
                "involved_dim",
                "\"pg_name\": \"a\", \"involved_dim\": [true]",
                "\"involved_dim\": [false]",
                "involved_dim excludes",
            ),
            ("comm_priority", "\"Id\": 4", "\"comm_priority\": 7, \"Id\": 4", "comm_priority"),
            ("tensor_loc", "\"Id\": 3", "\"tensor_loc\": 2, \"Id\": 3", "tensor_loc"),
            ("storage", "\"Id\": 3", "\"storage\": {\"level\": 1}, \"Id\": 3", "storage"),
        ],
    },
    Sample {
        of: GOAL,
        name: "t.goal",
        text: "num_ranks 2\nrank 0 {\na: calc 100\nb: send 8b to 1 tag 3 cpu 0 nic 0\nb requires a\nc: calc 5\n}\n\
               rank 1 {\nrecv 8b from 0 tag 3\n}\n",
        changes: &[
            ("num_ranks", "num_ranks 2", "num_ranks 3", ""),
            ("rank", "rank 1", "rank 0", "second schedule"),
            ("label", "b requires a", "b requires c", "label"),
            ("calc", "calc 100", "calc 101", ""),
            ("send", "send 8b to 1", "recv 8b from 1", ""),
            ("recv", "recv 8b from 0", "send 8b to 0", ""),
            ("size", "send 8b", "send 9b", ""),
            ("peer", "to 1", "to 0", ""),
            ("tag", "recv 8b from 0 tag 3", "recv 8b from 0 tag 4", ""),
            ("cpu", "cpu 0", "cpu 1", ""),
            ("requires", "b requires a", "", ""),
            ("irequires", "b requires a", "b irequires a", ""),
            ("nic", "nic 0", "nic 1", ""),
        ],
    },
    Sample {
        of: TI,
        name: "ti.txt",
        text: "0 init\n1 init\n0 compute 5000\n0 send 1 3 10 6\n1 recv 0 3 10 6\n0 barrier\n1 barrier\n0 bcast 100\n1 bcast 100\n",
        changes: &[
            ("rank", "0 compute", "1 compute", ""),
            ("action", "barrier\n1 barrier", "allreduce 10 0\n1 allreduce 10 0", ""),
            ("init", "0 init", "0 init 1", ""),
            ("peer", "send 1", "send 0", ""),
            ("tag", "send 1 3", "send 1 4", ""),
            ("count", "send 1 3 10", "send 1 3 11", ""),
            ("datatype", "send 1 3 10 6", "send 1 3 10 1", ""),
            ("flops", "5000", "6000", ""),
            ("waitany", "0 barrier", "0 waitany\n0 barrier", "waitany"),
        ],
    },
];

#[test]
fn each_field_is_used_noted_or_refused() {
    let formats: Vec<&str> = SAMPLES.iter().map(|sample| sample.of.format).collect();
    assert_eq!(formats.len(), ALL.len());
    for of in ALL {
        assert!(formats.contains(&of.format), "{} has no sample", of.format);
    }
    for Sample { of, name, text, changes } in &SAMPLES {
        let plain = outcome(*of, name, text).unwrap_or_else(|error| panic!("{}: {error}", of.format));
        let fields: Vec<&str> = of.fields.iter().map(|field| field.name).collect();
        let fed: Vec<&str> = changes.iter().map(|change| change.0).collect();
        assert_eq!(fed, fields, "{}: each field needs a value", of.format);
        for (field, old, new, part) in *changes {
            assert!(text.contains(old), "{}: {field}: {old}", of.format);
            let changed = outcome(*of, name, &text.replacen(old, new, 1));
            let place = format!("{}: {field}: {changed:?}", of.format);
            match (of.handling(field).unwrap(), &changed) {
                // A value that makes the file inconsistent has an effect, too.
                (Handling::Used, Err(error)) => assert!(!part.is_empty() && error.contains(part), "{place}"),
                (Handling::Used, Ok((result, _))) => {
                    assert!(part.is_empty() && *result != plain.0, "{place}")
                }
                (Handling::Text, Ok(found)) => assert_eq!(*found, plain, "{place}"),
                (Handling::Noted, Ok((result, notes))) => {
                    assert_eq!(*result, plain.0, "{place}");
                    assert!(
                        notes.iter().any(|note| note.contains(part))
                            && !plain.1.contains(&(*part).to_owned()),
                        "{place}"
                    );
                    assert_ne!(*notes, plain.1, "{place}");
                }
                (Handling::Refused, Err(error)) => assert!(error.contains(part), "{place}"),
                _ => panic!("{place}"),
            }
        }
    }
}

#[test]
fn pages_list_all_fields() {
    let pages = [
        include_str!("../../../docs/engineer.md"),
        include_str!("../../../docs/transfers.md"),
        include_str!("../../../docs/traces.md"),
    ]
    .concat();
    for of in ALL {
        let with = |handling: Handling| {
            let fields = of.fields.iter().filter(|field| field.handling == handling);
            fields.map(|field| field.name).collect::<Vec<_>>().join(", ")
        };
        let kinds = [Handling::Used, Handling::Noted, Handling::Refused, Handling::Text].map(with);
        let row = format!("| `{}` | {} |", of.format, kinds.join(" | "));
        let row = row.replace("|  |", "| |").replace("|  |", "| |");
        assert!(pages.contains(&row), "no page has the row\n{row}");
    }
}
