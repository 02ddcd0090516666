"""Common code of the experiments of Papers V and VI: isolation, throttling, and both.

The papers do not state which hosts are hotspots and which send to them; see :class:`Hotspots`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from silvan.papers import figures
from silvan.papers.data import Floats, RunData
from silvan.papers.figures import COLOURS

Overrides = dict[str, Any]
Runs = dict[str, tuple[str, Overrides]]


def _reaction(divisor: int) -> Overrides:
    """Return the reaction of both papers, with the divisor of its table.

    A notification restarts the timer of its destination (Paper V, III.D). The adapters of Paper VI are like
    those of Paper V (3.2).
    """
    table = {"kind": "quadratic", "divisor": divisor, "scale": 1, "entries": 128}
    return {"congestion.reaction.timer": "notification", "congestion.reaction.table": table}


#: Divisors of the congestion control table. Both papers refer to Paper III, whose table is for links of 16
#: Gbit/s. Paper V has this table unchanged. Paper VI has links of 40 Gbit/s, on which a packet takes 0.4 of
#: the time, so its delays are multiplied by 0.4: 168 is 106 divided by the square root of 0.4. See
#: papers/notes/paper-vi.md.
DIVISOR_V, DIVISOR_VI = 106, 168

MTU = 2048

#: Hosts store generated messages per destination. Their packets wait in a single queue, or in a queue per
#: destination.
_SINGLE: Overrides = {"host.queues": "single"}
_PER_DESTINATION: Overrides = {"host.queues": "per-destination", "switch.queues": "per-destination"}

#: Throttling of Paper V. The timer is a multiple of 1.024 us, and 8 units are nearest to the published 8000
#: ns.
_THROTTLING_V: Overrides = {
    "congestion.marking.percent": 85,
    "congestion.marking.packet_size": 0,
    "congestion.marking.upper": f"{4 * MTU} B",
    "congestion.marking.lower": f"{2 * MTU} B",
    "congestion.reaction.ccti_timer": 8,
    **_reaction(DIVISOR_V),
}

#: Throttling of Paper VI: the values of Paper III, whose Marking_Rate of 1 marks every other packet.
_THROTTLING_VI: Overrides = {
    "congestion.marking.percent": 50,
    "congestion.marking.packet_size": 8,
    "congestion.reaction.ccti_timer": 150,
    **_reaction(DIVISOR_VI),
}

#: A CAM line stores only one destination: that of the packet for which it was allocated (Paper V, III.C,
#: footnote 3).
_ONE_DESTINATION: Overrides = {"congestion.isolation.destinations": 1}

#: The schemes that Paper V compares, as overrides.
PAPER_V: dict[str, Overrides] = {
    "1Q": {"switch.queues": "single", **_SINGLE},
    "ITh": {
        "switch.queues": "per-output",
        **_SINGLE,
        "congestion.mechanism": "ib-cc",
        "congestion.marking.fill": "each",
        **_THROTTLING_V,
    },
    "FBICM": {"congestion.mechanism": "fbicm", **_ONE_DESTINATION},
    "CCFIT": {"congestion.mechanism": "ccfit", **_ONE_DESTINATION, **_THROTTLING_V},
    "VOQnet": {**_PER_DESTINATION, "switch.queue_buffer": "4 KiB"},
}

#: The schemes that Paper VI compares. IB-ITh is EcoCC without isolation, HFDI is EcoCC without throttling.
PAPER_VI: dict[str, Overrides] = {
    "1VL": _SINGLE,
    "IB-ITh": {
        **_SINGLE,
        "congestion.mechanism": "ecocc",
        "congestion.isolation": {"kind": "none"},
        **_THROTTLING_VI,
    },
    "HFDI": {"congestion.mechanism": "hfdi"},
    "EcoCC": {"congestion.mechanism": "ecocc", **_THROTTLING_VI},
    "VOQnet": {**_PER_DESTINATION, "switch.queue_buffer": f"{64 * MTU} B"},
}

#: The schemes on switches with a single read port per input, for the lower half of Paper VI's table 3.
SINGLE_READ_PORT: dict[str, Overrides] = {
    "1VL": {"switch.architecture": "iq", "switch.queues": "per-output", **_SINGLE},
    "IB-ITh": {
        "switch.architecture": "iq",
        "switch.queues": "per-output",
        **_SINGLE,
        "congestion.mechanism": "ib-cc",
        "congestion.marking.fill": "each",
        "congestion.marking.upper": f"{6 * MTU} B",
        "congestion.marking.lower": f"{4 * MTU} B",
        **_THROTTLING_VI,
    },
    "HFDI": {"switch.architecture": "iq", "congestion.mechanism": "fbicm"},
    "CCFIT": {"switch.architecture": "iq", "congestion.mechanism": "ccfit", **_THROTTLING_VI},
    "VOQnet": {"switch.architecture": "iq", **_PER_DESTINATION, "switch.queue_buffer": f"{64 * MTU} B"},
}


@dataclass(frozen=True)
class Network:
    """One of Paper VI's networks: a 4-ary n-tree."""

    number: int
    #: Levels of switches.
    levels: int
    #: Maximum number of destinations in a CAM line.
    destinations: int

    @property
    def hosts(self) -> int:
        """Return the number of hosts."""
        return int(4**self.levels)

    @property
    def switch_inputs(self) -> int:
        """Return the number of switch inputs with a link. Switches at the top have no upward links."""
        return (2 * self.levels - 1) * self.hosts

    def overrides(self, mechanism: Mapping[str, Any]) -> Overrides:
        """Return the overrides that set this network in the scenario."""
        own: Overrides = {"topology.n": self.levels}
        isolating = mechanism.get("congestion.mechanism", "none") in ("hfdi", "ecocc", "fbicm", "ccfit")
        if isolating and "congestion.isolation" not in mechanism:
            own["congestion.isolation.destinations"] = self.destinations
        return own


