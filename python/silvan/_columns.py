"""The tables of a run and their columns, with what they contain.

`silvan schema --results` prints them, `tools/site` writes a page with them, and
:mod:`silvan._layout` checks that tables have them.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass

#: Contents of columns by the mark in `TEXT`.
KINDS = {"n": "names", "w": "whole numbers", "r": "numbers"}
#: A line per table: its name and its rows. Below it a line per column: its contents, its name, its meaning.
#: Unless stated otherwise, bytes are payload bytes, and counts are those of the interval.
TEXT = """
flows: Named flows (`[[flow]]`), a row per flow and interval.
  n flow: the name
  w time_ns: end of the interval
  w received_bytes: received
  w sent_bytes: sent
  w ccti: index into the congestion control table at the end of the interval
hosts: A row per host and interval; empty with measure.hosts = false.
  n host: the name
  w time_ns: end of the interval
  w received_bytes: received
  w sent_bytes: sent
links: A row per channel and interval; empty with measure.links = false.
  n link: the channel, named by its sending port
  w time_ns: end of the interval
  w sent_bytes: bytes on the link, with headers and control packets
  w queued_bytes: bytes that wait for the link at the end of the interval
  w downstream_bytes: bytes in the buffer at its far end
  w fecn_marks: data packets marked at this output
  w congested: number of virtual lanes in the congestion state
  r utilisation: fraction of the rate that was used, 0 to 1
network: A row per interval.
  w time_ns: end of the interval
  w received_bytes: received by all hosts
  w fecn_marks: data packets marked
  w becn_received: notifications that reached their source
  w throttled_flows: flows that wait because of their reaction, at the end of the interval
  w congested_outputs: outputs in the congestion state
  w packets_inside: packets in the network
classes: A row per class (a flow, a pattern of traffic, a role of a forest) and interval; empty with
  measure.classes = false.
  n class: the name
  w time_ns: end of the interval
  w delivered_packets: delivered
  w marked_packets: delivered packets with the FECN bit
  w validated_packets: those of them that also have the validation bit
  r throughput_gbit_s: payload delivered
  r mean_since_generation_ns: mean latency of these packets since the generation of their message (or NaN)
  r mean_since_injection_ns: the same since the packet began to leave its host
  r max_since_generation_ns: the largest such latency
latency: Histograms after the warm-up, a row per class and range.
  n class: a flow or a pattern of traffic
  n since: generation of the message, or injection of the packet
  w lower_ns: lower end of the range
  w upper_ns: its upper end
  w count: packets
trees: A row per congestion tree (this table and the next four are written unless measure.forest is off).
  w tree: number from 1, in order of birth
  n root: a channel
  n root_kind: endpoint if the root leads to a host, else inner
  n kind: silent, windy or moving
  r root_share: fraction of the traffic of its contributors that went through the root
  w born_ns: first sample
  w last_ns: last sample
  w samples: number of samples
  n origin: new, split from the tree `from_tree`, or moved from its root
  w from_tree: 0 for none
  n end: lasts, died, merged into the tree `into_tree`, or moved to its root
  w into_tree: 0 for none
  w peak_branches: most branches at a sample
  w peak_depth: most links from the root to a branch
  w peak_queued_bytes: most bytes that waited in the tree
  w contributors: rows of the table contributors
  w victims: rows of the table victims
tree_links: A row per link of a tree and interval.
  w time_ns: end of the interval
  w tree: the tree; of several, the one with the nearest root
  n link: the channel
  n waits_for: the channel for which it waits; for a root, the link itself
  w depth: links to the root
  w trees: number of trees that contain the link
  w queued_bytes: bytes that wait for the link
  w downstream_bytes: bytes in the buffer at its far end
  w isolated: 1 if only packets in special queues wait, and others pass; else 0
contributors: A row per tree, class and host that feeds it.
  w tree: the tree
  n class: class of traffic
  n host: the host
  w first_ns: first sample
  w last_ns: last sample
  w samples: intervals in which the host fed the tree, or had packets on the way to it at the end
  w throttled_samples: those of them at whose end the host throttled a flow
  r share_of_root: fraction of the payload through the root
