"""Common code of the MVCM experiments: multistage networks, a hot phase, and cold flows.

The shares of the paper's traffic pattern and the parameters of Pfister's mechanism are not available; see
:class:`Case` and :func:`pfister`. papers/notes/mvcm.md describes how they were chosen.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from silvan.papers.data import Floats, RunData
from silvan.papers.figures import COLOURS

Overrides = dict[str, Any]
Runs = dict[str, tuple[str, Overrides]]

SCENARIO = "../common/mvcm.toml"

PAYLOAD = 256
HEADER = 22
PACKET = PAYLOAD + HEADER

#: Injection rates of the paper for the 4-ary 5-fly, in bytes of packets per cycle per first-stage
#: switch.
LOW, MEDIUM, HIGH = 0.26, 0.45, 0.62


@dataclass(frozen=True)
class Window:
    """The window that fills the shortest round trip (MVCM, 4.3)."""

    #: Number of switches on the longest route, which is one less than its number of links.
    hops: int = 9
    hop_cycles: float = 3.0
    #: Bytes per cycle of a link.
    bandwidth: float = 1.0
    payload: int = PAYLOAD

    @property
    def round_trip_cycles(self) -> float:
        """Return the time to send a packet and receive its acknowledgement in an idle network, in cycles."""
        data, ack = self.payload + HEADER, HEADER
        return 2 * self.hops * self.hop_cycles + (data + ack) / self.bandwidth

    @property
    def packets(self) -> float:
        """Return how many packets, including a fraction, the source can send during a round trip."""
        return self.round_trip_cycles / ((self.payload + HEADER) / self.bandwidth)


@dataclass(frozen=True)
class Case:
    """A network, and a hot phase in it.

    Hosts select destinations at random, except the hot hosts. These send nothing until a given number of
    packets have been delivered. Then each sends a given number of packets to one host, at the rate of the
    other hosts.
    """

    stages: int = 5
    #: Share of hot senders among all hosts, from 0 to 1. The table with the published share is not available.
    #: This share was fitted to the published peaks of M1.
    share: float = 0.1
    #: Bytes of packets per cycle per first-stage switch if all hosts send.
    load: float = MEDIUM
    start_after: int = 50_000
    packets: int = 1_000
    duration: int = 3_500_000
    interval: int = 10_000
    #: Latencies are averaged over the packets delivered in this number of cycles (not published).
    window: int = 50_000
    #: Number of the random selection of the hot host and its senders.
    draw: int = 0
    #: Hosts of a first-stage switch.
    radix: int = 4
    #: Whether links are one-way and wired as a butterfly. The hosts at both ends of the network are then the
    #: same.
    one_way: bool = False
    #: Smallest and largest payload, in bytes. All sizes between them are equally likely.
    payload: tuple[int, int] = (PAYLOAD, PAYLOAD)
    #: Buffers of switches and hosts, in KiB.
    buffer_kib: int = 1

    @property
    def hosts(self) -> int:
        """Return the number of hosts."""
        return int(self.radix**self.stages if self.one_way else 2 * self.radix ** (self.stages - 1))

    @property
    def hot_hosts(self) -> int:
        """Return the number of hot senders."""
        return round(self.share * self.hosts)

    @property
    def host_rate(self) -> float:
        """Return the offered rate of a host, in bytes of packets per cycle."""
        return self.load / self.radix

    @property
    def mean_payload(self) -> float:
        """Return the mean payload of a packet, in bytes."""
        return sum(self.payload) / 2

    @property
    def injection_cycles(self) -> float:
        """Return the mean time in which a hot host generates its packets, in cycles."""
        return self.packets * (self.mean_payload + HEADER) / self.host_rate

    def _drawn(self) -> list[int]:
        """Return the index of the hot host, and then those of its senders.

        The seed is a text with the numbers of hosts and of senders, and with `draw` unless it is 0.
        """
        again = f", draw {self.draw}" if self.draw else ""
        rng = random.Random(f"{self.hosts} hosts, {self.hot_hosts}{again}")
        return rng.sample(range(self.hosts), self.hot_hosts + 1)

    @property
    def target(self) -> str:
        """Return the name of the hot host."""
        return f"H{self._drawn()[0] + 1}"

    @property
    def senders(self) -> list[str]:
        """Return the names of the hot senders."""
        return [f"H{n + 1}" for n in sorted(self._drawn()[1:])]

    def overrides(self, own: Mapping[str, Any]) -> Overrides:
        """Return the overrides that set this case in the scenario, with a mechanism."""
        hot = self.senders
        # The rate of a scenario is the rate of payload, in whole bit/s.
        share = self.mean_payload / (self.mean_payload + HEADER)
        rate = f"{round(self.host_rate * share * 8e9)} bit/s"
        same = {"rate": rate, "arrivals": "poisson", **self._sizes()}
        traffic = [
            {
                "name": "cold",
                "hosts": [name for name in (f"H{n + 1}" for n in range(self.hosts)) if name not in hot],
                "pattern": {"kind": "uniform"},
                **same,
            },
            {
                "name": "hot",
                "hosts": hot,
                "pattern": {"kind": "hotspots", "to": [self.target]},
                "start_after_packets": self.start_after,
                "packets_per_host": self.packets,
                **same,
            },
        ]
        return {
            "topology.n": self.stages,
            "topology.hosts": self.hosts,
            "duration": f"{self.duration} cycles",
            "measure.interval": f"{self.interval} cycles",
            "traffic": traffic if hot else traffic[:1],
            **self._network(),
            **own,
        }

    def _sizes(self) -> Overrides:
        """Return the limits of the sizes of messages unless all have equal sizes. A message is one packet."""
        least, most = self.payload
        return {} if least == most else {"message": f"{least} B", "message_max": f"{most} B"}

    def _network(self) -> Overrides:
        """Return the overrides for networks, packets and buffers that differ from those of the scenario."""
        own: Overrides = {}
        if self.radix != 4:
            own["topology.k"] = self.radix
        if self.one_way:
            own |= {"topology.links": "unidirectional", "topology.wiring": "butterfly"}
        if self.payload[1] != PAYLOAD:
            own["packet.mtu"] = f"{self.payload[1]} B"
        if self.buffer_kib != 1:
            own |= {f"{node}.buffer": f"{self.buffer_kib} KiB" for node in ("switch", "host")}
        return own

    def run(self, own: Mapping[str, Any]) -> tuple[str, Overrides]:
        """Return a run of this case under a mechanism."""
        return SCENARIO, self.overrides(own)


#: The paper's case, and a shorter one whose hot phase starts sooner.
FULL = Case()
QUICK = Case(start_after=10_000, duration=600_000)


def case(quick: bool, **changes: Any) -> Case:
    """Return the case of full or quick runs, with changes."""
    return replace(QUICK if quick else FULL, **changes)


def pfister(of: Case, increase: int | None = None, timer: int = 1, packets: int = 1) -> Overrides:
    """Return Pfister's mechanism for a case.

    Each mark adds a constant to the index. In the paper, the constant depends on the number of contributing
    sources. Here, it equals this number, but is at most 127, unless ``increase`` is given. With delays of
    whole packets, the first mark then limits each source to its share of the link. Each mark restarts the
    timer (MVCM, 3.2.2).
    """
    return {
        "congestion.mechanism": "pfister",
        "congestion.reaction.ccti_increase": min(127, of.hot_hosts if increase is None else increase),
        "congestion.reaction.ccti_timer": timer,
        "congestion.reaction.timer": "notification",
        "congestion.reaction.table": {"kind": "linear", "packets": packets, "entries": 128},
    }


#: No mechanism, but acknowledgements as with all other mechanisms.
NONE: Overrides = {
    "congestion.mechanism": "mvcm",
    "congestion.marking": {"kind": "none"},
    "congestion.reaction": {"kind": "none"},
}
RENATO: Overrides = {"congestion.mechanism": "renato"}
MVCM: Overrides = {"congestion.mechanism": "mvcm"}


def mechanisms(of: Case) -> dict[str, Overrides]:
    """Return the mechanisms that the paper compares, for a case."""
    return {"none": NONE, "Renato": RENATO, "Pfister": pfister(of), "MVCM": MVCM}


def static_window(packets: int) -> Overrides:
    """Return a window of fixed size without any other mechanism."""
    return {**NONE, "congestion.reaction": {"kind": "static-window", "packets": packets}}


def runs(of: Case, names: Iterable[str] = ("none", "Renato", "Pfister", "MVCM")) -> Runs:
    """Return runs of a case by mechanism."""
    own = mechanisms(of)
    return {name: of.run(own[name]) for name in names}


@dataclass(frozen=True)
class Series:
    """The delivered packets of a class over time, in spans of equal length."""

    end_cycles: Floats
    packets: Floats
    #: Mean latency since generation of the delivered packets, in cycles; NaN if there are none.
    latency: Floats
    marked: Floats
    validated: Floats
    length: int

    @property
    def bytes_per_cycle(self) -> Floats:
        """Return throughput, in bytes of packets per cycle in the whole network."""
        return self.packets * PACKET / self.length

    def between(self, start: float, stop: float) -> Series:
        """Return the spans that lie between two times in cycles."""
        inside = (self.end_cycles - self.length >= start - 1e-6) & (self.end_cycles <= stop + 1e-6)
        return replace(
            self,
            end_cycles=self.end_cycles[inside],
            packets=self.packets[inside],
            latency=self.latency[inside],
            marked=self.marked[inside],
            validated=self.validated[inside],
        )

    def peak(self) -> float:
        """Return the largest mean latency of a span, in cycles; NaN if no packet was delivered."""
        return float(np.nanmax(self.latency)) if np.isfinite(self.latency).any() else float("nan")

    def mean(self) -> float:
        """Return the mean latency of all delivered packets, in cycles; NaN if there are none."""
        total = self.packets.sum()
        return float(np.nansum(self.latency * self.packets) / total) if total else float("nan")


def series(run: RunData, name: str, length: int) -> Series:
    """Return the delivered packets of a class over time, in spans of a number of cycles of 1 ns.

    The length of a span is rounded to a multiple of the sampling interval, and an incomplete last span is
    omitted. `KeyError` is raised if the time series has no such class.
    """
    table = run.tables["classes"]
    own = table["class"] == name
    end = table["time_ns"][own].astype(np.float64)
    if not len(end):
        raise KeyError(f"no class `{name}` in the time series")
    per_span = max(1, round(length / end[0]))
    spans = len(end) // per_span

    def folded(values: Floats) -> Floats:
        return np.add.reduceat(values[: spans * per_span], np.arange(0, spans * per_span, per_span))

    packets = table["delivered_packets"][own].astype(np.float64)
    total = np.nan_to_num(table["mean_since_generation_ns"][own].astype(np.float64)) * packets
    counts = folded(packets)
    with np.errstate(invalid="ignore", divide="ignore"):
        latency = folded(total) / counts
    return Series(
        end_cycles=end[per_span - 1 :: per_span][:spans],
        packets=counts,
        latency=latency,
        marked=folded(table["marked_packets"][own].astype(np.float64)),
        validated=folded(table["validated_packets"][own].astype(np.float64)),
        length=round(per_span * end[0]),
    )


def hot_start(run: RunData) -> float:
    """Return when hot hosts began to send, in cycles; NaN if they never did."""
    for entry in run.summary["triggers"] or ():
        if entry["class"] == "hot" and entry["started_ns"] is not None:
            return float(entry["started_ns"])
    return float("nan")


def phase(run: RunData, of: Case) -> tuple[float, float]:
    """Return the start and end of the hot phase in cycles. The end is at most the end of the run."""
    start = hot_start(run)
    return start, min(start + of.injection_cycles, float(of.duration))


def peak(run: RunData, of: Case) -> float:
    """Return the largest mean latency of the cold flows since the start of the hot phase, in cycles."""
    cold = series(run, "cold", of.window)
    return cold.between(hot_start(run) - of.window, of.duration).peak()


def cold_mean(run: RunData, of: Case) -> float:
    """Return the cold flows' mean latency in the hot phase, in cycles."""
    return series(run, "cold", of.interval).between(*phase(run, of)).mean()


