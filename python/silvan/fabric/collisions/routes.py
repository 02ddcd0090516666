"""Represents a fabric as arrays of hosts, directed links and forwarding tables."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silvan._core import FabricError, FlowRoutes, Scenario, fabric_check, fabric_ibdmchk, fabric_route
from silvan.fabric._paths import Paths, files_or_scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_END = (
    r"\{ (CA|SW) Ports:\w+ SystemGUID:\w+ NodeGUID:(\w+) PortGUID:\w+ VenID:\w+ DevID:\w+ Rev:\w+ "
    r"\{(.*?)\} LID:(\w+) PN:(\w+) \}"
)
_LINK = re.compile(rf"{_END} {_END} PHY=(\d+)x LOG=\w+ SPD=(\S+)")
#: Data rate of a lane, after line coding, in Gbit/s.
_LANE = {"2.5": 2.0, "5": 4.0, "10": 8.0, "FDR10": 10.0, "14": 13.636}
_ENTRY = re.compile(r"0x([0-9a-f]+)\s*: (\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Shares:
    """Routes of a network in which switches hash or divide flows, with the numbers of a :class:`Fabric`."""

    core: FlowRoutes
    #: For each host of the fabric: its number in `core`.
    host: Ints
    #: For each link in `core`: its number in the fabric.
    link: Ints

    @staticmethod
    def of(core: FlowRoutes, hosts: Sequence[str], links: Sequence[str]) -> Shares:
        """Return the routes for a fabric with these hosts and links."""
        known = {name: number for number, name in enumerate(core.hosts)}
        number = {name: at for at, name in enumerate(links)}
        return Shares(
            core,
            np.array([known[name] for name in hosts], dtype=np.int64),
            np.array([number[name] for name in core.links], dtype=np.int64),
        )

    def ways(self, sources: Ints, destinations: Ints) -> tuple[Ints, Ints, Floats]:
        """Return the links on the routes of flows, as :meth:`Fabric.ways` does."""
        found = self.core.ways(self.host[sources].tolist(), self.host[destinations].tolist())
        of_link = self.link[np.array(found[1], dtype=np.int64)]
        return np.array(found[0], dtype=np.int64), of_link, np.array(found[2], dtype=np.float64)


@dataclass(frozen=True)
class End:
    """The port at which a directed link begins."""

    node: str
    lid: int
    number: int


@dataclass(frozen=True)
class HostPorts:
    """Hosts with several ports; ports have the numbers of the hosts of a :class:`Fabric`."""

    core: FlowRoutes
    names: list[str]
    ports: list[Ints]
    #: For each port in `core`: its number in the fabric.
    number: Ints

    @staticmethod
    def of(core: FlowRoutes, hosts: Sequence[str]) -> HostPorts | None:
        """Return the hosts with several ports of a scenario, None if each host has one port."""
        if core.machines is None:
            return None
        known = {name: number for number, name in enumerate(hosts)}
        number = np.array([known[name] for name in core.hosts], dtype=np.int64)
        ports = [number[np.array(own, dtype=np.int64)] for _, own in core.machines]
        return HostPorts(core, [name for name, _ in core.machines], ports, number)

    def pairs(self, hosts_of: Ints, sources: Ints, destinations: Ints) -> tuple[Ints, Ints]:
        """Return the ports that send and receive messages between ranks; `hosts_of` maps ranks to hosts."""
        found = self.core.port_pairs(hosts_of.tolist(), sources.tolist(), destinations.tolist())
        sends, receives = (self.number[np.array(column, dtype=np.int64)] for column in found)
        return sends, receives

    def rails(self) -> Ints:
        """Return for each port its number within its host, from 1."""
        numbers = np.zeros(len(self.number), dtype=np.int64)
        for own in self.ports:
            numbers[own] = np.arange(1, len(own) + 1)
        return numbers


@dataclass(frozen=True)
class Fabric:
    """The hosts and switches by number, the directed links between them, and the forwarding tables."""

    hosts: list[str]
    switches: list[str]
    #: For each link: its name (`leaf:19->spine:1`) and its rate in Gbit/s.
    links: list[str]
    rates: Floats
    #: For each link: the switch at its end, or -1; and the host at its end, or -1.
    to_switch: Ints
    to_host: Ints
    #: For each host: the link on which it sends.
    first: Ints
    #: For each link: the port that sends on it, and the link in the other direction.
    senders: list[End]
    opposite: Ints
    #: For each switch and destination host: the next link on the route, or -1.
    table: Ints
    #: The routes, if switches hash flows or divide them over shortest paths; None if `table` contains them.
    shares: Shares | None = None
    #: A cycle of channels in which packets can wait for each other; None if there is none.
    deadlock: str | None = None
    #: The hosts with several ports, which are `hosts`; None if each host has one port.
    host_ports: HostPorts | None = None

    @property
    def places(self) -> list[str]:
        """The names of the hosts on which ranks can run."""
        return self.hosts if self.host_ports is None else self.host_ports.names

    @property
    def leaf_of_place(self) -> Ints:
        """For each of these hosts: the switch to which it sends, over its first port."""
        if self.host_ports is None:
            return self.leaves
        return self.leaves[np.array([own[0] for own in self.host_ports.ports], dtype=np.int64)]

    @property
    def leaves(self) -> Ints:
        """For each host: the switch to which it sends; -1 if its link leads to a host."""
        return self.to_switch[self.first]

    @property
    def inner(self) -> NDArray[np.bool_]:
        """For each link: whether it connects two switches."""
        is_first = np.zeros(len(self.links), dtype=bool)
        is_first[self.first] = True
        return (self.to_switch >= 0) & ~is_first

    def ways(self, sources: Ints, destinations: Ints) -> tuple[Ints, Ints, Floats]:
        """Return the links on the routes of flows as columns: number of the flow, number of the link, share.

        The share is that of the flow's packets, from 0 to 1. Raises `FabricError` if a route does not reach
        its host.
        """
        if self.shares is not None:
            return self.shares.ways(sources, destinations)
        flows = np.arange(len(sources))
        links = self.first[sources]
        found = [(flows, links)]
        for _ in range(len(self.switches) + 1):
            going = self.to_switch[links] >= 0
            self._arrived(flows[~going], links[~going], sources, destinations)
            flows, here = flows[going], self.to_switch[links[going]]
            if not len(flows):
                of_flow = np.concatenate([part[0] for part in found])
                return of_flow, np.concatenate([part[1] for part in found]), np.ones(len(of_flow))
            links = self.table[here, destinations[flows]]
            if (links < 0).any():
                at = int(np.flatnonzero(links < 0)[0])
                pair = self._pair(flows[at], sources, destinations)
                raise FabricError(f"no route {pair}: {self.switches[here[at]]} has no entry for it")
            found.append((flows, links))
        raise FabricError(f"no route {self._pair(flows[0], sources, destinations)}: the route has a cycle")

    def _arrived(self, flows: Ints, links: Ints, sources: Ints, destinations: Ints) -> None:
        wrong = np.flatnonzero(self.to_host[links] != destinations[flows])
        if len(wrong):
            pair = self._pair(flows[wrong[0]], sources, destinations)
            raise FabricError(f"no route {pair}: it ends at {self.hosts[self.to_host[links[wrong[0]]]]}")

    def _pair(self, flow: int, sources: Ints, destinations: Ints) -> str:
        return f"from {self.hosts[sources[flow]]} to {self.hosts[destinations[flow]]}"


def read(paths: Paths, tables: str | PathLike[str] | None = None, rate: str | None = None) -> Fabric:
    """Read the files of a fabric, as `silvan fabric check` does, or the network of a scenario (`.toml`).

    Raises `FabricError` or `ScenarioError` if the files are invalid.
    """
    one = files_or_scenario(paths)
    if len(one) == 1 and one[0].suffix == ".toml":
        if tables is not None:
            raise FabricError(f"{one[0]}: a scenario has its own routing; omit --lft")
        scenario = Scenario.load(one[0])
        found = scenario.routes()
        fabric = _of_texts(*fabric_route(one[0], None, rate)[:2])
        ports = HostPorts.of(found, fabric.hosts)
        fabric = replace(fabric, deadlock=scenario.check()["deadlock"], host_ports=ports)
        if found.division is None:
            return fabric
        return replace(fabric, shares=Shares.of(found, fabric.hosts, fabric.links))
    fabric = _of_files(fabric_ibdmchk(one, tables, rate))
    return replace(fabric, deadlock=fabric_check(one, tables, rate)["deadlock"])


class _Nodes:
    """Maps GUIDs of switches, and GUIDs and ports of adapters, to numbers."""

    def __init__(self) -> None:
        self.hosts: dict[str, int] = {}
        self.switches: dict[str, int] = {}
        self.names: dict[str, list[str]] = {"CA": [], "SW": []}
        self.lids: list[int] = []

    def of(self, kind: str, guid: str, name: str, lid: str, port: str) -> tuple[str, int]:
        """Return the kind and the number of the node at an end of a link; a new node gets the next number."""
        known = self.hosts if kind == "CA" else self.switches
        key = f"{guid}/{port}" if kind == "CA" else guid
        if key not in known:
            known[key] = len(known)
            self.names[kind].append(name)
            if kind == "CA":
                self.lids.append(int(lid, 16))
        return kind, known[key]


def wiring_of_scenario(path: Path) -> Fabric:
    """Return the network of a scenario as it is, without a check for deadlocks and without divided flows.

    Raises `FabricError` or `ScenarioError` if a file is invalid.
    """
    return _of_texts(*fabric_route(path, None, None)[:2])


def _of_texts(forwarding: str, wiring: str) -> Fabric:
    """Return the fabric of forwarding tables and of the output of `ibnetdiscover`."""
    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        for name, text in (("fabric.topo", wiring), ("fabric.lft", forwarding)):
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return _of_files(fabric_ibdmchk([folder]))


def _of_files(files: dict[str, str]) -> Fabric:
    """Convert the files for `ibdmchk`: a link list and forwarding tables."""
    nodes = _Nodes()
    links: list[tuple[tuple[str, int], tuple[str, int], str, float]] = []
    ports: dict[tuple[int, int], int] = {}
    senders: list[End] = []
    between: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}
    for match in _LINK.finditer(files["opensm-subnet.lst"]):
        here, there = nodes.of(*match.group(1, 2, 3, 4, 5)), nodes.of(*match.group(6, 7, 8, 9, 10))
        if here[0] == "SW":
            ports[here[1], int(match[5], 16)] = len(links)
        ends = "->".join(
            match[at + 2] if match[at] == "CA" else f"{match[at + 2]}:{int(match[at + 4], 16)}"
            for at in (1, 6)
        )
        sends, receives = ((int(match[at], 16), int(match[at + 1], 16)) for at in (4, 9))
        between[sends, receives] = len(links)
        senders.append(End(match[3], *sends))
        links.append((here, there, ends, float(match[11]) * (_LANE.get(match[12]) or float(match[12]))))
    number = {lid: host for host, lid in enumerate(nodes.lids)}
    table = np.full((len(nodes.switches), len(nodes.hosts)), -1, dtype=np.int64)
    switch = -1
    for line in files["opensm.fdbs"].splitlines():
        if line.startswith("dump_ucast_routes"):
            switch = nodes.switches.get(line.split()[-1].removeprefix("0x"), -1)
        elif (entry := _ENTRY.match(line)) and switch >= 0:
            host = number.get(int(entry[1], 16))
            if host is not None:
                table[switch, host] = ports.get((switch, int(entry[2])), -1)
    first = np.zeros(len(nodes.hosts), dtype=np.int64)
    for at, (here, _, _, _) in enumerate(links):
        if here[0] == "CA":
            first[here[1]] = at

    opposite = np.zeros(len(links), dtype=np.int64)
    for (sends, receives), at in between.items():
        opposite[at] = between[receives, sends]

    def to(kind: str) -> Any:
        return np.array([there[1] if there[0] == kind else -1 for _, there, _, _ in links], dtype=np.int64)

    return Fabric(
        hosts=nodes.names["CA"],
        switches=nodes.names["SW"],
        links=[name for _, _, name, _ in links],
        rates=np.array([rate for *_, rate in links]),
        to_switch=to("SW"),
        to_host=to("CA"),
        first=first,
        senders=senders,
        opposite=opposite,
        table=table,
    )
