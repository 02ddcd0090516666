"""Draws the load of a fabric study: hotspots, an incast to storage hosts, a uniform background."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silvan._core import FabricError

#: Default shares of the hosts that send to hotspots and to storage hosts. The other hosts, except hotspots,
#: form the background.
HOT_SHARE, STORAGE_SHARE = 0.5, 0.1
#: Number of hosts per hotspot, and per storage host.
HOSTS_PER_HOTSPOT, HOSTS_PER_STORAGE = 80, 160
#: Size of one write, and the load that all writes offer to a storage host, as a share of its link.
WRITE, STORAGE_LOAD = "256 KiB", 0.9
#: Default load that a background host offers, as a share of its link.
BACKGROUND = 1.0
FEWEST_HOSTS = 4


@dataclass(frozen=True)
class Shape:
    """The amounts of traffic that the user chooses; raises `FabricError` if they are invalid."""

    #: Number of hotspots; None for one hotspot per :data:`HOSTS_PER_HOTSPOT` hosts.
    hotspots: int | None = None
    #: Names of the hotspots; if empty, the hotspots are drawn at random.
    names: tuple[str, ...] = ()
    #: Share of the hosts that send to hotspots, above 0. Its sum with `storage_share` is at most 0.95.
    hot_share: float = HOT_SHARE
    #: Share of the hosts that write to storage; 0 for no storage.
    storage_share: float = STORAGE_SHARE
    #: Load that background hosts offer, as a share of their links, above 0 and at most 1.
    background: float = BACKGROUND

    def __post_init__(self) -> None:
        for name, value in (("--contributors", self.hot_share), ("--incast", self.storage_share)):
            if not 0 <= value <= 1:
                raise FabricError(f"{name} = {value:g}: must be a share of the hosts, 0 to 1")
        if self.hot_share == 0 or self.hot_share + self.storage_share > 0.95:
            total = f"--contributors {self.hot_share:g} and --incast {self.storage_share:g}"
            raise FabricError(f"{total}: the first must be above 0, and the sum at most 0.95")
        if not 0 < self.background <= 1:
            raise FabricError(
                f"--background = {self.background:g}: must be a share of the link, above 0, at most 1"
            )
        if self.hotspots is not None and self.names:
            raise FabricError("--hotspots and --hotspot: give a number or names")
        if len(set(self.names)) != len(self.names):
            raise FabricError(f"--hotspot: a host is named twice among {', '.join(self.names)}")


@dataclass(frozen=True)
class Group:
    """Hosts with the same traffic pattern."""

    name: str
    hosts: tuple[str, ...]
    #: Destinations; empty if the group sends to all hosts.
    targets: tuple[str, ...] = ()
    #: Offered load per host, as a share of the slowest host link. With 1, hosts send as much as possible.
    share: float = 1.0
    message: str = "64 KiB"

    def table(self, rate_gbit_s: float) -> dict[str, Any]:
        """Return the group as a table ``[[traffic]]`` of a scenario."""
        kind: dict[str, Any] = {"kind": "uniform"}
        if self.targets:
            kind = {"kind": "hotspots", "to": list(self.targets)}
        table: dict[str, Any] = {"name": self.name, "hosts": list(self.hosts), "message": self.message}
        if self.share < 1:
            table |= {"rate": f"{round(self.share * rate_gbit_s * 1e6)} kbit/s", "arrivals": "poisson"}
        return {**table, "pattern": kind}


@dataclass(frozen=True)
class Load:
    """The traffic of a study as groups of hosts, and the rate of the slowest host link (Gbit/s)."""

    hosts: tuple[str, ...]
    hotspots: tuple[str, ...]
    groups: tuple[Group, ...]
    rate_gbit_s: float
    notes: tuple[str, ...] = field(default=())

    def tables(self) -> list[dict[str, Any]]:
        """Return the groups as the list ``traffic`` of a scenario."""
        return [group.table(self.rate_gbit_s) for group in self.groups]

    def demand(self) -> NDArray[np.float64]:
        """Return the load in Gbit/s that each host (row) offers to each host (column)."""
        at = {name: n for n, name in enumerate(self.hosts)}
        demand = np.zeros((len(self.hosts), len(self.hosts)))
        for group in self.groups:
            offered = group.share * self.rate_gbit_s
            for n, host in enumerate(group.hosts):
                if group.targets:
                    demand[at[host], at[group.targets[n % len(group.targets)]]] += offered
                else:
                    demand[at[host]] += offered / (len(self.hosts) - 1)
        np.fill_diagonal(demand, 0.0)
        return demand


def draw(hosts: Sequence[str], rate_gbit_s: float, shape: Shape, seed: int) -> Load:
    """Draw the roles of the hosts. They depend only on the host names, the shape and the seed.

    Raises `FabricError` for an unknown hotspot, or if the fabric is too small for the shape.
    """
    if len(hosts) < FEWEST_HOSTS:
        raise FabricError(f"a study needs {FEWEST_HOSTS} hosts at least, and the fabric has {len(hosts)}")
    unknown = [name for name in shape.names if name not in set(hosts)]
    if unknown:
        raise FabricError(
            f"--hotspot {unknown[0]}: no host of the fabric has that name; hosts are {_few(hosts)}"
        )
    usual = max(1, round(len(hosts) / HOSTS_PER_HOTSPOT))
    number = len(shape.names) or (usual if shape.hotspots is None else shape.hotspots)
    senders = round(shape.hot_share * len(hosts))
    if not 1 <= number <= len(hosts) // 4:
        raise FabricError(f"{number} hotspots: must be 1 to a quarter of the {len(hosts)} hosts")
    if senders < 2 * number:
        raise FabricError(
            f"{senders} contributors for {number} hotspots: two each are needed; raise --contributors"
        )
    generator = random.Random(f"fabric study {seed}")
    hotspots = shape.names or tuple(generator.sample(list(hosts), number))
    others = [host for host in hosts if host not in set(hotspots)]
    generator.shuffle(others)
    senders = min(senders, len(others) - 1)
    groups = [Group("hotspots", tuple(sorted(others[:senders])), hotspots)]
    rest, notes = others[senders:], []
    writers = round(shape.storage_share * len(hosts))
    servers = max(1, round(len(hosts) / HOSTS_PER_STORAGE))
    if writers >= 3 * servers and len(rest) > writers + servers:
        targets, clients = tuple(rest[:servers]), tuple(sorted(rest[servers : servers + writers]))
        share = min(1.0, STORAGE_LOAD * servers / writers)
        groups.append(Group("storage", clients, targets, share, WRITE))
        # Storage hosts receive the incast, but they send background traffic.
        rest = [*rest[:servers], *rest[servers + writers :]]
    elif shape.storage_share:
        notes.append(
            "the fabric is too small for a storage incast in addition to the hotspots: there is none"
        )
    groups.append(Group("background", tuple(sorted(rest)), share=shape.background))
    return Load(tuple(hosts), hotspots, tuple(groups), rate_gbit_s, tuple(notes))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