NETWORKS = {n.number: n for n in (Network(1, 3, 8), Network(2, 4, 16), Network(3, 5, 32))}


@dataclass(frozen=True)
class Hotspots:
    """Hosts that each send to one hotspot for a limited time, while all other hosts send to random hosts."""

    #: Senders to hotspots, in eighths of all hosts.
    eighths: int
    roots: int
    #: Number of the random selection of hotspots and senders.
    draw: int = 0

    #: Start and end of the time in which the hot senders send, in ms.
    SPAN_MS = (1.0, 2.0)

    def _drawn(self, hosts: int) -> list[int]:
        """Return the indices of the hotspots, and then those of their senders.

        The seed is a text with the numbers of hosts and hotspots, and with `draw` unless it is 0.
        """
        count = self.roots + self.eighths * hosts // 8
        name = f"{hosts} hosts, {self.roots} roots" + (f", draw {self.draw}" if self.draw else "")
        return random.Random(name).sample(range(hosts), count)

    def targets(self, hosts: int) -> list[int]:
        """Return the indices of the hotspots."""
        return self._drawn(hosts)[: self.roots]

    def senders(self, hosts: int) -> dict[int, list[int]]:
        """Return the indices of the senders of each hotspot, by the index of the hotspot.

        No sender is a hotspot. The senders are divided among the hotspots as evenly as possible.
        """
        drawn = self._drawn(hosts)[self.roots :]
        return {target: sorted(drawn[n :: self.roots]) for n, target in enumerate(self.targets(hosts))}

    def overrides(self, hosts: int, rate: str) -> Overrides:
        """Return the overrides of the traffic: uniform senders at a rate, and senders to hotspots."""
        senders = self.senders(hosts)
        others = sorted(set(range(hosts)) - {host for own in senders.values() for host in own})
        start, stop = (f"{ms:g} ms" for ms in self.SPAN_MS)
        to_one = [
            {
                "name": f"hot H{target + 1}",
                "hosts": _names(own),
                "start": start,
                "stop": stop,
                "pattern": {"kind": "hotspots", "to": [f"H{target + 1}"]},
            }
            for target, own in senders.items()
        ]
        uniform = {"name": "uniform", "hosts": _names(others), "rate": rate, "pattern": {"kind": "uniform"}}
        return {"traffic": [uniform, *to_one]}


