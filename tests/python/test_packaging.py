"""Tests the Dockerfile and the conda recipe with their own linters, and their dependencies."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Names of packages that differ in conda.
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def test_the_dockerfile_passes_its_linter():
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", "packaging/Dockerfile"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_context_has_only_what_the_image_needs():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    copied = re.findall(r"^COPY (\S+)", (ROOT / "packaging/Dockerfile").read_text(), re.MULTILINE)
    assert [f"!{source}" for source in copied] == lines[1:]


@pytest.fixture(scope="module")
def recipe():
    rattler = pytest.importorskip("rattler_build")
    return rattler.Stage0Recipe.from_file(str(ROOT / "packaging/conda/recipe.yaml"))


def test_the_conda_recipe_renders(recipe):
    rendered = recipe.render()
    assert [str(one.recipe.package.version) for one in rendered] == [version()]


def version():
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    return manifest["workspace"]["package"]["version"]


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    text = (ROOT / "packaging/conda/recipe.yaml").read_text()
    run = text.split("  run:\n")[1].split("\n\n")[0]
    found = {line.strip(" -") for line in run.splitlines()}
    wanted = {f"python {PROJECT['requires-python']}"}
    for one in PROJECT["dependencies"]:
        name, limit = re.match(r"([a-z0-9-]+)(\S*?)(?:;.*)?$", one.replace(" ", "")).groups()
        wanted.add(f"{CONDA_NAMES.get(name, name)} {limit}")
    assert found == wanted
