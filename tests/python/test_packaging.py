"""Tests what is published: the container, the conda recipe, the metadata for archives, and the workflows."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import release
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


def test_the_installation_page_lists_each_optional_feature():
    page = (ROOT / "docs/install.md").read_text().partition("## Optional features")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([a-z0-9]+)`", page))
    assert set(PROJECT["optional-dependencies"]) == listed


def steps_of_the_image(folder, environment):
    """Return the shell commands of the Dockerfile that install packages, for other folders."""
    text = re.search(r"^RUN (.*?)(?<!\\)$", (ROOT / "packaging/Dockerfile").read_text(), re.M | re.S)[1]
    assert text.count(" && useradd ") == 1
    commands = text.partition(" && useradd ")[0].replace("\\\n", "").rstrip()
    return commands.replace("/tmp/silvan", str(folder)).replace("pip ", f"{environment}/bin/pip ")


def made_up_wheel(folder, platform):
    """Write a wheel without code, with the dependencies of the package."""
    stem = f"silvan-{version()}"
    with zipfile.ZipFile(folder / f"{stem}-cp310-abi3-{platform}.whl", "w") as wheel:
        wheel.writestr("silvan/__init__.py", f"platform = {platform!r}\n")
        needs = "".join(f"Requires-Dist: {one}\n" for one in PROJECT["dependencies"])
        info = f"{stem}.dist-info"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: silvan\nVersion: {version()}\n{needs}"
        )
        wheel.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp310-abi3-{platform}\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.nightly
def test_the_image_installs_the_locked_packages_and_the_wheel_for_its_processor(tmp_path):
    environment, folder = tmp_path / "env", tmp_path / "silvan"
    folder.mkdir()
    shutil.copy(ROOT / "requirements.lock", folder)
    for processor in ("x86_64", "aarch64"):
        made_up_wheel(folder, f"linux_{processor}")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    script = steps_of_the_image(folder, environment)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not folder.exists()

    def said(*words):
        return subprocess.run(
            [environment / "bin" / words[0], *words[1:]], capture_output=True, text=True, check=True
        ).stdout

    assert said("pip", "check") == "No broken requirements found.\n"
    assert "maturin" not in said("pip", "list")
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    assert said("python", "-I", "-c", "import silvan; print(silvan.platform)") == f"linux_{machine}\n"


@pytest.fixture(scope="module")
def recipe():
    rattler = pytest.importorskip("rattler_build")
    return rattler.Stage0Recipe.from_file(str(ROOT / "packaging/conda/recipe.yaml"))


def test_the_conda_recipe_renders(recipe):
    rendered = recipe.render()
    assert [str(one.recipe.package.version) for one in rendered] == [version()]


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64"])
def test_the_conda_recipe_renders_for_each_platform(recipe, platform):
    import rattler_build

    config = rattler_build.PlatformConfig(target_platform=platform)
    (one,) = recipe.render(render_config=rattler_build.RenderConfig(platform=config))
    assert str(one.recipe.package.version) == version()


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


def test_archives_get_the_metadata_of_the_citation():
    deposit = json.loads((ROOT / ".zenodo.json").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    for ours, theirs in (
        ("title", "title"),
        ("description", "abstract"),
        ("license", "license"),
        ("keywords", "keywords"),
    ):
        assert deposit[ours] == citation[theirs]
    assert deposit["creators"] == [{"name": one["name"]} for one in citation["authors"]]
    assert deposit["upload_type"] == citation["type"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    # The archive takes the version from the tag, and gives the DOI.
    assert not {"version", "doi"} & deposit.keys()


WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")
}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_pin_actions_by_commit_and_state_the_version(name):
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    used = re.findall(r"^ *(?:- )?uses: (.*)$", text, re.MULTILINE)
    assert used
    for one in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one
    # An action has the same commit everywhere.
    everywhere = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    for one in used:
        action = one.partition("@")[0]
        assert set(re.findall(rf"uses: ({re.escape(action)}@.*)$", everywhere, re.MULTILINE)) == {one}


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_jobs_have_few_permissions_and_a_time_limit(name, job):
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {}
    given = workflow["jobs"][job]["permissions"]
    assert workflow["jobs"][job]["timeout-minutes"] <= 120
    steps = workflow["jobs"][job]["steps"]
    # A job that may write something does not build or test anything.
    if {key for key, value in given.items() if value == "write"}:
        commands = " ".join(step.get("run", "") for step in steps)
        assert not re.search(r"\b(make|cargo|maturin|pip|pytest)\b", commands)
        assert name == "release"
        needed = workflow["jobs"][job]["needs"]
        assert job == "attest" or "attest" in ([needed] if isinstance(needed, str) else needed)
    for step in steps:
        if step.get("uses", "").startswith("actions/checkout@"):
            is_pushed = step["with"].get("ref") == "site"
            assert step["with"]["persist-credentials"] is is_pushed


def test_only_tags_publish():
    jobs = WORKFLOWS["release"]["jobs"]
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}
    assert jobs["attest"]["if"] == "github.ref_type == 'tag'"
    assert [name for name, job in jobs.items() if "if" in job] == ["attest"]


def test_the_workflow_builds_a_wheel_for_each_documented_platform():
    job = WORKFLOWS["release"]["jobs"]["wheel"]
    matrix = job["strategy"]["matrix"]["include"]
    names = [platform.name for platform in release.PLATFORMS]
    assert [one["platform"] for one in matrix] == names
    assert len({one["artifact"] for one in matrix}) == len({one["runner"] for one in matrix}) == len(names)
    assert all(one["artifact"].startswith("wheel-") for one in matrix)
    page = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (\w+ (?:x86_64|aarch64|arm64)) \|", page, re.MULTILINE)
    assert rows == names
    # Names of files have the present version, and the tags of their platform.
    assert set(re.findall(r"silvan-(\d[\d.]*\d)[-.]", page)) == {version()}
    ends = re.findall(r"^\| (\w+ \w+) \| `([\w.]+\.whl)`", page, re.MULTILINE)
    assert [release.platform_of(f"silvan-0-cp310-abi3-{end}").name for _, end in ends] == names
    # The wheels are tested with the oldest supported Python.
    (used,) = (
        step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")
    )
    assert PROJECT["requires-python"] == f">={used}"


def test_the_workflow_uses_a_compiler_that_is_new_enough():
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    least = [int(part) for part in manifest["workspace"]["package"]["rust-version"].split(".")]
    used = [int(part) for part in WORKFLOWS["release"]["env"]["RUSTUP_TOOLCHAIN"].split(".")]
    assert used >= least
    rust = manifest["workspace"]["package"]["rust-version"]
    assert f"Rust {rust} or newer" in (ROOT / "docs" / "install.md").read_text()


def test_commands_of_workflows_name_files_and_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, workflow in WORKFLOWS.items():
        commands = " ".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
        assert set(re.findall(r"\bmake ([\w-]+)", commands)) <= targets, name
        named = re.findall(r"(?<![\w/.])((?:tools|\.ci)/[\w./-]+|[\w-]+\.lock)", commands)
        assert named
        assert all((ROOT / one).is_file() for one in named), named