victims: A row per tree, class and host that waits for it.
  w tree: the tree
  n class: class of traffic
  n host: the host
  w first_ns: first sample
  w last_ns: last sample
  w samples: samples at which it waited
  w lost_bytes: offered but not sent
  r lost_share: fraction of what it offered in these intervals
wiring: A row per channel.
  n link: the channel
  n from_node: its sender
  n from_kind: host or switch
  n to_node: its receiver
  n to_kind: host or switch
  r rate_gbit_s: the rate
isolation: A row per interval, with special queues. Switches at the end of the interval, counts with hosts.
  w time_ns: end of the interval
  w full_ports: inputs of switches without a free special queue, of which each virtual lane counts
  w special_queues: special queues in use
  w input_lines: CAM lines of inputs in use
  w output_lines: CAM lines of outputs in use
  w allocations: special queues assigned
  w exhausted: number of times that no special queue was free
  w allocate: notifications of that kind
  w stop: notifications of that kind
  w go: notifications of that kind
  w release: notifications of that kind
pauses: A row per virtual lane that was paused at least once, with pause frames or on/off messages.
  n link: the channel
  w vl: the lane
  w pause_frames: frames (or messages) that took effect at the sender
  w resume_frames: frames (or messages) that took effect at the sender
  r paused_ns: sum of all pauses
  r longest_ns: longest pause, including one that lasts at the end of the run
  r first_ns: start of the first pause
retries: A row per channel on which frames were sent, with link-level retry.
  n link: the channel
  w frames: frames sent for the first time, which `packet_hops` counts
  w replayed: frames sent again, which only the `sent_bytes` of links count
  w bad: frames with an error
  w discarded: good frames, but the receiver expected another one
  w acks: acknowledgements
  w nacks: negative acknowledgements
  w lost: acknowledgements of either kind that did not arrive
  w timeouts: replays because the timer expired
trimming: A row per output that trimmed packets.
  n link: the channel
  w trimmed_packets: in the whole run
events: A row per change of a link or host (`[[event]]`).
  n place: both ends of a link, or a host
  r time_ns: time of the change
  n state: up or down, stalls or drains
  r rate_gbit_s: rate from then on
losses: A row per link on which packets were lost, or arrived at a full buffer and were dropped.
  n link: the channel; for dropped packets, the one on which they arrived
  w data_packets: lost
  w control_packets: lost
  w dropped_packets: those of both kinds that arrived at a full buffer
  w bytes: lost, on the link
recoveries: A row per instant at which links change, if what the network permits can be computed.
  r time_ns: time of the change
  r permitted_gbit_s: payload rate that the remaining network permits: max-min fair rates of all flows on
    routes around links that are down
  r recovered_ns: time until the first interval in which hosts receive 95 % of it; NaN if there is none
    before the next change or the end
  r victims: flows and hosts that lose more than 10 % without using a link that changes; NaN if unknown
transfers: A row per message of a flow or pattern, with measure.transfers. Events that did not occur are NaN.
  n class: the pattern, or flows for all named flows
  n from: source
  n to: destination
  w bytes: size
  r start_ns: when it was generated
  r delivered_ns: when its last byte was delivered
  r acked_ns: when its source received the last acknowledgement
  r ideal_ns: duration until delivery on an empty network
  r ideal_acked_ns: duration until the last acknowledgement on an empty network
  r slowdown: duration relative to `ideal_ns`
  r acked_slowdown: duration relative to `ideal_acked_ns`
congestion_log_switches: The latest 15 data packets that each switch marked, with measure.congestion_log.
  n switch: the switch
  r time_ns: time of the mark
  w port: number of the output
  n source: source of the packet
  n destination: destination of the packet
  w sl: service level
congestion_log_hosts: The latest 13 notifications of each host with which an index reached trigger_threshold.
  n host: the host
  r time_ns: time of the notification
  n class: class of the flow
  n destination: destination of the flow
  w sl: service level
ranks: A row per rank of a job.
  n job: the job
  w rank: number
  n host: its host
  r last_finished_ns: end of its last operation
  r crossbar_finished_ns: the same on an ideal crossbar
  r computing_ns: time that its CPUs spent computing
  r busy_ns: time in which a CPU computed or handled a message
  r waiting_ns: other time until its last operation
  r host_sending_ns: time in which its host sent
  r host_blocked_ns: time in which its host had data to send but no credit
  r host_throttled_ns: time in which congestion control held back all data of its host
  w sent_bytes: sent
  w received_bytes: received
