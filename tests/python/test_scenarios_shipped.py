"""Files that Silvan ships in addition to code. `tools/try_wheel.py` checks that a wheel has them."""

import json
import re

import pytest

import silvan
from conftest import ROOT, command
from silvan import scenarios


def test_all_scenarios_and_studies_are_listed():
    done = command("scenarios", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    for kind, folder in (("scenario", "scenarios"), ("study", "studies")):
        here = {path.stem: path for path in (ROOT / folder).glob("*.toml")}
        assert {one["name"]: one["path"] for one in listed if one["kind"] == kind} == {
            name: str(path) for name, path in here.items()
        }
    assert all(one["description"] for one in listed)
    table = command("scenarios", "list")
    assert all(one["name"] in table.stdout for one in listed)


@pytest.mark.parametrize("name", [one.name for one in scenarios.listed() if one.kind == "scenario"])
def test_comments_need_no_knowledge_of_papers(name):
    """Numbers of papers are defined only in docs/papers.md."""
    text = scenarios.find(name).path.read_text("utf-8")
    assert not re.search(r"\bPaper [IV]+\b", text)


@pytest.mark.parametrize("name", [one.name for one in scenarios.listed()])
def test_a_copy_stands_alone(name, tmp_path):
    paths = scenarios.copy(name, tmp_path / "mine")
    assert paths[0] == tmp_path / "mine" / f"{name}.toml"
    if scenarios.find(name).kind == "study":
        study = silvan.Study.load(paths[0])
        original = silvan.Study.load(scenarios.find(name).path)
        assert len(study.points()) == len(original.points())
        return
    copied = silvan.Scenario.load(paths[0]).check()
    original = silvan.Scenario.load(scenarios.find(name).path).check()
    # The reason for a refusal begins with the path of the file.
    reasons = [(one.pop("refusal") or "").partition(".toml:")[2] for one in (copied, original)]
    assert (copied, reasons[0]) == (original, reasons[1])


def test_a_copy_replaces_nothing(tmp_path):
    (tmp_path / "routes-512.toml").write_text("mine")
    done = command("scenarios", "copy", "routes-and-control", cwd=tmp_path)
    assert done.returncode == 1
    assert "routes-512.toml: already exists" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["routes-512.toml"]
    (tmp_path / "testbed.toml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match=r"testbed\.toml"):
        scenarios.copy("testbed", tmp_path)
    assert not (tmp_path / "nowhere").exists()


def test_an_unknown_name_is_told_near_ones():
    done = command("scenarios", "copy", "testbad")
    assert done.returncode == 1
    assert "no scenario or study `testbad` comes with Silvan; there are testbed" in done.stderr
    with pytest.raises(silvan.SilvanError, match=r"there are dragonfly-72, .*fabric-648, .*t8-surfaces"):
        scenarios.find("qqq")
    assert scenarios.find("star.toml").name == "star"


def test_a_broken_package_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(scenarios, "_SHIPPED", tmp_path)
    with pytest.raises(silvan.SilvanError, match="scenarios: no such folder; the package is incomplete"):
        scenarios.listed()
