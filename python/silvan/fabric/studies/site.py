"""Reads the fabric of a study, and writes the scenario that its runs use."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silvan import _core, _files, results
from silvan._core import FabricError, Scenario
from silvan.fabric import _paths
from silvan.fabric.studies import routes as paths
from silvan.fabric.studies.load import Load
from silvan.sweeps.axes import as_text
from silvan.types import FabricCheck

#: Simulated time of a run with host links of 32 Gbit/s; with other rates, hosts send the same number of
#: bytes. Averages begin after half of it, when an index of congestion control has recovered (127 steps of 150
#: us). Shorter runs would favor settings that throttle hotspots for a long time, and would end before hosts
#: have stored as many messages for a throttled hotspot as they can (1,024), from when on they send less to
#: others, too. On large fabrics, a limit on packet-hops shortens the runs.
DURATION_NS, LINK_GBIT_S = 40_000_000, 32.0
HOPS_AT_MOST = 20e6
MTU_BITS = 2048 * 8
#: Names of the list of links and of the tables in the format of ibdmchk.
LINKS, TABLES = "opensm-subnet.lst", "opensm.fdbs"


@dataclass(frozen=True)
class Site:
    """The files, the hosts and the routes of a fabric."""

    #: The result of the fabric check.
    report: FabricCheck
    wiring: Path
    tables: Path
    routes: paths.Routes
    #: Capacity of each directed link in Gbit/s, in the order of the links in `routes`.
    capacity: NDArray[np.float64]
    #: Rate of the slowest host link, Gbit/s.
    host_gbit_s: float
    default_rate: str | None
    notes: tuple[str, ...]
    #: A cycle on the lane that the runs use for data. None if there is no cycle, or if there are no tables of
    #: lanes.
    one_lane_cycle: str | None = None
    #: Wiring without the aggregation nodes, and tables, if these nodes are omitted; otherwise None.
    texts: tuple[str, str] | None = None


def read_site(
    fabric: Sequence[Path], tables: Path | None, default_rate: str | None, *, whole: bool = False
) -> Site:
    """Read the fabric without writing any files.

    Aggregation nodes (SHARP) are omitted unless `whole` is true. Raises :class:`FabricError` if the files are
    wrong or inconsistent, or if a pair of hosts has no route.
    """
    report = _core.fabric_check(_paths.files(fabric), tables, default_rate)
    if report["pairs_unroutable"]:
        raise FabricError(
            f"{tables or fabric[0]}: {report['pairs_unroutable']:,} pairs have no route: "
            f"{'; '.join(report['problems'][:3])}"
        )
    used = {one["kind"].partition(" (")[0]: Path(one["file"]) for one in report["used"] if one["kind"]}
    wiring, forwarding = used["wiring"], used["forwarding tables"]
    notes = list(report["findings"])
    one_lane = None
    if report["lanes"] is not None:
        notes.append(
            "lanes and service levels of paths are checked for deadlock, but not used in the runs of a study"
        )
        one_lane = _core.fabric_check([wiring, forwarding], None, default_rate)["deadlock"]
    if groups := report["adaptive_groups"]:
        notes.append(
            f"adaptive routing is not simulated: of {groups:,} groups of ports, the runs use the static ports"
        )
    files = _core.fabric_ibdmchk([wiring, forwarding], None, default_rate)
    texts = None
    if (nodes := report["aggregation_nodes"]) and not whole:
        what = (
            "1 aggregation node (SHARP), a unit inside a switch, neither sends nor receives"
            if len(nodes) == 1
            else f"{len(nodes):,} aggregation nodes (SHARP), units inside switches, neither send nor receive"
        )
        notes.append(f"{what}; `--aggregation-nodes` treats them as hosts")
        files = {**files, LINKS: _without(files[LINKS], nodes)}
        texts = (files[LINKS], files[TABLES])
    routes = paths.read(files)
    rates = _rates(wiring, forwarding, default_rate)
    missing = [link for link in routes.links if link not in rates]
    if missing:
        raise FabricError(f"{wiring}: the link {missing[0]} of the tables is not one of the wiring")
    capacity = np.array([rates[link] for link in routes.links])
    slowest = float(capacity[routes.first_link].min())
    return Site(
        report, wiring, forwarding, routes, capacity, slowest, default_rate, tuple(notes), one_lane, texts
    )


def _without(links: str, nodes: Sequence[str]) -> str:
    """Return the lines of a list of links that name none of the nodes."""
    names = [f"{{{name}}}" for name in nodes]
    return "".join(
        line for line in links.splitlines(keepends=True) if not any(name in line for name in names)
    )


def keep(site: Site, folder: Path) -> Site:
    """Copy the files to a folder, so that the scenario can refer to them; return the changed site."""
    folder.mkdir(parents=True, exist_ok=True)
    if site.texts is not None:
        wiring, tables = folder / LINKS, folder / TABLES
        _files.write_text(wiring, site.texts[0])
        _files.write_text(tables, site.texts[1])
        return replace(site, wiring=wiring, tables=tables)
    wiring, tables = _copied(site.wiring, folder / "wiring"), _copied(site.tables, folder / "tables")
    return replace(site, wiring=wiring, tables=tables)


def _copied(source: Path, stem: Path) -> Path:
    """Copy a plain or compressed file; the copy of a compressed file keeps its suffix."""
    with _files.plain(source).open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    target = stem.with_name(stem.name + ".gz") if packed else stem
    with contextlib.suppress(shutil.SameFileError):
        shutil.copyfile(source, target)
    return target


def _rates(wiring: Path, tables: Path, default_rate: str | None) -> dict[str, float]:
    """Return the rate of each directed link in a run in Gbit/s."""
    head = 'duration = "1 ns"\n' + _scenario_text(wiring, tables, default_rate)
    scenario = Scenario.from_toml(head + '[[traffic]]\nrate = "1 Mbit/s"\npattern = { kind = "uniform" }\n')
    columns = results.run(scenario).numpy("wiring")
    return dict(zip(columns["link"].tolist(), columns["rate_gbit_s"].tolist(), strict=True))


def _scenario_text(wiring: Path, tables: Path, default_rate: str | None) -> str:
    rate = f"default_rate = {_quoted(default_rate)}\n" if default_rate else ""
    return (
        f'[topology]\nkind = "file"\nfile = {_quoted(str(wiring))}\n{rate}\n'
        f'[routing]\nkind = "table"\nfile = {_quoted(str(tables))}\n# Deadlock is reported.\n'
        "allow_deadlock = true\n\n"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def scenario_text(site: Site, load: Load, duration_ns: int, seed: int) -> str:
    """Return the scenario of the study, with fabric and load but without congestion control."""
    where = _scenario_text(
        Path("fabric") / site.wiring.name, Path("fabric") / site.tables.name, site.default_rate
    )
    lines = [
        "# Written by `silvan fabric study`: hotspots, a storage incast and a background on the fabric.",
        'name = "site"',
        f"seed = {seed}",
        f'duration = "{duration_ns} ns"',
        f'warmup = "{duration_ns // 2} ns"',
        "",
        where,
        "# Notifications have a separate lane, so that congestion trees do not delay them.",
        "[lanes]\ncount = 2\ncontrol = 1\n",
        f'[measure]\ninterval = "{duration_ns // 100} ns"\n',
    ]
    for table in load.tables():
        lines.append("[[traffic]]")
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()] + [""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return _quoted(value) if isinstance(value, str) else as_text(value)


def duration_ns(site: Site) -> int:
    """Return the simulated time of a run (ns), which depends on the speed and the size of the fabric."""
    hops = site.report["hops"]
    mean = sum(int(length) * pairs for length, pairs in hops.items()) / max(1, sum(hops.values())) + 1
    per_ns = len(site.routes.hosts) * site.host_gbit_s / MTU_BITS * mean
    scale = LINK_GBIT_S / site.host_gbit_s
    return int(max(50_000, round(min(DURATION_NS * scale, HOPS_AT_MOST / per_ns), -3)))
