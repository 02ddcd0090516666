"""Tests scenarios in Python: reading, overrides, resolved text."""

import json

import numpy as np
import pytest

import silvan
from conftest import ROOT, SMALL
from silvan import Scenario


def test_a_file_and_its_text_are_the_same_scenario(small):
    assert Scenario.load(small).to_toml() == Scenario.from_toml(SMALL).to_toml()
    assert Scenario.load(str(small)).name == "small"


def test_a_scenario_without_name_is_called_after_its_file(tmp_path):
    path = tmp_path / "unnamed.toml"
    path.write_text(SMALL.replace('name = "small"', ""))
    assert Scenario.load(path).name == "unnamed"


def test_the_resolved_scenario_reads_back():
    text = Scenario.from_toml(SMALL).to_toml()
    assert Scenario.from_toml(text).to_toml() == text


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("duration", "2 ms", 'duration = "2 ms"'),
        ("seed", 7, "seed = 7"),
        ("seed", "7", "seed = 7"),
        ("seed", np.int64(7), "seed = 7"),
        ("measure.links", False, "links = false"),
        ("flow.0.name", 'victim "one"', "name = 'victim \"one\"'"),
        ("lanes", {"count": 2, "sl_to_vl": [0, 1]}, "count = 2"),
    ],
)
def test_python_values_override_keys(key, value, expected):
    assert expected in Scenario.from_toml(SMALL, overrides={key: value}).to_toml()


def test_overrides_act_on_what_was_written_not_on_what_was_filled_in():
    once = Scenario.from_toml(SMALL, overrides={"congestion.mechanism": "ib-cc"})
    twice = Scenario.from_toml(SMALL).with_overrides({"congestion.mechanism": "ib-cc"})
    assert once.to_toml() == twice.to_toml()
    assert once.to_toml() != Scenario.from_toml(SMALL).to_toml()
    assert twice.with_overrides({"seed": 9}).overrides == [("congestion.mechanism", "ib-cc"), ("seed", "9")]


def test_wrong_scenarios_say_where_and_what():
    with pytest.raises(silvan.ScenarioError, match=r"bad\.toml:4: .*duration.*3 hours"):
        Scenario.from_toml(SMALL.replace("3 ms", "3 hours"), origin="bad.toml")
    with pytest.raises(silvan.SilvanError, match=r"--set switch\.bufer.*buffer"):
        Scenario.from_toml(SMALL, overrides={"switch.bufer": "1 KiB"})
    with pytest.raises(silvan.ScenarioError, match="nowhere"):
        Scenario.load("nowhere.toml")
    with pytest.raises(TypeError, match=r"seed.*object"):
        Scenario.from_toml(SMALL, overrides={"seed": object()})
    circle: list[object] = []
    circle.append({"again": circle})
    with pytest.raises(silvan.ScenarioError, match="seed: lists and tables nested more than 64 deep"):
        Scenario.from_toml(SMALL, overrides={"seed": circle})


def test_what_cannot_run_is_a_scenario_error():
    ring = Scenario.load(ROOT / "scenarios" / "ring-deadlock.toml")
    assert "S1" in str(ring.check()["deadlock"])
    with pytest.raises(silvan.ScenarioError, match="deadlock"):
        silvan.run(ring)


def ring(switches: int, hops: int) -> str:
    """Return a ring in which every host sends to the host that is this many switches away."""
    numbers = range(1, switches + 1)
    hosts = ", ".join(f'"H{i}"' for i in numbers)
    nodes = ", ".join(f'{{ name = "S{i}", ports = 3 }}' for i in numbers)
    links = [f'{{ from = "H{i}", to = "S{i}:3" }}' for i in numbers]
    links += [f'{{ from = "S{i}:1", to = "S{i % switches + 1}:2" }}' for i in numbers]
    flows = "".join(f'[[flow]]\nfrom = "H{i}"\nto = "H{(i + hops - 1) % switches + 1}"\n' for i in numbers)
    return f"""
duration = "2 ms"
[topology]
kind = "custom"
hosts = [{hosts}]
switches = [{nodes}]
links = [{", ".join(links)}]
[routing]
kind = "shortest-path"
allow_deadlock = true
{flows}"""


def test_a_deadlock_as_it_happens_is_a_model_error():
    with pytest.raises(silvan.ModelError, match=r"deadlock at .*S1:1.*S7:1"):
        silvan.run(Scenario.from_toml(ring(switches=7, hops=3)))


def test_the_published_schema_is_that_of_the_code():
    published = ROOT / "docs" / "scenario.schema.json"
    assert json.loads(published.read_text()) == json.loads(silvan.schema())


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_scenarios_pass_the_check(path):
    report = Scenario.load(path).check()
    assert report["hosts"] > 0
    assert report["pairs_unroutable"] == 0
