"""Common code of the experiments on phases of superposed permutations (SYSTOR 2009, sections 5 and 6)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import silvan
from silvan.papers.catalogue import PapersError, find_papers
from silvan.papers.data import Floats, RunData

SCENARIO = "../common/permutations.toml"
#: Packets of 2 KiB per flow.
PACKETS = 128
PACKET = 2048
LINK_GBIT_S = 10.0
#: Time that a flow needs alone on a link, in ns.
FLOW_NS = PACKETS * PACKET * 8 / LINK_GBIT_S
#: A run that measures rates lasts for the time that a source needs to send all its packets, times a margin
#: for waiting, plus the time of the set-up.
MARGIN = 1.1
SET_UP_NS = 40_000
#: Sampling interval: the time of about six packets on a link.
SAMPLE_NS = 10_000
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
    """Return the buffer of an input port with space for some packets and two tear-downs on the data lane."""
    return f"{2 * (packets * PACKET + 2 * 64)} B"


def run(scheme: str, permutations: int, quick: bool, more: Mapping[str, Any] | None = None) -> Any:
    """Return the scenario and the overrides of one run. Quick runs have 512 hosts."""
    pattern = {"kind": "permutation"}
    size = {"message": f"{PACKETS * PACKET} B", "packets_per_host": PACKETS, "pattern": pattern}
    traffic = [{"name": f"permutation {n + 1}", **size} for n in range(permutations)]
    small = {"topology.k": 8} if quick else {}
    return SCENARIO, {"traffic": traffic, **SCHEMES[scheme], **small, **(more or {})}


def drawn(permutations: int, hosts: int, seed: int) -> list[dict[str, str]]:
    """Return the flows of superposed random permutations in which no host sends to itself."""
    draw = random.Random(seed)
    size = f"{PACKETS * PACKET} B"
    flows = []
    for n in range(permutations):
        to = list(range(hosts))
        while any(host == own for own, host in enumerate(to)):
            draw.shuffle(to)
        for own, host in enumerate(to, 1):
            ends = {"from": f"H{own}", "to": f"H{host + 1}"}
            flows.append({"name": f"{n + 1}: H{own}", **ends, "message": size, "total": size})
    return flows


@dataclass(frozen=True)
class Samples:
    """Bytes that the flows of a phase have sent and received so far: a row per sample, a column per flow."""

    time_ns: Floats
    sent: Floats
    received: Floats
    #: The time that the busiest link needs for the phase, in ns.
    busiest_ns: float

    def ratio(self) -> float:
        """Return the smallest measured rate, divided by the smallest calculated rate.

        Rates are measured while all flows send: from the first sample at which each of them has sent, to the
        last one at which none has been received completely. `PapersError` is raised if there are no two such
        samples.
        """
        whole = PACKETS * PACKET
        first = int(np.argmax(self.sent.min(axis=1) > 0))
        last = int(np.sum(self.received.max(axis=1) < whole)) - 1
        if self.sent[first].min() == 0 or last <= first:
            raise PapersError("no two samples at which all flows send")
        least = (self.received[last] - self.received[first]).min()
        measured = least / (self.time_ns[last] - self.time_ns[first])
        return float(measured / (whole / self.busiest_ns))


def rates(
    permutations: int, packets: int, k: int, injection: str, draws: int, repeat: int
) -> dict[str, float]:
    """Return the mean over phases of the ratio of the smallest measured to the smallest calculated rate.

    Args:
        permutations: Flows of each source.
        packets: Space for packets in an input port.
        k: Switches have k ports down, so there are k^3 hosts.
        injection: The value of ``congestion.reaction.injection``.
        draws: Number of phases, each with different flows.
        repeat: Number of the seed, from 0.

    """
    seeds = range(1 + draws * repeat, 1 + draws * (repeat + 1))
    ratios = [samples(permutations, packets, k, injection, seed).ratio() for seed in seeds]
    return {"ratio": float(np.mean(ratios))}


def samples(permutations: int, packets: int, k: int, injection: str, seed: int) -> Samples:
    """Simulate a phase of named flows, until about the time at which the first of them end."""
    flows = drawn(permutations, k**3, seed)
    scenario = silvan.Scenario.load(
        str(find_papers() / "common" / "permutations.toml"),
        {
            **SCHEMES["SAA+AR"],
            "topology.k": k,
            "switch.buffer": buffers(packets),
            "congestion.reaction.injection": injection,
            "seed": seed,
            "traffic": [],
            "flow": flows,
            "duration": f"{SET_UP_NS + MARGIN * permutations * FLOW_NS:.0f} ns",
            "measure.interval": f"{SAMPLE_NS} ns",
            "measure.forest": False,
        },
    )
    result = silvan.run(scenario)
    columns = result.numpy("flows")
    sent, received = (
        np.cumsum(columns[name].reshape(-1, len(flows)), axis=0, dtype=np.float64)
        for name in ("sent_bytes", "received_bytes")
    )
    time_ns = columns["time_ns"][:: len(flows)].astype(np.float64)
    return Samples(time_ns, sent, received, float(result.summary["announced"]["busiest_link_ns"]))


def completion(data: RunData) -> float:
    """Return the completion time of the last flow, relative to that of a single flow on a link."""
    last_ns = max(own["last_delivery_ns"] for own in data.summary["classes"])
    return float(last_ns) / FLOW_NS


def busiest(data: RunData) -> float:
    """Return the time that the busiest link needs, relative to that of a single flow on a link."""
    busiest_ns = data.summary["announced"]["busiest_link_ns"]
    return float(busiest_ns) / FLOW_NS
