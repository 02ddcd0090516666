"""Calculations that the papers print, repeated with functions of the model where these exist."""

from pathlib import Path

import silvan
from silvan.papers import figures, find_papers

TABLES = ()


def runs(quick):
    return {}


def _links(sizes):
    """Return the number of links of a mesh. A dimension of size 2 has one link per row, as in a hypercube."""
    hosts = 1
    for size in sizes:
        hosts *= size
    return sum(hosts // size * (size - 1) for size in sizes)


def compare(results):
    path = Path(find_papers()) / "A3" / "all-to-one.toml"
    tree = silvan.Scenario.load(str(path)).check()
    top = 4 ** (3 - 1)
    return {
        "bdp": 1e9 * 64e-9 * 32,
        "mesh": _links((2, 2, 2, 2)) / _links((4, 4)),
        "break_even": 10e-6 * 10e9 / 1e3,
        "roots": float(top),
        "inner": float(tree["switches"] - top),
        "ends": float(tree["hosts"]),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    figures.beside(ax, ("hypercube", "mesh"), (32, 24), (_links((2, 2, 2, 2)), _links((4, 4))))
    ax.set(ylabel="links", title="Links of a 4-D hypercube and a 4 x 4 mesh")
    figures.save(fig, out, "A9")
