"""Calibrates a scenario: fits its keys to measurements of a real fabric, and states their error.

| module | what it does |
| --- | --- |
| `measurements` | sizes and times of one test, and checks that all readers share |
| `perftest`, `nccl` | read the output of perftest and nccl-tests |
| `fields` | what the readers do with each field of the formats |
| `keys` | keys that can be fitted, and the measurements that others need |
| `paths` | hosts of a test in the scenario, and the route between them |
| `closed`, `simulated` | times of tests by formulas, and by the simulator |
| `fit` | least squares, intervals, bootstrap, hold-out error |
| `sums` | what the measurements determine only together |
| `anomalies` | rows that the model does not explain, in sentences |
| `counted` | which links the tests used, by counters of ports |
| `outcome` | the steps of a calibration, and its results |
| `report`, `figures` | the calibrated scenario, its record, and a figure |
| `written` | writes files as perftest and nccl-tests do, with times of a scenario |
| `published` | published numbers of switches, with sources |

:mod:`silvan.commands.calibrate` implements the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from silvan import scenarios
from silvan._core import Scenario
from silvan.calibration import keys, nccl, paths, perftest
from silvan.calibration.measurements import CalibrationError, Kind, Measurement

if TYPE_CHECKING:
    from silvan.calibration.outcome import Calibration

__all__ = ["CalibrationError", "Measurement", "calibrate", "read"]


def read(
    latency: Sequence[str | PathLike[str]] = (),
    bandwidth: Sequence[str | PathLike[str]] = (),
    nccl_tests: Sequence[str | PathLike[str]] = (),
    *,
    collective: str | None = None,
    ranks: int | None = None,
) -> list[Measurement]:
    """Read files of measurements.

    Args:
        latency: Outputs of perftest's latency tests, each as ``FILE`` or ``FILE@FROM,TO`` with two hosts of
            the scenario.
        bandwidth: Outputs of its bandwidth tests.
        nccl_tests: Outputs of nccl-tests: text, JSON or CSV.
        collective: The operation of outputs of nccl-tests that do not name it, such as ``all-gather``.
        ranks: The number of ranks of outputs that do not state it.

    Raises:
        CalibrationError: a file is not such an output; the message names file, line and what would be valid.
        OSError: a file cannot be read.

    """
    found = []
    kinds: tuple[tuple[Kind, Sequence[Any]], ...] = (("latency", latency), ("bandwidth", bandwidth))
    for kind, files in kinds:
        for text in files:
            file, hosts = paths.ends_of(str(text))
            found.append(replace(perftest.read(file, kind), hosts=hosts))
    given = nccl.Given(collective, ranks)
    found += [nccl.read(paths.file_of_ranks(str(text)), given) for text in nccl_tests]
    if not found:
        raise CalibrationError(
            "no measurements: give at least one file with --latency, --bandwidth or --nccl"
        )
    return found


def calibrate(
    scenario: Scenario | str | PathLike[str],
    measurements: Sequence[Measurement],
    *,
    fix: Mapping[str, str] | None = None,
    fit: Sequence[str] = (),
    algorithms: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Calibration:
    """Fit the keys of a scenario that measurements determine.

    Args:
        scenario: A scenario, its file, or the name of one that comes with Silvan.
        measurements: Those that :func:`read` returns.
        fix: Values of keys that are known and not fitted, such as ``{"topology.link_delay": "25 ns"}``.
        fit: The keys to fit; by default all that the measurements determine (:data:`keys.KEYS`).
        algorithms: Algorithms of collective operations by operation; ``ring`` for most by default, as in
            NCCL.
        overrides: Values of the scenario by dotted key, set before the fit.

    Returns:
        A :class:`silvan.calibration.outcome.Calibration`: `.scenario`, `.found.values`, `.found.intervals`,
        `.error`, `.anomalies`.

    Raises:
        CalibrationError: measurements do not suit the scenario, keys cannot be separated, or SciPy is
            missing.
        ScenarioError: the scenario is invalid.

    """
    from silvan.calibration import outcome

    if not isinstance(scenario, Scenario):
        scenario = scenarios.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(dict(overrides))
    for name in fix or {}:
        if name not in keys.KEYS:
            raise CalibrationError(
                f"{name} is not fitted, so it is not fixed: state its value in the scenario or with --set "
                f"({', '.join(keys.KEYS)} are fitted)"
            )
    values = {name: keys.parse(name, text) for name, text in (fix or {}).items()}
    for name in fit:
        keys.check(name)
        if name in values:
            raise CalibrationError(f"{name} is both fixed and fitted; give one of them")
    network = paths.Paths(scenario)
    placed = paths.placed(measurements, network, scenario)
    return outcome.calibrate(scenario, placed, outcome.Fixed(values, tuple(fit)), algorithms)
