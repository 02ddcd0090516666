"""Several jobs on rails: the account of a run names the rails on which they slow each other down."""

from __future__ import annotations

import re

import silvan

TWO_JOBS = """
    duration = "20 ms"
    measure = { interval = "10 us", forest = true }
    packet = { mtu = "4096 B" }
    [topology]
    kind = "two-level-fat-tree"
    leaves = 8
    spines = 1
    hosts_per_leaf = 4
    link_rate = "400 Gbit/s"
    [ports]
    count = 4
    wiring = "rails"
    inner_rate = "3600 Gbit/s"
    [[job]]
    name = "ring"
    ranks_per_host = 4
    hosts = ["H1", "H3", "H5", "H7"]
    algorithms = { all_reduce = "ring" }
    program = { kind = "collective", operation = "all-reduce", ranks = 16, bytes = "8 MiB" }
    [[job]]
    name = "exchange"
    ranks_per_host = 4
    hosts = ["H2", "H4", "H6", "H8"]
    algorithms = { all_to_all = "linear" }
    program = { kind = "collective", operation = "all-to-all", ranks = 16, bytes = "1 MiB" }
"""


def test_shared_links_have_the_names_of_their_rails():
    result = silvan.run(silvan.Scenario.from_toml(TWO_JOBS), alone=True)
    (told,) = (line for line in result.account if line.startswith("Job `ring`") and "alone" in line)
    # A ring leaves a host by the fourth GPU and enters the next one by the first GPU. Leaf switches 1 to 4
    # are the rails of the first hosts, and 5 to 8 those of the others.
    named = re.findall(r"% of that at (\S+) \(rail (\d)\)", told)
    assert len(named) == told.count("% of that at") > 0
    for link, rail in named:
        (leaf,) = re.findall(r"L1\.(\d)", link)
        assert (int(leaf) - 1) % 4 + 1 == int(rail)
    assert {rail for _, rail in named} <= {"1", "4"}
    assert "shared with job `exchange`'s all-to-all" in told
    # Without rails, links have no further names.
    text = TWO_JOBS.replace('"rails"', '"block"')
    assert "(rail" not in "".join(silvan.run(silvan.Scenario.from_toml(text), alone=True).account)
