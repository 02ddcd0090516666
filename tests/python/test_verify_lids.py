"""Compares runs on a fabric with several LIDs per host with the reference model."""

from __future__ import annotations

import itertools

import pytest
from verify import compare, lid_drawing, reading
from verify.fabric_files import FileFabric
from verify.reference import hashing

import silvan

TOPOLOGY = {"kind": "file", "file": str(lid_drawing.FOLDER / "fabric.topo")}
TABLES = {"kind": "table", "file": str(lid_drawing.FOLDER / "fabric.lft")}


def test_both_models_agree() -> None:
    compared = compare.compare(lid_drawing.many(1, 40), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 8, compared.refused


def test_drawn_scenarios_use_all_path_bits() -> None:
    drawn = [found["routing"]["path_bits"] for _, found in lid_drawing.many(1, 40)]
    assert set(drawn) == {"zero", "per-flow", "per-packet"}


def test_a_notification_at_the_time_of_a_decrease_does_not_change_turns() -> None:
    scenario = lid_drawing.variant(425)
    assert scenario
    assert compare.differences(scenario) == []


def test_a_wrong_salt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = (pair for pair in lid_drawing.many(1, 100) if pair[1]["routing"]["path_bits"] == "per-flow")
    scenarios = list(itertools.islice(drawn, 8))
    right = hashing.Hashing.__init__

    def wrong(self: hashing.Hashing, *given: object) -> None:
        right(self, *given)  # type: ignore[arg-type]
        self.salt += 1

    monkeypatch.setattr(hashing.Hashing, "__init__", wrong)
    assert compare.compare(scenarios, show=False).wrong


def test_files_are_read_as_the_simulator_reads_them() -> None:
    net = reading.network(TOPOLOGY, TABLES)
    assert isinstance(net, FileFabric)
    assert (net.hosts[0], len(net.hosts), len(net.links), net.lids) == ("node-0", 7, 9, 4)
    assert net.routes["swA"]["node-3"] == (8, 7, 7, 8)
    assert net.routes["swB"]["node-0"] == (8, 7)
    found = silvan.fabric.check(lid_drawing.FOLDER)
    assert (found["lids_per_host"], found["pairs_routed"], found["pairs_unroutable"]) == (4, 42, 0)
    assert (found["all_to_all"]["min"], found["all_to_all"]["max"]) == (24, 24)
    assert found["deadlock"] is None
