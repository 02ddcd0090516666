"""The congestion trees of a run, with their roots, branches, contributors and victims over time.

A tree consists of a root and the links that wait for it. Its *root* is an output that is offered more than it
can send. An endpoint root leads to a host, an inner root to a switch. The *branches* of a tree are links
that lack credit for two packets because the packets behind them go to the root, directly or through other
branches.
With special queues, branches are the outputs that may not send to the root's host. A tree starts when a link
waits for a root, and ends when the root is no longer busy.

*Contributors* send packets through the root. *Victims* send packets through a branch but not through the root
(Paper I, Paper IV). A tree is *silent* if its contributors send only through the root, *windy* if they also
send elsewhere, and *moving* if its contributors came from another root or later moved to one (Paper IV).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan._progress import simulated

if TYPE_CHECKING:
    import networkx
    import pandas
    from numpy.typing import NDArray

    from silvan.results import Result


@dataclass(frozen=True)
class TreeLink:
    """A link that is in a tree at a sample: a row of the table ``tree_links``."""

    link: str
    #: The nearest tree for which the link waits, and the number of trees that contain the link.
    tree: int
    trees: int
    #: The next link towards the root, for which this link waits; for a root, the root itself.
    waits_for: str
    #: Number of links from this one to the root; 0 for the root.
    depth: int
    #: Bytes queued for the link, and bytes for which the sender of the link lacks credit: in flight, in the
    #: buffer at its other end, or returning as credit.
    queued_bytes: int
    downstream_bytes: int
    #: Whether only packets in special queues wait, so that other packets can pass.
    isolated: bool

    @property
    def is_root(self) -> bool:
        """Whether the link is the root of its tree."""
        return self.depth == 0


@dataclass(frozen=True)
class Contributor:
    """A host that sends a class of traffic through a root: a row of the table ``contributors``."""

    tree: int
    #: Name of the class of traffic.
    class_: str
    host: str
    #: First and last time in ns at which the host contributed.
    first_ns: int
    last_ns: int
    #: Number of intervals in which the host contributed, or at whose end its packets were on the way to the
    #: root; and the number of intervals at whose end congestion control throttled one of its flows.
    samples: int
    throttled_samples: int
    #: The host's share of the payload through the root, 0 to 1.
    share_of_root: float


@dataclass(frozen=True)
class Victim:
    """A class of a host that waits because of a tree: a row of the table ``victims``."""

    tree: int
    #: Name of the class of traffic.
    class_: str
    host: str
    #: First and last time in ns at which the host waited.
    first_ns: int
    last_ns: int
    #: Number of samples at which the host waited.
    samples: int
    #: Bytes that the host offered in the intervals with the tree, but could not send because of it.
    lost_bytes: int
    #: `lost_bytes` as a share of the offered bytes, 0 to 1.
    lost_share: float


@dataclass(frozen=True)
class Tree:
    """A congestion tree from its start to its end: a row of the table ``trees``."""

    #: Number of the tree, from 1, in the order in which trees start.
    tree: int
    #: The directed link that is the root.
    root: str
    #: ``endpoint`` (the root leads to a host) or ``inner``.
    root_kind: str
    #: ``silent``, ``windy`` or ``moving``.
    kind: str
    #: Share of the contributors' traffic that went through the root, 0 to 1.
    root_share: float
    #: Start of the first interval with the tree, and end of the last, in ns.
    born_ns: int
    last_ns: int
    #: Number of samples at which the tree existed.
    samples: int
    #: ``new``, ``split`` (the root was a branch of `from_tree`), or ``moved`` (the tree moved here from the
    #: root of `from_tree`).
    origin: str
    #: Number of the tree from which this tree originates; 0 for none.
    from_tree: int
    #: ``lasts`` (until the end of the run), ``died``, ``merged`` (the root became a branch of `into_tree`),
    #: or ``moved`` (the tree moved to the root of `into_tree`).
    end: str
    #: Number of the tree into which this tree merged or moved; 0 for none.
    into_tree: int
    #: Maxima over the samples: number of branches, number of links from a branch to the root, and bytes
    #: queued for all links of the tree. Bytes that wait for several trees are divided among these.
    peak_branches: int
    peak_depth: int
    peak_queued_bytes: int
    contributors: tuple[Contributor, ...]
    victims: tuple[Victim, ...]

    @property
    def lifetime_ns(self) -> int:
        """Lifetime of the tree in nanoseconds."""
        return self.last_ns - self.born_ns


@dataclass(frozen=True)
class Failure:
    """A time during which a link was down."""

    link: str
    first_ns: float
    #: Infinity if the link was down until the end of the run.
    last_ns: float


class Forest:
    """The congestion trees of a run; see :attr:`silvan.Result.forest`."""

    def __init__(self, result: Result) -> None:
        if "trees" not in result.tables:
            raise KeyError(
                "no table `trees`: the run was made with measure.forest = false, or by an older Silvan"
            )
        self._result = result

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """All trees, in the order of their starts."""
        contributors = _by_tree(Contributor, self._rows("contributors"))
        victims = _by_tree(Victim, self._rows("victims"))
        return tuple(
            Tree(
                **{
                    **row,
                    "contributors": tuple(contributors.get(row["tree"], ())),
                    "victims": tuple(victims.get(row["tree"], ())),
                }
            )
            for row in self._rows("trees")
        )

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, tree: int) -> Tree:
        """Return the tree with this number, from 1; raises `KeyError` if there is no such tree."""
        if not 1 <= tree <= len(self.trees):
            raise KeyError(f"no tree {tree}; there are {len(self.trees)}")
        return self.trees[tree - 1]

    @cached_property
    def times_ns(self) -> NDArray[np.uint64]:
        """Ends of all intervals in which a tree existed, in nanoseconds."""
        return np.unique(self._result.numpy("tree_links")["time_ns"])

    def at(self, time_ns: float) -> tuple[TreeLink, ...]:
        """Return the links that are in trees at the end of the interval that contains a time, roots first.

        Raises `ValueError` for a time outside the run.
        """
        end_ns = self._sample(time_ns)
        columns = self._result.numpy("tree_links")
        names = [field.name for field in fields(TreeLink)]
        # A binary search works because the rows are ordered by time.
        first, last = np.searchsorted(columns["time_ns"], [end_ns, end_ns + 1])
        rows = zip(*(columns[name][first:last].tolist() for name in names), strict=True)
        links = (dict(zip(names, row, strict=True)) for row in rows)
        return tuple(TreeLink(**link | {"isolated": link["isolated"] == 1}) for link in links)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The times during which links were down, ordered by their starts, with one entry per direction."""
        if "events" not in self._result.tables:
            return ()
        rows = self._result.numpy("events")
        since: dict[str, float] = {}
        found: list[Failure] = []

        def end(place: str, last_ns: float) -> None:
            first_ns, (one, other) = since.pop(place), place.split(" - ")
            found.extend(Failure(link, first_ns, last_ns) for link in (f"{one}->{other}", f"{other}->{one}"))

        for place, time_ns, state in zip(rows["place"], rows["time_ns"].tolist(), rows["state"], strict=True):
            if state == "down":
                since.setdefault(place, time_ns)
            elif place in since:
                end(place, time_ns)
        for place in list(since):
            end(place, math.inf)
        known = {*self._result.numpy("wiring")["link"]}
        return tuple(
            sorted((one for one in found if one.link in known), key=lambda one: (one.first_ns, one.link))
        )

    def down(self, time_ns: float) -> tuple[str, ...]:
        """Return the links that are down at a time, one name for each direction."""
        return tuple(one.link for one in self.failures if one.first_ns <= time_ns < one.last_ns)

    def graph(self, time_ns: float) -> networkx.DiGraph[str]:
        """Return the wait-for graph at a time, with a directed edge from each branch to its next link.

        The nodes are links with the attributes of :class:`TreeLink`. Raises `ImportError` if `networkx` is
        missing, and `ValueError` for a time outside the run.
        """
        try:
            import networkx
        except ImportError:
            raise ImportError("graphs of a forest need networkx: pip install networkx") from None
        graph: networkx.DiGraph[str] = networkx.DiGraph(time_ns=self._sample(time_ns))
        links = self.at(time_ns)
        for link in links:
            graph.add_node(link.link, **{field.name: getattr(link, field.name) for field in fields(link)})
        graph.add_edges_from((link.link, link.waits_for) for link in links if not link.is_root)
        return graph

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the table ``trees`` as a data frame; raises `ImportError` if pandas is missing."""
        try:
            import pandas
        except ImportError:
            raise ImportError("data frames need pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self._result.numpy("trees")))

    def _sample(self, time_ns: float) -> int:
        ends = self._result.numpy("network")["time_ns"]
        if not 0 <= time_ns <= (ends[-1] if len(ends) else 0):
            end = simulated(float(ends[-1]) if len(ends) else 0.0)
            raise ValueError(f"{simulated(time_ns)} is not a time of the run, which ends at {end}")
        return int(ends[np.searchsorted(ends, time_ns)])

    def _rows(self, table: str) -> list[dict[str, Any]]:
        columns = self._result.numpy(table)
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in values]

    def _repr_html_(self) -> str:
        from silvan import _notebook

        return _notebook.of_forest(self, self._result)

    def __repr__(self) -> str:
        kinds = [tree.kind for tree in self.trees]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        number = f"{len(kinds)} tree{'' if len(kinds) == 1 else 's'}"
        return f"<silvan.Forest: {number}{f' ({counts})' if counts else ''}>"


def _by_tree(kind: Any, rows: list[dict[str, Any]]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row["tree"], []).append(kind(class_=row.pop("class"), **row))
    return found
