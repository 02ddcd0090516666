"""Creates the page's text: tables that need no scripts, the account, the settings, the provenance.

Names come from untrusted files, so all text is escaped with :func:`html.escape`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from silvan import _control
from silvan.report._roots import Roots, letter

if TYPE_CHECKING:
    from silvan.results import Result

#: Maximum number of rows of a table, because browsers are slow with longer tables.
MOST_ROWS = 400
#: Settings and provenance values with more characters are truncated.
MOST_LETTERS = 2_000

#: The text of a cell, and the value by which the column is sorted.
Cell = tuple[str, float | str]


def number(value: float, digits: int = 2) -> Cell:
    """Format a number as a cell; NaN becomes a dash."""
    return ("\N{EN DASH}" if np.isnan(value) else f"{value:,.{digits}f}", float(value))


def count(value: float) -> Cell:
    """Format a whole number as a cell."""
    return (f"{int(value):,}", float(value))


def time(value_ns: float) -> Cell:
    """Format a time as a cell."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value_ns >= size:
            return (f"{value_ns / size:,.4g} {unit}", float(value_ns))
    return (f"{value_ns:,.0f} ns", float(value_ns))


def size(value: float) -> Cell:
    """Format a number of bytes as a cell."""
    for unit, whole in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= whole:
            return (f"{value / whole:,.3g} {unit}", float(value))
    return (f"{value:,.0f} B", float(value))


def share(value: float) -> Cell:
    """Format a share from 0 to 1 as a cell in percent."""
    return (f"{100 * value:.1f} %", float(value))


def name(value: str) -> Cell:
    """Format text as a cell."""
    return (value, value)


