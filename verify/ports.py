"""Hosts with several ports: copies of a network as planes, or hosts that are ports of fewer hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from verify.quantities import NotCovered, nothing_left
from verify.trees import Tree
from verify.wiring import Link, Wiring

#: Networks without detours, and without tables from files.
COPIED = (Wiring, Tree)
#: Keys that concern only the messages of jobs.
OF_JOBS = ("use", "arrival", "inner_rate", "inner_latency", "cross", "relay_part", "failover")


@dataclass
class Ported(Wiring):
    """A network of copies of another one, whose nodes have new names in each copy."""

    inner: Wiring = field(kw_only=True)
    #: For each copy, the new name of each node.
    names: list[dict[str, str]] = field(kw_only=True)

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the tables of each copy."""
        inner = self.inner.ways()
        return {
            names[switch]: {names[host]: port for host, port in table.items()}
            for names in self.names
            for switch, table in inner.items()
        }


def ported(net: Wiring, table: Mapping[str, Any] | None) -> Wiring:
    """Give the hosts of a network several ports, as `[ports]` states, if it is present.

    `NotCovered` is raised for keys that the second model does not cover.
    """
    if table is None:
        return net
    given = {key: value for key, value in table.items() if key not in OF_JOBS}
    count, kind = given.pop("count"), given.pop("wiring")
    nothing_left("ports", given)
    if type(net) not in COPIED:
        raise NotCovered("ports: the network has detours, or tables from files")
    return copied(net, named(net, kind, count))


def named(net: Wiring, kind: str, count: int) -> list[dict[str, str]]:
    """Return the new names of the nodes of a network, for each copy."""
    if kind == "planes":
        return [
            {host: f"{host}.{plane}" for host in net.hosts}
            | {switch: f"P{plane}.{switch}" for switch in net.switches}
            for plane in range(1, count + 1)
        ]
    machines = rails(net, count) if kind == "rails" else in_rows(net.hosts, count)
    ports = {
        host: f"H{number}.{port}"
        for number, hosts in enumerate(machines, 1)
        for port, host in enumerate(hosts, 1)
    }
    return [ports | {switch: switch for switch in net.switches}]


def copied(net: Wiring, copies: list[dict[str, str]]) -> Ported:
    """Return copies of a network with new names."""
    return Ported(
        [names[host] for names in copies for host in net.hosts],
        [names[switch] for names in copies for switch in net.switches],
        [renamed(link, names) for names in copies for link in net.links],
        {names[switch]: net.ports[switch] for names in copies for switch in net.switches},
        inner=net,
        names=copies,
    )


def renamed(link: Link, names: Mapping[str, str]) -> Link:
    """Return the link in a copy of the network."""
    (near, near_port), (far, far_port) = link.ends
    return Link(((names[near], near_port), (names[far], far_port)), link.ps_per_byte, link.delay_ps)


def in_rows(hosts: list[str], count: int) -> list[list[str]]:
    """Return groups of consecutive hosts."""
    return [hosts[at : at + count] for at in range(0, len(hosts), count)]


def rails(net: Wiring, count: int) -> list[list[str]]:
    """Return the ports of each host, of which the k-th is at the k-th of consecutive leaf switches."""
    leaves = [list(hosts) for _, hosts in groupby(net.hosts, key=net.home_of)]
    if len(leaves) % count or len({len(hosts) for hosts in leaves}) > 1:
        raise NotCovered("ports: the leaf switches cannot be divided into rails")
    return [
        list(hosts)
        for at in range(0, len(leaves), count)
        for hosts in zip(*leaves[at : at + count], strict=True)
    ]
