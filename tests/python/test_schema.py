"""Tests that the published schema agrees with the program, so that editors report the same errors.

An independent validator checks every scenario that is shipped or shown in the documentation.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import silvan
from conftest import ROOT
from silvan import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = json.loads((ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
#: Scenarios to which a fragment of a scenario is added.
BASE = {
    "duration": "1 ms",
    "topology": {"kind": "dumbbell"},
    "flow": [{"from": "H1", "to": "H4"}],
}
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def shipped() -> list[Path]:
    """Return all TOML files of the repository that are scenarios."""
    folders = ("scenarios", "papers", "tests/data")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.toml"))]
    return [path for path in files if "topology" in tomllib.loads(path.read_text(encoding="utf-8"))]


def shown() -> list[tuple[str, dict[str, Any]]]:
    """Return all blocks of the documentation that are scenarios or fragments of scenarios."""
    found = []
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)):
            table = tomllib.loads(re.sub(r"(?m)^ {3}", "", block) if block.startswith("   ") else block)
            # In studies, `measure` is a list.
            is_study = isinstance(table.get("measure"), list)
            if table.keys() <= SCHEMA["properties"].keys() and not is_study:
                found.append((f"{page.stem} {number}", table))
    return found


def faults(table: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(table)]


def written(table: Any) -> str:
    """Format a table as TOML on one line per key."""
    if isinstance(table, dict):
        inside = ", ".join(f"{json.dumps(key)} = {written(value)}" for key, value in table.items())
        return f"{{ {inside} }}"
    if isinstance(table, list):
        return "[" + ", ".join(map(written, table)) + "]"
    return json.dumps(table)


def loaded(table: dict[str, Any]) -> Scenario:
    return Scenario.from_toml("".join(f"{key} = {written(value)}\n" for key, value in table.items()))


def test_the_schema_itself_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(silvan.schema()) == SCHEMA


@pytest.mark.parametrize("path", shipped(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_shipped_scenario_is_valid_as_written_and_as_resolved(path):
    assert not faults(tomllib.loads(path.read_text(encoding="utf-8")))
    assert not faults(tomllib.loads(Scenario.load(path).to_toml()))


def test_there_is_something_to_be_shown():
    assert len(shipped()) > 30
    assert len(shown()) >= 12


@pytest.mark.parametrize("table", [table for _, table in shown()], ids=[name for name, _ in shown()])
def test_every_block_of_the_documents_is_valid(table):
    assert not faults({**BASE, **table})


WRONG = {
    "top level": {"sed": 1},
    "key of a kind": {"topology": {"kind": "star", "leaves": 3}},
    "unknown kind": {"topology": {"kind": "torus"}},
    "key without a kind": {"congestion": {"mechanism": "ecocc", "isolation": {"queus": 3}}},
    "no unit": {"duration": 3},
    "another unit": {"warmup": "3 KiB"},
    "mechanism": {"congestion": {"mechanism": "dcqnc"}},
    "a float": {"seed": 1.5},
    "lanes.count": {"lanes": {"count": 16}},
    "no lane": {"lanes": {"count": 0}},
    "no entries": {"lanes": {"sl_to_vl": []}},
    "islip_iterations": {"switch": {"architecture": "iq", "islip_iterations": 17}},
    "queue_count": {"switch": {"queues": "output-modulo", "queue_count": 1025}},
    "threshold": {"congestion": {"mechanism": "ib-cc", "marking": {"threshold": 16}}},
    "marking_rate": {"congestion": {"mechanism": "ib-cc", "marking": {"marking_rate": 65535}}},
    "percent": {"congestion": {"mechanism": "ib-cc", "marking": {"percent": 101}}},
    "output_percent": {"congestion": {"mechanism": "pfister", "marking": {"output_percent": 100}}},
    "special queues": {"congestion": {"mechanism": "ecocc", "isolation": {"queues": 65}}},
    "ccti_timer": {"congestion": {"mechanism": "ib-cc", "reaction": {"ccti_timer": 0}}},
    "entries": {
        "congestion": {
            "mechanism": "ib-cc",
            "reaction": {"table": {"kind": "linear", "packets": 1, "entries": 127}},
        }
    },
    "window": {"congestion": {"mechanism": "mvcm", "reaction": {"window": 0}}},
    "sl": {"flow": [{"from": "H1", "to": "H4", "sl": 16}]},
    "start_after_packets": {"flow": [{"from": "H1", "to": "H4", "start_after_packets": 0}]},
    "hotspots": {"traffic": [{"pattern": {"kind": "forest", "hotspots": 0, "victims": 100}}]},
    "percentage": {"traffic": [{"pattern": {"kind": "forest", "hotspots": 1, "victims": 101}}]},
    "hosts": {"topology": {"kind": "star", "hosts": 1025}},
    "spines": {"topology": {"kind": "two-level-fat-tree", "leaves": 2, "spines": 1024, "hosts_per_leaf": 2}},
    "radix": {"topology": {"kind": "three-level-fat-tree", "radix": 5}},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_the_program_refuses_the_schema_refuses(wrong):
    assert faults({**BASE, **wrong})
    with pytest.raises(silvan.ScenarioError):
        loaded({**BASE, **wrong}).check()


def ranges(schema: Any, path: str = "") -> dict[str, tuple[int | None, int | None]]:
    """Return the range of every whole number, by its position in the schema."""
    found = {}
    if isinstance(schema, dict):
        if schema.get("type") == "integer":
            found[path] = (schema.get("minimum"), schema.get("maximum"))
        for key, value in schema.items():
            found |= ranges(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            found |= ranges(value, f"{path}/{number}")
    return found


def test_ranges_are_those_of_the_fields_and_not_of_their_names():
    by_name: dict[str, set[tuple[int | None, int | None]]] = {}
    for path, span in ranges(SCHEMA).items():
        by_name.setdefault(path.rsplit("/", 1)[-1], set()).add(span)
    assert by_name["count"] == {(1, 15), (1, 64), (1, 1_000_000), (2, 64)}, (
        "of lanes, queue pairs, replays of a link and ports of a host"
    )
    assert by_name["threshold"] == {(0, 15)}
    assert by_name["hosts"] == {(1, 1024), (0, None)}, "of a star and of a k-ary n-fly"
    assert by_name["limit"] == {(1, 4096), (0, 255)}, "of linear delays and of waiting slots"
