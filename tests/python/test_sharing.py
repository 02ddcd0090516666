"""Tests the attribution of time that jobs and transfers lose without a congestion tree."""

from collections import Counter

import pytest

import silvan
from silvan import sharing

SHIFT = """
name = "shift"
duration = "2 ms"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 4
hosts_per_leaf = 8
link_rate = "16 Gbit/s"
[ecmp]
[measure]
transfers = true
[[traffic]]
name = "shift"
message = "64 KiB"
rate = "3 Gbit/s"
arrivals = "poisson"
pattern = { kind = "shift", by = 8 }
"""


def told(result):
    return [line for line in result.account if line.startswith("No congestion tree explains")]


@pytest.fixture(scope="module")
def ring():
    """Run a ring over hosts of different leaves, so that two flows share each uplink and downlink."""
    return silvan.run("job-collective")


def test_the_links_of_a_slow_job_are_those_that_its_routes_share(ring):
    found = {one.link: one for one in sharing.links(ring, "all-reduce")}
    # Without a run, the same links follow from the routes.
    known = silvan.fabric.collide(
        "job-collective", pattern="all-reduce=ring", ranks=16, placement="round-robin", top=100, tries=0
    )["now"]["links"]
    assert set(found) == {one["link"] for one in known if one["demand"] > 1}
    assert len(found) == 16
    assert all(one.utilisation > 0.95 and len(one.flows) == 2 for one in found.values())
    assert found["L1.1:5->L2.1:1"].flows == (("all-reduce", "H1", "H5"), ("all-reduce", "H3", "H7"))
    assert told(ring) == [
        "No congestion tree explains the time of job `all-reduce`. Its slowest messages share links between "
        "switches (routes: the forwarding tables): L1.1:5->L2.1:1 (100 % used) by 2 flows: H1->H5, H3->H7; "
        "L1.1:6->L2.2:1 (100 % used) by 2 flows: H2->H6, H4->H8; L1.2:5->L2.1:2 (100 % used) by 2 flows: "
        "H5->H9, H7->H11; and 13 more links. `silvan fabric collide` may find a better placement."
    ]


def test_a_job_that_is_as_fast_as_on_a_crossbar_shares_nothing():
    assert told(silvan.run("job-collective", job__0__placement="linear")) == []


def test_hash_collisions_of_transfers_are_named():
    result = silvan.run(silvan.Scenario.from_toml(SHIFT))
    routes = result.scenario.routes()
    sources = list(range(16))
    _, links, _ = routes.ways(sources, [(at + 8) % 16 for at in sources])
    flows = Counter(routes.links[at] for at in links if routes.are_between_switches[at])
    shared = {link for link, number in flows.items() if number > 1}
    assert shared
    found = sharing.links(result, "shift")
    assert found
    assert {one.link for one in found} <= shared
    assert all(len(one.flows) <= flows[one.link] for one in found)
    (line,) = told(result)
    assert "transfers of `shift`. Its" in line
    assert "(routes: each flow hashed onto one of the shortest paths ([ecmp]))" in line


def test_flows_whose_hash_is_unknown_are_not_attributed():
    """With two sources of traffic, the hash of a flow depends on the number of its source."""
    two = SHIFT + SHIFT[SHIFT.index("[[traffic]]") :].replace('"shift"\nm', '"other"\nm')
    assert sharing.links(silvan.run(silvan.Scenario.from_toml(two)), "shift") == []


def test_a_tree_explains_itself():
    """At 15 of 16 Gbit/s, outputs wait for the shared links, so congestion trees explain the loss."""
    result = silvan.run(silvan.Scenario.from_toml(SHIFT), traffic__0__rate="5 Gbit/s")
    assert max(tree.samples for tree in result.forest.trees) > 0
    assert sharing.links(result, "shift")
    assert told(result) == []


def test_the_links_of_reduction_units_are_unknown():
    # The trees start after the end of the job, which InfiniBand CC slows down.
    settings = {"congestion.mechanism": "ib-cc", "duration": "10 ms", "traffic.0.start": "9 ms"}
    result = silvan.run("job-in-network", **settings)
    (job,) = result.summary["jobs"]
    assert job["slowdown"] > sharing.SLOW
    assert told(result) == sharing.links(result, "all-reduce") == []
