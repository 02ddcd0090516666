//! The last sample of a run, for a display that follows the run.

/// The values that the last sample recorded. Counts cover the interval that the sample ended. A slice is
/// empty if its table is not recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latest<'a> {
    /// The end of the interval.
    pub time_ns: u64,
    /// Payload delivered in the whole network.
    pub received_bytes: u64,
    /// Packets marked by switches.
    pub fecn_marks: u64,
    /// Notifications that reached their source.
    pub becn_received: u64,
    /// Packets inside the network at the end of the interval.
    pub packets_inside: u64,
    /// Flows that waited for the reaction or for an announcement at the end of the interval.
    pub throttled_flows: u32,
    /// Outputs in the congestion state at the end of the interval.
    pub congested_outputs: u32,
    /// Payload received per host, in bytes.
    pub host_received_bytes: &'a [u64],
    /// Payload sent per host, in bytes.
    pub host_sent_bytes: &'a [u64],
    /// Payload received per named flow, in bytes.
    pub flow_received_bytes: &'a [u64],
    /// Index into the congestion control table for each named flow.
    pub flow_ccti: &'a [u32],
    /// Utilization per link, from 0 to 1.
    pub link_utilisation: &'a [f64],
    /// Numbers of the links that are down at the end of the interval.
    pub links_down: Vec<u32>,
    /// Bytes that wait for each link.
    pub link_queued_bytes: &'a [u32],
    /// Throughput per class of traffic, in Gbit/s.
    pub class_throughput_gbit_s: &'a [f64],
    /// Mean latency since injection for each class of traffic, in ns; NaN if no packet was delivered.
    pub class_latency_ns: &'a [f64],
    /// The congestion trees, in the order of their roots.
    pub trees: Vec<LatestTree>,
    /// The links of the trees: roots, then the links that wait for them directly, and so on.
    pub tree_links: Vec<TreeLink>,
}

/// A congestion tree of the last sample, classified as if the run ended at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestTree {
    /// Number of the tree in the tables of the run, from 1.
    pub tree: u32,
    /// The number of the tree's root among the links.
    pub root: u32,
    /// The time at which the tree began, in ns.
    pub born_ns: u64,
    /// Whether the contributors of the tree send to its root only.
    pub is_silent: bool,
    /// Hosts that contributed to the tree in the last interval.
    pub contributors: Vec<u32>,
    /// Hosts whose traffic had to wait for branches of the tree in the last interval.
    pub victims: Vec<u32>,
}

/// A link in a tree, as in the table `tree_links`. Links are given by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLink {
    /// The number of the nearest tree.
    pub tree: u32,
    /// The link.
    pub link: u32,
    /// The link for which this link waits; for the root, the root itself.
    pub waits_for: u32,
    /// Number of links from this link to the root.
    pub depth: u32,
    /// The number of trees that contain the link.
    pub trees: u32,
    /// Bytes that wait for the link.
    pub queued_bytes: u32,
    /// Bytes for which the link's sender lacks credit: in flight, in the buffer at the link's far end, or
    /// returning as credit.
    pub downstream_bytes: u32,
    /// Whether the link waits only because special queues at its far end stop packets to a root. Other
    /// packets pass.
    pub is_isolated: bool,
}

/// The last `count` values, or none if there are fewer.
pub(super) fn tail<T>(values: &[T], count: usize) -> &[T] {
    values.get(values.len().wrapping_sub(count)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn a_tail_is_whole_or_empty() {
        assert_eq!(tail(&[1, 2, 3], 2), [2, 3]);
        assert_eq!(tail(&[1, 2, 3], 3), [1, 2, 3]);
        assert!(tail(&[1, 2, 3], 4).is_empty());
        assert!(tail::<u8>(&[], 0).is_empty());
    }
}
