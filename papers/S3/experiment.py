"""The share of the calculated rates that a network with small buffers reaches (SYSTOR 2009, table 1)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
BUFFERS = (2, 4, 8, 16)
FLOWS = (1, 2, 3, 4, 5)


def runs(quick):
    return {
        f"{flows} {packets}": phases.run("SAA+AR", flows, quick, {"switch.buffer": phases.buffers(packets)})
        for flows in FLOWS
        for packets in BUFFERS
    }


def _ratio(run):
    """Return the smallest measured rate over the smallest calculated one; all flows have the same size."""
    return phases.busiest(run) / phases.completion(run)


def compare(results):
    return {
        f"n{flows}_b{packets}": _ratio(results[f"{flows} {packets}"])
        for flows in FLOWS
        for packets in BUFFERS
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    for flows, colour in zip(FLOWS, figures.COLOURS, strict=False):
        ratios = [_ratio(results[f"{flows} {packets}"]) for packets in BUFFERS]
        ax.plot(range(len(BUFFERS)), ratios, "o-", color=colour, label=f"{flows} flows per source")
    ax.set_xticks(range(len(BUFFERS)), [str(packets) for packets in BUFFERS])
    ax.set(xlabel="packets per input port", ylabel="least measured over least calculated rate")
    ax.set_ylim(0, 1.1)
    ax.legend(frameon=False, fontsize="small")
    figures.save(fig, out, "S3")
