"""Writes the account of a fabric study, in Markdown and on the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from silvan._comparison_text import in_words
from silvan._markdown import table
from silvan._progress import simulated
from silvan.fabric.studies.study import COSTLY_OPTIONS, OFF, OPTIONS, Simulated, Studied
from silvan.fabric.studies.verdict import Effect
from silvan.quantities import links_in_trees
from silvan.results import Result
from silvan.sweeps.axes import as_text
from silvan.tuning import report as tune_report
from silvan.tuning.presets import REFERENCE

#: Maximum numbers of links, pairs, trees and victims in the account.
LINKS, PAIRS, TREES, VICTIMS = 8, 3, 8, 8
#: Mean utilization above which a sentence names a link, and maximum number of such links that it names.
BUSY, NAMED = 0.9, 3


def classes(result: Result) -> dict[str, tuple[float, float | None]]:
    """Return the received Gbit/s and the 99th percentile of the latency (us) for each class of traffic.

    The latency is that since injection, and None if the class has no packets.
    """
    tails = {
        row["class"]: row["p99_ns"] / 1000
        for row in result.summary["latency"]
        if row["since"] == "injection" and row["count"]
    }
    return {
        row["class"]: (row["received_gbit_s"], tails.get(row["class"])) for row in result.summary["classes"]
    }


def overloaded(studied: Simulated) -> tuple[list[int], list[int]]:
    """Return the links between switches and the links to hosts, by relative load, largest first.

    The relative load is the offered load divided by the capacity.
    """
    share = studied.offered / studied.site.capacity
    order = [int(n) for n in np.argsort(-share, kind="stable")]
    inner = studied.site.routes.inner
    to_host = ~inner
    to_host[studied.site.routes.first_link] = False
    return [n for n in order if inner[n]], [n for n in order if to_host[n]]


def headline(simulated: Simulated) -> list[str]:
    """Return a few sentences with the main results."""
    lines = simulated.lead()
    share = simulated.offered / simulated.site.capacity
    inner, to_host = overloaded(simulated)
    over = sum(share[n] > 1 for n in inner)
    if inner:
        lines.append(
            f"{over} of {len(inner):,} links between switches and {sum(share[n] > 1 for n in to_host)} of "
            f"{len(to_host):,} links to hosts are offered more than they carry; the worst, "
            f"{simulated.site.routes.links[to_host[0]]}, {share[to_host[0]]:.1f} times as much."
        )
    if OFF in simulated.runs:
        lines.append(_busy(simulated))
    lines += simulated.failures
    return lines + (_changes(simulated) if isinstance(simulated, Studied) else [])


def busy(simulated: Simulated) -> list[tuple[str, float]]:
    """Return the links with a mean utilization above :data:`BUSY` without control, the busiest first.

    Links from hosts are not among them, because a host can use its own link fully without a congestion. The
    utilization is that after the warm-up.
    """
    used = utilisation(simulated.runs[OFF])
    names = [simulated.site.routes.links[n] for order in overloaded(simulated) for n in order]
    return sorted(
        ((name, used.get(name, 0.0)) for name in names if used.get(name, 0.0) > BUSY),
        key=lambda one: (-one[1], one[0]),
    )


def _busy(simulated: Simulated) -> str:
    """Return a sentence on the links that are nearly always used without control."""
    found, (inner, to_host) = busy(simulated), overloaded(simulated)
    between = {simulated.site.routes.links[n] for n in inner}
    number = sum(name in between for name, _ in found)
    named = ", ".join(f"{name} {100 * used:.0f} %" for name, used in found[:NAMED])
    more = f", and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return (
        f"Without control, {number} of {len(inner):,} links between switches and {len(found) - number} of "
        f"{len(to_host):,} links to hosts are used more than {100 * BUSY:.0f} % on average after the warm-up"
        f"{': ' * bool(found)}{named}{more}."
    )


def _changes(studied: Studied) -> list[str]:
    """Return sentences that compare the run without control and the one with the best settings."""
    off, best = (classes(studied.runs[title]) for title in (OFF, studied.title))
    which = "the recommended settings" if studied.verdict.recommended else "the settings with the best score"
    lines = [
        f"The next sentences are about single runs of the first draw (seed {studied.asked.seed}); verdicts "
        "are averages over all draws and seeds."
    ]
    trees, left = (links_in_trees(studied.runs[title]) for title in (OFF, studied.title))
    lines.append(
        f"{trees:.0f} of {len(studied.offered):,} links are in congestion trees without control, {left:.0f} "
        f"with {which}, on average after the warm-up."
    )
    hot, now_hot = (hotspot_share(studied, title) for title in (OFF, studied.title))
    lines.append(
        f"Hotspots receive {100 * hot:.0f} % of what their links can carry without control, "
        f"{100 * now_hot:.0f} % with {which}."
    )
    wanted = offered_by_class(studied)
    for name, (received, tail) in off.items():
        now, now_tail = best[name]
        tails = (
            ""
            if tail is None or now_tail is None
            else f"; 99 % of its packets arrive within {in_words(tail)} us and {in_words(now_tail)} us"
        )
        late = (
            " More than is offered arrives after the warm-up, because messages of the warm-up arrive late."
            if max(received, now) > 1.01 * wanted[name]
            else ""
        )
        lines.append(
            f"Traffic `{name}` receives {in_words(received)} Gbit/s of {in_words(wanted[name])} offered "
            f"without control, and {in_words(now)} with {which}{tails}.{late}"
        )
    for one in studied.tuned.contrasts:
        if one.name == REFERENCE and one.score.low <= 1:
            lines.append(f"Compared with the defaults, {which} are: {one.in_words}.")
    return lines


def hotspot_share(studied: Simulated, title: str) -> float:
    """Return the mean rate that hotspots receive, relative to the rate of the slowest host link."""
    hot = set(studied.load.hotspots)
    received = [
        host["received_gbit_s"] for host in studied.runs[title].summary["hosts"] if host["host"] in hot
    ]
    return float(np.mean(received)) / studied.load.rate_gbit_s


def offered_by_class(studied: Simulated) -> dict[str, float]:
    """Return the offered Gbit/s of each class of traffic."""
    return {
        group.name: len(group.hosts) * group.share * studied.load.rate_gbit_s for group in studied.load.groups
    }


def write(simulated: Simulated, figures: Sequence[str]) -> str:
    """Return the complete account in Markdown; `figures` are the names of the figures."""
    lines = ["# What hotspots do to this fabric", "", *(f"- {line}" for line in headline(simulated)), ""]
    lines += _unfinished(simulated) + _fabric(simulated) + _load(simulated) + _links(simulated)
    if OFF in simulated.runs:
        lines += _trees(simulated.runs[OFF])
    if simulated.runs:
        lines += _control(simulated)
    if isinstance(simulated, Studied):
        lines += _recommended(simulated)
    lines += ["## Figures", "", *(f"![{name}](figures/{name}.png)\n" for name in figures)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _unfinished(simulated: Simulated) -> list[str]:
    """Return a table of the runs that deadlocked."""
    if not simulated.unfinished:
        return []
    rows = [(one.settings, one.traffic, one.reason) for one in simulated.unfinished]
    lines = ["## Runs that did not finish", "", *table(("settings", "traffic", "reason"), rows), ""]
    return [*lines, "Other runs were kept.", ""]


def _fabric(studied: Simulated) -> list[str]:
    report = studied.site.report
    cycle = report["deadlock"]
    load = report["all_to_all"]
    rows: list[Sequence[object]] = [
        ("hosts, switches, links", f"{report['hosts']}, {report['switches']}, {report['links']}"),
        ("pairs routed", f"{report['pairs_routed']:,}"),
        ("deadlock", "impossible" if cycle is None else f"possible: {cycle}"),
        ("aggregation nodes (SHARP) among the hosts", len(report["aggregation_nodes"])),
    ]
    if load["links"]:
        rows.append(
            (
                "all-to-all flows per link between switches",
                f"{load['min']} to {load['max']}, mean {in_words(load['mean'])}",
            )
        )
    rows.append(("routes in the runs", "the forwarding tables, one route for each pair of hosts"))
    rows += [(f"used {one['file']}", f"{one['kind']}: {one['note']}") for one in report["used"]]
    rows += [(f"ignored {one['file']}", one["note"]) for one in report["ignored"]]
    notes = [f"- Note: {note}." for note in studied.notes]
    return ["## The fabric", "", *table(("", ""), rows), "", *notes, ""]


def _load(studied: Simulated) -> list[str]:
    rate = studied.load.rate_gbit_s
    rows = []
    for group in studied.load.groups:
        goal = ", ".join(group.targets) if len(group.targets) <= 12 else f"{len(group.targets)} hosts"
        offered = (
            f"{in_words(group.share * rate)} Gbit/s"
            if group.share < 1
            else f"as much as possible, {in_words(rate)} Gbit/s"
        )
        rows.append((group.name, len(group.hosts), goal or "any host", offered, group.message))
    heads = ("traffic", "hosts", "to", "each offers", "messages")
    return [
        "## The load",
        "",
        "Roles are drawn at random; `site.toml` has all names.",
        "",
        *table(heads, rows),
        "",
    ]


def _links(studied: Simulated) -> list[str]:
    share = studied.offered / studied.site.capacity
    demand = studied.load.demand()
    inner, to_host = overloaded(studied)
    means = {title: utilisation(studied.runs[title]) for title in studied.shown}
    lines = [
        "## The worst links",
        "",
        "Offered: the load of the link if all links had unlimited capacity.",
        "",
    ]
    for what, order in (("Links to hosts", to_host), ("Links between switches", inner)):
        rows = []
        for n in order[:LINKS]:
            name = studied.site.routes.links[n]
            pairs = studied.site.routes.pairs_over(demand, n)
            largest = "; ".join(f"{source} to {target}" for source, target, _ in pairs[:PAIRS])
            more = f"; {len(pairs) - PAIRS:,} more" if len(pairs) > PAIRS else ""
            rows.append(
                (
                    name,
                    f"{share[n]:.2f}",
                    *(f"{mean.get(name, 0.0):.2f}" for mean in means.values()),
                    largest + more,
                )
            )
        if rows:
            heads = ("link", "offered", *(f"used, {title}" for title in means), "largest pairs over it")
            lines += [f"### {what}", "", *table(heads, rows), ""]
    return lines


def utilisation(result: Result) -> dict[str, float]:
    """Return the mean utilization of each directed link after the warm-up, from 0 to 1."""
    columns = result.numpy("links")
    after = columns["time_ns"] > result.summary["averages_from_ns"]
    names, at = np.unique(columns["link"][after].astype(str), return_inverse=True)
    means = np.bincount(at, columns["utilisation"][after]) / np.maximum(np.bincount(at), 1)
    return dict(zip(names.tolist(), means.tolist(), strict=True))


def _trees(result: Result) -> list[str]:
    trees = sorted(result.forest.trees, key=lambda tree: (-tree.peak_branches, tree.tree))
    rows = [
        (
            tree.root, tree.root_kind, tree.kind, simulated(tree.lifetime_ns), tree.peak_branches,
            len({one.host for one in tree.contributors}), len({one.host for one in tree.victims}),
        )
        for tree in trees[:TREES]
    ]  # fmt: skip
    heads = ("root", "kind of root", "kind", "lives", "branches at most", "contributors", "victims")
    lines = ["## Congestion trees without control", "", *table(heads, rows), ""]
    if len(trees) > TREES:
        lines += [f"{len(trees) - TREES} more are in `without-control/trees.parquet`.", ""]
    lost: dict[tuple[str, str], int] = {}
    for tree in trees:
        for one in tree.victims:
            lost[one.class_, one.host] = lost.get((one.class_, one.host), 0) + one.lost_bytes
    worst = sorted(lost.items(), key=lambda item: (-item[1], item[0]))[:VICTIMS]
    span_ns = result.summary["simulated_ns"]
    losers = [(host, class_, in_words(bytes_ * 8 / span_ns)) for (class_, host), bytes_ in worst]
    if losers:
        lines += ["Hosts that lose most because of other hosts' trees:", ""]
        lines += [*table(("host", "traffic", "lost, Gbit/s"), losers), ""]
    return lines


def _control(studied: Simulated) -> list[str]:
    wanted = offered_by_class(studied)
    by_run = {title: classes(result) for title, result in studied.runs.items()}
    rows = []
    for name in wanted:
        cells: list[object] = [name, in_words(wanted[name])]
        for found in by_run.values():
            received, tail = found[name]
            cells.append(in_words(received) + ("" if tail is None else f" ({in_words(tail)} us)"))
        rows.append(cells)
    marks: list[object] = ["packets marked", ""]
    marks += [f"{result.summary['fecn_marks']:,}" for result in studied.runs.values()]
    trees: list[object] = [
        "links in trees",
        "",
        *(f"{links_in_trees(one):.0f}" for one in studied.runs.values()),
    ]
    hot: list[object] = [
        "hotspots' links used",
        "",
        *(f"{hotspot_share(studied, one):.0%}" for one in by_run),
    ]
    return [
        "## What control changes",
        "",
        "Received, Gbit/s in all, and within which time 99 % of the packets arrive. `report.html` shows "
        "these runs side by side.",
        "",
        *table(("traffic", "offered", *by_run), [*rows, hot, trees, marks]),
        "",
    ]


def _recommended(studied: Studied) -> list[str]:
    tuned = studied.tuned
    settings = tune_report.shown_settings(tuned)
    verdict = studied.verdict
    heading = "Recommended settings" if verdict.recommended else "Settings with the best score"
    *harms, sentence = studied.lead()
    lines = ["## Recommendation", "", *(f"**{one}**\n" for one in harms), sentence, ""]
    lines += [f"### {heading}", "", *table(("key", "value"), list(settings.items())), ""]
    weights = ", ".join(f"{one.name} {one.weight:g}" for one in tuned.tuning.objectives if one.weight)
    lines += [
        f"Of {len(tuned.found.trials)} settings. The score is a geometric mean with the weights {weights}; "
        "the other columns are only compared. Compared with known settings, over all draws of the load:",
        "",
    ]
    rows = [(one.name, one.in_words, *one.objectives.values()) for one in tuned.contrasts]
    names = [objective.name for objective in tuned.tuning.objectives]
    lines += [
        *table(("times as good as", "score", *names), rows),
        "",
        "Intervals over seeds allow for repeated tests and for the number of settings, so that a false "
        "recommendation has a probability of at most 5 %. If an interval contains 1, no difference is "
        "shown.",
        "",
        *tune_report.values_table(tuned),
        "",
        *_options(studied),
    ]
    lines += [
        "Margin: the score with the next smaller and the next larger value of one parameter, relative to the "
        "score with the value of these settings:",
        "",
    ]
    lines += [*table(("parameter", "value", "relative score with other values"), margin_rows(studied)), ""]
    where = f"`{OPTIONS}` has the lines to paste"
    if verdict.recommended is None:
        where = f"`{OPTIONS}` leaves control off, `{COSTLY_OPTIONS}` has the lines for these settings"
    lines += [f"{where}; `tune.toml` searches finer: `silvan tune tune.toml`.", ""]
    return lines


def _options(studied: Studied) -> list[str]:
    """Return a table of all settings that were tried on fresh seeds, with their gain and harm."""
    rows = []
    for one in studied.verdict.options:
        keys = tune_report.shown_keys(one.candidate.setting.keys)
        settings = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in keys.items())
        name = f"{settings}{' (recommended)' if one is studied.verdict.recommended else ''}"
        rows.append((name, one.seeds, one.against_off.in_words, one.in_words()))
    return [
        "Settings that were tried on fresh seeds, compared with no control; `figures/tradeoff.png` has all "
        "settings of the survey:",
        "",
        *table(("settings", "seeds", "score", "harm"), rows),
        "",
    ]


def margin_rows(studied: Studied) -> list[tuple[str, str, str]]:
    """Return the name and the value of each parameter, and the relative scores of neighboring values."""
    rows = []
    for name, margin in studied.margins.items():
        kept = [f"{ratio:.2f} with {as_text(other)}" for other, ratio in margin.near]
        rows.append(
            (name, as_text(margin.value), ", ".join([*kept, *[margin.end] * bool(margin.end)]) or "-")
        )
    return rows


def numbers(simulated: Simulated) -> dict[str, Any]:
    """Return the numbers in ``study.json``, which do not depend on how the study was executed."""
    site = simulated.site
    share = simulated.offered / site.capacity
    means = {title: utilisation(result) for title, result in simulated.runs.items()}
    return {
        "fabric study": site.report["topology"],
        "hosts": site.report["hosts"],
        "deadlock": site.report["deadlock"],
        "unfinished": [asdict(one) for one in simulated.unfinished],
        "load": {
            group.name: {"hosts": list(group.hosts), "to": list(group.targets), "share": group.share}
            for group in simulated.load.groups
        },
        "classes": {
            title: {
                name: {"received_gbit_s": received, "p99_us": tail}
                for name, (received, tail) in classes(result).items()
            }
            for title, result in simulated.runs.items()
        },
        "links_in_trees": {title: links_in_trees(result) for title, result in simulated.runs.items()},
        "busy_links": [name for name, _ in busy(simulated)] if OFF in simulated.runs else [],
        "links": {
            link: {
                "offered_share": float(share[n]),
                **{title: own.get(link, 0.0) for title, own in means.items()},
            }
            for n, link in enumerate(site.routes.links)
        },
        "notes": list(simulated.notes),
        **(_judged(simulated) if isinstance(simulated, Studied) else {}),
    }


def _judged(studied: Studied) -> dict[str, Any]:
    """Return the numbers of a study that compared settings."""
    return {
        "verdict": {
            "sentence": studied.verdict.sentence(),
            "recommended": studied.verdict.recommended is not None,
            "choice": studied.verdict.choice is not None,
            "undecided": studied.verdict.is_undecided,
            "options": [
                {
                    "settings": dict(one.candidate.setting.keys),
                    "score": [
                        one.against_off.score.ratio,
                        one.against_off.score.low,
                        one.against_off.score.high,
                    ],
                    "seeds": one.seeds,
                    "harms": [_effect(harm) for harm in one.harms],
                    "undecided": [_effect(effect) for effect in one.undecided],
                }
                for one in studied.verdict.options
            ],
        },
        "margins": {
            name: {
                "recommended": margin.value,
                "one_step_away": [list(one) for one in margin.near],
                "end": margin.end,
            }
            for name, margin in studied.margins.items()
        },
        "survey": tune_report.numbers(studied.tuned),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "class": effect.class_name,
        "objective": effect.objective.name,
        "measure": "received" if effect.objective.larger else "p99 latency",
        "ratio": [effect.ratio.ratio, effect.ratio.low, effect.ratio.high],
        "rules_out": effect.rules_out,
    }
