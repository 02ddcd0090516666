"""Further parameters of the testbed (Paper III, VII): the table and single settings of switches and hosts."""

import numpy as np

from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")
SCENARIO = "../common/testbed-scenario-1.toml"
#: Packet_Size is in units of 64 bytes: 31 is below the 2048 bytes of the packets, 40 above.
BELOW, ABOVE = 31, 40
#: Values of CCTI_Increase. All other cases have the published value, 1.
INCREASES = (2, 4, 8, 16)
CASES = {
    "usual": {},
    "divisor 95": staged.whole_packets(95),
    **{f"threshold {n}": {"congestion.marking.threshold": n} for n in (1, 4, 8, 12)},
    **{f"size {n}": {"congestion.marking.packet_size": n} for n in (0, BELOW, ABOVE)},
    **{
        f"timer 50 us, rate {n}": {"congestion.reaction.ccti_timer": 49, "congestion.marking.marking_rate": n}
        for n in (1, 20)
    },
    **{f"increase {n}": {"congestion.reaction.ccti_increase": n} for n in INCREASES},
}


def _spans_s(quick):
    """Return the start and the end of the compared time, in s."""
    return (0.2, 0.5) if quick else (0.5, 1.0)


def runs(quick):
    _, end_s = _spans_s(quick)
    starts = {f"flow.{n}.start": "0 s" for n in range(5)}
    length = {"duration": f"{round(end_s * 1000)} ms", **starts}
    return {
        name: (SCENARIO, {**length, **staged.HOSTS, **staged.PAPER_III_CC, **own})
        for name, own in CASES.items()
    }


def _numbers(results):
    """Return by case the mean of the victim, and the mean and the standard deviation of the contributors.

    The standard deviation is that over time, as a mean over the contributors. All numbers are in Gbit/s.
    """
    span = _spans_s(results.quick)
    found = {}
    for name, run in results.items():
        series = np.array([run.samples_gbit_s(flow, *span) for flow in FLOWS])
        found[name] = series[0].mean(), series[1:].mean(), series[1:].std(axis=1).mean()
    return found


def compare(results):
    found = _numbers(results)
    victim = {name: own[0] for name, own in found.items()}
    contributors = {name: own[1] for name, own in found.items()}
    other = [name for name in found if name.startswith("threshold")]
    increases = [f"increase {n}" for n in INCREASES]
    total = {name: victim[name] + 4 * contributors[name] for name in found}
    return {
        "divisor_oscillation": found["usual"][2] / found["divisor 95"][2],
        "divisor_mean": contributors["usual"] / contributors["divisor 95"],
        "threshold_victim": victim["usual"] / max(victim[name] for name in other),
        "threshold_total": total["usual"] / max(total[name] for name in other),
        "size_victim": victim[f"size {BELOW}"] / victim["size 0"],
        "size_contributors": contributors[f"size {BELOW}"] / contributors["size 0"],
        "size_too_large": victim[f"size {ABOVE}"] / victim["size 0"],
        "rate_victim": victim["timer 50 us, rate 20"] / victim["timer 50 us, rate 1"],
        "increase_victim": min(victim[name] for name in increases) / victim["usual"],
        "increase_contributors": contributors[increases[-1]] / contributors["usual"],
        "increase_oscillation": found[increases[-1]][2] / found["usual"][2],
    }


def plot(results, out):
    found = _numbers(results)
    fig, (ax,) = figures.figure(size=(7.2, 4.4))
    at = np.arange(len(found))
    ax.barh(at + 0.2, [own[0] for own in found.values()], 0.38, color=figures.COLOURS[0], label="victim")
    ax.barh(
        at - 0.2,
        [own[1] for own in found.values()],
        0.38,
        color=figures.COLOURS[1],
        label="contributors, mean",
    )
    ax.set_yticks(at, list(found))
    ax.set(xlabel="throughput (Gbit/s)")
    ax.grid(False, axis="y")
    ax.legend(frameon=False)
    figures.save(fig, out, "T10")
