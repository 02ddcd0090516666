"""A windy forest of mixed hosts alone (Paper IV, figure 8)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
MIXED = 100
QUICK = (0, 10, 60, 90, 100)


def runs(quick):
    # With p = 0, no tree needs time to settle, and runs with all hosts at full rate are slow.
    short = {"duration": "5 ms", "warmup": "2 ms"} if quick else {}
    points = [
        (str(p), forest.shares(MIXED, p) | (short if p == 0 else {})) for p in forest.percent(quick, QUICK)
    ]
    return forest.both(quick, points)


def _sweep(results):
    return forest.Sweep(results, MIXED, forest.percent(results.quick, QUICK))


def compare(results):
    sweep = _sweep(results)
    return {
        "gain_p0": sweep.gain(0),
        "gain_p10": sweep.gain(10),
        "gain_p90": sweep.gain(90),
        "gain_peak": max((p for p in sweep.points if p < 100), key=sweep.gain),
        "reached": sweep.reaches((70, 80, 90)),
        "hotspots": min(sweep.hotspots(p, "on") / sweep.hotspots(p, "off") for p in sweep.points),
        "total_p0": sweep.total_gain(0),
        "total_p60": sweep.total_gain(60),
        "total_p100": sweep.total_gain(100),
        "total_peak": sweep.peak(),
    }


PUBLISHED = {"total": ((0, 1.0), (60, 17.0), (100, 1.0))}


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.8, 3.8))
    _sweep(results).draw(axes, PUBLISHED, "100 % B")
    figures.save(fig, out, "F4")
