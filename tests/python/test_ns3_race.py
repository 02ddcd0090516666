"""Tests the comparison with ns3-datacenter with a stand-in for its program."""

import argparse
import stat
import sys
from collections import Counter

import pytest

import silvan
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import ns3_race

#: Reads the configuration, and writes for each flow twice the time on an empty network.
STAND_IN = """#!{python}
import sys
sys.path.insert(0, {tools!r})
import ns3_race
words = dict(word.split("=", 1) for word in sys.argv[1:])
assert words["--algorithm"] == "3" and words["--windowCheck"] == "1"
keys = dict(line.split(" ", 1) for line in open(words["--conf"]).read().splitlines())
nodes, switches, leaves, links = map(int, open(keys["TOPOLOGY_FILE"]).readline().split())
assert (nodes, switches, leaves, links) == (376, 56, 20, 480)
with open(keys["FLOW_FILE"]) as listed, open(keys["FCT_OUTPUT_FILE"], "w") as out:
    for line in list(listed)[1:]:
        source, to, _, _, size, start = line.split()
        flow = ns3_race.Flow(round(float(start) * 1e9), int(source), int(to), int(size))
        ends = (0x0B000001 + (end // 256 << 16) + (end % 256 << 8) for end in (flow.source, flow.destination))
        took = round(2 * ns3_race.alone_ns(flow, 48))
        print(*(f"{{end:08x}}" for end in ends), 10000, 100, size, flow.start, took, took, file=out)
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    program = folder / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable, tools=str(ROOT / "tools")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    words = ["--out", str(folder), "--ns3", str(program), "--mechanism", "hpcc", "--load", "30"]
    words += ["--pairs", "2", "--draws", "1", "--arrivals", "10", "--duration", "1000"]
    options = ns3_race.arguments(words)
    return folder, options


def test_both_run_the_same_flows_in_turns(done, capsys):
    folder, options = done
    (folder / "topology.txt").write_text(ns3_race.topology(is_for_fork=False))
    (folder / "topology-ns3.txt").write_text(ns3_race.topology(is_for_fork=True))
    ns3_race.race("hpcc", 30, options)
    said = capsys.readouterr().out
    drawn = ns3_race.flows(30, 10, 1)
    assert f"hpcc, 30 % load, {len(drawn)} flows; {len(drawn)} ended in all runs" in said
    assert "ratio: " in said
    last, spread = (line.split() for line in said.splitlines() if line.split()[:1] == ["all"])
    # Counts, then three percentiles of ns-3, of Silvan, and their difference.
    assert [last[1], last[2], last[5], last[8]] == [str(len(drawn)), "2.00", "2.00", "2.00"]
    # The median of Silvan is half of that of the stand-in, whatever the routes are.
    assert "Silvan with 2 draws of routes, relative to ns-3:" in said
    assert [float(spread[at].rstrip("%")) for at in (1, 2)] == pytest.approx([-50, -50], abs=5)
    run = silvan.load(folder / "hpcc-30")
    assert run.summary["scheduler"]["kind"] == "binned"
    assert len(run.numpy("transfers")["bytes"]) == len(drawn)


def test_a_flow_alone_takes_the_stated_time(tmp_path):
    """HPCC's simulator counts the transmission of a packet on the first link twice."""
    listed = [ns3_race.Flow(1_000, 0, 1, 1_000), ns3_race.Flow(200_000, 0, 319, 50_000)]
    (tmp_path / "topology.txt").write_text(ns3_race.topology(is_for_fork=False))
    (tmp_path / "flows-1.txt").write_text(ns3_race.listing(listed))
    mechanism = ns3_race.MECHANISMS["dcqcn"]
    (tmp_path / "one.toml").write_text(
        ns3_race.SCENARIO.format(
            mechanism="dcqcn", load=1, seed=1, duration_us=400, mtu=ns3_race.MTU, **vars(mechanism)
        )
    )
    silvan.run(tmp_path / "one.toml").save(tmp_path / "run")
    found = ns3_race.of_silvan(tmp_path / "run")
    for flow in listed:
        (took,) = found[flow.source, flow.destination, flow.size, flow.start]
        assert took == pytest.approx(ns3_race.alone_ns(flow, 48), rel=0.03)


def test_the_network_is_that_of_hpcc():
    degrees = Counter(end for one, other, _ in ns3_race.links() for end in (one, other))
    assert Counter(degrees.values()) == {1: 320, 20: 20, 8: 20, 5: 16}
    rates = Counter(rate for *_, rate in ns3_race.links())
    assert rates == {100: 320, 400: 160}


def test_the_flows_have_the_load_and_the_sizes():
    drawn = ns3_race.flows(50, 3_000, 1)
    offered = sum(flow.size for flow in drawn) * 8 / 3_000_000 / 320
    assert offered == pytest.approx(50, rel=0.03)
    assert sum(flow.size <= 500 for flow in drawn) / len(drawn) == pytest.approx(0.3, abs=0.01)
    assert all(flow.source != flow.destination for flow in drawn)
    assert [flow.start for flow in drawn] == sorted(flow.start for flow in drawn)


def test_percentiles_are_those_of_the_simulator():
    assert [ns3_race.percentile([3, 1, 2, 4], percent) for percent in (0, 50, 99)] == [1, 3, 4]


def test_a_program_that_fails_is_reported(tmp_path):
    with pytest.raises(ns3_race.RaceError, match="status 3"):
        ns3_race.measured([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")


def test_a_missing_program_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        ns3_race.arguments(["--ns3", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
    assert isinstance(ns3_race.arguments([]), argparse.Namespace)
