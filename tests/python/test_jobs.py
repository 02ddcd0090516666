"""Tests jobs: the shipped scenarios, and each job compared with a run without other traffic."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import silvan
from silvan import alone, cli

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"

#: For each scenario, its jobs and the collective operations that they perform.
SHIPPED = {
    "job-trace": (["ptrans"], {"all-reduce", "all-gather", "barrier", "reduce"}),
    "job-collective": (["all-reduce"], {"all-reduce"}),
    "job-in-network": (["all-reduce"], {"all-reduce"}),
    "job-kernel": (["fft"], {"all-to-all"}),
    "step-and-trees": (["step"], {"all-reduce"}),
    "two-jobs": (["exchange", "ring"], {"all-to-all", "all-reduce"}),
}

#: Placements in which the jobs share no link, because D-mod-K selects links by the last digit.
APART = {
    "job.0.hosts": [f"H{n}" for n in (1, 2, 5, 6, 9, 10, 13, 14, 33, 34, 37, 38, 41, 42, 45, 46)],
    "job.1.hosts": ["H3", "H35", "H7", "H39", "H11", "H43", "H15", "H47"],
    "traffic": [],
}


@pytest.fixture(scope="module")
def together():
    return silvan.run(SCENARIOS / "two-jobs.toml", alone=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_jobs_run_to_their_end(name):
    jobs, operations = SHIPPED[name]
    result = silvan.run(SCENARIOS / f"{name}.toml")
    rows = result.summary["jobs"]
    assert [row["job"] for row in rows] == jobs
    assert all(row["unfinished_operations"] == 0 and row["slowdown"] >= 0.999 for row in rows)
    assert {one["operation"] for row in rows for one in row["collectives"]} == operations


def test_a_computation_counts_until_the_end_of_the_run():
    text = """
        duration = "100 us"
        topology = { kind = "star", hosts = 4 }
        [[job]]
        start = "20 us"
        program = { kind = "collective", operation = "barrier", ranks = 4, compute = "1000 s" }
    """
    (job,) = silvan.run(silvan.Scenario.from_toml(text)).summary["jobs"]
    assert (job["computing_share"], job["busy_share"], job["finished_ns"]) == (1.0, 1.0, None)


def test_two_jobs_that_share_links_are_told_where_and_with_whom(together):
    exchange, ring = together.summary["alone"]
    for row, other in ((exchange, "ring"), (ring, "exchange")):
        assert row["slower"] > 0.1
        assert row["slower"] == row["span_ns"] / row["alone_ns"] - 1
        assert sum(root["share"] for root in row["roots"]) == pytest.approx(1)
        assert all(other in root["with"] for root in row["roots"][:3])
        assert 0 < row["message_slower_mean"] < row["slower"]
    # The roots are outputs between switches that both jobs use.
    used = {}
    for name in ("exchange", "ring"):
        job = next(row for row in together.scenario.check()["jobs"] if row["job"] == name)
        pattern = "all-to-all" if name == "exchange" else "all-reduce=ring"
        told = silvan.fabric.collide(
            SCENARIOS / "two-jobs.toml", pattern=pattern, hosts=job["hosts"], top=999
        )
        used[name] = {link["link"] for link in told["now"]["links"]}
    assert {root["root"] for root in exchange["roots"]} <= used["exchange"] & used["ring"]
    first = exchange["roots"][0]
    said = f"{100 * first['share']:.0f} % of that at {first['root']}, shared with job `ring`'s all-reduce"
    assert said in together.account[-2]
    assert f"Job `exchange` is {100 * exchange['slower']:.0f} % slower than alone" in together.account[-2]


def test_each_runs_alone_as_if_the_others_were_not_there(together):
    keys = {"traffic": [], "job": [{**job} for job in _jobs()[:1]]}
    by_hand = silvan.run(silvan.Scenario.load(SCENARIOS / "two-jobs.toml", keys))
    assert by_hand.summary["jobs"][0]["span_ns"] == together.summary["alone"][0]["alone_ns"]


def _jobs():
    return alone.tomllib.loads((SCENARIOS / "two-jobs.toml").read_text())["job"]


def test_two_jobs_that_share_no_link_are_as_fast_as_alone():
    result = silvan.run(silvan.Scenario.load(SCENARIOS / "two-jobs.toml", APART), alone=True)
    for row in result.summary["alone"]:
        assert row["slower"] == row["message_slower_mean"] == 0
        assert row["roots"] == []
    assert "Job `ring` is as fast as alone on this network" in result.account[-1]


def test_hosts_drawn_at_random_are_the_same_alone():
    keys = {"job.0.placement": "random", "job.1.placement": "random", "job.0.program.bytes": "4 KiB"}
    scenario = silvan.Scenario.load(SCENARIOS / "two-jobs.toml", keys)
    placed = [row["hosts"] for row in scenario.check()["jobs"]]
    assert sorted(placed[0]) != placed[0]
    assert [own.check()["jobs"][0]["hosts"] for _, own in alone.scenarios(scenario)] == placed


def test_a_job_by_itself_is_its_own_measure():
    result = silvan.run(SCENARIOS / "job-kernel.toml", alone=True)
    (row,) = result.summary["alone"]
    assert row["slower"] == 0
    assert row["span_ns"] == row["alone_ns"] == result.summary["jobs"][0]["span_ns"]


def test_beside_a_tree_that_stands_it_takes_times_as_long():
    keys = {"congestion.mechanism": "none", "traffic.1.start": "399 ms", "job.0.program.micro_batches": 1}
    result = silvan.run(silvan.Scenario.load(SCENARIOS / "step-and-trees.toml", keys), alone=True)
    (row,) = result.summary["alone"]
    assert row["slower"] > 1
    assert {root["root"].split("->")[1] for root in row["roots"]} <= {"H18", "H86", "H154", "H222"}
    assert all(root["with"] == ["trees"] for root in row["roots"])
    assert f"takes {row['slower'] + 1:.3g} times as long as alone" in result.account[-1]
    assert "shared with traffic `trees`" in result.account[-1]


def test_each_mechanism_gives_back_what_the_study_says():
    times = {}
    for mechanism in ("none", "ib-cc", "ecocc"):
        keys = {
            "congestion.mechanism": mechanism,
            "traffic.1.start": "399 ms",
            "job.0.program.micro_batches": 1,
        }
        result = silvan.run(silvan.Scenario.load(SCENARIOS / "step-and-trees.toml", keys))
        times[mechanism] = result.summary["jobs"][0]["slowdown"]
    assert times["none"] > 3 * times["ib-cc"]
    assert times["ib-cc"] > 1.3 * times["ecocc"]
    assert times["ecocc"] < 1.2


def test_without_recorded_trees_it_says_so():
    keys = {"measure.forest": False}
    result = silvan.run(silvan.Scenario.load(SCENARIOS / "two-jobs.toml", keys), alone=True)
    assert result.summary["alone"][0]["slower"] > 0.1
    assert "trees were not recorded (measure.forest)" in result.account[-2]


def test_a_job_that_does_not_end_has_no_ratio():
    scenario = silvan.Scenario.load(SCENARIOS / "two-jobs.toml", {"duration": "1 ms"})
    result = silvan.run(scenario, alone=True)
    assert [row["slower"] for row in result.summary["alone"]] == [None, None]
    assert "did not finish" in result.account[-1]


def test_the_command_keeps_it_in_the_folder(tmp_path):
    out = tmp_path / "out"
    args = ["run", str(SCENARIOS / "two-jobs.toml"), "--alone", "--json", "--out", str(out)]
    done = CliRunner().invoke(cli.application(), args)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    kept = silvan.load(out)
    assert kept.summary["alone"] == told["summary"]["alone"]
    assert kept.account == told["account"]
    assert np.isfinite(kept.summary["alone"][0]["slower"])


def test_a_scenario_without_jobs_is_refused_before_it_runs():
    with pytest.raises(silvan.ScenarioError, match=r"testbed.toml: has no \[\[job\]\] to run alone"):
        silvan.run(SCENARIOS / "testbed.toml", alone=True)


#: A broadcast of sixteen ranks on a star without congestion.
BROADCAST = """
duration = "100 ms"
topology = { kind = "star", hosts = 16, link_rate = "16 Gbit/s", link_delay = "20 ns" }

