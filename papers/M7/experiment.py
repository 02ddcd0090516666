"""Two applications at the same time on a 4-ary 3-fly (MVCM paper, figures 7d and 15)."""

import random

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
NAMES = ("none", "Renato", "Pfister", "MVCM")
COLD, HOT = "all-to-all", "gather"
RANKS = 16


CASE = mvcm.Case(stages=3, share=0.5, duration=3_000_000, window=10_000)


def _jobs():
    """Return two jobs, an all-to-all exchange and a gather, on all hosts in random order."""
    hosts = [f"H{n + 1}" for n in range(2 * RANKS)]
    random.Random("two applications").shuffle(hosts)
    common = {"kind": "collective", "ranks": RANKS}
    return [
        {
            "name": COLD,
            "program": {
                **common,
                "operation": "all-to-all",
                "bytes": "1 KiB",
                "iterations": 100,
                "compute": "5 us",
            },
            "hosts": hosts[:RANKS],
        },
        {
            "name": HOT,
            "program": {
                **common,
                "operation": "gather",
                "bytes": "4 KiB",
                "iterations": 20,
                "compute": "20 us",
            },
            "hosts": hosts[RANKS:],
            "algorithms": {"gather": "linear"},
        },
    ]


def runs(quick):
    of = CASE
    # All ranks but one send in a gather.
    own = {**mvcm.mechanisms(of), "Pfister": mvcm.pfister(of, increase=RANKS - 1)}
    return {
        name: (
            mvcm.SCENARIO,
            {
                "topology.n": of.stages,
                "topology.hosts": of.hosts,
                "duration": f"{of.duration} cycles",
                "measure.interval": "1_000 cycles",
                "traffic": [],
                "job": _jobs(),
                **own[name],
            },
        )
        for name in NAMES
    }


def compare(results):
    cold = {name: mvcm.series(results[name], COLD, CASE.window) for name in NAMES}
    peak = {name: own.peak() for name, own in cold.items()}
    others = [peak[name] for name in NAMES if name != "none"]
    return {
        **{f"{name}_peak": peak[name] for name in NAMES if name != "none"},
        **{f"{name}_mean": cold[name].mean() for name in NAMES if name != "none"},
        "none_over_others": peak["none"] / max(others),
        "MVCM_over_others": peak["MVCM"] / min(others[:-1]),
        "Pfister_over_Renato": peak["Pfister"] / peak["Renato"],
        "mean_MVCM_over_others": cold["MVCM"].mean()
        / min(cold[name].mean() for name in ("Renato", "Pfister")),
    }


def plot(results, out):
    fig, axes = figures.figure(columns=2, rows=2, size=(5.2, 3.2))
    for n, (ax, name) in enumerate(zip(axes, NAMES, strict=True)):
        own = mvcm.series(results[name], COLD, CASE.window)
        ax.plot(own.end_cycles / 1e3, own.latency, color=figures.COLOURS[n], linewidth=1.2)
        ax.set(xlabel="time (1000 cycles)", ylabel="latency (cycles)", title=name, ylim=(0, None))
    figures.save(fig, out, "M7")
