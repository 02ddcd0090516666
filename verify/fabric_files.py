"""A fabric in files: output of `ibnetdiscover`, and a dump of tables with one or several LIDs per port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from verify.quantities import NotCovered, nothing_left, time_ps
from verify.wiring import Link, Wiring

NODE = re.compile(r'(Switch|Ca)\s+(\d+)\s+"([^"]+)"\s+# "([^"]+)"(?:.* lid (\d+) lmc (\d))?')
PORT = re.compile(r'\[(\d+)\]\S*\s+"([^"]+)"\[(\d+)\]\S*\s+# (?:lid (\d+) lmc (\d) )?"[^"]+" lid \d+ (\S+)')
TABLE = re.compile(r"Unicast lids .*\('([^']+)'\):")
ENTRY = re.compile(r"0x([0-9a-f]{4}) (\d{3})")
#: Picoseconds per byte at 32 Gbit/s, the data rate of four lanes QDR.
PACES = {"4xQDR": Fraction(250)}


@dataclass
class FileFabric(Wiring):
    """The wiring, and for each switch and host the ports toward the LIDs of the host."""

    routes: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    #: The LIDs of each host, the base LID first.
    lids_of: dict[str, range] = field(default_factory=dict)

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output port of each switch toward the base LID of each host."""
        return {at: {host: ports[0] for host, ports in to.items()} for at, to in self.routes.items()}

    @property
    def lids(self) -> int:
        """Return the largest number of LIDs of a host."""
        return max(len(ports) for to in self.routes.values() for ports in to.values())


def fabric(topology: Mapping[str, Any], routing: Mapping[str, Any] | None) -> FileFabric:
    """Read `[topology]` and `[routing]` of the kinds file and table.

    `NotCovered` is raised if one is of another kind or has other keys.
    """
    given, way = dict(topology), dict(routing or {})
    delay = time_ps(given.pop("link_delay", "20 ns"))
    if (given.pop("kind"), way.pop("kind", "")) != ("file", "table"):
        raise NotCovered("a file without tables, or tables without a file")
    net = _wiring(Path(given.pop("file")).read_text(encoding="utf-8"), delay)
    tables = _tables(Path(way.pop("file")).read_text(encoding="utf-8"))
    way.pop("path_bits", None)
    nothing_left("topology", given)
    nothing_left("routing", way)
    net.routes = {
        switch: {host: tuple(tables[switch][lid] for lid in net.lids_of[host]) for host in net.hosts}
        for switch in net.switches
    }
    return net


def ports_of(file: Path, net: FileFabric) -> dict[str, dict[str, int]]:
    """Return the ports of switches toward the base LIDs of hosts in another dump, which may lack hosts."""
    tables = _tables(file.read_text(encoding="utf-8"))
    lids = {host: lids[0] for host, lids in net.lids_of.items()}
    return {
        switch: {host: table[lid] for host, lid in lids.items() if lid in table}
        for switch, table in tables.items()
    }


def _wiring(text: str, delay: int) -> FileFabric:
    names: dict[str, str] = {}
    ports: dict[str, int] = {}
    rows: list[tuple[str, int, str, int, str]] = []
    lids: dict[str, range] = {}
    here = ""
    for line in text.splitlines():
        if node := NODE.match(line):
            here = node[3]
            names[here] = node[4]
            if node[1] == "Switch":
                ports[node[4]] = int(node[2])
        elif port := PORT.match(line):
            rows.append((here, int(port[1]), port[2], int(port[3]), port[6]))
            if port[4]:
                lids[names[here]] = range(int(port[4]), int(port[4]) + 2 ** int(port[5]))
    net = FileFabric(sorted(lids), sorted(ports), ports=ports, lids_of=lids)
    for near, out, far, into, rate in rows:
        ends = tuple(
            (names[at], port if names[at] in ports else 0) for at, port in ((near, out), (far, into))
        )
        if ends[0] < ends[1]:
            net.links.append(Link((ends[0], ends[1]), PACES[rate], delay))
    return net


def _tables(text: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    table: dict[int, int] = {}
    for line in text.splitlines():
        if head := TABLE.match(line):
            table = found[head[1]] = {}
        elif entry := ENTRY.match(line):
            table[int(entry[1], 16)] = int(entry[2])
    return found
