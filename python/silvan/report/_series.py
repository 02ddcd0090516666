"""Collects the data of the charts over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from silvan.report._frames import Clock
from silvan.report._pack import Pack
from silvan.report._picture import HUES
from silvan.report._roots import Roots, letter
from silvan.report._roots import of as of_results

if TYPE_CHECKING:
    from silvan.results import Result

#: Maximum number of lines in a chart.
MOST_LINES = 8


Lines = list[tuple[str, NDArray[Any]]]


def found(result: Result, clock: Clock, roots: Roots | None = None) -> list[tuple[str, str, str, Lines]]:
    """Return the time series of a run, each as identifier, title, unit, and lines with names and samples."""
    roots = of_results([result]) if roots is None else roots
    all_of_them = [
        ("throughput", "Received throughput", "Gbit/s", _throughput(result)),
        ("trees", "Links in congestion trees", "links", _sizes(result, clock)),
        ("held", "Bytes waiting, by root of the tree", "B", _held(result, clock, roots)),
        ("congested", "Outputs in the congestion state", "outputs", _network(result, "congested_outputs")),
        ("throttled", "Throttled flows", "flows", _network(result, "throttled_flows")),
        ("ccti", "CCT index of throttled flows", "index", _ccti(result)),
        ("latency", "Mean latency since injection", "ns", _latency(result)),
    ]
    return [one for one in all_of_them if one[-1]]


def charts(result: Result, clock: Clock, roots: Roots, pack: Pack) -> list[dict[str, Any]]:
    """Return the charts of a run, each as identifier, title, unit, and lines with a column of `pack`.

    The line of a root has the number of the root's color as `hue`.
    """
    hues = {_of_root(root, number): number % len(HUES) for root, number in roots.items()}
    return [
        {
            "id": identifier,
            "title": title,
            "unit": unit,
            "lines": [
                {"name": name, "values": pack.add(clock.mean(values), "float32")}
                | ({"hue": hues[name]} if identifier == "held" and name in hues else {})
                for name, values in lines
            ],
        }
        for identifier, title, unit, lines in found(result, clock, roots)
    ]


def by_name(result: Result, table: str, key: str, column: str) -> Lines:
    """Return the time series of a table by name; empty for a missing table.

    Each interval must have one row per name, in the same order. The result is also empty if the number of
    rows is not a multiple of the number of names.
    """
    if table not in result.tables or not result.tables[table].num_rows:
        return []
    columns = result.coded(table)
    codes, names = columns[key]
    again = np.flatnonzero(np.asarray(codes) == codes[0])
    count = int(again[1]) if len(again) > 1 else len(codes)
    values = np.asarray(columns[column]).astype(np.float64)
    if len(values) % count:
        return []
    return [(names[code], values[at::count]) for at, code in enumerate(codes[:count])]


def _widths_ns(result: Result) -> NDArray[np.float64]:
    return np.diff(result.numpy("network")["time_ns"].astype(np.float64), prepend=0.0)


def _throughput(result: Result) -> Lines:
    flows = by_name(result, "flows", "flow", "received_bytes")
    width = _widths_ns(result)
    if 0 < len(flows) <= MOST_LINES:
        return [(name, values * 8 / width) for name, values in flows]
    classes = by_name(result, "classes", "class", "throughput_gbit_s")
    if 0 < len(classes) <= MOST_LINES:
        return classes
    return [("all hosts", result.numpy("network")["received_bytes"] * 8 / width)]


def _sizes(result: Result, clock: Clock) -> Lines:
    if "tree_links" not in result.tables:
        return []
    rows = result.numpy("tree_links")
    at = np.searchsorted(clock.time_ns, rows["time_ns"])
    size = len(clock.time_ns)
    return [
        ("branches", np.bincount(at[rows["depth"] > 0], minlength=size).astype(np.float64)),
        ("roots", np.bincount(at[rows["depth"] == 0], minlength=size).astype(np.float64)),
    ]


def _of_root(root: str, number: int) -> str:
    return f"{letter(number)} {root}"


def _held(result: Result, clock: Clock, roots: Roots) -> Lines:
    if "tree_links" not in result.tables or not result.tables["tree_links"].num_rows:
        return []
    rows = result.numpy("tree_links")
    at, size = np.searchsorted(clock.time_ns, rows["time_ns"]), len(clock.time_ns)
    of_tree = np.array([roots[root] for root in result.numpy("trees")["root"].tolist()], np.int64)
    # Subtract 1 because tree numbers start at 1.
    root, queued = of_tree[rows["tree"].astype(np.int64) - 1], rows["queued_bytes"].astype(np.float64)
    whole = np.bincount(root, weights=queued)
    largest = [int(one) for one in np.argsort(-whole, kind="stable")[: MOST_LINES - 1] if whole[one] > 0]
    names = {number: name for name, number in roots.items()}
    lines: Lines = [
        (
            _of_root(names[one], one),
            np.bincount(at[root == one], weights=queued[root == one], minlength=size),
        )
        for one in sorted(largest)
    ]
    rest = ~np.isin(root, largest)
    if rest.any():
        lines.append(("other roots", np.bincount(at[rest], weights=queued[rest], minlength=size)))
    return lines


def _network(result: Result, column: str) -> Lines:
    values = result.numpy("network")[column].astype(np.float64)
    return [("all", values)] if values.any() else []


def _ccti(result: Result) -> Lines:
    flows = [values for _, values in by_name(result, "flows", "flow", "ccti")]
    if not flows or not np.any(flows):
        return []
    table = np.array(flows)
    return [("largest", table.max(axis=0)), ("mean", table.mean(axis=0))]


def _latency(result: Result) -> Lines:
    lines = by_name(result, "classes", "class", "mean_since_injection_ns")
    return lines if len(lines) <= MOST_LINES else []
