"""Tests the links that a job shares, counted from routes, against known cases; and invalid inputs."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

import silvan
from silvan import cli
from silvan.fabric.collisions import routes

FABRICS = "tests/data/fabrics"
TREE = f"{FABRICS}/4ary3tree-h64/updn"
FT2 = f"{FABRICS}/ft2-36p-h648/ftree"
PTRANS = "tests/data/traces/hpcc-8/ptrans-8ranks.txt.gz"
TESTBED = "papers/common/testbed-scenario-1.toml"


def test_all_to_all_counts_are_those_of_the_check():
    load = silvan.fabric.check([FT2])["all_to_all"]
    now = silvan.fabric.collide([FT2], pattern="all-to-all", tries=0)["now"]
    counts = {int(flows): links for flows, links in now["flows_per_link"].items()}
    assert (min(counts), max(counts), sum(counts.values())) == (load["min"], load["max"], load["links"])


def test_shifts_do_not_collide_under_d_mod_k():
    for distance in (1, 17, 18, 323):
        told = silvan.fabric.collide([FT2], pattern="shift", distance=distance)
        assert told["now"]["worst_demand"] == 1.0
        assert told["suggestion"] is None


def test_demand_is_what_a_run_shows(tmp_path):
    # Three flows cross a trunk with twice the rate of a host.
    told = silvan.fabric.collide(TESTBED, pattern="shift", distance=3, hosts=["H[1-6]"], tries=0)
    trunk = {row["link"]: row for row in told["now"]["links"]}["S1:4->S2:5"]
    assert (trunk["flows"], trunk["demand"]) == (3, 1.5)
    flows = [{"name": f"F{n}", "from": f"H{n}", "to": f"H{n + 3}"} for n in (1, 2, 3)]
    keys = {"flow": flows, "duration": "20 ms", "warmup": "5 ms"}
    keys |= {"host.injection_rate": "16 Gbit/s", "host.drain_rate": "16 Gbit/s"}
    run = silvan.run(silvan.Scenario.load(TESTBED, keys))
    assert [flow["received_gbit_s"] for flow in run.summary["flows"]] == pytest.approx(
        [16 / 1.5] * 3, rel=0.01
    )


def test_what_goes_to_odd_and_even_hosts_shares_no_link_under_d_mod_k():
    tree = "papers/common/hybrids-hotspots.toml"
    even = silvan.fabric.collide(
        tree, pattern="all-to-all", hosts=[f"H{n}" for n in range(1, 65, 2)], top=999
    )
    odd = silvan.fabric.collide(tree, pattern="all-to-all", hosts=[f"H{n}" for n in range(2, 65, 2)], top=999)
    names = [{row["link"] for row in told["now"]["links"]} for told in (even, odd)]
    assert len(names[0]) == len(names[1]) > 50
    assert not names[0] & names[1]


def test_a_suggestion_collides_less_and_is_reproducible():
    spread = ["node-0000", "node-0018", "node-[0036-0160]"]
    told = silvan.fabric.collide([FT2], trace=PTRANS, hosts=spread)
    better = told["suggestion"]
    assert told["now"]["worst_demand"] > 1 > better["worst_demand"]
    assert len(better["hosts"]) == told["job"]["hosts"] == told["job"]["ranks"] == 8
    again = silvan.fabric.collide([FT2], trace=PTRANS, hosts=better["hosts"], tries=0)["now"]
    assert again["worst_demand"] == better["worst_demand"]
    scattered = ["node-0000", "node-0004", "node-0008", "node-0012", "node-[0016-0027]", "node-0032"]
    one, two = (silvan.fabric.collide([TREE], pattern="shift", distance=3, hosts=scattered) for _ in range(2))
    assert one == two
    assert one["suggestion"]["worst_demand"] < one["now"]["worst_demand"]
    assert "exchanges" in one["suggestion"]["how"]


def test_ranks_of_a_host_meet_no_network():
    told = silvan.fabric.collide(
        [TREE], pattern="shift", ranks=8, ranks_per_host=4, hosts=["node-0000", "node-0016"]
    )
    assert told["job"] | {"what": ""} == {
        "what": "",
        "ranks": 8,
        "hosts": 2,
        "flows": 2,
        "placement": "linear",
        "routes": "forwarding tables",
    }


def test_a_collective_operation_has_the_pairs_of_its_algorithm():
    def flows(pattern, ranks=16):
        return silvan.fabric.collide([TREE], pattern=pattern, ranks=ranks, tries=0)["job"]["flows"]

    assert flows("all-reduce=ring") == 16
    assert flows("all-reduce=recursive-doubling") == 16 * 4
    assert flows("all-to-all=pairwise") == flows("all-to-all") == 16 * 15
    assert flows("barrier") == 16 * 4
    assert flows("ring", ranks=2) == 2


def test_round_robin_is_over_leaves():
    fabric = routes.read([TREE])
    told = silvan.fabric.collide([TREE], pattern="shift", ranks=16, placement="round-robin", tries=0, top=99)
    used = Counter(fabric.leaves[fabric.hosts.index(row["from"])] for row in told["now"]["pairs"])
    assert set(used.values()) == {1}


WRONG = {
    "nothing to send": ({}, "either a pattern or a trace"),
    "both": ({"pattern": "ring", "trace": PTRANS}, "either a pattern or a trace"),
    "no such pattern": ({"pattern": "rnig"}, "`rnig` is not a pattern; known are shift, ring"),
    "no such algorithm": ({"pattern": "all-reduce=bruck"}, "bruck"),
    "no such host": ({"pattern": "ring", "hosts": ["node-0000", "nod-1"]}, "no host `nod-1` in the fabric"),
    "a host twice": (
        {"pattern": "ring", "hosts": ["node-[0000-0003]", "node-0002"]},
        "`node-0002` is in the list twice",
    ),
    "too few hosts": ({"pattern": "ring", "ranks": 65}, "65 ranks need 65 hosts, 1 on each"),
    "a range backwards": ({"pattern": "ring", "hosts": ["node-[9-1]"]}, "`9-1` is not a number or a range"),
    "an open bracket": ({"pattern": "ring", "hosts": ["node-[0000"]}, "write a range of hosts as"),
    "an unlimited range": ({"pattern": "ring", "hosts": ["n[0-99999999999]"]}, "a range of more than"),
    "to itself": ({"pattern": "shift", "distance": 64}, "would send to itself"),
    "a distance of no shift": ({"pattern": "ring", "distance": 2}, "affects only `shift`"),
    "a distance of a trace": ({"trace": PTRANS, "distance": 2}, "affects only the pattern `shift`"),
    "one rank": ({"pattern": "ring", "ranks": 1}, "ranks = 1: must be 2 to"),
    "ranks of a trace": ({"trace": PTRANS, "ranks": 9}, "the trace has 8"),
    "a trace that is none": ({"trace": "README.md"}, "README.md"),
    "no such placement": ({"pattern": "ring", "placement": "random"}, "`random` is not a placement"),
    "no rank on a host": ({"pattern": "ring", "ranks_per_host": 0}, "ranks_per_host = 0: must be 1 or more"),
    "nothing listed": ({"pattern": "ring", "top": 0}, "top = 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_are_told(case):
    keys, message = WRONG[case]
    with pytest.raises(silvan.SilvanError) as told:
        silvan.fabric.collide([TREE], **keys)
    assert message in str(told.value)


def test_a_route_that_does_not_arrive_is_told(tmp_path):
    fabric = routes.read([TREE])
    target = fabric.hosts.index("node-0001")
    fabric.table[fabric.leaves[target], target] = -1
    every = [fabric.hosts.index(name) for name in ("node-0002", "node-0001")]
    with pytest.raises(silvan.FabricError, match=r"no route from node-0002 to node-0001: .* has no entry"):
        fabric.ways(*(routes.np.array([host]) for host in every))
    up = int(fabric.first[every[0]])
    fabric.table[fabric.leaves[target], target] = fabric.table[fabric.leaves[target], every[0]]
    with pytest.raises(silvan.FabricError, match="it ends at node-0002"):
        fabric.ways(*(routes.np.array([host]) for host in every))
    fabric.to_switch[fabric.table[fabric.leaves[target], target]] = fabric.to_switch[up]
    with pytest.raises(silvan.FabricError, match="the route has a cycle"):
        fabric.ways(*(routes.np.array([host]) for host in every))


def test_the_scenario_says_how_it_is_routed():
    with pytest.raises(silvan.FabricError, match="omit --lft"):
        silvan.fabric.collide(TESTBED, pattern="ring", tables="x.lft")


def test_the_command(tmp_path):
    names = tmp_path / "hosts.txt"
    names.write_text("# the job's\nnode-0000\nnode-0018\n\nnode-[0036-0160]\n")
    args = ["fabric", "collide", FT2, "--trace", PTRANS, "--hosts", f"@{names}", "--top", "2"]
    shown = CliRunner().invoke(cli.application(), args)
    assert shown.exit_code == 0, shown.output
    assert (
        "The demand on 1 link exceeds its capacity, by a factor of up to 1.40; this affects 9 flows."
        in shown.output
    )
    assert 'hosts = ["node-0036", "node-0037",' in shown.output
    same = CliRunner().invoke(cli.application(), [*args, "--json"])
    told = json.loads(same.output)
    assert [row["flows"] for row in told["now"]["links"]] == [9, 6]
    listed = [*args[:5], "--hosts", "node-0000,node-0018,node-[0036-0040,50-60]"]
    refused = CliRunner().invoke(cli.application(), listed)
    assert "no host `node-50`" in str(refused.exception)
    fine = CliRunner().invoke(
        cli.application(), ["fabric", "collide", TREE, "--pattern", "shift", "--tries", "0"]
    )
    assert "No collision" in fine.output
