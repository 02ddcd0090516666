"""Tests statements of the pages on isolation and on user-defined mechanisms."""

import re
import runpy
import shlex
import subprocess

import pytest

import silvan
from conftest import ROOT
from silvan import Scenario

PAGE = ROOT / "docs" / "isolation.md"
HOW_TO = ROOT / "docs" / "extending.md"
PATCHES = sorted((ROOT / "docs" / "examples").glob("*.patch"))
SCENARIO = ROOT / "scenarios" / "ecocc-trees.toml"


#: Maximum number of changed files of patches that add no component but a flow control or a field of packets.
MOST_FILES = {"gentle-flow-control": 10, "long-notification": 7}


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_worked_example_applies_and_touches_few_files(patch):
    command = ["git", "apply", "--check", str(patch)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{patch.name} does not fit the sources: {checked.stderr}"
    text = patch.read_text(encoding="utf-8")
    assert 2 <= len(re.findall("^diff --git ", text, re.MULTILINE)) <= MOST_FILES.get(patch.stem, 6)
    assert patch.name in HOW_TO.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [PAGE, HOW_TO], ids=lambda page: page.stem)
def test_the_commands_of_the_pages_are_understood(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("silvan run scenarios/")]
    assert commands
    for words in commands:
        overrides = dict(word.split("=", 1) for word in words if "=" in word)
        if "average" in overrides.get("congestion.marking", ""):
            with pytest.raises(silvan.ScenarioError, match="average"):  # without the patch
                Scenario.load(ROOT / words[2], overrides)
        else:
            Scenario.load(ROOT / words[2], overrides).check()


def test_the_settings_of_the_page_are_understood():
    text = PAGE.read_text(encoding="utf-8")
    plain = SCENARIO.read_text(encoding="utf-8").replace('[congestion]\nmechanism = "ecocc"\n', "")
    own = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for heading in re.findall(r"^### .* \((`.*`)\)$", text, re.MULTILINE):
        own.append(f"switch = {{ {', '.join(re.findall('`([^`]*)`', heading))} }}")
    section = text.split("### Other static organizations")[1].split("###")[0]
    for row in re.findall(r"^\| [^`|]+ \| (`.*) \|$", section, re.MULTILINE):
        keys = re.findall("`([^`]* = [^`]*)`", row)
        whole = keys[0].startswith("lanes")
        own.append(keys[0] if whole else f"switch = {{ {', '.join(keys)} }}")
    assert len(own) == 1 + 3 + 6
    for settings in own:
        text = f"{plain}\n{settings}" if settings.startswith("[") else f"{settings}\n{plain}"
        assert Scenario.from_toml(text).check()["hosts"] == 64


def test_half_of_ecocc_is_hfdi_and_isolation_is_what_saves_the_victims():
    def run(**settings: str) -> dict:
        short = {"duration": "0.6 ms", "warmup": "0.3 ms"}
        return silvan.run(SCENARIO, **short, **settings).summary

    off = {"congestion__marking__kind": "none", "congestion__reaction__kind": "none"}
    half = run(**off)
    assert run(**off, congestion__isolation__at_root="true") == run(congestion__mechanism="hfdi")
    assert half["isolation"]["allocations"] > 0
    assert half["throughput_gbit_s"] > 1.1 * run(congestion__mechanism="none")["throughput_gbit_s"]


def test_the_figures_are_those_that_the_script_draws():
    script = runpy.run_path(str(ROOT / "docs" / "figures" / "draw.py"))
    for name, draw in script["FIGURES"].items():
        path = ROOT / "docs" / "figures" / f"{name}.svg"
        assert path.read_text(encoding="utf-8") == draw(), f"run docs/figures/draw.py for {name}"
        assert path.name in PAGE.read_text(encoding="utf-8")
