//! The fields of all formats of files that describe networks, transfers and traces, and what the readers do
//! with them. The fields of traces are those of [`silvan_trace::read::fields`].

pub use silvan_trace::read::fields::{CHAKRA, GOAL, TI};
use silvan_trace::read::fields::{Fields, noted, refused, text, used};

/// Topologies of htsim. Keys are compared in lower case.
pub const HTSIM: Fields = Fields {
    format: "htsim",
    fields: &[
        refused("nodes"),
        used("tiers"),
        refused("podsize"),
        used("tier"),
        used("downlink_speed_gbps"),
        used("radix_down"),
        used("radix_up"),
        used("downlink_latency_ns"),
        used("switch_latency_ns"),
        used("bundle"),
        refused("oversubscribed"),
        noted("queue_up"),
        noted("queue_down"),
    ],
};

/// Topologies of HPCC's simulator and its dialects.
pub const HPCC: Fields = Fields {
    format: "hpcc",
    fields: &[
        used("nodes"),
        used("switches"),
        used("links"),
        noted("leaf switches"),
        noted("capacities"),
        used("numbers of switches"),
        used("ends"),
        used("rate"),
        used("delay"),
        refused("error rate"),
        noted("more lines"),
    ],
};

/// Topologies of SimAI.
pub const SIMAI: Fields = Fields {
    format: "simai",
    fields: &[
        used("nodes"),
        used("GPUs per server"),
        used("NVSwitches"),
        used("switches"),
        refused("links"),
        text("type of GPU"),
        used("numbers of switches"),
        used("ends"),
        used("rate"),
        used("rate to an NVSwitch"),
        used("delay"),
        used("delay to an NVSwitch"),
        refused("error rate"),
        refused("more lines"),
    ],
};

/// Infrastructures of InfraGraph.
pub const INFRAGRAPH: Fields = Fields {
    format: "infragraph",
    fields: &[
        text("name"),
        text("description"),
        noted("annotations"),
        used("component name"),
        used("component count"),
        used("component choice"),
        text("custom type"),
        used("nested device"),
        used("link name"),
        used("gigabits_per_second"),
        used("gigabytes_per_second"),
        noted("gigatransfers_per_second within devices"),
        refused("gigatransfers_per_second"),
        used("latency"),
        used("instance name"),
        used("instance device"),
        used("instance count"),
        used("instance of an endpoint"),
        used("component of an endpoint"),
        used("device of an endpoint"),
        used("scheme"),
        used("link of an edge"),
        refused("other keys"),
        refused("keys of older dialects"),
    ],
};

/// Infrastructures of InfraGraph in older dialects.
pub const OLDER_INFRAGRAPH: Fields = Fields {
    format: "infragraph, older",
    fields: &[
        text("name"),
        text("description"),
        noted("annotations"),
        used("component name"),
        used("component count"),
        used("component type"),
        noted("external"),
        refused("components of a component"),
        used("link name"),
        used("gigabits_per_second"),
        used("gigabytes_per_second"),
        noted("gigatransfers_per_second within devices"),
        refused("gigatransfers_per_second"),
        used("latency"),
        used("instance name"),
        used("instance device"),
        used("instance count"),
        used("connections of devices"),
        used("connections"),
        refused("other keys"),
        refused("keys of the current dialect"),
    ],
};

/// Flow files of HPCC's simulator.
pub const FLOWS: Fields = Fields {
    format: "flows",
    fields: &[
        used("number of flows"),
        used("source"),
        used("destination"),
        used("priority"),
        refused("port"),
        used("bytes"),
        used("start"),
        noted("more lines"),
    ],
};

/// Connection matrices of htsim.
pub const CONNECTION_MATRIX: Fields = Fields {
    format: "connection matrix",
    fields: &[
        noted("Nodes"),
        refused("Connections"),
        refused("Triggers"),
        refused("Failures"),
        used("->"),
        text("id"),
        used("start"),
        used("size"),
        noted("prio"),
        refused("trigger"),
        refused("failure"),
        refused("send_done_trigger"),
        refused("recv_done_trigger"),
        refused("addon"),
    ],
};

