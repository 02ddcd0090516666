"""`verify/planted.py`: `silvan.why` finds causes that were planted in random fabrics."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from verify import planted

#: Three scenarios of each kind.
SEEDS = range(100, 130)


def test_planted_causes_are_found() -> None:
    found = list(planted.verdicts(SEEDS.start, len(SEEDS)))
    assert {one.planted.kind for one in found} == set(planted.KINDS)
    for name, least in planted.LEAST.items():
        assert planted.count(found, name) >= least * len(found), name


def test_another_cause_is_wrong() -> None:
    """The right label at another place, another label, and owners that were not planted are wrong."""
    known = planted.victim_of_incast(random.Random(7), 7)
    assert known is not None
    assert planted.judged(known).is_right  # type: ignore[union-attr]
    ((label, place),) = known.roots
    for other in (
        replace(known, roots=frozenset({(label, "L1.1:1->H1")})),
        replace(known, roots=frozenset({("hash-collision", place)})),
        replace(known, owners=frozenset({"H1->H2"})),
    ):
        verdict = planted.judged(other)
        assert verdict is not None
        assert (verdict.is_right, verdict.is_exact) == (False, True)


def test_a_cause_without_delay_is_drawn_again() -> None:
    known = planted.slow_receiver(random.Random(1), 1)
    quick = {key: value for key, value in known.scenario.items() if key != "event"}
    quick["host"] = {"buffer": known.scenario["host"]["buffer"]}
    assert planted.judged(replace(known, scenario=quick)) is None


def test_a_failing_explanation_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise planted.silvan.SilvanError("no explanation")

    monkeypatch.setattr(planted.silvan, "why", fails)
    verdict = planted.judged(planted.slow_receiver(random.Random(1), 1))
    assert verdict is not None
    assert not verdict.is_good
    assert verdict.text == "no explanation"


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["planted", "--first", "101", "--count", "3"])
    assert planted.main() == 0
    assert "all                         3      3      3      3" in capsys.readouterr().out


def test_the_oracle_is_independent() -> None:
    """It uses no recording: of the package, only the public functions."""
    text = Path(planted.__file__).read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert "import silvan" in imports
    assert not [line for line in imports if "silvan." in line or line.startswith("from silvan")]
    assert "_core" not in text
