"""Max-min fair shares by water-filling: the reference for the throughput of round robin.

The rates of all flows increase together. The rate of a flow stops increasing when a link on its route is
full.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping


def max_min(
    paths: Mapping[str, Iterable[Hashable]],
    capacity: Mapping[Hashable, float],
) -> dict[str, float]:
    """Return the max-min fair rate of each flow.

    `ValueError` is raised if a flow crosses no link.

    Args:
        paths: For each flow the links it crosses; each must have a capacity.
        capacity: What each link carries, in any unit.

    Returns:
        The rate of each flow, in the unit of the capacities.

    """
    ways = {flow: frozenset(links) for flow, links in paths.items()}
    for flow, links in ways.items():
        if not links:
            raise ValueError(f"flow {flow} crosses no link: its rate has no bound")
    left = dict(capacity)
    rate: dict[str, float] = {}
    while len(rate) < len(ways):
        rising = [flow for flow in ways if flow not in rate]
        # The remaining capacity of each link, divided by the number of its flows whose rates still increase.
        share = {
            link: left[link] / count
            for link in {link for flow in rising for link in ways[flow]}
            if (count := sum(link in ways[flow] for flow in rising))
        }
        level = min(share.values())
        full = {link for link, each in share.items() if each <= level * (1 + 1e-12)}
        for flow in rising:
            if ways[flow] & full:
                rate[flow] = level
                for link in ways[flow]:
                    left[link] -= level
    return rate
