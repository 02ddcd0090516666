"""Windy forests, 50 and 75 % mixed hosts (Paper IV, figures 6 and 7)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
MIXED = (50, 75)
QUICK = (0, 60, 100)


def runs(quick):
    # The longest runs are first, because several runs are executed at the same time.
    points = [(x, p) for x in reversed(MIXED) for p in forest.percent(quick, QUICK)]
    return forest.both(quick, [(f"{x} {p}", forest.shares(x, p)) for x, p in points])


def _sweeps(results):
    return {x: forest.Sweep(results, x, forest.percent(results.quick, QUICK), f"{x} ") for x in MIXED}


def _cap(sweep):
    """Return the gain in total rate at p = 60, divided by the mean of the gains at p = 0 and p = 100."""
    return 2 * sweep.total_gain(60) / (sweep.total_gain(0) + sweep.total_gain(100))


def compare(results):
    sweeps = _sweeps(results)
    numbers = {"gain_least": min(sweep.gain(p) for sweep in sweeps.values() for p in sweep.points)}
    for x, sweep in sweeps.items():
        numbers[f"peak_{x}"] = sweep.peak()
        numbers[f"cap_{x}"] = _cap(sweep)
        numbers[f"hotspots_{x}"] = min(
            sweep.hotspots(p, "on") / sweep.hotspots(p, "off") for p in sweep.points
        )
    half, most = sweeps[50], sweeps[75]
    numbers["cap_grows"] = _cap(most) / _cap(half)
    numbers["peak_grows"] = most.total_gain(60) / half.total_gain(60)
    numbers["tmax_steeper_p0"] = most.tmax(0) / half.tmax(0)
    numbers["tmax_steeper_p100"] = half.tmax(100) / most.tmax(100)
    return numbers


def plot(results, out):
    fig, axes = figures.figure(columns=3, rows=2, size=(4.8, 3.8))
    for row, (x, sweep) in enumerate(_sweeps(results).items()):
        sweep.draw(axes[3 * row : 3 * row + 3], {}, f"{x} % B")
    figures.save(fig, out, "F3")
