"""Tests congestion trees in runs with known contributors, victims and kinds of trees."""

import json
from collections import Counter

import numpy as np
import pytest

import silvan
from conftest import ROOT

TREE = """
duration = "{duration}"
warmup = "1 ms"
seed = {seed}

[topology]
kind = "two-level-fat-tree"
leaves = 8
spines = 4
hosts_per_leaf = 8

[host]
injection_rate = "13.5 Gbit/s"
drain_rate = "13.6 Gbit/s"

{more}
[measure]
interval = "100 us"
links = false

[[traffic]]
name = "forest"
message = "4096 B"
pattern = {{ kind = "forest", hotspots = 4, {pattern} }}
"""


def grown(pattern, *, seed=1, duration="6 ms", more=""):
    text = TREE.format(pattern=pattern, seed=seed, duration=duration, more=more)
    return silvan.run(silvan.Scenario.from_toml(text))


def lasting(result):
    """Return the trees that exist for at least half of the run."""
    half = result.tables["network"].num_rows / 2
    return [tree for tree in result.forest.trees if tree.samples >= half]


def agreement(found, true):
    """Return precision and recall."""
    found, true = set(found), set(true)
    return len(found & true) / max(len(found), 1), len(found & true) / max(len(true), 1)


#: Seeds for which each hotspot is below a different leaf switch, so that hotspots share no link.
SEEDS = [1, 3]


