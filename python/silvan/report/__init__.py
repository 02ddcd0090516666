"""A report on one or more runs, as one HTML file that any browser shows offline.

>>> from silvan import report
>>> report.write([off, on], "report.html")  # doctest: +SKIP

The page makes no network requests; its content security policy forbids them.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import silvan
from silvan import _comparison_text, _control, _files, comparison
from silvan._pages import digest, fill
from silvan.report import _events, _roots, _series, _summary, _text, _waits
from silvan.report._embedded import Embedded
from silvan.report._frames import MOST_FRAMES, Clock
from silvan.report._pack import Pack
from silvan.report._roots import Roots, letter
from silvan.report._scene import Scene

if TYPE_CHECKING:
    from silvan.delays import Why
    from silvan.results import Result

#: Scripts in the order in which the page contains them.
SCRIPTS = (
    "data.js", "network.js", "difference.js", "chart.js", "table.js", "save.js", "terms.js", "main.js",
    "start.js",
)  # fmt: skip
#: Maximum product of links and frames for which the page shows the utilization.
MOST_SHADES = 8_000_000
#: Maximum number of runs in a report.
MOST_RUNS = 6


def write(
    results: Sequence[Result],
    file: str | os.PathLike[str],
    *,
    titles: Sequence[str] | None = None,
    lead: Sequence[str] = (),
    explained: Sequence[Sequence[Why]] = (),
) -> Path:
    """Write a report on runs to an HTML file; return its path.

    The other arguments and the errors are those of :func:`html`. Raises `OSError` if the file cannot be
    written.
    """
    path = _new_file(file, "report.html")
    _files.write_text(path, html(results, titles=titles, lead=lead, explained=explained))
    return path


def is_report(path: Path) -> bool:
    """Return whether a file is a report of Silvan; raises `OSError` if it cannot be read."""
    with _files.plain(path).open("rb") as file:
        return b" \xe2\x80\x93 Silvan</title>" in file.read(20_000)


def embed(results: Sequence[Result], *, titles: Sequence[str] | None = None, height: int = 800) -> Embedded:
    """Return a report on runs for a notebook, in a frame with the given height in pixels.

    Raises the same errors as :func:`html`.
    """
    return Embedded(html(results, titles=titles), height)


def trace_events(
    results: Sequence[Result],
    file: str | os.PathLike[str],
    *,
    titles: Sequence[str] | None = None,
    explained: Sequence[Sequence[Why]] = (),
) -> Path:
    """Write counters, trees, waiting links, and causes of delays as trace events for Perfetto.

    Returns the path. The file is JSON, compressed if its name ends in ``.gz``. The other arguments and the
    errors are those of :func:`html`; raises `OSError` if the file cannot be written.
    """
    titles = _titled(results, titles)
    path = _new_file(file, "trace.json")
    _events.write(results, titles, path, _explained(results, explained))
    return path


def _new_file(file: str | os.PathLike[str], such_as: str) -> Path:
    path = Path(file)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"is a folder; name a file, such as {such_as}", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def html(
    results: Sequence[Result],
    *,
    titles: Sequence[str] | None = None,
    lead: Sequence[str] = (),
    explained: Sequence[Sequence[Why]] = (),
) -> str:
    """Return a report on runs as an HTML page.

    `titles` contains one title per run; the default is :func:`run_titles`. The page starts with the sentences
    in `lead`; the part of a sentence up to a colon is in bold. Sentences on what is worse follow, as in
    :func:`silvan.compare`. `explained` contains explanations of each run, from :func:`silvan.why`.

    Raises `ValueError` if there are no runs, too many runs, or not as many titles as runs, and
    :class:`silvan.SilvanError` for a run without tables.
    """
    titles = _titled(results, titles)
    pack = Pack()
    roots = _roots.of(results)
    explained = _explained(results, explained)
    pairs = zip(results, explained, strict=True)
    gathered = [_gather(result, found, pack, roots) for result, found in pairs]
    data = {"runs": [run | {"title": title} for (run, _), title in zip(gathered, titles, strict=True)]}
    stills = [still for _, still in gathered]
    return _page(
        results,
        explained,
        titles,
        [*lead, *_losses(results, titles)],
        stills,
        json.dumps(data, ensure_ascii=False),
        pack.text(),
    )


def _losses(results: Sequence[Result], titles: Sequence[str]) -> list[str]:
    """Return what is worse, if the runs form groups of several seeds, and differences of networks."""
    if len(results) < 2:
        return []
    found = comparison.compare(*results, force=True)
    names = [f"“{titles[group.given[0]]}”" for group in found.groups]
    return [f"Not the same: {line}" for line in found.incomparable] + [
        f"Worse: {groups}: {'; '.join(lines)}." for groups, lines in _comparison_text.losses(found, names)
    ]


def _titled(results: Sequence[Result], titles: Sequence[str] | None) -> Sequence[str]:
    if not 1 <= len(results) <= MOST_RUNS:
        raise ValueError(f"a report has 1 to {MOST_RUNS} runs, not {len(results)}")
    if bare := next((result for result in results if not result.tables), None):
        raise silvan.SilvanError(
            f"the run of `{bare.name}` has no tables, which a report needs: run it again"
        )
    if titles is None:
        return run_titles(results)
    if len(titles) != len(results):
        raise ValueError(f"{len(titles)} titles for {len(results)} runs")
    return titles


def run_titles(results: Sequence[Result], *, brief: bool = False) -> list[str]:
    """Name runs after their scenario; distinguish equal names by a setting that differs, or by number.

    Prefer the mechanism if it differs; otherwise use a setting whose value is different in all runs. If
    `brief`, mechanisms alone are names if they distinguish the runs.
    """
    names = [result.name for result in results]
    if brief and len(set(names)) == 1 and len({_mechanism(result) for result in results}) == len(names):
        return [_mechanism(result) for result in results]
    if len(set(names)) < len(names):
        mechanisms = [_mechanism(result) for result in results]
        if len(set(mechanisms)) == 1 and (key := _distinguishing_key(results)) is not None:
            last = key.rpartition(".")[2]
            return [f"{last} = {_text.flat(result).get(key, '-')}" for result in results]
        names = [f"{name}: {own}" for name, own in zip(names, mechanisms, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({at})" for at, name in enumerate(names, 1)]
    return names


def _distinguishing_key(results: Sequence[Result]) -> str | None:
    """Return the first key whose values are short and different in all runs; None if there is none."""
    settings = [_text.flat(result) for result in results]
    for key in dict.fromkeys(key for one in settings for key in one):
        values = {one.get(key, "-") for one in settings}
        if len(values) == len(results) and all(len(value) <= 24 for value in values):
            return key
    return None


def _mechanism(result: Result) -> str:
    return _control.of_toml(result.scenario_toml)


def _explained(results: Sequence[Result], explained: Sequence[Sequence[Why]]) -> Sequence[Sequence[Why]]:
    if explained and len(explained) != len(results):
        raise ValueError(f"explanations of {len(explained)} runs for {len(results)} runs")
    return explained or [()] * len(results)


def _gather(result: Result, explained: Sequence[Why], pack: Pack, roots: Roots) -> tuple[dict[str, Any], str]:
    """Return the data of a run for the scripts, and a still image of its network."""
    clock = Clock.of(result)
    run: dict[str, Any] = {
        "name": result.name,
        "frames": pack.add(clock.frames_ns / 1e3, "float32"),
        "step": clock.step,
        # End of the warm-up in us.
        "from": result.summary["averages_from_ns"] / 1e3,
        "charts": _series.charts(result, clock, roots, pack),
    }
    if "wiring" not in result.tables:
        return run, "<p class=none>No network: the run was made with <code>measure.forest = false</code>.</p>"
    scene = Scene(result, clock, roots)
    wiring, found = scene.wiring, scene.spans
    host = {name: at for at, name in enumerate(wiring.names[: wiring.hosts])}
    run |= {
        "nodes": wiring.names,
        "hosts": wiring.hosts,
        "links": wiring.link_names,
        "x": pack.add(scene.position[:, 0], "float32"),
        "y": pack.add(scene.position[:, 1], "float32"),
        "source": pack.add(wiring.source, "uint32", is_rising=True),
        "target": pack.add(wiring.target, "uint32", is_rising=True),
        "spans": {
            "link": pack.add(found["link"], "uint32", is_rising=True),
            **{name: pack.add(found[name], "uint16") for name in ("first", "last", "trees")},
            **{name: pack.add(found[name], "uint8") for name in ("depth", "isolated", "share")},
            **{name: pack.add(found[name], "uint32") for name in ("tree", "waits_for", "queued", "held")},
        },
        "trees": [
            [tree.root, tree.kind, tree.born_ns / 1e3, tree.last_ns / 1e3, hue, letter(roots[tree.root])]
            for tree, hue in zip(result.forest.trees, scene.hues.tolist(), strict=True)
        ],
        "contributors": _roles(result, "contributors", host, pack),
        "victims": _roles(result, "victims", host, pack),
        "failures": _failures(result, scene.number, pack),
        "causes": _waits.for_page(explained, wiring.link_names),
        "utilisation": _utilisation(result, clock, scene.number, pack),
    }
    return run, scene.still()


def _roles(result: Result, table: str, host: dict[str, int], pack: Pack) -> dict[str, Any]:
    rows = result.numpy(table)
    return {
        "tree": pack.add(rows["tree"], "uint32", is_rising=True),
        "host": pack.add([host[name] for name in rows["host"]], "uint32"),
        "first": pack.add(rows["first_ns"] / 1e3, "float32"),
        "last": pack.add(rows["last_ns"] / 1e3, "float32"),
    }


def _failures(result: Result, number: dict[str, int], pack: Pack) -> dict[str, Any]:
    """Return the times in us during which links are down."""
    rows = result.forest.failures
    end_ns = float(result.numpy("network")["time_ns"][-1]) if rows else 0.0
    return {
        "link": pack.add([number[one.link] for one in rows], "uint32"),
        "first": pack.add([one.first_ns / 1e3 for one in rows], "float32"),
        # The last frame must show a link that is down at the end.
        "last": pack.add([min(one.last_ns, 2 * end_ns) / 1e3 for one in rows], "float32"),
    }


def _utilisation(result: Result, clock: Clock, number: dict[str, int], pack: Pack) -> dict[str, Any] | None:
    """Return the utilization of links per frame, scaled to 0 to 15.

    None if it was not recorded, or if there are more than :data:`MOST_SHADES` values.
    """
    lines = _series.by_name(result, "links", "link", "utilisation")
    frames = len(clock.frames_ns)
    if not lines or len(number) * frames > MOST_SHADES:
        return None
    shades: NDArray[np.uint8] = np.zeros((len(number), frames), np.uint8)
    for name, values in lines:
        shades[number[name]] = np.round(np.nan_to_num(clock.mean(values)) * 15)
    return pack.add(shades.ravel(), "uint8")


def _asset(name: str) -> str:
    return resources.files("silvan.report").joinpath(name).read_text(encoding="utf-8")


def _page(
    results: Sequence[Result],
    explained: Sequence[Sequence[Why]],
    titles: Sequence[str],
    lead: Sequence[str],
    stills: Sequence[str],
    data: str,
    columns: str,
) -> str:
    script = "\n".join(_asset(name) for name in SCRIPTS)
    style = _asset("report.css")
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    roots = _roots.of(results)
    title = " vs. ".join(titles) if len(titles) <= 3 else f"{len(titles)} runs"
    values = {
        "POLICY": policy,
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": escape(title),
        "VERSION": escape(silvan.__version__),
        "COUNT": str(len(results)),
        "LEAD": _text.lead(lead),
        "WORDS": _summary.words(results, titles),
        "SUMMARY": _summary.side_by_side(results, titles),
        "NETWORKS": "".join(_network(at, *one) for at, one in enumerate(zip(titles, stills, strict=True))),
        "TABLES": "".join(
            _run(at, *one, roots) for at, one in enumerate(zip(titles, results, explained, strict=True))
        ),
        "SETTINGS": _text.settings(results, titles),
        # Escape this character, so that the data cannot contain the end tag of their element.
        "DATA": data.replace("<", "\\u003c"),
        "COLUMNS": columns,
    }
    return fill(_asset("page.html"), values)


def _network(at: int, title: str, still: str) -> str:
    return (
        f'<figure class="network" data-run="{at}">'
        f"<figcaption><span>{escape(title)}</span> <output></output></figcaption>"
        f'<div class="stage" tabindex="0" role="application" aria-label="The network of {escape(title)}">'
        f"{still}</div>"
        "</figure>"
    )


def _run(at: int, title: str, result: Result, explained: Sequence[Why], roots: Roots) -> str:
    return (
        f'<section class="run" data-run="{at}"><h2>{escape(title)}</h2>'
        f'<div class="account">{_text.account(result)}</div>{_waits.table(explained, at)}'
        f"{_text.run_tables(result, at, roots)}</section>"
    )


__all__ = [
    "MOST_FRAMES",
    "MOST_RUNS",
    "Embedded",
    "embed",
    "html",
    "is_report",
    "run_titles",
    "trace_events",
    "write",
]