def table(title: str, identifier: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table with at most :data:`MOST_ROWS` rows, and the number of omitted rows."""
    rows = list(rows)
    if not rows:
        return f'<section class="table"><h3>{escape(title)}</h3><p class="none">None.</p></section>'
    numeric = [not isinstance(cell[1], str) for cell in rows[0]]
    head = "".join(
        f'<th scope="col"{" class=number" if is_number else ""}>{escape(text)}</th>'
        for text, is_number in zip(heads, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p class=none>And {len(rows) - MOST_ROWS:,} more; the run's folder has all.</p>"
    return (
        f'<section class="table"><h3>{escape(title)} <small>{len(rows):,}</small></h3>'
        f'<div class="scroll"><table id="{escape(identifier)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more if len(rows) > MOST_ROWS else ''}</section>"
    )


def _cell(cell: Cell) -> str:
    shown, key = cell
    if isinstance(key, str):
        return f"<td>{escape(shown)}</td>"
    return f'<td class=number data-v="{key:.9g}">{escape(shown)}</td>'


def run_tables(result: Result, number_of_run: int, roots: Roots) -> str:
    """Return the tables of a run."""
    parts = [_trees(result, number_of_run, roots), _victims(result, number_of_run)]
    parts += [_contributors(result, number_of_run), _links(result, number_of_run)]
    parts += [_flows(result, number_of_run), _jobs(result, number_of_run)]
    parts += [_changes(result, number_of_run), _recoveries(result, number_of_run)]
    parts.append(_lost(result, number_of_run))
    return "".join(parts)


def _trees(result: Result, run: int, roots: Roots) -> str:
    if "trees" not in result.tables:
        return "<p class=none>This run has no congestion trees on record (<code>measure.forest</code>).</p>"
    heads = (
        "tree", "root", "root is", "kind", "share of root", "born", "last seen", "lived", "began", "ended",
        "branches", "depth", "bytes waiting", "contributors", "victims",
    )  # fmt: skip
    trees = sorted(result.forest.trees, key=lambda tree: (-tree.lifetime_ns, tree.tree))
    rows = [
        (
            count(tree.tree), name(f"{letter(roots[tree.root])} {tree.root}"),
            name(tree.root_kind), name(tree.kind), share(tree.root_share),
            time(tree.born_ns), time(tree.last_ns), time(tree.lifetime_ns),
            name(_related(tree.origin, tree.from_tree)), name(_related(tree.end, tree.into_tree)),
            count(tree.peak_branches), count(tree.peak_depth),
            size(tree.peak_queued_bytes), count(len(tree.contributors)), count(len(tree.victims)),
        )
        for tree in trees
    ]  # fmt: skip
    return table("Congestion trees", f"trees-{run}", heads, rows)


def _related(what: str, tree: int) -> str:
    words = {"split": "split from", "moved": "moved, tree", "merged": "merged into"}
    return f"{words.get(what, what)} {tree}" if tree else what


def _victims(result: Result, run: int) -> str:
    if "victims" not in result.tables:
        return ""
    victims = sorted(
        (victim for tree in result.forest.trees for victim in tree.victims),
        key=lambda one: (-one.lost_bytes, one.tree, one.host, one.class_),
    )
    heads = ("host", "class", "tree", "from", "to", "samples", "not sent", "bytes not sent")
    rows = [
        (
            name(one.host), name(one.class_), count(one.tree), time(one.first_ns), time(one.last_ns),
            count(one.samples), share(one.lost_share), size(one.lost_bytes),
        )
        for one in victims
    ]  # fmt: skip
    return table("Victims", f"victims-{run}", heads, rows)


def _contributors(result: Result, run: int) -> str:
    if "contributors" not in result.tables:
        return ""
    contributors = sorted(
        (one for tree in result.forest.trees for one in tree.contributors),
        key=lambda one: (-one.samples, one.tree, one.host, one.class_),
    )
    heads = ("host", "class", "tree", "from", "to", "samples", "throttled in", "share of root")
    rows = [
        (
            name(one.host), name(one.class_), count(one.tree), time(one.first_ns), time(one.last_ns),
            count(one.samples), count(one.throttled_samples), share(one.share_of_root),
        )
        for one in contributors
    ]  # fmt: skip
    return table("Contributors", f"contributors-{run}", heads, rows)


def _links(result: Result, run: int) -> str:
    if "tree_links" not in result.tables or not result.tables["tree_links"].num_rows:
        return ""
    rows = result.coded("tree_links")
    codes, names = rows["link"]
    codes = np.asarray(codes)
    samples = max(result.tables["network"].num_rows, 1)
    in_trees = np.bincount(codes, minlength=len(names))
    depth = np.asarray(rows["depth"])
    as_root = np.bincount(codes[depth == 0], minlength=len(names))
    queued = np.zeros(len(names))
    np.maximum.at(queued, codes, np.asarray(rows["queued_bytes"]).astype(np.float64))
    trees: list[set[int]] = [set() for _ in names]
    pairs = np.unique(np.stack([codes.astype(np.int64), np.asarray(rows["tree"]).astype(np.int64)]), axis=1)
    for code, tree in pairs.T.tolist():
        trees[code].add(tree)
    order = sorted(np.flatnonzero(in_trees).tolist(), key=lambda one: (-in_trees[one], names[one]))
    heads = ("link", "in a tree", "as its root", "trees", "most bytes waiting")
    shown = [
        (
            name(names[one]), share(in_trees[one] / samples), share(as_root[one] / samples),
            count(len(trees[one])), size(queued[one]),
        )
        for one in order
    ]  # fmt: skip
    return table("Links in trees", f"links-{run}", heads, shown)


def _flows(result: Result, run: int) -> str:
    flows = result.summary.get("flows", [])
    latency = {one["class"]: one for one in result.summary.get("latency", []) if one["since"] == "injection"}
    kinds = result.summary.get("classes", [])
    ends = {flow["flow"]: f"{flow['from']} → {flow['to']}" for flow in flows}
    ends |= {job["job"]: f"{job['ranks']} ranks" for job in result.summary.get("jobs", [])}
    heads = ("class", "from and to", "received, Gbit/s", "marked packets", "median latency", "99 % below")
    rows = [
        (
            name(one["class"]), name(ends.get(one["class"], "a pattern")), number(one["received_gbit_s"], 3),
            share(one["marked_packets"] / max(one["delivered_packets"], 1)),
            time(latency[one["class"]]["p50_ns"] if one["class"] in latency else 0),
            time(latency[one["class"]]["p99_ns"] if one["class"] in latency else 0),
        )
        for one in kinds
    ]  # fmt: skip
    return table("Flows, patterns and jobs", f"flows-{run}", heads, rows)


def _jobs(result: Result, run: int) -> str:
    jobs = result.summary.get("jobs", [])
    if not jobs:
        return ""
    heads = (
        "job", "ranks", "began", "took", "on a crossbar", "times that", "messages", "a message, times alone",
        "computing", "sending", "lacking credit", "throttled",
    )  # fmt: skip
    rows = [
        (
            name(job["job"]), count(job["ranks"]), time(job["started_ns"]), time(job["span_ns"]),
            time(job["crossbar_ns"]), number(job["slowdown"] or np.nan), count(job["messages"]),
            number(job["message_slowdown_mean"] or np.nan), share(job["computing_share"]),
            share(job["sending_share"]), share(job["blocked_share"]), share(job["throttled_share"]),
        )
        for job in jobs
    ]  # fmt: skip
    return table("Jobs", f"jobs-{run}", heads, rows)


def _changes(result: Result, run: int) -> str:
    """Return the changes of links and hosts; empty if the scenario has no events."""
    if "events" not in result.tables:
        return ""
    rows = result.numpy("events")
    columns = (rows[key].tolist() for key in ("time_ns", "place", "state", "rate_gbit_s"))
    shown = [
        (time(at), name(str(place)), name(str(state)), number(rate, 3))
        for at, place, state, rate in zip(*columns, strict=True)
    ]
    return table("Changes of links and hosts", f"changes-{run}", ("at", "place", "is", "Gbit/s"), shown)


def _recoveries(result: Result, run: int) -> str:
    """Return how long the network took to recover from each change; empty without such a table."""
    if "recoveries" not in result.tables:
        return ""
    rows = result.numpy("recoveries")
    columns = (rows[key].tolist() for key in ("time_ns", "permitted_gbit_s", "recovered_ns", "victims"))
    heads = ("change at", "the network permits, Gbit/s", "hosts received 95 % of it after", "victims")
    shown = [
        (
            time(at), number(rate, 3), ("never", np.inf) if np.isnan(after) else time(after),
            number(victims, 0),
        )
        for at, rate, after, victims in zip(*columns, strict=True)
    ]  # fmt: skip
    return table("Recovery", f"recovery-{run}", heads, shown)


def _lost(result: Result, run: int) -> str:
    """Return the links on which packets were lost, largest number of bytes first; empty without a table."""
    if "losses" not in result.tables:
        return ""
    rows = result.numpy("losses")
    keys = ("link", "data_packets", "control_packets", "dropped_packets", "bytes")
    columns = (rows[key].tolist() for key in keys)
    shown = [
        (name(str(link)), count(data), count(control), count(dropped), size(lost))
        for link, data, control, dropped, lost in sorted(zip(*columns, strict=True), key=lambda row: -row[4])
    ]
    heads = ("link", "data packets", "control packets", "of these, dropped at full buffers", "bytes")
    return table("Lost packets, by the link on which they arrived", f"losses-{run}", heads, shown)


def sentence(line: str) -> str:
    """Return a sentence as HTML; names between backticks are shown as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line))


