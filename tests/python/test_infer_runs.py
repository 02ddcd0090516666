"""Tests the traffic and the roots behind counters that runs of random fabrics wrote.

The command sees only the wiring, the tables and the counters. The bytes of flows and the congestion trees of
the run are the right answers.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest

import silvan
from conftest import command

#: Bytes that a pair may have in buffers, in addition to 5 %.
BUFFERED = 300_000


def hidden(seed):
    """Return a random scenario with an incast and some light flows, and the ends of its flows."""
    rng = random.Random(seed)
    leaves, spines, per_leaf = rng.randint(2, 4), rng.randint(1, 3), rng.randint(3, 5)
    names = [f"H{number}" for number in range(1, leaves * per_leaf + 1)]
    rng.shuffle(names)
    target, senders = names.pop(), rng.randint(3, min(6, len(names) - 2))
    flows = [(names.pop(), target, rng.uniform(1.1, 2.5) / senders) for _ in range(senders)]
    flows += [(names.pop(), names.pop(), rng.uniform(0.1, 0.4)) for _ in range(min(3, len(names) // 2))]
    is_paused = seed % 2 == 0
    control = '[flow_control]\nkind = "pfc"\n[switch]\nbuffer = "300 KiB"\n' if is_paused else ""
    text = (
        f'name = "hidden"\nseed = {seed}\nduration = "{9 if is_paused else 3} ms"\nwarmup = "0 s"\n'
        f'[topology]\nkind = "two-level-fat-tree"\nleaves = {leaves}\nspines = {spines}\n'
        f'hosts_per_leaf = {per_leaf}\nlink_rate = "100 Gbit/s"\n{control}[measure]\ninterval = "500 us"\n'
    )
    for number, (source, destination, share) in enumerate(flows, 1):
        text += (
            f'[[flow]]\nname = "F{number}"\nfrom = "{source}"\nto = "{destination}"\n'
            f'rate = "{min(100 * share, 95):.3f} Gbit/s"\nmessage = "4 KiB"\n'
        )
    return text, {f"F{number}": ends[:2] for number, ends in enumerate(flows, 1)}, is_paused


@pytest.mark.parametrize("seed", [0, 1, 4, 19, 53, 84])
def test_the_traffic_of_a_run_is_found(seed, tmp_path):
    text, ends, is_paused = hidden(seed)
    (tmp_path / "hidden.toml").write_text(text)
    run = silvan.run(tmp_path / "hidden.toml")
    routes = silvan.fabric.route(tmp_path / "hidden.toml")
    (tmp_path / "wiring.topo").write_text(routes.network)
    (tmp_path / "routes.lft").write_text(routes.tables)
    counters = silvan.counters(run)
    # Pauses are known for the whole run only.
    begin, end = (0 if is_paused else 500_000), int(counters.times_ns[-1])
    for name, time in (("before", begin), ("after", end)):
        if is_paused:
            (tmp_path / name).write_bytes(counters.csv(time))
        else:
            (tmp_path / name).write_text(counters.perfquery(time))
    told = silvan.fabric.infer(
        [tmp_path / "wiring.topo", tmp_path / "routes.lft"],
        before=tmp_path / "before",
        after=tmp_path / "after",
        seconds=None if is_paused else (end - begin) / 1e9,
        top=40,
    )
    # The loads of links, with a run of the traffic.
    assert told["forward"]["links_compared"] >= 6
    assert told["forward"]["links_close"] == told["forward"]["links_compared"]
    # The root, as the run has it.
    trees = run.numpy("trees")
    largest = np.argmax(trees["samples"].astype(int))
    assert told["roots"][0]["link"] == trees["root"][largest]
    assert told["waiting_known"] == is_paused
    # The pairs: no claim that excludes the truth.
    flows, truth = run.numpy("flows"), Counter()
    counts = flows["time_ns"] > begin
    for name, octets in zip(flows["flow"][counts], flows["received_bytes"][counts], strict=True):
        truth[ends[name]] += int(octets)
    for pair in told["pairs"]:
        octets = truth[pair["from"], pair["to"]]
        slack = 0.05 * octets + BUFFERED
        assert pair["low_bytes"] - slack <= octets <= pair["high_bytes"] + slack
        assert pair["bytes"] is None or abs(pair["bytes"] - octets) <= slack


def test_prometheus_text_is_read_back(tmp_path):
    text, _, _ = hidden(4)
    (tmp_path / "hidden.toml").write_text(text)
    counters = silvan.counters(silvan.run(tmp_path / "hidden.toml"))
    told = []
    for name, content in (("text", counters.prometheus().encode()), ("table", counters.csv(9_000_000))):
        (tmp_path / name).write_bytes(content)
        arguments = (
            "fabric",
            "infer",
            tmp_path / "hidden.toml",
            "--after",
            tmp_path / name,
            "--seconds",
            "0.009",
        )
        done = command(*arguments, "--no-run", "--json")
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert [one["link"] for one in told[0]["roots"]] == [one["link"] for one in told[1]["roots"]]
    assert told[0]["pairs"][0]["high_bytes"] == pytest.approx(told[1]["pairs"][0]["high_bytes"], rel=1e-6)
