"""Write the record as Markdown: a headline, a summary, and a section per paper.

:func:`fill` writes each block of a page between a pair of marker lines (see :func:`markers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from silvan.papers.catalogue import (
    BOUND,
    CAUSES,
    NOT_RUN,
    ORDERING,
    PUBLISHED,
    SHOWN,
    TWO_SIDED,
    VERDICTS,
    Experiment,
)
from silvan.papers.record import Entry, Found
from silvan.papers.rows import Row, counts, marks, simulated_text, tolerance_text


def fill(text: str, found: Found) -> str:
    """Return the text of a page with its blocks updated.

    Raises:
        ValueError: The page has no block, or the lines of one are not a pair.

    """
    has_any = False
    for name, write in BLOCKS.items():
        begin, end = markers(name)
        if begin not in text and end not in text:
            continue
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise ValueError(f"there must be one line {begin!r} and then one line {end!r}")
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = f"{before}{begin}\n\n{write(found)}\n\n{end}{after}"
        has_any = True
    if not has_any:
        names = " or ".join(repr(markers(name)[0]) for name in BLOCKS)
        raise ValueError(f"no place for the record: there must be a line {names}")
    return text


def markers(name: str) -> tuple[str, str]:
    """Return the lines of a page between which the block of a name is written."""
    return (
        f"<!-- Begin of the {name}; `silvan papers record --page` writes it. -->",
        f"<!-- End of the {name}. -->",
    )


def headline(found: Found) -> str:
    """Return the score in two sentences."""
    rows = _compared(found)
    numbers = [row for row in rows if _category(row) == NUMBERS]
    orders = [row for row in rows if _category(row) == ORDERS]
    met, held = _met(numbers), _met(orders)
    margins = sorted(row["margin"] for row in held if "margin" in row)
    strong = sum("weak" not in row for row in held)
    text = (
        f"Of {len(numbers)} two-sided numbers that the papers print, simulations meet {len(met)} "
        f"({_percent(len(met), len(numbers))}). Of {len(orders)} orderings that they state, {len(held)} hold"
    )
    if margins:
        middle = margins[len(margins) // 2]
        text += f", by a median factor of {middle:.2g}; {len(held) - strong} of them by more than two"
    return f"{text}."


def summary(found: Found) -> str:
    """Return the score as Markdown: the headline, counts by category and counts by paper."""
    rows = _compared(found)
    laws = [row for experiment, _, own in found.values() if experiment.law for row in own]
    own_met = _met([row for row in rows if _category(row) == NUMBERS])
    calibrated = sum("calibrated" in row for row in own_met)
    lines = [
        f"**{headline(found)}**",
        "",
        f"{calibrated} of the {len(own_met)} numbers that are met were used to choose parameters of the "
        "model. "
        "The following table also shows the categories that the headline does not count:",
        "",
        f"| category | rows | {' | '.join(VERDICTS)} |",
        f"| --- | --- | {' | '.join('---' for _ in VERDICTS)} |",
    ]
    for name in CATEGORIES:
        lines.append(_count_line(name, [row for row in rows if _category(row) == name]))
    lines += [_count_line("laws and closed forms", laws), ""]
    lines += [
        "| paper | numbers met | orderings that hold | seeds | quick runs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for paper, members in _by_paper(found):
        if members[0][0].law:
            continue
        own = [row for _, _, table in members for row in table]
        of = {name: [row for row in own if _category(row) == name] for name in (NUMBERS, ORDERS)}
        cells = [f"{len(_met(each))} of {len(each)}" for each in of.values()]
        seeds = sorted({row.get("seeds", 1) for row in own if row["verdict"] != NOT_RUN})
        quick = [e.id for e, entry, _ in members if entry and entry.quick]
        cells += [", ".join(map(str, seeds)), ", ".join(quick) or "none"]
        lines.append(f"| {paper} | {' | '.join(cells)} |")
    added = [row for row in rows if "second_reading" in row and _category(row) in (NUMBERS, ORDERS)]
    if added:
        counted = [[row for row in added if _category(row) == name] for name in (NUMBERS, ORDERS)]
        lines += [
            "",
            "Some rows were added in a second reading of the papers and are included above. Of these, "
            f"{len(_met(counted[0]))} of {len(counted[0])} "
            f"numbers are met and {len(_met(counted[1]))} of {len(counted[1])} orderings hold.",
        ]
    return "\n".join([*lines, *_causes(rows)])


def _causes(rows: Iterable[Row]) -> list[str]:
    """Return a table of why rows are missed or open."""
    unmet = [row for row in rows if row["verdict"] in ("missed", "open")]
    if not unmet:
        return []
    columns = (NUMBERS, ORDERS, "restated: gains and losses between other rows")
    lines = [
        "",
        "Why rows are missed or open; the notes below each table say more:",
        "",
        "| cause | numbers | orderings | restated | other | experiments |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cause, text in (*CAUSES.items(), ("", "no cause is given")):
        own = [row for row in unmet if row.get("cause", "") == cause]
        if own:
            counted = [sum(_category(row) == name for row in own) for name in columns]
            ids = ", ".join(dict.fromkeys(row["id"] for row in own))
            cells = [text, *map(str, counted), str(len(own) - sum(counted)), ids]
            lines.append(f"| {' | '.join(cells)} |")
    total = [sum(_category(row) == name for row in unmet) for name in columns]
    cells = ["all", *map(str, total), str(len(unmet) - sum(total)), ""]
    return [*lines, f"| {' | '.join(cells)} |"]


#: Categories that are counted separately.
NUMBERS = "published numbers, two-sided"
ORDERS = "orderings"
CATEGORIES = (
    NUMBERS,
    ORDERS,
    "published bounds",
    "other numbers and bounds: read, derived or assumed",
    "weak numbers",
    "restated: gains and losses between other rows",
    "quick runs with wide tolerances",
    "computed, no packets simulated",
    "shown without a verdict",
)


def _category(row: Row) -> str:
    """Return the category that a row is counted in."""
    fits = {
        NUMBERS: row["kind"] == TWO_SIDED and row["provenance"] == PUBLISHED,
        ORDERS: row["kind"] == ORDERING,
        "published bounds": row["kind"] == BOUND and row["provenance"] == PUBLISHED,
        "other numbers and bounds: read, derived or assumed": row["provenance"] != PUBLISHED,
        "shown without a verdict": row["kind"] == SHOWN,
        "computed, no packets simulated": "computed" in row,
        "quick runs with wide tolerances": "smoke" in row,
        "restated: gains and losses between other rows": "restated" in row,
        "weak numbers": row["kind"] == TWO_SIDED and "weak" in row,
    }
    # An ordering has no other category because of its provenance. Categories that exclude a row go first.
    excluded = [name for name in reversed(CATEGORIES[4:]) if fits[name]]
    return excluded[0] if excluded else next(name for name in CATEGORIES if fits[name])


def _compared(found: Found) -> list[Row]:
    """Return the rows of all experiments except laws."""
    return [row for experiment, _, own in found.values() if not experiment.law for row in own]


def _met(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["verdict"] == "met"]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _count_line(name: str, rows: Sequence[Row]) -> str:
    return f"| {name} | {len(rows)} | {' | '.join(map(str, counts(rows).values()))} |"


def _by_paper(found: Found) -> list[tuple[str, list[tuple[Experiment, Entry | None, list[Row]]]]]:
    """Return the experiments by paper: Papers I to VI, the others, and at the end the laws."""
    groups: dict[str, list[tuple[Experiment, Entry | None, list[Row]]]] = {}
    for member in found.values():
        groups.setdefault(LAWS if member[0].law else member[0].paper, []).append(member)
    order = sorted(groups, key=lambda name: (name == LAWS, not name.startswith("Paper "), name))
    return [(name, groups[name]) for name in order]


#: The title of the section of experiments whose numbers follow from the rules of the model.
LAWS = "Laws and closed forms"


def sections(found: Found) -> str:
    """Return the rows of all experiments as Markdown: a section per paper, a table per experiment."""
    lines = []
    for paper, members in _by_paper(found):
        lines += [f"## {paper}", ""]
        assumed: dict[str, str] = {}
        for experiment, entry, rows in members:
            first = assumed.setdefault(experiment.assumption, experiment.id)
            lines += [*_head(experiment, entry, first), *_table(experiment, rows), *_notes(rows)]
    return "\n".join(lines[:-1])


def _head(experiment: Experiment, entry: Entry | None, first: str) -> list[str]:
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
    lines = [f"### {experiment.id}: {experiment.title}", "", f"{source}. {experiment.about} {runs}", ""]
    if experiment.assumption:
        same = first != experiment.id
        text = f"The same as in {first}." if same else experiment.assumption
        lines += [f"**Assumptions.** {text}", ""]
    if experiment.figure:
        lines += [f"![{experiment.title}](img/{experiment.figure})", ""]
    return lines


def _table(experiment: Experiment, rows: Iterable[Row]) -> list[str]:
    lines = [
        "| quantity | unit | published | not published | simulated | tolerance | verdict | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        verdict = row["verdict"] if row["verdict"] in ("met", SHOWN) else f"**{row['verdict']}**"
        number = f"{row['expected']:.4g}"
        is_published = row["published"] is not None
        cells = (
            row["quantity"],
            row["unit"],
            number if is_published else "",
            "" if is_published else f"{number} ({row['provenance']})",
            simulated_text(row),
            tolerance_text(row["tolerance"]),
            ", ".join((verdict, *marks(row))),
            row["source"].removeprefix(f"{experiment.paper}, "),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes below a table: reasons, sources of expected numbers, and why rows are weak."""
    lines = []
    for title, name in (
        ("Reasons for numbers that are missed, open or not run", "reason"),
        ("Where expected numbers come from if the paper does not print them", "basis"),
        ("Reasons why rows are weak", "weak"),
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
    """Return the text of a note; that of a reason begins with the cause."""
    text: str = row[name]
    if name == "reason" and "cause" in row:
        cause = CAUSES[row["cause"]]
        return f"{cause[:1].upper()}{cause[1:]}. {text}"
    return text


def _listed(quantities: Sequence[str], of: int) -> str:
    return "All rows" if len(quantities) == of > 1 else "; ".join(quantities)


#: The blocks of a page by name, with the functions that write them.
BLOCKS = {"headline": headline, "summary": summary, "experiments": sections}
