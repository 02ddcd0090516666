"""`silvan.why(..., prove=True)`: the run without the first cause, and what it gains."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest
from typer.testing import CliRunner

import silvan
from silvan import _core, cli
from silvan.delays import FlowKey, Proof, Why, subjects
from test_why import LEAVES, MEGABYTE, STAR, flow, ring

ROOT = Path(__file__).resolve().parents[2]

LOSS = '[[event]]\nkind = "down"\nlinks = ["H3"]\nstart = "10 us"\nlasts = "1 us"\n'
LOSS += '[recovery]\nkind = "selective-repeat"\ntimeout = "100 us"\n'
SLOW_CABLE = """
duration = "2 ms"
[topology]
kind = "custom"
link_rate = "100 Gbit/s"
hosts = ["H1", "H2"]
switches = [{ name = "A", ports = 3 }, { name = "B", ports = 3 }, { name = "C", ports = 3 }]
links = [
    { from = "H1", to = "A" },
    { from = "A", to = "B", rate = "25 Gbit/s" },
    { from = "B", to = "C" },
    { from = "C", to = "H2" },
]
"""


def proven(toml: str, name: str | None = None, **options: Any) -> tuple[Why, Proof]:
    """Run a scenario, explain its slowest message, and prove its first cause."""
    result = silvan.run(silvan.Scenario.from_toml(toml))
    found = silvan.why(result, flow=name, prove=True, **options)[0]
    assert found.proof is not None
    return found, found.proof


@pytest.mark.parametrize(
    ("toml", "removed"),
    [
        (STAR + flow("H1", "H3") + flow("H2", "H3"), "flow H1->H3"),
        (STAR + '[host]\ndrain_rate = "25 Gbit/s"\n' + flow("H1", "H3"), "limits of the drain rate of H3"),
        (STAR + '[host]\ninjection_rate = "50 Gbit/s"\n' + flow("H1", "H3"), "limits of the injection of H1"),
        (
            STAR + '[[event]]\nkind = "rate"\nlinks = ["H3"]\nrate = "25 Gbit/s"\n' + flow("H1", "H3"),
            "rate of S1:3",
        ),
        (
            STAR + '[[event]]\nkind = "stall"\nhosts = ["H3"]\nlasts = "99 us"\n' + flow("H1", "H3"),
            "drain rate",
        ),
        (SLOW_CABLE + flow("H1", "H2"), "lower rate of A:2->B:1"),
        (
            LEAVES.format(spines=2) + "[ecmp]\n" + flow("H1", "H9") + flow("H4", "H12"),
            "H4->H12 takes another path",
        ),
        (STAR + LOSS + flow("H1", "H3", "200 kB"), "faults of S1:3->H3"),
    ],
)
def test_gain_is_the_share_of_the_cause(toml: str, removed: str) -> None:
    """Without another cause, the message takes as long as alone, and the gain is the whole delay."""
    found, proof = proven(toml)
    (trial,) = proof.trials
    assert proof.reason == ""
    assert removed in trial.removed
    assert trial.predicted == found.explanation.causes[0].ps
    assert trial.actual == pytest.approx(found.explanation.delay, abs=1)
    assert f"Proof: without {trial.removed}, it takes " in found.sentences[-1]


def test_collision_of_a_host_with_other_traffic() -> None:
    """Another path for the flow would change the path of the other flow of its host."""
    toml = LEAVES.format(spines=2) + "[ecmp]\n" + flow("H1", "H9") + flow("H4", "H12")
    found, proof = proven(toml + flow("H4", "H5", start="900 us"))
    (trial,) = proof.trials
    assert trial.removed == "flow H1->H9, which the scenario cannot move to another path"
    assert trial.actual == found.explanation.delay == MEGABYTE


def test_window_of_the_round_trip() -> None:
    window = '[congestion]\nnotification = "ack-each"\n[congestion.reaction]\nkind = "static-window"\n'
    slow = STAR + 'link_delay = "5 us"\n[switch]\nbuffer = "1 MiB"\n[host]\nbuffer = "1 MiB"\n'
    found, proof = proven(slow + window + "packets = 10\n" + flow("H1", "H3", "204800 B"))
    (trial,) = proof.trials
    assert trial.actual == trial.predicted == found.explanation.delay
    assert trial.removed.endswith("(125 instead of 10 packets)")


def test_late_rank_gets_the_median_computation(tmp_path: Path) -> None:
    (tmp_path / "ring.goal").write_text(ring(4, 2, 30_000))
    job = f'[[job]]\nname = "ring"\nprogram = {{ kind = "trace", file = "{tmp_path / "ring.goal"}" }}\n'
    _, proof = proven(STAR + job, job="ring")
    (trial,) = proof.trials
    assert (trial.predicted, trial.actual) == (30_000_000, 30_000_000)


def test_two_late_ranks_hide_each_other(tmp_path: Path) -> None:
    """Without one of two equally late ranks, nothing is gained; without both, all of the delay."""
    lines = ring(6, 2, 30_000).split("rank 4 {")
    (tmp_path / "ring.goal").write_text("rank 4 {".join([lines[0], lines[1].replace("50000", "80000", 1)]))
    job = f'[[job]]\nname = "ring"\nprogram = {{ kind = "trace", file = "{tmp_path / "ring.goal"}" }}\n'
    _, proof = proven(STAR.replace("hosts = 4", "hosts = 6") + job, job="ring")
    one, both = proof.trials
    assert one.predicted == 30_000_000
    assert one.actual is not None
    assert one.actual < 1_000_000
    assert both.removed == (
        "the additional computation of rank 2 of ring and the additional computation of rank 4 of ring"
    )
    assert both.actual == 30_000_000


def test_other_messages_stay_the_same() -> None:
    """Random times, sizes and destinations of other traffic do not depend on what is removed."""
    pattern = (
        'pattern = { kind = "uniform" }\nsizes = { kind = "rpc" }\nload_percent = 20\narrivals = "poisson"\n'
    )
    toml = STAR + "[measure]\ntransfers = true\n"
    toml += flow("H1", "H3", "20 kB", name="a", rate="9 Gbit/s", arrivals="poisson", total="200 kB")
    toml += flow("H2", "H3", "20 kB", name="b", rate="9 Gbit/s", arrivals="poisson", total="200 kB")
    toml += f'[[traffic]]\nname = "first"\n{pattern}[[traffic]]\nname = "second"\n{pattern}'
    scenario = silvan.Scenario.from_toml(toml)
    late = {"start": "1999999 ns"}
    spec = subjects.tomllib.loads(scenario.to_toml())
    changed = scenario.with_overrides(
        {
            "flow": [{**spec["flow"][0], **late}, spec["flow"][1]],
            "traffic": [{**spec["traffic"][0], **late}, spec["traffic"][1]],
        }
    )
    before, after = (silvan.run(one).numpy("transfers") for one in (scenario, changed))

    def generated(table: Any, name: str, sender: str | None = None) -> set[tuple[Any, ...]]:
        columns = zip(
            *(table[key].tolist() for key in ("class", "from", "to", "bytes", "start_ns")), strict=True
        )
        return {row for row in columns if row[0] == name and sender in {None, row[1]}}

    for name, sender in (("flows", "H2"), ("second", None)):
        assert len(generated(before, name, sender)) >= 10
        assert generated(before, name, sender) == generated(after, name, sender)
    assert len(generated(before, "first")) >= 10
    assert "first" not in after["class"].tolist()


def test_flows_of_the_same_pattern_are_replayed() -> None:
    """The transfers of an incast are listed without those that delayed the message."""
    toml = STAR + '[[traffic]]\nname = "incast"\nmessage = "100 kB"\n'
    toml += 'pattern = { kind = "incast", senders = 3, to = "H4", every = "100 us", jitter = "5 us" }\n'
    toml += 'stop = "1 ms"\n'
    found, proof = proven(toml)
    (trial,) = proof.trials
    assert trial.removed.startswith("incast (H")
    assert trial.actual == pytest.approx(found.explanation.delay, rel=0.01)


def test_hosts_of_an_incast_are_left_out() -> None:
    toml = STAR + '[[traffic]]\nname = "incast"\nmessage = "100 kB"\npackets_per_host = 49\n'
    found, proof = proven(toml + 'pattern = { kind = "hotspots", to = "H4" }\n')
    (trial,) = proof.trials
    assert trial.removed == "incast (H1->H4), incast (H2->H4)"
    assert trial.actual == trial.predicted == found.explanation.delay


def test_prediction_counts_all_links_of_the_removed_flows() -> None:
    """The traffic of storage delays the job on two links, and is removed from both."""
    (found,) = silvan.why(silvan.run("two-rails"), job="all-reduce", prove=True)
    assert found.proof is not None
    (trial,) = found.proof.trials
    assert trial.removed == "traffic checkpoint"
    assert trial.predicted > 1.4 * found.explanation.causes[0].ps
    assert trial.actual == pytest.approx(trial.predicted, rel=0.05)


def test_a_flow_of_which_only_answers_were_recorded_has_their_class() -> None:
    network = object.__new__(subjects.Network)
    network.delays = cast("_core.Delays", SimpleNamespace(class_of={(1, 0, 0): 2}.get))
    assert network.class_number(FlowKey(0, 0, 1)) == network.class_number(FlowKey(1, 0, 0)) == 2
    assert network.class_number(FlowKey(0, 0, 2)) is None


def test_causes_that_no_scenario_can_remove() -> None:
    own = '[[traffic]]\nrate = "90 Gbit/s"\nstop = "20 us"\npattern = { kind = "uniform" }\n'
    _, proof = proven(STAR + own)
    own = "cannot be removed: the packets are those of its own flow or pattern"
    assert proof.reason.endswith(f"{own}, or of a flow between the same hosts")
    assert proof.trials == ()
    _, proof = proven(STAR + flow("H1", "H3"))
    assert proof == Proof((), "nothing delayed it")
    drop = '[flow_control]\nkind = "pfc"\nlossy_lanes = [0]\n'
    drop += '[recovery]\nkind = "selective-repeat"\ntimeout = "50 us"\n'
    both = flow("H1", "H3", "300 kB") + flow("H2", "H3", "300 kB")
    found, proof = proven(STAR + drop + both)
    assert found.explanation.causes[0].label.value == "loss"
    assert "packets of lossy lanes were dropped at a full buffer" in proof.reason


def test_json_form() -> None:
    schema = json.loads((ROOT / "docs" / "why.schema.json").read_text(encoding="utf-8"))
    found, proof = proven(STAR + flow("H1", "H3") + flow("H2", "H3"))
    value = json.loads(found.to_json())
    jsonschema.validate(value, schema)
    assert value["proof"] == {
        "runs": [{"removed": "flow H1->H3", "predicted_ps": MEGABYTE, "actual_ps": MEGABYTE}]
    }
    assert proof.trials[0].actual == MEGABYTE
    found, _ = proven(STAR + flow("H1", "H3"))
    jsonschema.validate(found.to_dict(), schema)
    assert found.to_dict()["proof"] == {"runs": [], "reason": "nothing delayed it"}


def test_command_records_the_time_of_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of transfers says when it was sent. Flows between the same hosts keep their names."""
    recorded = []

    def record(scenario: silvan.Scenario, begin: int, *rest: Any) -> Any:
        recorded.append(begin)
        return original(scenario, begin, *rest)

    original = _core.record
    monkeypatch.setattr(_core, "record", record)
    toml = STAR + flow("H1", "H3", "100 kB", name="a", start="1 ms")
    toml += flow("H2", "H3", name="b", start="1 ms") + flow("H2", "H3", "10 kB", name="c")
    (tmp_path / "star.toml").write_text(toml)
    arguments = ["why", str(tmp_path / "star.toml"), "--flow", "a", "--prove"]
    shown = CliRunner().invoke(cli.application(), arguments)
    assert shown.exit_code == 0, shown.output
    assert recorded == [900_000_000]
    assert "with: b (H2->H3) 7.864 us" in shown.output
    assert (
        "Proof: without flow b (H2->H3), it takes 7.864 us less (predicted: 7.864 us less)." in shown.output
    )
