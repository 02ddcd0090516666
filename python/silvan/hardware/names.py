"""Names of port counters in tables of Silvan, in InfiniBand, in exporters for Prometheus, and in SONiC."""

from __future__ import annotations

from dataclasses import dataclass

from silvan.hardware.units import WORD_BYTES


@dataclass(frozen=True)
class Counter:
    """A counter of a port, with its name in each format; an empty name if a format lacks it."""

    column: str
    meaning: str
    infiniband: str = ""
    prometheus: str = ""
    sai: str = ""
    #: Factor from the column to the value in Prometheus.
    factor: int = 1


#: The counters, in the order of the columns of a table.
COUNTERS = (
    Counter(
        "xmit_words",
        "words of 4 bytes that left the port, with headers and control packets",
        "PortXmitData",
        "node_infiniband_port_data_transmitted_bytes_total",
        factor=WORD_BYTES,
    ),
    Counter(
        "rcv_words",
        "words of 4 bytes that left the port at the other end of the cable",
        "PortRcvData",
        "node_infiniband_port_data_received_bytes_total",
        factor=WORD_BYTES,
    ),
    Counter("xmit_bytes", "bytes that left the port", sai="SAI_PORT_STAT_IF_OUT_OCTETS"),
    Counter(
        "rcv_bytes",
        "bytes that left the port at the other end of the cable",
        sai="SAI_PORT_STAT_IF_IN_OCTETS",
    ),
    Counter(
        "xmit_packets",
        "packets that left the port",
        "PortXmitPkts",
        "node_infiniband_port_packets_transmitted_total",
    ),
    Counter(
        "rcv_packets",
        "packets that left the port at the other end of the cable",
        "PortRcvPkts",
        "node_infiniband_port_packets_received_total",
    ),
    Counter(
        "xmit_wait_ticks",
        "ticks in which the port had a packet to send and sent nothing",
        "PortXmitWait",
        "node_infiniband_port_transmit_wait_total",
    ),
    Counter(
        "marked_packets",
        "data packets marked at the output",
        prometheus="silvan_port_marked_packets_total",
        sai="SAI_PORT_STAT_ECN_MARKED_PACKETS",
    ),
    Counter(
        "cnps_sent",
        "notifications (CNPs) that the adapter sent: `np_cnp_sent`",
        prometheus="silvan_port_cnps_sent_total",
    ),
    Counter(
        "cnps_received",
        "notifications (CNPs) that left the port at the other end of the cable: `rp_cnp_handled`",
        prometheus="silvan_port_cnps_received_total",
    ),
    Counter(
        "link_downed",
        "how often the link went down",
        "LinkDownedCounter",
        "node_infiniband_link_downed_total",
    ),
    Counter(
        "xmit_discards",
        "packets that the port discarded",
        "PortXmitDiscards",
        "node_infiniband_port_discards_transmitted_total",
        "SAI_PORT_STAT_IF_OUT_DISCARDS",
    ),
    Counter(
        "rcv_discards",
        "packets that arrived at a full buffer and were dropped",
        prometheus="node_infiniband_port_discards_received_total",
        sai="SAI_PORT_STAT_IF_IN_DISCARDS",
    ),
    Counter(
        "lost_packets",
        "packets that left the port and were lost on the link",
        prometheus="silvan_port_lost_packets_total",
    ),
    Counter(
        "trimmed_packets",
        "packets that the output trimmed",
        prometheus="silvan_port_trimmed_packets_total",
        sai="SAI_PORT_STAT_TRIM_PACKETS",
    ),
    Counter(
        "pause_frames_received", "pause frames that arrived, with those that end a pause; of all priorities"
    ),
    Counter("pause_frames_sent", "pause frames that took effect at the other end of the cable"),
    Counter("paused_us", "time for which the port was paused, summed over its priorities, in whole us"),
    Counter("paused_quanta", "the same time in pause quanta of 512 bit times"),
    Counter(
        "queued_bytes_maximum",
        "largest number of bytes that waited for the port at the end of an interval, since the run began",
        prometheus="silvan_port_queued_bytes_maximum",
    ),
)
BY_COLUMN = {one.column: one for one in COUNTERS}
#: Counters that are maxima, and can fall in a new run.
GAUGES = frozenset({"queued_bytes_maximum"})
