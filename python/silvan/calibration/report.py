"""Writes a calibration: the scenario with the fitted keys, and a record of all numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from silvan import __version__, _files
from silvan.calibration import fit, keys
from silvan.calibration.measurements import CalibrationError, one_line
from silvan.calibration.outcome import Calibration, error_in_words

#: What every calibrated scenario begins with.
MARK = "# Calibrated with silvan calibrate "


def save(done: Calibration, out: Path) -> list[Path]:
    """Write the scenario to `out` and the record next to it; return the paths.

    Raises :class:`CalibrationError` if `out` is a file that no calibration wrote, and `OSError`.
    """
    record = record_of(out)
    check_out(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    _files.write_text(record, _files.to_json(numbers(done)))
    _files.write_text(out, head(done) + done.scenario.to_toml(standalone=True))
    return [out, record]


def record_of(out: Path) -> Path:
    """Return the path of the record that belongs to a calibrated scenario."""
    return out.with_name(f"{out.stem}.calibration.json")


def check_out(out: Path) -> None:
    """Raise :class:`CalibrationError` if a calibration would replace a file that no calibration wrote."""
    if out.suffix != ".toml":
        raise CalibrationError(f"{out}: must end with .toml")
    if out.is_dir():
        raise CalibrationError(f"{out}: is a folder; give the name of a file")
    if out.exists() and not _files.read_text(out).startswith(MARK):
        raise CalibrationError(f"{out}: exists, and no calibration wrote it; choose another name with --out")


def head(done: Calibration) -> str:
    """Return the comments that precede a calibrated scenario."""
    lines = [f"{MARK}{__version__}: {error_in_words(done.error, done.masks)}."]
    for name in done.found.names:
        interval = done.found.intervals.get(name)
        ends = (
            "" if interval is None else f", 95 % from {' to '.join(keys.in_words(name, x) for x in interval)}"
        )
        lines.append(f"# fitted: {name} = {keys.in_words(name, done.found.values[name])}{ends}")
    lines += [f"# measured: {one.file.name}, sha256 {one.digest}" for one in done.measurements]
    lines += [f"# anomaly: {text}" for text in done.anomalies]
    # A name of a file can contain a line end, which would end the comment.
    return "\n".join([*map(one_line, lines), "", ""])


def numbers(done: Calibration) -> dict[str, Any]:
    """Return all numbers of a calibration; times are in seconds, sizes in bytes, rates in bytes per second.

    They contain neither the environment of a test nor the names of its nodes.
    """
    found = done.found
    return {
        "version": __version__,
        "error": done.error,
        "error_of_all_rows": done.error_of_all,
        "keys": [
            {
                "key": name,
                "value": found.values[name],
                "before": done.before[name],
                "low": found.intervals.get(name, (None, None))[0],
                "high": found.intervals.get(name, (None, None))[1],
                "low_resampled": found.resampled.get(name, (None, None))[0],
                "high_resampled": found.resampled.get(name, (None, None))[1],
            }
            for name in found.names
        ],
        "sums": [{"terms": one.terms, "size": one.size, "seconds": one.value_s} for one in done.sums],
        "directions": list(done.directions),
        "not_identified": dict(done.missing),
        "anomalies": list(done.anomalies),
        "notes": list(done.notes),
        "runs": done.runs,
        "files": [_file(done, at) for at in range(len(done.measurements))],
    }


def _file(done: Calibration, at: int) -> dict[str, Any]:
    one, mask = done.measurements[at], done.masks[at]
    return {
        "file": one.file.name,
        "sha256": one.digest,
        "kind": one.kind,
        "operation": one.operation,
        "hosts": list(one.hosts),
        "ranks": one.ranks or None,
        "outstanding": one.outstanding if one.kind == "bandwidth" else None,
        "notes": list(one.notes),
        "error": fit.rms(done.found.residuals[at][mask]),
        "rows": [
            {
                "size": row.size,
                "measured_s": row.time_s,
                "simulated_s": float(time),
                "residual": float(np.expm1(residual)),
                "used": bool(used),
            }
            for row, time, residual, used in zip(
                one.rows, done.modeled[at], done.found.residuals[at], mask, strict=True
            )
        ],
    }
