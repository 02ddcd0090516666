"""A windy forest, 25 % mixed hosts (Paper IV, figure 5)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
MIXED = 25
QUICK = (0, 10, 30, 60, 100)


def runs(quick):
    return forest.both(quick, [(str(p), forest.shares(MIXED, p)) for p in forest.percent(quick, QUICK)])


def _sweep(results):
    return forest.Sweep(results, MIXED, forest.percent(results.quick, QUICK))


def compare(results):
    sweep = _sweep(results)
    off, on = (sum(sweep.hotspots(p, c) for p in sweep.points) / len(sweep.points) for c in ("off", "on"))
    gains = [sweep.gain(p) for p in sweep.points if p >= 30]
    return {
        "tmax_p0": sweep.tmax(0),
        "others_p0_on": sweep.others(0, "on"),
        "others_p0_off": sweep.others(0, "off"),
        "gain_p0": sweep.gain(0),
        "reached_p0": sweep.reaches([0]),
        "reached_p10": sweep.reaches([10]),
        "gain_p10": sweep.gain(10),
        "reached_p60": sweep.reaches([60]),
        "reached_p100": sweep.reaches([100]),
        "gain_least": min(gains),
        "gain_most": max(gains),
        "gain_peak": max(sweep.points, key=sweep.gain),
        "hotspots_off": off,
        "hotspots_on": on,
        "loss_percent": 100 * (1 - on / off),
        "total_p100": sweep.total_gain(100),
        "total_p60": sweep.total_gain(60),
        "total_peak": sweep.peak(),
    }


PUBLISHED = {
    "others": ((0, 4.75), (0, 0.55), (0, 5.4)),
    "hotspots": ((0, 13.6), (0, 13.3)),
    "total": ((60, 8.7), (100, 6.0)),
}


#: Shares of t_max that other hosts receive according to the text of the paper, by p.
SHARES = {10: 0.6, 60: 0.8, 100: 0.8}


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.8, 3.8))
    sweep = _sweep(results)
    shares = tuple((p, share * sweep.tmax(p)) for p, share in SHARES.items())
    sweep.draw(axes, {**PUBLISHED, "others": PUBLISHED["others"] + shares}, "25 % B")
    figures.save(fig, out, "F2")
