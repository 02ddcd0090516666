"""Limits of windows and of fixed settings of InfiniBand, and flows that get explicit rates (SYSTOR 2009)."""

import numpy as np

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
HOSTS = 64
#: Every fourth host sends to `TARGET`. All hosts except these exchange packets in a permutation.
HOT = [f"H{n}" for n in range(4, HOSTS + 1, 4)]
TARGET = "H1"
OTHERS = [f"H{n}" for n in range(1, HOSTS + 1) if f"H{n}" not in (*HOT, TARGET)]
BUFFERS = {"switch.buffer": phases.buffers(2)}
#: A window of one packet without marks. Each packet is acknowledged.
WINDOW = {
    "congestion.mechanism": "mvcm",
    "congestion.marking": {"kind": "none"},
    "congestion.reaction": {"kind": "static-window", "packets": 1},
    "switch.architecture": "voq",
    "switch.queues": "per-output",
}
#: Marking_Rates: all packets are marked, or one of 101.
SETTINGS = {"all": 0, "few": 100}


def _many_to_one():
    others = {"name": "others", "hosts": OTHERS, "pattern": {"kind": "permutation"}}
    hot = {"name": "hot", "hosts": HOT, "pattern": {"kind": "hotspots", "to": [TARGET]}}
    return others, hot


def _run(*traffic, **more):
    """Return a run on 64 hosts whose flows do not end before the end of the run."""
    classes = [{**own, "message": "256 KiB"} for own in traffic]
    length = {"duration": "2 ms", "warmup": "500 us", "measure.hosts": True}
    return phases.SCENARIO, {"topology.k": 4, "traffic": classes, **length, **more}


def runs(quick):
    others, hot = _many_to_one()
    everyone = {"name": "permutation", "pattern": {"kind": "permutation"}}
    control = {
        name: {"congestion.mechanism": "ib-cc", "congestion.marking.marking_rate": rate}
        for name, rate in SETTINGS.items()
    }
    return {
        "window alone": _run(others, **BUFFERS, **WINDOW),
        "window": _run(others, hot, **BUFFERS, **WINDOW),
        **{f"one {name}": _run(others, hot, **own) for name, own in control.items()},
        **{f"permutation {name}": _run(everyone, **own) for name, own in control.items()},
        "announced": phases.run("SAA+AR", 1, quick, {"duration": "10 us", "measure.interval": "10 us"}),
    }


def _rate(run, hosts):
    """Return the total rate that hosts receive, in Gbit/s."""
    return sum(run.host(name)["received_gbit_s"] for name in hosts)


def compare(results):
    others = {name: _rate(results[name], OTHERS) for name in results if name[:3] in ("win", "one")}
    every = [f"H{n}" for n in range(1, HOSTS + 1)]
    of_permutation = {name: _rate(results[f"permutation {name}"], every) for name in SETTINGS}
    return {
        "window_spreads": others["window"] / others["window alone"],
        "one_wants_all": others["one all"] / others["one few"],
        "permutation_wants_few": of_permutation["few"] / of_permutation["all"],
        "permitted": results["announced"].summary["announced"]["flows"] / (512 if results.quick else 4096),
    }


def plot(results, out):
    values = compare(results)
    names = ("window_spreads", "one_wants_all", "permutation_wants_few")
    fig, (ax,) = figures.figure()
    ax.bar(np.arange(3), [values[name] for name in names], color=figures.COLOURS[0])
    ax.axhline(1, color="0.5", linewidth=0.8)
    labels = ("others next to many to one,\nwindow of 1", "many to one:\nall marks over few")
    ax.set_xticks(np.arange(3), [*labels, "permutation:\nfew marks over all"])
    ax.set(ylabel="ratio of throughput")
    figures.save(fig, out, "S5")
