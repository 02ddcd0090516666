"""Places the nodes of a network in rows of hosts and switch levels, or with a force-directed layout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: If more than this share of the links between switches connects switches of the same level, a network of 3
#: to :data:`MOST_SPRUNG` switches is not drawn in rows.
LEVEL_SHARE = 0.5
#: Number of steps of the force-directed layout, and maximum number of switches, because a step visits all
#: pairs.
STEPS = 150
MOST_SPRUNG = 2_000
#: Maximum number of rows of hosts below a switch, and the distance between two rows.
MOST_ROWS = 5
ROW = 0.045


@dataclass(frozen=True)
class Wiring:
    """Directed links between nodes. Hosts have the first numbers."""

    names: list[str]
    hosts: int
    link_names: list[str]
    #: Nodes at the start and at the end of each link.
    source: NDArray[np.uint32]
    target: NDArray[np.uint32]


def place(wiring: Wiring) -> NDArray[np.float32]:
    """Return x and y of each node in an image of width 1 and height 1; y increases downwards."""
    level = _levels(wiring)
    between = (wiring.source >= wiring.hosts) & (wiring.target >= wiring.hosts)
    within = between & (level[wiring.source] == level[wiring.target])
    switches = len(wiring.names) - wiring.hosts
    if within.sum() > LEVEL_SHARE * max(between.sum(), 1) and 2 < switches <= MOST_SPRUNG:
        return _sprung(wiring)
    return _rows(wiring, level)


def _is_unit(wiring: Wiring) -> NDArray[np.bool_]:
    """Return whether each node is a reduction unit, which belongs to a switch of any level."""
    hosts = wiring.names[: wiring.hosts]
    units = [name.endswith("/unit") for name in hosts]
    return np.array(units + [False] * (len(wiring.names) - len(hosts)), bool)


def _levels(wiring: Wiring) -> NDArray[np.int64]:
    """Return the number of links between each node and its nearest host, regardless of reduction units."""
    level = np.full(len(wiring.names), -1)
    level[: wiring.hosts] = 0
    from_unit = _is_unit(wiring)[wiring.source]
    for depth in range(len(level)):
        reached = wiring.target[(level[wiring.source] == depth) & ~from_unit]
        new = reached[level[reached] < 0]
        if not len(new):
            break
        level[new] = depth + 1
    # Place nodes without a path to a host at the top.
    level[level < 0] = level.max() + 1
    return level


def _neighbours(wiring: Wiring) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in wiring.names]
    for source, target in zip(wiring.source.tolist(), wiring.target.tolist(), strict=True):
        found[source].append(target)
        found[target].append(source)
    return found


def _rows(wiring: Wiring, level: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return a layout with a row per switch level, and hosts in rows below their switches."""
    neighbours = _neighbours(wiring)
    position = np.zeros((len(wiring.names), 2))
    top = int(level.max())
    for row in range(1, top + 1):
        nodes = np.flatnonzero(level == row)
        below = [
            np.mean([position[one, 0] for one in neighbours[node] if 0 < level[one] < row] or [np.nan])
            for node in nodes
        ]
        # Order a row by the mean position of its neighbors in lower rows; break ties by number.
        order = np.lexsort((nodes, np.nan_to_num(np.round(below, 6), nan=0.0)))
        position[nodes[order], 0] = (np.arange(len(nodes)) + 0.5) / len(nodes)
        position[nodes, 1] = 1 - row / top if top > 1 else 0.25
    _hosts_below(wiring, level, neighbours, position)
    return _fitted(position)


