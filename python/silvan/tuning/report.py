"""Writes the files of a tuning: account, best scenario, lines for opensm.conf, numbers, figures."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from silvan import _files, _provenance
from silvan._comparison_text import in_words
from silvan._core import __version__
from silvan._markdown import table
from silvan._provenance import build
from silvan._statistics import BETTER, WORSE, WORTH
from silvan.steadiness import advice
from silvan.sweeps.axes import as_text
from silvan.sweeps.errors import SweepError
from silvan.tuning.objectives import READY
from silvan.tuning.outcome import NO_CONTROL, Contrast, Interval, Tuned, options_or_reason
from silvan.tuning.presets import CCMGR, EXPONENT, LONGEST, REFERENCE, TABLE
from silvan.tuning.unseen import Kept

ACCOUNT, NUMBERS, SCENARIO = "account.md", "tune.json", "best.toml"
OPTIONS, PLUGIN, FIGURES = "opensm.conf", "ccmgr.conf", "figures"
PROVENANCE = "provenance.json"
WIDTH = 110


def refuse_foreign(out: Path) -> None:
    """Raise :class:`SweepError` if a tuning would overwrite files that no tuning wrote."""
    if out.exists() and not out.is_dir():
        raise SweepError(f"{out}: exists and is not a folder; choose another with --out")
    ours = (ACCOUNT, NUMBERS, SCENARIO, OPTIONS, PLUGIN)
    try:
        there = [name for name in ours if (out / name).exists()]
        facts = _files.parse_json(_files.read_text(out / NUMBERS)) if NUMBERS in there else None
    except ValueError:
        facts = None
    except OSError as error:
        raise SweepError(f"{_files.place(error) or out}: {error.strerror or error}") from None
    if there and not (isinstance(facts, dict) and "tuning" in facts):
        raise SweepError(
            f"{out}: its {' and '.join(there)} would be overwritten, and no tuning wrote that; "
            "choose another folder with --out, or move it away"
        )


def save(tuned: Tuned, out: Path) -> Path:
    """Write all files; raises :class:`SweepError` if that fails or would replace files of no tuning."""
    from silvan.tuning import figures

    refuse_foreign(out)
    options, _ = options_or_reason(tuned)
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Write this file first, because it shows that a tuning may overwrite the other files.
        _files.write_text(out / NUMBERS, _files.to_json(numbers(tuned)))
        _files.write_text(out / PROVENANCE, _files.to_json(_facts(tuned)))
        _files.write_text(out / SCENARIO, tuned.scenario.to_toml(standalone=True))
        if options is not None:
            head = "".join(f"# {line.replace('`', '')}\n" for line in (*harms(tuned), verdict(tuned)))
            _files.write_text(out / OPTIONS, head + options)
            _files.write_text(out / PLUGIN, CCMGR)
        drawn = figures.save_all(tuned, out / FIGURES)
        _files.write_text(out / ACCOUNT, account(tuned, drawn))
    except OSError as error:
        raise SweepError(f"{_files.place(error) or out}: {error.strerror or error}") from error
    return out


def _facts(tuned: Tuned) -> dict[str, Any]:
    return {
        "tuning": tuned.tuning.name,
        "origin": tuned.tuning.place.origin,
        "simulated": tuned.simulated,
        "found": tuned.reused,
        "version": __version__,
        "build": build(),
        "git_commit": _provenance.git_commit(),
        "machine": _provenance.machine(),
    }


def numbers(tuned: Tuned) -> dict[str, Any]:
    """Return the numbers in ``tune.json``, which do not depend on how the tuning was executed."""
    tuning = tuned.tuning
    return {
        "tuning": tuning.name,
        "scenario": tuning.base.origin,
        "mix": tuning.mix,
        "objectives": [
            {"name": one.name, "unit": one.unit, "goal": "max" if one.larger else "min", "weight": one.weight}
            for one in tuning.objectives
        ],
        "traffic": [kind.name for kind in tuning.kinds],
        "space": {axis.name: list(axis.labels) for axis in tuning.search},
        "runs": tuned.found.runs,
        "verdict": verdict(tuned),
        "best": tuned.best,
        "known": known_values(tuned),
        "finalists": [
            {"name": one.name, "settings": dict(one.setting.keys), "values": tuned.values(one)}
            for one in tuned.finalists
        ],
        "contrasts": [_contrast(one) for one in tuned.contrasts],
        "unseen": [_kept_numbers(one) for one in tuned.kept],
        "importance": tuned.importance,
        "notes": list(tuned.notes),
        "trials": [
            {
                "number": trial.number,
                "settings": dict(trial.setting.keys),
                "state": trial.state,
                "score": trial.score,
                "runs": trial.runs,
                "error": trial.error,
                "ratios": {str(at): list(ratios) for at, ratios in trial.ratios.items()},
            }
            for trial in tuned.found.trials
        ],
    }


def _plain(value: Interval) -> list[float]:
    return [value.ratio, value.low, value.high]


def _contrast(one: Contrast) -> dict[str, Any]:
    return {
        "beside": one.name,
        "score": _plain(one.score),
        "objectives": {name: _plain(value) for name, value in one.objectives.items()},
        "traffic": {name: _plain(value) for name, value in one.kinds.items()},
        "not_in_steady_state": list(one.trends),
        "steady_state_not_tested": list(one.untested),
    }


def _kept_numbers(one: Kept) -> dict[str, Any]:
    return {
        "traffic": one.kind,
        "kept": _plain(one.score),
        "objectives": {name: _plain(value) for name, value in one.objectives.items()},
        "best": one.best,
        "settings": one.settings,
        "runs": one.runs,
    }


def shown_settings(tuned: Tuned) -> dict[str, str]:
    """Return the best settings as text by key."""
    return shown_keys(tuned.best)


def shown_keys(keys: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as text by key; a generated table is shown by its parameters."""
    shown = {}
    for key, value in keys.items():
        if key == LONGEST:
            exponent = keys.get(EXPONENT, 2)
            shown[TABLE] = f"{value} us * (i / 127)^{exponent}"
        elif key != EXPONENT:
            shown[key] = as_text(value)
    return shown


