"""The counters of the ports of a run.

Each port is the sender of one channel and the receiver of the opposite channel. A counter appears only if the
tables of the run determine it. :attr:`Counters.notes` states what is omitted, and why.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arro3.io
import numpy as np
from numpy.typing import NDArray

from silvan import _files, _tables
from silvan._core import SilvanError
from silvan.delays.subjects import MOST_DEPARTURES, Network
from silvan.hardware import units
from silvan.hardware.names import COUNTERS
from silvan.results import ResultError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

if TYPE_CHECKING:
    from arro3.core import Table

    from silvan.results import Result

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Port:
    """A port, and the channel on which it sends."""

    node: str
    number: int
    #: The port at the other end of the cable.
    peer_node: str
    peer_number: int
    rate_gbit_s: float
    is_host: bool
    #: The channel as the tables of the run name it.
    link: str

    @property
    def name(self) -> str:
        """The node and the number, such as `S1:4`."""
        return f"{self.node}:{self.number}"

    @property
    def peer(self) -> str:
        """The name of the port at the other end of the cable."""
        return f"{self.peer_node}:{self.peer_number}"


@dataclass(frozen=True)
class Lane:
    """The pauses of a priority of a port over the whole run."""

    priority: int
    #: Frames that began or ended a pause.
    frames: int
    paused_ns: float


@dataclass(frozen=True)
class Snapshot:
    """The counters of all ports at one time, since the run began."""

    time_ns: int
    ports: list[Port]
    #: For each port: the number of the port at the other end of its cable.
    opposite: Ints
    #: For each counter that is known at this time: the values in the order of the ports.
    values: dict[str, Ints]
    #: Notifications that have reached their sources, in the whole network.
    notifications: int
    #: For each port: its priorities that were paused; None if pauses are unknown at this time.
    lanes: list[list[Lane]] | None
    #: Whether the pauses are those of pause frames, and not of on/off messages.
    is_pfc: bool
    #: Number of virtual lanes or priorities of a link.
    lane_count: int


class Counters:
    """The counters of the ports of a run, from :func:`silvan.counters`."""

    #: The run.
    run: Result
    #: The ports, in the order of the channels of the run.
    ports: list[Port]
    #: Ends of the intervals, in ns.
    times_ns: Ints
    #: What the counters lack or count in another way than hardware does, as a list of sentences.
    notes: list[str]

    def __init__(self, run: Result, tick_bytes: int = units.TICK_BYTES, *, second_run: bool = False) -> None:
        if tick_bytes < 1:
            raise SilvanError(f"tick_bytes = {tick_bytes}: must be 1 or more; present devices have 8")
        if "links" not in run.tables or not run.table("links").num_rows:
            raise SilvanError(
                f"{run.name}: has no time series of links, from which counters follow; "
                "run the scenario with measure.links = true"
            )
        self.run = run
        self._tick_bytes = tick_bytes
        self.ports = _ports(run)
        self._rates = np.array([port.rate_gbit_s for port in self.ports])
        self._number = {port.link: at for at, port in enumerate(self.ports)}
        number = {port.name: at for at, port in enumerate(self.ports)}
        self._opposite = np.array([number[port.peer] for port in self.ports], dtype=np.int64)
        spec = tomllib.loads(run.scenario_toml)
        self._is_pfc, self._lane_count = spec["flow_control"]["kind"] == "pfc", int(spec["lanes"]["count"])
        self._has_second_run = second_run
        self.times_ns, self._series = self._read()
        self.notes = self._notes()

    def at(self, time_ns: int | None = None) -> Snapshot:
        """Return the counters at the last sample at or before a time; by default, at the end of the run.

        Some counters are known only at the end. All are 0 at time 0. Raises :class:`SilvanError` for a time
        before the run or after it.
        """
        end = int(self.times_ns[-1])
        time = end if time_ns is None else time_ns
        if not 0 <= time <= end:
            raise SilvanError(f"{time / 1e9:g} s: the run covers the time from 0 s to {end / 1e9:g} s")
        samples = int(np.searchsorted(self.times_ns, time, side="right"))
        when = int(self.times_ns[samples - 1]) if samples else 0
        zero = np.zeros(len(self.ports), dtype=np.int64)
        values = {name: rows[samples - 1] if samples else zero for name, rows in self._series.items()}
        values["link_downed"] = self._downed(when)
        lanes = self._lanes() if when in (0, end) else None
        if when == end:
            values |= self._totals()
        elif not samples:
            values |= dict.fromkeys(self._totals(), zero)
            lanes = lanes and [[Lane(one.priority, 0, 0.0) for one in own] for own in lanes]
        network = self.run.numpy("network")
        received = int(network["becn_received"][network["time_ns"] <= when].sum())
        return Snapshot(
            when, self.ports, self._opposite, values, received, lanes, self._is_pfc, self._lane_count
        )

    def table(self, time_ns: int | None = None) -> Table:
        """Return the counters as an Arrow table with a row per port and sample.

        With a time in ns, the table has the rows of :meth:`at`, and also the counters that are known only at
        the end of the run. Raises the errors of :meth:`at`.
        """
        if time_ns is None:
            times, values = self.times_ns, self._series
        else:
            shot = self.at(time_ns)
            times = np.array([shot.time_ns])
            values = {name: rows[np.newaxis] for name, rows in shot.values.items()}
        count, repeats = len(self.ports), len(times)
        columns: dict[str, _tables.Column] = {
            "time_ns": np.repeat(times, count).astype(np.uint64),
            "node": _coded([port.node for port in self.ports], repeats),
            "port": np.tile(np.array([port.number for port in self.ports], dtype=np.uint32), repeats),
            "peer": _coded([port.peer for port in self.ports], repeats),
            "rate_gbit_s": np.tile(self._rates, repeats),
        }
        known = [one.column for one in COUNTERS if one.column in values]
        columns |= {name: values[name].ravel().astype(np.uint64) for name in known}
        return _tables.to_arrow(columns)

    def csv(self, time_ns: int | None = None) -> bytes:
        """Return :meth:`table` as UTF-8 CSV, with the column names in the first line."""
        content = io.BytesIO()
        arro3.io.write_csv(_tables.plain(self.table(time_ns)), content, header=True)
        return content.getvalue()

    def save_parquet(self, path: str | PathLike[str], time_ns: int | None = None) -> None:
        """Write :meth:`table` as a Parquet file; raises :class:`ResultError` if that is impossible."""
        table = self.table(time_ns)
        try:
            with _files.replacing(Path(path)) as partial:
                arro3.io.write_parquet(table, partial)
        except OSError as error:
            raise ResultError(f"{_files.place(error) or path}: {error.strerror or error}") from error

    def perfquery(self, time_ns: int | None = None) -> str:
        """Return the InfiniBand counters of each port as text of ``perfquery -x``; see :meth:`at`."""
        from silvan.hardware import texts

        return texts.perfquery(self.at(time_ns), texts.addresses(self.run))

    def sonic(self, time_ns: int | None = None) -> str:
        """Return the counters of the ports of switches as a counter database of SONiC; see :meth:`at`."""
        from silvan.hardware import texts

        return texts.sonic(self.at(time_ns))

    def prometheus(self, time_ns: int | None = None) -> str:
        """Return the counters in the text format of Prometheus; see :meth:`at`."""
        from silvan.hardware import texts

        return texts.prometheus(self.at(time_ns))

    def _read(self) -> tuple[Ints, dict[str, Ints]]:
        """Return the times of the samples, and for each counter of every sample a row per time."""
        coded = self.run.coded("links")["link"]
        assert isinstance(coded, tuple)
        (codes, names), links = coded, self.run.numpy("links")
        order = np.lexsort((codes, links["time_ns"]))
        count = len(names)
        times = np.asarray(links["time_ns"], dtype=np.int64)[order][::count]
        if len(codes) != count * len(times) or names != [port.link for port in self.ports]:
            raise SilvanError(
                f"{self.run.name}: the tables `links` and `wiring` differ; run the scenario again"
            )

        def summed(column: str) -> NDArray[Any]:
            kind = np.float64 if links[column].dtype.kind == "f" else np.int64
            rows: NDArray[Any] = np.asarray(links[column], dtype=kind)[order].reshape(len(times), count)
            return rows.cumsum(axis=0)

        sent = summed("sent_bytes")
        far = self._opposite
        more: dict[str, Ints] = {}
        if self._has_second_run:
            sent, more = self._recorded(times)
        series = {"xmit_words": units.words(sent), "rcv_words": units.words(sent[:, far])}
        series |= {"xmit_bytes": sent, "rcv_bytes": sent[:, far], "marked_packets": summed("fecn_marks")}
        series |= more
        queued = np.asarray(links["queued_bytes"], dtype=np.int64)[order].reshape(len(times), count)
        series["queued_bytes_maximum"] = np.maximum.accumulate(queued, axis=0)
        return times, series

    def _recorded(self, times: Ints) -> tuple[Ints, dict[str, Ints]]:
        """Run the scenario again, and return the bytes of packets and the counters that this run adds."""
        advice = "count a run with a shorter duration, or without --second-run"
        network = Network(self.run, 0, int(times[-1]) * 1000, most=MOST_DEPARTURES, advice=advice)
        number = {name: at for at, name in enumerate(network.channels)}
        order = [number[port.link] for port in self.ports]
        columns = {
            name: np.asarray(view).astype(np.int64).reshape(len(times), -1)[:, order].cumsum(axis=0)
            for name, view in network.delays.activity([int(time) * 1000 for time in times]).items()
        }
        packets, notifications = columns["packets"], columns["notifications"]
        far = self._opposite
        # Switches forward notifications, but do not count them.
        is_adapter = np.array([port.is_host for port in self.ports])
        more = {
            "xmit_packets": packets,
            "rcv_packets": packets[:, far],
            "xmit_wait_ticks": units.ticks(columns["waiting"] / 1000, self._rates, self._tick_bytes),
            "cnps_sent": notifications * is_adapter,
            "cnps_received": notifications[:, far] * is_adapter,
        }
        return columns["bytes"], more

    def _downed(self, when: int) -> Ints:
        """Return how often the link of each port has gone down until a time."""
        found = dict.fromkeys((port.name for port in self.ports), 0)
        if "events" in self.run.tables:
            place_of = {_place(port.link): port for port in self.ports}
            is_up: dict[str, bool] = {}
            table = self.run.numpy("events")
            for place, time, state in zip(table["place"], table["time_ns"], table["state"], strict=True):
                if place not in place_of or time > when:
                    continue
                if state == "down" and is_up.get(place, True):
                    port = place_of[place]
                    found[port.name] += 1
                    found[port.peer] += 1
                is_up[place] = state != "down"
        return np.array(list(found.values()), dtype=np.int64)

    def _whole(self, table: str, *columns: str) -> Ints:
        """Return the sum of columns of a table about the whole run, for each port."""
        own = self.run.numpy(table)
        rows = np.zeros(len(self.ports), dtype=np.int64)
        at = [self._number[link] for link in own["link"]]
        for column in columns:
            np.add.at(rows, at, own[column].astype(np.int64))
        return rows

    def _totals(self) -> dict[str, Ints]:
        """Return the counters that are known only for the whole run."""
        tables, far = self.run.tables, self._opposite
        zero = np.zeros(len(self.ports), dtype=np.int64)
        values = {"xmit_discards": zero, "rcv_discards": zero, "lost_packets": zero}
        if "losses" in tables:
            dropped = self._whole("losses", "dropped_packets")
            values["rcv_discards"] = dropped[far]
            values["lost_packets"] = self._whole("losses", "data_packets", "control_packets") - dropped
            if values["lost_packets"].any():
                del values["xmit_discards"]
        if "trimming" in tables:
            values["trimmed_packets"] = self._whole("trimming", "trimmed_packets")
        if "retries" in tables:
            packets = self._whole("retries", "frames", "replayed")
            values |= {"xmit_packets": packets, "rcv_packets": packets[far]}
        if (lanes := self._lanes()) is not None:
            if self._is_pfc:
                frames = self._whole("pauses", "pause_frames", "resume_frames")
                values |= {"pause_frames_received": frames, "pause_frames_sent": frames[far]}
            paused = np.array([sum(lane.paused_ns for lane in own) for own in lanes])
            values["paused_us"] = np.floor(paused / 1000).astype(np.int64)
            values["paused_quanta"] = units.quanta(paused, self._rates)
        return values

    def _lanes(self) -> list[list[Lane]] | None:
        """Return the priorities of each port that were paused; None if the run does not record pauses."""
        if "pauses" not in self.run.tables:
            return None
        lanes: list[list[Lane]] = [[] for _ in self.ports]
        own = self.run.numpy("pauses")
        columns = ("link", "vl", "pause_frames", "resume_frames", "paused_ns")
        for link, lane, began, ended, paused in zip(*(own[name] for name in columns), strict=True):
            lanes[self._number[link]].append(Lane(int(lane), int(began) + int(ended), float(paused)))
        return lanes

    def _notes(self) -> list[str]:
        tables = self.run.tables
        notes = [
            "received data and packets are counted when they leave the port at the other end of the cable",
            "queued_bytes_maximum is the maximum of the samples since the run began; a watermark of hardware "
            "can be larger",
        ]
        if self._has_second_run:
            notes.append(
                "PortXmitWait lacks the waits of packets that had not left their buffer at the end of the run"
            )
        else:
            if self._is_pfc and self.run.table("pauses").num_rows:
                notes.append("data contain pause frames, which are not packets")
            missing = ["PortXmitWait"]
            if "retries" not in tables:
                missing.append("numbers of packets")
            if self.run.summary.get("becn_received"):
                missing.append("notifications (CNPs) of each adapter")
            notes.append(f"{', '.join(missing)}: only known with a second run (--second-run)")
        if "losses" in tables and self._totals()["lost_packets"].any():
            notes.append(
                "PortXmitDiscards is omitted: the run does not distinguish packets that a port discards, "
                "because its link is down, from packets that are lost on the link; transmitted data contain "
                "both"
            )
        partial = [name for name in ("losses", "pauses", "retries", "trimming") if name in tables]
        if partial:
            notes.append(
                f"counters from the tables {', '.join(partial)} are known only at the end of the run"
            )
        return notes


def _coded(values: list[str], repeats: int) -> tuple[NDArray[np.uint32], list[str]]:
    """Return names as codes and a list of names, repeated."""
    number = {name: at for at, name in enumerate(dict.fromkeys(values))}
    return np.tile(np.array([number[name] for name in values], dtype=np.uint32), repeats), list(number)


def _place(link: str) -> str:
    """Return the name of a cable in the table `events`, for the channel that leaves its first end."""
    return link.replace("->", " - ", 1)


def _ports(run: Result) -> list[Port]:
    """Return the sending ports of all channels."""
    wiring = run.numpy("wiring") if "wiring" in run.tables else None
    if wiring is None:
        raise SilvanError(f"{run.name}: has no table `wiring`; run the scenario with measure.forest = true")
    ports = []
    rows = zip(
        *(wiring[name] for name in ("link", "from_node", "from_kind", "to_node", "rate_gbit_s")), strict=True
    )
    for link, node, kind, peer, rate in rows:
        ends = re.fullmatch(rf"{re.escape(node)}(?::(\d+))?->{re.escape(peer)}(?::(\d+))?", link)
        if ends is None:
            raise SilvanError(f"{run.name}: the channel `{link}` does not lead from {node} to {peer}")
        # A host has one port, which names of channels omit.
        here, there = (int(number or 1) for number in ends.groups())
        ports.append(Port(node, here, peer, there, float(rate), kind == "host", link))
    return ports