def planted(role, *, seed=1, victims=0, more="", duration="8 ms"):
    """Run a forest with known roles: four subsets of hosts with a hotspot each, and victims.

    Returns the result, and the hosts and the hotspot of each subset.
    """
    hosts = [f"H{number}" for number in np.random.default_rng(seed).permutation(64) + 1]
    subsets = [hosts[victims + at :: 4] for at in range(4)]
    rows = [(f"subset {at}", subset, role) for at, subset in enumerate(subsets)]
    rows += [("victims", hosts[:victims], "victims = 100")] if victims else []
    traffic = "".join(
        f'[[traffic]]\nname = "{name}"\nmessage = "4096 B"\nhosts = {json.dumps(chosen)}\n'
        f'pattern = {{ kind = "forest", hotspots = 1, {what} }}\n'
        for name, chosen, what in rows
    )
    network = TREE.partition("[[traffic]]")[0].format(seed=seed, duration=duration, more=more)
    scenario = silvan.Scenario.from_toml(network + traffic)
    hotspots = [forest["hotspots"][0] for forest in scenario.check()["forests"][:4]]
    leaves = {(int(hotspot[1:]) - 1) // 8 for hotspot in hotspots}
    assert len(leaves) == 4, "choose another seed"
    return silvan.run(scenario), list(zip(subsets, hotspots, strict=True))


def hot_host(tree):
    """Return the host to which a tree's root leads."""
    return tree.root.partition("->")[2]


def steady(result):
    """Return trees at hosts that exist for a quarter of the run, with hosts that drain at full rate."""
    quarter = result.tables["network"].num_rows / 4
    return [tree for tree in result.forest.trees if tree.root_kind == "endpoint" and tree.samples >= quarter]


def check_truth(result, planted_in):
    """Compare roots and contributors with the known roles."""
    trees = steady(result)
    received = {one["host"]: one["received_gbit_s"] for one in result.summary["hosts"]}
    hotspots = {hotspot for _, hotspot in planted_in}
    assert all(received[hotspot] > 0.95 * 13.6 for hotspot in hotspots), "no steady state"
    assert min(agreement(map(hot_host, trees), hotspots)) == 1
    fed = [(one.host, hot_host(tree)) for tree in trees for one in tree.contributors]
    true = [(host, hotspot) for subset, hotspot in planted_in for host in subset if host != hotspot]
    assert min(agreement(fed, true)) > 0.95, agreement(fed, true)


#: Variants of architecture, lanes and control. The classifier must work with credits of any origin.
VARIANTS = {
    "voq": "",
    "two lanes": "[lanes]\ncount = 2\ncontrol = 1\n",
    "iq": '[switch]\narchitecture = "iq"\n',
    "cioq": '[switch]\narchitecture = "cioq"\n',
    "fcfs": '[switch]\narbitration = "fcfs"\n',
}


@pytest.mark.parametrize("more", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_silent_forest(seed, more):
    result, truth = planted("contributors = 100", seed=seed, victims=20, more=more)
    check_truth(result, truth)
    assert {tree.kind for tree in steady(result)} == {"silent"}
    waiting = {one.host for tree in lasting(result) for one in tree.victims}
    senders = {host for subset, _ in truth for host in subset}
    assert min(agreement(waiting, {f"H{number}" for number in range(1, 65)} - senders)) > 0.95


def test_contributors_belong_to_their_hotspot():
    """Each contributor feeds one tree, and contributors are divided evenly over hotspots (Paper IV)."""
    result = grown("contributors = 100")
    fed = [one.host for tree in lasting(result) if tree.root_kind == "endpoint" for one in tree.contributors]
    assert len(fed) == len(set(fed)) == 64
    sizes = [len(tree.contributors) for tree in lasting(result) if tree.root_kind == "endpoint"]
    assert sizes == [16, 16, 16, 16]


@pytest.mark.parametrize("p", [30, 50, 70, 90])
@pytest.mark.parametrize("mechanism", ["none", "ib-cc"])
def test_a_windy_forest(p, mechanism):
    more = f'[congestion]\nmechanism = "{mechanism}"\n'
    result, truth = planted(f"mixed = 100, p = {p}", more=more)
    check_truth(result, truth)
    trees = steady(result)
    assert {tree.kind for tree in trees} == {"windy"}
    if mechanism == "none":
        # Hosts that also send to others send the share p to the hotspot.
        assert all(tree.root_share == pytest.approx(p / 100, abs=0.06) for tree in trees)
    # All hosts have waiting traffic to other destinations. With 10 % of such traffic, some have none at most
    # samples.
    everybody = {host for subset, _ in truth for host in subset}
    waiting = {one.host for tree in trees for one in tree.victims}
    assert min(agreement(waiting, everybody)) > (0.95 if p < 90 else 0.9)


@pytest.mark.parametrize("mechanism", ["ib-cc", "fbicm", "ccfit", "ecocc"])
@pytest.mark.parametrize(
    ("role", "victims", "kind"), [("contributors = 100", 20, "silent"), ("mixed = 100, p = 90", 0, "windy")]
)
def test_forests_under_control(mechanism, role, victims, kind):
    """Trees and their contributors can still be distinguished under congestion control."""
    more = f'[congestion]\nmechanism = "{mechanism}"\n'
    result, truth = planted(role, victims=victims, more=more)
    check_truth(result, truth)
    assert {tree.kind for tree in steady(result)} == {kind}


def test_the_share_of_the_root_is_what_was_sent_there():
    """Each sender has one flow to a hot host and one to another host, so p is known."""
    flows = "".join(
        f'[[flow]]\nname = "hot {at}"\nfrom = "H{at}"\nto = "H8"\nrate = "3 Gbit/s"\n'
        f'[[flow]]\nname = "cold {at}"\nfrom = "H{at}"\nto = "H{at + 8}"\nrate = "1 Gbit/s"\n'
        for at in range(1, 8)
    )
    text = (
        'duration = "4 ms"\nwarmup = "1 ms"\n[topology]\nkind = "star"\nhosts = 16\nlink_rate = "10 Gbit/s"\n'
        f'[measure]\ninterval = "50 us"\n{flows}'
    )
    result = silvan.run(silvan.Scenario.from_toml(text))
    (tree,) = lasting(result)
    rates = {one["flow"]: one["received_gbit_s"] for one in result.summary["flows"]}
    hot = sum(rate for name, rate in rates.items() if name.startswith("hot"))
    assert tree.kind == "windy"
    assert tree.root_share == pytest.approx(hot / sum(rates.values()), abs=0.05)
    assert {one.class_ for one in tree.contributors} == {f"hot {at}" for at in range(1, 8)}
    assert {one.class_ for one in tree.victims} == {f"cold {at}" for at in range(1, 8)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_moving_forest(seed):
    result = grown('mixed = 100, p = 60, lifetime = "2 ms"', seed=seed, duration="20 ms")
    ended = [tree for tree in result.forest.trees if tree.root_kind == "endpoint" and tree.samples >= 10]
    ended = [tree for tree in ended if tree.last_ns < 16e6]
    moving = [tree for tree in ended if tree.kind == "moving"]
    assert len(ended) >= 20
    assert len(moving) / len(ended) > 0.95
    for tree in moving:
        if tree.into_tree:
            into = result.forest[tree.into_tree]
            assert into.born_ns > tree.born_ns
            assert into.root != tree.root


@pytest.mark.parametrize("mechanism", ["none", "ib-cc", "fbicm", "ccfit", "ecocc"])
def test_who_feeds_a_moving_forest(mechanism):
    """Each tree has one of four subsets as contributors, and its hotspot moves every 2 ms."""
    more = f'[congestion]\nmechanism = "{mechanism}"\n'
    role = 'mixed = 100, p = 90, lifetime = "2 ms"'
    result, truth = planted(role, more=more, duration="16 ms")
    trees = [tree for tree in result.forest.trees if tree.root_kind == "endpoint" and tree.samples >= 10]
    found, right, wanted = 0, 0, 0
    for tree in trees:
        fed = Counter(one.class_ for one in tree.contributors)
        subset = fed.most_common(1)[0][0]
        found += fed.total()
        right += fed[subset]
        wanted += len(truth[int(subset.split()[1].strip(":"))][0])
    assert len(trees) > 20
    assert min(right / found, right / wanted) > 0.95, (right, found, wanted)
    assert sum(tree.kind == "moving" for tree in trees) > 0.95 * len(trees)


def test_standing_forests_do_not_move():
    for pattern in ("contributors = 70, victims = 30", "mixed = 100, p = 60"):
        assert "moving" not in {tree.kind for tree in grown(pattern, duration="10 ms").forest.trees}


def test_uniform_traffic_grows_no_tree_worth_the_name():
    text = TREE.replace('{{ kind = "forest", hotspots = 4, {pattern} }}', '{{ kind = "uniform" }}')
    text = text.replace('message = "4096 B"', 'rate = "6 Gbit/s"')
    result = silvan.run(silvan.Scenario.from_toml(text.format(seed=1, duration="4 ms", more="")))
    assert lasting(result) == []


def test_the_testbed():
    """Paper I: F2 to F5 feed one tree, and F1 is its only victim; under control, no tree lasts."""
    scenario = silvan.Scenario.load(ROOT / "scenarios" / "testbed.toml")
    off = silvan.run(scenario)
    (tree,) = off.forest.trees
    assert (tree.root, tree.root_kind, tree.kind, tree.root_share) == ("S2:2->H5", "endpoint", "silent", 1.0)
    assert (tree.born_ns, tree.last_ns, tree.origin, tree.end) == (2e9, 5e9, "new", "lasts")
    assert [one.class_ for one in tree.contributors] == ["F2", "F3", "F4", "F5"]
    (victim,) = tree.victims
    received = off.numpy("flows")["received_bytes"][off.numpy("flows")["flow"] == "F1"]
    offered = 13e9 / 8 * 3
    lost = offered - received[off.numpy("network")["time_ns"] > 2e9].sum()
    assert victim.class_ == "F1"
    assert victim.lost_bytes == pytest.approx(lost, rel=0.01)
    assert victim.lost_share == pytest.approx(lost / offered, rel=0.01)
    on = silvan.run(scenario, congestion__mechanism="ib-cc")
    assert lasting(on) == []
    told = "No output was the root of a congestion tree in more than a tenth of the samples."
    assert told in on.account


@pytest.mark.parametrize("mechanism", ["fbicm", "ccfit"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_special_queues_belong_to_the_tree_that_caused_them(mechanism, lanes):
    """With isolation, stopped outputs are branches, and few hosts are victims."""
    more = f"[lanes]\ncount = {lanes}\n" + '[congestion]\nmechanism = "{}"\n'
    runs = (
        planted("contributors = 100", victims=20, more=more.format(one))[0] for one in (mechanism, "none")
    )
    result, plain = runs
    assert max(tree.peak_depth for tree in steady(result)) >= 2
    lost = [
        sum(one.lost_bytes for tree in run.forest.trees for one in tree.victims) for run in (result, plain)
    ]
    assert lost[0] < 0.7 * lost[1]


def check_moments(result):
    """Check that reported links are in trees at that time, and wait for links to which they lead."""
    rows, links, wiring = (result.numpy(name) for name in ("tree_links", "links", "wiring"))
    found = {
        name: dict(zip(zip(links["time_ns"], links["link"], strict=True), links[name], strict=True))
        for name in ("queued_bytes", "downstream_bytes")
    }
    ends = {link: at for at, link in enumerate(wiring["link"])}
    for at, key in enumerate(zip(rows["time_ns"], rows["link"], strict=True)):
        for name, values in found.items():
            assert rows[name][at] == values[key], (name, key)
        if rows["depth"][at]:
            link, waits_for = ends[rows["link"][at]], ends[rows["waits_for"][at]]
            assert wiring["to_node"][link] == wiring["from_node"][waits_for]
    assert len(rows["time_ns"]) > 100


def test_a_lane_of_its_own_keeps_a_flow_out_of_the_tree():
    """Four flows feed a tree, and a flow on a separate virtual lane is not a victim."""
    scenario = silvan.Scenario.load(ROOT / "scenarios" / "testbed.toml", {"measure.interval": "50 ms"})
    own = silvan.run(scenario, lanes__count=2, flow__0__sl=1)
    (tree,) = own.forest.trees
    assert [one.class_ for one in tree.contributors] == ["F2", "F3", "F4", "F5"]
    assert not tree.victims
    check_moments(own)


def test_trees_of_adaptive_routes():
    """Routes are selected per flow, so packets wait on the selected routes, not on those of the tables."""
    text = (
        'duration = "2 ms"\nwarmup = "1 ms"\n[topology]\nkind = "modified-k-ary-n-tree"\nk = 4\nn = 2\n'
        'horizontal_width = 1\nlink_rate = "10 Gbit/s"\n[adaptive_routing]\nheuristic = "flow-count"\n'
        '[measure]\ninterval = "20 us"\n'
    )
    pairs = [(f"hot {at}", at, 16) for at in (1, 2, 5, 6, 9)] + [("cold 3", 3, 15), ("cold 7", 7, 14)]
    for name, source, to in pairs:
        text += f'[[flow]]\nname = "{name}"\nfrom = "H{source}"\nto = "H{to}"\nmessage = "256 KiB"\n'
    result = silvan.run(silvan.Scenario.from_toml(text))
    check_moments(result)
    trees = [tree for tree in lasting(result) if tree.root_kind == "endpoint"]
    assert [hot_host(tree) for tree in trees] == ["H16"]
    assert [one.class_ for one in trees[0].contributors] == ["hot 1", "hot 2", "hot 5", "hot 6", "hot 9"]
    assert {one.class_ for one in trees[0].victims} <= {"cold 3", "cold 7"}


LONG_LINKS = """
duration = "400 us"
warmup = "100 us"
packet = {{ mtu = "2048 B" }}
switch = {{ latency = "0 ns" }}
measure = {{ interval = "10 us", forest = true }}
{more}
[topology]
kind = "custom"
hosts = ["a", "b", "c", "d"]
switches = [{{ name = "s", ports = 3 }}, {{ name = "t", ports = 3 }}]
links = [
  {{ from = "a", to = "s:1", rate = "400 Gbit/s", delay = "1 us" }},
  {{ from = "b", to = "s:2", rate = "400 Gbit/s", delay = "1 us" }},
  {{ from = "s:3", to = "t:1", rate = "400 Gbit/s", delay = "1 us" }},
  {{ from = "c", to = "t:2", rate = "400 Gbit/s", delay = "1 us" }},
  {{ from = "d", to = "t:3", rate = "400 Gbit/s", delay = "1 us" }},
]
"""


def test_a_link_without_enough_credit_is_no_root():
    # Of 64 KiB, a link uses 32 packets of 40.96 ns each per 2,040.96 ns.
    share = 32 * 40.96 / 2040.96
    scenario = silvan.Scenario.from_toml(LONG_LINKS.format(more='flow = [{ from = "a", to = "c" }]'))
    result = silvan.run(scenario)
    assert result.summary["throughput_gbit_s"] == pytest.approx(400 * share, rel=0.005)
    assert not result.forest.trees
    (warning,) = [text for text in result.warnings if "credit returns" in text]
    assert f"host.buffer limits a virtual lane of s:1->a to {100 * share:.0f} % of 400 Gbit/s" in warning
    assert "the lane needs 102400 B and has 65536 B; 3 other links lack credit, too" in warning


STALL = 'event = [{ kind = "stall", hosts = ["c"], start = "150 us", lasts = "100 us" }]'


@pytest.mark.parametrize(
    "more",
    [
        # Two senders compete for the link to the host.
        'flow = [{ from = "a", to = "c" }, { from = "d", to = "c" }]',
        # The host is slow.
        'flow = [{ from = "a", to = "c" }]\nhost = { drain_rate = "100 Gbit/s" }',
        f'flow = [{{ from = "a", to = "c" }}]\n{STALL}',
    ],
)
def test_a_link_without_enough_credit_is_a_root_of_competing_flows_and_slow_hosts(more):
    result = silvan.run(silvan.Scenario.from_toml(LONG_LINKS.format(more=more)))
    assert {tree.root for tree in result.forest.trees} == {"t:2->c"}


def test_an_inner_root():
    result = silvan.run(ROOT / "scenarios" / "multistage.toml")
    (tree,) = result.forest.trees
    assert (tree.root, tree.root_kind) == ("S2.2:2->S3.4:1", "inner")
    assert [one.class_ for one in tree.contributors] == ["hot 000", "hot 011"]
    assert [one.class_ for one in tree.victims] == ["cold 001", "cold 010"]


def test_a_moment_as_rows_and_as_a_graph(small):
    result = silvan.run(small)
    forest = result.forest
    links = {link.link: link for link in forest.at(2.95e6)}
    assert links["S2:2->H5"].is_root
    assert links["H1->S1:1"].waits_for == "S1:4->S2:5"
    assert links["H1->S1:1"].depth == 2
    graph = forest.graph(2.95e6)
    assert sorted(graph.edges) == sorted(
        (one.link, one.waits_for) for one in links.values() if not one.is_root
    )
    assert graph.nodes["S2:2->H5"]["queued_bytes"] == links["S2:2->H5"].queued_bytes > 0
    assert forest.at(0.05e6) == ()
    with pytest.raises(ValueError, match="not a time of the run, which ends at 3 ms"):
        forest.at(4e6)
    with pytest.raises(KeyError, match="no tree 9; there are 1"):
        forest[9]
    assert repr(forest) == "<silvan.Forest: 1 tree (1 silent)>"
    assert list(forest.times_ns) == sorted(set(result.numpy("tree_links")["time_ns"]))
    frame = forest.to_dataframe()
    assert list(frame["root"]) == ["S2:2->H5"]


def test_rows_of_links_are_trees(small):
    """Each link waits for a link of the same tree that is one nearer to the root."""
    rows = silvan.run(small).numpy("tree_links")
    columns = (rows[name] for name in ("time_ns", "link", "tree", "depth"))
    place = {(time, link): (tree, depth) for time, link, tree, depth in zip(*columns, strict=True)}
    for time, link, waits_for in zip(rows["time_ns"], rows["link"], rows["waits_for"], strict=True):
        tree, depth = place[time, link]
        if depth:
            assert place[time, waits_for] == (tree, depth - 1)
        else:
            assert waits_for == link
    assert len(place) == len(rows["link"]) > 0


def test_what_is_not_recorded_is_not_there(small, tmp_path):
    result = silvan.run(small, measure__forest=False)
    assert "trees" not in result.tables
    with pytest.raises(KeyError, match=r"measure\.forest = false"):
        _ = result.forest
    whole = silvan.run(small)
    # Recording trees does not change results.
    for name in result.tables:
        for column, values in result.numpy(name).items():
            assert np.array_equal(values, whole.numpy(name)[column], equal_nan=values.dtype.kind == "f"), (
                column
            )
    whole.save(tmp_path / "run")
    assert silvan.load(tmp_path / "run").forest.trees == whole.forest.trees
