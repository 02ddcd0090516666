"""Congestion trees found in runs whose truth is known: who feeds, who suffers, of what kind."""

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
    """Trees that are there for half of the run: the steady state."""
    half = result.tables["network"].num_rows / 2
    return [tree for tree in result.forest.trees if tree.samples >= half]


def agreement(found, true):
    """Precision and recall."""
    found, true = set(found), set(true)
    return len(found & true) / max(len(found), 1), len(found & true) / max(len(true), 1)


def of_class(result, role):
    """Hosts that send with a role, by what all of them sent: the roles are drawn from the seed."""
    rows = result.numpy("contributors"), result.numpy("victims")
    return {
        host for one in rows for host, name in zip(one["host"], one["class"], strict=True) if role in name
    }


#: Architectures, lanes, control: the classifier looks at credits, whoever gives them.
VARIANTS = {
    "voq": "",
    "two lanes": "[lanes]\ncount = 2\ncontrol = 1\n",
    "iq": '[switch]\narchitecture = "iq"\n',
    "cioq": '[switch]\narchitecture = "cioq"\n',
    "fcfs": '[switch]\narbitration = "fcfs"\n',
}


@pytest.mark.parametrize("more", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_silent_forest(seed, more):
    result = grown("contributors = 70, victims = 30", seed=seed, more=more)
    trees = lasting(result)
    assert {tree.kind for tree in trees if tree.root_kind == "endpoint"} == {"silent"}
    # The hotspots take in all they can; nobody else does.
    received = {one["host"]: one["received_gbit_s"] for one in result.summary["hosts"]}
    hotspots = sorted(received, key=received.get)[-4:]
    roots = [tree.root.partition("->")[2] for tree in trees if tree.root_kind == "endpoint"]
    assert min(agreement(roots, hotspots)) == 1
    senders = {one["host"]: one["sent_gbit_s"] for one in result.summary["hosts"]}
    check = result.scenario.check()
    assert check["hosts"] == len(senders) == 64
    feeding = {one.host for tree in trees for one in tree.contributors}
    waiting = {one.host for tree in trees for one in tree.victims}
    assert min(agreement(feeding, of_class(result, "contributors"))) > 0.95
    assert min(agreement(waiting, of_class(result, "victims"))) > 0.95
    assert len(feeding) == pytest.approx(0.7 * 64, abs=1)
    assert len(waiting) == pytest.approx(0.3 * 64, abs=1)


def test_contributors_belong_to_their_hotspot():
    """Each contributor feeds one tree, evenly divided over the hotspots (Paper IV)."""
    result = grown("contributors = 100")
    fed = [one.host for tree in lasting(result) if tree.root_kind == "endpoint" for one in tree.contributors]
    assert len(fed) == len(set(fed)) == 64
    sizes = [len(tree.contributors) for tree in lasting(result) if tree.root_kind == "endpoint"]
    assert sizes == [16, 16, 16, 16]


@pytest.mark.parametrize("p", [50, 70])
def test_a_windy_forest(p):
    result = grown(f"mixed = 100, p = {p}", duration="10 ms")
    # A hotspot that is not asked for all that it takes in has no tree for a while.
    trees = [tree for tree in result.forest.trees if tree.root_kind == "endpoint" and tree.samples >= 20]
    assert len({tree.root for tree in trees}) == 4
    assert {tree.kind for tree in trees} == {"windy"}
    assert all(0.3 < tree.root_share < 0.8 for tree in lasting(result) if tree.root_kind == "endpoint")
    # Each host feeds the tree of its own hotspot, and of no other one.
    fed = {}
    for tree in trees:
        for one in tree.contributors:
            fed.setdefault(one.host, []).append(tree.root)
    own = {host: max(set(roots), key=roots.count) for host, roots in fed.items()}
    fits = [root == own[host] for host, roots in fed.items() for root in roots]
    assert np.mean(fits) > 0.95
    # Hosts that get all they want through have few packets inside at a time, and may not be seen.
    assert len(fed) > 0.9 * 64
    # Everybody waits with what is for others.
    assert len({one.host for tree in trees for one in tree.victims}) > 0.95 * 64


def test_the_share_of_the_root_is_what_was_sent_there():
    """One flow to a hot host and one elsewhere from each sender: p is known, whatever is held back."""
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


def test_standing_forests_do_not_move():
    for pattern in ("contributors = 70, victims = 30", "mixed = 100, p = 60"):
        assert "moving" not in {tree.kind for tree in grown(pattern, duration="10 ms").forest.trees}


def test_uniform_traffic_grows_no_tree_worth_the_name():
    text = TREE.replace('{{ kind = "forest", hotspots = 4, {pattern} }}', '{{ kind = "uniform" }}')
    text = text.replace('message = "4096 B"', 'rate = "6 Gbit/s"')
    result = silvan.run(silvan.Scenario.from_toml(text.format(seed=1, duration="4 ms", more="")))
    assert lasting(result) == []


def test_the_testbed():
    """Paper I: F2 to F5 feed one tree, F1 is its only victim; under control nothing lasts."""
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
    assert lasting(silvan.run(scenario, congestion__mechanism="ib-cc")) == []


@pytest.mark.parametrize("mechanism", ["fbicm", "ccfit"])
def test_special_queues_belong_to_the_tree_that_caused_them(mechanism):
    """Where packets are isolated, outputs that were told to stop are branches, and few hosts are victims."""
    more = f'[congestion]\nmechanism = "{mechanism}"\n'
    result, plain = (grown("contributors = 70, victims = 30", more=more) for more in (more, ""))
    trees = [tree for tree in result.forest.trees if tree.root_kind == "endpoint" and tree.samples >= 10]
    assert max(tree.peak_depth for tree in trees) >= 2
    feeding = {one.host for tree in trees for one in tree.contributors}
    precision, recall = agreement(feeding, of_class(plain, "contributors"))
    assert precision > 0.95
    # Where sources are throttled too, a hotspot may have no tree for as long.
    assert recall > (0.95 if mechanism == "fbicm" else 0.75)
    lost = [
        sum(one.lost_bytes for tree in run.forest.trees for one in tree.victims) for run in (result, plain)
    ]
    assert lost[0] < 0.7 * lost[1]


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
    with pytest.raises(ValueError, match="not a time of the run, which ends at 3000000 ns"):
        forest.at(4e6)
    with pytest.raises(KeyError, match="no tree 9; there are 1"):
        forest[9]
    assert repr(forest) == "<silvan.Forest: 1 tree (1 silent)>"
    assert list(forest.times_ns) == sorted(set(result.numpy("tree_links")["time_ns"]))
    frame = forest.to_dataframe()
    assert list(frame["root"]) == ["S2:2->H5"]


def test_rows_of_links_are_trees(small):
    """Each link waits for one of the same tree that is one nearer to the root."""
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
    # Looking changes nothing.
    for name in result.tables:
        for column, values in result.numpy(name).items():
            assert np.array_equal(values, whole.numpy(name)[column], equal_nan=values.dtype.kind == "f"), (
                column
            )
    whole.save(tmp_path / "run")
    assert silvan.load(tmp_path / "run").forest.trees == whole.forest.trees
