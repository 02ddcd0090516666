"""Tests notes on valid scenarios with surprising effects, and hints for names of papers and products."""

import pytest

import silvan
from conftest import ROOT, command
from silvan import _hints, _notes, scenarios

TREE = """
name = "tree"
duration = "1 ms"
warmup = "200 us"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 2
link_rate = "16 Gbit/s"
[measure]
interval = "50 us"
forest = true
[[traffic]]
name = "background"
rate = "3 Gbit/s"
pattern = { kind = "uniform" }
[[traffic]]
name = "hot"
pattern = { kind = "hotspots", to = ["H1"] }
hosts = ["H2", "H3"]
"""
SIZES = {"traffic.0.sizes": {"kind": "web-search"}, "traffic.0.arrivals": "poisson"}


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text(TREE)
    return path


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, None),
        ({"traffic.0.rate": "30 Gbit/s"}, "offers 1.88 times the rate of a host link (16 Gbit/s)"),
        ({"traffic.0.rate": "16 Gbit/s"}, None),
        ({"measure.interval": "1 ms"}, "only 0.8 samples are after the warm-up"),
        ({"measure.interval": "400 us"}, "only 2 samples are after the warm-up"),
        (SIZES, "packet.header = 0 B: packets of drawn sizes"),
        ({**SIZES, "packet.header": "64 B"}, None),
        (
            {**SIZES, "flow_control.kind": "pfc", "switch.buffer": "16 MiB", "host.buffer": "16 MiB"},
            "of PFC is large",
        ),
    ],
)
def test_surprising_scenarios_have_a_note(tree, keys, words):
    found = _notes.of_scenario(silvan.Scenario.load(tree, keys))
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


def test_commands_print_the_notes(tree):
    arguments = ("--set", "traffic.0.rate=30 Gbit/s")
    checked = command("check", tree, *arguments)
    assert "note: traffic.0.rate = 30 Gbit/s offers 1.88 times" in checked.stdout
    ran = command("run", tree, *arguments, "--set", "duration=300us")
    assert ran.returncode == 0
    assert "note: traffic.0.rate = 30 Gbit/s offers 1.88 times" in ran.stderr
    same = command("check", tree, "--set", "traffic.0.name=hot")
    assert same.returncode == 1
    assert "is also the name of traffic.0" in same.stderr


def test_shipped_scenarios_have_no_notes():
    shown = {
        path.name: _notes.of_scenario(silvan.Scenario.load(path))
        for path in sorted((ROOT / "scenarios").glob("*.toml"))
    }
    assert len(shown) > 40
    assert {name: lines for name, lines in shown.items() if lines} == {}


def test_a_job_that_ends_before_the_warm_up_has_a_note():
    summary = silvan.run(scenarios.find("job-kernel").path).summary
    (job,) = summary["jobs"]
    late = {**summary, "averages_from_ns": job["finished_ns"] + 1}
    assert _notes.of_summary({**summary, "averages_from_ns": 0}) == []
    (line,) = _notes.of_summary(late)
    assert line.startswith(f"job `{job['job']}` ended before the end of the warm-up")


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("congestion.mechanism", "PFC", 'flow_control.kind = "pfc"'),
        ("congestion.mechanism", "ECN", 'congestion.marking.kind = "red"'),
        ("congestion.mechanism", "VOQnet", 'switch.queues = "per-destination"'),
        ("congestion.mechanism", "voqsw", 'switch.queues = "per-output"'),
        ("congestion.mechanism", "RECN", "fbicm"),
        ("congestion.mechanism", "SMaRTT", "nscc"),
        ("congestion.mechanism", "EQDS", "rccc"),
        ("congestion.mechanism", "powertcp", "hpcc"),
        ("topology.kind", "fattree", "two-level-fat-tree"),
        ("topology.link_rate", "HDR", "200 Gbit/s"),
        ("topology.link_delay", "100m", "500 ns"),
        ("traffic.1.to", "H5", "pattern = "),
    ],
)
def test_names_of_papers_and_products_have_a_hint(tree, key, value, hint):
    done = command("check", tree, "--set", f"{key}={value}")
    assert done.returncode == 1
    assert "; hint: " in done.stderr
    assert hint in done.stderr.partition("; hint: ")[2]
    assert "did you mean" not in done.stderr


@pytest.mark.parametrize(
    ("mechanism", "key", "hint"),
    [
        ("dcqcn", "reaction.g", "gain_divisor"),
        ("dcqcn", "reaction.Rai", "additive_increase"),
        ("hpcc", "reaction.eta", "utilization_percent"),
        ("dcqcn", "marking.pmax", "percent"),
        ("dcqcn", "marking.kmin", "min"),
        ("dcqcn", "marking.KMIN_MAP", "thresholds"),
    ],
)
def test_symbols_of_papers_have_a_hint_that_names_a_key(tree, mechanism, key, hint):
    keys = {"congestion.mechanism": mechanism, f"congestion.{key}": 1}
    with pytest.raises(silvan.ScenarioError) as refused:
        silvan.Scenario.load(tree, keys)
    message = _hints.of_message(str(refused.value))
    assert message.partition("; hint: ")[2].find(f".{hint}") > 0
    # The hint names a key that exists.
    assert f"`{hint}`" in str(refused.value)


@pytest.mark.parametrize("rates", [["100 Gbit/s", "400 kB"], {"100 Gbit/s": "400 kB"}])
def test_thresholds_of_several_rates_have_a_hint(tree, rates):
    keys = {"congestion.mechanism": "dcqcn", "congestion.marking.per_rate": rates}
    with pytest.raises(silvan.ScenarioError) as refused:
        silvan.Scenario.load(tree, keys)
    assert "congestion.marking.thresholds" in _hints.of_message(str(refused.value)).partition("; hint: ")[2]


def test_other_messages_have_no_hint():
    for message in (
        "no file",
        'x.toml:3: seed = "PFC": must be a number',
        'congestion.mechanism = "dcqc": must be',
    ):
        assert _hints.of_message(message) == message


def test_a_job_alone_has_no_faults(tmp_path):
    """A link that fails slows the job down, although no other traffic does."""
    event = {"start": "0 s", "kind": "rate", "links": ["H1"], "rate": "2 Gbit/s"}
    whole = silvan.Scenario.load(scenarios.find("job-collective").path)
    result = silvan.run(whole, event=[event], alone=True)
    (row,) = result.summary["alone"]
    assert row["alone_ns"] == silvan.run(whole).summary["jobs"][0]["span_ns"]
    assert row["slower"] > 0.1
    assert result.account[-1].startswith("The runs of a job alone have no events")
    # Loss recovery is part of both runs.
    lossy = {"kind": "errors", "links": ["H1"], "start": "0 s", "loss_ppb": 20_000_000}
    recovered = silvan.run(
        whole, event=[lossy], recovery={"kind": "go-back-n", "timeout": "50 us"}, alone=True
    )
    assert recovered.summary["alone"][0]["slower"] > 0.005
    calm = silvan.run(whole, alone=True)
    assert calm.account[-1] == "There are no other jobs, traffic and events, so the job is alone in this run."


def test_the_demo_refuses_a_folder_that_cannot_be_written_before_its_runs(monkeypatch):
    from silvan import demo

    def never(*_):
        raise AssertionError

    with pytest.raises(OSError, match="proc"):
        demo.run(None, demo.Path("/proc/x"), never)
