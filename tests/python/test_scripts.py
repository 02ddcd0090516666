"""Tests the scripts of pages with a linter, which must find no undefined and no unused names."""

import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from conftest import ROOT
from silvan import report
from silvan.live import page

CONFIG = ROOT / "tools" / "oxlint.json"
PLAYGROUND = ROOT / "tools" / "site" / "playground"
#: Objects of the report page that other pages replace, but that shared functions use.
REPORTS_ONLY = "const Save = {}, Tables = {}, Terms = {};"


def lint(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("oxlint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("no linter for JavaScript: pip install -r requirements-dev.lock")
    file = folder / "page.js"
    file.write_text(script, encoding="utf-8")
    return subprocess.run(
        [program, "--config", str(CONFIG), str(file)],
        capture_output=True, text=True, cwd=folder, check=False, timeout=60,
    )  # fmt: skip


def of_report() -> str:
    assets = resources.files("silvan.report")
    return "\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in report.SCRIPTS)


def of_playground() -> str:
    import playground

    own = [(PLAYGROUND / name).read_text(encoding="utf-8") for name in playground.SCRIPTS]
    return "\n".join([page.script(), *own, REPORTS_ONLY])


def of_live(name: str) -> str:
    return resources.files("silvan.live").joinpath(name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(of_report, id="report"),
        pytest.param(of_playground, id="playground"),
        pytest.param(lambda: f"{page.script()}\n{of_live('watch.js')}\n{REPORTS_ONLY}", id="watch"),
        pytest.param(lambda: of_live("widget.js"), id="widget"),
        pytest.param((PLAYGROUND / "worker.js").read_text, id="worker"),
        pytest.param((ROOT / "tools" / "site" / "scoreboard.js").read_text, id="scoreboard"),
    ],
)
def test_a_linter_finds_nothing(script, tmp_path):
    done = lint(script(), tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("addition", "finding"),
    [
        ("Viewer.play(nothing);", "'nothing' is not defined"),
        ("const idle = 1;", "'idle' is declared but never used"),
        ("if (Viewer == 1) Viewer.play();", "eqeqeq"),
    ],
)
def test_the_linter_finds_mistakes(addition, finding, tmp_path):
    done = lint(f"{page.script()}\n{of_live('watch.js')}\n{REPORTS_ONLY}\n{addition}", tmp_path)
    assert done.returncode == 1
    assert finding in done.stdout
