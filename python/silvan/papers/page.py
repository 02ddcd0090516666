"""Writes the record as Markdown: a headline, a summary, and a page per paper.

The pages are part of the site and not of the repository. A test compares the headline with the README.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from silvan import _files
from silvan.papers import history, score
from silvan.papers.catalogue import (
    CAUSES,
    COMPATIBLE,
    NOT_RUN,
    READINGS,
    SHOWN,
    UNMET,
    VERDICTS,
    Experiment,
)
from silvan.papers.causes import Cause
from silvan.papers.history import History
from silvan.papers.record import Entry, Found
from silvan.papers.rows import Row, counts, marks, simulated_text, tolerance_text


def headline(found: Found, fixed: History | None) -> str:
    """Return the score in a few sentences; `fixed` is the set of rows that is followed over time."""
    rows = score.compared(found, score.PAPERS)
    numbers, orders = (score.of_category(rows, name) for name in (score.NUMBERS, score.ORDERS))
    others = score.of_category(score.compared(found, score.OTHERS), score.NUMBERS)
    met, held, of_others = score.met(numbers), score.met(orders), score.met(others)
    free, calibrated = score.by_calibration(numbers)
    free_orders, _ = score.by_calibration(orders)
    margins = sorted(row["margin"] for row in held if "margin" in row)
    sentences = [
        f"Of {len(score.printed(rows))} values that the eight papers print, {len(numbers)} are counted; "
        f"Silvan reproduces {len(met)} of them ({_percent(len(met), len(numbers))}): "
        f"{len(score.met(free))} of {len(free)} free of calibration, and {len(score.met(calibrated))} of "
        f"{len(calibrated)} that were used to choose parameters.",
        *([_followed(fixed, found)] if fixed else []),
        f"{len(orders)} rows compare two simulated values of which the papers state the larger one; "
        f"{len(held)} of these orderings hold ({len(score.met(free_orders))} of {len(free_orders)} free of "
        "calibration).",
    ]
    if margins:
        large = sum("weak" in row for row in held)
        sentences.append(
            f"For these, the median ratio of the two simulated values is {margins[len(margins) // 2]:.2g}, "
            f"and {large} ratios are more than 2."
        )
    if orders:
        stated = score.by_statement(orders)
        sentences.append(
            f"The orderings test {len(stated)} statements; {len(score.hold(stated))} of these hold in all "
            "their orderings."
        )
    if others:
        sentences.append(
            f"Of {len(others)} values from other sources, Silvan reproduces {len(of_others)} "
            f"({_percent(len(of_others), len(others))})."
        )
    if waiting := sum(row["verdict"] == NOT_RUN for row in (*numbers, *others)):
        sentences.append(f"{waiting} values have not been simulated with the present model.")
    return " ".join(sentences)


def _followed(fixed: History, found: Found) -> str:
    """Return a sentence on the first point of the fixed set and the present."""
    met = [sum(one == "met" for one in own.values()) for own in history.points(fixed, found).values()]
    return (
        f"Of the {len(fixed.rows)} values that were counted on {fixed.points[0].split()[0]}, Silvan "
        f"reproduced {met[0]} then and reproduces {met[-1]} now, by the same tolerances."
    )


def summary(found: Found, fixed: History | None) -> str:
    """Return the score as Markdown: the headline, counts by category, over time, by paper and by reading."""
    lines = [f"**{headline(found, fixed)}**", "", *_categories(found)]
    lines += _statements(found)
    if fixed:
        lines += _over_time(fixed, found)
    laws = [row for experiment, _, own in found.values() if experiment.law for row in own]
    if laws:
        met = len(score.met(laws))
        lines += [f"{len(laws)} laws and closed forms are not counted; {met} of them are met.", ""]
    lines += [
        "| paper | numbers met | orderings that hold | seeds |",
        "| --- | --- | --- | --- |",
    ]
    for paper, members in by_paper(found):
        if members[0][0].law:
            continue
        own = [row for _, _, table in members for row in table]
        seeds = sorted({row.get("seeds", 1) for row in own if row["verdict"] != NOT_RUN})
        cells = [*_met_of(own), ", ".join(map(str, seeds)) or "-"]
        lines.append(f"| {paper} | {' | '.join(cells)} |")
    quick = [e.id for e, entry, _ in found.values() if entry and entry.quick]
    lines += ["", f"Experiments recorded from quick runs: {', '.join(quick) or 'none'}."]
    lines += ["", f"The eight papers were read {len(READINGS)} times, and each reading added rows:", ""]
    rows = score.compared(found, score.PAPERS)
    for reading in READINGS:
        numbers, orders = _met_of([row for row in rows if row["reading"] == reading])
        lines.append(f"- reading {reading}: {numbers} numbers, {orders} orderings")
    return "\n".join([*lines, *_causes(score.compared(found))])


def _met_of(rows: Sequence[Row]) -> list[str]:
    """Return how many of the numbers, and how many of the orderings, are met, as two texts."""
    of = [score.of_category(rows, name) for name in (score.NUMBERS, score.ORDERS)]
    return [f"{len(score.met(each))} of {len(each)}" for each in of]


def _categories(found: Found) -> list[str]:
    """Return the counts by category and verdict as a table, with other sources after a slash."""
    lines = [
        "| | met, free of calibration | met, calibrated | counted of printed |",
        "| --- | --- | --- | --- |",
    ]
    by_line = {line: score.compared(found, line) for line in score.LINES}
    for line, rows in by_line.items():
        free, calibrated = score.by_calibration(score.of_category(rows, score.NUMBERS))
        if free or calibrated:
            lines.append(
                f"| {line} | {len(score.met(free))} of {len(free)} | {len(score.met(calibrated))} of "
                f"{len(calibrated)} | {len(free) + len(calibrated)} of {len(score.printed(rows))} |"
            )
    lines += [
        "",
        "Rows by category and verdict; those of other sources follow after a slash:",
        "",
        f"| category | rows | {' | '.join(VERDICTS)} |",
        f"| --- | --- | {' | '.join('---' for _ in VERDICTS)} |",
    ]
    for name in score.CATEGORIES:
        own = [score.of_category(rows, name) for rows in by_line.values()]
        if any(own):
            numbers = zip(*([len(rows), *counts(rows).values()] for rows in own), strict=True)
            lines.append(f"| {name} | {' | '.join(_pair(*each) for each in numbers)} |")
    return [*lines, ""]


def _statements(found: Found) -> list[str]:
    """Return the statements of the eight papers that several orderings test, as a table."""
    orders = score.of_category(score.compared(found, score.PAPERS), score.ORDERS)
    several = {name: rows for name, rows in score.by_statement(orders).items() if len(rows) > 1}
    if not several:
        return []
    lines = [
        "Statements that several orderings test:",
        "",
        "| statement | orderings that hold | orderings |",
        "| --- | --- | --- |",
    ]
    for name, rows in several.items():
        names = ", ".join(f"{row['id']}.{row['key']}" for row in rows)
        lines.append(f"| {name} | {len(score.met(rows))} of {len(rows)} | {names} |")
    return [*lines, ""]


def _over_time(fixed: History, found: Found) -> list[str]:
    """Return the counts of the fixed set by point and verdict as a table."""
    lines = [
        f"The same {len(fixed.rows)} rows over time, judged by the same expected numbers and tolerances:",
        "",
        "| date and commit | met | missed | open | not run |",
        "| --- | --- | --- | --- | --- |",
    ]
    for label, own in history.points(fixed, found).items():
        numbers = [sum(one == name for one in own.values()) for name in ("met", "missed", "open", NOT_RUN)]
        lines.append(f"| {label} | {' | '.join(map(str, numbers))} |")
    return [*lines, ""]


def _pair(papers: int, others: int) -> str:
    """Return two counts as one cell."""
    return f"{papers}/{others}" if others else str(papers)


def _causes(rows: Iterable[Row]) -> list[str]:
    """Return a table of the causes of rows that are missed, open or incompatible."""
    counted = (score.NUMBERS, score.ORDERS, score.RESTATED)
    # The reason of a row that cannot be decided is not a cause in the model.
    unmet = [row for row in rows if row["verdict"] in UNMET and "undecidable" not in row]
    if not unmet:
        return []
    lines = [
        "",
        "Why rows are missed, open or incompatible; the pages of the papers say more:",
        "",
        "| cause | numbers | orderings | restated | other | experiments |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cause, text in (*CAUSES.items(), ("", "no cause is given")):
        own = [row for row in unmet if row.get("cause", "") == cause]
        if own:
            by_column = [len(score.of_category(own, name)) for name in counted]
            ids = ", ".join(dict.fromkeys(row["id"] for row in own))
            cells = [text, *map(str, by_column), str(len(own) - sum(by_column)), ids]
            lines.append(f"| {' | '.join(cells)} |")
    total = [len(score.of_category(unmet, name)) for name in counted]
    cells = ["all", *map(str, total), str(len(unmet) - sum(total)), ""]
    return [*lines, f"| {' | '.join(cells)} |"]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def by_paper(found: Found) -> list[tuple[str, list[tuple[Experiment, Entry | None, list[Row]]]]]:
    """Return the experiments by paper: the papers with numbers first, then other sources, then the laws."""
    groups: dict[str, list[tuple[Experiment, Entry | None, list[Row]]]] = {}
    for member in found.values():
        groups.setdefault(LAWS if member[0].law else member[0].paper, []).append(member)
    order = sorted(groups, key=lambda name: (name == LAWS, not name.startswith("Paper "), name))
    return [(name, groups[name]) for name in order]


#: The title of the section of experiments whose numbers follow from the rules of the model.
LAWS = "Laws and closed forms"


def slug(paper: str) -> str:
    """Return the file name of a paper's page without its suffix."""
    return re.sub(r"[^a-z0-9]+", "-", paper.lower()).strip("-")


