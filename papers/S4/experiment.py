"""Periodic selection against the shaped virtual clock (SYSTOR 2009, 6.1 and 6.2)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
BUFFERS = (2, 4, 8, 16)
FLOWS = (1, 2, 3, 4, 5)
INJECTION = {"PS": "periodic-selection", "SVC": "shaped-virtual-clock"}


def runs(quick):
    # All runs have 512 hosts, because there are twice as many runs as in S3.
    return {
        f"{flows} {packets} {name}": phases.run(
            "SAA+AR",
            flows,
            True,
            {"switch.buffer": phases.buffers(packets), "congestion.reaction.injection": kind},
        )
        for flows in ((3,) if quick else FLOWS)
        for packets in ((2, 16) if quick else BUFFERS)
        for name, kind in INJECTION.items()
    }


def _mean(results, packets, name):
    """Return the share of the calculated rates that is reached, mean over the numbers of flows."""
    own = [run for key, run in results.items() if key.split()[1:] == [str(packets), name]]
    return sum(phases.busiest(run) / phases.completion(run) for run in own) / len(own)


def compare(results):
    return {
        "small": _mean(results, 2, "PS") / _mean(results, 2, "SVC"),
        "large": _mean(results, 16, "PS") / _mean(results, 16, "SVC"),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    buffers = (2, 16) if results.quick else BUFFERS
    for name in INJECTION:
        ax.plot(buffers, [_mean(results, packets, name) for packets in buffers], "o-", label=name)
    ax.set(xlabel="packets per input port", ylabel="least measured over least calculated rate", ylim=(0, 1.1))
    ax.legend(frameon=False)
    figures.save(fig, out, "S4")
