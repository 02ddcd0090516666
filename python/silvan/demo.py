"""Runs the demo: the published testbed, without and with congestion control."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from silvan import _folder, plot, report, scenarios
from silvan._core import Scenario
from silvan.commands import _show
from silvan.fairness import jain

if TYPE_CHECKING:
    from rich.console import Console

    from silvan.results import Result

SCENARIO = "testbed"
#: The flow whose destination is not congested.
VICTIM = "F1"
#: File name of the report of both runs.
REPORT = "report.html"
#: Length of the interval at the end of a run that averages cover, in ns.
LAST_NS = 500_000_000

Simulate = Callable[[Scenario, str], "Result"]


def find_scenario() -> Path:
    """Return the path of the scenario of the testbed."""
    return scenarios.find(SCENARIO).path


def last_gbit_s(result: Result, span_ns: float = LAST_NS) -> dict[str, float]:
    """Return the mean throughput of each flow, in Gbit/s, in the last `span_ns` of a run."""
    series = plot.Series(result, "flows", "flow", "received_bytes")
    end_ns = series.end_ns[-1]
    last = series.end_ns - series.interval_ns >= end_ns - span_ns - 1.0
    time_ns = series.interval_ns[last].sum()
    return {
        name: float(row[last].sum() * 8.0 / time_ns)
        for name, row in zip(series.names, series.values, strict=True)
    }


def run(console: Console, out: Path, simulate: Simulate) -> None:
    """Run the testbed twice, print the comparison, and write results, figures and a report to `out`.

    Raises `FileExistsError` if the demo would overwrite files that it did not write.
    """
    scenario = Scenario.load(find_scenario())
    _refuse_foreign(out)
    off = simulate(scenario.with_overrides({"congestion.mechanism": "none"}), "CC off")
    on = simulate(scenario.with_overrides({"congestion.mechanism": "ib-cc"}), "CC on")
    rates = [last_gbit_s(off), last_gbit_s(on)]
    _show.comparison(console, off.summary["flows"], *rates)
    console.print()
    _print_rates(console, rates)
    off.save(out / "cc-off")
    on.save(out / "cc-on")
    titles = ("CC off: the victim F1 waits in the tree", "CC on: the tree shrinks")
    figure = plot.compare([off, on], titles)
    paths = plot.save(figure, out / "comparison")
    plot.save_all(off, out / "cc-off" / "figures")
    plot.save_all(on, out / "cc-on" / "figures")
    page = report.write([off, on], out / REPORT, titles=("CC off", "CC on"))
    console.print()
    console.print(f"Figure: {paths[0]}", markup=False)
    console.print(f"More:   {out / 'cc-off'} and {out / 'cc-on'} (results, figures/)", markup=False)
    console.print(f"Report: {page} (the trees over time: open it in a browser)", markup=False)


def _refuse_foreign(out: Path) -> None:
    """Raise `FileExistsError` if the demo would overwrite files that it did not write."""
    runs = [out / "cc-off", out / "cc-on"]
    # A folder that cannot be written is reported before the runs.
    out.mkdir(parents=True, exist_ok=True)
    for folder in runs:
        _folder.refuse_foreign(folder)
    # The demo writes these files after the folders of both runs. If a folder is missing, another program
    # wrote the files.
    drawn = ("comparison.png", "comparison.svg", REPORT)
    figures = [path for name in drawn if (path := out / name).exists()]
    if figures and not all(folder.is_dir() for folder in runs):
        what = "was not written by an earlier demo; choose another folder with --out"
        raise FileExistsError(errno.EEXIST, what, str(figures[0]))


def _print_rates(console: Console, rates: list[dict[str, float]]) -> None:
    for label, rate in zip(("CC off", "CC on"), rates, strict=True):
        others = {name: value for name, value in rate.items() if name != VICTIM}
        total = sum(others.values())
        shares = (
            ", ".join(f"{name} {100 * value / total:.1f} %" for name, value in others.items())
            if total
            else "none"
        )
        console.print(
            f"{label}: victim {VICTIM} {rate[VICTIM]:.2f} Gbit/s; shares of the congested host: {shares}; "
            f"Jain's index of the contributors over the last half second {jain(list(others.values())):.4f}"
        )