def harms(tuned: Tuned) -> list[str]:
    """Return a sentence for each objective that is proven to be worse than without control."""
    off = next((one for one in tuned.contrasts if one.name == NO_CONTROL), None)
    return [
        f"Harm: compared with no control, `{name}` is {interval.in_words}."
        for name, interval in (off.objectives.items() if off and not off.doubt else ())
        if interval.high < 1.0
    ]


def verdict(tuned: Tuned) -> str:
    """Return whether to use the best settings, with the intervals on which that depends.

    They are recommended only if they are proven to be better than no control by at least the factor of a
    study of a fabric, without a proven harm, and if no known settings are proven to be better.
    """
    beside = {one.name: one for one in tuned.contrasts}
    off = beside.get(NO_CONTROL)
    if off is None:
        return "No verdict: there is no comparison with no control."
    told = f"Compared with no control: {off.score.in_words}."
    if off.doubt:
        how = "" if off.trends else f" ({advice(off.testable_at_ns)})"
        return f"Leave it: {off.doubt}{how}, so no difference is shown. {off.score} times as good."
    if off.score.verdict != BETTER or off.score.ratio < WORTH:
        return f"Leave it: do not change congestion control for these settings. {told}"
    if harms(tuned):
        helped = [f"`{name}` {one.in_words}" for name, one in off.objectives.items() if one.low > 1.0]
        price = [f"`{name}` {one.in_words}" for name, one in off.objectives.items() if one.high < 1.0]
        return f"Choose: {told} Helped: {'; '.join(helped) or 'none'}. The price: {'; '.join(price)}."
    better = [one for one in tuned.contrasts if one.score.verdict == WORSE and not one.doubt]
    if better:
        names = ", ".join(f"{one.name} ({one.score.in_words})" for one in better)
        return f"Leave it: known settings are better; compared with them: {names}."
    return f"Recommended: the settings below. {told} No objective is shown to be worse."


