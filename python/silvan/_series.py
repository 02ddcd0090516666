"""The quantities of a run over time, and what ends or changes while a run averages them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import _written
from silvan._progress import simulated
from silvan._written import time_ns

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.results import Result

#: Maximum number of named flows. If there are more, their rates and latencies are not compared individually.
FLOWS_AT_MOST = 16
#: Maximum share of unfinished transfers in an interval of a series: others would be too short.
_UNFINISHED = 0.1
#: Maximum number of changes of links and hosts that are listed.
_EVENTS_AT_MOST = 3


@dataclass(frozen=True)
class Series:
    """A quantity over the whole run, one value per sampling interval."""

    #: Name as in a comparison, without a statistic: ``hot: latency since injection``.
    name: str
    unit: str
    #: Ends of the intervals in ns.
    ends_ns: NDArray[np.float64]
    #: NaN in an interval without a value, such as the latency without packets.
    values: NDArray[np.float64]


def shown_classes(result: Result) -> list[str]:
    """Return the classes of traffic that are compared individually: all, except many named flows."""
    flows = {flow["flow"] for flow in result.summary["flows"]}
    hidden = flows if len(flows) > FLOWS_AT_MOST else set()
    return [one["class"] for one in result.summary["classes"] if one["class"] not in hidden]


def kind_of(result: Result, name: str) -> str:
    """Return `flow` for a named flow, and `class` for other classes."""
    return "flow" if any(flow["flow"] == name for flow in result.summary["flows"]) else "class"


def of_run(result: Result) -> Iterator[Series]:
    """Yield the series of a run with tables, except those of jobs, whose programs have phases."""
    jobs = {job["job"] for job in result.summary.get("jobs", ())}
    network = _numbers(result, "network")
    ends_ns = network["time_ns"].astype(np.float64)
    spans_ns = np.diff(ends_ns, prepend=0.0)
    yield Series("received by all hosts", "Gbit/s", ends_ns, network["received_bytes"] * 8.0 / spans_ns)
    classes, (codes, names) = _numbers(result, "classes"), _names(result, "classes", "class")
    for name in shown_classes(result):
        if name in jobs or name not in names:
            continue
        own = codes == names.index(name)
        if not own.any():
            continue
        times = classes["time_ns"][own].astype(np.float64)
        rates = classes["throughput_gbit_s"][own]
        yield Series(f"{kind_of(result, name)} {name}: received", "Gbit/s", times, rates)
        for since in ("generation", "injection"):
            latency = classes[f"mean_since_{since}_ns"][own] / 1000
            yield Series(f"{name}: latency since {since}", "us", times, latency)
    if "tree_links" in result.tables:
        counted = np.searchsorted(ends_ns, _numbers(result, "tree_links")["time_ns"])
        links = np.bincount(counted, minlength=len(ends_ns))[: len(ends_ns)]
        yield Series("links in congestion trees", "", ends_ns, links.astype(np.float64))
    if "transfers" in result.tables:
        yield from _of_transfers(result, ends_ns)


def _numbers(result: Result, table: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a table that are numbers."""
    return {name: one for name, one in result.coded(table).items() if not isinstance(one, tuple)}


def _names(result: Result, table: str, column: str) -> tuple[NDArray[Any], list[str]]:
    """Return a column of names as codes and the list of names. Strings would need much more time."""
    found = result.coded(table)[column]
    assert isinstance(found, tuple)
    return found


def _of_transfers(result: Result, ends_ns: NDArray[np.float64]) -> Iterator[Series]:
    """Yield the geometric mean of the slowdown of the transfers that start in each interval, by class."""
    table, (codes, names) = _numbers(result, "transfers"), _names(result, "transfers", "class")
    steps = np.minimum(np.searchsorted(ends_ns, table["start_ns"]), len(ends_ns) - 1)
    is_finished = ~np.isnan(table["slowdown"])
    logs = np.log(np.where(is_finished, table["slowdown"], 1.0))
    for code, name in enumerate(names):
        own = codes == code
        if not own.any():
            continue
        started, finished = (
            np.bincount(steps[chosen], minlength=len(ends_ns)) for chosen in (own, own & is_finished)
        )
        total = np.bincount(steps[own], weights=logs[own], minlength=len(ends_ns))
        is_whole = (finished > 0) & (finished >= (1 - _UNFINISHED) * started)
        values = np.exp(total / np.maximum(finished, 1))
        yield Series(f"transfers of {name}", "", ends_ns, np.where(is_whole, values, np.nan))


