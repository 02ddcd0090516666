"""The numbers of a run that comparisons use, and why a run may lack one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from silvan import _series
from silvan.fairness import jain_of_hosts

if TYPE_CHECKING:
    from silvan.results import Result
    from silvan.types import Summary, TransferSizes

#: Quantiles of slowdowns, their names, and the shares of the values that do not exceed them.
_QUANTILES: tuple[tuple[Literal["p50", "p95", "p99"], str, float], ...] = (
    ("p50", "median", 0.5),
    ("p95", "95 %", 0.95),
    ("p99", "99 %", 0.99),
)
#: Suffix of the names of measures that are numbers of finished transfers.
COUNT = ": finished"
#: Words in the names of measures for which larger values are better, and for which smaller values are better.
#: Other measures, such as Jain's index, have no direction: they fall, for example, if a job ends earlier.
_LARGER, _SMALLER = (
    ("received",),
    ("latency", "slowdown", "unfinished", "span", "links in congestion trees"),
)
#: Relative width of the ranges of latencies in histograms, and the resolution of numbers of transfers.
_OF_LATENCY, _OF_COUNTS = 2.0**-7, 1.0

Name = tuple[str, str]


def direction(measure: str) -> int:
    """Return 1 if larger values of a measure are better, -1 if smaller values are, and 0 otherwise."""
    if measure.endswith(COUNT):
        return 0
    signs = (1, _LARGER), (-1, _SMALLER)
    return next((sign for sign, words in signs if any(word in measure for word in words)), 0)


def resolution(measure: str, value: float) -> float:
    """Return the difference below which two values of a measure may be equal before rounding."""
    if ": latency since" in measure:
        return _OF_LATENCY * value
    return _OF_COUNTS if "unfinished" in measure or measure.endswith(COUNT) else 0.0


def subject(measure: str) -> str:
    """Return the class of traffic of a measure of a class; empty for other measures."""
    name, found, _ = measure.partition(": latency since")
    if found:
        return name
    kind, _, rest = measure.partition(" ")
    return rest.removesuffix(": received") if kind in ("class", "flow") else ""


def links_in_trees(result: Result) -> float:
    """Return the number of links in congestion trees, averaged over the samples after the warm-up."""
    after = result.summary["averages_from_ns"]
    samples = int((result.numpy("network")["time_ns"] > after).sum())
    return float((result.numpy("tree_links")["time_ns"] > after).sum()) / max(1, samples)


def size_range(sizes: TransferSizes) -> str:
    """Return a limit of a range of sizes of transfers in words, with a leading comma; empty for all sizes.

    The limit is the upper limit, or the lower limit of a range without an upper limit.
    """
    if "above_bytes" not in sizes:
        return ""
    if "up_to_bytes" not in sizes:
        return f", above {sizes['above_bytes'] / 1e6:g} MB"
    most = sizes["up_to_bytes"]
    return f", up to {most / 1e6:g} MB" if most >= 1e6 else f", up to {most / 1e3:g} kB"


def by_size(sizes: Sequence[TransferSizes]) -> list[TransferSizes]:
    """Return the rows of transfers, except ranges of sizes that contain all transfers of their class."""
    whole = {one["class"]: one["transfers"] for one in sizes if "above_bytes" not in one}
    return [one for one in sizes if "above_bytes" not in one or one["transfers"] < whole[one["class"]]]


def is_supported(share: float, count: int) -> bool:
    """Return whether `count` values are enough for the quantile `share`, from 0 to 1.

    For example, the 99th percentile of fewer than 100 values is only the largest value. Its expectation
    grows with the number of values.
    """
    return count > 0 and round(count * (1 - share), 9) >= 1


def measures(result: Result) -> dict[Name, float]:
    """Return the numbers of a run that a comparison uses, by name and unit."""
    return {name: value for name, value in with_reasons(result).items() if not isinstance(value, str)}


def with_reasons(result: Result) -> dict[Name, float | str]:
    """Return the numbers of a run by name and unit; for a number that the run lacks, the reason."""
    summary = result.summary
    ended = _series.ended(result)
    found: dict[Name, float | str] = {("received by all hosts", "Gbit/s"): _total(summary, ended)}
    shown = _series.shown_classes(result)
    for one in summary["classes"]:
        if (name := one["class"]) in shown:
            # The rate of traffic that has ended depends on how long the run continues.
            found[f"{_series.kind_of(result, name)} {name}: received", "Gbit/s"] = (
                _series.ends(name, ended[name]) if name in ended else one["received_gbit_s"]
            )
    for row in summary["latency"]:
        if row["class"] in shown:
            name = f"{row['class']}: latency since {row['since']}"
            few = f"only {row['count']} packets of `{row['class']}` in the averaged time"
            found[f"{name}, median", "us"] = row["p50_ns"] / 1000 if row["count"] else few
            found[f"{name}, 99 %", "us"] = row["p99_ns"] / 1000 if is_supported(0.99, row["count"]) else few
    found |= _of_transfers(summary)
    for job in summary.get("jobs", ()):
        # An unfinished job lasts until the end of the run, so its span is that of the run.
        found[f"job {job['job']}: span", "us"] = (
            f"job `{job['job']}` did not finish" if job["finished_ns"] is None else job["span_ns"] / 1000
        )
        found[f"job {job['job']}: operations unfinished", ""] = job["unfinished_operations"]
    if "tree_links" in result.tables:
        found["links in congestion trees", ""] = links_in_trees(result)
    index = jain_of_hosts(summary)
    found["Jain's index of the hosts", ""] = "fewer than two hosts receive" if index is None else index
    found["packets marked", ""] = summary["fecn_marks"]
    return found


def _total(summary: Summary, ended: dict[str, float]) -> float | str:
    """Return the throughput of all hosts, or the reason why it depends on the duration of the run."""
    jobs = {job["job"] for job in summary.get("jobs", ())}
    for name, time in ended.items():
        if name in jobs or time > summary["averages_from_ns"]:
            return _series.ends(name, time)
    return summary["throughput_gbit_s"]


def _of_transfers(summary: Summary) -> dict[Name, float | str]:
    """Return the number and the slowdowns of transfers by class and range of sizes, if they were recorded."""
    found: dict[Name, float | str] = {}
    if transfers := summary.get("transfers"):
        found["transfers unfinished", ""] = transfers["unfinished"]
        for own in by_size(transfers["sizes"]):
            of = f"transfers of {own['class']}{size_range(own)}"
            name = f"{of}: slowdown"
            found[f"{of}{COUNT}", ""] = own["transfers"]
            for key, what, share in _QUANTILES:
                if not is_supported(share, own["transfers"]):
                    found[f"{name}, {what}", ""] = f"only {own['transfers']} finished {of}"
                    continue
                found[f"{name}, {what}", ""] = own["slowdown"][key]
                if "acked_slowdown" in own:
                    acked = f"{name} until the last acknowledgement, {what}"
                    found[acked, ""] = own["acked_slowdown"][key]
    return found
