"""Moving windy trees, mixed hosts alone (Paper IV, figure 10)."""

from silvan.papers import figures, forest

TABLES = ()
PERCENT = (30, 60, 90)


def _lifetimes_ms(quick):
    return (10, 1) if quick else forest.LIFETIMES_MS


def runs(quick):
    points = [(p, ms) for p in PERCENT for ms in _lifetimes_ms(quick)]
    named = [(f"{p} {ms}", forest.shares(100, p, lifetime_ms=ms)) for p, ms in points]
    return forest.both(quick, named)


def _moves(results):
    return {p: forest.Lifetimes(results, _lifetimes_ms(results.quick), f"{p} ") for p in PERCENT}


def compare(results):
    numbers = {}
    for p, moves in _moves(results).items():
        numbers[f"gain_least_{p}"] = min(moves.gain(ms) for ms in moves.lifetimes_ms)
        numbers[f"gain_falls_{p}"] = moves.gain(10) / moves.gain(1)
        for control in forest.CONTROL:
            numbers[f"growth_{control}_{p}"] = moves.growth(control)
    return numbers


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.8, 3.8))
    for ax, (p, moves) in zip(axes, _moves(results).items(), strict=True):
        moves.draw(ax, (), f"Moving hotspots, 100 % B, p = {p}")
    figures.save(fig, out, "F7")