messages: A row per message of a job over the network.
  n job: the job
  w from_rank: source
  w to_rank: destination
  w bytes: size
  r handed_ns: when the rank posted it
  r left_ns: when its last byte left the host
  r delivered_ns: when it was delivered
  r alone_ns: duration on an empty network
collectives: A row per collective operation of a job.
  n job: the job
  n operation: such as all-reduce
  n algorithm: such as ring
  w communicator: number of the group of ranks
  w call: number of earlier operations in that group
  w ranks: ranks of the group
  r start_ns: when the first rank started
  r end_ns: when the last rank finished
  r crossbar_ns: duration on an ideal crossbar
"""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    #: ``names``, ``whole numbers`` or ``numbers``.
    kind: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table of a run."""

    name: str
    rows: str
    columns: tuple[Column, ...]


def _read(text: str) -> Mapping[str, Table]:
    joined: list[str] = []
    for line in text.strip().split("\n"):
        # A continued line is indented by two columns more than the line that it continues.
        starts = not line.startswith("  ") or line[2:4] in {f"{mark} " for mark in KINDS}
        if starts:
            joined.append(line)
        else:
            joined[-1] += " " + line.strip()
    tables: dict[str, Table] = {}
    for line in joined:
        head, _, meaning = line.partition(": ")
        if not line.startswith("  "):
            tables[head] = Table(head, meaning, ())
            continue
        table = tables[next(reversed(tables))]
        mark, name = head.split()
        column = Column(name, KINDS[mark], meaning)
        tables[table.name] = Table(table.name, table.rows, (*table.columns, column))
    return tables


TABLES = _read(TEXT)

#: The tables that only some runs write, and which runs do.
CONDITIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("trees", "tree_links", "contributors", "victims", "wiring"), "unless measure.forest = false"
    ),
    "isolation": "with special queues (congestion.isolation)",
    "pauses": 'with flow_control.kind = "pfc" or "on-off"',
    "retries": "with link.retry",
    "trimming": "with switch.trimming",
    "events": "with [[event]]",
    "losses": "with events that lose packets, or flow_control.lossy_lanes",
    "recoveries": "with links that change under traffic whose fair rates can be computed",
    "transfers": "with measure.transfers = true",
    **dict.fromkeys(
        ("congestion_log_switches", "congestion_log_hosts"), "with measure.congestion_log = true"
    ),
    **dict.fromkeys(("ranks", "messages", "collectives"), "with [[job]]"),
}


def overview() -> str:
    """Return a line per table."""
    width = max(map(len, TABLES))
    return "\n".join(f"{one.name:<{width}}  {one.rows}" for one in TABLES.values())


def unknown(name: str) -> str:
    """Return a message about a table that does not exist."""
    near = difflib.get_close_matches(name, TABLES, n=3) or TABLES
    return f"no table `{name}`; there are {', '.join(near)}"


def missing(name: str, there: Collection[str]) -> str:
    """Return a message about a table that a run with the tables `there` does not have."""
    if not there:
        return f"no table `{name}`: this run was kept without its tables; run the scenario again"
    names = f"the tables of this run are {', '.join(there)}"
    if name in CONDITIONS:
        return f"no table `{name}`: a run has it {CONDITIONS[name]}; {names}"
    near = difflib.get_close_matches(name, TABLES, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"no table `{name}`; {hint}{names}"


def describe(name: str, width: int) -> str:
    """Return the description of a table."""
    table = TABLES[name]
    columns = max(len(one.name) for one in table.columns)
    lines = textwrap.wrap(f"{name}: {table.rows}", width)
    for one in table.columns:
        lines += textwrap.wrap(
            one.meaning,
            width,
            initial_indent=f"  {one.name:<{columns}}  ",
            subsequent_indent=" " * (columns + 4),
        )
    return "\n".join(lines)


def markdown() -> str:
    """Return all tables for the page about results."""
    parts = []
    for table in TABLES.values():
        rows = [f"| `{one.name}` | {one.meaning} |" for one in table.columns]
        parts.append(
            "\n".join(
                [f"**`{table.name}`**: {table.rows}", "", "| column | meaning |", "| --- | --- |", *rows]
            )
        )
    return "\n\n".join(parts)