def values_table(tuned: Tuned) -> list[str]:
    """Return a table of the objectives with the best settings and with all known ones, in Markdown."""
    objectives = tuned.tuning.objectives
    heads = ["settings", *(f"{one.name} ({one.unit})" if one.unit else one.name for one in objectives)]
    rows = [(name, *map(in_words, values.values())) for name, values in known_values(tuned).items()]
    return [*table(heads, rows), "", "Means over all kinds of traffic and the fresh seeds of all settings."]


def known_values(tuned: Tuned) -> dict[str, dict[str, float]]:
    """Return the mean of each objective with the best settings and with each of the known settings.

    The means are those of the runs that all of them have.
    """
    shown = {"best settings": tuned.finalists[0], **{one.name: one for one in tuned.known}}
    shared = set.intersection(*(set(one.values) for one in shown.values()))
    return {
        name: tuned.values(replace(one, values={at: own for at, own in one.values.items() if at in shared}))
        for name, one in shown.items()
    }


def sentences(tuned: Tuned) -> list[str]:
    """Return the results as sentences."""
    tuning, found = tuned.tuning, tuned.found
    states = [trial.state for trial in found.trials]
    kinds = ", ".join(kind.name for kind in tuning.kinds)
    lines = [
        f"{len(states)} of {tuning.size:,} settings were tried in {found.runs} runs ({kinds}): "
        f"{states.count('done')} in all traffic, {states.count('stopped')} stopped early, "
        f"{states.count('failed')} refused.",
    ]
    beside = {one.name: one for one in tuned.contrasts}
    for name, one in beside.items():
        parts = ", ".join(f"{objective} {interval}" for objective, interval in one.objectives.items())
        lines.append(f"Compared with {name}: {one.in_words}; {parts}.")
    trends = dict.fromkeys(quantity for one in tuned.contrasts for quantity in one.trends)
    if trends:
        lines.append(
            f"Not in steady state after the warm-up: {', '.join(trends)}. These averages depend on the "
            "warm-up and the duration, so they have no verdict; use longer ones."
        )
    untested = list(dict.fromkeys(quantity for one in tuned.contrasts for quantity in one.untested))
    if untested:
        testable = max(one.testable_at_ns or 0 for one in tuned.contrasts) or None
        lines.append(
            f"Steady state not tested: {', '.join(untested)}: {advice(testable)}. These averages have no "
            "verdict."
        )
    reference = beside.get(REFERENCE)
    if reference is not None and reference.score.low <= 1.0 and not reference.doubt:
        lines.append(
            "No improvement over the defaults is shown; more seeds, or a longer duration, may show one."
        )
    if tuned.kept:
        least = min(tuned.kept, key=lambda one: one.score.ratio)
        lines.append(
            "On unseen traffic, their score relative to the best settings for that traffic alone is "
            f"{', '.join(f'{one.score} ({one.kind})' for one in tuned.kept)}; lowest: {least.kind}."
        )
    edges = _at_the_edge(tuned)
    if edges:
        lines.append(f"At the edge of the searched range; values beyond may be better: {', '.join(edges)}.")
    return lines + [f"Note: {note}." for note in tuned.notes]


def _at_the_edge(tuned: Tuned) -> list[str]:
    """Return parameters with a best value at an end of the searched range, except at the limits of IBA."""
    edges = []
    limits: dict[str, tuple[int | None, ...]] = {
        "congestion.marking.threshold": (0, 15),
        "congestion.marking.marking_rate": (0, None),
    }
    limits |= {"congestion.marking.packet_size": (0, None), "congestion.reaction.ccti_limit": (None, 127)}
    for axis in tuned.tuning.search:
        key, values = axis.settings[0]
        value = tuned.best[key]
        numeric = len(values) > 2 and all(isinstance(one, int | float) for one in values)
        if numeric and value in (min(values), max(values)) and value not in limits.get(key, ()):
            edges.append(f"{axis.name} = {as_text(value)}")
    return edges


