"""Moving windy trees, mixed hosts alone (Paper IV, figure 10)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
PERCENT = (30, 60, 90)


def _runs(quick, lifetimes_ms):
    points = [(p, ms) for p in PERCENT for ms in lifetimes_ms]
    named = [(f"{p} {ms}", forest.shares(100, p, lifetime_ms=ms)) for p, ms in points]
    return forest.both(quick, named)


def runs(quick):
    return _runs(quick, forest.COMPARED_MS)


def runs_for_plot(quick):
    return _runs(quick, forest.further_ms(quick))


def _moves(results, lifetimes_ms):
    return {p: forest.Lifetimes(results, lifetimes_ms, f"{p} ") for p in PERCENT}


def compare(results):
    every = list(_moves(results, forest.COMPARED_MS).values())
    return {
        "gain_least": min(moves.gain(ms) for moves in every for ms in moves.lifetimes_ms),
        "gain_falls": min(moves.gain(10) / moves.gain(1) for moves in every),
        **{f"growth_{control}": min(moves.growth(control) for moves in every) for control in forest.CONTROL},
    }


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.8, 3.8))
    moves = _moves(results, forest.lifetimes_ms(results.quick))
    for ax, (p, own) in zip(axes, moves.items(), strict=True):
        own.draw(ax, (), f"Moving hotspots, 100 % B, p = {p}")
    figures.save(fig, out, "F7")