def senders(result: Result) -> dict[str, Any]:
    """Return the sending hosts of each flow and pattern as the scenario names them; None for all hosts."""
    scenario = tomllib.loads(result.scenario_toml)
    return {one["name"]: one["from"] for one in _written.flows(scenario)} | {
        one["name"]: one.get("hosts") for one in _written.patterns(scenario)
    }


def ended(result: Result) -> dict[str, float]:
    """Return the classes whose traffic ended before the last sampling interval, with the time in ns.

    Traffic ends if it has a `stop`, a given amount of data, or is a job that finished. Traffic that the
    network stops has not ended.
    """
    scenario, summary = tomllib.loads(result.scenario_toml), result.summary
    # A run may have been kept without its tables, so the time of the last sample is computed.
    interval = time_ns(scenario["measure"]["interval"])
    begin = float((math.ceil(summary["simulated_ns"] / interval) - 1) * interval)
    found = {job["job"]: job["finished_ns"] for job in summary.get("jobs", ())}
    found |= {flow["flow"]: flow["completed_ns"] for flow in summary["flows"]}
    last = {one["class"]: one["last_delivery_ns"] for one in summary["classes"]}
    for table in (*_written.flows(scenario), *_written.patterns(scenario)):
        for name, delivered in last.items():
            if name != table["name"] and not name.startswith(f"{table['name']}: "):
                continue
            is_finite = "packets_per_host" in table or table.get("pattern", {}).get("kind") == "listed"
            if "stop" in table:
                found[name] = min(found.get(name) or math.inf, float(time_ns(table["stop"])))
            elif is_finite and name not in found and table.get("name") == name:
                found[name] = delivered
    return {name: float(end) for name, end in found.items() if end is not None and end < begin}


def ends(name: str, time_ns: float) -> str:
    """Return in words when a class of traffic ends."""
    return f"`{name}` ends at {simulated(round(time_ns))}"


def changes(result: Result) -> list[str]:
    """Return what changes while the run averages: events, jobs, and traffic that starts, ends or moves."""
    summary, scenario = result.summary, tomllib.loads(result.scenario_toml)
    begin, end = summary["averages_from_ns"], summary["simulated_ns"]
    found = _events(result, begin, end)
    for job in summary.get("jobs", ()):
        stop = job["finished_ns"]
        if job["started_ns"] < end and (stop is None or stop > begin):
            until = "" if stop is None else f" until {simulated(stop)}"
            found.append(f"job `{job['job']}` runs{until}")
    jobs = {job["job"] for job in summary.get("jobs", ())}
    found += [ends(name, stop) for name, stop in ended(result).items() if stop > begin and name not in jobs]
    starts = {trigger["class"]: trigger["started_ns"] for trigger in summary.get("triggers", ())}
    for table in (*_written.flows(scenario), *_written.patterns(scenario)):
        start = starts.get(table["name"], float(time_ns(table.get("start", "0 s"))))
        if start is not None and begin < start < end:
            found.append(f"`{table['name']}` starts at {simulated(round(start))}")
        lifetime = table.get("pattern", {}).get("lifetime")
        if lifetime is not None and time_ns(lifetime) < end:
            found.append(f"the hotspots of `{table['name']}` move every {lifetime}")
    return found


def _events(result: Result, begin: float, end: float) -> list[str]:
    if "events" not in result.tables:
        return ["links or hosts change (`[[event]]`)"] if "[[event]]" in result.scenario_toml else []
    table = result.numpy("events")
    rows = [
        f"{place} {state} at {simulated(int(time))}"
        for place, state, time in zip(table["place"], table["state"], table["time_ns"], strict=True)
        if begin < time < end
    ]
    more = len(rows) - _EVENTS_AT_MOST
    return [*rows[:_EVENTS_AT_MOST], *([f"{more} other changes of links or hosts"] if more > 0 else [])]