[[job]]
name = "job"
SENDS
program = { kind = "collective", operation = "broadcast", ranks = 16, bytes = "1 MiB" }
algorithms = { broadcast = "binomial" }
"""


def test_the_ideal_crossbar_sends_in_the_order_of_the_hosts():
    """Without congestion, a job is as fast as on an ideal crossbar, with any order of sends."""

    def run(sends):
        (job,) = silvan.run(silvan.Scenario.from_toml(BROADCAST.replace("SENDS", sends))).summary["jobs"]
        assert job["slowdown"] == pytest.approx(1, abs=0.005), sends
        return job["span_ns"]

    usual, sequential = run(""), run('sends = "sequential"')
    assert run('sends = "interleaved"') == usual
    # The root first sends to the largest subtree. If sends are interleaved, this message arrives together
    # with all others.
    assert usual > 1.5 * sequential


#: The algorithms of collective operations that need no units in switches.
ALGORITHMS = {
    "all-reduce": ("recursive-doubling", "ring", "recursive-halving", "binomial", "double-tree"),
    "all-gather": ("ring", "recursive-doubling", "bruck", "pat"),
    "reduce-scatter": ("pairwise", "ring", "recursive-halving", "pat"),
    "all-to-all": ("pairwise", "bruck", "linear"),
    "broadcast": ("binomial", "ring", "linear"),
    "reduce": ("binomial", "linear"),
    "gather": ("binomial", "linear"),
    "scatter": ("binomial", "linear"),
    "scan": ("recursive-doubling", "linear"),
}

ALONE = """
duration = "1 s"
topology = {{ kind = "star", hosts = {ranks} }}
packet = {{ mtu = "{mtu} B", header = "{header} B" }}
measure = {{ interval = "1 s" }}
[[job]]
name = "job"
sends = "{sends}"
program = {{ kind = "collective", operation = "{operation}", ranks = {ranks}, bytes = "{bytes} B" }}
algorithms = {{ {key} = "{algorithm}" }}
"""


def one_collective(**given):
    """Return the summary of a job of one collective operation on an idle star."""
    text = ALONE.format(**given, key=given["operation"].replace("-", "_"))
    return silvan.run(silvan.Scenario.from_toml(text)).summary["jobs"][0]


@pytest.mark.parametrize("operation", ["broadcast", "all-reduce"])
@pytest.mark.parametrize("size", [1, 64, 2048, 2049, 10_000, 300_000])
def test_packets_in_turn_finish_one_after_the_other_on_the_ideal_crossbar(operation, size):
    """Messages of one packet leave one after the other, so the first need not wait for the others."""
    given = {"operation": operation, "algorithm": "binomial", "bytes": size, "mtu": 2048, "header": 0}
    for sends in ("interleaved", "sequential"):
        job = one_collective(**given, ranks=8, sends=sends)
        assert job["slowdown"] == pytest.approx(1, abs=0.01), sends
        assert job["slowdown"] >= 1 - 1e-9, sends


def test_no_collective_operation_is_faster_than_on_the_ideal_crossbar():
    rng = random.Random("ideal crossbar")
    for _ in range(200):
        operation = rng.choice(list(ALGORITHMS))
        algorithm = rng.choice(ALGORITHMS[operation])
        given = {
            "operation": operation,
            "algorithm": algorithm,
            # Some algorithms need a power of two.
            "ranks": 2 ** rng.randint(1, 4) if "recursive" in algorithm else rng.randint(2, 16),
            "bytes": rng.choice([1, rng.randint(1, 5_000), rng.randint(1, 100_000)]),
            "mtu": rng.choice([256, 1000, 2048, 4096]),
            "header": rng.choice([0, 30]),
            "sends": rng.choice(["interleaved", "interleaved", "sequential"]),
        }
        assert one_collective(**given)["slowdown"] >= 1 - 1e-9, given


def test_messages_inside_a_host_take_time_at_its_memory_rate():
    def span(memory):
        scenario = BROADCAST.replace("SENDS", f"ranks_per_host = 16\n{memory}")
        (job,) = silvan.run(silvan.Scenario.from_toml(scenario)).summary["jobs"]
        return job["span_ns"], job["crossbar_ns"]

    assert span("") == (0, 0)
    # The binomial tree has four rounds.
    spans = span('memory_rate = "8 Gbit/s"')
    assert spans == pytest.approx([4 * 2**20] * 2)


def test_a_short_job_is_a_victim_of_a_tree_that_lasts_much_longer():
    scenario = """
        duration = "50 ms"
        [topology]
        kind = "k-ary-n-tree"
        k = 4
        n = 2
        link_rate = "16 Gbit/s"
        [measure]
        interval = "20 us"
        [[job]]
        name = "exchange"
        start = "5 ms"
        hosts = ["H1", "H2", "H6", "H7", "H11", "H12", "H16", "H13"]
        program = { kind = "collective", operation = "all-to-all", ranks = 8, bytes = "8 KiB" }
        [[traffic]]
        name = "hotspot"
        hosts = ["H3", "H4", "H5", "H8", "H9", "H10"]
        pattern = { kind = "hotspots", to = ["H15"] }
    """
    result = silvan.run(silvan.Scenario.from_toml(scenario), alone=True)
    (row,) = result.summary["alone"]
    assert row["slower"] > 0.1
    (root,) = row["roots"]
    assert (root["root"], root["with"]) == ("L2.3:4->L1.4:7", ["hotspot"])
    # The job is active in far less than a tenth of the samples of the tree.
    (tree,) = [tree for tree in result.forest.trees if tree.root == root["root"]]
    most = max(victim.samples for victim in tree.victims if victim.class_ == "exchange")
    assert 0 < 10 * most < tree.samples