#: Paper VI's patterns.
PATTERNS = {1: Hotspots(1, 1), 2: Hotspots(2, 4), 3: Hotspots(3, 6)}

#: Paper V's case 4: a quarter of the hosts sends to one, four or six hotspots.
CASE_4 = {roots: Hotspots(2, roots) for roots in (1, 4, 6)}


def _names(indices: Iterable[int]) -> list[str]:
    return [f"H{index + 1}" for index in indices]


def case_runs(scenario: str, **more: Any) -> Runs:
    """Return the runs of one of Paper V's cases 1 to 3 with all schemes."""
    return {name: (f"../common/{scenario}", {**own, **more}) for name, own in PAPER_V.items()}


def case_4_runs() -> Runs:
    """Return the runs of Paper V's case 4 by number of hotspots and scheme, such as ``"6 CCFIT"``."""
    return {
        f"{roots} {name}": ("../common/hybrids-config-3.toml", {**own, **pattern.overrides(64, "20 Gbit/s")})
        for roots, pattern in CASE_4.items()
        for name, own in PAPER_V.items()
    }


def paper_vi_run(network: Network, pattern: Hotspots, own: Mapping[str, Any]) -> tuple[str, Overrides]:
    """Return a run of one of Paper VI's networks and patterns."""
    overrides = {**own, **network.overrides(own), **pattern.overrides(network.hosts, "40 Gbit/s")}
    return "../common/hybrids-hotspots.toml", overrides


def paper_vi_runs(
    networks: Iterable[int], patterns: Iterable[int], mechanisms: Mapping[str, Overrides], draw: int = 0
) -> Runs:
    """Return runs of Paper VI by network, pattern and mechanism (``"1 2 EcoCC"``), with a draw of hosts."""
    return {
        f"{n} {p} {name}": paper_vi_run(NETWORKS[n], replace(PATTERNS[p], draw=draw), own)
        for n in networks
        for p in patterns
        for name, own in mechanisms.items()
    }


def networks(quick: bool) -> tuple[int, ...]:
    """Return the numbers of Paper VI's networks to run: only the smallest in quick runs."""
    return (1,) if quick else tuple(NETWORKS)


def total_series(run: RunData) -> tuple[Floats, Floats]:
    """Return the end of each sampling interval in ms, and the throughput in it in Gbit/s."""
    table = run.tables["network"]
    end_ns = table["time_ns"].astype(np.float64)
    length_ns = np.diff(end_ns, prepend=0.0)
    return end_ns * 1e-6, table["received_bytes"] * 8.0 / length_ns


def mean_between(end_ms: Floats, values: Floats, from_ms: float, to_ms: float) -> float:
    """Return the mean of the samples that lie within a span of time, or NaN if there are none.

    All samples must cover intervals of equal length.
    """
    inside = (end_ms > from_ms + 1e-6) & (end_ms <= to_ms + 1e-6)
    return float(values[inside].mean()) if inside.any() else float("nan")


def total(run: RunData, from_ms: float, to_ms: float) -> float:
    """Return the network's mean throughput over a span of time in ms, in Gbit/s."""
    return mean_between(*total_series(run), from_ms, to_ms)


def hot_total(run: RunData) -> float:
    """Return the network's mean throughput while hot senders send, in Gbit/s."""
    return total(run, *Hotspots.SPAN_MS)


def victims(run: RunData, pattern: Hotspots, hosts: int) -> float:
    """Return the total rate that hosts other than hotspots receive while hot senders send, in Gbit/s."""
    table = run.tables["hosts"]
    end_ms = table["time_ns"] * 1e-6
    start, stop = Hotspots.SPAN_MS
    hot = _names(pattern.targets(hosts))
    chosen = (end_ms > start + 1e-6) & (end_ms <= stop + 1e-6) & ~np.isin(table["host"], hot)
    return float(table["received_bytes"][chosen].sum()) * 8e-6 / (stop - start)


