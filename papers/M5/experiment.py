"""Static windows of 1, 2 and 5 packets at high load (MVCM paper, figure 4)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
WINDOWS = (1, 2, 5)


def _case(quick):
    # Runs end some time after the last hot packet is delivered. With 1,000 packets per hot host, this would
    # take 17 million cycles.
    if quick:
        return mvcm.case(quick, load=mvcm.HIGH, packets=20, duration=600_000)
    return mvcm.case(quick, load=mvcm.HIGH, packets=200, duration=6_000_000)


def runs(quick):
    of = _case(quick)
    return {str(packets): of.run(mvcm.static_window(packets)) for packets in WINDOWS}


def _numbers(run, of):
    cold, hot = (mvcm.series(run, name, of.window) for name in ("cold", "hot"))
    start = mvcm.hot_start(run)
    delivering = hot.end_cycles[hot.packets > 0]
    before = mvcm.series(run, "cold", of.interval).between(of.interval, start).mean()
    during = cold.between(start, delivering[-1] if len(delivering) else of.duration).mean()
    after = cold.latency[-1]
    return before, during, after


def compare(results):
    of = _case(results.quick)
    own = {packets: _numbers(results[str(packets)], of) for packets in WINDOWS}
    return {
        "during_1_over_2": own[1][1] / own[2][1],
        "during_2_over_5": own[2][1] / own[5][1],
        "after_1": own[1][2] / own[1][0],
        "after_2": own[2][2] / own[2][0],
        "after_1_over_2": own[1][2] / own[2][2],
    }


def plot(results, out):
    of = _case(results.quick)
    own = {f"window {packets}": results[str(packets)] for packets in WINDOWS}
    fig, (ax,) = figures.figure(size=(7.2, 4.2))
    mvcm.draw_latency(ax, own, of, "static windows, high load")
    ax.set_yscale("log")
    ax.legend(frameon=False)
    figures.save(fig, out, "M5")