def dip(run: RunData, of: Case) -> float:
    """Return the lowest throughput of the cold flows in the hot phase, divided by the mean before it."""
    cold = series(run, "cold", of.window)
    start, stop = phase(run, of)
    before = series(run, "cold", of.interval).between(of.interval, start).bytes_per_cycle.mean()
    return float(cold.between(start, stop).bytes_per_cycle.min() / before)


def deviation(run: RunData, of: Case) -> float:
    """Return the deviation of the cold flows' throughput in the hot phase, divided by the mean before it."""
    cold = series(run, "cold", of.interval)
    start, stop = phase(run, of)
    before = cold.between(of.interval, start).bytes_per_cycle.mean()
    return float(cold.between(start, stop).bytes_per_cycle.std() / before)


def share(run: RunData, name: str, column: str) -> float:
    """Return the percentage of a class's delivered packets that are ``marked`` or ``validated``.

    `KeyError` is raised if the summary has no such class.
    """
    for entry in run.summary["classes"]:
        if entry["class"] == name:
            return 100.0 * float(entry[f"{column}_packets"]) / max(1, int(entry["delivered_packets"]))
    raise KeyError(f"no class `{name}` in the summary")


def gaps(run: RunData, of: Case) -> float:
    """Return the share of the hot phase in which hot packets fill less than half of the hot host's link."""
    hot = series(run, "hot", of.interval).between(*phase(run, of))
    return float((hot.bytes_per_cycle < 0.5).mean())


