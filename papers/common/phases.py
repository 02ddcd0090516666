"""Common code of the experiments on phases of superposed permutations (SYSTOR 2009, sections 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silvan.papers.data import RunData

SCENARIO = "../common/permutations.toml"
#: Packets of 2 KiB per flow.
PACKETS = 128
PACKET = 2048
LINK_GBIT_S = 10.0
#: Overrides without control, with each of the two components, and with both.
SCHEMES: dict[str, dict[str, Any]] = {
    "NC": {},
    "SAA": {"congestion.mechanism": "saa"},
    "AR": {"topology.horizontal_width": 2, "adaptive_routing.heuristic": "flow-count"},
    "SAA+AR": {
        "congestion.mechanism": "saa",
        "topology.horizontal_width": 2,
        "adaptive_routing.heuristic": "flow-count",
    },
}


def buffers(packets: int) -> str:
    """Return the memory of an input port with space for a number of packets on the lane of data."""
    return f"{2 * (packets * PACKET + 2 * 64)} B"


def run(scheme: str, permutations: int, quick: bool, more: Mapping[str, Any] | None = None) -> Any:
    """Return the scenario and the overrides of one run; quick ones have 512 hosts."""
    pattern = {"kind": "permutation"}
    size = {"message": f"{PACKETS * PACKET} B", "packets_per_host": PACKETS, "pattern": pattern}
    traffic = [{"name": f"permutation {n + 1}", **size} for n in range(permutations)]
    small = {"topology.k": 8} if quick else {}
    return SCENARIO, {"traffic": traffic, **SCHEMES[scheme], **small, **(more or {})}


def completion(data: RunData) -> float:
    """Return the completion time of the last flow, relative to that of a single flow on a link."""
    last_ns = max(own["last_delivery_ns"] for own in data.summary["classes"])
    return float(last_ns) / (PACKETS * PACKET * 8 / LINK_GBIT_S)


def busiest(data: RunData) -> float:
    """Return the time that the busiest link needs, in the same unit; no flow has a smaller rate."""
    busiest_ns = data.summary["announced"]["busiest_link_ns"]
    return float(busiest_ns) / (PACKETS * PACKET * 8 / LINK_GBIT_S)