def _hosts_below(
    wiring: Wiring, level: NDArray[np.int64], neighbours: list[list[int]], position: NDArray[np.float64]
) -> None:
    leaves = np.flatnonzero(level == 1)
    width = 0.92 / max(len(leaves), 1)
    of_leaf: dict[int, list[int]] = {}
    is_unit = _is_unit(wiring)
    for host in range(wiring.hosts):
        if is_unit[host]:
            position[host] = position[neighbours[host][0]] + (0.012, -0.03)
            continue
        homes = [node for node in neighbours[host] if level[node] == 1]
        of_leaf.setdefault(homes[0] if homes else -1, []).append(host)
    most = max(map(len, of_leaf.values()), default=1)
    # An image of width 1 has room for 48 hosts with their marks per row, but not for many rows. Make the
    # rows equally long.
    rows = min(MOST_ROWS, math.ceil(most / max(1, int(width * 48))))
    columns = math.ceil(most / rows)
    lowest = max((1 - 1 / max(level.max(), 1)) if level.max() > 1 else 0.25, 0.25)
    for leaf, hosts in of_leaf.items():
        centre = position[leaf, 0] if leaf >= 0 else 0.5
        for place, host in enumerate(hosts):
            across = min(columns, len(hosts))
            x = (place % columns + 0.5) / across - 0.5
            y = lowest + 0.28 + ROW * (place // columns)
            position[host] = (centre + x * width, y)


def _sprung(wiring: Wiring) -> NDArray[np.float32]:
    """Return a force-directed layout of the switches, with hosts around their switches.

    The algorithm follows Fruchterman and Reingold, Graph drawing by force-directed placement, 1991. The
    switches start near a circle.
    """
    count = len(wiring.names) - wiring.hosts
    angle = 2 * np.pi * np.arange(count) / count
    # A perfect circle is an equilibrium, so start from a circle with a fixed perturbation.
    radius = 0.5 + 0.05 * np.sin(np.arange(count) * 2.399963)
    position = np.stack([np.cos(angle) * radius, np.sin(angle) * radius], axis=1)
    both = (wiring.source >= wiring.hosts) & (wiring.target >= wiring.hosts)
    source, target = (ends[both].astype(np.int64) - wiring.hosts for ends in (wiring.source, wiring.target))
    ideal = 1 / np.sqrt(count)
    for step in range(STEPS):
        apart = position[:, None, :] - position[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-6)
        force = (apart * (ideal**2 / distance**2)[:, :, None]).sum(axis=1)
        along = position[source] - position[target]
        pull = along * (np.linalg.norm(along, axis=1) / ideal)[:, None] * 0.5
        np.add.at(force, source, -pull)
        np.add.at(force, target, pull)
        length = np.maximum(np.linalg.norm(force, axis=1), 1e-9)
        most = 0.1 * (1 - step / STEPS) + 1e-3
        position += force / length[:, None] * np.minimum(length, most)[:, None]
    placed = np.concatenate([np.zeros((wiring.hosts, 2)), position])
    _hosts_around(wiring, placed, ideal)
    return _fitted(placed)


def _hosts_around(wiring: Wiring, position: NDArray[np.float64], ideal: float) -> None:
    neighbours = _neighbours(wiring)
    centre = position[wiring.hosts :].mean(axis=0)
    of_switch: dict[int, list[int]] = {}
    for host in range(wiring.hosts):
        of_switch.setdefault(neighbours[host][0] if neighbours[host] else wiring.hosts, []).append(host)
    for switch, hosts in of_switch.items():
        out = position[switch] - centre
        middle = np.arctan2(out[1], out[0])
        for place, host in enumerate(hosts):
            angle = middle + (place - (len(hosts) - 1) / 2) * min(0.5, 2 * np.pi / len(hosts))
            position[host] = position[switch] + 0.4 * ideal * np.array([np.cos(angle), np.sin(angle)])


def _fitted(position: NDArray[np.float64]) -> NDArray[np.float32]:
    if not len(position):
        return position.astype(np.float32)
    least, most = position.min(axis=0), position.max(axis=0)
    span = np.where(most - least > 1e-9, most - least, 1.0)
    fitted = np.where(most - least > 1e-9, (position - least) / span, 0.5)
    return fitted.astype(np.float32)
