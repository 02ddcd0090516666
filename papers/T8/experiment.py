"""Throughput at some points of CCTI_Timer and Marking_Rate (Paper III, VII, figures 11, 12 and 14)."""

import numpy as np

from silvan.fairness import treatment_variation
from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")
#: Timers in microseconds. A unit of CCTI_Timer is 1.024 us.
TIMERS_US = (20, 50, 150, 500, 1000, 2000)
RATES = (0, 1, 5, 20)
#: The fourth contributor starts at this time in s, and the run ends a second later.
JOIN_S = 0.5


def _points(quick):
    timers, rates = ((20, 150, 2000), (0, 1, 20)) if quick else (TIMERS_US, RATES)
    return [(timer, rate) for timer in timers for rate in rates]


def _overrides(timer_us, rate):
    starts = {f"flow.{n}.start": "0 s" for n in range(4)}
    return {
        **starts,
        "flow.4.start": f"{round(JOIN_S * 1000)} ms",
        "duration": f"{round(JOIN_S * 1000) + 1000} ms",
        "measure.interval": "10 ms",
        **staged.HOSTS,
        **staged.PAPER_III_CC,
        "congestion.marking.marking_rate": rate,
        "congestion.reaction.ccti_timer": round(timer_us / 1.024),
    }


def runs(quick):
    scenario = "../common/testbed-scenario-1.toml"
    return {f"{timer} {rate}": (scenario, _overrides(timer, rate)) for timer, rate in _points(quick)}


def _surface(results):
    """Return by point the means of the victim and the contributors in Gbit/s, and Var in (Gbit/s)^2."""
    surface = {}
    for timer, rate in _points(results.quick):
        run = results[f"{timer} {rate}"]
        series = np.array([run.samples_gbit_s(f, JOIN_S, JOIN_S + 1) for f in FLOWS])
        surface[timer, rate] = (series[0].mean(), series[1:].mean(), treatment_variation(series[1:]))
    return surface


def compare(results):
    surface = _surface(results)
    good = [values for (timer, rate), values in surface.items() if timer >= 150 and rate <= 1]
    slow = [values for (timer, _), values in surface.items() if timer >= 150]
    return {
        "victim_fast_timer": max(v[0] for (timer, _), v in surface.items() if timer < 50),
        "victim_fast_few_marks": surface[20, 20][0],
        "victim_good": min(v[0] for v in good),
        "contributors_least": min(v[1] for v in slow),
        "contributors_most": max(v[1] for v in slow),
        "var_grows": surface[2000, 1][2] / surface[150, 1][2],
        "var_grows_few_marks": surface[2000, 20][2] / surface[150, 20][2],
    }


def plot(results, out):
    surface = _surface(results)
    timers, rates = (sorted({point[n] for point in surface}) for n in (0, 1))
    titles = ("Victim F1 (Gbit/s)", "Contributors, mean (Gbit/s)", "Var of the contributors ((Gbit/s)$^2$)")
    fig, axes = figures.figure(columns=3, size=(4.6, 3.8))
    for n, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        grid = np.array([[surface[timer, rate][n] for timer in timers] for rate in rates])
        image = ax.imshow(grid, origin="lower", aspect="auto", cmap="viridis")
        ax.set_xticks(range(len(timers)), timers)
        ax.set_yticks(range(len(rates)), rates)
        ax.set(xlabel="CCTI_Timer (us)", ylabel="Marking_Rate", title=title)
        ax.grid(False)
        fig.colorbar(image, ax=ax)
    figures.save(fig, out, "T8")
