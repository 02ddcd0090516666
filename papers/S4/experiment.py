"""Periodic selection against the shaped virtual clock (SYSTOR 2009, 6.1 and 6.2)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
#: Space for packets in an input port: the cases that are compared, and those that are only drawn.
COMPARED, DRAWN = (2, 16), (4, 8)
FLOWS = (1, 2, 3, 4, 5)
INJECTION = {"PS": "periodic-selection", "SVC": "shaped-virtual-clock"}
rates = phases.rates


def _runs(quick, buffers):
    # All runs have 512 hosts, because there are twice as many runs as in S3.
    return {
        f"{flows} {packets} {name}": (
            "rates",
            {"permutations": flows, "packets": packets, "k": 8, "injection": kind, "draws": 1},
        )
        for flows in ((3,) if quick else FLOWS)
        for packets in buffers
        for name, kind in INJECTION.items()
    }


def runs(quick):
    return _runs(quick, COMPARED)


def runs_for_plot(quick):
    return {} if quick else _runs(quick, DRAWN)


def _mean(results, packets, name):
    """Return the ratio of the smallest measured to the smallest calculated rate, mean over the flows."""
    own = [run for key, run in results.items() if key.split()[1:] == [str(packets), name]]
    return sum(run.summary["ratio"] for run in own) / len(own)


def compare(results):
    return {
        "small": _mean(results, 2, "PS") / _mean(results, 2, "SVC"),
        "large": _mean(results, 16, "PS") / _mean(results, 16, "SVC"),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    buffers = COMPARED if results.quick else sorted((*COMPARED, *DRAWN))
    for name in INJECTION:
        ax.plot(buffers, [_mean(results, packets, name) for packets in buffers], "o-", label=name)
    ax.set(xlabel="packets per input port", ylabel="least measured over least calculated rate", ylim=(0, 1.1))
    ax.legend(frameon=False)
    figures.save(fig, out, "S4")
