"""Tunes congestion control: searches for the best settings, and compares them with known settings.

| module | what it does |
| --- | --- |
| `problem` | reads a tuning: traffic, search space, objectives |
| `presets` | known settings, the default search space, tables by shape and longest delay |
| `objectives` | victims' and hotspots' throughput, tail latency, fairness, or any measure |
| `runs` | runs of settings in kinds of traffic, found in the store or simulated |
| `racing` | trials of settings, compared with the reference in one kind of traffic after another |
| `search` | proposes settings with Optuna and stops poor ones early |
| `survey` | tries all settings of a small space, without Optuna |
| `outcome` | the best settings compared with known ones, on fresh seeds |
| `unseen` | how good the best settings are in traffic that the search did not use |
| `report`, `figures` | the files of a tuning |

:mod:`silvan.commands.tune` implements the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silvan._core import Scenario
from silvan._executor import DEFAULT_EXECUTOR
from silvan.tuning.problem import Tuning

if TYPE_CHECKING:
    from silvan.sweeps.executors import Options
    from silvan.tuning.outcome import Tuned
    from silvan.tuning.runs import Notify

__all__ = ["Tuning", "tune"]

#: Default folder of the store of runs.
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
    notify: Notify | None = None,
) -> Tuned:
    """Search for the settings of a scenario that are best over all given kinds of traffic.

    Args:
        scenario: A scenario or its file, a file of `silvan tune`, or a :class:`Tuning`; the other arguments
            take precedence over it.
        search: Values by dotted key, or tables, as the axes of :func:`silvan.sweep`; by default all settings
            of InfiniBand's congestion control. ``cct.exponent`` and ``cct.longest_us`` define a table.
        objectives: ``victims``, ``hotspots``, ``latency``, ``fairness``; several with weights in a dict; or
            tables with a measure, `weight` and `goal`. Victims and hotspots with equal weight by default.
        mix: ``weighted``, ``worst`` (the kind of traffic with the lowest score counts) or ``pareto``.
        traffic: Kinds of traffic by name, as settings of the scenario; its own traffic by default.
        unseen: Kinds of traffic that the search does not use; for each, the best settings are compared with
            the best for this kind alone.
        unseen_runs: Simulations of the search for the best settings in each unseen kind; `runs` by default, 0
            for no such search.
        hotspots: Hosts that are hotspots, if the traffic does not define them.
        overrides: Keys that are set in every run.
        runs: Simulations of the search, 64 by default.
        seeds: Seeds of each kind of traffic in the search, 1 by default.
        confirm: Further seeds for the comparison with known settings, 5 by default.
        short: Keys of short runs that come first, such as ``{"duration": "2 ms", "warmup": "1 ms"}``.
        batch: Number of settings that are proposed together, 2 by default. Larger batches use more cores. The
            result depends on it.
        sampler_seed: Seed of the sampler.
        name: Name of the tuning.
        executor: As in :func:`silvan.sweep`.
        jobs: Number of concurrent runs; the number of cores by default. The result does not depend on it.
        options: Options of the executor, which then replace `jobs`: :class:`silvan.sweeps.executors.Options`.
        store: Folder of the runs; finished runs in it are reused, also after an interruption.
        out: Folder for account, settings and figures; not written by default.
        notify: Called with the number of finished runs, the number of runs that may be needed (0 if unknown),
            and the current step.

    Returns:
        A :class:`silvan.tuning.outcome.Tuned`: `.best`, `.scenario`, `.contrasts`, `.kept`,
        `.importance`, `.opensm_options()`, `.save(folder)`.

    Raises:
        SweepError: the tuning is wrong, nothing can be compared, `out` contains other files, or Optuna is
            missing.
        ScenarioError: the scenario is wrong.

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
        return open_runs(one, Path(store), executor, all_options, notify or (lambda *_: None))

    apart.check(tuning, opened)
    done = opened(tuning)
    tuned = apart.keep(outcome.confirm(tuning, done, Search(tuning, done).run()), opened)
    if out is not None:
        tuned.save(out)
    return tuned