def account(tuned: Tuned, drawn: list[str]) -> str:
    """Return the account of a tuning, in Markdown."""
    tuning = tuned.tuning
    options, reason = options_or_reason(tuned)
    lines = [f"# Tuning {tuning.name}", "", *([tuning.description, ""] if tuning.description else [])]
    lines += [f"Mix: {tuning.mix}. Objectives, each as a ratio to the defaults:", ""]
    for one in tuning.objectives:
        what = READY[one.name][3] if one.measure is None else "a measure defined in the file"
        goal = "more is better" if one.larger else "less is better"
        lines.append(f"- `{one.name}`: {what} ({goal}; weight {one.weight:g})")
    lines += ["", "## The best settings", "", *(f"**{line}**\n" for line in harms(tuned))]
    lines += [f"{verdict(tuned)}\n"]
    lines += ["| key | value |", "| --- | --- |"]
    lines += [f"| `{key}` | {value} |" for key, value in shown_settings(tuned).items()]
    lines += ["", *(textwrap.fill(line, WIDTH) + "\n" for line in sentences(tuned))]
    lines += ["## On fresh seeds", "", *_table(tuned), "", *values_table(tuned), ""]
    if tuned.kept:
        lines += ["## On unseen traffic", "", *_unseen(tuned), ""]
    if tuned.importance:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in tuned.importance.items())
        lines += [f"Importance of the parameters (PED-ANOVA, sum 1): {shares}.", ""]
    if tuning.mix == "pareto":
        lines += ["## Pareto front", "", *_front(tuned), ""]
    lines += ["## Lines to paste", ""]
    if options is None:
        lines += [f"None: these settings cannot be written as options of OpenSM: {reason}", ""]
    else:
        lines += [
            f"`{OPTIONS}` has the settings as options of OpenSM, `{PLUGIN}` has the documented "
            "defaults of the ccmgr plug-in, in that plug-in's own format.",
            "",
        ]
    lines += ["## Figures", "", *(f"![{name}]({FIGURES}/{name}.png)\n" for name in drawn)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _table(tuned: Tuned) -> list[str]:
    names = [objective.name for objective in tuned.tuning.objectives]
    kinds = [kind.name for kind in tuned.tuning.kinds] if len(tuned.tuning.kinds) > 1 else []
    heads = ["compared with", "score", *names, *kinds]
    rows = [
        (one.name, one.in_words, *one.objectives.values(), *(one.kinds[kind] for kind in kinds))
        for one in tuned.contrasts
    ]
    return [
        *table(heads, rows),
        "",
        "Ratios to those settings, with intervals that all hold together with a confidence of 95 %.",
    ]


def _unseen(tuned: Tuned) -> list[str]:
    names = [objective.name for objective in tuned.tuning.objectives]
    heads = ["traffic", "kept of the best", *names, "best for this traffic alone", "settings tried"]
    rows = [
        (
            one.kind, one.score, *(one.objectives.get(name, "") for name in names),
            _in_brief(one.best), one.settings,
        )
        for one in tuned.kept
    ]  # fmt: skip
    what = (
        "Ratios to the best settings that a search for that traffic alone found in the same space, with 95 % "
        "confidence intervals over fresh seeds, the same for both."
    )
    return [*table(heads, rows), "", textwrap.fill(what, WIDTH)]


def _in_brief(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]} {as_text(value)}" for key, value in keys.items())


def _front(tuned: Tuned) -> list[str]:
    objectives = tuned.tuning.objectives
    heads = ["settings", *(f"{one.name} ({one.unit})" if one.unit else one.name for one in objectives)]
    rows = [
        (_in_brief(one.setting.keys), *map(in_words, tuned.values(one).values())) for one in tuned.finalists
    ]
    return table(heads, rows)
