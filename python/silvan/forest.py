"""The congestion trees of a run: where their roots were, how they grew, who fed them, who suffered.

A tree is a root and the links that wait for it. Its *root* is an output with more waiting than it can send:
one that faces a host (an endpoint root), or an inner one. Its *branches* are the links, of switches and
hosts, that lack credit for two packets because what waits behind them is for the root, at once or in the
end; where special queues are stopped, the outputs that may not send to the root's host. A tree is born when
something waits for a root, and lives as long as the root is busy.

*Contributors* send through the root; *victims* only past a branch of it (Paper I, Paper IV). A tree is
*silent* if its contributors send nowhere else, *windy* if they do, *moving* if its contributors came from
another root, or went on to one (Paper IV).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import networkx
    import pandas
    from numpy.typing import NDArray

    from silvan.results import Result


@dataclass(frozen=True)
class TreeLink:
    """A link in a tree at a moment: a row of the table ``tree_links``."""

    link: str
    #: The nearest tree that it waits for, and in how many trees it is.
    tree: int
    trees: int
    #: The link that it waits for, one nearer to the root; of a root, itself.
    waits_for: str
    #: Links from it to the root.
    depth: int
    #: Bytes that wait for it, and bytes in the buffer behind it.
    queued_bytes: int
    downstream_bytes: int

    @property
    def is_root(self) -> bool:
        """Whether it is the root of its tree."""
        return self.depth == 0


@dataclass(frozen=True)
class Contributor:
    """A host that feeds a tree with a class of traffic: a row of the table ``contributors``."""

    tree: int
    #: Flow or traffic pattern.
    class_: str
    host: str
    #: When it was seen feeding the tree first and last, in nanoseconds.
    first_ns: int
    last_ns: int
    #: Intervals in which it fed the tree or had packets on the way to the root at the end, and those of them
    #: at whose ends the host held a flow of its back.
    samples: int
    throttled_samples: int
    #: Its share of the payload through the root, 0 to 1.
    share_of_root: float


@dataclass(frozen=True)
class Victim:
    """A host that a tree holds back with a class of traffic: a row of the table ``victims``."""

    tree: int
    #: Flow or traffic pattern.
    class_: str
    host: str
    #: When it was seen waiting first and last, in nanoseconds.
    first_ns: int
    last_ns: int
    #: Samples at which it waited.
    samples: int
    #: Bytes that it offered and could not send in these intervals, as far as this tree's part goes.
    lost_bytes: int
    #: The same as a share of what it offered, 0 to 1.
    lost_share: float


@dataclass(frozen=True)
class Tree:
    """A congestion tree, from its birth to its end: a row of the table ``trees``."""

    #: Trees count from 1, in the order of their births.
    tree: int
    #: The directed link at the root.
    root: str
    #: ``endpoint`` (the root faces a host) or ``inner``.
    root_kind: str
    #: ``silent``, ``windy`` or ``moving``.
    kind: str
    #: The share of what its contributors sent that went through the root, 0 to 1.
    root_share: float
    #: Beginning of the first interval and end of the last one at whose ends it was there.
    born_ns: int
    last_ns: int
    #: Samples at which it was there.
    samples: int
    #: ``new``, ``split`` (the root was a branch of `from_tree`), or ``moved`` (from the root of `from_tree`).
    origin: str
    #: 0 for none.
    from_tree: int
    #: ``lasts`` (to the end of the run), ``died``, ``merged`` (the root became a branch of `into_tree`), or
    #: ``moved`` (to the root of `into_tree`).
    end: str
    #: 0 for none.
    into_tree: int
    #: The most at any sample: links besides the root, links from one to the root, and bytes waiting for
    #: any of them (what waits for several trees is divided among them).
    peak_branches: int
    peak_depth: int
    peak_queued_bytes: int
    contributors: tuple[Contributor, ...]
    victims: tuple[Victim, ...]

    @property
    def lifetime_ns(self) -> int:
        """From birth to end, in nanoseconds."""
        return self.last_ns - self.born_ns


class Forest:
    """The congestion trees of a run, as :attr:`silvan.Result.forest` gives them."""

    def __init__(self, result: Result) -> None:
        if "trees" not in result.tables:
            raise KeyError(
                "no table `trees`: the run was made with measure.forest = false, or by an older Silvan"
            )
        self._result = result

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """All trees, in the order of their births."""
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
        """Return a tree by its number, from 1 on; raises `KeyError`."""
        if not 1 <= tree <= len(self.trees):
            raise KeyError(f"no tree {tree}; there are {len(self.trees)}")
        return self.trees[tree - 1]

    @cached_property
    def times_ns(self) -> NDArray[np.uint64]:
        """Ends of all intervals at which there was a tree, in nanoseconds."""
        return np.unique(self._result.numpy("tree_links")["time_ns"])

    def at(self, time_ns: float) -> tuple[TreeLink, ...]:
        """Return the links in trees at the end of the interval that holds a time, roots first.

        Raises `ValueError` for a time outside the run.
        """
        end_ns = self._sample(time_ns)
        columns = self._result.numpy("tree_links")
        names = [field.name for field in fields(TreeLink)]
        # Rows are in the order of time.
        first, last = np.searchsorted(columns["time_ns"], [end_ns, end_ns + 1])
        rows = zip(*(columns[name][first:last].tolist() for name in names), strict=True)
        return tuple(TreeLink(**dict(zip(names, row, strict=True))) for row in rows)

    def graph(self, time_ns: float) -> networkx.DiGraph[str]:
        """Return who waits for whom at a time: a directed graph, with an edge to what a branch waits for.

        Nodes are links, with the attributes of :class:`TreeLink`. Raises `ImportError` where `networkx` is
        not there, and `ValueError` for a time outside the run.
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
        """Return the table ``trees`` as a data frame; raises `ImportError` where pandas is not there."""
        try:
            import pandas
        except ImportError:
            raise ImportError("data frames need pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self._result.numpy("trees")))

    def _sample(self, time_ns: float) -> int:
        ends = self._result.numpy("network")["time_ns"]
        if not 0 <= time_ns <= (ends[-1] if len(ends) else 0):
            raise ValueError(
                f"{time_ns} ns is not a time of the run, which ends at {ends[-1] if len(ends) else 0} ns"
            )
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
