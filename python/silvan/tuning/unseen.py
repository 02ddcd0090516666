"""Compares the best settings with those that are best for traffic that the search did not use.

For each such kind of traffic, a separate search uses the same space, seeds and rules. Its best settings and
those of the tuning are then compared on the same fresh seeds. The separate search may select the best of its
finalists on these seeds, so the ratio is more likely too low than too high.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from silvan.sweeps.errors import SweepError
from silvan.tuning.outcome import FINALISTS, Interval, Tuned, best_first, contrast, fresh_instances, tried
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.runs import Instance, Runs
from silvan.tuning.search import Search

#: Function that opens the runs of a search.
Open = Callable[[Tuning], Runs]
TUNED = "the best settings"


@dataclass(frozen=True)
class Kept:
    """A comparison in one unseen kind of traffic with the settings that are best for this kind alone."""

    #: Name of the kind of traffic.
    kind: str
    #: Ratio of the scores.
    score: Interval
    #: Ratio for each objective that counts in this kind.
    objectives: dict[str, Interval]
    #: The settings that are best for this kind alone, by key.
    best: dict[str, Any]
    #: Number of settings that the separate search tried, and number of runs of this search.
    settings: int
    runs: int


def check(tuning: Tuning, open_runs: Open) -> None:
    """Raise :class:`SweepError` if an objective is undefined in an unseen kind of traffic."""
    for kind in searched(tuning):
        own = tuning.of_unseen(kind)
        open_runs(own).roles(Instance(kind, 1))


def searched(tuning: Tuning) -> tuple[Kind, ...]:
    """Return the unseen kinds that are searched separately; none if `unseen_runs` is 0."""
    return () if tuning.unseen_runs == 0 else tuning.unseen


def keep(tuned: Tuned, open_runs: Open) -> Tuned:
    """Return the result with its comparisons in the unseen kinds of traffic.

    Raises :class:`SweepError` if a comparison fails.
    """
    kept, simulated, reused = [], tuned.simulated, tuned.reused
    for kind in searched(tuned.tuning):
        own = tuned.tuning.of_unseen(kind)
        runs = open_runs(own)
        kept.append(_kept(tuned, own, runs))
        simulated, reused = simulated + runs.simulated, reused + runs.found
    return replace(tuned, kept=tuple(kept), simulated=simulated, reused=reused)


def _kept(tuned: Tuned, own: Tuning, runs: Runs) -> Kept:
    found = Search(own, runs).run()
    fresh = fresh_instances(own)
    settings = [(f"setting {trial.number}", trial.setting) for trial in found.finished[:FINALISTS]]
    runs.expected = len(runs.known) + (len(settings) + 1) * len(fresh)
    candidates, notes = tried(runs, [(TUNED, tuned.finalists[0].setting), *settings], fresh)
    finalists = [candidates[name] for name, _ in settings if name in candidates]
    if TUNED not in candidates or not finalists:
        raise SweepError(f"{own.place.origin}: {own.name}, on fresh seeds: {'; '.join(notes)}")
    best = best_first(own, finalists, candidates[TUNED], fresh)[0]
    against = contrast(own, candidates[TUNED], best, fresh)
    return Kept(
        kind=own.kinds[0].name,
        score=against.score,
        objectives=against.objectives,
        best=dict(best.setting.keys),
        settings=len(found.trials),
        runs=found.runs,
    )
