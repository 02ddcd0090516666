"""Writes the folder of a fabric study."""

from __future__ import annotations

import contextlib
from pathlib import Path

from silvan import _files, _folder
from silvan._core import SilvanError
from silvan.fabric.studies.study import COSTLY_OPTIONS, OPTIONS, SITE, Simulated, Studied

ACCOUNT, NUMBERS, REPORT, TUNE, PLUGIN = "account.md", "study.json", "report.html", "tune.toml", "ccmgr.conf"
__all__ = ["ACCOUNT", "NUMBERS", "OPTIONS", "PLUGIN", "REPORT", "SITE", "TUNE", "refuse_foreign", "write"]


def refuse_foreign(out: Path) -> None:
    """Raise :class:`SilvanError` unless `out` is missing, empty, or the folder of a study."""
    if out.exists() and not out.is_dir():
        raise SilvanError(f"{out}: exists and is not a folder; choose another with --out")
    if not out.is_dir() or not any(out.iterdir()):
        return
    text = ""
    with contextlib.suppress(OSError, ValueError):
        text = _files.read_text(out / SITE)
    if "Written by `silvan fabric study`" not in text[:200]:
        raise SilvanError(
            f"{out}: is not empty and not the folder of a fabric study; choose another with --out"
        )


def write(simulated: Simulated, out: Path) -> None:
    """Write all files of a study. Without finished runs, there is no report.

    Raises :class:`SilvanError` if a file cannot be written, or if a folder of a run contains other files.
    """
    from silvan import report
    from silvan.fabric.studies import account, figures
    from silvan.tuning.presets import CCMGR

    try:
        for title, result in simulated.runs.items():
            folder = out / title.replace(" ", "-").replace(".", "-")
            _folder.refuse_foreign(folder)
            result.save(folder)
        drawn = figures.save_all(simulated, out / "figures")
        _write_options(simulated, out)
        _files.write_text(out / PLUGIN, CCMGR)
        _files.write_text(out / TUNE, tune_text())
        _files.write_text(out / NUMBERS, _files.to_json(account.numbers(simulated)))
        _files.write_text(out / ACCOUNT, account.write(simulated, drawn))
        runs, file = simulated.runs, out / REPORT
        if runs:
            report.write(list(runs.values()), file, titles=list(runs), lead=simulated.lead())
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise SilvanError(f"{_files.place(error) or out}: {error.strerror or error}") from error


def _write_options(simulated: Simulated, out: Path) -> None:
    """Write the option lines, below the first sentences of the output as comments.

    If no settings are recommended, the lines leave control off, and those of the best settings are written to
    another file. Without a comparison of settings, there are only comments.
    """
    head = "".join(f"# {line.replace('`', '')}\n" for line in simulated.lead())
    costly = lines = ""
    if isinstance(simulated, Studied):
        lines = simulated.tuned.opensm_options()
        if simulated.verdict.recommended is None:
            costly, lines = head + lines, "congestion_control FALSE\n"
    _files.write_text(out / OPTIONS, head + lines)
    if costly:
        _files.write_text(out / COSTLY_OPTIONS, costly)
    else:
        (out / COSTLY_OPTIONS).unlink(missing_ok=True)


def tune_text() -> str:
    """Return an input file of `silvan tune` that searches more settings on the same load."""
    return "\n".join(
        [
            "# Written by `silvan fabric study`: searches more settings on the same load.",
            f"#   silvan tune {TUNE}",
            'name = "site"',
            f'scenario = "{SITE}"',
            "runs = 64",
            "",
            "[set]",
            '"measure.forest" = false',
            '"measure.links" = false',
            "",
        ]
    )
