"""Common code of the Ultra Ethernet experiments: controls, networks, traffic and completion times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from silvan.papers import figures
from silvan.papers.data import RunData

#: Bytes of a full packet, and of an acknowledgement.
PACKET, ANSWER = 4150, 64
#: Congestion control by sources (NSCC), by receivers (RCCC), and by both. If receivers grant credit, outputs
#: to hosts mark no packets.
CONTROLS: dict[str, dict[str, Any]] = {
    "nscc": {"congestion.notification": "ack-each", "congestion.reaction": {"kind": "nscc"}},
    "rccc": {
        "congestion.notification": "ack-grant",
        "congestion.marking.hosts": False,
        "congestion.reaction": {"kind": "rccc", "divide_requests": True},
    },
    "both": {
        "congestion.notification": "ack-grant",
        "congestion.marking.hosts": False,
        "congestion.reaction": {"kind": "rccc", "divide_requests": True, "nscc": {}},
    },
}
#: Bytes that an acknowledgement covers, unless each packet is acknowledged.
UNIT = "16384 B"
#: Links on the longest route of a network of three levels, and of two.
LINKS = {"tree": 6, "leaves": 4}


def control(
    name: str, ratio: int = 1, first: int | None = None, *, is_each: bool = False, **keys: str
) -> dict[str, Any]:
    """Return a control for a network with `ratio` hosts per link to a spine.

    If `ratio` exceeds 1, and RCCC is used alone, the lowest rate of grants is 0.9 of the rate of a link,
    divided by `ratio`. Windows of NSCC begin with `first` packets, if given. With `is_each`, each packet is
    acknowledged. `keys` are further keys of the reaction.
    """
    parts = CONTROLS[name]
    reaction = dict(parts["congestion.reaction"]) | keys
    if ratio > 1 and name == "rccc":
        reaction["oversubscribed"] = {"min_rate_permille": 900 // ratio}
    window = {} if first is None else {"first_window": f"{first * PACKET} B"}
    if name == "nscc":
        reaction |= window
    elif name == "both":
        reaction["nscc"] = window
    units = {} if is_each else {"congestion.acknowledge": {"bytes": UNIT}}
    return parts | {"congestion.reaction": reaction} | units


def links(gbits: int) -> dict[str, str]:
    return {"link_rate": f"{gbits} Gbit/s", "link_delay": "1 us"}


def tree(radix: int) -> dict[str, Any]:
    """Return a network of three levels, with links of 100 Gbit/s."""
    return {"topology": {"kind": "three-level-fat-tree", "radix": radix, **links(100)}}


def leaves(leaves: int, spines: int, hosts: int, gbits: int = 100) -> dict[str, Any]:
    """Return a network of two levels; `hosts` is the number of hosts of a leaf."""
    sizes = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts}
    return {"topology": {"kind": "two-level-fat-tree", **sizes, **links(gbits)}}


def marks(low: int, high: int) -> dict[str, Any]:
    """Return a marking rule that begins at `low` packets in a queue, and marks all at `high` or more."""
    return {"kind": "red", "min": f"{low * PACKET} B", "max": f"{high * PACKET} B", "percent": 100}


def flow(number: int, near: int, far: int, size: str) -> dict[str, Any]:
    """Return a flow of one message between two hosts that are numbered from 0."""
    return {
        "name": f"F{number}",
        "from": f"H{near + 1}",
        "to": f"H{far + 1}",
        "message": size,
        "total": size,
    }


def flows(pairs: Iterable[tuple[Any, ...]], size: str = "2 MB") -> dict[str, Any]:
    """Return one flow for each pair of hosts that are numbered from 0.

    A pair may also have a size and a start; otherwise the flow has `size` and starts at 0.
    """
    found = []
    for number, (near, far, *more) in enumerate(pairs, 1):
        own, start = more or (size, "0 us")
        found.append(flow(number, near, far, own) | {"start": start})
    return {"flow": found}


def permutation() -> dict[str, Any]:
    """Return a random permutation, in which each host sends 2 MB."""
    one = {"name": "permutation", "pattern": {"kind": "permutation"}}
    # A message of 2 MB has 490 packets.
    return {"flow": [], "traffic": [{**one, "message": "2 MB", "packets_per_host": 490}]}


def answered_us(delivered_ns: float, links: int, gbits: int = 100) -> float:
    """Return when the acknowledgement of a delivered packet is back at its source, in us.

    Each link takes 1 us and the transmission time of the acknowledgement, because switches store it. They
    have no other latency.
    """
    return delivered_ns / 1e3 + links * (1 + ANSWER * 8 / gbits / 1e3)


def last_us(run: RunData, case: str, only: str | None = None) -> float:
    """Return when the last acknowledgement of all flows, or of the class `only`, is back, in us.

    The route of this acknowledgement is assumed to be the longest one.
    """
    classes = run.summary["classes"]
    last_ns = max(one["last_delivery_ns"] for one in classes if only in (None, one["class"]))
    return answered_us(last_ns, LINKS["leaves" if case.startswith("leaves") else "tree"])


def plot_cases(
    found: Mapping[str, float], controls: Sequence[str], cases: Collection[str]
) -> tuple[Figure, Axes]:
    """Draw the completion of the last flow in each case, in microseconds, with a color for each control."""
    fig, (ax,) = figures.figure()
    for control, colour in zip(controls, figures.COLOURS, strict=False):
        times = [found[f"{control}_{case}"] for case in cases]
        ax.plot(range(len(cases)), times, "o", color=colour, label=control)
    ax.set(ylabel="completion of the last flow, us", xticks=range(len(cases)))
    ax.set_xticklabels(cases, rotation=60, ha="right", fontsize="small")
    return fig, ax
