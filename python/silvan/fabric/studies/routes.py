"""Follows the forwarding tables of a fabric to find the directed links between each pair of hosts.

The input has the format of :func:`silvan.fabric.ibdmchk`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from silvan._core import FabricError

END = re.compile(
    r"\{ (?P<kind>CA|SW|RTR) Ports:\S+ SystemGUID:\S+ NodeGUID:(?P<guid>[0-9a-fA-F]+) .*?"
    r"\{(?P<name>.*?)\} LID:(?P<lid>[0-9a-fA-F]+) PN:(?P<port>[0-9a-fA-F]+) \}"
)

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Routes:
    """The hosts, the directed links and the forwarding tables of a fabric."""

    hosts: tuple[str, ...]
    #: Directed links, named as in the tables of a run, and whether both ends are switches.
    links: tuple[str, ...]
    inner: NDArray[np.bool_]
    #: For each host: its LID, the link on which it sends, and the switch at the other end of this link.
    lids: Numbers
    first_link: Numbers
    first_switch: Numbers
    #: The first array maps a switch and a LID to a port. The others map a switch and a port to the link, and
    #: to the node at its end (a switch, or -1 - host). A missing port or link is -1.
    port: Numbers
    link_at: Numbers
    behind: Numbers

    def walk(self, sources: Numbers, target: int) -> list[tuple[Numbers, Numbers]]:
        """Return, for each step towards a host, the sources that have not arrived and their next links.

        Sources are indices into the argument. If a table has no entry or link for a source, the source is
        omitted from the following steps. Raises `FabricError` for a cycle.
        """
        going = np.flatnonzero(sources != target)
        steps = [(going, self.first_link[sources[going]])]
        at = self.first_switch[sources[going]]
        # A route without a cycle uses each switch at most once.
        for _ in range(len(self.port) + 1):
            port = self.port[at, self.lids[target]]
            link = np.where(port >= 0, self.link_at[at, np.maximum(port, 0)], -1)
            fine = link >= 0
            going, at, port, link = going[fine], at[fine], port[fine], link[fine]
            if not len(going):
                return steps
            steps.append((going, link))
            behind = self.behind[at, port]
            on = behind >= 0
            going, at = going[on], behind[on]
        raise FabricError(f"the tables have a cycle on the way to {self.hosts[target]}")

    def load(self, demand: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the offered load of each link, in the unit of `demand`.

        `demand` has one row per source and one column per target. Raises `FabricError` for a cycle.
        """
        load = np.zeros(len(self.links))
        for target in np.flatnonzero(demand.any(axis=0)):
            sources = np.flatnonzero(demand[:, target])
            for going, link in self.walk(sources, int(target)):
                np.add.at(load, link, demand[sources[going], target])
        return load

    def pairs_over(self, demand: NDArray[np.float64], link: int) -> list[tuple[str, str, float]]:
        """Return source, target and demand of the pairs of hosts over a link, largest demand first."""
        found = []
        for target in np.flatnonzero(demand.any(axis=0)):
            sources = np.flatnonzero(demand[:, target])
            for going, crossed in self.walk(sources, int(target)):
                for source in sources[going[crossed == link]]:
                    found.append((self.hosts[source], self.hosts[target], float(demand[source, target])))
        return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))


def read(files: Mapping[str, str]) -> Routes:
    """Parse the link list and the tables from :func:`silvan.fabric.ibdmchk`.

    Raises `FabricError` if a line of the link list does not have two ends.
    """
    hosts: dict[str, int] = {}
    host_lids: list[int] = []
    switches: dict[str, int] = {}
    rows: list[tuple[re.Match[str], re.Match[str]]] = []
    for line in files["opensm-subnet.lst"].splitlines():
        ends = list(END.finditer(line))
        if len(ends) != 2:
            raise FabricError(f"a line of the list of links does not have two ends: {line[:80]}")
        for end in ends:
            if end["kind"] == "SW":
                switches.setdefault(end["guid"].lower(), len(switches))
            elif end["name"] not in hosts:
                hosts[end["name"]] = len(hosts)
                host_lids.append(int(end["lid"], 16))
        rows.append((ends[0], ends[1]))
    port, ports = _tables(files["opensm.fdbs"], switches, rows)
    link_at = np.full((len(switches), ports), -1, dtype=np.int64)
    behind = np.full((len(switches), ports), -1, dtype=np.int64)
    first_link = np.full(len(hosts), -1, dtype=np.int64)
    first_switch = np.full(len(hosts), -1, dtype=np.int64)
    links, inner = [], []
    for link, (one, other) in enumerate(rows):
        links.append(f"{_end_name(one)}->{_end_name(other)}")
        inner.append(one["kind"] == "SW" == other["kind"])
        far = switches[other["guid"].lower()] if other["kind"] == "SW" else -1 - hosts[other["name"]]
        if one["kind"] == "SW":
            at = switches[one["guid"].lower()], int(one["port"], 16)
            link_at[at], behind[at] = link, far
        else:
            host = hosts[one["name"]]
            first_link[host], first_switch[host] = link, far
    return Routes(
        hosts=tuple(hosts),
        links=tuple(links),
        inner=np.array(inner, dtype=bool),
        lids=np.array(host_lids, dtype=np.int64),
        first_link=first_link,
        first_switch=first_switch,
        port=port,
        link_at=link_at,
        behind=behind,
    )


def _end_name(end: re.Match[str]) -> str:
    return f"{end['name']}:{int(end['port'], 16)}" if end["kind"] == "SW" else end["name"]


def _tables(
    text: str, switches: Mapping[str, int], rows: Sequence[tuple[re.Match[str], re.Match[str]]]
) -> tuple[Numbers, int]:
    """Return the port for each switch and LID, -1 without one, and the largest port number plus 1."""
    most_lid = max(int(end["lid"], 16) for pair in rows for end in pair)
    most_port = max(int(end["port"], 16) for pair in rows for end in pair)
    port = np.full((len(switches), most_lid + 1), -1, dtype=np.int64)
    here = -1
    for line in text.splitlines():
        if line.startswith("0x") and here >= 0:
            lid, out, *_ = line.split(" : ")
            # The word UNREACHABLE in this column means that there is no entry.
            if out.strip().isdigit() and int(lid, 16) <= most_lid and 0 < int(out) <= most_port:
                port[here, int(lid, 16)] = int(out)
        elif "Switch 0x" in line:
            here = switches.get(line.split("Switch 0x")[1].split()[0].lower(), -1)
    return port, most_port + 1
