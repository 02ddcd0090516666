"""Moving silent trees, 60 % victims (Paper IV, figure 9b)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
VICTIMS = 60


def _runs(quick, lifetimes_ms):
    return forest.both(
        quick, [(str(ms), forest.shares(victims=VICTIMS, lifetime_ms=ms)) for ms in lifetimes_ms]
    )


def runs(quick):
    return _runs(quick, forest.COMPARED_MS)


def runs_for_plot(quick):
    return _runs(quick, forest.further_ms(quick))


def compare(results):
    moves = forest.Lifetimes(results, forest.COMPARED_MS)
    return {
        "gain_10": moves.gain(10),
        "gain_1": moves.gain(1),
        "gain_falls": moves.gain(10) / moves.gain(1),
        "growth_off": moves.growth("off"),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    moves = forest.Lifetimes(results, forest.lifetimes_ms(results.quick))
    moves.draw(ax, (), "Moving hotspots, 60 % V, 40 % C")
    figures.save(fig, out, "F6")