def ports_series(run: RunData) -> tuple[Floats, Floats]:
    """Return the end of each sampling interval in ms, and how many inputs have no free special queue then.

    Only inputs of switches count.
    """
    table = run.tables["isolation"]
    return table["time_ns"] * 1e-6, table["full_ports"].astype(np.float64)


def flow_mean(run: RunData, flow: str, from_ms: float, to_ms: float) -> float:
    """Return a flow's mean throughput over a span of time, in Gbit/s."""
    return run.mean_gbit_s(flow, from_ms * 1e-3, to_ms * 1e-3)


def draw_total(ax: Axes, runs: Mapping[str, RunData], full_gbit_s: float, title: str) -> None:
    """Draw the network's throughput over time, divided by ``full_gbit_s``."""
    for n, (name, run) in enumerate(runs.items()):
        end_ms, values = total_series(run)
        ax.plot(end_ms, values / full_gbit_s, color=COLOURS[n], linewidth=1.2, label=name)
    ax.set(xlabel="time (ms)", ylabel="normalized throughput", title=title, ylim=(0, 1))


def draw_flows(ax: Axes, run: RunData, flows: Sequence[str], title: str, most_gbit_s: float) -> None:
    """Draw the throughput of each flow over time, from its first received data."""
    for n, flow in enumerate(flows):
        end_s, rate = run.rate_gbit_s(flow)
        started = np.where(np.cumsum(rate) > 0, rate, np.nan)
        ax.plot(end_s * 1e3, started, color=COLOURS[n], linewidth=1.2, label=flow)
    ax.set(xlabel="time (ms)", ylabel="throughput (Gbit/s)", title=title, ylim=(0, 1.05 * most_gbit_s))


def plot_case(
    results: Mapping[str, RunData], out: Path, number: int, full_gbit_s: float, flows: Sequence[str]
) -> None:
    """Draw one of Paper V's cases 1 to 3: the network's throughput, and each mechanism's flows."""
    # Results are in the order in which runs ended. The figure uses the order of the paper.
    ordered = {name: results[name] for name in PAPER_V}
    fig, axes = figures.figure(columns=3, rows=2, size=(4.8, 3.4))
    draw_total(axes[0], ordered, full_gbit_s, f"Case {number}: the network")
    axes[0].set_ylim(0, None)
    axes[0].legend(frameon=False, fontsize="small", loc="lower right")
    for ax, (name, run) in zip(axes[1:], ordered.items(), strict=True):
        draw_flows(ax, run, flows, name, 20)
    axes[1].legend(frameon=False, fontsize="small", ncols=2)
    figures.save(fig, out, f"H{number}")


@dataclass(frozen=True)
class ControlMemory:
    """The memory that EcoCC's CAM lines need (Paper VI, supplement, section 8), in cells of one bit.

    The CAM part of a line holds the root's output port, the number of hops to it, the line downstream and the
    list of destinations. The SRAM part holds three flags and a timer.
    """

    #: Hosts of the network.
    hosts: int
    #: Number of destinations of a CAM line.
    destinations: int
    #: Lines of an input port, one for each queue.
    lines: int = 9

    OUTPUT_PORT = 6
    HOPS = 6
    NEXT_LINE = 4
    FLAGS = 3
    TIMER = 32

    @property
    def cam_per_line(self) -> int:
        """Return the CAM cells of a line."""
        address = max(1, (self.hosts - 1).bit_length())
        return self.OUTPUT_PORT + self.HOPS + self.NEXT_LINE + self.destinations * address

    @property
    def sram_per_line(self) -> int:
        """Return the SRAM cells of a line."""
        return self.FLAGS + self.TIMER

    @property
    def cam_per_port(self) -> int:
        """Return the CAM cells of an input port."""
        return self.lines * self.cam_per_line

    @property
    def sram_per_port(self) -> int:
        """Return the SRAM cells of an input port."""
        return self.lines * self.sram_per_line

    @property
    def bytes_per_port(self) -> float:
        """Return the memory of an input port's CAM lines in bytes. A CAM cell counts as an SRAM cell."""
        return (self.cam_per_port + self.sram_per_port) / 8
