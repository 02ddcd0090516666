"""Tests the pinned run of tests/data/golden in the release build that users get."""

import json
from pathlib import Path

import silvan

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def test_release_build_gives_the_bits_of_the_debug_build():
    run = silvan.run(silvan.Scenario.load(GOLDEN / "busy.toml"))
    pinned = json.loads((GOLDEN / "busy.json").read_text())
    assert {key: run.summary[key] for key in pinned} == pinned
    assert pinned["fecn_marks"] > 0
    assert pinned["becn_received"] > 0