def paper_pages(found: Found, causes: Sequence[Cause], notes: Path, images: str) -> dict[str, str]:
    """Return the page of each paper by file name.

    A page contains the rows of the paper's experiments, the causes that were tested, and, if it exists, the
    note in the folder ``notes`` about the choice of parameters. ``images`` is the folder of figures relative
    to the pages.
    """
    return {
        f"{slug(paper)}.md": _paper_page(paper, members, causes, notes, images)
        for paper, members in by_paper(found)
    }


def _paper_page(
    paper: str,
    members: Sequence[tuple[Experiment, Entry | None, list[Row]]],
    causes: Sequence[Cause],
    notes: Path,
    images: str,
) -> str:
    title = paper[:1].upper() + paper[1:]
    lines = [f"# {title}", ""]
    own = [row for experiment, _, rows in members if not experiment.law for row in rows]
    if own:
        numbers, orders = (score.of_category(own, name) for name in (score.NUMBERS, score.ORDERS))
        lines += [
            f"Simulations meet {len(score.met(numbers))} of {len(numbers)} two-sided numbers that can be "
            f"decided; {len(score.met(orders))} of {len(orders)} orderings hold. The page on the published "
            "experiments describes how to read the tables.",
            "",
        ]
    assumed: dict[str, str] = {}
    for experiment, entry, rows in members:
        first = assumed.setdefault(experiment.assumption, experiment.id)
        lines += [*_head(experiment, entry, first, images), *_table(experiment, rows), *_notes(rows)]
    tested = [cause for cause in causes if cause.paper == paper]
    if tested:
        lines += ["## Causes that were tested", "", *_causes_table(tested)]
    note = notes / f"{slug(paper)}.md"
    if note.is_file():
        lines += ["## How parameters were chosen", "", _files.read_text(note).strip(), ""]
    return "\n".join(lines)


