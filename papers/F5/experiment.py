"""Moving silent trees, 20 % victims (Paper IV, figure 9a)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()


def _runs(quick, lifetimes_ms):
    return forest.both(quick, [(str(ms), forest.shares(lifetime_ms=ms)) for ms in lifetimes_ms])


def runs(quick):
    return _runs(quick, forest.COMPARED_MS)


def runs_for_plot(quick):
    return _runs(quick, forest.further_ms(quick))


def compare(results):
    moves = forest.Lifetimes(results, forest.COMPARED_MS)
    return {
        "on_10": moves.mean(10, "on"),
        "off_10": moves.mean(10, "off"),
        "gain_10": moves.gain(10),
        "gain_2": moves.gain(2),
        "gain_1": moves.gain(1),
        "gain_falls": moves.gain(10) / moves.gain(1),
        "growth_off": moves.growth("off"),
        "growth_on": moves.growth("on"),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    moves = forest.Lifetimes(results, forest.lifetimes_ms(results.quick))
    moves.draw(ax, ((10, 723), (10, 467)), "Moving hotspots, 20 % V, 80 % C")
    figures.save(fig, out, "F5")
