"""Tuning congestion control: which settings prune the trees of a network, and how sure that is.

| module | what it does |
| --- | --- |
| `problem` | reads what is to be tuned: traffic, search space, objectives |
| `presets` | known settings, the usual search space, tables by shape and longest delay |
| `objectives` | victims' throughput, hotspots' utilisation, tail latency, fairness, or any measure |
| `runs` | settings in kinds of traffic, found in the store or simulated |
| `racing` | settings beside the reference, in one traffic after the other |
| `search` | proposes settings with Optuna and gives up poor ones early |
| `survey` | tries all settings of a small space, without Optuna |
| `outcome` | the best settings beside known ones, on fresh seeds |
| `unseen` | what they keep of the best in traffic that the search did not see |
| `report`, `figures` | what is written of it |
| `entry` | `silvan tune` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silvan._core import Scenario
from silvan.sweeps.errors import DEFAULT_EXECUTOR
from silvan.tuning.problem import Tuning

if TYPE_CHECKING:
    from silvan.sweeps.executors import Options
    from silvan.tuning.outcome import Tuned
    from silvan.tuning.runs import Tell

__all__ = ["Tuning", "tune"]

#: Where runs are kept, unless somewhere else is named.
STORE = Path("out") / "runs"


def tune(  # noqa: PLR0913 - most are named and have defaults
    scenario: Tuning | Scenario | str | PathLike[str],
    search: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    objectives: str | Mapping[str, float] | Sequence[str | Mapping[str, Any]] | None = None,
    mix: str | None = None,
    traffic: Mapping[str, Mapping[str, Any]] | None = None,
    unseen: Mapping[str, Mapping[str, Any]] | None = None,
    unseen_runs: int | None = None,
    hotspots: Sequence[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    runs: int | None = None,
    seeds: int | None = None,
    confirm: int | None = None,
    short: Mapping[str, Any] | None = None,
    batch: int | None = None,
    sampler_seed: int | None = None,
    name: str | None = None,
    executor: str | Executor = DEFAULT_EXECUTOR,
    jobs: int | None = None,
    options: Options | None = None,
    store: str | PathLike[str] = STORE,
    out: str | PathLike[str] | None = None,
    tell: Tell | None = None,
) -> Tuned:
    """Search for the settings that serve a scenario best, in all kinds of traffic that are given.

    Args:
        scenario: A scenario or its file, a file of `silvan tune`, or a :class:`Tuning`; what is given besides
            goes before what that says.
        search: Values by dotted key, or tables, as the axes of :func:`silvan.sweep`; InfiniBand's congestion
            control as a whole by default. ``cct.exponent`` and ``cct.longest_us`` stand for a table.
        objectives: ``victims``, ``hotspots``, ``latency``, ``fairness``; several with weights in a dict; or
            tables with a measure, `weight` and `goal`. Victims and hotspots alike by default.
        mix: ``weighted``, ``worst`` (the kind of traffic with the lowest score counts) or ``pareto``.
        traffic: Kinds of traffic by name, as settings of the scenario; its own traffic by default.
        unseen: Kinds of traffic that the search does not see; what the best settings keep there of what is
            best for each is told in the end.
        unseen_runs: Simulations of the search for what is best in each of these: `runs` by default, 0: none.
        hotspots: Hosts that are hotspots, where the traffic does not tell.
        overrides: Keys that are set in every run.
        runs: Simulations of the search, 64 by default.
        seeds: Seeds of each kind of traffic in the search, 1 by default.
        confirm: Further seeds for the comparison with known settings, 5 by default.
        short: Keys of short runs that come first, such as ``{"duration": "2 ms", "warmup": "1 ms"}``.
        batch: Settings proposed at a time, 2 by default: more for more cores. The result depends on it.
        sampler_seed: The sampler's own seed.
        name: What the tuning is called.
        executor: As in :func:`silvan.sweep`.
        jobs: Runs at a time; as many as there are cores by default. The result does not depend on it.
        options: More for Slurm and Dask: :class:`silvan.sweeps.executors.Options`.
        store: Folder of the runs: those that are there are not simulated again, after an interruption too.
        out: Folder for account, settings and figures, if they are to be written.
        tell: Called with runs done, runs that the search may use, and what is under way.

    Returns:
        A :class:`silvan.tuning.outcome.Tuned`: `.best`, `.scenario`, `.contrasts`, `.kept`,
        `.importance`, `.opensm_options()`, `.save(folder)`.

    Raises:
        SweepError: a tuning that makes no sense, or Optuna missing.
        ScenarioError: a scenario that is wrong.

    """
    from silvan.sweeps.executors import Options as AllOptions
    from silvan.tuning import outcome
    from silvan.tuning import unseen as apart
    from silvan.tuning.problem import of_call
    from silvan.tuning.runs import Runs, open_runs
    from silvan.tuning.search import Search

    plain = {
        "mix": mix, "runs": runs, "seeds": seeds, "confirm": confirm, "short": short,
        "batch": batch, "sampler_seed": sampler_seed, "name": name, "unseen_runs": unseen_runs,
    }  # fmt: skip
    tuning = of_call(scenario, search, objectives, traffic, unseen, hotspots, overrides, plain)
    if out is not None:
        from silvan.tuning.report import refuse_foreign

        refuse_foreign(Path(out))
    all_options = options or AllOptions(jobs=jobs, logs=Path(store) / "slurm")

    def opened(one: Tuning) -> Runs:
        return open_runs(one, Path(store), executor, all_options, tell or (lambda *_: None))

    apart.check(tuning, opened)
    done = opened(tuning)
    tuned = apart.keep(outcome.confirm(tuning, done, Search(tuning, done).run()), opened)
    if out is not None:
        tuned.save(out)
    return tuned