def account(result: Result) -> str:
    """Return the account and the warnings of a run."""
    told = "".join(f"<p>{sentence(line)}</p>" for line in result.account)
    warned = "".join(f"<p class=warning>Warning: {sentence(line)}</p>" for line in result.warnings)
    return told + warned


def lead(lines: Sequence[str]) -> str:
    """Return the first sentences of a report; the words of a sentence up to a colon are bold."""
    if not lines:
        return ""
    parts = (line.partition(": ") for line in lines)
    told = "".join(
        f"<p><strong>{sentence(head)}:</strong> {sentence(rest)}</p>" if colon else f"<p>{sentence(head)}</p>"
        for head, colon, rest in parts
    )
    return f'<section class="first lead">{told}</section>'


def settings(results: Sequence[Result], titles: Sequence[str]) -> str:
    """Return the settings that differ between runs, and all settings of each run."""
    all_settings = [flat(result) for result in results]
    parts = []
    if len(results) > 1:
        keys = [key for key in dict.fromkeys(key for one in all_settings for key in one) if key != "name"]
        different = [key for key in keys if len({one.get(key) for one in all_settings}) > 1]
        rows = [
            (name(key), *(name(_cut(one.get(key, "\N{EN DASH}"))) for one in all_settings))
            for key in different
        ]
        parts.append(table("Settings that differ", "settings", ("key", *titles), rows))
    for title, result in zip(titles, results, strict=True):
        parts.append(
            f"<details><summary>The scenario of {escape(title)}, in full</summary>"
            f"<pre>{escape(result.scenario_toml)}</pre></details>"
        )
        facts = ((key, _cut(_text(value))) for key, value in result.provenance.items())
        listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts)
        parts.append(
            f"<details><summary>Where {escape(title)} comes from</summary><dl>{listed}</dl></details>"
        )
    return "".join(parts)


def flat(result: Result) -> dict[str, str]:
    """Return all settings of a run as text, by dotted key.

    A scenario without a mechanism is named by its components.
    """
    found = _flat(tomllib.loads(result.scenario_toml))
    found.setdefault("congestion.mechanism", _control.name(found))
    return found


def _flat(value: Any, at: str = "") -> dict[str, str]:
    """Return nested settings as text, by dotted key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, str] = {}
    for key, inner in items:
        path = f"{at}.{key}" if at else str(key)
        if isinstance(inner, dict) or (
            isinstance(inner, list) and any(isinstance(one, dict) for one in inner)
        ):
            found |= _flat(inner, path)
        else:
            found[path] = _text(inner)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} …"