def _causes_table(causes: Iterable[Cause]) -> list[str]:
    lines = [
        "An adopted cause holds for all experiments of its system. Numbers are those of one seed, unless the "
        "last column names more.",
        "",
        "| experiments | cause | quantity | published | before | after | decision | why |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in causes:
        cells = (", ".join(one.ids), one.cause, one.quantity, one.published, one.before, one.after)
        lines.append(f"| {' | '.join((*cells, one.decision, one.why))} |")
    return [*lines, ""]


def _head(experiment: Experiment, entry: Entry | None, first: str, images: str) -> list[str]:
    """Return the lines before a table; `first` is the first experiment with the same assumptions."""
    if entry is None:
        runs = "No result is on record."
    else:
        seeds = len(next(iter(entry.values.values())))
        length = "Quick runs" if entry.quick else "Full runs"
        runs = f"{length} without random choices."
        if not experiment.deterministic:
            runs = f"{length}, {seeds} seeds." if seeds > 1 else f"{length}, one seed."
    source = experiment.source[:1].upper() + experiment.source[1:]
    lines = [f"## {experiment.id}: {experiment.title}", "", f"{source}. {experiment.about} {runs}", ""]
    if experiment.assumption:
        same = first != experiment.id
        text = f"The same as in {first}." if same else experiment.assumption
        lines += [f"**Assumptions.** {text}", ""]
    if experiment.figure:
        lines += [f"![{experiment.title}]({images}/{experiment.figure})", ""]
    return lines


def _table(experiment: Experiment, rows: Iterable[Row]) -> list[str]:
    lines = [
        "| quantity | unit | published | not published | simulated | tolerance | verdict | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        verdict = row["verdict"] if row["verdict"] in ("met", COMPATIBLE, SHOWN) else f"**{row['verdict']}**"
        number = f"{row['expected']:.4g}"
        is_published = row["published"] is not None
        cells = (
            row["quantity"],
            row["unit"],
            number if is_published else "",
            "" if is_published else f"{number} ({row['provenance']})",
            simulated_text(row),
            tolerance_text(row),
            ", ".join((verdict, *marks(row))),
            row["source"].removeprefix(f"{experiment.paper}, "),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes below a table, such as reasons and the sources of expected numbers."""
    lines = []
    for title, name in (
        ("Reasons for numbers that are missed, open, incompatible or not run", "reason"),
        ("Where expected numbers come from if the paper does not print them", "basis"),
        ("Reasons why rows are weak", "weak"),
        ("Reasons why rows cannot fail", "trivial"),
        ("Reasons why the source does not allow a decision", "undecidable"),
        ("Rows with the same printed number", "duplicate_of"),
        ("Rows that are counted instead of rows that state the same", "restated"),
    ):
        found: dict[str, list[str]] = {}
        for row in rows:
            if name in row and (name != "weak" or not row["weak"].startswith("It clears its bound")):
                what = "all rows" if row["verdict"] == NOT_RUN and name == "reason" else row["quantity"]
                own = found.setdefault(_note(row, name), [])
                own += [what] if what not in own else []
        if found:
            lines += [f"{title}:", ""]
            lines += [f"- *{_listed(own, len(rows))}*: {text}" for text, own in found.items()]
            lines.append("")
    return lines


def _note(row: Row, name: str) -> str:
    """Return the text of a note; the note of a reason begins with the cause."""
    text: str = row[name]
    if name == "reason" and "cause" in row:
        cause = CAUSES[row["cause"]]
        return f"{cause[:1].upper()}{cause[1:]}. {text}"
    return text


def _listed(quantities: Sequence[str], of: int) -> str:
    return "All rows" if len(quantities) == of > 1 else "; ".join(quantities)
