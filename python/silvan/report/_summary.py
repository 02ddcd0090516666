"""Creates the first sentences and the first table of a report, with the main numbers of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Literal

from silvan import steadiness
from silvan._comparison_text import in_words
from silvan.fairness import jain_of_hosts
from silvan.quantities import by_size, is_supported, links_in_trees, size_range
from silvan.report import _text

if TYPE_CHECKING:
    from silvan.results import Result
    from silvan.types import TransferSizes

#: Minimum share of its offered load that a flow must lose to trees to be listed as a victim.
WORTH_NAMING = 0.05
#: Maximum number of listed flows of each kind.
NAMES = 4


def roles(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """Return the named flows that are victims in any run, and those that only contribute to trees."""
    flows = [flow["flow"] for flow in results[0].summary.get("flows", [])]
    victims: set[str] = set()
    contributors: set[str] = set()
    for result in results:
        if "trees" in result.tables:
            for tree in result.forest.trees:
                victims |= {one.class_ for one in tree.victims if one.lost_share >= WORTH_NAMING}
                contributors |= {one.class_ for one in tree.contributors}
    return (
        [flow for flow in flows if flow in victims],
        [flow for flow in flows if flow in contributors and flow not in victims],
    )


def words(results: Sequence[Result], titles: Sequence[str]) -> str:
    """Return sentences about the main numbers of the runs as HTML; empty for a single run."""
    victims, _ = roles(results)
    lines = _words(results, titles, victims)
    if lines:
        lines = [*lines, *_unsteady(results, titles)]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def side_by_side(results: Sequence[Result], titles: Sequence[str]) -> str:
    """Return a table of the main numbers of the runs as HTML."""
    rows: list[tuple[str, list[_text.Cell]]] = []

    def add(label: str, of: Callable[[Result], _text.Cell]) -> None:
        rows.append((label, [of(result) for result in results]))

    add("All hosts receive", lambda one: _rate(one.summary["throughput_gbit_s"]))
    victims, contributors = roles(results)
    for label, names in (("victims", victims), ("contributors", contributors)):
        if names:
            rows.append((_label(label, names), [_rate(_received(one, names)) for one in results]))
    for at, group in enumerate(results[0].summary.get("groups", [])):
        if all(len(one.summary.get("groups", [])) > at for one in results):
            cells = [_rate(one.summary["groups"][at]["received_gbit_s"]) for one in results]
            rows.append((f"Each of {group['hosts']} {group['group']} receives", cells))
    if all("trees" in one.tables for one in results):
        add("Links in trees, on average", lambda one: _text.number(links_in_trees(one), 1))
        add("Congestion trees", lambda one: _text.count(len(one.forest)))
        add("Time with a tree", lambda one: _text.share(_time_with_a_tree(one)))
        add("Most branches of a tree", lambda one: _text.count(_largest(one, "peak_branches")))
        add("Most bytes waiting in a tree", lambda one: _text.size(_largest(one, "peak_queued_bytes")))
        add("Not sent by victims meanwhile", lambda one: _text.size(_lost(one)))
    if all("transfers" in one.summary for one in results):
        add("Transfers unfinished", lambda one: _text.count(one.summary["transfers"]["unfinished"]))
        for label, of in _transfer_rows(results):
            add(label, of)
    add("Packets marked", lambda one: _text.count(one.summary["fecn_marks"]))
    indices = [jain_of_hosts(one.summary) for one in results]
    if any(index is not None for index in indices):
        rows.append(
            (
                "Jain's index of the hosts",
                [_text.number(float("nan") if index is None else index, 3) for index in indices],
            )
        )
    heads = "".join(f"<th scope=col class=number>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr><th scope=row>{escape(label)}</th>"
        + "".join(f"<td class=number>{escape(cell[0])}</td>" for cell in cells)
        + "</tr>"
        for label, cells in rows
    )
    return (
        f'<div class="scroll"><table class="summary"><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _transfer_rows(results: Sequence[Result]) -> list[tuple[str, Callable[[Result], _text.Cell]]]:
    """Return rows with quantiles of the slowdowns of transfers that all runs have, by class and size."""

    def by_range(result: Result) -> dict[tuple[str, str], TransferSizes]:
        rows = by_size(result.summary["transfers"]["sizes"])
        return {(one["class"], size_range(one)): one for one in rows}

    found = [by_range(result) for result in results]

    def row(at: tuple[str, str], key: Literal["p50", "p99"]) -> Callable[[Result], _text.Cell]:
        return lambda one: _text.number(by_range(one)[at]["slowdown"][key], 2)

    shared = [at for at in found[0] if all(at in own for own in found[1:])]
    quantiles: tuple[tuple[Literal["p50", "p99"], str, float], ...] = (
        ("p50", "median", 0.5),
        ("p99", "99 %", 0.99),
    )
    return [
        (f"Slowdown of transfers of {at[0]}{at[1]}, {what}", row(at, key))
        for at in shared
        for key, what, share in quantiles
        if all(is_supported(share, own[at]["transfers"]) for own in found)
    ]


def _words(results: Sequence[Result], titles: Sequence[str], victims: list[str]) -> list[str]:
    """Compare the throughput of victims, and of hosts that are not hotspots, with the first run.

    Without such values, return the sentences of :func:`_in_all_runs`.
    """
    lines = []
    others = [
        {group["group"]: group for group in one.summary.get("groups", [])}.get("other hosts")
        for one in results
    ]
    for title, other in zip(titles[1:], others[1:], strict=True):
        if others[0] and other and others[0]["received_gbit_s"] > 0:
            before, after = others[0]["received_gbit_s"], other["received_gbit_s"]
            lines.append(
                f"Each host that is no hotspot receives {after:.2f} Gbit/s in “{title}”, {before:.2f} Gbit/s "
                f"in “{titles[0]}”: {after / before:.1f} times as much."
            )
    before = _received(results[0], victims)
    for title, result in zip(titles[1:], results[1:], strict=True):
        after = _received(result, victims)
        if not victims or before <= 0:
            continue
        who = f"The victim {victims[0]} receives" if len(victims) == 1 else f"{len(victims)} victims receive"
        lines.append(
            f"{who} {after:.2f} Gbit/s in “{title}”, {before:.2f} Gbit/s in “{titles[0]}”: "
            f"{after / before:.1f} times as much."
        )
    return lines or _in_all_runs(results, titles)


def _in_all_runs(results: Sequence[Result], titles: Sequence[str]) -> list[str]:
    """Return sentences about jobs, tree sizes and throughput in all runs; no sentence for a single run."""
    if len(results) < 2:
        return []

    def by_run(values: Sequence[str]) -> str:
        return ", ".join(f"{value} in “{title}”" for value, title in zip(values, titles, strict=True))

    lines = []
    for at, job in enumerate(results[0].summary.get("jobs", ())):
        spans = [
            one.summary["jobs"][at]["span_ns"] for one in results if len(one.summary.get("jobs", ())) > at
        ]
        if len(spans) == len(results):
            lines.append(f"The job {job['job']} takes {by_run([_text.time(span)[0] for span in spans])}.")
    if all("tree_links" in one.tables for one in results):
        sizes = [links_in_trees(one) for one in results]
        if any(sizes):
            lines.append(
                f"Links in congestion trees, on average: {by_run([in_words(one) for one in sizes])}."
            )
    rates = [in_words(one.summary["throughput_gbit_s"]) for one in results]
    return [*lines, f"All hosts receive, in Gbit/s: {by_run(rates)}."]


def _unsteady(results: Sequence[Result], titles: Sequence[str]) -> list[str]:
    """Return a sentence per run whose averages are not in steady state, or are not tested for it."""
    lines = []
    for title, result in zip(titles, results, strict=True):
        names = steadiness.unsteady([result.summary])
        if names:
            more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
            lines.append(
                f"Not in steady state in “{title}”: {', '.join(names[:NAMES])}{more}. These averages depend "
                "on the warm-up and the duration."
            )
        elif short := steadiness.untested([result.summary]):
            more = f" and {len(short) - NAMES} more" if len(short) > NAMES else ""
            lines.append(
                f"Steady state not tested in “{title}”: {', '.join(short[:NAMES])}{more}: "
                f"{steadiness.advice(steadiness.testable_at([result.summary]))}."
            )
    return lines


def _label(what: str, names: list[str]) -> str:
    few = [name if len(name) <= 30 else f"{name[:29]}…" for name in names[:NAMES]]
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{what.capitalize()} receive ({', '.join(few)}{more})"


def _rate(value: float) -> _text.Cell:
    return (f"{value:,.2f} Gbit/s", value)


def _received(result: Result, names: list[str]) -> float:
    flows = result.summary["flows"]
    return float(sum(flow["received_gbit_s"] for flow in flows if flow["flow"] in names))


def _largest(result: Result, what: str) -> float:
    return max((getattr(tree, what) for tree in result.forest.trees), default=0)


def _time_with_a_tree(result: Result) -> float:
    return len(result.forest.times_ns) / max(result.tables["network"].num_rows, 1)


def _lost(result: Result) -> float:
    return sum(victim.lost_bytes for tree in result.forest.trees for victim in tree.victims)
