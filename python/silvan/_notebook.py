"""Renders results, comparisons, forests and sweeps as HTML for notebooks.

Names come from untrusted files, so all text is escaped with :func:`html.escape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from silvan._comparison_text import (
    calibrations,
    change_cell,
    footnotes,
    letter,
    losses,
    mean_cell,
    rows_that_differ,
    setting_cell,
)
from silvan.report import _picture, _summary, _text
from silvan.report._scene import Scene

if TYPE_CHECKING:
    from silvan.comparison import Comparison
    from silvan.forest import Forest
    from silvan.results import Result
    from silvan.sweeps.table import Sweep

#: Maximum number of rows of a table, of sentences of an account, of warnings and of failed runs. The table of
#: the results of a comparison has no maximum.
MOST_ROWS = 12
#: Style of the network image, for light and dark notebooks.
_STILL = (
    "<style>.silvan-still svg { width: 100%; max-width: 1000px; fill: none; }"
    ".silvan-still .idle { stroke: #8d97a3; stroke-opacity: 0.45; stroke-width: 0.7; }"
    ".silvan-still .branch { stroke-width: 3; } .silvan-still .root { stroke-width: 3; }"
    ".silvan-still .host, .silvan-still .switch { stroke: #6b7480; stroke-linecap: round; }"
    ".silvan-still .switch { stroke-linecap: square; }</style>"
)


def of_result(result: Result) -> str:
    """Return the main numbers, the account, the warnings and the table names of a run."""
    time = _text.time(result.summary.get("simulated_ns", 0))[0]
    parts = [
        f"<p><b>{_cut(result.name)}</b>: {escape(time)} simulated</p>",
        _summary.side_by_side([result], ["this run"]),
        *(f"<p>{_text.sentence(line)}</p>" for line in result.account[:MOST_ROWS]),
        *(f"<p>Warning: {_text.sentence(line)}</p>" for line in result.warnings[:MOST_ROWS]),
        f"<p>Tables: {escape(', '.join(result.tables))}</p>",
    ]
    return f"<div>{''.join(parts)}</div>"


def of_comparison(found: Comparison) -> str:
    """Return the groups, the proven losses, and the settings and results that differ."""
    letters = [letter(number) for number in range(len(found.groups))]
    groups = "".join(
        f"<p><b>{name}</b>: {_cut(group.runs[0].name)}, "
        f"seed{'s' if len(group.seeds) > 1 else ''} {escape(', '.join(map(str, group.seeds)))}</p>"
        for name, group in zip(letters, found.groups, strict=True)
    )
    settings = [(key, *map(setting_cell, values)) for key, values in found.settings.items()]
    heads = ["result", "unit", letters[0], *(part for name in letters[1:] for part in (name, "change"))]
    results = []
    for row in rows_that_differ(found):
        cells = [row.measure, row.unit, mean_cell(row.means[0])]
        for mean, change in zip(row.means[1:], row.changes, strict=True):
            cells += [mean_cell(mean), change_cell(change)]
        results.append(cells)
    lost = "".join(
        f"<p><b>Worse in {escape(heads)}:</b> {escape('; '.join(lines))}</p>"
        for heads, lines in losses(found, letters)
    )
    parts = [
        *(f"<p>Warning: {escape(line)}</p>" for line in found.incomparable),
        groups,
        *(f"<p>{escape(line)}</p>" for line in calibrations(found)),
        lost,
        _table(["setting", *letters], settings[:MOST_ROWS], len(settings)) if settings else "",
        _table(heads, results, 0) if results else "<p>The results do not differ.</p>",
        *(f"<p>{escape(line)}</p>" for line in footnotes(found)),
    ]
    return f"<div>{''.join(parts)}</div>"


def of_forest(forest: Forest, result: Result) -> str:
    """Return a one-line summary and, if there are trees, an image of the network and the largest trees.

    The image shows the time at which the number of links in trees is closest to its average.
    """
    head = f"<p>{escape(repr(forest)[1:-1])}</p>"
    if not forest.trees:
        return f"<div>{head}</div>"
    scene = Scene(result)
    largest = sorted(forest.trees, key=lambda tree: (-tree.peak_queued_bytes, tree.tree))
    heads = (
        "tree",
        "",
        "root",
        "kind",
        "born",
        "lived",
        "branches",
        "bytes waiting",
        "contributors",
        "victims",
    )
    rows = [
        (
            str(tree.tree), _Swatch(_picture.HUES[scene.hues[tree.tree - 1]]), tree.root, tree.kind,
            _text.time(tree.born_ns)[0], _text.time(tree.lifetime_ns)[0], str(tree.peak_branches),
            _text.size(tree.peak_queued_bytes)[0], str(len(tree.contributors)), str(len(tree.victims)),
        )
        for tree in largest[:MOST_ROWS]
    ]  # fmt: skip
    at = _text.time(scene.clock.frames_ns[scene.typical])[0]
    return (
        f'<div class="silvan-still">{_STILL}{head}{scene.still()}<p>The network at {escape(at)}, when as '
        f"many links are in trees as on average. The largest trees:</p>"
        f"{_table(heads, rows, len(largest))}</div>"
    )


def of_sweep(sweep: Sweep) -> str:
    """Return the first rows of a sweep and its first failures.

    The columns are the axes with several values, the seed and the measures.
    """
    axes = [(n, axis) for n, axis in enumerate(sweep.axes) if len(axis) > 1]
    heads = [_with_unit(axis.name, axis.unit) for _, axis in axes] + ["seed"]
    heads += [_with_unit(name, unit) for name, unit in sweep.measures.items()]
    rows = [
        [
            *(_shown(axis.labels[row.point.steps[n]]) for n, axis in axes),
            _shown(row.seed),
            *(
                ["failed"] * len(sweep.measures)
                if row.error is not None
                else [_shown(row.values.get(name)) for name in sweep.measures]
            ),
        ]
        for row in sweep.rows[:MOST_ROWS]
    ]
    failed = "".join(f"<p>Failed: {_cut(str(one), 400)}</p>" for one in sweep.failures[:MOST_ROWS])
    head = f"<p>{escape(repr(sweep)[1:-1])}</p>"
    return f"<div>{head}{_table(heads, rows, len(sweep.rows))}{failed}</div>"


class _Swatch(str):
    """The background color of a table cell in CSS notation."""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    head = "".join(f"<th>{_cut(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    more = f"<p>And {count - MOST_ROWS:,} more.</p>" if count > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: str) -> str:
    if isinstance(value, _Swatch):
        return f'<td style="background: {value}; min-width: 1em"></td>'
    return f"<td>{_cut(value)}</td>"


def _shown(value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _cut(text: str, letters: int = 80) -> str:
    return escape(text if len(text) <= letters else f"{text[: letters - 1]}…")
