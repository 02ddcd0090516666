"""A run of traffic that counters suggest, and the comparison of its counters with the measured ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from silvan import _core, hardware
from silvan._core import FabricError, Scenario
from silvan.fabric._paths import Paths, files_or_scenario
from silvan.fabric.inference.measured import Measured
from silvan.fabric.inference.traffic import Traffic
from silvan.results import Result
from silvan.sweeps.measures import BYTES
from silvan.types import Forward

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Packet-hops of a run, which limit its duration, and the shortest and longest duration in ns.
HOPS = 2e6
SHORTEST_NS, LONGEST_NS = 200_000, 20_000_000
#: Packets that a flow must send in a run; slower flows are left out.
FEWEST_PACKETS = 10
#: Number of sampling intervals, of which the first ones are the warm-up.
INTERVALS, WARMUP = 10, 2
#: A link is compared if it used this share of its rate; links count as equal up to this relative difference.
COMPARED, CLOSE = 0.01, 0.05


@dataclass(frozen=True)
class Prepared:
    """The scenario of a run, and what it leaves out."""

    scenario: Scenario
    #: Share of the bytes of pairs that the flows of the scenario send.
    share: float
    flows: int


def prepare(
    paths: Paths,
    tables: str | PathLike[str] | None,
    default_rate: str | None,
    traffic: Traffic,
    measured: Measured,
) -> Prepared:
    """Return a scenario in which each pair sends its bytes at a constant rate.

    Raises `FabricError` if no pair sends fast enough, and `ScenarioError` if the network of the scenario
    cannot run without its traffic.
    """
    assert measured.seconds is not None
    base = _base(paths, tables, default_rate)
    spec = tomllib.loads(base.to_toml())
    mtu, header = (_octets(spec["packet"][key]) for key in ("mtu", "header"))
    own = traffic.system
    gbit_s = traffic.octets * 8 / (measured.seconds * 1e9) * mtu / (mtu + header)
    hops_per_ns = float(np.nansum(measured.octets)) / (measured.seconds * 1e9) / mtu
    duration = int(min(max(HOPS / hops_per_ns, SHORTEST_NS), LONGEST_NS)) // 1000 * 1000
    keeps = np.flatnonzero(gbit_s * duration >= FEWEST_PACKETS * mtu * 8)
    if not len(keeps):
        raise FabricError(
            f"no pair of hosts sends {FEWEST_PACKETS} packets in {duration / 1e6:g} ms, so nothing can be run"
        )
    hosts = own.fabric.hosts
    flows = [
        {
            "name": f"P{number}",
            "from": hosts[own.sources[at]],
            "to": hosts[own.destinations[at]],
            "rate": f"{gbit_s[at]:.6f} Gbit/s",
            "message": f"{mtu} B",
        }
        for number, at in enumerate(keeps.tolist(), 1)
    ]
    step = duration // INTERVALS
    changes: dict[str, Any] = {
        "flow": flows,
        "traffic": [],
        "duration": f"{step * INTERVALS} ns",
        "warmup": f"{step * WARMUP} ns",
        "measure.interval": f"{step} ns",
    }
    if spec.get("job"):
        changes["job"] = []
    share = float(traffic.octets[keeps].sum() / traffic.octets.sum())
    return Prepared(base.with_overrides(changes), share, len(flows))


def _base(paths: Paths, tables: str | PathLike[str] | None, default_rate: str | None) -> Scenario:
    """Return a scenario with the network of the fabric, and any traffic."""
    given = files_or_scenario(paths)
    if len(given) == 1 and given[0].suffix == ".toml":
        return Scenario.load(given[0])
    used = _core.fabric_check(given, tables, default_rate)["used"]
    file = {one["kind"].partition(" (")[0]: Path(one["file"]).resolve() for one in used if one["kind"]}
    topology = {"kind": "file", "file": str(file["wiring"])}
    if default_rate is not None:
        topology["default_rate"] = default_rate
    routing = {"kind": "table", "file": str(file["forwarding tables"]), "allow_deadlock": True}
    text = (
        'name = "counters"\nduration = "1 ms"\n'
        f"[topology]\n{_lines(topology)}[routing]\n{_lines(routing)}"
        '[[traffic]]\nrate = "1 Mbit/s"\npattern = { kind = "uniform" }\n'
    )
    return Scenario.from_toml(text, origin="the scenario of the counters")


def _lines(table: Mapping[str, object]) -> str:
    """Return the keys of a table in TOML, whose strings and booleans are written as in JSON."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())


def _octets(written: str) -> int:
    """Parse a size of a resolved scenario, such as "2 KiB"."""
    number, unit = written.split()
    return round(float(number) * BYTES[{"KB": "kB"}.get(unit, unit)])


def compare(result: Result, own: Prepared, traffic: Traffic, measured: Measured) -> Forward:
    """Return how well the counters of a run match the measured ones, as rates of links."""
    assert measured.seconds is not None
    fabric = traffic.system.fabric
    counters = hardware.counters(result)
    times = counters.times_ns
    number = {name: at for at, name in enumerate(fabric.links)}
    sent = np.full(len(fabric.links), np.nan)
    first, last = counters.at(int(times[WARMUP - 1])), counters.at()
    grown = last.values["xmit_bytes"] - first.values["xmit_bytes"]
    for port, octets in zip(counters.ports, grown.tolist(), strict=True):
        sent[number[port.link]] = octets
    rates = sent * 8 / (last.time_ns - first.time_ns)
    wanted = measured.utilization * fabric.rates
    compared = np.flatnonzero((measured.utilization >= COMPARED) & ~np.isnan(rates))
    off = (rates[compared] - wanted[compared]) / wanted[compared]
    worst = int(np.argmax(np.abs(off))) if len(off) else None
    return {
        "flows": own.flows,
        "sent_share": own.share,
        "links_compared": len(compared),
        "links_close": int((np.abs(off) <= CLOSE).sum()),
        "worst_link": None if worst is None else fabric.links[compared[worst]],
        "worst_deviation": None if worst is None else float(off[worst]),
    }
