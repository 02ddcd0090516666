"""Tests a wheel without other files of Silvan, in new environments of the oldest and the newest Python.

    python tools/try_wheel.py target/wheels/silvan-0.2.0-....whl [--oldest] [PYTHON...]

`make wheel-check` runs this program. By default, it uses the oldest and the newest supported version of
Python on PATH and in pyenv's folder. It installs the wheel, with dependencies in the versions of
`requirements.lock`, and tries the command and the shipped files in a folder outside of the clone.

Exit status: 0 if all trials succeed; otherwise 1, with a message.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 10)
#: Maximum number of characters of a value in an error message.
MOST_SHOWN = 500
#: Experiments that take only seconds.
EXPERIMENTS = ("A6", "A8")
#: Program for the installed Python: copies each scenario and study to a separate folder, and loads it.
COPIES = """
import pathlib, silvan
from silvan import scenarios
for one in scenarios.listed():
    copied = scenarios.copy(one.name, pathlib.Path("copies", one.name))[0]
    silvan.Scenario.load(copied).check() if one.kind == "scenario" else silvan.Study.load(copied)
    print(one.name)
"""


class TrialError(Exception):
    """A failure of the wheel."""


def pythons() -> list[Path]:
    """Return the oldest and the newest usable Python, or the only one; raises `TrialError` without any."""
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep))]
    folders += (Path.home() / ".pyenv" / "versions").glob("*/bin")
    found: dict[tuple[int, int], Path] = {}
    for folder in folders:
        for path in folder.glob("python3.*"):
            match = re.fullmatch(r"python3\.(\d+)", path.name)
            version = (3, int(match[1])) if match else (0, 0)
            if version >= OLDEST and version not in found and _makes_environments(path):
                found[version] = path
    if not found:
        raise TrialError(f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with venv and ensurepip was found")
    return [found[version] for version in sorted({min(found), max(found)})]


def _makes_environments(python: Path) -> bool:
    done = subprocess.run(
        [python, "-c", "import venv, ensurepip, ssl"], capture_output=True, cwd="/", check=False
    )
    return done.returncode == 0


def call(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command without environment variables of Silvan and Python; return its output.

    Raises `TrialError` if it fails.
    """
    own = ("SILVAN", "PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    env |= {"MPLBACKEND": "agg", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        told = (done.stderr or done.stdout)[-4000:]
        raise TrialError(f"`{' '.join(map(str, command))}` ended with status {done.returncode}:\n{told}")
    return done.stdout


def expect(what: str, found: Any, wanted: Any) -> None:
    """Raise `TrialError` if two values differ."""
    if found != wanted:
        # Some values are whole documents.
        raise TrialError(f"{what}: {repr(found)[:MOST_SHOWN]} instead of {repr(wanted)[:MOST_SHOWN]}")


def try_source_archive(wheel: Path) -> None:
    """Check that the source archive contains all files and sources of the wheel; raises `TrialError`."""
    version = wheel.name.split("-")[1]
    archive = wheel.with_name(f"silvan-{version}.tar.gz")
    if not wheel.is_file() or not archive.is_file():
        raise TrialError(f"{wheel.parent} must contain the wheel and {archive.name}: make wheel")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    with zipfile.ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if name.startswith("silvan/")}
    wanted = {f"python/{name}" for name in packed if not name.endswith((".so", ".pyd"))}
    # The playground and the C library are not parts of the package.
    sources = [path.relative_to(ROOT) for path in ROOT.glob("crates/*/src/**/*.rs")]
    wanted |= {path.as_posix() for path in sources if path.parts[1] not in ("silvan-web", "silvan-capi")}
    wanted |= {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"}
    if missing := sorted(wanted - names):
        raise TrialError(f"{archive}: lacks {', '.join(missing[:5])} ({len(missing)} files)")
    shipped = {
        f"silvan/shipped/{path.relative_to(ROOT).as_posix()}"
        for folder in ("papers", "scenarios", "studies")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".toml", ".py", ".json")
    }
    if missing := sorted(shipped - packed):
        raise TrialError(f"{wheel}: lacks {', '.join(missing[:5])} ({len(missing)} files)")


def try_wheel(python: Path, wheel: Path, home: Path) -> None:
    """Install a wheel in a new environment in `home`, and use it there; raises `TrialError`."""
    call([python, "-m", "venv", home / "env"], home)
    scripts = home / "env" / ("Scripts" if os.name == "nt" else "bin")
    # With constraints that have hashes, pip accepts no file without a hash, such as the wheel.
    lock = home / "constraints.txt"
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.rstrip(" \\") for line in lines if not line.startswith((" ", "#"))]
    lock.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    call([scripts / "pip", "install", "--quiet", "--constraint", lock, wheel], home)
    silvan = scripts / "silvan"
    expect("version", call([silvan, "version"], home).strip(), f"silvan {wheel.name.split('-')[1]}")
    for options, name in (((), "scenario"), (("--study",), "study")):
        told = json.loads(call([silvan, "schema", *options], home))
        expect(
            f"schema of a {name}", told, json.loads((ROOT / f"docs/{name}.schema.json").read_text("utf-8"))
        )
    listed = json.loads(call([silvan, "papers", "list", "--json"], home))
    folders = {path.parent.name for path in ROOT.glob("papers/*/published.toml")}
    expect("experiments", {one["id"] for one in listed}, folders)
    rows = json.loads(call([silvan, "papers", "run", *EXPERIMENTS, "--quick", "--json"], home))
    expect("verdicts", {row["verdict"] for row in rows}, {"met"})
    record = json.loads(call([silvan, "papers", "record", *EXPERIMENTS, "--json"], home))
    expect("record", [row["quantity"] for row in record], [row["quantity"] for row in rows])
    names = {path.stem for folder in ("scenarios", "studies") for path in (ROOT / folder).glob("*.toml")}
    shown = json.loads(call([silvan, "scenarios", "list", "--json"], home))
    expect("scenarios", {one["name"] for one in shown}, names)
    expect("copies", set(call([scripts / "python", "-c", COPIES], home).split()), names)
    copied = call([silvan, "scenarios", "copy", "star", "mine"], home).strip()
    expect("copied", Path(copied), Path("mine", "star.toml"))
    for folder in call([silvan, "fabric", "examples"], home).split():
        expect(
            folder, json.loads(call([silvan, "fabric", "check", folder, "--json"], home))["deadlock"], None
        )
    page = call(
        [scripts / "python", "-c", "from silvan.live import page; print(page.html('x', 'events'))"], home
    )
    expect("beginning of the page of a run", page[:15].lower(), "<!doctype html>")
    call([silvan, "demo"], home)
    page = (home / "out" / "demo" / "report.html").read_text(encoding="utf-8")
    expect("beginning of the report", page[:15].lower(), "<!doctype html>")


def main() -> int:
    """Test a wheel and its source archive; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="*", type=Path, metavar="PYTHON")
    parser.add_argument("--oldest", action="store_true", help="of the Pythons found, only the oldest")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    try:
        try_source_archive(wheel)
        for python in arguments.pythons or pythons()[: 1 if arguments.oldest else None]:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="silvan-wheel-") as home:
                try_wheel(python, wheel, Path(home))
            print(f"{wheel.name} works alone with {python.name}, tried in {time.monotonic() - began:.0f} s")
    except TrialError as error:
        print(f"{wheel.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
