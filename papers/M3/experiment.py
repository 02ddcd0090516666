"""The link to the hot host (MVCM paper, figure 6)."""

import numpy as np

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes", "links")
NAMES = ("none", "MVCM")


def _case(quick):
    # All links are sampled, so the sampling interval is longer than in M1.
    return mvcm.case(quick, interval=25_000 if quick else 50_000)


def _after(quick):
    """Return a case in which all hot packets are delivered long before the end of the run."""
    return mvcm.replace(_case(quick), packets=20 if quick else 200, duration=900_000 if quick else 5_000_000)


def runs(quick):
    return {
        f"{name}{when}": of.run({**mvcm.mechanisms(of)[name], "measure.links": True})
        for when, of in (("", _case(quick)), (", after", _after(quick)))
        for name in NAMES
    }


def _utilisation(run, of):
    table = run.tables["links"]
    own = np.char.endswith(table["link"].astype(str), f"->{of.target}")
    return table["time_ns"][own].astype(float), table["utilisation"][own]


def _busy(run, of):
    """Return the utilization in the hot phase, except its first `window` cycles."""
    end, values = _utilisation(run, of)
    start, stop = mvcm.phase(run, of)
    chosen = (end - of.interval >= start + of.window) & (end <= stop)
    return values[chosen]


def _oscillation(run, of):
    """Return the standard deviation of the utilization after the last hot packet has been delivered."""
    hot = mvcm.series(run, "hot", of.interval)
    last = hot.end_cycles[hot.packets > 0].max()
    end, values = _utilisation(run, of)
    return float(values[end - of.interval >= last].std())


def compare(results):
    of = _case(results.quick)
    busy = {name: _busy(results[name], of) for name in NAMES}
    after = {name: _oscillation(results[f"{name}, after"], _after(results.quick)) for name in NAMES}
    return {
        "after_MVCM_over_none": after["MVCM"] / after["none"],
        "MVCM": 100 * float(busy["MVCM"].mean()),
        "MVCM_least": 100 * float(busy["MVCM"].min()),
        "none": 100 * float(busy["none"].mean()),
    }


def plot(results, out):
    of = _case(results.quick)
    fig, axes = figures.figure(columns=2)
    for ax, name in zip(axes, NAMES, strict=True):
        end, values = _utilisation(results[name], of)
        ax.plot(end / 1e3, 100 * values, linewidth=1.2)
        mvcm.shade(ax, results[name], of)
        ax.set(xlabel="time (1000 cycles)", ylabel="utilization (%)", title=name, ylim=(0, 105))
    figures.save(fig, out, "M3")