def longest_silence(run: RunData, of: Case) -> float:
    """Return the longest time in which a hot host sends nothing during the hot phase, in cycles.

    It is a multiple of the sampling interval.
    """
    table = run.tables["hosts"]
    start, stop = phase(run, of)
    # The beginning is excluded, because hosts generate their first packets at random times.
    inside = (table["time_ns"] > start + of.window) & (table["time_ns"] <= stop)
    longest = 0
    for name in of.senders:
        silent = table["sent_bytes"][inside & (table["host"] == name)] == 0
        edges = np.flatnonzero(np.diff(np.concatenate(([0], silent.astype(np.int8), [0]))))
        longest = max(longest, *(edges[1::2] - edges[::2]), 0)
    return float(longest * of.interval)


def shade(ax: Axes, run: RunData, of: Case) -> None:
    """Shade the hot phase, in which hot hosts generate packets."""
    start, stop = phase(run, of)
    if np.isfinite(start):
        ax.axvspan(start / 1e3, stop / 1e3, color="0.93", zorder=0)


def draw_latency(ax: Axes, results: Mapping[str, RunData], of: Case, title: str, name: str = "cold") -> None:
    """Draw the latency of a class over time, with one curve for each run."""
    for n, (label, run) in enumerate(results.items()):
        own = series(run, name, of.window)
        ax.plot(own.end_cycles / 1e3, own.latency, color=COLOURS[n], linewidth=1.2, label=label)
    shade(ax, next(iter(results.values())), of)
    ax.set(xlabel="time (1000 cycles)", ylabel=f"latency of {name} flows (cycles)", title=title)


def draw_throughput(ax: Axes, results: Mapping[str, RunData], of: Case, title: str) -> None:
    """Draw the cold flows' throughput over time, with one curve for each run."""
    for n, (label, run) in enumerate(results.items()):
        own = series(run, "cold", of.interval)
        ax.plot(own.end_cycles / 1e3, own.bytes_per_cycle, color=COLOURS[n], linewidth=1.0, label=label)
    shade(ax, next(iter(results.values())), of)
    ax.set(xlabel="time (1000 cycles)", ylabel="cold flows (bytes/cycle)", title=title, ylim=(0, None))


def ordered(results: Mapping[str, RunData], names: Sequence[str]) -> dict[str, RunData]:
    """Return the runs in the order of ``names``."""
    return {name: results[name] for name in names}