/// Lists of transfers in CSV.
pub const CSV: Fields = Fields {
    format: "csv",
    fields: &[
        used("from"),
        used("to"),
        used("bytes"),
        used("start_ns"),
        used("sl"),
        refused("other columns"),
    ],
};

/// Distributions of sizes.
pub const SIZES: Fields =
    Fields { format: "sizes", fields: &[used("size"), noted("second column of ns-2"), used("share")] };

/// Output of `ibnetdiscover`.
pub const IBNETDISCOVER: Fields = Fields {
    format: "ibnetdiscover",
    fields: &[
        text("vendid"),
        text("devid"),
        text("sysimgguid"),
        used("switchguid"),
        used("caguid"),
        used("ports"),
        used("node"),
        used("description"),
        used("lid"),
        used("lmc"),
        used("port GUID"),
        used("rate"),
        text("comment"),
        refused("other keys"),
        noted("lines of a terminal"),
    ],
};

/// Lists of links (`opensm-subnet.lst`).
pub const LST: Fields = Fields {
    format: "lst",
    fields: &[
        used("type"),
        used("Ports"),
        text("SystemGUID"),
        used("NodeGUID"),
        used("PortGUID"),
        text("VenID"),
        text("DevID"),
        text("Rev"),
        used("description"),
        used("LID"),
        used("PN"),
        used("PHY"),
        used("LOG"),
        used("SPD"),
    ],
};

/// Sections of ibdiagnet and OpenSM (`ibdiagnet2.db_csv`, `opensm-smdb.dump`).
pub const SECTIONS: Fields = Fields {
    format: "db_csv",
    fields: &[
        used("NodeDesc"),
        used("NumPorts"),
        used("NodeType"),
        used("NodeGUID"),
        used("PortNum"),
        used("PortGUID"),
        used("LID"),
        used("LMC"),
        used("LinkWidthActv"),
        used("LinkSpeedActv"),
        used("LinkSpeedExtActv"),
        noted("NMTU"),
        noted("OpVLs"),
        noted("HoQLife"),
        noted("VLStallCnt"),
        noted("VLHighLimit"),
        used("NodeGuid1"),
        used("PortNum1"),
        used("NodeGuid2"),
        used("PortNum2"),
        text("other columns"),
        noted("other sections"),
    ],
};

/// Output of `iblinkinfo`.
pub const IBLINKINFO: Fields = Fields {
    format: "iblinkinfo",
    fields: &[
        used("GUID"),
        used("name"),
        used("LID"),
        used("port"),
        used("width"),
        used("speed"),
        used("state"),
        text("physical state"),
        noted("GUID of the far end"),
        used("LID of the far end"),
        used("port of the far end"),
        noted("name of the far end"),
        text("possible speed"),
    ],
};

/// Tables of the ports of switches (`ibdiagnet2.net_dump`).
pub const NET_DUMP: Fields = Fields {
    format: "net_dump",
    fields: &[
        used("name"),
        text("vendor"),
        used("GUID"),
        used("LID"),
        used("#"),
        used("IB#"),
        used("Sta"),
        text("PhysSta"),
        noted("MTU"),
        used("LWA"),
        used("LSA"),
        noted("FEC mode"),
        noted("Retran"),
        used("Neighbor Guid"),
        used("N#"),
        used("NLID"),
        used("Neighbor Description"),
    ],
};

/// The fields of all formats.
pub const ALL: [Fields; 17] = [
    HTSIM,
    HPCC,
    SIMAI,
    INFRAGRAPH,
    OLDER_INFRAGRAPH,
    FLOWS,
    CONNECTION_MATRIX,
    CSV,
    SIZES,
    IBNETDISCOVER,
    LST,
    SECTIONS,
    IBLINKINFO,
    NET_DUMP,
    CHAKRA,
    GOAL,
    TI,
];
