"""Tests the worked examples of docs/examples: each patch applies, compiles, and passes its tests.

To compile the model only once, `make check` merges all patches. `make nightly` also compiles each of them
alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

PATCHES = sorted((ROOT / "docs" / "examples").glob("*.patch"))
#: Files that are needed to compile the model.
SOURCES = ("Cargo.toml", "Cargo.lock", "benches", "crates", "verify/swarm")
#: The copy of the sources. It is kept between examples, so that only changed files are compiled again.
PLACE = ROOT / "target" / "worked-example"
#: Optimizing the model would take longer than these tests.
MODEL = ("silvan-congestion", "silvan-fabric")
QUICKLY_BUILT = [word for name in MODEL for word in ("--config", f"profile.dev.package.{name}.opt-level=0")]
CARGO = [str(ROOT / "tools" / "with-rust"), "cargo"]


def patched(folder: Path, patch: Path) -> None:
    """Create a copy of the sources with the patch applied."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, folder / name)
    # Create a separate repository, because git skips untracked files inside another repository. Apply only
    # the changes of the sources; other files of a patch, such as documents, are not compiled.
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True, capture_output=True)
    only = [f"--include={name}{'/*' if (ROOT / name).is_dir() else ''}" for name in SOURCES]
    subprocess.run(["git", "apply", *only, str(patch)], cwd=folder, check=True, capture_output=True)
    shutil.rmtree(folder / ".git")


def refresh(place: Path, folder: Path) -> None:
    """Update a copy; do not touch files that have not changed."""
    wanted = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    built = place / "target"
    for path in [path for path in place.rglob("*") if path.is_file() and built not in path.parents]:
        if path.relative_to(place) not in wanted:
            path.unlink()
    for name in wanted:
        own, new = place / name, folder / name
        if not own.is_file() or own.read_bytes() != new.read_bytes():
            own.parent.mkdir(parents=True, exist_ok=True)
            # Keep the time of the file: files older than the copied build need no compilation.
            shutil.copy2(new, own)


def seed(target: Path) -> None:
    """Start with the packages that the tests of the sources have compiled, if there are any."""
    built = ROOT / "target" / "debug"
    if (target / "debug").exists() or not built.is_dir():
        return
    for folder in ("deps", "build", ".fingerprint"):
        for path in (built / folder).iterdir() if (built / folder).is_dir() else ():
            library = path.is_dir() or path.suffix in (".d", ".rlib", ".rmeta", ".so")
            if library and not path.name.startswith(("silvan", "libsilvan")):
                copy = target / "debug" / folder / path.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if path.is_dir() else shutil.copy2)(path, copy)


def added_tests(patch: Path) -> set[str]:
    """Return the names of the tests that a patch adds."""
    return set(re.findall(r"^\+\s*#\[test\]\n\+\s*fn (\w+)", patch.read_text(encoding="utf-8"), re.MULTILINE))


def merge(folder: Path, other: Path) -> None:
    """Add the changes of another copy. Where both change the same lines, such as ends of lists, keep both."""
    for new in [path for path in other.rglob("*") if path.is_file()]:
        own, base = folder / new.relative_to(other), ROOT / new.relative_to(other)
        if not own.exists():
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(new, own)
        elif not base.is_file() or new.read_bytes() != base.read_bytes():
            assert base.is_file(), f"two patches add {base.relative_to(ROOT)}"
            command = ["git", "merge-file", "--quiet", "--union", str(own), str(base), str(new)]
            subprocess.run(command, check=True, capture_output=True)


def check(folder: Path, patches: list[Path], *, incremental: bool) -> None:
    """Compile a patched copy; run the tests of the patches and those of the model."""
    own_tests = set()
    for patch in patches:
        tests = added_tests(patch)
        assert tests, f"{patch.name} adds no test"
        assert not own_tests & tests, f"another patch has a test of the same name: {own_tests & tests}"
        own_tests |= tests
    refresh(PLACE, folder)
    seed(PLACE / "target")
    # Use a separate target folder, because Cargo confuses packages at the same path in two workspaces.
    kept = {"CARGO_TARGET_DIR": str(PLACE / "target"), "CARGO_INCREMENTAL": str(int(incremental))}
    packages = [word for name in MODEL for word in ("-p", name)]
    command = [*CARGO, *QUICKLY_BUILT, "test", *packages, "--lib", "--test", "behaviour"]
    done = subprocess.run(
        command, cwd=PLACE, capture_output=True, text=True, check=False, env={**os.environ, **kept}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(re.findall(r"^test (?:\w+::)*(\w+) \.\.\. ok$", done.stdout, re.MULTILINE))
    assert own_tests <= passed, f"not run: {own_tests - passed}"


@pytest.mark.worked_example
def test_all_worked_examples_together_pass_their_tests_and_those_of_the_model(tmp_path: Path) -> None:
    first, *others = PATCHES
    patched(tmp_path / "all", first)
    for patch in others:
        patched(tmp_path / patch.stem, patch)
        merge(tmp_path / "all", tmp_path / patch.stem)
    check(tmp_path / "all", PATCHES, incremental=False)


# One test, because the examples share a folder.
@pytest.mark.nightly
def test_each_worked_example_alone_passes_its_tests_and_those_of_the_model(tmp_path: Path) -> None:
    for patch in PATCHES:
        patched(tmp_path / patch.stem, patch)
        check(tmp_path / patch.stem, [patch], incremental=True)
