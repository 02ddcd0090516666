"""The worked example of docs/mechanisms.md, put in: it compiles, and it marks in every switch."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT

PATCH = ROOT / "docs" / "examples" / "ramp-marking.patch"
#: What the model is compiled from.
SOURCES = ("Cargo.toml", "Cargo.lock", "benches", "crates")
#: Kept from one time to the next, so that only what changed is compiled again.
PLACE = ROOT / "target" / "worked-example"


def patched(folder: Path) -> None:
    """Make a copy of the sources with the patch."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    # A repository of its own, as git leaves alone what another one around it does not know.
    for command in (["git", "init", "--quiet"], ["git", "apply", str(PATCH)]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    shutil.rmtree(folder / ".git")


def refresh(place: Path, folder: Path) -> None:
    """Bring a copy up to date, leaving alone what is as it should be."""
    wanted = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    built = place / "target"
    for path in [path for path in place.rglob("*") if path.is_file() and built not in path.parents]:
        if path.relative_to(place) not in wanted:
            path.unlink()
    for name in wanted:
        own, new = place / name, (folder / name).read_bytes()
        if not own.is_file() or own.read_bytes() != new:
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(new)


def test_the_worked_example_marks_in_every_switch(tmp_path: Path) -> None:
    patched(tmp_path)
    refresh(PLACE, tmp_path)
    cargo = [str(ROOT / "tools" / "with-rust"), "cargo", "test", "--quiet", "-p", "silvan-fabric"]
    tests = ["--lib", "--test", "behaviour", "mark"]
    # Apart from what is built of the sources themselves: cargo would take the one for the other.
    own = {**os.environ, "CARGO_TARGET_DIR": str(PLACE / "target")}
    done = subprocess.run([*cargo, *tests], cwd=PLACE, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the_share_of_marks_grows_with_the_fill_of_a_root" in listed(cargo, own)


def listed(cargo: list[str], env: dict[str, str]) -> str:
    """Return the names of the tests that were run, the example's own among them."""
    tests = ["--lib", "mark", "--", "--list"]
    return subprocess.run(
        [*cargo, *tests], cwd=PLACE, capture_output=True, text=True, check=True, env=env
    ).stdout
